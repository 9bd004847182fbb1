//! An open database that speaks SQL, and the sessions over it.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::{Condvar, Mutex};
use spillway::{
    CancelHandle, Database, Durability, Isolation, Savepoint, Transaction, TransactionOptions,
};
use spillway_types::{ColumnType, DateTime, Value, ValueRef};
use sqlparser::ast;
use sqlparser::tokenizer::Token;

use crate::api::{Outcome, ResultColumn, ResultSink, Status};
use crate::catalog::{CATALOG, Catalog, Change, TableDef, UserDef, utc};
use crate::ddl::Ddl;
use crate::dml::{self, Changed};
use crate::errors::{Result, SqlError};
use crate::expr::{Binder, Context};
use crate::parse::{self, Statement, solid, word};
use crate::query;

/// What clients are told of the version. Clients look at the number before the first dash to learn which SQL they may use.
pub const VERSION: &str = "8.0.36-Spillway-0.1.0";

/// Counts of a table that are handed out from memory.
#[derive(Default)]
struct Counters {
    auto_increment: HashMap<u32, u64>,
    rows: HashMap<u32, u64>,
}

/// Who uses a table: statements share it, DDL has it alone.
#[derive(Default)]
struct MetadataLocks {
    state: Mutex<HashMap<(String, String), (usize, bool)>>,
    changed: Condvar,
}

struct Process {
    user: String,
    host: String,
    database: Option<String>,
    statement: Option<String>,
    cancel: Option<CancelHandle>,
    killed: Arc<AtomicBool>,
}

struct Inner {
    db: Database,
    catalog: ArcSwap<Catalog>,
    counters: Mutex<Counters>,
    metadata: MetadataLocks,
    processes: Mutex<BTreeMap<u64, Process>>,
    globals: Mutex<BTreeMap<String, String>>,
    numbers: AtomicU64,
    questions: AtomicU64,
    started: Duration,
}

/// An open database that speaks SQL. Cheap to clone.
#[derive(Clone)]
pub struct Instance(Arc<Inner>);

/// System variables that a session may read, with their values at its start. What can be set is checked where it is.
const VARIABLES: &[(&str, &str)] = &[
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
    ("max_execution_time", "0"),
    ("net_buffer_length", "16384"),
    ("net_read_timeout", "30"),
    ("net_write_timeout", "60"),
    ("performance_schema", "OFF"),
    ("protocol_version", "10"),
    ("query_cache_size", "0"),
    ("query_cache_type", "OFF"),
    ("read_only", "OFF"),
    ("session_track_schema", "ON"),
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
    ("have_ssl", "YES"),
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
    pub(crate) time_offset_micros: i64,
}

impl Variables {
    pub(crate) fn strict(&self) -> bool {
        self.sql_mode.contains("STRICT_")
    }
}

impl Instance {
    /// Opens the catalog of a database, and begins one where there is none: with a user `root` that has no password, and a
    /// database `test`.
    ///
    /// # Errors
    /// What the database says, and 1034 for a damaged catalog.
    pub fn open(db: Database) -> Result<Instance> {
        let catalog = Catalog::load(&db)?;
        let mut globals: BTreeMap<String, String> = VARIABLES
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        if db.settings().durability != Durability::Commit {
            globals.insert("innodb_flush_log_at_trx_commit".to_owned(), "2".to_owned());
        }
        Ok(Instance(Arc::new(Inner {
            db,
            catalog: ArcSwap::from_pointee(catalog),
            counters: Mutex::default(),
            metadata: MetadataLocks::default(),
            processes: Mutex::default(),
            globals: Mutex::new(globals),
            numbers: AtomicU64::new(1),
            questions: AtomicU64::new(0),
            started: spillway_base::clock::now(),
        })))
    }

