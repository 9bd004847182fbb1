# What rows have in a column that was added later stays, whatever becomes of its default.
CREATE TABLE a (id INT PRIMARY KEY);
-- ok, 0 rows
INSERT INTO a VALUES (1), (2);
-- ok, 2 rows
ALTER TABLE a ADD COLUMN n INT NOT NULL DEFAULT 7, ADD COLUMN s VARCHAR(5) DEFAULT 'old', ADD COLUMN z DATE NOT NULL;
-- ok, 0 rows
CREATE INDEX n ON a (n);
-- ok, 0 rows
ALTER TABLE a ALTER COLUMN n SET DEFAULT 9, ALTER COLUMN s DROP DEFAULT;
-- ok, 0 rows
INSERT INTO a (id, s, z) VALUES (3, 'new', '2020-01-01');
-- ok, 1 rows
SELECT * FROM a;
-- [id, n, s, z]
-- 1 | 7 | old | 0000-00-00
-- 2 | 7 | old | 0000-00-00
-- 3 | 9 | new | 2020-01-01
SELECT id FROM a WHERE n = 7;
-- [id]
-- 1
-- 2
ALTER TABLE a MODIFY n INT NOT NULL DEFAULT 11;
-- ok, 0 rows
ALTER TABLE a CHANGE s t VARCHAR(5) DEFAULT 'third';
-- ok, 0 rows
SELECT * FROM a;
-- [id, n, t, z]
-- 1 | 7 | old | 0000-00-00
-- 2 | 7 | old | 0000-00-00
-- 3 | 9 | new | 2020-01-01
SELECT id FROM a WHERE n = 7;
-- [id]
-- 1
-- 2
UPDATE a SET t = 'x' WHERE n = 7 AND id = 1;
-- ok, 1 rows
ALTER TABLE a MODIFY t VARCHAR(6) DEFAULT 'fourth', ADD COLUMN e INT DEFAULT 1 FIRST;
-- ok, 0 rows
INSERT INTO a (id, z) VALUES (4, '2020-01-01');
-- ok, 1 rows
SELECT * FROM a;
-- [e, id, n, t, z]
-- 1 | 1 | 7 | x | 0000-00-00
-- 1 | 2 | 7 | old | 0000-00-00
-- 1 | 3 | 9 | new | 2020-01-01
-- 1 | 4 | 11 | fourth | 2020-01-01
SHOW CREATE TABLE a;
-- [Table, Create Table]
-- a | CREATE TABLE `a` (\n  `e` int DEFAULT '1',\n  `id` int NOT NULL,\n  `n` int NOT NULL DEFAULT '11',\n  `t` varchar(6) DEFAULT 'fourth',\n  `z` date NOT NULL,\n  PRIMARY KEY (`id`),\n  KEY `n` (`n`)\n) ENGINE=TIERED DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci
# Several clauses, also those that the parser does not know.
CREATE TABLE b (a INT, engine INT);
-- ok, 0 rows
INSERT INTO b VALUES (1, 2);
-- ok, 1 rows
ALTER TABLE b ENGINE=innodb, ADD COLUMN c INT DEFAULT 3;
-- ok, 0 rows, 2 warnings
ALTER TABLE b MODIFY engine BIGINT, COMMENT='two words', ADD INDEX (engine), AUTO_INCREMENT=5;
-- ok, 0 rows
ALTER TABLE b ENGINE=TIERED ROW_FORMAT=DYNAMIC;
-- ok, 0 rows, 1 warnings
ALTER TABLE b DISABLE KEYS;
-- ok, 0 rows
ALTER TABLE b ADD COLUMN (d INT, e INT DEFAULT 4), FORCE;
-- ok, 0 rows
ALTER TABLE b ADD UNIQUE KEY both_ (a, c), RENAME INDEX engine TO by_engine, DROP COLUMN d;
-- ok, 0 rows
ALTER TABLE b nonsense;
-- ERROR 1064 (42000): You have an error in your SQL syntax: sql parser error: Expected: ADD, RENAME, PARTITION, SWAP, DROP, REPLICA IDENTITY, SET, or SET TBLPROPERTIES after ALTER TABLE, found: nonsense
ALTER TABLE b ADD COLUMN;
-- ERROR 1064 (42000): You have an error in your SQL syntax: sql parser error: Expected: identifier, found: EOF
ALTER TABLE b DROP COLUMN e, ;
-- ERROR 1064 (42000): You have an error in your SQL syntax: sql parser error: Expected: ADD, RENAME, PARTITION, SWAP, DROP, REPLICA IDENTITY, SET, or SET TBLPROPERTIES after ALTER TABLE, found: EOF
ALTER TABLE b RENAME bb;
-- ok, 0 rows
ALTER TABLE bb RENAME TO b, ALGORITHM=INSTANT;
-- ok, 0 rows
ALTER TABLE b ADD INDEX (a), ALGORITHM=INSTANT;
-- ERROR 1845 (0A000): ALGORITHM=INSTANT is not supported for this operation. Try ALGORITHM=COPY/INPLACE.
ALTER TABLE b ADD INDEX (a), LOCK=NONE;
-- ok, 0 rows
SHOW CREATE TABLE b;
-- [Table, Create Table]
-- b | CREATE TABLE `b` (\n  `a` int DEFAULT NULL,\n  `engine` bigint DEFAULT NULL,\n  `c` int DEFAULT '3',\n  `e` int DEFAULT '4',\n  KEY `by_engine` (`engine`),\n  UNIQUE KEY `both_` (`a`,`c`),\n  KEY `a` (`a`)\n) ENGINE=TIERED DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci COMMENT='two words'
SELECT * FROM b;
-- [a, engine, c, e]
-- 1 | 2 | 3 | 4
# Names of columns.
ALTER TABLE b RENAME COLUMN a TO c;
-- ERROR 1060 (42S21): Duplicate column name 'c'
ALTER TABLE b CHANGE a c INT;
-- ERROR 1060 (42S21): Duplicate column name 'c'
ALTER TABLE b RENAME COLUMN a TO c, RENAME COLUMN c TO a;
-- ok, 0 rows
SELECT a, c FROM b;
-- [a, c]
-- 3 | 1
CREATE TABLE n (x INT, y INT, CHECK (n.x < y), CONSTRAINT named CHECK (x <> 7));
-- ok, 0 rows
ALTER TABLE n RENAME COLUMN x TO z;
-- ok, 0 rows
INSERT INTO n VALUES (2, 1);
-- ERROR 3819 (23000): Check constraint 'n_chk_1' is violated.
INSERT INTO n VALUES (7, 8);
-- ERROR 3819 (23000): Check constraint 'named' is violated.
ALTER TABLE n CHANGE y x BIGINT, DROP COLUMN z;
-- ERROR 3959 (HY000): Check constraint 'n_chk_1' uses column 'z', hence column cannot be dropped or renamed.
ALTER TABLE n DROP CHECK named, ADD CHECK (z > 0), RENAME TO m;
-- ok, 0 rows
SHOW CREATE TABLE m;
-- [Table, Create Table]
-- m | CREATE TABLE `m` (\n  `z` int DEFAULT NULL,\n  `y` int DEFAULT NULL,\n  CONSTRAINT `m_chk_1` CHECK (`z` < y),\n  CONSTRAINT `m_chk_2` CHECK (z > 0)\n) ENGINE=TIERED DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci
ALTER TABLE m DROP CHECK m_chk_1, ADD CHECK (y > 0);
-- ok, 0 rows
ALTER TABLE m DROP CHECK m_chk_1;
-- ERROR 3821 (HY000): Check constraint 'm_chk_1' is not found in the table.
INSERT INTO m VALUES (5, 6);
-- ok, 1 rows
ALTER TABLE m ADD CONSTRAINT m_chk_3 CHECK (z = 1);
-- ERROR 3822 (HY000): Duplicate check constraint name 'm_chk_3'.
ALTER TABLE m ADD CHECK (z = 1);
-- ERROR 3819 (23000): Check constraint 'm_chk_4' is violated.
ALTER TABLE m ADD CHECK (z = 1) NOT ENFORCED;
-- ok, 0 rows
ALTER TABLE m ALTER CHECK m_chk_4 ENFORCED;
-- ERROR 3819 (23000): Check constraint 'm_chk_4' is violated.
ALTER TABLE m ADD CHECK (missing = 1);
-- ERROR 3820 (HY000): Check constraint 'm_chk_5' refers to non-existing column 'missing'.
ALTER TABLE m ADD CHECK (z IN (SELECT 1));
-- ERROR 3815 (HY000): An expression of a check constraint 'm_chk_5' contains disallowed function.
ALTER TABLE m DROP CHECK absent;
-- ERROR 3821 (HY000): Check constraint 'absent' is not found in the table.
CREATE TABLE bad (a INT, CHECK (b > 1));
-- ERROR 3820 (HY000): Check constraint 'bad_chk_1' refers to non-existing column 'b'.
CREATE TABLE bad (a INT AUTO_INCREMENT PRIMARY KEY, CHECK (a > 1));
-- ERROR 3818 (HY000): Check constraint 'bad_chk_1' cannot refer to an auto-increment column.
CREATE TABLE bad (a INT DEFAULT (b + 1));
-- ERROR 1054 (42S22): Unknown column 'b' in 'field list'
DROP TABLE m, n;
-- ERROR 1051 (42S02): Unknown table 'test.n'
# Keys.
CREATE TABLE k (id INT NOT NULL, s VARCHAR(20), t TEXT, KEY (s(5)));
-- ok, 0 rows
ALTER TABLE k MODIFY s TEXT;
-- ok, 0 rows
ALTER TABLE k DROP INDEX s, ADD INDEX (s);
-- ERROR 1170 (42000): BLOB/TEXT column 's' used in key specification without a key length
ALTER TABLE k MODIFY s TEXT;
-- ok, 0 rows
ALTER TABLE k ADD PRIMARY KEY (t);
-- ERROR 1170 (42000): BLOB/TEXT column 't' used in key specification without a key length
ALTER TABLE k ADD INDEX (t(3)), ADD INDEX (id(3));
-- ERROR 1089 (HY000): Incorrect prefix key; the used key part isn't a string, the used length is longer than the key part, or the storage engine doesn't support unique prefix keys
ALTER TABLE k ADD INDEX (id, id);
-- ERROR 1060 (42S21): Duplicate column name 'id'
ALTER TABLE k ADD INDEX `PRIMARY` (id);
-- ERROR 1280 (42000): Incorrect index name 'PRIMARY'
ALTER TABLE k ADD COLUMN u INT UNIQUE, ADD COLUMN p INT AUTO_INCREMENT PRIMARY KEY FIRST;
-- ok, 0 rows
INSERT INTO k (id, u) VALUES (1, 1), (2, 2);
-- ok, 2 rows, id 1
INSERT INTO k (id, u) VALUES (3, 2);
-- ERROR 1062 (23000): Duplicate entry '2' for key 'k.u'
ALTER TABLE k ADD COLUMN v INT DEFAULT 1 UNIQUE;
-- ERROR 1062 (23000): Duplicate entry '1' for key 'k.v'
ALTER TABLE k DROP PRIMARY KEY;
-- ERROR 1075 (42000): Incorrect table definition; there can be only one auto column and it must be defined as a key
ALTER TABLE k MODIFY p INT;
-- ok, 0 rows
DROP INDEX `PRIMARY` ON k;
-- ok, 0 rows
DROP INDEX `PRIMARY` ON k;
-- ERROR 1091 (42000): Can't DROP 'PRIMARY'; check that column/key exists
ALTER TABLE k ADD PRIMARY KEY (id), DROP INDEX u;
-- ok, 0 rows
SELECT p, id, u FROM k;
-- [p, id, u]
-- 1 | 1 | 1
-- 2 | 2 | 2
INSERT INTO k (id) VALUES (1);
-- ERROR 1364 (HY000): Field 'p' doesn't have a default value
ALTER TABLE k ADD COLUMN at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP, ADD COLUMN r VARCHAR(40) DEFAULT (CONCAT('x', 1 + 1)), ADD COLUMN j JSON;
-- ok, 0 rows
SELECT p, id, at > '2020-01-01', r, j FROM k;
-- [p, id, at > '2020-01-01', r, j]
-- 1 | 1 | 1 | x2 | NULL
-- 2 | 2 | 1 | x2 | NULL
ALTER TABLE k MODIFY u TINYINT NOT NULL, MODIFY r INT;
-- ERROR 1366 (HY000): Incorrect integer value: 'x2' for column 'r' at row 1
ALTER TABLE k MODIFY r JSON;
-- ERROR 3140 (22032): Invalid JSON text for column 'r' at row 1
UPDATE k SET u = NULL;
-- ok, 2 rows
ALTER TABLE k MODIFY u INT NOT NULL;
-- ERROR 1138 (22004): Invalid use of NULL value
SHOW CREATE TABLE k;
-- [Table, Create Table]
-- k | CREATE TABLE `k` (\n  `p` int NOT NULL,\n  `id` int NOT NULL,\n  `s` text,\n  `t` text,\n  `u` int DEFAULT NULL,\n  `at` datetime(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),\n  `r` varchar(40) DEFAULT (CONCAT('x', 1 + 1)),\n  `j` json,\n  PRIMARY KEY (`id`),\n  KEY `s` (`s`(5))\n) ENGINE=TIERED DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci
# Types.
CREATE TABLE bad (a DECIMAL(5,7));
-- ERROR 1427 (42000): For float(M,D), double(M,D) or decimal(M,D), M must be >= D (column 'a').
CREATE TABLE bad (a DECIMAL(66,2));
-- ERROR 1426 (42000): Too-big precision 66 specified for 'a'. Maximum is 65.
CREATE TABLE bad (a DECIMAL(40,31));
-- ERROR 1425 (42000): Too big scale 31 specified for column 'a'. Maximum is 30.
CREATE TABLE bad (a CHAR(256));
-- ERROR 1074 (42000): Column length too big for column 'a' (max = 255); use BLOB or TEXT instead
CREATE TABLE bad (a VARCHAR(20000));
-- ERROR 1074 (42000): Column length too big for column 'a' (max = 16383); use BLOB or TEXT instead
CREATE TABLE bad (a BIT(65));
-- ERROR 1439 (42000): Display width out of range for column 'a' (max = 64)
CREATE TABLE bad (a DATETIME(7));
-- ERROR 1426 (42000): Too-big precision 7 specified for 'a'. Maximum is 6.
CREATE TABLE bad (a ENUM('x', 'X'));
-- ERROR 1291 (HY000): Column 'a' has duplicated value 'X' in ENUM
CREATE TABLE bad (a VARCHAR(10) COLLATE klingon_ci);
-- ERROR 1273 (HY000): Unknown collation: 'klingon_ci'
CREATE TABLE bad (a VARCHAR(10) CHARACTER SET klingon);
-- ERROR 1115 (42000): Unknown character set: 'klingon'
CREATE TABLE bad (a VARCHAR(10) AUTO_INCREMENT PRIMARY KEY);
-- ERROR 1063 (42000): Incorrect column specifier for column 'a'
CREATE TABLE bad (a INT NOT NULL DEFAULT NULL);
-- ERROR 1067 (42000): Invalid default value for 'a'
CREATE TABLE bad (a INT, A INT);
-- ERROR 1060 (42S21): Duplicate column name 'A'
CREATE TABLE good (a CHARACTER VARYING(10), b ENUM('x)', 'y\\', 'it''s', 'a,b') DEFAULT 'x)', c INT KEY);
-- ok, 0 rows
INSERT INTO good VALUES ('0123456789', 'y\\', 1), ('', 'it''s', 2), ('', 'a,b', 3), ('', DEFAULT, 4);
-- ok, 4 rows
SELECT * FROM good ORDER BY b;
-- [a, b, c]
--  | x) | 4
-- 0123456789 | y\ | 1
--  | it's | 2
--  | a,b | 3
SHOW CREATE TABLE good;
-- [Table, Create Table]
-- good | CREATE TABLE `good` (\n  `a` varchar(10) DEFAULT NULL,\n  `b` enum('x)','y\\','it''s','a,b') DEFAULT 'x)',\n  `c` int NOT NULL,\n  PRIMARY KEY (`c`)\n) ENGINE=TIERED DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci
ALTER TABLE good CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
-- ok, 0 rows
SHOW CREATE TABLE good;
-- [Table, Create Table]
-- good | CREATE TABLE `good` (\n  `a` varchar(10) DEFAULT NULL,\n  `b` enum('x)','y\\','it''s','a,b') DEFAULT 'x)',\n  `c` int NOT NULL,\n  PRIMARY KEY (`c`)\n) ENGINE=TIERED DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin
# Databases, and tables that change their names.
CREATE DATABASE d COLLATE utf8mb4_bin;
-- ok, 0 rows
CREATE TABLE d.x (a VARCHAR(3));
-- ok, 0 rows
SHOW CREATE TABLE d.x;
-- [Table, Create Table]
-- x | CREATE TABLE `x` (\n  `a` varchar(3) DEFAULT NULL\n) ENGINE=TIERED DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin
ALTER DATABASE d CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;
-- ok, 0 rows
CREATE TABLE d.y LIKE d.x;
-- ok, 0 rows
INSERT INTO d.x VALUES ('x');
-- ok, 1 rows
INSERT INTO d.y VALUES ('y');
-- ok, 1 rows
RENAME TABLE d.x TO d.z, d.y TO d.x, d.z TO d.y;
-- ok, 0 rows
SELECT * FROM d.x;
-- [a]
-- y
RENAME TABLE d.x TO d.y;
-- ERROR 1050 (42S01): Table 'y' already exists
ALTER TABLE d.x RENAME nowhere.x;
-- ERROR 1049 (42000): Unknown database 'nowhere'
DROP DATABASE d;
-- ok, 0 rows
DROP DATABASE d;
-- ERROR 1008 (HY000): Can't drop database 'd'; database doesn't exist
ALTER DATABASE d CHARACTER SET utf8mb4;
-- ERROR 1049 (42000): Unknown database 'd'
# Defaults that are computed.
CREATE TABLE now (a INT DEFAULT NOW());
-- ERROR 1067 (42000): Invalid default value for 'a'
CREATE TABLE now (a INT ON UPDATE CURRENT_TIMESTAMP);
-- ERROR 1294 (HY000): Invalid ON UPDATE clause for 'a' column
CREATE TABLE now (a DATETIME DEFAULT (NOW() + INTERVAL 1 DAY), b VARCHAR(30) DEFAULT (NOW()), c DATE DEFAULT (CURRENT_DATE), d TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3), e DATETIME DEFAULT LOCALTIME, f DATETIME DEFAULT (NOW()));
-- ok, 0 rows
INSERT INTO now () VALUES ();
-- ok, 1 rows
SELECT a > NOW() + INTERVAL 1 HOUR, b > '2020-01-01', c = DATE(d), e > '2020-01-01' FROM now;
-- [a > NOW() + INTERVAL 1 HOUR, b > '2020-01-01', c = DATE(d), e > '2020-01-01']
-- 1 | 1 | 1 | 1
SHOW CREATE TABLE now;
-- [Table, Create Table]
-- now | CREATE TABLE `now` (\n  `a` datetime DEFAULT (NOW() + INTERVAL 1 DAY),\n  `b` varchar(30) DEFAULT (NOW()),\n  `c` date DEFAULT (CURRENT_DATE),\n  `d` timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3),\n  `e` datetime DEFAULT CURRENT_TIMESTAMP,\n  `f` datetime DEFAULT CURRENT_TIMESTAMP\n) ENGINE=TIERED DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci
CREATE TABLE checked (a INT, CHECK (a > RAND()));
-- ERROR 3814 (HY000): An expression of a check constraint 'checked_chk_1' contains disallowed function: rand.
CREATE TABLE checked (a DATETIME, CHECK (a > NOW()));
-- ERROR 3814 (HY000): An expression of a check constraint 'checked_chk_1' contains disallowed function: now.
# Changes of columns that leave rows as they are.
CREATE TABLE wide (id TINYINT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(5) NOT NULL, e ENUM('b', 'a'), c CHAR(3), l TINYTEXT, KEY (v), KEY (e), KEY (c));
-- ok, 0 rows
INSERT INTO wide (v, e, c) VALUES ('one', 'a', 'x'), ('two', 'b', 'y');
-- ok, 2 rows, id 1
ALTER TABLE wide MODIFY id INT AUTO_INCREMENT, MODIFY v VARCHAR(50) NOT NULL, MODIFY e ENUM('b', 'a', 'c'), MODIFY c CHAR(9), MODIFY l LONGTEXT, ALGORITHM=INSTANT;
-- ok, 0 rows
INSERT INTO wide VALUES (300, 'three and more', 'c', 'z23456789', NULL), (NULL, 'four', NULL, NULL, REPEAT('l', 300));
-- ok, 2 rows, id 301
SELECT id FROM wide WHERE v = 'two';
-- [id]
-- 2
SELECT id FROM wide WHERE v = 'three and more' AND e = 'c';
-- [id]
-- 300
SELECT id FROM wide WHERE e = 'a';
-- [id]
-- 1
SELECT id, v, e, c, LENGTH(l) FROM wide ORDER BY e;
-- [id, v, e, c, LENGTH(l)]
-- 301 | four | NULL | NULL | 300
-- 2 | two | b | y | NULL
-- 1 | one | a | x | NULL
-- 300 | three and more | c | z23456789 | NULL
ALTER TABLE wide MODIFY v VARCHAR(4) NOT NULL, ALGORITHM=INSTANT;
-- ERROR 1845 (0A000): ALGORITHM=INSTANT is not supported for this operation. Try ALGORITHM=COPY.
ALTER TABLE wide MODIFY v VARCHAR(50), ALGORITHM=INSTANT;
-- ok, 0 rows
ALTER TABLE wide MODIFY v VARCHAR(4) NOT NULL;
-- ERROR 1406 (22001): Data too long for column 'v' at row 3
ALTER TABLE wide MODIFY e ENUM('a', 'b', 'c');
-- ok, 0 rows
SELECT id, e FROM wide ORDER BY e;
-- [id, e]
-- 301 | NULL
-- 1 | a
-- 2 | b
-- 300 | c
SELECT id FROM wide WHERE e = 'a';
-- [id]
-- 1
# Names with slashes.
CREATE DATABASE `x/y`;
-- ok, 0 rows
CREATE DATABASE x;
-- ok, 0 rows
CREATE TABLE `x/y`.z (of_the_first INT);
-- ok, 0 rows
CREATE TABLE x.`y/z` (of_the_second INT);
-- ok, 0 rows
DESCRIBE `x/y`.z;
-- [Field, Type, Null, Key, Default, Extra]
-- of_the_first | int | YES |  | NULL | 
DESCRIBE x.`y/z`;
-- [Field, Type, Null, Key, Default, Extra]
-- of_the_second | int | YES |  | NULL | 
DROP DATABASE x;
-- ok, 0 rows
SELECT * FROM `x/y`.z;
-- [of_the_first]
# What is left out.
LOCK TABLES;
-- ERROR 1064 (42000): You have an error in your SQL syntax: write LOCK TABLES t READ, or WRITE
RENAME TABLE;
-- ERROR 1064 (42000): You have an error in your SQL syntax: write RENAME TABLE a TO b
CREATE TABLE zz (a VARCHAR);
-- ERROR 1064 (42000): You have an error in your SQL syntax: near 'VARCHAR': it needs a length
CREATE TABLE zz (a VARBINARY);
-- ERROR 1064 (42000): You have an error in your SQL syntax: near 'VARBINARY': it needs a length
CREATE TABLE zz (a DOUBLE(5,2));
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'decimals of DOUBLE(5,2)'
CREATE TABLE zz (a INT, INDEX i (a), INDEX i (a));
-- ERROR 1061 (42000): Duplicate key name 'i'
CREATE TABLE zz (e ENUM('x','y') NOT NULL, n INT);
-- ok, 0 rows
INSERT INTO zz (n) VALUES (1);
-- ok, 1 rows
SELECT * FROM zz;
-- [e, n]
-- x | 1
# Times in the session's zone.
CREATE TABLE tz (id INT AUTO_INCREMENT PRIMARY KEY, a INT, t TIMESTAMP NULL DEFAULT NULL, UNIQUE (a));
-- ok, 0 rows
SET time_zone = '+05:00';
-- ok, 0 rows
INSERT INTO tz (a, t) VALUES (1, '2024-01-01 00:00:00'), (2, NULL);
-- ok, 2 rows, id 1
ALTER TABLE tz ADD COLUMN d DATETIME DEFAULT CURRENT_TIMESTAMP, ADD COLUMN u TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, ADD COLUMN k TIMESTAMP DEFAULT '2024-06-01 12:00:00';
-- ok, 0 rows
SELECT id, t, TIMESTAMPDIFF(MINUTE, d, u), k FROM tz;
-- [id, t, TIMESTAMPDIFF(MINUTE, d, u), k]
-- 1 | 2024-01-01 00:00:00 | 0 | 2024-06-01 12:00:00
-- 2 | NULL | 0 | 2024-06-01 12:00:00
ALTER TABLE tz ADD CHECK (t < '2024-01-01 00:00:01');
-- ok, 0 rows
ALTER TABLE tz ADD CHECK (t < '2024-01-01 00:00:00');
-- ERROR 3819 (23000): Check constraint 'tz_chk_2' is violated.
ALTER TABLE tz MODIFY t DATETIME;
-- ok, 0 rows
SELECT id, t FROM tz;
-- [id, t]
-- 1 | 2024-01-01 00:00:00
-- 2 | NULL
INSERT INTO tz (a) VALUES (3);
-- ok, 1 rows, id 3
SELECT id, k FROM tz;
-- [id, k]
-- 1 | 2024-06-01 12:00:00
-- 2 | 2024-06-01 12:00:00
-- 3 | 2024-06-01 12:00:00
SET time_zone = '+00:00';
-- ok, 0 rows
SELECT id, k FROM tz;
-- [id, k]
-- 1 | 2024-06-01 07:00:00
-- 2 | 2024-06-01 07:00:00
-- 3 | 2024-06-01 07:00:00
SET time_zone = '-03:30';
-- ok, 0 rows
ALTER TABLE tz ADD COLUMN l TIMESTAMP DEFAULT '2024-06-01 12:00:00', ALGORITHM=INSTANT;
-- ok, 0 rows
INSERT INTO tz (a) VALUES (4);
-- ok, 1 rows, id 4
SELECT id, l FROM tz;
-- [id, l]
-- 1 | 2024-06-01 12:00:00
-- 2 | 2024-06-01 12:00:00
-- 3 | 2024-06-01 12:00:00
-- 4 | 2024-06-01 12:00:00
SET time_zone = '+00:00';
-- ok, 0 rows
SELECT id, l FROM tz;
-- [id, l]
-- 1 | 2024-06-01 15:30:00
-- 2 | 2024-06-01 15:30:00
-- 3 | 2024-06-01 15:30:00
-- 4 | 2024-06-01 15:30:00
DROP TABLE tz;
-- ok, 0 rows
# Checks follow their columns where the table takes another name in the same statement.
CREATE TABLE moved (a INT, b INT, CHECK (a > 0));
-- ok, 0 rows
ALTER TABLE moved RENAME COLUMN a TO c, RENAME TO moved_on;
-- ok, 0 rows
SHOW CREATE TABLE moved_on;
-- [Table, Create Table]
-- moved_on | CREATE TABLE `moved_on` (\n  `c` int DEFAULT NULL,\n  `b` int DEFAULT NULL,\n  CONSTRAINT `moved_on_chk_1` CHECK (`c` > 0)\n) ENGINE=TIERED DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci
INSERT INTO moved_on VALUES (1, -1);
-- ok, 1 rows
INSERT INTO moved_on VALUES (-1, 1);
-- ERROR 3819 (23000): Check constraint 'moved_on_chk_1' is violated.
ALTER TABLE moved_on RENAME TO moved, RENAME COLUMN c TO b, RENAME COLUMN b TO c;
-- ok, 0 rows
INSERT INTO moved VALUES (1, -1);
-- ok, 1 rows
INSERT INTO moved VALUES (-1, 1);
-- ERROR 3819 (23000): Check constraint 'moved_chk_1' is violated.
ALTER TABLE moved DROP COLUMN b, RENAME TO gone;
-- ERROR 3959 (HY000): Check constraint 'moved_chk_1' uses column 'b', hence column cannot be dropped or renamed.
ALTER TABLE moved RENAME TO gone, DROP COLUMN b;
-- ERROR 3959 (HY000): Check constraint 'moved_chk_1' uses column 'b', hence column cannot be dropped or renamed.
ALTER TABLE moved ALTER CHECK moved_chk_1 NOT ENFORCED;
-- ok, 0 rows
INSERT INTO moved VALUES (-1, 1);
-- ok, 1 rows
ALTER TABLE moved RENAME TO gone, ALTER CHECK moved_chk_1 ENFORCED;
-- ERROR 3819 (23000): Check constraint 'gone_chk_1' is violated.
ALTER TABLE moved ALTER CHECK moved_chk_1 ENFORCED, RENAME TO gone;
-- ERROR 3819 (23000): Check constraint 'gone_chk_1' is violated.
ALTER TABLE moved RENAME TO gone, ADD CHECK (c < 5), DROP CHECK moved_chk_1;
-- ok, 0 rows
SHOW CREATE TABLE gone;
-- [Table, Create Table]
-- gone | CREATE TABLE `gone` (\n  `b` int DEFAULT NULL,\n  `c` int DEFAULT NULL,\n  CONSTRAINT `gone_chk_1` CHECK (c < 5)\n) ENGINE=TIERED DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci
DROP TABLE gone;
-- ok, 0 rows
# A counter is found anew when a column becomes AUTO_INCREMENT, whatever it has given before.
CREATE TABLE counted (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, k INT);
-- ok, 0 rows
INSERT INTO counted (k) VALUES (1);
-- ok, 1 rows, id 1
ALTER TABLE counted MODIFY id INT NOT NULL;
-- ok, 0 rows
INSERT INTO counted (id) VALUES (2), (1000);
-- ok, 2 rows
ALTER TABLE counted MODIFY id INT NOT NULL AUTO_INCREMENT, ALGORITHM=INSTANT;
-- ok, 0 rows
INSERT INTO counted () VALUES ();
-- ok, 1 rows, id 1001
ALTER TABLE counted MODIFY id INT NOT NULL, ADD COLUMN n INT, ADD INDEX (n), ALGORITHM=INPLACE;
-- ok, 0 rows
INSERT INTO counted (id, n) VALUES (1002, 5), (1003, 4000);
-- ok, 2 rows
UPDATE counted SET n = 4000 - id;
-- ok, 6 rows
ALTER TABLE counted MODIFY n INT AUTO_INCREMENT;
-- ok, 0 rows
INSERT INTO counted (id) VALUES (1004);
-- ok, 1 rows, id 4000
ALTER TABLE counted DROP COLUMN n;
-- ok, 0 rows
ALTER TABLE counted ADD COLUMN n INT AUTO_INCREMENT UNIQUE;
-- ok, 0 rows
INSERT INTO counted (id) VALUES (1005);
-- ok, 1 rows, id 8
SELECT * FROM counted;
-- [id, k, n]
-- 1 | 1 | 1
-- 2 | NULL | 2
-- 1000 | NULL | 3
-- 1001 | NULL | 4
-- 1002 | NULL | 5
-- 1003 | NULL | 6
-- 1004 | NULL | 7
-- 1005 | NULL | 8
ALTER TABLE counted MODIFY n BIGINT AUTO_INCREMENT;
-- ok, 0 rows
DELETE FROM counted WHERE id = 1005;
-- ok, 1 rows
INSERT INTO counted (id) VALUES (1005);
-- ok, 1 rows, id 9
SELECT n FROM counted WHERE id = 1005;
-- [n]
-- 9
DROP TABLE counted;
-- ok, 0 rows
