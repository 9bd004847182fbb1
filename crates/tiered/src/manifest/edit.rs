//! Edits: the structural changes that the manifest records, and the state that results from them.
//!
//! # Format
//! A record's payload is a sequence of edits, which take effect together. An edit is its kind (u8)
//! and its fields. Fields are varints, unless another size is given. Keys and other byte strings
//! have their length (varint) before them:
//!
//! ```text
//! 1 create table    table, CSN that created it
//! 2 drop table      table
//! 3 add extent      table, extent id, data file, first slot, slots, length in bytes, blocks,
//!                   bytes of blocks, CRC32C of its bytes (u32, little-endian), the coding that
//!                   was chosen for its blocks (u8), number of dictionaries that its blocks may
//!                   name, their numbers, ascending; an earlier edit has added each dictionary
//! 4 remove extent   table, extent id; no slice of it is left
//! 5 flushed         table, first key of a sub-table, CSN: commits up to it are in the sub-table's
//!                   extents
//! 6 persisted       CSN: commits up to it are in extents, for all tables
//! 7 next extent     the smallest extent id never used
//! 8 known           CSN: each table that a commit up to it created is in the manifest, or was
//!                   dropped for good
//! 9 add slice       table, level (0, 1, 2), sub-level (0 outside Level0), extent id, first block,
//!                   blocks, bytes of blocks, smallest key, largest key, versions, keys,
//!                   tombstones, payload bytes, smallest CSN, largest CSN
//! 10 remove slice   table, extent id, first block
//! 11 split          table, key, CSN: a new sub-table begins at the key; its commits up to the CSN
//!                   are in its extents
//! 12 join           table, key: the sub-table that begins at the key is joined to the one before
//!                   it; a commit is in the extents of the result if it is in those of both
//! 13 add range      table, first key, CSN, upto, whether there is an end (u8), the first key past
//!                   the range: adds a range tombstone (see `ranges`) to those of the table
//! 14 cut range      table, the same fields: removes the range tombstones with this CSN and upto
//!                   from these keys
//! 15 add dictionary table, its number, its bytes
//! 16 move extent    table, extent id, data file, first slot, slots (as many as before)
//! 17 rewritten      CSN: extents may have values in the form that this commit introduced
//! ```

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use spillway_base::codec::{Reader, put_bytes, put_varint};
use spillway_base::{Csn, Error, KeyRange, Result, TableId};

use super::extents::Extents;
use crate::coding::{Dictionary, DictionaryId};
use crate::extent_meta::{ExtentId, ExtentMeta, SliceId, SliceMeta};
use crate::ranges::{Mark, RangeTombstones};
use crate::space::SlotRun;

/// The level of a table that a slice belongs to. Within Level0, sub-levels with larger numbers hold
/// newer data.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Place {
    /// A sub-level of Level0.
    Level0(u64),
    /// Level1.
    Level1,
    /// Level2, the last.
    Level2,
}

/// The keys from the first key to before the second; to the end of the table for `None`.
pub(crate) type Keys = (Box<[u8]>, Option<Box<[u8]>>);

fn range_of((start, end): &Keys) -> KeyRange<'_> {
    KeyRange::new(start, end.as_deref())
}

/// One change of the state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Edit {
    CreateTable { table: TableId, created: Csn },
    DropTable { table: TableId },
    AddExtent { table: TableId, meta: ExtentMeta },
    RemoveExtent { table: TableId, id: ExtentId },
    AddSlice { table: TableId, place: Place, meta: Arc<SliceMeta> },
    RemoveSlice { table: TableId, id: SliceId },
    AddDictionary { table: TableId, id: DictionaryId, bytes: Arc<[u8]> },
    MoveExtent { table: TableId, id: ExtentId, slots: SlotRun },
    Flushed { table: TableId, start: Box<[u8]>, csn: Csn },
    Split { table: TableId, start: Box<[u8]>, csn: Csn },
    AddRange { table: TableId, keys: Keys, mark: Mark },
    CutRange { table: TableId, keys: Keys, mark: Mark },
    Join { table: TableId, start: Box<[u8]> },
    Persisted { csn: Csn },
    NextExtent { id: ExtentId },
    Known { csn: Csn },
    Rewritten { csn: Csn },
}

