//! The source of a replay's commits: a lane's log, which the calling thread reads, or which a
//! separate thread reads ahead.
//!
//! A log is read in pieces. The commits of a piece stay in the buffer that they were read into
//! until they are installed.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use spillway_base::batch::{Op, ops, placed_ops};
use spillway_base::engine::Replayed;
use spillway_base::lock::{Condvar, Mutex};
use spillway_base::sync::mpsc::{Receiver, channel};
use spillway_base::{Csn, EngineSet, Error, ErrorKind, LogPlace, Result, thread};
use spillway_storage::plog::{LogReader, Recovered};

use super::memory::{Memories, Memory};
use crate::pipeline::Newest;
use crate::record::{Note, Record, note_in, read_frame};

/// The fences that the generations of all lanes recorded when they began.
#[derive(Clone)]
pub(crate) struct Fences(Arc<[(u64, Csn)]>);

impl Fences {
    pub(crate) fn new(fences: impl Iterator<Item = (u64, u64)>) -> Fences {
        let mut all: Vec<(u64, Csn)> =
            fences.map(|(generation, fence)| (generation, Csn(fence))).collect();
        all.sort_unstable();
        all.dedup();
        Fences(all.into())
    }

    /// The commit after which the last opening began.
    pub(super) fn last(&self) -> Csn {
        self.0.iter().map(|(_, fence)| *fence).max().unwrap_or(Csn::ZERO)
    }

    /// The commit up to which a generation's commits count. A later opening discarded the others.
    pub(crate) fn after(&self, generation: u64) -> Csn {
        let later = self.0.iter().filter(|(of, _)| *of > generation);
        later.map(|(_, fence)| *fence).min().unwrap_or(Csn::MAX)
    }
}

/// A commit that was read.
#[derive(Clone, Copy)]
pub(super) struct Logged {
    pub(super) csn: Csn,
    /// Operations in its batch.
    pub(super) ops: u32,
    /// The engines of the tables that these operations write to.
    pub(super) engines: EngineSet,
    /// Whether it is installed alone, because it does more than write single keys.
    pub(super) is_alone: bool,
    /// The offset of its batch in the memory of its piece.
    at: u32,
    bytes: u32,
}

/// Why a batch of a piece can be decoded.
pub(super) const CHECKED: &str = "it was checked as it was read";

/// Some of a segment's frames, read and checked.
pub(super) struct Piece {
    /// The index of its lane.
    pub(super) lane: usize,
    /// The place of the first byte of its memory in the log.
    pub(super) begin: LogPlace,
    pub(super) newest: Newest,
    /// Whether a later opening discarded commits in it.
    pub(super) discarded: bool,
    /// The stable CSN when its last frame was written.
    pub(super) stable: Csn,
    /// What its notes say that the engines' own files have.
    pub(super) note: Note,
    pub(super) bytes: u64,
    /// The number of operations of its commits.
    pub(super) ops: usize,
    memory: Memory,
}

impl Piece {
    /// Its commits, in the order of their CSNs.
    pub(super) fn commits(&self) -> &[Logged] {
        &self.memory.commits
    }

    /// The batch of one of its commits.
    pub(super) fn batch(&self, commit: &Logged) -> &[u8] {
        &self.memory.bytes[commit.at as usize..][..commit.bytes as usize]
    }

    /// The place of that batch in the log.
    pub(super) fn place(&self, commit: &Logged) -> LogPlace {
        self.begin.plus(commit.at as usize)
    }

    /// The operations of one of its commits, with their places.
    pub(super) fn replayed(&self, commit: &Logged) -> impl Iterator<Item = Replayed<'_>> {
        let (csn, place) = (commit.csn, self.place(commit));
        placed_ops(self.batch(commit)).map(move |placed| {
            let placed = placed.expect(CHECKED);
            let bytes = placed.bytes as u32;
            Replayed { csn, op: placed.op, place: place.plus(placed.offset), bytes }
        })
    }
}

