//! A cursor over a table: a merge of its sources.
//!
//! The next row comes from the source with the next key. If several sources have this key, the
//! newest version hides the others. A merge queue ([`mod@merge_queue`]) orders the sources by their
//! next keys. Most comparisons use only the first bytes behind a common prefix ([`key_prefixes`]).
//!
//! A step advances the first source. Then this source stays first, or moves back past some others.
//! A source can enter the queue with a lower bound of its next key instead of the key. The source
//! reads a block only when it is first in the queue with this bound. So a scan that ends earlier
//! does not read that block.
//!
//! Most steps are *near* steps: every source that has to advance moves from a value to its next
//! value, in the same block or memtable. Near steps cannot fail and skip no row, so the cursor
//! saves no state for them. Before any other step, the cursor saves the key on which it stands, for
//! [`Cursor::last_key`]. Apart from this, the cursor copies no keys and values: the caller reads
//! them in place.
//!
//! The first source may have several consecutive rows before the next key of every other source.
//! Then the cursor returns these rows as one batch, which costs one step.

mod key_prefixes;
mod merge_queue;
mod parts;
#[cfg(all(test, not(loom)))]
mod tests;

use std::sync::Arc;

use smallvec::SmallVec;
use spillway_base::engine::{Access, Cursor};
use spillway_base::{Csn, Direction, Result};

use self::key_prefixes::KeyPrefixes;
use self::merge_queue::{Contest, MergeQueue};
pub(crate) use self::parts::PartsCursor;
use crate::block::Entry;
use crate::ranges::RangeTombstones;
use crate::source::Source;
use crate::subtable::SubTable;
use crate::tombstone_skip::{Gap, Stretch};
use crate::view::View;

/// A kept key. A short key needs no allocation.
type Key = SmallVec<[u8; 32]>;

/// The consecutive hidden rows after which a source leaps out of the hidden range. A leap is a
/// seek, which costs more than a few steps.
const WALKED_HIDDEN_MAX: usize = 8;

/// A source of a cursor.
pub(crate) struct Merged {
    source: Source,
    /// Whether it stands on a row that was not returned yet, or before such a row.
    ready: bool,
    /// Whether it must step before it enters the queue.
    behind: bool,
}

impl Merged {
    /// A source that has made no step.
    pub(crate) fn new(source: Source) -> Merged {
        Merged { source, ready: false, behind: true }
    }
}

/// After a search for several rows that found only one, the cursor makes single steps without a
/// search: one after the first such search, and twice as many after each further one, up to this
/// number.
const ALONE_MAX: u8 = 16;

/// How many single steps follow without a search for several rows.
struct Alone {
    /// The remaining single steps.
    left: u8,
    /// The single steps after the next search that finds only one row.
    next: u8,
}

impl Alone {
    const NONE: Alone = Alone { left: 0, next: 1 };
}

/// The work of the merge that is due before the next row is read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Due {
    /// Sources have to step, and then the queue is built.
    MergeQueue,
    /// The first source has to step.
    Step,
    Nothing,
}

/// A merged scan. It holds the view of the sub-table that it reads, so nothing that the view has is
/// freed.
pub(crate) struct TableCursor {
    sources: Vec<Merged>,
    line: MergeQueue,
    heads: KeyPrefixes,
    due: Due,
    /// Whether a source's block is read only when it is first.
    late: bool,
    direction: Direction,
    snapshot: Csn,
    /// Whether the first source stands on the row that was returned last.
    given: bool,
    /// The number of rows that were returned last. The first source stands on the last of them.
    lent: usize,
    alone: Alone,
    /// The key of the row that was returned last, once the sources have moved on from it.
    left: Option<Key>,
    /// The stretch without rows that was passed since the last row.
    stretch: Stretch,
    /// Rows in that stretch that range tombstones hide.
    walked_hidden: usize,
    /// Whether a row was found.
    found: bool,
    part: Arc<SubTable>,
    /// The range tombstones that hide rows from the scan, if there are any.
    hidden: Option<RangeTombstones>,
    _view: Arc<View>,
}

