//! Log compaction, in the first form that HiEngine describes (section 4.4). It chooses kept
//! segments with few live records, and copies these records into new files. The engine can then
//! release the old segments (MEMORY-4).
//!
//! Compaction finds live records through the indirection arrays: it scans the entries and the
//! versions in their chains, and collects the places in the chosen segments. So it parses no log
//! and looks up no key. It then reads the records in the order of their places, and writes them
//! sequentially. Once the new file is durable, compaction locks the entry of each record and
//! replaces the old place by the new one, unless the row no longer has the old place. The engine
//! releases the old segments after the next checkpoint (SEGMENT-2).
//!
//! The list of the records is charged to the budget, and takes at most an eighth of it. If there
//! are more records, the next compaction moves the rest.
//!
//! While the disk is full, log compaction moves only as many live records as the free space can
//! hold. The engine then returns the space of the old records within the old files
//! ([`super::holes`]).
//!
//! ```text
//! compacted segment: 0 magic "SPLWROW1", 8 number u64, then records (`base::batch`, row records)
//! ```

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use spillway_base::batch::read_row_record;
use spillway_base::budget::{Budget, Charge, Use};
use spillway_base::sync::atomic::Ordering;
use spillway_base::{Error, ErrorKind, Result, thread};
use spillway_storage::{Disk, OpenMode};

use super::checkpoint_space::{checkpoint_bytes, compaction_room};
use super::checkpoints::Checkpoints;
use super::inner::{Counts, MemorySettings};
use super::recover::compacted_name;
use super::table_set::TableSet;
use crate::chain::each_place_and_pause;
use crate::pins::Pins;
use crate::segments::{Home, Origin, Segment, Segments};
use crate::store::Store;
use crate::table::Table;
use crate::version::{Place, Target, Word, class_bytes};

const MAGIC: &[u8; 8] = b"SPLWROW1";
const HEAD_BYTES: u64 = 16;
/// The most live bytes that one compaction copies.
const COPIED: u64 = 64 << 20;
/// The list of the records takes at most the budget divided by this.
pub(super) const LISTED_SHARE: usize = 8;
/// The memory of a record in the list, and of its new place.
pub(super) const LISTED_BYTES: usize = size_of::<Live>() + size_of::<Option<Place>>();
/// On a full disk, segments are compacted if they have lost one of this many parts.
const SPARSE_SHARE: u64 = 4;
/// Bytes to read at a time.
const READ_BYTES: u64 = 1 << 20;

/// The bytes of a kept segment that its compaction can save: those of a compacted segment without
/// its header, which the new file has too. Otherwise a segment of a few small records would be
/// compacted again and again.
fn record_bytes(segment: &Segment) -> Option<u64> {
    let len = segment.kept_bytes()?;
    let is_compacted = matches!(segment.origin, Origin::Compacted { .. });
    Some(if is_compacted { len.saturating_sub(HEAD_BYTES) } else { len })
}

/// A live record of a segment that is being compacted.
pub(super) struct Live {
    place: Place,
    table: u32,
    slot: u64,
}

/// The parts of the engine that log compaction needs.
pub(super) struct LogCompaction<'e> {
    pub(super) settings: &'e MemorySettings,
    pub(super) disk: &'e dyn Disk,
    pub(super) dir: &'e Path,
    pub(super) store: &'e Store,
    pub(super) segments: &'e Segments,
    pub(super) pins: &'e Pins,
    pub(super) tables: &'e TableSet,
    pub(super) checkpoints: &'e Checkpoints,
    pub(super) counts: &'e Counts,
    pub(super) budget: &'e Budget,
}

