//! `spillway-bench blocks` alone, for profilers: a program that compiles and loads quickly.

use std::process::ExitCode;

use clap::Parser;
use spillway_bench::blocks::BlocksArgs;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    blocks: BlocksArgs,
}

fn main() -> ExitCode {
    match Command::parse().blocks.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("blocks: {error}");
            ExitCode::FAILURE
        }
    }
}