impl TableCursor {
    /// A cursor at a snapshot over the sources of a sub-table's view, the newest source first. It
    /// skips rows that the range tombstones in `hidden` hide. If `leapt` is given, the sources
    /// begin behind this gap.
    pub(crate) fn new(
        sources: Vec<Merged>,
        direction: Direction,
        snapshot: Csn,
        part: Arc<SubTable>,
        view: Arc<View>,
        hidden: Option<RangeTombstones>,
        leapt: Option<&Gap>,
    ) -> TableCursor {
        let mut stretch = Stretch::default();
        if let Some(gap) = leapt {
            stretch.leap(direction, gap);
        }
        TableCursor {
            sources,
            line: MergeQueue::new(),
            heads: KeyPrefixes::new(direction),
            due: Due::MergeQueue,
            late: false,
            direction,
            snapshot,
            given: false,
            lent: 1,
            alone: Alone::NONE,
            left: None,
            stretch,
            walked_hidden: 0,
            found: false,
            hidden,
            part,
            _view: view,
        }
    }

    /// If there are several sources, lets each stand before its next block until a row of that
    /// block is needed.
    pub(crate) fn late(mut self) -> TableCursor {
        self.late = self.sources.len() > 1;
        self
    }

    /// Lets the sources that are behind step, and builds the queue.
    fn form(&mut self, access: Access) -> Result<()> {
        for merged in &mut self.sources {
            if merged.behind {
                merged.ready = match self.late {
                    true => merged.source.approach(access)?,
                    false => merged.source.advance(access)?,
                };
                merged.behind = false;
            }
        }
        let ready = || self.sources.iter().enumerate().filter(|(_, merged)| merged.ready);
        if self.late {
            ready().for_each(|(_, merged)| merged.source.expect());
        }
        self.heads.choose(ready().map(|(_, merged)| merged.source.key()));
        self.line.clear(self.sources.len());
        let stand = Stand { sources: &self.sources, direction: self.direction };
        for (one, Merged { source, .. }) in ready() {
            let head = self.heads.of(source.key());
            self.line.enter(one, head, source.is_on_value(), &stand);
        }
        Ok(())
    }

    /// The first source of the queue has made a step.
    #[inline]
    fn moved(&mut self, first: usize) {
        let Merged { source, ready, .. } = &self.sources[first];
        let vain = if *ready {
            let head = self.heads.of(source.key());
            let stand = Stand { sources: &self.sources, direction: self.direction };
            self.line.step(head, source.is_on_value(), &stand)
        } else {
            self.line.end();
            0
        };
        self.note_vain(vain);
    }

    /// The source that is tied with the first has made a step.
    #[inline]
    fn moved_tied(&mut self, tied: usize) {
        let Merged { source, ready, .. } = &self.sources[tied];
        let vain = if *ready {
            let head = self.heads.of(source.key());
            let stand = Stand { sources: &self.sources, direction: self.direction };
            self.line.step_tied(head, source.is_on_value(), &stand)
        } else {
            self.line.end_tied();
            0
        };
        self.note_vain(vain);
    }

    /// Counts comparisons of different keys with equal heads, and chooses another prefix if there
    /// were many.
    #[inline]
    fn note_vain(&mut self, vain: u32) {
        if vain > 0 && self.heads.is_vain(vain) {
            let key = |one: usize| self.sources[one].source.key();
            if self.heads.choose(self.line.all().map(key)) {
                self.line.rename(|one| self.heads.of(key(one)));
            }
        }
    }

