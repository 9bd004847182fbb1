//! The command line of a run, and the run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use crate::connections::{Client, Figures, TurnsArgs};
use crate::machine;
use crate::measure::progress;
use crate::report::{Figure, Report, Row};

/// The figures of the report.
const FIGURES: Figures = Figures {
    rate: "statements/s",
    quantiles: &[("p50 ms", 0.5), ("p99 ms", 0.99)],
    ms_decimals: 3,
    us_decimals: 2,
};

/// The kind of a statement.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Statement {
    /// Selects a row by its key.
    Select,
    /// Updates a row by its key, and commits.
    Update,
}

/// Which rows a connection uses.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Of {
    /// Those of one table.
    Own,
    /// Those of any table, a random one for each statement.
    Any,
}

/// Servers with and without statements on the home cores of their data.
#[derive(Args, Clone, Debug)]
pub struct AffinityArgs {
    /// The kinds of statements
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["select", "update"])]
    pub kinds: Vec<Statement>,
    /// The tables whose rows a connection uses
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["own", "any"])]
    pub of: Vec<Of>,
    /// Connections
    #[arg(long, value_delimiter = ',', default_values_t = [8, 32, 64])]
    pub connections: Vec<usize>,
    /// Tables
    #[arg(long, default_value_t = 8)]
    pub tables: u64,
    /// Rows of each
    #[arg(long, default_value_t = 20_000)]
    pub rows: u64,
    /// Which servers take turns, and how long each turn is.
    #[command(flatten)]
    pub turns: TurnsArgs,
}

impl AffinityArgs {
    /// Runs the load on each server and prints the report.
    ///
    /// # Errors
    /// Invalid arguments, or the first failure of a run, as text.
    pub fn run(&self) -> Result<(), String> {
        if self.rows == 0 || self.tables == 0 {
            return Err("a run needs a table and a row".to_owned());
        }
        let load = machine::load_average();
        for (name, socket) in &self.turns.servers {
            let prepared = Client::connect(socket).and_then(|mut client| self.prepare(&mut client));
            prepared.map_err(|error| format!("{name}: {error}"))?;
        }
        let mut report = self.empty();
        let mut told: BTreeMap<PathBuf, u64> = BTreeMap::new();
        for &kind in &self.kinds {
            for &of in &self.of {
                self.measure(kind, of, &mut told, &mut report)?;
            }
        }
        for (name, socket) in &self.turns.servers {
            let told = told.get(socket).copied().unwrap_or(0);
            let mut client = Client::connect(socket)?;
            let sum = |table| client.number(&format!("SELECT SUM(c) FROM bench.home{table}"));
            let sum: u64 = (0..self.tables).map(sum).sum::<Result<u64, String>>()?;
            if sum != told {
                return Err(format!("{name} told of {told} updates and has {sum}"));
            }
        }
        report.set("load average", format!("{load} before, {} after", machine::load_average()));
        self.turns.output.give(&report)
    }

    /// Measures one kind of statement, in turns.
    fn measure(
        &self,
        kind: Statement,
        of: Of,
        told: &mut BTreeMap<PathBuf, u64>,
        report: &mut Report,
    ) -> Result<(), String> {
        let statement = |place: usize, number: u64| {
            let table = match of {
                Of::Own => place as u64 % self.tables,
                Of::Any => number / self.rows,
            };
            let id = number % self.rows;
            match kind {
                Statement::Select => format!("SELECT c FROM bench.home{table} WHERE id = {id}"),
                Statement::Update => {
                    format!("UPDATE bench.home{table} SET c = c + 1 WHERE id = {id}")
                }
            }
        };
        let mut homes = Vec::new();
        let cell = |server: &(String, PathBuf), connections, seed| {
            let socket = &server.1;
            let before = AtHome::of(socket)?;
            let rows = self.tables * self.rows;
            let measured = self.turns.measure(server, connections, seed, rows, &statement)?;
            homes.push(AtHome::of(socket)?.share_since(before));
            Ok(measured)
        };
        let mut rows = Vec::new();
        self.turns.run(&self.connections, cell, |(name, socket), connections, measured| {
            if kind == Statement::Update {
                *told.entry(socket.clone()).or_default() += measured.told;
            }
            rows.push((name.clone(), connections, FIGURES.of(measured)));
        })?;
        for ((subject, connections, mut figures), at_home) in rows.into_iter().zip(homes) {
            figures.push(at_home * 100.0);
            let word = |value: &dyn std::fmt::Debug| format!("{value:?}").to_lowercase();
            let case = vec![word(&kind), word(&of), connections.to_string()];
            report.add(Row { case, subject, figures });
        }
        Ok(())
    }

    fn prepare(&self, client: &mut Client) -> Result<(), String> {
        let bar = progress(self.rows * self.tables);
        for table in 0..self.tables {
            let name = format!("home{table}");
            let columns = "id INT PRIMARY KEY, c BIGINT NOT NULL, v VARCHAR(100) NOT NULL";
            let row = |out: &mut String, id| _ = write!(out, "{id},0,'{id:0100}'");
            client.make_table((&name, columns), self.rows, row, |more| bar.inc(more))?;
        }
        client.run("FLUSH TABLES")?;
        bar.finish_and_clear();
        Ok(())
    }

    fn empty(&self) -> Report {
        let mut figures = FIGURES.columns();
        figures.push(Figure { name: "at home %", decimals: 0 });
        let mut report = Report::new(&["statement", "tables", "connections"], &figures);
        report.set("machine", machine::describe(Path::new(".")));
        let extent = self.turns.extent();
        report.set(
            "run",
            format!(
                "one select or update of one row in flight on each connection, of {} tables of {} rows, {extent} a cell, {} rounds in turn, \
                 seed {}; processor time for each statement, of the server and of this client, on the same cores",
                self.tables, self.rows, self.turns.rounds, self.turns.seed
            ),
        );
        report
    }
}

/// A server's counts of statements by where they ran; zero if it does not report them.
#[derive(Clone, Copy)]
struct AtHome {
    at_home: u64,
    all: u64,
}

impl AtHome {
    fn of(socket: &Path) -> Result<AtHome, String> {
        let mut client = Client::connect(socket)?;
        let mut count = |ran: &str| {
            let counted = client.status(&format!("Spillway_statements_{ran}"))?;
            Ok::<u64, String>(counted.and_then(|count| count.parse().ok()).unwrap_or(0))
        };
        let at_home = count("at_home")?;
        Ok(AtHome { at_home, all: at_home + count("away")? + count("spread")? })
    }

    /// The share of the statements since an earlier sample that ran at home; NaN if none was
    /// counted.
    fn share_since(self, earlier: AtHome) -> f64 {
        (self.at_home - earlier.at_home) as f64 / (self.all - earlier.all) as f64
    }
}
