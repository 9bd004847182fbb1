//! The anomalies that each isolation level excludes (decision 012), under the names that Adya and
//! Hermitage give them.

use spillway_base::{Direction, ErrorKind, KeyRange};

use super::*;
use Isolation::{ReadCommitted, RepeatableRead, Serializable};

const ALL: [Isolation; 3] = [ReadCommitted, RepeatableRead, Serializable];

/// Whether a lock is granted without a wait.
fn locked(txn: &Transaction, key: &str) -> bool {
    let wait = LockWait::NoWait;
    match txn.lock(TABLE, key.as_bytes(), LockMode::Exclusive, wait) {
        Ok(_) => false,
        Err(error) => error.kind() == ErrorKind::LockNotAvailable,
    }
}

#[test]
fn g0_writes_do_not_interleave() {
    for level in ALL {
        let db = new();
        let (a, b) = (db.begin(level), db.begin(level));
        put(&a, "x", "1").unwrap();
        assert!(locked(&b, "x"), "{level:?}");
        put(&a, "y", "1").unwrap();
        a.commit().wait().unwrap();
        put(&b, "x", "2").unwrap();
        put(&b, "y", "2").unwrap();
        b.commit().wait().unwrap();
        assert_eq!((db.value("x"), db.value("y")), (Some("2".into()), Some("2".into())));
    }
}

#[test]
fn g1a_g1b_uncommitted_values_are_never_read() {
    for level in ALL {
        let db = new();
        db.set("x", "0");
        let (a, b) = (db.begin(level), db.begin(level));
        put(&a, "x", "1").unwrap();
        assert_eq!(get(&b, "x").unwrap().as_deref(), Some("0"));
        put(&a, "x", "2").unwrap();
        a.rollback();
        assert_eq!(get(&b, "x").unwrap().as_deref(), Some("0"), "{level:?}");
    }
}

#[test]
fn g1c_two_transactions_do_not_read_each_other() {
    for level in ALL {
        let db = new();
        db.set("x", "0");
        db.set("y", "0");
        let (a, b) = (db.begin(level), db.begin(level));
        put(&a, "x", "1").unwrap();
        put(&b, "y", "1").unwrap();
        let read_a = get(&a, "y").unwrap();
        let read_b = get(&b, "x");
        assert_eq!(read_a.as_deref(), Some("0"));
        let second = read_b.map(|value| assert_eq!(value.as_deref(), Some("0")));
        let ends = [a.commit().wait().map(drop), second.and_then(|()| b.commit().wait().map(drop))];
        assert_eq!(ends.iter().any(Result::is_err), level == Serializable, "{level:?}");
    }
}

#[test]
fn otv_a_transaction_is_not_seen_in_parts() {
    for level in [RepeatableRead, Serializable] {
        let db = new();
        db.set("x", "0");
        db.set("y", "0");
        let reader = db.begin(level);
        assert_eq!(get(&reader, "x").unwrap().as_deref(), Some("0"));
        let writer = db.begin(level);
        put(&writer, "x", "1").unwrap();
        put(&writer, "y", "1").unwrap();
        writer.commit().wait().unwrap();
        assert_eq!(get(&reader, "y").unwrap().as_deref(), Some("0"), "{level:?}");
    }
    let db = new();
    db.set("x", "0");
    let reader = db.begin(ReadCommitted);
    assert_eq!(get(&reader, "x").unwrap().as_deref(), Some("0"));
    db.set("x", "1");
    assert_eq!(get(&reader, "x").unwrap().as_deref(), Some("1"), "each read its own snapshot");
    reader.begin_statement();
    assert_eq!(get(&reader, "x").unwrap().as_deref(), Some("1"));
    db.set("x", "2");
    assert_eq!(get(&reader, "x").unwrap().as_deref(), Some("1"), "one statement, one snapshot");
}

