//! Reads MIN and MAX at the ends of indexes.

use spillway_types::Value;

use super::aggregate::AggregateState;
use super::index_ranges::{finds_equal, spans};
use super::pushdown;
use super::span_scan::is_readable;
use super::spans::Places;
use crate::catalog::{StoredRow, TableDef};
use crate::errors::Result;
use crate::expression::Context;
use crate::planner::{MinMaxAccess, MinMaxAccesses, Source};

impl MinMaxAccesses {
    /// Whether the ends of these indexes have the values: the statement's current values can be
    /// looked up, so that the rows come in order, and the statement's snapshot sees the whole
    /// indexes.
    pub(super) fn are_known(&self, context: &Context<'_>, table: &TableDef) -> Result<bool> {
        for end in &self.0 {
            let is_whole = is_readable(context, table, &end.access);
            if !is_whole || !finds_equal(context, &end.access, table)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Finds the value of each aggregate. With `never`, there are no rows.
    pub(super) fn find(
        &self,
        context: &Context<'_>,
        source: &Source,
        table: &TableDef,
        never: bool,
    ) -> Result<Vec<AggregateState>> {
        let mut states = Vec::with_capacity(self.0.len());
        for MinMaxAccess { access, column } in &self.0 {
            let mut found = Value::Null;
            if !never {
                let places = Places::Spans(spans(context, access, table, &[])?);
                let way = (access, &places);
                pushdown::scan_stored(
                    context,
                    source,
                    table,
                    way,
                    true,
                    |row: &StoredRow<'_>, _: &[u8]| {
                        found = row.get(*column)?.to_owned();
                        Ok(found.is_null())
                    },
                )?;
            }
            states.push(if found.is_null() {
                AggregateState::default()
            } else {
                AggregateState::of_end(found)
            });
        }
        Ok(states)
    }
}
