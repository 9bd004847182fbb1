//! The log's commits, read beside those who write it, and a log made of such commits: for backups.
//!
//! What is copied are commits and not files: a copy of files would have to stop every lane at the
//! same commit, or a frame of one would tell that a commit which another lacks was durable. So the
//! copy says nothing of generations and notes either, and a log made of it begins its own.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use spillway_base::{Csn, Error, Result};
use spillway_storage::Disk;
use spillway_storage::plog::{FilePlog, LogReader, Plog, PlogSettings, Recovered};

use crate::manager::{Shared, TransactionManager};
use crate::record::{Record, put_commit_head, read_frame};
use crate::recovery::Fences;

/// What is read of a log at once, in bytes.
const STRETCH_BYTES: usize = 1 << 20;

/// While it is there, the log is not cut.
pub struct LogHold(Arc<Shared>);

impl Drop for LogHold {
    fn drop(&mut self) {
        *self.0.log_holds.lock() -= 1;
    }
}

/// What was copied of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogCopy {
    /// The last commit.
    pub through: Csn,
    /// Commits, without a gap up to the last.
    pub commits: u64,
}

impl TransactionManager {
    /// Keeps the log from being cut. Waits for a cut that is under way.
    #[must_use]
    pub fn hold_log(&self) -> LogHold {
        *self.0.log_holds.lock() += 1;
        LogHold(self.0.clone())
    }

    /// Gives the commits past the first of these and up to the other, lane by lane: the lane's
    /// number, and the payload of a frame that has some of them. The log in `dir` has been held
    /// since the first was persistent, and the other was stable before this is called.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Corruption`], also when commits are missing;
    /// [`spillway_base::ErrorKind::Io`]; what `give` answers.
    pub fn copy_log(
        &self,
        disk: &dyn Disk,
        dir: &Path,
        _held: &LogHold,
        Range { start: after, end: through }: Range<Csn>,
        give: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
    ) -> Result<LogCopy> {
        // Each lane has what is durable of it up to there.
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

/// Adds those records of a frame to another that are commits past `after` and up to `last`, and
/// counts them.
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

/// Writes a log from commits that were copied, in a folder without one. It says of itself how far
/// it must reach, so that an opening takes one that was not finished for damaged.
pub struct LogWriter {
    disk: Arc<dyn Disk>,
    settings: PlogSettings,
    through: Csn,
    lanes: Vec<(u32, FilePlog)>,
}

impl LogWriter {
    /// Begins a log that reaches up to the commit `through`.
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
        // One without commits says all the same that it is whole.
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
    /// As [`LogWriter::begin`], and [`spillway_base::ErrorKind::Corruption`] for a frame that is
    /// none.
    pub fn append(&mut self, lane: u32, frame: &[u8]) -> Result<()> {
        crate::check_frame(frame)?;
        let log = self.lane(lane)?;
        let room = log.reserve(frame.len() as u64)?;
        log.append(frame, false, room).map(drop)
    }

    /// Makes it durable.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::WritesStopped`], [`spillway_base::ErrorKind::Io`].
    pub fn finish(self) -> Result<()> {
        self.lanes.iter().try_for_each(|(_, log)| log.sync())
    }
}
