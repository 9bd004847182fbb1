//! The contents of the redo log's frames.
//!
//! A lane writes one frame of the log (see [`spillway_storage::plog`]) at a time. A frame holds
//! records one after another, in the lane's order, and carries their checksum. Numbers are
//! little-endian:
//!
//! ```text
//! kind   u8   1 commit, 2 note, 3 stable
//! csn    u64  commit: its CSN. note: every commit up to here is in the engines' own files.
//!             stable: every commit up to here was durable in its lane before this frame was
//!             written
//! bytes  u32  length of the batch             (commit)
//! batch       see `spillway_base::batch`      (commit)
//! files  u64  for each kind of engine: the CSN that its files record as persistent (note)
//! ```
//!
//! The manager writes a note before it cuts the log. Without the note, recovery would report the
//! commits that the cut removes as missing. If the files of an engine record a smaller CSN than a
//! note says, a device has lost data that it had reported as durable, and recovery reports damage.
//! Each frame of commits begins with the stable CSN, so that recovery reports a log as damaged if
//! the log lacks a commit up to that CSN.
//!
//! The commits of a lane are nearly in CSN order, but not strictly: a thread reserves its place in
//! the lane before it takes its CSN.
//!
//! Records have no format number of their own. If the format of records changes, two numbers must
//! be raised: the format in the header of a log segment (`plog/segment.rs` of `spillway_storage`),
//! and the version of a backup's catalogue (`backup/catalogue.rs` of `spillway`), because a backup
//! also has a file of records.

use spillway_base::batch::{Op, PlacedOp, is_row_record, ops, placed_ops, read_row_record};
use spillway_base::codec::Reader;
use spillway_base::{Csn, EngineKind, Error, Result};

const COMMIT: u8 = 1;
const NOTE: u8 = 2;
const STABLE: u8 = 3;

/// The bytes of a commit's record before its batch.
pub(crate) const COMMIT_HEAD_BYTES: usize = 13;
/// The bytes that a commit adds to its batch: its record, and the stable record if the commit has a
/// frame of its own.
pub(crate) const COMMIT_OVERHEAD: usize = COMMIT_HEAD_BYTES + 9;
/// The bytes of a note.
pub(crate) const NOTE_BYTES: usize = 9 + 8 * EngineKind::COUNT;

/// What a cut of the log relies on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Note {
    /// Every commit up to this one is in the engines' own files.
    pub(crate) persisted: Csn,
    /// Of each engine, the CSN that its files record as persistent.
    pub(crate) recorded: [Csn; EngineKind::COUNT],
}

impl Note {
    /// Takes in what another note says.
    pub(crate) fn join(&mut self, other: Note) {
        self.persisted = self.persisted.max(other.persisted);
        for (mine, other) in self.recorded.iter_mut().zip(other.recorded) {
            *mine = other.max(*mine);
        }
    }
}

impl From<Csn> for Note {
    fn from(persisted: Csn) -> Note {
        Note { persisted, ..Note::default() }
    }
}

/// One record, read back.
#[derive(Clone, Debug)]
pub(crate) enum Record<'f> {
    /// A commit and its encoded batch, which is not yet validated.
    Commit(Csn, &'f [u8]),
    Note(Note),
    Stable(Csn),
}

/// Writes the head of a commit's record; the batch follows.
pub(crate) fn put_commit_head(out: &mut Vec<u8>, csn: Csn, batch_bytes: usize) {
    out.push(COMMIT);
    out.extend_from_slice(&csn.0.to_le_bytes());
    out.extend_from_slice(&(batch_bytes as u32).to_le_bytes());
}

pub(crate) fn put_stable(out: &mut Vec<u8>, stable: Csn) {
    out.push(STABLE);
    out.extend_from_slice(&stable.0.to_le_bytes());
}

pub(crate) fn put_note(out: &mut Vec<u8>, note: Note) {
    out.push(NOTE);
    for csn in [note.persisted].into_iter().chain(note.recorded) {
        out.extend_from_slice(&csn.0.to_le_bytes());
    }
}

/// Reads the rest of a note.
fn read_note(persisted: Csn, reader: &mut Reader<'_>) -> Result<Note> {
    let mut note = Note::from(persisted);
    for recorded in &mut note.recorded {
        *recorded = Csn(reader.u64()?);
    }
    Ok(note)
}

