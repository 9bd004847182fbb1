//! Rewrites parts of expressions and types that `sqlparser` does not accept to equivalent ones:
//!
//! - `CAST(a AS CHAR CHARACTER SET x)` and `CONVERT(a, CHAR CHARACTER SET x)` become `CONVERT(a
//!   USING x)`;
//! - `CHAR(a, b USING x)` becomes `CONVERT(CHAR(a, b) USING x)`;
//! - `_x b'1'` becomes `_x X'01'`;
//! - a hexadecimal or bit literal in `ENUM(...)` or `SET(...)` becomes a text.

use sqlparser::tokenizer::{Token, Whitespace};

use super::table_names::word;

/// An opening parenthesis in the rewritten tokens.
struct Opened {
    /// The word before it, if there is one.
    name: String,
    /// The index of that word.
    at: usize,
}

/// The tokens that the parser reads in place of the given ones.
pub(super) fn rewritten(tokens: Vec<Token>) -> Vec<Token> {
    if !tokens.iter().any(is_concerned) {
        return tokens;
    }
    let mut out = Vec::with_capacity(tokens.len() + 8);
    let mut open: Vec<Opened> = Vec::new();
    for token in tokens {
        let before = last(&out);
        match token {
            Token::LParen => {
                let name = word(before.map(|at| &out[at]));
                open.push(Opened { name, at: before.unwrap_or_default() });
                out.push(token);
            }
            Token::RParen => {
                if let Some(opened) = open.pop() {
                    close(&mut out, &opened);
                }
                out.push(token);
            }
            token => {
                let is_member = open.last().is_some_and(|opened| is_list(&opened.name))
                    && before.is_some_and(|at| matches!(out[at], Token::LParen | Token::Comma));
                let is_introduced = word(before.map(|at| &out[at])).starts_with('_');
                out.push(match (bytes_of(&token), token) {
                    (Some(bytes), token) if is_member => match String::from_utf8(bytes) {
                        Ok(text) => Token::SingleQuotedString(text),
                        Err(_) => token,
                    },
                    (Some(bytes), _) if is_introduced => {
                        let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
                        Token::HexStringLiteral(digits.collect())
                    }
                    (_, token) => token,
                });
            }
        }
    }
    out
}

fn is_concerned(token: &Token) -> bool {
    bytes_of(token).is_some()
        || matches!(word(Some(token)).as_str(), "character" | "charset" | "using")
}

/// Whether a word begins a type with a list of members.
fn is_list(name: &str) -> bool {
    matches!(name, "enum" | "set")
}

/// The bytes of a hexadecimal or bit literal.
fn bytes_of(token: &Token) -> Option<Vec<u8>> {
    match token {
        Token::HexStringLiteral(digits) => Some(unhex(digits)),
        Token::SingleQuotedByteStringLiteral(bits) => bytes_of_bits(bits),
        _ => None,
    }
}

/// The bytes of hexadecimal digits, with a zero in front if their number is odd.
pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digits = if text.len() % 2 == 1 { format!("0{text}") } else { text.to_owned() };
    let byte =
        |at: usize| u8::from_str_radix(digits.get(at..at + 2).unwrap_or("00"), 16).unwrap_or(0);
    (0..digits.len() / 2).map(|at| byte(2 * at)).collect()
}

/// The bytes of binary digits, with zeros in front; `None` if there are other characters.
pub(crate) fn bytes_of_bits(bits: &str) -> Option<Vec<u8>> {
    let mut bytes = vec![0; bits.len().div_ceil(8)];
    for (at, bit) in bits.bytes().rev().enumerate() {
        let byte = bytes.len() - 1 - at / 8;
        match bit {
            b'1' => bytes[byte] |= 1 << (at % 8),
            b'0' => {}
            _ => return None,
        }
    }
    Some(bytes)
}

/// The index of the last token that is no white space.
fn last(tokens: &[Token]) -> Option<usize> {
    tokens.iter().rposition(|token| !matches!(token, Token::Whitespace(_)))
}

/// Rewrites the call whose closing parenthesis comes next, if it names a character set.
fn close(out: &mut Vec<Token>, opened: &Opened) {
    let solid = (opened.at..out.len()).rev();
    let solid = solid.filter(|at| !matches!(out[*at], Token::Whitespace(_)));
    let tail: Vec<usize> = solid.take(5).collect();
    let words: Vec<String> = tail.iter().map(|at| word(out.get(*at))).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let space = || Token::Whitespace(Whitespace::Space);
    if let ("char", [_, "using", ..]) = (opened.name.as_str(), words.as_slice()) {
        out.insert(tail[1], Token::RParen);
        out.insert(tail[1] + 1, space());
        out.splice(opened.at..opened.at, [Token::make_keyword("CONVERT"), Token::LParen]);
        return;
    }
    let begin = match words.as_slice() {
        [_, "set", "character", "char" | "character", _] => 4,
        [_, "charset", "char" | "character", ..] if words.len() > 3 => 3,
        _ => return,
    };
    let is_cast = opened.name == "cast" && words[begin] == "as";
    if is_cast || opened.name == "convert" && out[tail[begin]] == Token::Comma {
        let name = out[tail[0]].clone();
        out.truncate(tail[begin]);
        out.extend([space(), Token::make_keyword("USING"), space(), name]);
        out[opened.at] = Token::make_keyword("CONVERT");
    }
}
