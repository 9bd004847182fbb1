//! SHOW statements about tables, their columns and indexes.

use spillway_types::{ColumnType, Value};

use super::shown::{Shown, escape, shown};
use crate::api::{int, text};
use crate::catalog::{
    Catalog, ColumnDef, DefaultValue, IndexPart, StorageEngine, TableDef, virtual_table,
};
use crate::errors::Result;
use crate::expression::Server;
use crate::privilege::quote;

/// The default of a column, as `COLUMN_DEFAULT` shows it.
pub(super) fn default_text(column: &ColumnDef) -> Value {
    match &column.default {
        DefaultValue::None | DefaultValue::Null => Value::Null,
        DefaultValue::Const(value, true) => text(format!("0x{value}")),
        DefaultValue::Const(value, false) => text(value.clone()),
        DefaultValue::CurrentTimestamp => text(current_timestamp(&column.ty)),
        DefaultValue::Expr(expr) => text(expr.clone()),
    }
}

fn current_timestamp(ty: &ColumnType) -> String {
    match ty {
        ColumnType::DateTime(digits) | ColumnType::Timestamp(digits) if *digits > 0 => {
            format!("CURRENT_TIMESTAMP({digits})")
        }
        _ => "CURRENT_TIMESTAMP".to_owned(),
    }
}

pub(super) fn key_of(table: &TableDef, at: usize) -> &'static str {
    let leads = |parts: &[IndexPart]| parts.first().is_some_and(|part| part.column == at);
    if table.primary.iter().any(|part| part.column == at) {
        "PRI"
    } else if table
        .indexes
        .iter()
        .any(|index| index.unique && index.parts.len() == 1 && leads(&index.parts))
    {
        "UNI"
    } else if table.indexes.iter().any(|index| leads(&index.parts)) {
        "MUL"
    } else {
        ""
    }
}

pub(super) fn extra_of(column: &ColumnDef) -> String {
    let mut extra = Vec::new();
    if column.auto_increment {
        extra.push("auto_increment".to_owned());
    }
    if matches!(column.default, DefaultValue::CurrentTimestamp | DefaultValue::Expr(_)) {
        extra.push("DEFAULT_GENERATED".to_owned());
    }
    if column.on_update_now {
        extra.push(format!("on update {}", current_timestamp(&column.ty)));
    }
    extra.join(" ")
}

fn parts_text(table: &TableDef, parts: &[IndexPart]) -> String {
    let parts = parts.iter().map(|part| {
        let prefix = part.prefix.map_or(String::new(), |prefix| format!("({prefix})"));
        format!("{}{prefix}", quote(&table.columns[part.column].name))
    });
    parts.collect::<Vec<_>>().join(",")
}

/// A column as CREATE TABLE defines it.
fn column_line(table: &TableDef, column: &ColumnDef) -> String {
    let mut line = format!("  {} {}", quote(&column.name), column.ty);
    if column.ty.is_text() && column.ty != ColumnType::Json && column.collation != table.collation {
        line += &format!(
            " CHARACTER SET {} COLLATE {}",
            column.collation.charset(),
            column.collation.name()
        );
    }
    if !column.nullable {
        line += " NOT NULL";
    } else if matches!(column.ty, ColumnType::Timestamp(_)) {
        line += " NULL";
    }
    match &column.default {
        DefaultValue::Null
            if !matches!(
                column.ty,
                ColumnType::Text(_) | ColumnType::Blob(_) | ColumnType::Json
            ) =>
        {
            line += " DEFAULT NULL";
        }
        DefaultValue::Null | DefaultValue::None => {}
        DefaultValue::Const(value, true) => line += &format!(" DEFAULT 0x{value}"),
        DefaultValue::Const(value, false) => line += &format!(" DEFAULT '{}'", escape(value)),
        DefaultValue::CurrentTimestamp => {
            line += &format!(" DEFAULT {}", current_timestamp(&column.ty))
        }
        DefaultValue::Expr(expr) => line += &format!(" DEFAULT ({expr})"),
    }
    if column.on_update_now {
        line += &format!(" ON UPDATE {}", current_timestamp(&column.ty));
    }
    if column.auto_increment {
        line += " AUTO_INCREMENT";
    }
    if !column.comment.is_empty() {
        line += &format!(" COMMENT '{}'", escape(&column.comment));
    }
    line
}

