//! Checks the folder of a database that no process has open.

use std::path::Path;
use std::sync::Arc;

use spillway_base::{Csn, Error, Result};
use spillway_storage::plog::{KeptFiles, LogReader, lanes_in, read_log};
use spillway_storage::{Disk, RealDisk};

use crate::folders::{data_dir, memory_dir};
use crate::log_home;

/// The result of a check.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Tables with data files, and tables of the memory engine's last checkpoint.
    pub tables: u64,
    /// Extents read.
    pub extents: u64,
    /// Versions read.
    pub versions: u64,
    /// Bytes of data files and of the memory engine's rows read.
    pub data_bytes: u64,
    /// Rows of the memory engine whose records were read.
    pub memory_rows: u64,
    /// Frames of the log read.
    pub log_frames: u64,
    /// Bytes of log read.
    pub log_bytes: u64,
    /// The errors found; empty if there are none.
    pub findings: Vec<Error>,
}

/// Reads every byte of a database's folder and verifies checksums, order and structure. `progress`
/// receives the number of extents done and their total.
///
/// # Errors
/// [`spillway_base::ErrorKind::InUse`] while a process has the folder open, and any other error
/// that prevented the check. The errors that the check finds are in the report.
pub fn check(path: impl AsRef<Path>, progress: &mut dyn FnMut(u64, u64)) -> Result<CheckReport> {
    check_on(&(Arc::new(RealDisk) as Arc<dyn Disk>), path.as_ref(), progress)
}

/// Checks a database's folder on a disk: for simulations.
///
/// # Errors
/// As [`check`].
pub fn check_on(
    disk: &Arc<dyn Disk>,
    path: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<CheckReport> {
    let data = data_dir(path);
    if !disk.exists(&data)? {
        return Err(Error::invalid(format!("{} is no database folder", path.display())));
    }
    let _lock = disk.lock(path)?;
    let verified = spillway_tiered::verify(disk, &data, progress)?;
    let mut report = CheckReport {
        tables: verified.tables,
        extents: verified.extents,
        versions: verified.versions,
        data_bytes: verified.bytes,
        findings: verified.findings.into_iter().map(|finding| finding.error).collect(),
        ..CheckReport::default()
    };
    let log = match log_home::find(&**disk, path) {
        Ok(log) => log,
        Err(error) => {
            report.findings.push(error);
            return Ok(report);
        }
    };
    let kept = Arc::new(KeptFiles::new(disk.clone(), &log));
    let memory = spillway_memory::verify(disk, &memory_dir(path), kept)?;
    report.tables += memory.tables;
    report.memory_rows = memory.rows;
    report.data_bytes += memory.bytes;
    report.findings.extend(memory.findings);
    // The last commit that a lane has, or states to be durable.
    let mut last = Csn::ZERO;
    for lane in lanes_in(&**disk, &log)? {
        let read = read_log(&**disk, &log, lane, &mut |_, _, payload| {
            report.log_frames += 1;
            report.log_bytes += payload.len() as u64;
            last = last.max(spillway_txn::check_frame(payload)?);
            Ok(())
        });
        report.findings.extend(read.err());
        if let Ok(reader) = LogReader::open(&**disk, &log, lane) {
            last = reader.fences().map(|(_, fence)| Csn(fence)).fold(last, Csn::max);
        }
    }
    let recorded = verified.newest.max(memory.newest);
    // An opening refuses such a log, too (E7). It also finds commits that are missing in between.
    if report.findings.is_empty() && last < recorded {
        let text = format!(
            "{}: the log's last commit is {last}, and the engines' files record commit {recorded}",
            log.display()
        );
        report.findings.push(Error::corruption(text));
    }
    Ok(report)
}
