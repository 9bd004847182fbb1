//! How to carry out a pick: which inputs are re-linked as they are, and which are merged.

use std::sync::Arc;

use super::Pick;
use crate::extent::ExtentHandle;

/// A part of a compaction. Parts follow each other in key order and do not overlap.
#[derive(Clone, Debug)]
pub(crate) enum Segment {
    /// This extent meets no other: it moves without being read.
    Relink(Arc<ExtentHandle>),
    /// These are merged: one list for each source, newest first, each in key order.
    Merge(Vec<Vec<Arc<ExtentHandle>>>),
}

/// Cuts a pick into segments. An extent that overlaps no other input is re-linked when it is worth
/// keeping as it is: at least half full, so that moving it does not breed fragments, and
/// `is_clean`, so that merging it would drop nothing.
pub(crate) fn plan(
    pick: &Pick,
    extent_bytes: u64,
    is_clean: impl Fn(&ExtentHandle) -> bool,
) -> Vec<Segment> {
    let mut inputs: Vec<(usize, &Arc<ExtentHandle>)> = pick
        .sources
        .iter()
        .enumerate()
        .flat_map(|(source, extents)| extents.iter().map(move |extent| (source, extent)))
        .collect();
    inputs.sort_by(|(_, a), (_, b)| a.meta.smallest.cmp(&b.meta.smallest));

    let mut segments = Vec::new();
    let mut merge: Vec<Vec<Arc<ExtentHandle>>> = vec![Vec::new(); pick.sources.len()];
    let mut rest = inputs.as_slice();
    while let Some((_, first)) = rest.first() {
        let mut largest = &first.meta.largest;
        let mut count = 1;
        while let Some((_, next)) = rest.get(count).filter(|(_, e)| e.meta.smallest <= *largest) {
            largest = largest.max(&next.meta.largest);
            count += 1;
        }
        let (group, others) = rest.split_at(count);
        rest = others;
        if count == 1 && first.meta.len * 2 >= extent_bytes && is_clean(first) {
            flush(&mut segments, &mut merge);
            segments.push(Segment::Relink((*first).clone()));
        } else {
            group.iter().for_each(|&(source, extent)| merge[source].push(extent.clone()));
        }
    }
    flush(&mut segments, &mut merge);
    segments
}

fn flush(segments: &mut Vec<Segment>, merge: &mut [Vec<Arc<ExtentHandle>>]) {
    let sources: Vec<_> = merge.iter_mut().map(std::mem::take).filter(|s| !s.is_empty()).collect();
    if !sources.is_empty() {
        segments.push(Segment::Merge(sources));
    }
}
