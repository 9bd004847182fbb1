//! The tables of information_schema.

use std::cell::RefCell;

use spillway_types::column::LobSize;
use spillway_types::{ColumnType, Value};

use super::server::{charset_rows, collation_rows, engine_rows, process_rows};
use super::tables::{
    default_text, extra_of, index_parts, index_values, key_of, rows_estimate, status_values,
};
use super::tiered::{self, Stored};
use super::{TEXT, int, text};
use crate::catalog::{Catalog, SYSTEM, TableDef};
use crate::session::{Instance, Variables};

/// The columns of each virtual table: names, marked # for numbers and ~ for long text.
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
    (
        "information_schema.collation_character_set_applicability",
        "COLLATION_NAME CHARACTER_SET_NAME",
    ),
    ("information_schema.engines", "ENGINE SUPPORT COMMENT TRANSACTIONS XA SAVEPOINTS"),
    ("information_schema.processlist", "ID# USER HOST DB COMMAND TIME# STATE INFO"),
    (
        "information_schema.views",
        "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME VIEW_DEFINITION CHECK_OPTION IS_UPDATABLE DEFINER SECURITY_TYPE CHARACTER_SET_CLIENT COLLATION_CONNECTION",
    ),
    (
        "information_schema.routines",
        "SPECIFIC_NAME ROUTINE_CATALOG ROUTINE_SCHEMA ROUTINE_NAME ROUTINE_TYPE DATA_TYPE CHARACTER_MAXIMUM_LENGTH# CHARACTER_OCTET_LENGTH# NUMERIC_PRECISION# NUMERIC_SCALE# DATETIME_PRECISION# CHARACTER_SET_NAME COLLATION_NAME DTD_IDENTIFIER ROUTINE_BODY ROUTINE_DEFINITION EXTERNAL_NAME EXTERNAL_LANGUAGE PARAMETER_STYLE IS_DETERMINISTIC SQL_DATA_ACCESS SQL_PATH SECURITY_TYPE CREATED LAST_ALTERED SQL_MODE ROUTINE_COMMENT DEFINER CHARACTER_SET_CLIENT COLLATION_CONNECTION DATABASE_COLLATION",
    ),
    (
        "information_schema.triggers",
        "TRIGGER_CATALOG TRIGGER_SCHEMA TRIGGER_NAME EVENT_MANIPULATION EVENT_OBJECT_CATALOG EVENT_OBJECT_SCHEMA EVENT_OBJECT_TABLE ACTION_ORDER# ACTION_CONDITION ACTION_STATEMENT ACTION_ORIENTATION ACTION_TIMING ACTION_REFERENCE_OLD_TABLE ACTION_REFERENCE_NEW_TABLE ACTION_REFERENCE_OLD_ROW ACTION_REFERENCE_NEW_ROW CREATED SQL_MODE DEFINER CHARACTER_SET_CLIENT COLLATION_CONNECTION DATABASE_COLLATION",
    ),
    (
        "information_schema.partitions",
        "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME PARTITION_NAME SUBPARTITION_NAME PARTITION_ORDINAL_POSITION# SUBPARTITION_ORDINAL_POSITION# PARTITION_METHOD SUBPARTITION_METHOD PARTITION_EXPRESSION SUBPARTITION_EXPRESSION PARTITION_DESCRIPTION TABLE_ROWS# AVG_ROW_LENGTH# DATA_LENGTH# MAX_DATA_LENGTH# INDEX_LENGTH# DATA_FREE# CREATE_TIME UPDATE_TIME CHECK_TIME CHECKSUM# PARTITION_COMMENT NODEGROUP TABLESPACE_NAME",
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
        "SPECIFIC_CATALOG SPECIFIC_SCHEMA SPECIFIC_NAME ORDINAL_POSITION# PARAMETER_MODE PARAMETER_NAME DATA_TYPE CHARACTER_MAXIMUM_LENGTH# CHARACTER_OCTET_LENGTH# NUMERIC_PRECISION# NUMERIC_SCALE# DATETIME_PRECISION# CHARACTER_SET_NAME COLLATION_NAME DTD_IDENTIFIER ROUTINE_TYPE",
    ),
    ("information_schema.user_privileges", "GRANTEE TABLE_CATALOG PRIVILEGE_TYPE IS_GRANTABLE"),
    ("information_schema.tiered_levels", tiered::LEVELS),
    ("information_schema.tiered_slices", tiered::SLICES),
    ("information_schema.tiered_compactions", tiered::COMPACTIONS),
    ("information_schema.tiered_picture", tiered::PICTURE),
    (
        "mysql.user",
        "Host User max_questions# max_updates# max_connections# max_user_connections# plugin authentication_string account_locked",
    ),
    ("mysql.proc", "db name type"),
    ("mysql.event", "db name"),
];

/// The columns of a virtual table, by `database.table` in lower case.
pub(crate) fn virtual_table(name: &str) -> Option<Vec<(String, ColumnType)>> {
    let (_, columns) = VIRTUAL.iter().find(|(other, _)| *other == name)?;
    let typed = columns.split(' ').map(|column| {
        if let Some(number) = column.strip_suffix('#') {
            (number.to_owned(), ColumnType::BIGINT)
        } else if let Some(long) = column.strip_suffix('~') {
            (long.to_owned(), ColumnType::Text(LobSize::Long))
        } else {
            (column.to_owned(), TEXT)
        }
    });
    Some(typed.collect())
}

/// The rows of a virtual table.
pub(crate) fn virtual_rows(
    instance: &Instance,
    catalog: &Catalog,
    variables: &RefCell<Variables>,
    name: &str,
) -> Vec<Vec<Value>> {
    let def = || text("def");
    let variables = variables.borrow();
    let (catalog, user) = (&*variables.seen(catalog), variables.account(catalog));
    let tables = || catalog.tables.values();
    let stored = || Stored::seen_by(user, instance, catalog);
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
                    row.extend(status_values(instance, table));
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
                let keys = rows_estimate(instance, table).keys;
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
        "information_schema.engines" => engine_rows(),
        "information_schema.processlist" => process_rows(instance, user),
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
