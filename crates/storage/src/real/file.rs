//! An open file, and its second descriptor for transfers past the page cache.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use rustix::fs::{Mode, OFlags, fcntl_getfl};
use spillway_base::Error;

use super::failure::failed;
use super::lock;

/// Opens a file again, for transfers past the page cache. It uses the descriptor, because the name
/// may belong to another file by now (DISK-7).
fn open_direct(file: &fs::File) -> Option<fs::File> {
    let access = fcntl_getfl(file).ok()? & OFlags::RWMODE;
    let again = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = access | OFlags::DIRECT | OFlags::CLOEXEC;
    rustix::fs::open(again, flags, Mode::empty()).ok().map(fs::File::from)
}

pub(super) struct RealFile {
    pub(super) file: fs::File,
    pub(super) path: PathBuf,
    /// Whether `RWF_DSYNC` may still be tried on this file.
    pub(super) one_call: AtomicBool,
    /// Whether `RWF_NOWAIT` may still be tried on this file.
    pub(super) now: AtomicBool,
    /// The second descriptor, for transfers past the page cache. It is opened for the first such
    /// transfer; `None` if it cannot be opened.
    direct: OnceLock<Option<fs::File>>,
    /// Whether the file system has refused a transfer past the page cache.
    direct_refused: AtomicBool,
}

impl RealFile {
    pub(super) fn new(file: fs::File, path: &Path) -> RealFile {
        RealFile {
            file,
            path: path.to_owned(),
            one_call: AtomicBool::new(true),
            now: AtomicBool::new(true),
            direct: OnceLock::new(),
            direct_refused: AtomicBool::new(false),
        }
    }

    /// The lock of the folder in which it was opened, if this process holds one.
    pub(super) fn lock(&self) -> Option<Arc<fs::File>> {
        lock::over(&self.path)
    }

    /// The file, for transfers through the page cache.
    pub(super) fn file(&self) -> &fs::File {
        &self.file
    }

    /// The file, for transfers past the page cache, unless these are known to be impossible.
    pub(super) fn direct(&self) -> Option<&fs::File> {
        if self.direct_refused.load(Ordering::Relaxed) {
            return None;
        }
        self.direct.get_or_init(|| open_direct(&self.file)).as_ref()
    }

    /// Disables transfers past the page cache.
    pub(super) fn refuse_direct(&self) {
        self.direct_refused.store(true, Ordering::Relaxed);
    }

    pub(super) fn failed(&self, what: &str, error: io::Error) -> Error {
        failed(what, &self.path, error)
    }
}
