//! What transactions wait for, besides the throttle, and for how long.

use spillway_base::engine::Metric;
use spillway_base::stall::Tally;

/// The waits of all transactions of a database.
#[derive(Default)]
pub(crate) struct Stalls {
    /// For room in the log's buffer.
    pub(crate) log: Tally,
    /// For rows that others have locked.
    pub(crate) lock: Tally,
    /// For commits to be acknowledged, by threads that sleep until then.
    pub(crate) commit: Tally,
}

impl Stalls {
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let figures = |tally: &Tally, count, seconds, help| {
            let counter = |name, value| Metric { name, help, counter: true, value };
            [counter(count, tally.count() as f64), counter(seconds, tally.time().as_secs_f64())]
        };
        let of_log = "Waits for room in the log's buffer.";
        let of_rows = "Waits for rows that others have locked.";
        let of_commits = "Waits of threads for their commits.";
        [
            figures(&self.log, "stall_log_total", "stall_log_seconds_total", of_log),
            figures(&self.lock, "stall_lock_total", "stall_lock_seconds_total", of_rows),
            figures(&self.commit, "stall_commit_total", "stall_commit_seconds_total", of_commits),
        ]
        .concat()
    }
}
