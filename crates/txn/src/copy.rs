//! Copies the log's commits for a backup, while lanes append to the log; and writes a new log from
//! copied commits, for a restore.
//!
//! A backup copies the commits, and not the log's files, because the files also contain CSNs that
//! hold for the original only. Each frame of commits has the CSN up to which every commit was
//! durable. Each note has the CSN up to which the engines' files have every commit. Each generation
//! has a fence. A log that is made from copied commits has one such CSN: its own fence, which is
//! the last copied commit.
//!
//! Rejected: to copy the files. The lanes are copied one after another while commits are appended.
//! So the copied file of a later lane could state that a commit is durable, although the copied
//! file of the commit's own lane was made earlier and lacks it. An opening would then report
//! corruption. Only a stop of all lanes at one commit could prevent that.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use spillway_base::{Csn, Error, Result};
use spillway_storage::Disk;
use spillway_storage::plog::{FilePlog, LogReader, Plog, PlogSettings, Recovered};

use crate::manager::TransactionManager;
use crate::record::{Record, put_commit_head, read_frame};
use crate::recovery::Fences;
use crate::shared::Shared;

/// The bytes of a log that one read returns.
const STRETCH_BYTES: usize = 1 << 20;

/// While one exists, the log is not cut.
pub struct LogHold(Arc<Shared>);

impl Drop for LogHold {
    fn drop(&mut self) {
        *self.0.log_holds.lock() -= 1;
    }
}

/// The result of copying a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogCopy {
    /// The last commit copied.
    pub through: Csn,
    /// The number of commits copied. They have consecutive CSNs up to `through`.
    pub commits: u64,
}

impl TransactionManager {
    /// Keeps the log from being cut. Waits for a cut in progress.
    #[must_use]
    pub fn hold_log(&self) -> LogHold {
        *self.0.log_holds.lock() += 1;
        LogHold(self.0.clone())
    }

    /// Copies the commits with CSNs above `start` and up to `end` of the range, lane by lane.
    /// `give` receives a lane's number and the payload of a frame with some of these commits. The
    /// caller has held the log in `dir` since every commit up to `start` was in the engines' files,
    /// and every commit up to `end` was stable before this call.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Corruption`], also when commits are missing;
    /// [`spillway_base::ErrorKind::Io`]; any error of `give`.
    pub fn copy_log(
        &self,
        disk: &dyn Disk,
        dir: &Path,
        _held: &LogHold,
        Range { start: after, end: through }: Range<Csn>,
        give: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
    ) -> Result<LogCopy> {
        // `through` was stable, so every lane is durable through it.
        let through = through.max(after);
        let spans = self.0.pipeline.spans();
        let readers = spans
            .iter()
            .map(|span| Ok((span.lane, LogReader::open_span(disk, dir, *span)?)))
            .collect::<Result<Vec<_>>>()?;
        let fences = Fences::new(readers.iter().flat_map(|(_, reader)| reader.fences()));
        let mut commits = 0;
        let (mut memory, mut frame) = (Vec::new(), Vec::new());
        for (lane, mut reader) in readers {
            while let Some(stretch) = reader.next_stretch(memory, STRETCH_BYTES)? {
                let last = through.min(fences.after(stretch.segment.generation));
                for (_, payload) in &stretch.frames {
                    frame.clear();
                    let payload = &stretch.bytes[payload.clone()];
                    commits += take_commits(payload, after, last, &mut frame)
                        .map_err(|error| error.context(dir.display()))?;
                    if !frame.is_empty() {
                        give(lane, &frame)?;
                    }
                }
                memory = stretch.bytes;
            }
            memory = Vec::new();
        }
        let wanted = through.0 - after.0;
        if commits != wanted {
            return Err(Error::corruption(format!(
                "{}: {commits} commits are in the log after commit {after}, and {wanted} were durable",
                dir.display()
            )));
        }
        Ok(LogCopy { through, commits })
    }
}

/// Appends the commits of a frame with CSNs above `after` and up to `last` to `frame`, and returns
/// their number.
fn take_commits(payload: &[u8], after: Csn, last: Csn, frame: &mut Vec<u8>) -> Result<u64> {
    let mut count = 0;
    read_frame(payload, &mut |record| {
        if let Record::Commit(csn, batch) = record
            && csn > after
            && csn <= last
        {
            put_commit_head(frame, csn, batch.len());
            frame.extend_from_slice(batch);
            count += 1;
        }
        Ok(())
    })?;
    Ok(count)
}

/// Writes a log from copied commits into a folder without a log. The log records the last commit
/// that it must have, so that an opening reports an unfinished log as damaged.
pub struct LogWriter {
    disk: Arc<dyn Disk>,
    settings: PlogSettings,
    through: Csn,
    lanes: Vec<(u32, FilePlog)>,
}

impl LogWriter {
    /// Begins a log that must reach the commit `through`.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::DiskFull`], [`spillway_base::ErrorKind::Io`].
    pub fn begin(
        disk: Arc<dyn Disk>,
        dir: &Path,
        segment_bytes: u64,
        through: Csn,
    ) -> Result<LogWriter> {
        let settings = PlogSettings { dir: dir.to_owned(), lane: 0, segment_bytes };
        let mut writer = LogWriter { disk, settings, through, lanes: Vec::new() };
        // Even a log without commits must record that it is complete.
        writer.lane(0)?.prepare()?;
        Ok(writer)
    }

    fn lane(&mut self, lane: u32) -> Result<&FilePlog> {
        let at = match self.lanes.iter().position(|(number, _)| *number == lane) {
            Some(at) => at,
            None => {
                let settings = PlogSettings { lane, ..self.settings.clone() };
                let none = Recovered::default();
                let disk = self.disk.clone();
                let log = FilePlog::open(disk, settings, &none, 1, self.through.0)?;
                self.lanes.push((lane, log));
                self.lanes.len() - 1
            }
        };
        Ok(&self.lanes[at].1)
    }

    /// Adds a frame to a lane.
    ///
    /// # Errors
    /// As [`LogWriter::begin`], and [`spillway_base::ErrorKind::Corruption`] for an invalid frame.
    pub fn append(&mut self, lane: u32, frame: &[u8]) -> Result<()> {
        crate::check_frame(frame)?;
        let log = self.lane(lane)?;
        let room = log.reserve(frame.len() as u64)?;
        log.append(frame, false, room).map(drop)
    }

    /// Makes the log durable.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::WritesStopped`], [`spillway_base::ErrorKind::Io`].
    pub fn finish(self) -> Result<()> {
        self.lanes.iter().try_for_each(|(_, log)| log.sync())
    }
}
