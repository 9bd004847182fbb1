//! Statements that change more rows than memory holds: all or nothing, in any way that they find their rows.
#![allow(missing_docs)]

mod common;

use common::{code, run};
use spillway::{Database, Settings};
use spillway_sql::{Instance, Session};

const ROWS: u64 = 3000;

/// A session over a database whose transactions keep some 300 rows in memory, and a table.
fn session() -> (Instance, Session) {
    let mut settings = Settings::default();
    settings.memory_bytes = 16 << 20;
    settings.transaction_bytes_max = Some(64 << 10);
    let instance = Instance::open(Database::open_in_memory(settings).unwrap()).unwrap();
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

/// The rows as the table, and as each index, has them: how many, and sums of what they have.
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
