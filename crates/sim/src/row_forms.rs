//! Tests rows that a crash recovers from the log in the form of an earlier version of their table.

use spillway::Database;

use crate::client::ask;
use crate::{machine, open};

fn memtables_most(db: &Database) -> usize {
    let tables = db.inspect().tables;
    let of = |table: &spillway::TableInspection| {
        table.subtables.iter().map(|part| part.memtables.len()).sum()
    };
    tables.iter().map(of).max().unwrap_or(0)
}

/// A flush writes a row in the newest form, OPTIMIZE TABLE passes over it, and nobody knows the
/// earlier form any more; but another table has the log kept, which has the row as it was.
#[test]
fn no_row_comes_back_in_a_form_that_is_forgotten() {
    let disk = machine(1, false);
    let (db, mut session) = open(&disk).unwrap();
    let mut tell = |text: &str| ask(&mut session, text).unwrap();
    tell("CREATE TABLE other (id INT PRIMARY KEY)");
    tell("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(1000), w INT)");
    tell("INSERT INTO other VALUES (1)");
    let mut rows = 0;
    while memtables_most(&db) < 2 {
        tell(&format!("INSERT INTO t VALUES ({rows}, REPEAT('x', 900), 7)"));
        rows += 1;
    }
    tell("ALTER TABLE t DROP COLUMN w, ALGORITHM=INSTANT");
    while db.run_background_job().unwrap() {}
    tell("OPTIMIZE TABLE t");
    drop(session);
    disk.crash();
    drop(db);
    for _ in 0..2 {
        // The second opening forgets what the first may have kept.
        disk.restart();
        let (db, mut session) = open(&disk).unwrap();
        let mut tell = |text: &str| ask(&mut session, text).unwrap();
        let sum = tell("SELECT COUNT(*), SUM(LENGTH(v)) FROM t");
        assert_eq!(sum, [format!("{rows} {} ", 900 * rows)]);
        db.compact().unwrap();
        let last = tell(&format!("SELECT LENGTH(v) FROM t WHERE id = {}", rows - 1));
        assert_eq!(last, ["900 "]);
        drop(session);
        disk.crash();
    }
}
