//! Runs queries and changes of rows in the session's transaction.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use spillway::{CommitFuture, Error, ErrorKind, Isolation, Transaction};
use spillway_types::{ColumnType, Field, Value, ValueRef};
use sqlparser::ast;

use super::Session;
use super::catalog_cache::AtHand;
use super::compiled::{Compiled, RowStatement, Slot, StatementInput};
use super::instance::Instance;
use super::metadata::{Name, modes_of};
use super::suspension::SuspendedStatement;
use super::transactions::acknowledge;
use crate::api::{PlanId, ResultSink};
use crate::catalog::Catalog;
use crate::dml::Changed;
use crate::errors::{Result, SqlError};
use crate::executor;
use crate::expression::{Context, Patterns, Room, ValueMemory};
use crate::parser::RowSource;
use crate::planner::query_plan;
use crate::variables::Variables;

/// How often a transaction's first statement starts over if it meets rows that were changed after
/// its snapshot (decision 012).
const RESTARTS: usize = 100;

/// How often a statement leaves its thread to wait for a row lock. Each time it starts over.
const LEAVES: usize = 8;
/// A statement that has left its thread this many times, for either reason, no longer leaves it for
/// a read from a device. It needs up to three reads: the block index, the row, and a possible newer
/// version.
const LEAVES_FOR_READS: usize = 3;

/// A compiled statement whose tables are locked, and the catalog for which it was compiled.
struct ReadyStatement {
    compiled: Arc<Compiled>,
    catalog: AtHand,
}

/// Whether a deadline has passed, if there is one.
fn has_passed(deadline: Option<Duration>) -> bool {
    deadline.is_some_and(|deadline| spillway_base::clock::now() >= deadline)
}

/// Refuses a snapshot from a time when a table's key space did not yet hold all of its rows.
pub(super) fn check_snapshot<'a>(
    txn: &Transaction,
    catalog: &Catalog,
    tables: impl IntoIterator<Item = &'a Name>,
) -> Result<()> {
    if !txn.snapshot_taken() || txn.sees(catalog.since) {
        return Ok(());
    }
    let mut tables = tables.into_iter().filter_map(|name| catalog.tables.get(name));
    if tables.all(|table| txn.sees(table.since)) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::NotFound, "the rows are newer than the snapshot").into())
}

impl Session {
    /// Runs a statement that is not about rows.
    pub(super) fn run_other(
        &mut self,
        statement: &ast::Statement,
        more: bool,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        match statement {
            ast::Statement::Explain { analyze: true, .. } => {
                Err(SqlError::unsupported("EXPLAIN ANALYZE"))
            }
            ast::Statement::Explain { statement, .. } => {
                let rows = self.compiler().explain(statement)?;
                self.send(&executor::explain_columns(), rows, more, sink)
            }
            other => {
                self.ddl().run(other)?;
                sink.ok(&self.outcome(Changed::default(), more))
            }
        }
    }

    /// Runs a query or a change, in a transaction of its own if none is open, or resumes a
    /// suspended one.
    pub(super) fn run_rows(
        &mut self,
        slot: &mut Slot,
        given: StatementInput<'_, '_>,
        suspended: Option<SuspendedStatement>,
        more: bool,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        // The privileges of a suspended statement were checked when it began.
        let granted = suspended.is_some();
        // Compiling a statement again checks its privileges.
        if let (false, Some(compiled)) = (granted, &slot.compiled)
            && compiled.made_for.database == self.variables.borrow().database
        {
            self.security.check_needs(&compiled.needs)?;
        }
        let is_open = self.transaction.is_open();
        let opened = suspended.as_ref().map_or(!is_open, |suspended| suspended.opened);
        if !is_open {
            self.transaction.begin(self.variables.borrow().transactions);
        }
        let params = given.params;
        let is_query = matches!(slot.sql(), Some(ast::Statement::Query(_)));
        let deadline = match &suspended {
            Some(suspended) => suspended.deadline,
            None if is_query => self.variables.borrow().often.query_deadline(),
            None => None,
        };
        let times = suspended.map_or(0, |suspended| suspended.times);
        let leaves = !more && given.rows.is_none() && times < LEAVES;
        let alone = opened && self.transaction.ends_with_statement();
        let may_leave = self.suspension.is_possible();
        let ready = self.ready(slot, params, granted, deadline);
        let outcome = ready.and_then(|ready| {
            self.transaction.end_waits_at(deadline);
            let body: &RowStatement = &ready.compiled.body;
            if may_leave {
                let reads = leaves && times < LEAVES_FOR_READS && body.looks_up();
                self.transaction.leave_waits(leaves && body.locks(), reads);
            }
            let outcome = self.run_in_transaction(&ready, given, (alone, deadline), sink);
            self.transaction.end_waits_at(None);
            if may_leave {
                self.transaction.leave_waits(false, false);
            }
            slot.compiled = Some(ready.compiled);
            outcome
        });
        // The time limit of the query has ended a wait for a lock.
        let is_late = |error: &SqlError| error.code == 1205 && has_passed(deadline);
        let outcome =
            outcome.map_err(|error| if is_late(&error) { SqlError::out_of_time() } else { error });
        match outcome {
            Ok(outcome) => self.tell(outcome, alone, more, sink),
            Err(error) if error.waits => {
                let (slot, params) = (slot.copy(), params.to_vec());
                let times = times + 1;
                let statement = SuspendedStatement { slot, params, opened, times, deadline };
                self.suspension.suspend(statement);
                Err(error)
            }
            Err(error) => {
                if alone {
                    self.transaction.rollback();
                }
                Err(error)
            }
        }
    }

