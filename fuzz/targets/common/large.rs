//! Statements that may take much memory, described by a few bytes each.

/// The longest statement.
const TEXT_BYTES_MAX: usize = 4 << 20;

/// Statements that grow with a number: the text before, the text repeated before the middle, the
/// middle, the text repeated after it, and the text after. In repeated text, `#` is the number of
/// the repetition, from 1, and `~` is the number before.
const GROWING: &[[&str; 5]] = &[
    // Tables.
    ["SELECT 1 FROM a", "", "", ",a", ""],
    ["SELECT 1 FROM a0", "", "", ",a#", ""],
    ["SELECT 1 FROM t t0", "", "", ", t t#", ""],
    ["SELECT 1 FROM t t0", "", "", " JOIN t t# ON 1", ""],
    ["SELECT 1 FROM t t0", "", "", " LEFT JOIN t t# ON t0.id = t#.id", ""],
    ["SELECT 1 FROM ", "(", "t t0", " NATURAL JOIN t t#)", ""],
    ["SELECT 1 FROM (SELECT 1) d0", "", "", ", (SELECT 1) d#", ""],
    ["EXPLAIN SELECT 1 FROM t t0", "", "", ", t t#", ""],
    ["DELETE t0 FROM t t0", "", "", ", t t#", ""],
    ["LOCK TABLES t AS t0 READ", "", "", ", t AS t# READ", ""],
    ["DROP TABLE IF EXISTS x0", "", "", ", x#", ""],
    ["RENAME TABLE x0 TO y0", "", "", ", x# TO y#", ""],
    // Lists.
    ["SELECT 1 IN (1", "", "", ",#", ")"],
    ["SELECT 1 FROM t WHERE id IN (0", "", "", ",#", ")"],
    ["SELECT 1 FROM t WHERE s IN (''", "", "", ",'x#'", ")"],
    ["SELECT 1 FROM t WHERE id NOT IN (a", "", "", ",a + #", ")"],
    ["SELECT 1 FROM t WHERE (id, a) IN ((0, 0)", "", "", ",(#, 1)", ")"],
    ["SELECT (1, 1) IN ((0, 0)", "", "", ",(#, 1)", ")"],
    ["SELECT (1", ", 1", ") = (1", ", 1", ")"],
    ["SELECT ROW(1", ", #", ") < ROW(1", ", #", ")"],
    ["SELECT COALESCE(NULL", "", "", ", NULL", ")"],
    ["SELECT CONCAT(''", "", "", ", 'x#'", ")"],
    ["SELECT GREATEST(1", "", "", ", #", ")"],
    ["SELECT INTERVAL(7, 1", "", "", ", #", ")"],
    ["SELECT JSON_ARRAY(1", "", "", ", #", ")"],
    ["SELECT JSON_OBJECT('k0', 1", "", "", ", 'k#', #", ")"],
    ["SELECT CASE 1", "", "", " WHEN # THEN #", " END"],
    ["CALL p(1", "", "", ", #", ")"],
    ["EXECUTE p0 USING @a", "", "", ", @a", ""],
    ["INSERT INTO t (id, a) VALUES (0, 1)", "", "", ",(-#, 1)", ""],
    ["INSERT INTO t (id, a) VALUES (0, 1)", "", "", ",(-#, 1 + 1)", ""],
    ["INSERT INTO t (id", ", a", ") VALUES (1", ", #", ")"],
    ["VALUES ROW(0)", "", "", ", ROW(#)", ""],
    // Expressions and columns.
    ["SELECT 1", "", "", ", 1", ""],
    ["SELECT 0 AS c0", "", "", ", # AS c#", ""],
    ["SELECT *", "", "", ", t.*", " FROM t"],
    ["SELECT 1", "", "", " + #", ""],
    ["SELECT 1 FROM t WHERE id = 0", "", "", " OR id = #", ""],
    ["SELECT 1 FROM t WHERE id > 0", "", "", " AND a <> #", ""],
    ["SELECT ", "(", "1", ")", ""],
    ["SELECT ", "-", "1", "", ""],
    ["SELECT ", "IF(1, ", "1", ", #)", ""],
    ["SELECT ", "(SELECT ", "1", ")", ""],
    ["SELECT 1", "", "", ", (SELECT a FROM t WHERE id = #)", ""],
    ["SELECT a FROM t ORDER BY a", "", "", ", a + #", ""],
    ["SELECT COUNT(*) FROM t GROUP BY a", "", "", ", a + #", ""],
    ["SELECT SUM(a)", "", "", ", SUM(a + #)", " FROM t"],
    ["SELECT SUM(a) OVER (ORDER BY id)", "", "", ", SUM(a) OVER (ORDER BY id + #)", " FROM t"],
    ["SELECT COUNT(DISTINCT a", "", "", ", a + #", ") FROM t"],
    ["UPDATE t SET a = 1", "", "", ", a = #", ""],
    ["DELETE FROM t WHERE id = -1", "", "", " OR id = -#", ""],
    // Queries.
    ["SELECT 1", "", "", " UNION SELECT #", ""],
    ["SELECT 1", "", "", " UNION ALL SELECT #", ""],
    ["SELECT a FROM t", "", "", " UNION SELECT a + # FROM t", ""],
    ["SELECT a FROM t", "", "", " EXCEPT SELECT # FROM t", ""],
    ["WITH c0 AS (SELECT 1 AS a)", "", "", ", c# AS (SELECT a FROM c~)", " SELECT * FROM c0"],
    ["WITH c0 AS (SELECT 1 AS a)", "", "", ", c# AS (SELECT a FROM c0)", " SELECT * FROM c0"],
    ["", "WITH x AS (", "SELECT 1", ") SELECT * FROM x", ""],
    ["SELECT * FROM ", "(SELECT * FROM ", "t", ") AS x", ""],
    // Definitions and settings.
    ["CREATE TABLE w (c0 INT", "", "", ", c# INT", ")"],
    ["CREATE TABLE w (c ENUM('x0'", "", "", ", 'x#'", "))"],
    ["CREATE TABLE w (c INT", "", "", ", CHECK (c <> #)", ")"],
    ["CREATE TABLE w (c INT", "", "", ", KEY k# (c)", ")"],
    ["ALTER TABLE t ADD COLUMN c0 INT", "", "", ", ADD COLUMN c# INT", ""],
    ["CREATE USER u0", "", "", ", u#", ""],
    ["GRANT SELECT ON t TO u0", "", "", ", u#", ""],
    ["GRANT SELECT (id", "", "", ", a", ") ON t TO u0"],
    ["SET SESSION sql_mode = 'ANSI", "", "", ",ANSI", "'"],
    ["SET @v0 = 1", "", "", ", @v# = #", ""],
    ["SET @v0 = 1", "", "", ", @v# = REPEAT('x', 10000)", ""],
    ["SET @a = 1", "", "", ", @a = CONCAT(@a, 'xxxxxxxx')", ""],
    ["SELECT @v0 := 1", "", "", ", @v# := #", ""],
    // Texts.
    ["SELECT '", "", "", "x", "'"],
    ["SELECT 'x'", "", "", " 'x'", ""],
    ["SELECT 0x41", "", "", "41", ""],
    ["SELECT 1", "", "", "0", ""],
    ["SELECT 0.", "", "", "1", ""],
    ["SELECT /*", "", "", "x", "*/ 1"],
    ["SELECT 1", "", "", "\n", ""],
    ["SELECT `", "", "", "x", "` FROM t"],
    ["SELECT @", "", "", "x", ""],
    ["USE `", "", "", "x", "`"],
    ["SHOW TABLES LIKE '", "", "", "x%", "'"],
    ["SELECT 'a' REGEXP '", "(", "a", ")", "'"],
    ["SELECT REPEAT('a', 100) REGEXP '", "", "", "a{1,9}", "'"],
    ["SELECT JSON_VALID('", "[", "1", "]", "')"],
    ["SELECT JSON_LENGTH('[1", "", "", ",1", "]')"],
    ["SELECT JSON_EXTRACT('{}', '$", "", "", ".a", "')"],
    // What a session keeps.
    ["SELECT GET_LOCK('k0', 0)", "", "", ", GET_LOCK('k#', 0)", ""],
    ["DO 1", "", "", "; PREPARE p# FROM 'SELECT 1'", ""],
    ["BEGIN", "", "", "; SAVEPOINT s#", ""],
    ["BEGIN; UPDATE t SET a = 7", "", "", "; SAVEPOINT s#", ""],
    ["DO 1", "", "", "; SELECT #", ""],
    ["DO 1", "", "", "; SELECT no", ""],
    ["PREPARE p0 FROM 'SELECT 1", "", "", ", ?", "'"],
];

