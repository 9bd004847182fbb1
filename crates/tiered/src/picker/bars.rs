//! Ranges of keys that compactions keep away from.

use crate::extent_meta::SliceMeta;

/// Ranges that are barred, both ends included.
#[derive(Clone, Default, Debug)]
pub(crate) struct Bars(Vec<(Box<[u8]>, Box<[u8]>)>);

impl Bars {
    /// Bars a range, which may overlap others.
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

    /// The ranges in between, in key order.
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

    /// Whether a slice lies inside, whole.
    pub(crate) fn holds(&self, slice: &SliceMeta) -> bool {
        self.after.is_none_or(|after| *slice.smallest > *after)
            && self.before.is_none_or(|before| *slice.largest < *before)
    }
}