/// The note that a frame is, if it is one.
pub(crate) fn note_in(frame: &[u8]) -> Option<Note> {
    let mut reader = Reader::new(frame);
    if frame.len() != NOTE_BYTES || reader.u8().ok()? != NOTE {
        return None;
    }
    let persisted = Csn(reader.u64().ok()?);
    read_note(persisted, &mut reader).ok()
}

/// Checks that a frame's payload consists of valid records, and that each row record in a batch has
/// its commit's CSN. Returns the last commit that the frame has, or states to be durable.
///
/// # Errors
/// [`spillway_base::ErrorKind::Corruption`].
pub fn check_frame(payload: &[u8]) -> Result<Csn> {
    let mut last = Csn::ZERO;
    read_frame(payload, &mut |record| {
        let (csn, batch) = match record {
            Record::Commit(csn, batch) => (csn, batch),
            Record::Note(note) => (note.persisted, &[][..]),
            Record::Stable(csn) => (csn, &[][..]),
        };
        last = last.max(csn);
        placed_ops(batch).try_for_each(|placed| {
            let PlacedOp { op, offset, .. } = placed?;
            if !is_row_record(&op) {
                return Ok(());
            }
            let row = read_row_record(&batch[offset..])?;
            if row.csn != csn {
                let text = format!("commit {csn} has the record of a row of commit {}", row.csn);
                return Err(Error::corruption(text));
            }
            Ok(())
        })
    })?;
    Ok(last)
}

/// Visits the operations of all commits in a frame of a lane's log, each with its commit's CSN.
///
/// # Errors
/// [`spillway_base::ErrorKind::Corruption`].
pub fn commits_in(payload: &[u8], visit: &mut dyn FnMut(Csn, Op<'_>)) -> Result<()> {
    read_frame(payload, &mut |record| match record {
        Record::Commit(csn, batch) => ops(batch).try_for_each(|op| op.map(|op| visit(csn, op))),
        Record::Note(_) | Record::Stable(_) => Ok(()),
    })
}

/// Reads the records of a frame.
pub(crate) fn read_frame<'f>(
    payload: &'f [u8],
    visit: &mut dyn FnMut(Record<'f>) -> Result<()>,
) -> Result<()> {
    let mut reader = Reader::new(payload);
    while !reader.is_empty() {
        let at = reader.offset();
        let kind = reader.u8()?;
        let csn = Csn(reader.u64()?);
        visit(match kind {
            COMMIT => {
                let bytes = reader.u32()? as usize;
                Record::Commit(csn, reader.take(bytes)?)
            }
            NOTE => Record::Note(read_note(csn, &mut reader)?),
            STABLE => Record::Stable(csn),
            other => {
                return Err(Error::corruption(format!("unknown record {other} at byte {at}")));
            }
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use spillway_base::TableId;
    use spillway_base::batch::{WriteBatch, seal_rows};
    use spillway_base::rng::Rng;

    #[test]
    fn records_come_back_and_any_bytes_are_survived() {
        let mut batch = WriteBatch::new();
        for kind in EngineKind::ALL {
            batch.push(Op::Put { table: TableId::new(kind, 1), key: b"k", value: b"v" });
        }
        let mut frame = Vec::new();
        put_stable(&mut frame, Csn(6));
        put_commit_head(&mut frame, Csn(7), batch.as_bytes().len());
        let at = frame.len();
        frame.extend_from_slice(batch.as_bytes());
        check_frame(&frame).unwrap_err();
        let mut other = frame.clone();
        seal_rows(&mut other[at..], Csn(8));
        check_frame(&other).unwrap_err();
        seal_rows(&mut frame[at..], Csn(7));
        check_frame(&frame).unwrap();
        let note = Note { persisted: Csn(3), recorded: [Csn(2), Csn(1)] };
        put_note(&mut frame, note);
        let mut seen = Vec::new();
        let read = read_frame(&frame, &mut |record| {
            seen.push(match record {
                Record::Commit(csn, batch) => (csn.0, ops(batch).count()),
                Record::Note(found) => {
                    assert_eq!(found, note);
                    (found.persisted.0, 0)
                }
                Record::Stable(csn) => (csn.0, 9),
            });
            Ok(())
        });
        read.unwrap();
        assert_eq!(seen, [(6, 9), (7, 2), (3, 0)]);
        let mut rng = Rng::new(3);
        for _ in 0..5000 {
            let mut noisy = frame.clone();
            let at = rng.below(noisy.len() as u64) as usize;
            noisy[at] = rng.next_u64() as u8;
            noisy.truncate(rng.below(noisy.len() as u64 + 1) as usize);
            let _ = check_frame(&noisy);
        }
    }
}
