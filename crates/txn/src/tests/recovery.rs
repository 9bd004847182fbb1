//! An opening reads the logs and installs their commits with several threads, and within the memory
//! that the budget has.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use spillway_base::Csn;
use spillway_base::batch::Op;
use spillway_base::budget::Use;
use spillway_base::lock::Mutex;
use spillway_base::rng::Rng;

use super::durability::{Contents, contents};
use super::*;

fn by(threads: usize) -> LogSettings {
    LogSettings { recovery_threads: threads, ..log(2) }
}

/// A database whose log has this many commits of a few rows each, of about `keys` keys and a hot
/// one if that is few, each commit durable before the next unless `at_once`.
fn written(disk: &SimDisk, commits: u64, keys: u64, at_once: bool) -> Contents {
    let db = open(disk).unwrap();
    let txn = db.begin(Isolation::ReadCommitted);
    txn.create_table(TABLE).unwrap();
    txn.commit().wait().unwrap();
    let (mut rng, mut wanted) = (Rng::new(commits), Contents::new());
    let mut last = None;
    for number in 0..commits {
        let txn = db.begin(Isolation::ReadCommitted);
        if number == commits / 2 {
            txn.create_table(TableId(2)).unwrap();
        }
        for _ in 0..=rng.below(3) {
            let is_hot = keys < commits && rng.chance(1, 3);
            let key = if is_hot { 0 } else { rng.below(keys) };
            let key = format!("{}{key}", "shared ".repeat(rng.below(2) as usize)).into_bytes();
            if rng.chance(1, 5) {
                txn.delete(TABLE, &key).unwrap();
                wanted.remove(&key);
            } else {
                let value = number.to_le_bytes().repeat(1 + rng.below(20) as usize);
                txn.put(TABLE, &key, &value).unwrap();
                if number >= commits / 2 {
                    txn.put(TableId(2), &key, &value).unwrap();
                }
                wanted.insert(key, value);
            }
        }
        let future = txn.commit();
        if at_once {
            last = Some(future);
        } else {
            future.wait().unwrap();
        }
    }
    last.map_or(Ok(Csn::ZERO), CommitFuture::wait).unwrap();
    wanted
}

#[test]
fn many_threads_find_what_one_does() {
    for (keys, at_once) in [(500, false), (500, true), (1 << 40, false), (1 << 40, true)] {
        let disk = SimDisk::new(1);
        let wanted = written(&disk, 1500, keys, at_once);
        for threads in [1, 2, 5] {
            let db = open_on(&disk.fork(), &by(threads), ModelEngine::new(), &Budget::new(1 << 20));
            let db = db.unwrap();
            assert_eq!(contents(&db), wanted, "{threads} threads");
            assert_eq!(db.engine.tables(), [TABLE, TableId(2)]);
        }
    }
}

/// The CSNs that an opening replays of a log for each key, in order of replay.
fn replayed(disk: &SimDisk, threads: usize) -> BTreeMap<(TableId, Vec<u8>), Vec<Csn>> {
    let seen: Arc<Mutex<BTreeMap<_, Vec<Csn>>>> = Arc::default();
    let engine = ModelEngine::new();
    let sees = seen.clone();
    engine.watch_replay(move |csn, op| {
        let (Op::Put { table, key, .. } | Op::Delete { table, key }) = op else {
            panic!("{op:?} is no write of a row")
        };
        sees.lock().entry((table, key.to_vec())).or_default().push(csn);
    });
    drop(open_on(disk, &by(threads), engine, &Budget::new(64 << 20)).unwrap());
    std::mem::take(&mut *seen.lock())
}

#[test]
fn the_versions_of_a_key_come_in_order_and_those_that_nobody_needs_do_not() {
    let disk = SimDisk::new(2);
    let wanted = written(&disk, 1500, 500, false);
    for threads in [1, 4] {
        let seen = replayed(&disk.fork(), threads);
        assert!(seen.values().all(|csns| csns.is_sorted_by(|a, b| a < b)));
        let hot = &seen[&(TABLE, b"0".to_vec())];
        // One version for each of the few windows, and the versions whose durability was certain
        // only after everything was read.
        assert!((1..20).contains(&hot.len()), "{} versions", hot.len());
        assert!(wanted.keys().all(|key| seen.contains_key(&(TABLE, key.clone()))));
    }
}

#[test]
fn what_may_be_lost_yet_is_installed_in_full() {
    let disk = SimDisk::new(3);
    let db = open(&disk).unwrap();
    let txn = db.begin(Isolation::ReadCommitted);
    txn.create_table(TABLE).unwrap();
    txn.commit().wait().unwrap();
    // One flush of the lanes writes them all, so no frame states that any is durable.
    let mut futures = Vec::new();
    for number in 0..40 {
        let txn = db.begin(Isolation::ReadCommitted);
        put(&txn, "key", &number.to_string()).unwrap();
        // A later write of the same commit replaces this one.
        put(&txn, "key", &number.to_string()).unwrap();
        futures.push(txn.commit());
    }
    futures.pop().unwrap().wait().unwrap();
    for threads in [1, 4] {
        let seen = replayed(&disk.fork(), threads);
        assert_eq!(seen[&(TABLE, b"key".to_vec())].len(), 40);
    }
}

/// Decision 007: the memory for reading ahead and installing is charged and bounded, however large
/// segments are.
#[test]
fn d7_a_log_is_read_within_the_budget() {
    const BUDGET: usize = 8 << 20;
    let disk = SimDisk::new(4);
    let db = open_with(&disk, &LogSettings { segment_bytes: 64 << 20, ..log(2) }).unwrap();
    let txn = db.begin(Isolation::ReadCommitted);
    txn.create_table(TABLE).unwrap();
    txn.commit().wait().unwrap();
    for number in 0..2000 {
        let txn = db.begin(Isolation::ReadCommitted);
        put(&txn, &format!("{}", number % 50), &"v".repeat(12 << 10)).unwrap();
        txn.commit().wait().unwrap();
    }
    db.set("last", "one");
    for threads in [1, 4] {
        let (budget, peak) = (Budget::new(BUDGET), Arc::new(AtomicUsize::new(0)));
        let engine = ModelEngine::new();
        let (charged, most) = (budget.clone(), peak.clone());
        engine.watch_replay(move |_, _| {
            most.fetch_max(charged.used_for(Use::Recovery), Ordering::Relaxed);
        });
        let db = open_on(&disk.fork(), &by(threads), engine, &budget).unwrap();
        assert_eq!(db.value("last").as_deref(), Some("one"));
        let peak = peak.load(Ordering::Relaxed);
        assert!((100 << 10..BUDGET / 8).contains(&peak), "{peak} bytes with {threads} threads");
        // The reading threads are done, but may not have exited.
        while budget.used_for(Use::Recovery) > 0 {
            std::thread::yield_now();
        }
    }
}
