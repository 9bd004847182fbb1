//! Tests which anomalies each isolation level admits (decision 012). The anomalies have Adya's
//! names, and the schedules are those of Hermitage. A statement that waits for another session's
//! lock runs in a thread of its own.

use std::sync::Arc;

use crate::common::{Hurried, Rows, code, in_memory, instance_of, run};
use spillway::{Database, Settings};
use spillway_base::thread;
use spillway_sql::{Instance, Session};
use spillway_storage::sim::{Fault, SimDisk};

/// A session in a transaction of its own.
struct Client {
    session: Session,
    /// Whether a statement or the commit was refused because of another transaction (error 1213).
    refused: bool,
}

impl Client {
    fn run(&mut self, sql: &str) -> Vec<String> {
        let mut rows = Rows::default();
        if self.refused {
            // The transaction has ended. The rest of the schedule must not run outside it.
            return Vec::new();
        }
        match self.session.query(sql, &mut rows) {
            Ok(()) => rows.0,
            Err(error) => {
                assert_eq!(error.code, 1213, "{sql}: {error:?}");
                self.refused = true;
                Vec::new()
            }
        }
    }

    /// Runs a statement that either waits for `meanwhile` or runs after it. The result is the same.
    fn run_beside(mut self, sql: &'static str, meanwhile: impl FnOnce()) -> (Client, Vec<String>) {
        let waits = thread::spawn("client", move || {
            let rows = self.run(sql);
            (self, rows)
        });
        meanwhile();
        waits.unwrap().join().unwrap()
    }
}

struct Bench {
    instance: Instance,
    level: &'static str,
    sessions: std::cell::Cell<u64>,
}

const READ_COMMITTED: &str = "READ COMMITTED";
const REPEATABLE_READ: &str = "REPEATABLE READ";
const SERIALIZABLE: &str = "SERIALIZABLE";
const LEVELS: [&str; 3] = [READ_COMMITTED, REPEATABLE_READ, SERIALIZABLE];

impl Bench {
    fn new(level: &'static str) -> Bench {
        let db = Database::open_in_memory(Settings::default()).unwrap();
        let instance = instance_of(db).unwrap();
        let bench = Bench { instance, level, sessions: std::cell::Cell::new(1) };
        let mut session = bench.session();
        let mut rows = Rows::default();
        for sql in [
            "CREATE TABLE test (id INT PRIMARY KEY, value INT)",
            "INSERT INTO test VALUES (1, 10), (2, 20)",
        ] {
            session.query(sql, &mut rows).unwrap();
        }
        bench
    }

    fn session(&self) -> Session {
        self.sessions.set(self.sessions.get() + 1);
        let mut session = self.instance.session("root", "localhost", self.sessions.get());
        session.use_database("test").unwrap();
        session
    }

    fn begin(&self) -> Client {
        let mut client = Client { session: self.session(), refused: false };
        client.run(&format!("SET SESSION TRANSACTION ISOLATION LEVEL {}", self.level));
        client.run("BEGIN");
        client
    }

    fn clients<const N: usize>(&self) -> [Client; N] {
        std::array::from_fn(|_| self.begin())
    }

    /// The committed rows.
    fn rows(&self) -> Vec<String> {
        Client { session: self.session(), refused: false }.run("SELECT * FROM test ORDER BY id")
    }

    /// The result of reading again after another transaction has committed: the new one under READ
    /// COMMITTED, else the old one.
    fn new_or_old<T>(&self, new: T, old: T) -> T {
        if self.level == READ_COMMITTED { new } else { old }
    }
}

fn on_all(test: impl Fn(&Bench)) {
    LEVELS.into_iter().for_each(|level| test(&Bench::new(level)));
}

#[test]
fn g0_writes_do_not_interleave() {
    on_all(|bench| {
        let [mut one, two] = bench.clients();
        one.run("UPDATE test SET value = 11 WHERE id = 1");
        let (mut two, _) = two.run_beside("UPDATE test SET value = 12 WHERE id = 1", || {
            one.run("UPDATE test SET value = 21 WHERE id = 2");
            one.run("COMMIT");
        });
        two.run("UPDATE test SET value = 22 WHERE id = 2");
        two.run("COMMIT");
        assert!(!one.refused && !two.refused, "{}", bench.level);
        assert_eq!(bench.rows(), ["1 12", "2 22"]);
    });
}

#[test]
fn g1a_what_is_rolled_back_is_never_read() {
    on_all(|bench| {
        let [mut one, mut two] = bench.clients();
        one.run("UPDATE test SET value = 101 WHERE id = 1");
        assert_eq!(two.run("SELECT * FROM test"), ["1 10", "2 20"]);
        one.run("ROLLBACK");
        assert_eq!(two.run("SELECT * FROM test"), ["1 10", "2 20"]);
        two.run("COMMIT");
        assert!(!two.refused);
    });
}

