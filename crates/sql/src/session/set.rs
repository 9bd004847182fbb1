//! SET: every part is read, evaluated and checked before any takes effect.

use std::sync::Arc;

use spillway_types::{Collation, Value};
use sqlparser::tokenizer::Token;

use super::Session;
use super::transactions::Characteristics;
use crate::catalog::StorageEngine;
use crate::errors::{Result, SqlError};
use crate::names;
use crate::parser::{name_of, solid, split_commas, word};
use crate::variables::{
    VariableKind, canonical, durability, isolation_of, sql_mode, time_offset, variable, wrong,
};

/// What one part of a SET does.
enum Part {
    User(String, Value),
    /// A system variable: whether of all sessions, its name, and its text.
    System(bool, &'static str, String),
    LastInsertId(u64),
}

/// Whose variable a part names.
enum VariableTarget {
    User(String),
    System(bool, String),
}

fn user_variable(name: &str) -> Result<VariableTarget> {
    names::check_variable(name)?;
    Ok(VariableTarget::User(name.to_lowercase()))
}

/// Character sets that text may come in and go out in, and their usual collations. Those of three
/// bytes are part of that of four.
const CHARSETS: &[(&str, &str)] = &[
    ("utf8mb4", "utf8mb4_general_ci"),
    ("utf8mb3", "utf8mb3_general_ci"),
    ("utf8", "utf8mb3_general_ci"),
    ("binary", "binary"),
];

fn charset(name: &str) -> Option<(&'static str, &'static str)> {
    CHARSETS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).copied()
}

impl Session {
    pub(super) fn set(
        &mut self,
        tokens: &[Token],
        plain: &[Token],
        params: &[Value],
    ) -> Result<()> {
        let words: Vec<String> = plain.iter().map(|token| word(Some(token))).collect();
        let at = |index: usize| words.get(index).map_or("", String::as_str);
        if at(1) == "password" {
            return self.ddl().accounts(tokens);
        }
        let scoped = matches!(at(1), "global" | "session" | "local");
        if at(1) == "transaction" || (scoped && at(2) == "transaction") {
            let rest = words.get(if scoped { 3 } else { 2 }..).unwrap_or_default();
            return self.set_transaction(rest, if scoped { at(1) } else { "next" });
        }
        let mut parts = Vec::new();
        // A scope is said once for what follows it.
        let mut global = false;
        for part in split_commas(tokens.get(1..).unwrap_or_default()) {
            self.read_part(&solid(&part), params, &mut global, &mut parts)?;
        }
        if parts.is_empty() {
            return Err(SqlError::syntax("SET needs a variable"));
        }
        if parts.iter().any(|part| matches!(part, Part::System(true, ..))) {
            self.security.check_everywhere(&["SUPER", "SYSTEM_VARIABLES_ADMIN"])?;
        }
        parts.into_iter().try_for_each(|part| self.apply(part))
    }

    fn read_part(
        &mut self,
        part: &[Token],
        params: &[Value],
        global: &mut bool,
        parts: &mut Vec<Part>,
    ) -> Result<()> {
        let first = word(part.first());
        let names = first == "names";
        let character_set =
            first == "charset" || (first == "character" && word(part.get(1)) == "set");
        if names || character_set {
            let rest = &part[if first == "character" { 2 } else { 1 }..];
            return self.read_names(rest, names, parts);
        }
        let split = part.iter().position(|token| matches!(token, Token::Eq | Token::Assignment));
        let split = split.ok_or_else(|| SqlError::syntax("SET needs a value"))?;
        let value = &part[split + 1..];
        match target(&part[..split], global)? {
            VariableTarget::User(name) => {
                parts.push(Part::User(name, self.evaluate(value, params)?))
            }
            VariableTarget::System(global, name) => {
                let value = match value {
                    [Token::Word(w)] if w.value.eq_ignore_ascii_case("null") => Value::Null,
                    [Token::Word(w)] if !w.value.starts_with('@') => Value::Text(w.value.clone()),
                    [] => return Err(SqlError::syntax("SET needs a value")),
                    tokens => self.evaluate(tokens, params)?,
                };
                let checked = self.check(global, &name, &value)?;
                parts.push(checked);
            }
        }
        Ok(())
    }

    /// `SET NAMES c [COLLATE d]` and `SET CHARACTER SET c`.
    fn read_names(&self, rest: &[Token], names: bool, parts: &mut Vec<Part>) -> Result<()> {
        let (name, collate) = match rest {
            [name] => (name, None),
            [name, collate, collation] if names && word(Some(collate)) == "collate" => {
                (name, Some(name_of(Some(collation))))
            }
            _ => return Err(SqlError::syntax("SET NAMES name [COLLATE collation]")),
        };
        let name = name_of(Some(name));
        let known = charset(if name.eq_ignore_ascii_case("default") { "utf8mb4" } else { &name });
        let unknown = || SqlError::new(1115, format!("Unknown character set: '{name}'"));
        let (charset, usual) = known.ok_or_else(unknown)?;
        let collation = match collate {
            None => usual.to_owned(),
            Some(name) if name.eq_ignore_ascii_case("default") => usual.to_owned(),
            Some(name) => {
                let of = name.split('_').next().unwrap_or_default();
                let unknown = || SqlError::new(1273, format!("Unknown collation: '{name}'"));
                Collation::from_name(&name).ok_or_else(unknown)?;
                if self::charset(of).map(|(charset, _)| charset) != Some(charset)
                    && !(charset.starts_with("utf8mb3") && of == "utf8")
                {
                    return Err(SqlError::new(
                        1253,
                        format!("COLLATION '{name}' is not valid for CHARACTER SET '{charset}'"),
                    ));
                }
                name.to_ascii_lowercase()
            }
        };
        // SET CHARACTER SET leaves the connection to the database's.
        let (connection, collation) =
            if names { (charset, collation) } else { ("utf8mb4", "utf8mb4_general_ci".to_owned()) };
        for (variable, value) in [
            ("character_set_client", charset),
            ("character_set_connection", connection),
            ("character_set_results", charset),
        ] {
            parts.push(Part::System(false, variable, value.to_owned()));
        }
        parts.push(Part::System(false, "collation_connection", collation));
        Ok(())
    }

