//! The commit pipeline and recovery over a disk that fails (decisions 002, 003, 005 and 006).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use spillway_base::batch::{Op, WriteBatch};
use spillway_base::rng::Rng;
use spillway_base::wake_count::counted_waker;
use spillway_base::{Csn, Direction, ErrorKind, KeyRange};
use spillway_storage::Disk;
use spillway_storage::sim::Fault;

use super::*;
use crate::pipeline::Task;

fn write(db: &Db, key: &str, value: &str) -> CommitFuture {
    let txn = db.begin(Isolation::RepeatableRead);
    put(&txn, key, value).unwrap();
    txn.commit()
}

#[test]
fn d2_d3_locks_go_before_durability_and_acknowledgement_does_not() {
    let db = new();
    let (waker, wakes) = counted_waker();
    let mut context = Context::from_waker(&waker);
    let mut first = Box::pin(write(&db, "x", "1"));
    assert!(matches!(first.as_mut().poll(&mut context), Poll::Pending));
    // Only the next writer sees a commit that is not durable.
    assert_eq!(db.value("x"), None);
    let second = db.begin(Isolation::RepeatableRead);
    let mut value = Vec::new();
    assert!(
        second.get_locked(TABLE, b"x", LockMode::Exclusive, LockWait::NoWait, &mut value).unwrap()
    );
    assert_eq!(value, b"1");
    assert_eq!(wakes(), 0);
    put(&second, "x", "2").unwrap();
    let second = second.commit().wait().unwrap();
    let Poll::Ready(first) = first.as_mut().poll(&mut context) else {
        panic!("the first commit is acknowledged with the one that rests on it");
    };
    assert!(first.unwrap() < second);
    assert_eq!(wakes(), 1);
    assert_eq!(db.value("x").as_deref(), Some("2"));
}

#[test]
fn d2_what_a_locking_read_saw_is_durable_before_it_is_told() {
    let db = new();
    let unflushed = write(&db, "x", "1");
    let reader = db.begin(Isolation::ReadCommitted);
    let mut value = Vec::new();
    reader.get_locked(TABLE, b"x", LockMode::Shared, LockWait::Wait, &mut value).unwrap();
    assert_eq!((value.as_slice(), db.value("x")), (&b"1"[..], None));
    reader.wait_until_told().unwrap();
    assert_eq!(db.value("x").as_deref(), Some("1"));
    unflushed.wait().unwrap();
}

#[test]
fn d2_a_read_waits_only_for_commits_that_it_rests_on() {
    let db = new();
    db.set("x", "1");
    let mut value = Vec::new();
    let other = write(&db, "y", "1");
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
        let reader = db.begin(isolation);
        let (mode, wait) = (LockMode::Exclusive, LockWait::NoWait);
        assert!(reader.get_locked(TABLE, b"x", mode, wait, &mut value).unwrap());
        assert!(!reader.get_locked(TABLE, b"nothing", mode, wait, &mut value).unwrap());
        reader.wait_until_told().unwrap();
        reader.commit().wait().unwrap();
        assert_eq!(db.value("y"), None, "{isolation:?}");
    }
    // A deleted key is the work of such a commit.
    let txn = db.begin(Isolation::RepeatableRead);
    txn.delete(TABLE, b"x").unwrap();
    let gone = txn.commit();
    let reader = db.begin(Isolation::RepeatableRead);
    let (mode, wait) = (LockMode::Shared, LockWait::NoWait);
    assert!(!reader.get_locked(TABLE, b"x", mode, wait, &mut value).unwrap());
    assert_eq!(db.value("x").as_deref(), Some("1"));
    reader.wait_until_told().unwrap();
    assert_eq!((db.value("x"), db.value("y").as_deref()), (None, Some("1")));
    other.wait().unwrap();
    gone.wait().unwrap();
}

