//! The contract for executors of merge tasks: the local CPU, or an accelerator (X-Engine, section
//! 3.3.2, "FPGA offloading").
//!
//! A [`MergeTask`] is a few hundred kilobytes of blocks, with the ranges of their entries to merge.
//! A [`DropRule`] says which versions to drop. A task does not depend on other tasks, or on tables,
//! extents or files. So tasks may run anywhere, in any order, and any number of them in parallel.
//! The results are blocks in the format of [`crate::block`].
//!
//! - **OFFLOAD-1.** The result is a function of the task: its bytes equal the bytes of [`Cpu`]'s
//!   result.
//! - **OFFLOAD-2.** The results come back in the order of the tasks.
//! - **OFFLOAD-3.** An accelerator that fails returns an error and has no other effect. [`Cpu`]
//!   then does the work.
//!
//! [`Checked`] runs two executors and compares their results, byte by byte. An accelerator may
//! refuse a group of tasks. Then the merge gives it these tasks again one by one, and [`Cpu`] runs
//! those that the accelerator still refuses.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use spillway_base::{Error, Result};

use super::rule::{DropRule, Sieve};
use crate::block::{Block, BlockWriter, BuiltBlock, Entry};

/// Consecutive entries of a block.
#[derive(Clone)]
pub struct Piece {
    pub(crate) block: Arc<Block>,
    pub(crate) entries: Range<usize>,
}

impl Piece {
    /// The block's body, decoded: its entries, their offsets and their number.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        self.block.body()
    }

    /// The range of the block's entries that the piece covers.
    #[must_use]
    pub fn entries(&self) -> Range<usize> {
        self.entries.clone()
    }
}

/// A merge that does not depend on other tasks.
pub struct MergeTask {
    /// The pieces of each source in key order, the newest source first.
    pub(crate) sources: Vec<Vec<Piece>>,
    pub(crate) block_bytes: usize,
}

impl MergeTask {
    /// Bytes in memory of a full output block, including its search nodes.
    #[must_use]
    pub fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// The pieces of each source in key order, the newest source first.
    #[must_use]
    pub fn sources(&self) -> &[Vec<Piece>] {
        &self.sources
    }

    /// Its first and last key; empty for a task without keys.
    pub(crate) fn keys(&self) -> (&[u8], &[u8]) {
        let pieces = || self.sources.iter().flatten().filter(|piece| !piece.entries.is_empty());
        let first = pieces().map(|piece| piece.block.entry(piece.entries.start).key).min();
        let last = pieces().map(|piece| piece.block.entry(piece.entries.end - 1).key).max();
        (first.unwrap_or_default(), last.unwrap_or_default())
    }

    /// The approximate bytes of its entries.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let share = |piece: &Piece| {
            (piece.block.body().len() * piece.entries.len() / piece.block.len()) as u64
        };
        self.sources.iter().flatten().map(share).sum()
    }
}

/// An executor of merges.
pub trait Accelerator: Send + Sync {
    /// The number of tasks that it takes at once, at least one.
    fn batch(&self) -> usize;

    /// Whether it merges each task with two executors, and refuses the task if their results
    /// differ.
    fn compares(&self) -> bool {
        false
    }

    /// Merges each task into blocks.
    ///
    /// # Errors
    /// The reason why it refuses the tasks. It has had no effect then (OFFLOAD-3).
    fn merge(&self, tasks: &[MergeTask], rule: &DropRule<'_>) -> Result<Vec<Vec<BuiltBlock>>>;
}

/// The calling processor, the reference for all other executors.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu;

impl Accelerator for Cpu {
    fn batch(&self) -> usize {
        1
    }

    fn merge(&self, tasks: &[MergeTask], rule: &DropRule<'_>) -> Result<Vec<Vec<BuiltBlock>>> {
        Ok(tasks.iter().map(|task| merge(task, rule)).collect())
    }
}

/// Two executors that must agree. The result is the first one's.
#[derive(Clone, Copy, Debug)]
pub struct Checked<A, B>(pub A, pub B);

impl<A: Accelerator, B: Accelerator> Accelerator for Checked<A, B> {
    fn batch(&self) -> usize {
        self.0.batch().max(self.1.batch())
    }

