use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use super::*;
use spillway_base::EngineKind;
use spillway_base::rng::Rng;

const LONG: Duration = Duration::from_secs(60);

fn table() -> TableId {
    TableId::new(EngineKind::Tiered, 1)
}

struct Bench {
    locks: Arc<Locks>,
}

impl Bench {
    fn new() -> Bench {
        Bench { locks: Arc::new(Locks::new()) }
    }

    fn owner(&self, id: u64) -> Arc<LockOwner> {
        Arc::new(LockOwner::new(id))
    }

    fn take(&self, owner: &Arc<LockOwner>, key: &[u8], mode: LockMode) -> Result<Acquired> {
        self.locks.acquire(owner, table(), key, mode, LockWait::Wait, LONG)
    }

    /// Asks in another thread, and returns once the owner stands in line and has looked for a deadlock.
    fn take_later(
        &self,
        owner: &Arc<LockOwner>,
        key: &'static [u8],
        mode: LockMode,
    ) -> mpsc::Receiver<Result<Acquired>> {
        let (tell, told) = mpsc::channel();
        let (locks, asking) = (self.locks.clone(), owner.clone());
        spillway_base::thread::spawn("asks", move || {
            let outcome = locks.acquire(&asking, table(), key, mode, LockWait::Wait, LONG);
            let _ = tell.send(outcome);
        })
        .unwrap();
        while owner.waits_for().is_none() {
            std::thread::yield_now();
        }
        drop(self.locks.detector.lock());
        told
    }
}

#[test]
fn shared_locks_go_together_and_exclusive_ones_do_not() {
    let bench = Bench::new();
    let (a, b, c) = (bench.owner(1), bench.owner(2), bench.owner(3));
    assert_eq!(bench.take(&a, b"k", LockMode::Shared).unwrap(), Acquired::New);
    assert_eq!(bench.take(&b, b"k", LockMode::Shared).unwrap(), Acquired::New);
    let refused = |wait| bench.locks.acquire(&c, table(), b"k", LockMode::Exclusive, wait, LONG);
    assert_eq!(refused(LockWait::NoWait).unwrap_err().kind(), ErrorKind::LockNotAvailable);
    assert_eq!(refused(LockWait::SkipLocked).unwrap(), Acquired::Skipped);
    bench.locks.release_all(&a);
    bench.locks.release_all(&b);
    assert_eq!(refused(LockWait::NoWait).unwrap(), Acquired::New);
    assert_eq!(bench.take(&c, b"k", LockMode::Shared).unwrap(), Acquired::Held);
    bench.locks.release_all(&c);
    assert_eq!(bench.locks.lines(), 0);
}

#[test]
fn the_line_is_served_in_order() {
    let bench = Bench::new();
    let first = bench.owner(0);
    bench.take(&first, b"k", LockMode::Exclusive).unwrap();
    let owners: Vec<_> = (1..=20).map(|id| bench.owner(id)).collect();
    let told: Vec<_> =
        owners.iter().map(|owner| bench.take_later(owner, b"k", LockMode::Exclusive)).collect();
    let mut holder = first;
    for (owner, told) in owners.iter().zip(&told) {
        bench.locks.release_all(&holder);
        assert_eq!(told.recv().unwrap().unwrap(), Acquired::New);
        holder = owner.clone();
    }
    bench.locks.release_all(&holder);
    assert_eq!(bench.locks.lines(), 0);
}

#[test]
fn a_shared_request_does_not_overtake_an_exclusive_one() {
    let bench = Bench::new();
    let (a, b, c) = (bench.owner(1), bench.owner(2), bench.owner(3));
    bench.take(&a, b"k", LockMode::Shared).unwrap();
    let exclusive = bench.take_later(&b, b"k", LockMode::Exclusive);
    let shared = bench.take_later(&c, b"k", LockMode::Shared);
    assert!(shared.try_recv().is_err());
    bench.locks.release_all(&a);
    exclusive.recv().unwrap().unwrap();
    assert!(shared.try_recv().is_err());
    bench.locks.release_all(&b);
    shared.recv().unwrap().unwrap();
}