const CREATE_TABLE: u8 = 1;
const DROP_TABLE: u8 = 2;
const ADD_EXTENT: u8 = 3;
const REMOVE_EXTENT: u8 = 4;
const FLUSHED: u8 = 5;
const PERSISTED: u8 = 6;
const NEXT_EXTENT: u8 = 7;
const KNOWN: u8 = 8;
const ADD_SLICE: u8 = 9;
const REMOVE_SLICE: u8 = 10;
const SPLIT: u8 = 11;
const JOIN: u8 = 12;
const ADD_RANGE: u8 = 13;
const CUT_RANGE: u8 = 14;
const ADD_DICTIONARY: u8 = 15;
const MOVE_EXTENT: u8 = 16;
const REWRITTEN: u8 = 17;

impl Edit {
    /// The edits that lead from some range tombstones of a table to others.
    pub(crate) fn of_ranges(
        table: TableId,
        old: &RangeTombstones,
        new: &RangeTombstones,
    ) -> Vec<Edit> {
        let mut edits = Vec::new();
        new.minus(old).each(|keys, mark| edits.push(Edit::AddRange { table, keys, mark }));
        old.minus(new).each(|keys, mark| edits.push(Edit::CutRange { table, keys, mark }));
        edits
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let mut begin = |kind: u8, first: u64| {
            out.push(kind);
            put_varint(out, first);
        };
        match self {
            Edit::CreateTable { table, created } => {
                begin(CREATE_TABLE, table.0.into());
                put_varint(out, created.0);
            }
            Edit::DropTable { table } => begin(DROP_TABLE, table.0.into()),
            Edit::AddExtent { table, meta } => {
                begin(ADD_EXTENT, table.0.into());
                meta.encode(out);
            }
            Edit::RemoveExtent { table, id } => {
                begin(REMOVE_EXTENT, table.0.into());
                put_varint(out, id.0);
            }
            Edit::AddSlice { table, place, meta } => {
                begin(ADD_SLICE, table.0.into());
                let (level, sublevel) = match *place {
                    Place::Level0(sublevel) => (0, sublevel),
                    Place::Level1 => (1, 0),
                    Place::Level2 => (2, 0),
                };
                out.push(level);
                put_varint(out, sublevel);
                meta.encode(out);
            }
            Edit::RemoveSlice { table, id } => {
                begin(REMOVE_SLICE, table.0.into());
                put_varint(out, id.extent.0);
                put_varint(out, id.first_block.into());
            }
            Edit::AddDictionary { table, id, bytes } => {
                begin(ADD_DICTIONARY, table.0.into());
                put_varint(out, id.0.into());
                put_bytes(out, bytes);
            }
            Edit::MoveExtent { table, id, slots } => {
                begin(MOVE_EXTENT, table.0.into());
                put_varint(out, id.0);
                slots.encode(out);
            }
            Edit::Flushed { table, start, csn } | Edit::Split { table, start, csn } => {
                let splits = matches!(self, Edit::Split { .. });
                begin(if splits { SPLIT } else { FLUSHED }, table.0.into());
                put_bytes(out, start);
                put_varint(out, csn.0);
            }
            Edit::AddRange { table, keys: (start, end), mark }
            | Edit::CutRange { table, keys: (start, end), mark } => {
                let adds = matches!(self, Edit::AddRange { .. });
                begin(if adds { ADD_RANGE } else { CUT_RANGE }, table.0.into());
                put_bytes(out, start);
                put_varint(out, mark.csn.0);
                put_varint(out, mark.upto.0);
                out.push(u8::from(end.is_some()));
                if let Some(end) = end {
                    put_bytes(out, end);
                }
            }
            Edit::Join { table, start } => {
                begin(JOIN, table.0.into());
                put_bytes(out, start);
            }
            Edit::Persisted { csn } => begin(PERSISTED, csn.0),
            Edit::NextExtent { id } => begin(NEXT_EXTENT, id.0),
            Edit::Known { csn } => begin(KNOWN, csn.0),
            Edit::Rewritten { csn } => begin(REWRITTEN, csn.0),
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Edit> {
        let at = reader.offset();
        let kind = reader.u8()?;
        if matches!(kind, PERSISTED | NEXT_EXTENT | KNOWN | REWRITTEN) {
            let number = reader.varint()?;
            return Ok(match kind {
                PERSISTED => Edit::Persisted { csn: Csn(number) },
                NEXT_EXTENT => Edit::NextExtent { id: ExtentId(number) },
                KNOWN => Edit::Known { csn: Csn(number) },
                _ => Edit::Rewritten { csn: Csn(number) },
            });
        }
        let table = TableId(reader.varint_u32()?);
        match kind {
            CREATE_TABLE => Ok(Edit::CreateTable { table, created: Csn(reader.varint()?) }),
            DROP_TABLE => Ok(Edit::DropTable { table }),
            ADD_EXTENT => Ok(Edit::AddExtent { table, meta: ExtentMeta::decode(reader)? }),
            REMOVE_EXTENT => Ok(Edit::RemoveExtent { table, id: ExtentId(reader.varint()?) }),
            ADD_SLICE => {
                let place = match (reader.u8()?, reader.varint()?) {
                    (0, sublevel) => Place::Level0(sublevel),
                    (1, 0) => Place::Level1,
                    (2, 0) => Place::Level2,
                    (level, sublevel) => {
                        let message = format!("unknown level {level}.{sublevel} at byte {at}");
                        return Err(Error::corruption(message));
                    }
                };
                Ok(Edit::AddSlice { table, place, meta: Arc::new(SliceMeta::decode(reader)?) })
            }
            REMOVE_SLICE => {
                let (extent, first_block) = (ExtentId(reader.varint()?), reader.varint_u32()?);
                Ok(Edit::RemoveSlice { table, id: SliceId { extent, first_block } })
            }
            ADD_DICTIONARY => {
                let id = u16::try_from(reader.varint()?).map_err(|_| {
                    Error::corruption(format!("a dictionary's number makes no sense at byte {at}"))
                })?;
                Ok(Edit::AddDictionary {
                    table,
                    id: DictionaryId(id),
                    bytes: reader.bytes()?.into(),
                })
            }
            MOVE_EXTENT => {
                let (id, slots) = (ExtentId(reader.varint()?), SlotRun::decode(reader)?);
                Ok(Edit::MoveExtent { table, id, slots })
            }
            FLUSHED | SPLIT => {
                let (start, csn) = (reader.bytes()?.into(), Csn(reader.varint()?));
                Ok(match kind {
                    FLUSHED => Edit::Flushed { table, start, csn },
                    _ => Edit::Split { table, start, csn },
                })
            }
            JOIN => Ok(Edit::Join { table, start: reader.bytes()?.into() }),
            ADD_RANGE | CUT_RANGE => {
                let start = reader.bytes()?;
                let mark = Mark { csn: Csn(reader.varint()?), upto: Csn(reader.varint()?) };
                let end = match reader.u8()? {
                    0 => Ok(None),
                    1 => reader.bytes().map(Some),
                    _ => Err(Error::corruption("")),
                };
                let sound = |end: &Option<&[u8]>| {
                    mark.upto < mark.csn && !KeyRange::new(start, *end).is_empty()
                };
                let Some(end) = end.ok().filter(sound) else {
                    let message = format!("a range tombstone makes no sense at byte {at}");
                    return Err(Error::corruption(message));
                };
                let keys = (start.into(), end.map(Into::into));
                Ok(match kind {
                    ADD_RANGE => Edit::AddRange { table, keys, mark },
                    _ => Edit::CutRange { table, keys, mark },
                })
            }
            other => Err(Error::corruption(format!("unknown edit {other} at byte {at}"))),
        }
    }

    /// Passes on the edits of a record's payload.
    pub(super) fn decode_each(
        payload: &[u8],
        give: &mut dyn FnMut(Edit) -> Result<()>,
    ) -> Result<()> {
        let mut reader = Reader::new(payload);
        while !reader.is_empty() {
            give(Edit::decode(&mut reader)?)?;
        }
        Ok(())
    }

    /// The edits of a record's payload.
    #[cfg(any(fuzzing, all(test, not(loom))))]
    pub(super) fn decode_all(payload: &[u8]) -> Result<Vec<Edit>> {
        let mut edits = Vec::new();
        Edit::decode_each(payload, &mut |edit| {
            edits.push(edit);
            Ok(())
        })?;
        Ok(edits)
    }
}

/// A table after the manifest's edits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TableState {
    pub(crate) created: Csn,
    /// For each sub-table, its first key and the commit up to which it is in extents. The first one
    /// begins before all keys.
    pub(crate) parts: BTreeMap<Box<[u8]>, Csn>,
    pub(crate) extents: Extents,
    /// The dictionaries that blocks of its extents may need.
    pub(crate) dictionaries: BTreeMap<DictionaryId, Arc<[u8]>>,
    /// The range tombstones that hide its versions.
    pub(crate) ranges: RangeTombstones,
}

impl TableState {
    /// The largest CSN in it.
    fn newest(&self) -> Csn {
        let slices = self.extents.values().flat_map(ExtentState::slices);
        let versions = slices.map(|(_, slice)| slice.counts.csn_max);
        let ranges = self.ranges.iter().flat_map(|(_, marks)| marks.map(|(csn, _)| csn));
        let flushed = self.parts.values().copied();
        versions.chain(ranges).chain(flushed).fold(self.created, Csn::max)
    }

