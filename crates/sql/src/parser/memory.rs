//! The memory that parsing a text needs, charged to the budget before the parser allocates it.
//!
//! A token takes 56 or 88 bytes, and a node of the tree takes hundreds of bytes: a table in FROM
//! takes 1,360. So a text of 2 MB can become more than a gigabyte. The memory is estimated in two
//! steps, each before the memory is allocated. A scan of the bytes gives an upper bound of the
//! number of tokens, and the tokens give an upper bound of the size of the tree.
//!
//! - **TEXT-1**: if a text has [`FREE_BYTES`] or more, its tokens and its tree are charged to the
//!   budget before they are allocated. A text that does not fit fails with 1041.
//! - **TEXT-2**: parsing allocates no more than is charged. `parser/memory_tests.rs` measures this.
//! - **TEXT-3**: the charge lasts as long as the statement.
//!
//! The weights below are sizes of `sqlparser`'s types. A list grows by doubling, so an element
//! counts twice, and three times while the list is copied to a larger allocation.

use spillway::Budget;
use spillway_base::budget::{Charge, Use};
use sqlparser::ast;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::text::TextMode;
use crate::errors::Result;

/// Texts below this length are not charged. The process's fixed memory covers as many of them as
/// all workers may have at the same time.
const FREE_BYTES: usize = 1 << 10;

/// The memory of a token until its statement is parsed: the token as the tokenizer or the parser
/// has it, the copy that is kept between these two, the smallest heap allocation for its text, and
/// two position numbers.
const TOKEN_BYTES: usize = size_of::<TokenWithSpan>() + size_of::<Token>() + 32;
/// How many copies of a literal's content may be in memory: in the tokens, in the tree, in the
/// plan, and in the row that it becomes part of.
const COPIES: usize = 4;

const EXPR: usize = size_of::<ast::Expr>();
/// A list's first allocation has room for this many elements.
const FIRST: usize = 4;
/// A list that grew by doubling may have room for this many times its elements.
const GROWN: usize = 2;

/// The memory of a name: the list of its parts, and its element in a list of names.
const NAME: usize = FIRST * size_of::<ast::ObjectNamePart>() + GROWN * size_of::<ast::ObjectName>();
/// The nodes of a SELECT, with its query and the derived table that it may be.
const SELECT: usize = size_of::<ast::Select>()
    + size_of::<ast::Query>()
    + FIRST * size_of::<ast::SelectItem>()
    + FIRST * size_of::<ast::TableWithJoins>();
const SET_OPERATION: usize = 2 * size_of::<ast::SetExpr>();
/// A column or a key in the definition of a table.
const DEFINITION: usize = size_of::<ast::ColumnDef>() + size_of::<ast::TableConstraint>();
const JOIN: usize = FIRST * size_of::<ast::Join>();

/// The memory charge of a text, which lasts as long as its tokens or its statements.
pub(crate) struct TextMemory {
    /// `None` for a text that is not charged, so that short statements leave the shared counters
    /// alone.
    budget: Option<Budget>,
    charge: Option<Charge>,
    /// The bytes charged for the text and its tokens.
    tokens: usize,
}

impl TextMemory {
    /// For a text whose length is all that is known so far.
    pub(crate) fn of(sql: &str, budget: &Budget) -> TextMemory {
        let budget = (sql.len() >= FREE_BYTES).then(|| budget.clone());
        TextMemory { budget, charge: None, tokens: 0 }
    }

    /// Charges the tokens of a text, once its version comments are opened (TEXT-1). Returns the
    /// most tokens that the text can have; zero for a text that is not charged.
    ///
    /// # Errors
    /// 1041 if they do not fit the budget.
    pub(super) fn admit_text(&mut self, sql: &str, mode: TextMode) -> Result<usize> {
        let Some(budget) = &self.budget else { return Ok(0) };
        let count = tokens_in(sql, mode);
        self.tokens = count * TOKEN_BYTES + COPIES * sql.len();
        self.charge = Some(budget.try_charge(Use::Connections, self.tokens)?);
        Ok(count)
    }

