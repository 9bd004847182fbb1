//! Packets of the protocol: three bytes with the length of the payload, one byte with the packet's
//! sequence number, and the payload.
//!
//! A payload has at most 16 MB - 1. Longer data is split into packets of this length and a last
//! packet that is shorter. So data whose length is a multiple of 16 MB - 1 ends with an empty
//! packet.
//!
//! A short command is read with one system call. A client may announce any length: buffers grow,
//! and are charged to the budget, only as bytes arrive. A short response is collected and written
//! with one call. A long response is sent in pieces while it is made.

use std::io;

use rustix::io::Errno;
use spillway::CommitFuture;
use spillway_base::budget::{Budget, Charge, Use};
use spillway_sql::Limits;

use crate::batched_send::PendingSend;
use crate::transport::Transport;

/// The longest payload of one packet.
const CHUNK: usize = 0xFF_FFFF;
/// The bytes of a packet before its payload: the payload's length, and the packet's number.
pub(crate) const HEAD: usize = 4;
/// A response is sent in pieces of about this many bytes while it is made.
const SEND_AT: usize = 64 << 10;
/// The most bytes that are read at once before the length of a command is known.
const INPUT: usize = 16 << 10;
/// The initial size of the buffer for a command that does not fit the input buffer.
const FIRST: usize = 64 << 10;
/// A command longer than this is charged to the memory budget while it is held.
pub(crate) const LARGE: usize = 64 << 10;
/// A response whose unsent part is longer than this is charged while it is held.
const LONG: usize = 256 << 10;
/// A larger buffer is freed at the end of the command, because the charge of a connection does not
/// cover it.
pub(crate) const KEPT_BYTES: usize = 16 << 10;
/// How many bytes are kept of a command that does not fit the memory budget: enough to know whether
/// the command has a response.
const KEPT: usize = 16;

/// The bytes before a payload of this length.
fn head_of(len: usize, sequence: u8) -> [u8; HEAD] {
    let [a, b, c, ..] = (len as u32).to_le_bytes();
    [a, b, c, sequence]
}

/// Why no command was read.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The stream failed or ended.
    Io(io::Error),
    /// The client sent nothing for too long.
    Silent,
    /// The client began a command and did not end it in time.
    Stalled,
    /// The client sent a longer command than it may. It was read and dropped.
    TooLarge,
    /// The command does not fit the memory budget. It was read and dropped except for its first
    /// bytes.
    NoMemory,
    /// A packet does not have the expected number.
    OutOfOrder,
}

