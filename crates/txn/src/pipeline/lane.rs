//! One lane: a queue with its log stream. It does stages one and three of the pipeline, log
//! buffering and log flushing.

use std::sync::atomic::AtomicU64 as Counter;

use spillway_base::batch::{WriteBatch, seal_rows};
use spillway_base::budget::{Budget, Charge};
use spillway_base::stall::Tally;
use spillway_base::sync::atomic::{AtomicU64, Ordering};
use spillway_base::{Csn, EngineKind, EngineSet, Error, ErrorKind, Result};
use spillway_storage::plog::{PAYLOAD_MAX, Plog, Room as LogRoom};

use super::large::LargeBatches;
use super::place_queue::{InFrame, PlaceQueue};
use super::ring::{Ring, RingEntryKind, RingPlace};
use super::segments::{Newest, Segments};
use crate::record::{COMMIT_HEAD_BYTES, COMMIT_OVERHEAD, put_commit_head, put_stable};
use crate::sync::{Mutex, MutexGuard, pause};

/// The largest batch: together with its record's overhead, it takes half of a frame's largest
/// payload.
pub(crate) const BATCH_BYTES_MAX: usize = PAYLOAD_MAX / 2 - COMMIT_OVERHEAD;

/// The bytes of batches outside the ring that are queued, as a multiple of the ring's
/// (LARGE-BATCH-1).
const LARGE_SHARE: usize = 8;
/// The words that are taken out of the queue before their space is freed for new places.
const RELEASE_WORDS: u64 = 8 << 10;

/// The state of a lane's log writes. The thread that has the lane's turn owns it.
#[derive(Default)]
pub(super) struct FlushState {
    /// The position of the next entry to take.
    taken: u64,
    /// Whether a frame was written but not synced.
    unsynced: bool,
    /// The memory of the last frame, unless it was large.
    spare: Vec<u8>,
    /// For the large batches of the current frame.
    memory: Vec<Charge>,
    /// The commits of the current frame whose places an engine wants.
    placed: Vec<InFrame>,
    pub(super) segments: Segments,
    /// The space for the note before the next cut, reserved so that a full log can be cut.
    pub(super) note: Option<LogRoom>,
}

/// Counts of the stages that a lane does.
#[derive(Default)]
pub(crate) struct LaneCounts {
    /// The commits that found the queue full, and their waiting time.
    pub(crate) full: Tally,
    pub(crate) writes: Counter,
    pub(crate) flushes: Counter,
    pub(crate) flushed_commits: Counter,
    pub(crate) flushed_bytes: Counter,
    pub(crate) flush_ns: Counter,
}

pub(crate) struct Lane {
    /// The index among the lanes.
    pub(super) number: usize,
    /// The number of its log.
    pub(super) log: u32,
    pub(super) plog: Box<dyn Plog>,
    /// The engines that want the places of their commits.
    pub(super) wanting: EngineSet,
    pub(super) places: PlaceQueue,
    ring: Ring,
    large: LargeBatches,
    /// A frame with this many bytes takes no further commit: as many as the ring has, except in
    /// tests.
    pub(super) frame_bytes: usize,
    flushing: Mutex<FlushState>,
    /// The queue is durable up to this position.
    durable_at: AtomicU64,
    /// Every commit of this lane up to this CSN is durable.
    durable_through: AtomicU64,
    pub(super) counts: LaneCounts,
}

impl Lane {
    /// A lane over a log just opened, in which every commit up to `last` is recovered.
    pub(super) fn new(
        (number, log): (usize, u32),
        plog: Box<dyn Plog>,
        ring_words: usize,
        last: Csn,
        segments: Segments,
    ) -> Lane {
        let ring = Ring::new(ring_words);
        Lane {
            number,
            log,
            plog,
            wanting: EngineSet::EMPTY,
            places: PlaceQueue::default(),
            large: LargeBatches::new(LARGE_SHARE * ring.bytes()),
            frame_bytes: ring.bytes(),
            ring,
            flushing: Mutex::new(FlushState { segments, ..FlushState::default() }),
            durable_at: AtomicU64::new(0),
            durable_through: AtomicU64::new(last.0),
            counts: LaneCounts::default(),
        }
    }

    /// From now on, charges the budget for memory that grows with the load.
    pub(super) fn charge_to(&mut self, budget: &Budget) {
        self.places.charge_to(budget);
        self.large.charge_to(budget);
    }

