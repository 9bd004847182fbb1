//! The write load of a sub-table: how much is written to it, and where. The engine splits and joins
//! sub-tables by it (`engine/partition`).
//!
//! # Guarantees
//! - **WRITE-LOAD-1.** A split divides the write load between its halves, in proportion to the
//!   writes to the keys of each. A join adds the loads. So the halves of a sub-table that was split
//!   because of its load are not joined again before their loads have decayed.
//! - **WRITE-LOAD-2.** [`WriteLoad::middle`] returns a key only if the latest writes went to both
//!   sides of it, so that writes to both sides are likely to continue. A sub-table to which rows
//!   are only appended has no such key, because each flush lies behind all earlier ones.
//!
//! Write loads are only in memory, and an opening starts without them. So the engine joins no
//! sub-tables because of low loads before it has flushed a half-life of bytes since the opening.
//! (With one core it does, because then it splits no sub-table because of its load.)

use std::collections::VecDeque;

use spillway_base::lock::Mutex;

/// The keys that are remembered of a flush. They divide its data into parts of about equal size.
pub(crate) const MARKS: usize = 8;
const MARKS_MAX: usize = 8 * MARKS;
/// The marks of fewer flushes do not predict the keys of the next ones.
const FLUSHES_LEAST: usize = 4;
/// The newest one in this many marks show where writes go now. The marks of a single small flush
/// would show little.
const LATELY_SHARE: usize = 4;
/// The bytes of a key that are remembered. A truncated key is a valid key too.
const KEY_BYTES: usize = 64;

/// A key that a flush has written.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct LoadMark {
    /// The bytes that the engine had flushed by then.
    at: u64,
    key: Box<[u8]>,
}

/// Flushed bytes, where older ones weigh less.
#[derive(Clone, Default, Debug)]
struct LoadAmount {
    bytes: f64,
    /// The bytes that the engine had flushed when these were last counted.
    at: u64,
    /// In the order of the flushes.
    marks: VecDeque<LoadMark>,
}

impl LoadAmount {
    fn after(&self, flushed: u64, half_life: u64) -> f64 {
        let passed = flushed.saturating_sub(self.at) as f64;
        self.bytes * (-passed / half_life.max(1) as f64).exp2()
    }

    fn forget_old_marks(&mut self) {
        let old = self.marks.len().saturating_sub(MARKS_MAX);
        self.marks.drain(..old);
    }
}

/// The recent write load of a sub-table.
#[derive(Default)]
pub(crate) struct WriteLoad(Mutex<LoadAmount>);

impl WriteLoad {
    /// The flushed bytes of the sub-table, after the engine has flushed `flushed` bytes in all.
    /// They count half for each `half_life` bytes that the engine has flushed since.
    pub(crate) fn after(&self, flushed: u64, half_life: u64) -> f64 {
        self.0.lock().after(flushed, half_life)
    }

