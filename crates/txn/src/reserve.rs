//! A reserve of disk space for commits that free space.
//!
//! A statement that frees space writes to the log before it frees anything. On a full disk the log
//! has no room for that write, so no statement could ever free space. The log's folder therefore
//! holds a file, `reserve`, whose only purpose is to occupy space. If a commit that frees space
//! meets a full disk, it cuts a part off the file, and uses the space that the file system thereby
//! gains.
//!
//! - **RESERVE-1 (size).** The reserve takes a sixteenth of the space that is free when the file is
//!   made: at least a sixteenth of a log segment, and at most a whole segment.
//! - **RESERVE-2 (for whom).** While the reserve is not whole, the transaction manager accepts only
//!   commits that free space, and the note that precedes a cut of the log. Other commits fail with
//!   [`ErrorKind::DiskFull`], because they would use up the space that was cut off the file.
//! - **RESERVE-3 (in parts).** The transaction manager gives the reserve to the file system in
//!   eighths. It does this for a commit that frees space in two cases:
//!   - *The log has no room for the commit.* The manager gives one eighth at a time, until the log
//!     has room.
//!   - *An engine has no memory for the commit, and cannot free memory because the disk is full.*
//!     The manager gives eighths until they cover the commit's bytes. The engine then accepts the
//!     commit, because it can flush as many bytes into the given space.
//!
//!   The last quarter of the reserve is only for commits that drop tables, and for the note of a
//!   cut. Both free space and write little.
//! - **RESERVE-4 (made whole).** Each commit after one that met a full disk first tries to make the
//!   reserve whole again. The attempt succeeds if the file system has the space for all missing
//!   parts. During a time of hope (RESERVE-5), commits make no attempt while an engine finds the
//!   disk full, because the engine may need the given space to free more.
//! - **RESERVE-5 (hope).** Background work returns space to the file system some time after the
//!   commit that frees it. So a time of hope, [`HOPE`] long, follows each commit that frees space
//!   on a full disk, each commit that drops a table, and an opening on a full disk. In this time,
//!   commits that find the disk full wait for the space instead of failing. If there is no space
//!   for another log segment, the manager asks the engines to free space. If an engine's background
//!   work finds the disk full, the manager gives eighths for that work too.
//! - **RESERVE-6 (no harm).** The file stores no data but its own size. If the file is lost, or
//!   cannot be made, read or cut, the database works without a reserve.
//! - **RESERVE-7 (room for flushes).** An engine writes a commit to its own files after the log has
//!   it. If the disk has too little space for this commit and for everything that the engines have
//!   yet to write, the manager refuses the commit as on a full disk. It still accepts commits that
//!   free space. So engines can flush memtables and write checkpoints on a full disk, and the
//!   reserve is left for the work that frees more. If the engines need the space that is left, the
//!   log makes small segments instead of whole ones.
//!
//! # Format
//!
//! The file begins with `SWRS`, the size of the whole file in bytes (u64, little-endian), and the
//! CRC32C of these bytes. The rest has no meaning. If the file does not begin like this, the
//! opening chooses its size anew.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use spillway_base::checksum::crc32c;
use spillway_base::codec::Reader;
use spillway_base::lock::Mutex;
use spillway_base::{Error, ErrorKind, Result};
use spillway_storage::{Disk, File, OpenMode};

use crate::options::Frees;

const NAME: &str = "reserve";
const HEAD: &[u8] = b"SWRS";
/// The share of the free space that the reserve takes, and the least share of a log segment.
const SHARE: u64 = 16;
/// The number of parts; a commit takes one at a time (RESERVE-3).
const PARTS: u64 = 8;
const DROPS_SHARE: u64 = 4;
/// The file is truncated at multiples of this.
const PAGE: u64 = 4096;
/// How long other commits wait for the space that a commit has freed.
pub(crate) const HOPE: Duration = Duration::from_secs(10);

struct ReserveState {
    /// The bytes that the file has now.
    bytes: u64,
    /// Bytes that were given for commits to an engine without room, and that no commit has used
    /// yet.
    lent: u64,
}

/// The reserve's file. The module's page states its guarantees.
pub(crate) struct Reserve {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    /// The bytes of a log segment.
    segment_bytes: u64,
    /// `None` if the file could not be made.
    file: Option<Arc<dyn File>>,
    /// Its bytes when it is whole.
    bytes: u64,
    kept: Mutex<ReserveState>,
    /// Whether a full disk was met since the last commit that found room.
    is_full: AtomicBool,
    /// The time until which other commits wait (RESERVE-5), in nanoseconds of the clock.
    hope_until: AtomicU64,
}

impl Reserve {
    /// Opens the reserve in a log's folder, or makes one.
    pub(crate) fn open(disk: Arc<dyn Disk>, dir: &Path, segment_bytes: u64) -> Reserve {
        let opened = open(&*disk, dir, segment_bytes);
        let (file, bytes, kept) = match opened {
            Ok((file, bytes, kept)) => (Some(file), bytes, kept),
            // RESERVE-6.
            Err(_) => (None, 0, 0),
        };
        let reserve = Reserve {
            disk,
            dir: dir.to_owned(),
            segment_bytes,
            file,
            bytes,
            kept: Mutex::new(ReserveState { bytes: kept, lent: 0 }),
            is_full: AtomicBool::new(false),
            hope_until: AtomicU64::new(0),
        };
        let lacks_room = reserve.lacks_room();
        if !reserve.make_whole() || lacks_room {
            reserve.met_full_disk();
        }
        reserve
    }

