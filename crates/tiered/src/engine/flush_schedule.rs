//! Decides which memtables are to be flushed, and records which flushes run.
//!
//! - **FLUSH-SCHEDULE-1 (in order).** Only one thread at a time flushes, splits or joins a
//!   sub-table ([`FlushSchedule::begin`]), so its memtables are flushed in order.
//! - **FLUSH-SCHEDULE-2 (stable).** A memtable is ready only if all of its commits are stable (E7).
//!   [`FlushSchedule::awaits_durable`] returns the newest commit of the memtables that were not
//!   ready for this reason.
//! - **FLUSH-SCHEDULE-3 (full disk).** If a flush finds the disk full,
//!   [`FlushSchedule::met_full_disk`] returns `true` until a later round of flushes meets no full
//!   disk, or finds no ready memtable.
//! - **FLUSH-SCHEDULE-4 (space).** After each background job, the engine records whether the
//!   devices have less free space than [`AHEAD`] times the bytes that memtables may take, or a
//!   flush found the disk full. If so, each commit checks that the devices have space for the
//!   memtables and its own writes ([`spillway_base::engine::Engine::flush_space`]).

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use spillway_base::Csn;

use crate::subtable::SubTable;
use crate::view::Immutable;

/// See FLUSH-SCHEDULE-4. Between two jobs, compactions and the log may take space.
pub(super) const AHEAD: u64 = 2;

/// The state of an engine's flushes.
#[derive(Default)]
pub(super) struct FlushSchedule {
    /// Memtables with commits at or below this CSN are to be sealed and flushed.
    requested: AtomicU64,
    /// The newest commit of a memtable that could not be flushed because it was not stable.
    awaits_durable: AtomicU64,
    /// The number of running flushes, each of another sub-table.
    running: AtomicUsize,
    /// Whether a flush failed with a full disk (FLUSH-SCHEDULE-3).
    disk_full: AtomicBool,
    /// Whether the devices may soon lack the space for the memtables (FLUSH-SCHEDULE-4).
    short_of_space: AtomicBool,
}

impl FlushSchedule {
    /// Requests that everything up to a commit is flushed.
    pub(super) fn request(&self, csn: Csn) {
        self.requested.fetch_max(csn.0, Ordering::AcqRel);
    }

    /// The newest commit up to which flushes were requested.
    pub(super) fn requested(&self) -> Csn {
        Csn(self.requested.load(Ordering::Acquire))
    }

    /// A sub-table's oldest sealed memtable, if it may be flushed.
    pub(super) fn ready(&self, part: &SubTable, stable: Csn) -> Option<Immutable> {
        let oldest = part.view().immutables.last()?.clone();
        if !oldest.memtable.is_quiet() || part.is_closed() {
            return None;
        }
        let newest = oldest.memtable.csn_max();
        if newest > stable {
            self.awaits_durable.fetch_max(newest.0, Ordering::AcqRel);
            return None;
        }
        Some(oldest)
    }

    /// The newest commit for which a flush has waited because it was not stable.
    pub(super) fn awaits_durable(&self) -> Csn {
        Csn(self.awaits_durable.load(Ordering::Acquire))
    }

    /// The right to flush a sub-table; `None` while another thread has it.
    pub(super) fn begin<'a>(&'a self, part: &'a SubTable) -> Option<Flushing<'a>> {
        if part.flushing.swap(true, Ordering::AcqRel) {
            return None;
        }
        self.running.fetch_add(1, Ordering::AcqRel);
        Some(Flushing { schedule: self, part })
    }

    /// Whether a flush is running.
    pub(super) fn is_running(&self) -> bool {
        self.running.load(Ordering::Acquire) > 0
    }

    /// Records whether a ready memtable could not be flushed because the disk was full.
    pub(super) fn note_end(&self, disk_full: bool) {
        self.disk_full.store(disk_full, Ordering::Release);
    }

    /// Records whether the devices may soon lack the space for the memtables.
    pub(super) fn note_space(&self, is_short: bool) {
        self.short_of_space.store(is_short, Ordering::Release);
    }

    /// Whether the devices may soon lack the space for the memtables.
    #[inline]
    pub(super) fn is_short_of_space(&self) -> bool {
        self.short_of_space.load(Ordering::Acquire)
    }

    /// Whether a ready memtable could not be flushed because the disk was full.
    pub(super) fn met_full_disk(&self) -> bool {
        self.disk_full.load(Ordering::Acquire)
    }
}

/// The right to flush a sub-table.
pub(super) struct Flushing<'a> {
    schedule: &'a FlushSchedule,
    part: &'a SubTable,
}

impl Drop for Flushing<'_> {
    fn drop(&mut self) {
        self.part.flushing.store(false, Ordering::Release);
        self.schedule.running.fetch_sub(1, Ordering::AcqRel);
    }
}
