//! Tests the memory engine in a database: next to the tiered engine, with more rows than memory
//! holds, and across crashes.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use spillway_base::clock::Clock;
use spillway_base::rng::Rng;
use spillway_storage::sim::SimDisk;
use spillway_storage::{Disk, OpenMode};

use crate::check::check_on;
use crate::{
    Database, Direction, Durability, EngineKind, KeyRange, LockMode, LockWait, Settings, Table,
    Transaction, TransactionOptions,
};

fn settings(memory_bytes: usize) -> Settings {
    Settings {
        memory_bytes,
        log_segment_bytes: 1 << 20,
        log_bytes_max: 4 << 20,
        log_lanes: Some(2),
        ..Settings::default()
    }
}

fn open(disk: &SimDisk, memory_bytes: usize) -> Database {
    Database::open_on(Arc::new(disk.clone()), "/db", settings(memory_bytes)).unwrap()
}

fn metric(db: &Database, name: &str) -> f64 {
    let metrics = db.metrics();
    metrics.iter().find(|metric| metric.name == name).unwrap_or_else(|| panic!("{name}")).value
}

fn create(db: &Database, name: &str, engine: EngineKind) -> Table {
    let txn = db.begin(TransactionOptions::new());
    let table = txn.create_table(name, engine).unwrap();
    txn.commit().wait().unwrap();
    table
}

fn value_of(txn: &Transaction, table: Table, key: u32) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    txn.get(table, &key.to_be_bytes(), &mut value).unwrap().then_some(value)
}

/// A row whose value contains its key and its version.
fn row(key: u32, version: u8, bytes: usize) -> Vec<u8> {
    let mut value = vec![version; bytes];
    value[..4].copy_from_slice(&key.to_be_bytes());
    value
}

/// MEMORY-2: a table of four times the memory is read and changed as any other, within the budget.
#[test]
fn a_table_of_four_times_the_memory_stays_correct() {
    const MEMORY: usize = 32 << 20;
    const ROWS: u32 = 64 << 10;
    let disk = SimDisk::new(3);
    let db = open(&disk, MEMORY);
    let table = create(&db, "t", EngineKind::Memory);
    let mut versions = vec![1_u8; ROWS as usize];
    let mut most = 0.0_f64;
    for part in (0..ROWS).collect::<Vec<_>>().chunks(256) {
        let txn = db.begin(TransactionOptions::new());
        part.iter().for_each(|key| {
            txn.put(table, &key.to_be_bytes(), &row(*key, 1, 2000)).unwrap();
        });
        txn.commit().wait().unwrap();
        most = most.max(metric(&db, "memory_used_bytes"));
    }
    assert!(metric(&db, "memory_engine_evicted_total") > f64::from(ROWS / 2));
    let mut rng = Rng::new(1);
    for step in 0..6000 {
        let key = rng.below(u64::from(ROWS)) as u32;
        let txn = db.begin(TransactionOptions::new());
        assert_eq!(value_of(&txn, table, key), Some(row(key, versions[key as usize], 2000)));
        if step % 3 == 0 {
            versions[key as usize] += 1;
            let new = row(key, versions[key as usize], 2000);
            txn.put(table, &key.to_be_bytes(), &new).unwrap();
        }
        txn.commit().wait().unwrap();
        most = most.max(metric(&db, "memory_used_bytes"));
    }
    assert!(metric(&db, "memory_engine_log_reads_total") > 1000.0);
    assert!(most < 1.1 * MEMORY as f64, "{most} bytes of {MEMORY}");
    drop(db);
    // Also after a crash, of which only a checkpoint and the log's tail are read.
    disk.crash();
    disk.restart();
    let db = open(&disk, MEMORY);
    let txn = db.begin(TransactionOptions::new());
    let mut scan = txn.scan(table, KeyRange::ALL, Direction::Forward).unwrap();
    for key in 0..ROWS {
        assert!(scan.advance().unwrap());
        assert_eq!(scan.key(), key.to_be_bytes());
        assert!(scan.value() == row(key, versions[key as usize], 2000), "row {key}");
    }
    assert!(!scan.advance().unwrap());
}