/// Statements whose values or results are as large as a number says: `{n}`, and `{m}`, which is a
/// sixty-fourth of it.
const NUMBERED: &[&str] = &[
    // Values, and what a session keeps.
    "SELECT COUNT(GET_LOCK(CONCAT(a.id, '-', b.id, '-', c.id), 0)) FROM t a, t b, t c",
    "SELECT LENGTH(REPEAT('abc', {n}))",
    "SELECT CONCAT(REPEAT('x', {n}), SPACE({n}), LPAD('', {n}, 'y'))",
    "SELECT REPLACE(REPEAT('x', {n}), 'x', 'yyyyyyyyyyyyyyyy')",
    "SELECT HEX(TO_BASE64(UPPER(REVERSE(REPEAT('x', {n})))))",
    "SELECT REGEXP_REPLACE(REPEAT('x', {n}), 'x', 'yyyyyyyy')",
    "SELECT QUOTE(REPEAT('''', {n}))",
    "SELECT CAST(CONCAT('[', REPEAT('1,', {n}), '1]') AS JSON)",
    "SELECT JSON_EXTRACT(CONCAT('[', REPEAT('{\"a\":1},', {n}), '1]'), '$[*].a')",
    "SELECT JSON_ARRAY(REPEAT('x', {n}), REPEAT('\"', {n}))",
    "SELECT REPEAT('x', {n}) FROM t ORDER BY 1",
    "SELECT DISTINCT CONCAT(REPEAT('x', {m}), id) FROM t",
    "SELECT REPEAT('x', {n}) LIKE REPEAT('%x', {m})",
    "SET @a = REPEAT('x', {n})",
    "SET @a = CONCAT(@a, @a)",
    "SELECT MAX(@b := CONCAT(IFNULL(@b, ''), REPEAT('x', {m}))) FROM t",
    "UPDATE t SET s = REPEAT('x', {n}) WHERE id < 20",
    "INSERT INTO t (s) SELECT REPEAT('x', {m}) FROM t",
    // Temporary results.
    "SELECT a.id FROM t a, t b, t c ORDER BY a.s, b.s, c.s",
    "SELECT a.s, COUNT(*) FROM t a, t b, t c GROUP BY a.id, b.id, c.id",
    "SELECT DISTINCT a.id, b.id, c.id FROM t a, t b, t c",
    "SELECT COUNT(DISTINCT a.id, b.id, c.id) FROM t a, t b, t c",
    "SELECT GROUP_CONCAT(a.s, b.s) FROM t a, t b, t c",
    "SELECT GROUP_CONCAT(DISTINCT a.id, b.s ORDER BY b.s) FROM t a, t b, t c",
    "SELECT JSON_ARRAYAGG(a.s) FROM t a, t b, t c",
    "SELECT JSON_OBJECTAGG(CONCAT(a.id, b.id, c.id), b.s) FROM t a, t b, t c",
    "SELECT SUM(a.id) OVER (PARTITION BY b.id ORDER BY c.s) FROM t a, t b, t c",
    "SELECT COUNT(*) FROM (SELECT a.*, b.s AS z FROM t a, t b, t c LIMIT {n}) AS x",
    "WITH x AS (SELECT a.s FROM t a, t b, t c) SELECT COUNT(*) FROM x, x AS y",
    "SELECT a.id FROM t a, t b, t c UNION SELECT a.id * b.id FROM t a, t b, t c",
    "SELECT COUNT(*) FROM (SELECT a.a FROM t a, t b) x \
     JOIN (SELECT a.a FROM t a, t b) y ON x.a = y.a",
    "SELECT 1 WHERE (1, 1) IN (SELECT a.id, b.s FROM t a, t b, t c)",
    "INSERT INTO t (a) SELECT a.id FROM t a, t b, t c LIMIT {m}",
    "CREATE TABLE w AS SELECT a.s, b.a FROM t a, t b, t c LIMIT {m}",
    "SELECT * FROM t WHERE id > 0 FOR UPDATE",
    "SHOW WARNINGS",
];

