//! Packets: three bytes of length, one of sequence, the payload. A payload of 16 MB - 1 continues
//! in the next packet, so a payload of exactly that length, or a multiple of it, ends with an empty
//! packet.
//!
//! A short command is read with one system call. Buffers grow, and are charged to the budget, only
//! as bytes arrive, whatever length a client announces. A response is collected and written with
//! one call; a long response is sent in pieces while it is made.

use std::io;

use rustix::io::Errno;
use spillway::CommitFuture;
use spillway_base::budget::{Budget, Charge, Use};
use spillway_sql::Limits;

use crate::batched_send::PendingSend;
use crate::transport::Transport;

/// The longest payload of one packet.
const CHUNK: usize = 0xFF_FFFF;
/// Bytes of a packet before its payload: how long that is, and the packet's number.
pub(crate) const HEAD: usize = 4;
/// Responses are sent on once they are this long.
const SEND_AT: usize = 64 << 10;
/// Read at once, at most, before it is known how much there is to read.
const INPUT: usize = 16 << 10;
/// The first room of a command that does not fit the input.
const FIRST: usize = 64 << 10;
/// Commands that grow past this are charged to the memory budget while they are held.
pub(crate) const LARGE: usize = 64 << 10;
/// Responses that grow past this before they are sent are charged while they are.
const LONG: usize = 256 << 10;
/// Larger buffers are freed when a command has ended, because the charge of a connection does not
/// cover them.
pub(crate) const KEPT_BYTES: usize = 16 << 10;
/// Bytes that are kept of a command that does not fit the memory budget: enough to know whether the
/// command has an answer.
const KEPT: usize = 16;

/// The bytes before a payload of this length.
fn head_of(len: usize, sequence: u8) -> [u8; HEAD] {
    let [a, b, c, ..] = (len as u32).to_le_bytes();
    [a, b, c, sequence]
}

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
    /// The client sent more than fits the memory budget. It was read and dropped but for its first
    /// bytes.
    NoMemory,
    /// A packet does not bear the number that is due.
    OutOfOrder,
}

