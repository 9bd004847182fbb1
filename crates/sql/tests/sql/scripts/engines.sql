# Where a table is, by ENGINE: names and aliases, in any case, quoted or not, with = or without.
CREATE TABLE t1 (id INT PRIMARY KEY) ENGINE=MEMORY_OPTIMIZED;
-- ok, 0 rows
CREATE TABLE t2 (id INT PRIMARY KEY) ENGINE HiEngine;
-- ok, 0 rows
CREATE TABLE t3 (id INT PRIMARY KEY) ENGINE = 'memory_optimized';
-- ok, 0 rows
CREATE TABLE t4 (id INT PRIMARY KEY) ENGINE "HIENGINE" COMMENT 'engine = ''x''';
-- ok, 0 rows
CREATE TABLE t5 (id INT PRIMARY KEY) COMMENT='engine' ENGINE=`Memory_Optimized` DEFAULT CHARSET=utf8mb4;
-- ok, 0 rows
CREATE TABLE t6 (id INT PRIMARY KEY) ENGINE=tiered;
-- ok, 0 rows
CREATE TABLE t7 (id INT PRIMARY KEY) ENGINE 'XEngine';
-- ok, 0 rows
CREATE TABLE t8 (engine VARCHAR(9) DEFAULT 'x', CHECK (engine = 'x'));
-- ok, 0 rows
CREATE TABLE t9 LIKE t1;
-- ok, 0 rows
CREATE TABLE t10 LIKE t7;
-- ok, 0 rows
SELECT TABLE_NAME, ENGINE, TABLE_COMMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'test' ORDER BY LENGTH(TABLE_NAME), TABLE_NAME;
-- [TABLE_NAME, ENGINE, TABLE_COMMENT]
-- t1 | MEMORY_OPTIMIZED | 
-- t2 | MEMORY_OPTIMIZED | 
-- t3 | MEMORY_OPTIMIZED | 
-- t4 | MEMORY_OPTIMIZED | engine = 'x'
-- t5 | MEMORY_OPTIMIZED | engine
-- t6 | TIERED | 
-- t7 | TIERED | 
-- t8 | TIERED | 
-- t9 | MEMORY_OPTIMIZED | 
-- t10 | TIERED | 
SHOW CREATE TABLE t4;
-- [Table, Create Table]
-- t4 | CREATE TABLE `t4` (\n  `id` int NOT NULL,\n  PRIMARY KEY (`id`)\n) ENGINE=MEMORY_OPTIMIZED DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci COMMENT='engine = ''x'''
SHOW CREATE TABLE t9;
-- [Table, Create Table]
-- t9 | CREATE TABLE `t9` (\n  `id` int NOT NULL,\n  PRIMARY KEY (`id`)\n) ENGINE=MEMORY_OPTIMIZED DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci
SHOW CREATE TABLE t8;
-- [Table, Create Table]
-- t8 | CREATE TABLE `t8` (\n  `engine` varchar(9) DEFAULT 'x',\n  CONSTRAINT `t8_chk_1` CHECK (engine = 'x')\n) ENGINE=TIERED DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci
DROP TABLE t2, t3, t4, t5, t6, t7, t8, t9, t10;
-- ok, 0 rows
# An unknown engine: the default takes its place, or it is an error.
CREATE TABLE u (a INT) ENGINE=InnoDB;
-- ok, 0 rows, 2 warnings
SHOW WARNINGS;
-- [Level, Code, Message]
-- Warning | 1286 | Unknown storage engine 'InnoDB'
-- Warning | 1266 | Using storage engine TIERED for table 'u'
CREATE TABLE v (a INT) ENGINE='MEMORY';
-- ok, 0 rows, 2 warnings
SHOW WARNINGS;
-- [Level, Code, Message]
-- Warning | 1286 | Unknown storage engine 'MEMORY'
-- Warning | 1266 | Using storage engine TIERED for table 'v'
SET default_storage_engine = hiengine;
-- ok, 0 rows
CREATE TABLE w (a INT) ENGINE=InnoDB ROW_FORMAT=DYNAMIC;
-- ok, 0 rows, 3 warnings
SHOW WARNINGS;
-- [Level, Code, Message]
-- Warning | 1286 | Unknown storage engine 'InnoDB'
-- Warning | 1266 | Using storage engine MEMORY_OPTIMIZED for table 'w'
-- Warning | 1478 | Table storage engine 'MEMORY_OPTIMIZED' does not support the create option 'ROW_FORMAT'
SHOW CREATE TABLE w;
-- [Table, Create Table]
-- w | CREATE TABLE `w` (\n  `a` int DEFAULT NULL\n) ENGINE=MEMORY_OPTIMIZED DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci
SET sql_mode = 'NO_ENGINE_SUBSTITUTION';
-- ok, 0 rows
CREATE TABLE x (a INT) ENGINE=InnoDB;
-- ERROR 1286 (42000): Unknown storage engine 'InnoDB'
ALTER TABLE w ENGINE=InnoDB;
-- ERROR 1286 (42000): Unknown storage engine 'InnoDB'
SET default_storage_engine = InnoDB;
-- ERROR 1286 (42000): Unknown storage engine 'InnoDB'
SET sql_mode = DEFAULT;
-- ok, 0 rows
DROP TABLE u, v, w;
-- ok, 0 rows
# The default.
SELECT @@default_storage_engine, @@storage_engine, @@session.default_storage_engine, @@global.default_storage_engine;
-- [@@default_storage_engine, @@storage_engine, @@session.default_storage_engine, @@global.default_storage_engine]
-- MEMORY_OPTIMIZED | MEMORY_OPTIMIZED | MEMORY_OPTIMIZED | TIERED
SET default_storage_engine = InnoDB;
-- ok, 0 rows, 1 warnings
SHOW WARNINGS;
-- [Level, Code, Message]
-- Warning | 1286 | Unknown storage engine 'InnoDB'
SELECT @@default_storage_engine;
-- [@@default_storage_engine]
-- MEMORY_OPTIMIZED
SHOW ENGINES;
-- [Engine, Support, Comment, Transactions, XA, Savepoints]
-- TIERED | YES | LSM-tree of 2 MB extents, for data larger than memory (alias XENGINE) | YES | NO | YES
-- MEMORY_OPTIMIZED | DEFAULT | Rows in memory over the log, for data whose keys fit memory (alias HIENGINE) | YES | NO | YES
SELECT ENGINE, SUPPORT, TRANSACTIONS, SAVEPOINTS FROM information_schema.ENGINES;
-- [ENGINE, SUPPORT, TRANSACTIONS, SAVEPOINTS]
-- TIERED | YES | YES | YES
-- MEMORY_OPTIMIZED | DEFAULT | YES | YES
CREATE TABLE d1 (a INT);
-- ok, 0 rows
SET storage_engine = 'XENGINE';
-- ok, 0 rows
SELECT @@default_storage_engine;
-- [@@default_storage_engine]
-- TIERED
CREATE TABLE d2 (a INT);
-- ok, 0 rows
SET SESSION default_storage_engine = MEMORY_OPTIMIZED;
-- ok, 0 rows
CREATE TABLE d3 (a INT);
-- ok, 0 rows
CREATE TABLE d4 LIKE d2;
-- ok, 0 rows
SET default_storage_engine = DEFAULT;
-- ok, 0 rows
SELECT @@default_storage_engine;
-- [@@default_storage_engine]
-- TIERED
SET GLOBAL default_storage_engine = MEMORY_OPTIMIZED;
-- ok, 0 rows
SELECT @@default_storage_engine, @@global.default_storage_engine;
-- [@@default_storage_engine, @@global.default_storage_engine]
-- TIERED | MEMORY_OPTIMIZED
SET default_storage_engine = DEFAULT;
-- ok, 0 rows
SELECT @@default_storage_engine;
-- [@@default_storage_engine]
-- MEMORY_OPTIMIZED
SET GLOBAL default_storage_engine = InnoDB;
-- ok, 0 rows, 1 warnings
SELECT @@global.default_storage_engine;
-- [@@global.default_storage_engine]
-- MEMORY_OPTIMIZED
SET GLOBAL default_storage_engine = DEFAULT;
-- ok, 0 rows
SET default_storage_engine = DEFAULT;
-- ok, 0 rows
SELECT @@default_storage_engine, @@global.default_storage_engine;
-- [@@default_storage_engine, @@global.default_storage_engine]
-- TIERED | TIERED
SHOW VARIABLES LIKE '%storage_engine';
-- [Variable_name, Value]
-- default_storage_engine | TIERED
-- default_tmp_storage_engine | TIERED
-- storage_engine | TIERED
SHOW ENGINES;
-- [Engine, Support, Comment, Transactions, XA, Savepoints]
-- TIERED | DEFAULT | LSM-tree of 2 MB extents, for data larger than memory (alias XENGINE) | YES | NO | YES
-- MEMORY_OPTIMIZED | YES | Rows in memory over the log, for data whose keys fit memory (alias HIENGINE) | YES | NO | YES
SELECT TABLE_NAME, ENGINE FROM information_schema.TABLES WHERE TABLE_NAME LIKE 'd_' ORDER BY 1;
-- [TABLE_NAME, ENGINE]
-- d1 | MEMORY_OPTIMIZED
-- d2 | TIERED
-- d3 | MEMORY_OPTIMIZED
-- d4 | TIERED
DROP TABLE d1, d2, d3, d4;
-- ok, 0 rows
# From one engine into the other and back, with everything that a table has.
CREATE TABLE m (id INT AUTO_INCREMENT PRIMARY KEY, a INT NOT NULL, b VARCHAR(20), at TIMESTAMP NULL, u INT, UNIQUE KEY u (u), KEY a (a, b), CONSTRAINT positive CHECK (a > 0)) COMMENT='moved';
-- ok, 0 rows
INSERT INTO m (a, b, at, u) VALUES (3, 'c', '2024-01-02 03:04:05', 30), (1, 'a', NULL, 10), (2, NULL, '2024-02-29 00:00:00', NULL);
-- ok, 3 rows, id 1
DELETE FROM m WHERE id = 3;
-- ok, 1 rows
INSERT INTO m (a, b, u) VALUES (4, 'd', NULL);
-- ok, 1 rows, id 4
ALTER TABLE m ENGINE=MEMORY_OPTIMIZED;
-- ok, 0 rows
SHOW WARNINGS;
-- [Level, Code, Message]
SHOW CREATE TABLE m;
-- [Table, Create Table]
-- m | CREATE TABLE `m` (\n  `id` int NOT NULL AUTO_INCREMENT,\n  `a` int NOT NULL,\n  `b` varchar(20) DEFAULT NULL,\n  `at` timestamp NULL DEFAULT NULL,\n  `u` int DEFAULT NULL,\n  PRIMARY KEY (`id`),\n  UNIQUE KEY `u` (`u`),\n  KEY `a` (`a`,`b`),\n  CONSTRAINT `positive` CHECK (a > 0)\n) ENGINE=MEMORY_OPTIMIZED AUTO_INCREMENT=5 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci COMMENT='moved'
SELECT * FROM m ORDER BY id;
-- [id, a, b, at, u]
-- 1 | 3 | c | 2024-01-02 03:04:05 | 30
-- 2 | 1 | a | NULL | 10
-- 4 | 4 | d | NULL | NULL
SELECT id FROM m FORCE INDEX (a) WHERE a > 1 ORDER BY a DESC;
-- [id]
-- 4
-- 1
SELECT b FROM m WHERE u = 10;
-- [b]
-- a
INSERT INTO m (a, u) VALUES (5, 10);
-- ERROR 1062 (23000): Duplicate entry '10' for key 'm.u'
INSERT INTO m (a, u) VALUES (0, 50);
-- ERROR 3819 (23000): Check constraint 'positive' is violated.
INSERT INTO m (a, u) VALUES (6, 60);
-- ok, 1 rows, id 6
SELECT MAX(id) FROM m;
-- [MAX(id)]
-- 6
CHECK TABLE m;
-- [Table, Op, Msg_type, Msg_text]
-- test.m | check | status | OK
ALTER TABLE m ENGINE = 'tiered', ADD COLUMN c INT DEFAULT 7 AFTER id, DROP INDEX a, ADD INDEX b (b), RENAME TO n;
-- ok, 0 rows
SHOW CREATE TABLE n;
-- [Table, Create Table]
-- n | CREATE TABLE `n` (\n  `id` int NOT NULL AUTO_INCREMENT,\n  `c` int DEFAULT '7',\n  `a` int NOT NULL,\n  `b` varchar(20) DEFAULT NULL,\n  `at` timestamp NULL DEFAULT NULL,\n  `u` int DEFAULT NULL,\n  PRIMARY KEY (`id`),\n  UNIQUE KEY `u` (`u`),\n  KEY `b` (`b`),\n  CONSTRAINT `positive` CHECK (a > 0)\n) ENGINE=TIERED AUTO_INCREMENT=7 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci COMMENT='moved'
SELECT * FROM n ORDER BY id;
-- [id, c, a, b, at, u]
-- 1 | 7 | 3 | c | 2024-01-02 03:04:05 | 30
-- 2 | 7 | 1 | a | NULL | 10
-- 4 | 7 | 4 | d | NULL | NULL
-- 6 | 7 | 6 | NULL | NULL | 60
SELECT id FROM n FORCE INDEX (b) WHERE b = 'd';
-- [id]
-- 4
CHECK TABLE n;
-- [Table, Op, Msg_type, Msg_text]
-- test.n | check | status | OK
ALTER TABLE n ENGINE=HIENGINE, AUTO_INCREMENT=100;
-- ok, 0 rows
INSERT INTO n (a, u) VALUES (7, 70);
-- ok, 1 rows, id 100
SELECT id, c, a, u FROM n WHERE u = 70;
-- [id, c, a, u]
-- 100 | 7 | 7 | 70
# Of the same engine, and of one that there is not, nothing is copied.
ALTER TABLE n ENGINE=MEMORY_OPTIMIZED, ALGORITHM=INSTANT;
-- ok, 0 rows
ALTER TABLE n ENGINE=InnoDB, ALGORITHM=INSTANT;
-- ok, 0 rows, 2 warnings
SHOW WARNINGS;
-- [Level, Code, Message]
-- Warning | 1286 | Unknown storage engine 'InnoDB'
-- Warning | 1266 | Using storage engine MEMORY_OPTIMIZED for table 'n'
ALTER TABLE n ENGINE=TIERED, ALGORITHM=INSTANT;
-- ERROR 1845 (0A000): ALGORITHM=INSTANT is not supported for this operation. Try ALGORITHM=COPY.
ALTER TABLE n ENGINE=TIERED, ALGORITHM=INPLACE;
-- ERROR 1845 (0A000): ALGORITHM=INPLACE is not supported for this operation. Try ALGORITHM=COPY.
ALTER TABLE n ENGINE=TIERED, LOCK=NONE;
-- ERROR 1846 (0A000): LOCK=NONE is not supported. Reason: COPY algorithm requires a lock. Try LOCK=EXCLUSIVE.
ALTER TABLE n ENGINE=TIERED, ALGORITHM=COPY, LOCK=EXCLUSIVE;
-- ok, 0 rows
ALTER TABLE n ENGINE=MEMORY_OPTIMIZED, ENGINE=TIERED;
-- ok, 0 rows
SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_NAME = 'n';
-- [ENGINE]
-- TIERED
# A change that the rows do not allow leaves the table where it is.
ALTER TABLE n ENGINE=MEMORY_OPTIMIZED, ADD UNIQUE (c);
-- ERROR 1062 (23000): Duplicate entry '7' for key 'n.c'
ALTER TABLE n ENGINE=MEMORY_OPTIMIZED, ADD CHECK (a < 5);
-- ERROR 3819 (23000): Check constraint 'n_chk_1' is violated.
SELECT ENGINE, TABLE_COMMENT FROM information_schema.TABLES WHERE TABLE_NAME = 'n';
-- [ENGINE, TABLE_COMMENT]
-- TIERED | moved
SELECT COUNT(*), SUM(a) FROM n;
-- [COUNT(*), SUM(a)]
-- 5 | 21
DROP TABLE n;
-- ok, 0 rows
# A table without a primary key.
CREATE TABLE p (a INT, KEY (a));
-- ok, 0 rows
INSERT INTO p VALUES (2), (2), (NULL);
-- ok, 3 rows
ALTER TABLE p ENGINE=MEMORY_OPTIMIZED;
-- ok, 0 rows
INSERT INTO p VALUES (2);
-- ok, 1 rows
ALTER TABLE p ENGINE=TIERED;
-- ok, 0 rows
INSERT INTO p VALUES (3);
-- ok, 1 rows
SELECT a, COUNT(*) FROM p GROUP BY a ORDER BY a;
-- [a, COUNT(*)]
-- NULL | 1
-- 2 | 3
-- 3 | 1
DELETE FROM p WHERE a = 2 LIMIT 2;
-- ok, 2 rows
SELECT a, COUNT(*) FROM p FORCE INDEX (a) GROUP BY a ORDER BY a;
-- [a, COUNT(*)]
-- NULL | 1
-- 2 | 1
-- 3 | 1
DROP TABLE p;
-- ok, 0 rows
# Instant changes, new indexes, TRUNCATE and RENAME stay in the engine.
INSERT INTO t1 VALUES (1), (2);
-- ok, 2 rows
ALTER TABLE t1 ADD COLUMN n INT DEFAULT 5 FIRST, ALGORITHM=INSTANT;
-- ok, 0 rows
INSERT INTO t1 VALUES (6, 3);
-- ok, 1 rows
SELECT * FROM t1 ORDER BY id;
-- [n, id]
-- 5 | 1
-- 5 | 2
-- 6 | 3
OPTIMIZE TABLE t1;
-- [Table, Op, Msg_type, Msg_text]
-- test.t1 | optimize | status | OK
CREATE UNIQUE INDEX n ON t1 (n, id);
-- ok, 0 rows
ALTER TABLE t1 MODIFY n BIGINT, ADD INDEX m (n), ALGORITHM=COPY;
-- ok, 0 rows
SELECT id FROM t1 FORCE INDEX (m) WHERE n = 5;
-- [id]
-- 1
-- 2
RENAME TABLE t1 TO t2;
-- ok, 0 rows
TRUNCATE TABLE t2;
-- ok, 0 rows
INSERT INTO t2 VALUES (1, 1);
-- ok, 1 rows
SHOW CREATE TABLE t2;
-- [Table, Create Table]
-- t2 | CREATE TABLE `t2` (\n  `n` bigint DEFAULT NULL,\n  `id` int NOT NULL,\n  PRIMARY KEY (`id`),\n  UNIQUE KEY `n` (`n`,`id`),\n  KEY `m` (`n`)\n) ENGINE=MEMORY_OPTIMIZED DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci
CHECK TABLE t2;
-- [Table, Op, Msg_type, Msg_text]
-- test.t2 | check | status | OK
# One transaction over both engines.
CREATE TABLE t3 (id INT PRIMARY KEY, n INT) ENGINE=TIERED;
-- ok, 0 rows
BEGIN;
-- ok, 0 rows
INSERT INTO t2 VALUES (2, 2);
-- ok, 1 rows
INSERT INTO t3 SELECT id, n FROM t2;
-- ok, 2 rows
SAVEPOINT s;
-- ok, 0 rows
DELETE FROM t2;
-- ok, 2 rows
UPDATE t3 SET n = 9;
-- ok, 2 rows
ROLLBACK TO s;
-- ok, 0 rows
UPDATE t2, t3 SET t2.n = t2.n + 10, t3.n = t3.n + 100 WHERE t2.id = t3.id AND t2.id = 2;
-- ok, 2 rows
COMMIT;
-- ok, 0 rows
SELECT t2.id, t2.n, t3.n FROM t2 JOIN t3 USING (id) ORDER BY 1;
-- [id, n, n]
-- 1 | 1 | 1
-- 2 | 12 | 102
BEGIN;
-- ok, 0 rows
UPDATE t2 SET n = 0;
-- ok, 2 rows
UPDATE t3 SET n = 0;
-- ok, 2 rows
ROLLBACK;
-- ok, 0 rows
SELECT t2.id, t2.n, t3.n FROM t3 JOIN t2 ON t2.id = t3.id ORDER BY 1;
-- [id, n, n]
-- 1 | 1 | 1
-- 2 | 12 | 102
SELECT DISTINCT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TIERED_LEVELS WHERE TABLE_NAME LIKE 't_' ORDER BY 1;
-- [TABLE_SCHEMA, TABLE_NAME]
-- test | t3
