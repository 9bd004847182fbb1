//! Compares the memory of a database's process with its counted budget. The test is a program of
//! its own, so that nothing else runs in its process.

use spillway::{Database, Durability, EngineKind, Settings, TransactionOptions};
use spillway_base::rng::Rng;
use spillway_base::thread::together;
use spillway_bench::machine::resident_bytes;

const BUDGET: usize = 48 << 20;
/// The memory of threads, stacks, code and the heap's small allocations, for any budget, and the
/// freed memory that the heap keeps for a while.
const BASE: u64 = 32 << 20;
/// The memory that several threads take at once before each has made other users evict (`Budget`,
/// BUDGET-2).
const AT_ONCE: u64 = BUDGET as u64 / 16;
const ROWS: u64 = 300_000;
const THREADS: usize = 6;
const VALUE: [u8; 400] = [7; 400];

/// Data of several times the budget, written and read by several threads: the process takes the
/// counted memory, and little more.
#[test]
fn a_process_takes_what_the_budget_counts() {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = Settings::default();
    settings.memory_bytes = BUDGET;
    let db = Database::open(dir.path(), settings).unwrap();
    let txn = db.begin(TransactionOptions::new());
    let table = txn.create_table("rows", EngineKind::Tiered).unwrap();
    txn.commit().wait().unwrap();
    let before = resident_bytes();
    together(THREADS, |thread| {
        let mut rng = Rng::new(thread as u64);
        let mut value = Vec::new();
        for _ in 0..ROWS / THREADS as u64 {
            let txn = db.begin(TransactionOptions::new().durability(Durability::Relaxed));
            let key = |rng: &mut Rng| rng.below(ROWS).to_be_bytes();
            txn.put(table, &key(&mut rng), &VALUE).unwrap();
            txn.get(table, &key(&mut rng), &mut value).unwrap();
            txn.commit().wait().unwrap();
        }
    });
    let (taken, counted) = (resident_bytes() - before, db.budget().used() as u64);
    assert!(counted > BUDGET as u64 / 4, "{counted} bytes are too few to tell");
    assert!(taken < counted + BASE, "{} MiB taken, {} counted", taken >> 20, counted >> 20);
    assert!(counted < BUDGET as u64 + AT_ONCE, "{} KiB counted", counted >> 10);
    db.close().unwrap();
    let counted = db.budget().used();
    assert!(counted <= BUDGET, "{} KiB counted at rest", counted >> 10);
}
