//! Range locks. Each test names the guarantees of `ranges` that it checks.

use std::sync::atomic::{AtomicUsize, Ordering};

use spillway_base::EngineKind;
use spillway_base::rng::Rng;

use super::tests::{Bench, LONG, kind, owner, table};
use super::*;

const X: LockMode = LockMode::Exclusive;
const S: LockMode = LockMode::Shared;

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

impl Bench {
    /// Locks every second key from `from` to before `to` for an owner, and folds its locks.
    fn fold(&self, owner: &LockOwner, numbers: std::ops::Range<u32>, mode: LockMode) {
        for number in numbers.step_by(2) {
            assert_eq!(self.take(owner, &key(number), mode).unwrap(), Acquired::New, "{number}");
        }
        self.locks.fold(owner);
        self.locks.check();
    }

    fn at_once(&self, owner: &LockOwner, number: u32, mode: LockMode) -> Result<Acquired> {
        self.locks.acquire(owner, table(), &key(number), mode, LockWait::NoWait, LONG)
    }

    fn may(&self, owner: &LockOwner, number: u32, mode: LockMode) -> bool {
        match self.at_once(owner, number, mode) {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::LockNotAvailable);
                false
            }
        }
    }

    fn release(&self, owner: &LockOwner) {
        self.locks.release_all(owner);
        self.locks.check();
        assert_eq!((owner.bytes(), owner.holds_any()), (0, false));
    }

    fn is_empty(&self) -> bool {
        (self.locks.lines(), self.locks.ranges()) == (0, 0)
    }
}

/// LOCK-1, LOCK-5, LOCK-6, LOCK-7.
#[test]
fn a_range_stands_for_all_keys_between_its_bounds() {
    let bench = Bench::new();
    let (a, b) = (owner(1), owner(2));
    bench.fold(&a, 100..201, X);
    assert_eq!(bench.locks.lines(), 0);
    for number in 100..=200 {
        assert!(!bench.may(&b, number, S) && !bench.may(&b, number, X), "{number}");
        assert!(bench.locks.is_held(&a, table(), &key(number), X));
        assert_eq!(bench.at_once(&a, number, S).unwrap(), Acquired::New);
    }
    let skipped = bench.locks.acquire(&b, table(), &key(150), X, LockWait::SkipLocked, LONG);
    assert_eq!((skipped.unwrap(), bench.locks.lines()), (Acquired::Skipped, 0));
    assert!(bench.may(&b, 99, X) && bench.may(&b, 201, X));
    let past = [&key(200)[..], &[0]].concat();
    assert_eq!(bench.take(&b, &past, X).unwrap(), Acquired::New, "the least key past the range");
    let elsewhere = TableId::new(EngineKind::Tiered, 2);
    let taken = bench.locks.acquire(&b, elsewhere, &key(150), X, LockWait::NoWait, LONG);
    assert_eq!(taken.unwrap(), Acquired::New);
    bench.release(&a);
    assert!(bench.may(&b, 150, X));
    bench.release(&b);
    assert!(bench.is_empty());
}

/// LOCK-2: waiters for a covered key form one line, and are served in order once the range is
/// released.
#[test]
fn waiters_of_a_range_stand_in_line_and_are_woken_by_its_release() {
    let bench = Bench::new();
    let a = owner(1);
    bench.fold(&a, 0..50, X);
    let hot: &[u8] = &[0, 0, 0, 7];
    let first = bench.take_later(owner(2), hot, X);
    let sharing = [3, 4].map(|id| bench.take_later(owner(id), hot, S));
    let other = bench.take_later(owner(5), &[0, 0, 0, 8], X);
    assert_eq!(bench.locks.lines(), 2);
    assert_eq!(bench.take(&a, hot, X).unwrap(), Acquired::Held);
    // The owner folds again while others wait in its range.
    bench.fold(&a, 50..90, X);
    assert!(!first.is_over() && !other.is_over());
    bench.release(&a);
    let first = first.granted();
    assert!(sharing.iter().all(|asking| !asking.is_over()));
    bench.release(&first);
    for asking in sharing.iter().chain([&other]) {
        bench.release(&asking.granted());
    }
    assert!(bench.is_empty());
}

