//! The privileges that a statement needs, collected where its names are resolved.
//!
//! The binder resolves every table name exactly once. At that point it also checks whether the user
//! may use the table ([`Needs::ask`]).
//!
//! Rejected: a separate check on the syntax tree. Such a check would be simpler, but would have to
//! resolve aliases, common table expressions and quoted names a second time. If the two resolutions
//! differed, a statement could do what its user may not do.
//!
//! # Guarantees
//!
//! - **NEED-1.** The privilege on each table that a statement names, anywhere in it, is checked
//!   before the table is looked up in the catalog. So an error reveals nothing about a table that
//!   the user may not use, not even whether the table exists.
//! - **NEED-2.** A plan keeps the list of the privileges that it needs. Each run of the plan checks
//!   these privileges again, for the user who runs the plan.
//! - **NEED-3.** A query needs SELECT on each table of its FROM clause. A change of one table needs
//!   the right to change that table. It also needs SELECT on the table if it reads any column of an
//!   existing row: in a condition, in ORDER BY, in a value, or after ON DUPLICATE KEY UPDATE.
//!   Columns in VALUES() and columns of the alias of a new row do not count, because they are
//!   values of the statement itself. A change of several tables needs SELECT on all of them.
//! - **NEED-4.** A locking read needs UPDATE, DELETE or LOCK TABLES on the tables that it locks.
//! - **NEED-5.** A statement takes metadata locks on the tables in the list of its needs, each in
//!   the mode that follows from the need.
//! - **NEED-6.** An error or warning of a statement quotes values of rows, or keys, only to users
//!   who have SELECT on all of the statement's tables. Other users get the message without these
//!   values, as in PostgreSQL, even if they have supplied the value themselves.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashSet};

use crate::errors::{Result, SqlError};

/// The database and the name of a table.
pub(crate) type TablePath = (String, String);

/// Up to this number, needs are searched one by one.
const FEW: usize = 16;

/// A locking read needs one of these privileges.
pub(crate) const TO_LOCK: &[&str] = &["UPDATE", "DELETE", "LOCK TABLES"];

/// The need for any one of some privileges, for a table, or for a database if there is no table.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Need {
    pub(crate) any: &'static [&'static str],
    pub(crate) db: String,
    pub(crate) table: Option<String>,
}

impl Need {
    pub(crate) fn of_table(any: &'static [&'static str], (db, table): TablePath) -> Need {
        Need { any, db, table: Some(table) }
    }

    /// Whether the need is for changing or locking rows.
    fn writes(&self) -> bool {
        *self.any != ["SELECT"]
    }
}

/// Checks whether the user has a needed privilege.
pub(crate) type May<'a> = &'a dyn Fn(&Need) -> Result<()>;

/// The privileges that a statement needs, as far as its names are resolved.
pub(crate) struct Needs<'a> {
    may: May<'a>,
    list: RefCell<Vec<Need>>,
    /// The same needs, once they are more than [`FEW`].
    known: RefCell<HashSet<Need>>,
    /// Whether the next locking read is planned for a change, to find its rows. Such a read needs
    /// only the privileges of the change.
    finds_changed: Cell<bool>,
}

impl<'a> Needs<'a> {
    pub(crate) fn new(may: May<'a>) -> Needs<'a> {
        let (list, known, finds_changed) = Default::default();
        Needs { may, list, known, finds_changed }
    }

    /// The needs of expressions that name no table.
    pub(crate) fn of_no_table() -> Needs<'static> {
        Needs::new(&|_| Err(SqlError::new(1105, "a kept expression names a table")))
    }

    /// Adds the need for any one of some privileges for a table.
    ///
    /// # Errors
    /// 1142 if the user has none of them.
    pub(crate) fn ask(&self, any: &'static [&'static str], table: TablePath) -> Result<()> {
        let need = Need::of_table(any, table);
        let mut known = self.known.borrow_mut();
        let is_known = match self.list.borrow().len() {
            0..=FEW => self.list.borrow().contains(&need),
            _ => known.contains(&need),
        };
        if is_known {
            return Ok(());
        }
        (self.may)(&need)?;
        let mut list = self.list.borrow_mut();
        list.push(need);
        if list.len() > FEW {
            let from = known.len();
            known.extend(list[from..].iter().cloned());
        }
        Ok(())
    }

    /// Makes the locking read that is planned next the one that finds the rows of a change.
    pub(crate) fn next_finds_changed(&self) {
        self.finds_changed.set(true);
    }

    /// Whether the locking read that is planned now needs the privileges for locking itself.
    pub(crate) fn locks_by_itself(&self) -> bool {
        !self.finds_changed.take()
    }

    pub(crate) fn into_list(self) -> Vec<Need> {
        self.list.into_inner()
    }
}

/// The tables of some needs, in order, and whether their rows are changed or locked.
pub(crate) fn tables_of(needs: &[Need]) -> Vec<(TablePath, bool)> {
    let mut tables: BTreeMap<TablePath, bool> = BTreeMap::new();
    for need in needs {
        let Some(table) = &need.table else { continue };
        *tables.entry((need.db.clone(), table.clone())).or_default() |= need.writes();
    }
    tables.into_iter().collect()
}
