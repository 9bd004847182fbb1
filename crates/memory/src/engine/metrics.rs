//! The metrics of an engine.

use spillway_base::engine::Metric;
use spillway_base::sync::atomic::{AtomicU64, Ordering};

use super::inner::Inner;

impl Inner {
    pub(super) fn metrics(&self) -> Vec<Metric> {
        let gauge =
            |name, help, value: u64| Metric { name, help, counter: false, value: value as f64 };
        let tables = self.tables.load();
        let (kept, live) = self.segments.kept_bytes();
        let rows = tables.values().map(|table| table.keys()).sum();
        let arrays = tables.values().map(|table| table.rows.bytes() as u64).sum();
        let mut metrics = vec![
            gauge("memory_engine_tables", "Tables of the memory engine.", tables.len() as u64),
            gauge("memory_engine_rows", "Keys in the indexes of the memory engine.", rows),
            gauge(
                "memory_engine_version_bytes",
                "Memory of versions of rows.",
                self.store.slabs.charged_bytes() as u64,
            ),
            gauge(
                "memory_engine_index_bytes",
                "Memory of indexes.",
                self.tables.nodes().charged_bytes() as u64,
            ),
            gauge("memory_engine_array_bytes", "Memory of indirection arrays.", arrays),
            gauge(
                "memory_engine_large_page_bytes",
                "Of the memory of versions, indexes and arrays, the bytes in large pages.",
                self.large_page_bytes(),
            ),
            gauge(
                "memory_engine_kept_bytes",
                "Bytes of the log segments that are kept for their rows.",
                kept,
            ),
            gauge("memory_engine_live_bytes", "Bytes of current rows in kept log segments.", live),
            gauge(
                "memory_engine_held_bytes",
                "Memory of records that were read from the log and that no get has taken.",
                self.log.held_bytes() as u64,
            ),
            gauge(
                "memory_engine_unplaced_commits",
                "Commits whose place in the log is not known yet.",
                self.unplaced.len() as u64,
            ),
            gauge(
                "memory_engine_uncollected_rows",
                "Rows with versions that wait to be collected.",
                self.collector.len() as u64,
            ),
            gauge(
                "memory_engine_uncollected_bytes",
                "Memory of versions that wait to be collected, estimated from a sample of the rows.",
                self.collector.uncollected_bytes(&self.store),
            ),
            gauge(
                "memory_engine_watermark_csn",
                "The commit up to which only the newest version of each row is kept.",
                self.pins.watermark().0,
            ),
        ];
        metrics.extend(self.count_metrics());
        metrics
    }

    fn count_metrics(&self) -> Vec<Metric> {
        let figure =
            |name, help, value: u64| Metric { name, help, counter: true, value: value as f64 };
        let count =
            |name, help, value: &AtomicU64| figure(name, help, value.load(Ordering::Relaxed));
        let counts = &self.counts;
        let [read, prefetched, read_ahead] = self.log.counts();
        let (begun, shared) = self.async_reads.begun_and_shared();
        vec![
            figure("memory_engine_log_reads_total", "Rows that were read from the log.", read),
            figure(
                "memory_engine_prefetched_total",
                "Rows read from the log together for several gets.",
                prefetched,
            ),
            figure(
                "memory_engine_read_ahead_total",
                "Rows that scans read from the log together.",
                read_ahead,
            ),
            figure(
                "memory_engine_reads_begun_total",
                "Asynchronous reads of rows for waiting statements.",
                begun,
            ),
            figure(
                "memory_engine_reads_shared_total",
                "Statements that joined an asynchronous read in progress.",
                shared,
            ),
            figure("memory_engine_evicted_total", "Rows that left memory.", self.evictor.evicted()),
            figure(
                "memory_engine_collected_total",
                "Versions and rows that were collected in the background.",
                self.collector.collected(),
            ),
            count("memory_engine_checkpoints_total", "Checkpoints.", &counts.checkpoints),
            count(
                "memory_engine_checkpoint_bytes_total",
                "Bytes that checkpoints wrote.",
                &counts.checkpoint_bytes,
            ),
            count(
                "memory_engine_compacted_bytes_total",
                "Bytes that log compaction wrote.",
                &counts.compacted_bytes,
            ),
            count(
                "memory_engine_released_segments_total",
                "Kept segments that were removed.",
                &counts.released,
            ),
            count(
                "memory_engine_punched_bytes_total",
                "Bytes of dead pages of kept segments whose space was returned on a full disk.",
                &counts.punched_bytes,
            ),
        ]
    }

    fn large_page_bytes(&self) -> u64 {
        let arrays: usize = self.tables.load().values().map(|table| table.rows.large_bytes()).sum();
        (self.store.slabs.large_bytes() + self.tables.nodes().large_bytes() + arrays) as u64
    }
}
