//! Takes a backup.

use std::collections::{HashMap, HashSet};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use spillway_base::checksum::crc32c;
use spillway_base::clock::{self, Clock};
use spillway_base::{Error, ErrorKind, Result};
use spillway_memory::MemoryPin;
use spillway_storage::record::{self, RecordKind};
use spillway_storage::{Disk, OpenMode};
use spillway_tiered::{ExtentCopy, Pin};

use super::catalogue::{self, Backup, Catalogue, MemoryFile};
use super::pace::Pace;
use super::repository::{Repository, extent_name, memory_name};
use super::{Progress, log};
use crate::Database;
use crate::inner::Inner;
use crate::log_home::Number;

const IDENTITY: &str = "backup-identity";
const IDENTITY_RECORD: RecordKind = RecordKind { magic: b"SWID", version: 1, bytes_max: 64 };

/// The options of a backup.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct BackupOptions {
    /// The most bytes of extents and of the memory engine's files that are copied in a second.
    /// `None` for no limit.
    pub bytes_per_second: Option<u64>,
}

impl BackupOptions {
    /// Options without a limit on the speed.
    #[must_use]
    pub fn new() -> BackupOptions {
        BackupOptions::default()
    }

    /// Limits the speed to `rate` bytes a second.
    #[must_use]
    pub fn bytes_per_second(mut self, rate: Option<u64>) -> BackupOptions {
        self.bytes_per_second = rate;
        self
    }
}

/// A path with its symbolic links resolved, as far as it exists.
#[must_use]
pub fn resolved(path: &Path) -> PathBuf {
    resolve(&std::path::absolute(path).unwrap_or_else(|_| path.to_owned()), LINKS_MAX)
}

/// The most links that are followed in a chain of links.
const LINKS_MAX: usize = 40;

fn resolve(path: &Path, links: usize) -> PathBuf {
    if let Ok(there) = path.canonicalize() {
        return there;
    }
    let (Some(above), Some(last)) = (path.parent(), path.components().next_back()) else {
        return path.to_owned();
    };
    let mut above = resolve(above, links);
    if last == Component::ParentDir {
        above.pop();
        return above;
    }
    let path = above.join(last);
    match path.read_link() {
        // The path is a link whose target does not exist.
        Ok(target) if links > 0 => resolve(&above.join(target), links - 1),
        _ => path,
    }
}

impl Database {
    /// Refuses a folder for backups that is within one of the database's own folders, or has one
    /// within it.
    ///
    /// # Errors
    /// [`crate::ErrorKind::InvalidArgument`].
    pub fn check_backup_folder(&self, dir: &Path) -> Result<()> {
        let backups = resolved(dir);
        let own = self.0.folders().into_iter().find(|own| {
            let own = resolved(own);
            own.starts_with(&backups) || backups.starts_with(&own)
        });
        let Some(own) = own else { return Ok(()) };
        Err(Error::invalid(format!(
            "backups cannot be in {}: {} is the database's own folder; choose one apart from it",
            dir.display(),
            own.display()
        )))
    }

    /// Takes a backup of the committed state, while all other work continues. [`super`] states its
    /// guarantees.
    ///
    /// # Errors
    /// [`crate::ErrorKind::DiskFull`] in the repository, [`crate::ErrorKind::Corruption`] if a part
    /// of the database or the repository is damaged, [`crate::ErrorKind::Closed`],
    /// [`crate::ErrorKind::Io`], and any error of `progress`.
    pub fn backup(
        &self,
        repository: &Repository,
        options: &BackupOptions,
        progress: &mut Progress<'_>,
    ) -> Result<Backup> {
        let _open = self.0.open()?;
        self.check_backup_folder(&repository.dir)?;
        // Remove the remains of an unfinished backup. Damage to another backup does not prevent
        // this one.
        if repository.catalogues().is_ok() {
            repository.collect()?;
        }
        let number = repository.numbers()?.last().map_or(1, |last| last + 1);
        let mut taking = Taking {
            db: &self.0,
            repository,
            number,
            copied: Vec::new(),
            copied_memory: Vec::new(),
        };
        taking.run(options, progress).inspect_err(|_| taking.undo())
    }
}

/// The identity of a database. Its first backup creates it.
fn identity_of(disk: &dyn Disk, path: &Path) -> Result<Number> {
    let file = path.join(IDENTITY);
    if let Some(there) = IDENTITY_RECORD.read(disk, &file, record::number)? {
        // If the process that wrote the file was killed, the file's name may not be durable yet.
        disk.sync_dir(path)?;
        return Ok(there);
    }
    let new = record::new_number();
    IDENTITY_RECORD.write(disk, path, IDENTITY, &new)?;
    Ok(new)
}

