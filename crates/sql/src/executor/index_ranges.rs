//! Once the values in the conditions are known, chooses the access to a table that reads the least,
//! and computes the ranges of keys that this access reads.

use smallvec::SmallVec;
use spillway::KeyRange;
use spillway_base::TableId;
use spillway_types::key::{self, Lookup};
use spillway_types::{ColumnType, Value};

use super::span_scan::is_readable;
use super::spans::{Places, Span, SpanKey, Spans, end_of};
use crate::catalog::{IndexPart, TableDef, moved};
use crate::errors::Result;
use crate::expression::{Buffer, Context, Expr, List, row_parts};
use crate::planner::{Access, Interval, Source, WHOLE};

/// The most spans whose sizes are estimated. Further spans count as equally large on average.
const SAMPLE: usize = 8;

/// The cost of a row that is found by an index and then read from the table, relative to a row read
/// by a scan.
const LOOKUP_COST: u64 = 4;

/// The access that reads the least for the current row, and the places that it reads.
pub(super) fn choose<'s, 'c>(
    context: &'c Context<'_>,
    source: &'s Source,
    table: &TableDef,
    row: &[Value],
) -> Result<(&'s Access, Places<'c>)> {
    if let Some(place) = primary_key(context, source, table, row)? {
        return Ok((&source.access, place));
    }
    let (access, spans) = choose_spans(context, source, table, row)?;
    Ok((access, Places::Spans(spans)))
}

/// The one place that an access by a whole primary key reads; `None` for any other access.
fn primary_key<'c>(
    context: &'c Context<'_>,
    source: &Source,
    table: &TableDef,
    row: &[Value],
) -> Result<Option<Places<'c>>> {
    let access = &source.access;
    let whole = access.point && access.index.is_none() && access.intervals.is_empty();
    if !whole || !source.others.is_empty() || access.equal.len() != table.primary.len() {
        return Ok(None);
    }
    let mut key = context.room.key();
    for (expr, part) in access.equal.iter().zip(&table.primary) {
        let value = context.sought(expr, row)?;
        match write_lookup(context, table, part, &value, &mut key) {
            PartWritten::Yes => {}
            PartWritten::Nowhere => {
                return Ok(Some(Places::Spans(Spans::none())));
            }
            PartWritten::Unknown => return Ok(None),
        }
    }
    Ok(Some(Places::Row(key)))
}

fn choose_spans<'s>(
    context: &Context<'_>,
    source: &'s Source,
    table: &TableDef,
    row: &[Value],
) -> Result<(&'s Access, Spans)> {
    let mut best = (&source.access, spans(context, &source.access, table, row)?);
    // An index that cannot look up the values reads all its entries, and is no better than a scan
    // of the table, unless it covers the query.
    let is_dear = best.0.index.is_some() && best.0.cover.is_none();
    let of_no_use = is_dear && !best.0.ordered && are_all(&best.1.all);
    if of_no_use || is_too_new(context, table, best.0) {
        best = (&WHOLE, Spans::wide(Span::of(&[])));
    }
    if source.others.is_empty() {
        return Ok(best);
    }
    let mut least = cost(context, table, best.0, &best.1.all);
    for access in &source.others {
        let access = match access {
            access if is_readable(context, table, access) => access,
            access if access.is_full() => &WHOLE,
            _ => continue,
        };
        let spans = spans(context, access, table, row)?;
        let cost = cost(context, table, access, &spans.all);
        if cost < least {
            (best, least) = ((access, spans), cost);
        }
    }
    Ok(best)
}

/// Whether an access reads all rows through the entries of an index that was built after the
/// snapshot. Any way to read all rows will do, so they are then read from the table, and sorted if
/// the plan relied on the index's order.
pub(super) fn is_too_new(context: &Context<'_>, table: &TableDef, access: &Access) -> bool {
    access.is_full() && access.cover.is_some() && !is_readable(context, table, access)
}

/// Whether the spans cover all keys, or all except those that begin with NULL.
fn are_all(spans: &[Span]) -> bool {
    matches!(spans, [Span { start, end: None }] if matches!(start.as_slice(), [] | [1]))
}

fn cost(context: &Context<'_>, table: &TableDef, access: &Access, spans: &[Span]) -> u64 {
    let db = context.server.database();
    let (space, each) = match access.index {
        None => (table.rows(), 1),
        Some(index) => {
            let each = if access.cover.is_some() { 1 } else { LOOKUP_COST };
            (TableId(table.indexes[index].space), each)
        }
    };
    let sample = &spans[..spans.len().min(SAMPLE)];
    let keys: u64 = sample
        .iter()
        .map(|span| db.estimate(space, KeyRange::new(&span.start, span.end.as_deref())).keys)
        .sum();
    let count = spans.len() as u64;
    each * keys * count / (sample.len() as u64).max(1) + LOOKUP_COST * count
}

