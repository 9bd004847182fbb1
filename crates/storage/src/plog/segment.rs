//! The bytes of a log segment.
//!
//! A segment is a file `LL-NNNNNNNNNNNNNNNN.plog`: lane and sequence number in hexadecimal. It
//! bears that name only once its header is durable; until then it is `LL-next.tmp`. The segments of
//! one lane's log have consecutive numbers. A segment that an engine keeps after a cut has the
//! suffix `.kept` instead, and is not part of the log (`kept.rs`). All integers are little-endian;
//! CRCs are CRC32C.
//!
//! ```text
//! header, 4096 bytes
//!   0  magic        8   "SPLWPLOG"
//!   8  format       u32 5
//!  12  lane         u32
//!  16  sequence     u64 the segment's number, from 1
//!  24  generation   u64 the number of the opening that wrote this segment (PLOG-5)
//!  32  fence        u64 a number that the log's user gave to this opening; the log only stores it
//!  40  end segment  u64 where this opening found the end of the log: the segment's number,
//!  48  end offset   u64   and the offset in its file (both 0 if it found no frame)
//!  56  secret       u64 a random number of this opening
//!  64  crc          u32 of bytes 0..64
//!      zero up to 4096
//! frame, at every multiple of 8 from 4096 on
//!   0  length       u32 payload bytes, never 0; 0xFFFFFFFF seals the segment: nothing follows
//!   4  crc          u32 of the payload
//!   8  durable      u64 bytes of this segment that were durable when the frame was written
//!  16  tag          u32 crc of: the secret's low half (u32), generation (u64), sequence (u64)
//!  20  head crc     u32 crc of: the secret's high half (u32), generation (u64), sequence (u64),
//!                   the frame's offset (u64), and bytes 0..16 of this frame
//!  24  payload
//!      any bytes up to a multiple of 8
//! ```
//!
//! Bytes 0..24 of a frame are its *head*. The tag and the head CRC cover the generation, the
//! segment's number and the frame's offset. So a valid head was written at this offset by this
//! generation. The file may have been another segment before: frames of that segment are not valid
//! in this one. Bytes of a payload are no valid head either, because no client knows the secret:
//! the chance to guess it is one in 2^64.
//!
//! A frame that cannot be read is damage if a later write proves that the frame was durable.
//! Otherwise it is a torn tail (PLOG-3). There are three such proofs:
//!
//! - a later frame of the segment whose `durable` is above the frame's offset;
//! - a frame of the same generation in a later segment, because a segment is sealed and synced
//!   before the next one is written;
//! - the header of a later generation that states an end of the log past the frame.

use spillway_base::checksum::{crc32c, crc32c_append};
use spillway_base::codec::Reader;
use spillway_base::{Error, ErrorKind, Result};

use super::Position;

pub(super) const HEADER_BYTES: u64 = 4096;
pub(super) const FRAME_HEAD_BYTES: usize = 24;
/// The length that seals a segment.
const SEAL: u32 = u32::MAX;
const MAGIC: &[u8; 8] = b"SPLWPLOG";
const FORMAT: u32 = 5;
const HEADER_USED: usize = 68;

/// The header of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Header {
    pub(super) lane: u32,
    pub(super) sequence: u64,
    pub(super) generation: u64,
    pub(super) fence: u64,
    /// Where the log ended before the generation.
    pub(super) end: Position,
    /// No client knows it.
    pub(super) secret: u64,
}

