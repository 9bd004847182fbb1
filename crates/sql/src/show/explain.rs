//! EXPLAIN.

use spillway_types::{ColumnType, Value};

use super::{TEXT, int, text};
use crate::query::{Body, QueryPlan, SourceKind};

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

/// How a query would run.
pub(crate) fn explain(plan: &QueryPlan) -> Vec<Vec<Value>> {
    let mut rows = Vec::new();
    explain_into(plan, 1, "SIMPLE", &mut rows);
    rows
}

fn explain_into(plan: &QueryPlan, id: i64, kind: &str, rows: &mut Vec<Vec<Value>>) {
    let line = |table: Value, access: Value, key: Value, extra: String| {
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
    };
    match &plan.body {
        Body::Values(_) => {
            rows.push(line(Value::Null, Value::Null, Value::Null, "No tables used".to_owned()))
        }
        Body::Set { left, right, .. } => {
            explain_into(left, id, "PRIMARY", rows);
            explain_into(right, id + 1, "UNION", rows);
        }
        Body::Select(select) => {
            if select.sources.is_empty() {
                rows.push(line(Value::Null, Value::Null, Value::Null, "No tables used".to_owned()));
            }
            for (at, source) in select.sources.iter().enumerate() {
                let mut extra = Vec::new();
                if !source.filters.is_empty() {
                    extra.push("Using where");
                }
                if !source.hash.is_empty() {
                    extra.push("Using join buffer (hash join)");
                }
                if at == 0 && select.grouped && !select.group.is_empty() {
                    extra.push("Using temporary");
                }
                if at == 0 && !select.order.is_empty() && !select.ordered {
                    extra.push("Using filesort");
                }
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
                rows.push(line(text(source.alias.clone()), access, key, extra.join("; ")));
            }
        }
    }
}
