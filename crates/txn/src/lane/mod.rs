//! A lane: one write task queue with its own log stream, and the commit pipeline over it (DESIGN, D2–D4, D6;
//! X-Engine, section 3.2).
//!
//! A commit passes four stages:
//!
//! 1. **Log buffering** ([`Lane::enqueue`]): under the lane's `order` lock it takes the next CSN and copies its
//!    encoded batch into the log buffer. Nothing else happens under that lock. Order in the buffer is CSN
//!    order.
//! 2. **Installing**: the committing thread, holding no lock, installs its own batch in the engines, then gives
//!    its row locks back (D3). Any number of threads install at once.
//! 3. **Log flushing** ([`Lane::flush`]): whoever first needs durability takes the whole buffer and writes it as
//!    one frame, alone. The next buffer fills meanwhile, so batches form by themselves under load and no
//!    wait is added when idle: a lone writer's commit is one write-and-sync on its own thread.
//! 4. **Commit**: when a flush or an install moves the stable CSN on, the commits below it are acknowledged, and
//!    one of those still waiting is woken to lead the next flush. A commit whose thread went on ([`Lane::then`]) is
//!    acknowledged by a call on the thread that moved the stable CSN; where only such wait, the flusher leads next.
//!
//! The paper installs after flushing and lets the flush leader install for all. Both were rejected: with D2 a
//! version that is installed early is not visible early, and row locks that wait for the device make a hot
//! row as slow as the device.
//!
//! # Invariants
//!
//! - The stable CSN never passes a commit that is not installed, nor one that is not in a synced frame.
//! - A commit's future resolves to success only at or below the stable CSN (or, relaxed, at its own
//!   install).
//! - After a failed flush the stable CSN never moves again, and every commit above it resolves to the
//!   failure (D6).
//! - `order` is held for memory copies only. `flushing` is held by one thread, across the device
//!   write. Lock order: `flushing`, `order`, the waiters' own.
//! - `flushing` is only ever held as a [`Turn`], whose end wakes a leader: a thread that found it taken went to
//!   sleep on that promise, whatever the holder held it for.
//! - The stable CSN is moved by whoever is the second of the two: a flush makes a commit durable and then looks at
//!   what is installed, an install does the reverse, and a fence between either's store and look lets one of
//!   them see both.

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;
mod waiters;

use std::collections::VecDeque;
use std::sync::atomic::AtomicU64 as Counter;
use std::sync::{Arc, OnceLock};
use std::task::Waker;

use rustc_hash::FxHashSet;
use spillway_base::batch::WriteBatch;
use spillway_base::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use spillway_base::thread::blocking;
use spillway_base::{Csn, Error, ErrorKind, Result, TableId};
use spillway_storage::plog::{PAYLOAD_MAX, Plog, Position, Room as LogRoom};

use crate::record::{COMMIT_OVERHEAD, NOTE_BYTES, put_commit, put_note};
use crate::snapshots::Snapshots;
use crate::sync::{Mutex, MutexGuard};
pub(crate) use waiters::{Done, Signal};
use waiters::{Leader, Waiters};

/// Commits not yet flushed may take this much; more wait for the flush under way.
const BUFFER_BYTES_MAX: usize = 32 << 20;
/// The largest batch: with its record around it, half of what a frame takes.
pub(crate) const BATCH_BYTES_MAX: usize = PAYLOAD_MAX / 2 - COMMIT_OVERHEAD;

#[derive(Default)]
struct Order {
    buffer: Vec<u8>,
    /// Room in the log that the commits in the buffer were admitted with.
    room: LogRoom,
    /// The newest commit in the buffer or flushed.
    last: Csn,
    /// Tables dropped since the database was opened.
    dropped: FxHashSet<TableId>,
    closed: bool,
}

#[derive(Default)]
struct FlushState {
    spare: Vec<u8>,
    /// For each segment still kept, the newest commit in it.
    segments: VecDeque<(u64, Csn)>,
    /// Room for the note that goes before the next cut, kept so that a full log can be cut.
    note: Option<LogRoom>,
}

/// The right to write to the log. Its end wakes a waiting thread that needs a flush, which could not have it
/// meanwhile.
struct Turn<'l> {
    lane: &'l Lane,
    state: Option<MutexGuard<'l, FlushState>>,
}

impl Turn<'_> {
    fn state(&mut self) -> &mut FlushState {
        self.state.as_mut().expect("a turn lasts until it is dropped")
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.state = None;
        if matches!(self.lane.waiters.wake_leader(self.lane.durable()), Leader::Missing)
            && let Some(flusher) = self.lane.flusher.get()
        {
            flusher();
        }
    }
}

