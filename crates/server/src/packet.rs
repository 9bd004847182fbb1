//! Packets: three bytes of length, one of sequence, the payload. A payload of 16 MB - 1 goes on in the next packet, so that
//! one of exactly that length, or a multiple of it, ends with an empty packet.
//!
//! A command is read whole, with one system call where it is short. Bytes that a client only announces are given, and charged,
//! no more room than those that came before them took. A response is gathered and written with one call; a long one goes out
//! in pieces while it is made.

use std::io;

use spillway_base::budget::{Budget, Charge, Use};
use spillway_sql::Limits;

use crate::transport::Transport;

/// The longest payload of one packet.
const CHUNK: usize = 0xFF_FFFF;
/// Responses are sent on once they are this long.
const SEND_AT: usize = 64 << 10;
/// Read at once, at most, before it is known how much there is to read.
const INPUT: usize = 16 << 10;
/// The first room of a command that does not fit the input.
const FIRST: usize = 64 << 10;
/// What grows past this is let go of again, and charged to the memory budget while it is held.
pub(crate) const LARGE: usize = 1 << 20;
/// So much is kept of a command that does not fit the memory budget: enough to tell whether it is answered.
const KEPT: usize = 16;

/// Why no command came.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The stream failed or ended.
    Io(io::Error),
    /// The client sent nothing for too long.
    Silent,
    /// The client began a command and did not end it in time.
    Stalled,
    /// The client sent more than it may. It was read and dropped.
    TooLarge,
    /// The client sent more than fits the memory budget. It was read and dropped but for its first bytes.
    NoMemory,
    /// A packet does not bear the number that is due.
    OutOfOrder,
}

