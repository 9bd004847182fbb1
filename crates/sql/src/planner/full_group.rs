//! ONLY_FULL_GROUP_BY: a grouped query may name, outside of aggregates, only columns that have one
//! value in each group.
//!
//! A column has one value in each group if the query groups by it, or if a condition makes it equal
//! to a constant or to another column that has one value in each group. If the columns of a table's
//! primary key, or of a unique key without NULL, have one value in each group, all columns of the
//! table have one. If a subquery names columns of the grouped query, the same check applies to
//! these columns.

use std::collections::HashSet;

use spillway_types::Collation;

use super::query_plan::{Source, SourceKind};
use super::scope::ScopeTable;
use crate::errors::{Result, SqlError};
use crate::expression::{Expr, Op, Scalar, Typed};

pub(crate) struct Grouped<'a> {
    pub(crate) tables: &'a [ScopeTable],
    pub(crate) sources: &'a [Source],
    pub(crate) conditions: &'a [Expr],
    pub(crate) group: &'a [Expr],
    /// The first slot of the aggregates.
    pub(crate) width: usize,
    /// The number of queries that enclose this one.
    pub(crate) level: usize,
}

impl Grouped<'_> {
    /// Checks the clauses that are evaluated over groups.
    pub(crate) fn check_clauses(
        &self,
        projections: &[Typed],
        having: Option<&Expr>,
        order: &[(Expr, bool, Collation)],
    ) -> Result<()> {
        self.check("SELECT list", projections.iter().map(|typed| &typed.expr))?;
        self.check("HAVING clause", having.into_iter())?;
        self.check("ORDER BY clause", order.iter().map(|(expr, ..)| expr))
    }

    /// Checks the expressions of one clause.
    fn check<'e>(&self, clause: &str, exprs: impl Iterator<Item = &'e Expr>) -> Result<()> {
        let same = self.same_in_group();
        let grouped: HashSet<String> = self.group.iter().map(|e| format!("{e:?}")).collect();
        for (at, expr) in exprs.enumerate() {
            if let Some(slot) = self.stray(expr, self.level, &same, &grouped) {
                return Err(self.refused(clause, at + 1, slot));
            }
        }
        Ok(())
    }

    /// A column of this query that an expression of the query at `level` uses outside of aggregates
    /// and that may differ within a group.
    fn stray(
        &self,
        expr: &Expr,
        level: usize,
        same: &HashSet<usize>,
        grouped: &HashSet<String>,
    ) -> Option<usize> {
        let own = level == self.level;
        if own && grouped.contains(&format!("{expr:?}")) {
            return None;
        }
        let differs = |slot: &usize| (*slot < self.width && !same.contains(slot)).then_some(*slot);
        match expr {
            Expr::Column(slot) if own => differs(slot),
            Expr::Outer(depth, slot) if level.checked_sub(*depth) == Some(self.level) => {
                differs(slot)
            }
            Expr::Call(Scalar::AnyValue, ..) => None,
            other => {
                let mut found = None;
                other.parts(&mut |part| {
                    found = found.or_else(|| self.stray(part, level, same, grouped));
                });
                if let Expr::Subquery { plan, .. } = other {
                    plan.expressions(&mut |level, expr| {
                        found = found.or_else(|| self.stray(expr, level, same, grouped));
                    });
                }
                found
            }
        }
    }

    fn same_in_group(&self) -> HashSet<usize> {
        let mut same: HashSet<usize> = self
            .group
            .iter()
            .filter_map(|e| if let Expr::Column(slot) = e { Some(*slot) } else { None })
            .collect();
        loop {
            let before = same.len();
            for condition in self.conditions {
                let Expr::Binary(Op::Eq, a, b, _) = condition else { continue };
                match (&**a, &**b) {
                    (Expr::Column(a), Expr::Column(b)) if same.contains(a) || same.contains(b) => {
                        same.extend([*a, *b]);
                    }
                    (Expr::Column(slot), other) | (other, Expr::Column(slot))
                        if other.reach() == 0 && !matches!(other, Expr::Subquery { .. }) =>
                    {
                        same.insert(*slot);
                    }
                    _ => {}
                }
            }
            for source in self.sources {
                let SourceKind::Table(table) = &source.kind else { continue };
                let has = |column: usize| same.contains(&(source.offset + column));
                let primary = !table.primary.is_empty()
                    && table.primary.iter().all(|part| part.prefix.is_none() && has(part.column));
                let unique = table.indexes.iter().any(|index| {
                    index.unique
                        && index.parts.iter().all(|part| {
                            let column = &table.columns[part.column];
                            part.prefix.is_none() && !column.nullable && has(part.column)
                        })
                });
                if primary || unique {
                    same.extend(source.offset..source.offset + table.columns.len());
                }
            }
            if same.len() == before {
                return same;
            }
        }
    }

    #[cold]
    fn refused(&self, clause: &str, at: usize, slot: usize) -> SqlError {
        let table = self
            .tables
            .iter()
            .find(|table| (table.offset..table.offset + table.columns.len()).contains(&slot));
        let name = table.map_or_else(String::new, |table| {
            format!("{}.{}.{}", table.db, table.alias, table.columns[slot - table.offset].name)
        });
        let mode = "this is incompatible with sql_mode=only_full_group_by";
        if self.group.is_empty() {
            return SqlError::new(
                1140,
                format!(
                    "In aggregated query without GROUP BY, expression #{at} of {clause} contains nonaggregated column \
                     '{name}'; {mode}"
                ),
            );
        }
        SqlError::new(
            1055,
            format!(
                "Expression #{at} of {clause} is not in GROUP BY clause and contains nonaggregated column '{name}' which is \
                 not functionally dependent on columns in GROUP BY clause; {mode}"
            ),
        )
    }
}
