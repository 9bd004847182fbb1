//! Decides on the number of sub-tables of a table and their borders, and splits and joins
//! sub-tables (X-Engine, section 2).
//!
//! Sub-tables are flushed and compacted in parallel, and a change of one sub-table's levels leaves
//! the others alone. The engine splits a sub-table in two cases:
//!
//! - The sub-table has grown large. It is split in the middle of its data.
//! - The sub-table is smaller, but receives much of the write load: more than one and a half times
//!   the share that each core would have if all writes were spread evenly over the cores. It is
//!   split in the middle of its writes.
//!
//! The engine joins neighbours that have become small and are hardly written, because each
//! sub-table costs a memtable. Very small neighbours are joined even if they are written. The write
//! load is counted from the opening. So until a half-life of bytes has been flushed
//! ([`TieredSettings::half_life`]), the engine does not know which sub-tables are hardly written.
//!
//! A split rewrites almost no data. It distributes the slices over the two halves. A slice that
//! spans the split key is cut ([`super::slice_split`]): only its block with the key is rewritten.
//! Both halves keep the memtables of the old sub-table, and each half flushes only its own keys of
//! them. Reads and writes continue during the split: a writer that finds the old memtable closed
//! retries with the new ones.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use spillway_base::{Csn, ErrorKind, Result};

use super::Inner;
use super::change::Change;
use super::pending_extents::PendingExtents;
use super::slice_split::{cut_slices, spanning};
use crate::level::Levels;
use crate::manifest::Edit;
use crate::settings::TieredSettings;
use crate::space::DeviceClass;
use crate::subtable::SubTable;
use crate::table::Table;

/// The figures of a sub-table by which it is split or joined.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Stat {
    /// Bytes in its levels.
    pub(super) bytes: u64,
    /// Its share of the writes to all tables, from 0 to 1.
    pub(super) heat: f64,
}

/// The figures by which tables are split and joined.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Limits {
    /// Bytes at which a sub-table is split.
    pub(super) split_bytes: u64,
    /// Bytes from which on a sub-table may be split because it receives many writes.
    pub(super) hot_bytes: u64,
    /// The number of sub-tables over which writes should be spread.
    pub(super) spread: usize,
    /// The most sub-tables of all tables.
    pub(super) parts_max: usize,
    /// Whether enough has been written since the opening to know that a sub-table without heat is
    /// cold.
    pub(super) knows_cold: bool,
}

/// What to do with one of a table's sub-tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Advice {
    /// Split it in the middle of its data.
    Split(usize),
    /// Split it in the middle of its writes.
    SplitHot(usize),
    /// Join it with the next.
    Join(usize),
}

impl Limits {
    fn of(settings: &TieredSettings, knows_cold: bool) -> Limits {
        Limits {
            split_bytes: settings.subtable_bytes,
            hot_bytes: settings.subtable_bytes / 16,
            spread: settings.write_cores,
            parts_max: settings.subtables_max,
            // With one core, no sub-table is split for its heat.
            knows_cold: knows_cold || settings.write_cores <= 1,
        }
    }

