# Columns come, go, move and widen while the rows stay as they were written.
CREATE TABLE t (id INT PRIMARY KEY, a INT UNSIGNED, f FLOAT, d DECIMAL(6,2), s VARCHAR(4), e ENUM('x', 'y'), KEY by_s (s), KEY by_f (f), KEY by_e (e));
-- ok, 0 rows
INSERT INTO t VALUES (1, 4000000000, 0.1, 12.34, 'one', 'x'), (2, NULL, -1.5, -0.05, 'two', 'y');
-- ok, 2 rows
ALTER TABLE t ADD COLUMN n INT NOT NULL DEFAULT 7 FIRST, ADD COLUMN m VARCHAR(5) DEFAULT 'mid' AFTER a, ALGORITHM=INSTANT;
-- ok, 0 rows
SELECT * FROM t;
-- [n, id, a, m, f, d, s, e]
-- 7 | 1 | 4000000000 | mid | 0.1 | 12.34 | one | x
-- 7 | 2 | NULL | mid | -1.5 | -0.05 | two | y
INSERT INTO t VALUES (8, 3, 1, 'new', 2.5, 3.5, 'thr', 'x');
-- ok, 1 rows
ALTER TABLE t DROP COLUMN a, ADD COLUMN a BIGINT DEFAULT -1, ALGORITHM=INSTANT;
-- ok, 0 rows
SELECT * FROM t;
-- [n, id, m, f, d, s, e, a]
-- 7 | 1 | mid | 0.1 | 12.34 | one | x | -1
-- 7 | 2 | mid | -1.5 | -0.05 | two | y | -1
-- 8 | 3 | new | 2.5 | 3.50 | thr | x | -1
SELECT id FROM t WHERE a = -1 AND n = 7;
-- [id]
-- 1
-- 2
SELECT COUNT(*), SUM(n), MIN(a) FROM t WHERE m <> 'new';
-- [COUNT(*), SUM(n), MIN(a)]
-- 2 | 14 | -1
ALTER TABLE t MODIFY f DOUBLE FIRST, MODIFY d DECIMAL(10,3) AFTER id, ALGORITHM=INSTANT;
-- ok, 0 rows
ALTER TABLE t MODIFY s TEXT;
-- ERROR 1170 (42000): BLOB/TEXT column 's' used in key specification without a key length
ALTER TABLE t DROP KEY by_s, ADD KEY by_s (s(4)), MODIFY s TEXT;
-- ok, 0 rows
SELECT * FROM t ORDER BY id;
-- [f, n, id, d, m, s, e, a]
-- 0.10000000149011612 | 7 | 1 | 12.340 | mid | one | x | -1
-- -1.5 | 7 | 2 | -0.050 | mid | two | y | -1
-- 2.5 | 8 | 3 | 3.500 | new | thr | x | -1
SELECT id, f = 0.1, CAST(0.1 AS FLOAT) = f FROM t WHERE f < 1 ORDER BY f;
-- [id, f = 0.1, CAST(0.1 AS FLOAT) = f]
-- 2 | 0 | 0
-- 1 | 0 | 1
SELECT id FROM t FORCE INDEX (by_f) WHERE f > -2 ORDER BY f;
-- [id]
-- 2
-- 1
-- 3
SELECT id FROM t WHERE s = 'two';
-- [id]
-- 2
ALTER TABLE t MODIFY e ENUM('x', 'y', 'z') NOT NULL, ALGORITHM=INSTANT;
-- ERROR 1845 (0A000): ALGORITHM=INSTANT is not supported for this operation. Try ALGORITHM=COPY.
ALTER TABLE t MODIFY e ENUM('x', 'y', 'z'), ALGORITHM=INSTANT;
-- ok, 0 rows
UPDATE t SET e = 'z', d = 9.125 WHERE id = 2;
-- ok, 1 rows
SELECT id, e, d FROM t FORCE INDEX (by_e) WHERE e IN ('x', 'z') ORDER BY e;
-- [id, e, d]
-- 1 | x | 12.340
-- 3 | x | 3.500
-- 2 | z | 9.125
SHOW CREATE TABLE t;
-- [Table, Create Table]
-- t | CREATE TABLE `t` (\n  `f` double DEFAULT NULL,\n  `n` int NOT NULL DEFAULT '7',\n  `id` int NOT NULL,\n  `d` decimal(10,3) DEFAULT NULL,\n  `m` varchar(5) DEFAULT 'mid',\n  `s` text,\n  `e` enum('x','y','z') DEFAULT NULL,\n  `a` bigint DEFAULT '-1',\n  PRIMARY KEY (`id`),\n  KEY `by_f` (`f`),\n  KEY `by_e` (`e`),\n  KEY `by_s` (`s`(4))\n) ENGINE=TIERED DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci
# A row that is changed is one of the newest version; others stay.
UPDATE t SET n = n + 1 WHERE id = 1;
-- ok, 1 rows
DELETE FROM t WHERE id = 3;
-- ok, 1 rows
SELECT * FROM t ORDER BY id;
-- [f, n, id, d, m, s, e, a]
-- 0.10000000149011612 | 8 | 1 | 12.340 | mid | one | x | -1
-- -1.5 | 7 | 2 | 9.125 | mid | two | z | -1
ALTER TABLE t RENAME COLUMN n TO nn, MODIFY m VARCHAR(50) DEFAULT 'other', ALTER COLUMN a SET DEFAULT 5, ALGORITHM=INSTANT;
-- ok, 0 rows
INSERT INTO t (id, nn) VALUES (4, 0);
-- ok, 1 rows
SELECT * FROM t ORDER BY id;
-- [f, nn, id, d, m, s, e, a]
-- 0.10000000149011612 | 8 | 1 | 12.340 | mid | one | x | -1
-- -1.5 | 7 | 2 | 9.125 | mid | two | z | -1
-- NULL | 0 | 4 | NULL | other | NULL | NULL | 5
ALTER TABLE t FORCE, ALGORITHM=INSTANT;
-- ERROR 1845 (0A000): ALGORITHM=INSTANT is not supported for this operation. Try ALGORITHM=COPY.
ALTER TABLE t FORCE;
-- ok, 0 rows
SELECT * FROM t ORDER BY id;
-- [f, nn, id, d, m, s, e, a]
-- 0.10000000149011612 | 8 | 1 | 12.340 | mid | one | x | -1
-- -1.5 | 7 | 2 | 9.125 | mid | two | z | -1
-- NULL | 0 | 4 | NULL | other | NULL | NULL | 5
DROP TABLE t;
-- ok, 0 rows
# Initial values outlive the types and defaults they came with.
CREATE TABLE i (id INT);
-- ok, 0 rows
INSERT INTO i VALUES (1);
-- ok, 1 rows
ALTER TABLE i ADD COLUMN f FLOAT DEFAULT 0.1, ADD COLUMN n INT NOT NULL, ADD COLUMN y YEAR NOT NULL, ADD COLUMN b BIT(64) DEFAULT 18446744073709551615, ADD COLUMN u INT UNSIGNED DEFAULT 3000000000, ADD COLUMN d DECIMAL(4,1) DEFAULT 1.5, ADD COLUMN x VARBINARY(4) DEFAULT 0x00FF, ADD COLUMN z DATE NOT NULL, ALGORITHM=INSTANT;
-- ok, 0 rows
SELECT f, n, y, HEX(b), u, d, HEX(x), z FROM i;
-- [f, n, y, HEX(b), u, d, HEX(x), z]
-- 0.1 | 0 | 0 | FFFFFFFFFFFFFFFF | 3000000000 | 1.5 | 00FF | 0000-00-00
ALTER TABLE i MODIFY f DOUBLE DEFAULT 7, MODIFY n BIGINT DEFAULT 7, MODIFY y YEAR DEFAULT 2001, MODIFY b BIT(64) DEFAULT 1, MODIFY u BIGINT DEFAULT 7, MODIFY d DECIMAL(8,3) DEFAULT 7, MODIFY x VARBINARY(9) DEFAULT 'b', MODIFY z DATE DEFAULT '2001-01-01', ALGORITHM=INSTANT;
-- ok, 0 rows
SELECT f, n, y, HEX(b), u, d, HEX(x), z FROM i;
-- [f, n, y, HEX(b), u, d, HEX(x), z]
-- 0.10000000149011612 | 0 | 0 | FFFFFFFFFFFFFFFF | 3000000000 | 1.500 | 00FF | 0000-00-00
INSERT INTO i (id) VALUES (2);
-- ok, 1 rows
SELECT f, n, y, HEX(b), u, d, HEX(x), z FROM i WHERE id = 2;
-- [f, n, y, HEX(b), u, d, HEX(x), z]
-- 7 | 7 | 2001 | 1 | 7 | 7.000 | 62 | 2001-01-01
# Defaults that are the same for all rows of a statement are fixed by it; the others are written into each row.
SET timestamp = 1000000000;
-- ok, 0 rows
ALTER TABLE i ADD COLUMN c DATETIME DEFAULT CURRENT_TIMESTAMP, ADD COLUMN ts TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP, ADD COLUMN ex INT DEFAULT (2 * 3 + LENGTH('abc')), ALGORITHM=INSTANT;
-- ok, 0 rows
SET timestamp = 2000000000;
-- ok, 0 rows
SELECT c, ts, ex FROM i WHERE id = 1;
-- [c, ts, ex]
-- 2001-09-09 01:46:40 | 2001-09-09 01:46:40 | 9
ALTER TABLE i ADD COLUMN r DOUBLE DEFAULT (RAND()), ALGORITHM=INSTANT;
-- ERROR 1845 (0A000): ALGORITHM=INSTANT is not supported for this operation. Try ALGORITHM=COPY.
ALTER TABLE i ADD COLUMN r DOUBLE DEFAULT (RAND());
-- ok, 0 rows
SELECT COUNT(DISTINCT r), COUNT(DISTINCT c) FROM i;
-- [COUNT(DISTINCT r), COUNT(DISTINCT c)]
-- 2 | 1
SET timestamp = DEFAULT;
-- ok, 0 rows
DROP TABLE i;
-- ok, 0 rows
# Keys: entries that would be others are built anew, and rows whose key would be another are copied.
CREATE TABLE k (id INT UNSIGNED PRIMARY KEY, u INT UNSIGNED, v VARCHAR(5), w INT, UNIQUE (u), KEY (v, w), KEY (w, v));
-- ok, 0 rows
INSERT INTO k VALUES (1, 10, 'a', 1), (2, 20, 'b', 2), (3, 3000000000, 'c', 3);
-- ok, 3 rows
ALTER TABLE k MODIFY u BIGINT, ALGORITHM=INSTANT;
-- ERROR 1845 (0A000): ALGORITHM=INSTANT is not supported for this operation. Try ALGORITHM=COPY/INPLACE.
ALTER TABLE k MODIFY u BIGINT, ALGORITHM=INPLACE;
-- ok, 0 rows
SELECT id FROM k WHERE u = 3000000000;
-- [id]
-- 3
SELECT id FROM k FORCE INDEX (u) WHERE u BETWEEN -5 AND 25;
-- [id]
-- 1
-- 2
INSERT INTO k VALUES (4, 20, 'd', 4);
-- ERROR 1062 (23000): Duplicate entry '20' for key 'k.u'
ALTER TABLE k MODIFY id BIGINT, ALGORITHM=INPLACE;
-- ERROR 1845 (0A000): ALGORITHM=INPLACE is not supported for this operation. Try ALGORITHM=COPY.
ALTER TABLE k MODIFY id BIGINT, ALGORITHM=COPY;
-- ok, 0 rows
SELECT id FROM k WHERE id > -1 AND id < 3;
-- [id]
-- 1
-- 2
ALTER TABLE k MODIFY v VARCHAR(50), MODIFY w BIGINT FIRST, ALGORITHM=INSTANT;
-- ok, 0 rows
SELECT * FROM k FORCE INDEX (v) WHERE v = 'b' AND w = 2;
-- [w, id, u, v]
-- 2 | 2 | 20 | b
ALTER TABLE k DROP COLUMN v, ALGORITHM=INSTANT;
-- ERROR 1845 (0A000): ALGORITHM=INSTANT is not supported for this operation. Try ALGORITHM=COPY/INPLACE.
ALTER TABLE k DROP COLUMN v;
-- ok, 0 rows
SELECT * FROM k FORCE INDEX (v) WHERE w = 2;
-- [w, id, u]
-- 2 | 2 | 20
SHOW CREATE TABLE k;
-- [Table, Create Table]
-- k | CREATE TABLE `k` (\n  `w` bigint DEFAULT NULL,\n  `id` bigint NOT NULL,\n  `u` bigint DEFAULT NULL,\n  PRIMARY KEY (`id`),\n  UNIQUE KEY `u` (`u`),\n  KEY `v` (`w`),\n  KEY `w` (`w`)\n) ENGINE=TIERED DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci
ALTER TABLE k DROP COLUMN id, ALGORITHM=INSTANT;
-- ERROR 1845 (0A000): ALGORITHM=INSTANT is not supported for this operation. Try ALGORITHM=COPY.
ALTER TABLE k DROP COLUMN id;
-- ok, 0 rows
SELECT * FROM k ORDER BY w;
-- [w, u]
-- 1 | 10
-- 2 | 20
-- 3 | 3000000000
DROP TABLE k;
-- ok, 0 rows
# What a statement insists on.
CREATE TABLE w (a INT PRIMARY KEY, b INT);
-- ok, 0 rows
ALTER TABLE w ADD COLUMN c INT, ALGORITHM=INSTANT, LOCK=NONE;
-- ERROR 1221 (HY000): Incorrect usage of ALGORITHM=INSTANT and LOCK=NONE/SHARED/EXCLUSIVE
ALTER TABLE w ADD COLUMN c INT, ALGORITHM=DEFAULT, LOCK=NONE;
-- ok, 0 rows
ALTER TABLE w ADD COLUMN d INT, ALGORITHM=INPLACE, LOCK=SHARED;
-- ok, 0 rows
ALTER TABLE w ADD COLUMN e INT, ALGORITHM=COPY, LOCK=NONE;
-- ERROR 1846 (0A000): LOCK=NONE is not supported. Reason: COPY algorithm requires a lock. Try LOCK=EXCLUSIVE.
ALTER TABLE w ADD COLUMN e INT, ALGORITHM=COPY, LOCK=EXCLUSIVE;
-- ok, 0 rows
ALTER TABLE w MODIFY b SMALLINT, ALGORITHM=INPLACE;
-- ERROR 1845 (0A000): ALGORITHM=INPLACE is not supported for this operation. Try ALGORITHM=COPY.
ALTER TABLE w MODIFY b SMALLINT, LOCK=SHARED;
-- ERROR 1846 (0A000): LOCK=SHARED is not supported. Reason: COPY algorithm requires a lock. Try LOCK=EXCLUSIVE.
ALTER TABLE w MODIFY b SMALLINT UNSIGNED, ALGORITHM=INSTANT;
-- ERROR 1845 (0A000): ALGORITHM=INSTANT is not supported for this operation. Try ALGORITHM=COPY.
CREATE INDEX b ON w (b) ALGORITHM=INSTANT;
-- ERROR 1845 (0A000): ALGORITHM=INSTANT is not supported for this operation. Try ALGORITHM=COPY/INPLACE.
CREATE INDEX b ON w (b) ALGORITHM=INPLACE;
-- ok, 0 rows
DROP TABLE w;
-- ok, 0 rows