    /// Steps to the next row, if that takes only near steps. If it returns `false`, the caller
    /// makes the rest of the step in the general way.
    #[inline]
    fn step_near(&mut self) -> bool {
        while let Some(tied) = self.line.tied() {
            if !self.sources[tied].source.advance_near() {
                return false;
            }
            self.moved_tied(tied);
        }
        // Afterwards, the first source is the one that steps here, or the second source.
        let is_sure = self.line.is_second_on_value();
        if is_sure == Some(false) {
            self.leave();
        }
        let Some(top) = self.line.first() else { return false };
        let source = &mut self.sources[top].source;
        if !source.advance_near() {
            return false;
        }
        if is_sure.is_some() {
            let head = self.heads.of(source.key());
            if !self.line.stays(head) {
                let stand = Stand { sources: &self.sources, direction: self.direction };
                let vain = self.line.step(head, true, &stand);
                self.note_vain(vain);
                if !self.line.is_on_value() {
                    self.due = Due::Nothing;
                    return false;
                }
            }
        }
        self.given = true;
        true
    }

    /// Steps past the key of the first source, with all sources that stand on this key. If one of
    /// them fails, those that have stepped already do not step again.
    fn step(&mut self, access: Access) -> Result<()> {
        let Some(top) = self.line.first() else { return Ok(()) };
        self.leave();
        while let Some(tied) = self.line.tied() {
            let other = &mut self.sources[tied];
            other.ready = other.source.advance_near() || other.source.advance(access)?;
            self.moved_tied(tied);
        }
        let first = &mut self.sources[top];
        first.ready = first.source.advance_near() || first.source.advance(access)?;
        self.moved(top);
        Ok(())
    }

    /// Moves the first source to a row, if it stands before one. Afterwards, no other source has an
    /// earlier row.
    fn settle(&mut self, access: Access) -> Result<()> {
        while let Some(top) = self.line.first().filter(|top| !self.sources[*top].source.is_on_row())
        {
            let first = &mut self.sources[top];
            first.ready = first.source.advance(access)?;
            self.moved(top);
        }
        Ok(())
    }

    /// Saves the key of the row that was returned last, because the sources are about to leave it.
    fn leave(&mut self) {
        if self.given {
            self.given = false;
            self.left = Some(Key::from_slice(self.source().key()));
        }
    }

    /// Passes a tombstone or a hidden row. If a known gap covers it, all sources leap over the gap.
    /// If a range tombstone hides many rows of this source, the source leaps out of its range.
    fn pass(&mut self, chosen: usize) {
        self.due = Due::Step;
        let source = &self.sources[chosen].source;
        let Entry { key, csn, .. } = source.entry();
        let looks = self.stretch.looks();
        let gap = looks.then(|| self.part.gaps.over(key, self.snapshot)).flatten();
        let Some(gap) = gap else {
            let from = (!self.found).then(|| source.start());
            self.stretch.walk(self.direction, key, from);
            if let Some((range, upto)) = self.hidden.as_ref().and_then(|all| all.around(key, csn)) {
                self.walked_hidden += 1;
                let first = &mut self.sources[chosen];
                let leaps = self.walked_hidden > WALKED_HIDDEN_MAX;
                if leaps && first.source.leap_hidden(range, upto) {
                    self.stretch.leap_hidden(self.direction, range);
                    first.behind = true;
                    self.walked_hidden = 0;
                    self.due = Due::MergeQueue;
                }
            }
            return;
        };
        self.stretch.leap(self.direction, &gap);
        self.due = Due::MergeQueue;
        for merged in &mut self.sources {
            // Sources that stand behind the gap, or have ended, stay.
            if merged.ready && gap.covers(merged.source.key()) {
                merged.source.leap(&gap);
                merged.behind = true;
            }
        }
    }

    /// Called at a row, or at the end of the scan: publishes the gap that was passed before it.
    fn finish(&mut self, row: Option<usize>) {
        self.walked_hidden = 0;
        let found = row.map(|top| self.sources[top].source.entry().key);
        let gaps = &self.part.gaps;
        if let Some(gap) = self.stretch.finish(self.direction, found, self.snapshot, gaps) {
            self.part.gaps.publish(gap, |act| self.part.view_after(act));
        }
    }

    /// The first source.
    #[inline]
    fn source(&self) -> &Source {
        let top = self.line.first().expect("a cursor is asked for a row that it stands on");
        &self.sources[top].source
    }

