//! Compares the index of an IN list with the walk, and counts the items that are compared one by
//! one.

use std::cell::Cell;

use spillway_base::rng::Rng;
use spillway_types::Value;

use crate::session::Session;
use crate::tests::{Rows, in_memory, run};

thread_local! {
    static WALKS: Cell<bool> = const { Cell::new(false) };
    static WALKED: Cell<usize> = const { Cell::new(0) };
}

/// Whether the test makes all lists be walked.
pub(crate) fn is_walked() -> bool {
    WALKS.get()
}

/// Counts that an item was compared with a left side.
pub(crate) fn count_walked() {
    WALKED.set(WALKED.get() + 1);
}

/// Columns with values of each type, including the limits of its range, and NULL.
const COLUMNS: &[(&str, &[&str])] = &[
    ("INT", &["0", "1", "-1", "2147483647", "20240229", "NULL"]),
    ("BIGINT", &["1", "9007199254740992", "9007199254740993", "-9223372036854775808", "NULL"]),
    ("BIGINT UNSIGNED", &["0", "9007199254740993", "18446744073709551615", "NULL"]),
    ("DECIMAL(20,4)", &["0", "1", "1.5", "9007199254740992.0001", "-1.25", "NULL"]),
    ("DECIMAL(65,30)", &["0.000000000000000000000000000001", "1.5", "-2", "NULL"]),
    ("DOUBLE", &["0", "-0e0", "1", "1.5", "9007199254740992", "1e300", "NULL"]),
    ("FLOAT", &["0", "0.1", "1.5", "NULL"]),
    (
        "VARCHAR(20)",
        &["''", "'a'", "'A '", "'É'", "'1'", "'1.50'", "'2024-02-29'", "'12:30:00'", "NULL"],
    ),
    ("VARCHAR(20) COLLATE utf8mb4_bin", &["''", "'a'", "'A '", "'é'", "'1'", "NULL"]),
    ("VARBINARY(20)", &["''", "'a'", "'a '", "x'00ff'", "'1'", "NULL"]),
    ("DATE", &["'2024-02-29'", "'1000-01-01'", "NULL"]),
    ("DATETIME(3)", &["'2024-02-29'", "'2024-02-29 12:30:00.5'", "NULL"]),
    ("TIMESTAMP NULL", &["'2024-02-29'", "'2024-02-29 12:30:00'", "NULL"]),
    ("TIME(3)", &["'00:00:00'", "'12:30:00'", "'-838:59:59'", "NULL"]),
    ("YEAR", &["1999", "2024", "NULL"]),
    ("BIT(5)", &["0", "1", "31", "NULL"]),
    ("ENUM('b','a','1')", &["'a'", "'b'", "'1'", "NULL"]),
    ("SET('x','y')", &["''", "'x'", "'x,y'", "NULL"]),
];

/// Items of all kinds, with equal items in several forms.
const ITEMS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "31",
    "1999",
    "2024",
    "20240229",
    "2147483647",
    "9007199254740992",
    "9007199254740993",
    "18446744073709551615",
    "-9223372036854775808",
    "1.0",
    "1.5",
    "1.50",
    "-1.25",
    "0.1",
    "9007199254740992.0001",
    "0.000000000000000000000000000001",
    "99999999999999999999999999999999999999999999999999999999999999999",
    "0e0",
    "1e0",
    "1.5e0",
    "9007199254740992e0",
    "1e300",
    "''",
    "'a'",
    "'A'",
    "'a  '",
    "'é'",
    "'e'",
    "'1'",
    "'1.5'",
    "'01'",
    "'9007199254740992.0001'",
    "'9007199254740993'",
    "'1abc'",
    "'x'",
    "'x,y'",
    "'2024-02-29'",
    "'2024-02-29 12:30:00.5'",
    "'12:30:00'",
    "'1000-01-01'",
    "x'61'",
    "x'00ff'",
    "_binary'a'",
    "DATE'2024-02-29'",
    "TIME'12:30:00'",
    "TIMESTAMP'2024-02-29 12:30:00.5'",
    "NULL",
    "TRUE",
    "UPPER('a')",
    "1 + 0.5",
    "CAST('1' AS SIGNED)",
    "a.id",
];

