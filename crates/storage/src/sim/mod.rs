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

mod file;
mod hold;
mod inode;
mod queue;
mod state;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use spillway_base::lock::Mutex;
use spillway_base::{Error, ErrorKind, Result};

use crate::queue::{IoQueue, QueueSettings};
use crate::{Disk, DiskLock, File, OpenMode};
use file::{SimFile, SimLock};
pub use hold::HeldUp;
use hold::{AfterWrite, Held, Hold};
use queue::SimQueue;
use state::{NameChange, State, not_there};

/// An operation begins: under the deterministic scheduler it takes its time.
fn operation() {
    #[cfg(debug_assertions)]
    spillway_base::scheduler::operation();
}

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

/// The simulated disk. The module's page states what it does. A handle is of one process
/// ([`SimDisk::process`]) or of whichever runs.
#[derive(Clone)]
pub struct SimDisk(Arc<Mutex<State>>, Option<u64>);

impl SimDisk {
    /// An empty disk whose choices come from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> SimDisk {
        SimDisk(Arc::new(Mutex::new(State::new(seed))), None)
    }

    /// The disk as the process that runs now has it. After a kill or a crash every operation of
    /// this handle fails, also once the disk is there again: threads that the process leaves behind
    /// in a simulation change nothing. Other handles are of whoever runs.
    #[must_use]
    pub fn process(&self) -> SimDisk {
        SimDisk(self.0.clone(), Some(self.0.lock().life))
    }

    /// The life of the process that this handle is of.
    fn life(&self, state: &State) -> u64 {
        self.1.unwrap_or(state.life)
    }

    /// A disk of its own, as this one would be if the process were killed now.
    #[must_use]
    pub fn fork(&self) -> SimDisk {
        let mut state = self.0.lock().clone();
        (state.hold, state.hold_reads, state.after_write) = (None, None, None);
        state.bells.clear();
        state.kill();
        state.forget_flights();
        SimDisk(Arc::new(Mutex::new(state)), None)
    }

    /// Ends the process: its handles are dead, and its locks free. What it wrote stays.
    pub fn kill(&self) {
        self.0.lock().kill();
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

    /// Forgets all planned faults, and lets syncs and reads succeed.
    pub fn heal(&self) {
        let mut state = self.0.lock();
        state.faults.clear();
        state.syncs_fail = false;
        state.next_sync = None;
        state.unreadable.clear();
    }

    /// Makes every read of what is opened by this name fail from now on.
    pub fn fail_reads(&self, path: &Path) {
        self.0.lock().unreadable.insert(path.to_owned());
    }

    /// Makes every sync fail from now on.
    pub fn fail_syncs(&self) {
        self.0.lock().syncs_fail = true;
    }

    /// Plans a fault for the next sync of a file, whichever file and whoever syncs it.
    pub fn fail_next_sync(&self, fault: Fault) {
        self.0.lock().next_sync = Some(fault);
    }

    /// Holds up every sync of a file that begins from now on, until the answer is dropped. What
    /// `write_and_sync` writes is held up with its sync.
    #[must_use]
    pub fn hold_syncs(&self) -> HeldUp {
        let hold = Arc::new(Hold::default());
        self.0.lock().hold = Some(hold.clone());
        HeldUp { disk: self.clone(), what: Held::Syncs, hold }
    }

    /// Holds up every read of a file that begins from now on, until the answer is dropped. Of
    /// queues those hold back all that they do which somebody listens to
    /// ([`crate::IoQueue::descriptor`]); [`HeldUp::wait_for`] counts what they are given.
    #[must_use]
    pub fn hold_reads(&self) -> HeldUp {
        let hold = Arc::new(Hold::default());
        self.0.lock().hold_reads = Some(hold.clone());
        HeldUp { disk: self.clone(), what: Held::Reads, hold }
    }

    /// Whether the system takes no reads from queues for now, as one that is short of memory: they
    /// stay where they were given.
    pub fn refuse_submissions(&self, refuses: bool) {
        self.0.lock().refuses_submissions = refuses;
    }

    /// The most operations of queues that were in flight at once since the last call.
    #[must_use]
    pub fn take_in_flight_most(&self) -> usize {
        std::mem::take(&mut self.0.lock().flights.most)
    }

    /// Has the device do only a part of this many of the reads that queues give back next which
    /// gather: these keep the rest, to be handed over as anything they are given (IO-QUEUE-10).
    pub fn part_reads(&self, count: usize) {
        self.0.lock().partial_reads = count;
    }

    /// Runs `hook` once, right after the next write that succeeds to a file with this extension, on
    /// the thread that wrote.
    pub fn after_next_write(&self, extension: &'static str, hook: impl FnOnce() + Send + 'static) {
        let hook = Arc::new(Mutex::new(Some(Box::new(hook) as Box<dyn FnOnce() + Send>)));
        self.0.lock().after_write = Some(AfterWrite { extension, hook });
    }

    /// Sets, moves or lifts the capacity, in bytes.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.0.lock().capacity = bytes;
    }

    /// Space taken by all files, in bytes.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.0.lock().used()
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
        self.0.lock().crashed = false;
        self.heal();
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
