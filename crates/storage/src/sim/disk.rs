//! The handle of a simulated disk: a test injects faults and inspects the disk through it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use spillway_base::lock::Mutex;

use super::hold::AfterWrite;
use super::state::{DisturbedSyncs, Fault, SimState, SyncFault};

/// Called when an operation begins. Under the deterministic scheduler it takes simulated time.
pub(super) fn operation() {
    #[cfg(debug_assertions)]
    spillway_base::scheduler::operation();
}

/// The simulated disk. The page of [`crate::sim`] describes it. A handle belongs to one process
/// ([`SimDisk::process`]) or to whichever process runs.
#[derive(Clone)]
pub struct SimDisk(pub(super) Arc<Mutex<SimState>>, Option<u64>);

impl SimDisk {
    /// An empty disk whose choices come from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> SimDisk {
        SimDisk(Arc::new(Mutex::new(SimState::new(seed))), None)
    }

    /// Returns a handle of the process that runs now. After a kill or a crash every operation of
    /// this handle fails, even after a restart, so threads that the process leaves behind in a
    /// simulation change nothing. Other handles belong to whichever process runs.
    #[must_use]
    pub fn process(&self) -> SimDisk {
        SimDisk(self.0.clone(), Some(self.0.lock().life))
    }

    /// The life of the process to which this handle belongs.
    pub(super) fn life(&self, state: &SimState) -> u64 {
        self.1.unwrap_or(state.life)
    }

    /// A separate disk with the state that this one would have if the process were killed now.
    #[must_use]
    pub fn fork(&self) -> SimDisk {
        let mut state = self.0.lock().clone();
        (state.hold, state.hold_reads, state.after_write) = (None, None, None);
        state.bells.clear();
        state.kill();
        state.forget_flights();
        SimDisk(Arc::new(Mutex::new(state)), None)
    }

    /// Ends the process: its handles are dead, and its locks are free. Its writes remain.
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
        state.disturbed = None;
        state.next_sync = None;
        state.unreadable.clear();
    }

    /// Makes every read of files opened by this name fail from now on.
    pub fn fail_reads(&self, path: &Path) {
        self.0.lock().unreadable.insert(path.to_owned());
    }

    /// Makes every sync fail from now on.
    pub fn fail_syncs(&self) {
        self.disturb_syncs(SyncFault::Fail, 1, Path::new("/"));
    }

    /// Makes one sync in so many, of files and folders below a folder, meet this fault from now on.
    /// A seeded choice decides which.
    pub fn disturb_syncs(&self, fault: SyncFault, one_in: u64, below: &Path) {
        self.0.lock().disturbed = Some(DisturbedSyncs { fault, one_in, below: below.to_owned() });
    }

    /// Lets syncs succeed.
    pub fn calm_syncs(&self) {
        self.0.lock().disturbed = None;
    }

    /// The number of syncs of files that have failed.
    #[must_use]
    pub fn failed_syncs(&self) -> u64 {
        self.0.lock().failed_syncs
    }

    /// The number of syncs that have lied.
    #[must_use]
    pub fn lies(&self) -> u64 {
        self.0.lock().lies
    }

    /// Makes all sectors and names durable, like a device that empties its cache.
    pub fn write_back(&self) {
        self.0.lock().write_back();
    }

    /// Plans a fault for the next sync of any file.
    pub fn fail_next_sync(&self, fault: Fault) {
        self.0.lock().next_sync = Some(fault);
    }

    /// Sets whether the system accepts no reads from queues for now, like a system that is short of
    /// memory. The queues keep the reads.
    pub fn refuse_submissions(&self, refuses: bool) {
        self.0.lock().refuses_submissions = refuses;
    }

    /// The most operations of queues that were in flight at once since the last call.
    #[must_use]
    pub fn take_in_flight_most(&self) -> usize {
        std::mem::take(&mut self.0.lock().flights.most)
    }

    /// Makes the device do only a part of the next `count` reads of queues that gather. Such a
    /// queue keeps the rest of the read until it is submitted (IO-QUEUE-10).
    pub fn part_reads(&self, count: usize) {
        self.0.lock().partial_reads = count;
    }

    /// Runs `hook` once, right after the next write that succeeds to a file with this extension, on
    /// the thread that wrote.
    pub fn after_next_write(&self, extension: &'static str, hook: impl FnOnce() + Send + 'static) {
        let hook = Arc::new(Mutex::new(Some(Box::new(hook) as Box<dyn FnOnce() + Send>)));
        self.0.lock().after_write = Some(AfterWrite { extension, hook });
    }

    /// Sets, changes or removes the capacity, in bytes.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.0.lock().capacity = bytes;
    }

    /// Space taken by all files, in bytes.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.0.lock().used()
    }

    /// Space taken by the files in a folder and in the folders within, in bytes.
    #[must_use]
    pub fn used_in(&self, dir: &Path) -> u64 {
        let state = self.0.lock();
        let inside = state.names.iter().filter(|(path, _)| path.starts_with(dir));
        inside.map(|(_, number)| state.inodes[number].space()).sum()
    }

    /// Stops the machine now.
    pub fn crash(&self) {
        self.0.lock().crash();
    }

    /// Whether the machine has stopped.
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
    /// When the file does not exist.
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