fn pick<'a, T>(rng: &mut Rng, list: &'a [T]) -> &'a T {
    &list[rng.below(list.len() as u64) as usize]
}

fn list(rng: &mut Rng, most: u64) -> String {
    // NULL makes every other result unknown, so only some of the lists have it.
    let nulls = rng.chance(1, 3);
    let dates = rng.chance(1, 3);
    let items: Vec<&str> = (0..9 + rng.below(most))
        .map(|_| *pick(rng, ITEMS))
        .filter(|item| (nulls || *item != "NULL") && (dates || !item.contains("2024")))
        .collect();
    format!("({})", if items.is_empty() { "1".to_owned() } else { items.join(", ") })
}

fn tables(session: &mut Session) {
    session.use_database("test").unwrap();
    let columns: String =
        COLUMNS.iter().enumerate().map(|(at, (ty, _))| format!(", c{at} {ty}")).collect();
    run(session, &format!("CREATE TABLE a (id INT PRIMARY KEY{columns})"));
    for id in 0..9 {
        let values = COLUMNS.iter().map(|(_, values)| format!(", {}", values[id % values.len()]));
        run(session, &format!("INSERT INTO a VALUES ({id}{})", values.collect::<String>()));
    }
    run(session, "SET sql_mode = ''");
}

/// The result of a statement, or its error.
fn answer(session: &mut Session, sql: &str, walks: bool) -> String {
    WALKS.set(walks);
    let mut rows = Rows::default();
    let outcome = session.query(sql, &mut rows);
    WALKS.set(false);
    match outcome {
        Ok(()) => format!("{rows:?}"),
        Err(error) => format!("error {}", error.code),
    }
}

/// IN-LIST-1 and IN-LIST-2: the index gives the same results as the walk.
#[test]
fn an_index_answers_what_the_walk_answers() {
    let instance = in_memory();
    let mut session = instance.session("root", "localhost", 1);
    tables(&mut session);
    let mut rng = Rng::new(7);
    for round in 0..600 {
        let column = |rng: &mut Rng| format!("a.c{}", rng.below(COLUMNS.len() as u64));
        let not = if rng.chance(1, 3) { "NOT " } else { "" };
        let condition = if rng.chance(2, 3) {
            let list = list(&mut rng, 40);
            let left = match rng.below(6) {
                0 => format!("{} + 0", column(&mut rng)),
                1 => (*pick(&mut rng, ITEMS)).to_owned(),
                _ => column(&mut rng),
            };
            format!("{left} {not}IN {list}")
        } else {
            let left = format!("({}, {})", column(&mut rng), column(&mut rng));
            let pairs = (0..9 + rng.below(30))
                .map(|_| format!("({}, {})", pick(&mut rng, ITEMS), pick(&mut rng, ITEMS)));
            format!("{left} {not}IN ({})", pairs.collect::<Vec<_>>().join(", "))
        };
        let sql = match round % 3 {
            0 => format!("SELECT id FROM a WHERE {condition}"),
            1 => format!("SELECT id, {condition} FROM a"),
            _ => format!("UPDATE a SET id = id WHERE {condition}"),
        };
        run(
            &mut session,
            &format!("SET sql_mode = '{}'", pick(&mut rng, &["", "STRICT_ALL_TABLES"])),
        );
        assert_eq!(answer(&mut session, &sql, false), answer(&mut session, &sql, true), "{sql}");
    }
}

/// How many items were compared one by one while a statement ran.
fn walked(session: &mut Session, sql: &str) -> usize {
    WALKED.set(0);
    run(session, sql);
    WALKED.get()
}

