//! Changes and locking reads of the newest versions (NEWEST-1 to NEWEST-4).

use spillway_base::engine::Access;
use spillway_base::{Direction, KeyRange};

use super::{Db, TABLE, get, keys, new, put};
use crate::*;

impl Db {
    fn begin_on_newest(&self) -> Transaction {
        self.manager.begin(TransactionOptions::new().acts_on_newest(true))
    }
}

fn locked(txn: &Transaction, key: &str) -> Option<String> {
    let mut value = Vec::new();
    let (mode, wait) = (LockMode::Exclusive, LockWait::Wait);
    let found = txn.get_locked(TABLE, key.as_bytes(), mode, wait, &mut value).unwrap();
    found.then(|| String::from_utf8(value).unwrap())
}

/// NEWEST-1, NEWEST-4: changes and locking reads act on the newest versions, plain reads on the
/// snapshot and the transaction's own writes.
#[test]
fn newest_versions_are_changed_and_snapshots_are_read() {
    let db = new();
    for key in ["a", "b", "c"] {
        db.set(key, "0");
    }
    let txn = db.begin_on_newest();
    assert_eq!(get(&txn, "a").unwrap().unwrap(), "0");
    for key in ["a", "b", "c", "d"] {
        db.set(key, "1");
    }
    assert_eq!(locked(&txn, "a").unwrap(), "1");
    assert_eq!(locked(&txn, "d").unwrap(), "1");
    assert_eq!(get(&txn, "a").unwrap().unwrap(), "0");
    assert_eq!(get(&txn, "d").unwrap(), None);
    put(&txn, "b", "2").unwrap();
    assert_eq!(get(&txn, "b").unwrap().unwrap(), "2");
    assert_eq!(keys(&txn, Direction::Forward).unwrap(), ["a", "b", "c"]);
    assert_eq!(txn.delete_range(TABLE, KeyRange::ALL).unwrap(), 4);
    assert!(keys(&txn, Direction::Forward).unwrap().is_empty());
    txn.commit().wait().unwrap();
    assert_eq!(db.value("d"), None);
}

/// NEWEST-4: neither a change nor a locking read takes the snapshot.
#[test]
fn only_plain_reads_take_the_snapshot() {
    let db = new();
    db.set("a", "0");
    db.set("b", "0");
    let txn = db.begin_on_newest();
    assert_eq!(locked(&txn, "a").unwrap(), "0");
    assert_eq!(txn.delete_range(TABLE, KeyRange::new(b"x", None)).unwrap(), 0);
    put(&txn, "c", "0").unwrap();
    db.set("b", "1");
    assert_eq!(get(&txn, "b").unwrap().unwrap(), "1");
    db.set("b", "2");
    assert_eq!(get(&txn, "b").unwrap().unwrap(), "1");
}

/// NEWEST-2: a scan of rows to lock is behind once the transaction has read something newer than
/// the scan's state.
#[test]
fn a_scan_of_rows_to_lock_tells_when_it_is_behind() {
    let db = new();
    db.set("a", "0");
    db.set("b", "0");
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
        let options = TransactionOptions::new().isolation(isolation).acts_on_newest(true);
        let txn = db.manager.begin(options);
        let all = || txn.scan_to_lock(TABLE, KeyRange::ALL, Direction::Forward).unwrap();
        let mut scan = all();
        assert!(scan.advance().unwrap());
        assert_eq!(locked(&txn, "a").unwrap(), "0");
        assert!(!scan.is_behind(), "nothing has changed");
        db.set("b", "1");
        let mut value = Vec::new();
        assert!(txn.get_to_lock(TABLE, b"b", Access::Blocking, &mut value).unwrap());
        assert_eq!((&value[..], scan.is_behind()), (&b"1"[..], true));
        assert!(!all().is_behind(), "one that is opened now has seen it");
        drop(scan);
        txn.rollback();
        db.set("b", "0");
    }
}

/// NEWEST-4: the snapshot's version of a row that has changed since; nothing if it has the newest
/// version, or there is none.
#[test]
fn what_a_change_replaces_in_the_snapshot_is_told() {
    let db = new();
    db.set("a", "0");
    db.set("b", "0");
    let txn = db.begin_on_newest();
    let mut value = Vec::new();
    let mut replaced = |key: &str| {
        let found = txn.get_replaced(TABLE, key.as_bytes(), &mut value).unwrap();
        (found, String::from_utf8(value.clone()).unwrap())
    };
    assert_eq!(replaced("a"), (None, String::new()), "there is no snapshot");
    txn.take_snapshot();
    db.set("a", "1");
    db.set("n", "1");
    assert_eq!(replaced("a"), (Some(true), "0".to_owned()));
    put(&txn, "a", "2").unwrap();
    assert_eq!(replaced("a"), (Some(true), "0".to_owned()));
    assert_eq!(replaced("n"), (Some(false), String::new()));
    assert_eq!(replaced("b"), (None, String::new()));
    let strict = db.begin(Isolation::RepeatableRead);
    strict.take_snapshot();
    db.set("b", "1");
    assert_eq!(strict.get_replaced(TABLE, b"b", &mut value).unwrap(), None);
}

/// NEWEST-4: a range of many rows does not hide rows between them that others have deleted from the
/// transaction's own reads.
#[test]
fn a_large_deletion_leaves_the_snapshot_what_others_deleted() {
    let db = new();
    (0..200).for_each(|at| db.set(&format!("{at:03}"), "0"));
    let txn = db.begin_on_newest();
    txn.take_snapshot();
    let other = db.begin(Isolation::ReadCommitted);
    other.delete(TABLE, b"100").unwrap();
    other.commit().wait().unwrap();
    assert_eq!(txn.delete_range(TABLE, KeyRange::ALL).unwrap(), 199);
    assert_eq!(keys(&txn, Direction::Forward).unwrap(), ["100"]);
    txn.commit().wait().unwrap();
    assert_eq!(db.value("100"), None);
}
