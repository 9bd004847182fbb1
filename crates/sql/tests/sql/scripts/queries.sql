# Tables, joins, groups, subqueries.
CREATE TABLE c (id INT PRIMARY KEY, name VARCHAR(20));
-- ok, 0 rows
CREATE TABLE o (id INT AUTO_INCREMENT PRIMARY KEY, c INT, total DECIMAL(8,2), at DATE, KEY by_c (c, total));
-- ok, 0 rows
INSERT INTO c VALUES (1,'Ann'),(2,'bob'),(3,NULL);
-- ok, 3 rows
INSERT INTO o (c, total, at) VALUES (1, 10.5, '2026-01-01'), (1, 20, '2026-01-02'), (2, 5, '2026-02-01'), (9, 1, NULL);
-- ok, 4 rows, id 1
SELECT c.name, COUNT(o.id), SUM(o.total), AVG(o.total) FROM c LEFT JOIN o ON o.c = c.id GROUP BY c.id, c.name ORDER BY c.id;
-- [name, COUNT(o.id), SUM(o.total), AVG(o.total)]
-- Ann | 2 | 30.50 | 15.250000
-- bob | 1 | 5.00 | 5.000000
-- NULL | 0 | NULL | NULL
SELECT c.id FROM c RIGHT JOIN o ON o.c = c.id ORDER BY o.id;
-- [id]
-- 1
-- 1
-- 2
-- NULL
SELECT id FROM o WHERE total > (SELECT AVG(total) FROM o) ORDER BY id DESC;
-- [id]
-- 2
-- 1
SELECT id, (SELECT COUNT(*) FROM o WHERE o.c = c.id) AS n FROM c ORDER BY n DESC, id;
-- [id, n]
-- 1 | 2
-- 2 | 1
-- 3 | 0
SELECT name FROM c WHERE EXISTS (SELECT 1 FROM o WHERE o.c = c.id) AND id NOT IN (2) ORDER BY 1;
-- [name]
-- Ann
SELECT * FROM c JOIN o USING (id) ORDER BY id;
-- [id, name, c, total, at]
-- 1 | Ann | 1 | 10.50 | 2026-01-01
-- 2 | bob | 1 | 20.00 | 2026-01-02
-- 3 | NULL | 2 | 5.00 | 2026-02-01
SELECT DISTINCT c FROM o WHERE c IN (1, 2) ORDER BY c LIMIT 1, 1;
-- [c]
-- 2
SELECT id FROM c UNION SELECT c FROM o ORDER BY id;
-- [id]
-- 1
-- 2
-- 3
-- 9
SELECT id FROM c INTERSECT SELECT c FROM o ORDER BY id;
-- [id]
-- 1
-- 2
SELECT x.k, x.n FROM (SELECT c AS k, COUNT(*) AS n FROM o GROUP BY c) x WHERE x.n > 1;
-- [k, n]
-- 1 | 2
WITH big AS (SELECT * FROM o WHERE total >= 10) SELECT COUNT(*), MIN(id), MAX(at), GROUP_CONCAT(id ORDER BY id DESC SEPARATOR '-') FROM big;
-- [COUNT(*), MIN(id), MAX(at), GROUP_CONCAT(id ORDER BY id DESC SEPARATOR '-')]
-- 2 | 1 | 2026-01-02 | 2-1
SELECT c, SUM(total) s FROM o GROUP BY c HAVING s > 5 ORDER BY s;
-- [c, s]
-- 1 | 30.50
SELECT name FROM c WHERE name = 'BOB' OR name LIKE 'a%' ORDER BY name;
-- [name]
-- Ann
-- bob
SELECT COUNT(*) FROM c WHERE name IS NULL;
-- [COUNT(*)]
-- 1
SELECT CASE WHEN id = 1 THEN 'one' ELSE 'more' END AS w, IF(id > 2, 'x', 'y'), COALESCE(name, '?') FROM c ORDER BY id;
-- [w, IF(id > 2, 'x', 'y'), COALESCE(name, '?')]
-- one | y | Ann
-- more | y | bob
-- more | x | ?
# Values.
SELECT 1 + 1, 7 / 2, 7 DIV 2, 7 MOD 3, -7 % 3, 1 / 0, 'a' || 'b', 2 * '3x', NOT NULL;
-- [1 + 1, 7 / 2, 7 DIV 2, 7 MOD 3, -7 % 3, 1 / 0, 'a' || 'b', 2 * '3x', NOT NULL]
-- 2 | 3.5000 | 3 | 1 | -1 | NULL | 0 | 6 | NULL
SELECT !0;
-- [!0]
-- 1
SELECT CONCAT('a', 1, NULL), SUBSTRING('hello', 2, 3), UPPER('ß'), LENGTH('ß'), HEX('az'), LPAD('7', 3, '0');
-- [CONCAT('a', 1, NULL), SUBSTRING('hello', 2, 3), UPPER('ß'), LENGTH('ß'), HEX('az'), LPAD('7', 3, '0')]
-- NULL | ell | ß | 2 | 617A | 007
SELECT DATE_ADD('2024-01-31', INTERVAL 1 MONTH), DATEDIFF('2026-03-01', '2026-02-01'), DATE_FORMAT('2026-11-21', '%W %d %b %Y');
-- [DATE_ADD('2024-01-31', INTERVAL 1 MONTH), DATEDIFF('2026-03-01', '2026-02-01'), DATE_FORMAT('2026-11-21', '%W %d %b %Y')]
-- 2024-02-29 | 28 | Saturday 21 Nov 2026
SELECT ROUND(2.5), ROUND(-1.005, 2), CEIL(1.2), FLOOR(-1.2), GREATEST(1, 3, 2), CAST('12abc' AS SIGNED), CAST(1.5 AS CHAR);
-- [ROUND(2.5), ROUND(-1.005, 2), CEIL(1.2), FLOOR(-1.2), GREATEST(1, 3, 2), CAST('12abc' AS SIGNED), CAST(1.5 AS CHAR)]
-- 3 | -1.01 | 2 | -2 | 3 | 12 | 1.5
SELECT 9223372036854775807 + 1;
-- ERROR 1690 (22003): BIGINT value is out of range in '(9223372036854775807 + 1)'
SELECT nothing FROM c;
-- ERROR 1054 (42S22): Unknown column 'nothing' in 'field list'
SELECT id FROM c JOIN o ON c.id = o.c;
-- ERROR 1052 (23000): Column 'id' in field list is ambiguous
SELECT * FROM missing;
-- ERROR 1146 (42S02): Table 'test.missing' doesn't exist
SELEC 1;
-- ERROR 1064 (42000): You have an error in your SQL syntax: sql parser error: Expected: an SQL statement, found: SELEC
EXPLAIN SELECT * FROM o WHERE c = 1 AND total > 5 ORDER BY total;
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | SIMPLE | o | NULL | range | by_c | by_c | NULL | NULL | NULL | NULL | Using where
