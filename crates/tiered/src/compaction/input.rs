//! The inputs of a flush or compaction, block by block.

use std::sync::Arc;

use spillway_base::{KeyRange, Result};

use super::reader::OpenSlice;
use super::rule::{DropRule, Sieve};
use super::split_points::SplitPoints;
use crate::block::{Block, BlockWriter, BuiltBlock, Entry};
use crate::bulk_io::Bulk;
use crate::extent_meta::Counts;
use crate::level::Slice;
use crate::memtable::{Memtable, TreePlace};

/// The origin of a block's bytes.
#[derive(Clone)]
pub(crate) enum Origin {
    /// An extent, and the block's number in it.
    Extent(OpenSlice, usize),
    /// A memtable. The block was just built from it.
    Memory(Arc<BuiltBlock>, Goes),
}

/// Where the versions of a block's last key are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Goes {
    /// In this block and possibly in blocks before it.
    NoFurther,
    /// In the next block, too.
    On,
}

/// A block of a source, some of whose first entries may have been taken already.
pub(crate) struct Unit {
    pub(crate) origin: Origin,
    /// The decoded block, once its entries were needed.
    pub(crate) block: Option<Arc<Block>>,
    /// The entries before this index were taken.
    pub(crate) from: usize,
}

impl Unit {
    fn new(origin: Origin) -> Unit {
        Unit { origin, block: None, from: 0 }
    }

    pub(crate) fn first(&self) -> &[u8] {
        match (&self.block, &self.origin) {
            (Some(block), _) => block.entry(self.from).key,
            (None, Origin::Extent(open, block)) => open.resident.first(*block),
            (None, Origin::Memory(built, _)) => &built.first,
        }
    }

    pub(crate) fn last(&self) -> &[u8] {
        match &self.origin {
            Origin::Extent(open, block) => open.resident.last(*block),
            Origin::Memory(built, _) => &built.last,
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        match &self.origin {
            Origin::Extent(open, block) => open.resident.counts(*block),
            Origin::Memory(built, _) => built.counts,
        }
    }

    /// Whether the next block has versions of this block's last key, too.
    pub(crate) fn goes_on(&self) -> bool {
        match &self.origin {
            Origin::Extent(open, block) => open.resident.goes_on(*block),
            Origin::Memory(_, goes) => *goes == Goes::On,
        }
    }
}

/// The next piece of a source.
pub(crate) enum Head {
    /// A slice that was not opened yet.
    Slice(Arc<Slice>),
    Unit(Unit),
    End,
}

/// A source.
pub(crate) struct MergeInput<'a> {
    head: Head,
    /// A unit that was given back. It comes before the head.
    returned: Option<Unit>,
    rest: Rest<'a>,
    bulk: Option<Bulk>,
}

enum Rest<'a> {
    Slices { slices: std::vec::IntoIter<Arc<Slice>>, open: Option<(OpenSlice, usize)> },
    Memtable(Box<MemtableBlocks<'a>>),
}

