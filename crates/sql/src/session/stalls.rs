//! What a session's statements waited for, as SHOW STATUS tells it.

use spillway_base::stall::{Cause, Waits};

use super::Session;
use crate::parse::Statement;

impl Session {
    /// Keeps what a statement waited for. One that shows something does not hide what came before it.
    pub(super) fn note_stalls(&mut self, statement: &Statement, before: &Waits) {
        let shows = |first: &str| matches!(first, "show" | "set" | "use");
        if !matches!(statement, Statement::Own(first, _) if shows(first)) {
            self.last_stalls = self.process.stalls.waits().since(before);
        }
    }

    /// For each cause how often and how long the session waited; and what its last statement waited for.
    pub(super) fn stall_lines(&self) -> Vec<(String, String)> {
        let mut lines = Vec::new();
        for cause in Cause::ALL {
            let tally = self.process.stalls.tally(cause);
            let name = format!("Spillway_stall_{}", cause.name());
            lines.push((format!("{name}_seconds_total"), tally.time().as_secs_f64().to_string()));
            lines.push((format!("{name}_total"), tally.count().to_string()));
        }
        let seconds = self.last_stalls.causes().map(|(_, _, time)| time.as_secs_f64()).sum::<f64>();
        let causes: Vec<String> = self
            .last_stalls
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
