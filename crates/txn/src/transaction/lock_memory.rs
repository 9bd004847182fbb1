//! Charges the memory of a transaction's locks to the budget (`locks::ranges`, LOCK-8).
//!
//! A transaction charges the memory of a lock before it requests the lock, in steps of
//! [`super::CHARGE_STEP`]. The first [`FREE_BYTES`] of its locks are not charged. If the
//! transaction has many row locks, it first folds them into range locks. If neither a fold nor a
//! charge makes room, the request fails with [`ErrorKind::LockTableFull`] and locks nothing. The
//! transaction keeps the locks that it holds.

use std::cell::{Cell, RefCell};

use spillway_base::budget::Charge;
use spillway_base::{Error, ErrorKind, Result};

use super::{CHARGE_STEP, Transaction};
use crate::locks::lock_bytes;

/// Bytes of locks that are not charged: those of some 50 rows.
const FREE_BYTES: usize = 8 << 10;

/// A transaction folds its row locks once they take this fraction of the budget.
const PART_HELD: usize = 64;

/// A transaction with fewer row locks than this never folds them, whatever the budget.
const FOLD_FROM: usize = 10_000;

/// A transaction with more row locks than this always folds them, because a fold visits all of
/// them.
const FOLD_BY: usize = 1_000_000;

/// The memory charged for a transaction's locks.
pub(super) struct LockMemory {
    /// The bytes of locks that the free share and the charge cover.
    room: Cell<usize>,
    charge: RefCell<Option<Charge>>,
}

impl LockMemory {
    pub(super) fn new() -> LockMemory {
        LockMemory { room: Cell::new(FREE_BYTES), charge: RefCell::default() }
    }

    /// Notes that the transaction has released its locks.
    pub(super) fn emptied(&self) {
        if self.room.replace(FREE_BYTES) != FREE_BYTES {
            self.charge.take();
        }
    }
}

impl Transaction {
    /// Makes sure that the charge covers one more lock, on a key of this length.
    #[inline]
    pub(super) fn room_for_lock(&self, key_len: usize) -> Result<()> {
        let more = lock_bytes(key_len);
        if self.owner.bytes() + more <= self.lock_memory.room.get() {
            return Ok(());
        }
        self.make_lock_room(more)
    }

    #[cold]
    fn make_lock_room(&self, more: usize) -> Result<()> {
        let locks_max = self.shared().budget.limit() / PART_HELD / lock_bytes(0);
        let fold = |from: usize| {
            let worth = self.owner.holds_lines(from);
            if worth {
                self.shared().locks.fold(&self.owner);
            }
            worth && self.owner.bytes() + more <= self.lock_memory.room.get()
        };
        if fold(locks_max.clamp(FOLD_FROM, FOLD_BY)) {
            return Ok(());
        }
        let full = match self.charge_locks(more) {
            Err(error) if error.kind() == ErrorKind::MemoryFull => error,
            outcome => return outcome,
        };
        if fold(FOLD_FROM) {
            return Ok(());
        }
        let message = "the memory budget has no room for another row lock; \
            lock fewer rows in one transaction";
        Err(Error::with_source(ErrorKind::LockTableFull, message, full))
    }

    fn charge_locks(&self, more: usize) -> Result<()> {
        let want = (self.owner.bytes() + more).next_multiple_of(CHARGE_STEP);
        let mut charge = self.lock_memory.charge.borrow_mut();
        let have = charge.as_ref().map_or(0, Charge::bytes);
        let step = self.shared().charge_transaction(want - have)?;
        match &mut *charge {
            charge @ None => *charge = Some(step),
            Some(charge) => {
                drop(step);
                charge.resize(want);
            }
        }
        self.lock_memory.room.set(want);
        Ok(())
    }
}