#[test]
fn g1b_what_is_written_over_is_never_read() {
    on_all(|bench| {
        let [mut one, mut two] = bench.clients();
        one.run("UPDATE test SET value = 101 WHERE id = 1");
        assert_eq!(two.run("SELECT value FROM test WHERE id = 1"), ["10"]);
        one.run("UPDATE test SET value = 11 WHERE id = 1");
        one.run("COMMIT");
        let read = two.run("SELECT value FROM test WHERE id = 1");
        assert_eq!(read, [bench.new_or_old("11", "10")]);
    });
}

#[test]
fn g1c_two_transactions_do_not_read_each_other() {
    on_all(|bench| {
        let [mut one, mut two] = bench.clients();
        one.run("UPDATE test SET value = 11 WHERE id = 1");
        two.run("UPDATE test SET value = 22 WHERE id = 2");
        assert_eq!(one.run("SELECT value FROM test WHERE id = 2"), ["20"]);
        let read = two.run("SELECT value FROM test WHERE id = 1");
        assert!(two.refused || read == ["10"]);
        one.run("COMMIT");
        two.run("COMMIT");
        // Each has not seen the other's write, so no serial order of the two explains both.
        assert_eq!(one.refused || two.refused, bench.level == SERIALIZABLE);
        assert!(!one.refused || !two.refused);
    });
}

#[test]
fn otv_what_was_seen_of_a_transaction_does_not_vanish() {
    on_all(|bench| {
        let [mut one, two, mut three] = bench.clients();
        one.run("UPDATE test SET value = 11 WHERE id = 1");
        one.run("UPDATE test SET value = 19 WHERE id = 2");
        let (mut two, _) = two.run_beside("UPDATE test SET value = 12 WHERE id = 1", || {
            one.run("COMMIT");
        });
        assert_eq!(three.run("SELECT value FROM test WHERE id = 1"), ["11"]);
        two.run("UPDATE test SET value = 18 WHERE id = 2");
        assert_eq!(three.run("SELECT value FROM test WHERE id = 2"), ["19"]);
        two.run("COMMIT");
        assert!(!two.refused);
        let read = three.run("SELECT value FROM test ORDER BY id");
        assert_eq!(read, bench.new_or_old(["12", "18"], ["11", "19"]));
        three.run("COMMIT");
        assert!(!three.refused, "{}", bench.level);
    });
}

#[test]
fn pmp_a_predicate_keeps_its_rows() {
    on_all(|bench| {
        let [mut one, mut two] = bench.clients();
        assert!(one.run("SELECT * FROM test WHERE value = 30").is_empty());
        two.run("INSERT INTO test VALUES (3, 30)");
        two.run("COMMIT");
        let read = one.run("SELECT * FROM test WHERE value % 3 = 0");
        assert_eq!(read, bench.new_or_old(vec!["3 30"], vec![]));
        one.run("COMMIT");
        assert!(!one.refused && !two.refused);
    });
}

#[test]
fn pmp_a_write_by_predicate_meets_no_row_that_changed_under_it() {
    on_all(|bench| {
        let [mut one, mut two] = bench.clients();
        one.run("UPDATE test SET value = value + 10");
        assert_eq!(two.run("SELECT * FROM test WHERE value = 20"), ["2 20"]);
        let (mut two, _) = two.run_beside("DELETE FROM test WHERE value = 20", || {
            one.run("COMMIT");
        });
        two.run("COMMIT");
        assert_eq!(two.refused, bench.level != READ_COMMITTED, "{}", bench.level);
        // Row 2 is 30 now. Row 1 has become 20, and READ COMMITTED may find it or not.
        let rows = bench.rows();
        assert!(rows.ends_with(&["2 30".to_owned()]), "{rows:?}");
        assert!(rows.len() == 2 || bench.level == READ_COMMITTED);
    });
}

#[test]
fn p4_an_update_is_lost_under_read_committed_only() {
    on_all(|bench| {
        let [mut one, mut two] = bench.clients();
        one.run("SELECT * FROM test WHERE id = 1");
        two.run("SELECT * FROM test WHERE id = 1");
        one.run("UPDATE test SET value = 11 WHERE id = 1");
        let (mut two, _) = two.run_beside("UPDATE test SET value = 12 WHERE id = 1", || {
            one.run("COMMIT");
        });
        two.run("COMMIT");
        assert_eq!((one.refused, two.refused), (false, bench.level != READ_COMMITTED));
        assert_eq!(bench.rows()[0], bench.new_or_old("1 12", "1 11"));
    });
}