/// The ranges that an access reads for the current row. There are none if no row can match.
pub(super) fn spans(
    context: &Context<'_>,
    access: &Access,
    table: &TableDef,
    row: &[Value],
) -> Result<Spans> {
    let parts = access.parts(table);
    let mut prefix = context.room.key();
    let mut exact = true;
    for (expr, part) in access.equal.iter().zip(parts) {
        let value = context.sought(expr, row)?;
        // A lookup of NULL finds entries with NULL, although NULL is equal to no value.
        exact &= is_whole(&value);
        match write_lookup(context, table, part, &value, &mut prefix) {
            PartWritten::Yes => {}
            PartWritten::Nowhere => return Ok(Spans::none()),
            // The index cannot look up this value, so the conditions must check each row.
            PartWritten::Unknown => return Ok(Spans::wide(Span::of(&prefix))),
        }
    }
    let (Some(part), false) = (parts.get(access.equal.len()), access.intervals.is_empty()) else {
        return Ok(Spans { exact, ..Spans::exactly(Span::of(&prefix)) });
    };
    let rest = &parts[access.equal.len()..];
    let mut ends = IntervalSpans {
        context,
        table,
        part,
        rest,
        prefix_bytes: prefix.len(),
        key: prefix,
        row,
        exact,
    };
    let most = access.intervals.iter().map(Interval::count).sum();
    let mut spans = SmallVec::with_capacity(most);
    for interval in &access.intervals {
        if let Interval::Listed(list, places) = interval {
            if !ends.add_listed(list, places, &mut spans)? {
                return Ok(Spans::wide(Span::of(ends.prefix())));
            }
            continue;
        }
        match ends.span(interval)? {
            IntervalSpan::Nothing => {}
            IntervalSpan::Span(span) => spans.push(span),
            IntervalSpan::Anywhere => return Ok(Spans::wide(Span::of(ends.prefix()))),
        }
    }
    Ok(Spans { exact: ends.exact, all: apart(spans) })
}

fn is_whole(value: &Value) -> bool {
    matches!(value, Value::Int(_) | Value::UInt(_))
}