impl LogCompaction<'_> {
    /// Compacts some kept segments if kept segments take too much space. Returns whether it did.
    pub(super) fn compact(&self) -> Result<bool> {
        let victims = self.victims();
        if victims.is_empty() {
            return Ok(false);
        }
        let copied: u64 =
            victims.iter().filter_map(|one| self.segments.get(*one)).map(Segment::live).sum();
        let (pages, room) = self.room()?;
        if room < copied.min(compaction_room(pages)) {
            return Err(Error::new(ErrorKind::DiskFull, "the disk has no room for log compaction"));
        }
        self.move_live(&victims, room)
    }

    /// Compacts parts of kept segments that have lost much, as far as the disk has room beside the
    /// next checkpoint. So it can make progress on a full disk if the space of the parts is then
    /// returned ([`super::holes`]). Returns whether it did.
    pub(super) fn compact_into_room(&self) -> Result<bool> {
        if self.segments.is_pinned() || !self.segments.can_punch() {
            return Ok(false);
        }
        let (pages, room) = self.room()?;
        if room < compaction_room(pages) {
            return Ok(false);
        }
        let room = room.min(COPIED);
        let victims = self.sparse_segments(room);
        if victims.is_empty() {
            return Ok(false);
        }
        match self.move_live(&victims, room) {
            // Another writer was faster.
            Err(error) if error.kind() == ErrorKind::DiskFull => Ok(false),
            moved => moved,
        }
    }

    /// The bytes of all arrays' pages, and those that are free beside the next checkpoint.
    fn room(&self) -> Result<(u64, u64)> {
        let since = self.checkpoints.recorded();
        let [pages, rest] = checkpoint_bytes(&self.tables.load(), self.segments, since);
        Ok((pages, self.disk.available(self.dir)?.saturating_sub(pages + rest)))
    }

    /// The segments that have lost most, until their live bytes fill `room`.
    fn sparse_segments(&self, room: u64) -> Vec<u32> {
        let mut sparse: Vec<(u64, u64, u32)> = Vec::new();
        for (handle, segment) in self.segments.iter() {
            let (bytes, live) = (record_bytes(segment).unwrap_or(0), segment.live());
            if live > 0 && !segment.is_damaged() && live < bytes - bytes / SPARSE_SHARE {
                sparse.push((live * 1000 / bytes, live, handle));
            }
        }
        sparse.sort_unstable();
        let mut copied = 0;
        sparse.retain(|(_, live, _)| {
            copied += live;
            copied - live < room
        });
        let mut victims: Vec<u32> = sparse.into_iter().map(|(.., handle)| handle).collect();
        victims.sort_unstable();
        victims
    }

    /// Moves live records of the victims to a new segment, at most `most` bytes. `false` if there
    /// are none.
    ///
    /// # Errors
    /// [`ErrorKind::DiskFull`] if none of them fits. Others are failures of the disk.
    pub(super) fn move_live(&self, victims: &[u32], most: u64) -> Result<bool> {
        let tables: Vec<Arc<Table>> = self.tables.load().values().cloned().collect();
        let (mut live, _charge) = self.list(&tables, victims);
        live.sort_unstable_by_key(|one| (one.place.handle, one.place.offset));
        if live.is_empty() {
            return Ok(false);
        }
        let mut bytes = 0;
        live.retain(|one| {
            let more = bytes + class_bytes(one.place.class);
            let fits = more <= most;
            bytes = if fits { more } else { bytes };
            fits
        });
        if live.is_empty() {
            return Err(Error::new(ErrorKind::DiskFull, "the disk has no room for log compaction"));
        }
        let moved = self.copy(&live)?;
        for (one, new) in live.iter().zip(&moved) {
            match new {
                Some(new) => {
                    self.exchange(&tables[one.table as usize], one.slot, one.place, *new);
                }
                None => self.segments.note_damaged(one.place),
            }
        }
        // The old segments can be released after a checkpoint.
        self.checkpoints.request(self.pins.stable());
        Ok(true)
    }

    /// The live records of the victims, as many as may be listed, and the charge for the list.
    pub(super) fn list(&self, tables: &[Arc<Table>], victims: &[u32]) -> (Vec<Live>, Charge) {
        let most = (self.budget.limit() / LISTED_SHARE / LISTED_BYTES).max(1);
        let mut charge = self.budget.charge(Use::Compactions, 2 * READ_BYTES as usize);
        let buffers = charge.bytes();
        let live = RefCell::new(Vec::new());
        for (table, number) in tables.iter().zip(0..) {
            let found = &mut |slot, place: Place| {
                let live = &mut *live.borrow_mut();
                if live.len() < most && victims.binary_search(&place.handle).is_ok() {
                    if live.len() == live.capacity() {
                        live.reserve_exact((live.len() / 2 + 1000).min(most - live.len()));
                    }
                    live.push(Live { place, table: number, slot });
                }
            };
            // Other holders of memory free it only while this thread is not pinned.
            let pause = &mut || charge.resize(buffers + live.borrow().capacity() * LISTED_BYTES);
            each_place_and_pause(self.store, table, found, pause);
        }
        (live.into_inner(), charge)
    }

    /// The segments to compact: those with the smallest live shares, until the rest takes no more
    /// than it may. A damaged segment keeps its unreadable records, so compacting it again would
    /// free nothing.
    fn victims(&self) -> Vec<u32> {
        let (bytes, live) = self.segments.kept_bytes();
        let mut past = bytes.saturating_sub(self.settings.space_allowed(live));
        let mut kept: Vec<(u64, u64, u32)> = Vec::new();
        for (handle, segment) in self.segments.iter() {
            if let Some(len) = record_bytes(segment) {
                match segment.live() {
                    // It will be released after a checkpoint.
                    0 => past = past.saturating_sub(len),
                    _ if segment.is_damaged() => {}
                    live => kept.push((live, len, handle)),
                }
            }
        }
        kept.sort_unstable_by_key(|(live, len, _)| live * 1000 / (*len).max(1));
        let (mut victims, mut copied) = (Vec::new(), 0);
        for (live, len, handle) in kept {
            if past == 0 || copied >= COPIED || live >= len {
                break;
            }
            past = past.saturating_sub(len - live);
            copied += live;
            victims.push(handle);
        }
        victims.sort_unstable();
        victims
    }

    /// Copies records, in the order of their places, into a new segment and makes it durable.
    /// Returns their new places; none for a record that it cannot read and leaves in its place. If
    /// it fails, no file and no handle remain.
    fn copy(&self, live: &[Live]) -> Result<Vec<Option<Place>>> {
        let number = self.checkpoints.next_file();
        let path = self.dir.join(compacted_name(number));
        let copied = self.copy_into(&path, number, live);
        let (mut moved, end) = copied.inspect_err(|_| {
            // An opening removes the file if this fails.
            let _ = self.disk.remove(&path).and_then(|()| self.disk.sync_dir(self.dir));
        })?;
        let handle = self.segments.handle(Origin::Compacted { number });
        moved.iter_mut().flatten().for_each(|place| place.handle = handle);
        let segment = self.segments.get(handle).expect("it was given a handle");
        segment.set_home(Home::Kept(end));
        self.counts.compacted_bytes.fetch_add(end, Ordering::Relaxed);
        Ok(moved)
    }

    /// Writes the file of [`LogCompaction::copy`]. Returns the places, whose handles are not set
    /// yet, and the file's length.
    fn copy_into(
        &self,
        path: &Path,
        number: u64,
        live: &[Live],
    ) -> Result<(Vec<Option<Place>>, u64)> {
        let file = self.disk.open(path, OpenMode::Create)?;
        let mut out = Vec::from(MAGIC);
        out.extend_from_slice(&number.to_le_bytes());
        let (mut end, mut written) = (HEAD_BYTES, 0);
        let mut moved = Vec::with_capacity(live.len());
        let (mut read, mut begin, mut of) = (Vec::new(), 0, None);
        for one in live {
            let (offset, len) = (u64::from(one.place.offset), class_bytes(one.place.class));
            let has = of == Some(one.place.handle)
                && offset >= begin
                && offset + len <= begin + read.len() as u64;
            if !has {
                let source = match self.segments.file(one.place.handle) {
                    // The file is lost. That is no reason to stop, as with a damaged record.
                    Err(error) if error.kind() == ErrorKind::Corruption => {
                        moved.push(None);
                        continue;
                    }
                    source => source?,
                };
                let most = source.len()?.saturating_sub(offset);
                if most == 0 {
                    // The file has lost its end, which is no reason to stop, either.
                    moved.push(None);
                    continue;
                }
                read.resize(READ_BYTES.max(len).min(most) as usize, 0);
                thread::blocking(|| source.read_at(offset, &mut read))?;
                (begin, of) = (offset, Some(one.place.handle));
            }
            let bytes = &read[(offset - begin) as usize..];
            match read_row_record(bytes) {
                Ok(record) => {
                    let place = Place { handle: 0, offset: end as u32, class: one.place.class };
                    out.extend_from_slice(&bytes[..record.bytes]);
                    end += record.bytes as u64;
                    moved.push(Some(place));
                }
                // The segment may have been overwritten since. If it is damaged, a read of the row
                // reports that.
                Err(_) => moved.push(None),
            }
            if out.len() as u64 >= READ_BYTES {
                thread::blocking(|| file.write_at(written, &out))?;
                written += out.len() as u64;
                out.clear();
            }
        }
        thread::blocking(|| file.write_at(written, &out))?;
        thread::blocking(|| file.sync())?;
        self.disk.sync_dir(self.dir)?;
        Ok((moved, end))
    }

    /// Replaces a place of a row by another.
    fn exchange(&self, table: &Table, slot: u64, old: Place, new: Place) {
        let pin = self.store.pin();
        let mut entry = table.rows.lock(slot);
        let (mut above, mut word) = (None, entry.word());
        loop {
            match word.target() {
                Target::Version(at) => {
                    let version = self.store.version(at, &pin);
                    if version.place() == Ok(old) {
                        version.set_place(new);
                        entry.mark();
                        break;
                    }
                    above = Some(at);
                    word = version.next();
                }
                Target::Place(place) if place == old => {
                    match above {
                        Some(above) => {
                            self.store.version(above, &pin).set_next(Word::place(new));
                            entry.mark();
                        }
                        None => entry.set(Word::place(new)),
                    }
                    break;
                }
                Target::Place(_) | Target::Empty => return,
            }
        }
        self.segments.add_live(new);
        self.segments.sub_live(old);
    }
}
