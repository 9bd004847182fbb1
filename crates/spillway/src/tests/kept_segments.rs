//! Tests openings of a database that has lost a segment with rows of the memory engine (LOG-READ-8,
//! SEGMENT-5), or has segments that no checkpoint names.

use std::path::PathBuf;

use spillway_memory::SegmentHome;
use spillway_storage::OpenMode;
use spillway_storage::plog::kept_file_name;

use super::*;

const ROWS: u32 = 120;
/// Rows with this number modulo 10 are deleted while a reader still sees them.
const DELETED: u32 = 3;

fn open_with(disk: &SimDisk, background_threads: bool) -> Database {
    let settings = Settings {
        log_segment_bytes: 16 << 10,
        log_bytes_max: 32 << 10,
        log_lanes: Some(2),
        background_threads,
        ..small()
    };
    Database::open_on(Arc::new(disk.clone()), "/db", settings).unwrap()
}

fn value(key: u32, version: u8) -> Vec<u8> {
    [&key.to_be_bytes()[..], &[version; 900]].concat()
}

fn put(db: &Database, table: Table, keys: impl Iterator<Item = u32>, version: u8) {
    for key in keys {
        let txn = db.begin(TransactionOptions::new());
        txn.put(table, &key.to_be_bytes(), &value(key, version)).unwrap();
        txn.commit().wait().unwrap();
    }
}

/// The files of kept segments.
fn kept(disk: &SimDisk) -> Vec<PathBuf> {
    let files = disk.files().into_iter().map(|(path, _)| path);
    files.filter(|path| path.extension().is_some_and(|kind| kind == "kept")).collect()
}

/// A closed database with a table of the memory engine, whose rows are in kept segments. The last
/// checkpoint also has deletions, because a reader did not see them.
fn filled() -> (SimDisk, Table) {
    let disk = SimDisk::new(1);
    let db = open_with(&disk, false);
    let txn = db.begin(TransactionOptions::new());
    let table = txn.create_table("m", EngineKind::Memory).unwrap();
    txn.commit().wait().unwrap();
    put(&db, table, 0..ROWS / 2, 1);
    let reader = db.begin(TransactionOptions::new());
    assert!(reader.get(table, &0_u32.to_be_bytes(), &mut Vec::new()).unwrap());
    for key in (DELETED..ROWS / 2).step_by(10) {
        let txn = db.begin(TransactionOptions::new());
        txn.delete(table, &key.to_be_bytes()).unwrap();
        txn.commit().wait().unwrap();
    }
    put(&db, table, ROWS / 2..ROWS, 1);
    db.flush().unwrap();
    db.close().unwrap();
    assert!(kept(&disk).len() > 4, "{:?}", disk.files());
    (disk, table)
}

fn is_deleted(key: u32) -> bool {
    key < ROWS / 2 && key % 10 == DELETED
}

/// Reads every row. Returns the keys of the lost ones. Each failure names the segment.
fn lost(db: &Database, table: Table, named: &str, version_of: impl Fn(u32) -> u8) -> Vec<u32> {
    let txn = db.begin(TransactionOptions::new());
    let mut lost = Vec::new();
    for key in 0..ROWS {
        let mut found = Vec::new();
        match txn.get(table, &key.to_be_bytes(), &mut found) {
            Ok(there) => {
                assert_eq!(there, !is_deleted(key) || version_of(key) > 1, "{key}");
                assert!(!there || found == value(key, version_of(key)), "{key}");
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                assert!(error.to_string().contains(named), "{error}");
                lost.push(key);
            }
        }
    }
    lost
}

/// The words by which errors name a kept segment: "segment 3 of lane 1".
fn name_of(path: &Path) -> String {
    let (lane, segment) = path.file_stem().unwrap().to_str().unwrap().split_once('-').unwrap();
    let number = |text: &str| u64::from_str_radix(text, 16).unwrap();
    format!("segment {} of lane {}", number(segment), number(lane))
}

fn scan_fails(db: &Database, table: Table) -> bool {
    let txn = db.begin(TransactionOptions::new());
    let mut scan = txn.scan(table, KeyRange::ALL, Direction::Forward).unwrap();
    loop {
        match scan.advance() {
            Ok(true) => {}
            Ok(false) => return false,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                return true;
            }
        }
    }
}

