//! The log segments that contain rows. This module gives each segment a handle: a short number that
//! identifies the segment in a row's place. It also counts the live bytes of each segment.
//!
//! - **SEGMENT-1 (live).** The live bytes of a segment are the bytes of its live records. A record
//!   is live if its place is in a version in memory or in an entry of an indirection array.
//! - **SEGMENT-2 (release).** A segment is released once it has no live bytes and a later
//!   checkpoint is durable: one that began after the segment had lost its last live bytes. So no
//!   checkpoint that an opening may read names a released segment.
//! - **SEGMENT-3 (no answer from other bytes).** A reader receives only a verified record of the
//!   requested table and key.
//! - **SEGMENT-4 (released under a read).** If a segment is released while a read of it is in
//!   progress, the read fails, because the redo log may have overwritten the file. The released
//!   segment has no live bytes, so the row's entry no longer has this place. The reader looks the
//!   row up again and finds its present version or place.
//! - **SEGMENT-5 (missing).** An opening succeeds without a segment that has live rows. Reads of
//!   these rows fail, and the error names the segment. Checkpoints name the segment as long as the
//!   engine is open, because pages of the checkpoints have places in it.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use rustc_hash::FxHashMap;
use spillway_base::batch::{RowRecord, read_row_record};
use spillway_base::lock::{Mutex, RwLock};
use spillway_base::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering, fence};
use spillway_base::{Error, ErrorKind, Result};
use spillway_storage::File;
use spillway_storage::plog::KeptSegments;

use crate::version::{HANDLES_MAX, Place, class_bytes};

/// The writer of a segment's file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Origin {
    /// The redo log.
    Log { lane: u32, segment: u64 },
    /// Log compaction, with the number of its file.
    Compacted { number: u64 },
}

/// The lane number of [`Origin::Compacted`] in files.
pub(crate) const COMPACTED_LANE: u32 = u32::MAX;

impl Origin {
    pub(crate) fn from_numbers(lane: u32, number: u64) -> Origin {
        match lane {
            COMPACTED_LANE => Origin::Compacted { number },
            lane => Origin::Log { lane, segment: number },
        }
    }

    pub(crate) fn numbers(self) -> (u32, u64) {
        match self {
            Origin::Log { lane, segment } => (lane, segment),
            Origin::Compacted { number } => (COMPACTED_LANE, number),
        }
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::Log { lane, segment } => write!(f, "segment {segment} of lane {lane}"),
            Origin::Compacted { number } => write!(f, "compacted segment {number}"),
        }
    }
}

/// The state of a segment's file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Home {
    /// The redo log still has it.
    Redo,
    /// The engine keeps it. Its length in bytes; 0 while it is not known.
    Kept(u64),
    /// It was released.
    Released,
    /// It has live rows, and the opening did not find it (SEGMENT-5).
    Missing,
}

pub(crate) struct Segment {
    pub(crate) origin: Origin,
    live: AtomicI64,
    /// The last checkpoint that had begun when the segment lost its last live bytes.
    died_in: AtomicU64,
    /// Whether log compaction met a record in it that cannot be read.
    damaged: AtomicBool,
    /// Bytes of the file whose space was returned since the opening (`engine/holes.rs`).
    holes: AtomicU64,
    /// The live bytes when the file was last searched for dead pages; the largest number before.
    searched_at: AtomicU64,
    home: Mutex<Home>,
    file: RwLock<Option<Arc<dyn File>>>,
}

impl Segment {
    fn new(origin: Origin, checkpoint: u64) -> Segment {
        Segment {
            origin,
            live: AtomicI64::new(0),
            died_in: AtomicU64::new(checkpoint),
            damaged: AtomicBool::new(false),
            holes: AtomicU64::new(0),
            searched_at: AtomicU64::new(u64::MAX),
            home: Mutex::new(Home::Redo),
            file: RwLock::new(None),
        }
    }

    pub(crate) fn live(&self) -> u64 {
        self.live.load(Ordering::Acquire).max(0) as u64
    }

