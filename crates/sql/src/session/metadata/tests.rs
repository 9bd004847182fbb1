use std::sync::LazyLock;
use std::sync::atomic::AtomicU32;

use super::*;

fn lock() -> TableLock {
    TableLock::new(("db".to_owned(), "t".to_owned()))
}

fn code(outcome: Result<()>) -> u16 {
    outcome.map_or_else(|error| error.code, |()| 0)
}

static NEVER: LazyLock<Stop> = LazyLock::new(Stop::default);
const SOON: Duration = Duration::ZERO;
const LATE: Duration = Duration::from_secs(60);

impl TableLock {
    fn take(
        &self,
        mode: MetadataLockMode,
        stripe: usize,
        held: bool,
        wait: &Duration,
    ) -> Result<()> {
        self.lock(mode, stripe, held, &WaitLimits::new(*wait, &NEVER))
    }
}

#[test]
fn modes_admit_what_they_should() {
    use MetadataLockMode::{Alone, Keep, Read, Write};
    let admitted = [(Read, Read), (Read, Write), (Read, Keep), (Write, Write), (Keep, Keep)];
    for first in [Read, Write, Keep, Alone] {
        for second in [Read, Write, Keep, Alone] {
            let lock = lock();
            lock.take(first, 1, false, &SOON).unwrap();
            let both = admitted.contains(&(first, second)) || admitted.contains(&(second, first));
            let expected = if both { 0 } else { 1205 };
            assert_eq!(code(lock.take(second, 2, false, &SOON)), expected, "{first:?} {second:?}");
            // A waiter that gave up does not close the table.
            if both {
                lock.unlock(second, 2);
            }
            lock.unlock(first, 1);
            lock.take(Alone, 3, false, &SOON).unwrap();
        }
    }
}

#[test]
fn what_is_at_hand_is_not_locked() {
    let (lock, mut held) = (Arc::new(lock()), HeldLocks::default());
    for _ in 0..3 {
        lock.take(MetadataLockMode::Write, 0, false, &SOON).unwrap();
        held.took(&lock, MetadataLockMode::Write);
        assert!(held.has(&lock, MetadataLockMode::Write));
        held.clear();
        assert!(!held.has(&lock, MetadataLockMode::Write));
        assert_eq!(Arc::strong_count(&lock), 2, "the same one each time");
        lock.take(MetadataLockMode::Alone, 1, false, &SOON).unwrap();
        lock.unlock(MetadataLockMode::Alone, 1);
    }
    for _ in 0..3 * AT_HAND {
        let other = Arc::new(super::tests::lock());
        other.take(MetadataLockMode::Read, 0, false, &SOON).unwrap();
        held.took(&other, MetadataLockMode::Read);
        held.clear();
    }
    assert_eq!((held.at_hand.len(), Arc::strong_count(&lock)), (1, 1));
}

#[test]
fn one_name_has_one_lock() {
    let locks = MetadataLocks::new(&Budget::new(1 << 20));
    let name = |table: &str| ("db".to_owned(), table.to_owned());
    assert!(Arc::ptr_eq(&locks.of(&name("a")), &locks.of(&name("a"))));
    assert!(!Arc::ptr_eq(&locks.of(&name("a")), &locks.of(&name("b"))));
}

/// A statement may name any number of tables, whether they exist or not.
#[test]
fn many_locks_are_charged_while_they_are_held_and_then_removed() {
    let budget = Budget::new(1 << 20);
    let locks = MetadataLocks::new(&budget);
    let names = |count: usize| {
        let name = |number| ("db".to_owned(), format!("t{number}"));
        (0..count).map(|number| (name(number), MetadataLockMode::Alone)).collect()
    };
    let take = |count| locks.take(names(count), 1, &WaitLimits::new(SOON, &NEVER), |_| None);
    for _ in 0..2 {
        let held = take(300).unwrap();
        assert_eq!((locks.locks.lock().len(), budget.used()), (300, 300 * LOCK_BYTES));
        drop(held);
        assert_eq!((locks.locks.lock().len(), budget.used()), (0, 0));
    }
    assert_eq!(take(3000).map(drop).map_err(|error| error.code), Err(1041));
    assert_eq!((locks.locks.lock().len(), budget.used()), (0, 0));
    let few = take(3).unwrap();
    assert_eq!((few.locks.len(), budget.used()), (3, 0));
}

#[test]
fn a_killed_wait_ends() {
    let lock = lock();
    lock.take(MetadataLockMode::Read, 3, false, &SOON).unwrap();
    let stop = Stop::default();
    stop.interrupted.store(true, SeqCst);
    let killed = WaitLimits::new(LATE, &stop);
    assert_eq!(code(lock.lock(MetadataLockMode::Alone, 4, false, &killed)), 1317);
    lock.take(MetadataLockMode::Write, 4, false, &SOON).unwrap();
}

