//! The batches of a lane that are too large for its ring.
//!
//! - **LARGE-BATCH-1 (bounded).** The queued batches of a lane have at most a limit of bytes in
//!   sum. A single batch may exceed the limit, and then waits until it is the first in the queue.
//!   Besides the queue, one frame is in memory while a thread writes it. So a lane's memory is
//!   bounded, even if relaxed durability acknowledges commits faster than a slow device writes
//!   them.
//! - **LARGE-BATCH-2 (charged).** The budget is charged for a batch and for its copy in the frame,
//!   from the commit's admission until the frame is written.
//!
//! A committing thread claims room for its batch ([`LargeBatches::claim`]), gets its CSN, and
//! queues the batch. The first place of the queue always gets its claim, so no place waits for a
//! later one.

use rustc_hash::FxHashMap;
use spillway_base::batch::WriteBatch;
use spillway_base::budget::{Budget, Charge, Use};

use crate::sync::Mutex;

/// The large batches of a lane. The module's page states the guarantees.
pub(super) struct LargeBatches {
    /// The bytes of queued batches, see LARGE-BATCH-1.
    limit: usize,
    budget: Option<Budget>,
    queued: Mutex<LargeQueue>,
}

#[derive(Default)]
struct LargeQueue {
    /// The batches and their charges, by their places.
    batches: FxHashMap<u64, (WriteBatch, Option<Charge>)>,
    /// See [`LargeBatches::bytes`].
    bytes: usize,
}

impl LargeBatches {
    pub(super) fn new(limit: usize) -> LargeBatches {
        LargeBatches { limit, budget: None, queued: Mutex::default() }
    }

    pub(super) fn charge_to(&mut self, budget: &Budget) {
        self.budget = Some(budget.clone());
    }

    /// The charge for a batch and its copy.
    pub(super) fn charge(&self, bytes: usize) -> Option<Charge> {
        self.budget.as_ref().map(|budget| budget.charge(Use::Transactions, 2 * bytes))
    }

    /// Claims room for a batch, if there is some or if its place `is_first` in the queue.
    pub(super) fn claim(&self, bytes: usize, is_first: bool) -> bool {
        let mut queued = self.queued.lock();
        let fits = is_first || queued.bytes + bytes <= self.limit;
        if fits {
            queued.bytes += bytes;
        }
        fits
    }

    /// Gives a claim back.
    pub(super) fn unclaim(&self, bytes: usize) {
        self.queued.lock().bytes -= bytes;
    }

    /// Bytes of batches that are queued, or that have a claim.
    pub(super) fn bytes(&self) -> usize {
        self.queued.lock().bytes
    }

    /// Whether more than half of the limit is taken.
    pub(super) fn is_half_full(&self) -> bool {
        self.bytes() > self.limit / 2
    }

    /// Queues a batch that has a claim.
    pub(super) fn put(&self, at: u64, batch: &WriteBatch, charge: Option<Charge>) {
        let batch = batch.clone();
        self.queued.lock().batches.insert(at, (batch, charge));
    }

    /// Takes a batch out of the queue.
    pub(super) fn take(&self, at: u64) -> (WriteBatch, Option<Charge>) {
        let mut queued = self.queued.lock();
        let taken = queued.batches.remove(&at).expect("queued before its place was filled");
        queued.bytes -= taken.0.as_bytes().len();
        taken
    }
}
