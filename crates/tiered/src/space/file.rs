//! A data file, with concurrent writes and syncs by many threads.

use std::sync::Arc;

use spillway_base::lock::Mutex;
use spillway_base::{Error, ErrorKind, Result, thread};
use spillway_storage::{AlignedBuffer, File};

use super::DeviceClass;

/// Larger reads are not tried without waiting: the system's page cache hardly ever has all of their
/// bytes.
const AT_HAND_BYTES_MAX: usize = 256 << 10;

/// A data file. Once a sync of it has failed, all later ones fail too.
///
/// The system reports lost writes to only one of the callers that sync (DISK-5). So syncs are
/// serialised, and each caller that syncs after a failed sync fails as well: its bytes may be among
/// the lost ones.
pub(crate) struct DataFile {
    file: Arc<dyn File>,
    /// The class of its device.
    class: DeviceClass,
    /// The reason why it can no longer be synced. Locked during a sync.
    failure: Mutex<Option<Error>>,
}

impl DataFile {
    pub(super) fn new(file: Arc<dyn File>, class: DeviceClass) -> Arc<DataFile> {
        Arc::new(DataFile { file, class, failure: Mutex::new(None) })
    }

    /// The class of the device that it is on.
    pub(crate) fn class(&self) -> DeviceClass {
        self.class
    }

    /// The file itself, for bulk transfers.
    pub(crate) fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// As [`File::read_at`]. If the device is needed, the thread waits for it by
    /// [`thread::blocking`].
    pub(crate) fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        if bytes.len() <= AT_HAND_BYTES_MAX && self.file.read_now(offset, bytes) {
            return Ok(());
        }
        thread::blocking(|| self.file.read_at(offset, bytes))
    }

    /// As [`File::read_past`]. The thread waits for the device by [`thread::blocking`].
    pub(crate) fn read_past(
        &self,
        offset: u64,
        len: usize,
        buffer: AlignedBuffer,
    ) -> (AlignedBuffer, Result<()>) {
        thread::blocking(|| self.file.clone().read_past(offset, len, buffer))
    }

    /// As [`File::read_now`].
    pub(crate) fn read_now(&self, offset: u64, bytes: &mut [u8]) -> bool {
        self.file.read_now(offset, bytes)
    }

    /// Makes everything durable that was written before the call.
    ///
    /// # Errors
    /// [`ErrorKind::WritesStopped`], for any cause: also after a full disk it is unknown which
    /// writes are lost.
    pub(crate) fn sync(&self) -> Result<()> {
        let mut failure = self.failure.lock();
        if let Some(failure) = &*failure {
            return Err(failure.clone());
        }
        self.file.sync().map_err(|error| failure.insert(stopped(&error)).clone())
    }

    pub(super) fn allocate(&self, offset: u64, len: u64) -> Result<()> {
        self.file.allocate(offset, len)
    }

    pub(super) fn set_len(&self, len: u64) -> Result<()> {
        self.file.set_len(len)
    }
}

/// The error of a failed sync. It leaves the contents of the device unknown (DISK-5), so it ends
/// the background work.
pub(super) fn stopped(error: &Error) -> Error {
    Error::new(ErrorKind::WritesStopped, format!("a data file cannot be synced: {error}"))
}