/// MEMORY-4: rows that are overwritten again and again leave no more segments than the setting
/// allows, and the log is cut while a tiered table is busy.
#[test]
fn space_stays_bounded_while_rows_are_overwritten() {
    let disk = SimDisk::new(4);
    let db = open(&disk, 64 << 20);
    let tables = [create(&db, "m", EngineKind::Memory), create(&db, "t", EngineKind::Tiered)];
    let rows = 4000_u32;
    let mut rng = Rng::new(2);
    for round in 0..80 {
        for _ in 0..20 {
            let txn = db.begin(TransactionOptions::new());
            for _ in 0..100 {
                let key = rng.below(u64::from(rows)) as u32;
                let value = row(key, round, 1000);
                txn.put(tables[0], &key.to_be_bytes(), &value).unwrap();
                if key.is_multiple_of(4) {
                    txn.put(tables[1], &key.to_be_bytes(), &value).unwrap();
                }
            }
            txn.commit().wait().unwrap();
        }
    }
    db.flush().unwrap();
    db.compact().unwrap();
    let bytes = || {
        ["memory_engine_kept_bytes", "memory_engine_live_bytes", "log_bytes"]
            .map(|name| metric(&db, name))
    };
    // With a log of 4 MiB, as much may be left beside, and segments of that size on their way.
    // Background work takes a while on a busy machine.
    let is_bounded = || {
        let [kept, live, log] = bytes();
        let is_bounded = kept < 2.0 * live + f64::from(8 << 20) && log < f64::from(12 << 20);
        if !is_bounded {
            Clock::system().sleep(Duration::from_millis(50));
        }
        is_bounded
    };
    assert!((0..600).any(|_| is_bounded()), "{:?} bytes are kept, alive and in the log", bytes());
    let txn = db.begin(TransactionOptions::new());
    for key in (0..rows).step_by(4) {
        assert_eq!(value_of(&txn, tables[0], key), value_of(&txn, tables[1], key), "row {key}");
    }
}

/// `check` reads the whole checkpoint and the record of every row, and finds each flipped bit: of
/// pages, of an index, of the manifest, and of a record in a kept segment, in a compacted segment
/// or in the redo log.
#[test]
fn a_check_finds_every_flipped_bit() {
    const ROWS: u32 = 6000;
    let disk = SimDisk::new(5);
    let db = open(&disk, 64 << 20);
    let table = create(&db, "m", EngineKind::Memory);
    let mark = |key: u32, version: u8| {
        [b"mark".as_slice(), &key.to_be_bytes(), &[version], &[7; 900]].concat()
    };
    // Each round writes fewer rows again, so that compaction has something to copy.
    let version_of = |key: u32| 1 + (key % 5) as u8;
    for version in 1..=5 {
        let keys: Vec<u32> = (0..ROWS).filter(|key| version_of(*key) >= version).collect();
        for part in keys.chunks(50) {
            let txn = db.begin(TransactionOptions::new());
            for key in part {
                txn.put(table, &key.to_be_bytes(), &mark(*key, version)).unwrap();
            }
            txn.commit().wait().unwrap();
        }
        db.flush().unwrap();
    }
    db.compact().unwrap();
    // A flipped bit in the last frame of a log reads as a torn write. Row 0 is in an earlier frame.
    for key in [0_u32, 1, 2, 3] {
        let txn = db.begin(TransactionOptions::new());
        txn.put(table, &key.to_be_bytes(), &mark(key, 9)).unwrap();
        txn.commit().wait().unwrap();
    }
    db.close().unwrap();
    drop(db);
    let check = |disk: SimDisk| {
        let shared: Arc<dyn Disk> = Arc::new(disk);
        check_on(&shared, Path::new("/db"), &mut |_, _| {}).unwrap()
    };
    let whole = check(disk.clone());
    assert_eq!((whole.memory_rows, whole.findings.len()), (u64::from(ROWS), 0));
    let (mut rng, mut kinds) = (Rng::new(8), BTreeMap::new());
    for (path, len) in disk.files() {
        let mut bytes = vec![0; len as usize];
        disk.open(&path, OpenMode::Read).unwrap().read_at(0, &mut bytes).unwrap();
        let kind = path.extension().or(path.file_name()).unwrap().to_str().unwrap();
        let places: Vec<u64> = match kind {
            "pages" | "index" | "checkpoint" => (0..8).map(|_| rng.below(len)).collect(),
            "kept" | "rows" | "plog" => {
                let newest = |key| if key == 0 { 9 } else { version_of(key) };
                // A log segment has old bytes behind its end. Only the last commit is in the log.
                let end = if kind == "plog" { 1 } else { ROWS };
                let rows = (0..end).step_by(401).map(|key| mark(key, newest(key)));
                let found = rows.filter_map(|row| {
                    Some((bytes.windows(9).position(|window| *window == row[..9])?, row.len()))
                });
                let found: Vec<_> = found.collect();
                found.iter().map(|(at, len)| *at as u64 + rng.below(*len as u64)).collect()
            }
            _ => continue,
        };
        for at in places {
            let fork = disk.fork();
            let file = fork.open(&path, OpenMode::Write).unwrap();
            let mut byte = [0];
            file.read_at(at, &mut byte).unwrap();
            file.write_at(at, &[byte[0] ^ 1 << rng.below(8)]).unwrap();
            let report = check(fork);
            assert!(!report.findings.is_empty(), "{} byte {at}: {report:?}", path.display());
            *kinds.entry(kind.to_owned()).or_insert(0) += 1;
        }
    }
    assert_eq!(kinds.len(), 6, "{kinds:?}");
}

