//! The status variables of one session, for SHOW STATUS: the waits of its statements, and the state
//! of its connection.

use std::sync::Arc;

use spillway_base::stall::{self, Attached, Cause, Ledger, Waits};

use super::instance::Instance;

/// The part of SHOW STATUS that is about one session.
#[derive(Default)]
pub(super) struct StatusVariables {
    connection: Vec<(String, String)>,
    /// The session's waits when its last statement that was no SHOW, SET or USE began.
    waits_before: Waits,
    /// The ledger in which statements count their waits. The session keeps this reference to the
    /// process's ledger between statements, so that a statement changes no reference count.
    ledger: Option<Arc<Ledger>>,
}

impl StatusVariables {
    pub(super) fn set_connection(&mut self, lines: Vec<(String, String)>) {
        self.connection = lines;
    }

    /// Forgets the ledger and the waits, because the session gets another process.
    pub(super) fn reset_waits(&mut self) {
        self.waits_before = Waits::default();
        self.ledger = None;
    }

    /// Called when a statement begins. SHOW STATUS reports its waits as those of the last
    /// statement.
    pub(super) fn begin_statement(&mut self, waits: &Ledger) {
        waits.waits_into(&mut self.waits_before);
    }

    /// Counts the waits of this thread in the process's ledger, until [`StatusVariables::detach`].
    pub(super) fn attach(&mut self, waits: &Arc<Ledger>) -> Attached {
        stall::attach(self.ledger.take().unwrap_or_else(|| waits.clone()))
    }

    pub(super) fn detach(&mut self, attached: Attached) {
        self.ledger = attached.detach();
    }

    /// The lines of SHOW STATUS.
    pub(super) fn lines(
        &self,
        instance: &Instance,
        waits: &Ledger,
        global: bool,
    ) -> Vec<(String, String)> {
        let mut lines = instance.status_lines();
        lines.extend(instance.front_status());
        if !global {
            // Replaces the sums over all sessions by the session's own waits, under the same names.
            lines.retain(|(name, _)| !name.starts_with("Spillway_stall_"));
            lines.extend(self.wait_lines(waits));
            lines.extend(self.connection.iter().cloned());
        }
        lines.sort();
        lines
    }

    /// For each cause, how often and how long the session waited, and the waits of its last
    /// statement.
    fn wait_lines(&self, waits: &Ledger) -> Vec<(String, String)> {
        let mut lines = Vec::new();
        for cause in Cause::ALL {
            let tally = waits.tally(cause);
            let name = format!("Spillway_stall_{}", cause.name());
            lines.push((format!("{name}_seconds_total"), tally.time().as_secs_f64().to_string()));
            lines.push((format!("{name}_total"), tally.count().to_string()));
        }
        let last = waits.waits().since(&self.waits_before);
        let seconds = last.causes().map(|(_, _, time)| time.as_secs_f64()).sum::<f64>();
        let causes: Vec<String> = last
            .causes()
            .map(|(cause, count, time)| {
                format!("{} {count} times, {:.6} s", cause.name(), time.as_secs_f64())
            })
            .collect();
        lines.push(("Spillway_last_statement_stall_seconds".to_owned(), seconds.to_string()));
        lines.push(("Spillway_last_statement_stalls".to_owned(), causes.join("; ")));
        lines
    }
}