    /// Checks what a system variable is to be set to.
    fn check(&mut self, global: bool, name: &str, value: &Value) -> Result<Part> {
        let name = canonical(name);
        if name == "last_insert_id" && !global {
            let number = spillway_types::convert::to_i128(&value.as_ref()).unwrap_or(0);
            return Ok(Part::LastInsertId(u64::try_from(number).unwrap_or(0)));
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
            return Ok(Part::System(global, name, text.unwrap_or_else(|| initial.to_owned())));
        }
        if value.is_null() {
            // No conversion of results, which is what there is anyway.
            if name == "character_set_results" {
                return Ok(Part::System(global, name, initial.to_owned()));
            }
            return Err(wrong(name, "NULL"));
        }
        let text = self.checked(global, name, kind, text)?;
        Ok(Part::System(global, name, text))
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
                super::server_hooks::check_limit(name, global, &mut text, &mut warnings)?;
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
                // The default takes the place of an unknown engine here, too: it stays.
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
                // `timestamp`, in seconds; zero is the clock's.
                _ => match text.parse::<f64>() {
                    Ok(seconds) if (0.0..=2_147_483_647.0).contains(&seconds) => text,
                    _ => return Err(wrong(name, &text)),
                },
            },
            VariableKind::Fixed => return Err(wrong(name, &text)),
        })
    }

    /// What a variable is now.
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

    /// `SET [scope] TRANSACTION`, by the words that follow it.
    fn set_transaction(&mut self, words: &[String], scope: &str) -> Result<()> {
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

    /// Sets a system variable by name, for the statements that have a syntax of their own for it.
    pub(super) fn assign(&mut self, global: bool, name: &'static str, text: &str) -> Result<()> {
        if global {
            self.security.check_everywhere(&["SUPER", "SYSTEM_VARIABLES_ADMIN"])?;
        }
        self.apply(Part::System(global, name, text.to_owned()))
    }

    fn apply(&mut self, part: Part) -> Result<()> {
        let (global, name, text) = match part {
            Part::User(name, value) => {
                return self.variables.borrow_mut().user.set(name, value);
            }
            Part::LastInsertId(id) => {
                self.variables.borrow_mut().last_insert_id = id;
                return Ok(());
            }
            Part::System(global, name, text) => (global, name, text),
        };
        self.assignments += 1;
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
        // The character set and the collation of a connection go together.
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

/// `@a`, `a`, `GLOBAL a`, `@@a`, `@@global.a`.
fn target(tokens: &[Token], global: &mut bool) -> Result<VariableTarget> {
    let shown = || tokens.iter().map(ToString::to_string).collect::<String>();
    let near = || SqlError::syntax(format!("near '{}'", shown()));
    let scope = |scope: &str, global: &mut bool| match scope {
        "global" => {
            *global = true;
            Ok(true)
        }
        "session" | "local" => {
            *global = false;
            Ok(true)
        }
        "persist" | "persist_only" => {
            Err(SqlError::unsupported(format!("SET {}", scope.to_ascii_uppercase())))
        }
        _ => Ok(false),
    };
    let system =
        |global: bool, name: &str| VariableTarget::System(global, name.to_ascii_lowercase());
    match tokens {
        [Token::AtSign, name] => user_variable(&name_of(Some(name))),
        [Token::Word(first), rest @ ..] if first.quote_style.is_none() => {
            if let Some(name) = first.value.strip_prefix("@@") {
                let name = name.to_ascii_lowercase();
                // A scope that is said so is for this one alone.
                let mut own = false;
                return match rest {
                    [] => Ok(system(false, &name)),
                    [Token::Period, Token::Word(word)] if scope(&name, &mut own)? => {
                        Ok(system(own, &word.value))
                    }
                    _ => Err(near()),
                };
            }
            if let Some(name) = first.value.strip_prefix('@') {
                return match rest {
                    [] if !name.is_empty() => user_variable(name),
                    [quoted] if name.is_empty() => user_variable(&name_of(Some(quoted))),
                    [Token::Period, ..] => {
                        let name: String = rest.iter().map(ToString::to_string).collect();
                        user_variable(&format!("{}{name}", &first.value[1..]))
                    }
                    _ => Err(near()),
                };
            }
            let lower = first.value.to_ascii_lowercase();
            match rest {
                [] => Ok(system(*global, &lower)),
                [Token::Word(word)] if scope(&lower, global)? => Ok(system(*global, &word.value)),
                _ => Err(near()),
            }
        }
        [Token::Word(quoted)] => Ok(system(*global, &quoted.value)),
        _ => Err(near()),
    }
}