/// The most bytes of a repeated text.
fn longest(piece: &str) -> usize {
    const DIGITS: usize = 7;
    piece.len() + piece.matches(['#', '~']).count() * DIGITS
}

fn repeat(piece: &str, count: usize, out: &mut String) {
    for number in 1..=count {
        let mut rest = piece;
        while let Some(at) = rest.find(['#', '~']) {
            out.push_str(&rest[..at]);
            let before = usize::from(rest.as_bytes()[at] == b'~');
            out.push_str(&(number - before).to_string());
            rest = &rest[at + 1..];
        }
        out.push_str(rest);
    }
}

fn grown([start, before, middle, after, end]: [&str; 5], count: usize) -> String {
    let times = count.min(TEXT_BYTES_MAX / (longest(before) + longest(after)).max(1));
    let mut text = start.to_owned();
    repeat(before, times, &mut text);
    text += middle;
    repeat(after, times, &mut text);
    text + end
}

/// The number that a byte stands for: each of the small ones, then numbers that double with each 13
/// bytes, up to 4.8 million.
fn count(byte: u8) -> usize {
    match byte {
        0..32 => usize::from(byte),
        _ => {
            let (doubled, step) = (usize::from(byte - 32) / 13, usize::from(byte - 32) % 13);
            (32 << doubled) * (13 + step) / 13
        }
    }
}

/// Takes the description of a statement from the front of the bytes: its number in the lists and a
/// count; or the length of a text, how often it comes, and the text.
pub(crate) fn take(bytes: &mut &[u8]) -> Option<String> {
    let (&[kind, times], rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    let count = count(times);
    if let Some(parts) = GROWING.get(usize::from(kind)) {
        return Some(grown(*parts, count));
    }
    let kind = usize::from(kind) - GROWING.len();
    if let Some(text) = NUMBERED.get(kind) {
        let text = text.replace("{n}", &count.to_string());
        return Some(text.replace("{m}", &(count / 64).to_string()));
    }
    let len = kind - NUMBERED.len();
    let (piece, rest) = bytes.split_at(bytes.len().min(len));
    *bytes = rest;
    let piece = String::from_utf8_lossy(piece);
    let mut text = String::new();
    repeat(&piece, count.clamp(1, (TEXT_BYTES_MAX / longest(&piece).max(1)).max(1)), &mut text);
    Some(text)
}
