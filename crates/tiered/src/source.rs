//! Where a read's rows come from: a memtable, or a run of extents, each seen at one snapshot.
//!
//! A source gives of each key in its range the newest version at or below the snapshot, tombstones included, in key order
//! of one direction. It can be asked again after [`spillway_base::ErrorKind::WouldBlock`]: until a step succeeds, it
//! stands where it stood.

use std::ops::Range;
use std::sync::Arc;

use spillway_base::engine::Access;
use spillway_base::{Csn, Direction, KeyRange, Result};

use crate::block::Entry;
use crate::extent::{CachedBlock, CachedTable, Resident};
use crate::gaps::Gap;
use crate::level::Run;
use crate::memtable::{Memtable, Place};

/// A range with an owned form, for what outlives its caller.
#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    pub(crate) start: Box<[u8]>,
    pub(crate) end: Option<Box<[u8]>>,
}

impl Bounds {
    fn range(&self) -> KeyRange<'_> {
        KeyRange::new(&self.start, self.end.as_deref())
    }

    fn contains(&self, key: &[u8]) -> bool {
        self.range().contains(key)
    }

    fn leap(&mut self, gap: &Gap, direction: Direction) {
        let left = gap.leave(self.range(), direction);
        let (start, end) = (left.start.into(), left.end.map(Into::into));
        *self = Bounds { start, end };
    }
}

/// A source of rows.
pub(crate) enum Source {
    Memtable(MemtableSource),
    Run(RunSource),
}

impl Source {
    /// Steps to the next row; `false` past the last.
    pub(crate) fn advance(&mut self, access: Access) -> Result<bool> {
        match self {
            Source::Memtable(source) => Ok(source.advance()),
            Source::Run(source) => source.advance(access),
        }
    }

    /// The row the source stands on, after `advance` answered `true`.
    pub(crate) fn entry(&self) -> Entry<'_> {
        match self {
            Source::Memtable(source) => source.entry(),
            Source::Run(source) => source.entry(),
        }
    }

    /// Where its rows were to begin, or begin since the last leap.
    pub(crate) fn start(&self) -> &[u8] {
        match self {
            Source::Memtable(source) => &source.bounds.start,
            Source::Run(source) => &source.bounds.start,
        }
    }

    /// Goes on behind a gap, in which it stands or which is ahead of it: the next step is to the first row there.
    pub(crate) fn leap(&mut self, gap: &Gap) {
        match self {
            Source::Memtable(source) => {
                source.bounds.leap(gap, source.direction);
                source.place = None;
            }
            Source::Run(source) => {
                source.bounds.leap(gap, source.direction);
                source.at = None;
                source.ended |= source.bounds.range().is_empty();
            }
        }
    }
}

/// Rows of a memtable.
pub(crate) struct MemtableSource {
    memtable: Arc<Memtable>,
    bounds: Bounds,
    direction: Direction,
    snapshot: Csn,
    place: Option<Place>,
}

impl MemtableSource {
    pub(crate) fn new(
        memtable: Arc<Memtable>,
        bounds: Bounds,
        direction: Direction,
        snapshot: Csn,
    ) -> MemtableSource {
        MemtableSource { memtable, bounds, direction, snapshot, place: None }
    }

    fn step(&self) -> Place {
        match (self.direction, self.place) {
            (Direction::Forward, None) => self.memtable.seek(&self.bounds.start),
            (Direction::Forward, Some(place)) => self.memtable.after(place),
            (Direction::Backward, None) => self.memtable.seek_before(self.bounds.end.as_deref()),
            (Direction::Backward, Some(place)) => self.memtable.before(place),
        }
    }

    fn advance(&mut self) -> bool {
        loop {
            let place = self.step();
            self.place = Some(place);
            match self.memtable.key(place) {
                Some(key) if self.bounds.contains(key) => {}
                _ => return false,
            }
            if self.memtable.visible(place, self.snapshot).is_some() {
                return true;
            }
        }
    }

    fn entry(&self) -> Entry<'_> {
        let row = self.place.and_then(|place| {
            let version = self.memtable.visible(place, self.snapshot)?;
            let key = self.memtable.key(place)?;
            Some(Entry { key, csn: version.csn, value: version.value })
        });
        row.expect("the source stands on a row")
    }
}

