//! Runs changes of the catalog, each in its own transaction.

use std::cell::RefCell;
use std::time::Duration;

use spillway::{Isolation, Transaction};
use spillway_types::Collation;
use sqlparser::ast;
use sqlparser::tokenizer::Token;

use super::Session;
use super::building::{Build, Owner};
use super::diagnostics::DiagnosticsArea;
use super::instance::Instance;
use super::metadata::{HeldLocks, Name};
use super::run::new_context;
use super::security_context::SecurityContext;
use super::transactions::TransactionState;
use crate::catalog::{Becoming, Catalog, Change, DatabaseDef, TableDef, unawaited};
use crate::ddl::{Alter, Alteration, Ddl, Pass, Terms, Way, name_check, online};
use crate::errors::{Result, SqlError};
use crate::expression::{Context, Room};
use crate::parser::{name_of, parts_of, path, path_of, split_commas, tables_of, word};
use crate::privilege::{Asker, Need, accounts};
use crate::process::Process;
use crate::variables::Variables;

/// Runs the statements of a session that change definitions.
pub(super) struct DdlExecutor<'s> {
    instance: &'s Instance,
    connection_id: u64,
    process: &'s Process,
    variables: &'s RefCell<Variables>,
    security: &'s SecurityContext,
    transaction: &'s mut TransactionState,
    diagnostics: &'s mut DiagnosticsArea,
}

impl Session {
    pub(super) fn ddl(&mut self) -> DdlExecutor<'_> {
        DdlExecutor {
            instance: &self.instance,
            connection_id: self.connection_id,
            process: &self.process,
            variables: &self.variables,
            security: &self.security,
            transaction: &mut self.transaction,
            diagnostics: &mut self.diagnostics,
        }
    }
}

/// The catalog, database and variables by which a statement's names and options are resolved.
fn terms<'a>(variables: &Variables, catalog: &'a Catalog, database: Option<&'a str>) -> Terms<'a> {
    Terms {
        catalog,
        database,
        foreign_key_checks: variables.flag("foreign_key_checks"),
        engine: variables.default_engine().kind,
        engine_named: variables.has_mode("NO_ENGINE_SUBSTITUTION"),
        time_offset_micros: variables.time_offset_micros,
        warnings: RefCell::default(),
    }
}

