//! The memory that a row takes.

use clap::Args;
use spillway_base::rng::Rng;

use super::goals::verdict;
use super::rows::{OwnRows, StampedRows};
use super::work::Parts;
use crate::machine::{self, resident_bytes};
use crate::measure::{Permutation, fresh_folder, progress, remove_folder};
use crate::recovery::{report_and_wait, run_and_kill};
use crate::report::{CommonArgs, Figure, Report, Row};
use crate::store::{SpillwayStores, Store};

/// Memory of a row, by its parts.
#[derive(Args, Clone, Debug)]
pub struct BytesArgs {
    /// Rows of the table
    #[arg(long, default_value_t = 1_000_000)]
    pub rows: u64,
    /// Bytes of each key
    #[arg(long, default_value_t = 8)]
    pub key_bytes: usize,
    /// Bytes of each value
    #[arg(long, default_value_t = 100)]
    pub value_bytes: usize,
    /// Times to run everything, each in a process of its own; the report gives medians over them
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Memory budget, in MiB
    #[arg(long, default_value_t = 2048)]
    pub memory_mib: usize,
    /// Seed, folder and report
    #[command(flatten)]
    pub common: CommonArgs,
    /// Run a case and wait to be killed; used for the child processes
    #[arg(long, hide = true)]
    pub child: Option<String>,
}

/// The goal: memory of a row, divided by its own bytes.
const GOAL: f64 = 1.6;

/// An order of insertion.
const ORDERS: [&str; 2] = ["in order", "at random"];

impl BytesArgs {
    /// Runs each case in a process and prints the report.
    ///
    /// # Errors
    /// Invalid arguments, a wrong row, or the first failure of a run, as text.
    pub fn run(&self) -> Result<(), String> {
        if let Some(order) = &self.child {
            let (figures, store) = self.measure(order == ORDERS[1])?;
            let line = serde_json::to_string(&figures).map_err(|error| error.to_string())?;
            return report_and_wait(&line, store);
        }
        let mut report = self.empty()?;
        let bar = progress((self.rounds * ORDERS.len()) as u64);
        for _ in 0..self.rounds {
            for order in ORDERS {
                let line = run_and_kill(&["--child", order], |_| ())?;
                let found: [Vec<f64>; 2] =
                    serde_json::from_str(&line).map_err(|error| error.to_string())?;
                let cases = [format!("inserted {order}"), format!("{order}, then each updated")];
                for (case, figures) in cases.into_iter().zip(found) {
                    let subject = "spillway memory engine".to_owned();
                    report.add(Row { case: vec![case], subject, figures });
                }
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        remove_folder(&self.common.dir.join("memory-bytes"))?;
        self.note_goals(&mut report)?;
        self.common.output.give(&report)
    }

    fn row_bytes(&self) -> Result<f64, String> {
        let rows = StampedRows::new(self.key_bytes, self.value_bytes, self.common.seed)?;
        Ok(rows.row_bytes() as f64)
    }

    fn empty(&self) -> Result<Report, String> {
        if self.rows == 0 || self.rounds == 0 {
            return Err("a run needs a row and a round".to_owned());
        }
        let figure = |name, decimals| Figure { name, decimals };
        let mut report = Report::new(
            &["rows"],
            &[
                figure("charged B a row", 1),
                figure("index", 1),
                figure("array", 1),
                figure("versions", 1),
                figure("budget", 1),
                figure("resident", 1),
            ],
        );
        report.set("machine", machine::describe(&self.common.dir));
        report.set(
            "run",
            format!(
                "{} rows of {} bytes, {} rounds, each in a process of its own; bytes a row, of \
                 which the budget has all that the database uses, and resident memory is that of \
                 the process since before the opening",
                self.rows,
                self.row_bytes()?,
                self.rounds
            ),
        );
        Ok(report)
    }

    /// In a child process: the figures after the inserts and after the updates.
    pub(super) fn measure(&self, at_random: bool) -> Result<([Vec<f64>; 2], impl Store), String> {
        let rows = StampedRows::new(self.key_bytes, self.value_bytes, self.common.seed)?;
        let folder = self.common.dir.join("memory-bytes");
        fresh_folder(&folder)?;
        let mut own = OwnRows::new(self.rows, 0, 1);
        let resident_before = resident_bytes();
        let stores = SpillwayStores::in_memory_engine();
        let store = stores.open_with(&folder, stores.database_settings(self.memory_mib << 20))?;
        let mut value = Vec::new();
        let order = Permutation::new(self.rows, self.common.seed);
        for place in 0..self.rows {
            let number = if at_random { order.of(place) } else { place };
            rows.value(number, 0, &mut value);
            store.commit(&[(rows.key(number).bytes(), &value)], false)?;
        }
        let inserted = self.figures(&store, resident_before)?;
        own.check(&rows, &store, 1)?;
        let mut rng = Rng::new(self.common.seed);
        let order = Permutation::new(self.rows, rng.below(self.rows));
        for place in 0..self.rows {
            let (number, write) = own.update(order.of(place));
            rows.value(number, write, &mut value);
            store.commit(&[(rows.key(number).bytes(), &value)], false)?;
        }
        let updated = self.figures(&store, resident_before)?;
        own.check(&rows, &store, 1)?;
        Ok(([inserted, updated], store))
    }

    fn figures(
        &self,
        store: &crate::store::SpillwayStore,
        resident_before: u64,
    ) -> Result<Vec<f64>, String> {
        // The engine removes old versions once no snapshot needs them.
        store.db.flush().map_err(|error| error.to_string())?;
        let parts = Parts::of(&store.db);
        let resident = resident_bytes().saturating_sub(resident_before) as f64;
        let used = store.db.budget().used() as f64;
        let all = [parts.total(), parts.index, parts.array, parts.versions, used, resident];
        Ok(all.map(|bytes| bytes / self.rows as f64).to_vec())
    }

    fn note_goals(&self, report: &mut Report) -> Result<(), String> {
        let raw = self.row_bytes()?;
        for case in report.cases() {
            let charged = report.median(&case, "spillway memory engine", 0) / raw;
            let resident = report.median(&case, "spillway memory engine", 5) / raw;
            report.note(format!(
                "{}: charged {charged:.2} times the row's {raw} bytes, resident {resident:.2} \
                 times; goal {GOAL}: {}",
                case.join(", "),
                verdict(charged <= GOAL)
            ));
        }
        Ok(())
    }
}