#[test]
fn g_single_reads_do_not_skew_above_read_committed() {
    on_all(|bench| {
        let [mut one, mut two] = bench.clients();
        assert_eq!(one.run("SELECT value FROM test WHERE id = 1"), ["10"]);
        two.run("SELECT * FROM test");
        two.run("UPDATE test SET value = 12 WHERE id = 1");
        two.run("UPDATE test SET value = 18 WHERE id = 2");
        two.run("COMMIT");
        let read = one.run("SELECT value FROM test WHERE id = 2");
        assert_eq!(read, [bench.new_or_old("18", "20")]);
        one.run("COMMIT");
        assert!(!one.refused && !two.refused);
    });
}

#[test]
fn g_single_predicates_do_not_skew_above_read_committed() {
    on_all(|bench| {
        let [mut one, mut two] = bench.clients();
        assert_eq!(one.run("SELECT id FROM test WHERE value % 5 = 0"), ["1", "2"]);
        two.run("UPDATE test SET value = 12 WHERE value = 10");
        two.run("COMMIT");
        let read = one.run("SELECT id FROM test WHERE value % 3 = 0");
        assert_eq!(read, bench.new_or_old(vec!["1"], vec![]));
    });
}

#[test]
fn g_single_a_write_by_predicate_does_not_skew() {
    on_all(|bench| {
        let [mut one, mut two] = bench.clients();
        assert_eq!(one.run("SELECT value FROM test WHERE id = 1"), ["10"]);
        two.run("SELECT * FROM test");
        two.run("UPDATE test SET value = 12 WHERE id = 1");
        two.run("UPDATE test SET value = 18 WHERE id = 2");
        two.run("COMMIT");
        one.run("DELETE FROM test WHERE value = 20");
        one.run("COMMIT");
        assert_eq!(one.refused, bench.level != READ_COMMITTED);
        assert_eq!(bench.rows(), ["1 12", "2 18"]);
    });
}

#[test]
fn g2_item_writes_skew_below_serializable_only() {
    on_all(|bench| {
        let [mut one, mut two] = bench.clients();
        one.run("SELECT * FROM test WHERE id IN (1, 2)");
        two.run("SELECT * FROM test WHERE id IN (1, 2)");
        one.run("UPDATE test SET value = 11 WHERE id = 1");
        two.run("UPDATE test SET value = 21 WHERE id = 2");
        one.run("COMMIT");
        two.run("COMMIT");
        assert_eq!(one.refused || two.refused, bench.level == SERIALIZABLE);
        assert!(!one.refused || !two.refused, "one of them can go on");
    });
}

#[test]
fn g2_predicates_skew_below_serializable_only() {
    on_all(|bench| {
        let [mut one, mut two] = bench.clients();
        assert!(one.run("SELECT * FROM test WHERE value % 3 = 0").is_empty());
        assert!(two.run("SELECT * FROM test WHERE value % 3 = 0").is_empty());
        one.run("INSERT INTO test VALUES (3, 30)");
        two.run("INSERT INTO test VALUES (4, 42)");
        one.run("COMMIT");
        two.run("COMMIT");
        assert_eq!(one.refused || two.refused, bench.level == SERIALIZABLE);
        assert!(!one.refused || !two.refused, "one of them can go on");
    });
}

/// The anomaly of Fekete, O'Neil and O'Neil: a read-only transaction makes the order of the others
/// inconsistent.
#[test]
fn g2_with_a_reader_skews_below_serializable_only() {
    on_all(|bench| {
        let [mut one, mut two] = bench.clients();
        assert_eq!(one.run("SELECT * FROM test"), ["1 10", "2 20"]);
        two.run("UPDATE test SET value = value + 5 WHERE id = 2");
        two.run("COMMIT");
        let mut three = bench.begin();
        assert_eq!(three.run("SELECT * FROM test"), ["1 10", "2 25"]);
        three.run("COMMIT");
        one.run("UPDATE test SET value = 0 WHERE id = 1");
        one.run("COMMIT");
        assert!(!two.refused && !three.refused);
        assert_eq!(one.refused, bench.level == SERIALIZABLE);
    });
}

