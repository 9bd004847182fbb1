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
        let lock = other.lock(TABLE, b"row", LockMode::Exclusive, LockWait::NoWait);
        let mut seen = seen.lock();
        seen.push(lock.is_err_and(|error| error.kind() == ErrorKind::LockNotAvailable));
        // The first free look begins the sleep, and the next ends it.
        let over = seen.iter().filter(|locked| !**locked).count() > 1;
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