    pub(crate) fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Acquire)
    }

    pub(crate) fn home(&self) -> Home {
        *self.home.lock()
    }

    pub(crate) fn set_home(&self, home: Home) {
        *self.home.lock() = home;
    }

    /// The bytes that the file of a kept segment takes on the disk. 0 if its length is not known.
    pub(crate) fn kept_bytes(&self) -> Option<u64> {
        match self.home() {
            Home::Kept(len) => Some(len.saturating_sub(self.holes())),
            _ => None,
        }
    }

    pub(crate) fn holes(&self) -> u64 {
        self.holes.load(Ordering::Acquire)
    }

    /// Notes how many bytes of the file are holes.
    pub(crate) fn set_holes(&self, bytes: u64) {
        self.holes.store(bytes, Ordering::Release);
    }

    /// The bytes that a segment of `len` bytes may have lost since it was last searched for dead
    /// pages.
    pub(crate) fn unsearched(&self, len: u64) -> u64 {
        let before = self.searched_at.load(Ordering::Acquire).min(len);
        before.saturating_sub(self.live())
    }

    /// Notes that the file was searched for dead pages when it had `live` live bytes.
    pub(crate) fn note_search(&self, live: u64) {
        self.searched_at.store(live, Ordering::Release);
    }
}

/// Opens the files of compacted segments.
pub(crate) trait CompactedFiles: Send + Sync {
    fn open(&self, number: u64) -> Result<Arc<dyn File>>;
    fn remove(&self, number: u64) -> Result<()>;
    /// As [`KeptSegments::punch`].
    fn punch(&self, number: u64, ranges: &[Range<u64>]) -> Result<bool>;
}

/// Entries of a node of the handle table's second and third level.
const LEVEL: usize = 256;

#[derive(Default)]
struct Known {
    handles: FxHashMap<Origin, u32>,
    /// The first handle that was never given.
    next: u32,
    /// Free handles below `next`.
    free: Vec<u32>,
}

type Level<T> = Box<[OnceLock<T>]>;

fn level<T>(len: usize) -> Level<T> {
    (0..len).map(|_| OnceLock::new()).collect()
}

/// All segments. The module's page states the guarantees.
pub(crate) struct Segments {
    table: Level<Level<Level<Segment>>>,
    known: RwLock<Known>,
    log: Arc<dyn KeptSegments>,
    compacted: Box<dyn CompactedFiles>,
    /// The number of backups that are copying segments.
    pins: AtomicUsize,
    /// Whether segments have left the redo log whose lengths are not noted yet.
    left_log: AtomicBool,
    /// Whether the file system cannot return space within a file.
    cannot_punch: AtomicBool,
    /// The last checkpoint that has begun; `durable` is the last that is durable.
    begun: AtomicU64,
    durable: AtomicU64,
}

impl Segments {
    pub(crate) fn new(
        log: Arc<dyn KeptSegments>,
        compacted: Box<dyn CompactedFiles>,
        checkpoint: u64,
    ) -> Segments {
        Segments {
            table: level(HANDLES_MAX as usize / LEVEL / LEVEL),
            known: RwLock::default(),
            log,
            compacted,
            pins: AtomicUsize::new(0),
            left_log: AtomicBool::new(false),
            cannot_punch: AtomicBool::new(false),
            begun: AtomicU64::new(checkpoint),
            durable: AtomicU64::new(checkpoint),
        }
    }

    /// The handle of a segment. Gives it one if it has none.
    pub(crate) fn handle(&self, origin: Origin) -> u32 {
        if let Some(handle) = self.known.read().handles.get(&origin) {
            return *handle;
        }
        let known = &mut *self.known.write();
        if let Some(handle) = known.handles.get(&origin) {
            return *handle;
        }
        let handle = known.free.pop().unwrap_or_else(|| {
            known.next += 1;
            known.next - 1
        });
        self.set(known, handle, origin);
        handle
    }

