//! SHOW, DESCRIBE, EXPLAIN, and the tables of information_schema.

use std::cell::RefCell;

use spillway_types::{Collation, ColumnType, Value};
use sqlparser::tokenizer::Token;

use crate::api::{ColumnFlags, ResultColumn};
use crate::catalog::{Catalog, ColumnDef, DefaultValue, IndexPart, SYSTEM, TableDef};
use crate::errors::{Result, SqlError};
use crate::parse::word;
use crate::query::{Body, QueryPlan, SourceKind};
use crate::session::{Instance, Variables, path_of};

/// What a SHOW statement gives.
pub(crate) struct Shown {
    pub(crate) columns: Vec<(String, ColumnType)>,
    pub(crate) rows: Vec<Vec<Value>>,
}

const TEXT: ColumnType = ColumnType::VarChar(1024);

fn text(value: impl Into<String>) -> Value {
    Value::Text(value.into())
}

fn int(value: impl TryInto<i64>) -> Value {
    Value::Int(value.try_into().unwrap_or(i64::MAX))
}

pub(crate) fn result_columns(columns: &[(&str, ColumnType)]) -> Vec<ResultColumn> {
    columns
        .iter()
        .map(|(name, ty)| ResultColumn {
            schema: "".into(),
            table: "".into(),
            org_table: "".into(),
            name: (*name).into(),
            org_name: (*name).into(),
            column_type: ty.clone(),
            collation: if ty.is_text() { Collation::GeneralCi } else { Collation::Binary },
            flags: ColumnFlags::default(),
        })
        .collect()
}

fn shown(columns: &[&str], rows: Vec<Vec<Value>>) -> Shown {
    Shown { columns: columns.iter().map(|name| ((*name).to_owned(), TEXT)).collect(), rows }
}

fn quote(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\'', "''").replace('\n', "\\n")
}

