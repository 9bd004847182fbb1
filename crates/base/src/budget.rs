//! The one memory budget (decision 007).
//!
//! Everything that grows with load holds a [`Charge`] against the one [`Budget`] that the user set.
//! [`Budget::try_charge`] fails with [`ErrorKind::MemoryFull`] if the budget has no room; no charge
//! fails silently. [`Budget::charge`] always succeeds: it records memory that is already in use,
//! and its owner then slows down, flushes or evicts.
//!
//! # Eviction on demand
//!
//! Memory that no other component needs is best used as a cache. A component that can free memory
//! on request, such as a cache, registers itself as a *holder* ([`Budget::gives_way`]). A holder
//! may use all memory that is left. When another component needs memory, the budget asks the
//! holders to free it:
//!
//! - **BUDGET-1 (asked first).** [`Budget::try_charge`] fails only after all registered holders
//!   were asked and freed too little. Two kinds of charges fail without this: those of BUDGET-3,
//!   and those for more than the whole limit.
//! - **BUDGET-2 (asked then, too).** A charge that cannot be refused ([`Budget::charge`]) also asks
//!   the holders if it goes past the limit, before it returns.
//! - **BUDGET-3 (not by itself).** A charge for [`Use::Caches`] or [`Use::FreePages`] asks no
//!   holder. So a cache may charge a new entry while it holds its own locks.
//! - **BUDGET-4 (no lock).** The budget holds no lock of its own while it asks holders. The thread
//!   that charges may hold any locks except those that [`GiveWay::give_way`] takes.
//! - **BUDGET-5 (in turn).** The budget asks holders one after another, in the order of their
//!   [`Worth`], each only for the memory that is still missing. A holder that can free memory only
//!   once its readers have left *pledges* this memory instead. Once the pledges cover the missing
//!   memory, or once all holders were asked, the budget waits for the pledged memory, for a bounded
//!   time. If a holder does not free what it has pledged, the budget asks the remaining holders.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};

use crate::{Error, ErrorKind, Result};

/// A use of memory. The budget reports each use separately.
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
    /// The log's records, while recovery reads them.
    Recovery,
    /// Buffers of flushes and compactions: blocks that they have read ahead or are writing.
    Compactions,
    /// Pages for cached blocks that hold no block now. The next cached blocks take them, so a cache
    /// can use this memory without charging more.
    FreePages,
    /// Memory of the process that no component charges, estimated from its resident memory.
    Other,
    /// Rows of tables of the memory engine, with their indexes and arrays.
    Rows,
}

const USES: usize = 9;

impl Use {
    /// All uses.
    pub const ALL: [Use; USES] = [
        Use::Memtables,
        Use::Caches,
        Use::Transactions,
        Use::Connections,
        Use::Recovery,
        Use::Compactions,
        Use::FreePages,
        Use::Other,
        Use::Rows,
    ];

    /// Whether a charge for this use asks no holders (BUDGET-3).
    fn gives_way(self) -> bool {
        matches!(self, Use::Caches | Use::FreePages)
    }
}

/// How often one charge asks the holders at most. One round may not be enough, because other
/// charges may take the memory that the holders free.
const ASKED_AT_MOST: usize = 8;

/// The loss when a holder frees memory. The budget first asks the holder that loses the least.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Worth {
    /// Nothing: the memory has no content.
    Unused,
    /// A copy of data that is on a device in the same form.
    Cached,
    /// The only copy in memory of rows that must otherwise be read one by one from the log.
    Evicted,
}

/// A holder of memory that can be freed on request: a cache ([`Use::Caches`], [`Use::FreePages`]),
/// rows of the memory engine ([`Use::Rows`]), or the allocator's free memory ([`Use::Other`]).
pub trait GiveWay: Send + Sync {
    /// The loss when the holder frees its memory.
    fn worth(&self) -> Worth;

    /// Frees about `bytes` bytes, or as many as it can. Returns the number of bytes that it will
    /// free only later, within a bounded time. Those bytes are pledged and remain charged until
    /// then.
    fn give_way(&self, bytes: usize) -> usize;

    /// Waits, for a bounded time, until the holder has freed the bytes that it pledged.
    fn keep_pledge(&self) {}
}

struct BudgetState {
    limit: usize,
    used: [AtomicUsize; USES],
    total: AtomicUsize,
    giving: RwLock<Vec<Weak<dyn GiveWay>>>,
}

impl std::fmt::Debug for BudgetState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Budget")
            .field("limit", &self.limit)
            .field("used", &self.used)
            .finish_non_exhaustive()
    }
}

impl BudgetState {
    fn past(&self) -> usize {
        self.total.load(Ordering::Relaxed).saturating_sub(self.limit)
    }

