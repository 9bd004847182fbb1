//! The lock queue, model-checked: everybody in a line is served, a cycle has one victim, and nothing is left behind,
//! whatever the order of asking, looking, granting, giving up and going to sleep.

use spillway_base::EngineKind;
use spillway_base::sync::atomic::{AtomicUsize, Ordering};
use spillway_base::sync::{Arc as LoomArc, thread};

use super::*;

const LONG: Duration = Duration::from_secs(3600);
const KEYS: [&[u8]; 2] = [b"0", b"1"];

struct Bench {
    locks: Locks,
    inside: AtomicUsize,
    victims: AtomicUsize,
}

impl Bench {
    fn new() -> LoomArc<Bench> {
        let (inside, victims) = (AtomicUsize::new(0), AtomicUsize::new(0));
        LoomArc::new(Bench { locks: Locks::new(), inside, victims })
    }

    fn take(&self, owner: &Arc<LockOwner>, key: usize, mode: LockMode) -> Result<Acquired> {
        let table = TableId::new(EngineKind::Tiered, 1);
        self.locks.acquire(owner, table, KEYS[key], mode, LockWait::Wait, LONG)
    }

    /// Takes a lock alone and gives everything back, whether it was served or chosen as the victim.
    fn pass(&self, owner: &Arc<LockOwner>, key: usize) {
        match self.take(owner, key, LockMode::Exclusive) {
            Ok(_) => {
                assert_eq!(self.inside.fetch_add(1, Ordering::SeqCst), 0);
                self.inside.fetch_sub(1, Ordering::SeqCst);
            }
            Err(error) if error.kind() == ErrorKind::Deadlock => {
                self.victims.fetch_add(1, Ordering::SeqCst);
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::Interrupted),
        }
        self.locks.release_all(owner);
    }
}

fn bounded(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// Lets each owner pass the key of its number in a thread of its own; the last in this one.
fn race(bench: &LoomArc<Bench>, owners: &[(Arc<LockOwner>, usize)]) {
    let (last, others) = owners.split_last().unwrap();
    let threads: Vec<_> = others
        .iter()
        .cloned()
        .map(|(owner, key)| {
            let bench = bench.clone();
            thread::spawn(move || bench.pass(&owner, key))
        })
        .collect();
    bench.pass(&last.0, last.1);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(bench.locks.lines(), 0);
}

fn owner(id: u64) -> Arc<LockOwner> {
    Arc::new(LockOwner::new(id))
}

#[test]
fn loom_everybody_in_a_line_is_served() {
    bounded(|| {
        let bench = Bench::new();
        race(&bench, &[(owner(1), 0), (owner(2), 0), (owner(3), 0)]);
        assert_eq!(bench.victims.load(Ordering::SeqCst), 0);
    });
}

#[test]
fn loom_two_upgrades_have_one_victim() {
    bounded(|| {
        let bench = Bench::new();
        let owners = [(owner(1), 0), (owner(2), 0)];
        for (owner, key) in &owners {
            bench.take(owner, *key, LockMode::Shared).unwrap();
        }
        race(&bench, &owners);
        assert_eq!(bench.victims.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn loom_a_cycle_has_one_victim() {
    bounded(|| {
        let bench = Bench::new();
        let (first, second) = (owner(1), owner(2));
        bench.take(&first, 0, LockMode::Exclusive).unwrap();
        bench.take(&second, 1, LockMode::Exclusive).unwrap();
        race(&bench, &[(first, 1), (second, 0)]);
        assert_eq!(bench.victims.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn loom_a_wait_that_is_cancelled_leaves_nothing_behind() {
    bounded(|| {
        let bench = Bench::new();
        let (holder, waiting) = (owner(1), owner(2));
        bench.take(&holder, 0, LockMode::Exclusive).unwrap();
        let cancel = {
            let waiting = waiting.clone();
            thread::spawn(move || waiting.interrupt())
        };
        let passes = {
            let (bench, waiting) = (bench.clone(), waiting.clone());
            thread::spawn(move || bench.pass(&waiting, 0))
        };
        bench.locks.release_all(&holder);
        cancel.join().unwrap();
        passes.join().unwrap();
        assert_eq!(bench.locks.lines(), 0);
    });
}
