//! Counters of tables: AUTO_INCREMENT numbers, and the hidden row numbers of tables without a
//! primary key.
//!
//! Counters are in memory. A restart must not give the same AUTO_INCREMENT number again, even if
//! the row with that number was deleted. So for each table the catalog keeps a bound above all
//! numbers given. Before a table gives a number that reaches the bound, a separate transaction
//! raises the bound by a block of numbers. No statement waits until the raised bound is durable.
//! Such a wait is not needed: the transaction that uses the number commits later, and recovery
//! never keeps a commit without all earlier ones.
//!
//! A clean shutdown lowers the bound to the next number. After a crash, the unused numbers of the
//! block are skipped. A block has as many numbers as the table has given since the opening, but at
//! least [`BLOCK_MIN`] and at most [`BLOCK_MAX`].

use std::collections::HashMap;

use rustc_hash::FxHashSet;
use spillway::{Database, Transaction, TransactionOptions};
use spillway_base::lock::Mutex;

use crate::catalog::{Change, IndexPart, TableDef, unawaited};
use crate::errors::Result;
use crate::expression::Step;

const BLOCK_MIN: u64 = 4;
const BLOCK_MAX: u64 = 256;

/// The numbers of one AUTO_INCREMENT column.
struct Counter {
    first: u64,
    next: u64,
    /// Numbers below this bound may be given.
    reserved: u64,
}

impl Counter {
    /// A new bound, above `number` and a block of numbers after it.
    fn bound_past(&self, number: u64) -> u64 {
        let given = number.saturating_sub(self.first);
        number.saturating_add(given.clamp(BLOCK_MIN, BLOCK_MAX))
    }
}

/// The counters of all tables, in memory.
#[derive(Default)]
pub(super) struct Counters {
    auto_increment: Mutex<HashMap<u32, Counter>>,
    rows: Mutex<HashMap<u32, u64>>,
    /// Held while a bound is raised. `auto_increment` is locked after it.
    reserving: Mutex<()>,
}

impl Counters {
    /// Forgets the counters of changed tables: both counters of `restarted` tables, and the row
    /// numbers of `renumbered` tables.
    pub(super) fn forget(&self, restarted: &[u32], renumbered: &[u32]) {
        let restarted: FxHashSet<u32> = restarted.iter().copied().collect();
        self.auto_increment.lock().retain(|table, _| !restarted.contains(table));
        let mut rows = self.rows.lock();
        rows.retain(|table, _| !restarted.contains(table) && !renumbered.contains(table));
    }

    /// Returns the number of a new row in a table without a primary key.
    pub(super) fn next_row_number(
        &self,
        db: &Database,
        txn: &Transaction,
        table: &TableDef,
    ) -> Result<u64> {
        if let Some(next) = self.rows.lock().get_mut(&table.id) {
            *next += 1;
            return Ok(*next);
        }
        let last = last_key(db, txn, table.rows())?;
        let last = last.and_then(|key| key.first_chunk().copied()).map_or(0, u64::from_be_bytes);
        let mut rows = self.rows.lock();
        let next = rows.entry(table.id).or_insert(last);
        *next = (*next).max(last) + 1;
        Ok(*next)
    }

    /// Returns the next number of a table's AUTO_INCREMENT column.
    pub(super) fn next_auto_increment(
        &self,
        db: &Database,
        txn: &Transaction,
        table: &TableDef,
        step: Step,
    ) -> Result<u64> {
        loop {
            self.load_auto_increment(db, txn, table)?;
            let wanted = {
                let mut counters = self.auto_increment.lock();
                let Some(counter) = counters.get_mut(&table.id) else { continue };
                let given = step.at_or_after(counter.next);
                if given < counter.reserved || given == u64::MAX {
                    counter.next = given.saturating_add(1);
                    return Ok(given);
                }
                given
            };
            self.reserve(db, table, wanted)?;
        }
    }

    /// Makes the counter continue after a number that a statement gave explicitly.
    pub(super) fn note_auto_increment(
        &self,
        db: &Database,
        txn: &Transaction,
        table: &TableDef,
        given: u64,
    ) -> Result<()> {
        self.load_auto_increment(db, txn, table)?;
        let after = given.saturating_add(1);
        let known = |counter: &mut Counter| {
            counter.next = counter.next.max(after);
            counter.next <= counter.reserved
        };
        if self.auto_increment.lock().get_mut(&table.id).is_none_or(known) {
            return Ok(());
        }
        self.reserve(db, table, given)
    }

