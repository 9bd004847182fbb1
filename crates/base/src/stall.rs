//! Stalls: waits of writers, their causes and their durations (decisions 007 and 008).
//!
//! A wait may be counted in two places. The component that makes writers wait has a [`Tally`],
//! which counts for the whole database. The waiting thread may also have a [`Ledger`], which is
//! [`attach`]ed to the thread while the thread runs a statement. The ledger records every wait of
//! the thread, and shows other threads the cause of the current wait.
//!
//! A commit that is not delayed reads no clock here.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use crate::clock::Clock;
use crate::thread::blocking;

/// The cause of a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// The throttle: flushes are behind.
    ThrottleFlush,
    /// The throttle: Level0 of a table has many sub-levels.
    ThrottleLevel0,
    /// The throttle: compactions are behind.
    ThrottleCompaction,
    /// The memtables' share of the memory budget is used up.
    Memory,
    /// The log's buffer is full.
    Log,
    /// Another transaction holds the row.
    Lock,
    /// The commit is not durable in the log yet.
    Commit,
}

impl Cause {
    /// All causes.
    pub const ALL: [Cause; 7] = [
        Cause::ThrottleFlush,
        Cause::ThrottleLevel0,
        Cause::ThrottleCompaction,
        Cause::Memory,
        Cause::Log,
        Cause::Lock,
        Cause::Commit,
    ];

    /// The cause's name in status variables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Cause::ThrottleFlush => "throttle_flush",
            Cause::ThrottleLevel0 => "throttle_level0",
            Cause::ThrottleCompaction => "throttle_compaction",
            Cause::Memory => "memory",
            Cause::Log => "log",
            Cause::Lock => "lock",
            Cause::Commit => "commit",
        }
    }

    /// The state of a thread that waits for this cause, as `SHOW PROCESSLIST` shows it.
    #[must_use]
    pub fn state(self) -> &'static str {
        match self {
            Cause::ThrottleFlush => "Throttled: flushes are behind",
            Cause::ThrottleLevel0 => "Throttled: Level0 is deep",
            Cause::ThrottleCompaction => "Throttled: compactions are behind",
            Cause::Memory => "Waiting for memtable memory",
            Cause::Log => "Waiting for room in the log",
            Cause::Lock => "Waiting for row lock",
            Cause::Commit => "waiting for handler commit",
        }
    }
}

/// The number of waits for a cause, and their total time.
#[derive(Debug, Default)]
pub struct Tally {
    count: AtomicU64,
    ns: AtomicU64,
}

impl Tally {
    /// The number of completed waits.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// The total time of these waits.
    #[must_use]
    pub fn time(&self) -> Duration {
        Duration::from_nanos(self.ns.load(Ordering::Relaxed))
    }

    /// Counts a completed wait.
    pub fn add(&self, time: Duration) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.ns.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Runs `wait`, counts it in this tally and in the thread's ledger, and reports it to the
    /// thread's pool.
    pub fn during<T>(&self, cause: Cause, clock: &Clock, wait: impl FnOnce() -> T) -> T {
        /// Counts the wait when it ends, also by a panic.
        struct Waiting<'a> {
            tally: &'a Tally,
            cause: Cause,
            clock: &'a Clock,
            from: Duration,
            /// The ledger, and its value of `waiting` before this wait, which an enclosing wait may
            /// have set.
            ledger: Option<(Arc<Ledger>, u8)>,
        }

        impl Drop for Waiting<'_> {
            fn drop(&mut self) {
                let time = self.clock.now().saturating_sub(self.from);
                self.tally.add(time);
                if let Some((ledger, before)) = &self.ledger {
                    ledger.waiting.store(*before, Ordering::Relaxed);
                    ledger.add(self.cause, time);
                }
            }
        }

        let ledger = LEDGER.with(|mine| mine.borrow().clone()).map(|ledger| {
            let before = ledger.waiting.swap(cause as u8, Ordering::Relaxed);
            (ledger, before)
        });
        let _waiting = Waiting { tally: self, cause, clock, from: clock.now(), ledger };
        blocking(wait)
    }
}

