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
//!    one of those still waiting is woken to lead the next flush.
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
//!   write. `pending` is held for moments. Lock order: `flushing`, `order`, `pending`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;

use parking_lot::{Condvar, Mutex, MutexGuard};
use spillway_base::batch::WriteBatch;
use spillway_base::{Csn, Error, ErrorKind, Result};
use spillway_storage::plog::{Plog, Position};

use crate::record::{COMMIT_OVERHEAD, put_commit, put_note};
use crate::snapshots::Snapshots;

/// Commits not yet flushed may take this much; more wait for the flush under way.
const BUFFER_BYTES_MAX: usize = 32 << 20;

struct Order {
    buffer: Vec<u8>,
    /// The newest commit in the buffer or flushed.
    last: Csn,
}

struct FlushState {
    spare: Vec<u8>,
    /// For each segment still kept, the newest commit in it.
    segments: VecDeque<(u64, Csn)>,
}

/// One who waits for a commit to become stable.
struct Waiting {
    csn: Csn,
    /// Whether a thread sleeps on it, which can lead a flush when woken.
    thread: bool,
    signal: Arc<Signal>,
}

#[derive(Default)]
struct Pending {
    waiting: VecDeque<Waiting>,
    failure: Option<Error>,
}

#[derive(Default)]
struct SignalState {
    woken: bool,
    waker: Option<Waker>,
}

/// Wakes one waiter, thread or task.
#[derive(Default)]
pub(crate) struct Signal {
    state: Mutex<SignalState>,
    changed: Condvar,
}

impl Signal {
    fn wake(&self) {
        let mut state = self.state.lock();
        state.woken = true;
        let waker = state.waker.take();
        drop(state);
        self.changed.notify_one();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn wait(&self) {
        let mut state = self.state.lock();
        while !std::mem::take(&mut state.woken) {
            self.changed.wait(&mut state);
        }
    }
}

/// Counts of a lane's work.
#[derive(Default)]
pub(crate) struct LaneCounts {
    pub(crate) commits: AtomicU64,
    pub(crate) flushes: AtomicU64,
    pub(crate) flushed_bytes: AtomicU64,
    pub(crate) flush_ns: AtomicU64,
}

/// One lane. The module's page says how it works.
pub(crate) struct Lane {
    plog: Box<dyn Plog>,
    snapshots: Arc<Snapshots>,
    order: Mutex<Order>,
    /// The newest commit in order, and the bytes of the buffer, for those who hold no lock.
    ordered: AtomicU64,
    buffered: AtomicUsize,
    flushing: Mutex<FlushState>,
    /// The newest commit in a synced frame.
    durable: AtomicU64,
    pending: Mutex<Pending>,
    failed: AtomicBool,
    pub(crate) counts: LaneCounts,
}

impl Lane {
    /// A lane over a log just opened, where every commit up to `last` is recovered.
    pub(crate) fn new(plog: Box<dyn Plog>, snapshots: Arc<Snapshots>, last: Csn) -> Lane {
        Lane {
            plog,
            snapshots,
            order: Mutex::new(Order { buffer: Vec::new(), last }),
            ordered: AtomicU64::new(last.0),
            buffered: AtomicUsize::new(0),
            flushing: Mutex::new(FlushState { spare: Vec::new(), segments: VecDeque::new() }),
            durable: AtomicU64::new(last.0),
            pending: Mutex::default(),
            failed: AtomicBool::new(false),
            counts: LaneCounts::default(),
        }
    }

    /// Makes sure that a batch of this size can be logged, and that the lane still works.
    pub(crate) fn admit(&self, batch_bytes: usize) -> Result<()> {
        self.health()?;
        let unflushed = self.buffered.load(Ordering::Relaxed);
        if unflushed > BUFFER_BYTES_MAX {
            self.flush()?;
        }
        self.plog.reserve((unflushed + batch_bytes + COMMIT_OVERHEAD) as u64)
    }

