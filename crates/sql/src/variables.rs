//! System variables: their list, their permitted values, and their values.
//!
//! A variable accepts only values that the server can honour. SET reports an error for other values
//! (1231, 1235, 1238), but replaces a number out of bounds by the nearest bound, with a warning.
//! Many variables accept a single value, the one that describes the server: clients and dumps set
//! them to this value.

pub(crate) mod durability;
mod system_variables;
mod user_locks;
mod user_variables;

use std::time::Duration;

use spillway::{Isolation, Settings, TransactionOptions};
use spillway_types::Collation;

use crate::catalog::{DEFAULT_ENGINE, StorageEngine};
use crate::errors::{Result, SqlError};
use crate::parser::TextMode;

pub use durability::parse;
pub(crate) use system_variables::SystemVariables;
pub(crate) use user_locks::{NamedLocks, OwnLocks, UserLockWaitLimits};
pub(crate) use user_variables::UserVariables;

/// The values to which a variable may be set.
#[derive(Clone, Copy)]
pub(crate) enum VariableKind {
    /// The variable is read-only and describes the server.
    Fixed,
    /// ON and OFF.
    Flag,
    /// Only these values.
    Only(&'static [&'static str]),
    /// A number within bounds. A number outside of them becomes the nearest bound.
    Number(u64, u64),
    /// A number that the server in front of the instance uses, within the server's own bounds.
    Limit,
    /// A character set for text.
    Charset,
    /// A collation.
    Collation,
    /// A storage engine.
    Engine,
    /// The variable's name decides which values are accepted.
    Other,
}

use VariableKind::{Charset, Engine, Fixed, Flag, Limit, Number, Only, Other};

const OFF: VariableKind = Only(&["OFF"]);
const ON: VariableKind = Only(&["ON"]);
const ZERO: VariableKind = Only(&["0"]);
const SECONDS_MAX: u64 = 31_536_000;

