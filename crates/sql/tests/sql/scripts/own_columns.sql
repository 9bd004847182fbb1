# A value of VALUES may name columns of its own row: those to its left, and the defaults of others.
CREATE TABLE l (id INT AUTO_INCREMENT PRIMARY KEY, a INT DEFAULT 5, b INT NOT NULL, c VARCHAR(9) DEFAULT 'x', d INT);
-- ok, 0 rows
INSERT INTO l (a, b, d) VALUES (1, a + 1, a + b), (DEFAULT, a * 2, NULL);
-- ok, 2 rows, id 1
INSERT INTO l SET b = a + 1, a = b * 10;
-- ok, 1 rows, id 3
INSERT INTO l (b, a) VALUES (a, b);
-- ok, 1 rows, id 4
INSERT INTO l (b, c) VALUES (id, CONCAT(c, b)), (l.a, test.l.c);
-- ok, 2 rows, id 5
SELECT * FROM l ORDER BY id;
-- [id, a, b, c, d]
-- 1 | 1 | 2 | x | 3
-- 2 | 5 | 10 | x | NULL
-- 3 | 60 | 6 | x | NULL
-- 4 | 5 | 5 | x | NULL
-- 5 | 5 | 0 | x0 | NULL
-- 6 | 5 | 5 | x | NULL
REPLACE INTO l (id, b, a) VALUES (1, a, id);
-- ok, 2 rows, id 1
INSERT INTO l (id, b) VALUES (1, a + 3) ON DUPLICATE KEY UPDATE d = VALUES(b) + b;
-- ok, 2 rows, id 1
INSERT INTO l VALUES (20, d, id, c, b);
-- ok, 1 rows, id 20
INSERT INTO l (id, b, d) VALUES (30, 1, d), (31, d, 2);
-- ERROR 1048 (23000): Column 'b' cannot be null
INSERT IGNORE INTO l (id, b, d) VALUES (32, d, b), (32, 7, b);
-- ok, 1 rows, id 32, 2 warnings
INSERT INTO l (id, b, d) VALUES (33, (SELECT MAX(id) FROM l x WHERE x.id < 3), b + 1);
-- ok, 1 rows, id 33
INSERT INTO l (b) VALUES (q);
-- ERROR 1054 (42S22): Unknown column 'q' in 'field list'
INSERT INTO l (b) VALUES (COUNT(*));
-- ERROR 1111 (HY000): Invalid use of group function
PREPARE p FROM 'INSERT INTO l (id, a, b) VALUES (?, 3, a + ?)';
-- ok, 0 rows
SET @x = 40, @y = 4;
-- ok, 0 rows
EXECUTE p USING @x, @y;
-- ok, 1 rows, id 40
SELECT * FROM l ORDER BY id;
-- [id, a, b, c, d]
-- 1 | 1 | 5 | x | 13
-- 2 | 5 | 10 | x | NULL
-- 3 | 60 | 6 | x | NULL
-- 4 | 5 | 5 | x | NULL
-- 5 | 5 | 0 | x0 | NULL
-- 6 | 5 | 5 | x | NULL
-- 20 | NULL | 20 | x | 20
-- 32 | 5 | 0 | x | 0
-- 33 | 5 | 2 | x | 3
-- 40 | 3 | 7 | x | NULL
DROP TABLE l;
-- ok, 0 rows
