//! Visits all expressions of a plan.

use super::aggregate::Aggregate;
use super::query_plan::{QueryBody, QueryPlan, SelectPlan, SourceKind};
use crate::expression::Expr;

impl QueryPlan {
    /// Calls `visit` with every expression of this query, of its derived tables and of the derived
    /// tables of these, but not with parts of expressions. Each comes with the level of its query:
    /// the number of queries that enclose it.
    pub(crate) fn expressions(&self, visit: &mut dyn FnMut(usize, &Expr)) {
        self.expressions_at(self.depth, visit);
    }

    fn expressions_at(&self, level: usize, visit: &mut dyn FnMut(usize, &Expr)) {
        match &self.body {
            QueryBody::Select(select) => select.expressions_at(level, visit),
            QueryBody::Set { left, right, .. } => {
                left.expressions_at(level, visit);
                right.expressions_at(level, visit);
            }
            QueryBody::Values(rows) => rows.iter().flatten().for_each(|expr| visit(level, expr)),
        }
    }
}

impl SelectPlan {
    fn expressions_at(&self, level: usize, visit: &mut dyn FnMut(usize, &Expr)) {
        for source in &self.sources {
            source.conditions().for_each(|expr| visit(level, expr));
            if let SourceKind::Derived(plan) = &source.kind {
                plan.expressions(visit);
            }
        }
        let before = self.constant.iter().chain(self.group.iter().map(|(expr, _)| expr));
        let aggregates = self.aggregates.iter().flat_map(Aggregate::expressions);
        let after = self.having.iter().chain(&self.projections);
        let order = self.order.iter().map(|(expr, ..)| expr);
        before.chain(aggregates).chain(after).chain(order).for_each(|expr| visit(level, expr));
    }
}
