//! A scan's source over a run of slices.
//!
//! Within a block, a source knows the first and last entry inside its range, so it does not compare
//! each key with the range. It also knows whether each key between these two entries has only one
//! version, and the snapshot sees all of these versions. If so, a step moves to the next entry, in
//! either direction.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use spillway_base::engine::Access;
use spillway_base::range::successor;
use spillway_base::{Csn, Direction, KeyRange, Result};

use super::readahead::ScanReadahead;
use super::{LENT_FIRST, LENT_MAX, OwnedRange, is_before};
use crate::block::{Entry, EntryPosition};
use crate::cache::Kept;
use crate::extent::{CachedBlock, CachedTable, Resident};
use crate::level::Run;
use crate::tombstone_skip::Gap;

/// The position of a run's source: a slice, a block of its extent, and an entry of the block.
#[derive(Clone)]
struct RunPosition {
    slice: usize,
    block: usize,
    entry: usize,
    row: EntryPosition,
    /// The block's entries that are inside of the bounds, as far as the end in the direction is
    /// concerned.
    inside: Range<usize>,
    /// Whether each key has only one version, and the snapshot sees it.
    is_plain: bool,
    /// Whether the previous block has versions of the first key.
    is_begun: bool,
    data: Kept<CachedBlock>,
}

/// The block in which a bound was searched: its slice, its extent's table, and its number there.
type Sought = (usize, Kept<CachedTable>, usize);

/// A bound of the first row, before a block is read.
enum Near {
    /// There is no row.
    Nothing,
    /// The first or last key of a slice.
    Slice,
    /// A bound in this block.
    Block(Sought),
}

impl RunPosition {
    #[inline]
    fn key(&self) -> &[u8] {
        self.data.key_of(&self.row)
    }

    /// The position at another entry of the block.
    fn at(mut self, entry: usize) -> RunPosition {
        self.entry = entry;
        self.row = self.data.row(entry);
        self
    }

    /// The position at the entry with which a walk in a direction begins.
    fn begin(self, entry: usize, direction: Direction) -> RunPosition {
        self.data.expect_rows(entry, direction);
        self.at(entry)
    }

    /// Whether the current block shows that nothing inside the bounds is after it.
    #[inline]
    fn is_last(&self, direction: Direction) -> bool {
        match direction {
            Direction::Forward => {
                self.entry + 1 >= self.inside.end && self.inside.end < self.data.len()
            }
            Direction::Backward => self.entry <= self.inside.start && self.inside.start > 0,
        }
    }

    /// Moves to the next key's newest visible version, if the current block determines it.
    #[inline]
    fn step(&mut self, direction: Direction, snapshot: Csn, values_only: bool) -> bool {
        if !self.is_plain {
            let found = match direction {
                Direction::Forward => self.newer_forward(snapshot),
                Direction::Backward => self.newer_backward(snapshot),
            };
            return found.is_some_and(|(entry, row)| self.go_to(entry, row, values_only));
        }
        match direction {
            Direction::Forward => {
                let next = self.entry + 1;
                next < self.inside.end
                    && self.go_to(next, self.data.row_after(&self.row), values_only)
            }
            Direction::Backward => {
                let least = self.inside.start.max(usize::from(self.is_begun));
                self.entry > least
                    && self.go_to(self.entry - 1, self.data.row_before(self.entry), values_only)
            }
        }
    }

    /// Moves to a row, if it is a value or need not be one.
    #[inline(always)]
    fn go_to(&mut self, entry: usize, row: EntryPosition, values_only: bool) -> bool {
        let goes = row.is_value() || !values_only;
        if goes {
            (self.entry, self.row) = (entry, row);
        }
        goes
    }

    fn newer_forward(&self, snapshot: Csn) -> Option<(usize, EntryPosition)> {
        let (key, mut row) = (self.key(), self.row);
        for entry in self.entry + 1..self.inside.end {
            row = self.data.row_after(&row);
            if row.csn() <= snapshot && self.data.key_of(&row) != key {
                return Some((entry, row));
            }
        }
        None
    }

    /// Backwards, versions of a key come oldest first, so the newest visible one is known once
    /// another key is reached. The key at the front of the block may begin in the previous block.
    fn newer_backward(&self, snapshot: Csn) -> Option<(usize, EntryPosition)> {
        let mut best: Option<(usize, EntryPosition)> = None;
        for entry in (self.inside.start..self.entry).rev() {
            let row = self.data.row(entry);
            let key = self.data.key_of(&row);
            if best.is_some_and(|(_, best)| self.data.key_of(&best) != key) {
                break;
            } else if entry == 0 && self.is_begun {
                return None;
            } else if row.csn() <= snapshot && key != self.key() {
                best = Some((entry, row));
            }
        }
        best
    }
}

