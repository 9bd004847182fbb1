//! JSON functions.

use std::collections::BTreeMap;
use std::fmt::Formatter;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
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
        S::JsonValid => Value::from(is_document(&first())),
        S::JsonUnquote => {
            let shown = first();
            Value::Text(serde_json::from_str::<String>(&shown).unwrap_or(shown))
        }
        S::JsonExtract => {
            let document = first();
            if !is_document(&document) {
                let text = "Invalid JSON text in argument 1 to function json_extract";
                return Err(SqlError::new(3141, text));
            }
            let paths = &args[1..];
            let found = paths.iter().map(|path| {
                let steps = path_steps(&text(path))?;
                let mut reader = serde_json::Deserializer::from_str(&document);
                Ok(Extract(&steps).deserialize(&mut reader).ok().flatten())
            });
            let found: Vec<String> = found.filter_map(Result::transpose).collect::<Result<_>>()?;
            match found.as_slice() {
                [] => Value::Null,
                [only] if paths.len() == 1 => Value::Text(only.clone()),
                all => Value::Text(format!("[{}]", all.join(", "))),
            }
        }
        other => return Err(SqlError::unsupported(other.name())),
    })
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
    let trimmed = path.trim();
    let mut rest = trimmed.strip_prefix('$').ok_or_else(|| wrong(path))?.trim_start();
    // Where the last ones are: to search the rest at each step would take too long.
    let (star, quote) = (trimmed.rfind('*'), trimmed.rfind('"'));
    let mut steps = Vec::new();
    while !rest.is_empty() {
        let begin = Some(trimmed.len() - rest.len());
        if star >= begin && quote < begin {
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

/// Whether a text is a JSON document. A document in memory may take a hundred times the memory of
/// its text; the check takes none.
pub(crate) fn is_document(text: &str) -> bool {
    serde_json::from_str::<Valid>(text).is_ok()
}

/// Any document. Reading it checks what reading into a [`serde_json::Value`] does.
struct Valid;

impl<'de> Deserialize<'de> for Valid {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Valid, D::Error> {
        from.deserialize_any(Valid)
    }
}

impl<'de> Visitor<'de> for Valid {
    type Value = Valid;

    fn expecting(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON document")
    }

    fn visit_unit<E>(self) -> std::result::Result<Valid, E> {
        Ok(Valid)
    }

    fn visit_bool<E>(self, _: bool) -> std::result::Result<Valid, E> {
        Ok(Valid)
    }

    fn visit_i64<E>(self, _: i64) -> std::result::Result<Valid, E> {
        Ok(Valid)
    }

    fn visit_u64<E>(self, _: u64) -> std::result::Result<Valid, E> {
        Ok(Valid)
    }

    fn visit_f64<E>(self, _: f64) -> std::result::Result<Valid, E> {
        Ok(Valid)
    }

    fn visit_str<E>(self, _: &str) -> std::result::Result<Valid, E> {
        Ok(Valid)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut cells: A) -> std::result::Result<Valid, A::Error> {
        while cells.next_element::<Valid>()?.is_some() {}
        Ok(Valid)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> std::result::Result<Valid, A::Error> {
        while members.next_entry::<Valid, Valid>()?.is_some() {}
        Ok(Valid)
    }
}

/// Finds what is at the end of a path in a document, and writes it as MySQL does: a space behind
/// commas and colons, and the shorter names of an object first. Nothing else of the document is in
/// memory.
#[derive(Clone, Copy)]
struct Extract<'p>(&'p [PathStep]);

impl Extract<'_> {
    /// The text at the end, in a value that is neither an array nor an object.
    fn of_scalar(self, written: impl FnOnce() -> String) -> Option<String> {
        // A value that is no array is the only cell of one.
        self.0.iter().all(|step| *step == PathStep::Cell(0)).then(written)
    }
}

impl<'de> DeserializeSeed<'de> for Extract<'_> {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(
        self,
        from: D,
    ) -> std::result::Result<Option<String>, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Extract<'_> {
    type Value = Option<String>;

    fn expecting(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON document")
    }

    fn visit_unit<E>(self) -> std::result::Result<Option<String>, E> {
        Ok(self.of_scalar(|| "null".to_owned()))
    }

    fn visit_bool<E>(self, value: bool) -> std::result::Result<Option<String>, E> {
        Ok(self.of_scalar(|| value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> std::result::Result<Option<String>, E> {
        Ok(self.of_scalar(|| value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> std::result::Result<Option<String>, E> {
        Ok(self.of_scalar(|| value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> std::result::Result<Option<String>, E> {
        Ok(self.of_scalar(|| serde_json::Value::from(value).to_string()))
    }

    fn visit_str<E>(self, value: &str) -> std::result::Result<Option<String>, E> {
        Ok(self.of_scalar(|| serde_json::to_string(value).unwrap_or_default()))
    }

    fn visit_seq<A: SeqAccess<'de>>(
        self,
        mut cells: A,
    ) -> std::result::Result<Option<String>, A::Error> {
        let Some((step, rest)) = self.0.split_first() else {
            let mut out = "[".to_owned();
            while let Some(cell) = cells.next_element_seed(self)? {
                out += if out.len() > 1 { ", " } else { "" };
                out += &cell.unwrap_or_default();
            }
            return Ok(Some(out + "]"));
        };
        let (mut at, mut found) = (0, None);
        loop {
            let more = if *step == PathStep::Cell(at) {
                let cell = cells.next_element_seed(Extract(rest))?;
                let more = cell.is_some();
                found = cell.flatten();
                more
            } else {
                cells.next_element::<Valid>()?.is_some()
            };
            if !more {
                return Ok(found);
            }
            at += 1;
        }
    }

    fn visit_map<A: MapAccess<'de>>(
        self,
        mut members: A,
    ) -> std::result::Result<Option<String>, A::Error> {
        match self.0.split_first() {
            Some((PathStep::Cell(0), rest)) => Extract(rest).visit_map(members),
            Some((PathStep::Cell(_), _)) => Valid.visit_map(members).map(|Valid| None),
            Some((PathStep::Member(wanted), rest)) => {
                let mut found = None;
                while let Some(name) = members.next_key::<String>()? {
                    if name == *wanted {
                        // The last member of a name counts.
                        found = members.next_value_seed(Extract(rest))?;
                    } else {
                        members.next_value::<Valid>()?;
                    }
                }
                Ok(found)
            }
            None => {
                let mut written = BTreeMap::new();
                while let Some(name) = members.next_key::<String>()? {
                    let member = members.next_value_seed(self)?.unwrap_or_default();
                    written.insert((name.len(), name), member);
                }
                let member = |((_, name), member): (&(usize, String), &String)| {
                    format!("{}: {member}", serde_json::to_string(name).unwrap_or_default())
                };
                let members: Vec<String> = written.iter().map(member).collect();
                Ok(Some(format!("{{{}}}", members.join(", "))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As by a document in memory.
    fn extracted(document: &str, path: &str) -> Option<String> {
        let document: serde_json::Value = serde_json::from_str(document).unwrap();
        let mut at = Some(&document);
        for step in path_steps(path).unwrap() {
            at = at.and_then(|at| match &step {
                PathStep::Cell(index) if at.is_array() => at.get(*index),
                PathStep::Cell(index) => (*index == 0).then_some(at),
                PathStep::Member(name) if at.is_object() => at.get(name),
                PathStep::Member(_) => None,
            });
        }
        at.map(written)
    }

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
                    format!("{}: {}", serde_json::to_string(name).unwrap(), written(member))
                });
                format!("{{{}}}", members.collect::<Vec<_>>().join(", "))
            }
            other => other.to_string(),
        }
    }

    #[test]
    fn a_path_finds_what_it_finds_in_a_document_in_memory() {
        let documents = [
            "null",
            "true",
            " [ 1 , -2, 3.50, 1e30, 18446744073709551615, \"x\\u00e9\\n\" ] ",
            r#"{"b":{"a":[1,[2,{"a":3}]],"":0},"a":[],"ab":{},"a":{"a":[[4]]}}"#,
            r#"[[{"a":1},{"a":[{"a":2}]}],{"b":{"a":null}},[]]"#,
            "[[],[[]],{}]",
        ];
        let steps = ["", ".a", ".b", ".ab", "[0]", "[1]", "[2]"];
        for document in documents {
            assert!(is_document(document));
            let text = |text: &str| Value::Text(text.to_owned());
            for number in 0..steps.len().pow(4) {
                let step = |at: u32| steps[number / steps.len().pow(at) % steps.len()];
                let path = format!("${}{}{}{}", step(0), step(1), step(2), step(3));
                let args = [text(document), text(&path)];
                let found = json_function(Scalar::JsonExtract, &args).unwrap();
                let found = (!found.is_null()).then(|| found.to_text());
                assert_eq!(found, extracted(document, &path), "{document} {path}");
            }
        }
    }

    #[test]
    fn a_text_is_a_document_if_it_can_be_read_into_memory() {
        let deep = ["[".repeat(127) + &"]".repeat(127), "[".repeat(129) + &"]".repeat(129)];
        let texts = [
            "",
            "1",
            "1 2",
            "[1,]",
            "{",
            "{}",
            "{\"a\":1,\"a\":2}",
            "{1:2}",
            "1e999",
            "01",
            "-",
            "\"",
            "\"\\ud800\"",
            "\"\\x\"",
            "\"\u{1}\"",
            "nul",
            "null ",
            "[1, tru]",
            &deep[0],
            &deep[1],
        ];
        for text in texts {
            let is_read = serde_json::from_str::<serde_json::Value>(text).is_ok();
            assert_eq!(is_document(text), is_read, "{text}");
        }
    }

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
