//! Reading a log back.

use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use spillway_base::{Error, ErrorKind, Result};

use super::segment::{HEADER_BYTES, Header, file_name, parse_name};
use super::walk::{Stop, Walk};
use super::{LogSpan, Position};
use crate::{Disk, File, OpenMode};

/// The contents of one lane's log, as a reader found them.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    /// Its segments, in order.
    pub segments: Vec<RecoveredSegment>,
    /// The largest generation met, 0 for none.
    pub generation: u64,
    /// Where the last frame ends, or ended before the log was truncated.
    pub(super) end: Position,
    /// The bytes of the last frame's segment that no later write proves durable.
    /// [`super::FilePlog::settle`] writes them again.
    pub(super) tail: Range<u64>,
}

/// A segment of a log that was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecoveredSegment {
    /// Its sequence number.
    pub sequence: u64,
    /// The opening that wrote it.
    pub generation: u64,
    /// The fence that the log's user recorded when that generation began.
    pub fence: u64,
    /// The length of its file, in bytes.
    pub bytes: u64,
    /// Frames read from it.
    pub frames: u64,
    /// Set by the log's user: a part of the segment was discarded, so its file must be removed and
    /// not reused.
    pub discarded: bool,
}

/// Takes a frame: where it begins, the segment it is in, and its payload.
pub type VisitFrame<'v> = dyn FnMut(Position, &RecoveredSegment, &[u8]) -> Result<()> + 'v;

/// Consecutive frames of a segment, read together.
#[derive(Debug)]
pub struct Stretch {
    /// Their segment, with the frames that were read of it so far.
    pub segment: RecoveredSegment,
    /// The memory that was read into.
    pub bytes: Vec<u8>,
    /// The offset in the segment's file at which `bytes` begins.
    pub begin: u64,
    /// Each frame's place in the log, and that of its payload in `bytes`.
    pub frames: Vec<(Position, Range<usize>)>,
}

/// The bytes of a stretch, unless the caller chooses another size.
const STRETCH_BYTES: usize = 1 << 20;

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
/// As [`LogReader::open`] and [`LogReader::next_stretch`], and the errors of `visit`.
pub fn read_log(
    disk: &dyn Disk,
    dir: &Path,
    lane: u32,
    visit: &mut VisitFrame<'_>,
) -> Result<Recovered> {
    let mut reader = LogReader::open(disk, dir, lane)?;
    let mut memory = Vec::new();
    while let Some(stretch) = reader.next_stretch(memory, STRETCH_BYTES)? {
        for (position, payload) in &stretch.frames {
            visit(*position, &stretch.segment, &stretch.bytes[payload.clone()])?;
        }
        memory = stretch.bytes;
    }
    Ok(reader.finish())
}

/// Reads a lane's log, a stretch at a time. It must not be used after an error.
pub struct LogReader {
    found: Vec<Found>,
    /// The segment that is read next.
    next: usize,
    /// The position in that segment, if its reading has begun.
    begun: Option<Begun>,
    recovered: Recovered,
    /// Where to stop in the last segment, which may still be written to.
    end: Option<Position>,
    /// The generation of an earlier segment that ended without a seal, and the error to return if a
    /// later segment of that generation has a frame.
    doubt: Option<(u64, Error)>,
}

impl LogReader {
    /// Reads the headers of a lane's segments.
    ///
    /// # Errors
    /// [`ErrorKind::Corruption`] (PLOG-4), [`ErrorKind::UnsupportedFormat`], [`ErrorKind::Io`].
    pub fn open(disk: &dyn Disk, dir: &Path, lane: u32) -> Result<LogReader> {
        LogReader::over(read_headers(disk, dir, lane, 0..=u64::MAX)?, None)
    }

    /// Reads the headers of the segments of a span of a log that may be open for writing.
    ///
    /// # Errors
    /// As [`LogReader::open`].
    pub fn open_span(disk: &dyn Disk, dir: &Path, span: LogSpan) -> Result<LogReader> {
        let found = read_headers(disk, dir, span.lane, span.first..=span.end.segment)?;
        let ends = [found.first(), found.last()].map(|found| found.map(|s| s.header.sequence));
        if ends != [Some(span.first), Some(span.end.segment)] {
            return Err(Error::corruption(format!(
                "{}: segments of lane {} are missing",
                dir.display(),
                span.lane
            )));
        }
        LogReader::over(found, Some(span.end).filter(|end| end.offset != u64::MAX))
    }

    fn over(found: Vec<Found>, end: Option<Position>) -> Result<LogReader> {
        let recovered = Recovered {
            end: found.first().map_or(Position::default(), |first| first.header.end),
            ..Recovered::default()
        };
        Ok(LogReader { found, next: 0, begun: None, recovered, end, doubt: None })
    }

