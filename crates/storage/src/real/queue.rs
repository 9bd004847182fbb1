//! A queue of the real disk, with any carrier ([`super::carrier`]).

use std::any::Any;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

use spillway_base::{Error, ErrorKind, Result};

use super::carrier::Carrier;
use super::file::RealFile;
use super::operation::Operation;
use super::ring::Ring;
use super::threads::Threads;
use crate::File;
use crate::queue::{AlignedBuffer, Completion, IoQueue, QueueSettings, check_read, check_write};

/// How a real disk's queue executes its operations.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Means {
    /// The system itself, through `io_uring`.
    Ring,
    /// A few threads, with a system call for each transfer.
    Threads,
}

impl Means {
    /// All of them, the best first.
    pub const ALL: [Means; 2] = [Means::Ring, Means::Threads];

    /// Whether the system offers them to this process. This is checked once.
    #[must_use]
    pub fn is_there(self) -> bool {
        static RING: OnceLock<bool> = OnceLock::new();
        match self {
            Means::Ring => *RING.get_or_init(|| Ring::new(1).is_ok()),
            Means::Threads => true,
        }
    }
}

/// Opens the best queue that the system has.
pub(crate) fn open(settings: QueueSettings) -> Result<Box<dyn IoQueue>> {
    if Means::Ring.is_there() {
        match open_by(settings, Means::Ring) {
            // The system has no memory for another ring; threads need less.
            Err(error) if error.kind() == ErrorKind::Io => {}
            opened => return opened,
        }
    }
    open_by(settings, Means::Threads)
}

/// Opens a queue by these means.
pub(crate) fn open_by(settings: QueueSettings, means: Means) -> Result<Box<dyn IoQueue>> {
    settings.check()?;
    match means {
        Means::Ring => {
            let ring = Ring::new(settings.depth).map_err(|error| {
                Error::with_source(ErrorKind::Io, "the system has no io_uring for this", error)
            })?;
            Ok(Box::new(RealQueue::new(settings, ring)))
        }
        Means::Threads => Ok(Box::new(RealQueue::new(settings, Threads::new(settings.depth)?))),
    }
}

struct RealQueue<C: Carrier<Operation>> {
    settings: QueueSettings,
    carrier: C,
    /// Operations that the carrier executes.
    carried: usize,
    /// Operations that ended before they began.
    over: VecDeque<Operation>,
}

impl<C: Carrier<Operation>> RealQueue<C> {
    fn new(settings: QueueSettings, carrier: C) -> RealQueue<C> {
        RealQueue { settings, carrier, carried: 0, over: VecDeque::new() }
    }

    fn begin(&mut self, mut operation: Operation) {
        if let Err(errno) = self.carrier.prepare(&operation) {
            operation.fail(errno);
        }
        if operation.is_over() {
            self.over.push_back(operation);
        } else {
            self.carried += 1;
            self.carrier.begin(operation);
        }
    }
}

fn real(file: &Arc<dyn File>) -> Arc<RealFile> {
    let file: Arc<dyn Any + Send + Sync> = file.clone();
    file.downcast().expect("a queue of the real disk was given a file of another")
}

impl<C: Carrier<Operation>> IoQueue for RealQueue<C> {
    fn read(
        &mut self,
        tag: u64,
        file: &Arc<dyn File>,
        offset: u64,
        len: usize,
        buffer: AlignedBuffer,
    ) {
        check_read(self, len);
        let cache = self.settings.cache;
        self.begin(Operation::read(tag, real(file), offset, len, buffer, cache));
    }

    fn write(&mut self, tag: u64, file: &Arc<dyn File>, offset: u64, buffer: AlignedBuffer) {
        check_write(self, offset, buffer.len());
        let cache = self.settings.cache;
        self.begin(Operation::write(tag, real(file), offset, buffer, cache));
    }

    fn gather(&mut self, gathers: bool) {
        self.carrier.gather(gathers);
    }

    fn submit(&mut self) -> bool {
        self.carrier.submit()
    }

    fn keeps(&mut self) -> bool {
        self.carrier.keeps()
    }

    fn wait(&mut self) -> Option<Completion> {
        if let Some(over) = self.over.pop_front() {
            return Some(over.complete());
        }
        if self.carried == 0 {
            return None;
        }
        let operation = self.carrier.finished();
        self.carried -= 1;
        Some(operation.complete())
    }

    fn try_wait(&mut self) -> Option<Completion> {
        if let Some(over) = self.over.pop_front() {
            return Some(over.complete());
        }
        let operation = self.carrier.try_finished()?;
        self.carried -= 1;
        Some(operation.complete())
    }

    fn descriptor(&self) -> Option<OwnedFd> {
        self.carrier.descriptor()
    }

    fn depth(&self) -> usize {
        self.settings.depth
    }

    fn in_flight(&self) -> usize {
        self.carried + self.over.len()
    }
}

impl<C: Carrier<Operation>> Drop for RealQueue<C> {
    fn drop(&mut self) {
        while self.carried > 0 {
            self.carrier.finished();
            self.carried -= 1;
        }
    }
}
