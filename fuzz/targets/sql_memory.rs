#![no_main]
//! Statements that may take much memory: long lists, texts and values, many tables, columns,
//! variables and locks, large temporary results. Each runs or fails within the memory that the
//! database may take, and nothing is left after the session.

mod common;
#[path = "common/large.rs"]
mod large;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::Builder;

use common::{Ignored, small_settings};
use spillway::Database;
use spillway_base::budget::Use;
use spillway_sql::Instance;
use spillway_storage::sim::SimDisk;

/// Counts the bytes that the process holds. The pages of memtables and caches are not among them:
/// they are mapped, and the budget is charged for all of them.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

fn grow(bytes: usize) {
    let held = HELD.fetch_add(bytes, Relaxed) + bytes;
    MOST.fetch_max(held, Relaxed);
}

// SAFETY: all calls go to the system's allocator as they are.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        let memory = unsafe { System.alloc(layout) };
        if !memory.is_null() {
            grow(layout.size());
        }
        memory
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as the caller promises.
        let memory = unsafe { System.alloc_zeroed(layout) };
        if !memory.is_null() {
            grow(layout.size());
        }
        memory
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) };
        HELD.fetch_sub(layout.size(), Relaxed);
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as the caller promises.
        let moved = unsafe { System.realloc(memory, layout, bytes) };
        if !moved.is_null() {
            grow(bytes);
            HELD.fetch_sub(layout.size(), Relaxed);
        }
        moved
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// What a process may take beside 1.05 times its budget (docs/operations.md, Memory).
const FIXED_BYTES: usize = 64 << 20;
/// The share of the budget that plans for all sessions may keep (docs/operations.md, Memory).
const PLANS_SHARE: usize = 32;
/// What a closed database may leave: what libraries keep once they were used.
const LEFT_BYTES: usize = 1 << 20;
/// What the database may hold after a session beyond what the budget says: heads of memtables and
/// of cached rows, definitions of tables.
const KEPT_BYTES: usize = 8 << 20;

/// The longest value of a function. Longer ones would make inputs slow.
const VALUE_BYTES_MAX: usize = 4 << 20;
/// As the main thread's.
const STACK_BYTES: usize = 8 << 20;

fn held() -> usize {
    HELD.load(Relaxed)
}

/// The bytes that the files of the disk take in memory, cached and synced.
fn disk_bytes(disk: &SimDisk) -> usize {
    2 * disk.used() as usize
}

/// Runs the statements that an input describes in one session, which may have taken this much.
fn run(instance: &Instance, disk: &SimDisk, before: usize, mut bytes: &[u8]) {
    let budget = instance.database().budget();
    let allowed = budget.limit() + budget.limit() / 20 + FIXED_BYTES;
    let mut session = instance.session("root", "localhost", 1);
    session
        .query(
            "USE test; SET max_execution_time = 1000, lock_wait_timeout = 1, \
             innodb_lock_wait_timeout = 1, group_concat_max_len = 1000000000",
            &mut Ignored,
        )
        .expect("the statements before");
    for _ in 0..8 {
        let is_prepared = bytes.split_off_first().is_some_and(|byte| byte % 4 == 0);
        let Some(text) = large::take(&mut bytes) else { break };
        let (own, begin) = (text.capacity(), held());
        MOST.store(begin, Relaxed);
        let outcome = if is_prepared {
            session.prepare(&text).and_then(|prepared| {
                let params = vec![spillway_types::Value::Int(1); prepared.params];
                session.execute(prepared.id, &params, &mut Ignored)
            })
        } else {
            session.query(&text, &mut Ignored)
        };
        let most = MOST.load(Relaxed).saturating_sub(before + own + disk_bytes(disk));
        assert!(
            most <= allowed,
            "{most} bytes, {allowed} allowed, {} at the statement's begin, {} charged after it, \
             {outcome:?}: {:.200}",
            begin.saturating_sub(before),
            budget.used(),
            text
        );
    }
    let _ = session.query("ROLLBACK", &mut Ignored);
    session.query("SELECT 1", &mut Ignored).expect("a session that goes on");
}

fn run_all(bytes: &[u8]) {
    let before = held();
    let disk = SimDisk::new(0);
    {
        let settings = small_settings();
        let db = Database::open_on(Arc::new(disk.clone()), "/spillway", settings)
            .expect("a new database");
        let instance = Instance::open(db).expect("a new catalog");
        let rows: Vec<String> =
            (1..=200).map(|id| format!("({id}, {}, 'row {id}')", id % 7)).collect();
        let mut setup = instance.session("root", "localhost", 2);
        let sql = format!(
            "USE test; SET GLOBAL max_allowed_packet = {VALUE_BYTES_MAX}; CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a INT, s LONGTEXT); \
             INSERT INTO t VALUES {}",
            rows.join(",")
        );
        setup.query(&sql, &mut Ignored).expect("the statements before");
        drop((setup, sql, rows));
        let budget = instance.database().budget();
        let start = (held(), budget.used());
        run(&instance, &disk, before, bytes);
        let charged = budget.used_for(Use::Connections);
        assert!(charged <= budget.limit() / PLANS_SHARE, "{charged} bytes charged after it");
        let grown = held()
            .saturating_sub(start.0 + budget.used().saturating_sub(start.1) + disk_bytes(&disk));
        assert!(grown <= KEPT_BYTES, "{grown} bytes after the session");
    }
}

/// Runs an input on a thread of its own, which frees its thread-local memory when it ends.
fn run_apart(bytes: &[u8]) {
    std::thread::scope(|scope| {
        let thread = Builder::new().stack_size(STACK_BYTES);
        let thread = thread.spawn_scoped(scope, || run_all(bytes)).expect("a thread");
        thread.join().expect("a panic would have ended the process");
    });
}

libfuzzer_sys::fuzz_target!(init: {
    // What libraries keep after their first use does not count.
    run_apart(&[]);
}, |bytes: &[u8]| {
    let before = held();
    run_apart(bytes);
    let left = held().saturating_sub(before);
    assert!(left <= LEFT_BYTES, "{left} bytes after the database was closed");
});