    /// Asks the holders in turn for the missing bytes, until none are missing (BUDGET-4, BUDGET-5).
    fn ask(&self, missing: impl Fn() -> usize) {
        let giving = self.giving.read().unwrap_or_else(PoisonError::into_inner).clone();
        let giving: Vec<_> = giving.iter().filter_map(Weak::upgrade).collect();
        let mut next = 0;
        while next < giving.len() && missing() > 0 {
            let (first, mut pledged) = (next, 0_usize);
            while let Some(one) = giving.get(next) {
                let bytes = missing().saturating_sub(pledged);
                if bytes == 0 {
                    break;
                }
                pledged = pledged.saturating_add(one.give_way(bytes));
                next += 1;
            }
            // Readers that stay may prevent a holder from keeping its pledge. Then the remaining
            // holders are asked.
            if pledged > 0 {
                giving[first..next].iter().for_each(|one| one.keep_pledge());
            }
        }
    }

    /// Records that the charge for a use has grown.
    fn grown(&self, what: Use) {
        if self.past() > 0 && !what.gives_way() {
            self.ask(|| self.past());
        }
    }
}

/// A limit in bytes and what is charged against it. Cheap to clone; clones share the account.
#[derive(Clone, Debug)]
pub struct Budget(Arc<BudgetState>);

