//! The queues of the simulated disk.

use std::any::Any;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

use rustix::event::{EventfdFlags, eventfd};
use spillway_base::Result;

use super::disk::SimDisk;
use super::file::SimFile;
use super::flights::{Doing, Flight, any, ring};
use super::state::SimState;
use crate::File;
use crate::queue::{AlignedBuffer, Completion, IoQueue, QueueSettings, check_read, check_write};

/// A queue's record of an operation.
struct Submitted {
    number: u64,
    tag: u64,
    /// Kept so that the file stays open.
    file: Arc<SimFile>,
}

/// A read that is not submitted.
struct Kept {
    tag: u64,
    file: Arc<SimFile>,
    offset: u64,
    buffer: AlignedBuffer,
}

/// A queue of the simulated disk. Its operations happen when any queue of the disk is used, and are
/// returned in any order.
pub(super) struct SimQueue {
    disk: SimDisk,
    depth: usize,
    in_flight: Vec<Submitted>,
    /// Whether reads are kept until they are submitted.
    gathers: bool,
    kept: VecDeque<Kept>,
    /// Written to when an operation can be returned, if a caller has taken the descriptor.
    bell: OnceLock<Arc<OwnedFd>>,
}

impl SimQueue {
    pub(super) fn new(disk: &SimDisk, settings: QueueSettings) -> SimQueue {
        SimQueue {
            disk: disk.clone(),
            depth: settings.depth,
            in_flight: Vec::new(),
            gathers: false,
            kept: VecDeque::new(),
            bell: OnceLock::new(),
        }
    }

    fn file(&self, file: &Arc<dyn File>) -> Arc<SimFile> {
        let file: Arc<dyn Any + Send + Sync> = file.clone();
        let file: Arc<SimFile> = file.downcast().expect("a file of a simulated disk");
        assert!(
            Arc::ptr_eq(&file.disk.0, &self.disk.0),
            "a queue was given a file of another disk"
        );
        file
    }

    fn submit_one(
        &mut self,
        tag: u64,
        file: Arc<SimFile>,
        offset: u64,
        buffer: AlignedBuffer,
        doing: impl FnOnce(&mut SimState) -> Result<Doing>,
    ) {
        let mut state = self.disk.0.lock();
        let doing = state.alive(file.life).and_then(|()| doing(&mut state));
        let flight = Flight {
            doing: doing.unwrap_or_else(Doing::Fail),
            path: file.path.clone(),
            inode: file.inode,
            offset,
            buffer,
            outcome: None,
        };
        let number = state.launch(flight);
        state.stir();
        let held = state.hold_reads.clone();
        drop(state);
        self.in_flight.push(Submitted { number, tag, file });
        if let Some(bell) = self.bell.get() {
            held.inspect(|held| held.note());
            ring(bell);
        }
    }

    /// Submits all kept reads.
    fn launch_all(&mut self) {
        while let Some(Kept { tag, file, offset, buffer }) = self.kept.pop_front() {
            self.submit_one(tag, file, offset, buffer, |_| Ok(Doing::Read));
        }
    }

    /// If a read must be done in parts, keeps the rest of it. Returns whether there was one.
    fn go_on(&mut self) -> bool {
        let mut state = self.disk.0.lock();
        if state.partial_reads == 0 {
            return false;
        }
        state.partial_reads -= 1;
        let place = any(&mut state.rng, self.in_flight.len());
        let Submitted { number, tag, file } = self.in_flight.swap_remove(place);
        let Flight { offset, buffer, .. } = state.land(number);
        self.kept.push_back(Kept { tag, file, offset, buffer });
        true
    }

    /// Returns a random operation in flight.
    fn give_back(&mut self) -> Completion {
        let mut state = self.disk.0.lock();
        state.stir();
        let place = any(&mut state.rng, self.in_flight.len());
        let Submitted { number, tag, file } = self.in_flight.swap_remove(place);
        let flight = state.land(number);
        let hook = flight.has_written().then(|| state.take_hook(&file.path)).flatten();
        drop(state);
        if let Some(hook) = hook {
            hook();
        }
        let outcome = flight.outcome.expect("it has happened");
        Completion { tag, buffer: flight.buffer, outcome }
    }
}

impl IoQueue for SimQueue {
    fn read(
        &mut self,
        tag: u64,
        file: &Arc<dyn File>,
        offset: u64,
        len: usize,
        mut buffer: AlignedBuffer,
    ) {
        check_read(self, len);
        buffer.frame(offset, len);
        let file = self.file(file);
        if self.gathers || self.disk.0.lock().refuses_submissions {
            self.kept.push_back(Kept { tag, file, offset, buffer });
        } else {
            self.submit_one(tag, file, offset, buffer, |_| Ok(Doing::Read));
        }
    }

    fn write(&mut self, tag: u64, file: &Arc<dyn File>, offset: u64, buffer: AlignedBuffer) {
        check_write(self, offset, buffer.len());
        let file = self.file(file);
        let writer = file.clone();
        self.submit_one(tag, file, offset, buffer, |state| {
            Ok(Doing::Write { short: writer.change(state, "write")? })
        });
    }

    fn gather(&mut self, gathers: bool) {
        self.gathers = gathers;
    }

    fn submit(&mut self) -> bool {
        if !self.disk.0.lock().refuses_submissions {
            self.launch_all();
        }
        self.kept.is_empty()
    }

    fn keeps(&mut self) -> bool {
        !self.kept.is_empty()
    }

    fn wait(&mut self) -> Option<Completion> {
        self.launch_all();
        (!self.in_flight.is_empty()).then(|| self.give_back())
    }

    fn try_wait(&mut self) -> Option<Completion> {
        if !self.gathers {
            self.submit();
        }
        let held = self.bell.get().is_some() && self.disk.0.lock().hold_reads.is_some();
        while !held && !self.in_flight.is_empty() {
            if !(self.gathers && self.go_on()) {
                return Some(self.give_back());
            }
        }
        None
    }

    fn descriptor(&self) -> Option<OwnedFd> {
        let bell = match self.bell.get() {
            Some(bell) => bell,
            None => {
                let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
                self.bell.get_or_init(|| {
                    let bell = Arc::new(bell);
                    self.disk.0.lock().bells.push(Arc::downgrade(&bell));
                    bell
                })
            }
        };
        bell.try_clone().ok()
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn in_flight(&self) -> usize {
        self.in_flight.len() + self.kept.len()
    }
}

impl Drop for SimQueue {
    fn drop(&mut self) {
        self.launch_all();
        while !self.in_flight.is_empty() {
            let mut state = self.disk.0.lock();
            let place = any(&mut state.rng, self.in_flight.len());
            let Submitted { number, file, .. } = self.in_flight.swap_remove(place);
            state.land(number);
            drop(state);
            // Closes its file, which locks the disk.
            drop(file);
        }
    }
}