    /// Finds a slice with keys of more than one sub-table. A sound state has none.
    pub(crate) fn astride(&self) -> Option<&SliceMeta> {
        let mut slices = self.extents.values().flat_map(ExtentState::slices);
        let spans = |slice: &SliceMeta| {
            let after = (Bound::Excluded(&*slice.smallest), Bound::Unbounded);
            let next = self.parts.range::<[u8], _>(after).next();
            next.is_some_and(|(start, _)| **start <= *slice.largest)
        };
        slices.find_map(|(_, slice)| spans(slice).then_some(&**slice))
    }

    /// The dictionaries that no extent names, except the newest (DICTIONARY-3).
    fn unnamed(&self) -> Vec<DictionaryId> {
        let older = self.dictionaries.len().saturating_sub(1);
        let mut unnamed: Vec<_> = self.dictionaries.keys().take(older).copied().collect();
        for extent in self.extents.values() {
            if unnamed.is_empty() {
                break;
            }
            unnamed.retain(|id| !extent.meta.names.may_have(*id));
        }
        unnamed
    }

    /// Passes on the dictionaries, in the order of their numbers.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Corruption`].
    pub(crate) fn dictionaries(&self, mut give: impl FnMut(Dictionary)) -> Result<()> {
        self.dictionaries
            .iter()
            .try_for_each(|(&id, bytes)| Dictionary::open(id, bytes).map(&mut give))
    }
}

/// An extent, and its slices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ExtentState {
    pub(crate) meta: ExtentMeta,
    /// The slices, in the order of their first blocks. Nearly all extents have one slice. The list
    /// is compact because there are very many extents.
    pub(crate) slices: Vec<(Place, Arc<SliceMeta>)>,
}

