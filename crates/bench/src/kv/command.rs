//! The command line of a run, shared by `spillway-bench kv` and the comparison with peers.

use clap::Args;
use spillway::Mechanism;

use super::{KvPlan, Workload, compare, report};
use crate::machine;
use crate::report::CommonArgs;
use crate::store::{SpillwayStores, Stores, mechanisms};

/// Key-value workloads after RocksDB's db_bench: 16-byte keys, medians over interleaved rounds.
#[derive(Args, Clone, Debug)]
pub struct KvArgs {
    /// Workloads to run, in order [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub workloads: Vec<Workload>,
    /// Distinct keys
    #[arg(long, default_value_t = 500_000)]
    pub keys: u64,
    /// Operations of each read workload, over all threads
    #[arg(long, default_value_t = 1_000_000)]
    pub operations: u64,
    /// Operations of each durable workload, over all threads
    #[arg(long, default_value_t = 20_000)]
    pub durable_operations: u64,
    /// Bytes of each value
    #[arg(long, value_delimiter = ',', default_values_t = [10, 500])]
    pub value_bytes: Vec<usize>,
    /// Threads of each workload
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4])]
    pub threads: Vec<usize>,
    /// Times to run everything; the report gives medians over them
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Memory budget of each store, in MiB
    #[arg(long, default_value_t = 1024)]
    pub memory_mib: usize,
    /// Also run Spillway without each of these
    #[arg(long, value_parser = mechanisms(), value_delimiter = ',')]
    pub without: Vec<Mechanism>,
    /// Only stores of these names
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Seed, folder and report
    #[command(flatten)]
    pub common: CommonArgs,
}

impl KvArgs {
    /// Runs the workloads over these stores and prints the report.
    ///
    /// # Errors
    /// Invalid arguments, or the first failure of a run, as text.
    pub fn run(&self, stores: &[&dyn Stores]) -> Result<(), String> {
        if self.keys < 2 || self.rounds == 0 || self.threads.contains(&0) {
            return Err("a run needs two keys, one round and one thread at the least".to_owned());
        }
        let without = SpillwayStores::each_without(&self.without);
        let mut stores = SpillwayStores::among(&without, stores);
        stores.retain(|stores| self.only.is_empty() || self.only.contains(&stores.name()));
        let all = || Workload::ALL.to_vec();
        let plan = KvPlan {
            workloads: if self.workloads.is_empty() { all() } else { self.workloads.clone() },
            keys: self.keys,
            operations: self.operations,
            durable_operations: self.durable_operations,
            value_bytes: self.value_bytes.clone(),
            threads: self.threads.clone(),
            rounds: self.rounds,
            memory_bytes: self.memory_mib << 20,
            seed: self.common.seed,
        };
        let rows = compare(&stores, &plan, &self.common.dir)?;
        let mut report = report::empty();
        report.set("machine", machine::describe(&self.common.dir));
        report.set(
            "run",
            format!(
                "{} keys of 16 bytes, {} reads, {} durable puts, {} rounds in turn, {} MiB of memory each, seed {}; \
                 fillsync waits for each put to be durable, the other fills do not",
                plan.keys,
                plan.operations,
                plan.durable_operations,
                plan.rounds,
                self.memory_mib,
                plan.seed
            ),
        );
        for kind in &stores {
            report.set(kind.name(), kind.settings());
        }
        rows.iter().for_each(|row| report.add(row.into()));
        self.common.output.give(&report)
    }
}
