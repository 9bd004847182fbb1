//! Entry points for fuzzing. Each entry point adds a valid checksum to any bytes and passes them to
//! a decoder. If the decoder accepts the bytes, the entry point checks that the result is encoded
//! to the same bytes.

use crate::backup::fuzz as backup;
use crate::log_home::fuzz as log_home;

/// A backup's catalogue.
pub fn backup_catalogue(bytes: &[u8]) {
    backup::catalogue(bytes);
}

/// The record of the location of a database's log.
pub fn log_home(bytes: &[u8]) {
    log_home::home(bytes);
}
