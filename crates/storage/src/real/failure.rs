//! Creation of files, and the mapping of system errors to error kinds.

use std::io::{self, ErrorKind as IoKind};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;
use spillway_base::{Error, ErrorKind};

/// The permissions of new files and folders (PRIVATE-1).
pub(super) const PRIVATE_FILE: u32 = 0o600;
pub(super) const PRIVATE_FOLDER: u32 = 0o700;
pub(super) const NO_LINK: i32 = OFlags::NOFOLLOW.bits() as i32;

pub(super) fn failed(what: &str, path: &Path, error: io::Error) -> Error {
    let kind = match error.kind() {
        IoKind::StorageFull | IoKind::QuotaExceeded | IoKind::FileTooLarge => ErrorKind::DiskFull,
        IoKind::NotFound => ErrorKind::NotFound,
        _ => ErrorKind::Io,
    };
    Error::with_source(kind, format!("cannot {what} {}", path.display()), error)
}

/// As [`failed`], for a file that could not be opened.
pub(super) fn failed_to_open(path: &Path, error: io::Error) -> Error {
    if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) {
        let text = format!("cannot open {}: it is a symbolic link, not a file", path.display());
        return Error::with_source(ErrorKind::Io, text, error);
    }
    failed("open", path, error)
}
