//! Merges the fragments of two lists.

use std::sync::Arc;

use spillway_base::KeyRange;

use super::{Fragment, Mark, RangeTombstones};

type FragmentEnds = (Arc<[u8]>, Option<Arc<[u8]>>);

/// The keys of a fragment that are in a range; `None` if there are none.
pub(super) fn intersect(fragment: &Fragment, range: KeyRange<'_>) -> Option<FragmentEnds> {
    let start = match *fragment.start < *range.start {
        true => range.start.into(),
        false => fragment.start.clone(),
    };
    let end = match (&fragment.end, range.end) {
        (Some(end), Some(cut)) if **end <= *cut => Some(end.clone()),
        (_, Some(cut)) => Some(cut.into()),
        (end, None) => end.clone(),
    };
    end.as_ref().is_none_or(|end| *start < **end).then_some((start, end))
}

/// A walk over a list, from its first key to its last.
struct FragmentWalk<'a> {
    rest: std::slice::Iter<'a, Fragment>,
    /// The current fragment, and the key at which the rest of it begins.
    at: Option<(&'a Fragment, &'a Arc<[u8]>)>,
}

impl<'a> FragmentWalk<'a> {
    fn new(list: &'a RangeTombstones) -> FragmentWalk<'a> {
        let mut walk = FragmentWalk { rest: list.fragments.iter(), at: None };
        walk.next();
        walk
    }

    fn next(&mut self) {
        self.at = self.rest.next().map(|fragment| (fragment, &fragment.start));
    }

    /// Skips the keys before a key, or all keys for `None`.
    fn pass(&mut self, key: Option<&'a Arc<[u8]>>) {
        let Some((fragment, start)) = self.at else { return };
        match key {
            Some(key) if fragment.end.as_ref().is_none_or(|end| key < end) => {
                self.at = Some((fragment, key.max(start)));
            }
            _ => self.next(),
        }
    }
}

/// Combines two lists: each key gets the marks that `of` returns for its marks in both.
pub(super) fn combine(
    one: &RangeTombstones,
    other: &RangeTombstones,
    of: impl Fn(&[Mark], &[Mark]) -> Vec<Mark>,
) -> RangeTombstones {
    let mut all: Vec<Fragment> = Vec::with_capacity(one.len() + other.len());
    let (mut a, mut b) = (FragmentWalk::new(one), FragmentWalk::new(other));
    loop {
        // The next range of keys whose marks do not change in either list.
        let starts = a.at.iter().chain(&b.at).map(|(_, start)| *start);
        let Some(start) = starts.min() else { break };
        let bounds = [a.at, b.at].into_iter().flatten().filter_map(|(fragment, from)| {
            if from > start { Some(from) } else { fragment.end.as_ref() }
        });
        let end = bounds.min();
        #[cfg(all(test, not(loom)))]
        super::tests::STEPS.set(super::tests::STEPS.get() + 1);
        let marks = |walk: &FragmentWalk<'_>| {
            let here = walk.at.filter(|(_, from)| *from == start);
            here.map_or_else(Vec::new, |(fragment, _)| fragment.marks.clone())
        };
        let marks = of(&marks(&a), &marks(&b));
        match all.last_mut() {
            // Adjacent fragments with equal marks are joined.
            Some(last) if last.end.as_ref() == Some(start) && last.marks == marks => {
                last.end = end.cloned();
            }
            _ if marks.is_empty() => {}
            _ => all.push(Fragment { start: start.clone(), end: end.cloned(), marks }),
        }
        a.pass(end);
        b.pass(end);
    }
    RangeTombstones { fragments: all }
}