#[test]
fn d2_a_plain_read_after_a_lock_waits_for_what_it_will_show() {
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
        let db = new();
        let unflushed = write(&db, "x", "1");
        let plain = db.begin(isolation);
        plain.begin_statement();
        plain.wait_until_readable().unwrap();
        assert_eq!((get(&plain, "x").unwrap(), db.value("x")), (None, None));
        let reader = db.begin(isolation);
        reader.lock(TABLE, b"y", LockMode::Exclusive, LockWait::NoWait).unwrap();
        reader.begin_statement();
        reader.wait_until_readable().unwrap();
        assert_eq!(get(&reader, "x").unwrap().as_deref(), Some("1"), "{isolation:?}");
        assert_eq!(db.value("x").as_deref(), Some("1"));
        unflushed.wait().unwrap();
    }
}

#[test]
fn d2_a_duplicate_is_told_once_the_row_that_is_there_is_durable() {
    let db = new();
    let unflushed = write(&db, "x", "1");
    let late = db.begin(Isolation::RepeatableRead);
    let refused = late.insert(TABLE, b"x", b"2").unwrap_err();
    assert_eq!((refused.kind(), db.value("x")), (ErrorKind::DuplicateKey, None));
    late.wait_until_told().unwrap();
    assert_eq!(db.value("x").as_deref(), Some("1"));
    unflushed.wait().unwrap();
}

/// An install in progress blocks neither a transaction that changes one row by its key nor a
/// relaxed reader.
#[test]
fn changes_by_key_and_relaxed_reads_wait_for_nobodys_install() {
    let db = new();
    db.set("x", "1");
    db.set("y", "1");
    // A commit that was ordered, and whose thread has not installed it yet.
    let mut batch = WriteBatch::new();
    batch.push(Op::Put { table: TABLE, key: b"slow", value: b"1" });
    let pipeline = &db.manager.0.pipeline;
    let room = pipeline.admit(batch.as_bytes().len()).unwrap();
    let slow = pipeline.enqueue(room, &batch, crate::pipeline::Terms::of(TABLE), |_| ()).unwrap();
    let mut value = Vec::new();
    for (isolation, key) in [(Isolation::ReadCommitted, "x"), (Isolation::RepeatableRead, "y")] {
        let txn = db.begin(isolation);
        let (mode, wait) = (LockMode::Exclusive, LockWait::NoWait);
        assert!(txn.get_locked(TABLE, key.as_bytes(), mode, wait, &mut value).unwrap());
        put(&txn, key, "2").unwrap();
        txn.insert(TABLE, format!("new{isolation:?}").as_bytes(), b"1").unwrap();
        drop(txn.commit());
    }
    let relaxed = TransactionOptions::new().durability(Durability::Relaxed);
    assert_eq!(get(&db.manager.begin(relaxed), "x").unwrap().as_deref(), Some("1"));
    db.engine.install(slow, &batch);
    pipeline.installed(slow);
    assert_eq!(get(&db.manager.begin(relaxed), "x").unwrap().as_deref(), Some("2"));
}

/// A transaction's snapshot shows the rows that it locked and read before it took the snapshot.
#[test]
fn a_snapshot_shows_every_row_that_was_locked_before_it() {
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable]
    {
        let db = new();
        db.set("x", "0");
        drop(write(&db, "x", "1"));
        drop(write(&db, "y", "1"));
        let txn = db.begin(isolation);
        let mut value = Vec::new();
        let (mode, wait) = (LockMode::Exclusive, LockWait::NoWait);
        assert!(txn.get_locked(TABLE, b"x", mode, wait, &mut value).unwrap());
        assert_eq!(value, b"1");
        let rows = txn.scan(TABLE, KeyRange::ALL, Direction::Forward).unwrap();
        let rows: Vec<_> = rows.map(Result::unwrap).collect();
        assert!(rows.contains(&(b"x".to_vec(), b"1".to_vec())), "{isolation:?}: {rows:?}");
        // A row that was written blindly and undone is back as it was.
        let before = txn.savepoint();
        txn.put(TABLE, b"y", b"mine").unwrap();
        txn.rollback_to(before);
        if isolation == Isolation::ReadCommitted {
            assert_eq!(get(&txn, "y").unwrap().as_deref(), Some("1"));
        }
    }
}

