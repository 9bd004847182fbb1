//! Primary keys and indexes in a table's definition. Other modules build the indexes' entries.

use spillway::Csn;
use spillway_types::ColumnType;
use sqlparser::ast;

use crate::catalog::{IndexDef, IndexPart, Stage, TableDef};
use crate::errors::{Result, SqlError};
use crate::parser::last_name;

/// The key space number of an index that has no key space yet.
pub(super) const UNBUILT: u32 = 0;

/// The most columns of a key.
const PARTS_MAX: usize = 16;

/// The columns of a key.
pub(super) fn parts(def: &TableDef, columns: &[ast::IndexColumn]) -> Result<Vec<IndexPart>> {
    if columns.len() > PARTS_MAX {
        let text = format!("Too many key parts specified; max {PARTS_MAX} parts allowed");
        return Err(SqlError::new(1070, text));
    }
    let mut out: Vec<IndexPart> = Vec::with_capacity(columns.len());
    for part in columns {
        let part = one_part(def, part)?;
        if out.iter().any(|other| other.column == part.column) {
            let name = &def.columns[part.column].name;
            return Err(SqlError::new(1060, format!("Duplicate column name '{name}'")));
        }
        out.push(part);
    }
    Ok(out)
}

fn one_part(def: &TableDef, part: &ast::IndexColumn) -> Result<IndexPart> {
    let (name, prefix) = match &part.column.expr {
        ast::Expr::Identifier(ident) => (ident.value.clone(), None),
        ast::Expr::Function(function) => {
            let text = function.args.to_string();
            let inside = text.trim_matches(|c| c == '(' || c == ')');
            match inside.parse::<u32>() {
                Ok(0) => {
                    let name = last_name(&function.name);
                    return Err(SqlError::new(
                        1391,
                        format!("Key part '{name}' length cannot be 0"),
                    ));
                }
                Ok(prefix) => (last_name(&function.name), Some(prefix)),
                Err(_) => return Err(SqlError::unsupported(format!("an index on {function}"))),
            }
        }
        other => return Err(SqlError::unsupported(format!("an index on {other}"))),
    };
    if part.column.options.asc == Some(false) {
        return Err(SqlError::unsupported("a descending index"));
    }
    let column = def.column(&name).ok_or_else(|| {
        SqlError::new(1072, format!("Key column '{name}' doesn't exist in table"))
    })?;
    Ok(IndexPart { column, prefix })
}

/// Gives a table its primary key.
pub(super) fn set_primary(def: &mut TableDef, parts: Vec<IndexPart>) -> Result<()> {
    if !def.primary.is_empty() {
        return Err(SqlError::new(1068, "Multiple primary key defined"));
    }
    for part in &parts {
        let column = &mut def.columns[part.column];
        column.nullable = false;
        if column.default == crate::catalog::DefaultValue::Null {
            column.default = crate::catalog::DefaultValue::None;
        }
    }
    def.primary = parts;
    Ok(())
}

/// Adds an index that is not built yet. Without a name, it gets the name of its first column.
pub(super) fn add_index(
    def: &mut TableDef,
    name: Option<String>,
    parts: Vec<IndexPart>,
    unique: bool,
) -> Result<()> {
    let name = match name {
        Some(name) if name.eq_ignore_ascii_case("PRIMARY") => {
            return Err(SqlError::new(1280, format!("Incorrect index name '{name}'")));
        }
        Some(name) if def.index(&name).is_some() => {
            return Err(SqlError::new(1061, format!("Duplicate key name '{name}'")));
        }
        Some(name) => name,
        None => {
            let first = def.columns[parts[0].column].name.clone();
            let mut name = first.clone();
            let mut number = 2;
            while def.index(&name).is_some() || name.eq_ignore_ascii_case("PRIMARY") {
                name = format!("{first}_{number}");
                number += 1;
            }
            name
        }
    };
    let index = IndexDef {
        name,
        parts,
        unique,
        comment: String::new(),
        space: UNBUILT,
        stage: Stage::Done,
        since: Csn::ZERO,
    };
    def.indexes.push(index);
    Ok(())
}

/// Refuses keys that the columns do not allow, once the whole statement is applied.
pub(super) fn check_keys(def: &mut TableDef) -> Result<()> {
    let columns = &def.columns;
    let indexes = def.indexes.iter_mut().map(|index| &mut index.parts);
    for part in std::iter::once(&mut def.primary).chain(indexes).flatten() {
        let column = &columns[part.column];
        match column.ty {
            // A prefix as long as the column counts as no prefix.
            ColumnType::Char(n)
            | ColumnType::VarChar(n)
            | ColumnType::Binary(n)
            | ColumnType::VarBinary(n) => part.prefix = part.prefix.filter(|prefix| *prefix < n),
            ColumnType::Json => {
                let text =
                    format!("JSON column '{}' cannot be used in key specification.", column.name);
                return Err(SqlError::new(3152, text));
            }
            ColumnType::Text(_) | ColumnType::Blob(_) if part.prefix.is_none() => {
                let text = format!(
                    "BLOB/TEXT column '{}' used in key specification without a key length",
                    column.name
                );
                return Err(SqlError::new(1170, text));
            }
            ColumnType::Text(_) | ColumnType::Blob(_) => {}
            _ if part.prefix.is_some() => {
                return Err(SqlError::new(
                    1089,
                    "Incorrect prefix key; the used key part isn't a string, the used length is longer than the key part, or the storage engine doesn't support unique prefix keys",
                ));
            }
            _ => {}
        }
    }
    check_auto(def)
}

fn check_auto(def: &TableDef) -> Result<()> {
    let first =
        |parts: &[IndexPart], at: usize| parts.first().is_some_and(|part| part.column == at);
    let keyed = |at: usize| {
        first(&def.primary, at) || def.indexes.iter().any(|index| first(&index.parts, at))
    };
    let mut autos = (0..def.columns.len()).filter(|at| def.columns[*at].auto_increment);
    let wrong = autos.next().is_some_and(|at| !keyed(at)) || autos.next().is_some();
    if wrong {
        return Err(SqlError::new(
            1075,
            "Incorrect table definition; there can be only one auto column and it must be defined as a key",
        ));
    }
    Ok(())
}
