//! Counts the input that compactions left in place, copied, and rewrote: how much of it they
//! reused.

use std::sync::atomic::{AtomicU64, Ordering};

use spillway_base::engine::Metric;

use crate::compaction::Tally;

/// Sums of [`Tally`].
#[derive(Default)]
pub(super) struct ReuseCounts {
    relinked_slices: AtomicU64,
    relinked_bytes: AtomicU64,
    carried_blocks: AtomicU64,
    carried_bytes: AtomicU64,
    merged_blocks: AtomicU64,
    merged_bytes: AtomicU64,
    merge_input_bytes: AtomicU64,
    coded_from_bytes: AtomicU64,
    coded_bytes: AtomicU64,
    checked_tasks: AtomicU64,
    refused_tasks: AtomicU64,
}

impl ReuseCounts {
    pub(super) fn add(&self, tally: &Tally) {
        for (sum, more) in [
            (&self.relinked_slices, tally.relinked_slices),
            (&self.relinked_bytes, tally.relinked_bytes),
            (&self.carried_blocks, tally.carried_blocks),
            (&self.carried_bytes, tally.carried_bytes),
            (&self.merged_blocks, tally.merged_blocks),
            (&self.merged_bytes, tally.merged_bytes),
            (&self.merge_input_bytes, tally.merge_input_bytes),
            (&self.coded_from_bytes, tally.coded_from_bytes),
            (&self.coded_bytes, tally.coded_bytes),
            (&self.checked_tasks, tally.checked_tasks),
            (&self.refused_tasks, tally.refused_tasks),
        ] {
            sum.fetch_add(more, Ordering::Relaxed);
        }
    }

    pub(super) fn metrics(&self) -> impl Iterator<Item = Metric> {
        let read = self.carried_bytes.load(Ordering::Relaxed)
            + self.merge_input_bytes.load(Ordering::Relaxed);
        let all = [
            (
                "tiered_compaction_read_bytes_total",
                "Bytes of blocks that compactions read; decoded blocks count with their decoded size.",
                read,
            ),
            (
                "tiered_relinked_slices_total",
                "Slices that compactions left where they are.",
                self.relinked_slices.load(Ordering::Relaxed),
            ),
            (
                "tiered_relinked_bytes_total",
                "Bytes of slices that compactions left where they are.",
                self.relinked_bytes.load(Ordering::Relaxed),
            ),
            (
                "tiered_carried_blocks_total",
                "Blocks that compactions copied without decoding them.",
                self.carried_blocks.load(Ordering::Relaxed),
            ),
            (
                "tiered_carried_bytes_total",
                "Bytes of blocks that compactions copied without decoding them.",
                self.carried_bytes.load(Ordering::Relaxed),
            ),
            (
                "tiered_merged_blocks_total",
                "Blocks that compactions wrote from merged rows.",
                self.merged_blocks.load(Ordering::Relaxed),
            ),
            (
                "tiered_merged_bytes_total",
                "Bytes of blocks that compactions wrote from merged rows.",
                self.merged_bytes.load(Ordering::Relaxed),
            ),
            (
                "tiered_checked_merges_total",
                "Merges that were done in two ways with equal results.",
                self.checked_tasks.load(Ordering::Relaxed),
            ),
            (
                "tiered_refused_merges_total",
                "Merges that an accelerator refused, or whose two results differ. A batch counts \
                 once if it fails but each of its merges succeeds alone.",
                self.refused_tasks.load(Ordering::Relaxed),
            ),
            (
                "tiered_coded_from_bytes_total",
                "Bytes of the blocks that flushes and compactions compressed, before compression.",
                self.coded_from_bytes.load(Ordering::Relaxed),
            ),
            (
                "tiered_coded_bytes_total",
                "Bytes of the blocks that flushes and compactions compressed, after compression.",
                self.coded_bytes.load(Ordering::Relaxed),
            ),
        ];
        all.into_iter().map(|(name, help, value)| Metric {
            name,
            help,
            counter: true,
            value: value as f64,
        })
    }
}
