//! Reading a log back.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use spillway_base::checksum::crc32c;
use spillway_base::{Error, ErrorKind, Result};

use super::Position;
use super::segment::{
    FRAME_HEAD_BYTES, FrameHead, HEADER_BYTES, Header, file_name, frame_bytes, parse_name,
};
use crate::{Disk, File, OpenMode};

/// What is left of one lane's log.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    /// Its segments, in order.
    pub segments: Vec<RecoveredSegment>,
    /// The largest generation met, 0 for none.
    pub generation: u64,
    /// Where the last frame ends, or ended before the log was truncated.
    pub(super) end: Position,
    /// What of the last frame's segment no later write proves to be durable. [`super::FilePlog::settle`]
    /// writes it again.
    pub(super) tail: Range<u64>,
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
    /// For the user of the log to say: something in it was discarded, so its file must go and not be used again.
    pub discarded: bool,
}

/// Takes a frame: where it begins, the segment it is in, and its payload.
pub type VisitFrame<'v> = dyn FnMut(Position, &RecoveredSegment, &[u8]) -> Result<()> + 'v;

/// The lanes that have segments in a folder, ascending.
///
/// # Errors
/// [`ErrorKind::Io`].
pub fn lanes_in(disk: &dyn Disk, dir: &Path) -> Result<Vec<u32>> {
    let names = disk.list(dir)?;
    let mut lanes: Vec<u32> =
        names.iter().filter_map(|name| parse_name(name)).map(|(lane, _)| lane).collect();
    lanes.sort_unstable();
    lanes.dedup();
    Ok(lanes)
}

/// Reads every frame of a lane's log in order. Changes nothing.
///
/// # Errors
/// As [`LogReader::open`] and [`LogReader::next_segment`].
pub fn read_log(
    disk: &dyn Disk,
    dir: &Path,
    lane: u32,
    visit: &mut VisitFrame<'_>,
) -> Result<Recovered> {
    let mut reader = LogReader::open(disk, dir, lane)?;
    while reader.next_segment(visit)? {}
    Ok(reader.finish())
}

/// Reads a lane's log, a segment at a time.
pub struct LogReader {
    found: Vec<Found>,
    /// The segment that is read next.
    next: usize,
    recovered: Recovered,
    /// Where an earlier segment ended without a seal: damage, if its generation went on after it.
    doubt: Option<(u64, Error)>,
}

impl LogReader {
    /// Reads the headers of a lane's segments.
    ///
    /// # Errors
    /// [`ErrorKind::Corruption`] (L4), [`ErrorKind::UnsupportedFormat`], [`ErrorKind::Io`].
    pub fn open(disk: &dyn Disk, dir: &Path, lane: u32) -> Result<LogReader> {
        let found = read_headers(disk, dir, lane)?;
        let recovered = Recovered {
            end: found.first().map_or(Position::default(), |first| first.header.end),
            ..Recovered::default()
        };
        Ok(LogReader { found, next: 0, recovered, doubt: None })
    }

    /// The generations of the segments, each with what its user noted when it began.
    pub fn fences(&self) -> impl Iterator<Item = (u64, u64)> {
        self.found.iter().map(|segment| (segment.header.generation, segment.header.fence))
    }

