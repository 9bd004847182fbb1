//! Version chains: where a commit's version is inserted, which version a snapshot finds, and which
//! versions no snapshot can read any more (HiEngine, sections 4.4 and 5.1).
//!
//! - **CHAIN-1 (order).** A chain has at most one version of each commit that changed the row, the
//!   newest first. The last link of a chain may be a place: the log place of the next older
//!   version.
//! - **CHAIN-2 (kept).** The newest version of each row stays, and so does every version that a
//!   live snapshot finds. The chain may drop any other version once the place of that version is
//!   known.
//! - **CHAIN-3 (removed).** A row is removed if its newest version is a deletion that every live
//!   snapshot sees. The row's entry in the indirection array is locked and made empty, and then the
//!   row's key leaves the index. A thread may find the key in the index before this change, and the
//!   entry empty after it. The thread then looks the key up again.

use std::ptr::NonNull;

use spillway_base::Csn;
use spillway_reclaim::epochs::Pin;

use crate::rows::LockedRow;
use crate::segments::Segments;
use crate::store::{Retired, Store};
use crate::table::Table;
use crate::version::{Content, Version};
use crate::version::{Place, Target, Word};

/// A chain with more versions is thinned between live snapshots.
const LONG: usize = 16;

/// Calls `found` with each place in the entries and versions of a table, and the row's slot. It
/// finds every place that is there from the beginning of the call to its end, unless log compaction
/// runs meanwhile. It may also find places that other threads remove.
pub(crate) fn each_place(store: &Store, table: &Table, found: &mut dyn FnMut(u64, Place)) {
    each_place_and_pause(store, table, found, &mut || {});
}

/// As [`each_place`]. Also calls `pause` again and again, while the thread is not pinned: it may
/// wait for memory that other threads free.
pub(crate) fn each_place_and_pause(
    store: &Store,
    table: &Table,
    found: &mut dyn FnMut(u64, Place),
    pause: &mut dyn FnMut(),
) {
    const UNDER_ONE_PIN: u64 = 4096;
    let end = table.rows.end();
    for begin in (0..end).step_by(UNDER_ONE_PIN as usize) {
        let pin = store.pin();
        for slot in begin..(begin + UNDER_ONE_PIN).min(end) {
            let mut word = table.rows.entry(slot).map_or(Word::EMPTY, |entry| entry.load());
            loop {
                match word.target() {
                    Target::Version(at) => {
                        let version = store.version(at, &pin);
                        if let Ok(place) = version.place() {
                            found(slot, place);
                        }
                        word = version.next();
                    }
                    Target::Place(place) => break found(slot, place),
                    Target::Empty => break,
                }
            }
        }
        drop(pin);
        pause();
    }
}

/// The garbage that a collection left in a chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Garbage {
    /// None.
    Nothing,
    /// Some, which can go once the watermark has reached this commit.
    Until(Csn),
    /// The whole row: its newest version is a deletion that every live snapshot sees.
    Row,
}

/// The chain of a row whose entry the caller has locked.
pub(crate) struct Chain<'c, 'r, 'e> {
    pub(crate) store: &'c Store,
    pub(crate) segments: &'c Segments,
    pub(crate) entry: &'c mut LockedRow<'r>,
    pub(crate) pin: &'c Pin<'e>,
}

