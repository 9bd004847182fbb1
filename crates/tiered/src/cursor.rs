//! A cursor over a table: its sources, merged.
//!
//! Sources are few, so the next row is found by comparing their keys one by one; of equal keys the newest version
//! hides the others.

use std::sync::Arc;

use spillway_base::engine::{Access, Cursor};
use spillway_base::{Csn, Direction, Result};

use crate::block::Entry;
use crate::gaps::{Gap, Stretch};
use crate::ranges::RangeTombstones;
use crate::source::Source;
use crate::subtable::{SubTable, View};

struct Merged {
    source: Source,
    /// Whether it stands on a row that was not passed yet.
    ready: bool,
    /// Whether it must step before it is compared.
    behind: bool,
}

/// A merged scan. It holds the view of the table that it reads, so nothing it needs can go.
pub(crate) struct TableCursor {
    sources: Vec<Merged>,
    direction: Direction,
    snapshot: Csn,
    /// The source that stands on the current row; none before the first, past the last, and after a step that failed.
    current: Option<usize>,
    /// What was passed since the last row.
    stretch: Stretch,
    /// Whether there was a row.
    found: bool,
    part: Arc<SubTable>,
    /// What hides rows from the scan, if anything does.
    hidden: Option<RangeTombstones>,
    _view: Arc<View>,
}

impl TableCursor {
    /// A cursor at a snapshot over sources of a sub-table's view, newest first. What is `hidden` is passed over, and
    /// they begin behind `leapt`, if that is given.
    pub(crate) fn new(
        sources: Vec<Source>,
        direction: Direction,
        snapshot: Csn,
        part: Arc<SubTable>,
        view: Arc<View>,
        hidden: Option<RangeTombstones>,
        leapt: Option<&Gap>,
    ) -> TableCursor {
        let sources = sources
            .into_iter()
            .map(|source| Merged { source, ready: false, behind: true })
            .collect();
        let mut stretch = Stretch::default();
        if let Some(gap) = leapt {
            stretch.leap(direction, gap);
        }
        TableCursor {
            sources,
            direction,
            snapshot,
            current: None,
            stretch,
            found: false,
            hidden,
            part,
            _view: view,
        }
    }

    fn step(&mut self, access: Access) -> Result<()> {
        for merged in &mut self.sources {
            if merged.behind {
                merged.ready = merged.source.advance(access)?;
                merged.behind = false;
            }
        }
        Ok(())
    }

    /// The source with the next key; of those at the same key, the one with the newest version. That is most
    /// often the newest source, but commits are installed in any order (E2).
    fn choose(&self) -> Option<usize> {
        let mut best: Option<(usize, Entry<'_>)> = None;
        for (index, merged) in self.sources.iter().enumerate().filter(|(_, merged)| merged.ready) {
            let entry = merged.source.entry();
            let earlier = best.is_none_or(|(_, other)| {
                let order = match self.direction {
                    Direction::Forward => entry.key.cmp(other.key),
                    Direction::Backward => other.key.cmp(entry.key),
                };
                order.then(other.csn.cmp(&entry.csn)).is_lt()
            });
            if earlier {
                best = Some((index, entry));
            }
        }
        best.map(|(index, _)| index)
    }

    /// Leaps, from a tombstone or a hidden row that is not the current row, if there is a gap over it.
    fn pass(&mut self, chosen: usize) {
        let source = &self.sources[chosen].source;
        let key = source.entry().key;
        let Some(gap) = self.part.gaps.over(key, self.snapshot) else {
            let from = (!self.found).then(|| source.start());
            return self.stretch.walk(self.direction, key, from);
        };
        self.stretch.leap(self.direction, &gap);
        for merged in &mut self.sources {
            // Those that stand behind the gap stay, and those that have ended.
            if merged.behind || (merged.ready && gap.covers(merged.source.entry().key)) {
                merged.source.leap(&gap);
                merged.behind = true;
            }
        }
    }

    /// There is a row, or an end: tells others of what was passed up to it.
    fn finish(&mut self) {
        if let Some(gap) = self.stretch.finish(self.snapshot, &self.part.gaps) {
            self.part.gaps.publish(gap, |act| self.part.view_after(act));
        }
    }

    fn entry(&self) -> Entry<'_> {
        let current = self.current.expect("a cursor is asked for a row that it stands on");
        self.sources[current].source.entry()
    }
}

impl Cursor for TableCursor {
    fn next(&mut self, access: Access) -> Result<bool> {
        self.current = None;
        loop {
            self.step(access)?;
            let Some(chosen) = self.choose() else {
                self.finish();
                return Ok(false);
            };
            // Everything at this key steps the next time; the row stays readable until then.
            let (before, rest) = self.sources.split_at_mut(chosen);
            let Some((row, after)) = rest.split_first_mut() else { return Ok(false) };
            row.behind = true;
            let entry = row.source.entry();
            for other in before.iter_mut().chain(after) {
                other.behind = other.ready && other.source.entry().key == entry.key;
            }
            let hidden = self.hidden.as_ref();
            let hidden = hidden.is_some_and(|ranges| ranges.hides(entry.key, entry.csn));
            if entry.value.is_some() && !hidden {
                self.finish();
                self.found = true;
                self.current = Some(chosen);
                return Ok(true);
            }
            self.pass(chosen);
        }
    }

    fn key(&self) -> &[u8] {
        self.entry().key
    }

    fn value(&self) -> &[u8] {
        self.entry().value.unwrap_or_default()
    }

    fn csn(&self) -> Csn {
        self.entry().csn
    }
}

/// Scans one after another, of sub-tables that lie beside each other.
pub(crate) struct PartsCursor {
    current: TableCursor,
    /// The next one last.
    rest: Vec<TableCursor>,
}

impl PartsCursor {
    /// The last of these comes first; there is one.
    pub(crate) fn new(mut cursors: Vec<TableCursor>) -> PartsCursor {
        let current = cursors.pop().expect("a range is in some sub-table");
        PartsCursor { current, rest: cursors }
    }
}

impl Cursor for PartsCursor {
    fn next(&mut self, access: Access) -> Result<bool> {
        while !self.current.next(access)? {
            let Some(next) = self.rest.pop() else { return Ok(false) };
            self.current = next;
        }
        Ok(true)
    }

    fn key(&self) -> &[u8] {
        self.current.key()
    }

    fn value(&self) -> &[u8] {
        self.current.value()
    }

    fn csn(&self) -> Csn {
        self.current.csn()
    }
}
