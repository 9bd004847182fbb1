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

/// A data file's number, and a slot of it.
pub(crate) type SlotAddress = (u32, u32);

/// An address after all slots.
pub(crate) const PAST_ALL: SlotAddress = (u32::MAX, u32::MAX);

/// The slots of a data file, one bit for each.
#[derive(Clone, Debug, Default)]
struct FileSlots {
    /// The used slots.
    used: Vec<u64>,
    /// The slots that are known to have their space allocated. All used slots have it.
    backed: Vec<u64>,
    slots: u32,
    free: u32,
    /// The number of free slots that are not known to have space.
    bare: u32,
}

fn bit(words: &[u64], slot: u32) -> bool {
    words[slot as usize / 64] >> (slot % 64) & 1 == 1
}

fn set_bit(words: &mut [u64], slot: u32, on: bool) {
    let (word, bit) = (&mut words[slot as usize / 64], 1 << (slot % 64));
    if on { *word |= bit } else { *word &= !bit }
}

impl FileSlots {
    fn is_used(&self, slot: u32) -> bool {
        bit(&self.used, slot)
    }

    /// Takes a free slot. The caller makes sure that it has space.
    fn take(&mut self, slot: u32) {
        self.free -= 1;
        self.bare -= u32::from(!bit(&self.backed, slot));
        set_bit(&mut self.used, slot, true);
        set_bit(&mut self.backed, slot, true);
    }

    /// Frees a slot, with its space or without.
    fn give(&mut self, slot: u32, backed: bool) {
        self.free += 1;
        self.bare += u32::from(!backed);
        set_bit(&mut self.used, slot, false);
        set_bit(&mut self.backed, slot, backed);
    }