/// The statement that creates a table.
pub(super) fn create_table(server: &dyn Server, table: &TableDef) -> String {
    let mut lines: Vec<String> =
        table.columns.iter().map(|column| column_line(table, column)).collect();
    if !table.primary.is_empty() {
        lines.push(format!("  PRIMARY KEY ({})", parts_text(table, &table.primary)));
    }
    for index in &table.indexes {
        let unique = if index.unique { "UNIQUE " } else { "" };
        lines.push(format!(
            "  {unique}KEY {} ({})",
            quote(&index.name),
            parts_text(table, &index.parts)
        ));
    }
    for check in &table.checks {
        let not = if check.enforced { "" } else { " /*!80016 NOT ENFORCED */" };
        lines.push(format!("  CONSTRAINT {} CHECK ({}){not}", quote(&check.name), check.expr));
    }
    let (name, engine) = (quote(&table.name), StorageEngine::of(table.engine).name);
    let mut out = format!("CREATE TABLE {name} (\n{}\n) ENGINE={engine}", lines.join(",\n"));
    if table.auto_column().is_some() {
        let next = server.auto_increment_of(table);
        if next > 1 {
            out += &format!(" AUTO_INCREMENT={next}");
        }
    }
    out += &format!(
        " DEFAULT CHARSET={} COLLATE={}",
        table.collation.charset(),
        table.collation.name()
    );
    if !table.comment.is_empty() {
        out += &format!(" COMMENT='{}'", escape(&table.comment));
    }
    out
}

pub(super) fn columns_of(
    catalog: &Catalog,
    (db, name): &(String, String),
    full: bool,
) -> Result<Shown> {
    if let Some(columns) = virtual_table(&format!("{}.{}", db.to_lowercase(), name.to_lowercase()))
    {
        let rows = columns.into_iter().map(|(name, ty)| {
            vec![text(name), text(ty.to_string()), text("YES"), text(""), Value::Null, text("")]
        });
        return Ok(shown(&["Field", "Type", "Null", "Key", "Default", "Extra"], rows.collect()));
    }
    let table = catalog.table(db, name)?;
    let mut rows = Vec::new();
    for (at, column) in table.columns.iter().enumerate() {
        let collation =
            if column.ty.is_text() { text(column.collation.name()) } else { Value::Null };
        let null = text(if column.nullable { "YES" } else { "NO" });
        let (field, ty) = (text(column.name.clone()), text(column.ty.to_string()));
        let (key, default, extra) =
            (text(key_of(table, at)), default_text(column), text(extra_of(column)));
        rows.push(if full {
            let rights = text("select,insert,update,references");
            vec![
                field,
                ty,
                collation,
                null,
                key,
                default,
                extra,
                rights,
                text(column.comment.clone()),
            ]
        } else {
            vec![field, ty, null, key, default, extra]
        });
    }
    Ok(if full {
        shown(
            &[
                "Field",
                "Type",
                "Collation",
                "Null",
                "Key",
                "Default",
                "Extra",
                "Privileges",
                "Comment",
            ],
            rows,
        )
    } else {
        shown(&["Field", "Type", "Null", "Key", "Default", "Extra"], rows)
    })
}

pub(super) fn rows_estimate(server: &dyn Server, table: &TableDef) -> spillway::RangeEstimate {
    server.database().estimate(table.rows(), spillway::KeyRange::ALL)
}

/// The columns that SHOW TABLE STATUS and `information_schema.tables` share, from a table's engine
/// to its comment.
pub(super) fn status_values(server: &dyn Server, table: &TableDef) -> Vec<Value> {
    let mut values = vec![text(StorageEngine::of(table.engine).name), int(10), text("Dynamic")];
    values.extend(size_values(server, table));
    values.push(match table.auto_column() {
        Some(_) => int(server.auto_increment_of(table) as i64),
        None => Value::Null,
    });
    // The times of creation, change and check are not stored.
    values.extend([Value::Null, Value::Null, Value::Null]);
    values.extend([text(table.collation.name()), Value::Null, text("")]);
    values.push(text(table.comment.clone()));
    values
}