/// Rows that a changing or locking statement searched and did not find count as read, as for a
/// SELECT.
#[test]
fn g2_what_a_write_looked_for_does_not_skew_under_serializable() {
    let looks = [
        ("DELETE FROM test WHERE value = 42", "DELETE FROM test WHERE value = 30"),
        (
            "UPDATE test SET value = 1 WHERE value = 42",
            "UPDATE test SET value = 1 WHERE value = 30",
        ),
        (
            "SELECT * FROM test WHERE value = 42 FOR UPDATE",
            "SELECT * FROM test WHERE value = 30 FOR UPDATE",
        ),
        (
            "SELECT * FROM test WHERE value = 42 LOCK IN SHARE MODE",
            "SELECT 1 FROM test WHERE value = 30 FOR SHARE",
        ),
        ("SELECT * FROM test WHERE id = 4", "SELECT COUNT(*) FROM test WHERE id = 3"),
        ("DELETE FROM test WHERE id = 4", "SELECT * FROM test WHERE id = 3 FOR UPDATE"),
        (
            "INSERT INTO test SELECT 5, value FROM test WHERE id = 4",
            "DELETE FROM test WHERE id > 2",
        ),
    ];
    for (one_looks, two_looks) in looks {
        let bench = Bench::new(SERIALIZABLE);
        let [mut one, mut two] = bench.clients();
        one.run(one_looks);
        two.run(two_looks);
        let (mut two, _) = two.run_beside("INSERT INTO test VALUES (4, 42)", || {
            one.run("INSERT INTO test VALUES (3, 30)");
            one.run("COMMIT");
        });
        two.run("COMMIT");
        assert!(one.refused || two.refused, "{one_looks}; {two_looks}: {:?}", bench.rows());
    }
}

/// Any result that reveals whether a row or a value exists is a read too (SSI-1): a duplicate, a
/// skipped row, an insertion that a savepoint undoes.
#[test]
fn g2_what_a_duplicate_tells_does_not_skew_under_serializable() {
    let by_savepoint = ["SAVEPOINT s", "INSERT INTO u VALUES (3, 30)", "ROLLBACK TO s"];
    let looks: [(&[&str], &str); 8] = [
        (&["INSERT INTO u VALUES (1, 99)"], "DELETE FROM u WHERE id = 1"),
        (&["INSERT INTO u VALUES (9, 10)"], "DELETE FROM u WHERE id = 1"),
        (&["UPDATE u SET value = 10 WHERE id = 2"], "UPDATE u SET value = 11 WHERE id = 1"),
        (&["UPDATE u SET id = 1 WHERE id = 2"], "DELETE FROM u WHERE id = 1"),
        (&["INSERT IGNORE INTO u VALUES (1, 99)"], "DELETE FROM u WHERE id = 1"),
        (&["INSERT IGNORE INTO u VALUES (9, 10)"], "DELETE FROM u WHERE id = 1"),
        (&by_savepoint, "INSERT INTO u VALUES (3, 31)"),
        (&by_savepoint, "INSERT INTO u VALUES (4, 30)"),
    ];
    for (look, change) in looks {
        // With a row in the snapshot, and with one committed after the snapshot was taken.
        for later in [false, true] {
            let bench = Bench::new(SERIALIZABLE);
            let mut first = Client { session: bench.session(), refused: false };
            first.run("CREATE TABLE u (id INT PRIMARY KEY, value INT UNIQUE)");
            first.run("INSERT INTO u VALUES (1, 10), (2, 20)");
            let [mut one, mut two] = bench.clients();
            let mut tell = |sql: &str| {
                let mut rows = Rows::default();
                if one.refused {
                    return;
                }
                if let Err(error) = one.session.query(sql, &mut rows) {
                    assert!([1062, 1213].contains(&error.code), "{sql}: {error:?}");
                    one.refused |= error.code == 1213;
                }
            };
            if later {
                // `one` reads before `two` writes concurrently, and reads the rest after `two` has
                // committed.
                tell("SELECT * FROM u WHERE id = 7");
                two.run("INSERT INTO u VALUES (7, 70)");
                two.run(change);
                two.run("COMMIT");
                look.iter().for_each(|sql| tell(sql));
                one.run("INSERT INTO u VALUES (8, 80)");
                one.run("COMMIT");
                assert_eq!((one.refused, two.refused), (true, false), "{look:?}");
            } else {
                two.run("SELECT * FROM u WHERE id = 7");
                look.iter().for_each(|sql| tell(sql));
                one.run("INSERT INTO u VALUES (7, 70)");
                one.run("COMMIT");
                two.run(change);
                two.run("COMMIT");
                assert!(one.refused || two.refused, "{look:?}");
            }
        }
    }
}

