# One type of several: the values take its form.
SELECT COALESCE(1, 2.50), IF(0, 1, 'a'), IFNULL(NULL, 10) + 1, CASE WHEN 1 THEN 1 ELSE 1.25 END, GREATEST(2, 1.5), LEAST('b', 'a');
-- [COALESCE(1, 2.50), IF(0, 1, 'a'), IFNULL(NULL, 10) + 1, CASE WHEN 1 THEN 1 ELSE 1.25 END, GREATEST(2, 1.5), LEAST('b', 'a')]
-- 1.00 | a | 11 | 1.00 | 2.0 | a
SELECT COALESCE(10, 'x') < '9', IF(1, 10, 'x') < 9;
-- [COALESCE(10, 'x') < '9', IF(1, 10, 'x') < 9]
-- 1 | 0
# A quotient is carried on with more digits than it shows.
SELECT 1 / 3, 1 / 3 * 3, 2.00 / 3, 7 DIV 2.5, -7 % 3, 5 / 0;
-- [1 / 3, 1 / 3 * 3, 2.00 / 3, 7 DIV 2.5, -7 % 3, 5 / 0]
-- 0.3333 | 1.0000 | 0.666667 | 2 | -1 | NULL
# Text as numbers, and numbers as text.
SELECT '2.7' + 0, CAST('2.7' AS SIGNED), CAST('1e2' AS SIGNED), CAST(2.7 AS SIGNED), CAST(-1 AS UNSIGNED), 0x61 + 0, CONCAT(0x61);
-- ['2.7' + 0, CAST('2.7' AS SIGNED), CAST('1e2' AS SIGNED), CAST(2.7 AS SIGNED), CAST(-1 AS UNSIGNED), X'61' + 0, CONCAT(X'61')]
-- 2.7 | 2 | 1 | 3 | 18446744073709551615 | 97 | a
SELECT 9223372036854775807 = '9223372036854775806', 9223372036854775807 = '9223372036854775807';
-- [9223372036854775807 = '9223372036854775806', 9223372036854775807 = '9223372036854775807']
-- 0 | 1
# A float is not the double that it is written as.
CREATE TABLE floats (f FLOAT, d DOUBLE);
-- ok, 0 rows
INSERT INTO floats VALUES (0.1, 0.1), (16777217, 16777217), (1.2345678, 1.2345678);
-- ok, 3 rows
SELECT f, d, f = d, f = 0.1, f + 0e0 FROM floats;
-- [f, d, f = d, f = 0.1, f + 0e0]
-- 0.1 | 0.1 | 0 | 0 | 0.10000000149011612
-- 16777200 | 16777217 | 0 | 0 | 16777216
-- 1.23457 | 1.2345678 | 0 | 0 | 1.2345677614212036
# Digits of a second are those of the type.
CREATE TABLE moments (d DATE, t TIME(3), s DATETIME(2), y YEAR, b BIT(10));
-- ok, 0 rows
INSERT INTO moments VALUES ('2024-02-29', '-01:02:03.5', '2024-02-29 12:34:56.78', 2024, 97);
-- ok, 1 rows
SELECT CONCAT(t), CONCAT(s), CONCAT(d), CONCAT(y), b + 0, HEX(CONCAT(b)), LENGTH(s) FROM moments;
-- [CONCAT(t), CONCAT(s), CONCAT(d), CONCAT(y), b + 0, HEX(CONCAT(b)), LENGTH(s)]
-- -01:02:03.500 | 2024-02-29 12:34:56.78 | 2024-02-29 | 2024 | 97 | 0061 | 22
SELECT t + 0, s + 0, d + 0, -t, s = 20240229123456.78, d = 20240229 FROM moments;
-- [t + 0, s + 0, d + 0, -t, s = 20240229123456.78, d = 20240229]
-- -10203.500 | 20240229123456.78 | 20240229 | 10203.500 | 1 | 1
SELECT TIME'10:00:00.50', TIMESTAMP'2024-01-01 00:00:00.125', ADDTIME('10:00:00', '00:00:00.5'), TIMEDIFF('10:00:00', '11:30:00');
-- [TIME'10:00:00.50', TIMESTAMP'2024-01-01 00:00:00.125', ADDTIME('10:00:00', '00:00:00.5'), TIMEDIFF('10:00:00', '11:30:00')]
-- 10:00:00.500000 | 2024-01-01 00:00:00.125000 | 10:00:00.500000 | -01:30:00
# Weeks, in each way of counting.
SELECT WEEK('2023-01-01'), WEEK('2023-01-01', 1), WEEK('2024-12-31', 3), YEARWEEK('2024-12-30', 1), WEEKOFYEAR('2021-01-01'), WEEK('2000-01-01', 2), WEEK('2000-01-01', 5);
-- [WEEK('2023-01-01'), WEEK('2023-01-01', 1), WEEK('2024-12-31', 3), YEARWEEK('2024-12-30', 1), WEEKOFYEAR('2021-01-01'), WEEK('2000-01-01', 2), WEEK('2000-01-01', 5)]
-- 1 | 0 | 1 | 202501 | 53 | 52 | 0
SELECT DATE_FORMAT('2024-02-03 04:05:06', '%D %U %u %V %v %X %x %y %k %l %p %j'), TIME_FORMAT('100:00:00', '%H %k %h');
-- [DATE_FORMAT('2024-02-03 04:05:06', '%D %U %u %V %v %X %x %y %k %l %p %j'), TIME_FORMAT('100:00:00', '%H %k %h')]
-- 3rd 04 05 04 05 2024 2024 24 4 4 AM 034 | 100 100 04
SELECT STR_TO_DATE('29/02/2024', '%d/%m/%Y'), STR_TO_DATE('12:34:56', '%H:%i:%s'), STR_TO_DATE('Feb 29 2024 1:02 PM', '%b %d %Y %h:%i %p'), STR_TO_DATE('x', '%Y');
-- [STR_TO_DATE('29/02/2024', '%d/%m/%Y'), STR_TO_DATE('12:34:56', '%H:%i:%s'), STR_TO_DATE('Feb 29 2024 1:02 PM', '%b %d %Y %h:%i %p'), STR_TO_DATE('x', '%Y')]
-- 2024-02-29 | 12:34:56 | 2024-02-29 13:02:00 | NULL
SELECT DATE_ADD('2024-01-31', INTERVAL '1:30' MINUTE_SECOND), DATE_SUB('2024-03-31', INTERVAL 1 MONTH), DATE_ADD('9999-12-31', INTERVAL 1 DAY), TIME'10:00:00' + INTERVAL 90 MINUTE;
-- [DATE_ADD('2024-01-31', INTERVAL '1:30' MINUTE_SECOND), DATE_SUB('2024-03-31', INTERVAL 1 MONTH), DATE_ADD('9999-12-31', INTERVAL 1 DAY), TIME'10:00:00' + INTERVAL 90 MINUTE]
-- 2024-01-31 00:01:30 | 2024-02-29 | NULL | 11:30:00
SELECT EXTRACT(YEAR_MONTH FROM '2024-02-29'), EXTRACT(DAY_SECOND FROM '2024-02-29 01:02:03'), EXTRACT(MICROSECOND FROM '10:00:00.5');
-- [EXTRACT(YEAR_MONTH FROM '2024-02-29'), EXTRACT(DAY_SECOND FROM '2024-02-29 01:02:03'), EXTRACT(MICROSECOND FROM '10:00:00.5')]
-- 202402 | 29010203 | 500000
SELECT MAKEDATE(2024, 60), MAKETIME(-5, 6, 7), SEC_TO_TIME(3661), FROM_DAYS(739310), TO_DAYS('2024-02-29'), TO_SECONDS('2024-02-29'), PERIOD_ADD(202411, 3), PERIOD_DIFF(202402, 202311);
-- [MAKEDATE(2024, 60), MAKETIME(-5, 6, 7), SEC_TO_TIME(3661), FROM_DAYS(739310), TO_DAYS('2024-02-29'), TO_SECONDS('2024-02-29'), PERIOD_ADD(202411, 3), PERIOD_DIFF(202402, 202311)]
-- 2024-02-29 | -05:06:07 | 01:01:01 | 2024-02-29 | 739310 | 63876384000 | 202502 | 3
SELECT UNIX_TIMESTAMP('2024-02-29 00:00:00'), FROM_UNIXTIME(1709164800), FROM_UNIXTIME(-1), UNIX_TIMESTAMP('1960-01-01');
-- [UNIX_TIMESTAMP('2024-02-29 00:00:00'), FROM_UNIXTIME(1709164800), FROM_UNIXTIME(-1), UNIX_TIMESTAMP('1960-01-01')]
-- 1709164800 | 2024-02-29 00:00:00 | NULL | 0
# Text: places, cases, collations.
SELECT SUBSTRING('abc', -2), SUBSTRING('abc', 0), LEFT('abc', -1), RIGHT('abc', 5), MID('grüße', 3, 2), REVERSE('üb'), INSERT('abc', 2, 1, 'xyz'), INSERT('abc', 9, 1, 'x');
-- [SUBSTRING('abc', -2), SUBSTRING('abc', 0), LEFT('abc', -1), RIGHT('abc', 5), MID('grüße', 3, 2), REVERSE('üb'), INSERT('abc', 2, 1, 'xyz'), INSERT('abc', 9, 1, 'x')]
-- bc |  |  | abc | üß | bü | axyzc | abc
SELECT SUBSTRING_INDEX('a.b.c', '.', -2), LOCATE('B', 'abc'), LOCATE('b', BINARY 'aBc'), INSTR('Straße', 'E'), FIND_IN_SET('B', 'a,b'), FIELD('B', 'a', 'b'), STRCMP('a', 'B');
-- [SUBSTRING_INDEX('a.b.c', '.', -2), LOCATE('B', 'abc'), LOCATE('b', BINARY 'aBc'), INSTR('Straße', 'E'), FIND_IN_SET('B', 'a,b'), FIELD('B', 'a', 'b'), STRCMP('a', 'B')]
-- b.c | 2 | 0 | 6 | 2 | 2 | -1
SELECT UPPER('ß'), LOWER('É'), LPAD('a', 3, 'xy'), RPAD('abc', 2, 'x'), LPAD('a', -1, 'x'), TRIM(LEADING 'a' FROM 'aab'), REPLACE('aaa', 'aa', 'b'), SOUNDEX('Quadratically');
-- [UPPER('ß'), LOWER('É'), LPAD('a', 3, 'xy'), RPAD('abc', 2, 'x'), LPAD('a', -1, 'x'), TRIM(LEADING 'a' FROM 'aab'), REPLACE('aaa', 'aa', 'b'), SOUNDEX('Quadratically')]
-- ß | é | xya | ab | NULL | b | ba | Q36324
SELECT HEX(255), HEX(-1), HEX('é'), HEX(2.5), UNHEX('F'), UNHEX('xy'), BIN(12), OCT(-1), CONV('ff', 16, 10), CONV(-10, 10, -16), CHAR(77, 121), ORD('é');
-- [HEX(255), HEX(-1), HEX('é'), HEX(2.5), UNHEX('F'), UNHEX('xy'), BIN(12), OCT(-1), CONV('ff', 16, 10), CONV(-10, 10, -16), CHAR(77, 121), ORD('é')]
-- FF | FFFFFFFFFFFFFFFF | C3A9 | 3 |  | NULL | 1100 | 1777777777777777777777 | 255 | -A | My | 50089
SELECT FORMAT(1234567.891, 2), FORMAT(-0.5, 0), QUOTE('a''b\\'), EXPORT_SET(5, 'Y', 'N', '', 4), MAKE_SET(5, 'a', 'b', 'c'), ELT(2, 'a', 'b'), INET_ATON('10.0.5.9'), INET_NTOA(167773449);
-- [FORMAT(1234567.891, 2), FORMAT(-0.5, 0), QUOTE('a''b\'), EXPORT_SET(5, 'Y', 'N', '', 4), MAKE_SET(5, 'a', 'b', 'c'), ELT(2, 'a', 'b'), INET_ATON('10.0.5.9'), INET_NTOA(167773449)]
-- 1,234,567.89 | -1 | 'a\'b\\' | YNYN | a,c | b | 167773449 | 10.0.5.9
SELECT TO_BASE64('abc'), FROM_BASE64('YWJj'), FROM_BASE64('?'), CRC32('abc'), MD5('a'), SHA1('a'), BIT_COUNT(7), BIT_LENGTH('ab');
-- [TO_BASE64('abc'), FROM_BASE64('YWJj'), FROM_BASE64('?'), CRC32('abc'), MD5('a'), SHA1('a'), BIT_COUNT(7), BIT_LENGTH('ab')]
-- YWJj | abc | NULL | 891568578 | 0cc175b9c0f1b6a831c399e269772661 | 86f7e437faa5a7fce15d1ddcb9eaeaea377667b8 | 3 | 16
# Numbers: rounding, and what has no answer.
SELECT ROUND(2.5), ROUND(-2.5), ROUND(2.5e0), ROUND(1234.567, -2), ROUND(1.005, 2), TRUNCATE(-1.999, 1), ROUND(15, -1), CEIL(-1.5), FLOOR(-1.5), SIGN(-0.5);
-- [ROUND(2.5), ROUND(-2.5), ROUND(2.5e0), ROUND(1234.567, -2), ROUND(1.005, 2), TRUNCATE(-1.999, 1), ROUND(15, -1), CEIL(-1.5), FLOOR(-1.5), SIGN(-0.5)]
-- 3 | -3 | 2 | 1200 | 1.01 | -1.9 | 20 | -1 | -2 | -1
SELECT SQRT(-1), LN(0), LOG(2, 8), LOG10(1000), ASIN(2), POW(2, 10), ATAN2(1, 0), MOD(5.5, 2), INTERVAL(5, 1, 10);
-- [SQRT(-1), LN(0), LOG(2, 8), LOG10(1000), ASIN(2), POW(2, 10), ATAN2(1, 0), MOD(5.5, 2), INTERVAL(5, 1, 10)]
-- NULL | NULL | 3 | 3 | NULL | 1024 | 1.5707963267948966 | 1.5 | 1
SELECT EXP(1000);
-- ERROR 1690 (22003): DOUBLE value is out of range in 'exp(1000)'
SELECT ABS(-9223372036854775808);
-- ERROR 1690 (22003): BIGINT value is out of range in 'abs(-9223372036854775808)'
SELECT POW(10, 400);
-- ERROR 1690 (22003): DOUBLE value is out of range in 'pow(10,400)'
# Conversions that a strict change does not take.
CREATE TABLE strict (id INT PRIMARY KEY, v VARCHAR(10));
-- ok, 0 rows
INSERT INTO strict VALUES (1, '1x'), (2, '2');
-- ok, 2 rows
SELECT id FROM strict WHERE v = 1;
-- [id]
-- 1
UPDATE strict SET id = id + 10 WHERE v = 1;
-- ERROR 1292 (22007): Truncated incorrect DOUBLE value: '1x'
INSERT INTO strict VALUES (3, 1 / 0);
-- ERROR 1365 (22012): Division by 0
INSERT IGNORE INTO strict VALUES (3, 1 / 0);
-- ok, 1 rows, 1 warnings
SELECT * FROM moments WHERE d > 'abc';
-- ERROR 1525 (HY000): Incorrect DATE value: 'abc'
SELECT COUNT(*) FROM strict GROUP BY COUNT(*);
-- ERROR 1111 (HY000): Invalid use of group function
# Set operations give one form to both sides.
SELECT t FROM moments UNION SELECT 'x';
-- [t]
-- -01:02:03.500
-- x
SELECT DISTINCT v COLLATE utf8mb4_bin FROM (SELECT 'a' AS v UNION ALL SELECT 'A' UNION ALL SELECT 'a') u;
-- [v COLLATE utf8mb4_bin]
-- a
-- A
# What a column takes, it takes in its own form.
CREATE TABLE forms (n INT, v VARCHAR(20), b BIT(4) NOT NULL DEFAULT 5, e ENUM('x', 'y'), t TIME(3), y YEAR);
-- ok, 0 rows
INSERT INTO forms (n, v, e, t) VALUES (0x10, 1.50, 2, '01:02:03.5');
-- ok, 1 rows
UPDATE forms SET n = e, v = t;
-- ok, 1 rows
SELECT n, v, b + 0, e, HEX(t) FROM forms;
-- [n, v, b + 0, e, HEX(t)]
-- 2 | 01:02:03.500 | 5 | y | 30313A30323A30332E353030
INSERT INTO forms (n, v) SELECT e, t FROM forms;
-- ok, 1 rows
SELECT n, v FROM forms;
-- [n, v]
-- 2 | 01:02:03.500
-- 2 | 01:02:03.500
INSERT INTO forms (y) VALUES ('2024-01-01');
-- ERROR 1265 (01000): Data truncated for column 'y' at row 1
SELECT COUNT(*) FROM forms WHERE n IN (SELECT e FROM forms);
-- [COUNT(*)]
-- 2
SELECT HEX(GROUP_CONCAT(0xff, '' SEPARATOR ',')) FROM forms;
-- [HEX(GROUP_CONCAT(X'ff', '' SEPARATOR ','))]
-- FF2CFF
SELECT (2, 'a') = (f.n, f.v), f.n FROM forms f JOIN forms g ON (f.n, f.v) = (g.n, g.v);
-- [(2, 'a') = (f.n, f.v), n]
-- 0 | 2
-- 0 | 2
-- 0 | 2
-- 0 | 2
# The columns that a join is by come first, and once.
CREATE TABLE l (a INT, k INT);
-- ok, 0 rows
CREATE TABLE r (b INT, k INT);
-- ok, 0 rows
INSERT INTO l VALUES (1, 10), (2, 20);
-- ok, 2 rows
INSERT INTO r VALUES (3, 20), (4, 30);
-- ok, 2 rows
SELECT * FROM l JOIN r USING (k);
-- [k, a, b]
-- 20 | 2 | 3
SELECT * FROM l LEFT JOIN r USING (k) ORDER BY k;
-- [k, a, b]
-- 10 | 1 | NULL
-- 20 | 2 | 3
SELECT * FROM l RIGHT JOIN r USING (k) ORDER BY k;
-- [k, b, a]
-- 20 | 3 | 2
-- 30 | 4 | NULL
SELECT * FROM l NATURAL JOIN r;
-- [k, a, b]
-- 20 | 2 | 3
SELECT * FROM l RIGHT JOIN r ON l.k = r.k ORDER BY r.k;
-- [a, k, b, k]
-- 2 | 20 | 3 | 20
-- NULL | NULL | 4 | 30
# The ends of the integers are times, too.
SELECT SEC_TO_TIME(-9223372036854775808), SEC_TO_TIME(9223372036854775807), MAKETIME(-9223372036854775808, 0, 0), MAKETIME(9223372036854775807, 0, 0);
-- [SEC_TO_TIME(-9223372036854775808), SEC_TO_TIME(9223372036854775807), MAKETIME(-9223372036854775808, 0, 0), MAKETIME(9223372036854775807, 0, 0)]
-- -838:59:59 | 838:59:59 | -838:59:59 | 838:59:59
