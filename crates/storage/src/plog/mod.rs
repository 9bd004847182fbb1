//! The persistent log.
//!
//! A plog is an append-only sequence of frames with one writer. Each lane of the redo log has one.
//! Its interface is a trait because files on one machine are only one implementation: a replicated
//! log maps frames to ledger entries and segments to ledgers (decision 013).
//!
//! # Guarantees
//!
//! - **PLOG-1 (order).** Frames are read back in the order of their appends, each whole and
//!   unchanged.
//! - **PLOG-2 (durability).** Once [`Plog::sync`] or a durable [`Plog::append`] has returned, every
//!   frame appended before is read back after any crash.
//! - **PLOG-3 (torn tail).** After a crash, a prefix of the frames appended since the last
//!   successful sync is read back, possibly an empty one. The loss of the other frames is normal,
//!   not an error. Frames that an opening has read back stay: the opening makes them durable before
//!   it ends, even if they were only in the system's cache.
//! - **PLOG-4 (corruption).** If a frame that PLOG-2 covers cannot be read back, and anything
//!   proves that the frame was durable, the opening reports
//!   [`spillway_base::ErrorKind::Corruption`] with file and offset. It never skips the frame. Such
//!   a proof is a later frame, a later segment with frames, or the end of the log that a later
//!   opening found and noted.
//!
//!   A damaged header of a segment is reported in the same way, and so is a missing segment between
//!   two others. For the last durable frames of a log that was not opened again there is no proof,
//!   and damage to them looks like a torn tail. Bytes of a payload are never read as a frame.
//! - **PLOG-5 (generations).** Each opening for writing starts a segment of a new, larger
//!   generation. Frames that an earlier opening left after its readable end are never read again,
//!   even if the machine stops during the opening.
//! - **PLOG-6 (room).** An append uses room from [`Plog::reserve`], and never meets a full disk.
//!   Reserved rooms are independent of each other, and an append may use any combination of them.
//!   While there is no room, `reserve` fails with [`spillway_base::ErrorKind::DiskFull`] and
//!   changes nothing; it succeeds when space returns.
//! - **PLOG-7 (failure).** After a failed write or sync, for whatever reason, every later append
//!   and sync fails with the same cause (decision 006). A failed sync is never retried.
//! - **PLOG-8 (kept segments).** Released segments leave the log in order. A segment that is to be
//!   kept leaves the log with its content unchanged, and gets another name, for [`KeptSegments`].
//!   If a crash undoes the release of a segment, it also undoes the release of all later ones. New
//!   segments have larger numbers than all kept ones of their lane.
//!
//! The implementation in files is [`FilePlog`]; `segment` describes the format.

mod file;
mod kept;
mod lanes;
mod make;
mod reader;
mod room;
mod segment;
#[cfg(test)]
mod tests;
mod walk;

use std::path::PathBuf;

use spillway_base::Result;

pub use file::FilePlog;
pub use kept::{KeptFiles, KeptSegment, KeptSegments, kept_file_name, punch_all};
pub use lanes::lanes_that_pay;
pub use reader::{LogReader, Recovered, RecoveredSegment, Stretch, VisitFrame, lanes_in, read_log};

/// The largest payload of one frame.
pub const PAYLOAD_MAX: usize = 1 << 30;

/// The offset of the payload in a frame. The payload is stored as it was appended.
pub const PAYLOAD_OFFSET: usize = segment::FRAME_HEAD_BYTES;

/// The location and segment size of a lane's log in files.
#[derive(Clone, Debug)]
pub struct PlogSettings {
    /// The folder.
    pub dir: PathBuf,
    /// The lane.
    pub lane: u32,
    /// The size of a segment's file, in bytes. A segment for a larger frame is larger.
    pub segment_bytes: u64,
}

/// A position in a log: a segment, and a byte in it. Positions ascend along the log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Position {
    /// The segment's sequence number.
    pub segment: u64,
    /// Bytes from the start of the segment's file.
    pub offset: u64,
}

/// The part of a lane's log that may be read while its writer appends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogSpan {
    /// The lane.
    pub lane: u32,
    /// The log's first segment.
    pub first: u64,
    /// The last segment with frames, and the end of its durable ones; [`u64::MAX`] if nothing is
    /// appended to it any more.
    pub end: Position,
}

/// Room for payload, reserved by [`Plog::reserve`]. [`Plog::append`] or [`Plog::release`] returns
/// it.
#[derive(PartialEq, Eq, Debug, Default)]
#[must_use = "room that is not given back is lost until the log is opened again"]
pub struct Room(u64);

impl Room {
    /// Room of this size, in an implementation's own units.
    pub fn new(size: u64) -> Room {
        Room(size)
    }

    /// Its size, in the implementation's own units.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.0
    }

    /// Adds other room, for a frame with the payloads of both.
    pub fn join(&mut self, other: Room) {
        self.0 += other.0;
    }
}

/// A persistent log, open for writing. The module's page states its guarantees.
///
/// One thread at a time appends and syncs; the other methods may be called concurrently.
pub trait Plog: Send + Sync {
    /// Appends a frame, and makes it and all before it durable if `durable`. Returns where the
    /// frame begins; its payload is [`PAYLOAD_OFFSET`] bytes further. Once the frame is durable,
    /// its bytes there can be read from the segment's file concurrently with later appends
    /// (LOG-READ-9): on a real disk, all go through the system's page cache. `room` was reserved
    /// for this payload, or for the parts of which it consists.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::WritesStopped`] from the first failed write or sync on.
    ///
    /// # Panics
    /// If the payload is empty, larger than [`PAYLOAD_MAX`], or larger than its room.
    fn append(&self, payload: &[u8], durable: bool, room: Room) -> Result<Position>;

    /// Makes every appended frame durable.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::WritesStopped`].
    fn sync(&self) -> Result<()>;

    /// Reserves room for this many bytes of payload (PLOG-6).
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::DiskFull`], [`spillway_base::ErrorKind::Io`]: no room could be
    /// made, the log is unharmed; [`spillway_base::ErrorKind::WritesStopped`].
    fn reserve(&self, payload: u64) -> Result<Room>;

    /// Returns unused room.
    fn release(&self, room: Room);

    /// The bytes of the smallest segment that would be made for this many bytes of payload; 0 if
    /// they have room without another segment.
    fn segment_for(&self, payload: u64) -> u64;

    /// From now on, segments that commits wait for are smaller than usual if they would leave less
    /// than this many bytes free, as on a full disk. [`Plog::prepare`] does not obey this.
    fn leave_free(&self, bytes: u64) {
        let _ = bytes;
    }

    /// Makes the next segment now, unless there is one, so that no append waits for it. For a
    /// background thread.
    ///
    /// # Errors
    /// As [`Plog::reserve`].
    fn prepare(&self) -> Result<()>;

    /// Releases every segment before this one. Those in `kept` leave the log under another name
    /// (PLOG-8), the others are reused or removed. The segment being written to is never released,
    /// and one that was released is never kept after all.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Io`]; the log is unharmed, and the next call retries the rest of
    /// this one.
    fn truncate_before(&self, segment: u64, kept: &[u64]) -> Result<()>;

    /// The durable part of the log; `None` while there is none, or if the log is not in files of
    /// this machine. Its segments stay until [`Plog::truncate_before`] releases some of them.
    fn span(&self) -> Option<LogSpan>;

    /// The bytes of all segments that recovery needs, without those kept by an engine. Does not
    /// block.
    fn bytes(&self) -> u64;

    /// The cause, once the log has failed (PLOG-7).
    ///
    /// # Errors
    /// That cause.
    fn health(&self) -> Result<()>;
}
