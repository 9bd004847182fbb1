use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use super::line::Line;
use super::shard::LINES_KEPT;
use super::*;
use spillway_base::EngineKind;
use spillway_base::rng::Rng;

pub(super) const LONG: Duration = Duration::from_secs(60);

pub(super) fn table() -> TableId {
    TableId::new(EngineKind::Tiered, 1)
}

pub(super) struct Bench {
    pub(super) locks: Arc<Locks>,
}

/// A request that waits, or waited, in its own thread.
pub(super) struct Asking {
    pub(super) wait: Arc<Wait>,
    told: mpsc::Receiver<(LockOwner, Result<Acquired>)>,
}

impl Asking {
    pub(super) fn is_over(&self) -> bool {
        // A received result is not put back, so this is called only if none should have come.
        self.told.try_recv().is_ok()
    }

    pub(super) fn granted(&self) -> LockOwner {
        let (owner, outcome) = self.told.recv().unwrap();
        assert_eq!(outcome.unwrap(), Acquired::New);
        owner
    }

    pub(super) fn refused(&self) -> (LockOwner, ErrorKind) {
        let (owner, outcome) = self.told.recv().unwrap();
        (owner, outcome.unwrap_err().kind())
    }
}

impl Bench {
    pub(super) fn new() -> Bench {
        Bench { locks: Arc::new(Locks::new()) }
    }

    pub(super) fn take(&self, owner: &LockOwner, key: &[u8], mode: LockMode) -> Result<Acquired> {
        self.locks.acquire(owner, table(), key, mode, LockWait::Wait, LONG)
    }

    /// Requests in another thread, and returns once the owner is in line and has searched for a
    /// deadlock.
    pub(super) fn take_later(
        &self,
        owner: LockOwner,
        key: &'static [u8],
        mode: LockMode,
    ) -> Asking {
        self.take_within(owner, key, mode, LONG)
    }

    fn take_within(
        &self,
        owner: LockOwner,
        key: &'static [u8],
        mode: LockMode,
        timeout: Duration,
    ) -> Asking {
        let (tell, told) = mpsc::channel();
        let (id, wait) = (owner.id, owner.wait().clone());
        let locks = self.locks.clone();
        let thread = spillway_base::thread::spawn("asks", move || {
            let outcome = locks.acquire(&owner, table(), key, mode, LockWait::Wait, timeout);
            let _ = tell.send((owner, outcome));
        })
        .unwrap();
        while !self.locks.is_waiting(id) && !thread.is_finished() {
            std::thread::yield_now();
        }
        Asking { wait, told }
    }

    fn edges(&self) -> u64 {
        self.locks.detector.lock().edges
    }
}

pub(super) fn owner(id: u64) -> LockOwner {
    LockOwner::new(id)
}

#[test]
fn a_line_is_64_bytes() {
    assert_eq!((size_of::<Line>(), size_of::<LockShard>()), (64, 64));
}

#[test]
fn shared_locks_go_together_and_exclusive_ones_do_not() {
    let bench = Bench::new();
    let (a, b, c) = (owner(1), owner(2), owner(3));
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
    let mut holder = owner(0);
    bench.take(&holder, b"k", LockMode::Exclusive).unwrap();
    let asking: Vec<_> =
        (1..=20).map(|id| bench.take_later(owner(id), b"k", LockMode::Exclusive)).collect();
    for next in &asking {
        bench.locks.release_all(&holder);
        holder = next.granted();
    }
    bench.locks.release_all(&holder);
    assert_eq!(bench.locks.lines(), 0);
}

/// A release wakes the next waiter and no other, however long the line is.
#[test]
fn a_release_wakes_exactly_whom_it_grants() {
    let mut line = Line::new(Target::new(table(), b"hot"), 0, LockMode::Exclusive);
    let waits: Vec<Arc<Wait>> = (0..500).map(|_| Arc::default()).collect();
    // The last three are shared.
    let mode = |id| if id < 498 { LockMode::Exclusive } else { LockMode::Shared };
    for (id, wait) in (1..).zip(&waits) {
        line.wait(id, mode(id), wait.clone());
    }
    for id in 0..497 {
        let mut granted = Granted::default();
        assert!(!line.release(id, &mut granted));
        assert!(granted.woken().eq([&waits[id as usize]].map(Arc::as_ptr)), "{id}");
        assert!(line.holders().eq([id + 1]));
    }
    let mut granted = Granted::default();
    assert!(!line.release(497, &mut granted));
    assert!(granted.woken().eq(waits[497..].iter().map(Arc::as_ptr)));
    let mut nobody = Granted::default();
    assert!(!line.release(499, &mut nobody) && !line.release(498, &mut nobody));
    assert!(line.release(500, &mut nobody));
    assert_eq!(nobody.woken().count(), 0);
}

