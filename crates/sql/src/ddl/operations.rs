//! Parses the operations of ALTER TABLE: `sqlparser` reads those that it knows, and this module
//! reads the others.

use sqlparser::ast::{self, AlterTableOperation, ObjectName, SqlOption};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use crate::errors::{Result, SqlError};
use crate::parser;

/// One clause of ALTER TABLE.
pub(crate) enum Operation {
    Sql(Box<AlterTableOperation>),
    Options(Vec<SqlOption>),
    /// CONVERT TO CHARACTER SET, with the character set and the collation.
    Convert(Option<String>, Option<String>),
    AddIndex {
        name: Option<String>,
        columns: Vec<ast::IndexColumn>,
        unique: bool,
    },
    DropIndex(String),
    RenameIndex(String, String),
    DropCheck(String),
    EnforceCheck(String, bool),
    RenameTable(ObjectName),
    /// FORCE: all rows are rewritten.
    Rewrite,
    /// A clause about enabling or disabling keys. It has no effect, because keys are always
    /// enabled.
    Nothing,
}

/// An ALTER TABLE, or a statement that is short for one, such as CREATE INDEX.
pub(crate) struct Alter {
    pub(crate) table: ObjectName,
    pub(crate) operations: Vec<Operation>,
}

impl Alter {
    /// Parses an ALTER TABLE.
    pub(crate) fn parse(tokens: Vec<Token>) -> Result<Alter> {
        let mut parser = parser::parser(parser::engine_names(tokens));
        let read = |parser: &mut Parser<'_>| {
            parser.expect_keywords(&[Keyword::ALTER, Keyword::TABLE])?;
            let table = parser.parse_object_name(false)?;
            let mut operations = Vec::new();
            if parser.peek_token().token != Token::EOF {
                clause(parser, &mut operations)?;
            }
            while parser.consume_token(&Token::Comma) {
                clause(parser, &mut operations)?;
            }
            parser.expect_token(&Token::EOF)?;
            Ok::<_, ParserError>(Alter { table, operations })
        };
        read(&mut parser).map_err(|error| parser::refused(parser, error))
    }

    /// A CREATE INDEX.
    pub(crate) fn create_index(create: &ast::CreateIndex) -> Result<Alter> {
        let foreign = create.concurrently
            || create.if_not_exists
            || !create.include.is_empty()
            || create.predicate.is_some();
        if foreign {
            return Err(SqlError::unsupported(create));
        }
        let operation = Operation::AddIndex {
            name: create.name.as_ref().map(crate::parser::last_name),
            columns: create.columns.clone(),
            unique: create.unique,
        };
        let options = create.alter_options.iter().cloned().map(Box::new).map(Operation::Sql);
        let operations = std::iter::once(operation).chain(options).collect();
        Ok(Alter { table: create.table_name.clone(), operations })
    }

    /// A DROP INDEX.
    pub(crate) fn drop_index(table: &ObjectName, names: &[ObjectName]) -> Alter {
        let drop = |name| Operation::DropIndex(crate::parser::last_name(name));
        Alter { table: table.clone(), operations: names.iter().map(drop).collect() }
    }

    /// The tables to which the statement's foreign keys refer.
    pub(crate) fn parents(&self) -> impl Iterator<Item = &ObjectName> {
        self.operations.iter().flat_map(|operation| match operation {
            Operation::Sql(operation) => parents_of(operation),
            _ => Vec::new(),
        })
    }

    /// The new names that the statement gives the table.
    pub(crate) fn new_names(&self) -> impl Iterator<Item = &ObjectName> {
        self.operations.iter().filter_map(|operation| match operation {
            Operation::RenameTable(name) => Some(name),
            _ => None,
        })
    }
}

/// The table to which a column's foreign key refers.
pub(crate) fn parent_of(option: &ast::ColumnOption) -> Option<&ObjectName> {
    match option {
        ast::ColumnOption::ForeignKey(key) => Some(&key.foreign_table),
        _ => None,
    }
}

fn parents_of(operation: &AlterTableOperation) -> Vec<&ObjectName> {
    match operation {
        AlterTableOperation::AddConstraint {
            constraint: ast::TableConstraint::ForeignKey(key),
            ..
        } => vec![&key.foreign_table],
        AlterTableOperation::AddColumn { column_def, .. } => {
            column_def.options.iter().filter_map(|option| parent_of(&option.option)).collect()
        }
        AlterTableOperation::ChangeColumn { options, .. }
        | AlterTableOperation::ModifyColumn { options, .. } => {
            options.iter().filter_map(parent_of).collect()
        }
        _ => Vec::new(),
    }
}

/// The next words, in lower case. They are not consumed.
fn words<const N: usize>(parser: &Parser<'_>) -> [String; N] {
    std::array::from_fn(|at| parser::word(Some(&parser.peek_nth_token(at).token)))
}

fn skip(parser: &mut Parser<'_>, tokens: usize) {
    (0..tokens).for_each(|_| drop(parser.next_token()));
}

