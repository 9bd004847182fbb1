//! The transaction of a session: its beginning, its end, its savepoints, and the characteristics of
//! the next transaction.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use spillway::{
    CommitFuture, Error, ErrorKind, Isolation, Savepoint, Spare, Transaction, TransactionOptions,
};
use spillway_base::engine::Access;
use sqlparser::tokenizer::Token;

use super::instance::Instance;
use super::metadata::{MetadataLockContext, tables_to_lock};
use super::savepoints::Savepoints;
use super::security_context::SecurityContext;
use crate::api::{Outcome, ResultSink};
use crate::errors::{Result, SqlError};
use crate::executor::Point;
use crate::names;
use crate::parser::{name_of, split_commas, word};
use crate::process::Process;

/// The name of a savepoint, in lower case: comparisons ignore case.
fn savepoint_name(token: Option<&Token>) -> String {
    name_of(token).to_lowercase()
}

/// The transaction of a session, its metadata locks, and the characteristics of the next
/// transaction.
pub(super) struct TransactionState {
    instance: Instance,
    process: Arc<Process>,
    locks: MetadataLockContext,
    txn: Option<Box<Transaction>>,
    /// Memory of the last transaction that the next one reuses.
    spare: Option<Spare>,
    savepoints: Savepoints,
    autocommit: bool,
    /// Whether a statement such as BEGIN began the transaction. It then lasts until a statement
    /// ends it.
    explicit: bool,
    /// The characteristics that SET TRANSACTION has set for the next transaction.
    next_isolation: Option<Isolation>,
    next_read_only: Option<bool>,
    /// The isolation of the last transaction, and whether it is read only. AND CHAIN keeps both.
    running: Option<(Isolation, bool)>,
}

impl TransactionState {
    pub(super) fn new(
        instance: Instance,
        process: Arc<Process>,
        connection_id: u64,
        autocommit: bool,
    ) -> TransactionState {
        let locks = MetadataLockContext::new(instance.clone(), process.clone(), connection_id);
        let savepoints = Savepoints::new(instance.0.db.budget());
        TransactionState {
            instance,
            process,
            locks,
            txn: None,
            spare: None,
            savepoints,
            autocommit,
            explicit: false,
            next_isolation: None,
            next_read_only: None,
            running: None,
        }
    }

    /// Switches to the process of a reset session, with initial characteristics. The transaction
    /// has been rolled back.
    pub(super) fn reset(&mut self, process: Arc<Process>, autocommit: bool) {
        self.locks.reset(process.clone());
        self.process = process;
        // It refers to the cancel handle of the previous process.
        self.spare = None;
        self.autocommit = autocommit;
        self.next_isolation = None;
        self.next_read_only = None;
        self.running = None;
    }

    /// The open transaction.
    pub(super) fn current(&self) -> Option<&Transaction> {
        self.txn.as_deref()
    }

    pub(super) fn is_open(&self) -> bool {
        self.txn.is_some()
    }

    pub(super) fn has_writes(&self) -> bool {
        self.txn.as_ref().is_some_and(|txn| txn.has_writes())
    }

    pub(super) fn isolation(&self) -> Option<Isolation> {
        self.txn.as_ref().map(|txn| txn.options().isolation)
    }

    /// The metadata locks of the session.
    pub(super) fn locks(&self) -> &MetadataLockContext {
        &self.locks
    }

    pub(super) fn locks_mut(&mut self) -> &mut MetadataLockContext {
        &mut self.locks
    }

    pub(super) fn autocommit(&self) -> bool {
        self.autocommit
    }

    /// Whether a statement's transaction ends with the statement.
    pub(super) fn ends_with_statement(&self) -> bool {
        self.autocommit && !self.explicit
    }

    /// Whether a transaction that a statement begins now would have the session's usual options,
    /// and end with the statement.
    pub(super) fn begins_as_usual(&self) -> bool {
        self.autocommit && self.next_isolation.is_none() && self.next_read_only.is_none()
    }

    /// Records that a transaction of one statement, with the `usual` options, has ended.
    pub(super) fn ran_as_usual(&mut self, usual: TransactionOptions) {
        self.running = Some((usual.isolation, usual.read_only));
    }

    /// SET autocommit. Switching it on commits.
    pub(super) fn set_autocommit(&mut self, on: bool) -> Result<()> {
        if on && !self.autocommit {
            self.commit()?;
        }
        self.autocommit = on;
        Ok(())
    }

    /// SET TRANSACTION: sets characteristics of the next transaction.
    pub(super) fn set_next(
        &mut self,
        isolation: Option<Isolation>,
        read_only: Option<bool>,
    ) -> Result<()> {
        if self.txn.is_some() {
            return Err(SqlError::new(
                1568,
                "Transaction characteristics can't be changed while a transaction is in progress",
            ));
        }
        self.next_isolation = isolation.or(self.next_isolation);
        self.next_read_only = read_only.or(self.next_read_only);
        Ok(())
    }

