//! The operations of a database on an engine besides transactions: background work, flushes,
//! closing.
//!
//! The transaction manager uses only [`crate::engine`], and model engines implement only that. The
//! database opens engines of concrete types, and afterwards handles all of them through this trait.
//!
//! - **MANAGED-1 (work).** [`ManagedEngine::run_background_job`] runs one background job on the
//!   calling thread. Every kind of background work can be run in this way, so a database without
//!   background threads keeps up.
//! - **MANAGED-2 (persist).** Once [`ManagedEngine::persist_all`] has returned, every commit that
//!   was stable at the call is persistent ([`crate::engine`], E6).
//! - **MANAGED-3 (close).** Once [`ManagedEngine::close`] has returned, no work on the engine's
//!   files is in progress, and none begins. Rows in memory can still be read. A read that needs the
//!   files returns what they had at the close, or [`ErrorKind::Closed`].

use std::sync::Arc;

use crate::engine::Engine;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::{Error, ErrorKind, Result, TableId};

/// Whether an engine was closed. Clones share it.
///
/// After a close, another opening may use the space of old files again. A later read of such a file
/// finds bytes of other data, which looks like damage.
#[derive(Clone, Default, Debug)]
pub struct ClosedFlag(Arc<AtomicBool>);

impl ClosedFlag {
    /// Notes that the engine is closed. The database releases its folder only afterwards.
    pub fn close(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    /// Whether the engine was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// The error that a read of a file reports if it failed with `error`: [`ErrorKind::Closed`]
    /// after a close (MANAGED-3).
    #[cold]
    #[must_use]
    pub fn of_read(&self, error: Error) -> Error {
        if error.kind() == ErrorKind::WouldBlock || !self.is_closed() {
            return error;
        }
        Error::with_source(ErrorKind::Closed, "the database has been closed", error)
    }
}

/// The approximate size of a table, known without reading it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TableSize {
    /// Rows. A replaced row may count twice until its versions are merged.
    pub rows: u64,
    /// Bytes in use on devices, and bytes in memory of rows that are not on a device yet.
    pub used_bytes: u64,
    /// Bytes on devices that are allocated and not in use.
    pub free_bytes: u64,
}

/// Background threads of an engine. Dropping this stops them once their current work is done.
pub trait BackgroundThreads: Send {}

/// An engine as a database manages it. The module's page states its guarantees.
pub trait ManagedEngine: Engine {
    /// Starts background threads, about `threads` of which use the processor.
    ///
    /// # Errors
    /// [`crate::ErrorKind::MemoryFull`] when the system refuses a thread.
    fn start_background_threads(&self, threads: usize) -> Result<Box<dyn BackgroundThreads>>;

    /// Runs the most urgent background job on the calling thread (MANAGED-1). Returns `false` if
    /// there is none now.
    ///
    /// # Errors
    /// [`crate::ErrorKind::DiskFull`]: nothing is lost, and a later call tries again. Any other
    /// failure stops the background work ([`crate::engine`], E8).
    fn run_background_job(&self) -> Result<bool>;

    /// Makes every commit persistent that was stable at the call (MANAGED-2).
    ///
    /// # Errors
    /// As [`ManagedEngine::run_background_job`].
    fn persist_all(&self) -> Result<()>;

    /// Compacts every table into the form that is cheapest to read and store.
    ///
    /// # Errors
    /// As [`ManagedEngine::run_background_job`].
    fn compact_all(&self) -> Result<()>;

    /// The approximate size of a table; zeros for a table that does not exist.
    fn table_size(&self, table: TableId) -> TableSize;

    /// Ends all work on the engine's files (MANAGED-3).
    fn close(&self);
}
