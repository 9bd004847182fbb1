//! The savepoints of a transaction, by their names.
//!
//! - **SAVEPOINT-1**: the memory of a transaction's savepoints is charged to the budget. A
//!   savepoint that does not fit fails with 1041, and the transaction keeps its other savepoints.
//! - **SAVEPOINT-2**: setting, finding and releasing a savepoint takes O(log n) steps for n
//!   savepoints.

use std::collections::{BTreeMap, HashMap};

use spillway::{Budget, Savepoint};
use spillway_base::budget::{Stepped, Use};

use crate::errors::Result;

/// The memory of a savepoint apart from its name: its entries in both tables, and its part of the
/// transaction's own list.
const ENTRY_BYTES: usize = 256;

fn size_of(name: &str) -> usize {
    ENTRY_BYTES + 2 * name.len()
}

/// The savepoints of a session's open transaction. Names are in lower case.
pub(super) struct Savepoints {
    /// The savepoints in the order in which they were set, by their numbers.
    ordered: BTreeMap<u64, (String, Savepoint)>,
    numbers: HashMap<String, u64>,
    next: u64,
    held: Stepped,
}

impl Savepoints {
    pub(super) fn new(budget: &Budget) -> Savepoints {
        Savepoints {
            ordered: BTreeMap::new(),
            numbers: HashMap::new(),
            next: 0,
            held: Stepped::new(budget, Use::Connections),
        }
    }

    /// Adds a savepoint. Returns the earlier one with this name, which is gone.
    ///
    /// # Errors
    /// 1041 if it does not fit (SAVEPOINT-1). `savepoint` has not been called then.
    pub(super) fn set(
        &mut self,
        name: String,
        savepoint: impl FnOnce() -> Savepoint,
    ) -> Result<Option<Savepoint>> {
        self.held.try_set(self.held.bytes() + size_of(&name))?;
        let number = self.next;
        self.next += 1;
        self.ordered.insert(number, (name.clone(), savepoint()));
        let before = self.numbers.insert(name, number);
        let replaced = before.and_then(|before| self.ordered.remove(&before));
        Ok(replaced.map(|(name, savepoint)| {
            self.held.sub(size_of(&name));
            savepoint
        }))
    }

    /// The number of the savepoint with this name, and the savepoint.
    pub(super) fn find(&self, name: &str) -> Option<(u64, Savepoint)> {
        let number = *self.numbers.get(name)?;
        Some((number, self.ordered.get(&number)?.1))
    }

    /// Removes the savepoints from a number on. Returns them, the last one first.
    pub(super) fn remove_from(&mut self, number: u64) -> impl Iterator<Item = Savepoint> + use<> {
        let removed = self.ordered.split_off(&number);
        for (name, _) in removed.values() {
            self.numbers.remove(name);
            self.held.sub(size_of(name));
        }
        removed.into_values().rev().map(|(_, savepoint)| savepoint)
    }

    pub(super) fn clear(&mut self) {
        if self.next > 0 {
            self.ordered.clear();
            self.numbers = HashMap::new();
            self.held.sub(self.held.bytes());
            self.next = 0;
        }
    }
}