/// Rows of a run of slices.
pub(crate) struct RunSource {
    run: Arc<Run>,
    bounds: OwnedRange,
    /// The slice in which or before which the bounds start, if that is known.
    begins: Option<usize>,
    direction: Direction,
    snapshot: Csn,
    at: Option<RunPosition>,
    ended: bool,
    /// While it does not stand on a row: a key that no row of it is before, in its direction.
    bound: Vec<u8>,
    /// The block with the start or the end of the bounds, if it was searched.
    sought: Option<Sought>,
    /// The rows that it was extended over.
    lent: Lent,
    /// The most rows of the next extension over entries that are checked one by one.
    lent_max: usize,
    ahead: RefCell<ScanReadahead>,
}

/// Rows of a block, lent together.
enum Lent {
    /// Consecutive entries, from this one on in the direction.
    Beside(usize),
    /// These entries.
    Each(Vec<EntryPosition>),
}

/// The block with the last row below an end, if the slice begins below the end. `block` is the
/// first of its blocks that ends at or after the end.
fn before_end(table: &Resident, blocks: &Range<usize>, block: usize, end: &[u8]) -> usize {
    let begins_behind = block > blocks.start && end <= table.first(block);
    block - usize::from(begins_behind)
}

/// The rows that are compared with the limit before the limit is searched for in the block.
const COMPARED: usize = 2;

impl RunSource {
    /// The rows of a run inside of the bounds. Their start is in the slice `begins` or before it,
    /// and in no earlier slice.
    pub(crate) fn new(
        run: Arc<Run>,
        begins: usize,
        bounds: OwnedRange,
        direction: Direction,
        snapshot: Csn,
    ) -> RunSource {
        let ahead = RefCell::new(ScanReadahead::new(direction));
        RunSource {
            run,
            begins: Some(begins),
            bounds,
            direction,
            snapshot,
            at: None,
            ended: false,
            bound: Vec::new(),
            sought: None,
            lent: Lent::Beside(0),
            lent_max: LENT_FIRST,
            ahead,
        }
    }

