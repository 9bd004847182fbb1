//! The state of a simulated machine: its files, their names, and the planned faults.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use spillway_base::rng::Rng;
use spillway_base::{Error, ErrorKind, Result};

use super::flights::Flights;
use super::hold::{AfterWrite, Hold};
use super::inode::Inode;

/// A fault of a numbered operation.
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

/// What happens to syncs, of files and of folders, while they are disturbed
/// ([`SimDisk::disturb_syncs`](super::SimDisk::disturb_syncs)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SyncFault {
    /// The sync fails.
    Fail,
    /// The sync lies: it reports success, and the device keeps some of the sectors in a cache that
    /// a crash empties. A later honest sync of the file makes them durable.
    Lie,
    /// The sync reports success, and has the effects of a failed sync.
    Stale,
}

/// The fault that some syncs meet.
#[derive(Clone)]
pub(super) struct DisturbedSyncs {
    pub(super) fault: SyncFault,
    /// One sync in so many meets it,
    pub(super) one_in: u64,
    /// of files and folders below this one.
    pub(super) below: PathBuf,
}

#[derive(Clone)]
pub(super) enum NameChange {
    Link(PathBuf, u64),
    Unlink(PathBuf),
    Rename(PathBuf, PathBuf),
}

impl NameChange {
    pub(super) fn apply(&self, names: &mut BTreeMap<PathBuf, u64>) {
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

    /// The folder whose names it changes.
    fn folder(&self) -> PathBuf {
        let (NameChange::Link(path, _) | NameChange::Unlink(path) | NameChange::Rename(_, path)) =
            self;
        path.parent().unwrap_or(Path::new("")).to_owned()
    }
}

#[derive(Clone)]
pub(super) struct SimState {
    pub(super) inodes: BTreeMap<u64, Inode>,
    inodes_next: u64,
    pub(super) names: BTreeMap<PathBuf, u64>,
    names_durable: BTreeMap<PathBuf, u64>,
    /// Changes since the last sync of each folder, in order.
    names_pending: BTreeMap<PathBuf, Vec<NameChange>>,
    pub(super) folders: BTreeSet<PathBuf>,
    /// Open handles of each file, which keep it when its name goes (DISK-7).
    handles: BTreeMap<u64, u64>,
    pub(super) locked: BTreeSet<PathBuf>,
    pub(super) operations: u64,
    pub(super) faults: BTreeMap<u64, Fault>,
    pub(super) disturbed: Option<DisturbedSyncs>,
    /// The number of syncs that lied.
    pub(super) lies: u64,
    /// The number of syncs of files that failed.
    pub(super) failed_syncs: u64,
    pub(super) next_sync: Option<Fault>,
    /// Set while syncs are held up.
    pub(super) hold: Option<Arc<Hold>>,
    /// Set while reads are held up.
    pub(super) hold_reads: Option<Arc<Hold>>,
    /// Whether the system accepts no reads from queues now.
    pub(super) refuses_submissions: bool,
    /// The number of next reads, of queues that gather, of which only a part is done.
    pub(super) partial_reads: usize,
    /// The bells of queues whose descriptor was taken.
    pub(super) bells: Vec<Weak<OwnedFd>>,
    pub(super) after_write: Option<AfterWrite>,
    pub(super) unreadable: BTreeSet<PathBuf>,
    /// Operations of queues.
    pub(super) flights: Flights,
    pub(super) capacity: Option<u64>,
    /// The number of processes that have ended. Handles of earlier processes fail.
    pub(super) life: u64,
    pub(super) crashed: bool,
    pub(super) rng: Rng,
}

pub(super) fn crashed() -> Error {
    Error::new(ErrorKind::Io, "the simulated machine has crashed")
}

fn gone() -> Error {
    Error::new(ErrorKind::Io, "the simulated process that opened this file is gone")
}

pub(super) fn not_there(path: &Path) -> Error {
    Error::new(ErrorKind::NotFound, format!("{} is not there", path.display()))
}

impl SimState {
    pub(super) fn new(seed: u64) -> SimState {
        SimState {
            inodes: BTreeMap::new(),
            inodes_next: 1,
            names: BTreeMap::new(),
            names_durable: BTreeMap::new(),
            names_pending: BTreeMap::new(),
            folders: BTreeSet::from([PathBuf::from("/")]),
            handles: BTreeMap::new(),
            locked: BTreeSet::new(),
            operations: 0,
            faults: BTreeMap::new(),
            disturbed: None,
            lies: 0,
            failed_syncs: 0,
            next_sync: None,
            hold: None,
            hold_reads: None,
            refuses_submissions: false,
            partial_reads: 0,
            bells: Vec::new(),
            after_write: None,
            unreadable: BTreeSet::new(),
            flights: Flights::default(),
            capacity: None,
            life: 0,
            crashed: false,
            rng: Rng::new(seed),
        }
    }