#[test]
fn a_shared_request_does_not_overtake_an_exclusive_one() {
    let bench = Bench::new();
    let a = owner(1);
    bench.take(&a, b"k", LockMode::Shared).unwrap();
    let exclusive = bench.take_later(owner(2), b"k", LockMode::Exclusive);
    let shared = bench.take_later(owner(3), b"k", LockMode::Shared);
    assert!(!shared.is_over());
    bench.locks.release_all(&a);
    let b = exclusive.granted();
    assert!(!shared.is_over());
    bench.locks.release_all(&b);
    shared.granted();
}

/// Counts its calls.
#[derive(Default)]
struct Calls(AtomicUsize);

impl std::task::Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Calls {
    fn take(&self) -> usize {
        self.0.swap(0, Ordering::SeqCst)
    }

    /// An owner whose waits do not block, and the counter of its calls.
    fn owner(id: u64) -> (LockOwner, Arc<Calls>) {
        let (owner, calls) = (owner(id), Arc::new(Calls::default()));
        owner.wait().set_waker(calls.clone().into());
        owner.leave_waits(true);
        (owner, calls)
    }
}

pub(super) fn kind<T>(outcome: Result<T>) -> ErrorKind {
    outcome.err().expect("it is refused").kind()
}

#[test]
fn waits_that_are_left_behind_are_served_in_order_without_a_thread() {
    let bench = Bench::new();
    let first = owner(0);
    let mut holder = &first;
    bench.take(holder, b"hot", LockMode::Exclusive).unwrap();
    let waiting: Vec<_> = (1..=300).map(Calls::owner).collect();
    for (owner, _) in &waiting {
        assert_eq!(kind(bench.take(owner, b"hot", LockMode::Exclusive)), ErrorKind::WouldBlock);
        assert_eq!(kind(bench.locks.resume(owner)), ErrorKind::WouldBlock);
    }
    for (next, calls) in &waiting {
        bench.locks.release_all(holder);
        let called: usize = waiting.iter().map(|(_, calls)| calls.0.load(Ordering::SeqCst)).sum();
        assert_eq!((called, calls.take()), (1, 1));
        let held = bench.locks.resume(next).unwrap().unwrap();
        let is = |key| held.is(table(), key, LockMode::Exclusive);
        assert!(is(b"hot") && !is(b"cold"));
        assert_eq!(bench.take(next, b"hot", LockMode::Exclusive).unwrap(), Acquired::Held);
        holder = next;
    }
    bench.locks.release_all(holder);
    assert_eq!((bench.locks.lines(), bench.locks.waits.count()), (0, 300));
}

#[test]
fn a_wait_that_is_left_behind_ends_in_every_way() {
    let bench = Bench::new();
    let holder = owner(0);
    bench.take(&holder, b"k", LockMode::Exclusive).unwrap();
    let leave = |owner: &LockOwner, timeout| {
        let (mode, wait) = (LockMode::Exclusive, LockWait::Wait);
        let left = bench.locks.acquire(owner, table(), b"k", mode, wait, timeout);
        assert_eq!(kind(left), ErrorKind::WouldBlock);
        assert!(bench.locks.is_waiting(owner.id));
    };
    let (late, _) = Calls::owner(1);
    leave(&late, Duration::ZERO);
    assert_eq!(kind(bench.locks.resume(&late)), ErrorKind::LockTimeout);
    let (cancelled, calls) = Calls::owner(2);
    leave(&cancelled, LONG);
    cancelled.wait().interrupt();
    assert_eq!(calls.take(), 1);
    assert_eq!(kind(bench.locks.resume(&cancelled)), ErrorKind::Interrupted);
    let (gone, calls) = Calls::owner(3);
    leave(&gone, LONG);
    bench.locks.release_all(&gone);
    // It has been granted the lock when it ends.
    let (lucky, lucky_calls) = Calls::owner(4);
    leave(&lucky, LONG);
    bench.locks.release_all(&holder);
    assert_eq!((calls.take(), lucky_calls.take()), (0, 1));
    bench.locks.release_all(&lucky);
    assert_eq!((bench.locks.lines(), bench.locks.detector.lock().waiting.len()), (0, 0));
}

