//! Computes the rows of the tables of information_schema.

use std::cell::RefCell;

use spillway_types::{ColumnType, Value};

use super::server::{charset_rows, collation_rows, engine_rows, process_rows};
use super::tables::{
    default_text, extra_of, index_parts, index_values, key_of, rows_estimate, status_values,
};
use super::tiered::VisibleStorage;
use crate::api::{int, text};
use crate::catalog::{Catalog, SYSTEM, TableDef, VIRTUAL};
use crate::expression::Server;
use crate::variables::Variables;

/// The rows of a virtual table.
pub(crate) fn virtual_rows(
    server: &dyn Server,
    catalog: &Catalog,
    variables: &RefCell<Variables>,
    name: &str,
) -> Vec<Vec<Value>> {
    let def = || text("def");
    let variables = variables.borrow();
    let (catalog, user) = (&*variables.seen(catalog), variables.account(catalog));
    let tables = || catalog.tables.values();
    let stored = || VisibleStorage::seen_by(user, server, catalog);
    match name {
        "information_schema.schemata" => {
            let mut names: Vec<&str> = catalog.databases.keys().map(String::as_str).collect();
            names.extend(SYSTEM);
            names
                .into_iter()
                .map(|name| {
                    vec![
                        def(),
                        text(name),
                        text("utf8mb4"),
                        text("utf8mb4_general_ci"),
                        Value::Null,
                        text("NO"),
                    ]
                })
                .collect()
        }
        "information_schema.tables" => {
            let mut rows: Vec<Vec<Value>> = tables()
                .map(|table| {
                    let mut row = vec![
                        def(),
                        text(table.db.clone()),
                        text(table.name.clone()),
                        text("BASE TABLE"),
                    ];
                    row.extend(status_values(server, table));
                    row
                })
                .collect();
            for (name, _) in VIRTUAL {
                let (db, table) = name.split_once('.').unwrap_or(("", name));
                let mut row =
                    vec![def(), text(db), text(table.to_uppercase()), text("SYSTEM VIEW")];
                row.resize(21, Value::Null);
                rows.push(row);
            }
            rows
        }
        "information_schema.columns" => tables()
            .flat_map(|table| (0..table.columns.len()).map(|at| column_row(table, at)))
            .collect(),
        "information_schema.statistics" => tables()
            .flat_map(|table| {
                let keys = rows_estimate(server, table).keys;
                index_parts(table).into_iter().map(move |(name, unique, place, part)| {
                    let mut values = vec![
                        text("def"),
                        text(table.db.clone()),
                        text(table.name.clone()),
                        int(i64::from(!unique)),
                        text(table.db.clone()),
                    ];
                    values.extend(index_values(table, name, place, part, keys));
                    values
                })
            })
            .collect(),
        "information_schema.key_column_usage" => tables()
            .flat_map(|table| {
                index_parts(table).into_iter().filter(|(_, unique, ..)| *unique).map(
                    |(name, _, place, part)| {
                        let column = table.columns[part.column].name.clone();
                        let (db, table) = (table.db.clone(), table.name.clone());
                        vec![
                            text("def"),
                            text(db.clone()),
                            text(name),
                            text("def"),
                            text(db),
                            text(table),
                            text(column),
                            int(place as i64),
                            Value::Null,
                            Value::Null,
                            Value::Null,
                            Value::Null,
                        ]
                    },
                )
            })
            .collect(),
        "information_schema.table_constraints" => tables()
            .flat_map(|table| {
                let row = |name: &str, kind: &str| {
                    vec![
                        text("def"),
                        text(table.db.clone()),
                        text(name),
                        text(table.db.clone()),
                        text(table.name.clone()),
                        text(kind),
                        text("YES"),
                    ]
                };
                let mut rows = Vec::new();
                if !table.primary.is_empty() {
                    rows.push(row("PRIMARY", "PRIMARY KEY"));
                }
                rows.extend(
                    table
                        .indexes
                        .iter()
                        .filter(|index| index.unique)
                        .map(|index| row(&index.name, "UNIQUE")),
                );
                rows.extend(table.checks.iter().map(|check| row(&check.name, "CHECK")));
                rows
            })
            .collect(),
        "information_schema.check_constraints" => tables()
            .flat_map(|table| {
                table.checks.iter().map(|check| {
                    vec![
                        text("def"),
                        text(table.db.clone()),
                        text(check.name.clone()),
                        text(check.expr.clone()),
                    ]
                })
            })
            .collect(),
        "information_schema.character_sets" => charset_rows()
            .into_iter()
            .map(|row| vec![row[0].clone(), row[2].clone(), row[1].clone(), row[3].clone()])
            .collect(),
        "information_schema.collations" => collation_rows(),
        "information_schema.collation_character_set_applicability" => {
            collation_rows().into_iter().map(|row| row[..2].to_vec()).collect()
        }
        "information_schema.engines" => engine_rows(&variables),
        "information_schema.processlist" => process_rows(server, user),
        "information_schema.user_privileges" => catalog
            .users
            .values()
            .flat_map(|user| {
                let rights = user.grants.get("*").cloned().unwrap_or_default();
                rights.into_iter().map(|right| {
                    vec![
                        text(format!("'{}'@'{}'", user.name, user.host)),
                        text("def"),
                        text(right),
                        text("YES"),
                    ]
                })
            })
            .collect(),
        "information_schema.tiered_levels" => stored().levels(),
        "information_schema.tiered_slices" => stored().slices(),
        "information_schema.tiered_compactions" => stored().compactions(),
        "information_schema.tiered_picture" => stored().picture(),
        "mysql.user" => catalog
            .users
            .values()
            .map(|user| {
                vec![
                    text(user.host.clone()),
                    text(user.name.clone()),
                    int(user.limits.queries_per_hour),
                    int(user.limits.updates_per_hour),
                    int(user.limits.connections_per_hour),
                    int(user.limits.user_connections),
                    text(user.plugin.clone()),
                    text(if user.stored.is_empty() { "" } else { "*" }),
                    text(if user.locked { "Y" } else { "N" }),
                ]
            })
            .collect(),
        _ => Vec::new(),
    }
}

