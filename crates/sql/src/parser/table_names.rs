//! Names of tables, and the tables that a DDL statement names.

use std::collections::HashSet;
use std::ops::ControlFlow;

use sqlparser::ast;
use sqlparser::tokenizer::Token;

use crate::errors::{Result, SqlError};

/// The word of a token, in lower case; empty if the token is not a word.
pub(crate) fn word(token: Option<&Token>) -> String {
    match token {
        Some(Token::Word(word)) if word.quote_style.is_none() => word.value.to_ascii_lowercase(),
        _ => String::new(),
    }
}

/// The database and the table that a name with these parts denotes.
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

/// The parts of the name that the tokens are.
pub(crate) fn parts_of(tokens: &[Token]) -> Result<Vec<String>> {
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

/// The database and the table that a name denotes.
pub(crate) fn path(name: &ast::ObjectName, database: Option<&str>) -> Result<(String, String)> {
    let part = |part: &ast::ObjectNamePart| match part {
        ast::ObjectNamePart::Identifier(ident) => ident.value.clone(),
        other => other.to_string(),
    };
    path_of(&name.0.iter().map(part).collect::<Vec<_>>(), database)
}

/// All tables that a statement names, wherever it names them.
pub(crate) fn tables_of(
    statement: &ast::Statement,
    database: Option<&str>,
) -> Vec<(String, String)> {
    let (mut tables, mut known) = (Vec::new(), HashSet::new());
    let mut add = |name: &ast::ObjectName| {
        if let Ok(path) = path(name, database)
            && known.insert(path.clone())
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

pub(crate) fn name_of(token: Option<&Token>) -> String {
    match token {
        Some(Token::Word(word)) => word.value.clone(),
        Some(Token::SingleQuotedString(text)) => text.clone(),
        Some(token) => token.to_string(),
        None => String::new(),
    }
}

/// Splits tokens at the commas outside parentheses.
pub(crate) fn split_commas(tokens: &[Token]) -> Vec<Vec<Token>> {
    let (mut parts, mut depth) = (vec![Vec::new()], 0);
    for token in tokens {
        match token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            Token::Comma if depth == 0 => {
                parts.push(Vec::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = parts.last_mut() {
            last.push(token.clone());
        }
    }
    parts.retain(|part| part.iter().any(|token| !matches!(token, Token::Whitespace(_))));
    parts
}

pub(crate) fn part_name(part: &ast::ObjectNamePart) -> String {
    match part {
        ast::ObjectNamePart::Identifier(ident) => ident.value.clone(),
        other => other.to_string(),
    }
}

pub(crate) fn last_name(name: &ast::ObjectName) -> String {
    name.0.last().map(part_name).unwrap_or_default()
}
