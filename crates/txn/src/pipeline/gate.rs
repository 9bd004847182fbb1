//! What every commit passes on its way to a CSN, and where it is turned back: once the database is
//! closed, or when a table that it writes to has been dropped.
//!
//! A commit to a table that another commit dropped first is refused: engines skip such writes, and
//! nobody would be told that they are gone. So a commit that drops a table holds the gate: it waits
//! until every commit that went through before has its CSN, and those that come wait for it. The
//! gate costs the others one look at a word that hardly changes, after their place is reserved:
//! whoever holds it then sees the place, or they see the gate.

use rustc_hash::FxHashSet;
use spillway_base::lock::RwLock;
use spillway_base::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use spillway_base::{Error, ErrorKind, Result, TableId};

use super::closed;
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
    /// Held while the gate is, and by those who change what is behind it.
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

    /// For a commit that has its place.
    pub(super) fn passage(&self) -> Passage {
        model_fence();
        match self.passage.load(Ordering::SeqCst) {
            0 => Passage::Open,
            1 => Passage::Held,
            _ => Passage::Closed,
        }
    }

    /// Waits until nobody holds it.
    pub(super) fn wait(&self) {
        drop(self.lock.lock());
    }

    /// Lets nothing pass any more.
    pub(super) fn close(&self) {
        let _lock = self.lock.lock();
        self.passage.store(Passage::Closed as usize, Ordering::SeqCst);
        model_fence();
    }

    /// Lets nothing pass but the caller's commit.
    pub(super) fn hold(&self) -> Result<Held<'_>> {
        let lock = self.lock.lock();
        if self.passage() == Passage::Closed {
            return Err(closed());
        }
        self.passage.store(Passage::Held as usize, Ordering::SeqCst);
        model_fence();
        Ok(Held { passage: &self.passage, _lock: lock })
    }

    /// Refuses a commit that writes to a table which was dropped.
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

    /// Notes the tables that the caller's commit drops. It holds the gate if there are any.
    pub(super) fn note_dropped(&self, dropped: &[TableId]) {
        if !dropped.is_empty() {
            self.dropped.write().extend(dropped);
            self.any_dropped.store(true, Ordering::Release);
        }
    }
}

/// The gate, held. Its end opens it.
pub(crate) struct Held<'g> {
    passage: &'g AtomicUsize,
    _lock: MutexGuard<'g, ()>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.passage.store(Passage::Open as usize, Ordering::SeqCst);
    }
}