    /// Raises a table's bound above `number`.
    fn reserve(&self, db: &Database, table: &TableDef, number: u64) -> Result<()> {
        let _one_at_a_time = self.reserving.lock();
        let bound = match self.auto_increment.lock().get(&table.id) {
            Some(counter) if counter.reserved <= number => counter.bound_past(number),
            _ => return Ok(()),
        };
        put_bound(db, table.id, bound)?;
        if let Some(counter) = self.auto_increment.lock().get_mut(&table.id) {
            counter.reserved = counter.reserved.max(bound);
        }
        Ok(())
    }

    /// The next number, as SHOW CREATE TABLE shows it.
    pub(super) fn auto_increment_of(&self, db: &Database, table: &TableDef) -> u64 {
        let known = self.auto_increment.lock().get(&table.id).map(|known| known.next);
        known.unwrap_or_else(|| {
            let txn = db.begin(TransactionOptions::new().read_only(true));
            self.stored_auto_increment(db, &txn, table).unwrap_or(table.auto_increment)
        })
    }

    fn load_auto_increment(
        &self,
        db: &Database,
        txn: &Transaction,
        table: &TableDef,
    ) -> Result<()> {
        if self.auto_increment.lock().contains_key(&table.id) {
            return Ok(());
        }
        let next = self.stored_auto_increment(db, txn, table)?;
        let fresh = || Counter { first: next, next, reserved: next };
        self.auto_increment.lock().entry(table.id).or_insert_with(fresh);
        Ok(())
    }

    /// The next number by the stored data: not below the bound, and above the largest number of a
    /// row.
    fn stored_auto_increment(
        &self,
        db: &Database,
        txn: &Transaction,
        table: &TableDef,
    ) -> Result<u64> {
        let Some(column) = table.auto_column() else { return Ok(1) };
        let leads = |parts: &[IndexPart]| parts.first().is_some_and(|part| part.column == column);
        let space = if leads(&table.primary) {
            Some(table.rows())
        } else {
            let index = table.indexes.iter().find(|index| leads(&index.parts));
            index.map(|index| spillway_base::TableId(index.space))
        };
        let fresh = db.begin(unawaited().read_only(true));
        let bound = Change::new(&fresh)?.auto_increment_bound(table.id)?;
        let mut next = table.auto_increment.max(bound).max(1);
        if let Some(space) = space
            && let Some(key) = last_key(db, txn, space)?
            && let Some(bytes) = key.get(1..9).and_then(|rest| rest.first_chunk::<8>())
        {
            let mut number = u64::from_be_bytes(*bytes);
            let unsigned = table.columns[column].ty.is_unsigned();
            if !unsigned {
                number ^= 1 << 63;
            }
            if unsigned || (number as i64) > 0 {
                next = next.max(number.saturating_add(1));
            }
        }
        Ok(next)
    }

    /// Lowers the stored bounds to the numbers that were given.
    pub(super) fn give_back(&self, db: &Database) {
        let _nobody_reserves = self.reserving.lock();
        for (table, counter) in self.auto_increment.lock().drain() {
            if counter.next < counter.reserved {
                // If this fails, the numbers are skipped.
                let _ = put_bound(db, table, counter.next);
            }
        }
    }
}

/// Stores a table's bound. The bound is durable once any later commit is.
fn put_bound(db: &Database, table: u32, bound: u64) -> Result<()> {
    let txn = db.begin(unawaited());
    Change::new(&txn)?.put_auto_increment_bound(table, bound)?;
    txn.commit().wait()?;
    Ok(())
}

/// The last key of a key space in the newest state, including the transaction's own writes.
fn last_key(db: &Database, txn: &Transaction, space: spillway::Table) -> Result<Option<Vec<u8>>> {
    let fresh = db.begin(TransactionOptions::new().read_only(true));
    let mut best: Option<Vec<u8>> = None;
    for from in [&fresh, txn] {
        match from.scan(space, spillway::KeyRange::ALL, spillway::Direction::Backward) {
            Ok(mut scan) => {
                if scan.advance()? {
                    best = best.max(Some(scan.key().to_vec()));
                }
            }
            Err(error) if error.kind() == spillway::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(best)
}