    /// Charges the tree of one of the text's statements (TEXT-1).
    ///
    /// # Errors
    /// 1041 if it does not fit the budget.
    pub(super) fn admit_tree(&mut self, tokens: &[Token]) -> Result<()> {
        if let Some(charge) = &mut self.charge {
            charge.try_resize(self.tokens + tree_of(tokens))?;
        }
        Ok(())
    }

    /// The charge for a statement that is kept. It covers the plan, and the tree, whose lists no
    /// longer grow.
    pub(crate) fn kept(self) -> Option<Charge> {
        let mut charge = self.charge?;
        charge.resize((charge.bytes() - self.tokens) / (GROWN + 1) * GROWN);
        Some(charge)
    }
}

/// The most tokens that a text may have, once its version comments are opened.
fn tokens_in(sql: &str, mode: TextMode) -> usize {
    let bytes = sql.as_bytes();
    let (mut at, mut count) = (0, 0);
    while let Some(&byte) = bytes.get(at) {
        let rest = &bytes[at..];
        count += 1;
        at += match byte {
            b'\'' | b'"' | b'`' => {
                let name = byte == b'`' || byte == b'"' && mode.ansi_quotes;
                quoted(rest, byte, !name && !mode.no_backslash_escapes)
            }
            // After these characters, the sign may belong to an operator instead of beginning a
            // comment. Then each byte after it may be a token.
            _ if at > 0
                && b"|@~<>#&!?:^%-".contains(&bytes[at - 1])
                && [&b"#"[..], b"--", b"/*"].iter().any(|begin| rest.starts_with(begin)) =>
            {
                return count + rest.len();
            }
            b'#' => line(rest),
            b'-' if super::text::is_line_comment(rest) => {
                // If the text ends here, these are two signs.
                count += 1;
                line(rest)
            }
            b'/' if rest.starts_with(b"/*") => {
                super::text::find(&rest[2..], b"*/").map_or(rest.len(), |end| end + 4)
            }
            // These bytes begin characters that may be white space.
            0xC2 | 0xE1..=0xE3 => 1,
            byte if is_word(byte) => {
                let word = rest.iter().take_while(|byte| is_word(**byte));
                let (mut len, mut parts) = (0, usize::from(byte.is_ascii_digit()));
                for byte in word {
                    len += 1;
                    parts += 2 * usize::from(*byte == b'$');
                }
                // A number may end within a word, and a `$` may begin a token.
                count += parts;
                len
            }
            _ => 1,
        };
    }
    count
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'_' | b'$' | 0x80..) && !matches!(byte, 0xC2 | 0xE1..=0xE3)
}

/// The number of bytes of a quoted text or name.
fn quoted(rest: &[u8], quote: u8, backslash: bool) -> usize {
    let mut at = 1;
    while let Some(&byte) = rest.get(at) {
        at += 1;
        if byte == quote {
            break;
        }
        if byte == b'\\' && backslash {
            at += 1;
        }
    }
    at
}

fn line(rest: &[u8]) -> usize {
    rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |end| end + 1)
}

/// The memory of an element of a list after this keyword.
fn element_of(keyword: Keyword) -> Option<usize> {
    Some(match keyword {
        Keyword::FROM | Keyword::USING => size_of::<ast::TableWithJoins>(),
        // The commas of an UPDATE become joins.
        Keyword::UPDATE => size_of::<ast::Join>(),
        Keyword::INTO => size_of::<ast::TableWithJoins>(),
        Keyword::SELECT | Keyword::RETURNING | Keyword::DISTINCT => size_of::<ast::SelectItem>(),
        Keyword::BY => size_of::<ast::OrderByExpr>(),
        Keyword::WHERE | Keyword::HAVING | Keyword::SET | Keyword::VALUES | Keyword::LIMIT => EXPR,
        Keyword::WITH => size_of::<ast::Cte>(),
        _ => return None,
    })
}

