//! Decides on the number of sub-tables of a table and their borders, and splits and joins
//! sub-tables (X-Engine, section 2).
//!
//! Sub-tables are flushed and compacted in parallel. A change of one sub-table's levels leaves the
//! others alone. When a sub-table has grown large, the engine splits it in the middle of its data.
//! The engine joins neighbours that have become small, because each sub-table costs a memtable.
//!
//! Rejected: also splitting a smaller sub-table that receives most of the writes (in the middle of
//! these writes). On two cores, a mixed workload over tables of up to 1.25 GiB then wrote 26 to 39
//! % more bytes for each operation, and ran 0.90 to 1.06 times as many operations per second
//! (`docs/benchmarks.md`).
//!
//! A split rewrites almost no data. It distributes the slices over the two halves. A slice that
//! spans the split key is cut there ([`super::slice_split`]): only its block that has keys on both
//! sides is rewritten. Both halves keep the memtables of the old sub-table, and each half flushes
//! only its own keys from these memtables. Reads and writes continue during the split: a writer
//! that finds the old memtable closed retries with the new ones.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use spillway_base::{Csn, ErrorKind, Result};

use super::Inner;
use super::change::Change;
use super::pending_extents::PendingExtents;
use super::slice_split::{cut_slices, spanning};
use crate::level::Levels;
use crate::manifest::Edit;
use crate::space::DeviceClass;
use crate::subtable::SubTable;
use crate::table::Table;

/// The figures by which tables are split and joined.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Limits {
    /// Bytes at which a sub-table is split.
    pub(super) split_bytes: u64,
    /// The most sub-tables of all tables.
    pub(super) parts_max: usize,
}

/// What to do with one of a table's sub-tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Advice {
    /// Split it in the middle of its data.
    Split(usize),
    /// Join it with the next.
    Join(usize),
}

impl Limits {
    /// The advice for a table whose sub-tables have these numbers of bytes in their levels. `all`
    /// is the number of sub-tables of all tables.
    pub(super) fn advise(&self, parts: &[u64], all: usize) -> Option<Advice> {
        let large = parts.iter().position(|bytes| *bytes >= self.split_bytes);
        if let Some(large) = large.filter(|_| all < self.parts_max) {
            return Some(Advice::Split(large));
        }
        // Far below the size at which the joined sub-table would be split again.
        let small = |pair: &[u64]| pair[0] + pair[1] < self.split_bytes / 4;
        parts.windows(2).position(small).map(Advice::Join)
    }
}

/// The key in the middle of a sub-table, by bytes: the first key of a slice of its largest run.
/// `None` if this run has too few slices.
pub(super) fn middle(levels: &Levels) -> Option<Box<[u8]>> {
    let largest = levels.runs().max_by_key(|run| run.bytes())?;
    let mut before = 0;
    let at = largest.slices().iter().position(|slice| {
        before += slice.meta.bytes;
        before * 2 > largest.bytes()
    });
    let at = at?.max(1);
    Some(largest.slices().get(at)?.meta.smallest.clone())
}

