//! The buffers that logs are read into. They are charged to the budget. They are reused, because
//! new memory costs a page fault for each of its pages.

use std::sync::Arc;

use spillway_base::budget::{Budget, Charge, Use};
use spillway_base::lock::Mutex;

use super::source::Logged;

/// The share of the budget that all lanes together use to read ahead.
const AHEAD_SHARE: usize = 64;
/// As much as two threads install between two reads.
const AHEAD_BYTES_MAX: usize = 16 << 20;
/// The bytes of one read: few enough to stay in the processor's cache until they are checked, and
/// enough for the disk.
const PIECE_BYTES_MAX: usize = 1 << 20;
const PIECE_BYTES_MIN: usize = 64 << 10;

/// Memory for the pieces of all lanes. Cheap to clone.
#[derive(Clone)]
pub(super) struct Memories(pub(super) Arc<MemoryPool>);

pub(super) struct MemoryPool {
    budget: Budget,
    /// The bytes of a piece.
    pub(super) bytes: usize,
    /// The bytes that each lane reads ahead.
    pub(super) ahead_bytes: usize,
    free: Mutex<Vec<FreeMemory>>,
}

struct FreeMemory {
    bytes: Vec<u8>,
    commits: Vec<Logged>,
    charge: Charge,
}

impl Memories {
    pub(super) fn new(budget: &Budget, lanes: usize) -> Memories {
        let ahead_bytes = (budget.limit() / AHEAD_SHARE).min(AHEAD_BYTES_MAX) / lanes.max(1);
        let bytes = (ahead_bytes / 4).clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX);
        let free = Mutex::default();
        Memories(Arc::new(MemoryPool { budget: budget.clone(), bytes, ahead_bytes, free }))
    }

    pub(super) fn take(&self) -> Memory {
        let held = self.0.free.lock().pop();
        let (bytes, commits, charge) = match held {
            Some(held) => (held.bytes, held.commits, held.charge),
            None => (Vec::new(), Vec::new(), self.0.budget.charge(Use::Recovery, 0)),
        };
        Memory { bytes, commits, charge: Some(charge), home: self.clone() }
    }
}

/// The memory of a piece. Dropping it returns it to the pool.
pub(super) struct Memory {
    pub(super) bytes: Vec<u8>,
    pub(super) commits: Vec<Logged>,
    charge: Option<Charge>,
    home: Memories,
}

impl Memory {
    /// Its size in bytes.
    pub(super) fn size(&self) -> usize {
        self.bytes.capacity() + self.commits.capacity() * size_of::<Logged>()
    }

    /// Sets the charge to the size that it has now.
    pub(super) fn recharge(&mut self) {
        let bytes = self.size();
        if let Some(charge) = &mut self.charge {
            charge.resize(bytes);
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let Some(charge) = self.charge.take() else { return };
        // The buffer of an unusually large frame is not kept. A buffer that was lost in an error is
        // empty.
        if !self.bytes.is_empty() && self.bytes.capacity() <= 2 * self.home.0.bytes {
            let (bytes, mut commits) =
                (std::mem::take(&mut self.bytes), std::mem::take(&mut self.commits));
            commits.clear();
            self.home.0.free.lock().push(FreeMemory { bytes, commits, charge });
        }
    }
}