    fn compares(&self) -> bool {
        true
    }

    fn merge(&self, tasks: &[MergeTask], rule: &DropRule<'_>) -> Result<Vec<Vec<BuiltBlock>>> {
        let (one, other) = (self.0.merge(tasks, rule)?, self.1.merge(tasks, rule)?);
        match one.iter().zip(&other).position(|(one, other)| one != other) {
            None if one.len() == other.len() => Ok(one),
            at => Err(Error::corruption(format!(
                "two accelerators made different blocks of task {}",
                at.unwrap_or(one.len().min(other.len()))
            ))),
        }
    }
}

/// A source of a task, at one of its entries.
struct TaskReader<'a> {
    /// The number of newer sources.
    rank: usize,
    pieces: std::slice::Iter<'a, Piece>,
    block: &'a Block,
    rest: Range<usize>,
    entry: Entry<'a>,
}

impl<'a> TaskReader<'a> {
    fn new(rank: usize, pieces: &'a [Piece]) -> Option<TaskReader<'a>> {
        let mut pieces = pieces.iter();
        let (block, rest, entry) = next_piece(&mut pieces)?;
        Some(TaskReader { rank, pieces, block, rest, entry })
    }

    fn at(&self) -> (&Entry<'a>, usize) {
        (&self.entry, self.rank)
    }

    /// Steps to the next entry; `false` past the last.
    fn advance(&mut self) -> bool {
        match self.rest.next() {
            Some(at) => self.entry = self.block.entry(at),
            None => match next_piece(&mut self.pieces) {
                Some((block, rest, entry)) => {
                    (self.block, self.rest, self.entry) = (block, rest, entry);
                }
                None => return false,
            },
        }
        true
    }
}

fn next_piece<'a>(
    pieces: &mut std::slice::Iter<'a, Piece>,
) -> Option<(&'a Block, Range<usize>, Entry<'a>)> {
    pieces.find_map(|piece| {
        let mut rest = piece.entries.clone();
        let first = rest.next()?;
        Some((&*piece.block, rest, piece.block.entry(first)))
    })
}

/// The order of entries: by key, the versions of a key from newest to oldest, and versions of one
/// commit from the newest source to the oldest. Two sources may have a key of one commit: a
/// memtable may be sealed in the middle of a batch that changes a key twice (E1).
fn order(a: (&Entry<'_>, usize), b: (&Entry<'_>, usize)) -> Ordering {
    let by_version = a.0.key.cmp(b.0.key).then(b.0.csn.cmp(&a.0.csn));
    by_version.then(a.1.cmp(&b.1))
}

fn merge(task: &MergeTask, rule: &DropRule<'_>) -> Vec<BuiltBlock> {
    let mut writer = BlockWriter::new(task.block_bytes);
    let mut sieve = Sieve::new(rule);
    let sources = task.sources.iter().enumerate();
    let mut readers: Vec<TaskReader<'_>> =
        sources.filter_map(|(rank, pieces)| TaskReader::new(rank, pieces)).collect();
    // The readers are kept in the order of their next entries. They are sorted once; afterwards,
    // each time the first reader is moved to its new place.
    readers.sort_by(|a, b| order(a.at(), b.at()));
    while let Some((first, others)) = readers.split_first_mut() {
        let rival = others.first().map(|other| (other.entry, other.rank));
        let goes_on = loop {
            sieve.pass(&first.entry, &mut writer);
            if !first.advance() {
                break false;
            }
            if rival.is_some_and(|(entry, rank)| order(first.at(), (&entry, rank)).is_gt()) {
                break true;
            }
        };
        if goes_on {
            let later = |other: &TaskReader<'_>| order(other.at(), first.at()).is_lt();
            let place = others.iter().take_while(|other| later(other)).count();
            readers[..=place].rotate_left(1);
        } else {
            readers.remove(0);
        }
    }
    writer.finish()
}
