//! Names of tables, and which of them a DDL statement names.

use std::ops::ControlFlow;

use sqlparser::ast;
use sqlparser::tokenizer::Token;

use super::own::name_of;
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
