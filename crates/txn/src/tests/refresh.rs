//! Snapshots that move forward instead of a conflict (REFRESH-1 to REFRESH-7).

use spillway_base::{Direction, ErrorKind, KeyRange, Result};

use super::{Db, TABLE, get, new, put};
use crate::*;

/// A database with a few keys, and a transaction on it that has executed `read` before another
/// transaction executed `change`.
fn after(read: impl FnOnce(&Transaction), change: impl FnOnce(&Transaction)) -> (Db, Transaction) {
    let db = new();
    for key in ["a", "b", "c", "m", "x"] {
        db.set(key, "0");
    }
    let txn = db.manager.begin(TransactionOptions::new());
    txn.begin_statement();
    read(&txn);
    let other = db.begin(Isolation::ReadCommitted);
    change(&other);
    put(&other, "x", "1").unwrap();
    other.commit().wait().unwrap();
    (db, txn)
}

fn locks_x(txn: &Transaction) -> Result<bool> {
    let mut value = Vec::new();
    txn.get_locked(TABLE, b"x", LockMode::Exclusive, LockWait::Wait, &mut value)
}

fn is_refused(txn: &Transaction) -> bool {
    match locks_x(txn) {
        Ok(found) => {
            assert!(found);
            assert_eq!(get(txn, "x").unwrap().unwrap(), "1");
            false
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::WriteConflict);
            assert_eq!(get(txn, "x").unwrap().unwrap(), "0", "the snapshot is what it was");
            true
        }
    }
}

fn reads(key: &'static str) -> impl FnOnce(&Transaction) {
    move |txn| drop(get(txn, key).unwrap())
}

fn puts(key: &'static str, value: &'static str) -> impl FnOnce(&Transaction) {
    move |txn| put(txn, key, value).unwrap()
}

/// Scans at most this many rows of a range.
fn scans(start: &'static str, direction: Direction, most: usize) -> impl FnOnce(&Transaction) {
    move |txn| {
        let range = KeyRange::new(start.as_bytes(), Some(b"n"));
        let mut scan = txn.scan(TABLE, range, direction).unwrap();
        for _ in 0..most {
            if !scan.advance().unwrap() {
                break;
            }
        }
    }
}

/// REFRESH-1, REFRESH-3: a key that was read is the same, or is not.
#[test]
fn keys_that_were_read_decide() {
    let nothing = |_: &Transaction| ();
    assert!(!is_refused(&after(reads("a"), nothing).1));
    assert!(!is_refused(&after(reads("a"), puts("b", "1")).1));
    assert!(is_refused(&after(reads("a"), puts("a", "1")).1));
    assert!(!is_refused(&after(reads("a"), puts("a", "0")).1), "the same value again");
    assert!(is_refused(&after(reads("x"), nothing).1), "the row itself was read");
    assert!(is_refused(&after(reads("d"), puts("d", "1")).1), "it was absent");
    assert!(!is_refused(&after(reads("d"), puts("e", "1")).1));
    let deletes = |txn: &Transaction| txn.delete(TABLE, b"a").unwrap();
    assert!(is_refused(&after(reads("a"), deletes).1));
    let snapshot_alone = |txn: &Transaction| txn.take_snapshot();
    assert!(!is_refused(&after(snapshot_alone, puts("a", "1")).1));
}

/// REFRESH-2, REFRESH-3: so is a range, as far as a scan passed it: added and removed rows are
/// changes.
#[test]
fn ranges_that_were_read_decide() {
    use Direction::{Backward, Forward};
    let deletes =
        |key: &'static str| move |txn: &Transaction| txn.delete(TABLE, key.as_bytes()).unwrap();
    assert!(!is_refused(&after(scans("a", Forward, 9), puts("n", "1")).1));
    assert!(is_refused(&after(scans("a", Forward, 9), puts("b", "1")).1));
    assert!(!is_refused(&after(scans("a", Forward, 9), puts("b", "0")).1));
    assert!(is_refused(&after(scans("a", Forward, 9), puts("bb", "1")).1), "a phantom");
    assert!(is_refused(&after(scans("a", Forward, 9), puts("mm", "1")).1), "one behind the last");
    assert!(is_refused(&after(scans("a", Forward, 9), deletes("c")).1));
    assert!(!is_refused(&after(scans("a", Forward, 2), puts("c", "1")).1), "it came to b");
    assert!(is_refused(&after(scans("a", Forward, 2), puts("b", "1")).1));
    assert!(is_refused(&after(scans("a", Forward, 2), puts("aa", "1")).1));
    assert!(!is_refused(&after(scans("a", Backward, 2), puts("b", "1")).1), "it came to c");
    assert!(is_refused(&after(scans("a", Backward, 2), puts("mm", "1")).1));
    assert!(is_refused(&after(scans("d", Forward, 9), puts("e", "1")).1));
    assert!(!is_refused(&after(scans("n", Forward, 9), reads("a")).1), "nothing was there");
    let all = |txn: &Transaction| {
        let mut scan = txn.scan(TABLE, KeyRange::ALL, Direction::Forward).unwrap();
        while scan.advance_rows(100).unwrap() > 0 {}
    };
    assert!(is_refused(&after(all, puts("y", "1")).1));
}

