# Tuples: a part that is not equal decides, even beside one that is not known.
SELECT (NULL, 1) = (1, 2), (NULL, 1) = (1, 1), (NULL, 1) <> (1, 2), (1, NULL) < (2, 1), (NULL, 1) < (2, 1);
-- [(NULL, 1) = (1, 2), (NULL, 1) = (1, 1), (NULL, 1) <> (1, 2), (1, NULL) < (2, 1), (NULL, 1) < (2, 1)]
-- 0 | NULL | 1 | 1 | NULL
SELECT (1, NULL) <=> (1, NULL), (1, NULL) <=> (1, 2), (NULL, 1) IN ((1, 2), (3, 4)), (NULL, 1) IN ((1, 1));
-- [(1, NULL) <=> (1, NULL), (1, NULL) <=> (1, 2), (NULL, 1) IN ((1, 2), (3, 4)), (NULL, 1) IN ((1, 1))]
-- 1 | 0 | 0 | NULL
# Rows are joined by equality whatever the types are.
CREATE TABLE texts (id INT PRIMARY KEY, v VARCHAR(20));
-- ok, 0 rows
INSERT INTO texts VALUES (1, '1'), (2, '1.0'), (3, '02:00:00'), (4, '1abc'), (5, '');
-- ok, 5 rows
CREATE TABLE numbers (id INT PRIMARY KEY, i INT, d DOUBLE, c DECIMAL(6,2), t TIME);
-- ok, 0 rows
INSERT INTO numbers VALUES (1, 1, 1, 1, '02:00:00'), (2, 0, 0, 0, '00:00:00');
-- ok, 2 rows
SELECT texts.id, numbers.id FROM texts JOIN numbers ON v = i ORDER BY 1, 2;
-- [id, id]
-- 1 | 1
-- 2 | 1
-- 4 | 1
-- 5 | 2
SELECT texts.id, numbers.id FROM texts JOIN numbers ON d = v ORDER BY 1, 2;
-- [id, id]
-- 1 | 1
-- 2 | 1
-- 4 | 1
-- 5 | 2
SELECT texts.id, numbers.id FROM texts LEFT JOIN numbers ON v = c ORDER BY 1, 2;
-- [id, id]
-- 1 | 1
-- 2 | 1
-- 3 | NULL
-- 4 | 1
-- 5 | 2
SELECT texts.id, numbers.id FROM texts JOIN numbers ON v = t ORDER BY 1, 2;
-- [id, id]
-- 3 | 1
# Bytes that are no text are told apart.
CREATE TABLE bytes (b VARBINARY(4));
-- ok, 0 rows
INSERT INTO bytes VALUES (x'ff'), (x'fe'), (x'ff');
-- ok, 3 rows
SELECT HEX(b), COUNT(*) FROM bytes GROUP BY b ORDER BY b;
-- [HEX(b), COUNT(*)]
-- FE | 1
-- FF | 2
SELECT COUNT(DISTINCT b) FROM bytes;
-- [COUNT(DISTINCT b)]
-- 2
# An ENUM is sorted and counted by its number, and a SET by its bits; beside text they are text.
CREATE TABLE sizes (id INT PRIMARY KEY, size ENUM('small', 'large', 'huge'), marks SET('x', 'y', 'z'), KEY (size), KEY (marks));
-- ok, 0 rows
INSERT INTO sizes VALUES (1, 'huge', 'x,z'), (2, 'small', 'y'), (3, 'large', ''), (4, NULL, NULL), (5, 'large', 'x,y,z');
-- ok, 5 rows
SELECT id, size, size + 0 FROM sizes ORDER BY size, id;
-- [id, size, size + 0]
-- 4 | NULL | NULL
-- 2 | small | 1
-- 3 | large | 2
-- 5 | large | 2
-- 1 | huge | 3
SELECT id, size FROM sizes ORDER BY size DESC LIMIT 2;
-- [id, size]
-- 1 | huge
-- 5 | large
SELECT id, marks, marks + 0 FROM sizes ORDER BY marks DESC, id;
-- [id, marks, marks + 0]
-- 5 | x,y,z | 7
-- 1 | x,z | 5
-- 2 | y | 2
-- 3 |  | 0
-- 4 | NULL | NULL
SELECT id FROM sizes WHERE size = 2;
-- [id]
-- 3
-- 5
SELECT id FROM sizes WHERE size IN (1, 'huge') ORDER BY id;
-- [id]
-- 1
-- 2
SELECT id FROM sizes WHERE size > 'huge' ORDER BY id;
-- [id]
-- 2
-- 3
-- 5
SELECT id FROM sizes WHERE size BETWEEN 2 AND 3 ORDER BY id;
-- [id]
-- 1
-- 3
-- 5
SELECT id FROM sizes WHERE marks & 4 ORDER BY id;
-- [id]
-- 1
-- 5
SELECT id FROM sizes WHERE marks ORDER BY id;
-- [id]
-- 1
-- 2
-- 5
SELECT SUM(size), MIN(size), MAX(size), CAST(MAX(marks) AS CHAR), GROUP_CONCAT(size ORDER BY size) FROM sizes;
-- [SUM(size), MIN(size), MAX(size), CAST(MAX(marks) AS CHAR), GROUP_CONCAT(size ORDER BY size)]
-- 8 | huge | small | y | small,large,large,huge
SELECT size, COUNT(*) FROM sizes GROUP BY size ORDER BY size;
-- [size, COUNT(*)]
-- NULL | 1
-- small | 1
-- large | 2
-- huge | 1
# A row that ON DUPLICATE KEY UPDATE changes is told to the client, and is no LAST_INSERT_ID().
CREATE TABLE counted (id INT AUTO_INCREMENT PRIMARY KEY, u INT UNIQUE, n INT);
-- ok, 0 rows
INSERT INTO counted (u, n) VALUES (1, 1), (2, 2);
-- ok, 2 rows, id 1
INSERT INTO counted (id, u) VALUES (10, 3);
-- ok, 1 rows, id 10
INSERT INTO counted (u) VALUES (2) ON DUPLICATE KEY UPDATE n = 5;
-- ok, 2 rows, id 2
SELECT LAST_INSERT_ID();
-- [LAST_INSERT_ID()]
-- 1
INSERT INTO counted (u) VALUES (2) ON DUPLICATE KEY UPDATE n = 5;
-- ok, 0 rows
# Spans are read from the front of a text, and rounding keeps the digits that are asked for.
SELECT CAST('2024-12-31' AS TIME), HOUR('12:30x'), ROUND(1.5, 3), TRUNCATE(1.555, 2), BIT_COUNT(1e300), RPAD('a', 3, '');
-- [CAST('2024-12-31' AS TIME), HOUR('12:30x'), ROUND(1.5, 3), TRUNCATE(1.555, 2), BIT_COUNT(1e300), RPAD('a', 3, '')]
-- 00:20:24 | 12 | 1.500 | 1.55 | 63 | NULL
# What a TIMESTAMP and unsigned numbers are not.
CREATE TABLE edges (at TIMESTAMP NULL, n TINYINT UNSIGNED, y YEAR);
-- ok, 0 rows
INSERT INTO edges (at) VALUES ('1000-01-01');
-- ERROR 1292 (22007): Incorrect datetime value: '1000-01-01 00:00:00' for column 'at' at row 1
INSERT INTO edges (at) VALUES ('2038-01-19 03:14:08');
-- ERROR 1292 (22007): Incorrect datetime value: '2038-01-19 03:14:08' for column 'at' at row 1
INSERT INTO edges (at) VALUES ('2038-01-19 03:14:07'), ('1970-01-01 00:00:01');
-- ok, 2 rows
INSERT INTO edges (n) VALUES (-0.05);
-- ERROR 1264 (22003): Out of range value for column 'n' at row 1
INSERT INTO edges (y) VALUES (1.75e0);
-- ok, 1 rows
SELECT y FROM edges WHERE y IS NOT NULL;
-- [y]
-- 2001
SELECT 'x' <=> TIME'01:00:00', IF(0xff, 'a', 1);
-- ['x' <=> TIME'01:00:00', IF(X'ff', 'a', 1)]
-- 0 | a

