//! Runs the steps of an index build one by one, with changes of rows in between, to test
//! ONLINE-BUILD-4 and ONLINE-BUILD-6 of `ddl/online`.

use spillway::{Csn, Database, Settings};

use super::*;
use crate::catalog::{Becoming, IndexDef, IndexPart, Stage};
use crate::session::Session;
use crate::tests::run;

fn session(instance: &Instance, id: u64) -> Session {
    let mut session = instance.session("root", "localhost", id);
    session.use_database("test").unwrap();
    session
}

/// A table `t` of `id`, `u` and `v`, and a build of a unique index on `u` after step 3: every row
/// has its entry.
fn filled() -> (Instance, Session, Build) {
    let db = Database::open_in_memory(Settings::default()).unwrap();
    let instance = Instance::open(db).unwrap();
    let mut one = session(&instance, 1);
    run(&mut one, "CREATE TABLE t (id INT PRIMARY KEY, u INT, v INT)");
    run(&mut one, "INSERT INTO t VALUES (1, 1, 0), (2, 2, 0), (3, 3, 0), (4, NULL, 0)");
    let name = ("test".to_owned(), "t".to_owned());
    let index = IndexDef {
        name: "u".to_owned(),
        parts: vec![IndexPart { column: 1, prefix: None }],
        unique: true,
        comment: String::new(),
        space: 0,
        stage: Stage::Done,
        since: Csn::ZERO,
    };
    let begin = |txn: &Transaction, catalog: &Catalog| {
        let becoming = Becoming { indexes: vec![index], after: None, filled: false };
        online::begin(&Change::new(txn)?, catalog.table(&name.0, &name.1)?, becoming)
    };
    instance.change_catalog(LONG, begin, |(), _| {}).unwrap();
    let table = instance.0.catalog.load().table(&name.0, &name.1).unwrap().clone();
    let mut build = Build::new(&table, Vec::new(), HeldLocks::default());
    while !instance.0.catalog.load().tables[&name].becoming.as_ref().unwrap().filled {
        assert!(!step(&mut build, &instance).unwrap());
    }
    (instance, one, build)
}

fn step(build: &mut Build, instance: &Instance) -> Result<bool> {
    let stop = Stop::default();
    let owner = Owner {
        stop: &stop,
        wait: Some(Duration::ZERO),
        stripe: 0,
        has_table: false,
        gone: &|| false,
        begun: &|_| {},
        progress: &|_| {},
    };
    build.step(instance, &owner)
}

/// The result of a build's last step, if `changes` run before or after the search for duplicates.
fn outcome(changes: &str, before_the_check: bool) -> std::result::Result<bool, String> {
    let (instance, mut one, mut build) = filled();
    if before_the_check {
        run(&mut one, changes);
        return step(&mut build, &instance).map_err(|error| error.message);
    }
    // The last step does the same after its check.
    let table = instance.0.catalog.load().table("test", "t").unwrap().clone();
    let stopped = || false;
    Pass { db: instance.database(), table: &table, stopped: &stopped, begun: &|_| {} }
        .check()
        .unwrap();
    run(&mut one, changes);
    let ended = build.turn(&instance, None, online::finish, |_| {});
    ended.map(|()| true).map_err(|error| error.message)
}

/// An unfinished index constrains no statement: changes succeed as without it, and the build fails.
#[test]
fn a_duplicate_that_comes_while_duplicates_are_looked_for_ends_the_build_alone() {
    for (changes, value) in [
        ("INSERT INTO t VALUES (5, 1, 0)", 1),
        ("UPDATE t SET u = 2 WHERE id = 1", 2),
        ("REPLACE INTO t VALUES (5, 3, 0)", 3),
        ("REPLACE INTO t VALUES (1, 3, 0)", 3),
        ("INSERT INTO t VALUES (5, 1, 0) ON DUPLICATE KEY UPDATE v = 9", 1),
        ("INSERT INTO t VALUES (2, 0, 0) ON DUPLICATE KEY UPDATE u = 3", 3),
        ("INSERT IGNORE INTO t VALUES (5, 1, 0)", 1),
        ("UPDATE t SET id = 7, u = 1 WHERE id = 2", 1),
        ("BEGIN; DELETE FROM t WHERE id = 1; INSERT INTO t VALUES (5, 1, 0), (6, 1, 0); COMMIT", 1),
    ] {
        for before in [true, false] {
            let text = format!("Duplicate entry '{value}' for key 't.u'");
            assert_eq!(outcome(changes, before), Err(text), "{changes}");
        }
    }
}

/// A row that was a duplicate, but is none when the build checks it, does not fail the build.
#[test]
fn what_is_no_duplicate_in_the_end_ends_no_build() {
    for changes in [
        "UPDATE t SET u = u + 1",
        "BEGIN; INSERT INTO t VALUES (5, 1, 0); ROLLBACK",
        "BEGIN; INSERT INTO t VALUES (5, 1, 0); UPDATE t SET u = 5 WHERE id = 5; COMMIT",
        "INSERT INTO t VALUES (5, 1, 0); DELETE FROM t WHERE id = 1",
        "INSERT INTO t VALUES (5, 1, 0); DELETE FROM t WHERE id = 5",
        "INSERT INTO t VALUES (5, NULL, 0), (6, NULL, 0)",
        "REPLACE INTO t VALUES (1, 1, 5)",
    ] {
        for before in [true, false] {
            assert_eq!(outcome(changes, before), Ok(true), "{changes}");
        }
    }
}

/// ONLINE-BUILD-4: a transaction does not wait for another that has written the same value and not
/// yet committed. The build fails if both commit.
#[test]
fn nobody_waits_for_values_of_an_index_that_is_built() {
    for (end, fails) in [("COMMIT", true), ("ROLLBACK", false)] {
        let (instance, mut one, build) = filled();
        let mut two = session(&instance, 2);
        run(&mut two, "SET innodb_lock_wait_timeout = 1");
        run(&mut one, "BEGIN; INSERT INTO t VALUES (5, 50, 0)");
        run(&mut two, "INSERT INTO t VALUES (6, 50, 0)");
        // A rollback also takes back the record of the possible duplicate.
        run(&mut one, end);
        let ended = build.turn(&instance, None, online::finish, |_| {});
        assert_eq!(ended.is_err(), fails, "{end}");
        if fails {
            assert_eq!(ended.unwrap_err().code, 1062);
            build.turn(&instance, None, online::abandon, |_| {}).unwrap();
        }
        // The records of possible duplicates go with the build, whether it succeeded or failed.
        let txn = instance.database().begin(unawaited());
        let mut noted = 0;
        let table = instance.0.catalog.load().table("test", "t").unwrap().clone();
        let count = |_: &[u8]| {
            noted += 1;
            Ok(())
        };
        Change::new(&txn).unwrap().each_met(table.id, count).unwrap();
        assert_eq!((noted, table.building.len()), (0, 0));
        assert_eq!(run(&mut one, "CHECK TABLE t"), ["test.t check status OK"]);
    }
}
