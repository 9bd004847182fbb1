//! System variables, and SET.

use std::collections::{BTreeMap, HashMap};

use spillway_types::Value;
use sqlparser::tokenizer::Token;

use super::own::{name_of, split_commas};
use super::{Session, VERSION};
use crate::errors::{Result, SqlError};
use crate::parse::{Mode, solid, word};

/// System variables that a session may read, with their values at its start. What can be set is checked where it is.
pub(super) const VARIABLES: &[(&str, &str)] = &[
    ("autocommit", "ON"),
    ("auto_increment_increment", "1"),
    ("auto_increment_offset", "1"),
    ("character_set_client", "utf8mb4"),
    ("character_set_connection", "utf8mb4"),
    ("character_set_database", "utf8mb4"),
    ("character_set_filesystem", "binary"),
    ("character_set_results", "utf8mb4"),
    ("character_set_server", "utf8mb4"),
    ("character_set_system", "utf8mb3"),
    ("collation_connection", "utf8mb4_general_ci"),
    ("collation_database", "utf8mb4_general_ci"),
    ("collation_server", "utf8mb4_general_ci"),
    ("default_storage_engine", "TIERED"),
    ("default_tmp_storage_engine", "TIERED"),
    ("connect_timeout", "10"),
    ("div_precision_increment", "4"),
    ("event_scheduler", "OFF"),
    ("foreign_key_checks", "ON"),
    ("group_concat_max_len", "1048576"),
    ("init_connect", ""),
    ("innodb_flush_log_at_trx_commit", "1"),
    ("innodb_lock_wait_timeout", "50"),
    ("interactive_timeout", "28800"),
    ("license", "Apache-2.0 OR MIT"),
    ("lock_wait_timeout", "50"),
    ("lower_case_table_names", "0"),
    ("max_allowed_packet", "67108864"),
    ("max_connections", "512"),
    ("require_secure_transport", "OFF"),
    ("max_execution_time", "0"),
    ("max_prepared_stmt_count", "16382"),
    ("net_buffer_length", "16384"),
    ("net_read_timeout", "30"),
    ("net_write_timeout", "60"),
    ("performance_schema", "OFF"),
    ("protocol_version", "10"),
    ("query_cache_size", "0"),
    ("query_cache_type", "OFF"),
    ("read_only", "OFF"),
    ("session_track_schema", "OFF"),
    ("sql_auto_is_null", "OFF"),
    ("sql_mode", "STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION"),
    ("sql_notes", "ON"),
    ("sql_quote_show_create", "ON"),
    ("sql_safe_updates", "OFF"),
    ("sql_select_limit", "18446744073709551615"),
    ("sql_warnings", "OFF"),
    ("system_time_zone", "UTC"),
    ("time_zone", "SYSTEM"),
    ("timestamp", "0"),
    ("transaction_isolation", "REPEATABLE-READ"),
    ("transaction_read_only", "OFF"),
    ("tx_isolation", "REPEATABLE-READ"),
    ("tx_read_only", "OFF"),
    ("unique_checks", "ON"),
    ("version", VERSION),
    ("version_comment", "Spillway"),
    ("version_compile_machine", "x86_64"),
    ("version_compile_os", "Linux"),
    ("wait_timeout", "28800"),
    ("have_openssl", "DISABLED"),
    ("have_ssl", "DISABLED"),
    ("ssl_ca", ""),
    ("ssl_cert", ""),
    ("ssl_key", ""),
    ("tls_version", ""),
    ("hostname", "localhost"),
    ("port", "3306"),
    ("socket", ""),
    ("datadir", ""),
    ("default_authentication_plugin", "mysql_native_password"),
    ("explicit_defaults_for_timestamp", "ON"),
    ("storage_engine", "TIERED"),
    ("profiling", "OFF"),
    ("optimizer_switch", ""),
    ("time_format", ""),
    ("sql_log_bin", "OFF"),
    ("log_bin", "OFF"),
    ("gtid_mode", "OFF"),
    ("server_id", "1"),
    ("tmpdir", ""),
    ("thread_stack", "1048576"),
    ("old_alter_table", "OFF"),
    ("sql_big_selects", "ON"),
    ("net_retry_count", "10"),
    ("default_week_format", "0"),
    ("ssl_cipher", ""),
    ("skip_networking", "OFF"),
    ("information_schema_stats_expiry", "0"),
    ("character_sets_dir", ""),
    ("completion_type", "NO_CHAIN"),
    ("low_priority_updates", "OFF"),
    ("updatable_views_with_limit", "ON"),
    ("show_old_temporals", "OFF"),
];

