//! The disk space that is reserved for commits which free space ([`crate::reserve`]).

use std::sync::atomic::{AtomicUsize, Ordering};

use spillway_base::engine::FlushSpace;
use spillway_base::{Csn, ErrorKind};
use spillway_storage::Disk;
use spillway_storage::sim::Fault;

use super::*;
use crate::reserve::HOPE;

const SEGMENT: u64 = 64 << 10;
const NAME: &str = "/log/reserve";

fn reserve_bytes(disk: &SimDisk) -> u64 {
    let files = disk.files();
    files.iter().find(|(path, _)| path == Path::new(NAME)).map_or(0, |(_, bytes)| *bytes)
}

fn create(db: &Db, table: TableId) {
    let txn = db.begin(Isolation::RepeatableRead);
    txn.create_table(table).unwrap();
    txn.commit().wait().unwrap();
}

fn try_set(db: &Db, key: &str, value: &str) -> Result<Csn> {
    let txn = db.begin(Isolation::ReadCommitted);
    put(&txn, key, value)?;
    txn.commit().wait()
}

fn try_delete(db: &Db, key: &str) -> Result<Csn> {
    let txn = db.begin(Isolation::ReadCommitted);
    txn.delete(TABLE, key.as_bytes())?;
    txn.commit().wait()
}

fn try_drop(db: &Db, table: TableId) -> Result<Csn> {
    let txn = db.begin(Isolation::ReadCommitted);
    txn.drop_table(table)?;
    txn.commit().wait()
}

/// Writes until the disk, whose capacity is set to its present use, is full.
fn fill(disk: &SimDisk, db: &Db) {
    disk.set_capacity(Some(disk.used()));
    // Until a commit of any size is refused, in both lanes.
    let (mut number, mut refusals) = (0, 0);
    for bytes in [3000, 300, 0] {
        while refusals < 2 {
            match try_set(db, &format!("{number:03}"), &"v".repeat(bytes)) {
                Ok(_) => refusals = 0,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::DiskFull);
                    refusals += 1;
                }
            }
            number += 1;
        }
        refusals = 0;
    }
}

#[test]
fn reserve_1_takes_a_part_of_the_free_space_within_bounds() {
    for (free, kept) in [
        (Some(8 * SEGMENT), SEGMENT / 2),
        (Some(2 * SEGMENT), SEGMENT / 8),
        (Some(SEGMENT / 2), SEGMENT / 16),
        (Some(64 * SEGMENT), SEGMENT),
        (None, SEGMENT),
    ] {
        let disk = SimDisk::new(1);
        disk.set_capacity(free);
        let disk: Arc<dyn Disk> = Arc::new(disk);
        disk.create_dir_all(Path::new("/log")).unwrap();
        let made = crate::reserve::Reserve::open(disk.clone(), Path::new("/log"), SEGMENT);
        assert!(made.is_whole(), "{free:?}");
        let file = disk.open(Path::new(NAME), spillway_storage::OpenMode::Write).unwrap();
        assert_eq!(file.len().unwrap(), kept, "{free:?}");
        // Another opening keeps its size, although there is less free space.
        drop(crate::reserve::Reserve::open(disk.clone(), Path::new("/log"), SEGMENT));
        assert_eq!(file.len().unwrap(), kept, "{free:?}");
    }
}

#[test]
fn reserve_2_lets_nobody_write_but_those_who_free_space() {
    let disk = SimDisk::new(2);
    let db = open(&disk).unwrap();
    create(&db, TABLE);
    fill(&disk, &db);
    try_delete(&db, "000").unwrap();
    assert!(reserve_bytes(&disk) < SEGMENT);
    // There may be room in the segment that was made, but not for this commit.
    assert_eq!(try_set(&db, "small", "").unwrap_err().kind(), ErrorKind::DiskFull);
    let txn = db.begin(Isolation::ReadCommitted);
    txn.delete(TABLE, b"001").unwrap();
    put(&txn, "small", "").unwrap();
    assert_eq!(txn.commit().wait().unwrap_err().kind(), ErrorKind::DiskFull);
    // Commits survive a kill on the full disk, and the reserve is not taken for a whole one.
    disk.kill();
    let db = open(&disk).unwrap();
    assert_eq!(db.value("000"), None);
    assert!(db.value("001").is_some());
    assert_eq!(try_set(&db, "small", "").unwrap_err().kind(), ErrorKind::DiskFull);
    try_drop(&db, TABLE).unwrap();
}

