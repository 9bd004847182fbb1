//! The storage of tables, as tables of information_schema: sub-tables and their levels, slices, the
//! latest compactions, and an HTML page that draws all these (`TIERED_PICTURE`). The guarantees say
//! which users see the sizes and counts, called figures below, and which see the keys at which
//! sub-tables and slices begin and end.
//!
//! # Guarantees
//!
//! - **SIGHT-1.** A key of a table's rows, or of one of its indexes, is shown only to users with
//!   SELECT on the table, because the key consists of values of the table. These users also see the
//!   figures of the table.
//! - **SIGHT-2.** A user with PROCESS sees the figures of all key spaces. Where SIGHT-1 or SIGHT-3
//!   hides a key, NULL takes its place. The HTML page draws key ranges, so it leaves out the key
//!   spaces whose keys are hidden.
//! - **SIGHT-3.** A key space that belongs to no table, such as the catalog, shows its keys only to
//!   users with PROCESS and with SELECT on everything.

use std::collections::HashSet;

use spillway::{
    CompactionRecord, Inspection, LevelSpace, SliceInspection, SubTableInspection, Table,
};
use spillway_inspect::{Format, Names, Report};
use spillway_types::Value;

use super::labels::Labels;
use crate::api::{int, text};
use crate::catalog::{Catalog, UserDef, utc};
use crate::expression::Server;

/// Which key spaces have keys that a user may see (SIGHT-1, SIGHT-3).
pub(crate) struct Readable<'a> {
    user: Option<&'a UserDef>,
    labels: &'a Labels,
}

impl<'a> Readable<'a> {
    pub(crate) fn new(user: Option<&'a UserDef>, labels: &'a Labels) -> Readable<'a> {
        Readable { user, labels }
    }

    /// Whether the user may see keys of this key space; of an unknown one if it is `None`.
    pub(crate) fn is(&self, table: Option<Table>) -> bool {
        let Some(user) = self.user else { return false };
        match table.and_then(|table| self.labels.place_of(table)) {
            Some([db, ..]) => user.may("SELECT", db),
            None => user.may_everywhere("SELECT") && user.may_everywhere("PROCESS"),
        }
    }
}

/// The part of the storage that a user may see.
pub(super) struct VisibleStorage {
    labels: Labels,
    inspection: Inspection,
    /// The visible key spaces whose keys the user may not see.
    keyless: HashSet<u32>,
}

impl VisibleStorage {
    /// `catalog` is the part of the catalog that the user sees.
    pub(super) fn seen_by(
        user: Option<&UserDef>,
        server: &dyn Server,
        catalog: &Catalog,
    ) -> VisibleStorage {
        let labels = Labels::of(catalog);
        let mut inspection = server.database().inspect();
        let all = user.is_some_and(|user| user.may_everywhere("PROCESS"));
        let readable = Readable::new(user, &labels);
        let mut keyless = HashSet::new();
        let mut seen = |table: Table| {
            let is_readable = readable.is(Some(table));
            if !is_readable {
                keyless.insert(table.0);
            }
            all || is_readable
        };
        retain(&mut inspection, &mut seen);
        VisibleStorage { labels, inspection, keyless }
    }

    fn place(&self, table: Table) -> [Value; 3] {
        match self.labels.place_of(table) {
            Some(place) => place.map(text),
            None => [Value::Null, text(self.labels.table(table)), Value::Null],
        }
    }

    fn key(&self, table: Table, key: &[u8]) -> Value {
        match self.keyless.contains(&table.0) {
            true => Value::Null,
            false => text(self.labels.key(table, key)),
        }
    }

    fn parts(&self) -> impl Iterator<Item = (Table, usize, &SubTableInspection)> {
        self.inspection.tables.iter().flat_map(|table| {
            let parts = table.subtables.iter().enumerate();
            parts.map(|(at, part)| (table.space.table, at + 1, part))
        })
    }

