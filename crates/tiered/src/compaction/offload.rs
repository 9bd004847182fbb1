//! The contract for executors of merge tasks: a processor here, or an accelerator (X-Engine,
//! section 3.3.2, "FPGA offloading").
//!
//! A [`MergeTask`] is a few hundred kilobytes of blocks and everything else that the merge needs:
//! which entries of which blocks, and which versions to drop. Tasks do not depend on each other, or
//! on tables, extents or files, so they may run anywhere, in any order and number. The results are
//! blocks as [`crate::block`] describes them.
//!
//! - **A1.** The result is a function of the task: its bytes equal those that [`Cpu`] makes of it.
//! - **A2.** The results come back in the order of the tasks.
//! - **A3.** An accelerator that fails returns an error and has no other effect. [`Cpu`] then does
//!   the work.
//!
//! [`Checked`] runs two executors and compares their results, byte by byte. If one refuses several
//! tasks together, it gets them again one by one, which shows the tasks that it does not do.

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

    /// Which of the block's entries it is.
    #[must_use]
    pub fn entries(&self) -> Range<usize> {
        self.entries.clone()
    }
}

/// A merge that can be done by itself.
pub struct MergeTask {
    /// Of each source, the newest first, its pieces in key order.
    pub(crate) sources: Vec<Vec<Piece>>,
    pub(crate) block_bytes: usize,
}

impl MergeTask {
    /// Bytes that a block of the outcome has in memory, its nodes included, when it is full.
    #[must_use]
    pub fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// Of each source, the newest first, its pieces in key order.
    #[must_use]
    pub fn sources(&self) -> &[Vec<Piece>] {
        &self.sources
    }

    /// The first and the last of its keys; nothing for a task without any.
    pub(crate) fn keys(&self) -> (&[u8], &[u8]) {
        let pieces = || self.sources.iter().flatten().filter(|piece| !piece.entries.is_empty());
        let first = pieces().map(|piece| piece.block.entry(piece.entries.start).key).min();
        let last = pieces().map(|piece| piece.block.entry(piece.entries.end - 1).key).max();
        (first.unwrap_or_default(), last.unwrap_or_default())
    }

    /// Bytes of its entries, about.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let share = |piece: &Piece| {
            (piece.block.body().len() * piece.entries.len() / piece.block.len()) as u64
        };
        self.sources.iter().flatten().map(share).sum()
    }
}

/// Something that carries out merges.
pub trait Accelerator: Send + Sync {
    /// How many tasks it wants at once, at least one.
    fn batch(&self) -> usize;

    /// Whether what it does not refuse was done in two ways, which agree.
    fn compares(&self) -> bool {
        false
    }

    /// Merges each task into blocks.
    ///
    /// # Errors
    /// Whatever kept it from that; nothing was done then (A3).
    fn merge(&self, tasks: &[MergeTask], rule: &DropRule<'_>) -> Result<Vec<Vec<BuiltBlock>>>;
}

/// The processor that asks: what all others are measured by.
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

/// Two that must agree: the outcome is the first one's.
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
struct Reader<'a> {
    /// How many sources are newer.
    rank: usize,
    pieces: std::slice::Iter<'a, Piece>,
    block: &'a Block,
    rest: Range<usize>,
    entry: Entry<'a>,
}

impl<'a> Reader<'a> {
    fn new(rank: usize, pieces: &'a [Piece]) -> Option<Reader<'a>> {
        let mut pieces = pieces.iter();
        let (block, rest, entry) = next_piece(&mut pieces)?;
        Some(Reader { rank, pieces, block, rest, entry })
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

/// By key, and of one key the newest first: by commit, and of one commit by source. A memtable may
/// be switched in the midst of a batch that changes a key twice (E1).
fn order(a: (&Entry<'_>, usize), b: (&Entry<'_>, usize)) -> Ordering {
    let by_version = a.0.key.cmp(b.0.key).then(b.0.csn.cmp(&a.0.csn));
    by_version.then(a.1.cmp(&b.1))
}

fn merge(task: &MergeTask, rule: &DropRule<'_>) -> Vec<BuiltBlock> {
    let mut writer = BlockWriter::new(task.block_bytes);
    let mut sieve = Sieve::new(rule);
    let sources = task.sources.iter().enumerate();
    let mut readers: Vec<Reader<'_>> =
        sources.filter_map(|(rank, pieces)| Reader::new(rank, pieces)).collect();
    // Always the reader with the next entry first: sorted once, and mended by moving one reader up
    // its place.
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
            let later = |other: &Reader<'_>| order(other.at(), first.at()).is_lt();
            let place = others.iter().take_while(|other| later(other)).count();
            readers[..=place].rotate_left(1);
        } else {
            readers.remove(0);
        }
    }
    writer.finish()
}