    /// Tells the client the outcome of a statement: what it changed, or `None` for a result set,
    /// whose end is missing. Commits first if the transaction ends with the statement.
    fn tell(
        &mut self,
        outcome: Option<Changed>,
        alone: bool,
        more: bool,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        let commit = if alone { self.transaction.commit_later()? } else { None };
        let mut variables = self.variables.borrow_mut();
        if let Some(outcome) = &outcome {
            variables.row_count = outcome.affected as i64;
            if outcome.insert_id > 0 {
                variables.last_insert_id = outcome.insert_id;
            }
        } else {
            variables.row_count = -1;
        }
        drop(variables);
        match outcome {
            Some(changed) => acknowledge(commit, &self.outcome(changed, more), sink),
            None => {
                commit.map(CommitFuture::wait).transpose()?;
                sink.end_rows(&self.outcome(Changed::default(), more))
            }
        }
    }

    /// Returns the statement to run, with its tables locked: the compiled form in the slot if that
    /// is still valid, else a new one. Checks no privileges if they are `granted`. The wait for
    /// tables ends at the deadline, if there is one.
    fn ready(
        &mut self,
        slot: &mut Slot,
        params: &[Value],
        granted: bool,
        deadline: Option<Duration>,
    ) -> Result<ReadyStatement> {
        loop {
            // Takes no reference to the catalog or to the compiled form, because other sessions
            // count references to them, too.
            let catalog = self.instance.catalog_at_hand();
            let compiled = match slot.compiled.take() {
                Some(compiled)
                    if compiled.holds(&self.variables.borrow(), params, catalog.version) =>
                {
                    compiled
                }
                _ if granted => self.compiler().compile_granted(slot, params, &catalog)?,
                _ => self.compiler().compile(slot, params, &catalog)?,
            };
            let mut wait = self.variables.borrow().often.table_wait;
            if let Some(deadline) = deadline {
                wait = wait.min(deadline.saturating_sub(spillway_base::clock::now()));
            }
            let locks = self.transaction.locks_mut();
            if locks.has_locked_tables() {
                locks.check_locked(&modes_of(&compiled.needs))?;
            }
            locks.use_tables(&compiled.tables, wait)?;
            // No session can change the locked tables now, but one may have changed them before
            // they were locked. A catalog that becomes newer after this check has changes of other
            // tables.
            if self.instance.catalog_version() <= catalog.version {
                compiled.check(params)?;
                return Ok(ReadyStatement { compiled, catalog });
            }
        }
    }

