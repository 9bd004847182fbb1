//! Columns: their options, and their positions in a table.

use std::collections::HashSet;

use spillway_types::{Collation, ColumnType, Value};
use sqlparser::ast::{self, ColumnOption, MySQLColumnPosition};

use super::checks::NewCheck;
use super::terms::Terms;
use crate::catalog::{
    ColumnDef, DefaultValue, IndexPart, TableDef, check_members, collation_named, column_type,
};
use crate::errors::{Result, SqlError};
use crate::parser::check_kept;
use crate::planner::{StoredClause, alone, check_foreign, literal};

/// The most columns of a table. Rows store the number in 16 bits.
const COLUMNS_MAX: usize = 4096;

/// The keys and checks in a column's definition.
#[derive(Default)]
pub(super) struct Extras {
    pub(super) primary: bool,
    pub(super) unique: bool,
    pub(super) checks: Vec<NewCheck>,
}

/// A column as a statement defines it.
pub(super) struct Spelling<'s> {
    pub(super) name: &'s str,
    pub(super) ty: &'s ast::DataType,
    pub(super) options: Vec<&'s ColumnOption>,
}

impl<'s> From<&'s ast::ColumnDef> for Spelling<'s> {
    fn from(column: &'s ast::ColumnDef) -> Spelling<'s> {
        let options = column.options.iter().map(|option| &option.option).collect();
        Spelling { name: &column.name.value, ty: &column.data_type, options }
    }
}

/// The default collation of a character set.
pub(super) fn charset_named(name: &str) -> Result<Collation> {
    let name = name.replace(['`', '\'', '"'], "");
    match Collation::from_name(&name) {
        Some(collation) if !name.contains('_') => Ok(collation),
        _ => Err(SqlError::new(1115, format!("Unknown character set: '{name}'"))),
    }
}

impl Terms<'_> {
    /// A column of a table with this default collation.
    pub(super) fn column(
        &self,
        spelling: &Spelling<'_>,
        table: Collation,
    ) -> Result<(ColumnDef, Extras)> {
        let (ty, named) = column_type(spelling.ty, spelling.name)?;
        let mut column = ColumnDef {
            id: 0,
            name: spelling.name.to_owned(),
            collation: named.unwrap_or(if ty.is_text() { table } else { Collation::Binary }),
            nullable: true,
            default: DefaultValue::None,
            initial: None,
            on_update_now: false,
            auto_increment: false,
            comment: String::new(),
            ty,
        };
        let mut extras = Extras::default();
        for option in &spelling.options {
            self.column_option(option, &mut column, &mut extras)?;
        }
        check_members(&column.ty, column.collation, &column.name)?;
        if column.auto_increment && !matches!(column.ty, ColumnType::Int { .. }) {
            let text = format!("Incorrect column specifier for column '{}'", column.name);
            return Err(SqlError::new(1063, text));
        }
        if matches!(column.default, DefaultValue::None) && column.nullable {
            column.default = DefaultValue::Null;
        }
        if column.default == DefaultValue::Null && !column.nullable {
            return Err(invalid_default(&column));
        }
        column.fix_initial();
        Ok((column, extras))
    }

    fn column_option(
        &self,
        option: &ColumnOption,
        column: &mut ColumnDef,
        extras: &mut Extras,
    ) -> Result<()> {
        let is = |tokens: &[sqlparser::tokenizer::Token], word: &str| {
            tokens.iter().any(|token| token.to_string().eq_ignore_ascii_case(word))
        };
        match option {
            ColumnOption::Null => column.nullable = true,
            ColumnOption::NotNull => column.nullable = false,
            ColumnOption::Default(expr) => column.default = self.default_value(expr, column)?,
            ColumnOption::PrimaryKey(_) => extras.primary = true,
            ColumnOption::Unique(_) => extras.unique = true,
            ColumnOption::Comment(text) => column.comment.clone_from(text),
            ColumnOption::Collation(name) => {
                column.collation = collation_named(&name.to_string())?;
            }
            ColumnOption::CharacterSet(name) => {
                column.collation = charset_named(&name.to_string())?;
            }
            ColumnOption::OnUpdate(expr) => {
                let timed = matches!(column.ty, ColumnType::DateTime(_) | ColumnType::Timestamp(_));
                if !timed || !is_now(expr) {
                    let text = format!("Invalid ON UPDATE clause for '{}' column", column.name);
                    return Err(SqlError::new(1294, text));
                }
                column.on_update_now = true;
            }
            ColumnOption::Check(check) => extras.checks.push(NewCheck::from(check)),
            ColumnOption::DialectSpecific(tokens) if is(tokens, "AUTO_INCREMENT") => {
                column.auto_increment = true;
                column.nullable = false;
            }
            ColumnOption::DialectSpecific(tokens)
                if tokens.iter().all(|token| is(std::slice::from_ref(token), "KEY")) =>
            {
                // `KEY` alone means a primary key. After UNIQUE it has no meaning of its own.
                extras.primary |= !extras.unique;
            }
            ColumnOption::ForeignKey(_) => self.foreign_key()?,
            other => return Err(SqlError::unsupported(other)),
        }
        Ok(())
    }

    /// Refuses a foreign key, because foreign keys are not supported. A dump is accepted: it
    /// switches `foreign_key_checks` off first.
    pub(super) fn foreign_key(&self) -> Result<()> {
        if self.foreign_key_checks {
            return Err(SqlError::unsupported("FOREIGN KEY"));
        }
        Ok(())
    }

    /// The meaning of a column's DEFAULT clause.
    pub(super) fn default_value(
        &self,
        expr: &ast::Expr,
        column: &ColumnDef,
    ) -> Result<DefaultValue> {
        let timed = matches!(column.ty, ColumnType::DateTime(_) | ColumnType::Timestamp(_));
        if is_now(expr) {
            return if timed {
                Ok(DefaultValue::CurrentTimestamp)
            } else {
                Err(invalid_default(column))
            };
        }
        let mut expr = expr;
        // Parentheses are dropped here. SHOW CREATE TABLE adds those that an expression needs.
        while let ast::Expr::Nested(inner) = expr {
            expr = inner;
        }
        let shown = expr.to_string();
        if shown.eq_ignore_ascii_case("NULL") {
            return Ok(DefaultValue::Null);
        }
        if is_now(expr) && timed {
            return Ok(DefaultValue::CurrentTimestamp);
        }
        let (value, sign) = match expr {
            ast::Expr::Value(value) => (literal(&value.value)?, ""),
            ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr: inner } => match &**inner {
                ast::Expr::Value(value) => (literal(&value.value)?, "-"),
                _ => return self.default_expr(column, expr, shown),
            },
            _ => return self.default_expr(column, expr, shown),
        };
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02X}")).collect();
        Ok(match value {
            Value::Bytes(bytes) => DefaultValue::Const(hex(&bytes), true),
            value => {
                let text = format!("{sign}{}", value.to_text());
                let shown = Value::Text(text.clone());
                let fits = column.ty.store_in(&shown, column.collation).is_ok();
                if !fits && !matches!(column.ty, ColumnType::Bit(_)) {
                    return Err(invalid_default(column));
                }
                DefaultValue::Const(text, false)
            }
        })
    }

    /// A default expression. It must be valid without other columns.
    fn default_expr(
        &self,
        column: &ColumnDef,
        expr: &ast::Expr,
        shown: String,
    ) -> Result<DefaultValue> {
        check_kept(expr)?;
        check_foreign(expr, StoredClause::Default(&column.name))?;
        alone(self.catalog, |binder| binder.bind(expr))?;
        Ok(DefaultValue::Expr(shown))
    }
}

