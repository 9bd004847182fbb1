//! The command line of a run, and the run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::cell::{Measured, Plan, run};
use super::client::Client;
use super::turns::TurnsArgs;
use crate::machine;
use crate::measure::{progress, quantile_us};
use crate::report::{Figure, Report, Row};

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
    /// Runs the load on each server and gives the report.
    ///
    /// # Errors
    /// What is wrong with the arguments, or the first failure of a run, in words.
    pub fn run(&self) -> Result<(), String> {
        if self.rows == 0 {
            return Err("a run needs a row".to_owned());
        }
        let time = self.turns.time()?;
        for (name, socket) in &self.turns.servers {
            self.prepare(&mut Client::connect(socket)?)
                .map_err(|error| format!("{name}: {error}"))?;
        }
        let mut report = self.empty();
        let mut told: BTreeMap<PathBuf, u64> = BTreeMap::new();
        let cell = |(_, socket): &(String, PathBuf), connections, seed| {
            run(&Plan {
                socket,
                connections,
                rows: self.rows,
                time,
                statements: self.turns.statements,
                seed,
                statement: &|_, id| {
                    format!("UPDATE bench.connections SET c = c + 1 WHERE id = {id}")
                },
            })
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
        client.run("CREATE DATABASE IF NOT EXISTS bench")?;
        client.run("DROP TABLE IF EXISTS bench.connections")?;
        client.run("CREATE TABLE bench.connections (id INT PRIMARY KEY, c BIGINT NOT NULL)")?;
        let bar = progress(self.rows);
        for first in (0..self.rows).step_by(1000) {
            let last = (first + 1000).min(self.rows);
            let mut insert = "INSERT INTO bench.connections VALUES ".to_owned();
            for id in first..last {
                let comma = if id > first { "," } else { "" };
                let _ = write!(insert, "{comma}({id},0)");
            }
            client.run(&insert)?;
            bar.set_position(last);
        }
        bar.finish_and_clear();
        Ok(())
    }

    fn empty(&self) -> Report {
        let figure = |name, decimals| Figure { name, decimals };
        let figures = [
            figure("commits/s", 0),
            figure("p50 ms", 2),
            figure("p95 ms", 2),
            figure("p99 ms", 2),
            figure("server user us", 1),
            figure("server sys us", 1),
            figure("client cpu us", 1),
        ];
        let mut report = Report::new(&["connections"], &figures);
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

fn row(name: &str, connections: usize, measured: &Measured) -> Row {
    let statements = measured.latency_ns.len().max(1) as f64;
    let ms = |quantile| quantile_us(&measured.latency_ns, quantile) / 1e3;
    let us = |time: Duration| time.as_secs_f64() * 1e6 / statements;
    Row {
        case: vec![connections.to_string()],
        subject: name.to_owned(),
        figures: vec![
            measured.latency_ns.len() as f64 / measured.elapsed.as_secs_f64(),
            ms(0.5),
            ms(0.95),
            ms(0.99),
            us(measured.server.user),
            us(measured.server.system),
            us(measured.client.total()),
        ],
    }
}
