//! Reads the entries of an index that covers a query, in place of the table's rows.

use super::span_scan::each_together;
use super::spans::Span;
use crate::catalog::{Cover, Entry, StoredRow, TableDef};
use crate::errors::Result;
use crate::expression::Context;
use crate::planner::Access;

/// The access whose entries are read, and how they are read.
pub(super) struct Entries<'a> {
    pub(super) access: &'a Access,
    pub(super) cover: &'a Cover,
    /// Whether columns of the entries are read. If not, it is enough that the entries exist.
    pub(super) is_read: bool,
}

/// Reads the entries in some spans of a covering access. `take` returns `false` to stop.
pub(super) fn each_entry(
    context: &Context<'_>,
    table: &TableDef,
    Entries { access, cover, is_read }: &Entries<'_>,
    spans: &[Span],
    mut take: impl FnMut(&StoredRow<'_>) -> Result<bool>,
) -> Result<()> {
    let mut entry = Entry::new();
    each_together(context, table, access, spans, |key, _| {
        if *is_read {
            entry.read(cover, table, key)?;
        }
        take(&StoredRow::Entry(&entry))
    })
}
