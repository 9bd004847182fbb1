use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use spillway_base::rng::Rng;
use spillway_base::thread::together;
use spillway_storage::Disk;
use spillway_storage::sim::{Fault, SimDisk};

use super::*;
use crate::check::check_on;
use crate::{
    Database, Direction, EngineKind, ErrorKind, KeyRange, Result, Settings, Table, Transaction,
    TransactionOptions,
};

fn small() -> Settings {
    Settings {
        memory_bytes: 16 << 20,
        log_segment_bytes: 64 << 10,
        log_lanes: Some(3),
        background_threads: false,
        slot_bytes: 16 << 10,
        ..Settings::default()
    }
}

fn open(disk: &SimDisk, path: &str) -> Database {
    Database::open_on(Arc::new(disk.clone()), path, small()).unwrap()
}

pub(super) fn repository(disk: &SimDisk) -> Result<Repository> {
    Repository::open_on(Arc::new(disk.clone()), Path::new("/backups"), true)
}

pub(super) fn back_up(db: &Database, repository: &Repository) -> Result<Backup> {
    db.backup(repository, &BackupOptions::new(), &mut |_, _| Ok(()))
}

fn restore(repository: &Repository, number: Option<u64>, disk: &SimDisk) -> Result<Backup> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    repository.restore_on(number, &disk, Path::new("/restored"), &mut |_, _| Ok(()))
}

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

fn rows(txn: &Transaction, table: Table) -> Rows {
    txn.scan(table, KeyRange::ALL, Direction::Forward).unwrap().map(Result::unwrap).collect()
}

/// All tables of a database and their rows.
fn contents(db: &Database) -> BTreeMap<String, Rows> {
    let txn = db.begin(TransactionOptions::new().read_only(true));
    let names = txn.table_names().unwrap();
    names
        .into_iter()
        .map(|name| {
            let rows = rows(&txn, txn.table(&name).unwrap());
            (name, rows)
        })
        .collect()
}

/// A database, and its contents after each commit.
struct Modelled {
    db: Database,
    rng: Rng,
    states: Vec<BTreeMap<String, Rows>>,
}

const COUNT: &str = "count";
const NAMES: [&str; 3] = ["a", "b", "c"];

impl Modelled {
    fn new(disk: &SimDisk, seed: u64) -> Modelled {
        let db = open(disk, "/db");
        let txn = db.begin(TransactionOptions::new());
        txn.create_table(COUNT, EngineKind::Tiered).unwrap();
        txn.commit().wait().unwrap();
        let first = BTreeMap::from([(COUNT.to_owned(), Rows::new())]);
        Modelled { db, rng: Rng::new(seed), states: vec![first] }
    }

    /// The last commit of the model, all of which are acknowledged.
    fn last(&self) -> usize {
        self.states.len() - 1
    }

    /// One commit: inserts, changes and deletes rows, and sometimes creates or drops a table.
    fn commit(&mut self) {
        let mut state = self.states[self.last()].clone();
        let txn = self.db.begin(TransactionOptions::new());
        let name = NAMES[self.rng.below(3) as usize];
        match state.contains_key(name) {
            true if self.rng.chance(1, 60) => {
                txn.drop_table(name).unwrap();
                state.remove(name);
            }
            true => {
                let table = txn.table(name).unwrap();
                let rows = state.get_mut(name).unwrap();
                for _ in 0..1 + self.rng.below(20) {
                    let key = (self.rng.below(400) as u16).to_be_bytes().to_vec();
                    if self.rng.chance(1, 5) {
                        txn.delete(table, &key).unwrap();
                        rows.remove(&key);
                    } else {
                        let value = vec![self.rng.next_u64() as u8; self.rng.below(300) as usize];
                        txn.put(table, &key, &value).unwrap();
                        rows.insert(key, value);
                    }
                }
            }
            false => {
                let engine = EngineKind::ALL[self.rng.below(2) as usize];
                txn.create_table(name, engine).unwrap();
                state.insert(name.to_owned(), Rows::new());
            }
        }
        let number = (self.states.len() as u64).to_be_bytes();
        txn.put(txn.table(COUNT).unwrap(), b"n", &number).unwrap();
        state.get_mut(COUNT).unwrap().insert(b"n".to_vec(), number.to_vec());
        txn.commit().wait().unwrap();
        self.states.push(state);
    }

