//! The command line of a run, and the run.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::cell::{Measured, Plan, run};
use super::client::Client;
use crate::machine;
use crate::measure::{progress, quantile_us};
use crate::report::{Figure, OutputArgs, Report, Row};

/// Many connections, each with a durable commit in flight.
#[derive(Args, Clone, Debug)]
pub struct ConnectionsArgs {
    /// A server as NAME=SOCKET; its root has no password. May be given more than once
    #[arg(long = "server", value_name = "NAME=SOCKET", required = true, value_parser = server)]
    pub servers: Vec<(String, PathBuf)>,
    /// Connections
    #[arg(long, value_delimiter = ',', default_values_t = [64, 2000])]
    pub connections: Vec<usize>,
    /// Rows to update
    #[arg(long, default_value_t = 100_000)]
    pub rows: u64,
    /// Seconds of each cell that are measured, after a fifth of them that is not
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,
    /// Statements of each cell, instead of seconds
    #[arg(long)]
    pub statements: Option<u64>,
    /// Times to run everything; the report gives medians over them
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// What all random choices come from
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
    /// Where the report goes
    #[command(flatten)]
    pub output: OutputArgs,
}

pub(crate) fn server(text: &str) -> Result<(String, PathBuf), String> {
    let (name, socket) = text.split_once('=').ok_or("write NAME=SOCKET")?;
    Ok((name.to_owned(), socket.into()))
}

impl ConnectionsArgs {
    /// Runs the load on each server and gives the report.
    ///
    /// # Errors
    /// What is wrong with the arguments, or the first failure of a run, in words.
    pub fn run(&self) -> Result<(), String> {
        if self.rounds == 0 || self.rows == 0 || self.connections.contains(&0) {
            return Err("a run needs a round, a row and a connection".to_owned());
        }
        for (name, socket) in &self.servers {
            self.prepare(&mut Client::connect(socket)?)
                .map_err(|error| format!("{name}: {error}"))?;
        }
        let mut report = self.empty();
        let mut told = vec![0; self.servers.len()];
        let bar = progress((self.rounds * self.connections.len() * self.servers.len()) as u64);
        for round in 0..self.rounds {
            for &connections in &self.connections {
                for place in 0..self.servers.len() {
                    // The order turns with each round, so that none is always first.
                    let place = (place + round) % self.servers.len();
                    let name = &self.servers[place].0;
                    bar.set_message(format!("{name}, {connections} connections"));
                    let plan = Plan {
                        socket: &self.servers[place].1,
                        connections,
                        rows: self.rows,
                        time: Duration::try_from_secs_f64(self.seconds)
                            .map_err(|error| error.to_string())?,
                        statements: self.statements,
                        seed: self.seed.wrapping_add(round as u64),
                        statement: |id| {
                            format!("UPDATE bench.connections SET c = c + 1 WHERE id = {id}")
                        },
                    };
                    let measured = run(&plan).map_err(|error| format!("{name}: {error}"))?;
                    told[place] += measured.told;
                    report.add(row(name, connections, &measured));
                    bar.inc(1);
                }
            }
        }
        bar.finish_and_clear();
        for ((name, socket), told) in self.servers.iter().zip(told) {
            let sum = Client::connect(socket)?.number("SELECT SUM(c) FROM bench.connections")?;
            if sum != told {
                return Err(format!("{name} told of {told} updates and has {sum}"));
            }
        }
        self.output.give(&report)
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
        let extent = match self.statements {
            Some(statements) => format!("{statements} statements"),
            None => format!("{} s after a fifth of it unmeasured", self.seconds),
        };
        report.set(
            "run",
            format!(
                "one durable UPDATE of one of {} rows in flight on each connection, {extent} a cell, {} rounds in turn, \
                 seed {}; processor time for each statement, of the server and of this client, on the same cores",
                self.rows, self.rounds, self.seed
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
