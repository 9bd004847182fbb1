//! The command line of a run, and the run.

use std::path::Path;

use clap::Args;
use spillway_base::clock;
use spillway_base::rng::Rng;

use super::groups::Runs;
use super::{CompactionWork, RunsStores};
use crate::machine;
use crate::measure::{Values, fresh_folder, key, progress, remove_folder};
use crate::report::{CommonArgs, Figure, Report, Row};

/// One compaction of an upper run of keys into a lower one, after figure 16 of the X-Engine paper.
#[derive(Args, Clone, Debug)]
pub struct CompactionArgs {
    /// Rows of the upper run
    #[arg(long, default_value_t = 5_000_000)]
    pub upper: u64,
    /// Rows of the lower run
    #[arg(long, default_value_t = 50_000_000)]
    pub lower: u64,
    /// Percent of the upper run's keys that the lower one does not have
    #[arg(long, value_delimiter = ',', default_values_t = [70, 80, 90, 99])]
    pub distinct: Vec<u64>,
    /// Consecutive keys of a group; groups lie anywhere. With 1 all blocks interleave, and none can
    /// be reused
    #[arg(long, value_delimiter = ',', default_values_t = [1, 100, 10_000])]
    pub group: Vec<u64>,
    /// Bytes of each value
    #[arg(long, default_value_t = 10)]
    pub value_bytes: usize,
    /// Rows to get by their keys afterwards; all rows are compared
    #[arg(long, default_value_t = 10_000)]
    pub gets: u64,
    /// Times to run everything; the report gives medians over them
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Compact 20,000 into 200,000 rows once, to check that it works
    #[arg(long)]
    pub quick: bool,
    /// Only stores of these names
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Seed, folder and report
    #[command(flatten)]
    pub common: CommonArgs,
}

/// The results of one compaction.
struct Compacted {
    seconds: f64,
    cpu_seconds: f64,
    work: CompactionWork,
}

impl CompactionArgs {
    /// Runs the stores and prints the report.
    ///
    /// # Errors
    /// Invalid arguments, or the first failure of a run, as text.
    pub fn run(mut self, stores: &[&dyn RunsStores]) -> Result<(), String> {
        if self.quick {
            (self.upper, self.lower, self.rounds) = (20_000, 200_000, 1);
        }
        let report = self.measure(stores)?;
        self.common.output.give(&report)
    }

    pub(super) fn measure(&self, stores: &[&dyn RunsStores]) -> Result<Report, String> {
        let wanted = |name: &str| self.only.is_empty() || self.only.iter().any(|only| only == name);
        let stores: Vec<_> = stores.iter().filter(|stores| wanted(&stores.name())).collect();
        if stores.is_empty() || self.rounds == 0 {
            return Err("a run needs a store and a round".to_owned());
        }
        let cases = self.cases()?;
        let mut report = empty();
        let load = machine::load_average();
        let bar = progress((self.rounds * cases.len() * stores.len()) as u64);
        for round in 0..self.rounds {
            for (distinct, runs) in &cases {
                for place in 0..stores.len() {
                    // The order rotates each round, so that none is always first.
                    let kind = stores[(place + round) % stores.len()];
                    let name = kind.name();
                    bar.set_message(format!("{name}, {distinct} %, groups of {}", runs.keys));
                    let compacted = self.once(*kind, runs);
                    let compacted = compacted.map_err(|error| format!("{name}: {error}"))?;
                    report.add(row(*distinct, runs, name, &compacted));
                    bar.inc(1);
                }
            }
        }
        bar.finish_and_clear();
        report.set("machine", machine::describe(&self.common.dir));
        report.set("load average", format!("{load} before, {} after", machine::load_average()));
        report.set("run", self.describe());
        stores.iter().for_each(|stores| report.set(stores.name(), stores.settings()));
        if self.group.contains(&1) {
            report.note(
                "In groups of 1 every key lies by itself: all blocks of both runs interleave, and no store can leave any alone."
                    .to_owned(),
            );
        }
        Ok(report)
    }

    /// The cases to run: the share of new keys, and the runs.
    fn cases(&self) -> Result<Vec<(u64, Runs)>, String> {
        let mut cases = Vec::new();
        for &keys in &self.group {
            for &distinct in &self.distinct {
                let sane = keys > 0 && distinct <= 100;
                let rows = (self.upper, self.lower);
                let runs = sane.then(|| Runs::new(rows, keys, distinct, self.common.seed));
                let error = "each run needs a group, of at least a key, and the upper one no more of them again than there are";
                cases.push((distinct, runs.flatten().ok_or(error)?));
            }
        }
        Ok(cases)
    }

