//! The contract of a device.
//!
//! All durable data goes through [`Disk`] and [`File`], so that the simulated disk can replace the
//! real one. Both keep these guarantees, and promise no more:
//!
//! - **DISK-1.** Later reads return the bytes written to a file, whether synced or not, in this
//!   process or in one started after this process was killed. Only a crash of the machine or a
//!   failed sync (DISK-5) loses them.
//! - **DISK-2.** After [`File::sync`] returns, all bytes written to the file before the call, and
//!   the length that they need, survive a crash. After [`File::write_and_sync`] the bytes of that
//!   call survive, and no others need to. The file's name survives only after [`Disk::sync_dir`].
//! - **DISK-3.** A write that was not synced may survive a crash in whole, in part, or not at all.
//!   A part is any set of its 512-byte sectors; one sector is written whole or not at all.
//! - **DISK-4.** A crash may undo creations, renames and removals that were not followed by
//!   [`Disk::sync_dir`]. In each folder a prefix of them survives, independent of other folders. A
//!   rename within a folder survives whole or not at all.
//! - **DISK-5.** Only the call that meets a failure reports it. So if several threads sync a file,
//!   only one of them learns that writes are lost, even writes of the other threads. After a failed
//!   sync, nothing written to the file since its last successful sync is reliable. Until a crash, a
//!   read returns a page with such writes either as written, or with some of its sectors as before
//!   the writes. A later successful sync does not make these writes durable (decision 006). They
//!   become durable only if the bytes are written again and then synced.
//! - **DISK-6.** A write to a full disk fails with [`spillway_base::ErrorKind::DiskFull`]. A write
//!   never fails in this way if [`File::allocate`] or an earlier write covered all of its bytes,
//!   and [`File::punch`] has not released them since.
//! - **DISK-7.** An open file stays readable and writable after its name is removed or given to
//!   another file.
//! - **DISK-8.** [`File::read_now`] does not wait for a device. It returns the bytes that
//!   [`File::read_at`] would have returned. It reports no failure, and may at any time report that
//!   the device is needed.
//! - **DISK-9.** [`File::read_past`] returns the bytes that [`File::read_at`] would have returned,
//!   and fails if that would have failed. It leaves the system's page cache unchanged, if the file
//!   system supports that. A buffer with room for the bytes and twice [`crate::ALIGN`] is not
//!   reallocated.
//!
//! [`crate::queue`] states the guarantees of asynchronous reads and writes (IO-QUEUE-1 to
//! IO-QUEUE-10).

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

/// A device with named files. There is no current folder: callers pass complete paths.
pub trait Disk: Send + Sync {
    /// Opens a file.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::NotFound`], [`spillway_base::ErrorKind::DiskFull`],
    /// [`spillway_base::ErrorKind::Io`].
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>>;

    /// Whether a file or folder exists.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Io`].
    fn exists(&self, path: &Path) -> Result<bool>;

    /// The names of the files in a folder, ascending; none if the folder does not exist.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Io`].
    fn list(&self, dir: &Path) -> Result<Vec<String>>;

    /// Removes a file.
    ///
    /// # Errors
    /// As [`Disk::open`].
    fn remove(&self, path: &Path) -> Result<()>;

    /// Renames a file, and replaces an existing file of that name.
    ///
    /// # Errors
    /// As [`Disk::open`].
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    /// Creates a folder and its parents, durably. Files can only be created in an existing folder.
    ///
    /// # Errors
    /// As [`Disk::open`].
    fn create_dir_all(&self, dir: &Path) -> Result<()>;

    /// Makes the names in a folder durable (DISK-4).
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Io`].
    fn sync_dir(&self, dir: &Path) -> Result<()>;

    /// Locks a folder for this process, until the lock is dropped or the process ends. If the
    /// process that held it has ended, waits until its I/O in flight is done.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::InUse`] if another process, or another database of this process,
    /// holds the lock.
    fn lock(&self, dir: &Path) -> Result<Box<dyn DiskLock>>;

    /// The free bytes of the device that holds `path`.
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

    /// Creates a queue for this disk's files, for the calling thread.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::InvalidArgument`] for an invalid depth,
    /// [`spillway_base::ErrorKind::MemoryFull`] if the system has no thread for it.
    fn queue(&self, settings: QueueSettings) -> Result<Box<dyn IoQueue>>;
}

/// A folder locked by [`Disk::lock`]; dropping it unlocks the folder.
pub trait DiskLock: Send + Sync {}

/// An open file. Several threads may use it at once; writes to overlapping bytes are not ordered.
pub trait File: Any + Send + Sync {
    /// Fills `bytes` from `offset`.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Io`], also when the file ends too early.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<()>;

    /// Fills `bytes` from `offset` if the system has them in memory (DISK-8). Returns `false` if it
    /// has not, or does not know; then any of the bytes may have changed.
    fn read_now(&self, offset: u64, bytes: &mut [u8]) -> bool {
        let _ = (offset, bytes);
        false
    }

    /// Reads `len` bytes from `offset` into a buffer, past the system's page cache if possible
    /// (DISK-9). It returns the buffer in either case; after a failure the buffer's bytes are
    /// arbitrary.
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

    /// Writes `bytes` at `offset`, and extends the file if needed.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::DiskFull`], [`spillway_base::ErrorKind::Io`]; some of the bytes
    /// may have been written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Makes everything written so far durable (DISK-2).
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Io`], and [`spillway_base::ErrorKind::DiskFull`] from a device
    /// that allocates only when it writes; DISK-5 holds after either.
    fn sync(&self) -> Result<()>;

    /// Writes `bytes` and makes them durable, in one call if the device has one. It does not make
    /// earlier writes durable (DISK-2).
    ///
    /// # Errors
    /// As [`File::write_at`] and [`File::sync`]. If the sync meets a full disk, the error is also
    /// [`spillway_base::ErrorKind::DiskFull`], and DISK-5 holds as after any failed sync.
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

    /// Truncates the file, or extends it with zeros that take no space yet.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Io`].
    fn set_len(&self, len: u64) -> Result<()>;

    /// Allocates space for a range, and extends the file to the range's end; new bytes are zero.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::DiskFull`], [`spillway_base::ErrorKind::Io`].
    fn allocate(&self, offset: u64, len: u64) -> Result<()>;

    /// Releases the space of a range whose ends are multiples of 4096 bytes. The range then reads
    /// as zeros, and the file keeps its length. `false` if the file system cannot; then nothing has
    /// changed.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Io`]: the range may read as zeros, or as before.
    fn punch(&self, offset: u64, len: u64) -> Result<bool>;
}