/// Whether an expression is just a name of CURRENT_TIMESTAMP.
fn is_now(expr: &ast::Expr) -> bool {
    let names = ["CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP"];
    let named = |name: &str| names.iter().any(|other| other.eq_ignore_ascii_case(name));
    match expr {
        ast::Expr::Function(function) => named(&function.name.to_string()),
        ast::Expr::Identifier(ident) => ident.quote_style.is_none() && named(&ident.value),
        _ => false,
    }
}

fn invalid_default(column: &ColumnDef) -> SqlError {
    SqlError::new(1067, format!("Invalid default value for '{}'", column.name))
}

pub(super) fn find_column(def: &TableDef, name: &str) -> Result<usize> {
    def.column(name).ok_or_else(|| SqlError::unknown_column(name, &def.name))
}

pub(super) fn cannot_drop(name: &str) -> SqlError {
    SqlError::new(1091, format!("Can't DROP '{name}'; check that column/key exists"))
}

/// The position that a FIRST or AFTER clause gives a column.
pub(super) fn place(def: &TableDef, position: Option<&MySQLColumnPosition>) -> Result<usize> {
    Ok(match position {
        None => def.columns.len(),
        Some(MySQLColumnPosition::First) => 0,
        Some(MySQLColumnPosition::After(name)) => find_column(def, &name.value)? + 1,
    })
}

/// The parts of all keys of a table.
fn all_parts(def: &mut TableDef) -> impl Iterator<Item = &mut Vec<IndexPart>> {
    let indexes = def.indexes.iter_mut().map(|index| &mut index.parts);
    std::iter::once(&mut def.primary).chain(indexes)
}

/// Inserts a column at a position. Keys still refer to the same columns afterwards.
pub(super) fn insert_column(def: &mut TableDef, at: usize, column: ColumnDef) {
    def.columns.insert(at, column);
    for parts in all_parts(def) {
        parts.iter_mut().filter(|part| part.column >= at).for_each(|part| part.column += 1);
    }
}

/// Removes a column from the table and from its keys. A key that has no other column is removed.
pub(super) fn drop_column(def: &mut TableDef, name: &str) -> Result<usize> {
    let at = def.column(name).ok_or_else(|| cannot_drop(name))?;
    if def.columns.len() == 1 {
        return Err(SqlError::new(
            1090,
            "You can't delete all columns with ALTER TABLE; use DROP TABLE instead",
        ));
    }
    def.columns.remove(at);
    for parts in all_parts(def) {
        parts.retain(|part| part.column != at);
        parts.iter_mut().filter(|part| part.column > at).for_each(|part| part.column -= 1);
    }
    def.indexes.retain(|index| !index.parts.is_empty());
    Ok(at)
}

/// Moves a column to another position.
pub(super) fn move_column(def: &mut TableDef, from: usize, to: usize) {
    let column = def.columns.remove(from);
    def.columns.insert(to, column);
    let moved = |at: usize| match at {
        at if at == from => to,
        at if from < at && at <= to => at - 1,
        at if to <= at && at < from => at + 1,
        at => at,
    };
    for parts in all_parts(def) {
        parts.iter_mut().for_each(|part| part.column = moved(part.column));
    }
}

/// Refuses two columns with the same name, and more columns than a table may have.
pub(super) fn check_names(def: &TableDef) -> Result<()> {
    if def.columns.len() > COLUMNS_MAX {
        return Err(SqlError::new(1117, "Too many columns"));
    }
    let mut names = HashSet::new();
    for column in &def.columns {
        if !names.insert(column.name.to_ascii_lowercase()) {
            let text = format!("Duplicate column name '{}'", column.name);
            return Err(SqlError::new(1060, text));
        }
    }
    Ok(())
}