#[test]
fn a_cycle_through_waits_that_are_left_behind_is_found() {
    let bench = Bench::new();
    let ((a, a_calls), (b, _)) = (Calls::owner(1), Calls::owner(2));
    bench.take(&a, b"1", LockMode::Exclusive).unwrap();
    bench.take(&b, b"2", LockMode::Exclusive).unwrap();
    assert_eq!(kind(bench.take(&a, b"2", LockMode::Exclusive)), ErrorKind::WouldBlock);
    assert_eq!(kind(bench.take(&b, b"1", LockMode::Exclusive)), ErrorKind::Deadlock);
    bench.locks.release_all(&b);
    assert_eq!(a_calls.take(), 1);
    assert!(bench.locks.resume(&a).unwrap().unwrap().is(table(), b"2", LockMode::Shared));
    bench.locks.release_all(&a);
    assert_eq!(bench.locks.lines(), 0);
}

#[test]
fn a_cycle_is_broken_by_the_one_that_closes_it() {
    let bench = Bench::new();
    let mut owners: Vec<_> = (0..5).map(owner).collect();
    let keys: [&'static [u8]; 5] = [b"0", b"1", b"2", b"3", b"4"];
    for (owner, key) in owners.iter().zip(keys) {
        bench.take(owner, key, LockMode::Exclusive).unwrap();
    }
    let victim = owners.pop().unwrap();
    let asking: Vec<_> = owners
        .into_iter()
        .zip(&keys[1..])
        .map(|(owner, key)| bench.take_later(owner, key, LockMode::Exclusive))
        .collect();
    let refused = bench.take(&victim, keys[0], LockMode::Exclusive).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Deadlock);
    bench.locks.release_all(&victim);
    for asking in asking.iter().rev() {
        bench.locks.release_all(&asking.granted());
    }
    assert_eq!(bench.locks.lines(), 0);
}

#[test]
fn two_upgrades_of_one_share_are_a_deadlock() {
    let bench = Bench::new();
    let (a, b) = (owner(1), owner(2));
    bench.take(&a, b"k", LockMode::Shared).unwrap();
    bench.take(&b, b"k", LockMode::Shared).unwrap();
    let first = bench.take_later(a, b"k", LockMode::Exclusive);
    let second = bench.take(&b, b"k", LockMode::Exclusive).unwrap_err();
    assert_eq!(second.kind(), ErrorKind::Deadlock);
    bench.locks.release_all(&b);
    bench.locks.release_all(&first.granted());
    assert_eq!(bench.locks.lines(), 0);
}

#[test]
fn an_upgrade_goes_before_those_who_came_earlier() {
    let bench = Bench::new();
    let (a, b) = (owner(1), owner(2));
    bench.take(&a, b"k", LockMode::Shared).unwrap();
    bench.take(&b, b"k", LockMode::Shared).unwrap();
    let stranger = bench.take_later(owner(3), b"k", LockMode::Exclusive);
    let upgrade = bench.take_later(a, b"k", LockMode::Exclusive);
    bench.locks.release_all(&b);
    let a = upgrade.granted();
    assert!(!stranger.is_over());
    bench.locks.release_all(&a);
    bench.locks.release_all(&stranger.granted());
    assert_eq!(bench.locks.lines(), 0);
}

#[test]
fn a_cycle_through_a_line_is_found() {
    let bench = Bench::new();
    let (holder, behind) = (owner(1), owner(3));
    bench.take(&holder, b"k", LockMode::Shared).unwrap();
    bench.take(&behind, b"other", LockMode::Exclusive).unwrap();
    let _ahead = bench.take_later(owner(2), b"k", LockMode::Exclusive);
    // `behind` could share `k` with its holder, but is in line behind `ahead`.
    let behind = bench.take_later(behind, b"k", LockMode::Shared);
    let victim = bench.take(&holder, b"other", LockMode::Exclusive).unwrap_err();
    assert_eq!(victim.kind(), ErrorKind::Deadlock);
    bench.locks.release_all(&holder);
    assert!(!behind.is_over());
}