    pub(super) fn alive(&self, life: u64) -> Result<()> {
        if self.crashed {
            Err(crashed())
        } else if life != self.life {
            Err(gone())
        } else {
            Ok(())
        }
    }

    /// Numbers an operation, and applies the fault planned for it. `Ok(true)` is a short write.
    pub(super) fn operation(&mut self, what: &str) -> Result<bool> {
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

    /// What happens to this sync of a file or a folder.
    pub(super) fn disturbs(&mut self, path: &Path) -> Option<SyncFault> {
        let disturbed = self.disturbed.as_ref().filter(|it| path.starts_with(&it.below))?;
        let (fault, one_in) = (disturbed.fault, disturbed.one_in);
        let disturbs = one_in == 1 || self.rng.chance(1, one_in);
        self.lies += u64::from(disturbs && fault != SyncFault::Fail);
        disturbs.then_some(fault)
    }

    pub(super) fn crash(&mut self) {
        if self.crashed {
            return;
        }
        self.crashed = true;
        self.cut_flights(&crashed());
        for changes in std::mem::take(&mut self.names_pending).into_values() {
            let kept = self.rng.below(changes.len() as u64 + 1) as usize;
            changes[..kept].iter().for_each(|change| change.apply(&mut self.names_durable));
        }
        self.names = self.names_durable.clone();
        self.kill();
        for inode in self.inodes.values_mut() {
            inode.crash(&mut self.rng);
        }
    }

    /// The process ends: its handles die, its locks go, and files without a name with them.
    pub(super) fn kill(&mut self) {
        self.cut_flights(&gone());
        self.life += 1;
        self.handles.clear();
        self.locked.clear();
        self.drop_unreachable();
    }

    fn drop_unreachable(&mut self) {
        let SimState { inodes, names, names_durable, names_pending, handles, .. } = self;
        let mut live: BTreeSet<u64> =
            names.values().chain(names_durable.values()).copied().collect();
        live.extend(handles.keys());
        // A crash may keep a name's creation and lose its removal.
        live.extend(names_pending.values().flatten().filter_map(|change| match change {
            NameChange::Link(_, inode) => Some(*inode),
            _ => None,
        }));
        inodes.retain(|number, _| live.contains(number));
    }

    pub(super) fn handle(&mut self, inode: u64) {
        *self.handles.entry(inode).or_default() += 1;
    }

    pub(super) fn close(&mut self, inode: u64, life: u64) {
        if life != self.life {
            return;
        }
        if let Some(count) = self.handles.get_mut(&inode) {
            *count -= 1;
            if *count == 0 {
                self.handles.remove(&inode);
                if !self.names.values().any(|named| *named == inode) {
                    self.drop_unreachable();
                }
            }
        }
    }

    pub(super) fn used(&self) -> u64 {
        self.inodes.values().map(Inode::space).sum()
    }

    pub(super) fn grow(&self, more: u64) -> Result<()> {
        match self.capacity {
            Some(capacity) if more > 0 && self.used() + more > capacity => Err(Error::new(
                ErrorKind::DiskFull,
                format!("the simulated disk of {capacity} bytes is full"),
            )),
            _ => Ok(()),
        }
    }

    pub(super) fn inode(&mut self, number: u64) -> &mut Inode {
        self.inodes.get_mut(&number).expect("a live handle keeps its file")
    }

    /// Reads a file that was opened by this name.
    pub(super) fn read(
        &mut self,
        inode: u64,
        path: &Path,
        offset: u64,
        bytes: &mut [u8],
    ) -> Result<()> {
        if self.unreadable.contains(path) {
            return Err(Error::new(
                ErrorKind::Io,
                format!("injected: cannot read {}", path.display()),
            ));
        }
        let inode = self.inode(inode);
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > inode.len()) {
            return Err(Error::new(
                ErrorKind::Io,
                format!(
                    "cannot read {} bytes at {offset} of {}: the file ends at {}",
                    bytes.len(),
                    path.display(),
                    inode.len()
                ),
            ));
        }
        inode.read(offset, bytes);
        Ok(())
    }

