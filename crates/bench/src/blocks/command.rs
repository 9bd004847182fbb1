//! The command line of a run, and the run.

use std::hint::black_box;

use clap::Args;
use spillway_base::rng::Rng;

use super::heads::compared;
use super::rows::KeyKind;
use super::subject::{AnyBlocks, BlockFormat, Coded, OwnRow, cuts};
use crate::machine;
use crate::measure::{Values, progress};
use crate::report::{Figure, OutputArgs, Report, Row};

/// Compares data blocks with blocks of prefixes and restarts.
#[derive(Args, Clone, Debug)]
pub struct BlocksArgs {
    /// Kinds of keys [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub keys: Vec<KeyKind>,
    /// Bytes of each value
    #[arg(long, value_delimiter = ',', default_values_t = [8, 100, 500])]
    pub value_bytes: Vec<usize>,
    /// Near blocks: as many as fit into a core's own cache
    #[arg(long, default_value_t = 24)]
    pub near: usize,
    /// Far blocks: more than caches hold
    #[arg(long, default_value_t = 4096)]
    pub far: usize,
    /// Seeks of a turn
    #[arg(long, default_value_t = 100_000)]
    pub seeks: usize,
    /// Rounds, in which the subjects take turns; the report gives medians over them
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// Only subjects whose names begin with this
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Seed of all random choices
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
    /// Files for the report
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Bytes in memory of a full block.
const BLOCK_BYTES: usize = 16 << 10;
/// Rows of one commit.
const COMMIT_ROWS: usize = 100;

/// The rows of one kind in the format of one subject.
struct Laid {
    subject: BlockFormat,
    frames: [Vec<Vec<u8>>; Coded::ALL.len()],
    near: AnyBlocks,
    far: AnyBlocks,
}

/// Rows, and the number of rows in each block.
struct BlockCase {
    keys: KeyKind,
    value_bytes: usize,
    rows: Vec<OwnRow>,
    cuts: Vec<usize>,
}

impl BlockCase {
    fn new(keys: KeyKind, value_bytes: usize, blocks: usize, seed: u64) -> BlockCase {
        let values = Values::new(seed, value_bytes);
        let key_bytes = keys.keys(1, seed)[0].len();
        let count = blocks * BLOCK_BYTES / (key_bytes + value_bytes);
        let rows: Vec<OwnRow> = keys
            .keys(count, seed)
            .into_iter()
            .enumerate()
            .map(|(number, key)| {
                let csn = (1_000_000 + number / COMMIT_ROWS) as u64;
                OwnRow { key, csn, value: values.of(number as u64).to_vec() }
            })
            .collect();
        let cuts = cuts(&rows);
        BlockCase { keys, value_bytes, rows, cuts }
    }

    /// Random keys of the first `blocks` blocks, with their blocks.
    fn wanted(&self, blocks: usize, count: usize, rng: &mut Rng) -> Vec<(usize, &[u8])> {
        let mut begins = Vec::with_capacity(blocks);
        let mut begin = 0;
        for cut in &self.cuts[..blocks.min(self.cuts.len())] {
            begins.push(begin);
            begin += cut;
        }
        let want = |_| {
            let block = rng.below(begins.len() as u64) as usize;
            let row = begins[block] + rng.below(self.cuts[block] as u64) as usize;
            (block, &self.rows[row].key[..])
        };
        (0..count).map(want).collect()
    }

    fn row(&self, task: &str, subject: &str, figures: [f64; 2]) -> Row {
        let case = vec![task.to_owned(), self.keys.name().to_owned(), self.value_bytes.to_string()];
        Row { case, subject: subject.to_owned(), figures: figures.to_vec() }
    }

    /// A row of the report about the bytes of all rows.
    fn bytes(&self, task: &str, subject: &str, bytes: usize) -> Row {
        let each = bytes as f64 / self.rows.len() as f64;
        self.row(task, subject, [1024.0 / each, each])
    }
}

impl BlocksArgs {
    /// Runs all cases, and returns the report.
    ///
    /// # Errors
    /// Invalid arguments, or a block that is read wrongly, as text.
    pub fn run(&self) -> Result<(), String> {
        self.output.give(&self.compare()?)
    }

    pub(super) fn compare(&self) -> Result<Report, String> {
        let counts = [self.rounds, self.near, self.seeks];
        if counts.contains(&0) || self.far < self.near {
            return Err("a run needs a round, seeks, and no more near blocks than far".to_owned());
        }
        let kinds = if self.keys.is_empty() { KeyKind::ALL.to_vec() } else { self.keys.clone() };
        let named = |subject: &BlockFormat| {
            let name = subject.name();
            self.only.is_empty() || self.only.iter().any(|only| name.starts_with(only.as_str()))
        };
        let subjects: Vec<BlockFormat> = BlockFormat::ALL.into_iter().filter(named).collect();
        let figure = |name, decimals| Figure { name, decimals };
        let mut report = Report::new(
            &["task", "keys", "value B"],
            &[figure("M/s, rows/KiB", 3), figure("ns, B/row", 2)],
        );
        let load = machine::load_average();
        let bar = progress((kinds.len() * self.value_bytes.len() * self.rounds) as u64);
        for keys in kinds {
            for value_bytes in &self.value_bytes {
                let case = BlockCase::new(keys, *value_bytes, self.far, self.seed);
                report.note(compared_note(&case));
                let laid = subjects.iter().map(|subject| self.lay(&case, *subject, &mut report));
                let laid = laid.collect::<Result<Vec<Laid>, String>>()?;
                for round in 0..self.rounds {
                    self.round(&case, &laid, round, &mut report)?;
                    bar.inc(1);
                }
            }
        }
        bar.finish_and_clear();
        report.set("machine", machine::describe(std::path::Path::new(".")));
        report.set("load average", format!("{load} before, {} after", machine::load_average()));
        report.set(
            "run",
            format!(
                "{} blocks near, {} far, {} seeks a turn, processor time of one thread; {} rounds; seed {}",
                self.near, self.far, self.seeks, self.rounds, self.seed
            ),
        );
        Ok(report)
    }

