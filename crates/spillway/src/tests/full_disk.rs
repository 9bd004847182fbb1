//! Tests that a commit which frees space makes room on a full disk, even if the machine crashes
//! before the space is free.

use std::ops::Range;

use spillway_base::managed::ManagedEngine;
use spillway_tiered::JobOutcome;

use super::*;

const VALUE: [u8; 3000] = [7; 3000];
const ENGINES: [EngineKind; 2] = [EngineKind::Tiered, EngineKind::Memory];

fn put(db: &Database, table: Table, number: u64) -> Result<()> {
    put_value(db, table, number, &VALUE)
}

fn put_value(db: &Database, table: Table, number: u64, value: &[u8]) -> Result<()> {
    let txn = db.begin(TransactionOptions::new());
    txn.put(table, &number.to_be_bytes(), value)?;
    txn.commit().wait().map(drop)
}

/// Does all background work that can be done. Log care comes from time to time, as in production:
/// it asks for space, and cuts the log. Each time it gives a part of the reserve.
fn work(db: &Database) {
    for _ in 0..10 {
        let _ = db.0.manager.truncate_log();
        for _ in 0..10_000 {
            if !matches!(db.0.tiered.run_background_job(), Ok(JobOutcome::Worked)) {
                break;
            }
        }
        for _ in 0..100 {
            if !matches!(db.0.memory.run_background_job(), Ok(true)) {
                break;
            }
        }
    }
}

/// A disk that one table of an engine has filled, with a second table that is empty, and the number
/// of rows in the first.
fn filled(seed: u64, engine: EngineKind) -> (SimDisk, Database, [Table; 2], u64) {
    let disk = SimDisk::new(seed);
    let db = open(&disk).unwrap();
    let more = (1200 << 10) + (seed << 12);
    fill(disk, db, engine, |disk| disk.set_capacity(Some(disk.used() + more)))
}

fn fill(
    disk: SimDisk,
    db: Database,
    engine: EngineKind,
    limit: impl FnOnce(&SimDisk),
) -> (SimDisk, Database, [Table; 2], u64) {
    let filled = fill_with(disk, db, engine, &VALUE, limit);
    assert!(filled.3 > 100, "{}", filled.3);
    filled
}

fn fill_with(
    disk: SimDisk,
    db: Database,
    engine: EngineKind,
    value: &[u8],
    limit: impl FnOnce(&SimDisk),
) -> (SimDisk, Database, [Table; 2], u64) {
    let txn = db.begin(TransactionOptions::new());
    let large = txn.create_table("large", engine).unwrap();
    let other = txn.create_table("other", EngineKind::Tiered).unwrap();
    txn.commit().wait().unwrap();
    limit(&disk);
    let mut rows = 0;
    let mut refusals = 0;
    while refusals < 3 {
        match put_value(&db, large, rows, value) {
            Ok(()) => rows += 1,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
                refusals += 1;
                let _ = db.flush();
                work(&db);
            }
        }
    }
    (disk, db, [large, other], rows)
}

fn empty(db: &Database, large: Table, drops: bool) -> Result<()> {
    let txn = db.begin(TransactionOptions::new());
    if drops {
        txn.drop_table("large")?;
    } else {
        txn.delete_range(large, KeyRange::ALL).map(drop)?;
    }
    txn.commit().wait().map(drop)
}

/// Empties the disk and continues to write. Returns the number of acknowledged rows in the other
/// table.
fn go_on(db: &Database, large: Table, drops: bool) -> Result<u64> {
    let other = db.begin(TransactionOptions::new()).table("other")?;
    let is_there = db.begin(TransactionOptions::new()).table("large").is_ok();
    if is_there {
        work(db);
        empty(db, large, drops).map_err(|error| error.context("while it is emptied"))?;
    }
    work(db);
    let mut rows = 0;
    for number in 0..20 {
        put(db, other, number)?;
        rows += 1;
    }
    Ok(rows)
}