#[test]
fn reserve_2_takes_a_transaction_that_says_what_it_helps_to_free() {
    let disk = SimDisk::new(3);
    let db = open(&disk).unwrap();
    create(&db, TABLE);
    fill(&disk, &db);
    let txn = db.manager.begin(TransactionOptions::new().frees(Frees::Tables));
    put(&txn, "number", "64").unwrap();
    txn.commit().wait().unwrap();
    assert_eq!(db.value("number").as_deref(), Some("64"));
}

#[test]
fn reserve_3_keeps_the_last_part_for_drops() {
    let disk = SimDisk::new(4);
    let db = open(&disk).unwrap();
    create(&db, TABLE);
    (2..300).for_each(|table| create(&db, TableId(table)));
    fill(&disk, &db);
    let refused = (0..100_000).find_map(|_| try_delete(&db, "000").err()).unwrap();
    assert_eq!(refused.kind(), ErrorKind::DiskFull);
    assert_eq!(reserve_bytes(&disk), SEGMENT / 4);
    let used = (2..300).find(|&table| {
        try_drop(&db, TableId(table)).unwrap();
        reserve_bytes(&disk) < SEGMENT / 4
    });
    assert!(used.is_some());
}

#[test]
fn reserve_4_is_made_whole_before_anybody_else_writes() {
    let disk = SimDisk::new(5);
    let db = open(&disk).unwrap();
    create(&db, TABLE);
    fill(&disk, &db);
    try_delete(&db, "000").unwrap();
    let missing = SEGMENT - reserve_bytes(&disk);
    let used = disk.used();
    disk.set_capacity(Some(used + missing - 1));
    assert_eq!(try_set(&db, "small", "").unwrap_err().kind(), ErrorKind::DiskFull);
    disk.set_capacity(Some(used + missing + 2 * SEGMENT));
    try_set(&db, "small", "").unwrap();
    assert_eq!(reserve_bytes(&disk), SEGMENT);
}

#[test]
fn reserve_5_others_wait_for_what_was_freed_and_not_for_ever() {
    let disk = SimDisk::new(6);
    let clock = Clock::manual();
    let budget = Budget::new(64 << 20);
    let db = open_by(&disk, &log(2), ModelEngine::new(), &budget, clock.clone()).unwrap();
    create(&db, TABLE);
    db.manager.start_flusher().unwrap();
    fill(&disk, &db);
    assert_eq!(clock.now(), Duration::ZERO, "nothing was freed, so there is nothing to wait for");
    try_delete(&db, "000").unwrap();
    assert_eq!(try_set(&db, "small", "").unwrap_err().kind(), ErrorKind::DiskFull);
    assert!((HOPE..HOPE + HOPE / 100).contains(&clock.now()), "{:?}", clock.now());
    // The engine is asked to release space, and does so after a while.
    let asked = Arc::new(AtomicUsize::new(0));
    let (counted, emptied) = (asked.clone(), disk.clone());
    db.engine.watch_giving(move || {
        if counted.fetch_add(1, Ordering::SeqCst) == 20 {
            emptied.set_capacity(None);
        }
    });
    try_delete(&db, "001").unwrap();
    try_set(&db, "small", "there").unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 21);
    assert_eq!(db.value("small").as_deref(), Some("there"));
    db.manager.close().unwrap();
}

/// The engine has rows in memory that it cannot flush: a commit that frees space need not wait for
/// that.
#[test]
fn reserve_2_takes_a_commit_that_an_engine_has_no_room_for() {
    let disk = SimDisk::new(7);
    let db = open(&disk).unwrap();
    create(&db, TABLE);
    db.set("000", "there");
    let full = || spillway_base::Error::new(ErrorKind::DiskFull, "memory cannot be written out");
    db.engine.claim_room(move |_| Err(full()));
    disk.set_capacity(Some(disk.used()));
    assert_eq!(try_set(&db, "small", "").unwrap_err().kind(), ErrorKind::DiskFull);
    let deleted = (0..100_000).take_while(|_| try_delete(&db, "000").is_ok()).count();
    assert!((500..20_000).contains(&deleted), "{deleted} of them, while memory grows");
    try_drop(&db, TABLE).unwrap();
}

