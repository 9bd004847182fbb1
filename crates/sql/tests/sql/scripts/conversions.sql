CREATE TABLE bits (id INT PRIMARY KEY, a BIT(1), b BIT(10));
INSERT INTO bits VALUES (1, 0, 0), (2, 1, 513), (3, NULL, NULL), (4, 1, 1023);
# BIT and hexadecimal literals are numbers to BIN, OCT and CONV, whatever the base.
SELECT id, BIN(a), BIN(b), OCT(b), CONV(b, 10, 16), CONV(b, 16, 10), CONV(b, 10, -2), HEX(b) FROM bits;
SELECT id FROM bits WHERE BIN(a);
SELECT MAX(id), BIN(MAX(b)) FROM bits;
SELECT BIN(x'07'), OCT(0x3132), CONV(0x41, 16, 10), BIN('07'), BIN(_binary '12'), CONV(b, 10, 37), CONV('', 10, 2) FROM bits WHERE id = 2;
# A BIT has no character set: beside text it makes bytes.
SELECT DISTINCT CHARSET(x) FROM (SELECT HEX('a') AS x UNION SELECT b FROM bits WHERE id = 2) u;
SELECT CHARSET(COALESCE(a, 'x')), CHARSET(IF(id > 1, b, 'x')), CHARSET(CASE id WHEN 1 THEN 'x' ELSE b END), COALESCE(a, 'x') = 'X', COALESCE(a, b, 7) FROM bits WHERE id < 3;
# A set operation fills a BINARY up to the longer side.
CREATE TABLE fixed (id INT PRIMARY KEY, a BINARY(4), b BINARY(6), c DECIMAL(5, 0), d DATE, e VARBINARY(3), f CHAR(2), g TINYINT, h ENUM('x', 'yz'));
INSERT INTO fixed VALUES (1, 'a', 'b', -2, '2024-02-29', 'e', 'f', 7, 'yz');
SELECT HEX(x) FROM (SELECT a AS x FROM fixed UNION SELECT b FROM fixed) u ORDER BY 1;
SELECT HEX(x) FROM (SELECT c AS x FROM fixed UNION SELECT a FROM fixed) u ORDER BY 1;
SELECT HEX(x) FROM (SELECT a AS x FROM fixed UNION ALL SELECT d FROM fixed) u ORDER BY 1;
SELECT HEX(x) FROM (SELECT a AS x FROM fixed UNION SELECT g FROM fixed) u ORDER BY 1;
SELECT HEX(x) FROM (SELECT a AS x FROM fixed UNION SELECT f FROM fixed) u ORDER BY 1;
SELECT HEX(x) FROM (SELECT a AS x FROM fixed UNION SELECT h FROM fixed) u ORDER BY 1;
SELECT HEX(x) FROM (SELECT a AS x FROM fixed UNION SELECT 123456 UNION SELECT NULL) u ORDER BY 1;
SELECT HEX(x) FROM (SELECT a AS x FROM fixed UNION SELECT e FROM fixed) u ORDER BY 1;
SELECT HEX(x) FROM (SELECT a AS x FROM fixed UNION SELECT x'616263646566') u ORDER BY 1;
SELECT HEX(x) FROM (SELECT CAST('a' AS BINARY(2)) AS x UNION SELECT b FROM fixed) u ORDER BY 1;
SELECT HEX(COALESCE(NULL, a, b)), HEX(IF(1, a, b)), HEX(CASE WHEN 1 THEN a ELSE c END), HEX(CAST('a' AS BINARY(2))) FROM fixed;
# LOG does not evaluate the number for a wrong base.
SELECT LOG(-0.05, COT(0)), LOG(0, COT(0)), LOG(NULL, COT(0));
SHOW WARNINGS;
SELECT LOG(1, 2), LOG(2, 0), LOG(2, NULL), LOG(2, 8), LOG('2x', 8);
SHOW WARNINGS;
SELECT LOG(1, COT(0));
# A text that is no time as a whole is the time that it begins with.
CREATE TABLE times (id INT AUTO_INCREMENT PRIMARY KEY, t TIME(3));
INSERT INTO times (t) VALUES ('2024-12-31');
INSERT IGNORE INTO times (t) VALUES ('2024-12-31'), ('2024-12'), ('12-31'), ('1-2-3'), ('20:24-12'), ('20:24:12-1'), ('20:24:'), ('1 2'), ('1 2:3'), ('-2 3:4:5.6789'), ('1 x'), ('x'), (''), ('12:60'), ('1260'), ('10:20:30.'), ('10:20:30.5x'), ('900:00:00'), ('-900:00'), ('99999999999'), ('2024-12-31 10:11:12'), ('20241231101112'), ('1:2:3:4');
SHOW WARNINGS;
SELECT * FROM times;
SELECT CAST('2024-12-31' AS TIME), TIME('2024-12-31'), CAST('12-31' AS TIME), CAST('20:24-12' AS TIME), HOUR('2024-12-31'), CAST('1 2' AS TIME), CAST('x' AS TIME), CAST('' AS TIME);
# The text that DATE_ADD and its like make of a text is a number as its date is.
SELECT CAST(DATE_ADD('2024-12-31', INTERVAL -1 MICROSECOND) AS DOUBLE), CAST(DATE_ADD('2024-12-31', INTERVAL -1 MICROSECOND) AS DECIMAL(20, 6)), CAST(DATE_ADD('2024-12-31', INTERVAL 1 DAY) AS SIGNED);
SHOW WARNINGS;
SELECT DATE_ADD('2024-12-31', INTERVAL 1 DAY) + 0, -DATE_SUB('2024-12-31 10:11:12', INTERVAL 1 SECOND), DATE_ADD('2024-12-31', INTERVAL 1 DAY) > 20250100, ADDTIME('01:00:00', '00:30:00') * 1, SUBTIME('2024-12-31 10:00:00', '1:0:0') | 0, FLOOR(ADDTIME('-01:00:00', '00:30:00'));
SELECT SUM('2024-12-31' + INTERVAL 1 DAY), MAX('2024-12-31' + INTERVAL 1 DAY), CONCAT('2024-12-31' + INTERVAL 1 DAY), DATE_ADD('x', INTERVAL 1 DAY) + 0, ADDTIME(DATE'2024-02-29', '01:00:00') + 0;
SELECT id FROM bits WHERE DATE_ADD('2024-12-31', INTERVAL id DAY) = 20250102;
SELECT id FROM bits ORDER BY ADDTIME(IF(id = 2, '10:00:00', '9:00:00'), '00:00:01'), id DESC;
CREATE TABLE numbers (n BIGINT);
INSERT IGNORE INTO numbers VALUES (DATE_ADD('2024-12-31', INTERVAL 1 DAY));
SELECT * FROM numbers;
# The number of a row that is not inserted is the next row's.
CREATE TABLE counted (id INT AUTO_INCREMENT PRIMARY KEY, u INT UNIQUE);
INSERT INTO counted (u) VALUES (1), (2);
INSERT IGNORE INTO counted (u) VALUES (1), (2), (3), (1), (4);
INSERT IGNORE INTO counted (u) SELECT id FROM bits UNION ALL SELECT 5;
INSERT IGNORE INTO counted (id, u) VALUES (NULL, 1), (50, 6), (NULL, 7), (NULL, 1), (40, 8), (NULL, 9);
INSERT INTO counted (u) VALUES (1), (10) ON DUPLICATE KEY UPDATE u = u;
SELECT LAST_INSERT_ID();
SELECT * FROM counted ORDER BY u;
# A literal of bytes beside a column's text is text, and is compared by the column's collation; bytes of columns and casts are compared as bytes.
CREATE TABLE words (id INT PRIMARY KEY, t VARCHAR(20), b VARBINARY(10), e ENUM('x', 'A'), u VARCHAR(20) COLLATE utf8mb4_bin, n INT, KEY (t));
INSERT INTO words VALUES (1, 'a', 'a', 'x', 'a', 1), (2, 'A', 'A', 'A', 'A', 65), (3, 'b', 'b', NULL, 'b', NULL);
SELECT id FROM words WHERE t = x'41';
SELECT id FROM words WHERE t = _binary 'A' AND t BETWEEN x'41' AND x'42' AND LOWER(t) = x'41' AND t IN (x'41', 'c') AND t LIKE x'41';
SELECT id FROM words WHERE t = UNHEX('41') AND t = FROM_BASE64('QQ==') AND t = CHAR(65) AND t = REPEAT(x'41', 1) AND CASE t WHEN x'41' THEN 1 END;
SELECT id FROM words WHERE t = b OR t = CAST('B' AS BINARY);
SELECT id FROM words WHERE t = CAST('A' AS BINARY);
SELECT id FROM words WHERE u = x'41' OR e = x'61' AND t COLLATE utf8mb4_bin = x'41';
SELECT id FROM words WHERE t = b AND b = 'A';
SELECT id FROM words WHERE (t, n) IN ((x'41', 1), ('B', 2)) OR t IN (SELECT x'42') ORDER BY id;
SELECT id FROM words WHERE x'41' IN (SELECT t FROM words) AND n = x'41';
SELECT id, LOCATE(x'41', t), FIND_IN_SET(x'41', t), STRCMP(t, x'41'), FIELD(x'41', t), NULLIF(t, x'41'), CHARSET(NULLIF(x'43', t)) FROM words;
SELECT CHARSET(CONCAT(t, x'41')), CHARSET(CONCAT(t, b)), CHARSET(CONCAT('a', x'41')), CHARSET(COALESCE(t, x'41')), CHARSET(IF(id, x'41', t)), CHARSET(REPLACE(t, x'41', 'b')), CHARSET(CONCAT(t, n, UNHEX('41'))), CHARSET(GREATEST(t, x'41')), CHARSET(CASE id WHEN 1 THEN x'41' ELSE t END) FROM words WHERE id = 1;
SELECT 'A' = x'61', CONVERT('a' USING utf8mb4) = x'41', CAST('a' AS CHAR) = x'41', CONVERT(_latin1 'abc' USING utf8mb4) NOT BETWEEN FROM_BASE64('') AND TO_BASE64('12'), 'abc' NOT BETWEEN FROM_BASE64('') AND TO_BASE64('12');
SELECT t FROM words UNION SELECT x'41' ORDER BY 1;
SELECT DISTINCT CHARSET(x) FROM (SELECT t AS x FROM words UNION SELECT b FROM words) u;
SELECT id FROM words WHERE t = x'ff';
SELECT CONCAT(t, x'616263ff646566') FROM words;
SELECT CONCAT(t, UNHEX(IF(id = 9, 'ff', '42'))) FROM words;
SELECT CONCAT(t, UNHEX(IF(id = 2, 'ff', '42'))) FROM words;
PREPARE s FROM 'SELECT id FROM words WHERE t = ? ORDER BY id';
SET @b = x'41';
EXECUTE s USING @b;
# TIMESTAMP adds the time of a date and time.
SELECT TIMESTAMP('2024-12-31', DATE'1999-12-31'), TIMESTAMP('2024-12-31', TIMESTAMP'1999-12-31 10:11:12'), TIMESTAMP('2024-12-31', '1:2:3'), TIMESTAMP('2024-12-31', '1999-12-31 10:11:12');
SELECT INET_ATON('1..2'), INET_ATON('1.2.'), INET_ATON('.'), INET_ATON('');
# A row that fails before it has a number keeps none.
CREATE TABLE strict (id INT AUTO_INCREMENT PRIMARY KEY, u INT NOT NULL CHECK (u < 9));
INSERT IGNORE INTO strict (u) VALUES (1), (10), (2), (11);
INSERT IGNORE INTO strict (u) SELECT n FROM words;
INSERT INTO strict (u) VALUES (3);
SELECT * FROM strict ORDER BY id;
# Functions of dates read such a text as the date or time that it is.
SELECT TIME(DATE_ADD('2024-12-31', INTERVAL -1 HOUR)), TIME(DATE_ADD('2024-12-31', INTERVAL 1 DAY)), MINUTE(DATE_ADD('2024-12-31', INTERVAL 1 DAY)), LAST_DAY(SUBTIME('2024-12-31', '01:00:00')) = LAST_DAY(TIMESTAMP(CURDATE(), '-0:39:36')), TIME_TO_SEC(ADDTIME('01:00:00', '00:00:01'));
# DIV of unsigned numbers, HEX of decimals, LIKE of bytes, and FORMAT of doubles.
SELECT CAST(4294967295 AS UNSIGNED) DIV 1.5, HEX(-12345678901234567890.5), HEX(99999999999999999999), HEX(-1.5);
SELECT CAST(4294967295 AS UNSIGNED) DIV -1.5;
SELECT 'é' LIKE _binary '_', _binary 'é' LIKE '__', x'ff' LIKE '_', _binary 'a_c' LIKE 'a\\_c', 'A' LIKE x'61', 'A' LIKE 'a';
SELECT FORMAT(1e22, 0), FORMAT(0.1e0, 25), FORMAT(1234.5678e0, 3), FORMAT(1e0, 2);
SELECT FIELD('2024-01-31', 'x', DATE'2024-01-31'), FIELD(1, '1x', 2), CHARSET(MAKE_SET(1, NULL, NULL)), TIME'12:34:56' >= '2024-12-31', TIME'12:34:56' <> '2024-12-31';
SHOW WARNINGS;
CREATE TABLE strict_times (t TIME);
INSERT INTO strict_times VALUES (TIME('2024-12-31'));
