//! The child processes, which the run kills.

use std::io::{BufRead, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde::{Deserialize, Serialize};
use spillway_base::clock;

use super::Recoverable;
use crate::machine::Cpu;
use crate::measure::{Values, key};
use crate::store::Store;

/// The rows to commit: one in each commit, with scattered keys from number 0 on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) log_bytes: u64,
    pub(super) value_bytes: usize,
    pub(super) seed: u64,
}

/// One row in this many is read back after an opening.
const CHECKED: u64 = 1009;

/// The result of an opening.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Opened {
    pub(super) seconds: f64,
    pub(super) cpu_seconds: f64,
}

fn row(number: u64) -> [u8; 16] {
    // Odd, so that different numbers have different keys.
    key(number.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// A writing process reports its progress after this many rows.
const TOLD: u64 = 1 << 16;

/// Commits until the log has its length, and reports rows done and their total to `told` from time
/// to time; returns the number of durable rows.
pub(super) fn write(
    store: &dyn Store,
    load: Load,
    mut told: impl FnMut(u64, u64),
) -> Result<u64, String> {
    let values = Values::new(load.seed, load.value_bytes);
    let rows = load.log_bytes / (load.value_bytes + 16) as u64 + 1;
    for number in 0..rows {
        if number % TOLD == 0 {
            told(number, rows);
        }
        // Waiting for the last commit covers all before it.
        store.commit(&[(&row(number), values.of(number))], number + 1 == rows)?;
    }
    Ok(rows)
}

/// Opens the store and checks the rows.
pub(super) fn reopen(
    stores: &dyn Recoverable,
    dir: &Path,
    load: Load,
    threads: usize,
    rows: u64,
) -> Result<(Opened, Box<dyn Store>), String> {
    let (begin, before) = (clock::now(), Cpu::own());
    let store = stores.open(dir, load.log_bytes, threads)?;
    let opened = Opened {
        seconds: (clock::now() - begin).as_secs_f64(),
        cpu_seconds: Cpu::own().since(before).total().as_secs_f64(),
    };
    let values = Values::new(load.seed, load.value_bytes);
    let mut value = Vec::new();
    for number in (0..rows).step_by(CHECKED as usize).chain([rows - 1]) {
        if !store.get(&row(number), &mut value)? || value != values.of(number) {
            return Err(format!("row {number} of {rows} that were durable is not there"));
        }
    }
    Ok((opened, store))
}

/// In a child process: executes the task `what`, reports to its parent, and waits to be killed.
pub(super) fn serve(
    what: &str,
    stores: &dyn Recoverable,
    dir: &Path,
    load: Load,
) -> Result<(), String> {
    let numbers: Vec<u64> = what.split(':').filter_map(|word| word.parse().ok()).collect();
    let (line, store) = match numbers[..] {
        [threads, rows] => {
            let (opened, store) = reopen(stores, dir, load, threads as usize, rows)?;
            (serde_json::to_string(&opened).map_err(|error| error.to_string())?, store)
        }
        _ => {
            let store = stores.open(dir, load.log_bytes, 1)?;
            let told = |row, rows| println!("{SO_FAR} {row} {rows}");
            (write(&*store, load, told)?.to_string(), store)
        }
    };
    report_and_wait(&line, store)
}

/// In a child process: reports its result, and keeps `store` open until the parent kills this
/// process, or exits.
pub(crate) fn report_and_wait<T>(line: &str, store: T) -> Result<(), String> {
    println!("{line}");
    std::io::stdout().flush().map_err(|error| error.to_string())?;
    let _ = std::io::stdin().read(&mut [0]);
    drop(store);
    Ok(())
}

/// The prefix of a progress line, which has the steps done and their total.
const SO_FAR: &str = "so far";

/// The share that is done, if the line is a progress line.
fn so_far(line: &str) -> Option<f64> {
    let mut steps = line.strip_prefix(SO_FAR)?.split_whitespace();
    let mut step = || steps.next()?.parse::<f64>().ok();
    Some(step()? / step()?)
}

/// A process that is killed when this is dropped.
struct Doomed(Child);

impl Drop for Doomed {
    fn drop(&mut self) {
        // SIGKILL: nothing is closed or flushed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs this program again, with the same arguments and `more`, until it reports its result, and
/// kills it. `told` receives the share that is done from time to time.
pub(crate) fn run_and_kill(more: &[&str], told: impl Fn(f64)) -> Result<String, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1)).args(more);
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut doomed = Doomed(child.map_err(|error| error.to_string())?);
    let stdout = doomed.0.stdout.take().ok_or("the process has no output")?;
    for line in std::io::BufReader::new(stdout).lines() {
        let line = line.map_err(|error| error.to_string())?;
        match so_far(&line) {
            Some(share) => told(share),
            None => return Ok(line),
        }
    }
    Err("its process failed".to_owned())
}
