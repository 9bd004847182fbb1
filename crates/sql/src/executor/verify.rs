//! CHECK TABLE: compares a table's indexes with its rows.

use std::collections::BTreeSet;

use spillway::{Direction, KeyRange, Transaction};
use spillway_base::TableId;

use super::store;
use crate::catalog::TableDef;
use crate::errors::Result;

/// Compares rows with index entries at one snapshot. Every row must be readable and have its entry
/// in each index, and an index must have no other entries. Returns the problems, at most one for
/// each index. `goes_on` fails if the check must stop.
pub(crate) fn check_table(
    txn: &Transaction,
    table: &TableDef,
    goes_on: &dyn Fn() -> Result<()>,
) -> Result<Vec<String>> {
    let mut rows = 0_u64;
    let mut lacking = BTreeSet::new();
    let (mut row, mut value) = (Vec::new(), Vec::new());
    let mut scan = txn.scan(table.rows(), KeyRange::ALL, Direction::Forward)?;
    while scan.advance()? {
        if rows.is_multiple_of(256) {
            goes_on()?;
        }
        rows += 1;
        row.clear();
        table.decode(scan.value(), &mut row)?;
        for index in &table.indexes {
            let key = store::index_key(table, index, &row, scan.key());
            if !txn.get(TableId(index.space), &key, &mut value)? {
                lacking.insert(&index.name);
            }
        }
    }
    drop(scan);
    let mut wrong: Vec<String> =
        lacking.iter().map(|name| format!("Index '{name}' lacks entries of rows")).collect();
    for index in &table.indexes {
        let mut entries = 0_u64;
        let mut scan = txn.scan(TableId(index.space), KeyRange::ALL, Direction::Forward)?;
        while scan.advance()? {
            if entries.is_multiple_of(256) {
                goes_on()?;
            }
            entries += 1;
        }
        if entries != rows {
            let name = &index.name;
            wrong.push(format!("Index '{name}' has {entries} entries for {rows} rows"));
        }
    }
    Ok(wrong)
}
