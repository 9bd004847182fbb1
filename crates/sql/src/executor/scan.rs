//! Reading the rows of a source into its slots.

use spillway::{Csn, Direction, Error, ErrorKind, KeyRange, LockMode, LockWait, Met, Scan};
use spillway_base::{TableId, thread};
use spillway_types::{Value, ValueRef, key};

use super::index_ranges::{Places, Span};
use super::lookups::{Lookups, look_up};
use super::to_lock::Moves;
use super::{index_ranges, pushdown, subquery, to_lock};
use crate::catalog::{Stored, TableDef, shift_timestamps};
use crate::errors::Result;
use crate::expression::{Context, Expr};
use crate::planner::{Access, Row, Source, SourceKind};

/// What takes a source's rows, in its slots of a wider row. Of a single source it may take the row
/// itself.
pub(super) type Take<'e> = dyn FnMut(&mut Row) -> Result<bool> + 'e;

/// What rows of a table are read for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// To know them.
    Plain,
    /// To lock some of them later.
    ToLock,
    /// To lock those that the conditions hold for as they are found.
    Locking(LockMode, LockWait),
}

impl Reading {
    pub(super) fn of(lock: Option<(LockMode, LockWait)>) -> Reading {
        lock.map_or(Reading::Plain, |(mode, wait)| Reading::Locking(mode, wait))
    }

    fn lock(self) -> Option<(LockMode, LockWait)> {
        match self {
            Reading::Locking(mode, wait) => Some((mode, wait)),
            Reading::Plain | Reading::ToLock => None,
        }
    }
}

/// Reads a source's rows into its slots.
pub(super) fn read_source(
    context: &Context<'_>,
    source: &Source,
    row: &mut Row,
    lock: Option<(LockMode, LockWait)>,
    take: &mut Take<'_>,
) -> Result<()> {
    match &source.kind {
        SourceKind::Table(table) => {
            scan_table(context, source, table, row, Reading::of(lock), take)
        }
        SourceKind::Derived(plan) => {
            let answer = subquery::derived(context, plan)?;
            for derived in answer.rows() {
                row[source.offset..source.offset + derived.len()].clone_from_slice(derived);
                if !take(row)? {
                    break;
                }
            }
            Ok(())
        }
        SourceKind::Virtual(name) => {
            let rows = context.server.virtual_rows(context.catalog, context.variables, name);
            for values in rows {
                for (slot, value) in values.into_iter().enumerate() {
                    row[source.offset + slot] = value;
                }
                if !take(row)? {
                    break;
                }
            }
            Ok(())
        }
    }
}

/// Reads a table's rows into the source's slots; the last slot has the row's key.
///
/// A locking read locks shared what a change of several tables only reads ([`Source::shared`]),
/// whatever it says for the others. It locks each row that the conditions hold for, reads it anew,
/// and checks them again. Where the whole primary key is given it locks before it reads anything,
/// so that the statement's snapshot is never older than the row (DESIGN, D12).
pub(crate) fn scan_table(
    context: &Context<'_>,
    source: &Source,
    table: &TableDef,
    row: &mut Row,
    reading: Reading,
    take: &mut Take<'_>,
) -> Result<()> {
    let (access, places) = index_ranges::choose(context, source, table, row)?;
    let reading = match reading {
        Reading::Locking(_, wait) if source.shared => Reading::Locking(LockMode::Shared, wait),
        Reading::ToLock if !context.txn.acts_on_newest() => Reading::Plain,
        other => other,
    };
    let mut fetched = Fetched { context, source, table, lock: reading.lock(), moves: None };
    if reading == Reading::Plain {
        return pushdown::scan_stored(
            context,
            source,
            table,
            (access, &places),
            true,
            |stored: &Stored<'_>, key: &[u8]| {
                fetched.read(stored, key, row)?;
                take(row)
            },
        );
    }
    let moves = Moves::of(context, access);
    fetched.moves = moves.as_ref();
    each_row(context, table, access, &places, (reading, moves.as_ref()), |bytes, key, locked| {
        fetched.read(&Stored::new(bytes, &source.versions)?, key, row)?;
        if !locked && !fetched.lock(key, row)? {
            return Ok(true);
        }
        take(row)
    })
}