fn bytes_of(pin: &Pin) -> u64 {
    pin.extents().map(|copy| copy.bytes).sum()
}

struct Taking<'a> {
    db: &'a Inner,
    repository: &'a Repository,
    number: u64,
    /// The names of extents whose copies were begun.
    copied: Vec<String>,
    /// The names of the memory engine's files whose copies were begun.
    copied_memory: Vec<String>,
}

impl Taking<'_> {
    fn run(&mut self, options: &BackupOptions, progress: &mut Progress<'_>) -> Result<Backup> {
        let (db, repository) = (self.db, self.repository);
        // The catalogue has milliseconds.
        let taken = Duration::from_millis(clock::wall().as_millis() as u64);
        let identity = identity_of(&*db.disk, &db.path)?;
        let held = db.manager.hold_log();
        // The memory engine is pinned first. So the stable CSN at the pin of the tiered engine is
        // not below the CSN of the memory engine's files, and the log has the commits in between.
        let memory = db.memory.pin()?;
        let pin = db.tiered.pin();
        // The backup has no commit after the pin. Such a commit may state something about a table's
        // rows that does not hold for the pinned files, such as that all rows are in the newest
        // form.
        let (persisted, through) = (pin.persisted().min(memory.csn), pin.stable());
        let all = bytes_of(&pin);
        progress(0, all)?;
        let path = repository.log_path(self.number);
        let mut log = log::Writer::begin(&*repository.disk, &path)?;
        let commits = persisted..through;
        let copy =
            db.manager.copy_log(&*db.disk, &db.log_dir, &held, commits, &mut |lane, frame| {
                db.check_open()?;
                progress(0, all)?;
                log.put(lane, frame)
            })?;
        drop(held);
        let (log_bytes, log_crc) = log.finish()?;
        let mut new = (0, 0);
        self.copy_extents(&pin, &identity, options, progress, &mut new)?;
        repository.disk.sync_dir(&repository.extents_dir())?;
        let memory_files = self.copy_memory(&memory, &identity, options, progress, &mut new)?;
        repository.disk.sync_dir(&repository.memory_dir())?;
        let backup = Backup {
            number: self.number,
            taken,
            through: copy.through,
            extents: pin.extents().len() as u64,
            data_bytes: bytes_of(&pin),
            memory_bytes: memory_files.iter().map(|file| file.bytes).sum(),
            log_commits: copy.commits,
            log_bytes,
            new_extents: new.0,
            new_bytes: new.1,
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let catalogue = Catalogue {
            backup,
            identity,
            persisted,
            log_crc,
            segment_bytes: db.segment_bytes(),
            manifest: pin.manifest(),
            extents: pin.extents().collect(),
            memory: memory_files,
        };
        // The name of the backup's log must be durable before the catalogue is written.
        repository.disk.sync_dir(&repository.dir)?;
        catalogue.write(&*repository.disk, &repository.dir)?;
        Ok(catalogue.backup)
    }

    /// Copies the extents that the repository does not have, and counts them.
    fn copy_extents(
        &mut self,
        pin: &Pin,
        identity: &Number,
        options: &BackupOptions,
        progress: &mut Progress<'_>,
        (new_extents, new_bytes): &mut (u64, u64),
    ) -> Result<()> {
        let (db, repository) = (self.db, self.repository);
        let known = self.known(identity)?;
        let mut pace = Pace::begin(Clock::system(), options.bytes_per_second);
        let all = bytes_of(pin);
        let (mut done, mut bytes) = (0, Vec::new());
        for (index, copy) in pin.extents().enumerate() {
            db.check_open()?;
            match known.get(&copy.id) {
                Some(there) if *there == copy => {}
                Some(_) => return Err(self.of_another(&copy)),
                None => {
                    pin.read(index, &mut bytes)?;
                    let name = extent_name(identity, copy.id);
                    let path = repository.extents_dir().join(&name);
                    self.copied.push(name);
                    let file = repository.disk.open(&path, OpenMode::Create)?;
                    file.write_at(0, &bytes)?;
                    file.sync()?;
                    let goes_on = &mut || {
                        db.check_open()?;
                        progress(done, all)
                    };
                    pace.after(copy.bytes, goes_on)?;
                    *new_extents += 1;
                    *new_bytes += copy.bytes;
                }
            }
            done += copy.bytes;
            progress(done, all)?;
        }
        Ok(())
    }

    /// Copies the memory engine's files that the repository does not have.
    fn copy_memory(
        &mut self,
        pin: &MemoryPin,
        identity: &Number,
        options: &BackupOptions,
        progress: &mut Progress<'_>,
        (_, new_bytes): &mut (u64, u64),
    ) -> Result<Vec<MemoryFile>> {
        let (db, repository) = (self.db, self.repository);
        let mut pace = Pace::begin(Clock::system(), options.bytes_per_second);
        let all = pin.files.iter().map(|file| file.len).sum();
        let there = self.known_memory(identity)?;
        let (mut files, mut done, mut bytes) = (Vec::new(), 0, Vec::new());
        for pinned in &pin.files {
            db.check_open()?;
            bytes.resize(pinned.len as usize, 0);
            pinned.read_at(0, &mut bytes)?;
            let file = MemoryFile {
                in_log: pinned.in_log,
                name: pinned.name.clone(),
                bytes: pinned.len,
                crc: crc32c(&bytes),
            };
            let name = memory_name(identity, &file);
            if !there.contains(&name) {
                let copy = repository.memory_dir().join(&name);
                self.copied_memory.push(name);
                let to = repository.disk.open(&copy, OpenMode::Create)?;
                to.write_at(0, &bytes)?;
                to.sync()?;
                *new_bytes += pinned.len;
                pace.after(pinned.len, &mut || {
                    db.check_open()?;
                    progress(done, all)
                })?;
            }
            files.push(file);
            done += pinned.len;
            progress(done, all)?;
        }
        Ok(files)
    }

    /// The memory engine's files in complete backups of the database.
    fn known_memory(&self, identity: &Number) -> Result<HashSet<String>> {
        let repository = self.repository;
        let names: HashSet<String> =
            repository.disk.list(&repository.memory_dir())?.into_iter().collect();
        let mut known = HashSet::new();
        for number in repository.numbers()? {
            // The files of a damaged catalogue are copied again.
            let Ok(catalogue) = repository.catalogue(number) else { continue };
            if catalogue.identity == *identity {
                known.extend(catalogue.memory.iter().map(|file| memory_name(identity, file)));
            }
        }
        known.retain(|name| names.contains(name));
        Ok(known)
    }

    /// The extents of the database that the repository has, by number.
    fn known(&self, identity: &Number) -> Result<HashMap<u64, ExtentCopy>> {
        let repository = self.repository;
        let names = repository.disk.list(&repository.extents_dir())?;
        let names: HashSet<String> = names.into_iter().collect();
        let mut known = HashMap::new();
        for number in repository.numbers()? {
            // The files of a damaged catalogue are copied again.
            let Ok(catalogue) = repository.catalogue(number) else { continue };
            if catalogue.identity != *identity {
                continue;
            }
            let there = catalogue.extents.into_iter();
            let there = there.filter(|copy| names.contains(&extent_name(identity, copy.id)));
            known.extend(there.map(|copy| (copy.id, copy)));
        }
        Ok(known)
    }

    fn of_another(&self, copy: &ExtentCopy) -> Error {
        Error::invalid(format!(
            "{} already has another extent {} of a database with this identity: this data folder was \
             copied, or was replaced by an older copy. Remove {} and back up again; that backup copies \
             everything",
            self.repository.dir.display(),
            copy.id,
            self.db.path.join(IDENTITY).display()
        ))
    }

    /// Removes the files that this backup has begun. Failures are ignored: the next backup or
    /// removal removes the rest.
    fn undo(&self) {
        let (disk, repository) = (&self.repository.disk, self.repository);
        // If the failure came after the catalogue was written, the backup may exist. Then nothing
        // is removed.
        let there = repository.catalogue(self.number).map(|_| ());
        if !there.is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            return;
        }
        let _ = disk.remove(&repository.log_path(self.number));
        let _ = disk.remove(&repository.dir.join(catalogue::new_name(self.number)));
        for name in &self.copied {
            let _ = disk.remove(&repository.extents_dir().join(name));
        }
        for name in &self.copied_memory {
            let _ = disk.remove(&repository.memory_dir().join(name));
        }
        let _ = disk.sync_dir(&repository.memory_dir());
        let _ = disk.sync_dir(&repository.extents_dir());
        let _ = disk.sync_dir(&repository.dir);
    }
}
