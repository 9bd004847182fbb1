//! The persistent log.
//!
//! A plog is an append-only sequence of frames, kept by one writer. Its interface is a trait because
//! one machine's files are not its only home: a replicated implementation maps frames to ledger
//! entries and segments to ledgers (DESIGN, D13).
//!
//! # Guarantees
//!
//! - **L1 (order).** Frames are read back in the order appended, each whole and unchanged.
//! - **L2 (durability).** Once [`Plog::sync`] or a durable [`Plog::append`] has returned, every frame appended
//!   before is read back after any crash.
//! - **L3 (torn tail).** After a crash, of the frames appended since the last good sync a prefix is read
//!   back, possibly none. The rest is normal loss, not an error.
//! - **L4 (corruption).** A frame that L2 covers and that cannot be read back is reported as
//!   [`spillway_base::ErrorKind::Corruption`] with file and offset, never skipped, wherever anything after it
//!   proves that it was durable: a later frame, or a later segment that holds one. The last durable
//!   frames of a log have no such witness; damage there looks like a torn tail.
//! - **L5 (generations).** Each opening for writing starts a segment of a new, larger generation. What an
//!   earlier opening left after its readable end is never read again, also when the machine
//!   stops during the opening.
//! - **L6 (room).** An append for which [`Plog::reserve`] made room never meets a full disk. `reserve` fails with
//!   [`spillway_base::ErrorKind::DiskFull`] while there is none, harms nothing, and succeeds when space returns.
//! - **L7 (failure).** After a failed write or sync every later append and sync fails with the same cause
//!   (DESIGN, D6). A failed sync is never tried again.
//!
//! The file implementation is in [`file`](self::FilePlog); the bytes are described in `segment`.

mod file;
mod reader;
mod segment;
#[cfg(test)]
mod tests;

use spillway_base::Result;

pub use file::{FilePlog, PlogSettings};
pub use reader::{Recovered, RecoveredSegment, VisitFrame, read_log};

/// A place in a log: a segment, and a byte in it. Positions rise along the log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Position {
    /// The segment's sequence number.
    pub segment: u64,
    /// Bytes from the start of the segment's file.
    pub offset: u64,
}

/// A persistent log, open for writing. The module's page says what it guarantees.
///
/// One thread appends and syncs at a time; the rest may be called beside it.
pub trait Plog: Send + Sync {
    /// Appends a frame, and makes it and all before it durable if `durable`. Answers where the frame
    /// begins.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::DiskFull`] without reserved room (the log is unharmed);
    /// [`spillway_base::ErrorKind::WritesStopped`] from the first failed write or sync on.
    fn append(&self, payload: &[u8], durable: bool) -> Result<Position>;

    /// Makes every appended frame durable.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::WritesStopped`].
    fn sync(&self) -> Result<()>;

    /// Makes sure that `bytes` more payload can be appended (L6).
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::DiskFull`]; [`spillway_base::ErrorKind::WritesStopped`].
    fn reserve(&self, bytes: u64) -> Result<()>;

    /// Makes the next segment now, so that the writer will not wait for it, unless there is one. For a background
    /// thread.
    ///
    /// # Errors
    /// As [`Plog::reserve`].
    fn prepare(&self) -> Result<()>;

    /// Gives back every segment before this one. The segment written to is never given back.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Io`]; the log is unharmed.
    fn truncate_before(&self, segment: u64) -> Result<()>;

    /// Bytes of all segments that are kept for recovery.
    fn bytes(&self) -> u64;

    /// The cause, once the log has failed (L7).
    ///
    /// # Errors
    /// That cause.
    fn health(&self) -> Result<()>;
}