/// System variables, with their values at the start of an instance.
pub(crate) const VARIABLES: &[(&str, &str, VariableKind)] = &[
    ("admin_socket", "", Fixed),
    ("auto_increment_increment", "1", Number(1, 65_535)),
    ("auto_increment_offset", "1", Number(1, 65_535)),
    ("autocommit", "ON", Flag),
    ("character_set_client", "utf8mb4", Charset),
    ("character_set_connection", "utf8mb4", Charset),
    ("character_set_database", "utf8mb4", Only(&["utf8mb4"])),
    ("character_set_filesystem", "binary", Only(&["binary"])),
    ("character_set_results", "utf8mb4", Charset),
    ("character_set_server", "utf8mb4", Only(&["utf8mb4"])),
    ("character_set_system", "utf8mb3", Fixed),
    ("character_sets_dir", "", Fixed),
    ("collation_connection", "utf8mb4_general_ci", VariableKind::Collation),
    ("collation_database", "utf8mb4_general_ci", Only(&["utf8mb4_general_ci"])),
    ("collation_server", "utf8mb4_general_ci", Only(&["utf8mb4_general_ci"])),
    ("completion_type", "NO_CHAIN", Only(&["NO_CHAIN", "0"])),
    ("connect_timeout", "10", Limit),
    ("datadir", "", Fixed),
    ("default_authentication_plugin", "mysql_native_password", Fixed),
    ("default_storage_engine", DEFAULT_ENGINE.name, Engine),
    ("default_tmp_storage_engine", DEFAULT_ENGINE.name, Engine),
    ("default_week_format", "0", ZERO),
    ("div_precision_increment", "4", Only(&["4"])),
    ("durability", "commit", Other),
    ("event_scheduler", "OFF", OFF),
    ("explicit_defaults_for_timestamp", "ON", ON),
    ("foreign_key_checks", "ON", Flag),
    ("group_concat_max_len", "1048576", Number(4, u64::MAX)),
    ("gtid_mode", "OFF", Fixed),
    ("have_openssl", "DISABLED", Fixed),
    ("have_ssl", "DISABLED", Fixed),
    ("hostname", "localhost", Fixed),
    ("information_schema_stats_expiry", "0", ZERO),
    ("init_connect", "", Fixed),
    ("innodb_flush_log_at_trx_commit", "1", Only(&["0", "1", "2"])),
    ("innodb_lock_wait_timeout", "50", Number(1, 1_073_741_824)),
    ("innodb_snapshot_isolation", "ON", Flag),
    ("interactive_timeout", "28800", Limit),
    ("license", "Apache-2.0 OR MIT", Fixed),
    ("lock_wait_timeout", "50", Number(1, SECONDS_MAX)),
    ("log_bin", "OFF", Fixed),
    ("low_priority_updates", "OFF", OFF),
    ("lower_case_table_names", "0", Fixed),
    ("max_allowed_packet", "67108864", Limit),
    ("max_connections", "512", Limit),
    ("max_execution_time", "0", Number(0, 4_294_967_295)),
    ("max_prepared_stmt_count", "16382", Limit),
    ("max_user_connections", "0", Limit),
    ("net_buffer_length", "16384", Fixed),
    ("net_read_timeout", "30", Limit),
    ("net_retry_count", "10", Only(&["10"])),
    ("net_write_timeout", "60", Limit),
    ("old_alter_table", "OFF", OFF),
    ("optimizer_switch", "", Only(&[""])),
    ("performance_schema", "OFF", Fixed),
    ("port", "3306", Fixed),
    ("profiling", "OFF", OFF),
    ("protocol_version", "10", Fixed),
    ("query_cache_size", "0", ZERO),
    ("query_cache_type", "OFF", OFF),
    ("read_only", "OFF", OFF),
    ("require_secure_transport", "OFF", Fixed),
    ("secure_file_priv", "", Fixed),
    ("server_id", "1", Fixed),
    ("session_track_schema", "OFF", OFF),
    ("show_old_temporals", "OFF", OFF),
    ("skip_networking", "OFF", Fixed),
    ("socket", "", Fixed),
    // The settings with which the database was opened (`Settings::shown`).
    ("spillway_background_threads", "", Fixed),
    ("spillway_check_merges", "", Fixed),
    ("spillway_cold_compression", "", Fixed),
    ("spillway_compaction_order", "", Fixed),
    ("spillway_cores", "", Fixed),
    ("spillway_deletions_min", "", Fixed),
    ("spillway_direct_reads", "", Fixed),
    ("spillway_durability", "", Fixed),
    ("spillway_hot_compression", "", Fixed),
    ("spillway_log_bytes_max", "", Fixed),
    ("spillway_log_dir", "", Fixed),
    ("spillway_log_lanes", "", Fixed),
    ("spillway_log_segment_bytes", "", Fixed),
    ("spillway_memory_bytes", "", Fixed),
    ("spillway_recovery_threads", "", Fixed),
    ("spillway_settle_after", "", Fixed),
    ("spillway_slot_bytes", "", Fixed),
    ("spillway_space_max", "", Fixed),
    ("spillway_tiers", "", Fixed),
    ("spillway_transaction_bytes_max", "", Fixed),
    ("sql_auto_is_null", "OFF", OFF),
    ("sql_big_selects", "ON", ON),
    ("sql_log_bin", "OFF", OFF),
    ("sql_mode", "STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO", Other),
    ("sql_notes", "ON", Flag),
    ("sql_quote_show_create", "ON", ON),
    ("sql_safe_updates", "OFF", Flag),
    ("sql_select_limit", "18446744073709551615", Number(0, u64::MAX)),
    ("sql_warnings", "OFF", OFF),
    ("ssl_ca", "", Fixed),
    ("ssl_cert", "", Fixed),
    ("ssl_cipher", "", Fixed),
    ("ssl_key", "", Fixed),
    ("system_time_zone", "UTC", Fixed),
    ("thread_handling", "pool-of-threads", Fixed),
    ("thread_pool_size", "1", Fixed),
    ("thread_stack", "1048576", Fixed),
    ("time_format", "", Fixed),
    ("time_zone", "SYSTEM", Other),
    ("timestamp", "0", Other),
    ("tls_version", "", Fixed),
    ("tmpdir", "", Fixed),
    ("transaction_isolation", "REPEATABLE-READ", Other),
    ("transaction_read_only", "OFF", Flag),
    // Rows are always checked. ON requires that, and OFF permits it.
    ("unique_checks", "ON", Flag),
    ("updatable_views_with_limit", "ON", ON),
    ("version", VERSION, Fixed),
    ("version_comment", "Spillway", Fixed),
    ("version_compile_machine", std::env::consts::ARCH, Fixed),
    ("version_compile_os", "Linux", Fixed),
    ("wait_timeout", "28800", Limit),
];

/// Variables for these settings: those that are shown, each with a name of its own.
pub(crate) fn storage_settings(settings: &Settings) -> impl Iterator<Item = (String, String)> {
    settings.shown().into_iter().map(|(name, value)| (format!("spillway_{name}"), value))
}

/// Older names of variables, with the names in the table.
pub(crate) const ALIASES: &[(&str, &str)] = &[
    ("identity", "last_insert_id"),
    ("storage_engine", "default_storage_engine"),
    ("tx_isolation", "transaction_isolation"),
    ("tx_read_only", "transaction_read_only"),
];

/// The variable's name in the table.
pub(crate) fn canonical(name: &str) -> &str {
    ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| name)
}

