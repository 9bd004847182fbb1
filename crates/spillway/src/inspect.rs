//! Inspects the folder of a database that no process has open.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use spillway_base::batch::Op;
use spillway_base::{Csn, Error, Result};
use spillway_memory::{MemoryInspection, inspect_folder};
use spillway_storage::plog::{KeptFiles, lanes_in, read_log};
use spillway_storage::{Disk, DiskLock, RealDisk};
use spillway_tiered::{Inspection, Offline};

use crate::directory::{self, DIRECTORY};
use crate::folders::{data_dir, memory_dir};
use crate::log_home;
use crate::transaction::Table;

/// The newest version of each row of a table, by key; a deleted row has no value.
type Newest = BTreeMap<Vec<u8>, (Csn, Option<Vec<u8>>)>;

/// A database's folder, locked so that no process can open the database. Nothing in it is changed.
pub struct ClosedFolder {
    disk: Arc<dyn Disk>,
    offline: Option<Offline>,
    memory: PathBuf,
    log: Result<PathBuf>,
    _lock: Box<dyn DiskLock>,
}

impl ClosedFolder {
    /// Locks a folder and reads its structure.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::InUse`] while a process has it open,
    /// [`spillway_base::ErrorKind::InvalidArgument`] for a folder without a database,
    /// [`spillway_base::ErrorKind::Corruption`], [`spillway_base::ErrorKind::UnsupportedFormat`],
    /// [`spillway_base::ErrorKind::Io`].
    pub fn open(path: impl AsRef<Path>) -> Result<ClosedFolder> {
        ClosedFolder::open_on(Arc::new(RealDisk), path.as_ref())
    }

    pub(crate) fn open_on(disk: Arc<dyn Disk>, path: &Path) -> Result<ClosedFolder> {
        let data = data_dir(path);
        if !disk.exists(&data)? {
            return Err(Error::invalid(format!("{} is no database folder", path.display())));
        }
        let lock = disk.lock(path)?;
        let offline = Offline::open(&disk, &data)?;
        let log = log_home::find(&*disk, path);
        Ok(ClosedFolder { disk, offline, memory: memory_dir(path), log, _lock: lock })
    }

    /// Describes its data files. Rows that are only in the log are not included.
    #[must_use]
    pub fn inspect(&self) -> Inspection {
        self.offline.as_ref().map(Offline::inspect).unwrap_or_default()
    }

    /// Describes the memory engine's last checkpoint, and the log segments with its rows. The
    /// result includes damage.
    #[must_use]
    pub fn inspect_memory(&self) -> MemoryInspection {
        match &self.log {
            Ok(log) => {
                let log = KeptFiles::new(self.disk.clone(), log);
                inspect_folder(&self.disk, &self.memory, &log)
            }
            Err(error) => {
                let damage = vec![error.to_string()];
                MemoryInspection { damage, ..MemoryInspection::default() }
            }
        }
    }

    /// The names of its tables, from data files and log.
    ///
    /// # Errors
    /// As [`ClosedFolder::rows`].
    pub fn names(&self) -> Result<BTreeMap<String, Table>> {
        let mut names = BTreeMap::new();
        for (key, value) in self.rows(DIRECTORY)? {
            if directory::is_table(&key) {
                let name = String::from_utf8_lossy(&key).into_owned();
                names.insert(name, directory::decode(&value)?);
            }
        }
        Ok(names)
    }

    /// The rows of a table, from data files and log. They include the writes of commits that were
    /// in progress when the database ended, and that an opening may discard. All rows are held in
    /// memory, so use it only for small tables such as the directory.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Corruption`], [`spillway_base::ErrorKind::Io`];
    /// [`spillway_base::ErrorKind::InvalidArgument`] if the log is not where it was.
    pub fn rows(&self, table: Table) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
        let mut newest = Newest::new();
        let mut note = |key: &[u8], csn: Csn, value: Option<&[u8]>| {
            let known = newest.entry(key.to_vec()).or_insert((csn, None));
            if known.0 <= csn {
                *known = (csn, value.map(<[u8]>::to_vec));
            }
        };
        if let Some(offline) = &self.offline {
            offline.versions(table, &mut note)?;
        }
        let log = self.log.as_ref().map_err(Error::clone)?;
        for lane in lanes_in(&*self.disk, log)? {
            read_log(&*self.disk, log, lane, &mut |_, _, payload| {
                spillway_txn::commits_in(payload, &mut |csn, op| match op {
                    Op::Put { table: of, key, value } if of == table => note(key, csn, Some(value)),
                    Op::Delete { table: of, key } if of == table => note(key, csn, None),
                    _ => {}
                })
            })?;
        }
        let there = newest.into_iter().filter_map(|(key, (_, value))| Some((key, value?)));
        Ok(there.collect())
    }
}
