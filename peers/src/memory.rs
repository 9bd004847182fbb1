//! The memory engine's updates beside embedded stores, in one run with equal durability.

mod embedded;
#[cfg(feature = "rocksdb")]
#[allow(dead_code)]
mod rocks;

use std::process::ExitCode;

use clap::Parser;
use spillway_bench::memory::{UpdatesArgs, engines};
use spillway_bench::store::Stores;

use embedded::{LmdbStores, RedbStores};

/// Gets and updates of rows in memory: both engines of Spillway, LMDB, redb, and RocksDB if it was
/// built in.
#[derive(Parser)]
#[command(after_help = "Examples:
  memory-peers --seconds 1 --rounds 1
  memory-peers --work gets,relaxed --key-bytes 8 --only memory,lmdb")]
struct Cli {
    #[command(flatten)]
    updates: UpdatesArgs,
}

fn main() -> ExitCode {
    let [memory, tiered] = engines();
    #[cfg(feature = "rocksdb")]
    let rocks = rocks::RocksStores::new(rocks::Way::Pipelined);
    let stores: &[&dyn Stores] = &[
        &memory,
        &tiered,
        &LmdbStores,
        &RedbStores,
        #[cfg(feature = "rocksdb")]
        &rocks,
    ];
    match Cli::parse().updates.run(stores) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("memory-peers: {error}");
            ExitCode::FAILURE
        }
    }
}