/// The value of [`Ledger::waiting`] when there is no wait.
const NOTHING: u8 = u8::MAX;

/// The waits of a ledger up to some moment: for each cause, their number and their time in
/// nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Waits {
    of: [(u64, u64); Cause::ALL.len()],
    /// The number of all these waits.
    ended: u64,
}

impl Waits {
    /// The waits since an earlier moment.
    #[must_use]
    pub fn since(&self, earlier: &Waits) -> Waits {
        let mut waits = *self;
        for (now, before) in waits.of.iter_mut().zip(earlier.of) {
            *now = (now.0 - before.0, now.1 - before.1);
        }
        waits.ended -= earlier.ended;
        waits
    }

    /// For each cause that occurred, the number of waits and their time.
    pub fn causes(&self) -> impl Iterator<Item = (Cause, u64, Duration)> {
        let all = Cause::ALL.into_iter().zip(self.of);
        let some = all.filter(|(_, (count, _))| *count > 0);
        some.map(|(cause, (count, ns))| (cause, count, Duration::from_nanos(ns)))
    }
}

/// The waits of one client of the database, such as a session.
#[derive(Debug)]
pub struct Ledger {
    tallies: [Tally; Cause::ALL.len()],
    /// The number of completed waits.
    ended: AtomicU64,
    /// The number of the current wait's cause, or [`NOTHING`].
    waiting: AtomicU8,
}

impl Default for Ledger {
    fn default() -> Ledger {
        Ledger {
            tallies: Default::default(),
            ended: AtomicU64::new(0),
            waiting: AtomicU8::new(NOTHING),
        }
    }
}

impl Ledger {
    /// The waits for this cause.
    #[must_use]
    pub fn tally(&self, cause: Cause) -> &Tally {
        &self.tallies[cause as usize]
    }

    /// All waits up to now.
    #[must_use]
    pub fn waits(&self) -> Waits {
        let ended = self.ended.load(Ordering::Acquire);
        let now = |tally: &Tally| (tally.count(), tally.ns.load(Ordering::Relaxed));
        Waits { of: self.tallies.each_ref().map(now), ended }
    }

    /// Brings `waits` up to date. Does nothing if no wait has ended since.
    pub fn waits_into(&self, waits: &mut Waits) {
        if waits.ended != self.ended.load(Ordering::Acquire) {
            *waits = self.waits();
        }
    }

    /// The total time of all waits.
    #[must_use]
    pub fn time(&self) -> Duration {
        self.tallies.iter().map(Tally::time).sum()
    }

    /// The cause of the current wait, if there is one.
    #[must_use]
    pub fn waiting(&self) -> Option<Cause> {
        Cause::ALL.get(usize::from(self.waiting.load(Ordering::Relaxed))).copied()
    }

    fn add(&self, cause: Cause, time: Duration) {
        self.tallies[cause as usize].add(time);
        // Last, so that a thread that reads the new count also reads the rest of the wait.
        self.ended.fetch_add(1, Ordering::Release);
    }
}

/// A wait that blocks no thread. It counts in the ledger that was attached when it began, and may
/// end on any thread.
#[must_use = "it ends, and is counted, when this is dropped"]
pub struct Pending {
    ledger: Arc<Ledger>,
    cause: Cause,
    from: Duration,
}

impl Pending {
    /// Begins a wait if a ledger is attached to this thread. Without a ledger there is nothing to
    /// count.
    pub fn begin(cause: Cause) -> Option<Pending> {
        let ledger = LEDGER.with(|mine| mine.borrow().clone())?;
        ledger.waiting.store(cause as u8, Ordering::Relaxed);
        Some(Pending { ledger, cause, from: crate::clock::now() })
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.ledger.waiting.store(NOTHING, Ordering::Relaxed);
        self.ledger.add(self.cause, crate::clock::now().saturating_sub(self.from));
    }
}

thread_local! {
    static LEDGER: RefCell<Option<Arc<Ledger>>> = const { RefCell::new(None) };
}

