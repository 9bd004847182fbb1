//! The metadata locks of a session: for its statements, for its changes of definitions, and by LOCK
//! TABLES.

use std::sync::Arc;
use std::time::Duration;

use sqlparser::tokenizer::Token;

use super::{HeldLocks, MetadataLockMode, Name, TableLock, WaitLimits, definition_of};
use crate::catalog::Catalog;
use crate::errors::{Result, SqlError};
use crate::names;
use crate::parser::{parts_of, path_of, solid, split_commas, word};
use crate::process::Process;
use crate::session::instance::Instance;
use crate::session::security_context::SecurityContext;

/// The metadata locks that a session holds for its transaction and by LOCK TABLES. A wait for a
/// lock ends at the caller's limit, when the session's statement is stopped, or when its client has
/// disconnected.
pub(in crate::session) struct MetadataLockContext {
    instance: Instance,
    process: Arc<Process>,
    connection_id: u64,
    /// The tables that the transaction uses.
    held: HeldLocks,
    /// The tables that LOCK TABLES has locked.
    locked: Option<HeldLocks>,
}

impl MetadataLockContext {
    pub(in crate::session) fn new(
        instance: Instance,
        process: Arc<Process>,
        connection_id: u64,
    ) -> MetadataLockContext {
        let held = HeldLocks::default();
        MetadataLockContext { instance, process, connection_id, held, locked: None }
    }

    /// Switches to the process of a reset session, and releases locked tables. The transaction has
    /// ended.
    pub(in crate::session) fn reset(&mut self, process: Arc<Process>) {
        self.process = process;
        self.locked = None;
    }

    /// Takes locks. The session already holds those of its transaction, and `before`.
    fn take(
        &self,
        names: Vec<(Name, MetadataLockMode)>,
        before: &HeldLocks,
        wait: Duration,
    ) -> Result<HeldLocks> {
        let (instance, id) = (&self.instance, self.connection_id);
        let gone = || instance.is_gone(id);
        let limits = WaitLimits { wait, stop: &self.process.stop, gone: &gone };
        let held = |name: &Name| self.held.mode(name).max(before.mode(name));
        instance.0.metadata.take(names, id as usize, &limits, held)
    }

    /// Takes tables exclusively for a change of their definitions: first the definitions, and then
    /// the tables.
    pub(in crate::session) fn take_alone(
        &self,
        tables: &[Name],
        wait: Duration,
    ) -> Result<(HeldLocks, HeldLocks)> {
        let definitions = self.take_definitions(tables, wait)?;
        let tables = self.take_tables_alone(tables, &definitions, wait)?;
        Ok((definitions, tables))
    }

    /// Takes the definitions of tables. Others can then not change the definitions, but they can
    /// use rows. Checks the names of tables that do not exist (NAME-2).
    pub(in crate::session) fn take_definitions(
        &self,
        tables: &[Name],
        wait: Duration,
    ) -> Result<HeldLocks> {
        let catalog = self.instance.0.catalog.load();
        let new = |(db, name): &&Name| catalog.table(db, name).is_err();
        tables.iter().filter(new).try_for_each(|(db, name)| names::check_table(db, name))?;
        for table in tables {
            match self.locked.as_ref().map(|locked| locked.mode(table)) {
                Some(Some(MetadataLockMode::Alone)) | None => {}
                Some(Some(_)) => return Err(read_locked(table)),
                Some(None) => return Err(not_locked(table)),
            }
        }
        let names = tables.iter().flat_map(definition_of);
        // LOCK TABLES holds the definitions, but not the database.
        let wanted =
            |(name, _): &(Name, MetadataLockMode)| self.locked.is_none() || name.1.is_empty();
        self.take(names.filter(wanted).collect(), &HeldLocks::default(), wait)
    }

    /// Takes tables exclusively whose definitions the session holds, unless LOCK TABLES already
    /// holds them so.
    pub(in crate::session) fn take_tables_alone(
        &self,
        tables: &[Name],
        definitions: &HeldLocks,
        wait: Duration,
    ) -> Result<HeldLocks> {
        if self.locked.is_some() {
            return Ok(HeldLocks::default());
        }
        let alone = |table: &Name| (table.clone(), MetadataLockMode::Alone);
        self.take(tables.iter().map(alone).collect(), definitions, wait)
    }

    /// Takes databases exclusively, and then the tables in them.
    pub(in crate::session) fn take_databases_alone(
        &self,
        databases: &[String],
        wait: Duration,
    ) -> Result<(HeldLocks, HeldLocks)> {
        if self.locked.is_some() {
            let text = "Can't execute the given command because you have active locked tables or an active transaction";
            return Err(SqlError::new(1192, text));
        }
        let whole = |db: &String| ((db.clone(), String::new()), MetadataLockMode::Alone);
        let catalog = self.instance.0.catalog.load_full();
        let new = databases.iter().filter(|name| !catalog.has_database(name));
        new.clone().try_for_each(|name| names::check_database(name))?;
        let names = databases.iter().map(whole).collect();
        let databases_held = self.take(names, &HeldLocks::default(), wait)?;
        let catalog = self.instance.0.catalog.load_full();
        let tables = databases.iter().flat_map(|db| catalog.tables_of(db));
        let tables = tables
            .map(|table| ((table.db.clone(), table.name.clone()), MetadataLockMode::Alone))
            .collect();
        let tables_held = self.take(tables, &databases_held, wait)?;
        Ok((databases_held, tables_held))
    }

