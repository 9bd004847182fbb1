//! Flushes and compactions: how versions get from their sources into extents (X-Engine, section
//! 3.3).
//!
//! Sources are slices of extents, or a memtable turned into blocks, each in key order. The work is
//! as deep as sources interleave, and no deeper:
//!
//! - a slice whose keys all lie before any other source's next key is *re-linked*: it belongs to
//!   another level from now on, and is not read;
//! - of a slice that others reach into, blocks that nothing else reaches into pass as they are:
//!   many in a row stay where they are, as a slice of their own; few are *carried*, which copies
//!   their bytes and decodes nothing;
//! - a slice or block of which every version is hidden by range tombstones from every live snapshot
//!   is left out unread;
//! - what is left is cut into [`MergeTask`]s, which are small and know nothing of each other.
//!
//! A block that spans others, and has no key where they are, is split: its parts are merged apart,
//! and those in between pass (figure 8 of the paper is a test here).
//!
//! # What holds
//! - **W1.** Every version of the sources that [`DropRule`] keeps is in the outputs once, and no
//!   other; its value as it was, or, where it was merged, as the table's owner has it rewritten
//!   (E11).
//! - **W2.** The outputs are disjoint slices in key order; all versions of a key are in one of
//!   them.
//! - **W3.** What passes was clean: merging it by itself would have dropped nothing, but for what
//!   range tombstones hide that some live snapshot does not see yet. Nothing that is dirty passes.
//! - **W4.** Blocks and extents do not crumble: a small block is merged with a neighbour, a slice
//!   is at least an eighth of an extent where it was cut by this work, and an extent less than half
//!   of which is in use is not re-linked.
//! - **W5.** A task is bounded: at most 256 KiB and one block of each source more, but for versions
//!   of one key.
//! - **W6.** What of a memtable goes to Level0 is cut at both ends of keys that compactions are
//!   kept away from for damage ([`SplitPoints`]), however little there is on a side of them. So of what is
//!   flushed over damage that which lies beside it is compacted as ever. What a compaction puts out
//!   has nothing of such keys, for its inputs have not.
//!
//! `input` gives sources block by block, which `reader` reads, `plan` decides what passes,
//! `offload` is the contract of those who carry out tasks, `writer` puts the outcome into extents,
//! `bulk` reads and writes beside it.

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
