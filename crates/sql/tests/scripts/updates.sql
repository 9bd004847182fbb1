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
