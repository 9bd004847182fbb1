//! The segments of a lane's log. Each segment has the largest CSN of all its commits, and the
//! largest CSN of its commits to each engine. A cut of the log compares these CSNs with those up to
//! which the engines' files have all commits.

use std::collections::VecDeque;

use spillway_base::{Csn, EngineKind, EngineSet};
use spillway_storage::plog::Position;

/// The newest of some commits.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Newest {
    /// The newest of all commits.
    pub(crate) commit: Csn,
    /// The newest commit that writes to tables of each engine, by [`EngineKind::index`].
    pub(super) of: [Csn; EngineKind::COUNT],
}

impl Newest {
    /// Counts a commit that writes to tables of these engines.
    pub(crate) fn add(&mut self, csn: Csn, engines: EngineSet) {
        self.commit = self.commit.max(csn);
        for kind in engines.iter() {
            let of = &mut self.of[kind.index()];
            *of = csn.max(*of);
        }
    }

    /// The engines whose tables they write to.
    pub(super) fn engines(&self) -> EngineSet {
        let mut engines = EngineSet::EMPTY;
        let written = |kind: &EngineKind| self.of[kind.index()] > Csn::ZERO;
        EngineKind::ALL.into_iter().filter(written).for_each(|kind| engines.insert(kind));
        engines
    }

    /// Adds the commits that `other` was made of.
    pub(crate) fn join(&mut self, other: Newest) {
        self.commit = self.commit.max(other.commit);
        for (of, other) in self.of.iter_mut().zip(other.of) {
            *of = other.max(*of);
        }
    }

    /// Excludes the commits past `last`. An engine that only these wrote to counts as written to by
    /// `last`.
    pub(crate) fn discard_after(&mut self, last: Csn) {
        self.commit = self.commit.min(last);
        self.of = self.of.map(|of| of.min(last));
    }
}

/// A segment from before the opening.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OldSegment {
    pub(crate) segment: u64,
    pub(crate) newest: Newest,
    /// Whether commits in it were discarded.
    pub(crate) discarded: bool,
}

/// A segment with commits.
#[derive(Clone, Copy)]
pub(super) struct Filled {
    pub(super) segment: u64,
    pub(super) newest: Newest,
    /// Whether an earlier opening wrote it.
    pub(super) earlier: bool,
    /// Whether commits in it were discarded by an opening.
    pub(super) discarded: bool,
}

/// The segments of a lane's log that recovery still needs, in order.
#[derive(Default)]
pub(super) struct Segments {
    pub(super) filled: VecDeque<Filled>,
    /// The log begins with this segment, or a later one.
    begin: u64,
}

impl Segments {
    /// The segments that an opening found.
    pub(super) fn found(old: Vec<OldSegment>) -> Segments {
        let filled = old.into_iter().map(|old| Filled {
            segment: old.segment,
            newest: old.newest,
            earlier: true,
            discarded: old.discarded,
        });
        Segments { filled: filled.collect(), begin: 0 }
    }

    /// A frame whose newest commit is `newest` was written.
    pub(super) fn note(&mut self, position: Position, newest: Newest) {
        match self.filled.back_mut() {
            Some(last) if last.segment == position.segment => last.newest.join(newest),
            _ => self.filled.push_back(Filled {
                segment: position.segment,
                newest,
                earlier: false,
                discarded: false,
            }),
        }
    }

    /// The segment that the lane appends to, if this opening has written to the lane.
    fn current(&self) -> Option<u64> {
        self.filled.back().filter(|last| !last.earlier).map(|last| last.segment)
    }

    /// The number of segments, from the first on, that have no commit above `persisted`. Segments
    /// of this opening count only if `own` is set, and the segment that the lane appends to never
    /// counts.
    pub(super) fn covered(&self, persisted: Csn, own: bool) -> usize {
        let current = self.current();
        let covered = self.filled.iter().take_while(|filled| {
            filled.newest.commit <= persisted
                && (own || filled.earlier)
                && Some(filled.segment) != current
        });
        covered.count()
    }

    /// The newest commit of each segment that the lane no longer appends to. The segment can be cut
    /// once that commit is persistent.
    pub(super) fn full(&self) -> impl Iterator<Item = Csn> {
        let current = self.current();
        let full = self.filled.iter().filter(move |filled| Some(filled.segment) != current);
        full.map(|filled| filled.newest.commit)
    }

    /// The segment at which the log would begin after a cut of the covered segments.
    pub(super) fn begin_of_rest(&self, persisted: Csn, own: bool) -> u64 {
        let last = self.covered(persisted, own).checked_sub(1).map(|last| self.filled[last]);
        last.map_or(self.begin, |last| self.begin.max(last.segment + 1))
    }

    /// Forgets the segments before this one.
    pub(super) fn cut_before(&mut self, segment: u64) {
        let cut = self.filled.iter().take_while(|filled| filled.segment < segment).count();
        self.filled.drain(..cut);
        self.begin = self.begin.max(segment);
    }
}