/// LOCK-4: a line that a wait created goes with the wait.
#[test]
fn a_wait_that_ends_leaves_no_line_in_a_range() {
    let bench = Bench::new();
    let (a, b) = (owner(1), owner(2));
    bench.fold(&a, 0..51, X);
    for number in 0..50 {
        let late =
            bench.locks.acquire(&b, table(), &key(number), X, LockWait::Wait, Duration::ZERO);
        assert_eq!(kind(late), ErrorKind::LockTimeout);
    }
    let asking = bench.take_later(b, &[0, 0, 0, 9], S);
    asking.wait.interrupt();
    assert_eq!(asking.refused().1, ErrorKind::Interrupted);
    assert_eq!(bench.locks.lines(), 0);
    bench.release(&a);
    assert!(bench.is_empty());
}

/// LOCK-2: a range and a row can form a deadlock like two rows, in either order.
#[test]
fn a_deadlock_across_a_range_and_a_row_is_found() {
    for range_waits_first in [true, false] {
        let bench = Bench::new();
        let (a, b) = (owner(1), owner(2));
        bench.take(&b, &key(70), X).unwrap();
        bench.fold(&a, 0..50, X);
        let (in_range, row): (&[u8], &[u8]) = (&[0, 0, 0, 10], &[0, 0, 0, 70]);
        let (waits, victim, wanted) = if range_waits_first {
            (bench.take_later(a, row, X), b, in_range)
        } else {
            (bench.take_later(b, in_range, X), a, row)
        };
        assert_eq!(kind(bench.take(&victim, wanted, S)), ErrorKind::Deadlock);
        bench.release(&victim);
        bench.release(&waits.granted());
        assert!(bench.is_empty());
    }
}

/// LOCK-2: so can two ranges.
#[test]
fn a_deadlock_between_two_ranges_is_found() {
    let bench = Bench::new();
    let (a, b) = (owner(1), owner(2));
    bench.fold(&a, 0..50, X);
    bench.fold(&b, 100..150, X);
    let waits = bench.take_later(a, &[0, 0, 0, 120], X);
    assert_eq!(kind(bench.take(&b, &key(21), X)), ErrorKind::Deadlock);
    bench.release(&b);
    bench.release(&waits.granted());
    assert!(bench.is_empty());
}

/// LOCK-3: shared ranges overlap without lines, and keep writers out until the last one is
/// released.
#[test]
fn shared_ranges_go_together() {
    let bench = Bench::new();
    let (a, b, c) = (owner(1), owner(2), owner(3));
    bench.fold(&a, 0..100, S);
    bench.fold(&b, 1..100, S);
    assert_eq!(bench.locks.lines(), 0);
    assert!(bench.may(&c, 50, S) && !bench.may(&c, 51, X));
    bench.release(&c);
    assert_eq!(bench.locks.lines(), 0, "LOCK-4");
    // An upgrade waits for the other shared lock, and a second upgrade is a deadlock.
    assert!(!bench.may(&a, 50, X));
    let upgrade = bench.take_later(a, &[0, 0, 0, 50], X);
    assert_eq!(kind(bench.take(&b, &key(50), X)), ErrorKind::Deadlock);
    bench.release(&b);
    let a = upgrade.granted();
    assert!(!bench.may(&c, 50, S) && bench.may(&c, 51, S));
    bench.release(&a);
    bench.release(&c);
    assert!(bench.is_empty());
}

/// LOCK-1: a lock that is stronger than the range over its key stays, and may also come later.
#[test]
fn an_owner_strengthens_what_its_shared_range_covers() {
    let bench = Bench::new();
    let (a, b) = (owner(1), owner(2));
    bench.take(&a, &key(10), X).unwrap();
    bench.fold(&a, 11..100, S);
    assert!(!bench.may(&b, 10, S) && bench.may(&b, 31, S));
    assert!(!bench.may(&a, 31, X));
    assert_eq!(bench.at_once(&a, 40, X).unwrap(), Acquired::New);
    assert!(!bench.may(&b, 40, S));
    // All of them at once.
    bench.release(&b);
    bench.fold(&a, 51..100, X);
    for number in [10, 30, 40, 70, 99] {
        assert!(!bench.may(&b, number, S), "{number}");
    }
    bench.release(&a);
    bench.release(&b);
    assert!(bench.is_empty());
}

