//! Scans the keys in an access's spans, in the table or in the index.

use spillway::{Csn, Direction, Error, ErrorKind, KeyRange, Scan};
use spillway_base::{TableId, thread};
use spillway_types::key;

use super::spans::Span;
use crate::catalog::TableDef;
use crate::errors::Result;
use crate::expression::Context;
use crate::planner::Access;

/// Whether the transaction's snapshot has all data that an access reads. A snapshot from before the
/// end of an index build, or of a copy of the table, does not.
pub(super) fn is_readable(context: &Context<'_>, table: &TableDef, access: &Access) -> bool {
    let since = access.index.map_or(table.since, |at| table.indexes[at].since.max(table.since));
    since == Csn::ZERO || context.txn.sees(since)
}

pub(super) fn check_readable(
    context: &Context<'_>,
    table: &TableDef,
    access: &Access,
) -> Result<()> {
    if !is_readable(context, table, access) {
        return Err(Error::new(ErrorKind::NotFound, "the rows are newer than the snapshot").into());
    }
    Ok(())
}

/// An access's spans, in the order in which it reads them.
pub(super) fn in_order<'s>(access: &Access, spans: &'s [Span]) -> impl Iterator<Item = &'s Span> {
    let count = spans.len();
    let backward = access.backward;
    (0..count).map(move |at| &spans[if backward { count - 1 - at } else { at }])
}

/// A scan of an access's keys in one of its spans; `None` if the span is empty.
fn scan_of<'c>(
    context: &'c Context<'_>,
    table: &TableDef,
    access: &Access,
    span: &Span,
) -> Result<Option<Scan<'c>>> {
    let range = KeyRange::new(&span.start, span.end.as_deref());
    if range.is_empty() {
        return Ok(None);
    }
    let direction = if access.backward { Direction::Backward } else { Direction::Forward };
    let space = access.index.map_or(table.rows(), |at| TableId(table.indexes[at].space));
    Ok(Some(context.txn.scan(space, range, direction)?))
}

/// The most rows that are taken, or counted, before the scan checks again whether the statement
/// must end.
const TAKEN_MAX: usize = CHECK_AFTER;
const COUNTED_MAX: usize = 1024;

/// Scans the keys of an access in one of its spans, with their values. `take` returns `false` to
/// stop, and then this function returns `false`, too. With `together`, rows that lie together may
/// be taken at once; the scan then does not see what `take` writes among them.
#[inline]
pub(super) fn each_in(
    context: &Context<'_>,
    table: &TableDef,
    access: &Access,
    span: &Span,
    together: bool,
    mut take: impl FnMut(&[u8], &[u8]) -> Result<bool>,
) -> Result<bool> {
    let Some(mut scan) = scan_of(context, table, access, span)? else { return Ok(true) };
    let together = together && context.server.takes_row_batches();
    let most = if together { TAKEN_MAX } else { 1 };
    let mut taken = Ok(true);
    loop {
        let rows = scan.advance_rows(most)?;
        if rows == 0 {
            return Ok(true);
        }
        check_now_and_then(context, rows)?;
        scan.rows(&mut |key, value| match take(key, value) {
            Ok(true) => true,
            other => {
                taken = other;
                false
            }
        });
        if !matches!(taken, Ok(true)) {
            return taken;
        }
    }
}

/// Whether a span of the primary key is a single row, which can be looked up.
#[inline]
pub(super) fn is_row(table: &TableDef, span: &Span) -> bool {
    exact_point(table, &span.start) && span.is_of_start()
}

/// Scans the keys of an access in some spans, with their values, as the table or the index stores
/// them. `take` returns `false` to stop.
#[inline]
pub(super) fn each_together(
    context: &Context<'_>,
    table: &TableDef,
    access: &Access,
    spans: &[Span],
    mut take: impl FnMut(&[u8], &[u8]) -> Result<bool>,
) -> Result<()> {
    check_readable(context, table, access)?;
    context.txn.leave_reads(false);
    for span in in_order(access, spans) {
        if !each_in(context, table, access, span, true, &mut take)? {
            break;
        }
    }
    Ok(())
}

