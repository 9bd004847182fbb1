//! Point reads, from the client's packet to the response: the fast path of a statement that looks
//! up one row ([`Point`]) if this row is in memory.
//!
//! Most statements of a busy web shop are point reads. A point read skips work that other
//! statements need. It begins no transaction if none is open, and runs no plan. It does not
//! register as a running statement, because it ends before another session could stop it.
//!
//! # Guarantees
//!
//! - **POINT-READ-1.** The client's answer, and the session's state afterwards, are the same as on
//!   the general path. Other sessions see no difference, either. The read uses the snapshot of the
//!   session's transaction, or the one with which a transaction would begin. It holds the table's
//!   metadata lock until the transaction ends, or, if no transaction is open, until the row is
//!   sent.
//! - **POINT-READ-2.** A point read does not wait for a device, a lock or a commit. If it would
//!   have to wait, or if anything unexpected happens, errors included, the point read is abandoned
//!   before it has sent or changed anything, and the statement takes the general path.

use std::cell::Cell;

use spillway_types::Value;

use super::Session;
use super::compiled::{Compiled, RowStatement, Slot};
use super::metadata::{MetadataLockMode, TableLock};
use super::run::RowSender;
use crate::api::ResultSink;
use crate::dml::Changed;
use crate::errors::Result;
use crate::executor::Point;
use crate::planner::QueryPlan;

/// A shared metadata lock, held during a point read without a transaction.
struct SharedLock<'l> {
    lock: &'l TableLock,
    stripe: usize,
}

impl<'l> SharedLock<'l> {
    fn of(lock: &'l TableLock, stripe: usize) -> Option<SharedLock<'l>> {
        lock.read_at_once(stripe).then_some(SharedLock { lock, stripe })
    }
}

impl Drop for SharedLock<'_> {
    fn drop(&mut self) {
        self.lock.leave(MetadataLockMode::Read, self.stripe);
    }
}

impl Session {
    /// Runs a statement as a point read. Returns `None` if it is none, or cannot be one now;
    /// nothing has been done then.
    pub(super) fn run_point(
        &mut self,
        slot: &Slot,
        params: &[Value],
        more: bool,
        sink: &mut dyn ResultSink,
    ) -> Option<Result<()>> {
        let compiled = slot.compiled.as_deref()?;
        let (Some(point), RowStatement::Query(plan)) = (&compiled.point, &*compiled.body) else {
            return None;
        };
        let [(lock, MetadataLockMode::Read)] = &compiled.tables[..] else { return None };
        if !self.may_be_point(compiled, params) {
            return None;
        }
        let alone = !self.transaction.is_open();
        let moment = match alone {
            true => Some(SharedLock::of(lock, self.connection_id as usize)?),
            false => self.transaction.locks_mut().read_at_once(lock).then_some(None)?,
        };
        if !compiled.made_for.is_of(self.instance.catalog_version()) {
            // Another session changed the table before this one locked it.
            return None;
        }
        let told = self.tell_point(point, plan, params, sink)?;
        drop(moment);
        let outcome = told.and_then(|count| {
            let mut variables = self.variables.borrow_mut();
            variables.found_rows = count;
            variables.row_count = -1;
            if alone {
                self.transaction.ran_as_usual(variables.transactions);
            }
            drop(variables);
            self.diagnostics.clear();
            self.status_variables.begin_statement(&self.process.stalls);
            self.process.ran.was_point();
            sink.end_rows(&self.outcome(Changed::default(), more))
        });
        if let Err(error) = &outcome {
            self.diagnostics.note_error(error);
            self.variables.borrow_mut().row_count = -1;
        }
        Some(outcome)
    }

    /// Whether the state of the session allows a point read, and the compiled form is still valid.
    fn may_be_point(&self, compiled: &Compiled, params: &[Value]) -> bool {
        (self.transaction.is_open() || self.transaction.begins_as_usual())
            && !self.transaction.locks().has_locked_tables()
            && compiled.holds(&self.variables.borrow(), params, self.instance.catalog_version())
            && compiled.check(params).is_ok()
            && self.security.check_needs(&compiled.needs).is_ok()
            && self.variables.borrow().often.rows_max > 0
    }

    /// Sends the row. Returns the number of rows found.
    fn tell_point(
        &self,
        point: &Point,
        plan: &QueryPlan,
        params: &[Value],
        sink: &mut dyn ResultSink,
    ) -> Option<Result<u64>> {
        let (mut key, mut row) = (self.room.key(), self.room.row());
        if !point.write_key(params, &mut key) {
            return None;
        }
        let usual = self.variables.borrow().transactions;
        let found = self.transaction.find_at_once(usual, point, &key, &mut row)?;
        let sent = Cell::new(false);
        let mut sender = RowSender::new(&sent, plan, 1, sink);
        if found && let Err(error) = point.give(&row, self.instance.hands_fields_on(), &mut sender)
        {
            return sent.get().then_some(Err(error));
        }
        Some(sender.finish())
    }
}