impl ExtentState {
    /// Its slices and their places, in the order of their blocks.
    pub(crate) fn slices(&self) -> impl ExactSizeIterator<Item = &(Place, Arc<SliceMeta>)> {
        self.slices.iter()
    }

    fn position(&self, first_block: u32) -> std::result::Result<usize, usize> {
        self.slices.binary_search_by_key(&first_block, |(_, slice)| slice.first_block)
    }

    /// Adds a slice. Fails if it reaches past the extent or shares blocks with another slice.
    fn add(&mut self, place: Place, meta: Arc<SliceMeta>) -> Result<()> {
        let end = meta.first_block + meta.blocks;
        let at = self.position(meta.first_block);
        let after = at.unwrap_or_else(|at| at);
        let before = after.checked_sub(1).map(|before| &self.slices[before].1);
        let shares = at.is_ok()
            || before.is_some_and(|other| other.first_block + other.blocks > meta.first_block)
            || self.slices.get(after).is_some_and(|(_, other)| other.first_block < end);
        if shares || end > self.meta.blocks {
            return Err(Error::corruption(format!(
                "a slice of {} has blocks that it does not have, or that are another's",
                meta.extent
            )));
        }
        self.slices.reserve_exact(1);
        self.slices.insert(after, (place, meta));
        Ok(())
    }

