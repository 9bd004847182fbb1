//! The commit pipeline: the lanes, the order of commits over all lanes, and how commits become
//! durable and visible (decisions 001 to 004 and 006; X-Engine, sections 3.2.2 and 3.2.3; HiEngine,
//! sections 4.2 and 5.2).
//!
//! A lane is a queue of commits with its own log stream. Each thread is assigned to one lane. A
//! commit goes as a whole to the lane of its thread. It passes four stages:
//!
//! 1. **Log buffering** ([`Pipeline::enqueue`]): the committing thread reserves a place in its
//!    lane's queue, takes the next CSN, and copies its encoded batch into the place. The thread
//!    takes no lock. The places of a queue need not be in CSN order.
//! 2. **Installing**: the committing thread installs its own batch in the engines, then releases
//!    its row locks (decision 003). Any number of threads install at once.
//! 3. **Log flushing** ([`Lane::flush`]): one thread at a time *leads* a lane: the first one that
//!    needs a commit of the lane to be durable. The leader takes all commits out of the queue,
//!    computes their checksum, and writes and syncs them as one frame. Commits that arrive
//!    meanwhile form the next frame, so frames grow with the load (group commit). An idle lane adds
//!    no wait: a single writer's commit is one write-and-sync on the writer's own thread. A thread
//!    that only needs room in the queue writes the queued commits without a sync ([`Lane::write`]).
//! 4. **Commit**: when a log flush or an install advances the stable CSN, the commits up to the new
//!    stable CSN are acknowledged.
//!
//! On this page, a flush is a log flush. X-Engine installs a commit after the flush. This order was
//! rejected: a commit would hold its row locks while it waits for the device, so a row could change
//! only as often as the device syncs. The earlier install shows no client a version too early: a
//! snapshot begins at the stable CSN, or the results of its reads are withheld until the commits
//! that they depend on are stable (decision 002).
//!
//! # The durable CSN
//!
//! A lane is *durable through* a CSN if all of its commits up to that CSN are durable. The *durable
//! CSN* is the least of these CSNs over all lanes.
//!
//! A lane keeps no list of its CSNs. Instead, commits and flushes access the queue and the counter
//! of CSNs in opposite orders. A commit reserves its place in the queue first, and takes its CSN
//! from the counter second. A flush reads the counter first, and the end of the lane's queue
//! second. So each commit of the lane up to the CSN that the flush read has its place before the
//! end that the flush read. The flush writes and syncs the queue up to that end. The lane is then
//! durable through that CSN.
//!
//! Commits that were written without a sync count as queued. A lane with nothing queued is durable
//! through the current value of the counter.
//!
//! Rejected: a lock for each lane, under which a thread takes its place and its CSN and copies its
//! batch. It is simpler, and as fast with few threads. But many threads would queue for the lock,
//! because each holds it while it copies its batch.
//!
//! # Which thread flushes
//!
//! A commit is stable only once all lanes are durable through its CSN, so a wait may need flushes
//! of several lanes. A thread that waits for a commit leads each of these lanes that no other
//! thread leads. The right to lead a lane is its *turn*. A thread that ends its turn wakes a
//! sleeping thread that needs the next turn.
//!
//! A task or callback that waits for a commit blocks no thread. An idle thread may flush a lane for
//! it ([`Pipeline::try_flush`]). If no other thread flushes the lane in time, the lane's flusher
//! thread does ([`flusher`]). An idle thread first tries the lane with the lowest durable CSN,
//! because that lane holds back the stable CSN.
//!
//! # Invariants
//!
//! - The stable CSN never passes a commit that is not installed, nor one that is not in a synced
//!   frame.
//! - A commit's future resolves to success only once the stable CSN has reached the commit. With
//!   relaxed durability the future resolves once all commits up to this one are installed.
//! - After a failed flush of any lane the stable CSN never moves again, and every commit above it
//!   resolves to the failure (decision 006).
//! - One thread at a time holds a lane's turn, and keeps it during the device write. At the end of
//!   its turn, the thread wakes another thread that needs the next turn. So a thread that finds the
//!   turn taken may sleep, even if the holder of the turn does not flush.
//! - A commit is stable once all commits up to it are flushed and installed. Of a flush and an
//!   install, at least one sees that the other has ended, and advances the stable CSN. A flush
//!   stores the durable CSN and then loads the installed CSN. An install stores the installed CSN
//!   and then loads the durable CSN. Each has a sequentially consistent fence between its store and
//!   its load, so at least one of them sees both stores. In the same way, of the flushes of two
//!   lanes at least one sees that both lanes are durable.
//! - A commit that drops a table takes its CSN while no other commit does: see [`gate`].
//!
//! # Guarantees
//!
//! - **PIPE-1 (close).** Once [`Pipeline::close`] has returned without an error, no commit gets a
//!   CSN, and every commit that has one is durable. `close` closes the gate, and then flushes every
//!   place that was reserved before. The owner of such a place may have found the gate open before
//!   it was closed, and may take its CSN afterwards.
//! - **PIPE-2 (turns).** A thread locks a lane only by taking its [`Turn`], whether the thread then
//!   flushes or not.
//! - **PIPE-3 (cut).** A cut of the log (`truncation`) chooses the segments to remove, then writes
//!   a note with the CSN up to which the engines' files have all commits, and then removes the
//!   chosen segments and no others. A commit that is written meanwhile may move its lane to a new
//!   segment. The old segment is then full, but this cut does not remove it, even if all of its
//!   commits are at or below the CSN of the note. The next cut removes it, with a note of its own.
//! - **PIPE-4 (panic).** If a thread panics between the reservation of a place and the end of its
//!   install, or during a turn, the database stops. [`Pipeline::health`] then returns the reason,
//!   every commit above the stable CSN resolves to that reason, and nothing more is written to the
//!   log. Threads that wait for installs return. If a callback for one commit panics, the callbacks
//!   of the other commits are still called.

