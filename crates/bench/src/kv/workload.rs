//! The workloads, and the run that compares stores.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use clap::ValueEnum;
use hdrhistogram::Histogram;
use spillway_base::checksum::crc32c_append;
use spillway_base::clock;
use spillway_base::rng::Rng;

use crate::machine::Cpu;
use crate::measure::{
    KEY_BYTES, Permutation, Values, fresh_folder, histogram, key, progress, remove_folder,
};
use crate::store::{Store, Stores};

/// One of db_bench's shapes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
#[value(rename_all = "lower")]
pub enum Workload {
    /// Puts in key order, without waiting for durability.
    FillSeq,
    /// Puts in random order, without waiting for durability.
    FillRandom,
    /// Puts in random order, each durable before the next of its thread.
    FillSync,
    /// Gets of random keys that exist.
    ReadRandom,
    /// Gets of keys that do not exist, each directly after one that does; all rows are in data
    /// files.
    ReadMissing,
    /// Seeks to random keys, reading ten pairs from each.
    SeekRandom,
    /// Gets of random keys while one more thread puts without pause.
    ReadWhileWriting,
}

impl Workload {
    /// Every workload, in the order a run takes them.
    pub const ALL: [Workload; 7] = [
        Workload::FillSeq,
        Workload::FillRandom,
        Workload::FillSync,
        Workload::ReadRandom,
        Workload::ReadMissing,
        Workload::SeekRandom,
        Workload::ReadWhileWriting,
    ];

    /// The name in db_bench's spelling.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Workload::FillSeq => "fillseq",
            Workload::FillRandom => "fillrandom",
            Workload::FillSync => "fillsync",
            Workload::ReadRandom => "readrandom",
            Workload::ReadMissing => "readmissing",
            Workload::SeekRandom => "seekrandom",
            Workload::ReadWhileWriting => "readwhilewriting",
        }
    }

    fn reads(self) -> bool {
        !matches!(self, Workload::FillSeq | Workload::FillRandom | Workload::FillSync)
    }
}

/// The parameters of a run.
#[derive(Clone, Debug)]
pub struct KvPlan {
    /// The workloads, in order.
    pub workloads: Vec<Workload>,
    /// Distinct keys.
    pub keys: u64,
    /// Operations of a read workload, over all threads.
    pub operations: u64,
    /// Operations of a durable workload, over all threads.
    pub durable_operations: u64,
    /// Bytes of each value.
    pub value_bytes: Vec<usize>,
    /// Threads of each workload.
    pub threads: Vec<usize>,
    /// Times that everything is run; the report gives medians over them.
    pub rounds: usize,
    /// The memory budget of each store, in bytes.
    pub memory_bytes: usize,
    /// Seed of all random choices.
    pub seed: u64,
}

const SEEK_PAIRS: usize = 10;

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
    /// Puts during the reads of `readwhilewriting`; zero for the others.
    pub written_per_s: f64,
    /// The checksum of everything read; equal for equal seeds.
    pub checksum: u64,
}

/// Runs the plan over every kind of store, interleaved, in folders under `dir`.
///
/// # Errors
/// The first failure of a store, or two stores that read different data, as text.
pub fn compare(stores: &[&dyn Stores], plan: &KvPlan, dir: &Path) -> Result<Vec<KvRow>, String> {
    let mut rows = Vec::new();
    let cells = plan.value_bytes.len() * plan.threads.len() * plan.workloads.len();
    let bar = progress((plan.rounds * cells * stores.len()) as u64);
    for round in 0..plan.rounds {
        for &value_bytes in &plan.value_bytes {
            for &threads in &plan.threads {
                for &workload in &plan.workloads {
                    let cell = WorkloadCell::new(plan, workload, value_bytes, threads);
                    let mut checksum = None;
                    for kind in 0..stores.len() {
                        // The order rotates each round, so that none is always first.
                        let kind = stores[(kind + round) % stores.len()];
                        bar.set_message(format!("{} {}", kind.name(), workload.name()));
                        let row = cell.run(kind, dir)?;
                        if *checksum.get_or_insert(row.checksum) != row.checksum {
                            return Err(format!(
                                "{} read something else under {}",
                                kind.name(),
                                workload.name()
                            ));
                        }
                        rows.push(row);
                        bar.inc(1);
                    }
                }
            }
        }
    }
    bar.finish_and_clear();
    Ok(rows)
}

struct WorkloadCell<'a> {
    plan: &'a KvPlan,
    workload: Workload,
    value_bytes: usize,
    threads: usize,
    /// The keys in a random order.
    order: Permutation,
    values: Values,
}

struct Tally {
    latency_ns: Histogram<u64>,
    checksum: u64,
}

