//! Gets: a look at the cached rows, and one at the memtables and levels where that finds nothing.
//!
//! # For who has told nobody of a snapshot (E13)
//!
//! Who reads one row by itself takes a number when all commits up to it are installed, and looks. A
//! flush or a compaction that knows nothing of it may forget meanwhile what the number sees. It
//! does no harm:
//!
//! - *Of the cached rows*, since the cache has the newest version of a row that is installed (J1,
//!   J2). If that is at or below the number, no version between the two is installed, or will be;
//!   so it is what the number sees. If it is above, the cache answers nothing. What else may hide a
//!   row began an era before its commit could be seen (J3), and the era is looked at after the
//!   number was taken.
//! - *Of the levels*, since nothing that was ever in them has a CSN above one that they tell
//!   ([`crate::level::Levels::newest_from`]). To whoever reads there or above the newest versions
//!   are all that counts, and those are never dropped, but for tombstones that hide nothing. It is
//!   a CSN that was stable when it was flushed, so a number is below it only if its taker was away
//!   while a flush ended. It is answered that nothing is known, then.
//! - *Of the memtables*, since nothing is taken out of them; and a view, once it was taken, has all
//!   of its memtables and levels for good.

use spillway_base::engine::{Access, Found};
use spillway_base::home::Place as HomePlace;
use spillway_base::{Csn, Result, TableId};

use super::Inner;
use crate::access_pattern;
use crate::cache::{Looked, RowCache, Tag};
use crate::extent::read_by_this_thread;
use crate::filter;
use crate::table::Table;
use crate::table_visibility::TableVisibility;

/// A look for a cached row.
struct RowLookup<'a> {
    rows: &'a RowCache,
    tag: Tag,
    hash: u64,
    looked: Looked,
}

/// Who looks for a key.
#[derive(Clone, Copy)]
struct Reader {
    snapshot: Csn,
    access: Access,
    /// Whether the snapshot is live.
    is_live: bool,
}

impl Inner {
    /// The version of a key that a live snapshot sees.
    pub(super) fn get(
        &self,
        table: &Table,
        key: &[u8],
        snapshot: Csn,
        access: Access,
        value: &mut Vec<u8>,
    ) -> Result<Found> {
        let row = self.get_cached_row(key, snapshot, value, |rows| table.era(rows));
        let is_sample = access_pattern::is_sample();
        if let Some(RowLookup { looked: Looked::Found(csn), .. }) = row {
            // Of which sub-table it is matters to those who listen alone: most often none is asked
            // for.
            if is_sample || HomePlace::is_asked_for() {
                self.note_read(table.parts().of(key), is_sample);
            }
            return Ok(Found::Value(csn));
        }
        let reader = Reader { snapshot, access, is_live: true };
        let found = self.get_below_row_cache(table, key, reader, row, is_sample, value)?;
        Ok(found.unwrap_or(Found::Nothing))
    }

    /// The version of a key that a snapshot sees of which nobody was told, if that is known.
    #[inline]
    pub(super) fn recall(
        &self,
        id: TableId,
        key: &[u8],
        snapshot: Csn,
        access: Access,
        value: &mut Vec<u8>,
    ) -> Result<Option<Found>> {
        if !self.settings.recall {
            return Ok(None);
        }
        self.get_for(id, key, Reader { snapshot, access, is_live: false }, value)
    }

    /// The newest version of a key that is installed; `None` where there is no such table.
    #[inline]
    pub(super) fn newest(
        &self,
        id: TableId,
        key: &[u8],
        access: Access,
        value: &mut Vec<u8>,
    ) -> Result<Option<Found>> {
        self.get_for(id, key, Reader { snapshot: Csn::MAX, access, is_live: true }, value)
    }

    /// The version of a key that a reader sees, by what this thread knows of the table; `None`
    /// where there is no such table, or its levels may lack the version.
    #[inline]
    fn get_for(
        &self,
        id: TableId,
        key: &[u8],
        reader: Reader,
        value: &mut Vec<u8>,
    ) -> Result<Option<Found>> {
        let snapshot = reader.snapshot;
        let find = || self.tables.load().get(&id).map(|table| table.standing.clone());
        let row = self.get_cached_row(key, snapshot, value, |rows| {
            let tag = |of: &TableVisibility| of.exists_at(snapshot).then(|| of.era(rows)).flatten();
            TableVisibility::with(self.number, id, find, tag).flatten()
        });
        let is_sample = access_pattern::is_sample();
        if let Some(RowLookup { looked: Looked::Found(csn), .. }) = row {
            if is_sample || HomePlace::is_asked_for() {
                self.note_read_of(id, key, is_sample);
            }
            return Ok(Some(Found::Value(csn)));
        }
        let tables = self.tables.load();
        let Some(table) = tables.get(&id).filter(|table| table.exists_at(snapshot)) else {
            return Ok(None);
        };
        self.get_below_row_cache(table, key, reader, row, is_sample, value)
    }

    /// Looks for a key's row among those that are cached; `tag` tells what its table's are marked
    /// with.
    #[inline]
    fn get_cached_row(
        &self,
        key: &[u8],
        snapshot: Csn,
        value: &mut Vec<u8>,
        tag: impl FnOnce(&RowCache) -> Option<Tag>,
    ) -> Option<RowLookup<'_>> {
        let rows = self.context.rows.as_ref()?;
        let hash = filter::hash(key);
        rows.expect(hash);
        let tag = tag(rows)?;
        let looked = rows.get(tag, hash, key, snapshot, value);
        Some(RowLookup { rows, tag, hash, looked })
    }

    /// The version of a key in the memtables and levels of its sub-table; it comes in as a `row` of
    /// its own, if it is asked for often. `None` where they may lack what the reader sees.
    fn get_below_row_cache(
        &self,
        table: &Table,
        key: &[u8],
        reader: Reader,
        row: Option<RowLookup<'_>>,
        is_sample: bool,
        value: &mut Vec<u8>,
    ) -> Result<Option<Found>> {
        let Reader { snapshot, access, is_live } = reader;
        let parts = table.parts();
        let part = parts.of(key);
        self.note_read(part, is_sample);
        let view = part.view_now();
        if !is_live && snapshot < view.levels.newest_from {
            return Ok(None);
        }
        let read_before = read_by_this_thread();
        let found = view.get(key, snapshot, access, value);
        let Some(RowLookup { rows, tag, hash, looked: Looked::Missing(ticket) }) = row else {
            return found.map(Some);
        };
        let read = read_by_this_thread() - read_before;
        if read > 0 && rows.left_lately(hash) {
            rows.note_ghost_miss(read);
        }
        let found = found?;
        if let Found::Value(csn) = found {
            // A sub-table that was closed is told of no more commits.
            let is_newest = || view.csn_max() <= snapshot && !part.is_closed();
            let newest = |value: &mut Vec<u8>| {
                let parts = table.parts();
                let view = parts.of(key).view_now();
                let newest = view.get(key, Csn::MAX, Access::MemoryOnly, value).ok()?;
                newest.is_value().then(|| newest.csn()).flatten()
            };
            if rows.offer((tag, hash, key), ticket, (csn, value), is_newest, newest) {
                self.context.make_room_for_rows();
            }
        }
        Ok(Some(found))
    }

    #[cold]
    fn note_read_of(&self, table: TableId, key: &[u8], is_sample: bool) {
        if let Some(table) = self.tables.load().get(&table) {
            self.note_read(table.parts().of(key), is_sample);
        }
    }
}
