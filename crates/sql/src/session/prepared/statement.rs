//! A prepared statement, its place among those of all sessions, and its memory.

use std::sync::atomic::Ordering;

use spillway_base::budget::{Charge, Use};

use crate::errors::{Result, SqlError};
use crate::process::PreparedText;
use crate::session::compiled::Slot;
use crate::session::instance::Instance;

/// A prepared statement of a session.
pub(in crate::session) struct PreparedStatement {
    pub(super) params: usize,
    /// Taken out while it runs.
    pub(super) slot: Option<Slot>,
    pub(super) _place: PreparedPlace,
    /// For its tree, where that is large.
    pub(super) _memory: Option<Charge>,
    /// For the list of processes.
    pub(super) _kept: PreparedText,
}

/// What a prepared statement takes beside its text and its plan ([`crate::session::compiled`]):
/// measured, of a point select. The tree of a long text has a charge of its own
/// ([`crate::parser::TextMemory::kept`]).
const STATEMENT_BYTES: usize = 8 << 10;

/// A statement's place among the prepared ones of all sessions, and its memory. Dropping it frees
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
    /// Prepared statements that there are, of all sessions.
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
