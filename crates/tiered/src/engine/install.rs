//! Installs commits: adds their writes to memtables, and to the row cache.
//!
//! An insertion finds the sub-table of its key without a lock. If the sub-table was split or joined
//! meanwhile, or its memtable was sealed, the insertion tries again with the new sub-table or
//! memtable. An installation skips a write that is already persistent (E3), so a replay of the log
//! may begin with an earlier commit.

use spillway_base::batch::{Op, WriteBatch};
use spillway_base::{Csn, EngineKind};

use super::persistence::Persistence;
use super::table_set::{TableSet, Tables};
use super::wakeups::Wakeups;
use super::write_buffer::WriteBuffer;
use crate::cache::RowCache;
use crate::filter;
use crate::ranges::{Mark, RangeTombstones};
use crate::table::Table;

/// The parts of an engine that an installation changes.
pub(super) struct Installer<'a> {
    pub(super) tables: &'a TableSet,
    pub(super) persistence: &'a Persistence,
    pub(super) write_buffer: &'a WriteBuffer,
    pub(super) rows: Option<&'a RowCache>,
    pub(super) wakeups: &'a Wakeups,
}

impl Installer<'_> {
    /// Installs a commit.
    pub(super) fn install(&self, csn: Csn, batch: &WriteBatch) {
        let mut tables = self.tables.load();
        let mut ops = batch.iter().peekable();
        while let Some(op) = ops.next() {
            let id = op.table();
            if id.engine() != Some(EngineKind::Tiered) {
                continue;
            }
            if let Op::CreateTable(id) = op {
                // E3: replaying the log does not recreate a table that was dropped and forgotten.
                if self.persistence.knows(csn) {
                    continue;
                }
                self.tables.create(id, csn);
                tables = self.tables.load();
                self.wakeups.announce_work();
                continue;
            }
            if let (Op::DropTable(_), Some(table)) = (op, tables.get(&id)) {
                table.mark_dropped(csn);
                self.wakeups.announce_work();
                continue;
            }
            let mut next = Some(op);
            let mut ranges = Vec::new();
            while let Some(Op::DeleteRange { range, upto, .. }) = next {
                ranges.push(RangeTombstones::one(range, Mark::new(csn, upto)));
                let more =
                    |op: &Op<'_>| matches!(op, Op::DeleteRange { table, .. } if *table == id);
                next = ops.next_if(more);
            }
            if ranges.is_empty() {
                self.write(&tables, csn, op);
            } else if let Some(table) = tables.get(&id) {
                self.write_ranges(table, csn, &RangeTombstones::all(ranges));
            }
        }
    }

    /// Adds a put or a delete to its table, if the table exists and the write is not persistent
    /// already (E3).
    pub(super) fn write(&self, tables: &Tables, csn: Csn, op: Op<'_>) {
        let (id, key, value) = match op {
            Op::Put { table, key, value } => (table, key, Some(value)),
            Op::Delete { table, key } => (table, key, None),
            Op::DeleteRange { .. } | Op::CreateTable(_) | Op::DropTable(_) => return,
        };
        let Some(table) = tables.get(&id) else { return };
        let rows = self.rows.map(|rows| (rows, filter::hash(key)));
        if let Some((rows, hash)) = rows {
            rows.prefetch(hash);
        }
        loop {
            let parts = table.parts();
            let part = parts.of(key);
            if csn <= part.flushed() {
                return;
            }
            let Some(bytes) = part.insert(key, csn, value) else {
                spillway_base::sync::hint::spin_loop();
                continue;
            };
            if let Some((rows, hash)) = rows {
                rows.replace(id, hash, key, csn, value);
            }
            if self.write_buffer.inserted(part, bytes) {
                self.wakeups.announce_work();
            }
            return;
        }
    }

    /// Adds range tombstones of a commit to each sub-table that they overlap, by the rules of
    /// [`Installer::write`].
    fn write_ranges(&self, table: &Table, csn: Csn, ranges: &RangeTombstones) {
        let Some(range) = ranges.hull() else { return };
        loop {
            let parts = table.parts();
            let needed = parts.within(range).iter().filter(|part| csn > part.flushed());
            // If one of the sub-tables was replaced, all are tried again. Adding the tombstones
            // again is harmless.
            let mut written = needed.map(|part| {
                let here = ranges.within(part.range());
                if here.is_empty() {
                    return Some(());
                }
                part.insert_ranges(csn, &here)?;
                if self.write_buffer.seal_if_full(part) {
                    self.wakeups.announce_work();
                }
                Some(())
            });
            if written.all(|done| done.is_some()) {
                if let Some(rows) = self.rows {
                    table.begin_era(rows);
                }
                return;
            }
            spillway_base::sync::hint::spin_loop();
        }
    }
}
