//! Opens a scan of a range: a cursor for each sub-table, over the sources of the sub-table.
//!
//! For a scan of few rows, opening the cursor is most of the cost. So the view, the bounds, the gap
//! at the start ([`crate::tombstone_skip`]) and the range tombstones are determined once for each
//! sub-table, and not for each source. The sources are constructed in the vector that the cursor
//! then owns. Each source holds short bounds inline, without an allocation.

use std::sync::Arc;

use smallvec::SmallVec;
use spillway_base::engine::Cursor;
use spillway_base::{Csn, Direction, KeyRange};

use crate::cursor::{Merged, PartsCursor, TableCursor};
use crate::level::Run;
use crate::source::{MemtableSource, OwnedRange, RunSource, Source};
use crate::subtable::SubTable;
use crate::view::View;

/// The most runs of a range that are listed without an allocation.
const FEW: usize = 8;

/// A scan over sub-tables, in the order of its direction.
pub(super) fn cursor_over(
    parts: &[Arc<SubTable>],
    range: KeyRange<'_>,
    direction: Direction,
    snapshot: Csn,
    late: bool,
) -> Box<dyn Cursor> {
    let cursor = |part: &Arc<SubTable>| {
        let view = part.view();
        let range = part.range().intersection(range);
        let gap = part.gaps.at_begin(range, direction, snapshot);
        let left = gap.as_ref().map_or(range, |gap| gap.leave(range, direction));
        let sources = sources(&view, left, direction, snapshot);
        let hidden = view.hidden(left, snapshot);
        let part = part.clone();
        let cursor =
            TableCursor::new(sources, direction, snapshot, part, view, hidden, gap.as_deref());
        if late { cursor.late() } else { cursor }
    };
    if let [only] = parts {
        return Box::new(cursor(only));
    }
    // Take all views now. A later view may lack versions that the snapshot sees.
    let mut cursors: Vec<TableCursor> = parts.iter().map(cursor).collect();
    if direction == Direction::Forward {
        cursors.reverse();
    }
    Box::new(PartsCursor::new(cursors))
}

fn sources(view: &View, range: KeyRange<'_>, direction: Direction, snapshot: Csn) -> Vec<Merged> {
    let memtables = || view.memtables().filter(|memtable| !memtable.is_empty());
    let runs = view.levels.runs().filter_map(|run| Some((run, run.first_within(range)?)));
    let runs: SmallVec<[(&Arc<Run>, usize); FEW]> = runs.collect();
    let bounds = OwnedRange::of(range);
    let mut sources = Vec::with_capacity(memtables().count() + runs.len());
    for memtable in memtables() {
        let source = MemtableSource::new(memtable.clone(), bounds.clone(), direction, snapshot);
        sources.push(Merged::new(Source::Memtable(source)));
    }
    for (run, begins) in runs {
        let source = RunSource::new(run.clone(), begins, bounds.clone(), direction, snapshot);
        sources.push(Merged::new(Source::Run(source)));
    }
    sources
}
