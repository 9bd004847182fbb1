//! Deleting ranges: RANGE-DELETE-1 to RANGE-DELETE-9 of `transaction/range`.

use std::collections::BTreeMap;

use spillway_base::rng::Rng;
use spillway_base::{Direction, Error, ErrorKind, KeyRange};

use super::*;
use Isolation::{ReadCommitted, RepeatableRead, Serializable};

const LEVELS: [Isolation; 3] = [ReadCommitted, RepeatableRead, Serializable];

fn name(number: u64) -> String {
    format!("{number:04}")
}

/// Deletes the rows of a range of numbers; returns how many there were.
fn delete(txn: &Transaction, from: u64, to: u64) -> Result<u64> {
    let (start, end) = (name(from), name(to));
    let range = KeyRange::new(start.as_bytes(), Some(end.as_bytes()));
    txn.delete_range(TABLE, range)
}

fn numbers(txn: &Transaction) -> Vec<u64> {
    let keys = keys(txn, Direction::Forward).unwrap();
    let mut back = keys_backward(txn);
    back.reverse();
    assert_eq!(keys, back);
    let there = |number: &u64| get(txn, &name(*number)).unwrap().is_some();
    let numbers: Vec<u64> = keys.iter().map(|key| key.parse().unwrap()).collect();
    assert_eq!(numbers, (0..300).filter(there).collect::<Vec<_>>());
    numbers
}

fn keys_backward(txn: &Transaction) -> Vec<String> {
    keys(txn, Direction::Backward).unwrap()
}

/// A database with rows of these numbers.
fn with_rows(rows: std::ops::Range<u64>) -> Db {
    let db = new();
    add(&db, rows);
    db
}

fn add(db: &Db, rows: std::ops::Range<u64>) {
    let txn = db.begin(ReadCommitted);
    rows.for_each(|number| put(&txn, &name(number), "value").unwrap());
    txn.commit().wait().unwrap();
}

fn rows(db: &Db) -> Vec<u64> {
    numbers(&db.begin(RepeatableRead))
}

/// RANGE-DELETE-1, RANGE-DELETE-4 and RANGE-DELETE-7 against a map, through savepoints, commits,
/// rollbacks and openings.
#[test]
fn range_delete_1_4_7_transactions_with_ranges_do_what_a_map_does() {
    let mut ranges = 0;
    for seed in 0..30 {
        let level = LEVELS[seed as usize % 3];
        let (disk, mut rng) = (SimDisk::new(seed), Rng::new(seed));
        let mut db = open(&disk).unwrap();
        let txn = db.begin(level);
        txn.create_table(TABLE).unwrap();
        txn.commit().wait().unwrap();
        let mut all: BTreeMap<u64, String> = BTreeMap::new();
        for _ in 0..12 {
            let (txn, mut here) = (db.begin(level), all.clone());
            let (mut savepoint, mut saved) = (txn.savepoint(), here.clone());
            for step in 0..rng.below(12) {
                let (from, count) = (rng.below(300), 1 + rng.below(200));
                match rng.below(8) {
                    6..8 => {
                        // All but a few, at various places.
                        let stays = |number: u64| number % 97 == seed % 5 || number == from + 3;
                        let (start, end) = (name(from), name(from + count));
                        let range = KeyRange::new(start.as_bytes(), Some(end.as_bytes()));
                        let deleted = txn.delete_rows(TABLE, range, |key, _, _| {
                            let number = std::str::from_utf8(key).unwrap().parse().unwrap();
                            Ok::<bool, Error>(!stays(number))
                        });
                        let before = here.len();
                        here.retain(|number, _| {
                            !(from..from + count).contains(number) || stays(*number)
                        });
                        assert_eq!(deleted.unwrap(), (before - here.len()) as u64);
                    }
                    0 | 5 => {
                        (from..(from + count).min(300)).for_each(|number| {
                            let value = format!("{seed} {step}");
                            put(&txn, &name(number), &value).unwrap();
                            here.insert(number, value);
                        });
                    }
                    1 => {
                        txn.delete(TABLE, name(from).as_bytes()).unwrap();
                        here.remove(&from);
                    }
                    2 => (savepoint, saved) = (txn.savepoint(), here.clone()),
                    3 => {
                        txn.rollback_to(savepoint);
                        here.clone_from(&saved);
                    }
                    _ => {
                        let gone: Vec<u64> =
                            here.range(from..from + count).map(|(number, _)| *number).collect();
                        let bytes = txn.written_bytes();
                        assert_eq!(delete(&txn, from, from + count).unwrap(), gone.len() as u64);
                        let more = txn.written_bytes() - bytes;
                        ranges += u64::from(gone.len() > 64 && more < 1000);
                        gone.iter().for_each(|number| drop(here.remove(number)));
                    }
                }
                assert_eq!(numbers(&txn), here.keys().copied().collect::<Vec<_>>());
            }
            if rng.chance(3, 4) {
                txn.commit().wait().unwrap();
                all = here;
            } else {
                txn.rollback();
            }
            if rng.chance(1, 4) {
                drop(db);
                db = open(&disk).unwrap();
            }
            let txn = db.begin(RepeatableRead);
            assert_eq!(numbers(&txn), all.keys().copied().collect::<Vec<_>>());
            for (number, value) in &all {
                assert_eq!(get(&txn, &name(*number)).unwrap().as_ref(), Some(value));
            }
        }
    }
    assert!(ranges > 20, "{ranges} were deleted at once");
}