    /// The database beneath.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.0.db
    }

    /// The user that a name from a host is, for the handshake.
    #[must_use]
    pub fn user(&self, name: &str, host: &str) -> Option<UserDef> {
        self.0.catalog.load().user(name, host).cloned()
    }

    /// Whether `root` may come in without a password.
    #[must_use]
    pub fn root_password_is_empty(&self) -> bool {
        self.0
            .catalog
            .load()
            .users
            .values()
            .any(|user| user.name == "root" && user.stored.is_empty())
    }

    /// Starts a session for a user who has proved to be one.
    #[must_use]
    pub fn session(&self, user: &str, host: &str, connection_id: u64) -> Session {
        let user_host = self.user(user, host).map_or_else(|| "%".to_owned(), |user| user.host);
        let killed = Arc::new(AtomicBool::new(false));
        let process = Process {
            user: user.to_owned(),
            host: host.to_owned(),
            database: None,
            statement: None,
            cancel: None,
            killed: killed.clone(),
        };
        self.0.processes.lock().insert(connection_id, process);
        let system = self.0.globals.lock().clone();
        let variables = Variables {
            sql_mode: system.get("sql_mode").cloned().unwrap_or_default(),
            system,
            user: HashMap::new(),
            database: None,
            user_name: user.to_owned(),
            host: host.to_owned(),
            user_host,
            connection_id,
            last_insert_id: 0,
            row_count: 0,
            found_rows: 0,
            found_rows_flag: false,
            time_offset_micros: 0,
        };
        Session {
            instance: self.clone(),
            variables: RefCell::new(variables),
            txn: None,
            savepoints: Vec::new(),
            held: Vec::new(),
            autocommit: true,
            next_isolation: None,
            next_read_only: None,
            explicit: false,
            statements: HashMap::new(),
            statements_next: 1,
            named: HashMap::new(),
            warnings: Vec::new(),
            multi_statements: true,
            killed,
            connection_id,
        }
    }

    /// Interrupts a session's statement, or ends the session. `false` when there is none of that number.
    pub fn kill(&self, connection_id: u64, connection: bool) -> bool {
        let processes = self.0.processes.lock();
        let Some(process) = processes.get(&connection_id) else { return false };
        if connection {
            process.killed.store(true, Ordering::Release);
        }
        if let (Some(cancel), true) = (&process.cancel, process.statement.is_some() || connection) {
            cancel.cancel();
        }
        true
    }

    /// Interrupts every running statement.
    pub fn shut_down(&self) {
        for process in self.0.processes.lock().values() {
            process.killed.store(true, Ordering::Release);
            if let Some(cancel) = &process.cancel {
                cancel.cancel();
            }
        }
    }

    /// The global system variables.
    pub(crate) fn status_lines(&self) -> Vec<(String, String)> {
        let mut lines = vec![
            ("Questions".to_owned(), self.0.questions.load(Ordering::Relaxed).to_string()),
            ("Threads_connected".to_owned(), self.0.processes.lock().len().to_string()),
            (
                "Uptime".to_owned(),
                (spillway_base::clock::now() - self.0.started).as_secs().to_string(),
            ),
        ];
        let metrics = self.0.db.metrics().into_iter();
        lines.extend(
            metrics.map(|metric| (format!("Spillway_{}", metric.name), metric.value.to_string())),
        );
        lines
    }

    /// Id, user, host, database and statement of each session.
    pub(crate) fn process_lines(
        &self,
    ) -> Vec<(u64, String, String, Option<String>, Option<String>)> {
        let processes = self.0.processes.lock();
        let line = |(id, p): (&u64, &Process)| {
            (*id, p.user.clone(), p.host.clone(), p.database.clone(), p.statement.clone())
        };
        processes.iter().map(line).collect()
    }

    /// A number that was not given before, in this life.
    pub(crate) fn next_number(&self) -> u64 {
        self.0.numbers.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn now_utc(&self) -> DateTime {
        utc(spillway_base::clock::wall().as_micros() as i64)
    }

    pub(crate) fn next_table_id(&self, _txn: &Transaction) -> Result<u32> {
        let used = self.0.catalog.load().tables.values().map(|table| table.id).max().unwrap_or(0);
        let given = self.0.numbers.fetch_max(u64::from(used) + 1, Ordering::Relaxed);
        let _ = given;
        Ok(self.next_number() as u32)
    }

    pub(crate) fn forget_counters(&self, table: u32) {
        let mut counters = self.0.counters.lock();
        counters.auto_increment.remove(&table);
        counters.rows.remove(&table);
    }

    /// The number of a new row in a table without a primary key.
    pub(crate) fn next_row_number(&self, txn: &Transaction, table: &TableDef) -> Result<u64> {
        if let Some(next) = self.0.counters.lock().rows.get_mut(&table.id) {
            *next += 1;
            return Ok(*next);
        }
        let last = last_key(&self.0.db, txn, table.rows())?;
        let last = last.and_then(|key| key.first_chunk().copied()).map_or(0, u64::from_be_bytes);
        let mut counters = self.0.counters.lock();
        let next = counters.rows.entry(table.id).or_insert(last);
        *next = (*next).max(last) + 1;
        Ok(*next)
    }

    /// The next number of a table's AUTO_INCREMENT column.
    pub(crate) fn next_auto_increment(&self, txn: &Transaction, table: &TableDef) -> Result<u64> {
        self.load_auto_increment(txn, table)?;
        let mut counters = self.0.counters.lock();
        let next = counters.auto_increment.entry(table.id).or_insert(1);
        let given = *next;
        *next = next.saturating_add(1);
        Ok(given)
    }

    /// A number that a statement gave itself: the counter goes on after it.
    pub(crate) fn note_auto_increment(
        &self,
        txn: &Transaction,
        table: &TableDef,
        given: u64,
    ) -> Result<()> {
        self.load_auto_increment(txn, table)?;
        let mut counters = self.0.counters.lock();
        let next = counters.auto_increment.entry(table.id).or_insert(1);
        *next = (*next).max(given.saturating_add(1));
        Ok(())
    }

    /// The counter as SHOW CREATE TABLE shows it, if it is known.
    pub(crate) fn auto_increment_of(&self, table: &TableDef) -> u64 {
        let known = self.0.counters.lock().auto_increment.get(&table.id).copied();
        if let Some(next) = known {
            return next;
        }
        let txn = self.0.db.begin(TransactionOptions::new().read_only(true));
        let _ = self.load_auto_increment(&txn, table);
        self.0
            .counters
            .lock()
            .auto_increment
            .get(&table.id)
            .copied()
            .unwrap_or(table.auto_increment)
    }

    /// After an opening, the counter begins after the largest number that any row has.
    fn load_auto_increment(&self, txn: &Transaction, table: &TableDef) -> Result<()> {
        if self.0.counters.lock().auto_increment.contains_key(&table.id) {
            return Ok(());
        }
        let Some(column) = table.auto_column() else { return Ok(()) };
        let leads = |parts: &[crate::catalog::IndexPart]| {
            parts.first().is_some_and(|part| part.column == column)
        };
        let space = if leads(&table.primary) {
            Some(table.rows())
        } else {
            let index = table.indexes.iter().find(|index| leads(&index.parts));
            index.map(|index| spillway_base::TableId(index.space))
        };
        let mut next = table.auto_increment.max(1);
        if let Some(space) = space
            && let Some(key) = last_key(&self.0.db, txn, space)?
            && let Some(bytes) = key.get(1..9).and_then(|rest| rest.first_chunk::<8>())
        {
            let mut number = u64::from_be_bytes(*bytes);
            if !table.columns[column].ty.is_unsigned() {
                number ^= 1 << 63;
            }
            if (number as i64) > 0 || table.columns[column].ty.is_unsigned() {
                next = next.max(number.saturating_add(1));
            }
        }
        let mut counters = self.0.counters.lock();
        let known = counters.auto_increment.entry(table.id).or_insert(next);
        *known = (*known).max(next);
        Ok(())
    }

    fn reload(&self) -> Result<()> {
        let mut fresh = Catalog::load(&self.0.db)?;
        fresh.version = self.0.catalog.load().version + 1;
        self.0.catalog.store(Arc::new(fresh));
        Ok(())
    }
}

/// The last key of a key space, as others left it.
fn last_key(db: &Database, txn: &Transaction, space: spillway::Table) -> Result<Option<Vec<u8>>> {
    let fresh = db.begin(TransactionOptions::new().read_only(true));
    let mut best: Option<Vec<u8>> = None;
    for from in [&fresh, txn] {
        match from.scan(space, spillway::KeyRange::ALL, spillway::Direction::Backward) {
            Ok(mut scan) => {
                if scan.advance()? {
                    best = best.max(Some(scan.key().to_vec()));
                }
            }
            Err(error) if error.kind() == spillway::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(best)
}

impl MetadataLocks {
    fn lock(
        &self,
        table: &(String, String),
        exclusive: bool,
        wait: Duration,
        killed: &AtomicBool,
    ) -> Result<()> {
        let clock = spillway_base::clock::Clock::system();
        let end = clock.now() + wait;
        let mut state = self.state.lock();
        loop {
            let (users, alone) = state.entry(table.clone()).or_default();
            if !*alone && (!exclusive || *users == 0) {
                if exclusive {
                    *alone = true;
                } else {
                    *users += 1;
                }
                return Ok(());
            }
            if clock.now() >= end {
                return Err(SqlError::new(
                    1205,
                    "Lock wait timeout exceeded; try restarting transaction",
                ));
            }
            if killed.load(Ordering::Acquire) {
                return Err(SqlError::new(1317, "Query execution was interrupted"));
            }
            self.changed.wait_for(&mut state, Duration::from_millis(50));
        }
    }

    fn unlock(&self, table: &(String, String), exclusive: bool) {
        let mut state = self.state.lock();
        if let Some((users, alone)) = state.get_mut(table) {
            if exclusive {
                *alone = false;
            } else {
                *users = users.saturating_sub(1);
            }
            if *users == 0 && !*alone {
                state.remove(table);
            }
        }
        drop(state);
        self.changed.notify_all();
    }
}

/// A statement that was prepared.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Its number.
    pub id: u32,
    /// Its parameters.
    pub params: usize,
    /// The columns of its result; none for a statement without one.
    pub columns: Vec<ResultColumn>,
}

struct Stored {
    tokens: Vec<Token>,
    statement: Arc<Statement>,
    params: usize,
    /// The plan of a query, and the catalog and database it was made for.
    plan: Option<(u64, Option<String>, Arc<query::QueryPlan>)>,
}

/// A session: one client's transactions, variables and prepared statements.
pub struct Session {
    instance: Instance,
    variables: RefCell<Variables>,
    txn: Option<Transaction>,
    savepoints: Vec<(String, Savepoint)>,
    /// Tables that the transaction uses.
    held: Vec<(String, String)>,
    autocommit: bool,
    next_isolation: Option<Isolation>,
    next_read_only: Option<bool>,
    /// Whether a transaction was begun by a statement.
    explicit: bool,
    statements: HashMap<u32, Stored>,
    statements_next: u32,
    named: HashMap<String, u32>,
    warnings: Vec<SqlError>,
    multi_statements: bool,
    killed: Arc<AtomicBool>,
    connection_id: u64,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end_transaction();
        // A session that took this one's place under its number keeps the entry.
        let mut processes = self.instance.0.processes.lock();
        if processes
            .get(&self.connection_id)
            .is_some_and(|process| Arc::ptr_eq(&process.killed, &self.killed))
        {
            processes.remove(&self.connection_id);
        }
    }
}

