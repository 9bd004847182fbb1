//! Segments that have left the redo log, and that an engine keeps because it reads its rows there
//! (LOG-READ-4 to LOG-READ-8 of [`spillway_base::log_place`]).
//!
//! A kept segment is the file of a cut segment under another name, `LL-NNNNNNNNNNNNNNNN.kept` in
//! the log's folder. A cut renames the file and copies nothing. No later write changes the file;
//! the engine may only return the space of ranges that it does not read any more. So a read in
//! progress continues (DISK-7), and a reader needs only the lane and the number to find the file.
//!
//! A crash may undo a rename that was not synced (DISK-4). The segment is then in the redo log
//! again, and the next cut asks the engine again whether to keep it. [`KeptSegments::open`] finds
//! the segment in either case.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use spillway_base::{Error, ErrorKind, Result};

use super::segment::{file_name, kept_name, parse_kept_name};
use crate::{Disk, File, OpenMode};

/// A kept segment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct KeptSegment {
    /// Its lane.
    pub lane: u32,
    /// Its sequence number in its lane.
    pub segment: u64,
    /// The length of its file, in bytes.
    pub bytes: u64,
}

/// The name of a kept segment's file in the log's folder.
#[must_use]
pub fn kept_file_name(lane: u32, segment: u64) -> String {
    kept_name(lane, segment)
}

/// The segments of a log, for an engine that reads its rows there.
pub trait KeptSegments: Send + Sync {
    /// The kept segments, by lane and number, ascending. Segments of the redo log are not among
    /// them.
    ///
    /// # Errors
    /// [`ErrorKind::Io`].
    fn list(&self) -> Result<Vec<KeptSegment>>;

    /// Opens a segment for reading, whether it is in the redo log or kept already. The file stays
    /// readable while it is open, and its bytes at places that the engine has learned do not change
    /// as long as the engine keeps the segment (LOG-READ-5, LOG-READ-9).
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if the segment is in neither (LOG-READ-8), [`ErrorKind::Io`].
    fn open(&self, lane: u32, segment: u64) -> Result<Arc<dyn File>>;

    /// Removes a kept segment durably. `false` if there is none of this number: it was removed
    /// before, or is still in the redo log. In the second case, a later cut asks the engine whether
    /// to keep the segment. If a cut in progress has asked already, and the engine has promised to
    /// keep the segment, the engine removes it once the segment is listed.
    ///
    /// # Errors
    /// [`ErrorKind::Io`]; a later call tries again.
    fn remove(&self, lane: u32, segment: u64) -> Result<bool>;

    /// Returns the space of ranges of a kept segment, whose ends are multiples of 4096 bytes. The
    /// ranges then read as zeros ([`File::punch`]). Before that, the segment's name is made
    /// durable, so that no crash brings the segment back into the redo log. `false` if the file
    /// system cannot return space within a file.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if no kept segment has this number, [`ErrorKind::Io`]: some of the
    /// ranges may read as zeros.
    fn punch(&self, lane: u32, segment: u64, ranges: &[Range<u64>]) -> Result<bool>;
}

/// The segments of a log in files of one folder.
pub struct KeptFiles {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
}

impl KeptFiles {
    /// Of the log in this folder.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, dir: &Path) -> KeptFiles {
        KeptFiles { disk, dir: dir.to_owned() }
    }
}

/// The outcome, or `None` if a file was not found.
fn if_found<T>(outcome: Result<T>) -> Result<Option<T>> {
    match outcome {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        outcome => outcome.map(Some),
    }
}

impl KeptSegments for KeptFiles {
    fn list(&self) -> Result<Vec<KeptSegment>> {
        let mut kept = Vec::new();
        for name in self.disk.list(&self.dir)? {
            let Some((lane, segment)) = parse_kept_name(&name) else { continue };
            let opened = if_found(self.disk.open(&self.dir.join(name), OpenMode::Read))?;
            if let Some(file) = opened {
                kept.push(KeptSegment { lane, segment, bytes: file.len()? });
            }
        }
        kept.sort_unstable();
        Ok(kept)
    }

    fn open(&self, lane: u32, segment: u64) -> Result<Arc<dyn File>> {
        // A segment is renamed from the first name to the second, and never back. So if it is not
        // under the first, it was renamed before this thread tries the second.
        for name in [file_name(lane, segment), kept_name(lane, segment)] {
            if let Some(file) = if_found(self.disk.open(&self.dir.join(name), OpenMode::Read))? {
                return Ok(file);
            }
        }
        Err(Error::new(
            ErrorKind::NotFound,
            format!("{}: segment {segment} of lane {lane} is missing", self.dir.display()),
        ))
    }

    fn remove(&self, lane: u32, segment: u64) -> Result<bool> {
        let path = self.dir.join(kept_name(lane, segment));
        let removed = if_found(self.disk.remove(&path))?.is_some();
        // Sync even if nothing was removed: an earlier call may have failed to sync its removal.
        self.disk.sync_dir(&self.dir)?;
        Ok(removed)
    }

    fn punch(&self, lane: u32, segment: u64, ranges: &[Range<u64>]) -> Result<bool> {
        let file = self.disk.open(&self.dir.join(kept_name(lane, segment)), OpenMode::Write)?;
        self.disk.sync_dir(&self.dir)?;
        punch_all(&*file, ranges)
    }
}

/// Returns the space of ranges of a file. `false` if the file system cannot.
///
/// # Errors
/// As [`File::punch`].
pub fn punch_all(file: &dyn File, ranges: &[Range<u64>]) -> Result<bool> {
    for range in ranges {
        if !file.punch(range.start, range.end - range.start)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The largest number of a kept segment of a lane, 0 for none.
pub(super) fn last_kept(disk: &dyn Disk, dir: &Path, lane: u32) -> Result<u64> {
    let names = disk.list(dir)?;
    let kept = names.iter().filter_map(|name| parse_kept_name(name));
    Ok(kept.filter(|(of, _)| *of == lane).map(|(_, segment)| segment).max().unwrap_or(0))
}
