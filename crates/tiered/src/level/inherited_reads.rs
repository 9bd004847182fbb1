//! The slices that a compaction writes inherit the read counts of the slices that they replace
//! (TEMPERATURE-4).

use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::Slice;
use crate::extent::ExtentHandle;
use crate::extent_meta::ExtentId;
use crate::temperature::{REGIONS, blocks_of, regions_of};

/// The recent reads of a compaction's inputs, by key: the first key of each region, and its reads.
///
/// It takes the memory of eight keys for each input extent. It assumes that the outputs have about
/// as many rows in each block as the inputs.
#[derive(Default)]
pub(crate) struct InheritedReads(Vec<(Box<[u8]>, f64)>);

impl InheritedReads {
    /// The reads of the inputs' blocks that do not stay where they are.
    pub(crate) fn of<'a>(
        inputs: impl Iterator<Item = &'a Arc<Slice>> + Clone,
        stays: &[Arc<Slice>],
    ) -> InheritedReads {
        let mut regions: Vec<(Box<[u8]>, f64)> = Vec::new();
        if inputs.clone().all(|slice| slice.extent.readings() == [0; REGIONS]) {
            return InheritedReads(regions);
        }
        let mut stay: FxHashMap<ExtentId, Vec<Range<usize>>> = FxHashMap::default();
        for slice in stays {
            stay.entry(slice.meta.extent).or_default().push(slice.meta.block_range());
        }
        for slice in inputs {
            let extent = &slice.extent;
            let stay = stay.get(&slice.meta.extent).map_or(&[][..], |stay| stay);
            let blocks = slice.meta.block_range();
            // The compaction has just read the index. If it was evicted again, all reads count at
            // the slice's first key.
            let resident = extent.resident_now();
            for (region, count) in extent.readings().into_iter().enumerate() {
                let all = blocks_of(region, extent.meta.blocks as usize);
                let goes = |block: &usize| {
                    blocks.contains(block) && !stay.iter().any(|stay| stay.contains(block))
                };
                let going = all.clone().filter(goes);
                let Some(first) = going.clone().next() else { continue };
                let share = going.count() as f64 / all.len() as f64;
                let key = match &resident {
                    Some(resident) => resident.first(first),
                    None => &slice.meta.smallest,
                };
                regions.push((key.into(), count as f64 * share));
            }
        }
        regions.sort_by(|a, b| a.0.cmp(&b.0));
        InheritedReads(regions)
    }

    /// Passes the reads on to the slices that the compaction wrote.
    pub(crate) fn pass_to<'a>(&self, new: impl Iterator<Item = &'a Arc<Slice>>) {
        if self.0.iter().all(|(_, reads)| *reads == 0.0) {
            return;
        }
        for slice in new {
            let meta = &slice.meta;
            let from = self.0.partition_point(|(key, _)| *key < meta.smallest);
            let count = self.0[from..].partition_point(|(key, _)| *key <= meta.largest);
            // A region that begins before this slice and reaches into it counts for the slice
            // before.
            let there = &self.0[from..from + count];
            spread(there, &slice.extent, meta.block_range());
        }
    }
}

/// Spreads reads over blocks of an extent, each region over its share of the blocks.
fn spread(regions: &[(Box<[u8]>, f64)], extent: &ExtentHandle, blocks: Range<usize>) {
    let mut sums = [0.0; REGIONS];
    let all = blocks.len() * regions.len();
    for (at, (_, reads)) in regions.iter().enumerate() {
        // The arithmetic is in units: each block has as many units as there are regions, and each
        // region as many as there are blocks.
        let parts = at * blocks.len()..(at + 1) * blocks.len();
        for block in parts.start / regions.len()..parts.end.min(all).div_ceil(regions.len()) {
            let of_block = block * regions.len()..(block + 1) * regions.len();
            let common = of_block.end.min(parts.end) - of_block.start.max(parts.start);
            let region = regions_of(blocks.start + block, extent.meta.blocks as usize).start;
            sums[region] += reads * common as f64 / blocks.len() as f64;
        }
    }
    for (region, reads) in sums.into_iter().enumerate() {
        let block = blocks_of(region, extent.meta.blocks as usize).start;
        extent.inherit(block, reads.round() as u64);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::extent_meta::{ExtentMeta, SliceMeta};

    /// A slice of an extent with this many blocks, none of which is cached.
    fn slice(id: u64, smallest: &str, largest: &str, blocks: u32, reads: [u64; 8]) -> Arc<Slice> {
        let one = Slice::detached(ExtentId(id), smallest, largest, 1000, 0);
        let extent = ExtentHandle::detached(ExtentMeta { blocks, ..one.extent.meta.clone() });
        for (region, reads) in reads.into_iter().enumerate() {
            extent.inherit(blocks_of(region, blocks as usize).start, reads);
        }
        let meta = SliceMeta { blocks, ..(*one.meta).clone() };
        Slice::new(Arc::new(meta), extent)
    }

    fn reads(slice: &Slice) -> [u64; 8] {
        slice.extent.readings()
    }

    #[test]
    fn what_is_written_of_several_has_what_all_of_them_had() {
        let inputs = [
            slice(1, "a", "c", 80, [5; 8]),
            slice(2, "b", "f", 80, [1; 8]),
            slice(3, "x", "z", 80, [2; 8]),
        ];
        let new = [slice(4, "a", "d", 80, [0; 8]), slice(5, "x", "z", 40, [0; 8])];
        InheritedReads::of(inputs.iter(), &[]).pass_to(new.iter());
        assert_eq!(reads(&new[0]), [10, 10, 10, 10, 2, 2, 2, 2]);
        assert_eq!(reads(&new[1]), [2; 8]);
    }

    #[test]
    fn what_stays_keeps_its_own() {
        let whole = slice(1, "a", "c", 80, [9, 9, 9, 9, 4, 4, 4, 4]);
        let meta = Arc::new(SliceMeta { blocks: 40, ..(*whole.meta).clone() });
        let stays = Slice::new(meta, whole.extent.clone());
        let new = [slice(2, "a", "c", 40, [0; 8])];
        InheritedReads::of([whole].iter(), &[stays]).pass_to(new.iter());
        assert_eq!(reads(&new[0]), [2; 8]);
    }

    #[test]
    fn a_large_value_is_as_warm_as_it_was() {
        let old = slice(1, "a", "a", 1, [63, 37, 0, 0, 0, 0, 0, 0]);
        let new = [slice(2, "a", "a", 1, [0; 8])];
        InheritedReads::of([old].iter(), &[]).pass_to(new.iter());
        assert_eq!(reads(&new[0]), [63, 37, 0, 0, 0, 0, 0, 0]);
    }
}
