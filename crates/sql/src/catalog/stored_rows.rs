//! Reads stored rows under a table's present definition, whatever schema version they were written
//! under.
//!
//! Many changes of a table's columns do not rewrite its rows. Each row records the schema version
//! under which it was written (`types::row`), and the table's definition keeps the [`Layout`] of
//! every version that rows may still have. For each earlier version, the definition in memory also
//! has a map ([`Older`]): the position of each present column in rows of that version. A reader
//! uses this map for every row of the version.
//!
//! # Guarantees
//!
//! - **STORED-ROW-1.** A row is written under the newest version of its table's schema, and keeps
//!   that version until it is rewritten.
//! - **STORED-ROW-2.** A column's id is unique in its table. It also differs from the id of every
//!   dropped column of which rows may still hold values. A layout lists the ids of the columns
//!   whose values its rows hold, in order. Only the id says which present column a value belongs
//!   to; columns can be renamed and reordered without a change of the rows.
//! - **STORED-ROW-3.** A column reads as its initial value if the row has no value of it: the row's
//!   layout does not list the column, or the row has fewer values than its layout has columns. The
//!   initial value is fixed when the column is added; later changes of the column's type and
//!   default do not affect it.
//! - **STORED-ROW-4.** A value that was written before its column's type was widened reads as the
//!   wider type stores it.
//! - **STORED-ROW-5.** A row whose version the definition does not know is reported as damage.
//! - **STORED-ROW-6.** A row of the newest version is read without a map. To recognise such a row,
//!   a reader compares the row's version with the newest one.
//! - **STORED-ROW-7.** A compaction that merges a row of an earlier version rewrites the row in the
//!   newest version ([`Newest`]), unless that makes the row longer.
//!   - Compactions begin to rewrite rows once the change of the table is durable. A reader with an
//!     earlier definition would not know the newest version. By then no such reader exists, because
//!     the change held the table exclusively.
//!   - If a compaction copies a block without decoding it, the block's rows keep their versions,
//!     and the definition keeps the layouts of these versions.
//!   - OPTIMIZE TABLE rewrites rows that compactions have not rewritten. When a table's rows may
//!     have many versions, a background thread rewrites the rows (`session/refreshing`).
//!
//! Rejected: rows without a version, in which each column keeps one position for ever. The
//! definition would need no layouts. But every new row would have a position for each column that
//! was ever dropped. And if a column was widened, a reader could not tell a value of the earlier,
//! narrower type, which must be converted, from a value of the present type.

use std::sync::Arc;

use spillway::Rewrite;
use spillway_types::row::{RowReader, widened, write_row};
use spillway_types::{ColumnType, Field, Value, ValueRef};

use super::covering_index::Entry;
use super::definitions::{ColumnDef, Layout, TableDef};
use crate::errors::Result;

/// The most versions that rows may have besides the newest. A change that would exceed this number
/// rewrites the rows.
pub(crate) const LAYOUTS_MAX: usize = 64;

/// How to read the columns of one definition from rows of any version.
#[derive(Clone, Debug, Default)]
pub(crate) struct Versions {
    newest: u16,
    /// The value of each column in rows that were written before the column was added.
    initial: Vec<Value>,
    older: Vec<Older>,
}

/// How to read rows of one earlier version.
#[derive(Clone, Debug)]
pub(crate) struct Older {
    schema: u16,
    /// The position of each column in these rows, and its type there.
    places: Vec<Option<(usize, ColumnType)>>,
}

impl Versions {
    /// How to read rows under this definition.
    pub(crate) fn of(table: &TableDef) -> Versions {
        let older = |layout: &Layout| {
            let place = |column: &ColumnDef| {
                let at = layout.columns.iter().position(|id| *id == column.id);
                at.map(|at| (at, column.ty.clone()))
            };
            Older { schema: layout.schema, places: table.columns.iter().map(place).collect() }
        };
        Versions {
            newest: table.schema,
            initial: table.columns.iter().map(ColumnDef::initial_value).collect(),
            older: table.layouts.iter().map(older).collect(),
        }
    }

    fn initial(&self, column: usize) -> ValueRef<'_> {
        self.initial.get(column).map_or(ValueRef::Null, Value::as_ref)
    }

    #[cold]
    fn older(&self, schema: u16) -> Result<&Older> {
        let found = self.older.iter().find(|older| older.schema == schema);
        Ok(found.ok_or("a row is of a schema version that its table does not know")?)
    }
}

