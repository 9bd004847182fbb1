//! Tests of tables in both engines. Some tests crash the machine during ALTER TABLE ... ENGINE.
//! Others run tests of this binary again, with the tables in another engine.

use std::process::Command;
use std::sync::Arc;

use crate::common::chosen::{commit_seed, rounds};
use crate::common::engines::Placement;
use crate::common::{code, in_memory, instance_of, run};
use spillway::{Database, EngineKind, Settings, TransactionOptions};
use spillway_sql::{Instance, Session};
use spillway_storage::sim::{Fault, SimDisk};

fn session(instance: &Instance, number: u64) -> Session {
    let mut session = instance.session("root", "localhost", number);
    session.use_database("test").unwrap();
    session
}

/// The number of tables' key spaces in each engine.
fn spaces(db: &Database) -> [usize; EngineKind::COUNT] {
    let txn = db.begin(TransactionOptions::new());
    let mut counts = [0; EngineKind::COUNT];
    for (_, space) in txn.tables("i/").unwrap() {
        counts[space.engine().unwrap().index()] += 1;
    }
    counts
}

const CREATE: &str =
    "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, n INT, u INT UNIQUE, KEY (n))";

/// Every key space of a table is in the table's engine, whatever statement created it.
#[test]
fn all_of_a_table_is_in_its_engine() {
    let instance = in_memory();
    let db = instance.database().clone();
    let mut one = session(&instance, 1);
    run(&mut one, &format!("{CREATE} ENGINE=MEMORY_OPTIMIZED")).unwrap();
    run(&mut one, "INSERT INTO t (n, u) VALUES (1, 1), (2, 2)").unwrap();
    for (sql, spaces_after) in [
        ("DO 1", [0, 3]),
        ("CREATE INDEX online ON t (n, u)", [0, 4]),
        ("ALTER TABLE t ADD INDEX alone (u, n), LOCK=EXCLUSIVE", [0, 5]),
        ("ALTER TABLE t ADD COLUMN w INT DEFAULT 3, ALGORITHM=INSTANT", [0, 5]),
        ("ALTER TABLE t MODIFY n BIGINT, DROP INDEX alone, ALGORITHM=COPY", [0, 4]),
        ("TRUNCATE TABLE t", [0, 4]),
        ("CREATE TABLE other LIKE t", [0, 8]),
        ("DROP TABLE other", [0, 4]),
        ("ALTER TABLE t ENGINE=TIERED", [4, 0]),
        ("CREATE INDEX more ON t (w)", [5, 0]),
        ("ALTER TABLE t ENGINE=HIENGINE, DROP INDEX more", [0, 4]),
        ("DROP TABLE t", [0, 0]),
    ] {
        run(&mut one, sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        assert_eq!(spaces(&db), spaces_after, "{sql}");
    }
}

/// The rows of `t` and its engine, which `CHECK TABLE` finds sound.
fn state(session: &mut Session) -> (String, Vec<String>) {
    assert_eq!(run(session, "CHECK TABLE t").unwrap(), ["test.t check status OK"]);
    let engine = "SELECT ENGINE FROM information_schema.TABLES WHERE TABLE_NAME = 't'";
    let engine = run(session, engine).unwrap().concat();
    let all = "SELECT id, n, u FROM t FORCE INDEX (PRIMARY) ORDER BY id";
    (engine, run(session, all).unwrap())
}

fn open(disk: &SimDisk) -> Result<(Database, Session), String> {
    let mut settings = Settings::default();
    settings.memory_bytes = 64 << 20;
    settings.background_threads = false;
    let text = |error: spillway::Error| error.to_string();
    let db = Database::open_on(Arc::new(disk.clone()), "/db", settings).map_err(text)?;
    let instance = instance_of(db.clone()).map_err(|error| error.to_string())?;
    Ok((db, session(&instance, 1)))
}

/// A crash during ALTER TABLE ... ENGINE leaves the complete table in one of the engines, and no
/// other key spaces.
#[test]
fn a_conversion_that_a_crash_cuts_off_happened_or_not() {
    const ROWS: u32 = 3_000;
    /// The number of crashes for each direction. A run of several rounds crashes at every
    /// operation.
    const CRASHES: u64 = 6;
    for (from, to) in [("TIERED", "MEMORY_OPTIMIZED"), ("MEMORY_OPTIMIZED", "TIERED")] {
        let prepared = SimDisk::new(7);
        let (db, mut one) = open(&prepared).unwrap();
        run(&mut one, &format!("{CREATE} ENGINE={from}")).unwrap();
        let rows: Vec<String> = (1..=ROWS).map(|n| format!("({}, {n})", n % 10)).collect();
        run(&mut one, &format!("INSERT INTO t (n, u) VALUES {}", rows.join(","))).unwrap();
        let rows = state(&mut one).1;
        assert_eq!(rows.len(), ROWS as usize);
        drop(one);
        db.close().unwrap();
        drop(db);
        let convert = |disk: &SimDisk| -> Result<(), String> {
            let (_db, mut one) = open(disk)?;
            let converted = run(&mut one, &format!("ALTER TABLE t ENGINE={to}"));
            converted.map(drop).map_err(|error| error.to_string())
        };
        let whole = prepared.fork();
        let first = whole.operations();
        convert(&whole).unwrap();
        let last = whole.operations();
        let (mut stayed, mut moved) = (0, 0);
        let stride = if rounds() > 1 { 1 } else { ((last - first) / CRASHES).max(1) };
        // The first crash comes after the last operation.
        for crash_at in (first + 1..=last + 1).rev().step_by(stride as usize) {
            let disk = prepared.fork();
            disk.fail_operation(crash_at, Fault::Crash);
            let told = convert(&disk);
            disk.crash();
            disk.restart();
            let (db, mut one) = open(&disk).unwrap();
            let (engine, found) = state(&mut one);
            assert_eq!(found, rows, "crash at {crash_at}");
            assert!(engine == to || engine == from && told.is_err(), "crash at {crash_at}");
            let own = if engine == "TIERED" { [3, 0] } else { [0, 3] };
            assert_eq!(spaces(&db), own, "crash at {crash_at}");
            // The counter continues, and both engines accept new rows.
            run(&mut one, "INSERT INTO t (n, u) VALUES (11, NULL)").unwrap();
            run(&mut one, "CREATE TABLE more (id INT) ENGINE=MEMORY_OPTIMIZED").unwrap();
            let newest = run(&mut one, "SELECT MAX(id) FROM t").unwrap().concat();
            assert!(newest.parse::<u32>().unwrap() > ROWS, "{newest}");
            if engine == to { moved += 1 } else { stayed += 1 }
        }
        assert!(stayed > 0 && moved > 0, "{from}: {stayed} {moved}");
    }
}

/// A conversion that is killed, or that fails because of its rows, leaves the table where it was.
#[test]
fn a_conversion_that_fails_leaves_nothing() {
    let instance = in_memory();
    let db = instance.database().clone();
    let (mut one, mut two) = (session(&instance, 1), session(&instance, 2));
    run(&mut one, &format!("{CREATE} ENGINE=TIERED")).unwrap();
    run(&mut one, "INSERT INTO t (n, u) VALUES (1, 1), (1, 2)").unwrap();
    let before = state(&mut one);
    assert_eq!(code(&mut one, "ALTER TABLE t ENGINE=MEMORY_OPTIMIZED, ADD UNIQUE (n)"), 1062);
    let expected = (before.clone(), [3, 0]);
    assert_eq!((state(&mut one), spaces(&db)), expected);
    // One that waits for the table.
    run(&mut two, "BEGIN; SELECT * FROM t").unwrap();
    let waits = spillway_base::thread::spawn("converter", move || {
        let code = code(&mut one, "ALTER TABLE t ENGINE=MEMORY_OPTIMIZED");
        (one, code)
    });
    while !run(&mut two, "SHOW PROCESSLIST").unwrap().iter().any(|line| line.contains("ALTER")) {
        std::thread::yield_now();
    }
    run(&mut two, "KILL QUERY 1").unwrap();
    let (mut one, code) = waits.unwrap().join().unwrap();
    assert_eq!(code, 1317);
    run(&mut two, "COMMIT").unwrap();
    assert_eq!((state(&mut one), spaces(&db)), expected);
}

/// A transaction with a snapshot from before a conversion does not read the copy.
#[test]
fn a_snapshot_from_before_a_conversion_does_not_use_the_table() {
    let instance = in_memory();
    let (mut one, mut two) = (session(&instance, 1), session(&instance, 2));
    run(&mut one, &format!("CREATE TABLE s (id INT); {CREATE}")).unwrap();
    for engine in ["MEMORY_OPTIMIZED", "TIERED"] {
        run(&mut two, "BEGIN; SELECT * FROM s").unwrap();
        run(&mut one, &format!("ALTER TABLE t ENGINE={engine}")).unwrap();
        assert_eq!(code(&mut two, "SELECT * FROM t"), 1412);
        run(&mut two, "COMMIT").unwrap();
        assert_eq!(code(&mut two, "SELECT * FROM t"), 0);
    }
}

#[test]
fn each_engine_has_a_page_of_its_own() {
    let instance = in_memory();
    let mut one = session(&instance, 1);
    run(&mut one, "CREATE TABLE hot (id INT PRIMARY KEY, n INT, KEY by_n (n)) ENGINE=HIENGINE")
        .unwrap();
    run(&mut one, "CREATE TABLE cold (id INT PRIMARY KEY) ENGINE=XENGINE").unwrap();
    run(&mut one, "INSERT INTO hot VALUES (1, 1), (2, 2); INSERT INTO cold VALUES (1)").unwrap();
    for name in ["MEMORY_OPTIMIZED", "hiengine", "'HiEngine'"] {
        let page = run(&mut one, &format!("SHOW ENGINE {name} STATUS")).unwrap().concat();
        assert!(page.starts_with("MEMORY_OPTIMIZED "), "{page}");
        assert!(page.contains("test.hot ") && page.contains("test.hot, index by_n "), "{page}");
        assert!(page.contains("\nmemory_engine_"), "{page}");
        assert!(!page.contains("test.cold") && !page.contains("tiered_"), "{page}");
    }
    for name in ["TIERED", "xengine", "INNODB"] {
        let page = run(&mut one, &format!("SHOW ENGINE {name} STATUS")).unwrap().concat();
        assert!(page.starts_with("TIERED ") && page.contains("test.cold "), "{page}");
        assert!(!page.contains("test.hot") && !page.contains("memory_engine_"), "{page}");
    }
}

/// A session whose snapshot keeps old versions is shown, with the amount of these versions, to
/// users with the PROCESS privilege.
#[test]
fn a_long_reader_is_named() {
    let instance = in_memory();
    let [mut one, mut two, mut other] = [11, 22, 33].map(|number| session(&instance, number));
    run(&mut one, "CREATE TABLE hot (id INT PRIMARY KEY, n INT) ENGINE=MEMORY_OPTIMIZED").unwrap();
    run(&mut one, "INSERT INTO hot VALUES (1, 1), (2, 2)").unwrap();
    let readers = |session: &mut Session| {
        let page = run(session, "SHOW ENGINE MEMORY_OPTIMIZED STATUS").unwrap().concat();
        let of = page.split("\nREADERS\n").nth(1).unwrap().split("\n\n").next().unwrap();
        of.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(readers(&mut one)[1], "no transaction has a snapshot");
    run(&mut two, "START TRANSACTION WITH CONSISTENT SNAPSHOT").unwrap();
    for n in 0..5 {
        run(&mut one, &format!("UPDATE hot SET n = {n}0 WHERE id = 1")).unwrap();
    }
    run(&mut other, "BEGIN; SELECT * FROM hot").unwrap();
    let lines = readers(&mut one);
    assert!(lines[0].ends_with(" MB of 1 rows"), "{lines:?}");
    let [first, second] = [2, 3].map(|at| words(&lines[at]));
    assert_eq!((&*first[0], &*first[3]), ("22", "5"), "the oldest comes first: {lines:?}");
    assert_eq!(first[5..], ["root@localhost,", "idle"], "{lines:?}");
    assert_eq!((&*second[0], &*second[3], lines.len()), ("33", "0", 4), "{lines:?}");
    let metrics = instance.database().metrics();
    let held = metrics.iter().find(|metric| metric.name == "memory_engine_uncollected_bytes");
    assert!(held.unwrap().value > 0.0);
    run(&mut two, "COMMIT").unwrap();
    let lines = readers(&mut one);
    assert_eq!((&*words(&lines[2])[0], lines.len()), ("33", 3), "{lines:?}");

    run(&mut one, "CREATE USER curious; GRANT ALL ON test.* TO curious").unwrap();
    let mut curious = instance.session("curious", "localhost", 44);
    assert_eq!(code(&mut curious, "SHOW ENGINE MEMORY_OPTIMIZED STATUS"), 1227);
    run(&mut one, "GRANT PROCESS ON *.* TO curious").unwrap();
    assert_eq!(words(&readers(&mut curious)[2])[0], "33");
}

/// Tests that select the engine of their tables, that check features of the tiered engine only,
/// whose budget would be too small, or whose tables hardly matter.
const OF_ONE_ENGINE: [&str; 14] = [
    "bulk::a_read_within_a_transaction",
    "bulk::changes_of_several_tables_hold_no_rows",
    "bulk::inserts_from_queries_hold_no_rows",
    "damage::",
    "depth::",
    "engines::",
    "lookups::",
    "many_names::joins_of_many_tables",
    "scripts::",
    "sessions::a_deep_statement",
    "sessions::a_table_larger_than_a_transaction",
    "sessions::a_wait_for_a_row_is_seen",
    "sessions::rows_that_a_statement_holds",
    "sizes::",
];

/// Runs other tests of this binary with their tables in another engine, or with less memory. The
/// commit determines which ones; a run of several rounds runs all.
fn repeat_elsewhere(placement: &str, memory_mib: Option<&str>, turn: u64) {
    const STRIDE: u64 = 16;
    if Placement::chosen() != Placement::Default {
        return;
    }
    let stride = if rounds() > 1 { 1 } else { STRIDE };
    let program = std::env::current_exe().unwrap();
    let listed = Command::new(&program).args(["--list", "--format", "terse"]).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let names = listed.lines().filter_map(|line| line.strip_suffix(": test"));
    let ours = names.filter(|name| OF_ONE_ENGINE.iter().all(|of| !name.starts_with(of)));
    let offset = commit_seed() + turn;
    let chosen = (offset..).zip(ours).filter(|(at, _)| at % stride == 0).map(|(_, name)| name);
    let chosen: Vec<&str> = chosen.collect();
    assert!(chosen.len() > 5, "{listed}");
    let ran = Command::new(&program)
        .arg("--exact")
        .args(&chosen)
        .env("SPILLWAY_ENGINE", placement)
        .envs(memory_mib.map(|mib| ("SPILLWAY_MEMORY_MIB", mib)))
        .env_remove("SPILLWAY_ROUNDS")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "SPILLWAY_ENGINE={placement}:\n{said}");
}

#[test]
fn some_tests_hold_in_memory() {
    repeat_elsewhere("MEMORY_OPTIMIZED", None, 0);
}

#[test]
fn some_tests_hold_over_both_engines() {
    repeat_elsewhere("MIXED", None, 5);
}

/// With the least memory that a database takes, rows are evicted, and reads wait for the log.
#[test]
fn some_tests_hold_with_little_memory() {
    repeat_elsewhere("MIXED", Some("16"), 10);
}
