//! INSERT ... SELECT, UPDATE and DELETE of any number of rows.
//!
//! There are two methods. If it is safe, a statement changes each row as soon as it finds the row.
//! Otherwise the statement finds all rows before it changes any of them.
//!
//! - An UPDATE changes each row as soon as it has found and locked the row, if the changes cannot
//!   affect which rows it finds next. The UPDATE must have no ORDER BY and no LIMIT. It must change
//!   no column of the primary key or of an index that the scan may use. Its conditions and values
//!   must not contain a subquery or an assignment to a user variable.
//! - A DELETE without ORDER BY and LIMIT deletes each row as soon as it has found and locked the
//!   row, if it scans the table, and does not use an index or look up rows by their whole primary
//!   keys. Its conditions must not contain a subquery or an assignment to a user variable.
//! - Any other UPDATE or DELETE of one table first finds all rows and then changes them. If these
//!   rows do not fit into memory, the statement keeps only their keys, on disk. A statement with
//!   ORDER BY fails instead.
//! - INSERT ... SELECT writes each row as soon as its query finds the row, if the query does not
//!   read the table that is written. If the query reads that table, the statement first finds all
//!   rows and keeps them in a [`crate::executor::Spool`].
//! - UPDATE and DELETE of several tables always find all rows first, and keep them in a spool.
//!
//! If the writes of the transaction do not fit into memory, the transaction spills them to disk
//! (`spillway_txn`, module `spill`).

use spillway::{LockMode, LockWait, Scratch};
use spillway_types::Value;

use super::change::{Assignment, ChangePlan, change_row, split_key};
use super::{Changed, Maker, Rules};
use crate::catalog::shift_timestamps;
use crate::errors::{Result, SqlError};
use crate::executor;
use crate::executor::store;
use crate::expression::{Context, Expr};
use crate::planner::Source;

/// A statement that has changed this many rows blocks its thread when it waits for a lock. If it
/// were suspended, it would be undone and repeated after each wait, and might never end.
const BEGUN_AGAIN_MAX: u64 = 1000;

/// Whether an UPDATE may change rows while it still searches for others.
pub(super) fn is_safe(source: &Source, rules: &Rules, assignments: &[Assignment]) -> bool {
    let table = &rules.table;
    let changes = |column: usize| {
        table.columns[column].on_update_now || assignments.iter().any(|(at, _)| *at == column)
    };
    let own = |expr: &Expr| {
        let mut own = true;
        expr.walk(&mut |part| own &= !matches!(part, Expr::Subquery { .. } | Expr::Assign(..)));
        own
    };
    let values = assignments.iter().filter_map(|(_, value)| value.as_ref());
    let mut ways = source.others.iter().chain([&source.access]);
    !table.primary.iter().any(|part| changes(part.column))
        && ways.all(|way| {
            way.index
                .is_none_or(|at| !table.indexes[at].parts.iter().any(|part| changes(part.column)))
        })
        && source.filters.iter().chain(values).all(own)
}

/// Changes the rows of a statement one by one.
pub(super) struct Changer<'c> {
    plan: &'c ChangePlan,
    maker: &'c Maker<'c>,
    matched: u64,
    changed: u64,
}

impl<'c> Changer<'c> {
    pub(super) fn new(plan: &'c ChangePlan, maker: &'c Maker<'c>) -> Changer<'c> {
        Changer { plan, maker, matched: 0, changed: 0 }
    }

    /// How many rows the statement has found and changed.
    pub(super) fn changed(&self, context: &Context<'_>) -> Changed {
        match self.plan.assignments {
            Some(_) => Changed::by_update(self.matched, self.changed, context),
            None => Changed { affected: self.matched, ..Changed::default() },
        }
    }

    /// Changes a locked row. The row has its key after its columns.
    pub(super) fn change(&mut self, row: &mut [Value]) -> Result<()> {
        let txn = self.maker.context.txn;
        self.matched += 1;
        let Some(assignments) = &self.plan.assignments else {
            let (row, pk) = split_key(row);
            self.maker.to_stored(row);
            return store::delete_row(txn, self.maker.table(), row, pk);
        };
        if !self.plan.ignore {
            self.changed += u64::from(change_row(self.maker, row, assignments, self.matched)?);
            return Ok(());
        }
        let before = txn.savepoint();
        let outcome = change_row(self.maker, row, assignments, self.matched);
        let refused = |error: &SqlError| matches!(error.code, 1062 | 3819 | 1048);
        match outcome {
            Err(error) if refused(&error) => {
                // Earlier indexes may have accepted the row before a later one refused it.
                txn.rollback_to(before);
                self.maker.context.warn(error);
            }
            outcome => self.changed += u64::from(outcome?),
        }
        txn.release(before);
        Ok(())
    }

    /// Changes each row as soon as it is found. Returns `false`, without a change, if the plan does
    /// not allow that.
    pub(super) fn in_place(&mut self, context: &Context<'_>) -> Result<bool> {
        let source = &self.plan.source;
        if !self.plan.in_place {
            return Ok(false);
        }
        let mut row = context.room.values();
        row.resize(source.width, Value::Null);
        let lock = executor::Reading::Locking(LockMode::Exclusive, LockWait::Wait);
        let table = self.maker.table();
        executor::scan_table(context, source, table, &mut row, lock, &mut |row| {
            if self.plan.fits(context, row)? {
                self.change(row)?;
                keep_thread(context, self.matched);
            }
            Ok(true)
        })?;
        Ok(true)
    }

    /// Changes the rows that have these keys. The rows are locked.
    pub(super) fn each_of(&mut self, keys: &mut Scratch) -> Result<()> {
        let (table, context) = (self.maker.table(), self.maker.context);
        let (mut bytes, mut row) = (Vec::new(), Vec::new());
        keys.each(|key| -> Result<bool> {
            if self.matched.is_multiple_of(256) {
                context.check_killed()?;
            }
            let (mode, wait) = (LockMode::Exclusive, LockWait::Wait);
            if context.txn.get_locked(table.rows(), key, mode, wait, &mut bytes)? {
                row.clear();
                table.decode(&bytes, &mut row)?;
                shift_timestamps(table, &mut row, self.maker.shift);
                row.push(Value::Bytes(key.to_vec()));
                self.change(&mut row)?;
                keep_thread(context, self.matched);
            }
            Ok(true)
        })
    }
}

/// Once a statement has changed many rows, makes its lock waits block the thread.
pub(super) fn keep_thread(context: &Context<'_>, changed: u64) {
    if changed == BEGUN_AGAIN_MAX {
        context.txn.leave_waits(false);
    }
}