#[test]
fn reserve_7_refuses_commits_that_an_engine_could_not_write_to_its_files() {
    let disk = SimDisk::new(9);
    let db = open(&disk).unwrap();
    create(&db, TABLE);
    db.set("000", "there");
    db.engine.set_flush_space(FlushSpace::Lacking);
    assert_eq!(try_set(&db, "small", "").unwrap_err().kind(), ErrorKind::DiskFull);
    try_delete(&db, "000").unwrap();
    assert_eq!(reserve_bytes(&disk), SEGMENT, "the log had room");
    assert_eq!(try_set(&db, "small", "").unwrap_err().kind(), ErrorKind::DiskFull);
    db.engine.set_flush_space(FlushSpace::Enough);
    try_set(&db, "small", "").unwrap();
}

/// A large batch may take more than is left before the engine notices that space is short.
#[test]
fn reserve_7_asks_for_a_large_batch_even_if_nothing_is_short() {
    let (disk, budget, clock) = (SimDisk::new(9), Budget::new(256 << 20), Clock::system());
    let settings = ManagerSettings { transaction_bytes_max: 64 << 20, ..settings() };
    let db = open_as(&disk, &log(1), ModelEngine::new(), &budget, clock, settings).unwrap();
    create(&db, TABLE);
    db.engine.look_away();
    db.engine.set_flush_space(FlushSpace::Lacking);
    try_set(&db, "small", "there").unwrap();
    let value = "v".repeat(9 << 20);
    let txn = db.manager.begin(TransactionOptions::default());
    for key in ["a", "b", "c", "d"] {
        put(&txn, key, &value).unwrap();
    }
    assert_eq!(txn.commit().wait().unwrap_err().kind(), ErrorKind::DiskFull);
}

#[test]
fn reserve_7_waits_for_a_flush_that_may_leave_space() {
    let disk = SimDisk::new(10);
    let clock = Clock::manual();
    let budget = Budget::new(64 << 20);
    let db = open_by(&disk, &log(2), ModelEngine::new(), &budget, clock.clone()).unwrap();
    create(&db, TABLE);
    db.manager.start_flusher().unwrap();
    db.engine.set_flush_space(FlushSpace::AfterFlush);
    assert_eq!(try_set(&db, "small", "").unwrap_err().kind(), ErrorKind::DiskFull);
    assert!((HOPE..HOPE + HOPE / 100).contains(&clock.now()), "{:?}", clock.now());
    // The flush ends after a while.
    let (asked, engine) = (AtomicUsize::new(0), db.engine.clone());
    db.engine.watch_giving(move || {
        if asked.fetch_add(1, Ordering::SeqCst) == 20 {
            engine.set_flush_space(FlushSpace::Enough);
        }
    });
    try_set(&db, "small", "there").unwrap();
    assert_eq!(db.value("small").as_deref(), Some("there"));
    // The engine does not keep itself.
    db.engine.watch_giving(|| ());
    db.manager.close().unwrap();
}

#[test]
fn reserve_6_is_no_loss_where_it_cannot_be_made_cut_or_kept() {
    let reference = SimDisk::new(8);
    drop(open(&reference).unwrap());
    for operation in 0..reference.operations() {
        let disk = SimDisk::new(8);
        disk.fail_operation(operation, Fault::Io);
        let Ok(db) = open(&disk) else { continue };
        create(&db, TABLE);
        db.set("a", "b");
        fill(&disk, &db);
        let freed = try_delete(&db, "a");
        // Without a reserve the file contains at most its size.
        assert!(freed.is_ok() || reserve_bytes(&disk) < 4096, "operation {operation}: {freed:?}");
        disk.set_capacity(None);
        db.set("c", "d");
        disk.kill();
        let db = open(&disk).unwrap();
        assert_eq!(db.value("c").as_deref(), Some("d"), "operation {operation}");
    }
    // A removed or damaged file is made again.
    let disk = SimDisk::new(9);
    let db = open(&disk).unwrap();
    create(&db, TABLE);
    db.set("a", "b");
    disk.kill();
    disk.rot(Path::new(NAME), 6, 0xff);
    assert_eq!(open(&disk).unwrap().value("a").as_deref(), Some("b"));
    disk.kill();
    disk.remove(Path::new(NAME)).unwrap();
    assert_eq!(open(&disk).unwrap().value("a").as_deref(), Some("b"));
    assert_eq!(reserve_bytes(&disk), SEGMENT);
}
