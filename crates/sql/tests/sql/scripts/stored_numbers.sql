# A double goes into a short text with as many digits as fit, and with an exponent where that keeps more of them.
CREATE TABLE short (id INT AUTO_INCREMENT PRIMARY KEY, n DOUBLE, c1 CHAR(1), c2 CHAR(2), c4 CHAR(4), v5 VARCHAR(5), v8 VARCHAR(8), b6 VARBINARY(6), f5 BINARY(5), t TEXT);
-- ok, 0 rows
INSERT INTO short (n) VALUES (0), (1), (-1), (0.1), (0.5), (-0.5), (123.456789e0), (-123.456789e0), (0.0001234567e0), (1.23456789e-10), (-9e-3), (1.87e-3), (123456789e0), (-1.5e300), (1234567890123456.5e0), (1e15), (99.996e0), (0.00999e0);
-- ok, 18 rows, id 1
UPDATE IGNORE short SET c1 = n, c2 = n, c4 = n, v5 = n, v8 = n, b6 = n, f5 = n, t = n;
-- ok, 18 rows, 38 warnings
SELECT id, n, c1, c2, c4, v5, v8, b6, HEX(f5), t FROM short ORDER BY id;
-- [id, n, c1, c2, c4, v5, v8, b6, HEX(f5), t]
-- 1 | 0 | 0 | 0 | 0 | 0 | 0 | 0 | 3000000000 | 0
-- 2 | 1 | 1 | 1 | 1 | 1 | 1 | 1 | 3100000000 | 1
-- 3 | -1 | - | -1 | -1 | -1 | -1 | -1 | 2D31000000 | -1
-- 4 | 0.1 | 0 | 0 | 0.1 | 0.1 | 0.1 | 0.1 | 302E310000 | 0.1
-- 5 | 0.5 | 0 | 0 | 0.5 | 0.5 | 0.5 | 0.5 | 302E350000 | 0.5
-- 6 | -0.5 | 0 | 0 | -0.5 | -0.5 | -0.5 | -0.5 | 2D302E3500 | -0.5
-- 7 | 123.456789 | 1 | 1e | 123 | 123.5 | 123.4568 | 123.46 | 3132332E35 | 123.456789
-- 8 | -123.456789 | - | -1 | -123 | -123 | -123.457 | -123.5 | 2D31323300 | -123.456789
-- 9 | 0.0001234567 | 1 | 1e | 1e-4 | 1e-4 | 1.235e-4 | 1.2e-4 | 31652D3400 | 0.0001234567
-- 10 | 0.000000000123456789 | 1 | 1e | 1e-1 | 1e-10 | 1.23e-10 | 1e-10 | 31652D3130 | 0.000000000123456789
-- 11 | -0.009 | 0 | 0 | 0 | -9e-3 | -0.009 | -0.009 | 2D39652D33 | -0.009
-- 12 | 0.00187 | 0 | 0 | 2e-3 | 0.002 | 0.00187 | 0.0019 | 302E303032 | 0.00187
-- 13 | 123456789 | 1 | 1e | 1e8 | 1.2e8 | 1.2346e8 | 1.23e8 | 312E326538 | 123456789
-- 14 | -1.5e300 | - | -2 | -2e3 | -2e30 | -1.5e300 | -2e300 | 2D32653330 | -1.5e300
-- 15 | 1234567890123456.5 | 1 | 1e | 1e15 | 1e15 | 1.235e15 | 1.2e15 | 3165313500 | 1234567890123456.5
-- 16 | 1e15 | 1 | 1e | 1e15 | 1e15 | 1e15 | 1e15 | 3165313500 | 1e15
-- 17 | 99.996 | 1 | 1e | 100 | 100 | 99.996 | 99.996 | 3130300000 | 99.996
-- 18 | 0.00999 | 0 | 0 | 1e-2 | 0.01 | 0.00999 | 0.01 | 302E303100 | 0.00999
SHOW WARNINGS;
-- [Level, Code, Message]
# What does not fit with one digit is too long.
INSERT INTO short (v5) VALUES (1234567e0);
-- ok, 1 rows, id 19
INSERT INTO short (v5) VALUES (123456.5e0);
-- ok, 1 rows, id 20
INSERT INTO short (c4) VALUES (-123456e0);
-- ERROR 1406 (22001): Data too long for column 'c4' at row 1
INSERT INTO short (c2) VALUES (0.25e0);
-- ok, 1 rows, id 21
INSERT INTO short (c1) VALUES (1.5e0);
-- ok, 1 rows, id 22
INSERT INTO short (c2) VALUES (1.5e0), (SQRT(2)), (2e0 / 3);
-- ok, 3 rows, id 23
UPDATE short SET c4 = PI() WHERE id = 1;
-- ok, 1 rows
UPDATE short SET v5 = n ORDER BY id DESC LIMIT 1;
-- ok, 0 rows
INSERT INTO short (v5) SELECT n FROM short WHERE id = 7;
-- ok, 1 rows, id 26
INSERT INTO short (id, v5) VALUES (1, 0) ON DUPLICATE KEY UPDATE v5 = EXP(1);
-- ok, 2 rows, id 1
SET @d = 2.718281828459045e0;
-- ok, 0 rows
PREPARE put FROM 'INSERT INTO short (v5, b6) VALUES (?, ?)';
-- ok, 0 rows
EXECUTE put USING @d, @d;
-- ok, 1 rows, id 27
SELECT id, c1, c2, c4, v5, b6 FROM short WHERE id = 1 OR id > 17;
-- [id, c1, c2, c4, v5, b6]
-- 1 | 0 | 0 | 3.14 | 2.718 | 0
-- 18 | 0 | 0 | 1e-2 | 0.01 | 0.01
-- 19 | NULL | NULL | NULL | 1.2e6 | NULL
-- 20 | NULL | NULL | NULL | 1.2e5 | NULL
-- 21 | NULL | 0 | NULL | NULL | NULL
-- 22 | 2 | NULL | NULL | NULL | NULL
-- 23 | NULL | 2 | NULL | NULL | NULL
-- 24 | NULL | 1 | NULL | NULL | NULL
-- 25 | NULL | 1 | NULL | NULL | NULL
-- 26 | NULL | NULL | NULL | 123.5 | NULL
-- 27 | NULL | NULL | NULL | 2.718 | 2.7183
# A default that is an expression, and the value that a text takes of a FLOAT.
CREATE TABLE made (id INT PRIMARY KEY, v VARCHAR(6) DEFAULT (SQRT(2)), f FLOAT, w VARCHAR(20), x TEXT);
-- ok, 0 rows
INSERT INTO made (id, f) VALUES (1, 0.1), (2, 1234.5);
-- ok, 2 rows
UPDATE made SET w = f, x = f;
-- ok, 2 rows
SELECT * FROM made;
-- [id, v, f, w, x]
-- 1 | 1.4142 | 0.1 | 0.10000000149011612 | 0.1
-- 2 | 1.4142 | 1234.5 | 1234.5 | 1234.5
# Decimals and whole numbers are not shortened, and CAST cuts their text off.
INSERT INTO short (v5) VALUES (123.456);
-- ERROR 1406 (22001): Data too long for column 'v5' at row 1
INSERT INTO short (v5) VALUES (123456);
-- ERROR 1406 (22001): Data too long for column 'v5' at row 1
SELECT CAST(123.456e0 AS CHAR(5)), CAST(123.456 AS CHAR(5)), CAST(0.0001234567e0 AS BINARY(5)), CONCAT(1234567890123456.5e0);
-- [CAST(123.456e0 AS CHAR(5)), CAST(123.456 AS CHAR(5)), CAST(0.0001234567e0 AS BINARY(5)), CONCAT(1234567890123456.5e0)]
-- 123.4 | 123.4 | 0.000 | 1234567890123456.5
# A change of the column's type takes the whole text.
CREATE TABLE changed (id INT PRIMARY KEY, d DOUBLE, n INT, e ENUM('a', 'b'), y YEAR, t TIME(3), u DATETIME(3), b BIT(7), p DECIMAL(5,1));
-- ok, 0 rows
INSERT INTO changed VALUES (1, 1234.5678, 2, 'b', 2024, '10:11:12.345', '2024-02-29 10:11:12.345', 67, 2.0);
-- ok, 1 rows
ALTER TABLE changed MODIFY d VARCHAR(5);
-- ERROR 1406 (22001): Data too long for column 'd' at row 1
ALTER TABLE changed MODIFY d VARCHAR(9), MODIFY n ENUM('x', 'y', 'z'), MODIFY e INT, MODIFY y CHAR(4), MODIFY t VARCHAR(20), MODIFY u CHAR(25), MODIFY b VARCHAR(3);
-- ok, 0 rows
SELECT * FROM changed;
-- [id, d, n, e, y, t, u, b, p]
-- 1 | 1234.5678 | y | 2 | 2024 | 10:11:12.345 | 2024-02-29 10:11:12.345 | 67 | 2.0
ALTER TABLE changed MODIFY p SET('x', 'y');
-- ERROR 1265 (01000): Data truncated for column 'p' at row 1
# The members of an ENUM or a SET that a number stands for are those of its whole part.
CREATE TABLE members (id INT AUTO_INCREMENT PRIMARY KEY, e ENUM('a', 'b', 'c'), s SET('x', 'y', 'z'));
-- ok, 0 rows
INSERT INTO members (e, s) VALUES (1.9e0, 2.9e0), (2.5, 6.5), (3, 7), (SQRT(2), POW(2, 2)), (1.999999, 0.9);
-- ok, 5 rows, id 1
INSERT INTO members (e) VALUES (0.9e0);
-- ERROR 1265 (01000): Data truncated for column 'e' at row 1
INSERT INTO members (e) VALUES (4e0);
-- ERROR 1265 (01000): Data truncated for column 'e' at row 1
INSERT INTO members (s) VALUES (8e0);
-- ERROR 1265 (01000): Data truncated for column 's' at row 1
INSERT INTO members (s) VALUES (-1e0);
-- ERROR 1265 (01000): Data truncated for column 's' at row 1
INSERT IGNORE INTO members (e, s) VALUES (-1.5e0, -1.5e0), (1e300, 1e300), (0, 9.5), (99, 99);
-- ok, 4 rows, id 6, 8 warnings
SHOW WARNINGS;
-- [Level, Code, Message]
-- Warning | 1265 | Data truncated for column 'e' at row 1
-- Warning | 1265 | Data truncated for column 's' at row 1
-- Warning | 1265 | Data truncated for column 'e' at row 2
-- Warning | 1265 | Data truncated for column 's' at row 2
-- Warning | 1265 | Data truncated for column 'e' at row 3
-- Warning | 1265 | Data truncated for column 's' at row 3
-- Warning | 1265 | Data truncated for column 'e' at row 4
-- Warning | 1265 | Data truncated for column 's' at row 4
CREATE TABLE numbers (id INT PRIMARY KEY, d DOUBLE, f FLOAT, p DECIMAL(5,2), n INT, y YEAR, b BIT(3));
-- ok, 0 rows
INSERT INTO numbers VALUES (1, 1.75, 2.75, 2.75, 3, 2001, 2), (2, 3.99, 1.5, 1.99, 1, 2001, 1);
-- ok, 2 rows
INSERT INTO members (e, s) SELECT d, d FROM numbers UNION ALL SELECT f, f FROM numbers UNION ALL SELECT p, p FROM numbers UNION ALL SELECT n, n FROM numbers UNION ALL SELECT b, b FROM numbers;
-- ok, 10 rows, id 10
INSERT INTO members (e, s) SELECT d, f FROM numbers;
-- ok, 2 rows, id 20
INSERT INTO members (e, s) SELECT p, p FROM numbers;
-- ok, 2 rows, id 22
UPDATE members JOIN numbers ON numbers.id = 2 SET e = d, s = p WHERE members.id = 1;
-- ok, 1 rows
SELECT id, e, e + 0, s, s + 0 FROM members ORDER BY id;
-- [id, e, e + 0, s, s + 0]
-- 1 | c | 3 | x | 1
-- 2 | b | 2 | y,z | 6
-- 3 | c | 3 | x,y,z | 7
-- 4 | a | 1 | z | 4
-- 5 | a | 1 |  | 0
-- 6 |  | 0 | x,y,z | 7
-- 7 |  | 0 |  | 0
-- 8 |  | 0 | x | 1
-- 9 |  | 0 | x,y | 3
-- 10 | a | 1 | x | 1
-- 11 | c | 3 | x,y | 3
-- 12 | b | 2 | y | 2
-- 13 | a | 1 | x | 1
-- 14 | b | 2 | y | 2
-- 15 | a | 1 | x | 1
-- 16 | c | 3 | x,y | 3
-- 17 | a | 1 | x | 1
-- 18 | b | 2 | y | 2
-- 19 | a | 1 | x | 1
-- 20 | a | 1 | y | 2
-- 21 | c | 3 | x | 1
-- 22 | b | 2 | y | 2
-- 23 | a | 1 | x | 1
# A text is a member's name, or its number; the empty name between two commas is no member.
INSERT INTO members (e) VALUES ('1.5');
-- ERROR 1265 (01000): Data truncated for column 'e' at row 1
INSERT INTO members (s) VALUES ('1.5');
-- ERROR 1265 (01000): Data truncated for column 's' at row 1
INSERT INTO members (s) VALUES ('x,');
-- ERROR 1265 (01000): Data truncated for column 's' at row 1
INSERT INTO members (s) VALUES (',x');
-- ERROR 1265 (01000): Data truncated for column 's' at row 1
INSERT INTO members (s) VALUES ('x,,y');
-- ERROR 1265 (01000): Data truncated for column 's' at row 1
INSERT INTO members (e, s) VALUES ('2', '5'), ('c  ', 'z,x  ');
-- ok, 2 rows, id 24
SELECT e, s FROM members ORDER BY id DESC LIMIT 2;
-- [e, s]
-- c | x,z
-- b | x,z
# A year takes the whole part of a double.
INSERT INTO numbers (id, y) VALUES (3, 2001.9e0), (4, 99.9e0), (5, 0.5e0);
-- ok, 3 rows
SELECT id, y FROM numbers WHERE id > 2;
-- [id, y]
-- 3 | 2001
-- 4 | 1999
-- 5 | 0
