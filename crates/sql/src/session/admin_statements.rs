//! Runs statements about the session itself (SET, transactions and the like), and statements that
//! only show something.

use std::time::Duration;

use spillway::TransactionOptions;
use spillway_base::thread::blocking;
use spillway_types::{Collation, ColumnType, Value};
use sqlparser::tokenizer::Token;

use super::Session;
use super::backup::back_up;
use super::instance::Instance;
use super::metadata::{HeldLocks, MetadataLockContext, MetadataLockMode, Name};
use super::run::check_snapshot;
use super::security_context::SecurityContext;
use super::transactions::acknowledge;
use super::variable_values::variable_lines;
use crate::api::{ColumnFlags, ResultSink};
use crate::dml::Changed;
use crate::errors::{Result, SqlError};
use crate::executor::check_table;
use crate::expression::truth_of;
use crate::information_schema::Shown;
use crate::parser;
use crate::parser::{name_of, parts_of, path_of, solid, split_commas, word};
use crate::planner::{Binder, ScopeColumn, ScopeTable};
use crate::privilege::SYSTEM_USER;
use crate::process::Process;

/// The objects that FLUSH may name.
const FLUSHED: [&str; 7] =
    ["privileges", "tables", "status", "logs", "hosts", "table", "user_resources"];

impl Session {
    pub(super) fn run_own(
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
            self.diagnostics.clear();
        }
        match first {
            "commit" if words.len() <= 2 && words[1..].iter().all(|word| word == "work") => {
                let commit = self.transaction.commit_later()?;
                return acknowledge(commit, &self.outcome(Changed::default(), more), sink);
            }
            "begin" | "start" | "commit" | "rollback" | "savepoint" | "release" => {
                let usual = self.variables.borrow().transactions;
                self.transaction.control(&plain, &words, usual)?;
            }
            "use" => match plain.as_slice() {
                [_, name @ Token::Word(_)] => self.use_database(&name_of(Some(name)))?,
                _ => return Err(near(&plain, 2)),
            },
            "set" => self.set(tokens, &plain, params)?,
            "do" => {
                for part in split_commas(tokens.get(1..).unwrap_or_default()) {
                    self.evaluate(&part, params)?;
                }
            }
            "kill" => {
                let (id, connection) = kill_target(&plain);
                let id = self.evaluate(id, params)?;
                let id = spillway_types::convert::to_i128(&id.as_ref()).unwrap_or(0);
                self.kill(u64::try_from(id).unwrap_or(0), connection)?;
            }
            "prepare" => self.prepare_named(&plain)?,
            "execute" => return self.execute_named(&plain, sink),
            "deallocate" => self.prepared.deallocate(&plain)?,
            "unlock" if matches!(at(1), "tables" | "table") && plain.len() == 2 => {
                self.transaction.unlock_tables()?;
            }
            "lock" if matches!(at(1), "tables" | "table") => {
                let variables = self.variables.borrow();
                let (database, wait) = (variables.database.as_deref(), variables.often.table_wait);
                self.transaction.lock_tables(&plain[2..], database, &self.security, wait)?;
            }
            "flush" if words.iter().any(|word| word == "lock" || word == "export") => {
                return Err(SqlError::unsupported("FLUSH TABLES ... WITH READ LOCK"));
            }
            "flush" if FLUSHED.contains(&at(1)) => {
                flush(&self.instance, &self.security, at(1), &plain)?;
            }
            "analyze" | "optimize" | "check" | "repair"
                if words.iter().any(|word| word == "table") =>
            {
                return self.table_maintenance(first, &plain, more, sink);
            }
            "backup" => {
                let (instance, stop) = (&self.instance, &self.process.stop);
                let (columns, rows) = back_up(instance, &self.security, stop, &plain)?;
                return self.send(&columns, rows, more, sink);
            }
            "alter" => self.ddl().alter(tokens, &plain)?,
            "rename" if at(1) == "table" => self.ddl().rename(&plain)?,
            "create" | "drop" | "grant" | "revoke" => self.ddl().accounts(tokens)?,
            "show" | "describe" | "desc" | "explain" => {
                return self.show(&plain, &words, more, sink);
            }
            other => return Err(SqlError::unsupported(other.to_ascii_uppercase())),
        }
        sink.ok(&self.outcome(Changed::default(), more))
    }

    /// Ends a session, or only its statement. The session must belong to the same user, unless the
    /// caller may end any session.
    ///
    /// # Errors
    /// 1094 if no session has this number, 1095 if the user may not end it.
    pub fn kill(&self, id: u64, connection: bool) -> Result<()> {
        let unknown = || SqlError::new(1094, format!("Unknown thread id: {id}"));
        let owner = self.instance.owner_of(id).ok_or_else(unknown)?;
        let any = self.security.check_everywhere(&["CONNECTION_ADMIN", "SUPER"]).is_ok();
        // Fails if the account of this session has been dropped (ACCOUNT-4).
        let own = self.security.as_user(|user| Ok(owner.0 == user.name))?;
        let catalog = self.instance.0.catalog.load();
        let system = catalog.users.get(&owner).is_some_and(|user| user.may_everywhere(SYSTEM_USER));
        let reaches = !system || self.security.check_everywhere(&[SYSTEM_USER]).is_ok();
        if !(any || own) || !reaches {
            return Err(SqlError::new(1095, format!("You are not owner of thread {id}")));
        }
        if self.instance.kill(id, connection) { Ok(()) } else { Err(unknown()) }
    }

    /// Evaluates a standalone expression. If it reads tables, it locks and reads them as a
    /// statement does.
    pub(super) fn evaluate(&mut self, tokens: &[Token], params: &[Value]) -> Result<Value> {
        let expr = parser::parse_tokens(tokens)?;
        let wait = self.variables.borrow().often.table_wait;
        let (bound, tables, catalog, _used) = loop {
            let catalog = self.instance.0.catalog.load_full();
            let (bound, tables) =
                self.compiler().bind_alone(&catalog, None, |binder| binder.bind(&expr))?;
            let used = match self.transaction.is_open() {
                true => {
                    let lock = |(name, mode): &(_, _)| (self.instance.0.metadata.of(name), *mode);
                    let locks: Vec<_> = tables.iter().map(lock).collect();
                    self.transaction.locks_mut().use_tables(&locks, wait)?;
                    HeldLocks::default()
                }
                false => self.transaction.locks().take_shared(tables.clone(), wait)?,
            };
            // Another session may have changed a table before this one locked it.
            if self.instance.catalog_version() <= catalog.version {
                break (bound, tables, catalog, used);
            }
        };
        let fresh;
        let txn = match self.transaction.current() {
            Some(txn) => txn,
            None => {
                fresh = self.instance.0.db.begin(TransactionOptions::new());
                &fresh
            }
        };
        if tables.is_empty() {
            return self.context(txn, &catalog, params).eval(&bound.expr, &[]);
        }
        check_snapshot(txn, &catalog, tables.iter().map(|(name, _)| name))?;
        txn.begin_statement();
        let value = self.context(txn, &catalog, params).eval(&bound.expr, &[]);
        // The client may see the value at once, in a variable or in an error's text.
        txn.wait_until_told()?;
        value
    }

    pub(super) fn table_maintenance(
        &mut self,
        what: &str,
        plain: &[Token],
        more: bool,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        // The statement commits the open transaction even if it changes nothing.
        match what {
            "optimize" | "repair" => {
                let usual = self.variables.borrow().transactions;
                self.transaction.commit_before_ddl(usual)?;
            }
            _ => self.transaction.commit()?,
        }
        let database = self.variables.borrow().database.clone();
        let from = plain.iter().position(|token| word(Some(token)) == "table").unwrap_or(0);
        let mut rows = Vec::new();
        let names = without_options(plain.get(from + 1..).unwrap_or_default());
        for part in split_commas(names) {
            let (db, name) = path_of(&parts_of(&part)?, database.as_deref())?;
            self.security.check_table(&["SELECT"], &db, Some(&name))?;
            if what != "check" {
                self.security.check_table(&["INSERT"], &db, Some(&name))?;
            }
            let table = self.instance.0.catalog.load().table(&db, &name).cloned();
            let outcome = match (&table, what) {
                // Rewriting the rows removes the values of dropped columns, and the cost of reading
                // old versions.
                (Ok(table), "optimize") if table.versions_kept() > 0 => {
                    self.ddl().refresh_table((db.clone(), name.clone())).map(|()| Vec::new())
                }
                (Ok(_), "check") => {
                    let (instance, locks) = (&self.instance, self.transaction.locks());
                    let wait = self.variables.borrow().often.table_wait;
                    check_stored(instance, &self.process, locks, wait, (db.clone(), name.clone()))
                }
                (Ok(_), _) => Ok(Vec::new()),
                (Err(_), _) => Err(SqlError::unknown_table(&db, &name)),
            };
            let mut tell = |kind: &str, text: String| {
                rows.push(vec![
                    Value::Text(format!("{db}.{name}")),
                    Value::from(what),
                    Value::from(kind),
                    Value::Text(text),
                ]);
            };
            match outcome {
                Ok(wrong) if wrong.is_empty() => tell("status", "OK".to_owned()),
                Ok(wrong) => {
                    wrong.into_iter().for_each(|wrong| tell("Warning", wrong));
                    tell("error", "Corrupt".to_owned());
                }
                Err(error) if error.code == 1317 => return Err(error),
                Err(mut error) => {
                    self.instance.name_table(&mut error, self.transaction.isolation());
                    tell("Error", error.message);
                }
            }
        }
        let text = || ColumnType::VarChar(255);
        self.send(
            &[("Table", text()), ("Op", text()), ("Msg_type", text()), ("Msg_text", text())],
            rows,
            more,
            sink,
        )
    }

    /// Keeps the rows of a SHOW that satisfy its WHERE, which names the shown columns.
    fn keep_where(&self, shown: &mut Shown, condition: &[Token]) -> Result<()> {
        let expr = parser::parse_tokens(condition)?;
        let column = |(name, ty): &(String, ColumnType)| ScopeColumn {
            name: name.clone(),
            ty: ty.clone(),
            collation: Collation::GeneralCi,
            nullable: true,
            merged: false,
            flags: ColumnFlags::default(),
        };
        let scope = ScopeTable {
            db: String::new(),
            alias: String::new(),
            name: String::new(),
            columns: shown.columns.iter().map(column).collect(),
            offset: 0,
            changed: false,
        };
        let wait = self.variables.borrow().often.table_wait;
        let (condition, catalog, _used) = loop {
            let catalog = self.instance.0.catalog.load_full();
            let bind = |binder: &mut Binder<'_>| {
                binder.place = "where clause";
                binder.condition(&expr)
            };
            let scope = Some(scope.clone());
            let (condition, tables) = self.compiler().bind_alone(&catalog, scope, bind)?;
            let used = self.transaction.locks().take_shared(tables, wait)?;
            if self.instance.catalog_version() <= catalog.version {
                break (condition, catalog, used);
            }
        };
        let txn = self.instance.0.db.begin(TransactionOptions::new().read_only(true));
        let context = self.context(&txn, &catalog, &[]);
        let mut kept = Vec::new();
        for row in std::mem::take(&mut shown.rows) {
            if truth_of(&context.eval(&condition, &row)?) {
                kept.push(row);
            }
        }
        shown.rows = kept;
        Ok(())
    }

    pub(super) fn show(
        &mut self,
        plain: &[Token],
        words: &[String],
        more: bool,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        let at = |index: usize| words.get(index).map_or("", String::as_str);
        if at(0) == "show"
            && (matches!(at(1), "warnings" | "errors")
                || (at(1) == "count" && matches!(at(5), "warnings" | "errors")))
        {
            let (columns, rows) = self.diagnostics.show(plain)?;
            return self.send(&columns, rows, more, sink);
        }
        self.diagnostics.clear();
        let global = at(1) == "global";
        let lines = if words.iter().any(|word| word == "variables") {
            variable_lines(&self.instance, &self.variables.borrow(), global)
        } else if words.iter().any(|word| word == "status") {
            self.status_variables.lines(&self.instance, &self.process.stalls, global)
        } else {
            Vec::new()
        };
        let catalog = self.instance.0.catalog.load_full();
        let end = words.iter().position(|word| word == "where").unwrap_or(words.len());
        let mut shown = {
            let variables = self.variables.borrow();
            let catalog = variables.seen(&catalog);
            let (plain, words) = (&plain[..end], &words[..end]);
            crate::information_schema::show(
                &self.instance,
                &catalog,
                &variables,
                lines,
                plain,
                words,
            )?
        };
        if let Some(condition) = plain.get(end + 1..) {
            self.keep_where(&mut shown, condition)?;
        }
        let columns: Vec<(&str, ColumnType)> =
            shown.columns.iter().map(|(name, ty)| (name.as_str(), ty.clone())).collect();
        self.send(&columns, shown.rows, more, sink)
    }
}

