//! Passes by a definition that is not the newest.

use spillway::{Database, Settings};

use super::{finish, forget_layouts};
use crate::catalog::{Catalog, Change};
use crate::ddl::Pass;
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

/// F2: rows are noted to be of the version under which they were written, and go on being read.
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
    while pass.refresh(&mut last).unwrap() {}
    let txn = db.begin(spillway::TransactionOptions::new());
    finish(&Change::new(&txn).unwrap(), &stored(&db), &behind).unwrap();
    txn.commit().wait().unwrap();
    assert_eq!(stored(&db).fresh_from, behind.schema);
    assert!(forget_layouts(&db, &Catalog::load(&db).unwrap()).unwrap());
    drop((one, instance));
    let mut one = session(&Instance::open(db.clone()).unwrap());
    assert_eq!(run(&mut one, "SELECT * FROM t ORDER BY id"), ["6 5 1", "6 5 2"]);
    // Of rows that were copied since it says nothing.
    run(&mut one, "ALTER TABLE t FORCE");
    let txn = db.begin(spillway::TransactionOptions::new());
    finish(&Change::new(&txn).unwrap(), &stored(&db), &behind).unwrap();
    assert!(!txn.has_writes());
}