/// LOCK-3: a fold leaves out keys that others hold or wait for.
#[test]
fn a_fold_leaves_out_what_others_hold() {
    let bench = Bench::new();
    let (a, b, c) = (owner(1), owner(2), owner(3));
    bench.take(&a, &key(20), X).unwrap();
    let waits = bench.take_later(owner(4), &[0, 0, 0, 20], X);
    bench.take(&b, &key(11), X).unwrap();
    bench.take(&c, &key(31), S).unwrap();
    bench.fold(&a, 10..20, X);
    bench.fold(&a, 22..50, X);
    assert!(bench.at_once(&b, 11, X).is_ok() && bench.at_once(&c, 31, S).is_ok());
    assert!(!bench.may(&a, 11, X) && !bench.may(&a, 31, X) && bench.may(&a, 33, X));
    bench.release(&b);
    // A left-out key is not covered, but may be locked.
    assert!(bench.may(&c, 11, X));
    bench.release(&c);
    assert!(bench.may(&a, 11, X) && bench.may(&a, 31, X));
    assert!(!bench.may(&b, 11, X) && !bench.may(&b, 31, S));
    bench.release(&a);
    bench.release(&waits.granted());
    assert!(bench.is_empty());
}

/// LOCK-3: a fold takes the part of its span that no other range blocks.
#[test]
fn a_range_ends_where_another_begins() {
    let bench = Bench::new();
    let (a, b) = (owner(1), owner(2));
    bench.fold(&a, 100..151, X);
    bench.fold(&b, 0..100, X);
    for number in (160..200).step_by(2) {
        bench.take(&b, &key(number), X).unwrap();
    }
    bench.locks.fold(&b);
    // All of the second owner's keys at once, so that its span contains the other's range.
    let c = owner(3);
    bench.fold(&c, 300..320, X);
    for number in [290, 330] {
        bench.take(&b, &key(number), X).unwrap();
    }
    bench.locks.fold(&b);
    bench.locks.check();
    for number in (0..100).step_by(2).chain([290, 330]) {
        assert!(bench.locks.is_held(&b, table(), &key(number), X), "{number}");
    }
    assert!(bench.may(&c, 305, X) && bench.may(&a, 125, X) && !bench.may(&b, 305, S));
    for owner in [&a, &b, &c] {
        bench.release(owner);
    }
    assert!(bench.is_empty());
}

/// LOCK-1: spans far apart stay separate while there are few.
#[test]
fn an_owner_has_few_spans() {
    let bench = Bench::new();
    let (a, b) = (owner(1), owner(2));
    for part in 0..8 {
        bench.fold(&a, part * 1000..part * 1000 + 100, X);
    }
    assert!(bench.may(&b, 500, X) && bench.may(&b, 6500, X) && !bench.may(&b, 6050, S));
    bench.fold(&a, 8000..8100, X);
    assert!(bench.may(&b, 5500, X) && !bench.may(&b, 7500, X), "the last two are joined");
    // This holds for any number of tables.
    for table in 2..100 {
        let table = TableId::new(EngineKind::Tiered, table);
        for number in 0..10 {
            bench.locks.acquire(&a, table, &key(number), X, LockWait::Wait, LONG).unwrap();
        }
        bench.locks.fold(&a);
        bench.locks.check();
    }
    assert!(bench.locks.ranges() <= 64 * SHARDS);
    for table in 2..100 {
        let table = TableId::new(EngineKind::Tiered, table);
        assert!((0..10).all(|number| bench.locks.is_held(&a, table, &key(number), X)));
    }
    bench.release(&a);
    bench.release(&b);
    assert!(bench.is_empty());
}

/// LOCK-1, LOCK-8: the locks of one owner, in order or not, take no more memory than a fold leaves,
/// even if two owners share them.
#[test]
fn locks_of_many_rows_take_bounded_memory() {
    const LOCKS: u32 = 300_000;
    const FOLD_FROM: usize = 10_000;
    for scattered in [false, true] {
        let bench = Bench::new();
        let (a, b) = (owner(1), owner(2));
        let mut most = 0;
        for number in 0..LOCKS {
            // A permutation of the numbers below a power of two.
            let number =
                if scattered { number.wrapping_mul(2_654_435_769) % (1 << 19) } else { number };
            for owner in [&a, &b] {
                assert_eq!(bench.at_once(owner, number, S).unwrap(), Acquired::New);
                if owner.holds_lines(FOLD_FROM) {
                    bench.locks.fold(owner);
                }
            }
            most = most.max(a.bytes()).max(b.bytes());
        }
        assert!(most < 4 << 20, "{most}");
        assert!(bench.locks.lines() <= 2 * FOLD_FROM);
        bench.release(&a);
        bench.release(&b);
        assert!(bench.is_empty());
    }
}