    /// Removes a slice. Returns whether it existed.
    fn remove(&mut self, first_block: u32) -> bool {
        let at = self.position(first_block);
        at.map(|at| self.slices.remove(at)).is_ok()
    }
}

/// The state that results from the manifest's edits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct State {
    pub(crate) tables: BTreeMap<TableId, TableState>,
    pub(crate) persisted: Csn,
    pub(crate) next_extent: ExtentId,
    pub(crate) known: Csn,
    pub(crate) rewritten: Csn,
}

impl Default for State {
    fn default() -> State {
        State {
            tables: BTreeMap::new(),
            persisted: Csn::ZERO,
            next_extent: ExtentId(1),
            known: Csn::ZERO,
            rewritten: Csn::ZERO,
        }
    }
}

/// Dictionaries that were removed from the tables of a state.
pub(crate) type SetAside = Vec<(TableId, DictionaryId, Arc<[u8]>)>;

impl State {
    /// The largest CSN in it. It was stable when it was recorded (E7).
    pub(crate) fn newest(&self) -> Csn {
        let tables = self.tables.values().map(TableState::newest);
        tables.fold(self.persisted.max(self.known).max(self.rewritten), Csn::max)
    }

    /// The edit that records from which commit on a rewrite applies, unless the state has it. A log
    /// that lost this commit no longer has the form of the rewritten values (E7).
    pub(crate) fn edit_of_rewrite(&self, since: Option<Csn>) -> Option<Edit> {
        since.filter(|csn| *csn > self.rewritten).map(|csn| Edit::Rewritten { csn })
    }

    /// Removes the dictionaries that no extent names (DICTIONARY-2).
    pub(super) fn set_aside_unnamed(&mut self) -> SetAside {
        let mut aside = SetAside::new();
        for (&table, stored) in &mut self.tables {
            for id in stored.unnamed() {
                aside.extend(stored.dictionaries.remove(&id).map(|bytes| (table, id, bytes)));
            }
        }
        aside
    }

    /// Adds back what [`State::set_aside_unnamed`] removed.
    pub(super) fn put_back(&mut self, aside: SetAside) {
        for (table, id, bytes) in aside {
            if let Some(stored) = self.tables.get_mut(&table) {
                stored.dictionaries.insert(id, bytes);
            }
        }
    }

