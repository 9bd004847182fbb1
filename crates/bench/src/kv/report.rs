//! Medians, spread and ratios of a run.

use std::fmt;

use super::Workload;

/// One workload on one store, once.
#[derive(Clone, PartialEq, Debug)]
pub struct Row {
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
    /// Puts beside the reads of `readwhilewriting`; zero of the others.
    pub written_per_s: f64,
    /// Of everything read; equal for equal seeds.
    pub checksum: u64,
}

/// The rows of a run. Shown, it gives for each workload and store the median over the rounds, the
/// lowest and highest round, and the ratio of the first store's median to each store's.
#[derive(Clone, Default, Debug)]
pub struct Report {
    rows: Vec<Row>,
}

impl Report {
    pub(super) fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Every row, in the order run.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn of<'a>(&'a self, like: &'a Row, store: &'a str) -> impl Iterator<Item = &'a Row> {
        self.rows.iter().filter(move |row| {
            row.store == store
                && (row.workload, row.value_bytes, row.threads)
                    == (like.workload, like.value_bytes, like.threads)
        })
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.rows.first() else { return writeln!(f, "nothing was run") };
        let mut stores: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !stores.contains(&row.store.as_str()) {
                stores.push(&row.store);
            }
        }
        writeln!(
            f,
            "| workload | value B | threads | store | ops/s median | min | max | p50 us | p99 us | puts/s beside | {} over it |",
            first.store
        )?;
        writeln!(f, "|---|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|")?;
        let mut shown: Vec<&Row> = Vec::new();
        for like in &self.rows {
            let same = |row: &&Row| {
                (row.workload, row.value_bytes, row.threads)
                    == (like.workload, like.value_bytes, like.threads)
            };
            if shown.iter().any(same) {
                continue;
            }
            shown.push(like);
            let ours = median(self.of(like, &first.store).map(|row| row.operations_per_s));
            for store in &stores {
                let throughput = || self.of(like, store).map(|row| row.operations_per_s);
                let middle = median(throughput());
                writeln!(
                    f,
                    "| {} | {} | {} | {store} | {middle:.0} | {:.0} | {:.0} | {:.1} | {:.1} | {:.0} | {:.2} |",
                    like.workload.name(),
                    like.value_bytes,
                    like.threads,
                    throughput().fold(f64::INFINITY, f64::min),
                    throughput().fold(0.0, f64::max),
                    median(self.of(like, store).map(|row| row.latency_p50_us)),
                    median(self.of(like, store).map(|row| row.latency_p99_us)),
                    median(self.of(like, store).map(|row| row.written_per_s)),
                    ours / middle,
                )?;
            }
        }
        Ok(())
    }
}
