//! Tests of passes that rewrite rows. Some run a pass step by step, with changes of the table in
//! between; in others, the background thread runs the passes.

use spillway::{Database, Direction, KeyRange, LockMode, LockWait, Settings, TransactionOptions};
use spillway_base::clock::Clock;

use super::*;
use crate::session::Session;
use crate::tests::run;

fn settings(row_refresh: bool) -> Settings {
    let mut settings = Settings::default();
    if !row_refresh {
        settings.without.push(Mechanism::RowRefresh);
    }
    settings
}

fn session(instance: &Instance) -> Session {
    let mut session = instance.session("root", "localhost", 1);
    session.use_database("test").unwrap();
    session
}

fn stored(instance: &Instance) -> Arc<TableDef> {
    instance.catalog().table("test", "t").unwrap().clone()
}

fn change(number: u64) -> String {
    let next = number + 1;
    format!(
        "ALTER TABLE t DROP COLUMN c{number}, ADD COLUMN c{next} INT DEFAULT {number} FIRST, ALGORITHM=INSTANT"
    )
}

fn alter(one: &mut Session, number: u64) {
    run(one, &change(number));
}

/// Waits until the background thread has done its work.
fn wait_until(is_done: impl Fn() -> bool) {
    for _ in 0..120_000 {
        if is_done() {
            return;
        }
        Clock::system().sleep(Duration::from_millis(1));
    }
    panic!("it did not come");
}

/// Creates a table `t` with one row of each of `versions` versions, none of them the newest.
fn with_versions(instance: &Instance, versions: u64) -> Session {
    let mut one = session(instance);
    run(&mut one, "CREATE TABLE t (c0 INT, id INT PRIMARY KEY, v INT)");
    for version in 0..versions {
        run(&mut one, &format!("INSERT INTO t VALUES (1, {version}, {})", version * 7));
        alter(&mut one, version);
    }
    one
}

/// REWRITE-THREAD-1: changes between the batches create new versions, and queries return the same
/// rows as before.
#[test]
fn rewrite_thread_1_what_is_noted_is_the_version_that_the_pass_began_with() {
    let db = Database::open_in_memory(settings(false)).unwrap();
    let instance = Instance::open(db.clone()).unwrap();
    let mut one = with_versions(&instance, 40);
    let all = "SELECT id, v FROM t ORDER BY id";
    let before = run(&mut one, all);
    let mut pass = Refreshing::new(&stored(&instance));
    let begun = stored(&instance).schema;
    assert!(pass.step(&instance).unwrap(), "rows were visited");
    alter(&mut one, 40);
    run(&mut one, "INSERT INTO t VALUES (1, 1000, 7000)");
    alter(&mut one, 41);
    while pass.step(&instance).unwrap() {}
    let after = stored(&instance);
    assert_eq!((after.fresh_from, after.versions_kept()), (begun, 2));
    assert_eq!(after.schema, begun + 2);
    let mut expected = before;
    expected.push("1000 7000".to_owned());
    assert_eq!(run(&mut one, all), expected);
    assert_eq!(run(&mut one, "SELECT SUM(c42) FROM t"), [(41 * 41).to_string()]);
    drop((one, instance));
    // The next opening removes the layouts. A row that still had one would be unreadable then.
    let instance = Instance::open(db).unwrap();
    assert_eq!(stored(&instance).layouts.len(), 2);
    assert_eq!(run(&mut session(&instance), all), expected);
}

/// ROW-REWRITE-3 of `ddl/refresh`: the end of the next pass removes layouts, unless an open
/// snapshot may read rows that have them.
#[test]
fn layouts_go_once_no_snapshot_is_from_before_the_pass() {
    let instance = Instance::open(Database::open_in_memory(settings(false)).unwrap()).unwrap();
    let mut one = with_versions(&instance, 3);
    let mut old = session(&instance);
    let all = "SELECT id, v FROM t ORDER BY id";
    run(&mut old, "START TRANSACTION WITH CONSISTENT SNAPSHOT");
    let layouts = |instance: &Instance| {
        let schemas: Vec<_> = stored(instance).layouts.iter().map(|one| one.schema).collect();
        schemas
    };
    for (number, expected) in [(3, 0..3), (4, 0..4)] {
        run(&mut one, "OPTIMIZE TABLE t");
        assert_eq!(layouts(&instance), expected.collect::<Vec<_>>());
        alter(&mut one, number);
    }
    let before = run(&mut one, all);
    assert_eq!(run(&mut old, all), before);
    run(&mut old, "COMMIT");
    run(&mut one, "OPTIMIZE TABLE t");
    assert_eq!(layouts(&instance), [4], "rows are of the fifth, and were of the fourth before");
    assert_eq!(run(&mut one, all), before);
}

