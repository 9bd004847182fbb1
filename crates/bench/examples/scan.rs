//! `spillway bench scan` by itself, for profilers: little to compile and to load (`scripts/bench-scan-instructions`).

use std::process::ExitCode;

use clap::Parser;
use spillway_bench::scan::ScanArgs;
use spillway_bench::store::SpillwayStores;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    scan: ScanArgs,
}

fn main() -> ExitCode {
    match Command::parse().scan.run(&[&SpillwayStores::default()]) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("scan: {error}");
            ExitCode::FAILURE
        }
    }
}