    /// Counts a flush. `keys` divide its data into parts of about equal size.
    pub(crate) fn add<'k>(
        &self,
        bytes: u64,
        flushed: u64,
        half_life: u64,
        keys: impl Iterator<Item = &'k [u8]>,
    ) {
        let mut warmth = self.0.lock();
        warmth.bytes = warmth.after(flushed, half_life) + bytes as f64;
        warmth.at = flushed;
        let mark =
            |key: &[u8]| LoadMark { at: flushed, key: key[..key.len().min(KEY_BYTES)].into() };
        warmth.marks.extend(keys.map(mark));
        warmth.forget_old_marks();
    }

    /// The number of remembered keys.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn marks(&self) -> usize {
        self.0.lock().marks.len()
    }

    /// A key that divides the writes evenly, if they are likely to go on so (WRITE-LOAD-2).
    pub(crate) fn middle(&self) -> Option<Box<[u8]>> {
        let warmth = self.0.lock();
        let marks = &warmth.marks;
        let mut flushes: Vec<u64> = marks.iter().map(|mark| mark.at).collect();
        flushes.dedup();
        let mut keys: Vec<&[u8]> = marks.iter().map(|mark| &*mark.key).collect();
        keys.sort_unstable();
        let middle = *keys.get(keys.len() / 2)?;
        let lately = marks.iter().rev().take(marks.len().div_ceil(LATELY_SHARE));
        let (before, after): (Vec<_>, Vec<_>) = lately.partition(|mark| *mark.key < *middle);
        let spreads = before.len().min(after.len()) * 4 >= before.len() + after.len();
        (flushes.len() >= FLUSHES_LEAST && spreads).then(|| middle.into())
    }

    /// The write loads of the two halves of a sub-table that is split at a key (WRITE-LOAD-1).
    pub(crate) fn halves(&self, key: &[u8]) -> [WriteLoad; 2] {
        let whole = self.0.lock().clone();
        let (before, after): (VecDeque<_>, VecDeque<_>) =
            whole.marks.into_iter().partition(|mark| *mark.key < *key);
        let all = before.len() + after.len();
        let share = if all == 0 { 0.5 } else { before.len() as f64 / all as f64 };
        let half = |share: f64, marks| {
            WriteLoad(Mutex::new(LoadAmount { bytes: whole.bytes * share, at: whole.at, marks }))
        };
        [half(share, before), half(1.0 - share, after)]
    }

    /// The write load of two sub-tables that are joined (WRITE-LOAD-1).
    pub(crate) fn joined(&self, next: &WriteLoad, half_life: u64) -> WriteLoad {
        let (one, other) = (self.0.lock().clone(), next.0.lock().clone());
        let at = one.at.max(other.at);
        let bytes = one.after(at, half_life) + other.after(at, half_life);
        let mut marks: Vec<LoadMark> = one.marks.into_iter().chain(other.marks).collect();
        marks.sort();
        let mut joined = LoadAmount { bytes, at, marks: marks.into() };
        joined.forget_old_marks();
        WriteLoad(Mutex::new(joined))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HALF_LIFE: u64 = 500;

    /// Heat of flushes of 100 bytes each, with these keys.
    fn heat_of<const N: usize>(flushes: impl Iterator<Item = [u8; N]>) -> WriteLoad {
        let heat = WriteLoad::default();
        for (number, keys) in flushes.enumerate() {
            let flushed = 100 * (number as u64 + 1);
            heat.add(100, flushed, HALF_LIFE, keys.iter().map(std::slice::from_ref));
        }
        heat
    }

    #[test]
    fn heat_is_forgotten_by_halves() {
        let heat = WriteLoad::default();
        let none = || std::iter::empty();
        heat.add(100, 1000, 500, none());
        assert_eq!((heat.after(1000, 500), heat.after(1500, 500)), (100.0, 50.0));
        heat.add(10, 2000, 500, none());
        assert_eq!(heat.after(2000, 500), 35.0);
    }

    /// WRITE-LOAD-1.
    #[test]
    fn halves_have_what_was_written_to_them() {
        let whole = heat_of((0..4).map(|_| [10, 20, 30, 40]));
        let all = whole.after(400, HALF_LIFE);
        let halves = whole.halves(&[15]);
        let each = halves.each_ref().map(|half| half.after(400, HALF_LIFE) / all);
        assert_eq!(each, [0.25, 0.75]);
        assert_eq!(halves[1].middle().as_deref(), Some(&[30][..]));
        let joined = halves[0].joined(&halves[1], HALF_LIFE);
        assert!((joined.after(400, HALF_LIFE) - all).abs() < 1e-9);
        assert_eq!(joined.middle(), whole.middle());
        // One half was written to later.
        halves[1].add(50, 900, HALF_LIFE, std::iter::empty());
        let joined = halves[0].joined(&halves[1], HALF_LIFE);
        assert!((joined.after(900, HALF_LIFE) - (all / 2.0 + 50.0)).abs() < 1e-9);
    }

    /// WRITE-LOAD-2.
    #[test]
    fn the_middle_is_where_both_halves_go_on_to_be_written() {
        assert_eq!(heat_of((0..3).map(|_| [1, 2, 3, 4])).middle(), None, "too early to tell");
        let middle = heat_of((0..9).map(|_| [10, 11, 12, 200])).middle();
        assert_eq!(middle.as_deref(), Some(&[12][..]));
        assert_eq!(heat_of((0..9).map(|turn| [2 * turn, 2 * turn + 1])).middle(), None, "appended");
        assert_eq!(heat_of((0..9).map(|_| [7; 4])).middle(), None, "one key");
        let moved = (0..12).map(|turn| if turn < 6 { [1, 2] } else { [101, 102] });
        assert_eq!(heat_of(moved).middle().as_deref(), None, "the last ones are in one half");
    }

    #[test]
    fn few_keys_are_kept_and_short_ones() {
        let heat = WriteLoad::default();
        let long = [7; 3000];
        (0..100).for_each(|turn| heat.add(1, turn, 1, std::iter::repeat_n(&long[..], MARKS)));
        let warmth = heat.0.lock();
        assert_eq!(warmth.marks.len(), MARKS_MAX);
        assert!(warmth.marks.iter().all(|mark| mark.key.len() == KEY_BYTES));
    }
}
