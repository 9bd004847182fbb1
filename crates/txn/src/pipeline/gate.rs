//! The gate that every commit passes before it takes a CSN. It refuses commits once the database is
//! closed, and commits to a table that has been dropped.
//!
//! A commit must not get a CSN above that of a commit which drops one of its tables: engines would
//! skip its writes silently. So a commit that drops a table *holds* the gate. It waits until every
//! commit that passed the gate before has its CSN. Later commits wait until it releases the gate,
//! and are then refused if they write to the dropped table.
//!
//! The gate costs other commits one load of a word that rarely changes. A commit loads the word
//! after it has reserved its place, and the holder looks at the queues after it has stored the
//! word. So the holder sees the commit's place, and waits for it, or the commit sees that the gate
//! is held.

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

    /// Refuses a commit that writes to a dropped table.
    pub(super) fn check(&self, mut touched: impl Iterator<Item = TableId>) -> Result<()> {
        if !self.any_dropped.load(Ordering::Acquire) {
            return Ok(());
        }
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
