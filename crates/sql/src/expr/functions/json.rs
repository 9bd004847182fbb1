//! Functions of JSON.

use spillway_types::Value;

use super::Scalar;
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
