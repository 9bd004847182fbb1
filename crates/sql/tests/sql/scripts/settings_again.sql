# The same text again, once a setting reads it otherwise: nothing that was kept from the time before may answer.
CREATE TABLE t (a VARCHAR(10), b INT);
-- ok, 0 rows
INSERT INTO t VALUES ('A', 1), ('a', 2);
-- ok, 2 rows
SELECT 'a' || 'b', "a" FROM t LIMIT 1;
-- ['a' || 'b', a]
-- 0 | a
SELECT 'a' || 'b', "a" FROM t LIMIT 1;
-- ['a' || 'b', a]
-- 0 | a
SET sql_mode = 'PIPES_AS_CONCAT,ANSI_QUOTES';
-- ok, 0 rows
SELECT 'a' || 'b', "a" FROM t LIMIT 1;
-- ['a' || 'b', a]
-- ab | A
SET sql_mode = '';
-- ok, 0 rows
SELECT 'a' || 'b', "a" FROM t LIMIT 1;
-- ['a' || 'b', a]
-- 0 | a
SELECT 'a\'b', 1;
-- [a'b, 1]
-- a'b | 1
SELECT 'a\'b', 2;
-- [a'b, 2]
-- a'b | 2
SET sql_mode = 'NO_BACKSLASH_ESCAPES';
-- ok, 0 rows
SELECT 'a\', 1;
-- [a\, 1]
-- a\ | 1
SELECT 'a\', 2;
-- [a\, 2]
-- a\ | 2
SELECT '\%' LIKE '\%';
-- ['\%' LIKE '\%']
-- 1
SET sql_mode = '';
-- ok, 0 rows
SELECT '\%' LIKE '\%';
-- ['\%' LIKE '\%']
-- 0
SELECT 'x' = 'X', CONCAT('x', '') = 'X';
-- ['x' = 'X', CONCAT('x', '') = 'X']
-- 1 | 1
SET NAMES utf8mb4 COLLATE utf8mb4_bin;
-- ok, 0 rows
SELECT 'x' = 'X', CONCAT('x', '') = 'X';
-- ['x' = 'X', CONCAT('x', '') = 'X']
-- 0 | 0
SET NAMES utf8mb4;
-- ok, 0 rows
SELECT 'x' = 'X', CONCAT('x', '') = 'X';
-- ['x' = 'X', CONCAT('x', '') = 'X']
-- 1 | 1
SELECT a, MAX(b) FROM t GROUP BY b % 2 ORDER BY 2;
-- [a, MAX(b)]
-- A | 1
-- a | 2
SET sql_mode = 'ONLY_FULL_GROUP_BY';
-- ok, 0 rows
SELECT a, MAX(b) FROM t GROUP BY b % 2 ORDER BY 2;
-- ERROR 1055 (HY000): Expression #1 of SELECT list is not in GROUP BY clause and contains nonaggregated column 'test.t.a' which is not functionally dependent on columns in GROUP BY clause; this is incompatible with sql_mode=only_full_group_by
SET sql_mode = DEFAULT;
-- ok, 0 rows
SELECT @@sql_select_limit, b FROM t;
-- [@@sql_select_limit, b]
-- 18446744073709551615 | 1
-- 18446744073709551615 | 2
SET sql_select_limit = 1;
-- ok, 0 rows
SELECT @@sql_select_limit, b FROM t;
-- [@@sql_select_limit, b]
-- 1 | 1
SELECT b FROM t;
-- [b]
-- 1
SET sql_select_limit = DEFAULT;
-- ok, 0 rows
SELECT b FROM t;
-- [b]
-- 1
-- 2
SELECT 1 / 0;
-- [1 / 0]
-- NULL
SHOW COUNT(*) WARNINGS;
-- [@@session.warning_count]
-- 1
SET sql_mode = '';
-- ok, 0 rows
SELECT 1 / 0;
-- [1 / 0]
-- NULL
SHOW COUNT(*) WARNINGS;
-- [@@session.warning_count]
-- 0
SET sql_mode = DEFAULT;
-- ok, 0 rows
UPDATE t SET b = 'x' WHERE b = 2;
-- ERROR 1366 (HY000): Incorrect integer value: 'x' for column 'b' at row 1
SET sql_mode = '';
-- ok, 0 rows
UPDATE t SET b = 'x' WHERE b = 2;
-- ok, 1 rows, 1 warnings
SET sql_mode = DEFAULT;
-- ok, 0 rows
SELECT b FROM t ORDER BY b;
-- [b]
-- 0
-- 1
CREATE DATABASE other;
-- ok, 0 rows
CREATE TABLE other.t (a INT, b INT);
-- ok, 0 rows
USE other;
-- ok, 0 rows
SELECT b FROM t ORDER BY b;
-- [b]
USE test;
-- ok, 0 rows
SELECT b FROM t ORDER BY b;
-- [b]
-- 0
-- 1
SELECT /*!50001 1, */ 2;
-- [1, 2]
-- 1 | 2
SELECT /*!99999 1, */ 2;
-- [2]
-- 2
SELECT b FROM t LIMIT 1;
-- [b]
-- 1
SELECT b FROM t LIMIT 2;
-- [b]
-- 1
-- 0
SELECT 1 + 1, 'one';
-- [1 + 1, one]
-- 2 | one
SELECT 2 + 1, 'two';
-- [2 + 1, two]
-- 3 | two
SELECT 1.5 + 1, 'one';
-- [1.5 + 1, one]
-- 2.5 | one
SELECT NULL + 1, TRUE;
-- [NULL + 1, true]
-- NULL | 1
SELECT -1, - 1, +1, 1e2;
-- [-1, - 1, +1, 1e2]
-- -1 | -1 | 1 | 100
SELECT b FROM t ORDER BY 1;
-- [b]
-- 0
-- 1
SELECT a, b FROM t ORDER BY 2;
-- [a, b]
-- a | 0
-- A | 1
SELECT a, b FROM t ORDER BY 1 DESC, 2 DESC;
-- [a, b]
-- A | 1
-- a | 0
SELECT COUNT(*), 5 FROM t GROUP BY 2;
-- [COUNT(*), 5]
-- 2 | 5
SELECT COUNT(*), a FROM t GROUP BY 2;
-- [COUNT(*), a]
-- 2 | A
INSERT INTO t VALUES ('x', 10), ('y', 11);
-- ok, 2 rows
INSERT INTO t VALUES ('x', 12);
-- ok, 1 rows
SELECT b FROM t WHERE b IN (10, 11, 12) ORDER BY b;
-- [b]
-- 10
-- 11
-- 12
SELECT b FROM t WHERE b IN (10, 11) ORDER BY b;
-- [b]
-- 10
-- 11
SELECT INTERVAL 1 DAY + '2020-01-01', CAST(5 AS CHAR(2)), CAST(55 AS CHAR(1)), ROUND(1.25, 1), ROUND(1.25, 0);
-- [INTERVAL 1 DAY + '2020-01-01', CAST(5 AS CHAR(2)), CAST(55 AS CHAR(1)), ROUND(1.25, 1), ROUND(1.25, 0)]
-- 2020-01-02 | 5 | 5 | 1.3 | 1
SELECT DATE_FORMAT('2020-01-02', '%Y'), DATE_FORMAT('2020-01-02', '%d');
-- [DATE_FORMAT('2020-01-02', '%Y'), DATE_FORMAT('2020-01-02', '%d')]
-- 2020 | 02
EXPLAIN SELECT b FROM t WHERE b = 1;
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | SIMPLE | t | NULL | ALL | NULL | NULL | NULL | NULL | NULL | NULL | Using where
DROP TABLE t;
-- ok, 0 rows
SELECT b FROM t ORDER BY b;
-- ERROR 1146 (42S02): Table 'test.t' doesn't exist
DROP DATABASE other;
-- ok, 0 rows
# What is prepared reads a variable as it is when it runs.
PREPARE s FROM 'SELECT @@sql_mode, @@session.sql_mode';
-- ok, 0 rows
EXECUTE s;
-- [@@sql_mode, @@session.sql_mode]
-- STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO | STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO
SET sql_mode = 'NO_ZERO_DATE';
-- ok, 0 rows
EXECUTE s;
-- [@@sql_mode, @@session.sql_mode]
-- NO_ZERO_DATE | NO_ZERO_DATE
SET sql_mode = DEFAULT;
-- ok, 0 rows
