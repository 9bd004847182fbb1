//! The persistent log.
//!
//! A plog is an append-only sequence of frames, kept by one writer. Its interface is a trait
//! because one machine's files are not its only home: a replicated implementation maps frames to
//! ledger entries and segments to ledgers (DESIGN, D13).
//!
//! # Guarantees
//!
//! - **L1 (order).** Frames are read back in the order appended, each whole and unchanged.
//! - **L2 (durability).** Once [`Plog::sync`] or a durable [`Plog::append`] has returned, every
//!   frame appended before is read back after any crash.
//! - **L3 (torn tail).** After a crash, of the frames appended since the last good sync a prefix is
//!   read back, possibly none. The rest is normal loss, not an error. What an opening read back
//!   stays: it is made durable before the opening ends, also where only the system's cache had it.
//! - **L4 (corruption).** A frame that L2 covers and that cannot be read back is reported as
//!   [`spillway_base::ErrorKind::Corruption`] with file and offset, never skipped, wherever
//!   anything proves that it was durable: a later frame, a later segment that holds one, or a later
//!   opening, which notes where it found the end. So is a damaged header, and a missing segment
//!   between two others. The frames durable last in a log that was not opened since have no such
//!   witness; damage there looks like a torn tail.
//! - **L5 (generations).** Each opening for writing starts a segment of a new, larger generation.
//!   What an earlier opening left after its readable end is never read again, also when the machine
//!   stops during the opening.
//! - **L6 (room).** An append has room, which [`Plog::reserve`] handed out; it never meets a full
//!   disk. Rooms are kept apart from each other, and may be put together in any way. `reserve`
//!   fails with
//!   [`spillway_base::ErrorKind::DiskFull`] while there is no room, harms nothing, and succeeds
//!   when space returns.
//! - **L7 (failure).** After a failed write or sync, for whatever reason, every later append and
//!   sync fails with the same cause (DESIGN, D6). A failed sync is never tried again.
//!
//! The implementation in files is [`FilePlog`]; the bytes are described in `segment`.

mod file;
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
pub use lanes::lanes_that_pay;
pub use reader::{LogReader, Recovered, RecoveredSegment, Stretch, VisitFrame, lanes_in, read_log};

/// The largest payload of one frame.
pub const PAYLOAD_MAX: usize = 1 << 30;

/// Where and how a lane's log is kept in files.
#[derive(Clone, Debug)]
pub struct PlogSettings {
    /// The folder.
    pub dir: PathBuf,
    /// The lane.
    pub lane: u32,
    /// The size of a segment's file, in bytes. One that must hold more is larger.
    pub segment_bytes: u64,
}

/// A place in a log: a segment, and a byte in it. Positions rise along the log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Position {
    /// The segment's sequence number.
    pub segment: u64,
    /// Bytes from the start of the segment's file.
    pub offset: u64,
}

/// The part of a lane's log that a reader beside its writer may read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogSpan {
    /// The lane.
    pub lane: u32,
    /// The first segment that is kept.
    pub first: u64,
    /// The last segment with frames, and where its durable ones end; [`u64::MAX`] where nothing is
    /// written to it any more.
    pub end: Position,
}

/// Room for payload, handed out by [`Plog::reserve`]. It goes back with [`Plog::append`] or
/// [`Plog::release`].
#[derive(PartialEq, Eq, Debug, Default)]
#[must_use = "room that is not given back is lost until the log is opened again"]
pub struct Room(u64);

impl Room {
    /// Room of this size, by an implementation's own measure.
    pub fn new(size: u64) -> Room {
        Room(size)
    }

    /// Its size, by the implementation's own measure.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.0
    }

    /// Adds other room, for a frame that holds the payloads of both.
    pub fn join(&mut self, other: Room) {
        self.0 += other.0;
    }
}

/// A persistent log, open for writing. The module's page says what it guarantees.
///
/// One thread appends and syncs at a time; the rest may be called beside it.
pub trait Plog: Send + Sync {
    /// Appends a frame, and makes it and all before it durable if `durable`. Answers where the
    /// frame begins. `room` was handed out for this payload, or for the parts it is put together
    /// from.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::WritesStopped`] from the first failed write or sync on.
    ///
    /// # Panics
    /// When the payload is empty, larger than [`PAYLOAD_MAX`], or larger than its room.
    fn append(&self, payload: &[u8], durable: bool, room: Room) -> Result<Position>;

    /// Makes every appended frame durable.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::WritesStopped`].
    fn sync(&self) -> Result<()>;

    /// Hands out room for this many bytes of payload (L6).
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::DiskFull`], [`spillway_base::ErrorKind::Io`]: no room could be
    /// made, the log is unharmed; [`spillway_base::ErrorKind::WritesStopped`].
    fn reserve(&self, payload: u64) -> Result<Room>;

    /// Takes room back that was not used.
    fn release(&self, room: Room);

    /// Makes the next segment now, so that nobody will wait for it, unless there is one. For a
    /// background thread.
    ///
    /// # Errors
    /// As [`Plog::reserve`].
    fn prepare(&self) -> Result<()>;

    /// Gives back every segment before this one, to be written over or removed. The segment written
    /// to is never given back.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Io`]; the log is unharmed, and the next call tries again.
    fn truncate_before(&self, segment: u64) -> Result<()>;

    /// What of the log is durable and kept; `None` while that is nothing, or where it is not in
    /// files of this machine. It stays as it is until [`Plog::truncate_before`] gives some of it
    /// back.
    fn span(&self) -> Option<LogSpan>;

    /// Bytes of all segments that are kept for recovery. It waits for nobody.
    fn bytes(&self) -> u64;

    /// The cause, once the log has failed (L7).
    ///
    /// # Errors
    /// That cause.
    fn health(&self) -> Result<()>;
}
