//! Compares columns of every type with every kind of constant, with and without an index. An index
//! must change no result.
//!
//! Each table has one column with an index, and a twin without an index. The expected result is
//! that of a comparison in the select list of a query on the twin, where no plan can use an index.
//! The same comparison then runs in WHERE on three tables: the twin, the table with the index, and
//! one whose primary key begins with the column.
//!
//! The constant is on either side of the comparison, as a literal and as a parameter. UPDATE and
//! DELETE with some of the comparisons must affect the same rows. Exact numbers that are compared
//! with texts are so large that doubles cannot distinguish neighbours.

use crate::common::instance_of;
use std::collections::BTreeSet;

use spillway::{Database, Settings};
use spillway_sql::{Session, SqlError};
use spillway_types::{Decimal, Value};

use super::Rows;

/// One of this many parts of the pairs of columns and constants is tested. Half of the pairs have
/// decimals that doubles cannot distinguish. The commit that is checked out selects the part, or
/// `SPILLWAY_SEED`.
const PARTS: usize = 8;

/// Column types with values at the limits of their ranges.
const COLUMNS: &[(&str, &[&str])] = &[
    ("TINYINT", &["0", "1", "-1", "127", "-128"]),
    ("INT", &["0", "1", "12", "-7", "2147483647", "20240229"]),
    (
        "BIGINT",
        &[
            "0",
            "1",
            "9007199254740991",
            "9007199254740992",
            "9007199254740993",
            "-9223372036854775808",
        ],
    ),
    (
        "BIGINT UNSIGNED",
        &["0", "1", "9007199254740992", "9007199254740993", "18446744073709551615"],
    ),
    ("DECIMAL(5,0)", &["0", "1", "2", "-99999"]),
    ("DECIMAL(10,2)", &["0", "1", "1.5", "-1.25", "12.00"]),
    (
        "DECIMAL(24,6)",
        &[
            "9007199254740991.999999",
            "9007199254740992",
            "9007199254740992.000001",
            "9007199254740993",
            "1.5",
        ],
    ),
    ("DECIMAL(36,18) UNSIGNED", &["0", "0.123456789012345678", "0.123456789012345679", "1.5"]),
    ("DOUBLE", &["0", "-0e0", "1", "1.5", "9007199254740992", "0.1"]),
    ("FLOAT", &["0", "1", "1.5", "0.1", "-1.25"]),
    (
        "VARCHAR(30)",
        &[
            "''",
            "'a'",
            "'A '",
            "'é'",
            "'1'",
            "'1.50'",
            "'01'",
            "'2024-02-29'",
            "'12:30:00'",
            "'1abc'",
            "'a\\t'",
            "'a \\nb'",
        ],
    ),
    ("VARCHAR(30) COLLATE utf8mb4_bin", &["''", "'a'", "'A'", "'a '", "'1'", "'1.5'", "'\\n'"]),
    ("CHAR(12)", &["''", "'a'", "'A'", "'1'", "'2024-02-29'", "'a\\t'"]),
    ("VARBINARY(30)", &["''", "'a'", "'a '", "x'00ff'", "'1'", "'2024-02-29'"]),
    ("BINARY(3)", &["'a'", "'1'", "x'0000'"]),
    ("DATE", &["'2024-02-29'", "'2024-03-01'", "'1000-01-01'", "'2000-01-01'"]),
    ("DATETIME(3)", &["'2024-02-29'", "'2024-02-29 12:30:00'", "'2024-02-29 12:30:00.5'"]),
    ("TIMESTAMP NULL", &["'2024-02-29'", "'2024-02-29 12:30:00'"]),
    ("TIME", &["'00:00:00'", "'12:30:00'", "'-01:00:00'", "'838:59:59'", "'00:00:01'"]),
    ("YEAR", &["1901", "2000", "2024", "2001", "0"]),
    ("BIT(5)", &["0", "1", "31"]),
    ("BIT(64)", &["1", "9007199254740993", "18446744073709551615"]),
    ("ENUM('b','a','1')", &["'a'", "'b'", "'1'"]),
    ("SET('x','y','1')", &["''", "'x'", "'x,y'", "'1'"]),
    ("JSON", &["'1'", "'\"a\"'", "'{}'"]),
];