/// Variables that are what the server is, and cannot be set.
const READ_ONLY: &[&str] = &[
    "version",
    "version_comment",
    "version_compile_machine",
    "version_compile_os",
    "hostname",
    "license",
    "lower_case_table_names",
    "protocol_version",
    "character_set_system",
    "system_time_zone",
    "performance_schema",
    "have_ssl",
    "have_openssl",
    "require_secure_transport",
    "ssl_ca",
    "ssl_cert",
    "ssl_key",
    "ssl_cipher",
    "tls_version",
    "port",
    "socket",
    "datadir",
    "log_bin",
];

/// What a session remembers between statements.
pub(crate) struct Variables {
    pub(crate) system: BTreeMap<String, String>,
    pub(crate) user: HashMap<String, Value>,
    pub(crate) database: Option<String>,
    pub(crate) user_name: String,
    pub(crate) host: String,
    pub(crate) user_host: String,
    pub(crate) connection_id: u64,
    pub(crate) last_insert_id: u64,
    pub(crate) row_count: i64,
    pub(crate) found_rows: u64,
    pub(crate) found_rows_flag: bool,
    pub(crate) sql_mode: String,
    /// What `sql_mode` says of text.
    pub(crate) mode: Mode,
    pub(crate) time_offset_micros: i64,
}

impl Variables {
    pub(crate) fn strict(&self) -> bool {
        self.sql_mode.contains("STRICT_")
    }
}

