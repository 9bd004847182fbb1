//! A disk in memory that does to its files what a bad day does to real ones.
//!
//! # The fault model
//!
//! - **Kill.** The process ends ([`SimDisk::kill`]). Its handles are dead and its locks are free;
//!   what it wrote stays readable, synced or not (DISK-1).
//! - **Crash.** The machine stops ([`SimDisk::crash`]). Of every file, the content at its last sync
//!   is kept; of what was written since, each 512-byte sector is kept or lost by a seeded choice,
//!   alone. Of a length grown since the last sync, all, none or a part is kept; a cut is kept or
//!   undone. Of the creations, renames and removals in a folder since its last sync, a seeded
//!   choice keeps the earliest few, for each folder by itself (DISK-3, DISK-4). Handles opened
//!   before are dead. Until [`SimDisk::restart`] every operation fails.
//! - **Failed operation.** Writes, syncs and changes of names are numbered from 1 in the order
//!   issued. Any number can be made to fail: with an I/O error before anything happened, with an
//!   I/O error after half of a write, with a full disk, or with a crash. `write_and_sync` is two
//!   operations, and makes durable only what it wrote.
//! - **Failed sync.** A seeded choice of the sectors reaches the platter. All of them count as
//!   clean from then on: a later sync that succeeds does not bring the rest to the platter, as on
//!   Linux. A seeded choice of their pages leaves the cache, and is read from the platter; the
//!   others stay readable. Only the call whose sync met the failure reports it,
//!   whichever thread wrote the lost bytes; later syncs of the file succeed (DISK-5).
//! - **Full disk.** With a capacity set, growth past it fails with
//!   [`ErrorKind::DiskFull`]; space that was allocated can always be overwritten.
//! - **In flight.** An operation of a queue ([`crate::queue`]) happens at some time between its
//!   submission and its return, by a seeded choice, whatever was submitted before it; it happens at
//!   once, and is given back in any order. A write is numbered when it is submitted, and meets then
//!   what was planned for its number: a crash stops the machine before this write and with all
//!   others in flight. The queue reports a failure when it gives the write back, and a full disk is
//!   met when the write happens. At a crash or a kill each write in flight has happened, has not,
//!   or a seeded choice of its sectors has, with the length that they need; at a crash those are
//!   then writes that were not synced. Their queues give them back with an error.
//! - **Rot.** Any stored byte can be flipped; reads of a file can be made to fail, or to take as
//!   long as a test likes. None is served without its device (DISK-8).
//!
//! Not modelled: renames from one folder to another, misdirected writes, stale reads without a
//! failed sync, and a loss of space that was allocated without a sync.
//!
//! Equal seeds and equal operations give equal disks. A [`SimDisk`] is a handle; clones share the
//! disk, [`SimDisk::fork`] copies it.

mod disk;
mod file;
mod flights;
mod held_up;
mod hold;
mod inode;
mod queue;
mod state;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use spillway_base::{Error, ErrorKind, Result};

use crate::queue::{IoQueue, QueueSettings};
use crate::{Disk, DiskLock, File, OpenMode};
pub use disk::SimDisk;
use disk::operation;
use file::{SimFile, SimLock};
pub use held_up::HeldUp;
use queue::SimQueue;
pub use state::Fault;
use state::{NameChange, not_there};

impl Disk for SimDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        operation();
        let mut state = self.0.lock();
        let life = self.life(&state);
        state.alive(life)?;
        let found = state.names.get(path).copied();
        let inode = match (found, mode) {
            (Some(inode), OpenMode::Read | OpenMode::Write) => inode,
            (Some(inode), OpenMode::Create) => {
                state.operation("empty a file")?;
                state.inodes.entry(inode).and_modify(|file| file.set_len(0));
                inode
            }
            (None, OpenMode::Create) => {
                state.operation("create a file")?;
                state.check_folder(path)?;
                state.create(path)
            }
            (None, _) => return Err(not_there(path)),
        };
        state.handle(inode);
        drop(state);
        let (disk, writable) = (self.clone(), mode != OpenMode::Read);
        Ok(Arc::new(SimFile { disk, path: path.to_owned(), inode, life, writable }))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        let state = self.0.lock();
        state.alive(self.life(&state))?;
        Ok(state.names.contains_key(path) || state.folders.contains(path))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let state = self.0.lock();
        state.alive(self.life(&state))?;
        let inside = state.names.keys().filter(|path| path.parent() == Some(dir));
        Ok(inside.filter_map(|path| path.file_name()?.to_str().map(str::to_owned)).collect())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        operation();
        let mut state = self.0.lock();
        state.alive(self.life(&state))?;
        state.operation("remove a file")?;
        if !state.names.contains_key(path) {
            return Err(not_there(path));
        }
        state.change_names(NameChange::Unlink(path.to_owned()));
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        operation();
        let mut state = self.0.lock();
        state.alive(self.life(&state))?;
        assert_eq!(from.parent(), to.parent(), "renames between folders are not modelled");
        state.operation("rename a file")?;
        if !state.names.contains_key(from) {
            return Err(not_there(from));
        }
        state.check_folder(to)?;
        state.change_names(NameChange::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        let mut state = self.0.lock();
        state.alive(self.life(&state))?;
        state.folders.extend(dir.ancestors().map(Path::to_owned));
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        operation();
        let mut state = self.0.lock();
        state.alive(self.life(&state))?;
        state.operation("sync a folder")?;
        if state.syncs_fail {
            return Err(Error::new(ErrorKind::Io, "injected: sync of a folder failed"));
        }
        state.sync_names(dir);
        Ok(())
    }

    fn lock(&self, dir: &Path) -> Result<Box<dyn DiskLock>> {
        let mut state = self.0.lock();
        state.alive(self.life(&state))?;
        if !state.locked.insert(dir.to_owned()) {
            return Err(Error::new(
                ErrorKind::InUse,
                format!("{} is open in another process", dir.display()),
            ));
        }
        Ok(Box::new(SimLock { disk: self.clone(), dir: dir.to_owned(), life: self.life(&state) }))
    }

    fn available(&self, _path: &Path) -> Result<u64> {
        let state = self.0.lock();
        state.alive(self.life(&state))?;
        let used = state.used();
        Ok(state.capacity.map_or(u64::MAX / 2, |capacity| capacity.saturating_sub(used)))
    }

    fn queue(&self, settings: QueueSettings) -> Result<Box<dyn IoQueue>> {
        settings.check()?;
        Ok(Box::new(SimQueue::new(self, settings)))
    }
}
