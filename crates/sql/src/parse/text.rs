//! From text to the tokens of its statements.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, Tokenizer, Whitespace, Word};

use super::dialect::Dialects;
use crate::errors::{Result, SqlError};

/// What `sql_mode` says of how text is read.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub(crate) struct Mode {
    /// `"a"` is a name, not a text.
    pub(crate) ansi_quotes: bool,
    /// `a || b` joins texts, and is not OR.
    pub(crate) pipes_as_concat: bool,
    /// A backslash in a text is a backslash.
    pub(crate) no_backslash_escapes: bool,
    /// REAL is FLOAT, and not DOUBLE.
    pub(crate) real_as_float: bool,
}

impl Mode {
    /// Of the names in a `sql_mode`.
    pub(crate) fn of(sql_mode: &str) -> Mode {
        let mut mode = Mode::default();
        for name in sql_mode.split(',') {
            match name {
                "ANSI_QUOTES" => mode.ansi_quotes = true,
                "PIPES_AS_CONCAT" => mode.pipes_as_concat = true,
                "NO_BACKSLASH_ESCAPES" => mode.no_backslash_escapes = true,
                "REAL_AS_FLOAT" => mode.real_as_float = true,
                _ => {}
            }
        }
        mode
    }
}

/// The version that the numbers of comments are compared with.
const COMMENT_VERSION: u64 = 80_036;

/// Opens `/*!40101 ... */`, whose content is meant for servers of that version or later. `/*M! ... */` is for MariaDB
/// alone, and stays a comment.
fn open_version_comments(sql: &str, mode: Mode) -> String {
    let mut out = String::with_capacity(sql.len());
    let bytes = sql.as_bytes();
    let (mut at, mut open) = (0, false);
    let mut quote: Option<u8> = None;
    let mut start = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        if let Some(end) = quote {
            let name = end == b'`' || (end == b'"' && mode.ansi_quotes);
            if byte == b'\\' && !name && !mode.no_backslash_escapes {
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
            out.push(' ');
            continue;
        } else if rest.starts_with(b"/*") {
            at += 2 + find(&bytes[(at + 2).min(bytes.len())..], b"*/")
                .map_or(bytes.len(), |end| end + 2);
            continue;
        } else if byte == b'#' || is_line_comment(rest) {
            at += find(rest, b"\n").unwrap_or(rest.len());
            continue;
        }
        at += 1;
    }
    out.push_str(&sql[start.min(sql.len())..]);
    out
}

/// `--` begins a comment where white space, a control character or the end follows; `5--3` is eight.
fn is_line_comment(rest: &[u8]) -> bool {
    rest.starts_with(b"--")
        && rest.get(2).is_none_or(|byte| byte.is_ascii_whitespace() || byte.is_ascii_control())
}

/// How many digits of a version begin the bytes, and the number they are: five, or six. Fewer are no version.
fn version_of(bytes: &[u8]) -> (usize, u64) {
    let digits = bytes.iter().take(6).take_while(|byte| byte.is_ascii_digit()).count();
    if digits < 5 {
        return (0, 0);
    }
    (digits, bytes[..digits].iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

fn find(hay: &[u8], needle: &[u8]) -> Option<usize> {
    hay.windows(needle.len()).position(|window| window == needle)
}

/// Splits text into the tokens of its statements, each with its own text's tokens only.
pub(crate) fn split(sql: &str, mode: Mode) -> Result<Vec<Vec<Token>>> {
    let opened = open_version_comments(sql, mode);
    let dialect = Dialects { backslash: !mode.no_backslash_escapes, ansi_quotes: mode.ansi_quotes };
    let tokens = Tokenizer::new(&dialect, &opened).tokenize().map_err(SqlError::syntax)?;
    let mut statements = vec![Vec::new()];
    for token in tokens {
        if let Token::Word(word) = &token
            && word.quote_style.is_some()
        {
            check_characters(&word.value)?;
        }
        match token {
            Token::SemiColon => statements.push(Vec::new()),
            // A comment parts words as white space does.
            Token::Whitespace(
                Whitespace::SingleLineComment { .. } | Whitespace::MultiLineComment(_),
            ) => push(&mut statements, Token::Whitespace(Whitespace::Space)),
            Token::EOF => {}
            Token::StringConcat if !mode.pipes_as_concat => {
                let or = Word { value: "||".to_owned(), quote_style: None, keyword: Keyword::OR };
                push(&mut statements, Token::Word(or));
            }
            Token::Word(word) if word.quote_style == Some('"') => {
                let quote_style = Some('`');
                let word = Word { quote_style, keyword: Keyword::NoKeyword, ..word };
                push(&mut statements, Token::Word(word));
            }
            Token::Word(word)
                if mode.real_as_float
                    && word.quote_style.is_none()
                    && word.value.eq_ignore_ascii_case("real") =>
            {
                push(&mut statements, Token::make_keyword("FLOAT"));
            }
            token => push(&mut statements, token),
        }
    }
    for tokens in &mut statements {
        let blank = |token: &Token| matches!(token, Token::Whitespace(_));
        let end = tokens.iter().rposition(|token| !blank(token)).map_or(0, |last| last + 1);
        tokens.truncate(end);
        let start = tokens.iter().position(|token| !blank(token)).unwrap_or(0);
        tokens.drain(..start);
    }
    statements.retain(|tokens| !tokens.is_empty());
    Ok(statements)
}

/// Refuses a quoted name with characters that no name has (NAME-4 in `names`).
fn check_characters(name: &str) -> Result<()> {
    if name.contains('\0') {
        return Err(SqlError::syntax(format!("near '`{}'", name.replace('\0', ""))));
    }
    if let Some(wide) = name.chars().find(|letter| *letter > '\u{ffff}') {
        let bytes: String = wide.to_string().bytes().map(|byte| format!("\\x{byte:02X}")).collect();
        return Err(SqlError::new(1300, format!("Invalid utf8mb3 character string: '{bytes}'")));
    }
    Ok(())
}

fn push(statements: &mut [Vec<Token>], token: Token) {
    if let Some(last) = statements.last_mut() {
        last.push(token);
    }
}