#[test]
fn a_cycle_is_broken_by_the_one_that_closes_it() {
    let bench = Bench::new();
    let owners: Vec<_> = (0..5).map(|id| bench.owner(id)).collect();
    let keys: [&'static [u8]; 5] = [b"0", b"1", b"2", b"3", b"4"];
    for (owner, key) in owners.iter().zip(keys) {
        bench.take(owner, key, LockMode::Exclusive).unwrap();
    }
    let told: Vec<_> =
        (0..4).map(|at| bench.take_later(&owners[at], keys[at + 1], LockMode::Exclusive)).collect();
    let victim = bench.take(&owners[4], keys[0], LockMode::Exclusive).unwrap_err();
    assert_eq!(victim.kind(), ErrorKind::Deadlock);
    bench.locks.release_all(&owners[4]);
    for at in (0..4).rev() {
        told[at].recv().unwrap().unwrap();
        bench.locks.release_all(&owners[at]);
    }
    assert_eq!(bench.locks.lines(), 0);
}

#[test]
fn two_upgrades_of_one_share_are_a_deadlock() {
    let bench = Bench::new();
    let (a, b) = (bench.owner(1), bench.owner(2));
    bench.take(&a, b"k", LockMode::Shared).unwrap();
    bench.take(&b, b"k", LockMode::Shared).unwrap();
    let first = bench.take_later(&a, b"k", LockMode::Exclusive);
    let second = bench.take(&b, b"k", LockMode::Exclusive).unwrap_err();
    assert_eq!(second.kind(), ErrorKind::Deadlock);
    bench.locks.release_all(&b);
    assert_eq!(first.recv().unwrap().unwrap(), Acquired::New);
}

#[test]
fn a_cycle_through_a_line_is_found() {
    let bench = Bench::new();
    let (holder, ahead, behind) = (bench.owner(1), bench.owner(2), bench.owner(3));
    bench.take(&holder, b"k", LockMode::Shared).unwrap();
    bench.take(&behind, b"other", LockMode::Exclusive).unwrap();
    let _ahead = bench.take_later(&ahead, b"k", LockMode::Exclusive);
    // `behind` could share `k` with its holder, but stands behind `ahead`.
    let behind_told = bench.take_later(&behind, b"k", LockMode::Shared);
    let victim = bench.take(&holder, b"other", LockMode::Exclusive).unwrap_err();
    assert_eq!(victim.kind(), ErrorKind::Deadlock);
    bench.locks.release_all(&holder);
    assert!(behind_told.try_recv().is_err());
}

#[test]
fn a_wait_ends_by_time_or_by_order_and_leaves_nothing_behind() {
    let bench = Bench::new();
    let (a, b) = (bench.owner(1), bench.owner(2));
    bench.take(&a, b"k", LockMode::Exclusive).unwrap();
    let short = Duration::from_millis(5);
    let late = bench.locks.acquire(&b, table(), b"k", LockMode::Shared, LockWait::Wait, short);
    assert_eq!(late.unwrap_err().kind(), ErrorKind::LockTimeout);
    let told = bench.take_later(&b, b"k", LockMode::Shared);
    b.interrupt();
    assert_eq!(told.recv().unwrap().unwrap_err().kind(), ErrorKind::Interrupted);
    bench.locks.release_all(&a);
    assert_eq!(bench.locks.lines(), 0);
}

#[test]
fn hundreds_in_one_line_never_overlap() {
    let bench = Bench::new();
    let inside = AtomicUsize::new(0);
    let passed = AtomicUsize::new(0);
    spillway_base::thread::together(200, |id| {
        for _ in 0..20 {
            let owner = bench.owner(id as u64);
            bench.take(&owner, b"hot", LockMode::Exclusive).unwrap();
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
            inside.fetch_sub(1, Ordering::SeqCst);
            passed.fetch_add(1, Ordering::SeqCst);
            bench.locks.release_all(&owner);
        }
    });
    assert_eq!((passed.into_inner(), bench.locks.lines()), (4000, 0));
}

/// Locks, upgrades, times out, is cancelled and breaks deadlocks at random: nobody is let in beside an exclusive
/// holder, and no lock outlives its transaction.
#[test]
fn no_lock_outlives_its_transaction() {
    const KEYS: [&[u8]; 4] = [b"0", b"1", b"2", b"3"];
    let bench = Bench::new();
    let state: [AtomicUsize; 4] = Default::default();
    let ended: [AtomicUsize; 4] = Default::default();
    // An exclusive holder counts as this many shared ones.
    let exclusive = 1 << 16;
    let transact = |id: u64, rng: &mut Rng| {
        let owner = bench.owner(id);
        let mut held = [0; 4];
        for _ in 0..4 {
            let at = rng.below(4) as usize;
            let mode = if rng.chance(1, 2) { LockMode::Shared } else { LockMode::Exclusive };
            let timeout = Duration::from_micros(rng.below(200));
            if rng.chance(1, 8) {
                owner.interrupt();
            }
            let wait = LockWait::Wait;
            let outcome = bench.locks.acquire(&owner, table(), KEYS[at], mode, wait, timeout);
            let end = match outcome.as_ref().map_err(Error::kind) {
                Ok(_) => 0,
                Err(ErrorKind::Deadlock) => 1,
                Err(ErrorKind::LockTimeout) => 2,
                Err(_) => 3,
            };
            ended[end].fetch_add(1, Ordering::Relaxed);
            if end != 0 {
                break;
            }
            let weight = if mode == LockMode::Shared { 1 } else { exclusive };
            if weight > held[at] {
                let before = state[at].fetch_add(weight - held[at], Ordering::SeqCst) - held[at];
                assert!(before == 0 || (before < exclusive && weight == 1), "{before}");
                held[at] = weight;
            }
        }
        for (state, held) in state.iter().zip(held) {
            state.fetch_sub(held, Ordering::SeqCst);
        }
        bench.locks.release_all(&owner);
    };
    spillway_base::thread::together(6, |thread| {
        let mut rng = Rng::new(thread as u64);
        for round in 0..4000 {
            transact(thread as u64 * 10_000 + round, &mut rng);
        }
    });
    assert_eq!(bench.locks.lines(), 0);
    assert!(ended.iter().all(|count| count.load(Ordering::Relaxed) > 0), "{ended:?}");
}

#[test]
fn a_deadline_that_is_far_away_is_none() {
    let bench = Bench::new();
    let (a, b) = (bench.owner(1), bench.owner(2));
    bench.take(&a, b"k", LockMode::Exclusive).unwrap();
    let (locks, asking) = (bench.locks.clone(), b.clone());
    let told = spillway_base::thread::spawn("asks", move || {
        let mode = LockMode::Exclusive;
        locks.acquire(&asking, table(), b"k", mode, LockWait::Wait, Duration::MAX)
    })
    .unwrap();
    while b.waits_for().is_none() {
        std::thread::yield_now();
    }
    bench.locks.release_all(&a);
    assert_eq!(told.join().unwrap().unwrap(), Acquired::New);
}
