//! The command line of a run, and the run.

use std::hint::black_box;
use std::time::Duration;

use clap::Args;
use spillway_base::rng::Rng;
use spillway_tiered::filters::{FilterKind, build, hash, may_contain};

use crate::machine;
use crate::measure::{key, progress};
use crate::report::{CommonArgs, Figure, Report, Row};

/// Sizes, false positives and times of filters.
#[derive(Args, Clone, Debug)]
pub struct FiltersArgs {
    /// Keys of each filter: of a block with 500 B, 100 B and 10 B values, and of an extent
    #[arg(long, value_delimiter = ',', default_values_t = [30, 130, 520, 60_000])]
    pub keys: Vec<u64>,
    /// Entries of an index with the same value
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10])]
    pub together: Vec<u64>,
    /// Keys of all filters of a case
    #[arg(long, default_value_t = 1_000_000)]
    pub all: u64,
    /// Rounds, in which the kinds take turns; the report gives medians over them
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// Seed, folder and report
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Entries of a block of an index.
const INDEX_ENTRIES: u64 = 520;

/// The keys of a filter, and the keys that are looked up.
#[derive(Clone, Copy)]
enum FilterCase {
    Keys(u64),
    /// This many entries have the same value, which is looked up.
    Index(u64),
}

impl FilterCase {
    fn name(self) -> String {
        match self {
            FilterCase::Keys(keys) => format!("{keys} keys"),
            FilterCase::Index(together) => format!("index, {together} rows a value"),
        }
    }

    /// The number of keys of a filter.
    fn entries(self) -> u64 {
        match self {
            FilterCase::Keys(keys) => keys,
            FilterCase::Index(_) => INDEX_ENTRIES,
        }
    }

    /// The hashes from which the filter of this number is built: those of its keys, and for an
    /// index also those of its values.
    fn hashes(self, filter: u64) -> Vec<u64> {
        let entries = filter * self.entries()..(filter + 1) * self.entries();
        match self {
            FilterCase::Keys(_) => entries.map(|number| hash(&key(2 * number))).collect(),
            FilterCase::Index(together) => {
                let values = entries.clone().step_by(together as usize);
                let values = values.map(|number| hash(&key(2 * (number / together))));
                let whole = entries
                    .map(|number| hash(&[key(2 * (number / together)), key(number)].concat()));
                values.chain(whole).collect()
            }
        }
    }

    /// The hashes to look up in a filter: the first of each pair exists, the other does not.
    fn asked(self, filter: u64, rng: &mut Rng) -> [u64; 2] {
        let number = filter * self.entries() + rng.below(self.entries());
        let number = match self {
            FilterCase::Keys(_) => number,
            FilterCase::Index(together) => number / together,
        };
        [hash(&key(2 * number)), hash(&key(2 * number + 1))]
    }
}

impl FiltersArgs {
    /// Runs all cases, and prints the report.
    ///
    /// # Errors
    /// Invalid arguments, or a filter that misses a key, as text.
    pub fn run(&self) -> Result<(), String> {
        self.common.output.give(&self.compare()?)
    }

    pub(super) fn compare(&self) -> Result<Report, String> {
        let largest = self.keys.iter().copied().chain([INDEX_ENTRIES]).max();
        let fits = largest.is_some_and(|largest| largest <= self.all);
        if self.rounds == 0 || !fits || self.keys.contains(&0) || self.together.contains(&0) {
            return Err("a run needs a round, and keys for a filter".to_owned());
        }
        let figure = |name, decimals| Figure { name, decimals };
        let figures = [
            figure("absent M/s", 1),
            figure("absent ns", 1),
            figure("present ns", 1),
            figure("build ns/key", 1),
            figure("bits/key", 2),
            figure("passed %", 3),
        ];
        let mut report = Report::new(&["filter of"], &figures);
        report.set("machine", machine::describe(&self.common.dir));
        report.set(
            "run",
            format!(
                "{} keys in filters, as many asked for, processor time of one thread; {} rounds; seed {}",
                self.all, self.rounds, self.common.seed
            ),
        );
        let keys = self.keys.iter().map(|keys| FilterCase::Keys(*keys));
        let cases: Vec<FilterCase> =
            keys.chain(self.together.iter().map(|together| FilterCase::Index(*together))).collect();
        let bar = progress((self.rounds * cases.len()) as u64);
        for round in 0..self.rounds {
            for case in &cases {
                for place in 0..FilterKind::ALL.len() {
                    let kind = FilterKind::ALL[(place + round) % FilterKind::ALL.len()];
                    report.add(self.turn(*case, kind, round as u64)?);
                }
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        Ok(report)
    }

    fn turn(&self, case: FilterCase, kind: FilterKind, round: u64) -> Result<Row, String> {
        let count = self.all / case.entries();
        let hashes: Vec<Vec<u64>> = (0..count).map(|filter| case.hashes(filter)).collect();
        let (filters, building) =
            timed(|| hashes.iter().map(|hashes| build(kind, hashes)).collect::<Vec<_>>());
        let mut rng = Rng::new(self.common.seed + round);
        // One filter after another, so that the lookups are measured, and not the location of
        // filters in memory.
        let asked: Vec<(usize, [u64; 2])> = (0..self.all)
            .map(|number| {
                let filter = number * count / self.all;
                (filter as usize, case.asked(filter, &mut rng))
            })
            .collect();
        let passed = |of: usize| {
            timed(|| {
                let passes = |(filter, pair): &&(usize, [u64; 2])| {
                    may_contain(black_box(&filters[*filter]), pair[of])
                };
                asked.iter().filter(passes).count()
            })
        };
        let ((found, present), (wrong, absent)) = (passed(0), passed(1));
        if found != asked.len() {
            return Err(format!(
                "{kind}, {}: {} keys are missed",
                case.name(),
                asked.len() - found
            ));
        }
        let keys = (count * case.entries()) as f64;
        let bytes: usize = filters.iter().map(Vec::len).sum();
        let ns = |time: Duration| (time.as_secs_f64() * 1e9).max(1.0) / asked.len() as f64;
        let figures = vec![
            1e3 / ns(absent),
            ns(absent),
            ns(present),
            building.as_secs_f64() * 1e9 / keys,
            bytes as f64 * 8.0 / keys,
            wrong as f64 * 100.0 / asked.len() as f64,
        ];
        let subject = match case {
            FilterCase::Keys(_) => kind.to_string(),
            FilterCase::Index(_) => format!("{kind} with prefixes"),
        };
        Ok(Row { case: vec![case.name()], subject, figures })
    }
}

/// The result of the work, and its processor time.
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let before = machine::own_time();
    let outcome = work();
    (outcome, machine::own_time() - before)
}
