# Shapes of bug reports about servers that speak this dialect.
CREATE TABLE r (id INT PRIMARY KEY, a INT, b INT);
-- ok, 0 rows
INSERT INTO r VALUES (1, 10, 100), (2, 20, NULL);
-- ok, 2 rows
# A row with = ANY and <> ALL is IN and NOT IN; no other quantifier takes a row.
SELECT id FROM r WHERE (id, a) = ANY (SELECT 1, 10 UNION SELECT 2, 3) ORDER BY id;
-- [id]
-- 1
SELECT id FROM r WHERE (a, b) <> ALL (SELECT 20, NULL) ORDER BY id;
-- [id]
-- 1
SELECT id FROM r WHERE (id, a) < ANY (SELECT 1, 10);
-- ERROR 1241 (21000): Operand should contain 1 column(s)
SELECT id FROM r WHERE (id, a) = ANY (SELECT 1);
-- ERROR 1241 (21000): Operand should contain 2 column(s)
# GROUP_CONCAT sorts by the argument whose number it is given.
SELECT GROUP_CONCAT(DISTINCT a, b ORDER BY 2 DESC, 1), GROUP_CONCAT(id ORDER BY 1 DESC) FROM r;
-- [GROUP_CONCAT(DISTINCT a, b ORDER BY 2 DESC, 1), GROUP_CONCAT(id ORDER BY 1 DESC)]
-- 10100 | 2,1
SELECT GROUP_CONCAT(id ORDER BY 2) FROM r;
-- ERROR 1054 (42S22): Unknown column '2' in 'order clause'
# Columns of a derived table have names of their own.
SELECT * FROM (SELECT id, a AS ID FROM r) d;
-- ERROR 1060 (42S21): Duplicate column name 'ID'
WITH c AS (SELECT id, id FROM r) SELECT 1 FROM c;
-- ERROR 1060 (42S21): Duplicate column name 'id'
SELECT * FROM (SELECT 1 AS x, 2 AS y UNION SELECT 3, 3) d;
-- [x, y]
-- 1 | 2
-- 3 | 3
# A day and a time are no date, so ADDTIME adds the day.
SELECT ADDTIME('12:00:00', '1 01:02:03.000004'), SUBTIME('2024-02-29 12:00:00', '1 12:00:00'), CAST('1 01:02:03' AS TIME), CAST('2024 02-29' AS DATETIME);
-- [ADDTIME('12:00:00', '1 01:02:03.000004'), SUBTIME('2024-02-29 12:00:00', '1 12:00:00'), CAST('1 01:02:03' AS TIME), CAST('2024 02-29' AS DATETIME)]
-- 37:02:03.000004 | 2024-02-28 00:00:00 | 25:02:03 | NULL
# JSON is written with spaces; a value that is no array is its own first cell.
SELECT JSON_EXTRACT('[1,{"bb":1,"a":[2,"x"]}]', '$'), JSON_EXTRACT('1.5', '$[0]'), JSON_EXTRACT('{"a":{"b c":[7]}}', '$.a."b c"[0]'), JSON_EXTRACT('[1]', '$[1]');
-- [JSON_EXTRACT('[1,{"bb":1,"a":[2,"x"]}]', '$'), JSON_EXTRACT('1.5', '$[0]'), JSON_EXTRACT('{"a":{"b c":[7]}}', '$.a."b c"[0]'), JSON_EXTRACT('[1]', '$[1]')]
-- [1, {"a": [2, "x"], "bb": 1}] | 1.5 | 7 | NULL
SELECT JSON_EXTRACT('[1]', '$.');
-- ERROR 3143 (42000): Invalid JSON path expression. The error is around character position 2.
# Letters of SOUNDEX are all signs behind Latin-1's, and only ASCII has a capital form.
SELECT SOUNDEX('éx'), SOUNDEX('🌊bc'), SOUNDEX('×b'), SOUNDEX('hello');
-- [SOUNDEX('éx'), SOUNDEX('🌊bc'), SOUNDEX('×b'), SOUNDEX('hello')]
-- é200 | 🌊120 | ×100 | H400
# Members of an ENUM or a SET differ where the column's collation holds them different.
CREATE TABLE e (id INT AUTO_INCREMENT PRIMARY KEY, e ENUM('a', 'A') COLLATE utf8mb4_bin, s SET('x', 'X') COLLATE utf8mb4_bin, g ENUM('b', 'c'), KEY (g));
-- ok, 0 rows
INSERT INTO e (e, s, g) VALUES ('A', 'X,x', 'B'), ('a', 'X', 'c');
-- ok, 2 rows, id 1
SELECT e + 0, s + 0, g FROM e ORDER BY id;
-- [e + 0, s + 0, g]
-- 2 | 3 | b
-- 1 | 2 | c
INSERT INTO e (e) VALUES ('B');
-- ERROR 1265 (01000): Data truncated for column 'e' at row 1
CREATE TABLE f (e ENUM('a', 'A'));
-- ERROR 1291 (HY000): Column 'e' has duplicated value 'A' in ENUM
# A text that is the number of a member is none of its names.
SELECT id FROM e WHERE g = '1';
-- [id]
SELECT id FROM e WHERE g = 'B' OR g = 'c' ORDER BY id;
-- [id]
-- 1
-- 2
SELECT id FROM e WHERE g = 1;
-- [id]
-- 1
# A BIT and a YEAR go into a short text as digits, into a TEXT and a BLOB as what they show.
CREATE TABLE b (id INT PRIMARY KEY, n BIT(8), y YEAR, c CHAR(4), v VARBINARY(4), t TEXT, l BLOB);
-- ok, 0 rows
INSERT INTO b (id, n, y) VALUES (1, 65, 0);
-- ok, 1 rows
UPDATE b SET c = n, v = n, t = n, l = n;
-- ok, 1 rows
SELECT c, v, t, l FROM b;
-- [c, v, t, l]
-- 65 | 65 | A | A
UPDATE b SET c = y, v = y, t = y;
-- ok, 1 rows
SELECT c, v, t FROM b;
-- [c, v, t]
-- 0 | 0 | 0000
# INSTR and LOCATE find a text where it has as many bytes.
SELECT INSTR('xé', 'e'), INSTR('xÉ', 'é'), LOCATE('É', 'naïve café'), INSTR('abCab', 'CA'), LOCATE('b', 'abCab', 3);
-- [INSTR('xé', 'e'), INSTR('xÉ', 'é'), LOCATE('É', 'naïve café'), INSTR('abCab', 'CA'), LOCATE('b', 'abCab', 3)]
-- 0 | 2 | 10 | 3 | 5
SELECT LOWER('İẞÅ'), UPPER('ıſß');
-- [LOWER('İẞÅ'), UPPER('ıſß')]
-- iẞå | ISß
# A set operation takes the binary one of two collations.
CREATE TABLE c (id INT PRIMARY KEY, g VARCHAR(9), x VARCHAR(9) COLLATE utf8mb4_bin, n BIT(4));
-- ok, 0 rows
INSERT INTO c VALUES (1, 'TEXT', 'b', 5), (2, 'a', 'C', 6);
-- ok, 2 rows
SELECT g FROM c UNION ALL SELECT x FROM c ORDER BY 1;
-- [g]
-- C
-- TEXT
-- a
-- b
# A number that is too long for a time is the longest one, or a date and a time.
CREATE TABLE h (id INT AUTO_INCREMENT PRIMARY KEY, t TIME(2));
-- ok, 0 rows
INSERT IGNORE INTO h (t) VALUES (18446744073709551615), (-9999999), (20240229123456), (20240229123456.789), (8385959), (8385960), (1260), (1e300), (-1e300), ('99999999');
-- ok, 10 rows, id 1, 7 warnings
SELECT * FROM h ORDER BY id;
-- [id, t]
-- 1 | 838:59:59
-- 2 | -838:59:59
-- 3 | 12:34:56
-- 4 | 12:34:56.790000
-- 5 | 838:59:59
-- 6 | 838:59:59
-- 7 | 00:00:00
-- 8 | 838:59:59
-- 9 | -838:59:59
-- 10 | 00:00:00
INSERT INTO h (t) VALUES (9999999);
-- ERROR 1292 (22007): Incorrect time value: '9999999' for column 't' at row 1
# The fraction of a number that is a date is left out.
SELECT CAST(228.00 AS DATE), CAST(20240229.75 AS DATE), CAST(20240229101112.50 AS DATETIME(2)), CAST(0.00 AS DATE);
-- [CAST(228.00 AS DATE), CAST(20240229.75 AS DATE), CAST(20240229101112.50 AS DATETIME(2)), CAST(0.00 AS DATE)]
-- 2000-02-28 | 2024-02-29 | 2024-02-29 10:11:12.500000 | 0000-00-00
