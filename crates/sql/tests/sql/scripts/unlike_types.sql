# BIT, doubles and members beside text.
CREATE TABLE g (id INT PRIMARY KEY, b BIT(8), k BIT(20), d DOUBLE, f FLOAT, t VARCHAR(10), x TEXT, v VARBINARY(9), e ENUM('b', 'a', '5'), s SET('x', 'y'), i INT, p DECIMAL(5,2));
-- ok, 0 rows
INSERT INTO g VALUES (1, 65, 65, 1e300, 0.1, 'A', 'B', 'C', 'a', 'x,y', 5, 1.5), (2, 1, 1000, 123456.7890123, 1e10, '65', '1', '1', '5', 'y', 65, 2), (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
-- ok, 3 rows
SELECT HEX(b) FROM g UNION SELECT t FROM g;
-- [HEX(b)]
-- 41
-- 1
-- NULL
-- A
-- 65
SELECT HEX(c) FROM (SELECT b AS c FROM g UNION SELECT t FROM g) u;
-- [HEX(c)]
-- 3635
-- 31
-- NULL
-- 41
SELECT HEX(c) FROM (SELECT t AS c FROM g UNION ALL SELECT k FROM g) u;
-- [HEX(c)]
-- 41
-- 3635
-- NULL
-- 3635
-- 31303030
-- NULL
SELECT HEX(c) FROM (SELECT k AS c FROM g UNION ALL SELECT v FROM g) u;
-- [HEX(c)]
-- 3635
-- 31303030
-- NULL
-- 43
-- 31
-- NULL
SELECT c FROM (SELECT d AS c FROM g UNION ALL SELECT t FROM g) u;
-- [c]
-- 1e300
-- 123456.7890123
-- NULL
-- A
-- 65
-- NULL
SELECT c FROM (SELECT t AS c FROM g UNION ALL SELECT d FROM g) u;
-- [c]
-- A
-- 65
-- NULL
-- 1e300
-- 123456.7890123
-- NULL
SELECT c FROM (SELECT d AS c FROM g UNION ALL SELECT x FROM g) u;
-- [c]
-- 1e300
-- 123456.7890123
-- NULL
-- B
-- 1
-- NULL
SELECT c FROM (SELECT d AS c FROM g UNION ALL SELECT v FROM g) u;
-- [c]
-- 1e300
-- 123456.7890123
-- NULL
-- C
-- 1
-- NULL
SELECT c FROM (SELECT 1e300 AS c UNION ALL SELECT 'a') u;
-- [c]
-- 1e300
-- a
SELECT c FROM (SELECT 0.1e0 AS c UNION ALL SELECT 'a') u;
-- [c]
-- 0.1
-- a
SELECT c FROM (SELECT 1234567890.12345678e0 AS c UNION ALL SELECT 'a') u;
-- [c]
-- 1234567890.1234567
-- a
SELECT k FROM g UNION SELECT 10;
-- [k]
-- 65
-- 1000
-- NULL
-- 10
SELECT b FROM g UNION SELECT 65;
-- [b]
-- 65
-- 1
-- NULL
SELECT b FROM g UNION SELECT 1.5e0;
-- [b]
-- 65
-- 1
-- NULL
-- 1.5
SELECT b FROM g UNION SELECT i FROM g;
-- [b]
-- 65
-- 1
-- NULL
-- 5
SELECT e FROM g UNION SELECT i FROM g;
-- [e]
-- a
-- 5
-- NULL
-- 65
SELECT e FROM g UNION SELECT s FROM g;
-- [e]
-- a
-- 5
-- NULL
-- x,y
-- y
SELECT i FROM g UNION ALL SELECT t FROM g;
-- [i]
-- 5
-- 65
-- NULL
-- A
-- 65
-- NULL
SELECT p FROM g UNION ALL SELECT t FROM g;
-- [p]
-- 1.50
-- 2.00
-- NULL
-- A
-- 65
-- NULL
SELECT HEX(IF(1, b, t)), IF(0, b, t), HEX(COALESCE(b, t)), HEX(CASE WHEN id = 1 THEN b ELSE t END) FROM g ORDER BY id;
-- [HEX(IF(1, b, t)), IF(0, b, t), HEX(COALESCE(b, t)), HEX(CASE WHEN id = 1 THEN b ELSE t END)]
-- 41 | A | 41 | 41
-- 01 | 65 | 01 | 3635
-- NULL | NULL | NULL | NULL
SELECT IF(id = 1, d, t), COALESCE(f, t), IF(id = 2, e, i) FROM g ORDER BY id;
-- [IF(id = 1, d, t), COALESCE(f, t), IF(id = 2, e, i)]
-- 1e300 | 0.1 | 5
-- 65 | 10000000000 | 5
-- NULL | NULL | NULL
# A member that a scalar subquery gives is its text.
CREATE TABLE h (id INT AUTO_INCREMENT PRIMARY KEY, n INT, d DOUBLE, p DECIMAL(9,2), t VARCHAR(9), e ENUM('5', 'b', 'a'), k BIT(8), s SET('a', 'y'));
-- ok, 0 rows
INSERT INTO h (n) VALUES ((SELECT e FROM g WHERE id = 2));
-- ok, 1 rows, id 1
INSERT INTO h (n) VALUES ((SELECT e FROM g WHERE id = 1));
-- ERROR 1366 (HY000): Incorrect integer value: 'a' for column 'n' at row 1
INSERT INTO h (d, p) VALUES ((SELECT e FROM g WHERE id = 2), (SELECT e FROM g WHERE id = 2));
-- ok, 1 rows, id 2
INSERT INTO h (t, e) VALUES ((SELECT e FROM g WHERE id = 1), (SELECT e FROM g WHERE id = 1));
-- ok, 1 rows, id 3
INSERT INTO h (n) SELECT e FROM g;
-- ok, 3 rows, id 4
INSERT INTO h (n) SELECT s FROM g;
-- ok, 3 rows, id 7
INSERT INTO h (n) SELECT (SELECT e FROM g WHERE id = 2);
-- ok, 1 rows, id 10
INSERT INTO h (n) SELECT MAX(e) FROM g WHERE id = 2;
-- ok, 1 rows, id 11
INSERT INTO h (e, s) SELECT e, 'a' FROM g WHERE id < 3;
-- ok, 2 rows, id 12
UPDATE h SET n = (SELECT e FROM g WHERE id = 2) WHERE id = 1;
-- ok, 0 rows
SELECT * FROM h ORDER BY id;
-- [id, n, d, p, t, e, k, s]
-- 1 | 5 | NULL | NULL | NULL | NULL | NULL | NULL
-- 2 | NULL | 5 | 5.00 | NULL | NULL | NULL | NULL
-- 3 | NULL | NULL | NULL | a | a | NULL | NULL
-- 4 | 2 | NULL | NULL | NULL | NULL | NULL | NULL
-- 5 | 3 | NULL | NULL | NULL | NULL | NULL | NULL
-- 6 | NULL | NULL | NULL | NULL | NULL | NULL | NULL
-- 7 | 3 | NULL | NULL | NULL | NULL | NULL | NULL
-- 8 | 2 | NULL | NULL | NULL | NULL | NULL | NULL
-- 9 | NULL | NULL | NULL | NULL | NULL | NULL | NULL
-- 10 | 5 | NULL | NULL | NULL | NULL | NULL | NULL
-- 11 | 5 | NULL | NULL | NULL | NULL | NULL | NULL
-- 12 | NULL | NULL | NULL | NULL | a | NULL | a
-- 13 | NULL | NULL | NULL | NULL | 5 | NULL | a
SELECT (SELECT e FROM g WHERE id = 2) + 0, (SELECT s FROM g WHERE id = 1) + 0, (SELECT e FROM g WHERE id = 2) = 5, (SELECT e FROM g WHERE id = 2) = 3;
-- [(SELECT e FROM g WHERE id = 2) + 0, (SELECT s FROM g WHERE id = 1) + 0, (SELECT e FROM g WHERE id = 2) = 5, (SELECT e FROM g WHERE id = 2) = 3]
-- 5 | 0 | 1 | 0
SELECT e + 0, (SELECT g.e) + 0, (SELECT MAX(e)) FROM g WHERE id = 2 GROUP BY e;
-- [e + 0, (SELECT g.e) + 0, (SELECT MAX(e))]
-- 3 | 5 | 5
DELETE FROM h;
-- ok, 13 rows
# Literals of bytes.
SELECT 0b1 + 0, HEX(0b101010101), 0b0 = 0, HEX(b''), LENGTH(0b1), 0b1 = x'01', 0b11 | 4;
-- [B'1' + 0, HEX(B'101010101'), B'0' = 0, HEX(B''), LENGTH(B'1'), B'1' = X'01', B'11' | 4]
-- 1 | 0155 | 1 |  | 1 | 1 | 7
SELECT 0x3132, 0x3132 + 0, 0x3132 = 12, 0x3132 = '12', '12' = 0x3132, 0x31 IN (1, 49), CAST(0x3132 AS SIGNED), CAST(0x3132 AS DECIMAL(9,1)), 0x3132 * 1.0, CONCAT(0x3132, 1);
-- [X'3132', X'3132' + 0, X'3132' = 12, X'3132' = '12', '12' = X'3132', X'31' IN (1, 49), CAST(X'3132' AS SIGNED), CAST(X'3132' AS DECIMAL(9,1)), X'3132' * 1.0, CONCAT(X'3132', 1)]
-- 12 | 12594 | 0 | 1 | 1 | 1 | 12594 | 12594.0 | 12594.0 | 121
SELECT 0b12;
-- ERROR 1054 (42S22): Unknown column '0b12' in 'field list'
INSERT INTO h (n) VALUES (0x3132), (0b1), (b'11'), (0x41 + 0);
-- ok, 4 rows, id 14
INSERT INTO h (n) SELECT 0x3132;
-- ok, 1 rows, id 18
INSERT INTO h (n) SELECT 0b1 UNION ALL SELECT b'11';
-- ERROR 1366 (HY000): Incorrect integer value: '\x01' for column 'n' at row 1
INSERT INTO h (n) SELECT 0x3132 FROM g;
-- ok, 3 rows, id 19
INSERT INTO h (d, p, t, k) VALUES (0x3132, 0x3132, 0x3132, 0x41);
-- ok, 1 rows, id 22
INSERT INTO h (d, p, t, k) SELECT 0x3132, 0x3132, 0x3132, 0x41;
-- ok, 1 rows, id 23
INSERT INTO h (e, s) VALUES (0x61, 0x61);
-- ok, 1 rows, id 24
INSERT INTO h (e, s) SELECT 0x61, 0x79;
-- ok, 1 rows, id 25
INSERT INTO h (e) VALUES (0x2);
-- ERROR 1265 (01000): Data truncated for column 'e' at row 1
INSERT INTO h (s) VALUES (0x3);
-- ERROR 1265 (01000): Data truncated for column 's' at row 1
INSERT INTO h (e) VALUES (0b1);
-- ERROR 1265 (01000): Data truncated for column 'e' at row 1
INSERT INTO h (e) VALUES (b'1100001');
-- ok, 1 rows, id 26
INSERT INTO h (s) VALUES ('a,', 0x3);
-- ERROR 1136 (21S01): Column count doesn't match value count at row 1
UPDATE h SET e = 0x62 WHERE e = 0x61;
-- ok, 3 rows
SELECT n, d, p, t, e, k + 0, s FROM h ORDER BY id;
-- [n, d, p, t, e, k + 0, s]
-- 12594 | NULL | NULL | NULL | NULL | NULL | NULL
-- 1 | NULL | NULL | NULL | NULL | NULL | NULL
-- 3 | NULL | NULL | NULL | NULL | NULL | NULL
-- 65 | NULL | NULL | NULL | NULL | NULL | NULL
-- 12594 | NULL | NULL | NULL | NULL | NULL | NULL
-- 12594 | NULL | NULL | NULL | NULL | NULL | NULL
-- 12594 | NULL | NULL | NULL | NULL | NULL | NULL
-- 12594 | NULL | NULL | NULL | NULL | NULL | NULL
-- NULL | 12594 | 12594.00 | 12 | NULL | 65 | NULL
-- NULL | 12594 | 12594.00 | 12 | NULL | 65 | NULL
-- NULL | NULL | NULL | NULL | b | NULL | a
-- NULL | NULL | NULL | NULL | b | NULL | y
-- NULL | NULL | NULL | NULL | b | NULL | NULL
SELECT e = 0x61, e IN (0x61, 'z'), t = 0x41, t IN (0x41), i = 0x35, i IN (0x05) FROM g ORDER BY id;
-- [e = X'61', e IN (X'61', 'z'), t = X'41', t IN (X'41'), i = X'35', i IN (X'05')]
-- 1 | 1 | 1 | 1 | 0 | 1
-- 0 | 0 | 0 | 0 | 0 | 0
-- NULL | NULL | NULL | NULL | NULL | NULL
DROP TABLE g, h;
-- ok, 0 rows
