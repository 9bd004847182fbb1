//! Index-only reads: if an index contains every column that a query reads of a table, the query
//! reads the index's entries instead of the table's rows.
//!
//! The planner finds the indexes that cover a query ([`Cover::of`]) and records the chosen one in
//! the access path to the table (`planner/access`). The executor wraps each [`Entry`] in a
//! [`super::StoredRow`], so conditions, projections and totals treat entries and rows alike.
//!
//! # Guarantees
//!
//! - **COVERING-INDEX-1.** At a statement's snapshot, the index has exactly one entry for each row,
//!   with the row's values, and no other entries. This holds because a transaction that changes a
//!   row also writes and deletes the row's entries, and because a snapshot sees all writes of a
//!   transaction or none.
//!
//!   A transaction's own reads also see one entry for each row, before its commit and after a
//!   rollback to a savepoint. For an index that was built online, ONLINE-BUILD-2 and ONLINE-BUILD-3
//!   (`ddl/online`) guarantee this. Snapshots from before the end of the build cannot read such an
//!   index (ONLINE-BUILD-7).
//! - **COVERING-INDEX-2.** A query takes a column from an entry only if the entry encodes the
//!   column's exact value ([`key::is_exact`]). This value is the one that the row has under the
//!   table's present definition: an ALTER TABLE that would give existing entries another meaning
//!   rebuilds the index (`ddl/instant`).
//! - **COVERING-INDEX-3.** Statements that lock or change rows read the rows themselves, even if an
//!   index covers them.
//! - **COVERING-INDEX-4.** Under SERIALIZABLE, an index-only read adds to the transaction's read
//!   set the index range that it read, but no rows. The index range is enough to find every
//!   conflict. A transaction that inserts or deletes a row with an entry in that range writes an
//!   entry there. So does a transaction that changes a column of the index in such a row. A
//!   transaction that changes only other columns does not change the result of the read.
//! - **COVERING-INDEX-5.** A query returns the same rows with and without index-only reads. Without
//!   ORDER BY, the order of the rows may differ.
//! - **COVERING-INDEX-6.** A query reads an entry once, even if several of its conditions, joined
//!   by OR, select that entry: the query converts the ranges of the conditions to disjoint spans
//!   (`executor/index_ranges`).

use spillway_types::key::{self, KeyPart};
use spillway_types::{ColumnType, Field, ValueRef};

use super::definitions::{ColumnDef, IndexPart, TableDef};
use crate::errors::Result;

/// The parts of an index's keys that hold the columns which a query reads.
#[derive(Clone, Debug)]
pub(crate) struct Cover {
    /// The parts from the front of the key to the last one that is needed.
    pieces: Vec<CoverPart>,
}

/// A part of an index's key.
#[derive(Clone, Copy, Debug)]
struct CoverPart {
    column: usize,
    /// Whether a column is read from this part.
    is_read: bool,
    /// For an integer: whether it is unsigned.
    unsigned: Option<bool>,
}

impl Cover {
    /// How an index's entries provide these columns. `None` if they do not provide all of them
    /// (COVERING-INDEX-2).
    pub(crate) fn of(table: &TableDef, index: usize, columns: &[usize]) -> Option<Cover> {
        let key = || table.indexes[index].parts.iter().chain(&table.primary);
        let tells = |part: &IndexPart| {
            let column = &table.columns[part.column];
            key::is_exact(&column.ty, column.collation, part.prefix)
        };
        let piece = |part: &IndexPart| CoverPart {
            column: part.column,
            is_read: false,
            unsigned: match table.columns[part.column].ty {
                ColumnType::Int { unsigned, .. } => Some(unsigned),
                _ => None,
            },
        };
        let mut pieces: Vec<CoverPart> = key().map(piece).collect();
        let mut len = 0;
        for column in columns {
            let at = key().position(|part| part.column == *column && tells(part))?;
            pieces[at].is_read = true;
            len = len.max(at + 1);
        }
        pieces.truncate(len);
        Some(Cover { pieces })
    }
}

/// The approximate number of bytes of an index entry before its row's key.
pub(crate) fn entry_bytes(table: &TableDef, index: usize) -> u64 {
    let part = |part: &IndexPart| {
        let column = &table.columns[part.column];
        let weights = if column.ty.is_text() && !column.collation.is_bytewise() { 2 } else { 1 };
        match long_bytes(&column.ty) {
            Some(long) => 2 + part.prefix.map_or(long, |prefix| long.min(prefix.into())) * weights,
            None => 9,
        }
    };
    table.indexes[index].parts.iter().map(part).sum()
}

