# A table made in FROM, or by WITH, may name columns of the queries around, in whose rows it is made anew.
CREATE TABLE o (a INT PRIMARY KEY, b INT);
-- ok, 0 rows
INSERT INTO o VALUES (1, 10), (2, 20), (3, NULL);
-- ok, 3 rows
SELECT a, (SELECT s FROM (SELECT o.a AS s) d) AS s FROM o;
-- [a, s]
-- 1 | 1
-- 2 | 2
-- 3 | 3
SELECT a, (SELECT COUNT(*) FROM (SELECT 1 FROM o i WHERE i.a < o.a) d) AS n FROM o;
-- [a, n]
-- 1 | 0
-- 2 | 1
-- 3 | 2
SELECT a FROM o WHERE EXISTS (SELECT 1 FROM (SELECT b FROM o i WHERE i.a = o.a AND i.b > 10) d);
-- [a]
-- 2
SELECT a, (SELECT MAX(s) FROM (SELECT d.s + 1 AS s FROM (SELECT o.b AS s) d) e) AS s FROM o;
-- [a, s]
-- 1 | 11
-- 2 | 21
-- 3 | NULL
SELECT a, (SELECT (SELECT s + 0 FROM (SELECT o.a + i.a AS s) d) FROM o i WHERE i.a = 2) AS s FROM o;
-- [a, s]
-- 1 | 3
-- 2 | 4
-- 3 | 5
SELECT a, (SELECT d.s FROM o i JOIN (SELECT o.a AS s) d ON d.s = i.a) AS s FROM o;
-- [a, s]
-- 1 | 1
-- 2 | 2
-- 3 | 3
SELECT a, (SELECT s FROM (SELECT (SELECT MAX(j.a) FROM o j WHERE j.a < o.a) AS s) d) AS s FROM o;
-- [a, s]
-- 1 | NULL
-- 2 | 1
-- 3 | 2
SELECT a, (WITH c AS (SELECT o.a AS s) SELECT s FROM c) AS s FROM o;
-- [a, s]
-- 1 | 1
-- 2 | 2
-- 3 | 3
SELECT a, (WITH c AS (SELECT o.a AS s) SELECT (SELECT s FROM c) FROM o i WHERE i.a = 1) AS s FROM o;
-- [a, s]
-- 1 | 1
-- 2 | 2
-- 3 | 3
SELECT a, (WITH c AS (SELECT o.a AS s) SELECT MIN(i.b) FROM o i WHERE i.a IN (SELECT s FROM c)) AS s FROM o;
-- [a, s]
-- 1 | 10
-- 2 | 20
-- 3 | NULL
SELECT a FROM o JOIN (SELECT o.a AS s) d;
-- ERROR 1054 (42S22): Unknown column 'o.a' in 'field list'
WITH c AS (SELECT o.a AS s) SELECT a FROM o, c;
-- ERROR 1054 (42S22): Unknown column 'o.a' in 'field list'