    fn work(&mut self) {
        (0..self.rng.below(12)).for_each(|_| self.commit());
        match self.rng.below(8) {
            0 => self.db.flush().unwrap(),
            1 => self.db.compact().unwrap(),
            2 | 3 => while self.db.run_background_job().unwrap() {},
            _ => {}
        }
    }

    /// Checks that a database has the contents that this one had after some commit. Returns that
    /// commit.
    fn find(&self, restored: &Database) -> usize {
        let found = contents(restored);
        let count = found[COUNT].get(&b"n"[..]);
        let at = count.map_or(0, |n| u64::from_be_bytes(n[..].try_into().unwrap()) as usize);
        assert!(found == self.states[at], "the state after commit {at} is another");
        at
    }
}

/// Opens a restored database, checks all of it, and returns which state of the model it has.
fn open_restored(model: &Modelled, disk: &SimDisk) -> usize {
    let dynamic: Arc<dyn Disk> = Arc::new(disk.clone());
    let report = check_on(&dynamic, Path::new("/restored"), &mut |_, _| {}).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    let restored = open(disk, "/restored");
    let at = model.find(&restored);
    // It can be used as an independent database.
    let txn = restored.begin(TransactionOptions::new());
    let table = txn.create_table("later", EngineKind::Tiered).unwrap();
    txn.put(table, b"k", b"v").unwrap();
    txn.commit().wait().unwrap();
    restored.flush().unwrap();
    restored.compact().unwrap();
    restored.close().unwrap();
    drop(restored);
    let again = open(disk, "/restored");
    assert_eq!(contents(&again)["later"].len(), 1);
    again.close().unwrap();
    at
}

/// BACKUP-1, BACKUP-2: with concurrent commits, flushes, compactions and drops.
#[test]
fn a_backup_is_a_prefix_of_the_commits_whatever_goes_on_beside_it() {
    for seed in 0..12 {
        let disk = SimDisk::new(seed);
        let mut model = Modelled::new(&disk, seed);
        let repository = repository(&disk).unwrap();
        for _ in 0..3 {
            (0..25).for_each(|_| model.work());
            let before = model.last();
            let db = model.db.clone();
            let options = BackupOptions::new();
            let backup = db
                .backup(&repository, &options, &mut |_, _| {
                    model.work();
                    Ok(())
                })
                .unwrap();
            let other = SimDisk::new(seed);
            assert_eq!(restore(&repository, None, &other).unwrap(), backup);
            let at = open_restored(&model, &other);
            assert!(at >= before, "acknowledged: {before}, restored: {at}");
        }
        let report = repository.verify(None, &mut |_, _| Ok(())).unwrap();
        assert_eq!((report.backups, report.findings.len()), (3, 0), "{:?}", report.findings);
        // All of them are unchanged.
        for number in repository.numbers().unwrap() {
            let other = SimDisk::new(seed);
            restore(&repository, Some(number), &other).unwrap();
            open_restored(&model, &other);
        }
        // The log was cut again after the backups.
        model.db.flush().unwrap();
        model.db.close().unwrap();
        let reopened = open(&disk, "/db");
        assert_eq!(model.find(&reopened), model.last());
    }
}

