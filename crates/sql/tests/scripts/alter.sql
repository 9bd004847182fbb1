# What rows have in a column that was added later stays, whatever becomes of its default.
CREATE TABLE a (id INT PRIMARY KEY);
-- ok, 0 rows
INSERT INTO a VALUES (1), (2);
-- ok, 2 rows
ALTER TABLE a ADD COLUMN n INT NOT NULL DEFAULT 7, ADD COLUMN s VARCHAR(5) DEFAULT 'old', ADD COLUMN z DATE NOT NULL;
-- ok, 0 rows
CREATE INDEX n ON a (n);
-- ok, 0 rows
ALTER TABLE a ALTER COLUMN n SET DEFAULT 9, ALTER COLUMN s DROP DEFAULT;
-- ok, 0 rows
INSERT INTO a (id, s, z) VALUES (3, 'new', '2020-01-01');
-- ok, 1 rows
SELECT * FROM a;
-- [id, n, s, z]
-- 1 | 7 | old | 0000-00-00
-- 2 | 7 | old | 0000-00-00
-- 3 | 9 | new | 2020-01-01
SELECT id FROM a WHERE n = 7;
-- [id]
-- 1
-- 2
ALTER TABLE a MODIFY n INT NOT NULL DEFAULT 11;
-- ok, 0 rows
ALTER TABLE a CHANGE s t VARCHAR(5) DEFAULT 'third';
-- ok, 0 rows
SELECT * FROM a;
-- [id, n, t, z]
-- 1 | 7 | old | 0000-00-00
-- 2 | 7 | old | 0000-00-00
-- 3 | 9 | new | 2020-01-01
SELECT id FROM a WHERE n = 7;
-- [id]
-- 1
-- 2
UPDATE a SET t = 'x' WHERE n = 7 AND id = 1;
-- ok, 1 rows
ALTER TABLE a MODIFY t VARCHAR(6) DEFAULT 'fourth', ADD COLUMN e INT DEFAULT 1 FIRST;
-- ok, 0 rows
INSERT INTO a (id, z) VALUES (4, '2020-01-01');
-- ok, 1 rows
SELECT * FROM a;
-- [e, id, n, t, z]
-- 1 | 1 | 7 | x | 0000-00-00
-- 1 | 2 | 7 | old | 0000-00-00
-- 1 | 3 | 9 | new | 2020-01-01
-- 1 | 4 | 11 | fourth | 2020-01-01
SHOW CREATE TABLE a;
-- [Table, Create Table]
-- a | CREATE TABLE `a` (\n  `e` int DEFAULT '1',\n  `id` int NOT NULL,\n  `n` int NOT NULL DEFAULT '11',\n  `t` varchar(6) DEFAULT 'fourth',\n  `z` date NOT NULL,\n  PRIMARY KEY (`id`),\n  KEY `n` (`n`)\n) ENGINE=TIERED DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci
