//! Metadata locks: who uses a table. Statements share it, DDL has it alone.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use sqlparser::ast;

use super::Session;
use super::tables::tables_of;
use crate::errors::{Result, SqlError};

/// Who uses a table: statements share it, DDL has it alone.
#[derive(Default)]
pub(super) struct MetadataLocks {
    state: Mutex<HashMap<(String, String), (usize, bool)>>,
    changed: Condvar,
}

impl MetadataLocks {
    pub(super) fn lock(
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

    pub(super) fn unlock(&self, table: &(String, String), exclusive: bool) {
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

impl Session {
    pub(super) fn release_tables(&mut self) {
        for table in std::mem::take(&mut self.held) {
            self.instance.0.metadata.unlock(&table, false);
        }
    }

    /// Takes the tables that a statement names, until its transaction ends.
    pub(super) fn use_tables(&mut self, statement: &ast::Statement) -> Result<()> {
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

    pub(super) fn lock_wait(&self) -> Duration {
        let variables = self.variables.borrow();
        let seconds = variables.system.get("lock_wait_timeout").and_then(|text| text.parse().ok());
        Duration::from_secs(seconds.unwrap_or(50))
    }
}
