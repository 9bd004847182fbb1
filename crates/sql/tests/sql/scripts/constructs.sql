# MySQL's constructs, one by one: each is done, or answered by its name.
KILL CONNECTION;
-- ERROR 1064 (42000): You have an error in your SQL syntax: sql parser error: Expected: an expression, found: EOF
KILL 1 2;
-- ERROR 1064 (42000): You have an error in your SQL syntax: near '2'
USE test extra;
-- ERROR 1064 (42000): You have an error in your SQL syntax: near 'extra'
FLUSH TABLES extra;
-- ok, 0 rows
FLUSH PRIVILEGES;
-- ok, 0 rows
BEGIN NOW;
-- ERROR 1064 (42000): You have an error in your SQL syntax: near 'NOW'
SHOW TABLES FROM test nonsense;
-- ERROR 1064 (42000): You have an error in your SQL syntax: near 'nonsense'
SHOW DATABASES nonsense;
-- ERROR 1064 (42000): You have an error in your SQL syntax: near 'nonsense'
SHOW ENGINES nonsense;
-- ERROR 1064 (42000): You have an error in your SQL syntax: near 'nonsense'
SHOW STATUS nonsense;
-- ERROR 1064 (42000): You have an error in your SQL syntax: near 'nonsense'
SHOW FULL PROCESSLIST nonsense;
-- ERROR 1064 (42000): You have an error in your SQL syntax: near 'nonsense'
EXPLAIN UPDATE t SET a = 1;
-- ERROR 1146 (42S02): Table 'test.t' doesn't exist
EXPLAIN FORMAT=TRADITIONAL SELECT 1;
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | SIMPLE | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | No tables used
EXPLAIN SELECT 1 UNION SELECT 2;
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | PRIMARY | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | No tables used
-- 2 | UNION | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | No tables used
DESCRIBE nothing;
-- ERROR 1146 (42S02): Table 'test.nothing' doesn't exist
CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(10) CHARACTER SET latin1 COLLATE latin1_swedish_ci, c JSON, d BIT(8), e SET('x','y'), f YEAR, g TIME(3), h DECIMAL(10,2) UNSIGNED, CONSTRAINT pos CHECK (a > 0));
-- ok, 0 rows
CREATE TABLE t2 LIKE t;
-- ok, 0 rows
CREATE TABLE t3 AS SELECT 1;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'CREATE TABLE ... SELECT'
CREATE TABLE t4 SELECT * FROM t;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'CREATE TABLE ... SELECT'
INSERT t SET a = 1, b = 'x';
-- ok, 1 rows
INSERT INTO t (a) VALUES (2), (3) AS new ON DUPLICATE KEY UPDATE b = new.a;
-- ok, 2 rows
INSERT INTO t VALUES ROW(9, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
-- ok, 1 rows
INSERT INTO t () VALUES ();
-- ERROR 1364 (HY000): Field 'a' doesn't have a default value
VALUES ROW(1, 2), ROW(3, 4);
-- [column_0, column_1]
-- 1 | 2
-- 3 | 4
(SELECT 1) UNION (SELECT 2) ORDER BY 1 DESC LIMIT 1;
-- [1]
-- 2
SELECT * FROM t USE INDEX (PRIMARY) WHERE a = 1;
-- [a, b, c, d, e, f, g, h]
-- 1 | x | NULL | NULL | NULL | NULL | NULL | NULL
SELECT a DIV 2, a MOD 2, a XOR 1, !a FROM t;
-- [a DIV 2, a MOD 2, a XOR 1, !a]
-- 0 | 1 | 0 | 0
-- 1 | 0 | 0 | 0
-- 1 | 1 | 0 | 0
-- 4 | 1 | 0 | 0
SELECT STRAIGHT_JOIN t.a FROM t JOIN t2 ON t.a = t2.a;
-- [a]
SELECT * FROM t NATURAL JOIN t2;
-- [a, b, c, d, e, f, g, h]
SELECT DISTINCTROW a FROM t;
-- [a]
-- 1
-- 2
-- 3
-- 9
SELECT a FROM t PROCEDURE ANALYSE();
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'PROCEDURE ANALYSE'
SELECT a FROM t LIMIT 1 INTO OUTFILE 'x';
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'SELECT ... INTO OUTFILE'
SELECT COUNT(DISTINCT a, b) FROM t;
-- [COUNT(DISTINCT a, b)]
-- 1
SELECT a FROM t WHERE (a, b) = (1, 'x') AND (a, b) IN ((1, 'x'));
-- [a]
-- 1
SELECT a FROM t WHERE a = ANY (SELECT a FROM t) AND a >= ALL (SELECT a FROM t2);
-- [a]
-- 1
-- 2
-- 3
-- 9
SELECT 1 FROM t FULL OUTER JOIN t2 ON t.a = t2.a;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'FULL OUTER JOIN'
SELECT a SOUNDS LIKE b FROM t;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'SOUNDS LIKE'
SELECT c->'$.a', c->>'$.a' FROM t;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support '->'
SELECT a FROM t WHERE MATCH (b) AGAINST ('x');
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'MATCH (b) AGAINST ('x')'
SELECT CASE a WHEN 1 THEN 'one' END, IF(a, 1, 2), a <=> NULL, a IS NOT TRUE FROM t WHERE a = 1;
-- [CASE a WHEN 1 THEN 'one' END, IF(a, 1, 2), a <=> NULL, a IS NOT TRUE]
-- one | 1 | 0 | 0
SELECT _utf8mb4'x' COLLATE utf8mb4_bin, N'x', X'41', 0x42, b'1000001', 'a' 'b';
-- [_utf8mb4'x' COLLATE utf8mb4_bin, N'x', X'41', X'42', B'1000001', ab]
-- x | x | A | B | A | ab
SELECT CAST('1' AS SIGNED), CONVERT('1', UNSIGNED), CONVERT('x' USING utf8mb4);
-- [CAST('1' AS SIGNED), CONVERT('1', UNSIGNED), CONVERT('x' USING utf8mb4)]
-- 1 | 1 | x
SELECT DATE '2020-01-01' + INTERVAL 1 DAY, TIMESTAMP '2020-01-01 00:00:00', EXTRACT(YEAR FROM '2020-02-03');
-- [DATE '2020-01-01' + INTERVAL 1 DAY, TIMESTAMP '2020-01-01 00:00:00', EXTRACT(YEAR FROM '2020-02-03')]
-- 2020-01-02 | 2020-01-01 00:00:00 | 2020
SELECT 1 AS `a``b`, 'x' AS "q", 2 'r';
-- [a`b, q, r]
-- 1 | x | 2
SELECT t.* , a + 1 FROM test.t WHERE test.t.a = 1;
-- [a, b, c, d, e, f, g, h, a + 1]
-- 1 | x | NULL | NULL | NULL | NULL | NULL | NULL | 2
SELECT @@version_comment LIMIT 1;
-- [@@version_comment]
-- Spillway
SELECT SQL_NO_CACHE 1;
-- [1]
-- 1
SELECT 1 FROM DUAL WHERE 1;
-- [1]
-- 1
SELECT ALL 1;
-- [1]
-- 1
SELECT a FROM t FOR UPDATE SKIP LOCKED;
-- [a]
-- 1
-- 2
-- 3
-- 9
SELECT a FROM t FOR SHARE NOWAIT;
-- [a]
-- 1
-- 2
-- 3
-- 9
SELECT a FROM t ORDER BY NULL;
-- [a]
-- 1
-- 2
-- 3
-- 9
SELECT a, COUNT(*) FROM t GROUP BY a ASC;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'GROUP BY ... ASC'
SELECT LEFT('abc', 2), RIGHT('abc', 2), REPLACE('abc', 'b', 'x'), INSERT('abc', 1, 1, 'z'), MOD(5, 3), TRUNCATE(1.55, 1), IF(1, 2, 3), CHAR(65 USING utf8mb4), VALUES(a) FROM t;
-- ERROR 1305 (42000): FUNCTION values does not exist
ALTER TABLE t ADD COLUMN z INT AFTER a, DROP COLUMN f, ADD KEY zz (z), ENGINE = InnoDB;
-- ok, 0 rows, 2 warnings
ALTER TABLE t ORDER BY a;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'ALTER TABLE ... ORDER BY'
ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4;
-- ok, 0 rows
ALTER TABLE t DISCARD TABLESPACE;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'DISCARD TABLESPACE'
ALTER TABLE t ADD PARTITION (PARTITION p0 VALUES LESS THAN (1));
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'ALTER TABLE ... PARTITION'
ALTER TABLE t FORCE;
-- ok, 0 rows
ALTER IGNORE TABLE t ADD q INT;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'ALTER'
CREATE UNIQUE INDEX u ON t (z) USING BTREE COMMENT 'x';
-- ok, 0 rows
DROP INDEX u ON t ALGORITHM=INPLACE LOCK=NONE;
-- ok, 0 rows
TRUNCATE t;
-- ok, 0 rows
DROP TABLES t, t2;
-- ok, 0 rows
DROP DATABASE IF EXISTS nothing;
-- ok, 0 rows, 1 warnings
CREATE SCHEMA IF NOT EXISTS test DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
-- ok, 0 rows, 1 warnings
START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY;
-- ok, 0 rows
COMMIT WORK AND NO CHAIN;
-- ok, 0 rows
SET @a := 1, @b := @a;
-- ok, 0 rows
SET PASSWORD = 'x' RETAIN CURRENT PASSWORD;
-- ERROR 1064 (42000): You have an error in your SQL syntax: near 'RETAIN'
CREATE USER u@localhost IDENTIFIED BY 'x' ACCOUNT LOCK;
-- ok, 0 rows
SELECT 1; SELECT 2;
-- [1]
-- 1
-- [2]
-- 2
DELIMITER //
;
-- ERROR 1064 (42000): You have an error in your SQL syntax: sql parser error: Expected: an SQL statement, found: DELIMITER
DO SLEEP(0);
-- ok, 0 rows
HELP 'x';
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'HELP'
SIGNAL SQLSTATE '45000';
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'SIGNAL'
GET DIAGNOSTICS @a = NUMBER;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'GET'
LOAD XML INFILE 'x' INTO TABLE t;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'LOAD XML'
CHECKSUM TABLE t;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'CHECKSUM TABLE'
INSTALL PLUGIN x SONAME 'y';
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'INSTALL'
SHUTDOWN;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'SHUTDOWN'
CREATE TABLE p (a INT) PARTITION BY HASH (a) PARTITIONS 4;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'PARTITION BY'
CREATE TABLE g (a INT, b INT GENERATED ALWAYS AS (a + 1) STORED);
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'GENERATED ALWAYS AS (a + 1) STORED'
CREATE TABLE ft (a TEXT, FULLTEXT KEY (a));
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'FULLTEXT KEY (a)'
CREATE TABLE sp (a GEOMETRY);
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'column type GEOMETRY'
CREATE TABLE inv (a INT INVISIBLE);
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'INVISIBLE'
CREATE TABLE dsc (a INT, KEY (a DESC));
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'a descending index'
CREATE TABLE fk (a INT, FOREIGN KEY (a) REFERENCES t (a));
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'FOREIGN KEY'
CREATE TABLE uu (a INT) UNION = (t);
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'table option UNION'
CREATE TABLE en (a INT) ENCRYPTION = 'Y';
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'table option ENCRYPTION'
CREATE TABLE dd (a INT) DATA DIRECTORY = '/tmp';
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'table option DATA DIRECTORY'
CREATE TABLE tc (a INT) TABLESPACE x;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'TABLESPACE x'
CREATE TABLE zf (a INT ZEROFILL);
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'ZEROFILL'
VALUES ();
-- ERROR 3942 (HY000): Each row of a VALUES clause must have at least one column, unless when used as source in an INSERT statement.
VALUES ROW(1), ROW(2, 3);
-- ERROR 1136 (21S01): Column count doesn't match value count at row 2
SELECT * FROM (VALUES ROW(1, 2), ROW(3)) v;
-- ERROR 1136 (21S01): Column count doesn't match value count at row 2