/// A change with an order and a limit changes a row for which it waited only if the row still
/// satisfies the conditions. Otherwise the next matching row takes its place.
#[test]
fn a_limited_change_passes_over_what_does_not_fit_any_more() {
    for (sql, wanted) in [
        (
            "UPDATE test SET value = 99 WHERE value % 10 = 0 ORDER BY id LIMIT 2",
            ["0 99", "1 11", "2 99", "3 30"].as_slice(),
        ),
        ("DELETE FROM test WHERE value % 10 = 0 ORDER BY id LIMIT 2", &["1 11", "3 30"]),
    ] {
        on_all(|bench| {
            let mut third = Client { session: bench.session(), refused: false };
            third.run("INSERT INTO test VALUES (0, 0), (3, 30)");
            let [mut one, two] = bench.clients();
            one.run("UPDATE test SET value = 11 WHERE id = 1");
            let (mut two, _) = two.run_beside(sql, || {
                // Once it has locked row 0, it has chosen its rows.
                let probe = "SELECT id FROM test WHERE id = 0 FOR UPDATE NOWAIT";
                while crate::common::code(&mut third.session, probe) != 3572 {
                    std::thread::yield_now();
                }
                one.run("COMMIT");
            });
            two.run("COMMIT");
            assert!(!one.refused && !two.refused, "{}", bench.level);
            assert_eq!(bench.rows(), wanted, "{}: {sql}", bench.level);
        });
    }
}

/// A change or a locking read that stops at its first rows has not read the rows after them. So it
/// does not conflict with transactions that insert rows at the end. The rows that it did read
/// count.
#[test]
fn a_limited_statement_reads_no_further_than_it_goes_under_serializable() {
    for (look, last) in [
        ("SELECT * FROM test ORDER BY id LIMIT 1 FOR UPDATE", 1),
        ("DELETE FROM test ORDER BY id LIMIT 1", 1),
        ("UPDATE test SET value = 5 ORDER BY id DESC LIMIT 1", 2),
        ("SELECT id FROM test ORDER BY id LIMIT 1", 1),
    ] {
        for inside in [false, true] {
            let bench = Bench::new(SERIALIZABLE);
            let [mut one, mut two] = bench.clients();
            // Each reads what the other writes, if `one` has read that far.
            one.run(look);
            let id = if (last == 1) == inside { 0 } else { 7 };
            two.run("SELECT * FROM test WHERE id = 100");
            two.run(&format!("INSERT INTO test VALUES ({id}, 0)"));
            one.run("INSERT INTO test VALUES (100, 0)");
            one.run("COMMIT");
            two.run("COMMIT");
            assert_eq!(one.refused || two.refused, inside, "{look}: {:?}", bench.rows());
        }
    }
}

/// Workers that each take the first row of a queue, while another transaction reads its last row
/// and appends to it, are not refused.
#[test]
fn workers_at_a_queue_are_not_refused_under_serializable() {
    const TAKEN: usize = 80;
    let bench = Bench::new(SERIALIZABLE);
    let rows: Vec<_> = (0..2 * TAKEN).map(|id| format!("({id}, 0)")).collect();
    let filled = format!("DELETE FROM test; INSERT INTO test VALUES {}", rows.join(","));
    Client { session: bench.session(), refused: false }.run(&filled);
    let client = || {
        let mut client = Client { session: bench.session(), refused: false };
        client.run("SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE");
        client
    };
    let (work, fill) = (
        "BEGIN; SELECT id FROM test ORDER BY id LIMIT 1 FOR UPDATE;
            DELETE FROM test ORDER BY id LIMIT 1; COMMIT",
        "BEGIN; SELECT @last := id FROM test ORDER BY id DESC LIMIT 1;
            INSERT INTO test VALUES (@last + 1, 0); COMMIT",
    );
    let run = |sql: &'static str, times| {
        let mut client = client();
        let all = move || (0..times).any(|_| (client.run(sql), client.refused).1);
        thread::spawn("client", all).unwrap()
    };
    let mut clients: Vec<_> = (0..4).map(|_| run(work, TAKEN / 4)).collect();
    clients.push(run(fill, TAKEN));
    let refused: Vec<_> = clients.into_iter().map(|client| client.join().unwrap()).collect();
    assert_eq!(refused, [false; 5]);
    assert_eq!(bench.rows().len(), 2 * TAKEN);
}

/// Two sessions, the second with a short lock timeout, and two tables with the same rows.
fn two_tables() -> [Session; 2] {
    let instance = in_memory();
    let [mut one, mut two] = [1, 2].map(|id| {
        let mut session = instance.session("root", "localhost", id);
        session.use_database("test").unwrap();
        session
    });
    for table in ["t", "s"] {
        run(&mut one, &format!("CREATE TABLE {table} (id INT PRIMARY KEY, a INT, KEY (a))"))
            .unwrap();
        run(&mut one, &format!("INSERT INTO {table} VALUES (1, 1), (2, 2)")).unwrap();
    }
    run(&mut two, "SET innodb_lock_wait_timeout = 1").unwrap();
    [one, two]
}

