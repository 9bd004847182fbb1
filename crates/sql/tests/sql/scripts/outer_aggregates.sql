# An aggregate of outer columns alone belongs to the query that it names a column of.
SET sql_mode = 'ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES';
-- ok, 0 rows
CREATE TABLE t (a INT, b INT);
-- ok, 0 rows
CREATE TABLE x (a INT, c INT);
-- ok, 0 rows
CREATE TABLE y (c INT);
-- ok, 0 rows
INSERT INTO t VALUES (1, 2), (1, 3), (2, 1), (3, 1), (NULL, 4);
-- ok, 5 rows
INSERT INTO x VALUES (1, 7), (2, 8), (7, 1);
-- ok, 3 rows
INSERT INTO y VALUES (1), (8);
-- ok, 2 rows
select (select max(a)) from t;
-- [(select max(a))]
-- 3
select (select max(t.a)) from t;
-- [(select max(t.a))]
-- 3
select (select max(t.a) from x limit 1) from t;
-- [(select max(t.a) from x limit 1)]
-- 3
select (select sum(t.a) from x limit 1) from t;
-- [(select sum(t.a) from x limit 1)]
-- 7
select (select count(t.a)), count(*) from t;
-- [(select count(t.a)), count(*)]
-- 4 | 5
select b, (select max(t.a)) from t group by b order by b;
-- [b, (select max(t.a))]
-- 1 | 3
-- 2 | 1
-- 3 | 1
-- 4 | NULL
select b, (select max(t.a) from x where x.a = t.b) from t group by b order by b;
-- [b, (select max(t.a) from x where x.a = t.b)]
-- 1 | 3
-- 2 | 1
-- 3 | NULL
-- 4 | NULL
select a, (select max(x.a) from x where x.a <= t.a) from t order by a;
-- [a, (select max(x.a) from x where x.a <= t.a)]
-- NULL | NULL
-- 1 | 1
-- 1 | 1
-- 2 | 2
-- 3 | 2
select (select max(t.a + x.a) from x) from t order by 1;
-- [(select max(t.a + x.a) from x)]
-- NULL
-- 8
-- 8
-- 9
-- 10
select (select max(t.a) + max(x.a) from x) from t;
-- [(select max(t.a) + max(x.a) from x)]
-- 10
select (select max(t.a) + x.a from x limit 1) from t;
-- [(select max(t.a) + x.a from x limit 1)]
-- 4
select a, (select count(*) from x where x.c > sum(t.b)) from t group by a order by a;
-- [a, (select count(*) from x where x.c > sum(t.b))]
-- NULL | 2
-- 1 | 2
-- 2 | 2
-- 3 | 2
select a from t group by a having exists(select 1 from x where sum(t.b) = x.a + 4) order by a;
-- [a]
-- 1
select a from t group by a having sum(b) in (select c from y) order by a;
-- [a]
-- 2
-- 3
select a from t group by a having (select sum(t.b)) > 4 order by a;
-- [a]
-- 1
select a from t group by a having exists(select 1 from x having max(t.b) > max(x.a)) order by a;
-- [a]
select a from t group by a order by (select sum(t.b)), a;
-- [a]
-- 2
-- 3
-- NULL
-- 1
select a from t group by a order by (select -count(*) from x where x.a <= sum(t.b)), a;
-- [a]
-- NULL
-- 1
-- 2
-- 3
select count(*) from t having exists(select 1 from x where count(t.a) = x.a);
-- [count(*)]
select count(*) from t having (select count(t.a)) = 4;
-- [count(*)]
-- 5
select 1 from t having exists(select 1 from x where sum(t.b) = 11 and x.a = 1);
-- [1]
-- 1
select 1 from t having (select max(t.a)) = 3;
-- [1]
-- 1
select (select (select max(t.a))) from t;
-- [(select (select max(t.a)))]
-- 3
select (select (select max(t.a) from y limit 1) from x limit 1) from t;
-- [(select (select max(t.a) from y limit 1) from x limit 1)]
-- 3
select (select (select max(t.a + x.a) from y limit 1) from x) from t order by 1;
-- [(select (select max(t.a + x.a) from y limit 1) from x)]
-- NULL
-- 8
-- 8
-- 9
-- 10
select (select (select max(x.a) from y limit 1) from x) from t;
-- [(select (select max(x.a) from y limit 1) from x)]
-- 7
-- 7
-- 7
-- 7
-- 7
select (select sum((select max(x.a) from y limit 1)) from x) from t;
-- ERROR 1111 (HY000): Invalid use of group function
select (select sum((select max(t.a))) from x) from t;
-- [(select sum((select max(t.a))) from x)]
-- 9
select (select sum((select max(t.a)) + x.a) from x) from t;
-- [(select sum((select max(t.a)) + x.a) from x)]
-- 19
select sum((select max(t.a))) from t;
-- ERROR 1111 (HY000): Invalid use of group function
select sum((select max(x.a) from x)) from t;
-- [sum((select max(x.a) from x))]
-- 35
select sum((select max(x.a + t.a) from x)) from t;
-- [sum((select max(x.a + t.a) from x))]
-- 35
select sum((select t.a + max(x.a) from x)) from t;
-- [sum((select t.a + max(x.a) from x))]
-- 35
select max(sum(a)) from t;
-- ERROR 1111 (HY000): Invalid use of group function
select count(distinct b), (select count(distinct t.b)) from t group by a order by a;
-- [count(distinct b), (select count(distinct t.b))]
-- 1 | 1
-- 2 | 2
-- 1 | 1
-- 1 | 1
select (select count(distinct t.b) from x limit 1) from t;
-- [(select count(distinct t.b) from x limit 1)]
-- 4
select (select group_concat(t.a order by t.b desc, t.a separator '|')) from t;
-- [(select group_concat(t.a order by t.b desc, t.a separator '|'))]
-- 1|1|2|3
select (select group_concat(distinct t.b order by t.b desc)) from t;
-- [(select group_concat(distinct t.b order by t.b desc))]
-- 4,3,2,1
select (select group_concat(t.a order by x.a) from x limit 1) from t order by 1;
-- [(select group_concat(t.a order by x.a) from x limit 1)]
-- NULL
-- 1,1,1
-- 1,1,1
-- 2,2,2
-- 3,3,3
select exists(select max(t.a)), exists(select 1 having max(t.a) > 5) from t;
-- [exists(select max(t.a)), exists(select 1 having max(t.a) > 5)]
-- 1 | 0
select 3 in (select max(t.a)), 3 > any (select max(t.a) from x) from t;
-- [3 in (select max(t.a)), 3 > any (select max(t.a) from x)]
-- 1 | 0
select (select max(t.a) from t) from t;
-- [(select max(t.a) from t)]
-- 3
-- 3
-- 3
-- 3
-- 3
select (select max(t.a) from t as u limit 1) from t;
-- [(select max(t.a) from t as u limit 1)]
-- 3
select a from t where a = (select max(t.a)) order by a;
-- [a]
-- 1
-- 1
-- 2
-- 3
select a from t where exists(select 1 from x where sum(t.b) > 1);
-- ERROR 1111 (HY000): Invalid use of group function
select a from t where exists(select 1 from x having sum(t.b) > 1) order by a;
-- [a]
-- NULL
-- 1
-- 1
-- 2
-- 3
select a from t where exists(select sum(t.b) from x) order by a;
-- [a]
-- NULL
-- 1
-- 1
-- 2
-- 3
select a from t where (select sum(t.b) from x) > 3 order by a;
-- [a]
-- NULL
-- 1
-- 1
select a from t where (select count(*) from x where sum(t.b) > 1);
-- ERROR 1111 (HY000): Invalid use of group function
select a from t where (select x.a from x where max(x.a) > 1);
-- ERROR 1111 (HY000): Invalid use of group function
select a from t where max(a) > 1;
-- ERROR 1111 (HY000): Invalid use of group function
select (select x.a from x where count(*) > 2 limit 1) from t;
-- [(select x.a from x where count(*) > 2 limit 1)]
-- 1
select (select x.a from x where sum(1) > 2 order by x.a limit 1) from t;
-- [(select x.a from x where sum(1) > 2 order by x.a limit 1)]
-- 1
select (select x.a from x where max(x.a) > 2) from t;
-- ERROR 1111 (HY000): Invalid use of group function
select (select x.a from x where max(t.a) > 2 order by a limit 1) from t;
-- [(select x.a from x where max(t.a) > 2 order by a limit 1)]
-- 1
select (select x.a from x order by max(t.a), x.a limit 1) from t;
-- [(select x.a from x order by max(t.a), x.a limit 1)]
-- 1
select (select x.a from x join y on y.c = max(t.a) - 2 limit 1) from t;
-- [(select x.a from x join y on y.c = max(t.a) - 2 limit 1)]
-- 1
select 1 from t group by (select max(t.a));
-- [1]
-- 1
-- 1
-- 1
-- 1
select 1 from t join x on x.a = (select max(t.a)) order by t.a;
-- [1]
-- 1
-- 1
-- 1
select (select max(t.a) union select 9 order by 1 limit 1) from t;
-- [(select max(t.a) union select 9 order by 1 limit 1)]
-- 3
select (select 0 union select max(t.b) order by 1 desc limit 1) from t;
-- [(select 0 union select max(t.b) order by 1 desc limit 1)]
-- 4
select t.a, (select max(t.b)) from t;
-- ERROR 1140 (42000): In aggregated query without GROUP BY, expression #1 of SELECT list contains nonaggregated column 'test.t.a'; this is incompatible with sql_mode=only_full_group_by
select t.a, (select max(t.b)) from t group by t.a order by a;
-- [a, (select max(t.b))]
-- NULL | 4
-- 1 | 3
-- 2 | 1
-- 3 | 1
select (select t.a), (select max(t.b)) from t;
-- ERROR 1140 (42000): In aggregated query without GROUP BY, expression #1 of SELECT list contains nonaggregated column 'test.t.a'; this is incompatible with sql_mode=only_full_group_by
select (select max(t.a) + t.b) from t;
-- ERROR 1140 (42000): In aggregated query without GROUP BY, expression #1 of SELECT list contains nonaggregated column 'test.t.b'; this is incompatible with sql_mode=only_full_group_by
select (select t.b + max(t.a) from x limit 1) from t;
-- ERROR 1140 (42000): In aggregated query without GROUP BY, expression #1 of SELECT list contains nonaggregated column 'test.t.b'; this is incompatible with sql_mode=only_full_group_by
select a, (select max(t.a) + t.b) from t group by a;
-- ERROR 1055 (HY000): Expression #2 of SELECT list is not in GROUP BY clause and contains nonaggregated column 'test.t.b' which is not functionally dependent on columns in GROUP BY clause; this is incompatible with sql_mode=only_full_group_by
select a, (select max(t.b) + t.a) from t group by a order by a;
-- [a, (select max(t.b) + t.a)]
-- NULL | NULL
-- 1 | 4
-- 2 | 3
-- 3 | 4
select (select max(t.a) where t.b > 1) from t;
-- ERROR 1140 (42000): In aggregated query without GROUP BY, expression #1 of SELECT list contains nonaggregated column 'test.t.b'; this is incompatible with sql_mode=only_full_group_by
select (select max(x.a) from x where x.a > t.a), count(*) from t;
-- ERROR 1140 (42000): In aggregated query without GROUP BY, expression #1 of SELECT list contains nonaggregated column 'test.t.a'; this is incompatible with sql_mode=only_full_group_by
select (select max(x.a) from x where x.a > t.a), count(*) from t group by a order by 1;
-- [(select max(x.a) from x where x.a > t.a), count(*)]
-- NULL | 1
-- 7 | 2
-- 7 | 1
-- 7 | 1
select max(a), (select c from x where x.a = max(t.a)) from t;
-- [max(a), (select c from x where x.a = max(t.a))]
-- 3 | NULL
select max(a), (select c from x where x.a = max(t.a) - 1) from t;
-- [max(a), (select c from x where x.a = max(t.a) - 1)]
-- 3 | 8
select t.a, max(x.c), (select max(x.c)), (select sum(t.b)) from t join x on x.a = t.a group by t.a order by t.a;
-- [a, max(x.c), (select max(x.c)), (select sum(t.b))]
-- 1 | 7 | 7 | 5
-- 2 | 8 | 8 | 1
select t.a, (select max(x.c + t.b)) from t join x on x.a = t.a group by t.a order by t.a;
-- [a, (select max(x.c + t.b))]
-- 1 | 10
-- 2 | 9
select (select max(t.a)) from t where 1 = 0;
-- [(select max(t.a))]
-- NULL
select distinct (select max(t.a)) from t group by b order by 1;
-- [(select max(t.a))]
-- NULL
-- 1
-- 3
select (select max(t.a)) m, count(*) from t group by b having m > 1 order by 1, 2;
-- [m, count(*)]
-- 3 | 2
select (select max(t.a)) m, count(*) from t group by m;
-- ERROR 1056 (HY000): Can't group on 'm'
select (select max(t.a)) m, count(*) from t group by 1;
-- ERROR 1056 (HY000): Can't group on '1'
select * from (select (select max(t.a)) from t) d;
-- [(SELECT max(t.a))]
-- 3
with q as (select (select max(t.a)) m from t) select * from q;
-- [m]
-- 3
select * from (select a, (select max(t.b)) mb from t group by a) d where mb > 1 order by 1;
-- [a, mb]
-- NULL | 4
-- 1 | 3
select (select max(a)) from t union all select (select min(c)) from x order by 1;
-- [(select max(a))]
-- 1
-- 3
update x set c = (select max(x.a)) where a = 7;
-- ok, 1 rows
select * from x order by a;
-- [a, c]
-- 1 | 7
-- 2 | 8
-- 7 | 7
update x set c = 1 where exists(select 1 from y where sum(x.a) > 1);
-- ERROR 1111 (HY000): Invalid use of group function
update x set c = sum(a);
-- ERROR 1111 (HY000): Invalid use of group function
update x, y set x.c = max(y.c) where x.a = y.c;
-- ERROR 1111 (HY000): Invalid use of group function
delete from x where exists(select 1 from y where sum(x.a) > 1);
-- ERROR 1111 (HY000): Invalid use of group function
delete from x where a = (select max(x.a) + 100);
-- ok, 0 rows
select count(*) from x;
-- [count(*)]
-- 3
delete x from x join y where exists(select 1 from y z where sum(x.a) > 1);
-- ERROR 1111 (HY000): Invalid use of group function
insert into y select (select max(t.a)) from t;
-- ok, 1 rows
select * from y order by c;
-- [c]
-- 1
-- 3
-- 8
insert into y values ((select max(t.a) from t));
-- ok, 1 rows
select if(1, (select max(t.a)), 0), case when (select count(t.a)) > 3 then 'm' end, coalesce(null, (select sum(t.a))) from t;
-- [if(1, (select max(t.a)), 0), case when (select count(t.a)) > 3 then 'm' end, coalesce(null, (select sum(t.a)))]
-- 3 | m | 7
select (select max(t.a) as z having z > 1) from t;
-- [(select max(t.a) as z having z > 1)]
-- 3
select (select max(a) from (select 1 a) d) from t limit 1;
-- [(select max(a) from (select 1 a) d)]
-- 1
select (select max(t.a) from (select 1 q) d) from t limit 1;
-- [(select max(t.a) from (select 1 q) d)]
-- 3
select (select count(*) from x having max(t.a) > 1) from t;
-- [(select count(*) from x having max(t.a) > 1)]
-- 3
select (select count(*)) from t;
-- [(select count(*))]
-- 1
-- 1
-- 1
-- 1
-- 1
select (select count(*) from x) from t;
-- [(select count(*) from x)]
-- 3
-- 3
-- 3
-- 3
-- 3
select (select sum(1)) from t;
-- [(select sum(1))]
-- 1
-- 1
-- 1
-- 1
-- 1
select (select count(*) + max(t.a)) from t;
-- [(select count(*) + max(t.a))]
-- 4
select t.a, (select max(u.b) from t u where u.a = t.a) m from t group by t.a order by 1;
-- [a, m]
-- NULL | NULL
-- 1 | 3
-- 2 | 1
-- 3 | 1
select a, exists(select 1 from x where x.a = t.a having count(*) = max(t.a)) from t group by a order by a;
-- [a, exists(select 1 from x where x.a = t.a having count(*) = max(t.a))]
-- NULL | 0
-- 1 | 1
-- 2 | 0
-- 3 | 0
# A query of no rows has aggregates, too; and the subquery sees them in its WHERE clause.
select (select count(t.a)) from t where 1 = 0;
-- [(select count(t.a))]
-- 0
select b from t group by b having exists (select 1 where max(t.a) is null) order by b;
-- [b]
-- 4
# No change has aggregates.
update x, y set x.c = (select max(y.c)) where x.a = y.c;
-- ERROR 1111 (HY000): Invalid use of group function
SET sql_mode = 'STRICT_TRANS_TABLES';
-- ok, 0 rows
select a, (select max(t.a) + t.b) from t group by a order by a;
-- [a, (select max(t.a) + t.b)]
-- NULL | NULL
-- 1 | 3
-- 2 | 3
-- 3 | 4
