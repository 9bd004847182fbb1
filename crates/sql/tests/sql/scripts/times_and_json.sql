# Units of TIMESTAMPADD and TIMESTAMPDIFF, and of INTERVAL and EXTRACT, by ODBC's names; other words are refused.
select timestampadd(SQL_TSI_SECOND,1,'2026-03-04'), timestampadd(SQL_TSI_DAY,1,'2026-03-04'), timestampadd(sql_tsi_month,1,'2026-01-31'), timestampadd(SQL_TSI_YEAR,1,'2024-02-29'), timestampadd(SQL_TSI_QUARTER,1,'2026-03-04'), timestampadd(SQL_TSI_WEEK,1,'2026-03-04'), timestampadd(SQL_TSI_HOUR,1,'2026-03-04'), timestampadd(SQL_TSI_MINUTE,1,'2026-03-04');
-- [timestampadd(SQL_TSI_SECOND,1,'2026-03-04'), timestampadd(SQL_TSI_DAY,1,'2026-03-04'), timestampadd(sql_tsi_month,1,'2026-01-31'), timestampadd(SQL_TSI_YEAR,1,'2024-02-29'), timestampadd(SQL_TSI_QUARTER,1,'2026-03-04'), timestampadd(SQL_TSI_WEEK,1,'2026-03-04'), timestampadd(SQL_TSI_HOUR,1,'2026-03-04'), timestampadd(SQL_TSI_MINUTE,1,'2026-03-04')]
-- 2026-03-04 00:00:01 | 2026-03-05 | 2026-02-28 | 2025-02-28 | 2026-06-04 | 2026-03-11 | 2026-03-04 01:00:00 | 2026-03-04 00:01:00
select timestampadd(microsecond,1,'2026-03-04');
-- [timestampadd(microsecond,1,'2026-03-04')]
-- 2026-03-04 00:00:00.000001
select timestampadd(SQL_TSI_FRAC_SECOND,1,'2026-03-04');
-- ERROR 1064 (42000): You have an error in your SQL syntax: near 'SQL_TSI_FRAC_SECOND'
select timestampadd(FRAC_SECOND,1,'2026-03-04');
-- ERROR 1064 (42000): You have an error in your SQL syntax: near 'FRAC_SECOND'
select timestampadd(foo,1,'2026-03-04');
-- ERROR 1064 (42000): You have an error in your SQL syntax: near 'foo'
select timestampadd(days,1,'2026-03-04');
-- ERROR 1064 (42000): You have an error in your SQL syntax: near 'days'
select timestampadd(day_hour,1,'2026-03-04');
-- ERROR 1064 (42000): You have an error in your SQL syntax: near 'day_hour'
select timestampadd('day',1,'2026-03-04');
-- ERROR 1064 (42000): You have an error in your SQL syntax: near ''day''
select timestampdiff(SQL_TSI_DAY,'2026-03-04','2026-03-09'), timestampdiff(sql_tsi_hour,'2026-03-04','2026-03-09'), timestampdiff(SQL_TSI_MONTH,'2026-03-04','2026-05-09');
-- [timestampdiff(SQL_TSI_DAY,'2026-03-04','2026-03-09'), timestampdiff(sql_tsi_hour,'2026-03-04','2026-03-09'), timestampdiff(SQL_TSI_MONTH,'2026-03-04','2026-05-09')]
-- 5 | 120 | 2
select timestampdiff(foo,'2026-03-04','2026-03-09');
-- ERROR 1064 (42000): You have an error in your SQL syntax: near 'foo'
select timestampdiff(days,'2026-03-04','2026-03-09');
-- ERROR 1064 (42000): You have an error in your SQL syntax: near 'days'
select date_add('2026-03-04', interval 1 SQL_TSI_DAY), '2026-03-04' + interval 2 sql_tsi_hour, extract(SQL_TSI_DAY from '2026-03-04');
-- [date_add('2026-03-04', interval 1 SQL_TSI_DAY), '2026-03-04' + interval 2 sql_tsi_hour, extract(SQL_TSI_DAY from '2026-03-04')]
-- 2026-03-05 | 2026-03-04 02:00:00 | 4
select date_add('2026-03-04', interval 1 foo);
-- ERROR 1064 (42000): You have an error in your SQL syntax: sql parser error: Expected: a unit of time, found: foo
select date_add('2026-03-04', interval 1 days);
-- ERROR 1064 (42000): You have an error in your SQL syntax: sql parser error: Expected: a unit of time, found: days
select extract(foo from '2026-03-04');
-- ERROR 1064 (42000): You have an error in your SQL syntax: sql parser error: Expected: a unit of time, found: foo
select timestampadd(DAY,1,date '2026-03-04'), timestampadd(SQL_TSI_HOUR,1,date '2026-03-04'), timestampadd(SQL_TSI_DAY, 1.5, '2026-03-04');
-- [timestampadd(DAY,1,date '2026-03-04'), timestampadd(SQL_TSI_HOUR,1,date '2026-03-04'), timestampadd(SQL_TSI_DAY, 1.5, '2026-03-04')]
-- 2026-03-05 | 2026-03-04 01:00:00 | 2026-03-06
# Weeks in STR_TO_DATE.
select str_to_date('202610 Friday','%X%V %W'), str_to_date('2016_01 Monday','%X_%V %W'), str_to_date('200442 Monday', '%X%V %W'), str_to_date('200442', '%X%V'), str_to_date('200442 Sun', '%X%V %a'), str_to_date('2004 42 0', '%X %V %w'), str_to_date('2004 42 6', '%X %V %w'), str_to_date('2004 42 7', '%X %V %w');
-- [str_to_date('202610 Friday','%X%V %W'), str_to_date('2016_01 Monday','%X_%V %W'), str_to_date('200442 Monday', '%X%V %W'), str_to_date('200442', '%X%V'), str_to_date('200442 Sun', '%X%V %a'), str_to_date('2004 42 0', '%X %V %w'), str_to_date('2004 42 6', '%X %V %w'), str_to_date('2004 42 7', '%X %V %w')]
-- 2026-03-13 | 2016-01-04 | 2004-10-18 | 0000-00-00 | 2004-10-17 | 2004-10-17 | 2004-10-23 | NULL
select str_to_date('2004 42 Monday', '%x %v %W'), str_to_date('2004 42 Sunday', '%x %v %W'), str_to_date('2004 42 Monday', '%Y %U %W'), str_to_date('2004 42 Monday', '%Y %u %W'), str_to_date('2004 42 Sunday', '%Y %U %W'), str_to_date('2004 42 Sunday', '%Y %u %W'), str_to_date('2004 00 Sunday', '%Y %U %W'), str_to_date('2004 00 Sunday', '%X %V %W');
-- [str_to_date('2004 42 Monday', '%x %v %W'), str_to_date('2004 42 Sunday', '%x %v %W'), str_to_date('2004 42 Monday', '%Y %U %W'), str_to_date('2004 42 Monday', '%Y %u %W'), str_to_date('2004 42 Sunday', '%Y %U %W'), str_to_date('2004 42 Sunday', '%Y %u %W'), str_to_date('2004 00 Sunday', '%Y %U %W'), str_to_date('2004 00 Sunday', '%X %V %W')]
-- 2004-10-11 | 2004-10-17 | 2004-10-18 | 2004-10-11 | 2004-10-17 | 2004-10-17 | 2003-12-28 | NULL
select str_to_date('2004 42 Monday', '%x %V %W'), str_to_date('2004 42 Monday', '%X %v %W'), str_to_date('2004 42 Monday', '%Y %V %W'), str_to_date('2004 42 Monday', '%X %U %W'), str_to_date('2004 54 Monday', '%X %V %W'), str_to_date('2004 53 Monday', '%X %V %W'), str_to_date('2004 01 Sunday', '%X %V %W'), str_to_date('2005 01 Saturday', '%x %v %W');
-- [str_to_date('2004 42 Monday', '%x %V %W'), str_to_date('2004 42 Monday', '%X %v %W'), str_to_date('2004 42 Monday', '%Y %V %W'), str_to_date('2004 42 Monday', '%X %U %W'), str_to_date('2004 54 Monday', '%X %V %W'), str_to_date('2004 53 Monday', '%X %V %W'), str_to_date('2004 01 Sunday', '%X %V %W'), str_to_date('2005 01 Saturday', '%x %v %W')]
-- NULL | NULL | NULL | NULL | NULL | 2005-01-03 | 2004-01-04 | 2005-01-08
select str_to_date('2004-10-17 42', '%Y-%m-%d %U'), str_to_date('2004-10-17 Monday', '%Y-%m-%d %W'), str_to_date('Monday 2004-10-17', '%W %Y-%m-%d'), str_to_date('2004-10-17 1', '%Y-%m-%d %w'), str_to_date('17th October 2004', '%D %M %Y'), str_to_date('2004 100', '%Y %j'), str_to_date('2004 0', '%Y %j'), str_to_date('2004 367', '%Y %j');
-- [str_to_date('2004-10-17 42', '%Y-%m-%d %U'), str_to_date('2004-10-17 Monday', '%Y-%m-%d %W'), str_to_date('Monday 2004-10-17', '%W %Y-%m-%d'), str_to_date('2004-10-17 1', '%Y-%m-%d %w'), str_to_date('17th October 2004', '%D %M %Y'), str_to_date('2004 100', '%Y %j'), str_to_date('2004 0', '%Y %j'), str_to_date('2004 367', '%Y %j')]
-- 2004-10-17 | 2004-10-17 | 2004-10-17 | 2004-10-17 | 2004-10-17 | 2004-04-09 | NULL | 2005-01-01
select str_to_date('abc 2004-10-17', '%@ %Y-%m-%d'), str_to_date('...2004-10-17', '%.%Y-%m-%d'), str_to_date('123x2004-10-17', '%#x%Y-%m-%d'), str_to_date('2004-10-17', '%Q'), str_to_date('%2004', '%%%Y'), str_to_date('2004.10.17', '%Y.%m.%d'), str_to_date('04-10-17', '%Y-%m-%d'), str_to_date('4-10-17', '%Y-%m-%d'), str_to_date('104-10-17', '%Y-%m-%d');
-- [str_to_date('abc 2004-10-17', '%@ %Y-%m-%d'), str_to_date('...2004-10-17', '%.%Y-%m-%d'), str_to_date('123x2004-10-17', '%#x%Y-%m-%d'), str_to_date('2004-10-17', '%Q'), str_to_date('%2004', '%%%Y'), str_to_date('2004.10.17', '%Y.%m.%d'), str_to_date('04-10-17', '%Y-%m-%d'), str_to_date('4-10-17', '%Y-%m-%d'), str_to_date('104-10-17', '%Y-%m-%d')]
-- 2004-10-17 | 2004-10-17 | 2004-10-17 | NULL | NULL | 2004-10-17 | 2004-10-17 | 2004-10-17 | 0104-10-17
select str_to_date('10:11:12 PM', '%r'), str_to_date('22:11:12', '%T'), str_to_date('10:11 AM', '%h:%i %p'), str_to_date('10 PM', '%H %p'), str_to_date('13 PM', '%h %p'), str_to_date('12 AM', '%h %p'), str_to_date('1.5', '%s.%f'), str_to_date('2004-10-17 10', '%Y-%m-%d %H'), str_to_date('2004-10', '%Y-%m'), str_to_date('10', '%d'), str_to_date('', '%Y'), str_to_date('2004-10-17 25:00:00', '%Y-%m-%d %T');
-- [str_to_date('10:11:12 PM', '%r'), str_to_date('22:11:12', '%T'), str_to_date('10:11 AM', '%h:%i %p'), str_to_date('10 PM', '%H %p'), str_to_date('13 PM', '%h %p'), str_to_date('12 AM', '%h %p'), str_to_date('1.5', '%s.%f'), str_to_date('2004-10-17 10', '%Y-%m-%d %H'), str_to_date('2004-10', '%Y-%m'), str_to_date('10', '%d'), str_to_date('', '%Y'), str_to_date('2004-10-17 25:00:00', '%Y-%m-%d %T')]
-- 22:11:12 | 22:11:12 | 10:11:00 | NULL | NULL | 00:00:00 | 00:00:01.500000 | 2004-10-17 10:00:00 | NULL | NULL | 0000-00-00 | NULL
select str_to_date('2004-10-17abc', '%Y-%m-%d'), str_to_date('2004-10-17', '%Y-%m-%d %H:%i'), str_to_date(null, '%Y'), str_to_date('2004', null), str_to_date('Sat 2026-03-07', '%a %Y-%m-%d'), str_to_date('2026-Mar-07', '%Y-%b-%d'), str_to_date('2026-March-07', '%Y-%M-%d'), str_to_date('9', '%m'), str_to_date('2026-13-07','%Y-%m-%d');
-- [str_to_date('2004-10-17abc', '%Y-%m-%d'), str_to_date('2004-10-17', '%Y-%m-%d %H:%i'), str_to_date(null, '%Y'), str_to_date('2004', null), str_to_date('Sat 2026-03-07', '%a %Y-%m-%d'), str_to_date('2026-Mar-07', '%Y-%b-%d'), str_to_date('2026-March-07', '%Y-%M-%d'), str_to_date('9', '%m'), str_to_date('2026-13-07','%Y-%m-%d')]
-- 2004-10-17 | 2004-10-17 00:00:00 | NULL | NULL | 2026-03-07 | 2026-03-07 | 2026-03-07 | NULL | NULL
# A name may be cut short where it is the only one that begins so.
select str_to_date('2004 42 Mon', '%Y %u %W'), str_to_date('2004 42 s', '%Y %u %W'), str_to_date('2004 42 sa', '%Y %u %a'), str_to_date('2004 42 Monday', '%Y %u %a'), str_to_date('f 2 2004', '%b %d %Y'), str_to_date('ma 2 2004', '%b %d %Y'), str_to_date('MAY 2 2004', '%M %d %Y'), str_to_date('mar 2 2004', '%M %d %Y'), str_to_date('2 2004', '%M %d %Y');
-- [str_to_date('2004 42 Mon', '%Y %u %W'), str_to_date('2004 42 s', '%Y %u %W'), str_to_date('2004 42 sa', '%Y %u %a'), str_to_date('2004 42 Monday', '%Y %u %a'), str_to_date('f 2 2004', '%b %d %Y'), str_to_date('ma 2 2004', '%b %d %Y'), str_to_date('MAY 2 2004', '%M %d %Y'), str_to_date('mar 2 2004', '%M %d %Y'), str_to_date('2 2004', '%M %d %Y')]
-- 2004-10-11 | NULL | 2004-10-16 | NULL | 2004-02-02 | NULL | 2004-05-02 | 2004-03-02 | NULL
# Year 0 begins with day 1, and has no 29 February.
select to_days('0000-01-01'), to_seconds('0000-01-01'), to_days('0000-02-28'), to_days('0000-03-01'), to_days('0001-01-01'), datediff('0000-03-01','0000-01-01');
-- [to_days('0000-01-01'), to_seconds('0000-01-01'), to_days('0000-02-28'), to_days('0000-03-01'), to_days('0001-01-01'), datediff('0000-03-01','0000-01-01')]
-- 1 | 86400 | 59 | 60 | 366 | 59
# Truth and JSON within JSON.
select json_object('a', true, 'b', false), json_array(true, null, 1>0, 2);
-- [json_object('a', true, 'b', false), json_array(true, null, 1>0, 2)]
-- {"a": true, "b": false} | [true, null, true, 2]
select json_array(not 1, 1 and 0, 1 is null, 'a' like 'a', 1 in (1,2), exists(select 1), 1 between 0 and 2, 1 xor 1, true or null, null and true);
-- [json_array(not 1, 1 and 0, 1 is null, 'a' like 'a', 1 in (1,2), exists(select 1), 1 between 0 and 2, 1 xor 1, true or null, null and true)]
-- [false, false, false, true, true, true, true, false, true, null]
select json_array((true), if(1, true, false), coalesce(true), case when 1 then true end, ifnull(true, false), nullif(true, false), true + 0, !1);
-- [json_array((true), if(1, true, false), coalesce(true), case when 1 then true end, ifnull(true, false), nullif(true, false), true + 0, !1)]
-- [true, true, true, true, true, true, 1, false]
select json_array(true = true, 1 <=> 1, isnull(1), 1 is true, 'a' regexp 'a', if(1, 1, true), coalesce(null, true), 5);
-- [json_array(true = true, 1 <=> 1, isnull(1), 1 is true, 'a' regexp 'a', if(1, 1, true), coalesce(null, true), 5)]
-- [true, true, false, true, true, 1, 1, 5]
select json_object('a', json_array(1,2), 'b', json_object('c', true), 'd', '[1]', 'e', json_extract('[true,{"a":1}]', '$[0]'));
-- [json_object('a', json_array(1,2), 'b', json_object('c', true), 'd', '[1]', 'e', json_extract('[true,{"a":1}]', '$[0]'))]
-- {"a": [1, 2], "b": {"c": true}, "d": "[1]", "e": true}
select json_array(1.5, 1e0, 1.50, 'a"b', date '2024-01-01', time '10:00:00', cast(1.5 as float));
-- [json_array(1.5, 1e0, 1.50, 'a"b', date '2024-01-01', time '10:00:00', cast(1.5 as float))]
-- [1.5, 1, 1.50, "a\"b", "2024-01-01", "10:00:00", 1.5]
select json_array(x), json_array(x = 1), json_array(x is true) from (select true x) d;
-- [json_array(x), json_array(x = 1), json_array(x is true)]
-- [1] | [true] | [true]
# FORMAT as in a locale.
select format(98765.4,2,'de_DE'), format(98765.4,2,'en_US'), format(1234567.891,2,'fr_FR'), format(1234567.891,2,'de_CH'), format(1234567.891,2,'en_IN'), format(123,2,'en_IN');
-- [format(98765.4,2,'de_DE'), format(98765.4,2,'en_US'), format(1234567.891,2,'fr_FR'), format(1234567.891,2,'de_CH'), format(1234567.891,2,'en_IN'), format(123,2,'en_IN')]
-- 98.765,40 | 98,765.40 | 1234567,89 | 1'234'567.89 | 12,34,567.89 | 123.00
select format(1234567.891,2,'nope'), format(1234567.891,2,null), format(1234567.891,0,'de_DE'), format(-1234567.891,2,'it_IT'), format(1234.5,2,'sv_SE'), format(1234567.891,2,'DE_de'), format(123456,0,'ar_SA'), format(1234567.5,2,'it_CH'), format('1234567.5',2,'pl_PL');
-- [format(1234567.891,2,'nope'), format(1234567.891,2,null), format(1234567.891,0,'de_DE'), format(-1234567.891,2,'it_IT'), format(1234.5,2,'sv_SE'), format(1234567.891,2,'DE_de'), format(123456,0,'ar_SA'), format(1234567.5,2,'it_CH'), format('1234567.5',2,'pl_PL')]
-- 1,234,567.89 | 1,234,567.89 | 1.234.568 | -1234567,89 | 1 234,50 | 1.234.567,89 | 123456 | 1'234'567,50 | 1234567,50
select format(null, 2, 'de_DE'), format(1.5, null, 'de_DE'), format(-999.9,1,'de_DE'), format(0.5,0,'de_DE');
-- [format(null, 2, 'de_DE'), format(1.5, null, 'de_DE'), format(-999.9,1,'de_DE'), format(0.5,0,'de_DE')]
-- NULL | NULL | -999,9 | 1
select format(1234.5, 2, 'bg_BG');
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'FORMAT() in the locale bg_BG'
# A text that is no date, beside a DATE and beside a DATETIME.
create table d (d date, dt datetime);
-- ok, 0 rows
insert into d values ('2024-02-28', '2024-02-28 10:00:00');
-- ok, 1 rows
select * from d where d = '2024-02-30';
-- ERROR 1525 (HY000): Incorrect DATE value: '2024-02-30'
select * from d where d > '2024-02-30 10:00:00';
-- ERROR 1525 (HY000): Incorrect DATE value: '2024-02-30 10:00:00'
select * from d where d in ('2024-02-28', '2024-02-30');
-- ERROR 1525 (HY000): Incorrect DATE value: '2024-02-30'
select * from d where d between '2024-02-28' and '2024-02-30';
-- ERROR 1525 (HY000): Incorrect DATE value: '2024-02-30'
select * from d where dt = '2024-02-30';
-- ERROR 1525 (HY000): Incorrect DATETIME value: '2024-02-30'
select * from d where d = dt or dt < 'x';
-- ERROR 1525 (HY000): Incorrect DATETIME value: 'x'
select * from d where d = date '2024-02-28' and d < '2024-03-01';
-- [d, dt]
-- 2024-02-28 | 2024-02-28 10:00:00
prepare s from 'select * from d where d = ?';
-- ok, 0 rows
set @d = '2024-02-30', @e = '2024-02-28';
-- ok, 0 rows
execute s using @d;
-- ERROR 1525 (HY000): Incorrect DATE value: '2024-02-30'
execute s using @e;
-- [d, dt]
-- 2024-02-28 | 2024-02-28 10:00:00
prepare s from 'select * from d where dt = ?';
-- ok, 0 rows
execute s using @d;
-- ERROR 1525 (HY000): Incorrect DATETIME value: '2024-02-30'
# An INTERVAL on the left is added to all that follows, up to AND, OR and XOR, as MySQL's grammar has it. On the right it is not.
select interval 1 day + timestamp'2020-01-01 00:00:00' + 1, timestamp'2020-01-01 00:00:00' + interval 1 day - interval 1 hour;
-- [interval 1 day + timestamp'2020-01-01 00:00:00' + 1, timestamp'2020-01-01 00:00:00' + interval 1 day - interval 1 hour]
-- 2020-01-02 00:00:01 | 2020-01-01 23:00:00
select interval 13 month + date'2020-01-01' > date'2021-01-01', (interval 13 month + date'2020-01-01') > date'2021-01-01', interval 1 day + date'2020-01-01' is null or 1;
-- [interval 13 month + date'2020-01-01' > date'2021-01-01', (interval 13 month + date'2020-01-01') > date'2021-01-01', interval 1 day + date'2020-01-01' is null or 1]
-- NULL | 1 | 1
select interval 1 day + interval 1 month + date'2020-01-31', date'2021-03-01' < interval 1 day + date'2021-03-01', interval(1, 0, 2) + 1 > 1;
-- [interval 1 day + interval 1 month + date'2020-01-31', date'2021-03-01' < interval 1 day + date'2021-03-01', interval(1, 0, 2) + 1 > 1]
-- 2020-03-01 | 1 | 1
