//! An open SQL database, and its sessions.
//!
//! [`Instance`] holds the state that all sessions share. A [`Session`] belongs to one client. A
//! statement passes from [`Session::query`] through `run` (queries and changes), `ddl` (changes of
//! the catalog) or `admin_statements` (SET, transactions, SHOW and the like).
//!
//! A session consists of components, which this module calls owners. Each owner holds the state of
//! one concern: `transactions` (with `savepoints` and the metadata locks, `metadata/lock_context`),
//! `security_context`, `diagnostics`, `prepared/statements`, `plan_cache`, `suspension` and
//! `status_variables`. An owner has no access to the session. Three modules need several owners at
//! once: `compiled/compiler`, `ddl` and `variable_setter`. The session lends these modules the
//! owners that they need.

mod admin_statements;
mod backup;
mod building;
mod catalog_cache;
mod compiled;
mod counters;
mod ddl;
mod ddl_needs;
mod diagnostics;
mod instance;
mod large_values;
mod login;
mod metadata;
mod plan_cache;
mod point;
mod prepared;
mod refreshing;
mod run;
mod savepoints;
mod security_context;
mod server_hooks;
mod set;
mod status_variables;
mod suspension;
mod transactions;
mod variable_setter;
mod variable_values;

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::Duration;

use spillway::{Csn, TransactionOptions};
use spillway_base::stall::Attached;
use spillway_base::thread;
use spillway_types::{Collation, Value};
use sqlparser::ast;

use crate::api::{Outcome, ResultColumn, ResultSink, Status};
use crate::dml::Changed;
use crate::errors::{Result, SqlError};
use crate::expression::Room;
use crate::parser::{self, RowSource, Statement, TextMode};
use crate::process::{Called, Process};
use crate::variables::{Often, OwnLocks, SystemVariables, UserVariables, Variables};
use compiled::{Slot, StatementInput, is_rows};
use diagnostics::DiagnosticsArea;
use plan_cache::PlanCache;
use prepared::PreparedStatements;
use security_context::{SecurityContext, SessionAccount};
use status_variables::StatusVariables;
use suspension::{SuspendedStatement, Suspension};
use transactions::TransactionState;

pub use instance::Instance;
pub use login::Account;
pub use prepared::Prepared;
pub use server_hooks::Limits;

/// Parsing a statement of at most this many bytes takes no longer than a read from a device.
const BRIEF_TEXT: usize = 128;

/// A session: one client's transactions, variables and prepared statements. Each part owns its
/// state; the session runs statements with them.
pub struct Session {
    instance: Instance,
    connection_id: u64,
    /// The view that other sessions have of this one.
    process: Arc<Process>,
    variables: RefCell<Variables>,
    security: SecurityContext,
    transaction: TransactionState,
    diagnostics: DiagnosticsArea,
    status_variables: StatusVariables,
    prepared: PreparedStatements,
    plan_cache: PlanCache,
    suspension: Suspension,
    /// Whether a query may contain several statements.
    multi_statements: bool,
    /// Buffers that statements reuse.
    room: Room,
}

/// Whether a statement only shows or sets something. It does not replace the waits that SHOW STATUS
/// reports for the last statement.
fn only_shows(statement: &Statement) -> bool {
    let Statement::Own(first, _) = statement else { return false };
    matches!(first.as_str(), "show" | "set" | "use")
}

impl Instance {
    /// Starts a session for a user that the caller has authenticated.
    #[must_use]
    pub fn session(&self, user: &str, host: &str, connection_id: u64) -> Session {
        // An unknown user gets the id of no account, and so no privileges.
        let nobody = || SessionAccount {
            name: user.to_owned(),
            host: "%".to_owned(),
            id: u64::MAX,
            is_owner: false,
        };
        let account = self.user(user, host);
        let account = account.as_ref().map_or_else(nobody, SessionAccount::of);
        self.session_of(account, host, connection_id)
    }

    /// Starts a session for the owner of the data folder, which has all privileges and needs no
    /// account.
    #[must_use]
    pub fn session_of_owner(&self, connection_id: u64) -> Session {
        let (name, host) = ("root".to_owned(), "%".to_owned());
        let owner = SessionAccount { name, host, id: 0, is_owner: true };
        self.session_of(owner, "localhost", connection_id)
    }

