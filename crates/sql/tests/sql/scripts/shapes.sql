# Statements of one shape share a plan, for as long as it holds.
CREATE TABLE t (id INT PRIMARY KEY, k INT, size ENUM('small', 'big'), c VARCHAR(20), KEY (k));
-- ok, 0 rows
INSERT INTO t VALUES (1, 10, 'small', 'a'), (2, 20, 'big', 'b'), (3, -30, NULL, 'it''s'), (4, NULL, 'big', '5');
-- ok, 4 rows
SELECT c FROM t WHERE id = 1;
-- [c]
-- a
SELECT c FROM t WHERE id = 3;
-- [c]
-- it's
SELECT c FROM t WHERE k = -30;
-- [c]
-- it's
# What a literal is decides what is compared.
SELECT id FROM t WHERE size = 'big';
-- [id]
-- 2
-- 4
SELECT id FROM t WHERE size = 2;
-- [id]
-- 2
-- 4
SELECT id FROM t WHERE size = 'small';
-- [id]
-- 1
SELECT id FROM t WHERE c = '5';
-- [id]
-- 4
SELECT id FROM t WHERE c = 5;
-- [id]
-- 4
SELECT id FROM t WHERE c = 5.0;
-- [id]
-- 4
SELECT id FROM t WHERE id IN (1, 3) ORDER BY id LIMIT 1;
-- [id]
-- 1
SELECT id FROM t WHERE id IN (2, 4) ORDER BY id LIMIT 2;
-- [id]
-- 2
-- 4
# A table that changes between.
ALTER TABLE t ADD COLUMN d INT DEFAULT 7;
-- ok, 0 rows
SELECT * FROM t WHERE id = 1;
-- [id, k, size, c, d]
-- 1 | 10 | small | a | 7
DROP INDEX k ON t;
-- ok, 0 rows
SELECT c FROM t WHERE k = -30;
-- [c]
-- it's
INSERT INTO t (id, k) VALUES (5, 50);
-- ok, 1 rows
INSERT INTO t (id, k) VALUES (6, 60), (7, 70), (8, NULL);
-- ok, 3 rows
INSERT INTO t (id, k) VALUES (9, 90), (8, 80);
-- ERROR 1062 (23000): Duplicate entry '8' for key 't.PRIMARY'
INSERT INTO t (id, k) VALUES (8, 81), (9, 91) ON DUPLICATE KEY UPDATE k = VALUES(k) + 1;
-- ok, 3 rows
INSERT IGNORE INTO t (id, k) VALUES (8, 1), (10, 100), (9, 1);
-- ok, 1 rows, 2 warnings
SELECT id, k FROM t WHERE id >= 5 ORDER BY id;
-- [id, k]
-- 5 | 50
-- 6 | 60
-- 7 | 70
-- 8 | 82
-- 9 | 91
-- 10 | 100
UPDATE t SET k = 1 WHERE id = 5;
-- ok, 1 rows
UPDATE t SET k = 2 WHERE id = 6;
-- ok, 1 rows
DELETE FROM t WHERE id = 7;
-- ok, 1 rows
DELETE FROM t WHERE id = 8;
-- ok, 1 rows
SELECT id, k FROM t WHERE id >= 5 ORDER BY id;
-- [id, k]
-- 5 | 1
-- 6 | 2
-- 9 | 91
-- 10 | 100
INSERT INTO t (id, k) VALUES (11, 1, 2);
-- ERROR 1136 (21S01): Column count doesn't match value count at row 1
INSERT INTO t (id, k) VALUES (12, 'x');
-- ERROR 1366 (HY000): Incorrect integer value: 'x' for column 'k' at row 1
SELECT nothing FROM t WHERE id = 1;
-- ERROR 1054 (42S22): Unknown column 'nothing' in 'field list'
SELECT 1 FROM t WHERE id = 1;
-- [1]
-- 1
SELECT id, 2 FROM t WHERE id = 2;
-- [id, 2]
-- 2 | 2
# Variables are read each time.
SET @a = 5;
-- ok, 0 rows
SELECT @@autocommit AS a FROM t WHERE id = 1;
-- [a]
-- 1
SET autocommit = 0;
-- ok, 0 rows
SELECT @@autocommit AS a FROM t WHERE id = 2;
-- [a]
-- 0
SET autocommit = 1;
-- ok, 0 rows
SET sql_mode = 'ANSI_QUOTES';
-- ok, 0 rows
SELECT "c" FROM t WHERE id = 1;
-- [c]
-- a
SET sql_mode = '';
-- ok, 0 rows
SELECT "c" FROM t WHERE id = 1;
-- [c]
-- c
# The current database is part of it.
CREATE DATABASE other;
-- ok, 0 rows
CREATE TABLE other.t (id INT PRIMARY KEY, c VARCHAR(9));
-- ok, 0 rows
INSERT INTO other.t VALUES (1, 'elsewhere');
-- ok, 1 rows
USE other;
-- ok, 0 rows
SELECT c FROM t WHERE id = 1;
-- [c]
-- elsewhere
DROP TABLE t;
-- ok, 0 rows
SELECT c FROM t WHERE id = 1;
-- ERROR 1146 (42S02): Table 'other.t' doesn't exist
USE test;
-- ok, 0 rows
SELECT c FROM t WHERE id = 1;
-- [c]
-- a
# Prepared: the kinds of values may change.
PREPARE s FROM 'SELECT id FROM t WHERE size = ?';
-- ok, 0 rows
SET @s = 'big';
-- ok, 0 rows
EXECUTE s USING @s;
-- [id]
-- 2
-- 4
SET @s = 2;
-- ok, 0 rows
EXECUTE s USING @s;
-- [id]
-- 2
-- 4
SET @s = NULL;
-- ok, 0 rows
EXECUTE s USING @s;
-- [id]
SET @s = 'small';
-- ok, 0 rows
EXECUTE s USING @s;
-- [id]
-- 1
# A query's columns are named by their text, which no shape takes a literal out of.
CREATE TABLE named (a INT PRIMARY KEY, `offset` INT);
-- ok, 0 rows
INSERT INTO named VALUES (1, 10), (2, 20);
-- ok, 2 rows
SELECT EXISTS(SELECT 1 FROM named WHERE a=1), count( * ),max(a)+1 FROM named WHERE a=1 LIMIT 5;
-- [EXISTS(SELECT 1 FROM named WHERE a=1), count( * ), max(a)+1]
-- 1 | 1 | 2
SELECT EXISTS(SELECT 1 FROM named WHERE a=3), count( * ),max(a)+1 FROM named WHERE a=2 LIMIT 6;
-- [EXISTS(SELECT 1 FROM named WHERE a=3), count( * ), max(a)+1]
-- 0 | 1 | 3
SELECT (SELECT a FROM named WHERE a = 2 LIMIT 1), 'it''s'='x' UNION SELECT 5, 6;
-- [(SELECT a FROM named WHERE a = 2 LIMIT 1), 'it''s'='x']
-- 2 | 0
-- 5 | 6
WITH w AS (SELECT a+1 FROM named) SELECT DISTINCT a+1 AS b, 1=1 FROM named JOIN w ORDER BY 1 LIMIT 1;
-- [b, 1=1]
-- 2 | 1
# OFFSET is a word of LIMIT, and else a name.
CREATE TABLE places (offset INT, name VARCHAR(9));
-- ok, 0 rows
INSERT INTO places VALUES (1, 'c'), (1, 'a'), (0, 'd'), (1, 'b');
-- ok, 4 rows
SELECT offset, name FROM places ORDER BY offset, 2;
-- [offset, name]
-- 0 | d
-- 1 | a
-- 1 | b
-- 1 | c
SELECT name, offset FROM places ORDER BY offset, 1 LIMIT 2 OFFSET 1;
-- [name, offset]
-- a | 1
-- b | 1
SELECT offset, COUNT(*) FROM places GROUP BY offset, name ORDER BY offset, 2 DESC, name LIMIT 1;
-- [offset, COUNT(*)]
-- 0 | 1
# What a plan was made for one number or text does not hold for one with other digits or of more letters.
CREATE TABLE digits (id INT PRIMARY KEY, txt VARCHAR(20), price DECIMAL(10,1), name VARCHAR(5));
-- ok, 0 rows
INSERT INTO digits VALUES (1, NULL, NULL, 'abc');
-- ok, 1 rows
UPDATE digits SET txt = 1.5 / 3 WHERE id = 1;
-- ok, 1 rows
SELECT txt FROM digits;
-- [txt]
-- 0.50000
UPDATE digits SET txt = 1.25 / 3 WHERE id = 1;
-- ok, 1 rows
SELECT txt FROM digits;
-- [txt]
-- 0.416667
UPDATE digits SET txt = 1.5 / 3 WHERE id = 1;
-- ok, 1 rows
SELECT txt FROM digits;
-- [txt]
-- 0.50000
PREPARE s FROM 'SELECT COALESCE(price, ?) FROM digits';
-- ok, 0 rows
SET @d = 1.5;
-- ok, 0 rows
EXECUTE s USING @d;
-- [COALESCE(price, ?)]
-- 1.5
SET @d = 2.25;
-- ok, 0 rows
EXECUTE s USING @d;
-- [COALESCE(price, ?)]
-- 2.25
SET @d = 12345678912345.25;
-- ok, 0 rows
EXECUTE s USING @d;
-- [COALESCE(price, ?)]
-- 12345678912345.25
PREPARE s FROM 'SELECT ? UNION ALL SELECT name FROM digits';
-- ok, 0 rows
SET @d = 'ab';
-- ok, 0 rows
EXECUTE s USING @d;
-- [?]
-- ab
-- abc
SET @d = 'abcdef';
-- ok, 0 rows
EXECUTE s USING @d;
-- [?]
-- abcdef
-- abc
SET @d = 'ñandúes';
-- ok, 0 rows
EXECUTE s USING @d;
-- [?]
-- ñandúes
-- abc
# What is stored as it is holds for all.
CREATE TABLE kept (id INT PRIMARY KEY, v VARCHAR(9));
-- ok, 0 rows
INSERT INTO kept VALUES (1, NULL);
-- ok, 1 rows
INSERT INTO kept VALUES (2, 1.5), (3, 'x');
-- ok, 2 rows
INSERT INTO kept VALUES (4, 1.25), (5, 2);
-- ok, 2 rows
INSERT INTO kept VALUES (6, 'longer');
-- ok, 1 rows
PREPARE s FROM 'INSERT INTO kept VALUES (?, ?)';
-- ok, 0 rows
SET @id = 7, @v = 'text';
-- ok, 0 rows
EXECUTE s USING @id, @v;
-- ok, 1 rows
SET @id = 8, @v = 12.50;
-- ok, 0 rows
EXECUTE s USING @id, @v;
-- ok, 1 rows
SET @id = 9.0, @v = NULL;
-- ok, 0 rows
EXECUTE s USING @id, @v;
-- ok, 1 rows
SELECT * FROM kept;
-- [id, v]
-- 1 | NULL
-- 2 | 1.5
-- 3 | x
-- 4 | 1.25
-- 5 | 2
-- 6 | longer
-- 7 | text
-- 8 | 12.50
-- 9 | NULL
# A parameter that is NULL is no bytes.
PREPARE s FROM 'SELECT name FROM digits WHERE name IN (?, ?)';
-- ok, 0 rows
SET @n = NULL, @v = 'ABC';
-- ok, 0 rows
EXECUTE s USING @n, @v;
-- [name]
-- abc
EXECUTE s USING @v, @n;
-- [name]
-- abc
PREPARE s FROM 'SELECT name FROM digits WHERE name BETWEEN ? AND ? OR name = ?';
-- ok, 0 rows
EXECUTE s USING @n, @n, @v;
-- [name]
-- abc
PREPARE s FROM 'SELECT CASE ? WHEN NULL THEN 1 WHEN ''abc'' THEN 2 END, LEAST(name, COALESCE(?, ''ABB'')) FROM digits';
-- ok, 0 rows
EXECUTE s USING @v, @n;
-- [CASE ? WHEN NULL THEN 1 WHEN 'abc' THEN 2 END, LEAST(name, COALESCE(?, 'ABB'))]
-- 2 | ABB
PREPARE s FROM 'SELECT name FROM digits WHERE (name, id) IN ((?, 1), (?, 1))';
-- ok, 0 rows
EXECUTE s USING @n, @v;
-- [name]
-- abc
PREPARE s FROM 'SELECT GROUP_CONCAT(d.n) FROM (SELECT ? AS n UNION SELECT ? UNION SELECT name FROM digits) AS d';
-- ok, 0 rows
EXECUTE s USING @n, @v;
-- [GROUP_CONCAT(d.n)]
-- ABC