/// Whether the index can look up all values of the access's equalities. If so, the rows that it
/// finds are in the order of the column after these.
pub(super) fn finds_equal(
    context: &Context<'_>,
    access: &Access,
    table: &TableDef,
) -> Result<bool> {
    for (expr, part) in access.equal.iter().zip(access.parts(table)) {
        let value = context.sought(expr, &[])?;
        if let Lookup::Unknown = key::lookup(&value, &table.columns[part.column].ty) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The result of writing the part of a key that finds the values equal to a given one.
enum PartWritten {
    Yes,
    /// No value of the column equals the given one.
    Nowhere,
    /// The index cannot look up the given value.
    Unknown,
}

fn write_lookup(
    context: &Context<'_>,
    table: &TableDef,
    part: &IndexPart,
    value: &Value,
    out: &mut Vec<u8>,
) -> PartWritten {
    let column = &table.columns[part.column];
    let mut value = match key::lookup(value, &column.ty) {
        Lookup::At(value) => value,
        Lookup::Nowhere => return PartWritten::Nowhere,
        Lookup::Unknown => return PartWritten::Unknown,
    };
    if let (ColumnType::Timestamp(_), Value::DateTime(at)) = (&column.ty, &value) {
        // Keys have the time in UTC, as rows do.
        value = Value::DateTime(moved(*at, -context.variables.borrow().time_offset_micros));
    }
    key::write_part(&value.as_ref(), &column.ty, column.collation, part.prefix, out);
    PartWritten::Yes
}

enum IntervalSpan {
    Nothing,
    Span(Span),
    Anywhere,
}

/// The end of an interval, as a key.
enum IntervalEnd {
    Null,
    Key(SpanKey),
    /// The bound lies between values that the column can have.
    Nowhere,
    Unknown,
}

struct IntervalSpans<'a, 'c> {
    context: &'a Context<'c>,
    table: &'a TableDef,
    part: &'a IndexPart,
    /// The part of the interval's column, and the parts after it.
    rest: &'a [IndexPart],
    /// The prefix that all keys have in common, and space for the rest of a key.
    key: Buffer<'a>,
    prefix_bytes: usize,
    row: &'a [Value],
    /// Whether all values looked up so far are integers or NULL, and every end of a range is exact.
    exact: bool,
}

impl IntervalSpans<'_, '_> {
    fn prefix(&self) -> &[u8] {
        &self.key[..self.prefix_bytes]
    }

    fn key(&mut self, expr: &Expr) -> Result<IntervalEnd> {
        let value = self.context.sought(expr, self.row)?;
        if value.is_null() {
            return Ok(IntervalEnd::Null);
        }
        self.exact &= is_whole(&value);
        self.key.truncate(self.prefix_bytes);
        Ok(match write_lookup(self.context, self.table, self.part, &value, &mut self.key) {
            PartWritten::Yes => IntervalEnd::Key(SpanKey::from_slice(&self.key)),
            PartWritten::Nowhere => IntervalEnd::Nowhere,
            PartWritten::Unknown => IntervalEnd::Unknown,
        })
    }

    /// Adds a span for each item of a list. Returns `false` if an item cannot be looked up.
    fn add_listed(
        &mut self,
        list: &List,
        places: &[usize],
        spans: &mut SmallVec<[Span; 1]>,
    ) -> Result<bool> {
        'items: for item in list.items() {
            self.key.truncate(self.prefix_bytes);
            for (place, part) in places.iter().zip(self.rest) {
                let value = self.context.sought(&row_parts(item)[*place], self.row)?;
                if value.is_null() {
                    // No value equals NULL.
                    continue 'items;
                }
                self.exact &= is_whole(&value);
                match write_lookup(self.context, self.table, part, &value, &mut self.key) {
                    PartWritten::Yes => {}
                    PartWritten::Nowhere => continue 'items,
                    PartWritten::Unknown => return Ok(false),
                }
            }
            spans.push(Span::of(&self.key));
        }
        Ok(true)
    }

    fn span(&mut self, interval: &Interval) -> Result<IntervalSpan> {
        let (low, high) = match interval {
            // [`IntervalSpans::add_listed`] adds the spans of a list.
            Interval::Listed(..) => return Ok(IntervalSpan::Anywhere),
            Interval::Point(value) | Interval::Same(value) => {
                return Ok(match self.key(value)? {
                    IntervalEnd::Key(key) => IntervalSpan::Span(Span::of(&key)),
                    IntervalEnd::Nowhere => IntervalSpan::Nothing,
                    IntervalEnd::Unknown => IntervalSpan::Anywhere,
                    IntervalEnd::Null if matches!(interval, Interval::Point(_)) => {
                        IntervalSpan::Nothing
                    }
                    IntervalEnd::Null => {
                        self.key.truncate(self.prefix_bytes);
                        key::write_part(
                            &Value::Null.as_ref(),
                            &self.table.columns[self.part.column].ty,
                            self.table.columns[self.part.column].collation,
                            None,
                            &mut self.key,
                        );
                        IntervalSpan::Span(Span::of(&self.key))
                    }
                });
            }
            Interval::Range { low, high } => (low, high),
        };
        let mut start = SpanKey::from_slice(self.prefix());
        let mut end = end_of(start.clone());
        // NULL is less than every value, and in no range.
        start.push(1);
        if let Some((value, included)) = low {
            match self.key(value)? {
                IntervalEnd::Null => return Ok(IntervalSpan::Nothing),
                IntervalEnd::Key(key) if *included => start = key,
                IntervalEnd::Key(mut key) => {
                    start = end_of(key.clone()).unwrap_or_else(|| {
                        // The smallest key after this one.
                        key.push(0);
                        key
                    });
                }
                IntervalEnd::Nowhere | IntervalEnd::Unknown => self.exact = false,
            }
        }
        if let Some((value, included)) = high {
            match self.key(value)? {
                IntervalEnd::Null => return Ok(IntervalSpan::Nothing),
                IntervalEnd::Key(key) if *included => end = end_of(key),
                IntervalEnd::Key(key) => end = Some(key),
                IntervalEnd::Nowhere | IntervalEnd::Unknown => self.exact = false,
            }
        }
        if end.as_ref().is_some_and(|end| *end <= start) {
            return Ok(IntervalSpan::Nothing);
        }
        Ok(IntervalSpan::Span(Span { start, end }))
    }
}

/// Sorts spans and merges those that overlap or touch, so that no row is read twice.
fn apart(mut spans: SmallVec<[Span; 1]>) -> SmallVec<[Span; 1]> {
    if spans.len() < 2 {
        return spans;
    }
    spans.sort_unstable();
    let mut out: SmallVec<[Span; 1]> = SmallVec::with_capacity(spans.len());
    for span in spans {
        match out.last_mut() {
            Some(last) if last.end.as_ref().is_none_or(|end| *end >= span.start) => {
                if last.end.is_some() && (span.end.is_none() || span.end > last.end) {
                    last.end = span.end;
                }
            }
            _ => out.push(span),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;

    fn span(start: &str, end: Option<&str>) -> Span {
        Span { start: start.as_bytes().into(), end: end.map(|end| end.as_bytes().into()) }
    }

    #[test]
    fn spans_are_sorted_and_joined_where_they_touch() {
        let found = apart(smallvec![
            span("m", Some("p")),
            span("a", Some("c")),
            span("b", Some("d")),
            span("d", Some("e")),
            span("o", None),
            span("x", Some("y")),
        ]);
        assert_eq!(found[..], [span("a", Some("e")), span("m", None)]);
    }
}