#[test]
fn pmp_a_range_keeps_its_rows() {
    for level in ALL {
        let db = new();
        db.set("a", "0");
        let reader = db.begin(level);
        assert_eq!(keys(&reader, Direction::Forward).unwrap(), ["a"]);
        db.set("b", "0");
        let wanted: &[&str] = if level == ReadCommitted { &["a", "b"] } else { &["a"] };
        assert_eq!(keys(&reader, Direction::Forward).unwrap(), wanted, "{level:?}");
    }
}

#[test]
fn p4_an_update_is_not_lost() {
    for level in ALL {
        let db = new();
        db.set("x", "0");
        let (a, b) = (db.begin(level), db.begin(level));
        get(&a, "x").unwrap();
        get(&b, "x").unwrap();
        put(&a, "x", "a").unwrap();
        a.commit().wait().unwrap();
        let second = put(&b, "x", "b");
        match level {
            // The classic lost update, which READ COMMITTED allows.
            ReadCommitted => second.unwrap(),
            _ => assert_eq!(second.unwrap_err().kind(), ErrorKind::WriteConflict),
        }
    }
}

#[test]
fn g_single_a_read_does_not_skew() {
    for level in ALL {
        let db = new();
        db.set("x", "0");
        db.set("y", "0");
        let reader = db.begin(level);
        let x = get(&reader, "x").unwrap();
        let writer = db.begin(level);
        put(&writer, "x", "1").unwrap();
        put(&writer, "y", "1").unwrap();
        writer.commit().wait().unwrap();
        let same = get(&reader, "y").unwrap() == x;
        assert_eq!(same, level != ReadCommitted);
    }
}

/// Two transactions each read the row that the other writes. Returns whether both committed.
fn skew(level: Isolation, read: fn(&Transaction, &str) -> Result<()>) -> bool {
    let db = new();
    db.set("x", "0");
    db.set("y", "0");
    let (a, b) = (db.begin(level), db.begin(level));
    let run = || -> Result<()> {
        read(&a, "x")?;
        read(&a, "y")?;
        read(&b, "x")?;
        read(&b, "y")?;
        put(&a, "x", "1")?;
        put(&b, "y", "1")
    };
    let ran = run();
    let (a, b) = (a.commit().wait(), b.commit().wait());
    assert!(a.is_ok() || b.is_ok() || ran.is_err());
    ran.is_ok() && a.is_ok() && b.is_ok()
}

#[test]
fn g2_item_writes_skew_below_serializable_only() {
    let read = |txn: &Transaction, key: &str| get(txn, key).map(drop);
    assert!(skew(ReadCommitted, read) && skew(RepeatableRead, read));
    assert!(!skew(Serializable, read));
}

/// Of two transactions that cannot both commit, one can.
#[test]
fn a_skew_that_was_undone_refuses_nobody() {
    let db = new();
    db.set("x", "0");
    db.set("y", "0");
    let (a, b) = (db.begin(Serializable), db.begin(Serializable));
    for txn in [&a, &b] {
        get(txn, "x").unwrap();
        get(txn, "y").unwrap();
    }
    put(&a, "x", "1").unwrap();
    assert_eq!(put(&b, "y", "1").unwrap_err().kind(), ErrorKind::SerializationFailure);
    b.rollback();
    a.commit().wait().unwrap();
}

#[test]
fn g2_predicate_writes_skew_below_serializable_only() {
    let run = |level: Isolation| {
        let db = new();
        let (a, b) = (db.begin(level), db.begin(level));
        let both = || -> Result<()> {
            keys(&a, Direction::Forward)?;
            keys(&b, Direction::Backward)?;
            put(&a, "a", "1")?;
            put(&b, "b", "1")
        };
        let ran = both();
        let ends = (a.commit().wait(), b.commit().wait());
        ran.is_ok() && ends.0.is_ok() && ends.1.is_ok()
    };
    assert!(run(ReadCommitted) && run(RepeatableRead));
    assert!(!run(Serializable));
}

