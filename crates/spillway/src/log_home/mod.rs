//! The location of a database's log, and protection against the use of another log.
//!
//! The newest commits are only in the log. If an opening looked for the log in the wrong folder, or
//! found an older copy or another database's log there, it would silently lose acknowledged
//! commits. So each of the two folders, the data folder and the log folder, has a file with the
//! same random number:
//!
//! - **LOG-HOME-1.** A database opens only with the log folder with which it was last opened. This
//!   folder may have been moved meanwhile.
//! - **LOG-HOME-2.** Once the database has been opened with the log in a new place, a folder that
//!   is still in the old place is no longer its log.
//! - **LOG-HOME-3.** A log folder belongs to one database.
//!
//! # Files
//!
//! Integers are little-endian. `log-home` in the data folder:
//!
//! | bytes | |
//! |--:|---|
//! | 4 | `SWLH` |
//! | 2 | version: 1 |
//! | 16 | the log's number |
//! | 16 | the previous number, if the log folder may still have it after a crash; or zeros |
//! | 4 + n | the log folder's path, in UTF-8; empty for `log` in the data folder |
//! | 4 | CRC32C of the preceding bytes |
//!
//! `log-owner` in the log folder: `SWLO`, version (2 bytes), the number (16 bytes), CRC32C of the
//! preceding bytes (4 bytes).
//!
//! Each file is written under a temporary name, synced, and renamed. An opening that finds the log
//! in a new place writes a new number into both files, into `log-home` first. So a copy of the log
//! in the old place, which has the old number, is no longer accepted.

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use spillway_base::codec::Reader;
use spillway_base::{Error, Result};
use spillway_storage::plog::lanes_in;
use spillway_storage::record::{RecordKind, new_number, number};
use spillway_storage::{Disk, DiskLock};

use crate::folders::{data_dir, log_dir};

const HOME: &str = "log-home";
const OWNER: &str = "log-owner";
const HOME_RECORD: RecordKind =
    RecordKind { magic: b"SWLH", version: 1, bytes_max: PATH_BYTES_MAX };
const OWNER_RECORD: RecordKind =
    RecordKind { magic: b"SWLO", version: 1, bytes_max: PATH_BYTES_MAX };

/// The number of a log.
pub(crate) type Number = [u8; 16];
/// Neither file is longer than a path.
const PATH_BYTES_MAX: u64 = 1 << 16;
const NONE: Number = [0; 16];

struct Home {
    number: Number,
    before: Number,
    /// Empty for the folder in the data folder.
    dir: String,
}

