//! Runs SET. The session parses, evaluates and checks every part of the statement before any part
//! takes effect.

use spillway_types::{Collation, Value};
use sqlparser::tokenizer::Token;

use super::Session;
use super::variable_setter::{VariableAssignment, VariableSetter, charset};
use crate::errors::{Result, SqlError};
use crate::names;
use crate::parser::{name_of, solid, split_commas, word};

/// The variable that a part names.
enum VariableTarget {
    User(String),
    System(bool, String),
}

fn user_variable(name: &str) -> Result<VariableTarget> {
    names::check_variable(name)?;
    Ok(VariableTarget::User(name.to_lowercase()))
}

impl Session {
    fn setter(&mut self) -> VariableSetter<'_> {
        VariableSetter {
            instance: &self.instance,
            variables: &self.variables,
            security: &self.security,
            transaction: &mut self.transaction,
            diagnostics: &mut self.diagnostics,
        }
    }

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
            let scope = if scoped { at(1) } else { "next" };
            return self.setter().set_transaction(rest, scope);
        }
        let mut parts = Vec::new();
        // A scope applies to the variables that follow it.
        let mut global = false;
        for part in split_commas(tokens.get(1..).unwrap_or_default()) {
            self.read_part(&solid(&part), params, &mut global, &mut parts)?;
        }
        if parts.is_empty() {
            return Err(SqlError::syntax("SET needs a variable"));
        }
        if parts.iter().any(|part| matches!(part, VariableAssignment::System(true, ..))) {
            self.security.check_everywhere(&["SUPER", "SYSTEM_VARIABLES_ADMIN"])?;
        }
        let mut setter = self.setter();
        parts.into_iter().try_for_each(|part| setter.apply(part))
    }

    fn read_part(
        &mut self,
        part: &[Token],
        params: &[Value],
        global: &mut bool,
        parts: &mut Vec<VariableAssignment>,
    ) -> Result<()> {
        let first = word(part.first());
        let names = first == "names";
        let character_set =
            first == "charset" || (first == "character" && word(part.get(1)) == "set");
        if names || character_set {
            let rest = &part[if first == "character" { 2 } else { 1 }..];
            return read_names(rest, names, parts);
        }
        let split = part.iter().position(|token| matches!(token, Token::Eq | Token::Assignment));
        let split = split.ok_or_else(|| SqlError::syntax("SET needs a value"))?;
        let value = &part[split + 1..];
        match target(&part[..split], global)? {
            VariableTarget::User(name) => {
                parts.push(VariableAssignment::User(name, self.evaluate(value, params)?))
            }
            VariableTarget::System(global, name) => {
                let value = match value {
                    [Token::Word(w)] if w.value.eq_ignore_ascii_case("null") => Value::Null,
                    [Token::Word(w)] if !w.value.starts_with('@') => Value::Text(w.value.clone()),
                    [] => return Err(SqlError::syntax("SET needs a value")),
                    tokens => self.evaluate(tokens, params)?,
                };
                let checked = self.setter().check(global, &name, &value)?;
                parts.push(checked);
            }
        }
        Ok(())
    }
}

/// `SET NAMES c [COLLATE d]` and `SET CHARACTER SET c`.
fn read_names(rest: &[Token], names: bool, parts: &mut Vec<VariableAssignment>) -> Result<()> {
    let (name, collate) = match rest {
        [name] => (name, None),
        [name, collate, collation] if names && word(Some(collate)) == "collate" => {
            (name, Some(name_of(Some(collation))))
        }
        _ => return Err(SqlError::syntax("write SET NAMES name [COLLATE collation]")),
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
    // SET CHARACTER SET sets the connection to the character set of the database.
    let (connection, collation) =
        if names { (charset, collation) } else { ("utf8mb4", "utf8mb4_general_ci".to_owned()) };
    for (variable, value) in [
        ("character_set_client", charset),
        ("character_set_connection", connection),
        ("character_set_results", charset),
    ] {
        parts.push(VariableAssignment::System(false, variable, value.to_owned()));
    }
    parts.push(VariableAssignment::System(false, "collation_connection", collation));
    Ok(())
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
                // A scope after `@@` applies to this variable alone.
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