/// However long the line, a new waiter checks only the holder and the key that it waits for.
#[test]
fn a_look_for_deadlocks_is_no_longer_behind_a_line_of_hundreds() {
    let bench = Bench::new();
    let (first, second) = (owner(1000), owner(1001));
    bench.take(&first, b"hot", LockMode::Exclusive).unwrap();
    bench.take(&second, b"cold", LockMode::Exclusive).unwrap();
    let line: Vec<_> =
        (0..500).map(|id| bench.take_later(owner(id), b"hot", LockMode::Exclusive)).collect();
    assert_eq!(bench.edges(), 500);
    let first = bench.take_later(first, b"cold", LockMode::Exclusive);
    assert_eq!(bench.edges(), 501);
    let last = bench.take_later(owner(500), b"hot", LockMode::Exclusive);
    assert_eq!(bench.edges(), 503);
    bench.locks.release_all(&second);
    bench.locks.release_all(&first.granted());
    for asking in line.iter().chain([&last]) {
        bench.locks.release_all(&asking.granted());
    }
    assert_eq!((bench.edges(), bench.locks.lines()), (503, 0));
}

/// A wait stays published until its thread has woken; a granted wait is no edge.
#[test]
fn a_wait_that_was_granted_is_no_edge() {
    let bench = Bench::new();
    let (a, b, c) = (owner(1), owner(2), owner(3));
    for sharing in [&a, &b] {
        bench.take(sharing, b"k", LockMode::Shared).unwrap();
    }
    bench.take(&b, b"other", LockMode::Exclusive).unwrap();
    // As if `b` had waited for its share of `k` and not woken yet.
    let key = LockKey::new(Target::new(table(), b"k"));
    bench.locks.detector.lock().waiting.insert(b.id, key);
    bench.take(&c, b"third", LockMode::Exclusive).unwrap();
    // It waits for `b`, which waits for no owner; if `b` still counted as waiting for `a`, this
    // would be a cycle.
    let a = bench.take_later(a, b"other", LockMode::Exclusive);
    bench.locks.release_all(&b);
    bench.locks.release_all(&a.granted());
    bench.locks.release_all(&c);
    assert_eq!(bench.locks.lines(), 0);
}

#[test]
fn a_wait_ends_by_time_or_by_order_and_leaves_nothing_behind() {
    let bench = Bench::new();
    let (a, b) = (owner(1), owner(2));
    bench.take(&a, b"k", LockMode::Exclusive).unwrap();
    let short = Duration::from_millis(5);
    let late = bench.locks.acquire(&b, table(), b"k", LockMode::Shared, LockWait::Wait, short);
    assert_eq!(late.unwrap_err().kind(), ErrorKind::LockTimeout);
    let asking = bench.take_later(b, b"k", LockMode::Shared);
    asking.wait.interrupt();
    assert_eq!(asking.refused().1, ErrorKind::Interrupted);
    bench.locks.release_all(&a);
    assert_eq!(bench.locks.lines(), 0);
}

/// A waiter that gives up lets those behind pass that could not be served before.
#[test]
fn a_wait_that_ends_serves_those_behind() {
    let bench = Bench::new();
    let a = owner(1);
    bench.take(&a, b"k", LockMode::Shared).unwrap();
    let exclusive = bench.take_later(owner(2), b"k", LockMode::Exclusive);
    let shared = [3, 4].map(|id| bench.take_later(owner(id), b"k", LockMode::Shared));
    exclusive.wait.interrupt();
    assert_eq!(exclusive.refused().1, ErrorKind::Interrupted);
    let shared = shared.map(|asking| asking.granted());
    shared.iter().chain([&a]).for_each(|owner| bench.locks.release_all(owner));
    assert_eq!(bench.locks.lines(), 0);
}