impl<'a> MergeInput<'a> {
    /// Slices in key order.
    pub(crate) fn of_slices(slices: Vec<Arc<Slice>>, bulk: &Bulk) -> MergeInput<'a> {
        bulk.add_source();
        let slices = Rest::Slices { slices: slices.into_iter(), open: None };
        MergeInput::new(slices, Some(bulk.clone()))
    }

    /// The versions of a memtable's keys in a range that the rule keeps, in blocks that end at each
    /// cut (COMPACTION-6).
    pub(crate) fn of_memtable(
        memtable: &'a Memtable,
        range: KeyRange<'a>,
        rule: &'a DropRule<'a>,
        cuts: &'a SplitPoints,
        block_bytes: usize,
    ) -> MergeInput<'a> {
        let blocks = Box::new(MemtableBlocks::new(memtable, range, rule, cuts, block_bytes));
        MergeInput::new(Rest::Memtable(blocks), None)
    }

    fn new(rest: Rest<'a>, bulk: Option<Bulk>) -> MergeInput<'a> {
        let mut supply = MergeInput { head: Head::End, returned: None, rest, bulk };
        supply.advance();
        supply
    }

    /// The smallest key that was not taken yet.
    pub(crate) fn key(&self) -> Option<&[u8]> {
        match (&self.returned, &self.head) {
            (Some(unit), _) | (None, Head::Unit(unit)) => Some(unit.first()),
            (None, Head::Slice(slice)) => Some(&slice.meta.smallest),
            (None, Head::End) => None,
        }
    }

    /// The next slice, if it was not opened.
    pub(crate) fn slice(&self) -> Option<&Arc<Slice>> {
        match (&self.returned, &self.head) {
            (None, Head::Slice(slice)) => Some(slice),
            _ => None,
        }
    }

    /// The next block, if nothing of it was taken.
    pub(crate) fn whole_unit(&self) -> Option<&Unit> {
        match (&self.returned, &self.head) {
            (None, Head::Unit(unit)) => Some(unit),
            _ => None,
        }
    }

    /// Takes the next slice.
    pub(crate) fn take_slice(&mut self) -> Option<Arc<Slice>> {
        let slice = self.slice()?.clone();
        self.advance();
        Some(slice)
    }

    /// Takes the next block.
    pub(crate) fn take_unit(&mut self) -> Option<Unit> {
        if let Some(unit) = self.returned.take() {
            return Some(unit);
        }
        if !matches!(self.head, Head::Unit(_)) {
            return None;
        }
        match std::mem::replace(&mut self.head, Head::End) {
            Head::Unit(unit) => {
                self.advance();
                Some(unit)
            }
            Head::Slice(_) | Head::End => None,
        }
    }

    /// Gives back the block that was taken last.
    pub(crate) fn give_back(&mut self, unit: Unit) {
        debug_assert!(self.returned.is_none());
        self.returned = Some(unit);
    }

    /// Opens the next slice.
    ///
    /// # Errors
    /// As [`crate::extent::ExtentHandle::resident`].
    pub(crate) fn open(&mut self) -> Result<()> {
        let (Head::Slice(slice), Some(bulk)) = (&self.head, &self.bulk) else { return Ok(()) };
        let first = slice.meta.block_range().start;
        let opened = OpenSlice::new(slice.clone(), bulk)?;
        if let Rest::Slices { open, .. } = &mut self.rest {
            *open = Some((opened, first));
        }
        self.advance();
        Ok(())
    }

    fn advance(&mut self) {
        self.head = match &mut self.rest {
            Rest::Slices { slices, open } => match open {
                Some((slice, next)) => {
                    let unit = Unit::new(Origin::Extent(slice.clone(), *next));
                    *next += 1;
                    if *next == slice.slice.meta.block_range().end {
                        *open = None;
                    }
                    Head::Unit(unit)
                }
                None => slices.next().map_or(Head::End, Head::Slice),
            },
            Rest::Memtable(blocks) => blocks.next().map_or(Head::End, |(built, goes)| {
                Head::Unit(Unit::new(Origin::Memory(Arc::new(built), goes)))
            }),
        };
    }

    /// The entries of a unit.
    ///
    /// # Errors
    /// As [`crate::extent::ExtentHandle::read_block`].
    pub(crate) fn decode(unit: &mut Unit) -> Result<Arc<Block>> {
        if let Some(block) = &unit.block {
            return Ok(block.clone());
        }
        let block = match &unit.origin {
            Origin::Extent(open, index) => open.frame(*index, |frame| {
                open.slice.extent.open_block(&open.resident, *index, frame)
            })?,
            Origin::Memory(built, _) => Block::of_built(&built.frame)?,
        };
        Ok(unit.block.insert(Arc::new(block)).clone())
    }
}

/// The rest of a memtable, in blocks.
struct MemtableBlocks<'a> {
    memtable: &'a Memtable,
    range: KeyRange<'a>,
    place: Option<TreePlace>,
    sieve: Sieve<'a>,
    cuts: &'a SplitPoints,
    /// The number of cuts before the last key.
    cuts_before: usize,
    writer: BlockWriter,
    ready: std::collections::VecDeque<BuiltBlock>,
}

impl<'a> MemtableBlocks<'a> {
    fn new(
        memtable: &'a Memtable,
        range: KeyRange<'a>,
        rule: &'a DropRule<'a>,
        cuts: &'a SplitPoints,
        block_bytes: usize,
    ) -> MemtableBlocks<'a> {
        MemtableBlocks {
            memtable,
            range,
            place: Some(memtable.seek(range.start)),
            sieve: Sieve::new(rule),
            cuts,
            cuts_before: 0,
            writer: BlockWriter::new(block_bytes),
            ready: std::collections::VecDeque::new(),
        }
    }

    /// The next block. It is returned only when the block after it is known, because that may
    /// continue its last key.
    fn next(&mut self) -> Option<(BuiltBlock, Goes)> {
        while let Some(place) = self.place.filter(|_| self.ready.len() < 2) {
            match self.memtable.key(place).filter(|key| self.range.contains(key)) {
                Some(key) => {
                    let cuts_before = self.cuts.before_key(key);
                    if std::mem::replace(&mut self.cuts_before, cuts_before) != cuts_before {
                        self.ready.extend(self.writer.finish());
                    }
                    for version in self.memtable.versions(place) {
                        let entry = Entry { key, csn: version.csn, value: version.value };
                        self.sieve.pass(&entry, &mut self.writer);
                    }
                    self.ready.extend(self.writer.ready());
                    self.place = Some(self.memtable.after(place));
                }
                None => {
                    self.ready.extend(self.writer.finish());
                    self.place = None;
                }
            }
        }
        let block = self.ready.pop_front()?;
        let goes_on = self.ready.front().is_some_and(|next| next.first == block.last);
        Some((block, if goes_on { Goes::On } else { Goes::NoFurther }))
    }
}
