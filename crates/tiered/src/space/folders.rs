//! The folders that hold a database's data files, and protection against the use of any other
//! folder in their place.
//!
//! Without tiers, data files are in the data folder, and no record of folders exists. With tiers,
//! the data folder has a record of the other folders, and each other folder has a record of its
//! owner:
//!
//! - **SPACE-1.** A database opens only with every folder that has its data files, each at its
//!   recorded path, or at the path that the settings give. If a folder is missing, the opening
//!   fails with an error that names the folder and the setting for it, and changes nothing.
//! - **SPACE-2.** A folder belongs to one database, and a database touches no file of another.
//! - **SPACE-3.** A folder that the settings no longer name is used until it is empty, and receives
//!   no new extents.
//!
//! # Files
//! Integers are little-endian. `tiers` in the data folder:
//!
//! | bytes | |
//! |--:|---|
//! | 4 | `SWTR` |
//! | 2 | version: 1 |
//! | 16 | the database's number |
//! | 2 | the largest folder number ever assigned |
//! | 2 | number of folders; then of each: |
//! | 2 | its number; numbers are never reused, because an unused folder keeps its own |
//! | 1 | its class: 0 fast, 1 ssd, 2 hdd |
//! | 4 + n | length of its path, and the path in UTF-8 |
//! | 4 | CRC32C of all preceding bytes |
//!
//! `tier-owner` in each of the other folders:
//!
//! | bytes | |
//! |--:|---|
//! | 4 | `SWTO` |
//! | 2 | version: 1 |
//! | 16 | the database's number |
//! | 2 | the folder's number |
//! | 4 | CRC32C of all preceding bytes |
//!
//! Each file is written under a temporary name, synced, and renamed.

use std::path::{Path, PathBuf};

use spillway_base::codec::Reader;
use spillway_base::{Error, Result};
use spillway_storage::record::{RecordKind, new_number, number};
use spillway_storage::{Disk, DiskLock, OpenMode};

use super::class::{DeviceClass, Folder, Tier};
use super::parse_name;

const RECORD: &str = "tiers";
const OWNER: &str = "tier-owner";
/// The most bytes of the record, enough for a few paths.
const BYTES_MAX: u64 = 1 << 20;
const FOLDERS_RECORD: RecordKind = RecordKind { magic: b"SWTR", version: 1, bytes_max: BYTES_MAX };
const OWNER_RECORD: RecordKind = RecordKind { magic: b"SWTO", version: 1, bytes_max: BYTES_MAX };

/// The number of a database, and the number of one of its folders.
type Owner = ([u8; 16], u16);