    /// Registers the process of a session, and creates its initial variables.
    fn begin_process(
        &self,
        account: &SessionAccount,
        host: &str,
        connection_id: u64,
    ) -> (Arc<Process>, Variables) {
        let process = Arc::new(Process::new(&account.name, host, &account.host));
        self.0.processes.lock().insert(connection_id, process.clone());
        let system = SystemVariables::new(self.0.globals.lock().clone());
        let mut variables = Variables {
            system,
            user: UserVariables::new(self.0.db.budget()),
            database: None,
            user_name: account.name.clone(),
            host: host.to_owned(),
            user_host: account.host.clone(),
            account_id: account.id,
            is_owner: account.is_owner,
            connection_id,
            last_insert_id: 0,
            given_id: None,
            row_count: 0,
            found_rows: 0,
            found_rows_flag: false,
            assignments: 0,
            locks: OwnLocks::new(&self.0.named, &process, connection_id, self.0.db.budget()),
            sql_mode: String::new(),
            mode: TextMode::default(),
            collation: Collation::default(),
            time_offset_micros: 0,
            transactions: TransactionOptions::new(),
            often: Often::default(),
        };
        variables.refresh();
        (process, variables)
    }

    fn session_of(&self, account: SessionAccount, host: &str, connection_id: u64) -> Session {
        let (process, variables) = self.begin_process(&account, host, connection_id);
        let autocommit = variables.flag("autocommit");
        let transaction =
            TransactionState::new(self.clone(), process.clone(), connection_id, autocommit);
        let security = SecurityContext::new(self.clone(), account, host);
        Session {
            instance: self.clone(),
            connection_id,
            process,
            variables: RefCell::new(variables),
            security,
            transaction,
            diagnostics: DiagnosticsArea::default(),
            status_variables: StatusVariables::default(),
            prepared: PreparedStatements::new(),
            plan_cache: PlanCache::default(),
            suspension: Suspension::default(),
            multi_statements: true,
            room: Room::default(),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.transaction.rollback();
        // Another session that has been registered under this number keeps its entry.
        let mut processes = self.instance.0.processes.lock();
        if processes
            .get(&self.connection_id)
            .is_some_and(|process| Arc::ptr_eq(process, &self.process))
        {
            processes.remove(&self.connection_id);
        }
        self.instance.0.ran.add(&self.process.ran);
    }
}

impl Session {
    /// Runs one or more statements.
    ///
    /// # Errors
    /// The error of the first statement that fails. The results of the statements before it have
    /// reached the sink.
    pub fn query(&mut self, sql: &str, sink: &mut dyn ResultSink) -> Result<()> {
        if let Some(outcome) = self.query_by_shape(sql, sink) {
            return outcome;
        }
        if sql.len() > BRIEF_TEXT {
            thread::long_ahead();
        }
        let mut memory = parser::TextMemory::of(sql, self.instance.database().budget());
        let statements = parser::split(sql, self.variables.borrow().mode, &mut memory)?;
        if statements.is_empty() {
            // A comment alone is a statement that does nothing. An empty text is an error.
            if sql.trim_matches(|c: char| c.is_whitespace() || c == ';').is_empty() {
                return Err(SqlError::new(1065, "Query was empty"));
            }
            return sink.ok(&self.outcome(Changed::default(), false));
        }
        if statements.len() > 1 && !self.multi_statements {
            return Err(SqlError::syntax(
                "near ';': send one statement at a time, or connect with CLIENT_MULTI_STATEMENTS",
            ));
        }
        let last = statements.len() - 1;
        for (at, tokens) in statements.into_iter().enumerate() {
            let text;
            let shown = if last == 0 {
                sql
            } else {
                text = tokens.iter().map(ToString::to_string).collect::<String>();
                &text
            };
            if at > 0 {
                // Lets the pool serve the clients that the previous statement has unblocked.
                spillway_base::thread::blocking(|| ());
            }
            let bound = parser::Depth::of_tokens(&tokens)
                .inspect_err(|error| self.diagnostics.note_parse_error(error))?;
            bound.run(|| {
                let parsed = parser::parse(tokens, &mut memory)
                    .inspect_err(|error| self.diagnostics.note_parse_error(error))?;
                if parsed.params > 0 {
                    return Err(SqlError::syntax("near '?'"));
                }
                let mut slot = Slot::new(parsed.statement, parsed.depth);
                self.run_slot(&mut slot, &[], None, Called::Text(shown), at < last, sink)
            })?;
        }
        Ok(())
    }

