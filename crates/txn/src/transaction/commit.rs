//! The commit: prepares spilled writes and deleted ranges, orders and installs the writes, and
//! releases everything that the transaction holds.

use spillway_base::{Csn, EngineKind, ErrorKind, Result};

use super::{CommitFuture, Transaction, buffer};
use crate::options::Durability;
use crate::pipeline::Terms;

/// A commit, and the bytes that it wrote to each engine.
type Written = (Csn, [usize; EngineKind::COUNT]);

impl Transaction {
    /// Commits. When this returns, the commit is ordered and installed, or refused; the future
    /// resolves once it is acknowledged.
    pub fn commit(self) -> CommitFuture {
        self.commit_and(|| ())
    }

    /// As [`Transaction::commit`]. Calls `installed` once the commit is installed or refused and
    /// its row locks are released, before the throttle makes the writer sleep. A caller that holds
    /// other locks releases them there.
    pub fn commit_and(mut self, installed: impl FnOnce()) -> CommitFuture {
        self.commit_for_drop(installed)
    }

    /// As [`Transaction::commit_and`], without moving the transaction. Afterwards the caller may
    /// only drop it.
    pub fn commit_for_drop(&mut self, installed: impl FnOnce()) -> CommitFuture {
        self.commit_by(installed).unwrap_or_else(|csn| match self.shared.take() {
            Some(shared) => CommitFuture::waiting(shared, csn),
            None => CommitFuture::done(Ok(csn)),
        })
    }

    /// Commits. Returns the outcome, or the CSN of a commit whose acknowledgement must be waited
    /// for.
    pub(super) fn commit_by(
        &mut self,
        installed: impl FnOnce(),
    ) -> std::result::Result<CommitFuture, Csn> {
        let outcome = self.commit_now();
        if outcome.is_err() && self.serializable() {
            self.shared().serializable.aborted(self.owner.id());
        }
        self.end();
        installed();
        let (csn, durability) = match outcome {
            Err(error) => return Ok(CommitFuture::done(Err(error))),
            Ok(None) => (self.seen.get(), Durability::Commit),
            Ok(Some((csn, bytes))) => {
                self.shared().slow_down(bytes, self.durability());
                (csn, self.durability())
            }
        };
        CommitFuture::at_once(self.shared(), csn, durability).ok_or(csn)
    }

    /// Returns the commit, if there was anything to write, and the bytes that it wrote to each
    /// engine.
    fn commit_now(&self) -> Result<Option<Written>> {
        if self.has_spilled() {
            self.spill_writes()?;
        }
        let written = loop {
            let changes = self.expand_ranges()?;
            match self.order_and_install(changes) {
                // An overlay that may cover the deleted ranges was attached since. They are
                // expanded again.
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                ordered => break ordered?,
            }
        };
        // The spilled writes are an overlay now.
        self.spill.replace(None);
        Ok(written)
    }

    /// Orders and installs the writes, if there are any. If the list of overlays has changed since
    /// `changes`, fails with [`ErrorKind::WouldBlock`].
    fn order_and_install(&self, changes: u64) -> Result<Option<Written>> {
        let mut batch = self.writes.borrow_mut().take_batch();
        let (writes, spill) = (self.writes.borrow(), self.spill.borrow());
        let layers = spill.as_ref().map(|spill| spill.commit_into(writes.dropped(), &mut batch));
        let admit = || self.shared().admit(&batch, &self.options);
        let admission = if batch.is_empty() { None } else { Some(admit()?) };
        if self.serializable() {
            self.shared().serializable.prepare(self.owner.id())?;
        }
        let committed = |csn: &dyn Fn() -> Csn| {
            if self.serializable() {
                self.shared().serializable.committed(self.owner.id(), csn());
            }
        };
        let Some(admission) = admission else {
            committed(&|| self.snapshot());
            return Ok(None);
        };
        let spilled = spill.iter().flat_map(|spill| spill.tables());
        let touched = writes.touched().chain(spilled.filter(|table| !writes.created(*table)));
        let check = || self.check_ranges(changes);
        let terms = Terms::new(touched, writes.dropped());
        let terms = Terms { alone: terms.alone || spill.is_some(), check: &check, ..terms };
        let numbered = |csn| {
            if let (Some(spill), Some(layers)) = (&*spill, layers) {
                spill.attach(self.shared(), csn, layers);
            }
            committed(&|| csn);
        };
        let csn = self.shared().commit(admission, &batch, terms, numbered)?;
        let bytes = batch.engine_bytes();
        buffer::recycle(batch);
        Ok(Some((csn, bytes)))
    }
}
