//! Compiles statements for a session, and runs text statements by their shapes.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use spillway_base::budget::Use;
use spillway_base::thread;
use spillway_types::Value;
use sqlparser::ast;

use super::{COMPILED_BYTES, Compiled, MadeFor, RowStatement, Sample, Slot, bind, is_rows};
use crate::api::ResultSink;
use crate::catalog::Catalog;
use crate::errors::{Result, SqlError};
use crate::executor;
use crate::expression::Fit;
use crate::parser::{self, Deep, Depth, RowSource, Shape, Statement, TextMode};
use crate::planner::{Binder, DAYS, MOMENTS, Names, PARAMETERS, ScopeTable};
use crate::privilege::{May, Need, Needs};
use crate::process::Called;
use crate::session::instance::Instance;
use crate::session::metadata::{MetadataLockContext, MetadataLockMode, Name, locks_of, modes_of};
use crate::session::plan_cache::{CachedPlan, ShapeKey};
use crate::session::security_context::SecurityContext;
use crate::session::variable_values::VariableReader;
use crate::session::{Session, large_values};
use crate::variables::Variables;

/// Compiles statements with the current variables, privileges and locks of a session.
pub(in crate::session) struct StatementCompiler<'s> {
    instance: &'s Instance,
    variables: &'s RefCell<Variables>,
    security: &'s SecurityContext,
    locks: &'s MetadataLockContext,
    reader: VariableReader<'s>,
}

impl StatementCompiler<'_> {
    /// Compiles a statement for this catalog and parameters like these. Checks the user's
    /// privileges.
    pub(in crate::session) fn compile(
        &self,
        slot: &Slot,
        params: &[Value],
        catalog: &Catalog,
    ) -> Result<Arc<Compiled>> {
        self.compile_for(slot, params, catalog, &|need| self.may(need))
    }

    /// As [`StatementCompiler::compile`], for a statement whose privileges were checked when it
    /// began.
    pub(in crate::session) fn compile_granted(
        &self,
        slot: &Slot,
        params: &[Value],
        catalog: &Catalog,
    ) -> Result<Arc<Compiled>> {
        self.compile_for(slot, params, catalog, &|_| Ok(()))
    }

    /// Checks a need of the statement that is being bound: that the user has the privilege, and
    /// that LOCK TABLES, if it is in effect, holds the table in a sufficient mode.
    fn may(&self, need: &Need) -> Result<()> {
        let need = std::slice::from_ref(need);
        self.security.check_needs(need)?;
        self.locks.check_locked(&modes_of(need))
    }

    fn compile_for(
        &self,
        slot: &Slot,
        params: &[Value],
        catalog: &Catalog,
        may: May<'_>,
    ) -> Result<Arc<Compiled>> {
        let Some(sql) = slot.sql() else {
            return Err(SqlError::unsupported("this statement here"));
        };
        let variables = self.variables.borrow();
        let made_for = MadeFor::of(&variables, catalog.version);
        let database = made_for.database.as_deref();
        self.reader.has_read.set(false);
        let samples = RefCell::new(params.iter().map(|_| None).collect::<Vec<_>>());
        let moments = RefCell::new(Vec::new());
        let lookup = |scope: &str, name: &str| {
            if scope == PARAMETERS {
                let number = name.parse::<usize>().ok()?;
                let value = params.get(number)?;
                samples.borrow_mut()[number] = Some(Sample::of(value));
                return Some(value.clone());
            }
            let fit = match scope {
                MOMENTS => Some(Fit::Moment),
                DAYS => Some(Fit::Day),
                _ => None,
            };
            if let Some(fit) = fit {
                moments.borrow_mut().extend(name.parse().map(|number: usize| (number, fit)));
                return None;
            }
            self.reader.value(&variables, scope, name)
        };
        let needs = Needs::new(may);
        let body = bind(Names { catalog, database, variables: &lookup, needs: &needs }, sql)?;
        let needs = needs.into_list();
        Ok(Arc::new(Compiled {
            tables: locks_of(&self.instance.0.metadata, &needs),
            needs,
            depth: slot.depth,
            statement: slot.statement.clone(),
            brief: body.is_brief(),
            point: body.point().filter(|_| self.instance.0.point_reads),
            body: Deep::new(slot.depth, body),
            samples: samples.take(),
            moments: moments.take(),
            lasting: !self.reader.has_read.get(),
            made_for,
            _memory: self.instance.0.db.budget().charge(Use::Connections, COMPILED_BYTES),
        }))
    }

    /// Compiles a shape. Returns `None` if that fails: compiling the statement itself then gives
    /// the better error.
    fn compile_shape(&self, shape: &Shape, mode: TextMode) -> Option<Slot> {
        let catalog = self.instance.0.catalog.load_full();
        let made_for = MadeFor::of(&self.variables.borrow(), catalog.version);
        let key = ShapeKey::new(shape, made_for);
        let shared = &self.instance.0.plan_cache;
        if let Some(compiled) = shared.get(&key) {
            let (depth, statement) = (compiled.depth, compiled.statement.clone());
            return Some(Slot { depth, statement, compiled: Some(compiled) });
        }
        thread::long_ahead();
        let mut memory = parser::TextMemory::of(shape.text(), self.instance.0.db.budget());
        let mut statements = parser::split(shape.text(), mode, &mut memory).ok()?;
        let tokens = statements.pop().filter(|_| statements.is_empty())?;
        Depth::of_tokens(&tokens).ok()?.run(|| {
            let parser::Parsed { statement, params, depth } =
                parser::parse(tokens, &mut memory).ok()?;
            let mut slot = Slot::new(statement, depth);
            slot.sql().filter(|sql| is_rows(sql))?;
            if params != shape.values.len() {
                return None;
            }
            let compiled = self.compile(&slot, &shape.values, &catalog).ok()?;
            if compiled.lasting {
                shared.insert(key, &compiled);
            }
            slot.compiled = Some(compiled);
            Some(slot)
        })
    }

    /// Binds a standalone expression, over the columns of `scope` if there is one. Also returns the
    /// tables that it reads.
    pub(in crate::session) fn bind_alone<T>(
        &self,
        catalog: &Catalog,
        scope: Option<ScopeTable>,
        bind: impl FnOnce(&mut Binder<'_>) -> Result<T>,
    ) -> Result<(T, Vec<(Name, MetadataLockMode)>)> {
        let variables = self.variables.borrow();
        let lookup = |scope: &str, name: &str| self.reader.value(&variables, scope, name);
        let may = |need: &Need| self.may(need);
        let (database, needs) = (variables.database.as_deref(), Needs::new(&may));
        let names = Names { catalog, database, variables: &lookup, needs: &needs };
        let mut binder = Binder::new(names);
        binder.scope.tables.extend(scope);
        let bound = bind(&mut binder)?;
        drop(binder);
        Ok((bound, modes_of(&needs.into_list())))
    }

    /// Returns the rows of EXPLAIN.
    pub(in crate::session) fn explain(
        &self,
        statement: &ast::Statement,
    ) -> Result<Vec<Vec<Value>>> {
        if !is_rows(statement) {
            return Err(SqlError::unsupported("EXPLAIN of this statement"));
        }
        let slot = Slot::new(Statement::Sql(Box::new(statement.clone())), Depth::default());
        let catalog = self.instance.0.catalog.load_full();
        Ok(match &*self.compile(&slot, &[], &catalog)?.body {
            RowStatement::Query(plan) => executor::explain(plan),
            RowStatement::Insert(plan) => executor::explain_insert(plan.table(), plan.query()),
            RowStatement::Change(plan) => plan.explain(),
            RowStatement::Joined(plan) => executor::explain(plan.rows()),
        })
    }
}