    /// Whether no part of the reserve is given away.
    #[cfg(test)]
    pub(crate) fn is_whole(&self) -> bool {
        self.kept.lock().bytes == self.bytes
    }

    /// Whether commits must check the reserve: a full disk was met, or the reserve is not whole.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// The bytes of a log segment.
    pub(crate) fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    /// Whether the file system has no space for another log segment.
    pub(crate) fn lacks_room(&self) -> bool {
        self.disk.available(&self.dir).unwrap_or(0) < self.segment_bytes
    }

    /// Notes that the disk is full.
    pub(crate) fn met_full_disk(&self) {
        self.is_full.store(true, Ordering::Relaxed);
    }

    /// Notes that a commit found room while the reserve was whole.
    pub(crate) fn found_room(&self) {
        self.is_full.store(false, Ordering::Relaxed);
    }

    /// Gives a part to the file system, for a commit that frees this much (RESERVE-3). Returns
    /// `false` if no part is left for such a commit.
    pub(crate) fn give(&self, frees: Frees) -> bool {
        self.give_part(&mut self.kept.lock(), frees)
    }

    /// Gives enough parts to cover `bytes`, which a commit adds to the memory of an engine that has
    /// no room.
    pub(crate) fn lend(&self, frees: Frees, bytes: usize) -> bool {
        let mut kept = self.kept.lock();
        while kept.lent < bytes as u64 {
            if !self.give_part(&mut kept, frees) {
                return false;
            }
            kept.lent += self.part();
        }
        kept.lent -= bytes as u64;
        true
    }

    fn part(&self) -> u64 {
        (self.bytes / PARTS).max(PAGE)
    }

    fn give_part(&self, kept: &mut ReserveState, frees: Frees) -> bool {
        let least = match frees {
            Frees::Nothing => return false,
            Frees::Rows => self.bytes / DROPS_SHARE,
            Frees::Tables => PAGE,
        };
        let Some(file) = self.file.as_ref().filter(|_| kept.bytes > least) else { return false };
        let left = kept.bytes.saturating_sub(self.part()).max(least) / PAGE * PAGE;
        self.met_full_disk();
        let given = file.set_len(left);
        if given.is_ok() {
            kept.bytes = left;
        }
        given.is_ok()
    }

    /// Takes the given parts back, if the file system has the space (RESERVE-4). Returns whether
    /// the reserve is whole.
    pub(crate) fn make_whole(&self) -> bool {
        let mut kept = self.kept.lock();
        let missing = self.bytes - kept.bytes;
        let Some(file) = self.file.as_ref().filter(|_| missing > 0) else { return true };
        if !self.disk.available(&self.dir).is_ok_and(|available| available >= missing) {
            return false;
        }
        // The allocation must be durable. Otherwise the space could belong to other files after a
        // crash.
        let taken = file.allocate(kept.bytes, missing).and_then(|()| file.sync());
        let is_whole = taken.is_ok();
        if is_whole {
            *kept = ReserveState { bytes: self.bytes, lent: 0 };
        } else {
            // Part of the space may have been allocated.
            let _ = file.set_len(kept.bytes);
        }
        is_whole
    }

    /// Notes that a commit has freed something on a full disk. Other commits then wait for space
    /// (RESERVE-5).
    pub(crate) fn hope(&self, now: Duration) {
        self.hope_until.fetch_max((now + HOPE).as_nanos() as u64, Ordering::Relaxed);
    }

    /// Whether commits wait for space that another commit has freed.
    pub(crate) fn has_hope(&self, now: Duration) -> bool {
        (now.as_nanos() as u64) < self.hope_until.load(Ordering::Relaxed)
    }

    /// The error for a commit that finds no room.
    pub(crate) fn refusal(&self) -> Error {
        Error::new(
            ErrorKind::DiskFull,
            "the disk is full; free space, or drop, truncate or empty a table, to go on",
        )
    }
}

/// Returns the file, its bytes when whole, and its bytes now.
fn open(disk: &dyn Disk, dir: &Path, segment_bytes: u64) -> Result<(Arc<dyn File>, u64, u64)> {
    let path = dir.join(NAME);
    let mode = if disk.exists(&path)? { OpenMode::Write } else { OpenMode::Create };
    let file = disk.open(&path, mode)?;
    let kept = file.len()? / PAGE * PAGE;
    if let Some(bytes) = read_size(&*file, kept)? {
        return Ok((file, bytes.clamp(kept, segment_bytes.max(kept)), kept));
    }
    let free = disk.available(dir)? + kept;
    let bytes = (free / SHARE).clamp(segment_bytes / SHARE, segment_bytes);
    let bytes = kept.max(bytes.next_multiple_of(PAGE));
    let mut head = HEAD.to_vec();
    head.extend_from_slice(&bytes.to_le_bytes());
    head.extend_from_slice(&crc32c(&head).to_le_bytes());
    file.write_at(0, &head)?;
    disk.sync_dir(dir)?;
    Ok((file, bytes, kept))
}

/// The size that the file records for its whole state.
fn read_size(file: &dyn File, kept: u64) -> Result<Option<u64>> {
    let mut bytes = [0; 16];
    if kept < PAGE {
        return Ok(None);
    }
    file.read_at(0, &mut bytes)?;
    let mut reader = Reader::new(&bytes);
    let (head, size, crc) = (reader.take(HEAD.len())?, reader.u64()?, reader.u32()?);
    let is_sound = head == HEAD && crc == crc32c(&bytes[..12]);
    Ok(is_sound.then_some(size / PAGE * PAGE))
}
