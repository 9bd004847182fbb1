//! The latest compactions, kept for inspection.

use std::collections::VecDeque;
use std::time::Duration;

use spillway_base::TableId;
use spillway_base::clock::{now, wall};
use spillway_base::lock::Mutex;

use super::level_of;
use crate::compaction::Tally;
use crate::picker::{CompactionKind, Pick};

/// The most records that are kept: some minutes of a busy database, in a few tens of KiB.
const KEPT: usize = 256;

/// A compaction that has ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompactionRecord {
    /// Its number; the first since the opening is 1.
    pub number: u64,
    /// Its table.
    pub table: TableId,
    /// Its kind.
    pub kind: CompactionKind,
    /// The first key of its inputs.
    pub smallest: Box<[u8]>,
    /// The last key of its inputs.
    pub largest: Box<[u8]>,
    /// Input slices.
    pub input_slices: u64,
    /// Bytes of their blocks.
    pub input_bytes: u64,
    /// The level of the outputs: 0, 1 or 2.
    pub level: u8,
    /// Extents that were written.
    pub written_extents: u64,
    /// Bytes of those.
    pub written_bytes: u64,
    /// Slices that were re-linked, and bytes of their blocks.
    pub relinked_slices: u64,
    /// See `relinked_slices`.
    pub relinked_bytes: u64,
    /// Blocks that were copied without being decoded, and their bytes.
    pub carried_blocks: u64,
    /// See `carried_blocks`.
    pub carried_bytes: u64,
    /// Blocks that merges wrote, and their bytes.
    pub merged_blocks: u64,
    /// See `merged_blocks`.
    pub merged_bytes: u64,
    /// The time of its end, since the Unix epoch.
    pub ended: Duration,
    /// Its duration, including rests.
    pub took: Duration,
}

/// The start time of a running compaction.
pub(crate) struct Timer(Duration);

impl Timer {
    pub(crate) fn begin() -> Timer {
        Timer(now())
    }
}

/// The newest compactions.
#[derive(Default)]
pub(crate) struct History(Mutex<KeptRecord>);

#[derive(Default)]
struct KeptRecord {
    ended: u64,
    newest: VecDeque<CompactionRecord>,
}

impl History {
    /// Records a compaction that has ended and written this many extents and bytes.
    pub(crate) fn note(
        &self,
        timer: &Timer,
        table: TableId,
        pick: &Pick,
        tally: &Tally,
        (written_extents, written_bytes): (u64, u64),
    ) {
        let (smallest, largest) = pick.hull();
        let record = CompactionRecord {
            number: 0,
            table,
            kind: pick.kind,
            smallest: smallest.into(),
            largest: largest.into(),
            input_slices: pick.inputs().count() as u64,
            input_bytes: pick.inputs().map(|slice| slice.meta.bytes).sum(),
            level: level_of(pick.target) as u8,
            written_extents,
            written_bytes,
            relinked_slices: tally.relinked_slices,
            relinked_bytes: tally.relinked_bytes,
            carried_blocks: tally.carried_blocks,
            carried_bytes: tally.carried_bytes,
            merged_blocks: tally.merged_blocks,
            merged_bytes: tally.merged_bytes,
            ended: wall(),
            took: now().saturating_sub(timer.0),
        };
        let mut kept = self.0.lock();
        kept.ended += 1;
        let number = kept.ended;
        if kept.newest.len() == KEPT {
            kept.newest.pop_front();
        }
        kept.newest.push_back(CompactionRecord { number, ..record });
    }

    /// The number of compactions that have ended.
    pub(crate) fn ended(&self) -> u64 {
        self.0.lock().ended
    }

    /// The kept records, newest last.
    pub(crate) fn newest(&self) -> Vec<CompactionRecord> {
        self.0.lock().newest.iter().cloned().collect()
    }
}
