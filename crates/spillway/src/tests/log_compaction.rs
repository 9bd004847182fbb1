//! Tests log compaction of the memory engine under crashes. The log is so small that segments are
//! handed over to the engine, compacted and released while a short history overwrites rows. The
//! disk crashes at an operation of the history, again during the recovery that follows, and again
//! soon after that recovery.
//!
//! Between the commits, one engine at a time persists its rows. So the engines' own files end at
//! different commits, and a cut of the log depends on both. Rows are evicted, so later reads find
//! them in segments that were handed over or compacted.

use std::process::Command;

use spillway_base::budget::Use;

use super::*;

/// Rows that are overwritten again and again.
const HOT: u64 = 10;
const STEPS: u64 = 90;
/// One operation in this many crashes; the commit that is checked out determines which.
const STRIDE: u64 = 10;

/// The memory engine may keep twice the live bytes and as many bytes as the log may have.
fn open_tiny(disk: &SimDisk) -> Result<Database> {
    let settings = Settings {
        log_segment_bytes: 16 << 10,
        log_bytes_max: 32 << 10,
        log_lanes: Some(2),
        ..small()
    };
    Database::open_on(Arc::new(disk.clone()), "/db", settings)
}

/// A number from the hash of the checked-out commit; 1 outside a repository.
fn commit_seed() -> u64 {
    let arguments = ["rev-parse", "--short=9", "HEAD"];
    let hash = Command::new("git").args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let hash = hash.ok().and_then(|output| String::from_utf8(output.stdout).ok());
    hash.and_then(|hash| u64::from_str_radix(hash.trim(), 16).ok()).unwrap_or(1)
}

/// What a history did.
#[derive(Default, Debug)]
struct Done {
    /// Steps after which the engines' own files ended at different commits.
    apart: u64,
    /// The most bytes of segments that had been handed over.
    kept_bytes: u64,
    compacted_bytes: u64,
    released: u64,
    evicted: u64,
    read_back: u64,
}

impl Done {
    fn note(&mut self, db: &Database) {
        let metrics = db.metrics();
        let figure = |name: &str| {
            let found = metrics.iter().find(|metric| metric.name == name);
            found.unwrap_or_else(|| panic!("{name}")).value as u64
        };
        let persisted: Vec<_> = db.0.engines.iter().map(|engine| engine.persisted()).collect();
        self.apart += u64::from(persisted[0] != persisted[1]);
        self.kept_bytes = self.kept_bytes.max(figure("memory_engine_kept_bytes"));
        self.compacted_bytes = figure("memory_engine_compacted_bytes_total");
        self.released = figure("memory_engine_released_segments_total");
        self.evicted = figure("memory_engine_evicted_total");
        self.read_back = figure("memory_engine_log_reads_total");
    }
}

/// A commit to tables of both engines. Returns the contents after it.
fn write(db: &Database, rng: &mut Rng, state: &Contents) -> Result<(CommitFuture, Contents)> {
    let txn = db.begin(TransactionOptions::new());
    let mut next = state.clone();
    for (name, engine) in [("m", EngineKind::Memory), ("t", EngineKind::Tiered)] {
        if !next.contains_key(name) {
            txn.create_table(name, engine)?;
            next.insert(name.to_owned(), BTreeMap::new());
        }
    }
    let mut writes: Vec<(&str, u64, Option<u64>)> = Vec::new();
    for _ in 0..3 {
        writes.push(("m", rng.below(HOT), rng.chance(7, 8).then(|| 800 + rng.below(400))));
    }
    if rng.chance(1, 3) {
        // A row that stays, so that its segment does not lose all of its rows.
        writes.push(("m", 1000 + rng.below(100_000), Some(500)));
    }
    writes.push(("t", rng.below(HOT), Some(rng.below(300))));
    for (name, key, len) in writes {
        let (table, key) = (txn.table(name)?, key.to_be_bytes());
        let rows = next.get_mut(name).expect("it exists");
        match len {
            Some(len) => {
                let value = vec![rng.next_u64() as u8; len as usize];
                txn.put(table, &key, &value)?;
                rows.insert(key.to_vec(), value);
            }
            None => {
                txn.delete(table, &key)?;
                rows.remove(key.as_slice());
            }
        }
    }
    Ok((txn.commit(), next))
}