/// ROW-REWRITE-3: together with layouts, caches drop rows that may have them. The pass need not
/// have visited these rows: here a cache drops all rows of the table.
#[test]
fn cached_rows_go_with_layouts() {
    let db = Database::open_in_memory(settings(false)).unwrap();
    let instance = Instance::open(db.clone()).unwrap();
    let mut one = with_versions(&instance, 3);
    let hits = || {
        let metrics = db.metrics();
        let hits = metrics.iter().find(|metric| metric.name == "tiered_row_cache_hits_total");
        hits.unwrap().value
    };
    let is_cached = |one: &mut Session| {
        let before = hits();
        assert_eq!(run(one, "SELECT v FROM t WHERE id = 1"), ["7"]);
        hits() > before
    };
    run(&mut one, "OPTIMIZE TABLE t");
    alter(&mut one, 3);
    assert!((0..5).any(|_| is_cached(&mut one)));
    let layouts = stored(&instance).layouts.len();
    run(&mut one, "OPTIMIZE TABLE t");
    assert!(stored(&instance).layouts.len() < layouts);
    assert!(!is_cached(&mut one), "nobody knows of which version it was");
}

/// ROW-REWRITE-3: a snapshot keeps only the layouts that it may need. Of several ended passes, the
/// newest one that ended before the snapshot decides.
#[test]
fn a_snapshot_keeps_the_layouts_that_it_may_need() {
    let instance = Instance::open(Database::open_in_memory(settings(false)).unwrap()).unwrap();
    let mut one = with_versions(&instance, 2);
    let oldest = |instance: &Instance| stored(instance).oldest_layout();
    run(&mut one, "OPTIMIZE TABLE t");
    let begun = stored(&instance).schema;
    let mut old = session(&instance);
    run(&mut old, "START TRANSACTION WITH CONSISTENT SNAPSHOT");
    for number in 2..5 {
        alter(&mut one, number);
        run(&mut one, "OPTIMIZE TABLE t");
        assert_eq!(oldest(&instance), begun, "those before the first pass are read by nobody");
    }
    assert_eq!(run(&mut old, "SELECT id, v FROM t ORDER BY id"), ["0 0", "1 7"]);
    run(&mut old, "COMMIT");
    alter(&mut one, 5);
    run(&mut one, "OPTIMIZE TABLE t");
    assert_eq!(oldest(&instance), begun + 3);
}

/// REWRITE-THREAD-1: a pass records nothing about rows that were copied or that belong to another
/// table.
#[test]
fn rewrite_thread_1_nothing_is_noted_of_other_rows() {
    for change in
        ["ALTER TABLE t FORCE", "DROP TABLE t; CREATE TABLE t (c40 INT, id INT PRIMARY KEY, v INT)"]
    {
        let instance = Instance::open(Database::open_in_memory(settings(false)).unwrap()).unwrap();
        let mut one = with_versions(&instance, 40);
        let mut pass = Refreshing::new(&stored(&instance));
        assert!(pass.step(&instance).unwrap());
        run(&mut one, change);
        alter(&mut one, 40);
        assert!(!pass.step(&instance).unwrap());
        let after = stored(&instance);
        assert_eq!((after.schema, after.fresh_from, after.layouts.len()), (1, 0, 1), "{change}");
        run(&mut one, "DROP TABLE t");
        assert!(!pass.step(&instance).unwrap());
    }
}

/// Changes remain instant, although there are more of them than [`LAYOUTS_MAX`]: the test waits
/// until the pass has made room. Without passes, the change after [`LAYOUTS_MAX`] is refused.
#[test]
fn changes_go_on_to_be_instant() {
    let instance = Instance::open(Database::open_in_memory(settings(true)).unwrap()).unwrap();
    let mut one = session(&instance);
    run(&mut one, "CREATE TABLE t (c0 INT, id INT PRIMARY KEY)");
    for number in 0..200 {
        run(&mut one, &format!("INSERT INTO t VALUES (1, {number})"));
        wait_until(|| stored(&instance).versions_kept() < LAYOUTS_MAX);
        alter(&mut one, number);
    }
    assert_eq!(run(&mut one, "SELECT COUNT(*), SUM(c200), SUM(id) FROM t"), ["200 39800 19900"]);

    let instance = Instance::open(Database::open_in_memory(settings(false)).unwrap()).unwrap();
    let mut one = with_versions(&instance, LAYOUTS_MAX as u64);
    let refused = one.query(&change(LAYOUTS_MAX as u64), &mut crate::tests::Rows::default());
    assert_eq!(refused.unwrap_err().code, 4092);
}