    /// Begins a transaction, with the `usual` options except where SET TRANSACTION has set others.
    pub(super) fn begin(&mut self, usual: TransactionOptions) {
        let isolation = self.next_isolation.take().unwrap_or(usual.isolation);
        let read_only = self.next_read_only.take().unwrap_or(usual.read_only);
        self.running = Some((isolation, read_only));
        // A transaction of one statement repeats its reads after a conflict.
        let alone = self.ends_with_statement();
        let options = usual.isolation(isolation).read_only(read_only).keeps_snapshot(alone);
        let spare = self.spare.take();
        let spare = spare.unwrap_or_else(|| self.instance.0.db.spare(&self.process.cancel));
        let txn = spare.begin(options);
        self.process.transaction.store(txn.id(), Ordering::Relaxed);
        self.txn = Some(txn);
    }

    /// Looks up one row in the open transaction, or as a transaction with the `usual` options
    /// would. Returns whether the row exists, or `None` if that is unknown without a wait.
    pub(super) fn find_at_once(
        &self,
        usual: TransactionOptions,
        point: &Point,
        key: &[u8],
        row: &mut Vec<u8>,
    ) -> Option<bool> {
        let (table, since) = (point.table().rows(), point.since());
        let Some(txn) = &self.txn else {
            return self.instance.0.db.recall(usual, table, key, since, row).ok()?;
        };
        if txn.has_writes() {
            return None;
        }
        txn.begin_statement();
        txn.reads_columns(table, point.columns_read());
        let sees = txn.is_readable() && txn.sees(since);
        sees.then(|| txn.get_with(table, key, Access::MemoryOnly, row).ok())?
    }

    /// Sets whether waits for row locks, and reads of devices, suspend the running statement.
    pub(super) fn leave_waits(&self, waits: bool, reads: bool) {
        if let Some(txn) = &self.txn {
            txn.leave_waits(waits);
            txn.leave_reads(reads);
        }
    }

    /// Sets when the running statement's waits for row locks end at the latest.
    pub(super) fn end_waits_at(&self, end: Option<Duration>) {
        if let Some(txn) = &self.txn {
            txn.end_waits_at(end);
        }
    }

    /// Commits, and waits until the commit is durable.
    pub(super) fn commit(&mut self) -> Result<()> {
        match self.commit_later()? {
            Some(commit) => Ok(commit.wait().map(drop)?),
            None => Ok(()),
        }
    }

    /// Commits the open transaction before a change of definitions. Fails if that transaction is
    /// read only.
    pub(super) fn commit_before_ddl(&mut self, usual: TransactionOptions) -> Result<()> {
        let read_only = match &self.txn {
            Some(txn) => txn.options().read_only,
            None => self.next_read_only.unwrap_or(usual.read_only),
        };
        if read_only {
            let text = "it changes definitions in a transaction that only reads";
            return Err(Error::new(ErrorKind::ReadOnlyTransaction, text).into());
        }
        self.commit()
    }

    /// Commits the open transaction. Fails if the commit is refused and has no CSN. Otherwise the
    /// caller waits for the returned future, also if it has failed already: such a commit may
    /// survive in the log.
    pub(super) fn commit_later(&mut self) -> Result<Option<CommitFuture>> {
        self.savepoints.clear();
        self.explicit = false;
        let commit = self.txn.take().map(|txn| {
            let (commit, spare) = txn.commit_and_leave();
            self.spare = Some(spare);
            commit
        });
        self.locks.release();
        let unordered = commit.as_ref().filter(|commit| commit.ordered().is_none());
        if let Some(Err(refused)) = unordered.and_then(CommitFuture::known) {
            return Err(refused.into());
        }
        Ok(commit)
    }

    pub(super) fn rollback(&mut self) {
        self.savepoints.clear();
        self.explicit = false;
        if let Some(txn) = self.txn.take() {
            self.spare = Some(txn.rollback_and_leave());
        }
        self.locks.release();
    }

    /// LOCK TABLES. The locks last until UNLOCK TABLES, the beginning of a transaction, or the end
    /// of the session.
    pub(super) fn lock_tables(
        &mut self,
        tokens: &[Token],
        database: Option<&str>,
        security: &SecurityContext,
        wait: Duration,
    ) -> Result<()> {
        self.commit()?;
        self.locks.unlock_tables();
        let catalog = self.instance.0.catalog.load_full();
        let names = tables_to_lock(tokens, database, &catalog, security)?;
        self.locks.lock_tables(names, wait)
    }

