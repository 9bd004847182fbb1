//! The memory of the memtables, and when a memtable is sealed. The page of [`super`] states the
//! rules (section "Memory").
//!
//! - **WRITE-BUFFER-1 (order).** A sealed memtable has a CSN up to which all commits were installed
//!   when it was sealed. The CSN is read after the sub-table's lock is taken and before the new
//!   memtable is visible. So no commit up to this CSN is in the new memtable.

use std::sync::Arc;

use spillway_base::Csn;
use spillway_base::engine::Horizon;

use super::table_set::TableSet;
use crate::memtable::Accounts;
use crate::settings::TieredSettings;
use crate::subtable::SubTable;

/// The memory of an engine's memtables.
pub(super) struct WriteBuffer {
    accounts: Accounts,
    horizon: Arc<dyn Horizon>,
    /// The bytes at which a memtable is sealed.
    memtable_bytes: usize,
    /// The bytes of all memtables.
    limit: usize,
}

impl WriteBuffer {
    pub(super) fn new(
        settings: &TieredSettings,
        accounts: Accounts,
        horizon: Arc<dyn Horizon>,
    ) -> WriteBuffer {
        let (memtable_bytes, limit) = (settings.memtable_bytes, settings.memtables_bytes);
        WriteBuffer { accounts, horizon, memtable_bytes, limit }
    }

    /// The accounts of the memtables.
    pub(super) fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// The bytes that all memtables may take.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// The bytes of the memtables that are to be flushed.
    pub(super) fn unflushed(&self) -> usize {
        self.accounts.unflushed.used()
    }

    /// Whether memtables may take this many more bytes, if they may take `limit` bytes in all.
    #[inline]
    pub(super) fn has_room(&self, bytes: usize, limit: usize) -> bool {
        // Memory that only a slow reader holds does not count, because no flush would free it.
        self.accounts.unflushed.used() + bytes <= limit
    }

    /// How far flushes are behind, from 0; 1 is the limit.
    pub(super) fn flush_debt(&self) -> f64 {
        let share = self.accounts.unflushed.used() as f64 / self.limit as f64;
        // Memtables may fill half of their share. Above that, flushes are behind.
        (2.0 * share - 1.0).max(0.0)
    }

    /// Seals a sub-table's memtable if it is full after an insertion. `bytes` is what it now takes.
    #[inline]
    pub(super) fn inserted(&self, part: &SubTable, bytes: usize) -> bool {
        bytes > self.memtable_bytes && self.seal_if_full(part)
    }

    /// Seals a sub-table's memtable if it is full. Returns whether it did.
    pub(super) fn seal_if_full(&self, part: &SubTable) -> bool {
        let active = part.view().active.clone();
        active.is_full(self.memtable_bytes)
            && part.switch(&active, &self.accounts, || self.horizon.installed())
    }

    /// Seals memtables that are full or hold back the log: those with commits up to `requested`. If
    /// all memtables together take too much memory, seals the largest. Returns whether it sealed
    /// any.
    pub(super) fn seal_due(&self, tables: &TableSet, requested: Csn) -> bool {
        let parts = tables.all_parts();
        let total: usize = parts.iter().map(|(_, part)| part.memory_bytes()).sum();
        let waiting = parts.iter().any(|(_, part)| !part.view().immutables.is_empty());
        let crowded = total > self.limit / 2 && !waiting;
        let actives = parts.iter().map(|(_, part)| part.view().active.bytes());
        let largest = actives.max().unwrap_or(0);
        let mut switched = false;
        for (_, part) in &parts {
            let view = part.view();
            let active = &view.active;
            let full = active.is_full(self.memtable_bytes);
            // While an older memtable waits to be flushed, that one holds back the log, so sealing
            // this one would not help.
            let pins =
                !active.is_empty() && active.csn_min() <= requested && view.immutables.is_empty();
            if full || pins || (crowded && active.bytes() == largest) {
                switched |= part.switch(active, &self.accounts, || self.horizon.installed());
            }
        }
        switched
    }
}
