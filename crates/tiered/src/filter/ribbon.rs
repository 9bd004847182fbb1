//! A standard ribbon filter (Dillinger, Walzer, "Ribbon filter: practically smaller than Bloom and
//! Xor", 2021, sections 2 and 3).
//!
//! There are slightly more *slots* than keys. Each slot has seven bits, which the builder has to
//! find. The hash of a key gives 64 consecutive slots, a choice of some of them, and a value of
//! seven bits. The XOR of the chosen slots must equal the value. So each key gives one linear
//! equation over 64 consecutive slots. Such a system of equations is banded, and is solved in
//! nearly linear time. A key that was not inserted satisfies its equation with probability 1/128.
//!
//! If the system has no solution, the builder tries another seed of the hash. After several failed
//! seeds it also adds slots.
//!
//! If a filter has at most 64 slots, each key chooses among all of them.
//!
//! # Format
//! The number of slots is a multiple of eight. The slots are stored as seven *columns*. A column
//! has one bit of every slot.
//!
//! ```text
//! for each 64 slots    seven little-endian words, one for each column: bit `i` belongs to slot `i`
//!                      of these
//! remaining slots      seven byte strings, one for each column, with one bit for each slot
//! ```
//!
//! The slots of a key lie in at most two consecutive groups of 64 slots, so a lookup reads at most
//! 112 consecutive bytes.

/// Bits of a value.
const COLUMNS: usize = 7;
/// The slots from which a key selects.
const WINDOW: usize = 64;
const WORD_BYTES: usize = 8;
const GROUP_BYTES: usize = COLUMNS * WORD_BYTES;
/// The largest possible seed.
pub(super) const SEED_MAX: u8 = 127;
/// The number of seeds that are tried.
const SEEDS: u8 = 64;
/// A ribbon has spare slots beside one for each key: a 32nd of the number of keys, plus three. Each
/// time that eight seeds have failed, it gets as many more.
const SPARE_SHARE: usize = 32;
const SEEDS_EACH: u8 = 8;
const SPARE_LEAST: usize = 3;

/// The condition of a key on the slots.
struct Equation {
    start: usize,
    chosen: u64,
    value: u8,
}

impl Equation {
    #[inline]
    fn of(hash: u64, seed: u8, slots: usize) -> Equation {
        let salt = u64::from(seed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let mixed = (hash ^ salt).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
        let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
        let mixed = mixed ^ mixed >> 29;
        let other = mixed.wrapping_mul(0xD6E8_FEB8_6659_FD93);
        let chosen = other ^ other >> 32;
        let value = (mixed.wrapping_mul(0xA076_1D64_78BD_642F) >> (64 - COLUMNS)) as u8;
        if slots > WINDOW {
            let starts = slots - WINDOW + 1;
            let start = ((u128::from(mixed) * starts as u128) >> 64) as usize;
            Equation { start, chosen: chosen | 1, value }
        } else {
            Equation { start: 0, chosen: chosen & u64::MAX >> (WINDOW - slots), value }
        }
    }
}

/// The equations, each stored at its first slot. No two equations have the same first slot.
struct Band {
    chosen: Vec<u64>,
    values: Vec<u8>,
}

impl Band {
    /// The equations of all keys, unless they contradict each other.
    fn of(hashes: &[u64], seed: u8, slots: usize) -> Option<Band> {
        let mut band = Band { chosen: vec![0; slots], values: vec![0; slots] };
        hashes.iter().all(|hash| band.add(Equation::of(*hash, seed, slots))).then_some(band)
    }

    fn add(&mut self, mut equation: Equation) -> bool {
        while equation.chosen != 0 {
            let skip = equation.chosen.trailing_zeros();
            equation.start += skip as usize;
            equation.chosen >>= skip;
            let there = &mut self.chosen[equation.start];
            if *there == 0 {
                *there = equation.chosen;
                self.values[equation.start] = equation.value;
                return true;
            }
            equation.chosen ^= *there;
            equation.value ^= self.values[equation.start];
        }
        // The other equations already imply this one, as for a repeated key, or contradict it.
        equation.value == 0
    }

