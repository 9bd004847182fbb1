//! Tests of online index builds: guarantees ONLINE-BUILD-1 to ONLINE-BUILD-8 of `ddl/online`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{Hurried, code, in_memory, instance_of, run};
use spillway::{
    Database, Direction, Durability, KeyRange, LockMode, LockWait, Settings, Transaction,
    TransactionOptions,
};
use spillway_base::rng::Rng;
use spillway_base::thread::JoinHandle;
use spillway_base::{TableId, thread};
use spillway_sql::{Instance, Session};

/// The number of rows of a table that takes several batches.
const ROWS: u64 = 5000;
/// A row in the middle.
const MIDDLE: u64 = 2500;

fn session(instance: &Instance, id: u64) -> Session {
    let mut session = instance.session("root", "localhost", id);
    session.use_database("test").unwrap();
    session
}

/// Creates a table `t` with rows whose `u` is their number and whose `v` is less than ten.
fn make_table(session: &mut Session) {
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, u INT, v INT)").unwrap();
    for first in (0..ROWS).step_by(500) {
        let row = |id: u64| format!("({id}, {id}, {})", id % 10);
        let rows: Vec<_> = (first..first + 500).map(row).collect();
        run(session, &format!("INSERT INTO t VALUES {}", rows.join(","))).unwrap();
    }
}

fn assert_sound(session: &mut Session) {
    assert_eq!(run(session, "CHECK TABLE t").unwrap(), ["test.t check status OK"]);
}

/// The names of the table's indexes.
fn indexes(session: &mut Session) -> Vec<String> {
    let shown = run(session, "SHOW INDEX FROM t").unwrap();
    shown.iter().map(|row| row.split(' ').nth(2).unwrap().to_owned()).collect()
}

fn spaces(db: &Database) -> usize {
    let txn = db.begin(TransactionOptions::new().durability(Durability::Relaxed));
    txn.table_names().unwrap().iter().filter(|name| name.starts_with("i/")).count()
}

/// Runs a statement in its own thread, which returns the error number.
fn beside(instance: &Instance, id: u64, sql: &str) -> JoinHandle<u16> {
    let (mut session, sql) = (session(instance, id), sql.to_owned());
    thread::spawn("statement", move || code(&mut session, &sql)).unwrap()
}

/// Waits until a session reports that it builds an index.
fn await_building(session: &mut Session, id: u64) {
    let of = format!("{id} root");
    loop {
        let lines = run(session, "SHOW PROCESSLIST").unwrap();
        if lines.iter().any(|line| line.starts_with(&of) && line.contains("building index: ")) {
            return;
        }
        std::thread::yield_now();
    }
}

