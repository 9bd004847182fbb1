//! Makes the query of INSERT ... SELECT ... ON DUPLICATE KEY UPDATE return the columns that the
//! assignments name.
//!
//! An assignment may name columns of the tables in the query's FROM clause. The query returns these
//! columns after the values to insert, and the assignments read them there. If the target table
//! also has a column of that name, the name refers to the target table. As in MySQL, an assignment
//! cannot name columns of a grouped query, of a query with DISTINCT, or of a set operation.

use std::ops::ControlFlow;

use sqlparser::ast::{
    self, AssignmentTarget, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr,
    Ident, SetExpr, VisitMut, VisitorMut,
};

use super::name_path;
use crate::catalog::TableDef;
use crate::planner::{QueryPlan, ScopeColumn, ScopeTable};

/// The assignments of an INSERT with its query, after columns of the query were taken out of them.
pub(super) struct QueryColumns {
    pub(super) query: Box<ast::Query>,
    pub(super) assignments: Vec<ast::Assignment>,
    pub(super) count: usize,
}

/// The name that stands for a column of the query. No column's name ends with a space.
fn stand_in(at: usize) -> String {
    format!("{at} ")
}

/// Makes the query return the columns of its tables that the assignments name.
pub(super) fn take_out(
    table: &TableDef,
    alias: Option<&ast::ObjectName>,
    query: &ast::Query,
    assignments: &[ast::Assignment],
) -> QueryColumns {
    let mut query = Box::new(query.clone());
    let mut assignments = assignments.to_vec();
    let mut count = 0;
    if let Some(select) = offering(&mut query) {
        let alias = alias.and_then(|alias| name_path(alias).pop());
        let mut names = QueryNames { table, alias, skipped: 0, found: Vec::new() };
        for assignment in &mut assignments {
            if matches!(assignment.target, AssignmentTarget::ColumnName(_)) {
                let _ = assignment.value.visit(&mut names);
            }
        }
        count = names.found.len();
        select.projection.extend(names.found.into_iter().map(ast::SelectItem::UnnamedExpr));
    }
    QueryColumns { query, assignments, count }
}

/// The SELECT whose tables offer their columns, if any.
fn offering(query: &mut ast::Query) -> Option<&mut ast::Select> {
    let SetExpr::Select(select) = &mut *query.body else { return None };
    let is_grouped = match &select.group_by {
        GroupByExpr::All(_) => true,
        GroupByExpr::Expressions(by, _) => !by.is_empty(),
    };
    (!is_grouped && select.distinct.is_none()).then_some(select)
}

/// The scope of the last `count` columns of the query, from a slot on.
pub(super) fn scope(plan: &QueryPlan, count: usize, offset: usize) -> ScopeTable {
    let columns = plan.columns[plan.columns.len() - count..].iter().enumerate();
    let columns = columns.map(|(at, column)| ScopeColumn {
        name: stand_in(at),
        ty: column.column_type.clone(),
        collation: column.collation,
        nullable: true,
        merged: false,
        flags: column.flags,
    });
    ScopeTable {
        db: String::new(),
        alias: String::new(),
        name: String::new(),
        columns: columns.collect(),
        offset,
        changed: false,
    }
}

/// Replaces the columns that the target table does not have.
struct QueryNames<'a> {
    table: &'a TableDef,
    /// The alias of the row to insert.
    alias: Option<String>,
    /// How many VALUES() and subqueries there are around: their names are their own.
    skipped: usize,
    found: Vec<Expr>,
}

impl QueryNames<'_> {
    /// Whether a name is no column of the query: that of the target table, of a variable, a text in
    /// double quotes, or one that already stands for a column of the query.
    fn is_own(&self, path: &[Ident]) -> bool {
        let is = |name: &str, ident: &Ident| name.eq_ignore_ascii_case(&ident.value);
        match path {
            [name] => {
                name.quote_style == Some('"')
                    || name.value.starts_with('@')
                    || name.value.ends_with(' ')
                    || is("default", name)
                    || self.table.column(&name.value).is_some()
            }
            [table, _] => {
                table.value.starts_with('@')
                    || is(&self.table.name, table)
                    || self.alias.as_ref().is_some_and(|alias| is(alias, table))
            }
            [db, table, _] => self.table.db == db.value && is(&self.table.name, table),
            _ => true,
        }
    }

    /// The argument of DEFAULT(), if it is a column that the target table does not have.
    fn has_foreign_default(&self, expr: &Expr) -> bool {
        let Some(FunctionArguments::List(list)) = call_of(expr, "default") else { return false };
        let [FunctionArg::Unnamed(FunctionArgExpr::Expr(column))] = list.args.as_slice() else {
            return false;
        };
        path_of(column).is_some_and(|path| !self.is_own(path))
    }

    /// Puts a name in place of a column of the query, or of the default of one, and makes the query
    /// return it.
    fn take(&mut self, expr: &mut Expr) {
        let known = self.found.iter().position(|found| found == expr);
        let at = known.unwrap_or(self.found.len());
        let name = Expr::Identifier(Ident::with_quote('`', stand_in(at)));
        let column = std::mem::replace(expr, name);
        if known.is_none() {
            self.found.push(column);
        }
    }
}

/// The name of a column.
fn path_of(expr: &Expr) -> Option<&[Ident]> {
    match expr {
        Expr::Identifier(ident) => Some(std::slice::from_ref(ident)),
        Expr::CompoundIdentifier(path) => Some(path),
        _ => None,
    }
}

/// The arguments of a call of a function.
fn call_of<'e>(expr: &'e Expr, function: &str) -> Option<&'e FunctionArguments> {
    let Expr::Function(call) = expr else { return None };
    let name = name_path(&call.name).pop()?;
    name.eq_ignore_ascii_case(function).then_some(&call.args)
}

impl VisitorMut for QueryNames<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<()> {
        self.skipped += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<()> {
        self.skipped -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.skipped += usize::from(call_of(expr, "values").is_some());
        if self.skipped == 0 && self.has_foreign_default(expr) {
            self.take(expr);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.skipped -= usize::from(call_of(expr, "values").is_some());
        if self.skipped == 0 && path_of(expr).is_some_and(|path| !self.is_own(path)) {
            self.take(expr);
        }
        ControlFlow::Continue(())
    }
}
