//! Tests passes that rewrite rows (`ddl/refresh`): a pass whose definition is older than the stored
//! one, the moment at which a pass releases its rows, and the conflict with a transaction that has
//! an older snapshot.

use spillway::{Database, Direction, KeyRange, LockMode, LockWait, Settings, TransactionOptions};

use super::{finish, forget_layouts};
use crate::catalog::{Catalog, Change};
use crate::ddl::pass::Pass;
use crate::session::{Instance, Session};
use crate::tests::run;

fn stored(db: &Database) -> crate::catalog::TableDef {
    (**Catalog::load(db).unwrap().table("test", "t").unwrap()).clone()
}

fn session(instance: &Instance) -> Session {
    let mut session = instance.session("root", "localhost", 1);
    session.use_database("test").unwrap();
    session
}

/// ROW-REWRITE-2: rows are recorded with the version under which they were written, and stay
/// readable.
#[test]
fn rows_are_of_the_version_that_a_pass_wrote() {
    let db = Database::open_in_memory(Settings::default()).unwrap();
    let instance = Instance::open(db.clone()).unwrap();
    let mut one = session(&instance);
    run(&mut one, "CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1), (2)");
    run(&mut one, "ALTER TABLE t ADD COLUMN a INT DEFAULT 5 FIRST, ALGORITHM=INSTANT");
    let behind = stored(&db);
    run(&mut one, "ALTER TABLE t ADD COLUMN b INT DEFAULT 6 FIRST, ALGORITHM=INSTANT");
    let pass = Pass { db: &db, table: &behind, stopped: &|| false, begun: &|_| {} };
    let mut last = Vec::new();
    while pass.refresh(&mut last, &|| ()).unwrap() {}
    let txn = db.begin(spillway::TransactionOptions::new());
    finish(&Change::new(&txn).unwrap(), &stored(&db), &behind, 0).unwrap();
    txn.commit().wait().unwrap();
    assert_eq!(stored(&db).fresh_from, behind.schema);
    assert!(forget_layouts(&db, &Catalog::load(&db).unwrap()).unwrap());
    drop((one, instance));
    let mut one = session(&Instance::open(db.clone()).unwrap());
    assert_eq!(run(&mut one, "SELECT * FROM t ORDER BY id"), ["6 5 1", "6 5 2"]);
    // The pass's result does not apply to rows that were copied after it.
    run(&mut one, "ALTER TABLE t FORCE");
    let txn = db.begin(spillway::TransactionOptions::new());
    finish(&Change::new(&txn).unwrap(), &stored(&db), &behind, 0).unwrap();
    assert!(!txn.has_writes());
}

/// REWRITE-THREAD-2 of `session/refreshing`: `installed` is called once other transactions can lock
/// the rows, not after the pass's own waits.
#[test]
fn it_is_told_when_others_may_have_the_rows() {
    let db = Database::open_in_memory(Settings::default()).unwrap();
    let instance = Instance::open(db.clone()).unwrap();
    let mut one = session(&instance);
    run(&mut one, "CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1), (2)");
    run(&mut one, "ALTER TABLE t ADD COLUMN a INT DEFAULT 5 FIRST, ALGORITHM=INSTANT");
    let table = stored(&db);
    let pass = Pass { db: &db, table: &table, stopped: &|| false, begun: &|_| {} };
    let (mut last, told) = (Vec::new(), std::cell::Cell::new(0));
    let installed = || {
        let txn = db.begin(TransactionOptions::new());
        let mut scan = txn.scan(table.rows(), KeyRange::ALL, Direction::Forward).unwrap();
        while scan.advance().unwrap() {
            let mut bytes = Vec::new();
            let other = db.begin(TransactionOptions::new());
            let (mode, wait) = (LockMode::Exclusive, LockWait::NoWait);
            assert!(other.get_locked(table.rows(), scan.key(), mode, wait, &mut bytes).unwrap());
            assert!(crate::catalog::is_newest(&table, &bytes).unwrap());
            told.set(told.get() + 1);
        }
    };
    assert!(pass.refresh(&mut last, &installed).unwrap());
    assert!(!pass.refresh(&mut last, &installed).unwrap());
    assert_eq!(told.get(), 2);
}

/// A limit of ROW-REWRITE-1: for a transaction with an earlier snapshot, a rewritten row is a
/// changed row.
#[test]
fn a_row_that_was_written_anew_is_a_conflict_to_who_read_before() {
    let db = Database::open_in_memory(Settings::default()).unwrap();
    let instance = Instance::open(db.clone()).unwrap();
    let mut one = session(&instance);
    run(&mut one, "CREATE TABLE t (id INT PRIMARY KEY, v INT); INSERT INTO t VALUES (1, 1)");
    run(&mut one, "ALTER TABLE t ADD COLUMN a INT DEFAULT 5 FIRST, ALGORITHM=INSTANT");
    for (isolation, expected) in [("REPEATABLE READ", 1213), ("READ COMMITTED", 0)] {
        run(&mut one, &format!("SET SESSION TRANSACTION ISOLATION LEVEL {isolation}"));
        run(&mut one, "ALTER TABLE t DROP COLUMN a, ADD COLUMN a INT FIRST, ALGORITHM=INSTANT");
        assert_eq!(run(&mut one, "BEGIN; SELECT v FROM t"), ["1"]);
        let table = stored(&db);
        let pass = Pass { db: &db, table: &table, stopped: &|| false, begun: &|_| {} };
        assert!(pass.refresh(&mut Vec::new(), &|| ()).unwrap());
        let outcome = one.query("UPDATE t SET v = 2", &mut crate::tests::Rows::default());
        assert_eq!(outcome.map_or_else(|error| error.code, |()| 0), expected, "{isolation}");
        run(&mut one, "ROLLBACK");
    }
}