fn name(parser: &mut Parser<'_>) -> Result<String, ParserError> {
    Ok(parser.parse_identifier()?.value)
}

/// Parses one clause. ADD with several columns becomes several operations.
fn clause(parser: &mut Parser<'_>, out: &mut Vec<Operation>) -> Result<(), ParserError> {
    let next: [String; 3] = words(parser);
    let next = next.each_ref().map(String::as_str);
    let operation = match next {
        ["add", "column", _] if parser.peek_nth_token(2).token == Token::LParen => {
            skip(parser, 2);
            return columns(parser, out);
        }
        ["add", "", _] if parser.peek_nth_token(1).token == Token::LParen => {
            skip(parser, 1);
            return columns(parser, out);
        }
        ["disable" | "enable", "keys", _] => {
            skip(parser, 2);
            Operation::Nothing
        }
        ["force", ..] => {
            skip(parser, 1);
            Operation::Rewrite
        }
        ["convert", "to", _] => convert(parser)?,
        ["drop", "key" | "index", _] => {
            skip(parser, 2);
            Operation::DropIndex(name(parser)?)
        }
        ["drop", "check" | "constraint", _] => {
            skip(parser, 2);
            Operation::DropCheck(name(parser)?)
        }
        ["alter", "check" | "constraint", _] => {
            skip(parser, 2);
            let name = name(parser)?;
            let not = parser.parse_keyword(Keyword::NOT);
            parser.expect_keyword(Keyword::ENFORCED)?;
            Operation::EnforceCheck(name, !not)
        }
        ["rename", "key" | "index", _] => {
            skip(parser, 2);
            let from = name(parser)?;
            parser.expect_keyword(Keyword::TO)?;
            Operation::RenameIndex(from, name(parser)?)
        }
        ["rename", "column", _] => Operation::Sql(Box::new(parser.parse_alter_table_operation()?)),
        ["rename", ..] => rename_table(parser)?,
        _ => match parser.maybe_parse(table_options)? {
            Some(options) if !options.is_empty() => Operation::Options(options),
            _ => Operation::Sql(Box::new(parser.parse_alter_table_operation()?)),
        },
    };
    out.push(operation);
    Ok(())
}

/// Parses consecutive table options up to a comma.
fn table_options(parser: &mut Parser<'_>) -> Result<Vec<SqlOption>, ParserError> {
    // The parser's own loop goes on after a comma, although a clause of another kind may follow
    // there.
    let mut tokens = Vec::new();
    let mut depth = 0;
    loop {
        let token = parser.peek_nth_token_no_skip(tokens.len()).token;
        match token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            Token::EOF => break,
            Token::Comma if depth == 0 => break,
            _ => {}
        }
        tokens.push(token);
    }
    let count = tokens.len();
    let mut own = parser::parser(tokens);
    let options = own.parse_plain_options()?;
    if own.peek_token().token != Token::EOF {
        return own.expected("a table option", own.peek_token());
    }
    for _ in 0..count {
        parser.next_token_no_skip();
    }
    Ok(options)
}

/// Parses `(a INT, b INT)` after ADD.
fn columns(parser: &mut Parser<'_>, out: &mut Vec<Operation>) -> Result<(), ParserError> {
    parser.expect_token(&Token::LParen)?;
    let columns = parser.parse_comma_separated(Parser::parse_column_def)?;
    parser.expect_token(&Token::RParen)?;
    out.extend(columns.into_iter().map(|column_def| {
        Operation::Sql(Box::new(AlterTableOperation::AddColumn {
            column_keyword: true,
            if_not_exists: false,
            column_def,
            column_position: None,
        }))
    }));
    Ok(())
}

fn convert(parser: &mut Parser<'_>) -> Result<Operation, ParserError> {
    skip(parser, 2);
    if !parser.parse_keyword(Keyword::CHARSET) {
        parser.expect_keywords(&[Keyword::CHARACTER, Keyword::SET])?;
    }
    let charset = if parser.parse_keyword(Keyword::DEFAULT) { None } else { Some(name(parser)?) };
    let collation = if parser.parse_keyword(Keyword::COLLATE) { Some(name(parser)?) } else { None };
    Ok(Operation::Convert(charset, collation))
}

/// Parses `RENAME [TO | AS | =] name`, or `RENAME a TO b`, which renames a column.
fn rename_table(parser: &mut Parser<'_>) -> Result<Operation, ParserError> {
    let [_, second, third]: [String; 3] = words(parser);
    if third == "to" && !matches!(second.as_str(), "to" | "as") {
        return Ok(Operation::Sql(Box::new(parser.parse_alter_table_operation()?)));
    }
    skip(parser, 1);
    if !parser.consume_token(&Token::Eq) {
        let _ = parser.parse_one_of_keywords(&[Keyword::TO, Keyword::AS]);
    }
    Ok(Operation::RenameTable(parser.parse_object_name(false)?))
}
