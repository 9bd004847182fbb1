//! Entry points for fuzzing: each takes any bytes, passes them to a decoder with a valid checksum,
//! and checks that what the decoder accepts is encoded unchanged.

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
