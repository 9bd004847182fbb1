# What SHOW and information_schema tell, in MySQL's names.
CREATE TABLE parent (id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, name VARCHAR(40) NOT NULL DEFAULT 'x''y' COMMENT 'the name', price DECIMAL(10,2), KEY by_price (price), UNIQUE KEY u (name));
-- ok, 0 rows
SHOW TABLES LIKE 'par%';
-- [Tables_in_test (par%)]
-- parent
SHOW FULL TABLES WHERE Table_type = 'BASE TABLE' AND Tables_in_test LIKE 'p%';
-- [Tables_in_test, Table_type]
-- parent | BASE TABLE
SHOW DATABASES LIKE 'te%';
-- [Database (te%)]
-- test
SHOW COLUMNS FROM parent WHERE Field IN ('id', 'name') AND `Null` = 'NO';
-- [Field, Type, Null, Key, Default, Extra]
-- id | int unsigned | NO | PRI | NULL | auto_increment
-- name | varchar(40) | NO | UNI | x'y | 
DESC parent name;
-- [Field, Type, Null, Key, Default, Extra]
-- name | varchar(40) | NO | UNI | x'y | 
DESCRIBE parent 'p%';
-- [Field, Type, Null, Key, Default, Extra]
-- price | decimal(10,2) | YES | MUL | NULL | 
SHOW KEYS FROM parent WHERE Key_name = 'PRIMARY';
-- [Table, Non_unique, Key_name, Seq_in_index, Column_name, Collation, Cardinality, Sub_part, Packed, Null, Index_type, Comment, Index_comment, Visible, Expression]
-- parent | 0 | PRIMARY | 1 | id | A | 0 | NULL | NULL |  | BTREE |  |  | YES | NULL
SHOW COLLATION WHERE Id > 45 AND Charset = 'utf8mb4';
-- [Collation, Charset, Id, Default, Compiled, Sortlen, Pad_attribute]
-- utf8mb4_bin | utf8mb4 | 46 |  | Yes | 1 | PAD SPACE
-- utf8mb4_unicode_ci | utf8mb4 | 224 |  | Yes | 1 | PAD SPACE
-- utf8mb4_unicode_520_ci | utf8mb4 | 246 |  | Yes | 1 | PAD SPACE
-- utf8mb4_0900_ai_ci | utf8mb4 | 255 |  | Yes | 1 | NO PAD
-- utf8mb4_0900_as_ci | utf8mb4 | 305 |  | Yes | 1 | NO PAD
-- utf8mb4_0900_as_cs | utf8mb4 | 278 |  | Yes | 1 | NO PAD
-- utf8mb4_0900_bin | utf8mb4 | 309 |  | Yes | 1 | NO PAD
SELECT COLLATION_NAME FROM information_schema.collation_character_set_applicability WHERE CHARACTER_SET_NAME = 'utf8mb4' ORDER BY 1;
-- [COLLATION_NAME]
-- utf8mb4_0900_ai_ci
-- utf8mb4_0900_as_ci
-- utf8mb4_0900_as_cs
-- utf8mb4_0900_bin
-- utf8mb4_bin
-- utf8mb4_general_ci
-- utf8mb4_unicode_520_ci
-- utf8mb4_unicode_ci
SELECT COLUMN_NAME, COLUMN_KEY, EXTRA FROM information_schema.columns WHERE TABLE_NAME = 'parent' ORDER BY ORDINAL_POSITION;
-- [COLUMN_NAME, COLUMN_KEY, EXTRA]
-- id | PRI | auto_increment
-- name | UNI | 
-- price | MUL | 
SELECT CONSTRAINT_NAME, CONSTRAINT_TYPE FROM information_schema.table_constraints WHERE TABLE_NAME = 'parent' ORDER BY 1;
-- [CONSTRAINT_NAME, CONSTRAINT_TYPE]
-- PRIMARY | PRIMARY KEY
-- u | UNIQUE
SELECT COUNT(*) FROM information_schema.triggers;
-- [COUNT(*)]
-- 0
