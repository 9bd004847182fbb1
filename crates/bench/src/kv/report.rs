//! The results of a run of the workloads.

use super::KvRow;
use crate::report::{self, Figure};

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
