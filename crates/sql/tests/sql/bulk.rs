//! Tests that statements which change more rows than fit into memory are atomic, by every access
//! path.

use crate::common::{code, instance_of, run};
use spillway::{Database, Settings};
use spillway_sql::{Instance, Session};

const ROWS: u64 = 3000;

/// A session over a database whose transactions keep some 300 rows in memory, and a table.
fn session() -> (Instance, Session) {
    let mut settings = Settings::default();
    settings.memory_bytes = 16 << 20;
    settings.transaction_bytes_max = Some(64 << 10);
    let instance = instance_of(Database::open_in_memory(settings).unwrap()).unwrap();
    let mut session = instance.session("root", "localhost", 1);
    session.use_database("test").unwrap();
    let table = "CREATE TABLE t (id INT PRIMARY KEY, k INT, u INT, pad VARCHAR(60), KEY (k), \
                 UNIQUE KEY (u))";
    run(&mut session, table).unwrap();
    for from in (0..ROWS).step_by(100) {
        let rows: Vec<String> =
            (from..from + 100).map(|id| format!("({id}, {}, {id}, 'pad')", id % 10)).collect();
        run(&mut session, &format!("INSERT INTO t VALUES {}", rows.join(", "))).unwrap();
    }
    (instance, session)
}

/// The number of rows and sums of their values, read from the table and from each index.
fn sums(session: &mut Session) -> String {
    let columns = "COUNT(*), SUM(id), SUM(k), SUM(u)";
    let by =
        |index: &str| format!("SELECT {columns} FROM t FORCE INDEX ({index}) WHERE {index} > -9");
    let by_key = run(session, &format!("SELECT {columns} FROM t")).unwrap().remove(0);
    for index in ["k", "u"] {
        assert_eq!(run(session, &by(index)).unwrap()[0], by_key, "by {index}");
        let counted = format!("SELECT COUNT(*) FROM t FORCE INDEX ({index}) WHERE {index} > -9");
        assert_eq!(run(session, &counted).unwrap()[0], by_key.split(' ').next().unwrap());
    }
    by_key
}

fn sums_of(rows: impl Iterator<Item = (u64, u64, u64)>) -> String {
    let (mut count, mut id, mut k, mut u) = (0, 0, 0, 0);
    for row in rows {
        (count, id, k, u) = (count + 1, id + row.0, k + row.1, u + row.2);
    }
    format!("{count} {id} {k} {u}")
}

fn all() -> impl Iterator<Item = (u64, u64, u64)> {
    (0..ROWS).map(|id| (id, id % 10, id))
}

#[test]
fn every_row_is_changed_in_place() {
    let (_instance, mut session) = session();
    run(&mut session, "UPDATE t SET k = k + 1, pad = 'x'").unwrap();
    assert_eq!(sums(&mut session), sums_of(all().map(|(id, k, u)| (id, k + 1, u))));
    run(&mut session, "UPDATE t SET k = k - 1 WHERE id >= 0 AND u < 100000").unwrap();
    assert_eq!(sums(&mut session), sums_of(all()));
}

#[test]
fn rows_that_move_are_found_first() {
    let (_instance, mut session) = session();
    run(&mut session, "UPDATE t SET id = id + 100000 ORDER BY id DESC").unwrap();
    assert_eq!(sums(&mut session), sums_of(all().map(|(id, k, u)| (id + 100_000, k, u))));
    run(&mut session, "UPDATE t SET id = id - 100000").unwrap();
    run(&mut session, "UPDATE t FORCE INDEX (k) SET k = k + 5 WHERE k > -9").unwrap();
    assert_eq!(sums(&mut session), sums_of(all().map(|(id, k, u)| (id, k + 5, u))));
    let by_query =
        "UPDATE t SET u = u + 100000 WHERE id IN (SELECT v.id FROM (SELECT id FROM t) v)";
    run(&mut session, by_query).unwrap();
    assert_eq!(sums(&mut session), sums_of(all().map(|(id, k, u)| (id, k + 5, u + 100_000))));
}