/// Deletes, where they lie in the table, the rows that the conditions hold for, and answers how
/// many; `None` where they have to be found some other way. `gone` is given each row, with its key
/// in the last slot, once it is locked.
///
/// Nothing is held of them: rows beside each other that all go are deleted at once. So the
/// conditions may not look at this table themselves.
pub(crate) fn delete_rows(
    context: &Context<'_>,
    source: &Source,
    table: &TableDef,
    mut gone: impl FnMut(&[Value]) -> Result<()>,
) -> Result<Option<u64>> {
    let mut row = vec![Value::Null; source.width];
    let (access, places) = index_ranges::choose(context, source, table, &row)?;
    let Places::Spans(spans) = places else { return Ok(None) };
    // A whole key is locked before it is read, and several are looked up together.
    let looked_up = access.point || spans.all.iter().all(|span| is_row(table, span));
    if access.index.is_some() || looked_up || source.filters.iter().any(looks_around) {
        return Ok(None);
    }
    let mut fetched = Fetched { context, source, table, lock: None, moves: None };
    let is_bare = source.filters.is_empty() && table.maintained().next().is_none();
    let (mut deleted, mut seen, mut locked) = (0, 0_u32, 0);
    for span in &spans.all {
        let range = KeyRange::new(&span.start, span.end.as_deref());
        let choose = |key: &[u8], bytes: &[u8], met| -> Result<bool> {
            seen = seen.wrapping_add(1);
            if seen.is_multiple_of(256) {
                context.check_killed()?;
            }
            if met == Met::Gone {
                to_lock::start_over(context, locked)?;
                return Ok(false);
            }
            locked += usize::from(met != Met::Found);
            if is_bare {
                return Ok(true);
            }
            if met != Met::Locked {
                fetched.read(&Stored::new(bytes, &source.versions)?, key, &mut row)?;
                for filter in &source.filters {
                    if !context.holds(filter, &row)? {
                        return Ok(false);
                    }
                }
            }
            if met != Met::Found {
                gone(&row)?;
            }
            Ok(true)
        };
        deleted += context.txn.delete_rows(table.rows(), range, choose)?;
    }
    Ok(Some(deleted))
}

/// Whether an expression depends on more than a row.
fn looks_around(expr: &Expr) -> bool {
    let mut looks = false;
    expr.walk(&mut |part| looks |= matches!(part, Expr::Subquery { .. } | Expr::Assign(..)));
    looks
}

