//! The interface through which expressions, queries and SHOW use the server. `session` implements
//! the interface, so its users do not depend on `session`.

use std::cell::RefCell;

use spillway::{Database, Transaction};
use spillway_types::Value;

use crate::catalog::{Catalog, TableDef};
use crate::errors::Result;
use crate::process::ProcessLine;
use crate::variables::Variables;

/// The server, as a statement that runs in it sees it.
pub(crate) trait Server {
    /// The underlying database.
    fn database(&self) -> &Database;

    /// Whether queries take rows that lie together in batches.
    fn takes_row_batches(&self) -> bool;

    /// Whether columns of stored rows are passed on as fields instead of values.
    fn hands_fields_on(&self) -> bool;

    /// The most rows that a query reads at once when it looks up several; one if rows are never
    /// read together.
    fn looks_up_together(&self) -> usize;

    /// A number that was not returned before in this process.
    fn next_number(&self) -> u64;

    /// The number of a new row in a table without a primary key.
    ///
    /// # Errors
    /// The errors of reading the table's last row.
    fn next_row_number(&self, txn: &Transaction, table: &TableDef) -> Result<u64>;

    /// The next number of a table's AUTO_INCREMENT column.
    ///
    /// # Errors
    /// 1467 after the last number, and the errors of the catalog.
    fn next_auto_increment(&self, txn: &Transaction, table: &TableDef, step: Step) -> Result<u64>;

    /// Makes a table's AUTO_INCREMENT counter continue after a number that a statement gave.
    ///
    /// # Errors
    /// The errors of the catalog.
    fn note_auto_increment(&self, txn: &Transaction, table: &TableDef, given: u64) -> Result<()>;

    /// The next number of a table's AUTO_INCREMENT column, as SHOW CREATE TABLE shows it.
    fn auto_increment_of(&self, table: &TableDef) -> u64;

    /// The sessions, as the list of processes shows them.
    fn process_lines(&self) -> Vec<ProcessLine>;

    /// The rows of a virtual table.
    fn virtual_rows(
        &self,
        catalog: &Catalog,
        variables: &RefCell<Variables>,
        name: &str,
    ) -> Vec<Vec<Value>>;
}

/// Which AUTO_INCREMENT numbers a session gets: `auto_increment_offset`, and from there on every
/// `auto_increment_increment`-th number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) offset: u64,
    pub(crate) increment: u64,
}

impl Step {
    /// The smallest of these numbers that is at least `number`.
    pub(crate) fn at_or_after(self, number: u64) -> u64 {
        let increment = self.increment.max(1);
        // As in MySQL, an offset larger than the increment is ignored.
        let offset = if self.offset > increment { 1 } else { self.offset.max(1) };
        let steps = number.saturating_sub(offset).div_ceil(increment);
        steps.saturating_mul(increment).saturating_add(offset)
    }
}