    /// Stage one: orders a commit. The caller installs it, then calls [`Lane::installed`].
    pub(crate) fn enqueue(&self, batch: &WriteBatch) -> Result<Csn> {
        let mut order = self.order.lock();
        self.health()?;
        let csn = order.last.next();
        order.last = csn;
        put_commit(&mut order.buffer, csn, batch);
        self.buffered.store(order.buffer.len(), Ordering::Relaxed);
        self.ordered.store(csn.0, Ordering::SeqCst);
        drop(order);
        self.counts.commits.fetch_add(1, Ordering::Relaxed);
        Ok(csn)
    }

    /// The newest commit that was ordered.
    pub(crate) fn last_ordered(&self) -> Csn {
        Csn(self.ordered.load(Ordering::SeqCst))
    }

    /// Stage two is over for this commit.
    pub(crate) fn installed(&self, csn: Csn) {
        self.snapshots.installed.finish(csn);
        self.advance();
    }

    /// Moves the stable CSN to where everything is installed and durable, and acknowledges.
    fn advance(&self) {
        if self.failed.load(Ordering::SeqCst) {
            return;
        }
        let durable = Csn(self.durable.load(Ordering::SeqCst));
        let stable = durable.min(self.snapshots.installed.prefix());
        if stable > self.snapshots.stable_csn() {
            self.snapshots.advance_stable(stable);
            self.acknowledge();
        }
    }

    /// Wakes those whose commit is stable.
    fn acknowledge(&self) {
        let mut pending = self.pending.lock();
        let stable = self.snapshots.stable_csn();
        let mut ready = Vec::new();
        pending.waiting.retain(|waiting| {
            let done = waiting.csn <= stable;
            if done {
                ready.push(waiting.signal.clone());
            }
            !done
        });
        drop(pending);
        for signal in ready {
            signal.wake();
        }
    }

    /// Stage three: writes and syncs what is buffered. Returns once all that was buffered at the call is
    /// durable, by this flush or by the one under way.
    pub(crate) fn flush(&self) -> Result<()> {
        let target = self.last_ordered();
        let flushing = self.flushing.lock();
        if self.durable.load(Ordering::SeqCst) >= target.0 {
            return self.health();
        }
        self.lead(flushing)
    }

    fn lead(&self, mut flushing: MutexGuard<'_, FlushState>) -> Result<()> {
        let outcome = self.flush_as_leader(&mut flushing);
        drop(flushing);
        match &outcome {
            Ok(()) => self.advance(),
            Err(error) => self.stop(error),
        }
        self.hand_over();
        outcome
    }

    fn flush_as_leader(&self, state: &mut FlushState) -> Result<()> {
        self.health()?;
        let mut frame = std::mem::take(&mut state.spare);
        let last = {
            let mut order = self.order.lock();
            std::mem::swap(&mut frame, &mut order.buffer);
            self.buffered.store(0, Ordering::Relaxed);
            order.last
        };
        if frame.is_empty() {
            return Ok(());
        }
        let start = spillway_base::clock::now();
        let position = self.plog.append(&frame, true)?;
        let elapsed = spillway_base::clock::now() - start;
        self.counts.flush_ns.fetch_add(elapsed.as_nanos() as u64, Ordering::Relaxed);
        self.counts.flushes.fetch_add(1, Ordering::Relaxed);
        self.counts.flushed_bytes.fetch_add(frame.len() as u64, Ordering::Relaxed);
        note_segment(state, position, last);
        self.durable.store(last.0, Ordering::SeqCst);
        frame.clear();
        if frame.capacity() <= BUFFER_BYTES_MAX {
            state.spare = frame;
        }
        Ok(())
    }

    /// D6: the log has failed. Nothing more is acknowledged.
    fn stop(&self, cause: &Error) {
        let waiting = {
            let mut pending = self.pending.lock();
            self.failed.store(true, Ordering::SeqCst);
            pending.failure.get_or_insert_with(|| match cause.kind() {
                ErrorKind::WritesStopped => cause.clone(),
                _ => Error::new(
                    ErrorKind::WritesStopped,
                    format!("the log failed, so writes have stopped: {cause}"),
                ),
            });
            std::mem::take(&mut pending.waiting)
        };
        for waiting in waiting {
            waiting.signal.wake();
        }
    }

