//! Which slots of the data files are in use: the part of the space manager that does no I/O.

use std::collections::BTreeMap;

use spillway_base::codec::{Reader, put_varint};
use spillway_base::{Error, Result};

/// `count` consecutive slots of one data file, from slot `first` on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct SlotRun {
    /// The data file's number.
    pub(crate) file: u32,
    /// The first slot.
    pub(crate) first: u32,
    /// The number of slots, at least one.
    pub(crate) count: u32,
}

impl SlotRun {
    /// The slot after the last.
    pub(crate) fn end(&self) -> u32 {
        self.first + self.count
    }

    /// Appends it to a record.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        for number in [self.file, self.first, self.count] {
            put_varint(out, number.into());
        }
    }

    /// Reads what [`SlotRun::encode`] wrote.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<SlotRun> {
        let (file, first) = (reader.varint_u32()?, reader.varint_u32()?);
        let run = SlotRun { file, first, count: reader.varint_u32()? };
        if run.count == 0 || run.first.checked_add(run.count).is_none() {
            return Err(Error::corruption("slots that there cannot be"));
        }
        Ok(run)
    }
}

impl std::fmt::Display for SlotRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "slots {}..{} of data file {}", self.first, self.end(), self.file)
    }
}

/// One bit for each slot of a data file; set means in use.
#[derive(Clone, Debug, Default)]
struct FileSlots {
    words: Vec<u64>,
    slots: u32,
    free: u32,
}

impl FileSlots {
    fn is_used(&self, slot: u32) -> bool {
        self.words[slot as usize / 64] >> (slot % 64) & 1 == 1
    }

    fn set(&mut self, slot: u32, used: bool) {
        let bit = 1 << (slot % 64);
        let word = &mut self.words[slot as usize / 64];
        if used {
            *word |= bit;
            self.free -= 1;
        } else {
            *word &= !bit;
            self.free += 1;
        }
    }

    /// The first of `count` consecutive free slots, lowest first, so that the end of a file is the
    /// part most likely to fall empty.
    fn find(&self, count: u32) -> Option<u32> {
        if self.free < count {
            return None;
        }
        let (mut first, mut slot) = (0, 0);
        while slot < self.slots {
            let word = self.words[slot as usize / 64];
            if slot.is_multiple_of(64) && word == u64::MAX {
                slot += 64;
                first = slot;
                continue;
            }
            slot += 1;
            if word >> ((slot - 1) % 64) & 1 == 1 {
                first = slot;
            } else if slot - first == count {
                return Some(first);
            }
        }
        None
    }

    fn resize(&mut self, slots: u32) {
        if slots > self.slots {
            self.free += slots - self.slots;
        } else {
            self.free -= (slots..self.slots).filter(|&slot| !self.is_used(slot)).count() as u32;
        }
        self.slots = slots;
        self.words.resize((slots as usize).div_ceil(64), 0);
    }

    /// The slots up to and including the last one in use.
    fn used_end(&self) -> u32 {
        let word = self.words.iter().rposition(|&word| word != 0);
        word.map_or(0, |at| at as u32 * 64 + 64 - self.words[at].leading_zeros())
    }
}

/// The slots of all data files.
#[derive(Clone, Debug, Default)]
pub(crate) struct SlotMap {
    files: BTreeMap<u32, FileSlots>,
}

impl SlotMap {
    /// The number of slots of a file; none when the file is not known.
    pub(crate) fn slots(&self, file: u32) -> Option<u32> {
        self.files.get(&file).map(|slots| slots.slots)
    }

    /// The files and their slots, in order.
    pub(crate) fn files(&self) -> impl DoubleEndedIterator<Item = (u32, u32)> {
        self.files.iter().map(|(&file, slots)| (file, slots.slots))
    }

    /// Gives a file this many slots. New slots are free; slots that go must be free.
    pub(crate) fn resize(&mut self, file: u32, slots: u32) {
        let entry = self.files.entry(file).or_default();
        assert!(entry.used_end() <= slots, "a slot in use cannot be cut off its data file");
        entry.resize(slots);
    }

    /// Marks slots as used at open.
    pub(crate) fn mark(&mut self, run: SlotRun) -> Result<()> {
        let slots = self.files.get_mut(&run.file);
        let end = run.first.checked_add(run.count);
        let (Some(slots), Some(end)) = (slots, end) else {
            return Err(Error::corruption(format!("data file {} is missing", run.file)));
        };
        if end > slots.slots {
            return Err(Error::corruption(format!(
                "data file {} ends at slot {}, before {run}",
                run.file, slots.slots
            )));
        }
        if let Some(twice) = (run.first..end).find(|&slot| slots.is_used(slot)) {
            return Err(Error::corruption(format!(
                "slot {twice} of data file {} is referenced twice",
                run.file
            )));
        }
        (run.first..end).for_each(|slot| slots.set(slot, true));
        Ok(())
    }

    /// Takes `count` consecutive free slots, if one of these files has them.
    pub(crate) fn allocate(&mut self, count: u32, of: impl Fn(u32) -> bool) -> Option<SlotRun> {
        let mut files = self.files.iter().filter(|(file, _)| of(**file));
        let (file, first) = files.find_map(|(&file, slots)| Some((file, slots.find(count)?)))?;
        let run = SlotRun { file, first, count };
        let slots = self.files.get_mut(&file)?;
        (first..run.end()).for_each(|slot| slots.set(slot, true));
        Some(run)
    }

    /// Gives slots back.
    pub(crate) fn release(&mut self, run: SlotRun) {
        let slots = self.files.get_mut(&run.file).expect("released slots belong to a data file");
        for slot in run.first..run.end() {
            assert!(slots.is_used(slot), "slot {slot} of data file {} was freed twice", run.file);
            slots.set(slot, false);
        }
    }

    /// The slots in these files, and how many of them are free.
    pub(crate) fn totals(&self, of: impl Fn(u32) -> bool) -> (u64, u64) {
        let files = self.files.iter().filter(|(file, _)| of(**file));
        files.fold((0, 0), |(all, free), (_, slots)| {
            (all + u64::from(slots.slots), free + u64::from(slots.free))
        })
    }

    /// For each file whose last slots are free: its number and the slots it must keep.
    pub(crate) fn free_tails(&self) -> impl Iterator<Item = (u32, u32)> {
        let tails = self.files.iter().map(|(&file, slots)| (file, slots.used_end(), slots.slots));
        tails.filter(|&(_, used, all)| used < all).map(|(file, used, _)| (file, used))
    }
}