    /// Appends a solution. It goes from the last slot to the first: the equation of a slot
    /// determines the slot's bits from the slots after it.
    fn solve(&self, columns: &mut Vec<u8>) {
        let from = columns.len();
        columns.resize(from + self.chosen.len() / 8 * COLUMNS, 0);
        let columns = &mut columns[from..];
        // The 64 slots from here on, for each column.
        let mut windows = [0_u64; COLUMNS];
        for slot in (0..self.chosen.len()).rev() {
            windows.iter_mut().for_each(|window| *window <<= 1);
            if self.chosen[slot] != 0 {
                let found = parities(&windows, self.chosen[slot]) ^ self.values[slot];
                for (column, window) in windows.iter_mut().enumerate() {
                    *window |= u64::from(found >> column & 1);
                }
            }
            if slot % WINDOW == 0 {
                let at = slot / WINDOW * GROUP_BYTES;
                let group = &mut columns[at..];
                let bytes = (group.len() / COLUMNS).min(WORD_BYTES);
                for (part, window) in group.chunks_exact_mut(bytes).zip(&windows) {
                    part.copy_from_slice(&window.to_le_bytes()[..bytes]);
                }
            }
        }
    }
}

/// For each word, whether an odd number of its chosen bits is set.
#[inline]
fn parities(words: &[u64; COLUMNS], chosen: u64) -> u8 {
    /// Adds the halves of `a` to each other, and those of `b`, and puts the sums side by side.
    #[inline]
    fn fold(a: u64, b: u64, by: u32, low: u64) -> u64 {
        (a ^ a >> by) & low | ((b ^ b << by) & !low)
    }
    const HALVES: u64 = 0x0000_0000_FFFF_FFFF;
    const QUARTERS: u64 = 0x0000_FFFF_0000_FFFF;
    const EIGHTHS: u64 = 0x00FF_00FF_00FF_00FF;
    let [c0, c1, c2, c3, c4, c5, c6] = words.map(|word| word & chosen);
    // The words are combined in an order that leaves the bytes in the order of the words.
    let (p0, p1) = (fold(c0, c4, 32, HALVES), fold(c2, c6, 32, HALVES));
    let (p2, p3) = (fold(c1, c5, 32, HALVES), fold(c3, 0, 32, HALVES));
    let (q0, q1) = (fold(p0, p1, 16, QUARTERS), fold(p2, p3, 16, QUARTERS));
    let mut bytes = fold(q0, q1, 8, EIGHTHS);
    bytes ^= bytes >> 4;
    bytes ^= bytes >> 2;
    bytes ^= bytes >> 1;
    ((bytes & 0x0101_0101_0101_0101).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8
}

fn slots_for(keys: usize, tried: u8) -> usize {
    let shares = 1 + usize::from(tried / SEEDS_EACH);
    (keys + keys * shares / SPARE_SHARE + SPARE_LEAST * shares).next_multiple_of(8)
}

/// The seed and the columns; `None` if no seed has a solution.
pub(super) fn build(hashes: &[u64]) -> Option<Vec<u8>> {
    (0..SEEDS).find_map(|tried| {
        let seed = tried + 1;
        let band = Band::of(hashes, seed, slots_for(hashes.len(), tried))?;
        let mut filter = Vec::with_capacity(1 + band.chosen.len() / 8 * COLUMNS);
        filter.push(seed);
        band.solve(&mut filter);
        Some(filter)
    })
}

/// The word at this offset, padded with zeros behind the end.
#[inline]
fn word(columns: &[u8], at: usize) -> u64 {
    if let Some(word) = columns.get(at..).and_then(<[u8]>::first_chunk) {
        return u64::from_le_bytes(*word);
    }
    match columns.last_chunk::<WORD_BYTES>() {
        Some(last) => {
            let behind = (at + WORD_BYTES - columns.len()) as u32;
            u64::from_le_bytes(*last).checked_shr(8 * behind).unwrap_or(0)
        }
        // Eight slots, one byte for each column.
        None => columns.get(at).copied().map_or(0, u64::from),
    }
}

/// The words of a group, one for each column. Bits behind the last slot are arbitrary, but no key
/// chooses them.
#[inline]
fn group(columns: &[u8], number: usize) -> [u64; COLUMNS] {
    let from = number * GROUP_BYTES;
    let bytes = (columns.len().saturating_sub(from) / COLUMNS).min(WORD_BYTES);
    std::array::from_fn(|column| word(columns, from + column * bytes))
}

#[inline]
fn windows(columns: &[u8], start: usize) -> [u64; COLUMNS] {
    let (number, shift) = (start / WINDOW, start % WINDOW);
    let both = columns.get(number * GROUP_BYTES..).and_then(<[u8]>::first_chunk);
    let both: Option<&[u8; 2 * GROUP_BYTES]> = both;
    if let Some(both) = both {
        let word = |column: usize| {
            let at = column * WORD_BYTES;
            let bytes = both[at..at + WORD_BYTES].try_into().expect("a word's bytes");
            u64::from_le_bytes(bytes)
        };
        return std::array::from_fn(|column| {
            word(column) >> shift | word(COLUMNS + column) << 1 << (WINDOW - 1 - shift)
        });
    }
    let first = group(columns, number);
    if shift == 0 {
        return first;
    }
    let second = group(columns, number + 1);
    std::array::from_fn(|column| {
        first[column] >> shift | second[column] << 1 << (WINDOW - 1 - shift)
    })
}

/// Whether the equation of a key of this hash holds.
#[inline]
pub(super) fn may_contain(columns: &[u8], seed: u8, hash: u64) -> bool {
    let slots = columns.len() / COLUMNS * 8;
    if slots == 0 {
        return true;
    }
    let equation = Equation::of(hash, seed, slots);
    parities(&windows(columns, equation.start), equation.chosen) == equation.value
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use spillway_base::rng::Rng;

    #[test]
    fn parities_are_those_of_the_chosen_bits() {
        let mut rng = Rng::new(3);
        for _ in 0..1000 {
            let words = std::array::from_fn(|_| rng.next_u64());
            let chosen = rng.next_u64() >> (rng.next_u64() % 64);
            let one_by_one = words.iter().enumerate().fold(0, |all, (column, word): (_, &u64)| {
                all | ((word & chosen).count_ones() as u8 & 1) << column
            });
            assert_eq!(parities(&words, chosen), one_by_one);
        }
    }

    /// FILTER-3: on average few seeds are tried, for any number of keys.
    #[test]
    fn filter_3_few_seeds_are_tried() {
        for keys in [1, 2, 5, 13, 14, 30, 57, 61, 62, 63, 130, 520, 2000] {
            let rounds = 100;
            let mut rng = Rng::new(keys as u64);
            let tried: usize = (0..rounds)
                .map(|_| {
                    let hashes: Vec<u64> = (0..keys).map(|_| rng.next_u64()).collect();
                    usize::from(build(&hashes).expect("a solution")[0])
                })
                .sum();
            assert!(tried < 3 * rounds, "{keys} keys: {tried} seeds for {rounds}");
        }
    }

    /// The group before the last one is full and the last one is not. The windows span both.
    #[test]
    fn windows_are_the_same_wherever_they_lie() {
        let mut rng = Rng::new(5);
        for slots in (8..300).step_by(8) {
            let band = Band {
                chosen: vec![1; slots],
                values: (0..slots).map(|_| (rng.next_u64() & 127) as u8).collect(),
            };
            let mut columns = Vec::new();
            // Each equation has one slot, so the solution equals the values.
            band.solve(&mut columns);
            for start in 0..=slots.saturating_sub(WINDOW) {
                let found = windows(&columns, start);
                for slot in start..slots.min(start + WINDOW) {
                    for (column, window) in found.iter().enumerate() {
                        let bit = window >> (slot - start) & 1;
                        assert_eq!(
                            bit as u8,
                            band.values[slot] >> column & 1,
                            "{slots} {start} {slot}"
                        );
                    }
                }
            }
        }
    }
}
