//! The results of a run of the workloads.

use super::Workload;
use crate::report::{self, Figure};

/// One workload on one store, once.
#[derive(Clone, PartialEq, Debug)]
pub struct KvRow {
    /// The store's name.
    pub store: String,
    /// The workload.
    pub workload: Workload,
    /// Bytes of each value.
    pub value_bytes: usize,
    /// Threads.
    pub threads: usize,
    /// Throughput.
    pub operations_per_s: f64,
    /// Median latency of one operation.
    pub latency_p50_us: f64,
    /// 99th percentile of the latency of one operation.
    pub latency_p99_us: f64,
    /// Processor time of the whole process, for each operation.
    pub cpu_us: f64,
    /// Puts beside the reads of `readwhilewriting`; zero for the others.
    pub written_per_s: f64,
    /// The checksum of everything read; equal for equal seeds.
    pub checksum: u64,
}

/// An empty report for such rows.
pub(super) fn empty() -> report::Report {
    let figure = |name, decimals| Figure { name, decimals };
    report::Report::new(
        &["workload", "value B", "threads"],
        &[
            figure("ops/s", 0),
            figure("p50 us", 1),
            figure("p99 us", 1),
            figure("cpu us", 2),
            figure("puts/s beside", 0),
        ],
    )
}

impl From<&KvRow> for report::Row {
    fn from(row: &KvRow) -> report::Row {
        let case =
            [row.workload.name().to_owned(), row.value_bytes.to_string(), row.threads.to_string()];
        report::Row {
            case: case.to_vec(),
            subject: row.store.clone(),
            figures: vec![
                row.operations_per_s,
                row.latency_p50_us,
                row.latency_p99_us,
                row.cpu_us,
                row.written_per_s,
            ],
        }
    }
}
