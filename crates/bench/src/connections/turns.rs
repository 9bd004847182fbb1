//! What runs against servers in turn have in common: which servers, for how long, how often.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::cell::Measured;
use crate::measure::{in_turns, progress};
use crate::report::OutputArgs;

/// Which servers take turns, and how long each turn is.
#[derive(Args, Clone, Debug)]
pub struct TurnsArgs {
    /// A server as NAME=SOCKET; its root has no password. May be given more than once
    #[arg(long = "server", value_name = "NAME=SOCKET", required = true, value_parser = server)]
    pub servers: Vec<(String, PathBuf)>,
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

fn server(text: &str) -> Result<(String, PathBuf), String> {
    let (name, socket) = text.split_once('=').ok_or("write NAME=SOCKET")?;
    Ok((name.to_owned(), socket.into()))
}

impl TurnsArgs {
    /// How long a cell is measured, unless it has so many statements.
    pub(crate) fn time(&self) -> Result<Duration, String> {
        Duration::try_from_secs_f64(self.seconds).map_err(|error| error.to_string())
    }

    /// How long a cell is, in words.
    pub(crate) fn extent(&self) -> String {
        match self.statements {
            Some(statements) => format!("{statements} statements"),
            None => format!("{} s after a fifth of it unmeasured", self.seconds),
        }
    }

    /// Measures each server with each number of connections, in turns. `cell` is given a server, a number of connections and a seed.
    pub(crate) fn run(
        &self,
        connections: &[usize],
        mut cell: impl FnMut(&(String, PathBuf), usize, u64) -> Result<Measured, String>,
        mut measured: impl FnMut(&(String, PathBuf), usize, &Measured),
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
