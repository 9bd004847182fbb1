//! Flushes and compactions: the merge of sources into extents (X-Engine, section 3.3).
//!
//! A source is a list of slices, or a memtable turned into blocks, in key order. A merge decodes
//! only blocks whose keys interleave with those of other sources:
//!
//! - A slice is *re-linked* if all of its keys lie before the next key of every other source, and
//!   COMPACTION-3 and COMPACTION-4 allow it: its level changes, and the merge does not read it.
//! - A block passes unchanged if no other source has keys within the block's key range, and
//!   COMPACTION-3 and COMPACTION-4 allow it. Many such blocks in sequence stay where they are, as a
//!   slice of their own. A few are *carried*: the merge copies them into the new extent. It decodes
//!   a carried block only if the target level has a stronger coding.
//! - A slice or block is dropped unread if range tombstones hide each of its versions from every
//!   live snapshot.
//! - The rest is divided into small, independent [`MergeTask`]s.
//!
//! The key range of a block may span whole blocks of other sources although the block has no key
//! within the ranges of these blocks. Such a block is split: its parts are merged separately, and
//! the blocks that it spans pass unchanged (figure 8 of the paper, which is a test here).
//!
//! # Guarantees
//! - **COMPACTION-1.** Every version of the sources that [`DropRule`] keeps is in the outputs once,
//!   and no other version is. A version that passes unchanged has the same value as before. A
//!   version that is merged has the value to which the table's owner rewrites it, if there is a
//!   rewrite (E11), and else the same value.
//! - **COMPACTION-2.** The outputs are disjoint slices in key order. All versions of a key are in
//!   one of them.
//! - **COMPACTION-3.** A slice or block passes unchanged only if it is clean: merging it alone
//!   would drop nothing. Here, a range tombstone counts only once every live snapshot sees it.
//! - **COMPACTION-4.** Blocks and extents do not become fragmented. A small block is merged with a
//!   neighbour. A slice, or a part of a slice, is left where it is only if it has at least an
//!   eighth of an extent's bytes and at least half of its extent is used. (Within Level2,
//!   self-major compactions require another share than half: the share below which the picker
//!   counts an extent as wasteful.)
//! - **COMPACTION-5.** A task is bounded: at most 256 KiB, plus one block of each source. Only the
//!   versions of one key, which are never divided among tasks, may exceed this.
//! - **COMPACTION-6.** Compactions avoid key ranges with damaged blocks, and every slice that
//!   overlaps such a range. So a flush to Level0 cuts its output at both ends of these ranges
//!   ([`SplitPoints`]), however small the slices become. Then the flushed rows outside of the
//!   ranges are compacted as usual. Compactions need no such cuts, because their inputs hold no
//!   keys of these ranges.
//! - **COMPACTION-7.** While the disk is short of space, a flush to Level0 also cuts its output
//!   between slices of the sub-table, so that each new slice overlaps about one extent. Then a
//!   deletion compaction of one new slice has few inputs, and its outputs fit on the disk.
//!
//! # Parts
//!
//! `input` returns the blocks of a source one by one, and `reader` reads them from extents. `plan`
//! decides which slices and blocks pass unchanged. `offload` is the contract for executors of
//! tasks. `writer` puts the result into extents. [`crate::bulk_io`] reads and writes while the
//! merge computes.

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
