//! Spillway beside RocksDB, in one run with equal durability and equal memory.

mod rocks;
mod rocks_runs;
mod rocks_txn;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use spillway_bench::amplification::AmplificationArgs;
use spillway_bench::commits::{CommitsArgs, Style, Subject};
use spillway_bench::compaction::{CompactionArgs, RunsStores, SpillwayRuns};
use spillway_bench::fill::FillArgs;
use spillway_bench::kv::KvArgs;
use spillway_bench::lone::LoneArgs;
use spillway_bench::moving::MovingArgs;
use spillway_bench::pressure::PressureArgs;
use spillway_bench::queue::QueueArgs;
use spillway_bench::recovery::RecoveryArgs;
use spillway_bench::scan::ScanArgs;
use spillway_bench::skew::SkewArgs;
use spillway_bench::store::{SpillwayStores, Stores};
use spillway_bench::wave::WaveArgs;

use rocks::{RocksRecovery, RocksStores, Way};
use rocks_runs::RocksRuns;
use rocks_txn::RocksTxnStores;

/// Spillway beside RocksDB, in one run with equal durability and equal memory. docs/benchmarks.md says how to read
/// the output.
#[derive(Parser)]
#[command(after_help = "Examples:
  spillway-peers kv --workloads fillrandom --value-bytes 10
  spillway-peers commits --in-flight 1,128 --seconds 1 --rounds 1")]
struct Cli {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// The library under db_bench's shapes
    Kv(KvArgs),
    /// Durable commits per second as more of them are in flight
    Commits(CommitsArgs),
    /// One durable writer beside raw writes of the same bytes
    Lone(LoneArgs),
    /// A load step over data larger than memory, second by second
    Wave(WaveArgs),
    /// Opening after a crash, by the size of the log
    Recovery(RecoveryArgs),
    /// One compaction of two runs of keys
    Compaction(CompactionArgs),
    /// Bytes written and read for each operation of a write-heavy mix
    Amplification(AmplificationArgs),
    /// A table used as a queue
    Queue(QueueArgs),
    /// Point reads of data larger than memory, from uniform to very skewed
    Skew(SkewArgs),
    /// Reads whose hot rows change suddenly
    Moving(MovingArgs),
    /// A fill at full speed, second by second
    Fill(FillArgs),
    /// Gets and durable puts beside compactions and without
    Pressure(PressureArgs),
    /// Scans forward and backward, and gets of many keys at once
    Scan(ScanArgs),
}

fn run(what: What) -> Result<(), String> {
    let spillway = SpillwayStores::default();
    let rocks = Way::ALL.map(RocksStores::new);
    let counted = |way| RocksStores { statistics: true, ..RocksStores::new(way) };
    let pipelined = counted(Way::Pipelined);
    let direct = RocksStores { direct: true, ..counted(Way::Pipelined) };
    match what {
        What::Kv(args) => {
            let mut stores: Vec<&dyn Stores> = vec![&spillway];
            stores.extend(
                rocks
                    .iter()
                    .filter(|rocks| rocks.way != Way::Recycled)
                    .map(|rocks| rocks as &dyn Stores),
            );
            args.run(&stores)
        }
        What::Commits(args) => {
            let transactions = [RocksTxnStores::Pessimistic, RocksTxnStores::Optimistic];
            let spillways = args.spillways();
            let mut subjects = Subject::in_all_styles(&spillways, &args.threads);
            let waiting = |stores| Subject { stores, style: Style::Waiting };
            subjects.extend(rocks.iter().map(|rocks| waiting(rocks)));
            subjects.extend(transactions.iter().map(|rocks| waiting(rocks)));
            args.run(&subjects)
        }
        What::Lone(args) => {
            let log_dir = args.log_dir_of("spillway");
            let spillway = SpillwayStores { log_dir, ..spillway };
            let rocks =
                rocks.map(|rocks| RocksStores { log_dir: args.log_dir_of(&rocks.name()), ..rocks });
            let mut stores: Vec<&dyn Stores> = vec![&spillway];
            stores.extend(rocks.iter().map(|rocks| rocks as &dyn Stores));
            args.run(&stores)
        }
        What::Recovery(args) => args.run(&[&args.spillway(), &RocksRecovery]),
        What::Compaction(args) => {
            let rocks = [false, true].map(|direct| RocksRuns { direct });
            let mut stores: Vec<&dyn RunsStores> = Vec::new();
            stores.extend(SpillwayRuns::ALL.iter().map(|runs| runs as &dyn RunsStores));
            stores.extend(rocks.iter().map(|runs| runs as &dyn RunsStores));
            args.run(&stores)
        }
        What::Amplification(args) => {
            let small = RocksStores { block_kib: 4, ..counted(Way::Pipelined) };
            args.run(&[&spillway, &pipelined, &small, &direct])
        }
        What::Queue(args) => args.run(&[&spillway, &RocksStores::new(Way::Pipelined)]),
        What::Skew(args) => {
            let reads =
                |direct| RocksStores { direct, for_reads: true, ..RocksStores::new(Way::Plain) };
            let small = RocksStores { block_kib: 4, ..reads(false) };
            let hyper = RocksStores { hyper_clock: true, ..reads(false) };
            let both = RocksStores { hyper_clock: true, ..small.clone() };
            args.run(&[&spillway, &reads(true), &reads(false), &small, &hyper, &both])
        }
        What::Moving(args) => {
            let reads =
                |block_kib| RocksStores { for_reads: true, block_kib, ..counted(Way::Plain) };
            args.run(&[&spillway, &reads(16), &reads(4)])
        }
        What::Fill(args) => args.run(&[&spillway, &pipelined, &direct]),
        What::Pressure(args) => args.run(&[&spillway, &pipelined, &direct]),
        What::Scan(args) => {
            let lru = RocksStores::new(Way::Pipelined);
            let hyper = RocksStores { hyper_clock: true, ..lru.clone() };
            let small = RocksStores { block_kib: 4, ..hyper.clone() };
            args.run(&[&spillway, &lru, &hyper, &small, &lru.clone().with_row_cache()])
        }
        What::Wave(args) => {
            args.run(&[&spillway, &counted(Way::Pipelined), &counted(Way::Unordered)])
        }
    }
}

fn main() -> ExitCode {
    match run(Cli::parse().what) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("spillway-peers: {error}");
            ExitCode::FAILURE
        }
    }
}
