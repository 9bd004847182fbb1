# Rows by several ranges of one column, by NULL, and by the index that seems best.
CREATE TABLE t (id INT PRIMARY KEY, k INT, c VARCHAR(10), KEY by_k (k), KEY by_c (c, k));
-- ok, 0 rows
INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c'), (4, NULL, 'd'), (5, 50, NULL), (6, 20, 'B'), (7, -5, '');
-- ok, 7 rows
SELECT id FROM t WHERE k BETWEEN 5 AND 15 OR k BETWEEN 12 AND 22 OR k = 50;
-- [id]
-- 1
-- 2
-- 6
-- 5
EXPLAIN SELECT id FROM t WHERE k BETWEEN 5 AND 15 OR k BETWEEN 12 AND 22 OR k = 50;
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | SIMPLE | t | NULL | range | by_k | by_k | NULL | NULL | NULL | NULL | Using where; Using index
SELECT id FROM t WHERE k < 0 OR k IS NULL OR k > 45;
-- [id]
-- 4
-- 7
-- 5
SELECT id FROM t WHERE k IN (20, NULL, 30) AND c >= 'b' ORDER BY id;
-- [id]
-- 2
-- 3
-- 6
SELECT id FROM t WHERE k NOT IN (20, 30) ORDER BY id;
-- [id]
-- 1
-- 5
-- 7
SELECT id FROM t WHERE k <=> NULL OR k <=> 30;
-- [id]
-- 4
-- 3
SELECT id FROM t WHERE k = NULL OR k = 30;
-- [id]
-- 3
SELECT id FROM t WHERE (k > 15 AND k < 25 AND c = 'b') OR (k >= 50 AND c IS NULL) ORDER BY id;
-- [id]
-- 2
-- 5
-- 6
SELECT id FROM t WHERE k > 15 OR c = 'a' ORDER BY id;
-- [id]
-- 1
-- 2
-- 3
-- 5
-- 6
SELECT id FROM t WHERE id = 3 OR id = 1 OR id BETWEEN 5 AND 6 ORDER BY id DESC;
-- [id]
-- 6
-- 5
-- 3
-- 1
EXPLAIN SELECT id FROM t WHERE id = 3 OR id = 1 OR id BETWEEN 5 AND 6 ORDER BY id DESC;
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | SIMPLE | t | NULL | range | PRIMARY | PRIMARY | NULL | NULL | NULL | NULL | Using where; Backward index scan
SELECT id FROM t WHERE c = 'b' AND (k = 20 OR k = 99);
-- [id]
-- 2
-- 6
SELECT id FROM t WHERE k > 20 AND k < 10;
-- [id]
SELECT id FROM t WHERE k = '20' OR k = 'x';
-- [id]
-- 2
-- 6
SELECT id, k FROM t WHERE k BETWEEN 10 AND 30 ORDER BY k DESC, id DESC LIMIT 3;
-- [id, k]
-- 3 | 30
-- 6 | 20
-- 2 | 20
UPDATE t SET c = 'z' WHERE k < 0 OR k = 30;
-- ok, 2 rows
DELETE FROM t WHERE k IS NULL OR k = 50;
-- ok, 2 rows
SELECT * FROM t ORDER BY id;
-- [id, k, c]
-- 1 | 10 | a
-- 2 | 20 | b
-- 3 | 30 | z
-- 6 | 20 | B
-- 7 | -5 | z
EXPLAIN DELETE FROM t ORDER BY id LIMIT 1;
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | DELETE | t | NULL | ALL | NULL | NULL | NULL | NULL | NULL | NULL | 
EXPLAIN DELETE FROM t ORDER BY id;
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | DELETE | t | NULL | ALL | NULL | NULL | NULL | NULL | NULL | NULL | Using filesort
EXPLAIN UPDATE t SET c = 'x' WHERE id > 2 ORDER BY id DESC LIMIT 1;
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | UPDATE | t | NULL | range | PRIMARY | PRIMARY | NULL | NULL | NULL | NULL | Using where; Backward index scan
EXPLAIN UPDATE t SET c = 'x' ORDER BY k LIMIT 1;
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | UPDATE | t | NULL | index | by_k | by_k | NULL | NULL | NULL | NULL | 
EXPLAIN UPDATE t SET c = 'x' ORDER BY c LIMIT 1;
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | UPDATE | t | NULL | index | by_c | by_c | NULL | NULL | NULL | NULL | 
EXPLAIN UPDATE t SET c = 'x' WHERE k = 20 ORDER BY c LIMIT 1;
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | UPDATE | t | NULL | ref | by_k | by_k | NULL | NULL | NULL | NULL | Using where; Using filesort
EXPLAIN DELETE FROM t WHERE id = 3;
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | DELETE | t | NULL | const | PRIMARY | PRIMARY | NULL | NULL | NULL | NULL | Using where
EXPLAIN INSERT INTO t (id) SELECT id + 100 FROM t WHERE k > 5;
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | INSERT | t | NULL | ALL | NULL | NULL | NULL | NULL | NULL | NULL | 
-- 1 | SIMPLE | t | NULL | range | by_k | by_k | NULL | NULL | NULL | NULL | Using where; Using index
EXPLAIN INSERT INTO t (id) VALUES (200);
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | INSERT | t | NULL | ALL | NULL | NULL | NULL | NULL | NULL | NULL | 
EXPLAIN UPDATE t JOIN t AS u ON u.id = t.k SET t.c = u.c;
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | SIMPLE | t | NULL | ALL | NULL | NULL | NULL | NULL | NULL | NULL | 
-- 1 | SIMPLE | u | NULL | const | PRIMARY | PRIMARY | NULL | NULL | NULL | NULL | Using where
# Hints about indexes are obeyed.
EXPLAIN SELECT id FROM t IGNORE INDEX (by_k) WHERE k = 20;
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | SIMPLE | t | NULL | index | by_c | by_c | NULL | NULL | NULL | NULL | Using where; Using index
EXPLAIN SELECT id FROM t USE INDEX (by_c) WHERE k = 20 AND c = 'b';
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | SIMPLE | t | NULL | ref | by_c | by_c | NULL | NULL | NULL | NULL | Using where
EXPLAIN SELECT id FROM t FORCE INDEX (by_k) WHERE k > 0 AND id = 3;
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | SIMPLE | t | NULL | range | by_k | by_k | NULL | NULL | NULL | NULL | Using where; Using index
EXPLAIN SELECT id FROM t USE INDEX () WHERE id = 3;
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | SIMPLE | t | NULL | ALL | NULL | NULL | NULL | NULL | NULL | NULL | Using where
EXPLAIN UPDATE t IGNORE INDEX (PRIMARY) SET c = 'x' WHERE id = 3;
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | UPDATE | t | NULL | ALL | NULL | NULL | NULL | NULL | NULL | NULL | Using where
SELECT id FROM t FORCE INDEX (by_k) WHERE k > 0 AND id = 3;
-- [id]
-- 3
SELECT id FROM t USE INDEX (nothing) WHERE k = 20;
-- ERROR 1176 (42000): Key 'nothing' doesn't exist in table 't'
SELECT id FROM t USE INDEX FOR ORDER BY (by_k) WHERE k = 20;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'USE INDEX FOR ORDER BY (by_k)'
# A TIMESTAMP is looked up as it is stored, in whatever zone the session is.
CREATE TABLE moments (id INT PRIMARY KEY, ts TIMESTAMP NULL, KEY (ts));
-- ok, 0 rows
SET time_zone = '+02:00';
-- ok, 0 rows
INSERT INTO moments VALUES (1, '2020-01-01 12:00:00'), (2, '2020-01-01 13:00:00'), (3, '2020-01-02 00:00:00'), (4, NULL);
-- ok, 4 rows
SELECT * FROM moments FORCE INDEX (ts) WHERE ts = '2020-01-01 12:00:00';
-- [id, ts]
-- 1 | 2020-01-01 12:00:00
SELECT id FROM moments FORCE INDEX (ts) WHERE ts > '2020-01-01 12:00:00';
-- [id]
-- 2
-- 3
SELECT id FROM moments FORCE INDEX (ts) WHERE ts IN ('2020-01-01 12:00:00', DATE'2020-01-02');
-- [id]
-- 1
-- 3
SELECT a.id, b.id FROM moments a JOIN moments b FORCE INDEX (ts) ON a.ts = b.ts ORDER BY a.id;
-- [id, id]
-- 1 | 1
-- 2 | 2
-- 3 | 3
UPDATE moments FORCE INDEX (ts) SET id = 10 WHERE ts = '2020-01-01 12:00:00';
-- ok, 1 rows
DELETE FROM moments WHERE ts BETWEEN '2020-01-01 13:00:00' AND '2020-01-01 13:00:00';
-- ok, 1 rows
SET time_zone = '-03:00';
-- ok, 0 rows
SELECT * FROM moments FORCE INDEX (ts) WHERE ts = '2020-01-01 07:00:00';
-- [id, ts]
-- 10 | 2020-01-01 07:00:00
CREATE TABLE by_moment (ts TIMESTAMP PRIMARY KEY, a INT);
-- ok, 0 rows
INSERT INTO by_moment VALUES ('2020-01-01 12:00:00', 1);
-- ok, 1 rows
SELECT * FROM by_moment WHERE ts = '2020-01-01 12:00:00';
-- [ts, a]
-- 2020-01-01 12:00:00 | 1
UPDATE by_moment SET a = 2 WHERE ts = '2020-01-01 12:00:00';
-- ok, 1 rows
SET time_zone = '+00:00';
-- ok, 0 rows
SELECT * FROM by_moment WHERE ts = '2020-01-01 15:00:00';
-- [ts, a]
-- 2020-01-01 15:00:00 | 2
# A YEAR is looked up by numbers of either kind.
CREATE TABLE years (id INT PRIMARY KEY, y YEAR, n BIGINT UNSIGNED, KEY (y));
-- ok, 0 rows
INSERT INTO years VALUES (1, 2019, 2020), (2, 2020, 2019), (3, 2021, 18446744073709551615);
-- ok, 3 rows
SELECT id FROM years FORCE INDEX (y) WHERE y = CAST(2020 AS UNSIGNED);
-- [id]
-- 2
SELECT id FROM years FORCE INDEX (y) WHERE y < CAST(2021 AS UNSIGNED);
-- [id]
-- 1
-- 2
SELECT id FROM years FORCE INDEX (y) WHERE y < 18446744073709551615;
-- [id]
-- 1
-- 2
-- 3
SELECT id FROM years FORCE INDEX (y) WHERE y IN (2021, 18446744073709551615);
-- [id]
-- 3
SELECT a.id, b.id FROM years a JOIN years b FORCE INDEX (y) ON b.y = a.n ORDER BY a.id;
-- [id, id]
-- 1 | 2
-- 2 | 1
# A key that no row can have finds nothing, and one written as text or as a decimal finds what is equal.
CREATE TABLE small (id TINYINT PRIMARY KEY, u INT UNSIGNED, d DECIMAL(4, 1), KEY (u), KEY (d));
-- ok, 0 rows
INSERT INTO small VALUES (1, 5, 1.5), (2, 4294967295, -999.9), (-128, 0, 0), (127, NULL, NULL);
-- ok, 4 rows
SELECT id FROM small WHERE id = '2';
-- [id]
-- 2
SELECT id FROM small WHERE id = 2.0;
-- [id]
-- 2
SELECT id FROM small WHERE id = 2.5;
-- [id]
SELECT id FROM small WHERE id = 3000000000;
-- [id]
SELECT id FROM small WHERE id IN (1, 128, '127', -129, -128.0) ORDER BY id;
-- [id]
-- -128
-- 1
-- 127
SELECT id FROM small WHERE id <=> 128;
-- [id]
SELECT id FROM small FORCE INDEX (u) WHERE u = -1 OR u = 5 OR u = 4294967295.0 ORDER BY id;
-- [id]
-- 1
-- 2
SELECT id FROM small FORCE INDEX (u) WHERE u > -1 ORDER BY id;
-- [id]
-- -128
-- 1
-- 2
SELECT id FROM small FORCE INDEX (u) WHERE u < 3.5 AND u > -2.5;
-- [id]
-- -128
SELECT id FROM small WHERE id > 126.5 OR id < -128.5;
-- [id]
-- 127
SELECT id FROM small WHERE id <= 300 ORDER BY id DESC LIMIT 1;
-- [id]
-- 127
SELECT id FROM small FORCE INDEX (d) WHERE d IN (1.50, 1.55, 10000, 0.00) ORDER BY id;
-- [id]
-- -128
-- 1
SELECT id FROM small FORCE INDEX (d) WHERE d > 1.45;
-- [id]
-- 1
SELECT id FROM small FORCE INDEX (d) WHERE d > -1000.5 AND d < 12345 ORDER BY id;
-- [id]
-- -128
-- 1
-- 2
UPDATE small SET u = 6 WHERE id = '1';
-- ok, 1 rows
DELETE FROM small WHERE id = 300 OR id = '2';
-- ok, 1 rows
SELECT id, u FROM small ORDER BY id;
-- [id, u]
-- -128 | 0
-- 1 | 6
-- 127 | NULL
# An index that cannot look up the values of a join's other side is not read whole for each of them.
CREATE TABLE tags (id INT PRIMARY KEY, v VARCHAR(9), b BINARY(2), d DATE, KEY (v), KEY (b), KEY (d));
-- ok, 0 rows
CREATE TABLE nums (n INT PRIMARY KEY, t VARCHAR(9), at DATETIME);
-- ok, 0 rows
INSERT INTO tags VALUES (1, '1', 'ab', '2020-01-01'), (2, '01', 'a', '2020-01-02'), (3, '2', x'6100', NULL);
-- ok, 3 rows
INSERT INTO nums VALUES (1, '1', '2020-01-01'), (2, 'ab', '2020-01-02 01:00:00'), (3, '01', NULL);
-- ok, 3 rows
EXPLAIN SELECT * FROM nums STRAIGHT_JOIN tags ON tags.v = nums.n;
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | SIMPLE | nums | NULL | ALL | NULL | NULL | NULL | NULL | NULL | NULL | 
-- 1 | SIMPLE | tags | NULL | ALL | NULL | NULL | NULL | NULL | NULL | NULL | Using where; Using join buffer (hash join)
SELECT n, id FROM nums STRAIGHT_JOIN tags ON tags.v = nums.n ORDER BY n, id;
-- [n, id]
-- 1 | 1
-- 1 | 2
-- 2 | 3
EXPLAIN SELECT * FROM nums LEFT JOIN tags ON tags.v = nums.t;
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | SIMPLE | nums | NULL | ALL | NULL | NULL | NULL | NULL | NULL | NULL | 
-- 1 | SIMPLE | tags | NULL | ref | v | v | NULL | NULL | NULL | NULL | 
SELECT n, id FROM nums LEFT JOIN tags ON tags.v = nums.t ORDER BY n, id;
-- [n, id]
-- 1 | 1
-- 2 | NULL
-- 3 | 2
EXPLAIN SELECT * FROM nums LEFT JOIN tags ON tags.d = nums.at;
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | SIMPLE | nums | NULL | ALL | NULL | NULL | NULL | NULL | NULL | NULL | 
-- 1 | SIMPLE | tags | NULL | ref | d | d | NULL | NULL | NULL | NULL | 
SELECT n, id FROM nums LEFT JOIN tags ON tags.d = nums.at ORDER BY n, id;
-- [n, id]
-- 1 | 1
-- 2 | NULL
-- 3 | NULL
EXPLAIN SELECT * FROM nums LEFT JOIN tags ON tags.b = nums.t;
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | SIMPLE | nums | NULL | ALL | NULL | NULL | NULL | NULL | NULL | NULL | 
-- 1 | SIMPLE | tags | NULL | ref | b | b | NULL | NULL | NULL | NULL | 
SELECT n, id FROM nums LEFT JOIN tags ON tags.b = nums.t ORDER BY n, id;
-- [n, id]
-- 1 | NULL
-- 2 | 1
-- 3 | NULL
SELECT id FROM tags FORCE INDEX (b) WHERE b = 'ab';
-- [id]
-- 1
SELECT id FROM tags FORCE INDEX (b) WHERE b IN (x'6100', 'a');
-- [id]
-- 2
-- 3
SELECT id FROM tags FORCE INDEX (b) WHERE b > 'a' ORDER BY id;
-- [id]
-- 1
-- 2
-- 3
SELECT id FROM tags FORCE INDEX (d) WHERE d < TIMESTAMP'2020-01-01 12:00:00';
-- [id]
-- 1
SELECT id FROM tags FORCE INDEX (d) WHERE d >= TIMESTAMP'2020-01-02 00:00:00';
-- [id]
-- 2
# Where an index cannot look up a value, the table is read as it lies.
CREATE TABLE texts (id INT PRIMARY KEY, v VARCHAR(9), KEY (v));
-- ok, 0 rows
INSERT INTO texts VALUES (1, '1.0'), (2, '1'), (3, '01'), (4, NULL), (5, '2');
-- ok, 5 rows
SELECT id FROM texts WHERE v = 1;
-- [id]
-- 1
-- 2
-- 3
SELECT id FROM texts WHERE v >= 1;
-- [id]
-- 1
-- 2
-- 3
-- 5
SELECT id FROM texts WHERE v >= 1 ORDER BY v;
-- [id]
-- 3
-- 2
-- 1
-- 5
SELECT id FROM texts WHERE v >= '1';
-- [id]
-- 1
-- 2
-- 5
# An index that has all that is read is read alone; of all rows, the one with the shortest entries.
CREATE TABLE wide (id INT PRIMARY KEY, a INT, b INT UNSIGNED, word VARCHAR(20), pad CHAR(60), KEY ab (a, b), KEY a (a), KEY word (word));
-- ok, 0 rows
INSERT INTO wide VALUES (1, 10, 5, 'one', 'x'), (2, 10, 4, 'two', 'x'), (3, NULL, 3, 'three', 'x'), (4, -7, NULL, 'four', 'x');
-- ok, 4 rows
EXPLAIN SELECT COUNT(*) FROM wide;
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | SIMPLE | wide | NULL | index | a | a | NULL | NULL | NULL | NULL | Using index
SELECT COUNT(*), COUNT(a), SUM(a) FROM wide;
-- [COUNT(*), COUNT(a), SUM(a)]
-- 4 | 3 | 13
EXPLAIN SELECT id, b FROM wide WHERE a = 10;
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | SIMPLE | wide | NULL | ref | ab | ab | NULL | NULL | NULL | NULL | Using where; Using index
SELECT id, b FROM wide WHERE a = 10;
-- [id, b]
-- 2 | 4
-- 1 | 5
EXPLAIN SELECT id, word FROM wide WHERE word > 'o';
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | SIMPLE | wide | NULL | range | word | word | NULL | NULL | NULL | NULL | Using where
EXPLAIN SELECT COUNT(*) FROM wide WHERE word > 'o';
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | SIMPLE | wide | NULL | range | word | word | NULL | NULL | NULL | NULL | Using where
SELECT COUNT(*) FROM wide WHERE word > 'o';
-- [COUNT(*)]
-- 3
EXPLAIN SELECT COUNT(id) FROM wide WHERE word = 'one';
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | SIMPLE | wide | NULL | ref | word | word | NULL | NULL | NULL | NULL | Using where
EXPLAIN SELECT a, b FROM wide WHERE b > 3;
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | SIMPLE | wide | NULL | index | ab | ab | NULL | NULL | NULL | NULL | Using where; Using index
SELECT a, b FROM wide WHERE b > 3;
-- [a, b]
-- 10 | 4
-- 10 | 5
EXPLAIN SELECT id FROM wide WHERE a > 3 FOR UPDATE;
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | SIMPLE | wide | NULL | range | ab | ab | NULL | NULL | NULL | NULL | Using where
EXPLAIN SELECT a FROM wide ORDER BY a DESC, b DESC LIMIT 2;
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | SIMPLE | wide | NULL | index | ab | ab | NULL | NULL | NULL | NULL | Using index; Backward index scan
SELECT a, b FROM wide ORDER BY a DESC, b DESC;
-- [a, b]
-- 10 | 5
-- 10 | 4
-- -7 | NULL
-- NULL | 3
EXPLAIN SELECT id, a FROM wide ORDER BY id LIMIT 2;
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | SIMPLE | wide | NULL | ALL | NULL | NULL | NULL | NULL | NULL | NULL | 
EXPLAIN SELECT x.id, y.id FROM wide x JOIN wide y ON y.a = x.b + 5;
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | SIMPLE | x | NULL | index | ab | ab | NULL | NULL | NULL | NULL | Using index
-- 1 | SIMPLE | y | NULL | ref | ab | ab | NULL | NULL | NULL | NULL | Using where; Using index
EXPLAIN SELECT a, COUNT(*) FROM wide GROUP BY a;
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | SIMPLE | wide | NULL | index | a | a | NULL | NULL | NULL | NULL | Using index; Using temporary
EXPLAIN SELECT MIN(a), MAX(b), MAX(id) FROM wide;
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | SIMPLE | wide | NULL | index | ab | ab | NULL | NULL | NULL | NULL | Using index
EXPLAIN SELECT MIN(a), MAX(a), MAX(id) FROM wide;
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | SIMPLE | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | NULL | Select tables optimized away
SELECT MIN(a), MAX(a), MAX(id), MAX(a) - MIN(a) AS spread FROM wide;
-- [MIN(a), MAX(a), MAX(id), spread]
-- -7 | 10 | 4 | 17
SELECT MIN(a), MAX(a) FROM wide WHERE a < 10;
-- [MIN(a), MAX(a)]
-- -7 | -7
SELECT MIN(b), MAX(b) FROM wide WHERE a = 10;
-- [MIN(b), MAX(b)]
-- 4 | 5
SELECT MIN(b), MAX(b) FROM wide WHERE a IS NULL;
-- [MIN(b), MAX(b)]
-- 3 | 3
SELECT MIN(b), MAX(b) FROM wide WHERE a = 11;
-- [MIN(b), MAX(b)]
-- NULL | NULL
SELECT MIN(a) FROM wide WHERE 1 = 0;
-- [MIN(a)]
-- NULL
EXPLAIN SELECT MIN(a) FROM wide WHERE word = 'two';
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | SIMPLE | wide | NULL | ref | word | word | NULL | NULL | NULL | NULL | Using where
EXPLAIN SELECT MIN(word) FROM wide;
-- [id, select_type, table, partitions, type, possible_keys, key, key_len, ref, rows, filtered, Extra]
-- 1 | SIMPLE | wide | NULL | ALL | NULL | NULL | NULL | NULL | NULL | NULL | 
SELECT MIN(a), MAX(a) FROM wide IGNORE INDEX (a, ab);
-- [MIN(a), MAX(a)]
-- -7 | 10
