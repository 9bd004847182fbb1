//! Transactions of a session: where they begin and end, and how they are set.

use std::time::Duration;

use spillway::{Durability, Isolation, TransactionOptions};
use spillway_types::Value;

use super::Session;
use crate::errors::{Result, SqlError};

impl Session {
    pub(super) fn options(&mut self) -> TransactionOptions {
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

    pub(super) fn begin(&mut self) {
        let options = self.options();
        let txn = self.instance.0.db.begin(options);
        if let Some(process) = self.instance.0.processes.lock().get_mut(&self.connection_id) {
            process.cancel = Some(txn.cancel_handle());
        }
        self.txn = Some(txn);
    }

    pub(super) fn commit(&mut self) -> Result<()> {
        self.savepoints.clear();
        self.explicit = false;
        let outcome = match self.txn.take() {
            Some(txn) => txn.commit().wait().map(drop).map_err(SqlError::from),
            None => Ok(()),
        };
        self.release_tables();
        outcome
    }

    pub(super) fn end_transaction(&mut self) {
        self.savepoints.clear();
        self.explicit = false;
        self.txn = None;
        self.release_tables();
    }

    pub(super) fn start(&mut self, words: &[String]) -> Result<()> {
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

    pub(super) fn rollback_to(&mut self, name: &str) -> Result<()> {
        let found = self.savepoints.iter().position(|(other, _)| other == name);
        let found =
            found.ok_or_else(|| SqlError::new(1305, format!("SAVEPOINT {name} does not exist")))?;
        if let Some(txn) = &self.txn {
            txn.rollback_to(self.savepoints[found].1);
        }
        self.savepoints.truncate(found + 1);
        Ok(())
    }

    pub(super) fn set_transaction(&mut self, words: &[String], scope: &str) -> Result<()> {
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
}
