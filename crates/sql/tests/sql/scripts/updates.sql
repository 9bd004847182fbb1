# What an update may make of a row that is there.
CREATE TABLE n (id INT AUTO_INCREMENT PRIMARY KEY, u INT UNIQUE);
-- ok, 0 rows
INSERT INTO n (u) VALUES (1), (2);
-- ok, 2 rows, id 1
UPDATE n SET id = NULL WHERE u = 1;
-- ERROR 1048 (23000): Column 'id' cannot be null
UPDATE IGNORE n SET id = NULL WHERE u = 3;
-- ok, 0 rows
UPDATE n JOIN (SELECT 2 AS u) AS d USING (u) SET n.id = NULL;
-- ERROR 1048 (23000): Column 'id' cannot be null
INSERT INTO n (u) VALUES (2) ON DUPLICATE KEY UPDATE id = NULL;
-- ok, 2 rows
SELECT * FROM n ORDER BY u;
-- [id, u]
-- 1 | 1
-- 0 | 2
UPDATE n SET id = DEFAULT WHERE u = 1;
-- ERROR 1062 (23000): Duplicate entry '0' for key 'n.PRIMARY'
SELECT * FROM n ORDER BY u;
-- [id, u]
-- 1 | 1
-- 0 | 2
UPDATE n SET id = 5 WHERE u = 1;
-- ok, 1 rows
UPDATE IGNORE n SET id = NULL WHERE u = 1;
-- ok, 0 rows, 2 warnings
SHOW WARNINGS;
-- [Level, Code, Message]
-- Warning | 1048 | Column 'id' cannot be null
-- Warning | 1062 | Duplicate entry '0' for key 'n.PRIMARY'
UPDATE n SET id = 6 WHERE u = 1;
-- ok, 1 rows
SET sql_mode = '';
-- ok, 0 rows
UPDATE n SET id = NULL WHERE u = 1;
-- ERROR 1062 (23000): Duplicate entry '0' for key 'n.PRIMARY'
SHOW WARNINGS;
-- [Level, Code, Message]
-- Warning | 1048 | Column 'id' cannot be null
-- Error | 1062 | Duplicate entry '0' for key 'n.PRIMARY'
SET sql_mode = DEFAULT;
-- ok, 0 rows
INSERT INTO n VALUES (NULL, 3);
-- ok, 1 rows, id 7
SELECT * FROM n ORDER BY u;
-- [id, u]
-- 6 | 1
-- 0 | 2
-- 7 | 3
# ON UPDATE CURRENT_TIMESTAMP is for columns that are not assigned to.
CREATE TABLE s (id INT PRIMARY KEY, a INT, t DATETIME NULL DEFAULT NULL ON UPDATE CURRENT_TIMESTAMP);
-- ok, 0 rows
INSERT INTO s VALUES (1, 1, '2001-01-01');
-- ok, 1 rows
SET timestamp = 1000000000, time_zone = '+00:00';
-- ok, 0 rows
UPDATE s SET a = a + 1, t = t;
-- ok, 1 rows
SELECT * FROM s;
-- [id, a, t]
-- 1 | 2 | 2001-01-01 00:00:00
INSERT INTO s (id) VALUES (1) ON DUPLICATE KEY UPDATE a = a + 1, t = t;
-- ok, 2 rows
SELECT * FROM s;
-- [id, a, t]
-- 1 | 3 | 2001-01-01 00:00:00
UPDATE s JOIN (SELECT 1 AS id) AS d USING (id) SET a = a + 1, t = t;
-- ok, 1 rows
SELECT * FROM s;
-- [id, a, t]
-- 1 | 4 | 2001-01-01 00:00:00
UPDATE s SET a = a;
-- ok, 0 rows
SELECT * FROM s;
-- [id, a, t]
-- 1 | 4 | 2001-01-01 00:00:00
UPDATE s SET a = a + 1;
-- ok, 1 rows
SELECT * FROM s;
-- [id, a, t]
-- 1 | 5 | 2001-09-09 01:46:40
INSERT INTO s (id) VALUES (1) ON DUPLICATE KEY UPDATE a = DEFAULT, t = DEFAULT;
-- ok, 2 rows
SELECT * FROM s;
-- [id, a, t]
-- 1 | NULL | NULL
INSERT INTO s (id) VALUES (1) ON DUPLICATE KEY UPDATE a = 7;
-- ok, 2 rows
SELECT * FROM s;
-- [id, a, t]
-- 1 | 7 | 2001-09-09 01:46:40
CREATE TABLE by_text (id VARCHAR(10) PRIMARY KEY, a INT, b VARCHAR(10), KEY (b));
-- ok, 0 rows
INSERT INTO by_text VALUES ('5', 1, 'x'), ('05', 2, 'y'), ('5.0', 3, NULL), ('6', 4, 'z');
-- ok, 4 rows
UPDATE by_text SET a = a + 10 WHERE id = 5;
-- ok, 3 rows
UPDATE by_text SET b = CONCAT(b, id), a = a + 1, b = CONCAT(b, a) WHERE id = 5;
-- ok, 3 rows
SELECT * FROM by_text ORDER BY id;
-- [id, a, b]
-- 05 | 13 | y0513
-- 5 | 12 | x512
-- 5.0 | 14 | NULL
-- 6 | 4 | z
SELECT id FROM by_text FORCE INDEX (b) WHERE b > '' ORDER BY b;
-- [id]
-- 5
-- 05
-- 6
CREATE TABLE kept (id INT PRIMARY KEY, c CHAR(3), v VARCHAR(3), t TINYINT, m MEDIUMINT, u INT UNSIGNED);
-- ok, 0 rows
INSERT INTO kept VALUES (1, 'ab ', 'ab ', 127, 8388607, 7), (2, 'éàü', 'éàü', -128, -8388608, 0);
-- ok, 2 rows
INSERT INTO kept VALUES (3, 'abcd', 'a', 0, 0, 0);
-- ERROR 1406 (22001): Data too long for column 'c' at row 1
INSERT INTO kept VALUES (3, 'a', 'a', 128, 0, 0);
-- ERROR 1264 (22003): Out of range value for column 't' at row 1
INSERT INTO kept VALUES (3, 'a', 'a', -129, 0, 0);
-- ERROR 1264 (22003): Out of range value for column 't' at row 1
INSERT INTO kept VALUES (3, 'a', 'a', 0, 8388608, 0);
-- ERROR 1264 (22003): Out of range value for column 'm' at row 1
INSERT INTO kept VALUES (3, 'a', 'a', 0, 0, -1);
-- ERROR 1264 (22003): Out of range value for column 'u' at row 1
UPDATE kept SET c = 'a  ', t = 5, t = t + 1, m = t WHERE id = 1;
-- ok, 1 rows
SELECT id, CONCAT('[', c, ']'), CONCAT('[', v, ']'), t, m, u FROM kept;
-- [id, CONCAT('[', c, ']'), CONCAT('[', v, ']'), t, m, u]
-- 1 | [a] | [ab ] | 6 | 6 | 7
-- 2 | [éàü] | [éàü] | -128 | -8388608 | 0
UPDATE kept SET id = 9, v = c WHERE id = 1;
-- ok, 1 rows
UPDATE kept SET v = v WHERE id = 9;
-- ok, 0 rows
SELECT * FROM kept WHERE id IN (1, 9);
-- [id, c, v, t, m, u]
-- 9 | a | a | 6 | 6 | 7
# A column's table is the statement's, by its alias and its database.
UPDATE kept AS k SET k.v = 'q', test.k.t = 1 WHERE id = 9;
-- ok, 1 rows
UPDATE kept AS k SET kept.v = 'q';
-- ERROR 1054 (42S22): Unknown column 'kept.v' in 'field list'
UPDATE kept SET mysql.kept.v = 'q';
-- ERROR 1054 (42S22): Unknown column 'mysql.kept.v' in 'field list'
INSERT INTO kept (kept.id, other.v) VALUES (5, 'q');
-- ERROR 1054 (42S22): Unknown column 'other.v' in 'field list'
INSERT INTO kept (id) VALUES (9) ON DUPLICATE KEY UPDATE other.v = 'q';
-- ERROR 1054 (42S22): Unknown column 'other.v' in 'field list'
DROP TABLE by_text, kept;
-- ok, 0 rows