    /// Makes statements leave their thread if they must wait for a row lock, or must read a row
    /// from a device and the database can read asynchronously
    /// ([`spillway::Database::overlap_reads`]). [`Session::query`] and [`Session::execute`] then
    /// fail without having sent anything to the sink, and [`Session::waits_until`] returns `Some`.
    /// When `waker` is called, or the time has come, [`Session::resume`] continues the statement.
    pub fn set_waker(&mut self, waker: Waker) {
        self.process.cancel.set_waker(waker.clone());
        self.suspension.set_waker(waker);
    }

    /// The time, by [`spillway_base::clock::now`], until which the suspended statement waits;
    /// `None` if no statement is suspended. The session runs no other statement meanwhile.
    #[must_use]
    pub fn waits_until(&self) -> Option<Duration> {
        if !self.suspension.is_suspended() {
            return None;
        }
        Some(self.transaction.current().and_then(|txn| txn.waits_until()).unwrap_or_default())
    }

    /// Continues the suspended statement.
    ///
    /// # Errors
    /// As [`Session::query`]. The statement may be suspended again.
    pub fn resume(&mut self, sink: &mut dyn ResultSink) -> Result<()> {
        let Some(mut suspended) = self.suspension.take() else { return Ok(()) };
        let params = std::mem::take(&mut suspended.params);
        let mut slot = suspended.slot.take();
        let depth = slot.depth;
        depth.run(|| {
            let given = StatementInput { params: &params, rows: None };
            self.run_begun(&mut slot, given, Some(suspended), false, sink)
        })
    }

    /// Makes a database the current one.
    ///
    /// # Errors
    /// 1049 if it does not exist, 1102 or 1059 if the name is invalid, 1046 if the name is empty.
    pub fn use_database(&mut self, name: &str) -> Result<()> {
        if name.is_empty() {
            return Err(SqlError::new(1046, "No database selected"));
        }
        self.security.check_sees(name)?;
        if !self.instance.0.catalog.load().has_database(name) {
            return Err(SqlError::unknown_database(name));
        }
        self.variables.borrow_mut().database = Some(name.to_owned());
        self.process.doing.lock().database = Some(name.to_owned());
        Ok(())
    }

    /// Rolls back, resets the variables, and releases prepared statements and locked tables.
    pub fn reset(&mut self) {
        self.transaction.rollback();
        // The session keeps its account, even if there is a new account of that name.
        let (account, host) = (self.security.account(), self.security.client_host());
        let (process, mut variables) =
            self.instance.begin_process(account, host, self.connection_id);
        {
            let before = self.variables.borrow();
            variables.database.clone_from(&before.database);
            variables.found_rows_flag = before.found_rows_flag;
            variables.assignments = before.assignments + 1;
        }
        process.doing.lock().database.clone_from(&variables.database);
        let ended = std::mem::replace(&mut self.process, process);
        self.instance.0.ran.add(&ended.ran);
        self.transaction.reset(self.process.clone(), variables.flag("autocommit"));
        *self.variables.borrow_mut() = variables;
        self.status_variables.reset_waits();
        self.prepared.close_all();
        self.diagnostics.clear();
    }

    /// Returns the columns of a table of the current database.
    ///
    /// # Errors
    /// 1146 if the table does not exist.
    pub fn field_list(&mut self, table: &str) -> Result<Vec<ResultColumn>> {
        let sql = format!("SELECT * FROM `{}`", table.replace('`', "``"));
        let mut memory = parser::TextMemory::of(&sql, self.instance.database().budget());
        let tokens = parser::split(&sql, parser::TextMode::default(), &mut memory)?.pop();
        let parsed = parser::parse(tokens.unwrap_or_default(), &mut memory)?;
        let parser::Parsed { statement, depth, .. } = parsed;
        let catalog = self.instance.0.catalog.load_full();
        let compiled = self.compiler().compile(&Slot::new(statement, depth), &[], &catalog)?;
        Ok(compiled.columns().to_vec())
    }

    /// Adds a warning or note of the running statement, or of a connection before its first
    /// statement.
    pub fn warn(&mut self, error: SqlError) {
        self.diagnostics.warn(error, &self.variables.borrow());
    }

    /// The session's state, as the protocol reports it.
    #[must_use]
    pub fn status(&self) -> Status {
        Status {
            in_transaction: self.transaction.is_open() && !self.suspension.opened_transaction(),
            autocommit: self.transaction.autocommit(),
            no_backslash_escapes: self.variables.borrow().mode.no_backslash_escapes,
            more_results: false,
        }
    }

