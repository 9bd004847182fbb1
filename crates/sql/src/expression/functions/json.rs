//! JSON functions.

use spillway_types::{Collation, ColumnType, Value};

use super::scalar::Scalar;
use crate::errors::{Result, SqlError};
use crate::expression::operands::text;
use crate::expression::{Expr, Typed};

/// The JSON text of a value in an object or an array.
pub(super) fn fragment(call: Scalar, value: &Value) -> String {
    match (call, value) {
        (_, Value::Null) => "null".to_owned(),
        (Scalar::JsonTruth, value) => (text(value) != "0").to_string(),
        (Scalar::JsonNested, value) => text(value),
        (
            _,
            Value::Int(_) | Value::UInt(_) | Value::Float(_) | Value::Double(_) | Value::Decimal(_),
        ) => text(value),
        (_, other) => serde_json::to_string(&text(other)).unwrap_or_default(),
    }
}

/// JSON_OBJECT and JSON_ARRAY, whose arguments are already JSON texts ([`fragment`]).
pub(super) fn json_of(call: Scalar, args: &[Value]) -> String {
    if call == Scalar::JsonArray {
        return format!("[{}]", args.iter().map(text).collect::<Vec<_>>().join(", "));
    }
    let parts = args.chunks(2).map(|pair| {
        let key = serde_json::to_string(&text(&pair[0])).unwrap_or_default();
        format!("{key}: {}", pair.get(1).map_or("null".into(), text))
    });
    format!("{{{}}}", parts.collect::<Vec<_>>().join(", "))
}

/// Converts the arguments of JSON_OBJECT and JSON_ARRAY to JSON. Truth values become `true` and
/// `false`, and JSON values are nested.
pub(super) fn nested(call: Scalar, args: Vec<Typed>) -> Vec<Typed> {
    let is_key = |at: usize| call == Scalar::JsonObject && at.is_multiple_of(2);
    let made = |(at, arg): (usize, Typed)| {
        if is_key(at) {
            return arg;
        }
        let how = match &arg {
            arg if arg.expr.is_truth() => Scalar::JsonTruth,
            arg if arg.ty == ColumnType::Json || gives_json(&arg.expr) => Scalar::JsonNested,
            _ => Scalar::JsonValue,
        };
        Typed { expr: Expr::Call(how, vec![arg.expr], Collation::Binary), ..arg }
    };
    args.into_iter().enumerate().map(made).collect()
}

/// Whether a function returns JSON.
fn gives_json(expr: &Expr) -> bool {
    use Scalar as S;
    matches!(expr, Expr::Call(S::JsonObject | S::JsonArray | S::JsonExtract, ..))
}

pub(super) fn json_function(call: Scalar, args: &[Value]) -> Result<Value> {
    use Scalar as S;
    let first = || text(&args[0]);
    Ok(match call {
        S::JsonValid => Value::from(serde_json::from_str::<serde_json::Value>(&first()).is_ok()),
        S::JsonUnquote => {
            let shown = first();
            Value::Text(serde_json::from_str::<String>(&shown).unwrap_or(shown))
        }
        S::JsonExtract => {
            let document: serde_json::Value = serde_json::from_str(&first()).map_err(|_| {
                SqlError::new(3141, "Invalid JSON text in argument 1 to function json_extract")
            })?;
            let path = text(&args[1]);
            let mut at = Some(&document);
            for step in
                path.trim_start_matches('$').split(['.', '[']).filter(|step| !step.is_empty())
            {
                let step = step.trim_end_matches(']').trim_matches('"');
                at = at.and_then(|at| match step.parse::<usize>() {
                    Ok(index) if at.is_array() => at.get(index),
                    _ => at.get(step),
                });
            }
            at.map_or(Value::Null, |at| Value::Text(at.to_string()))
        }
        other => return Err(SqlError::unsupported(other.name())),
    })
}
