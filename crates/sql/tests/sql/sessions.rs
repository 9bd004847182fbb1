//! Tests of concurrent sessions: unique values stay unique, no session undoes a commit of another,
//! and waits end.

use std::sync::Arc;
use std::task::Waker;

use crate::common::{Rows, code, in_memory as instance, instance_of, run};
use spillway::{Database, Durability, Settings, TransactionOptions};
use spillway_base::budget::Use;
use spillway_base::{clock, thread};
use spillway_sql::{Front, Instance, Session};

fn session(instance: &Instance, id: u64) -> Session {
    let mut session = instance.session("root", "localhost", id);
    session.use_database("test").unwrap();
    session
}

const LEVELS: [&str; 3] = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

/// Runs a statement in a transaction that has taken its snapshot before another session's
/// statement. Returns the error and the rows after the commit.
fn after(instance: &Instance, level: &str, others: &str, own: &str) -> (u16, Vec<String>) {
    let (mut one, mut two) = (session(instance, 1), session(instance, 2));
    run(&mut one, "DROP TABLE IF EXISTS t").unwrap();
    run(&mut one, "CREATE TABLE t (id INT PRIMARY KEY, u VARCHAR(9) UNIQUE, n INT DEFAULT 0)")
        .unwrap();
    run(&mut one, "INSERT INTO t VALUES (1, 'a', 0)").unwrap();
    run(&mut one, &format!("SET TRANSACTION ISOLATION LEVEL {level}")).unwrap();
    run(&mut one, "BEGIN; SELECT * FROM t").unwrap();
    run(&mut two, others).unwrap();
    let code = code(&mut one, own);
    let committed = run(&mut one, "COMMIT");
    assert!(committed.is_ok() || level == "SERIALIZABLE", "{level}: {own}: {committed:?}");
    (code, run(&mut two, "SELECT * FROM t ORDER BY id").unwrap())
}

#[test]
fn a_unique_value_that_came_after_the_snapshot_is_a_duplicate() {
    let instance = instance();
    for level in LEVELS {
        for own in [
            "INSERT INTO t VALUES (3, 'x', 0)",
            "UPDATE t SET u = 'x' WHERE id = 1",
            "INSERT INTO t VALUES (2, 'z', 0)",
        ] {
            let (code, rows) = after(&instance, level, "INSERT INTO t VALUES (2, 'x', 0)", own);
            // Finding a duplicate is a read, and this duplicate is not in the snapshot.
            let told = if level == "SERIALIZABLE" { 1213 } else { 1062 };
            assert_eq!(code, told, "{level}: {own}");
            assert_eq!(rows, ["1 a 0", "2 x 0"], "{level}: {own}");
        }
    }
}

#[test]
fn a_duplicate_that_cannot_be_read_is_a_conflict() {
    let instance = instance();
    for level in LEVELS {
        for (own, changed) in [
            ("INSERT INTO t VALUES (3, 'x', 0) ON DUPLICATE KEY UPDATE n = n + 1", "2 x 1"),
            ("INSERT INTO t VALUES (2, 'y', 0) ON DUPLICATE KEY UPDATE n = n + 1", "2 x 1"),
            ("REPLACE INTO t VALUES (3, 'x', 7)", "3 x 7"),
            ("REPLACE INTO t VALUES (2, 'y', 7)", "2 y 7"),
            ("INSERT IGNORE INTO t VALUES (3, 'x', 7)", "2 x 0"),
            ("INSERT IGNORE INTO t VALUES (2, 'y', 7)", "2 x 0"),
        ] {
            let (code, rows) = after(&instance, level, "INSERT INTO t VALUES (2, 'x', 0)", own);
            let reads = level == "READ COMMITTED";
            assert_eq!(code, if reads { 0 } else { 1213 }, "{level}: {own}");
            let second = if reads { changed } else { "2 x 0" };
            assert_eq!(rows, ["1 a 0", second], "{level}: {own}");
        }
    }
}

#[test]
fn a_unique_value_that_was_given_up_after_the_snapshot_is_free() {
    let instance = instance();
    for level in LEVELS {
        for others in ["DELETE FROM t", "UPDATE t SET u = 'b'"] {
            let (code, rows) = after(&instance, level, others, "INSERT INTO t VALUES (2, 'a', 0)");
            // No serial order of the two explains what the second would then have read.
            assert_eq!(code, if level == "SERIALIZABLE" { 1213 } else { 0 }, "{level}: {others}");
            assert_eq!(rows.contains(&"2 a 0".to_owned()), code == 0, "{level}: {others}");
        }
    }
}

#[test]
fn an_insert_waits_for_who_is_about_to_give_the_value_up() {
    for end in ["COMMIT", "ROLLBACK"] {
        let instance = instance();
        let (mut one, mut two) = (session(&instance, 1), session(&instance, 2));
        run(&mut one, "CREATE TABLE t (id INT PRIMARY KEY, u INT UNIQUE)").unwrap();
        run(&mut one, "INSERT INTO t VALUES (1, 5)").unwrap();
        run(&mut one, "BEGIN; UPDATE t SET u = 6 WHERE id = 1").unwrap();
        run(&mut two, "SET innodb_lock_wait_timeout = 0").unwrap();
        assert_eq!(code(&mut two, "INSERT INTO t VALUES (2, 5)"), 1205);
        run(&mut one, end).unwrap();
        let wanted = if end == "COMMIT" { 0 } else { 1062 };
        assert_eq!(code(&mut two, "INSERT INTO t VALUES (2, 5)"), wanted);
    }
}

#[test]
fn many_sessions_that_insert_the_same_values_leave_no_value_twice() {
    const THREADS: u64 = 6;
    const VALUES: u64 = 12;
    for level in LEVELS {
        let instance = instance();
        let mut first = session(&instance, 1);
        run(&mut first, "CREATE TABLE t (id INT PRIMARY KEY, u INT UNIQUE, n INT NOT NULL)")
            .unwrap();
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let instance = instance.clone();
                thread::spawn("writer", move || {
                    let mut session = session(&instance, 10 + thread);
                    let level = format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}");
                    run(&mut session, &level).unwrap();
                    let mut kept = 0;
                    for value in 0..VALUES {
                        let id = value * THREADS + thread;
                        let how = match (thread + value) % 3 {
                            0 => "ON DUPLICATE KEY UPDATE n = n + 1",
                            _ => "",
                        };
                        // The snapshot is older than the rows that other sessions insert meanwhile.
                        let sql = format!(
                            "BEGIN; SELECT COUNT(*) FROM t; \
                             INSERT INTO t VALUES ({id}, {value}, 1) {how}; COMMIT"
                        );
                        let outcome = run(&mut session, &sql).map_err(|error| error.code);
                        match outcome {
                            Ok(_) => kept += 1,
                            Err(1062 | 1213) => drop(run(&mut session, "ROLLBACK")),
                            Err(other) => panic!("{other}"),
                        }
                    }
                    kept
                })
                .unwrap()
            })
            .collect();
        let kept: u64 = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
        let twice = "SELECT u FROM t GROUP BY u HAVING COUNT(*) > 1";
        assert!(run(&mut first, twice).unwrap().is_empty(), "{level}");
        // Exactly the acknowledged inserts and updates are there.
        assert_eq!(run(&mut first, "SELECT SUM(n) FROM t").unwrap(), [kept.to_string()], "{level}");
        assert!(kept > 0, "{level}");
    }
}