#[test]
fn a_read_only_transaction_can_expose_a_skew_and_is_then_refused() {
    // Fekete, O'Neil, O'Neil: the reader sees a state that no serial order has.
    let db = new();
    db.set("checking", "0");
    db.set("saving", "0");
    let withdraw = db.begin(Serializable);
    get(&withdraw, "checking").unwrap();
    get(&withdraw, "saving").unwrap();
    let deposit = db.begin(Serializable);
    get(&deposit, "saving").unwrap();
    put(&deposit, "saving", "20").unwrap();
    deposit.commit().wait().unwrap();
    let report = db.begin(Serializable);
    assert_eq!(get(&report, "saving").unwrap().as_deref(), Some("20"));
    get(&report, "checking").unwrap();
    report.commit().wait().unwrap();
    let refused =
        put(&withdraw, "checking", "-11").and_then(|()| withdraw.commit().wait().map(drop));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::SerializationFailure);
}

/// The first keys of all, in a direction; the scan is then dropped.
fn first(txn: &Transaction, direction: Direction, count: usize) -> Vec<String> {
    let scan = txn.scan(TABLE, KeyRange::ALL, direction).unwrap();
    scan.take(count).map(|row| String::from_utf8(row.unwrap().0).unwrap()).collect()
}

/// A scan that stops has read up to the last row that it returned, and no further. Of two
/// transactions that read so and write, one is refused if each wrote into the range that the other
/// read, and none if one wrote after it, in either order of read and write.
#[test]
fn what_a_scan_did_not_come_to_is_no_phantom() {
    for direction in [Direction::Forward, Direction::Backward] {
        for write_first in [false, true] {
            for (key, skews) in [("a", true), ("b", true), ("bb", true), ("c", true), ("cc", false)]
            {
                // In a backward scan, the keys after the scan's position are the lower ones.
                let (read, key) = match direction {
                    Direction::Forward => (["b", "c"], key.to_owned()),
                    Direction::Backward => {
                        let mirrored = [("a", "z"), ("b", "y"), ("bb", "xx"), ("c", "x")];
                        let found = mirrored.iter().find(|(from, _)| *from == key);
                        (["y", "x"], found.map_or("w", |(_, to)| to).to_owned())
                    }
                };
                let db = new();
                ["b", "c", "d", "m", "x", "y"].iter().for_each(|key| db.set(key, "0"));
                let (one, two) = (db.begin(Serializable), db.begin(Serializable));
                one.take_snapshot();
                let write = || {
                    get(&two, "m").unwrap();
                    put(&two, &key, "1").unwrap();
                };
                if write_first {
                    write();
                }
                assert_eq!(first(&one, direction, 2), read);
                if !write_first {
                    write();
                }
                let ends = [
                    put(&one, "m", "1").and_then(|()| one.commit().wait().map(drop)),
                    two.commit().wait().map(drop),
                ];
                let refused = ends.iter().filter(|end| end.is_err()).count();
                assert_eq!(refused, usize::from(skews), "{direction:?} {write_first} {key}");
            }
        }
    }
}

/// A conflict that a scan finds only when it is dropped refuses its transaction at the next step.
/// Here the writer was not refused and is committed.
#[test]
fn a_scan_that_is_let_go_may_refuse_its_transaction() {
    let db = new();
    ["b", "c", "m"].iter().for_each(|key| db.set(key, "0"));
    let (report, one, two) =
        (db.begin(Serializable), db.begin(Serializable), db.begin(Serializable));
    report.take_snapshot();
    // `two` reads the row that `one` writes, and is committed after it; `report` sees neither.
    get(&two, "m").unwrap();
    put(&two, "b", "2").unwrap();
    put(&one, "m", "1").unwrap();
    one.commit().wait().unwrap();
    two.commit().wait().unwrap();
    assert_eq!(first(&report, Direction::Forward, 1), ["b"]);
    for _ in 0..2 {
        let refused = get(&report, "x").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::SerializationFailure);
    }
    let ended = report.commit().wait();
    assert_eq!(ended.unwrap_err().kind(), ErrorKind::SerializationFailure);
}

