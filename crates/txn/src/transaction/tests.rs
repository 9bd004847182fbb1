use std::collections::HashSet;
use std::task::Waker;

use spillway_base::budget::Use;

use super::*;
use crate::sync::Mutex;
use crate::tests::{TABLE, new};

#[test]
fn transactions_of_all_threads_have_numbers_of_their_own() {
    let all = Mutex::new(HashSet::new());
    spillway_base::thread::together(4, |_| {
        let mine: Vec<u64> = (0..3000).map(|_| next_id()).collect();
        all.lock().extend(mine);
    });
    assert_eq!(all.lock().len(), 4 * 3000);
}

/// Makes a transaction's waits non-blocking, with a waker that does nothing.
fn leave_waits(txn: &Transaction) {
    txn.cancel_handle().set_waker(Waker::noop().clone());
    txn.leave_waits(true);
}

/// Decision 007: a transaction's writes are charged, except the first bytes.
#[test]
fn d7_a_transaction_is_charged_for_what_it_writes() {
    let db = new();
    let used = || db.manager.0.budget.used_for(Use::Transactions);
    let before = used();
    let txn = db.manager.begin(TransactionOptions::new());
    txn.put(TABLE, b"a", &[0; 100]).unwrap();
    assert_eq!(used(), before);
    txn.put(TABLE, b"b", &[0; FREE_BYTES]).unwrap();
    assert_eq!(used(), before + CHARGE_STEP);
    txn.put(TABLE, b"c", &[0; CHARGE_STEP]).unwrap();
    assert_eq!(used(), before + 2 * CHARGE_STEP);
    txn.commit().wait().unwrap();
    assert_eq!(used(), before);
}

