//! Tests reads that continue after their database was closed (MANAGED-3).

use spillway_base::rng::Rng;
use spillway_storage::sim::SimDisk;

use super::open;
use crate::{
    Database, Direction, EngineKind, ErrorKind, KeyRange, Result, Table, TransactionOptions,
};

const ROWS: u32 = 3000;

fn value(row: u32, version: u64) -> Vec<u8> {
    let mut value = vec![0; 2000];
    Rng::new(u64::from(row) << 32 | version).fill(&mut value);
    value
}

/// Writes all rows. If it `settles`, the engines' files have them afterwards.
fn put_all(db: &Database, table: Table, version: u64, settles: bool) {
    for first in (0..ROWS).step_by(100) {
        let txn = db.begin(TransactionOptions::new());
        for row in first..first + 100 {
            txn.put(table, &row.to_be_bytes(), &value(row, version)).unwrap();
        }
        txn.commit().wait().unwrap();
        while settles && db.run_background_job().unwrap() {}
    }
    if settles {
        db.flush().unwrap();
        db.compact().unwrap();
    }
}

/// Counts a read that found the first version of a row, or failed as it should.
fn count(outcome: Result<(u32, Vec<u8>)>, [found, failed]: &mut [u32; 2]) {
    match outcome {
        Ok((row, read)) => {
            assert!(read == value(row, 0), "row {row}");
            *found += 1;
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Closed, "{error:?}");
            *failed += 1;
        }
    }
}

/// The next opening writes other rows to the space of the old ones, also in segments of the redo
/// log that are used again. Reads that go on return the old rows, or fail because the database was
/// closed. They find no damage and no newer rows, and miss no row.
#[test]
fn managed_3_reads_after_a_close_find_old_rows_or_that_it_was_closed() {
    let (tiered, memory) = (EngineKind::Tiered, EngineKind::Memory);
    for (engine, settles) in [(tiered, true), (memory, true), (memory, false)] {
        let disk = SimDisk::new(9);
        let db = open(&disk).unwrap();
        let txn = db.begin(TransactionOptions::new());
        let table = txn.create_table("t", engine).unwrap();
        txn.commit().wait().unwrap();
        put_all(&db, table, 0, settles);
        db.close().unwrap();
        drop(db);

        let old = open(&disk).unwrap();
        let txn = old.begin(TransactionOptions::new());
        let mut scan = txn.scan(table, KeyRange::ALL, Direction::Forward).unwrap();
        assert!(scan.advance().unwrap());
        // So that the files are open.
        let mut read = Vec::new();
        for row in (0..ROWS).step_by(10) {
            assert!(txn.get(table, &row.to_be_bytes(), &mut read).unwrap());
        }
        old.close().unwrap();

        let new = open(&disk).unwrap();
        (1..4).for_each(|version| put_all(&new, table, version, true));

        let mut seen = [0; 2];
        for row in scan {
            let row = row.map(|(key, read)| (u32::from_be_bytes(key.try_into().unwrap()), read));
            let ends = row.is_err();
            count(row, &mut seen);
            if ends {
                break;
            }
        }
        for row in 0..ROWS {
            let outcome = txn.get(table, &row.to_be_bytes(), &mut read);
            count(
                outcome.map(|found| (row, if found { read.clone() } else { Vec::new() })),
                &mut seen,
            );
        }
        let rows = |txn: &crate::Transaction| super::read(txn, table).len();
        assert_eq!(rows(&new.begin(TransactionOptions::new())), ROWS as usize);
        assert!(seen[1] > 0, "{engine:?}: no read needed a file that had changed: {seen:?}");
    }
}