/// A wait whose client has disconnected ends, and the table is open again.
#[test]
fn a_wait_for_nobody_ends() {
    let lock = lock();
    lock.take(MetadataLockMode::Read, 3, false, &SOON).unwrap();
    let left = WaitLimits { wait: LATE, stop: &NEVER, gone: &|| true };
    assert_eq!(code(lock.lock(MetadataLockMode::Alone, 4, false, &left)), 1317);
    lock.take(MetadataLockMode::Write, 5, false, &SOON).unwrap();
}

/// A name that is given twice is locked once, in the stronger mode. A session does not wait for a
/// lock that it holds itself.
#[test]
fn nobody_waits_for_itself() {
    use MetadataLockMode::{Alone, Keep, Read, Write};
    let name: Name = ("d".to_owned(), "t".to_owned());
    let limits = WaitLimits::new(SOON, &NEVER);
    for (one, other) in [(Read, Write), (Write, Read), (Keep, Alone), (Alone, Keep), (Alone, Alone)]
    {
        let locks = MetadataLocks::new(&Budget::new(1 << 20));
        let names = vec![(name.clone(), one), (name.clone(), other)];
        let held = locks.take(names, 1, &limits, |_| None).unwrap();
        assert_eq!(held.mode(&name), Some(one.max(other)));
    }
    let locks = MetadataLocks::new(&Budget::new(1 << 20));
    let take = |mode, held: Option<&HeldLocks>| {
        let mode_held = |name: &Name| held.and_then(|held| held.mode(name));
        locks.take(vec![(name.clone(), mode)], 1, &WaitLimits::new(LATE, &NEVER), mode_held)
    };
    let alone = take(Alone, None).unwrap();
    for mode in [Read, Write, Keep, Alone] {
        drop(take(mode, Some(&alone)).unwrap());
    }
    drop(alone);
    let shared = take(Read, None).unwrap();
    drop(take(Write, Some(&shared)).unwrap());
    for mode in [Keep, Alone] {
        assert_eq!(take(mode, Some(&shared)).map(drop).map_err(|error| error.code), Err(1213));
    }
}

#[test]
fn who_waits_to_be_alone_goes_before_newcomers_only() {
    let lock = lock();
    lock.take(MetadataLockMode::Read, 1, false, &SOON).unwrap();
    std::thread::scope(|scope| {
        let alone = scope.spawn(|| lock.take(MetadataLockMode::Alone, 2, false, &LATE));
        while lock.closed.load(SeqCst) == 0 {
            std::thread::yield_now();
        }
        assert_eq!(code(lock.take(MetadataLockMode::Read, 3, false, &SOON)), 1205);
        lock.take(MetadataLockMode::Write, 1, true, &SOON).unwrap();
        lock.unlock(MetadataLockMode::Write, 1);
        lock.unlock(MetadataLockMode::Read, 1);
        alone.join().unwrap().unwrap();
    });
    assert_eq!(code(lock.take(MetadataLockMode::Read, 3, false, &SOON)), 1205);
    lock.unlock(MetadataLockMode::Alone, 2);
    lock.take(MetadataLockMode::Read, 3, false, &SOON).unwrap();
}

#[test]
fn who_watches_keeps_nobody_out() {
    let lock = lock();
    lock.take(MetadataLockMode::Read, 1, false, &SOON).unwrap();
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| lock.watch(&WaitLimits::new(LATE, &NEVER)));
        while lock.closed.load(SeqCst) == 0 {
            std::thread::yield_now();
        }
        for mode in [MetadataLockMode::Read, MetadataLockMode::Write, MetadataLockMode::Keep] {
            lock.take(mode, 3, false, &SOON).unwrap();
            lock.unlock(mode, 3);
        }
        lock.unlock(MetadataLockMode::Read, 1);
        watch.join().unwrap().unwrap();
    });
    assert_eq!(lock.closed.load(SeqCst), 0);
}

#[test]
fn alone_means_alone() {
    let lock = lock();
    let inside = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for session in 0..4 {
            let (lock, inside) = (&lock, &inside);
            scope.spawn(move || {
                for round in 0..500 {
                    let (mode, weight) = match (session, round % 10) {
                        (0, 0) => (MetadataLockMode::Alone, 1000),
                        (_, 1) => (MetadataLockMode::Write, 1),
                        _ => (MetadataLockMode::Read, 1),
                    };
                    lock.take(mode, session, false, &LATE).unwrap();
                    let others = inside.fetch_add(weight, SeqCst);
                    assert!(if weight == 1 { others < 1000 } else { others == 0 });
                    inside.fetch_sub(weight, SeqCst);
                    lock.unlock(mode, session);
                }
            });
        }
    });
    assert_eq!(lock.readers() + lock.writers(), 0);
}
