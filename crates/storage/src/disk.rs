//! What a device promises.
//!
//! Everything durable goes through [`Disk`] and [`File`], so that the simulated disk can stand in
//! for the real one. Both keep these guarantees, and promise no more:
//!
//! - **K1.** Bytes written to a file are read back by later reads, whether synced or not, and
//!   whether by this process or by one started after it was killed. Only a crash of the machine
//!   takes them away.
//! - **K2.** After [`File::sync`] returns, everything written to the file before the call, and the
//!   length it needs, survives a crash. After [`File::write_and_sync`] so do the bytes of that
//!   call, and no others. The file's name survives only after [`Disk::sync_dir`].
//! - **K3.** A write that was not synced may survive a crash in whole, in part, or not at all. A
//!   part is any set of its 512-byte sectors; one sector is written whole or not at all.
//! - **K4.** Creations, renames and removals that were not followed by [`Disk::sync_dir`] may be
//!   undone by a crash; those that survive are the earliest ones. A rename survives whole or not at
//!   all.
//! - **K5.** A failure is reported by the call that met it, and by no other: of several threads
//!   that sync a file, one is told that the writes of any of them are lost. After a failed sync,
//!   nothing written since the last good one may be relied on: it may be read back until a crash
//!   takes it, and another sync that succeeds does not change that (DESIGN, D6). Only writing it
//!   again and syncing does.
//! - **K6.** A full disk is [`spillway_base::ErrorKind::DiskFull`]. Overwriting bytes that
//!   [`File::allocate`] or an earlier write covered, and [`File::punch`] has not given back since,
//!   never meets it.
//! - **K7.** An open file stays readable and writable after its name is removed or given to
//!   another.
//! - **K8.** [`File::read_now`] waits for no device. What it gives is what [`File::read_at`] would
//!   have given; it tells of no failure, and may say at any time that the device is needed.
//! - **K9.** [`File::read_past`] gives what [`File::read_at`] would have given, and fails as that
//!   would have failed; only the system's page cache is left as it is, as far as the file system
//!   can. A buffer with room for the bytes and two times [`crate::ALIGN`] keeps its memory.
//!
//! What reads and writes promise that go on beside their caller is said in [`crate::queue`] (A1 to
//! A10).

use std::any::Any;
use std::path::Path;
use std::sync::Arc;

use spillway_base::Result;

use crate::queue::{AlignedBuffer, IoQueue, QueueSettings};

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenMode {
    /// An existing file, for reading.
    Read,
    /// An existing file, for reading and writing.
    Write,
    /// A new file, or an existing one emptied, for reading and writing.
    Create,
}

/// A device with named files. Paths are relative to nothing: callers pass whole ones.
pub trait Disk: Send + Sync {
    /// Opens a file.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::NotFound`], [`spillway_base::ErrorKind::DiskFull`],
    /// [`spillway_base::ErrorKind::Io`].
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>>;

    /// Whether a file or folder is there.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Io`].
    fn exists(&self, path: &Path) -> Result<bool>;

    /// The names of the files in a folder, ascending; none when the folder is not there.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Io`].
    fn list(&self, dir: &Path) -> Result<Vec<String>>;

    /// Removes a file.
    ///
    /// # Errors
    /// As [`Disk::open`].
    fn remove(&self, path: &Path) -> Result<()>;

    /// Renames a file, over another if there is one of that name.
    ///
    /// # Errors
    /// As [`Disk::open`].
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Creates a folder and those above it, durably. Files can only be made in a folder that is
    /// there.
    ///
    /// # Errors
    /// As [`Disk::open`].
    fn create_dir_all(&self, dir: &Path) -> Result<()>;

    /// Makes the names in a folder durable (K4).
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Io`].
    fn sync_dir(&self, dir: &Path) -> Result<()>;

    /// Takes a folder for this process, until the lock is dropped or the process ends. Where the
    /// process that had it is gone, waits until what it had in flight is done.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::InUse`] when another process, or another database of this one,
    /// has it.
    fn lock(&self, dir: &Path) -> Result<Box<dyn DiskLock>>;

    /// Bytes that can still be written to the device that holds `path`.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Io`].
    fn available(&self, path: &Path) -> Result<u64>;

    /// Whether files in a folder can be read and written past the system's page cache, as far as
    /// can be known beforehand.
    fn goes_past_cache(&self, dir: &Path) -> bool {
        let _ = dir;
        true
    }

    /// A queue for this disk's files, for the calling thread.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::InvalidArgument`] for a depth that cannot be,
    /// [`spillway_base::ErrorKind::MemoryFull`] when the system has no thread for it.
    fn queue(&self, settings: QueueSettings) -> Result<Box<dyn IoQueue>>;
}

/// A folder taken by [`Disk::lock`]; dropping it gives the folder back.
pub trait DiskLock: Send + Sync {}

/// An open file. Several threads may use it at once; writes to overlapping bytes are not ordered.
pub trait File: Any + Send + Sync {
    /// Fills `bytes` from `offset`.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Io`], also when the file ends too early.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<()>;

    /// Fills `bytes` from `offset` if the system has them in memory (K8). `false` where it has not,
    /// or does not know: any of the bytes may have been changed.
    fn read_now(&self, offset: u64, bytes: &mut [u8]) -> bool {
        let _ = (offset, bytes);
        false
    }

    /// Reads `len` bytes from `offset` into a buffer, past the system's page cache where that can
    /// be (K9). The buffer comes back either way; after a failure it has any bytes.
    ///
    /// # Errors
    /// As [`File::read_at`].
    fn read_past(
        self: Arc<Self>,
        offset: u64,
        len: usize,
        mut buffer: AlignedBuffer,
    ) -> (AlignedBuffer, Result<()>) {
        buffer.frame(offset, len);
        let outcome = self.read_at(offset, &mut buffer);
        (buffer, outcome)
    }

    /// Writes `bytes` at `offset`, making the file longer where needed.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::DiskFull`], [`spillway_base::ErrorKind::Io`]; some of the bytes
    /// may have been written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Makes everything written so far durable (K2).
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Io`], and [`spillway_base::ErrorKind::DiskFull`] from a device
    /// that finds room only when it writes; K5 holds after either.
    fn sync(&self) -> Result<()>;

    /// Writes `bytes` and makes them durable, in one call where the device has one. What was
    /// written before is not made durable by it (K2).
    ///
    /// # Errors
    /// As [`File::write_at`] and [`File::sync`]. A full disk that is met by the sync is
    /// [`spillway_base::ErrorKind::DiskFull`] too, and then K5 holds as after any failed sync.
    fn write_and_sync(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// The file's length, in bytes.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Io`].
    fn len(&self) -> Result<u64>;

    /// Whether the file holds nothing.
    ///
    /// # Errors
    /// As [`File::len`].
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts the file, or makes it longer with zeros that take no space yet.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Io`].
    fn set_len(&self, len: u64) -> Result<()>;

    /// Takes space for a range, and makes the file as long as the range needs; new bytes are zero.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::DiskFull`], [`spillway_base::ErrorKind::Io`].
    fn allocate(&self, offset: u64, len: u64) -> Result<()>;

    /// Gives the space of a range back, of which both ends are multiples of 4096 bytes: it reads as
    /// zeros then, and the file is as long as before. `false` where the file system cannot: nothing
    /// has changed.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Io`]: the range may read as zeros, or as before.
    fn punch(&self, offset: u64, len: u64) -> Result<bool>;
}
