//! Metadata locks: who uses a table, and who has it alone.
//!
//! A statement shares its tables until its transaction ends; a change of a table has it alone; LOCK TABLES keeps a table from
//! changes of rows, or from everybody. A database is locked under its name alone: shared by changes of its tables, and held
//! alone by DROP DATABASE.
//!
//! Locks of one statement are taken in one order, the database's first. One that waits to be alone lets no newcomers in
//! before it, or it might wait forever.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use sqlparser::ast;
use sqlparser::tokenizer::Token;

use super::Session;
use super::instance::{Instance, Stop};
use super::own::split_commas;
use super::tables::{Reads, parts_of, path_of, tables_of, targets_of};
use crate::errors::{Result, SqlError};
use crate::parse::{solid, word};

/// Database and name of a table; the name is empty for the database itself.
pub(super) type Name = (String, String);

/// How a table is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mode {
    Read,
    Write,
    /// LOCK TABLES ... READ: rows are read, and nobody changes them.
    Keep,
    Alone,
}

/// Who uses a table.
#[derive(Default)]
struct Users {
    counts: [usize; 4],
    /// Those that wait to have it alone.
    waiting: usize,
}

impl Users {
    fn admits(&self, mode: Mode) -> bool {
        let none = |modes: &[Mode]| modes.iter().all(|mode| self.counts[*mode as usize] == 0);
        match mode {
            Mode::Read => none(&[Mode::Alone]),
            Mode::Write => none(&[Mode::Alone, Mode::Keep]),
            Mode::Keep => none(&[Mode::Alone, Mode::Write]),
            Mode::Alone => none(&[Mode::Read, Mode::Write, Mode::Keep, Mode::Alone]),
        }
    }

    fn is_idle(&self) -> bool {
        self.waiting == 0 && self.counts == [0; 4]
    }
}

/// The metadata locks of an instance.
#[derive(Default)]
pub(super) struct MetadataLocks {
    state: Mutex<HashMap<Name, Users>>,
    changed: Condvar,
}

impl MetadataLocks {
    /// Takes a lock. One who holds the name already goes before those who wait to have it alone: they wait for that one.
    fn lock(
        &self,
        name: &Name,
        mode: Mode,
        holds: bool,
        wait: Duration,
        stop: &Stop,
    ) -> Result<()> {
        let clock = spillway_base::clock::Clock::system();
        let end = clock.now() + wait;
        let mut state = self.state.lock();
        let mut queued = false;
        let outcome = loop {
            let users = state.entry(name.clone()).or_default();
            let others_first = users.waiting > 0 && mode != Mode::Alone && !holds;
            if users.admits(mode) && !others_first {
                users.counts[mode as usize] += 1;
                break Ok(());
            }
            if clock.now() >= end {
                let text = "Lock wait timeout exceeded; try restarting transaction";
                break Err(SqlError::new(1205, text));
            }
            if stop.is_asked() {
                break Err(SqlError::new(1317, "Query execution was interrupted"));
            }
            if mode == Mode::Alone && !queued {
                users.waiting += 1;
                queued = true;
            }
            self.changed.wait_for(&mut state, end.saturating_sub(clock.now()));
        };
        if queued && let Some(users) = state.get_mut(name) {
            users.waiting -= 1;
        }
        if outcome.is_err() {
            Self::tidy(&mut state, name);
            drop(state);
            self.changed.notify_all();
        }
        outcome
    }

    /// Lets those who wait see whether they are still to.
    pub(super) fn wake(&self) {
        drop(self.state.lock());
        self.changed.notify_all();
    }

    fn unlock(&self, name: &Name, mode: Mode) {
        let mut state = self.state.lock();
        if let Some(users) = state.get_mut(name) {
            users.counts[mode as usize] -= 1;
        }
        Self::tidy(&mut state, name);
        drop(state);
        self.changed.notify_all();
    }

    fn tidy(state: &mut HashMap<Name, Users>, name: &Name) {
        if state.get(name).is_some_and(Users::is_idle) {
            state.remove(name);
        }
    }
}

/// Locks that are held; dropping it gives them back.
pub(super) struct Held {
    instance: Instance,
    locks: Vec<(Name, Mode)>,
}

impl Drop for Held {
    fn drop(&mut self) {
        for (name, mode) in self.locks.drain(..) {
            self.instance.0.metadata.unlock(&name, mode);
        }
    }
}

impl Held {
    /// How a table is held.
    fn mode(&self, name: &Name) -> Option<Mode> {
        self.locks.iter().find(|(held, _)| held == name).map(|(_, mode)| *mode)
    }
}

impl Session {
    fn lock_names(&self, mut names: Vec<(Name, Mode)>) -> Result<Held> {
        names.sort_by(|(a, _), (b, _)| a.cmp(b));
        names.dedup_by(|(a, _), (b, _)| a == b);
        let wait = self.lock_wait();
        let mut held = Held { instance: self.instance.clone(), locks: Vec::new() };
        for (name, mode) in names {
            let holds = self.held.as_ref().is_some_and(|held| held.mode(&name).is_some());
            self.instance.0.metadata.lock(&name, mode, holds, wait, &self.stop)?;
            held.locks.push((name, mode));
        }
        Ok(held)
    }