/// Constants of all types, several of each: equal to a value of some column, and between two
/// values.
const CONSTANTS: &[&str] = &[
    "0",
    "1",
    "-1",
    "12",
    "31",
    "24",
    "2024",
    "20240229",
    "123000",
    "9007199254740992",
    "9007199254740993",
    "18446744073709551615",
    "99999999999999999999",
    "1.0",
    "1.5",
    "1.50",
    "-1.25",
    "0.1",
    "9007199254740992.000001",
    "0.123456789012345678",
    "1e0",
    "1.5e0",
    "9007199254740992e0",
    "0.1e0",
    "1e300",
    "''",
    "'a'",
    "'A'",
    "'a '",
    "'a\\t'",
    "'E'",
    "'1'",
    "'1.5'",
    "'1.50'",
    "'01'",
    "' 1'",
    "'1abc'",
    "'abc'",
    "'24'",
    "'2024'",
    "'1e0'",
    "'1e400'",
    "'-1.25'",
    "'9007199254740992.000001'",
    "'9007199254740992.000001x'",
    "'9007199254740993'",
    "'9007199254740992.5'",
    "'18446744073709551615'",
    "'0.123456789012345678'",
    "'x,y'",
    "'2024-02-29'",
    "'2024-02-29 12:30:00.5'",
    "'12:30:00'",
    "'12:30'",
    "x'61'",
    "x'01'",
    "b'11111'",
    "_binary'a'",
    "_binary'1'",
    "DATE'2024-02-29'",
    "TIME'12:30:00'",
    "TIMESTAMP'2024-02-29 12:30:00'",
    "TIMESTAMP'2024-02-29 12:30:00.5'",
    "CAST('1.5' AS CHAR)",
    "CAST('{}' AS JSON)",
    "CONCAT('9007199254740992', '.000001')",
    "TRUE",
    "NULL",
];

const OPERATORS: &[&str] = &["=", "<>", "<", "<=", ">", ">=", "<=>"];

fn parameters() -> Vec<Value> {
    let decimal = |text: &str| Value::Decimal(Decimal::parse(text).unwrap());
    let texts = [
        "a",
        "A ",
        "1",
        "1.5",
        "abc",
        "1abc",
        "9007199254740992.000001",
        "9007199254740993",
        "0.123456789012345678",
    ];
    let texts =
        texts.iter().chain(&["2024-02-29", "12:30:00", "2024"]).map(|text| Value::from(*text));
    let numbers = [
        Value::Int(1),
        Value::Int(9_007_199_254_740_993),
        Value::UInt(u64::MAX),
        Value::Double(1.5),
    ];
    let exact = [
        decimal("1.50"),
        decimal("9007199254740992.000001"),
        Value::Bytes(b"a".to_vec()),
        Value::Null,
    ];
    texts.chain(numbers).chain(exact).collect()
}

/// The ids that a query finds, or the number of its error.
type Found = Result<BTreeSet<String>, u16>;

struct Matrix {
    session: Session,
    wrong: Vec<String>,
}

impl Matrix {
    fn rows(&mut self, sql: &str) -> Result<Rows, SqlError> {
        let mut rows = Rows::default();
        self.session.query(sql, &mut rows).map(|()| rows)
    }