    /// Reads the frames of the next segment; `false` after the last.
    ///
    /// # Errors
    /// [`ErrorKind::Corruption`] (L4), [`ErrorKind::Io`], and what `visit` answers.
    pub fn next_segment(&mut self, visit: &mut VisitFrame<'_>) -> Result<bool> {
        let Some(segment) = self.found.get(self.next) else { return Ok(false) };
        let mut bytes = vec![0; segment.bytes as usize];
        segment.file.read_at(0, &mut bytes)?;
        let generation = segment.header.generation;
        let mut about = RecoveredSegment {
            sequence: segment.header.sequence,
            generation,
            fence: segment.header.fence,
            bytes: segment.bytes,
            frames: 0,
            discarded: false,
        };
        let mut later = self.found[self.next..].iter();
        let known = later.find(|later| later.header.generation > generation);
        let known = known.map(|later| later.header.end);
        let read = Reading { segment, bytes: &bytes, known }.frames(&mut about, visit)?;
        if let (true, Some((of, error))) = (about.frames > 0, &self.doubt) {
            // The writer goes on to the next segment of a generation once the last one is durable.
            if *of == generation {
                return Err(error.clone());
            }
        }
        self.doubt = read.torn.map(|error| (generation, error)).or(self.doubt.take());
        if about.frames > 0 {
            self.recovered.end = Position { segment: about.sequence, offset: read.end };
            self.recovered.tail = read.durable..read.end;
        }
        self.recovered.generation = generation;
        self.recovered.segments.push(about);
        self.next += 1;
        Ok(true)
    }

    /// Shows the frames' payloads of the segments from the last to the first, until `visit` has answered `true` for one of
    /// a segment. What cannot be read is passed over: [`LogReader::next_segment`] judges it.
    ///
    /// # Errors
    /// [`ErrorKind::Io`].
    pub fn look_back(&self, visit: &mut dyn FnMut(&[u8]) -> bool) -> Result<()> {
        for segment in self.found.iter().rev() {
            let mut bytes = vec![0; segment.bytes as usize];
            segment.file.read_at(0, &mut bytes)?;
            let reading = Reading { segment, bytes: &bytes, known: None };
            let (mut at, mut done) = (HEADER_BYTES, false);
            while let Frame::Payload(_, payload) = reading.frame(at) {
                done |= visit(payload);
                at += frame_bytes(payload.len());
            }
            if done {
                break;
            }
        }
        Ok(())
    }

    /// The number of the first segment, if there is one.
    #[must_use]
    pub fn first_segment(&self) -> Option<u64> {
        self.found.first().map(|segment| segment.header.sequence)
    }

    /// What was read.
    #[must_use]
    pub fn finish(self) -> Recovered {
        self.recovered
    }
}

/// A segment whose header has been read.
struct Found {
    path: PathBuf,
    file: Arc<dyn File>,
    bytes: u64,
    header: Header,
}

impl Found {
    fn damaged(&self, offset: u64, what: &str) -> Error {
        Error::corruption(format!("{}: offset {offset}: {what}", self.path.display()))
    }
}

/// Reads the headers of all segments, and checks that they are one log without a gap.
fn read_headers(disk: &dyn Disk, dir: &Path, lane: u32) -> Result<Vec<Found>> {
    let mut sequences: Vec<u64> = disk
        .list(dir)?
        .iter()
        .filter_map(|name| parse_name(name))
        .filter_map(|(of, sequence)| (of == lane).then_some(sequence))
        .collect();
    sequences.sort_unstable();
    let mut found: Vec<Found> = Vec::with_capacity(sequences.len());
    for sequence in sequences {
        let segment = read_header(disk, dir.join(file_name(lane, sequence)), (lane, sequence))?;
        if let Some(before) = found.last() {
            check_order(dir, before, &segment)?;
        }
        found.push(segment);
    }
    Ok(found)
}

fn read_header(disk: &dyn Disk, path: PathBuf, named: (u32, u64)) -> Result<Found> {
    let file = disk.open(&path, OpenMode::Read)?;
    let bytes = file.len()?;
    let mut head = vec![0; bytes.min(HEADER_BYTES) as usize];
    file.read_at(0, &mut head)?;
    match Header::decode(&head) {
        Ok(header) if (header.lane, header.sequence) == named => {
            Ok(Found { path, file, bytes, header })
        }
        Err(error) if error.kind() == ErrorKind::UnsupportedFormat => {
            Err(error.context(path.display()))
        }
        // A segment gets its name once its header is durable.
        _ => Err(Error::corruption(format!(
            "{}: offset 0: the segment header is damaged",
            path.display()
        ))),
    }
}

