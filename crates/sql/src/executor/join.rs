//! Joins: nested loops over the sources of a query. If an inner source is a derived or virtual
//! table, or its access is a full scan, the join reads the source once into memory. If equalities
//! connect the source with earlier sources, the join looks up the source's rows by hash.

use std::rc::Rc;

use spillway::{LockMode, LockWait};
use spillway_types::Value;

use super::batched_join::{Outer, Waiting};
use super::row_reads::Reading;
use super::row_sink::Emit;
use super::scan::{Take, scan_table};
use super::sort::{HeldMemory, KeyMap, hash_class, hash_key};
use super::subquery::derived;
use crate::errors::Result;
use crate::expression::{Context, Expr};
use crate::planner::{Row, SelectPlan, Source, SourceKind};

/// The rows of a source that was read completely, to be looked up by the values of the source's
/// equalities.
pub(super) struct SourceRows {
    rows: Vec<Row>,
    by_hash: KeyMap<Vec<usize>>,
    /// For each equality, the classes of this source's values.
    classes: Vec<u8>,
    /// The memory charge of the rows and the hash table.
    _held: HeldMemory,
}

pub(super) struct JoinedRows<'c, 'p> {
    context: &'c Context<'c>,
    plan: &'p SelectPlan,
    kept: Vec<Option<Rc<SourceRows>>>,
    /// For each source, the state that decides whether rows of the source before it are buffered.
    inner: Vec<Outer>,
    /// For each source, the rows that were found and are not joined with the next source yet. While
    /// a source's rows are joined, no earlier source has waiting rows. Rows that wait at a later
    /// source were found before those that wait at an earlier one.
    waiting: Vec<Waiting>,
    lock: Option<(LockMode, LockWait)>,
}

impl<'c, 'p> JoinedRows<'c, 'p> {
    pub(super) fn new(context: &'c Context<'c>, plan: &'p SelectPlan) -> JoinedRows<'c, 'p> {
        let sources = || plan.sources.iter();
        JoinedRows {
            context,
            plan,
            kept: sources().map(|_| None).collect(),
            inner: sources().map(|_| Outer::default()).collect(),
            waiting: sources().map(|_| Waiting::default()).collect(),
            lock: plan.lock.or(context.shares.then_some((LockMode::Shared, LockWait::Wait))),
        }
    }

    pub(super) fn run(&mut self, emit: &mut Emit<'_>) -> Result<()> {
        if self.plan.having.is_some() && !self.plan.grouped {
            let (context, plan) = (self.context, self.plan);
            return self.join_all(&mut |row| match &plan.having {
                Some(having) if !context.holds(having, row)? => Ok(true),
                _ => emit(row),
            });
        }
        self.join_all(emit)
    }

    fn join_all(&mut self, emit: &mut Emit<'_>) -> Result<()> {
        let mut row = vec![Value::Null; self.plan.width];
        let mut more = self.level(0, &mut row, emit);
        // The waiting rows come before the end, or before the error, that stopped the scan.
        while !matches!(more, Ok(false))
            && let Some(level) = self.waiting.iter().position(|waiting| !waiting.is_empty())
        {
            match self.join_waiting(level, emit) {
                Ok(true) => {}
                ended => more = ended,
            }
        }
        more.map(drop)
    }

    /// Joins the source at this level and those after it. Returns `false` if `emit` wants no more
    /// rows.
    fn level(&mut self, level: usize, row: &mut Row, emit: &mut Emit<'_>) -> Result<bool> {
        let Some(source) = self.plan.sources.get(level) else { return emit(row) };
        self.context.check_killed()?;
        let (context, lock) = (self.context, self.lock);
        let mut matched = false;
        let mut more = true;
        if level > 0 && (source.access.is_full() || !matches!(source.kind, SourceKind::Table(_))) {
            let kept = self.keep(level)?;
            let found: Option<Vec<usize>> = if source.hash.is_empty() {
                None
            } else {
                let (mut values, mut collations) = (Vec::new(), Vec::new());
                for (_, theirs, collation) in &source.hash {
                    values.push(self.context.eval(theirs, row)?);
                    collations.push(*collation);
                }
                let alike =
                    |(value, classes): (&Value, &u8)| hash_class(value) & classes == *classes;
                if values.iter().any(Value::is_null) {
                    Some(Vec::new())
                } else if !values.iter().zip(&kept.classes).all(alike) {
                    // Values of different classes may be equal although their hash keys differ.
                    None
                } else {
                    Some(
                        kept.by_hash
                            .get(&hash_key(&values, &collations))
                            .cloned()
                            .unwrap_or_default(),
                    )
                }
            };
            let indexes: Box<dyn Iterator<Item = usize>> = match found {
                Some(found) => Box::new(found.into_iter()),
                None => Box::new(0..kept.rows.len()),
            };
            for index in indexes {
                row[source.offset..source.offset + source.width]
                    .clone_from_slice(&kept.rows[index]);
                if !self.accept(source, row, &mut matched)? {
                    continue;
                }
                more = self.next(level, row, emit)?;
                if !more {
                    break;
                }
            }
        } else {
            let mut inner = |row: &mut Row| -> Result<bool> {
                if !self.accept(source, row, &mut matched)? {
                    return Ok(true);
                }
                more = self.next(level, row, emit)?;
                Ok(more)
            };
            read_source(context, source, row, lock, &mut inner)?;
        }
        if more && !matched && source.outer.is_some() {
            row[source.offset..source.offset + source.width].fill(Value::Null);
            if passes(self.context, self.filters(source), row)? {
                more = self.next(level, row, emit)?;
            }
        }
        Ok(more)
    }