/// A first statement that starts over has read nothing.
#[test]
fn what_was_read_before_a_start_over_does_not_count() {
    let db = new();
    ["b", "c"].iter().for_each(|key| db.set(key, "0"));
    let (over, other) = (db.begin(Serializable), db.begin(Serializable));
    assert_eq!(first(&over, Direction::Forward, 2), ["b", "c"]);
    get(&other, "x").unwrap();
    put(&other, "b", "1").unwrap();
    other.commit().wait().unwrap();
    assert_eq!(put(&over, "b", "2").unwrap_err().kind(), ErrorKind::WriteConflict);
    over.forget_snapshot();
    assert_eq!(first(&over, Direction::Forward, 1), ["b"]);
    let late = db.begin(Serializable);
    get(&late, "x").unwrap();
    put(&over, "x", "2").unwrap();
    put(&over, "b", "2").unwrap();
    over.commit().wait().unwrap();
    late.commit().wait().unwrap();
}

/// One transaction reads y and writes x, and is committed before the other, whose snapshot is
/// older, has read anything.
#[test]
fn a_snapshot_counts_before_anything_is_read_at_it() {
    // If the first commit is not durable yet, the other's snapshot is older even if it begins
    // later.
    for (taken_first, durable) in [(true, true), (true, false), (false, false)] {
        let db = new();
        db.set("x", "0");
        db.set("y", "0");
        let late = db.begin(Serializable);
        if taken_first {
            late.take_snapshot();
        }
        let early = db.begin(Serializable);
        assert_eq!(get(&early, "y").unwrap().as_deref(), Some("0"));
        put(&early, "x", "1").unwrap();
        let early = early.commit();
        if durable {
            early.wait().unwrap();
            // The end of another transaction makes the tracker forget members without concurrent
            // transactions.
            let other = db.begin(Serializable);
            get(&other, "z").unwrap();
            other.commit().wait().unwrap();
        }
        let refused = get(&late, "x").and_then(|x| {
            assert_eq!(x.as_deref(), Some("0"));
            put(&late, "y", "1")?;
            late.commit().wait().map(drop)
        });
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::SerializationFailure, "{taken_first}");
    }
}

#[test]
fn what_serializable_remembers_goes_with_its_readers() {
    let db = new();
    for round in 0..10 {
        let txn = db.begin(Serializable);
        keys(&txn, Direction::Forward).unwrap();
        put(&txn, &format!("k{round}"), "1").unwrap();
        txn.commit().wait().unwrap();
        drop(db.begin(Serializable));
        // The last one was not durable yet, and so might have had a concurrent one.
        assert!(db.manager.0.serializable.members() <= 1);
    }
    let last = db.begin(Serializable);
    get(&last, "k0").unwrap();
    last.commit().wait().unwrap();
    assert_eq!(db.manager.0.serializable.members(), 0);
}

#[test]
fn a_first_statement_that_locks_never_finds_its_snapshot_stale() {
    let db = new();
    db.set("x", "0");
    let a = db.begin(RepeatableRead);
    put(&a, "x", "1").unwrap();
    a.commit().wait().unwrap();
    let b = db.begin(RepeatableRead);
    let mut value = Vec::new();
    db.set("x", "2");
    assert!(b.get_locked(TABLE, b"x", LockMode::Exclusive, LockWait::Wait, &mut value).unwrap());
    assert_eq!((value.as_slice(), b.snapshot_taken()), (&b"2"[..], true));
    put(&b, "x", "3").unwrap();
    // A second statement finds a row that was changed meanwhile.
    db.set("y", "9");
    assert_eq!(put(&b, "y", "1").unwrap_err().kind(), ErrorKind::WriteConflict);
    b.forget_snapshot();
    put(&b, "y", "1").unwrap();
    b.commit().wait().unwrap();
    assert_eq!((db.value("x"), db.value("y")), (Some("3".into()), Some("1".into())));
}