#[test]
fn a_commit_that_frees_space_empties_a_full_disk() {
    let cases = (0..6).flat_map(|seed| [(seed, false), (seed, true)]);
    let cases = cases.flat_map(|case| ENGINES.map(|engine| (case, engine)));
    for ((seed, drops), engine) in cases {
        let (disk, db, [large, _], _) = filled(seed, engine);
        let rows = go_on(&db, large, drops);
        assert!(matches!(rows, Ok(20)), "{engine:?}, seed {seed}, drops {drops}: {rows:?}");
        drop(db);
        disk.kill();
        let db = open(&disk).unwrap();
        let other = db.begin(TransactionOptions::new()).table("other").unwrap();
        assert_eq!(read(&db.begin(TransactionOptions::new()), other).len(), 20);
    }
}

/// The commit before it and the drop itself find a little room, so no commit meets a full disk.
#[test]
fn a_drop_that_finds_room_returns_the_space_of_a_nearly_full_disk() {
    for engine in ENGINES {
        let (disk, db, [large, other], _) = filled(1, engine);
        disk.set_capacity(None);
        db.flush().unwrap();
        work(&db);
        disk.set_capacity(Some(disk.used() + (40 << 10)));
        put(&db, other, 1000).unwrap();
        empty(&db, large, true).unwrap();
        let before = disk.used();
        work(&db);
        let freed = before - disk.used();
        assert!(freed > 900 << 10, "{engine:?}: {freed}");
    }
}

#[test]
fn a_crash_while_a_full_disk_is_emptied_loses_nothing_and_keeps_nothing_from_going_on() {
    let cases = ENGINES.into_iter().flat_map(|engine| [(engine, false), (engine, true)]);
    for (engine, drops) in cases {
        let (disk, db, [large, _], rows) = filled(3, engine);
        let before = disk.operations();
        go_on(&db, large, drops).unwrap();
        let after = disk.operations();
        for at in (before + 1..=after).step_by(5) {
            let (disk, db, [large, other], _) = filled(3, engine);
            assert_eq!(disk.operations(), before);
            disk.fail_operation(at, Fault::Crash);
            let emptied = empty(&db, large, drops).is_ok();
            work(&db);
            let put = (0..20).take_while(|&number| put(&db, other, number).is_ok()).count();
            drop(db);
            disk.crash();
            disk.restart();
            let db = open(&disk).unwrap();
            let txn = db.begin(TransactionOptions::new());
            let left = match txn.table("large") {
                Ok(large) => read(&txn, large).len() as u64,
                Err(_) => 0,
            };
            assert!(left == 0 || left == rows && !emptied, "{left} of {rows} at {at}");
            let there = read(&txn, other).len();
            assert!(there == put || there == put + 1, "{there} of {put} at {at}");
            drop(txn);
            let gone = go_on(&db, large, drops);
            assert!(matches!(gone, Ok(20)), "{engine:?}, drops {drops}, at {at}: {gone:?}");
        }
    }
}