impl Budget {
    /// A budget of `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Budget {
        Budget(Arc::new(BudgetState {
            limit,
            used: Default::default(),
            total: AtomicUsize::new(0),
            giving: RwLock::default(),
        }))
    }

    /// Registers a holder. The budget asks it to evict from now on, until the holder is dropped.
    pub fn gives_way(&self, one: Weak<dyn GiveWay>) {
        let mut giving = self.0.giving.write().unwrap_or_else(PoisonError::into_inner);
        giving.retain(|one| one.strong_count() > 0);
        giving.push(one);
        giving.sort_by_key(|one| one.upgrade().map(|one| one.worth()));
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

    /// The charged bytes without `own` bytes of a cache and without free pages: the memory that
    /// other uses take from what the cache could have.
    #[must_use]
    pub fn used_beside(&self, own: usize) -> usize {
        self.used().saturating_sub(own).saturating_sub(self.used_for(Use::FreePages))
    }

    /// Charges `bytes`, past the limit if need be.
    #[must_use]
    pub fn charge(&self, what: Use, bytes: usize) -> Charge {
        let mut charge = Charge { budget: self.clone(), what, bytes: 0 };
        charge.resize(bytes);
        charge
    }

    /// Adds `bytes` to the total if they fit.
    fn take(&self, bytes: usize) -> bool {
        let sum = |total: usize| total.checked_add(bytes).filter(|&sum| sum <= self.0.limit);
        self.0.total.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum).is_ok()
    }

    /// Charges `bytes` if they fit, or once they fit because holders freed memory.
    ///
    /// # Errors
    /// [`ErrorKind::MemoryFull`] when they do not.
    pub fn try_charge(&self, what: Use, bytes: usize) -> Result<Charge> {
        let mut fits = self.take(bytes);
        for _ in 0..ASKED_AT_MOST {
            if fits || what.gives_way() || bytes > self.0.limit {
                break;
            }
            self.0.ask(|| (self.used() + bytes).saturating_sub(self.0.limit));
            fits = self.take(bytes);
        }
        if !fits {
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
            used.fetch_add(bytes - self.bytes, Ordering::Relaxed);
            total.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else {
            total.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
            used.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        let more = bytes > self.bytes;
        self.bytes = bytes;
        if more {
            self.budget.0.grown(self.what);
        }
    }

    /// Takes over another charge for the same use.
    ///
    /// # Panics
    /// If it is for another use.
    pub fn join(&mut self, mut other: Charge) {
        assert_eq!(self.what, other.what, "charges of one use are joined");
        self.bytes += std::mem::take(&mut other.bytes);
    }

    /// Changes the charge to `bytes` if that fits, or once it fits because holders freed memory
    /// (BUDGET-1).
    ///
    /// # Errors
    /// [`ErrorKind::MemoryFull`] when it does not. The charge is then as it was.
    pub fn try_resize(&mut self, bytes: usize) -> Result<()> {
        match bytes.checked_sub(self.bytes) {
            None | Some(0) => self.resize(bytes),
            Some(more) => {
                let mut more = self.budget.try_charge(self.what, more)?;
                self.bytes += std::mem::take(&mut more.bytes);
            }
        }
        Ok(())
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.resize(0);
    }
}

/// Bytes that are counted exactly and charged in steps, so that few changes touch the shared
/// counters. The first step is not charged here: its owner charges for it elsewhere.
#[derive(Debug)]
pub struct Stepped {
    bytes: usize,
    charge: Charge,
}

impl Stepped {
    /// The bytes of a step.
    pub const STEP: usize = 16 << 10;

    /// A count of zero bytes.
    #[must_use]
    pub fn new(budget: &Budget, what: Use) -> Stepped {
        Stepped { bytes: 0, charge: budget.charge(what, 0) }
    }

    /// Changes the count to `bytes` if they fit.
    ///
    /// # Errors
    /// [`ErrorKind::MemoryFull`] when they do not. The count is then as it was.
    pub fn try_set(&mut self, bytes: usize) -> Result<()> {
        let charged = match bytes.saturating_sub(Self::STEP) {
            0 => 0,
            past => past.next_multiple_of(Self::STEP.max(past / 8)),
        };
        // One step more than needed stays charged, because the next change may need it again.
        if charged > self.charge.bytes() {
            self.charge.try_resize(charged)?;
        } else if charged == 0 || charged + charged / 4 + Self::STEP < self.charge.bytes() {
            self.charge.resize(charged);
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Subtracts bytes from the count.
    pub fn sub(&mut self, bytes: usize) {
        // Reducing the count never fails.
        let _ = self.try_set(self.bytes - bytes);
    }

    /// The bytes counted.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
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

    /// A cache that frees what the budget asks for, down to a floor, and counts how often it was
    /// asked.
    struct Cache {
        worth: Worth,
        charge: std::sync::Mutex<Charge>,
        floor: usize,
        asked: AtomicUsize,
        /// Bytes that the cache pledges, and frees only when a caller waits for them.
        pledged: AtomicUsize,
        /// Whether readers prevent the cache from freeing what it has pledged.
        is_held: std::sync::atomic::AtomicBool,
    }

    impl GiveWay for Cache {
        fn worth(&self) -> Worth {
            self.worth
        }

        fn give_way(&self, bytes: usize) -> usize {
            self.asked.fetch_add(1, Ordering::Relaxed);
            // BUDGET-3, BUDGET-4: neither the budget nor the thread that charges holds this lock.
            let mut charge = self.charge.try_lock().unwrap();
            let left = charge.bytes().saturating_sub(bytes).max(self.floor);
            if self.worth == Worth::Evicted {
                let pledged = charge.bytes() - left;
                self.pledged.store(pledged, Ordering::Relaxed);
                return pledged;
            }
            charge.resize(left);
            0
        }

        fn keep_pledge(&self) {
            if self.is_held.load(Ordering::Relaxed) {
                return;
            }
            let mut charge = self.charge.try_lock().unwrap();
            let left = charge.bytes() - self.pledged.swap(0, Ordering::Relaxed);
            charge.resize(left);
        }
    }

    fn cached(budget: &Budget, bytes: usize, floor: usize) -> Arc<Cache> {
        worth(budget, Worth::Cached, bytes, floor)
    }

    fn worth(budget: &Budget, worth: Worth, bytes: usize, floor: usize) -> Arc<Cache> {
        let charge = std::sync::Mutex::new(budget.charge(Use::Caches, bytes));
        let (asked, pledged) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let is_held = Default::default();
        let cache = Arc::new(Cache { worth, charge, floor, asked, pledged, is_held });
        let weak: Weak<Cache> = Arc::downgrade(&cache);
        budget.gives_way(weak);
        cache
    }

    #[test]
    fn budget_1_a_charge_is_refused_only_after_caches_gave_way() {
        let budget = Budget::new(100);
        let cache = cached(&budget, 90, 20);
        let fits = budget.try_charge(Use::Transactions, 10).unwrap();
        assert_eq!(cache.asked.load(Ordering::Relaxed), 0, "it fits as it is");
        let more = budget.try_charge(Use::Transactions, 50).unwrap();
        assert_eq!((budget.used(), budget.used_for(Use::Caches)), (100, 40), "as much as needed");
        let refused = budget.try_charge(Use::Connections, 21).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::MemoryFull);
        assert_eq!(budget.used_for(Use::Caches), 20, "it gave all it could");
        drop((fits, more));
        // A charge that can never fit evicts nothing.
        let before = cache.asked.load(Ordering::Relaxed);
        assert!(budget.try_charge(Use::Connections, 101).is_err());
        assert_eq!(cache.asked.load(Ordering::Relaxed), before);
    }

    #[test]
    fn budget_5_holders_are_asked_in_turn_for_what_is_missing() {
        let budget = Budget::new(100);
        let evicted = worth(&budget, Worth::Evicted, 30, 0);
        let cache = worth(&budget, Worth::Cached, 30, 10);
        let unused = worth(&budget, Worth::Unused, 30, 25);
        let held = |cache: &Arc<Cache>| cache.charge.lock().unwrap().bytes();
        let first = budget.try_charge(Use::Transactions, 25).unwrap();
        assert_eq!([held(&unused), held(&cache), held(&evicted)], [25, 20, 30]);
        assert_eq!(evicted.asked.load(Ordering::Relaxed), 0, "nothing was missing any more");
        let second = budget.try_charge(Use::Transactions, 20).unwrap();
        assert_eq!([held(&unused), held(&cache), held(&evicted)], [25, 10, 20]);
        // A charge that may go past the limit asks in the same way.
        let third = budget.charge(Use::Memtables, 20);
        assert_eq!([held(&unused), held(&cache), held(&evicted)], [25, 10, 0]);
        assert_eq!(budget.used(), 100);
        assert!(budget.try_charge(Use::Transactions, 1).is_err());
        drop((first, second, third));
    }

    #[test]
    fn budget_5_one_that_pledges_spares_those_behind_it() {
        let budget = Budget::new(100);
        let first = worth(&budget, Worth::Evicted, 50, 0);
        let behind = worth(&budget, Worth::Evicted, 50, 0);
        let held = |cache: &Arc<Cache>| cache.charge.lock().unwrap().bytes();
        let charge = budget.try_charge(Use::Transactions, 40).unwrap();
        assert_eq!([held(&first), held(&behind)], [10, 50]);
        assert_eq!(behind.asked.load(Ordering::Relaxed), 0);
        drop(charge);
    }

    /// BUDGET-1, BUDGET-2, BUDGET-5: a holder does not keep its pledge, because of its readers. No
    /// charge fails for that, or stays over the limit, as long as a later holder has memory.
    #[test]
    fn budget_5_a_pledge_that_is_not_kept_is_asked_of_others() {
        for refusable in [true, false] {
            let budget = Budget::new(100);
            let first = worth(&budget, Worth::Evicted, 50, 0);
            let behind = worth(&budget, Worth::Evicted, 50, 0);
            first.is_held.store(true, Ordering::Relaxed);
            let charge = match refusable {
                true => budget.try_charge(Use::Transactions, 40).unwrap(),
                false => budget.charge(Use::Memtables, 40),
            };
            assert_eq!(behind.charge.lock().unwrap().bytes(), 10);
            assert_eq!(budget.used(), 100);
            drop(charge);
        }
    }

    #[test]
    fn budget_2_memory_that_is_spent_makes_caches_give_way() {
        let budget = Budget::new(100);
        let cache = cached(&budget, 90, 0);
        let mut memtable = budget.charge(Use::Memtables, 30);
        assert_eq!((budget.used(), budget.used_for(Use::Caches)), (100, 70));
        memtable.resize(60);
        assert_eq!((budget.used(), budget.used_for(Use::Caches)), (100, 40));
        memtable.resize(10);
        assert_eq!(cache.asked.load(Ordering::Relaxed), 2, "shrinking asks nobody");
    }

    #[test]
    fn budget_1_a_charge_grows_only_as_far_as_others_give_way() {
        let budget = Budget::new(100);
        let cache = cached(&budget, 90, 20);
        let mut held = budget.try_charge(Use::Connections, 10).unwrap();
        held.try_resize(60).unwrap();
        assert_eq!((held.bytes(), budget.used()), (60, 100));
        assert_eq!(held.try_resize(81).unwrap_err().kind(), ErrorKind::MemoryFull);
        assert_eq!((held.bytes(), budget.used_for(Use::Connections)), (60, 60), "as it was");
        held.try_resize(5).unwrap();
        assert_eq!(budget.used_for(Use::Connections), 5);
        drop((held, cache));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn budget_1_bytes_that_are_charged_in_steps_are_refused_as_a_whole() {
        let budget = Budget::new(1 << 20);
        let mut held = Stepped::new(&budget, Use::Connections);
        held.try_set(Stepped::STEP).unwrap();
        assert_eq!(budget.used(), 0, "the first step is free");
        for bytes in [20_000, 40_000, 300_000, 900_000] {
            held.try_set(bytes).unwrap();
            let least = bytes - Stepped::STEP;
            assert!((least..least + least / 8 + Stepped::STEP).contains(&budget.used()));
        }
        assert_eq!(held.try_set(2 << 20).unwrap_err().kind(), ErrorKind::MemoryFull);
        assert_eq!(held.bytes(), 900_000, "as it was");
        held.sub(800_000);
        assert!(budget.used() < 200_000, "{}", budget.used());
        held.sub(100_000);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn budget_3_a_cache_is_charged_with_its_own_lock_held() {
        let budget = Budget::new(100);
        let cache = cached(&budget, 90, 0);
        cache.charge.lock().unwrap().resize(120);
        drop(budget.charge(Use::Caches, 10));
        assert!(budget.try_charge(Use::Caches, 1).is_err());
        assert_eq!(cache.asked.load(Ordering::Relaxed), 0);
        drop(cache);
        assert_eq!(budget.used(), 0);
        drop(budget.charge(Use::Memtables, 101));
    }
}
