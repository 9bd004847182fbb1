# UPDATE and DELETE of several tables.
CREATE TABLE c (id INT PRIMARY KEY, name VARCHAR(10), total INT DEFAULT 0, at TIMESTAMP NULL, UNIQUE KEY (name));
-- ok, 0 rows
CREATE TABLE o (id INT PRIMARY KEY, c INT, price INT, KEY (c));
-- ok, 0 rows
CREATE TABLE nokey (c INT, note VARCHAR(10));
-- ok, 0 rows
INSERT INTO c (id, name, at) VALUES (1, 'a', '2026-01-01 10:00:00'), (2, 'b', NULL), (3, 'c', NULL);
-- ok, 3 rows
INSERT INTO o VALUES (1, 1, 10), (2, 1, 20), (3, 2, 30), (4, 9, 40);
-- ok, 4 rows
INSERT INTO nokey VALUES (1, 'x'), (1, 'y'), (2, 'z');
-- ok, 3 rows
UPDATE c JOIN o ON o.c = c.id SET c.total = o.price, o.price = o.price + 1 WHERE o.id <> 1;
-- ok, 4 rows
SELECT * FROM c ORDER BY id;
-- [id, name, total, at]
-- 1 | a | 20 | 2026-01-01 10:00:00
-- 2 | b | 30 | NULL
-- 3 | c | 0 | NULL
SELECT * FROM o ORDER BY id;
-- [id, c, price]
-- 1 | 1 | 10
-- 2 | 1 | 21
-- 3 | 2 | 31
-- 4 | 9 | 40
UPDATE c, o SET total = 100, price = DEFAULT WHERE o.c = c.id AND c.id = 2;
-- ok, 2 rows
SELECT c.id, total, price FROM c JOIN o ON o.c = c.id ORDER BY o.id;
-- [id, total, price]
-- 1 | 20 | 10
-- 1 | 20 | 21
-- 2 | 100 | NULL
UPDATE c LEFT JOIN o ON o.c = c.id SET c.total = -1, o.price = 5 WHERE o.id IS NULL;
-- ok, 1 rows
SELECT id, total FROM c ORDER BY id;
-- [id, total]
-- 1 | 20
-- 2 | 100
-- 3 | -1
UPDATE c AS x JOIN c AS y ON x.id = y.id + 1 SET x.total = y.id;
-- ok, 2 rows
SELECT id, total FROM c ORDER BY id;
-- [id, total]
-- 1 | 20
-- 2 | 1
-- 3 | 2
UPDATE c JOIN (SELECT c, SUM(price) AS s FROM o GROUP BY c) AS sums ON sums.c = c.id SET total = s;
-- ok, 2 rows
SELECT id, total FROM c ORDER BY id;
-- [id, total]
-- 1 | 31
-- 2 | NULL
-- 3 | 2
UPDATE nokey n JOIN c ON c.id = n.c SET n.note = CONCAT(n.note, c.name);
-- ok, 3 rows
SELECT * FROM nokey ORDER BY note;
-- [c, note]
-- 1 | xa
-- 1 | ya
-- 2 | zb
UPDATE c JOIN o ON o.c = c.id SET c.name = 'c';
-- ERROR 1062 (23000): Duplicate entry 'c' for key 'c.name'
UPDATE IGNORE c JOIN o ON o.c = c.id SET c.name = 'c';
-- ok, 0 rows, 2 warnings
SHOW WARNINGS;
-- [Level, Code, Message]
-- Warning | 1062 | Duplicate entry 'c' for key 'c.name'
-- Warning | 1062 | Duplicate entry 'c' for key 'c.name'
UPDATE c JOIN o ON o.c = c.id SET id = 1;
-- ERROR 1052 (23000): Column 'id' in field list is ambiguous
UPDATE c JOIN o ON o.c = c.id SET nothing = 1;
-- ERROR 1054 (42S22): Unknown column 'nothing' in 'field list'
UPDATE c JOIN o ON o.c = c.id SET c.total = 1 LIMIT 1;
-- ERROR 1221 (HY000): Incorrect usage of UPDATE and LIMIT
UPDATE c JOIN o ON o.c = c.id SET sums.s = 1;
-- ERROR 1054 (42S22): Unknown column 's' in 'field list'
SET time_zone = '+02:00';
-- ok, 0 rows
UPDATE c JOIN o ON o.c = c.id SET c.total = 7 WHERE c.id = 1;
-- ok, 1 rows
SET time_zone = '+00:00';
-- ok, 0 rows
SELECT id, at FROM c WHERE id = 1;
-- [id, at]
-- 1 | 2026-01-01 10:00:00
DELETE o FROM o JOIN c ON o.c = c.id WHERE c.name = 'b';
-- ok, 1 rows
SELECT id FROM o ORDER BY id;
-- [id]
-- 1
-- 2
-- 4
DELETE x, o FROM c AS x JOIN o ON o.c = x.id;
-- ok, 3 rows
SELECT id FROM c ORDER BY id;
-- [id]
-- 2
-- 3
SELECT id FROM o ORDER BY id;
-- [id]
-- 4
DELETE FROM nokey USING nokey LEFT JOIN c ON c.id = nokey.c WHERE c.id IS NULL;
-- ok, 2 rows
SELECT * FROM nokey;
-- [c, note]
-- 2 | zb
DELETE y FROM c;
-- ERROR 1109 (HY000): Unknown table 'y' in MULTI DELETE
DELETE c FROM c JOIN nokey ON nokey.c = c.id LIMIT 1;
-- ERROR 1221 (HY000): Incorrect usage of DELETE and LIMIT
BEGIN;
-- ok, 0 rows
DELETE c, nokey FROM c JOIN nokey ON nokey.c = c.id;
-- ok, 2 rows
ROLLBACK;
-- ok, 0 rows
SELECT COUNT(*) FROM c;
-- [COUNT(*)]
-- 2
