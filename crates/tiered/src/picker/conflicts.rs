//! Conflicts: key ranges that compactions must not touch.

use spillway_base::range;

use crate::extent_meta::SliceMeta;
use crate::level::{Run, Slices};

/// Ranges that are barred, both ends included.
#[derive(Clone, Default, Debug)]
pub(crate) struct Conflicts(Vec<(Box<[u8]>, Box<[u8]>)>);

impl Conflicts {
    /// Adds a range, which may overlap others.
    pub(crate) fn add(&mut self, smallest: &[u8], largest: &[u8]) {
        self.0.push((smallest.into(), largest.into()));
        self.0.sort_unstable();
    }

    /// Frees a range that was barred.
    pub(crate) fn remove(&mut self, smallest: &[u8], largest: &[u8]) {
        let is_it = |bar: &(Box<[u8]>, Box<[u8]>)| *bar.0 == *smallest && *bar.1 == *largest;
        if let Some(at) = self.0.iter().position(is_it) {
            self.0.remove(at);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a slice shares keys with a barred range.
    pub(crate) fn touch(&self, slice: &SliceMeta) -> bool {
        self.overlap(&slice.smallest, &slice.largest)
    }

    /// Whether a range, both ends included, shares keys with a barred one.
    pub(crate) fn overlap(&self, smallest: &[u8], largest: &[u8]) -> bool {
        self.0.iter().any(|(first, last)| smallest <= &**last && &**first <= largest)
    }

    /// The keys at which barred ranges begin, and the first keys past them, in order.
    pub(crate) fn edges(&self) -> Vec<Box<[u8]>> {
        let windows = self.windows().into_iter();
        let ends = windows.flat_map(|window| {
            let after = window.after.map(|after| range::successor(after).into());
            after.into_iter().chain(window.before.map(Into::into))
        });
        let mut edges: Vec<Box<[u8]>> = ends.collect();
        edges.dedup();
        edges
    }

    /// The ranges of keys that are not barred, in key order.
    pub(crate) fn windows(&self) -> Vec<Window<'_>> {
        let mut windows = Vec::new();
        let mut after: Option<&[u8]> = None;
        for (smallest, largest) in &self.0 {
            if after.is_none_or(|after| after < &**smallest) {
                windows.push(Window { after, before: Some(smallest) });
            }
            after = after.max(Some(largest));
        }
        windows.push(Window { after, before: None });
        windows
    }
}

/// A range of keys, both ends excluded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window<'a> {
    pub(super) after: Option<&'a [u8]>,
    pub(super) before: Option<&'a [u8]>,
}

impl<'a> Window<'a> {
    /// Both ends.
    pub(super) fn ends(&self) -> (Option<&'a [u8]>, Option<&'a [u8]>) {
        (self.after, self.before)
    }

    /// Whether a slice lies completely inside.
    pub(crate) fn holds(&self, slice: &SliceMeta) -> bool {
        self.after.is_none_or(|after| *slice.smallest > *after)
            && self.before.is_none_or(|before| *slice.largest < *before)
    }

    /// A run's slices with keys in the window; `None` if one of them reaches out of it.
    pub(super) fn whole<'r>(&self, run: &'r Run) -> Option<Slices<'r>> {
        let slices = run.slices();
        let mut from = self.after.map_or(0, |after| run.seek(after));
        if let Some((first, after)) = slices.get(from).zip(self.after)
            && *first.meta.smallest <= *after
        {
            if *first.meta.largest > *after {
                return None;
            }
            from += 1;
        }
        let to = self.before.map_or(slices.len(), |before| run.seek(before));
        if let Some((next, before)) = slices.get(to).zip(self.before)
            && *next.meta.smallest < *before
        {
            return None;
        }
        Some(slices.part(from..to.max(from)))
    }
}
