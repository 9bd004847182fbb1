//! Parses text into statements. `sqlparser` parses most of them. A small recogniser of our own
//! comes first, for statements that `sqlparser` cannot parse or parses wrongly.
//!
//! The module `text` splits the received text into statements, and each statement into tokens. The
//! recogniser numbers a statement's parameters and looks at its first words. An unsupported
//! statement fails with an error that names it. SET, PREPARE, SHOW, ALTER, and statements about
//! transactions and users remain tokens, which the session parses when it runs the statement.
//!
//! In any other statement, the recogniser corrects tokens that `sqlparser` would misread (hints,
//! `LOCK IN SHARE MODE`), and `sqlparser` parses the statement with the operator precedences in the
//! module `dialect`.

mod depth;
mod dialect;
mod expression_tokens;
mod interval;
mod known;
mod memory;
mod names;
mod refuse;
mod shape;
mod table_names;
mod text;

use sqlparser::ast;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, Tokenizer, Whitespace};

use crate::errors::{Result, SqlError};
use dialect::DIALECT;

pub(crate) use depth::{Deep, Depth, on_enough_stack};
pub(crate) use expression_tokens::{bytes_of_bits, unhex};
pub(crate) use interval::unit_named;
pub(crate) use memory::TextMemory;
pub(crate) use shape::{RowSource, Shape};
pub(crate) use table_names::{
    last_name, name_of, part_name, parts_of, path, path_of, split_commas, tables_of, word,
};
pub(crate) use text::{TextMode, split};

/// The deepest nesting that the parser accepts.
const DEPTH_MAX: usize = 100;

/// A statement.
#[derive(Debug)]
pub(crate) enum Statement {
    Sql(Box<ast::Statement>),
    /// A statement that the session parses and runs, given by its first word and its tokens.
    Own(String, Vec<Token>),
}

/// The tokens without white space.
pub(crate) fn solid(tokens: &[Token]) -> Vec<Token> {
    tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))).cloned().collect()
}

/// Beginnings of statements that are not supported. The error names these words.
const UNSUPPORTED: &[&str] = &[
    "alter event",
    "alter function",
    "alter instance",
    "alter logfile",
    "alter procedure",
    "alter resource",
    "alter server",
    "alter tablespace",
    "alter view",
    "binlog",
    "cache index",
    "call",
    "change master",
    "change replication",
    "checksum table",
    "clone",
    "create aggregate",
    "create algorithm",
    "create definer",
    "create event",
    "create function",
    "create fulltext",
    "create logfile",
    "create package",
    "create procedure",
    "create resource",
    "create role",
    "create sequence",
    "create server",
    "create spatial",
    "create sql",
    "create tablespace",
    "create temporary",
    "create trigger",
    "create undo",
    "create view",
    "drop event",
    "drop function",
    "drop logfile",
    "drop package",
    "drop procedure",
    "drop resource",
    "drop role",
    "drop sequence",
    "drop server",
    "drop spatial",
    "drop tablespace",
    "drop trigger",
    "drop undo",
    "drop view",
    "get",
    "handler",
    "help",
    "import",
    "install",
    "load",
    "purge",
    "rename user",
    "reset",
    "resignal",
    "restart",
    "set default",
    "set resource",
    "set role",
    "shutdown",
    "signal",
    "start group_replication",
    "start replica",
    "start slave",
    "stop",
    "table",
    "uninstall",
    "xa",
];

/// The name of the construct, if a statement begins with the words of one of [`UNSUPPORTED`].
fn unsupported(words: &[String]) -> Option<String> {
    let or_replace = words[0] == "create" && words[1] == "or" && words[2] == "replace";
    let (first, second) = (&words[0], &words[if or_replace { 3 } else { 1 }]);
    let name = UNSUPPORTED.iter().find(|name| match name.split_once(' ') {
        Some((a, b)) => a == first && b == second,
        None => *name == first,
    })?;
    let stands_alone = !name.contains(' ') && !matches!(*name, "call" | "stop" | "table" | "get");
    let name = if stands_alone && matches!(first.as_str(), "xa" | "load" | "reset" | "purge") {
        format!("{first} {second}")
    } else if name.ends_with(" definer") || name.ends_with(" algorithm") || name.ends_with(" sql") {
        // `CREATE DEFINER = u TRIGGER ...`: the kind of object comes after the definer.
        let kinds = ["trigger", "procedure", "function", "event", "view"];
        let kind = words.iter().find(|word| kinds.contains(&word.as_str()));
        format!("create {}", kind.map_or(second.as_str(), String::as_str))
    } else {
        (*name).to_owned()
    };
    Some(name.trim().to_ascii_uppercase())
}