/// Where a run's source stands: a slice, a block of its extent, and an entry of that.
struct Standing {
    slice: usize,
    block: usize,
    entry: usize,
    resident: Arc<CachedTable>,
    data: Arc<CachedBlock>,
}

impl Standing {
    /// The entry of the next key's newest visible version, if the block at hand tells.
    fn step(&self, direction: Direction, snapshot: Csn) -> Option<usize> {
        let key = self.data.entry(self.entry).key;
        if direction == Direction::Forward {
            return (self.entry + 1..self.data.len()).find(|&index| {
                let entry = self.data.entry(index);
                entry.csn <= snapshot && entry.key != key
            });
        }
        // Backwards, versions of a key come oldest first: the newest visible one is known once another key is
        // met. The key at the front of the block may have begun in the block before.
        let mut best: Option<(usize, &[u8])> = None;
        for index in (0..self.entry).rev() {
            let entry = self.data.entry(index);
            if best.is_some_and(|(_, key)| key != entry.key) {
                break;
            } else if index == 0 {
                return None;
            } else if entry.csn <= snapshot && entry.key != key {
                best = Some((index, entry.key));
            }
        }
        best.map(|(index, _)| index)
    }
}

/// Rows of a run of slices.
pub(crate) struct RunSource {
    run: Arc<Run>,
    bounds: Bounds,
    direction: Direction,
    snapshot: Csn,
    at: Option<Standing>,
    ended: bool,
}

impl RunSource {
    pub(crate) fn new(
        run: Arc<Run>,
        bounds: Bounds,
        direction: Direction,
        snapshot: Csn,
    ) -> RunSource {
        RunSource { run, bounds, direction, snapshot, at: None, ended: false }
    }