/// Background work between two commits: often of one engine only.
fn work(db: &Database, rng: &mut Rng) -> Result<()> {
    match rng.below(10) {
        at @ 0..2 => db.0.engines[at as usize].persist_all()?,
        2 => db.0.manager.truncate_log()?,
        3 => {
            // The holders of memory are asked for all of it. The charge itself does not fit.
            let _ = db.budget().try_charge(Use::Other, db.budget().limit());
        }
        4..7 => while db.run_background_job()? {},
        _ => {}
    }
    Ok(())
}

/// Runs a history until the disk stops it. Returns how many of `states` were acknowledged.
fn life(
    disk: &SimDisk,
    seed: u64,
    states: &mut Vec<Contents>,
    steps: u64,
    done: &mut Done,
) -> usize {
    let mut acknowledged = states.len() - 1;
    let Ok(db) = open_tiny(disk) else { return acknowledged };
    let mut rng = Rng::new(seed);
    for _ in 0..steps {
        let state = states.last().cloned().unwrap_or_default();
        let Ok((future, next)) = write(&db, &mut rng, &state) else { return acknowledged };
        states.push(next);
        if future.wait().is_err() {
            return acknowledged;
        }
        acknowledged = states.len() - 1;
        if work(&db, &mut rng).is_err() {
            return acknowledged;
        }
        done.note(&db);
        // Reads bring evicted rows back, or find that the disk has crashed.
        if rng.chance(1, 4) {
            let txn = db.begin(TransactionOptions::new());
            let key = rng.below(HOT).to_be_bytes();
            let mut value = Vec::new();
            let there = txn.table("m").and_then(|table| txn.get(table, &key, &mut value));
            let Ok(there) = there else { return acknowledged };
            let expected = states[acknowledged]["m"].get(key.as_slice());
            assert_eq!(there.then_some(&value), expected);
        }
    }
    acknowledged
}

/// Restarts the machine, and checks that the database has one of the states from the last
/// acknowledged one on, and no damage. Forgets the later states.
fn restart(disk: &SimDisk, acknowledged: usize, states: &mut Vec<Contents>, when: &str) {
    disk.crash();
    disk.restart();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    if disk.exists(Path::new("/db/tiered")).unwrap() {
        let report = check::check_on(&shared, Path::new("/db"), &mut |_, _| {}).unwrap();
        assert!(report.findings.is_empty(), "{when}: {:?}", report.findings);
    }
    let found = contents(&open_tiny(&disk.fork()).unwrap());
    let last = states.len() - 1;
    let at = (acknowledged..=last).rfind(|at| states[*at] == found);
    let at = at.unwrap_or_else(|| panic!("{when}: not what {acknowledged}..={last} left"));
    states.truncate(at + 1);
}

#[test]
fn a_crash_while_segments_are_handed_over_compacted_and_released_loses_nothing() {
    let (whole, mut done) = (SimDisk::new(0), Done::default());
    let acknowledged = life(&whole, 31, &mut vec![Contents::new()], STEPS, &mut done);
    assert_eq!(acknowledged as u64, STEPS);
    let operations = whole.operations();
    assert!(done.apart > STEPS / 4, "{done:?}");
    assert!(done.kept_bytes > 32 << 10 && done.compacted_bytes > 0, "{done:?}");
    assert!(done.released > 10 && done.evicted > 50 && done.read_back > 10, "{done:?}");
    let rounds = std::env::var("SPILLWAY_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    let stride = if rounds.unwrap_or(1) > 1 { 1 } else { STRIDE };
    for crash_at in (1 + commit_seed() % stride..=operations).step_by(stride as usize) {
        let disk = SimDisk::new(crash_at);
        disk.fail_operation(crash_at, Fault::Crash);
        let mut states = vec![Contents::new()];
        // The second crash is in the recovery, the third early in the life after it.
        for (number, within) in [0, 23, 150].into_iter().enumerate() {
            if within > 0 {
                let at = disk.operations() + 1 + crash_at % within;
                disk.fail_operation(at, Fault::Crash);
            }
            let seed = 31 + number as u64;
            let acknowledged = life(&disk, seed, &mut states, STEPS, &mut Done::default());
            restart(&disk, acknowledged, &mut states, &format!("crash at {crash_at}, {number}"));
        }
        let last = life(&disk, 40, &mut states, 10, &mut Done::default());
        assert_eq!(last, states.len() - 1, "crash at {crash_at}: it goes on");
    }
}
