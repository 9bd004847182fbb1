//! Backups of a running database, kept in a folder that holds many of them.
//!
//! A backup consists of the files of both engines as they are at one moment, and of the commits up
//! to that moment that these files may lack. It reads these commits from the log. A restored backup
//! is opened like a database after a crash. Extents never change, and each has a unique number. So
//! a folder of backups, a [`Repository`], stores each extent once, and a later backup copies only
//! new extents. The repository also stores each file of the memory engine once. It recognises such
//! a file by name, length and checksum.
//!
//! # Guarantees
//!
//! - **BACKUP-1 (a prefix).** A restored database has exactly the commits up to
//!   [`Backup::through`], without a gap. This includes every commit that was acknowledged before
//!   the backup began.
//! - **BACKUP-2 (no waits).** No other operation waits for a backup, and a backup waits for no
//!   other operation. The log is not cut while the backup reads it, and the space of extents that
//!   the backup has to copy is not freed until the backup ends.
//! - **BACKUP-3 (increments).** If the repository has an extent of the same database with the same
//!   checksum, a backup does not copy it again.
//! - **BACKUP-4 (all or nothing).** A backup exists once its catalogue exists. A backup writes its
//!   catalogue last, when everything to which the catalogue refers is durable. A backup that ends
//!   early, because of a crash or a full disk, does not damage other backups. The next backup or
//!   removal deletes the files that it has left.
//! - **BACKUP-5 (checked).** A backup verifies the checksums of the extents and log frames that it
//!   copies. Verifying a backup, or restoring it, verifies the checksums of everything in the
//!   backup. An error names the place of the damage, and damaged extents and frames are neither
//!   copied nor restored.
//! - **BACKUP-6 (removal).** Removing a backup deletes the files that no other backup needs, and
//!   nothing else.
//! - **BACKUP-7 (another database).** A restored database is a database of its own, with another
//!   identity than its origin, so the backups of the two share no extents. They must not share
//!   extents, because after the restore both databases give the same numbers to new extents with
//!   different contents.
//! - **BACKUP-8 (no half restored).** A folder whose restore did not finish cannot be opened.
//! - **BACKUP-9 (apart).** A folder of backups is not one of the database's own folders. It is not
//!   inside any of them, and none of them is inside it.
//!
//! # Files
//!
//! A repository is a folder with a file `spillway-repository` (`SWRP`, version 1 in 2 bytes,
//! CRC32C) and:
//!
//! ```text
//! NNNNNN.backup         the catalogue of a backup (see `catalogue`)
//! NNNNNN.log            the commits of the backup that the engines' files may lack: frames of
//!                       lane u32, length u32, records (see `spillway_txn`'s `record`), CRC32C of
//!                       the frame's preceding bytes u32
//! extents/DB-ID.extent  an extent's bytes; DB is the database's identity and ID the extent's
//!                       number, in hexadecimal
//! memory/DB-NAME-LENGTH-CRC.memory
//!                       a file of the memory engine: a file of its checkpoint, or a log segment
//!                       with its rows; length and CRC32C in hexadecimal
//! ```
//!
//! The identity of a database is a random number in the file `backup-identity` in its folder
//! (`SWID`, version 1 in 2 bytes, 16 bytes, CRC32C). The first backup creates the file.
//!
//! A copy of the database's folder that was made without a backup and a restore has the same
//! identity. If such a copy is used as a second database, or replaces the first one, remove
//! `backup-identity` from the copy. Otherwise a repository treats the backups of both databases as
//! backups of one database, and a backup fails if the repository has an extent of the same number
//! with another checksum.

mod catalogue;
mod create;
mod log;
mod pace;
mod repository;
mod restore;
#[cfg(test)]
mod tests;
mod verify;

pub use catalogue::Backup;
#[cfg(fuzzing)]
pub(crate) use catalogue::fuzz;
pub use create::{BackupOptions, resolved};
pub use repository::{Removed, Repository};
pub use verify::Verified;

/// A callback that receives the number of bytes done and their total. If it returns an error, the
/// work ends.
pub type Progress<'p> = dyn FnMut(u64, u64) -> crate::Result<()> + 'p;