/// How often a first statement starts over when it meets rows that were changed after its snapshot (DESIGN, D12).
const RESTARTS: usize = 100;

impl Session {
    /// Runs one or more statements.
    ///
    /// # Errors
    /// The first that fails; what those before it gave has reached the sink.
    pub fn query(&mut self, sql: &str, sink: &mut dyn ResultSink) -> Result<()> {
        let statements = parse::split(sql)?;
        if statements.is_empty() {
            // A comment alone is a statement that does nothing; nothing at all is none.
            if sql.trim_matches(|c: char| c.is_whitespace() || c == ';').is_empty() {
                return Err(SqlError::new(1065, "Query was empty"));
            }
            return sink.ok(&self.outcome(Changed::default(), false));
        }
        if statements.len() > 1 && !self.multi_statements {
            return Err(SqlError::syntax("several statements in one query"));
        }
        let last = statements.len() - 1;
        for (at, tokens) in statements.into_iter().enumerate() {
            let shown = if at == 0 && last == 0 {
                sql.to_owned()
            } else {
                tokens.iter().map(ToString::to_string).collect()
            };
            let (statement, params) =
                parse::parse(tokens).inspect_err(|error| self.note_error(error))?;
            if params > 0 {
                return Err(SqlError::syntax("near '?'"));
            }
            self.run(&statement, None, &[], &shown, at < last, sink)?;
        }
        Ok(())
    }

    /// Prepares a statement.
    ///
    /// # Errors
    /// Where it is none, or names what there is not.
    pub fn prepare(&mut self, sql: &str) -> Result<Prepared> {
        let mut statements = parse::split(sql)?;
        let (Some(tokens), true) = (statements.pop(), statements.is_empty()) else {
            return Err(SqlError::syntax("a prepared statement is one statement"));
        };
        let (statement, params) =
            parse::parse(tokens.clone()).inspect_err(|error| self.note_error(error))?;
        let mut stored = Stored { tokens, statement: Arc::new(statement), params, plan: None };
        let mut columns = Vec::new();
        if let Statement::Sql(statement) = &*stored.statement
            && let ast::Statement::Query(query) = &**statement
        {
            let plan = self.plan(query)?;
            columns.clone_from(&plan.columns);
            let catalog = self.instance.0.catalog.load().version;
            stored.plan = Some((catalog, self.variables.borrow().database.clone(), plan));
        }
        let id = self.statements_next;
        self.statements_next += 1;
        self.statements.insert(id, stored);
        Ok(Prepared { id, params, columns })
    }

    /// Runs a prepared statement.
    ///
    /// # Errors
    /// 1243 for an unknown number, 1210 for too few parameters, and as [`Session::query`].
    pub fn execute(
        &mut self,
        id: u32,
        params: Vec<Value>,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        let unknown = || {
            SqlError::new(
                1243,
                format!("Unknown prepared statement handler ({id}) given to EXECUTE"),
            )
        };
        let stored = self.statements.get(&id).ok_or_else(unknown)?;
        if params.len() != stored.params {
            return Err(SqlError::new(1210, "Incorrect arguments to EXECUTE"));
        }
        let statement = stored.statement.clone();
        let shown: String = stored.tokens.iter().map(ToString::to_string).collect();
        self.run(&statement, Some(id), &params, &shown, false, sink)
    }

    /// The number of a prepared statement's parameters.
    #[must_use]
    pub fn param_count(&self, id: u32) -> Option<usize> {
        self.statements.get(&id).map(|stored| stored.params)
    }

    /// Forgets a prepared statement.
    pub fn close_statement(&mut self, id: u32) {
        self.statements.remove(&id);
    }

    /// Makes a database the current one.
    ///
    /// # Errors
    /// 1049 for one that there is not.
    pub fn use_database(&mut self, name: &str) -> Result<()> {
        if !self.instance.0.catalog.load().has_database(name) {
            return Err(SqlError::new(1049, format!("Unknown database '{name}'")));
        }
        self.variables.borrow_mut().database = Some(name.to_owned());
        if let Some(process) = self.instance.0.processes.lock().get_mut(&self.connection_id) {
            process.database = Some(name.to_owned());
        }
        Ok(())
    }

    /// Rolls back, and forgets all that was set and prepared.
    pub fn reset(&mut self) {
        self.end_transaction();
        let (database, flag) = {
            let variables = self.variables.borrow();
            (variables.database.clone(), variables.found_rows_flag)
        };
        let (user, host) = {
            let variables = self.variables.borrow();
            (variables.user_name.clone(), variables.host.clone())
        };
        let mut fresh = self.instance.session(&user, &host, self.connection_id);
        self.variables.swap(&fresh.variables);
        std::mem::swap(&mut self.killed, &mut fresh.killed);
        drop(fresh);
        if let Some(process) = self.instance.0.processes.lock().get_mut(&self.connection_id) {
            process.database.clone_from(&database);
        }
        let mut variables = self.variables.borrow_mut();
        variables.database = database;
        variables.found_rows_flag = flag;
        drop(variables);
        self.statements.clear();
        self.named.clear();
        self.warnings.clear();
        self.autocommit = true;
        self.next_isolation = None;
        self.next_read_only = None;
    }

    /// The columns of a table of the current database.
    ///
    /// # Errors
    /// 1146 for one that there is not.
    pub fn field_list(&mut self, table: &str) -> Result<Vec<ResultColumn>> {
        let sql = format!("SELECT * FROM `{}`", table.replace('`', "``"));
        let (statement, _) = parse::parse(parse::split(&sql)?.pop().unwrap_or_default())?;
        match &statement {
            Statement::Sql(statement) => match &**statement {
                ast::Statement::Query(query) => Ok(self.plan(query)?.columns.clone()),
                _ => Ok(Vec::new()),
            },
            Statement::Own(..) => Ok(Vec::new()),
        }
    }