    /// UNLOCK TABLES, which commits if there are locked tables.
    pub(super) fn unlock_tables(&mut self) -> Result<()> {
        if self.locks.has_locked_tables() {
            self.commit()?;
            self.locks.unlock_tables();
        }
        Ok(())
    }

    /// Runs a statement that begins or ends a transaction, or a statement about savepoints. A new
    /// transaction has the `usual` options except where SET TRANSACTION has set others.
    pub(super) fn control(
        &mut self,
        plain: &[Token],
        words: &[String],
        usual: TransactionOptions,
    ) -> Result<()> {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let near = |at: usize| {
            let token = plain.get(at).map_or_else(String::new, ToString::to_string);
            SqlError::syntax(format!("near '{token}'"))
        };
        match words.as_slice() {
            ["begin"] | ["begin", "work"] => self.start(None, false, usual),
            ["start", "transaction", ..] => self.start_transaction(&plain[2..], usual, || near(2)),
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
                self.end(*verb == "commit", chain, release, usual)
            }
            ["savepoint", _] => self.set_savepoint(savepoint_name(plain.get(1)), usual),
            ["release", "savepoint", _] => {
                let (number, _) = self.find_savepoint(&name_of(plain.last()))?;
                for savepoint in self.savepoints.remove_from(number) {
                    self.txn.iter().for_each(|txn| txn.release(savepoint));
                }
                Ok(())
            }
            _ => Err(near(1)),
        }
    }

    /// START TRANSACTION, with its characteristics.
    fn start_transaction(
        &mut self,
        options: &[Token],
        usual: TransactionOptions,
        near: impl Fn() -> SqlError,
    ) -> Result<()> {
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
        self.start(read_only, snapshot, usual)
    }

    /// COMMIT or ROLLBACK, with AND CHAIN and RELEASE.
    fn end(
        &mut self,
        commits: bool,
        chain: bool,
        release: bool,
        usual: TransactionOptions,
    ) -> Result<()> {
        let same = self.running;
        if commits {
            self.commit()?;
        } else {
            self.rollback();
        }
        if let (true, Some((isolation, read_only))) = (chain, same) {
            self.next_isolation = Some(isolation);
            self.next_read_only = Some(read_only);
        }
        if chain {
            self.start(None, false, usual)?;
        }
        if release {
            self.process.stop.killed.store(true, Ordering::Release);
        }
        Ok(())
    }

    fn set_savepoint(&mut self, name: String, usual: TransactionOptions) -> Result<()> {
        names::check_length(&name)?;
        if self.txn.is_none() && !self.autocommit {
            self.begin(usual);
        }
        if let Some(txn) = &self.txn
            && let Some(replaced) = self.savepoints.set(name, || txn.savepoint())?
        {
            txn.release(replaced);
        }
        Ok(())
    }

    fn start(
        &mut self,
        read_only: Option<bool>,
        snapshot: bool,
        usual: TransactionOptions,
    ) -> Result<()> {
        self.commit()?;
        self.locks.unlock_tables();
        if read_only.is_some() {
            self.next_read_only = read_only;
        }
        self.explicit = true;
        self.begin(usual);
        if let (Some(txn), true) = (&self.txn, snapshot) {
            txn.take_snapshot();
        }
        Ok(())
    }

    fn find_savepoint(&self, name: &str) -> Result<(u64, Savepoint)> {
        let found = self.savepoints.find(&name.to_lowercase());
        found.ok_or_else(|| SqlError::new(1305, format!("SAVEPOINT {name} does not exist")))
    }

    fn rollback_to(&mut self, name: &str) -> Result<()> {
        let (number, savepoint) = self.find_savepoint(name)?;
        if let Some(txn) = &self.txn {
            txn.rollback_to(savepoint);
        }
        // The transaction has forgotten the later savepoints.
        self.savepoints.remove_from(number + 1).for_each(drop);
        Ok(())
    }
}

/// Sends the outcome of a change to the client, once its commit is durable.
pub(super) fn acknowledge(
    commit: Option<CommitFuture>,
    outcome: &Outcome,
    sink: &mut dyn ResultSink,
) -> Result<()> {
    match commit {
        // The statements that follow must see the commit.
        Some(commit) if outcome.status.more_results => {
            commit.wait()?;
            sink.ok(outcome)
        }
        Some(commit) => sink.ok_after(commit, outcome),
        None => sink.ok(outcome),
    }
}

/// The characteristics in `SET [scope] TRANSACTION`, by the words that follow it.
pub(super) struct Characteristics {
    pub(super) isolation: Option<&'static str>,
    pub(super) read_only: Option<bool>,
}

impl Characteristics {
    pub(super) fn parse(words: &[String]) -> Result<Characteristics> {
        let (mut isolation, mut read_only) = (None, None);
        // The words contain no white space or commas. Each characteristic begins with its own word.
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
        Ok(Characteristics { isolation, read_only })
    }
}
