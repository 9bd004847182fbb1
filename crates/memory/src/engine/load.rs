//! Loads index blocks that are in the last checkpoint and not yet in memory
//! ([`crate::index_load`]).

use std::ops::Bound;
use std::sync::Arc;

use spillway_base::engine::Access;
use spillway_base::failure::Failure;
use spillway_base::managed::ClosedFlag;
use spillway_base::{Direction, Error, ErrorKind, Result};
use spillway_reclaim::epochs::Pin;

use super::put::RowWriter;
use super::table_set::TableSet;
use super::work_state::Work;
use crate::index::Entries;
use crate::index_load::{DeferredOp, IndexLoad, LoadedBlock};
use crate::rid::Rid;
use crate::table::Table;
use crate::version::Word;

/// Blocks that the background loads before it looks for other work.
const LOADED_AT_ONCE: usize = if cfg!(debug_assertions) { 1 } else { 16 };

/// A step of a scan of keys.
pub(super) struct KeyScan<'k> {
    /// Where the scan goes on; backward, the upper end.
    pub(super) from: Bound<&'k [u8]>,
    /// The scan's other end.
    pub(super) until: Bound<&'k [u8]>,
    pub(super) direction: Direction,
    /// How many keys to collect at most.
    pub(super) most: usize,
    /// Whether it may wait for a device.
    pub(super) access: Access,
}

impl<'k> KeyScan<'k> {
    /// A step over the first keys of a range that may wait.
    pub(super) fn first(
        (from, until): (Bound<&'k [u8]>, Bound<&'k [u8]>),
        most: usize,
    ) -> KeyScan<'k> {
        let (direction, access) = (Direction::Forward, Access::Blocking);
        KeyScan { from, until, direction, most, access }
    }
}

/// The parts of the engine that loads of keys need.
#[derive(Clone, Copy)]
pub(super) struct KeyLoader<'e> {
    pub(super) rows: RowWriter<'e>,
    pub(super) health: &'e Failure,
    pub(super) closed: &'e ClosedFlag,
}

