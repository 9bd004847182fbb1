//! Backups of a database that goes on meanwhile, kept in a folder that holds many of them.
//!
//! A backup is the files of the tiered engine as they are at one moment, and the log from there on. Restored, it is
//! opened like a database after a crash. Extents never change and no two have one number, so a folder of backups, a
//! [`Repository`], holds each only once, and a later backup copies what is new.
//!
//! # Guarantees
//!
//! - **B1 (a prefix).** What is restored is exactly the commits up to one, without a gap: [`Backup::through`], which is no
//!   earlier than any commit that was acknowledged before the backup began.
//! - **B2 (beside everything).** Nobody waits for a backup, and it waits for nobody. While it reads the log, that is not
//!   cut; until it ends, the space of extents that it is to copy does not come back.
//! - **B3 (increments).** An extent that the repository has of the same database is not copied again.
//! - **B4 (all or nothing).** A backup is there once its catalogue is, which is after all that it needs is durable. Whatever
//!   ends one before, a crash or a full disk, leaves the others whole and nothing of it that the next one or a removal would
//!   not take away.
//! - **B5 (checked).** Each frame's checksum is looked at when it is copied, and again when it is verified or restored,
//!   with that of the file. What is damaged is named, and never passed on.
//! - **B6 (removal).** To remove a backup takes away what no other needs, and nothing else.
//! - **B7 (another database).** What was restored is a database of its own: backups of it and of that which it came from
//!   share nothing, since both number their new extents alike.
//! - **B8 (no half restored).** A folder whose restoring came to no end does not open as if it had.
//! - **B9 (apart).** A folder of backups is none of the database's own folders, and neither is within the other.
//!
//! # Files
//!
//! A repository is a folder with a file `spillway-repository` (`SWRP`, version 1 in 2 bytes, CRC32C) and:
//!
//! ```text
//! NNNNNN.backup         the catalogue of a backup (see `catalogue`)
//! NNNNNN.log            its commits past what is in extents: frames of
//!                       lane u32, length u32, records (see `spillway_txn`'s `record`), CRC32C of all before u32
//! extents/DB-ID.extent  an extent's bytes, by the database's identity and its number, in hexadecimal
//! ```
//!
//! The identity of a database is in `backup-identity` in its folder (`SWID`, version 1 in 2 bytes, 16 bytes, CRC32C), and
//! is made with its first backup. A folder copied by other means takes it along. Where that is then used as a second
//! database, the file must be removed from it; extents of one number that differ in length or blocks are refused.

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
