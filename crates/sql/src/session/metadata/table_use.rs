//! The metadata locks of a session: those of its statements, of its changes of tables, and of LOCK
//! TABLES.

use std::sync::Arc;
use std::time::Duration;

use sqlparser::tokenizer::Token;

use super::{HeldLocks, MetadataLockMode, Name, TableLock, WaitLimits, definition_of};
use crate::errors::{Result, SqlError};
use crate::names;
use crate::parser::{parts_of, path_of, solid, split_commas, word};
use crate::session::Session;

impl Session {
    /// Takes names. The session has those that its transaction uses, and `before`.
    fn lock_names(
        &self,
        names: Vec<(Name, MetadataLockMode)>,
        before: &HeldLocks,
    ) -> Result<HeldLocks> {
        let (instance, id) = (&self.instance, self.connection_id);
        let gone = || instance.is_gone(id);
        let limits = WaitLimits { wait: self.lock_wait(), stop: &self.process.stop, gone: &gone };
        let stripe = id as usize;
        let held = |name: &Name| self.held.mode(name).max(before.mode(name));
        instance.0.metadata.take(names, stripe, &limits, held)
    }

    /// Takes tables for a change of them: their definitions, and then the tables.
    pub(in crate::session) fn have_alone(&self, tables: &[Name]) -> Result<(HeldLocks, HeldLocks)> {
        let definitions = self.have_definitions(tables)?;
        let tables = self.have_tables_alone(tables, &definitions)?;
        Ok((definitions, tables))
    }

    /// Takes the definitions of tables, which keeps others from changing them, and not from their
    /// rows. A table that does not exist has a name that one may have (NAME-2).
    pub(in crate::session) fn have_definitions(&self, tables: &[Name]) -> Result<HeldLocks> {
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
        // LOCK TABLES has the definitions, and not the database.
        let wanted =
            |(name, _): &(Name, MetadataLockMode)| self.locked.is_none() || name.1.is_empty();
        self.lock_names(names.filter(wanted).collect(), &HeldLocks::default())
    }

    /// Takes tables alone whose definitions the session has, unless LOCK TABLES has them so
    /// already.
    pub(in crate::session) fn have_tables_alone(
        &self,
        tables: &[Name],
        definitions: &HeldLocks,
    ) -> Result<HeldLocks> {
        if self.locked.is_some() {
            return Ok(HeldLocks::default());
        }
        let alone = |table: &Name| (table.clone(), MetadataLockMode::Alone);
        self.lock_names(tables.iter().map(alone).collect(), definitions)
    }

    /// Takes tables for using them beside the session's transaction.
    pub(in crate::session) fn share_tables(
        &self,
        tables: Vec<(Name, MetadataLockMode)>,
    ) -> Result<HeldLocks> {
        let Some(locked) = &self.locked else {
            return self.lock_names(tables, &HeldLocks::default());
        };
        for (name, mode) in &tables {
            check_mode(locked, name, *mode)?;
        }
        Ok(HeldLocks::default())
    }

    /// Takes databases alone, and then the tables that are in them.
    pub(in crate::session) fn have_databases_alone(
        &self,
        databases: &[String],
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
        let databases_held = self.lock_names(names, &HeldLocks::default())?;
        let catalog = self.instance.0.catalog.load_full();
        let tables = databases.iter().flat_map(|db| catalog.tables_of(db));
        let tables = tables
            .map(|table| ((table.db.clone(), table.name.clone()), MetadataLockMode::Alone))
            .collect();
        let tables_held = self.lock_names(tables, &databases_held)?;
        Ok((databases_held, tables_held))
    }

    pub(in crate::session) fn release_tables(&mut self) {
        self.held.clear();
    }

    /// Takes the tables that a statement names, until its transaction ends.
    pub(in crate::session) fn use_tables(
        &mut self,
        tables: &[(Arc<TableLock>, MetadataLockMode)],
    ) -> Result<()> {
        if self.locked.is_some() {
            // It has them, or would not have come here.
            return Ok(());
        }
        let (instance, id) = (&self.instance, self.connection_id);
        let gone = || instance.is_gone(id);
        let limits = WaitLimits { wait: self.lock_wait(), stop: &self.process.stop, gone: &gone };
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

    /// Under LOCK TABLES, only those tables may be used, and as they were locked.
    pub(in crate::session) fn check_locked(
        &self,
        tables: &[(Name, MetadataLockMode)],
    ) -> Result<()> {
        let Some(locked) = &self.locked else { return Ok(()) };
        tables.iter().try_for_each(|(name, mode)| check_mode(locked, name, *mode))
    }

    /// LOCK TABLES: for this session until UNLOCK TABLES, the next transaction that is begun, or
    /// its end.
    pub(in crate::session) fn lock_tables(&mut self, tokens: &[Token]) -> Result<()> {
        self.commit()?;
        self.locked = None;
        let database = self.variables.borrow().database.clone();
        let catalog = self.instance.0.catalog.load_full();
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
                _ => return Err(SqlError::syntax("LOCK TABLES t READ or WRITE")),
            };
            // An alias may follow the name.
            let len = if part.get(1) == Some(&Token::Period) { 3 } else { 1 };
            if rest < len {
                return Err(SqlError::syntax("LOCK TABLES t READ or WRITE"));
            }
            let name = path_of(&parts_of(&part[..len])?, database.as_deref())?;
            self.security.check_table(&["LOCK TABLES"], &name.0, Some(&name.1))?;
            self.security.check_table(&["SELECT"], &name.0, Some(&name.1))?;
            catalog.table(&name.0, &name.1)?;
            if mode == MetadataLockMode::Alone {
                // It may change them, and the holder of a definition may wait for the table.
                names.extend(
                    definition_of(&name).into_iter().filter(|(name, _)| !name.1.is_empty()),
                );
            }
            names.push((name, mode));
        }
        if names.is_empty() {
            return Err(SqlError::syntax("LOCK TABLES t READ or WRITE"));
        }
        self.locked = Some(self.lock_names(names, &HeldLocks::default())?);
        Ok(())
    }

    pub(in crate::session) fn unlock_tables(&mut self) -> Result<()> {
        if self.locked.is_some() {
            self.commit()?;
            self.locked = None;
        }
        Ok(())
    }

    pub(in crate::session) fn lock_wait(&self) -> Duration {
        self.variables.borrow().often.table_wait
    }
}

/// Refuses a use of a table for which LOCK TABLES does not have it.
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
