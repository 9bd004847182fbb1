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