mod flusher;
mod gate;
mod guard;
mod lane;
mod large;
#[cfg(all(test, loom))]
mod loom_tests;
mod place_queue;
mod places;
mod ring;
mod segments;
#[cfg(all(test, not(loom)))]
mod tests;
mod thread_number;
mod truncation;
mod waiters;
mod waiting;

use std::sync::Arc;
use std::sync::atomic::AtomicU64 as Counter;
use std::time::Duration;

use spillway_base::batch::WriteBatch;
use spillway_base::clock::Clock;
use spillway_base::stall::{Cause, Tally};
use spillway_base::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use spillway_base::{Csn, Error, ErrorKind, Result, TableId};
use spillway_storage::plog::Plog;

use crate::snapshots::Snapshots;
use crate::sync::{MutexGuard, pause};
pub(crate) use flusher::{Flushers, RELAXED, SOON, Task, Urgency};
pub(crate) use gate::HeldGate;
pub(crate) use gate::closed;
use gate::{Gate, Passage};
use guard::Guard;
pub(crate) use lane::{BATCH_BYTES_MAX, Room};
use lane::{FlushState, Lane, LaneCounts};
use places::PlaceTeller;
use ring::RingPlace;
use segments::Segments;
pub(crate) use segments::{Newest, OldSegment};
use thread_number::thread_number;
pub(crate) use waiters::Signal;
use waiters::Waiters;

/// A lane's log as an opening found it.
pub(crate) struct OpenedLane {
    /// Its number.
    pub(crate) lane: u32,
    pub(crate) plog: Box<dyn Plog>,
    /// Segments from before the opening.
    pub(crate) segments: Vec<OldSegment>,
    /// Whether commits go to it. If not, it is kept only until its segments can be removed.
    pub(crate) used: bool,
}

/// The conditions under which a commit is ordered.
pub(crate) struct Terms<'t, T> {
    /// The tables that it writes to and that existed before. A table may be repeated.
    pub(crate) touched: T,
    /// The tables that it drops.
    pub(crate) dropped: &'t [TableId],
    /// Whether no other commit may be ordered at the same time.
    pub(crate) alone: bool,
    /// A last check before the commit gets its CSN. No commit that is ordered alone can get its CSN
    /// between the check and this commit's CSN. If the check fails, the commit fails.
    pub(crate) check: &'t dyn Fn() -> Result<()>,
}

impl<'t, T: Iterator<Item = TableId>> Terms<'t, T> {
    /// The terms of a commit that writes to the tables `touched` and drops the tables `dropped`.
    pub(crate) fn new(touched: T, dropped: &'t [TableId]) -> Terms<'t, T> {
        Terms { touched, dropped, alone: !dropped.is_empty(), check: &|| Ok(()) }
    }
}

impl Terms<'static, std::iter::Once<TableId>> {
    /// The terms of a commit that writes to one table.
    pub(crate) fn of(table: TableId) -> Self {
        Terms::new(std::iter::once(table), &[])
    }
}