/// A change of several tables locks the rows that it reads, also those that it does not change.
#[test]
fn a_change_of_several_tables_waits_for_what_it_reads() {
    let [mut one, mut two] = two_tables();
    run(&mut one, "BEGIN").unwrap();
    run(&mut one, "UPDATE s SET a = 7 WHERE id = 1").unwrap();
    assert_eq!(code(&mut two, "UPDATE t JOIN s ON s.id = t.id SET t.a = s.a WHERE t.id = 1"), 1205);
    assert_eq!(code(&mut two, "DELETE t FROM t JOIN s ON s.id = t.id WHERE t.id = 1"), 1205);
    assert_eq!(code(&mut two, "UPDATE t JOIN s ON s.id = t.id SET t.a = s.a WHERE t.id = 2"), 0);
    run(&mut one, "COMMIT").unwrap();
    assert_eq!(code(&mut two, "UPDATE t JOIN s ON s.id = t.id SET t.a = s.a WHERE t.id = 1"), 0);
    assert_eq!(run(&mut two, "SELECT a FROM t WHERE id = 1").unwrap(), ["7"]);
}

/// A change locks the rows of tables that it only reads in shared mode. Other transactions may read
/// these rows for their own changes, and may change them after its end.
#[test]
fn changes_of_several_tables_share_what_they_only_read() {
    let lookups = [
        // By the primary key, by an index, and by a full scan.
        "JOIN s ON s.id = t.a - t.a + 1",
        "JOIN s ON s.a = t.a - t.a + 1",
        "JOIN s ON s.id + 0 = 1 AND s.a + t.a > 0",
    ];
    for lookup in lookups {
        let changes = [
            format!("UPDATE t {lookup} SET t.a = t.a + s.a WHERE t.id = "),
            format!("DELETE t FROM t {lookup} WHERE t.id = "),
        ];
        for change in changes {
            let [mut one, mut two] = two_tables();
            run(&mut one, "BEGIN").unwrap();
            run(&mut one, &format!("{change}1")).unwrap();
            assert_eq!(code(&mut two, &format!("{change}2")), 0, "{change}");
            let target = "SELECT a FROM t WHERE id = 1 FOR SHARE NOWAIT";
            assert_eq!(code(&mut two, target), 3572, "{change}");
            let of_lookup = "UPDATE s SET a = 9 WHERE id = 1";
            assert_eq!(code(&mut two, of_lookup), 1205, "{change}");
            run(&mut one, "COMMIT").unwrap();
            assert_eq!(code(&mut two, of_lookup), 0, "{change}");
        }
    }
    // A row that the statement may change is locked exclusively, also if no row joins with it in
    // the end.
    let [mut one, mut two] = two_tables();
    run(&mut one, "BEGIN").unwrap();
    run(&mut one, "UPDATE t JOIN s ON s.id = t.a + 100 SET t.a = 5 WHERE t.id = 2").unwrap();
    assert_eq!(code(&mut two, "SELECT a FROM t WHERE id = 2 FOR SHARE NOWAIT"), 3572);
    // The row of the other table is locked exclusively too, if the statement changes both.
    let [mut one, mut two] = two_tables();
    run(&mut one, "BEGIN").unwrap();
    run(&mut one, "UPDATE t JOIN s ON s.id = t.id SET t.a = 5, s.a = 5 WHERE t.id = 2").unwrap();
    for table in ["t", "s"] {
        let locked = format!("SELECT a FROM {table} WHERE id = 2 FOR SHARE NOWAIT");
        assert_eq!(code(&mut two, &locked), 3572, "{table}");
    }
}

/// The same table is read under one name and changed under another.
#[test]
fn a_change_of_a_table_joined_with_itself_shares_what_it_reads_of_it() {
    let [mut one, mut two] = two_tables();
    run(&mut one, "BEGIN").unwrap();
    run(&mut one, "UPDATE t JOIN t AS o ON o.id = 2 SET t.a = o.a + 5 WHERE t.id = 1").unwrap();
    assert_eq!(code(&mut two, "SELECT a FROM t WHERE id = 2 FOR SHARE NOWAIT"), 0);
    assert_eq!(code(&mut two, "SELECT a FROM t WHERE id = 2 FOR UPDATE NOWAIT"), 3572);
    assert_eq!(code(&mut two, "SELECT a FROM t WHERE id = 1 FOR SHARE NOWAIT"), 3572);
    // It may change rows afterwards that only it has locked in shared mode.
    run(&mut one, "UPDATE t JOIN t AS o ON o.id = t.id SET t.a = o.a + 1").unwrap();
    run(&mut one, "COMMIT").unwrap();
    assert_eq!(run(&mut two, "SELECT a FROM t ORDER BY id").unwrap(), ["8", "3"]);
}