#[test]
fn a_lock_left_by_a_refusal_does_not_let_an_update_be_lost() {
    for level in [RepeatableRead, Serializable] {
        let db = new();
        db.set("x", "0");
        let txn = db.begin(level);
        get(&txn, "x").unwrap();
        db.set("x", "1");
        let duplicate = txn.insert(TABLE, b"x", b"2").unwrap_err();
        // Under SERIALIZABLE a duplicate is a read (SSI-1), and the snapshot has another row.
        let told = match level {
            Serializable => ErrorKind::WriteConflict,
            _ => ErrorKind::DuplicateKey,
        };
        assert_eq!(duplicate.kind(), told);
        for _ in 0..2 {
            let lost = put(&txn, "x", "3").unwrap_err();
            assert_eq!(lost.kind(), ErrorKind::WriteConflict, "{level:?}");
        }
    }
}

#[test]
fn a_key_that_follows_from_another_is_locked_and_not_compared() {
    for level in [RepeatableRead, Serializable] {
        let db = new();
        db.set("row", "0");
        let txn = db.begin(level);
        get(&txn, "row").unwrap();
        db.set("entry", "other's");
        txn.put_following(TABLE, b"entry", None).unwrap();
        txn.put_following(TABLE, b"entry", Some(b"own")).unwrap();
        assert!(locked(&db.begin(level), "entry"), "{level:?}");
        txn.commit().wait().unwrap();
        assert_eq!(db.value("entry"), Some("own".into()), "{level:?}");
        let read_only = db.manager.begin(TransactionOptions::new().read_only(true));
        let refused = read_only.put_following(TABLE, b"entry", None).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ReadOnlyTransaction);
        let row = (TABLE, b"row".as_slice());
        let refused = read_only.put_guarded(TABLE, b"entry", None, row).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ReadOnlyTransaction);
        let guarded = db.begin(level);
        guarded.put(TABLE, b"row", b"1").unwrap();
        guarded.put_guarded(TABLE, b"entry", Some(b"guarded"), row).unwrap();
        assert!(!locked(&db.begin(level), "entry"), "{level:?}");
        guarded.commit().wait().unwrap();
        assert_eq!(db.value("entry"), Some("guarded".into()), "{level:?}");
    }
}

#[test]
fn a_transaction_knows_which_commits_it_sees() {
    let db = new();
    let commit = || {
        let txn = db.begin(ReadCommitted);
        put(&txn, "x", "1").unwrap();
        txn.commit().wait().unwrap()
    };
    let first = commit();
    let (kept, renewed) = (db.begin(RepeatableRead), db.begin(ReadCommitted));
    assert!(kept.sees(first) && renewed.sees(first));
    let second = commit();
    assert!(!kept.sees(second) && renewed.sees(second));
}

#[test]
fn a_scan_of_the_newest_state_sees_past_the_snapshot() {
    for level in ALL {
        let db = new();
        db.set("a1", "0");
        db.set("a2", "0");
        let txn = db.begin(level);
        keys(&txn, Direction::Forward).unwrap();
        db.set("a3", "0");
        let other = db.begin(level);
        other.delete(TABLE, b"a1").unwrap();
        other.commit().wait().unwrap();
        put(&txn, "a4", "0").unwrap();
        txn.delete(TABLE, b"a2").unwrap();
        let newest = |direction| -> Vec<String> {
            let scan = txn.scan_newest(TABLE, KeyRange::new(b"a", Some(b"b")), direction).unwrap();
            scan.map(|row| String::from_utf8(row.unwrap().0).unwrap()).collect()
        };
        assert_eq!(newest(Direction::Forward), ["a3", "a4"], "{level:?}");
        assert_eq!(newest(Direction::Backward), ["a4", "a3"], "{level:?}");
    }
}

#[test]
fn an_insert_finds_duplicates_of_any_age() {
    let db = new();
    let txn = db.begin(RepeatableRead);
    assert_eq!(get(&txn, "x").unwrap(), None);
    db.set("x", "1");
    let kind = |outcome: Result<()>| outcome.unwrap_err().kind();
    assert_eq!(kind(txn.insert(TABLE, b"x", b"2")), ErrorKind::DuplicateKey);
    txn.insert(TABLE, b"y", b"1").unwrap();
    assert_eq!(kind(txn.insert(TABLE, b"y", b"1")), ErrorKind::DuplicateKey);
    txn.delete(TABLE, b"y").unwrap();
    txn.insert(TABLE, b"y", b"2").unwrap();
}