#[test]
fn a_unique_index_is_not_made_over_what_others_insert_meanwhile() {
    let instance = instance();
    let (mut one, mut two) = (session(&instance, 1), session(&instance, 2));
    run(&mut one, "CREATE TABLE t (id INT PRIMARY KEY, u INT)").unwrap();
    run(&mut one, "INSERT INTO t VALUES (1, 5)").unwrap();
    run(&mut two, "SET lock_wait_timeout = 0").unwrap();
    run(&mut one, "BEGIN; INSERT INTO t VALUES (2, 5)").unwrap();
    assert_eq!(code(&mut two, "CREATE UNIQUE INDEX u ON t (u)"), 1205);
    run(&mut one, "COMMIT").unwrap();
    assert_eq!(code(&mut two, "CREATE UNIQUE INDEX u ON t (u)"), 1062);
    run(&mut one, "DELETE FROM t WHERE id = 2").unwrap();
    run(&mut one, "CREATE TABLE other (id INT); BEGIN; SELECT * FROM other").unwrap();
    assert_eq!(code(&mut two, "CREATE UNIQUE INDEX u ON t (u)"), 0);
    // A transaction whose snapshot is older than the unique index cannot read by it, but must obey
    // it.
    assert_eq!(code(&mut one, "SELECT id FROM t WHERE u = 5"), 1412);
    assert_eq!(code(&mut one, "INSERT INTO t VALUES (3, 5)"), 1062);
    run(&mut one, "COMMIT").unwrap();
    assert_eq!(run(&mut one, "SELECT id FROM t WHERE u = 5").unwrap(), ["1"]);
    assert_eq!(code(&mut one, "INSERT INTO t VALUES (3, 5)"), 1062);
}

#[test]
fn tables_that_come_and_go_at_once_are_all_known() {
    const THREADS: u64 = 4;
    let instance = instance();
    let makers: Vec<_> = (0..THREADS)
        .map(|thread| {
            let instance = instance.clone();
            thread::spawn("maker", move || {
                let mut session = session(&instance, 10 + thread);
                for round in 0..60 {
                    run(&mut session, &format!("CREATE TABLE t{thread}_{round} (id INT)")).unwrap();
                    let written = format!("INSERT INTO t{thread}_{round} VALUES (1)");
                    run(&mut session, &written).unwrap();
                    run(&mut session, &format!("DROP TABLE t{thread}_{round}")).unwrap();
                }
                run(&mut session, &format!("CREATE TABLE t{thread} (id INT)")).unwrap();
            })
            .unwrap()
        })
        .collect();
    makers.into_iter().for_each(|maker| maker.join().unwrap());
    let wanted: Vec<String> = (0..THREADS).map(|thread| format!("t{thread}")).collect();
    let mut session = session(&instance, 1);
    assert_eq!(run(&mut session, "SHOW TABLES").unwrap(), wanted);
}

/// The numbers that the rows of `t` have.
fn numbers(session: &mut Session) -> String {
    run(session, "SELECT id FROM t ORDER BY id").unwrap().join(" ")
}

