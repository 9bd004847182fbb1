//! Tests that recovery restores no row in a format that the catalog no longer has.

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

/// A flush writes a row in the newest format, OPTIMIZE TABLE passes over it, and the catalog
/// forgets the earlier format. The log still has the row in the earlier format, because another
/// table keeps the log from being cut.
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
        // The second opening has none of the first one's state in memory.
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