    /// Writes to a file; only the first half if the write is short.
    pub(super) fn write(
        &mut self,
        inode: u64,
        offset: u64,
        bytes: &[u8],
        short: bool,
    ) -> Result<()> {
        let more = self.inode(inode).growth(offset, bytes.len() as u64);
        self.grow(more)?;
        if short {
            self.inode(inode).write(offset, &bytes[..bytes.len() / 2]);
            return Err(Error::new(ErrorKind::Io, "injected: a write ended half way"));
        }
        self.inode(inode).write(offset, bytes);
        Ok(())
    }

    /// Writes a seeded choice of the sectors, if there is room for all.
    pub(super) fn write_some(&mut self, inode: u64, offset: u64, bytes: &[u8]) {
        let more = self.inode(inode).growth(offset, bytes.len() as u64);
        if self.grow(more).is_ok() {
            let SimState { inodes, rng, .. } = self;
            let inode = inodes.get_mut(&inode).expect("a live handle keeps its file");
            inode.write_some(offset, bytes, rng);
        }
    }

    /// Takes the hook that must run after a write to the file of this name.
    pub(super) fn take_hook(&mut self, path: &Path) -> Option<Box<dyn FnOnce() + Send>> {
        let of_this = |after: &mut AfterWrite| {
            path.extension().is_some_and(|extension| extension == after.extension)
        };
        let after = self.after_write.take_if(of_this)?;
        after.hook.lock().take()
    }

    /// Refuses a name in a folder that does not exist.
    pub(super) fn check_folder(&self, path: &Path) -> Result<()> {
        match path.parent() {
            Some(dir) if !dir.as_os_str().is_empty() && !self.folders.contains(dir) => {
                Err(not_there(dir))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn create(&mut self, path: &Path) -> u64 {
        let inode = self.inodes_next;
        self.inodes_next += 1;
        self.inodes.insert(inode, Inode::default());
        self.change_names(NameChange::Link(path.to_owned(), inode));
        inode
    }

    pub(super) fn change_names(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.names_pending.entry(change.folder()).or_default().push(change);
    }

    /// Makes everything durable.
    pub(super) fn write_back(&mut self) {
        self.inodes.values_mut().for_each(Inode::sync);
        for dir in self.names_pending.keys().cloned().collect::<Vec<_>>() {
            self.sync_names(&dir);
        }
    }

    /// Makes the changes of a folder's names durable. A folder's changes become durable in order
    /// (DISK-4).
    pub(super) fn sync_names(&mut self, dir: &Path) {
        let Some(changes) = self.names_pending.remove(dir) else { return };
        changes.iter().for_each(|change| change.apply(&mut self.names_durable));
        self.drop_unreachable();
    }
}
