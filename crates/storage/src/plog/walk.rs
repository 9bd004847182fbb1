//! Walks from frame to frame of one segment.

use std::ops::Range;

use spillway_base::checksum::crc32c;
use spillway_base::{Error, Result};

use super::Position;
use super::reader::Found;
use super::segment::{FRAME_HEAD_BYTES, FrameHead, HEADER_BYTES, frame_bytes};

/// The bytes after the last frame that are searched at once: a multiple of 8.
const WITNESS_BYTES: u64 = 1 << 20;

/// The position of a walk through a segment.
pub(super) struct Walk {
    /// The end of the last frame.
    pub(super) end: u64,
    /// The bytes of the segment that were durable when its last frame was written.
    pub(super) durable: u64,
    /// Where the next generation found the end of the log.
    known: Option<Position>,
}

/// Why there are no more frames.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    /// A later opening found the end of the log here.
    Known,
    /// The segment was sealed or full.
    Sealed,
    /// The following bytes are no frame, or a damaged one.
    Unreadable,
}

impl Walk {
    pub(super) fn new(known: Option<Position>) -> Walk {
        Walk { end: HEADER_BYTES, durable: HEADER_BYTES, known }
    }

    /// The end of a segment's frames, if a later opening recorded it.
    fn limit(&self, segment: &Found) -> Option<u64> {
        let here = self.known.filter(|known| known.segment == segment.header.sequence);
        here.map(|known| known.offset)
    }

    /// Reads the next frames into `memory`: those that are whole within this many bytes, or one
    /// larger frame. If no frame follows them, returns why.
    pub(super) fn read(
        &mut self,
        segment: &Found,
        bytes: usize,
        memory: &mut Vec<u8>,
        frames: &mut Vec<(Position, Range<usize>)>,
    ) -> Result<Option<Stop>> {
        let limit = self.limit(segment).unwrap_or(u64::MAX);
        let (begin, mut filled) = (self.end, 0);
        while self.end < limit {
            let at = (self.end - begin) as usize;
            let left = segment.bytes.saturating_sub(self.end);
            if left < FRAME_HEAD_BYTES as u64 {
                return Ok(Some(Stop::Sealed));
            }
            if filled < at + FRAME_HEAD_BYTES {
                if at > 0 {
                    return Ok(None);
                }
                fill(segment, begin, memory, &mut filled, bytes.max(FRAME_HEAD_BYTES))?;
            }
            let head = FrameHead::decode(&memory[at..filled], &segment.header, self.end);
            let Some(head) = head else { return Ok(Some(Stop::Unreadable)) };
            if head.is_seal() {
                return Ok(Some(Stop::Sealed));
            }
            let length = head.length as usize;
            let payload = at + FRAME_HEAD_BYTES..at + FRAME_HEAD_BYTES + length;
            if left < (FRAME_HEAD_BYTES + length) as u64 {
                return Ok(Some(Stop::Unreadable));
            }
            if filled < payload.end {
                if at > 0 {
                    return Ok(None);
                }
                fill(segment, begin, memory, &mut filled, payload.end)?;
            }
            if crc32c(&memory[payload.clone()]) != head.crc {
                return Ok(Some(Stop::Unreadable));
            }
            let position = Position { segment: segment.header.sequence, offset: self.end };
            frames.push((position, payload));
            self.end += frame_bytes(length);
            self.durable = head.durable;
        }
        Ok(Some(Stop::Known))
    }

    /// Judges why the frames of a segment stopped. Fails if a frame is proved to be damaged. If one
    /// may be, returns the error to report if a later segment proves it.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Corruption`] (PLOG-4), [`spillway_base::ErrorKind::Io`].
    pub(super) fn judge(&self, segment: &Found, stop: Stop) -> Result<Option<Error>> {
        let damage =
            || segment.damaged(self.end, "the log frame is damaged, and the log went on after it");
        if let Some(limit) = self.limit(segment) {
            return if self.end == limit { Ok(None) } else { Err(damage()) };
        }
        if stop == Stop::Sealed {
            return Ok(None);
        }
        // A later generation, or a later frame, may prove that there was more.
        if self.known.is_some() || self.has_witness(segment)? {
            return Err(damage());
        }
        Ok(Some(damage()))
    }

    /// Whether a later frame states that the bytes at the end were durable when it was written.
    fn has_witness(&self, segment: &Found) -> Result<bool> {
        let (mut memory, mut begin) = (Vec::new(), self.end + 8);
        loop {
            let left = segment.bytes.saturating_sub(begin);
            if left < FRAME_HEAD_BYTES as u64 {
                return Ok(false);
            }
            // Heads may begin at every multiple of 8, and the last ones here end after the window.
            let wanted = left.min(WITNESS_BYTES + FRAME_HEAD_BYTES as u64) as usize;
            let mut filled = 0;
            fill(segment, begin, &mut memory, &mut filled, wanted)?;
            for at in (0..=filled - FRAME_HEAD_BYTES).step_by(8) {
                let head =
                    FrameHead::decode(&memory[at..filled], &segment.header, begin + at as u64);
                if head.is_some_and(|head| head.durable > self.end) {
                    return Ok(true);
                }
            }
            begin += WITNESS_BYTES;
        }
    }
}

/// Reads the bytes of a segment from `begin` on into `memory`: this many of them, or all that
/// exist.
fn fill(
    segment: &Found,
    begin: u64,
    memory: &mut Vec<u8>,
    filled: &mut usize,
    wanted: usize,
) -> Result<()> {
    let wanted = (segment.bytes - begin).min(wanted as u64) as usize;
    if memory.len() < wanted {
        memory.resize(wanted, 0);
    }
    segment.file.read_at(begin + *filled as u64, &mut memory[*filled..wanted])?;
    *filled = wanted;
    Ok(())
}
