//! A disk in memory that does to its files what a bad day does to real ones.
//!
//! # The fault model
//!
//! - **Crash.** The machine stops. Of every file, the content at its last sync is kept; of what was
//!   written since, each 512-byte sector is kept or lost by a seeded choice, alone. A length grown
//!   since the last sync is kept or lost likewise. Of the creations, renames and removals since the
//!   last sync of their folder, a seeded choice keeps the earliest few (K3, K4). Handles opened before
//!   are dead. Until [`SimDisk::restart`] every operation fails.
//! - **Failed operation.** Writes, syncs and changes of names are numbered from 1 in the order issued.
//!   Any number can be made to fail: with an I/O error before anything happened, with an I/O error after
//!   half of a write, with a full disk, or with a crash. A failed sync makes nothing durable, and
//!   drops what was not: a later sync that succeeds does not bring it back, as on Linux.
//! - **Full disk.** With a capacity set, growth past it fails with
//!   [`ErrorKind::DiskFull`]; space that was allocated can always be overwritten.
//! - **Rot.** Any stored byte can be flipped.
//!
//! Not modelled: misdirected writes, stale reads, and errors of reads other than by a crash.
//!
//! Equal seeds and equal operations give equal disks. A [`SimDisk`] is a handle; clones share the
//! disk, [`SimDisk::fork`] copies it.

mod inode;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use spillway_base::rng::Rng;
use spillway_base::{Error, ErrorKind, Result};

use crate::{Disk, DiskLock, File, OpenMode};
use inode::Inode;

/// What befalls a numbered operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// An I/O error; nothing happened.
    Io,
    /// An I/O error after half of the bytes were written.
    ShortWrite,
    /// The disk is full, for this operation only.
    Full,
    /// The machine stops before the operation.
    Crash,
}

#[derive(Clone)]
enum NameChange {
    Link(PathBuf, u64),
    Unlink(PathBuf),
    Rename(PathBuf, PathBuf),
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<PathBuf, u64>) {
        match self {
            NameChange::Link(path, inode) => {
                names.insert(path.clone(), *inode);
            }
            NameChange::Unlink(path) => {
                names.remove(path);
            }
            NameChange::Rename(from, to) => {
                if let Some(inode) = names.remove(from) {
                    names.insert(to.clone(), inode);
                }
            }
        }
    }

    fn touches(&self, dir: &Path) -> bool {
        match self {
            NameChange::Link(path, _) | NameChange::Unlink(path) => path.parent() == Some(dir),
            NameChange::Rename(from, to) => from.parent() == Some(dir) || to.parent() == Some(dir),
        }
    }
}

#[derive(Clone, Default)]
struct State {
    inodes: BTreeMap<u64, Inode>,
    inodes_next: u64,
    names: BTreeMap<PathBuf, u64>,
    names_durable: BTreeMap<PathBuf, u64>,
    names_pending: Vec<NameChange>,
    locked: BTreeSet<PathBuf>,
    operations: u64,
    faults: BTreeMap<u64, Fault>,
    syncs_fail: bool,
    capacity: Option<u64>,
    /// Counts lives: handles of an earlier one are dead.
    life: u64,
    crashed: bool,
    rng: Option<Rng>,
}

/// The simulated disk. The module's page states what it does.
#[derive(Clone, Default)]
pub struct SimDisk(Arc<Mutex<State>>);

fn crashed() -> Error {
    Error::new(ErrorKind::Io, "the simulated machine has crashed")
}

impl State {
    fn alive(&self, life: u64) -> Result<()> {
        if self.crashed || life != self.life { Err(crashed()) } else { Ok(()) }
    }

    /// Numbers an operation, and meets what was planned for it. `Ok(true)` is a short write.
    fn operation(&mut self, what: &str) -> Result<bool> {
        self.operations += 1;
        match self.faults.get(&self.operations) {
            None => Ok(false),
            Some(Fault::ShortWrite) => Ok(true),
            Some(Fault::Io) => Err(Error::new(ErrorKind::Io, format!("injected: {what} failed"))),
            Some(Fault::Full) => {
                Err(Error::new(ErrorKind::DiskFull, format!("injected: no space to {what}")))
            }
            Some(Fault::Crash) => {
                self.crash();
                Err(crashed())
            }
        }
    }