/// The next number that SHOW CREATE TABLE shows.
fn next(session: &mut Session) -> u64 {
    let shown = run(session, "SHOW CREATE TABLE t").unwrap().join("");
    let after = shown.split("AUTO_INCREMENT=").nth(1).unwrap_or("1");
    after.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn a_number_is_not_given_again_after_a_restart() {
    let db = Database::open_in_memory(Settings::default()).unwrap();
    let opened = instance_of(db.clone()).unwrap();
    let mut one = session(&opened, 1);
    run(&mut one, "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY)").unwrap();
    run(&mut one, "INSERT INTO t VALUES (), (), (); DELETE FROM t WHERE id = 3").unwrap();
    drop((one, opened));
    // The next opening continues with the number that a clean shutdown left.
    let opened = instance_of(db.clone()).unwrap();
    let mut one = session(&opened, 1);
    assert_eq!(next(&mut one), 4);
    run(&mut one, "INSERT INTO t VALUES (), (20), (); DELETE FROM t WHERE id > 4").unwrap();
    assert_eq!((numbers(&mut one).as_str(), next(&mut one)), ("1 2 4", 22));
    drop(one);
    // No shutdown at all.
    std::mem::forget(opened);
    let opened = instance_of(db).unwrap();
    let mut one = session(&opened, 1);
    assert!((22..22 + 256).contains(&next(&mut one)), "{}", next(&mut one));
    let given = next(&mut one);
    run(&mut one, "INSERT INTO t VALUES ()").unwrap();
    assert_eq!(numbers(&mut one), format!("1 2 4 {given}"));
}

#[test]
fn a_number_that_an_update_gives_is_not_given_again() {
    let instance = instance();
    let mut one = session(&instance, 1);
    run(&mut one, "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, u INT UNIQUE)").unwrap();
    run(&mut one, "INSERT INTO t (u) VALUES (1), (2); UPDATE t SET id = 7 WHERE id = 1").unwrap();
    assert_eq!(next(&mut one), 8);
    run(&mut one, "INSERT INTO t (u) VALUES (2) ON DUPLICATE KEY UPDATE id = 20").unwrap();
    run(&mut one, "INSERT INTO t (u) VALUES (3)").unwrap();
    assert_eq!(numbers(&mut one), "7 20 21");
}

#[test]
fn the_number_that_comes_next_can_be_set() {
    let instance = instance();
    let mut one = session(&instance, 1);
    run(&mut one, "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, n INT) AUTO_INCREMENT=10")
        .unwrap();
    assert_eq!(next(&mut one), 10);
    run(&mut one, "INSERT INTO t VALUES (), (), ()").unwrap();
    // Not below the existing numbers.
    for (set, wanted) in [(100, 100), (5, 13), (40, 40)] {
        run(&mut one, &format!("ALTER TABLE t AUTO_INCREMENT={set}")).unwrap();
        assert_eq!(next(&mut one), wanted);
    }
    run(&mut one, "INSERT INTO t VALUES (); ALTER TABLE t MODIFY n BIGINT").unwrap();
    assert_eq!((numbers(&mut one).as_str(), next(&mut one)), ("10 11 12 40", 41));
    run(&mut one, "TRUNCATE TABLE t").unwrap();
    assert_eq!(next(&mut one), 1);
    run(&mut one, "INSERT INTO t VALUES ()").unwrap();
    assert_eq!(numbers(&mut one), "1");
}

#[test]
fn a_table_does_not_take_up_the_numbers_of_one_that_was_dropped() {
    let db = Database::open_in_memory(Settings::default()).unwrap();
    for round in 0..3 {
        let opened = instance_of(db.clone()).unwrap();
        let mut one = session(&opened, 1);
        run(&mut one, "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY)").unwrap();
        run(&mut one, "INSERT INTO t VALUES (), ()").unwrap();
        assert_eq!(numbers(&mut one), "1 2", "{round}");
        run(&mut one, "DROP TABLE t").unwrap();
    }
}

/// An instance whose transactions keep one megabyte in memory, and a table `t` of more.
fn large() -> (Instance, Session) {
    let mut settings = Settings::default();
    settings.memory_bytes = 16 << 20;
    let instance = instance_of(Database::open_in_memory(settings).unwrap()).unwrap();
    let mut one = session(&instance, 1);
    run(&mut one, "CREATE TABLE t (id INT PRIMARY KEY, n INT, s VARCHAR(7000))").unwrap();
    for chunk in 0..4 {
        let ids = (0..100).map(|row| chunk * 100 + row);
        let rows: Vec<String> =
            ids.map(|id| format!("({id}, {id}, CONCAT({id}, REPEAT('x', 6000)))")).collect();
        run(&mut one, &format!("INSERT INTO t VALUES {}", rows.join(","))).unwrap();
    }
    assert!(instance.database().settings().transaction_bytes() < 400 * 6000);
    (instance, one)
}

#[test]
fn rows_that_a_statement_holds_fit_the_memory_budget() {
    let mut settings = Settings::default();
    settings.memory_bytes = 16 << 20;
    let instance = instance_of(Database::open_in_memory(settings).unwrap()).unwrap();
    let mut one = session(&instance, 1);
    run(&mut one, "CREATE TABLE h (id INT PRIMARY KEY, n INT, s MEDIUMTEXT)").unwrap();
    run(&mut one, "CREATE TABLE other (id INT PRIMARY KEY, n INT, s MEDIUMTEXT)").unwrap();
    for id in 0..200 {
        let row = format!("({id}, 1, CONCAT({id}, REPEAT('x', 100000)))");
        run(&mut one, &format!("INSERT INTO h VALUES {row}")).unwrap();
    }
    let held = || instance.database().budget().used_for(Use::Connections);
    for sql in [
        "UPDATE h SET n = n + 1 ORDER BY s LIMIT 200",
        "DELETE FROM h ORDER BY s",
        "SELECT DISTINCT s FROM h",
        "SELECT DISTINCT s FROM h ORDER BY n LIMIT 1",
        "SELECT DISTINCT MAX(s) FROM h GROUP BY id",
        "SELECT COUNT(DISTINCT s) FROM h",
        "SELECT LENGTH(GROUP_CONCAT(s)) FROM h",
        "SELECT LENGTH(GROUP_CONCAT(n ORDER BY s)) FROM h",
        "SELECT COUNT(*) FROM h GROUP BY s",
    ] {
        // Its plan is cached from the first time on.
        assert_eq!(code(&mut one, sql), 1038, "{sql}");
        let before = held();
        assert_eq!(code(&mut one, sql), 1038, "{sql}");
        run(&mut one, "ROLLBACK").unwrap();
        assert_eq!(held(), before, "{sql}");
    }
    // Rows that are changed while they are found are not kept, and other rows are on disk.
    for sql in [
        "DELETE FROM h",
        "UPDATE h SET n = n + 1",
        "INSERT INTO other SELECT * FROM h",
        "REPLACE INTO other SELECT id, n, s FROM h",
        "UPDATE h JOIN h AS b USING (id) SET h.s = b.s",
        "SELECT * FROM h FOR UPDATE",
        "INSERT INTO other VALUES (1, 1, ''); SELECT * FROM h",
    ] {
        let all = format!("BEGIN; {sql}; ROLLBACK");
        assert_eq!(code(&mut one, &all), 0, "{sql}");
        let before = held();
        assert_eq!(code(&mut one, &all), 0, "{sql}");
        assert_eq!(held(), before, "{sql}");
    }
    // Each of the two fits, but not both at the same time.
    run(&mut one, "CREATE TABLE half (n INT, s MEDIUMTEXT)").unwrap();
    for id in 0..95 {
        run(&mut one, &format!("INSERT INTO half SELECT id, s FROM h WHERE id = {id}")).unwrap();
    }
    let two = "SELECT SUM(LENGTH(b.s) > 0) FROM half a JOIN half b ON a.n = b.n";
    assert_eq!(run(&mut one, two).unwrap(), ["95"]);
    let three = "SELECT SUM(LENGTH(b.s) = LENGTH(c.s)) FROM half a JOIN half b ON a.n = b.n JOIN half c ON a.n = c.n";
    assert_eq!(code(&mut one, three), 1038);
    let left = "SELECT COUNT(*), SUM(n), COUNT(DISTINCT id), LENGTH(MAX(s)) FROM h";
    assert_eq!(run(&mut one, left).unwrap(), ["200 200 200 100001"]);
}

/// The number of key spaces in the database, including those of no table.
fn spaces(instance: &Instance) -> usize {
    // No session waits until the last of them is durable.
    let newest = TransactionOptions::new().durability(Durability::Relaxed);
    let txn = instance.database().begin(newest);
    txn.table_names().unwrap().iter().filter(|name| name.starts_with("i/")).count()
}

#[test]
fn a_table_larger_than_a_transaction_is_altered() {
    let (instance, mut one) = large();
    run(&mut one, "CREATE INDEX s ON t (s)").unwrap();
    run(&mut one, "CREATE UNIQUE INDEX n ON t (n)").unwrap();
    assert_eq!(run(&mut one, "SELECT id FROM t WHERE n = 399").unwrap(), ["399"]);
    run(&mut one, "ALTER TABLE t ADD COLUMN front INT DEFAULT 5 FIRST, MODIFY n BIGINT").unwrap();
    assert_eq!(
        run(&mut one, "SELECT COUNT(*), SUM(front), SUM(n) FROM t").unwrap(),
        ["400 2000 79800"]
    );
    assert_eq!(run(&mut one, "SELECT id FROM t WHERE n = 17").unwrap(), ["17"]);
    assert_eq!(spaces(&instance), 3);
    // A failed statement leaves nothing behind.
    run(&mut one, "UPDATE t SET s = 'twice' WHERE id IN (5, 398)").unwrap();
    assert_eq!(code(&mut one, "CREATE UNIQUE INDEX once ON t (s)"), 1062);
    assert_eq!(code(&mut one, "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (s(9))"), 1062);
    assert_eq!(code(&mut one, "ALTER TABLE t ADD CHECK (n < 399)"), 3819);
    assert_eq!(spaces(&instance), 3);
    assert_eq!(run(&mut one, "SELECT COUNT(*) FROM t WHERE s = 'twice'").unwrap(), ["2"]);
}

#[test]
fn an_alter_that_is_killed_stops_and_leaves_nothing() {
    let instance = instance();
    let mut one = session(&instance, 1);
    run(&mut one, "CREATE TABLE t (id INT); INSERT INTO t VALUES (1)").unwrap();
    // More rows than can be built before the other thread sees that the build has started.
    (0..15).for_each(|_| drop(run(&mut one, "INSERT INTO t SELECT id + 1 FROM t").unwrap()));
    let before = spaces(&instance);
    let killer = {
        let instance = instance.clone();
        thread::spawn("killer", move || {
            // Once there is a key space to build.
            while spaces(&instance) == before {
                std::thread::yield_now();
            }
            assert!(instance.kill(1, false));
        })
        .unwrap()
    };
    assert_eq!(code(&mut one, "ALTER TABLE t ADD COLUMN n CHAR(36) DEFAULT (UUID())"), 1317);
    killer.join().unwrap();
    assert_eq!(spaces(&instance), before);
    assert_eq!(run(&mut one, "SELECT * FROM t LIMIT 1").unwrap(), ["1"]);
}

#[test]
fn a_function_makes_no_more_than_a_packet() {
    let instance = instance();
    run(&mut session(&instance, 1), "SET GLOBAL max_allowed_packet = 2048").unwrap();
    let mut two = session(&instance, 2);
    for (call, fits, too_long) in [
        ("HEX(REPEAT('a', {}))", 1024, 1025),
        ("REPEAT('a', {})", 2048, 2049),
        ("SPACE({})", 2048, 2049),
        ("RPAD('a', {}, 'b')", 512, 513),
        ("LPAD(CAST('a' AS BINARY), {}, 'b')", 2048, 2049),
        ("CONCAT('a', REPEAT('b', {}))", 2047, 2048),
        ("CONCAT_WS(',', 'a', REPEAT('b', {}))", 2046, 2047),
        ("INSERT('abc', 1, 1, REPEAT('b', {}))", 2046, 2047),
        ("EXPORT_SET(0, 'y', REPEAT('n', {}), '', 2)", 1024, 1025),
        ("QUOTE(REPEAT('n', {}))", 2046, 2047),
        ("REPLACE('n.', '.', REPEAT('n', {}))", 2047, 2048),
        ("REGEXP_REPLACE('n.', '[.]', REPEAT('n', {}))", 2047, 2048),
        ("TO_BASE64(REPEAT('n', {}))", 1515, 1518),
    ] {
        for (count, wanted) in [(fits, "0"), (too_long, "1")] {
            let call = call.replace("{}", &count.to_string());
            let answer = run(&mut two, &format!("SELECT {call} IS NULL")).unwrap();
            assert_eq!(answer, [wanted], "{call}");
            let warned = run(&mut two, "SHOW WARNINGS").unwrap();
            assert_eq!(warned.len().to_string(), wanted, "{call}: {warned:?}");
        }
    }
}

/// The clock advances between two readings, also beyond the end of the sleep.
#[test]
fn a_sleep_of_nearly_nothing_ends() {
    let mut one = session(&instance(), 1);
    run(&mut one, "CREATE TABLE t (id INT)").unwrap();
    let rows: Vec<String> = (0..200).map(|id| format!("({id})")).collect();
    run(&mut one, &format!("INSERT INTO t VALUES {}", rows.join(","))).unwrap();
    let slept = "SELECT SUM(SLEEP(id * 2e-8)) FROM t";
    assert_eq!(run(&mut one, slept).unwrap(), ["0"]);
}

#[test]
fn what_a_crash_left_of_an_alter_goes_with_the_next_opening() {
    let db = Database::open_in_memory(Settings::default()).unwrap();
    let opened = instance_of(db.clone()).unwrap();
    let mut one = session(&opened, 1);
    run(&mut one, "CREATE TABLE t (id INT PRIMARY KEY, n INT, KEY (n))").unwrap();
    let txn = db.begin(TransactionOptions::new());
    let left = txn.create_table("i/1/left/over", spillway::EngineKind::Tiered).unwrap();
    txn.put(left, b"k", b"v").unwrap();
    txn.commit().wait().unwrap();
    assert_eq!(spaces(&opened), 3);
    drop((one, opened));
    let opened = instance_of(db).unwrap();
    assert_eq!(spaces(&opened), 2);
    let mut one = session(&opened, 1);
    run(&mut one, "INSERT INTO t VALUES (1, 2)").unwrap();
    assert_eq!(run(&mut one, "SELECT id FROM t WHERE n = 2").unwrap(), ["1"]);
}

#[test]
fn a_database_is_dropped_when_nobody_uses_its_tables() {
    let instance = instance();
    let (mut one, mut two) = (session(&instance, 1), session(&instance, 2));
    run(&mut one, "CREATE DATABASE d; CREATE TABLE d.t (id INT)").unwrap();
    run(&mut two, "SET lock_wait_timeout = 0").unwrap();
    run(&mut one, "BEGIN; INSERT INTO d.t VALUES (1)").unwrap();
    assert_eq!(code(&mut two, "DROP DATABASE d"), 1205);
    run(&mut one, "COMMIT").unwrap();
    assert_eq!(code(&mut two, "DROP DATABASE d"), 0);
    assert_eq!(code(&mut one, "SELECT * FROM d.t"), 1049);
}

#[test]
fn a_change_that_waits_lets_those_finish_whom_it_waits_for() {
    let instance = instance();
    let (mut one, mut two) = (session(&instance, 1), session(&instance, 2));
    run(&mut one, "CREATE TABLE t (id INT); BEGIN; SELECT * FROM t").unwrap();
    let alter = {
        let instance = instance.clone();
        let body = move || code(&mut session(&instance, 3), "ALTER TABLE t ADD COLUMN n INT");
        thread::spawn("alter", body).unwrap()
    };
    // It waits once no new sessions are let in.
    run(&mut one, "SET lock_wait_timeout = 0").unwrap();
    run(&mut two, "SET lock_wait_timeout = 0").unwrap();
    while code(&mut two, "SELECT * FROM t") == 0 {}
    assert_eq!(code(&mut one, "INSERT INTO t VALUES (1)"), 0);
    run(&mut one, "COMMIT").unwrap();
    assert_eq!(alter.join().unwrap(), 0);
    assert_eq!(run(&mut one, "SELECT * FROM t").unwrap(), ["1 NULL"]);
}

#[test]
fn locked_tables_keep_others_out() {
    let instance = instance();
    let (mut one, mut two) = (session(&instance, 1), session(&instance, 2));
    run(&mut one, "CREATE TABLE t (id INT); CREATE TABLE u (id INT)").unwrap();
    run(&mut two, "SET lock_wait_timeout = 0").unwrap();
    run(&mut one, "LOCK TABLES t WRITE, u AS alias READ").unwrap();
    for sql in ["SELECT * FROM t", "INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (1)"] {
        assert_eq!(code(&mut two, sql), 1205, "{sql}");
    }
    assert_eq!(code(&mut two, "DROP TABLE u"), 1205);
    assert_eq!(code(&mut two, "SELECT * FROM u"), 0);
    // The session itself may use the table as it has locked it, and no more.
    for (sql, wanted) in [
        ("INSERT INTO t VALUES (1)", 0),
        ("ALTER TABLE t ADD COLUMN n INT", 0),
        ("SELECT * FROM u", 0),
        ("WITH w AS (SELECT * FROM u) SELECT * FROM w", 0),
        ("INSERT INTO u VALUES (1)", 1099),
        ("INSERT INTO t SELECT id, 1 FROM missing", 1100),
        ("UPDATE t JOIN u ON t.id = u.id SET t.id = 5", 0),
        ("UPDATE t JOIN u ON t.id = u.id SET u.id = 5", 1099),
        ("DELETE u FROM t JOIN u ON t.id = u.id", 1099),
        ("DELETE t FROM t JOIN u ON t.id = u.id", 0),
        ("DROP TABLE u", 1099),
        ("CREATE TABLE v (id INT)", 1100),
        ("DROP DATABASE test", 1192),
        ("LOCK TABLES missing READ", 1146),
    ] {
        assert_eq!(code(&mut one, sql), wanted, "{sql}");
    }
    run(&mut one, "LOCK TABLES t READ LOCAL").unwrap();
    assert_eq!(code(&mut two, "INSERT INTO u VALUES (1)"), 0);
    assert_eq!(code(&mut two, "DELETE FROM t"), 1205);
    run(&mut one, "UNLOCK TABLES").unwrap();
    assert_eq!(code(&mut two, "DELETE FROM t"), 0);
    // A transaction releases the locks, and so does the session's end.
    run(&mut one, "LOCK TABLES t WRITE; BEGIN").unwrap();
    assert_eq!(code(&mut two, "SELECT * FROM t"), 0);
    run(&mut one, "LOCK TABLES t WRITE").unwrap();
    assert_eq!(code(&mut two, "SELECT * FROM t"), 1205);
    drop(one);
    assert_eq!(code(&mut two, "SELECT * FROM t"), 0);
    assert_eq!(code(&mut two, "FLUSH TABLES WITH READ LOCK"), 1235);
}

#[test]
fn a_wait_for_a_table_ends_when_it_is_killed() {
    let instance = instance();
    let mut one = session(&instance, 1);
    run(&mut one, "CREATE TABLE t (id INT PRIMARY KEY); BEGIN; SELECT * FROM t").unwrap();
    let mut waiting = session(&instance, 2);
    let waiter =
        thread::spawn("waiter", move || code(&mut waiting, "ALTER TABLE t ADD COLUMN a INT"))
            .unwrap();
    // Once its statement is shown, it waits or is about to wait. In both cases it must notice that
    // it must stop.
    let mut root = session(&instance, 3);
    let waits = "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'ALTER%'";
    while run(&mut root, waits).unwrap() != ["1"] {
        std::thread::yield_now();
    }
    run(&mut root, "KILL QUERY 2").unwrap();
    assert_eq!(waiter.join().unwrap(), 1317);
    assert_eq!(code(&mut one, "SELECT * FROM t"), 0);
}

/// A session runs or refuses every statement that a client sends: on a thread's usual stack, and
/// also if the statement is prepared and dropped.
#[test]
fn a_deep_statement_is_run_or_refused() {
    let instance = instance();
    let mut one = session(&instance, 1);
    run(&mut one, "CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1), (2)").unwrap();
    let chain = |deep: usize| {
        [
            format!("SELECT 1{}", " + 1".repeat(deep)),
            format!("SELECT * FROM t WHERE id = 1{}", " OR id = 2".repeat(deep)),
            format!("SELECT 1 FROM t WHERE {} id = 1", "id = 2 AND ".repeat(deep)),
            format!("SELECT 1{}", " UNION SELECT 1".repeat(deep)),
            format!("SELECT 'a'{}", " LIKE 'a' = 1".repeat(deep / 2)),
            format!("UPDATE t SET id = id{} WHERE id = 3", " + 1".repeat(deep)),
            format!("DO 1{}", " * 1".repeat(deep)),
        ]
    };
    for sql in chain(900) {
        assert_eq!(code(&mut one, &sql), 0, "{}", &sql[..40]);
        let prepared = one.prepare(&sql).unwrap();
        one.execute(prepared.id, &[], &mut Rows::default()).unwrap();
        one.close_statement(prepared.id);
    }
    for sql in chain(100_000) {
        assert_eq!(code(&mut one, &sql), 1436, "{}", &sql[..40]);
        assert_eq!(one.prepare(&sql).unwrap_err().code, 1436);
    }
    // The parser limits nesting.
    for (open, close) in
        [("(", ")"), ("NOT ", ""), ("- ", ""), ("!", ""), ("(SELECT ", ")"), ("ABS(", ")")]
    {
        let sql = |deep: usize| format!("SELECT {}1{}", open.repeat(deep), close.repeat(deep));
        assert_eq!(code(&mut one, &sql(20)), 0, "{open}");
        assert_ne!(code(&mut one, &sql(2000)), 0, "{open}");
        assert_ne!(code(&mut one, &sql(100_000)), 0, "{open}");
    }
}

/// Waits until a session's statement is shown. The session then waits for its lock or is about to.
fn until_shown(root: &mut Session, connection: u64) {
    let shown = format!(
        "SELECT COUNT(*) FROM information_schema.processlist WHERE id = {connection} AND info LIKE 'SELECT GET_LOCK%'"
    );
    while run(root, &shown).unwrap() != ["1"] {
        std::thread::yield_now();
    }
}

#[test]
fn a_named_lock_is_one_sessions_until_it_gives_it_back_as_often_as_it_took_it() {
    let instance = instance();
    let (mut one, mut two) = (session(&instance, 1), session(&instance, 2));
    assert_eq!(run(&mut one, "SELECT GET_LOCK('A', 0), GET_LOCK('a', 0)").unwrap(), ["1 1"]);
    let asked = "SELECT GET_LOCK('a', 0), IS_FREE_LOCK('a'), IS_USED_LOCK('a'), RELEASE_LOCK('a')";
    // The plan of the statement is the same each time.
    assert_eq!(run(&mut two, asked).unwrap(), ["0 0 1 0"]);
    assert_eq!(run(&mut one, "SELECT RELEASE_LOCK('a')").unwrap(), ["1"]);
    assert_eq!(run(&mut two, asked).unwrap(), ["0 0 1 0"]);
    assert_eq!(run(&mut one, "SELECT RELEASE_LOCK('a')").unwrap(), ["1"]);
    assert_eq!(run(&mut two, asked).unwrap(), ["1 0 2 1"]);
    assert_eq!(run(&mut one, "SELECT RELEASE_LOCK('a')").unwrap(), ["NULL"]);
}

#[test]
fn named_locks_go_with_the_session_and_with_its_reset() {
    let instance = instance();
    let (mut one, mut two) = (session(&instance, 1), session(&instance, 2));
    let take = "SELECT GET_LOCK('a', 0), GET_LOCK('b', 0)";
    assert_eq!(run(&mut one, take).unwrap(), ["1 1"]);
    // The end of a transaction does not affect these locks.
    run(&mut one, "BEGIN; ROLLBACK").unwrap();
    assert_eq!(run(&mut two, take).unwrap(), ["0 0"]);
    one.reset();
    assert_eq!(run(&mut two, take).unwrap(), ["1 1"]);
    assert_eq!(run(&mut one, take).unwrap(), ["0 0"]);
    // As if a connection changes its user: the new session exists before the old one ends.
    let mut other = session(&instance, 2);
    assert_eq!(run(&mut other, take).unwrap(), ["0 0"]);
    drop(two);
    assert_eq!(run(&mut other, take).unwrap(), ["1 1"]);
    drop(other);
    assert_eq!(run(&mut one, take).unwrap(), ["1 1"]);
}

#[test]
fn a_reset_session_chains_to_no_transaction_of_before() {
    let instance = instance();
    let mut one = session(&instance, 1);
    run(&mut one, "CREATE TABLE t (a INT); START TRANSACTION READ ONLY; COMMIT").unwrap();
    one.reset();
    run(&mut one, "COMMIT AND CHAIN").unwrap();
    run(&mut one, "INSERT INTO t VALUES (1)").unwrap();
    run(&mut one, "COMMIT").unwrap();
    assert_eq!(run(&mut one, "SELECT COUNT(*) FROM t").unwrap(), ["1"]);
}

#[test]
fn a_wait_for_a_named_lock_ends_with_the_lock_or_a_kill() {
    let instance = instance();
    let (mut one, mut root) = (session(&instance, 1), session(&instance, 3));
    run(&mut one, "DO GET_LOCK('a', 0)").unwrap();
    let waiter = |sql: &'static str| {
        let mut waiting = session(&instance, 2);
        thread::spawn("waiter", move || {
            let first = run(&mut waiting, sql).map_err(|error| error.code);
            (first, run(&mut waiting, "SELECT RELEASE_ALL_LOCKS()").map_err(|error| error.code))
        })
        .unwrap()
    };
    for sql in ["SELECT GET_LOCK('a', -1)", "SELECT GET_LOCK('a', 600)"] {
        let killed = waiter(sql);
        until_shown(&mut root, 2);
        run(&mut root, "KILL QUERY 2").unwrap();
        assert_eq!(killed.join().unwrap(), (Err(1317), Ok(vec!["0".to_owned()])));
    }
    let given = waiter("SELECT GET_LOCK('a', -1)");
    until_shown(&mut root, 2);
    run(&mut one, "DO RELEASE_LOCK('a')").unwrap();
    assert_eq!(given.join().unwrap(), (Ok(vec!["1".to_owned()]), Ok(vec!["1".to_owned()])));
    run(&mut one, "DO GET_LOCK('a', 0)").unwrap();
    let stopped = waiter("SELECT GET_LOCK('a', -1)");
    until_shown(&mut root, 2);
    instance.shut_down();
    assert_eq!(stopped.join().unwrap().0, Err(1317));
}

