//! Reading a log back.

use std::path::Path;

use spillway_base::checksum::crc32c;
use spillway_base::{Error, ErrorKind, Result};

use super::Position;
use super::segment::{
    FRAME_HEAD_BYTES, FrameHead, HEADER_BYTES, Header, file_name, frame_bytes, parse_name,
};
use crate::{Disk, OpenMode};

/// What is left of one lane's log.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    /// Its segments, in order.
    pub segments: Vec<RecoveredSegment>,
    /// The largest generation met, 0 for none.
    pub generation: u64,
}

/// A segment of a log that was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecoveredSegment {
    /// Its sequence number.
    pub sequence: u64,
    /// The opening that wrote it.
    pub generation: u64,
    /// What the user noted when that generation began.
    pub fence: u64,
    /// The length of its file, in bytes.
    pub bytes: u64,
    /// Frames read from it.
    pub frames: u64,
}

/// Takes a frame: where it begins, the segment it is in, and its payload.
pub type VisitFrame<'v> = dyn FnMut(Position, &RecoveredSegment, &[u8]) -> Result<()> + 'v;

/// Reads one lane of the log in a folder, giving every frame in order to `visit` with its segment's
/// generation and fence.
///
/// # Errors
/// [`ErrorKind::Corruption`] (L4), [`ErrorKind::UnsupportedFormat`], [`ErrorKind::Io`], and what `visit`
/// answers.
pub fn read_log(
    disk: &dyn Disk,
    dir: &Path,
    lane: u32,
    visit: &mut VisitFrame<'_>,
) -> Result<Recovered> {
    let mut sequences: Vec<u64> = disk
        .list(dir)?
        .iter()
        .filter_map(|name| parse_name(name))
        .filter_map(|(of, sequence)| (of == lane).then_some(sequence))
        .collect();
    sequences.sort_unstable();
    let mut recovered = Recovered::default();
    // Where an earlier segment ended without a seal: damage, if its generation went on after it.
    let mut doubt: Option<(u64, Error)> = None;
    for (index, &sequence) in sequences.iter().enumerate() {
        let path = dir.join(file_name(lane, sequence));
        let bytes = read_file(disk, &path)?;
        let header = match Header::decode(&bytes) {
            Ok(header) if (header.lane, header.sequence) == (lane, sequence) => header,
            Err(error) if error.kind() == ErrorKind::UnsupportedFormat => {
                return Err(error.context(path.display()));
            }
            // A segment is named before its header is durable, so the last one may have none yet.
            _ if index + 1 == sequences.len() => break,
            _ => {
                return Err(Error::corruption(format!(
                    "{}: offset 0: the segment header is damaged",
                    path.display()
                )));
            }
        };
        let mut segment = RecoveredSegment {
            sequence,
            generation: header.generation,
            fence: header.fence,
            bytes: bytes.len() as u64,
            frames: 0,
        };
        let torn = read_segment(&path, &bytes, &header, &mut segment, visit)?;
        if let (true, Some((generation, error))) = (segment.frames > 0, &doubt) {
            // The writer goes on to the next segment of a generation once the last one is durable.
            if *generation == segment.generation {
                return Err(error.clone());
            }
        }
        doubt = torn.map(|error| (segment.generation, error)).or(doubt);
        recovered.generation = recovered.generation.max(segment.generation);
        recovered.segments.push(segment);
    }
    Ok(recovered)
}

/// Reads the frames of one segment. Answers what to report if a later segment shows that its end
/// was durable.
fn read_segment(
    path: &Path,
    bytes: &[u8],
    header: &Header,
    segment: &mut RecoveredSegment,
    visit: &mut VisitFrame<'_>,
) -> Result<Option<Error>> {
    let mut offset = HEADER_BYTES;
    loop {
        match frame(bytes, header, offset) {
            Frame::Payload(payload) => {
                segment.frames += 1;
                visit(Position { segment: header.sequence, offset }, segment, payload)?;
                offset += frame_bytes(payload.len());
            }
            Frame::Sealed => return Ok(None),
            Frame::Unreadable => break,
        }
    }
    let damage = Error::corruption(format!(
        "{}: offset {offset}: the log frame is damaged, and the log went on after it",
        path.display()
    ));
    if witness(bytes, header, offset) { Err(damage) } else { Ok(Some(damage)) }
}

enum Frame<'a> {
    Payload(&'a [u8]),
    Sealed,
    Unreadable,
}

fn frame<'a>(bytes: &'a [u8], header: &Header, offset: u64) -> Frame<'a> {
    let rest = bytes.get(offset as usize..).unwrap_or_default();
    if rest.len() < FRAME_HEAD_BYTES {
        return Frame::Sealed;
    }
    let Some(head) = FrameHead::decode(rest, header, offset) else { return Frame::Unreadable };
    if head.is_seal() {
        return Frame::Sealed;
    }
    match rest[FRAME_HEAD_BYTES..].get(..head.length as usize) {
        Some(payload) if crc32c(payload) == head.crc => Frame::Payload(payload),
        _ => Frame::Unreadable,
    }
}

/// Whether a frame further on says that the bytes at `offset` were durable when it was written.
fn witness(bytes: &[u8], header: &Header, offset: u64) -> bool {
    let mut at = offset + 8;
    while let Some(rest) = bytes.get(at as usize..).filter(|rest| rest.len() >= FRAME_HEAD_BYTES) {
        let head = FrameHead::decode(rest, header, at);
        if head.is_some_and(|head| head.durable > offset) {
            return true;
        }
        at += 8;
    }
    false
}

fn read_file(disk: &dyn Disk, path: &Path) -> Result<Vec<u8>> {
    let file = disk.open(path, OpenMode::Read)?;
    let mut bytes = vec![0; file.len()? as usize];
    file.read_at(0, &mut bytes)?;
    Ok(bytes)
}