impl Session {
    pub(super) fn system_variable(
        &self,
        variables: &Variables,
        scope: &str,
        name: &str,
    ) -> Option<Value> {
        let text = match (scope, name) {
            ("global", name) => self.instance.0.globals.lock().get(name).cloned()?,
            (_, "last_insert_id" | "identity") => {
                return Some(Value::UInt(variables.last_insert_id));
            }
            (_, "warning_count" | "error_count") => {
                return Some(Value::Int(self.warnings.len() as i64));
            }
            (_, "autocommit") => return Some(Value::from(self.autocommit)),
            (_, "sql_mode") => variables.sql_mode.clone(),
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

    /// The variables as SHOW VARIABLES lists them.
    pub(super) fn variable_lines(&self, global: bool) -> Vec<(String, String)> {
        let globals = self.instance.0.globals.lock().clone();
        let variables = self.variables.borrow();
        let source = if global { &globals } else { &variables.system };
        let mut lines: Vec<(String, String)> = source.clone().into_iter().collect();
        for (name, value) in &mut lines {
            match name.as_str() {
                "autocommit" if !global => {
                    *value = if self.autocommit { "ON" } else { "OFF" }.to_owned()
                }
                "sql_mode" if !global => value.clone_from(&variables.sql_mode),
                _ => {}
            }
        }
        lines
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
            return self.accounts(tokens);
        }
        if at(1) == "names" || at(1) == "character" || at(1) == "charset" {
            let charset = name_of(plain.get(if at(1) == "character" { 3 } else { 2 }));
            let known = ["utf8mb4", "utf8mb3", "utf8", "latin1", "ascii", "binary", "default"];
            if !known.contains(&charset.to_ascii_lowercase().as_str()) {
                return Err(SqlError::new(1115, format!("Unknown character set: '{charset}'")));
            }
            let mut variables = self.variables.borrow_mut();
            for name in
                ["character_set_client", "character_set_connection", "character_set_results"]
            {
                variables.system.insert(name.to_owned(), charset.clone());
            }
            return Ok(());
        }
        let scoped = matches!(at(1), "global" | "session" | "local");
        if at(1) == "transaction" || (scoped && at(2) == "transaction") {
            return self.set_transaction(&words, if scoped { at(1) } else { "next" });
        }
        for part in split_commas(tokens.get(1..).unwrap_or_default()) {
            self.set_one(&solid(&part), params)?;
        }
        Ok(())
    }

    /// `name = value`, with any of the ways to say whose variable it is.
    pub(super) fn set_one(&mut self, part: &[Token], params: &[Value]) -> Result<()> {
        let split = part.iter().position(|token| matches!(token, Token::Eq | Token::Assignment));
        let split = split.ok_or_else(|| SqlError::syntax("SET needs a value"))?;
        let target: String =
            part[..split].iter().map(ToString::to_string).collect::<Vec<_>>().join("");
        let target = target.replace('`', "");
        let value_tokens = &part[split + 1..];
        if let Some(name) = target.strip_prefix('@').filter(|name| !name.starts_with('@')) {
            let value = self.evaluate(value_tokens, params)?;
            let name = name.trim_matches('\'').to_ascii_lowercase();
            self.variables.borrow_mut().user.insert(name, value);
            return Ok(());
        }
        let lower = target.to_ascii_lowercase();
        let bare = lower.trim_start_matches("@@");
        let (global, name) =
            ["global.", "persist.", "global", "session.", "local.", "session", "local"]
                .iter()
                .find_map(|scope| {
                    let rest = bare.strip_prefix(scope)?;
                    let known = |name: &str| VARIABLES.iter().any(|(other, _)| *other == name);
                    (known(rest) || scope.ends_with('.')).then(|| {
                        (scope.starts_with("global") || *scope == "persist.", rest.to_owned())
                    })
                })
                .unwrap_or((false, bare.to_owned()));
        let value = match value_tokens {
            [Token::Word(w)] if !w.value.starts_with('@') => Value::Text(w.value.clone()),
            tokens => self.evaluate(tokens, params)?,
        };
        self.assign(global, &name, &value)
    }

    pub(super) fn assign(&mut self, global: bool, name: &str, value: &Value) -> Result<()> {
        let name = match name {
            "tx_isolation" => "transaction_isolation",
            "tx_read_only" => "transaction_read_only",
            name => name,
        };
        let default = VARIABLES.iter().find(|(other, _)| *other == name).map(|(_, value)| *value);
        let default = default
            .ok_or_else(|| SqlError::new(1193, format!("Unknown system variable '{name}'")))?;
        if READ_ONLY.contains(&name) {
            return Err(SqlError::new(1238, format!("Variable '{name}' is a read only variable")));
        }
        let mut text = value.to_text();
        if text.eq_ignore_ascii_case("default")
            || value.is_null() && name.starts_with("character_set")
        {
            default.clone_into(&mut text);
        }
        let wrong = || {
            SqlError::new(
                1231,
                format!("Variable '{name}' can't be set to the value of '{}'", value.to_text()),
            )
        };
        if matches!(default, "ON" | "OFF") {
            text = match text.to_ascii_uppercase().as_str() {
                "1" | "ON" | "TRUE" => "ON".to_owned(),
                "0" | "OFF" | "FALSE" => "OFF".to_owned(),
                _ => return Err(wrong()),
            };
        }
        super::front::check_limit(name, global, &mut text, &mut self.warnings)?;
        match name {
            "transaction_isolation" => {
                text = text.to_ascii_uppercase().replace(' ', "-");
                let known =
                    ["READ-UNCOMMITTED", "READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE"];
                if !known.contains(&text.as_str()) {
                    return Err(wrong());
                }
            }
            "innodb_flush_log_at_trx_commit" if !["0", "1", "2"].contains(&text.as_str()) => {
                return Err(wrong());
            }
            "innodb_lock_wait_timeout" | "lock_wait_timeout" if text.parse::<u64>().is_err() => {
                return Err(wrong());
            }
            "time_zone" if !global => {
                let offset = time_offset(&text).ok_or_else(|| {
                    SqlError::new(1298, format!("Unknown or incorrect time zone: '{text}'"))
                })?;
                self.variables.borrow_mut().time_offset_micros = offset;
            }
            "sql_mode" if !global => {
                let mut variables = self.variables.borrow_mut();
                variables.sql_mode = text.to_ascii_uppercase();
                variables.mode = Mode::of(&variables.sql_mode);
            }
            "autocommit" if !global => {
                let on = text == "ON";
                if on && !self.autocommit {
                    self.commit()?;
                }
                self.autocommit = on;
            }
            _ => {}
        }
        self.assignments += 1;
        if global {
            self.check_everywhere(&["SUPER", "SYSTEM_VARIABLES_ADMIN"])?;
            self.instance.0.globals.lock().insert(name.to_owned(), text);
        } else {
            self.variables.borrow_mut().system.insert(name.to_owned(), text);
        }
        Ok(())
    }
}

/// The offset of a time zone, in microseconds. Named zones other than UTC are not known.
fn time_offset(zone: &str) -> Option<i64> {
    if ["system", "utc", "+00:00", "-00:00"].contains(&zone.to_ascii_lowercase().as_str()) {
        return Some(0);
    }
    let sign = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = zone[1..].split_once(':')?;
    let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours <= 14 && minutes < 60).then_some(sign * (hours * 60 + minutes) * 60_000_000)
}
