//! Generates nested statements: every construct that can contain itself, nested to any depth, in
//! every place where a statement may have an expression.
#![allow(dead_code)]

/// The constructs in which an expression can be nested, as the text before it and the text after
/// it.
pub(crate) const NESTS: &[(&str, &str)] = &[
    // Operators, on each side.
    ("", " + 1"),
    ("1 + ", ""),
    ("", " - 1"),
    ("", " * 1"),
    ("", " / 1"),
    ("", " % 7"),
    ("", " DIV 1"),
    ("1 DIV ", ""),
    ("", " MOD 7"),
    ("", " & 1"),
    ("", " | 1"),
    ("", " ^ 1"),
    ("", " << 1"),
    ("", " >> 1"),
    ("", " = 1"),
    ("", " <=> 1"),
    ("", " <> 1"),
    ("", " != 1"),
    ("", " < 1"),
    ("1 >= ", ""),
    ("", " AND 1"),
    ("0 OR ", ""),
    ("", " XOR 1"),
    ("", " && 1"),
    ("", " || 1"),
    ("", " LIKE 'a'"),
    ("", " NOT LIKE 'a' ESCAPE '|'"),
    ("", " ILIKE 'a'"),
    ("", " SIMILAR TO 'a'"),
    ("", " SOUNDS LIKE 'a'"),
    ("", " REGEXP 'a'"),
    ("", " NOT RLIKE 'a'"),
    ("", " BETWEEN 0 AND 1"),
    ("1 BETWEEN 0 AND ", ""),
    ("", " NOT BETWEEN 0 AND 1"),
    ("", " IN (1, 2)"),
    ("", " NOT IN (1, 'a')"),
    ("", " IS NULL"),
    ("", " IS NOT NULL"),
    ("", " IS TRUE"),
    ("", " IS NOT FALSE"),
    ("", " IS UNKNOWN"),
    ("", " IS DISTINCT FROM 1"),
    ("", " IS JSON"),
    ("", " COLLATE utf8mb4_bin"),
    ("", " AT TIME ZONE 'UTC'"),
    ("", " AT LOCAL"),
    ("", " MEMBER OF ('[1]')"),
    ("1 MEMBER OF (", ")"),
    ("", " OVERLAPS 1"),
    ("", " NOTNULL"),
    ("", " -> '$.a'"),
    ("", " ->> '$.a'"),
    ("", "::int"),
    ("", "[1]"),
    ("[", "]"),
    ("{", "}"),
    ("", ".a"),
    ("", ":a"),
    ("@a := ", ""),
    ("@a := 1 + ", ""),
    ("- ", ""),
    ("+ ", ""),
    ("~ ", ""),
    ("! ", ""),
    ("!! ", ""),
    ("NOT ", ""),
    ("BINARY ", ""),
    ("PRIOR ", ""),
    ("_utf8mb4 ", ""),
    ("DISTINCT ", ""),
    // Words that are clauses elsewhere.
    ("VALUES(id) + ", ""),
    ("", " + VALUES(id)"),
    ("", " + a.limit"),
    ("", " + t.set + t.from"),
    ("", " + @@session.autocommit"),
    ("", " + DEFAULT(id)"),
    ("", " + CASE WHEN 1 OR 0 THEN 1 END"),
    ("1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 OR ", ""),
    // Brackets.
    ("(", ")"),
    ("(", " + 1)"),
    ("(", " + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1 + 1)"),
    ("(1 + ", ")"),
    ("(1, ", ") = (1, 2)"),
    ("(1, ", ")"),
    ("ROW(1, ", ")"),
    ("ABS(", ")"),
    ("IF(1, 0, ", ")"),
    ("COALESCE(NULL, ", ", 1, 2)"),
    ("CONCAT('a', ", ")"),
    ("CAST(", " AS SIGNED)"),
    ("CONVERT(", ", CHAR)"),
    ("CONVERT(", " USING utf8mb4)"),
    ("CASE WHEN 1 THEN ", " END"),
    ("CASE WHEN ", " THEN 1 ELSE 2 END"),
    ("CASE ", " WHEN 1 THEN 2 END"),
    ("CASE ", " WHEN 1 THEN 2 WHEN 'a' THEN 3 END"),
    ("INTERVAL(1, ", ")"),
    ("'2020-01-01' + INTERVAL ", " DAY"),
    ("", " + INTERVAL 1 DAY"),
    ("DATE_ADD('2020-01-01', INTERVAL ", " DAY)"),
    ("EXTRACT(DAY FROM ", ")"),
    ("SUBSTRING(", " FROM 1)"),
    ("TRIM(BOTH 'a' FROM ", ")"),
    ("POSITION('a' IN ", ")"),
    ("JSON_EXTRACT(", ", '$')"),
    ("JSON_ARRAY(", ")"),
    ("MATCH (a) AGAINST (", ")"),
    ("MAX(", ")"),
    ("COUNT(DISTINCT ", ")"),
    ("GROUP_CONCAT(", " SEPARATOR 'a')"),
    ("f(", ")"),
    // Queries.
    ("(SELECT ", ")"),
    ("(SELECT ", " UNION SELECT 1)"),
    ("(SELECT 1 UNION (SELECT ", "))"),
    ("(SELECT * FROM (SELECT ", ") AS x)"),
    ("(SELECT 1 FROM t WHERE ", ")"),
    ("(SELECT 1 FROM t HAVING ", ")"),
    ("(SELECT 1 FROM t GROUP BY ", " LIMIT 1)"),
    ("(SELECT 1 FROM t ORDER BY ", " LIMIT 1)"),
    ("(SELECT 1 FROM t JOIN t AS u ON ", " LIMIT 1)"),
    ("(WITH x AS (SELECT ", ") SELECT * FROM x)"),
    ("EXISTS (SELECT ", ")"),
    ("1 IN (SELECT ", ")"),
    ("", " IN (SELECT 1)"),
    ("1 = ANY (SELECT ", ")"),
    ("(1, 2) = (SELECT 1, ", ")"),
];