#[derive(Clone, PartialEq, Eq, Debug)]
struct Record {
    database: [u8; 16],
    /// The largest number that was assigned to a folder, or may have been assigned before a crash.
    last: u16,
    folders: Vec<Recorded>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Recorded {
    number: u16,
    class: DeviceClass,
    dir: PathBuf,
}

impl Record {
    fn encode(&self) -> Vec<u8> {
        let mut body = self.database.to_vec();
        body.extend_from_slice(&self.last.to_le_bytes());
        body.extend_from_slice(&(self.folders.len() as u16).to_le_bytes());
        for Recorded { number, class, dir } in &self.folders {
            let path = dir.to_str().unwrap_or_default();
            body.extend_from_slice(&number.to_le_bytes());
            body.push(*class as u8);
            body.extend_from_slice(&(path.len() as u32).to_le_bytes());
            body.extend_from_slice(path.as_bytes());
        }
        body
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Record> {
        let (database, last) = (number(reader)?, reader.u16()?);
        let mut folders: Vec<Recorded> = Vec::new();
        for _ in 0..reader.u16()? {
            let (number, class) = (reader.u16()?, DeviceClass::of(reader.u8()?)?);
            let len = reader.u32()? as usize;
            let path = std::str::from_utf8(reader.take(len)?);
            let path = path.map_err(|_| Error::corruption("a path that is not UTF-8"))?;
            if number > last || folders.iter().any(|other| other.number == number) {
                return Err(Error::corruption(format!("the folder {number} was never made")));
            }
            folders.push(Recorded { number, class, dir: path.into() });
        }
        Ok(Record { database, last, folders })
    }
}

/// The folders of a database, and their locks.
pub(crate) struct Claimed {
    pub(crate) folders: Vec<Folder>,
    pub(crate) locks: Vec<Box<dyn DiskLock>>,
}

/// Claims the folders of the database whose data folder is `dir`, which the caller has locked: the
/// recorded ones and those of the settings.
///
/// # Errors
/// `ErrorKind::InvalidArgument` when a folder is missing, belongs to another database, or is given
/// twice; `ErrorKind::InUse`; `ErrorKind::Corruption`, `ErrorKind::UnsupportedFormat`,
/// `ErrorKind::DiskFull`, `ErrorKind::Io`.
pub(crate) fn claim(disk: &dyn Disk, dir: &Path, tiers: &[Tier]) -> Result<Claimed> {
    let record = read_record(disk, dir)?;
    if record.is_none() && tiers.is_empty() {
        return Ok(Claimed { folders: vec![Folder::only(dir)], locks: Vec::new() });
    }
    let tiers = checked(dir, tiers)?;
    let (old, is_new) = match record {
        Some(record) => (record, false),
        None => (Record { database: new_number(), last: 0, folders: Vec::new() }, true),
    };
    let mut record = Record { folders: Vec::new(), ..old };
    let (mut fresh, mut left) = (Vec::new(), Vec::new());
    for Tier { class, dir, .. } in &tiers {
        let owner = read_owner(disk, dir)?;
        let known = old.folders.iter().find(|known| owner == Some((old.database, known.number)));
        let number = match known {
            Some(known) => known.number,
            None if old.folders.iter().any(|known| known.dir == *dir) => {
                return Err(not_there(*class, dir));
            }
            None => {
                // A folder of this database that is not recorded was left by a crash, or was given
                // up when it was empty.
                let own = owner.is_some_and(|(database, _)| database == old.database);
                let empty =
                    if own { holds_nothing(disk, dir)? } else { data_files(disk, dir)?.is_empty() };
                if (owner.is_some() && !own) || !empty {
                    return Err(of_another(*class, dir));
                }
                let next = record.last.checked_add(1);
                record.last = next.ok_or_else(|| Error::invalid("too many tiers"))?;
                fresh.push((record.last, dir.clone()));
                record.last
            }
        };
        record.folders.push(Recorded { number, class: *class, dir: dir.clone() });
    }
    let mut folders: Vec<Folder> = tiers
        .iter()
        .map(|tier| Folder { dir: tier.dir.clone(), class: tier.class, leaving: false })
        .collect();
    for known in &old.folders {
        if record.folders.iter().any(|other| other.number == known.number) {
            continue;
        }
        if read_owner(disk, &known.dir)? != Some((old.database, known.number)) {
            return Err(not_there(known.class, &known.dir));
        }
        if stays_empty(disk, &known.dir)? {
            left.push(&known.dir);
            continue;
        }
        record.folders.push(known.clone());
        folders.push(Folder { dir: known.dir.clone(), class: known.class, leaving: true });
    }
    let leaving = tiers.iter().any(|tier| tier.class == DeviceClass::Ssd);
    folders.insert(0, Folder { leaving, ..Folder::only(dir) });
    for (_, dir) in &fresh {
        disk.create_dir_all(dir)?;
    }
    let others = folders[1..].iter().map(|folder| disk.lock(&folder.dir));
    let locks = others.collect::<Result<_>>()?;
    if is_new || !fresh.is_empty() {
        // First, so that even after a crash no folder's number is given to another folder.
        write_record(disk, dir, &Record { last: record.last, ..old.clone() })?;
    }
    for (number, dir) in &fresh {
        remove_files(disk, dir)?;
        write_owner(disk, dir, (old.database, *number))?;
    }
    if record != old || is_new {
        write_record(disk, dir, &record)?;
    }
    left.into_iter().try_for_each(|dir| remove_files(disk, dir))?;
    Ok(Claimed { folders, locks })
}

/// The recorded folders of the database with this data folder. Nothing is changed.
///
/// # Errors
/// As [`claim`].
pub(crate) fn find(disk: &dyn Disk, dir: &Path) -> Result<Vec<Folder>> {
    let mut folders = vec![Folder::only(dir)];
    let Some(record) = read_record(disk, dir)? else { return Ok(folders) };
    for Recorded { number, class, dir } in record.folders {
        if read_owner(disk, &dir)? != Some((record.database, number)) {
            return Err(not_there(class, &dir));
        }
        folders.push(Folder { dir, class, leaving: false });
    }
    Ok(folders)
}

/// The tiers with whole paths.
fn checked(dir: &Path, tiers: &[Tier]) -> Result<Vec<Tier>> {
    let whole = |path: &Path| {
        let wrong = |error: &dyn std::fmt::Display| {
            Error::invalid(format!("{} cannot be a tier's folder: {error}", path.display()))
        };
        let whole = std::path::absolute(path).map_err(|error| wrong(&error))?;
        whole.to_str().map(PathBuf::from).ok_or_else(|| wrong(&"it is not UTF-8"))
    };
    let own = whole(dir)?;
    let mut found: Vec<Tier> = Vec::new();
    for tier in tiers {
        let Tier { class, dir, .. } = tier;
        let dir = whole(dir)?;
        if dir == own || found.iter().any(|other| other.dir == dir || other.class == *class) {
            return Err(Error::invalid(format!(
                "the tier {class}={} is given twice: each class has one folder, and each folder one class",
                dir.display()
            )));
        }
        found.push(Tier { dir, ..tier.clone() });
    }
    Ok(found)
}

/// Returns whether a folder has no data, and makes that durable: after a crash, data must not
/// reappear in a folder that no record names any more.
fn stays_empty(disk: &dyn Disk, dir: &Path) -> Result<bool> {
    if !holds_nothing(disk, dir)? {
        return Ok(false);
    }
    for path in data_files(disk, dir)? {
        disk.open(&path, OpenMode::Write)?.sync()?;
    }
    // Without this, a removed file may reappear after a crash.
    disk.sync_dir(dir)?;
    Ok(true)
}

/// Whether all data files of a folder are empty.
fn holds_nothing(disk: &dyn Disk, dir: &Path) -> Result<bool> {
    for path in data_files(disk, dir)? {
        if disk.open(&path, OpenMode::Read)?.len()? > 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

fn data_files(disk: &dyn Disk, dir: &Path) -> Result<Vec<PathBuf>> {
    let names = disk.list(dir)?.into_iter().filter(|name| parse_name(name).is_some());
    Ok(names.map(|name| dir.join(name)).collect())
}

/// Removes empty data files. A remaining one could conflict with a later file of the same number.
fn remove_files(disk: &dyn Disk, dir: &Path) -> Result<()> {
    data_files(disk, dir)?.iter().try_for_each(|path| disk.remove(path))
}

fn not_there(class: DeviceClass, dir: &Path) -> Error {
    Error::invalid(format!(
        "the tier {class}={} has data of this database, and is missing or is not that folder: bring it back, or give its new \
         place (--tier {class}=FOLDER; the setting tiers)",
        dir.display()
    ))
}

fn of_another(class: DeviceClass, dir: &Path) -> Error {
    Error::invalid(format!(
        "the folder of the tier {class}={} belongs to another database",
        dir.display()
    ))
}

fn read_record(disk: &dyn Disk, dir: &Path) -> Result<Option<Record>> {
    FOLDERS_RECORD.read(disk, &dir.join(RECORD), Record::decode)
}

fn read_owner(disk: &dyn Disk, dir: &Path) -> Result<Option<Owner>> {
    OWNER_RECORD.read(disk, &dir.join(OWNER), |reader| Ok((number(reader)?, reader.u16()?)))
}

fn write_record(disk: &dyn Disk, dir: &Path, record: &Record) -> Result<()> {
    FOLDERS_RECORD.write(disk, dir, RECORD, &record.encode())
}

fn write_owner(disk: &dyn Disk, dir: &Path, (database, folder): Owner) -> Result<()> {
    let body = [&database[..], &folder.to_le_bytes()].concat();
    OWNER_RECORD.write(disk, dir, OWNER, &body)
}

#[cfg(fuzzing)]
pub(crate) mod fuzz {
    use super::*;

    pub(crate) fn record(bytes: &[u8]) {
        let sealed = FOLDERS_RECORD.encode(bytes);
        let Ok(record) = FOLDERS_RECORD.decode(&sealed, Record::decode) else { return };
        assert_eq!(record.encode(), bytes);
    }
}
