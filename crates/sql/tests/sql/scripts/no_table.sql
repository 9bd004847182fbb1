# A WHERE clause without a table: it holds, or there is no row.
CREATE TABLE t (a INT PRIMARY KEY, b INT);
-- ok, 0 rows
CREATE TABLE e (a INT);
-- ok, 0 rows
CREATE TABLE f (x INT);
-- ok, 0 rows
INSERT INTO t VALUES (1, 10), (2, 20), (3, NULL);
-- ok, 3 rows
INSERT INTO f VALUES (1), (2);
-- ok, 2 rows
SELECT 1 FROM dual WHERE EXISTS (SELECT 1 FROM t WHERE 1 = 0);
-- [1]
SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM t WHERE a = 2);
-- [1]
SELECT 1 WHERE EXISTS (SELECT 1 FROM t WHERE a = 2);
-- [1]
-- 1
SELECT 1 WHERE 5 IN (SELECT a FROM t);
-- [1]
SELECT 1 FROM DUAL WHERE 2 IN (SELECT a FROM t);
-- [1]
-- 1
SELECT 1 WHERE 5 NOT IN (SELECT b FROM t);
-- [1]
SELECT 1 WHERE (SELECT MAX(a) FROM t) > 5;
-- [1]
SELECT 1 WHERE (SELECT MAX(a) FROM t) = 3;
-- [1]
-- 1
SELECT 1 WHERE 1 > ANY (SELECT a FROM t);
-- [1]
SELECT 1 WHERE 3 > ALL (SELECT a FROM t);
-- [1]
SELECT 1 WHERE 4 > ALL (SELECT a FROM t);
-- [1]
-- 1
SELECT 1 WHERE (1, 11) IN (SELECT a, b FROM t);
-- [1]
SELECT 1 WHERE (1, 10) IN (SELECT a, b FROM t);
-- [1]
-- 1
SELECT 1 WHERE (SELECT a FROM t);
-- ERROR 1242 (21000): Subquery returns more than 1 row
SELECT 1 WHERE 0 AND (SELECT a FROM t);
-- [1]
SELECT 1 WHERE EXISTS (SELECT 1 WHERE EXISTS (SELECT 1 WHERE EXISTS (SELECT 1 FROM e)));
-- [1]
SELECT 1 WHERE NOT EXISTS (SELECT 1 WHERE NOT EXISTS (SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM e)));
-- [1]
-- 1
# What differs from call to call, and what assigns, is a condition too.
SELECT 1 WHERE RAND() < -1;
-- [1]
SELECT 1 WHERE (@z := 0);
-- [1]
SELECT @z;
-- [@z]
-- 0
# With aggregates, HAVING, ORDER BY and LIMIT.
SELECT COUNT(*), MAX(4) FROM dual WHERE EXISTS (SELECT 1 FROM e);
-- [COUNT(*), MAX(4)]
-- 0 | NULL
SELECT COUNT(*), SUM(1), GROUP_CONCAT('x') WHERE EXISTS (SELECT 1 FROM t);
-- [COUNT(*), SUM(1), GROUP_CONCAT('x')]
-- 1 | 1 | x
SELECT COUNT(*) AS x WHERE EXISTS (SELECT 1 FROM e) HAVING x = 0;
-- [x]
-- 0
SELECT DISTINCT 1 WHERE EXISTS (SELECT 1 FROM e);
-- [1]
SELECT 1 AS x HAVING EXISTS (SELECT 1 FROM e);
-- [x]
SELECT 5 AS x HAVING x IN (SELECT a FROM t);
-- [x]
SELECT 1 AS x WHERE EXISTS (SELECT 1 FROM e) ORDER BY (SELECT MAX(a) FROM t) LIMIT 3;
-- [x]
SELECT SQL_CALC_FOUND_ROWS 1 WHERE EXISTS (SELECT 1 FROM e);
-- [1]
SELECT FOUND_ROWS();
-- [FOUND_ROWS()]
-- 0
SELECT 1 FROM dual WHERE EXISTS (SELECT 1 FROM e) FOR UPDATE;
-- [1]
SELECT 1 FROM dual WHERE EXISTS (SELECT 1 FROM t FOR UPDATE);
-- [1]
-- 1
SELECT 1 FROM dual WHERE EXISTS (SELECT 1 FROM e) LOCK IN SHARE MODE;
-- [1]
# In branches of UNION, derived tables, WITH, and prepared.
SELECT 1 FROM dual WHERE EXISTS (SELECT 1 FROM e) UNION ALL SELECT 2 FROM dual WHERE EXISTS (SELECT 1 FROM t);
-- [1]
-- 2
SELECT 1 FROM dual WHERE EXISTS (SELECT 1 FROM e) UNION SELECT 2 WHERE 7 IN (SELECT a FROM t) UNION SELECT 3;
-- [1]
-- 3
(SELECT 1 FROM dual WHERE EXISTS (SELECT 1 FROM e)) UNION (SELECT 2 WHERE EXISTS (SELECT 1 FROM t)) ORDER BY 1 LIMIT 1;
-- [1]
-- 2
SELECT * FROM (SELECT 1 AS x WHERE EXISTS (SELECT 1 FROM e)) d;
-- [x]
SELECT * FROM (SELECT 1 AS x WHERE EXISTS (SELECT 1 FROM t)) d;
-- [x]
-- 1
WITH c AS (SELECT 1 AS x WHERE EXISTS (SELECT 1 FROM e)) SELECT * FROM c;
-- [x]
WITH c AS (SELECT 1 AS x WHERE EXISTS (SELECT 1 FROM e)) SELECT 5 WHERE EXISTS (SELECT * FROM c);
-- [5]
PREPARE s FROM 'SELECT ? FROM dual WHERE EXISTS (SELECT 1 FROM t WHERE a = ?)';
-- ok, 0 rows
SET @v = 7, @a = 1, @n = 99;
-- ok, 0 rows
EXECUTE s USING @v, @a;
-- [?]
-- 7
EXECUTE s USING @v, @n;
-- [?]
# Rows that are inserted where they are absent.
INSERT INTO t SELECT 50, 3 FROM dual WHERE NOT EXISTS (SELECT * FROM t WHERE a = 50);
-- ok, 1 rows
INSERT INTO t SELECT 50, 3 FROM dual WHERE NOT EXISTS (SELECT * FROM t WHERE a = 50);
-- ok, 0 rows
INSERT IGNORE INTO t (a, b) SELECT 50, 4 WHERE NOT EXISTS (SELECT * FROM t WHERE a = 50);
-- ok, 0 rows
INSERT IGNORE INTO t (a, b) SELECT 52, 4 WHERE EXISTS (SELECT * FROM t WHERE a = 52);
-- ok, 0 rows
REPLACE INTO t SELECT 1, 99 FROM dual WHERE EXISTS (SELECT 1 FROM e);
-- ok, 0 rows
REPLACE INTO t SELECT 1, 99 FROM dual WHERE EXISTS (SELECT 1 FROM t WHERE a = 1);
-- ok, 2 rows
INSERT INTO t (a, b) SELECT 2, 5 FROM dual WHERE EXISTS (SELECT 1 FROM e) ON DUPLICATE KEY UPDATE b = 77;
-- ok, 0 rows
INSERT INTO t (a, b) SELECT 2, 5 FROM dual WHERE EXISTS (SELECT 1 FROM f) ON DUPLICATE KEY UPDATE b = VALUES(b) + 1;
-- ok, 2 rows
INSERT INTO t (a, b) WITH c AS (SELECT 1 WHERE EXISTS (SELECT 1 FROM e)) SELECT 90, 1 FROM c;
-- ok, 0 rows
PREPARE s FROM 'INSERT INTO t SELECT ?, 0 FROM dual WHERE NOT EXISTS (SELECT 1 FROM t WHERE a = ?)';
-- ok, 0 rows
EXECUTE s USING @v, @v;
-- ok, 1 rows
EXECUTE s USING @v, @v;
-- ok, 0 rows
SELECT * FROM t ORDER BY a;
-- [a, b]
-- 1 | 99
-- 2 | 6
-- 3 | NULL
-- 7 | 0
-- 50 | 3
# Inside of changes, and of other queries, whose columns it may name.
DELETE FROM t WHERE EXISTS (SELECT 1 FROM dual WHERE EXISTS (SELECT 1 FROM e));
-- ok, 0 rows
DELETE FROM t WHERE EXISTS (SELECT 1 FROM dual WHERE t.a = 50);
-- ok, 1 rows
DELETE FROM t WHERE NOT EXISTS (SELECT 1 WHERE t.a IN (SELECT x FROM f) OR t.a = 3);
-- ok, 1 rows
UPDATE t SET b = 1 WHERE EXISTS (SELECT 1 FROM dual WHERE EXISTS (SELECT 1 FROM e));
-- ok, 0 rows
UPDATE t SET b = (SELECT 7 FROM dual WHERE t.a IN (SELECT x FROM f));
-- ok, 2 rows
SELECT * FROM t ORDER BY a;
-- [a, b]
-- 1 | 7
-- 2 | 7
-- 3 | NULL
UPDATE t SET b = 8 WHERE EXISTS (SELECT 1 WHERE (SELECT COUNT(*) FROM f WHERE f.x = t.a) > 1);
-- ok, 0 rows
UPDATE t, f SET t.b = 9 WHERE t.a = f.x AND EXISTS (SELECT 1 WHERE f.x IN (SELECT 2 WHERE EXISTS (SELECT 1 FROM e)));
-- ok, 0 rows
UPDATE t, f SET t.b = 9 WHERE t.a = f.x AND EXISTS (SELECT 1 WHERE f.x IN (SELECT 2 WHERE EXISTS (SELECT 1 FROM f)));
-- ok, 1 rows
DELETE t FROM t JOIN f ON f.x = t.a WHERE EXISTS (SELECT 1 FROM dual WHERE EXISTS (SELECT 1 FROM e WHERE e.a = t.a));
-- ok, 0 rows
SELECT * FROM t ORDER BY a;
-- [a, b]
-- 1 | 7
-- 2 | 9
-- 3 | NULL
SELECT a, (SELECT 'y' FROM dual WHERE EXISTS (SELECT 1 FROM f WHERE f.x = t.a)) AS y FROM t ORDER BY a;
-- [a, y]
-- 1 | y
-- 2 | y
-- 3 | NULL
SELECT a FROM t WHERE EXISTS (SELECT 1 WHERE t.a > 1 AND EXISTS (SELECT 1 FROM f WHERE f.x = t.a)) ORDER BY a;
-- [a]
-- 2
SELECT t.a FROM t LEFT JOIN f ON EXISTS (SELECT 1 WHERE f.x = t.a AND EXISTS (SELECT 1 FROM e)) ORDER BY 1;
-- [a]
-- 1
-- 2
-- 3
SET @r = (SELECT 5 WHERE EXISTS (SELECT 1 FROM e));
-- ok, 0 rows
SELECT @r;
-- [@r]
-- NULL
# DUAL stands alone, and its name is a word.
SELECT 1 FROM dual, t;
-- ERROR 1064 (42000): You have an error in your SQL syntax: near 'DUAL'
SELECT 1 FROM t JOIN dual;
-- ERROR 1064 (42000): You have an error in your SQL syntax: near 'DUAL'
SELECT 1 FROM dual AS d;
-- ERROR 1064 (42000): You have an error in your SQL syntax: near 'd'
SELECT 1 FROM `dual`;
-- ERROR 1146 (42S02): Table 'test.dual' doesn't exist
