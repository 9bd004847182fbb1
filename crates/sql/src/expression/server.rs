//! The interface through which expressions, queries and SHOW use the server. `session` implements
//! it, so they do not depend on `session`.

use std::cell::RefCell;

use spillway::{Database, Transaction};
use spillway_types::Value;

use crate::catalog::{Catalog, TableDef};
use crate::errors::Result;
use crate::process::ProcessLine;
use crate::variables::Variables;

/// The server that a statement runs in.
pub(crate) trait Server {
    /// The database below.
    fn database(&self) -> &Database;

    /// Whether queries take rows that lie together at once.
    fn takes_row_batches(&self) -> bool;

    /// Whether columns of stored rows are handed on as fields, and not as values.
    fn hands_fields_on(&self) -> bool;

    /// Rows that are read at once at the most of those that a query looks up one after the other;
    /// one where they never are.
    fn looks_up_together(&self) -> usize;

    /// A number that was not given before, in this life.
    fn next_number(&self) -> u64;

    /// The number of a new row in a table without a primary key.
    ///
    /// # Errors
    /// Those of reading the table's last row.
    fn next_row_number(&self, txn: &Transaction, table: &TableDef) -> Result<u64>;

    /// The next number of a table's AUTO_INCREMENT column.
    ///
    /// # Errors
    /// 1467 past the last number, and those of the catalog.
    fn next_auto_increment(&self, txn: &Transaction, table: &TableDef, step: Step) -> Result<u64>;

    /// Moves a table's AUTO_INCREMENT counter past a number that a statement gave.
    ///
    /// # Errors
    /// Those of the catalog.
    fn note_auto_increment(&self, txn: &Transaction, table: &TableDef, given: u64) -> Result<()>;

    /// The number that comes next, as SHOW CREATE TABLE shows it.
    fn auto_increment_of(&self, table: &TableDef) -> u64;

    /// The sessions.
    fn process_lines(&self) -> Vec<ProcessLine>;

    /// The rows of a virtual table.
    fn virtual_rows(
        &self,
        catalog: &Catalog,
        variables: &RefCell<Variables>,
        name: &str,
    ) -> Vec<Vec<Value>>;
}

/// Which numbers a session is given: `auto_increment_offset`, and from there each
/// `auto_increment_increment`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) offset: u64,
    pub(crate) increment: u64,
}

impl Step {
    /// The smallest of them that is not below `number`.
    pub(crate) fn at_or_after(self, number: u64) -> u64 {
        let increment = self.increment.max(1);
        // An offset beyond the increment is none, as in MySQL.
        let offset = if self.offset > increment { 1 } else { self.offset.max(1) };
        let steps = number.saturating_sub(offset).div_ceil(increment);
        steps.saturating_mul(increment).saturating_add(offset)
    }
}