    fn describe(&self) -> String {
        format!(
            "{} rows into {}, of 16 + {} bytes, {} rounds in turn, seed {}; the lower run in the bottom level, the upper one \
             flushed above it; a compaction ends when its files are durable; nothing is compressed",
            self.upper, self.lower, self.value_bytes, self.rounds, self.common.seed
        )
    }

    fn once(&self, kind: &dyn RunsStores, runs: &Runs) -> Result<Compacted, String> {
        let folder = self.common.dir.join(format!("compaction-{}", kind.name()));
        fresh_folder(&folder)?;
        let compacted = self.compact(kind, runs, &folder);
        remove_folder(&folder)?;
        compacted
    }

    fn compact(
        &self,
        kind: &dyn RunsStores,
        runs: &Runs,
        folder: &Path,
    ) -> Result<Compacted, String> {
        let values = Values::new(self.common.seed, self.value_bytes);
        let value = |number: u64, upper: bool| values.of(number.wrapping_mul(2) + u64::from(upper));
        let mut store = kind.open(folder, runs.upper_rows())?;
        store.lower(&|put| {
            let mut rows = runs.iter().filter(|row| row.lower);
            rows.try_for_each(|row| put(&key(row.number), value(row.number, false)))
        })?;
        store.upper(&|put| {
            let mut rows = runs.iter().filter(|row| row.upper);
            rows.try_for_each(|row| put(&key(row.number), value(row.number, true)))
        })?;
        let (work, cpu, begin) = (store.work(), machine::own_time(), clock::now());
        store.compact()?;
        let compacted = Compacted {
            seconds: (clock::now() - begin).as_secs_f64(),
            cpu_seconds: (machine::own_time() - cpu).as_secs_f64(),
            work: store.work().since(work),
        };
        let mut expected = runs.iter();
        store.scan(&mut |found, found_value| match expected.next() {
            Some(row)
                if *found == key(row.number) && found_value == value(row.number, row.upper) =>
            {
                Ok(())
            }
            row => Err(format!("where {row:?} should be there is {found:?}: {found_value:?}")),
        })?;
        if let Some(row) = expected.next() {
            return Err(format!("{row:?} and what follows is gone"));
        }
        let mut rng = Rng::new(self.common.seed);
        let mut asked: Vec<_> =
            runs.iter().filter(|_| rng.chance(self.gets, runs.rows())).collect();
        (1..asked.len()).for_each(|at| asked.swap(at, rng.below(at as u64 + 1) as usize));
        let mut found = Vec::new();
        for row in asked {
            if !store.get(&key(row.number), &mut found)? || found != value(row.number, row.upper) {
                return Err(format!("a get of {row:?} read {found:?}"));
            }
        }
        Ok(compacted)
    }
}

fn empty() -> Report {
    let figure = |name, decimals| Figure { name, decimals };
    Report::new(
        &["group", "distinct %"],
        &[
            figure("records/s", 0),
            figure("seconds", 2),
            figure("cpu s", 2),
            figure("read MiB", 1),
            figure("written MiB", 1),
            figure("relinked bytes %", 1),
            figure("carried bytes %", 1),
            figure("merged bytes %", 1),
            figure("relinked slices", 0),
            figure("carried blocks", 0),
            figure("merged blocks", 0),
        ],
    )
}

fn row(distinct: u64, runs: &Runs, subject: String, compacted: &Compacted) -> Row {
    let mib = |bytes: f64| bytes / f64::from(1 << 20);
    let work = &compacted.work;
    let of = |what: fn(&super::Reuse) -> f64| work.reuse.as_ref().map_or(f64::NAN, what);
    Row {
        case: vec![runs.keys.to_string(), distinct.to_string()],
        subject,
        figures: vec![
            (runs.lower_rows() + runs.upper_rows()) as f64 / compacted.seconds,
            compacted.seconds,
            compacted.cpu_seconds,
            mib(work.read_bytes),
            mib(work.written_bytes),
            of(|reuse| 100.0 * reuse.relinked_bytes / reuse.bytes()),
            of(|reuse| 100.0 * reuse.carried_bytes / reuse.bytes()),
            of(|reuse| 100.0 * reuse.merged_bytes / reuse.bytes()),
            of(|reuse| reuse.relinked_slices),
            of(|reuse| reuse.carried_blocks),
            of(|reuse| reuse.merged_blocks),
        ],
    }
}