/// RANGE-DELETE-1 and RANGE-DELETE-2: `visit` sees each row, and its rows are locked.
#[test]
fn range_delete_1_2_rows_are_shown_and_locked() {
    let db = with_rows(0..100);
    let txn = db.begin(RepeatableRead);
    put(&txn, &name(7), "own").unwrap();
    let mut seen = Vec::new();
    let deleted = txn.delete_rows(TABLE, KeyRange::ALL, |key, value, met| {
        if met != Met::Found {
            seen.push((key.to_vec(), value.to_vec()));
        }
        Ok::<bool, Error>(true)
    });
    assert_eq!((deleted.unwrap(), seen.len()), (100, 100));
    assert_eq!(seen[7], (name(7).into_bytes(), b"own".to_vec()));
    assert_eq!(seen[8], (name(8).into_bytes(), b"value".to_vec()));
    let other = db.begin(ReadCommitted);
    let lock = |number: u64| {
        other.lock(TABLE, name(number).as_bytes(), LockMode::Exclusive, LockWait::NoWait)
    };
    assert_eq!(lock(50).unwrap_err().kind(), ErrorKind::LockNotAvailable);
    assert!(lock(150).unwrap(), "nobody was there");
    let read_only = db.manager.begin(TransactionOptions::new().read_only(true));
    assert_eq!(delete(&read_only, 0, 10).unwrap_err().kind(), ErrorKind::ReadOnlyTransaction);
    assert_eq!(delete(&txn, 10, 10).unwrap(), 0);
}

/// RANGE-DELETE-3: rows inserted after the snapshot stay, whether committed before the deletion or
/// after it.
#[test]
fn range_delete_3_rows_that_it_does_not_see_stay() {
    let db = with_rows(0..100);
    let txn = db.begin(RepeatableRead);
    txn.take_snapshot();
    add(&db, 150..152);
    let (one, other) = (db.begin(RepeatableRead), db.begin(RepeatableRead));
    put(&one, &name(160), "one").unwrap();
    put(&other, &name(170), "other").unwrap();
    assert_eq!(delete(&txn, 0, 200).unwrap(), 100);
    one.commit().wait().unwrap();
    assert_eq!(numbers(&txn), []);
    txn.commit().wait().unwrap();
    assert_eq!(rows(&db), [150, 151, 160]);
    other.commit().wait().unwrap();
    assert_eq!(rows(&db), [150, 151, 160, 170]);
}