/// REFRESH-2: reads under a lock and own writes do not count.
#[test]
fn own_rows_do_not_count() {
    let own = |txn: &Transaction| {
        let mut value = Vec::new();
        get(txn, "c").unwrap();
        txn.get_locked(TABLE, b"a", LockMode::Shared, LockWait::Wait, &mut value).unwrap();
        put(txn, "b", "9").unwrap();
        assert_eq!(get(txn, "b").unwrap().unwrap(), "9");
    };
    let (db, txn) = after(own, puts("d", "1"));
    assert!(!is_refused(&txn));
    txn.commit().wait().unwrap();
    assert_eq!(db.value("b").unwrap(), "9");
    let (_, txn) = after(own, puts("c", "1"));
    assert!(is_refused(&txn));
}

/// REFRESH-1: after a refresh the transaction reads at the newer snapshot, and its reads there
/// count.
#[test]
fn the_newer_snapshot_is_read_at_and_counts() {
    let (db, txn) = after(reads("a"), puts("b", "1"));
    assert!(!is_refused(&txn));
    assert_eq!(get(&txn, "b").unwrap().unwrap(), "1");
    db.set("c", "2");
    assert_eq!(get(&txn, "c").unwrap().unwrap(), "0");
    db.set("b", "2");
    assert_eq!(put(&txn, "c", "3").unwrap_err().kind(), ErrorKind::WriteConflict);
}

/// REFRESH-3: columns that were not read make no difference. The model's rows have one-byte
/// columns.
#[test]
fn only_columns_that_were_read_count() {
    fn same(read: &ColumnsRead, old: &[u8], new: &[u8]) -> bool {
        (0..8).all(|at| read.columns >> at & 1 == 0 || old.get(at) == new.get(at))
    }
    let db = new();
    db.set("a", "00");
    db.set("x", "0");
    for (columns, more, refused) in [(1, None, false), (2, None, true), (1, Some(2), true)] {
        let txn = db.manager.begin(TransactionOptions::new());
        txn.begin_statement();
        txn.reads_columns(TABLE, ColumnsRead { columns, layout: 0, same });
        if let Some(columns) = more {
            txn.reads_columns(TABLE, ColumnsRead { columns, layout: 0, same });
        }
        get(&txn, "a").unwrap();
        db.set("a", "01");
        db.set("x", "1");
        assert_eq!(is_refused(&txn), refused, "{columns} {more:?}");
        drop(txn);
        db.set("a", "00");
        db.set("x", "0");
    }
    // The next statement reads whole rows.
    let txn = db.manager.begin(TransactionOptions::new());
    txn.begin_statement();
    txn.reads_columns(TABLE, ColumnsRead { columns: 1, layout: 0, same });
    txn.begin_statement();
    get(&txn, "a").unwrap();
    db.set("a", "01");
    db.set("x", "1");
    assert!(is_refused(&txn));
}

/// REFRESH-4: beyond the limits there is no refresh.
#[test]
fn what_is_not_kept_is_a_conflict() {
    let many = |keys: usize| {
        move |txn: &Transaction| (0..keys).for_each(|at| drop(get(txn, &format!("k{at}")).unwrap()))
    };
    assert!(!is_refused(&after(many(1000), puts("b", "1")).1));
    assert!(is_refused(&after(many(5000), puts("b", "1")).1));
    let same = |txn: &Transaction| (0..5000).for_each(|_| drop(get(txn, "a").unwrap()));
    assert!(!is_refused(&after(same, puts("b", "1")).1), "one key, again and again");
}

/// REFRESH-5: transactions that keep their snapshots, and SERIALIZABLE.
#[test]
fn some_keep_their_snapshots() {
    for options in [
        TransactionOptions::new().keeps_snapshot(true),
        TransactionOptions::new().isolation(Isolation::Serializable),
    ] {
        let db = new();
        db.set("x", "0");
        let txn = db.manager.begin(options);
        txn.take_snapshot();
        db.set("x", "1");
        assert_eq!(locks_x(&txn).unwrap_err().kind(), ErrorKind::WriteConflict);
        assert!(!txn.refresh().unwrap());
    }
}

/// REFRESH-7: an open scan continues at the snapshot.
#[test]
fn an_open_scan_keeps_the_snapshot() {
    let (_db, txn) = after(reads("a"), puts("b", "1"));
    let mut scan = txn.scan(TABLE, KeyRange::ALL, Direction::Forward).unwrap();
    assert!(scan.advance().unwrap());
    assert_eq!(locks_x(&txn).unwrap_err().kind(), ErrorKind::WriteConflict);
    assert!(scan.advance().unwrap());
    assert_eq!(scan.value(), b"0");
    drop(scan);
    assert!(!txn.refresh().unwrap(), "the scan has read b");
}

/// Reads that no client has seen and that will be repeated are forgotten.
#[test]
fn reads_since_a_mark_are_forgotten() {
    let (_db, txn) = after(
        |txn| {
            get(txn, "a").unwrap();
            let mark = txn.reads_mark();
            get(txn, "b").unwrap();
            scans("a", Direction::Forward, 9)(txn);
            txn.forget_reads(mark);
        },
        puts("b", "1"),
    );
    assert!(!is_refused(&txn));
}