impl Inner {
    /// Splits or joins sub-tables, if that is due.
    pub(super) fn repartition(&self) -> Result<bool> {
        let tables = self.tables.load_full();
        let all: usize = tables.values().map(|table| table.parts().all().len()).sum();
        let limits = Limits {
            split_bytes: self.settings.subtable_bytes,
            parts_max: self.settings.subtables_max,
        };
        for table in tables.values().filter(|table| table.dropped() == Csn::MAX) {
            let parts = table.all_parts();
            let bytes =
                |part: &Arc<SubTable>| part.view_now().levels.runs().map(|run| run.bytes()).sum();
            let bytes: Vec<u64> = parts.iter().map(bytes).collect();
            let worked = match limits.advise(&bytes, all) {
                Some(Advice::Split(at)) => self.split(table, &parts[at])?,
                Some(Advice::Join(at)) => self.join(table, &parts[at], &parts[at + 1])?,
                None => false,
            };
            if worked {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Splits a sub-table in its middle, unless it is being worked on, or cannot be split.
    pub(super) fn split(&self, table: &Arc<Table>, part: &Arc<SubTable>) -> Result<bool> {
        let key = middle(&part.view_now().levels);
        key.map_or(Ok(false), |key| self.split_at(table, part, &key))
    }

    /// Splits a sub-table at a key.
    fn split_at(&self, table: &Arc<Table>, part: &Arc<SubTable>, key: &[u8]) -> Result<bool> {
        match self.try_split(table, part, key) {
            // A slice that must be cut cannot be read. All other work continues (E8).
            Err(error) if matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Io) => {
                self.quarantine(part, &spanning(&part.view().levels, key), &error);
                Ok(false)
            }
            split => split,
        }
    }

    fn try_split(&self, table: &Arc<Table>, part: &Arc<SubTable>, key: &[u8]) -> Result<bool> {
        let Some(_compacting) = part.take_whole() else { return Ok(false) };
        let Some(_flushing) = self.flushes.begin(part) else { return Ok(false) };
        let levels = part.view().levels.clone();
        if part.quarantined().is_some() || !part.range().contains(key) || *key == *part.start {
            return Ok(false);
        }
        let mut written = PendingExtents::begin(self, DeviceClass::Ssd)?;
        let edit = cut_slices(table, &levels, key, &mut written)?;
        written.sync()?;
        let cut = levels.apply(&edit)?;
        let mut manifest = self.persistence.record(&self.health)?;
        if table.is_gone() || !table.recorded.load(Ordering::Acquire) {
            return Ok(false);
        }
        let change = Change::of(&edit);
        let mut edits = change.edits(table, &edit, &levels.ranges);
        edits.push(Edit::Split { table: table.id, start: key.into(), csn: part.flushed() });
        written.commit(&mut manifest, edits)?;
        change.apply();
        part.close();
        let halves = part.halves(key, &cut, self.horizon.installed(), self.write_buffer.accounts());
        table.replace(&[part], halves.into());
        change.retire();
        drop(manifest);
        self.statistics.note_split();
        self.refresh_debt();
        Ok(true)
    }

    /// Joins two neighbours, unless one of them is being worked on.
    pub(super) fn join(
        &self,
        table: &Arc<Table>,
        part: &Arc<SubTable>,
        next: &Arc<SubTable>,
    ) -> Result<bool> {
        let Some(_one) = part.take_whole() else { return Ok(false) };
        let Some(_other) = next.take_whole() else { return Ok(false) };
        let Some(_flushing) = self.flushes.begin(part) else { return Ok(false) };
        let Some(_beside) = self.flushes.begin(next) else { return Ok(false) };
        let mut manifest = self.persistence.record(&self.health)?;
        let damaged = part.quarantined().or_else(|| next.quarantined()).is_some();
        if damaged || table.is_gone() || !table.recorded.load(Ordering::Acquire) {
            return Ok(false);
        }
        let start = next.start.clone();
        manifest.commit(vec![Edit::Join { table: table.id, start }])?;
        part.close();
        next.close();
        let accounts = self.write_buffer.accounts();
        let joined = part.joined(next, self.horizon.installed(), accounts);
        table.replace(&[part, next], vec![joined]);
        drop(manifest);
        self.statistics.note_join();
        self.refresh_debt();
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { split_bytes: 1600, parts_max: 8 };

    #[test]
    fn large_sub_tables_are_split_and_small_neighbours_joined() {
        let advise = |parts: &[u64], all| LIMITS.advise(parts, all);
        assert_eq!(advise(&[1599], 1), None);
        assert_eq!(advise(&[10, 1600], 2), Some(Advice::Split(1)));
        assert_eq!(advise(&[10, 1600], 8), None, "there are enough");
        assert_eq!(advise(&[10, 20, 1600], 8), Some(Advice::Join(0)), "there are enough");
        assert_eq!(advise(&[900, 190, 200], 3), Some(Advice::Join(1)));
        assert_eq!(advise(&[200, 200], 2), None);
    }

    /// A sub-table that is split is not joined again at once, and the other way round.
    #[test]
    fn advice_settles() {
        let mut rng = spillway_base::rng::Rng::new(3);
        for _ in 0..2000 {
            let mut parts: Vec<u64> = (0..1 + rng.below(6)).map(|_| rng.below(4000)).collect();
            let mut turns = 0;
            while let Some(advice) = LIMITS.advise(&parts, parts.len()) {
                match advice {
                    Advice::Split(at) => {
                        let bytes = parts[at];
                        parts[at] = bytes / 2;
                        parts.insert(at, bytes - bytes / 2);
                    }
                    Advice::Join(at) => parts[at] += parts.remove(at + 1),
                }
                turns += 1;
                assert!(turns < 20, "{parts:?}");
            }
        }
    }
}
