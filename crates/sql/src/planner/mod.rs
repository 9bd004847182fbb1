//! The planner: binds the names in statements and plans queries into sources, filters and
//! projections.

mod access;
mod aggregate;
mod bind;
mod columns_read;
mod from;
mod full_group;
mod join_order;
mod literals;
mod min_max;
mod plan;
mod project;
mod pushdown;
pub(crate) mod query_plan;
mod scope;
mod set_columns;
mod stored_expressions;
mod visit;

pub(crate) use access::{Access, Hints, Interval, WHOLE, answered};
pub(crate) use aggregate::{Aggregate, AggregateKind};
pub(crate) use bind::{Binder, parameter};
pub(crate) use columns_read::{columns_of, columns_read, note_columns};
pub(crate) use from::{check_count, table_scope};
pub(crate) use join_order::{by_order, plan_table};
pub(crate) use literals::literal;
pub(crate) use plan::{bind_count, plan_query};
pub(crate) use query_plan::{
    Direct, Gathering, MinMaxAccess, MinMaxAccesses, OrderColumn, QueryBody, QueryPlan, Row,
    SelectPlan, SetOp, Source, SourceKind, Test,
};
pub(crate) use scope::{
    DAYS, FULL_GROUP_BY, INDEX_ONLY, LITERALS, MOMENTS, Names, PARAMETERS, ScopeColumn, ScopeTable,
};
pub(crate) use stored_expressions::{StoredClause, alone, bind_check, bind_default, check_foreign};