fn put_all(db: &Database, table: Table, keys: impl Iterator<Item = u32>, version: u8) {
    let txn = db.begin(TransactionOptions::new());
    keys.for_each(|key| txn.put(table, &key.to_be_bytes(), &row(key, version, 300)).unwrap());
    txn.commit().wait().unwrap();
}

fn keys_of(db: &Database, table: Table) -> Vec<u32> {
    let txn = db.begin(TransactionOptions::new());
    let mut scan = txn.scan(table, KeyRange::ALL, Direction::Forward).unwrap();
    let mut keys = Vec::new();
    while scan.advance().unwrap() {
        let key = u32::from_be_bytes(scan.key().try_into().unwrap());
        assert_eq!(value_of(&txn, table, key).as_deref(), Some(scan.value()));
        keys.push(key);
    }
    keys
}

/// Rows whose slots come from rows that were deleted before an earlier checkpoint are found by
/// scans and by gets, after each of two checkpoints and a crash. (In another store they were
/// counted, and not found.)
#[test]
fn a_row_in_the_slot_of_a_deleted_one_is_found_after_checkpoints() {
    let disk = SimDisk::new(6);
    let mut db = open(&disk, 64 << 20);
    let table = create(&db, "m", EngineKind::Memory);
    put_all(&db, table, 0..200, 1);
    for round in 0..4_u32 {
        let begin = round * 100;
        let txn = db.begin(TransactionOptions::new());
        (begin..begin + 100).for_each(|key| txn.delete(table, &key.to_be_bytes()).unwrap());
        txn.commit().wait().unwrap();
        db.persist().unwrap();
        // So that the slots of deleted rows are reused.
        db.compact().unwrap();
        put_all(&db, table, begin + 200..begin + 300, 2);
        // Rows that were just deleted are inserted again.
        put_all(&db, table, begin..begin + 10, 3);
        db.persist().unwrap();
        if round % 2 == 0 {
            drop(db);
            disk.crash();
            disk.restart();
            db = open(&disk, 64 << 20);
        }
        let back: Vec<u32> = (0..=round).flat_map(|round| round * 100..round * 100 + 10).collect();
        let all: Vec<u32> = back.into_iter().chain(begin + 100..begin + 300).collect();
        assert_eq!(keys_of(&db, table), all, "round {round}");
    }
}

/// Rows that a deletion of all rows hides stay hidden after checkpoints and openings, also below
/// later rows. (In another store a truncated table's rows came back from its checkpoint.)
#[test]
fn rows_of_a_range_that_was_deleted_do_not_come_back() {
    let disk = SimDisk::new(7);
    let mut db = open(&disk, 64 << 20);
    let table = create(&db, "m", EngineKind::Memory);
    for round in 0..6_u32 {
        put_all(&db, table, 0..300, 1);
        if round & 1 != 0 {
            db.persist().unwrap();
        }
        let reader = db.begin(TransactionOptions::new());
        assert!(value_of(&reader, table, 299).is_some());
        let txn = db.begin(TransactionOptions::new());
        txn.delete_range(table, KeyRange::ALL).unwrap();
        txn.commit().wait().unwrap();
        if round & 2 != 0 {
            db.persist().unwrap();
        }
        put_all(&db, table, [7, 120].into_iter(), 2);
        assert!(value_of(&reader, table, 299).is_some(), "an older snapshot has it");
        drop(reader);
        if round & 4 != 0 {
            db.compact().unwrap();
        }
        db.persist().unwrap();
        drop(db);
        disk.crash();
        disk.restart();
        db = open(&disk, 64 << 20);
        assert_eq!(keys_of(&db, table), [7, 120], "round {round}");
    }
}

