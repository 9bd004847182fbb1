# DEFAULT() is the default of a column, in each place where a value may stand.
CREATE TABLE d (id INT AUTO_INCREMENT PRIMARY KEY, n INT DEFAULT 7, m INT DEFAULT 8, z INT, t VARCHAR(5) NOT NULL DEFAULT 'Dé', p DECIMAL(6,2) DEFAULT 1.5, f DOUBLE DEFAULT 2.5, e ENUM('a', 'b', 'c') DEFAULT 'b', s SET('x', 'y', 'z') DEFAULT 'x,z', b BIT(5) DEFAULT b'101', v VARBINARY(4) DEFAULT 'ab', w BINARY(3) DEFAULT 'c', y YEAR DEFAULT 2024, a DATE DEFAULT '2024-02-29', h TIME(1) DEFAULT '-01:02:03.5', u DATETIME DEFAULT '2024-02-29 01:02:03');
-- ok, 0 rows
INSERT INTO d (id, n) VALUES (1, 1);
-- ok, 1 rows, id 1
SELECT DEFAULT(id), DEFAULT(n), DEFAULT(z), DEFAULT(t), DEFAULT(p), DEFAULT(f), DEFAULT(e), DEFAULT(s), DEFAULT(b) + 0, DEFAULT(v), HEX(DEFAULT(w)), DEFAULT(y), DEFAULT(a), DEFAULT(h), DEFAULT(u) FROM d;
-- [DEFAULT(id), DEFAULT(n), DEFAULT(z), DEFAULT(t), DEFAULT(p), DEFAULT(f), DEFAULT(e), DEFAULT(s), DEFAULT(b) + 0, DEFAULT(v), HEX(DEFAULT(w)), DEFAULT(y), DEFAULT(a), DEFAULT(h), DEFAULT(u)]
-- 0 | 7 | NULL | Dé | 1.50 | 2.5 | b | x,z | 5 | ab | 630000 | 2024 | 2024-02-29 | -01:02:03.500000 | 2024-02-29 01:02:03
SELECT DEFAULT(e) + 0, DEFAULT(s) + 0, DEFAULT(v) = 'ab', DEFAULT(v) + 0, DEFAULT(t) = 'DÉ', DEFAULT(t) = BINARY 'DÉ', DEFAULT(p) * 2, DEFAULT(u) + 0, DEFAULT(h) + 0, CONCAT(DEFAULT(e), DEFAULT(s)), DEFAULT(z) IS NULL, COALESCE(DEFAULT(z), DEFAULT(n)) FROM d;
-- [DEFAULT(e) + 0, DEFAULT(s) + 0, DEFAULT(v) = 'ab', DEFAULT(v) + 0, DEFAULT(t) = 'DÉ', DEFAULT(t) = BINARY 'DÉ', DEFAULT(p) * 2, DEFAULT(u) + 0, DEFAULT(h) + 0, CONCAT(DEFAULT(e), DEFAULT(s)), DEFAULT(z) IS NULL, COALESCE(DEFAULT(z), DEFAULT(n))]
-- 2 | 5 | 1 | 0 | 1 | 0 | 3.00 | 20240229010203 | -10203.5 | bx,z | 1 | 7
SELECT COUNT(*), MAX(DEFAULT(n)), SUM(DEFAULT(m)) FROM d;
-- [COUNT(*), MAX(DEFAULT(n)), SUM(DEFAULT(m))]
-- 1 | 7 | 8
SELECT id FROM d WHERE n < DEFAULT(n) AND DEFAULT(d.m) = 8 AND DEFAULT(test.d.e) = 'b' ORDER BY DEFAULT(n);
-- [id]
-- 1
INSERT INTO d (id, n, m, z) VALUES (2, DEFAULT(m), DEFAULT(n) + 1, DEFAULT(n)), (3, DEFAULT, DEFAULT(d.z), DEFAULT(id));
-- ok, 2 rows, id 3
INSERT INTO d (id, t, e, s, b, v, w, y, a, h, u) VALUES (4, DEFAULT(t), DEFAULT(e), DEFAULT(s), DEFAULT(b), DEFAULT(v), DEFAULT(w), DEFAULT(y), DEFAULT(a), DEFAULT(h), DEFAULT(u));
-- ok, 1 rows, id 4
INSERT INTO d SET id = 5, n = DEFAULT(m), t = CONCAT(DEFAULT(t), '!');
-- ok, 1 rows, id 5
REPLACE INTO d (id, n, z) VALUES (5, DEFAULT(m), DEFAULT(p));
-- ok, 2 rows, id 5
SELECT id, n, m, z, t, e, s, b + 0, v, HEX(w), y, a, h, u FROM d ORDER BY id;
-- [id, n, m, z, t, e, s, b + 0, v, HEX(w), y, a, h, u]
-- 1 | 1 | 8 | NULL | Dé | b | x,z | 5 | ab | 630000 | 2024 | 2024-02-29 | -01:02:03.500000 | 2024-02-29 01:02:03
-- 2 | 8 | 8 | 7 | Dé | b | x,z | 5 | ab | 630000 | 2024 | 2024-02-29 | -01:02:03.500000 | 2024-02-29 01:02:03
-- 3 | 7 | NULL | 0 | Dé | b | x,z | 5 | ab | 630000 | 2024 | 2024-02-29 | -01:02:03.500000 | 2024-02-29 01:02:03
-- 4 | 7 | 8 | NULL | Dé | b | x,z | 5 | ab | 630000 | 2024 | 2024-02-29 | -01:02:03.500000 | 2024-02-29 01:02:03
-- 5 | 8 | 8 | 2 | Dé | b | x,z | 5 | ab | 630000 | 2024 | 2024-02-29 | -01:02:03.500000 | 2024-02-29 01:02:03
# Between types.
INSERT INTO d (id, n, t, p, e) VALUES (6, DEFAULT(e), DEFAULT(n), DEFAULT(y), DEFAULT(m) - 6), (7, DEFAULT(b), DEFAULT(s), DEFAULT(f), DEFAULT(t) = 'Dé');
-- ok, 2 rows, id 7
INSERT INTO d (id, n, t, p, e, z) VALUES (8, DEFAULT(s), DEFAULT(b), DEFAULT(e), DEFAULT(e), DEFAULT(h));
-- ok, 1 rows, id 8
SELECT id, n, t, p, e, z FROM d WHERE id > 5 ORDER BY id;
-- [id, n, t, p, e, z]
-- 6 | 2 | 7 | 2024.00 | b | NULL
-- 7 | 5 | x,z | 2.50 | a | NULL
-- 8 | 5 | 5 | 2.00 | b | -10204
UPDATE d SET n = DEFAULT(m) + 100, z = DEFAULT(n) WHERE id = 2;
-- ok, 1 rows
UPDATE d SET n = DEFAULT(z), m = DEFAULT WHERE id = 3;
-- ok, 1 rows
INSERT INTO d (id, n) VALUES (1, 9) ON DUPLICATE KEY UPDATE n = DEFAULT(n) + VALUES(n), m = DEFAULT(z), z = DEFAULT;
-- ok, 2 rows, id 1
INSERT INTO d (id) VALUES (4) ON DUPLICATE KEY UPDATE t = DEFAULT(e), z = DEFAULT(d.m);
-- ok, 2 rows, id 4
SELECT id, n, m, z, t FROM d WHERE id < 5 ORDER BY id;
-- [id, n, m, z, t]
-- 1 | 16 | NULL | NULL | Dé
-- 2 | 108 | 8 | 7 | Dé
-- 3 | NULL | 8 | 0 | Dé
-- 4 | 7 | 8 | 8 | b
# The default of a column of the query, and of other tables of a join.
CREATE TABLE o (id INT PRIMARY KEY, q INT DEFAULT 10, n INT DEFAULT 70, k INT NOT NULL);
-- ok, 0 rows
INSERT INTO o (id, q, k) VALUES (1, 5, 1), (2, 6, 2);
-- ok, 2 rows
INSERT INTO d (id, n) SELECT id, DEFAULT(q) FROM o ON DUPLICATE KEY UPDATE m = DEFAULT(q) + q, z = DEFAULT(q) + DEFAULT(o.n);
-- ok, 4 rows
INSERT INTO d (id, n) SELECT id + 20, DEFAULT(q) + DEFAULT(n) FROM o;
-- ok, 2 rows, id 22
UPDATE d JOIN o ON o.id = d.id SET d.z = DEFAULT(o.n) - DEFAULT(d.n), o.q = DEFAULT(q);
-- ok, 4 rows
SELECT d.id, d.n, d.m, d.z, q FROM d JOIN o ON o.id = d.id OR o.id + 20 = d.id ORDER BY d.id;
-- [id, n, m, z, q]
-- 1 | 16 | 15 | 63 | 10
-- 2 | 108 | 16 | 63 | 10
-- 21 | 80 | 8 | NULL | 10
-- 22 | 80 | 8 | NULL | 10
SELECT DEFAULT(o.n), DEFAULT(x.n), (SELECT DEFAULT(x.m) FROM o LIMIT 1), (SELECT MIN(DEFAULT(m) + o.id) FROM o) FROM o JOIN d AS x ON x.id = o.id ORDER BY 1 LIMIT 1;
-- [DEFAULT(o.n), DEFAULT(x.n), (SELECT DEFAULT(x.m) FROM o LIMIT 1), (SELECT MIN(DEFAULT(m) + o.id) FROM o)]
-- 70 | 7 | 8 | 9
DELETE FROM d WHERE n = DEFAULT(q);
-- ERROR 1054 (42S22): Unknown column 'q' in 'where clause'
DELETE FROM d WHERE n = DEFAULT(n) + 73;
-- ok, 2 rows
# A column without a default.
CREATE TABLE r (k INT NOT NULL, e ENUM('a', 'b') NOT NULL, n INT NOT NULL DEFAULT 1, s VARCHAR(3));
-- ok, 0 rows
SELECT DEFAULT(k) FROM r;
-- ERROR 1364 (HY000): Field 'k' doesn't have a default value
SELECT DEFAULT(e) FROM r;
-- ERROR 1364 (HY000): Field 'e' doesn't have a default value
INSERT INTO r (k, n) VALUES (DEFAULT(k), 1);
-- ERROR 1364 (HY000): Field 'k' doesn't have a default value
INSERT IGNORE INTO r (k, n) VALUES (DEFAULT(k), 1);
-- ERROR 1364 (HY000): Field 'k' doesn't have a default value
INSERT INTO r (k, e) VALUES (1, DEFAULT(e));
-- ERROR 1364 (HY000): Field 'e' doesn't have a default value
INSERT INTO r (k, e) VALUES (1, DEFAULT);
-- ok, 1 rows
UPDATE r SET k = DEFAULT(k);
-- ERROR 1364 (HY000): Field 'k' doesn't have a default value
UPDATE r SET n = DEFAULT(s);
-- ERROR 1048 (23000): Column 'n' cannot be null
INSERT INTO r (k, n) VALUES (1, DEFAULT(s));
-- ERROR 1048 (23000): Column 'n' cannot be null
INSERT INTO r VALUES (DEFAULT(n), 'b', DEFAULT(n) + 1, DEFAULT(s));
-- ok, 1 rows
SELECT * FROM r;
-- [k, e, n, s]
-- 1 | a | 1 | NULL
-- 1 | b | 2 | NULL
# Also a query without rows must give such a column a value, unless the mode is not strict.
INSERT INTO r (n) SELECT 1 FROM r WHERE n > 9;
-- ERROR 1364 (HY000): Field 'k' doesn't have a default value
INSERT INTO r (k, e) SELECT 1, 'a' FROM r WHERE n > 9;
-- ok, 0 rows
REPLACE INTO r (n, e) SELECT 1, 'a' FROM o WHERE id > 9;
-- ERROR 1364 (HY000): Field 'k' doesn't have a default value
INSERT INTO r (n) SELECT q FROM o WHERE id > 9 ON DUPLICATE KEY UPDATE n = 1;
-- ERROR 1364 (HY000): Field 'k' doesn't have a default value
INSERT IGNORE INTO r (n) SELECT 1 FROM r WHERE n > 9;
-- ok, 0 rows
# Defaults that are expressions are evaluated.
CREATE TABLE x (id INT PRIMARY KEY, a INT DEFAULT (1 + 2), c VARCHAR(9) DEFAULT (CONCAT('x', 1.50)), g TINYINT DEFAULT (3), w INT DEFAULT (2.6), o BLOB DEFAULT ('blob'), x TEXT DEFAULT (REPEAT('é', 3)), j JSON DEFAULT (JSON_ARRAY(1)), i DATETIME DEFAULT CURRENT_TIMESTAMP, l TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP);
-- ok, 0 rows
INSERT INTO x (id, g) VALUES (1, 2);
-- ok, 1 rows
SELECT DEFAULT(a), DEFAULT(c), DEFAULT(w), DEFAULT(o), DEFAULT(x), DEFAULT(j), DEFAULT(a) + 1 FROM x;
-- [DEFAULT(a), DEFAULT(c), DEFAULT(w), DEFAULT(o), DEFAULT(x), DEFAULT(j), DEFAULT(a) + 1]
-- 3 | x1.50 | 3 | blob | ééé | [1] | 4
SELECT DEFAULT(i) = NOW(), DEFAULT(l) = NOW() FROM x;
-- [DEFAULT(i) = NOW(), DEFAULT(l) = NOW()]
-- 1 | 1
INSERT INTO x (id, a, c, g, w, o, x, j) VALUES (2, DEFAULT(w), DEFAULT(x), DEFAULT(a), DEFAULT(a), DEFAULT(c), DEFAULT(o), DEFAULT(j));
-- ok, 1 rows
INSERT INTO x (id, a) VALUES (3, DEFAULT(g));
-- ok, 1 rows
SELECT id, a, c, w, o, x, j FROM x WHERE id > 1 ORDER BY id;
-- [id, a, c, w, o, x, j]
-- 2 | 3 | ééé | 3 | x1.50 | blob | [1]
-- 3 | 3 | x1.50 | 3 | blob | ééé | [1]
CREATE TABLE g (a TINYINT DEFAULT (YEAR(NOW())), b INT);
-- ok, 0 rows
INSERT INTO g VALUES (1, 2);
-- ok, 1 rows
SELECT DEFAULT(a) FROM g;
-- [DEFAULT(a)]
-- 127
# Names of no column of a stored table.
SELECT DEFAULT(q) FROM d;
-- ERROR 1054 (42S22): Unknown column 'q' in 'field list'
SELECT DEFAULT(n) FROM d, o;
-- ERROR 1052 (23000): Column 'n' in field list is ambiguous
SELECT DEFAULT(1) FROM d;
-- ERROR 1064 (42000): You have an error in your SQL syntax: near '1'
SELECT DEFAULT(n + 1) FROM d;
-- ERROR 1064 (42000): You have an error in your SQL syntax: near 'n + 1'
SELECT DEFAULT(@a) FROM d;
-- ERROR 1064 (42000): You have an error in your SQL syntax: near '@a'
SELECT DEFAULT(n) FROM (SELECT n FROM d) AS y;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'DEFAULT() of a column of no stored table'
SELECT DEFAULT(n);
-- ERROR 1054 (42S22): Unknown column 'n' in 'field list'
SELECT DEFAULT();
-- ERROR 1064 (42000): You have an error in your SQL syntax: DEFAULT() takes one column name
SELECT DEFAULT(n, m) FROM d;
-- ERROR 1064 (42000): You have an error in your SQL syntax: DEFAULT() takes one column name
INSERT INTO d (id) VALUES (DEFAULT(q));
-- ERROR 1054 (42S22): Unknown column 'q' in 'field list'
INSERT INTO d (id, n) VALUES (99, DEFAULT(o.n));
-- ERROR 1054 (42S22): Unknown column 'o.n' in 'field list'
# Prepared, and after the default has changed.
PREPARE p FROM 'SELECT DEFAULT(n) + ? FROM d LIMIT 1';
-- ok, 0 rows
SET @a = 1;
-- ok, 0 rows
EXECUTE p USING @a;
-- [DEFAULT(n) + ?]
-- 8
ALTER TABLE d ALTER COLUMN n SET DEFAULT 17;
-- ok, 0 rows
EXECUTE p USING @a;
-- [DEFAULT(n) + ?]
-- 18
SELECT DEFAULT(n) FROM d LIMIT 1;
-- [DEFAULT(n)]
-- 17
ALTER TABLE d ALTER COLUMN n DROP DEFAULT;
-- ok, 0 rows
EXECUTE p USING @a;
-- [DEFAULT(n) + ?]
-- NULL
DROP TABLE d, o, r, x, g;
-- ok, 0 rows
