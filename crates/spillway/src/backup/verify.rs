//! Verifies backups.

use std::collections::HashSet;
use std::path::Path;

use spillway_base::checksum::crc32c;
use spillway_base::{Error, Result};
use spillway_storage::{Disk, OpenMode};
use spillway_tiered::Copied;

use super::catalogue::{Catalogue, MemoryFile};
use super::repository::{Repository, memory_name};
use super::{Progress, log};

/// The results of a verification.
#[derive(Clone, Debug, Default)]
pub struct Verified {
    /// The number of backups.
    pub backups: u64,
    /// Extents read, each once.
    pub extents: u64,
    /// Bytes read.
    pub bytes: u64,
    /// The errors that were found; empty if there are none.
    pub findings: Vec<Error>,
}

impl Repository {
    /// Reads all backups, or the one with this number, and verifies every checksum. Extents that
    /// several backups share are read once.
    ///
    /// # Errors
    /// An error that prevented the verification, and any error of `progress`. The report has the
    /// errors that it found.
    pub fn verify(&self, only: Option<u64>, progress: &mut Progress<'_>) -> Result<Verified> {
        let numbers = match only {
            Some(number) => vec![number],
            None => self.numbers()?,
        };
        let mut report = Verified::default();
        let mut catalogues = Vec::new();
        for number in numbers {
            match self.catalogue(number) {
                Ok(catalogue) => catalogues.push(catalogue),
                Err(error) if only.is_some() && error.kind() == crate::ErrorKind::NotFound => {
                    return Err(error);
                }
                Err(error) => report.findings.push(error),
            }
        }
        let all = catalogues.iter().map(|c| c.backup.data_bytes + c.backup.log_bytes).sum();
        let (mut seen, mut seen_files) = (HashSet::new(), HashSet::new());
        let mut done = 0;
        for catalogue in &catalogues {
            report.backups += 1;
            let read = self
                .read_log(catalogue, &mut |_, frame| spillway_txn::check_frame(frame).map(drop));
            report.findings.extend(read.err());
            report.bytes += catalogue.backup.log_bytes;
            done += catalogue.backup.log_bytes;
            let copied = Copied::decode(&catalogue.manifest)?;
            let mut bytes = Vec::new();
            for (index, copy) in catalogue.extents.iter().enumerate() {
                // The same extent with another checksum is read again.
                if seen.insert((catalogue.identity, copy.id, copy.crc)) {
                    let read = self.read_extent(catalogue, &copied, index, &mut bytes);
                    report.findings.extend(read.err());
                    report.extents += 1;
                    report.bytes += copy.bytes;
                }
                done += copy.bytes;
                progress(done, all)?;
            }
            for file in &catalogue.memory {
                if seen_files.insert((catalogue.identity, file.clone())) {
                    report.findings.extend(self.read_memory(catalogue, file, &mut bytes).err());
                    report.bytes += file.bytes;
                }
            }
        }
        Ok(report)
    }

    pub(super) fn read_log(
        &self,
        catalogue: &Catalogue,
        give: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let path = self.log_path(catalogue.backup.number);
        log::read(&*self.disk, path, (catalogue.backup.log_bytes, catalogue.log_crc), give)
    }

    /// Reads a file of the memory engine, and verifies all of it.
    pub(super) fn read_memory(
        &self,
        catalogue: &Catalogue,
        file: &MemoryFile,
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        let path = self.memory_dir().join(memory_name(&catalogue.identity, file));
        let mut read = || -> Result<()> {
            read_file(&*self.disk, &path, file.bytes, bytes)?;
            match crc32c(bytes) == file.crc {
                true => Ok(()),
                false => Err(Error::corruption("it does not match its checksum")),
            }
        };
        read().map_err(|error| error.context(path.display()))
    }

    /// Reads an extent of a backup, and verifies all of it.
    pub(super) fn read_extent(
        &self,
        catalogue: &Catalogue,
        copied: &Copied,
        index: usize,
        bytes: &mut Vec<u8>,
    ) -> Result<()> {
        let copy = &catalogue.extents[index];
        let path = self.extent_path(&catalogue.identity, copy.id);
        let mut read = || -> Result<()> {
            read_file(&*self.disk, &path, copy.bytes, bytes)?;
            copied.check(index, bytes)
        };
        read().map_err(|error| error.context(path.display()))
    }
}

fn read_file(disk: &dyn Disk, path: &Path, len: u64, bytes: &mut Vec<u8>) -> Result<()> {
    let file = disk.open(path, OpenMode::Read)?;
    if file.len()? != len {
        return Err(Error::corruption(format!("it has {} bytes of {len}", file.len()?)));
    }
    bytes.resize(len as usize, 0);
    file.read_at(0, bytes)
}