/// The places of an expression, written as `{}`, in statements about `t` and about a table `n` that
/// does not exist.
pub(crate) const PLACES: &[&str] = &[
    "SELECT {}",
    "SELECT {} AS a HAVING a",
    "SELECT 1 FROM t WHERE {}",
    "SELECT 1 FROM t GROUP BY {}",
    "SELECT COUNT(*) FROM t HAVING {}",
    "SELECT 1 FROM t ORDER BY {}",
    "SELECT 1 FROM t LIMIT {}",
    "SELECT 1 FROM t JOIN t AS u ON {}",
    "SELECT SUM({}) OVER (PARTITION BY {}) FROM t",
    "SELECT * FROM (SELECT {} AS x) AS x",
    "WITH x AS (SELECT {}) SELECT * FROM x",
    "EXPLAIN SELECT {}",
    "INSERT INTO t VALUES ({}, 1)",
    "INSERT INTO t SET a = {}",
    "INSERT INTO t SELECT {}, 1",
    "INSERT INTO t VALUES (1, 1) ON DUPLICATE KEY UPDATE a = {}",
    "REPLACE INTO t VALUES ({}, 1)",
    "UPDATE t SET a = {}",
    "UPDATE t SET a = 1 WHERE {}",
    "UPDATE t JOIN t AS u ON t.id = u.id SET t.a = {} WHERE u.a = 1",
    "DELETE FROM t WHERE {}",
    "DELETE t FROM t JOIN t AS u ON {}",
    "CREATE TABLE n (a INT DEFAULT ({}))",
    "CREATE TABLE n (a INT DEFAULT {})",
    "CREATE TABLE n (a INT CHECK ({}))",
    "CREATE TABLE n (a INT, CONSTRAINT c CHECK ({}))",
    "CREATE TABLE n (a INT, b INT AS ({}))",
    "CREATE TABLE n (a INT, b INT GENERATED ALWAYS AS ({}) STORED)",
    "CREATE TABLE n (a INT, KEY k (({})))",
    "CREATE TABLE n (a INT) PARTITION BY HASH ({})",
    "CREATE TABLE n AS SELECT {} AS a",
    "CREATE INDEX k ON t (({}))",
    "ALTER TABLE t ADD COLUMN b INT DEFAULT ({})",
    "ALTER TABLE t MODIFY a INT DEFAULT ({})",
    "ALTER TABLE t ALTER COLUMN a SET DEFAULT ({})",
    "ALTER TABLE t ADD CHECK ({})",
    "ALTER TABLE t ADD KEY k (({}))",
    "SET @a = {}",
    "SET SESSION sql_select_limit = {}",
    "DO {}",
    "SHOW TABLES WHERE {}",
    "KILL IF(1, 77, {})",
    "CALL p({})",
    "EXECUTE s USING {}",
    "CREATE VIEW v AS SELECT {}",
];

