# Statements of one shape, whose plan is shared, with literals of other types and sizes.
CREATE TABLE n (id INT PRIMARY KEY, i INT, u INT UNSIGNED, b BIGINT, m DECIMAL(10,2), f DOUBLE, t VARCHAR(20), d DATE);
-- ok, 0 rows
INSERT INTO n VALUES (1, 10, 10, 10, 10.25, 10.5, '10', '2026-01-31'), (2, NULL, 0, -1, -0.01, 1e300, 'x', NULL);
-- ok, 2 rows
UPDATE n SET i = i + 1 WHERE id = 1;
-- ok, 1 rows
UPDATE n SET i = i + 1.6 WHERE id = 1;
-- ok, 1 rows
UPDATE n SET i = i + 2e0 WHERE id = 1;
-- ok, 1 rows
UPDATE n SET i = i + '3' WHERE id = 1;
-- ok, 1 rows
UPDATE n SET i = i + -4 WHERE id = 1;
-- ok, 1 rows
UPDATE n SET i = i - 5 WHERE id = 1;
-- ok, 1 rows
UPDATE n SET i = i - -6.4 WHERE id = 1;
-- ok, 1 rows
UPDATE n SET i = i + 2147483647 WHERE id = 1;
-- ERROR 1264 (22003): Out of range value for column 'i' at row 1
UPDATE n SET i = i + 9223372036854775807 WHERE id = 1;
-- ERROR 1690 (22003): BIGINT value is out of range in '(15 + 9223372036854775807)'
UPDATE n SET i = i + 18446744073709551615 WHERE id = 1;
-- ERROR 1690 (22003): BIGINT UNSIGNED value is out of range in '(15 + 18446744073709551615)'
UPDATE n SET i = i + 1 WHERE id = 2;
-- ok, 0 rows
UPDATE n SET u = u - 3 WHERE id = 1;
-- ok, 1 rows
UPDATE n SET u = u - 8 WHERE id = 1;
-- ERROR 1690 (22003): BIGINT UNSIGNED value is out of range in '(7 - 8)'
UPDATE n SET u = u + -7 WHERE id = 1;
-- ok, 1 rows
UPDATE n SET b = b + 9223372036854775000 WHERE id = 1;
-- ok, 1 rows
UPDATE n SET b = b + 9223372036854775000 WHERE id = 1;
-- ERROR 1690 (22003): BIGINT value is out of range in '(9223372036854775010 + 9223372036854775000)'
UPDATE n SET b = b - 9223372036854775807 WHERE id = 2;
-- ok, 1 rows
UPDATE n SET b = b - 2 WHERE id = 2;
-- ERROR 1690 (22003): BIGINT value is out of range in '(-9223372036854775808 - 2)'
UPDATE n SET m = m + 1.5, f = f + 1.5 WHERE id = 1;
-- ok, 1 rows
UPDATE n SET m = m + 1.005, f = f - 0.1 WHERE id = 1;
-- ok, 1 rows, 1 warnings
UPDATE n SET m = m + 99999999.99, f = f - 0.1 WHERE id = 1;
-- ERROR 1264 (22003): Out of range value for column 'm' at row 1
UPDATE n SET m = m + 1e1, f = f + 1.7e308 WHERE id = 1;
-- ok, 1 rows, 1 warnings
UPDATE n SET f = f + 1.7e308 WHERE id = 1;
-- ERROR 1690 (22003): DOUBLE value is out of range in '(1.7e308 + 1.7e308)'
UPDATE n SET t = t + 1 WHERE id = 1;
-- ok, 1 rows
UPDATE n SET t = t + 1.50 WHERE id = 1;
-- ok, 1 rows
UPDATE n SET t = t - '0.5' WHERE id = 1;
-- ok, 1 rows
UPDATE n SET t = t + 1 WHERE id = 2;
-- ERROR 1292 (22007): Truncated incorrect DOUBLE value: 'x'
UPDATE n SET d = d + 1 WHERE id = 1;
-- ERROR 1292 (22007): Incorrect date value: '20260132' for column 'd' at row 1
SELECT * FROM n;
-- [id, i, u, b, m, f, t, d]
-- 1 | 15 | 0 | 9223372036854775010 | 22.76 | 1.7e308 | 12 | 2026-01-31
-- 2 | NULL | 0 | -9223372036854775808 | -0.01 | 1e300 | x | NULL
SELECT id FROM n WHERE u + 1 > 8;
-- [id]
SELECT id FROM n WHERE u + 1.5 > 8;
-- [id]
SELECT id FROM n WHERE u + '1' > 8;
-- [id]
SELECT id FROM n WHERE u - 8 > 0;
-- ERROR 1690 (22003): BIGINT UNSIGNED value is out of range in '(0 - 8)'
SELECT id FROM n WHERE u - 7.0 < 0;
-- [id]
-- 1
-- 2
SELECT id FROM n WHERE d + 0 = 20260132;
-- [id]
SELECT id FROM n WHERE id = 3 - 1;
-- [id]
-- 2
SELECT id FROM n WHERE id = 4 - 3.0;
-- [id]
-- 1
SELECT id FROM n WHERE id IN (i - 1000, 5 - 3);
-- [id]
-- 2
DELETE FROM n WHERE id + 1 = 3;
-- ok, 1 rows
SELECT COUNT(*) FROM n;
-- [COUNT(*)]
-- 1
DROP TABLE n;
-- ok, 0 rows
