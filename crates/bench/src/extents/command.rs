//! The command line of a run, and the run.

use clap::Args;
use spillway_base::clock;

use super::movers::{EXTENT_BYTES, ExtentTask, Movers, Way};
use crate::machine;
use crate::measure::{fresh_folder, progress, remove_folder};
use crate::report::{CommonArgs, Figure, Report, Row};

/// Bulk reads and writes of extents, with and without queues.
#[derive(Args, Clone, Debug)]
pub struct ExtentsArgs {
    /// Extents of 2 MiB that each subject moves in each round
    #[arg(long, default_value_t = 128)]
    pub extents: u64,
    /// Rounds, in which the subjects take turns; the report gives medians over them
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// Depths of the queues
    #[arg(long, value_delimiter = ',', default_value = "1,4,8")]
    pub depths: Vec<usize>,
    /// Checksums over each extent, instead of a compaction's work on it
    #[arg(long, default_value_t = 16)]
    pub passes: u32,
    /// Seed, folder and report
    #[command(flatten)]
    pub common: CommonArgs,
}

impl ExtentsArgs {
    /// Runs all subjects, and prints the report.
    ///
    /// # Errors
    /// Invalid arguments, or the first failure of a run, as text.
    pub fn run(&self) -> Result<(), String> {
        self.common.output.give(&self.compare()?)
    }

    pub(super) fn compare(&self) -> Result<Report, String> {
        if self.extents == 0 || self.rounds == 0 {
            return Err("a run needs an extent and a round".to_owned());
        }
        let folder = self.common.dir.join("extents");
        fresh_folder(&folder)?;
        let movers = Movers::new(&folder, self.extents, self.passes, self.common.seed)
            .map_err(|error| error.to_string())?;
        let ways = Way::all(&self.depths);
        let mut report = self.empty();
        let bar = progress((self.rounds * ways.len() * ExtentTask::ALL.len()) as u64);
        for round in 0..self.rounds {
            for task in ExtentTask::ALL {
                let mut sums = Vec::new();
                for place in 0..ways.len() {
                    // The order rotates each round, so that none is always first.
                    let way = ways[(place + round) % ways.len()];
                    bar.set_message(format!("{} {}", task.name(), way.name()));
                    let (sum, row) = self.turn(&movers, task, way)?;
                    sums.push(sum);
                    report.add(row);
                    bar.inc(1);
                }
                if sums.iter().any(|sum| *sum != sums[0]) {
                    return Err(format!("the subjects do not {} the same: {sums:x?}", task.name()));
                }
            }
        }
        bar.finish_and_clear();
        remove_folder(&folder)?;
        Ok(report)
    }

    fn turn(&self, movers: &Movers, task: ExtentTask, way: Way) -> Result<(u64, Row), String> {
        movers.drop_cache().map_err(|error| error.to_string())?;
        let (begin, cpu) = (clock::now(), machine::own_time());
        let sum = movers.run(task, way).map_err(|error| format!("{}: {error}", way.name()))?;
        let (elapsed, cpu) = (clock::now() - begin, machine::own_time() - cpu);
        let mib = (self.extents as usize * EXTENT_BYTES) as f64 / f64::from(1 << 20);
        let figures = vec![mib / elapsed.as_secs_f64(), cpu.as_secs_f64() * 1e6 / mib];
        Ok((sum, Row { case: vec![task.name().to_owned()], subject: way.name(), figures }))
    }

    fn empty(&self) -> Report {
        let figures =
            [Figure { name: "MiB/s", decimals: 0 }, Figure { name: "cpu us/MiB", decimals: 0 }];
        let mut report = Report::new(&["extents are"], &figures);
        report.set("machine", machine::describe(&self.common.dir));
        report.set(
            "run",
            format!(
                "{} extents of 2 MiB a turn, {} checksums of each for the work, {} rounds in turn, seed {}",
                self.extents, self.passes, self.rounds, self.common.seed
            ),
        );
        report
    }
}