/// A statement that met a locked row without blocking finds, when it runs again, the newest version
/// and a snapshot that sees it. If it then leaves the row alone, the row does not count as read.
#[test]
fn a_wait_that_was_left_behind_is_gone_on_with() {
    let db = new();
    db.set("hot", "1");
    db.set("other", "1");
    for again in ["hot", "other"] {
        let holder = db.begin(Isolation::RepeatableRead);
        holder.put(TABLE, b"hot", b"2").unwrap();
        let txn = db.begin(Isolation::RepeatableRead);
        leave_waits(&txn);
        let mut value = Vec::new();
        let mut update = |key: &str| {
            let (mode, wait) = (LockMode::Exclusive, LockWait::Wait);
            txn.get_locked(TABLE, key.as_bytes(), mode, wait, &mut value)?;
            txn.put(TABLE, key.as_bytes(), b"3")?;
            Ok::<_, Error>(value.clone())
        };
        assert_eq!(update("hot").unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(update(again).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert!(txn.waits_until().is_some());
        holder.commit().wait().unwrap();
        let newest: &[u8] = if again == "hot" { b"2" } else { b"1" };
        assert_eq!(update(again).unwrap(), newest);
        assert_eq!(txn.waits_until(), None);
        // The snapshot, for whichever row it was taken, is of a time with this row's newest
        // version.
        let mut hot = Vec::new();
        txn.get(TABLE, b"hot", &mut hot).unwrap();
        assert_eq!(hot, if again == "hot" { b"3" } else { b"2" });
        txn.commit().wait().unwrap();
        db.set("hot", "1");
        db.set("other", "1");
    }
}

/// A transaction that ends while in line leaves the line, and one that was served meanwhile
/// releases the lock.
#[test]
fn a_transaction_that_goes_leaves_the_line() {
    let db = new();
    for served in [false, true] {
        let holder = db.begin(Isolation::RepeatableRead);
        holder.put(TABLE, b"k", b"1").unwrap();
        let txn = db.begin(Isolation::RepeatableRead);
        leave_waits(&txn);
        assert_eq!(txn.put(TABLE, b"k", b"2").unwrap_err().kind(), ErrorKind::WouldBlock);
        if served {
            holder.rollback();
            txn.rollback();
        } else {
            txn.rollback();
            holder.rollback();
        }
        db.set("k", "3");
    }
}

/// A shared lock that was waited for is only shared: a request for an exclusive lock then waits for
/// its other holders.
#[test]
fn a_share_that_was_left_behind_is_not_taken_for_more() {
    let db = new();
    let holder = db.begin(Isolation::ReadCommitted);
    holder.put(TABLE, b"k", b"1").unwrap();
    let txn = db.begin(Isolation::ReadCommitted);
    leave_waits(&txn);
    let lock = |of: &Transaction, mode| of.lock(TABLE, b"k", mode, LockWait::Wait);
    assert_eq!(lock(&txn, LockMode::Shared).unwrap_err().kind(), ErrorKind::WouldBlock);
    holder.commit().wait().unwrap();
    let sharing = db.begin(Isolation::ReadCommitted);
    assert!(lock(&sharing, LockMode::Shared).unwrap());
    assert_eq!(txn.put(TABLE, b"k", b"2").unwrap_err().kind(), ErrorKind::WouldBlock);
    sharing.rollback();
    txn.put(TABLE, b"k", b"2").unwrap();
    txn.commit().wait().unwrap();
}

/// The next transaction finds nothing of the previous one's state, and nothing stays charged or
/// locked.
#[test]
fn a_transaction_begins_in_the_place_of_one_that_has_ended() {
    let db = new();
    let mut txn = db.manager.spare(&CancelHandle::default());
    let used = || db.manager.0.budget.used_for(Use::Transactions);
    let before = used();
    for round in 0..40_u8 {
        let options = TransactionOptions::new().read_only(round % 5 == 4);
        txn.begin_again(options);
        assert_eq!((txn.options(), txn.has_writes()), (options, false));
        assert!(!txn.snapshot_taken() && !txn.owner.holds_any());
        let mut value = Vec::new();
        let there = txn.get(TABLE, b"round", &mut value).unwrap();
        assert_eq!(value, if there { vec![round.saturating_sub(1) / 5 * 5] } else { Vec::new() });
        assert_eq!(there, round > 0);
        let write = |key: &[u8]| txn.put(TABLE, key, &[round]);
        if options.read_only {
            assert_eq!(write(b"round").unwrap_err().kind(), ErrorKind::ReadOnlyTransaction);
        } else {
            write(b"round").unwrap();
            (0..round).for_each(|key| write(&[key]).unwrap());
            txn.put(TABLE, b"large", &vec![0; usize::from(round) * 1000]).unwrap();
        }
        if round % 5 == 0 {
            txn.commit_in_place().wait().unwrap();
        } else {
            txn.rollback_in_place();
        }
        assert_eq!(used(), before);
        assert_eq!(txn.written(TABLE).unwrap().len(), 0);
        db.begin(Isolation::ReadCommitted)
            .lock(TABLE, b"round", LockMode::Exclusive, LockWait::NoWait)
            .unwrap();
    }
}

/// One handle cancels waits of consecutive transactions; a cancellation that met no wait of one
/// ends the next one's, unless it is withdrawn.
#[test]
fn a_handle_reaches_one_transaction_after_another() {
    let db = new();
    let cancel = CancelHandle::default();
    let options = TransactionOptions::new().isolation(Isolation::ReadCommitted);
    let holder = db.begin(Isolation::ReadCommitted);
    holder.put(TABLE, b"k", b"1").unwrap();
    for _ in 0..2 {
        let txn = db.manager.begin_with(options, &cancel);
        cancel.cancel();
        assert!(txn.is_cancelled());
        assert_eq!(txn.put(TABLE, b"k", b"2").unwrap_err().kind(), ErrorKind::Interrupted);
        assert!(!txn.is_cancelled());
    }
    cancel.cancel();
    let txn = db.manager.begin_with(options, &cancel);
    assert_eq!(txn.put(TABLE, b"k", b"2").unwrap_err().kind(), ErrorKind::Interrupted);
    txn.rollback();
    cancel.cancel();
    cancel.clear();
    let txn = db.manager.begin_with(options, &cancel);
    assert!(!txn.is_cancelled());
    leave_waits(&txn);
    assert_eq!(txn.put(TABLE, b"k", b"2").unwrap_err().kind(), ErrorKind::WouldBlock);
    // It ends while in line; its grant does not go to the next transaction.
    txn.rollback();
    holder.rollback();
    let holder = db.begin(Isolation::ReadCommitted);
    holder.put(TABLE, b"k", b"3").unwrap();
    let next = db.manager.begin_with(options, &cancel);
    leave_waits(&next);
    assert_eq!(next.put(TABLE, b"k", b"4").unwrap_err().kind(), ErrorKind::WouldBlock);
    holder.commit().wait().unwrap();
    next.put(TABLE, b"k", b"4").unwrap();
    next.commit().wait().unwrap();
    assert_eq!(db.value("k").unwrap(), "4");
}

/// A scan sees concurrent writes of its transaction ahead of its position, and not before it, even
/// if the table was untouched until the scan had reached its end.
#[test]
fn a_scan_goes_on_behind_what_it_passed_where_its_transaction_writes_meanwhile() {
    for (direction, ahead, behind) in
        [(Direction::Forward, "x", "a"), (Direction::Backward, "a", "x")]
    {
        for rows in 0..3 {
            let db = new();
            ["k1", "k2"].iter().take(2).for_each(|key| db.set(key, "1"));
            let txn = db.begin(Isolation::RepeatableRead);
            let mut scan = txn.scan(TABLE, KeyRange::ALL, direction).unwrap();
            // To the first row, the second, or the end.
            (0..=rows).for_each(|row| assert_eq!(scan.advance().unwrap(), row < 2));
            [ahead, behind].iter().for_each(|key| txn.put(TABLE, key.as_bytes(), b"2").unwrap());
            let left: Vec<_> = scan.map(|row| String::from_utf8(row.unwrap().0).unwrap()).collect();
            let last = if direction == Direction::Forward { "k2" } else { "k1" };
            let wanted: &[&str] = if rows == 0 { &[last, ahead] } else { &[ahead] };
            assert_eq!(left, wanted, "{direction:?} after {rows}");
        }
    }
}

/// A row whose lookup failed after it was locked is unchecked: it is compared with the snapshot
/// when it is locked again, and a later snapshot is not assumed to see it.
#[test]
fn a_row_that_could_not_be_read_is_not_taken_for_checked() {
    let db = new();
    db.set("k", "1");
    let txn = db.begin(Isolation::RepeatableRead);
    txn.take_snapshot();
    db.set("k", "2");
    db.engine.fail_newest();
    assert_eq!(txn.insert(TABLE, b"k", b"3").unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(txn.put(TABLE, b"k", b"3").unwrap_err().kind(), ErrorKind::WriteConflict);
    txn.rollback();

    let txn = db.begin(Isolation::RepeatableRead);
    let mut value = Vec::new();
    let mut read = || txn.get_locked(TABLE, b"k", LockMode::Exclusive, LockWait::Wait, &mut value);
    db.engine.fail_newest();
    assert_eq!(read().unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(txn.locked_at.get(), None);
    assert!(read().unwrap());
    assert_eq!(value, b"2");
}
