//! The `spillway-bench` command: runs the benchmarks of this crate, for Spillway and for servers.
//! The `peers` workspace runs many of them for RocksDB.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use spillway_bench::amplification::AmplificationArgs;
use spillway_bench::blocks::BlocksArgs;
use spillway_bench::cold::ColdArgs;
use spillway_bench::commits::{CommitsArgs, Subject};
use spillway_bench::compaction::{CompactionArgs, RunsStores, SpillwayRuns};
use spillway_bench::connections::ConnectionsArgs;
use spillway_bench::eviction::EvictionArgs;
use spillway_bench::extents::ExtentsArgs;
use spillway_bench::fill::FillArgs;
use spillway_bench::filters::FiltersArgs;
use spillway_bench::kv::KvArgs;
use spillway_bench::lone::LoneArgs;
use spillway_bench::memory::MemoryArgs;
use spillway_bench::metadata::MetadataArgs;
use spillway_bench::moving::MovingArgs;
use spillway_bench::pressure::PressureArgs;
use spillway_bench::queue::QueueArgs;
use spillway_bench::recovery::RecoveryArgs;
use spillway_bench::scan::ScanArgs;
use spillway_bench::skew::SkewArgs;
use spillway_bench::store::SpillwayStores;
use spillway_bench::temperature::TemperatureArgs;
use spillway_bench::tpcc::TpccArgs;
use spillway_bench::wave::WaveArgs;
use tikv_jemallocator::Jemalloc;

/// The allocator of the server, so that the figures apply to its process.
#[global_allocator]
static HEAP: Jemalloc = Jemalloc;

