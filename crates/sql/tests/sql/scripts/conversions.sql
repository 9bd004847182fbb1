CREATE TABLE bits (id INT PRIMARY KEY, a BIT(1), b BIT(10));
-- ok, 0 rows
INSERT INTO bits VALUES (1, 0, 0), (2, 1, 513), (3, NULL, NULL), (4, 1, 1023);
-- ok, 4 rows
# BIT and hexadecimal literals are numbers to BIN, OCT and CONV, whatever the base.
SELECT id, BIN(a), BIN(b), OCT(b), CONV(b, 10, 16), CONV(b, 16, 10), CONV(b, 10, -2), HEX(b) FROM bits;
-- [id, BIN(a), BIN(b), OCT(b), CONV(b, 10, 16), CONV(b, 16, 10), CONV(b, 10, -2), HEX(b)]
-- 1 | 0 | 0 | 0 | 0 | 0 | 0 | 0
-- 2 | 1 | 1000000001 | 1001 | 201 | 513 | 1000000001 | 201
-- 3 | NULL | NULL | NULL | NULL | NULL | NULL | NULL
-- 4 | 1 | 1111111111 | 1777 | 3FF | 1023 | 1111111111 | 3FF
SELECT id FROM bits WHERE BIN(a);
-- [id]
-- 2
-- 4
SELECT MAX(id), BIN(MAX(b)) FROM bits;
-- [MAX(id), BIN(MAX(b))]
-- 4 | 1111111111
SELECT BIN(x'07'), OCT(0x3132), CONV(0x41, 16, 10), BIN('07'), BIN(_binary '12'), CONV(b, 10, 37), CONV('', 10, 2) FROM bits WHERE id = 2;
-- [BIN(X'07'), OCT(X'3132'), CONV(X'41', 16, 10), BIN('07'), BIN(_binary '12'), CONV(b, 10, 37), CONV('', 10, 2)]
-- 111 | 30462 | 65 | 111 | 1100 | NULL | NULL
# A BIT has no character set: beside text it makes bytes.
SELECT DISTINCT CHARSET(x) FROM (SELECT HEX('a') AS x UNION SELECT b FROM bits WHERE id = 2) u;
-- [CHARSET(x)]
-- binary
SELECT CHARSET(COALESCE(a, 'x')), CHARSET(IF(id > 1, b, 'x')), CHARSET(CASE id WHEN 1 THEN 'x' ELSE b END), COALESCE(a, 'x') = 'X', COALESCE(a, b, 7) FROM bits WHERE id < 3;
-- [CHARSET(COALESCE(a, 'x')), CHARSET(IF(id > 1, b, 'x')), CHARSET(CASE id WHEN 1 THEN 'x' ELSE b END), COALESCE(a, 'x') = 'X', COALESCE(a, b, 7)]
-- binary | binary | binary | 0 | 0
-- binary | binary | binary | 0 | 1
# A set operation fills a BINARY up to the longer side.
CREATE TABLE fixed (id INT PRIMARY KEY, a BINARY(4), b BINARY(6), c DECIMAL(5, 0), d DATE, e VARBINARY(3), f CHAR(2), g TINYINT, h ENUM('x', 'yz'));
-- ok, 0 rows
INSERT INTO fixed VALUES (1, 'a', 'b', -2, '2024-02-29', 'e', 'f', 7, 'yz');
-- ok, 1 rows
SELECT HEX(x) FROM (SELECT a AS x FROM fixed UNION SELECT b FROM fixed) u ORDER BY 1;
-- [HEX(x)]
-- 610000000000
-- 620000000000
SELECT HEX(x) FROM (SELECT c AS x FROM fixed UNION SELECT a FROM fixed) u ORDER BY 1;
-- [HEX(x)]
-- 2D3200000000
-- 610000000000
SELECT HEX(x) FROM (SELECT a AS x FROM fixed UNION ALL SELECT d FROM fixed) u ORDER BY 1;
-- [HEX(x)]
-- 323032342D30322D3239
-- 61000000000000000000
SELECT HEX(x) FROM (SELECT a AS x FROM fixed UNION SELECT g FROM fixed) u ORDER BY 1;
-- [HEX(x)]
-- 37000000
-- 61000000
SELECT HEX(x) FROM (SELECT a AS x FROM fixed UNION SELECT f FROM fixed) u ORDER BY 1;
-- [HEX(x)]
-- 6100000000000000
-- 6600000000000000
SELECT HEX(x) FROM (SELECT a AS x FROM fixed UNION SELECT h FROM fixed) u ORDER BY 1;
-- [HEX(x)]
-- 6100000000000000
-- 797A000000000000
SELECT HEX(x) FROM (SELECT a AS x FROM fixed UNION SELECT 123456 UNION SELECT NULL) u ORDER BY 1;
-- [HEX(x)]
-- NULL
-- 313233343536
-- 610000000000
SELECT HEX(x) FROM (SELECT a AS x FROM fixed UNION SELECT e FROM fixed) u ORDER BY 1;
-- [HEX(x)]
-- 61000000
-- 65
SELECT HEX(x) FROM (SELECT a AS x FROM fixed UNION SELECT x'616263646566') u ORDER BY 1;
-- [HEX(x)]
-- 61000000
-- 616263646566
SELECT HEX(x) FROM (SELECT CAST('a' AS BINARY(2)) AS x UNION SELECT b FROM fixed) u ORDER BY 1;
-- [HEX(x)]
-- 6100
-- 620000000000
SELECT HEX(COALESCE(NULL, a, b)), HEX(IF(1, a, b)), HEX(CASE WHEN 1 THEN a ELSE c END), HEX(CAST('a' AS BINARY(2))) FROM fixed;
-- [HEX(COALESCE(NULL, a, b)), HEX(IF(1, a, b)), HEX(CASE WHEN 1 THEN a ELSE c END), HEX(CAST('a' AS BINARY(2)))]
-- 61000000 | 61000000 | 61000000 | 6100
# LOG does not evaluate the number for a wrong base.
SELECT LOG(-0.05, COT(0)), LOG(0, COT(0)), LOG(NULL, COT(0));
-- [LOG(-0.05, COT(0)), LOG(0, COT(0)), LOG(NULL, COT(0))]
-- NULL | NULL | NULL
SHOW WARNINGS;
-- [Level, Code, Message]
-- Warning | 3020 | Invalid argument for logarithm
-- Warning | 3020 | Invalid argument for logarithm
SELECT LOG(1, 2), LOG(2, 0), LOG(2, NULL), LOG(2, 8), LOG('2x', 8);
-- [LOG(1, 2), LOG(2, 0), LOG(2, NULL), LOG(2, 8), LOG('2x', 8)]
-- NULL | NULL | NULL | 3 | 3
SHOW WARNINGS;
-- [Level, Code, Message]
-- Warning | 3020 | Invalid argument for logarithm
-- Warning | 3020 | Invalid argument for logarithm
-- Warning | 1292 | Truncated incorrect DOUBLE value: '2x'
SELECT LOG(1, COT(0));
-- ERROR 1690 (22003): DOUBLE value is out of range in 'cot(0)'
# A text that is no time as a whole is the time that it begins with.
CREATE TABLE times (id INT AUTO_INCREMENT PRIMARY KEY, t TIME(3));
-- ok, 0 rows
INSERT INTO times (t) VALUES ('2024-12-31');
-- ERROR 1292 (22007): Incorrect time value: '2024-12-31' for column 't' at row 1
INSERT IGNORE INTO times (t) VALUES ('2024-12-31'), ('2024-12'), ('12-31'), ('1-2-3'), ('20:24-12'), ('20:24:12-1'), ('20:24:'), ('1 2'), ('1 2:3'), ('-2 3:4:5.6789'), ('1 x'), ('x'), (''), ('12:60'), ('1260'), ('10:20:30.'), ('10:20:30.5x'), ('900:00:00'), ('-900:00'), ('99999999999'), ('2024-12-31 10:11:12'), ('20241231101112'), ('1:2:3:4');
-- ok, 23 rows, id 1, 18 warnings
SHOW WARNINGS;
-- [Level, Code, Message]
-- Warning | 1292 | Incorrect time value: '2024-12-31' for column 't' at row 1
-- Warning | 1292 | Incorrect time value: '2024-12' for column 't' at row 2
-- Warning | 1292 | Incorrect time value: '12-31' for column 't' at row 3
-- Warning | 1292 | Incorrect time value: '1-2-3' for column 't' at row 4
-- Warning | 1292 | Incorrect time value: '20:24-12' for column 't' at row 5
-- Warning | 1292 | Incorrect time value: '20:24:12-1' for column 't' at row 6
-- Warning | 1292 | Incorrect time value: '20:24:' for column 't' at row 7
-- Warning | 1292 | Incorrect time value: '1 2' for column 't' at row 8
-- Warning | 1292 | Incorrect time value: '1 x' for column 't' at row 11
-- Warning | 1292 | Incorrect time value: 'x' for column 't' at row 12
-- Warning | 1292 | Incorrect time value: '' for column 't' at row 13
-- Warning | 1292 | Incorrect time value: '12:60' for column 't' at row 14
-- Warning | 1292 | Incorrect time value: '1260' for column 't' at row 15
-- Warning | 1292 | Incorrect time value: '10:20:30.5x' for column 't' at row 17
-- Warning | 1292 | Incorrect time value: '900:00:00' for column 't' at row 18
-- Warning | 1292 | Incorrect time value: '-900:00' for column 't' at row 19
-- Warning | 1292 | Incorrect time value: '99999999999' for column 't' at row 20
-- Warning | 1292 | Incorrect time value: '1:2:3:4' for column 't' at row 23
SELECT * FROM times;
-- [id, t]
-- 1 | 00:20:24
-- 2 | 00:20:24
-- 3 | 00:00:12
-- 4 | 00:00:01
-- 5 | 20:24:00
-- 6 | 20:24:12
-- 7 | 20:24:00
-- 8 | 00:00:01
-- 9 | 26:03:00
-- 10 | -51:04:05.679000
-- 11 | 00:00:01
-- 12 | 00:00:00
-- 13 | 00:00:00
-- 14 | 00:00:00
-- 15 | 00:00:00
-- 16 | 10:20:30
-- 17 | 10:20:30.500000
-- 18 | 838:59:59
-- 19 | -838:59:59
-- 20 | 00:00:00
-- 21 | 10:11:12
-- 22 | 10:11:12
-- 23 | 01:02:03
SELECT CAST('2024-12-31' AS TIME), TIME('2024-12-31'), CAST('12-31' AS TIME), CAST('20:24-12' AS TIME), HOUR('2024-12-31'), CAST('1 2' AS TIME), CAST('x' AS TIME), CAST('' AS TIME);
-- [CAST('2024-12-31' AS TIME), TIME('2024-12-31'), CAST('12-31' AS TIME), CAST('20:24-12' AS TIME), HOUR('2024-12-31'), CAST('1 2' AS TIME), CAST('x' AS TIME), CAST('' AS TIME)]
-- 00:20:24 | 00:20:24 | 00:00:12 | 20:24:00 | 0 | 00:00:01 | NULL | NULL
# The text that DATE_ADD and its like make of a text is a number as its date is.
SELECT CAST(DATE_ADD('2024-12-31', INTERVAL -1 MICROSECOND) AS DOUBLE), CAST(DATE_ADD('2024-12-31', INTERVAL -1 MICROSECOND) AS DECIMAL(20, 6)), CAST(DATE_ADD('2024-12-31', INTERVAL 1 DAY) AS SIGNED);
-- [CAST(DATE_ADD('2024-12-31', INTERVAL -1 MICROSECOND) AS DOUBLE), CAST(DATE_ADD('2024-12-31', INTERVAL -1 MICROSECOND) AS DECIMAL(20, 6)), CAST(DATE_ADD('2024-12-31', INTERVAL 1 DAY) AS SIGNED)]
-- 20241230235960 | 20241230235959.999999 | 2025
SHOW WARNINGS;
-- [Level, Code, Message]
-- Warning | 1292 | Truncated incorrect INTEGER value: '2025-01-01'
SELECT DATE_ADD('2024-12-31', INTERVAL 1 DAY) + 0, -DATE_SUB('2024-12-31 10:11:12', INTERVAL 1 SECOND), DATE_ADD('2024-12-31', INTERVAL 1 DAY) > 20250100, ADDTIME('01:00:00', '00:30:00') * 1, SUBTIME('2024-12-31 10:00:00', '1:0:0') | 0, FLOOR(ADDTIME('-01:00:00', '00:30:00'));
-- [DATE_ADD('2024-12-31', INTERVAL 1 DAY) + 0, -DATE_SUB('2024-12-31 10:11:12', INTERVAL 1 SECOND), DATE_ADD('2024-12-31', INTERVAL 1 DAY) > 20250100, ADDTIME('01:00:00', '00:30:00') * 1, SUBTIME('2024-12-31 10:00:00', '1:0:0') | 0, FLOOR(ADDTIME('-01:00:00', '00:30:00'))]
-- 20250101 | -20241231101111 | 1 | 13000 | 20241231090000 | -3000
SELECT SUM('2024-12-31' + INTERVAL 1 DAY), MAX('2024-12-31' + INTERVAL 1 DAY), CONCAT('2024-12-31' + INTERVAL 1 DAY), DATE_ADD('x', INTERVAL 1 DAY) + 0, ADDTIME(DATE'2024-02-29', '01:00:00') + 0;
-- [SUM('2024-12-31' + INTERVAL 1 DAY), MAX('2024-12-31' + INTERVAL 1 DAY), CONCAT('2024-12-31' + INTERVAL 1 DAY), DATE_ADD('x', INTERVAL 1 DAY) + 0, ADDTIME(DATE'2024-02-29', '01:00:00') + 0]
-- 20250101 | 2025-01-01 | 2025-01-01 | NULL | 20240229010000
SELECT id FROM bits WHERE DATE_ADD('2024-12-31', INTERVAL id DAY) = 20250102;
-- [id]
-- 2
SELECT id FROM bits ORDER BY ADDTIME(IF(id = 2, '10:00:00', '9:00:00'), '00:00:01'), id DESC;
-- [id]
-- 4
-- 3
-- 1
-- 2
CREATE TABLE numbers (n BIGINT);
-- ok, 0 rows
INSERT IGNORE INTO numbers VALUES (DATE_ADD('2024-12-31', INTERVAL 1 DAY));
-- ok, 1 rows, 1 warnings
SELECT * FROM numbers;
-- [n]
-- 2025
# The number of a row that is not inserted is the next row's.
CREATE TABLE counted (id INT AUTO_INCREMENT PRIMARY KEY, u INT UNIQUE);
-- ok, 0 rows
INSERT INTO counted (u) VALUES (1), (2);
-- ok, 2 rows, id 1
INSERT IGNORE INTO counted (u) VALUES (1), (2), (3), (1), (4);
-- ok, 2 rows, id 3, 3 warnings
INSERT IGNORE INTO counted (u) SELECT id FROM bits UNION ALL SELECT 5;
-- ok, 1 rows, id 5, 4 warnings
INSERT IGNORE INTO counted (id, u) VALUES (NULL, 1), (50, 6), (NULL, 7), (NULL, 1), (40, 8), (NULL, 9);
-- ok, 4 rows, id 51, 2 warnings
INSERT INTO counted (u) VALUES (1), (10) ON DUPLICATE KEY UPDATE u = u;
-- ok, 1 rows, id 53
SELECT LAST_INSERT_ID();
-- [LAST_INSERT_ID()]
-- 53
SELECT * FROM counted ORDER BY u;
-- [id, u]
-- 1 | 1
-- 2 | 2
-- 3 | 3
-- 4 | 4
-- 5 | 5
-- 50 | 6
-- 51 | 7
-- 40 | 8
-- 52 | 9
-- 53 | 10
# A literal of bytes beside a column's text is text, and is compared by the column's collation; bytes of columns and casts are compared as bytes.
CREATE TABLE words (id INT PRIMARY KEY, t VARCHAR(20), b VARBINARY(10), e ENUM('x', 'A'), u VARCHAR(20) COLLATE utf8mb4_bin, n INT, KEY (t));
-- ok, 0 rows
INSERT INTO words VALUES (1, 'a', 'a', 'x', 'a', 1), (2, 'A', 'A', 'A', 'A', 65), (3, 'b', 'b', NULL, 'b', NULL);
-- ok, 3 rows
SELECT id FROM words WHERE t = x'41';
-- [id]
-- 1
-- 2
SELECT id FROM words WHERE t = _binary 'A' AND t BETWEEN x'41' AND x'42' AND LOWER(t) = x'41' AND t IN (x'41', 'c') AND t LIKE x'41';
-- [id]
-- 1
-- 2
SELECT id FROM words WHERE t = UNHEX('41') AND t = FROM_BASE64('QQ==') AND t = CHAR(65) AND t = REPEAT(x'41', 1) AND CASE t WHEN x'41' THEN 1 END;
-- [id]
-- 1
-- 2
SELECT id FROM words WHERE t = b OR t = CAST('B' AS BINARY);
-- [id]
-- 1
-- 2
-- 3
SELECT id FROM words WHERE t = CAST('A' AS BINARY);
-- [id]
-- 2
SELECT id FROM words WHERE u = x'41' OR e = x'61' AND t COLLATE utf8mb4_bin = x'41';
-- [id]
-- 2
SELECT id FROM words WHERE t = b AND b = 'A';
-- [id]
-- 2
SELECT id FROM words WHERE (t, n) IN ((x'41', 1), ('B', 2)) OR t IN (SELECT x'42') ORDER BY id;
-- [id]
-- 1
-- 3
SELECT id FROM words WHERE x'41' IN (SELECT t FROM words) AND n = x'41';
-- [id]
-- 2
SELECT id, LOCATE(x'41', t), FIND_IN_SET(x'41', t), STRCMP(t, x'41'), FIELD(x'41', t), NULLIF(t, x'41'), CHARSET(NULLIF(x'43', t)) FROM words;
-- [id, LOCATE(X'41', t), FIND_IN_SET(X'41', t), STRCMP(t, X'41'), FIELD(X'41', t), NULLIF(t, X'41'), CHARSET(NULLIF(X'43', t))]
-- 1 | 1 | 1 | 0 | 1 | NULL | binary
-- 2 | 1 | 1 | 0 | 1 | NULL | binary
-- 3 | 0 | 0 | 1 | 0 | b | binary
SELECT CHARSET(CONCAT(t, x'41')), CHARSET(CONCAT(t, b)), CHARSET(CONCAT('a', x'41')), CHARSET(COALESCE(t, x'41')), CHARSET(IF(id, x'41', t)), CHARSET(REPLACE(t, x'41', 'b')), CHARSET(CONCAT(t, n, UNHEX('41'))), CHARSET(GREATEST(t, x'41')), CHARSET(CASE id WHEN 1 THEN x'41' ELSE t END) FROM words WHERE id = 1;
-- [CHARSET(CONCAT(t, X'41')), CHARSET(CONCAT(t, b)), CHARSET(CONCAT('a', X'41')), CHARSET(COALESCE(t, X'41')), CHARSET(IF(id, X'41', t)), CHARSET(REPLACE(t, X'41', 'b')), CHARSET(CONCAT(t, n, UNHEX('41'))), CHARSET(GREATEST(t, X'41')), CHARSET(CASE id WHEN 1 THEN X'41' ELSE t END)]
-- utf8mb4 | binary | binary | utf8mb4 | utf8mb4 | utf8mb4 | utf8mb4 | utf8mb4 | utf8mb4
SELECT 'A' = x'61', CONVERT('a' USING utf8mb4) = x'41', CAST('a' AS CHAR) = x'41', CONVERT(_latin1 'abc' USING utf8mb4) NOT BETWEEN FROM_BASE64('') AND TO_BASE64('12'), 'abc' NOT BETWEEN FROM_BASE64('') AND TO_BASE64('12');
-- ['A' = X'61', CONVERT('a' USING utf8mb4) = X'41', CAST('a' AS CHAR) = X'41', CONVERT(_latin1 'abc' USING utf8mb4) NOT BETWEEN FROM_BASE64('') AND TO_BASE64('12'), 'abc' NOT BETWEEN FROM_BASE64('') AND TO_BASE64('12')]
-- 0 | 1 | 1 | 0 | 1
SELECT t FROM words UNION SELECT x'41' ORDER BY 1;
-- [t]
-- a
-- b
SELECT DISTINCT CHARSET(x) FROM (SELECT t AS x FROM words UNION SELECT b FROM words) u;
-- [CHARSET(x)]
-- binary
SELECT id FROM words WHERE t = x'ff';
-- ERROR 3854 (HY000): Cannot convert string '\xFF' from binary to utf8mb4
SELECT CONCAT(t, x'616263ff646566') FROM words;
-- ERROR 3854 (HY000): Cannot convert string 'abc\xFFde...' from binary to utf8mb4
SELECT CONCAT(t, UNHEX(IF(id = 9, 'ff', '42'))) FROM words;
-- [CONCAT(t, UNHEX(IF(id = 9, 'ff', '42')))]
-- aB
-- AB
-- bB
SELECT CONCAT(t, UNHEX(IF(id = 2, 'ff', '42'))) FROM words;
-- [CONCAT(t, UNHEX(IF(id = 2, 'ff', '42')))]
-- aB
-- ERROR 3854 (HY000): Cannot convert string '\xFF' from binary to utf8mb4
PREPARE s FROM 'SELECT id FROM words WHERE t = ? ORDER BY id';
-- ok, 0 rows
SET @b = x'41';
-- ok, 0 rows
EXECUTE s USING @b;
-- [id]
-- 1
-- 2
# TIMESTAMP adds the time of a date and time.
SELECT TIMESTAMP('2024-12-31', DATE'1999-12-31'), TIMESTAMP('2024-12-31', TIMESTAMP'1999-12-31 10:11:12'), TIMESTAMP('2024-12-31', '1:2:3'), TIMESTAMP('2024-12-31', '1999-12-31 10:11:12');
-- [TIMESTAMP('2024-12-31', DATE'1999-12-31'), TIMESTAMP('2024-12-31', TIMESTAMP'1999-12-31 10:11:12'), TIMESTAMP('2024-12-31', '1:2:3'), TIMESTAMP('2024-12-31', '1999-12-31 10:11:12')]
-- 2024-12-31 00:00:00 | 2024-12-31 10:11:12 | 2024-12-31 01:02:03 | NULL
SELECT INET_ATON('1..2'), INET_ATON('1.2.'), INET_ATON('.'), INET_ATON('');
-- [INET_ATON('1..2'), INET_ATON('1.2.'), INET_ATON('.'), INET_ATON('')]
-- 16777218 | NULL | NULL | NULL
# A row that fails before it has a number keeps none.
CREATE TABLE strict (id INT AUTO_INCREMENT PRIMARY KEY, u INT NOT NULL CHECK (u < 9));
-- ok, 0 rows
INSERT IGNORE INTO strict (u) VALUES (1), (10), (2), (11);
-- ok, 2 rows, id 1, 2 warnings
INSERT IGNORE INTO strict (u) SELECT n FROM words;
-- ok, 2 rows, id 3, 2 warnings
INSERT INTO strict (u) VALUES (3);
-- ok, 1 rows, id 5
SELECT * FROM strict ORDER BY id;
-- [id, u]
-- 1 | 1
-- 2 | 2
-- 3 | 1
-- 4 | 0
-- 5 | 3
# Functions of dates read such a text as the date or time that it is.
SELECT TIME(DATE_ADD('2024-12-31', INTERVAL -1 HOUR)), TIME(DATE_ADD('2024-12-31', INTERVAL 1 DAY)), MINUTE(DATE_ADD('2024-12-31', INTERVAL 1 DAY)), LAST_DAY(SUBTIME('2024-12-31', '01:00:00')) = LAST_DAY(TIMESTAMP(CURDATE(), '-0:39:36')), TIME_TO_SEC(ADDTIME('01:00:00', '00:00:01'));
-- [TIME(DATE_ADD('2024-12-31', INTERVAL -1 HOUR)), TIME(DATE_ADD('2024-12-31', INTERVAL 1 DAY)), MINUTE(DATE_ADD('2024-12-31', INTERVAL 1 DAY)), LAST_DAY(SUBTIME('2024-12-31', '01:00:00')) = LAST_DAY(TIMESTAMP(CURDATE(), '-0:39:36')), TIME_TO_SEC(ADDTIME('01:00:00', '00:00:01'))]
-- 23:00:00 | 00:00:00 | 0 | 1 | 3601
# DIV of unsigned numbers, HEX of decimals, LIKE of bytes, and FORMAT of doubles.
SELECT CAST(4294967295 AS UNSIGNED) DIV 1.5, HEX(-12345678901234567890.5), HEX(99999999999999999999), HEX(-1.5);
-- [CAST(4294967295 AS UNSIGNED) DIV 1.5, HEX(-12345678901234567890.5), HEX(99999999999999999999), HEX(-1.5)]
-- 2863311530 | FFFFFFFFFFFFFFFF | FFFFFFFFFFFFFFFF | FFFFFFFFFFFFFFFE
SELECT CAST(4294967295 AS UNSIGNED) DIV -1.5;
-- ERROR 1690 (22003): BIGINT UNSIGNED value is out of range in '(4294967295 DIV -1.5)'
SELECT 'é' LIKE _binary '_', _binary 'é' LIKE '__', x'ff' LIKE '_', _binary 'a_c' LIKE 'a\\_c', 'A' LIKE x'61', 'A' LIKE 'a';
-- ['é' LIKE _binary '_', _binary 'é' LIKE '__', X'ff' LIKE '_', _binary 'a_c' LIKE 'a\_c', 'A' LIKE X'61', 'A' LIKE 'a']
-- 0 | 1 | 1 | 1 | 0 | 1
SELECT FORMAT(1e22, 0), FORMAT(0.1e0, 25), FORMAT(1234.5678e0, 3), FORMAT(1e0, 2);
-- [FORMAT(1e22, 0), FORMAT(0.1e0, 25), FORMAT(1234.5678e0, 3), FORMAT(1e0, 2)]
-- 10,000,000,000,000,000,000,000 | 0.1000000000000000000000000 | 1,234.568 | 1.00
SELECT FIELD('2024-01-31', 'x', DATE'2024-01-31'), FIELD(1, '1x', 2), TIME'12:34:56' >= '2024-12-31', TIME'12:34:56' <> '2024-12-31';
-- [FIELD('2024-01-31', 'x', DATE'2024-01-31'), FIELD(1, '1x', 2), TIME'12:34:56' >= '2024-12-31', TIME'12:34:56' <> '2024-12-31']
-- 2 | 1 | 0 | 1
SHOW WARNINGS;
-- [Level, Code, Message]
-- Warning | 1292 | Truncated incorrect DOUBLE value: '1x'
CREATE TABLE strict_times (t TIME);
-- ok, 0 rows
INSERT INTO strict_times VALUES (TIME('2024-12-31'));
-- ERROR 1292 (22007): Truncated incorrect time value: '2024-12-31'
# Of bytes that are no text, INSERT IGNORE keeps those before the first wrong one, and the message quotes the rest.
create table wrong_bytes (id int primary key, t varchar(4), u tinytext);
-- ok, 0 rows
insert into wrong_bytes values (1, x'6100F00000', 'x');
-- ERROR 1366 (HY000): Incorrect string value: '\xF0\x00\x00' for column 't' at row 1
insert ignore into wrong_bytes values (1, x'6100F00000', x'FF'), (2, x'C3A96263646566FF', x'61FF62636465666768');
-- ok, 2 rows, 4 warnings
show warnings;
-- [Level, Code, Message]
-- Warning | 1366 | Incorrect string value: '\xF0\x00\x00' for column 't' at row 1
-- Warning | 1366 | Incorrect string value: '\xFF' for column 'u' at row 1
-- Warning | 1406 | Data too long for column 't' at row 2
-- Warning | 1366 | Incorrect string value: '\xFFbcdef...' for column 'u' at row 2
select id, hex(t), hex(u) from wrong_bytes order by id;
-- [id, hex(t), hex(u)]
-- 1 | 6100 | 
-- 2 | C3A9626364 | 61
drop table wrong_bytes;
-- ok, 0 rows
# A YEAR keeps the number at the front of a text, rounded.
create table years (id int primary key, y year);
-- ok, 0 rows
insert into years values (1, '2024-02-29 12:34:56');
-- ERROR 1265 (01000): Data truncated for column 'y' at row 1
insert into years values (1, 'abc');
-- ERROR 1366 (HY000): Incorrect integer value: 'abc' for column 'y' at row 1
insert into years values (1, '1800x');
-- ERROR 1264 (22003): Out of range value for column 'y' at row 1
insert into years values (1, '2024.6'), (2, '20.24e2'), (3, '00000'), (4, '0000');
-- ok, 4 rows
insert ignore into years values (5, '2024-02-29'), (6, 'abc'), (7, '24x'), (8, '1800x'), (9, '0x'), (10, '-5');
-- ok, 6 rows, 6 warnings
show warnings;
-- [Level, Code, Message]
-- Warning | 1265 | Data truncated for column 'y' at row 1
-- Warning | 1366 | Incorrect integer value: 'abc' for column 'y' at row 2
-- Warning | 1265 | Data truncated for column 'y' at row 3
-- Warning | 1264 | Out of range value for column 'y' at row 4
-- Warning | 1265 | Data truncated for column 'y' at row 5
-- Warning | 1264 | Out of range value for column 'y' at row 6
select * from years order by id;
-- [id, y]
-- 1 | 2025
-- 2 | 2024
-- 3 | 2000
-- 4 | 0
-- 5 | 2024
-- 6 | 0
-- 7 | 2024
-- 8 | 0
-- 9 | 2000
-- 10 | 0
drop table years;
-- ok, 0 rows