    /// Runs a query or a change, and undoes it if it fails. Returns what it changed, or `None` for
    /// a result set, which the caller ends. `alone` says whether the transaction ends with the
    /// statement, and `deadline` when a query must have ended.
    fn run_in_transaction(
        &mut self,
        ready: &ReadyStatement,
        mut given: StatementInput<'_, '_>,
        (alone, deadline): (bool, Option<Duration>),
        sink: &mut dyn ResultSink,
    ) -> Result<Option<Changed>> {
        self.diagnostics.forget_stale();
        let Some(txn) = self.transaction.current() else {
            return Err(SqlError::new(1105, "no transaction is open"));
        };
        let had_snapshot = txn.snapshot_taken();
        let names = ready.compiled.tables.iter().map(|(lock, _)| lock.name());
        check_snapshot(txn, &ready.catalog, names)?;
        let (start, read) = (txn.savepoint(), txn.reads_mark());
        for attempt in 0.. {
            txn.begin_statement();
            let sent = Cell::new(false);
            self.variables.borrow_mut().user.begin_statement();
            let mut context = self.context(txn, &ready.catalog, given.params);
            context.starts_over = attempt < executor::STARTS_MAX;
            context.deadline = deadline;
            if !matches!(*ready.compiled.body, RowStatement::Query(_)) {
                // As in InnoDB. Under READ COMMITTED this makes no difference.
                context.shares =
                    txn.options().isolation == Isolation::RepeatableRead && txn.acts_on_newest();
            }
            let outcome = ready.compiled.body.run(&context, &mut given, &sent, sink);
            let warnings = context.warnings.into_inner();
            let (outcome, warnings) = self.hide_values(&ready.compiled, outcome, warnings);
            match outcome {
                Err(error) if error.starts_over => {
                    txn.rollback_to(start);
                    txn.forget_reads(read);
                    self.variables.borrow_mut().user.undo();
                }
                // A statement that has sent rows to the client cannot start again.
                Err(error) if error.conflict && !sent.get() && attempt < RESTARTS => {
                    txn.rollback_to(start);
                    txn.forget_reads(read);
                    if !had_snapshot {
                        txn.forget_snapshot();
                    } else if !txn.refresh()? {
                        return Err(error);
                    }
                    self.variables.borrow_mut().user.undo();
                }
                Err(error) if error.waits => {
                    txn.rollback_to(start);
                    txn.forget_reads(read);
                    if !had_snapshot && txn.snapshot_taken() {
                        txn.forget_snapshot();
                    }
                    self.variables.borrow_mut().user.undo();
                    return Err(error);
                }
                outcome => {
                    // An error or a warning may tell of rows that are not durable. A commit that
                    // follows waits for them anyway.
                    let says = match &outcome {
                        Err(error) => error.tells_of_rows(),
                        Ok(_) => !alone && !warnings.is_empty(),
                    };
                    let told = if says { txn.wait_until_told() } else { Ok(()) };
                    if told.is_err() || outcome.is_err() {
                        txn.rollback_to(start);
                    }
                    txn.release(start);
                    told?;
                    warnings.into_iter().for_each(|warning| self.warn(warning));
                    return outcome;
                }
            }
        }
        Ok(None)
    }

    /// Hides the values in errors and warnings from a user who may not read all tables of the
    /// statement (NEED-6).
    fn hide_values<T>(
        &self,
        compiled: &Compiled,
        mut outcome: Result<T>,
        mut warnings: Vec<SqlError>,
    ) -> (Result<T>, Vec<SqlError>) {
        let error = outcome.as_mut().err();
        if (error.is_some() || !warnings.is_empty()) && !self.security.may_read(&compiled.needs) {
            error.into_iter().chain(&mut warnings).for_each(SqlError::hide_value);
        }
        (outcome, warnings)
    }

    pub(super) fn context<'a>(
        &'a self,
        txn: &'a Transaction,
        catalog: &'a Catalog,
        params: &'a [Value],
    ) -> Context<'a> {
        new_context(&self.instance, &self.variables, &self.room, txn, catalog, params)
    }

    pub(super) fn send(
        &self,
        columns: &[(&str, ColumnType)],
        rows: Vec<Vec<Value>>,
        more: bool,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        sink.columns(&crate::information_schema::result_columns(columns))?;
        for row in &rows {
            let refs: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
            sink.row(&refs)?;
        }
        sink.end_rows(&self.outcome(Changed::default(), more))
    }
}

/// Creates the context in which the expressions of a statement that begins now are evaluated.
pub(super) fn new_context<'a>(
    instance: &'a Instance,
    variables: &'a RefCell<Variables>,
    room: &'a Room,
    txn: &'a Transaction,
    catalog: &'a Catalog,
    params: &'a [Value],
) -> Context<'a> {
    let (offset, fixed) = {
        let variables = variables.borrow();
        (variables.time_offset_micros, variables.often.time_fixed)
    };
    let wall = fixed.unwrap_or_else(|| spillway_base::clock::wall().as_micros() as i64);
    Context {
        txn,
        server: instance,
        catalog,
        variables,
        params,
        room,
        lists: RefCell::default(),
        random: RefCell::default(),
        outer: RefCell::default(),
        cached: RefCell::default(),
        inserted: RefCell::default(),
        now_micros: wall + offset,
        now: Cell::new(None),
        warnings: RefCell::default(),
        found: Cell::new(0),
        missed: Cell::new(None),
        met: Cell::new(0),
        moved: Cell::new(0),
        starts_over: false,
        shares: false,
        deadline: None,
        strict: Cell::new(false),
        patterns: Patterns::default(),
        value_memory: ValueMemory::default(),
    }
}

