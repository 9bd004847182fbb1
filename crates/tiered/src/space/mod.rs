//! The space manager: slots for extents in large, preallocated data files.
//!
//! Data files are in one folder, or in several on devices of different classes ([`DeviceClass`]). A
//! file's number is used in one folder only, so a reference to slots need not name the folder.
//!
//! Files are called `NNNNNN.data`. They grow by several slots at a time, whose space is allocated,
//! and shrink when their last slots become free. The set of used slots is not stored: an opening
//! derives it from the manifest. The slots of an extent become free when its last handle is
//! dropped. At that time the edit that removed the extent is durable, and the last reader is done.
//!
//! SPACE-1 to SPACE-3 are in `folders`.
//!
//! - **SPACE-4.** Before the space manager hands out a slot, the file system has allocated the
//!   slot's space, so a write to the slot does not meet a full disk. On a full disk, only the bytes
//!   of the extent are allocated, if they leave at least a sixteenth of its slots unused. Else a
//!   flush or a compaction that frees space would first need a whole slot. While space is short,
//!   the unused rest of slots goes back to the file system ([`SpaceManager::trim`]). Else a
//!   compaction of an extent in which half of the rows are deleted would free nothing.
//! - **SPACE-5.** Only a few free slots keep their space ([`SpaceManager::give_back`]). The space
//!   of the other free slots goes back to the file system, wherever in a file they are. It is
//!   allocated again before the slots are used.
//! - **SPACE-6.** No file records whether free slots have space. An opening assumes that none has,
//!   and the engine then returns the space that an earlier process has left.
//! - **SPACE-7.** The caller that returns space determines how many slots are returned at once,
//!   because the file system locks a file while it deallocates space of the file, and readers of
//!   the file wait. Cutting off the end of a file takes hardly any time once the space of its slots
//!   was returned.

mod class;
mod file;
mod folders;
mod slots;
#[cfg(all(test, not(loom)))]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use spillway_base::budget::Budget;
use spillway_base::lock::Mutex;
use spillway_base::{Error, ErrorKind, Result};
use spillway_storage::{Disk, OpenMode};

use crate::bulk_io::Bulk;
pub(crate) use class::Folder;
pub use class::{DeviceClass, Tier};
pub(crate) use file::DataFile;
use file::stopped;
#[cfg(fuzzing)]
pub(crate) use folders::fuzz;
pub(crate) use folders::{Claimed, claim, find};
use slots::SlotMap;
pub(crate) use slots::SlotRun;
use slots::{PAST_ALL, SlotAddress};

struct SpaceState {
    map: SlotMap,
    files: BTreeMap<u32, OpenedFile>,
    /// Free slots below this address may have space although the map says that they have none
    /// (SPACE-6).
    unknown: SlotAddress,
    /// Slots, used or free, that may have only a part of their space (SPACE-4).
    parts: BTreeSet<SlotAddress>,
    /// The first slots of extents that have no more space than they need.
    trimmed: BTreeSet<SlotAddress>,
    /// The last number that a new file was given, also if the file could not be made.
    last: u32,
}

impl SpaceState {
    /// Takes consecutive free slots of these files. Returns whether they have all their space.
    fn take(&mut self, count: u32, of: impl Fn(&OpenedFile) -> bool) -> Option<(SlotRun, bool)> {
        let (run, backed) = self.map.allocate(count, |file| of(&self.files[&file]))?;
        let mut lacks_some = false;
        for slot in run.first..run.end() {
            lacks_some |= self.parts.remove(&(run.file, slot));
            self.trimmed.remove(&(run.file, slot));
        }
        Some((run, backed && !lacks_some))
    }

    fn note_part(&mut self, run: SlotRun) {
        self.parts.extend((run.first..run.end()).map(|slot| (run.file, slot)));
    }
}

/// A data file, and its folder.
struct OpenedFile {
    file: Arc<DataFile>,
    folder: usize,
}

