//! Aggregates, and the query to which each belongs.
//!
//! An aggregate in a subquery may belong to an outer query. That query then groups its rows and
//! evaluates the aggregate over them, and the subquery reads the value as an outer column. The
//! binder finds the query to which an aggregate belongs as follows:
//!
//! 1. If the argument names columns, take the innermost query whose columns it names. If the
//!    argument names none, as in COUNT(*), take the query that contains the aggregate.
//! 2. A query cannot take an aggregate from a clause in which aggregates are not allowed, such as
//!    WHERE, or from a subquery in such a clause. If the query of step 1 can take the aggregate,
//!    the aggregate belongs to that query.
//! 3. If the query of step 1 is an outer query that cannot take the aggregate, the binder tries the
//!    queries between this outer query and the subquery. The aggregate belongs to the innermost of
//!    them that can take it.
//! 4. If none of these queries can take the aggregate, but the subquery itself can, the aggregate
//!    belongs to the subquery.
//!
//! One case remains: the argument names no columns, and the query that contains the aggregate
//! cannot take it. Then the aggregate belongs to the innermost outer query that can take it.
//!
//! An aggregate that no query can take fails with error 1111. The level of an aggregate is that of
//! its query; as in MySQL, the outermost query has level 0. An aggregate in the argument of another
//! one also fails with error 1111 if the level of the inner aggregate is equal to that of the outer
//! one, or larger.

use spillway_types::Collation;
use sqlparser::ast;

use super::{AggregateArgument, Binder};
use crate::errors::{Result, SqlError};
use crate::expression::{Expr, Typed};
use crate::planner::aggregate::{Aggregate, AggregateKind};
use crate::planner::literals::literal;

/// An aggregate as the statement writes it.
#[derive(Clone, Copy)]
pub(super) struct WrittenAggregate<'e> {
    pub(super) kind: AggregateKind,
    pub(super) args: &'e [&'e ast::Expr],
    pub(super) distinct: bool,
    pub(super) clauses: &'e [ast::FunctionArgumentClause],
}

