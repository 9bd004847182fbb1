//! A transaction that has ended, for the next one of the same client.
//!
//! Who runs transactions one after another, as a session does, has them refer to the same things
//! each time. A reference that is counted is a change of memory that all threads share; so they are
//! counted once, and the next transaction is made in the place of the one before.

use std::sync::Arc;

use spillway_base::Csn;

use super::{CancelHandle, CommitFuture, Transaction, next_id};
use crate::manager::Shared;
use crate::options::TransactionOptions;

impl Transaction {
    /// One that has ended, for others to begin in its place. Their waits are cancelled by `cancel`.
    pub(crate) fn spare(shared: Arc<Shared>, cancel: &CancelHandle) -> Transaction {
        let options = TransactionOptions::new();
        let transaction = Transaction::new(shared, options, Some(cancel.0.clone()));
        transaction.ended.set(true);
        transaction
    }

    /// Begins another transaction in the place of one that was ended by
    /// [`Transaction::commit_in_place`] or
    /// [`Transaction::rollback_in_place`], or is a spare one
    /// ([`crate::TransactionManager::spare`]).
    ///
    /// # Panics
    /// Where it has not ended.
    pub fn begin_again(&mut self, options: TransactionOptions) {
        assert!(self.ended.get(), "a transaction begins where another has ended");
        self.options = options;
        self.owner.renew(next_id());
        self.in_statement.set(false);
        self.seen.set(Csn::ZERO);
        self.newest_read.set(Csn::ZERO);
        self.unchecked.set(false);
        self.locked_at.set(Some(Csn::ZERO));
        self.leaves_reads.set(false);
        self.reads_until.set(None);
        self.ended.set(false);
    }

    /// As [`Transaction::commit`]. Nothing but [`Transaction::begin_again`] may be asked of it
    /// then.
    pub fn commit_in_place(&mut self) -> CommitFuture {
        let commit = self.commit_by(|| ());
        self.let_go();
        commit.unwrap_or_else(|csn| match &self.shared {
            Some(shared) => CommitFuture::waiting(shared.clone(), csn),
            None => CommitFuture::done(Ok(csn)),
        })
    }

    /// As [`Transaction::rollback`]. Nothing but [`Transaction::begin_again`] may be asked of it
    /// then.
    pub fn rollback_in_place(&mut self) {
        self.end_undone();
        self.let_go();
    }

    /// Gives back what one that has ended takes.
    fn let_go(&mut self) {
        self.writes.get_mut().clear();
        self.savepoints.get_mut().clear();
        *self.charge.get_mut() = None;
        self.reads.get_mut().clear();
    }
}