    #[inline]
    pub(super) fn entry(&self) -> Entry<'_> {
        let at = self.at.as_ref().expect("the source stands on a row");
        at.data.entry_of(&at.row)
    }

    /// The key by which it is compared.
    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        self.at.as_ref().map_or(&self.bound, RunPosition::key)
    }

    #[inline]
    pub(super) fn value(&self) -> Option<&[u8]> {
        self.at.as_ref().and_then(|at| at.data.value_of(&at.row))
    }

    #[inline]
    pub(super) fn key_and_csn(&self) -> (&[u8], Csn) {
        match &self.at {
            Some(at) => (at.key(), at.row.csn()),
            None => (&self.bound, Csn::MAX),
        }
    }

    #[inline]
    pub(super) fn is_on_row(&self) -> bool {
        self.at.is_some()
    }

    #[inline]
    pub(super) fn is_on_value(&self) -> bool {
        self.at.as_ref().is_some_and(|at| at.row.is_value())
    }

    /// Moves as near to the first row as it can without reading a block (SOURCE-1, SOURCE-2).
    /// Returns `false` if there is none.
    pub(super) fn approach(&mut self, access: Access) -> Result<bool> {
        debug_assert!(self.at.is_none(), "a source approaches before it stands");
        let mut bound = std::mem::take(&mut self.bound);
        bound.clear();
        let near = match self.direction {
            Direction::Forward => self.least(access, &mut bound),
            Direction::Backward => self.greatest(access, &mut bound),
        };
        self.bound = bound;
        let is_there = match near? {
            Near::Nothing => false,
            Near::Slice => true,
            Near::Block((slice, table, block)) => {
                let extent = &self.run.slices().at(slice).extent;
                extent.expect_block(&table, block, &extent.cache().pin());
                self.sought = Some((slice, table, block));
                true
            }
        };
        self.ended |= !is_there || !self.bounds.reaches(&self.bound, self.direction);
        Ok(!self.ended)
    }

    /// Prefetches what the step to the first row reads first. The source has approached that row.
    pub(super) fn expect(&self) {
        if let Some((slice, table, block)) = &self.sought {
            let extent = &self.run.slices().at(*slice).extent;
            extent.prefetch_block(table, *block, &extent.cache().pin());
        }
    }

    /// A lower bound of the rows from the start on.
    fn least(&self, access: Access, bound: &mut Vec<u8>) -> Result<Near> {
        let start = self.bounds.start();
        let at = self.begins();
        let Some(slice) = self.run.slices().get(at) else { return Ok(Near::Nothing) };
        if *start <= *slice.meta.smallest {
            bound.extend_from_slice(&slice.meta.smallest);
            return Ok(Near::Slice);
        }
        let table = slice.extent.resident(access)?;
        let blocks = slice.meta.block_range();
        // The slice ends at or after the start, and so does one of its blocks.
        let block = table.seek(blocks.clone(), start).min(blocks.end - 1);
        match table.range_filter(block) {
            _ if start <= table.first(block) => bound.extend_from_slice(table.first(block)),
            Some(range) => range.least_from(start, bound),
            None => bound.extend_from_slice(start),
        }
        Ok(Near::Block((at, table, block)))
    }

    /// An upper bound, included, of the rows below the end.
    fn greatest(&self, access: Access, bound: &mut Vec<u8>) -> Result<Near> {
        let slices = self.run.slices();
        let end = self.bounds.end();
        let at = end.map_or(slices.len(), |end| self.run.seek(end));
        let Some((end, slice)) =
            end.zip(slices.get(at)).filter(|(end, slice)| *slice.meta.smallest < **end)
        else {
            let before = at.checked_sub(1).and_then(|before| slices.get(before));
            bound.extend(before.iter().flat_map(|slice| &*slice.meta.largest));
            return Ok(if before.is_some() { Near::Slice } else { Near::Nothing });
        };
        let table = slice.extent.resident(access)?;
        let blocks = slice.meta.block_range();
        // The slice ends at or after the end, and so does one of its blocks.
        let block = table.seek(blocks.clone(), end).min(blocks.end - 1);
        let block = before_end(&table, &blocks, block, end);
        match table.range_filter(block) {
            _ if table.last(block) < end => bound.extend_from_slice(table.last(block)),
            Some(range) => range.past_before(end, bound),
            None => bound.extend_from_slice(end),
        }
        Ok(Near::Block((at, table, block)))
    }

    pub(super) fn start(&self) -> &[u8] {
        self.bounds.start()
    }

    pub(super) fn leap_hidden(&mut self, hidden: KeyRange<'_>, upto: Csn) -> bool {
        let Some(at) = &self.at else { return false };
        let slice = &self.run.slices().at(at.slice).meta;
        let bounds = if self.run.csn_max() <= upto {
            self.bounds.past(hidden, self.direction)
        } else if slice.counts.csn_max <= upto {
            let end = successor(&slice.largest);
            let of_slice = KeyRange::new(&slice.smallest, Some(&end));
            self.bounds.past(hidden.intersection(of_slice), self.direction)
        } else {
            return false;
        };
        self.go_to(bounds);
        true
    }

    pub(super) fn leap(&mut self, gap: &Gap) {
        self.go_to(self.bounds.behind(gap, self.direction));
    }

    fn go_to(&mut self, bounds: OwnedRange) {
        self.bounds = bounds;
        self.begins = None;
        self.at = None;
        self.sought = None;
        self.ahead = RefCell::new(ScanReadahead::new(self.direction));
        self.ended |= self.bounds.range().is_empty();
    }

    #[inline]
    pub(super) fn advance_near(&mut self) -> bool {
        let (direction, snapshot) = (self.direction, self.snapshot);
        self.at.as_mut().is_some_and(|at| at.step(direction, snapshot, true))
    }

    /// As [`super::Source::extend`], within the current block. If each entry of the block is a row,
    /// only the end of the rows is searched, and no row is read.
    pub(super) fn extend(&mut self, before: Option<&[u8]>, most: usize) -> usize {
        let (direction, snapshot) = (self.direction, self.snapshot);
        let Some(at) = &mut self.at else { return 1 };
        if !at.is_plain || !at.data.all_values() {
            let mut rows = match std::mem::replace(&mut self.lent, Lent::Beside(0)) {
                Lent::Each(rows) => rows,
                Lent::Beside(_) => Vec::new(),
            };
            let most = most.min(self.lent_max);
            self.lent_max = (4 * self.lent_max).min(LENT_MAX);
            rows.clear();
            rows.push(at.row);
            while rows.len() < most {
                let (entry, row) = (at.entry, at.row);
                if !at.step(direction, snapshot, true) {
                    break;
                }
                if !is_before(at.key(), before, direction) {
                    (at.entry, at.row) = (entry, row);
                    break;
                }
                rows.push(at.row);
            }
            let count = rows.len();
            self.lent = Lent::Each(rows);
            #[cfg(test)]
            super::met::lend(super::met::Of::Each, direction, before, count);
            return count;
        }
        let first = at.entry;
        let count = match direction {
            Direction::Forward => at.inside.end - first,
            // The previous block decides the newest version of a key that begins there.
            Direction::Backward => {
                (first + 1).saturating_sub(at.inside.start.max(usize::from(at.is_begun)))
            }
        };
        let mut count = count.clamp(1, most);
        if let Some(before) = before {
            let entry = |past: usize| match direction {
                Direction::Forward => first + past,
                Direction::Backward => first - past,
            };
            let is_far =
                |past: usize| is_before(at.data.entry(entry(past)).key, Some(before), direction);
            count = match (1..count.min(1 + COMPARED)).find(|past| !is_far(*past)) {
                Some(near) => near,
                None if count <= 1 + COMPARED => count,
                None => {
                    #[cfg(test)]
                    super::met::lend(super::met::Of::Sought, direction, Some(before), count);
                    let sought = at.data.seek(before);
                    let rows = match direction {
                        Direction::Forward => sought - first,
                        Direction::Backward => {
                            let is_there = sought <= first && at.data.entry(sought).key == before;
                            #[cfg(test)]
                            super::met::lend(
                                super::met::Of::There,
                                direction,
                                is_there.then_some(before),
                                count,
                            );
                            first + 1 - sought - usize::from(is_there)
                        }
                    };
                    rows.min(count)
                }
            };
        }
        self.lent = Lent::Beside(first);
        #[cfg(test)]
        super::met::lend(super::met::Of::Beside, direction, before, count);
        if count > 1 {
            at.entry = match direction {
                Direction::Forward => first + count - 1,
                Direction::Backward => first + 1 - count,
            };
            at.row = at.data.row(at.entry);
        }
        count
    }

    pub(super) fn rows(&self, count: usize, take: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        let Some(at) = &self.at else { return };
        let mut give = |row: &EntryPosition| {
            let Entry { key, value, .. } = at.data.entry_of(row);
            take(key, value.unwrap_or_default())
        };
        match (&self.lent, self.direction) {
            (Lent::Each(rows), _) => {
                let _ = rows.iter().all(give);
            }
            (Lent::Beside(first), Direction::Forward) => {
                at.data.each_from(*first, count, take);
            }
            (Lent::Beside(first), Direction::Backward) => {
                let mut entries = (first + 1 - count..=*first).rev();
                let _ = entries.all(|entry| give(&at.data.row_before(entry + 1)));
            }
        }
    }

    pub(super) fn advance(&mut self, access: Access) -> Result<bool> {
        if self.ended {
            return Ok(false);
        }
        let (direction, snapshot) = (self.direction, self.snapshot);
        if let Some(at) = &mut self.at {
            if at.step(direction, snapshot, false) {
                return Ok(true);
            }
            if at.is_last(direction) {
                (self.at, self.ended) = (None, true);
                return Ok(false);
            }
        }
        self.at = match self.direction {
            Direction::Forward => self.forward(access)?,
            Direction::Backward => self.backward(access)?,
        };
        self.ended = self.at.is_none();
        Ok(!self.ended)
    }

    /// The first slice that could hold the start of the bounds, or keys after it.
    fn begins(&self) -> usize {
        self.begins.unwrap_or_else(|| self.run.seek(self.bounds.start()))
    }

    /// The position in a block of a slice, which `block` finds among the slice's blocks. `None` if
    /// there is none, or if the index shows that it is past the bounds: a block that is not needed
    /// must not be read, because it may be damaged.
    fn open(
        &self,
        slice: usize,
        block: impl Fn(&Resident, Range<usize>) -> usize,
        access: Access,
    ) -> Result<Option<RunPosition>> {
        let Some(there) = self.run.slices().get(slice) else { return Ok(None) };
        if self.is_past(&there.meta.smallest, &there.meta.largest) {
            return Ok(None);
        }
        let (extent, blocks) = (&there.extent, there.meta.block_range());
        let is_there = |table: &Resident, index: usize| {
            blocks.contains(&index) && !self.is_past(table.first(index), table.last(index))
        };
        let pin = extent.cache().pin();
        if let Some(table) = extent.table(&pin) {
            // Usually everything is in memory. Then one pin is enough, and the table's reference
            // count is not changed.
            let index = block(table, blocks.clone());
            if !is_there(table, index) {
                return Ok(None);
            }
            if let Some(data) = extent.block_to_keep(table, index, &pin) {
                self.ahead.borrow_mut().pass();
                return Ok(Some(self.stand((slice, table, index), data)));
            }
        }
        drop(pin);
        let table = extent.resident(access)?;
        let index = block(&table, blocks.clone());
        if !is_there(&table, index) {
            return Ok(None);
        }
        self.read(&(slice, table, index), access).map(Some)
    }

    /// Whether all keys from one to another lie after the bounds, in the direction.
    fn is_past(&self, smallest: &[u8], largest: &[u8]) -> bool {
        match self.direction {
            Direction::Forward => self.bounds.end().is_some_and(|end| end <= smallest),
            Direction::Backward => largest < self.bounds.start(),
        }
    }

    fn read(&self, (slice, table, block): &Sought, access: Access) -> Result<RunPosition> {
        let extent = &self.run.slices().at(*slice).extent;
        let data = match extent.block_now(table, *block) {
            Some(data) => {
                self.ahead.borrow_mut().pass();
                data
            }
            None => self.ahead.borrow_mut().fetch(extent, table, *block, access)?,
        };
        Ok(self.stand((*slice, table, *block), data))
    }

    /// The position in the block of a slice where a bound is, which is remembered.
    fn seek(
        &self,
        slice: impl FnOnce() -> usize,
        block: impl Fn(&Resident, Range<usize>) -> usize,
        access: Access,
    ) -> Result<Option<RunPosition>> {
        let found = match &self.sought {
            Some(sought) => Some(self.read(sought, access)?),
            None => self.open(slice(), block, access)?,
        };
        if let Some(at) = &found {
            // Only the block at which a scan begins counts as read. Blocks that the scan passes
            // should not become hot by it.
            self.run.slices().at(at.slice).extent.note_read(at.block);
        }
        Ok(found)
    }

    /// Called at each block that a step reaches: reads blocks ahead, if the scan has shown that it
    /// needs them.
    fn go_on(&self, at: &RunPosition, access: Access) {
        let mut ahead = self.ahead.borrow_mut();
        let extent = &self.run.slices().at(at.slice).extent;
        let direct = extent.context().is_some_and(|context| context.reads_directly());
        if access == Access::Blocking
            && ahead.is_worth_it(direct)
            && let Some(table) = extent.resident_now()
        {
            ahead.fill(&self.run, &self.bounds, (at.slice, at.block), &table);
        }
    }

    /// The position at the first entry of a block of a slice.
    fn stand(
        &self,
        (slice, table, block): (usize, &CachedTable, usize),
        data: Kept<CachedBlock>,
    ) -> RunPosition {
        let mut inside = 0..data.len();
        match (self.direction, self.bounds.end()) {
            (Direction::Forward, Some(end)) if table.last(block) >= end => {
                inside.end = data.seek(end);
            }
            (Direction::Backward, _) if table.first(block) < self.bounds.start() => {
                inside.start = data.seek(self.bounds.start());
            }
            _ => {}
        }
        let begins = self.run.slices().at(slice).meta.block_range().start == block;
        RunPosition {
            slice,
            block,
            entry: 0,
            row: data.row(0),
            inside,
            is_plain: data.is_plain_at(self.snapshot),
            is_begun: !begins && table.goes_on(block - 1),
            data,
        }
    }

    /// The position after one in key order, in this block, the next, or the next slice; `None`
    /// outside of the bounds.
    fn after(&self, at: RunPosition, access: Access) -> Result<Option<RunPosition>> {
        let next = at.entry + 1;
        if next < at.inside.end {
            return Ok(Some(at.at(next)));
        }
        if at.inside.end < at.data.len() {
            return Ok(None);
        }
        let next = match self.open(at.slice, |_, _| at.block + 1, access)? {
            Some(next) => Some(next),
            None => self.open(at.slice + 1, |_, blocks| blocks.start, access)?,
        };
        let Some(next) = next else { return Ok(None) };
        self.go_on(&next, access);
        let is_inside = !next.inside.is_empty();
        Ok(is_inside.then(|| next.begin(0, Direction::Forward)))
    }

    /// The position before one in key order.
    fn before(&self, at: RunPosition, access: Access) -> Result<Option<RunPosition>> {
        if at.entry > at.inside.start {
            let before = at.entry - 1;
            return Ok(Some(at.at(before)));
        }
        if at.inside.start > 0 {
            return Ok(None);
        }
        let begins = self.run.slices().at(at.slice).meta.block_range().start == at.block;
        let next = match (begins, at.slice.checked_sub(1)) {
            (false, _) => self.open(at.slice, |_, _| at.block - 1, access)?,
            (true, Some(slice)) => self.open(slice, |_, blocks| blocks.end - 1, access)?,
            (true, None) => None,
        };
        let Some(next) = next else { return Ok(None) };
        self.go_on(&next, access);
        Ok(Self::last_of(next))
    }

    /// The position at the last entry of a block, if it is inside of the bounds.
    fn last_of(at: RunPosition) -> Option<RunPosition> {
        let last = at.data.len() - 1;
        at.inside.contains(&last).then(|| at.begin(last, Direction::Backward))
    }

    fn first(&self, access: Access) -> Result<Option<RunPosition>> {
        let start = self.bounds.start();
        let block = |table: &Resident, blocks| table.seek(blocks, start);
        let Some(at) = self.seek(|| self.begins(), block, access)? else { return Ok(None) };
        match at.data.seek(start) {
            entry if entry < at.inside.end => Ok(Some(at.begin(entry, Direction::Forward))),
            // The whole block is before the range, although the index could not exclude it.
            entry if entry == at.data.len() => {
                let last = entry - 1;
                self.after(at.at(last), access)
            }
            _ => Ok(None),
        }
    }

    fn last(&self, access: Access) -> Result<Option<RunPosition>> {
        let slices = self.run.slices();
        let behind = self.bounds.end().map_or(slices.len(), |end| self.run.seek(end));
        // The position of the first entry at or past the end, then one back.
        if let Some(end) = self.bounds.end()
            && slices.get(behind).is_some_and(|slice| *slice.meta.smallest < *end)
        {
            let block = |table: &Resident, blocks: Range<usize>| {
                let block = table.seek(blocks.clone(), end).min(blocks.end - 1);
                before_end(table, &blocks, block, end)
            };
            let Some(mut at) = self.seek(|| behind, block, access)? else { return Ok(None) };
            at.entry = at.data.seek(end);
            at.data.expect_rows(at.entry, Direction::Backward);
            return self.before(at, access);
        }
        let Some(slice) = behind.checked_sub(1) else { return Ok(None) };
        let found = self.seek(|| slice, |_, blocks| blocks.end - 1, access)?;
        Ok(found.and_then(Self::last_of))
    }

    /// The next key's newest visible version, ascending.
    fn forward(&self, access: Access) -> Result<Option<RunPosition>> {
        let mut at = match &self.at {
            None => self.first(access)?,
            Some(at) => self.after(at.clone(), access)?,
        };
        // Versions of a key come newest first: the ones after the visible one are older.
        while let Some(standing) = at {
            let passed = self.at.as_ref().is_some_and(|old| old.key() == standing.key());
            if !passed && standing.row.csn() <= self.snapshot {
                return Ok(Some(standing));
            }
            at = self.after(standing, access)?;
        }
        Ok(None)
    }

    /// The next key's newest visible version, descending.
    fn backward(&self, access: Access) -> Result<Option<RunPosition>> {
        let mut at = match &self.at {
            None => self.last(access)?,
            Some(at) => self.before(at.clone(), access)?,
        };
        // Backwards, versions of a key come oldest first: the last visible one before the key
        // changes is the newest.
        let mut best: Option<RunPosition> = None;
        while let Some(standing) = at {
            let passed = self.at.as_ref().is_some_and(|old| old.key() == standing.key());
            if best.as_ref().is_some_and(|best| best.key() != standing.key()) {
                return Ok(best);
            }
            if !passed && standing.row.csn() <= self.snapshot {
                // If the block shows that nothing newer can come before it, the next block is not
                // read.
                let is_newest = standing.is_plain && (standing.entry > 0 || !standing.is_begun);
                if is_newest {
                    return Ok(Some(standing));
                }
                best = Some(standing.clone());
            }
            at = self.before(standing, access)?;
        }
        Ok(best)
    }
}