/// The locks that owners hold by granted requests.
#[derive(Default)]
struct Model {
    held: FxHashMap<(u64, u32), LockMode>,
}

impl Model {
    fn admits(&self, id: u64, number: u32, mode: LockMode) -> bool {
        let others = self.held.iter().filter(|((other, at), _)| *other != id && *at == number);
        others.into_iter().all(|(_, held)| *held == S && mode == S)
    }
}

/// LOCK-6 against a model: a granted lock is held, by a line or a range, until its owner ends, and
/// no other owner has it in conflict; a refused lock is held by another. LOCK-2 to LOCK-4 hold at
/// every step.
#[test]
fn random_folds_agree_with_a_model() {
    for seed in 0..25 {
        let mut rng = Rng::new(seed);
        let bench = Bench::new();
        let mut owners: Vec<LockOwner> = (1..=4).map(owner).collect();
        let mut next_id = 5;
        let mut model = Model::default();
        let mut refused = 0;
        for _ in 0..600 {
            let at = rng.below(4) as usize;
            let id = owners[at].id();
            match rng.below(20) {
                0 => {
                    bench.release(&owners[at]);
                    model.held.retain(|(held_by, _), _| *held_by != id);
                    owners[at] = owner(next_id);
                    next_id += 1;
                }
                1..=3 => bench.locks.fold(&owners[at]),
                _ => {
                    let number = rng.below(64) as u32;
                    let mode = if rng.chance(1, 2) { S } else { X };
                    if bench.may(&owners[at], number, mode) {
                        assert!(model.admits(id, number, mode), "{seed}");
                        let held = model.held.entry((id, number)).or_insert(mode);
                        *held = mode.max(*held);
                    } else {
                        let in_way = |other: &&LockOwner| {
                            let weakest = if mode == S { X } else { S };
                            other.id() != id
                                && bench.locks.is_held(other, table(), &key(number), weakest)
                        };
                        assert!(owners.iter().any(|other| in_way(&other)), "{seed}");
                        refused += 1;
                    }
                }
            }
            if rng.chance(3, 4) {
                continue;
            }
            bench.locks.check();
            for ((id, number), mode) in &model.held {
                let owner = owners.iter().find(|owner| owner.id() == *id).unwrap();
                assert!(bench.locks.is_held(owner, table(), &key(*number), *mode), "{seed}");
            }
        }
        assert!(refused > 0);
        owners.iter().for_each(|owner| bench.release(owner));
        assert!(bench.is_empty());
    }
}

/// LOCK-6 between threads that lock, wait, fold, time out, are cancelled and break deadlocks at
/// random.
#[test]
fn nobody_is_let_in_beside_the_owner_of_a_range() {
    const KEYS: usize = 24;
    let bench = Bench::new();
    let state: [AtomicUsize; KEYS] = std::array::from_fn(|_| AtomicUsize::new(0));
    let ended: [AtomicUsize; 4] = Default::default();
    // An exclusive holder counts as this many shared ones.
    let exclusive = 1 << 16;
    let transact = |id: u64, rng: &mut Rng| {
        let owner = owner(id);
        let mut held = [0; KEYS];
        for _ in 0..rng.below(16) {
            if rng.chance(1, 4) {
                bench.locks.fold(&owner);
            }
            let at = rng.below(KEYS as u64) as usize;
            let mode = if rng.chance(1, 2) { S } else { X };
            let timeout = Duration::from_micros(rng.below(200));
            if rng.chance(1, 20) {
                owner.wait().interrupt();
            }
            let (wait, key) = (LockWait::Wait, key(at as u32));
            let outcome = bench.locks.acquire(&owner, table(), &key, mode, wait, timeout);
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
            let weight = if mode == S { 1 } else { exclusive };
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
        for round in 0..3000 {
            transact(thread as u64 * 10_000 + round, &mut rng);
            if round % 64 == 0 {
                bench.locks.check();
            }
        }
    });
    assert!(bench.is_empty());
    assert!(ended.iter().all(|count| count.load(Ordering::Relaxed) > 0), "{ended:?}");
}