/// A parsed statement.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) statement: Statement,
    /// The number of parameters.
    pub(crate) params: usize,
    pub(crate) depth: Depth,
}

/// Parses one statement, on a stack that is large enough for its tokens.
///
/// # Errors
/// 1064 if it is not a statement, 1235 if it is not supported, 1436 if it is too deep, 1041 if its
/// tree does not fit the budget.
pub(crate) fn parse(tokens: Vec<Token>, memory: &mut TextMemory) -> Result<Parsed> {
    memory.admit_tree(&tokens)?;
    // The session parses such a statement further when it runs it.
    let depth = Depth::of_tokens(&tokens)?;
    let (statement, params) = parse_statement(tokens)?;
    let depth = match &statement {
        Statement::Sql(statement) => Depth::of(&**statement)?,
        Statement::Own(..) => depth,
    };
    Ok(Parsed { statement, params, depth })
}

/// Whether this crate parses a statement itself. Rewrites an EXPLAIN of a query for `sqlparser`.
fn is_own(tokens: &mut Vec<Token>, words: &[String]) -> Result<bool> {
    let (first, second) = (words[0].as_str(), words[1].as_str());
    Ok(match first {
        "set" | "begin" | "start" | "commit" | "rollback" | "savepoint" | "release" | "use"
        | "show" | "prepare" | "execute" | "deallocate" | "lock" | "unlock" | "flush" | "kill"
        | "do" | "grant" | "revoke" | "analyze" | "optimize" | "check" | "repair" | "rename"
        | "alter" | "backup" => true,
        "explain" | "describe" | "desc" => {
            let explains = ["select", "update", "delete", "insert", "replace", "with", "table"];
            match second {
                // The only supported format.
                "format" if words[3] == "traditional" => {
                    let explained = tokens
                        .iter()
                        .position(|token| word(Some(token)) == "traditional")
                        .map_or(tokens.len(), |at| at + 1);
                    tokens.splice(..explained, [Token::make_keyword("EXPLAIN")]);
                    false
                }
                "format" | "analyze" | "extended" | "partitions" | "for" => {
                    return Err(SqlError::unsupported(format!(
                        "EXPLAIN {}",
                        second.to_ascii_uppercase()
                    )));
                }
                _ if explains.contains(&second) || second.is_empty() && is_open(tokens, 1) => {
                    tokens[0] = Token::make_keyword("EXPLAIN");
                    false
                }
                _ => true,
            }
        }
        "create" => second == "user" || (second == "or" && words[3] == "user"),
        "drop" => second == "user",
        _ => false,
    })
}

fn parse_statement(tokens: Vec<Token>) -> Result<(Statement, usize)> {
    let (mut tokens, params) = number_params(tokens);
    let words: Vec<String> = {
        let solid = tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_)));
        let mut words: Vec<String> = solid.take(16).map(|token| word(Some(token))).collect();
        words.resize(16, String::new());
        words
    };
    let (first, second) = (words[0].as_str(), words[1].as_str());
    if let Some(name) = unsupported(&words) {
        return Err(SqlError::unsupported(name));
    }
    if (first, second) == ("drop", "prepare") {
        return Ok((Statement::Own("deallocate".to_owned(), tokens), params));
    }
    let own = is_own(&mut tokens, &words)?;
    if own {
        return Ok((Statement::Own(first.to_owned(), tokens), params));
    }
    let texts = match first {
        "select" | "with" => names::texts_of_columns(&tokens),
        _ => Vec::new(),
    };
    let mut parser = parser(mend(tokens));
    let parsed = match parser.parse_statement() {
        Err(ParserError::RecursionLimitExceeded) => return Err(depth::too_deep(DEPTH_MAX)),
        parsed => parsed.map_err(|error| error.to_string()),
    };
    let parsed = parsed.and_then(|statement| match parser.peek_token().token {
        Token::EOF => Ok(statement),
        other => Err(format!("near '{other}'")),
    });
    match parsed {
        Ok(mut statement) => {
            Depth::of(&statement)?;
            refuse::check(&statement)?;
            if let ast::Statement::Query(query) = &mut statement {
                names::name_columns(query, texts);
            }
            Ok((Statement::Sql(Box::new(statement)), params))
        }
        Err(error) => Err(refused(parser, error)),
    }
}