    /// Joins the sources after this level to a row, now or together with later rows. Returns
    /// `false` if `emit` wants no more rows.
    #[inline]
    fn next(&mut self, level: usize, row: &mut Row, emit: &mut Emit<'_>) -> Result<bool> {
        let context = self.context;
        let Some(inner) = self.inner.get(level + 1) else { return emit(row) };
        if inner.keeps() {
            let enough = self.waiting[level].add(context, row, inner);
            return if enough { self.join_waiting(level, emit) } else { Ok(true) };
        }
        let before = context.missed.replace(inner.listens().then_some(false));
        let more = self.level(level + 1, row, emit);
        if context.missed.replace(before) == Some(true) && self.lock.is_none() {
            self.inner[level + 1].missed(context, &self.plan.sources[..level + 2]);
        }
        more
    }

    /// Joins the sources after this level to the rows that wait at this level.
    fn join_waiting(&mut self, level: usize, emit: &mut Emit<'_>) -> Result<bool> {
        let source = &self.plan.sources[level + 1];
        let rows = self.waiting[level].take(self.context, source, &mut self.inner[level + 1])?;
        // These rows were read into memory together, so a miss among them says nothing about the
        // lookups of an earlier source.
        let before = self.context.missed.replace(None);
        let mut more = Ok(true);
        for mut row in rows {
            more = self.level(level + 1, &mut row, emit);
            if !matches!(more, Ok(true)) {
                break;
            }
        }
        self.context.missed.set(before);
        more
    }

    fn accept(&self, source: &Source, row: &Row, matched: &mut bool) -> Result<bool> {
        if let Some(on) = &source.outer {
            if !passes(self.context, on, row)? {
                return Ok(false);
            }
            *matched = true;
        }
        passes(self.context, self.filters(source), row)
    }

    /// The conditions that are not checked yet when a row was read.
    fn filters<'s>(&self, source: &'s Source) -> &'s [Expr] {
        if self.lock.is_none() { &source.rest } else { &source.filters }
    }

    /// All rows of a source. They are read at the first call.
    fn keep(&mut self, level: usize) -> Result<Rc<SourceRows>> {
        if let Some(kept) = &self.kept[level] {
            return Ok(kept.clone());
        }
        let source = &self.plan.sources[level];
        let own = source.offset..source.offset + source.width;
        let mut held = HeldMemory::new(self.context);
        let (mut rows, mut by_hash) = (Vec::new(), KeyMap::<Vec<usize>>::default());
        let mut classes = vec![0; source.hash.len()];
        let mut row = vec![Value::Null; self.plan.width];
        let context = self.context;
        read_source(context, source, &mut row, self.lock, &mut |row| {
            held.add(&row[own.clone()])?;
            if !source.hash.is_empty() {
                let (mut values, mut collations) = (Vec::new(), Vec::new());
                for (ours, _, collation) in &source.hash {
                    values.push(context.eval(ours, row)?);
                    collations.push(*collation);
                }
                values.iter().zip(&mut classes).for_each(|(value, all)| *all |= hash_class(value));
                let key = hash_key(&values, &collations);
                held.add_bytes(key.len())?;
                by_hash.entry(key).or_default().push(rows.len());
            }
            rows.push(row[own.clone()].to_vec());
            Ok(true)
        })?;
        let kept = Rc::new(SourceRows { rows, by_hash, classes, _held: held });
        self.kept[level] = Some(kept.clone());
        Ok(kept)
    }
}

/// Reads a source's rows into its slots.
fn read_source(
    context: &Context<'_>,
    source: &Source,
    row: &mut Row,
    lock: Option<(LockMode, LockWait)>,
    take: &mut Take<'_>,
) -> Result<()> {
    match &source.kind {
        SourceKind::Table(table) => {
            scan_table(context, source, table, row, Reading::of(lock), take)
        }
        SourceKind::Derived(plan) => {
            let answer = derived(context, plan)?;
            for values in answer.rows() {
                row[source.offset..source.offset + values.len()].clone_from_slice(values);
                if !take(row)? {
                    break;
                }
            }
            Ok(())
        }
        SourceKind::Virtual(name) => {
            let rows = context.server.virtual_rows(context.catalog, context.variables, name);
            for values in rows {
                for (slot, value) in values.into_iter().enumerate() {
                    row[source.offset + slot] = value;
                }
                if !take(row)? {
                    break;
                }
            }
            Ok(())
        }
    }
}

fn passes(context: &Context<'_>, filters: &[Expr], row: &[Value]) -> Result<bool> {
    for filter in filters {
        if !context.holds(filter, row)? {
            return Ok(false);
        }
    }
    Ok(true)
}
