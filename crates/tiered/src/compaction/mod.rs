//! Flushes and compactions: the merge of sources into extents (X-Engine, section 3.3).
//!
//! A source is a list of slices, or a memtable turned into blocks, in key order. A merge decodes
//! only blocks whose keys interleave with those of other sources:
//!
//! - A slice whose keys all lie before the next key of every other source is *re-linked*: its level
//!   changes, and the merge does not read it.
//! - Other sources may have keys within the key range of a slice. A block of this slice passes
//!   unchanged if no other source has keys within the block's range. Many such blocks in sequence
//!   stay where they are, as a slice of their own. A few are *carried*: the merge copies them into
//!   the new extent. It decodes a carried block only if the target level has a stronger coding.
//! - A slice or block is dropped unread if range tombstones hide each of its versions from every
//!   live snapshot.
//! - The rest is divided into small, independent [`MergeTask`]s.
//!
//! The key range of a block may span whole blocks of other sources although the block has no key
//! within the ranges of these blocks. Such a block is split: its parts are merged separately, and
//! the blocks that it spans pass unchanged (figure 8 of the paper is a test here).
//!
//! # What holds
//! - **COMPACTION-1.** Every version of the sources that [`DropRule`] keeps is in the outputs once,
//!   and no other version is. Its value is unchanged, or, where it was merged, as the table's owner
//!   rewrites it (E11).
//! - **COMPACTION-2.** The outputs are disjoint slices in key order. All versions of a key are in
//!   one of them.
//! - **COMPACTION-3.** A slice or block passes unchanged only if it is clean: merging it alone
//!   would drop nothing, except for versions that are hidden by a range tombstone that some live
//!   snapshot does not see yet.
//! - **COMPACTION-4.** Blocks and extents do not become fragmented. A small block is merged with a
//!   neighbour. A slice that a compaction cut is at least an eighth of an extent. An extent of
//!   which less than half is used is not re-linked.
//! - **COMPACTION-5.** A task is bounded: at most 256 KiB, plus one block of each source. Only the
//!   versions of one key, which are never divided among tasks, may exceed this.
//! - **COMPACTION-6.** Compactions avoid key ranges with damaged blocks. A flush to Level0 cuts its
//!   output at both ends of these ranges ([`SplitPoints`]), however small the parts are. So the
//!   flushed rows outside of a damaged range are compacted as usual. Compactions need no such cuts,
//!   because their inputs hold no keys of these ranges.
//!
//! # Parts
//!
//! `input` gives a source block by block, and `reader` reads its blocks. `plan` decides which
//! slices and blocks pass unchanged. `offload` is the contract for executors of tasks. `writer`
//! puts the result into extents. [`crate::bulk_io`] reads and writes while the merge computes.

mod input;
mod offload;
mod plan;
mod reader;
mod rule;
mod sort_merge;
mod split_points;
#[cfg(all(test, not(loom)))]
mod tests;
mod writer;

pub(crate) use input::MergeInput;
pub use offload::{Accelerator, Checked, Cpu, MergeTask, Piece};
pub(crate) use plan::{Planner, Policy};
pub use rule::DropRule;
pub use sort_merge::Sorts;
pub(crate) use split_points::SplitPoints;
pub(crate) use writer::{Coder, MergeResult, MergeWriter, Output, Tally};