/// Checks that one segment follows another: that none is missing between them, and that a new generation began
/// where the one before ends.
fn check_order(dir: &Path, before: &Found, next: &Found) -> Result<()> {
    let wanted = before.header.sequence + 1;
    if next.header.sequence != wanted {
        return Err(Error::corruption(format!(
            "{}: offset 0: the segment is missing, and the log goes on after it",
            dir.join(file_name(before.header.lane, wanted)).display()
        )));
    }
    let (old, new) = (&before.header, &next.header);
    let same = new.generation == old.generation && (new.end, new.fence) == (old.end, old.fence);
    let begun = new.generation > old.generation && new.end.segment == old.sequence;
    if same || begun {
        return Ok(());
    }
    Err(next.damaged(0, "the segment does not belong after the one before it"))
}

/// A segment that is being read.
struct Reading<'s> {
    segment: &'s Found,
    bytes: &'s [u8],
    /// Where the next generation found the end of the log.
    known: Option<Position>,
}

/// How a segment ended.
struct Read {
    /// The end of its last frame.
    end: u64,
    /// Bytes that were durable when the last frame was written.
    durable: u64,
    /// What to report if a later segment shows that the end was durable.
    torn: Option<Error>,
}

impl Reading<'_> {
    fn frames(&self, about: &mut RecoveredSegment, visit: &mut VisitFrame<'_>) -> Result<Read> {
        let sequence = self.segment.header.sequence;
        // Where the frames end, if a later opening has said so.
        let last_of_generation = self.known.filter(|known| known.segment == sequence);
        let limit = last_of_generation.map_or(u64::MAX, |known| known.offset);
        let mut read = Read { end: HEADER_BYTES, durable: HEADER_BYTES, torn: None };
        let mut sealed = false;
        while read.end < limit {
            match self.frame(read.end) {
                Frame::Payload(head, payload) => {
                    about.frames += 1;
                    visit(Position { segment: sequence, offset: read.end }, about, payload)?;
                    read.end += frame_bytes(payload.len());
                    read.durable = head.durable;
                }
                Frame::Sealed => {
                    sealed = true;
                    break;
                }
                Frame::Unreadable => break,
            }
        }
        let damage = self
            .segment
            .damaged(read.end, "the log frame is damaged, and the log went on after it");
        if let Some(known) = last_of_generation {
            return if read.end == known.offset { Ok(read) } else { Err(damage) };
        }
        if !sealed {
            // A later generation, or a frame further on, may prove that there was more.
            if self.known.is_some() || self.witness(read.end) {
                return Err(damage);
            }
            read.torn = Some(damage);
        }
        Ok(read)
    }

    fn frame(&self, offset: u64) -> Frame<'_> {
        let rest = self.bytes.get(offset as usize..).unwrap_or_default();
        if rest.len() < FRAME_HEAD_BYTES {
            return Frame::Sealed;
        }
        let Some(head) = FrameHead::decode(rest, &self.segment.header, offset) else {
            return Frame::Unreadable;
        };
        if head.is_seal() {
            return Frame::Sealed;
        }
        match rest[FRAME_HEAD_BYTES..].get(..head.length as usize) {
            Some(payload) if crc32c(payload) == head.crc => Frame::Payload(head, payload),
            _ => Frame::Unreadable,
        }
    }

    /// Whether a frame further on says that the bytes at `offset` were durable when it was written.
    fn witness(&self, offset: u64) -> bool {
        let mut at = offset + 8;
        while let Some(rest) =
            self.bytes.get(at as usize..).filter(|rest| rest.len() >= FRAME_HEAD_BYTES)
        {
            let head = FrameHead::decode(rest, &self.segment.header, at);
            if head.is_some_and(|head| head.durable > offset) {
                return true;
            }
            at += 8;
        }
        false
    }
}

enum Frame<'a> {
    Payload(FrameHead, &'a [u8]),
    Sealed,
    Unreadable,
}
