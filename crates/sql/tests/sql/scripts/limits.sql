# The variables that limit connections are numbers within bounds.
SET wait_timeout = 'soon';
-- ERROR 1232 (HY000): Incorrect argument type to variable 'wait_timeout'
SET wait_timeout = 0;
-- ok, 0 rows, 1 warnings
SHOW WARNINGS;
-- [Level, Code, Message]
-- Warning | 1292 | Truncated incorrect wait_timeout value: '0'
SELECT @@wait_timeout;
-- [@@wait_timeout]
-- 1
SET max_allowed_packet = 1024;
-- ERROR 1621 (HY000): SESSION variable 'max_allowed_packet' is read-only. Use SET GLOBAL to assign the value
SET max_connections = 1;
-- ERROR 1229 (HY000): Variable 'max_connections' is a GLOBAL variable and should be set with SET GLOBAL
SET GLOBAL max_allowed_packet = 1;
-- ok, 0 rows, 1 warnings
SELECT @@global.max_allowed_packet, @@max_allowed_packet;
-- [@@global.max_allowed_packet, @@max_allowed_packet]
-- 1024 | 67108864
SET GLOBAL max_connections = DEFAULT;
-- ok, 0 rows
SET have_ssl = 'YES';
-- ERROR 1238 (HY000): Variable 'have_ssl' is a read only variable
SHOW VARIABLES LIKE 'have_ssl';
-- [Variable_name, Value]
-- have_ssl | DISABLED