    /// The advice for a table. `all` is the number of sub-tables of all tables. `spreads` returns
    /// whether a split of a sub-table would spread its writes over both halves. It is called only
    /// for sub-tables that are large and hot enough.
    pub(super) fn advise(
        &self,
        parts: &[Stat],
        all: usize,
        spreads: impl Fn(usize) -> bool,
    ) -> Option<Advice> {
        let is_hot = |part: &Stat| part.heat * self.spread as f64 > 1.5;
        let hot = |at: &usize| {
            let part = &parts[*at];
            part.bytes >= self.hot_bytes && is_hot(part) && spreads(*at)
        };
        if all < self.parts_max {
            let large = parts.iter().position(|part| part.bytes >= self.split_bytes);
            let hot = || (0..parts.len()).find(hot).map(Advice::SplitHot);
            if let Some(advice) = large.map(Advice::Split).or_else(hot) {
                return Some(advice);
            }
        }
        let small = |pair: &[Stat]| {
            let (bytes, heat) = (pair[0].bytes + pair[1].bytes, pair[0].heat + pair[1].heat);
            let joined = Stat { bytes, heat };
            // Far below the size at which the joined sub-table would be split again.
            joined.bytes < self.split_bytes / 4
                && (joined.bytes < self.hot_bytes / 4 || self.knows_cold && !is_hot(&joined))
        };
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
        let flushed = self.statistics.flushed_bytes();
        let half_life = self.settings.half_life();
        let limits = Limits::of(&self.settings, flushed >= half_life);
        let heat = |part: &SubTable| part.write_load.after(flushed, half_life);
        let heats = tables.values().flat_map(|table| table.all_parts());
        let sum: f64 = heats.map(|part| heat(&part)).sum::<f64>().max(half_life as f64 / 4.0);
        for table in tables.values().filter(|table| table.dropped() == Csn::MAX) {
            let parts = table.all_parts();
            let stats: Vec<Stat> = parts
                .iter()
                .map(|part| {
                    let bytes = part.view_now().levels.runs().map(|run| run.bytes()).sum();
                    Stat { bytes, heat: heat(part) / sum }
                })
                .collect();
            let spreads = |at: usize| parts[at].write_load.middle().is_some();
            let worked = match limits.advise(&stats, all, spreads) {
                Some(Advice::Split(at)) => self.split(table, &parts[at])?,
                Some(Advice::SplitHot(at)) => match parts[at].write_load.middle() {
                    Some(key) => self.split_at(table, &parts[at], &key)?,
                    None => false,
                },
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
        let joined = part.joined(
            next,
            self.horizon.installed(),
            self.settings.half_life(),
            self.write_buffer.accounts(),
        );
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

    const LIMITS: Limits =
        Limits { split_bytes: 1600, hot_bytes: 100, spread: 4, parts_max: 8, knows_cold: true };

    fn stats(parts: &[(u64, f64)]) -> Vec<Stat> {
        parts.iter().map(|&(bytes, heat)| Stat { bytes, heat }).collect()
    }

    fn advise(parts: &[(u64, f64)], all: usize) -> Option<Advice> {
        LIMITS.advise(&stats(parts), all, |_| true)
    }

    #[test]
    fn the_large_and_the_hot_are_split_and_small_neighbours_joined() {
        assert_eq!(advise(&[(1599, 0.0)], 1), None);
        assert_eq!(advise(&[(10, 0.0), (1600, 0.0)], 2), Some(Advice::Split(1)));
        assert_eq!(advise(&[(1600, 0.0)], 8), None, "there are enough");
        // Hot: more than one and a half times the share of each of four.
        assert_eq!(advise(&[(100, 1.0)], 1), Some(Advice::SplitHot(0)));
        let appended = stats(&[(100, 1.0)]);
        let advice = LIMITS.advise(&appended, 1, |_| false);
        assert_eq!(advice, None, "one half would have all the writes");
        assert_eq!(advise(&[(99, 1.0)], 1), None, "too small to matter");
        assert_eq!(advise(&[(300, 0.37), (300, 0.37)], 2), None);
        assert_eq!(advise(&[(900, 0.0), (190, 0.0), (200, 0.0)], 3), Some(Advice::Join(1)));
        assert_eq!(advise(&[(190, 0.3), (200, 0.3)], 2), None, "it would be split again");
        let opened = Limits { knows_cold: false, ..LIMITS };
        let opened = |parts| opened.advise(&stats(parts), 2, |_| true);
        assert_eq!(opened(&[(190, 0.0), (200, 0.0)]), None, "who knows what it was before");
        assert_eq!(opened(&[(12, 0.9), (12, 0.0)]), Some(Advice::Join(0)), "even if it is hot");
    }

    /// The marks of writes are read only for sub-tables that would be split for them.
    #[test]
    fn only_the_large_and_hot_are_asked_where_their_writes_fall() {
        let asked = std::cell::RefCell::new(Vec::new());
        let spreads = |at| {
            asked.borrow_mut().push(at);
            false
        };
        let parts = stats(&[(99, 0.9), (700, 0.0), (700, 0.4), (100, 0.5), (900, 0.37)]);
        assert_eq!(LIMITS.advise(&parts, 5, spreads), None);
        assert_eq!(asked.take(), [2, 3]);
        assert_eq!(LIMITS.advise(&parts, 8, spreads), None);
        assert!(asked.take().is_empty(), "there are enough");
    }

    /// A sub-table that is split is not joined again at once, and the other way round.
    #[test]
    fn advice_settles() {
        let mut rng = spillway_base::rng::Rng::new(3);
        for _ in 0..2000 {
            let mut parts: Vec<(u64, f64)> = (0..1 + rng.below(6))
                .map(|_| (rng.below(4000), rng.below(100) as f64 / 300.0))
                .collect();
            let mut turns = 0;
            while let Some(advice) = advise(&parts, parts.len()) {
                match advice {
                    Advice::Split(at) | Advice::SplitHot(at) => {
                        let (bytes, heat) = parts[at];
                        parts[at] = (bytes / 2, heat / 2.0);
                        parts.insert(at, (bytes - bytes / 2, heat / 2.0));
                    }
                    Advice::Join(at) => {
                        let (bytes, heat) = parts.remove(at + 1);
                        parts[at] = (parts[at].0 + bytes, parts[at].1 + heat);
                    }
                }
                turns += 1;
                assert!(turns < 20, "{parts:?}");
            }
        }
    }
}