/// BACKUP-1, BACKUP-2, with threads.
#[test]
fn a_backup_under_concurrent_writers_is_a_prefix() {
    let disk = SimDisk::new(5);
    let settings = Settings { background_threads: true, cores: 2, ..small() };
    let db = Database::open_on(Arc::new(disk.clone()), "/db", settings).unwrap();
    let txn = db.begin(TransactionOptions::new());
    let table = txn.create_table("t", EngineKind::Tiered).unwrap();
    txn.commit().wait().unwrap();
    let (acknowledged, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    // Each commit continues the count of the one before, so a state alone shows whether it is a
    // prefix.
    let write = || {
        let txn = db.begin(TransactionOptions::new());
        txn.lock(table, b"n", crate::LockMode::Exclusive, crate::LockWait::Wait)?;
        let mut value = Vec::new();
        let there = txn.get(table, b"n", &mut value)?;
        let next = if there { u64::from_be_bytes(value[..].try_into().unwrap()) + 1 } else { 1 };
        txn.put(table, b"n", &next.to_be_bytes())?;
        txn.put(table, &next.to_be_bytes(), &[next as u8; 400])?;
        txn.commit().wait()?;
        acknowledged.fetch_max(next, Ordering::AcqRel);
        Ok::<(), crate::Error>(())
    };
    together(4, |thread| {
        if thread > 0 {
            while !stop.load(Ordering::Acquire) {
                match write() {
                    Err(error) if error.kind() != ErrorKind::WriteConflict => panic!("{error}"),
                    _ => {}
                }
            }
            return;
        }
        let repository = repository(&disk).unwrap();
        for round in 0..4 {
            while acknowledged.load(Ordering::Acquire) < 300 * (round + 1) {
                std::thread::yield_now();
            }
            let before = acknowledged.load(Ordering::Acquire);
            back_up(&db, &repository).unwrap();
            let other = SimDisk::new(round);
            restore(&repository, None, &other).unwrap();
            let restored = open(&other, "/restored");
            let found = contents(&restored).remove("t").unwrap();
            let count = u64::from_be_bytes(found[&b"n"[..]][..].try_into().unwrap());
            assert!(count >= before, "{before} were acknowledged, {count} restored");
            assert_eq!(found.len() as u64, count + 1);
            let keys = (1..=count).map(|n| n.to_be_bytes().to_vec());
            assert!(keys.eq(found.keys().filter(|key| key.len() == 8).cloned()));
        }
        stop.store(true, Ordering::Release);
    });
}

pub(super) fn filled(disk: &SimDisk, tables: &[&str]) -> Database {
    let db = open(disk, "/db");
    tables.iter().for_each(|name| fill(&db, name));
    db
}

fn fill(db: &Database, name: &str) {
    fill_from(db, name, name.len() as u64);
}

fn fill_from(db: &Database, name: &str, seed: u64) {
    let txn = db.begin(TransactionOptions::new());
    let table = txn.create_table(name, EngineKind::Tiered).unwrap();
    let mut rng = Rng::new(seed);
    for key in 0..300_u16 {
        let value: Vec<u8> = (0..200).map(|_| rng.next_u64() as u8).collect();
        txn.put(table, &key.to_be_bytes(), &value).unwrap();
    }
    txn.commit().wait().unwrap();
    db.flush().unwrap();
}

fn extents_in(disk: &SimDisk) -> usize {
    disk.files().iter().filter(|(path, _)| path.extension().is_some_and(|e| e == "extent")).count()
}

/// BACKUP-3, BACKUP-6.
#[test]
fn an_increment_copies_new_extents_only_and_a_removal_takes_what_nobody_needs() {
    let disk = SimDisk::new(1);
    let db = filled(&disk, &["one"]);
    let repository = repository(&disk).unwrap();
    let first = back_up(&db, &repository).unwrap();
    assert!(first.extents > 3 && first.new_extents == first.extents, "{first:?}");
    let same = back_up(&db, &repository).unwrap();
    assert_eq!((same.extents, same.new_extents, same.new_bytes), (first.extents, 0, 0));
    fill(&db, "second");
    let third = back_up(&db, &repository).unwrap();
    assert!(third.new_extents > 3, "{third:?}");
    assert_eq!(third.new_extents, third.extents - first.extents);
    assert_eq!(extents_in(&disk) as u64, third.extents);
    let txn = db.begin(TransactionOptions::new());
    txn.drop_table("one").unwrap();
    txn.commit().wait().unwrap();
    while db.run_background_job().unwrap() {}
    let fourth = back_up(&db, &repository).unwrap();
    assert!(fourth.extents < third.extents, "{fourth:?}");
    let removed = repository.remove(3).unwrap();
    // Its log, and the memory engine's checkpoint.
    assert_eq!((removed.extents, removed.files), (0, 2));
    assert_eq!(repository.remove(1).unwrap().extents, 0);
    assert!(repository.remove(2).unwrap().extents >= first.extents - 1);
    assert_eq!(repository.numbers().unwrap(), [4]);
    assert_eq!(extents_in(&disk) as u64, fourth.extents);
    let missing = repository.remove(3).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    let other = SimDisk::new(2);
    restore(&repository, None, &other).unwrap();
    let restored = open(&other, "/restored");
    assert_eq!(contents(&restored), contents(&db));
}

/// BACKUP-7.
#[test]
fn what_was_restored_shares_no_extents_with_what_it_came_from() {
    let disk = SimDisk::new(1);
    let db = filled(&disk, &["one"]);
    let repository = repository(&disk).unwrap();
    back_up(&db, &repository).unwrap();
    restore(&repository, None, &disk).unwrap();
    let restored = open(&disk, "/restored");
    fill(&db, "two");
    fill(&restored, "other");
    let of_first = back_up(&db, &repository).unwrap();
    let of_restored = back_up(&restored, &repository).unwrap();
    assert_eq!(of_restored.new_extents, of_restored.extents);
    for (backup, db) in [(of_first, &db), (of_restored, &restored)] {
        let other = SimDisk::new(2);
        super::tests::restore(&repository, Some(backup.number), &other).unwrap();
        assert_eq!(contents(&open(&other, "/restored")), contents(db));
    }
}

/// BACKUP-3, in a folder that was replaced by an older copy of it.
#[test]
fn an_extent_of_another_timeline_is_not_taken_for_the_same() {
    let (disk, store) = (SimDisk::new(1), SimDisk::new(2));
    let db = filled(&disk, &["one"]);
    let repository = repository(&store).unwrap();
    back_up(&db, &repository).unwrap();
    db.close().unwrap();
    let copy = disk.fork();
    let db = open(&disk, "/db");
    fill_from(&db, "two", 2);
    let newer = back_up(&db, &repository).unwrap();
    let identity = Path::new("/db/backup-identity");
    let db = open(&copy, "/db");
    // Extents with the same numbers, lengths and blocks, and other values.
    fill_from(&db, "two", 3);
    let refused = back_up(&db, &repository).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert!(refused.to_string().contains("Remove /db/backup-identity"), "{refused}");
    copy.remove(identity).unwrap();
    let whole = back_up(&db, &repository).unwrap();
    assert_eq!(whole.new_extents, newer.extents);
    let other = SimDisk::new(3);
    restore(&repository, None, &other).unwrap();
    assert_eq!(contents(&open(&other, "/restored")), contents(&db));
}

/// BACKUP-4: a crash, a failure and a full disk at each operation of a backup.
#[test]
fn whatever_ends_a_backup_leaves_the_others_whole_and_nothing_half() {
    let disk = SimDisk::new(3);
    let db = filled(&disk, &["one"]);
    let store = SimDisk::new(4);
    let first = back_up(&db, &repository(&store).unwrap()).unwrap();
    fill(&db, "two");
    let expected = contents(&db);
    let began = store.fork().operations();
    let whole = store.fork();
    back_up(&db, &repository(&whole).unwrap()).unwrap();
    let operations = whole.operations() - began;
    assert!(operations > 20, "{operations}");
    for fault in [Fault::Crash, Fault::Io, Fault::Full, Fault::ShortWrite] {
        for number in began + 1..=began + operations {
            let store = store.fork();
            store.fail_operation(number, fault);
            let taken = repository(&store).and_then(|repository| back_up(&db, &repository));
            if fault == Fault::Crash {
                assert!(taken.is_err());
                store.crash();
            }
            store.restart();
            store.kill();
            let repository = repository(&store).unwrap();
            let numbers = repository.numbers().unwrap();
            assert!(taken.is_err() || numbers == [1, 2], "{fault:?} at {number}: {numbers:?}");
            let report = repository.verify(None, &mut |_, _| Ok(())).unwrap();
            assert!(report.findings.is_empty(), "{fault:?} at {number}: {:?}", report.findings);
            let next = back_up(&db, &repository).unwrap();
            let other = SimDisk::new(number);
            restore(&repository, Some(next.number), &other).unwrap();
            assert_eq!(contents(&open(&other, "/restored")), expected);
            // Nothing of the failed backup is left.
            numbers.iter().filter(|n| **n != 1).for_each(|n| {
                let _ = repository.remove(*n).unwrap();
            });
            repository.remove(next.number).unwrap();
            assert_eq!(extents_in(&store) as u64, first.extents);
            assert_eq!(repository.numbers().unwrap(), [1]);
        }
    }
}

/// BACKUP-4, for a repository whose disk stays full.
#[test]
fn a_full_repository_refuses_a_backup_and_gives_the_space_back() {
    let disk = SimDisk::new(3);
    let db = filled(&disk, &["one"]);
    let store = SimDisk::new(4);
    let repository = repository(&store).unwrap();
    back_up(&db, &repository).unwrap();
    let used = store.used();
    fill(&db, "two");
    store.set_capacity(Some(used + (40 << 10)));
    assert_eq!(back_up(&db, &repository).unwrap_err().kind(), ErrorKind::DiskFull);
    assert_eq!(store.used(), used);
    store.set_capacity(None);
    back_up(&db, &repository).unwrap();
    db.health().unwrap();
}

/// BACKUP-5.
#[test]
fn each_damaged_file_of_a_repository_is_named_and_not_restored() {
    let disk = SimDisk::new(3);
    let db = filled(&disk, &["one"]);
    let txn = db.begin(TransactionOptions::new());
    txn.put(txn.table("one").unwrap(), b"in the log", b"v").unwrap();
    txn.commit().wait().unwrap();
    let store = SimDisk::new(4);
    let backup = back_up(&db, &repository(&store).unwrap()).unwrap();
    assert!(backup.log_commits > 0);
    let files: Vec<_> = store.files();
    let mut rng = Rng::new(8);
    let mut damaged = 0;
    for (path, len) in files {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if ![".extent", ".log", ".backup"].iter().any(|end| name.ends_with(end)) {
            continue;
        }
        for at in [0, len - 1, rng.below(len), rng.below(len)] {
            let store = store.fork();
            store.rot(&path, at, 1 << rng.below(8));
            let repository = repository(&store).unwrap();
            let report = repository.verify(None, &mut |_, _| Ok(())).unwrap();
            let [finding] = &report.findings[..] else { panic!("{name}, {at}: {report:?}") };
            assert!(finding.to_string().contains(&name), "{finding}");
            assert_eq!(finding.kind(), ErrorKind::Corruption);
            let other = SimDisk::new(at);
            let error = restore(&repository, None, &other).unwrap_err();
            assert!(error.to_string().contains(&name), "{error}");
            damaged += 1;
        }
        let gone = store.fork();
        (&gone as &dyn Disk).remove(&path).unwrap();
        let repository = repository(&gone).unwrap();
        assert!(restore(&repository, Some(1), &SimDisk::new(1)).is_err(), "{name}");
        // The next backup copies everything again.
        let next = back_up(&db, &repository).unwrap();
        let report = repository.verify(Some(next.number), &mut |_, _| Ok(())).unwrap();
        assert!(report.findings.is_empty(), "{name}: {report:?}");
    }
    assert!(damaged > 12, "{damaged}");
}

/// BACKUP-5: damage in the database is reported and not copied into a backup.
#[test]
fn a_damaged_extent_of_the_database_is_named_by_its_backup() {
    let disk = SimDisk::new(3);
    let db = filled(&disk, &["one"]);
    let data = Path::new("/db/tiered/000001.data");
    disk.rot(data, 9_000, 4);
    let store = SimDisk::new(4);
    let error = back_up(&db, &repository(&store).unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("extent"), "{error}");
    assert_eq!(extents_in(&store), 0);
}

/// BACKUP-8: a crash at each operation of a restore.
#[test]
fn a_folder_that_is_half_restored_does_not_open() {
    let disk = SimDisk::new(3);
    let db = filled(&disk, &["one"]);
    let txn = db.begin(TransactionOptions::new());
    txn.put(txn.table("one").unwrap(), b"in the log", b"v").unwrap();
    txn.commit().wait().unwrap();
    let expected = contents(&db);
    let store = SimDisk::new(4);
    let repository = repository(&store).unwrap();
    back_up(&db, &repository).unwrap();
    let whole = SimDisk::new(5);
    restore(&repository, None, &whole).unwrap();
    let (mut refused, mut empty) = (0, 0);
    for number in 1..=whole.operations() {
        let other = SimDisk::new(number);
        other.fail_operation(number, Fault::Crash);
        restore(&repository, None, &other).unwrap_err();
        other.crash();
        other.restart();
        let begun = other.files().iter().any(|(path, _)| path.ends_with("log-home"));
        let opened = Database::open_on(Arc::new(other.clone()), "/restored", small());
        match opened {
            // The last operations only make existing files durable.
            Ok(opened) => {
                let found = contents(&opened);
                assert!(found == expected || found.is_empty() && !begun, "{number}: {found:?}");
                empty += usize::from(found.is_empty());
                opened.close().unwrap();
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
                refused += 1;
                assert!(restore(&repository, None, &other).is_err());
            }
        }
    }
    assert!(refused > 10 && empty < 6, "{refused} refused, {empty} empty");
}

#[test]
fn a_folder_that_is_no_repository_is_left_alone() {
    let disk = SimDisk::new(3);
    let _db = filled(&disk, &["one"]);
    let on = |path: &str, make| {
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        Repository::open_on(disk, Path::new(path), make).err().map(|error| error.kind())
    };
    assert_eq!(on("/db/tiered", true), Some(ErrorKind::NotFound));
    assert_eq!(on("/nowhere", false), Some(ErrorKind::NotFound));
    let held = repository(&disk).unwrap();
    assert_eq!(on("/backups", true), Some(ErrorKind::InUse));
    drop(held);
    assert_eq!(on("/backups", false), None);
    let repository = repository(&disk).unwrap();
    assert_eq!(restore(&repository, None, &disk).unwrap_err().kind(), ErrorKind::NotFound);
}

/// BACKUP-2: the part of the log that a backup must read stays, regardless of concurrent flushes,
/// and is cut afterwards.
#[test]
fn a_log_that_is_held_is_not_cut() {
    let disk = SimDisk::new(6);
    let db = filled(&disk, &["one"]);
    let held = db.0.manager.hold_log();
    let pin = db.0.tiered.pin();
    let persisted = pin.persisted();
    let named = |name: &str| db.begin(TransactionOptions::new()).table(name).unwrap();
    let table = named("one");
    for key in 0..600_u16 {
        let txn = db.begin(TransactionOptions::new());
        txn.put(table, &key.to_be_bytes(), &[7; 1000]).unwrap();
        txn.commit().wait().unwrap();
    }
    db.flush().unwrap();
    let log_bytes = || {
        let metrics = db.metrics();
        metrics.iter().find(|metric| metric.name == "log_bytes").unwrap().value
    };
    let kept = log_bytes();
    let copy = |held: &spillway_txn::LogHold| {
        let manager = &db.0.manager;
        let commits = persisted..manager.stable();
        manager.copy_log(&disk, &db.0.log_dir, held, commits, &mut |_, _| Ok(()))
    };
    assert_eq!(copy(&held).unwrap().commits, 600);
    drop(held);
    db.flush().unwrap();
    assert!(log_bytes() < kept / 2.0, "{} of {kept}", log_bytes());
    // A copy notices the frames that were cut.
    let held = db.0.manager.hold_log();
    assert_eq!(copy(&held).unwrap_err().kind(), ErrorKind::Corruption);
}

/// BACKUP-1: a backup has the state at which its files were pinned. A commit between the pin and
/// the reading of the log is not in it. Such a commit may depend on files that were published after
/// the pin, as the end of a pass that rewrote a table's rows does.
#[test]
fn what_is_committed_after_the_pin_is_not_in_a_backup() {
    let disk = SimDisk::new(9);
    let db = filled(&disk, &["one"]);
    let repository = repository(&disk).unwrap();
    let (before, stable) = (contents(&db), db.0.manager.stable());
    let mut calls = 0;
    let backup = db.backup(&repository, &BackupOptions::new(), &mut |_, _| {
        calls += 1;
        if calls == 1 {
            let txn = db.begin(TransactionOptions::new());
            let table = txn.table("one")?;
            txn.put(table, b"later", b"than the pin")?;
            txn.commit().wait()?;
            db.flush()?;
        }
        Ok(())
    });
    assert_eq!(backup.unwrap().through, stable);
    restore(&repository, None, &disk).unwrap();
    assert!(contents(&open(&disk, "/restored")) == before);
    assert!(contents(&db) != before);
}

/// BACKUP-4: a backup with a limit on its speed ends as soon as it is interrupted.
#[test]
fn a_slow_backup_is_ended_while_it_waits() {
    let disk = SimDisk::new(8);
    let db = filled(&disk, &["one"]);
    let repository = repository(&disk).unwrap();
    let slowly = BackupOptions::new().bytes_per_second(Some(1));
    let interrupted = || Err(spillway_base::Error::new(ErrorKind::Interrupted, "ended"));
    let ended = db.backup(&repository, &slowly, &mut |done, _| {
        let waits = done == 0 && extents_in(&disk) > 0;
        if waits { interrupted() } else { Ok(()) }
    });
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Interrupted);
    assert!(repository.numbers().unwrap().is_empty());
    assert_eq!(extents_in(&disk), 0);
    // The same while it copies the log.
    let mut calls = 0;
    let ended = db.backup(&repository, &BackupOptions::new(), &mut |_, _| {
        calls += 1;
        if calls == 2 { interrupted() } else { Ok(()) }
    });
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::Interrupted);
    back_up(&db, &repository).unwrap();
    restore(&repository, None, &disk).unwrap();
}

/// A backup is not restored to a folder that is not empty, and the folder is unchanged.
#[test]
fn a_folder_with_anything_in_it_is_not_restored_to() {
    let disk = SimDisk::new(9);
    let db = filled(&disk, &["one"]);
    let repository = repository(&disk).unwrap();
    back_up(&db, &repository).unwrap();
    let rows = contents(&db);
    db.close().unwrap();
    let before = (disk.files(), rows);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    for to in ["/db", "/db/tiered", "/backups", "/backups/extents"] {
        let refused = repository.restore_on(None, &shared, Path::new(to), &mut |_, _| Ok(()));
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument, "{to}");
    }
    assert_eq!(disk.files(), before.0);
    assert_eq!(contents(&open(&disk, "/db")), before.1);
}