/// The error for a statement that a parser refuses.
#[cold]
pub(crate) fn refused(parser: Parser<'_>, error: impl std::fmt::Display) -> SqlError {
    let tokens: Vec<Token> = parser.into_tokens().into_iter().map(|found| found.token).collect();
    known::refused(&tokens, error)
}

/// A parser over tokens that were rewritten by [`mend`].
pub(crate) fn parser(tokens: Vec<Token>) -> Parser<'static> {
    dialect::steps::begin(tokens.len());
    Parser::new(&DIALECT)
        .with_recursion_limit(DEPTH_MAX)
        .with_tokens(expression_tokens::rewritten(tokens))
}

/// The error for a statement in which the parser refuses an expression.
#[cold]
fn refused_by(error: &ParserError) -> SqlError {
    match error {
        ParserError::RecursionLimitExceeded => depth::too_deep(DEPTH_MAX),
        error => SqlError::syntax(error),
    }
}

fn is_open(tokens: &[Token], at: usize) -> bool {
    let mut solid = tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_)));
    solid.nth(at) == Some(&Token::LParen)
}

/// Numbers each `?`. Returns their number.
fn number_params(mut tokens: Vec<Token>) -> (Vec<Token>, usize) {
    let mut params = 0;
    for token in &mut tokens {
        if matches!(token, Token::Placeholder(name) if name == "?") {
            *token = Token::Placeholder(format!(":{params}"));
            params += 1;
        }
    }
    (tokens, params)
}

/// Rewrites tokens that the parser would misread.
fn mend(tokens: Vec<Token>) -> Vec<Token> {
    let tokens = share_mode(comma_joins(synonyms(hints(tokens))));
    match word(tokens.first()).as_str() {
        "create" => engine_names(tokens),
        _ => tokens,
    }
}

/// Rewrites an engine's name that is a string literal, `ENGINE [=] 'x'`, to an identifier, because
/// the parser accepts only that.
pub(crate) fn engine_names(mut tokens: Vec<Token>) -> Vec<Token> {
    let solid: Vec<usize> =
        (0..tokens.len()).filter(|at| !matches!(tokens[*at], Token::Whitespace(_))).collect();
    let mut depth = 0;
    for (place, at) in solid.iter().enumerate() {
        match &tokens[*at] {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            token if depth == 0 && word(Some(token)) == "engine" => {
                let next = |more: usize| solid.get(place + more).copied();
                let equals = next(1).is_some_and(|next| tokens[next] == Token::Eq);
                let named = next(if equals { 2 } else { 1 });
                if let Some(name) = named.and_then(|named| tokens.get_mut(named))
                    && let Token::SingleQuotedString(text) | Token::DoubleQuotedString(text) = name
                {
                    *name = Token::make_word(text, Some('`'));
                }
            }
            _ => {}
        }
    }
    tokens
}

/// Replaces words of which the parser knows only a synonym: SCHEMA by DATABASE, TABLES by TABLE.
/// Removes the ALGORITHM and LOCK clauses of a DROP INDEX, which is always done in one way.
fn synonyms(mut tokens: Vec<Token>) -> Vec<Token> {
    let solid = |tokens: &[Token]| -> Vec<usize> {
        (0..tokens.len()).filter(|at| !matches!(tokens[*at], Token::Whitespace(_))).collect()
    };
    let places: Vec<usize> = solid(&tokens).into_iter().take(2).collect();
    let [verb, kind] = places.as_slice() else { return tokens };
    let (verb, kind) = (word(tokens.get(*verb)), *kind);
    match (verb.as_str(), word(tokens.get(kind)).as_str()) {
        ("create" | "drop", "schema") => tokens[kind] = Token::make_keyword("DATABASE"),
        ("drop", "tables") => tokens[kind] = Token::make_keyword("TABLE"),
        ("drop", "index") => loop {
            // `ALGORITHM [=] x` and `LOCK [=] x` at the end.
            let places = solid(&tokens);
            let option =
                |at: &usize| ["algorithm", "lock"].contains(&word(tokens.get(*at)).as_str());
            let start = match places.as_slice() {
                [.., start, equals, _] if tokens[*equals] == Token::Eq && option(start) => *start,
                [_, _, _, _, _, .., start, _] if option(start) => *start,
                _ => return tokens,
            };
            tokens.truncate(start);
        },
        _ => {}
    }
    tokens
}