#[test]
fn a_circle_of_waits_for_named_locks_is_refused() {
    let instance = instance();
    let (mut one, mut two) = (session(&instance, 1), session(&instance, 2));
    run(&mut one, "DO GET_LOCK('a', 0)").unwrap();
    run(&mut two, "DO GET_LOCK('b', 0)").unwrap();
    let waiter = thread::spawn("waiter", move || {
        run(&mut two, "SELECT GET_LOCK('a', 600)").map_err(|error| error.code)
    })
    .unwrap();
    until_shown(&mut session(&instance, 3), 2);
    // The later of the two waits closes the cycle.
    let own = run(&mut one, "SELECT GET_LOCK('b', 600)").map_err(|error| error.code);
    drop(one);
    let others = waiter.join().unwrap();
    let got = Ok(vec!["1".to_owned()]);
    assert!(
        (own.clone(), others.clone()) == (Err(3058), got.clone())
            || (own.clone(), others.clone()) == (got, Err(3058)),
        "{own:?}, {others:?}"
    );
}

/// The wait of a statement is shown during the wait and counted afterwards.
#[test]
fn a_wait_for_a_row_is_seen_and_counted() {
    let instance = instance();
    let (mut one, mut two) = (session(&instance, 1), session(&instance, 2));
    run(&mut one, "CREATE TABLE t (id INT PRIMARY KEY, n INT); INSERT INTO t VALUES (1, 0)")
        .unwrap();
    run(&mut one, "BEGIN; UPDATE t SET n = 1").unwrap();
    let waiter = thread::spawn("waiter", move || {
        run(&mut two, "UPDATE t SET n = n + 1 WHERE id = 1").unwrap();
        let shown = |session: &mut Session, name: &str| {
            let rows = run(session, &format!("SHOW SESSION STATUS LIKE '{name}'")).unwrap();
            rows.concat().split_once(' ').unwrap().1.to_owned()
        };
        let last = shown(&mut two, "Spillway_last_statement_stalls");
        assert!(last.starts_with("lock 1 times, "), "{last}");
        let seconds = shown(&mut two, "Spillway_last_statement_stall_seconds");
        assert!(seconds.parse::<f64>().unwrap() > 0.0);
        assert_eq!(shown(&mut two, "Spillway_stall_lock_total"), "1");
        run(&mut two, "SELECT * FROM t").unwrap();
        assert_eq!(shown(&mut two, "Spillway_last_statement_stalls"), "");
        assert_eq!(shown(&mut two, "Spillway_stall_lock_total"), "1");
        two.reset();
        assert_eq!(shown(&mut two, "Spillway_last_statement_stalls"), "");
        assert_eq!(shown(&mut two, "Spillway_stall_lock_total"), "0");
    });
    let state = "SELECT state FROM information_schema.processlist WHERE id = 2";
    while run(&mut one, state).unwrap() != ["Waiting for row lock"] {
        std::thread::yield_now();
    }
    run(&mut one, "COMMIT").unwrap();
    waiter.unwrap().join().unwrap();
    let own = run(&mut one, "SHOW SESSION STATUS LIKE 'Spillway_stall_lock_total'").unwrap();
    assert_eq!(own, ["Spillway_stall_lock_total 0"]);
    let all = run(&mut one, "SHOW GLOBAL STATUS LIKE 'Spillway_stall_lock_total'").unwrap();
    assert_eq!(all, ["Spillway_stall_lock_total 1"]);
    let page = run(&mut one, "SHOW ENGINE TIERED STATUS").unwrap().concat();
    for part in
        ["writers are not slowed", "row locks ", "test.t ", "COMMIT PIPELINE", "log_flushes_total"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[test]
fn when_a_commit_is_acknowledged_is_each_sessions_choice() {
    let instance = instance();
    let (mut one, mut two) = (session(&instance, 1), session(&instance, 2));
    let both = "SELECT @@durability, @@innodb_flush_log_at_trx_commit";
    assert_eq!(run(&mut one, both).unwrap(), ["commit 1"]);
    for (set, shown) in [
        ("SET durability = '200ms'", "200ms 2"),
        ("SET durability = none", "none 0"),
        ("SET innodb_flush_log_at_trx_commit = 1", "commit 1"),
        ("SET innodb_flush_log_at_trx_commit = 0", "1s 0"),
    ] {
        run(&mut one, set).unwrap();
        assert_eq!(run(&mut one, both).unwrap(), [shown], "{set}");
    }
    assert_eq!(code(&mut one, "SET durability = 'soon'"), 1231);
    assert_eq!(run(&mut two, both).unwrap(), ["commit 1"]);
    // A session sees its own commit at once, even if it does not wait for durability.
    run(&mut one, "SET GLOBAL durability = '5s'").unwrap();
    run(&mut one, "SET durability = DEFAULT").unwrap();
    assert_eq!(run(&mut one, both).unwrap(), ["5s 2"]);
    run(&mut one, "CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)").unwrap();
    assert_eq!(run(&mut one, "SELECT * FROM t").unwrap(), ["1"]);
    assert_eq!(run(&mut session(&instance, 3), both).unwrap(), ["5s 2"]);
}

/// A statement that is suspended for a row lock returns nothing. When it resumes, it starts again
/// in the same transaction, with its variables as before and with the newest rows.
#[test]
fn a_statement_that_was_left_for_a_row_begins_anew() {
    let instance = instance();
    for level in LEVELS {
        let (mut holder, mut left) = (session(&instance, 1), session(&instance, 2));
        run(&mut holder, "DROP TABLE IF EXISTS t").unwrap();
        run(&mut holder, "CREATE TABLE t (id INT PRIMARY KEY, n INT)").unwrap();
        run(&mut holder, "INSERT INTO t VALUES (1, 0), (2, 0), (3, 0)").unwrap();
        run(&mut holder, "BEGIN; UPDATE t SET n = 10 WHERE id = 3").unwrap();
        run(&mut left, &format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}")).unwrap();
        run(&mut left, "SET @n = 100").unwrap();
        left.set_waker(Waker::noop().clone());
        let mut rows = Rows::default();
        let update = "UPDATE t SET n = n + (@n := @n + 1)";
        left.query(update, &mut rows).unwrap_err();
        assert!(left.waits_until().is_some());
        assert!(!left.status().in_transaction, "its transaction is its own");
        // No result before the row is free.
        left.resume(&mut rows).unwrap_err();
        assert!(left.waits_until().is_some());
        run(&mut holder, "COMMIT").unwrap();
        left.resume(&mut rows).unwrap();
        assert_eq!(left.waits_until(), None);
        assert_eq!(run(&mut left, "SELECT n FROM t ORDER BY id").unwrap(), ["101", "102", "113"]);
        assert_eq!(run(&mut left, "SELECT @n").unwrap(), ["103"]);
        run(&mut holder, "BEGIN; UPDATE t SET n = 10 WHERE id = 3").unwrap();
        // A suspended statement that is dropped with its session blocks no other session.
        left.query("DELETE FROM t", &mut rows).unwrap_err();
        drop(left);
        run(&mut holder, "COMMIT; DELETE FROM t").unwrap();
    }
}

/// The same for a unique value: the statement continues as if the other session had been first, in
/// its own transaction or in an open one.
#[test]
fn a_change_that_was_left_for_a_unique_value_begins_anew() {
    let instance = instance();
    let (mut holder, mut left) = (session(&instance, 1), session(&instance, 2));
    left.set_waker(Waker::noop().clone());
    run(&mut holder, "CREATE TABLE w (id INT PRIMARY KEY, q INT, UNIQUE (q))").unwrap();
    // A change that takes or frees a value, and one that needs the value.
    let held = [
        ("UPDATE w SET q = 70 WHERE id = 4", "UPDATE w SET q = 69 + (@n := @n + 1) WHERE id = 7"),
        ("DELETE FROM w WHERE id = 4", "UPDATE w SET q = 3 + (@n := @n + 1) WHERE id = 7"),
        ("UPDATE w SET q = 70 WHERE id = 4", "INSERT INTO w VALUES (8, 69 + (@n := @n + 1))"),
    ];
    for (end, level) in
        ["COMMIT", "ROLLBACK"].iter().flat_map(|end| LEVELS.map(|level| (end, level)))
    {
        for (hold, wait) in held {
            for begin in
                ["SET @n = 0", "SET @n = 0; BEGIN", "SET @n = 0; BEGIN; SELECT COUNT(*) FROM w"]
            {
                let at = format!("{level}; {hold}; {begin}; {wait}; {end}");
                run(&mut holder, "DELETE FROM w; INSERT INTO w VALUES (4, 4), (7, 7)").unwrap();
                run(&mut left, &format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}"))
                    .unwrap();
                run(&mut left, begin).unwrap();
                run(&mut holder, &format!("BEGIN; {hold}")).unwrap();
                let mut rows = Rows::default();
                left.query(wait, &mut rows).unwrap_err();
                assert!(left.waits_until().is_some(), "{at}");
                run(&mut holder, end).unwrap();
                let went_on = left.resume(&mut rows).map_or_else(|error| error.code, |_| 0);
                // The other session's change is visible, unless it was rolled back.
                let is_taken = hold.starts_with("UPDATE") == (*end == "COMMIT");
                // A transaction with a snapshot from before the other commit cannot continue.
                let is_old = *end == "COMMIT" && begin.contains("SELECT") && level != LEVELS[0];
                let expected: &[u16] = match (is_taken, is_old) {
                    (true, false) => &[1062],
                    (false, false) => &[0],
                    (true, true) => &[1062, 1213],
                    (false, true) => &[0, 1213],
                };
                assert!(expected.contains(&went_on), "{at}: {went_on}");
                if went_on == 0 {
                    assert_eq!(run(&mut left, "SELECT @n").unwrap(), ["1"], "{at}");
                    run(&mut left, "COMMIT").unwrap();
                } else {
                    run(&mut left, "ROLLBACK").unwrap();
                }
                let id = if wait.starts_with("INSERT") { 8 } else { 7 };
                let rows = run(&mut left, &format!("SELECT q FROM w WHERE id = {id}")).unwrap();
                let value = if hold.starts_with("UPDATE") { "70" } else { "4" };
                assert_eq!(rows.iter().any(|row| row == value), went_on == 0, "{at}: {rows:?}");
                let check = run(&mut left, "CHECK TABLE w EXTENDED").unwrap();
                assert!(check[0].ends_with("status OK"), "{at}: {check:?}");
            }
        }
    }
}

#[test]
fn time_runs_out_for_a_statement_that_was_left_and_for_one_that_is_not() {
    let instance = instance();
    let (mut holder, mut left) = (session(&instance, 1), session(&instance, 2));
    run(&mut holder, "CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)").unwrap();
    run(&mut holder, "BEGIN; DELETE FROM t").unwrap();
    run(&mut left, "SET innodb_lock_wait_timeout = 1; PREPARE p FROM 'DELETE FROM t'").unwrap();
    left.set_waker(Waker::noop().clone());
    // A statement within another one blocks its thread, and so does one that is followed by others.
    for sql in ["EXECUTE p", "DELETE FROM t; SELECT 1"] {
        assert_eq!((code(&mut left, sql), left.waits_until()), (1205, None));
    }
    let mut rows = Rows::default();
    left.query("DELETE FROM t", &mut rows).unwrap_err();
    while left.waits_until().unwrap() > clock::now() {
        std::thread::yield_now();
    }
    let late = left.resume(&mut rows).unwrap_err();
    assert_eq!((late.code, left.waits_until()), (1205, None));
}

/// Privileges are checked when a statement begins. A suspended statement whose privilege is revoked
/// meanwhile ends like any other.
#[test]
fn a_statement_that_was_left_keeps_the_rights_it_began_with() {
    let instance = instance();
    let mut root = session(&instance, 1);
    run(&mut root, "CREATE TABLE t (id INT PRIMARY KEY, n INT); INSERT INTO t VALUES (1, 0)")
        .unwrap();
    run(&mut root, "CREATE USER u; GRANT SELECT, UPDATE ON test.* TO u").unwrap();
    let mut left = instance.session("u", "%", 2);
    left.use_database("test").unwrap();
    left.set_waker(Waker::noop().clone());
    run(&mut root, "BEGIN; UPDATE t SET n = 1").unwrap();
    let mut rows = Rows::default();
    left.query("UPDATE t SET n = n + 1", &mut rows).unwrap_err();
    let mut other = session(&instance, 3);
    run(&mut other, "REVOKE UPDATE ON test.* FROM u").unwrap();
    run(&mut root, "COMMIT").unwrap();
    left.resume(&mut rows).unwrap();
    assert!(!left.status().in_transaction && left.waits_until().is_none());
    assert_eq!(code(&mut left, "UPDATE t SET n = n + 1"), 1142);
    assert_eq!(run(&mut root, "SELECT n FROM t").unwrap(), ["2"]);
}

#[test]
fn a_read_only_transaction_changes_no_definitions() {
    let instance = instance();
    let mut one = session(&instance, 1);
    run(&mut one, "CREATE TABLE t (id INT PRIMARY KEY)").unwrap();
    let begins = [
        "START TRANSACTION READ ONLY",
        "SET TRANSACTION READ ONLY",
        "SET SESSION TRANSACTION READ ONLY; BEGIN",
    ];
    for begin in begins {
        for change in [
            "CREATE TABLE s (id INT)",
            "DROP TABLE t",
            "TRUNCATE TABLE t",
            "ALTER TABLE t ADD COLUMN v INT",
            "CREATE INDEX i ON t (id)",
            "RENAME TABLE t TO s",
            "CREATE DATABASE d",
            "ALTER DATABASE test COLLATE utf8mb4_bin",
            "CREATE USER u",
            "OPTIMIZE TABLE t",
            "REPAIR TABLE t",
        ] {
            run(&mut one, begin).unwrap();
            assert_eq!(code(&mut one, change), 1792, "{begin}; {change}");
            // The transaction continues.
            assert_eq!(code(&mut one, "INSERT INTO t VALUES (1)"), 1792, "{begin}; {change}");
            run(&mut one, "COMMIT").unwrap();
        }
    }
    run(&mut one, "SET SESSION TRANSACTION READ WRITE").unwrap();
    assert_eq!(run(&mut one, "SHOW TABLES").unwrap(), ["t"]);
    run(&mut one, "START TRANSACTION READ WRITE; ALTER TABLE t ADD COLUMN v INT").unwrap();
}

#[test]
fn a_table_has_no_more_columns_than_4096() {
    let instance = instance();
    let mut one = session(&instance, 1);
    let create = |count: usize| {
        let columns: Vec<_> = (0..count).map(|at| format!("c{at} INT")).collect();
        format!("CREATE TABLE t ({})", columns.join(","))
    };
    assert_eq!(code(&mut one, &create(4097)), 1117);
    run(&mut one, &create(4096)).unwrap();
    assert_eq!(code(&mut one, "ALTER TABLE t ADD COLUMN more INT"), 1117);
    assert_eq!(code(&mut one, "ALTER TABLE t RENAME COLUMN c4095 TO C0"), 1060);
    run(&mut one, "ALTER TABLE t DROP COLUMN c0, ADD COLUMN more INT").unwrap();
    run(&mut one, "INSERT INTO t (more) VALUES (5)").unwrap();
    assert_eq!(run(&mut one, "SELECT more, c4095 FROM t").unwrap(), ["5 NULL"]);
}

/// An expression outside a query reads tables as a statement does.
#[test]
fn a_variable_is_given_what_a_statement_would_read() {
    let instance = instance();
    let (mut one, mut two) = (session(&instance, 1), session(&instance, 2));
    run(&mut one, "CREATE TABLE t (id INT PRIMARY KEY); CREATE TABLE other (id INT)").unwrap();
    run(&mut two, "SET lock_wait_timeout = 0").unwrap();
    let count = "SET @n = (SELECT COUNT(*) FROM t)";
    // In a transaction, it uses the table until the transaction's end. Without one, it ends at
    // once.
    run(&mut one, "BEGIN").unwrap();
    run(&mut one, count).unwrap();
    assert_eq!(code(&mut two, "ALTER TABLE t ADD COLUMN a INT"), 1205);
    run(&mut one, "COMMIT").unwrap();
    run(&mut one, count).unwrap();
    run(&mut one, "DO (SELECT COUNT(*) FROM t); SHOW TABLES WHERE (SELECT COUNT(*) FROM t) = 0")
        .unwrap();
    run(&mut two, "ALTER TABLE t ADD COLUMN a INT").unwrap();
    // Another session locks the table.
    run(&mut two, "LOCK TABLES t WRITE").unwrap();
    run(&mut one, "SET lock_wait_timeout = 0").unwrap();
    for read in [count, "DO (SELECT COUNT(*) FROM t)", "SHOW TABLES WHERE (SELECT COUNT(*) FROM t)"]
    {
        assert_eq!(code(&mut one, read), 1205, "{read}");
    }
    assert_eq!(code(&mut two, count), 0);
    assert_eq!(code(&mut two, "SET @n = (SELECT COUNT(*) FROM other)"), 1100);
    run(&mut two, "UNLOCK TABLES").unwrap();
    // Under READ COMMITTED, it counts as a separate statement.
    run(&mut one, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN; SELECT * FROM t")
        .unwrap();
    run(&mut two, "INSERT INTO t (id) VALUES (1)").unwrap();
    run(&mut one, count).unwrap();
    assert_eq!(run(&mut one, "SELECT @n").unwrap(), ["1"]);
    // A snapshot from before the rows were copied has none of them.
    run(&mut one, "COMMIT; BEGIN; SELECT * FROM other").unwrap();
    run(&mut two, "ALTER TABLE t FORCE").unwrap();
    assert_eq!(code(&mut one, count), 1412);
}

#[test]
fn maintenance_of_tables_commits_and_keeps_to_locked_ones() {
    let instance = instance();
    let (mut one, mut two) = (session(&instance, 1), session(&instance, 2));
    run(&mut one, "CREATE TABLE t (id INT PRIMARY KEY); CREATE TABLE other (id INT)").unwrap();
    for (id, verb) in ["ANALYZE", "CHECK", "OPTIMIZE", "REPAIR"].iter().enumerate() {
        run(&mut one, &format!("BEGIN; INSERT INTO t VALUES ({id}); {verb} TABLE t")).unwrap();
        run(&mut one, "ROLLBACK").unwrap();
        let count = run(&mut two, "SELECT COUNT(*) FROM t").unwrap();
        assert_eq!(count, [(id + 1).to_string()], "{verb}");
    }
    run(&mut one, "START TRANSACTION READ ONLY; CHECK TABLE t; ANALYZE TABLE t").unwrap();
    run(&mut one, "LOCK TABLES t WRITE").unwrap();
    assert_eq!(run(&mut one, "CHECK TABLE t").unwrap(), ["test.t check status OK"]);
    let refused = run(&mut one, "CHECK TABLE other").unwrap();
    assert_eq!(refused, ["test.other check Error Table 'other' was not locked with LOCK TABLES"]);
}

/// A server whose clients have all disconnected except the first.
struct Left;

impl Front for Left {
    fn status(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    fn wake(&self, _: u64) {}

    fn is_gone(&self, connection_id: u64) -> bool {
        connection_id != 1
    }
}

/// A change of a table whose client has disconnected does not keep other sessions from the table,
/// however it waits.
#[test]
fn a_wait_for_a_table_ends_with_its_client() {
    let instance = instance();
    let front: Arc<dyn Front> = Arc::new(Left);
    instance.attach(Arc::downgrade(&front));
    let (mut one, mut two) = (session(&instance, 1), session(&instance, 2));
    run(&mut one, "CREATE TABLE t (a INT)").unwrap();
    for (used, ends) in
        [("BEGIN; SELECT * FROM t", "COMMIT"), ("LOCK TABLES t WRITE", "UNLOCK TABLES")]
    {
        run(&mut one, used).unwrap();
        for sql in [
            "ALTER TABLE t ADD COLUMN b INT",
            "ALTER TABLE t ADD INDEX (a)",
            "RENAME TABLE t TO s",
            "TRUNCATE TABLE t",
            "DROP TABLE t",
            "LOCK TABLES t WRITE",
            "DROP DATABASE test",
        ] {
            assert_eq!(code(&mut two, sql), 1317, "{used}: {sql}");
        }
        // No earlier waiter keeps it from the table.
        run(&mut one, "INSERT INTO t VALUES (1)").unwrap();
        run(&mut one, ends).unwrap();
    }
    run(&mut one, "BEGIN; SELECT * FROM t; COMMIT; LOCK TABLES t WRITE").unwrap();
    assert_eq!(code(&mut two, "SELECT * FROM t"), 1317);
    assert_eq!(code(&mut two, "INSERT INTO t VALUES (1)"), 1317);
    run(&mut one, "UNLOCK TABLES").unwrap();
    run(&mut two, "DROP TABLE t").unwrap();
}

/// A statement with an invalid name is refused at once, without a wait for locks. Changes of
/// definitions in the same database by others go on meanwhile.
#[test]
fn a_bad_name_delays_no_change_of_definitions() {
    const BAD: [(&str, u16); 7] = [
        ("CREATE TABLE `` (a INT)", 1103),
        ("DROP TABLE ``", 1103),
        ("RENAME TABLE t TO ``", 1103),
        ("RENAME TABLE `` TO u", 1103),
        ("ALTER TABLE t RENAME TO `x `", 1103),
        ("CREATE TABLE u (`` INT)", 1166),
        ("CREATE INDEX `` ON t (id)", 1280),
    ];
    let instance = instance();
    let mut first = session(&instance, 1);
    run(&mut first, "CREATE TABLE t (id INT PRIMARY KEY)").unwrap();
    // A reader of the table makes statements wait that want it exclusively.
    run(&mut first, "BEGIN; SELECT * FROM t").unwrap();
    thread::together(2, |thread| {
        let mut own = session(&instance, 10 + thread as u64);
        // A statement that waited for itself would fail with 1205.
        run(&mut own, "SET lock_wait_timeout = 20").unwrap();
        for round in 0..30 {
            if thread == 0 {
                let (sql, number) = BAD[round % BAD.len()];
                assert_eq!(code(&mut own, sql), number, "{sql}");
            } else {
                run(&mut own, "CREATE TABLE other (id INT); DROP TABLE other").unwrap();
            }
        }
    });
}
