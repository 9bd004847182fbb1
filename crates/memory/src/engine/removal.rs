//! Removes rows that no snapshot sees any more for a reason outside their version chains: rows in
//! deleted ranges, and rows of dropped tables.
//!
//! - **REMOVAL-1 (folded).** A deleted range leaves its table only after the versions that it hides
//!   have left their chains. The range stays while the place of such a version is not known, or the
//!   record at this place cannot be read.
//! - **REMOVAL-2 (dropped).** A dropped table leaves the set of tables only after its rows are
//!   removed. From then on, the live bytes of segments include none of its rows (SEGMENT-1).

use std::ops::Bound;
use std::sync::Arc;

use spillway_base::Direction;
use spillway_base::engine::Access;

use super::put::RowWriter;
use super::table_set::TableSet;
use crate::chain::Chain;
use crate::index::Entries;
use crate::log_reads::{LogReads, RowKey};
use crate::store::Retired;
use crate::table::{DeletedRange, Table};
use crate::version::{Target, Word};

/// Rows of a range that are folded under one pin.
const FOLDED: usize = 256;

/// The parts of the engine that removals need.
pub(super) struct Removal<'e> {
    pub(super) rows: RowWriter<'e>,
    pub(super) tables: &'e TableSet,
    pub(super) log: &'e LogReads,
}

impl Removal<'_> {
    /// Removes the rows and versions that deleted ranges hide from all snapshots, and then the
    /// ranges (E10). Returns whether there were any.
    pub(super) fn fold_ranges(&self) -> bool {
        let mut any = false;
        let tables: Vec<Arc<Table>> = self.tables.load().values().cloned().collect();
        for table in tables.iter().filter(|table| table.has_ranges()) {
            for range in table.ranges().iter() {
                if range.csn <= self.rows.pins.watermark() && self.fold_range(table, range) {
                    table.forget_range(range);
                    any = true;
                }
            }
        }
        any
    }

    /// Removes tables that no snapshot sees. Returns whether there were any.
    pub(super) fn drop_tables(&self) -> bool {
        let watermark = self.rows.pins.watermark();
        let gone = |table: &&Arc<Table>| table.dropped() <= watermark;
        let gone: Vec<Arc<Table>> = self.tables.load().values().filter(gone).cloned().collect();
        let mut any = false;
        for table in gone.iter().filter(|table| self.rows.empty_table(table)) {
            self.tables.remove(table.id);
            any = true;
        }
        any
    }

    /// Removes the versions that a range hides from all snapshots. `false` if some cannot be
    /// removed yet.
    fn fold_range(&self, table: &Arc<Table>, range: &DeletedRange) -> bool {
        let store = self.rows.store;
        let (mut entries, mut last, mut whole) = (Entries::default(), None::<Vec<u8>>, true);
        loop {
            let from = match &last {
                Some(last) => Bound::Excluded(last.as_slice()),
                None => Bound::Included(range.start.as_slice()),
            };
            let until = range.end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let pin = store.pin();
            table.index.collect((from, until), Direction::Forward, FOLDED, &mut entries, &pin);
            for at in 0..entries.len() {
                whole &= self.fold_row(table, entries.key(at), range);
            }
            let Some(end) = entries.len().checked_sub(1) else { return whole };
            last = Some(entries.key(end).to_vec());
        }
    }

    /// Removes the versions of a row that a range hides. `false` if some cannot be removed yet.
    fn fold_row(&self, table: &Arc<Table>, key: &[u8], range: &DeletedRange) -> bool {
        let store = self.rows.store;
        let mut pin = store.pin();
        let Some(rid) = table.index.get(key, &pin) else { return true };
        // A place has no CSN, so the record is read.
        let mut cold = table.rows.entry(rid.slot()).map_or(Word::EMPTY, |entry| entry.load());
        while let Target::Version(at) = cold.target() {
            cold = store.version(at, &pin).next();
        }
        let cold = cold.as_place();
        let hidden = match cold {
            Some(place) => {
                let mut value = Vec::new();
                let row = RowKey { table: table.id, key };
                let read = pin.outside(|| self.log.read(row, place, Access::Blocking, &mut value));
                match read {
                    Ok(csn) => csn <= range.upto,
                    Err(_) => return false,
                }
            }
            None => false,
        };
        let Some(rid) = table.index.get(key, &pin) else { return true };
        let mut entry = table.rows.lock(rid.slot());
        let mut retired = Vec::new();
        // Finds the first hidden version, and the version above it.
        let (mut above, mut word) = (None, entry.word());
        let first = loop {
            match word.target() {
                Target::Version(at) => {
                    let version = store.version(at, &pin);
                    if version.csn() <= range.upto {
                        break word;
                    }
                    above = Some(at);
                    word = version.next();
                }
                Target::Place(place) if Some(place) == cold && hidden => break word,
                Target::Place(place) if Some(place) != cold => return false,
                Target::Place(_) | Target::Empty => return true,
            }
        };
        let mut word = first;
        while let Target::Version(at) = word.target() {
            if store.version(at, &pin).place().is_err() {
                return false;
            }
            word = store.version(at, &pin).next();
        }
        if let Target::Place(place) = word.target()
            && (Some(place) != cold || !hidden)
        {
            return false;
        }
        match above {
            Some(above) => store.version(above, &pin).set_next(Word::EMPTY),
            None => {
                entry.set(Word::EMPTY);
                table.index.remove(key, rid, &pin);
                retired.push(Retired::Slot(table.clone(), rid));
            }
        }
        let chain = Chain { store, segments: self.rows.segments, entry: &mut entry, pin: &pin };
        chain.retire_from(first, &mut retired);
        drop(entry);
        store.retire(retired);
        true
    }
}