CREATE TABLE collated (ci VARCHAR(9) COLLATE utf8mb4_general_ci, cs VARCHAR(9) COLLATE utf8mb4_bin, KEY (ci), KEY (cs));
-- ok, 0 rows
INSERT INTO collated VALUES ('a', 'a'), ('A', 'A'), ('b', 'b');
-- ok, 3 rows
SELECT ci FROM collated WHERE ci = 'A' COLLATE utf8mb4_bin;
-- [ci]
-- A
SELECT ci FROM collated WHERE ci COLLATE utf8mb4_bin = 'A';
-- [ci]
-- A
SELECT ci FROM collated WHERE ci = 'A' ORDER BY ci COLLATE utf8mb4_bin;
-- [ci]
-- A
-- a
SELECT cs FROM collated WHERE cs = 'A' COLLATE utf8mb4_general_ci ORDER BY cs;
-- [cs]
-- A
-- a
SELECT cs FROM collated WHERE cs COLLATE utf8mb4_general_ci = 'A' ORDER BY cs;
-- [cs]
-- A
-- a
SELECT cs FROM collated WHERE cs IN ('x', 'A' COLLATE utf8mb4_general_ci) ORDER BY cs;
-- [cs]
-- A
-- a
SELECT cs FROM collated WHERE cs BETWEEN 'A' COLLATE utf8mb4_general_ci AND 'a' ORDER BY cs;
-- [cs]
-- A
-- a
SELECT ci FROM collated WHERE ci LIKE 'A%' COLLATE utf8mb4_bin;
-- [ci]
-- A
SELECT 'a' = 'A', 'a' = 'A' COLLATE utf8mb4_bin, 'a' COLLATE utf8mb4_bin = 'A', 'a' IN ('A' COLLATE utf8mb4_bin);
-- ['a' = 'A', 'a' = 'A' COLLATE utf8mb4_bin, 'a' COLLATE utf8mb4_bin = 'A', 'a' IN ('A' COLLATE utf8mb4_bin)]
-- 1 | 0 | 0 | 0
DROP TABLE collated;
-- ok, 0 rows
CREATE TABLE kinds (big BIGINT, d DATE);
-- ok, 0 rows
INSERT INTO kinds VALUES (9007199254740992, '2026-11-25'), (9007199254740993, NULL);
-- ok, 2 rows
SELECT big FROM kinds WHERE big = '9007199254740993' COLLATE utf8mb4_bin;
-- [big]
-- 9007199254740993
SELECT big FROM kinds WHERE d = 'rubbish' COLLATE utf8mb4_bin;
-- ERROR 1525 (HY000): Incorrect DATE value: 'rubbish'
SELECT big FROM kinds WHERE d = '2026-11-25' COLLATE utf8mb4_bin;
-- [big]
-- 9007199254740992
INSERT INTO kinds (big, big) VALUES (1, DEFAULT);
-- ERROR 1110 (42000): Column 'big' specified twice
INSERT INTO kinds SET d = NULL, d = DEFAULT;
-- ERROR 1110 (42000): Column 'd' specified twice
DROP TABLE kinds;
-- ok, 0 rows
CREATE TABLE quick (extended INT PRIMARY KEY);
-- ok, 0 rows
CHECK TABLE quick;
-- [Table, Op, Msg_type, Msg_text]
-- test.quick | check | status | OK
CHECK TABLE quick, quick FOR UPGRADE QUICK;
-- [Table, Op, Msg_type, Msg_text]
-- test.quick | check | status | OK
-- test.quick | check | status | OK
CHECK TABLE quick extended MEDIUM CHANGED;
-- [Table, Op, Msg_type, Msg_text]
-- test.quick | check | status | OK
REPAIR TABLE test.quick USE_FRM;
-- [Table, Op, Msg_type, Msg_text]
-- test.quick | repair | status | OK
CHECK TABLE quick quicker;
-- ERROR 1064 (42000): You have an error in your SQL syntax: near 'quickquicker'
DROP TABLE quick;
-- ok, 0 rows
