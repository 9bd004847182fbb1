//! `sqlparser`'s MySQL dialect, with the operator precedences of MySQL's grammar.
//!
//! From the loosest to the tightest: `:=`; OR; XOR; AND; NOT; comparisons and IS; BETWEEN, IN, LIKE
//! and REGEXP; `|`; `&`; shifts; `+ -`; `* / % DIV MOD`; `^`; unary `- ~`; `!`. `sqlparser`'s own
//! MySQL dialect has other precedences for `^`, shifts, XOR, `&&` and LIKE, and reads everything
//! after DIV as one expression. With that dialect, statements would silently compute other results
//! than in MySQL.

use std::any::TypeId;

use sqlparser::ast::{BinaryOperator, CastKind, DataType, Expr, Statement, UnaryOperator};
use sqlparser::dialect::{Dialect, MySqlDialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use super::depth::Depth;

const ASSIGN: u8 = 1;
const OR: u8 = 5;
const XOR: u8 = 7;
const AND: u8 = 10;
const NOT: u8 = 15;
const COMPARE: u8 = 20;
const PREDICATE: u8 = 21;
const BIT_OR: u8 = 23;
const BIT_AND: u8 = 25;
const SHIFT: u8 = 27;
const SUM: u8 = 30;
const PRODUCT: u8 = 40;
const BIT_XOR: u8 = 45;
/// `||` with PIPES_AS_CONCAT.
const CONCAT: u8 = 46;
const UNARY: u8 = 47;
const BANG: u8 = 48;
const ARROW: u8 = 49;

const INNER: MySqlDialect = MySqlDialect {};

/// Limits how often the parser may begin an expression while it parses a text.
///
/// The parser tries one interpretation of a word and, if that fails, another; within each
/// interpretation it does the same. So if n levels enclose an error, it would read the innermost
/// level 2^n times. Valid texts are read once or a few times.
pub(super) mod steps {
    use std::cell::Cell;

    /// The steps for each token, and the steps for the whole text in addition to these.
    const PER_TOKEN: usize = 50;
    const MORE: usize = 20_000;

    thread_local! {
        static LEFT: Cell<usize> = const { Cell::new(0) };
    }

    /// Starts parsing `tokens` tokens.
    pub(in crate::parser) fn begin(tokens: usize) {
        LEFT.set(tokens.saturating_mul(PER_TOKEN).saturating_add(MORE));
    }

    /// Takes one step. Returns `false` if none is left.
    pub(super) fn take() -> bool {
        let left = LEFT.get();
        LEFT.set(left.saturating_sub(1));
        left > 0
    }
}

/// MySQL's dialect for the parser; see the module.
#[derive(Debug)]
pub(super) struct Dialects {
    /// Whether a backslash in a string literal escapes the next character.
    pub(super) backslash: bool,
    /// Whether `"a"` is a name and not a string literal.
    pub(super) ansi_quotes: bool,
}

/// The dialect for parsing tokens. Their string literals are resolved already, so the escapes no
/// longer matter.
pub(super) static DIALECT: Dialects = Dialects { backslash: true, ansi_quotes: false };

fn is_word(token: &Token, keyword: Keyword) -> bool {
    matches!(token, Token::Word(word) if word.keyword == keyword && word.quote_style.is_none())
}

impl Dialect for Dialects {
    fn dialect(&self) -> TypeId {
        TypeId::of::<MySqlDialect>()
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        INNER.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        INNER.is_identifier_part(ch)
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        INNER.is_delimited_identifier_start(ch) || (ch == '"' && self.ansi_quotes)
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        INNER.identifier_quote_style(identifier)
    }

    fn supports_string_literal_backslash_escape(&self) -> bool {
        self.backslash
    }

    /// Version comments are opened before parsing, according to their versions (`text`).
    fn supports_multiline_comment_hints(&self) -> bool {
        false
    }

    fn supports_string_literal_concatenation(&self) -> bool {
        INNER.supports_string_literal_concatenation()
    }

    fn ignores_wildcard_escapes(&self) -> bool {
        INNER.ignores_wildcard_escapes()
    }

    fn supports_numeric_prefix(&self) -> bool {
        INNER.supports_numeric_prefix()
    }

    fn supports_bitwise_shift_operators(&self) -> bool {
        INNER.supports_bitwise_shift_operators()
    }

    fn require_interval_qualifier(&self) -> bool {
        INNER.require_interval_qualifier()
    }

    fn supports_limit_comma(&self) -> bool {
        INNER.supports_limit_comma()
    }

    fn supports_create_table_select(&self) -> bool {
        INNER.supports_create_table_select()
    }

    fn supports_insert_set(&self) -> bool {
        INNER.supports_insert_set()
    }

    fn supports_user_host_grantee(&self) -> bool {
        INNER.supports_user_host_grantee()
    }

    /// These begin the clause behind a SELECT without a table.
    fn is_column_alias(&self, kw: &Keyword, parser: &mut Parser<'_>) -> bool {
        !matches!(kw, Keyword::ON | Keyword::FOR) && INNER.is_column_alias(kw, parser)
    }

    fn is_table_factor_alias(&self, explicit: bool, kw: &Keyword, parser: &mut Parser<'_>) -> bool {
        INNER.is_table_factor_alias(explicit, kw, parser)
    }

    fn supports_table_hints(&self) -> bool {
        INNER.supports_table_hints()
    }

    fn requires_single_line_comment_whitespace(&self) -> bool {
        INNER.requires_single_line_comment_whitespace()
    }

    fn supports_match_against(&self) -> bool {
        INNER.supports_match_against()
    }

    fn supports_select_modifiers(&self) -> bool {
        INNER.supports_select_modifiers()
    }

    fn supports_set_names(&self) -> bool {
        INNER.supports_set_names()
    }

    fn supports_comma_separated_set_assignments(&self) -> bool {
        INNER.supports_comma_separated_set_assignments()
    }

    fn supports_update_order_by(&self) -> bool {
        INNER.supports_update_order_by()
    }

    fn supports_data_type_signed_suffix(&self) -> bool {
        INNER.supports_data_type_signed_suffix()
    }

    fn supports_cross_join_constraint(&self) -> bool {
        INNER.supports_cross_join_constraint()
    }

    fn supports_double_ampersand_operator(&self) -> bool {
        INNER.supports_double_ampersand_operator()
    }

    fn supports_binary_kw_as_cast(&self) -> bool {
        INNER.supports_binary_kw_as_cast()
    }

    fn supports_comment_optimizer_hint(&self) -> bool {
        INNER.supports_comment_optimizer_hint()
    }

    fn supports_constraint_keyword_without_name(&self) -> bool {
        INNER.supports_constraint_keyword_without_name()
    }

    /// Such a clause is parsed only in order to be refused by its name.
    fn supports_group_by_with_modifier(&self) -> bool {
        true
    }

    fn supports_key_column_option(&self) -> bool {
        INNER.supports_key_column_option()
    }

    fn parse_statement(&self, parser: &mut Parser<'_>) -> Option<Result<Statement, ParserError>> {
        INNER.parse_statement(parser)
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        match precedence {
            Precedence::Xor => XOR,
            Precedence::Ampersand => BIT_AND,
            Precedence::Caret => BIT_XOR,
            Precedence::Pipe | Precedence::Colon => BIT_OR,
            Precedence::Between | Precedence::Like => PREDICATE,
            Precedence::Eq | Precedence::Is => COMPARE,
            Precedence::UnaryNot => NOT,
            Precedence::And => AND,
            Precedence::Or => OR,
            Precedence::PlusMinus => SUM,
            Precedence::MulDivModOp => PRODUCT,
            Precedence::PgOther => ARROW,
            Precedence::AtTz => 55,
            Precedence::DoubleColon => 60,
            Precedence::Period => 100,
        }
    }

    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        let token = &parser.peek_token_ref().token;
        Some(Ok(match token {
            Token::Assignment => ASSIGN,
            Token::Overlap => AND,
            Token::ShiftLeft | Token::ShiftRight => SHIFT,
            Token::StringConcat => CONCAT,
            token if is_word(token, Keyword::MOD) => PRODUCT,
            _ => return None,
        }))
    }

    fn parse_infix(
        &self,
        parser: &mut Parser<'_>,
        left: &Expr,
        precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        let token = &parser.peek_token_ref().token;
        let (op, precedence) = if is_word(token, Keyword::DIV) {
            (BinaryOperator::MyIntegerDivide, precedence)
        } else if is_word(token, Keyword::MOD) {
            (BinaryOperator::Modulo, precedence)
        } else if *token == Token::Assignment {
            // Right-associative: `@a := @b := 1`.
            (BinaryOperator::Assignment, ASSIGN - 1)
        } else {
            return None;
        };
        // The copy made below is as deep as its original, so limit the depth first (DEPTH-1).
        if Depth::of(left).is_err() {
            return Some(Err(ParserError::RecursionLimitExceeded));
        }
        parser.next_token();
        let right = parser.parse_subexpr(precedence);
        Some(right.map(|right| Expr::BinaryOp {
            left: Box::new(left.clone()),
            op,
            right: Box::new(right),
        }))
    }

    /// These words are no names. If they were, the parser would take such a word as a name after it
    /// has failed to parse what follows the word.
    fn is_reserved_for_identifier(&self, keyword: Keyword) -> bool {
        matches!(
            keyword,
            Keyword::CASE | Keyword::CONVERT | Keyword::EXISTS | Keyword::MATCH | Keyword::NOT
        ) || INNER.is_reserved_for_identifier(keyword)
    }

    fn parse_prefix(&self, parser: &mut Parser<'_>) -> Option<Result<Expr, ParserError>> {
        if !steps::take() {
            return Some(Err(ParserError::RecursionLimitExceeded));
        }
        let token = &parser.peek_token_ref().token;
        let (op, precedence) = match token {
            Token::Minus => (UnaryOperator::Minus, UNARY),
            Token::Plus => (UnaryOperator::Plus, UNARY),
            Token::Tilde => (UnaryOperator::BitwiseNot, UNARY),
            Token::ExclamationMark => (UnaryOperator::BangNot, BANG),
            Token::DoubleExclamationMark => {
                parser.next_token();
                let twice = |expr| bang(bang(expr));
                return Some(parser.parse_subexpr(BANG).map(twice));
            }
            token if is_word(token, Keyword::INTERVAL) => {
                let is_right =
                    matches!(parser.get_current_token().token, Token::Plus | Token::Minus);
                parser.next_token();
                return Some(super::interval::interval(parser, (!is_right).then_some(AND)));
            }
            token
                if is_word(token, Keyword::EXTRACT)
                    && parser.peek_nth_token_ref(1).token == Token::LParen =>
            {
                parser.next_token();
                return Some(super::interval::extract(parser));
            }
            token if is_word(token, Keyword::BINARY) => {
                parser.next_token();
                return Some(parser.parse_subexpr(BANG).map(as_binary));
            }
            _ => return None,
        };
        parser.next_token();
        let operand = if is_word(&parser.peek_token_ref().token, Keyword::INTERVAL) {
            parser.next_token();
            super::interval::interval(parser, Some(AND))
        } else {
            parser.parse_subexpr(precedence)
        };
        Some(operand.map(|expr| Expr::UnaryOp { op, expr: Box::new(expr) }))
    }
}

fn bang(expr: Expr) -> Expr {
    Expr::UnaryOp { op: UnaryOperator::BangNot, expr: Box::new(expr) }
}

fn as_binary(expr: Expr) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(expr),
        data_type: DataType::Binary(None),
        array: false,
        format: None,
    }
}
