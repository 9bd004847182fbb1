//! Transactions that write more than their share of memory, over the model engine (`spill`, SPILL-1
//! to SPILL-8).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use spillway_base::{Csn, Direction, Error, ErrorKind, KeyRange};

use super::*;
use crate::overlay::SPILL;
use Isolation::RepeatableRead;

/// Three of these exceed a transaction's share in these tests.
fn long(text: &str) -> String {
    text.repeat(400 << 10)
}

fn fold_all(db: &Db) {
    // Final deletions wait for the log.
    loop {
        db.manager.flush().unwrap();
        if !db.manager.fold_step().unwrap() {
            return;
        }
    }
}

fn put_rows(txn: &Transaction, value: &str) {
    for key in ["a", "b", "c", "d", "e", "f"] {
        put(txn, key, value).unwrap();
    }
}

/// SPILL-1, SPILL-2, SPILL-7, SPILL-8: before its commit no other transaction sees the writes,
/// after it every one does, folded or not.
#[test]
fn spilled_writes_are_seen_by_their_transaction_then_by_all() {
    let db = new();
    db.set("c", "old");
    let reader = db.begin(RepeatableRead);
    assert_eq!(get(&reader, "c").unwrap().as_deref(), Some("old"));
    let txn = db.begin(RepeatableRead);
    put_rows(&txn, &long("n"));
    txn.delete(TABLE, b"e").unwrap();
    assert_eq!(keys(&txn, Direction::Forward).unwrap(), ["a", "b", "c", "d", "f"]);
    assert_eq!(keys(&txn, Direction::Backward).unwrap(), ["f", "d", "c", "b", "a"]);
    assert!(db.engine.tables().len() > 1, "nothing was spilled");
    assert_eq!((db.value("a"), db.value("c").as_deref()), (None, Some("old")));
    txn.commit().wait().unwrap();
    let after = |when: &str| {
        assert_eq!(db.value("c"), Some(long("n")), "{when}");
        assert_eq!(db.value("e"), None, "{when}");
        assert_eq!(get(&reader, "c").unwrap().as_deref(), Some("old"), "{when}");
        assert_eq!(keys(&reader, Direction::Forward).unwrap(), ["c"], "{when}");
    };
    after("an overlay");
    assert_eq!(db.manager.overlays(), 1);
    fold_all(&db);
    after("folded, and kept for the reader");
    assert_eq!(db.manager.overlays(), 1);
    drop(reader);
    fold_all(&db);
    assert_eq!((db.manager.overlays(), db.value("c")), (0, Some(long("n"))));
}

/// SPILL-7: for a transaction that began before the commit, it is a conflict; one that began after
/// it does not notice the fold.
#[test]
fn a_fold_is_no_conflict_and_the_commit_is_one() {
    let db = new();
    let early = db.begin(RepeatableRead);
    early.take_snapshot();
    let txn = db.begin(RepeatableRead);
    put_rows(&txn, &long("n"));
    txn.commit().wait().unwrap();
    let late = db.begin(RepeatableRead);
    late.take_snapshot();
    let before = db.begin(RepeatableRead);
    before.take_snapshot();
    put(&late, "a", "late").unwrap();
    fold_all(&db);
    put(&late, "b", "late").unwrap();
    late.commit().wait().unwrap();
    let conflict = put(&early, "c", "early").unwrap_err();
    assert_eq!(conflict.kind(), ErrorKind::WriteConflict);
    assert_eq!(put(&before, "b", "x").unwrap_err().kind(), ErrorKind::WriteConflict);
    drop((early, before));
    fold_all(&db);
    assert_eq!((db.value("a").as_deref(), db.value("b").as_deref()), (Some("late"), Some("late")));
    assert_eq!((db.value("c"), db.manager.overlays()), (Some(long("n")), 0));
}

/// A spill that cannot be written completely leaves nothing: the statement fails, and is undone.
#[test]
fn a_spill_that_fails_midway_is_undone_with_its_statement() {
    for allowed in 2..12 {
        let db = new();
        let txn = db.begin(RepeatableRead);
        put(&txn, "first", "1").unwrap();
        let before = txn.savepoint();
        let asked = Arc::new(AtomicUsize::new(0));
        db.engine.claim_room(move |_| {
            if asked.fetch_add(1, Ordering::Relaxed) < allowed {
                return Ok(());
            }
            Err(Error::new(ErrorKind::MemoryFull, "no room"))
        });
        let value = long("n");
        let statement =
            || ["a", "b", "c", "d", "e"].iter().try_for_each(|key| put(&txn, key, &value));
        let failed = statement();
        db.engine.claim_room(|_| Ok(()));
        if failed.is_err() {
            txn.rollback_to(before);
            assert_eq!(keys(&txn, Direction::Forward).unwrap(), ["first"]);
            put(&txn, "a", "2").unwrap();
        }
        txn.commit().wait().unwrap();
        fold_all(&db);
        let value = if failed.is_err() { Some("2".to_owned()) } else { Some(value.clone()) };
        assert_eq!((db.value("a"), db.value("first").as_deref()), (value, Some("1")));
        assert_eq!(db.value("b").is_some(), failed.is_ok());
    }
}