/// Locks the row in the middle, which stops a build there. Takes no metadata locks.
fn lock_middle(db: &Database) -> Transaction {
    let txn = db.begin(TransactionOptions::new());
    let mut entry = Vec::new();
    assert!(txn.get(txn.table("sys.catalog").unwrap(), b"t/test/t", &mut entry).unwrap());
    let entry = String::from_utf8(entry).unwrap();
    let space = entry.split(r#""space":"#).nth(1).unwrap().split(',').next().unwrap();
    let rows = TableId(space.parse().unwrap());
    let key = [&[1], (MIDDLE ^ 1 << 63).to_be_bytes().as_slice()].concat();
    txn.forget_snapshot();
    assert!(
        txn.get_locked(rows, &key, LockMode::Exclusive, LockWait::NoWait, &mut Vec::new()).unwrap()
    );
    txn
}

struct HeldUp {
    db: Database,
    instance: Instance,
    one: Session,
    lock: Transaction,
    build: JoinHandle<u16>,
}

/// A table with an index whose build cannot get past the middle while the lock is held.
fn held_up(create: &str) -> HeldUp {
    let db = Database::open_in_memory(Settings::default()).unwrap();
    let instance = instance_of(db.clone()).unwrap();
    let mut one = session(&instance, 1);
    make_table(&mut one);
    let lock = lock_middle(&db);
    let build = beside(&instance, 9, create);
    await_building(&mut one, 9);
    HeldUp { db, instance, one, lock, build }
}

/// ONLINE-BUILD-1 to ONLINE-BUILD-4, ONLINE-BUILD-7: no session uses an index while it is built.
/// Rows are inserted, deleted and changed on both sides of the build's position, and the finished
/// index has them all.
#[test]
fn rows_change_while_an_index_is_built() {
    let HeldUp { instance, mut one, lock, build, .. } = held_up("CREATE INDEX v ON t (v, u)");
    let mut older = session(&instance, 2);
    run(&mut one, "CREATE TABLE other (id INT)").unwrap();
    run(&mut older, "BEGIN; SELECT * FROM other").unwrap();
    for id in [1, 2, ROWS - 2, ROWS - 3] {
        run(&mut one, &format!("UPDATE t SET v = 77 WHERE id = {id}")).unwrap();
        run(&mut one, &format!("UPDATE t SET id = id + 100000 WHERE id = {id}")).unwrap();
        run(&mut one, &format!("DELETE FROM t WHERE id = {}", id + 10)).unwrap();
        run(&mut one, &format!("REPLACE INTO t VALUES ({}, 5, 78)", id + 20)).unwrap();
        run(&mut one, &format!("INSERT INTO t VALUES (-{id}, 5, 79)")).unwrap();
    }
    run(&mut one, "INSERT INTO t VALUES (3, 0, 0) ON DUPLICATE KEY UPDATE v = 77").unwrap();
    run(&mut one, "BEGIN; DELETE FROM t WHERE id < 2000; ROLLBACK").unwrap();
    // Its snapshot is older than the entries of rows that it changes.
    run(&mut older, "UPDATE t SET v = 80 WHERE id IN (100, 4000); COMMIT").unwrap();
    assert_eq!(indexes(&mut one), ["PRIMARY"]);
    assert!(!run(&mut one, "SHOW CREATE TABLE t").unwrap()[0].contains("KEY `v`"));
    assert!(run(&mut one, "EXPLAIN SELECT * FROM t WHERE v = 77").unwrap()[0].contains("ALL"));
    run(&mut older, "BEGIN; SELECT * FROM other").unwrap();
    drop(lock);
    assert_eq!(build.join().unwrap(), 0);
    assert_eq!(indexes(&mut one), ["PRIMARY", "v", "v"]);
    assert_sound(&mut one);
    let found = "SELECT COUNT(*) FROM t FORCE INDEX (v) WHERE v BETWEEN 77 AND 80";
    assert_eq!(run(&mut one, found).unwrap(), ["15"]);
    assert_eq!(code(&mut older, found), 1412);
    // The kind of the index does not prevent the session from changing rows.
    assert_eq!(code(&mut older, "UPDATE t SET v = 80 WHERE id = 200; COMMIT"), 0);
    assert_eq!(run(&mut older, found).unwrap(), ["16"]);
    assert_sound(&mut one);
}

/// Only one statement at a time changes a definition. Other changes of the table wait, while its
/// rows can be changed.
#[test]
fn a_table_is_not_changed_in_two_ways_at_once() {
    let HeldUp { mut one, lock, build, .. } = held_up("ALTER TABLE t ADD INDEX (v), LOCK=NONE");
    run(&mut one, "SET lock_wait_timeout = 0").unwrap();
    for other in [
        "ALTER TABLE t ADD COLUMN w INT",
        "CREATE INDEX u ON t (u)",
        "DROP TABLE t",
        "TRUNCATE TABLE t",
        "RENAME TABLE t TO s",
        "DROP DATABASE test",
        "LOCK TABLES t WRITE",
    ] {
        assert_eq!(code(&mut one, other), 1205, "{other}");
        run(&mut one, "UPDATE t SET v = v + 1 WHERE id = 7").unwrap();
    }
    run(&mut one, "CREATE TABLE like_t LIKE t").unwrap();
    drop(lock);
    assert_eq!(build.join().unwrap(), 0);
    assert_eq!(indexes(&mut one), ["PRIMARY", "v"]);
    assert_eq!(run(&mut one, "SHOW INDEX FROM like_t").unwrap().len(), 1);
    run(&mut one, "LOCK TABLES t WRITE; CREATE UNIQUE INDEX u ON t (u); UNLOCK TABLES").unwrap();
    assert_sound(&mut one);
}

/// ONLINE-BUILD-8.
#[test]
fn a_build_that_is_killed_leaves_nothing() {
    let HeldUp { db, mut one, lock, build, .. } = held_up("CREATE UNIQUE INDEX u ON t (u)");
    let before = spaces(&db);
    run(&mut one, "KILL QUERY 9").unwrap();
    assert_eq!(build.join().unwrap(), 1317);
    assert_eq!(spaces(&db), before - 1);
    assert_eq!(indexes(&mut one), ["PRIMARY"]);
    drop(lock);
    run(&mut one, "UPDATE t SET u = 1; CREATE INDEX u ON t (u)").unwrap();
    assert_eq!(indexes(&mut one), ["PRIMARY", "u"]);
    assert_sound(&mut one);
}

/// ONLINE-BUILD-8: a session that uses the table does not prevent the killed statement from ending,
/// nor other sessions from using the table.
#[test]
fn a_build_that_is_killed_beside_a_user_of_the_table_keeps_nobody_out() {
    let HeldUp { db, instance, mut one, lock, build } = held_up("CREATE INDEX v ON t (v)");
    let before = spaces(&db);
    let mut idle = session(&instance, 2);
    run(&mut idle, "BEGIN; SELECT COUNT(*) FROM t").unwrap();
    run(&mut one, "KILL QUERY 9").unwrap();
    run(&mut one, "SET lock_wait_timeout = 5").unwrap();
    while progress(&db).is_none_or(|progress| progress[0] == 0) {
        std::thread::yield_now();
    }
    assert_eq!(code(&mut one, "UPDATE t SET v = 3 WHERE id = 1"), 0);
    assert_eq!(build.join().unwrap(), 1317);
    assert_eq!(spaces(&db), before);
    run(&mut idle, "COMMIT").unwrap();
    while spaces(&db) == before {
        std::thread::yield_now();
    }
    drop(lock);
    run(&mut one, "CREATE INDEX v ON t (v)").unwrap();
    assert_eq!(indexes(&mut one), ["PRIMARY", "v"]);
    assert_sound(&mut one);
}

/// ONLINE-BUILD-6, ONLINE-BUILD-8: a duplicate is an error of the build, not of the statement that
/// created it.
#[test]
fn a_duplicate_that_comes_meanwhile_ends_a_build() {
    for duplicate in [
        format!("INSERT INTO t VALUES ({}, 5, 1)", ROWS + 1),
        format!("UPDATE t SET u = 5 WHERE id = {}", ROWS - 1),
        "REPLACE INTO t VALUES (6, 4999, 1)".to_owned(),
    ] {
        let HeldUp { db, mut one, lock, build, .. } =
            held_up("ALTER TABLE t ADD UNIQUE (u), ADD INDEX (v)");
        let before = spaces(&db);
        run(&mut one, &duplicate).unwrap();
        drop(lock);
        assert_eq!(build.join().unwrap(), 1062, "{duplicate}");
        assert_eq!(indexes(&mut one), ["PRIMARY"]);
        assert_eq!(spaces(&db), before - 2);
        assert_sound(&mut one);
    }
    // A duplicate that no longer exists is not an error.
    let HeldUp { mut one, lock, build, .. } = held_up("ALTER TABLE t ADD UNIQUE (u)");
    run(&mut one, "INSERT INTO t VALUES (-1, 5, 1); UPDATE t SET u = -1 WHERE id = -1").unwrap();
    drop(lock);
    assert_eq!(build.join().unwrap(), 0);
    assert_eq!(code(&mut one, "INSERT INTO t VALUES (-2, -1, 1)"), 1062);
    assert_sound(&mut one);
}

/// The progress of the build of the only table, from the catalog.
fn progress(db: &Database) -> Option<Vec<u8>> {
    let txn = db.begin(TransactionOptions::new().durability(Durability::Relaxed));
    let catalog = txn.table("sys.catalog").unwrap();
    let range = spillway::KeyRange::new(b"b/", Some(b"b0"));
    let mut scan = txn.scan(catalog, range, spillway::Direction::Forward).unwrap();
    scan.advance().unwrap().then(|| scan.value().to_vec())
}

/// ONLINE-BUILD-5, ONLINE-BUILD-8: a shutdown leaves a build to the next opening, which continues
/// after the last processed row.
#[test]
fn a_build_goes_on_where_a_shutdown_left_it() {
    for unique in ["", "UNIQUE"] {
        let HeldUp { db, instance, mut one, lock, build } =
            held_up(&format!("CREATE {unique} INDEX u ON t (u)"));
        // Wait until some rows are done.
        while progress(&db).is_none_or(|progress| progress.len() <= 1) {
            std::thread::yield_now();
        }
        run(&mut one, "UPDATE t SET u = u + 1000000 WHERE id IN (1, 4998)").unwrap();
        instance.shut_down();
        assert_eq!(build.join().unwrap(), 1317);
        drop((one, instance, lock));
        let left = progress(&db).unwrap();
        assert!(left.len() > 1 && left[0] == 0, "{left:?}");
        let lock = lock_middle(&db);
        // An opening in which the build makes little progress leaves it to the next one too.
        instance_of(db.clone()).unwrap().close();
        let instance = instance_of(db.clone()).unwrap();
        let mut one = session(&instance, 1);
        run(&mut one, "UPDATE t SET u = u + 2000000 WHERE id IN (2, 4997)").unwrap();
        assert_eq!(indexes(&mut one), ["PRIMARY"]);
        drop(lock);
        while indexes(&mut one).len() < 2 {
            std::thread::yield_now();
        }
        assert_eq!(progress(&db), None);
        assert_sound(&mut one);
        let found = "SELECT id FROM t FORCE INDEX (u) WHERE u > 1000000 ORDER BY u";
        assert_eq!(run(&mut one, found).unwrap(), ["1", "4998", "2", "4997"]);
    }
}

/// The next opening drops a build that was to be dropped when the process ended.
#[test]
fn a_build_that_was_to_be_dropped_is_dropped_at_the_opening() {
    let HeldUp { db, instance, one, lock, build } = held_up("CREATE INDEX u ON t (u)");
    instance.shut_down();
    assert_eq!(build.join().unwrap(), 1317);
    drop((one, instance, lock));
    let before = spaces(&db);
    let txn = db.begin(TransactionOptions::new());
    let catalog = txn.table("sys.catalog").unwrap();
    txn.put(catalog, &[b"b/".as_slice(), &1_u32.to_be_bytes()].concat(), &[1]).unwrap();
    txn.commit().wait().unwrap();
    let instance = instance_of(db.clone()).unwrap();
    let mut one = session(&instance, 1);
    assert_eq!((indexes(&mut one).len(), spaces(&db), progress(&db)), (1, before - 1, None));
    run(&mut one, "DELETE FROM t WHERE u < 100").unwrap();
    assert_sound(&mut one);
}

/// The other changes of an ALTER TABLE take effect together with its indexes, or not at all.
#[test]
fn instant_changes_come_with_the_indexes_that_are_built_beside_them() {
    let alter = "ALTER TABLE t ADD COLUMN w INT DEFAULT 7 FIRST, DROP COLUMN v, MODIFY u BIGINT, RENAME COLUMN id TO number,
        ADD UNIQUE (u), ADD INDEX un (u, number), COMMENT 'altered', LOCK=NONE";
    let duplicate = format!("INSERT INTO t VALUES ({ROWS}, 5, 1)");
    let new = format!("INSERT INTO t VALUES ({ROWS}, {ROWS}, 1)");
    for (meanwhile, answers) in [(&new, 0), (&duplicate, 1062)] {
        let HeldUp { db, mut one, lock, build, .. } = held_up(alter);
        let before = spaces(&db);
        run(&mut one, meanwhile).unwrap();
        run(&mut one, "UPDATE t SET u = -1 WHERE id = 1").unwrap();
        assert_eq!(
            run(&mut one, "SELECT * FROM t WHERE id < 3").unwrap(),
            ["0 0 0", "1 -1 1", "2 2 2"]
        );
        drop(lock);
        assert_eq!(build.join().unwrap(), answers);
        if answers == 0 {
            let all =
                format!("SELECT * FROM t WHERE number IN (1, {ROWS}) OR u = 3 ORDER BY number");
            let last = format!("7 {ROWS} {ROWS}");
            assert_eq!(run(&mut one, &all).unwrap(), ["7 1 -1", "7 3 3", &last]);
            run(&mut one, "INSERT INTO t VALUES (1, -5, 5000000000)").unwrap();
            let found = "SELECT w, number FROM t FORCE INDEX (un) WHERE u IN (-1, 5000000000)";
            assert_eq!(run(&mut one, found).unwrap(), ["7 1", "1 -5"]);
            assert_eq!(code(&mut one, "INSERT INTO t VALUES (1, -6, 3)"), 1062);
            assert_eq!(indexes(&mut one), ["PRIMARY", "u", "un", "un"]);
        } else {
            assert_eq!(run(&mut one, "SELECT * FROM t WHERE id = 3").unwrap(), ["3 3 3"]);
            assert_eq!((indexes(&mut one).len(), spaces(&db)), (1, before - 2));
        }
        assert_sound(&mut one);
    }
    // Entries of columns that do not exist yet, or that would differ under the present definition,
    // can only be built with the table.
    let instance = in_memory();
    let mut one = session(&instance, 1);
    run(&mut one, "CREATE TABLE t (id INT PRIMARY KEY, a INT UNSIGNED)").unwrap();
    run(&mut one, "INSERT INTO t VALUES (1, 1), (2, 4000000000)").unwrap();
    for alter in ["ADD COLUMN w INT DEFAULT 3, ADD INDEX (w)", "MODIFY a BIGINT, ADD INDEX (a)"] {
        assert_eq!(code(&mut one, &format!("ALTER TABLE t {alter}, LOCK=NONE")), 1845, "{alter}");
        run(&mut one, &format!("ALTER TABLE t {alter}")).unwrap();
        assert_sound(&mut one);
    }
}

/// A crash or a shutdown does not separate the changes of one statement.
#[test]
fn instant_changes_are_gone_on_with_as_the_indexes_are() {
    let HeldUp { db, instance, one, lock, build } =
        held_up("ALTER TABLE t DROP COLUMN v, ADD COLUMN w INT DEFAULT 7, ADD INDEX (u)");
    instance.shut_down();
    assert_eq!(build.join().unwrap(), 1317);
    drop((one, instance, lock));
    let instance = instance_of(db.clone()).unwrap();
    let mut one = session(&instance, 1);
    while indexes(&mut one).len() < 2 {
        std::thread::yield_now();
    }
    assert_eq!(run(&mut one, "SELECT * FROM t WHERE u = 3").unwrap(), ["3 3 7"]);
    assert_eq!(progress(&db), None);
    assert_sound(&mut one);
}

/// Sessions that write rows of all kinds until `done` is set.
fn start_writers(instance: &Instance, done: &Arc<AtomicBool>) -> Vec<JoinHandle<()>> {
    const WRITERS: u64 = 4;
    (0..WRITERS)
        .map(|writer| {
            let (mut session, done) = (session(instance, 10 + writer), done.clone());
            thread::spawn("writer", move || {
                let mut rng = Rng::new(writer);
                while !done.load(Ordering::Relaxed) {
                    write(&mut session, &mut rng);
                }
            })
            .unwrap()
        })
        .collect()
}

fn write(session: &mut Session, rng: &mut Rng) {
    let (id, other, v) = (rng.below(2500), rng.below(2500), rng.below(10));
    let sql = match rng.below(7) {
        0 => format!("INSERT INTO t (id, u, v) VALUES ({id}, {id}, {v})"),
        1 => format!("DELETE FROM t WHERE id = {id}"),
        2 => format!("REPLACE INTO t (id, u, v) VALUES ({id}, {id}, {v})"),
        3 => format!(
            "INSERT INTO t (id, u, v) VALUES ({id}, {id}, 0) ON DUPLICATE KEY UPDATE v = {v}"
        ),
        4 => format!("UPDATE t SET v = {v} WHERE id BETWEEN {id} AND {}", id + 5),
        5 => format!("UPDATE t SET id = {other}, u = {other} WHERE id = {id}"),
        _ => format!(
            "BEGIN; UPDATE t SET v = v + 1 WHERE id = {id}; DELETE FROM t WHERE id = {other}; COMMIT"
        ),
    };
    match code(session, &sql) {
        0 => {}
        1062 | 1213 => drop(run(session, "ROLLBACK")),
        other => panic!("{sql}: {other}"),
    }
}

/// Creates a table with rows for writers.
fn make_small_table(session: &mut Session) {
    run(session, "CREATE TABLE t (id INT PRIMARY KEY, u INT, v INT)").unwrap();
    let rows: Vec<_> = (0..2000).map(|id| format!("({id}, {id}, {})", id % 10)).collect();
    run(session, &format!("INSERT INTO t VALUES {}", rows.join(","))).unwrap();
}

#[test]
fn indexes_that_are_built_beside_writers_have_what_the_rows_say() {
    let instance = in_memory();
    let mut one = session(&instance, 1);
    make_small_table(&mut one);
    let done = Arc::new(AtomicBool::new(false));
    let writers = start_writers(&instance, &done);
    for round in 0..12 {
        let (create, drop) = match round % 3 {
            0 => ("CREATE INDEX v ON t (v)", "DROP INDEX v ON t"),
            1 => ("CREATE UNIQUE INDEX u ON t (u)", "DROP INDEX u ON t"),
            _ => (
                "ALTER TABLE t ADD UNIQUE (u), ADD INDEX (v, u)",
                "ALTER TABLE t DROP INDEX u, DROP INDEX v",
            ),
        };
        run(&mut one, create).unwrap();
        assert_sound(&mut one);
        run(&mut one, drop).unwrap();
    }
    done.store(true, Ordering::Relaxed);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    assert_sound(&mut one);
}

/// ROW-REWRITE-2 of `ddl/refresh`: after each rewrite concurrent with writers, no row of an earlier
/// version is left.
#[test]
fn rows_that_are_written_anew_beside_writers_are_of_the_newest_version() {
    let db = Database::open_in_memory(Settings::default()).unwrap();
    let instance = instance_of(db.clone()).unwrap();
    let mut one = session(&instance, 1);
    make_small_table(&mut one);
    run(&mut one, "CREATE INDEX v ON t (v)").unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let writers = start_writers(&instance, &done);
    for round in 0..6 {
        let alter = format!(
            "ALTER TABLE t ADD COLUMN c{round} INT DEFAULT {round} FIRST, ALGORITHM=INSTANT"
        );
        run(&mut one, &alter).unwrap();
        assert_eq!(run(&mut one, "OPTIMIZE TABLE t").unwrap(), ["test.t optimize status OK"]);
        let wrong = format!("SELECT COUNT(*) FROM t WHERE c{round} <> {round}");
        assert_eq!(run(&mut one, &wrong).unwrap(), ["0"]);
    }
    done.store(true, Ordering::Relaxed);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    let all = "SELECT * FROM t ORDER BY id";
    let rows = run(&mut one, all).unwrap();
    drop((one, instance));
    // There are no layouts now to read rows of an earlier version by.
    let mut one = session(&instance_of(db).unwrap(), 1);
    assert_eq!(run(&mut one, all).unwrap(), rows);
    assert_sound(&mut one);
}

/// A change builds key spaces in several commits, and a transaction has a snapshot between two of
/// them. It would read a part of the new key space, so it gets the error that the definition has
/// changed. It can still read unchanged key spaces.
#[test]
fn a_snapshot_from_within_a_change_of_a_table_does_not_read_a_part_of_it() {
    let part = |value: u64| [&[1], (value ^ 1 << 63).to_be_bytes().as_slice()].concat();
    let of_index = [part(MIDDLE), part(MIDDLE)].concat();
    for (alter, middle, all, by_index) in [
        ("ALTER TABLE t MODIFY v BIGINT, ALGORITHM=COPY", part(MIDDLE), 1412, 1412),
        ("ALTER TABLE t ADD INDEX u (u), LOCK=EXCLUSIVE", of_index, 0, 1412),
    ] {
        let db = Database::open_in_memory(Settings::default()).unwrap();
        let instance = instance_of(db.clone()).unwrap();
        let (mut one, mut two) = (session(&instance, 1), session(&instance, 2));
        make_table(&mut one);
        run(&mut one, "CREATE TABLE other (id INT)").unwrap();
        let space = {
            let txn = db.begin(TransactionOptions::new());
            let tables = txn.tables("").unwrap();
            let last = tables.iter().map(|(_, table)| table.ordinal()).max().unwrap();
            let (_, rows) = tables.iter().find(|(name, _)| name == "i/1/rows/0").unwrap();
            TableId::new(rows.engine().unwrap(), last + 1)
        };
        let lock = db.begin(TransactionOptions::new());
        assert!(lock.lock_name(space, &middle, LockMode::Exclusive, LockWait::NoWait).unwrap());
        let change = beside(&instance, 9, alter);
        let begun = || {
            let txn = db.begin(TransactionOptions::new());
            let scan = txn.scan(space, KeyRange::ALL, Direction::Forward);
            scan.is_ok_and(|mut scan| scan.advance().unwrap())
        };
        while !begun() {
            assert!(!change.is_finished(), "{alter}");
            std::thread::yield_now();
        }
        run(&mut two, "START TRANSACTION WITH CONSISTENT SNAPSHOT; SELECT * FROM other").unwrap();
        drop(lock);
        assert_eq!(change.join().unwrap(), 0, "{alter}");
        assert_eq!(code(&mut two, "SELECT COUNT(*) FROM t"), all, "{alter}");
        let found = format!("SELECT COUNT(*) FROM t WHERE u >= {}", ROWS - 5);
        assert_eq!(code(&mut two, &found), by_index, "{alter}");
        assert_eq!(code(&mut two, "SELECT * FROM other, t WHERE t.id = 4000"), all, "{alter}");
        assert_eq!(code(&mut two, "UPDATE t SET v = 3 WHERE id = 4000"), all, "{alter}");
        assert_eq!(code(&mut two, "DELETE FROM t WHERE id > 4990"), all, "{alter}");
        assert_eq!(code(&mut two, "SELECT * FROM other"), 0, "{alter}");
        run(&mut two, "ROLLBACK").unwrap();
        let whole = [ROWS.to_string()];
        assert_eq!(run(&mut two, "SELECT COUNT(*) FROM t").unwrap(), whole, "{alter}");
        assert_eq!(run(&mut two, &found).unwrap(), ["5"], "{alter}");
        assert_sound(&mut two);
    }
}

/// A commit that has released the table may stand behind other commits that are being installed,
/// and then no usual snapshot has its row. A statement that adds a constraint checks that row, too.
#[test]
fn rows_of_commits_that_are_on_their_way_are_held_to_a_new_constraint() {
    let db = Database::open_in_memory(Settings::default()).unwrap();
    let instance = instance_of(db.clone()).unwrap();
    let mut one = session(&instance, 1);
    run(&mut one, "CREATE TABLE t (id INT PRIMARY KEY)").unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let others = {
        let (db, done) = (db.clone(), done.clone());
        let write = move || {
            let txn = db.begin(TransactionOptions::new());
            let table = txn.create_table("large", spillway::EngineKind::Tiered).unwrap();
            txn.commit().wait().unwrap();
            while !done.load(Ordering::Relaxed) {
                let txn = db.begin(TransactionOptions::new().durability(Durability::Relaxed));
                for key in 0..5000_u32 {
                    txn.put(table, &key.to_be_bytes(), &[]).unwrap();
                }
                txn.commit().wait().unwrap();
            }
        };
        thread::spawn("writer of large commits", write).unwrap()
    };
    for round in 0..300 {
        one.query(&format!("INSERT INTO t VALUES ({round})"), &mut Hurried::default()).unwrap();
        let alter = format!("ALTER TABLE t ADD CHECK (id <> {round})");
        assert_eq!(code(&mut one, &alter), 3819, "{round}");
    }
    done.store(true, Ordering::Relaxed);
    others.join().unwrap();
}