fn column_row(table: &TableDef, at: usize) -> Vec<Value> {
    let column = &table.columns[at];
    let chars = match &column.ty {
        ColumnType::Char(n) | ColumnType::VarChar(n) => Some((i64::from(*n), 4 * i64::from(*n))),
        ColumnType::Binary(n) | ColumnType::VarBinary(n) => Some((i64::from(*n), i64::from(*n))),
        ColumnType::Text(size) | ColumnType::Blob(size) => {
            Some((size.bytes_max() as i64, size.bytes_max() as i64))
        }
        _ => None,
    };
    let numeric = match &column.ty {
        ColumnType::Int { unsigned, width, .. } => {
            use spillway_types::column::IntWidth as W;
            let digits = match width {
                W::Tiny => 3,
                W::Small => 5,
                W::Medium => 7,
                W::Normal => 10,
                W::Big if *unsigned => 20,
                W::Big => 19,
            };
            Some((digits, Some(0)))
        }
        ColumnType::Decimal { precision, scale, .. } => {
            Some((i64::from(*precision), Some(i64::from(*scale))))
        }
        ColumnType::Float => Some((12, None)),
        ColumnType::Double => Some((22, None)),
        ColumnType::Bit(bits) => Some((i64::from(*bits), None)),
        _ => None,
    };
    let digits = match column.ty {
        ColumnType::Time(digits) | ColumnType::DateTime(digits) | ColumnType::Timestamp(digits) => {
            int(i64::from(digits))
        }
        _ => Value::Null,
    };
    let is_text = column.ty.is_text();
    let or_null = |value: Option<i64>| value.map_or(Value::Null, Value::Int);
    vec![
        text("def"),
        text(table.db.clone()),
        text(table.name.clone()),
        text(column.name.clone()),
        int(at as i64 + 1),
        default_text(column),
        text(if column.nullable { "YES" } else { "NO" }),
        text(column.ty.name()),
        or_null(chars.map(|(chars, _)| chars)),
        or_null(chars.map(|(_, bytes)| bytes)),
        or_null(numeric.map(|(digits, _)| digits)),
        or_null(numeric.and_then(|(_, scale)| scale)),
        digits,
        if is_text { text("utf8mb4") } else { Value::Null },
        if is_text { text(column.collation.name()) } else { Value::Null },
        text(column.ty.to_string()),
        text(key_of(table, at)),
        text(extra_of(column)),
        text("select,insert,update,references"),
        text(column.comment.clone()),
        text(""),
        Value::Null,
    ]
}