/// Reads the rows at some places: their bytes, their keys, and whether they were locked before they
/// were read, which only those are whose whole primary key is given. `take` answers `false` when it
/// wants no more. A statement is left for a device (`leave_reads`) where it looks up one row, and
/// no more once it knows what is there.
pub(super) fn each_row(
    context: &Context<'_>,
    table: &TableDef,
    access: &Access,
    places: &Places<'_>,
    (reading, moves): (Reading, Option<&Moves<'_>>),
    mut take: impl FnMut(&[u8], &[u8], bool) -> Result<bool>,
) -> Result<()> {
    let (txn, lock) = (context.txn, reading.lock());
    let mut bytes = context.room.row();
    let whole_key = access.index.is_none() && access.point;
    let newest = reading != Reading::Plain && txn.acts_on_newest();
    if !newest {
        check_readable(context, table, access)?;
    }
    let spans = match places {
        Places::Row(key) => {
            let found = match lock {
                Some((mode, wait)) => txn.get_locked(table.rows(), key, mode, wait, &mut bytes)?,
                None if newest => {
                    let access = spillway_base::engine::Access::Blocking;
                    txn.get_to_lock(table.rows(), key, access, &mut bytes)?
                }
                None if context.missed.get().is_some() => {
                    let (found, missed) = look_up(context, table.rows(), key, false, &mut bytes)?;
                    if missed {
                        context.missed.set(Some(true));
                    }
                    found
                }
                None => txn.get(table.rows(), key, &mut bytes)?,
            };
            // From here on the statement must not be left for a read: it would repeat its effects
            // and its output when it resumes.
            txn.leave_reads(false);
            return if found { take(&bytes, key, lock.is_some()).map(drop) } else { Ok(()) };
        }
        Places::Spans(spans) => &spans.all,
    };
    txn.leave_reads(false);
    if newest && !whole_key {
        let mut found = |bytes: &[u8], key: &[u8]| take(bytes, key, false);
        return to_lock::each(context, table, (access, spans), moves, &mut found);
    }
    let Some((mode, wait)) = lock.filter(|_| whole_key) else {
        // A found row is locked once the statement knows that it wants it. A statement that locks
        // rows may change them before it reads the rows after them, so it does not take rows in
        // batches.
        let (places, together) = ((access, &spans[..]), lock.is_none());
        return each_unlocked(context, table, places, together, |bytes, key| {
            take(bytes, key, false)
        });
    };
    for span in in_order(access, spans) {
        let key = &span.start;
        let more = if exact_point(table, key) {
            !txn.get_locked(table.rows(), key, mode, wait, &mut bytes)? || take(&bytes, key, true)?
        } else {
            each_in(context, table, access, span, false, |key, value| take(value, key, false))?
        };
        if !more {
            break;
        }
    }
    Ok(())
}

/// Reads the rows at some places, of which none is locked yet: their bytes and their keys. Those
/// that lie together may be taken `together`, as
/// [`each_in`] says.
fn each_unlocked(
    context: &Context<'_>,
    table: &TableDef,
    (access, spans): (&Access, &[Span]),
    together: bool,
    mut take: impl FnMut(&[u8], &[u8]) -> Result<bool>,
) -> Result<()> {
    let mut lookups = Lookups::new(context, table.rows());
    let mut found = |key: &[u8], bytes: &[u8]| take(bytes, key);
    for span in in_order(access, spans) {
        check_now_and_then(context, 1)?;
        let more = match access.index {
            None if is_row(table, span) => lookups.row(&span.start, &mut found),
            // An entry of a row that this snapshot does not see is none.
            Some(index) => each_in(context, table, access, span, together, |key, _| {
                lookups.row(row_key(table, index, key)?, &mut found)
            }),
            None if lookups.rest(&mut found)? => {
                each_in(context, table, access, span, together, &mut found)
            }
            None => Ok(false),
        };
        match more {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            // The rows before the failed one are taken first.
            Err(error) => return if lookups.rest(&mut found)? { Err(error) } else { Ok(()) },
        }
    }
    lookups.rest(&mut found).map(drop)
}

/// Whether the transaction's snapshot has all that an access reads: what was being built when it
/// was taken, it has not.
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

/// The keys of an access in one of its spans; `None` where there can be none.
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

/// Rows that are taken together at the most, and that are counted together: between two looks
/// whether the statement was ended.
const TAKEN_MAX: usize = CHECK_AFTER;
const COUNTED_MAX: usize = 1024;

/// Goes through the keys of an access in one of its spans, and their values. `take` answers `false`
/// when it wants no more, and so does this. Rows that lie together may be taken `together`: what
/// `take` writes is not seen among them.
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

/// Whether a span of the primary key is one row, which is looked up.
#[inline]
pub(super) fn is_row(table: &TableDef, span: &Span) -> bool {
    exact_point(table, &span.start) && span.is_of_start()
}

/// Goes through the keys of an access in some spans, and their values, as they lie in the table or
/// the index. `take` answers `false` when it wants no more.
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

/// How many keys an access has in one of its spans.
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

/// Rows after which a scan asks whether its statement was ended, and says that it takes long.
const CHECK_AFTER: usize = 256;

/// Asks whether the statement was ended, after so many more rows, in whatever spans and tables they
/// are.
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

/// Whether a key has all parts of the primary key, and nothing was left to check: no other key
/// begins with it.
fn exact_point(table: &TableDef, key: &[u8]) -> bool {
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

struct Fetched<'a> {
    context: &'a Context<'a>,
    source: &'a Source,
    table: &'a TableDef,
    lock: Option<(LockMode, LockWait)>,
    /// Where rows may have moved when they are locked.
    moves: Option<&'a Moves<'a>>,
}

impl Fetched<'_> {
    /// Copies the columns that are asked for into the source's slots.
    fn read(&mut self, stored: &Stored<'_>, key: &[u8], row: &mut Row) -> Result<()> {
        let offset = self.source.offset;
        if row.len() < offset + self.source.width {
            // The receiver of the row before has kept it.
            row.resize(offset + self.source.width, Value::Null);
        }
        let mut column = |at: usize| -> Result<()> {
            stored.get(at)?.clone_into(&mut row[offset + at]);
            Ok(())
        };
        match &self.source.needed {
            Some(needed) => needed.iter().try_for_each(|at| column(*at))?,
            None => {
                (0..self.table.columns.len()).try_for_each(column)?;
                ValueRef::Bytes(key).clone_into(&mut row[offset + self.source.width - 1]);
            }
        }
        let shift = self.context.variables.borrow().time_offset_micros;
        shift_timestamps(self.table, &mut row[offset..offset + self.source.width - 1], shift);
        Ok(())
    }

    /// Locks a row that the conditions hold for, and reads it anew; `false` when it is not one any
    /// more. One that they do not hold for is not locked, and is there to be refused, as an outer
    /// join must see it: so conditions that may be others when they are evaluated again are looked
    /// at behind the lock alone.
    fn lock(&mut self, key: &[u8], row: &mut Row) -> Result<bool> {
        let Some((mode, wait)) = self.lock else { return Ok(true) };
        if self.moves.is_some_and(|moves| moves.was_given(key)) {
            return Ok(false);
        }
        let own = self.source.offset..self.source.offset + self.source.width;
        let local = |expr: &&Expr| crate::expression::within(expr, &own);
        let hold = |row: &Row| -> Result<bool> {
            for filter in self.source.filters.iter().filter(local) {
                if !self.context.holds(filter, row)? {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        if !hold(row)? {
            return Ok(true);
        }
        let mut newest = Vec::new();
        let there = match self.moves {
            Some(moves) => moves.lock(self.table, key, (mode, wait), &mut newest)?,
            None => self.context.txn.get_locked(self.table.rows(), key, mode, wait, &mut newest)?,
        };
        if !there {
            return Ok(false);
        }
        self.read(&Stored::new(&newest, &self.source.versions)?, key, row)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::tests::in_memory;
    use crate::tests::run;

    thread_local! {
        /// How often scans asked whether their statement was ended.
        pub(super) static ASKED: Cell<usize> = const { Cell::new(0) };
    }

    /// However rows are taken or counted, it is asked on the way whether the statement was ended.
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
        // Spans of which none has many.
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