/// A variable's value at the start of an instance, and the values to which it may be set.
pub(crate) fn variable(name: &str) -> Result<(&'static str, VariableKind)> {
    let found = VARIABLES.iter().find(|(other, ..)| *other == name);
    let (_, value, kind) =
        found.ok_or_else(|| SqlError::new(1193, format!("Unknown system variable '{name}'")))?;
    Ok((value, *kind))
}

/// The modes that are accepted: those that are implemented, those that describe what the server
/// always does, and combined modes with the modes that they stand for.
const MODES: &[(&str, &str)] = &[
    ("ANSI", "REAL_AS_FLOAT,PIPES_AS_CONCAT,ANSI_QUOTES,IGNORE_SPACE,ONLY_FULL_GROUP_BY"),
    ("ANSI_QUOTES", ""),
    ("ERROR_FOR_DIVISION_BY_ZERO", ""),
    ("IGNORE_SPACE", ""),
    ("NO_AUTO_CREATE_USER", ""),
    ("NO_AUTO_VALUE_ON_ZERO", ""),
    ("NO_BACKSLASH_ESCAPES", ""),
    ("NO_DIR_IN_CREATE", ""),
    ("NO_ENGINE_SUBSTITUTION", ""),
    ("NO_ZERO_DATE", ""),
    ("NO_ZERO_IN_DATE", ""),
    ("ONLY_FULL_GROUP_BY", ""),
    ("PIPES_AS_CONCAT", ""),
    ("REAL_AS_FLOAT", ""),
    ("STRICT_ALL_TABLES", ""),
    ("STRICT_TRANS_TABLES", ""),
    (
        "TRADITIONAL",
        "STRICT_TRANS_TABLES,STRICT_ALL_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,\
         ERROR_FOR_DIVISION_BY_ZERO,NO_AUTO_CREATE_USER,NO_ENGINE_SUBSTITUTION",
    ),
];

/// MySQL's modes that are not supported.
const MODES_UNSUPPORTED: &[&str] = &[
    "ALLOW_INVALID_DATES",
    "HIGH_NOT_PRECEDENCE",
    "NO_UNSIGNED_SUBTRACTION",
    "PAD_CHAR_TO_FULL_LENGTH",
    "TIME_TRUNCATE_FRACTIONAL",
];

/// Normalizes a `sql_mode`: each name occurs once, and the modes for which a combined mode stands
/// are listed, too.
pub(crate) fn sql_mode(text: &str) -> Result<String> {
    let mut modes: Vec<&str> = Vec::new();
    let upper = text.to_ascii_uppercase();
    let upper = if upper == "0" { "" } else { upper.as_str() };
    for name in upper.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        if MODES_UNSUPPORTED.contains(&name) {
            return Err(SqlError::unsupported(format!("sql_mode {name}")));
        }
        let Some((name, parts)) = MODES.iter().find(|(known, _)| *known == name) else {
            return Err(wrong("sql_mode", name));
        };
        for part in parts.split(',').filter(|part| !part.is_empty()).chain([*name]) {
            if !modes.contains(&part) {
                modes.push(part);
            }
        }
    }
    Ok(modes.join(","))
}

/// 1231: the variable cannot have this value.
#[cold]
pub(crate) fn wrong(name: &str, value: &str) -> SqlError {
    SqlError::new(1231, format!("Variable '{name}' can't be set to the value of '{value}'"))
}

/// The state that a session keeps between statements.
pub(crate) struct Variables {
    pub(crate) system: SystemVariables,
    pub(crate) user: UserVariables,
    pub(crate) database: Option<String>,
    pub(crate) user_name: String,
    pub(crate) host: String,
    pub(crate) user_host: String,
    /// The account's number when the session began.
    pub(crate) account_id: u64,
    /// Whether the session belongs to the owner of the data folder and not to an account.
    pub(crate) is_owner: bool,
    pub(crate) connection_id: u64,
    pub(crate) last_insert_id: u64,
    /// The number that the statement gave to LAST_INSERT_ID().
    pub(crate) given_id: Option<u64>,
    pub(crate) row_count: i64,
    pub(crate) found_rows: u64,
    pub(crate) found_rows_flag: bool,
    /// The session's locks of GET_LOCK. Dropping this releases them.
    pub(crate) locks: OwnLocks,
    /// How often a system variable was set, by the session or globally.
    pub(crate) assignments: u64,
    // The following fields are read often. Each is kept in addition to its text in `system`.
    pub(crate) sql_mode: String,
    /// The parts of `sql_mode` that decide how text is read.
    pub(crate) mode: TextMode,
    /// The collation of string literals: `collation_connection`.
    pub(crate) collation: Collation,
    pub(crate) time_offset_micros: i64,
    /// The options with which transactions begin.
    pub(crate) transactions: TransactionOptions,
    pub(crate) often: Often,
}

