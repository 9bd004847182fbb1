//! INTERVAL and EXTRACT with all of MySQL's units, and the function INTERVAL.

use sqlparser::ast::{
    BinaryOperator, DateTimeField, Expr, ExtractSyntax, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, Ident, Interval, ObjectName,
};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

const UNITS: &[&str] = &[
    "MICROSECOND",
    "SECOND",
    "MINUTE",
    "HOUR",
    "DAY",
    "WEEK",
    "MONTH",
    "QUARTER",
    "YEAR",
    "SECOND_MICROSECOND",
    "MINUTE_MICROSECOND",
    "MINUTE_SECOND",
    "HOUR_MICROSECOND",
    "HOUR_SECOND",
    "HOUR_MINUTE",
    "DAY_MICROSECOND",
    "DAY_SECOND",
    "DAY_MINUTE",
    "DAY_HOUR",
    "YEAR_MONTH",
];

fn unit(parser: &mut Parser<'_>) -> Result<DateTimeField, ParserError> {
    let token = parser.next_token();
    let Token::Word(word) = &token.token else { return parser.expected("a unit of time", token) };
    match unit_named(&word.value).filter(|_| word.quote_style.is_none()) {
        Some(unit) => Ok(DateTimeField::Custom(Ident::new(unit))),
        None => parser.expected("a unit of time", token),
    }
}

/// The unit that a word names, perhaps with ODBC's prefix.
pub(crate) fn unit_named(word: &str) -> Option<&'static str> {
    let word = word.to_ascii_uppercase();
    let bare = word.strip_prefix("SQL_TSI_");
    let unit = UNITS.iter().find(|unit| **unit == bare.unwrap_or(&word))?;
    // ODBC has only the units that are single and no fractions of a second.
    let odbc = !unit.contains('_') && *unit != "MICROSECOND";
    (bare.is_none() || odbc).then_some(unit)
}

/// Parses the text after INTERVAL: an amount and its unit, or the function's arguments.
///
/// If the interval is a left operand, `sum` is the precedence of what ends its sum, and the right
/// operand is parsed, too. As in MySQL, `INTERVAL 1 DAY + a > b` adds to `a > b`.
pub(super) fn interval(parser: &mut Parser<'_>, sum: Option<u8>) -> Result<Expr, ParserError> {
    let list = parser.maybe_parse(|parser| {
        parser.expect_token(&Token::LParen)?;
        let list = parser.parse_comma_separated(Parser::parse_expr)?;
        parser.expect_token(&Token::RParen)?;
        if list.len() < 2 {
            return Err(ParserError::ParserError("an amount".to_owned()));
        }
        Ok(list)
    })?;
    if let Some(list) = list {
        let args = list.into_iter().map(|e| FunctionArg::Unnamed(FunctionArgExpr::Expr(e)));
        return Ok(Expr::Function(Function {
            name: ObjectName::from(vec![Ident::new("INTERVAL")]),
            uses_odbc_syntax: false,
            parameters: FunctionArguments::None,
            args: FunctionArguments::List(FunctionArgumentList {
                duplicate_treatment: None,
                args: args.collect(),
                clauses: Vec::new(),
            }),
            filter: None,
            null_treatment: None,
            over: None,
            within_group: Vec::new(),
        }));
    }
    let value = Box::new(parser.parse_expr()?);
    let interval = Expr::Interval(Interval {
        value,
        leading_field: Some(unit(parser)?),
        leading_precision: None,
        last_field: None,
        fractional_seconds_precision: None,
    });
    match sum.filter(|_| parser.consume_token(&Token::Plus)) {
        None => Ok(interval),
        Some(sum) => Ok(Expr::BinaryOp {
            left: Box::new(interval),
            op: BinaryOperator::Plus,
            right: Box::new(parser.parse_subexpr(sum)?),
        }),
    }
}

/// Parses the text after EXTRACT.
pub(super) fn extract(parser: &mut Parser<'_>) -> Result<Expr, ParserError> {
    parser.expect_token(&Token::LParen)?;
    let field = unit(parser)?;
    parser.expect_keyword(Keyword::FROM)?;
    let expr = Box::new(parser.parse_expr()?);
    parser.expect_token(&Token::RParen)?;
    Ok(Expr::Extract { field, syntax: ExtractSyntax::From, expr })
}