    fn set(&self, known: &mut Known, handle: u32, origin: Origin) {
        assert!(handle < HANDLES_MAX, "handles of segments are exhausted");
        let (first, second, third) = split(handle);
        let second =
            self.table[first].get_or_init(|| level(LEVEL))[second].get_or_init(|| level(LEVEL));
        let set = second[third].set(Segment::new(origin, self.begun.load(Ordering::Acquire)));
        assert!(set.is_ok(), "a handle is given once in an opening");
        known.handles.insert(origin, handle);
    }

    /// Gives segments the handles that they have in a checkpoint. Unused handles below the largest
    /// become free. `false` if a handle or a segment occurs twice, or a handle is too large.
    pub(crate) fn restore(&self, segments: &[(u32, Origin)]) -> bool {
        let known = &mut *self.known.write();
        let mut handles: Vec<u32> = segments.iter().map(|(handle, _)| *handle).collect();
        handles.sort_unstable();
        let valid = handles.windows(2).all(|pair| pair[0] < pair[1])
            && handles.last().is_none_or(|last| *last < HANDLES_MAX);
        if !valid {
            return false;
        }
        known.next = handles.last().map_or(0, |last| last + 1);
        known.free =
            (0..known.next).rev().filter(|free| handles.binary_search(free).is_err()).collect();
        for (handle, origin) in segments {
            if known.handles.contains_key(origin) {
                return false;
            }
            self.set(known, *handle, *origin);
        }
        true
    }

    /// The segment with a handle.
    pub(crate) fn get(&self, handle: u32) -> Option<&Segment> {
        let (first, second, third) = split(handle);
        self.table.get(first)?.get()?[second].get()?[third].get()
    }

    fn of(&self, handle: u32) -> &Segment {
        self.get(handle).expect("places name known segments")
    }

    /// The segment of this origin, if it has a handle.
    pub(crate) fn find(&self, origin: Origin) -> Option<&Segment> {
        let handle = *self.known.read().handles.get(&origin)?;
        self.get(handle)
    }

