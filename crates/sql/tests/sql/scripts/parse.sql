# Precedence, from the loosest to the tightest.
SELECT 0 AND 1 || 1, 1 OR 0 XOR 1, 1 XOR 1 AND 0, 1 = 1 && 2 = 2, NOT 1 = 2, 1 = 1 XOR 0 = 0;
-- [0 AND 1 || 1, 1 OR 0 XOR 1, 1 XOR 1 AND 0, 1 = 1 && 2 = 2, NOT 1 = 2, 1 = 1 XOR 0 = 0]
-- 1 | 1 | 1 | 1 | 1 | 0
SELECT 1 LIKE 1 = 2, 2 = 1 LIKE 1, 1 = 2 IS NULL, 3 BETWEEN 1 AND 3 = 1, 1 IN (1, 2) = 1;
-- [1 LIKE 1 = 2, 2 = 1 LIKE 1, 1 = 2 IS NULL, 3 BETWEEN 1 AND 3 = 1, 1 IN (1, 2) = 1]
-- 0 | 0 | 0 | 1 | 1
SELECT 1 | 2 & 4, 1 << 2 + 1, 8 & 1 << 3, 2 + 3 * 4, 7 DIV 2 + 1, 7 MOD 4 * 2, 2 * 3 ^ 1, 2 ^ 3 * 4;
-- [1 | 2 & 4, 1 << 2 + 1, 8 & 1 << 3, 2 + 3 * 4, 7 DIV 2 + 1, 7 MOD 4 * 2, 2 * 3 ^ 1, 2 ^ 3 * 4]
-- 1 | 8 | 8 | 14 | 4 | 6 | 4 | 4
SELECT !0 + 1, ! 1, !!5, -2 ^ 2 & 255, - 3 + 5, ~0 & 15, 10 % 4, 10 MOD (4), MOD(10, 4), 5--3;
-- [!0 + 1, ! 1, !!5, -2 ^ 2 & 255, - 3 + 5, ~0 & 15, 10 % 4, 10 MOD (4), MOD(10, 4), 5--3]
-- 2 | 0 | 1 | 252 | 2 | 15 | 2 | 2 | 2 | 8
SELECT 'b' LIKE BINARY 'B', BINARY 'a' = 'A', 'a' = 'A';
-- ['b' LIKE BINARY 'B', BINARY 'a' = 'A', 'a' = 'A']
-- 0 | 0 | 1
SELECT @a := 1 + 1, @b := @c := 5;
-- [@a := 1 + 1, @b := @c := 5]
-- 2 | 5
SELECT @a, @b, @c;
-- [@a, @b, @c]
-- 2 | 5 | 5
# Words that hint, and columns and tables of the same names.
CREATE TABLE quick (quick INT PRIMARY KEY, delayed_ INT, low INT);
-- ok, 0 rows
INSERT LOW_PRIORITY INTO quick VALUES (1, 1, 1), (2, 2, 2);
-- ok, 2 rows
INSERT DELAYED IGNORE INTO quick VALUES (1, 1, 1);
-- ok, 0 rows, 1 warnings
REPLACE DELAYED INTO quick VALUES (3, 3, 3);
-- ok, 1 rows
SELECT quick FROM quick ORDER BY quick;
-- [quick]
-- 1
-- 2
-- 3
SELECT HIGH_PRIORITY SQL_NO_CACHE SQL_BIG_RESULT quick FROM quick WHERE quick = 1;
-- [quick]
-- 1
UPDATE LOW_PRIORITY quick SET low = 5 WHERE quick = 1;
-- ok, 1 rows
UPDATE LOW_PRIORITY IGNORE quick SET quick = 2 WHERE quick = 1;
-- ok, 0 rows, 1 warnings
SHOW WARNINGS;
-- [Level, Code, Message]
-- Warning | 1062 | Duplicate entry '2' for key 'quick.PRIMARY'
SELECT * FROM quick;
-- [quick, delayed_, low]
-- 1 | 1 | 5
-- 2 | 2 | 2
-- 3 | 3 | 3
DELETE FROM quick WHERE quick = 1;
-- ok, 1 rows
DELETE LOW_PRIORITY QUICK IGNORE FROM quick WHERE quick = 2;
-- ok, 1 rows
SELECT quick FROM quick LOCK IN SHARE MODE;
-- [quick]
-- 3
SELECT (SELECT MAX(quick) FROM quick LOCK IN SHARE MODE) + 1;
-- [(SELECT MAX(quick) FROM quick LOCK IN SHARE MODE) + 1]
-- 4
# Comments: for versions, and with quotes in them.
SELECT /*!50001 1, */ /*!99999 2, */ /*!801000 3, */ /*M! 4, */ /*! 5, */ 6;
-- [1, 5, 6]
-- 1 | 5 | 6
SELECT 1 /* it's */ + /*!40101 1 /* inner */ + */ 1 -- that's it
;
-- [1   +   1   +   1]
-- 3
SELECT 1 --	it's
+ 1;
-- [1 + 1]
-- 2
SELECT 1 # it's
;
-- [1]
-- 1
# Statements prepared by a statement; such a one cannot prepare another.
PREPARE s FROM 'EXECUTE s';
-- ERROR 1295 (HY000): This command is not supported in the prepared statement protocol yet
EXECUTE s;
-- ERROR 1243 (HY000): Unknown prepared statement handler (s) given to EXECUTE
PREPARE s FROM 'PREPARE t FROM ''SELECT 1''';
-- ERROR 1295 (HY000): This command is not supported in the prepared statement protocol yet
PREPARE s FROM 'DEALLOCATE PREPARE s';
-- ERROR 1295 (HY000): This command is not supported in the prepared statement protocol yet
PREPARE S FROM 'SELECT ? + ?, ?';
-- ok, 0 rows
SET @x = 2, @y = 3;
-- ok, 0 rows
EXECUTE s USING @x, @y, @x;
-- [? + ?, ?]
-- 5 | 2
EXECUTE s USING @x;
-- ERROR 1210 (HY000): Incorrect arguments to EXECUTE
PREPARE s FROM 'SET @z = ? * 2';
-- ok, 0 rows
EXECUTE s USING @y;
-- ok, 0 rows
SELECT @z;
-- [@z]
-- 6
PREPARE s FROM 'SELECT nothing';
-- ERROR 1054 (42S22): Unknown column 'nothing' in 'field list'
EXECUTE s;
-- ERROR 1243 (HY000): Unknown prepared statement handler (s) given to EXECUTE
PREPARE s FROM 'SELECT 1';
-- ok, 0 rows
DROP PREPARE S;
-- ok, 0 rows
DEALLOCATE PREPARE s;
-- ERROR 1243 (HY000): Unknown prepared statement handler (s) given to DEALLOCATE PREPARE
# What there is not here is named.
XA START 'x';
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'XA START'
CREATE VIEW v AS SELECT 1;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'CREATE VIEW'
CREATE OR REPLACE VIEW v AS SELECT 1;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'CREATE VIEW'
CREATE DEFINER = 'root'@'%' TRIGGER t BEFORE INSERT ON quick FOR EACH ROW SET @a = 1;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'CREATE TRIGGER'
CREATE PROCEDURE p() SELECT 1;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'CREATE PROCEDURE'
CREATE TEMPORARY TABLE t (a INT);
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'CREATE TEMPORARY'
CREATE SPATIAL INDEX i ON quick (quick);
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'CREATE SPATIAL'
CALL p();
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'CALL'
LOAD DATA INFILE 'x' INTO TABLE quick;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'LOAD DATA'
HANDLER quick OPEN;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'HANDLER'
RESET MASTER;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'RESET MASTER'
PURGE BINARY LOGS TO 'x';
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'PURGE BINARY'
START SLAVE;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'START SLAVE'
SET ROLE NONE;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'SET ROLE'
TABLE quick;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'TABLE'
EXPLAIN ANALYZE SELECT 1;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'EXPLAIN ANALYZE'
EXPLAIN FORMAT = JSON SELECT 1;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'EXPLAIN FORMAT'
RENAME USER a TO b;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'RENAME USER'
DO 1, 2;
-- ok, 0 rows
# Transactions.
BEGIN;
-- ok, 0 rows
SAVEPOINT A;
-- ok, 0 rows
INSERT INTO quick VALUES (10, 0, 0);
-- ok, 1 rows
ROLLBACK TO SAVEPOINT a;
-- ok, 0 rows
SELECT COUNT(*) FROM quick;
-- [COUNT(*)]
-- 1
RELEASE SAVEPOINT nothing;
-- ERROR 1305 (42000): SAVEPOINT nothing does not exist
RELEASE SAVEPOINT a;
-- ok, 0 rows
ROLLBACK TO a;
-- ERROR 1305 (42000): SAVEPOINT a does not exist
COMMIT AND NO CHAIN NO RELEASE;
-- ok, 0 rows
COMMIT AND;
-- ERROR 1064 (42000): You have an error in your SQL syntax: near 'AND'
START TRANSACTION READ ONLY, WITH CONSISTENT SNAPSHOT;
-- ok, 0 rows
COMMIT AND CHAIN;
-- ok, 0 rows
INSERT INTO quick VALUES (11, 0, 0);
-- ERROR 1792 (25006): Cannot execute statement in a READ ONLY transaction.
ROLLBACK;
-- ok, 0 rows
START TRANSACTION QUICKLY;
-- ERROR 1064 (42000): You have an error in your SQL syntax: near 'QUICKLY'
DESC SELECT 1;
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | SIMPLE | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | No tables used
