//! Compares queries that run over stored rows with the same queries over a derived table, whose
//! rows are decoded into values. The queries have ORDER BY and DISTINCT (ROW-BUFFER-1 to
//! ROW-BUFFER-3), and conditions that the bounds of the scanned ranges already imply.

use crate::common::chosen::{commit_seed, some_random};
use crate::common::{in_memory, run};
use spillway_base::rng::Rng;

const COLUMNS: [&str; 9] = ["id", "i", "u", "ci", "cs", "b", "d", "f", "t"];

/// A value of a column. There are few different values, and many are nearly equal.
fn value(column: &str, rng: &mut Rng) -> String {
    if rng.chance(1, 8) {
        return "NULL".to_owned();
    }
    let word = |rng: &mut Rng| {
        let stem =
            ["", "a", "abcdefg", "abcdefgh", "abcdefghi", "\u{c9}cole", "zs\u{df}", "\u{1F600}"];
        let end = ["", " ", "a", "A", "\u{e9}", "E", "~", "  b", "\u{1F601}"];
        let stem = stem[rng.below(stem.len() as u64) as usize];
        format!("'{stem}{}'", end[rng.below(end.len() as u64) as usize])
    };
    match column {
        "i" => {
            let far = [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX];
            far[rng.below(6) as usize].to_string()
        }
        "u" => [0, 1, u64::MAX / 2 + 1, u64::MAX][rng.below(4) as usize].to_string(),
        "ci" | "cs" | "b" => word(rng),
        "d" => format!("{}.{}0", rng.below(3) as i64 - 1, rng.below(3)),
        "f" => format!("{}e{}", rng.below(3) as i64 - 1, rng.below(2)),
        _ => format!("'2026-0{}-01'", 1 + rng.below(4)),
    }
}