/// The tokens of the number in KILL [CONNECTION | QUERY], and whether KILL ends the connection.
fn kill_target(plain: &[Token]) -> (&[Token], bool) {
    let what = word(plain.get(1));
    let id =
        if matches!(what.as_str(), "query" | "connection") { &plain[2..] } else { &plain[1..] };
    (id, what != "query")
}

/// FLUSH: writes memtables to disk, or resets counters of accounts. Other objects need no flush.
fn flush(
    instance: &Instance,
    security: &SecurityContext,
    what: &str,
    plain: &[Token],
) -> Result<()> {
    let named = matches!(what, "tables" | "table");
    for part in split_commas(&plain[2..]).iter().filter(|_| named) {
        parts_of(part)?;
    }
    if plain.len() > 2 && !named {
        return Err(near(plain, 2));
    }
    security.check_everywhere(&["RELOAD"])?;
    match what {
        "user_resources" => instance.0.accounts.forget_hours(),
        "privileges" => instance.0.accounts.forget_failures(),
        _ => {}
    }
    if named {
        // The pool can serve clients on another thread meanwhile.
        blocking(|| instance.0.db.flush())?;
    }
    Ok(())
}

/// Checks a table's rows and indexes, and returns the errors found.
fn check_stored(
    instance: &Instance,
    process: &Process,
    locks: &MetadataLockContext,
    wait: Duration,
    name: Name,
) -> Result<Vec<String>> {
    let _used = locks.take_shared(vec![(name.clone(), MetadataLockMode::Read)], wait)?;
    let table = instance.0.catalog.load().table(&name.0, &name.1)?.clone();
    let txn = instance.0.db.begin(TransactionOptions::new().read_only(true));
    process.doing.lock().cancel = Some(txn.cancel_handle());
    let goes_on = || match process.stop.is_asked() {
        true => Err(SqlError::new(1317, "Query execution was interrupted")),
        false => Ok(()),
    };
    check_table(&txn, &table, &goes_on)
}

/// 1064: an unexpected token.
fn near(plain: &[Token], at: usize) -> SqlError {
    let shown = plain.get(at).map_or_else(|| "the end".to_owned(), ToString::to_string);
    SqlError::syntax(format!("near '{shown}'"))
}

/// The tables of a maintenance statement, without the options that follow them. The options say how
/// thorough the check is; every check is complete.
fn without_options(mut tokens: &[Token]) -> &[Token] {
    const OPTIONS: [&str; 8] =
        ["quick", "fast", "medium", "extended", "changed", "upgrade", "for", "use_frm"];
    while let [.., before, last] = tokens
        && !matches!(before, Token::Comma | Token::Period)
        && OPTIONS.contains(&word(Some(last)).as_str())
    {
        tokens = &tokens[..tokens.len() - 1];
    }
    tokens
}
