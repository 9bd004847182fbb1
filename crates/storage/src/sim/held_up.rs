//! Syncs and reads that a test holds up.

use std::sync::Arc;

use super::disk::SimDisk;
use super::hold::Hold;

/// The kind of operation that is held up.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    Syncs,
    Reads,
}

/// Operations on files, held up before they begin: [`SimDisk::hold_syncs`],
/// [`SimDisk::hold_reads`]. Dropping it lets them continue.
pub struct HeldUp {
    disk: SimDisk,
    what: Held,
    hold: Arc<Hold>,
}

impl HeldUp {
    /// Waits until this many are held up.
    pub fn wait_for(&self, count: usize) {
        let mut held = self.hold.held.lock();
        while held.waiting < count {
            self.hold.changed.wait(&mut held);
        }
    }
}

impl Drop for HeldUp {
    fn drop(&mut self) {
        let mut state = self.disk.0.lock();
        match self.what {
            Held::Syncs => state.hold = None,
            Held::Reads => {
                state.hold_reads = None;
                state.ring_all();
            }
        }
        drop(state);
        self.hold.held.lock().released = true;
        self.hold.changed.notify_all();
    }
}

impl SimDisk {
    /// Holds up every sync of a file that begins from now on, until the returned value is dropped.
    /// The write of a `write_and_sync` is held up with its sync.
    #[must_use]
    pub fn hold_syncs(&self) -> HeldUp {
        let hold = Arc::new(Hold::default());
        self.0.lock().hold = Some(hold.clone());
        HeldUp { disk: self.clone(), what: Held::Syncs, hold }
    }

    /// Holds up every read of a file that begins from now on, until the returned value is dropped.
    /// A queue whose descriptor was taken ([`crate::IoQueue::descriptor`]) returns no completions
    /// meanwhile, and [`HeldUp::wait_for`] counts the operations submitted to it.
    #[must_use]
    pub fn hold_reads(&self) -> HeldUp {
        let hold = Arc::new(Hold::default());
        self.0.lock().hold_reads = Some(hold.clone());
        HeldUp { disk: self.clone(), what: Held::Reads, hold }
    }
}
