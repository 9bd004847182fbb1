//! Finds the columns that a statement reads. If a row that a transaction has read changes only in
//! other columns, the transaction may still move its snapshot forward (`txn/transaction/refresh`,
//! REFRESH-3).

use spillway::ColumnsRead;
use spillway_types::row::RowReader;

use super::query_plan::{SelectPlan, SourceKind};
use crate::catalog::TableDef;
use crate::expression::{Context, Expr};

/// This many columns have a bit of their own.
const COLUMNS: usize = 63;

/// These columns of a table's rows, or whole rows if one of them has no bit.
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

/// The columns that expressions read of a table whose columns are first in the row.
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
    // The slot after the columns has the row's key. Reads of the key are recorded in any case.
    used.retain(|slot| *slot < table.columns.len());
    if all { ColumnsRead::ALL } else { columns_read(table, used) }
}

/// Reports to the transaction the columns that a query reads of its tables.
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

/// Whether two rows of the same layout have equal values in these columns. Equal values always have
/// the same bytes.
fn are_same(read: &ColumnsRead, old: &[u8], new: &[u8]) -> bool {
    let (Ok(old), Ok(new)) = (RowReader::new(old), RowReader::new(new)) else { return false };
    let mut columns = (0..COLUMNS).filter(|column| read.columns >> column & 1 == 1);
    old.schema() == read.layout
        && new.schema() == read.layout
        && columns.all(|column| old.has_same(&new, column))
}