/// Rows that are deleted one by one, by their number and the number of all rows, with the size of
/// slots in KiB. The memory engine returns the space of log segments without live rows.
type Deleted = (&'static str, EngineKind, usize, fn(u64, u64) -> bool);
const DELETED: [Deleted; 6] = [
    ("all", EngineKind::Tiered, 64, |_, _| true),
    ("all", EngineKind::Memory, 64, |_, _| true),
    ("every other", EngineKind::Tiered, 64, |row, _| row % 2 == 0),
    ("every other", EngineKind::Tiered, 256, |row, _| row % 2 == 0),
    ("the upper half", EngineKind::Tiered, 64, |row, all| row >= all / 2),
    ("all but every tenth", EngineKind::Tiered, 64, |row, _| row % 10 != 0),
];

/// A database with memtables and log segments much smaller than its disk. So few deletions as here
/// make no compaction due while there is space.
fn open_larger(disk: &SimDisk, slot_kib: usize) -> Result<Database> {
    let settings = Settings {
        log_segment_bytes: 1 << 20,
        log_lanes: Some(1),
        slot_bytes: slot_kib << 10,
        deletions_min: 1 << 20,
        ..small()
    };
    Database::open_on(Arc::new(disk.clone()), "/db", settings)
}

fn delete(db: &Database, table: Table, number: u64) -> Result<()> {
    let txn = db.begin(TransactionOptions::new());
    txn.delete(table, &number.to_be_bytes())?;
    txn.commit().wait().map(drop)
}

/// When commits are refused, the memtables and a checkpoint of the memory engine still fit on the
/// disk, without the reserve (RESERVE-7).
#[test]
fn engines_can_write_their_files_once_commits_are_refused() {
    let (tiered, memory) = (EngineKind::Tiered, EngineKind::Memory);
    for (slot_kib, engines) in [(64, [tiered; 2]), (256, [tiered; 2]), (64, [memory; 2])]
        .into_iter()
        .chain([64, 256].map(|slot_kib| (slot_kib, [tiered, memory])))
    {
        let disk = SimDisk::new(4);
        disk.set_capacity(Some(14 << 20));
        let db = open_larger(&disk, slot_kib).unwrap();
        let txn = db.begin(TransactionOptions::new());
        let tables = [("one", engines[0]), ("other", engines[1])];
        let tables = tables.map(|(name, engine)| txn.create_table(name, engine).unwrap());
        txn.commit().wait().unwrap();
        // Short rows, so that the memory engine's checkpoint is as large as it can be beside them.
        let put = |row: u64| put_value(&db, tables[row as usize % 2], row, &[7; 100]);
        let refused = (0..).find_map(|row| {
            if row % 1000 == 0 {
                let _ = db.0.memory.run_background_job();
            }
            put(row).err()
        });
        assert_eq!(refused.unwrap().kind(), ErrorKind::DiskFull);
        db.flush().unwrap_or_else(|error| panic!("{slot_kib}, {engines:?}: {error}"));
        let persisted = db.0.memory.persisted();
        assert_eq!(persisted, db.0.manager.stable(), "{slot_kib}, {engines:?}");
    }
}

/// After single rows were deleted on a full disk, nearly as many can be inserted again (PICKER-7).
#[test]
fn single_rows_that_are_deleted_return_the_space_of_a_full_disk() {
    for (name, engine, slot_kib, is_deleted) in DELETED {
        let disk = SimDisk::new(2);
        disk.set_capacity(Some(14 << 20));
        let db = open_larger(&disk, slot_kib).unwrap();
        let (disk, db, [large, other], rows) = fill(disk, db, engine, |_| ());
        let deleted: Vec<u64> = (0..rows).filter(|row| is_deleted(*row, rows)).collect();
        for (count, row) in deleted.iter().enumerate() {
            delete(&db, large, *row).unwrap_or_else(|error| panic!("{name}, {engine:?}: {error}"));
            if count % 200 == 199 {
                work(&db);
            }
        }
        work(&db);
        let wanted = deleted.len() as u64 * 3 / 4;
        // With background threads, a commit waits some seconds for space.
        let put = |number: u64| {
            (0..4).any(|_| put(&db, other, number).inspect_err(|_| work(&db)).is_ok())
        };
        let put = (0..wanted).take_while(|number| put(*number)).count() as u64;
        assert_eq!(put, wanted, "{name} of {rows}, {engine:?}, {slot_kib}");
        drop(db);
        disk.kill();
        let db = open_larger(&disk, slot_kib).unwrap();
        let txn = db.begin(TransactionOptions::new());
        let left = rows - deleted.len() as u64;
        assert_eq!(read(&txn, txn.table("large").unwrap()).len() as u64, left, "{name}");
        assert_eq!(read(&txn, txn.table("other").unwrap()).len() as u64, wanted, "{name}");
    }
}

/// A full disk with a memory table of large rows.
fn filled_with_large_rows(bytes: usize) -> (SimDisk, Database, Table, u64) {
    let disk = SimDisk::new(5);
    disk.set_capacity(Some(4 << 20));
    let db = open_larger(&disk, 64).unwrap();
    let (disk, db, [large, _], rows) =
        fill_with(disk, db, EngineKind::Memory, &vec![7; bytes], |_| ());
    (disk, db, large, rows)
}

/// Deletes every other row until a deletion fails. Returns the deleted rows, and the one whose
/// deletion failed.
fn delete_odd(db: &Database, large: Table, rows: u64) -> (Vec<u64>, Option<u64>) {
    let mut deleted = Vec::new();
    for row in (1..rows).step_by(2) {
        if delete(db, large, row).is_err() {
            return (deleted, Some(row));
        }
        deleted.push(row);
        if deleted.len().is_multiple_of(8) {
            work(db);
        }
    }
    work(db);
    (deleted, None)
}

/// Inserts rows with these numbers while they find room within a few rounds of work.
fn put_while_there_is_room(db: &Database, table: Table, bytes: usize, rows: Range<u64>) -> u64 {
    let value = vec![8; bytes];
    let put = |number: &u64| {
        let row = 1_000_000 + number;
        (0..4).any(|_| put_value(db, table, row, &value).inspect_err(|_| work(db)).is_ok())
    };
    rows.take_while(put).count() as u64
}

/// HOLE-1: rows of a memory table that are deleted here and there return the pages that lie between
/// the others. The smaller the rows, the more of them share a page with a row that stays.
#[test]
fn scattered_rows_of_a_memory_table_return_the_pages_between_the_others() {
    for (bytes, percent) in [(1500, 60), (3000, 75), (8 << 10, 75), (28 << 10, 75), (100 << 10, 80)]
    {
        let disk = SimDisk::new(6);
        disk.set_capacity(Some(14 << 20));
        let db = open_larger(&disk, 64).unwrap();
        let (disk, db, [large, _], rows) =
            fill_with(disk, db, EngineKind::Memory, &vec![7; bytes], |_| ());
        let (deleted, refused) = delete_odd(&db, large, rows);
        assert_eq!(refused, None, "{bytes}: {} of {rows}", deleted.len());
        let wanted = deleted.len() as u64 * percent / 100;
        let put = put_while_there_is_room(&db, large, bytes, 0..wanted);
        assert_eq!(put, wanted, "{bytes}: of {rows} rows {} were deleted", deleted.len());
        drop(db);
        disk.kill();
        let db = open_larger(&disk, 64).unwrap();
        let rows_left = read(&db.begin(TransactionOptions::new()), large);
        assert_eq!(rows_left.len() as u64, rows.div_ceil(2) + put, "{bytes}");
        for (key, value) in rows_left {
            let is_new = u64::from_be_bytes(key.try_into().unwrap()) >= 1_000_000;
            assert!(value == vec![if is_new { 8 } else { 7 }; bytes], "{bytes}");
        }
    }
}

#[test]
fn a_crash_while_scattered_rows_are_deleted_on_a_full_disk_loses_nothing() {
    const BYTES: usize = 20 << 10;
    let (disk, db, large, rows) = filled_with_large_rows(BYTES);
    let before = disk.operations();
    let (deleted, refused) = delete_odd(&db, large, rows);
    assert_eq!((deleted.len() as u64, refused), (rows / 2, None));
    let most = rows / 4;
    assert_eq!(put_while_there_is_room(&db, large, BYTES, 0..most), most, "{rows}");
    let after = disk.operations();
    for at in (before + 1..=after).step_by(((after - before) / 60).max(1) as usize) {
        let (disk, db, large, rows) = filled_with_large_rows(BYTES);
        assert_eq!(disk.operations(), before);
        disk.fail_operation(at, Fault::Crash);
        let (deleted, refused) = delete_odd(&db, large, rows);
        let put = match refused {
            None => put_while_there_is_room(&db, large, BYTES, 0..most),
            Some(_) => 0,
        };
        drop(db);
        disk.crash();
        disk.restart();
        let db = open_larger(&disk, 64).unwrap();
        let mut old = vec![0; rows as usize];
        let mut new = 0;
        for (key, value) in read(&db.begin(TransactionOptions::new()), large) {
            let row = u64::from_be_bytes(key.try_into().unwrap());
            match old.get_mut(row as usize) {
                Some(count) => *count += u64::from(value == vec![7; BYTES]),
                None => new += u64::from(value == vec![8; BYTES]),
            }
        }
        for (count, row) in old.iter().zip(0..) {
            let wanted = u64::from(!deleted.contains(&row));
            assert!(*count == wanted || refused == Some(row), "row {row} at {at}: {count}");
        }
        assert!(new == put || new == put + 1, "{new} of {put} at {at}");
        // The rest goes on.
        let (_, refused) = delete_odd(&db, large, rows);
        assert_eq!(refused, None, "at {at}");
        let mut put = new + put_while_there_is_room(&db, large, BYTES, new..most);
        if put < most {
            // Rows that died before the disk was full are found once another one is deleted.
            delete(&db, large, 0).unwrap();
            work(&db);
            put += put_while_there_is_room(&db, large, BYTES, put..most);
        }
        assert_eq!(put, most, "at {at}");
    }
}