    /// Builds the blocks of a subject, and reports their sizes.
    fn lay(
        &self,
        case: &BlockCase,
        subject: BlockFormat,
        report: &mut Report,
    ) -> Result<Laid, String> {
        let frames = Coded::ALL.map(|coded| subject.frames(&case.rows, &case.cuts, coded));
        let mut opener = subject.opener(&case.rows);
        let stored = &frames[0];
        let near = opener.open(&stored[..self.near.min(stored.len())])?;
        let far = opener.open(stored)?;
        for (coded, frames) in Coded::ALL.iter().zip(&frames) {
            let bytes = frames.iter().map(Vec::len).sum();
            report.add(case.bytes(coded.name(), subject.name(), bytes));
        }
        report.add(case.bytes("memory", subject.name(), far.memory_bytes()));
        Ok(Laid { subject, frames, near, far })
    }

    /// Runs each task on each subject, in rotating order.
    fn round(
        &self,
        case: &BlockCase,
        laid: &[Laid],
        round: usize,
        report: &mut Report,
    ) -> Result<(), String> {
        let mut rng = Rng::new(self.seed + round as u64);
        let far = case.cuts.len();
        let near = self.near.min(far);
        let wanted_near = case.wanted(near, self.seeks, &mut rng);
        let wanted_far = case.wanted(far, self.seeks, &mut rng);
        let rows_near: usize = case.cuts[..near].iter().sum();
        // Short turns are repeated, so that the clock's resolution does not matter.
        let times = (case.rows.len() / rows_near / 8).max(1);
        let again = |walk: &dyn Fn() -> u64| {
            (0..times).fold(0, |sum: u64, _| sum.rotate_left(1) ^ black_box(walk()))
        };
        let tasks: [(&str, usize, &dyn Fn(&Laid) -> u64); 6] = [
            ("seek near", self.seeks, &|laid| laid.near.seek(&wanted_near)),
            ("seek far", self.seeks, &|laid| laid.far.seek(&wanted_far)),
            ("forward near", times * rows_near, &|laid| again(&|| laid.near.forward())),
            ("forward far", case.rows.len(), &|laid| laid.far.forward()),
            ("backward near", times * rows_near, &|laid| again(&|| laid.near.backward())),
            ("backward far", case.rows.len(), &|laid| laid.far.backward()),
        ];
        for (task, count, work) in tasks {
            let mut expected = None;
            for place in 0..laid.len() {
                let laid = &laid[(place + round) % laid.len()];
                // Runs the work once before, so that each subject finds the caches as its own work
                // leaves them.
                let sum = work(laid);
                let ns = timed(count, || black_box(work(laid)));
                if *expected.get_or_insert(sum) != sum {
                    let (name, keys) = (laid.subject.name(), case.keys.name());
                    return Err(format!("{name} read something else under {task} of {keys}"));
                }
                report.add(case.row(task, laid.subject.name(), [1e3 / ns, ns]));
            }
        }
        for (at, coded) in Coded::ALL.iter().enumerate() {
            for place in 0..laid.len() {
                let laid = &laid[(place + round) % laid.len()];
                let mut opener = laid.subject.opener(&case.rows);
                let few = &laid.frames[at][..near];
                // As in a full cache: each block takes the place of one that was evicted.
                let mut blocks = opener.open(few)?;
                let times = (self.seeks / 100 / near).max(1);
                let mut outcome = Ok(());
                let ns = timed(times * near, || {
                    for _ in 0..times {
                        match opener.open(few) {
                            Ok(others) => blocks = black_box(others),
                            Err(error) => outcome = Err(error),
                        }
                    }
                });
                drop(blocks);
                outcome?;
                let task = format!("open {}", coded.name());
                report.add(case.row(&task, laid.subject.name(), [1e3 / ns, ns]));
            }
        }
        Ok(())
    }
}

/// Describes how many whole keys a search compares.
fn compared_note(case: &BlockCase) -> String {
    let (mut rest, mut counts) = (&case.rows[..], [0, 0]);
    for cut in &case.cuts[..case.cuts.len().min(256)] {
        let (block, behind) = rest.split_at(*cut);
        rest = behind;
        let keys: Vec<&[u8]> = block.iter().map(|row| &row.key[..]).collect();
        counts[0] += compared(&keys, 4);
        counts[1] += compared(&keys, 8);
    }
    let searched = (case.rows.len() - rest.len()).max(1) as f64;
    let [narrow, wide] = counts.map(|count| count as f64 / searched);
    format!(
        "{}, values of {} bytes: a search compares {narrow:.2} keys with heads of 32 bits, {wide:.2} with 64; {:.1} rows a block",
        case.keys.name(),
        case.value_bytes,
        case.rows.len() as f64 / case.cuts.len().max(1) as f64
    )
}

/// Nanoseconds of processor time for each of `count` operations.
fn timed<T>(count: usize, work: impl FnOnce() -> T) -> f64 {
    let before = machine::own_time();
    drop(black_box(work()));
    let took = machine::own_time() - before;
    (took.as_secs_f64() * 1e9).max(1.0) / count.max(1) as f64
}