/// A class that takes extents.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Room {
    pub(crate) class: DeviceClass,
    /// The bytes that can still be written there.
    pub(crate) free: u64,
    /// The total bytes.
    pub(crate) all: u64,
}

/// The data files of an engine.
pub(crate) struct SpaceManager {
    disk: Arc<dyn Disk>,
    folders: Vec<Folder>,
    slot_bytes: u64,
    /// The slots by which a file grows.
    grow_slots: u32,
    /// The most slots of a file.
    file_slots: u32,
    state: Mutex<SpaceState>,
    /// Held while files grow or shrink; taken before `state`.
    growing: Mutex<()>,
    /// Slots that were allocated in another class because the requested one was full.
    displaced: AtomicU64,
    /// For each folder, whether its file system was found to be unable to release the space of a
    /// range of a file.
    keeps_ranges: Vec<AtomicBool>,
    /// Counts allocations.
    taken: AtomicU64,
    /// The count of allocations at the last check, and the time since which it has had that value.
    rested: Mutex<(u64, Duration)>,
}

/// The space of a class of devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ClassBytes {
    pub(crate) class: DeviceClass,
    /// The bytes of all slots that have their space.
    pub(crate) all: u64,
    /// Bytes of the free ones among them.
    pub(crate) free: u64,
}

/// The unit in which file systems allocate space. Slots are multiples of it.
const PAGE: u64 = 4096;

fn file_name(number: u32) -> String {
    format!("{number:06}.data")
}

/// An extent that leaves at least this share of its slots unused needs only a part of their space.
const UNUSED_SHARE: u64 = 16;

/// Whether an extent is so small that on a full disk it gets only its own bytes (SPACE-4).
fn is_part(bytes: u64, slots: u32, slot_bytes: u64) -> bool {
    let all = u64::from(slots) * slot_bytes;
    bytes.next_multiple_of(PAGE) <= all - all / UNUSED_SHARE
}

fn parse_name(name: &str) -> Option<u32> {
    name.strip_suffix(".data")?.parse().ok()
}

