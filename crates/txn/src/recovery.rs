//! Opening: reading the log back into the engines (DESIGN, D5).
//!
//! Commits are applied in CSN order up to the first that is missing. Installing is idempotent (E3), so what
//! the engines persisted already is installed again without harm. A new log generation is begun, with
//! the last applied commit as its fence: a record of an earlier generation beyond the fence was
//! discarded by that opening, and is never read again.
//!
//! A log that begins after the engines' persisted commits end has lost something that was acknowledged, and
//! is corruption. Notes in the log, written before it was cut, say how far the engines had come.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use spillway_base::budget::Budget;
use spillway_base::clock::Clock;
use spillway_base::{Csn, Error, Result};
use spillway_storage::Disk;
use spillway_storage::plog::{FilePlog, PlogSettings, Recovered, read_log};

use crate::lane::Lane;
use crate::manager::{Engines, HorizonHandle, ManagerSettings, TransactionManager};
use crate::record::{Record, read_frame};

const LANE: u32 = 0;

/// Where the log is.
#[derive(Clone, Debug)]
pub struct LogSettings {
    /// Its folder.
    pub dir: PathBuf,
    /// The size of a segment's file, in bytes.
    pub segment_bytes: u64,
}

/// What an opening found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecoveryReport {
    /// Commits read from the log.
    pub commits: u64,
    /// Bytes of log read.
    pub bytes: u64,
    /// The last commit of the database.
    pub last: Csn,
}

struct Replay {
    /// The segments with their newest commit.
    newest: Vec<(u64, Csn)>,
    first: Option<Csn>,
    last: Csn,
    floor: Csn,
    commits: u64,
    bytes: u64,
}

impl Replay {
    fn commit(&mut self, csn: Csn, path: &Path) -> Result<()> {
        let gap = self.first.is_some() && csn != self.last.next();
        if gap {
            return Err(Error::corruption(format!(
                "{}: commit {csn} follows commit {} in the log; those between are missing",
                path.display(),
                self.last
            )));
        }
        self.first.get_or_insert(csn);
        self.last = csn;
        self.commits += 1;
        Ok(())
    }

    /// Checks that the log goes on where the engines' own files end, and that it comes as far as the last
    /// opening found.
    fn check_ends(&mut self, reopened: Csn, fence: Option<Csn>, dir: &Path) -> Result<()> {
        self.floor = self.floor.max(reopened);
        if let Some(first) = self.first.filter(|first| *first > self.floor.next()) {
            return Err(Error::corruption(format!(
                "{}: the log begins with commit {first}, but the data files end with commit {}",
                dir.display(),
                self.floor
            )));
        }
        let (last, fence) = (self.last.max(self.floor), fence.unwrap_or(Csn::ZERO));
        if last < fence {
            return Err(Error::corruption(format!(
                "{}: the log ends with commit {last}, but commit {fence} was there when it was last opened",
                dir.display(),
            )));
        }
        Ok(())
    }
}

/// Reads the log into the engines and opens it for writing.
///
/// # Errors
/// [`spillway_base::ErrorKind::Corruption`], [`spillway_base::ErrorKind::UnsupportedFormat`],
/// [`spillway_base::ErrorKind::DiskFull`], [`spillway_base::ErrorKind::Io`].
pub fn recover(
    disk: &Arc<dyn Disk>,
    log: &LogSettings,
    settings: ManagerSettings,
    horizon: &HorizonHandle,
    engines: Engines,
    budget: Budget,
    clock: Clock,
) -> Result<(TransactionManager, RecoveryReport)> {
    let (found, replay) = replay(&**disk, &log.dir, &engines)?;
    let last = replay.last.max(replay.floor);
    let plog = FilePlog::open(
        disk.clone(),
        PlogSettings { dir: log.dir.clone(), lane: LANE, segment_bytes: log.segment_bytes },
        &found,
        last.0,
    )?;
    horizon.0.recovered(last);
    let lane = Lane::new(Box::new(plog), horizon.0.clone(), last);
    for (segment, newest) in &replay.newest {
        lane.adopt_segment(*segment, *newest);
    }
    let report = RecoveryReport { commits: replay.commits, bytes: replay.bytes, last };
    let snapshots = horizon.0.clone();
    let manager = TransactionManager::new(settings, snapshots, engines, lane, budget, clock);
    Ok((manager, report))
}

fn replay(disk: &dyn Disk, dir: &Path, engines: &Engines) -> Result<(Recovered, Replay)> {
    let mut replay = Replay {
        newest: Vec::new(),
        first: None,
        last: Csn::ZERO,
        floor: Csn::ZERO,
        commits: 0,
        bytes: 0,
    };
    let found = read_log(disk, dir, LANE, &mut |position, segment, payload| {
        let fence = segment.fence_after.map_or(Csn::MAX, Csn);
        replay.bytes += payload.len() as u64;
        read_frame(payload, &mut |record| {
            match record {
                Record::Note(persisted) => replay.floor = replay.floor.max(persisted),
                Record::Commit(csn, _) if csn > fence => {}
                Record::Commit(csn, batch) => {
                    replay.commit(csn, dir)?;
                    engines.iter().for_each(|engine| engine.install(csn, &batch));
                }
            }
            Ok(())
        })
        .map_err(|error| {
            error.context(format!(
                "{}: segment {}, offset {}",
                dir.display(),
                position.segment,
                position.offset
            ))
        })?;
        match replay.newest.last_mut() {
            Some((of, newest)) if *of == position.segment => *newest = replay.last,
            _ => replay.newest.push((position.segment, replay.last)),
        }
        Ok(())
    })?;
    replay.check_ends(
        engines.reopened_at(),
        found.segments.last().map(|last| Csn(last.fence)),
        dir,
    )?;
    Ok((found, replay))
}