impl Header {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES as usize);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&FORMAT.to_le_bytes());
        bytes.extend_from_slice(&self.lane.to_le_bytes());
        bytes.extend_from_slice(&self.sequence.to_le_bytes());
        bytes.extend_from_slice(&self.generation.to_le_bytes());
        bytes.extend_from_slice(&self.fence.to_le_bytes());
        bytes.extend_from_slice(&self.end.segment.to_le_bytes());
        bytes.extend_from_slice(&self.end.offset.to_le_bytes());
        bytes.extend_from_slice(&self.secret.to_le_bytes());
        bytes.extend_from_slice(&crc32c(&bytes).to_le_bytes());
        bytes.resize(HEADER_BYTES as usize, 0);
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Header> {
        let mut reader = Reader::new(bytes);
        let magic = reader.take(MAGIC.len())?;
        let format = reader.u32()?;
        let header = Header {
            lane: reader.u32()?,
            sequence: reader.u64()?,
            generation: reader.u64()?,
            fence: reader.u64()?,
            end: Position { segment: reader.u64()?, offset: reader.u64()? },
            secret: reader.u64()?,
        };
        let crc = reader.u32()?;
        if magic != MAGIC || crc != crc32c(&bytes[..HEADER_USED - 4]) {
            return Err(Error::corruption("the segment header does not match its checksum"));
        }
        if format != FORMAT {
            return Err(Error::new(
                ErrorKind::UnsupportedFormat,
                format!("the log has format {format}; this version reads format {FORMAT}"),
            ));
        }
        Ok(header)
    }

    /// The CRC of a half of the secret, the generation and the segment's number.
    fn crc_with(&self, secret: u32) -> u32 {
        let crc = crc32c_append(crc32c(&secret.to_le_bytes()), &self.generation.to_le_bytes());
        crc32c_append(crc, &self.sequence.to_le_bytes())
    }

    fn tag(&self) -> u32 {
        self.crc_with(self.secret as u32)
    }
}

/// The head of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FrameHead {
    pub(super) length: u32,
    pub(super) crc: u32,
    pub(super) durable: u64,
}

impl FrameHead {
    fn head_crc(&self, header: &Header, offset: u64) -> u32 {
        let mut crc = header.crc_with((header.secret >> 32) as u32);
        crc = crc32c_append(crc, &offset.to_le_bytes());
        crc = crc32c_append(crc, &self.length.to_le_bytes());
        crc = crc32c_append(crc, &self.crc.to_le_bytes());
        crc32c_append(crc, &self.durable.to_le_bytes())
    }

    /// The head that ends a segment. It is written before the segment is synced.
    pub(super) fn seal(durable: u64) -> FrameHead {
        FrameHead { length: SEAL, crc: 0, durable }
    }

    pub(super) fn is_seal(&self) -> bool {
        self.length == SEAL
    }

    pub(super) fn encode(&self, header: &Header, offset: u64) -> [u8; FRAME_HEAD_BYTES] {
        let mut bytes = [0; FRAME_HEAD_BYTES];
        bytes[0..4].copy_from_slice(&self.length.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.crc.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.durable.to_le_bytes());
        bytes[16..20].copy_from_slice(&header.tag().to_le_bytes());
        bytes[20..24].copy_from_slice(&self.head_crc(header, offset).to_le_bytes());
        bytes
    }

    /// The head at `offset` of a segment, or `None` when none was written there.
    pub(super) fn decode(bytes: &[u8], header: &Header, offset: u64) -> Option<FrameHead> {
        let mut reader = Reader::new(bytes.get(..FRAME_HEAD_BYTES)?);
        let head = FrameHead {
            length: reader.u32().ok()?,
            crc: reader.u32().ok()?,
            durable: reader.u64().ok()?,
        };
        let (tag, crc) = (reader.u32().ok()?, reader.u32().ok()?);
        let passes = head.length > 0 && tag == header.tag() && crc == head.head_crc(header, offset);
        passes.then_some(head)
    }
}

/// The bytes a frame takes, its padding included.
pub(super) fn frame_bytes(payload: usize) -> u64 {
    (FRAME_HEAD_BYTES as u64 + payload as u64).next_multiple_of(8)
}

pub(super) fn file_name(lane: u32, sequence: u64) -> String {
    format!("{lane:02x}-{sequence:016x}.plog")
}

/// The name of a segment's file while it is made.
pub(super) fn next_name(lane: u32) -> String {
    format!("{lane:02x}-next.tmp")
}

/// The name of the file of a segment that is kept after it has left the log.
pub(super) fn kept_name(lane: u32, sequence: u64) -> String {
    format!("{lane:02x}-{sequence:016x}.kept")
}

/// Lane and sequence number of a segment's file name.
pub(super) fn parse_name(name: &str) -> Option<(u32, u64)> {
    parse_stem(name.strip_suffix(".plog")?)
}

/// Lane and sequence number of a kept segment's file name.
pub(super) fn parse_kept_name(name: &str) -> Option<(u32, u64)> {
    parse_stem(name.strip_suffix(".kept")?)
}

fn parse_stem(stem: &str) -> Option<(u32, u64)> {
    let (lane, sequence) = stem.split_once('-')?;
    Some((u32::from_str_radix(lane, 16).ok()?, u64::from_str_radix(sequence, 16).ok()?))
}