/// REWRITE-THREAD-3: an opening restarts a pass that the previous one left unfinished.
#[test]
fn rewrite_thread_3_an_opening_begins_what_is_left() {
    let db = Database::open_in_memory(settings(true)).unwrap();
    let instance = Instance::open(db.clone()).unwrap();
    // Marks all future tables as having a pass, so that none starts.
    instance.0.refreshing.state.lock().tables.extend(0..10_000);
    let mut one = with_versions(&instance, REFRESH_FROM as u64);
    let all = run(&mut one, "SELECT * FROM t ORDER BY id");
    assert!(is_crowded(&stored(&instance)));
    drop((one, instance));
    let instance = Instance::open(db).unwrap();
    wait_until(|| stored(&instance).versions_kept() == 0);
    assert_eq!(run(&mut session(&instance), "SELECT * FROM t ORDER BY id"), all);
    wait_until(|| instance.0.refreshing.state.lock().tables.is_empty());
}

/// The keys of the rows of `t`, and whether each row has the newest version.
fn rows(instance: &Instance) -> Vec<(Vec<u8>, bool)> {
    let table = stored(instance);
    let txn = instance.database().begin(TransactionOptions::new());
    let mut scan = txn.scan(table.rows(), KeyRange::ALL, Direction::Forward).unwrap();
    let mut rows = Vec::new();
    while scan.advance().unwrap() {
        let newest = crate::catalog::is_newest(&table, scan.value()).unwrap();
        rows.push((scan.key().to_vec(), newest));
    }
    rows
}

/// Locks a row in a transaction that holds no metadata lock.
fn lock_row(instance: &Instance, table: &TableDef, key: &[u8]) -> Transaction {
    let txn = instance.database().begin(TransactionOptions::new());
    let (mode, wait) = (LockMode::Exclusive, LockWait::Wait);
    assert!(txn.get_locked(table.rows(), key, mode, wait, &mut Vec::new()).unwrap());
    txn
}

/// REWRITE-THREAD-2: a step rewrites only a few wide rows.
#[test]
fn rewrite_thread_2_a_step_is_one_transaction_of_some_bytes() {
    let instance = Instance::open(Database::open_in_memory(settings(false)).unwrap()).unwrap();
    let mut one = session(&instance);
    run(&mut one, "CREATE TABLE t (c0 INT, id INT PRIMARY KEY, v LONGTEXT)");
    for id in 0..20 {
        run(&mut one, &format!("INSERT INTO t VALUES (1, {id}, REPEAT('v', 102400))"));
    }
    alter(&mut one, 0);
    let keys: Vec<Vec<u8>> = rows(&instance).into_iter().map(|(key, _)| key).collect();
    let mut pass = Refreshing::new(&stored(&instance));
    let mut done = 0;
    while pass.step(&instance).unwrap() {
        let now = keys.iter().filter(|key| **key <= pass.last).count();
        // A transaction ends with the row that makes it reach 256 KiB.
        assert!((1..=3).contains(&(now - done)), "{} rows in a step", now - done);
        done = now;
    }
    assert_eq!(done, 20);
    assert!(rows(&instance).iter().all(|(_, newest)| *newest));
}

/// REWRITE-THREAD-2: an exclusive lock of the table is granted while the pass still has rows to
/// write and cannot write them.
#[test]
fn rewrite_thread_2_who_wants_the_table_alone_waits_for_one_transaction() {
    let instance = Instance::open(Database::open_in_memory(settings(false)).unwrap()).unwrap();
    let one = with_versions(&instance, 5);
    let table = stored(&instance);
    let keys: Vec<Vec<u8>> = rows(&instance).into_iter().map(|(key, _)| key).collect();
    let locked = lock_row(&instance, &table, &keys[2]);
    let stop = Stop::default();
    std::thread::scope(|scope| {
        let pass = scope.spawn(|| {
            let mut pass = Refreshing::new(&table);
            while pass.step(&instance).unwrap() {}
        });
        wait_until(|| rows(&instance)[1].1);
        let limits = WaitLimits::new(Duration::from_secs(30), &stop);
        let names = vec![(name_of(&table), MetadataLockMode::Alone)];
        let alone = instance.0.metadata.take(names, 7, &limits, |_| None).map(drop);
        drop(locked);
        pass.join().unwrap();
        alone.unwrap();
    });
    assert!(rows(&instance).iter().all(|(_, newest)| *newest));
    drop(one);
}

