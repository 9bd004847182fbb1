//! Tests that compactions rewrite rows of earlier versions (STORED-ROW-7).

use spillway::{Database, Direction, KeyRange, Settings, TransactionOptions};
use spillway_base::rng::Rng;

use super::*;
use crate::catalog::Catalog;
use crate::session::{Instance, Session};
use crate::tests::run;

const ROWS: u64 = 2000;

fn session(instance: &Instance) -> Session {
    let mut session = instance.session("root", "localhost", 1);
    session.use_database("test").unwrap();
    session
}

/// How many rows in the newest state have the newest version, and the total bytes of all rows.
fn newest(db: &Database) -> (u64, usize) {
    let catalog = Catalog::load(db).unwrap();
    let table = catalog.table("test", "t").unwrap();
    let txn = db.begin(TransactionOptions::new());
    let mut scan = txn.scan(table.rows(), KeyRange::ALL, Direction::Forward).unwrap();
    let (mut rows, mut bytes) = (0, 0);
    while scan.advance().unwrap() {
        rows += u64::from(is_newest(table, scan.value()).unwrap());
        bytes += scan.value().len();
    }
    (rows, bytes)
}

/// Inserts rows between the existing ones, so that a compaction must merge them all, and runs it.
fn merge(one: &mut Session, db: &Database, id: &str) {
    let odd: Vec<_> = (0..ROWS).map(|row| format!("({})", row * 2 + 1)).collect();
    run(one, &format!("REPLACE INTO t ({id}) VALUES {}", odd.join(",")));
    db.compact().unwrap();
}

/// STORED-ROW-7, STORED-ROW-3, STORED-ROW-4: compactions rewrite rows of earlier versions, and the
/// rows read as before. Rows that would become longer stay as they are. The same holds after a
/// restart.
#[test]
fn compactions_write_rows_in_the_newest_version() {
    let db = Database::open_in_memory(Settings::default()).unwrap();
    let instance = Instance::open(db.clone()).unwrap();
    let mut one = session(&instance);
    run(
        &mut one,
        "CREATE TABLE t (id INT PRIMARY KEY, noise CHAR(100), a INT, b INT UNSIGNED, KEY (b))",
    );
    let mut rng = Rng::new(7);
    let mut noise = || (0..6).map(|_| format!("{:016x}", rng.below(u64::MAX))).collect::<String>();
    let row = |id: u64, noise: String| format!("({}, '{noise}', {id}, {id})", id * 2);
    let rows: Vec<_> = (0..ROWS).map(|id| row(id, noise())).collect();
    run(&mut one, &format!("INSERT INTO t VALUES {}", rows.join(",")));
    db.compact().unwrap();
    let before = newest(&db);
    assert_eq!(before.0, ROWS);
    run(
        &mut one,
        "ALTER TABLE t DROP COLUMN noise, MODIFY a BIGINT, ADD COLUMN c INT DEFAULT 9 AFTER id, ALGORITHM=INSTANT",
    );
    let even = "SELECT * FROM t WHERE id % 2 = 0 ORDER BY id";
    let told = run(&mut one, even);
    assert_eq!(newest(&db), (0, before.1));
    // No compaction has merged these rows.
    db.compact().unwrap();
    assert_eq!(run(&mut one, even), told);
    merge(&mut one, &db, "id");
    let after = newest(&db);
    assert_eq!(after.0, ROWS * 2);
    // By then the table has twice as many rows.
    assert!(after.1 < before.1 * 3 / 4, "{} of {}", after.1, before.1);
    assert_eq!(run(&mut one, even), told);
    assert_eq!(run(&mut one, "CHECK TABLE t"), ["test.t check status OK"]);
    // A column that is added in front makes rows longer. Dropping another column makes up for that.
    run(&mut one, "ALTER TABLE t ADD COLUMN f CHAR(9) DEFAULT 'in front' FIRST, ALGORITHM=INSTANT");
    let told = run(&mut one, even);
    drop((one, instance));
    let instance = Instance::open(db.clone()).unwrap();
    let mut one = session(&instance);
    merge(&mut one, &db, "id");
    assert_eq!(newest(&db).0, ROWS);
    assert_eq!(run(&mut one, even), told);
    run(&mut one, "ALTER TABLE t DROP COLUMN f, ALGORITHM=INSTANT");
    drop((one, instance));
    let instance = Instance::open(db.clone()).unwrap();
    let mut one = session(&instance);
    let told = run(&mut one, even);
    merge(&mut one, &db, "id");
    assert_eq!(newest(&db).0, ROWS * 2);
    assert_eq!(run(&mut one, even), told);
    assert_eq!(run(&mut one, "CHECK TABLE t"), ["test.t check status OK"]);
}

/// Bytes that are not a valid row stay as they are.
#[test]
fn bytes_that_are_no_row_stay() {
    let db = Database::open_in_memory(Settings::default()).unwrap();
    let instance = Instance::open(db.clone()).unwrap();
    let mut one = session(&instance);
    run(&mut one, "CREATE TABLE t (id INT PRIMARY KEY, a TEXT, b DOUBLE)");
    assert!(Newest::of(Catalog::load(&db).unwrap().table("test", "t").unwrap()).is_none());
    run(&mut one, "ALTER TABLE t DROP COLUMN a, ADD COLUMN d INT FIRST");
    let catalog = Catalog::load(&db).unwrap();
    let newest = Newest::of(catalog.table("test", "t").unwrap()).unwrap();
    let mut old = Vec::new();
    let values = [Value::Int(1), Value::Text("text".into()), Value::Double(0.5)];
    write_row(0, values.iter().map(Value::as_ref), &mut old);
    let mut out = Vec::new();
    assert!(newest.rewrite(&old, &mut out));
    assert!(!newest.rewrite(&out, &mut Vec::new()), "once");
    let mut rng = Rng::new(3);
    for _ in 0..20_000 {
        let mut bytes = old.clone();
        let at = rng.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << rng.below(8);
        bytes.truncate(rng.below(bytes.len() as u64 + 1) as usize);
        let mut out = Vec::new();
        if newest.rewrite(&bytes, &mut out) {
            assert!(!newest.rewrite(&out, &mut Vec::new()));
        }
    }
}
