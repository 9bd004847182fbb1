# How many rows a change takes.
CREATE TABLE l (id INT PRIMARY KEY, a INT);
-- ok, 0 rows
INSERT INTO l VALUES (1, 1), (2, 2), (3, 3), (4, 4);
-- ok, 4 rows
DELETE FROM l LIMIT id;
-- ERROR 1327 (42000): Undeclared variable: id
UPDATE l SET a = 0 LIMIT l.id;
-- ERROR 1327 (42000): Undeclared variable: l
DELETE FROM l LIMIT -1;
-- ERROR 1064 (42000): You have an error in your SQL syntax: LIMIT takes a whole number that is not negative
DELETE FROM l ORDER BY id LIMIT 1 + 1;
-- ERROR 1064 (42000): You have an error in your SQL syntax: near '1 + 1'
UPDATE l SET a = 0 LIMIT 1.5;
-- ERROR 1064 (42000): You have an error in your SQL syntax: LIMIT takes a whole number that is not negative
UPDATE l SET a = 0 LIMIT NULL;
-- ERROR 1064 (42000): You have an error in your SQL syntax: near 'NULL'
UPDATE l SET a = 0 LIMIT 0;
-- ok, 0 rows
UPDATE l SET a = a + 10 ORDER BY id DESC LIMIT 1;
-- ok, 1 rows
PREPARE p FROM 'DELETE FROM l ORDER BY id LIMIT ?';
-- ok, 0 rows
SET @n = -1;
-- ok, 0 rows
EXECUTE p USING @n;
-- ERROR 1064 (42000): You have an error in your SQL syntax: LIMIT takes a whole number that is not negative
SET @n = 2;
-- ok, 0 rows
EXECUTE p USING @n;
-- ok, 2 rows
SELECT * FROM l;
-- [id, a]
-- 3 | 3
-- 4 | 14
# And a query.
SELECT id FROM l LIMIT id;
-- ERROR 1327 (42000): Undeclared variable: id
SELECT id FROM l LIMIT 1, l.id;
-- ERROR 1327 (42000): Undeclared variable: l
SELECT id FROM l ORDER BY id LIMIT 1 OFFSET 1;
-- [id]
-- 4
SELECT id FROM l LIMIT 1 OFFSET -1;
-- ERROR 1064 (42000): You have an error in your SQL syntax: LIMIT takes a whole number that is not negative
SELECT id FROM l LIMIT 1 + 1;
-- ERROR 1064 (42000): You have an error in your SQL syntax: near '1 + 1'
SELECT id FROM l LIMIT @n;
-- ERROR 1064 (42000): You have an error in your SQL syntax: near '@n'
(SELECT id FROM l LIMIT NULL);
-- ERROR 1064 (42000): You have an error in your SQL syntax: near 'NULL'