    fn crash(&mut self) {
        if self.crashed {
            return;
        }
        self.crashed = true;
        self.life += 1;
        let mut rng = self.rng.take().unwrap_or_else(|| Rng::new(0));
        let kept = rng.below(self.names_pending.len() as u64 + 1) as usize;
        for change in &self.names_pending[..kept] {
            change.apply(&mut self.names_durable);
        }
        self.names_pending.clear();
        self.names = self.names_durable.clone();
        let live: BTreeSet<u64> = self.names.values().copied().collect();
        self.inodes.retain(|number, _| live.contains(number));
        for inode in self.inodes.values_mut() {
            inode.crash(&mut rng);
        }
        self.locked.clear();
        self.rng = Some(rng);
    }

    fn grow(&self, more: u64) -> Result<()> {
        let Some(capacity) = self.capacity else { return Ok(()) };
        let used: u64 = self.inodes.values().map(Inode::space).sum();
        if used + more > capacity {
            return Err(Error::new(
                ErrorKind::DiskFull,
                format!("the simulated disk of {capacity} bytes is full"),
            ));
        }
        Ok(())
    }

    fn change_names(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.names_pending.push(change);
    }
}

impl SimDisk {
    /// An empty disk whose choices come from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> SimDisk {
        let disk = SimDisk::default();
        disk.0.lock().rng = Some(Rng::new(seed));
        disk
    }

    /// A disk of its own, equal to this one now.
    #[must_use]
    pub fn fork(&self) -> SimDisk {
        SimDisk(Arc::new(Mutex::new(self.0.lock().clone())))
    }

    /// The number of operations so far.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.0.lock().operations
    }

    /// Plans a fault for the operation of this number.
    pub fn fail_operation(&self, number: u64, fault: Fault) {
        self.0.lock().faults.insert(number, fault);
    }

    /// Forgets all planned faults, and lets syncs succeed.
    pub fn heal(&self) {
        let mut state = self.0.lock();
        state.faults.clear();
        state.syncs_fail = false;
    }

    /// Makes every sync fail from now on.
    pub fn fail_syncs(&self) {
        self.0.lock().syncs_fail = true;
    }

    /// Sets, moves or lifts the capacity, in bytes.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.0.lock().capacity = bytes;
    }

    /// Space taken by all files, in bytes.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.0.lock().inodes.values().map(Inode::space).sum()
    }

    /// Stops the machine now.
    pub fn crash(&self) {
        self.0.lock().crash();
    }

    /// Whether the machine stands still.
    #[must_use]
    pub fn is_crashed(&self) -> bool {
        self.0.lock().crashed
    }

    /// Starts the machine again after a crash, with no faults planned.
    pub fn restart(&self) {
        let mut state = self.0.lock();
        state.crashed = false;
        state.faults.clear();
        state.syncs_fail = false;
    }

    /// Flips bits of a stored byte, in the cache and on the platter alike.
    ///
    /// # Panics
    /// When the file is not there.
    pub fn rot(&self, path: &Path, offset: u64, mask: u8) {
        let mut state = self.0.lock();
        let number = *state.names.get(path).expect("a file to rot");
        if let Some(inode) = state.inodes.get_mut(&number) {
            inode.rot(offset, mask);
        }
    }

    /// All files, ascending by path, with their lengths.
    #[must_use]
    pub fn files(&self) -> Vec<(PathBuf, u64)> {
        let state = self.0.lock();
        state
            .names
            .iter()
            .map(|(path, number)| (path.clone(), state.inodes[number].len()))
            .collect()
    }
}

