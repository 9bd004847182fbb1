//! A disk in memory that injects the faults of real disks.
//!
//! # The fault model
//!
//! - **Kill.** The process ends ([`SimDisk::kill`]). Its handles fail from then on, and its locks
//!   are free; its writes stay readable, synced or not (DISK-1).
//! - **Crash.** The machine stops ([`SimDisk::crash`]). Until [`SimDisk::restart`] every operation
//!   fails, and handles opened before fail for ever.
//!   - *Content.* Each file keeps its content at its last sync. Of later writes, a seeded choice
//!     keeps or loses each 512-byte sector independently (DISK-3).
//!   - *Length.* If the file has grown since its last sync, all, none or a part of the growth is
//!     kept. A truncation is kept or undone.
//!   - *Names.* Of the creations, renames and removals in a folder since its last sync, a seeded
//!     choice keeps the earliest few, for each folder independently (DISK-4).
//! - **Failed operation.** Writes, syncs and changes of names are numbered from 1 in the order in
//!   which they are issued. Any of them can be made to fail: with an I/O error before it has any
//!   effect, with an I/O error after half of a write, with a full disk, or with a crash.
//!   `write_and_sync` is two operations, and makes only its own bytes durable.
//! - **Failed sync.** A seeded choice of the file's unsynced sectors reaches the platter. As on
//!   Linux, all unsynced sectors count as synced from then on: a later sync that succeeds does not
//!   bring the other sectors to the platter. The cache drops a seeded choice of the pages with
//!   unsynced sectors. A later read returns a dropped page as it is on the platter, and the other
//!   pages as they were written. Only the call whose sync failed reports the failure, even if other
//!   threads wrote the lost bytes. Later syncs of the file succeed (DISK-5).
//! - **Lying sync.** While syncs are disturbed ([`SimDisk::disturb_syncs`]), a sync can report
//!   success although only a seeded choice of the file's unsynced sectors reaches the platter, or
//!   none of a folder's names does. Such a disk breaks DISK-2: a crash may lose synced bytes. The
//!   test chooses what becomes of the other sectors ([`SyncFault`]). Either they are still
//!   unsynced, and a later honest sync brings them to the platter, or the sync has the effects of a
//!   failed sync, stale pages included.
//! - **Full disk.** With a capacity set, growth past it fails with [`ErrorKind::DiskFull`]; space
//!   that was allocated can always be overwritten.
//! - **In flight.** An operation of a queue ([`crate::queue`]) takes effect atomically, at a seeded
//!   time between its submission and its return. The order in which operations take effect, and the
//!   order in which the queue returns them, do not depend on the order of their submissions.
//!
//!   A write gets its number at its submission, and with it the fault that is planned for this
//!   number. If the fault is a crash, the machine stops at the submission of this write, while
//!   earlier operations are still in flight. The queue reports any other failure when it returns
//!   the write. Whether the disk is full is checked when the write takes effect.
//! - **In flight at a crash or a kill.** Each write in flight has taken effect, has not, or has
//!   taken effect for a seeded choice of its sectors only. The file then has at least the length
//!   that the written sectors need. The queues return all of these writes with an error. At a crash
//!   they count as writes that were not synced.
//! - **Rot.** Any stored byte can be flipped; reads of a file can be made to fail, or to take as
//!   long as a test chooses. Such reads need the device, so `read_now` does not serve them
//!   (DISK-8).
//!
//! Not modelled: renames from one folder to another, misdirected writes, stale reads without a
//! failed or lying sync, and the loss of allocated space at a crash before a sync.
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
pub use state::{Fault, SyncFault};
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
        match state.disturbs(dir) {
            None => state.sync_names(dir),
            Some(SyncFault::Fail) => {
                return Err(Error::new(ErrorKind::Io, "injected: sync of a folder failed"));
            }
            // The names' changes are as if no sync had been.
            Some(SyncFault::Lie | SyncFault::Stale) => {}
        }
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
