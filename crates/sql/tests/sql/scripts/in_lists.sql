# A long list is found by hash, and a short one is walked: both answer the same.
CREATE TABLE t (id INT PRIMARY KEY, a INT, s VARCHAR(20), b VARCHAR(20) COLLATE utf8mb4_bin, d DECIMAL(20,4), x DATE, KEY by_a (a), KEY by_d (d, a));
-- ok, 0 rows
INSERT INTO t VALUES (1, 1, 'a', 'a', 1.5, '2024-02-29'), (2, 2, 'A ', 'A ', 2.0, '2024-03-01'), (3, NULL, 'é', 'é', -1, NULL), (4, 4, NULL, NULL, NULL, '1000-01-01');
-- ok, 4 rows
SELECT id FROM t WHERE a IN (1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 4) ORDER BY id;
-- [id]
-- 1
-- 4
SELECT id FROM t WHERE a NOT IN (1, 3, 5, 7, 9, 11, 13, 15, 17, 19) ORDER BY id;
-- [id]
-- 2
-- 4
SELECT id FROM t WHERE a NOT IN (1, 3, 5, 7, 9, 11, 13, 15, 17, 19, NULL) ORDER BY id;
-- [id]
SELECT id, a IN (1, 3, 5, 7, 9, 11, 13, 15, 17, 19, NULL) FROM t ORDER BY id;
-- [id, a IN (1, 3, 5, 7, 9, 11, 13, 15, 17, 19, NULL)]
-- 1 | 1
-- 2 | NULL
-- 3 | NULL
-- 4 | NULL
SELECT id FROM t WHERE s IN ('A', 'E', 'q', 'w', 'r', 't', 'y', 'u', 'i', 'o') ORDER BY id;
-- [id]
-- 1
-- 2
-- 3
SELECT id FROM t WHERE b IN ('A', 'E', 'q', 'w', 'r', 't', 'y', 'u', 'i', 'o') ORDER BY id;
-- [id]
-- 2
SELECT id FROM t WHERE d IN (1.50, 2, 3, 4, 5, 6, 7, 8, 9, 10) ORDER BY id;
-- [id]
-- 1
-- 2
SELECT id FROM t WHERE d IN (1.50e0, 2e0, 3, 4, 5, 6, 7, 8, 9, 10) ORDER BY id;
-- [id]
-- 1
-- 2
SELECT id FROM t WHERE d IN ('1.50', '2.0', '3', '4', '5', '6', '7', '8', '9', '10') ORDER BY id;
-- [id]
-- 1
-- 2
SELECT id FROM t WHERE x IN ('2024-02-29', '24-3-1', '2024-01-01', '2024-01-02', '2024-01-03', '2024-01-04', '2024-01-05', '2024-01-06', '2024-01-07') ORDER BY id;
-- [id]
-- 1
-- 2
SELECT id FROM t WHERE s IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9) ORDER BY id;
-- [id]
-- 1
-- 2
-- 3
UPDATE t SET a = a WHERE s IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9);
-- ERROR 1292 (22007): Truncated incorrect DOUBLE value: 'a'
# Rows, and lists of them.
SELECT id FROM t WHERE (a, s) IN ((1, 'A'), (2, 'b'), (3, 'c'), (4, 'd'), (5, 'e'), (6, 'f'), (7, 'g'), (8, 'h'), (2, 'a')) ORDER BY id;
-- [id]
-- 1
-- 2
SELECT id, (a, s) IN ((1, 'A'), (2, NULL), (3, 'c'), (4, 'd'), (5, 'e'), (6, 'f'), (7, 'g'), (8, 'h'), (2, 'b')) FROM t ORDER BY id;
-- [id, (a, s) IN ((1, 'A'), (2, NULL), (3, 'c'), (4, 'd'), (5, 'e'), (6, 'f'), (7, 'g'), (8, 'h'), (2, 'b'))]
-- 1 | 1
-- 2 | NULL
-- 3 | NULL
-- 4 | NULL
SELECT id FROM t WHERE (a, d) IN ((1, 1.5), (2, 1), (3, 1), (4, 1), (5, 1), (6, 1), (7, 1), (8, 1), (2, '2.000')) ORDER BY id;
-- [id]
-- 1
-- 2
SELECT id FROM t WHERE (d, a) NOT IN ((1.5, 1), (1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (1, 6), (1, 7), (1, 8)) ORDER BY id;
-- [id]
-- 2
-- 3
SELECT id FROM t WHERE (id, b) IN ((1, 'A'), (1, 'a'), (2, 'a')) ORDER BY id;
-- [id]
-- 1
SELECT id FROM t WHERE ((id, a), s) IN (((1, 1), 'a'), ((2, 2), 'b')) ORDER BY id;
-- [id]
-- 1
SELECT id FROM t WHERE ROW(a, s) = ROW(1, 'A') OR (a, s) = (SELECT 2, 'a') ORDER BY id;
-- [id]
-- 1
-- 2
SELECT id FROM t WHERE (a, id) > ROW(1, 1) ORDER BY id;
-- [id]
-- 2
-- 4
SELECT id FROM t WHERE (a, id) = (SELECT MAX(a), MAX(id) FROM t) ORDER BY id;
-- [id]
-- 4
SELECT (1, NULL) <=> (SELECT 1, NULL), (1, 2) = (SELECT 1, 2 FROM t WHERE id > 9), (SELECT 1, 2) < (1, 3), ROW(1, 2) IN (SELECT id, a FROM t);
-- [(1, NULL) <=> (SELECT 1, NULL), (1, 2) = (SELECT 1, 2 FROM t WHERE id > 9), (SELECT 1, 2) < (1, 3), ROW(1, 2) IN (SELECT id, a FROM t)]
-- 1 | NULL | 1 | 0
SELECT (1, 2) = (SELECT id, a FROM t);
-- ERROR 1242 (21000): Subquery returns more than 1 row
SELECT id FROM t WHERE (id, a) IN ((1, 2, 3));
-- ERROR 1241 (21000): Operand should contain 2 column(s)
SELECT id FROM t WHERE (id, a) = (1, 2, 3);
-- ERROR 1241 (21000): Operand should contain 2 column(s)
SELECT id FROM t WHERE (id, a) = 1;
-- ERROR 1241 (21000): Operand should contain 2 column(s)
SELECT id FROM t WHERE id IN ((1, 2));
-- ERROR 1241 (21000): Operand should contain 1 column(s)
SELECT id FROM t WHERE (id, a) = (SELECT 1);
-- ERROR 1241 (21000): Operand should contain 2 column(s)
