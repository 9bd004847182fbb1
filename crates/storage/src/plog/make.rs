//! Makes segments, in new files or in the files of segments that are no longer needed.
//!
//! A file is made under a temporary name and gets its segment's name once its header is durable. So
//! a file with a segment's name has a complete header, and an unreadable header is damage.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use spillway_base::{Error, ErrorKind, Result};

use super::kept::last_kept;
use super::segment::{HEADER_BYTES, Header, file_name, kept_name, next_name};
use super::{PlogSettings, Recovered};
use crate::{Disk, File, OpenMode};

/// The bytes of zeros that are written and synced in one step. The sync of a concurrent commit
/// waits for all that the device has queued, and so for one step at most. Once a commit waits for
/// the segment itself, the steps are not synced.
const ZEROS: usize = 1 << 20;

/// A segment whose name and header are durable, and whose bytes are allocated.
pub(super) struct Segment {
    pub(super) header: Header,
    pub(super) file: Arc<dyn File>,
    pub(super) bytes: u64,
}

impl Segment {
    /// Bytes for frames.
    pub(super) fn capacity(&self) -> u64 {
        self.bytes - HEADER_BYTES
    }
}

/// A segment that leaves the log.
#[derive(Clone, Copy)]
pub(super) struct Leaving {
    pub(super) sequence: u64,
    pub(super) kept: bool,
}

/// Makes segments of one lane, one at a time, because they share the temporary name.
pub(super) struct Maker {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) settings: PlogSettings,
    /// Whether an append waits for the segment that is being made.
    pub(super) hurry: AtomicBool,
}

impl Maker {
    pub(super) fn new(disk: Arc<dyn Disk>, settings: PlogSettings) -> Maker {
        Maker { disk, settings, hurry: AtomicBool::new(false) }
    }

    pub(super) fn path(&self, sequence: u64) -> PathBuf {
        self.settings.dir.join(file_name(self.settings.lane, sequence))
    }

    fn next_path(&self) -> PathBuf {
        self.settings.dir.join(next_name(self.settings.lane))
    }

    /// Makes a segment in a new file.
    pub(super) fn make(&self, header: Header, bytes: u64) -> Result<Segment> {
        let made = self.fill(&header, bytes).and_then(|file| self.name(header, file, bytes));
        if made.is_err() {
            // Releases the space now. If this fails, the next segment made overwrites the file.
            let _ = self.disk.remove(&self.next_path());
        }
        made
    }

    fn fill(&self, header: &Header, bytes: u64) -> Result<Arc<dyn File>> {
        let file = self.disk.open(&self.next_path(), OpenMode::Create)?;
        file.allocate(0, bytes)?;
        file.write_at(0, &header.encode())?;
        let zeros = vec![0; ZEROS.min(bytes as usize)];
        let mut offset = HEADER_BYTES;
        while offset < bytes {
            let count = (bytes - offset).min(zeros.len() as u64);
            let zeros = &zeros[..count as usize];
            match self.hurry.load(Ordering::Relaxed) {
                false => file.write_and_sync(offset, zeros)?,
                true => file.write_at(offset, zeros)?,
            }
            offset += count;
        }
        file.sync()?;
        Ok(file)
    }

    /// Makes a segment from the file of one that is no longer needed, without taking space. The
    /// frames left in it have another sequence number or generation, and are never taken for new
    /// ones.
    pub(super) fn reuse(&self, sequence: u64, header: Header, bytes: u64) -> Result<Segment> {
        // Remove the old name before the old header: a segment with a name has its own header.
        self.disk.rename(&self.path(sequence), &self.next_path())?;
        self.disk.sync_dir(&self.settings.dir)?;
        let file = self.disk.open(&self.next_path(), OpenMode::Write)?;
        file.write_at(0, &header.encode())?;
        file.sync()?;
        self.name(header, file, bytes)
    }

    fn name(&self, header: Header, file: Arc<dyn File>, bytes: u64) -> Result<Segment> {
        self.disk.rename(&self.next_path(), &self.path(header.sequence))?;
        self.disk.sync_dir(&self.settings.dir)?;
        Ok(Segment { header, file, bytes })
    }