/// RANGE-DELETE-5: first committer wins, on both sides.
#[test]
fn range_delete_5_whoever_comes_second_is_refused() {
    for level in [RepeatableRead, Serializable] {
        let db = with_rows(0..100);
        let (late, stays) = (db.begin(level), db.begin(level));
        late.take_snapshot();
        stays.take_snapshot();
        let txn = db.begin(level);
        assert_eq!(delete(&txn, 0, 200).unwrap(), 100);
        txn.commit().wait().unwrap();
        assert_eq!(numbers(&stays).len(), 100, "it reads what it read");
        for number in [5, 150] {
            let refused = put(&late, &name(number), "late").unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::WriteConflict);
        }
        assert!(put(&late, &name(250), "late").is_ok());

        let db = with_rows(0..100);
        let late = db.begin(level);
        late.take_snapshot();
        db.set(&name(70), "new");
        assert_eq!(delete(&late, 0, 200).unwrap_err().kind(), ErrorKind::WriteConflict);
        assert!(!late.has_writes(), "RANGE-DELETE-8");
        late.rollback();
        assert_eq!(rows(&db).len(), 100);
    }
}

/// RANGE-DELETE-1, NEWEST-2 under READ COMMITTED: a row that has changed since the scan began
/// counts in the version at its locking, and rows ahead in theirs.
#[test]
fn range_delete_1_read_committed_deletes_what_is_there() {
    for gone in [false, true] {
        let db = with_rows(0..100);
        let txn = db.begin(ReadCommitted);
        let (mut first, mut met_so) = (true, Vec::new());
        let deleted = txn.delete_rows(TABLE, KeyRange::ALL, |key, value, met| {
            if std::mem::take(&mut first) {
                let other = db.begin(ReadCommitted);
                match gone {
                    true => other.delete(TABLE, name(30).as_bytes())?,
                    false => put(&other, &name(30), "newer")?,
                }
                other.delete(TABLE, name(31).as_bytes())?;
                put(&other, &name(120), "ahead")?;
                other.commit().wait()?;
            }
            if met != Met::Found && met != Met::Locked {
                met_so.push((key.to_vec(), value.to_vec(), met));
            }
            assert_ne!(key, name(31).as_bytes());
            Ok::<bool, Error>(true)
        });
        assert_eq!(deleted.unwrap(), if gone { 99 } else { 100 });
        let key = name(30).into_bytes();
        let expected = match gone {
            true => (key, b"value".to_vec(), Met::Gone),
            false => (key, b"newer".to_vec(), Met::Newer),
        };
        assert_eq!(met_so, [expected]);
        assert_eq!(numbers(&txn), []);
        txn.commit().wait().unwrap();
        assert_eq!(rows(&db), []);
    }
}

/// RANGE-DELETE-6: a reader that a deletion overtook is a pivot, as with single deletions.
#[test]
fn range_delete_6_serializable_transactions_see_each_others_ranges() {
    for at_once in [40, 100] {
        let db = with_rows(0..at_once);
        let (one, other) = (db.begin(Serializable), db.begin(Serializable));
        // Each reads a row that the other deletes.
        assert!(get(&one, &name(35)).unwrap().is_some());
        db.set(&name(200), "value");
        assert_eq!(get(&other, &name(200)).unwrap().as_deref(), Some("value"));
        let outcome = delete(&other, 0, 100).map(drop).and_then(|()| {
            one.delete(TABLE, name(200).as_bytes())?;
            other.commit().wait()?;
            one.commit().wait().map(drop)
        });
        assert!(outcome.is_err(), "write skew over {at_once} rows");
    }
}

