//! The waits of a session's statements, for SHOW STATUS.

use spillway_base::stall::Cause;

use super::Session;

impl Session {
    /// For each cause how often and how long the session waited; and what its last statement waited
    /// for.
    pub(super) fn stall_lines(&self) -> Vec<(String, String)> {
        let mut lines = Vec::new();
        for cause in Cause::ALL {
            let tally = self.process.stalls.tally(cause);
            let name = format!("Spillway_stall_{}", cause.name());
            lines.push((format!("{name}_seconds_total"), tally.time().as_secs_f64().to_string()));
            lines.push((format!("{name}_total"), tally.count().to_string()));
        }
        let last = self.process.stalls.waits().since(&self.stalls_before);
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