/// The approximate number of bytes of a row without its key.
pub(crate) fn row_bytes(table: &TableDef) -> u64 {
    let column = |column: &ColumnDef| 5 + long_bytes(&column.ty).unwrap_or(8);
    5 + table.columns.iter().map(column).sum::<u64>()
}

/// The approximate number of bytes of a value whose type limits only the length; `None` for other
/// types.
fn long_bytes(ty: &ColumnType) -> Option<u64> {
    const FILLED: u64 = 32;
    match ty {
        ColumnType::Char(most) | ColumnType::VarChar(most) => Some(FILLED.min((*most).into())),
        ColumnType::Binary(most) | ColumnType::VarBinary(most) => Some(FILLED.min((*most).into())),
        ColumnType::Text(_) | ColumnType::Blob(_) | ColumnType::Json => Some(FILLED),
        ColumnType::Decimal { .. } => Some(FILLED),
        _ => None,
    }
}

/// An index entry, with the columns that were read from it.
pub(crate) struct Entry<'t> {
    /// The integer columns, which most columns are, and their number.
    wholes: [(usize, Field<'static>); WHOLES],
    wholes_len: usize,
    /// The other columns. Values of an earlier entry may remain here, but only for columns that are
    /// in `wholes`, which is searched first.
    values: Vec<(usize, KeyPart<'t>)>,
    /// Free buffers for texts and bytes.
    room: Vec<u8>,
}

/// The most integer columns that an [`Entry`] keeps apart. Further ones are kept with the others.
const WHOLES: usize = 4;

impl<'t> Entry<'t> {
    pub(crate) fn new() -> Entry<'t> {
        let wholes = [(0, Field::Null); WHOLES];
        Entry { wholes, wholes_len: 0, values: Vec::new(), room: Vec::new() }
    }

    /// Reads the entry with this key.
    #[inline]
    pub(crate) fn read(&mut self, cover: &Cover, table: &'t TableDef, key: &[u8]) -> Result<()> {
        self.wholes_len = 0;
        let mut rest = key;
        for (at, piece) in cover.pieces.iter().enumerate() {
            let Some(behind) = self.read_whole(piece, rest) else {
                return self.read_on(&cover.pieces[at..], table, rest);
            };
            rest = behind;
        }
        Ok(())
    }

    /// Reads an integer part, if `piece` is one and `wholes` has room for it. Returns the rest of
    /// the key after it.
    #[inline(always)]
    fn read_whole<'k>(&mut self, piece: &CoverPart, rest: &'k [u8]) -> Option<&'k [u8]> {
        let place = self.wholes.get_mut(self.wholes_len)?;
        let (field, behind) = key::read_whole(rest, piece.unsigned?)?;
        if piece.is_read {
            *place = (piece.column, field);
            self.wholes_len += 1;
        }
        Some(behind)
    }

    /// Reads the rest of a key, with parts of any type.
    #[inline(never)]
    fn read_on(&mut self, pieces: &[CoverPart], table: &'t TableDef, key: &[u8]) -> Result<()> {
        const WRONG: &str = "an index key makes no sense";
        self.values.clear();
        self.room.clear();
        let mut rest = key;
        for piece in pieces {
            if let Some(behind) = self.read_whole(piece, rest) {
                rest = behind;
                continue;
            }
            let ty = &table.columns[piece.column].ty;
            let len = if piece.is_read {
                let (part, len) = key::read_part(rest, ty, &mut self.room).ok_or(WRONG)?;
                self.values.push((piece.column, part));
                len
            } else {
                key::part_len(rest, ty).ok_or(WRONG)?
            };
            rest = rest.get(len..).ok_or(WRONG)?;
        }
        Ok(())
    }

    /// A column that is read from the entry; `None` if it is not an integer.
    #[inline]
    pub(crate) fn field(&self, column: usize) -> Option<Field<'_>> {
        let wholes = self.wholes.get(..self.wholes_len)?;
        wholes.iter().find(|(at, _)| *at == column).map(|(_, field)| *field)
    }

    /// A column that is read from the entry.
    #[inline]
    pub(crate) fn get(&self, column: usize) -> Result<ValueRef<'_>> {
        if let Some(field) = self.field(column) {
            return Ok(field.value());
        }
        let part = self.values.iter().find(|(at, _)| *at == column).map(|(_, part)| part);
        Ok(part
            .ok_or("a column that its index does not give")?
            .value(&self.room)
            .ok_or("a text in an index is not UTF-8")?)
    }
}
