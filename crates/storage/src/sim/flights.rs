//! Operations in flight on a simulated disk.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use spillway_base::rng::Rng;
use spillway_base::{Error, Result};

use super::state::SimState;
use crate::queue::AlignedBuffer;

/// All operations in flight on a disk, by their numbers.
#[derive(Clone, Default)]
pub(super) struct Flights {
    next: u64,
    pub(super) by_number: BTreeMap<u64, Flight>,
    /// The most at once.
    pub(super) most: usize,
}

/// The effect of an operation in flight.
#[derive(Clone)]
pub(super) enum Doing {
    Read,
    /// Writes the buffer, or half of it if `short`.
    Write {
        short: bool,
    },
    /// Fails, and does nothing.
    Fail(Error),
}

#[derive(Clone)]
pub(super) struct Flight {
    pub(super) doing: Doing,
    pub(super) path: PathBuf,
    pub(super) inode: u64,
    pub(super) offset: u64,
    pub(super) buffer: AlignedBuffer,
    /// Its outcome; `None` until it happens.
    pub(super) outcome: Option<Result<()>>,
}

impl Flight {
    /// Whether it is a write that has happened and succeeded.
    pub(super) fn has_written(&self) -> bool {
        matches!((&self.doing, &self.outcome), (Doing::Write { .. }, Some(Ok(()))))
    }

    pub(super) fn happen(&mut self, state: &mut SimState) {
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

/// A random index below `count`.
pub(super) fn any(rng: &mut Rng, count: usize) -> usize {
    rng.below(count as u64) as usize
}

impl SimState {
    pub(super) fn launch(&mut self, flight: Flight) -> u64 {
        let number = self.flights.next;
        self.flights.next += 1;
        self.flights.by_number.insert(number, flight);
        self.flights.most = self.flights.most.max(self.flights.by_number.len());
        number
    }

    /// Makes an operation happen, if it has not yet.
    pub(super) fn happen(&mut self, number: u64) {
        let mut flight = self.flights.by_number.remove(&number).expect("it is in flight");
        flight.happen(self);
        self.flights.by_number.insert(number, flight);
    }

    pub(super) fn land(&mut self, number: u64) -> Flight {
        self.happen(number);
        self.flights.by_number.remove(&number).expect("it is in flight")
    }

    /// Makes none, some or all of the operations in flight happen, in any order.
    pub(super) fn stir(&mut self) {
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

    /// Rings all bells, so that the listeners check for completed operations.
    pub(super) fn ring_all(&mut self) {
        self.bells.retain(|bell| bell.upgrade().inspect(|bell| ring(bell)).is_some());
    }

    /// Forgets the operations in flight: no queue is left that could return them.
    pub(super) fn forget_flights(&mut self) {
        self.flights.by_number.clear();
    }
}

/// Makes a bell readable.
pub(super) fn ring(bell: &OwnedFd) {
    // The counter never overflows.
    let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
}
