//! Checks the expressions that a table's definition keeps: DEFAULT and CHECK.
//!
//! Every statement that writes a row evaluates these expressions. At that time, no check covers the
//! user's privileges on objects that an expression names. So an expression may read only the row,
//! and may call functions.
//!
//! # Guarantees
//!
//! - **KEPT-1.** A statement that defines a DEFAULT or CHECK fails if the expression contains a
//!   query, a variable, a parameter, or a function that MySQL refuses there.
//! - **KEPT-2.** If the stored catalog has an expression that KEPT-1 forbids, the expression is
//!   never evaluated: a statement that needs its value fails with the same error. With such a
//!   DEFAULT, rows can still be read, changed, deleted, and inserted with an explicit value for the
//!   column. `ALTER TABLE ... ALTER COLUMN ... SET DEFAULT` and `DROP CHECK` repair the definition.

use std::ops::ControlFlow;

use sqlparser::ast::{self, Expr, FunctionArguments, Visit, Visitor};

use super::bind::{Binder, is_variable};
use super::from::table_scope;
use super::scope::Names;
use crate::catalog::{Catalog, CheckDef, TableDef};
use crate::errors::{Result, SqlError};
use crate::expression;
use crate::parser::parse_expr;
use crate::privilege::Needs;

/// The clause that contains an expression, with the name of its column or constraint.
#[derive(Clone, Copy)]
pub(crate) enum StoredClause<'n> {
    Default(&'n str),
    Check(&'n str),
}

/// What a stored expression may not refer to.
enum Foreign {
    Query,
    Variable,
    Function(String),
}

/// The functions that MySQL refuses in a DEFAULT: they have side effects, report on the session's
/// last statements, or name a column of a statement.
const NOT_IN_DEFAULT: [&str; 13] = [
    "benchmark",
    "default",
    "found_rows",
    "get_lock",
    "is_free_lock",
    "is_used_lock",
    "last_insert_id",
    "load_file",
    "release_all_locks",
    "release_lock",
    "row_count",
    "sleep",
    "values",
];

/// The functions whose result depends on more than their arguments.
const NOT_IN_CHECK: [&str; 34] = [
    "benchmark",
    "connection_id",
    "curdate",
    "current_date",
    "current_time",
    "current_timestamp",
    "current_user",
    "curtime",
    "database",
    "default",
    "found_rows",
    "get_lock",
    "is_free_lock",
    "is_used_lock",
    "last_insert_id",
    "load_file",
    "localtime",
    "localtimestamp",
    "now",
    "rand",
    "release_all_locks",
    "release_lock",
    "row_count",
    "schema",
    "session_user",
    "sleep",
    "sysdate",
    "user",
    "utc_date",
    "utc_time",
    "utc_timestamp",
    "uuid",
    "values",
    "version",
];

/// The reserved words that are functions without parentheses.
const BARE_FUNCTIONS: [&str; 8] = [
    "current_date",
    "current_time",
    "current_timestamp",
    "current_user",
    "localtime",
    "localtimestamp",
    "utc_date",
    "utc_timestamp",
];

struct Look<'n> {
    functions: &'n [&'n str],
}

impl Look<'_> {
    fn function(&self, name: &str) -> ControlFlow<Foreign> {
        let name = name.replace('`', "").to_ascii_lowercase();
        if self.functions.contains(&name.as_str()) {
            return ControlFlow::Break(Foreign::Function(name));
        }
        ControlFlow::Continue(())
    }
}

impl Visitor for Look<'_> {
    type Break = Foreign;

    fn pre_visit_query(&mut self, _: &ast::Query) -> ControlFlow<Foreign> {
        ControlFlow::Break(Foreign::Query)
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Foreign> {
        match expr {
            Expr::Identifier(ident) if is_variable(ident) => ControlFlow::Break(Foreign::Variable),
            Expr::Identifier(ident)
                if ident.quote_style.is_none()
                    && BARE_FUNCTIONS
                        .iter()
                        .any(|name| name.eq_ignore_ascii_case(&ident.value)) =>
            {
                self.function(&ident.value)
            }
            Expr::CompoundIdentifier(parts) if parts.first().is_some_and(is_variable) => {
                ControlFlow::Break(Foreign::Variable)
            }
            Expr::Value(value) => match &value.value {
                ast::Value::Placeholder(_) => ControlFlow::Break(Foreign::Variable),
                _ => ControlFlow::Continue(()),
            },
            Expr::Function(call) => match &call.args {
                FunctionArguments::Subquery(_) => ControlFlow::Break(Foreign::Query),
                _ => self.function(&call.name.to_string()),
            },
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Refuses an expression that a definition may not store (KEPT-1).
///
/// # Errors
/// 3769, 3770 and 3772 for a DEFAULT, 3814, 3815 and 3816 for a CHECK.
pub(crate) fn check_foreign(expr: &Expr, kept: StoredClause<'_>) -> Result<()> {
    let functions = match kept {
        StoredClause::Default(_) => &NOT_IN_DEFAULT[..],
        StoredClause::Check(_) => &NOT_IN_CHECK[..],
    };
    let ControlFlow::Break(foreign) = expr.visit(&mut Look { functions }) else { return Ok(()) };
    let (code, text) = match (kept, foreign) {
        (StoredClause::Default(column), foreign) => {
            let whose = format!("Default value expression of column '{column}'");
            match foreign {
                Foreign::Query => (3769, format!("{whose} contains a disallowed function.")),
                Foreign::Function(name) => {
                    (3770, format!("{whose} contains a disallowed function: `{name}`."))
                }
                Foreign::Variable => {
                    (3772, format!("{whose} cannot refer user or system variables."))
                }
            }
        }
        (StoredClause::Check(name), foreign) => {
            let whose = format!("An expression of a check constraint '{name}'");
            match foreign {
                Foreign::Query => (3815, format!("{whose} contains disallowed function.")),
                Foreign::Function(name) => {
                    (3814, format!("{whose} contains disallowed function: {name}."))
                }
                Foreign::Variable => {
                    (3816, format!("{whose} cannot refer to a user or system variable."))
                }
            }
        }
    };
    Err(SqlError::new(code, text))
}

/// Binds a DEFAULT as stored in the catalog.
///
/// # Errors
/// As [`check_foreign`] (KEPT-2).
pub(crate) fn bind_default(
    catalog: &Catalog,
    column: &str,
    text: &str,
) -> Result<expression::Expr> {
    let expr = parse_expr(text)?;
    check_foreign(&expr, StoredClause::Default(column))?;
    alone(catalog, |binder| Ok(binder.bind(&expr)?.expr))
}

/// Binds a CHECK as stored in the catalog, over the rows of a table.
///
/// # Errors
/// As [`check_foreign`] (KEPT-2).
pub(crate) fn bind_check(
    catalog: &Catalog,
    table: &TableDef,
    check: &CheckDef,
) -> Result<expression::Expr> {
    let expr = parse_expr(&check.expr)?;
    check_foreign(&expr, StoredClause::Check(&check.name))?;
    alone(catalog, |binder| {
        binder.scope.tables.push(table_scope(table));
        Ok(binder.bind(&expr)?.expr)
    })
}

/// Calls `body` with a binder that knows neither tables nor variables.
pub(crate) fn alone<T>(
    catalog: &Catalog,
    body: impl FnOnce(&mut Binder<'_>) -> Result<T>,
) -> Result<T> {
    let (variables, needs) = (|_: &str, _: &str| None, Needs::of_no_table());
    let names = Names { catalog, database: None, variables: &variables, needs: &needs };
    body(&mut Binder::new(names))
}
