//! Converts literals to values.

use spillway_types::{Decimal, Value};
use sqlparser::ast;

use crate::errors::{Result, SqlError};
use crate::parser::{bytes_of_bits, unhex};

/// The value of a literal.
pub(crate) fn literal(value: &ast::Value) -> Result<Value> {
    use ast::Value as V;
    Ok(match value {
        V::Number(text, _) => number_literal(text)?,
        V::SingleQuotedString(text)
        | V::DoubleQuotedString(text)
        | V::NationalStringLiteral(text)
        | V::EscapedStringLiteral(text) => Value::Text(text.clone()),
        V::SingleQuotedByteStringLiteral(text) | V::DoubleQuotedByteStringLiteral(text) => {
            let bytes = bytes_of_bits(text);
            bytes.map(Value::Bytes).ok_or_else(|| SqlError::syntax(format!("near b'{text}'")))?
        }
        V::HexStringLiteral(text) => Value::Bytes(unhex(text)),
        V::Boolean(truth) => Value::from(*truth),
        V::Null => Value::Null,
        other => return Err(SqlError::unsupported(other)),
    })
}

fn number_literal(text: &str) -> Result<Value> {
    if text.contains(['e', 'E']) {
        let number: f64 = text.parse().map_err(|_| SqlError::syntax(format!("near '{text}'")))?;
        if !number.is_finite() {
            return Err(SqlError::new(
                1367,
                format!("Illegal double '{text}' value found during parsing"),
            ));
        }
        return Ok(Value::Double(number));
    }
    if !text.contains('.') {
        if let Ok(number) = text.parse::<i64>() {
            return Ok(Value::Int(number));
        }
        if let Ok(number) = text.parse::<u64>() {
            return Ok(Value::UInt(number));
        }
    }
    Decimal::parse(text)
        .map(Value::Decimal)
        .ok_or_else(|| SqlError::syntax(format!("near '{text}'")))
}

/// The number of fractional digits of the seconds in a literal.
pub(super) fn fraction_digits(text: &str) -> u8 {
    text.rsplit_once('.').map_or(0, |(_, digits)| digits.trim_end().len().min(6) as u8)
}