impl KeyLoader<'_> {
    /// Loads the block of a key, before the key is looked up (LOADING-1).
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] if the caller may not wait (E9), [`ErrorKind::Corruption`],
    /// [`ErrorKind::Io`].
    #[inline]
    pub(super) fn load_key(&self, table: &Arc<Table>, key: &[u8], access: Access) -> Result<()> {
        match table.load() {
            None => Ok(()),
            Some(load) => self.load_block(table, load, load.reader.block_of(key), access),
        }
    }

    #[cold]
    fn load_block(
        &self,
        table: &Arc<Table>,
        load: &IndexLoad,
        number: usize,
        access: Access,
    ) -> Result<()> {
        if load.is_loaded(number) {
            return Ok(());
        }
        if access != Access::Blocking {
            let what = "a part of the index has not been loaded since the opening";
            return Err(Error::new(ErrorKind::WouldBlock, what));
        }
        let Some(deferred) = load.begin(number) else { return Ok(()) };
        let keys = load.reader.read(number).map_err(|error| self.closed.of_read(error))?;
        let mut loaded = LoadedBlock::default();
        let pin = self.rows.store.pin();
        for (key, rid) in keys.iter() {
            if has_row(table, load, rid) {
                let inserted = table.index.insert(key, rid, &pin);
                assert!(inserted.is_ok(), "a key is in one block, which is loaded once");
                loaded.rows += 1;
            } else if rid.generation() > 0 {
                loaded.generations.push((rid.slot(), rid.generation() + 1));
            }
        }
        drop(pin);
        for op in deferred.in_order() {
            self.rows.replay_row(table, &op);
        }
        if load.end(number, deferred, loaded) {
            self.end_load(table, load);
        }
        Ok(())
    }

    /// Gives the free slots of a table's array to its writers, now that all keys are loaded.
    pub(super) fn end_load(&self, table: &Table, load: &IndexLoad) {
        match load.free_slots() {
            Some(free) => {
                table.rows.free_all(free);
                table.end_load();
            }
            // Two keys of one row, or a row without a key.
            None => {
                self.health.record(&load.reader.damaged("it does not match the rows of its table"))
            }
        }
    }

    /// Loads some blocks, until the engine is closed. Whether there were any to load.
    pub(super) fn load_some(&self, tables: &TableSet, work: &Work) -> Result<bool> {
        let tables = tables.load_full();
        let mut loaded = 0;
        for table in tables.values() {
            let Some(load) = table.load() else { continue };
            while let Some(block) = load.next() {
                self.load_block(table, load, block, Access::Blocking)?;
                loaded += 1;
                if loaded == LOADED_AT_ONCE || work.is_closed() {
                    return Ok(true);
                }
            }
        }
        Ok(loaded > 0)
    }

    /// Loads all that is not loaded yet of all tables (LOADING-3).
    ///
    /// # Errors
    /// As [`KeyLoader::load_key`].
    pub(super) fn load_all(&self, tables: &TableSet) -> Result<()> {
        let tables = tables.load_full();
        tables.values().try_for_each(|table| self.load_table_whole(table))?;
        self.health.check()
    }

    pub(super) fn load_table_whole(&self, table: &Arc<Table>) -> Result<()> {
        let Some(load) = table.load() else { return Ok(()) };
        while let Some(block) = load.next() {
            self.load_block(table, load, block, Access::Blocking)?;
        }
        Ok(())
    }

    /// As [`crate::index::Index::collect`], and loads the blocks of the keys that the scan meets.
    ///
    /// # Errors
    /// As [`KeyLoader::load_key`].
    pub(super) fn collect_keys(
        &self,
        table: &Arc<Table>,
        scan: KeyScan<'_>,
        entries: &mut Entries,
        pin: &mut Pin<'_>,
    ) -> Result<()> {
        let KeyScan { from, until, direction, most, access } = scan;
        loop {
            let missing = match table.load() {
                None => None,
                Some(load) => pin
                    .outside(|| self.load_next(table, load, from, direction, access))?
                    .map(|missing| (load, missing)),
            };
            let Some((load, missing)) = missing else {
                table.index.collect((from, until), direction, most, entries, pin);
                return Ok(());
            };
            // The keys on this side of the block are loaded.
            let edge = match direction {
                Direction::Forward => Bound::Excluded(load.reader.first_key(missing)),
                Direction::Backward => Bound::Included(load.reader.first_key(missing + 1)),
            };
            let ends_before = is_before(until, edge, direction);
            let limit = if ends_before { until } else { edge };
            table.index.collect((from, limit), direction, most, entries, pin);
            if ends_before || entries.len() == most {
                return Ok(());
            }
            pin.outside(|| self.load_block(table, load, missing, access))?;
        }
    }

    /// Loads the block where a scan goes on. Returns the first block after it that is not loaded.
    fn load_next(
        &self,
        table: &Arc<Table>,
        load: &IndexLoad,
        from: Bound<&[u8]>,
        direction: Direction,
        access: Access,
    ) -> Result<Option<usize>> {
        let Some(last) = load.reader.blocks.len().checked_sub(1) else { return Ok(None) };
        let block = match (from, direction) {
            (Bound::Included(key) | Bound::Excluded(key), _) => load.reader.block_of(key),
            (Bound::Unbounded, Direction::Forward) => 0,
            (Bound::Unbounded, Direction::Backward) => last,
        };
        self.load_block(table, load, block, access)?;
        Ok(load.first_missing(block, direction))
    }
}

/// Keeps a replayed operation until its key's block is loaded (LOADING-2). Returns `false` if the
/// block is loaded already.
pub(super) fn defer(table: &Table, op: &DeferredOp<'_>) -> bool {
    let is_deferred = table.load().is_some_and(|load| load.defer(op));
    if is_deferred {
        table.note_insert(op.csn);
    }
    is_deferred
}

/// Whether the row of a key is in the table's array, as the checkpoint has it.
fn has_row(table: &Table, load: &IndexLoad, rid: Rid) -> bool {
    let entry = table.rows.entry(rid.slot()).filter(|_| load.may_have(rid.slot()));
    entry.is_some_and(|entry| entry.load() != Word::EMPTY)
}

/// Whether a scan ends at the one bound before it comes to the other.
fn is_before(until: Bound<&[u8]>, edge: Bound<&[u8]>, direction: Direction) -> bool {
    let (Bound::Included(end) | Bound::Excluded(end)) = until else { return false };
    let (Bound::Included(edge) | Bound::Excluded(edge)) = edge else { return false };
    match direction {
        Direction::Forward => end < edge,
        Direction::Backward => end >= edge,
    }
}
