//! Compiles statements of a session, and runs text statements by their shapes.

use std::cell::RefCell;
use std::sync::Arc;

use spillway_base::budget::Use;
use spillway_base::thread;
use spillway_types::Value;

use super::{
    COMPILED_BYTES, Compiled, KEPT_BYTES, SESSION_SHARE, SHAPES_MAX, Sample, ShapeKey, Shapes,
    Slot, bind, is_rows, made_for,
};
use crate::api::ResultSink;
use crate::catalog::Catalog;
use crate::errors::{Result, SqlError};
use crate::expression::Fit;
use crate::parser::{self, Deep, Depth, RowSource, Shape, TextMode};
use crate::planner::{DAYS, MOMENTS, Names, PARAMETERS};
use crate::privilege::{May, Need, Needs};
use crate::process::Called;
use crate::session::metadata::{locks_of, modes_of};
use crate::session::{Session, large_values};

impl Session {
    /// Makes a statement ready, for the catalog as it is and parameters like these. Asks whether
    /// the user may run it.
    pub(in crate::session) fn compile(
        &self,
        slot: &Slot,
        params: &[Value],
        catalog: &Catalog,
    ) -> Result<Arc<Compiled>> {
        self.compile_for(slot, params, catalog, &|need| self.may(need))
    }

    /// Checks that the user may do what a statement needs while it is bound, and that LOCK TABLES
    /// has the table for it.
    pub(in crate::session) fn may(&self, need: &Need) -> Result<()> {
        let need = std::slice::from_ref(need);
        self.security.check_needs(need)?;
        self.transaction.locks().check_locked(&modes_of(need))
    }

    /// As [`Session::compile`]; what it needs is asked of `may`.
    pub(in crate::session) fn compile_for(
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
        let made_for = made_for(&variables, catalog.version);
        let database = made_for.database.as_deref();
        self.asked.set(false);
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
            self.system_variable(&variables, scope, name)
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
            lasting: !self.asked.get(),
            made_for,
            _memory: self.instance.0.db.budget().charge(Use::Connections, COMPILED_BYTES),
        }))
    }

    /// Runs a statement by its shape; `None` where it has none, and nothing was done.
    pub(in crate::session) fn query_by_shape(
        &mut self,
        sql: &str,
        sink: &mut dyn ResultSink,
    ) -> Option<Result<()>> {
        let mode = self.mode();
        if self.shapes.mode != mode {
            self.shapes = Shapes { mode, ..Shapes::default() };
        }
        let mut shape = std::mem::take(&mut self.shapes.buffer);
        let outcome = if shape.read(sql, mode) { self.run_shape(sql, &shape, sink) } else { None };
        if shape.longest > KEPT_BYTES {
            // LARGE-2.
            shape.values = Vec::new();
        }
        self.shapes.buffer = shape;
        outcome
    }

    fn run_shape(
        &mut self,
        sql: &str,
        shape: &Shape,
        sink: &mut dyn ResultSink,
    ) -> Option<Result<()>> {
        let mode = self.shapes.mode;
        let version = self.instance.catalog_version();
        let old = |slot: &Slot| {
            let compiled = slot.compiled.as_ref();
            compiled.is_some_and(|compiled| {
                compiled.lasting && !compiled.made_for.is(&self.variables.borrow(), version)
            })
        };
        if matches!(self.shapes.known.get(shape.key()), Some(Ok(slot)) if old(slot)) {
            // Learned anew, so that all sessions share one plan after a change of the catalog, too.
            self.shapes.known.remove(shape.key());
        }
        let mut slot = match self.shapes.known.get_mut(shape.key()) {
            Some(Ok(slot)) => slot.take(),
            Some(Err(failed)) if *failed == version => return None,
            _ => {
                let slot = self.learn(shape, mode);
                let budget = self.instance.0.db.budget();
                let most = budget.limit() / SESSION_SHARE / COMPILED_BYTES;
                if self.shapes.known.len() >= most.clamp(1, SHAPES_MAX) {
                    self.shapes.known.clear();
                }
                let kept = slot.as_ref().map(|slot| Slot {
                    depth: slot.depth,
                    statement: slot.statement.clone(),
                    compiled: None,
                });
                self.shapes.known.insert(shape.key().into(), kept.ok_or(version));
                slot?
            }
        };
        let bytes = shape.longest.max(large_values::bytes_of(&shape.values));
        let _copies = match large_values::charge(self.instance.database().budget(), bytes) {
            Ok(copies) => copies,
            Err(error) => return Some(Err(error)),
        };
        let mut rows = shape.rows(sql, mode);
        let rows = rows.as_mut().map(|rows| rows as &mut dyn RowSource);
        let depth = slot.depth;
        let outcome = depth
            .run(|| self.run_slot(&mut slot, &shape.values, rows, Called::Text(sql), false, sink));
        if let Some(Ok(kept)) = self.shapes.known.get_mut(shape.key()) {
            kept.compiled = slot.compiled;
        }
        Some(outcome)
    }

    /// Compiles a shape. `None` where that fails: the statement itself then tells better why.
    fn learn(&self, shape: &Shape, mode: TextMode) -> Option<Slot> {
        let catalog = self.instance.0.catalog.load_full();
        let made_for = made_for(&self.variables.borrow(), catalog.version);
        let key = ShapeKey { text: shape.key().into(), made_for };
        let common = &self.instance.0.shapes;
        if let Some(compiled) = common.get(&key) {
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
                common.put(key, &compiled);
            }
            slot.compiled = Some(compiled);
            Some(slot)
        })
    }

    /// Whether what a statement was compiled to still holds, for a version of the catalog.
    pub(in crate::session) fn holds(
        &self,
        compiled: &Compiled,
        params: &[Value],
        catalog: u64,
    ) -> bool {
        compiled.lasting
            && compiled.samples.len() == params.len()
            && compiled.samples.iter().zip(params).all(|(sample, value)| {
                sample.as_ref().is_none_or(|sample| sample.stands_for(value))
            })
            && compiled.made_for.is(&self.variables.borrow(), catalog)
    }
}