/// Rewrites the words between the verb of a change and its table; the parser would read `UPDATE
/// LOW_PRIORITY t` as an update of a table LOW_PRIORITY. Hints are removed. IGNORE is written where
/// the parser expects it.
fn hints(tokens: Vec<Token>) -> Vec<Token> {
    let verb = word(tokens.first());
    let dropped: &[&str] = match verb.as_str() {
        "insert" => &["low_priority", "delayed", "high_priority"],
        "replace" => &["low_priority", "delayed"],
        "update" => &["low_priority"],
        // There are no foreign keys that could make a DELETE fail.
        "delete" => &["low_priority", "quick", "ignore"],
        _ => return tokens,
    };
    let mut out = Vec::with_capacity(tokens.len() + 2);
    let mut rest = tokens.into_iter();
    out.extend(rest.next());
    for token in rest.by_ref() {
        let found = word(Some(&token));
        if matches!(token, Token::Whitespace(_)) {
            out.push(token);
        } else if found == "ignore" && verb == "update" {
            out.extend([Token::make_keyword("OR"), Token::Whitespace(Whitespace::Space), token]);
            break;
        } else if !dropped.contains(&found.as_str()) {
            out.push(token);
            break;
        }
    }
    out.extend(rest);
    out
}

/// Replaces the commas between the tables of an UPDATE by equivalent joins, because the parser does
/// not accept the commas.
fn comma_joins(tokens: Vec<Token>) -> Vec<Token> {
    if word(tokens.first()) != "update" {
        return tokens;
    }
    let mut depth = 0;
    let mut commas = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            Token::Comma if depth == 0 => commas.push(at),
            token if depth == 0 && word(Some(token)) == "set" => break,
            _ => {}
        }
    }
    if commas.is_empty() {
        return tokens;
    }
    let mut out = Vec::with_capacity(tokens.len() + 4 * commas.len());
    let mut commas = commas.into_iter().peekable();
    for (at, token) in tokens.into_iter().enumerate() {
        if commas.next_if_eq(&at).is_none() {
            out.push(token);
            continue;
        }
        let space = || Token::Whitespace(Whitespace::Space);
        let [cross, join] = [Token::make_keyword("CROSS"), Token::make_keyword("JOIN")];
        out.extend([space(), cross, space(), join, space()]);
    }
    out
}

/// Replaces `LOCK IN SHARE MODE` by its newer form `FOR SHARE`.
fn share_mode(mut tokens: Vec<Token>) -> Vec<Token> {
    let places: Vec<usize> =
        (0..tokens.len()).filter(|at| !matches!(tokens[*at], Token::Whitespace(_))).collect();
    for at in places.windows(4).rev() {
        if word(tokens.get(at[0])) == "lock"
            && [at[1], at[2], at[3]].map(|at| word(tokens.get(at))) == ["in", "share", "mode"]
        {
            let share = [
                Token::make_keyword("FOR"),
                Token::Whitespace(Whitespace::Space),
                Token::make_keyword("SHARE"),
            ];
            tokens.splice(at[0]..=at[3], share);
        }
    }
    tokens
}

/// Parses a query written in this crate.
pub(crate) fn parse_query(text: &str) -> Result<ast::Query> {
    let tokens = Tokenizer::new(&DIALECT, text).tokenize().map_err(SqlError::syntax)?;
    let mut parser = parser(tokens);
    Ok(*parser.parse_query().map_err(SqlError::syntax)?)
}

/// Parses an expression that the catalog stores as text.
///
/// # Errors
/// 1064 if it is not an expression, 1436 if it is too deep (DEPTH-3).
pub(crate) fn parse_expr(text: &str) -> Result<ast::Expr> {
    let tokens = Tokenizer::new(&DIALECT, text).tokenize().map_err(SqlError::syntax)?;
    Depth::of_tokens(&tokens)?.run(|| {
        let expr = parser(tokens).parse_expr().map_err(SqlError::syntax)?;
        Depth::of(&expr)?.check_kept()?;
        Ok(expr)
    })
}

/// Refuses an expression that is too deep to be stored in the catalog.
///
/// # Errors
/// 1436 for such an expression (DEPTH-3).
pub(crate) fn check_kept(expr: &ast::Expr) -> Result<()> {
    Depth::of(expr)?.check_kept()
}

/// Parses tokens as an expression.
pub(crate) fn parse_tokens(tokens: &[Token]) -> Result<ast::Expr> {
    let mut parser = parser(tokens.to_vec());
    let expr = parser.parse_expr().map_err(|error| refused_by(&error))?;
    match parser.peek_token().token {
        Token::EOF => {
            Depth::of(&expr)?;
            refuse::check(&expr)?;
            Ok(expr)
        }
        other => Err(SqlError::syntax(format!("near '{other}'"))),
    }
}
