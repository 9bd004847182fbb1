//! The gate that every commit passes before it takes a CSN. It refuses commits once the database is
//! closed, and commits to a table that has been dropped.
//!
//! A commit that drops a table must be the last one of its table: if a commit with a larger CSN
//! wrote to the table, engines would skip these writes silently. So a commit that drops a table
//! *holds* the gate. The holder waits until every commit that has passed the gate has its CSN, and
//! then takes its own. Commits that arrive meanwhile wait until the gate is released. They are then
//! refused if they write to the dropped table. The commits of folds and of transactions with
//! spilled writes hold the gate too ([`crate::spill`], SPILL-6 and SPILL-7).
//!
//! Until a table is dropped, the gate costs other commits two loads of words that rarely change:
//! the gate's state, and whether any table was dropped. A commit reserves its place in a lane's
//! queue and then loads the state. The holder stores the state and then looks at the queues. So
//! there are two cases. Either the holder finds the commit's place, and waits until the place is
//! filled or given up. Or the commit finds that the gate is held, and gives up its place.

use rustc_hash::FxHashSet;
use spillway_base::lock::RwLock;
use spillway_base::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use spillway_base::{Error, ErrorKind, Result, TableId};

use crate::sync::{Mutex, MutexGuard, model_fence};

/// Whether commits may be ordered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Passage {
    Open = 0,
    /// A commit that drops a table is being ordered.
    Held = 1,
    Closed = 2,
}

pub(super) struct Gate {
    passage: AtomicUsize,
    /// Locked while the gate is held, and by a thread that closes it. Commits that find the gate
    /// held wait for it.
    lock: Mutex<()>,
    /// Tables dropped since the database was opened, and whether there are any.
    dropped: RwLock<FxHashSet<TableId>>,
    any_dropped: AtomicBool,
}

impl Gate {
    pub(super) fn new() -> Gate {
        Gate {
            passage: AtomicUsize::new(Passage::Open as usize),
            lock: Mutex::new(()),
            dropped: RwLock::default(),
            any_dropped: AtomicBool::new(false),
        }
    }

    /// The state of the gate, for a commit that has reserved its place.
    pub(super) fn passage(&self) -> Passage {
        model_fence();
        match self.passage.load(Ordering::SeqCst) {
            0 => Passage::Open,
            1 => Passage::Held,
            _ => Passage::Closed,
        }
    }

    /// Waits until no commit holds the gate.
    pub(super) fn wait(&self) {
        drop(self.lock.lock());
    }

    /// Closes the gate to all commits.
    pub(super) fn close(&self) {
        let _lock = self.lock.lock();
        self.passage.store(Passage::Closed as usize, Ordering::SeqCst);
        model_fence();
    }

    /// Closes the gate to all commits but the caller's.
    pub(super) fn hold(&self) -> Result<HeldGate<'_>> {
        let lock = self.lock.lock();
        if self.passage() == Passage::Closed {
            return Err(closed());
        }
        self.passage.store(Passage::Held as usize, Ordering::SeqCst);
        model_fence();
        Ok(HeldGate { passage: &self.passage, _lock: lock })
    }

    /// Whether any table was dropped, so that commits need [`Gate::check`].
    pub(super) fn any_dropped(&self) -> bool {
        self.any_dropped.load(Ordering::Acquire)
    }

    /// Refuses a commit that writes to a dropped table.
    pub(super) fn check(&self, mut touched: impl Iterator<Item = TableId>) -> Result<()> {
        let dropped = self.dropped.read();
        match touched.find(|table| dropped.contains(table)) {
            None => Ok(()),
            Some(gone) => Err(Error::new(
                ErrorKind::NotFound,
                format!("{gone:?} was dropped while the transaction wrote to it"),
            )),
        }
    }

    /// Notes the tables that the caller's commit drops. The caller holds the gate if there are any.
    pub(super) fn note_dropped(&self, dropped: &[TableId]) {
        if !dropped.is_empty() {
            self.dropped.write().extend(dropped);
            self.any_dropped.store(true, Ordering::Release);
        }
    }
}

/// The held gate. Dropping it opens the gate.
pub(crate) struct HeldGate<'g> {
    passage: &'g AtomicUsize,
    _lock: MutexGuard<'g, ()>,
}

impl Drop for HeldGate<'_> {
    fn drop(&mut self) {
        self.passage.store(Passage::Open as usize, Ordering::SeqCst);
    }
}

/// The error of calls after the database has been closed.
pub(crate) fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the database has been closed")
}