    /// Moves the first source over the rows that come before those of all other sources, up to
    /// `most` rows including the current one. Returns their number.
    fn extend(&mut self, most: usize) -> usize {
        let (Some(top), None, None) = (self.line.first(), &self.hidden, self.line.tied()) else {
            return 1;
        };
        if self.alone.left > 0 {
            self.alone.left -= 1;
            return 1;
        }
        let lends = self.sources[top].source.lends();
        let (rows, is_vain) = if lends { self.extend_first(top, most) } else { (1, true) };
        self.alone = match (rows, is_vain) {
            (1, true) => {
                Alone { left: self.alone.next, next: (self.alone.next * 2).min(ALONE_MAX) }
            }
            _ => Alone::NONE,
        };
        rows
    }

    /// As [`TableCursor::extend`], for a source that can return several rows. Also returns whether
    /// another source may have limited their number.
    fn extend_first(&mut self, top: usize, most: usize) -> (usize, bool) {
        let Some(second) = self.line.second() else {
            return (self.sources[top].source.extend(None, most), false);
        };
        match self.sources.get_disjoint_mut([top, second]) {
            Ok([first, second]) => (first.source.extend(Some(second.source.key()), most), true),
            Err(_) => (1, true),
        }
    }

    fn advance(&mut self, access: Access) -> Result<bool> {
        loop {
            match self.due {
                Due::MergeQueue => self.form(access)?,
                Due::Step => self.step(access)?,
                Due::Nothing => {}
            }
            self.due = Due::Nothing;
            self.settle(access)?;
            let Some(top) = self.line.first() else {
                self.finish(None);
                return Ok(false);
            };
            let entry = self.sources[top].source.entry();
            let hidden = self.hidden.as_ref();
            let hidden = hidden.is_some_and(|ranges| ranges.hides(entry.key, entry.csn));
            if entry.value.is_some() && !hidden {
                self.finish(Some(top));
                (self.found, self.given, self.due) = (true, true, Due::Step);
                return Ok(true);
            }
            self.pass(top);
        }
    }
}

/// The sources at a moment, for comparisons.
struct Stand<'a> {
    sources: &'a [Merged],
    direction: Direction,
}

impl Contest for Stand<'_> {
    /// Whether a source comes before another: by key, and of equal keys the newest version first.
    /// This is usually in the newer source, but not always, because commits are installed in any
    /// order (E2). If both versions are of one commit, the newer source has the last write. Also
    /// returns whether the keys are equal.
    #[inline]
    fn beats(&self, one: usize, other: usize) -> (bool, bool) {
        let age = one.cmp(&other);
        let of = |one: usize| self.sources[one].source.key_and_csn();
        let (one, other) = (of(one), of(other));
        let order = match self.direction {
            Direction::Forward => one.0.cmp(other.0),
            Direction::Backward => other.0.cmp(one.0),
        };
        (order.then(other.1.cmp(&one.1)).then(age).is_lt(), order.is_eq())
    }
}

impl Cursor for TableCursor {
    #[inline]
    fn next(&mut self, access: Access) -> Result<bool> {
        self.lent = 1;
        if self.given && self.hidden.is_none() && self.step_near() {
            return Ok(true);
        }
        self.advance(access)
    }

    fn next_rows(&mut self, access: Access, most: usize) -> Result<usize> {
        debug_assert!(most > 0, "who takes rows takes one at least");
        if !self.next(access)? {
            return Ok(0);
        }
        if most > 1 {
            self.lent = self.extend(most);
        }
        Ok(self.lent)
    }

    fn rows(&self, take: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        let Some(top) = self.line.first() else { return };
        match self.lent {
            1 => drop(take(self.key(), self.value())),
            rows => self.sources[top].source.rows(rows, take),
        }
    }

    fn key(&self) -> &[u8] {
        self.source().key()
    }

    fn value(&self) -> &[u8] {
        self.source().value().unwrap_or_default()
    }

    fn csn(&self) -> Csn {
        self.source().entry().csn
    }

    fn last_key(&self) -> Option<&[u8]> {
        if self.given { Some(self.key()) } else { self.left.as_deref() }
    }
}
