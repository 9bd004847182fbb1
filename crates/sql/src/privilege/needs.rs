//! What a statement needs to be allowed, noted where its names are resolved.
//!
//! The binder resolves every name of a table once, to a table of the catalog, and asks there
//! whether the user may ([`Needs::ask`]). A check that reads the syntax tree by itself was the
//! simpler design, and rejected: it has to resolve aliases, common table expressions and quoted
//! names a second time, and where the two differ a statement does what its user may not.
//!
//! # Guarantees
//!
//! - **NEED-1.** Each table that a statement names, anywhere in it, is asked for before the catalog
//!   is looked at for it. So an error tells nothing of a table that the user may not use, not even
//!   whether there is one.
//! - **NEED-2.** A plan keeps the list of its needs. Each run of the plan asks for them again, for
//!   the user who runs it.
//! - **NEED-3.** A query needs SELECT on each table of its FROM clause. A change needs the right to
//!   its change on its table, and SELECT as well once it reads any column of a row that is there:
//!   in a condition, an order, a value, or behind ON DUPLICATE KEY UPDATE. VALUES() and the alias
//!   of a new row read what the statement gives itself. A change of several tables needs SELECT on
//!   all of them.
//! - **NEED-4.** A locking read needs UPDATE, DELETE or LOCK TABLES on the tables that it locks.
//! - **NEED-5.** The tables that a statement locks are those that it needs, in the mode that
//!   follows from that.

use std::cell::{Cell, RefCell};

use crate::errors::{Result, SqlError};

/// Database and name of a table.
pub(crate) type TablePath = (String, String);

/// The rights of which a locking read needs one.
pub(crate) const TO_LOCK: &[&str] = &["UPDATE", "DELETE", "LOCK TABLES"];

/// One of some rights, on a table; on its database where there is no table.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Need {
    pub(crate) any: &'static [&'static str],
    pub(crate) db: String,
    pub(crate) table: Option<String>,
}

impl Need {
    pub(crate) fn of_table(any: &'static [&'static str], (db, table): TablePath) -> Need {
        Need { any, db, table: Some(table) }
    }

    /// Whether it is to change or to lock rows.
    fn writes(&self) -> bool {
        *self.any != ["SELECT"]
    }
}

/// Answers whether the user may.
pub(crate) type May<'a> = &'a dyn Fn(&Need) -> Result<()>;

/// What a statement was found to need so far.
pub(crate) struct Needs<'a> {
    may: May<'a>,
    list: RefCell<Vec<Need>>,
    /// Whether the next locking read is the one by which a change finds its rows, whose rights are
    /// the change's.
    finds_changed: Cell<bool>,
}

impl<'a> Needs<'a> {
    pub(crate) fn new(may: May<'a>) -> Needs<'a> {
        Needs { may, list: RefCell::default(), finds_changed: Cell::new(false) }
    }

    /// For expressions that name no table.
    pub(crate) fn of_no_table() -> Needs<'static> {
        Needs::new(&|_| Err(SqlError::new(1105, "a kept expression names a table")))
    }

    /// Asks for one of some rights on a table.
    ///
    /// # Errors
    /// 1142 where the user has none of them.
    pub(crate) fn ask(&self, any: &'static [&'static str], table: TablePath) -> Result<()> {
        let need = Need::of_table(any, table);
        if self.list.borrow().contains(&need) {
            return Ok(());
        }
        (self.may)(&need)?;
        self.list.borrow_mut().push(need);
        Ok(())
    }

    /// Says that the locking read that is planned next finds the rows of a change.
    pub(crate) fn next_finds_changed(&self) {
        self.finds_changed.set(true);
    }

    /// Whether a locking read that is planned now locks by its own rights.
    pub(crate) fn locks_by_itself(&self) -> bool {
        !self.finds_changed.take()
    }

    pub(crate) fn into_list(self) -> Vec<Need> {
        self.list.into_inner()
    }
}

/// The tables of some needs in their order, and whether their rows are changed or locked.
pub(crate) fn tables_of(needs: &[Need]) -> Vec<(TablePath, bool)> {
    let mut tables: Vec<(TablePath, bool)> = Vec::new();
    for need in needs {
        let Some(table) = &need.table else { continue };
        let path = (need.db.clone(), table.clone());
        match tables.iter_mut().find(|(other, _)| *other == path) {
            Some((_, writes)) => *writes |= need.writes(),
            None => tables.push((path, need.writes())),
        }
    }
    tables.sort();
    tables
}
