//! Rows of a memtable.

use std::sync::Arc;

use spillway_base::{Csn, Direction, KeyRange};

use super::Bounds;
use crate::block::Entry;
use crate::gaps::Gap;
use crate::memtable::{Memtable, Place};

/// Rows of a memtable.
pub(crate) struct MemtableSource {
    memtable: Arc<Memtable>,
    bounds: Arc<Bounds>,
    direction: Direction,
    snapshot: Csn,
    place: Option<Place>,
}

impl MemtableSource {
    pub(crate) fn new(
        memtable: Arc<Memtable>,
        bounds: Arc<Bounds>,
        direction: Direction,
        snapshot: Csn,
    ) -> MemtableSource {
        MemtableSource { memtable, bounds, direction, snapshot, place: None }
    }

    fn step(&self, from: Option<Place>) -> Place {
        match (self.direction, from) {
            (Direction::Forward, None) => self.memtable.seek(&self.bounds.start),
            (Direction::Forward, Some(place)) => self.memtable.after(place),
            (Direction::Backward, None) => self.memtable.seek_before(self.bounds.end.as_deref()),
            (Direction::Backward, Some(place)) => self.memtable.before(place),
        }
    }

    /// Whether there is a key at a place, inside of the bounds.
    #[inline]
    fn is_inside(&self, place: Place) -> bool {
        let key = self.memtable.key(place);
        key.is_some_and(|key| self.bounds.reaches(key, self.direction))
    }

    #[inline]
    pub(super) fn advance_near(&mut self) -> bool {
        if self.place.is_none() {
            return false;
        }
        let place = self.step(self.place);
        let is_value = self.is_inside(place)
            && self
                .memtable
                .visible(place, self.snapshot)
                .is_some_and(|version| version.value.is_some());
        if is_value {
            self.place = Some(place);
        }
        is_value
    }

    pub(super) fn advance(&mut self) -> bool {
        loop {
            let place = self.step(self.place);
            self.place = Some(place);
            if !self.is_inside(place) {
                return false;
            }
            if self.memtable.visible(place, self.snapshot).is_some() {
                return true;
            }
        }
    }

    pub(super) fn entry(&self) -> Entry<'_> {
        let row = self.place.and_then(|place| {
            let version = self.memtable.visible(place, self.snapshot)?;
            let key = self.memtable.key(place)?;
            Some(Entry { key, csn: version.csn, value: version.value })
        });
        row.expect("the source stands on a row")
    }

    pub(super) fn start(&self) -> &[u8] {
        &self.bounds.start
    }

    pub(super) fn leap_hidden(&mut self, hidden: KeyRange<'_>, upto: Csn) -> bool {
        // What is installed from now on is no row to this snapshot.
        let is_hidden = self.memtable.csn_max() <= upto;
        if is_hidden {
            self.bounds = self.bounds.past(hidden, self.direction);
            self.place = None;
        }
        is_hidden
    }

    pub(super) fn leap(&mut self, gap: &Gap) {
        self.bounds = self.bounds.behind(gap, self.direction);
        self.place = None;
    }
}
