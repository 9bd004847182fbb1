# An index gives the order of its collation, and no other.
CREATE TABLE words (id INT PRIMARY KEY, n VARCHAR(9), e ENUM('b', 'a'), KEY (n), KEY (e));
-- ok, 0 rows
INSERT INTO words VALUES (1, 'b', 'a'), (2, 'A', 'b'), (3, 'a', 'a'), (4, 'B', 'b');
-- ok, 4 rows
SELECT n FROM words ORDER BY n COLLATE utf8mb4_bin;
-- [n]
-- A
-- B
-- a
-- b
SELECT n FROM words ORDER BY n COLLATE utf8mb4_bin DESC LIMIT 2;
-- [n]
-- b
-- a
SELECT n FROM words FORCE INDEX (n) WHERE n > 'a' ORDER BY n COLLATE utf8mb4_bin;
-- [n]
-- B
-- b
SELECT id, e FROM words ORDER BY e COLLATE utf8mb4_bin, id;
-- [id, e]
-- 1 | a
-- 3 | a
-- 2 | b
-- 4 | b
SELECT id, e FROM words ORDER BY e, id;
-- [id, e]
-- 2 | b
-- 4 | b
-- 1 | a
-- 3 | a
SELECT id FROM words FORCE INDEX (n) WHERE n >= '' ORDER BY n COLLATE utf8mb4_general_ci, id LIMIT 2;
-- [id]
-- 2
-- 3
# Text that is the same number is not the same text, so the index gives no order behind it.
CREATE TABLE codes (id INT PRIMARY KEY, a VARCHAR(9), b INT, KEY (a, b));
-- ok, 0 rows
INSERT INTO codes VALUES (1, '01', 2), (2, '1', 1), (3, '1.0', 0), (4, '2', 5);
-- ok, 4 rows
SELECT b FROM codes WHERE a = 1 ORDER BY b;
-- [b]
-- 0
-- 1
-- 2
SELECT b FROM codes WHERE a = 1 ORDER BY b DESC LIMIT 1;
-- [b]
-- 2
SELECT b FROM codes WHERE a = '1' ORDER BY b;
-- [b]
-- 1
CREATE TABLE named (pk VARCHAR(9) PRIMARY KEY, b INT);
-- ok, 0 rows
INSERT INTO named VALUES ('a', 3), ('b', 1), ('c', 2);
-- ok, 3 rows
SELECT b FROM named WHERE pk = 0 ORDER BY b;
-- [b]
-- 1
-- 2
-- 3
SELECT b FROM named WHERE pk = 0 ORDER BY b DESC LIMIT 2;
-- [b]
-- 3
-- 2
PREPARE s FROM 'SELECT b FROM named WHERE pk = ? ORDER BY b LIMIT 2';
-- ok, 0 rows
SET @zero = 0, @a = 'a';
-- ok, 0 rows
EXECUTE s USING @a;
-- [b]
-- 3
EXECUTE s USING @zero;
-- [b]
-- 1
-- 2
EXECUTE s USING @a;
-- [b]
-- 3
