//! Reads the values of system variables for a session.

use std::cell::Cell;
use std::collections::BTreeMap;

use spillway_types::{Collation, Value};

use super::diagnostics::DiagnosticsArea;
use super::instance::Instance;
use crate::planner::{FULL_GROUP_BY, INDEX_ONLY, LITERALS};
use crate::variables::{ALIASES, Variables, canonical};

/// Reads system variables for a statement that is being bound.
pub(super) struct VariableReader<'s> {
    pub(super) instance: &'s Instance,
    pub(super) diagnostics: &'s DiagnosticsArea,
    pub(super) autocommit: bool,
    /// Whether the statement contains a value that may differ when it runs again.
    pub(super) has_read: Cell<bool>,
}

impl VariableReader<'_> {
    pub(super) fn value(&self, variables: &Variables, scope: &str, name: &str) -> Option<Value> {
        if scope == LITERALS {
            if name == "escape" {
                return variables.mode.no_backslash_escapes.then_some(Value::Int(1));
            }
            let other = variables.collation != Collation::default();
            return other.then(|| Value::from(variables.collation.name()));
        }
        if scope == FULL_GROUP_BY {
            return variables.often.full_group_by.then_some(Value::Int(1));
        }
        if scope == INDEX_ONLY {
            return self.instance.0.index_only.then_some(Value::Int(1));
        }
        self.has_read.set(true);
        let text = match (scope, canonical(name)) {
            ("global", name) => self.instance.0.globals.lock().get(name).cloned()?,
            (_, "last_insert_id") => return Some(Value::UInt(variables.last_insert_id)),
            (_, "warning_count") => return Some(Value::Int(self.diagnostics.count() as i64)),
            (_, "error_count") => return Some(Value::Int(self.diagnostics.error_count() as i64)),
            (_, "autocommit") => return Some(Value::from(self.autocommit)),
            (_, name) => variables.system.get(name).cloned()?,
        };
        Some(match text.as_str() {
            "ON" => Value::Int(1),
            "OFF" => Value::Int(0),
            text => match text.parse::<i64>() {
                Ok(number) => Value::Int(number),
                Err(_) => text.parse::<u64>().map_or_else(|_| Value::from(text), Value::UInt),
            },
        })
    }
}

/// The lines of SHOW VARIABLES: the global values, or those of the session.
pub(super) fn variable_lines(
    instance: &Instance,
    variables: &Variables,
    global: bool,
) -> Vec<(String, String)> {
    let mut all = match global {
        true => BTreeMap::clone(&instance.0.globals.lock()),
        false => variables.system.all(),
    };
    for (alias, name) in ALIASES {
        if let Some(value) = all.get(*name).cloned() {
            all.insert((*alias).to_owned(), value);
        }
    }
    all.into_iter().collect()
}