    /// Makes sure that frames which were read back stay readable. Their writer may have been killed
    /// between a write and its sync, or after a failed sync. After a failed sync the system counts
    /// the bytes as clean, so they reach the device only if they are written again.
    pub(super) fn settle(&self, found: &Recovered) -> Result<()> {
        if found.tail.is_empty() {
            return Ok(());
        }
        let file = self.disk.open(&self.path(found.end.segment), OpenMode::Write)?;
        let mut bytes = vec![0; (found.tail.end - found.tail.start) as usize];
        file.read_at(found.tail.start, &mut bytes)?;
        file.write_at(found.tail.start, &bytes)?;
        file.sync()
    }

    /// Removes the segments that an earlier opening made ahead and did not use, and the one it was
    /// making. Returns a segment that can be reused as the next one.
    pub(super) fn clear(&self, found: &Recovered) -> Result<Option<(u64, u64)>> {
        if self.disk.exists(&self.next_path())? {
            self.disk.remove(&self.next_path())?;
        }
        let used = found.segments.iter().rposition(|segment| segment.frames > 0);
        let mut unused = found.segments[used.map_or(0, |used| used + 1)..].iter();
        let again = unused.next().map(|segment| (segment.sequence, segment.bytes));
        // From the last one backwards, so that no crash leaves a gap.
        for segment in unused.rev() {
            self.disk.remove(&self.path(segment.sequence))?;
        }
        self.disk.sync_dir(&self.settings.dir)?;
        Ok(again)
    }

    /// Removes segments, in order, or renames those that must be kept. A failure includes the
    /// number of segments that left the log before it.
    pub(super) fn release(&self, segments: &[Leaving]) -> Result<usize, (usize, Error)> {
        for (count, Leaving { sequence, kept }) in segments.iter().enumerate() {
            let path = self.path(*sequence);
            let left = match kept {
                true => self.disk.rename(&path, &self.kept_path(*sequence)),
                false => self.disk.remove(&path),
            };
            match left {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err((count, error)),
                _ => {}
            }
            // A crash undoes the latest changes of a folder first (DISK-4). So if a segment is back
            // in the log, all later ones are, too, and one sync at the end suffices. A renaming is
            // still synced at once, because the file is the only copy of its rows.
            if *kept {
                let synced = self.disk.sync_dir(&self.settings.dir);
                synced.map_err(|error| (count + 1, error))?;
            }
        }
        let count = segments.len();
        self.disk.sync_dir(&self.settings.dir).map_err(|error| (count, error))?;
        Ok(count)
    }

    fn kept_path(&self, sequence: u64) -> PathBuf {
        self.settings.dir.join(kept_name(self.settings.lane, sequence))
    }

    /// The number of the first segment of a new generation: `again` if that segment is reused,
    /// otherwise one above all segments of the log and all kept ones (PLOG-8).
    ///
    /// # Errors
    /// [`ErrorKind::Corruption`] if the log has a segment that is not above all kept ones,
    /// [`ErrorKind::Io`].
    pub(super) fn next_sequence(&self, found: &Recovered, again: Option<u64>) -> Result<u64> {
        let (dir, lane) = (&self.settings.dir, self.settings.lane);
        let kept = last_kept(&*self.disk, dir, lane)?;
        if found.segments.first().is_some_and(|first| first.sequence <= kept) {
            return Err(Error::corruption(format!(
                "{}: segment {kept} of lane {lane} is kept, and the log has one before it",
                dir.display()
            )));
        }
        let last = found.segments.last().map_or(found.end.segment, |last| last.sequence);
        Ok(again.unwrap_or(last.max(kept) + 1))
    }

    /// Whether an attempt to reuse a segment's file has removed its name.
    pub(super) fn is_gone(&self, sequence: u64) -> bool {
        matches!(self.disk.exists(&self.path(sequence)), Ok(false))
    }
}