#[test]
fn half_of_the_rows_go_by_key_and_by_index() {
    let (_instance, mut session) = session();
    run(&mut session, "DELETE FROM t WHERE id % 2 = 0").unwrap();
    assert_eq!(sums(&mut session), sums_of(all().filter(|(id, ..)| id % 2 == 1)));
    run(&mut session, "DELETE FROM t FORCE INDEX (k) WHERE k > 4").unwrap();
    let left = all().filter(|(id, k, _)| id % 2 == 1 && *k <= 4);
    assert_eq!(sums(&mut session), sums_of(left));
    run(&mut session, "INSERT INTO t SELECT id + 50000, k, u + 50000, pad FROM t").unwrap();
    run(&mut session, "REPLACE INTO t SELECT id, k + 1, u, pad FROM t").unwrap();
    let left = all().filter(|(id, k, _)| id % 2 == 1 && *k <= 4);
    let twice = left.flat_map(|(id, k, u)| [(id, k + 1, u), (id + 50_000, k + 1, u + 50_000)]);
    assert_eq!(sums(&mut session), sums_of(twice));
}

#[test]
fn a_statement_that_fails_late_leaves_nothing_and_the_transaction_goes_on() {
    let (instance, mut session) = session();
    run(&mut session, "BEGIN").unwrap();
    run(&mut session, "UPDATE t SET k = k + 1").unwrap();
    let changed = sums_of(all().map(|(id, k, u)| (id, k + 1, u)));
    run(&mut session, "SAVEPOINT a").unwrap();
    let duplicate = format!("UPDATE t SET u = IF(id = {}, 100000, u + 100000)", ROWS - 1);
    assert_eq!(code(&mut session, &duplicate), 1062);
    assert_eq!(sums(&mut session), changed);
    run(&mut session, "DELETE FROM t WHERE id > 5").unwrap();
    run(&mut session, "UPDATE t SET k = 77").unwrap();
    run(&mut session, "ROLLBACK TO a").unwrap();
    assert_eq!(sums(&mut session), changed);
    let mut other = instance.session("root", "localhost", 2);
    other.use_database("test").unwrap();
    assert_eq!(sums(&mut other), sums_of(all()));
    run(&mut session, "UPDATE t SET pad = 'y'").unwrap();
    run(&mut session, "COMMIT").unwrap();
    assert_eq!((sums(&mut session), sums(&mut other)), (changed.clone(), changed));
    assert_eq!(run(&mut other, "SELECT COUNT(*) FROM t WHERE pad = 'y'").unwrap(), ["3000"]);
    run(&mut other, "BEGIN").unwrap();
    run(&mut other, "UPDATE t SET k = 5").unwrap();
    run(&mut other, "ROLLBACK").unwrap();
    assert_eq!(run(&mut session, "SELECT COUNT(*) FROM t WHERE k = 5").unwrap(), ["300"]);
}

#[test]
fn ignored_rows_stay_and_the_others_are_changed() {
    let (_instance, mut session) = session();
    run(&mut session, "UPDATE IGNORE t SET u = u + 1").unwrap();
    assert_eq!(
        sums(&mut session),
        sums_of(all().map(|(id, k, u)| (id, k, u + u64::from(id + 1 == ROWS))))
    );
}

/// Creates 24 MB of rows of 8 KB in a database with 16 MB of memory.
fn wide(session: &mut Session) {
    run(session, "CREATE TABLE w (id INT PRIMARY KEY, pad TEXT)").unwrap();
    run(session, "INSERT INTO w SELECT id, REPEAT('x', 8000) FROM t").unwrap();
}

fn widths(session: &mut Session) -> String {
    run(session, "SELECT COUNT(*), SUM(id), SUM(LENGTH(pad)) FROM w").unwrap().remove(0)
}

