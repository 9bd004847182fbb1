//! Counts of what an engine has done since it was opened, and its newest compactions. They are for
//! metrics and inspections.

use std::sync::atomic::{AtomicU64, Ordering};

use spillway_base::TableId;
use spillway_base::clock::Clock;
use spillway_base::engine::Metric;
use spillway_base::stall::{self, Cause};

use super::reuse_counts::ReuseCounts;
use crate::compaction::Tally;
use crate::inspect::{CompactionRecord, History, Timer};
use crate::picker::{Kind, Pick};

/// The counts of an engine.
#[derive(Default)]
pub(super) struct EngineStatistics {
    flushes: AtomicU64,
    flushed_bytes: AtomicU64,
    compactions: [AtomicU64; Kind::ALL.len()],
    splits: AtomicU64,
    joins: AtomicU64,
    compaction_written_bytes: AtomicU64,
    kept_bytes: AtomicU64,
    reuse: ReuseCounts,
    hidden_slices: AtomicU64,
    hidden_bytes: AtomicU64,
    moved_extents: AtomicU64,
    moved_bytes: AtomicU64,
    memory_waits: stall::Tally,
    /// The newest compactions.
    history: History,
}

/// The counts at one moment.
#[derive(Clone, Debug)]
pub(super) struct EngineFigures {
    pub(super) flushes: u64,
    pub(super) flushed_bytes: u64,
    /// By [`Kind`].
    pub(super) compactions: [u64; Kind::ALL.len()],
    pub(super) splits: u64,
    pub(super) joins: u64,
    pub(super) compaction_written_bytes: u64,
    /// The bytes that stayed in Level1 because they were hot, of slices whose other blocks went
    /// down.
    pub(super) kept_bytes: u64,
    /// Slices that were dropped unread.
    pub(super) hidden_slices: u64,
    /// All bytes that were dropped unread.
    pub(super) hidden_bytes: u64,
    /// Bytes of extents that were moved between devices.
    pub(super) moved_bytes: u64,
}

fn add(count: &AtomicU64, more: u64) {
    count.fetch_add(more, Ordering::Relaxed);
}

impl EngineStatistics {
    /// The counts at this moment.
    pub(super) fn figures(&self) -> EngineFigures {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        EngineFigures {
            flushes: read(&self.flushes),
            flushed_bytes: read(&self.flushed_bytes),
            compactions: self.compactions.each_ref().map(read),
            splits: read(&self.splits),
            joins: read(&self.joins),
            compaction_written_bytes: read(&self.compaction_written_bytes),
            kept_bytes: read(&self.kept_bytes),
            hidden_slices: read(&self.hidden_slices),
            hidden_bytes: read(&self.hidden_bytes),
            moved_bytes: read(&self.moved_bytes),
        }
    }

    /// The extents that were moved between devices.
    #[cfg(all(test, not(loom)))]
    pub(super) fn moved_extents(&self) -> u64 {
        self.moved_extents.load(Ordering::Relaxed)
    }

    /// What flushes and compactions reused and compressed, as metrics.
    pub(super) fn reuse_metrics(&self) -> impl Iterator<Item = Metric> {
        self.reuse.metrics()
    }

    /// Counts a flush.
    pub(super) fn note_flush(&self, bytes: u64, tally: &Tally) {
        self.reuse.add(&tally.of_coding());
        add(&self.flushes, 1);
        add(&self.flushed_bytes, bytes);
    }

    /// Counts a compaction that has written this many extents and bytes.
    pub(super) fn note_compaction(
        &self,
        timer: &Timer,
        table: TableId,
        pick: &Pick,
        tally: &Tally,
        (extents, bytes): (u64, u64),
    ) {
        add(&self.compactions[pick.kind as usize], 1);
        self.reuse.add(tally);
        add(&self.compaction_written_bytes, bytes);
        self.history.note(timer, table, pick, tally, (extents, bytes));
    }

    /// Counts bytes that a compaction left in Level1 because they were hot.
    pub(super) fn note_kept(&self, bytes: u64) {
        add(&self.kept_bytes, bytes);
    }

    /// Counts a split of a sub-table.
    pub(super) fn note_split(&self) {
        add(&self.splits, 1);
    }

    /// Counts a join of two sub-tables.
    pub(super) fn note_join(&self) {
        add(&self.joins, 1);
    }

    /// Counts slices that were dropped unread, and all bytes that were dropped unread.
    pub(super) fn note_hidden(&self, slices: u64, bytes: u64) {
        add(&self.hidden_slices, slices);
        add(&self.hidden_bytes, bytes);
    }

    /// Counts extents that were moved between devices.
    pub(super) fn note_moved(&self, extents: u64, bytes: u64) {
        add(&self.moved_extents, extents);
        add(&self.moved_bytes, bytes);
    }

    /// Runs and counts a wait for memory.
    pub(super) fn during_memory_wait<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.memory_waits.during(Cause::Memory, &Clock::system(), wait)
    }

    /// The waits for memory.
    pub(super) fn memory_waits(&self) -> &stall::Tally {
        &self.memory_waits
    }

    /// The number of compactions that have ended.
    pub(super) fn compactions_ended(&self) -> u64 {
        self.history.ended()
    }

    /// The newest compactions, newest last.
    pub(super) fn newest_compactions(&self) -> Vec<CompactionRecord> {
        self.history.newest()
    }
}
