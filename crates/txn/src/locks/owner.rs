//! A transaction as the lock table sees it.

use std::time::Duration;

use spillway_base::thread::blocking;
use spillway_base::{Error, ErrorKind, Result};

use super::LockKey;
use crate::sync::{Condvar, Mutex};

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Granted,
    Deadlock,
    Interrupted,
    TimedOut,
}

#[derive(Default)]
struct Cell {
    waits_for: Option<LockKey>,
    granted: bool,
    interrupted: bool,
}

/// Holds and waits for locks. One thread waits for it at a time; others grant, interrupt and look.
pub(crate) struct LockOwner {
    pub(crate) id: u64,
    pub(super) held: Mutex<Vec<LockKey>>,
    cell: Mutex<Cell>,
    changed: Condvar,
}

impl LockOwner {
    pub(crate) fn new(id: u64) -> LockOwner {
        LockOwner {
            id,
            held: Mutex::default(),
            cell: Mutex::default(),
            changed: Condvar::default(),
        }
    }

    /// Whether it holds any lock.
    pub(crate) fn holds_any(&self) -> bool {
        !self.held.lock().is_empty()
    }

    /// Ends a wait under way, or the next one, with [`ErrorKind::Interrupted`].
    pub(crate) fn interrupt(&self) {
        self.cell.lock().interrupted = true;
        self.changed.notify_all();
    }

    /// Takes back an interruption that met no wait.
    pub(crate) fn clear_interrupt(&self) {
        self.cell.lock().interrupted = false;
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.cell.lock().interrupted
    }

    /// Called with the shard held, before the owner is put in line.
    pub(super) fn prepare_wait(&self, key: &LockKey) -> Result<()> {
        let mut cell = self.cell.lock();
        if std::mem::take(&mut cell.interrupted) {
            return Err(Error::new(ErrorKind::Interrupted, "the lock wait was cancelled"));
        }
        cell.waits_for = Some(key.clone());
        cell.granted = false;
        Ok(())
    }

    pub(super) fn waits_for(&self) -> Option<LockKey> {
        self.cell.lock().waits_for.clone()
    }

    pub(super) fn end_wait(&self) {
        self.cell.lock().waits_for = None;
    }

    pub(super) fn grant(&self) {
        let mut cell = self.cell.lock();
        cell.waits_for = None;
        cell.granted = true;
        drop(cell);
        self.changed.notify_all();
    }

    pub(super) fn await_verdict(&self, deadline: Duration) -> Verdict {
        let mut cell = self.cell.lock();
        loop {
            if cell.granted {
                return Verdict::Granted;
            }
            if std::mem::take(&mut cell.interrupted) {
                return Verdict::Interrupted;
            }
            let left = deadline.saturating_sub(spillway_base::clock::now());
            if left.is_zero() {
                return Verdict::TimedOut;
            }
            blocking(|| self.changed.wait_for(&mut cell, left));
        }
    }

    pub(super) fn remember(&self, key: &LockKey) {
        let mut held = self.held.lock();
        if !held.contains(key) {
            held.push(key.clone());
        }
    }
}