    fn entry(&self) -> Entry<'_> {
        let at = self.at.as_ref().expect("the source stands on a row");
        at.data.entry(at.entry)
    }

    fn advance(&mut self, access: Access) -> Result<bool> {
        if self.ended {
            return Ok(false);
        }
        let step = self.at.as_ref().and_then(|at| at.step(self.direction, self.snapshot));
        match (&mut self.at, step) {
            (Some(at), Some(entry)) => at.entry = entry,
            _ => {
                self.at = match self.direction {
                    Direction::Forward => self.forward(access)?,
                    Direction::Backward => self.backward(access)?,
                };
            }
        }
        let bounds = &self.bounds;
        self.at.take_if(|at| !bounds.contains(at.data.entry(at.entry).key));
        self.ended = self.at.is_none();
        Ok(!self.ended)
    }

    /// A block of a slice, found by what is given the slice's blocks; `None` where there is none.
    fn open(
        &self,
        slice: usize,
        block: impl FnOnce(&Resident, Range<usize>) -> usize,
        access: Access,
    ) -> Result<Option<(Arc<CachedTable>, usize, Arc<CachedBlock>)>> {
        let Some(slice) = self.run.slices().get(slice) else { return Ok(None) };
        let resident = slice.extent.resident(access)?;
        let blocks = slice.meta.block_range();
        let block = block(&resident, blocks.clone());
        if !blocks.contains(&block) {
            return Ok(None);
        }
        let data = slice.extent.block(&resident, block, access)?;
        Ok(Some((resident, block, data)))
    }

    /// The place after one in key order, in this block, the next, or the next slice.
    fn after(&self, at: Standing, access: Access) -> Result<Option<Standing>> {
        if at.entry + 1 < at.data.len() {
            return Ok(Some(Standing { entry: at.entry + 1, ..at }));
        }
        let next = match self.open(at.slice, |_, _| at.block + 1, access)? {
            Some(found) => Some((at.slice, found)),
            None => self
                .open(at.slice + 1, |_, blocks| blocks.start, access)?
                .map(|found| (at.slice + 1, found)),
        };
        Ok(next.map(|(slice, (resident, block, data))| Standing {
            slice,
            block,
            entry: 0,
            resident,
            data,
        }))
    }

    /// The place before one in key order.
    fn before(&self, at: Standing, access: Access) -> Result<Option<Standing>> {
        if at.entry > 0 {
            return Ok(Some(Standing { entry: at.entry - 1, ..at }));
        }
        let begins = self.run.slices()[at.slice].meta.block_range().start == at.block;
        let next = match (begins, at.slice.checked_sub(1)) {
            (false, _) => self.open(at.slice, |_, _| at.block - 1, access)?.map(|f| (at.slice, f)),
            (true, Some(slice)) => {
                self.open(slice, |_, blocks| blocks.end - 1, access)?.map(|f| (slice, f))
            }
            (true, None) => None,
        };
        Ok(next.map(|(slice, (resident, block, data))| Standing {
            slice,
            block,
            entry: data.len() - 1,
            resident,
            data,
        }))
    }

    fn copy(at: &Standing) -> Standing {
        Standing { resident: at.resident.clone(), data: at.data.clone(), ..*at }
    }

    /// A scan begins at a block: one that goes on from there is no reason to keep what it passes.
    fn note_seek(&self, slice: usize, found: &Option<(Arc<CachedTable>, usize, Arc<CachedBlock>)>) {
        if let Some((_, block, _)) = found {
            self.run.slices()[slice].extent.note_read(*block);
        }
    }

    fn first(&self, access: Access) -> Result<Option<Standing>> {
        let start = &self.bounds.start;
        let slice = self.run.seek(start);
        let found = self.open(slice, |resident, blocks| resident.seek(blocks, start), access)?;
        self.note_seek(slice, &found);
        Ok(found.map(|(resident, block, data)| {
            let entry = data.seek(start);
            Standing { slice, block, entry, resident, data }
        }))
    }

    fn last(&self, access: Access) -> Result<Option<Standing>> {
        let slices = self.run.slices().len();
        // The place of the first entry at or past the end, then one back.
        if let Some(end) = &self.bounds.end
            && let slice = self.run.seek(end)
            && slice < slices
        {
            let found = self.open(slice, |resident, blocks| resident.seek(blocks, end), access)?;
            self.note_seek(slice, &found);
            let Some((resident, block, data)) = found else { return Ok(None) };
            let entry = data.seek(end);
            return self.before(Standing { slice, block, entry, resident, data }, access);
        }
        let Some(slice) = slices.checked_sub(1) else { return Ok(None) };
        let found = self.open(slice, |_, blocks| blocks.end - 1, access)?;
        self.note_seek(slice, &found);
        Ok(found.map(|(resident, block, data)| {
            let entry = data.len() - 1;
            Standing { slice, block, entry, resident, data }
        }))
    }

    /// The next key's newest visible version, ascending.
    fn forward(&self, access: Access) -> Result<Option<Standing>> {
        let mut at = match &self.at {
            None => self.first(access)?,
            Some(at) => self.after(Self::copy(at), access)?,
        };
        // Versions of a key stand newest first: after the visible one, the rest of it are older.
        while let Some(standing) = at {
            let entry = standing.data.entry(standing.entry);
            let passed =
                self.at.as_ref().is_some_and(|old| old.data.entry(old.entry).key == entry.key);
            if !passed && entry.csn <= self.snapshot {
                return Ok(Some(standing));
            }
            at = self.after(standing, access)?;
        }
        Ok(None)
    }

    /// The next key's newest visible version, descending.
    fn backward(&self, access: Access) -> Result<Option<Standing>> {
        let mut at = match &self.at {
            None => self.last(access)?,
            Some(at) => self.before(Self::copy(at), access)?,
        };
        // Backwards, versions of a key come oldest first: the last visible one before the key
        // changes is the newest.
        let mut best: Option<Standing> = None;
        while let Some(standing) = at {
            let entry = standing.data.entry(standing.entry);
            let passed =
                self.at.as_ref().is_some_and(|old| old.data.entry(old.entry).key == entry.key);
            if best.as_ref().is_some_and(|best| best.data.entry(best.entry).key != entry.key) {
                return Ok(best);
            }
            if !passed && entry.csn <= self.snapshot {
                best = Some(Self::copy(&standing));
            }
            at = self.before(standing, access)?;
        }
        Ok(best)
    }
}
