//! A cursor over a table: its sources, merged.
//!
//! Sources are few, so the next row is found by comparing their keys one by one; of equal keys the newest version
//! hides the others.

use std::sync::Arc;

use spillway_base::engine::{Access, Cursor};
use spillway_base::{Csn, Direction, Result};

use crate::block::Entry;
use crate::source::Source;
use crate::subtable::View;

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
    /// The source that stands on the current row; none before the first, past the last, and after a step that failed.
    current: Option<usize>,
    _view: Arc<View>,
}

impl TableCursor {
    /// A cursor over these sources, newest first.
    pub(crate) fn new(sources: Vec<Source>, direction: Direction, view: Arc<View>) -> TableCursor {
        let sources = sources
            .into_iter()
            .map(|source| Merged { source, ready: false, behind: true })
            .collect();
        TableCursor { sources, direction, current: None, _view: view }
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
            let Some(chosen) = self.choose() else { return Ok(false) };
            // Everything at this key steps the next time; the row stays readable until then.
            let (before, rest) = self.sources.split_at_mut(chosen);
            let Some((row, after)) = rest.split_first_mut() else { return Ok(false) };
            row.behind = true;
            let entry = row.source.entry();
            for other in before.iter_mut().chain(after) {
                other.behind = other.ready && other.source.entry().key == entry.key;
            }
            if entry.value.is_some() {
                self.current = Some(chosen);
                return Ok(true);
            }
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
