//! The command line of a run, and the run.

use clap::Args;

use super::policies::{ALL, Policy};
use super::traces::{TraceKind, each};
use crate::machine;
use crate::measure::progress;
use crate::report::{CommonArgs, Figure, Report, Row};

/// Hit rates of eviction policies, over traces.
#[derive(Args, Clone, Debug)]
pub struct EvictionArgs {
    /// The number of different blocks
    #[arg(long, default_value_t = 100_000)]
    pub blocks: u64,
    /// Percent of the blocks that fit into the cache
    #[arg(long, value_delimiter = ',', default_values_t = [10, 2])]
    pub fit_percent: Vec<u64>,
    /// Reads of a trace; hits are counted in its second half
    #[arg(long, default_value_t = 4_000_000)]
    pub reads: u64,
    /// Skew of the blocks read: 0 for uniform
    #[arg(long, value_delimiter = ',', default_values_t = [0.0, 0.8, 0.9, 0.99, 1.1, 1.2])]
    pub skew: Vec<f64>,
    /// Seed, folder and report
    #[command(flatten)]
    pub common: CommonArgs,
}

impl EvictionArgs {
    /// Runs all traces, and prints the report.
    ///
    /// # Errors
    /// Invalid arguments, as text.
    pub fn run(&self) -> Result<(), String> {
        self.common.output.give(&self.compare()?)
    }

    pub(super) fn compare(&self) -> Result<Report, String> {
        let fits = |percent: &u64| (1..=100).contains(percent) && self.blocks * percent >= 1000;
        if !self.fit_percent.iter().all(fits) || self.reads == 0 || self.skew.contains(&1.0) {
            return Err("ten blocks fit, at least, and a skew is not 1".to_owned());
        }
        let kinds = TraceKind::all(&self.skew);
        let figure = |name| Figure { name, decimals: 2 };
        let mut report = Report::new(&["fit %", "trace"], &[figure("hits %")]);
        report.set("machine", machine::describe(&self.common.dir));
        report.set(
            "run",
            format!(
                "{} reads of {} blocks; hits of those in the second half that are no scan's; seed {}",
                self.reads, self.blocks, self.common.seed
            ),
        );
        let bar = progress((self.fit_percent.len() * kinds.len()) as u64);
        for percent in &self.fit_percent {
            for kind in &kinds {
                self.trace(*percent, *kind, &mut report);
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        Ok(report)
    }

    fn trace(&self, percent: u64, kind: TraceKind, report: &mut Report) {
        let capacity = self.blocks * percent / 100;
        let mut caches: Vec<Box<dyn Policy>> =
            ALL.iter().map(|(_, make)| make(capacity, self.blocks)).collect();
        let mut hits = vec![0_u64; caches.len()];
        let (mut number, mut counted) = (0, 0_u64);
        each(kind, self.blocks, self.reads, self.common.seed, &mut |read| {
            let counts = number >= self.reads / 2 && !read.scan;
            number += 1;
            counted += u64::from(counts);
            for (cache, hits) in caches.iter_mut().zip(&mut hits) {
                *hits += u64::from(cache.read(read.block) && counts);
            }
        });
        for ((name, _), hits) in ALL.iter().zip(hits) {
            report.add(Row {
                case: vec![percent.to_string(), kind.name()],
                subject: (*name).to_owned(),
                figures: vec![hits as f64 * 100.0 / counted as f64],
            });
        }
    }
}
