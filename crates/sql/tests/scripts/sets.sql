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