/// An attached ledger. The waits of the thread that attached it are counted in it, until this is
/// dropped on that thread.
pub struct Attached {
    before: Option<Arc<Ledger>>,
    of_this_thread: PhantomData<*const ()>,
}

/// Counts the waits of this thread in `ledger`.
#[must_use = "they are counted until this is dropped"]
pub fn attach(ledger: Arc<Ledger>) -> Attached {
    let before = LEDGER.with(|mine| mine.borrow_mut().replace(ledger));
    Attached { before, of_this_thread: PhantomData }
}

impl Attached {
    /// Detaches the ledger, as dropping does, and returns it. A caller that attaches one ledger
    /// repeatedly then need not clone it each time.
    pub fn detach(mut self) -> Option<Arc<Ledger>> {
        let ledger = self.end();
        // `end` has done what dropping does, and `self` owns nothing else.
        std::mem::forget(self);
        ledger
    }

    fn end(&mut self) -> Option<Arc<Ledger>> {
        let before = self.before.take();
        LEDGER.with(|mine| std::mem::replace(&mut *mine.borrow_mut(), before))
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(3);

    #[test]
    fn a_wait_is_counted_for_who_makes_wait_and_for_who_waits() {
        let (tally, clock, ledger) =
            (Tally::default(), Clock::manual(), Arc::new(Ledger::default()));
        let wait = |cause| tally.during(cause, &clock, || clock.sleep(STEP));
        wait(Cause::Log);
        let attached = attach(ledger.clone());
        tally.during(Cause::Memory, &clock, || {
            assert_eq!(ledger.waiting(), Some(Cause::Memory));
            clock.sleep(STEP);
        });
        assert_eq!(ledger.waiting(), None);
        drop(attached);
        wait(Cause::Memory);
        let before = ledger.waits();
        ledger.add(Cause::Commit, 2 * STEP);
        let mut now = before;
        ledger.waits_into(&mut now);
        assert_eq!(now, ledger.waits());
        let added: Vec<_> = now.since(&before).causes().collect();
        assert_eq!(added, [(Cause::Commit, 1, 2 * STEP)]);
        assert_eq!((tally.count(), tally.time()), (3, 3 * STEP));
        assert_eq!(ledger.tally(Cause::Memory).count(), 1);
        assert_eq!(ledger.tally(Cause::Log).count(), 0);
        assert_eq!(ledger.time(), 3 * STEP);
    }

    #[test]
    fn ledgers_are_attached_one_within_another_and_by_thread() {
        let (tally, clock) = (Tally::default(), Clock::manual());
        let ledgers: [Arc<Ledger>; 2] = Default::default();
        let outer = attach(ledgers[0].clone());
        let inner = attach(ledgers[1].clone()).detach();
        assert!(inner.is_some_and(|inner| Arc::ptr_eq(&inner, &ledgers[1])));
        crate::thread::together(1, |_| tally.during(Cause::Lock, &clock, || clock.sleep(STEP)));
        tally.during(Cause::Lock, &clock, || clock.sleep(STEP));
        drop(outer);
        assert_eq!(ledgers.each_ref().map(|ledger| ledger.time()), [STEP, Duration::ZERO]);
    }

    #[test]
    fn a_wait_without_a_thread_ends_on_any() {
        let ledger = Arc::new(Ledger::default());
        assert!(Pending::begin(Cause::Commit).is_none());
        let attached = attach(ledger.clone());
        let pending = Pending::begin(Cause::Commit);
        drop(attached);
        assert_eq!(ledger.waiting(), Some(Cause::Commit));
        crate::thread::spawn("other", move || drop(pending)).unwrap().join().unwrap();
        assert_eq!((ledger.waiting(), ledger.tally(Cause::Commit).count()), (None, 1));
    }

    #[test]
    fn every_cause_has_a_name_of_its_own() {
        for (number, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, number);
            let same = Cause::ALL
                .iter()
                .filter(|other| other.name() == cause.name() || other.state() == cause.state());
            assert_eq!(same.count(), 1, "{cause:?}");
        }
    }
}
