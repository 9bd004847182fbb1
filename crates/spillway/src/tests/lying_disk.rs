//! A device that reports syncs as done, and loses at a crash what they should have made durable.

use spillway_storage::sim::SyncFault;

use super::*;

const VALUE: [u8; 3000] = [7; 3000];
const ROWS: u64 = 80;

fn put(db: &Database, table: Table, number: u64) -> Result<()> {
    let txn = db.begin(TransactionOptions::new());
    txn.put(table, &number.to_be_bytes(), &VALUE)?;
    txn.commit().wait().map(drop)
}

/// The numbers of the rows.
fn numbers(disk: &SimDisk) -> Result<Vec<u64>> {
    let db = open(disk)?;
    let txn = db.begin(TransactionOptions::new());
    let rows = txn.scan(txn.table("t")?, KeyRange::ALL, Direction::Forward)?;
    rows.map(|row| {
        let (key, value) = row?;
        assert!(value == VALUE, "a wrong value");
        Ok(u64::from_be_bytes(key.try_into().unwrap()))
    })
    .collect()
}

/// The log is cut because the engine's files have its commits, and then the device loses what these
/// files recorded. The opening sees that by the note of the cut (E6).
#[test]
fn an_opening_finds_that_the_files_have_lost_what_the_log_was_cut_for() {
    for engine in [EngineKind::Tiered, EngineKind::Memory] {
        let mut damaged = 0;
        for seed in 0..60 {
            let disk = SimDisk::new(seed);
            let db = open(&disk).unwrap();
            let txn = db.begin(TransactionOptions::new());
            let table = txn.create_table("t", engine).unwrap();
            txn.commit().wait().unwrap();
            (0..ROWS).for_each(|number| put(&db, table, number).unwrap());
            disk.disturb_syncs(SyncFault::Lie, 1);
            db.persist().unwrap();
            disk.calm_syncs();
            db.0.manager.truncate_log().unwrap();
            put(&db, table, ROWS).unwrap();
            disk.crash();
            drop(db);
            disk.restart();
            match numbers(&disk) {
                Ok(found) => assert!(found.iter().copied().eq(0..=ROWS), "{engine:?} {seed}"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corruption, "seed {seed}: {error}");
                    damaged += 1;
                }
            }
        }
        assert!(damaged > 0, "{engine:?}");
    }
}