fn timed_out(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// A packet that may not be true, and the commit that decides it.
struct Unsure {
    commit: CommitFuture,
    at: usize,
    sequence: u8,
}

/// Where a packet lies that may have to be taken back, and its number.
pub(crate) struct Undo {
    at: usize,
    sequence: u8,
}

/// A packet of a few whole numbers, with room for its head in front: made in one piece, and put
/// behind others as one.
pub(crate) struct ShortPacket {
    pub(crate) bytes: [u8; HEAD + 2 + 8 * ShortPacket::NUMBERS_MAX],
    /// How many of them it has.
    pub(crate) len: usize,
}

impl ShortPacket {
    /// The most whole numbers that it has: with more of them the bitmap before them is longer.
    pub(crate) const NUMBERS_MAX: usize = 6;
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
    /// The last packet of the response, where it is true only once this commit lasts.
    unsure: Option<Unsure>,
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

    /// From now on these limits hold, and the deadline no longer does.
    pub(crate) fn set_limits(&mut self, limits: Limits) -> io::Result<()> {
        if self.limits == Some(limits) {
            return Ok(());
        }
        self.packet_max = limits.packet_max;
        self.limits = Some(limits);
        self.transport.set_deadline(None);
        self.transport.set_timeouts(limits.read, limits.write)
    }

    /// The next packet is the first of a command, and the one before is not kept any more.
    pub(crate) fn restart_sequence(&mut self) {
        self.sequence = 0;
        self.large = None;
        if self.output.capacity() > KEPT_BYTES && self.output.is_empty() {
            self.output = Vec::new();
        }
    }

    /// The next packet answers a command of which only the beginning has come.
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

    /// Moves what is left of the input to its beginning, where less than `need` would fit after it.
    fn tidy(&mut self, need: usize) {
        if self.taken > 0 && self.taken + need > self.input.len() || self.taken == self.filled {
            self.input.copy_within(self.taken..self.filled, 0);
            self.filled -= self.taken;
            self.taken = 0;
        }
    }

    /// The length that the next packet announces, if that much has come.
    fn announced(&self) -> Option<usize> {
        let head = self.input[self.taken..self.filled].first_chunk::<3>()?;
        Some(usize::from(head[0]) | usize::from(head[1]) << 8 | usize::from(head[2]) << 16)
    }

    /// Whether the next command is here, as far as it fits the input. Waits for nothing; the client
    /// must be known.
    pub(crate) fn arrived(&mut self) -> Result<bool, ReadError> {
        loop {
            let need = 4 + self.announced().unwrap_or(0);
            // The worker waits for the rest of a longer command while it arrives.
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

    /// Whether the beginning of a command has come, and not its end.
    pub(crate) fn has_begun(&self) -> bool {
        self.taken < self.filled
    }

    /// Whether nothing of a command is here, nor can be.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.has_begun() && self.transport.is_drained()
    }

    /// Has `need` bytes of input, which is no more than the input holds.
    fn fill(&mut self, need: usize) -> Result<(), ReadError> {
        self.tidy(need);
        while self.filled - self.taken < need {
            // Before the client is known nothing is read ahead: what follows may be for TLS.
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

    /// Gives a payload room for `len` bytes, charged where they are many.
    fn make_room(&mut self, len: usize, payload: &mut Vec<u8>) -> Result<(), ReadError> {
        if len <= LARGE {
            payload.reserve_exact(len - payload.len());
            return Ok(());
        }
        let held = self.large.get_or_insert_with(|| self.budget.charge(Use::Connections, 0));
        // While it moves to larger room it is there twice.
        let moved = if payload.capacity() < len { payload.len() } else { 0 };
        held.try_resize(len + moved).map_err(|_| ReadError::NoMemory)?;
        payload.reserve_exact(len - payload.len());
        held.resize(len);
        Ok(())
    }

    /// Reads a command to its end and drops it, so that its sender comes to reading why. `left`
    /// bytes are left of the packet.
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

    /// Appends a packet to the response; `write` gives its payload.
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

    /// Appends a packet, which has room for its head in front.
    #[inline]
    pub(crate) fn short(&mut self, short: &ShortPacket) -> io::Result<()> {
        let start = self.output.len();
        // All of it, as many bytes each time, is copied faster than what is asked for.
        self.output.extend_from_slice(&short.bytes);
        self.output.truncate(start + short.len);
        self.head(start, short.len - HEAD);
        if self.output.len() >= SEND_AT { self.send() } else { Ok(()) }
    }

    /// Sends the one packet that is too long for one as several, with what is before it, without
    /// another copy of it.
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

    /// Has the next packet, the last of the response, stand only once a commit lasts. Gives the
    /// commit back where the response is too long to be kept until then.
    pub(crate) fn unless_lost(&mut self, commit: CommitFuture) -> Option<CommitFuture> {
        if self.output.len() > SEND_AT / 2 {
            return Some(commit);
        }
        self.unsure = Some(Unsure { commit, at: self.output.len(), sequence: self.sequence });
        None
    }

    /// The commit that the response waits for, and how to take its last packet back.
    pub(crate) fn take_unsure(&mut self) -> Option<(CommitFuture, Undo)> {
        let Unsure { commit, at, sequence } = self.unsure.take()?;
        Some((commit, Undo { at, sequence }))
    }

    /// Takes the last packet back.
    pub(crate) fn undo(&mut self, undo: &Undo) {
        self.output.truncate(undo.at);
        self.sequence = undo.sequence;
    }

    /// The response, where it can be sent as it is ([`Transport::direct`]) and is no longer than
    /// that is worth.
    pub(crate) fn pending_send(&self) -> Option<PendingSend<'_>> {
        let some = !self.output.is_empty() && self.output.len() <= INPUT;
        let raw = self.transport.direct().filter(|_| some)?;
        Some(PendingSend::new(raw, &self.output))
    }

    /// So much of [`Packets::pending_send`] was sent. Whether that is all: [`Packets::send`] sends
    /// the rest, or says why not.
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
