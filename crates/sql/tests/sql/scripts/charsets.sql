# Introducers take a literal's bytes as text of a character set; CONVERT USING makes text of one. What would lose the set is refused.
CREATE TABLE s (id INT, t VARCHAR(9), b VARBINARY(20));
-- ok, 0 rows
select length(_latin1 x'e4'), hex(convert(_utf8mb4 x'c3a4' using latin1)), hex(_latin1 x'e4'), char_length(_latin1 x'e4c4');
-- [length(_latin1 X'e4'), hex(convert(_utf8mb4 X'c3a4' using latin1)), hex(_latin1 X'e4'), char_length(_latin1 X'e4c4')]
-- 1 | E4 | E4 | 2
select convert('ä' using ascii), convert('aäb世' using ascii), hex(convert('ä' using ascii));
-- [convert('ä' using ascii), convert('aäb世' using ascii), hex(convert('ä' using ascii))]
-- ? | a?b? | 3F
select convert(x'e4' using latin1), hex(convert(x'e4' using latin1)), convert(x'80' using latin1), hex(convert('€' using latin1)), convert('世' using latin1), hex(convert('世a' using latin1));
-- [convert(X'e4' using latin1), hex(convert(X'e4' using latin1)), convert(X'80' using latin1), hex(convert('€' using latin1)), convert('世' using latin1), hex(convert('世a' using latin1))]
-- ä | E4 | € | 80 | ? | 3F61
select convert(x'e4' using utf8mb4);
-- [convert(X'e4' using utf8mb4)]
-- NULL
select hex(convert(x'e4' using utf8mb4));
-- [hex(convert(X'e4' using utf8mb4))]
-- NULL
select hex(convert(x'c3a4' using utf8mb4)), convert(x'c3a4' using utf8);
-- [hex(convert(X'c3a4' using utf8mb4)), convert(X'c3a4' using utf8)]
-- C3A4 | ä
select _utf8mb4 x'e4';
-- ERROR 1300 (HY000): Invalid utf8mb4 character string: 'E4'
select _utf8mb4 x'c3a4', _utf8 x'c3a4', _utf8mb3 x'c3a4';
-- [_utf8mb4 X'c3a4', _utf8 X'c3a4', _utf8mb3 X'c3a4']
-- ä | ä | ä
select _ascii x'41', _ascii 'abc';
-- [_ascii X'41', _ascii 'abc']
-- A | abc
select _ascii x'e4';
-- ERROR 1300 (HY000): Invalid ascii character string: 'E4'
select _ascii 'ä';
-- ERROR 1300 (HY000): Invalid ascii character string: 'C3A4'
select _latin1 'ä', length(_latin1 'ä'), char_length(_latin1 'ä'), hex(_latin1 'ä');
-- [_latin1 'ä', length(_latin1 'ä'), char_length(_latin1 'ä'), hex(_latin1 'ä')]
-- Ã¤ | 2 | 2 | C3A4
select _latin1'abc' = 'ABC', length(_latin1'abc'), concat(_latin1'abc', 'ä'), upper(_latin1'abc');
-- [_latin1'abc' = 'ABC', length(_latin1'abc'), concat(_latin1'abc', 'ä'), upper(_latin1'abc')]
-- 1 | 3 | abcä | ABC
select _binary 'ä' = 'ä', hex(_binary 'ä'), _binary x'c3a4' = 'ä';
-- [_binary 'ä' = 'ä', hex(_binary 'ä'), _binary X'c3a4' = 'ä']
-- 1 | C3A4 | 1
select hex(convert('a' using utf16)), hex(convert('ä' using ucs2)), hex(convert('a' using utf32)), hex(convert('🍣' using utf16)), hex(convert('🍣' using ucs2)), hex(convert('a' using utf16le));
-- [hex(convert('a' using utf16)), hex(convert('ä' using ucs2)), hex(convert('a' using utf32)), hex(convert('🍣' using utf16)), hex(convert('🍣' using ucs2)), hex(convert('a' using utf16le))]
-- 0061 | 00E4 | 00000061 | D83CDF63 | 003F | 6100
select length(convert('abc' using utf16)), char_length(convert('abc' using utf16));
-- [length(convert('abc' using utf16)), char_length(convert('abc' using utf16))]
-- 6 | 3
select _ucs2 x'00e4', _utf16 x'd83cdf63', _utf32 x'0001f363', _utf16le x'e400', hex(_ucs2 x'00e4');
-- [_ucs2 X'00e4', _utf16 X'd83cdf63', _utf32 X'0001f363', _utf16le X'e400', hex(_ucs2 X'00e4')]
-- ä | 🍣 | 🍣 | ä | 00E4
select _ucs2 'ab';
-- [_ucs2 'ab']
-- 慢
select _ucs2 x'e4', hex(_ucs2 x'e4');
-- [_ucs2 X'e4', hex(_ucs2 X'e4')]
-- ä | 00E4
select convert('🍣a' using utf8), convert('🍣a' using utf8mb3), hex(convert('🍣' using utf8mb4));
-- [convert('🍣a' using utf8), convert('🍣a' using utf8mb3), hex(convert('🍣' using utf8mb4))]
-- ?a | ?a | F09F8DA3
select convert('a' using nope);
-- ERROR 1115 (42000): Unknown character set: 'nope'
select _nope 'a';
-- ERROR 1115 (42000): Unknown character set: 'nope'
select convert('ä' using gbk);
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'the character set gbk'
select convert('ä' using cp1251), convert('я' using koi8r), convert('あ' using sjis);
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'the character set cp1251'
select convert(cast(convert('Ã¤' using latin1) as binary) using utf8mb4);
-- [convert(cast(convert('Ã¤' using latin1) as binary) using utf8mb4)]
-- ä
select hex(cast(_latin1 x'e4' as binary)), hex(binary convert('ä' using latin1)), hex(cast(convert('ä' using latin1) as char));
-- [hex(cast(_latin1 X'e4' as binary)), hex(binary convert('ä' using latin1)), hex(cast(convert('ä' using latin1) as char))]
-- E4 | E4 | C3A4
select convert(convert('ä' using latin1) using utf8mb4), hex(convert(convert('ä' using latin1) using utf8mb4)), hex(convert(_latin1 x'e4' using utf8mb4));
-- [convert(convert('ä' using latin1) using utf8mb4), hex(convert(convert('ä' using latin1) using utf8mb4)), hex(convert(_latin1 X'e4' using utf8mb4))]
-- ä | C3A4 | C3A4
select md5(convert('ä' using latin1)), sha1(_latin1 x'e4'), crc32(_latin1 x'e4'), to_base64(_latin1 x'e4'), ord(_latin1 x'e4'), ascii(_latin1 x'e4'), bit_length(_latin1 x'e4'), octet_length(_latin1 x'e4');
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'text in the character set latin1 here'
select hex(concat(_latin1 x'e4', _latin1 x'e4')), hex(upper(_latin1 x'e4')), hex(concat(_latin1 x'e4', 'ä'));
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'text in the character set latin1 here'
select charset(_latin1 'abc'), charset(convert('a' using latin1)), collation(_latin1 'a'), charset(convert('a' using ascii)), charset(_utf8mb4 'a'), charset(_binary 'a');
-- [charset(_latin1 'abc'), charset(convert('a' using latin1)), collation(_latin1 'a'), charset(convert('a' using ascii)), charset(_utf8mb4 'a'), charset(_binary 'a')]
-- latin1 | latin1 | latin1_swedish_ci | ascii | utf8mb4 | binary
select _latin1 x'e4' = 'ä', _latin1 x'e4' = 'a', _latin1 x'e4' = _latin1 'a', 'ä' = 'a';
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'text in the character set latin1 here'
select _latin1 x'e4' collate latin1_bin = _latin1 x'e4';
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'text in the character set latin1 here'
select _utf8mb4 'abc' collate utf8mb4_bin = 'ABC';
-- [_utf8mb4 'abc' collate utf8mb4_bin = 'ABC']
-- 0
select hex(convert('ä' using binary)), hex(convert(_latin1 x'e4' using binary));
-- [hex(convert('ä' using binary)), hex(convert(_latin1 X'e4' using binary))]
-- C3A4 | E4
select convert(null using latin1), convert(12 using ascii), convert(1.5 using latin1), convert(date '2024-01-01' using latin1), hex(convert(12 using utf16));
-- [convert(null using latin1), convert(12 using ascii), convert(1.5 using latin1), convert(date '2024-01-01' using latin1), hex(convert(12 using utf16))]
-- NULL | 12 | 1.5 | 2024-01-01 | 00310032
select cast('ä' as char character set latin1), hex(cast('ä' as char character set latin1)), hex(cast('ä' as char(1) character set latin1)), hex(cast('ä' as char ascii)), hex(cast('ä' as char unicode));
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'CHAR(n) CHARACTER SET in a cast'
select n'abc', N'ä', hex(n'ä');
-- [N'abc', N'ä', hex(N'ä')]
-- abc | ä | C3A4
insert into s(id, t) values (1, _latin1 x'e4'), (2, convert(x'e4' using latin1)), (3, convert('世' using ascii)), (4, _utf16 x'00e4');
-- ok, 4 rows
select id, t, hex(t) from s order by id;
-- [id, t, hex(t)]
-- 1 | ä | C3A4
-- 2 | ä | C3A4
-- 3 | ? | 3F
-- 4 | ä | C3A4
update s set t = convert('äb' using latin1) where id = 4;
-- ok, 1 rows
select t from s where id = 4;
-- [t]
-- äb
select id from s where t = _latin1 x'e4' order by id;
-- [id]
-- 1
-- 2
select id from s where convert(t using latin1) = 'ä' order by id;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'text in the character set latin1 here'
select id, hex(convert(t using latin1)), length(convert(t using latin1)), convert(t using ascii) from s order by id;
-- [id, hex(convert(t using latin1)), length(convert(t using latin1)), convert(t using ascii)]
-- 1 | E4 | 1 | ?
-- 2 | E4 | 1 | ?
-- 3 | 3F | 1 | ?
-- 4 | E462 | 2 | ?b
select hex(x) from (select convert(t using latin1) x from s where id = 1) d;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'text in the character set latin1 here'
select (select hex(convert(t using latin1)) from s where id = 1), length((select convert(t using latin1) from s where id = 1));
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'text in the character set latin1 here'
set @v = convert('ä' using latin1);
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'text in the character set latin1 here'
select hex(@v);
-- [hex(@v)]
-- NULL
select group_concat(convert(t using latin1) order by id) from s;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'text in the character set latin1 here'
select hex(group_concat(convert(t using latin1) order by id)) from s;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'text in the character set latin1 here'
select id from s order by convert(t using latin1), id;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'text in the character set latin1 here'
select id from s order by convert(t using gbk), id;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'the character set gbk'
select convert(t using ascii) c, count(*) from s group by convert(t using ascii) order by 1;
-- [c, count(*)]
-- ? | 3
-- ?b | 1
select if(1, convert('ä' using latin1), 'x'), hex(if(1, convert('ä' using latin1), 'x')), hex(if(1, convert('ä' using latin1), _latin1'x'));
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'text in the character set latin1 here'
prepare p from 'select convert(? using ascii), hex(convert(? using latin1))';
-- ok, 0 rows
set @a = 'xä';
-- ok, 0 rows
execute p using @a, @a;
-- [convert(? using ascii), hex(convert(? using latin1))]
-- x? | 78E4
select convert('ä' using 'latin1'), convert('ä' using `latin1`), convert('ä' using LATIN1);
-- [convert('ä' using 'latin1'), convert('ä' using `latin1`), convert('ä' using LATIN1)]
-- ä | ä | ä
select char(228 using latin1), char(0xc3a4 using utf8mb4);
-- [char(228 using latin1), char(X'c3a4' using utf8mb4)]
-- ä | ä
select _latin1 b'11100100', hex(_latin1 0xe4), _latin1 0xe4;
-- [_latin1 B'11100100', hex(_latin1 X'e4'), _latin1 X'e4']
-- ä | E4 | ä
select length(_latin1 x''), _utf16 x'';
-- [length(_latin1 X''), _utf16 X'']
-- 0 | 
select _latin1'a' in ('a','b'), _latin1 'a' like 'A', find_in_set(_latin1'a', 'b,a'), replace(_latin1'abc','b','ä');
-- [_latin1'a' in ('a','b'), _latin1 'a' like 'A', find_in_set(_latin1'a', 'b,a'), replace(_latin1'abc','b','ä')]
-- 1 | 1 | 2 | aäc
# Columns of bytes get the bytes of the set.
insert into s (id, b) values (5, convert('ä' using latin1)), (6, _utf16 x'00e4');
-- ok, 2 rows
update s set b = convert('äö' using latin1) where id = 6;
-- ok, 1 rows
select id, hex(b) from s where id > 4 order by id;
-- [id, hex(b)]
-- 5 | E4
-- 6 | E4F6
insert into s (id, b) select 7, convert('ä' using latin1);
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'text in the character set latin1 here'
insert into s (id, t) select 7, convert('ä' using latin1);
-- ok, 1 rows
select hex(t) from s where id = 7;
-- [hex(t)]
-- C3A4
select convert('ä' using latin1) union select 'x';
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'text in the character set latin1 here'
select distinct convert(t using latin1) from s;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'text in the character set latin1 here'
select convert(t using latin1) c from s order by c;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'text in the character set latin1 here'
select convert(t using ascii) c from s where id = 1 order by c;
-- [c]
-- ?
with c as (select convert('ä' using latin1) x) select length(x) from c;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'text in the character set latin1 here'
select id from s where convert(t using latin1) is not null and id = 1;
-- [id]
-- 1
select id from s where t in (_latin1 'a', _latin1 x'e4') order by id;
-- ERROR 1235 (42000): This version of Spillway doesn't yet support 'text in the character set latin1 here'
select json_array(_latin1 'a', convert('ä' using ascii));
-- [json_array(_latin1 'a', convert('ä' using ascii))]
-- ["a", "?"]
