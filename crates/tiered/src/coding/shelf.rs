//! The dictionaries in memory, by table and number.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use spillway_base::TableId;
use spillway_base::budget::{Budget, Charge, Use};
use spillway_base::lock::{Mutex, RwLock};

use super::{Dictionary, DictionaryId};

/// The most dictionaries of a table in memory, where they stay until the next opening (DICTIONARY-4
/// of `names`). At this number no more are trained: one of the existing ones is good enough.
const DICTIONARIES_MAX: usize = 64;

/// The dictionaries of one table.
pub(crate) struct Dictionaries {
    state: RwLock<ShelfState>,
    trials: Mutex<Trials>,
}

struct ShelfState {
    all: BTreeMap<DictionaryId, Arc<Dictionary>>,
    /// The charge for their memory.
    charge: Charge,
}

/// The state of the trials of new dictionaries.
#[derive(Default)]
struct Trials {
    /// The last number that was assigned.
    last: u16,
    /// Bytes of bodies coded since the last trial.
    coded_bytes: u64,
    /// The coded bytes at which the next trial is due; `None` before the first.
    next_bytes: Option<u64>,
}

/// The interval between trials grows up to this many bytes of bodies.
const TRIAL_BYTES_MAX: u64 = 8 << 30;

impl Dictionaries {
    fn new(budget: &Budget) -> Dictionaries {
        let state = ShelfState { all: BTreeMap::new(), charge: budget.charge(Use::Caches, 0) };
        Dictionaries { state: RwLock::new(state), trials: Mutex::default() }
    }

    /// The dictionary of this number.
    pub(crate) fn get(&self, id: DictionaryId) -> Option<Arc<Dictionary>> {
        self.state.read().all.get(&id).cloned()
    }

    /// The dictionary with which blocks are coded now.
    pub(crate) fn newest(&self) -> Option<Arc<Dictionary>> {
        self.state.read().all.last_key_value().map(|(_, dictionary)| dictionary.clone())
    }

    /// Adds a recorded dictionary.
    pub(crate) fn add(&self, dictionary: Arc<Dictionary>) {
        let mut trials = self.trials.lock();
        trials.last = trials.last.max(dictionary.id().0);
        let mut state = self.state.write();
        let bytes = state.charge.bytes() + dictionary.memory_bytes();
        state.charge.resize(bytes);
        state.all.insert(dictionary.id(), dictionary);
    }

    /// Records that `bytes` bytes of bodies are about to be coded. Returns a number for a new
    /// dictionary if one should be tried: after `first_bytes`, and then each time after twice as
    /// many bytes as before, because training takes a while.
    pub(crate) fn to_try(&self, bytes: u64, first_bytes: u64) -> Option<DictionaryId> {
        let mut trials = self.trials.lock();
        trials.coded_bytes += bytes;
        let next_bytes = trials.next_bytes.unwrap_or(first_bytes);
        let full = self.state.read().all.len() >= DICTIONARIES_MAX;
        if trials.coded_bytes < next_bytes || full {
            return None;
        }
        trials.coded_bytes = 0;
        trials.next_bytes = Some((2 * next_bytes.max(bytes)).min(TRIAL_BYTES_MAX));
        trials.last = trials.last.checked_add(1)?;
        Some(DictionaryId(trials.last))
    }
}

/// The dictionaries of all tables.
pub(crate) struct DictionaryStore {
    tables: Mutex<FxHashMap<TableId, Arc<Dictionaries>>>,
    budget: Budget,
}

impl DictionaryStore {
    /// A store whose memory is charged to the budget.
    pub(crate) fn new(budget: &Budget) -> DictionaryStore {
        DictionaryStore { tables: Mutex::default(), budget: budget.clone() }
    }

    /// The dictionaries of a table.
    pub(crate) fn of(&self, table: TableId) -> Arc<Dictionaries> {
        let mut tables = self.tables.lock();
        tables.entry(table).or_insert_with(|| Arc::new(Dictionaries::new(&self.budget))).clone()
    }

    /// Forgets the dictionaries of a dropped table. Readers that still read its blocks have
    /// references to them.
    pub(crate) fn forget(&self, table: TableId) {
        self.tables.lock().remove(&table);
    }
}