impl<'a> WorkloadCell<'a> {
    fn new(
        plan: &'a KvPlan,
        workload: Workload,
        value_bytes: usize,
        threads: usize,
    ) -> WorkloadCell<'a> {
        let order = Permutation::new(plan.keys, plan.seed);
        let values = Values::new(plan.seed, value_bytes);
        WorkloadCell { plan, workload, value_bytes, threads, order, values }
    }

    fn run(&self, kind: &dyn Stores, dir: &Path) -> Result<KvRow, String> {
        let folder = dir.join(format!("{}-{}", kind.name(), self.workload.name()));
        fresh_folder(&folder)?;
        let store = kind.open(&folder, self.plan.memory_bytes)?;
        if self.workload.reads() {
            self.fill(&*store)?;
        }
        if self.workload == Workload::ReadMissing {
            store.compact()?;
        }
        let before = Cpu::own();
        let (elapsed, tally, written) = self.drive(&*store)?;
        let cpu = Cpu::own().since(before).total();
        drop(store);
        remove_folder(&folder)?;
        Ok(KvRow {
            store: kind.name(),
            workload: self.workload,
            value_bytes: self.value_bytes,
            threads: self.threads,
            operations_per_s: tally.latency_ns.len() as f64 / elapsed.as_secs_f64(),
            latency_p50_us: tally.latency_ns.value_at_quantile(0.50) as f64 / 1e3,
            latency_p99_us: tally.latency_ns.value_at_quantile(0.99) as f64 / 1e3,
            cpu_us: cpu.as_secs_f64() * 1e6 / tally.latency_ns.len().max(1) as f64,
            written_per_s: written as f64 / elapsed.as_secs_f64(),
            checksum: tally.checksum,
        })
    }

    fn fill(&self, store: &dyn Store) -> Result<(), String> {
        for index in 0..self.plan.keys {
            self.put(store, self.order.of(index), false)?;
        }
        Ok(())
    }

    /// Runs all threads to their end; the workload's time is that of the slowest. Also returns the
    /// number of puts by another thread meanwhile.
    fn drive(&self, store: &dyn Store) -> Result<(Duration, Tally, u64), String> {
        let done = AtomicBool::new(false);
        let background = AtomicU64::new(0);
        let start = clock::now();
        let tallies = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.threads)
                .map(|thread| scope.spawn(move || self.work(store, thread as u64)))
                .collect();
            let writer = (self.workload == Workload::ReadWhileWriting).then(|| {
                let (done, background) = (&done, &background);
                scope.spawn(move || self.write_until(store, done, background))
            });
            let tallies: Vec<_> = workers
                .into_iter()
                .map(|worker| worker.join().unwrap_or_else(|_| Err("a worker panicked".into())))
                .collect();
            done.store(true, Ordering::Relaxed);
            let written = writer
                .map_or(Ok(()), |w| w.join().unwrap_or_else(|_| Err("the writer panicked".into())));
            written.and_then(|()| tallies.into_iter().collect::<Result<Vec<_>, _>>())
        })?;
        let elapsed = clock::now() - start;
        let mut whole = Tally { latency_ns: histogram(), checksum: 0 };
        for tally in tallies {
            whole.latency_ns += &tally.latency_ns;
            whole.checksum = whole.checksum.wrapping_add(tally.checksum);
        }
        Ok((elapsed, whole, background.into_inner()))
    }

    fn write_until(
        &self,
        store: &dyn Store,
        done: &AtomicBool,
        written: &AtomicU64,
    ) -> Result<(), String> {
        let mut rng = Rng::new(self.plan.seed ^ 0xBAC6);
        while !done.load(Ordering::Relaxed) {
            self.put(store, rng.below(self.plan.keys), false)?;
            written.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn work(&self, store: &dyn Store, thread: u64) -> Result<Tally, String> {
        let threads = self.threads as u64;
        let total = match self.workload {
            Workload::FillSeq | Workload::FillRandom => self.plan.keys,
            Workload::FillSync => self.plan.durable_operations,
            _ => self.plan.operations,
        };
        let mut rng = Rng::new(self.plan.seed.wrapping_add(thread));
        let mut tally = Tally { latency_ns: histogram(), checksum: 0 };
        let mut value = Vec::new();
        for index in (thread..total).step_by(self.threads) {
            let number = match self.workload {
                Workload::FillSeq => index / threads + thread * (total / threads),
                Workload::FillRandom => self.order.of(index),
                _ => rng.below(self.plan.keys),
            };
            let start = clock::now();
            match self.workload {
                Workload::FillSeq | Workload::FillRandom | Workload::FillSync => {
                    self.put(store, number, self.workload == Workload::FillSync)?;
                }
                Workload::ReadRandom | Workload::ReadWhileWriting => {
                    let key = key(number);
                    if !store.get(&key, &mut value)? {
                        return Err(format!("key {number} is missing"));
                    }
                    tally.checksum = fold(tally.checksum, &key, &value);
                }
                Workload::ReadMissing => {
                    if store.get(&behind(number), &mut value)? {
                        return Err(format!("there is a key behind {number}"));
                    }
                    tally.checksum = tally.checksum.wrapping_add(number);
                }
                Workload::SeekRandom => {
                    let mut checksum = 0;
                    store.seek(&key(number), SEEK_PAIRS, &mut |key, value| {
                        checksum = fold(checksum, key, value);
                    })?;
                    tally.checksum = tally.checksum.wrapping_add(checksum);
                }
            }
            tally.latency_ns.saturating_record((clock::now() - start).as_nanos() as u64);
        }
        Ok(tally)
    }

    fn put(&self, store: &dyn Store, number: u64, durable: bool) -> Result<(), String> {
        store.commit(&[(&key(number), self.values.of(number))], durable)
    }
}

/// A key between that of a number and the next one's.
fn behind(number: u64) -> [u8; KEY_BYTES + 1] {
    let mut behind = [0; KEY_BYTES + 1];
    behind[..KEY_BYTES].copy_from_slice(&key(number));
    behind
}

fn fold(checksum: u64, key: &[u8], value: &[u8]) -> u64 {
    checksum.wrapping_add(u64::from(crc32c_append(crc32c_append(0, key), value)))
}
