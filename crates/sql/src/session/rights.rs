//! Which tables a statement names, and whether the user may do it.

use sqlparser::ast;

use super::Session;
use crate::errors::{Result, SqlError};

impl Session {
    pub(super) fn check_rights(&self, statement: &ast::Statement) -> Result<()> {
        let variables = self.variables.borrow();
        let right = match statement {
            ast::Statement::Query(_) => "SELECT",
            ast::Statement::Insert(_) => "INSERT",
            ast::Statement::Update(_) => "UPDATE",
            ast::Statement::Delete(_) => "DELETE",
            ast::Statement::Drop { .. } => "DROP",
            ast::Statement::AlterTable(_) => "ALTER",
            ast::Statement::CreateIndex(_) => "INDEX",
            _ => "CREATE",
        };
        let catalog = self.instance.0.catalog.load();
        let Some(user) = catalog.user(&variables.user_name, &variables.host) else {
            return Err(SqlError::new(
                1045,
                format!("Access denied for user '{}'@'{}'", variables.user_name, variables.host),
            ));
        };
        if user.may(right, "*") {
            return Ok(());
        }
        for (db, table) in tables_of(statement, variables.database.as_deref()) {
            if !user.may(right, &db) && !db.eq_ignore_ascii_case("information_schema") {
                return Err(SqlError::new(
                    1142,
                    format!(
                        "{right} command denied to user '{}'@'{}' for table '{table}'",
                        variables.user_name, variables.host
                    ),
                ));
            }
        }
        Ok(())
    }
}

/// Database and table of a name.
pub(crate) fn path_of(text: &str, database: Option<&str>) -> Result<(String, String)> {
    let text = text.replace('`', "");
    match text.split_once('.') {
        Some((db, name)) => Ok((db.to_owned(), name.to_owned())),
        None => {
            let db = database.ok_or_else(|| SqlError::new(1046, "No database selected"))?;
            Ok((db.to_owned(), text))
        }
    }
}

/// The tables that a statement names, anywhere in it.
pub(super) fn tables_of(
    statement: &ast::Statement,
    database: Option<&str>,
) -> Vec<(String, String)> {
    let mut tables = Vec::new();
    let _ = ast::visit_relations(statement, |name| {
        if let Ok(path) = path_of(&name.to_string(), database)
            && !tables.contains(&path)
        {
            tables.push(path);
        }
        std::ops::ControlFlow::<()>::Continue(())
    });
    if let ast::Statement::Drop { names, .. } = statement {
        tables.extend(names.iter().filter_map(|name| path_of(&name.to_string(), database).ok()));
    }
    if let ast::Statement::Truncate(truncate) = statement {
        let names = truncate.table_names.iter();
        tables.extend(names.filter_map(|target| path_of(&target.name.to_string(), database).ok()));
    }
    tables
}