/// The values of session variables that almost every statement needs.
#[derive(Clone, Copy, Default)]
pub(crate) struct Often {
    pub(crate) strict: bool,
    pub(crate) no_zero_date: bool,
    pub(crate) no_zero_in_date: bool,
    /// Whether an AUTO_INCREMENT column may be set to zero.
    pub(crate) keeps_zero: bool,
    pub(crate) full_group_by: bool,
    pub(crate) safe_updates: bool,
    /// The most rows that a query without LIMIT returns.
    pub(crate) rows_max: u64,
    /// The most milliseconds that a query may take; 0 for no limit.
    pub(crate) time_max: u64,
    /// How long a statement waits for the lock of a table.
    pub(crate) table_wait: Duration,
    /// The current time that the variable `timestamp` sets, in microseconds since 1970, if it sets
    /// one.
    pub(crate) time_fixed: Option<i64>,
    pub(crate) auto_increment_offset: u64,
    pub(crate) auto_increment_increment: u64,
}

impl Often {
    /// When a query that begins now must have ended, even if it starts over.
    pub(crate) fn query_deadline(&self) -> Option<Duration> {
        let most = Duration::from_millis(self.time_max);
        (self.time_max > 0).then(|| spillway_base::clock::now() + most)
    }
}

impl Variables {
    pub(crate) fn strict(&self) -> bool {
        self.often.strict
    }

    /// Whether a mode is set.
    pub(crate) fn has_mode(&self, name: &str) -> bool {
        self.sql_mode.split(',').any(|mode| mode == name)
    }

    /// The engine of tables whose CREATE statement names none.
    pub(crate) fn default_engine(&self) -> &'static StorageEngine {
        let name = self.system.get("default_storage_engine");
        name.and_then(|name| StorageEngine::named(name)).unwrap_or(DEFAULT_ENGINE)
    }

    /// The value of a numeric variable.
    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.system.get(name).and_then(|text| text.parse().ok())
    }

    /// Whether a flag variable is ON.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.system.get(name).is_some_and(|text| text == "ON")
    }

    /// Computes the values that are kept in addition to their texts.
    pub(crate) fn refresh(&mut self) {
        let text = |name: &str| self.system.get(name).cloned().unwrap_or_default();
        self.sql_mode = text("sql_mode");
        self.mode = TextMode::of(&self.sql_mode);
        self.collation = Collation::from_name(&text("collation_connection")).unwrap_or_default();
        self.time_offset_micros = time_offset(&text("time_zone")).unwrap_or(0);
        let wait = self.number("innodb_lock_wait_timeout").unwrap_or(50);
        self.transactions = TransactionOptions::new()
            .isolation(isolation_of(&text("transaction_isolation")))
            .read_only(self.flag("transaction_read_only"))
            .acts_on_newest(!self.flag("innodb_snapshot_isolation"))
            .durability(durability::parse(&text(durability::NAME)).unwrap_or_default())
            .lock_wait(Duration::from_secs(wait));
        self.often = Often {
            strict: self.sql_mode.contains("STRICT_"),
            no_zero_date: self.has_mode("NO_ZERO_DATE"),
            no_zero_in_date: self.has_mode("NO_ZERO_IN_DATE"),
            keeps_zero: self.has_mode("NO_AUTO_VALUE_ON_ZERO"),
            full_group_by: self.has_mode("ONLY_FULL_GROUP_BY"),
            safe_updates: self.flag("sql_safe_updates"),
            rows_max: self.number("sql_select_limit").unwrap_or(u64::MAX),
            time_max: self.number("max_execution_time").unwrap_or(0),
            table_wait: Duration::from_secs(self.number("lock_wait_timeout").unwrap_or(50)),
            time_fixed: self
                .system
                .get("timestamp")
                .and_then(|text| text.parse::<f64>().ok())
                .filter(|seconds| *seconds > 0.0)
                .map(|seconds| (seconds * 1e6) as i64),
            auto_increment_offset: self.number("auto_increment_offset").unwrap_or(1),
            auto_increment_increment: self.number("auto_increment_increment").unwrap_or(1),
        };
    }
}

/// The offset of a time zone, in microseconds. UTC is the only named zone that is supported.
pub(crate) fn time_offset(zone: &str) -> Option<i64> {
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

/// The isolation level of this name. READ UNCOMMITTED also reads only committed data.
pub(crate) fn isolation_of(level: &str) -> Isolation {
    match level {
        "READ-COMMITTED" | "READ-UNCOMMITTED" => Isolation::ReadCommitted,
        "SERIALIZABLE" => Isolation::Serializable,
        _ => Isolation::RepeatableRead,
    }
}

/// The version that clients see. By the number before the first dash they decide which SQL they may
/// use.
pub const VERSION: &str = "8.0.36-Spillway-0.1.0";
