# Queries in parentheses have an order and a limit of their own, and those around them too.
CREATE TABLE t (id INT PRIMARY KEY, k INT);
-- ok, 0 rows
INSERT INTO t VALUES (1, 30), (2, 20), (3, 10), (4, NULL);
-- ok, 4 rows
(SELECT id FROM t ORDER BY id LIMIT 2) ORDER BY id DESC;
-- [id]
-- 2
-- 1
(SELECT id FROM t ORDER BY id LIMIT 3) ORDER BY id DESC LIMIT 1;
-- [id]
-- 3
(SELECT id FROM t ORDER BY id LIMIT 3) LIMIT 2;
-- [id]
-- 1
-- 2
(SELECT id FROM t ORDER BY id DESC) LIMIT 2;
-- [id]
-- 4
-- 3
(SELECT id, k FROM t) ORDER BY k DESC, id;
-- [id, k]
-- 1 | 30
-- 2 | 20
-- 3 | 10
-- 4 | NULL
((SELECT id FROM t ORDER BY id LIMIT 3) ORDER BY id DESC LIMIT 2) ORDER BY id;
-- [id]
-- 2
-- 3
(SELECT 1 a UNION SELECT 2 ORDER BY a DESC LIMIT 1);
-- [a]
-- 2
(SELECT 1 a UNION SELECT 2 ORDER BY a DESC LIMIT 1) ORDER BY a;
-- [a]
-- 2
(SELECT 3 a UNION SELECT 1 UNION SELECT 2 ORDER BY a DESC) LIMIT 2;
-- [a]
-- 3
-- 2
(SELECT 3 a UNION SELECT 1 UNION SELECT 2 ORDER BY a DESC LIMIT 2) ORDER BY a LIMIT 1;
-- [a]
-- 2
(SELECT id FROM t ORDER BY id DESC LIMIT 1) UNION ALL (SELECT id FROM t ORDER BY id LIMIT 1) ORDER BY id;
-- [id]
-- 1
-- 4
SELECT * FROM ((SELECT id FROM t ORDER BY id LIMIT 2) ORDER BY id DESC LIMIT 1) d;
-- [id]
-- 2
SELECT (SELECT 1 a UNION SELECT 2 ORDER BY a DESC LIMIT 1) AS b;
-- [b]
-- 2
VALUES ROW(1), ROW(3), ROW(2) ORDER BY column_0 DESC;
-- [column_0]
-- 3
-- 2
-- 1
VALUES ROW(1), ROW(3), ROW(2) ORDER BY column_0 DESC LIMIT 1;
-- [column_0]
-- 3
(SELECT SQL_CALC_FOUND_ROWS id FROM t ORDER BY id LIMIT 3) ORDER BY id DESC LIMIT 1;
-- [id]
-- 3
SELECT FOUND_ROWS();
-- [FOUND_ROWS()]
-- 3
# A lock on a part of a set operation is that part's; one on the whole is not done by halves.
SELECT id FROM t WHERE id = 1 UNION SELECT id FROM t WHERE id = 2 FOR UPDATE;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'a locking clause after more than one SELECT'
SELECT id FROM t WHERE id = 1 UNION SELECT id FROM t WHERE id = 2 LOCK IN SHARE MODE;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'a locking clause after more than one SELECT'
(SELECT id FROM t WHERE id = 1 FOR UPDATE) UNION (SELECT id FROM t WHERE id = 2 FOR SHARE);
-- [id]
-- 1
-- 2
(SELECT id FROM t WHERE id = 1 FOR UPDATE);
-- [id]
-- 1
# EXCEPT ALL and INTERSECT ALL count how often a row is there.
CREATE TABLE m (a INT, b VARCHAR(3));
-- ok, 0 rows
INSERT INTO m VALUES (1, 'a'), (1, 'A'), (1, 'a'), (2, 'b'), (NULL, NULL), (NULL, NULL);
-- ok, 6 rows
CREATE TABLE k (a DECIMAL(5, 1), b VARCHAR(3));
-- ok, 0 rows
INSERT INTO k VALUES (1, 'a'), (2, 'b'), (2, 'b'), (NULL, NULL);
-- ok, 4 rows
SELECT * FROM m EXCEPT ALL SELECT * FROM k;
-- [a, b]
-- 1.0 | A
-- 1.0 | a
-- NULL | NULL
SELECT * FROM m INTERSECT ALL SELECT * FROM k;
-- [a, b]
-- 1.0 | a
-- 2.0 | b
-- NULL | NULL
SELECT * FROM k INTERSECT ALL SELECT * FROM m;
-- [a, b]
-- 1.0 | a
-- 2.0 | b
-- NULL | NULL
SELECT * FROM m EXCEPT ALL SELECT * FROM k EXCEPT ALL SELECT 1, 'a';
-- [a, b]
-- 1.0 | a
-- NULL | NULL
SELECT * FROM m EXCEPT SELECT * FROM k;
-- [a, b]
SELECT * FROM m INTERSECT SELECT * FROM k;
-- [a, b]
-- 1.0 | a
-- 2.0 | b
-- NULL | NULL
SELECT a FROM m UNION ALL SELECT a FROM k ORDER BY a LIMIT 5;
-- [a]
-- NULL
-- NULL
-- NULL
-- 1.0
-- 1.0
SELECT a FROM m UNION SELECT a FROM k ORDER BY a DESC;
-- [a]
-- 2.0
-- 1.0
-- NULL
SELECT 1 UNION ALL SELECT 1 UNION SELECT 2 UNION ALL SELECT 2;
-- [1]
-- 1
-- 2
-- 2
SELECT 1 EXCEPT ALL SELECT 2 INTERSECT ALL SELECT 2;
-- [1]
-- 1
