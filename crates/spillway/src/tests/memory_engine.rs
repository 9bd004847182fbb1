//! The memory engine in a whole database: beside the tiered one, past the memory, over crashes.

use std::path::Path;
use std::sync::Arc;

use spillway_base::rng::Rng;
use spillway_storage::sim::SimDisk;
use spillway_storage::{Disk, OpenMode};

use crate::check::check_on;
use crate::{
    Database, Direction, EngineKind, KeyRange, Settings, Table, Transaction, TransactionOptions,
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

/// A row's value tells its key and its version.
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
/// allows, and the log is cut beside a busy tiered table.
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
    let (kept, live) =
        (metric(&db, "memory_engine_kept_bytes"), metric(&db, "memory_engine_live_bytes"));
    // What the setting leaves beside is larger than this table.
    assert!(kept < 2.0 * live + f64::from(80 << 20), "{kept} bytes are kept, {live} are alive");
    assert!(metric(&db, "log_bytes") < f64::from(12 << 20));
    let txn = db.begin(TransactionOptions::new());
    for key in (0..rows).step_by(4) {
        assert_eq!(value_of(&txn, tables[0], key), value_of(&txn, tables[1], key), "row {key}");
    }
}

/// `check` reads the record of every row, and finds each flipped bit of one.
#[test]
fn a_check_finds_every_flipped_bit_of_a_row() {
    let disk = SimDisk::new(5);
    let db = open(&disk, 64 << 20);
    let table = create(&db, "m", EngineKind::Memory);
    let rows = 2000_u32;
    let mark = |key: u32| [b"mark".as_slice(), &key.to_be_bytes(), &[7; 900]].concat();
    for part in (0..rows).collect::<Vec<_>>().chunks(50) {
        let txn = db.begin(TransactionOptions::new());
        part.iter().for_each(|key| txn.put(table, &key.to_be_bytes(), &mark(*key)).unwrap());
        txn.commit().wait().unwrap();
    }
    db.flush().unwrap();
    db.close().unwrap();
    drop(db);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let whole = check_on(&shared, Path::new("/db"), &mut |_, _| {}).unwrap();
    assert_eq!((whole.memory_rows, whole.findings.len()), (u64::from(rows), 0));
    let mut rng = Rng::new(8);
    let kept: Vec<_> = disk
        .files()
        .into_iter()
        .filter(|(path, _)| path.extension().is_some_and(|kind| kind == "kept" || kind == "index"))
        .collect();
    assert!(kept.iter().any(|(path, _)| path.extension().unwrap() == "kept"));
    for (path, len) in kept {
        let mut bytes = vec![0; len as usize];
        disk.open(&path, OpenMode::Read).unwrap().read_at(0, &mut bytes).unwrap();
        let at = bytes.windows(4).position(|window| window == b"mark").unwrap_or(20);
        let fork = disk.fork();
        let file = fork.open(&path, OpenMode::Write).unwrap();
        let at = at as u64 + rng.below(8);
        let mut byte = [0];
        file.read_at(at, &mut byte).unwrap();
        file.write_at(at, &[byte[0] ^ 1 << rng.below(8)]).unwrap();
        let shared: Arc<dyn Disk> = Arc::new(fork);
        let report = check_on(&shared, Path::new("/db"), &mut |_, _| {}).unwrap();
        assert_eq!(report.findings.len(), 1, "{} byte {at}: {report:?}", path.display());
    }
}