    /// The first of `count` consecutive free slots, with their space if `backed`. It prefers the
    /// lowest, so that the end of a file is the part most likely to become empty.
    fn find(&self, count: u32, backed: bool) -> Option<u32> {
        if self.free - if backed { self.bare } else { 0 } < count {
            return None;
        }
        let (mut first, mut slot) = (0, 0);
        while slot < self.slots {
            let at = slot as usize / 64;
            let word = self.used[at] | if backed { !self.backed[at] } else { 0 };
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

    /// Changes the number of slots. New slots have their space if `backed`.
    fn resize(&mut self, slots: u32, backed: bool) {
        let words = (slots as usize).div_ceil(64);
        for slot in slots..self.slots {
            self.free -= 1;
            self.bare -= u32::from(!bit(&self.backed, slot));
            set_bit(&mut self.backed, slot, false);
        }
        self.used.resize(words, 0);
        self.backed.resize(words, 0);
        for slot in self.slots..slots {
            self.give(slot, backed);
        }
        self.slots = slots;
    }

    /// The slots up to and including the last one in use.
    fn used_end(&self) -> u32 {
        end_of(&self.used)
    }

    /// The slots up to and including the last one that is known to have its space.
    fn backed_end(&self) -> u32 {
        end_of(&self.backed)
    }
}

/// One more than the index of the last set bit.
fn end_of(words: &[u64]) -> u32 {
    let word = words.iter().rposition(|&word| word != 0);
    word.map_or(0, |at| at as u32 * 64 + 64 - words[at].leading_zeros())
}

/// The slots of all data files.
#[derive(Clone, Debug, Default)]
pub(crate) struct SlotMap {
    files: BTreeMap<u32, FileSlots>,
}

impl SlotMap {
    /// The number of slots of a file; `None` if the file is not known.
    pub(crate) fn slots(&self, file: u32) -> Option<u32> {
        self.files.get(&file).map(|slots| slots.slots)
    }

    /// The files and their slots, in order.
    pub(crate) fn files(&self) -> impl DoubleEndedIterator<Item = (u32, u32)> {
        self.files.iter().map(|(&file, slots)| (file, slots.slots))
    }

    /// Changes a file's number of slots. New slots are free, and have their space if `backed`.
    /// Removed slots must be free.
    pub(crate) fn resize(&mut self, file: u32, slots: u32, backed: bool) {
        let entry = self.files.entry(file).or_default();
        assert!(entry.used_end() <= slots, "a slot in use cannot be cut off its data file");
        entry.resize(slots, backed);
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
        (run.first..end).for_each(|slot| slots.take(slot));
        Ok(())
    }

    /// Takes `count` consecutive free slots, if one of these files has them. Returns whether they
    /// have their space. If they do not, the caller allocates it, or frees them without it
    /// ([`SlotMap::release`]).
    pub(crate) fn allocate(
        &mut self,
        count: u32,
        of: impl Fn(u32) -> bool,
    ) -> Option<(SlotRun, bool)> {
        let find = |backed: bool| {
            let mut files = self.files.iter().filter(|(file, _)| of(**file));
            let at = |(&file, slots): (&u32, &FileSlots)| Some((file, slots.find(count, backed)?));
            files.find_map(at).map(|found| (found, backed))
        };
        let ((file, first), backed) = find(true).or_else(|| find(false))?;
        let run = SlotRun { file, first, count };
        self.take(run);
        Some((run, backed))
    }

    fn take(&mut self, run: SlotRun) {
        let slots = self.files.get_mut(&run.file).expect("free slots belong to a data file");
        (run.first..run.end()).for_each(|slot| slots.take(slot));
    }

    /// Frees slots, with their space or without.
    pub(crate) fn release(&mut self, run: SlotRun, backed: bool) {
        let slots = self.files.get_mut(&run.file).expect("released slots belong to a data file");
        for slot in run.first..run.end() {
            assert!(slots.is_used(slot), "slot {slot} of data file {} was freed twice", run.file);
            slots.give(slot, backed);
        }
    }

    /// The slots in these files that have their space, and how many of them are free.
    pub(crate) fn totals(&self, of: impl Fn(u32) -> bool) -> (u64, u64) {
        let files = self.files.iter().filter(|(file, _)| of(**file));
        files.fold((0, 0), |(all, free), (_, slots)| {
            let bare = u64::from(slots.bare);
            (all + u64::from(slots.slots) - bare, free + u64::from(slots.free) - bare)
        })
    }

    /// Takes free slots of these files in order to release their space, at most `left`: those that
    /// have it, from the last one down, except for some that keep it.
    pub(crate) fn take_spare(
        &mut self,
        of: impl Fn(u32) -> bool,
        keep: u64,
        left: &mut u32,
    ) -> Vec<SlotRun> {
        let spare = self.totals(&of).1.saturating_sub(keep);
        let mut most = u32::try_from(spare).unwrap_or(u32::MAX).min(*left);
        *left -= most;
        let (taken, _) = self.take_free(of, PAST_ALL, true, &mut most);
        taken
    }

    /// Takes free slots below an address that are not known to have space, from the last one down,
    /// at most `left`. Returns the address below which there may be more.
    pub(crate) fn take_unknown(
        &mut self,
        below: SlotAddress,
        left: &mut u32,
    ) -> (Vec<SlotRun>, SlotAddress) {
        self.take_free(|_| true, below, false, left)
    }

    /// The number of free slots of these files below an address that are not known to have space.
    pub(crate) fn unknown(&self, of: impl Fn(u32) -> bool, below: SlotAddress) -> u64 {
        let files = self.files.range(..=below.0).filter(|(file, _)| of(**file));
        let count = |(&file, slots): (&u32, &FileSlots)| {
            let end = if file == below.0 { below.1.min(slots.slots) } else { slots.slots };
            let is_unknown = |slot: &u32| !slots.is_used(*slot) && !bit(&slots.backed, *slot);
            (0..end).filter(is_unknown).count() as u64
        };
        files.map(count).sum()
    }

    fn take_free(
        &mut self,
        of: impl Fn(u32) -> bool,
        below: SlotAddress,
        backed: bool,
        left: &mut u32,
    ) -> (Vec<SlotRun>, SlotAddress) {
        let mut taken: Vec<SlotRun> = Vec::new();
        for (&file, slots) in self.files.range_mut(..=below.0).rev().filter(|(file, _)| of(**file))
        {
            let end = if file == below.0 { below.1.min(slots.slots) } else { slots.slots };
            for slot in (0..end).rev() {
                if *left == 0 {
                    return (taken, (file, slot + 1));
                }
                if slots.is_used(slot) || bit(&slots.backed, slot) != backed {
                    continue;
                }
                *left -= 1;
                slots.take(slot);
                match taken.last_mut() {
                    Some(run) if run.file == file && run.first == slot + 1 => {
                        (run.first, run.count) = (slot, run.count + 1);
                    }
                    _ => taken.push(SlotRun { file, first: slot, count: 1 }),
                }
            }
        }
        (taken, (0, 0))
    }

    /// The slots in these files, with their space or without, and how many are free.
    pub(crate) fn slots_and_free(&self, of: impl Fn(u32) -> bool) -> (u64, u64) {
        let files = self.files.iter().filter(|(file, _)| of(**file));
        files.fold((0, 0), |(all, free), (_, slots)| {
            (all + u64::from(slots.slots), free + u64::from(slots.free))
        })
    }

    /// For each file of these whose last slots are free: its number and the slots it must keep.
    pub(crate) fn free_tails(&self, of: impl Fn(u32) -> bool) -> Vec<(u32, u32)> {
        let files = self.files.iter().filter(|(file, _)| of(**file));
        let tails = files.map(|(&file, slots)| (file, slots.used_end(), slots.slots));
        tails.filter(|&(_, used, all)| used < all).map(|(file, used, _)| (file, used)).collect()
    }

    /// As [`SlotMap::free_tails`], for slots at the end that are known to have no space. Free slots
    /// below the address `unknown` may have space.
    pub(crate) fn bare_tails(
        &self,
        of: impl Fn(u32) -> bool,
        unknown: SlotAddress,
    ) -> Vec<(u32, u32)> {
        let known_from = |file: u32, slots: u32| match file.cmp(&unknown.0) {
            std::cmp::Ordering::Less => slots,
            std::cmp::Ordering::Equal => unknown.1.min(slots),
            std::cmp::Ordering::Greater => 0,
        };
        let files = self.files.iter().filter(|(file, _)| of(**file));
        let tails = files.map(|(&file, slots)| {
            (file, slots.backed_end().max(known_from(file, slots.slots)), slots.slots)
        });
        tails.filter(|&(_, keep, all)| keep < all).map(|(file, keep, _)| (file, keep)).collect()
    }
}
