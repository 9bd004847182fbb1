//! The prepared statements of a session. They count against the limit on the prepared statements of
//! all sessions, and their memory is charged to the budget.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use rustc_hash::FxHashMap;
use spillway::Budget;
use spillway_base::budget::{Charge, Use};
use spillway_types::Value;
use sqlparser::tokenizer::Token;

use crate::errors::{Result, SqlError};
use crate::parser::{name_of, word};
use crate::process::PreparedText;
use crate::session::compiled::Slot;
use crate::session::instance::Instance;
use crate::session::large_values;

/// A session's prepared statements of the protocol and of PREPARE.
pub(in crate::session) struct PreparedStatements {
    by_id: FxHashMap<u32, PreparedStatement>,
    /// The number of the next statement. No number is given twice.
    next_id: u32,
    /// The numbers of the statements of PREPARE, by name.
    by_name: HashMap<String, u32>,
}

/// 1243: no statement is prepared under that number or name.
fn unknown(statement: impl std::fmt::Display, given: &str) -> SqlError {
    let text = format!("Unknown prepared statement handler ({statement}) given to {given}");
    SqlError::new(1243, text)
}

impl PreparedStatements {
    pub(in crate::session) fn new() -> PreparedStatements {
        let (by_id, by_name) = (FxHashMap::default(), HashMap::new());
        PreparedStatements { by_id, next_id: 1, by_name }
    }

    /// Returns a number for a new statement.
    pub(super) fn take_id(&mut self) -> u32 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    pub(super) fn insert(&mut self, id: u32, statement: PreparedStatement) {
        self.by_id.insert(id, statement);
    }

    /// Takes a statement to run it with `params`, and charges its copies of them (LARGE-1).
    ///
    /// # Errors
    /// 1243 for an unknown number, 1210 for another number of parameters, 1041 for lack of memory.
    pub(super) fn take(
        &mut self,
        id: u32,
        params: &[Value],
        budget: &Budget,
    ) -> Result<(Slot, Option<Charge>)> {
        let unknown = || unknown(id, "EXECUTE");
        let stored = self.by_id.get_mut(&id).ok_or_else(unknown)?;
        if params.len() != stored.params {
            return Err(SqlError::new(1210, "Incorrect arguments to EXECUTE"));
        }
        let copies = large_values::charge(budget, large_values::bytes_of(params))?;
        Ok((stored.slot.take().ok_or_else(unknown)?, copies))
    }

    /// Puts back a statement that has run, unless it was closed meanwhile.
    pub(super) fn put_back(&mut self, id: u32, slot: Slot) {
        if let Some(stored) = self.by_id.get_mut(&id) {
            stored.slot = Some(slot);
        }
    }

    pub(super) fn close(&mut self, id: u32) {
        self.by_id.remove(&id);
    }

    pub(in crate::session) fn close_all(&mut self) {
        self.by_id.clear();
        self.by_name.clear();
    }

    /// Names a statement.
    pub(super) fn bind_name(&mut self, name: String, id: u32) {
        self.by_name.insert(name, id);
    }

    /// Closes the statement of a name, if there is one.
    pub(super) fn close_named(&mut self, name: &str) {
        if let Some(old) = self.by_name.remove(name) {
            self.by_id.remove(&old);
        }
    }

    /// The number of the prepared statement of a name. `statement` is the statement that names it,
    /// for the error.
    ///
    /// # Errors
    /// 1243 if there is none.
    pub(super) fn named(&self, name: Option<&Token>, statement: &str) -> Result<u32> {
        let name = name_of(name);
        let found = self.by_name.get(&name.to_lowercase()).copied();
        found.ok_or_else(|| unknown(name, statement))
    }

    /// `DEALLOCATE PREPARE name`, `DROP PREPARE name`.
    pub(in crate::session) fn deallocate(&mut self, plain: &[Token]) -> Result<()> {
        let [_, prepare, name] = plain else {
            return Err(SqlError::syntax("write DEALLOCATE PREPARE name"));
        };
        if word(Some(prepare)) != "prepare" {
            return Err(SqlError::syntax(format!("near '{prepare}'")));
        }
        let id = self.named(Some(name), "DEALLOCATE PREPARE")?;
        self.by_id.remove(&id);
        self.by_name.retain(|_, named| *named != id);
        Ok(())
    }
}

/// A prepared statement of a session.
pub(super) struct PreparedStatement {
    pub(super) params: usize,
    /// `None` while the statement runs.
    pub(super) slot: Option<Slot>,
    pub(super) _place: PreparedPlace,
    /// The charge for the syntax tree, if that is large.
    pub(super) _memory: Option<Charge>,
    /// The text, for the list of processes.
    pub(super) _kept: PreparedText,
}

/// The memory of a prepared statement apart from its text and its plan
/// ([`crate::session::compiled`]), measured for a point read. The tree of a long text has a charge
/// of its own ([`crate::parser::TextMemory::kept`]).
const STATEMENT_BYTES: usize = 8 << 10;

/// A prepared statement's share of `max_prepared_stmt_count` and of memory. Dropping this returns
/// both.
pub(super) struct PreparedPlace {
    instance: Instance,
    _charge: Charge,
}

impl Drop for PreparedPlace {
    fn drop(&mut self) {
        self.instance.0.prepared.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Instance {
    /// The number of prepared statements of all sessions.
    #[must_use]
    pub fn prepared_statements(&self) -> usize {
        self.0.prepared.load(Ordering::Relaxed)
    }

    pub(super) fn place_for(&self, sql: &str) -> Result<PreparedPlace> {
        let bytes = STATEMENT_BYTES + 2 * sql.len();
        let charge = self.0.db.budget().try_charge(Use::Connections, bytes)?;
        let most = self.global_number("max_prepared_stmt_count").unwrap_or(u64::MAX);
        let before = self.0.prepared.fetch_add(1, Ordering::Relaxed);
        let place = PreparedPlace { instance: self.clone(), _charge: charge };
        if before as u64 >= most {
            let text = format!(
                "Can't create more than max_prepared_stmt_count statements (current value: {most})"
            );
            return Err(SqlError::new(1461, text));
        }
        Ok(place)
    }
}