#[test]
fn a_relaxed_session_reads_its_own_commits_and_others_wait() {
    let db = new();
    let relaxed = TransactionOptions::new().durability(Durability::Relaxed);
    let txn = db.manager.begin(relaxed);
    put(&txn, "x", "1").unwrap();
    txn.commit().wait().unwrap();
    assert_eq!(get(&db.manager.begin(relaxed), "x").unwrap().as_deref(), Some("1"));
    assert_eq!(db.value("x"), None);
    db.manager.flush().unwrap();
    assert_eq!(db.value("x").as_deref(), Some("1"));
}

#[test]
fn the_flusher_makes_commits_durable_for_which_nobody_waits() {
    let db = new();
    db.manager.start_flusher().unwrap();
    drop(write(&db, "x", "1"));
    let target = Csn(2);
    while db.manager.stable() < target {
        std::thread::yield_now();
    }
    db.manager.close().unwrap();
    let late = db.begin(Isolation::RepeatableRead);
    put(&late, "y", "1").unwrap();
    assert_eq!(late.commit().wait().unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn commits_whose_threads_went_on_are_acknowledged_by_calls() {
    let db = new();
    db.manager.start_flusher().unwrap();
    let (tell, told) = std::sync::mpsc::channel();
    let writers = 4;
    spillway_base::thread::together(writers, |writer| {
        for number in 0..200 {
            let tell = tell.clone();
            write(&db, &format!("{writer}-{number}"), "1").then(move |outcome| {
                tell.send((writer, outcome.unwrap())).unwrap();
            });
        }
    });
    drop(tell);
    let mut all: Vec<_> = told.iter().collect();
    assert_eq!(all.len(), 200 * writers);
    let newest = all.iter().map(|(_, csn)| *csn).max().unwrap();
    assert!(newest <= db.manager.stable());
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 200 * writers);
    db.manager.close().unwrap();
}

/// Without a flusher no thread could lead later, so this thread waits.
#[test]
fn a_call_is_made_also_where_nobody_flushes_later() {
    let db = new();
    let (tell, told) = std::sync::mpsc::channel();
    let future = write(&db, "x", "1");
    assert!(future.known().is_none());
    future.then(move |outcome| tell.send(outcome).unwrap());
    assert!(told.try_recv().unwrap().is_ok());
    assert_eq!(db.value("x").as_deref(), Some("1"));
}

#[test]
fn d6_calls_are_told_that_the_log_failed() {
    let disk = SimDisk::new(3);
    let db = open(&disk).unwrap();
    let txn = db.begin(Isolation::RepeatableRead);
    txn.create_table(TABLE).unwrap();
    txn.commit().wait().unwrap();
    db.manager.start_flusher().unwrap();
    disk.fail_syncs();
    let (tell, told) = std::sync::mpsc::channel();
    spillway_base::thread::together(4, |writer| {
        let txn = db.begin(Isolation::RepeatableRead);
        put(&txn, &format!("{writer}"), "1").unwrap();
        let tell = tell.clone();
        txn.commit().then(move |outcome| tell.send(outcome).unwrap());
    });
    drop(tell);
    let outcomes: Vec<_> = told.iter().collect();
    assert_eq!(outcomes.len(), 4);
    for outcome in outcomes {
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::WritesStopped);
    }
}