/// The columns about a table's size, from its rows to the free bytes in its extents. The maximum
/// size is shown as 0, because there is none.
fn size_values(server: &dyn Server, table: &TableDef) -> [Value; 6] {
    let rows = server.database().size(table.rows());
    let (mut index_bytes, mut free_bytes) = (0, rows.free_bytes);
    for index in &table.indexes {
        let size = server.database().size(spillway_base::TableId(index.space));
        index_bytes += size.used_bytes;
        free_bytes += size.free_bytes;
    }
    let average = rows.used_bytes.checked_div(rows.rows).unwrap_or(0);
    [rows.rows, average, rows.used_bytes, 0, index_bytes, free_bytes].map(|value| int(value as i64))
}

/// Each part of each index: the index's name, whether it is unique, the part's position, and the
/// part.
pub(super) fn index_parts(table: &TableDef) -> Vec<(&str, bool, usize, &IndexPart)> {
    let mut all = Vec::new();
    for (place, part) in table.primary.iter().enumerate() {
        all.push(("PRIMARY", true, place + 1, part));
    }
    for index in &table.indexes {
        for (place, part) in index.parts.iter().enumerate() {
            all.push((index.name.as_str(), index.unique, place + 1, part));
        }
    }
    all
}

/// The columns that SHOW INDEX and `information_schema.statistics` share for a part of an index,
/// from the index's name on.
pub(super) fn index_values(
    table: &TableDef,
    name: &str,
    place: usize,
    part: &IndexPart,
    keys: u64,
) -> [Value; 13] {
    let column = &table.columns[part.column];
    [
        text(name),
        int(place as i64),
        text(column.name.clone()),
        text("A"),
        int(keys as i64),
        part.prefix.map_or(Value::Null, |prefix| int(i64::from(prefix))),
        Value::Null,
        text(if column.nullable { "YES" } else { "" }),
        text("BTREE"),
        text(""),
        text(""),
        text("YES"),
        Value::Null,
    ]
}

pub(super) fn indexes_of(server: &dyn Server, table: &TableDef) -> Shown {
    let keys = rows_estimate(server, table).keys;
    let rows = index_parts(table).into_iter().map(|(name, unique, place, part)| {
        let mut values = vec![text(table.name.clone()), int(i64::from(!unique))];
        values.extend(index_values(table, name, place, part, keys));
        values
    });
    let names = [
        "Table",
        "Non_unique",
        "Key_name",
        "Seq_in_index",
        "Column_name",
        "Collation",
        "Cardinality",
        "Sub_part",
        "Packed",
        "Null",
        "Index_type",
        "Comment",
        "Index_comment",
        "Visible",
        "Expression",
    ];
    let mut out = shown(&names, rows.collect());
    for at in [1, 3, 6, 7] {
        out.columns[at].1 = ColumnType::BIGINT;
    }
    out
}

pub(super) fn table_status(server: &dyn Server, catalog: &Catalog, db: &str) -> Shown {
    let rows = catalog.tables_of(db).map(|table| {
        let mut row = vec![text(table.name.clone())];
        row.extend(status_values(server, table));
        row
    });
    let names = [
        "Name",
        "Engine",
        "Version",
        "Row_format",
        "Rows",
        "Avg_row_length",
        "Data_length",
        "Max_data_length",
        "Index_length",
        "Data_free",
        "Auto_increment",
        "Create_time",
        "Update_time",
        "Check_time",
        "Collation",
        "Checksum",
        "Create_options",
        "Comment",
    ];
    let mut out = shown(&names, rows.collect());
    for at in [2, 4, 5, 6, 7, 8, 9, 10] {
        out.columns[at].1 = ColumnType::BIGINT;
    }
    out
}
