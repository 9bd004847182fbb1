//! Where a replay's commits come from: a lane's log, read on the spot or ahead by a thread of its own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use spillway_base::batch::WriteBatch;
use spillway_base::{Csn, Error, ErrorKind, Result, thread};
use spillway_storage::plog::{LogReader, Recovered};

use crate::record::{Record, note_in, read_frame};

/// What the generations of all lanes noted when they began.
#[derive(Clone)]
pub(super) struct Fences(Arc<[(u64, Csn)]>);

impl Fences {
    pub(super) fn new(fences: impl Iterator<Item = (u64, u64)>) -> Fences {
        let mut all: Vec<(u64, Csn)> =
            fences.map(|(generation, fence)| (generation, Csn(fence))).collect();
        all.sort_unstable();
        all.dedup();
        Fences(all.into())
    }

    /// Where the last opening began.
    pub(super) fn last(&self) -> Csn {
        self.0.iter().map(|(_, fence)| *fence).max().unwrap_or(Csn::ZERO)
    }

    /// Commits of a generation past this one were discarded by a later opening.
    fn after(&self, generation: u64) -> Csn {
        let later = self.0.iter().filter(|(of, _)| *of > generation);
        later.map(|(_, fence)| *fence).min().unwrap_or(Csn::MAX)
    }
}

/// What a segment holds.
pub(super) struct Chunk {
    /// The index of its lane.
    pub(super) lane: usize,
    pub(super) segment: u64,
    pub(super) commits: Vec<(Csn, WriteBatch)>,
    pub(super) newest: Csn,
    /// Whether a later opening discarded commits in it.
    pub(super) discarded: bool,
    /// What was stable when its last frame was written.
    pub(super) stable: Csn,
    /// What it notes to be in the engines' own files.
    pub(super) note: Csn,
    pub(super) bytes: u64,
}

/// The newest note of how far the engines had come, where it is likely to be needed from the start. It is in the first
/// lane. Others are met as the logs are read.
pub(super) fn newest_note(readers: &[LogReader]) -> Result<Csn> {
    let mut newest = Csn::ZERO;
    // Logs from their first segments on were never cut.
    let cut = readers.iter().any(|reader| reader.first_segment() > Some(1));
    if let (true, Some(first)) = (cut, readers.first()) {
        first.look_back(&mut |payload| match note_in(payload) {
            Some(note) => {
                newest = newest.max(note);
                true
            }
            None => false,
        })?;
    }
    Ok(newest)
}

pub(super) struct Segments {
    lane: usize,
    /// None once its end was told.
    reader: Option<LogReader>,
    fences: Fences,
    dir: PathBuf,
}

impl Segments {
    fn next(&mut self) -> Result<Next> {
        let mut reader = self.reader.take().expect("the end is told once");
        let mut chunk = Chunk {
            lane: self.lane,
            segment: 0,
            commits: Vec::new(),
            newest: Csn::ZERO,
            discarded: false,
            stable: Csn::ZERO,
            note: Csn::ZERO,
            bytes: 0,
        };
        let (fences, dir) = (&self.fences, &self.dir);
        let more = reader.next_segment(&mut |position, segment, payload| {
            let fence = fences.after(segment.generation);
            chunk.segment = segment.sequence;
            chunk.bytes += payload.len() as u64;
            read_frame(payload, &mut |record| {
                match record {
                    Record::Note(persisted) => chunk.note = chunk.note.max(persisted),
                    Record::Stable(stable) => chunk.stable = chunk.stable.max(stable),
                    Record::Commit(csn, _) if csn > fence => chunk.discarded = true,
                    Record::Commit(csn, batch) => {
                        chunk.newest = chunk.newest.max(csn);
                        chunk.commits.push((csn, batch));
                    }
                }
                Ok(())
            })
            .map_err(|error| {
                error.context(format!(
                    "{}: segment {}, offset {}",
                    dir.display(),
                    position.segment,
                    position.offset
                ))
            })
        })?;
        if !more {
            return Ok(Next::End(reader.finish()));
        }
        self.reader = Some(reader);
        Ok(Next::Segment(chunk))
    }
}

/// What comes next of a lane: a segment, or, past the last, what was read of it.
pub(super) enum Next {
    Segment(Chunk),
    End(Recovered),
}

/// A lane's segments.
pub(super) enum Source {
    Inline(Segments),
    Ahead(Receiver<Result<Next>>),
}

impl Source {
    pub(super) fn inline(lane: usize, reader: LogReader, fences: Fences, dir: &Path) -> Source {
        Source::Inline(Segments { lane, reader: Some(reader), fences, dir: dir.to_owned() })
    }

    /// Reads and checks a segment ahead, on a thread of its own.
    pub(super) fn ahead(self) -> Result<Source> {
        let Source::Inline(mut segments) = self else { return Ok(self) };
        let (tell, told) = sync_channel(1);
        thread::spawn("log-read", move || {
            loop {
                let next = segments.next();
                let more = matches!(next, Ok(Next::Segment(_)));
                // Who asked may have failed, and gone.
                if tell.send(next).is_err() || !more {
                    break;
                }
            }
        })?;
        Ok(Source::Ahead(told))
    }

    pub(super) fn next(&mut self) -> Result<Next> {
        match self {
            Source::Inline(segments) => segments.next(),
            Source::Ahead(told) => told.recv().unwrap_or_else(|_| {
                Err(Error::new(ErrorKind::Io, "the thread that read the log has gone"))
            }),
        }
    }
}