#[test]
fn d6_after_a_failed_sync_nothing_is_acknowledged_and_reads_go_on() {
    let disk = SimDisk::new(3);
    let db = open(&disk).unwrap();
    let txn = db.begin(Isolation::RepeatableRead);
    txn.create_table(TABLE).unwrap();
    txn.commit().wait().unwrap();
    db.set("x", "good");
    disk.fail_syncs();
    let lost = [write(&db, "x", "lost"), write(&db, "y", "lost")];
    for lost in lost {
        assert_eq!(lost.wait().unwrap_err().kind(), ErrorKind::WritesStopped);
    }
    disk.heal();
    let txn = db.begin(Isolation::RepeatableRead);
    put(&txn, "z", "1").unwrap();
    let refused = txn.commit().wait().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::WritesStopped);
    assert!(refused.to_string().contains("injected: a sync failed"), "{refused}");
    assert_eq!((db.value("x").as_deref(), db.value("y")), (Some("good"), None));
    assert!(db.manager.health().is_err());
    disk.crash();
    disk.restart();
    // The device decides which of the refused commits survive; those that do are a prefix.
    let db = open(&disk).unwrap();
    let after = (db.value("x"), db.value("y"));
    let values = (after.0.as_deref(), after.1.as_deref());
    assert_ne!((values.0, values.1.is_some()), (Some("good"), true));
    assert!(values.0.is_some());
}

#[test]
fn d6_a_full_disk_refuses_commits_and_they_resume() {
    let disk = SimDisk::new(3);
    let db = open(&disk).unwrap();
    let txn = db.begin(Isolation::RepeatableRead);
    txn.create_table(TABLE).unwrap();
    txn.commit().wait().unwrap();
    disk.set_capacity(Some(disk.used()));
    let value = "v".repeat(5000);
    let refused = (0..100).find_map(|_| {
        let txn = db.begin(Isolation::RepeatableRead);
        put(&txn, "x", &value).unwrap();
        txn.commit().wait().err()
    });
    assert_eq!(refused.unwrap().kind(), ErrorKind::DiskFull);
    assert!(db.manager.health().is_ok());
    // A restart also finds the disk full.
    disk.kill();
    let db = open(&disk).unwrap();
    assert_eq!(db.value("x").as_ref(), Some(&value));
    assert_eq!(write(&db, "x", &value).wait().unwrap_err().kind(), ErrorKind::DiskFull);
    disk.set_capacity(None);
    db.set("x", "after");
    assert_eq!(db.value("x").as_deref(), Some("after"));
}