/// The right to write to a lane's log. Dropping it wakes a waiting thread that needs a flush and
/// could not have the turn meanwhile.
struct Turn<'l> {
    pipeline: &'l Pipeline,
    lane: &'l Lane,
    state: Option<MutexGuard<'l, FlushState>>,
    guard: Guard<'l>,
}

impl Turn<'_> {
    fn state(&mut self) -> &mut FlushState {
        self.state.as_mut().expect("a turn lasts until it is dropped")
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // Looks for a panic before the lock is released. Another thread that has the turn would
        // take entries that this thread took out of the queue, and did not write, for written.
        self.guard.look();
        self.state = None;
        // A thread that found the turn taken had queued its commit and registered as a waiter
        // before that. So the calls below find both its commit and its registration.
        fence(Ordering::SeqCst);
        if self.lane.has_unflushed() {
            let ordered = self.pipeline.last_ordered().0;
            self.pipeline.waiters.wake_leader(Csn(self.lane.durable_through(ordered)));
        }
    }
}

/// Counts of the pipeline's stages. Times are measured for one commit in [`SAMPLE`], and multiplied
/// by [`SAMPLE`].
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) install_ns: Counter,
    pub(crate) acknowledgements: Counter,
}

/// One commit in `SAMPLE` has its install timed.
pub(crate) const SAMPLE: u64 = 64;

/// All lanes of a database. The module's page says how it works.
pub(crate) struct Pipeline {
    /// The lanes; those that commits go to come first.
    lanes: Box<[Lane]>,
    used: usize,
    /// Set if commits go to the lanes in turn, regardless of their threads.
    in_turn: Option<AtomicUsize>,
    pub(crate) snapshots: Arc<Snapshots>,
    /// The newest CSN that was assigned.
    ordered: AtomicU64,
    /// Every commit up to this one is in a synced frame.
    durable: AtomicU64,
    gate: Gate,
    waiters: Waiters,
    teller: PlaceTeller,
    failed: AtomicBool,
    pub(crate) flushers: Flushers,
    pub(crate) counts: Counts,
}

impl Pipeline {
    /// A pipeline over logs that were just opened, in which every commit up to `last` is recovered.
    /// Each lane's queue takes `ring_bytes`.
    pub(crate) fn new(
        opened: Vec<OpenedLane>,
        ring_bytes: usize,
        snapshots: Arc<Snapshots>,
        last: Csn,
    ) -> Pipeline {
        let used = opened.iter().take_while(|lane| lane.used).count();
        assert!(used > 0, "a pipeline has a lane");
        let lanes: Box<[Lane]> = opened
            .into_iter()
            .enumerate()
            .map(|(number, OpenedLane { lane, plog, segments, used })| {
                let words = if used { (ring_bytes / 8).next_power_of_two() } else { 4 };
                Lane::new((number, lane), plog, words, last, Segments::found(segments))
            })
            .collect();
        let pipeline = Pipeline {
            flushers: Flushers::new(used),
            lanes,
            used,
            in_turn: None,
            snapshots,
            ordered: AtomicU64::new(last.0),
            durable: AtomicU64::new(last.0),
            gate: Gate::new(),
            waiters: Waiters::new(),
            teller: PlaceTeller::default(),
            failed: AtomicBool::new(false),
            counts: Counts::default(),
        };
        // If the log has no room for the note now, the next cut reserves it.
        pipeline.keep_room_for_note();
        pipeline
    }

    /// Distributes commits over the lanes in turn, regardless of their threads. For simulations,
    /// which have one thread.
    pub(crate) fn dealing_in_turn(self) -> Pipeline {
        Pipeline { in_turn: Some(AtomicUsize::new(0)), ..self }
    }

    /// The lanes that commits go to, this thread's first.
    fn lanes(&self) -> impl Iterator<Item = &Lane> {
        let first = thread_number() % self.used;
        let (before, from) = self.lanes[..self.used].split_at(first);
        from.iter().chain(before)
    }