/// A row as it is stored, read in place.
pub(crate) enum StoredRow<'r> {
    /// A row at its primary key, of the newest version.
    Row(RowReader<'r>, &'r Versions),
    /// A row at its primary key, of an earlier version.
    Older(RowReader<'r>, &'r Versions, &'r Older),
    /// A row as an index entry contains it (`catalog/covering_index`).
    Entry(&'r Entry<'r>),
}

impl<'r> StoredRow<'r> {
    #[inline(always)]
    pub(crate) fn new(bytes: &'r [u8], versions: &'r Versions) -> Result<StoredRow<'r>> {
        let reader = RowReader::new(bytes)?;
        Ok(match reader.schema() {
            newest if newest == versions.newest => StoredRow::Row(reader, versions),
            schema => StoredRow::Older(reader, versions, versions.older(schema)?),
        })
    }

    /// A column. For an index entry, it must be one of the requested columns.
    #[inline]
    pub(crate) fn get(&self, column: usize) -> Result<ValueRef<'r>> {
        match self {
            StoredRow::Row(reader, versions) => Ok(match reader.get(column)? {
                Some(value) => value,
                None => versions.initial(column),
            }),
            StoredRow::Entry(entry) => entry.get(column),
            StoredRow::Older(reader, versions, older) => {
                StoredRow::get_older(reader, versions, older, column)
            }
        }
    }

    /// As [`StoredRow::get`], as a field; `None` for a decimal.
    #[inline(always)]
    pub(crate) fn field(&self, column: usize) -> Result<Option<Field<'r>>> {
        match self {
            StoredRow::Row(reader, _) => {
                if let Some(field) = reader.field(column)? {
                    return Ok(Some(field));
                }
            }
            StoredRow::Entry(entry) => {
                if let Some(field) = entry.field(column) {
                    return Ok(Some(field));
                }
            }
            StoredRow::Older(..) => {}
        }
        self.rare_field(column)
    }

    /// A column whose field the row does not provide directly.
    #[cold]
    fn rare_field(&self, column: usize) -> Result<Option<Field<'r>>> {
        self.get(column).map(Field::of)
    }

    #[cold]
    fn get_older(
        reader: &RowReader<'r>,
        versions: &'r Versions,
        older: &'r Older,
        column: usize,
    ) -> Result<ValueRef<'r>> {
        let Some(Some((at, ty))) = older.places.get(column) else {
            return Ok(versions.initial(column));
        };
        let value = reader.get(*at)?;
        Ok(value.map_or_else(|| versions.initial(column), |value| widened(value, ty)))
    }
}

/// Rewrites rows of earlier versions in the newest version (STORED-ROW-7).
#[derive(Debug)]
pub(crate) struct Newest(Arc<Versions>);

impl Newest {
    /// The rewriter for a table's compactions; `None` if rows have no earlier versions.
    pub(crate) fn of(table: &TableDef) -> Option<Arc<dyn Rewrite>> {
        let newest = || -> Arc<dyn Rewrite> { Arc::new(Newest(table.versions.clone())) };
        (!table.layouts.is_empty()).then(newest)
    }
}

impl Rewrite for Newest {
    fn rewrite(&self, value: &[u8], out: &mut Vec<u8>) -> bool {
        let Ok(row) = StoredRow::new(value, &self.0) else { return false };
        if !matches!(row, StoredRow::Older(..)) {
            return false;
        }
        let columns = (0..self.0.initial.len()).map(|column| row.get(column));
        let Ok(columns) = columns.collect::<Result<Vec<_>>>() else { return false };
        write_row(self.0.newest, columns.into_iter(), out);
        true
    }
}

/// Appends a row of a table's newest version.
pub(crate) fn write(table: &TableDef, row: &[Value], out: &mut Vec<u8>) {
    write_row(table.schema, row.iter().map(Value::as_ref), out);
}

/// Whether a row has its table's newest version.
pub(crate) fn is_newest(table: &TableDef, bytes: &[u8]) -> Result<bool> {
    Ok(RowReader::new(bytes)?.schema() == table.schema)
}

/// Whether two values are stored as the same bytes.
pub(crate) fn same_stored(a: &Value, b: &Value) -> bool {
    let bytes = |value: &Value| {
        let mut out = Vec::new();
        write_row(0, std::iter::once(value.as_ref()), &mut out);
        out
    };
    bytes(a) == bytes(b)
}

#[cfg(test)]
mod tests;
