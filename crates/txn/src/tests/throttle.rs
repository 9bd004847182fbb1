//! How the throttle slows writers down.

use spillway_base::ErrorKind;
use spillway_base::budget::{Budget, Use};
use spillway_base::engine::{Debt, Metric};
use spillway_base::lock::Mutex;

use super::*;

/// Decision 008: the throttle slows a writer only after its commit, so no transaction waits for a
/// row because its writer sleeps.
#[test]
fn who_is_slowed_holds_no_lock() {
    let db = new();
    let locked: Arc<Mutex<Vec<bool>>> = Arc::default();
    let (manager, seen) = (db.manager.clone(), locked.clone());
    db.engine.claim_debt(move || {
        let other = manager.begin(TransactionOptions::new().isolation(Isolation::ReadCommitted));
        let lock = other.lock(TABLE, b"row", LockMode::Shared, LockWait::NoWait);
        let mut seen = seen.lock();
        seen.push(lock.is_err_and(|error| error.kind() == ErrorKind::LockNotAvailable));
        // Of the looks after the row was locked, the first that finds it free begins the sleep, and
        // the next ends it.
        let over =
            seen.iter().skip_while(|locked| !**locked).filter(|locked| !**locked).count() > 1;
        Debt { level0: if over { 0.0 } else { 1.0 }, ..Debt::default() }
    });
    let txn = db.begin(Isolation::RepeatableRead);
    txn.put(TABLE, b"row", &[b'v'; 8 << 10]).unwrap();
    txn.commit().wait().unwrap();
    let locked = locked.lock().clone();
    assert!(locked.iter().rev().take(2).eq([&false, &false]), "{locked:?}");
    let slept = |metric: &&Metric| metric.name == "throttle_aggressive_level0_total";
    assert_eq!(db.manager.metrics().iter().find(slept).unwrap().value, 1.0);
    // The engine holds the manager until then, which holds the engine.
    db.engine.claim_debt(Debt::default);
}

/// A transaction waits for room before it locks its first row, so no transaction waits for its rows
/// meanwhile.
#[test]
fn who_waits_for_room_first_holds_no_lock() {
    let db = new();
    let locked: Arc<Mutex<Vec<bool>>> = Arc::default();
    let (manager, seen) = (db.manager.clone(), locked.clone());
    db.engine.claim_room(move |_| {
        let other = manager.begin(TransactionOptions::new().isolation(Isolation::ReadCommitted));
        let lock = other.lock(TABLE, b"row", LockMode::Shared, LockWait::NoWait);
        seen.lock().push(lock.is_err());
        Ok(())
    });
    let txn = db.begin(Isolation::RepeatableRead);
    txn.put(TABLE, b"row", b"v").unwrap();
    txn.put(TABLE, b"other", b"v").unwrap();
    txn.commit().wait().unwrap();
    assert_eq!(*locked.lock(), [false, true], "before the first lock, and at the commit");
    db.engine.claim_room(|_| Ok(()));
}

/// If there is no room, the transaction's first lock fails. Its commit reports any other failure.
#[test]
fn who_gets_no_room_is_told_at_the_first_lock() {
    let db = new();
    for (kind, at_lock) in [(ErrorKind::MemoryFull, true), (ErrorKind::DiskFull, false)] {
        db.engine.claim_room(move |_| Err(spillway_base::Error::new(kind, "no room")));
        let txn = db.begin(Isolation::RepeatableRead);
        let put = txn.put(TABLE, b"row", b"v");
        assert_eq!(put.err().map(|error| error.kind()), at_lock.then_some(kind));
        if !at_lock {
            assert_eq!(txn.commit().wait().unwrap_err().kind(), kind);
        }
    }
}

/// Decision 007: a transaction waits for memory that background work holds, and for no other.
#[test]
fn a_transaction_waits_for_memory_that_is_to_come_back() {
    let budget = Budget::new(1 << 20);
    let db = open_on(&SimDisk::new(1), &log(1), ModelEngine::new(), &budget).unwrap();
    let txn = db.begin(Isolation::RepeatableRead);
    txn.create_table(TABLE).unwrap();
    txn.commit().wait().unwrap();
    let value = vec![b'v'; 400 << 10];
    // No memory is freed.
    let held = budget.charge(Use::Compactions, budget.limit() - budget.used());
    let txn = db.begin(Isolation::RepeatableRead);
    let refused = txn.put(TABLE, b"row", &value).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::MemoryFull);
    drop(txn);
    // One piece of background work after another frees its memory.
    let half = held.bytes() / 2;
    drop(held);
    let mut held = [half, half].map(|bytes| Some(budget.charge(Use::Compactions, bytes)));
    db.engine.claim_memory(move || held.iter_mut().find_map(Option::take).is_some());
    let txn = db.begin(Isolation::RepeatableRead);
    txn.put(TABLE, b"row", &value).unwrap();
    txn.put(TABLE, b"other", &value).unwrap();
    txn.commit().wait().unwrap();
    assert_eq!(budget.used_for(Use::Compactions), 0);
}

/// LARGE-BATCH-2: a commit that waits for its engine's memory holds none for its way to the log,
/// for which others may wait.
#[test]
fn a_large_batch_is_charged_once_its_engine_has_memory_for_it() {
    let (disk, budget) = (SimDisk::new(9), Budget::new(64 << 20));
    let db = open_on(&disk, &log(1), ModelEngine::new(), &budget).unwrap();
    let txn = db.begin(Isolation::RepeatableRead);
    txn.create_table(TABLE).unwrap();
    txn.commit().wait().unwrap();
    let value = "v".repeat(2 << 20);
    let txn = db.begin(Isolation::RepeatableRead);
    txn.put(TABLE, b"large", value.as_bytes()).unwrap();
    let before = budget.used_for(Use::Transactions);
    assert!(before >= value.len());
    let seen: Arc<Mutex<usize>> = Arc::default();
    let (asked, used) = (seen.clone(), budget.clone());
    db.engine.claim_room(move |_| {
        *asked.lock() = used.used_for(Use::Transactions);
        Ok(())
    });
    let commit = txn.commit();
    assert_eq!(*seen.lock(), before);
    commit.wait().unwrap();
    assert!(db.value("large").is_some_and(|read| read == value));
}
