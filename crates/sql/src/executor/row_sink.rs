//! Row sinks: the receivers of a query's rows.
//!
//! Rows of one table go from storage to the client through a chain of row sinks. A reader passes
//! each stored row, in place, to a [`TakeStored`]. The [`TakeStored`] passes the resulting row to a
//! [`TakeRow`], which may pass it on to another [`TakeRow`]. The last [`TakeRow`] writes the
//! client's packets.
//!
//! # Guarantees
//!
//! - **ROW-SINK-1.** A row reaches a row sink in one of two forms: as compact fields ([`Field`]),
//!   which cannot be decimals, or as values. The client's packets are the same for both forms.
//!   - If the query wants at most [`COLUMNS`] columns, a reader passes rows on as fields until it
//!     meets a row with a decimal. It passes on that row, and all later ones, as values.
//!   - If the query wants more columns, a reader passes all rows on as values.
//!   - The buffer for ORDER BY and DISTINCT ([`super::row_buffer`]) passes on all of its rows in
//!     one form: as values if any of these rows has a decimal.
//! - **ROW-SINK-2.** A reader passes on no part of a row that it cannot read: it reads all columns
//!   that the query needs before it passes on any of them.

use spillway_types::{Field, Value, ValueRef};

use crate::catalog::StoredRow;
use crate::errors::Result;

/// A receiver of rows. It returns `false` if it wants no more.
pub(super) type Emit<'e> = dyn FnMut(&[Value]) -> Result<bool> + 'e;

/// A receiver of rows. Its methods return `false` if it wants no more.
pub(crate) trait TakeRow {
    /// Takes a row as references to its values.
    fn values(&mut self, values: &[ValueRef<'_>]) -> Result<bool>;

    /// Takes a row without decimals, as fields.
    fn fields(&mut self, fields: &[Field<'_>]) -> Result<bool>;
}

/// A column's value in either form.
pub(super) trait ColumnValue<'v>: Copy + Into<ValueRef<'v>> {
    /// Passes on a row of such values.
    fn give(row: &[Self], take: &mut dyn TakeRow) -> Result<bool>;
}

impl<'v> ColumnValue<'v> for ValueRef<'v> {
    fn give(row: &[ValueRef<'v>], take: &mut dyn TakeRow) -> Result<bool> {
        take.values(row)
    }
}

impl<'v> ColumnValue<'v> for Field<'v> {
    fn give(row: &[Field<'v>], take: &mut dyn TakeRow) -> Result<bool> {
        take.fields(row)
    }
}

/// A receiver of stored rows with their keys. Its methods return `false` if it wants no more.
pub(super) trait TakeStored {
    /// Takes a row. Inlined in the loop over rows that lie together.
    fn take(&mut self, row: &StoredRow<'_>, key: &[u8]) -> Result<bool>;

    /// As [`TakeStored::take`], not inlined, for callers outside such loops.
    #[inline(never)]
    fn take_one(&mut self, row: &StoredRow<'_>, key: &[u8]) -> Result<bool> {
        self.take(row, key)
    }
}

impl<F: FnMut(&StoredRow<'_>, &[u8]) -> Result<bool>> TakeStored for F {
    #[inline]
    fn take(&mut self, row: &StoredRow<'_>, key: &[u8]) -> Result<bool> {
        self(row, key)
    }
}

/// The number of columns of a row that are read without an allocation.
pub(super) const COLUMNS: usize = 16;

/// A receiver of the columns of rows, as values or as fields.
pub(super) trait TakeColumns {
    /// Takes the columns of a row.
    fn columns<'v, V: ColumnValue<'v>>(&mut self, row: &[V]) -> Result<bool>;
}

/// Passes rows on unchanged.
pub(super) struct Onward<'t>(pub(super) &'t mut dyn TakeRow);

impl TakeColumns for Onward<'_> {
    #[inline]
    fn columns<'v, V: ColumnValue<'v>>(&mut self, row: &[V]) -> Result<bool> {
        V::give(row, self.0)
    }
}

/// Reads these columns of stored rows, in this order.
pub(super) struct Projection<'c, T> {
    columns: &'c [usize],
    /// Whether columns are passed as fields if none is a decimal.
    fields: bool,
    take: T,
}

impl<'c, T: TakeColumns> Projection<'c, T> {
    pub(super) fn new(columns: &'c [usize], fields: bool, take: T) -> Projection<'c, T> {
        Projection { columns, fields, take }
    }

    /// Passes on a row as fields; `None` if the row has a decimal.
    #[inline(always)]
    fn fields<const N: usize>(&mut self, row: &StoredRow<'_>) -> Result<Option<bool>> {
        let mut fields = [Field::Null; N];
        for (field, column) in fields.iter_mut().zip(self.columns) {
            match row.field(*column)? {
                Some(read) => *field = read,
                None => return Ok(None),
            }
        }
        self.take.columns(&fields[..self.columns.len().min(N)]).map(Some)
    }

    #[inline(never)]
    fn many_fields(&mut self, row: &StoredRow<'_>) -> Result<Option<bool>> {
        self.fields::<COLUMNS>(row)
    }

    #[inline(never)]
    fn values(&mut self, row: &StoredRow<'_>) -> Result<bool> {
        if self.columns.len() <= COLUMNS {
            let mut values = [ValueRef::Null; COLUMNS];
            for (value, column) in values.iter_mut().zip(self.columns) {
                *value = row.get(*column)?;
            }
            return self.take.columns(&values[..self.columns.len()]);
        }
        let values = self.columns.iter().map(|column| row.get(*column));
        self.take.columns(&values.collect::<Result<Vec<_>>>()?)
    }
}

impl<T: TakeColumns> TakeStored for Projection<'_, T> {
    #[inline(always)]
    fn take(&mut self, row: &StoredRow<'_>, _: &[u8]) -> Result<bool> {
        let taken = match self.columns.len() {
            _ if !self.fields => None,
            1 => self.fields::<1>(row)?,
            2 => self.fields::<2>(row)?,
            3..=COLUMNS => self.many_fields(row)?,
            _ => None,
        };
        match taken {
            Some(more) => Ok(more),
            None => {
                // The following rows have as many columns, and decimals in the same column.
                self.fields = false;
                self.values(row)
            }
        }
    }
}