    /// The session's state, as the protocol reports it.
    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            in_transaction: self.txn.is_some(),
            autocommit: self.autocommit,
            more_results: false,
        }
    }

    /// Whether the connection should end.
    #[must_use]
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    /// What the client said of itself when it connected.
    pub fn set_flags(&mut self, found_rows: bool, multi_statements: bool) {
        self.variables.borrow_mut().found_rows_flag = found_rows;
        self.multi_statements = multi_statements;
    }

    fn note_error(&mut self, error: &SqlError) {
        self.warnings = vec![error.clone()];
    }

    fn outcome(&self, changed: Changed, more: bool) -> Outcome {
        Outcome {
            affected_rows: changed.affected,
            last_insert_id: changed.insert_id,
            warnings: self.warnings.len().min(usize::from(u16::MAX)) as u16,
            status: Status { more_results: more, ..self.status() },
            info: changed.info,
        }
    }

    // Statements.

    fn run(
        &mut self,
        statement: &Statement,
        prepared: Option<u32>,
        params: &[Value],
        shown: &str,
        more: bool,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        if self.is_killed() {
            return Err(SqlError::new(1317, "Query execution was interrupted"));
        }
        self.instance.0.questions.fetch_add(1, Ordering::Relaxed);
        self.note_statement(Some(shown));
        let outcome = match statement {
            Statement::Own(first, tokens) => self.run_own(first, tokens, params, more, sink),
            Statement::Sql(statement) => {
                self.warnings.clear();
                self.run_sql(statement, prepared, params, more, sink)
            }
        };
        self.note_statement(None);
        if let Err(error) = &outcome {
            if !self.warnings.contains(error) {
                self.warnings.push(error.clone());
            }
            self.variables.borrow_mut().row_count = -1;
            if error.ends_transaction {
                self.end_transaction();
            }
        }
        outcome
    }

    fn note_statement(&self, shown: Option<&str>) {
        if let Some(process) = self.instance.0.processes.lock().get_mut(&self.connection_id) {
            process.statement = shown.map(|shown| shown.chars().take(1024).collect());
            process.cancel = self.txn.as_ref().map(|txn| txn.cancel_handle());
        }
    }

    fn plan(&self, query: &ast::Query) -> Result<Arc<query::QueryPlan>> {
        let catalog = self.instance.0.catalog.load_full();
        let variables = self.variables.borrow();
        let lookup = |scope: &str, name: &str| self.system_variable(&variables, scope, name);
        let plan =
            query::plan_query(&catalog, variables.database.as_deref(), &lookup, query, None, &[])?;
        Ok(Arc::new(plan))
    }

    fn system_variable(&self, variables: &Variables, scope: &str, name: &str) -> Option<Value> {
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
    fn variable_lines(&self, global: bool) -> Vec<(String, String)> {
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

    fn options(&mut self) -> TransactionOptions {
        let variables = self.variables.borrow();
        let text = |name: &str| variables.system.get(name).cloned().unwrap_or_default();
        let isolation = self.next_isolation.take().unwrap_or_else(|| {
            match text("transaction_isolation").as_str() {
                "READ-COMMITTED" | "READ-UNCOMMITTED" => Isolation::ReadCommitted,
                "SERIALIZABLE" => Isolation::Serializable,
                _ => Isolation::RepeatableRead,
            }
        });
        let read_only =
            self.next_read_only.take().unwrap_or_else(|| text("transaction_read_only") == "ON");
        let durability = match text("innodb_flush_log_at_trx_commit").as_str() {
            "0" | "2" => Durability::Within(Duration::from_secs(1)),
            _ => Durability::Commit,
        };
        let wait = text("innodb_lock_wait_timeout").parse().unwrap_or(50);
        TransactionOptions::new()
            .isolation(isolation)
            .read_only(read_only)
            .durability(durability)
            .lock_wait(Duration::from_secs(wait))
    }

    fn begin(&mut self) {
        let options = self.options();
        let txn = self.instance.0.db.begin(options);
        if let Some(process) = self.instance.0.processes.lock().get_mut(&self.connection_id) {
            process.cancel = Some(txn.cancel_handle());
        }
        self.txn = Some(txn);
    }

    fn commit(&mut self) -> Result<()> {
        self.savepoints.clear();
        self.explicit = false;
        let outcome = match self.txn.take() {
            Some(txn) => txn.commit().wait().map(drop).map_err(SqlError::from),
            None => Ok(()),
        };
        self.release_tables();
        outcome
    }

    fn end_transaction(&mut self) {
        self.savepoints.clear();
        self.explicit = false;
        self.txn = None;
        self.release_tables();
    }

    fn release_tables(&mut self) {
        for table in std::mem::take(&mut self.held) {
            self.instance.0.metadata.unlock(&table, false);
        }
    }

    /// Takes the tables that a statement names, until its transaction ends.
    fn use_tables(&mut self, statement: &ast::Statement) -> Result<()> {
        let wait = self.lock_wait();
        for (db, table) in tables_of(statement, self.variables.borrow().database.as_deref()) {
            let key = (db, table);
            if !self.held.contains(&key) {
                self.instance.0.metadata.lock(&key, false, wait, &self.killed)?;
                self.held.push(key);
            }
        }
        Ok(())
    }

    fn lock_wait(&self) -> Duration {
        let variables = self.variables.borrow();
        let seconds = variables.system.get("lock_wait_timeout").and_then(|text| text.parse().ok());
        Duration::from_secs(seconds.unwrap_or(50))
    }

    fn run_sql(
        &mut self,
        statement: &ast::Statement,
        prepared: Option<u32>,
        params: &[Value],
        more: bool,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        use ast::Statement as S;
        match statement {
            S::Query(_) | S::Insert(_) | S::Update(_) | S::Delete(_) => {}
            S::Explain { statement, analyze, .. } => {
                if *analyze {
                    return Err(SqlError::unsupported("EXPLAIN ANALYZE"));
                }
                return self.explain(statement, more, sink);
            }
            other => return self.run_ddl(other, more, sink),
        }
        self.check_rights(statement)?;
        let opened = self.txn.is_none();
        if opened {
            self.begin();
        }
        let outcome = self
            .use_tables(statement)
            .and_then(|()| self.run_in_transaction(statement, prepared, params, more, sink));
        match outcome {
            Ok(outcome) => {
                if opened && self.autocommit && !self.explicit {
                    self.commit()?;
                }
                let mut variables = self.variables.borrow_mut();
                if let Some(outcome) = &outcome {
                    variables.row_count = outcome.affected as i64;
                    if outcome.insert_id > 0 {
                        variables.last_insert_id = outcome.insert_id;
                    }
                } else {
                    variables.row_count = -1;
                }
                drop(variables);
                match outcome {
                    Some(changed) => sink.ok(&self.outcome(changed, more)),
                    None => sink.end_rows(&self.outcome(Changed::default(), more)),
                }
            }
            Err(error) => {
                if opened && self.autocommit && !self.explicit {
                    self.end_transaction();
                }
                Err(error)
            }
        }
    }

    /// Runs a query or a change; a failed one is undone. Answers what it changed, or `None` for a result set, which the
    /// caller ends.
    fn run_in_transaction(
        &mut self,
        statement: &ast::Statement,
        prepared: Option<u32>,
        params: &[Value],
        more: bool,
        sink: &mut dyn ResultSink,
    ) -> Result<Option<Changed>> {
        let _ = more;
        let catalog = self.instance.0.catalog.load_full();
        let plan = match statement {
            ast::Statement::Query(query) => Some(self.query_plan(query, prepared, &catalog)?),
            _ => None,
        };
        let Some(txn) = &self.txn else {
            return Err(SqlError::new(1105, "no transaction is open"));
        };
        let had_snapshot = txn.snapshot_taken();
        let start = txn.savepoint();
        for attempt in 0.. {
            txn.begin_statement();
            let context = self.context(txn, &catalog, params);
            let outcome = match (&plan, statement) {
                (Some(plan), _) => self.select(&context, plan, sink).map(|()| None),
                (None, statement) => self.change(&context, statement).map(Some),
            };
            let warnings = context.warnings.into_inner();
            match outcome {
                Err(error) if error.conflict && !had_snapshot && attempt < RESTARTS => {
                    txn.rollback_to(start);
                    txn.forget_snapshot();
                }
                Err(error) => {
                    txn.rollback_to(start);
                    self.warnings.extend(warnings);
                    return Err(error);
                }
                Ok(changed) => {
                    self.warnings.extend(warnings);
                    return Ok(changed);
                }
            }
        }
        Ok(None)
    }

    fn query_plan(
        &mut self,
        query: &ast::Query,
        prepared: Option<u32>,
        catalog: &Arc<Catalog>,
    ) -> Result<Arc<query::QueryPlan>> {
        let database = self.variables.borrow().database.clone();
        if let Some(stored) = prepared.and_then(|id| self.statements.get(&id))
            && let Some((version, db, plan)) = &stored.plan
            && *version == catalog.version
            && *db == database
        {
            return Ok(plan.clone());
        }
        let plan = self.plan(query)?;
        if let Some(stored) = prepared.and_then(|id| self.statements.get_mut(&id)) {
            stored.plan = Some((catalog.version, database, plan.clone()));
        }
        Ok(plan)
    }

    fn context<'a>(
        &'a self,
        txn: &'a Transaction,
        catalog: &'a Catalog,
        params: &'a [Value],
    ) -> Context<'a> {
        let offset = self.variables.borrow().time_offset_micros;
        let fixed = self
            .variables
            .borrow()
            .system
            .get("timestamp")
            .and_then(|text| text.parse::<f64>().ok());
        let wall = match fixed {
            Some(seconds) if seconds > 0.0 => (seconds * 1e6) as i64,
            _ => spillway_base::clock::wall().as_micros() as i64,
        };
        Context {
            txn,
            instance: &self.instance,
            catalog,
            variables: &self.variables,
            params,
            outer: RefCell::default(),
            cached: RefCell::default(),
            inserted: RefCell::default(),
            now: utc(wall + offset),
            warnings: RefCell::default(),
        }
    }

    /// Sends a query's rows. Those of a locking read are held until they may be told (DESIGN, D2).
    fn select(
        &self,
        context: &Context<'_>,
        plan: &query::QueryPlan,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        let locking = matches!(&plan.body, query::Body::Select(select) if select.lock.is_some());
        let mut count = 0;
        if locking || context.txn.has_writes() {
            let mut rows: Vec<Vec<Value>> = Vec::new();
            query::run_query(context, plan, &mut |row| {
                rows.push(row.to_vec());
                Ok(true)
            })?;
            context.txn.wait_until_told()?;
            sink.columns(&plan.columns)?;
            for row in &rows {
                let refs: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
                sink.row(&refs)?;
            }
            count = rows.len() as u64;
        } else {
            let mut begun = false;
            query::run_query(context, plan, &mut |row| {
                if !begun {
                    sink.columns(&plan.columns)?;
                    begun = true;
                }
                count += 1;
                if let [one] = row {
                    sink.row(&[one.as_ref()])?;
                } else {
                    let refs: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
                    sink.row(&refs)?;
                }
                Ok(true)
            })?;
            if !begun {
                sink.columns(&plan.columns)?;
            }
        }
        self.variables.borrow_mut().found_rows = count;
        Ok(())
    }

    fn change(&self, context: &Context<'_>, statement: &ast::Statement) -> Result<Changed> {
        let snapshot: BTreeMap<String, String> = self.variables.borrow().system.clone();
        let lookup = |_: &str, name: &str| snapshot.get(name).map(|text| Value::Text(text.clone()));
        match statement {
            ast::Statement::Insert(insert) => dml::insert(context, insert, &lookup),
            ast::Statement::Update(update) => dml::update(context, update, &lookup),
            ast::Statement::Delete(delete) => dml::delete(context, delete, &lookup),
            other => Err(SqlError::unsupported(other)),
        }
    }

    fn check_rights(&self, statement: &ast::Statement) -> Result<()> {
        let variables = self.variables.borrow();
        let right = match statement {
            ast::Statement::Query(_) => "SELECT",
            ast::Statement::Insert(_) => "INSERT",
            ast::Statement::Update(_) => "UPDATE",
            ast::Statement::Delete(_) => "DELETE",
            ast::Statement::Drop { .. } => "DROP",
            ast::Statement::AlterTable(_) => "ALTER",
            ast::Statement::CreateIndex(_) => "INDEX",
            _ => "CREATE",
        };
        let catalog = self.instance.0.catalog.load();
        let Some(user) = catalog.user(&variables.user_name, &variables.host) else {
            return Err(SqlError::new(
                1045,
                format!("Access denied for user '{}'@'{}'", variables.user_name, variables.host),
            ));
        };
        if user.may(right, "*") {
            return Ok(());
        }
        for (db, table) in tables_of(statement, variables.database.as_deref()) {
            if !user.may(right, &db) && !db.eq_ignore_ascii_case("information_schema") {
                return Err(SqlError::new(
                    1142,
                    format!(
                        "{right} command denied to user '{}'@'{}' for table '{table}'",
                        variables.user_name, variables.host
                    ),
                ));
            }
        }
        Ok(())
    }

    fn run_ddl(
        &mut self,
        statement: &ast::Statement,
        more: bool,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        self.check_rights(statement)?;
        let tables = tables_of(statement, self.variables.borrow().database.as_deref());
        let run = |ddl: &mut Ddl<'_>| {
            if ddl.execute(statement)? {
                Ok(())
            } else {
                Err(SqlError::unsupported(statement_name(statement)))
            }
        };
        self.ddl(run, tables)?;
        sink.ok(&self.outcome(Changed::default(), more))
    }

    /// Runs a change of the catalog in a transaction of its own, with the tables to itself.
    fn ddl(
        &mut self,
        body: impl FnOnce(&mut Ddl<'_>) -> Result<()>,
        tables: Vec<(String, String)>,
    ) -> Result<()> {
        self.commit()?;
        let wait = self.lock_wait();
        let mut alone = Vec::new();
        let mut locked = Ok(());
        for table in tables {
            if alone.contains(&table) {
                continue;
            }
            locked = self.instance.0.metadata.lock(&table, true, wait, &self.killed);
            if locked.is_err() {
                break;
            }
            alone.push(table);
        }
        let outcome = locked.and_then(|()| {
            let txn = self.instance.0.db.begin(TransactionOptions::new());
            // One change of the catalog at a time.
            let space = txn.table(CATALOG)?;
            txn.lock(space, b"ddl", spillway::LockMode::Exclusive, spillway::LockWait::Wait)?;
            let catalog = self.instance.0.catalog.load_full();
            let (database, checks) = {
                let variables = self.variables.borrow();
                let checks = variables
                    .system
                    .get("foreign_key_checks")
                    .is_none_or(|text| text != "OFF" && text != "0");
                (variables.database.clone(), checks)
            };
            let mut warnings = Vec::new();
            let mut ddl = Ddl {
                instance: &self.instance,
                txn: &txn,
                catalog: &catalog,
                database: database.as_deref(),
                warnings: &mut warnings,
                foreign_key_checks: checks,
            };
            let done = body(&mut ddl);
            self.warnings.extend(warnings);
            done?;
            txn.commit().wait()?;
            self.instance.reload()
        });
        for table in alone {
            self.instance.0.metadata.unlock(&table, true);
        }
        let gone = self.variables.borrow().database.clone();
        if let Some(database) = gone
            && !self.instance.0.catalog.load().has_database(&database)
        {
            self.variables.borrow_mut().database = None;
        }
        outcome
    }

    fn explain(
        &mut self,
        statement: &ast::Statement,
        more: bool,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        let ast::Statement::Query(query) = statement else {
            return Err(SqlError::unsupported("EXPLAIN of a change"));
        };
        let plan = self.plan(query)?;
        let rows = crate::show::explain(&plan);
        self.send(&crate::show::explain_columns(), rows, more, sink)
    }

    fn send(
        &self,
        columns: &[(&str, ColumnType)],
        rows: Vec<Vec<Value>>,
        more: bool,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        sink.columns(&crate::show::result_columns(columns))?;
        for row in &rows {
            let refs: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
            sink.row(&refs)?;
        }
        sink.end_rows(&self.outcome(Changed::default(), more))
    }

    // Statements that are the session's own.

    fn run_own(
        &mut self,
        first: &str,
        tokens: &[Token],
        params: &[Value],
        more: bool,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        let plain = solid(tokens);
        let words: Vec<String> = plain.iter().map(|token| word(Some(token))).collect();
        let at = |index: usize| words.get(index).map_or("", String::as_str);
        if first != "show" {
            self.warnings.clear();
        }
        match first {
            "begin" => self.start(&words)?,
            "start" if at(1) == "transaction" => self.start(&words)?,
            "commit" => {
                self.commit()?;
                if words.iter().any(|word| word == "chain")
                    && !words.iter().any(|word| word == "no")
                {
                    self.start(&words)?;
                }
            }
            "rollback" if at(1) == "to" || at(2) == "to" => {
                let name = name_of(plain.last());
                self.rollback_to(&name)?;
            }
            "rollback" => {
                self.end_transaction();
                if words.iter().any(|word| word == "chain")
                    && !words.iter().any(|word| word == "no")
                {
                    self.start(&words)?;
                }
            }
            "savepoint" => {
                let name = name_of(plain.get(1));
                if self.txn.is_none() && !self.autocommit {
                    self.begin();
                }
                if let Some(txn) = &self.txn {
                    let savepoint = txn.savepoint();
                    self.savepoints.retain(|(other, _)| *other != name);
                    self.savepoints.push((name, savepoint));
                }
            }
            "release" => {
                let name = name_of(plain.last());
                let found = self.savepoints.iter().position(|(other, _)| *other == name);
                let found = found.ok_or_else(|| {
                    SqlError::new(1305, format!("SAVEPOINT {name} does not exist"))
                })?;
                self.savepoints.truncate(found);
            }
            "use" => self.use_database(&name_of(plain.get(1)))?,
            "set" => self.set(tokens, &plain)?,
            "do" => {
                let list = split_commas(tokens.get(1..).unwrap_or_default());
                for part in list {
                    self.evaluate(&part)?;
                }
            }
            "kill" => {
                let connection = at(1) != "query";
                let id = self.evaluate(&plain[plain.len() - 1..])?;
                let id = spillway_types::convert::to_i128(&id.as_ref()).unwrap_or(0);
                if !self.instance.kill(u64::try_from(id).unwrap_or(0), connection) {
                    return Err(SqlError::new(1094, format!("Unknown thread id: {id}")));
                }
            }
            "prepare" => {
                let name = name_of(plain.get(1));
                let text = self.evaluate(plain.get(3..).unwrap_or_default())?.to_text();
                let prepared = self.prepare(&text)?;
                if let Some(old) = self.named.insert(name, prepared.id) {
                    self.statements.remove(&old);
                }
            }
            "execute" => {
                let name = name_of(plain.get(1));
                let unknown = || {
                    SqlError::new(
                        1243,
                        format!("Unknown prepared statement handler ({name}) given to EXECUTE"),
                    )
                };
                let id = *self.named.get(&name).ok_or_else(unknown)?;
                let mut values = Vec::new();
                for part in split_commas(plain.get(3..).unwrap_or_default()) {
                    values.push(self.evaluate(&part)?);
                }
                return self.execute(id, values, sink);
            }
            "deallocate" => {
                let name = name_of(plain.last());
                let unknown = || {
                    SqlError::new(
                        1243,
                        format!(
                            "Unknown prepared statement handler ({name}) given to DEALLOCATE PREPARE"
                        ),
                    )
                };
                let id = self.named.remove(&name).ok_or_else(unknown)?;
                self.statements.remove(&id);
            }
            // Tables are locked by the transactions that use them; one session's LOCK TABLES keeps no other out.
            "lock" | "unlock" if at(1) == "tables" || at(1) == "table" => self.commit()?,
            "flush"
                if ["privileges", "tables", "status", "logs", "hosts", "table"]
                    .contains(&at(1)) => {}
            "analyze" | "optimize" | "check" | "repair"
                if words.iter().any(|word| word == "table") =>
            {
                return self.table_maintenance(first, &plain, more, sink);
            }
            "alter" => self.alter(tokens, &plain)?,
            "rename" if at(1) == "table" => self.rename(&plain)?,
            "create" | "drop" | "grant" | "revoke" => self.users(tokens)?,
            "show" | "describe" | "desc" | "explain" => {
                return self.show(&plain, &words, params, more, sink);
            }
            other => return Err(SqlError::unsupported(other.to_ascii_uppercase())),
        }
        sink.ok(&self.outcome(Changed::default(), more))
    }

    fn start(&mut self, words: &[String]) -> Result<()> {
        self.commit()?;
        let has = |word: &str| words.iter().any(|other| other == word);
        if has("read") && (has("only") || has("write")) {
            self.next_read_only = Some(has("only"));
        }
        self.begin();
        self.explicit = true;
        if let (Some(txn), true) = (&self.txn, has("snapshot")) {
            txn.take_snapshot();
        }
        Ok(())
    }

    fn rollback_to(&mut self, name: &str) -> Result<()> {
        let found = self.savepoints.iter().position(|(other, _)| other == name);
        let found =
            found.ok_or_else(|| SqlError::new(1305, format!("SAVEPOINT {name} does not exist")))?;
        if let Some(txn) = &self.txn {
            txn.rollback_to(self.savepoints[found].1);
        }
        self.savepoints.truncate(found + 1);
        Ok(())
    }

    /// The value of an expression that stands by itself.
    fn evaluate(&self, tokens: &[Token]) -> Result<Value> {
        let expr = parse::parse_tokens(tokens)?;
        let catalog = self.instance.0.catalog.load_full();
        let bound = {
            let variables = self.variables.borrow();
            let lookup = |scope: &str, name: &str| self.system_variable(&variables, scope, name);
            let mut binder = Binder::new(&catalog, variables.database.as_deref(), &lookup);
            binder.bind(&expr)?
        };
        let fresh;
        let txn = match &self.txn {
            Some(txn) => txn,
            None => {
                fresh = self.instance.0.db.begin(TransactionOptions::new());
                &fresh
            }
        };
        let context = self.context(txn, &catalog, &[]);
        context.eval(&bound.expr, &[])
    }

    fn set(&mut self, tokens: &[Token], plain: &[Token]) -> Result<()> {
        let words: Vec<String> = plain.iter().map(|token| word(Some(token))).collect();
        let at = |index: usize| words.get(index).map_or("", String::as_str);
        if at(1) == "password" {
            return self.users(tokens);
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
            self.set_one(&solid(&part))?;
        }
        Ok(())
    }

    fn set_transaction(&mut self, words: &[String], scope: &str) -> Result<()> {
        let has = |word: &str| words.iter().any(|other| other == word);
        let mut settings = Vec::new();
        if has("isolation") {
            let level = if has("serializable") {
                "SERIALIZABLE"
            } else if has("committed") {
                "READ-COMMITTED"
            } else if has("uncommitted") {
                "READ-UNCOMMITTED"
            } else {
                "REPEATABLE-READ"
            };
            settings.push(("transaction_isolation", level));
        }
        if has("only") {
            settings.push(("transaction_read_only", "ON"));
        } else if has("write") {
            settings.push(("transaction_read_only", "OFF"));
        }
        if scope == "next" {
            if self.txn.is_some() {
                return Err(SqlError::new(
                    1568,
                    "Transaction characteristics can't be changed while a transaction is in progress",
                ));
            }
            for (name, value) in settings {
                match (name, value) {
                    ("transaction_read_only", value) => self.next_read_only = Some(value == "ON"),
                    (_, "SERIALIZABLE") => self.next_isolation = Some(Isolation::Serializable),
                    (_, "REPEATABLE-READ") => self.next_isolation = Some(Isolation::RepeatableRead),
                    _ => self.next_isolation = Some(Isolation::ReadCommitted),
                }
            }
            return Ok(());
        }
        for (name, value) in settings {
            self.assign(scope == "global", name, &Value::from(value))?;
        }
        Ok(())
    }

    /// `name = value`, with any of the ways to say whose variable it is.
    fn set_one(&mut self, part: &[Token]) -> Result<()> {
        let split = part.iter().position(|token| matches!(token, Token::Eq | Token::Assignment));
        let split = split.ok_or_else(|| SqlError::syntax("SET needs a value"))?;
        let target: String =
            part[..split].iter().map(ToString::to_string).collect::<Vec<_>>().join("");
        let target = target.replace('`', "");
        let value_tokens = &part[split + 1..];
        if let Some(name) = target.strip_prefix('@').filter(|name| !name.starts_with('@')) {
            let value = self.evaluate(value_tokens)?;
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
            tokens => self.evaluate(tokens)?,
        };
        self.assign(global, &name, &value)
    }

    fn assign(&mut self, global: bool, name: &str, value: &Value) -> Result<()> {
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
                self.variables.borrow_mut().sql_mode = text.to_ascii_uppercase()
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
        if global {
            self.instance.0.globals.lock().insert(name.to_owned(), text);
        } else {
            self.variables.borrow_mut().system.insert(name.to_owned(), text);
        }
        Ok(())
    }

    fn users(&mut self, tokens: &[Token]) -> Result<()> {
        let (name, host, user_host) = {
            let variables = self.variables.borrow();
            (variables.user_name.clone(), variables.host.clone(), variables.user_host.clone())
        };
        let own_password = word(tokens.first()) == "set";
        let catalog = self.instance.0.catalog.load_full();
        let may = catalog
            .user(&name, &host)
            .is_some_and(|user| user.may("CREATE USER", "*") || user.may("GRANT OPTION", "*"));
        if !may && !own_password {
            return Err(SqlError::new(
                1227,
                "Access denied; you need (at least one of) the CREATE USER privilege(s) for this operation",
            ));
        }
        self.ddl(
            |ddl| {
                let change = Change::new(ddl.txn)?;
                if crate::users::execute(&change, ddl.catalog, tokens, (&name, &user_host))? {
                    Ok(())
                } else {
                    let shown: String = tokens.iter().map(ToString::to_string).collect();
                    Err(SqlError::unsupported(shown))
                }
            },
            Vec::new(),
        )
    }

    /// ALTER TABLE: the clauses that the parser does not know are taken here, the rest goes to it.
    fn alter(&mut self, tokens: &[Token], plain: &[Token]) -> Result<()> {
        let words: Vec<String> = plain.iter().map(|token| word(Some(token))).collect();
        match words.get(1).map(String::as_str) {
            Some("user") => return self.users(tokens),
            Some("database" | "schema") => return Ok(()),
            Some("table") => {}
            _ => return Err(SqlError::unsupported("ALTER")),
        }
        if matches!(words.last().map(String::as_str), Some("keys"))
            && words.iter().any(|word| word == "disable" || word == "enable")
        {
            return Ok(());
        }
        // `ENGINE = x` alone says what the table is already, or is told that it is not.
        let engine = words.iter().position(|word| word == "engine");
        if let Some(engine) = engine {
            let value = name_of(plain.last());
            let path: String = plain[2..engine].iter().map(ToString::to_string).collect();
            let database = self.variables.borrow().database.clone();
            let (db, name) = path_of(&path, database.as_deref())?;
            let table = (**self.instance.0.catalog.load().table(&db, &name)?).clone();
            return self.ddl(
                |ddl| {
                    let mut table = table;
                    ddl.table_option(&mut table, "ENGINE", &value)
                },
                vec![(db, name)],
            );
        }
        let dialect = sqlparser::dialect::MySqlDialect {};
        let mut parser = sqlparser::parser::Parser::new(&dialect).with_tokens(tokens.to_vec());
        let statement = parser.parse_statement().map_err(SqlError::syntax)?;
        if parser.peek_token().token != Token::EOF {
            return Err(SqlError::syntax(format!("near '{}'", parser.peek_token())));
        }
        self.check_rights(&statement)?;
        let tables = tables_of(&statement, self.variables.borrow().database.as_deref());
        self.ddl(|ddl| ddl.execute(&statement).map(drop), tables)
    }

    fn rename(&mut self, plain: &[Token]) -> Result<()> {
        let database = self.variables.borrow().database.clone();
        let mut moves = Vec::new();
        for part in split_commas(plain.get(2..).unwrap_or_default()) {
            let to = part.iter().position(|token| word(Some(token)) == "to");
            let to = to.ok_or_else(|| SqlError::syntax("RENAME TABLE a TO b"))?;
            let text =
                |tokens: &[Token]| tokens.iter().map(ToString::to_string).collect::<String>();
            moves.push((
                path_of(&text(&part[..to]), database.as_deref())?,
                path_of(&text(&part[to + 1..]), database.as_deref())?,
            ));
        }
        let tables = moves.iter().map(|(from, _)| from.clone()).collect();
        self.ddl(
            |ddl| {
                for ((db, name), (to_db, to)) in &moves {
                    let mut table = (**ddl.catalog.table(db, name)?).clone();
                    ddl.rename(&mut table, to_db, to)?;
                    Change::new(ddl.txn)?.put_table(&table)?;
                }
                Ok(())
            },
            tables,
        )
    }

    fn table_maintenance(
        &mut self,
        what: &str,
        plain: &[Token],
        more: bool,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        let database = self.variables.borrow().database.clone();
        let from = plain.iter().position(|token| word(Some(token)) == "table").unwrap_or(0);
        let mut rows = Vec::new();
        for part in split_commas(plain.get(from + 1..).unwrap_or_default()) {
            let text: String = part.iter().map(ToString::to_string).collect();
            let (db, name) = path_of(&text, database.as_deref())?;
            let known = self.instance.0.catalog.load().table(&db, &name).is_ok();
            let (kind, text) = if known {
                ("status", "OK".to_owned())
            } else {
                ("Error", format!("Table '{db}.{name}' doesn't exist"))
            };
            rows.push(vec![
                Value::Text(format!("{db}.{name}")),
                Value::from(what),
                Value::from(kind),
                Value::Text(text),
            ]);
        }
        let text = || ColumnType::VarChar(255);
        self.send(
            &[("Table", text()), ("Op", text()), ("Msg_type", text()), ("Msg_text", text())],
            rows,
            more,
            sink,
        )
    }

    fn show(
        &mut self,
        plain: &[Token],
        words: &[String],
        _params: &[Value],
        more: bool,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        let at = |index: usize| words.get(index).map_or("", String::as_str);
        if at(0) == "show"
            && (matches!(at(1), "warnings" | "errors")
                || at(3) == "warnings"
                || words.iter().any(|word| word == "warnings"))
        {
            let rows = self.warnings.iter().map(|warning| {
                let note =
                    matches!(warning.code, 1007 | 1008 | 1050 | 1051 | 1266 | 1286 | 1365 | 1478);
                let level = if note {
                    if matches!(warning.code, 1050 | 1051 | 1007 | 1008) {
                        "Note"
                    } else {
                        "Warning"
                    }
                } else {
                    "Error"
                };
                vec![
                    Value::from(level),
                    Value::Int(i64::from(warning.code)),
                    Value::Text(warning.message.clone()),
                ]
            });
            let columns = [
                ("Level", ColumnType::VarChar(7)),
                ("Code", ColumnType::INT),
                ("Message", ColumnType::VarChar(512)),
            ];
            let rows = rows.collect();
            return self.send(&columns, rows, more, sink);
        }
        self.warnings.clear();
        let global = at(1) == "global";
        let lines = if words.iter().any(|word| word == "variables") {
            self.variable_lines(global)
        } else {
            Vec::new()
        };
        let catalog = self.instance.0.catalog.load_full();
        let variables = self.variables.borrow();
        let shown = crate::show::show(&self.instance, &catalog, &variables, lines, plain, words)?;
        drop(variables);
        let columns: Vec<(&str, ColumnType)> =
            shown.columns.iter().map(|(name, ty)| (name.as_str(), ty.clone())).collect();
        self.send(&columns, shown.rows, more, sink)
    }
}

