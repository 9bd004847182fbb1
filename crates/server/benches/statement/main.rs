//! Measures the statement path within the process: from the bytes of a command's packet to the
//! bytes of the response, without a socket.
//!
//! The benchmark prints, for each statement, its processor time and the number of its allocations.
//! `scripts/bench-statement` also counts its instructions. As a test, the program runs each
//! statement a few times, and fails if a statement makes more allocations than its limit.

mod cases;
mod counting;
mod valgrind;

use clap::Parser;
use rustix::time::{ClockId, clock_gettime};
use spillway::Mechanism;

use cases::{CASES, Case, Prepared, load};

/// Measures statements in process, from the bytes of a packet to those of the response.
#[derive(Parser)]
#[command(after_help = "Examples:
  cargo bench -p spillway-server --bench statement -- --case select
  make bench-statement                 with instructions, and which of them lock the bus")]
struct Args {
    /// Only this statement
    #[arg(long)]
    case: Option<String>,
    /// Runs of a statement in a round
    #[arg(long, default_value_t = 200_000)]
    count: u32,
    /// Rounds, the statements in turn
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Rows of the table
    #[arg(long, default_value_t = 10_000)]
    rows: u32,
    /// Leaves the tables in memtables
    #[arg(long)]
    unsettled: bool,
    /// Measures without this
    #[arg(long)]
    without: Vec<Mechanism>,
    /// Does not read the clock: valgrind has none of a thread's processor time
    #[arg(long)]
    untimed: bool,
    /// Declares that this is a measurement and not a test
    #[arg(long)]
    bench: bool,
}

/// Processor time of this thread, in nanoseconds.
fn thread_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// The cost of a statement, for each run.
#[derive(Clone, Copy)]
struct Cost {
    ns: f64,
    allocations: f64,
}

/// The commands that are built before they are run, so that the client's work is not measured.
const TOGETHER: u32 = 1000;

/// Runs a statement by commands that were built. callgrind finds what to count by this function's
/// name.
#[inline(never)]
fn measured(prepared: &mut Prepared<'_>) {
    prepared.run();
}

/// Runs a statement `count` times, so that the memory that it reuses exists.
fn warm(prepared: &mut Prepared<'_>, count: u32) {
    prepared.make(count);
    prepared.run();
}

fn measure(prepared: &mut Prepared<'_>, count: u32, clock: fn() -> u64) -> Cost {
    let (mut ns, mut allocations) = (0, 0);
    for from in (0..count).step_by(TOGETHER as usize) {
        prepared.make(TOGETHER.min(count - from));
        let before = (clock(), counting::allocations());
        measured(prepared);
        ns += clock() - before.0;
        allocations += counting::allocations() - before.1;
    }
    let each = |sum: u64| sum as f64 / f64::from(count);
    Cost { ns: each(ns), allocations: each(allocations) }
}

fn bench(args: &Args) {
    let instance = load(args.rows, !args.unsettled, &args.without);
    let clock = if args.untimed { || 0 } else { thread_ns };
    let asked = |case: &&Case| args.case.as_ref().is_none_or(|name| name == case.name);
    let mut clients: Vec<(&Case, Prepared<'_>, Vec<Cost>)> = CASES
        .iter()
        .filter(asked)
        .map(|case| (case, Prepared::new(&instance, case, args.rows), Vec::new()))
        .collect();
    for (_, prepared, _) in &mut clients {
        // After the warm-up, the memory that runs share, the blocks of all rows, and the rows that
        // the row cache admits are in memory.
        warm(prepared, 3 * args.rows);
    }
    valgrind::begin();
    for _ in 0..args.rounds {
        for (_, prepared, costs) in &mut clients {
            costs.push(measure(prepared, args.count, clock));
        }
    }
    println!(
        "{:<20} {:>10} {:>10} {:>10} {:>12}  checksum",
        "statement", "ns", "lowest", "highest", "allocations"
    );
    for (case, prepared, costs) in &mut clients {
        costs.sort_by(|a, b| a.ns.total_cmp(&b.ns));
        let (Some(first), Some(last)) = (costs.first(), costs.last()) else { continue };
        let median = costs[costs.len() / 2];
        println!(
            "{:<20} {:>10.0} {:>10.0} {:>10.0} {:>12.3}  {:016x}",
            case.name, median.ns, first.ns, last.ns, median.allocations, prepared.checksum
        );
    }
}

/// The most allocations of each statement, averaged over many runs, once rows are in the row cache.
/// A changed row is one new allocation there. Entries of an index move, so they enter it again. A
/// lock allocates a long key. Occasionally a memtable grows.
const ALLOCATIONS_MAX: [(&str, f64); 17] = [
    ("ping", 0.0),
    ("select", 0.0),
    ("select text", 2.0),
    ("update", 1.2),
    ("update index", 1.3),
    ("select code", 0.0),
    ("update code", 3.2),
    ("insert", 0.3),
    ("update text", 4.2),
    ("update index text", 3.3),
    ("insert text", 5.5),
    ("short columns", 2.1),
    ("short columns text", 4.1),
    ("range columns", 2.1),
    ("range sum", 2.1),
    ("range covered", 2.1),
    ("ranges count", 12.0),
];

fn test() {
    const ROWS: u32 = 500;
    let instance = load(ROWS, true, &[]);
    for case in &CASES {
        let mut prepared = Prepared::new(&instance, case, ROWS);
        // Each row enters the row cache when it is read for the second time.
        warm(&mut prepared, 4 * ROWS);
        let cost = measure(&mut prepared, 2 * ROWS, || 0);
        let most = ALLOCATIONS_MAX.iter().find(|(name, _)| *name == case.name);
        if let Some((name, most)) = most {
            assert!(cost.allocations <= *most, "{name}: {} allocations", cost.allocations);
        }
    }
}

fn main() {
    // The arguments of a test run are for another harness.
    if std::env::args().any(|arg| arg == "--bench") { bench(&Args::parse()) } else { test() }
}