    /// The CSN of the state that the open transaction reads, if it has read. A simulation compares
    /// the transaction's results with the model's state there.
    #[must_use]
    pub fn snapshot_csn(&self) -> Option<Csn> {
        self.transaction.current().and_then(|txn| txn.snapshot_csn())
    }

    /// Whether the connection should end.
    #[must_use]
    pub fn is_killed(&self) -> bool {
        self.process.stop.killed.load(Ordering::Acquire)
    }

    /// Sets the capabilities that the client announced when it connected.
    pub fn set_flags(&mut self, found_rows: bool, multi_statements: bool) {
        self.variables.borrow_mut().found_rows_flag = found_rows;
        self.multi_statements = multi_statements;
    }

    fn outcome(&self, changed: Changed, more: bool) -> Outcome {
        Outcome {
            affected_rows: changed.affected,
            last_insert_id: if changed.insert_id > 0 {
                changed.insert_id
            } else {
                changed.explicit_id
            },
            warnings: self.diagnostics.count().min(usize::from(u16::MAX)) as u16,
            status: Status { more_results: more, ..self.status() },
            info: changed.info,
        }
    }

    /// Runs a statement, and keeps its compiled form in the slot.
    fn run_slot(
        &mut self,
        slot: &mut Slot,
        params: &[Value],
        rows: Option<&mut dyn RowSource>,
        called: Called<'_>,
        more: bool,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        if self.is_killed() {
            return Err(SqlError::new(1317, "Query execution was interrupted"));
        }
        // A statement that another one runs, such as EXECUTE, is not counted as the client's.
        let asked = self.process.running().is_none();
        self.security.count_statement(&slot.statement, asked)?;
        self.process.ran.begun();
        if rows.is_none()
            && let Some(outcome) = self.run_point(slot, params, more, sink)
        {
            return outcome;
        }
        self.variables.borrow_mut().given_id = None;
        let process = &self.process;
        let account = match &**slot.statement {
            Statement::Own(_, tokens) => crate::privilege::shown(tokens),
            Statement::Sql(_) => None,
        };
        process.begin(account.as_deref().map_or(called, Called::Text));
        if !only_shows(&slot.statement) {
            self.status_variables.begin_statement(&process.stalls);
        }
        self.run_begun(slot, StatementInput { params, rows }, None, more, sink)
    }

    /// Runs a statement that has begun, or resumes one that was suspended.
    fn run_begun(
        &mut self,
        slot: &mut Slot,
        given: StatementInput<'_, '_>,
        suspended: Option<SuspendedStatement>,
        more: bool,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        let is_brief = slot.is_brief() || slot.is_control() && !self.transaction.has_writes();
        if suspended.is_some() || !is_brief {
            thread::long_ahead();
        }
        let stalls = self.status_variables.attach(&self.process.stalls);
        if slot.sql().is_some_and(is_rows) {
            let is_query = matches!(slot.sql(), Some(ast::Statement::Query(_)));
            self.diagnostics.begin_statement(is_query);
            let outcome = self.run_rows(slot, given, suspended, more, sink);
            return self.ran(outcome, stalls);
        }
        let outcome = match &**slot.statement.clone() {
            Statement::Own(first, tokens) => {
                // An inner statement, such as that of EXECUTE, waits on this thread, because
                // nothing could resume the outer one.
                let waker = self.suspension.take_waker();
                let outcome = self.run_own(first, tokens, given.params, more, sink);
                self.suspension.put_waker_back(waker);
                outcome
            }
            Statement::Sql(statement) => {
                self.diagnostics.begin_statement(false);
                self.run_other(statement, more, sink)
            }
        };
        self.ran(outcome, stalls)
    }

    /// Ends a statement that has run, unless it has been suspended.
    fn ran(&mut self, mut outcome: Result<()>, stalls: Attached) -> Result<()> {
        self.status_variables.detach(stalls);
        if self.suspension.is_suspended() {
            return outcome;
        }
        self.diagnostics.forget_stale();
        self.process.end();
        if let Err(error) = &mut outcome {
            if error.code == 1034 && !self.security.may_see_keys(error.table) {
                error.hide_value();
            }
            self.instance.name_table(error, self.transaction.isolation());
            self.diagnostics.note_error(error);
            self.variables.borrow_mut().row_count = -1;
            if error.ends_transaction {
                self.transaction.rollback();
            }
        }
        outcome
    }
}
