//! The lock queue, model-checked: every waiter is served, a cycle has one victim, and no waiter or
//! holder remains, in every interleaving of threads that request locks, search for cycles, grant
//! locks, give up and fall asleep.

use spillway_base::EngineKind;
use spillway_base::sync::atomic::{AtomicUsize, Ordering};
use spillway_base::sync::{Arc as LoomArc, model, thread};

use super::*;

const LONG: Duration = Duration::from_secs(3600);
const KEYS: [&[u8]; 3] = [b"0", b"1", b"05"];
/// The key between the others.
const BETWEEN: usize = 2;

struct Bench {
    locks: Locks,
    inside: [AtomicUsize; 3],
    victims: AtomicUsize,
}

impl Bench {
    fn new() -> LoomArc<Bench> {
        let inside = std::array::from_fn(|_| AtomicUsize::new(0));
        LoomArc::new(Bench { locks: Locks::new(), inside, victims: AtomicUsize::new(0) })
    }

    fn take(&self, owner: &LockOwner, key: usize, timeout: Duration) -> Result<Acquired> {
        self.take_as(owner, key, LockMode::Exclusive, timeout)
    }

    fn take_as(
        &self,
        owner: &LockOwner,
        key: usize,
        mode: LockMode,
        timeout: Duration,
    ) -> Result<Acquired> {
        let table = TableId::new(EngineKind::Tiered, 1);
        self.locks.acquire(owner, table, KEYS[key], mode, LockWait::Wait, timeout)
    }

    /// Uses a key exclusively.
    fn work(&self, key: usize) {
        assert_eq!(self.inside[key].fetch_add(1, Ordering::SeqCst), 0);
        self.inside[key].fetch_sub(1, Ordering::SeqCst);
    }

    /// Takes a lock exclusively and releases everything, whether the owner was served or chosen as
    /// the victim.
    fn pass(&self, owner: &LockOwner, key: usize) {
        match self.take(owner, key, LONG) {
            Ok(_) => self.work(key),
            Err(error) if error.kind() == ErrorKind::Deadlock => {
                self.victims.fetch_add(1, Ordering::SeqCst);
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Interrupted),
        }
        self.locks.release_all(owner);
    }
}

/// Each owner passes the key of its number in its own thread; the last in this one.
fn race<const N: usize>(bench: &LoomArc<Bench>, owners: [(LockOwner, usize); N]) {
    let mut owners = Vec::from(owners);
    let last = owners.pop().unwrap();
    let threads: Vec<_> = owners
        .into_iter()
        .map(|(owner, key)| {
            let bench = bench.clone();
            thread::spawn(move || bench.pass(&owner, key))
        })
        .collect();
    bench.pass(&last.0, last.1);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(bench.locks.lines(), 0);
}

fn owner(id: u64) -> LockOwner {
    LockOwner::new(id)
}

