//! The largest CSN up to which every commit has finished a stage.
//!
//! Commits have dense CSNs (decision 001), and finish a stage in any order, on any thread. A
//! [`Watermark`] records each commit that has finished, and gives the CSN up to which all commits
//! have finished. It takes no lock.
//!
//! Each CSN has a slot in a ring. A thread that finishes a commit stores the commit's CSN in that
//! slot. The *prefix* is the CSN up to which all commits have finished. If the slot of the CSN
//! after the prefix holds that CSN, any thread that finishes a commit may advance the prefix to it.
//! The simpler design, one mutex around a set of finished CSNs, was rejected: the commits of all
//! lanes would contend for it.
//!
//! A thread that waits for a CSN polls, because installs take microseconds, and a list of waiters
//! would be one more point of contention for all commits. During a large install the waiting thread
//! sleeps between its polls and leaves the processor to the install.
//!
//! An install that panics never finishes. The panicking thread abandons the watermark
//! ([`Watermark::abandon`]): threads that wait return, and the prefix stays below that install's
//! CSN.
//!
//! # Invariants
//!
//! - The prefix never falls.
//! - Every commit at or below the prefix has finished.
//! - While no call of [`Watermark::finish`] runs, the commit with the first CSN above the prefix
//!   has not finished.
//!
//! The third invariant could fail in one way. M and N are consecutive CSNs. Thread A finishes
//! commit N, and thread B advances the prefix to M. Both threads then check whether the prefix can
//! advance to N. Suppose that A still loads a prefix below M, and that B does not find N in the
//! slot of N. Then both threads would return, and the prefix would stay at M although commit N has
//! finished.
//!
//! This cannot happen. A stores N in its slot and then loads the prefix. B stores M as the prefix
//! and then loads N's slot. Both have a sequentially consistent fence between the store and the
//! load. So A loads a prefix of at least M, or B finds N in the slot of N. That thread advances the
//! prefix to N, unless another thread has already advanced it.

use spillway_base::Csn;
use spillway_base::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use crate::sync::pause;

/// The CSNs past the prefix that have a slot. A commit with a larger CSN waits until the prefix
/// advances.
#[cfg(not(loom))]
const RING: usize = 1 << 14;
#[cfg(loom)]
const RING: usize = 4;

/// The prefix of finished commits.
pub(crate) struct Watermark {
    prefix: AtomicU64,
    ring: Box<[AtomicU64]>,
    abandoned: AtomicBool,
}

impl Watermark {
    /// Creates a watermark at which everything up to `done` is finished.
    pub(crate) fn new(done: Csn) -> Watermark {
        Watermark {
            prefix: AtomicU64::new(done.0),
            ring: (0..RING).map(|_| AtomicU64::new(0)).collect(),
            abandoned: AtomicBool::new(false),
        }
    }

    /// The CSN up to which every commit is finished.
    pub(crate) fn prefix(&self) -> Csn {
        Csn(self.prefix.load(Ordering::Acquire))
    }

    /// Marks commit `csn` as finished; called once for each CSN. The last steps are a sequentially
    /// consistent fence and a load, so everything that this call stored comes before them.
    pub(crate) fn finish(&self, csn: Csn) {
        let mut tries = 0;
        while csn.0 > self.prefix().0 + RING as u64 {
            // The slot still belongs to a smaller CSN.
            if self.is_abandoned() {
                return;
            }
            pause(&mut tries);
        }
        self.slot(csn.0).store(csn.0, Ordering::Release);
        loop {
            fence(Ordering::SeqCst);
            let next = self.prefix.load(Ordering::Acquire) + 1;
            if self.slot(next).load(Ordering::Acquire) != next {
                return;
            }
            let _ =
                self.prefix.compare_exchange(next - 1, next, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Waits until every commit up to `csn` is finished; `false` if that never happens.
    pub(crate) fn wait(&self, csn: Csn) -> bool {
        let mut tries = 0;
        while self.prefix() < csn {
            if self.is_abandoned() {
                return false;
            }
            pause(&mut tries);
        }
        true
    }

    /// Declares that a commit in progress will never finish.
    pub(crate) fn abandon(&self) {
        self.abandoned.store(true, Ordering::Release);
    }

    fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Acquire)
    }

    /// Restarts at `done`. For recovery, before any commit.
    pub(crate) fn reset(&self, done: Csn) {
        self.prefix.store(done.0, Ordering::Release);
    }

    fn slot(&self, number: u64) -> &AtomicU64 {
        &self.ring[number as usize % RING]
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_waits_for_the_slowest() {
        let mark = Watermark::new(Csn(10));
        mark.finish(Csn(12));
        mark.finish(Csn(13));
        assert_eq!(mark.prefix(), Csn(10));
        mark.finish(Csn(11));
        assert_eq!(mark.prefix(), Csn(13));
    }

    #[test]
    fn numbers_go_round_the_ring_from_many_threads() {
        let mark = Watermark::new(Csn(0));
        let next = std::sync::atomic::AtomicU64::new(1);
        let total = 5 * RING as u64;
        spillway_base::thread::together(4, |_| {
            loop {
                let csn = Csn(next.fetch_add(1, std::sync::atomic::Ordering::SeqCst));
                if csn.0 > total {
                    break;
                }
                mark.finish(csn);
            }
        });
        assert_eq!(mark.prefix(), Csn(total));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use spillway_base::sync::Arc;

    #[test]
    fn loom_the_last_to_finish_moves_the_prefix_over_all() {
        spillway_base::sync::model(3, || {
            let mark = Arc::new(Watermark::new(Csn(0)));
            let others: Vec<_> = [1, 3]
                .into_iter()
                .map(|number| {
                    let mark = mark.clone();
                    loom::thread::spawn(move || mark.finish(Csn(number)))
                })
                .collect();
            mark.finish(Csn(2));
            for other in others {
                other.join().unwrap();
            }
            assert_eq!(mark.prefix(), Csn(3));
        });
    }
}