    /// All segments, with their handles.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Segment)> {
        let count = self.known.read().next;
        (0..count).filter_map(|handle| Some((handle, self.get(handle)?)))
    }

    /// Counts one more place that names a record.
    pub(crate) fn add_live(&self, place: Place) {
        self.of(place.handle).live.fetch_add(class_bytes(place.class) as i64, Ordering::AcqRel);
    }

    /// How many handles there are at most. Handles are below this number.
    pub(crate) fn handles_end(&self) -> usize {
        self.known.read().next as usize
    }

    /// Adds live bytes to a segment. `false` if no segment has the handle.
    pub(crate) fn add_live_bytes(&self, handle: usize, bytes: u64) -> bool {
        let segment = self.get(handle as u32);
        segment.map(|segment| segment.live.fetch_add(bytes as i64, Ordering::AcqRel)).is_some()
    }

    /// Counts one place less that names a record.
    pub(crate) fn sub_live(&self, place: Place) {
        let segment = self.of(place.handle);
        let bytes = class_bytes(place.class) as i64;
        if segment.live.fetch_sub(bytes, Ordering::AcqRel) <= bytes {
            // With the fence in `begin_checkpoint`: a checkpoint that begins after this load finds
            // that the place is gone.
            fence(Ordering::SeqCst);
            segment.died_in.fetch_max(self.begun.load(Ordering::Acquire), Ordering::AcqRel);
        }
    }

    /// Log compaction could not read the record at a place.
    pub(crate) fn note_damaged(&self, place: Place) {
        self.of(place.handle).damaged.store(true, Ordering::Release);
    }

    /// A checkpoint begins.
    pub(crate) fn begin_checkpoint(&self) -> u64 {
        let number = self.begun.fetch_add(1, Ordering::AcqRel) + 1;
        fence(Ordering::SeqCst);
        number
    }

    /// Notes that a checkpoint is durable: no opening reads an earlier one.
    pub(crate) fn end_checkpoint(&self, number: u64) {
        self.durable.fetch_max(number, Ordering::AcqRel);
    }

    /// Whether a segment may be released (SEGMENT-2).
    pub(crate) fn is_dead(&self, segment: &Segment) -> bool {
        segment.live() == 0
            && self.durable.load(Ordering::Acquire) > segment.died_in.load(Ordering::Acquire)
            && segment.live() == 0
    }

    /// Bytes of kept segments without live bytes that wait for a checkpoint before their release.
    pub(crate) fn bytes_waiting(&self) -> u64 {
        self.kept()
            .filter(|(segment, _)| segment.live() == 0 && !self.is_dead(segment))
            .map(|(_, bytes)| bytes)
            .sum()
    }

    /// Whether a kept segment can be released now.
    pub(crate) fn has_dead(&self) -> bool {
        !self.is_pinned() && self.kept().any(|(segment, _)| self.is_dead(segment))
    }

    /// The kept segments whose lengths are known, with the bytes that they take on the disk.
    pub(crate) fn kept(&self) -> impl Iterator<Item = (&Segment, u64)> {
        self.iter().filter_map(|(_, segment)| {
            let bytes = segment.kept_bytes().filter(|bytes| *bytes > 0)?;
            Some((segment, bytes))
        })
    }

    /// Bytes of the kept segments, and of the live records in them.
    pub(crate) fn kept_bytes(&self) -> (u64, u64) {
        let (mut bytes, mut live) = (0, 0);
        for (segment, len) in self.kept() {
            bytes += len;
            live += segment.live();
        }
        (bytes, live)
    }

    /// Whether a checkpoint may have places in a segment.
    pub(crate) fn was_alive_in(&self, segment: &Segment, checkpoint: u64) -> bool {
        segment.live() > 0 || segment.died_in.load(Ordering::Acquire) >= checkpoint
    }

    /// Prevents the release of segments until [`Segments::unpin`].
    pub(crate) fn pin(&self) {
        self.pins.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn unpin(&self) {
        self.pins.fetch_sub(1, Ordering::SeqCst);
    }

    pub(crate) fn is_pinned(&self) -> bool {
        self.pins.load(Ordering::SeqCst) > 0
    }

    /// Decides whether the engine keeps a segment that leaves the redo log.
    pub(crate) fn keep(&self, lane: u32, segment: u64) -> bool {
        let Some(segment) = self.find(Origin::Log { lane, segment }) else { return false };
        if self.is_dead(segment) && !self.is_pinned() {
            segment.set_home(Home::Released);
            *segment.file.write() = None;
            return false;
        }
        // `note_kept` notes its length once the file has left the log.
        segment.set_home(Home::Kept(0));
        self.left_log.store(true, Ordering::Release);
        true
    }

    /// Notes the lengths of segments that have left the redo log. The log renames a segment after
    /// [`Segments::keep`], so a later call notes one that has its old name now.
    pub(crate) fn note_kept_if_changed(&self) -> Result<()> {
        if self.left_log.swap(false, Ordering::AcqRel) {
            let noted = self.note_kept();
            if noted.is_err() || self.iter().any(|(_, segment)| segment.home() == Home::Kept(0)) {
                self.left_log.store(true, Ordering::Release);
            }
            noted?;
        }
        Ok(())
    }

    /// Notes the lengths of kept segments.
    pub(crate) fn note_kept(&self) -> Result<Vec<Origin>> {
        let mut unknown = Vec::new();
        for kept in self.log.list()? {
            let origin = Origin::Log { lane: kept.lane, segment: kept.segment };
            match self.find(origin) {
                Some(segment) if segment.home() != Home::Released => {
                    segment.set_home(Home::Kept(kept.bytes));
                }
                Some(_) => {}
                None => unknown.push(origin),
            }
        }
        Ok(unknown)
    }

    /// Releases a segment's file. `false` if the segment has not left the redo log after all: then
    /// it is released later.
    pub(crate) fn release(&self, segment: &Segment) -> Result<bool> {
        let removed = self.remove(segment.origin)?;
        if removed {
            segment.set_home(Home::Released);
            *segment.file.write() = None;
        }
        Ok(removed)
    }

    /// Removes a file that no place names. `false` if it is still in the redo log.
    pub(crate) fn remove(&self, origin: Origin) -> Result<bool> {
        match origin {
            Origin::Log { lane, segment } => self.log.remove(lane, segment),
            Origin::Compacted { number } => self.compacted.remove(number).map(|()| true),
        }
    }

    /// Returns the space of ranges of a kept segment ([`KeptSegments::punch`]).
    pub(crate) fn punch(&self, segment: &Segment, ranges: &[Range<u64>]) -> Result<bool> {
        let punched = match segment.origin {
            Origin::Log { lane, segment } => self.log.punch(lane, segment, ranges),
            Origin::Compacted { number } => self.compacted.punch(number, ranges),
        }?;
        if !punched {
            self.cannot_punch.store(true, Ordering::Relaxed);
        }
        Ok(punched)
    }

    /// Whether the file system can return space within a file, as far as is known.
    pub(crate) fn can_punch(&self) -> bool {
        !self.cannot_punch.load(Ordering::Relaxed)
    }

    /// The file of a segment, which it opens if necessary.
    pub(crate) fn file(&self, handle: u32) -> Result<Arc<dyn File>> {
        let segment = self.of(handle);
        if let Some(file) = &*segment.file.read() {
            return Ok(file.clone());
        }
        let opened = match segment.origin {
            Origin::Log { lane, segment } => self.log.open(lane, segment),
            Origin::Compacted { number } => self.compacted.open(number),
        };
        let opened = opened.map_err(|error| match error.kind() {
            ErrorKind::NotFound => Error::corruption(format!("rows are lost: {error}")),
            _ => error,
        })?;
        *segment.file.write() = Some(opened.clone());
        Ok(opened)
    }

    /// Reads the record at a place into `buffer`. With `wait`, it may wait for a device. Otherwise
    /// it returns `None` unless the page cache has all of the record.
    pub(crate) fn read<'b>(
        &self,
        place: Place,
        wait: bool,
        buffer: &'b mut Vec<u8>,
    ) -> Result<Option<RowRecord<'b>>> {
        if !wait && self.of(place.handle).file.read().is_none() {
            return Ok(None);
        }
        let (file, len) = self.file_and_len(place)?;
        let offset = u64::from(place.offset);
        buffer.clear();
        buffer.resize(len, 0);
        if wait {
            spillway_base::thread::blocking(|| file.read_at(offset, buffer))?;
        } else if !file.read_now(offset, buffer) {
            return Ok(None);
        }
        self.verify(place, buffer).map(Some)
    }

    /// The file of a record, and the number of bytes to read.
    pub(crate) fn file_and_len(&self, place: Place) -> Result<(Arc<dyn File>, usize)> {
        let file = self.file(place.handle)?;
        let end = file.len()?;
        if end <= place.offset.into() {
            return Err(self.at(place, &Error::corruption(format!("the file ends at byte {end}"))));
        }
        // The class's size may exceed the record's, and the record may be the last of its file.
        let behind = end - u64::from(place.offset);
        Ok((file, class_bytes(place.class).min(behind) as usize))
    }

    /// Verifies the record in bytes that were read at a place (SEGMENT-3, SEGMENT-4).
    pub(crate) fn verify<'b>(&self, place: Place, bytes: &'b [u8]) -> Result<RowRecord<'b>> {
        if self.of(place.handle).home() == Home::Released {
            return Err(self.at(place, &Error::corruption("the segment was released")));
        }
        read_row_record(bytes).map_err(|error| self.at(place, &error))
    }

    /// An error with the segment and offset where it occurred.
    pub(crate) fn at(&self, place: Place, error: &Error) -> Error {
        let origin = self.of(place.handle).origin;
        Error::corruption(format!("{origin}, byte {}: {error}", place.offset))
    }
}

fn split(handle: u32) -> (usize, usize, usize) {
    let handle = handle as usize;
    (handle / LEVEL / LEVEL, handle / LEVEL % LEVEL, handle % LEVEL)
}
