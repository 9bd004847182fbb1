//! From text to statements: a small recogniser of our own for what `sqlparser` cannot parse or parses wrongly, in
//! front of `sqlparser` for the rest.
//!
//! Text is split into statements and tokens once. What the recogniser knows it takes whole (SET, transactions, PREPARE,
//! SHOW, users). For the rest it mends the tokens where the parser would misread them: `LOCK IN SHARE MODE`, infix `MOD`,
//! `LOW_PRIORITY`, `a || b`, and it numbers the parameters.

use sqlparser::ast;
use sqlparser::dialect::MySqlDialect;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, Tokenizer, Whitespace};

use crate::errors::{Result, SqlError};

/// The longest nesting that the parser follows.
const DEPTH_MAX: usize = 100;

/// A statement.
#[derive(Debug)]
pub(crate) enum Statement {
    Sql(Box<ast::Statement>),
    /// For the session, by its first word, with its tokens.
    Own(String, Vec<Token>),
}

/// The version that the numbers of comments are compared with.
const COMMENT_VERSION: u64 = 80_036;

/// Opens `/*!40101 ... */`, whose content is meant for servers of that version or later. `/*M! ... */` is for MariaDB
/// alone, and stays a comment.
pub(crate) fn open_version_comments(sql: &str) -> String {
    let mut out = String::with_capacity(sql.len());
    let bytes = sql.as_bytes();
    let (mut at, mut open) = (0, false);
    let mut quote: Option<u8> = None;
    let mut start = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        if let Some(end) = quote {
            if byte == b'\\' && end != b'`' {
                at += 1;
            } else if byte == end {
                quote = None;
            }
            at += 1;
            continue;
        }
        let rest = &bytes[at..];
        if matches!(byte, b'\'' | b'"' | b'`') {
            quote = Some(byte);
        } else if rest.starts_with(b"/*!") && version_of(&rest[3..]).1 <= COMMENT_VERSION {
            out.push_str(&sql[start..at]);
            at += 3 + version_of(&rest[3..]).0;
            (start, open) = (at, true);
            out.push(' ');
            continue;
        } else if open && rest.starts_with(b"*/") {
            out.push_str(&sql[start..at]);
            at += 2;
            (start, open) = (at, false);
            continue;
        } else if rest.starts_with(b"/*") {
            at += 2 + find(&bytes[(at + 2).min(bytes.len())..], b"*/")
                .map_or(bytes.len(), |end| end + 2);
            continue;
        } else if byte == b'#' || rest.starts_with(b"-- ") {
            at += find(rest, b"\n").unwrap_or(rest.len());
            continue;
        }
        at += 1;
    }
    out.push_str(&sql[start.min(sql.len())..]);
    out
}

/// The digits at the front, and the number they are.
fn version_of(bytes: &[u8]) -> (usize, u64) {
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = bytes[..digits].iter().fold(0_u64, |number, digit| {
        number.saturating_mul(10).saturating_add(u64::from(digit - b'0'))
    });
    (digits, number)
}

fn find(hay: &[u8], needle: &[u8]) -> Option<usize> {
    hay.windows(needle.len()).position(|window| window == needle)
}

/// Splits text into the tokens of its statements, each with its own text's tokens only.
pub(crate) fn split(sql: &str) -> Result<Vec<Vec<Token>>> {
    let opened = open_version_comments(sql);
    let tokens = Tokenizer::new(&MySqlDialect {}, &opened).tokenize().map_err(SqlError::syntax)?;
    let mut statements = vec![Vec::new()];
    for token in tokens {
        match token {
            Token::SemiColon => statements.push(Vec::new()),
            Token::Whitespace(
                Whitespace::SingleLineComment { .. } | Whitespace::MultiLineComment(_),
            ) => {}
            Token::EOF => {}
            token => {
                if let Some(last) = statements.last_mut() {
                    last.push(token);
                }
            }
        }
    }
    for tokens in &mut statements {
        let blank = |token: &Token| matches!(token, Token::Whitespace(_));
        while tokens.first().is_some_and(blank) {
            tokens.remove(0);
        }
        while tokens.last().is_some_and(blank) {
            tokens.pop();
        }
    }
    statements.retain(|tokens| !tokens.is_empty());
    Ok(statements)
}

/// The word a token is, in lower case; empty for others.
pub(crate) fn word(token: Option<&Token>) -> String {
    match token {
        Some(Token::Word(word)) if word.quote_style.is_none() => word.value.to_ascii_lowercase(),
        _ => String::new(),
    }
}

/// The tokens without white space.
pub(crate) fn solid(tokens: &[Token]) -> Vec<Token> {
    tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))).cloned().collect()
}