/// When an error or a warning reports the state of rows, that state is durable (decision 002).
#[test]
fn what_an_error_says_is_durable() {
    let database = Database::open_in_memory(Settings::default()).unwrap();
    let instance = instance_of(database).unwrap();
    let session = |number| {
        let mut session = instance.session("root", "localhost", number);
        session.use_database("test").unwrap();
        session
    };
    let (mut first, mut second) = (session(1), session(2));
    let table = "CREATE TABLE t (id INT PRIMARY KEY, n INT, v VARCHAR(9), u INT UNIQUE)";
    run(&mut first, table).unwrap();
    run(&mut first, "INSERT INTO t VALUES (7, 7, '7', 70), (8, 8, '8', 80)").unwrap();
    let says = [
        ("UPDATE t SET n = v WHERE id = 7", 1366),
        ("UPDATE t SET n = v WHERE id = 7 AND v = 'seven'", 1366),
        ("UPDATE t SET u = 700 WHERE id = 8", 1062),
        ("INSERT INTO t VALUES (9, 9, '9', 700)", 1062),
        ("INSERT INTO t VALUES (70, 9, '9', 9)", 1062),
        ("INSERT IGNORE INTO t VALUES (70, 9, '9', 9)", 0),
        ("ALTER TABLE t MODIFY v INT", 1366),
        ("ALTER TABLE t ADD CHECK (v <> 'seven')", 3819),
        ("ALTER TABLE t ADD UNIQUE (n)", 1062),
        ("CREATE UNIQUE INDEX by_n ON t (n)", 1062),
    ];
    for (sql, error) in says {
        run(&mut second, "BEGIN").unwrap();
        let mut hurried = Hurried::default();
        for sql in [
            "UPDATE t SET v = 'seven', u = 700 WHERE id = 7",
            "INSERT INTO t VALUES (70, 8, '70', 0)",
        ] {
            first.query(sql, &mut hurried).unwrap();
        }
        assert!(hurried.0.iter().all(|commit| commit.known().is_none()), "{sql}");
        assert_eq!(code(&mut second, sql), error, "{sql}");
        assert!(!run(&mut second, "SHOW WARNINGS").unwrap().is_empty(), "{sql}");
        // A commit's outcome is known together with that of earlier ones, and the statement depends
        // on one of these.
        let met = usize::from(sql.contains("(70,") || sql.contains("UNIQUE"));
        assert!(hurried.0[met].known().is_some(), "{sql}");
        run(&mut second, "ROLLBACK").unwrap();
        hurried.0.into_iter().try_for_each(|commit| commit.wait().map(drop)).unwrap();
        run(&mut first, "DELETE FROM t WHERE id = 70").unwrap();
        run(&mut first, "UPDATE t SET v = '7', u = 70 WHERE id = 7").unwrap();
    }
}

/// Unique values that a transaction removes from a row are not free until that transaction ends.
/// Another transaction that assigns them waits for the lock of the deleted entry.
#[test]
fn unique_values_that_go_are_waited_for() {
    let instance = in_memory();
    let [mut one, mut two] = [1, 2].map(|number| {
        let mut session = instance.session("root", "localhost", number);
        session.use_database("test").unwrap();
        session
    });
    run(&mut one, "CREATE TABLE t (id INT PRIMARY KEY, u INT UNIQUE)").unwrap();
    run(&mut one, "INSERT INTO t VALUES (1, 5)").unwrap();
    run(&mut two, "SET innodb_lock_wait_timeout = 1").unwrap();
    for (ends, then) in [("ROLLBACK", 1062), ("COMMIT", 0)] {
        for changes in ["DELETE FROM t WHERE id = 1", "UPDATE t SET u = 6 WHERE id = 1"] {
            run(&mut one, "BEGIN").unwrap();
            run(&mut one, changes).unwrap();
            assert_eq!(code(&mut two, "INSERT INTO t VALUES (2, 5)"), 1205, "{changes}");
            run(&mut one, ends).unwrap();
            assert_eq!(code(&mut two, "INSERT INTO t VALUES (2, 5)"), then, "{changes}; {ends}");
            run(&mut one, "REPLACE INTO t VALUES (1, 5)").unwrap();
        }
    }
}

