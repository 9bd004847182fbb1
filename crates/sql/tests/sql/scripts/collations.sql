# Collations: what is equal, what is unique, what indexes find, what mixes.
CREATE TABLE w (id INT PRIMARY KEY, s VARCHAR(20)) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;
-- ok, 0 rows
INSERT INTO w VALUES (1,'ёлка'),(2,'елка'),(3,'Ǎn'),(4,'an'),(5,'ἀρχή'),(6,'αρχη'),(7,'Ȍ'),(8,'o');
-- ok, 8 rows
SELECT id FROM w WHERE s = 'елка' ORDER BY id;
-- [id]
-- 1
-- 2
SELECT id FROM w WHERE s = 'an' ORDER BY id;
-- [id]
-- 3
-- 4
SELECT id FROM w WHERE s = 'αρχη' ORDER BY id;
-- [id]
-- 5
-- 6
SELECT id FROM w WHERE s LIKE 'O' ORDER BY id;
-- [id]
-- 7
-- 8
SELECT COUNT(DISTINCT s) FROM w;
-- [COUNT(DISTINCT s)]
-- 4
CREATE INDEX s ON w (s);
-- ok, 0 rows
SELECT id FROM w WHERE s = 'ЕЛКА' ORDER BY id;
-- [id]
-- 1
-- 2
SELECT id FROM w WHERE s IN ('AN', 'αρχή') ORDER BY id;
-- [id]
-- 3
-- 4
-- 5
-- 6
SELECT MIN(id), COUNT(*) FROM w GROUP BY s ORDER BY 1;
-- [MIN(id), COUNT(*)]
-- 1 | 2
-- 3 | 2
-- 5 | 2
-- 7 | 2
CREATE TABLE reaction (msg INT, emoji VARCHAR(8), UNIQUE (msg, emoji)) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci;
-- ok, 0 rows
INSERT INTO reaction VALUES (1,'🍣');
-- ok, 1 rows
INSERT INTO reaction VALUES (1,'🍺');
-- ok, 1 rows
INSERT INTO reaction VALUES (1,'ok');
-- ok, 1 rows
INSERT INTO reaction VALUES (1,'ok ');
-- ok, 1 rows
INSERT INTO reaction VALUES (1,'ÓK');
-- ERROR 1062 (23000): Duplicate entry '1-ÓK' for key 'reaction.msg'
SELECT COUNT(*) FROM reaction;
-- [COUNT(*)]
-- 4
SELECT COUNT(*) FROM reaction WHERE emoji = '🍺';
-- [COUNT(*)]
-- 1
SELECT emoji FROM reaction ORDER BY emoji DESC;
-- [emoji]
-- ok 
-- ok
-- 🍺
-- 🍣
SHOW CREATE TABLE reaction;
-- [Table, Create Table]
-- reaction | CREATE TABLE `reaction` (\n  `msg` int DEFAULT NULL,\n  `emoji` varchar(8) DEFAULT NULL,\n  UNIQUE KEY `msg` (`msg`,`emoji`)\n) ENGINE=TIERED DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci
SELECT 'ß' = 'ss' COLLATE utf8mb4_0900_ai_ci, 'æ' = 'ae' COLLATE utf8mb4_0900_ai_ci;
-- ['ß' = 'ss' COLLATE utf8mb4_0900_ai_ci, 'æ' = 'ae' COLLATE utf8mb4_0900_ai_ci]
-- 1 | 1
SELECT 'ß' LIKE 'ss' COLLATE utf8mb4_0900_ai_ci, 'É' LIKE 'e' COLLATE utf8mb4_0900_ai_ci;
-- ['ß' LIKE 'ss' COLLATE utf8mb4_0900_ai_ci, 'É' LIKE 'e' COLLATE utf8mb4_0900_ai_ci]
-- 0 | 1
SELECT 'a' = 'á' COLLATE utf8mb4_0900_as_ci, 'a' = 'A' COLLATE utf8mb4_0900_as_ci, 'a' = 'A' COLLATE utf8mb4_0900_as_cs;
-- ['a' = 'á' COLLATE utf8mb4_0900_as_ci, 'a' = 'A' COLLATE utf8mb4_0900_as_ci, 'a' = 'A' COLLATE utf8mb4_0900_as_cs]
-- 0 | 1 | 0
SELECT 'a' = 'a ' COLLATE utf8mb4_0900_bin, 'a' = 'a ' COLLATE utf8mb4_bin, 'a' = 'a ' COLLATE utf8mb4_unicode_ci;
-- ['a' = 'a ' COLLATE utf8mb4_0900_bin, 'a' = 'a ' COLLATE utf8mb4_bin, 'a' = 'a ' COLLATE utf8mb4_unicode_ci]
-- 0 | 1 | 1
SELECT '🍣' = '🍺' COLLATE utf8mb4_general_ci, '🍣' = '🍺' COLLATE utf8mb4_unicode_ci, '🍣' = '🍺' COLLATE utf8mb4_unicode_520_ci;
-- ['🍣' = '🍺' COLLATE utf8mb4_general_ci, '🍣' = '🍺' COLLATE utf8mb4_unicode_ci, '🍣' = '🍺' COLLATE utf8mb4_unicode_520_ci]
-- 1 | 1 | 0
SELECT LOCATE('É', 'café' COLLATE utf8mb4_0900_ai_ci), LOCATE('É', 'café' COLLATE utf8mb4_0900_as_cs);
-- [LOCATE('É', 'café' COLLATE utf8mb4_0900_ai_ci), LOCATE('É', 'café' COLLATE utf8mb4_0900_as_cs)]
-- 4 | 0
CREATE TABLE mix (g VARCHAR(9) COLLATE utf8mb4_general_ci, u VARCHAR(9) COLLATE utf8mb4_0900_ai_ci, b VARCHAR(9) COLLATE utf8mb4_bin, KEY (u), KEY (g));
-- ok, 0 rows
INSERT INTO mix VALUES ('a', 'A', 'a'), ('ß', 'SS', 'ß'), ('x', 'X ', 'X');
-- ok, 3 rows
SELECT COUNT(*) FROM mix WHERE g = u;
-- ERROR 1267 (HY000): Illegal mix of collations (utf8mb4_general_ci,IMPLICIT) and (utf8mb4_0900_ai_ci,IMPLICIT)
SELECT COUNT(*) FROM mix WHERE g = b;
-- [COUNT(*)]
-- 2
SELECT COUNT(*) FROM mix WHERE u = 'ß';
-- [COUNT(*)]
-- 1
SELECT COUNT(*) FROM mix WHERE u = 'x';
-- [COUNT(*)]
-- 0
SELECT COUNT(*) FROM mix WHERE u = 'X ' COLLATE utf8mb4_bin;
-- [COUNT(*)]
-- 1
SELECT COUNT(*) FROM mix WHERE u = 'X' COLLATE utf8mb4_bin;
-- [COUNT(*)]
-- 1
SELECT COUNT(*) FROM mix WHERE u = 'A' COLLATE utf8mb4_0900_as_cs;
-- [COUNT(*)]
-- 1
SELECT COUNT(*) FROM mix a JOIN mix b ON a.u = b.u;
-- [COUNT(*)]
-- 3
SELECT COUNT(*) FROM mix a JOIN mix b ON a.g = b.u COLLATE utf8mb4_general_ci;
-- [COUNT(*)]
-- 2
SELECT COUNT(*) FROM mix WHERE g COLLATE utf8mb4_bin = u COLLATE utf8mb4_0900_ai_ci;
-- ERROR 1267 (HY000): Illegal mix of collations (utf8mb4_bin,EXPLICIT) and (utf8mb4_0900_ai_ci,EXPLICIT)
SELECT u FROM mix WHERE u BETWEEN 'a' AND 'sz' ORDER BY u;
-- [u]
-- A
-- SS
SELECT GROUP_CONCAT(DISTINCT u ORDER BY u DESC) FROM mix;
-- [GROUP_CONCAT(DISTINCT u ORDER BY u DESC)]
-- X ,SS,A
SELECT COUNT(*) FROM mix WHERE g = u COLLATE utf8mb4_0900_as_cs;
-- [COUNT(*)]
-- 0
SELECT COUNT(*) FROM mix WHERE g COLLATE utf8mb4_general_ci = u;
-- [COUNT(*)]
-- 2
SELECT g FROM mix WHERE g COLLATE utf8mb4_bin = 'A';
-- [g]
SELECT g FROM mix WHERE g COLLATE utf8mb4_bin = 'a';
-- [g]
-- a
SELECT u FROM mix WHERE u COLLATE utf8mb4_0900_as_cs > 'a' ORDER BY u COLLATE utf8mb4_bin;
-- [u]
-- A
-- SS
-- X 
SELECT COUNT(*) FROM mix WHERE u COLLATE utf8mb4_unicode_ci = 'x';
-- [COUNT(*)]
-- 1
SELECT COUNT(*) FROM mix WHERE u COLLATE utf8mb4_0900_bin = 'X';
-- [COUNT(*)]
-- 0
ALTER TABLE mix MODIFY u VARCHAR(9) COLLATE utf8mb4_bin;
-- ok, 0 rows
SELECT COUNT(*) FROM mix WHERE u = 'a';
-- [COUNT(*)]
-- 0
ALTER TABLE mix MODIFY u VARCHAR(9) COLLATE utf8mb4_german2_ci;
-- ERROR 1273 (HY000): Unknown collation: 'utf8mb4_german2_ci'
SELECT 1 FROM mix ORDER BY g COLLATE utf8mb4_swedish_ci;
-- ERROR 1273 (HY000): Unknown collation: 'utf8mb4_swedish_ci'
CREATE TABLE pad (id INT PRIMARY KEY, g VARCHAR(9) COLLATE utf8mb4_general_ci, u VARCHAR(9) COLLATE utf8mb4_unicode_ci, b VARCHAR(9) COLLATE utf8mb4_bin, n VARCHAR(9) COLLATE utf8mb4_0900_bin, KEY (g), KEY (u), KEY (b), KEY (n));
-- ok, 0 rows
INSERT INTO pad (id, g) VALUES (1,'a'),(2,'a\t'),(3,'A '),(4,'a!'),(5,'a \n'),(6,'a \0'),(7,''),(8,'\t'),(9,'ab'),(10,'a  b'),(11,'a b');
-- ok, 11 rows
UPDATE pad SET u = g, b = g, n = g;
-- ok, 11 rows
SELECT GROUP_CONCAT(id ORDER BY g, id) AS g, GROUP_CONCAT(id ORDER BY u, id) AS u, GROUP_CONCAT(id ORDER BY b, id) AS b, GROUP_CONCAT(id ORDER BY n, id) AS n FROM pad;
-- [g, u, b, n]
-- 8,7,2,6,5,1,3,10,11,4,9 | 8,7,2,5,1,3,6,10,11,4,9 | 8,7,3,2,6,5,1,10,11,4,9 | 7,8,3,1,2,6,5,10,11,4,9
SELECT id FROM pad WHERE g < 'a' ORDER BY g;
-- [id]
-- 8
-- 7
-- 2
-- 6
-- 5
SELECT id FROM pad WHERE u BETWEEN 'a' AND 'a!' ORDER BY u, id;
-- [id]
-- 1
-- 3
-- 6
-- 10
-- 11
-- 4
SELECT id FROM pad WHERE b > 'a' ORDER BY b;
-- [id]
-- 10
-- 11
-- 4
-- 9
SELECT id FROM pad WHERE n > 'a' ORDER BY n;
-- [id]
-- 2
-- 6
-- 5
-- 10
-- 11
-- 4
-- 9
SELECT COUNT(DISTINCT g), COUNT(DISTINCT u), COUNT(DISTINCT b), COUNT(DISTINCT n) FROM pad;
-- [COUNT(DISTINCT g), COUNT(DISTINCT u), COUNT(DISTINCT b), COUNT(DISTINCT n)]
-- 10 | 9 | 11 | 11
SELECT HEX(MIN(g)), HEX(MIN(b)), HEX(MAX(u)) FROM pad;
-- [HEX(MIN(g)), HEX(MIN(b)), HEX(MAX(u))]
-- 09 | 09 | 6162
SELECT 'a\t' < 'a' AS g, 'a\t' < 'a' COLLATE utf8mb4_unicode_ci AS u, 'a\t' < 'a' COLLATE utf8mb4_0900_ai_ci AS n, 'a \0' = 'a' COLLATE utf8mb4_unicode_520_ci AS equal, STRCMP('a\n', 'a ') AS strcmp;
-- [g, u, n, equal, strcmp]
-- 1 | 1 | 0 | 1 | -1
SHOW COLLATION;
-- [Collation, Charset, Id, Default, Compiled, Sortlen, Pad_attribute]
-- utf8mb4_general_ci | utf8mb4 | 45 | Yes | Yes | 1 | PAD SPACE
-- utf8mb4_bin | utf8mb4 | 46 |  | Yes | 1 | PAD SPACE
-- binary | binary | 63 | Yes | Yes | 1 | NO PAD
-- utf8mb4_unicode_ci | utf8mb4 | 224 |  | Yes | 1 | PAD SPACE
-- utf8mb4_unicode_520_ci | utf8mb4 | 246 |  | Yes | 1 | PAD SPACE
-- utf8mb4_0900_ai_ci | utf8mb4 | 255 |  | Yes | 1 | NO PAD
-- utf8mb4_0900_as_ci | utf8mb4 | 305 |  | Yes | 1 | NO PAD
-- utf8mb4_0900_as_cs | utf8mb4 | 278 |  | Yes | 1 | NO PAD
-- utf8mb4_0900_bin | utf8mb4 | 309 |  | Yes | 1 | NO PAD
