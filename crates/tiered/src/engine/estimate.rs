//! Estimates the number of keys in a range, for a planner that chooses an access path. An estimate
//! reads no device.
//!
//! In a memtable, the estimate counts a limited number of keys and extrapolates from them. In each
//! run, it examines a limited number of slices and extrapolates from them. A slice inside the range
//! counts whole. A slice at an end of the range counts in part. If the index of its extent is in
//! memory, the index gives the block in which the range ends, and the estimate interpolates within
//! this block. Otherwise it interpolates within the slice. To interpolate between the first and the
//! last key, it takes the eight bytes behind their common prefix as numbers.
//!
//! Rejected: counting a fixed share of each slice at an end, such as half. A range of a hundred
//! keys would count as half of an extent, and a planner would prefer a full scan.

use spillway_base::KeyRange;
use spillway_base::engine::RangeEstimate;

use crate::filter::place_between;
use crate::level::Slice;
use crate::memtable::Memtable;
use crate::table::Table;
use crate::view::View;

/// The most slices whose records are read; the estimate assumes that the others are similar. Also
/// the most keys of a memtable that are counted.
const SAMPLE: usize = 64;

/// Estimates a range.
pub(super) fn estimate(table: &Table, range: KeyRange<'_>) -> RangeEstimate {
    let mut estimate = RangeEstimate::default();
    for part in table.parts().within(range) {
        let range = part.range().intersection(range);
        add_estimate(&mut estimate, &part.view(), range);
    }
    estimate
}

fn add_estimate(estimate: &mut RangeEstimate, view: &View, range: KeyRange<'_>) {
    for run in view.levels.runs() {
        let slices = run.within(range);
        let sample = slices.part(0..slices.len().min(SAMPLE));
        let (mut keys, mut bytes) = (0.0, 0.0);
        for slice in sample {
            let share = share_of(slice, range);
            keys += slice.meta.counts.keys as f64 * share;
            bytes += slice.meta.counts.payload_bytes as f64 * share;
        }
        let times = slices.len() as f64 / (sample.len() as f64).max(1.0);
        estimate.keys += (keys * times).ceil() as u64;
        estimate.bytes += (bytes * times).ceil() as u64;
    }
    for memtable in view.memtables() {
        let keys = count_in_memory(memtable, range);
        estimate.keys += keys;
        estimate.bytes += keys * memtable.bytes() as u64 / (memtable.keys() as u64).max(1);
    }
}

/// The share of a slice's keys that is in a range.
fn share_of(slice: &Slice, range: KeyRange<'_>) -> f64 {
    let (smallest, largest) = (&*slice.meta.smallest, &*slice.meta.largest);
    let begins_before = smallest < range.start;
    let end = range.end.filter(|end| *end <= largest);
    if !begins_before && end.is_none() {
        return 1.0;
    }
    let pin = slice.extent.cache().pin();
    let table = slice.extent.table(&pin);
    let place = |key: &[u8]| match &table {
        Some(table) => {
            let blocks = slice.meta.block_range();
            let block = table.seek(blocks.clone(), key).min(blocks.end - 1);
            let within = place_between(table.first(block), table.last(block), key);
            ((block - blocks.start) as f64 + within) / blocks.len() as f64
        }
        None => place_between(smallest, largest, key),
    };
    let from = if begins_before { place(range.start) } else { 0.0 };
    (end.map_or(1.0, place) - from).max(0.0)
}

/// The keys of a memtable in a range. At most [`SAMPLE`] keys are counted; if there are more, their
/// number is extrapolated.
fn count_in_memory(memtable: &Memtable, range: KeyRange<'_>) -> u64 {
    let all = memtable.keys() as u64;
    if range == KeyRange::ALL {
        return all;
    }
    let first = memtable.seek(range.start);
    let (mut place, mut count) = (first, 0);
    while count < SAMPLE as u64 {
        match memtable.key(place) {
            Some(key) if range.contains(key) => count += 1,
            _ => return count,
        }
        place = memtable.after(place);
    }
    let last = memtable.key(memtable.seek_before(range.end));
    let (Some(first), Some(reached), Some(last)) = (memtable.key(first), memtable.key(place), last)
    else {
        return count;
    };
    let counted = place_between(first, last, reached);
    (count as f64 / counted.max(count as f64 / all.max(1) as f64)) as u64
}

#[cfg(all(test, not(loom)))]
mod tests {
    use spillway_base::rng::Rng;

    use super::*;

    #[test]
    fn a_key_is_where_it_is_between_two_others() {
        let key = |number: u64| [b"table".as_slice(), &number.to_be_bytes()].concat();
        let mut rng = Rng::new(1);
        for _ in 0..1000 {
            let mut numbers = [0; 3].map(|_| rng.next_u64() >> rng.below(60));
            numbers.sort_unstable();
            let [first, between, last] = numbers;
            let wanted = (between - first) as f64 / (last - first).max(1) as f64;
            let place = place_between(&key(first), &key(last), &key(between));
            assert!(first == last || (place - wanted).abs() < 0.01, "{numbers:?}: {place}");
        }
        assert_eq!(place_between(b"b", b"d", b"a"), 0.0);
        assert_eq!(place_between(b"b", b"d", b"x"), 1.0);
        assert_eq!(place_between(b"b", b"b", b"b"), 0.0);
    }
}