    pub(super) fn levels(&self) -> Vec<Vec<Value>> {
        let mut rows = Vec::new();
        for (table, at, part) in self.parts() {
            let memory: u64 = part.memtables.iter().map(|memtable| memtable.bytes).sum();
            for (number, level) in part.levels.iter().enumerate() {
                let mut row = self.place(table).to_vec();
                row.push(int(at as u64));
                row.push(match &part.start[..] {
                    [] => Value::Null,
                    start => self.key(table, start),
                });
                row.push(part.end.as_deref().map_or(Value::Null, |end| self.key(table, end)));
                let sublevels = if number == 0 { part.sublevels } else { 0 };
                let memtables = part.memtables.len() as u64;
                row.extend([memtables, memory, number as u64, sublevels].map(int));
                row.extend(level_values(level).map(int));
                rows.push(row);
            }
        }
        rows
    }

    pub(super) fn slices(&self) -> Vec<Vec<Value>> {
        let all = self.parts().flat_map(|(table, at, part)| {
            part.slices.iter().map(move |slice| self.slice(table, at, slice))
        });
        all.collect()
    }

    fn slice(&self, table: Table, part: usize, slice: &SliceInspection) -> Vec<Value> {
        let mut row = self.place(table).to_vec();
        row.extend([int(part as u64), int(slice.level)]);
        row.push(if slice.level == 0 { int(slice.sublevel) } else { Value::Null });
        row.push(int(slice.extent));
        row.extend([slice.first_block, slice.blocks, slice.extent_blocks].map(int));
        row.extend([&slice.smallest, &slice.largest].map(|key| self.key(table, key)));
        let figures = [
            slice.block_bytes,
            slice.slot_bytes,
            slice.dead_bytes,
            slice.payload_bytes,
            slice.versions,
            slice.keys,
            slice.tombstones,
        ];
        row.extend(figures.map(int));
        row.extend([text(slice.coding), text(slice.class.name())]);
        row.push(slice.temperature.map_or(Value::Null, int));
        row
    }

    pub(super) fn compactions(&self) -> Vec<Vec<Value>> {
        let all = self.inspection.compactions.iter().flatten();
        all.map(|record| self.compaction(record)).collect()
    }

    fn compaction(&self, of: &CompactionRecord) -> Vec<Value> {
        let mut row = vec![int(of.number), text(of.kind.to_string())];
        row.extend(self.place(of.table));
        row.extend([&of.smallest, &of.largest].map(|key| self.key(of.table, key)));
        row.push(int(of.level));
        row.push(text(Value::DateTime(utc(of.ended.as_micros() as i64)).to_text()));
        let figures = [
            of.took.as_micros() as u64,
            of.input_slices,
            of.input_bytes,
            of.relinked_slices,
            of.relinked_bytes,
            of.carried_blocks,
            of.carried_bytes,
            of.merged_blocks,
            of.merged_bytes,
            of.written_extents,
            of.written_bytes,
        ];
        row.extend(figures.map(int));
        row
    }

    pub(super) fn picture(&self) -> Vec<Vec<Value>> {
        let mut inspection = self.inspection.clone();
        retain(&mut inspection, &mut |table| !self.keyless.contains(&table.0));
        let (inspection, names) = (&inspection, &self.labels);
        let report = Report { inspection, memory: None, names, title: "a running server" };
        vec![vec![text(report.written(Format::Html))]]
    }
}

/// Removes the entries of all key spaces but those for which `keep` returns `true`.
fn retain(inspection: &mut Inspection, keep: &mut dyn FnMut(Table) -> bool) {
    inspection.tables.retain(|table| keep(table.space.table));
    if let Some(compactions) = &mut inspection.compactions {
        compactions.retain(|record| keep(record.table));
    }
}

fn level_values(level: &LevelSpace) -> [u64; 11] {
    [
        level.slices,
        level.extents,
        level.versions,
        level.tombstones,
        level.payload_bytes,
        level.block_bytes,
        level.slot_bytes,
        level.dead_bytes,
        level.slack_bytes,
        level.hot_bytes,
        level.cold_bytes,
    ]
}
