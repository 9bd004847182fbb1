//! A folder of backups.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use spillway_base::{Error, ErrorKind, Result};
use spillway_storage::record::RecordKind;
use spillway_storage::{Disk, DiskLock, RealDisk};

use super::catalogue::{self, Backup, Catalogue, MemoryFile};
use super::log;
use crate::log_home::Number;

const MARK: &str = "spillway-repository";
const MARK_RECORD: RecordKind = RecordKind { magic: b"SWRP", version: 1, bytes_max: 64 };
const EXTENTS: &str = "extents";
const MEMORY: &str = "memory";

/// A folder of backups, locked for this process until it is dropped.
pub struct Repository {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) dir: PathBuf,
    _lock: Box<dyn DiskLock>,
}

/// The files that a removal deleted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Removed {
    /// The number of extents that no other backup needed.
    pub extents: u64,
    /// The number of all files.
    pub files: u64,
}

pub(super) fn extent_name(identity: &Number, id: u64) -> String {
    let mut name = String::with_capacity(56);
    identity.iter().for_each(|byte| write!(name, "{byte:02x}").expect("a string takes all"));
    write!(name, "-{id:012x}.extent").expect("a string takes all");
    name
}

/// The name of a file of the memory engine in a repository. It has the file's length and checksum,
/// so backups share files of the same content.
pub(super) fn memory_name(identity: &Number, file: &MemoryFile) -> String {
    let mut name = String::with_capacity(100);
    identity.iter().for_each(|byte| write!(name, "{byte:02x}").expect("a string takes all"));
    let MemoryFile { name: of, bytes, crc, .. } = file;
    write!(name, "-{of}-{bytes:x}-{crc:08x}.memory").expect("a string takes all");
    name
}

impl Repository {
    /// Opens a folder of backups.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when it is not a folder of backups, [`ErrorKind::InUse`] while
    /// another process works on it, [`ErrorKind::Corruption`], [`ErrorKind::UnsupportedFormat`],
    /// [`ErrorKind::Io`].
    pub fn open(dir: impl AsRef<Path>) -> Result<Repository> {
        Repository::open_on(Arc::new(RealDisk), dir.as_ref(), false)
    }

    /// Opens a folder of backups, and creates it if the folder does not exist or is empty.
    ///
    /// # Errors
    /// As [`Repository::open`], and [`ErrorKind::DiskFull`].
    pub fn open_or_make(dir: impl AsRef<Path>) -> Result<Repository> {
        Repository::open_on(Arc::new(RealDisk), dir.as_ref(), true)
    }

    /// Opens a folder of backups on a disk, and creates it if `make`.
    ///
    /// # Errors
    /// As [`Repository::open_or_make`].
    pub fn open_on(disk: Arc<dyn Disk>, dir: &Path, make: bool) -> Result<Repository> {
        let marked = disk.exists(&dir.join(MARK))?;
        if !marked {
            let none = || {
                let text = format!("{} is no folder of backups", dir.display());
                Error::new(ErrorKind::NotFound, text)
            };
            // The remains of a creation of the repository that a crash ended.
            let begun =
                |name: &&String| name.starts_with(MARK) || name.eq_ignore_ascii_case("lock");
            if !make || !disk.list(dir)?.iter().all(|name| begun(&name)) {
                return Err(none());
            }
            disk.create_dir_all(dir)?;
        }
        let lock = disk.lock(dir)?;
        if marked {
            MARK_RECORD.read(&*disk, &dir.join(MARK), |_| Ok(()))?;
        } else {
            MARK_RECORD.write(&*disk, dir, MARK, &[])?;
        }
        disk.create_dir_all(&dir.join(EXTENTS))?;
        disk.create_dir_all(&dir.join(MEMORY))?;
        Ok(Repository { disk, dir: dir.to_owned(), _lock: lock })
    }

    pub(super) fn extents_dir(&self) -> PathBuf {
        self.dir.join(EXTENTS)
    }

    pub(super) fn memory_dir(&self) -> PathBuf {
        self.dir.join(MEMORY)
    }

    pub(super) fn extent_path(&self, identity: &Number, id: u64) -> PathBuf {
        self.extents_dir().join(extent_name(identity, id))
    }