/// Many threads commit at once while others fill the disk, and it empties again: each commit is
/// acknowledged or refused, none stops the log, and all continue once there is space. Acknowledged
/// commits survive a crash.
#[test]
fn d6_commits_meet_a_full_disk_before_the_log_does() {
    let disk = SimDisk::new(7);
    let db = open(&disk).unwrap();
    let txn = db.begin(Isolation::RepeatableRead);
    txn.create_table(TABLE).unwrap();
    txn.commit().wait().unwrap();
    disk.set_capacity(Some(disk.used() + (150 << 10)));
    let refused = AtomicUsize::new(0);
    let writer = |thread: u64| {
        let mut rng = Rng::new(thread);
        let mut acknowledged = BTreeMap::new();
        while acknowledged.len() < 60 {
            let key = format!("{thread}-{}", acknowledged.len());
            let value = "v".repeat(rng.below(6000) as usize);
            match write(&db, &key, &value).wait() {
                Ok(_) => {
                    acknowledged.insert(key, value);
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
                    if refused.fetch_add(1, Ordering::SeqCst) == 300 {
                        disk.set_capacity(None);
                    }
                }
            }
        }
        acknowledged
    };
    let all: Vec<_> = std::thread::scope(|scope| {
        let writer = &writer;
        let threads: Vec<_> = (0..8).map(|thread| scope.spawn(move || writer(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    db.manager.health().unwrap();
    assert!(refused.load(Ordering::SeqCst) > 300);
    disk.crash();
    disk.restart();
    let db = open(&disk).unwrap();
    for (key, value) in all.into_iter().flatten() {
        assert_eq!(db.value(&key), Some(value));
    }
}

pub(super) type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

pub(super) fn contents(db: &Db) -> Contents {
    let txn = db.begin(Isolation::RepeatableRead);
    if db.engine.tables().is_empty() {
        return Contents::new();
    }
    txn.scan(TABLE, KeyRange::ALL, Direction::Forward).unwrap().map(Result::unwrap).collect()
}

/// Writes a lane's queue to its log, durably or not.
fn work_on_a_lane(db: &Db, rng: &mut Rng, lanes: usize) {
    let task = if rng.chance(1, 2) { Task::Flush } else { Task::MakeRoom };
    db.manager.0.pipeline.flush_lane(rng.below(lanes as u64) as usize, task);
}

/// Runs a seeded history until the disk stops it, its commits dealt to this many lanes in turn.
/// Returns the number of acknowledged commits; `states` gets the state after each ordered commit.
fn history(disk: &SimDisk, seed: u64, lanes: usize, states: &mut Vec<Contents>) -> usize {
    let mut acknowledged = states.len() - 1;
    let Ok(db) = open_with(disk, &log(lanes)) else { return acknowledged };
    let mut rng = Rng::new(seed);
    let mut state = states.last().cloned().unwrap_or_default();
    let mut waiting = Vec::new();
    if db.engine.tables().is_empty() {
        let txn = db.begin(Isolation::RepeatableRead);
        txn.create_table(TABLE).unwrap();
        if txn.commit().wait().is_err() {
            return acknowledged;
        }
    }
    for _ in 0..25 {
        let txn = db.begin(Isolation::RepeatableRead);
        let mut next = state.clone();
        for _ in 0..=rng.below(3) {
            let key = vec![b'a' + rng.below(8) as u8];
            if rng.chance(1, 4) {
                txn.delete(TABLE, &key).unwrap();
                next.remove(&key);
            } else {
                let value = vec![rng.next_u64() as u8; rng.below(3000) as usize];
                txn.put(TABLE, &key, &value).unwrap();
                next.insert(key, value);
            }
        }
        let future = txn.commit();
        state = next;
        states.push(state.clone());
        if rng.chance(1, 2) {
            waiting.push((states.len() - 1, future));
            // A lane may be ahead of the others, and lose a different tail.
            if rng.chance(1, 3) {
                work_on_a_lane(&db, &mut rng, lanes);
            }
            continue;
        }
        let index = states.len() - 1;
        for (index, future) in waiting.drain(..).chain([(index, future)]) {
            match future.wait() {
                Ok(_) => acknowledged = index,
                Err(_) => return acknowledged,
            }
        }
        if rng.chance(1, 6) {
            let _ = db.manager.truncate_log();
        }
    }
    acknowledged
}

/// Decision 005: after a crash at every operation of a history, and another one in the work after
/// the recovery, the database has the state after a prefix of the commits, and every acknowledged
/// commit is in it. Each life may have another number of lanes.
fn crash_everywhere(lanes: [usize; 3]) {
    let whole = SimDisk::new(0);
    history(&whole, 11, lanes[0], &mut vec![Contents::new()]);
    for crash_at in 1..=whole.operations() {
        let disk = SimDisk::new(crash_at);
        disk.fail_operation(crash_at, Fault::Crash);
        let mut states = vec![Contents::new()];
        for (life, lanes) in lanes.into_iter().enumerate() {
            let acknowledged = history(&disk, 11 + life as u64, lanes, &mut states);
            disk.crash();
            disk.restart();
            let found = contents(&open_with(&disk.fork(), &log(lanes)).unwrap());
            let threads = LogSettings { recovery_threads: 3, ..log(lanes) };
            assert_eq!(found, contents(&open_with(&disk.fork(), &threads).unwrap()));
            let at = states.iter().rposition(|state| *state == found);
            let at =
                at.unwrap_or_else(|| panic!("crash at {crash_at}, life {life}: no such state"));
            assert!(at >= acknowledged, "crash at {crash_at}, life {life}: {at} < {acknowledged}");
            states.truncate(at + 1);
            disk.fail_operation(disk.operations() + 7 + crash_at % 13, Fault::Crash);
        }
    }
}

#[test]
fn d5_every_crash_leaves_a_prefix_with_all_that_was_acknowledged() {
    crash_everywhere([1, 1, 1]);
}

#[test]
fn d5_lanes_that_lose_different_tails_leave_a_prefix() {
    crash_everywhere([3, 3, 3]);
}

#[test]
fn d5_lanes_may_come_and_go() {
    crash_everywhere([2, 4, 1]);
    crash_everywhere([4, 1, 2]);
}

/// Decision 006: any operation on the device fails, at any point of a history over several lanes,
/// by doing nothing, half of it, or meeting a full disk. Nothing acknowledged is lost, reads
/// continue, and once a write or a sync of the log has failed, every later commit fails with that
/// cause.
#[test]
fn d6_whichever_operation_fails_nothing_acknowledged_is_lost() {
    let whole = SimDisk::new(0);
    history(&whole, 11, 3, &mut vec![Contents::new()]);
    let mut stopped = 0;
    for fail_at in 1..=whole.operations() {
        let fault = [Fault::Io, Fault::ShortWrite, Fault::Full][fail_at as usize % 3];
        let disk = SimDisk::new(fail_at);
        disk.fail_operation(fail_at, fault);
        let mut states = vec![Contents::new()];
        let acknowledged = history(&disk, 11, 3, &mut states);
        let whole = states.len() > 20;
        // The machine stops some time after, with the process or later.
        if fail_at % 2 == 0 {
            disk.crash();
            disk.restart();
        } else {
            disk.kill();
        }
        disk.heal();
        let db = open_with(&disk, &log(3)).unwrap();
        let found = contents(&db);
        let at = states.iter().rposition(|state| *state == found);
        let at = at.unwrap_or_else(|| panic!("{fault:?} at {fail_at}: no such state"));
        assert!(at >= acknowledged, "{fault:?} at {fail_at}: {at} < {acknowledged}");
        stopped += usize::from(!whole);
    }
    assert!(stopped > 10, "{stopped} histories were stopped by a fault");
}

/// Decision 006: after a failed write of one lane the others acknowledge nothing either, and
/// visible rows stay readable.
#[test]
fn d6_a_lane_that_fails_stops_all() {
    for fault in [Fault::Io, Fault::ShortWrite] {
        let disk = SimDisk::new(9);
        let db = open_with(&disk, &log(3)).unwrap();
        let txn = db.begin(Isolation::RepeatableRead);
        txn.create_table(TABLE).unwrap();
        txn.commit().wait().unwrap();
        db.set("x", "good");
        let commits: Vec<_> = ["a", "b", "c"].map(|key| write(&db, key, "lost")).into();
        disk.fail_operation(disk.operations() + 1, fault);
        db.manager.lead_flush();
        disk.heal();
        for commit in commits {
            assert_eq!(commit.wait().unwrap_err().kind(), ErrorKind::WritesStopped);
        }
        let refused = write(&db, "d", "lost").wait().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::WritesStopped);
        assert!(refused.to_string().contains("the log failed"), "{refused}");
        assert_eq!((db.value("x").as_deref(), db.value("a")), (Some("good"), None));
    }
}

/// The segments of a lane that is no longer used are deleted once they are not needed, while other
/// lanes still begin with their first: a note explains why commits are missing.
#[test]
fn d5_a_lane_that_was_given_up_is_not_missed() {
    let disk = SimDisk::new(4);
    {
        let db = open_with(&disk, &log(2)).unwrap();
        let txn = db.begin(Isolation::RepeatableRead);
        txn.create_table(TABLE).unwrap();
        txn.commit().wait().unwrap();
        // The last of eleven commits is in the first lane, whose segment it keeps.
        for number in 0..10 {
            db.set(&format!("early{number}"), "1");
        }
    }
    {
        let db = open_with(&disk, &log(1)).unwrap();
        db.engine.claim_persisted(Csn(10));
        db.manager.truncate_log().unwrap();
        assert!(disk.files().iter().all(|(path, _)| !path.to_string_lossy().contains("/01-")));
        for number in 0..9 {
            let txn = db.begin(Isolation::RepeatableRead);
            // By the next opening the model has forgotten the rows that it claimed to keep.
            if number == 0 {
                txn.create_table(TableId(2)).unwrap();
            }
            txn.put(TableId(2), format!("late{number}").as_bytes(), b"1").unwrap();
            txn.commit().wait().unwrap();
        }
    }
    let db = open_with(&disk, &log(1)).unwrap();
    let txn = db.begin(Isolation::RepeatableRead);
    let late = txn.scan(TableId(2), KeyRange::ALL, Direction::Forward).unwrap().count();
    assert_eq!(late, 9);
}

/// Commits that one recovery discarded come back in no later one, even if that recovery itself was
/// interrupted and the log was cut after it.
#[test]
fn d5_what_was_discarded_never_comes_back() {
    let mut discards = 0;
    for seed in 0..200 {
        let disk = SimDisk::new(seed);
        let mut rng = Rng::new(seed);
        let lanes = 2 + rng.below(3) as usize;
        let db = open_with(&disk, &log(lanes)).unwrap();
        let txn = db.begin(Isolation::RepeatableRead);
        txn.create_table(TABLE).unwrap();
        txn.commit().wait().unwrap();
        // Commits of which only some lanes are flushed.
        let mut futures = Vec::new();
        for number in 0..12 {
            futures.push(write(&db, &format!("early{number}"), "lost or not"));
            if rng.chance(1, 4) {
                work_on_a_lane(&db, &mut rng, lanes);
            }
        }
        disk.crash();
        disk.restart();
        drop((futures, db));
        // An opening that is interrupted, then one that is not.
        disk.fail_operation(disk.operations() + rng.below(20), Fault::Crash);
        drop(open_with(&disk, &log(lanes)));
        disk.crash();
        disk.restart();
        let kept = {
            let db = open_with(&disk, &log(lanes)).unwrap();
            let kept = contents(&db);
            discards += 12 - kept.len();
            // Other commits take the CSNs of the discarded ones.
            for number in 0..rng.below(40) {
                write(&db, &format!("late{number}"), "kept").wait().unwrap();
            }
            let now = contents(&db);
            assert!(kept.iter().all(|(key, value)| now.get(key) == Some(value)));
            now
        };
        disk.crash();
        disk.restart();
        let lanes = 1 + rng.below(4) as usize;
        let db = open_with(&disk, &log(lanes)).unwrap();
        assert_eq!(contents(&db), kept, "seed {seed}");
    }
    assert!(discards > 200, "{discards} commits were discarded");
}

#[test]
fn a_log_that_begins_too_late_is_corruption() {
    let disk = SimDisk::new(5);
    let open = |disk: &SimDisk| open_with(disk, &log(1));
    {
        let db = open(&disk).unwrap();
        let txn = db.begin(Isolation::RepeatableRead);
        txn.create_table(TABLE).unwrap();
        txn.commit().wait().unwrap();
        for _ in 0..30 {
            db.set("x", &"v".repeat(9000));
        }
    }
    let whole = disk.fork();
    let logs =
        || disk.files().into_iter().filter(|(path, _)| path.extension() == Some("plog".as_ref()));
    let first = logs().next().unwrap().0;
    disk.remove(&first).unwrap();
    let error = open(&disk).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("commit 1 is missing"), "{error}");

    // Commits that the last opening found are missed even if all of them are gone.
    let disk = whole;
    drop(open(&disk).unwrap());
    let mut files = disk.files();
    files.retain(|(path, _)| path.extension() == Some("plog".as_ref()));
    files.pop();
    for (path, _) in files {
        disk.remove(&path).unwrap();
    }
    let error = open(&disk).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("commit 1 is missing"), "{error}");
}

/// The frames of one lane state which commits were durable in all.
#[test]
fn a_lane_that_is_gone_is_missed() {
    let disk = SimDisk::new(5);
    {
        let db = open_with(&disk, &log(3)).unwrap();
        let txn = db.begin(Isolation::RepeatableRead);
        txn.create_table(TABLE).unwrap();
        txn.commit().wait().unwrap();
        for number in 0..9 {
            db.set("x", &format!("{number}"));
        }
    }
    for (path, _) in disk.files() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with("01-") {
            disk.remove(&path).unwrap();
        }
    }
    let error = open_with(&disk, &log(3)).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("is missing, and commits up to"), "{error}");
}

