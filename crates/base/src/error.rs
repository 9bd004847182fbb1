//! The one error type of the storage crates.
//!
//! An [`ErrorKind`] says what the caller can do next; the message says what happened, to what, and
//! where. Broken internal invariants are not errors: they panic with a message that names them.

use std::fmt;
use std::sync::Arc;

use crate::TableId;

/// The result of anything in the storage crates that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of a failure, which tells what the caller can do next.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    // Fix the request.
    /// A table, savepoint or other named thing does not exist.
    NotFound,
    /// An object of that name already exists.
    AlreadyExists,
    /// A key that must be new exists already.
    DuplicateKey,
    /// An argument or a setting is out of its bounds.
    InvalidArgument,
    /// One row is larger than the largest commit that the log can hold.
    TransactionTooLarge,
    /// The transaction was started read-only.
    ReadOnlyTransaction,

    // Retry the whole transaction; it has been, or must be, rolled back.
    /// The transaction was chosen to break a deadlock. It holds no locks any more.
    Deadlock,
    /// Another transaction wrote the row after this one's snapshot (first committer wins).
    WriteConflict,
    /// The commit would not have been serializable.
    SerializationFailure,

    // Retry the statement, or give up.
    /// A lock was not granted within the lock wait timeout.
    LockTimeout,
    /// A lock was asked for with NOWAIT and is held by another transaction.
    LockNotAvailable,
    /// The operation was cancelled from outside (KILL, shutdown).
    Interrupted,

    // Read again in a mode that may wait for the device.
    /// The data is not in memory, and the caller asked not to wait for a device.
    WouldBlock,

    // Free something, then continue.
    /// The disk is full. Writes are refused until space returns; nothing is lost.
    DiskFull,
    /// The memory budget has no room.
    MemoryFull,
    /// The memory budget has no room for another row lock. The transaction keeps the locks that it
    /// holds.
    LockTableFull,

    // Stop, and look at the machine or the files.
    /// A device operation failed.
    Io,
    /// Stored bytes differ from what was written.
    Corruption,
    /// The instance accepts no more writes; the message says why.
    WritesStopped,
    /// Another process has the data folder open.
    InUse,
    /// A version whose format this one cannot read wrote the files.
    UnsupportedFormat,
    /// The database has been closed.
    Closed,
}

struct ErrorParts {
    kind: ErrorKind,
    message: String,
    source: Option<Arc<dyn std::error::Error + Send + Sync>>,
    table: Option<TableId>,
}

/// A failure: its kind, a message, and its cause if it has one. Cheap to clone.
#[derive(Clone)]
pub struct Error(Arc<ErrorParts>);

impl Error {
    /// An error of this kind. The message is a sentence fragment that names the object concerned.
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Arc::new(ErrorParts { kind, message: message.into(), source: None, table: None }))
    }

    /// An error with its cause.
    #[cold]
    pub fn with_source(
        kind: ErrorKind,
        message: impl Into<String>,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> Error {
        let source = Some(Arc::new(source) as _);
        Error(Arc::new(ErrorParts { kind, message: message.into(), source, table: None }))
    }

    /// Stored bytes differ from what was written.
    #[cold]
    pub fn corruption(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Corruption, message)
    }

    /// An argument or a setting is out of its bounds.
    #[cold]
    pub fn invalid(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::InvalidArgument, message)
    }

    /// The same error with `context` put before its message.
    #[must_use]
    #[cold]
    pub fn context(&self, context: impl fmt::Display) -> Error {
        Error(Arc::new(ErrorParts {
            kind: self.0.kind,
            message: format!("{context}: {}", self.0.message),
            source: self.0.source.clone(),
            table: self.0.table,
        }))
    }

    /// The same error, with the table whose data it concerns.
    #[must_use]
    #[cold]
    pub fn of_table(&self, table: TableId) -> Error {
        Error(Arc::new(ErrorParts {
            kind: self.0.kind,
            message: self.0.message.clone(),
            source: self.0.source.clone(),
            table: Some(table),
        }))
    }

    /// The table whose data the error concerns, if it is known. A caller that knows table names can
    /// add the name.
    #[must_use]
    pub fn table(&self) -> Option<TableId> {
        self.0.table
    }

    /// What the caller can do next.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        match &self.0.source {
            Some(source) => write!(f, " ({source})"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_ref().map(|source| &**source as _)
    }
}