/// Measure Spillway as a library, or servers by their own protocol.
#[derive(Parser)]
#[command(
    version,
    after_help = "make bench-kv and its kin measure the same beside RocksDB, make bench-sysbench \
measures SQL."
)]
struct Cli {
    #[command(subcommand)]
    what: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// The library as a key-value store, under db_bench's shapes
    #[command(after_help = "Examples:
  spillway-bench kv --keys 100000 --rounds 1                 a first impression, in a minute
  spillway-bench kv --workloads fillsync --threads 1,16,128  durable puts, more threads waiting
  make bench-kv                                              the same beside RocksDB")]
    Kv(KvArgs),
    /// Durable commits per second as more of them are in flight
    #[command(after_help = "Examples:
  spillway-bench commits --in-flight 1,128 --seconds 1 --rounds 1    a first impression
  spillway-bench commits --only async --threads 1 --csv commits.csv  one thread, rounds in a file
  make bench-commits                                                 the same beside RocksDB")]
    Commits(CommitsArgs),
    /// One durable writer beside raw writes of the same bytes
    #[command(after_help = "Examples:
  spillway-bench lone --dir /var/tmp      on the disk of this folder
  spillway-bench lone --log-dir /dev/shm  as if the log were in lasting memory
  make bench-lone                         the same beside RocksDB")]
    Lone(LoneArgs),
    /// Extents read and written in bulk, through queues and without
    #[command(after_help = "Examples:
  spillway-bench extents --extents 32 --rounds 1          a first impression
  spillway-bench extents --depths 1,2,4,8,16 --passes 64  with more work on each extent")]
    Extents(ExtentsArgs),
    /// Servers with many connections, each with a durable commit in flight
    #[command(after_help = "Examples:
  spillway-bench connections --server spillway=/run/spillway.sock --connections 64,2000
  make bench-connections  the same beside InnoDB and MyRocks

A server with so many connections needs --max-connections and as many descriptors (ulimit -n).")]
    Connections(ConnectionsArgs),
    /// Servers that read rows from a device
    #[command(after_help = "Examples:
  spillway-bench cold --server spillway=/run/spillway.sock --folder data  one server
  make bench-cold  with overlapped reads and without")]
    Cold(ColdArgs),
    /// A load step over data larger than memory, second by second
    #[command(after_help = "Examples:
  spillway-bench wave --seconds 20 --plot wave.svg          a first impression, in two minutes
  spillway-bench wave --rate 20000 --skew 0 --csv wave.csv  another rate, rows alike
  make bench-wave                                           the same beside RocksDB")]
    Wave(WaveArgs),
    /// Opening after a crash, by the size of the log
    #[command(after_help = "Examples:
  spillway-bench recovery --log-mib 256 --rounds 1                  a first impression
  spillway-bench recovery --log-mib 4096 --threads 1,2,4 --lanes 4  with more threads
  make bench-recovery                                               the same beside RocksDB")]
    Recovery(RecoveryArgs),
    /// One compaction of two runs of keys, with and without data reuse
    #[command(after_help = "Examples:
  spillway-bench compaction --upper 500000 --lower 5000000 --rounds 1  a first impression
  spillway-bench compaction --group 1000 --distinct 90,99,100          with groups of your own
  make bench-compaction                                                the same beside RocksDB")]
    Compaction(CompactionArgs),
    /// Bytes written and read for each operation of a write-heavy mix
    #[command(after_help = "Examples:
  spillway-bench amplification --operations 500000 --rounds 1  a first impression
  spillway-bench amplification --mix 50,0,50,0 --skew 0        updates of all rows alike
  make bench-amplification                                     the same beside RocksDB")]
    Amplification(AmplificationArgs),
    /// The metadata of 1 TB: opening, changing and rewriting it
    #[command(after_help = "Examples:
  spillway-bench metadata --extents 50000 --rounds 1  a first impression
  spillway-bench metadata --subtables 1,4,16,64       with more sub-tables
  make bench-metadata                                 the whole of it")]
    Metadata(MetadataArgs),
    /// The figures that the memory engine must reach, by section
    #[command(after_help = "Examples:
  spillway-bench memory updates --seconds 1 --rounds 1  gets and updates, a first impression
  spillway-bench memory space --data-mib 64 --skew 0    disk space, a first impression
  spillway-bench memory updates --help                  what a section takes
  make bench-memory-engine                              the whole of it")]
    Memory(MemoryArgs),
    /// A table used as a queue
    #[command(after_help = "Examples:
  spillway-bench queue --after 1000000,5000000    a first impression
  spillway-bench queue --length 100000 --limit 1  a longer queue
  make bench-queue                                the same beside RocksDB")]
    Queue(QueueArgs),
    /// Point reads of data larger than memory, from uniform to very skewed
    #[command(after_help = "Examples:
  spillway-bench skew --rounds 1 --skew 0,0.99        a first impression
  spillway-bench skew --value-bytes 1000 --threads 8  larger rows, more readers
  make bench-skew                                     the same beside RocksDB")]
    Skew(SkewArgs),
    /// A fill at full speed to many times the memory, second by second
    #[command(after_help = "Examples:
  spillway-bench fill --gib 2 --memory-mib 128       a first impression
  spillway-bench fill --order random --csv fill.csv  every second in a file
  make bench-fill                                    the same beside RocksDB")]
    Fill(FillArgs),
    /// Gets and durable puts at a fixed rate, with background compactions and without
    #[command(after_help = "Examples:
  spillway-bench pressure --memory-mib 64 --seconds 5 --windows 1  a first impression
  spillway-bench pressure --gets 20000 --puts 2000                 at rates of your own
  make bench-pressure                                              the same beside RocksDB")]
    Pressure(PressureArgs),
    /// The effect of tracking how often extents are read
    #[command(after_help = "Examples:
  spillway-bench temperature --memory-mib 64 --operations 500000 --rounds 1  a first impression
  spillway-bench temperature --case tiers                                    two tiers")]
    Temperature(TemperatureArgs),
    /// Reads whose hot rows change suddenly, in this process or on servers
    #[command(after_help = "Examples:
  spillway-bench moving --memory-mib 32 --every 3             a first impression
  spillway-bench moving --series moving.csv --svg moving.svg  every window in a file, and drawn
  spillway-bench moving --server a=/run/a.sock --server b=/run/b.sock
  make bench-moving  the same beside RocksDB, and beside InnoDB")]
    Moving(MovingArgs),
    /// Scans forward and backward, and gets of many keys at once
    #[command(after_help = "Examples:
  spillway-bench scan --rows 100000 --seeks 10000 --rounds 1        a first impression
  spillway-bench scan --cold --memory-mib 64 --turns 1 --seeks 500  rows that are in no cache
  make bench-scan                                                   the same beside RocksDB")]
    Scan(ScanArgs),
    /// Hit rates of eviction policies, over traces
    Eviction(EvictionArgs),
    /// Sizes, false positives and times of filters
    Filters(FiltersArgs),
    /// Data blocks beside blocks of prefixes and restarts: bytes, seeks, steps
    #[command(after_help = "Examples:
  spillway-bench blocks --far 256 --rounds 1          a first impression
  spillway-bench blocks --keys texts --value-bytes 8  one kind of rows
  spillway-bench blocks --csv blocks.csv              every round in a file")]
    Blocks(BlocksArgs),
    /// TPC-C through the library, with commits in flight or waited for
    #[command(after_help = "Examples:
  spillway-bench tpcc --warehouses 1 --threads 1 --seconds 2 --rounds 1  a first impression
  spillway-bench tpcc --engine memory,tiered,mixed --csv tpcc.csv  all engines, rounds in a file
  spillway-bench tpcc --durability wait --isolation serializable         waiting commits
  make bench-tpcc-library                                                1, 2 and 4 warehouses")]
    Tpcc(TpccArgs),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().what {
        Bench::Kv(args) => {
            args.run(&[&SpillwayStores::default(), &SpillwayStores::in_memory_engine()])
        }
        Bench::Commits(args) => {
            let spillways = args.spillways();
            args.run(&Subject::in_all_styles(&spillways, &args.threads))
        }
        Bench::Connections(args) => args.run(),
        Bench::Cold(args) => args.run(),
        Bench::Wave(args) => args.run(&[&SpillwayStores::default()]),
        Bench::Recovery(args) => args.run(&[&args.spillway()]),
        Bench::Compaction(args) => {
            args.run(&SpillwayRuns::ALL.each_ref().map(|runs| runs as &dyn RunsStores))
        }
        Bench::Extents(args) => args.run(),
        Bench::Amplification(args) => args.run(&[&SpillwayStores::default()]),
        Bench::Metadata(args) => args.run(),
        Bench::Memory(args) => args.run(),
        Bench::Queue(args) => args.run(&[&SpillwayStores::default()]),
        Bench::Skew(args) => args.run(&[&SpillwayStores::default()]),
        Bench::Fill(args) => args.run(&[&SpillwayStores::default()]),
        Bench::Pressure(args) => args.run(&[&SpillwayStores::default()]),
        Bench::Temperature(args) => args.run(),
        Bench::Moving(args) => args.run(&[&SpillwayStores::default()]),
        Bench::Scan(args) => args.run(&[&SpillwayStores::default()]),
        Bench::Eviction(args) => args.run(),
        Bench::Filters(args) => args.run(),
        Bench::Blocks(args) => args.run(),
        Bench::Tpcc(args) => args.run(),
        Bench::Lone(args) => {
            let log_dir = args.log_dir_of("spillway");
            args.run(&[&SpillwayStores { log_dir, ..SpillwayStores::default() }])
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("spillway-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
