# Answers that are MySQL's to a word: exact comparisons, match types, sequences of RAND, and
# character sets of casts.
CREATE TABLE t (id INT PRIMARY KEY, e ENUM(0x61, b'01100010', 'c'), s SET(0x61, 'b'));
-- ok, 0 rows
INSERT INTO t VALUES (1, 'a', 'a,b'), (2, 'b', 'b'), (3, 'c', '');
-- ok, 3 rows
SELECT id, e, e + 0, s FROM t ORDER BY id;
-- [id, e, e + 0, s]
-- 1 | a | 1 | a,b
-- 2 | b | 2 | b
-- 3 | c | 3 | 
SELECT INTERVAL(9007199254740992, 9007199254740993), INTERVAL(9007199254740993, 9007199254740992, 9007199254740993, 9007199254740994), INTERVAL(1.5, 1.4, 1.5, NULL, 1.6), INTERVAL('1e0', 1, 2), INTERVAL(NULL, 1), INTERVAL(18446744073709551615, 18446744073709551614);
-- [INTERVAL(9007199254740992, 9007199254740993), INTERVAL(9007199254740993, 9007199254740992, 9007199254740993, 9007199254740994), INTERVAL(1.5, 1.4, 1.5, NULL, 1.6), INTERVAL('1e0', 1, 2), INTERVAL(NULL, 1), INTERVAL(18446744073709551615, 18446744073709551614)]
-- 0 | 2 | 3 | 1 | -1 | 1
SELECT REGEXP_LIKE('abc', 'ABC', 'c'), REGEXP_LIKE('abc', 'ABC'), REGEXP_LIKE('abc', 'ABC', 'ci'), REGEXP_LIKE('abc', 'ABC', 'ic'), REGEXP_LIKE('a\nb', '^b$') AS l, REGEXP_LIKE('a\nb', '^b$', 'm') AS m, REGEXP_LIKE('a\nb', 'a.b') AS d, REGEXP_LIKE('a\nb', 'a.b', 'n') AS n, REGEXP_LIKE('abc', 'ABC', NULL), REGEXP_LIKE('abc', 'abc', 'u');
-- [REGEXP_LIKE('abc', 'ABC', 'c'), REGEXP_LIKE('abc', 'ABC'), REGEXP_LIKE('abc', 'ABC', 'ci'), REGEXP_LIKE('abc', 'ABC', 'ic'), l, m, d, n, REGEXP_LIKE('abc', 'ABC', NULL), REGEXP_LIKE('abc', 'abc', 'u')]
-- 0 | 1 | 1 | 0 | 0 | 1 | 0 | 1 | NULL | 1
SELECT REGEXP_LIKE('abc', 'ABC', 'x');
-- ERROR 1210 (HY000): Incorrect arguments to regexp_like
SELECT 'ä' REGEXP '^[[:alpha:]]$', 'ä1' REGEXP '^[[:alnum:]]+$', 'ä' REGEXP '[[:^alpha:]]', '٣' REGEXP '[[:digit:]]', 'ä' REGEXP '[[:upper:]]', 'Ä' COLLATE utf8mb4_bin REGEXP '[[:upper:]]', 'ä' COLLATE utf8mb4_bin REGEXP '[[:upper:]]';
-- ['ä' REGEXP '^[[:alpha:]]$', 'ä1' REGEXP '^[[:alnum:]]+$', 'ä' REGEXP '[[:^alpha:]]', '٣' REGEXP '[[:digit:]]', 'ä' REGEXP '[[:upper:]]', 'Ä' COLLATE utf8mb4_bin REGEXP '[[:upper:]]', 'ä' COLLATE utf8mb4_bin REGEXP '[[:upper:]]']
-- 1 | 1 | 0 | 1 | 1 | 1 | 0
SELECT JSON_OBJECT('a');
-- ERROR 1582 (42000): Incorrect parameter count in the call to native function 'json_object'
SELECT JSON_OBJECT('a', 1, 'b');
-- ERROR 1582 (42000): Incorrect parameter count in the call to native function 'json_object'
SELECT JSON_OBJECT(NULL, 1);
-- ERROR 3158 (22032): JSON documents may not contain NULL member names.
SELECT JSON_OBJECT(), JSON_OBJECT('a', NULL);
-- [JSON_OBJECT(), JSON_OBJECT('a', NULL)]
-- {} | {"a": null}
SELECT JSON_EXTRACT('[1,2]', '$[0]', '$[1]'), JSON_EXTRACT('[1,2]', '$[0]', '$[7]'), JSON_EXTRACT('[1,2]', '$[8]', '$[7]'), JSON_EXTRACT('{"a": [1, 2], "b": "x"}', '$.b', '$.a', '$.a[1]'), JSON_EXTRACT('[1]', '$[0]', NULL), JSON_EXTRACT('[1]', '$[3]');
-- [JSON_EXTRACT('[1,2]', '$[0]', '$[1]'), JSON_EXTRACT('[1,2]', '$[0]', '$[7]'), JSON_EXTRACT('[1,2]', '$[8]', '$[7]'), JSON_EXTRACT('{"a": [1, 2], "b": "x"}', '$.b', '$.a', '$.a[1]'), JSON_EXTRACT('[1]', '$[0]', NULL), JSON_EXTRACT('[1]', '$[3]')]
-- [1, 2] | [1] | NULL | ["x", [1, 2], 2] | NULL | NULL
SELECT JSON_EXTRACT('[1,2]');
-- ERROR 1582 (42000): Incorrect parameter count in the call to native function 'json_extract'
SELECT JSON_EXTRACT('[1,2]', '$[0]', 'x');
-- ERROR 3143 (42000): Invalid JSON path expression. The error is around character position 0.
# RAND with a constant seed begins one sequence per statement, with another one a sequence per row.
SELECT id, RAND(1) FROM t ORDER BY id;
-- [id, RAND(1)]
-- 1 | 0.40540353712197724
-- 2 | 0.8716141803857071
-- 3 | 0.1418603212962489
SELECT id, RAND(1), RAND(1) FROM t ORDER BY id;
-- [id, RAND(1), RAND(1)]
-- 1 | 0.40540353712197724 | 0.40540353712197724
-- 2 | 0.8716141803857071 | 0.8716141803857071
-- 3 | 0.1418603212962489 | 0.1418603212962489
SELECT id, RAND(id) FROM t ORDER BY id;
-- [id, RAND(id)]
-- 1 | 0.40540353712197724
-- 2 | 0.6555866465490187
-- 3 | 0.9057697559760601
SELECT RAND(0), RAND(NULL), RAND(3), RAND('3'), RAND(-1), RAND(4294967297);
-- [RAND(0), RAND(NULL), RAND(3), RAND('3'), RAND(-1), RAND(4294967297)]
-- 0.15522042769493574 | 0.15522042769493574 | 0.9057697559760601 | 0.9057697559760601 | 0.9050373219931845 | 0.40540353712197724
SELECT id FROM t ORDER BY RAND(1);
-- [id]
-- 3
-- 1
-- 2
PREPARE p FROM 'SELECT RAND(?) FROM t';
-- ok, 0 rows
SET @n = 1;
-- ok, 0 rows
EXECUTE p USING @n;
-- [RAND(?)]
-- 0.40540353712197724
-- 0.8716141803857071
-- 0.1418603212962489
EXECUTE p USING @n;
-- [RAND(?)]
-- 0.40540353712197724
-- 0.8716141803857071
-- 0.1418603212962489
SELECT 'a' LIKE 'a' ESCAPE 'xy';
-- ERROR 1210 (HY000): Incorrect arguments to ESCAPE
SELECT 'a%' LIKE 'ax%' ESCAPE 'x', 'a%' LIKE 'a\%' ESCAPE NULL, 'ab' LIKE 'a%' ESCAPE '';
-- ['a%' LIKE 'ax%' ESCAPE 'x', 'a%' LIKE 'a\%' ESCAPE NULL, 'ab' LIKE 'a%' ESCAPE '']
-- 1 | 1 | 1
SELECT HEX(CAST('ä' AS CHAR CHARACTER SET latin1)), HEX(CAST('ä' AS CHAR CHARSET latin1)), HEX(CONVERT('ä', CHAR CHARACTER SET latin1)), CAST(x'e4' AS CHAR CHARACTER SET latin1), CAST(15 AS CHAR CHARACTER SET utf8mb4), CHARSET(CAST('ä' AS CHAR CHARACTER SET latin1)), LENGTH(CAST(CONCAT('ä', 'b') AS CHAR CHARACTER SET utf16));
-- [HEX(CAST('ä' AS CHAR CHARACTER SET latin1)), HEX(CAST('ä' AS CHAR CHARSET latin1)), HEX(CONVERT('ä', CHAR CHARACTER SET latin1)), CAST(X'e4' AS CHAR CHARACTER SET latin1), CAST(15 AS CHAR CHARACTER SET utf8mb4), CHARSET(CAST('ä' AS CHAR CHARACTER SET latin1)), LENGTH(CAST(CONCAT('ä', 'b') AS CHAR CHARACTER SET utf16))]
-- E4 | E4 | E4 | ä | 15 | latin1 | 4
SELECT CAST('ä' AS CHAR(1) CHARACTER SET latin1);
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'CHAR(n) CHARACTER SET in a cast'
SELECT CAST('ä' AS CHAR CHARACTER SET nothing);
-- ERROR 1115 (42000): Unknown character set: 'nothing'
SET @a = HEX(CAST('ä' AS CHAR CHARACTER SET latin1));
-- ok, 0 rows
SELECT @a;
-- [@a]
-- E4
SELECT _latin1 b'11100100', HEX(_latin1 b'11100100'), HEX(_utf8mb4 b'1100001110100100'), HEX(_latin1 0xe4), HEX(_latin1 0b11100100);
-- [_latin1 B'11100100', HEX(_latin1 B'11100100'), HEX(_utf8mb4 B'1100001110100100'), HEX(_latin1 X'e4'), HEX(_latin1 B'11100100')]
-- ä | E4 | C3A4 | E4 | E4
SELECT CHAR(228 USING latin1), HEX(CHAR(228 USING latin1)), CHAR(195, 164 USING utf8mb4), CHAR(77, 121 USING ascii), CHAR(0xe4 USING utf8mb4), HEX(CHAR(228));
-- [CHAR(228 USING latin1), HEX(CHAR(228 USING latin1)), CHAR(195, 164 USING utf8mb4), CHAR(77, 121 USING ascii), CHAR(X'e4' USING utf8mb4), HEX(CHAR(228))]
-- ä | E4 | ä | My | NULL | E4
SELECT HEX(0b1), 0b01100001, 0b1 + 0, HEX(0b101), 0b1 = b'1';
-- [HEX(B'1'), B'01100001', B'1' + 0, HEX(B'101'), B'1' = B'1']
-- 01 | a | 1 | 05 | 1
SELECT t.id, 0b11 + id AS x FROM t WHERE id = 0b10;
-- [id, x]
-- 2 | 5
SELECT 0b2;
-- ERROR 1054 (42S22): Unknown column '0b2' in 'field list'
SELECT CONVERT_TZ('2004-01-01 12:00:00', '+00:00', '+10:00'), CONVERT_TZ('2004-01-01 12:00:00.5', '+01:00', '-02:30'), CONVERT_TZ('1969-01-01 12:00:00', '+00:00', '+10:00'), CONVERT_TZ('2004-01-01', 'UTC', 'SYSTEM'), CONVERT_TZ(NULL, '+00:00', '+01:00'), CONVERT_TZ('2004-01-01', '+99:00', '+01:00'), CONVERT_TZ('x', '+00:00', '+01:00'), CONVERT_TZ(20040101120000, '+00:00', '+05:45'), CONVERT_TZ('0000-00-00', '+00:00', '+01:00');
-- [CONVERT_TZ('2004-01-01 12:00:00', '+00:00', '+10:00'), CONVERT_TZ('2004-01-01 12:00:00.5', '+01:00', '-02:30'), CONVERT_TZ('1969-01-01 12:00:00', '+00:00', '+10:00'), CONVERT_TZ('2004-01-01', 'UTC', 'SYSTEM'), CONVERT_TZ(NULL, '+00:00', '+01:00'), CONVERT_TZ('2004-01-01', '+99:00', '+01:00'), CONVERT_TZ('x', '+00:00', '+01:00'), CONVERT_TZ(20040101120000, '+00:00', '+05:45'), CONVERT_TZ('0000-00-00', '+00:00', '+01:00')]
-- 2004-01-01 22:00:00 | 2004-01-01 08:30:00.500000 | 1969-01-01 12:00:00 | 2004-01-01 00:00:00 | NULL | NULL | NULL | 2004-01-01 17:45:00 | NULL
SELECT CONVERT_TZ('2004-01-01 12:00:00', 'Europe/Berlin', '+00:00');
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'CONVERT_TZ() with a named time zone'
CREATE TABLE n (id INT PRIMARY KEY AUTO_INCREMENT, i INT, d DECIMAL(20,2), f DOUBLE, v VARCHAR(20), b VARBINARY(20));
-- ok, 0 rows
INSERT INTO n (i, d, f, v, b) VALUES (0x3132, 0x3132, 0x3132, 0x3132, 0x3132);
-- ok, 1 rows, id 1
INSERT INTO n (i, d, f, v, b) SELECT 0x3132, 0x3132, 0x3132, 0x3132, 0x3132;
-- ok, 1 rows, id 2
INSERT INTO n (i, d, f, v, b) SELECT b'11', b'11', b'11', b'1100001', b'1100001' FROM t WHERE id = 1;
-- ok, 1 rows, id 3
INSERT INTO n (i, d, f, v, b) SELECT DISTINCT 0x3132, 0x3132, 0x3132, 0x3132, 0x3132;
-- ok, 1 rows, id 4
INSERT INTO n (i) SELECT e FROM t WHERE id = 2;
-- ok, 1 rows, id 5
INSERT INTO n (i) VALUES ((SELECT e FROM t WHERE id = 2));
-- ERROR 1366 (HY000): Incorrect integer value: 'b' for column 'i' at row 1
INSERT INTO n (i) SELECT (SELECT e FROM t WHERE id = 2);
-- ERROR 1366 (HY000): Incorrect integer value: 'b' for column 'i' at row 1
INSERT INTO n (d, f, v) VALUES ((SELECT e FROM t WHERE id = 2), (SELECT e FROM t WHERE id = 2), (SELECT e FROM t WHERE id = 2));
-- ERROR 1366 (HY000): Incorrect decimal value: 'b' for column 'd' at row 1
UPDATE n SET i = (SELECT e FROM t WHERE id = 3) WHERE id = 1;
-- ERROR 1366 (HY000): Incorrect integer value: 'c' for column 'i' at row 1
SELECT i, d, f, v, b FROM n ORDER BY id;
-- [i, d, f, v, b]
-- 12594 | 12594.00 | 12594 | 12 | 12
-- 12594 | 12594.00 | 12594 | 12 | 12
-- 3 | 3.00 | 3 | a | a
-- 12594 | 12594.00 | 12594 | 12 | 12
-- 2 | NULL | NULL | NULL | NULL
CREATE TABLE bits (id INT PRIMARY KEY, b BIT(16));
-- ok, 0 rows
INSERT INTO bits VALUES (1, 97), (2, 0x4142), (3, NULL);
-- ok, 3 rows
SELECT b FROM bits UNION SELECT 'x';
-- [b]
-- 97
-- 16706
-- NULL
-- x
SELECT 'x' UNION ALL SELECT b FROM bits;
-- [x]
-- x
-- 97
-- 16706
-- NULL
SELECT HEX(a) FROM (SELECT b AS a FROM bits UNION ALL SELECT 'x') z;
-- [HEX(a)]
-- 3937
-- 3136373036
-- NULL
-- 78
SELECT HEX(IF(id < 3, b, 'x')), HEX(COALESCE(b, 'x')), HEX(CONCAT(b, 'x')) FROM bits ORDER BY id;
-- [HEX(IF(id < 3, b, 'x')), HEX(COALESCE(b, 'x')), HEX(CONCAT(b, 'x'))]
-- 0061 | 0061 | 006178
-- 4142 | 4142 | 414278
-- 78 | 78 | NULL
SELECT b FROM bits UNION SELECT 5;
-- [b]
-- 97
-- 16706
-- NULL
-- 5
SELECT STR_TO_DATE('2004-10', '%Y-%m'), STR_TO_DATE('10', '%d'), STR_TO_DATE('00', '%d'), STR_TO_DATE('2004', '%Y'), STR_TO_DATE('2004-10 11', '%Y-%m %H');
-- [STR_TO_DATE('2004-10', '%Y-%m'), STR_TO_DATE('10', '%d'), STR_TO_DATE('00', '%d'), STR_TO_DATE('2004', '%Y'), STR_TO_DATE('2004-10 11', '%Y-%m %H')]
-- NULL | NULL | 0000-00-00 | NULL | NULL
# The number that a client gets with the result is that of the last row, also if it was left out; none if all were.
create table numbered (id int auto_increment primary key, v int);
-- ok, 0 rows
insert into numbered values (3, 1), (7, 2);
-- ok, 2 rows, id 7
insert ignore into numbered values (9, 1), (3, 5);
-- ok, 1 rows, id 3, 1 warnings
insert ignore into numbered values (9, 1), (3, 5);
-- ok, 0 rows, 2 warnings
insert into numbered values (12, 1), (9, 1) on duplicate key update v = values(v);
-- ok, 1 rows, id 9
insert into numbered values (9, 1) on duplicate key update v = values(v);
-- ok, 0 rows
insert into numbered values (9, 2) on duplicate key update v = values(v);
-- ok, 2 rows, id 9
# A row that REPLACE does not change counts once, if the table has one unique key.
replace into numbered values (9, 2), (9, 2), (9, 3), (20, 1);
-- ok, 5 rows, id 20
alter table numbered add unique (v, id);
-- ok, 0 rows
replace into numbered values (9, 3);
-- ok, 2 rows, id 9
create table two_keys (a int unique, b int unique);
-- ok, 0 rows
insert into two_keys values (null, 5), (6, 6);
-- ok, 2 rows
replace into two_keys values (null, 5);
-- ok, 1 rows
replace into two_keys values (6, 7);
-- ok, 2 rows
replace into two_keys values (6, 7);
-- ok, 2 rows
drop table two_keys;
-- ok, 0 rows
# A row of a query that changes another has no number for the client. Only changed rows are duplicates.
insert into numbered select 9, 4 on duplicate key update v = 4;
-- ok, 2 rows
insert into numbered values (9, 4), (9, 4) on duplicate key update v = values(v);
-- ok, 0 rows
insert into numbered values (9, 4), (9, 5) on duplicate key update v = values(v);
-- ok, 2 rows, id 9
# The client gets the number that a statement gave to LAST_INSERT_ID(), unless one was generated.
insert into numbered values (9, 5) on duplicate key update id = last_insert_id(id);
-- ok, 0 rows, id 9
select last_insert_id();
-- [last_insert_id()]
-- 9
insert into numbered (v) values (last_insert_id(77));
-- ok, 1 rows, id 21
update numbered set v = last_insert_id(v + 1) where id = 9;
-- ok, 1 rows, id 6
update numbered set v = 1 where id = 9;
-- ok, 1 rows
select last_insert_id(33);
-- [last_insert_id(33)]
-- 33
update numbered set v = 2 where id = 9;
-- ok, 1 rows
delete from numbered where id = last_insert_id(9);
-- ok, 1 rows
drop table numbered;
-- ok, 0 rows