impl RowStatement {
    /// Runs the statement once. Returns what it changed, or `None` for a result set. It sets `sent`
    /// when a part of the result may have reached the client.
    fn run(
        &self,
        context: &Context<'_>,
        given: &mut StatementInput<'_, '_>,
        sent: &Cell<bool>,
        sink: &mut dyn ResultSink,
    ) -> Result<Option<Changed>> {
        match self {
            RowStatement::Query(plan) => select(context, plan, sent, sink).map(|()| None),
            RowStatement::Insert(plan) => {
                if let Some(rows) = &mut given.rows {
                    rows.rewind();
                }
                let rows = given.rows.as_mut().map(|rows| &mut **rows as &mut dyn RowSource);
                plan.run(context, rows).map(Some)
            }
            RowStatement::Change(plan) => plan.run(context).map(Some),
            RowStatement::Joined(plan) => plan.run(context).map(Some),
        }
    }
}

/// Sends a query's rows. Withholds the rows of a locking read until the client may see them
/// (decision 002).
fn select(
    context: &Context<'_>,
    plan: &query_plan::QueryPlan,
    sent: &Cell<bool>,
    sink: &mut dyn ResultSink,
) -> Result<()> {
    let most = match plan.limit {
        None => context.variables.borrow().often.rows_max,
        Some(_) => u64::MAX,
    };
    let mut count = 0;
    if plan.is_locking() || context.txn.has_writes() {
        let mut rows = executor::Spool::new(context);
        executor::run_query(context, plan, &mut |row| {
            if count < most {
                count += 1;
                rows.push(row)?;
            }
            Ok(count < most || plan.counted)
        })?;
        context.txn.wait_until_told()?;
        sent.set(true);
        sink.columns(&plan.columns)?;
        rows.each(|row| {
            let refs: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
            sink.row(&refs)
        })?;
    } else {
        context.txn.wait_until_readable()?;
        let mut sender = RowSender::new(sent, plan, most, sink);
        executor::run_refs(context, plan, &mut sender)?;
        count = sender.finish()?;
    }
    let found = if plan.counted { context.found.get() } else { count };
    context.variables.borrow_mut().found_rows = found;
    Ok(())
}

/// Sends a query's rows to the client as the query produces them.
pub(super) struct RowSender<'t> {
    /// Whether anything was sent.
    sent: &'t Cell<bool>,
    plan: &'t query_plan::QueryPlan,
    /// The most rows that are sent.
    most: u64,
    count: u64,
    sink: &'t mut dyn ResultSink,
}

impl<'t> RowSender<'t> {
    pub(super) fn new(
        sent: &'t Cell<bool>,
        plan: &'t query_plan::QueryPlan,
        most: u64,
        sink: &'t mut dyn ResultSink,
    ) -> RowSender<'t> {
        RowSender { sent, plan, most, count: 0, sink }
    }

    /// Called after the last row. Returns the number of rows that were sent.
    pub(super) fn finish(self) -> Result<u64> {
        if !self.sent.replace(true) {
            self.sink.columns_of(PlanId(self.plan.id), &self.plan.columns)?;
        }
        Ok(self.count)
    }

    #[inline]
    fn send(&mut self, row: impl FnOnce(&mut dyn ResultSink) -> Result<()>) -> Result<bool> {
        if !self.sent.replace(true) {
            self.sink.columns_of(PlanId(self.plan.id), &self.plan.columns)?;
        }
        if self.count == self.most {
            return Ok(self.plan.counted);
        }
        self.count += 1;
        row(self.sink)?;
        Ok(self.count < self.most || self.plan.counted)
    }
}

impl executor::TakeRow for RowSender<'_> {
    fn values(&mut self, values: &[ValueRef<'_>]) -> Result<bool> {
        self.send(|sink| sink.row(values))
    }

    fn fields(&mut self, fields: &[Field<'_>]) -> Result<bool> {
        self.send(|sink| sink.fields(fields))
    }
}