/// RANGE-DELETE-8: the pending rows of a failed deletion are not written.
#[test]
fn range_delete_8_a_failed_deletion_deletes_nothing() {
    let db = with_rows(0..100);
    let txn = db.begin(RepeatableRead);
    put(&txn, &name(3), "own").unwrap();
    let mut left = 160;
    txn.create_table(TableId(2)).unwrap();
    let failed = txn.delete_rows(TABLE, KeyRange::ALL, |key, _, _| {
        left -= 1;
        txn.put(TableId(2), key, b"noted")?;
        if left == 0 { Err(Error::invalid("enough")) } else { Ok(true) }
    });
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(numbers(&txn).len(), 100);
    assert!(!txn.get(TableId(2), name(1).as_bytes(), &mut Vec::new()).unwrap());
    txn.commit().wait().unwrap();
    assert_eq!((rows(&db).len(), db.value(&name(3)).as_deref()), (100, Some("own")));
}

/// A table that the transaction created has nothing that others could see.
#[test]
fn range_delete_4_a_new_table_is_emptied_row_by_row() {
    let db = new();
    let txn = db.begin(RepeatableRead);
    let table = TableId(9);
    txn.create_table(table).unwrap();
    for number in 0..100 {
        txn.put(table, name(number).as_bytes(), b"value").unwrap();
    }
    let half = name(50);
    let range = KeyRange::new(half.as_bytes(), None);
    assert_eq!(txn.delete_range(table, range).unwrap(), 50);
    txn.commit().wait().unwrap();
    let reader = db.begin(ReadCommitted);
    let left = reader.scan(table, KeyRange::ALL, Direction::Forward).unwrap().count();
    assert_eq!(left, 50);
}

/// RANGE-DELETE-7: many successions of deleted rows become few ranges, and all rows are hidden.
#[test]
fn range_delete_7_a_transaction_has_few_ranges_however_many_runs_go() {
    const ROWS: u64 = 65 * 40;
    let name = |number: u64| format!("{number:06}");
    let db = new();
    let txn = db.begin(ReadCommitted);
    (0..ROWS).for_each(|number| put(&txn, &name(number), "value").unwrap());
    txn.commit().wait().unwrap();
    let txn = db.begin(RepeatableRead);
    let stays = |key: &[u8]| std::str::from_utf8(key).unwrap().parse::<u64>().unwrap() % 65 == 0;
    let deleted = txn.delete_rows(TABLE, KeyRange::ALL, |key, _, _| Ok::<_, Error>(!stays(key)));
    assert_eq!(deleted.unwrap(), ROWS - ROWS / 65);
    assert_eq!(txn.ranges(), 32, "later ones would have to stand for more rows each");
    assert_eq!(keys(&txn, Direction::Forward).unwrap().len() as u64, ROWS / 65);
    assert_eq!(keys_backward(&txn).len() as u64, ROWS / 65);
    txn.commit().wait().unwrap();
    let left = keys(&db.begin(RepeatableRead), Direction::Forward).unwrap();
    assert!(left.len() as u64 == ROWS / 65 && left.iter().all(|key| stays(key.as_bytes())));
}

/// RANGE-DELETE-9: rows without an operation of their own take their locks' memory.
#[test]
fn range_delete_9_more_rows_than_memory_has_locks_for_are_refused() {
    for level in LEVELS {
        let budget = Budget::new(1 << 20);
        let db = open_on(&SimDisk::new(1), &log(1), ModelEngine::new(), &budget).unwrap();
        let txn = db.begin(ReadCommitted);
        txn.create_table(TABLE).unwrap();
        txn.commit().wait().unwrap();
        for first in (0..16_000).step_by(2_000) {
            let txn = db.begin(ReadCommitted);
            for number in first..first + 2_000 {
                put(&txn, &format!("{number:06}"), "").unwrap();
            }
            txn.commit().wait().unwrap();
        }
        let txn = db.begin(level);
        let refused = txn.delete_range(TABLE, KeyRange::ALL).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::LockTableFull);
        assert!(!txn.has_writes());
        drop(txn);
        // A part of it fits the memory.
        let txn = db.begin(level);
        assert_eq!(txn.delete_range(TABLE, KeyRange::new(b"", Some(b"003000"))).unwrap(), 3_000);
        txn.commit().wait().unwrap();
    }
}