    fn must(&mut self, sql: &str) {
        self.rows(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    fn find(&mut self, sql: &str, params: Option<&[Value]>) -> Found {
        let mut rows = Rows::default();
        let outcome = match params {
            None => self.session.query(sql, &mut rows),
            Some(params) => self.session.prepare(sql).and_then(|prepared| {
                let outcome = self.session.execute(prepared.id, params, &mut rows);
                self.session.close_statement(prepared.id);
                outcome
            }),
        };
        outcome.map_err(|error| error.code)?;
        Ok(rows.rows.into_iter().flat_map(|row| row.into_iter().next()).collect())
    }

    /// The rows that each condition finds if no plan can use it.
    fn plainly(&mut self, conditions: &[String], params: Option<&[Value]>) -> Vec<Found> {
        let of = |condition: &String| {
            format!("SELECT id FROM plain WHERE IF({condition}, 1, 0) = 1 + id - id")
        };
        conditions.iter().map(|condition| self.find(&of(condition), params)).collect()
    }

    /// Tries whether a DELETE and an UPDATE concern the rows that a query without an index finds,
    /// and no others.
    fn change(&mut self, ty: &str, condition: &str, params: Option<&[Value]>) {
        let wanted = self.plainly(&[condition.to_owned()], params).remove(0);
        for table in ["plain", "indexed", "keyed"] {
            let before = match self.find(&format!("SELECT id FROM {table}"), None) {
                Err(1146) => continue,
                before => before.unwrap(),
            };
            let changed = "SELECT id - 1000 FROM {T} WHERE id >= 1000";
            for (change, left) in [
                ("DELETE FROM {T} WHERE ", "SELECT id FROM {T}"),
                ("UPDATE {T} SET id = id + 1000 WHERE ", changed),
            ] {
                let sql = change.replace("{T}", table) + condition;
                self.must("BEGIN");
                let outcome = self.find(&sql, params);
                let left = self.find(&left.replace("{T}", table), None).unwrap();
                self.must("ROLLBACK");
                let deletes = sql.starts_with("DELETE");
                let found =
                    if deletes { before.difference(&left).cloned().collect() } else { left };
                let found = outcome.map(|_| found);
                if found != wanted {
                    let params = params.map(|all| format!(" {all:?}")).unwrap_or_default();
                    self.wrong.push(format!("{ty}: {sql}{params}: {found:?}, not {wanted:?}"));
                }
            }
        }
    }

    fn compare(&mut self, ty: &str, conditions: &[String], params: Option<&[Value]>) {
        let wanted = self.plainly(conditions, params);
        for (condition, wanted) in conditions.iter().zip(wanted) {
            for table in ["plain", "indexed", "keyed"] {
                let sql = format!("SELECT id FROM {table} WHERE {condition}");
                let found = self.find(&sql, params);
                // Tables without a key are only some of all tables.
                let missing = table == "keyed" && found == Err(1146);
                if found != wanted && !missing {
                    let params = params.map(|all| format!(" {all:?}")).unwrap_or_default();
                    self.wrong.push(format!("{ty}: {sql}{params}: {found:?}, not {wanted:?}"));
                }
            }
        }
    }
}

fn tables(matrix: &mut Matrix, ty: &str, values: &[&str]) {
    matrix.must("DROP TABLE IF EXISTS plain, indexed, keyed");
    matrix.must(&format!("CREATE TABLE plain (id INT NOT NULL, c {ty})"));
    let indexed = if ty == "JSON" { "" } else { ", KEY k (c)" };
    matrix.must(&format!("CREATE TABLE indexed (id INT NOT NULL{indexed}, c {ty})"));
    let keyed = ty != "JSON";
    if keyed {
        let ty = ty.trim_end_matches(" NULL");
        matrix.must(&format!(
            "CREATE TABLE keyed (id INT NOT NULL, c {ty} NOT NULL, PRIMARY KEY (c, id))"
        ));
    }
    for (id, value) in values.iter().enumerate() {
        for table in ["plain", "indexed", "keyed"].iter().take(2 + usize::from(keyed)) {
            matrix.must(&format!("INSERT INTO {table} VALUES ({id}, {value})"));
        }
    }
    if !keyed {
        return;
    }
    matrix.must("INSERT INTO indexed VALUES (99, NULL)");
    matrix.must("DELETE FROM indexed WHERE id = 99");
}

/// A number that differs with the commit that is checked out, so that successive commits try
/// different parts; 1 where there is no repository.
fn commit_number() -> usize {
    let git = std::process::Command::new("git")
        .args(["rev-parse", "--short=9", "HEAD"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output();
    let hash = git.ok().and_then(|output| String::from_utf8(output.stdout).ok());
    hash.and_then(|hash| usize::from_str_radix(hash.trim(), 16).ok()).unwrap_or(1)
}

#[test]
fn comparisons_answer_alike_by_any_access() {
    let instance = instance_of(Database::open_in_memory(Settings::default()).unwrap()).unwrap();
    let mut session = instance.session("root", "localhost", 1);
    session.use_database("test").unwrap();
    let mut matrix = Matrix { session, wrong: Vec::new() };
    matrix.must("SET timestamp = 1709208000, time_zone = '+00:00'");
    let seed = std::env::var("SPILLWAY_SEED").ok().and_then(|text| text.parse().ok());
    let seed: usize = seed.unwrap_or_else(commit_number);
    eprintln!("SPILLWAY_SEED={seed}");
    for (column, (ty, values)) in COLUMNS.iter().enumerate() {
        let is_tried = |at: usize| {
            let is_long = ty.starts_with("DECIMAL(24") || ty.starts_with("DECIMAL(36");
            (at + column + seed).is_multiple_of(if is_long { 2 } else { PARTS })
        };
        matrix.must("SET sql_mode = ''");
        tables(&mut matrix, ty, values);
        for (at, constant) in CONSTANTS.iter().enumerate().filter(|(at, _)| is_tried(*at)) {
            let (second, third) =
                (CONSTANTS[(at + 7) % CONSTANTS.len()], CONSTANTS[(at + 23) % CONSTANTS.len()]);
            let sides = OPERATORS
                .iter()
                .flat_map(|op| [format!("c {op} {constant}"), format!("{constant} {op} c")]);
            let ranges = [
                format!("c BETWEEN {constant} AND {second}"),
                format!("c NOT BETWEEN {third} AND {constant}"),
                format!("{constant} BETWEEN c AND {second}"),
                format!("c IN ({constant}, {second})"),
                format!("c NOT IN ({constant}, {third})"),
                format!("(c, id) IN (({constant}, 1), ({second}, 2), ({third}, 0))"),
                format!("c > {constant} AND c <= {second}"),
                format!("CASE c WHEN {constant} THEN TRUE ELSE FALSE END"),
            ];
            let conditions: Vec<String> = sides.chain(ranges).collect();
            matrix.compare(ty, &conditions, None);
            matrix.change(ty, &conditions[(at + column + seed) % conditions.len()], None);
        }
        let many: Vec<&str> = CONSTANTS.iter().copied().filter(|c| *c != "NULL").collect();
        for list in many.chunks(12) {
            matrix.compare(ty, &[format!("c IN ({})", list.join(", "))], None);
        }
        for (at, param) in parameters().into_iter().enumerate().filter(|(at, _)| is_tried(*at)) {
            let sides = OPERATORS.iter().flat_map(|op| [format!("c {op} ?"), format!("? {op} c")]);
            let conditions: Vec<String> = sides.collect();
            let one = Some(std::slice::from_ref(&param));
            matrix.compare(ty, &conditions, one);
            matrix.change(ty, &conditions[(at + column + seed) % conditions.len()], one);
            let pair = [param, Value::from("9007199254740992.000001")];
            let lists = ["c IN (?, ?)", "c NOT IN (?, ?)", "c BETWEEN ? AND ?"].map(str::to_owned);
            matrix.compare(ty, &lists, Some(&pair));
        }
    }
    let wrong = &matrix.wrong;
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}
