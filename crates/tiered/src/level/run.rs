//! A sorted sequence of slices.

use std::sync::Arc;

use spillway_base::{Csn, KeyRange, Result};

use super::retired_nodes;
use super::slice::Slice;
use super::slices::Slices;
use super::tree::{self, Changes, SliceNode};

/// Slices in key order, none overlapping another.
#[derive(Default, Debug)]
pub(crate) struct Run {
    root: Arc<SliceNode>,
}

impl Drop for Run {
    /// The last reader frees only some of its nodes, and leaves the others to a background thread
    /// (DEFERRED-FREE-1).
    fn drop(&mut self) {
        if self.root.count() > 0 {
            retired_nodes::let_go(std::iter::once(std::mem::take(&mut self.root)));
        }
    }
}

impl Run {
    /// Its tree.
    pub(super) fn into_root(mut self) -> Arc<SliceNode> {
        std::mem::take(&mut self.root)
    }

    /// A run of these slices, given in any order.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Corruption`] when two of them share keys.
    pub(crate) fn new(mut slices: Vec<Arc<Slice>>) -> Result<Run> {
        slices.sort_unstable_by(|a, b| a.meta.smallest.cmp(&b.meta.smallest));
        Ok(Run { root: tree::of_sorted(slices)? })
    }

    /// The run with some of its slices replaced by others. It copies only the paths to them.
    ///
    /// # Errors
    /// As [`Run::new`].
    pub(super) fn edited(
        self: &Arc<Run>,
        removed: &[Arc<Slice>],
        mut added: Vec<Arc<Slice>>,
    ) -> Result<Arc<Run>> {
        let is_own = |slice: &&Arc<Slice>| {
            self.slice_of(&slice.meta.smallest).is_some_and(|own| own.meta.id() == slice.meta.id())
        };
        let mut gone: Vec<Arc<Slice>> = removed.iter().filter(is_own).cloned().collect();
        if gone.is_empty() && added.is_empty() {
            return Ok(self.clone());
        }
        if self.root.count() == 0 {
            return Run::new(added).map(Arc::new);
        }
        gone.sort_unstable_by(|a, b| a.meta.smallest.cmp(&b.meta.smallest));
        gone.dedup_by(|a, b| a.meta.smallest == b.meta.smallest);
        added.sort_unstable_by(|a, b| a.meta.smallest.cmp(&b.meta.smallest));
        let changes = Changes { gone: &gone, added: &added };
        Ok(Arc::new(Run { root: tree::edited(&self.root, changes)? }))
    }

    /// The largest CSN in it.
    #[inline]
    pub(crate) fn csn_max(&self) -> Csn {
        self.root.csn_max()
    }

    /// The slices, in key order.
    #[inline]
    pub(crate) fn slices(&self) -> Slices<'_> {
        Slices::new(&self.root, 0..self.root.count())
    }

    /// Bytes of all slices.
    pub(crate) fn bytes(&self) -> u64 {
        self.root.bytes()
    }

    /// The index of the first slice that could hold `key` or a larger one.
    pub(crate) fn seek(&self, key: &[u8]) -> usize {
        self.root.seek(key)
    }

    /// The number of slices that begin at or before `key`: all before the first that could hold it,
    /// and that one unless it begins after `key`.
    pub(crate) fn begun(&self, key: &[u8]) -> usize {
        let at = self.seek(key);
        at + usize::from(self.slices().get(at).is_some_and(|slice| *slice.meta.smallest <= *key))
    }

    /// The slice that would hold `key`.
    #[inline]
    pub(crate) fn slice_of(&self, key: &[u8]) -> Option<&Arc<Slice>> {
        self.root.find(key)
    }

    /// The slices that could hold a key from `smallest` to `largest`, both included.
    pub(crate) fn between(&self, smallest: &[u8], largest: &[u8]) -> Slices<'_> {
        Slices::new(&self.root, self.seek(smallest)..self.begun(largest))
    }

    /// The first slice that could hold a key of the range, if there is one.
    pub(crate) fn first_within(&self, range: KeyRange<'_>) -> Option<usize> {
        let from = self.seek(range.start);
        let slice = self.slices().get(from)?;
        range.end.is_none_or(|end| *slice.meta.smallest < *end).then_some(from)
    }

    /// The slices that could hold a key of the range.
    pub(crate) fn within(&self, range: KeyRange<'_>) -> Slices<'_> {
        let end = range.end.map_or(self.root.count(), |end| {
            let at = self.seek(end);
            at + usize::from(self.slices().get(at).is_some_and(|slice| *slice.meta.smallest < *end))
        });
        Slices::new(&self.root, self.seek(range.start)..end)
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn root(&self) -> &Arc<SliceNode> {
        &self.root
    }
}

/// Drops the runs that have no other reference.
pub(super) fn let_go_of(runs: impl Iterator<Item = Arc<Run>>) {
    retired_nodes::let_go(runs.filter_map(Arc::into_inner).map(Run::into_root));
}
