//! Metrics of the transaction manager.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use spillway_base::engine::{Horizon, Metric};
use spillway_base::stall::Tally;

use crate::manager::TransactionManager;

fn counter(name: &'static str, help: &'static str, value: f64) -> Metric {
    Metric { name, help, counter: true, value }
}

fn gauge(name: &'static str, help: &'static str, value: f64) -> Metric {
    Metric { name, help, counter: false, value }
}

impl TransactionManager {
    /// Metrics for users and for monitoring.
    #[must_use]
    pub fn metrics(&self) -> Vec<Metric> {
        let mut metrics = self.log_metrics();
        metrics.extend(self.commit_metrics());
        metrics.extend(self.0.throttle.metrics(self.0.debt().total()));
        metrics.extend(self.stalls());
        metrics
    }

    /// The metrics of log buffering and log flushing. The help texts number the stages as X-Engine
    /// does: log flushing is stage 2, and installing is stage 3.
    fn log_metrics(&self) -> Vec<Metric> {
        let pipeline = &self.0.pipeline;
        let (lanes, queued_words) = pipeline.depth();
        let flushed = pipeline.sum(|lane| &lane.flushed_commits);
        vec![
            gauge("log_lanes", "Lanes that commits go to.", lanes as f64),
            gauge(
                "log_queue_bytes",
                "Stage 1, log buffering: bytes queued and not durable.",
                queued_words as f64 * 8.0,
            ),
            counter(
                "log_writes_total",
                "Stage 2, log flushing: frames written.",
                pipeline.sum(|lane| &lane.writes) as f64,
            ),
            counter(
                "log_flushes_total",
                "Stage 2: syncs, each of a written frame or of several.",
                pipeline.sum(|lane| &lane.flushes) as f64,
            ),
            counter("log_flushed_commits_total", "Stage 2: commits written.", flushed as f64),
            counter(
                "log_flushed_bytes_total",
                "Stage 2: bytes written.",
                pipeline.sum(|lane| &lane.flushed_bytes) as f64,
            ),
            counter(
                "log_flush_seconds_total",
                "Stage 2: time spent in syncs, over all lanes.",
                pipeline.sum(|lane| &lane.flush_ns) as f64 / 1e9,
            ),
            gauge("log_bytes", "Bytes of log kept for recovery.", pipeline.log_bytes() as f64),
        ]
    }

    /// The metrics of installs, acknowledgements and visible commits.
    fn commit_metrics(&self) -> [Metric; 10] {
        let (counts, snapshots) = (&self.0.pipeline.counts, &self.0.snapshots);
        let load = |value: &AtomicU64| value.load(Ordering::Relaxed) as f64;
        let (ordered, stable) = (self.0.pipeline.last_ordered(), self.stable());
        let [spilled, folded] = self.0.overlays.attached_and_folded();
        [
            counter(
                "commits_total",
                "Commits ordered since the database was made.",
                ordered.0 as f64,
            ),
            gauge(
                "commits_installing",
                "Stage 3, installing: commits ordered and not installed, with all before them.",
                ordered.0.saturating_sub(snapshots.installed.prefix().0) as f64,
            ),
            counter(
                "commit_install_seconds_total",
                "Stage 3: time spent installing, from one commit in 64.",
                load(&counts.install_ns) / 1e9,
            ),
            gauge(
                "commits_waiting",
                "Stage 4, commit: commits ordered and not acknowledged.",
                ordered.0.saturating_sub(stable.0) as f64,
            ),
            counter(
                "commit_acknowledgements_total",
                "Stage 4: advances of the stable CSN.",
                load(&counts.acknowledgements),
            ),
            counter(
                "spilled_commits_total",
                "Commits with spilled writes, including those that the opening found.",
                spilled as f64,
            ),
            counter(
                "spilled_commits_folded_total",
                "Commits whose spilled writes have all been written to their tables.",
                folded as f64,
            ),
            gauge(
                "stable_csn",
                "The last commit up to which all commits are visible and durable.",
                stable.0 as f64,
            ),
            gauge(
                "oldest_snapshot_csn",
                "The CSN at which the oldest open transaction or scan reads, or a little less.",
                snapshots.low_watermark().0 as f64,
            ),
            gauge(
                "oldest_snapshot_seconds",
                "How long ago the open transaction with the oldest snapshot took it.",
                snapshots.readers().first().map_or(0.0, |reader| reader.age.as_secs_f64()),
            ),
        ]
    }

    /// The number and time of writers' waits, by cause, without those of the throttle.
    fn stalls(&self) -> [Metric; 6] {
        let of = |tally: &Tally| (tally.count(), tally.time());
        let figures = |(count, time): (u64, Duration), names: [&'static str; 2], help| {
            let counter = |name, value| Metric { name, help, counter: true, value };
            [counter(names[0], count as f64), counter(names[1], time.as_secs_f64())]
        };
        let (queues, disk) = (self.0.pipeline.waits_for_queues(), of(&self.0.disk_waits));
        let [log, log_seconds] = figures(
            (queues.0 + disk.0, queues.1 + disk.1),
            ["stall_log_total", "stall_log_seconds_total"],
            "Stage 1, log buffering: waits for room in a lane's queue, or on a full disk.",
        );
        let [lock, lock_seconds] = figures(
            of(&self.0.locks.waits),
            ["stall_lock_total", "stall_lock_seconds_total"],
            "Waits for rows that others have locked.",
        );
        let [commit, commit_seconds] = figures(
            of(&self.0.commit_waits),
            ["stall_commit_total", "stall_commit_seconds_total"],
            "Stage 4, commit: waits of threads for their commits.",
        );
        [log, log_seconds, lock, lock_seconds, commit, commit_seconds]
    }
}
