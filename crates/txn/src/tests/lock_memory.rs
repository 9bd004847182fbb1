//! The memory of locks (LOCK-5 and LOCK-8, as transactions see them), and the memory of the reads
//! of SERIALIZABLE transactions (SSI-2).

use spillway_base::budget::{Budget, Use};
use spillway_base::{Direction, ErrorKind, KeyRange};
use spillway_storage::sim::SimDisk;

use super::{Db, TABLE, log, open_on};
use crate::model::ModelEngine;
use crate::{Isolation, LockMode, LockWait};

fn db(budget: &Budget) -> Db {
    let db = open_on(&SimDisk::new(1), &log(1), ModelEngine::new(), budget).unwrap();
    let txn = db.begin(Isolation::RepeatableRead);
    txn.create_table(TABLE).unwrap();
    txn.commit().wait().unwrap();
    db
}

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

/// A permutation of the numbers below 2^17.
fn scattered(number: u32) -> u32 {
    number.wrapping_mul(2_654_435_769) % (1 << 17)
}

fn refused(db: &Db, number: u32, mode: LockMode) -> bool {
    let other = db.begin(Isolation::ReadCommitted);
    match other.lock(TABLE, &key(number), mode, LockWait::NoWait) {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::LockNotAvailable);
            true
        }
    }
}

/// LOCK-8: 131,072 locks would take 18 MiB. They fit 8 MiB, together with other uses, in any order
/// and mode.
#[test]
fn a_transaction_locks_more_rows_than_the_budget_has_room_for_one_by_one() {
    let budget = Budget::new(8 << 20);
    let db = db(&budget);
    let before = budget.used();
    for (mode, order) in [
        (LockMode::Exclusive, (|number| number) as fn(u32) -> u32),
        (LockMode::Shared, |number| number),
        (LockMode::Exclusive, scattered),
        (LockMode::Shared, |number| (1 << 17) - 1 - number),
    ] {
        let txn = db.begin(Isolation::RepeatableRead);
        let mut most = 0;
        for number in (0..1 << 17).map(order) {
            assert!(txn.lock(TABLE, &key(number), mode, LockWait::NoWait).unwrap());
            most = most.max(budget.used_for(Use::Transactions));
        }
        assert!(most > 1 << 20 && most < 3 << 20, "{most}");
        for number in (0..1 << 17).step_by(1 << 10) {
            assert!(refused(&db, number, LockMode::Exclusive), "{number}");
            assert_eq!(refused(&db, number, LockMode::Shared), mode == LockMode::Exclusive);
        }
        drop(txn);
        assert_eq!(budget.used(), before);
        assert!((0..1 << 17).step_by(1 << 10).all(|at| !refused(&db, at, LockMode::Exclusive)));
    }
}

/// LOCK-1: a transaction of a few thousand rows locks those and no others, however little memory
/// there is.
#[test]
fn a_few_thousand_rows_are_locked_one_by_one() {
    let db = db(&Budget::new(4 << 20));
    let txn = db.begin(Isolation::ReadCommitted);
    for number in (0..9000).map(|number| scattered(2 * number)) {
        txn.lock(TABLE, &key(number), LockMode::Exclusive, LockWait::NoWait).unwrap();
    }
    for number in 0..9000 {
        assert!(refused(&db, scattered(2 * number), LockMode::Shared));
        assert!(!refused(&db, scattered(2 * number + 1), LockMode::Exclusive));
    }
}

/// LOCK-8: a request that finds no room fails and locks nothing. Earlier locks stay until the
/// transaction ends.
#[test]
fn a_lock_that_memory_has_no_room_for_is_refused() {
    let budget = Budget::new(4 << 20);
    let db = db(&budget);
    let before = budget.used();
    let others = budget.charge(Use::Connections, budget.limit() - budget.used() - (1 << 20));
    let txn = db.begin(Isolation::ReadCommitted);
    let lock = |number| txn.lock(TABLE, &key(number), LockMode::Exclusive, LockWait::NoWait);
    let locked = (0..20_000).find(|number| lock(*number).is_err()).unwrap();
    assert!((4000..9000).contains(&locked), "{locked}");
    let used = budget.used();
    for number in locked..locked + 100 {
        assert_eq!(lock(number).unwrap_err().kind(), ErrorKind::LockTableFull);
        assert!(!refused(&db, number, LockMode::Exclusive));
    }
    assert_eq!(budget.used(), used);
    assert!(refused(&db, 0, LockMode::Shared) && refused(&db, locked - 1, LockMode::Shared));
    drop(others);
    assert!((locked..20_000).all(|number| lock(number).is_ok()), "room has come back");
    drop(txn);
    assert_eq!(budget.used(), before);
    assert!(!refused(&db, 0, LockMode::Exclusive));
}

/// LOCK-8: if memory is short, a transaction folds its locks before it is refused.
#[test]
fn locks_are_folded_before_one_is_refused() {
    let budget = Budget::new(1 << 30);
    let db = db(&budget);
    let _others = budget.charge(Use::Connections, budget.limit() - budget.used() - (2 << 20));
    let txn = db.begin(Isolation::ReadCommitted);
    for number in 0..60_000 {
        txn.lock(TABLE, &key(number), LockMode::Exclusive, LockWait::NoWait).unwrap();
    }
    assert!(budget.used() <= budget.limit());
}