/// The memory of the nodes that begin with a word, in addition to the element of its list.
fn word_bytes(keyword: Keyword) -> usize {
    match keyword {
        Keyword::SELECT | Keyword::VALUES | Keyword::TABLE | Keyword::FROM => SELECT,
        Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT | Keyword::MINUS => SET_OPERATION,
        Keyword::JOIN | Keyword::STRAIGHT_JOIN | Keyword::APPLY => JOIN,
        Keyword::CASE => FIRST * size_of::<ast::CaseWhen>() + EXPR,
        Keyword::WHEN => GROWN * size_of::<ast::CaseWhen>(),
        Keyword::BETWEEN => 3 * EXPR,
        Keyword::AND | Keyword::OR | Keyword::XOR | Keyword::LIKE | Keyword::REGEXP => 2 * EXPR,
        Keyword::DIV | Keyword::MOD | Keyword::RLIKE => 2 * EXPR,
        Keyword::IN | Keyword::IS | Keyword::NOT | Keyword::COLLATE | Keyword::OVER => 2 * EXPR,
        Keyword::BY | Keyword::WHERE | Keyword::NULL | Keyword::AS | Keyword::ON => 16,
        Keyword::THEN | Keyword::ELSE | Keyword::END => EXPR,
        _ => NAME + EXPR / 2,
    }
}

fn is_word_of(token: &Token, keyword: Keyword) -> bool {
    matches!(token, Token::Word(word) if word.keyword == keyword && word.quote_style.is_none())
}

/// The memory of an element of the list in brackets after a word. `defines` tells whether the word
/// is in the definition of a table.
fn in_brackets(word: &Word, defines: bool) -> usize {
    let keyword = if word.quote_style.is_some() { Keyword::NoKeyword } else { word.keyword };
    match keyword {
        Keyword::IN | Keyword::AND | Keyword::OR | Keyword::NOT | Keyword::ON | Keyword::AS => EXPR,
        Keyword::ENUM | Keyword::SET if defines => EXPR,
        keyword if element_of(keyword).is_some() => EXPR,
        // The columns of a key.
        _ if defines => size_of::<ast::IndexColumn>(),
        _ => size_of::<ast::FunctionArg>(),
    }
}

/// The most memory that the tree of a statement's tokens takes while it is built (TEXT-2).
fn tree_of(tokens: &[Token]) -> usize {
    let defines = matches!(tokens.first(), Some(Token::Word(word))
        if matches!(word.keyword, Keyword::CREATE | Keyword::ALTER));
    let is_table = defines
        && tokens.iter().take(3).any(|token| is_word_of(token, Keyword::TABLE))
        && !is_word_of(&tokens[0], Keyword::ALTER);
    let mut outer: Vec<usize> = Vec::new();
    // A statement that does not begin with a list begins with names.
    let mut element = EXPR;
    let (mut bytes, mut lists) = (size_of::<ast::Statement>() + SELECT, 0);
    let mut before: Option<&Token> = None;
    for token in tokens {
        match token {
            Token::Whitespace(_) => continue,
            Token::Word(word) => {
                let keyword =
                    if word.quote_style.is_some() { Keyword::NoKeyword } else { word.keyword };
                element = element_of(keyword).unwrap_or(element);
                bytes += word_bytes(keyword) + word.value.len();
            }
            Token::Comma => lists += element,
            Token::LParen | Token::LBracket | Token::LBrace => {
                outer.push(element);
                element = match before {
                    // The columns and keys of a table.
                    _ if defines && outer.len() == 1 && is_table => DEFINITION,
                    Some(Token::Word(word)) => in_brackets(word, defines),
                    _ => EXPR,
                };
                bytes += FIRST * element + EXPR;
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                // Empty brackets are no list, but the call before them remains.
                element = outer.pop().unwrap_or(EXPR);
            }
            Token::Number(text, _) => bytes += 16 + text.len(),
            Token::SingleQuotedString(text)
            | Token::DoubleQuotedString(text)
            | Token::HexStringLiteral(text)
            | Token::NationalStringLiteral(text)
            | Token::Placeholder(text) => bytes += 16 + text.len(),
            Token::Period => bytes += EXPR,
            _ => bytes += 2 * EXPR + EXPR / 2,
        }
        before = Some(token);
    }
    // At any time, only one list is being copied to a larger allocation.
    bytes + lists * (GROWN + 1)
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
