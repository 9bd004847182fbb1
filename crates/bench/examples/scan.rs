//! `spillway-bench scan` alone, for profilers (`scripts/bench-scan-instructions`,
//! `scripts/bench-cache-misses`): a program that compiles and loads quickly.

use std::process::ExitCode;

use clap::Parser;
use spillway::Mechanism;
use spillway_bench::scan::ScanArgs;
use spillway_bench::store::SpillwayStores;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    scan: ScanArgs,
    /// Run without these, all at once
    #[arg(long)]
    all_without: Vec<Mechanism>,
}

fn main() -> ExitCode {
    let Command { scan, all_without } = Command::parse();
    match scan.run(&[&SpillwayStores { without: all_without, ..SpillwayStores::default() }]) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("scan: {error}");
            ExitCode::FAILURE
        }
    }
}
