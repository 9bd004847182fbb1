//! Finds the columns that a statement reads. A transaction that may move its snapshot forward uses
//! them: it can ignore changes of all other columns (`txn/transaction/refresh`, REFRESH-3).

use spillway::ColumnsRead;
use spillway_types::row::RowReader;

use super::query_plan::{SelectPlan, SourceKind};
use crate::catalog::TableDef;
use crate::expression::{Context, Expr};

/// Columns that have a bit of their own.
const COLUMNS: usize = 63;

/// These columns of a table's rows; whole rows, where one of them has no bit.
pub(crate) fn columns_read(
    table: &TableDef,
    columns: impl IntoIterator<Item = usize>,
) -> ColumnsRead {
    let mut bits = 0;
    for column in columns {
        if column >= COLUMNS {
            return ColumnsRead::ALL;
        }
        bits |= 1_u64 << column;
    }
    ColumnsRead { columns: bits, layout: table.schema, same: are_same }
}

/// What expressions over one table, whose columns begin the row, read of it.
pub(crate) fn columns_of<'e>(
    table: &TableDef,
    exprs: impl IntoIterator<Item = &'e Expr>,
) -> ColumnsRead {
    let (mut used, mut all) = (Vec::new(), false);
    for expr in exprs {
        expr.walk(&mut |part| match part {
            Expr::Column(slot) => used.push(*slot),
            Expr::Subquery { plan, .. } => all |= plan.is_correlated(),
            _ => {}
        });
    }
    // Behind the columns is the key, by which the row is remembered anyway.
    used.retain(|slot| *slot < table.columns.len());
    if all { ColumnsRead::ALL } else { columns_read(table, used) }
}

/// Tells the transaction what a query reads of its tables.
pub(crate) fn note_columns(context: &Context<'_>, plan: &SelectPlan) {
    for source in &plan.sources {
        let SourceKind::Table(table) = &source.kind else { continue };
        let columns = match &source.needed {
            Some(needed) => columns_read(table, needed.iter().copied()),
            None => ColumnsRead::ALL,
        };
        context.txn.reads_columns(table.rows(), columns);
    }
}

/// Whether rows of this layout have equal values in the columns. A value has the same bytes
/// wherever it was written.
fn are_same(read: &ColumnsRead, old: &[u8], new: &[u8]) -> bool {
    let (Ok(old), Ok(new)) = (RowReader::new(old), RowReader::new(new)) else { return false };
    let mut columns = (0..COLUMNS).filter(|column| read.columns >> column & 1 == 1);
    old.schema() == read.layout
        && new.schema() == read.layout
        && columns.all(|column| old.has_same(&new, column))
}
