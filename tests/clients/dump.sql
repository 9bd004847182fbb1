-- What mariadb-dump must carry over: every type at its bounds, every kind of index and default.
CREATE TABLE kinds (
  id INT NOT NULL AUTO_INCREMENT,
  a_tiny TINYINT, a_utiny TINYINT UNSIGNED, a_small SMALLINT, a_medium MEDIUMINT UNSIGNED,
  a_big BIGINT, a_ubig BIGINT UNSIGNED, a_bool BOOL,
  a_decimal DECIMAL(30,10), a_float FLOAT, a_double DOUBLE,
  a_char CHAR(10) NOT NULL DEFAULT 'x''y', a_varchar VARCHAR(200) COLLATE utf8mb4_bin, a_text TEXT,
  a_binary BINARY(4), a_varbinary VARBINARY(20), a_blob BLOB,
  a_date DATE, a_time TIME(3), a_datetime DATETIME(6), a_timestamp TIMESTAMP NULL DEFAULT NULL, a_year YEAR,
  a_bit BIT(10), a_enum ENUM('red','green','it''s'), a_set SET('a','b','c'),
  changed TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (id),
  UNIQUE KEY by_ubig (a_ubig),
  KEY by_two (a_small, a_varchar(20))
) COMMENT='all of them';
INSERT INTO kinds VALUES
 (1, -128, 255, -32768, 16777215, -9223372036854775808, 18446744073709551615, 1,
  -12345678901234567890.0123456789, 1.5, -1.7976931348623157e308, 'abc', 'Grüße 🌊', 'line\nbreak\tand \\ and \'',
  x'00FF0102', x'0027225C', x'DEADBEEF00', '2024-02-29', '-838:59:59.000', '9999-12-31 23:59:59.999999',
  '2038-01-19 03:14:07', 2155, b'1010101010', 'it''s', 'a,c', '2026-01-01 00:00:00'),
 (7, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '', NULL, NULL, NULL, NULL, NULL, NULL, NULL,
  NULL, NULL, NULL, NULL, NULL, NULL, '2026-01-02 03:04:05');
CREATE TABLE plain (word VARCHAR(20), n INT DEFAULT 5);
INSERT INTO plain VALUES ('a', 1), ('a', 1), (NULL, NULL);
CREATE TABLE compound (a INT, b VARCHAR(10), c INT NOT NULL DEFAULT 0, PRIMARY KEY (b, a), KEY (c));
INSERT INTO compound (a, b) VALUES (1, 'one'), (2, 'two'), (1, 'two');
CREATE TABLE in_memory (id INT AUTO_INCREMENT PRIMARY KEY, word VARCHAR(20), KEY (word)) ENGINE=MEMORY_OPTIMIZED;
INSERT INTO in_memory (word) VALUES ('a'), (NULL), ('c');
