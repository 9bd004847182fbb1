//! Operations in flight on the simulated disk, and the queues that they are of.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use rustix::event::{EventfdFlags, eventfd};
use spillway_base::rng::Rng;
use spillway_base::{Error, Result};

use super::SimDisk;
use super::file::SimFile;
use super::state::State;
use crate::File;
use crate::queue::{AlignedBuffer, Completion, IoQueue, QueueSettings, check_read, check_write};

/// All operations in flight on a disk, by their numbers.
#[derive(Clone, Default)]
pub(super) struct Flights {
    next: u64,
    by_number: BTreeMap<u64, Flight>,
    /// The most at once.
    pub(super) most: usize,
}

/// What an operation in flight does.
#[derive(Clone)]
enum Doing {
    Read,
    /// Half of it, where it is short.
    Write {
        short: bool,
    },
    /// Fails, and does nothing.
    Fail(Error),
}

#[derive(Clone)]
struct Flight {
    doing: Doing,
    path: PathBuf,
    inode: u64,
    offset: u64,
    buffer: AlignedBuffer,
    /// What came of it; nothing as long as it has not happened.
    outcome: Option<Result<()>>,
}

impl Flight {
    /// Whether it has happened, and is a write that went well.
    fn has_written(&self) -> bool {
        matches!((&self.doing, &self.outcome), (Doing::Write { .. }, Some(Ok(()))))
    }

    fn happen(&mut self, state: &mut State) {
        if self.outcome.is_none() {
            self.outcome = Some(match &self.doing {
                Doing::Read => state.read(self.inode, &self.path, self.offset, &mut self.buffer),
                Doing::Write { short } => {
                    state.write(self.inode, self.offset, &self.buffer, *short)
                }
                Doing::Fail(error) => Err(error.clone()),
            });
        }
    }
}

/// The place of a random one of these.
fn any(rng: &mut Rng, count: usize) -> usize {
    rng.below(count as u64) as usize
}

impl State {
    fn launch(&mut self, flight: Flight) -> u64 {
        let number = self.flights.next;
        self.flights.next += 1;
        self.flights.by_number.insert(number, flight);
        self.flights.most = self.flights.most.max(self.flights.by_number.len());
        number
    }

    /// Has an operation happen, if it has not.
    fn happen(&mut self, number: u64) {
        let mut flight = self.flights.by_number.remove(&number).expect("it is in flight");
        flight.happen(self);
        self.flights.by_number.insert(number, flight);
    }

    fn land(&mut self, number: u64) -> Flight {
        self.happen(number);
        self.flights.by_number.remove(&number).expect("it is in flight")
    }

    /// Has none, some or all happen of what is in flight, in any order.
    fn stir(&mut self) {
        let in_flight = self.flights.by_number.iter();
        let mut open: Vec<u64> =
            in_flight.filter(|(_, flight)| flight.outcome.is_none()).map(|(n, _)| *n).collect();
        while !open.is_empty() && self.rng.chance(1, 2) {
            let place = any(&mut self.rng, open.len());
            self.happen(open.swap_remove(place));
        }
    }

    /// Ends all operations in flight with this error: each has happened, has not, or some sectors
    /// of it have.
    pub(super) fn cut_flights(&mut self, error: &Error) {
        let mut flights = std::mem::take(&mut self.flights.by_number);
        let mut open: Vec<&mut Flight> =
            flights.values_mut().filter(|flight| flight.outcome.is_none()).collect();
        while !open.is_empty() {
            let place = any(&mut self.rng, open.len());
            let flight = open.swap_remove(place);
            if let Doing::Write { .. } = flight.doing {
                match self.rng.below(3) {
                    0 => {}
                    1 => flight.happen(self),
                    _ => self.write_some(flight.inode, flight.offset, &flight.buffer),
                }
            }
        }
        for flight in flights.values_mut() {
            flight.outcome = Some(Err(error.clone()));
        }
        self.flights.by_number = flights;
    }

    /// Has all who listen look what can be given back.
    pub(super) fn ring_all(&mut self) {
        self.bells.retain(|bell| bell.upgrade().inspect(|bell| ring(bell)).is_some());
    }

    /// Forgets what is in flight: nobody is left who could ask for it.
    pub(super) fn forget_flights(&mut self) {
        self.flights.by_number.clear();
    }
}

/// What a queue knows of an operation.
struct Submitted {
    number: u64,
    tag: u64,
    /// Kept open.
    file: Arc<SimFile>,
}

/// A read that is not handed over.
struct Kept {
    tag: u64,
    file: Arc<SimFile>,
    offset: u64,
    buffer: AlignedBuffer,
}

/// A queue of the simulated disk. Its operations happen when somebody uses a queue of the disk, and
/// are given back in any order.
pub(super) struct SimQueue {
    disk: SimDisk,
    depth: usize,
    in_flight: Vec<Submitted>,
    /// Whether reads are kept until they are handed over, and those that are.
    gathers: bool,
    kept: VecDeque<Kept>,
    /// Written to when something can be given back, where somebody listens.
    bell: OnceLock<Arc<OwnedFd>>,
}

/// Makes a bell readable.
fn ring(bell: &OwnedFd) {
    // It counts to more than there will ever be.
    let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
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
        doing: impl FnOnce(&mut State) -> Result<Doing>,
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

    /// Hands over all that is kept.
    fn launch_all(&mut self) {
        while let Some(Kept { tag, file, offset, buffer }) = self.kept.pop_front() {
            self.submit_one(tag, file, offset, buffer, |_| Ok(Doing::Read));
        }
    }

    /// Where one is to be done in parts, keeps what is left of it.
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

    /// Gives one back, whichever.
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
            // Closes its file, for which it needs the disk.
            drop(file);
        }
    }
}