/// A condition that changes with each evaluation is evaluated once for each row, after the row is
/// locked.
#[test]
fn a_condition_that_changes_is_looked_at_once_for_each_row() {
    let instance = in_memory();
    let mut session = instance.session("root", "localhost", 1);
    session.use_database("test").unwrap();
    run(&mut session, "CREATE TABLE t (id INT PRIMARY KEY, a INT, KEY (a))").unwrap();
    let fill = "INSERT INTO t VALUES (1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0)";
    run(&mut session, fill).unwrap();
    run(&mut session, "SET @n = 0").unwrap();
    run(&mut session, "UPDATE t SET a = 1 WHERE (@n := @n + 1) % 2 = 0").unwrap();
    let changed = run(&mut session, "SELECT id FROM t WHERE a = 1 ORDER BY id").unwrap();
    assert_eq!(changed, ["2", "4", "6"]);
    assert_eq!(run(&mut session, "SELECT @n").unwrap(), ["6"]);
    run(&mut session, "DELETE FROM t WHERE (@n := @n + 1) % 2 = 0 LIMIT 2").unwrap();
    assert_eq!(run(&mut session, "SELECT id FROM t ORDER BY id").unwrap(), ["1", "3", "5", "6"]);
    let looked = "SELECT id FROM t WHERE (@n := @n + 1) % 2 = 1 ORDER BY id FOR UPDATE";
    assert_eq!(run(&mut session, looked).unwrap(), ["1", "5"]);
}

/// The client gets the warning of an autocommit statement with the result of its commit. The
/// statement does not hold its locks until the warning is durable (decision 003).
#[test]
fn a_warning_holds_no_row_until_the_log_is_written() {
    let instance = in_memory();
    let mut session = instance.session("root", "localhost", 1);
    session.use_database("test").unwrap();
    run(&mut session, "CREATE TABLE t (id INT PRIMARY KEY, d DECIMAL(9, 2))").unwrap();
    run(&mut session, "INSERT INTO t VALUES (7, 1)").unwrap();
    let mut hurried = Hurried::default();
    for _ in 0..3 {
        session.query("UPDATE t SET d = d + 0.001 + 1 WHERE id = 7", &mut hurried).unwrap();
        assert!(hurried.0.iter().all(|commit| commit.known().is_none()));
    }
    hurried.0.into_iter().try_for_each(|commit| commit.wait().map(drop)).unwrap();
    assert!(run(&mut session, "SHOW WARNINGS").unwrap()[0].contains("1265"));
    assert_eq!(run(&mut session, "SELECT d FROM t").unwrap(), ["4.00"]);
}

/// If the log fails before the data is durable on which an error or a warning depends, the
/// statement reports the log's failure instead and changes nothing.
#[test]
fn what_is_not_durable_is_not_told_where_the_log_fails() {
    let says = [
        ("UPDATE t SET n = v WHERE id = 7", ""),
        ("UPDATE t SET n = v + 1 WHERE id = 7", "SET sql_mode = ''"),
        ("INSERT INTO t VALUES (7, 1, '')", ""),
    ];
    for (sql, mode) in says {
        let disk = SimDisk::new(1);
        let mut settings = Settings::default();
        settings.background_threads = false;
        let database = Database::open_on(Arc::new(disk.clone()), "/db", settings).unwrap();
        let instance = instance_of(database).unwrap();
        let [mut first, mut second] = [1, 2].map(|number| {
            let mut session = instance.session("root", "localhost", number);
            session.use_database("test").unwrap();
            session
        });
        run(&mut first, "CREATE TABLE t (id INT PRIMARY KEY, n INT, v VARCHAR(9))").unwrap();
        run(&mut first, "INSERT INTO t VALUES (8, 8, '8')").unwrap();
        if !mode.is_empty() {
            run(&mut second, mode).unwrap();
        }
        run(&mut second, "BEGIN").unwrap();
        let mut hurried = Hurried::default();
        first.query("INSERT INTO t VALUES (7, 7, 'seven')", &mut hurried).unwrap();
        disk.fail_next_sync(Fault::Io);
        let error = run(&mut second, sql).unwrap_err();
        assert_eq!(error.code, 1290, "{sql}: {error:?}");
        assert!(!error.message.contains("seven"), "{error:?}");
        let warnings = run(&mut second, "SHOW WARNINGS").unwrap();
        assert!(warnings.iter().all(|warning| !warning.contains("seven")), "{warnings:?}");
        assert_eq!(run(&mut second, "SELECT * FROM t").unwrap(), ["8 8 8"], "{sql}");
        assert!(hurried.0.pop().unwrap().wait().is_err(), "{sql}");
    }
}
