//! Reports the places of commits in the log to the engines that keep their rows there (LOG-READ-2
//! to LOG-READ-4 and LOG-READ-10 of [`spillway_base::log_place`]).
//!
//! The thread that writes a lane's log knows the place of a commit once it has appended the
//! commit's frame. The commit may not be stable yet, and only stable commits are reported. So the
//! writer adds the place to a queue of the lane. A thread that has flushed a lane, or whose install
//! has moved the stable CSN, takes the places up to the stable CSN out of the queues of *all*
//! lanes, and reports them to the engines.
//!
//! One thread at a time takes and reports places, the *teller*: it holds the lock `told`. Log
//! flushes and installs do not wait for that lock. Cuts and log maintenance do.
//!
//! # Why no place is missed
//!
//! A writer adds a commit's place to the queue first, and records that the lane is durable up to
//! the commit second. The stable CSN reaches the commit only after some thread has read that
//! record. A teller reads the stable CSN *before* it looks at the queues. So each commit up to the
//! CSN that the teller read is in a queue, or an earlier teller has reported it. A lane without
//! commits does not delay the reports of commits in other lanes.
//!
//! Rejected: a ring with one entry for each CSN, in which an engine looks up the place of a version
//! whenever it needs the place. Commits of other engines would have entries too. An entry could be
//! reused only after the engine has evicted the versions of its commit and of all commits before
//! it. With the chosen design, the engine writes the place into the version itself when the teller
//! reports the commit, and nothing else keeps the place.
//!
//! # Why no place comes late (LOG-READ-10)
//!
//! A thread that finds `told` locked does not wait, so the teller must report the thread's commits
//! too. The thread sets a flag (`missed`), and then tries the lock once more. A teller clears the
//! flag before it reads the stable CSN. After it has released the lock it reads the flag, and
//! starts another round if the flag is set. The thread has a sequentially consistent fence between
//! setting the flag and the second try. The teller has one between releasing the lock and reading
//! the flag. One of the two fences comes first:
//!
//! - The thread's fence comes first: the teller sees the flag, and starts another round.
//! - The teller's fence comes first: the thread finds the lock free and becomes the teller, or
//!   another teller has the lock. That teller has not released the lock yet, so the same argument
//!   holds for the thread and that teller.
//!
//! A teller that clears the flag sees at least the stable CSN that was seen by the thread that set
//! the flag, because both threads use a swap. Another round follows only if a log flush or an
//! install ended during the last round, so a further round has few commits to report.
//!
//! Rejected: a thread that finds the lock taken leaves its places to the next log flush. If the
//! database becomes idle, there is no next log flush. The engine would not learn these places, so
//! it could not evict these versions, even if memory is short.
//!
//! # Memory
//!
//! A queue holds the places of the commits of its lane that are written and not yet stable, or
//! stable and not yet reported. It has no fixed bound, because a commit becomes stable only after
//! all earlier commits of all lanes are installed and durable. A thread cannot wait for room in the
//! queue either, because its commits are in the log already. So the queues are charged to the
//! budget even past its limit ([`spillway_base::budget::Use::Transactions`]), and free their memory
//! after a burst.

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
    /// A thread has found `told` locked since the last report began.
    missed: AtomicBool,
}

impl PlaceTeller {
    /// Takes the lock. Returns `None` if the thread that holds it also reports the caller's places.
    fn enter(&self) -> Option<MutexGuard<'_, Told>> {
        self.told.try_lock().or_else(|| {
            // A swap and not a store: of two swaps, the later one reads the value of the earlier
            // one.
            self.missed.swap(true, Ordering::AcqRel);
            // Between the swap and the second try of the lock; see the module's page.
            fence(Ordering::SeqCst);
            self.told.try_lock()
        })
    }

    /// Whether another thread relies on the caller for its report. The caller has released the
    /// lock.
    fn has_missed(&self) -> bool {
        fence(Ordering::SeqCst);
        self.missed.load(Ordering::Relaxed)
    }
}

#[derive(Default)]
struct Told {
    /// The engines know of every commit up to here.
    through: Csn,
    /// The CSN up to which each engine was last told that it knows all commits.
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
            lane.charge_to(budget);
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
        // The order is: the flag, then the stable CSN, then the queues. The module's page says why.
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