impl SpaceManager {
    /// Opens the data files of folders. `used` are the slots that the manifest refers to, with the
    /// bytes of their extents.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        folders: Vec<Folder>,
        slot_bytes: u64,
        file_bytes: u64,
        used: impl Iterator<Item = (SlotRun, u64)>,
    ) -> Result<SpaceManager> {
        let mut state = SpaceState {
            map: SlotMap::default(),
            files: BTreeMap::new(),
            unknown: PAST_ALL,
            parts: BTreeSet::new(),
            trimmed: BTreeSet::new(),
            last: 0,
        };
        for (folder, Folder { dir, class, .. }) in folders.iter().enumerate() {
            if folders.len() > 1 {
                // Otherwise a crash may bring a removed file back, after another folder was given a
                // file of its number.
                disk.sync_dir(dir)?;
            }
            for number in disk.list(dir)?.iter().filter_map(|name| parse_name(name)) {
                let file = disk.open(&dir.join(file_name(number)), OpenMode::Write)?;
                if let Some(other) = state.files.get(&number) {
                    let (name, other) = (file_name(number), folders[other.folder].dir.display());
                    let message = format!("{name} is in {other} and in {}", dir.display());
                    return Err(Error::corruption(message));
                }
                state.map.resize(number, (file.len()? / slot_bytes) as u32, false);
                state
                    .files
                    .insert(number, OpenedFile { file: DataFile::new(file, *class), folder });
            }
        }
        for (run, bytes) in used {
            let dir = folders[0].dir.display();
            state.map.mark(run).map_err(|error| error.context(dir))?;
            if is_part(bytes, run.count, slot_bytes) {
                state.note_part(run);
            }
        }
        let file_slots = (file_bytes / slot_bytes).max(1) as u32;
        let grow_slots = file_slots.div_ceil(32).clamp(1, 16);
        let state = Mutex::new(state);
        let growing = Mutex::new(());
        let keeps_ranges = folders.iter().map(|_| AtomicBool::default()).collect();
        let (displaced, taken, rested) = Default::default();
        Ok(SpaceManager {
            disk,
            folders,
            slot_bytes,
            grow_slots,
            file_slots,
            state,
            growing,
            displaced,
            keeps_ranges,
            taken,
            rested,
        })
    }

    /// The disk that its files are on.
    pub(crate) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    /// A queue for bulk reads and writes of the calling thread. If it `overlaps`, they run while
    /// the thread does other work. If they are `direct`, they bypass the page cache.
    pub(crate) fn bulk(&self, budget: &Budget, overlaps: bool, direct: bool) -> Result<Bulk> {
        Bulk::new(&*self.disk, budget, overlaps, direct)
    }

    /// The bytes of a slot.
    pub(crate) fn slot_bytes(&self) -> usize {
        self.slot_bytes as usize
    }

    /// The class whose device takes data for `class`: the class itself if there is such a device.
    pub(crate) fn class_for(&self, class: DeviceClass) -> DeviceClass {
        let open = |class: &DeviceClass| {
            self.folders.iter().any(|folder| folder.class == *class && !folder.leaving)
        };
        class.stand_ins().find(open).unwrap_or(class)
    }

    /// Allocates consecutive slots on a device of a class, and grows or adds a file if none has
    /// them. If that device is full, uses the next slower one with room, or a faster one.
    pub(crate) fn allocate(&self, count: u32, class: DeviceClass) -> Result<SlotRun> {
        self.allocate_for(count, u64::from(count) * self.slot_bytes, class)
    }

    /// As [`SpaceManager::allocate`], for an extent of this many bytes.
    pub(crate) fn allocate_for(
        &self,
        count: u32,
        bytes: u64,
        class: DeviceClass,
    ) -> Result<SlotRun> {
        let mut full = None;
        for (tried, class) in
            class.stand_ins().filter(|&class| self.class_for(class) == class).enumerate()
        {
            match self.allocate_bytes_on(count, bytes, class) {
                Err(error) if error.kind() == ErrorKind::DiskFull => full = full.or(Some(error)),
                taken => {
                    if taken.is_ok() && tried > 0 {
                        self.displaced.fetch_add(count.into(), Ordering::Relaxed);
                    }
                    return taken;
                }
            }
        }
        Err(full.unwrap_or_else(|| Error::new(ErrorKind::DiskFull, "no tier takes extents")))
    }

    /// Allocates consecutive slots on a device of this class only.
    ///
    /// # Errors
    /// [`ErrorKind::DiskFull`], also if there is no such device.
    pub(crate) fn allocate_on(&self, count: u32, class: DeviceClass) -> Result<SlotRun> {
        self.allocate_bytes_on(count, u64::from(count) * self.slot_bytes, class)
    }

    fn allocate_bytes_on(&self, count: u32, bytes: u64, class: DeviceClass) -> Result<SlotRun> {
        let takes = |folder: &Folder| folder.class == class && !folder.leaving;
        let Some(folder) = self.folders.iter().position(takes) else {
            return Err(Error::new(ErrorKind::DiskFull, format!("there is no device {class}")));
        };
        self.taken.fetch_add(1, Ordering::Relaxed);
        let free = || self.state.lock().take(count, |file| file.folder == folder);
        if let Some(found) = free() {
            return self.back(found, bytes);
        }
        let _growing = self.growing.lock();
        let is_full = |grown: &Result<()>| {
            grown.as_ref().is_err_and(|error| error.kind() == ErrorKind::DiskFull)
        };
        loop {
            if let Some(found) = free() {
                return self.back(found, bytes);
            }
            let mut grown = self.grow(folder, count, self.grow_slots.max(count), true);
            if is_full(&grown) && count < self.grow_slots {
                // A full disk may still have room for the requested slots.
                grown = self.grow(folder, count, count, true);
            }
            if is_full(&grown) && is_part(bytes, count, self.slot_bytes) {
                grown = self.grow(folder, count, count, false);
            }
            grown?;
        }
    }

    /// Makes sure that allocated slots have their space, or on a full disk that of their extent's
    /// bytes (SPACE-4).
    fn back(&self, (run, backed): (SlotRun, bool), bytes: u64) -> Result<SlotRun> {
        if backed {
            return Ok(run);
        }
        let (file, offset) = self.locate(run)?;
        let mut taken = file.allocate(offset, u64::from(run.count) * self.slot_bytes);
        let is_full = taken.as_ref().is_err_and(|error| error.kind() == ErrorKind::DiskFull);
        if is_full && is_part(bytes, run.count, self.slot_bytes) {
            taken = file.allocate(offset, bytes);
            if taken.is_ok() {
                let mut state = self.state.lock();
                state.note_part(run);
                state.trimmed.insert((run.file, run.first));
            }
        }
        taken.inspect_err(|_| {
            // Some of them may have had space before, or have it now.
            let mut state = self.state.lock();
            state.map.release(run, false);
            state.unknown = PAST_ALL;
        })?;
        Ok(run)
    }

    /// Returns the space of allocated slots past the bytes of their extent to the file system, if
    /// that is worth it (SPACE-4). The extent keeps its slots. Returns whether it did anything.
    ///
    /// # Errors
    /// [`ErrorKind::Io`]: the slots still have their space, or a part of it.
    pub(crate) fn trim(&self, run: SlotRun, bytes: u64) -> Result<bool> {
        if !is_part(bytes, run.count, self.slot_bytes) {
            return Ok(false);
        }
        let (file, offset) = self.locate(run)?;
        {
            let mut state = self.state.lock();
            if !state.trimmed.insert((run.file, run.first)) {
                return Ok(false);
            }
            state.note_part(run);
        }
        let used = bytes.next_multiple_of(PAGE);
        file.file().punch(offset + used, u64::from(run.count) * self.slot_bytes - used)
    }

    /// Adds about `step` slots to a folder, at least `count` of them in one piece. Only `growing`
    /// is locked while the device works, so readers and threads that free slots do not wait for it.
    /// The slots have their space if `backed`.
    fn grow(&self, folder: usize, count: u32, step: u32, backed: bool) -> Result<()> {
        let extend = |file: &DataFile, from: u32, to: u32| {
            let (from, to) = (u64::from(from) * self.slot_bytes, u64::from(to) * self.slot_bytes);
            if backed { file.allocate(from, to - from) } else { file.set_len(to) }
        };
        let last = {
            let state = self.state.lock();
            let mut files = state.map.files();
            let last = files.rfind(|(number, _)| state.files[number].folder == folder);
            let fits = |slots: u32| slots + count <= self.file_slots;
            last.filter(|&(_, slots)| fits(slots))
                .map(|(number, slots)| (number, slots, state.files[&number].file.clone()))
        };
        match last {
            Some((number, slots, file)) => {
                let grown = (slots + step).min(self.file_slots);
                extend(&file, slots, grown)?;
                file.sync()?;
                self.state.lock().map.resize(number, grown, backed);
            }
            None => {
                // Unique over all folders: a number identifies a file. A file that could not be
                // made keeps its number, because a crash may undo its removal.
                let number = {
                    let mut state = self.state.lock();
                    let last = state.files.keys().next_back().map_or(0, |last| *last);
                    state.last = last.max(state.last) + 1;
                    state.last
                };
                let Folder { dir, class, .. } = &self.folders[folder];
                let path = dir.join(file_name(number));
                let file = DataFile::new(self.disk.open(&path, OpenMode::Create)?, *class);
                let filled = extend(&file, 0, step)
                    .and_then(|()| file.sync())
                    .and_then(|()| self.disk.sync_dir(dir).map_err(|error| stopped(&error)));
                if let Err(error) = filled {
                    // A remaining data file without extents is harmless.
                    let _ = self.disk.remove(&path);
                    return Err(error);
                }
                let mut state = self.state.lock();
                state.files.insert(number, OpenedFile { file, folder });
                state.map.resize(number, step, backed);
            }
        }
        Ok(())
    }

    /// Frees slots.
    pub(crate) fn release(&self, run: SlotRun) {
        self.state.lock().map.release(run, true);
    }

    /// The file of a run of slots, and the run's offset in it.
    pub(crate) fn locate(&self, run: SlotRun) -> Result<(Arc<DataFile>, u64)> {
        let state = self.state.lock();
        let file = state.files.get(&run.file).ok_or_else(|| {
            Error::corruption(format!("data file {} is missing", file_name(run.file)))
        })?;
        Ok((file.file.clone(), u64::from(run.first) * self.slot_bytes))
    }

    /// Whether extents can be in more than one folder.
    pub(crate) fn has_tiers(&self) -> bool {
        self.folders.len() > 1
    }

    /// The class of each file's device, and whether extents must leave it.
    pub(crate) fn classes_of_files(&self) -> BTreeMap<u32, (DeviceClass, bool)> {
        let of = |folder: &Folder| (folder.class, folder.leaving);
        let state = self.state.lock();
        state.files.iter().map(|(&number, file)| (number, of(&self.folders[file.folder]))).collect()
    }

    /// The room in the classes that take extents, the fastest first.
    pub(crate) fn rooms(&self) -> Result<Vec<Room>> {
        let mut rooms = Vec::new();
        for class in DeviceClass::ALL {
            let takes = |folder: &&Folder| folder.class == class && !folder.leaving;
            let Some(folder) = self.folders.iter().find(takes) else { continue };
            let available = self.disk.available(&folder.dir)?;
            let ours = self.bytes_by_class().into_iter().find(|bytes| bytes.class == class);
            let (all, free) = ours.map_or((0, 0), |bytes| (bytes.all, bytes.free));
            let (free, all) = (available.saturating_add(free), available.saturating_add(all));
            rooms.push(Room { class, free, all });
        }
        Ok(rooms)
    }

    /// The bytes that can still be written on the device with the most room.
    pub(crate) fn room(&self) -> u64 {
        let rooms = self.rooms().unwrap_or_default();
        rooms.iter().map(|room| room.free).max().unwrap_or(u64::MAX)
    }

    /// Cuts free slots off the ends of files of a device if most of its slots are free. If the file
    /// system cannot release ranges of files, also cuts the free slots beyond the number that
    /// [`SpaceManager::give_back`] keeps, because nothing else frees their space. If the file
    /// system can release ranges and the caller `can_wait`, cuts only slots whose space was
    /// released already (SPACE-7). Returns whether it has cut any.
    pub(crate) fn shrink(&self, share: u64, least: u64, can_wait: bool) -> Result<bool> {
        let _growing = self.growing.lock();
        let SpaceState { map, files, unknown, .. } = &mut *self.state.lock();
        let mut cut = false;
        for folder in 0..self.folders.len() {
            let of = |file: u32| files[&file].folder == folder;
            let keeps_ranges = self.keeps_ranges[folder].load(Ordering::Relaxed);
            let (all, free) = map.slots_and_free(of);
            let keep = least.max((all - free) / share);
            // Cut only many slots: growing a file again may require writing zeros.
            let mut spare = match free > all / 2 {
                true => free,
                false if keeps_ranges && free > 2 * keep => free - keep,
                false => continue,
            };
            let tails = match can_wait && !keeps_ranges {
                true => map.bare_tails(of, *unknown),
                false => map.free_tails(of),
            };
            for (number, used) in tails {
                let Some(slots) = map.slots(number) else { continue };
                let spared = slots - u32::try_from(spare).map_or(slots, |spare| spare.min(slots));
                let left = used.max(spared).next_multiple_of(self.grow_slots);
                if left < slots {
                    files[&number].file.set_len(u64::from(left) * self.slot_bytes)?;
                    map.resize(number, left, false);
                    spare -= u64::from(slots - left);
                    cut = true;
                }
            }
        }
        Ok(cut)
    }

    /// Whether no slots were allocated for `time`, as far as regular calls of this method can tell.
    pub(crate) fn has_rested(&self, time: Duration, now: Duration) -> bool {
        let taken = self.taken.load(Ordering::Relaxed);
        let (before, since) = &mut *self.rested.lock();
        if taken != *before || since.is_zero() {
            (*before, *since) = (taken, now);
        }
        now.saturating_sub(*since) >= time
    }

    /// Releases the space of free slots, except for some of each class (SPACE-5): about one for
    /// each `share` used slots, and at least `least`. Releases at most `most` slots (SPACE-7).
    /// Returns their number.
    ///
    /// # Errors
    /// [`ErrorKind::Io`]: the slots are free, and it is unknown whether they have space.
    pub(crate) fn give_back(&self, share: u64, least: u64, most: u32) -> Result<u32> {
        let _growing = self.growing.lock();
        let mut spare = Vec::new();
        let mut left = most;
        {
            let SpaceState { map, files, unknown, .. } = &mut *self.state.lock();
            for folder in 0..self.folders.len() {
                let of = |file: u32| files[&file].folder == folder;
                let (all, free) = map.totals(of);
                let keep = least.max((all - free) / share);
                // Avoid releasing a slot or two again and again.
                if free > 2 * keep {
                    let taken = map.take_spare(of, keep, &mut left);
                    spare.extend(taken.into_iter().map(|run| (run, true)));
                }
            }
            let (taken, below) = map.take_unknown(*unknown, &mut left);
            *unknown = below;
            spare.extend(taken.into_iter().map(|run| (run, false)));
        }
        let mut outcome = Ok(0);
        for &(run, backed) in &spare {
            let given = self.locate(run).and_then(|(file, offset)| {
                file.file().punch(offset, u64::from(run.count) * self.slot_bytes)
            });
            let mut state = self.state.lock();
            // If the space cannot be released, slots that had it still have it.
            state.map.release(run, backed && matches!(given, Ok(false)));
            match given {
                Ok(true) => outcome = outcome.map(|slots| slots + run.count),
                Ok(false) => {
                    let folder = state.files[&run.file].folder;
                    self.keeps_ranges[folder].store(true, Ordering::Relaxed);
                }
                Err(error) => {
                    state.unknown = PAST_ALL;
                    outcome = outcome.and(Err(error));
                }
            }
        }
        outcome
    }

    /// Whether a device has less room than the space that its free slots have or may have
    /// (SPACE-6).
    pub(crate) fn is_short(&self) -> bool {
        let is_short = |folder: usize| {
            let free = {
                let SpaceState { map, files, unknown, .. } = &*self.state.lock();
                let of = |file: u32| files[&file].folder == folder;
                map.totals(of).1 + map.unknown(of, *unknown)
            };
            let available = self.disk.available(&self.folders[folder].dir);
            available.is_ok_and(|available| available < free * self.slot_bytes)
        };
        (0..self.folders.len()).any(is_short)
    }

    /// Bytes of all slots that have their space, and of the free ones among them.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        let (all, free) = self.state.lock().map.totals(|_| true);
        (all * self.slot_bytes, free * self.slot_bytes)
    }

    /// The bytes of each existing class, the fastest first.
    pub(crate) fn bytes_by_class(&self) -> Vec<ClassBytes> {
        let state = self.state.lock();
        let there = |class: &DeviceClass| self.folders.iter().any(|folder| folder.class == *class);
        let bytes = |class| {
            let on = |file: u32| self.folders[state.files[&file].folder].class == class;
            let (all, free) = state.map.totals(on);
            ClassBytes { class, all: all * self.slot_bytes, free: free * self.slot_bytes }
        };
        DeviceClass::ALL.into_iter().filter(there).map(bytes).collect()
    }

    /// Slots that were allocated in another class because the requested one was full.
    pub(crate) fn displaced_slots(&self) -> u64 {
        self.displaced.load(Ordering::Relaxed)
    }
}
