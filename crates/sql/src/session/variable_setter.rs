//! Checks the new values of a session's variables, and sets them.

use std::cell::RefCell;
use std::sync::Arc;

use spillway_types::{Collation, Value};

use super::diagnostics::DiagnosticsArea;
use super::instance::Instance;
use super::security_context::SecurityContext;
use super::server_hooks::check_limit;
use super::transactions::{Characteristics, TransactionState};
use crate::catalog::StorageEngine;
use crate::errors::{Result, SqlError};
use crate::variables::{
    VariableKind, Variables, canonical, durability, isolation_of, sql_mode, time_offset, variable,
    wrong,
};

/// The assignment of one part of a SET.
pub(super) enum VariableAssignment {
    User(String, Value),
    /// A system variable: whether it is global, its name, and its value as text.
    System(bool, &'static str, String),
    LastInsertId(u64),
}

/// The character sets of clients' text, and their default collations. Text with at most three bytes
/// per character is also valid `utf8mb4`.
const CHARSETS: &[(&str, &str)] = &[
    ("utf8mb4", "utf8mb4_general_ci"),
    ("utf8mb3", "utf8mb3_general_ci"),
    ("utf8", "utf8mb3_general_ci"),
    ("binary", "binary"),
];

pub(super) fn charset(name: &str) -> Option<(&'static str, &'static str)> {
    CHARSETS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).copied()
}

/// Sets session variables and global variables.
pub(super) struct VariableSetter<'s> {
    pub(super) instance: &'s Instance,
    pub(super) variables: &'s RefCell<Variables>,
    pub(super) security: &'s SecurityContext,
    pub(super) transaction: &'s mut TransactionState,
    pub(super) diagnostics: &'s mut DiagnosticsArea,
}