    /// Takes tables for a use outside the session's transaction.
    pub(in crate::session) fn take_shared(
        &self,
        tables: Vec<(Name, MetadataLockMode)>,
        wait: Duration,
    ) -> Result<HeldLocks> {
        if self.locked.is_none() {
            return self.take(tables, &HeldLocks::default(), wait);
        }
        self.check_locked(&tables)?;
        Ok(HeldLocks::default())
    }

    /// Takes the tables that a statement names, until its transaction ends.
    pub(in crate::session) fn use_tables(
        &mut self,
        tables: &[(Arc<TableLock>, MetadataLockMode)],
        wait: Duration,
    ) -> Result<()> {
        if self.locked.is_some() {
            // The caller has checked that LOCK TABLES holds them.
            return Ok(());
        }
        let (instance, id) = (&self.instance, self.connection_id);
        let gone = || instance.is_gone(id);
        let limits = WaitLimits { wait, stop: &self.process.stop, gone: &gone };
        let held = &mut self.held;
        held.stripe = id as usize;
        for (lock, mode) in tables {
            if held.has(lock, *mode) {
                continue;
            }
            let more = held.locks.iter().any(|(other, _)| Arc::ptr_eq(other, lock));
            lock.lock(*mode, held.stripe, more, &limits)?;
            held.took(lock, *mode);
        }
        Ok(())
    }

    /// Takes a table for reading until the transaction ends, unless that needs a wait. Returns
    /// whether the table is held for that.
    pub(in crate::session) fn read_at_once(&mut self, lock: &Arc<TableLock>) -> bool {
        self.held.read_at_once(lock, self.connection_id as usize)
    }

    /// Releases the locks of the transaction.
    pub(in crate::session) fn release(&mut self) {
        self.held.clear();
    }

    /// Whether LOCK TABLES has locked tables.
    pub(in crate::session) fn has_locked_tables(&self) -> bool {
        self.locked.is_some()
    }

    /// Checks that LOCK TABLES, if it is in effect, holds these tables in sufficient modes.
    pub(in crate::session) fn check_locked(
        &self,
        tables: &[(Name, MetadataLockMode)],
    ) -> Result<()> {
        let Some(locked) = &self.locked else { return Ok(()) };
        tables.iter().try_for_each(|(name, mode)| check_mode(locked, name, *mode))
    }

    pub(in crate::session) fn lock_tables(
        &mut self,
        names: Vec<(Name, MetadataLockMode)>,
        wait: Duration,
    ) -> Result<()> {
        self.locked = Some(self.take(names, &HeldLocks::default(), wait)?);
        Ok(())
    }

    pub(in crate::session) fn unlock_tables(&mut self) {
        self.locked = None;
    }
}

/// The locks of a LOCK TABLES statement, by the tokens that follow these words. Checks the user's
/// privileges.
pub(in crate::session) fn tables_to_lock(
    tokens: &[Token],
    database: Option<&str>,
    catalog: &Catalog,
    security: &SecurityContext,
) -> Result<Vec<(Name, MetadataLockMode)>> {
    let mut names = Vec::new();
    for part in split_commas(tokens) {
        let part = solid(&part);
        let words: Vec<String> = part.iter().map(|token| word(Some(token))).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (mode, rest) = match words.as_slice() {
            [rest @ .., "read"] | [rest @ .., "read", "local"] => {
                (MetadataLockMode::Keep, rest.len())
            }
            [rest @ .., "low_priority", "write"] | [rest @ .., "write"] => {
                (MetadataLockMode::Alone, rest.len())
            }
            _ => return Err(SqlError::syntax("write LOCK TABLES t READ, or WRITE")),
        };
        // An alias may follow the name.
        let len = if part.get(1) == Some(&Token::Period) { 3 } else { 1 };
        if rest < len {
            return Err(SqlError::syntax("write LOCK TABLES t READ, or WRITE"));
        }
        let name = path_of(&parts_of(&part[..len])?, database)?;
        security.check_table(&["LOCK TABLES"], &name.0, Some(&name.1))?;
        security.check_table(&["SELECT"], &name.0, Some(&name.1))?;
        catalog.table(&name.0, &name.1)?;
        if mode == MetadataLockMode::Alone {
            // The session may change the table. It takes the definition first, because the holder
            // of the definition may wait for the table.
            names.extend(definition_of(&name).into_iter().filter(|(name, _)| !name.1.is_empty()));
        }
        names.push((name, mode));
    }
    if names.is_empty() {
        return Err(SqlError::syntax("write LOCK TABLES t READ, or WRITE"));
    }
    Ok(names)
}

/// Refuses a use of a table for which LOCK TABLES does not hold a sufficient lock.
fn check_mode(locked: &HeldLocks, name: &Name, mode: MetadataLockMode) -> Result<()> {
    match locked.mode(name) {
        _ if name.0.eq_ignore_ascii_case("information_schema") => Ok(()),
        None => Err(not_locked(name)),
        Some(MetadataLockMode::Keep) if mode == MetadataLockMode::Write => Err(read_locked(name)),
        Some(_) => Ok(()),
    }
}

fn not_locked(name: &Name) -> SqlError {
    SqlError::new(1100, format!("Table '{}' was not locked with LOCK TABLES", name.1))
}

fn read_locked(name: &Name) -> SqlError {
    let text = format!("Table '{}' was locked with a READ lock and can't be updated", name.1);
    SqlError::new(1099, text)
}
