//! The command line.

use clap::{Args, Subcommand};

use super::bytes::BytesArgs;
use super::checkpoint::CheckpointArgs;
use super::eviction::MemoryEvictionArgs;
use super::recovery::MemoryRecoveryArgs;
use super::space::MemorySpaceArgs;
use super::updates::UpdatesArgs;
use super::work::engines;
use crate::store::Stores;

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
  spillway-bench memory updates --seconds 1 --rounds 1                               in a minute
  spillway-bench memory updates --work relaxed --key-bytes 8 --threads 1 --rounds 7  one cell, often
  spillway-bench memory updates --work durable --in-flight 512 --threads 1,2         waiting
  make bench-memory-peers                                                            with peers")]
    Updates(UpdatesArgs),
    /// Opening after a kill: the first answer, and the rate of replay
    #[command(after_help = "Examples:
  spillway-bench memory recovery --data-mib 128 --tail-mib 32 --rounds 1  a first impression
  spillway-bench memory recovery --data-mib 4096 --tail-mib 256           the goal's; 13 GiB")]
    Recovery(MemoryRecoveryArgs),
    /// Bytes written by checkpoints, and updates during them
    #[command(after_help = "Examples:
  spillway-bench memory checkpoint --seconds 1 --every 0.5 --rounds 1  a first impression
  spillway-bench memory checkpoint --rows 5000000 --every 0            without a pause")]
    Checkpoint(CheckpointArgs),
    /// Memory of a row, by its parts
    #[command(after_help = "Examples:
  spillway-bench memory bytes --rows 200000 --rounds 1         a first impression
  spillway-bench memory bytes --key-bytes 16 --value-bytes 30  other rows")]
    Bytes(BytesArgs),
    /// Gets and updates of data smaller and larger than the budget
    #[command(after_help = "Examples:
  spillway-bench memory eviction --memory-mib 64 --seconds 0.5 --rounds 1  a first impression
  spillway-bench memory eviction --times 0.5,1,1.5,2,3,4 --skew 0          in smaller steps")]
    Eviction(MemoryEvictionArgs),
    /// Disk space of rows overwritten many times, beside a busy tiered table
    #[command(after_help = "Examples:
  spillway-bench memory space --data-mib 64 --skew 0      a first impression
  spillway-bench memory space --data-mib 1024 --tiered 0  without the tiered table")]
    Space(MemorySpaceArgs),
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
            MemorySection::Recovery(args) => args.run(),
            MemorySection::Checkpoint(args) => args.run(),
            MemorySection::Bytes(args) => args.run(),
            MemorySection::Eviction(args) => args.run(),
            MemorySection::Space(args) => args.run(),
        }
    }
}