    /// Applies an edit.
    pub(crate) fn apply(&mut self, edit: Edit) -> Result<()> {
        match edit {
            Edit::CreateTable { table, created } => {
                let parts = BTreeMap::from([(Box::default(), Csn::ZERO)]);
                let (extents, dictionaries) = (Extents::default(), BTreeMap::new());
                let ranges = RangeTombstones::NONE;
                let new = TableState { created, parts, extents, dictionaries, ranges };
                if self.tables.insert(table, new).is_some() {
                    return Err(Error::corruption(format!("{table:?} is created twice")));
                }
            }
            Edit::DropTable { table } => {
                self.table(table)?;
                self.tables.remove(&table);
            }
            Edit::AddExtent { table, meta } => {
                let id = meta.id;
                self.next_extent = self.next_extent.max(ExtentId(id.0.saturating_add(1)));
                let stored = self.table(table)?;
                let mut named = meta.names.ids().iter();
                if !named.all(|name| stored.dictionaries.contains_key(name)) {
                    let message = format!("{id} of {table:?} names a dictionary that is not there");
                    return Err(Error::corruption(message));
                }
                let new = ExtentState { meta, slices: Vec::new() };
                if !stored.extents.insert(new) {
                    return Err(Error::corruption(format!("{id} of {table:?} is added twice")));
                }
            }
            Edit::RemoveExtent { table, id } => {
                let removed = self.table(table)?.extents.remove(id);
                if removed.is_none_or(|extent| !extent.slices.is_empty()) {
                    let message =
                        format!("{id} is removed from {table:?}, which lacks or needs it");
                    return Err(Error::corruption(message));
                }
            }
            Edit::AddSlice { table, place, meta } => {
                self.extent(table, meta.extent)?.add(place, meta)?;
            }
            Edit::RemoveSlice { table, id } => {
                if !self.extent(table, id.extent)?.remove(id.first_block) {
                    let message = format!("{table:?} lacks a slice of {} to remove", id.extent);
                    return Err(Error::corruption(message));
                }
            }
            Edit::AddDictionary { table, id, bytes } => {
                if self.table(table)?.dictionaries.insert(id, bytes).is_some() {
                    let message = format!("dictionary {} of {table:?} is added twice", id.0);
                    return Err(Error::corruption(message));
                }
            }
            Edit::MoveExtent { table, id, slots } => {
                let meta = &mut self.extent(table, id)?.meta;
                if meta.slots.count != slots.count {
                    let message = format!("{id} is moved to {slots}, and has others");
                    return Err(Error::corruption(message));
                }
                meta.slots = slots;
            }
            Edit::Flushed { table, start, csn } => {
                let flushed = self.table(table)?.parts.get_mut(&start).ok_or_else(|| {
                    Error::corruption(format!("{table:?} has no sub-table that was flushed"))
                })?;
                *flushed = csn.max(*flushed);
            }
            Edit::Split { table, start, csn } => {
                if self.table(table)?.parts.insert(start, csn).is_some() {
                    return Err(Error::corruption(format!("{table:?} is split twice at a key")));
                }
            }
            Edit::AddRange { table, keys, mark } => {
                let ranges = &mut self.table(table)?.ranges;
                *ranges = ranges.union(&RangeTombstones::one(range_of(&keys), mark));
            }
            Edit::CutRange { table, keys, mark } => {
                let ranges = &mut self.table(table)?.ranges;
                *ranges = ranges.minus(&RangeTombstones::one(range_of(&keys), mark));
            }
            Edit::Join { table, start } => {
                let parts = &mut self.table(table)?.parts;
                let csn = parts.remove(&start);
                let before = parts.range_mut(..start).next_back();
                let (Some(csn), Some((_, before))) = (csn, before) else {
                    let message = format!("{table:?} has no sub-tables that were joined");
                    return Err(Error::corruption(message));
                };
                *before = csn.min(*before);
            }
            Edit::Persisted { csn } => self.persisted = self.persisted.max(csn),
            Edit::NextExtent { id } => self.next_extent = self.next_extent.max(id),
            Edit::Known { csn } => self.known = self.known.max(csn),
            Edit::Rewritten { csn } => self.rewritten = self.rewritten.max(csn),
        }
        Ok(())
    }

    fn table(&mut self, table: TableId) -> Result<&mut TableState> {
        self.tables
            .get_mut(&table)
            .ok_or_else(|| Error::corruption(format!("{table:?} is edited but does not exist")))
    }

    fn extent(&mut self, table: TableId, id: ExtentId) -> Result<&mut ExtentState> {
        self.table(table)?.extents.get_mut(id).ok_or_else(|| {
            Error::corruption(format!("{id} of {table:?} is edited but does not exist"))
        })
    }
}
