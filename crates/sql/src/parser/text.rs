//! Splits text into the tokens of its statements.

use std::borrow::Cow;

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, Tokenizer, Whitespace, Word};

use super::dialect::Dialects;
use super::memory::TextMemory;
use crate::errors::{Result, SqlError};

/// The parts of `sql_mode` that affect how text is tokenized.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub(crate) struct TextMode {
    /// `"a"` is a name, not a string literal.
    pub(crate) ansi_quotes: bool,
    /// `a || b` concatenates texts and does not mean OR.
    pub(crate) pipes_as_concat: bool,
    /// A backslash in a string literal stands for itself.
    pub(crate) no_backslash_escapes: bool,
    /// REAL means FLOAT and not DOUBLE.
    pub(crate) real_as_float: bool,
}

impl TextMode {
    /// The parts of a `sql_mode` that matter here.
    pub(crate) fn of(sql_mode: &str) -> TextMode {
        let mut mode = TextMode::default();
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

/// The server version with which the numbers of version comments are compared.
const COMMENT_VERSION: u64 = 80_036;

/// Opens version comments such as `/*!40101 ... */`: their content is for servers of that version
/// or later. `/*M! ... */` is for MariaDB only, and stays a comment.
pub(super) fn open_version_comments(sql: &str, mode: TextMode) -> Cow<'_, str> {
    if find(sql.as_bytes(), b"/*!").is_none() {
        return Cow::Borrowed(sql);
    }
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
    Cow::Owned(out)
}

/// Whether `--` begins a comment, which it does before white space, a control character or the end
/// of the text. So `5--3` is eight.
pub(super) fn is_line_comment(rest: &[u8]) -> bool {
    rest.starts_with(b"--")
        && rest.get(2).is_none_or(|byte| byte.is_ascii_whitespace() || byte.is_ascii_control())
}

/// The number of digits, five or six, of the version at the front of the bytes, and the version.
/// Fewer digits are no version.
fn version_of(bytes: &[u8]) -> (usize, u64) {
    let digits = bytes.iter().take(6).take_while(|byte| byte.is_ascii_digit()).count();
    if digits < 5 {
        return (0, 0);
    }
    (digits, bytes[..digits].iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

pub(super) fn find(hay: &[u8], needle: &[u8]) -> Option<usize> {
    hay.windows(needle.len()).position(|window| window == needle)
}

/// Splits text into the tokens of its statements. The memory for them is charged first.
///
/// # Errors
/// 1064 and 1300 for text that is not valid SQL, 1041 if the tokens do not fit the budget.
pub(crate) fn split(sql: &str, mode: TextMode, memory: &mut TextMemory) -> Result<Vec<Vec<Token>>> {
    let opened = open_version_comments(sql, mode);
    let count = memory.admit_text(&opened, mode)?;
    let dialect = Dialects { backslash: !mode.no_backslash_escapes, ansi_quotes: mode.ansi_quotes };
    // With capacity for all tokens, the list is never reallocated.
    let mut tokens = Vec::with_capacity(count);
    Tokenizer::new(&dialect, &opened)
        .tokenize_with_location_into_buf(&mut tokens)
        .map_err(SqlError::syntax)?;
    let parts = tokens.split(|token| token.token == Token::SemiColon);
    let lengths: Vec<usize> = parts.map(<[_]>::len).collect();
    let mut lengths = lengths.into_iter();
    let mut next = || Vec::with_capacity(lengths.next().unwrap_or_default());
    let mut statements = vec![next()];
    for token in tokens {
        let token = token.token;
        if let Token::Word(word) = &token
            && word.quote_style.is_some()
        {
            check_characters(&word.value)?;
        }
        match token {
            Token::SemiColon => statements.push(next()),
            Token::EOF => {}
            token => {
                let follows_period = statements.last().and_then(|tokens| tokens.last());
                let is_part = follows_period == Some(&Token::Period);
                push(&mut statements, as_read(token, mode, is_part));
            }
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

/// The token that the parser reads in place of the given one, which may be a part of a longer name.
fn as_read(token: Token, mode: TextMode, is_part: bool) -> Token {
    match token {
        Token::Word(word) if !is_part && word.quote_style.is_none() && is_bits(&word.value) => {
            Token::SingleQuotedByteStringLiteral(word.value[2..].to_owned())
        }
        // A comment separates words, as white space does.
        Token::Whitespace(
            Whitespace::SingleLineComment { .. } | Whitespace::MultiLineComment(_),
        ) => Token::Whitespace(Whitespace::Space),
        Token::StringConcat if !mode.pipes_as_concat => {
            let or = Word { value: "||".to_owned(), quote_style: None, keyword: Keyword::OR };
            Token::Word(or)
        }
        Token::Word(word) if word.quote_style == Some('"') => {
            let quote_style = Some('`');
            Token::Word(Word { quote_style, keyword: Keyword::NoKeyword, ..word })
        }
        Token::Word(word)
            if mode.real_as_float
                && word.quote_style.is_none()
                && word.value.eq_ignore_ascii_case("real") =>
        {
            Token::make_keyword("FLOAT")
        }
        token => token,
    }
}

/// Whether a word is a bit literal, such as `0b101`.
fn is_bits(word: &str) -> bool {
    let digits = word.strip_prefix("0b").unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|digit| matches!(digit, b'0' | b'1'))
}

/// Refuses a quoted name with invalid characters (NAME-4 in `names`).
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
