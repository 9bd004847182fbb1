//! Batched lookups of joins. A join is a nested loop over its sources (tables, derived tables and
//! virtual tables). The rows that the loop has found so far, one of each earlier source, form an
//! outer row of the next source. If the join finds the matching row of the next source (the inner
//! row) by its whole primary key, the join can buffer several outer rows and read their inner rows
//! together.
//!
//! As long as the inner rows are in memory, the join buffers no outer row. After a lookup of an
//! inner row that was not in memory, the join buffers the next outer rows and reads their inner
//! rows together. [`Together`] decides how many rows it buffers, as in [`super::lookups`]. Then the
//! join processes the outer rows in their order, so its result is the same as without a buffer.
//!
//! The guarantees BATCHED-LOOKUP-1 to BATCHED-LOOKUP-4 ([`super::lookups`]) hold for joins, too.
//! For example, if reading an inner row fails, the join first joins the outer rows that come before
//! the outer row of this inner row, and then reports the error.
//!
//! If the join looks up the rows of several sources by primary key, it has a buffer of outer rows
//! for each of these sources. The join empties a buffer that is not full only when the earlier
//! sources have no more rows. So each read covers as many rows as possible, even if each row of an
//! earlier source matches few rows.
//!
//! The join adds an outer row to the buffer before it has joined the outer rows that are already
//! there. So the added row must not depend on the result of joining the others. Therefore the join
//! buffers rows only if the conditions and the lookup values of its sources depend only on columns
//! of the outer row and on values that are the same for all rows ([`Outer::may_keep`]). A join that
//! locks rows buffers none. In a transaction that has written, the join joins each row at once.

use spillway_types::Value;

use super::index_ranges::choose;
use super::lookups::Together;
use super::sort::HeldMemory;
use super::spans::Places;
use crate::errors::Result;
use crate::expression::{Context, Expr};
use crate::planner::{Access, Row, Source, SourceKind};

/// The approximate limit of the bytes of buffered rows.
const KEPT_BYTES: usize = HeldMemory::FREE;

/// Decides how many outer rows are buffered before a source whose rows are looked up by key.
#[derive(Default)]
pub(super) struct Outer {
    /// Whether outer rows may be buffered; `None` until this was determined.
    may_keep: Option<bool>,
    together: Together,
}

impl Outer {
    /// Called after a lookup of a row of the last of these sources has found that the row was not
    /// in memory. `self` is the state of that source.
    #[cold]
    pub(super) fn missed(&mut self, context: &Context<'_>, sources: &[Source]) {
        if *self.may_keep.get_or_insert_with(|| may_keep(sources)) {
            self.together.grow(context.server.looks_up_together());
        }
    }

    /// Whether this state needs to know that a row was not in memory.
    #[inline]
    pub(super) fn listens(&self) -> bool {
        self.may_keep != Some(false)
    }

    /// Whether outer rows are buffered now.
    #[inline]
    pub(super) fn keeps(&self) -> bool {
        self.together.are_several()
    }
}

/// Whether outer rows may be buffered before the last of these sources. The join must look up that
/// source's rows by the whole primary key, whose values need no evaluation. All conditions of the
/// earlier sources must depend only on the row.
fn may_keep(sources: &[Source]) -> bool {
    let Some((inner, before)) = sources.split_last() else { return false };
    let SourceKind::Table(table) = &inner.kind else { return false };
    let access = &inner.access;
    let whole = access.point && access.index.is_none() && access.intervals.is_empty();
    let constant = |value: &Expr| value.is_constant() && is_plain(value);
    let known = |value: &Expr| matches!(value, Expr::Column(_)) || constant(value);
    whole
        && inner.others.is_empty()
        && access.equal.len() == table.primary.len()
        && access.equal.iter().all(known)
        && before.iter().all(|source| source.conditions().all(is_plain))
        // The keys of the first source are known before any row is read.
        && before.iter().skip(1).all(|source| {
            let ways = std::iter::once(&source.access).chain(&source.others);
            let sides = source.hash.iter().flat_map(|(ours, theirs, _)| [ours, theirs]);
            matches!(source.kind, SourceKind::Table(_))
                && ways.flat_map(Access::values).chain(sides).all(is_plain)
        })
}

/// Whether evaluating an expression has no side effect and depends on nothing but the row.
fn is_plain(expr: &Expr) -> bool {
    let mut plain = true;
    expr.walk(&mut |part| {
        plain &= matches!(
            part,
            Expr::Const(_)
                | Expr::Param(_)
                | Expr::Fitted(..)
                | Expr::Column(_)
                | Expr::Binary(..)
                | Expr::Not(_)
                | Expr::IsNull(_)
                | Expr::In(..)
        );
    });
    plain
}

/// Rows of a source that were found and wait to be joined.
#[derive(Default)]
pub(super) struct Waiting {
    rows: Vec<Row>,
    bytes: usize,
}

impl Waiting {
    /// Buffers a row. Returns whether the buffered rows are enough.
    pub(super) fn add(&mut self, context: &Context<'_>, row: &[Value], outer: &Outer) -> bool {
        self.bytes += HeldMemory::size_of(row);
        self.rows.push(row.to_vec());
        self.rows.len() >= outer.together.count()
            || self.bytes >= KEPT_BYTES
            || context.txn.has_writes()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the buffered rows, once the rows of `inner` that they look up were read into memory.
    pub(super) fn take(
        &mut self,
        context: &Context<'_>,
        inner: &Source,
        outer: &mut Outer,
    ) -> Result<Vec<Row>> {
        self.bytes = 0;
        let rows = std::mem::take(&mut self.rows);
        let SourceKind::Table(table) = &inner.kind else { return Ok(rows) };
        let mut keys = Vec::with_capacity(rows.len());
        for row in &rows {
            if let (_, Places::Row(key)) = choose(context, inner, table, row)? {
                keys.push(key);
            }
        }
        let lacking = context.txn.prefetch(table.rows(), keys.iter().map(|key| &key[..]));
        outer.together.after(context.server.looks_up_together(), rows.len(), lacking);
        Ok(rows)
    }
}
