# ON DUPLICATE KEY UPDATE names columns of the query's tables, with or without their table.
CREATE TABLE t (id INT PRIMARY KEY, a INT, s VARCHAR(20));
-- ok, 0 rows
CREATE TABLE f (k INT PRIMARY KEY, b INT, w VARCHAR(20));
-- ok, 0 rows
INSERT INTO t VALUES (1, 10, 'x'), (2, 20, 'y');
-- ok, 2 rows
INSERT INTO f VALUES (1, 100, 'one'), (2, 200, 'two'), (3, 300, 'three');
-- ok, 3 rows
INSERT INTO t (id, a) SELECT k, 7 FROM f ON DUPLICATE KEY UPDATE a = t.a + f.b, s = w;
-- ok, 5 rows
SELECT * FROM t ORDER BY id;
-- [id, a, s]
-- 1 | 110 | one
-- 2 | 220 | two
-- 3 | 7 | NULL
INSERT INTO t (id) SELECT k FROM f WHERE k < 3 ORDER BY k DESC ON DUPLICATE KEY UPDATE a = VALUES(a), s = CONCAT(UPPER(f.w), b, VALUES(id), t.id);
-- ok, 4 rows
SELECT * FROM t ORDER BY id;
-- [id, a, s]
-- 1 | NULL | ONE10011
-- 2 | NULL | TWO20022
-- 3 | 7 | NULL
INSERT INTO t (id, a) SELECT p.k, q.k FROM f p JOIN f q ON q.k = p.k + 1 ON DUPLICATE KEY UPDATE a = p.b + q.b, s = q.w;
-- ok, 4 rows
SELECT * FROM t ORDER BY id;
-- [id, a, s]
-- 1 | 300 | two
-- 2 | 500 | three
-- 3 | 7 | NULL
INSERT INTO t (id) SELECT d.i FROM (SELECT k AS i, b * 2 AS d2 FROM f) d ON DUPLICATE KEY UPDATE a = d2;
-- ok, 6 rows
INSERT INTO t SELECT * FROM t src WHERE src.id = 1 ON DUPLICATE KEY UPDATE id = 100 + src.id, a = src.a;
-- ok, 2 rows
SELECT * FROM t ORDER BY id;
-- [id, a, s]
-- 2 | 400 | three
-- 3 | 600 | NULL
-- 101 | 200 | two
WITH c AS (SELECT k, b FROM f WHERE k = 2) SELECT COUNT(*) FROM c;
-- [COUNT(*)]
-- 1
INSERT INTO t (id) WITH c AS (SELECT k, b FROM f WHERE k = 2) SELECT k FROM c ON DUPLICATE KEY UPDATE a = c.b, s = (SELECT w FROM f WHERE k = 3);
-- ok, 2 rows
SELECT * FROM t WHERE id = 2;
-- [id, a, s]
-- 2 | 200 | three
# The right to the columns, prepared statements, and a second run.
PREPARE i FROM 'INSERT INTO t (id) SELECT k FROM f WHERE k = ? ON DUPLICATE KEY UPDATE a = f.b + ?';
-- ok, 0 rows
SET @k = 2, @n = 5;
-- ok, 0 rows
EXECUTE i USING @k, @n;
-- ok, 2 rows
EXECUTE i USING @k, @k;
-- ok, 2 rows
SELECT * FROM t WHERE id = 2;
-- [id, a, s]
-- 2 | 202 | three
# Grouped and distinct queries and set operations offer none.
INSERT INTO t (id) SELECT k FROM f GROUP BY k ON DUPLICATE KEY UPDATE a = f.b;
-- ERROR 1054 (42S22): Unknown column 'f.b' in 'field list'
INSERT INTO t (id) SELECT DISTINCT k FROM f ON DUPLICATE KEY UPDATE a = b;
-- ERROR 1054 (42S22): Unknown column 'b' in 'field list'
INSERT INTO t (id) SELECT k FROM f UNION SELECT 9 ON DUPLICATE KEY UPDATE a = b;
-- ERROR 1054 (42S22): Unknown column 'b' in 'field list'
INSERT INTO t (id) SELECT 2 ON DUPLICATE KEY UPDATE a = 77;
-- ok, 2 rows
SELECT 2 FOR UPDATE;
-- [2]
-- 2
INSERT INTO t (id) SELECT k FROM f ON DUPLICATE KEY UPDATE a = nothing;
-- ERROR 1054 (42S22): Unknown column 'nothing' in 'field list'
INSERT INTO t (id, a) SELECT k FROM f ON DUPLICATE KEY UPDATE a = b;
-- ERROR 1136 (21S01): Column count doesn't match value count at row 1
INSERT INTO t (id) VALUES (1) ON DUPLICATE KEY UPDATE a = b;
-- ERROR 1054 (42S22): Unknown column 'b' in 'field list'
# Which row is the duplicate: unique keys without NULL are asked first, and prefixes behind whole columns.
CREATE TABLE u (n INT, s VARCHAR(40) NOT NULL, UNIQUE KEY (s), UNIQUE KEY (n), UNIQUE KEY (s(4)));
-- ok, 0 rows
INSERT INTO u VALUES (2, 'competent goldwasser'), (3, 'peaceful robinson');
-- ok, 2 rows
INSERT INTO u VALUES (2, 'peaceful driscoll') ON DUPLICATE KEY UPDATE n = n + 1;
-- ok, 2 rows
SELECT * FROM u ORDER BY n;
-- [n, s]
-- 2 | competent goldwasser
-- 4 | peaceful robinson
# An UPDATE of a table by two names does not change its primary key.
UPDATE t t1, t t2 SET t1.id = t1.id + 10, t2.a = 1;
-- ERROR 1706 (HY000): Primary key/partition key update is not allowed since the table is updated both as 't1' and 't2'.
UPDATE t t1, t t2 SET t1.s = 'z', t2.a = 1 WHERE t1.id = 2 AND t2.id = 2;
-- ok, 2 rows
SELECT * FROM t WHERE id = 2;
-- [id, a, s]
-- 2 | 1 | z
