//! Transactions of a session: their begin, their end, and their settings.

use std::sync::atomic::Ordering;

use spillway::CommitFuture;
use spillway::Error;
use spillway::ErrorKind;
use spillway::TransactionOptions;
use sqlparser::tokenizer::Token;

use super::Session;
use crate::api::{Outcome, ResultSink};
use crate::errors::{Result, SqlError};
use crate::names;
use crate::parser::{name_of, split_commas, word};
use crate::variables::isolation_of;

/// Names of savepoints are compared without regard to case.
fn savepoint_name(token: Option<&Token>) -> String {
    name_of(token).to_lowercase()
}

impl Session {
    pub(super) fn options(&mut self) -> TransactionOptions {
        let usual = self.variables.borrow().transactions;
        let isolation = self.next_isolation.take().unwrap_or(usual.isolation);
        let read_only = self.next_read_only.take().unwrap_or(usual.read_only);
        self.running = Some((isolation, read_only));
        // What one statement alone has read it reads again where it meets a conflict.
        let alone = self.autocommit && !self.explicit;
        usual.isolation(isolation).read_only(read_only).keeps_snapshot(alone)
    }

    pub(super) fn begin(&mut self) {
        let options = self.options();
        let spare = self.spare.take();
        let spare = spare.unwrap_or_else(|| self.instance.0.db.spare(&self.process.cancel));
        let txn = spare.begin(options);
        self.process.transaction.store(txn.id(), Ordering::Relaxed);
        self.txn = Some(txn);
    }

    /// Commits, and waits for that.
    pub(super) fn commit(&mut self) -> Result<()> {
        match self.commit_later()? {
            Some(commit) => Ok(commit.wait().map(drop)?),
            None => Ok(()),
        }
    }

    /// Commits what is open, before a change of definitions, which no transaction that only reads
    /// makes.
    pub(super) fn commit_before_change(&mut self) -> Result<()> {
        let usual = self.variables.borrow().transactions.read_only;
        let read_only = match &self.txn {
            Some(txn) => txn.options().read_only,
            None => self.next_read_only.unwrap_or(usual),
        };
        if read_only {
            let text = "it changes definitions in a transaction that only reads";
            return Err(Error::new(ErrorKind::ReadOnlyTransaction, text).into());
        }
        self.commit()
    }

    /// Commits the open transaction. A commit that is not refused at once is acknowledged later.
    pub(super) fn commit_later(&mut self) -> Result<Option<CommitFuture>> {
        self.savepoints.clear();
        self.explicit = false;
        let commit = self.txn.take().map(|txn| {
            let (commit, spare) = txn.commit_and_leave();
            self.spare = Some(spare);
            commit
        });
        self.release_tables();
        if let Some(Err(refused)) = commit.as_ref().and_then(CommitFuture::known) {
            return Err(refused.into());
        }
        Ok(commit)
    }

    /// Tells how a statement ended that changed something, once that is known to last.
    pub(super) fn tell(
        &self,
        commit: Option<CommitFuture>,
        outcome: &Outcome,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        match commit {
            // What follows must see it.
            Some(commit) if outcome.status.more_results => {
                commit.wait()?;
                sink.ok(outcome)
            }
            Some(commit) => sink.ok_after(commit, outcome),
            None => sink.ok(outcome),
        }
    }

    pub(super) fn end_transaction(&mut self) {
        self.savepoints.clear();
        self.explicit = false;
        if let Some(txn) = self.txn.take() {
            self.spare = Some(txn.rollback_and_leave());
        }
        self.release_tables();
    }

