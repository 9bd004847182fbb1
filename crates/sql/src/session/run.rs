//! Queries and changes of rows, run in the session's transaction.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use spillway::Transaction;
use spillway_types::{Collation, ColumnType, Value, ValueRef};
use sqlparser::ast;

use super::Session;
use crate::api::ResultSink;
use crate::catalog::{Catalog, utc};
use crate::dml::{self, Changed};
use crate::errors::{Result, SqlError};
use crate::expr::Context;
use crate::query;

/// How often a first statement starts over when it meets rows that were changed after its snapshot (DESIGN, D12).
const RESTARTS: usize = 100;

/// What a plan depends on: it is made anew where any of this is another.
#[derive(Debug)]
pub(super) struct PlanKey {
    catalog: u64,
    database: Option<String>,
    collation: Collation,
    full_group_by: bool,
    no_backslash_escapes: bool,
}

impl Session {
    pub(super) fn plan_key(&self) -> PlanKey {
        let variables = self.variables.borrow();
        PlanKey {
            catalog: self.instance.0.catalog.load().version,
            database: variables.database.clone(),
            collation: variables.collation,
            full_group_by: variables.has_mode("ONLY_FULL_GROUP_BY"),
            no_backslash_escapes: variables.mode.no_backslash_escapes,
        }
    }

    fn fits(&self, key: &PlanKey) -> bool {
        let variables = self.variables.borrow();
        key.catalog == self.instance.0.catalog.load().version
            && key.database == variables.database
            && key.collation == variables.collation
            && key.full_group_by == variables.has_mode("ONLY_FULL_GROUP_BY")
            && key.no_backslash_escapes == variables.mode.no_backslash_escapes
    }

    pub(super) fn plan(&self, query: &ast::Query) -> Result<Arc<query::QueryPlan>> {
        let catalog = self.instance.0.catalog.load_full();
        let variables = self.variables.borrow();
        let lookup = |scope: &str, name: &str| self.system_variable(&variables, scope, name);
        let plan =
            query::plan_query(&catalog, variables.database.as_deref(), &lookup, query, None, &[])?;
        Ok(Arc::new(plan))
    }