/// Statements that nest in other ways: their start, the text repeated before the middle, the
/// middle, the text repeated after it, and their end.
pub(crate) const CHAINS: &[[&str; 5]] = &[
    ["SELECT 1", "", "", " UNION SELECT 1", ""],
    ["SELECT 1, 2", "", "", " UNION ALL SELECT 1, 2", ""],
    ["SELECT 1", "", "", " EXCEPT SELECT 1", ""],
    ["SELECT 1", "", "", " INTERSECT SELECT 1", ""],
    ["", "(", "SELECT 1", ")", ""],
    ["", "(", "SELECT 1", " UNION SELECT 1)", ""],
    ["", "EXPLAIN ", "SELECT 1", "", ""],
    ["", "DESC ", "SELECT 1", "", ""],
    ["SELECT * FROM ", "(", "t", ")", ""],
    ["SELECT * FROM ", "(", "t", " JOIN t AS u)", ""],
    ["SELECT * FROM t", "", "", " JOIN t", ""],
    ["SELECT * FROM t", "", "", ", t", ""],
    ["SELECT * FROM t", "", "", " NATURAL JOIN t", ""],
    ["SELECT * FROM t ", "JOIN t ", "", "ON 1 ", ""],
    ["SELECT * FROM ", "(SELECT * FROM ", "t", ") AS x", ""],
    ["SELECT * FROM ", "LATERAL (SELECT * FROM ", "t", ") AS x", ""],
    ["", "WITH x AS (", "SELECT 1", ") SELECT * FROM x", ""],
    ["INSERT INTO t ", "(", "SELECT 1, 1", ")", ""],
    ["CREATE TABLE n ", "(", "LIKE t", ")", ""],
    ["SELECT CAST(1 AS ", "ARRAY<", "INT", ">", ")"],
    ["SELECT CAST(1 AS INT", "", "", "[]", ")"],
    ["CREATE TABLE n (a ", "ARRAY<", "INT", ">", ")"],
    ["CREATE TABLE n (a ", "STRUCT<a ", "INT", ">", ")"],
    ["SELECT a", "", "", ".a", ""],
    ["SELECT CASE 1", "", "", " WHEN 1 THEN 2", " END"],
    ["SELECT 1 IN (1", "", "", ", 'a', 1", ")"],
    ["SELECT (1", ", 1", ") = (1", ", 1", ")"],
    ["SELECT (1", ", 1", ") < (1", ", 1", ")"],
    ["SELECT ROW(1", ", 1", ") >= ROW(1", ", 1", ")"],
    ["SELECT COALESCE(1", "", "", ", 1", ")"],
    ["SELECT 1", "", "", ", 1", ""],
    ["SELECT JSON_EXTRACT('1', '$", "", "", ".a", "')"],
    ["SELECT JSON_EXTRACT('", "[", "1", "]", "', '$')"],
    ["SELECT 'a' REGEXP '", "(", "a", ")", "'"],
    ["SELECT 'a' LIKE '", "", "", "%_", "'"],
    ["SET @a = 1", "", "", ", @a = @a + 1", ""],
    ["GRANT ", "(", "SELECT", ")", " ON *.* TO u"],
    ["PREPARE p FROM 'SELECT 1", "", "", " + 1", "'"],
    ["PREPARE p FROM 'SELECT ", "(", "1", ")", "'"],
    ["/*! ", "/*! ", "SELECT 1", " */", " */"],
];

/// A statement with `leaf` nested `count` times, in a place.
pub(crate) fn nested(
    place: &str,
    (before, after): (&str, &str),
    leaf: &str,
    times: usize,
) -> String {
    let expr = format!("{}{leaf}{}", before.repeat(times), after.repeat(times));
    place.replace("{}", &expr)
}

/// A chain with `count` repetitions.
pub(crate) fn chain([start, before, middle, after, end]: [&str; 5], times: usize) -> String {
    format!("{start}{}{middle}{}{end}", before.repeat(times), after.repeat(times))
}

/// `count` common table expressions, each of which reads the previous one.
pub(crate) fn ctes(count: usize) -> String {
    let mut sql = "WITH c0 AS (SELECT 1 AS a)".to_owned();
    for at in 1..count {
        sql += &format!(", c{at} AS (SELECT a FROM c{})", at - 1);
    }
    format!("{sql} SELECT * FROM c{}", count.saturating_sub(1))
}

/// A statement determined by bytes: a place and nested constructs, each any number of times.
pub(crate) fn of_bytes(bytes: &[u8]) -> String {
    let [place, rest @ ..] = bytes else { return String::new() };
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for chosen in rest.chunks_exact(2) {
        let nest = NESTS[usize::from(chosen[0]) % NESTS.len()];
        let times = match chosen[1] {
            few @ 0..=0xbf => usize::from(few) % 24,
            many => usize::from(many - 0xbf) * 64,
        };
        before.push(nest.0.repeat(times));
        after.push(nest.1.repeat(times));
    }
    after.reverse();
    let expr = format!("{}1{}", before.concat(), after.concat());
    PLACES[usize::from(*place) % PLACES.len()].replace("{}", &expr)
}