/// The default of a column, as `COLUMN_DEFAULT` has it.
fn default_text(column: &ColumnDef) -> Value {
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

fn key_of(table: &TableDef, at: usize) -> &'static str {
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

fn extra_of(column: &ColumnDef) -> String {
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

/// The statement that makes a table.
pub(crate) fn create_table(instance: &Instance, table: &TableDef) -> String {
    let mut lines = Vec::new();
    for column in &table.columns {
        let mut line = format!("  {} {}", quote(&column.name), column.ty);
        if column.ty.is_text()
            && column.ty != ColumnType::Json
            && column.collation != table.collation
        {
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
        lines.push(line);
    }
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
    let mut out =
        format!("CREATE TABLE {} (\n{}\n) ENGINE=TIERED", quote(&table.name), lines.join(",\n"));
    if table.auto_column().is_some() {
        let next = instance.auto_increment_of(table);
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

/// Keeps the rows whose column is like the pattern of a LIKE or a simple WHERE at the end of a statement.
fn filter(
    plain: &[Token],
    words: &[String],
    rows: &mut Vec<Vec<Value>>,
    columns: &[String],
) -> Result<()> {
    if let Some(at) = words.iter().position(|word| word == "like") {
        let pattern = match plain.get(at + 1) {
            Some(Token::SingleQuotedString(pattern) | Token::DoubleQuotedString(pattern)) => {
                pattern.clone()
            }
            _ => return Err(SqlError::syntax("LIKE needs a text")),
        };
        let column = if let Some(place) = words.iter().position(|word| word == "where") {
            let name = crate::parse::word(plain.get(place + 1));
            columns.iter().position(|column| column.eq_ignore_ascii_case(&name)).unwrap_or(0)
        } else {
            0
        };
        rows.retain(|row| Collation::GeneralCi.like(&row[column].to_text(), &pattern, Some('\\')));
    } else if let Some(at) = words.iter().position(|word| word == "where") {
        let name = match plain.get(at + 1) {
            Some(Token::Word(word)) => word.value.clone(),
            _ => String::new(),
        };
        let column = columns.iter().position(|column| column.eq_ignore_ascii_case(&name));
        let column = column.ok_or_else(|| SqlError::unknown_column(&name, "where clause"))?;
        let list: Vec<&String> = plain[at + 2..]
            .iter()
            .filter_map(|token| match token {
                Token::SingleQuotedString(text) | Token::DoubleQuotedString(text) => Some(text),
                _ => None,
            })
            .collect();
        let known = matches!(plain.get(at + 2), Some(Token::Eq))
            || crate::parse::word(plain.get(at + 2)) == "in";
        if !known || words[at..].iter().any(|word| word == "and" || word == "not") {
            return Err(SqlError::unsupported(
                "this WHERE of a SHOW statement; use information_schema",
            ));
        }
        let all_names =
            plain[at + 2..].iter().filter(|token| matches!(token, Token::Word(_))).count();
        if words[at..].iter().any(|word| word == "or") || all_names > 1 {
            // `a = 'x' OR a = 'y'`: the values of one column.
            rows.retain(|row| {
                list.iter().any(|value| row[column].to_text().eq_ignore_ascii_case(value))
            });
        } else {
            rows.retain(|row| {
                list.iter().any(|value| row[column].to_text().eq_ignore_ascii_case(value))
            });
        }
    }
    Ok(())
}

fn after<'t>(plain: &'t [Token], words: &[String], names: &[&str]) -> Option<(usize, &'t [Token])> {
    let at = words.iter().position(|word| names.contains(&word.as_str()))?;
    Some((at, &plain[at + 1..]))
}

fn path_at(tokens: &[Token]) -> String {
    let mut out = String::new();
    for token in tokens {
        match token {
            Token::Word(_) | Token::Period
                if out.is_empty() || out.ends_with('.') || *token == Token::Period =>
            {
                out += &token.to_string();
            }
            _ => break,
        }
    }
    out
}

/// Runs a SHOW, DESCRIBE or EXPLAIN of a table.
pub(crate) fn show(
    instance: &Instance,
    catalog: &Catalog,
    variables: &Variables,
    lines: Vec<(String, String)>,
    plain: &[Token],
    words: &[String],
) -> Result<Shown> {
    let database = variables.database.as_deref();
    let mut words: Vec<String> = words.to_vec();
    let mut plain: Vec<Token> = plain.to_vec();
    let mut full = false;
    if word(plain.first()) == "show" {
        while ["full", "extended", "global", "session", "local"]
            .contains(&words.get(1).map_or("", String::as_str))
        {
            full |= words[1] == "full";
            words.remove(1);
            plain.remove(1);
        }
    }
    let at = |index: usize| words.get(index).map_or("", String::as_str);
    if at(0) != "show" {
        return columns_of(catalog, database, &path_at(&plain[1..]), false);
    }
    let in_database = |place: usize| -> Result<String> {
        let rest: &[String] = words.get(place..).unwrap_or_default();
        match rest.iter().position(|word| word == "from" || word == "in") {
            Some(found) => match plain.get(place + found + 1) {
                Some(Token::Word(word)) => Ok(word.value.clone()),
                _ => Err(SqlError::syntax("FROM needs a name")),
            },
            None => {
                Ok(database.ok_or_else(|| SqlError::new(1046, "No database selected"))?.to_owned())
            }
        }
    };
    let mut out = match at(1) {
        "databases" | "schemas" => {
            let mut names: Vec<String> = catalog.databases.keys().cloned().collect();
            names.extend(SYSTEM.iter().map(|name| (*name).to_owned()));
            names.sort();
            shown(&["Database"], names.into_iter().map(|name| vec![text(name)]).collect())
        }
        "tables" => {
            let db = in_database(2)?;
            if !catalog.has_database(&db) {
                return Err(SqlError::new(1049, format!("Unknown database '{db}'")));
            }
            let name = format!("Tables_in_{db}");
            let rows = catalog.tables_of(&db).map(|table| {
                let mut row = vec![text(table.name.clone())];
                if full {
                    row.push(text("BASE TABLE"));
                }
                row
            });
            let columns: Vec<&str> = if full { vec![&name, "Table_type"] } else { vec![&name] };
            shown(&columns, rows.collect())
        }
        "columns" | "fields" => {
            let (place, rest) = after(&plain, &words, &["from", "in"])
                .ok_or_else(|| SqlError::syntax("FROM is missing"))?;
            let mut path = path_at(rest);
            if let Some(found) =
                words[place + 2..].iter().position(|word| word == "from" || word == "in")
            {
                path = format!("{}.{path}", path_at(&plain[place + 3 + found..]));
            }
            columns_of(catalog, database, &path, full)?
        }
        "index" | "indexes" | "keys" => {
            let (place, rest) = after(&plain, &words, &["from", "in"])
                .ok_or_else(|| SqlError::syntax("FROM is missing"))?;
            let mut path = path_at(rest);
            if let Some(found) =
                words[place + 2..].iter().position(|word| word == "from" || word == "in")
            {
                path = format!("{}.{path}", path_at(&plain[place + 3 + found..]));
            }
            let (db, name) = path_of(&path, database)?;
            indexes_of(instance, catalog.table(&db, &name)?)
        }
        "create" if at(2) == "table" => {
            let (db, name) = path_of(&path_at(&plain[3..]), database)?;
            let table = catalog.table(&db, &name)?;
            let row = vec![text(table.name.clone()), text(create_table(instance, table))];
            Shown {
                columns: vec![
                    ("Table".into(), TEXT),
                    (
                        "Create Table".into(),
                        ColumnType::Text(spillway_types::column::LobSize::Long),
                    ),
                ],
                rows: vec![row],
            }
        }
        "create" if at(2) == "database" || at(2) == "schema" => {
            let name =
                plain.last().map_or(String::new(), |token| token.to_string().replace('`', ""));
            if !catalog.has_database(&name) {
                return Err(SqlError::new(1049, format!("Unknown database '{name}'")));
            }
            let made = format!(
                "CREATE DATABASE {} /*!40100 DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci */",
                quote(&name)
            );
            shown(&["Database", "Create Database"], vec![vec![text(name), text(made)]])
        }
        "create" => {
            return Err(SqlError::unsupported(format!("SHOW CREATE {}", at(2).to_uppercase())));
        }
        "table" if at(2) == "status" => table_status(instance, catalog, &in_database(3)?),
        "variables" => {
            let rows = lines.into_iter().map(|(name, value)| vec![text(name), text(value)]);
            shown(&["Variable_name", "Value"], rows.collect())
        }
        "status" => {
            let rows = instance
                .status_lines()
                .into_iter()
                .map(|(name, value)| vec![text(name), text(value)]);
            shown(&["Variable_name", "Value"], rows.collect())
        }
        "processlist" => Shown {
            columns: virtual_table("information_schema.processlist").unwrap_or_default(),
            rows: process_rows(instance),
        },
        "engines" | "storage" => shown(
            &["Engine", "Support", "Comment", "Transactions", "XA", "Savepoints"],
            engine_rows(),
        ),
        "engine" => shown(
            &["Type", "Name", "Status"],
            vec![vec![text("TIERED"), text(""), text(engine_status(instance))]],
        ),
        "collation" => shown(
            &["Collation", "Charset", "Id", "Default", "Compiled", "Sortlen", "Pad_attribute"],
            collation_rows(),
        ),
        "character" | "charset" => {
            shown(&["Charset", "Description", "Default collation", "Maxlen"], charset_rows())
        }
        "grants" => {
            let account = after(&plain, &words, &["for"])
                .map(|(_, rest)| rest.iter().map(ToString::to_string).collect::<String>());
            let (name, host) = match account {
                Some(account) if !account.to_ascii_lowercase().starts_with("current_user") => {
                    let account = account.replace(['\'', '`', '"'], "");
                    let (name, host) = account.split_once('@').unwrap_or((&account, "%"));
                    (name.to_owned(), host.to_owned())
                }
                _ => (variables.user_name.clone(), variables.user_host.clone()),
            };
            let user = catalog.users.get(&(name.clone(), host.clone()));
            let user = user.ok_or_else(|| {
                SqlError::new(
                    1141,
                    format!("There is no such grant defined for user '{name}' on host '{host}'"),
                )
            })?;
            let title = format!("Grants for {name}@{host}");
            shown(&[&title], user.grant_lines().into_iter().map(|line| vec![text(line)]).collect())
        }
        "plugins" => shown(&["Name", "Status", "Type", "Library", "License"], Vec::new()),
        "triggers" => shown(
            &[
                "Trigger",
                "Event",
                "Table",
                "Statement",
                "Timing",
                "Created",
                "sql_mode",
                "Definer",
                "character_set_client",
                "collation_connection",
                "Database Collation",
            ],
            Vec::new(),
        ),
        "procedure" | "function" | "package" => shown(
            &[
                "Db",
                "Name",
                "Type",
                "Definer",
                "Modified",
                "Created",
                "Security_type",
                "Comment",
                "character_set_client",
                "collation_connection",
                "Database Collation",
            ],
            Vec::new(),
        ),
        "events" => shown(
            &[
                "Db",
                "Name",
                "Definer",
                "Time zone",
                "Type",
                "Execute at",
                "Interval value",
                "Interval field",
                "Starts",
                "Ends",
                "Status",
                "Originator",
                "character_set_client",
                "collation_connection",
                "Database Collation",
            ],
            Vec::new(),
        ),
        "open" => shown(&["Database", "Table", "In_use", "Name_locked"], Vec::new()),
        "privileges" => shown(&["Privilege", "Context", "Comment"], Vec::new()),
        "master" | "binary" | "replica" | "slave" => {
            shown(&["File", "Position", "Binlog_Do_DB", "Binlog_Ignore_DB"], Vec::new())
        }
        "profiles" => shown(&["Query_ID", "Duration", "Query"], Vec::new()),
        other => return Err(SqlError::unsupported(format!("SHOW {}", other.to_uppercase()))),
    };
    let names: Vec<String> = out.columns.iter().map(|(name, _)| name.clone()).collect();
    filter(&plain, &words, &mut out.rows, &names)?;
    Ok(out)
}

fn columns_of(catalog: &Catalog, database: Option<&str>, path: &str, full: bool) -> Result<Shown> {
    let (db, name) = path_of(path, database)?;
    if let Some(columns) = virtual_table(&format!("{}.{}", db.to_lowercase(), name.to_lowercase()))
    {
        let rows = columns.into_iter().map(|(name, ty)| {
            vec![text(name), text(ty.to_string()), text("YES"), text(""), Value::Null, text("")]
        });
        return Ok(shown(&["Field", "Type", "Null", "Key", "Default", "Extra"], rows.collect()));
    }
    let table = catalog.table(&db, &name)?;
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

fn rows_estimate(instance: &Instance, table: &TableDef) -> spillway::RangeEstimate {
    instance.database().estimate(table.rows(), spillway::KeyRange::ALL)
}

/// Each part of each index: its index's name, whether that is unique, its place, and itself.
fn index_parts(table: &TableDef) -> Vec<(&str, bool, usize, &IndexPart)> {
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

fn indexes_of(instance: &Instance, table: &TableDef) -> Shown {
    let keys = rows_estimate(instance, table).keys;
    let rows = index_parts(table).into_iter().map(|(name, unique, place, part)| {
        let column = &table.columns[part.column];
        vec![
            text(table.name.clone()),
            int(i64::from(!unique)),
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

fn table_status(instance: &Instance, catalog: &Catalog, db: &str) -> Shown {
    let rows = catalog.tables_of(db).map(|table| {
        let estimate = rows_estimate(instance, table);
        let average = estimate.bytes / estimate.keys.max(1);
        let auto = if table.auto_column().is_some() {
            int(instance.auto_increment_of(table) as i64)
        } else {
            Value::Null
        };
        vec![
            text(table.name.clone()),
            text("TIERED"),
            int(10),
            text("Dynamic"),
            int(estimate.keys as i64),
            int(average as i64),
            int(estimate.bytes as i64),
            int(0),
            int(0),
            int(0),
            auto,
            Value::Null,
            Value::Null,
            Value::Null,
            text(table.collation.name()),
            Value::Null,
            text(""),
            text(table.comment.clone()),
        ]
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

fn engine_rows() -> Vec<Vec<Value>> {
    let row = |name: &str, support: &str, comment: &str| {
        vec![text(name), text(support), text(comment), text("YES"), text("NO"), text("YES")]
    };
    vec![row(
        "TIERED",
        "DEFAULT",
        "LSM-tree of 2 MB extents, for data larger than memory (alias XENGINE)",
    )]
}

fn engine_status(instance: &Instance) -> String {
    let mut out = String::new();
    for status in instance.database().status() {
        let levels = status
            .levels
            .iter()
            .map(|level| format!("{} extents, {} bytes", level.extents, level.bytes));
        out += &format!(
            "table {}: {} bytes in memory; {} sub-levels; levels: {}\n",
            status.table.ordinal(),
            status.memory_bytes,
            status.sublevels,
            levels.collect::<Vec<_>>().join("; ")
        );
    }
    for metric in instance.database().metrics() {
        out += &format!("{} {} ({})\n", metric.name, metric.value, metric.help);
    }
    out
}

fn collation_rows() -> Vec<Vec<Value>> {
    Collation::ALL
        .iter()
        .map(|collation| {
            let default = if *collation == Collation::Bin { "" } else { "Yes" };
            let pad = if *collation == Collation::Binary { "NO PAD" } else { "PAD SPACE" };
            vec![
                text(collation.name()),
                text(collation.charset()),
                int(i64::from(collation.id())),
                text(default),
                text("Yes"),
                int(1),
                text(pad),
            ]
        })
        .collect()
}

fn charset_rows() -> Vec<Vec<Value>> {
    vec![
        vec![text("binary"), text("Binary pseudo charset"), text("binary"), int(1)],
        vec![text("utf8mb4"), text("UTF-8 Unicode"), text("utf8mb4_general_ci"), int(4)],
    ]
}

fn process_rows(instance: &Instance) -> Vec<Vec<Value>> {
    let rows = instance.process_lines().into_iter().map(|(id, user, host, db, statement)| {
        let command = if statement.is_some() { "Query" } else { "Sleep" };
        vec![
            int(id as i64),
            text(user),
            text(host),
            db.map_or(Value::Null, Value::Text),
            text(command),
            int(0),
            text(""),
            statement.map_or(Value::Null, Value::Text),
        ]
    });
    rows.collect()
}

/// The columns of each virtual table: names, with a mark for those that are numbers.
const VIRTUAL: &[(&str, &str)] = &[
    (
        "information_schema.schemata",
        "CATALOG_NAME SCHEMA_NAME DEFAULT_CHARACTER_SET_NAME DEFAULT_COLLATION_NAME SQL_PATH DEFAULT_ENCRYPTION",
    ),
    (
        "information_schema.tables",
        "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME TABLE_TYPE ENGINE VERSION# ROW_FORMAT TABLE_ROWS# AVG_ROW_LENGTH# DATA_LENGTH# MAX_DATA_LENGTH# INDEX_LENGTH# DATA_FREE# AUTO_INCREMENT# CREATE_TIME UPDATE_TIME CHECK_TIME TABLE_COLLATION CHECKSUM# CREATE_OPTIONS TABLE_COMMENT",
    ),
    (
        "information_schema.columns",
        "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME COLUMN_NAME ORDINAL_POSITION# COLUMN_DEFAULT IS_NULLABLE DATA_TYPE CHARACTER_MAXIMUM_LENGTH# CHARACTER_OCTET_LENGTH# NUMERIC_PRECISION# NUMERIC_SCALE# DATETIME_PRECISION# CHARACTER_SET_NAME COLLATION_NAME COLUMN_TYPE COLUMN_KEY EXTRA PRIVILEGES COLUMN_COMMENT GENERATION_EXPRESSION SRS_ID#",
    ),
    (
        "information_schema.statistics",
        "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME NON_UNIQUE# INDEX_SCHEMA INDEX_NAME SEQ_IN_INDEX# COLUMN_NAME COLLATION CARDINALITY# SUB_PART# PACKED NULLABLE INDEX_TYPE COMMENT INDEX_COMMENT IS_VISIBLE EXPRESSION",
    ),
    (
        "information_schema.key_column_usage",
        "CONSTRAINT_CATALOG CONSTRAINT_SCHEMA CONSTRAINT_NAME TABLE_CATALOG TABLE_SCHEMA TABLE_NAME COLUMN_NAME ORDINAL_POSITION# POSITION_IN_UNIQUE_CONSTRAINT# REFERENCED_TABLE_SCHEMA REFERENCED_TABLE_NAME REFERENCED_COLUMN_NAME",
    ),
    (
        "information_schema.table_constraints",
        "CONSTRAINT_CATALOG CONSTRAINT_SCHEMA CONSTRAINT_NAME TABLE_SCHEMA TABLE_NAME CONSTRAINT_TYPE ENFORCED",
    ),
    (
        "information_schema.referential_constraints",
        "CONSTRAINT_CATALOG CONSTRAINT_SCHEMA CONSTRAINT_NAME UNIQUE_CONSTRAINT_CATALOG UNIQUE_CONSTRAINT_SCHEMA UNIQUE_CONSTRAINT_NAME MATCH_OPTION UPDATE_RULE DELETE_RULE TABLE_NAME REFERENCED_TABLE_NAME",
    ),
    (
        "information_schema.check_constraints",
        "CONSTRAINT_CATALOG CONSTRAINT_SCHEMA CONSTRAINT_NAME CHECK_CLAUSE",
    ),
    (
        "information_schema.character_sets",
        "CHARACTER_SET_NAME DEFAULT_COLLATE_NAME DESCRIPTION MAXLEN#",
    ),
    (
        "information_schema.collations",
        "COLLATION_NAME CHARACTER_SET_NAME ID# IS_DEFAULT IS_COMPILED SORTLEN# PAD_ATTRIBUTE",
    ),
    ("information_schema.engines", "ENGINE SUPPORT COMMENT TRANSACTIONS XA SAVEPOINTS"),
    ("information_schema.processlist", "ID# USER HOST DB COMMAND TIME# STATE INFO"),
    (
        "information_schema.views",
        "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME VIEW_DEFINITION CHECK_OPTION IS_UPDATABLE DEFINER SECURITY_TYPE CHARACTER_SET_CLIENT COLLATION_CONNECTION",
    ),
    (
        "information_schema.routines",
        "SPECIFIC_NAME ROUTINE_CATALOG ROUTINE_SCHEMA ROUTINE_NAME ROUTINE_TYPE DATA_TYPE ROUTINE_DEFINITION SECURITY_TYPE CREATED LAST_ALTERED SQL_MODE ROUTINE_COMMENT DEFINER",
    ),
    (
        "information_schema.triggers",
        "TRIGGER_CATALOG TRIGGER_SCHEMA TRIGGER_NAME EVENT_MANIPULATION EVENT_OBJECT_SCHEMA EVENT_OBJECT_TABLE ACTION_STATEMENT ACTION_TIMING DEFINER",
    ),
    (
        "information_schema.partitions",
        "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME PARTITION_NAME SUBPARTITION_NAME PARTITION_ORDINAL_POSITION# PARTITION_METHOD PARTITION_EXPRESSION TABLE_ROWS#",
    ),
    (
        "information_schema.files",
        "FILE_ID# FILE_NAME FILE_TYPE TABLESPACE_NAME TABLE_SCHEMA TABLE_NAME LOGFILE_GROUP_NAME ENGINE TOTAL_EXTENTS# INITIAL_SIZE# EXTENT_SIZE# EXTRA",
    ),
    (
        "information_schema.events",
        "EVENT_CATALOG EVENT_SCHEMA EVENT_NAME DEFINER EVENT_DEFINITION EVENT_TYPE STATUS",
    ),
    (
        "information_schema.parameters",
        "SPECIFIC_CATALOG SPECIFIC_SCHEMA SPECIFIC_NAME ORDINAL_POSITION# PARAMETER_MODE PARAMETER_NAME DATA_TYPE ROUTINE_TYPE",
    ),
    ("information_schema.user_privileges", "GRANTEE TABLE_CATALOG PRIVILEGE_TYPE IS_GRANTABLE"),
    ("mysql.user", "Host User plugin authentication_string"),
    ("mysql.proc", "db name type"),
    ("mysql.event", "db name"),
];

/// The columns of a virtual table, by `database.table` in lower case.
pub(crate) fn virtual_table(name: &str) -> Option<Vec<(String, ColumnType)>> {
    let (_, columns) = VIRTUAL.iter().find(|(other, _)| *other == name)?;
    let typed = columns.split(' ').map(|column| match column.strip_suffix('#') {
        Some(number) => (number.to_owned(), ColumnType::BIGINT),
        None => (column.to_owned(), TEXT),
    });
    Some(typed.collect())
}

/// The rows of a virtual table.
pub(crate) fn virtual_rows(
    instance: &Instance,
    catalog: &Catalog,
    _variables: &RefCell<Variables>,
    name: &str,
) -> Vec<Vec<Value>> {
    let def = || text("def");
    let tables = || catalog.tables.values();
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
                    let estimate = rows_estimate(instance, table);
                    let auto = if table.auto_column().is_some() {
                        int(instance.auto_increment_of(table) as i64)
                    } else {
                        Value::Null
                    };
                    vec![
                        def(),
                        text(table.db.clone()),
                        text(table.name.clone()),
                        text("BASE TABLE"),
                        text("TIERED"),
                        int(10),
                        text("Dynamic"),
                        int(estimate.keys as i64),
                        int((estimate.bytes / estimate.keys.max(1)) as i64),
                        int(estimate.bytes as i64),
                        int(0),
                        int(0),
                        int(0),
                        auto,
                        Value::Null,
                        Value::Null,
                        Value::Null,
                        text(table.collation.name()),
                        Value::Null,
                        text(""),
                        text(table.comment.clone()),
                    ]
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
                let keys = rows_estimate(instance, table).keys;
                index_parts(table).into_iter().map(move |(name, unique, place, part)| {
                    let column = &table.columns[part.column];
                    vec![
                        text("def"),
                        text(table.db.clone()),
                        text(table.name.clone()),
                        int(i64::from(!unique)),
                        text(table.db.clone()),
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
        "information_schema.engines" => engine_rows(),
        "information_schema.processlist" => process_rows(instance),
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
        "mysql.user" => catalog
            .users
            .values()
            .map(|user| {
                vec![
                    text(user.host.clone()),
                    text(user.name.clone()),
                    text(user.plugin.clone()),
                    text(if user.stored.is_empty() { "" } else { "*" }),
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