impl Chain<'_, '_, '_> {
    fn version(&self, at: NonNull<Version>) -> &Version {
        self.store.version(at, self.pin)
    }

    /// Inserts a version at the position of its commit. It replaces a version of the same commit,
    /// because a later operation of a batch overrides an earlier one. Returns the replaced version,
    /// which readers may still use.
    pub(crate) fn put(&mut self, new: NonNull<Version>) -> Option<NonNull<Version>> {
        let csn = self.version(new).csn();
        let mut above: Option<NonNull<Version>> = None;
        let mut word = self.entry.word();
        let (next, same) = loop {
            match word.target() {
                Target::Version(at) => {
                    let version = self.version(at);
                    if version.csn() > csn {
                        above = Some(at);
                        word = version.next();
                    } else if version.csn() == csn {
                        break (version.next(), Some(at));
                    } else {
                        break (word, None);
                    }
                }
                Target::Place(_) | Target::Empty => break (word, None),
            }
        };
        self.version(new).set_next(next);
        match above {
            Some(above) => {
                self.version(above).set_next(Word::version(new));
                self.entry.mark();
            }
            None => self.entry.set(Word::version(new)),
        }
        same
    }

    /// Whether the chain has garbage now or will have some at a later watermark.
    pub(crate) fn has_garbage(&self) -> bool {
        match self.entry.word().target() {
            Target::Version(at) => {
                let version = self.version(at);
                version.next() != Word::EMPTY || !matches!(version.content(), Content::Value(_))
            }
            Target::Place(_) | Target::Empty => false,
        }
    }

    /// Unlinks the versions older than the newest one at or below the watermark (CHAIN-2).
    pub(crate) fn trim(&mut self, watermark: Csn, retired: &mut Vec<Retired>) -> Garbage {
        let Target::Version(head) = self.entry.word().target() else { return Garbage::Nothing };
        let (mut above, mut at) = (None, head);
        while self.version(at).csn() > watermark {
            match self.version(at).next().target() {
                Target::Version(next) => (above, at) = (Some(at), next),
                Target::Place(_) => return Garbage::Until(self.version(at).csn()),
                // No version is older than the last one above the watermark.
                Target::Empty => {
                    let last = self.version(at);
                    return match (above, last.content()) {
                        (None, Content::Value(_)) => Garbage::Nothing,
                        (None, _) => Garbage::Until(last.csn()),
                        (Some(above), _) => Garbage::Until(self.version(above).csn()),
                    };
                }
            }
        }
        if !self.cut_behind(at, retired) {
            return Garbage::Until(self.version(at).csn());
        }
        let base = self.version(at);
        if let Some(above) = above {
            return Garbage::Until(self.version(above).csn());
        }
        match (base.content(), base.place()) {
            (Content::Value(_), _) => Garbage::Nothing,
            (_, Err(_)) => Garbage::Until(base.csn()),
            (Content::Deleted(_), Ok(_)) => Garbage::Row,
            (Content::Absent, Ok(place)) => {
                self.entry.set_as_it_was(Word::place(place));
                retired.push(Retired::Version(at));
                Garbage::Nothing
            }
        }
    }

    /// Unlinks all versions older than `at`, if the places of all of them are known (STORE-2).
    fn cut_behind(&self, at: NonNull<Version>, retired: &mut Vec<Retired>) -> bool {
        let first = self.version(at).next();
        let mut word = first;
        while let Target::Version(next) = word.target() {
            if self.version(next).place().is_err() {
                return false;
            }
            word = self.version(next).next();
        }
        self.version(at).set_next(Word::EMPTY);
        self.retire_from(first, retired);
        true
    }

    /// Retires an unlinked version and all older ones.
    pub(crate) fn retire_from(&self, first: Word, retired: &mut Vec<Retired>) {
        let mut word = first;
        loop {
            match word.target() {
                Target::Version(at) => {
                    word = self.version(at).next();
                    self.retire(at, retired);
                }
                Target::Place(place) => return self.segments.sub_live(place),
                Target::Empty => return,
            }
        }
    }

    /// Retires one unlinked version whose place is known.
    pub(crate) fn retire(&self, at: NonNull<Version>, retired: &mut Vec<Retired>) {
        if let Ok(place) = self.version(at).place() {
            self.segments.sub_live(place);
        }
        retired.push(Retired::Version(at));
    }

    /// Whether the chain is long enough to be thinned.
    pub(crate) fn is_long(&self) -> bool {
        let mut word = self.entry.word();
        for _ in 0..LONG {
            match word.target() {
                Target::Version(at) => word = self.version(at).next(),
                Target::Place(_) | Target::Empty => return false,
            }
        }
        true
    }

    /// Unlinks the versions that no snapshot of `live` finds (CHAIN-2). The last of `live` is the
    /// stable CSN, and future snapshots are not below it.
    pub(crate) fn thin(&mut self, live: &[Csn], retired: &mut Vec<Retired>) {
        let Target::Version(mut newer) = self.entry.word().target() else { return };
        let stable = live.last().copied().unwrap_or_default();
        loop {
            let Target::Version(at) = self.version(newer).next().target() else { return };
            let (version, above) = (self.version(at), self.version(newer).csn());
            // The first live snapshot that sees the version.
            let first = live.partition_point(|live| *live < version.csn());
            let seen = live.get(first).is_some_and(|live| *live < above);
            if seen || above > stable || version.place().is_err() {
                newer = at;
                continue;
            }
            self.version(newer).set_next(version.next());
            self.retire(at, retired);
        }
    }
}