/// SPILL-6: ranges that were deleted as one operation while an overlay exists hide their rows and
/// no others.
#[test]
fn ranges_beside_overlays_are_deleted_row_by_row() {
    let db = new();
    for row in 0..200 {
        db.set(&format!("r{row:03}"), "old");
    }
    let remover = db.begin(RepeatableRead);
    let range = KeyRange::new(b"r", Some(b"s"));
    let other = db.begin(RepeatableRead);
    put(&other, "r0505", &long("n")).unwrap();
    put_rows(&other, &long("n"));
    assert_eq!(remover.delete_range(TABLE, range).unwrap(), 200);
    other.commit().wait().unwrap();
    remover.commit().wait().unwrap();
    let look = || keys(&db.begin(RepeatableRead), Direction::Forward).unwrap();
    let left = ["a", "b", "c", "d", "e", "f", "r0505"];
    assert_eq!(look(), left);
    fold_all(&db);
    assert_eq!(look(), left);
    assert_eq!(db.manager.overlays(), 0);
}

/// SPILL-8: a fold may write none of an overlay's rows because newer commits have changed them all.
/// A reader from before those commits still needs the overlay.
#[test]
fn an_overlay_whose_rows_were_all_changed_stays_for_older_readers() {
    let db = new();
    let txn = db.begin(RepeatableRead);
    put_rows(&txn, &long("n"));
    txn.commit().wait().unwrap();
    let reader = db.begin(RepeatableRead);
    assert_eq!(get(&reader, "a").unwrap(), Some(long("n")));
    let rows = ["a", "b", "c", "d", "e", "f"];
    rows.iter().for_each(|key| db.set(key, "newer"));
    let newest = db.manager.0.newest();
    fold_all(&db);
    assert_eq!(db.manager.0.newest(), newest, "the fold wrote rows");
    assert_eq!(db.manager.overlays(), 1);
    for key in rows {
        assert_eq!(get(&reader, key).unwrap(), Some(long("n")), "{key}");
        assert_eq!(db.value(key).as_deref(), Some("newer"), "{key}");
    }
    drop(reader);
    fold_all(&db);
    assert_eq!(db.manager.overlays(), 0);
    rows.iter().for_each(|key| assert_eq!(db.value(key).as_deref(), Some("newer"), "{key}"));
}

/// SPILL-5: a recovery pins a snapshot at zero until its overlays are attached. From then on the
/// snapshots of their commits are pinned.
#[test]
fn a_recovery_pins_all_deletions_until_its_overlays_are_attached() {
    let disk = SimDisk::new(1);
    let db = open(&disk).unwrap();
    let txn = db.begin(RepeatableRead);
    txn.create_table(TABLE).unwrap();
    txn.commit().wait().unwrap();
    let txn = db.begin(RepeatableRead);
    put_rows(&txn, &long("n"));
    txn.commit().wait().unwrap();
    assert_eq!(db.manager.overlays(), 1);
    let committed = db.manager.0.newest();
    drop(db);

    let horizon = HorizonHandle::new();
    let pinned = {
        let horizon = horizon.horizon();
        move |csn| {
            let mut live = Vec::new();
            horizon.live_snapshots(&mut live);
            live.contains(&csn)
        }
    };
    let engine = ModelEngine::new();
    let (replayed, scanned) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (seen, is_pinned) = (replayed.clone(), pinned.clone());
    engine.watch_replay(move |csn, _| {
        assert!(is_pinned(Csn::ZERO), "at the replay of {csn:?}");
        seen.fetch_add(1, Ordering::Relaxed);
    });
    let (seen, is_pinned) = (scanned.clone(), pinned.clone());
    engine.watch_scan(move |table| {
        assert!(table != SPILL || is_pinned(Csn::ZERO), "while overlays are looked for");
        seen.fetch_add(1, Ordering::Relaxed);
    });
    let engine = Arc::new(engine);
    let (manager, _) = recover(
        &(Arc::new(disk) as Arc<dyn spillway_storage::Disk>),
        &log(2),
        settings(),
        &horizon,
        Engines::new(vec![engine.clone()]),
        Budget::new(64 << 20),
        Clock::system(),
    )
    .unwrap();
    engine.watch_scan(|_| ());
    let looked = (replayed.load(Ordering::Relaxed) > 0, scanned.load(Ordering::Relaxed) > 0);
    assert_eq!(looked, (true, true));
    assert_eq!((pinned(Csn::ZERO), pinned(committed)), (false, true));
    let db = Db { manager, engine };
    assert_eq!((db.manager.overlays(), db.value("c")), (1, Some(long("n"))));
    fold_all(&db);
    assert_eq!((db.manager.overlays(), pinned(committed)), (0, false));
    assert_eq!(db.value("c"), Some(long("n")));
}