#[cfg(test)]
impl Piece {
    /// A piece of commits without operations, each of `bytes` bytes of log.
    pub(super) fn of(
        memories: &Memories,
        commits: impl Iterator<Item = (Csn, bool)>,
        bytes: usize,
    ) -> Piece {
        let mut memory = memories.take();
        let logged = |(csn, is_alone)| {
            let engines = EngineSet::EMPTY;
            Logged { csn, ops: 0, engines, is_alone, at: 0, bytes: 0 }
        };
        memory.commits.extend(commits.map(logged));
        Piece {
            lane: 0,
            begin: LogPlace { lane: 0, segment: 1, offset: 0 },
            newest: Newest::default(),
            discarded: false,
            stable: Csn::ZERO,
            note: Note::default(),
            bytes: (memory.commits.len() * bytes) as u64,
            ops: 0,
            memory,
        }
    }
}

/// Adds the records of a frame, whose payload is at `payload` in the piece's memory.
fn take_frame(piece: &mut Piece, payload: Range<usize>, fence: Csn) -> Result<()> {
    let Memory { bytes, commits, .. } = &mut piece.memory;
    let (newest, stable, note) = (&mut piece.newest, &mut piece.stable, &mut piece.note);
    let discarded = &mut piece.discarded;
    let begin = bytes.as_ptr().addr();
    read_frame(&bytes[payload], &mut |record| {
        match record {
            Record::Note(found) => note.join(found),
            Record::Stable(csn) => *stable = csn.max(*stable),
            Record::Commit(csn, _) if csn > fence => *discarded = true,
            Record::Commit(csn, batch) => {
                let (mut count, mut is_alone) = (0, false);
                let mut engines = EngineSet::EMPTY;
                for op in ops(batch) {
                    let op = op?;
                    is_alone |= !matches!(op, Op::Put { .. } | Op::Delete { .. });
                    op.table().engine().into_iter().for_each(|kind| engines.insert(kind));
                    count += 1;
                }
                newest.add(csn, engines);
                // A frame is below 4 GiB, and a frame that is larger than a piece is a separate
                // piece.
                let at = (batch.as_ptr().addr() - begin) as u32;
                let bytes = batch.len() as u32;
                commits.push(Logged { csn, ops: count, engines, is_alone, at, bytes });
            }
        }
        Ok(())
    })
}

/// The newest note, if the log was cut. It is in the first lane. Recovery needs it from the start,
/// because the log may begin after the commits that the engines' files are known to have. Recovery
/// finds the other notes as it reads the logs.
pub(super) fn newest_note(readers: &[LogReader]) -> Result<Note> {
    let mut newest = Note::default();
    // A log that begins with its first segment was never cut.
    let cut = readers.iter().any(|reader| reader.first_segment() > Some(1));
    if let (true, Some(first)) = (cut, readers.first()) {
        first.look_back(&mut |payload| match note_in(payload) {
            Some(note) => {
                newest.join(note);
                true
            }
            None => false,
        })?;
    }
    Ok(newest)
}

/// Reads a lane, piece by piece.
pub(super) struct Pieces {
    lane: usize,
    /// The lane's number.
    number: u32,
    /// `None` once it has returned the end.
    reader: Option<LogReader>,
    fences: Fences,
    memories: Memories,
    dir: PathBuf,
}

