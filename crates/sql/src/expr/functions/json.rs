//! Functions of JSON.

use spillway_types::Value;

use super::Scalar;
use crate::errors::{Result, SqlError};
use crate::expr::eval::text;

pub(super) fn json_of(call: Scalar, args: &[Value]) -> String {
    let json = |value: &Value| match value {
        Value::Null => "null".to_owned(),
        Value::Int(_) | Value::UInt(_) | Value::Double(_) | Value::Decimal(_) => text(value),
        other => serde_json::to_string(&text(other)).unwrap_or_default(),
    };
    if call == Scalar::JsonArray {
        let parts: Vec<String> = args.iter().map(json).collect();
        return format!("[{}]", parts.join(", "));
    }
    let parts: Vec<String> = args
        .chunks(2)
        .map(|pair| {
            let key = serde_json::to_string(&text(&pair[0])).unwrap_or_default();
            format!("{key}: {}", pair.get(1).map_or("null".to_owned(), json))
        })
        .collect();
    format!("{{{}}}", parts.join(", "))
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