/// Two keys are two locks, even if their lines have the same hash.
#[test]
fn keys_that_share_a_hash_are_apart() {
    let bench = Bench::new();
    let (a, b) = (owner(1), owner(2));
    let target = |key| Target { hash: 7, ..Target::new(table(), key) };
    for key in [b"x", b"y"] {
        let acquired = bench.locks.try_acquire(&a, target(key), LockMode::Exclusive);
        assert_eq!(acquired, Some(Acquired::New));
        assert_eq!(bench.locks.try_acquire(&b, target(key), LockMode::Exclusive), None);
    }
    let free = bench.locks.try_acquire(&b, target(b"z"), LockMode::Exclusive);
    assert_eq!((free, bench.locks.lines()), (Some(Acquired::New), 3));
    bench.locks.release_all(&a);
    let free = bench.locks.try_acquire(&b, target(b"y"), LockMode::Exclusive);
    assert_eq!((free, bench.locks.lines()), (Some(Acquired::New), 2));
    bench.locks.release_all(&b);
    assert_eq!(bench.locks.lines(), 0);
}

#[test]
fn a_key_is_compared_whole_whatever_its_length() {
    let bench = Bench::new();
    let (a, b) = (owner(1), owner(2));
    let long = [7; 100];
    for len in 0..100 {
        assert_eq!(bench.take(&a, &long[..len], LockMode::Exclusive).unwrap(), Acquired::New);
    }
    for len in 0..100 {
        assert_eq!(bench.take(&a, &long[..len], LockMode::Exclusive).unwrap(), Acquired::Held);
    }
    assert_eq!(bench.take(&b, &long, LockMode::Exclusive).unwrap(), Acquired::New);
    assert_eq!(bench.locks.lines(), 101);
    bench.locks.release_all(&a);
    bench.locks.release_all(&b);
    assert_eq!(bench.locks.lines(), 0);
}

/// The table's growth for a large transaction is released.
#[test]
fn the_table_shrinks_after_a_large_transaction() {
    let bench = Bench::new();
    let capacity =
        || bench.locks.shards.iter().map(|shard| shard.0.lock().lines.capacity()).sum::<usize>();
    let a = owner(1);
    for number in 0..4 * (SHARDS * LINES_KEPT) as u32 {
        bench.take(&a, &number.to_be_bytes(), LockMode::Exclusive).unwrap();
    }
    assert!(capacity() > 4 * SHARDS * LINES_KEPT);
    bench.locks.release_all(&a);
    assert_eq!((bench.locks.lines(), capacity()), (0, 0));
}

#[test]
fn hundreds_in_one_line_never_overlap() {
    let bench = Bench::new();
    let inside = AtomicUsize::new(0);
    let passed = AtomicUsize::new(0);
    spillway_base::thread::together(200, |id| {
        for _ in 0..20 {
            let owner = owner(id as u64);
            bench.take(&owner, b"hot", LockMode::Exclusive).unwrap();
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
            inside.fetch_sub(1, Ordering::SeqCst);
            passed.fetch_add(1, Ordering::SeqCst);
            bench.locks.release_all(&owner);
        }
    });
    assert_eq!((passed.into_inner(), bench.locks.lines()), (4000, 0));
}

/// Locks, upgrades, times out, is cancelled and breaks deadlocks at random: no owner gets a lock
/// while another holds it exclusively, and no lock outlives its transaction.
#[test]
fn no_lock_outlives_its_transaction() {
    const KEYS: [&[u8]; 4] = [b"0", b"1", b"2", b"3"];
    let bench = Bench::new();
    let state: [AtomicUsize; 4] = Default::default();
    let ended: [AtomicUsize; 4] = Default::default();
    // An exclusive holder counts as this many shared ones.
    let exclusive = 1 << 16;
    let transact = |id: u64, rng: &mut Rng| {
        let owner = owner(id);
        let mut held = [0; 4];
        for _ in 0..4 {
            let at = rng.below(4) as usize;
            let mode = if rng.chance(1, 2) { LockMode::Shared } else { LockMode::Exclusive };
            let timeout = Duration::from_micros(rng.below(200));
            if rng.chance(1, 8) {
                owner.wait().interrupt();
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
            // Without this, a thread of a busy machine may do all rounds before another begins.
            if rng.chance(1, 8) {
                std::thread::yield_now();
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
    let a = owner(1);
    bench.take(&a, b"k", LockMode::Exclusive).unwrap();
    let asking = bench.take_within(owner(2), b"k", LockMode::Exclusive, Duration::MAX);
    bench.locks.release_all(&a);
    asking.granted();
}
