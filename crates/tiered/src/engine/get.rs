//! Gets: a lookup in the row cache, and, if it misses, in the memtables and levels.
//!
//! # Reads at an unregistered snapshot (E13)
//!
//! A read of a single row takes a CSN up to which all commits are installed, and looks the row up
//! without registering this CSN as a snapshot. Flushes and compactions do not know of the CSN, so
//! they may drop versions that the reader should see. The result is still correct:
//!
//! - *Row cache*: a cached version is the newest installed version of its row (ROW-CACHE-1,
//!   ROW-CACHE-2). If this version is at or below the reader's CSN, the reader sees it: all commits
//!   up to this CSN are installed, so none of them wrote a newer version. If the version is above
//!   the reader's CSN, the lookup goes on to the memtables and levels.
//! - *Range tombstones over cached rows*: a range tombstone at or below the reader's CSN began an
//!   era before its commit became visible (ROW-CACHE-3). The lookup checks the era after the reader
//!   took its CSN, so it finds no cached row that the tombstone hides.
//! - *Levels*: [`crate::level::Levels::newest_from`] is at least the CSN of every version that was
//!   ever in the levels. So a reader whose CSN is at or above `newest_from` sees the newest version
//!   of each key in the levels. Flushes and compactions never drop this version, except for a
//!   tombstone that hides nothing. A reader below `newest_from` gets `None` from the lookup, and
//!   the caller retries with a registered snapshot. This is rare: `newest_from` was stable before
//!   its memtable was flushed, so this flush ended after the reader took its CSN.
//! - *Memtables*: no version is ever removed from a memtable. A view keeps all of its memtables and
//!   levels for as long as a reader holds it.

use spillway_base::engine::{Access, Found};
use spillway_base::{Csn, Result, TableId};

use super::table_set::TableSet;
use crate::cache::{Looked, RowCache, Tag};
use crate::extent::{ReadContext, read_by_this_thread};
use crate::filter;
use crate::table::Table;
use crate::table_visibility::TableVisibility;

/// A lookup in the row cache.
struct RowLookup<'a> {
    rows: &'a RowCache,
    tag: Tag,
    hash: u64,
    looked: Looked,
}

/// How a key is read.
#[derive(Clone, Copy)]
struct LookupReader {
    snapshot: Csn,
    access: Access,
    /// Whether the snapshot is registered.
    is_live: bool,
}

/// The parts of an engine that a get uses.
pub(super) struct PointReader<'a> {
    pub(super) tables: &'a TableSet,
    pub(super) context: &'a ReadContext,
}

impl<'a> PointReader<'a> {
    /// The version of a key that a registered snapshot sees.
    pub(super) fn get(
        &self,
        table: &Table,
        key: &[u8],
        snapshot: Csn,
        access: Access,
        value: &mut Vec<u8>,
    ) -> Result<Found> {
        let row = self.get_cached_row(key, snapshot, value, |rows| table.era(rows));
        if let Some(RowLookup { looked: Looked::Found(csn), .. }) = row {
            return Ok(Found::Value(csn));
        }
        let reader = LookupReader { snapshot, access, is_live: true };
        let found = self.get_below_row_cache(table, key, reader, row, value)?;
        Ok(found.unwrap_or(Found::Nothing))
    }

    /// The version of a key that an unregistered snapshot sees; `None` if that is not certain.
    #[inline]
    pub(super) fn recall(
        &self,
        id: TableId,
        key: &[u8],
        snapshot: Csn,
        access: Access,
        value: &mut Vec<u8>,
    ) -> Result<Option<Found>> {
        self.get_for(id, key, LookupReader { snapshot, access, is_live: false }, value)
    }

    /// The newest installed version of a key; `None` if there is no such table.
    #[inline]
    pub(super) fn newest(
        &self,
        id: TableId,
        key: &[u8],
        access: Access,
        value: &mut Vec<u8>,
    ) -> Result<Option<Found>> {
        self.get_for(id, key, LookupReader { snapshot: Csn::MAX, access, is_live: true }, value)
    }

    /// The version of a key that a reader sees. It finds the table by the table visibility that
    /// this thread keeps. `None` if there is no such table, or if its levels may lack the version.
    #[inline]
    fn get_for(
        &self,
        id: TableId,
        key: &[u8],
        reader: LookupReader,
        value: &mut Vec<u8>,
    ) -> Result<Option<Found>> {
        let snapshot = reader.snapshot;
        let row = self.get_cached_row(key, snapshot, value, |rows| {
            let tag = |of: &TableVisibility| of.exists_at(snapshot).then(|| of.era(rows)).flatten();
            self.tables.with_visibility(id, tag).flatten()
        });
        if let Some(RowLookup { looked: Looked::Found(csn), .. }) = row {
            return Ok(Some(Found::Value(csn)));
        }
        let tables = self.tables.load();
        let Some(table) = tables.get(&id).filter(|table| table.exists_at(snapshot)) else {
            return Ok(None);
        };
        self.get_below_row_cache(table, key, reader, row, value)
    }

    /// Looks a key up in the row cache. `tag` returns the tag of its table's rows.
    #[inline]
    fn get_cached_row(
        &self,
        key: &[u8],
        snapshot: Csn,
        value: &mut Vec<u8>,
        tag: impl FnOnce(&RowCache) -> Option<Tag>,
    ) -> Option<RowLookup<'a>> {
        let rows = self.context.rows.as_ref()?;
        let hash = filter::hash(key);
        rows.prefetch(hash);
        let tag = tag(rows)?;
        let looked = rows.get(tag, hash, key, snapshot, value);
        Some(RowLookup { rows, tag, hash, looked })
    }

    /// The version of a key in the memtables and levels of its sub-table. If `row` is a miss,
    /// offers the version to the row cache. `None` if the memtables and levels may lack the version
    /// that the reader sees.
    fn get_below_row_cache(
        &self,
        table: &Table,
        key: &[u8],
        reader: LookupReader,
        row: Option<RowLookup<'_>>,
        value: &mut Vec<u8>,
    ) -> Result<Option<Found>> {
        let LookupReader { snapshot, access, is_live } = reader;
        let parts = table.parts();
        let part = parts.of(key);
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
            // A closed sub-table gets no more commits.
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
}