    /// Wakes one of those who still wait, to lead the next flush.
    fn hand_over(&self) {
        let next = {
            let pending = self.pending.lock();
            let mut waiting = pending.waiting.iter();
            // One that only this list knows has been given up by its waiter.
            let leader = waiting.find(|one| one.thread && Arc::strong_count(&one.signal) > 1);
            leader.map(|waiting| waiting.signal.clone())
        };
        if let Some(signal) = next {
            signal.wake();
        }
    }

    /// The failure, if the log has failed.
    pub(crate) fn health(&self) -> Result<()> {
        if !self.failed.load(Ordering::SeqCst) {
            return Ok(());
        }
        Err(self.pending.lock().failure.clone().unwrap_or_else(|| {
            Error::new(ErrorKind::WritesStopped, "the log failed, so writes have stopped")
        }))
    }

    /// What became of a commit: stable, failed, or not known yet.
    fn outcome(&self, csn: Csn) -> Option<Result<()>> {
        if self.snapshots.stable_csn() >= csn {
            return Some(Ok(()));
        }
        self.health().err().map(Err)
    }

    /// Waits until every commit up to `csn` is stable, leading flushes where nobody does.
    pub(crate) fn wait(&self, csn: Csn) -> Result<()> {
        let mut signal: Option<Arc<Signal>> = None;
        loop {
            if let Some(outcome) = self.outcome(csn) {
                return outcome;
            }
            if self.durable.load(Ordering::SeqCst) < csn.0
                && let Some(flushing) = self.flushing.try_lock()
            {
                self.lead(flushing)?;
                continue;
            }
            match &signal {
                // Another leads, or an install is missing: sleep until told.
                Some(signal) => signal.wait(),
                None => signal = Some(self.register(csn, None)),
            }
        }
    }

    /// Registers a waiter for `csn`; a waker makes it a task. The caller looks at the outcome again after.
    fn register(&self, csn: Csn, waker: Option<&Waker>) -> Arc<Signal> {
        let signal = Arc::new(Signal::default());
        signal.state.lock().waker = waker.cloned();
        self.pending.lock().waiting.push_back(Waiting {
            csn,
            thread: waker.is_none(),
            signal: signal.clone(),
        });
        signal
    }

    /// Polls for a commit, without leading a flush: the flusher thread does.
    pub(crate) fn poll(
        &self,
        csn: Csn,
        signal: &mut Option<Arc<Signal>>,
        waker: &Waker,
    ) -> Option<Result<()>> {
        if let Some(outcome) = self.outcome(csn) {
            return Some(outcome);
        }
        match signal {
            Some(signal) => signal.state.lock().waker = Some(waker.clone()),
            None => *signal = Some(self.register(csn, Some(waker))),
        }
        self.outcome(csn)
    }

    /// Whether commits wait in the buffer.
    pub(crate) fn has_unflushed(&self) -> bool {
        self.durable.load(Ordering::SeqCst) < self.last_ordered().0
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
        let mut flushing = self.flushing.lock();
        self.health()?;
        let covered =
            flushing.segments.iter().take_while(|(_, newest)| *newest <= persisted).count();
        // The newest segment is written to and stays.
        let covered = covered.min(flushing.segments.len().saturating_sub(1));
        if covered == 0 {
            return Ok(());
        }
        let mut note = Vec::new();
        put_note(&mut note, persisted);
        let position = match self.plog.append(&note, true) {
            Ok(position) => position,
            Err(error) if error.kind() == ErrorKind::DiskFull => return Ok(()),
            Err(error) => {
                drop(flushing);
                self.stop(&error);
                return Err(error);
            }
        };
        let durable = Csn(self.durable.load(Ordering::SeqCst));
        note_segment(&mut flushing, position, durable);
        flushing.segments.drain(..covered);
        let keep = flushing.segments.front().map_or(0, |(segment, _)| *segment);
        self.plog.truncate_before(keep)
    }

    /// Tells the lane of a segment from before its opening, for truncation.
    pub(crate) fn adopt_segment(&self, segment: u64, newest: Csn) {
        self.flushing.lock().segments.push_back((segment, newest));
    }
}

fn note_segment(state: &mut FlushState, position: Position, last: Csn) {
    match state.segments.back_mut() {
        Some((segment, newest)) if *segment == position.segment => *newest = last,
        _ => state.segments.push_back((position.segment, last)),
    }
}