/// A database whose first rows are in segments that have left the log, and a table of these.
fn with_kept_segments(disk: &SimDisk) -> (Database, Table) {
    let settings = Settings { background_threads: false, ..settings(64 << 20) };
    let db = Database::open_on(Arc::new(disk.clone()), "/db", settings).unwrap();
    let table = create(&db, "m", EngineKind::Memory);
    put_all(&db, table, 1000..20_000, 0);
    for version in 0..60 {
        put_all(&db, table, 0..1000, version);
        while db.run_background_job().unwrap() {}
    }
    db.persist().unwrap();
    assert!(metric(&db, "memory_engine_kept_bytes") > f64::from(4 << 20));
    (db, table)
}

fn delete_all(db: &Database, table: Table) {
    let txn = db.begin(TransactionOptions::new());
    (0..20_000_u32).for_each(|key| txn.delete(table, &key.to_be_bytes()).unwrap());
    txn.commit().wait().unwrap();
}

/// MEMORY-4: once all rows are gone, the engine keeps few segments without a checkpoint being due.
#[test]
fn segments_without_rows_do_not_wait_for_the_log_to_fill() {
    let disk = SimDisk::new(18);
    let (db, table) = with_kept_segments(&disk);
    delete_all(&db, table);
    while db.run_background_job().unwrap() {}
    // With a log of 4 MiB, that many bytes may be left, and a quarter of them without rows.
    assert!(metric(&db, "memory_engine_kept_bytes") <= f64::from(1 << 20));
}

/// MEMORY-4: once all rows are gone, the engine keeps no segment, also without further commits.
/// (Another store kept its logs for as long as it was idle, and one never collected again after a
/// checkpoint during a read.) A full disk puts that off, and stops nothing.
#[test]
fn an_idle_database_without_rows_keeps_no_segments() {
    let disk = SimDisk::new(8);
    let (db, table) = with_kept_segments(&disk);
    let reader = db.begin(TransactionOptions::new());
    assert!(value_of(&reader, table, 1).is_some());
    delete_all(&db, table);
    db.persist().unwrap();
    assert_eq!(value_of(&reader, table, 1), Some(row(1, 59, 300)));
    drop(reader);
    let kept = metric(&db, "memory_engine_kept_bytes");
    disk.set_capacity(Some(0));
    while db.run_background_job().unwrap() {}
    db.health().unwrap();
    assert_eq!(metric(&db, "memory_engine_kept_bytes"), kept);
    assert!(kept > 0.0);
    disk.set_capacity(None);
    while db.run_background_job().unwrap() {}
    assert_eq!(metric(&db, "memory_engine_kept_bytes"), 0.0);
    assert_eq!(metric(&db, "memory_engine_rows"), 0.0);
}

