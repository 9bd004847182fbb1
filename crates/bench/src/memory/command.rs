//! The command line.

use clap::{Args, Subcommand};

use super::updates::UpdatesArgs;
use crate::store::{SpillwayStores, Stores};

/// The figures that the memory engine must reach.
#[derive(Args, Clone, Debug)]
pub struct MemoryArgs {
    #[command(subcommand)]
    section: MemorySection,
}

#[derive(Subcommand, Clone, Debug)]
enum MemorySection {
    /// Gets and updates of rows in memory, beside the tiered engine
    #[command(after_help = "Examples:
  spillway-bench memory updates --seconds 1 --rounds 1                            a first impression, in a minute
  spillway-bench memory updates --work relaxed --key-bytes 8 --threads 1 --rounds 7   one cell, often
  spillway-bench memory updates --work durable --in-flight 512 --threads 1,2      waited-for commits
  make bench-memory-peers                                                         beside redb, LMDB and RocksDB")]
    Updates(UpdatesArgs),
}

impl MemoryArgs {
    /// Runs the section and prints its report.
    ///
    /// # Errors
    /// Invalid arguments, a wrong row, or the first failure of a run, as text.
    pub fn run(&self) -> Result<(), String> {
        match &self.section {
            MemorySection::Updates(args) => {
                let [memory, tiered] = engines();
                args.run(&[&memory as &dyn Stores, &tiered])
            }
        }
    }
}

/// Both engines, the memory engine first.
#[must_use]
pub fn engines() -> [SpillwayStores; 2] {
    let tiered = SpillwayStores { name: "spillway tiered".to_owned(), ..SpillwayStores::default() };
    [SpillwayStores::in_memory_engine(), tiered]
}