    pub(super) fn run_sql(
        &mut self,
        statement: &ast::Statement,
        prepared: Option<u32>,
        params: &[Value],
        more: bool,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        use ast::Statement as S;
        match statement {
            S::Query(_) | S::Insert(_) | S::Update(_) | S::Delete(_) => {}
            S::Explain { statement, analyze, .. } => {
                if *analyze {
                    return Err(SqlError::unsupported("EXPLAIN ANALYZE"));
                }
                return self.explain(statement, more, sink);
            }
            other => return self.run_ddl(other, more, sink),
        }
        self.check_rights(statement)?;
        let opened = self.txn.is_none();
        if opened {
            self.begin();
        }
        let outcome = self
            .use_tables(statement)
            .and_then(|()| self.run_in_transaction(statement, prepared, params, more, sink));
        match outcome {
            Ok(outcome) => {
                if opened && self.autocommit && !self.explicit {
                    self.commit()?;
                }
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
                    Some(changed) => sink.ok(&self.outcome(changed, more)),
                    None => sink.end_rows(&self.outcome(Changed::default(), more)),
                }
            }
            Err(error) => {
                if opened && self.autocommit && !self.explicit {
                    self.end_transaction();
                }
                Err(error)
            }
        }
    }

    /// Runs a query or a change; a failed one is undone. Answers what it changed, or `None` for a result set, which the
    /// caller ends.
    pub(super) fn run_in_transaction(
        &mut self,
        statement: &ast::Statement,
        prepared: Option<u32>,
        params: &[Value],
        more: bool,
        sink: &mut dyn ResultSink,
    ) -> Result<Option<Changed>> {
        let _ = more;
        let catalog = self.instance.0.catalog.load_full();
        let plan = match statement {
            ast::Statement::Query(query) => Some(self.query_plan(query, prepared)?),
            _ => None,
        };
        self.forget_warnings();
        let Some(txn) = &self.txn else {
            return Err(SqlError::new(1105, "no transaction is open"));
        };
        let had_snapshot = txn.snapshot_taken();
        let start = txn.savepoint();
        for attempt in 0.. {
            txn.begin_statement();
            self.told.set(false);
            let mut context = self.context(txn, &catalog, params);
            if plan.is_some() {
                context.deadline = self.deadline();
            }
            let outcome = match (&plan, statement) {
                (Some(plan), _) => self.select(&context, plan, sink).map(|()| None),
                (None, statement) => self.change(&context, statement).map(Some),
            };
            let warnings = context.warnings.into_inner();
            match outcome {
                // What reached the client cannot be told again.
                Err(error)
                    if error.conflict
                        && !had_snapshot
                        && !self.told.get()
                        && attempt < RESTARTS =>
                {
                    txn.rollback_to(start);
                    txn.forget_snapshot();
                }
                Err(error) => {
                    txn.rollback_to(start);
                    warnings.into_iter().for_each(|warning| self.warn(warning));
                    return Err(error);
                }
                Ok(changed) => {
                    warnings.into_iter().for_each(|warning| self.warn(warning));
                    return Ok(changed);
                }
            }
        }
        Ok(None)
    }

    pub(super) fn query_plan(
        &mut self,
        query: &ast::Query,
        prepared: Option<u32>,
    ) -> Result<Arc<query::QueryPlan>> {
        if let Some(stored) = prepared.and_then(|id| self.statements.get(&id))
            && let Some((made_for, plan)) = &stored.plan
            && self.fits(made_for)
        {
            return Ok(plan.clone());
        }
        self.asked.set(false);
        let plan = self.plan(query)?;
        let key = self.plan_key();
        if let Some(stored) =
            prepared.filter(|_| !self.asked.get()).and_then(|id| self.statements.get_mut(&id))
        {
            stored.plan = Some((key, plan.clone()));
        }
        Ok(plan)
    }

    pub(super) fn context<'a>(
        &'a self,
        txn: &'a Transaction,
        catalog: &'a Catalog,
        params: &'a [Value],
    ) -> Context<'a> {
        let offset = self.variables.borrow().time_offset_micros;
        let fixed = self
            .variables
            .borrow()
            .system
            .get("timestamp")
            .and_then(|text| text.parse::<f64>().ok());
        let wall = match fixed {
            Some(seconds) if seconds > 0.0 => (seconds * 1e6) as i64,
            _ => spillway_base::clock::wall().as_micros() as i64,
        };
        Context {
            txn,
            instance: &self.instance,
            catalog,
            variables: &self.variables,
            params,
            outer: RefCell::default(),
            cached: RefCell::default(),
            inserted: RefCell::default(),
            now: utc(wall + offset),
            warnings: RefCell::default(),
            found: Cell::new(0),
            deadline: None,
            strict: Cell::new(false),
        }
    }

    /// When a query that begins now must have ended.
    fn deadline(&self) -> Option<Duration> {
        let most = self.variables.borrow().number("max_execution_time")?;
        (most > 0).then(|| spillway_base::clock::now() + Duration::from_millis(most))
    }

    /// Sends a query's rows. Those of a locking read are held until they may be told (DESIGN, D2).
    pub(super) fn select(
        &self,
        context: &Context<'_>,
        plan: &query::QueryPlan,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        let locking = matches!(&plan.body, query::Body::Select(select) if select.lock.is_some());
        let most = match plan.limit {
            None => self.variables.borrow().number("sql_select_limit").unwrap_or(u64::MAX),
            Some(_) => u64::MAX,
        };
        let mut count = 0;
        if locking || context.txn.has_writes() {
            let mut rows: Vec<Vec<Value>> = Vec::new();
            query::run_query(context, plan, &mut |row| {
                if count < most {
                    count += 1;
                    rows.push(row.to_vec());
                }
                Ok(count < most || plan.counted)
            })?;
            context.txn.wait_until_told()?;
            self.told.set(true);
            sink.columns(&plan.columns)?;
            for row in &rows {
                let refs: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
                sink.row(&refs)?;
            }
        } else {
            query::run_query(context, plan, &mut |row| {
                if !self.told.replace(true) {
                    sink.columns(&plan.columns)?;
                }
                if count == most {
                    return Ok(plan.counted);
                }
                count += 1;
                if let [one] = row {
                    sink.row(&[one.as_ref()])?;
                } else {
                    let refs: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
                    sink.row(&refs)?;
                }
                Ok(count < most || plan.counted)
            })?;
            if !self.told.replace(true) {
                sink.columns(&plan.columns)?;
            }
        }
        let found = if plan.counted { context.found.get() } else { count };
        self.variables.borrow_mut().found_rows = found;
        Ok(())
    }

    pub(super) fn change(
        &self,
        context: &Context<'_>,
        statement: &ast::Statement,
    ) -> Result<Changed> {
        let lookup =
            |scope: &str, name: &str| self.system_variable(&self.variables.borrow(), scope, name);
        match statement {
            ast::Statement::Insert(insert) => dml::insert(context, insert, &lookup),
            ast::Statement::Update(update) => dml::update(context, update, &lookup),
            ast::Statement::Delete(delete) => dml::delete(context, delete, &lookup),
            other => Err(SqlError::unsupported(other)),
        }
    }

    pub(super) fn explain(
        &mut self,
        statement: &ast::Statement,
        more: bool,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        self.check_rights(statement)?;
        let ast::Statement::Query(query) = statement else {
            return Err(SqlError::unsupported("EXPLAIN of a change"));
        };
        let plan = self.plan(query)?;
        let rows = crate::show::explain(&plan);
        self.send(&crate::show::explain_columns(), rows, more, sink)
    }

    pub(super) fn send(
        &self,
        columns: &[(&str, ColumnType)],
        rows: Vec<Vec<Value>>,
        more: bool,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        sink.columns(&crate::show::result_columns(columns))?;
        for row in &rows {
            let refs: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
            sink.row(&refs)?;
        }
        sink.end_rows(&self.outcome(Changed::default(), more))
    }
}