    pub(super) fn log_path(&self, number: u64) -> PathBuf {
        self.dir.join(log::file_name(number))
    }

    /// The numbers of its backups, ascending.
    ///
    /// # Errors
    /// [`ErrorKind::Io`].
    pub fn numbers(&self) -> Result<Vec<u64>> {
        let names = self.disk.list(&self.dir)?;
        let numbers: BTreeSet<u64> =
            names.iter().filter_map(|name| catalogue::parse_name(name)).collect();
        Ok(numbers.into_iter().collect())
    }

    /// Its backups, oldest first; for a damaged catalogue, the error.
    ///
    /// # Errors
    /// [`ErrorKind::Io`].
    pub fn list(&self) -> Result<Vec<(u64, Result<Backup>)>> {
        let read = |number| (number, self.catalogue(number).map(|catalogue| catalogue.backup));
        Ok(self.numbers()?.into_iter().map(read).collect())
    }

    pub(super) fn catalogue(&self, number: u64) -> Result<Catalogue> {
        Catalogue::read(&*self.disk, &self.dir, number)?.ok_or_else(|| {
            let text = format!("{} has no backup {number}", self.dir.display());
            Error::new(ErrorKind::NotFound, text)
        })
    }

    /// The catalogues, by number. A damaged one is an error.
    pub(super) fn catalogues(&self) -> Result<BTreeMap<u64, Catalogue>> {
        self.numbers()?.into_iter().map(|number| Ok((number, self.catalogue(number)?))).collect()
    }

    /// The newest backup's number.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when there is none, [`ErrorKind::Io`].
    pub fn newest(&self) -> Result<u64> {
        self.numbers()?.last().copied().ok_or_else(|| {
            let text = format!("{} has no backups", self.dir.display());
            Error::new(ErrorKind::NotFound, text)
        })
    }

    /// Removes a backup, and the files that no other backup needs. A backup with a damaged
    /// catalogue can be removed too, but its files stay as long as another catalogue is damaged.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; [`ErrorKind::Corruption`] when another catalogue is damaged;
    /// [`ErrorKind::Io`].
    pub fn remove(&self, number: u64) -> Result<Removed> {
        let path = self.dir.join(catalogue::file_name(number));
        if !self.disk.exists(&path)? {
            self.catalogue(number)?;
        }
        self.disk.remove(&path)?;
        // The backup's files may be removed only once the removal of its catalogue is durable.
        self.disk.sync_dir(&self.dir)?;
        self.collect()
    }

    /// Removes the files that no backup needs.
    pub(super) fn collect(&self) -> Result<Removed> {
        let catalogues = self.catalogues()?;
        let needed: HashSet<String> = catalogues
            .values()
            .flat_map(|kept| kept.extents.iter().map(|copy| extent_name(&kept.identity, copy.id)))
            .collect();
        let mut removed = Removed::default();
        let dir = self.extents_dir();
        for name in self.disk.list(&dir)? {
            if name.ends_with(".extent") && !needed.contains(&name) {
                self.disk.remove(&dir.join(name))?;
                removed.extents += 1;
            }
        }
        let needed: HashSet<String> = catalogues
            .values()
            .flat_map(|kept| kept.memory.iter().map(|file| memory_name(&kept.identity, file)))
            .collect();
        let (memory, mut files) = (self.memory_dir(), 0);
        for name in self.disk.list(&memory)? {
            if name.ends_with(".memory") && !needed.contains(&name) {
                self.disk.remove(&memory.join(name))?;
                files += 1;
            }
        }
        let log_of = |name: &str| name.strip_suffix(".log")?.parse::<u64>().ok();
        for name in self.disk.list(&self.dir)? {
            let orphan = log_of(&name).is_some_and(|number| !catalogues.contains_key(&number));
            if orphan || name.ends_with(".backup.new") {
                self.disk.remove(&self.dir.join(name))?;
                files += 1;
            }
        }
        removed.files = removed.extents + files;
        self.disk.sync_dir(&dir)?;
        self.disk.sync_dir(&memory)?;
        self.disk.sync_dir(&self.dir)?;
        Ok(removed)
    }
}