/// The number of keys of an access in one of its spans.
pub(super) fn count_in(
    context: &Context<'_>,
    table: &TableDef,
    access: &Access,
    span: &Span,
) -> Result<u64> {
    let Some(mut scan) = scan_of(context, table, access, span)? else { return Ok(0) };
    let mut count = 0;
    loop {
        let rows = scan.advance_rows(COUNTED_MAX)?;
        if rows == 0 {
            return Ok(count);
        }
        count += rows as u64;
        check_now_and_then(context, rows)?;
    }
}

/// After this many rows, a scan checks whether its statement must end, and reports that it may take
/// long.
const CHECK_AFTER: usize = 256;

/// Counts `rows` more rows, of whatever span and table, and checks from time to time whether the
/// statement must end.
#[inline]
pub(super) fn check_now_and_then(context: &Context<'_>, rows: usize) -> Result<()> {
    context.met.set(context.met.get() + rows);
    if context.met.get() >= CHECK_AFTER {
        context.met.set(0);
        #[cfg(test)]
        tests::ASKED.set(tests::ASKED.get() + 1);
        thread::long_ahead();
        context.check_killed()?;
    }
    Ok(())
}

/// Whether a key has all parts of the primary key, so that no longer key begins with it.
pub(super) fn exact_point(table: &TableDef, key: &[u8]) -> bool {
    let mut at = 0;
    for part in &table.primary {
        match key.get(at..).and_then(|rest| key::part_len(rest, &table.columns[part.column].ty)) {
            Some(len) => at += len,
            None => return false,
        }
    }
    at == key.len() && at > 0
}

/// The primary key at the end of an index's key.
pub(super) fn row_key<'k>(table: &TableDef, index: usize, key: &'k [u8]) -> Result<&'k [u8]> {
    let mut rest = key;
    for part in &table.indexes[index].parts {
        let len = key::part_len(rest, &table.columns[part.column].ty)
            .ok_or("an index key makes no sense")?;
        rest = rest.get(len..).ok_or("an index key makes no sense")?;
    }
    Ok(rest)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::tests::in_memory;
    use crate::tests::run;

    thread_local! {
        /// How often scans have checked whether their statement must end.
        pub(super) static ASKED: Cell<usize> = const { Cell::new(0) };
    }

    /// Scans check whether their statement must end, however they take or count rows.
    #[test]
    fn scans_ask_whether_their_statement_was_ended() {
        let instance = in_memory();
        let mut session = instance.session("root", "localhost", 1);
        session.use_database("test").unwrap();
        run(&mut session, "CREATE TABLE t (id INT PRIMARY KEY, n INT, v INT, KEY n_1 (n))");
        let rows: Vec<String> = (0..6000).map(|id| format!("({id}, {id}, 1)")).collect();
        run(&mut session, &format!("INSERT INTO t VALUES {}", rows.join(", ")));
        let least = |most: usize| 6000 / (CHECK_AFTER + most) - 1;
        let ids: Vec<String> = (0..2000).map(|id| (3 * id).to_string()).collect();
        let of_list = format!("SELECT v FROM t WHERE id IN ({})", ids.join(", "));
        // A table for many spans with few rows each.
        run(&mut session, "CREATE TABLE p (a INT, b INT, v INT, PRIMARY KEY (a, b))");
        let rows: Vec<String> = (0..6000).map(|at| format!("({}, {at}, 1)", at / 100)).collect();
        run(&mut session, &format!("INSERT INTO p VALUES {}", rows.join(", ")));
        let parts: Vec<String> = (0..60).step_by(2).map(|part| part.to_string()).collect();
        let of_parts = format!("SELECT SUM(v) FROM p WHERE a IN ({})", parts.join(", "));
        for flushed in [false, true] {
            if flushed {
                run(&mut session, "FLUSH TABLES");
            }
            for (sql, least) in [
                (&of_parts[..], least(TAKEN_MAX) / 2),
                ("SELECT SUM(n) FROM t", least(TAKEN_MAX)),
                ("SELECT SUM(id) FROM t WHERE n >= 0", least(TAKEN_MAX)),
                ("SELECT COUNT(*) FROM t", least(COUNTED_MAX)),
                ("SELECT COUNT(*) FROM t WHERE n >= 0", least(COUNTED_MAX)),
                (&of_list, ids.len() / CHECK_AFTER),
            ] {
                ASKED.set(0);
                run(&mut session, sql);
                assert!(ASKED.get() >= least, "{sql}: {}, not {least}", ASKED.get());
            }
        }
    }
}