/// LOCK-5: a row that a range has come to cover is compared with the snapshot at its first request.
#[test]
fn a_covered_row_is_compared_with_the_snapshot() {
    let db = db(&Budget::new(16 << 20));
    let change = |number| {
        let other = db.begin(Isolation::ReadCommitted);
        other.put(TABLE, &key(number), b"new").unwrap();
        other.commit().wait().unwrap();
    };
    change(0);
    let txn = db.begin(Isolation::RepeatableRead);
    txn.take_snapshot();
    change(777);
    let lock = |number| txn.lock(TABLE, &key(number), LockMode::Exclusive, LockWait::NoWait);
    for number in (0..20_000).filter(|number| *number != 777 && *number != 778) {
        lock(number).unwrap();
    }
    assert!(refused(&db, 777, LockMode::Shared), "the range covers it");
    assert_eq!(lock(777).unwrap_err().kind(), ErrorKind::WriteConflict);
    assert_eq!(txn.put(TABLE, &key(777), b"own").unwrap_err().kind(), ErrorKind::WriteConflict);
    // If nothing has changed, it may be written like any locked row.
    let mut value = Vec::new();
    let (mode, wait) = (LockMode::Exclusive, LockWait::Wait);
    assert!(!txn.get_locked(TABLE, &key(778), mode, wait, &mut value).unwrap());
    txn.put(TABLE, &key(778), b"own").unwrap();
    txn.put_guarded(TABLE, b"entry", Some(b""), (TABLE, &key(3))).unwrap();
    txn.commit().wait().unwrap();
    let reads = db.begin(Isolation::ReadCommitted);
    assert!(reads.get(TABLE, &key(778), &mut value).unwrap() && value == b"own");
}

/// SSI-2: notes of 131,072 reads would take 30 MiB. They fit 8 MiB, in any order, and are released.
#[test]
fn ssi_2_a_transaction_reads_more_than_the_budget_has_notes_for() {
    let budget = Budget::new(8 << 20);
    let db = db(&budget);
    let before = budget.used();
    let long = |number: u32| [&[7; 90][..], &key(number)].concat();
    for order in [(|number| number) as fn(u32) -> u32, scattered] {
        let (reader, writer) =
            (db.begin(Isolation::Serializable), db.begin(Isolation::Serializable));
        let (mut most, mut value) = (0, Vec::new());
        for number in (0..1 << 17).map(order) {
            assert!(!reader.get(TABLE, &long(number), &mut value).unwrap());
            most = most.max(budget.used_for(Use::Transactions));
        }
        assert!(most > 1 << 20 && most < 5 << 20, "{most}");
        // Folded notes count: each transaction reads a row that the other writes.
        assert!(!writer.get(TABLE, b"x", &mut value).unwrap());
        writer.put(TABLE, &long(77), b"1").unwrap();
        let refused = reader.put(TABLE, b"x", b"1").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::SerializationFailure);
        drop(reader);
        writer.commit().wait().unwrap();
        let clean = db.begin(Isolation::ReadCommitted);
        clean.delete(TABLE, &long(77)).unwrap();
        clean.commit().wait().unwrap();
        // A committed transaction is forgotten when the next one ends.
        db.begin(Isolation::Serializable).take_snapshot();
        assert_eq!(budget.used(), before);
    }
}

/// SSI-2: each of 200 readers depends on each of 200 writers, which takes 2 MB.
#[test]
fn ssi_2_dependencies_are_charged() {
    let budget = Budget::new(16 << 20);
    let db = db(&budget);
    let unused = budget.used();
    let begin = || db.begin(Isolation::Serializable);
    let writers: Vec<_> = (0..200).map(|_| begin()).collect();
    for (number, writer) in (0..).zip(&writers) {
        writer.take_snapshot();
        writer.put(TABLE, &key(number), b"1").unwrap();
    }
    let read = || {
        let reader = begin();
        let scan = reader.scan(TABLE, KeyRange::ALL, Direction::Forward).unwrap();
        let read = scan.map(|row| row.map(drop)).collect::<spillway_base::Result<Vec<_>>>();
        (reader, read)
    };
    let before = budget.used_for(Use::Transactions);
    let mut readers: Vec<_> = (0..200).map(|_| read()).collect();
    assert!(readers.iter().all(|(_, read)| read.is_ok()));
    let took = budget.used_for(Use::Transactions) - before;
    assert!(took > 3 << 19 && took < 3 << 20, "{took}");
    let others = budget.charge(Use::Connections, budget.limit() - budget.used());
    while readers.len() < 300 && readers.iter().all(|(_, read)| read.is_ok()) {
        readers.push(read());
    }
    let (reader, refused) = readers.pop().unwrap();
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::LockTableFull);
    drop(others);
    // It had its rows by then.
    let later = reader.get(TABLE, b"x", &mut Vec::new()).unwrap_err();
    assert_eq!(later.kind(), ErrorKind::SerializationFailure);
    drop((reader, readers));
    for writer in writers {
        writer.commit().wait().unwrap();
    }
    begin().take_snapshot();
    assert_eq!(budget.used(), unused);
}

/// SSI-2: a read that memory has no room for is refused, and the transaction continues.
#[test]
fn ssi_2_a_read_that_memory_has_no_room_for_is_refused() {
    let budget = Budget::new(4 << 20);
    let db = db(&budget);
    let others = budget.charge(Use::Connections, budget.limit() - budget.used());
    let txn = db.begin(Isolation::Serializable);
    let mut value = Vec::new();
    let refused = txn.get(TABLE, &[7; 40_000], &mut value).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::LockTableFull);
    assert!((0..1000).all(|number| txn.get(TABLE, &key(number), &mut value).is_ok()), "folded");
    drop(others);
    assert!(!txn.get(TABLE, &[7; 40_000], &mut value).unwrap());
    txn.commit().wait().unwrap();
}