impl Disk for SimDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        let mut state = self.0.lock();
        state.alive(state.life)?;
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
                state.inodes_next += 1;
                let inode = state.inodes_next;
                state.inodes.insert(inode, Inode::default());
                state.change_names(NameChange::Link(path.to_owned(), inode));
                inode
            }
            (None, _) => {
                return Err(Error::new(
                    ErrorKind::NotFound,
                    format!("{} is not there", path.display()),
                ));
            }
        };
        Ok(Arc::new(SimFile { disk: self.clone(), inode, life: state.life }))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        let state = self.0.lock();
        state.alive(state.life)?;
        Ok(state.names.keys().any(|name| name.starts_with(path)))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let state = self.0.lock();
        state.alive(state.life)?;
        let inside = state.names.keys().filter(|path| path.parent() == Some(dir));
        Ok(inside.filter_map(|path| path.file_name()?.to_str().map(str::to_owned)).collect())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let mut state = self.0.lock();
        state.alive(state.life)?;
        state.operation("remove a file")?;
        if !state.names.contains_key(path) {
            return Err(Error::new(
                ErrorKind::NotFound,
                format!("{} is not there", path.display()),
            ));
        }
        state.change_names(NameChange::Unlink(path.to_owned()));
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut state = self.0.lock();
        state.alive(state.life)?;
        state.operation("rename a file")?;
        if !state.names.contains_key(from) {
            return Err(Error::new(
                ErrorKind::NotFound,
                format!("{} is not there", from.display()),
            ));
        }
        state.change_names(NameChange::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn create_dir_all(&self, _dir: &Path) -> Result<()> {
        let state = self.0.lock();
        state.alive(state.life)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let mut state = self.0.lock();
        state.alive(state.life)?;
        state.operation("sync a folder")?;
        if state.syncs_fail {
            return Err(Error::new(ErrorKind::Io, "injected: sync of a folder failed"));
        }
        // The journal of names is one: what is durable is a prefix of it (K4).
        let last = state.names_pending.iter().rposition(|change| change.touches(dir));
        if let Some(last) = last {
            let durable: Vec<NameChange> = state.names_pending.drain(..=last).collect();
            for change in durable {
                change.apply(&mut state.names_durable);
            }
            let State { inodes, names, names_durable, .. } = &mut *state;
            inodes.retain(|number, _| {
                names.values().chain(names_durable.values()).any(|live| live == number)
            });
        }
        Ok(())
    }

    fn lock(&self, dir: &Path) -> Result<Box<dyn DiskLock>> {
        let mut state = self.0.lock();
        state.alive(state.life)?;
        if !state.locked.insert(dir.to_owned()) {
            return Err(Error::new(
                ErrorKind::InUse,
                format!("{} is open in another process", dir.display()),
            ));
        }
        Ok(Box::new(SimLock { disk: self.clone(), dir: dir.to_owned(), life: state.life }))
    }

    fn available(&self, _path: &Path) -> Result<u64> {
        let state = self.0.lock();
        state.alive(state.life)?;
        let used: u64 = state.inodes.values().map(Inode::space).sum();
        Ok(state.capacity.map_or(u64::MAX / 2, |capacity| capacity.saturating_sub(used)))
    }
}

struct SimLock {
    disk: SimDisk,
    dir: PathBuf,
    life: u64,
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

struct SimFile {
    disk: SimDisk,
    inode: u64,
    life: u64,
}

impl SimFile {
    fn with<T>(&self, body: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
        let mut state = self.disk.0.lock();
        state.alive(self.life)?;
        body(&mut state)
    }

    /// The file itself, which an open handle keeps even when its name is gone.
    fn inode<'s>(&self, state: &'s mut State) -> &'s mut Inode {
        state.inodes.entry(self.inode).or_default()
    }
}

impl File for SimFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        self.with(|state| {
            let inode = self.inode(state);
            if offset + bytes.len() as u64 > inode.len() {
                return Err(Error::new(
                    ErrorKind::Io,
                    format!(
                        "cannot read {} bytes at {offset}: the file ends at {}",
                        bytes.len(),
                        inode.len()
                    ),
                ));
            }
            inode.read(offset, bytes);
            Ok(())
        })
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.with(|state| {
            let short = state.operation("write")?;
            let more = self.inode(state).growth(offset, bytes.len() as u64);
            state.grow(more)?;
            if short {
                let half = &bytes[..bytes.len() / 2];
                self.inode(state).write(offset, half);
                return Err(Error::new(ErrorKind::Io, "injected: a write ended half way"));
            }
            self.inode(state).write(offset, bytes);
            Ok(())
        })
    }

    fn sync(&self) -> Result<()> {
        self.with(|state| {
            let outcome = state.operation("sync").map(drop);
            if state.crashed {
                return outcome;
            }
            if outcome.is_err() || state.syncs_fail {
                self.inode(state).lose_unsynced();
                return outcome
                    .and_then(|()| Err(Error::new(ErrorKind::Io, "injected: a sync failed")));
            }
            self.inode(state).sync();
            Ok(())
        })
    }

    fn len(&self) -> Result<u64> {
        self.with(|state| Ok(self.inode(state).len()))
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.with(|state| {
            state.operation("resize")?;
            self.inode(state).set_len(len);
            Ok(())
        })
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.with(|state| {
            state.operation("allocate")?;
            let more = self.inode(state).growth(offset, len);
            state.grow(more)?;
            self.inode(state).allocate(offset, len);
            Ok(())
        })
    }
}
