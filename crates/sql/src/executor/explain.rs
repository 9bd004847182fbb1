//! The columns and rows of EXPLAIN.

use spillway_types::{ColumnType, Value};

use crate::api::{TEXT, int, text};
use crate::planner::{Direct, QueryBody, QueryPlan, Source, SourceKind};

/// The columns of EXPLAIN.
pub(crate) fn explain_columns() -> Vec<(&'static str, ColumnType)> {
    let names = [
        "id",
        "select_type",
        "table",
        "partitions",
        "type",
        "possible_keys",
        "key",
        "key_len",
        "ref",
        "rows",
        "filtered",
        "Extra",
    ];
    names
        .into_iter()
        .map(|name| (name, if ["id", "rows"].contains(&name) { ColumnType::BIGINT } else { TEXT }))
        .collect()
}

/// The rows of EXPLAIN for a query.
pub(crate) fn explain(plan: &QueryPlan) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    explain_into(plan, 1, "SIMPLE", &mut rows);
    rows
}

/// The row of EXPLAIN for an UPDATE or DELETE: how it finds its rows, and whether it sorts them.
pub(crate) fn explain_change(kind: &str, source: &Source, sorts: bool) -> Vec<Vec<Value>> {
    vec![source_line(1, kind, source, if sorts { &["Using filesort"] } else { &[] })]
}

/// The rows of EXPLAIN for an INSERT, and for the query that provides its rows.
pub(crate) fn explain_insert(table: &str, query: Option<&QueryPlan>) -> Vec<Vec<Value>> {
    let mut rows = vec![line(1, "INSERT", text(table), text("ALL"), Value::Null, "")];
    if let Some(plan) = query {
        explain_into(plan, 1, "SIMPLE", &mut rows);
    }
    rows
}

fn line(id: i64, kind: &str, table: Value, access: Value, key: Value, extra: &str) -> Vec<Value> {
    vec![
        int(id),
        text(kind),
        table,
        Value::Null,
        access,
        key.clone(),
        key,
        Value::Null,
        Value::Null,
        Value::Null,
        Value::Null,
        text(extra),
    ]
}

fn source_line(id: i64, kind: &str, source: &Source, more: &[&str]) -> Vec<Value> {
    let mut extra = Vec::new();
    if !source.filters.is_empty() {
        extra.push("Using where");
    }
    if source.access.cover.is_some() {
        extra.push("Using index");
    }
    if !source.hash.is_empty() {
        extra.push("Using join buffer (hash join)");
    }
    extra.extend(more);
    if source.access.backward {
        extra.push("Backward index scan");
    }
    let (access, key) = match &source.kind {
        SourceKind::Table(table) => {
            let key = match source.access.index {
                Some(index) => text(table.indexes[index].name.clone()),
                None if source.access.is_full() => Value::Null,
                None => text("PRIMARY"),
            };
            (text(source.access.name(table)), key)
        }
        _ => (text("ALL"), Value::Null),
    };
    line(id, kind, text(source.alias.clone()), access, key, &extra.join("; "))
}

fn explain_into(plan: &QueryPlan, id: i64, kind: &str, rows: &mut Vec<Vec<Value>>) {
    let none = || line(id, kind, Value::Null, Value::Null, Value::Null, "No tables used");
    match &plan.body {
        QueryBody::Values(_) => rows.push(none()),
        QueryBody::Set { left, right, .. } => {
            explain_into(left, id, "PRIMARY", rows);
            explain_into(right, id + 1, "UNION", rows);
        }
        QueryBody::Select(select) => {
            if select.sources.is_empty() {
                rows.push(none());
            }
            if let Some(Direct::Ends(_)) = select.direct {
                let extra = "Select tables optimized away";
                rows.push(line(id, kind, Value::Null, Value::Null, Value::Null, extra));
                return;
            }
            for (at, source) in select.sources.iter().enumerate() {
                let mut more = Vec::new();
                if at == 0 && select.grouped && !select.group.is_empty() {
                    more.push("Using temporary");
                }
                if at == 0 && !select.order.is_empty() && !select.ordered {
                    more.push("Using filesort");
                }
                rows.push(source_line(id, kind, source, &more));
            }
        }
    }
}