#[test]
fn a_log_is_cut_also_when_its_next_segment_cannot_be_made() {
    let disk = SimDisk::new(5);
    let db = open(&disk).unwrap();
    let txn = db.begin(Isolation::RepeatableRead);
    txn.create_table(TABLE).unwrap();
    txn.commit().wait().unwrap();
    for _ in 0..30 {
        db.set("x", &"v".repeat(9000));
    }
    db.engine.claim_persisted(db.manager.stable());
    let before =
        db.manager.metrics().into_iter().find(|metric| metric.name == "log_bytes").unwrap();
    // The cut takes one operation to write its note and one to sync it; the rest fail.
    for operation in 3..20 {
        disk.fail_operation(disk.operations() + operation, Fault::Io);
    }
    db.manager.truncate_log().unwrap_err();
    let after = db.manager.metrics().into_iter().find(|metric| metric.name == "log_bytes").unwrap();
    assert!(after.value < before.value / 2.0, "{} of {}", after.value, before.value);
    disk.heal();
    db.manager.truncate_log().unwrap();
    db.set("x", "after");
    assert_eq!(db.value("x").as_deref(), Some("after"));
}

/// Commits after an install that panicked are refused, regardless of their durability, and the
/// database reports why (PIPE-4).
#[test]
fn pipe_4_a_panic_in_an_install_stops_the_database() {
    let db = Arc::new(new());
    db.set("x", "0");
    let mut first = true;
    db.engine.watch_install(move |_| assert!(!std::mem::take(&mut first), "an engine panics"));
    let other = db.clone();
    let panicked =
        spillway_base::thread::spawn("panics", move || other.set("x", "1")).unwrap().join();
    assert!(panicked.is_err());
    let (tell, told) = std::sync::mpsc::channel();
    let other = db.clone();
    let commits = move || {
        for durability in [Durability::Commit, Durability::Relaxed] {
            let options = TransactionOptions::new().durability(durability);
            let txn = other.manager.begin(options);
            // If the row is read at the newest snapshot, no thread waits for the install.
            let mut value = Vec::new();
            let _ = txn.get_locked(TABLE, b"x", LockMode::Exclusive, LockWait::NoWait, &mut value);
            let wrote = txn.put(TABLE, b"y", b"1");
            let _ = tell.send(wrote.and_then(|()| txn.commit().wait().map(drop)));
        }
        let _ = tell.send(other.manager.flush());
    };
    spillway_base::thread::spawn("commits", commits).unwrap();
    for _ in 0..3 {
        let outcome = told.recv_timeout(Duration::from_secs(60)).expect("an answer");
        assert_eq!(outcome.unwrap_err().kind(), ErrorKind::WritesStopped);
    }
    let health = db.manager.health().unwrap_err();
    assert!(health.to_string().contains("panicked while installing a commit"), "{health}");
    assert_eq!(db.value("x").as_deref(), Some("0"));
}