/// Room in the log for one commit. Dropping it gives the room back.
#[must_use]
pub(crate) struct Room<'l> {
    lane: &'l Lane,
    room: LogRoom,
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        let room = std::mem::take(&mut self.room);
        if room != LogRoom::default() {
            self.lane.plog.release(room);
        }
    }
}

/// Counts of a lane's work.
#[derive(Default)]
pub(crate) struct LaneCounts {
    pub(crate) commits: Counter,
    pub(crate) flushes: Counter,
    pub(crate) flushed_bytes: Counter,
    pub(crate) flush_ns: Counter,
}

/// One lane. The module's page says how it works.
pub(crate) struct Lane {
    plog: Box<dyn Plog>,
    snapshots: Arc<Snapshots>,
    order: Mutex<Order>,
    /// The newest commit in order, and the bytes of the buffer, for those who hold no lock.
    ordered: AtomicU64,
    buffered: AtomicUsize,
    /// The largest frame.
    frame_bytes_max: usize,
    flushing: Mutex<FlushState>,
    /// The newest commit in a synced frame.
    durable: AtomicU64,
    waiters: Waiters,
    /// Asks a thread of its own to flush, where there is one.
    flusher: OnceLock<Box<dyn Fn() + Send + Sync>>,
    failed: AtomicBool,
    pub(crate) counts: LaneCounts,
}

impl Lane {
    /// A lane over a log just opened, where every commit up to `last` is recovered.
    pub(crate) fn new(plog: Box<dyn Plog>, snapshots: Arc<Snapshots>, last: Csn) -> Lane {
        // Without it now, a cut asks for it.
        let note = plog.reserve(NOTE_BYTES as u64).ok();
        Lane {
            plog,
            snapshots,
            order: Mutex::new(Order { last, ..Order::default() }),
            ordered: AtomicU64::new(last.0),
            buffered: AtomicUsize::new(0),
            frame_bytes_max: PAYLOAD_MAX,
            flushing: Mutex::new(FlushState { note, ..FlushState::default() }),
            durable: AtomicU64::new(last.0),
            waiters: Waiters::default(),
            flusher: OnceLock::new(),
            failed: AtomicBool::new(false),
            counts: LaneCounts::default(),
        }
    }

