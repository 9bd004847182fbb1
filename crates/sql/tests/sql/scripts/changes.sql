# Inserts, updates, keys and checks.
CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, u INT UNIQUE, v VARCHAR(5) NOT NULL DEFAULT 'd', n TINYINT, CHECK (n <> 13));
-- ok, 0 rows
INSERT INTO t (u, n) VALUES (1, 1), (2, 2), (NULL, 3), (NULL, 4);
-- ok, 4 rows, id 1
INSERT INTO t (u) VALUES (2);
-- ERROR 1062 (23000): Duplicate entry '2' for key 't.u'
INSERT IGNORE INTO t (u) VALUES (2), (5);
-- ok, 1 rows, id 6, 1 warnings
INSERT INTO t (u, v) VALUES (5, 'new') ON DUPLICATE KEY UPDATE v = VALUES(v), n = 7;
-- ok, 2 rows, id 6
REPLACE INTO t (id, u, v) VALUES (1, 2, 'r');
-- ok, 3 rows, id 1
SELECT * FROM t ORDER BY id;
-- [id, u, v, n]
-- 1 | 2 | r | NULL
-- 3 | NULL | d | 3
-- 4 | NULL | d | 4
-- 6 | 5 | new | 7
INSERT INTO t (v) VALUES (NULL);
-- ERROR 1048 (23000): Column 'v' cannot be null
INSERT INTO t (v) VALUES ('toolong');
-- ERROR 1406 (22001): Data too long for column 'v' at row 1
INSERT INTO t (n) VALUES (128);
-- ERROR 1264 (22003): Out of range value for column 'n' at row 1
INSERT INTO t (n) VALUES ('x');
-- ERROR 1366 (HY000): Incorrect integer value: 'x' for column 'n' at row 1
INSERT INTO t (n) VALUES (13);
-- ERROR 3819 (23000): Check constraint 't_chk_1' is violated.
INSERT INTO t (u, v) VALUES (1);
-- ERROR 1136 (21S01): Column count doesn't match value count at row 1
UPDATE t SET n = n + 1, u = u + 10 WHERE u IS NOT NULL;
-- ok, 2 rows
UPDATE t SET v = 'same' ORDER BY id LIMIT 2;
-- ok, 2 rows
SELECT * FROM t ORDER BY id;
-- [id, u, v, n]
-- 1 | 12 | same | NULL
-- 3 | NULL | same | 3
-- 4 | NULL | d | 4
-- 6 | 15 | new | 8
SELECT id FROM t WHERE u = 12;
-- [id]
-- 1
DELETE FROM t WHERE n IS NULL;
-- ok, 1 rows
SELECT COUNT(*) FROM t;
-- [COUNT(*)]
-- 3
# Transactions.
BEGIN;
-- ok, 0 rows
DELETE FROM t;
-- ok, 3 rows
SAVEPOINT a;
-- ok, 0 rows
INSERT INTO t (u) VALUES (100);
-- ok, 1 rows, id 8
ROLLBACK TO a;
-- ok, 0 rows
SELECT COUNT(*) FROM t;
-- [COUNT(*)]
-- 0
ROLLBACK;
-- ok, 0 rows
SELECT COUNT(*) FROM t;
-- [COUNT(*)]
-- 3
START TRANSACTION READ ONLY;
-- ok, 0 rows
INSERT INTO t (u) VALUES (1);
-- ERROR 1792 (25006): Cannot execute statement in a READ ONLY transaction.
COMMIT;
-- ok, 0 rows
SELECT * FROM t WHERE id = 3 FOR UPDATE;
-- [id, u, v, n]
-- 3 | NULL | same | 3
# Tables that change.
ALTER TABLE t DROP COLUMN n;
-- ERROR 3959 (HY000): Check constraint 't_chk_1' uses column 'n', hence column cannot be dropped or renamed.
ALTER TABLE t DROP CONSTRAINT t_chk_1;
-- ok, 0 rows
ALTER TABLE t ADD COLUMN extra INT NOT NULL DEFAULT 9, DROP COLUMN n;
-- ok, 0 rows
SELECT * FROM t ORDER BY id LIMIT 2;
-- [id, u, v, extra]
-- 3 | NULL | same | 9
-- 4 | NULL | d | 9
ALTER TABLE t MODIFY v VARCHAR(40), ADD INDEX by_v (v);
-- ok, 0 rows
ALTER TABLE t ENGINE=InnoDB;
-- ok, 0 rows, 2 warnings
SHOW WARNINGS;
-- [Level, Code, Message]
-- Warning | 1286 | Unknown storage engine 'InnoDB'
-- Warning | 1266 | Using storage engine TIERED for table 't'
CREATE UNIQUE INDEX once ON t (extra);
-- ERROR 1062 (23000): Duplicate entry '9' for key 't.once'
SHOW CREATE TABLE t;
-- [Table, Create Table]
-- t | CREATE TABLE `t` (\n  `id` int NOT NULL AUTO_INCREMENT,\n  `u` int DEFAULT NULL,\n  `v` varchar(40) DEFAULT NULL,\n  `extra` int NOT NULL DEFAULT '9',\n  PRIMARY KEY (`id`),\n  UNIQUE KEY `u` (`u`),\n  KEY `by_v` (`v`)\n) ENGINE=TIERED AUTO_INCREMENT=10 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci
RENAME TABLE t TO s;
-- ok, 0 rows
TRUNCATE TABLE s;
-- ok, 0 rows
SELECT COUNT(*) FROM s;
-- [COUNT(*)]
-- 0
DROP TABLE s, nothing;
-- ERROR 1051 (42S02): Unknown table 'test.nothing'
DROP TABLE IF EXISTS s;
-- ok, 0 rows
CREATE TABLE f (a INT REFERENCES s (id), FOREIGN KEY (a) REFERENCES s (id));
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'FOREIGN KEY'
CREATE VIEW w AS SELECT 1;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'CREATE VIEW'
# The session.
SET @a := 5, @b = @a + 1;
-- ok, 0 rows
SELECT @a, @b, @@autocommit, @@session.sql_mode;
-- [@a, @b, @@autocommit, @@session.sql_mode]
-- 5 | NULL | 1 | STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO
PREPARE p FROM 'SELECT ? + ?';
-- ok, 0 rows
EXECUTE p USING @a, @b;
-- [? + ?]
-- NULL
DEALLOCATE PREPARE p;
-- ok, 0 rows
SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE;
-- ok, 0 rows
SELECT @@transaction_isolation, @@global.transaction_isolation;
-- [@@transaction_isolation, @@global.transaction_isolation]
-- SERIALIZABLE | REPEATABLE-READ
SET GLOBAL TRANSACTION ISOLATION LEVEL READ COMMITTED;
-- ok, 0 rows
SELECT @@transaction_isolation, @@global.transaction_isolation;
-- [@@transaction_isolation, @@global.transaction_isolation]
-- SERIALIZABLE | READ-COMMITTED
SET nonsense = 1;
-- ERROR 1193 (HY000): Unknown system variable 'nonsense'
XA START 'x';
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'XA START'
/*!40101 SET NAMES utf8mb4 */;
-- ok, 0 rows
/*M!100100 SET nonsense = 1 */;
-- ok, 0 rows
DO 1;
-- ok, 0 rows
