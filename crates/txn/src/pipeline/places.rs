//! Reports the places of commits in the log to the engines that keep their rows there (LOG-READ-2
//! to LOG-READ-4 and LOG-READ-10 of [`spillway_base::log_place`]).
//!
//! The thread that writes a lane's log knows the place of a commit once it has appended the frame.
//! The commit may not be stable then. So the writer adds the place to a queue of the lane. A thread
//! that has flushed a lane, or whose install has moved the stable CSN, then takes the places up to
//! the stable CSN out of the queues of *all* lanes, and reports them to the engines. One thread at
//! a time does so, the *teller*. Only a cut and log maintenance wait for it.
//!
//! # Why no place is missed
//!
//! A writer adds a commit's place to the queue before it stores that the lane is durable up to the
//! commit. The stable CSN reaches the commit only after that store was read. A teller reads the
//! stable CSN *before* it looks at the queues. So each commit up to the CSN that it read is in a
//! queue, or an earlier teller has reported it. A lane without commits delays no report.
//!
//! The rejected design is a dense ring that maps CSNs to places. An entry would have to stay until
//! the row's version is evicted, also for commits of other engines, and a reader would have to look
//! up the place of each version. Here an engine writes the place into the version itself.
//!
//! # Why no place comes late (LOG-READ-10)
//!
//! A thread that finds the teller's lock taken sets a flag, and then tries the lock once more. A
//! teller clears the flag before it reads the stable CSN. It releases the lock, looks at the flag,
//! and starts another round if the flag is set. Both threads have a sequentially consistent fence
//! between their two steps, and one of the two fences comes first:
//!
//! - The thread's fence comes first: the teller sees the flag.
//! - The teller's fence comes first: the thread finds the lock free, or another teller has it. That
//!   teller has yet to release the lock, and the argument holds for it.
//!
//! A teller that clears the flag sees the stable CSN of the thread that set it. Another round
//! follows only if a flush or an install ended during the last one, so it has few commits.
//!
//! The rejected design leaves the remaining places to the next flush. An idle database has no next
//! flush, so the remaining versions could not be evicted, even if memory is short.
//!
//! # Memory
//!
//! A queue holds the commits of its lane that are written and not yet stable, or stable and not yet
//! reported. A commit becomes stable only after other commits' installs and other lanes' flushes,
//! so a queue has no fixed bound. Commits cannot wait for room here. So the queues are charged to
//! the budget even past its limit ([`spillway_base::budget::Use::Transactions`]), and shrink after
//! a burst.

use std::sync::Arc;

use spillway_base::budget::Budget;
use spillway_base::engine::Engine;
use spillway_base::sync::atomic::{AtomicBool, Ordering, fence};
use spillway_base::{Csn, EngineKind, EngineSet, LogPlace};

use super::Pipeline;
use super::place_queue::{KEPT_PLACES, Placed};
use crate::engines::Engines;
use crate::sync::{Mutex, MutexGuard};

/// Reports places to the engines that want them.
#[derive(Default)]
pub(super) struct PlaceTeller {
    engines: Vec<Arc<dyn Engine>>,
    told: Mutex<Told>,
    /// A thread found `told` locked since the last telling began.
    missed: AtomicBool,
}

impl PlaceTeller {
    /// Takes the lock. Returns `None` if the thread that holds it also reports the caller's places.
    fn enter(&self) -> Option<MutexGuard<'_, Told>> {
        self.told.try_lock().or_else(|| {
            // Not a store: the order of two swaps is that in which one reads the other.
            self.missed.swap(true, Ordering::AcqRel);
            // Between the swap and the second try of the lock; see the module's page.
            fence(Ordering::SeqCst);
            self.told.try_lock()
        })
    }

    /// Whether another thread relies on the caller, which has released the lock.
    fn has_missed(&self) -> bool {
        fence(Ordering::SeqCst);
        self.missed.load(Ordering::Relaxed)
    }
}

#[derive(Default)]
struct Told {
    /// The engines know of every commit up to here.
    through: Csn,
    /// The last `through` that was passed to each engine.
    to: [Csn; EngineKind::COUNT],
    taken: Vec<Placed>,
    commits: Vec<(Csn, LogPlace)>,
}

impl Pipeline {
    /// Reports the places of all commits from now on to the engines that want them. An opening has
    /// reported the commits up to the stable CSN.
    pub(crate) fn telling(mut self, engines: &Engines, budget: &Budget) -> Pipeline {
        let wants = |engine: &&Arc<dyn Engine>| engine.wants_places();
        let engines: Vec<_> = engines.iter().filter(wants).cloned().collect();
        let mut wanting = EngineSet::EMPTY;
        engines.iter().for_each(|engine| wanting.insert(engine.kind()));
        for lane in &mut self.lanes {
            lane.wanting = wanting;
            lane.places.charge_to(budget);
        }
        let last = self.snapshots.stable_csn();
        engines.iter().for_each(|engine| engine.place_commits(&[], last));
        let to = [last; EngineKind::COUNT];
        let told = Told { through: last, to, ..Told::default() };
        let teller = PlaceTeller { engines, told: Mutex::new(told), ..PlaceTeller::default() };
        Pipeline { teller, ..self }
    }

    /// Reports the places of the commits that have become stable to the engines, unless another
    /// thread does so (LOG-READ-10).
    pub(super) fn tell_places(&self) {
        if self.teller.engines.is_empty() {
            return;
        }
        while let Some(told) = self.teller.enter() {
            self.tell(told, false);
            if !self.teller.has_missed() {
                break;
            }
        }
    }

    /// Reports the places of all commits up to the stable CSN to the engines, also to engines
    /// without such commits. Returns that CSN.
    pub(crate) fn tell_all_places(&self) -> Csn {
        if self.teller.engines.is_empty() {
            return self.snapshots.stable_csn();
        }
        let stable = self.tell(self.teller.told.lock(), true);
        if self.teller.has_missed() {
            self.tell_places();
        }
        stable
    }

    fn tell(&self, mut told: MutexGuard<'_, Told>, idle_too: bool) -> Csn {
        let _guard = self.guard("telling an engine where its commits are in the log");
        let told = &mut *told;
        // Before the stable CSN is read, which in turn is before the queues are read; see the
        // module's page.
        self.teller.missed.swap(false, Ordering::AcqRel);
        let stable = self.snapshots.stable_csn();
        if stable > told.through {
            told.taken.clear();
            self.lanes.iter().for_each(|lane| lane.places.take_to(stable, &mut told.taken));
            told.through = stable;
        } else if !idle_too {
            return stable;
        }
        for engine in &self.teller.engines {
            let kind = engine.kind();
            let of_engine = told.taken.iter().filter(|placed| placed.engines.contains(kind));
            told.commits.clear();
            told.commits.extend(of_engine.map(|placed| (placed.csn, placed.place)));
            let to = &mut told.to[kind.index()];
            if !told.commits.is_empty() || idle_too && *to < stable {
                engine.place_commits(&told.commits, stable);
                *to = stable;
            }
        }
        told.taken.clear();
        told.taken.shrink_to(KEPT_PLACES);
        told.commits.shrink_to(KEPT_PLACES);
        stable
    }

    /// Whether some engine with commits in a segment keeps the segment. The places of its commits
    /// were reported.
    pub(super) fn is_kept(&self, lane: u32, segment: u64, engines: EngineSet) -> bool {
        let mut asked = self.teller.engines.iter().filter(|of| engines.contains(of.kind()));
        asked.any(|engine| engine.keeps_segment(lane, segment))
    }
}