/// REWRITE-THREAD-3: an opening with several such tables starts one thread. A pass that waits for a
/// row does not block the passes over other tables.
#[test]
fn rewrite_thread_3_one_thread_passes_over_all_tables() {
    let db = Database::open_in_memory(settings(true)).unwrap();
    let instance = Instance::open(db.clone()).unwrap();
    instance.0.refreshing.state.lock().tables.extend(0..10_000);
    for other in 0..4 {
        let mut one = with_versions(&instance, REFRESH_FROM as u64);
        run(&mut one, &format!("RENAME TABLE t TO t{other}"));
    }
    drop(with_versions(&instance, REFRESH_FROM as u64));
    let table = stored(&instance);
    let locked = lock_row(&instance, &table, &rows(&instance)[3].0);
    drop(instance);
    let instance = Instance::open(db).unwrap();
    assert_eq!(instance.0.builders.lock().len(), 1);
    let names = ["t0", "t1", "t2", "t3"];
    let kept = |name| instance.catalog().table("test", name).unwrap().versions_kept();
    wait_until(|| names.iter().all(|name| kept(name) == 0));
    assert_eq!(kept("t"), REFRESH_FROM);
    drop(locked);
    wait_until(|| kept("t") == 0);
    wait_until(|| !instance.0.refreshing.state.lock().has_thread);
}

/// REWRITE-THREAD-4: a pass follows its table, not the name.
#[test]
fn rewrite_thread_4_a_table_is_passed_over_under_whatever_name() {
    let instance = Instance::open(Database::open_in_memory(settings(false)).unwrap()).unwrap();
    let mut one = with_versions(&instance, 40);
    let mut pass = Refreshing::new(&stored(&instance));
    let begun = stored(&instance).schema;
    assert!(pass.step(&instance).unwrap());
    run(&mut one, "RENAME TABLE t TO u");
    run(&mut one, "CREATE TABLE t (id INT PRIMARY KEY)");
    while pass.step(&instance).unwrap() {}
    let after = instance.catalog().table("test", "u").unwrap().clone();
    assert_eq!((after.fresh_from, after.versions_kept()), (begun, 0));
    assert_eq!(stored(&instance).fresh_from, 0);
}

/// REWRITE-THREAD-4: a pass that failed at an unreadable row continues once the row is repaired,
/// without a change of the table.
#[test]
fn rewrite_thread_4_a_pass_that_failed_goes_on() {
    let instance = Instance::open(Database::open_in_memory(settings(true)).unwrap()).unwrap();
    let versions = REFRESH_FROM as u64 - 1;
    let mut one = with_versions(&instance, versions);
    let table = stored(&instance);
    let key = rows(&instance)[5].0.clone();
    let write = |bytes: &[u8]| {
        let txn = instance.database().begin(TransactionOptions::new());
        let mut before = Vec::new();
        txn.get(table.rows(), &key, &mut before).unwrap();
        txn.put(table.rows(), &key, bytes).unwrap();
        txn.commit().wait().unwrap();
        before
    };
    let row = write(&[0xff; 5]);
    alter(&mut one, versions);
    wait_until(|| instance.0.refreshing.state.lock().pauses > 0);
    assert!(is_crowded(&stored(&instance)));
    write(&row);
    wait_until(|| stored(&instance).versions_kept() == 0);
    assert_eq!(run(&mut one, "SELECT v FROM t WHERE id = 5"), ["35"]);
}

/// REWRITE-THREAD-3: a table that others keep locked holds the thread up only for a moment.
#[test]
fn rewrite_thread_3_a_pass_gives_up_its_turn() {
    let instance = Instance::open(Database::open_in_memory(settings(false)).unwrap()).unwrap();
    let mut one = with_versions(&instance, 3);
    let mut pass = Refreshing::new(&stored(&instance));
    run(&mut one, "LOCK TABLES t READ");
    assert_eq!(pass.step(&instance).unwrap_err().code, 1205);
    run(&mut one, "UNLOCK TABLES");
    while pass.step(&instance).unwrap() {}
    assert_eq!(stored(&instance).versions_kept(), 0);
}

/// REWRITE-THREAD-3: after a pass panics, the next thread runs the remaining passes, including that
/// one.
#[test]
fn rewrite_thread_3_a_pass_that_panics_ends_no_other() {
    let refreshes = RefreshPasses::default();
    {
        let mut state = refreshes.state.lock();
        state.tables.extend([7, 8]);
        state.has_thread = true;
    }
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _running = Running { refreshes: &refreshes, table: 7 };
        panic!("a pass");
    }));
    assert!(panicked.is_err());
    let state = refreshes.state.lock();
    assert!(!state.has_thread && state.tables.iter().eq(&[8]));
}