#[test]
fn gathered_rows_come_as_those_made_into_values() {
    let instance = in_memory();
    let mut session = instance.session("root", "localhost", 1);
    session.use_database("test").unwrap();
    let create = "CREATE TABLE t (id INT PRIMARY KEY, i BIGINT, u BIGINT UNSIGNED, ci VARCHAR(40), cs VARCHAR(40) COLLATE utf8mb4_bin, \
                  b VARBINARY(40), d DECIMAL(5,2), f DOUBLE, t DATE, KEY by_i (i))";
    run(&mut session, create).unwrap();
    let mut rng = Rng::new(11 ^ commit_seed());
    for from in (0..3000).step_by(250) {
        let rows: Vec<String> = (from..from + 250)
            .map(|id| {
                let rest: Vec<_> = COLUMNS[1..].iter().map(|c| value(c, &mut rng)).collect();
                format!("({id}, {})", rest.join(", "))
            })
            .collect();
        run(&mut session, &format!("INSERT INTO t VALUES {}", rows.join(", "))).unwrap();
    }
    let some = |most: u64, rng: &mut Rng| {
        let mut columns: Vec<&str> = Vec::new();
        for _ in 0..=rng.below(most) {
            let column = COLUMNS[rng.below(9) as usize];
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
        columns
    };
    let mut distinct_rows = 0;
    let cases = some_random(400, 4);
    for _ in 0..cases {
        let distinct = rng.chance(1, 2);
        let shown = some(3, &mut rng);
        let order = match rng.below(4) {
            0 => Vec::new(),
            1 => shown.clone(),
            _ => some(3, &mut rng),
        };
        let order: Vec<String> = order
            .iter()
            .map(|column| format!("{column}{}", if rng.chance(1, 2) { " DESC" } else { "" }))
            .collect();
        let mut tail = match rng.below(3) {
            0 => format!(" WHERE id < {}", rng.below(3000)),
            _ => String::new(),
        };
        if !order.is_empty() {
            tail += &format!(" ORDER BY {}", order.join(", "));
        }
        if rng.chance(1, 3) {
            tail += &format!(" LIMIT {} OFFSET {}", rng.below(900), rng.below(20));
        }
        let head =
            format!("SELECT {}{}", if distinct { "DISTINCT " } else { "" }, shown.join(", "));
        // Without the index, which has its own order of ties.
        let gathered =
            run(&mut session, &format!("{head} FROM t IGNORE INDEX (by_i){tail}")).unwrap();
        let derived = format!("{head} FROM (SELECT * FROM t IGNORE INDEX (by_i)) AS t{tail}");
        assert_eq!(gathered, run(&mut session, &derived).unwrap(), "{derived}");
        distinct_rows += if distinct { gathered.len() } else { 0 };
    }
    assert!(distinct_rows as u64 > 10 * cases);
    // Also through an index that provides the order.
    let by_index =
        run(&mut session, "SELECT DISTINCT i FROM t FORCE INDEX (by_i) ORDER BY i").unwrap();
    assert_eq!(by_index, run(&mut session, "SELECT i FROM t GROUP BY i ORDER BY i").unwrap());
}

/// A test that the bounds of the scanned range already imply is not evaluated for each row. It is
/// for the same rows in a derived table.
#[test]
fn conditions_on_the_key_hold_as_they_do_row_by_row() {
    let instance = in_memory();
    let mut session = instance.session("root", "localhost", 1);
    session.use_database("test").unwrap();
    let mut rng = Rng::new(12 ^ commit_seed());
    for (name, ty) in [("s", "INT"), ("u", "BIGINT UNSIGNED"), ("d", "DECIMAL(6,1)")] {
        let create = format!(
            "CREATE TABLE {name} (a {ty}, b INT, c INT, n {ty}, PRIMARY KEY (a, b), KEY ba (b, a), KEY nb (n, b))"
        );
        run(&mut session, &create).unwrap();
        let from = if name == "u" { 0 } else { -20 };
        let rows: Vec<String> = (from..40)
            .flat_map(|a| (0..3).map(move |b| (a, b)))
            .map(|(a, b)| {
                let n = if (a + b) % 4 == 0 { "NULL".to_owned() } else { a.to_string() };
                format!("({a}, {b}, {}, {n})", a * 3 + b)
            })
            .collect();
        run(&mut session, &format!("INSERT INTO {name} VALUES {}", rows.join(", "))).unwrap();
    }
    run(&mut session, "INSERT INTO u VALUES (18446744073709551615, 1, 1, 0)").unwrap();
    run(
        &mut session,
        "INSERT INTO s VALUES (2147483647, 1, 1, NULL), (-2147483648, 1, 1, -2147483648)",
    )
    .unwrap();
    let values = [
        "-21",
        "-20",
        "0",
        "7",
        "7.5",
        "'7'",
        "'7x'",
        "39",
        "40",
        "NULL",
        "2147483647",
        "-2147483648",
        "2147483648",
        "18446744073709551615",
        "18446744073709551616",
        "1e1",
    ];
    let mut found = 0;
    let cases = some_random(3000, 4);
    for _ in 0..cases {
        let value = |rng: &mut Rng| values[rng.below(values.len() as u64) as usize];
        let one = |rng: &mut Rng| {
            let column = ["a", "a", "b", "n", "n"][rng.below(5) as usize];
            let op = ["<", "<=", "=", ">", ">=", "<>", "<=>"][rng.below(7) as usize];
            match rng.below(5) {
                0 if rng.chance(1, 3) => format!("{column} IS NULL"),
                0 => format!("{column} BETWEEN {} AND {}", value(rng), value(rng)),
                1 => format!("{column} IN ({}, {})", value(rng), value(rng)),
                _ => format!("{column} {op} {}", value(rng)),
            }
        };
        let mut all = one(&mut rng);
        for _ in 0..rng.below(3) {
            all = format!("({all}) {} ({})", ["AND", "OR"][rng.below(2) as usize], one(&mut rng));
        }
        let table = ["s", "u", "d"][rng.below(3) as usize];
        let direct = run(&mut session, &format!("SELECT a, b FROM {table} WHERE {all}"));
        let derived = format!("SELECT a, b FROM (SELECT * FROM {table}) AS t WHERE {all}");
        let (mut direct, mut derived) = (direct.unwrap(), run(&mut session, &derived).unwrap());
        direct.sort();
        derived.sort();
        assert_eq!(direct, derived, "{table}: {all}");
        found += direct.len();
        let totals = "SELECT COUNT(*), COUNT(b), COUNT(n), SUM(b) FROM";
        let direct = run(&mut session, &format!("{totals} {table} WHERE {all}")).unwrap();
        let derived = format!("{totals} (SELECT * FROM {table}) AS t WHERE {all}");
        assert_eq!(direct, run(&mut session, &derived).unwrap(), "{table}: {all}");
    }
    assert!(found as u64 > cases);
}
