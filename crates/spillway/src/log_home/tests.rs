//! Tests that a database opens with its own log only (LOG-HOME-1 to LOG-HOME-3).

use std::path::Path;
use std::sync::Arc;

use spillway_storage::Disk;
use spillway_storage::sim::{Fault, SimDisk};

use crate::{Database, EngineKind, ErrorKind, Result, Settings, TransactionOptions};

fn open(disk: &SimDisk, path: &str, log: Option<&str>) -> Result<Database> {
    let settings = Settings {
        memory_bytes: 32 << 20,
        log_segment_bytes: 64 << 10,
        background_threads: false,
        log_dir: log.map(Into::into),
        ..Settings::default()
    };
    Database::open_on(Arc::new(disk.clone()), path, settings)
}

fn write(db: &Database, name: &str) {
    let txn = db.begin(TransactionOptions::new());
    txn.create_table(name, EngineKind::Tiered).unwrap();
    txn.commit().wait().unwrap();
}

fn has(db: &Database, name: &str) -> bool {
    db.begin(TransactionOptions::new()).table(name).is_ok()
}

fn refusal(opened: Result<Database>) -> String {
    let error = opened.err().expect("it is refused");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    error.to_string()
}

/// Copies the files of one folder into another.
fn copy(disk: &SimDisk, from: &str, to: &str, keep: bool) {
    disk.create_dir_all(Path::new(to)).unwrap();
    for name in disk.list(Path::new(from)).unwrap() {
        let (from, to) = (Path::new(from).join(&name), Path::new(to).join(&name));
        let file = disk.open(&from, spillway_storage::OpenMode::Read).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        file.read_at(0, &mut bytes).unwrap();
        let copied = disk.open(&to, spillway_storage::OpenMode::Create).unwrap();
        copied.write_and_sync(0, &bytes).unwrap();
        if !keep {
            disk.remove(&from).unwrap();
        }
    }
}

#[test]
fn log_home_1_a_log_elsewhere_is_used_and_never_ignored() {
    let disk = SimDisk::new(1);
    let db = open(&disk, "/db", Some("/fast/log")).unwrap();
    write(&db, "t");
    drop(db);
    assert!(disk.list(Path::new("/db/log")).unwrap().is_empty());
    for other in [None, Some("/other"), Some("/db/log")] {
        let error = refusal(open(&disk, "/db", other));
        assert!(error.contains("/fast/log"), "{error}");
    }
    let db = open(&disk, "/db", Some("/fast/log/")).unwrap();
    assert!(has(&db, "t"));
    drop(db);
    let checked =
        crate::check::check_on(&(Arc::new(disk.clone()) as _), Path::new("/db"), &mut |_, _| {});
    let checked = checked.unwrap();
    assert!(checked.log_frames > 0 && checked.findings.is_empty(), "{checked:?}");
}

#[test]
fn log_home_1_a_log_that_began_in_the_data_folder_is_not_looked_for_elsewhere() {
    let disk = SimDisk::new(1);
    drop(open(&disk, "/db", None).unwrap());
    let error = refusal(open(&disk, "/db", Some("/fast")));
    assert!(error.contains("/db/log"), "{error}");
    drop(open(&disk, "/db", Some("/db/log")).unwrap());
}

#[test]
fn log_home_1_a_log_folder_that_was_lost_is_missed() {
    let disk = SimDisk::new(1);
    let db = open(&disk, "/db", Some("/fast")).unwrap();
    write(&db, "t");
    drop(db);
    copy(&disk, "/fast", "/kept", false);
    let error = refusal(open(&disk, "/db", Some("/fast")));
    assert!(error.contains("Put it back"), "{error}");
    let checked =
        crate::check::check_on(&(Arc::new(disk.clone()) as _), Path::new("/db"), &mut |_, _| {});
    assert_eq!(checked.unwrap().findings.len(), 1);
    copy(&disk, "/kept", "/fast", false);
    assert!(has(&open(&disk, "/db", Some("/fast")).unwrap(), "t"));
}

#[test]
fn log_home_1_2_a_log_moves_and_its_old_place_is_no_more_its_log() {
    let disk = SimDisk::new(1);
    let db = open(&disk, "/db", None).unwrap();
    write(&db, "first");
    drop(db);
    // Copied: the old place becomes stale.
    copy(&disk, "/db/log", "/fast", true);
    let db = open(&disk, "/db", Some("/fast")).unwrap();
    write(&db, "second");
    drop(db);
    let error = refusal(open(&disk, "/db", None));
    assert!(error.contains("/fast"), "{error}");
    let db = open(&disk, "/db", Some("/fast")).unwrap();
    assert!(has(&db, "first") && has(&db, "second"));
    drop(db);
    // And back.
    disk.list(Path::new("/db/log")).unwrap().iter().for_each(|name| {
        disk.remove(&Path::new("/db/log").join(name)).unwrap();
    });
    copy(&disk, "/fast", "/db/log", false);
    let db = open(&disk, "/db", None).unwrap();
    assert!(has(&db, "first") && has(&db, "second"));
}

#[test]
fn log_home_3_a_log_folder_belongs_to_one_database() {
    let disk = SimDisk::new(1);
    let first = open(&disk, "/first", Some("/fast")).unwrap();
    write(&first, "t");
    assert_eq!(open(&disk, "/second", Some("/fast")).err().unwrap().kind(), ErrorKind::InUse);
    drop(first);
    let error = refusal(open(&disk, "/second", Some("/fast")));
    assert!(error.contains("another database"), "{error}");
    let second = open(&disk, "/second", Some("/fast2")).unwrap();
    write(&second, "u");
    drop(second);
    let error = refusal(open(&disk, "/second", Some("/fast")));
    assert!(error.contains("/fast2"), "{error}");
    assert!(has(&open(&disk, "/first", Some("/fast")).unwrap(), "t"));
}

/// Wherever a crash ends an opening, in a new place or in the first, the next one continues.
#[test]
fn log_home_1_a_crash_leaves_no_log_without_its_database() {
    for moved in [false, true] {
        for operation in 1.. {
            let disk = SimDisk::new(operation);
            if moved {
                let db = open(&disk, "/db", None).unwrap();
                write(&db, "t");
                drop(db);
                copy(&disk, "/db/log", "/fast", true);
                disk.sync_dir(Path::new("/fast")).unwrap();
            }
            disk.fail_operation(disk.operations() + operation, Fault::Crash);
            let opened = open(&disk, "/db", Some("/fast"));
            let over = opened.is_ok();
            drop(opened);
            if !disk.is_crashed() {
                disk.crash();
            }
            disk.restart();
            disk.heal();
            let db = open(&disk, "/db", Some("/fast"))
                .unwrap_or_else(|error| panic!("moved {moved}, operation {operation}: {error}"));
            assert_eq!(has(&db, "t"), moved);
            if over {
                break;
            }
        }
    }
}

#[test]
fn damage_is_told_with_its_file() {
    for file in ["/db/log-home", "/db/log/log-owner"] {
        let disk = SimDisk::new(1);
        drop(open(&disk, "/db", None).unwrap());
        disk.rot(Path::new(file), 9, 1);
        let error = open(&disk, "/db", None).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Corruption);
        assert!(error.to_string().contains(file), "{error}");
    }
}