impl Pieces {
    fn next(&mut self) -> Result<Next> {
        let mut reader = self.reader.take().expect("the end is told once");
        let mut memory = self.memories.take();
        let bytes = std::mem::take(&mut memory.bytes);
        let Some(stretch) = reader.next_stretch(bytes, self.memories.0.bytes)? else {
            return Ok(Next::End(reader.finish()));
        };
        memory.bytes = stretch.bytes;
        memory.recharge();
        let mut piece = Piece {
            lane: self.lane,
            begin: LogPlace {
                lane: self.number,
                segment: stretch.segment.sequence,
                offset: stretch.begin,
            },
            newest: Newest::default(),
            discarded: false,
            stable: Csn::ZERO,
            note: Note::default(),
            bytes: 0,
            ops: 0,
            memory,
        };
        let fence = self.fences.after(stretch.segment.generation);
        for (position, payload) in stretch.frames {
            piece.bytes += payload.len() as u64;
            take_frame(&mut piece, payload, fence).map_err(|error| {
                error.context(format!(
                    "{}: segment {}, offset {}",
                    self.dir.display(),
                    position.segment,
                    position.offset
                ))
            })?;
        }
        piece.ops = piece.memory.commits.iter().map(|commit| commit.ops as usize).sum();
        // The commits are nearly in order already.
        piece.memory.commits.sort_by_key(|commit| commit.csn);
        piece.memory.recharge();
        self.reader = Some(reader);
        Ok(Next::Piece(piece))
    }
}

/// The next of a lane: a piece, or, after the last piece, the contents of its log.
pub(super) enum Next {
    Piece(Piece),
    End(Recovered),
}

/// A lane's pieces.
pub(super) enum PieceSource {
    Inline(Box<Pieces>),
    Ahead(Ahead),
}

impl PieceSource {
    pub(super) fn inline(
        (lane, number): (usize, u32),
        reader: LogReader,
        fences: Fences,
        memories: Memories,
        dir: &Path,
    ) -> PieceSource {
        let (reader, dir) = (Some(reader), dir.to_owned());
        PieceSource::Inline(Box::new(Pieces { lane, number, reader, fences, memories, dir }))
    }

    /// Reads and checks pieces ahead in a separate thread, until they take `bytes` bytes of memory.
    pub(super) fn ahead(self, bytes: usize) -> Result<PieceSource> {
        let PieceSource::Inline(mut source) = self else { return Ok(self) };
        let (tell, told) = channel();
        let stock = Arc::new(Stock::default());
        let ahead = Ahead { told, stock: stock.clone() };
        thread::spawn("log-read", move || {
            while stock.wait_below(bytes) {
                let next = source.next();
                let more = matches!(next, Ok(Next::Piece(_)));
                stock.add(size(&next));
                if tell.send(next).is_err() || !more {
                    break;
                }
            }
        })?;
        Ok(PieceSource::Ahead(ahead))
    }

    pub(super) fn next(&mut self) -> Result<Next> {
        match self {
            PieceSource::Inline(pieces) => pieces.next(),
            PieceSource::Ahead(ahead) => ahead.next(),
        }
    }
}

/// The pieces that a thread reads ahead of a lane.
pub(super) struct Ahead {
    told: Receiver<Result<Next>>,
    stock: Arc<Stock>,
}

impl Ahead {
    fn next(&mut self) -> Result<Next> {
        let gone = |_| Err(Error::new(ErrorKind::Io, "the thread that read the log has gone"));
        let next = self.told.recv().unwrap_or_else(gone);
        self.stock.remove(size(&next));
        next
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.stock.state.lock().is_closed = true;
        self.stock.changed.notify_all();
    }
}

fn size(next: &Result<Next>) -> usize {
    match next {
        Ok(Next::Piece(piece)) => piece.memory.size(),
        Ok(Next::End(_)) | Err(_) => 0,
    }
}

/// Pieces that were read ahead and not requested yet.
#[derive(Default)]
struct Stock {
    state: Mutex<StockState>,
    changed: Condvar,
}

#[derive(Default)]
struct StockState {
    bytes: usize,
    /// Set when no more pieces will be requested.
    is_closed: bool,
}

impl Stock {
    /// Waits until the stock has fewer than `bytes` bytes. Returns `false` once it is closed.
    fn wait_below(&self, bytes: usize) -> bool {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |state| !state.is_closed && state.bytes >= bytes);
        !state.is_closed
    }

    fn add(&self, bytes: usize) {
        self.state.lock().bytes += bytes;
    }

    fn remove(&self, bytes: usize) {
        self.state.lock().bytes -= bytes;
        self.changed.notify_all();
    }
}
