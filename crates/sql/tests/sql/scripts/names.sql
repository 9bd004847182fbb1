# Names that no database, table, column or index has, and the limits of the others.
CREATE TABLE live (a INT, KEY i (a));
-- ok, 0 rows
# Tables.
CREATE TABLE `` (a INT);
-- ERROR 1103 (42000): Incorrect table name ''
CREATE TABLE `end ` (a INT);
-- ERROR 1103 (42000): Incorrect table name 'end '
CREATE TABLE `äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää` (a INT);
-- ERROR 1059 (42000): Identifier name 'äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää' is too long
CREATE TABLE IF NOT EXISTS `` (a INT);
-- ERROR 1103 (42000): Incorrect table name ''
CREATE TABLE `` LIKE live;
-- ERROR 1103 (42000): Incorrect table name ''
CREATE TABLE l LIKE ``;
-- ERROR 1103 (42000): Incorrect table name ''
RENAME TABLE live TO ``;
-- ERROR 1103 (42000): Incorrect table name ''
RENAME TABLE live TO `end `;
-- ERROR 1103 (42000): Incorrect table name 'end '
RENAME TABLE live TO `äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää`;
-- ERROR 1059 (42000): Identifier name 'äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää' is too long
RENAME TABLE `` TO other;
-- ERROR 1103 (42000): Incorrect table name ''
RENAME TABLE live TO ``.live;
-- ERROR 1102 (42000): Incorrect database name ''
ALTER TABLE live RENAME TO ``;
-- ERROR 1103 (42000): Incorrect table name ''
ALTER TABLE live RENAME TO `end `;
-- ERROR 1103 (42000): Incorrect table name 'end '
ALTER TABLE live RENAME TO `äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää`;
-- ERROR 1059 (42000): Identifier name 'äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää' is too long
ALTER TABLE live RENAME AS `end `.x;
-- ERROR 1102 (42000): Incorrect database name 'end '
ALTER TABLE `` ADD b INT;
-- ERROR 1103 (42000): Incorrect table name ''
DROP TABLE ``;
-- ERROR 1103 (42000): Incorrect table name ''
DROP TABLE `end `;
-- ERROR 1103 (42000): Incorrect table name 'end '
DROP TABLE `äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää`;
-- ERROR 1059 (42000): Identifier name 'äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää' is too long
DROP TABLE IF EXISTS ``;
-- ERROR 1103 (42000): Incorrect table name ''
DROP TABLE live, ``;
-- ERROR 1103 (42000): Incorrect table name ''
TRUNCATE TABLE ``;
-- ERROR 1103 (42000): Incorrect table name ''
CREATE INDEX j ON `` (a);
-- ERROR 1103 (42000): Incorrect table name ''
DROP INDEX j ON ``;
-- ERROR 1103 (42000): Incorrect table name ''
SELECT * FROM ``;
-- ERROR 1103 (42000): Incorrect table name ''
SELECT * FROM `end `;
-- ERROR 1103 (42000): Incorrect table name 'end '
SELECT * FROM `äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää`;
-- ERROR 1059 (42000): Identifier name 'äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää' is too long
INSERT INTO `` VALUES (1);
-- ERROR 1103 (42000): Incorrect table name ''
UPDATE `` SET a = 1;
-- ERROR 1103 (42000): Incorrect table name ''
DELETE FROM ``;
-- ERROR 1103 (42000): Incorrect table name ''
LOCK TABLES `` READ;
-- ERROR 1103 (42000): Incorrect table name ''
SHOW COLUMNS FROM ``;
-- ERROR 1103 (42000): Incorrect table name ''
SHOW CREATE TABLE ``;
-- ERROR 1103 (42000): Incorrect table name ''
SELECT * FROM ``.live;
-- ERROR 1102 (42000): Incorrect database name ''
# Two names that change places, and a table that is named twice.
CREATE TABLE other (a INT);
-- ok, 0 rows
RENAME TABLE live TO third, other TO live, third TO other;
-- ok, 0 rows
RENAME TABLE live TO other, other TO live;
-- ERROR 1050 (42S01): Table 'other' already exists
RENAME TABLE live TO live;
-- ERROR 1050 (42S01): Table 'live' already exists
ALTER TABLE live RENAME TO live;
-- ok, 0 rows
CREATE TABLE live LIKE live;
-- ERROR 1050 (42S01): Table 'live' already exists
DROP TABLE other, other;
-- ok, 0 rows
RENAME TABLE live TO other;
-- ok, 0 rows
DROP TABLE IF EXISTS live, other, live;
-- ok, 0 rows, 1 warnings
CREATE TABLE live (a INT, KEY i (a));
-- ok, 0 rows
LOCK TABLES live READ, live AS l WRITE;
-- ok, 0 rows
INSERT INTO live VALUES (1);
-- ok, 1 rows
UNLOCK TABLES;
-- ok, 0 rows
# Databases.
CREATE DATABASE ``;
-- ERROR 1102 (42000): Incorrect database name ''
CREATE DATABASE `end `;
-- ERROR 1102 (42000): Incorrect database name 'end '
CREATE DATABASE `äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää`;
-- ERROR 1059 (42000): Identifier name 'äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää' is too long
CREATE DATABASE IF NOT EXISTS ``;
-- ERROR 1102 (42000): Incorrect database name ''
CREATE SCHEMA ``;
-- ERROR 1102 (42000): Incorrect database name ''
DROP DATABASE ``;
-- ERROR 1102 (42000): Incorrect database name ''
DROP DATABASE `end `;
-- ERROR 1102 (42000): Incorrect database name 'end '
DROP DATABASE `äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää`;
-- ERROR 1059 (42000): Identifier name 'äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää' is too long
DROP DATABASE IF EXISTS ``;
-- ERROR 1102 (42000): Incorrect database name ''
ALTER DATABASE `` COLLATE utf8mb4_bin;
-- ERROR 1102 (42000): Incorrect database name ''
USE ``;
-- ERROR 1046 (3D000): No database selected
USE `end `;
-- ERROR 1102 (42000): Incorrect database name 'end '
USE `äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää`;
-- ERROR 1059 (42000): Identifier name 'äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää' is too long
SHOW TABLES FROM ``;
-- ERROR 1102 (42000): Incorrect database name ''
CREATE TABLE ``.t (a INT);
-- ERROR 1102 (42000): Incorrect database name ''
CREATE TABLE `end `.t (a INT);
-- ERROR 1102 (42000): Incorrect database name 'end '
CREATE TABLE `äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää`.t (a INT);
-- ERROR 1059 (42000): Identifier name 'äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää' is too long
CREATE DATABASE `ääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää`;
-- ok, 0 rows
CREATE TABLE `ääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää`.`ääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää` (`ääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää` INT, KEY `ääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää` (`ääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää`));
-- ok, 0 rows
DROP DATABASE `ääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää`;
-- ok, 0 rows
# Columns.
CREATE TABLE x (`` INT);
-- ERROR 1166 (42000): Incorrect column name ''
CREATE TABLE x (`end ` INT);
-- ERROR 1166 (42000): Incorrect column name 'end '
CREATE TABLE x (`äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää` INT);
-- ERROR 1059 (42000): Identifier name 'äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää' is too long
CREATE TABLE x (a INT, `` INT);
-- ERROR 1166 (42000): Incorrect column name ''
ALTER TABLE live ADD COLUMN `` INT;
-- ERROR 1166 (42000): Incorrect column name ''
ALTER TABLE live ADD COLUMN `end ` INT;
-- ERROR 1166 (42000): Incorrect column name 'end '
ALTER TABLE live ADD COLUMN `äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää` INT;
-- ERROR 1059 (42000): Identifier name 'äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää' is too long
ALTER TABLE live ADD (b INT, `` INT);
-- ERROR 1166 (42000): Incorrect column name ''
ALTER TABLE live CHANGE a `` INT;
-- ERROR 1166 (42000): Incorrect column name ''
ALTER TABLE live CHANGE a `end ` INT;
-- ERROR 1166 (42000): Incorrect column name 'end '
ALTER TABLE live CHANGE a `äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää` INT;
-- ERROR 1059 (42000): Identifier name 'äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää' is too long
ALTER TABLE live RENAME COLUMN a TO ``;
-- ERROR 1166 (42000): Incorrect column name ''
ALTER TABLE live RENAME COLUMN a TO `end `;
-- ERROR 1166 (42000): Incorrect column name 'end '
ALTER TABLE live RENAME COLUMN a TO `äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää`;
-- ERROR 1059 (42000): Identifier name 'äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää' is too long
ALTER TABLE live MODIFY `` INT;
-- ERROR 1054 (42S22): Unknown column '' in 'live'
ALTER TABLE live DROP COLUMN ``;
-- ERROR 1091 (42000): Can't DROP ''; check that column/key exists
SELECT `` FROM live;
-- ERROR 1054 (42S22): Unknown column '' in 'field list'
# Indexes and constraints. A CHECK with an empty name is given one, and a primary key has none.
CREATE TABLE x (a INT, KEY `` (a));
-- ERROR 1280 (42000): Incorrect index name ''
CREATE TABLE x (a INT, KEY `end ` (a));
-- ERROR 1280 (42000): Incorrect index name 'end '
CREATE TABLE x (a INT, KEY `äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää` (a));
-- ERROR 1059 (42000): Identifier name 'äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää' is too long
CREATE TABLE x (a INT, UNIQUE KEY `` (a));
-- ERROR 1280 (42000): Incorrect index name ''
CREATE TABLE x (a INT, UNIQUE KEY `end ` (a));
-- ERROR 1280 (42000): Incorrect index name 'end '
CREATE TABLE x (a INT, UNIQUE KEY `äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää` (a));
-- ERROR 1059 (42000): Identifier name 'äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää' is too long
CREATE TABLE x (a INT, CONSTRAINT `` UNIQUE (a));
-- ERROR 1280 (42000): Incorrect index name ''
CREATE TABLE x (a INT, CONSTRAINT `end ` UNIQUE (a));
-- ERROR 1280 (42000): Incorrect index name 'end '
CREATE TABLE x (a INT, CONSTRAINT `äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää` UNIQUE (a));
-- ERROR 1059 (42000): Identifier name 'äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää' is too long
CREATE INDEX `` ON live (a);
-- ERROR 1280 (42000): Incorrect index name ''
CREATE INDEX `end ` ON live (a);
-- ERROR 1280 (42000): Incorrect index name 'end '
CREATE INDEX `äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää` ON live (a);
-- ERROR 1059 (42000): Identifier name 'äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää' is too long
CREATE UNIQUE INDEX `` ON live (a);
-- ERROR 1280 (42000): Incorrect index name ''
ALTER TABLE live ADD INDEX `` (a);
-- ERROR 1280 (42000): Incorrect index name ''
ALTER TABLE live ADD INDEX `end ` (a);
-- ERROR 1280 (42000): Incorrect index name 'end '
ALTER TABLE live ADD INDEX `äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää` (a);
-- ERROR 1059 (42000): Identifier name 'äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää' is too long
ALTER TABLE live ADD CONSTRAINT `` UNIQUE (a);
-- ERROR 1280 (42000): Incorrect index name ''
ALTER TABLE live RENAME INDEX i TO ``;
-- ERROR 1280 (42000): Incorrect index name ''
ALTER TABLE live RENAME INDEX i TO `end `;
-- ERROR 1280 (42000): Incorrect index name 'end '
ALTER TABLE live RENAME INDEX i TO `äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää`;
-- ERROR 1059 (42000): Identifier name 'äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää' is too long
DROP INDEX `` ON live;
-- ERROR 1091 (42000): Can't DROP ''; check that column/key exists
ALTER TABLE live DROP INDEX ``;
-- ERROR 1091 (42000): Can't DROP ''; check that column/key exists
CREATE TABLE x (a INT, CONSTRAINT `` FOREIGN KEY (a) REFERENCES live (a));
-- ERROR 1280 (42000): Incorrect index name ''
CREATE TABLE x (a INT, CONSTRAINT `end ` FOREIGN KEY (a) REFERENCES live (a));
-- ERROR 1280 (42000): Incorrect index name 'end '
CREATE TABLE x (a INT, CONSTRAINT `äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää` FOREIGN KEY (a) REFERENCES live (a));
-- ERROR 1059 (42000): Identifier name 'äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää' is too long
CREATE TABLE x (a INT, CONSTRAINT `äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää` PRIMARY KEY (a));
-- ERROR 1059 (42000): Identifier name 'äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää' is too long
CREATE TABLE x (a INT, CONSTRAINT `` PRIMARY KEY (a));
-- ok, 0 rows
DROP TABLE x;
-- ok, 0 rows
CREATE TABLE x (a INT, CONSTRAINT `äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää` CHECK (a > 0));
-- ERROR 1059 (42000): Identifier name 'äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää' is too long
CREATE TABLE x (a INT, CONSTRAINT `` CHECK (a > 0));
-- ok, 0 rows
INSERT INTO x VALUES (0);
-- ERROR 3819 (23000): Check constraint 'x_chk_1' is violated.
ALTER TABLE x DROP CONSTRAINT x_chk_1;
-- ok, 0 rows
DROP TABLE x;
-- ok, 0 rows
CREATE TABLE x (a INT CONSTRAINT `äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää` CHECK (a > 0));
-- ERROR 1059 (42000): Identifier name 'äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää' is too long
ALTER TABLE live ADD CONSTRAINT `äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää` CHECK (a > 0);
-- ERROR 1059 (42000): Identifier name 'äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää' is too long
# Accounts.
CREATE USER `üüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüü`;
-- ok, 0 rows
CREATE USER `üüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüü`;
-- ERROR 1470 (HY000): String 'üüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüü' is too long for user name (should be no longer than 32)
CREATE USER IF NOT EXISTS `üüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüü`;
-- ERROR 1470 (HY000): String 'üüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüü' is too long for user name (should be no longer than 32)
GRANT SELECT ON *.* TO `üüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüü`;
-- ERROR 1470 (HY000): String 'üüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüü' is too long for user name (should be no longer than 32)
DROP USER `üüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüü`;
-- ERROR 1470 (HY000): String 'üüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüü' is too long for user name (should be no longer than 32)
CREATE USER u@`hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh`;
-- ERROR 1470 (HY000): String 'hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh' is too long for host name (should be no longer than 255)
DROP USER `üüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüü`;
-- ok, 0 rows
# Savepoints, prepared statements, user variables and aliases have limits alone.
SAVEPOINT ``;
-- ok, 0 rows
SAVEPOINT `ääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää`;
-- ok, 0 rows
SAVEPOINT `äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää`;
-- ERROR 1059 (42000): Identifier name 'äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää' is too long
PREPARE `` FROM 'SELECT 1';
-- ok, 0 rows
PREPARE `ääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää` FROM 'SELECT 1';
-- ok, 0 rows
PREPARE `äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää` FROM 'SELECT 1';
-- ERROR 1059 (42000): Identifier name 'äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää' is too long
SET @`äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää` = 1;
-- ERROR 3061 (42000): User variable name 'äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää' is illegal
SET @`` = 1;
-- ERROR 3061 (42000): User variable name '' is illegal
SELECT @`äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää`;
-- ERROR 3061 (42000): User variable name 'äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää' is illegal
SELECT @`äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää` := 1;
-- ERROR 1064 (42000): You have an error in your SQL syntax: near '@äääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää :='
SET @`ääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää` = 1;
-- ok, 0 rows
SELECT @`ääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääääää` + 1 AS two;
-- [two]
-- 2
SELECT 1 AS `zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz`;
-- [zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz]
-- 1
SELECT 1 AS `zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz`;
-- ERROR 1059 (42000): Identifier name 'zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz' is too long
SELECT 1 FROM live AS `zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz`;
-- [1]
-- 1
SELECT 1 FROM live AS `zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz`;
-- ERROR 1059 (42000): Identifier name 'zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz' is too long
SELECT 1 FROM (SELECT 1) AS `zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz`;
-- ERROR 1059 (42000): Identifier name 'zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz' is too long
WITH `zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz` AS (SELECT 1) SELECT 1;
-- ERROR 1059 (42000): Identifier name 'zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz' is too long
SELECT 1 AS ``, 2 AS 'end ';
-- [, end ]
-- 1 | 2
UPDATE live AS `zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz` SET a = 1;
-- ERROR 1059 (42000): Identifier name 'zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz' is too long
# Characters that no name has.
CREATE TABLE `a😀` (a INT);
-- ERROR 1300 (HY000): Invalid utf8mb3 character string: '\xF0\x9F\x98\x80'
CREATE TABLE x (`a😀` INT);
-- ERROR 1300 (HY000): Invalid utf8mb3 character string: '\xF0\x9F\x98\x80'
SELECT 1 AS `a😀`;
-- ERROR 1300 (HY000): Invalid utf8mb3 character string: '\xF0\x9F\x98\x80'
SELECT 'a😀' AS 'a😀';
-- [a😀]
-- a😀
SELECT @`a😀`;
-- ERROR 1300 (HY000): Invalid utf8mb3 character string: '\xF0\x9F\x98\x80'
CREATE TABLE ` a ` (`a b/c` INT);
-- ok, 0 rows
DROP TABLE ` a `;
-- ok, 0 rows
# Nobody waits for any of these.
CREATE TABLE after_all (a INT);
-- ok, 0 rows
DROP TABLE live, after_all;
-- ok, 0 rows
