# No function makes more than a packet of text.
SELECT LENGTH(REPLACE(REPEAT('a', 1000000), 'a', REPEAT('b', 1000000)));
-- [LENGTH(REPLACE(REPEAT('a', 1000000), 'a', REPEAT('b', 1000000)))]
-- NULL
SHOW WARNINGS;
-- [Level, Code, Message]
-- Warning | 1301 | Result of replace() was larger than max_allowed_packet (67108864) - truncated
SELECT LENGTH(REPLACE(CAST(REPEAT('a', 1000000) AS BINARY), 'a', REPEAT('b', 1000000)));
-- [LENGTH(REPLACE(CAST(REPEAT('a', 1000000) AS BINARY), 'a', REPEAT('b', 1000000)))]
-- NULL
SELECT LENGTH(REGEXP_REPLACE(REPEAT('a', 1000000), 'a', REPEAT('b', 1000000)));
-- [LENGTH(REGEXP_REPLACE(REPEAT('a', 1000000), 'a', REPEAT('b', 1000000)))]
-- NULL
SELECT LENGTH(EXPORT_SET(5, REPEAT('y', 1000000), REPEAT('n', 1000000), REPEAT(',', 1000000), 40));
-- [LENGTH(EXPORT_SET(5, REPEAT('y', 1000000), REPEAT('n', 1000000), REPEAT(',', 1000000), 40))]
-- NULL
SELECT LENGTH(REPLACE('aXbXc', 'X', '--')), REPLACE('añbñ', 'ñ', 'n'), REPLACE('aaa', 'aa', 'b'), REPLACE('aAa', 'a', '');
-- [LENGTH(REPLACE('aXbXc', 'X', '--')), REPLACE('añbñ', 'ñ', 'n'), REPLACE('aaa', 'aa', 'b'), REPLACE('aAa', 'a', '')]
-- 7 | anbn | ba | A
SELECT HEX(REPLACE(0x61FF62FF, 0xFF, 'x')), REPLACE('abc', '', 'x'), REPLACE('abc', 'x', NULL);
-- [HEX(REPLACE(X'61FF62FF', X'FF', 'x')), REPLACE('abc', '', 'x'), REPLACE('abc', 'x', NULL)]
-- 61786278 | abc | NULL
SELECT REGEXP_REPLACE('abcabc', 'b(.)', '[$1]'), REGEXP_REPLACE('abc', 'x', 'y');
-- [REGEXP_REPLACE('abcabc', 'b(.)', '[$1]'), REGEXP_REPLACE('abc', 'x', 'y')]
-- a[c]a[c] | abc
