//! Which tables a statement names.

use std::ops::ControlFlow;

use sqlparser::ast::{self, Visit, Visitor};
use sqlparser::tokenizer::Token;

use super::own::name_of;
use super::rights::changed_by;
use crate::errors::{Result, SqlError};

/// Database and table of a name's parts.
pub(crate) fn path_of(parts: &[String], database: Option<&str>) -> Result<(String, String)> {
    match parts {
        [name] => {
            let db = database.ok_or_else(|| SqlError::new(1046, "No database selected"))?;
            Ok((db.to_owned(), name.clone()))
        }
        [db, name] => Ok((db.clone(), name.clone())),
        parts => Err(SqlError::syntax(format!("near '{}'", parts.join(".")))),
    }
}

/// The parts of a name that tokens are.
pub(super) fn parts_of(tokens: &[Token]) -> Result<Vec<String>> {
    let names = tokens.iter().step_by(2);
    let dots = tokens.iter().skip(1).step_by(2);
    let text: String = tokens.iter().map(ToString::to_string).collect();
    if tokens.len().is_multiple_of(2)
        || !names.clone().all(|token| matches!(token, Token::Word(_)))
        || !dots.clone().all(|token| *token == Token::Period)
    {
        return Err(SqlError::syntax(format!("near '{text}'")));
    }
    Ok(names.map(|token| name_of(Some(token))).collect())
}

/// Database and table of a name.
pub(super) fn path(name: &ast::ObjectName, database: Option<&str>) -> Result<(String, String)> {
    let part = |part: &ast::ObjectNamePart| match part {
        ast::ObjectNamePart::Identifier(ident) => ident.value.clone(),
        other => other.to_string(),
    };
    path_of(&name.0.iter().map(part).collect::<Vec<_>>(), database)
}

/// The tables that a statement names, anywhere in it.
pub(super) fn tables_of(
    statement: &ast::Statement,
    database: Option<&str>,
) -> Vec<(String, String)> {
    let mut tables = Vec::new();
    let mut add = |name: &ast::ObjectName| {
        if let Ok(path) = path(name, database)
            && !tables.contains(&path)
        {
            tables.push(path);
        }
    };
    let _ = ast::visit_relations(statement, |name| {
        add(name);
        ControlFlow::<()>::Continue(())
    });
    if let ast::Statement::Drop { object_type, names, table, .. } = statement {
        if *object_type == ast::ObjectType::Table {
            names.iter().for_each(&mut add);
        }
        table.iter().for_each(&mut add);
    }
    if let ast::Statement::Truncate(truncate) = statement {
        truncate.table_names.iter().for_each(|target| add(&target.name));
    }
    tables
}

/// The tables whose rows a statement changes or locks.
pub(super) fn targets_of(
    statement: &ast::Statement,
    database: Option<&str>,
) -> Vec<(String, String)> {
    let named = |table: &ast::TableWithJoins| match &table.relation {
        ast::TableFactor::Table { name, .. } => path(name, database).ok(),
        _ => None,
    };
    match statement {
        ast::Statement::Insert(insert) => match &insert.table {
            ast::TableObject::TableName(name) => path(name, database).into_iter().collect(),
            _ => Vec::new(),
        },
        ast::Statement::Update(update) if update.table.joins.is_empty() => {
            named(&update.table).into_iter().collect()
        }
        ast::Statement::Update(_) | ast::Statement::Delete(_) => changed_by(statement, database),
        ast::Statement::Query(query) if !query.locks.is_empty() => tables_of(statement, database),
        _ => Vec::new(),
    }
}

/// What a part of a statement reads: which stored tables, and whether it names any column.
///
/// A name of a common table expression is no table, but only where that expression is in force: within its query, after its
/// definition. Anywhere else the same name is the table's, which must be checked.
#[derive(Default)]
pub(super) struct Reads<'a> {
    database: Option<&'a str>,
    scopes: Vec<Names>,
    pub(super) tables: Vec<(String, String)>,
    pub(super) columns: bool,
    pub(super) locks: bool,
}

/// The common table expressions of one query. The addresses tell only which query is left, and are never followed.
struct Names {
    names: Vec<String>,
    queries: Vec<*const ast::Query>,
    in_force: usize,
}

impl<'a> Reads<'a> {
    pub(super) fn new(database: Option<&'a str>) -> Reads<'a> {
        Reads { database, ..Reads::default() }
    }

    pub(super) fn add(&mut self, part: &impl Visit) {
        let _ = part.visit(self);
    }

    fn is_expression(&self, name: &str) -> bool {
        self.scopes.iter().any(|scope| {
            scope.names[..scope.in_force].iter().any(|other| other.eq_ignore_ascii_case(name))
        })
    }
}

impl Visitor for Reads<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
        self.locks |= !query.locks.is_empty();
        let ctes = query.with.iter().flat_map(|with| &with.cte_tables);
        self.scopes.push(Names {
            names: ctes.clone().map(|cte| cte.alias.name.value.clone()).collect(),
            queries: ctes.map(|cte| std::ptr::from_ref(&*cte.query)).collect(),
            in_force: 0,
        });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &ast::Query) -> ControlFlow<()> {
        self.scopes.pop();
        if let Some(outer) = self.scopes.last_mut()
            && outer.queries.get(outer.in_force).is_some_and(|next| std::ptr::eq(*next, query))
        {
            outer.in_force += 1;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &ast::ObjectName) -> ControlFlow<()> {
        let alone = match relation.0.as_slice() {
            [ast::ObjectNamePart::Identifier(ident)] => Some(&ident.value),
            _ => None,
        };
        let expression =
            alone.is_some_and(|name| name.eq_ignore_ascii_case("dual") || self.is_expression(name));
        if !expression
            && let Ok(path) = path(relation, self.database)
            && !self.tables.contains(&path)
        {
            self.tables.push(path);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<()> {
        self.columns |= match expr {
            ast::Expr::Identifier(ident) => !ident.value.starts_with('@'),
            ast::Expr::CompoundIdentifier(_) => true,
            _ => false,
        };
        ControlFlow::Continue(())
    }
}