    /// Reserves room in the log for a batch of this size, and checks that the log has not failed.
    /// So a full disk is reported here, and never by the flush (decision 006).
    pub(crate) fn admit(&self, batch_bytes: usize) -> Result<Room<'_>> {
        self.health()?;
        let number = match &self.in_turn {
            Some(turns) => turns.fetch_add(1, Ordering::Relaxed),
            None => thread_number(),
        };
        self.lanes[number % self.used].admit(batch_bytes)
    }

    /// Makes the lanes' later segments leave this many bytes free, as far as they can.
    pub(crate) fn leave_free(&self, bytes: u64) {
        self.lanes[..self.used].iter().for_each(|lane| lane.leave_free(bytes));
    }

    /// The bytes of the smallest segment that a lane would make for a batch of this size; 0 if
    /// every lane has room for it.
    pub(crate) fn segment_for(&self, batch_bytes: usize) -> u64 {
        let segments = self.lanes[..self.used].iter().map(|lane| lane.segment_for(batch_bytes));
        segments.max().unwrap_or(0)
    }

    /// Refuses all later commits, and makes every commit that has a CSN durable (PIPE-1).
    pub(crate) fn close(&self) -> Result<()> {
        self.gate.close();
        // A flush takes a place out of its queue only once the place has a CSN, or was left unused.
        self.flush_lanes(|lane| lane.has_unflushed())
    }

    /// Stage one: gives a commit its place and its CSN. The caller then installs the commit and
    /// calls [`Pipeline::installed`]. This function calls `numbered` with the CSN; a commit that is
    /// ordered alone still holds the gate then.
    ///
    /// It is not inlined, so that `scripts/bench-statement` can attribute the time before the
    /// queue.
    #[inline(never)]
    pub(crate) fn enqueue(
        &self,
        room: Room<'_>,
        batch: &WriteBatch,
        terms: Terms<'_, impl Iterator<Item = TableId>>,
        numbered: impl FnOnce(Csn),
    ) -> Result<Csn> {
        let _held = if terms.alone { Some(self.hold_gate()?) } else { None };
        self.enqueue_held(room, batch, terms, numbered)
    }

    /// As [`Pipeline::enqueue`], but does not take the gate: a caller whose commit is ordered alone
    /// holds it already.
    pub(crate) fn enqueue_held(
        &self,
        room: Room<'_>,
        batch: &WriteBatch,
        terms: Terms<'_, impl Iterator<Item = TableId>>,
        numbered: impl FnOnce(Csn),
    ) -> Result<Csn> {
        let _guard = self.guard("ordering a commit");
        let lane = room.lane;
        let place = loop {
            self.health()?;
            let place = lane.reserve(batch);
            self.make_fit(lane, place, batch)?;
            match self.gate.passage() {
                Passage::Held if !terms.alone => {
                    lane.skip(place, batch);
                    self.gate.wait();
                }
                Passage::Closed => {
                    lane.skip(place, batch);
                    return Err(closed());
                }
                _ => break place,
            }
        };
        let dropped = if self.gate.any_dropped() { self.gate.check(terms.touched) } else { Ok(()) };
        if let Err(refused) = dropped.and_then(|()| (terms.check)()) {
            lane.skip(place, batch);
            return Err(refused);
        }
        self.gate.note_dropped(terms.dropped);
        let csn = Csn(self.ordered.fetch_add(1, Ordering::SeqCst) + 1);
        lane.put(place, csn, room, batch);
        numbered(csn);
        if lane.is_half_full(place, batch) {
            self.flushers.ask_room(lane.number);
        }
        Ok(csn)
    }

    /// Holds the gate, so that only the caller's commit gets a CSN. Waits until every commit that
    /// passed the gate before has its CSN.
    pub(crate) fn hold_gate(&self) -> Result<HeldGate<'_>> {
        let held = self.gate.hold()?;
        // As in [`Pipeline::close`].
        self.flush_lanes(|lane| lane.has_unflushed())?;
        Ok(held)
    }

    /// Waits until the queue has room for a place and its batch. The thread writes the entries
    /// before the place itself, if no other thread does. It does not sync them; the threads that
    /// wait for durability do.
    fn make_fit(&self, lane: &Lane, place: RingPlace, batch: &WriteBatch) -> Result<()> {
        if lane.fits(place, batch) {
            return Ok(());
        }
        lane.counts.full.during(Cause::Log, &Clock::system(), || {
            let mut tries = 0;
            while !lane.fits(place, batch) {
                // A thread that returns here leaves its place unfilled, and no flush can pass that
                // place. It returns only if the log has failed, so no flush will.
                self.health()?;
                match self.try_turn(lane) {
                    Some(turn) => self.write(turn, Some(place.at)),
                    None => pause(&mut tries),
                }
            }
            Ok(())
        })
    }

    /// Waits until the queue for this thread's commits is no longer nearly full. The thread writes
    /// the queue out itself, if no other thread does. It returns no failure of the log; the
    /// thread's next commit does.
    pub(crate) fn await_queue(&self) {
        let lane = &self.lanes[thread_number() % self.used];
        if self.in_turn.is_some() || !lane.is_nearly_full() {
            return;
        }
        lane.counts.full.during(Cause::Log, &Clock::system(), || {
            let mut tries = 0;
            while lane.is_nearly_full() && self.health().is_ok() {
                match self.try_turn(lane) {
                    Some(turn) => self.write(turn, None),
                    None => pause(&mut tries),
                }
            }
        });
    }

    /// The newest commit that was ordered.
    pub(crate) fn last_ordered(&self) -> Csn {
        Csn(self.ordered.load(Ordering::SeqCst))
    }

    fn durable(&self) -> Csn {
        Csn(self.durable.load(Ordering::Acquire))
    }

    /// Records that stage two of this commit is done.
    pub(crate) fn installed(&self, csn: Csn) {
        self.snapshots.installed.finish(csn);
        // `finish` ends with a fence, after its store and before this check.
        if self.advance_fenced() {
            self.tell_places();
        }
    }

    /// Moves the durable CSN up to what all lanes have made durable, then the stable CSN.
    fn note_durable(&self) {
        // The order is: the flush of the caller's lane, this fence, the loads of the other lanes.
        fence(Ordering::SeqCst);
        let ordered = self.ordered.load(Ordering::SeqCst);
        let lanes = self.lanes[..self.used].iter();
        let durable = lanes.map(|lane| lane.durable_through(ordered)).min().unwrap_or(ordered);
        self.durable.fetch_max(durable, Ordering::AcqRel);
        self.advance();
    }

    /// Moves the stable CSN up to what is installed and durable, and acknowledges those commits.
    pub(crate) fn advance(&self) {
        // The order is: the caller's store of the durable or the installed CSN, this fence, the
        // loads of both.
        fence(Ordering::SeqCst);
        self.advance_fenced();
    }

    /// Returns whether the stable CSN moved.
    fn advance_fenced(&self) -> bool {
        if self.failed.load(Ordering::Acquire) {
            return false;
        }
        let stable = self.durable().min(self.snapshots.installed.prefix());
        let before = self.snapshots.stable_csn();
        if stable > before {
            self.snapshots.advance_stable(stable);
            self.counts.acknowledgements.fetch_add(1, Ordering::Relaxed);
            self.waiters.acknowledge(stable);
        }
        stable > before
    }

    fn turn<'l>(&'l self, lane: &'l Lane) -> Turn<'l> {
        self.turn_with(lane, lane.lock())
    }

    fn try_turn<'l>(&'l self, lane: &'l Lane) -> Option<Turn<'l>> {
        Some(self.turn_with(lane, lane.try_lock()?))
    }

    fn turn_with<'l>(&'l self, lane: &'l Lane, state: MutexGuard<'l, FlushState>) -> Turn<'l> {
        Turn { pipeline: self, lane, state: Some(state), guard: self.guard("writing to the log") }
    }

    /// Stage three for the lanes that the caller needs, one after another.
    fn flush_lanes(&self, needed: impl Fn(&Lane) -> bool) -> Result<()> {
        for lane in self.lanes().filter(|lane| needed(lane)) {
            let turn = self.turn(lane);
            if needed(lane) {
                self.lead(turn)?;
            }
        }
        self.health()
    }

    /// Stage three: makes every commit that has a CSN durable, by flushes of its own and by waiting
    /// for those of other threads.
    pub(crate) fn flush(&self) -> Result<()> {
        let target = self.last_ordered();
        self.flush_lanes(|lane| self.lags(lane, target))
    }

    /// Whether a lane may have a commit up to `csn` that is not durable.
    fn lags(&self, lane: &Lane, csn: Csn) -> bool {
        lane.durable_through(self.ordered.load(Ordering::SeqCst)) < csn.0
    }

    fn lead(&self, mut turn: Turn<'_>) -> Result<()> {
        let lane = turn.lane;
        let ordered = || self.ordered.load(Ordering::SeqCst);
        let stable = self.snapshots.stable_csn();
        let outcome = self
            .health()
            .and_then(|()| lane.flush(turn.state(), ordered, stable, || self.health()));
        if let Err(error) = &outcome {
            self.stop(error);
        }
        // The next leader starts while this thread acknowledges.
        drop(turn);
        self.note_durable();
        self.tell_places();
        outcome
    }

    /// Makes room in a lane's queue, by [`Lane::write`]. If that fails, all waiters get the
    /// failure.
    fn write(&self, mut turn: Turn<'_>, end: Option<u64>) {
        let lane = turn.lane;
        let stable = self.snapshots.stable_csn();
        let health = || self.health();
        if let Err(error) =
            self.health().and_then(|()| lane.write(turn.state(), end, stable, health))
        {
            self.stop(&error);
        }
    }

    /// Decision 006: the log has failed. Nothing more is acknowledged.
    fn stop(&self, cause: &Error) {
        self.waiters.note_failure(|| match cause.kind() {
            ErrorKind::WritesStopped => cause.clone(),
            _ => Error::new(
                ErrorKind::WritesStopped,
                format!(
                    "the log failed, so writes have stopped: {cause}; repair the device and \
                     restart the server"
                ),
            ),
        });
        self.failed.store(true, Ordering::Release);
        self.waiters.tell_all(self.snapshots.stable_csn());
    }

    /// The failure, if the log has failed.
    pub(crate) fn health(&self) -> Result<()> {
        if !self.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(self.waiters.failure().expect("a failed pipeline has noted why"))
    }

    /// Flushes a lane that has queued entries and that no other thread leads. Returns `false` if
    /// there is no such lane.
    pub(crate) fn try_flush(&self) -> bool {
        let turn = self.any_turn(Lane::has_unflushed);
        // All waiters get the failure.
        turn.map(|turn| drop(self.lead(turn))).is_some()
    }

    /// The turn of a lane for which `needed` returns true and whose turn no thread has. The lane
    /// that holds back the stable CSN is tried first.
    fn any_turn(&self, needed: impl Fn(&Lane) -> bool) -> Option<Turn<'_>> {
        let ordered = self.ordered.load(Ordering::SeqCst);
        let lanes = || self.lanes().filter(|lane| needed(lane));
        let oldest = lanes().min_by_key(|lane| lane.durable_through(ordered));
        oldest.into_iter().chain(lanes()).find_map(|lane| self.try_turn(lane))
    }

    /// Does a task of a lane's flusher. If that fails, all waiters get the failure.
    pub(crate) fn flush_lane(&self, index: usize, task: Task) {
        let lane = &self.lanes[index];
        let turn = self.turn(lane);
        match task {
            Task::Flush if lane.has_unflushed() => drop(self.lead(turn)),
            Task::Flush => {}
            Task::MakeRoom => self.write(turn, None),
        }
    }

    /// Whether commits wait in a queue.
    pub(crate) fn has_unflushed(&self) -> bool {
        self.lanes.iter().any(Lane::has_unflushed)
    }

    /// The bytes of memory of the queues.
    pub(crate) fn queue_bytes(&self) -> usize {
        self.lanes.iter().map(Lane::queue_bytes).sum()
    }

    /// The number of commits that found their queue full, and their waiting time.
    pub(crate) fn waits_for_queues(&self) -> (u64, Duration) {
        let tallies = || self.lanes.iter().map(|lane| &lane.counts.full);
        (tallies().map(Tally::count).sum(), tallies().map(Tally::time).sum())
    }

    /// Sums a count over the lanes.
    pub(crate) fn sum(&self, count: impl Fn(&LaneCounts) -> &Counter) -> u64 {
        self.lanes.iter().map(|lane| count(&lane.counts).load(Ordering::Relaxed)).sum()
    }

    /// The number of lanes that commits go to, and of the words queued in all of them.
    pub(crate) fn depth(&self) -> (usize, u64) {
        (self.used, self.lanes.iter().map(Lane::depth).sum())
    }
}
