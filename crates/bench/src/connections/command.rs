//! The command line of a run, and the run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;

use super::cell::ConnectionsResults;
use super::client::Client;
use super::turns::{Figures, TurnsArgs};
use crate::machine;
use crate::measure::progress;
use crate::report::{Report, Row};

/// The figures of the report.
const FIGURES: Figures = Figures {
    rate: "commits/s",
    quantiles: &[("p50 ms", 0.5), ("p95 ms", 0.95), ("p99 ms", 0.99)],
    ms_decimals: 2,
    us_decimals: 1,
};

/// Many connections, each with a durable commit in flight.
#[derive(Args, Clone, Debug)]
pub struct ConnectionsArgs {
    /// Connections
    #[arg(long, value_delimiter = ',', default_values_t = [64, 2000])]
    pub connections: Vec<usize>,
    /// Rows to update
    #[arg(long, default_value_t = 100_000)]
    pub rows: u64,
    /// Which servers take turns, and how long each turn is.
    #[command(flatten)]
    pub turns: TurnsArgs,
}

impl ConnectionsArgs {
    /// Runs the load on each server and prints the report.
    ///
    /// # Errors
    /// Invalid arguments, or the first failure of a run, as text.
    pub fn run(&self) -> Result<(), String> {
        if self.rows == 0 {
            return Err("a run needs a row".to_owned());
        }
        // Checked before anything is created.
        self.turns.time()?;
        for (name, socket) in &self.turns.servers {
            self.prepare(&mut Client::connect(socket)?)
                .map_err(|error| format!("{name}: {error}"))?;
        }
        let mut report = self.empty();
        let mut told: BTreeMap<PathBuf, u64> = BTreeMap::new();
        let statement = |_, id| format!("UPDATE bench.connections SET c = c + 1 WHERE id = {id}");
        let cell = |server: &(String, PathBuf), connections, seed| {
            self.turns.measure(server, connections, seed, self.rows, &statement)
        };
        self.turns.run(&self.connections, cell, |(name, socket), connections, measured| {
            *told.entry(socket.clone()).or_default() += measured.told;
            report.add(row(name, connections, measured));
        })?;
        for (name, socket) in &self.turns.servers {
            let told = told[socket];
            let sum = Client::connect(socket)?.number("SELECT SUM(c) FROM bench.connections")?;
            if sum != told {
                return Err(format!("{name} told of {told} updates and has {sum}"));
            }
        }
        self.turns.output.give(&report)
    }

    fn prepare(&self, client: &mut Client) -> Result<(), String> {
        let bar = progress(self.rows);
        let columns = "id INT PRIMARY KEY, c BIGINT NOT NULL";
        let row = |out: &mut String, id| _ = write!(out, "{id},0");
        client.make_table(("connections", columns), self.rows, row, |more| bar.inc(more))?;
        bar.finish_and_clear();
        Ok(())
    }

    fn empty(&self) -> Report {
        let mut report = Report::new(&["connections"], &FIGURES.columns());
        report.set("machine", machine::describe(std::path::Path::new(".")));
        let extent = self.turns.extent();
        report.set(
            "run",
            format!(
                "one durable UPDATE of one of {} rows in flight on each connection, {extent} a cell, {} rounds in turn, \
                 seed {}; processor time for each statement, of the server and of this client, on the same cores",
                self.rows, self.turns.rounds, self.turns.seed
            ),
        );
        report
    }
}

fn row(name: &str, connections: usize, measured: &ConnectionsResults) -> Row {
    let case = vec![connections.to_string()];
    Row { case, subject: name.to_owned(), figures: FIGURES.of(measured) }
}