    /// Makes sure that a batch of this size can be logged, and that the lane still works. The room is kept for
    /// the batch: whatever is admitted meanwhile, a full disk is met here and never by the flush (D6).
    pub(crate) fn admit(&self, batch_bytes: usize) -> Result<Room<'_>> {
        self.health()?;
        if batch_bytes > BATCH_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::TransactionTooLarge,
                format!(
                    "a transaction may write {BATCH_BYTES_MAX} bytes at most; this one writes {batch_bytes}"
                ),
            ));
        }
        if self.buffered.load(Ordering::Relaxed) > BUFFER_BYTES_MAX {
            self.flush()?;
        }
        // Each record may come to a frame of its own.
        let room = self.plog.reserve((batch_bytes + COMMIT_OVERHEAD) as u64)?;
        Ok(Room { lane: self, room })
    }

    /// Orders no commit from now on, and makes those durable that were.
    pub(crate) fn close(&self) -> Result<()> {
        self.order.lock().closed = true;
        if self.has_unflushed() { self.flush() } else { Ok(()) }
    }

    /// Stage one: orders a commit that writes to the tables `touched` and drops the tables `dropped`. The caller
    /// installs it, then calls [`Lane::installed`].
    ///
    /// A commit to a table that another commit dropped first is refused: engines skip such writes, and
    /// nobody would be told that they are gone.
    pub(crate) fn enqueue(
        &self,
        mut room: Room<'_>,
        batch: &WriteBatch,
        mut touched: impl Iterator<Item = TableId>,
        dropped: &[TableId],
    ) -> Result<Csn> {
        let mut order = self.order.lock();
        while !order.buffer.is_empty()
            && order.buffer.len() + batch.as_bytes().len() + COMMIT_OVERHEAD > self.frame_bytes_max
        {
            drop(order);
            self.flush()?;
            order = self.order.lock();
        }
        self.health()?;
        if order.closed {
            return Err(closed());
        }
        if !order.dropped.is_empty()
            && let Some(gone) = touched.find(|table| order.dropped.contains(table))
        {
            return Err(Error::new(
                ErrorKind::NotFound,
                format!("{gone:?} was dropped while the transaction wrote to it"),
            ));
        }
        let csn = order.last.next();
        order.last = csn;
        order.dropped.extend(dropped);
        order.room.join(std::mem::take(&mut room.room));
        put_commit(&mut order.buffer, csn, batch);
        self.buffered.store(order.buffer.len(), Ordering::Relaxed);
        self.ordered.store(csn.0, Ordering::Release);
        drop(order);
        self.counts.commits.fetch_add(1, Ordering::Relaxed);
        Ok(csn)
    }

    /// The newest commit that was ordered.
    pub(crate) fn last_ordered(&self) -> Csn {
        Csn(self.ordered.load(Ordering::Acquire))
    }

    fn durable(&self) -> Csn {
        Csn(self.durable.load(Ordering::Acquire))
    }

    /// Stage two is over for this commit.
    pub(crate) fn installed(&self, csn: Csn) {
        self.snapshots.installed.finish(csn);
        self.advance();
    }

    /// Moves the stable CSN to where everything is installed and durable, and acknowledges.
    fn advance(&self) {
        // After the caller's store to one of the two, before the look at both.
        fence(Ordering::SeqCst);
        if self.failed.load(Ordering::Acquire) {
            return;
        }
        let stable = self.durable().min(self.snapshots.installed.prefix());
        if stable > self.snapshots.stable_csn() {
            self.snapshots.advance_stable(stable);
            self.waiters.acknowledge(stable);
        }
    }

    fn turn(&self) -> Turn<'_> {
        Turn { lane: self, state: Some(self.flushing.lock()) }
    }

    fn try_turn(&self) -> Option<Turn<'_>> {
        Some(Turn { lane: self, state: Some(self.flushing.try_lock()?) })
    }

    /// Stage three: writes and syncs what is buffered. Returns once all that was buffered at the call is
    /// durable, by this flush or by the one under way.
    pub(crate) fn flush(&self) -> Result<()> {
        let target = self.last_ordered();
        let turn = self.turn();
        if self.durable() >= target {
            return self.health();
        }
        self.lead(turn)
    }

    fn lead(&self, mut turn: Turn<'_>) -> Result<()> {
        let outcome = self.flush_as_leader(turn.state());
        if let Err(error) = &outcome {
            self.stop(error);
        }
        // The next leader starts while this one acknowledges.
        drop(turn);
        self.advance();
        outcome
    }

    fn flush_as_leader(&self, state: &mut FlushState) -> Result<()> {
        self.health()?;
        let mut frame = std::mem::take(&mut state.spare);
        let (last, room) = {
            let mut order = self.order.lock();
            std::mem::swap(&mut frame, &mut order.buffer);
            self.buffered.store(0, Ordering::Relaxed);
            (order.last, std::mem::take(&mut order.room))
        };
        if frame.is_empty() {
            return Ok(());
        }
        let start = spillway_base::clock::now();
        let position = self.plog.append(&frame, true, room)?;
        let elapsed = spillway_base::clock::now() - start;
        self.counts.flush_ns.fetch_add(elapsed.as_nanos() as u64, Ordering::Relaxed);
        self.counts.flushes.fetch_add(1, Ordering::Relaxed);
        self.counts.flushed_bytes.fetch_add(frame.len() as u64, Ordering::Relaxed);
        note_segment(state, position, last);
        self.durable.store(last.0, Ordering::Release);
        frame.clear();
        if frame.capacity() <= BUFFER_BYTES_MAX {
            state.spare = frame;
        }
        Ok(())
    }

    /// D6: the log has failed. Nothing more is acknowledged.
    fn stop(&self, cause: &Error) {
        self.waiters.note_failure(|| match cause.kind() {
            ErrorKind::WritesStopped => cause.clone(),
            _ => Error::new(
                ErrorKind::WritesStopped,
                format!("the log failed, so writes have stopped: {cause}"),
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
        Err(self.waiters.failure().expect("a failed lane has noted why"))
    }

    /// What became of a commit: stable, failed, or not known yet.
    pub(crate) fn known(&self, csn: Csn) -> Option<Result<()>> {
        if self.snapshots.stable_csn() >= csn {
            return Some(Ok(()));
        }
        self.health().err().map(Err)
    }

    /// Waits until every commit up to `csn` is stable, leading flushes where nobody does.
    pub(crate) fn wait(&self, csn: Csn) -> Result<()> {
        let mut signal: Option<Arc<Signal>> = None;
        loop {
            if let Some(outcome) = self.known(csn) {
                return outcome;
            }
            if self.durable() < csn
                && let Some(turn) = self.try_turn()
            {
                // A flush that failed was of later commits, where another made this one durable meanwhile.
                let _ = self.lead(turn);
                continue;
            }
            match &signal {
                // Another leads, or an install is missing: sleep until told.
                Some(signal) => blocking(|| signal.wait()),
                None => signal = Some(self.waiters.register(csn, None)),
            }
        }
    }

    /// From now on there is a thread that flushes when asked.
    pub(crate) fn set_flusher(&self, ask: impl Fn() + Send + Sync + 'static) {
        // A lane has one manager, which starts its flusher once.
        let _ = self.flusher.set(Box::new(ask));
    }

    /// Has `done` called once with the outcome of a commit: by this thread, where it is known already, or by whoever
    /// learns of it. It is called with no lock held, and must not wait for long. The caller sees to the flush.
    pub(crate) fn then(&self, csn: Csn, done: Done) {
        if let Some(outcome) = self.known(csn) {
            return done(outcome);
        }
        if self.flusher.get().is_none() {
            // Whom this thread finds flushing would have nobody to hand the next flush to.
            return done(self.wait(csn));
        }
        self.waiters.register_call(csn, done);
        // Whoever knew the outcome before did not see who registered.
        match self.known(csn) {
            Some(Ok(())) => self.waiters.acknowledge(self.snapshots.stable_csn()),
            Some(Err(_)) => self.waiters.tell_all(self.snapshots.stable_csn()),
            None => {}
        }
    }

    /// Writes what is buffered, unless somebody does already. `false` when there was nothing to do.
    pub(crate) fn try_flush(&self) -> bool {
        if !self.has_unflushed() {
            return false;
        }
        let Some(turn) = self.try_turn() else { return false };
        // A failure is told to all who wait.
        let _ = self.lead(turn);
        true
    }

    /// Polls for a commit, without leading a flush: the flusher thread does.
    pub(crate) fn poll(
        &self,
        csn: Csn,
        signal: &mut Option<Arc<Signal>>,
        waker: &Waker,
    ) -> Option<Result<()>> {
        if let Some(outcome) = self.known(csn) {
            return Some(outcome);
        }
        match signal {
            Some(signal) => signal.set_waker(waker),
            None => *signal = Some(self.waiters.register(csn, Some(waker))),
        }
        self.known(csn)
    }

    /// Whether commits wait in the buffer.
    pub(crate) fn has_unflushed(&self) -> bool {
        self.durable() < self.last_ordered()
    }

    /// Makes room in the log ahead of the commits that will need it.
    pub(crate) fn prepare(&self) -> Result<()> {
        self.plog.prepare()
    }

    /// Bytes of the log that are kept.
    pub(crate) fn log_bytes(&self) -> u64 {
        self.plog.bytes()
    }

    /// Cuts the log: commits up to `persisted` are in the engines' own files.
    pub(crate) fn truncate(&self, persisted: Csn) -> Result<()> {
        let mut turn = self.turn();
        self.health()?;
        let state = turn.state();
        let covered = state.segments.iter().take_while(|(_, newest)| *newest <= persisted).count();
        // The newest segment is written to and stays.
        let covered = covered.min(state.segments.len().saturating_sub(1));
        if covered > 0 {
            let room = state.note.take().map_or_else(|| self.plog.reserve(NOTE_BYTES as u64), Ok);
            let room = match room {
                // There is a later time.
                Err(error) if error.kind() == ErrorKind::DiskFull => return Ok(()),
                room => room?,
            };
            let mut note = Vec::new();
            put_note(&mut note, persisted);
            let position =
                self.plog.append(&note, true, room).inspect_err(|error| self.stop(error))?;
            note_segment(state, position, self.durable());
            state.segments.drain(..covered);
        }
        let keep = state.segments.front().map_or(0, |(segment, _)| *segment);
        // Removing files takes a while, and no commit has to wait for it.
        drop(turn);
        // What an earlier call failed to give back is asked for again.
        let outcome = self.plog.truncate_before(keep);
        self.keep_room_for_note();
        outcome
    }

    /// Room for the next note: without it a log that is full could not be cut.
    fn keep_room_for_note(&self) {
        if self.turn().state().note.is_some() {
            return;
        }
        if let Ok(room) = self.plog.reserve(NOTE_BYTES as u64)
            && let Some(other) = self.turn().state().note.replace(room)
        {
            self.plog.release(other);
        }
    }

    /// Tells the lane of a segment from before its opening, for truncation.
    pub(crate) fn adopt_segment(&self, segment: u64, newest: Csn) {
        self.turn().state().segments.push_back((segment, newest));
    }
}

/// What is answered once the database has been closed.
pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the database has been closed")
}

fn note_segment(state: &mut FlushState, position: Position, last: Csn) {
    match state.segments.back_mut() {
        Some((segment, newest)) if *segment == position.segment => *newest = last,
        _ => state.segments.push_back((position.segment, last)),
    }
}
