# SHOW with any WHERE over what it shows, and with LIKE.
CREATE TABLE a (id INT PRIMARY KEY, n INT NOT NULL, s VARCHAR(10));
-- ok, 0 rows
CREATE TABLE b (id INT);
-- ok, 0 rows
CREATE TABLE `a.b` (id INT);
-- ok, 0 rows
SHOW TABLES;
-- [Tables_in_test]
-- a
-- a.b
-- b
SHOW TABLES LIKE 'a%';
-- [Tables_in_test (a%)]
-- a
-- a.b
SHOW TABLES WHERE Tables_in_test > 'a' AND NOT Tables_in_test LIKE '%.%';
-- [Tables_in_test]
-- b
SHOW FULL TABLES WHERE LENGTH(Tables_in_test) = 3 OR Tables_in_test IN ('b');
-- [Tables_in_test, Table_type]
-- a.b | BASE TABLE
-- b | BASE TABLE
SHOW COLUMNS FROM a WHERE `Null` = 'NO' AND `Key` <> 'PRI';
-- [Field, Type, Null, Key, Default, Extra]
-- n | int | NO |  | NULL | 
SHOW COLUMNS FROM a WHERE Field = 's' OR Type LIKE 'int%' AND `Key` = 'PRI';
-- [Field, Type, Null, Key, Default, Extra]
-- id | int | NO | PRI | NULL | 
-- s | varchar(10) | YES |  | NULL | 
SHOW VARIABLES WHERE Variable_name IN ('autocommit', 'sql_notes') AND Value = 'ON';
-- [Variable_name, Value]
-- autocommit | ON
-- sql_notes | ON
SHOW VARIABLES WHERE nothing = 1;
-- ERROR 1054 (42S22): Unknown column 'nothing' in 'where clause'
SHOW VARIABLES WHERE Value = (SELECT MAX(id) FROM a) OR Variable_name = 'port';
-- [Variable_name, Value]
-- port | 3306
SHOW COLLATION WHERE Id > 45;
-- [Collation, Charset, Id, Default, Compiled, Sortlen, Pad_attribute]
-- utf8mb4_bin | utf8mb4 | 46 |  | Yes | 1 | PAD SPACE
-- binary | binary | 63 | Yes | Yes | 1 | NO PAD
-- utf8mb4_unicode_ci | utf8mb4 | 224 |  | Yes | 1 | PAD SPACE
-- utf8mb4_unicode_520_ci | utf8mb4 | 246 |  | Yes | 1 | PAD SPACE
-- utf8mb4_0900_ai_ci | utf8mb4 | 255 |  | Yes | 1 | NO PAD
-- utf8mb4_0900_as_ci | utf8mb4 | 305 |  | Yes | 1 | NO PAD
-- utf8mb4_0900_as_cs | utf8mb4 | 278 |  | Yes | 1 | NO PAD
-- utf8mb4_0900_bin | utf8mb4 | 309 |  | Yes | 1 | NO PAD
SHOW TABLES LIKE 'a%' AND MORE;
-- ERROR 1064 (42000): You have an error in your SQL syntax: near 'LIKE'
SHOW COLUMNS FROM `a.b`;
-- [Field, Type, Null, Key, Default, Extra]
-- id | int | YES |  | NULL | 
SELECT * FROM `a.b`;
-- [id]
DROP TABLE `a.b`;
-- ok, 0 rows
# What is parsed and not done is named.
SELECT 1 INTO @x;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'SELECT ... INTO'
SELECT id FROM a PARTITION (p0);
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'PARTITION'
SELECT id FROM a FOR UPDATE OF a;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'FOR UPDATE OF'
SELECT ROW_NUMBER() OVER (ORDER BY id) FROM a;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'window functions'
SELECT SUM(id) OVER () FROM a;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'window functions'
INSERT INTO a PARTITION (p0) VALUES (1, 1, '');
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'PARTITION'
INSERT INTO a VALUES (1, 1, '') RETURNING id;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'RETURNING'
DELETE FROM a RETURNING id;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'RETURNING'
SELECT id FROM a LIMIT 1 OFFSET 0 FETCH FIRST 1 ROWS ONLY;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'FETCH'
SELECT id FROM a GROUP BY id WITH ROLLUP;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'GROUP BY ... WITH ROLLUP'
