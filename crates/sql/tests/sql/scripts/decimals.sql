# A constant text beside a decimal or an integer is the exact number that it begins with; beside a column of texts it is a double.
CREATE TABLE t (id INT PRIMARY KEY, d DECIMAL(24,6), b BIGINT, s VARCHAR(40), KEY (d), KEY (b));
-- ok, 0 rows
CREATE TABLE n (id INT PRIMARY KEY, d DECIMAL(24,6), b BIGINT, s VARCHAR(40));
-- ok, 0 rows
INSERT INTO t VALUES (1, 9007199254740991.999999, 9007199254740991, '9007199254740991.999999'), (2, 9007199254740992, 9007199254740992, '9007199254740992.000001'), (3, 9007199254740992.000001, 9007199254740993, '9007199254740992.000001x'), (4, 9007199254740993, NULL, NULL);
-- ok, 4 rows
INSERT INTO n SELECT * FROM t;
-- ok, 4 rows
SELECT id FROM t WHERE d = '9007199254740992.000001';
-- [id]
-- 3
SELECT id FROM n WHERE d = '9007199254740992.000001';
-- [id]
-- 3
SELECT id FROM n WHERE '9007199254740992.000001' = d;
-- [id]
-- 3
SELECT id FROM n WHERE d = '9007199254740992.000001x' OR d = '9.007199254740992000001e15' OR d = ' 9007199254740992.000001 ';
-- [id]
-- 3
SELECT id FROM n WHERE d <> '9007199254740992.000001' ORDER BY id;
-- [id]
-- 1
-- 2
-- 4
SELECT id FROM t WHERE d > '9007199254740992.0000005' ORDER BY id;
-- [id]
-- 3
-- 4
SELECT id FROM n WHERE d > '9007199254740992.0000005' ORDER BY id;
-- [id]
-- 3
-- 4
SELECT id FROM t WHERE d BETWEEN '9007199254740992' AND '9007199254740992.000001' ORDER BY id;
-- [id]
-- 2
-- 3
SELECT id FROM n WHERE d BETWEEN '9007199254740992' AND '9007199254740992.000001' ORDER BY id;
-- [id]
-- 2
-- 3
SELECT id FROM n WHERE d NOT BETWEEN '9007199254740992' AND 9007199254740992.000001 ORDER BY id;
-- [id]
-- 1
-- 4
SELECT id FROM t WHERE d IN ('9007199254740992.000001', 1, 'x') ORDER BY id;
-- [id]
-- 3
SELECT id FROM n WHERE d IN ('9007199254740992.000001', 1, 'x') ORDER BY id;
-- [id]
-- 3
SELECT id FROM n WHERE d NOT IN ('9007199254740992.000001', '9007199254740993') ORDER BY id;
-- [id]
-- 1
-- 2
SELECT id FROM n WHERE (d, id) IN (('9007199254740992.000001', 2), ('9007199254740993', 4)) ORDER BY id;
-- [id]
-- 4
SELECT id FROM n WHERE (d, 1) = ('9007199254740992.000001', 1);
-- [id]
-- 3
SELECT id FROM n WHERE d + 0 = '9007199254740992.000001' OR -d = '-9007199254740993' ORDER BY id;
-- [id]
-- 3
-- 4
SELECT id, CASE d WHEN '9007199254740992.000001' THEN 'it' ELSE 'other' END, NULLIF(d, '9007199254740993') FROM n ORDER BY id;
-- [id, CASE d WHEN '9007199254740992.000001' THEN 'it' ELSE 'other' END, NULLIF(d, '9007199254740993')]
-- 1 | other | 9007199254740991.999999
-- 2 | other | 9007199254740992.000000
-- 3 | it | 9007199254740992.000001
-- 4 | other | NULL
SELECT id FROM n WHERE IFNULL(d, 1) = CONCAT('9007199254740992', '.000001');
-- [id]
-- 3
SELECT id FROM n WHERE d = (SELECT MAX(s) FROM t WHERE id = 2);
-- [id]
-- 3
SELECT id FROM t WHERE d = (SELECT MAX(s) FROM t WHERE id = 2);
-- [id]
-- 3
SET @v = '9007199254740992.000001';
-- ok, 0 rows
SELECT id FROM t WHERE d = @v;
-- [id]
-- 3
SELECT id FROM n WHERE d = @v;
-- [id]
-- 3
PREPARE p FROM 'SELECT id FROM n WHERE d = ? OR b IN (?, ?) ORDER BY id';
-- ok, 0 rows
SET @b = '9007199254740991';
-- ok, 0 rows
EXECUTE p USING @v, @b, @v;
-- [id]
-- 1
-- 3
SELECT id FROM n WHERE b = '9007199254740993' OR b = '9007199254740992.5';
-- [id]
-- 3
SELECT id FROM t WHERE b BETWEEN '9007199254740992.5' AND '9007199254740993.5';
-- [id]
-- 3
SELECT id FROM n WHERE b BETWEEN '9007199254740992.5' AND '9007199254740993.5';
-- [id]
-- 3
# A number that no decimal can hold is above or below all of them.
SELECT id FROM t WHERE d < '1e400' AND d > '-1e400' ORDER BY id;
-- [id]
-- 1
-- 2
-- 3
-- 4
SELECT id FROM n WHERE d < '1e400' AND d > '-1e400' ORDER BY id;
-- [id]
-- 1
-- 2
-- 3
-- 4
INSERT INTO n VALUES (9, '1e400', 1, '');
-- ERROR 1264 (22003): Out of range value for column 'd' at row 1
# Two columns, and two constants, are compared as doubles, whether there is an index or not.
SELECT n.id, t.id FROM n STRAIGHT_JOIN t ON t.d = n.s ORDER BY 1, 2;
-- [id, id]
-- 1 | 1
-- 1 | 2
-- 1 | 3
-- 1 | 4
-- 2 | 1
-- 2 | 2
-- 2 | 3
-- 2 | 4
-- 3 | 1
-- 3 | 2
-- 3 | 3
-- 3 | 4
SELECT t.id, n.id FROM t STRAIGHT_JOIN n ON n.d = t.s ORDER BY 1, 2;
-- [id, id]
-- 1 | 1
-- 1 | 2
-- 1 | 3
-- 1 | 4
-- 2 | 1
-- 2 | 2
-- 2 | 3
-- 2 | 4
-- 3 | 1
-- 3 | 2
-- 3 | 3
-- 3 | 4
SELECT '9007199254740992.000001' = 9007199254740992.000002, '9007199254740993' = 9007199254740992;
-- ['9007199254740992.000001' = 9007199254740992.000002, '9007199254740993' = 9007199254740992]
-- 1 | 0
# A change raises an error where it compares a text that is no number, and not where it compares nothing.
UPDATE n SET id = id WHERE d = 'abc';
-- ERROR 1292 (22007): Truncated incorrect DECIMAL value: 'abc'
UPDATE n SET id = id WHERE id = 77 AND d = 'abc';
-- ok, 0 rows
UPDATE t SET d = 0 WHERE d = '9007199254740992.000001';
-- ok, 1 rows
DELETE FROM n WHERE d = '9007199254740992.000001';
-- ok, 1 rows
SELECT id, d FROM t ORDER BY id;
-- [id, d]
-- 1 | 9007199254740991.999999
-- 2 | 9007199254740992.000000
-- 3 | 0.000000
-- 4 | 9007199254740993.000000
SELECT id FROM n ORDER BY id;
-- [id]
-- 1
-- 2
-- 4
