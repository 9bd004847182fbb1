//! CHECK constraints: their names, and their expressions, which the catalog keeps as text.

use std::ops::ControlFlow;

use sqlparser::ast::{self, Expr};

use super::terms::Terms;
use crate::catalog::{CheckDef, TableDef};
use crate::errors::{Result, SqlError};
use crate::parser::{check_kept, parse_expr};
use crate::planner::{StoredClause, alone, check_foreign, table_scope};

/// A constraint as a statement defines it.
pub(super) struct NewCheck {
    name: Option<String>,
    expr: Expr,
    enforced: bool,
}

impl From<&ast::CheckConstraint> for NewCheck {
    fn from(check: &ast::CheckConstraint) -> NewCheck {
        NewCheck {
            // An empty name counts as none (`names`).
            name: check
                .name
                .as_ref()
                .map(|name| name.value.clone())
                .filter(|name| !name.is_empty()),
            expr: (*check.expr).clone(),
            enforced: check.enforced.unwrap_or(true),
        }
    }
}

/// The name of the column, if an expression is a column, with or without its table's name.
fn column_of(expr: &mut Expr) -> Option<&mut ast::Ident> {
    match expr {
        Expr::Identifier(ident) => Some(ident),
        Expr::CompoundIdentifier(path) => path.last_mut(),
        _ => None,
    }
}

/// Calls `body` with each column name in an expression.
fn each_column(expr: &mut Expr, mut body: impl FnMut(&mut ast::Ident)) {
    let _ = ast::visit_expressions_mut(expr, |expr| {
        if let Some(column) = column_of(expr) {
            body(column);
        }
        ControlFlow::<()>::Continue(())
    });
}

/// The number at the end of a name that was generated for a table's check.
fn made_up(table: &str, name: &str) -> Option<u64> {
    name.strip_prefix(table)?.strip_prefix("_chk_")?.parse().ok()
}

/// Whether a function may return different results for the rows of one statement.
pub(super) fn varies(function: &str) -> bool {
    const NAMES: [&str; 9] = [
        "benchmark",
        "get_lock",
        "is_free_lock",
        "is_used_lock",
        "rand",
        "release_all_locks",
        "release_lock",
        "sleep",
        "uuid",
    ];
    NAMES.iter().any(|name| name.eq_ignore_ascii_case(function))
}

impl Terms<'_> {
    /// Adds a constraint to a table whose columns are complete. Returns its name.
    pub(super) fn add_check(&self, def: &mut TableDef, check: NewCheck) -> Result<String> {
        let NewCheck { name, mut expr, enforced } = check;
        let name = match name {
            Some(name) if find_check(def, &name).is_some() => {
                return Err(SqlError::new(
                    3822,
                    format!("Duplicate check constraint name '{name}'."),
                ));
            }
            Some(name) => name,
            None => {
                let numbers = def.checks.iter().filter_map(|old| made_up(&def.name, &old.name));
                format!("{}_chk_{}", def.name, numbers.max().unwrap_or(0) + 1)
            }
        };
        check_foreign(&expr, StoredClause::Check(&name))?;
        // Remove the table's name, which would be wrong after the table is renamed.
        let _ = ast::visit_expressions_mut(&mut expr, |expr| {
            if let Expr::CompoundIdentifier(path) = expr
                && let Some(column) = path.last().cloned()
            {
                *expr = Expr::Identifier(column);
            }
            ControlFlow::<()>::Continue(())
        });
        check_kept(&expr)?;
        self.bind_check(def, &name, &expr)?;
        def.checks.push(CheckDef { name: name.clone(), expr: expr.to_string(), enforced });
        Ok(name)
    }

    /// Refuses columns that a constraint may not use.
    fn bind_check(&self, def: &TableDef, name: &str, expr: &Expr) -> Result<()> {
        let mut expr = expr.clone();
        let mut unknown = None;
        each_column(&mut expr, |column| match def.column(&column.value) {
            None => {
                unknown.get_or_insert(format!(
                    "Check constraint '{name}' refers to non-existing column '{}'.",
                    column.value
                ));
            }
            Some(at) if def.columns[at].auto_increment => {
                unknown.get_or_insert(format!(
                    "Check constraint '{name}' cannot refer to an auto-increment column."
                ));
            }
            Some(_) => {}
        });
        if let Some(text) = unknown {
            let code = if text.contains("auto-increment") { 3818 } else { 3820 };
            return Err(SqlError::new(code, text));
        }
        alone(self.catalog, |binder| {
            binder.scope.tables.push(table_scope(def));
            binder.bind(&expr).map(drop)
        })
    }
}

pub(super) fn find_check(def: &TableDef, name: &str) -> Option<usize> {
    def.checks.iter().position(|check| check.name.eq_ignore_ascii_case(name))
}

/// Fails if a constraint names a column that no longer exists.
pub(super) fn check_no_column_is_missed(def: &TableDef) -> Result<()> {
    for check in &def.checks {
        let mut missed = None;
        each_column(&mut parse_expr(&check.expr)?, |column| {
            if def.column(&column.value).is_none() {
                missed = Some(column.value.clone());
            }
        });
        if let Some(column) = missed {
            let text = format!(
                "Check constraint '{}' uses column '{column}', hence column cannot be dropped or renamed.",
                check.name
            );
            return Err(SqlError::new(3959, text));
        }
    }
    Ok(())
}

/// Renames columns in constraints.
pub(super) fn rename_in_checks(
    checks: &mut [CheckDef],
    renames: &[(String, String)],
) -> Result<()> {
    if renames.is_empty() {
        return Ok(());
    }
    for check in checks {
        let mut expr = parse_expr(&check.expr)?;
        let mut changed = false;
        each_column(&mut expr, |column| {
            let to = renames.iter().find(|(from, _)| from.eq_ignore_ascii_case(&column.value));
            if let Some((_, to)) = to {
                *column = ast::Ident::with_quote('`', to);
                changed = true;
            }
        });
        if changed {
            check.expr = expr.to_string();
        }
    }
    Ok(())
}

/// If a constraint's name was generated from the table's old name, replaces it by the one that
/// would be generated from the new name.
pub(super) fn rename_check(name: &mut String, from: &str, to: &str) {
    if let Some(number) = made_up(from, name) {
        *name = format!("{to}_chk_{number}");
    }
}

/// Renames all constraints of a table that gets a new name, as [`rename_check`] does.
pub(super) fn rename_checks(def: &mut TableDef, to: &str) {
    for check in &mut def.checks {
        rename_check(&mut check.name, &def.name, to);
    }
}