impl Binder<'_> {
    /// The number of queries that enclose this one.
    fn level(&self) -> usize {
        Binder::chain(self.parent).count()
    }

    /// Records that a column of the query `depth` levels out is named here, for the aggregate whose
    /// argument contains it, if there is one.
    pub(super) fn note_column(&self, depth: usize) {
        let mut chain = Binder::chain(Some(self)).enumerate();
        let around = chain.find_map(|(up, binder)| Some((up, binder, binder.argument.get()?)));
        // A column that belongs to a subquery within the argument is not a column of the argument.
        if let Some((up, binder, mut argument)) = around
            && up <= depth
        {
            argument.column = argument.column.max(Some(self.level() - depth));
            binder.argument.set(Some(argument));
        }
    }

    /// Records an aggregate for the aggregate whose argument contains it, if there is one: its
    /// level, and the level of the aggregates in its own argument.
    fn note_aggregate(&self, level: usize, within: Option<usize>) {
        let around = Binder::chain(Some(self)).find_map(|b| Some((b, b.argument.get()?)));
        if let Some((binder, mut argument)) = around {
            let encloses = (binder.level() >= level).then_some(level);
            argument.aggregate = argument.aggregate.max(encloses).max(within);
            binder.argument.set(Some(argument));
        }
    }

    /// How many levels further out the query is to which an aggregate belongs. `column` is the
    /// level of the argument's columns.
    fn home(&self, column: Option<usize>) -> Result<usize> {
        let own = self.level();
        let here = self.aggregates_allowed.then_some(0);
        let found = match column {
            Some(level) if level == own => here,
            None if here.is_some() => here,
            _ => {
                let mut nearest = None;
                for (depth, binder) in (1..).zip(Binder::chain(self.parent)) {
                    let last = Some(own - depth) == column;
                    if binder.aggregates_allowed && (last || nearest.is_none()) {
                        nearest = Some(depth);
                    }
                    if last {
                        break;
                    }
                }
                nearest.or(here)
            }
        };
        found.ok_or_else(misplaced)
    }

    /// Binds an aggregate and adds it to the query to which it belongs.
    pub(super) fn aggregate(&mut self, written: WrittenAggregate<'_>) -> Result<Typed> {
        let around = self.argument.replace(Some(AggregateArgument::default()));
        let bound = self.aggregate_here(written);
        let argument = self.argument.replace(around).unwrap_or_default();
        let (mut aggregate, nullable) = bound?;
        let depth = self.home(argument.column)?;
        let level = self.level() - depth;
        if argument.aggregate.is_some_and(|within| within >= level) {
            return Err(misplaced());
        }
        self.note_aggregate(level, argument.aggregate);
        let Some(home) = Binder::chain(Some(self)).nth(depth) else { return Err(misplaced()) };
        if depth > 0 {
            // The aggregate's columns are resolved again, in the scope of that query.
            aggregate = home.twin().aggregate_here(written)?.0;
        }
        let (ty, collation) = (aggregate.ty.clone(), aggregate.collation);
        let mut aggregates = home.aggregates.borrow_mut();
        let slot = home.aggregate_base + aggregates.len();
        aggregates.push(aggregate);
        drop(aggregates);
        let expr = match depth {
            0 => Expr::Column(slot),
            _ => {
                self.note_outer(depth, slot);
                Expr::Outer(depth, slot)
            }
        };
        Ok(Typed { expr, ty, collation, nullable })
    }

    /// A binder of the same query with the same scope.
    fn twin(&self) -> Binder<'_> {
        Binder {
            scope: self.scope.clone(),
            parent: self.parent,
            ctes: self.ctes.clone(),
            aliases: self.aliases.clone(),
            aggregate_base: self.aggregate_base,
            aggregates_allowed: self.aggregates_allowed,
            place: self.place,
            inserting: self.inserting.clone(),
            ..Binder::new(self.names)
        }
    }

    /// Binds an aggregate with its argument in this query. Also returns whether it may be NULL.
    fn aggregate_here(&mut self, written: WrittenAggregate<'_>) -> Result<(Aggregate, bool)> {
        let WrittenAggregate { kind, args, distinct, clauses } = written;
        let shown = |arg: Typed| if kind == AggregateKind::GroupConcat { arg.shown() } else { arg };
        let numbered = |arg: Typed| if kind.is_arithmetic() { arg.numbered() } else { arg };
        let args = args.iter().map(|e| Ok(numbered(shown(self.bind(e)?))));
        let args = args.collect::<Result<Vec<Typed>>>()?;
        let (mut separator, mut order) = (",".to_owned(), Vec::new());
        for clause in clauses {
            match clause {
                ast::FunctionArgumentClause::Separator(value) => {
                    separator = literal(&value.value)?.to_text();
                }
                ast::FunctionArgumentClause::OrderBy(by) => {
                    for part in by {
                        let bound = match position(&part.expr, args.len())? {
                            Some(at) => args[at].clone(),
                            None => self.bind(&part.expr)?.by_member(),
                        };
                        order.push((bound.expr, part.options.asc.unwrap_or(true), bound.collation));
                    }
                }
                other => return Err(SqlError::unsupported(other)),
            }
        }
        let (ty, nullable) = kind.result(args.first());
        let collation = args.first().map_or(Collation::GeneralCi, |arg| arg.collation);
        let args = args.into_iter().map(|arg| arg.expr).collect();
        Ok((Aggregate { kind, args, distinct, separator, order, collation, ty }, nullable))
    }
}

/// The argument to which a whole number in ORDER BY refers.
fn position(expr: &ast::Expr, count: usize) -> Result<Option<usize>> {
    let ast::Expr::Value(value) = expr else { return Ok(None) };
    let ast::Value::Number(number, _) = &value.value else { return Ok(None) };
    let Ok(number) = number.to_string().parse::<usize>() else { return Ok(None) };
    match number.checked_sub(1).filter(|at| *at < count) {
        Some(at) => Ok(Some(at)),
        None => {
            let text = format!("Unknown column '{number}' in 'order clause'");
            Err(SqlError::new(1054, text))
        }
    }
}

#[cold]
fn misplaced() -> SqlError {
    SqlError::new(1111, "Invalid use of group function")
}