fn statement_name(statement: &ast::Statement) -> String {
    let text = statement.to_string();
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}

fn name_of(token: Option<&Token>) -> String {
    match token {
        Some(Token::Word(word)) => word.value.clone(),
        Some(Token::SingleQuotedString(text)) => text.clone(),
        Some(token) => token.to_string(),
        None => String::new(),
    }
}

/// Database and table of a name.
pub(crate) fn path_of(text: &str, database: Option<&str>) -> Result<(String, String)> {
    let text = text.replace('`', "");
    match text.split_once('.') {
        Some((db, name)) => Ok((db.to_owned(), name.to_owned())),
        None => {
            let db = database.ok_or_else(|| SqlError::new(1046, "No database selected"))?;
            Ok((db.to_owned(), text))
        }
    }
}

/// Splits tokens at the commas that stand in no parentheses.
fn split_commas(tokens: &[Token]) -> Vec<Vec<Token>> {
    let (mut parts, mut depth) = (vec![Vec::new()], 0);
    for token in tokens {
        match token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            Token::Comma if depth == 0 => {
                parts.push(Vec::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = parts.last_mut() {
            last.push(token.clone());
        }
    }
    parts.retain(|part| part.iter().any(|token| !matches!(token, Token::Whitespace(_))));
    parts
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

/// The tables that a statement names, anywhere in it.
fn tables_of(statement: &ast::Statement, database: Option<&str>) -> Vec<(String, String)> {
    let mut tables = Vec::new();
    let _ = ast::visit_relations(statement, |name| {
        if let Ok(path) = path_of(&name.to_string(), database)
            && !tables.contains(&path)
        {
            tables.push(path);
        }
        std::ops::ControlFlow::<()>::Continue(())
    });
    if let ast::Statement::Drop { names, .. } = statement {
        tables.extend(names.iter().filter_map(|name| path_of(&name.to_string(), database).ok()));
    }
    if let ast::Statement::Truncate(truncate) = statement {
        let names = truncate.table_names.iter();
        tables.extend(names.filter_map(|target| path_of(&target.name.to_string(), database).ok()));
    }
    tables
}
