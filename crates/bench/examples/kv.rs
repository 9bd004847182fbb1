//! `spillway-bench kv` alone, for profilers and for comparisons of two builds: a program that
//! compiles and loads quickly.

use std::process::ExitCode;

use clap::Parser;
use spillway_bench::kv::KvArgs;
use spillway_bench::store::SpillwayStores;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    kv: KvArgs,
}

fn main() -> ExitCode {
    match Command::parse().kv.run(&[&SpillwayStores::default()]) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kv: {error}");
            ExitCode::FAILURE
        }
    }
}
