# What is set is obeyed, or refused.
SET NAMES utf8mb4, autocommit = 0;
-- ok, 0 rows
SELECT @@autocommit;
-- [@@autocommit]
-- 0
SET autocommit = 1, NAMES utf8mb4 COLLATE utf8mb4_bin;
-- ok, 0 rows
SELECT @@collation_connection, @@character_set_client, 'a' = 'A', 'a' LIKE 'A', CONCAT('a', '') = 'A';
-- [@@collation_connection, @@character_set_client, 'a' = 'A', 'a' LIKE 'A', CONCAT('a', '') = 'A']
-- utf8mb4_bin | utf8mb4 | 0 | 0 | 0
SET NAMES DEFAULT;
-- ok, 0 rows
SELECT @@collation_connection, 'a' = 'A';
-- [@@collation_connection, 'a' = 'A']
-- utf8mb4_general_ci | 1
SET collation_connection = 'utf8mb4_bin';
-- ok, 0 rows
SELECT 'a' = 'A';
-- ['a' = 'A']
-- 0
SET NAMES utf8;
-- ok, 0 rows
SELECT @@character_set_client, @@collation_connection, 'a' = 'A';
-- [@@character_set_client, @@collation_connection, 'a' = 'A']
-- utf8 | utf8mb3_general_ci | 1
SET NAMES latin1;
-- ERROR 1115 (42000): Unknown character set: 'latin1'
SET NAMES utf8mb4 COLLATE latin1_bin;
-- ERROR 1253 (HY000): COLLATION 'latin1_bin' is not valid for CHARACTER SET 'utf8mb4'
SET NAMES utf8mb4 COLLATE nothing_ci;
-- ERROR 1273 (HY000): Unknown collation: 'nothing_ci'
SET CHARACTER SET utf8mb4;
-- ok, 0 rows
SET character_set_results = NULL;
-- ok, 0 rows
SET character_set_client = latin1;
-- ERROR 1115 (42000): Unknown character set: 'latin1'
SET character_set_server = utf8mb4;
-- ok, 0 rows
# All or nothing.
SET @a = 1, sql_select_limit = 1, nonsense = 2;
-- ERROR 1193 (HY000): Unknown system variable 'nonsense'
SELECT @a, @@sql_select_limit;
-- [@a, @@sql_select_limit]
-- NULL | 18446744073709551615
SET @a = 5, @b = @a + 1;
-- ok, 0 rows
SELECT @a, @b;
-- [@a, @b]
-- 5 | NULL
# Transactions.
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY;
-- ok, 0 rows
SELECT @@transaction_isolation, @@tx_isolation, @@session.tx_read_only, @@global.tx_isolation;
-- [@@transaction_isolation, @@tx_isolation, @@session.tx_read_only, @@global.tx_isolation]
-- READ-COMMITTED | READ-COMMITTED | 1 | REPEATABLE-READ
SHOW VARIABLES LIKE 'tx_%';
-- [Variable_name, Value]
-- tx_isolation | READ-COMMITTED
-- tx_read_only | ON
SET SESSION TRANSACTION READ WRITE;
-- ok, 0 rows
SET tx_isolation = 'SERIALIZABLE';
-- ok, 0 rows
SELECT @@transaction_isolation, @@transaction_read_only;
-- [@@transaction_isolation, @@transaction_read_only]
-- SERIALIZABLE | 0
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ;
-- ok, 0 rows
SELECT @@transaction_isolation;
-- [@@transaction_isolation]
-- SERIALIZABLE
SET TRANSACTION ISOLATION LEVEL;
-- ERROR 1064 (42000): You have an error in your SQL syntax: near 'ISOLATION LEVEL'
SET TRANSACTION ISOLATION LEVEL READ;
-- ERROR 1064 (42000): You have an error in your SQL syntax: near 'ISOLATION LEVEL'
SET TRANSACTION SNAPSHOT;
-- ERROR 1064 (42000): You have an error in your SQL syntax: near 'snapshot'
SET transaction_isolation = DEFAULT;
-- ok, 0 rows
SET transaction_isolation = 'SOMEHOW';
-- ERROR 1231 (42000): Variable 'transaction_isolation' can't be set to the value of 'SOMEHOW'
# Limits of rows and time.
CREATE TABLE n (id INT PRIMARY KEY AUTO_INCREMENT, a INT, s VARCHAR(10), d DATE, KEY by_a (a));
-- ok, 0 rows
INSERT INTO n (a, s) VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd'), (5, 'e');
-- ok, 5 rows, id 1
SET sql_select_limit = 2;
-- ok, 0 rows
SELECT id FROM n;
-- [id]
-- 1
-- 2
SELECT id FROM n LIMIT 3;
-- [id]
-- 1
-- 2
-- 3
SELECT id FROM n UNION ALL SELECT id FROM n;
-- [id]
-- 1
-- 2
SELECT COUNT(*) FROM (SELECT id FROM n) x;
-- [COUNT(*)]
-- 5
SET sql_select_limit = 0;
-- ok, 0 rows
SELECT id FROM n;
-- [id]
SET sql_select_limit = DEFAULT;
-- ok, 0 rows
SELECT COUNT(*) FROM n;
-- [COUNT(*)]
-- 5
SET sql_select_limit = 'x';
-- ERROR 1232 (HY000): Incorrect argument type to variable 'sql_select_limit'
SELECT SQL_CALC_FOUND_ROWS id FROM n ORDER BY id LIMIT 1, 2;
-- [id]
-- 2
-- 3
SELECT FOUND_ROWS();
-- [FOUND_ROWS()]
-- 5
SELECT SQL_CALC_FOUND_ROWS id FROM n LIMIT 0;
-- [id]
SELECT FOUND_ROWS();
-- [FOUND_ROWS()]
-- 5
SELECT SQL_CALC_FOUND_ROWS id FROM n UNION ALL SELECT id FROM n LIMIT 3;
-- [id]
-- 1
-- 2
-- 3
SELECT FOUND_ROWS();
-- [FOUND_ROWS()]
-- 10
SELECT id FROM n LIMIT 2;
-- [id]
-- 1
-- 2
SELECT FOUND_ROWS();
-- [FOUND_ROWS()]
-- 2
SET group_concat_max_len = 4;
-- ok, 0 rows
SELECT GROUP_CONCAT(s ORDER BY id) FROM n;
-- [GROUP_CONCAT(s ORDER BY id)]
-- a,b,
SHOW WARNINGS;
-- [Level, Code, Message]
-- Warning | 1260 | Row was cut by GROUP_CONCAT()
SET group_concat_max_len = DEFAULT;
-- ok, 0 rows
SET max_execution_time = 1;
-- ok, 0 rows
SELECT COUNT(*) FROM n a, n b, n c, n d, n e, n f, n g, n h, n i, n j WHERE a.a + b.a + c.a + d.a + e.a + f.a + g.a + h.a + i.a + j.a < 0;
-- ERROR 3024 (HY000): Query execution was interrupted, maximum statement execution time exceeded
SELECT SLEEP(1000);
-- [SLEEP(1000)]
-- 1
SET max_execution_time = 0;
-- ok, 0 rows
SET sql_safe_updates = 1;
-- ok, 0 rows
UPDATE n SET s = 'x';
-- ERROR 1175 (HY000): You are using safe update mode and you tried to update a table without a WHERE that uses a KEY column.
UPDATE n SET s = 'x' WHERE s = 'q';
-- ERROR 1175 (HY000): You are using safe update mode and you tried to update a table without a WHERE that uses a KEY column.
UPDATE n SET s = 'x' WHERE id = 1;
-- ok, 1 rows
UPDATE n SET s = 'x' LIMIT 1;
-- ok, 0 rows
DELETE FROM n WHERE s = 'q';
-- ERROR 1175 (HY000): You are using safe update mode and you tried to update a table without a WHERE that uses a KEY column.
DELETE FROM n WHERE a = 77;
-- ok, 0 rows
SET sql_safe_updates = 0;
-- ok, 0 rows
SET auto_increment_increment = 10, auto_increment_offset = 3;
-- ok, 0 rows
INSERT INTO n (a) VALUES (10), (11);
-- ok, 2 rows, id 13
SELECT id FROM n WHERE a >= 10;
-- [id]
-- 13
-- 23
SET auto_increment_increment = DEFAULT, auto_increment_offset = DEFAULT;
-- ok, 0 rows
INSERT INTO n (a) VALUES (12);
-- ok, 1 rows, id 24
SELECT id FROM n WHERE a = 12;
-- [id]
-- 24
# Modes.
SET sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT';
-- ok, 0 rows
SELECT 'a' || 'b' || 1, "id" FROM "n" WHERE "id" = 1;
-- ['a' || 'b' || 1, id]
-- ab1 | 1
SELECT 2 * 3 || 4;
-- [2 * 3 || 4]
-- 68
SET sql_mode = 'NO_BACKSLASH_ESCAPES';
-- ok, 0 rows
SELECT 'a\', LENGTH('\n'), '\%' LIKE '\%', 'a%' LIKE 'a|%' ESCAPE '|';
-- [a\, LENGTH('\n'), '\%' LIKE '\%', 'a%' LIKE 'a|%' ESCAPE '|']
-- a\ | 2 | 1 | 1
SET sql_mode = '';
-- ok, 0 rows
SELECT 1 / 0;
-- [1 / 0]
-- NULL
SHOW COUNT(*) WARNINGS;
-- [@@session.warning_count]
-- 0
INSERT INTO n (d) VALUES ('0000-00-00'), (1 / 0);
-- ok, 2 rows, id 25
SET sql_mode = 'TRADITIONAL';
-- ok, 0 rows
SELECT @@sql_mode;
-- [@@sql_mode]
-- STRICT_TRANS_TABLES,STRICT_ALL_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_CREATE_USER,NO_ENGINE_SUBSTITUTION,TRADITIONAL
SELECT 1 / 0;
-- [1 / 0]
-- NULL
SHOW WARNINGS;
-- [Level, Code, Message]
-- Warning | 1365 | Division by 0
INSERT INTO n (a) VALUES (1 / 0);
-- ERROR 1365 (22012): Division by 0
UPDATE n SET a = a / 0 WHERE id = 1;
-- ERROR 1365 (22012): Division by 0
INSERT IGNORE INTO n (a) VALUES (1 / 0);
-- ok, 1 rows, id 27, 1 warnings
INSERT INTO n (d) VALUES ('0000-00-00');
-- ERROR 1292 (22007): Incorrect date value: '0000-00-00' for column 'd' at row 1
INSERT INTO n (d) VALUES ('2020-00-01');
-- ERROR 1292 (22007): Incorrect date value: '2020-00-01' for column 'd' at row 1
CREATE TABLE e (a INT) ENGINE = InnoDB;
-- ERROR 1286 (42000): Unknown storage engine 'InnoDB'
SET sql_mode = 'REAL_AS_FLOAT';
-- ok, 0 rows
CREATE TABLE e (a REAL, b DOUBLE) ENGINE = InnoDB;
-- ok, 0 rows, 2 warnings
SHOW WARNINGS;
-- [Level, Code, Message]
-- Warning | 1286 | Unknown storage engine 'InnoDB'
-- Warning | 1266 | Using storage engine TIERED for table 'e'
SHOW COLUMNS FROM e;
-- [Field, Type, Null, Key, Default, Extra]
-- a | float | YES |  | NULL | 
-- b | double | YES |  | NULL | 
SET sql_mode = 'ONLY_FULL_GROUP_BY';
-- ok, 0 rows
SELECT a, COUNT(*) FROM n GROUP BY s;
-- ERROR 1055 (HY000): Expression #1 of SELECT list is not in GROUP BY clause and contains nonaggregated column 'test.n.a' which is not functionally dependent on columns in GROUP BY clause; this is incompatible with sql_mode=only_full_group_by
SELECT a, COUNT(*) FROM n;
-- ERROR 1140 (42000): In aggregated query without GROUP BY, expression #1 of SELECT list contains nonaggregated column 'test.n.a'; this is incompatible with sql_mode=only_full_group_by
SELECT id, a, s, COUNT(*) FROM n WHERE id < 3 GROUP BY id;
-- [id, a, s, COUNT(*)]
-- 1 | 1 | x | 1
-- 2 | 2 | b | 1
SELECT a + 1, MAX(s) FROM n WHERE id < 3 GROUP BY a + 1 ORDER BY a + 1;
-- [a + 1, MAX(s)]
-- 2 | x
-- 3 | b
SELECT s, COUNT(*) FROM n WHERE s = 'x' GROUP BY a HAVING a > 0;
-- [s, COUNT(*)]
-- x | 1
SELECT ANY_VALUE(a), s FROM n WHERE id < 3 GROUP BY s ORDER BY s;
-- [ANY_VALUE(a), s]
-- 2 | b
-- 1 | x
SELECT s FROM n GROUP BY s HAVING MAX(a) > 0 ORDER BY a;
-- ERROR 1055 (HY000): Expression #1 of ORDER BY clause is not in GROUP BY clause and contains nonaggregated column 'test.n.a' which is not functionally dependent on columns in GROUP BY clause; this is incompatible with sql_mode=only_full_group_by
SELECT x.a, y.s FROM n x JOIN n y ON x.id = y.id WHERE x.id = 2 GROUP BY y.id;
-- [a, s]
-- 2 | b
SET sql_mode = 'HIGH_NOT_PRECEDENCE';
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'sql_mode HIGH_NOT_PRECEDENCE'
SET sql_mode = 'SOMETHING';
-- ERROR 1231 (42000): Variable 'sql_mode' can't be set to the value of 'SOMETHING'
SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO';
-- ok, 0 rows
SET sql_mode = DEFAULT;
-- ok, 0 rows
SELECT @@sql_mode;
-- [@@sql_mode]
-- STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO
# What cannot be, and what is already.
SET PERSIST sql_safe_updates = 1;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'SET PERSIST'
SET @@persist.sql_safe_updates = 1;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'SET PERSIST'
SET GLOBAL max_connections = 100, SESSION sql_notes = 0;
-- ok, 0 rows
SELECT @@global.max_connections, @@sql_notes;
-- [@@global.max_connections, @@sql_notes]
-- 100 | 0
DROP TABLE IF EXISTS nothing;
-- ok, 0 rows
SET sql_notes = 1;
-- ok, 0 rows
DROP TABLE IF EXISTS nothing;
-- ok, 0 rows, 1 warnings
SHOW WARNINGS;
-- [Level, Code, Message]
-- Note | 1051 | Unknown table 'test.nothing'
SET version = '1';
-- ERROR 1238 (HY000): Variable 'version' is a read only variable
SET @@session.max_connections = 5;
-- ERROR 1229 (HY000): Variable 'max_connections' is a GLOBAL variable and should be set with SET GLOBAL
SET query_cache_type = 1;
-- ERROR 1231 (42000): Variable 'query_cache_type' can't be set to the value of '1'
SET query_cache_type = OFF;
-- ok, 0 rows
SET optimizer_switch = 'mrr=on';
-- ERROR 1231 (42000): Variable 'optimizer_switch' can't be set to the value of 'mrr=on'
SET completion_type = 'CHAIN';
-- ERROR 1231 (42000): Variable 'completion_type' can't be set to the value of 'CHAIN'
SET default_storage_engine = InnoDB;
-- ok, 0 rows, 1 warnings
SHOW WARNINGS;
-- [Level, Code, Message]
-- Warning | 1286 | Unknown storage engine 'InnoDB'
SELECT @@default_storage_engine;
-- [@@default_storage_engine]
-- TIERED
SET GLOBAL autocommit = 0;
-- ok, 0 rows
SELECT @@global.autocommit, @@autocommit;
-- [@@global.autocommit, @@autocommit]
-- 0 | 1
SET GLOBAL autocommit = DEFAULT;
-- ok, 0 rows
SET time_zone = 'Mars/Olympus';
-- ERROR 1298 (HY000): Unknown or incorrect time zone: 'Mars/Olympus'
SET time_zone = '+02:00';
-- ok, 0 rows
SELECT @@time_zone;
-- [@@time_zone]
-- +02:00
SET LAST_INSERT_ID = 77;
-- ok, 0 rows
SELECT LAST_INSERT_ID(), @@identity;
-- [LAST_INSERT_ID(), @@identity]
-- 77 | 77
PREPARE s FROM 'SELECT @@sql_safe_updates, @@last_insert_id';
-- ok, 0 rows
EXECUTE s;
-- [@@sql_safe_updates, @@last_insert_id]
-- 0 | 77
SET sql_safe_updates = 1, last_insert_id = 5;
-- ok, 0 rows
EXECUTE s;
-- [@@sql_safe_updates, @@last_insert_id]
-- 1 | 5
SHOW WARNINGS LIMIT 1;
-- [Level, Code, Message]
SELECT nothing;
-- ERROR 1054 (42S22): Unknown column 'nothing' in 'field list'
SHOW ERRORS;
-- [Level, Code, Message]
-- Error | 1054 | Unknown column 'nothing' in 'field list'
SELECT @@error_count, @@warning_count;
-- [@@error_count, @@warning_count]
-- 1 | 1
INSERT IGNORE INTO n (id) VALUES (1);
-- ok, 0 rows, 1 warnings
SHOW WARNINGS;
-- [Level, Code, Message]
-- Warning | 1062 | Duplicate entry '1' for key 'n.PRIMARY'
SHOW ERRORS;
-- [Level, Code, Message]
