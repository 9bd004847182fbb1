//! A transaction that has ended, reused for the next one of the same client.
//!
//! A session runs transactions one after another, and each of them refers to the same shared
//! objects. A new transaction would increment the reference counts of these objects, which are in
//! memory that all threads write to. So a spare transaction keeps its references, and the next
//! transaction takes them over.

use std::sync::Arc;

use spillway_base::Csn;

use super::{CancelHandle, CommitFuture, Transaction, next_id};
use crate::options::TransactionOptions;
use crate::shared::Shared;

impl Transaction {
    /// A transaction that has ended, in whose place others can begin. `cancel` cancels the waits of
    /// these.
    pub(crate) fn spare(shared: Arc<Shared>, cancel: &CancelHandle) -> Transaction {
        let options = TransactionOptions::new();
        let transaction = Transaction::new(shared, options, Some(cancel.0.clone()));
        transaction.ended.set(true);
        transaction
    }

    /// Begins another transaction in the place of one that [`Transaction::commit_in_place`] or
    /// [`Transaction::rollback_in_place`] ended, or of a spare one
    /// ([`crate::TransactionManager::spare`]).
    ///
    /// # Panics
    /// If it has not ended.
    pub fn begin_again(&mut self, options: TransactionOptions) {
        assert!(self.ended.get(), "a transaction begins where another has ended");
        self.options = options;
        self.owner.renew(next_id());
        self.in_statement.set(false);
        self.seen.set(Csn::ZERO);
        self.newest_read.set(Csn::ZERO);
        self.unchecked.set(false);
        self.locked_at.set(Some(Csn::ZERO));
        self.waits_end.set(None);
        self.leaves_reads.set(false);
        self.reads_until.set(None);
        self.ended.set(false);
    }

    /// As [`Transaction::commit`]. Afterwards only [`Transaction::begin_again`] may be called.
    pub fn commit_in_place(&mut self) -> CommitFuture {
        let commit = self.commit_by(|| ());
        self.let_go();
        commit.unwrap_or_else(|csn| match &self.shared {
            Some(shared) => CommitFuture::waiting(shared.clone(), csn),
            None => CommitFuture::done(Ok(csn)),
        })
    }

    /// As [`Transaction::rollback`]. Afterwards only [`Transaction::begin_again`] may be called.
    pub fn rollback_in_place(&mut self) {
        self.end_undone();
        self.let_go();
    }

    /// Releases the memory of a transaction that has ended.
    fn let_go(&mut self) {
        self.writes.get_mut().clear();
        self.savepoints.get_mut().clear();
        *self.charge.get_mut() = None;
        self.reads.get_mut().clear();
    }
}