    /// Reserves log space for a batch of this size.
    pub(super) fn admit(&self, batch_bytes: usize) -> Result<Room<'_>> {
        if batch_bytes > BATCH_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::TransactionTooLarge,
                format!(
                    "a transaction may write {BATCH_BYTES_MAX} bytes at most; this one writes {batch_bytes}"
                ),
            ));
        }
        // The room includes that of a stable record, which precedes the commit if it begins a
        // frame.
        let room = self.plog.reserve((batch_bytes + COMMIT_OVERHEAD) as u64)?;
        let is_large = batch_bytes > self.ring.payload_max();
        let memory = if is_large { self.large.charge(batch_bytes) } else { None };
        Ok(Room { lane: self, room, memory })
    }

    /// See [`Plog::segment_for`].
    pub(super) fn segment_for(&self, batch_bytes: usize) -> u64 {
        self.plog.segment_for((batch_bytes + COMMIT_OVERHEAD) as u64)
    }

    pub(super) fn leave_free(&self, bytes: u64) {
        self.plog.leave_free(bytes);
    }

    /// Reserves a place for a batch. The caller must fill or skip it.
    pub(super) fn reserve(&self, batch: &WriteBatch) -> RingPlace {
        self.ring.reserve(self.in_ring(batch).map_or(0, <[u8]>::len))
    }

    fn in_ring<'b>(&self, batch: &'b WriteBatch) -> Option<&'b [u8]> {
        let bytes = batch.as_bytes();
        (bytes.len() <= self.ring.payload_max()).then_some(bytes)
    }

    /// Whether a batch may be put into its place now. If so, it has its claim of
    /// [`LargeBatches`].
    pub(super) fn fits(&self, place: RingPlace, batch: &WriteBatch) -> bool {
        let claim = || {
            let is_first = self.ring.head() >= place.at;
            self.large.claim(batch.as_bytes().len(), is_first)
        };
        self.ring.fits(place) && (self.in_ring(batch).is_some() || claim())
    }

    /// Whether the queue is half full, up to a place that was filled with this batch.
    pub(super) fn is_half_full(&self, place: RingPlace, batch: &WriteBatch) -> bool {
        let is_large = self.in_ring(batch).is_none();
        self.ring.is_half_full(place) || is_large && self.large.is_half_full()
    }

    pub(super) fn is_nearly_full(&self) -> bool {
        self.ring.is_nearly_full()
    }

    /// Fills a place that fits.
    pub(super) fn put(&self, place: RingPlace, csn: Csn, mut room: Room<'_>, batch: &WriteBatch) {
        let log_room = room.take().size();
        match self.in_ring(batch) {
            Some(bytes) => {
                let kind = (RingEntryKind::Commit, batch.engines());
                self.ring.put(place, kind, csn, log_room, bytes);
            }
            None => {
                self.large.put(place.at, batch, room.memory.take());
                let kind = (RingEntryKind::Large, batch.engines());
                self.ring.put(place, kind, csn, log_room, b"");
            }
        }
    }

    /// Leaves a place that fits unused.
    pub(super) fn skip(&self, place: RingPlace, batch: &WriteBatch) {
        if self.in_ring(batch).is_none() {
            self.large.unclaim(batch.as_bytes().len());
        }
        self.ring.skip(place);
    }

    /// The bytes of the queued batches that are too large for the ring.
    #[cfg(all(test, not(loom)))]
    pub(super) fn large_bytes(&self) -> usize {
        self.large.bytes()
    }

    /// Whether this many words of the queue were taken out.
    #[cfg(all(test, not(loom)))]
    pub(super) fn has_taken(&self, words: u64) -> bool {
        self.ring.head() >= words
    }

    pub(super) fn has_unflushed(&self) -> bool {
        self.ring.tail() != self.durable_at.load(Ordering::SeqCst)
    }

    /// The number of words in the queue that are not durable.
    pub(super) fn depth(&self) -> u64 {
        let durable = self.durable_at.load(Ordering::SeqCst);
        self.ring.tail().saturating_sub(durable)
    }

    pub(super) fn queue_bytes(&self) -> usize {
        self.ring.bytes()
    }

    /// A CSN up to which every commit of this lane is durable. `ordered` is the newest CSN that was
    /// assigned before the call. A commit reserves its place before it gets its CSN. So if all
    /// places of the lane are durable, then so are all of its commits up to `ordered`.
    pub(super) fn durable_through(&self, ordered: u64) -> u64 {
        if self.has_unflushed() { self.durable_through.load(Ordering::SeqCst) } else { ordered }
    }

    /// Only for a [`super::Turn`] (PIPE-2).
    pub(super) fn lock(&self) -> MutexGuard<'_, FlushState> {
        self.flushing.lock()
    }

    /// As [`Lane::lock`].
    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, FlushState>> {
        self.flushing.try_lock()
    }

    /// Stage three: writes the entries that are queued at the call, and syncs the log. It calls
    /// `ordered` before it reads the end of the queue (see [`Lane::durable_through`]). It waits for
    /// places that are reserved and not filled, as long as `health` reports no failure.
    pub(super) fn flush(
        &self,
        state: &mut FlushState,
        ordered: impl Fn() -> u64,
        stable: Csn,
        health: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let through = ordered();
        let end = self.ring.tail();
        self.drain(state, end, stable, true, health)?;
        if state.unsynced {
            self.timed(|| self.plog.sync())?;
            state.unsynced = false;
        }
        self.durable_through.fetch_max(through, Ordering::SeqCst);
        self.durable_at.fetch_max(end, Ordering::SeqCst);
        Ok(())
    }

    /// Makes room in the queue: writes the entries before `end`, or all entries queued at the call,
    /// without a sync. It waits as [`Lane::flush`] does.
    pub(super) fn write(
        &self,
        state: &mut FlushState,
        end: Option<u64>,
        stable: Csn,
        health: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let end = end.unwrap_or_else(|| self.ring.tail());
        self.drain(state, end, stable, false, health)
    }

    /// Collects the entries before `end` in frames and writes them, the last frame durably if
    /// `durable`.
    fn drain(
        &self,
        state: &mut FlushState,
        end: u64,
        stable: Csn,
        durable: bool,
        health: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let mut frame = std::mem::take(&mut state.spare);
        while state.taken < end {
            frame.clear();
            put_stable(&mut frame, stable);
            let gathered = self.gather(state, end, &mut frame, &health)?;
            let memory = std::mem::take(&mut state.memory);
            if gathered.commits > 0 {
                self.append(state, &frame, gathered, durable && state.taken >= end)?;
            }
            if frame.capacity() > 2 * self.frame_bytes {
                frame = Vec::new();
            }
            drop(memory);
        }
        state.spare = frame;
        Ok(())
    }

    /// Takes entries out of the queue up to `end`, or until a frame is full.
    fn gather(
        &self,
        state: &mut FlushState,
        end: u64,
        frame: &mut Vec<u8>,
        health: impl Fn() -> Result<()>,
    ) -> Result<Gathered> {
        let mut gathered = Gathered::default();
        state.placed.clear();
        let (mut tries, mut released) = (0, state.taken);
        while state.taken < end && frame.len() < self.frame_bytes {
            let head = |entry: &super::ring::RingEntry, out: &mut Vec<u8>| {
                if entry.kind == RingEntryKind::Commit {
                    put_commit_head(out, entry.csn, entry.bytes);
                }
            };
            let begin = frame.len();
            let Some(entry) = self.ring.take(state.taken, frame, head) else {
                // The place is not filled. Its owner is copying, waits until the ring has room for
                // the place, or has given up because the log failed.
                self.ring.release(state.taken);
                health()?;
                pause(&mut tries);
                continue;
            };
            tries = 0;
            if entry.kind == RingEntryKind::Large {
                let (batch, memory) = self.large.take(state.taken);
                let bytes = batch.as_bytes();
                frame.reserve_exact(COMMIT_HEAD_BYTES + bytes.len());
                put_commit_head(frame, entry.csn, bytes.len());
                frame.extend_from_slice(bytes);
                state.memory.extend(memory);
            }
            if entry.kind != RingEntryKind::Skip {
                let at = begin + COMMIT_HEAD_BYTES;
                if entry.engines.contains(EngineKind::Memory) {
                    seal_rows(&mut frame[at..], entry.csn);
                }
                let engines = entry.engines.and(self.wanting);
                if engines != EngineSet::EMPTY {
                    state.placed.push(InFrame { csn: entry.csn, engines, at });
                }
                gathered.commits += 1;
                gathered.newest.add(entry.csn, entry.engines);
                gathered.room.join(LogRoom::new(entry.room));
            }
            state.taken = entry.next;
            if state.taken - released >= RELEASE_WORDS {
                released = state.taken;
                self.ring.release(released);
            }
        }
        self.ring.release(state.taken);
        Ok(gathered)
    }

    fn append(
        &self,
        state: &mut FlushState,
        frame: &[u8],
        gathered: Gathered,
        durable: bool,
    ) -> Result<()> {
        debug_assert!(frame.len() <= PAYLOAD_MAX);
        let append = || self.plog.append(frame, durable, gathered.room);
        let position = if durable { self.timed(append) } else { append() }?;
        let add = |count: &Counter, value| count.fetch_add(value, Ordering::Relaxed);
        add(&self.counts.writes, 1);
        add(&self.counts.flushed_commits, gathered.commits);
        add(&self.counts.flushed_bytes, frame.len() as u64);
        state.unsynced = !durable;
        state.segments.note(position, gathered.newest);
        // This comes before the caller stores that the lane is durable up to these commits
        // (`places.rs`).
        self.places.add(self.log, position, &state.placed);
        Ok(())
    }

    /// Counts a sync and its duration.
    fn timed<T>(&self, sync: impl FnOnce() -> Result<T>) -> Result<T> {
        let start = spillway_base::clock::now();
        let synced = sync()?;
        let elapsed = spillway_base::clock::now() - start;
        self.counts.flush_ns.fetch_add(elapsed.as_nanos() as u64, Ordering::Relaxed);
        self.counts.flushes.fetch_add(1, Ordering::Relaxed);
        Ok(synced)
    }
}

#[derive(Default)]
struct Gathered {
    commits: u64,
    newest: Newest,
    room: LogRoom,
}

/// Room in a lane's log for one commit. Dropping it gives the room back.
#[must_use]
pub(crate) struct Room<'l> {
    pub(super) lane: &'l Lane,
    room: LogRoom,
    /// For a batch that is too large for the ring.
    memory: Option<Charge>,
}

impl Room<'_> {
    fn take(&mut self) -> LogRoom {
        std::mem::take(&mut self.room)
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        let room = self.take();
        if room != LogRoom::default() {
            self.lane.plog.release(room);
        }
    }
}