    /// The generations of the segments, each with the fence that the log's user recorded when it
    /// began.
    pub fn fences(&self) -> impl Iterator<Item = (u64, u64)> {
        self.found.iter().map(|segment| (segment.header.generation, segment.header.fence))
    }

    /// Reads the next frames of the log into `memory`: at least one if the segment has more, and
    /// more than `bytes` bytes only for a single larger frame. `None` after the last segment. A
    /// segment may have a stretch without frames.
    ///
    /// # Errors
    /// [`ErrorKind::Corruption`] (PLOG-4), [`ErrorKind::Io`].
    pub fn next_stretch(&mut self, memory: Vec<u8>, bytes: usize) -> Result<Option<Stretch>> {
        let Some(segment) = self.found.get(self.next) else { return Ok(None) };
        let mut begun = self.begun.take().unwrap_or_else(|| self.begin(segment));
        let (segment_read, begin) = (begun.about, begun.walk.end);
        let mut stretch =
            Stretch { segment: segment_read, bytes: memory, begin, frames: Vec::new() };
        let stop = begun.walk.read(segment, bytes, &mut stretch.bytes, &mut stretch.frames)?;
        begun.about.frames += stretch.frames.len() as u64;
        stretch.segment = begun.about;
        if let (true, Some((of, error))) = (begun.about.frames > 0, &self.doubt) {
            // The writer begins the next segment of a generation only when the last one is durable.
            if *of == begun.about.generation {
                return Err(error.clone());
            }
        }
        match stop {
            None => self.begun = Some(begun),
            Some(stop) => self.end(&begun, stop)?,
        }
        Ok(Some(stretch))
    }

    fn begin(&self, segment: &Found) -> Begun {
        let Header { sequence, generation, fence, .. } = segment.header;
        let mut later = self.found[self.next..].iter();
        let known = later.find(|later| later.header.generation > generation);
        let about = RecoveredSegment {
            sequence,
            generation,
            fence,
            bytes: segment.bytes,
            frames: 0,
            discarded: false,
        };
        let here = self.end.filter(|end| end.segment == sequence);
        Begun { about, walk: Walk::new(known.map(|later| later.header.end).or(here)) }
    }

    /// Judges how a segment ended, and continues with the next.
    fn end(&mut self, begun: &Begun, stop: Stop) -> Result<()> {
        let (about, walk) = (begun.about, &begun.walk);
        let torn = walk.judge(&self.found[self.next], stop)?;
        self.doubt = torn.map(|error| (about.generation, error)).or(self.doubt.take());
        if about.frames > 0 {
            self.recovered.end = Position { segment: about.sequence, offset: walk.end };
            self.recovered.tail = walk.durable..walk.end;
        }
        self.recovered.generation = about.generation;
        self.recovered.segments.push(about);
        self.next += 1;
        Ok(())
    }

    /// Passes the payloads of frames to `visit`, from the last segment to the first. It ends after
    /// a segment for one of whose frames `visit` returned `true`. Of a segment with an unreadable
    /// frame it passes only the frames before that one: [`LogReader::next_stretch`] judges whether
    /// such a frame is damage.
    ///
    /// # Errors
    /// [`ErrorKind::Io`].
    pub fn look_back(&self, visit: &mut dyn FnMut(&[u8]) -> bool) -> Result<()> {
        let (mut memory, mut frames) = (Vec::new(), Vec::new());
        for segment in self.found.iter().rev() {
            let (mut walk, mut done) = (Walk::new(None), false);
            loop {
                let stop = walk.read(segment, STRETCH_BYTES, &mut memory, &mut frames)?;
                for (_, payload) in frames.drain(..) {
                    done |= visit(&memory[payload]);
                }
                if stop.is_some() {
                    break;
                }
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

    /// The segments that were read, and where the log ends.
    #[must_use]
    pub fn finish(self) -> Recovered {
        self.recovered
    }
}

/// A segment whose header has been read.
pub(super) struct Found {
    path: PathBuf,
    pub(super) file: Arc<dyn File>,
    pub(super) bytes: u64,
    pub(super) header: Header,
}

/// A segment that is being read.
struct Begun {
    about: RecoveredSegment,
    walk: Walk,
}

impl Found {
    pub(super) fn damaged(&self, offset: u64, what: &str) -> Error {
        Error::corruption(format!("{}: offset {offset}: {what}", self.path.display()))
    }
}

/// Reads the headers of all segments, and checks that they are one log without a gap.
fn read_headers(
    disk: &dyn Disk,
    dir: &Path,
    lane: u32,
    wanted: RangeInclusive<u64>,
) -> Result<Vec<Found>> {
    let mut sequences: Vec<u64> = disk
        .list(dir)?
        .iter()
        .filter_map(|name| parse_name(name))
        .filter_map(|(of, sequence)| (of == lane && wanted.contains(&sequence)).then_some(sequence))
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

/// Checks that one segment follows another: that none is missing between them, and that a new
/// generation began where the one before ends.
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