impl Home {
    fn encode(&self) -> Vec<u8> {
        let mut body = [self.number, self.before].concat();
        body.extend_from_slice(&(self.dir.len() as u32).to_le_bytes());
        body.extend_from_slice(self.dir.as_bytes());
        body
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Home> {
        let (number, before) = (number(reader)?, number(reader)?);
        let len = reader.u32()?;
        let dir = std::str::from_utf8(reader.take(len as usize)?);
        let dir = dir.map_err(|_| Error::corruption("a path that is not UTF-8"))?.to_owned();
        Ok(Home { number, before, dir })
    }
}

/// A database's log folder, and its lock.
pub(crate) struct LogHome {
    pub(crate) dir: PathBuf,
    /// `None` if the folder is within the data folder, which the caller has locked.
    pub(crate) lock: Option<Box<dyn DiskLock>>,
}

/// Finds the log of the database at `path`, which the caller has locked, in the folder `wanted`, or
/// in the database's own folder. If the database is new or its log was moved, writes both files.
///
/// # Errors
/// `ErrorKind::InvalidArgument` if the log is in another folder, missing, or another database's;
/// `ErrorKind::InUse`; `ErrorKind::Corruption`, `ErrorKind::UnsupportedFormat`,
/// `ErrorKind::DiskFull`, `ErrorKind::Io`.
pub(crate) fn claim(disk: &dyn Disk, path: &Path, wanted: Option<&Path>) -> Result<LogHome> {
    let own = log_dir(path);
    let wanted = wanted.map_or_else(|| Ok(own.clone()), absolute)?;
    let apart = wanted != own && wanted != absolute(&own)?;
    let dir = if apart { wanted } else { own.clone() };
    disk.create_dir_all(&dir)?;
    let lock = if apart { Some(disk.lock(&dir)?) } else { None };
    let recorded = if apart { text_of(&dir)? } else { String::new() };
    let owner = read_owner(disk, &dir)?;
    match read_home(disk, path)? {
        None if apart && disk.exists(&data_dir(path))? => return Err(elsewhere(path, &own)),
        None if apart && owner.is_some() && has_log(disk, &dir)? => return Err(of_another(&dir)),
        None => {
            // A log within the data folder belongs to the database, so its number is kept.
            let number = owner.filter(|_| !apart).unwrap_or_else(new_number);
            // `log-owner` comes first, so that `log-home` never names a folder without a number.
            write_owner(disk, &dir, number)?;
            write_home(disk, path, &Home { number, before: NONE, dir: recorded })?;
        }
        Some(home) if Path::new(&home.dir) == Path::new(&recorded) => {
            if owner != Some(home.number) {
                if owner != Some(home.before) {
                    return Err(not_there(path, &dir, owner.is_some()));
                }
                write_owner(disk, &dir, home.number)?;
            }
        }
        Some(home) if owner == Some(home.number) => {
            let mut moved = Home { number: new_number(), before: home.number, dir: recorded };
            write_home(disk, path, &moved)?;
            write_owner(disk, &dir, moved.number)?;
            moved.before = NONE;
            write_home(disk, path, &moved)?;
        }
        Some(home) => return Err(elsewhere(path, &place_of(path, &home))),
    }
    // If the process that wrote these files was killed, their names may not be durable yet.
    disk.sync_dir(path)?;
    disk.sync_dir(&dir)?;
    Ok(LogHome { dir, lock })
}

/// Begins a database folder that will contain its log. It writes `log-home` and no `log-owner`, so
/// the folder cannot be opened before [`end_making`].
///
/// # Errors
/// `ErrorKind::DiskFull`, `ErrorKind::Io`.
pub(crate) fn begin_making(disk: &dyn Disk, path: &Path) -> Result<Number> {
    let number = new_number();
    write_home(disk, path, &Home { number, before: NONE, dir: String::new() })?;
    Ok(number)
}

/// Completes a folder that [`begin_making`] has begun with this number. Everything else in the
/// folder is durable.
///
/// # Errors
/// `ErrorKind::DiskFull`, `ErrorKind::Io`.
pub(crate) fn end_making(disk: &dyn Disk, path: &Path, number: Number) -> Result<()> {
    write_owner(disk, &log_dir(path), number)
}

/// Finds the log folder of the database at `path`, and changes nothing.
///
/// # Errors
/// As [`claim`].
pub(crate) fn find(disk: &dyn Disk, path: &Path) -> Result<PathBuf> {
    let Some(home) = read_home(disk, path)? else { return Ok(log_dir(path)) };
    let dir = place_of(path, &home);
    match read_owner(disk, &dir)? {
        Some(owner) if [home.number, home.before].contains(&owner) => Ok(dir),
        owner => Err(not_there(path, &dir, owner.is_some())),
    }
}

fn place_of(path: &Path, home: &Home) -> PathBuf {
    if home.dir.is_empty() { log_dir(path) } else { PathBuf::from(&home.dir) }
}

/// The absolute path of a folder. Only such a path may be recorded: the next opening may have
/// another current folder.
fn absolute(dir: &Path) -> Result<PathBuf> {
    std::path::absolute(dir).map_err(|error| {
        Error::invalid(format!("log_dir {} cannot be a folder: {error}", dir.display()))
    })
}

fn text_of(dir: &Path) -> Result<String> {
    let text = dir.to_str().ok_or_else(|| Error::invalid("log_dir is not UTF-8"))?;
    Ok(text.to_owned())
}

/// Whether a folder contains any part of a log.
fn has_log(disk: &dyn Disk, dir: &Path) -> Result<bool> {
    Ok(!lanes_in(disk, dir)?.is_empty())
}

fn elsewhere(path: &Path, dir: &Path) -> Error {
    Error::invalid(format!(
        "the log of {} is in {}, and may hold commits that no other file has. Open the database with \
         this log folder, or move the whole folder to the new place first",
        path.display(),
        dir.display()
    ))
}

fn not_there(path: &Path, dir: &Path, another: bool) -> Error {
    let what = if another { "is not the log of" } else { "does not have the log of" };
    Error::invalid(format!(
        "{} {what} {}. The log was there when the database was last open, and may hold commits that no \
         other file has. Put it back, or remove {} to open the database without these commits",
        dir.display(),
        path.display(),
        path.join(HOME).display()
    ))
}

fn of_another(dir: &Path) -> Error {
    Error::invalid(format!("{} has the log of another database", dir.display()))
}

fn read_home(disk: &dyn Disk, path: &Path) -> Result<Option<Home>> {
    HOME_RECORD.read(disk, &path.join(HOME), Home::decode)
}

fn read_owner(disk: &dyn Disk, dir: &Path) -> Result<Option<Number>> {
    OWNER_RECORD.read(disk, &dir.join(OWNER), number)
}

fn write_home(disk: &dyn Disk, path: &Path, home: &Home) -> Result<()> {
    HOME_RECORD.write(disk, path, HOME, &home.encode())
}

fn write_owner(disk: &dyn Disk, dir: &Path, number: Number) -> Result<()> {
    OWNER_RECORD.write(disk, dir, OWNER, &number)
}

#[cfg(fuzzing)]
pub(crate) mod fuzz {
    use super::*;

    pub(crate) fn home(bytes: &[u8]) {
        let sealed = HOME_RECORD.encode(bytes);
        let Ok(home) = HOME_RECORD.decode(&sealed, Home::decode) else { return };
        assert_eq!(home.encode(), bytes);
    }
}
