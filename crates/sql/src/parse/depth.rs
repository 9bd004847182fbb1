//! How deep a statement's expressions are, before they are parsed.
//!
//! The parser follows a chain of operators in a loop and bounds the nesting itself, but what it makes of `1 + 1 + 1 ...` is a tree
//! as deep as the chain is long. Everything that walks the tree does so by recursion, to its very freeing. So the depth is known
//! from the tokens first: a deep statement runs on a stack of its own, and one too deep is refused.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::Token;

use crate::errors::{Result, SqlError};

/// The deepest expression, in operators that stand within each other.
const DEPTH_MAX: usize = 3000;

/// What the usual stack of a thread is enough for.
const DEPTH_USUAL: usize = 100;

/// The stack of a deep statement, in bytes. Only what is used of it takes memory.
const STACK_BYTES: usize = 256 << 20;

/// The chains that are open within one parenthesis. Each part hangs on all that bind looser: `a + 1 OR b + 1 OR ...` is as deep as
/// it has OR, and one sum.
#[derive(Clone, Copy, Default)]
struct Chains {
    /// Set operations.
    sets: usize,
    /// AND, OR, XOR.
    loose: usize,
    /// Every other operator.
    tight: usize,
}

impl Chains {
    fn sum(self) -> usize {
        self.sets + self.loose + self.tight
    }

    fn next_query(&mut self) {
        *self = Chains { sets: self.sets, ..Chains::default() };
    }
}

/// The longest way from a statement's root to one of its leaves, at most.
fn depth(tokens: &[Token]) -> usize {
    let mut outer: Vec<Chains> = Vec::new();
    let mut open = Chains::default();
    let (mut around, mut deepest) = (0, 0);
    for token in tokens {
        match token {
            Token::LParen => {
                around += open.sum() + 1;
                outer.push(std::mem::take(&mut open));
            }
            Token::RParen => {
                // One that closes nothing is the parser's to refuse.
                let Some(before) = outer.pop() else { return deepest };
                open = before;
                around -= open.sum() + 1;
            }
            Token::Comma => open.next_query(),
            Token::Word(word) if word.quote_style.is_none() => match word.keyword {
                Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT | Keyword::MINUS => {
                    open.sets += 1;
                    open.next_query();
                }
                Keyword::SELECT
                | Keyword::FROM
                | Keyword::WHERE
                | Keyword::HAVING
                | Keyword::LIMIT
                | Keyword::SET
                | Keyword::VALUES => open.next_query(),
                Keyword::AND | Keyword::OR | Keyword::XOR => {
                    open.loose += 1;
                    open.tight = 0;
                }
                Keyword::NOT
                | Keyword::IS
                | Keyword::IN
                | Keyword::LIKE
                | Keyword::BETWEEN
                | Keyword::REGEXP
                | Keyword::RLIKE
                | Keyword::DIV
                | Keyword::MOD
                | Keyword::COLLATE
                | Keyword::BINARY
                | Keyword::CASE
                | Keyword::INTERVAL
                | Keyword::JOIN => open.tight += 1,
                _ => {}
            },
            Token::Overlap => {
                open.loose += 1;
                open.tight = 0;
            }
            Token::Word(_)
            | Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::DoubleQuotedString(_)
            | Token::HexStringLiteral(_)
            | Token::Placeholder(_)
            | Token::Period
            | Token::Whitespace(_) => {}
            // Every sign may be an operator.
            _ => open.tight += 1,
        }
        deepest = deepest.max(around + open.sum());
    }
    deepest
}

/// How deep a statement is.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Depth(usize);

impl Depth {
    /// # Errors
    /// 1436 for one too deep.
    pub(crate) fn of(tokens: &[Token]) -> Result<Depth> {
        match depth(tokens) {
            depth @ 0..=DEPTH_MAX => Ok(Depth(depth)),
            deep => Err(SqlError::new(
                1436,
                format!("Thread stack overrun: an expression {deep} deep; {DEPTH_MAX} is the most"),
            )),
        }
    }

    /// Whether it needs a stack of its own.
    pub(crate) fn is_deep(self) -> bool {
        self.0 > DEPTH_USUAL
    }

    /// Runs what a statement needs, on a stack that is large enough for it.
    pub(crate) fn run<T>(self, body: impl FnOnce() -> T) -> T {
        if self.is_deep() { stacker::grow(STACK_BYTES, body) } else { body() }
    }
}
