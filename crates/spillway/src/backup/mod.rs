//! Backups of a running database, kept in a folder that holds many of them.
//!
//! A backup is the files of the tiered engine as they are at one moment, and the log from there on.
//! Restored, it is opened like a database after a crash. Extents never change and no two have one
//! number, so a folder of backups, a
//! [`Repository`], holds each only once, and a later backup copies what is new.
//!
//! # Guarantees
//!
//! - **BACKUP-1 (a prefix).** A restored database has exactly the commits up to one, without a gap:
//!   [`Backup::through`], which is no earlier than any commit that was acknowledged before the
//!   backup began.
//! - **BACKUP-2 (beside everything).** Nobody waits for a backup, and it waits for nobody. The log
//!   is not cut while the backup reads it, and the space of extents that it has to copy is not
//!   freed until it ends.
//! - **BACKUP-3 (increments).** An extent that the repository has of the same database, with the
//!   same checksum, is not copied again.
//! - **BACKUP-4 (all or nothing).** A backup exists once its catalogue does, which is written after
//!   everything that it needs is durable. A backup that ends early, by a crash or a full disk,
//!   leaves the others whole. The next backup or removal deletes its remains.
//! - **BACKUP-5 (checked).** Each frame's checksum is verified when it is copied, and again, with
//!   that of the file, when it is verified or restored. Damage is named, and never passed on.
//! - **BACKUP-6 (removal).** Removing a backup deletes what no other needs, and nothing else.
//! - **BACKUP-7 (another database).** A restored database is a database of its own: its backups and
//!   those of its origin share nothing, since both number their new extents alike.
//! - **BACKUP-8 (no half restored).** A folder whose restore did not finish does not open.
//! - **BACKUP-9 (apart).** A folder of backups is none of the database's own folders, and neither
//!   is within the other.
//!
//! # Files
//!
//! A repository is a folder with a file `spillway-repository` (`SWRP`, version 1 in 2 bytes,
//! CRC32C) and:
//!
//! ```text
//! NNNNNN.backup         the catalogue of a backup (see `catalogue`)
//! NNNNNN.log            its commits past what is in extents: frames of
//!                       lane u32, length u32, records (see `spillway_txn`'s `record`), CRC32C of all before u32
//! extents/DB-ID.extent  an extent's bytes, by the database's identity and its number, in hexadecimal
//! ```
//!
//! The identity of a database is in `backup-identity` in its folder (`SWID`, version 1 in 2 bytes,
//! 16 bytes, CRC32C), and is made with its first backup. A folder copied by other means has the
//! same identity. If that is then used as a second database, or in place of the first, the file
//! must be removed from it: a repository refuses a backup if it has an extent of the same number
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

/// Told of the bytes done and of those there are; what it answers may end the work.
pub type Progress<'p> = dyn FnMut(u64, u64) -> crate::Result<()> + 'p;