#[test]
fn scans_overlay_own_writes_in_both_directions() {
    let db = new();
    for key in ["b", "d", "f"] {
        db.set(key, "old");
    }
    let txn = db.begin(RepeatableRead);
    for key in ["a", "c", "g"] {
        put(&txn, key, "own").unwrap();
    }
    txn.delete(TABLE, b"d").unwrap();
    put(&txn, "f", "new").unwrap();
    assert_eq!(keys(&txn, Direction::Forward).unwrap(), ["a", "b", "c", "f", "g"]);
    assert_eq!(keys(&txn, Direction::Backward).unwrap(), ["g", "f", "c", "b", "a"]);
    let middle = KeyRange::new(b"b", Some(b"g"));
    let mut scan = txn.scan(TABLE, middle, Direction::Forward).unwrap();
    assert!(scan.advance().unwrap() && scan.key() == b"b" && scan.value() == b"old");
    put(&txn, "bb", "late").unwrap();
    assert!(scan.advance().unwrap() && scan.key() == b"bb");
    assert!(scan.advance().unwrap() && scan.key() == b"c" && scan.value() == b"own");
    assert!(scan.advance().unwrap() && scan.value() == b"new");
    assert!(!scan.advance().unwrap());
}

/// CURSOR-2: the transaction sees its concurrent writes after the rows that were fetched together,
/// and not among them.
#[test]
fn own_writes_come_behind_rows_that_were_taken_together() {
    let db = new();
    for key in ["b", "d", "f", "h"] {
        db.set(key, "old");
    }
    let txn = db.begin(RepeatableRead);
    let mut scan = txn.scan(TABLE, KeyRange::ALL, Direction::Forward).unwrap();
    let taken = |scan: &Scan<'_>| {
        let mut taken = Vec::new();
        scan.rows(&mut |key, value| {
            taken.push((key.to_vec(), value.to_vec()));
            true
        });
        taken
    };
    let row = |key: &str, value: &str| (key.as_bytes().to_vec(), value.as_bytes().to_vec());
    assert_eq!(scan.advance_rows(2).unwrap(), 2);
    put(&txn, "c", "late").unwrap();
    put(&txn, "d", "late").unwrap();
    put(&txn, "e", "own").unwrap();
    txn.delete(TABLE, b"f").unwrap();
    assert_eq!(taken(&scan), [row("b", "old"), row("d", "old")]);
    assert_eq!(scan.key(), b"d");
    assert_eq!(scan.advance_rows(9).unwrap(), 1);
    assert_eq!(taken(&scan), [row("e", "own")]);
    assert_eq!(scan.advance_rows(9).unwrap(), 1);
    assert_eq!(taken(&scan), [row("h", "old")]);
    assert_eq!((scan.advance_rows(9).unwrap(), taken(&scan)), (0, Vec::new()));
}

/// Under SERIALIZABLE only fetched rows count as read.
#[test]
fn rows_behind_those_that_were_asked_for_do_not_count_as_read() {
    for (written, is_read) in [("a", true), ("b", false)] {
        let db = new();
        for key in ["a", "b", "c", "other"] {
            db.set(key, "0");
        }
        let [one, other] = [(); 2].map(|()| db.begin(Serializable));
        let mut scan = one.scan(TABLE, KeyRange::ALL, Direction::Forward).unwrap();
        assert_eq!(scan.advance_rows(9).unwrap(), 1);
        drop(scan);
        get(&other, "other").unwrap();
        let puts = [put(&one, "other", "1").is_ok(), put(&other, written, "1").is_ok()];
        let commits = [one, other].map(|txn| txn.commit().wait().is_ok());
        assert_eq!(puts.iter().chain(&commits).any(|done| !done), is_read, "{written}");
    }
}

