//! The early writeback of writes that went through the page cache.
//!
//! Without it, all writes of a compaction would wait in the page cache for the compaction's sync.
//! The sync would then occupy the device for long, and the sync of a commit would wait for it.
#![allow(unsafe_code)] // A leaf: a system call that takes no memory.

use std::fs;
use std::os::fd::AsRawFd;

/// Makes the system begin to write the dirty pages of a range to the device. It does not wait for
/// them, and is no sync. Errors are ignored: the sync that follows reports those of the device.
pub(super) fn begin(file: &fs::File, offset: u64, bytes: u64) {
    // SAFETY: The descriptor is open for the call, and the call touches no memory of this process.
    unsafe {
        libc::sync_file_range(
            file.as_raw_fd(),
            offset.cast_signed(),
            bytes.cast_signed(),
            libc::SYNC_FILE_RANGE_WRITE,
        );
    }
}