    /// Takes tables for a change of them: alone, unless LOCK TABLES has them so already.
    pub(super) fn have_alone(&self, tables: &[Name]) -> Result<Held> {
        let mut names = Vec::new();
        for table in tables {
            match self.locked.as_ref().map(|locked| locked.mode(table)) {
                Some(Some(Mode::Alone)) => {}
                Some(Some(_)) => return Err(read_locked(table)),
                Some(None) => return Err(not_locked(table)),
                None => names.push((table.clone(), Mode::Alone)),
            }
            names.push(((table.0.clone(), String::new()), Mode::Read));
        }
        self.lock_names(names)
    }

    /// Takes databases alone, and then the tables that are in them.
    pub(super) fn have_databases_alone(&self, databases: &[String]) -> Result<(Held, Held)> {
        if self.locked.is_some() {
            let text = "Can't execute the given command because you have active locked tables or an active transaction";
            return Err(SqlError::new(1192, text));
        }
        let whole = |db: &String| ((db.clone(), String::new()), Mode::Alone);
        let databases_held = self.lock_names(databases.iter().map(whole).collect())?;
        let catalog = self.instance.0.catalog.load_full();
        let tables = databases.iter().flat_map(|db| catalog.tables_of(db));
        let tables =
            tables.map(|table| ((table.db.clone(), table.name.clone()), Mode::Alone)).collect();
        Ok((databases_held, self.lock_names(tables)?))
    }

    pub(super) fn release_tables(&mut self) {
        self.held = None;
    }

    /// Takes the tables that a statement names, until its transaction ends.
    pub(super) fn use_tables(&mut self, statement: &ast::Statement) -> Result<()> {
        let database = self.variables.borrow().database.clone();
        let targets = targets_of(statement, database.as_deref());
        let mode = |name: &Name| if targets.contains(name) { Mode::Write } else { Mode::Read };
        if let Some(locked) = &self.locked {
            let mut reads = Reads::new(database.as_deref());
            reads.add(statement);
            for name in &reads.tables {
                match locked.mode(name) {
                    _ if name.0.eq_ignore_ascii_case("information_schema") => {}
                    None => return Err(not_locked(name)),
                    Some(Mode::Keep) if mode(name) == Mode::Write => return Err(read_locked(name)),
                    Some(_) => {}
                }
            }
            return Ok(());
        }
        let tables = tables_of(statement, database.as_deref()).into_iter();
        let mut needed: Vec<(Name, Mode)> =
            tables.map(|name| (name.clone(), mode(&name))).collect();
        let has = |held: &Held, lock: &(Name, Mode)| {
            held.locks.contains(lock)
                || (lock.1 == Mode::Read && held.locks.contains(&(lock.0.clone(), Mode::Write)))
        };
        if let Some(held) = &self.held {
            needed.retain(|lock| !has(held, lock));
        }
        if needed.is_empty() {
            return Ok(());
        }
        let mut more = self.lock_names(needed)?;
        match &mut self.held {
            Some(held) => held.locks.append(&mut more.locks),
            None => self.held = Some(more),
        }
        Ok(())
    }

    /// LOCK TABLES: for this session until UNLOCK TABLES, the next transaction that is begun, or its end.
    pub(super) fn lock_tables(&mut self, tokens: &[Token]) -> Result<()> {
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
                [rest @ .., "read"] | [rest @ .., "read", "local"] => (Mode::Keep, rest.len()),
                [rest @ .., "low_priority", "write"] | [rest @ .., "write"] => {
                    (Mode::Alone, rest.len())
                }
                _ => return Err(SqlError::syntax("LOCK TABLES t READ or WRITE")),
            };
            // An alias may follow the name.
            let len = if part.get(1) == Some(&Token::Period) { 3 } else { 1 };
            if rest < len {
                return Err(SqlError::syntax("LOCK TABLES t READ or WRITE"));
            }
            let name = path_of(&parts_of(&part[..len])?, database.as_deref())?;
            self.check_table(&["LOCK TABLES"], &name.0, Some(&name.1))?;
            self.check_table(&["SELECT"], &name.0, Some(&name.1))?;
            catalog.table(&name.0, &name.1)?;
            names.push((name, mode));
        }
        self.locked = Some(self.lock_names(names)?);
        Ok(())
    }

    pub(super) fn unlock_tables(&mut self) -> Result<()> {
        if self.locked.is_some() {
            self.commit()?;
            self.locked = None;
        }
        Ok(())
    }

    pub(super) fn lock_wait(&self) -> Duration {
        let variables = self.variables.borrow();
        let seconds = variables.system.get("lock_wait_timeout").and_then(|text| text.parse().ok());
        Duration::from_secs(seconds.unwrap_or(50))
    }
}

fn not_locked(name: &Name) -> SqlError {
    SqlError::new(1100, format!("Table '{}' was not locked with LOCK TABLES", name.1))
}

fn read_locked(name: &Name) -> SqlError {
    let text = format!("Table '{}' was locked with a READ lock and can't be updated", name.1);
    SqlError::new(1099, text)
}