#[test]
fn savepoints_undo_writes_and_keep_locks() {
    let db = new();
    db.set("x", "0");
    let txn = db.begin(RepeatableRead);
    put(&txn, "x", "1").unwrap();
    let outer = txn.savepoint();
    put(&txn, "x", "2").unwrap();
    let inner = txn.savepoint();
    txn.delete(TABLE, b"x").unwrap();
    put(&txn, "y", "1").unwrap();
    txn.rollback_to(inner);
    assert_eq!((get(&txn, "x").unwrap().as_deref(), get(&txn, "y").unwrap()), (Some("2"), None));
    txn.rollback_to(outer);
    assert_eq!(get(&txn, "x").unwrap().as_deref(), Some("1"));
    assert!(locked(&db.begin(RepeatableRead), "y"));
    txn.commit().wait().unwrap();
    assert_eq!((db.value("x"), db.value("y")), (Some("1".into()), None));
}

#[test]
fn a_value_past_what_a_commit_holds_is_refused_and_commits_nothing_by_itself() {
    let db = new();
    let txn = db.begin(RepeatableRead);
    put(&txn, "small", "1").unwrap();
    let large = "v".repeat(crate::pipeline::BATCH_BYTES_MAX + 1);
    let refused = put(&txn, "large", &large).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TransactionTooLarge);
    drop(txn);
    assert_eq!(db.value("small"), None);
    let read_only = db.manager.begin(TransactionOptions::new().read_only(true));
    assert_eq!(put(&read_only, "x", "1").unwrap_err().kind(), ErrorKind::ReadOnlyTransaction);
}

#[test]
fn tables_are_created_and_dropped_with_their_transaction() {
    let db = new();
    let other = TableId(2);
    let txn = db.begin(RepeatableRead);
    txn.create_table(other).unwrap();
    txn.put(other, b"k", b"v").unwrap();
    assert_eq!(txn.scan(other, KeyRange::ALL, Direction::Forward).unwrap().count(), 1);
    drop(txn);
    assert_eq!(db.engine.tables(), [TABLE]);
    let txn = db.begin(RepeatableRead);
    txn.create_table(other).unwrap();
    txn.put(other, b"k", b"v").unwrap();
    txn.drop_table(TABLE).unwrap();
    txn.commit().wait().unwrap();
    assert_eq!(db.engine.tables(), [other]);
}

#[test]
fn concurrent_increments_add_up_at_every_level() {
    for level in ALL {
        let db = new();
        db.set("n", "0");
        spillway_base::thread::together(4, |_| {
            let mut done = 0;
            while done < 100 {
                let txn = db.begin(level);
                let step = || -> Result<()> {
                    let mut value = Vec::new();
                    let mode = LockMode::Exclusive;
                    txn.get_locked(TABLE, b"n", mode, LockWait::Wait, &mut value)?;
                    let n: u64 = String::from_utf8(value).unwrap().parse().unwrap();
                    put(&txn, "n", &(n + 1).to_string())
                };
                match step().and_then(|()| txn.commit().wait().map(drop)) {
                    Ok(()) => done += 1,
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::SerializationFailure);
                        assert_eq!(level, Serializable);
                    }
                }
            }
        });
        assert_eq!(db.value("n").as_deref(), Some("400"), "{level:?}");
    }
}

/// Otherwise a transaction that sees the commit would count as concurrent, and be refused
/// needlessly.
#[test]
fn a_serializable_commit_has_its_number_before_it_is_seen() {
    let db = new();
    let manager = std::sync::Arc::downgrade(&db.manager.0);
    let (told, seen) = std::sync::mpsc::channel();
    db.engine.watch_install(move |csn| {
        let known = manager.upgrade().unwrap().serializable.numbers();
        told.send((known, vec![csn])).unwrap();
    });
    // A concurrent transaction, because of which it is remembered.
    let beside = db.begin(Serializable);
    get(&beside, "x").unwrap();
    let txn = db.begin(Serializable);
    put(&txn, "x", "1").unwrap();
    txn.commit().wait().unwrap();
    let (known, wanted) = seen.recv().unwrap();
    assert_eq!(known, wanted);
}
