//! Restores a backup.
//!
//! A restore first writes the file `log-home`, which says that the database has a log with a
//! certain number. Last, it writes that number into the log's folder. So a folder whose restore was
//! cut short cannot be opened (see `log_home`). The restored log also records the last commit that
//! it must have, so an opening reports an incomplete log as damaged.

use std::path::Path;
use std::sync::Arc;

use spillway_base::{Error, Result};
use spillway_storage::{Disk, OpenMode, RealDisk};
use spillway_tiered::Copied;
use spillway_txn::LogWriter;

use super::Progress;
use super::catalogue::{Backup, Catalogue};
use super::repository::Repository;
use crate::folders::{data_dir, log_dir, memory_dir};
use crate::log_home;

impl Repository {
    /// Creates a database from a backup, the newest or the one with this number, in a folder that
    /// does not exist or is empty. It verifies every checksum.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NotFound`] when there is no such backup,
    /// [`crate::ErrorKind::InvalidArgument`] when the folder is not empty,
    /// [`crate::ErrorKind::Corruption`] when a part of the backup is damaged,
    /// [`crate::ErrorKind::DiskFull`], [`crate::ErrorKind::Io`], and any error of `progress`. After
    /// an error the folder is not a database, and the caller should remove it.
    pub fn restore(
        &self,
        number: Option<u64>,
        to: impl AsRef<Path>,
        progress: &mut Progress<'_>,
    ) -> Result<Backup> {
        self.restore_on(number, &(Arc::new(RealDisk) as Arc<dyn Disk>), to.as_ref(), progress)
    }

    /// Restores to a folder of a disk: for simulations.
    ///
    /// # Errors
    /// As [`Repository::restore`].
    pub fn restore_on(
        &self,
        number: Option<u64>,
        disk: &Arc<dyn Disk>,
        to: &Path,
        progress: &mut Progress<'_>,
    ) -> Result<Backup> {
        let number = number.map_or_else(|| self.newest(), Ok)?;
        let catalogue = self.catalogue(number)?;
        let copied = Copied::decode(&catalogue.manifest)?;
        let taken = !disk.list(to)?.is_empty()
            || disk.exists(&data_dir(to))?
            || disk.exists(&log_dir(to))?;
        if taken {
            return Err(Error::invalid(format!(
                "{} is not empty; a backup is restored to a folder of its own",
                to.display()
            )));
        }
        disk.create_dir_all(to)?;
        let _lock = disk.lock(to)?;
        let making = log_home::begin_making(&**disk, to)?;
        let Backup { through, data_bytes, log_bytes, .. } = catalogue.backup;
        let (all, mut done) = (data_bytes + log_bytes, 0);
        disk.create_dir_all(&log_dir(to))?;
        // The kept segments come before the log, so that the log's segments get larger numbers than
        // they have (LOG-READ-7).
        self.restore_memory(&catalogue, disk, to)?;
        let segment_bytes = catalogue.segment_bytes;
        let mut log = LogWriter::begin(disk.clone(), &log_dir(to), segment_bytes, through)?;
        self.read_log(&catalogue, &mut |lane, frame| {
            log.append(lane, frame)?;
            done += frame.len() as u64;
            progress(done, all)
        })?;
        log.finish()?;
        let mut done = log_bytes;
        let lengths = copied.extents();
        let checker = Copied::decode(&catalogue.manifest)?;
        copied.restore(disk, &data_dir(to), &mut |index, bytes| {
            self.read_extent(&catalogue, &checker, index, bytes)?;
            done += lengths[index].bytes;
            progress(done, all)
        })?;
        disk.sync_dir(to)?;
        log_home::end_making(&**disk, to, making)?;
        Ok(catalogue.backup)
    }

    /// Writes the memory engine's files of a backup.
    fn restore_memory(&self, catalogue: &Catalogue, disk: &Arc<dyn Disk>, to: &Path) -> Result<()> {
        let (memory, log) = (memory_dir(to), log_dir(to));
        disk.create_dir_all(&memory)?;
        let mut bytes = Vec::new();
        for file in &catalogue.memory {
            self.read_memory(catalogue, file, &mut bytes)?;
            let dir = if file.in_log { &log } else { &memory };
            let written = disk.open(&dir.join(&file.name), OpenMode::Create)?;
            written.write_at(0, &bytes)?;
            written.sync()?;
        }
        disk.sync_dir(&memory)?;
        disk.sync_dir(&log)
    }
}
