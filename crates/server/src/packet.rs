//! Packets: three bytes of length, one of sequence, the payload. A payload of 16 MB - 1 goes on in the next packet.

use std::io::{self, Read, Write};

/// The longest payload of one packet.
const CHUNK: usize = 0xFF_FFFF;
/// Responses are sent on once they are this long.
const SEND_AT: usize = 64 << 10;

/// Why no command came.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The stream failed or ended.
    Io(io::Error),
    /// The client sent more than it may.
    TooLarge,
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> ReadError {
        ReadError::Io(error)
    }
}

/// A connection's packets.
pub(crate) struct Packets<S> {
    stream: S,
    /// What was read and not yet taken.
    input: Vec<u8>,
    taken: usize,
    output: Vec<u8>,
    sequence: u8,
    packet_max: usize,
}

impl<S: Read + Write> Packets<S> {
    pub(crate) fn new(stream: S, packet_max: usize) -> Packets<S> {
        Packets { stream, input: Vec::new(), taken: 0, output: Vec::new(), sequence: 0, packet_max }
    }

    pub(crate) fn stream(&self) -> &S {
        &self.stream
    }

    /// The next packet follows this one of the client's.
    pub(crate) fn restart_sequence(&mut self) {
        self.sequence = 0;
    }

    /// Whether another command has arrived already.
    pub(crate) fn has_input(&self) -> bool {
        self.input.len() > self.taken
    }

    fn fill(&mut self, need: usize) -> io::Result<()> {
        if self.taken > 0 && self.input.len() - self.taken < need {
            self.input.drain(..self.taken);
            self.taken = 0;
        }
        while self.input.len() - self.taken < need {
            let start = self.input.len();
            let more = (need - (start - self.taken)).clamp(4 << 10, 1 << 20);
            self.input.resize(start + more, 0);
            let read = self.stream.read(&mut self.input[start..]);
            self.input.truncate(start + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Reads one command or answer of the client, joined from its packets.
    pub(crate) fn read(&mut self, payload: &mut Vec<u8>) -> Result<(), ReadError> {
        payload.clear();
        loop {
            self.fill(4)?;
            let head = &self.input[self.taken..self.taken + 4];
            let len = usize::from(head[0]) | usize::from(head[1]) << 8 | usize::from(head[2]) << 16;
            self.sequence = head[3].wrapping_add(1);
            self.taken += 4;
            if payload.len() + len > self.packet_max {
                return Err(ReadError::TooLarge);
            }
            self.fill(len)?;
            payload.extend_from_slice(&self.input[self.taken..self.taken + len]);
            self.taken += len;
            if len < CHUNK {
                return Ok(());
            }
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
        if self.output.len() >= SEND_AT { self.send() } else { Ok(()) }
    }

    fn head(&mut self, at: usize, len: usize) {
        let [a, b, c, ..] = (len as u32).to_le_bytes();
        self.output[at..at + 4].copy_from_slice(&[a, b, c, self.sequence]);
        self.sequence = self.sequence.wrapping_add(1);
    }

    /// Sends the response.
    pub(crate) fn send(&mut self) -> io::Result<()> {
        let sent = self.stream.write_all(&self.output);
        self.output.clear();
        if self.output.capacity() > 1 << 20 {
            self.output = Vec::new();
        }
        sent
    }
}

/// Appends a length-encoded integer.
pub(crate) fn put_len(out: &mut Vec<u8>, number: u64) {
    match number {
        0..=250 => out.push(number as u8),
        251..=0xFFFF => {
            out.push(0xFC);
            out.extend_from_slice(&(number as u16).to_le_bytes());
        }
        0x1_0000..=0xFF_FFFF => {
            out.push(0xFD);
            out.extend_from_slice(&(number as u32).to_le_bytes()[..3]);
        }
        _ => {
            out.push(0xFE);
            out.extend_from_slice(&number.to_le_bytes());
        }
    }
}

/// Appends bytes with their length before them.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_len(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads a client's payload; every method answers `None` where it ends too early.
pub(crate) struct Take<'a>(pub(crate) &'a [u8]);

impl<'a> Take<'a> {
    pub(crate) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (now, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(now)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Bytes up to a zero byte.
    pub(crate) fn until_zero(&mut self) -> Option<&'a [u8]> {
        let at = self.0.iter().position(|byte| *byte == 0)?;
        let text = self.bytes(at)?;
        self.bytes(1)?;
        Some(text)
    }

    pub(crate) fn len(&mut self) -> Option<u64> {
        match self.u8()? {
            0xFC => self.array().map(|bytes| u64::from(u16::from_le_bytes(bytes))),
            0xFD => self.array::<3>().map(|[a, b, c]| u64::from(u32::from_le_bytes([a, b, c, 0]))),
            // The upper half is no part of it: a packet is shorter, and clients are known to fill it with
            // something else, which MySQL does not look at either.
            0xFE => self.array().map(|bytes| u64::from_le_bytes(bytes) & 0xFFFF_FFFF),
            0xFB | 0xFF => None,
            small => Some(u64::from(small)),
        }
    }

    pub(crate) fn sized(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.len()?).ok()?;
        self.bytes(len)
    }
}
