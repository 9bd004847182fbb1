//! The space manager: slots of extents in large, preallocated data files.
//!
//! Files are called `NNNNNN.data`. They grow by steps of allocated slots, and shrink when their last slots fall
//! free. Which slots are in use is not stored: the manifest says so, and the map is made from it at
//! open. Slots are given back by the last handle of an extent, which is after the edit that removed it is durable
//! and the last reader is done.

mod file;
mod slots;
#[cfg(all(test, not(loom)))]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use spillway_base::{Error, ErrorKind, Result};
use spillway_storage::{Disk, OpenMode};

pub(crate) use file::DataFile;
use file::stopped;
use slots::SlotMap;
pub(crate) use slots::SlotRun;

struct State {
    map: SlotMap,
    files: BTreeMap<u32, Arc<DataFile>>,
}

/// The data files of an engine.
pub(crate) struct SpaceManager {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    slot_bytes: u64,
    /// Slots that a file grows by, and has at the most.
    grow_slots: u32,
    file_slots: u32,
    state: Mutex<State>,
    /// Held while files grow or shrink; taken before `state`.
    growing: Mutex<()>,
}

fn file_name(number: u32) -> String {
    format!("{number:06}.data")
}

fn parse_name(name: &str) -> Option<u32> {
    name.strip_suffix(".data")?.parse().ok()
}

impl SpaceManager {
    /// Opens the data files of a folder. `used` are the slots that the manifest refers to.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        slot_bytes: u64,
        file_bytes: u64,
        used: impl Iterator<Item = SlotRun>,
    ) -> Result<SpaceManager> {
        let mut state = State { map: SlotMap::default(), files: BTreeMap::new() };
        for number in disk.list(dir)?.iter().filter_map(|name| parse_name(name)) {
            let file = disk.open(&dir.join(file_name(number)), OpenMode::Write)?;
            state.map.resize(number, (file.len()? / slot_bytes) as u32);
            state.files.insert(number, DataFile::new(file));
        }
        for run in used {
            state.map.mark(run).map_err(|error| error.context(dir.display()))?;
        }
        let file_slots = (file_bytes / slot_bytes).max(1) as u32;
        let grow_slots = file_slots.div_ceil(32).clamp(1, 16);
        let dir = dir.to_owned();
        let state = Mutex::new(state);
        let growing = Mutex::new(());
        Ok(SpaceManager { disk, dir, slot_bytes, grow_slots, file_slots, state, growing })
    }

    /// The bytes of a slot.
    pub(crate) fn slot_bytes(&self) -> usize {
        self.slot_bytes as usize
    }

    /// Takes consecutive slots, growing or adding a file where none has them.
    pub(crate) fn allocate(&self, count: u32) -> Result<SlotRun> {
        if let Some(run) = self.state.lock().map.allocate(count) {
            return Ok(run);
        }
        let _growing = self.growing.lock();
        loop {
            if let Some(run) = self.state.lock().map.allocate(count) {
                return Ok(run);
            }
            // A full disk may still have room for what is needed now.
            match self.grow(count, self.grow_slots.max(count)) {
                Err(error) if error.kind() == ErrorKind::DiskFull && count < self.grow_slots => {
                    self.grow(count, count)?;
                }
                grown => grown?,
            }
        }
    }

    /// Adds about `step` slots, at least `count` of them in one piece. Only `growing` is held while the device works,
    /// so that readers and those who give slots back do not wait for it.
    fn grow(&self, count: u32, step: u32) -> Result<()> {
        let last = {
            let state = self.state.lock();
            let last = state.map.files().last();
            let fits = |slots: u32| slots + count <= self.file_slots;
            last.filter(|&(_, slots)| fits(slots))
                .map(|(number, slots)| (number, slots, state.files[&number].clone()))
        };
        match last {
            Some((number, slots, file)) => {
                let grown = (slots + step).min(self.file_slots);
                let more = u64::from(grown - slots) * self.slot_bytes;
                file.allocate(u64::from(slots) * self.slot_bytes, more)?;
                file.sync()?;
                self.state.lock().map.resize(number, grown);
            }
            None => {
                let number = self.state.lock().files.keys().next_back().map_or(1, |last| last + 1);
                let path = self.dir.join(file_name(number));
                let file = DataFile::new(self.disk.open(&path, OpenMode::Create)?);
                let filled = file
                    .allocate(0, u64::from(step) * self.slot_bytes)
                    .and_then(|()| file.sync())
                    .and_then(|()| self.disk.sync_dir(&self.dir).map_err(|error| stopped(&error)));
                if let Err(error) = filled {
                    // An empty data file is no harm if it stays.
                    let _ = self.disk.remove(&path);
                    return Err(error);
                }
                let mut state = self.state.lock();
                state.files.insert(number, file);
                state.map.resize(number, step);
            }
        }
        Ok(())
    }

    /// Gives slots back.
    pub(crate) fn release(&self, run: SlotRun) {
        self.state.lock().map.release(run);
    }

    /// The file of a run of slots, and where in it the run begins.
    pub(crate) fn locate(&self, run: SlotRun) -> Result<(Arc<DataFile>, u64)> {
        let state = self.state.lock();
        let file = state.files.get(&run.file).ok_or_else(|| {
            Error::corruption(format!("data file {} is missing", file_name(run.file)))
        })?;
        Ok((file.clone(), u64::from(run.first) * self.slot_bytes))
    }

    /// Cuts free slots off the ends of the files.
    pub(crate) fn shrink(&self) -> Result<()> {
        let _growing = self.growing.lock();
        let mut state = self.state.lock();
        let tails: Vec<(u32, u32)> = state.map.free_tails().collect();
        for (number, keep) in tails {
            let keep = keep.next_multiple_of(self.grow_slots);
            if state.map.slots(number).is_some_and(|slots| keep < slots) {
                state.files[&number].set_len(u64::from(keep) * self.slot_bytes)?;
                state.map.resize(number, keep);
            }
        }
        Ok(())
    }

    /// Bytes of all slots, and of the free ones.
    pub(crate) fn bytes(&self) -> (u64, u64) {
        let (all, free) = self.state.lock().map.totals();
        (all * self.slot_bytes, free * self.slot_bytes)
    }
}