impl Session {
    pub(in crate::session) fn compiler(&self) -> StatementCompiler<'_> {
        StatementCompiler {
            instance: &self.instance,
            variables: &self.variables,
            security: &self.security,
            locks: self.transaction.locks(),
            reader: VariableReader {
                instance: &self.instance,
                diagnostics: &self.diagnostics,
                autocommit: self.transaction.autocommit(),
                has_read: Cell::new(false),
            },
        }
    }

    /// Runs a statement by its shape. Returns `None` if it has none; nothing has been done then.
    pub(in crate::session) fn query_by_shape(
        &mut self,
        sql: &str,
        sink: &mut dyn ResultSink,
    ) -> Option<Result<()>> {
        let mode = self.variables.borrow().mode;
        let mut shape = self.plan_cache.take_buffer(mode);
        let has_shape = shape.read(sql, mode);
        let outcome = if has_shape { self.run_shape(sql, &shape, mode, sink) } else { None };
        self.plan_cache.put_buffer_back(shape);
        outcome
    }

    fn run_shape(
        &mut self,
        sql: &str,
        shape: &Shape,
        mode: TextMode,
        sink: &mut dyn ResultSink,
    ) -> Option<Result<()>> {
        let version = self.instance.catalog_version();
        let budget = self.instance.0.db.budget();
        let cached = self.plan_cache.take(shape, &self.variables.borrow(), version);
        let mut slot = match cached {
            CachedPlan::Found(slot) => slot,
            CachedPlan::Uncompilable => return None,
            CachedPlan::Unknown => {
                let slot = self.compiler().compile_shape(shape, mode);
                self.plan_cache.insert(shape, slot.as_ref(), version, budget);
                slot?
            }
        };
        let bytes = shape.longest.max(large_values::bytes_of(&shape.values));
        let _copies = match large_values::charge(budget, bytes) {
            Ok(copies) => copies,
            Err(error) => return Some(Err(error)),
        };
        let mut rows = shape.rows(sql, mode);
        let rows = rows.as_mut().map(|rows| rows as &mut dyn RowSource);
        let depth = slot.depth;
        let outcome = depth
            .run(|| self.run_slot(&mut slot, &shape.values, rows, Called::Text(sql), false, sink));
        self.plan_cache.put_back(shape, slot);
        Some(outcome)
    }
}