/// Parses one statement. Answers it and the number of its parameters.
pub(crate) fn parse(tokens: Vec<Token>) -> Result<(Statement, usize)> {
    let plain = solid(&tokens);
    let (first, second) = (word(plain.first()), word(plain.get(1)));
    let third = word(plain.get(2));
    let own = match first.as_str() {
        "set" | "begin" | "start" | "commit" | "rollback" | "savepoint" | "release" | "use"
        | "show" | "describe" | "desc" | "prepare" | "execute" | "deallocate" | "lock"
        | "unlock" | "flush" | "kill" | "do" | "grant" | "revoke" | "xa" | "analyze"
        | "optimize" | "check" | "repair" | "call" | "load" | "handler" | "reset" | "purge" => true,
        "explain" => !matches!(
            second.as_str(),
            "select" | "update" | "delete" | "insert" | "replace" | "with" | "format"
        ),
        "create" | "alter" | "drop" => {
            second == "user" || second == "role" || (second == "or" && third == "replace")
        }
        "rename" => true,
        "alter_" => false,
        _ => false,
    };
    if own {
        return Ok((Statement::Own(first, tokens), count_params(&plain)));
    }
    if first == "alter" && second == "database" {
        return Ok((Statement::Own(first, tokens), 0));
    }
    let (tokens, params) = mend(tokens);
    if first == "alter" {
        return Ok((Statement::Own(first, tokens), params));
    }
    let dialect = MySqlDialect {};
    let mut parser = Parser::new(&dialect).with_recursion_limit(DEPTH_MAX).with_tokens(tokens);
    let statement = parser.parse_statement().map_err(SqlError::syntax)?;
    match parser.peek_token().token {
        Token::EOF => Ok((Statement::Sql(Box::new(statement)), params)),
        other => Err(SqlError::syntax(format!("near '{other}'"))),
    }
}

fn count_params(tokens: &[Token]) -> usize {
    tokens.iter().filter(|token| matches!(token, Token::Placeholder(name) if name == "?")).count()
}

/// Mends what the parser would misread, and numbers the parameters.
fn mend(tokens: Vec<Token>) -> (Vec<Token>, usize) {
    let mut out: Vec<Token> = Vec::with_capacity(tokens.len());
    let mut params = 0;
    let mut rest = tokens.into_iter().peekable();
    let first = rest.peek().map(|token| word(Some(token))).unwrap_or_default();
    let dml = matches!(first.as_str(), "update" | "insert" | "replace" | "delete" | "select");
    while let Some(token) = rest.next() {
        match &token {
            Token::Placeholder(name) if name == "?" => {
                out.push(Token::Placeholder(format!(":{params}")));
                params += 1;
                continue;
            }
            Token::Word(w) if w.quote_style.is_none() => {
                let lower = w.value.to_ascii_lowercase();
                let seen =
                    out.iter().filter(|token| !matches!(token, Token::Whitespace(_))).count();
                match lower.as_str() {
                    // Hints that change nothing here.
                    "low_priority"
                    | "high_priority"
                    | "delayed"
                    | "quick"
                    | "sql_no_cache"
                    | "sql_cache"
                    | "sql_calc_found_rows"
                    | "sql_small_result"
                    | "sql_big_result"
                        if dml && (1..=2).contains(&seen) =>
                    {
                        continue;
                    }
                    "mod"
                        if ends_value(&out)
                            && !matches!(next_solid(&mut rest), Some(Token::LParen)) =>
                    {
                        out.push(Token::Mod);
                        continue;
                    }
                    _ => {}
                }
            }
            _ => {}
        }
        out.push(token);
    }
    // `LOCK IN SHARE MODE` is the older way to say `FOR SHARE`.
    let places: Vec<usize> =
        (0..out.len()).filter(|at| !matches!(out[*at], Token::Whitespace(_))).collect();
    if let [.., lock, within, share, mode] = places.as_slice() {
        let words = [lock, within, share, mode].map(|at| word(out.get(*at)));
        if words == ["lock", "in", "share", "mode"] {
            out.truncate(*lock);
            out.push(Token::make_keyword("FOR"));
            out.push(Token::Whitespace(Whitespace::Space));
            out.push(Token::make_keyword("SHARE"));
        }
    }
    (out, params)
}

fn next_solid<'t>(rest: &mut std::iter::Peekable<std::vec::IntoIter<Token>>) -> Option<&'t Token> {
    let _ = rest.next_if(|token| matches!(token, Token::Whitespace(_)));
    match rest.peek() {
        Some(Token::LParen) => Some(&Token::LParen),
        _ => None,
    }
}

/// Whether the last token can end a value, so that an infix operator may follow.
fn ends_value(out: &[Token]) -> bool {
    let last = out.iter().rev().find(|token| !matches!(token, Token::Whitespace(_)));
    match last {
        Some(
            Token::Number(..)
            | Token::RParen
            | Token::SingleQuotedString(_)
            | Token::Placeholder(_),
        ) => true,
        Some(Token::Word(w)) => {
            w.keyword == sqlparser::keywords::Keyword::NoKeyword || w.quote_style.is_some()
        }
        _ => false,
    }
}

/// Parses an expression of its own.
pub(crate) fn parse_expr(text: &str) -> Result<ast::Expr> {
    let dialect = MySqlDialect {};
    let mut parser = Parser::new(&dialect)
        .with_recursion_limit(DEPTH_MAX)
        .try_with_sql(text)
        .map_err(SqlError::syntax)?;
    parser.parse_expr().map_err(SqlError::syntax)
}

/// Parses the expression that tokens are.
pub(crate) fn parse_tokens(tokens: &[Token]) -> Result<ast::Expr> {
    let dialect = MySqlDialect {};
    let (tokens, _) = mend(tokens.to_vec());
    let mut parser = Parser::new(&dialect).with_recursion_limit(DEPTH_MAX).with_tokens(tokens);
    let expr = parser.parse_expr().map_err(SqlError::syntax)?;
    match parser.peek_token().token {
        Token::EOF => Ok(expr),
        other => Err(SqlError::syntax(format!("near '{other}'"))),
    }
}
