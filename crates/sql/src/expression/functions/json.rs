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
///
/// # Errors
/// 3158 for a name that is NULL.
pub(super) fn json_of(call: Scalar, args: &[Value]) -> Result<String> {
    if call == Scalar::JsonArray {
        return Ok(format!("[{}]", args.iter().map(text).collect::<Vec<_>>().join(", ")));
    }
    let parts = args.chunks(2).map(|pair| {
        if pair[0].is_null() {
            return Err(SqlError::new(3158, "JSON documents may not contain NULL member names."));
        }
        let key = serde_json::to_string(&text(&pair[0])).unwrap_or_default();
        Ok(format!("{key}: {}", pair.get(1).map_or("null".into(), text)))
    });
    Ok(format!("{{{}}}", parts.collect::<Result<Vec<_>>>()?.join(", ")))
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
            let paths = &args[1..];
            let found = paths.iter().map(|path| found_at(&document, &text(path)));
            let found: Vec<_> = found.filter_map(Result::transpose).collect::<Result<_>>()?;
            match found.as_slice() {
                [] => Value::Null,
                [only] if paths.len() == 1 => Value::Text(written(only)),
                all => {
                    let all: Vec<String> = all.iter().map(|value| written(value)).collect();
                    Value::Text(format!("[{}]", all.join(", ")))
                }
            }
        }
        other => return Err(SqlError::unsupported(other.name())),
    })
}

/// The value at a path into a document, if there is one.
fn found_at<'d>(
    document: &'d serde_json::Value,
    path: &str,
) -> Result<Option<&'d serde_json::Value>> {
    let mut at = Some(document);
    for step in path_steps(path)? {
        at = at.and_then(|at| match &step {
            PathStep::Cell(index) if at.is_array() => at.get(*index),
            // A value that is no array is the only cell of one.
            PathStep::Cell(index) => (*index == 0).then_some(at),
            PathStep::Member(name) if at.is_object() => at.get(name),
            PathStep::Member(_) => None,
        });
    }
    Ok(at)
}

/// A step of a path into a document.
#[derive(Debug, PartialEq)]
enum PathStep {
    Member(String),
    Cell(usize),
}

/// The steps of a path such as `$.a[0]."b c"`.
fn path_steps(path: &str) -> Result<Vec<PathStep>> {
    let wrong = |rest: &str| {
        let at = path.chars().count() - rest.chars().count();
        let text =
            format!("Invalid JSON path expression. The error is around character position {at}.");
        SqlError::new(3143, text)
    };
    let mut rest = path.trim().strip_prefix('$').ok_or_else(|| wrong(path))?.trim_start();
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if rest.contains('*') && !rest.contains('"') {
            return Err(SqlError::unsupported("a wildcard in a JSON path"));
        }
        if let Some(cell) = rest.strip_prefix('[') {
            let (index, after) = cell.split_once(']').ok_or_else(|| wrong(cell))?;
            steps.push(PathStep::Cell(index.trim().parse().map_err(|_| wrong(cell))?));
            rest = after.trim_start();
            continue;
        }
        let name = rest.strip_prefix('.').ok_or_else(|| wrong(rest))?.trim_start();
        let mut quoted = serde_json::Deserializer::from_str(name).into_iter::<String>();
        let (member, len) = if name.starts_with('"') {
            let member = quoted.next().and_then(|member| member.ok()).ok_or_else(|| wrong(name))?;
            (member, quoted.byte_offset())
        } else {
            let is_end = |c: char| !(c.is_alphanumeric() || matches!(c, '_' | '$'));
            let len = name.find(is_end).unwrap_or(name.len());
            if len == 0 || name.starts_with(|c: char| c.is_ascii_digit()) {
                return Err(wrong(name));
            }
            (name[..len].to_owned(), len)
        };
        steps.push(PathStep::Member(member));
        rest = name[len..].trim_start();
    }
    Ok(steps)
}

/// A document as MySQL writes it: a space behind commas and colons, and the shorter names of an
/// object first.
fn written(document: &serde_json::Value) -> String {
    use serde_json::Value as J;
    match document {
        J::Array(cells) => {
            format!("[{}]", cells.iter().map(written).collect::<Vec<_>>().join(", "))
        }
        J::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by_key(|(name, _)| (name.len(), *name));
            let members = members.into_iter().map(|(name, member)| {
                let name = serde_json::to_string(name).unwrap_or_default();
                format!("{name}: {}", written(member))
            });
            format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_read_in_steps() {
        let member = |name: &str| PathStep::Member(name.to_owned());
        let steps = |path: &str| path_steps(path).map_err(|error| error.code);
        assert_eq!(steps("$"), Ok(vec![]));
        let path = r#" $ .a [0][ 12 ]."b \u00e9.c".$d1"#;
        let all =
            [member("a"), PathStep::Cell(0), PathStep::Cell(12), member("b é.c"), member("$d1")];
        assert_eq!(steps(path), Ok(all.into()));
        for wrong in ["", "a", "$a", "$.", "$.1", "$[", "$[x]", "$[-1]", "$.\"a", "$..a", "$.a b"] {
            assert_eq!(steps(wrong), Err(3143), "{wrong}");
        }
        assert_eq!(steps("$.*"), Err(1235));
    }
}