fn timed_out(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// A connection's packets.
pub(crate) struct Packets<T> {
    transport: T,
    /// Read and not yet taken: `input[taken..filled]`.
    input: Box<[u8]>,
    taken: usize,
    filled: usize,
    output: Vec<u8>,
    sequence: u8,
    packet_max: usize,
    /// Set once the client is known; before, the transport's deadline is the only limit in time.
    limits: Option<Limits>,
    /// Whether the transport waits as for the rest of a command.
    rest: bool,
    budget: Budget,
    /// For a command longer than [`LARGE`].
    large: Option<Charge>,
}

impl<T: Transport> Packets<T> {
    /// Packets of a client that is not known yet, of at most `packet_max` bytes.
    pub(crate) fn new(transport: T, packet_max: usize, budget: Budget) -> Packets<T> {
        Packets {
            transport,
            input: vec![0; INPUT].into(),
            taken: 0,
            filled: 0,
            output: Vec::with_capacity(INPUT),
            sequence: 0,
            packet_max,
            limits: None,
            rest: false,
            budget,
            large: None,
        }
    }

    pub(crate) fn transport(&mut self) -> &mut T {
        &mut self.transport
    }

    /// From now on these limits hold, and the deadline no longer does.
    pub(crate) fn set_limits(&mut self, limits: Limits) -> io::Result<()> {
        if self.limits == Some(limits) && !self.rest {
            return Ok(());
        }
        self.packet_max = limits.packet_max;
        self.limits = Some(limits);
        self.rest = false;
        self.transport.set_deadline(None);
        self.transport.set_timeouts(limits.wait, limits.write)
    }

    /// The next packet is the first of a command.
    pub(crate) fn restart_sequence(&mut self) {
        self.sequence = 0;
    }

    /// Says for which of its two waits the transport reads: the next command, or the rest of one.
    fn wait_for(&mut self, rest: bool) -> io::Result<()> {
        if let Some(limits) = self.limits
            && self.rest != rest
        {
            self.rest = rest;
            self.transport
                .set_timeouts(if rest { limits.read } else { limits.wait }, limits.write)?;
        }
        Ok(())
    }

    fn receive(transport: &mut T, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match transport.read(into) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    /// Has `need` bytes of input, which is no more than the input holds. `first` where none of a command may have come yet.
    fn fill(&mut self, need: usize, first: bool) -> Result<(), ReadError> {
        if self.taken > 0 && self.taken + need > self.input.len() || self.taken == self.filled {
            self.input.copy_within(self.taken..self.filled, 0);
            self.filled -= self.taken;
            self.taken = 0;
        }
        while self.filled - self.taken < need {
            let silent = first && self.filled == self.taken && self.limits.is_some();
            self.wait_for(!silent)?;
            // Before the client is known nothing is read ahead: what follows may be for TLS.
            let end = if self.limits.is_some() { self.input.len() } else { self.taken + need };
            match Self::receive(&mut self.transport, &mut self.input[self.filled..end]) {
                Ok(read) => self.filled += read,
                Err(error) if timed_out(&error) && silent => return Err(ReadError::Silent),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Reads one command or answer of the client, joined from its packets.
    pub(crate) fn read(&mut self, payload: &mut Vec<u8>) -> Result<(), ReadError> {
        payload.clear();
        self.large = None;
        let mut first = true;
        loop {
            self.fill(4, first)?;
            first = false;
            let head = &self.input[self.taken..self.taken + 4];
            let len = usize::from(head[0]) | usize::from(head[1]) << 8 | usize::from(head[2]) << 16;
            if head[3] != self.sequence {
                return Err(ReadError::OutOfOrder);
            }
            self.sequence = self.sequence.wrapping_add(1);
            self.taken += 4;
            if payload.len() + len > self.packet_max {
                self.drop_rest(len, len < CHUNK)?;
                return Err(ReadError::TooLarge);
            }
            let due = payload.len() + len;
            if let Err(why) = self.body(due, payload) {
                if matches!(why, ReadError::NoMemory) {
                    let left = due - payload.len();
                    payload.truncate(KEPT);
                    payload.shrink_to_fit();
                    self.large = None;
                    self.drop_rest(left, len < CHUNK)?;
                }
                return Err(why);
            }
            if len < CHUNK {
                return Ok(());
            }
        }
    }

    /// Appends input to a payload until it has `due` bytes.
    fn body(&mut self, due: usize, payload: &mut Vec<u8>) -> Result<(), ReadError> {
        let len = due - payload.len();
        if len <= self.input.len() {
            self.fill(len, false)?;
            self.make_room(due, payload)?;
            payload.extend_from_slice(&self.input[self.taken..self.taken + len]);
            self.taken += len;
            return Ok(());
        }
        let here = len.min(self.filled - self.taken);
        self.make_room(payload.len() + here, payload)?;
        payload.extend_from_slice(&self.input[self.taken..self.taken + here]);
        self.taken += here;
        while payload.len() < due {
            let start = payload.len();
            let end = due.min(start + start.max(FIRST));
            self.make_room(end, payload)?;
            payload.resize(end, 0);
            let mut filled = start;
            while filled < end {
                self.wait_for(true)?;
                filled += Self::receive(&mut self.transport, &mut payload[filled..])?;
            }
        }
        Ok(())
    }

    /// Gives a payload room for `len` bytes, charged where they are many.
    fn make_room(&mut self, len: usize, payload: &mut Vec<u8>) -> Result<(), ReadError> {
        if len > LARGE {
            let held = self.large.get_or_insert_with(|| self.budget.charge(Use::Connections, 0));
            // Asked for, and then made part of the one charge that is held.
            let more = len - held.bytes();
            drop(self.budget.try_charge(Use::Connections, more).map_err(|_| ReadError::NoMemory)?);
            held.resize(len);
        }
        payload.reserve_exact(len - payload.len());
        Ok(())
    }

    /// Reads a command to its end and drops it, so that its sender comes to reading why. `left` bytes are left of the packet.
    fn drop_rest(&mut self, mut left: usize, mut last: bool) -> Result<(), ReadError> {
        if self.limits.is_none() {
            return Ok(());
        }
        loop {
            while left > 0 {
                if self.taken == self.filled {
                    self.fill(1, false)?;
                }
                let here = left.min(self.filled - self.taken);
                self.taken += here;
                left -= here;
            }
            if last {
                return Ok(());
            }
            self.fill(4, false)?;
            let head = &self.input[self.taken..self.taken + 4];
            left = usize::from(head[0]) | usize::from(head[1]) << 8 | usize::from(head[2]) << 16;
            last = left < CHUNK;
            self.sequence = head[3].wrapping_add(1);
            self.taken += 4;
        }
    }

    /// Appends a packet to the response; `write` gives its payload.
    pub(crate) fn packet(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let start = self.output.len();
        self.output.extend_from_slice(&[0; 4]);
        write(&mut self.output);
        let len = self.output.len() - start - 4;
        if len < CHUNK {
            self.head(start, len);
        } else {
            self.split(start);
        }
        if self.output.len() >= SEND_AT { self.send() } else { Ok(()) }
    }

    /// Makes packets of the one that is too long for one.
    #[cold]
    fn split(&mut self, start: usize) {
        let payload = self.output.split_off(start + 4);
        self.output.truncate(start);
        let mut rest = payload.as_slice();
        loop {
            let (now, later) = rest.split_at(rest.len().min(CHUNK));
            let at = self.output.len();
            self.output.extend_from_slice(&[0; 4]);
            self.output.extend_from_slice(now);
            self.head(at, now.len());
            rest = later;
            if now.len() < CHUNK {
                break;
            }
        }
    }

    fn head(&mut self, at: usize, len: usize) {
        let [a, b, c, ..] = (len as u32).to_le_bytes();
        self.output[at..at + 4].copy_from_slice(&[a, b, c, self.sequence]);
        self.sequence = self.sequence.wrapping_add(1);
    }

    /// The number of the packet that is next.
    pub(crate) fn sequence(&self) -> u8 {
        self.sequence
    }

    /// Appends packets that were made before, the first with the number that is next.
    pub(crate) fn made(&mut self, packets: &[u8], count: u8) -> io::Result<()> {
        self.output.extend_from_slice(packets);
        self.sequence = self.sequence.wrapping_add(count);
        if self.output.len() >= SEND_AT { self.send() } else { Ok(()) }
    }

    /// Sends the response.
    pub(crate) fn send(&mut self) -> io::Result<()> {
        if self.output.is_empty() {
            return Ok(());
        }
        let len = self.output.len();
        let held = (len > LARGE).then(|| self.budget.charge(Use::Connections, len));
        let sent = self.transport.write_all(&self.output).and_then(|()| self.transport.flush());
        self.output.clear();
        if self.output.capacity() > LARGE {
            self.output = Vec::with_capacity(INPUT);
        }
        drop(held);
        sent
    }
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> ReadError {
        if timed_out(&error) { ReadError::Stalled } else { ReadError::Io(error) }
    }
}