#[test]
fn a_database_opens_without_a_kept_segment_and_reads_of_its_rows_report_it() {
    let (whole, table) = filled();
    let (mut lost_rows, mut lost_deletions) = (0, 0);
    for (number, path) in kept(&whole).into_iter().enumerate() {
        let disk = whole.fork();
        disk.remove(&path).unwrap();
        disk.sync_dir(path.parent().unwrap()).unwrap();
        let named = name_of(&path);
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let findings = check::check_on(&shared, Path::new("/db"), &mut |_, _| {}).unwrap().findings;
        assert!(findings.iter().all(|error| error.to_string().contains(&named)), "{findings:?}");
        let db = open_with(&disk, number % 2 == 0);
        while db.run_background_job().unwrap() {}
        let lost_now = lost(&db, table, &named, |_| 1);
        assert_eq!(findings.len(), lost_now.len(), "{findings:?}, {lost_now:?}");
        assert_eq!(scan_fails(&db, table), !lost_now.is_empty());
        lost_deletions += lost_now.iter().filter(|key| is_deleted(**key)).count();
        lost_rows += lost_now.len();
        assert!(lost_now.len() < ROWS as usize / 2);
        let segments = db.inspect_memory().segments;
        let missing = segments.iter().filter(|segment| segment.home == SegmentHome::Missing);
        assert_eq!(missing.count(), usize::from(!lost_now.is_empty()));
        // Rows that are written again are there. The engine writes checkpoints, hands segments over
        // and compacts them, beside the lost one. Each round leaves a few rows to its segments.
        let rounds = |key: u32| if key.is_multiple_of(2) { key / 2 % 8 + 2 } else { 1 };
        for round in 2..10 {
            put(&db, table, (0..ROWS).filter(|key| rounds(*key) >= round), round as u8);
            db.flush().unwrap();
        }
        db.compact().unwrap();
        let metrics = db.metrics();
        let compacted =
            metrics.iter().find(|metric| metric.name == "memory_engine_compacted_bytes_total");
        assert!(compacted.unwrap().value > 0.0);
        db.health().unwrap();
        db.close().unwrap();
        let db = open_with(&disk, number % 2 == 1);
        while db.run_background_job().unwrap() {}
        let rest: Vec<u32> = lost_now.into_iter().filter(|key| rounds(*key) == 1).collect();
        assert_eq!(lost(&db, table, &named, |key| rounds(key) as u8), rest);
        assert_eq!(scan_fails(&db, table), !rest.is_empty());
    }
    assert!(lost_rows > ROWS as usize / 2 && lost_deletions > 0, "{lost_rows}, {lost_deletions}");
}

/// A crash may leave files that no checkpoint names.
#[test]
fn an_opening_removes_segments_that_nothing_names_and_no_others() {
    let (whole, table) = filled();
    let before = kept(&whole);
    for background_threads in [false, true] {
        let disk = whole.fork();
        let len = disk.open(&before[0], OpenMode::Read).unwrap().len().unwrap();
        let mut bytes = vec![0; len as usize];
        disk.open(&before[0], OpenMode::Read).unwrap().read_at(0, &mut bytes).unwrap();
        let log = before[0].parent().unwrap();
        let orphans = [
            log.join(kept_file_name(0, 0)),
            log.join(kept_file_name(5, 1)),
            PathBuf::from("/db/memory/0000000000ffffff.rows"),
        ];
        for path in &orphans {
            disk.open(path, OpenMode::Create).unwrap().write_and_sync(0, &bytes).unwrap();
        }
        let db = open_with(&disk, background_threads);
        if !background_threads {
            while db.run_background_job().unwrap() {}
        }
        assert!(orphans.iter().all(|path| !disk.exists(path).unwrap()), "{:?}", disk.files());
        assert!(before.iter().all(|path| disk.exists(path).unwrap()), "{:?}", disk.files());
        assert!(lost(&db, table, "none", |_| 1).is_empty());
    }
}
