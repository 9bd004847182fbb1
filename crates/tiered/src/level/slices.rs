//! Neighbouring slices of a run, in key order.

use std::ops::Range;
use std::sync::Arc;

use super::slice::Slice;
use super::tree::SliceNode;

/// Adjacent slices of a run, in key order.
#[derive(Clone, Copy)]
pub(crate) struct Slices<'a> {
    root: &'a SliceNode,
    start: usize,
    end: usize,
}

impl<'a> Slices<'a> {
    pub(super) fn new(root: &'a SliceNode, range: Range<usize>) -> Slices<'a> {
        Slices { root, start: range.start, end: range.end.max(range.start) }
    }

    /// The number of slices.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether there is none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One of them; `None` past their end.
    #[inline]
    pub(crate) fn get(&self, at: usize) -> Option<&'a Arc<Slice>> {
        (at < self.len()).then(|| &self.root.beside(self.start + at)[0])
    }

    /// One of them.
    ///
    /// # Panics
    /// Past their end.
    #[inline]
    pub(crate) fn at(&self, at: usize) -> &'a Arc<Slice> {
        self.get(at).expect("there are as many slices")
    }

    /// The first.
    pub(crate) fn first(&self) -> Option<&'a Arc<Slice>> {
        self.get(0)
    }

    /// The last.
    pub(crate) fn last(&self) -> Option<&'a Arc<Slice>> {
        self.len().checked_sub(1).and_then(|last| self.get(last))
    }

    /// Some of them, by their indexes here.
    ///
    /// # Panics
    /// Past their end.
    pub(crate) fn part(&self, range: Range<usize>) -> Slices<'a> {
        assert!(range.end <= self.len(), "there are as many slices");
        Slices::new(self.root, self.start + range.start..self.start + range.end)
    }

    /// All, in order.
    pub(crate) fn iter(&self) -> Iter<'a> {
        Iter { between: *self, front: [].iter(), back: [].iter() }
    }

    /// All, in a list.
    pub(crate) fn to_vec(self) -> Vec<Arc<Slice>> {
        self.iter().cloned().collect()
    }
}

impl<'a> IntoIterator for Slices<'a> {
    type Item = &'a Arc<Slice>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// Returns slices in order, from both ends, and visits a leaf at a time.
#[derive(Clone)]
pub(crate) struct Iter<'a> {
    between: Slices<'a>,
    front: std::slice::Iter<'a, Arc<Slice>>,
    back: std::slice::Iter<'a, Arc<Slice>>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a Arc<Slice>;

    #[inline]
    fn next(&mut self) -> Option<&'a Arc<Slice>> {
        if let Some(next) = self.front.next() {
            return Some(next);
        }
        let between = &mut self.between;
        if between.is_empty() {
            return self.back.next();
        }
        let beside = between.root.beside(between.start);
        let beside = &beside[..beside.len().min(between.len())];
        between.start += beside.len();
        self.front = beside.iter();
        self.front.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let count = self.front.len() + self.between.len() + self.back.len();
        (count, Some(count))
    }
}

impl<'a> DoubleEndedIterator for Iter<'a> {
    fn next_back(&mut self) -> Option<&'a Arc<Slice>> {
        if let Some(next) = self.back.next_back() {
            return Some(next);
        }
        let between = &mut self.between;
        if between.is_empty() {
            return self.front.next_back();
        }
        let beside = between.root.beside_up_to(between.end - 1);
        let beside = &beside[beside.len() - beside.len().min(between.len())..];
        between.end -= beside.len();
        self.back = beside.iter();
        self.back.next_back()
    }
}

impl ExactSizeIterator for Iter<'_> {}