/// IN-LIST-3: the cost of a list does not grow with rows times items, wherever the list is used.
#[test]
fn items_of_constant_lists_are_not_walked() {
    let instance = in_memory();
    let mut session = instance.session("root", "localhost", 1);
    session.use_database("test").unwrap();
    run(
        &mut session,
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, s VARCHAR(20), d DECIMAL(10,2), x DATE, b INT, KEY ab (a, b))",
    );
    let rows: Vec<String> = (0..400)
        .map(|id| format!("({id}, {id}, 's{id}', {id}.5, DATE'2024-01-01' + INTERVAL {id} DAY, 1)"))
        .collect();
    run(&mut session, &format!("INSERT INTO t VALUES {}", rows.join(", ")));
    let of = |make: &dyn Fn(usize) -> String| (0..500).map(make).collect::<Vec<_>>().join(", ");
    let numbers = of(&|at| (7 * at).to_string());
    let texts = of(&|at| format!("'S{}'", 7 * at));
    let decimals = of(&|at| format!("'{}.50'", 7 * at));
    let dates = of(&|at| format!("'2024-02-{:02}'", at % 28 + 1));
    let pairs = of(&|at| format!("({}, 1)", 7 * at));
    let mixed = of(&|at| if at % 2 == 0 { at.to_string() } else { format!("'{at}'") });
    for (condition, found) in [
        (format!("a + 0 IN ({numbers})"), 58),
        (format!("a + 0 NOT IN ({numbers})"), 342),
        (format!("id IN ({numbers})"), 58),
        (format!("s IN ({texts})"), 58),
        (format!("s NOT IN ({texts})"), 342),
        (format!("d IN ({decimals})"), 58),
        (format!("x IN ({dates})"), 28),
        (format!("a + 0 IN ({mixed})"), 400),
        (format!("(a, b) IN ({pairs})"), 58),
        (format!("(a + 0, b) IN ({pairs})"), 58),
        (format!("(a + 0, b) NOT IN ({pairs})"), 342),
        (format!("CASE WHEN s IN ({texts}) THEN 1 ELSE 0 END"), 58),
        (format!("a + 0 IN ({numbers}, NULL)"), 58),
        (format!("a + 0 NOT IN ({numbers}, NULL)"), 0),
    ] {
        let sql = format!("SELECT COUNT(*) FROM t WHERE {condition}");
        assert_eq!(run(&mut session, &sql), [found.to_string()], "{condition}");
        assert_eq!(walked(&mut session, &sql), 0, "{condition}");
    }
    for sql in [
        format!("SELECT COUNT(*) FROM t l LEFT JOIN t r ON l.id = r.id AND r.s IN ({texts})"),
        format!("SELECT s, COUNT(*) FROM t GROUP BY s HAVING s IN ({texts})"),
        format!("CREATE TABLE checked (a INT, CHECK (a IN ({numbers})))"),
        "INSERT INTO checked SELECT 7 * id FROM t WHERE id < 300".to_owned(),
        format!("UPDATE t SET b = 2 WHERE a + 0 IN ({numbers})"),
        format!("DELETE FROM t WHERE (a + 0, s) IN ({})", of(&|at| format!("({at}, 'no')"))),
    ] {
        assert_eq!(walked(&mut session, &sql), 0, "{}", &sql[..60.min(sql.len())]);
    }
    let marks = vec!["?"; 500].join(", ");
    let prepared =
        session.prepare(&format!("SELECT COUNT(*) FROM t WHERE s IN ({marks})")).unwrap();
    let params: Vec<Value> = (0..500).map(|at| Value::Text(format!("S{}", 7 * at))).collect();
    WALKED.set(0);
    session.execute(prepared.id, &params, &mut Rows::default()).unwrap();
    assert_eq!(WALKED.get(), 0);
    // Only the item that differs between rows is compared.
    let with_column = format!("SELECT COUNT(*) FROM t WHERE a + 0 IN ({numbers}, id + 1)");
    assert_eq!(walked(&mut session, &with_column), 342);
}

/// Items with user variables are evaluated for each row, because the statement may assign them.
#[test]
fn variables_in_lists_are_asked_for_each_row() {
    let instance = in_memory();
    let mut session = instance.session("root", "localhost", 1);
    session.use_database("test").unwrap();
    run(&mut session, "CREATE TABLE t (id INT PRIMARY KEY)");
    run(&mut session, "INSERT INTO t VALUES (1), (2), (3)");
    run(&mut session, "SET @v = 1");
    let sql =
        "SELECT id IN (10, 11, 12, 13, 14, 15, 16, 17, 18, @v), @v := id + 1 FROM t ORDER BY id";
    assert_eq!(run(&mut session, sql), ["1 2", "1 3", "1 4"]);
}
