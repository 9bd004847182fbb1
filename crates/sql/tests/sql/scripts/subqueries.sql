# IN with a subquery: many rows ask the same set.
CREATE TABLE a (id INT PRIMARY KEY, i BIGINT, s VARCHAR(9), d DATE, f DOUBLE);
-- ok, 0 rows
CREATE TABLE b (id INT PRIMARY KEY, i DECIMAL(5, 1), s VARCHAR(9), d DATETIME, f FLOAT);
-- ok, 0 rows
INSERT INTO a VALUES (1, 1, 'x', '2020-01-01', 1), (2, 2, 'Y', '2020-01-02', 2.5), (3, NULL, NULL, NULL, NULL), (4, 4, '4', '2020-01-04', 0.1);
-- ok, 4 rows
INSERT INTO b VALUES (1, 1, 'X', '2020-01-01', 1), (2, 2.5, 'y', '2020-01-02 00:00:01', 2.5), (3, 4, '04', '2020-01-04', 0.1), (4, NULL, NULL, NULL, NULL);
-- ok, 4 rows
SELECT id, i IN (SELECT i FROM b WHERE i IS NOT NULL) AS x, i IN (SELECT i FROM b) AS y, i NOT IN (SELECT i FROM b WHERE id < 3) AS z FROM a;
-- [id, x, y, z]
-- 1 | 1 | 1 | 0
-- 2 | 0 | NULL | 1
-- 3 | NULL | NULL | NULL
-- 4 | 1 | 1 | 1
SELECT id, s IN (SELECT s FROM b) AS x, s = ANY (SELECT s FROM b WHERE id < 4) AS y FROM a;
-- [id, x, y]
-- 1 | 1 | 1
-- 2 | 1 | 1
-- 3 | NULL | NULL
-- 4 | NULL | 0
SELECT id, d IN (SELECT d FROM b WHERE id < 4) AS x, f IN (SELECT f FROM b WHERE id < 4) AS y, i IN (SELECT f FROM b WHERE id < 4) AS z FROM a;
-- [id, x, y, z]
-- 1 | 1 | 1 | 1
-- 2 | 0 | 1 | 0
-- 3 | NULL | NULL | NULL
-- 4 | 1 | 0 | 0
SELECT id, i IN (SELECT s FROM b WHERE id = 3) AS x, s IN (SELECT i FROM b WHERE id < 4) AS y, s IN (SELECT i FROM b WHERE id > 9) AS z FROM a;
-- [id, x, y, z]
-- 1 | 0 | 0 | 0
-- 2 | 0 | 0 | 0
-- 3 | NULL | NULL | 0
-- 4 | 1 | 1 | 0
SELECT id FROM a WHERE s NOT IN (SELECT s FROM b WHERE s IS NOT NULL);
-- [id]
-- 4
SELECT id FROM a WHERE i IN (SELECT b.i FROM b WHERE b.id = a.id);
-- [id]
-- 1
# EXISTS looks for one row, and a value for two.
SET @n = 0;
-- ok, 0 rows
SELECT EXISTS (SELECT 1 FROM b WHERE (@n := @n + 1) > 0) AS x;
-- [x]
-- 1
SELECT @n;
-- [@n]
-- 1
SET @n = 0;
-- ok, 0 rows
SELECT (SELECT s FROM b WHERE (@n := @n + 1) > 0) AS x;
-- ERROR 1242 (21000): Subquery returns more than 1 row
SELECT @n;
-- [@n]
-- 2
SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.i = a.i ORDER BY b.id DESC);
-- [id]
-- 1
-- 4
SELECT id, EXISTS (SELECT COUNT(*) FROM b WHERE b.i = a.i) AS x, NOT EXISTS (SELECT 1 FROM b WHERE b.i = a.i LIMIT 1, 1) AS y FROM a;
-- [id, x, y]
-- 1 | 1 | 1
-- 2 | 1 | 1
-- 3 | 1 | 1
-- 4 | 1 | 1
# Each part of a row is compared by its own collation.
SELECT id, (i, s) IN (SELECT i, s FROM b) AS x, (i, s) IN (SELECT i, s FROM b WHERE id < 4) AS y, (i, 'x') NOT IN (SELECT i, s FROM b) AS z FROM a;
-- [id, x, y, z]
-- 1 | 1 | 1 | 0
-- 2 | NULL | 0 | NULL
-- 3 | NULL | NULL | NULL
-- 4 | NULL | 0 | NULL
SELECT id FROM a WHERE (s, i) IN (SELECT s, i FROM b) OR (d, s) IN (SELECT d, s FROM b);
-- [id]
-- 1
SELECT id FROM a WHERE (i, s) IN ((1, 'X'), (4, '04'));
-- [id]
-- 1
# A column's collation goes before a constant's, and the one that tells more apart before the other.
CREATE TABLE c (id INT PRIMARY KEY, s VARCHAR(9) COLLATE utf8mb4_bin, y VARBINARY(9));
-- ok, 0 rows
INSERT INTO c VALUES (1, 'X', 'X'), (2, 'y', 'y');
-- ok, 2 rows
SELECT 'x' IN (SELECT s FROM c) AS a, 'X' = ANY (SELECT s FROM c) AS b, 'x' IN (SELECT s FROM a) AS c, 'Y' > ALL (SELECT s FROM c) AS d, 'x' IN (SELECT y FROM c) AS e;
-- [a, b, c, d, e]
-- 0 | 1 | 1 | 0 | 0
SELECT id, s IN (SELECT s FROM a WHERE id < 3) AS x, s IN (SELECT s FROM c) AS y FROM c;
-- [id, x, y]
-- 1 | 0 | 1
-- 2 | 0 | 1
SELECT id, s IN (SELECT s FROM c) AS x, s IN (SELECT s FROM b WHERE id < 4) AS y, s IN (SELECT y FROM c) AS z FROM a;
-- [id, x, y, z]
-- 1 | 0 | 1 | 0
-- 2 | 0 | 1 | 0
-- 3 | NULL | NULL | NULL
-- 4 | 0 | 0 | 0
