//! How writers are slowed.

use parking_lot::Mutex;
use spillway_base::ErrorKind;
use spillway_base::engine::{Debt, Metric};

use super::*;

/// D8: whoever is slowed has committed, and nobody waits for a row because its writer sleeps.
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
        // Of the looks after the row was locked, the first that finds it free begins the sleep, and the next ends it.
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
}

/// Whoever waits for room before it locks its first row has nobody wait for its rows.
#[test]
fn who_waits_for_room_first_holds_no_lock() {
    let db = new();
    let locked: Arc<Mutex<Vec<bool>>> = Arc::default();
    let (manager, seen) = (db.manager.clone(), locked.clone());
    db.engine.claim_room(move || {
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
}

/// Where no room comes, a transaction is told so before it has locked anything; what is wrong otherwise is for its commit to
/// tell.
#[test]
fn who_gets_no_room_is_told_at_the_first_lock() {
    let db = new();
    for (kind, at_lock) in [(ErrorKind::MemoryFull, true), (ErrorKind::DiskFull, false)] {
        db.engine.claim_room(move || Err(spillway_base::Error::new(kind, "no room")));
        let txn = db.begin(Isolation::RepeatableRead);
        let put = txn.put(TABLE, b"row", b"v");
        assert_eq!(put.err().map(|error| error.kind()), at_lock.then_some(kind));
        if !at_lock {
            assert_eq!(txn.commit().wait().unwrap_err().kind(), kind);
        }
    }
}