    /// Runs one of the statements that begin, end and mark transactions.
    pub(super) fn control(&mut self, plain: &[Token], words: &[String]) -> Result<()> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let near = |at: usize| {
            let token = plain.get(at).map_or_else(String::new, ToString::to_string);
            SqlError::syntax(format!("near '{token}'"))
        };
        match words.as_slice() {
            ["begin"] | ["begin", "work"] => self.start(None, false),
            ["start", "transaction", ..] => self.start_transaction(&plain[2..], || near(2)),
            ["start", ..] => Err(near(1)),
            ["rollback", rest @ ..] if rest.contains(&"to") => {
                let rest = rest.strip_prefix(&["work"]).unwrap_or(rest);
                let name = plain.last();
                match rest {
                    ["to", _] | ["to", "savepoint", _] => self.rollback_to(&name_of(name)),
                    _ => Err(near(1)),
                }
            }
            [verb @ ("commit" | "rollback"), rest @ ..] => {
                let rest = rest.strip_prefix(&["work"]).unwrap_or(rest);
                let (chain, rest) = match rest {
                    ["and", "chain", rest @ ..] => (true, rest),
                    ["and", "no", "chain", rest @ ..] => (false, rest),
                    rest => (false, rest),
                };
                let release = match rest {
                    [] | ["no", "release"] => false,
                    ["release"] if !chain => true,
                    _ => return Err(near(1)),
                };
                self.end(*verb == "commit", chain, release)
            }
            ["savepoint", _] => self.set_savepoint(savepoint_name(plain.get(1))),
            ["release", "savepoint", _] => {
                let found = self.find_savepoint(&name_of(plain.last()))?;
                for (_, savepoint) in self.savepoints.drain(found..) {
                    self.txn.iter().for_each(|txn| txn.release(savepoint));
                }
                Ok(())
            }
            _ => Err(near(1)),
        }
    }

    /// START TRANSACTION, with its characteristics.
    fn start_transaction(&mut self, options: &[Token], near: impl Fn() -> SqlError) -> Result<()> {
        let (mut read_only, mut snapshot) = (None, false);
        for part in split_commas(options) {
            let part: Vec<String> = part.iter().map(|token| word(Some(token))).collect();
            match part.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
                ["read", "only"] => read_only = Some(true),
                ["read", "write"] => read_only = Some(false),
                ["with", "consistent", "snapshot"] => snapshot = true,
                _ => return Err(near()),
            }
        }
        self.start(read_only, snapshot)
    }

    /// COMMIT or ROLLBACK; with AND CHAIN and RELEASE.
    fn end(&mut self, commits: bool, chain: bool, release: bool) -> Result<()> {
        let same = self.running;
        if commits {
            self.commit()?;
        } else {
            self.end_transaction();
        }
        if let (true, Some((isolation, read_only))) = (chain, same) {
            self.next_isolation = Some(isolation);
            self.next_read_only = Some(read_only);
        }
        if chain {
            self.start(None, false)?;
        }
        if release {
            self.process.stop.killed.store(true, Ordering::Release);
        }
        Ok(())
    }

    fn set_savepoint(&mut self, name: String) -> Result<()> {
        names::check_length(&name)?;
        if self.txn.is_none() && !self.autocommit {
            self.begin();
        }
        if let Some(txn) = &self.txn {
            let savepoint = txn.savepoint();
            if let Some(at) = self.savepoints.iter().position(|(other, _)| *other == name) {
                txn.release(self.savepoints.remove(at).1);
            }
            self.savepoints.push((name, savepoint));
        }
        Ok(())
    }

    fn start(&mut self, read_only: Option<bool>, snapshot: bool) -> Result<()> {
        self.commit()?;
        self.locked = None;
        if read_only.is_some() {
            self.next_read_only = read_only;
        }
        self.explicit = true;
        self.begin();
        if let (Some(txn), true) = (&self.txn, snapshot) {
            txn.take_snapshot();
        }
        Ok(())
    }

    fn find_savepoint(&self, name: &str) -> Result<usize> {
        let lower = name.to_lowercase();
        let found = self.savepoints.iter().position(|(other, _)| *other == lower);
        found.ok_or_else(|| SqlError::new(1305, format!("SAVEPOINT {name} does not exist")))
    }

    fn rollback_to(&mut self, name: &str) -> Result<()> {
        let found = self.find_savepoint(name)?;
        if let Some(txn) = &self.txn {
            txn.rollback_to(self.savepoints[found].1);
        }
        self.savepoints.truncate(found + 1);
        Ok(())
    }

    /// `SET [scope] TRANSACTION`, by the words that follow it.
    pub(super) fn set_transaction(&mut self, words: &[String], scope: &str) -> Result<()> {
        let (mut isolation, mut read_only) = (None, None);
        // White space and commas are gone: each characteristic is known by its own words.
        let mut rest = words.iter().map(String::as_str).filter(|word| !word.is_empty()).peekable();
        while let Some(first) = rest.next() {
            let level = match (first, rest.next()) {
                ("isolation", Some("level")) => match (rest.next(), rest.peek()) {
                    (Some("serializable"), _) => "SERIALIZABLE",
                    (Some("repeatable"), Some(&"read")) => "REPEATABLE-READ",
                    (Some("read"), Some(&"committed")) => "READ-COMMITTED",
                    (Some("read"), Some(&"uncommitted")) => "READ-UNCOMMITTED",
                    _ => return Err(SqlError::syntax("near 'ISOLATION LEVEL'")),
                },
                ("read", Some(mode @ ("only" | "write"))) if read_only.is_none() => {
                    read_only = Some(mode == "only");
                    continue;
                }
                (other, _) => return Err(SqlError::syntax(format!("near '{other}'"))),
            };
            if isolation.replace(level).is_some() {
                return Err(SqlError::syntax("near 'ISOLATION'"));
            }
            if level != "SERIALIZABLE" {
                rest.next();
            }
        }
        if isolation.is_none() && read_only.is_none() {
            return Err(SqlError::syntax("near the end"));
        }
        if scope == "next" {
            if self.txn.is_some() {
                return Err(SqlError::new(
                    1568,
                    "Transaction characteristics can't be changed while a transaction is in progress",
                ));
            }
            self.next_isolation = isolation.map(isolation_of).or(self.next_isolation);
            self.next_read_only = read_only.or(self.next_read_only);
            return Ok(());
        }
        if let Some(level) = isolation {
            self.assign(scope == "global", "transaction_isolation", level)?;
        }
        if let Some(only) = read_only {
            let text = if only { "ON" } else { "OFF" };
            self.assign(scope == "global", "transaction_read_only", text)?;
        }
        Ok(())
    }
}
