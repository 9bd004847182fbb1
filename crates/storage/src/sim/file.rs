//! Handles of simulated files and folders.

use std::path::PathBuf;

use spillway_base::{Error, ErrorKind, Result};

use super::disk::{SimDisk, operation};
use super::inode::Inode;
use super::state::{SimState, SyncFault};
use crate::{DiskLock, File};

pub(super) struct SimLock {
    pub(super) disk: SimDisk,
    pub(super) dir: PathBuf,
    pub(super) life: u64,
}

impl DiskLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        let mut state = self.disk.0.lock();
        if state.life == self.life {
            state.locked.remove(&self.dir);
        }
    }
}

pub(super) struct SimFile {
    pub(super) disk: SimDisk,
    /// The name it was opened by.
    pub(super) path: PathBuf,
    pub(super) inode: u64,
    pub(super) life: u64,
    pub(super) writable: bool,
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.disk.0.lock().close(self.inode, self.life);
    }
}

impl SimFile {
    fn with<T>(&self, body: impl FnOnce(&mut SimState) -> Result<T>) -> Result<T> {
        let mut state = self.disk.0.lock();
        state.alive(self.life)?;
        body(&mut state)
    }

    /// Waits while a test holds syncs up.
    fn pass_hold(&self) {
        operation();
        let hold = self.disk.0.lock().hold.clone();
        if let Some(hold) = hold {
            hold.pass();
        }
    }

    fn inode<'s>(&self, state: &'s mut SimState) -> &'s mut Inode {
        state.inode(self.inode)
    }

    /// Begins a change of the file: `Ok(true)` is a write that ends half way.
    pub(super) fn change(&self, state: &mut SimState, what: &str) -> Result<bool> {
        if !self.writable {
            return Err(Error::new(
                ErrorKind::Io,
                format!("cannot {what} {}: it is open for reading", self.path.display()),
            ));
        }
        state.operation(what)
    }

    fn write(&self, state: &mut SimState, offset: u64, bytes: &[u8]) -> Result<()> {
        let short = self.change(state, "write")?;
        state.write(self.inode, offset, bytes, short)
    }

    /// Syncs a range, or all.
    fn make_durable(&self, state: &mut SimState, range: Option<(u64, u64)>) -> Result<()> {
        if let Some(fault) = state.next_sync.take() {
            state.faults.insert(state.operations + 1, fault);
        }
        let outcome = state.operation("sync").map(drop);
        if state.crashed {
            return outcome;
        }
        let disturbed = if outcome.is_ok() { state.disturbs(&self.path) } else { None };
        let outcome = outcome.and_then(|()| match disturbed {
            Some(SyncFault::Fail) => Err(Error::new(ErrorKind::Io, "injected: a sync failed")),
            _ => Ok(()),
        });
        state.failed_syncs += u64::from(outcome.is_err());
        let SimState { inodes, rng, .. } = state;
        let inode = inodes.get_mut(&self.inode).expect("a live handle keeps its file");
        match (disturbed, range) {
            _ if outcome.is_err() => inode.fail_sync(rng),
            (Some(SyncFault::Lie), _) => inode.sync_some(rng),
            (Some(_), _) => inode.fail_sync(rng),
            (None, None) => inode.sync(),
            (None, Some((offset, len))) => inode.sync_range(offset, len),
        }
        outcome
    }
}

impl File for SimFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        operation();
        let hold = self.disk.0.lock().hold_reads.clone();
        if let Some(hold) = hold {
            hold.pass();
        }
        self.with(|state| state.read(self.inode, &self.path, offset, bytes))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        operation();
        let hook = self.with(|state| {
            self.write(state, offset, bytes)?;
            Ok(state.take_hook(&self.path))
        })?;
        if let Some(hook) = hook {
            hook();
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.pass_hold();
        self.with(|state| self.make_durable(state, None))
    }

    fn write_and_sync(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.pass_hold();
        self.with(|state| {
            self.write(state, offset, bytes)?;
            self.make_durable(state, Some((offset, bytes.len() as u64)))
        })
    }

    fn len(&self) -> Result<u64> {
        self.with(|state| Ok(self.inode(state).len()))
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.with(|state| {
            self.change(state, "resize")?;
            self.inode(state).set_len(len);
            Ok(())
        })
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.with(|state| {
            self.change(state, "allocate")?;
            let more = self.inode(state).growth(offset, len);
            state.grow(more)?;
            self.inode(state).allocate(offset, len);
            Ok(())
        })
    }

    fn punch(&self, offset: u64, len: u64) -> Result<bool> {
        self.with(|state| {
            self.change(state, "punch")?;
            self.inode(state).punch(offset, len);
            Ok(true)
        })
    }
}