#[test]
fn loom_everybody_in_a_line_is_served() {
    model(3, || {
        let bench = Bench::new();
        race(&bench, [(owner(1), 0), (owner(2), 0), (owner(3), 0)]);
        assert_eq!(bench.victims.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn loom_two_upgrades_have_one_victim() {
    model(3, || {
        let bench = Bench::new();
        let owners = [1, 2].map(|id| (owner(id), 0));
        for (owner, key) in &owners {
            bench.take_as(owner, *key, LockMode::Shared, LONG).unwrap();
        }
        race(&bench, owners);
        assert_eq!(bench.victims.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn loom_a_cycle_has_one_victim() {
    model(3, || {
        let bench = Bench::new();
        let (first, second) = (owner(1), owner(2));
        bench.take(&first, 0, LONG).unwrap();
        bench.take(&second, 1, LONG).unwrap();
        race(&bench, [(first, 1), (second, 0)]);
        assert_eq!(bench.victims.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn loom_a_wait_that_is_cancelled_leaves_nothing_behind() {
    model(3, || {
        let bench = Bench::new();
        let (holder, waiting) = (owner(1), owner(2));
        bench.take(&holder, 0, LONG).unwrap();
        let cancel = {
            let wait = waiting.wait().clone();
            thread::spawn(move || wait.interrupt())
        };
        let passes = {
            let bench = bench.clone();
            thread::spawn(move || bench.pass(&waiting, 0))
        };
        bench.locks.release_all(&holder);
        cancel.join().unwrap();
        passes.join().unwrap();
        assert_eq!(bench.locks.lines(), 0);
    });
}

/// The lock is handed to an owner whose wait times out: the owner either has the lock or has left
/// the line, and the waiter behind is served in both cases.
#[test]
fn loom_a_hand_over_to_one_whose_time_is_up_is_not_lost() {
    model(3, || {
        let bench = Bench::new();
        let (holder, late, behind) = (owner(1), owner(2), owner(3));
        bench.take(&holder, 0, LONG).unwrap();
        let late = {
            let bench = bench.clone();
            thread::spawn(move || {
                match bench.take(&late, 0, Duration::ZERO) {
                    Ok(_) => bench.work(0),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::LockTimeout),
                }
                bench.locks.release_all(&late);
            })
        };
        let behind = {
            let bench = bench.clone();
            thread::spawn(move || {
                bench.pass(&behind, 0);
            })
        };
        bench.locks.release_all(&holder);
        late.join().unwrap();
        behind.join().unwrap();
        assert_eq!((bench.locks.lines(), bench.victims.load(Ordering::SeqCst)), (0, 0));
    });
}

/// The waker of a wait comes late, after its owner has found the lock granted at its timeout, and
/// waits for another lock: the waker does not end that wait.
#[test]
fn loom_a_late_wake_does_not_end_the_next_wait() {
    model(3, || {
        let bench = Bench::new();
        let (first, second, waiting) = (owner(1), owner(2), owner(3));
        bench.take(&first, 0, LONG).unwrap();
        bench.take(&second, 1, LONG).unwrap();
        let releases = {
            let bench = bench.clone();
            thread::spawn(move || {
                bench.work(0);
                bench.locks.release_all(&first);
                bench.work(1);
                bench.locks.release_all(&second);
            })
        };
        if bench.take(&waiting, 0, Duration::ZERO).is_ok() {
            bench.work(0);
        }
        bench.take(&waiting, 1, LONG).unwrap();
        bench.work(1);
        bench.locks.release_all(&waiting);
        releases.join().unwrap();
        assert_eq!(bench.locks.lines(), 0);
    });
}

/// Notifies a thread of the call.
struct Call(LoomArc<(crate::sync::Mutex<bool>, crate::sync::Condvar)>);

impl std::task::Wake for Call {
    fn wake(self: std::sync::Arc<Self>) {
        *self.0.0.lock() = true;
        self.0.1.notify_all();
    }
}

/// An owner whose wait does not block is called for every grant, even if the call of an earlier
/// wait comes late.
#[test]
fn loom_a_wait_that_is_left_behind_is_called() {
    model(3, || {
        let bench = Bench::new();
        let (first, second, waiting) = (owner(1), owner(2), owner(3));
        bench.take(&first, 0, LONG).unwrap();
        bench.take(&second, 1, LONG).unwrap();
        let releases = [(first, 0), (second, 1)].map(|(owner, key)| {
            let bench = bench.clone();
            thread::spawn(move || {
                bench.work(key);
                bench.locks.release_all(&owner);
            })
        });
        let called =
            LoomArc::new((crate::sync::Mutex::new(false), crate::sync::Condvar::default()));
        waiting.wait().set_waker(std::sync::Arc::new(Call(called.clone())).into());
        waiting.leave_waits(true);
        for key in 0..2 {
            let mut outcome = bench.take(&waiting, key, LONG).map(drop);
            while let Err(error) = outcome {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                let mut rang = called.0.lock();
                while !std::mem::take(&mut *rang) {
                    called.1.wait(&mut rang);
                }
                drop(rang);
                outcome = bench.locks.resume(&waiting).map(drop);
            }
            bench.work(key);
        }
        bench.locks.release_all(&waiting);
        releases.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(bench.locks.lines(), 0);
    });
}

/// A fold runs concurrently with requests for keys that it comes to cover, one of which its owner
/// holds: no two owners get one key.
#[test]
fn loom_a_fold_lets_nobody_in() {
    model(3, || {
        let bench = Bench::new();
        let folds = owner(1);
        for key in [0, 1] {
            bench.take(&folds, key, LONG).unwrap();
        }
        let threads: Vec<_> = [(owner(2), 0), (owner(3), BETWEEN)]
            .into_iter()
            .map(|(owner, key)| {
                let bench = bench.clone();
                thread::spawn(move || bench.pass(&owner, key))
            })
            .collect();
        bench.work(0);
        bench.locks.fold(&folds);
        bench.work(0);
        bench.pass(&folds, BETWEEN);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!((bench.locks.lines(), bench.locks.ranges()), (0, 0));
    });
}

/// Two owners fold spans that overlap, and then want the same key between them: one of them gets
/// it, by a range or a row.
#[test]
fn loom_two_folds_divide_what_they_cover() {
    model(3, || {
        let bench = Bench::new();
        let owners = [(owner(1), 0), (owner(2), 1)];
        for (owner, key) in &owners {
            bench.take(owner, *key, LONG).unwrap();
        }
        let work = |bench: &Bench, owner: &LockOwner, key: usize| {
            // The third key makes a span of two keys, if no other owner has it.
            let third = bench.take(owner, BETWEEN, LONG).is_ok();
            bench.locks.fold(owner);
            bench.work(key);
            if third {
                bench.work(BETWEEN);
            }
            bench.pass(owner, 1 - key);
        };
        let [(first, _), (second, _)] = owners;
        let other = {
            let bench = bench.clone();
            thread::spawn(move || work(&bench, &first, 0))
        };
        work(&bench, &second, 1);
        other.join().unwrap();
        assert_eq!((bench.locks.lines(), bench.locks.ranges()), (0, 0));
    });
}