impl DdlExecutor<'_> {
    pub(super) fn run(&mut self, statement: &ast::Statement) -> Result<()> {
        name_check::check_statement(statement)?;
        let database = self.variables.borrow().database.clone();
        self.security.check_statement(statement, database.as_deref())?;
        match statement {
            ast::Statement::CreateIndex(create) => self.alter_table(&Alter::create_index(create)?),
            ast::Statement::Drop {
                object_type: ast::ObjectType::Index,
                names,
                table: Some(table),
                ..
            } => self.alter_table(&Alter::drop_index(table, names)),
            statement => self.execute(statement),
        }
    }

    fn lock_wait(&self) -> Duration {
        self.variables.borrow().often.table_wait
    }

    /// The implicit commit of a statement that changes definitions.
    fn commit(&mut self) -> Result<()> {
        self.transaction.commit_before_ddl(self.variables.borrow().transactions)
    }

    fn warn(&mut self, warnings: Vec<SqlError>) {
        let variables = self.variables.borrow();
        warnings.into_iter().for_each(|warning| self.diagnostics.warn(warning, &variables));
    }

    fn context<'a>(
        &'a self,
        room: &'a Room,
        txn: &'a Transaction,
        catalog: &'a Catalog,
    ) -> Context<'a> {
        new_context(self.instance, self.variables, room, txn, catalog, &[])
    }

    /// Runs a statement that changes the catalog and no rows.
    fn execute(&mut self, statement: &ast::Statement) -> Result<()> {
        self.commit()?;
        let wait = self.lock_wait();
        let _held = match statement {
            ast::Statement::Drop {
                object_type: ast::ObjectType::Database | ast::ObjectType::Schema,
                names,
                ..
            } => {
                let paths = names.iter().filter_map(|name| path(name, Some("")).ok());
                let databases: Vec<_> = paths.map(|(_, db)| db).collect();
                let (database, tables) =
                    self.transaction.locks().take_databases_alone(&databases, wait)?;
                (tables, database)
            }
            statement => {
                let tables = tables_of(statement, self.variables.borrow().database.as_deref());
                self.transaction.locks().take_alone(&tables, wait)?
            }
        };
        self.change_catalog(&[], |ddl| {
            if ddl.execute(statement)? {
                Ok(())
            } else {
                Err(SqlError::unsupported(statement_name(statement)))
            }
        })?;
        let gone = self.variables.borrow().database.clone();
        if let Some(database) = gone
            && !self.instance.0.catalog.load().has_database(&database)
        {
            self.variables.borrow_mut().database = None;
        }
        Ok(())
    }

    /// ALTER TABLE. It reads installed rows that may not be durable, so it waits for them before it
    /// returns an error that tells of rows (decision 002). The error quotes no value that the user
    /// may not read (NEED-6).
    fn alter_table(&mut self, alter: &Alter) -> Result<()> {
        name_check::check_alter(alter)?;
        let database = self.variables.borrow().database.clone();
        let table = path(&alter.table, database.as_deref())?;
        let mut outcome = self.rebuild_table(alter);
        if let Err(error) = &mut outcome
            && !self.security.may_read(&[Need::of_table(&["ALTER"], table)])
        {
            error.hide_value();
        }
        if outcome.as_ref().is_err_and(SqlError::tells_of_rows) {
            let usual = self.variables.borrow().transactions;
            let options = usual.isolation(Isolation::RepeatableRead).read_only(true);
            let txn = self.instance.0.db.begin(options);
            txn.take_newest_snapshot();
            txn.wait_until_readable()?;
        }
        outcome
    }

    /// Writes the new rows while the table is locked exclusively, and then switches the catalog to
    /// them.
    fn rebuild_table(&mut self, alter: &Alter) -> Result<()> {
        self.commit()?;
        let database = self.variables.borrow().database.clone();
        let table = path(&alter.table, database.as_deref())?;
        let mut tables = vec![table.clone()];
        for name in alter.new_names() {
            tables.push(path(name, database.as_deref())?);
        }
        let wait = self.lock_wait();
        let locks = self.transaction.locks();
        let definitions = locks.take_definitions(&tables, wait)?;
        let alone = locks.take_tables_alone(&tables, &definitions, wait)?;
        let catalog = self.instance.0.catalog.load_full();
        let terms = terms(&self.variables.borrow(), &catalog, database.as_deref());
        let before = catalog.table(&table.0, &table.1)?;
        let planned = Alteration::plan(&terms, before, &alter.operations);
        self.warn(terms.warnings.into_inner());
        let mut alteration = planned?;
        let room = Room::default();
        {
            let txn = self.instance.0.db.begin(unawaited().read_only(true));
            alteration.settle(&self.context(&room, &txn, &catalog))?;
        }
        if alteration.way() == Way::Online
            && let Some(becoming) = alteration.becoming()
        {
            return self.build_online(before, becoming, definitions, alone);
        }
        let built = {
            let txn = self.instance.0.db.begin(unawaited().read_only(true));
            self.process.doing.lock().cancel = Some(txn.cancel_handle());
            // The previous user released the table when its commit was ordered, and an ordinary
            // snapshot may not include that commit yet.
            txn.take_newest_snapshot();
            alteration.build(&self.context(&room, &txn, &catalog))?
        };
        self.change_catalog(built.spaces(), |ddl| ddl.switch(&mut alteration))?;
        built.keep();
        Ok(())
    }

    /// Builds indexes while others read and write the table. Until the build is recorded, `alone`
    /// locks the table exclusively.
    fn build_online(
        &self,
        table: &TableDef,
        becoming: Becoming,
        definition: HeldLocks,
        alone: HeldLocks,
    ) -> Result<()> {
        let name = (table.db.clone(), table.name.clone());
        let (instance, wait) = (self.instance, self.lock_wait());
        let begin = |txn: &Transaction, catalog: &Catalog| {
            let table = catalog.table(&name.0, &name.1)?;
            online::begin(&Change::new(txn)?, table, becoming)
        };
        instance.change_catalog(wait, begin, |(), _| {})?;
        drop(alone);
        let begun = |txn: &Transaction| {
            self.process.doing.lock().cancel = Some(txn.cancel_handle());
        };
        let progress = |percent| {
            let state = format!("building index: {percent} %");
            self.process.doing.lock().state = Some(state);
        };
        progress(0);
        let owner = Owner {
            stop: &self.process.stop,
            wait: Some(wait),
            stripe: self.connection_id as usize,
            has_table: self.transaction.locks().has_locked_tables(),
            gone: &|| instance.is_gone(self.connection_id),
            begun: &begun,
            progress: &progress,
        };
        let outcome = Build::new(table, Vec::new(), definition).run(instance, &owner);
        self.process.doing.lock().state = None;
        outcome
    }

    /// Rewrites rows of earlier versions while others read and write the table.
    pub(super) fn refresh_table(&mut self, name: Name) -> Result<()> {
        self.commit()?;
        let names = [name];
        let _definition = self.transaction.locks().take_definitions(&names, self.lock_wait())?;
        let [(db, name)] = &names;
        let table = self.instance.0.catalog.load().table(db, name)?.clone();
        let stopped = || self.process.stop.is_asked();
        let begun = |txn: &Transaction| {
            self.process.doing.lock().cancel = Some(txn.cancel_handle());
        };
        let database = self.instance.database();
        let pass = Pass { db: database, table: &table, stopped: &stopped, begun: &begun };
        let mut last = Vec::new();
        loop {
            let outcome = pass.refresh(&mut last, &|| ());
            let goes_on = matches!(outcome, Ok(true));
            self.process.doing.lock().state =
                goes_on.then(|| format!("writing rows anew: {} %", pass.percent(&last)));
            if !outcome? {
                break;
            }
        }
        pass.persist()?;
        self.instance.finish_refresh(&table, self.lock_wait())
    }

    /// Changes the catalog for a statement of the session. `built` are key spaces that were filled
    /// for the change.
    fn change_catalog(
        &mut self,
        built: &[u32],
        body: impl FnOnce(&Ddl<'_>) -> Result<()>,
    ) -> Result<()> {
        let instance = self.instance;
        let database = self.variables.borrow().database.clone();
        let mut warnings = Vec::new();
        let changed = instance.change_catalog(
            self.lock_wait(),
            |txn, catalog| {
                let ddl = Ddl {
                    terms: terms(&self.variables.borrow(), catalog, database.as_deref()),
                    txn,
                    restarted: RefCell::default(),
                    renumbered: RefCell::default(),
                };
                let done = body(&ddl);
                warnings = ddl.terms.warnings.into_inner();
                done.map(|()| (ddl.restarted.into_inner(), ddl.renumbered.into_inner()))
            },
            |(restarted, renumbered), csn| {
                instance.note_built(built, csn);
                instance.0.counters.forget(&restarted, &renumbered);
            },
        );
        self.warn(warnings);
        changed
    }

    /// Runs a statement about accounts.
    pub(super) fn accounts(&mut self, tokens: &[Token]) -> Result<()> {
        let account = self.security.account();
        self.security.as_user(|_| Ok(()))?;
        self.commit()?;
        let mut forget = Vec::new();
        self.change_catalog(&[], |ddl| {
            // The privileges of now count: another session may have revoked some while this one
            // waited.
            let user = account.find(ddl.terms.catalog).ok_or_else(|| account.denied())?;
            let asker = Asker { user, database: ddl.terms.database };
            forget = accounts::execute(&Change::new(ddl.txn)?, ddl.terms.catalog, tokens, &asker)?;
            Ok(())
        })?;
        self.instance.0.accounts.forget(&forget);
        Ok(())
    }

    /// `ALTER DATABASE [name] [[DEFAULT] CHARACTER SET [=] c] [[DEFAULT] COLLATE [=] c]`.
    fn alter_database(&mut self, plain: &[Token]) -> Result<()> {
        let option = |token: &Token| {
            ["default", "character", "charset", "collate"].contains(&word(Some(token)).as_str())
        };
        let (name, mut rest) = match plain.get(2) {
            Some(token @ Token::Word(_)) if !option(token) => (Some(name_of(Some(token))), 3),
            _ => (self.variables.borrow().database.clone(), 2),
        };
        let name = name.ok_or_else(|| SqlError::new(1046, "No database selected"))?;
        self.security.check_table(&["ALTER"], &name, None)?;
        let mut collation = None;
        while rest < plain.len() {
            let at = |index: usize| word(plain.get(index));
            rest += usize::from(at(rest) == "default");
            let charset = match (at(rest).as_str(), at(rest + 1).as_str()) {
                ("character", "set") => {
                    rest += 1;
                    true
                }
                ("charset", _) => true,
                ("collate", _) => false,
                _ => {
                    let shown = plain.get(rest).map_or_else(String::new, ToString::to_string);
                    return Err(SqlError::unsupported(format!("ALTER DATABASE ... {shown}")));
                }
            };
            rest += 1 + usize::from(plain.get(rest + 1) == Some(&Token::Eq));
            let value = name_of(plain.get(rest));
            rest += 1;
            let code = if charset { 1115 } else { 1273 };
            let what = if charset { "character set" } else { "collation" };
            let found = Collation::from_name(&value);
            let found =
                found.ok_or_else(|| SqlError::new(code, format!("Unknown {what}: '{value}'")))?;
            // A character set gives the collation only if COLLATE does not.
            if !charset || collation.is_none() {
                collation = Some(found);
            }
        }
        let collation = collation.ok_or_else(|| SqlError::syntax("near the end"))?;
        self.commit()?;
        self.change_catalog(&[], |ddl| {
            let def = ddl.terms.catalog.databases.get(&name).cloned();
            let def = def.ok_or_else(|| SqlError::unknown_database(&name))?;
            Change::new(ddl.txn)?.put_database(&DatabaseDef { collation, ..def })
        })
    }

    pub(super) fn alter(&mut self, tokens: &[Token], plain: &[Token]) -> Result<()> {
        match word(plain.get(1)).as_str() {
            "user" => return self.accounts(tokens),
            "database" | "schema" => return self.alter_database(plain),
            "table" => {}
            _ => return Err(SqlError::unsupported("ALTER")),
        }
        let alter = Alter::parse(tokens.to_vec())?;
        let database = self.variables.borrow().database.clone();
        let (db, name) = path(&alter.table, database.as_deref())?;
        self.security.check_table(&["ALTER"], &db, Some(&name))?;
        for parent in alter.parents() {
            let (parent_db, parent) = path(parent, database.as_deref())?;
            self.security.check_table(&["REFERENCES"], &parent_db, Some(&parent))?;
        }
        for new in alter.new_names() {
            let (to_db, to) = path(new, database.as_deref())?;
            self.security.check_table(&["DROP"], &db, Some(&name))?;
            self.security.check_table(&["CREATE"], &to_db, Some(&to))?;
            self.security.check_table(&["INSERT"], &to_db, Some(&to))?;
        }
        self.alter_table(&alter)
    }

    pub(super) fn rename(&mut self, plain: &[Token]) -> Result<()> {
        let database = self.variables.borrow().database.clone();
        let mut moves = Vec::new();
        for part in split_commas(plain.get(2..).unwrap_or_default()) {
            let to = part.iter().position(|token| word(Some(token)) == "to");
            let to = to.ok_or_else(|| SqlError::syntax("write RENAME TABLE a TO b"))?;
            moves.push((
                path_of(&parts_of(&part[..to])?, database.as_deref())?,
                path_of(&parts_of(&part[to + 1..])?, database.as_deref())?,
            ));
        }
        if moves.is_empty() {
            return Err(SqlError::syntax("write RENAME TABLE a TO b"));
        }
        for ((db, name), (to_db, to)) in &moves {
            for right in ["ALTER", "DROP"] {
                self.security.check_table(&[right], db, Some(name))?;
            }
            for right in ["CREATE", "INSERT"] {
                self.security.check_table(&[right], to_db, Some(to))?;
            }
        }
        self.commit()?;
        let tables: Vec<_> =
            moves.iter().flat_map(|(from, to)| [from.clone(), to.clone()]).collect();
        let _held = self.transaction.locks().take_alone(&tables, self.lock_wait())?;
        self.change_catalog(&[], |ddl| ddl.rename_tables(&moves))
    }
}

fn statement_name(statement: &ast::Statement) -> String {
    let text = statement.to_string();
    text.split_whitespace().take(3).collect::<Vec<_>>().join(" ")
}
