//! The one memory budget (DESIGN, D7).
//!
//! Everything that grows with load holds a [`Charge`] against the one [`Budget`] the user set.
//! A charge is never refused silently: [`Budget::try_charge`] fails with
//! [`ErrorKind::MemoryFull`], and [`Budget::charge`] is for memory that is already spent and must
//! be seen (its owner then slows, flushes or evicts).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{Error, ErrorKind, Result};

/// What memory is used for; the budget reports each apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// Memtables, active and immutable.
    Memtables,
    /// Cached data blocks, index blocks and filters.
    Caches,
    /// Uncommitted writes and read sets of open transactions.
    Transactions,
    /// Network buffers, sessions and result sets.
    Connections,
    /// The log, as it is read back at an opening.
    Recovery,
    /// What flushes and compactions have read ahead, or are writing.
    Compactions,
}

const USES: usize = 6;

#[derive(Debug)]
struct Inner {
    limit: usize,
    used: [AtomicUsize; USES],
    total: AtomicUsize,
}

/// A limit in bytes and what is charged against it. Cheap to clone; clones share the account.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Inner>);

impl Budget {
    /// A budget of `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Budget {
        Budget(Arc::new(Inner { limit, used: Default::default(), total: AtomicUsize::new(0) }))
    }

    /// The limit, in bytes.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.0.limit
    }

    /// Bytes charged for everything.
    #[must_use]
    pub fn used(&self) -> usize {
        self.0.total.load(Ordering::Relaxed)
    }

    /// Bytes charged for one use.
    #[must_use]
    pub fn used_for(&self, what: Use) -> usize {
        self.0.used[what as usize].load(Ordering::Relaxed)
    }

    /// Charges `bytes`, past the limit if need be.
    #[must_use]
    pub fn charge(&self, what: Use, bytes: usize) -> Charge {
        self.0.total.fetch_add(bytes, Ordering::Relaxed);
        self.0.used[what as usize].fetch_add(bytes, Ordering::Relaxed);
        Charge { budget: self.clone(), what, bytes }
    }

    /// Charges `bytes` if they fit.
    ///
    /// # Errors
    /// [`ErrorKind::MemoryFull`] when they do not.
    pub fn try_charge(&self, what: Use, bytes: usize) -> Result<Charge> {
        let fits = self.0.total.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |total| {
            total.checked_add(bytes).filter(|&sum| sum <= self.0.limit)
        });
        if fits.is_err() {
            return Err(Error::new(
                ErrorKind::MemoryFull,
                format!(
                    "{bytes} more bytes do not fit the memory budget of {} ({} used)",
                    self.limit(),
                    self.used()
                ),
            ));
        }
        self.0.used[what as usize].fetch_add(bytes, Ordering::Relaxed);
        Ok(Charge { budget: self.clone(), what, bytes })
    }
}

/// Bytes charged against a budget; dropping it gives them back.
#[derive(Debug)]
pub struct Charge {
    budget: Budget,
    what: Use,
    bytes: usize,
}

impl Charge {
    /// The bytes charged.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes the charge to `bytes`, past the limit if need be.
    pub fn resize(&mut self, bytes: usize) {
        let (total, used) = (&self.budget.0.total, &self.budget.0.used[self.what as usize]);
        if bytes >= self.bytes {
            total.fetch_add(bytes - self.bytes, Ordering::Relaxed);
            used.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else {
            total.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
            used.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_add_up_and_come_back() {
        let budget = Budget::new(100);
        let mut first = budget.try_charge(Use::Caches, 60).unwrap();
        let refused = budget.try_charge(Use::Memtables, 41).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::MemoryFull);
        let second = budget.charge(Use::Memtables, 70);
        assert_eq!((budget.used(), budget.used_for(Use::Caches)), (130, 60));
        first.resize(10);
        assert_eq!(budget.used(), 80);
        drop((first, second));
        assert_eq!((budget.used(), budget.used_for(Use::Memtables)), (0, 0));
    }
}
