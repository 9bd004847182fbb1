//! Reads the rows that an access selects: one row, or spans of keys.

use spillway::{LockMode, LockWait};

use super::lookups::{Lookups, look_up};
use super::span_scan::{
    check_now_and_then, check_readable, each_in, exact_point, in_order, is_row, row_key,
};
use super::spans::{Places, Span};
use super::to_lock::{self, Moves};
use crate::catalog::TableDef;
use crate::errors::Result;
use crate::expression::Context;
use crate::planner::Access;

/// Why rows of a table are read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// To use their values.
    Plain,
    /// To lock some of them later.
    ToLock,
    /// To lock those that satisfy the conditions as soon as they are found.
    Locking(LockMode, LockWait),
}

impl Reading {
    pub(super) fn of(lock: Option<(LockMode, LockWait)>) -> Reading {
        lock.map_or(Reading::Plain, |(mode, wait)| Reading::Locking(mode, wait))
    }

    pub(super) fn lock(self) -> Option<(LockMode, LockWait)> {
        match self {
            Reading::Locking(mode, wait) => Some((mode, wait)),
            Reading::Plain | Reading::ToLock => None,
        }
    }
}

/// Reads the rows at some places. `take` gets the bytes of a row, its key, and whether the row was
/// locked before it was read, which is the case only for a row that is given by its whole primary
/// key. `take` returns `false` to stop. A statement that looks up one row may be suspended during
/// the device read (`leave_reads`), but not after it has seen the result.
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
            // From here on, the statement must not be suspended for a read: when it resumed, it
            // would repeat its effects and its output.
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
        // A row is locked once the conditions hold for it. A statement that locks rows may change a
        // row before it reads the next, so it does not take rows in batches.
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

/// Reads the rows at some places without a lock. `take` gets the bytes of a row and its key. With
/// `together`, rows that lie together may be taken at once, as [`each_in`] describes.
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
            // If the snapshot does not see the entry's row, the lookup finds nothing, and the entry
            // is passed over.
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
            // Pass on the rows before the failed one first.
            Err(error) => return if lookups.rest(&mut found)? { Err(error) } else { Ok(()) },
        }
    }
    lookups.rest(&mut found).map(drop)
}