impl VariableSetter<'_> {
    fn warn(&mut self, error: SqlError) {
        self.diagnostics.warn(error, &self.variables.borrow());
    }

    /// Checks the new value of a system variable.
    pub(super) fn check(
        &mut self,
        global: bool,
        name: &str,
        value: &Value,
    ) -> Result<VariableAssignment> {
        let name = canonical(name);
        if name == "last_insert_id" && !global {
            let number = spillway_types::convert::to_i128(&value.as_ref()).unwrap_or(0);
            return Ok(VariableAssignment::LastInsertId(u64::try_from(number).unwrap_or(0)));
        }
        let (initial, kind) = variable(name)?;
        let name = crate::variables::VARIABLES
            .iter()
            .find_map(|(known, ..)| (*known == name).then_some(*known))
            .unwrap_or_default();
        if matches!(kind, VariableKind::Fixed) {
            return Err(SqlError::new(1238, format!("Variable '{name}' is a read only variable")));
        }
        let text = value.to_text();
        let default = text.eq_ignore_ascii_case("default") && matches!(value, Value::Text(_));
        if default {
            let globals = self.instance.0.globals.lock();
            let text = if global { None } else { globals.get(name).cloned() };
            return Ok(VariableAssignment::System(
                global,
                name,
                text.unwrap_or_else(|| initial.to_owned()),
            ));
        }
        if value.is_null() {
            // NULL means that results are not converted. They never are.
            if name == "character_set_results" {
                return Ok(VariableAssignment::System(global, name, initial.to_owned()));
            }
            return Err(wrong(name, "NULL"));
        }
        let text = self.checked(global, name, kind, text)?;
        Ok(VariableAssignment::System(global, name, text))
    }

    fn checked(
        &mut self,
        global: bool,
        name: &str,
        kind: VariableKind,
        mut text: String,
    ) -> Result<String> {
        Ok(match kind {
            VariableKind::Flag => flag(&text).ok_or_else(|| wrong(name, &text))?.to_owned(),
            VariableKind::Only(values) => {
                let asked = match flag(&text) {
                    Some(flag) if values.contains(&"ON") || values.contains(&"OFF") => flag,
                    _ => text.trim(),
                };
                let found = values.iter().find(|value| value.eq_ignore_ascii_case(asked));
                (*found.ok_or_else(|| wrong(name, &text))?).to_owned()
            }
            VariableKind::Number(least, most) => self.bounded(name, &text, least, most)?,
            VariableKind::Limit => {
                let mut warnings = Vec::new();
                check_limit(name, global, &mut text, &mut warnings)?;
                warnings.into_iter().for_each(|warning| self.warn(warning));
                text
            }
            VariableKind::Charset => charset(&text)
                .ok_or_else(|| SqlError::new(1115, format!("Unknown character set: '{text}'")))?
                .0
                .to_owned(),
            VariableKind::Collation => {
                let known = Collation::from_name(&text);
                known.ok_or_else(|| SqlError::new(1273, format!("Unknown collation: '{text}'")))?;
                text.to_ascii_lowercase()
            }
            VariableKind::Engine => match StorageEngine::named(&text) {
                Some(engine) => engine.name.to_owned(),
                None if self.variables.borrow().has_mode("NO_ENGINE_SUBSTITUTION") => {
                    return Err(SqlError::unknown_engine(&text));
                }
                // As in CREATE TABLE, the default replaces an unknown engine: the variable does not
                // change.
                None => {
                    self.warn(SqlError::unknown_engine(&text));
                    self.current(global, name)
                }
            },
            VariableKind::Other => match name {
                "sql_mode" => sql_mode(&text)?,
                durability::NAME => match durability::parse(&text) {
                    Some(durability) => durability::text(durability),
                    None => return Err(wrong(name, &text)),
                },
                "transaction_isolation" => {
                    let level = text.to_ascii_uppercase().replace(' ', "-");
                    let known =
                        ["READ-UNCOMMITTED", "READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE"];
                    if !known.contains(&level.as_str()) {
                        return Err(wrong(name, &text));
                    }
                    level
                }
                "time_zone" => {
                    time_offset(&text).ok_or_else(|| {
                        SqlError::new(1298, format!("Unknown or incorrect time zone: '{text}'"))
                    })?;
                    text
                }
                // `timestamp`, in seconds. Zero means the clock.
                _ => match text.parse::<f64>() {
                    Ok(seconds) if (0.0..=2_147_483_647.0).contains(&seconds) => text,
                    _ => return Err(wrong(name, &text)),
                },
            },
            VariableKind::Fixed => return Err(wrong(name, &text)),
        })
    }

    /// The current value of a variable.
    fn current(&self, global: bool, name: &str) -> String {
        let current = match global {
            true => self.instance.0.globals.lock().get(name).cloned(),
            false => self.variables.borrow().system.get(name).cloned(),
        };
        current.unwrap_or_default()
    }

    fn bounded(&mut self, name: &str, text: &str, least: u64, most: u64) -> Result<String> {
        let number: i128 = text.parse().map_err(|_| {
            SqlError::new(1232, format!("Incorrect argument type to variable '{name}'"))
        })?;
        let within = number.clamp(i128::from(least), i128::from(most));
        if within != number {
            let text = format!("Truncated incorrect {name} value: '{number}'");
            self.warn(SqlError::new(1292, text));
        }
        Ok(within.to_string())
    }

    /// Runs `SET [scope] TRANSACTION`, by the words that follow it.
    pub(super) fn set_transaction(&mut self, words: &[String], scope: &str) -> Result<()> {
        let Characteristics { isolation, read_only } = Characteristics::parse(words)?;
        if scope == "next" {
            return self.transaction.set_next(isolation.map(isolation_of), read_only);
        }
        if let Some(level) = isolation {
            self.assign(scope == "global", "transaction_isolation", level)?;
        }
        if let Some(only) = read_only {
            let text = if only { "ON" } else { "OFF" };
            self.assign(scope == "global", "transaction_read_only", text)?;
        }
        Ok(())
    }

    /// Sets a system variable by name, for statements with their own syntax.
    fn assign(&mut self, global: bool, name: &'static str, text: &str) -> Result<()> {
        if global {
            self.security.check_everywhere(&["SUPER", "SYSTEM_VARIABLES_ADMIN"])?;
        }
        self.apply(VariableAssignment::System(global, name, text.to_owned()))
    }

    /// Applies an assignment that has been checked.
    pub(super) fn apply(&mut self, assignment: VariableAssignment) -> Result<()> {
        let (global, name, text) = match assignment {
            VariableAssignment::User(name, value) => {
                return self.variables.borrow_mut().user.set(name, value);
            }
            VariableAssignment::LastInsertId(id) => {
                self.variables.borrow_mut().last_insert_id = id;
                return Ok(());
            }
            VariableAssignment::System(global, name, text) => (global, name, text),
        };
        self.variables.borrow_mut().assignments += 1;
        let sibling = durability::sibling(name, &text);
        if global {
            let mut globals = self.instance.0.globals.lock();
            let globals = Arc::make_mut(&mut globals);
            globals.extend(sibling.map(|(name, text)| (name.to_owned(), text)));
            globals.insert(name.to_owned(), text);
            return Ok(());
        }
        if name == "autocommit" {
            self.transaction.set_autocommit(text == "ON")?;
        }
        let mut variables = self.variables.borrow_mut();
        // The character set and the collation of a connection change together.
        if name == "character_set_connection"
            && let Some((_, usual)) = charset(&text)
        {
            variables.system.insert("collation_connection".to_owned(), usual.to_owned());
        }
        if name == "collation_connection" {
            let of = text.split('_').next().unwrap_or_default();
            let of = charset(of).map_or("utf8mb4", |(charset, _)| charset);
            variables.system.insert("character_set_connection".to_owned(), of.to_owned());
        }
        if let Some((name, text)) = sibling {
            variables.system.insert(name.to_owned(), text);
        }
        variables.system.insert(name.to_owned(), text);
        variables.refresh();
        Ok(())
    }
}

fn flag(text: &str) -> Option<&'static str> {
    match text.to_ascii_uppercase().as_str() {
        "1" | "ON" | "TRUE" => Some("ON"),
        "0" | "OFF" | "FALSE" => Some("OFF"),
        _ => None,
    }
}