/// Log compaction moves records while their rows are deleted, put again and read at older
/// snapshots: nothing comes back, nothing is lost, no read finds a file missing. (In other stores,
/// a deletion between the check and the move was undone, and readers found files missing.)
#[test]
fn rows_that_change_while_compaction_moves_them_stay_as_they_were_left() {
    const KEYS: u32 = 600;
    let disk = SimDisk::new(9);
    let settings =
        Settings { log_segment_bytes: 256 << 10, log_bytes_max: 1 << 20, ..settings(16 << 20) };
    let open = || Database::open_on(Arc::new(disk.clone()), "/db", settings.clone()).unwrap();
    let db = open();
    let table = create(&db, "m", EngineKind::Memory);
    let done = AtomicBool::new(false);
    let lefts: Vec<Vec<Option<u8>>> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2_u32)
            .map(|number| {
                let db = &db;
                scope.spawn(move || {
                    let mut rng = Rng::new(u64::from(number) + 20);
                    let mut left = vec![None; KEYS as usize];
                    for step in 0..2500_u32 {
                        let key = rng.below(u64::from(KEYS / 2)) as u32 * 2 + number;
                        let txn = db.begin(TransactionOptions::new());
                        let version = rng.chance(2, 3).then_some(step as u8);
                        match version {
                            Some(version) => txn
                                .put(table, &key.to_be_bytes(), &row(key, version, 2000))
                                .unwrap(),
                            None => txn.delete(table, &key.to_be_bytes()).unwrap(),
                        }
                        if step % 10 == 0 {
                            // So that each segment has a row that stays.
                            let key = (number + 1) * 100_000 + step;
                            txn.put(table, &key.to_be_bytes(), &row(key, 1, 2000)).unwrap();
                        }
                        txn.commit().wait().unwrap();
                        left[key as usize] = version;
                    }
                    left
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let txn = db.begin(TransactionOptions::new());
                let first: Vec<_> = (0..KEYS).map(|key| value_of(&txn, table, key)).collect();
                let again: Vec<_> = (0..KEYS).map(|key| value_of(&txn, table, key)).collect();
                assert!(first == again, "a snapshot changed");
            }
        });
        let compactor = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                db.flush().unwrap();
                db.compact().unwrap();
            }
        });
        let lefts = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
        compactor.join().unwrap();
        lefts
    });
    db.flush().unwrap();
    db.compact().unwrap();
    assert!(metric(&db, "memory_engine_compacted_bytes_total") > 0.0);
    let check = |db: &Database| {
        let txn = db.begin(TransactionOptions::new());
        for key in 0..KEYS {
            let left = lefts[key as usize % 2][key as usize];
            let expected = left.map(|version| row(key, version, 2000));
            assert_eq!(value_of(&txn, table, key), expected, "row {key}");
        }
        for key in (100_000..102_500).chain(200_000..202_500).step_by(10) {
            assert_eq!(value_of(&txn, table, key), Some(row(key, 1, 2000)), "row {key}");
        }
    };
    check(&db);
    drop(db);
    disk.crash();
    disk.restart();
    check(&open());
}

/// MEMORY-2: rows whose commits are not durable yet cannot leave memory. Row locks that find no
/// room left by them wait for the log's flush and are not refused.
#[test]
fn row_locks_find_room_beside_rows_that_are_not_durable_yet() {
    let disk = SimDisk::new(10);
    let settings = Settings { background_threads: false, ..settings(16 << 20) };
    let db = Database::open_on(Arc::new(disk.clone()), "/db", settings).unwrap();
    let table = create(&db, "m", EngineKind::Memory);
    let used = || metric(&db, "memory_used_bytes");
    let mut keys = 0_u32;
    while used() < 0.95 * f64::from(16 << 20) {
        let options = TransactionOptions::new().durability(Durability::Relaxed);
        let txn = db.begin(options);
        // The batch fits into the queue, which charges no memory for it.
        for _ in 0..4 {
            txn.put(table, &keys.to_be_bytes(), &row(keys, 1, 3000)).unwrap();
            keys += 1;
        }
        txn.commit().wait().unwrap();
    }
    let txn = db.begin(TransactionOptions::new());
    // Their memory is more than what the rows leave.
    let mut rng = Rng::new(4);
    for _ in 0..10_000 {
        let key = [rng.next_u64().to_be_bytes(); 12].concat();
        txn.lock(table, &key, LockMode::Exclusive, LockWait::Wait).unwrap();
    }
    assert!(metric(&db, "memory_engine_evicted_total") > 0.0);
}

/// The oldest reader is named with its age, and is gone from the figures with its transaction.
#[test]
fn the_oldest_reader_has_an_age() {
    let disk = SimDisk::new(11);
    let db = Database::open_on(Arc::new(disk), "/db", settings(16 << 20)).unwrap();
    let table = create(&db, "m", EngineKind::Memory);
    put_all(&db, table, 0..10, 0);
    assert_eq!(metric(&db, "oldest_snapshot_seconds"), 0.0);
    let first = db.begin(TransactionOptions::new());
    assert!(value_of(&first, table, 1).is_some());
    put_all(&db, table, 0..10, 1);
    let second = db.begin(TransactionOptions::new());
    assert!(value_of(&second, table, 1).is_some());
    let seconds = metric(&db, "oldest_snapshot_seconds");
    let readers = db.readers();
    assert_eq!(readers.len(), 2);
    assert_eq!(readers[0].transaction, first.id());
    assert_eq!(readers[1].transaction, second.id());
    assert!(readers[0].csn < readers[1].csn);
    assert!(0.0 < seconds && seconds <= readers[0].age.as_secs_f64());
    drop(first);
    assert_eq!(db.readers().len(), 1);
    drop(second);
    assert_eq!(metric(&db, "oldest_snapshot_seconds"), 0.0);
}