fn timed_out(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// The last packet of a response, and the commit on which it depends.
struct Unsure {
    commit: CommitFuture,
    at: usize,
    sequence: u8,
}

/// The position and number of a packet that may have to be withdrawn.
pub(crate) struct Undo {
    at: usize,
    sequence: u8,
}

/// A packet of a few integers, with room for its head in front. It is built in one piece and
/// appended as a whole.
pub(crate) struct ShortPacket {
    pub(crate) bytes: [u8; HEAD + 2 + 8 * ShortPacket::NUMBERS_MAX],
    /// The number of its bytes in use.
    pub(crate) len: usize,
}

impl ShortPacket {
    /// The most integers of a short packet: with more of them, the NULL bitmap takes another byte.
    pub(crate) const NUMBERS_MAX: usize = 6;
}

/// A connection's packets.
pub(crate) struct Packets<T> {
    transport: T,
    /// Bytes that were read and not yet taken: `input[taken..filled]`.
    input: Box<[u8]>,
    taken: usize,
    filled: usize,
    output: Vec<u8>,
    sequence: u8,
    packet_max: usize,
    /// Set once the client is authenticated. Before that, the transport's deadline is the only time
    /// limit.
    limits: Option<Limits>,
    /// The last packet of the response, if it is valid only once a commit is durable.
    unsure: Option<Unsure>,
    budget: Budget,
    /// The charge for a command longer than [`LARGE`].
    large: Option<Charge>,
}

impl<T: Transport> Packets<T> {
    /// The packets of an unauthenticated client, of at most `packet_max` bytes.
    pub(crate) fn new(transport: T, packet_max: usize, budget: Budget) -> Packets<T> {
        Packets {
            transport,
            input: vec![0; INPUT].into(),
            taken: 0,
            filled: 0,
            output: Vec::new(),
            sequence: 0,
            packet_max,
            limits: None,
            unsure: None,
            budget,
            large: None,
        }
    }

    pub(crate) fn transport(&mut self) -> &mut T {
        &mut self.transport
    }

    /// Sets limits for an authenticated client. The deadline no longer applies.
    pub(crate) fn set_limits(&mut self, limits: Limits) -> io::Result<()> {
        if self.limits == Some(limits) {
            return Ok(());
        }
        self.packet_max = limits.packet_max;
        self.limits = Some(limits);
        self.transport.set_deadline(None);
        self.transport.set_timeouts(limits.read, limits.write)
    }

    /// Starts the packet numbers for the next command at zero, and releases the previous command.
    pub(crate) fn restart_sequence(&mut self) {
        self.sequence = 0;
        self.large = None;
        if self.output.capacity() > KEPT_BYTES && self.output.is_empty() {
            self.output = Vec::new();
        }
    }

    /// Numbers the next packet as the response to a command of which only the beginning was read.
    pub(crate) fn answer_early(&mut self) {
        self.sequence = u8::from(self.filled - self.taken >= 4);
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

    /// Moves the unread input to the front of the buffer, if fewer than `need` bytes fit after its
    /// start.
    fn tidy(&mut self, need: usize) {
        if self.taken > 0 && self.taken + need > self.input.len() || self.taken == self.filled {
            self.input.copy_within(self.taken..self.filled, 0);
            self.filled -= self.taken;
            self.taken = 0;
        }
    }

    /// The length that the next packet announces, if these three bytes have arrived.
    fn announced(&self) -> Option<usize> {
        let head = self.input[self.taken..self.filled].first_chunk::<3>()?;
        Some(usize::from(head[0]) | usize::from(head[1]) << 8 | usize::from(head[2]) << 16)
    }

    /// Whether the next command has arrived, or as much of it as fits the input buffer. Does not
    /// wait. The client must be authenticated.
    pub(crate) fn arrived(&mut self) -> Result<bool, ReadError> {
        loop {
            let need = 4 + self.announced().unwrap_or(0);
            // A worker waits for the rest of a longer command.
            if self.filled - self.taken >= need.min(self.input.len()) {
                return Ok(true);
            }
            self.tidy(need);
            match self.transport.try_read(&mut self.input[self.filled..]) {
                Ok(0) => return Err(ReadError::Io(io::ErrorKind::UnexpectedEof.into())),
                Ok(read) => self.filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(ReadError::Io(error)),
            }
        }
    }

    /// Whether a command has arrived in part.
    pub(crate) fn has_begun(&self) -> bool {
        self.taken < self.filled
    }

    /// Whether no byte of a command has arrived, so none can be buffered in TLS either.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.has_begun() && self.transport.is_drained()
    }

    /// Reads until the input has `need` bytes, which must fit the buffer.
    fn fill(&mut self, need: usize) -> Result<(), ReadError> {
        self.tidy(need);
        while self.filled - self.taken < need {
            // Before the login nothing is read ahead, because the following bytes may be TLS.
            let end = if self.limits.is_some() { self.input.len() } else { self.taken + need };
            self.filled += Self::receive(&mut self.transport, &mut self.input[self.filled..end])?;
        }
        Ok(())
    }

    /// Reads one command or answer of the client, joined from its packets.
    pub(crate) fn read(&mut self, payload: &mut Vec<u8>) -> Result<(), ReadError> {
        payload.clear();
        self.large = None;
        loop {
            self.fill(4)?;
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
            self.fill(len)?;
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
                filled += Self::receive(&mut self.transport, &mut payload[filled..])?;
            }
        }
        Ok(())
    }

    /// Gives a payload room for `len` bytes, which are charged if they are many.
    fn make_room(&mut self, len: usize, payload: &mut Vec<u8>) -> Result<(), ReadError> {
        if len <= LARGE {
            payload.reserve_exact(len - payload.len());
            return Ok(());
        }
        let held = self.large.get_or_insert_with(|| self.budget.charge(Use::Connections, 0));
        // While the payload moves to a larger buffer, both buffers exist.
        let moved = if payload.capacity() < len { payload.len() } else { 0 };
        held.try_resize(len + moved).map_err(|_| ReadError::NoMemory)?;
        payload.reserve_exact(len - payload.len());
        held.resize(len);
        Ok(())
    }

    /// Reads the rest of a command and drops it, so that the client gets to read the error. `left`
    /// bytes of the current packet are unread.
    fn drop_rest(&mut self, mut left: usize, mut last: bool) -> Result<(), ReadError> {
        if self.limits.is_none() {
            return Ok(());
        }
        loop {
            while left > 0 {
                if self.taken == self.filled {
                    self.fill(1)?;
                }
                let here = left.min(self.filled - self.taken);
                self.taken += here;
                left -= here;
            }
            if last {
                return Ok(());
            }
            self.fill(4)?;
            let head = &self.input[self.taken..self.taken + 4];
            left = usize::from(head[0]) | usize::from(head[1]) << 8 | usize::from(head[2]) << 16;
            last = left < CHUNK;
            self.sequence = head[3].wrapping_add(1);
            self.taken += 4;
        }
    }

    /// Appends a packet to the response; `write` writes its payload.
    pub(crate) fn packet(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let start = self.output.len();
        self.output.extend_from_slice(&[0; HEAD]);
        write(&mut self.output);
        let len = self.output.len() - start - HEAD;
        if len >= CHUNK {
            return self.split(start);
        }
        self.head(start, len);
        if self.output.len() >= SEND_AT { self.send() } else { Ok(()) }
    }

    /// Appends a short packet, which has room for its head in front.
    #[inline]
    pub(crate) fn short(&mut self, short: &ShortPacket) -> io::Result<()> {
        let start = self.output.len();
        // Copying the whole array, whose size is constant, is faster than copying only the used
        // bytes.
        self.output.extend_from_slice(&short.bytes);
        self.output.truncate(start + short.len);
        self.head(start, short.len - HEAD);
        if self.output.len() >= SEND_AT { self.send() } else { Ok(()) }
    }

    /// Sends a payload that is too long for one packet as several packets, after the packets before
    /// it. The payload is not copied.
    #[cold]
    fn split(&mut self, start: usize) -> io::Result<()> {
        let _held = self.budget.charge(Use::Connections, self.output.len());
        let (before, packet) = self.output.split_at(start);
        let mut sent = self.transport.write_all(before);
        let mut rest = &packet[HEAD..];
        loop {
            let (now, later) = rest.split_at(rest.len().min(CHUNK));
            let head = head_of(now.len(), self.sequence);
            self.sequence = self.sequence.wrapping_add(1);
            sent = sent.and_then(|()| self.transport.write_all(&head));
            sent = sent.and_then(|()| self.transport.write_all(now));
            rest = later;
            if now.len() < CHUNK {
                break;
            }
        }
        self.output = Vec::new();
        sent.and_then(|()| self.transport.flush())
    }

    fn head(&mut self, at: usize, len: usize) {
        self.output[at..at + HEAD].copy_from_slice(&head_of(len, self.sequence));
        self.sequence = self.sequence.wrapping_add(1);
    }

    /// The number of the next packet.
    pub(crate) fn sequence(&self) -> u8 {
        self.sequence
    }

    /// Appends packets that were encoded before; the first of them has the next number.
    pub(crate) fn made(&mut self, packets: &[u8], count: u8) -> io::Result<()> {
        self.output.extend_from_slice(packets);
        self.sequence = self.sequence.wrapping_add(count);
        if self.output.len() >= SEND_AT { self.send() } else { Ok(()) }
    }

    /// Makes the next packet, the last of the response, depend on a commit. Returns the commit if
    /// the response is too long to be held until the commit is durable.
    pub(crate) fn unless_lost(&mut self, commit: CommitFuture) -> Option<CommitFuture> {
        if self.output.len() > SEND_AT / 2 {
            return Some(commit);
        }
        self.unsure = Some(Unsure { commit, at: self.output.len(), sequence: self.sequence });
        None
    }

    /// The commit that the response depends on, and how to withdraw its last packet.
    pub(crate) fn take_unsure(&mut self) -> Option<(CommitFuture, Undo)> {
        let Unsure { commit, at, sequence } = self.unsure.take()?;
        Some((commit, Undo { at, sequence }))
    }

    /// Withdraws the last packet.
    pub(crate) fn undo(&mut self, undo: &Undo) {
        self.output.truncate(undo.at);
        self.sequence = undo.sequence;
    }

    /// The response, if the caller can send it directly ([`Transport::direct`]): no part of it was
    /// sent yet, and it is short.
    pub(crate) fn pending_send(&self) -> Option<PendingSend<'_>> {
        let some = !self.output.is_empty() && self.output.len() <= INPUT;
        let raw = self.transport.direct().filter(|_| some)?;
        Some(PendingSend::new(raw, &self.output))
    }

    /// Records how much of [`Packets::pending_send`] was sent. Returns whether that was all. If
    /// not, [`Packets::send`] sends the rest, or returns the error.
    pub(crate) fn posted(&mut self, sent: Result<usize, Errno>) -> bool {
        let sent = match sent {
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            sent => sent,
        };
        self.transport.posted(sent);
        self.output.drain(..sent.unwrap_or(0));
        self.output.is_empty()
    }

    /// Sends the response.
    pub(crate) fn send(&mut self) -> io::Result<()> {
        if self.output.is_empty() {
            return Ok(());
        }
        let len = self.output.len();
        let held = (len > LONG).then(|| self.budget.charge(Use::Connections, len));
        let sent = self.transport.write_all(&self.output).and_then(|()| self.transport.flush());
        self.output.clear();
        if self.output.capacity() > LONG {
            self.output = Vec::new();
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