#[test]
fn inserts_from_queries_hold_no_rows_in_memory() {
    let (_instance, mut session) = session();
    wide(&mut session);
    let ids: u64 = (0..ROWS).sum();
    assert_eq!(widths(&mut session), format!("{ROWS} {ids} {}", ROWS * 8000));
    // The query reads the table that is written.
    run(&mut session, "INSERT INTO w SELECT id + 100000, CONCAT(pad, 'y') FROM w").unwrap();
    let (twice, more) = (2 * ids + ROWS * 100_000, ROWS * 16_001);
    assert_eq!(widths(&mut session), format!("{} {twice} {more}", 2 * ROWS));
    run(&mut session, "REPLACE INTO w SELECT id, 'z' FROM w").unwrap();
    assert_eq!(widths(&mut session), format!("{} {twice} {}", 2 * ROWS, 2 * ROWS));
}

#[test]
fn an_insert_from_its_own_table_finds_its_rows_first() {
    let (_instance, mut session) = session();
    let own = ["t", "test.t AS other", "(SELECT * FROM t) v", "c"];
    for (at, own) in own.iter().enumerate() {
        let more = ROWS * (at as u64 + 1);
        let with = if *own == "c" { "WITH c AS (SELECT * FROM t)" } else { "" };
        let statement = format!(
            "INSERT INTO t {with} SELECT id + {more}, k, u + {more}, pad FROM {own} WHERE id < {ROWS}"
        );
        run(&mut session, &statement).unwrap();
        let count = more + ROWS;
        assert_eq!(
            run(&mut session, "SELECT COUNT(*), MAX(id) FROM t").unwrap(),
            [format!("{count} {}", count - 1)],
            "{statement}"
        );
    }
    run(&mut session, "CREATE TABLE s (id INT PRIMARY KEY)").unwrap();
    let absent = "INSERT INTO s SELECT k FROM t WHERE NOT EXISTS (SELECT 1 FROM s WHERE id = t.k)";
    assert_eq!(code(&mut session, absent), 1062);
    assert_eq!(run(&mut session, "SELECT COUNT(*) FROM s").unwrap(), ["0"]);
}

#[test]
fn changes_of_several_tables_hold_no_rows_in_memory() {
    let (_instance, mut session) = session();
    wide(&mut session);
    // Each row is joined twice, and changed once.
    run(&mut session, "CREATE TABLE two (id INT, n INT, KEY (id))").unwrap();
    run(&mut session, "INSERT INTO two SELECT id, 1 FROM t UNION ALL SELECT id, 2 FROM t").unwrap();
    let joined = "UPDATE w JOIN two ON two.id = w.id JOIN t ON t.id = w.id \
                  SET w.pad = CONCAT(w.pad, 'y'), t.k = t.k + 1";
    run(&mut session, joined).unwrap();
    let ids: u64 = (0..ROWS).sum();
    assert_eq!(widths(&mut session), format!("{ROWS} {ids} {}", ROWS * 8001));
    assert_eq!(sums(&mut session), sums_of(all().map(|(id, k, u)| (id, k + 1, u))));
    run(&mut session, "DELETE w, t FROM w JOIN two ON two.id = w.id JOIN t ON t.id = w.id")
        .unwrap();
    assert_eq!(run(&mut session, "SELECT COUNT(*) FROM w").unwrap(), ["0"]);
    assert_eq!(sums(&mut session).split(' ').next(), Some("0"));
}

#[test]
fn a_read_within_a_transaction_that_has_written_gives_any_number_of_rows() {
    let (_instance, mut session) = session();
    wide(&mut session);
    run(&mut session, "BEGIN").unwrap();
    run(&mut session, "UPDATE w SET pad = 'changed' WHERE id = 17").unwrap();
    for lock in ["", " FOR UPDATE"] {
        let rows =
            run(&mut session, &format!("SELECT id, pad, NULL, id / 2 FROM w{lock}")).unwrap();
        assert_eq!(rows.len() as u64, ROWS);
        assert_eq!(rows[17], "17 changed NULL 8.5000");
        assert_eq!(rows[18], format!("18 {} NULL 9.0000", "x".repeat(8000)));
    }
    run(&mut session, "ROLLBACK").unwrap();
}
