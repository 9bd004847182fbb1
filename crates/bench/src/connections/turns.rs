//! The options that runs against servers share: the servers, the time, and the rounds.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::cell::{ConnectionsPlan, ConnectionsResults, run};
use crate::measure::{in_turns, progress, quantile_us};
use crate::report::{Figure, OutputArgs};

/// Which servers take turns, and how long each turn is.
#[derive(Args, Clone, Debug)]
pub struct TurnsArgs {
    /// A server as NAME=SOCKET; its root has no password. May be given more than once
    #[arg(long = "server", value_name = "NAME=SOCKET", required = true, value_parser = server)]
    pub servers: Vec<(String, PathBuf)>,
    /// Connect by TCP on this machine instead of the sockets
    #[arg(long)]
    pub tcp: bool,
    /// Seconds of each cell that are measured, after a warm-up of a fifth of them
    #[arg(long, default_value_t = 5.0)]
    pub seconds: f64,
    /// Statements of each cell, instead of seconds
    #[arg(long)]
    pub statements: Option<u64>,
    /// Times to run everything; the report gives medians over them
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Seed of all random choices
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
    /// Files for the report
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Parses a server argument.
pub(crate) fn server(text: &str) -> Result<(String, PathBuf), String> {
    let (name, socket) = text.split_once('=').ok_or("write NAME=SOCKET")?;
    Ok((name.to_owned(), socket.into()))
}

impl TurnsArgs {
    /// How long a cell is measured, unless the number of statements limits it.
    pub(crate) fn time(&self) -> Result<Duration, String> {
        Duration::try_from_secs_f64(self.seconds).map_err(|error| error.to_string())
    }

    /// The length of a cell, as text.
    pub(crate) fn extent(&self) -> String {
        let by = if self.tcp { "by TCP, " } else { "" };
        match self.statements {
            Some(statements) => format!("{by}{statements} statements"),
            None => format!("{by}{} s after a fifth of it unmeasured", self.seconds),
        }
    }

    /// Measures a server with statements for random ones of these rows, as [`ConnectionsPlan`]
    /// describes.
    pub(crate) fn measure(
        &self,
        (_, socket): &(String, PathBuf),
        connections: usize,
        seed: u64,
        rows: u64,
        statement: &dyn Fn(usize, u64) -> String,
    ) -> Result<ConnectionsResults, String> {
        let (time, statements, tcp) = (self.time()?, self.statements, self.tcp);
        run(&ConnectionsPlan { socket, tcp, connections, rows, time, statements, seed, statement })
    }

    /// Measures each server with each number of connections, in turns. `cell` receives a server, a
    /// number of connections and a seed.
    pub(crate) fn run(
        &self,
        connections: &[usize],
        mut cell: impl FnMut(&(String, PathBuf), usize, u64) -> Result<ConnectionsResults, String>,
        mut measured: impl FnMut(&(String, PathBuf), usize, &ConnectionsResults),
    ) -> Result<(), String> {
        if self.rounds == 0 || connections.contains(&0) {
            return Err("a run needs a round and a connection".to_owned());
        }
        let bar = progress((self.rounds * connections.len() * self.servers.len()) as u64);
        let mut seed = self.seed;
        for &connections in connections {
            in_turns(self.rounds, &self.servers, |server| {
                let name = &server.0;
                bar.set_message(format!("{name}, {connections} connections"));
                seed = seed.wrapping_add(1);
                let all = cell(server, connections, seed);
                measured(server, connections, &all.map_err(|error| format!("{name}: {error}"))?);
                bar.inc(1);
                Ok(())
            })?;
        }
        bar.finish_and_clear();
        Ok(())
    }
}

/// The figures of a cell in a report: statements a second, quantiles of their latency, and
/// processor time for each.
pub(crate) struct Figures {
    /// The name of the rate.
    pub(crate) rate: &'static str,
    /// Quantiles in milliseconds, by their names.
    pub(crate) quantiles: &'static [(&'static str, f64)],
    pub(crate) ms_decimals: usize,
    pub(crate) us_decimals: usize,
}

impl Figures {
    /// The columns of the figures.
    pub(crate) fn columns(&self) -> Vec<Figure> {
        let figure = |name, decimals| Figure { name, decimals };
        let quantiles = self.quantiles.iter().map(|(name, _)| figure(*name, self.ms_decimals));
        let times = ["server user us", "server sys us", "client cpu us"];
        let times = times.into_iter().map(|name| figure(name, self.us_decimals));
        std::iter::once(figure(self.rate, 0)).chain(quantiles).chain(times).collect()
    }

    /// The figures, in the order of the columns.
    pub(crate) fn of(&self, measured: &ConnectionsResults) -> Vec<f64> {
        let statements = measured.latency_ns.len() as f64;
        let ms = |(_, quantile): &(_, f64)| quantile_us(&measured.latency_ns, *quantile) / 1e3;
        let us = |time: Duration| time.as_secs_f64() * 1e6 / statements.max(1.0);
        let (server, client) = (&measured.server, &measured.client);
        let times = [server.user, server.system, client.total()].map(us);
        std::iter::once(statements / measured.elapsed.as_secs_f64())
            .chain(self.quantiles.iter().map(ms))
            .chain(times)
            .collect()
    }
}
