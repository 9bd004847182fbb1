//! The engine against a model that keeps every version, on a simulated disk.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::*;
use crate::coding::Compression;
use crate::memtable::Memtable;
use crate::picker::Kind;
use spillway_base::batch::Op;
use spillway_base::rng::Rng;
use spillway_storage::sim::{Fault, SimDisk};

mod coding;
mod damage;
mod deferred_free;
mod drops;
mod edges;
mod faults;
mod kinds;
mod level0;
mod metadata;
mod metamorphic;
mod overlap;
mod partial_read;
mod partition;
mod races;
mod ranges;
mod readahead;
mod reads;
mod recall;
mod rows;
mod scans;
mod shares;
mod space;
mod stale;
mod stats_snapshot;
mod temperature;
mod tiers;
mod tombstone_skip;
mod verify;
mod watched;

/// A horizon that the test moves.
struct TestHorizon {
    stable: AtomicU64,
    /// The installed prefix, if it is above the stable CSN.
    installed: AtomicU64,
    live: Mutex<Vec<Csn>>,
    /// Called once, after the next read of the stable CSN and before the engine uses it.
    after_stable: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Horizon for TestHorizon {
    fn stable(&self) -> Csn {
        let stable = Csn(self.stable.load(Ordering::SeqCst));
        let called = self.after_stable.lock().take();
        called.into_iter().for_each(|called| called());
        stable
    }

    fn installed(&self) -> Csn {
        self.stable().max(Csn(self.installed.load(Ordering::SeqCst)))
    }

    fn live_snapshots(&self, out: &mut Vec<Csn>) {
        out.clear();
        out.extend(self.live.lock().iter());
        out.push(self.stable());
        out.sort_unstable();
        out.dedup();
    }
}

fn table(ordinal: u32) -> TableId {
    TableId::new(EngineKind::Tiered, ordinal)
}

fn small() -> TieredSettings {
    TieredSettings {
        row_cache_share: 0.25,
        adaptive_share: true,
        paced_compaction: true,
        data_reuse: true,
        gaps: true,
        block_nodes: true,
        simd: true,
        overlapped_compactions: true,
        recall: true,
        tiers: Vec::new(),
        hot_block_bytes: TieredSettings::BLOCK_BYTES,
        hot_compression: Compression::Lz4,
        cold_compression: Compression::ZSTD,
        settle_after: Duration::MAX,
        subtable_bytes: 4 << 20,
        subtables_max: 16,
        memtables_bytes: 8 << 20,
        memtable_bytes: 1 << 20,
        cache_bytes: 1 << 20,
        cache_bytes_min: 0,
        large_pages: false,
        part_reads: true,
        range_filters: true,
        read_ahead: true,
        read_queues: 2,
        gathered_reads: true,
        lone_waits: true,
        direct_reads: false,
        slot_bytes: 64 << 10,
        file_bytes: 1 << 20,
        compaction_order: Kind::ORDER.into(),
        deletions_min: 20,
        space_max: 2.0,
        level0_target: 3,
        level0_share: 0.0,
        level0_bytes: 8 << 10,
        level0_limit: 12,
        even_level0: true,
        temperature: true,
        hot_share: 0.5,
        manifest_bytes: 2 << 10,
    }
}

/// Sub-tables are split as soon as they can be.
fn small_parts() -> TieredSettings {
    TieredSettings { subtable_bytes: 100 << 10, ..small() }
}

struct Bench {
    engine: TieredEngine,
    horizon: Arc<TestHorizon>,
}

fn dir() -> PathBuf {
    PathBuf::from("/data")
}

fn open(disk: &SimDisk) -> Result<Bench> {
    open_with(Arc::new(disk.clone()), small())
}

fn open_with(disk: Arc<dyn Disk>, settings: TieredSettings) -> Result<Bench> {
    open_within(disk, settings, Budget::new(64 << 20))
}

fn open_within(disk: Arc<dyn Disk>, settings: TieredSettings, budget: Budget) -> Result<Bench> {
    let horizon = Arc::new(TestHorizon {
        stable: AtomicU64::new(0),
        installed: AtomicU64::new(0),
        live: Mutex::new(Vec::new()),
        after_stable: Mutex::default(),
    });
    let engine = TieredEngine::open(disk, &dir(), settings, horizon.clone(), budget)?;
    Ok(Bench { engine, horizon })
}

fn batch(ops: &[Op<'_>]) -> WriteBatch {
    let mut batch = WriteBatch::new();
    ops.iter().for_each(|op| batch.push(*op));
    batch
}

type Commit = (Csn, WriteBatch);

impl Bench {
    fn install(&self, (csn, batch): &Commit) {
        self.engine.install(*csn, batch);
        self.horizon.stable.fetch_max(csn.0, Ordering::SeqCst);
    }

    /// A table and its first sub-table.
    fn part(&self, ordinal: u32) -> (Arc<Table>, Arc<SubTable>) {
        let found = self.engine.0.tables.load()[&table(ordinal)].clone();
        let part = found.all_parts().swap_remove(0);
        (found, part)
    }

    fn work(&self) -> Result<()> {
        self.work_and(&mut |_| {})
    }

    /// As `work`, and calls `worked` after each piece of work.
    fn work_and(&self, worked: &mut dyn FnMut(&Inner)) -> Result<()> {
        for _ in 0..10_000 {
            if self.engine.run_background_job()? == JobOutcome::Idle {
                return Ok(());
            }
            worked(&self.engine.0);
        }
        panic!("work without end: {:?}", self.engine.0.statistics.figures());
    }

    fn get(&self, id: TableId, key: &[u8], snapshot: Csn) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        let found = self.engine.get(id, key, snapshot, Access::Blocking, &mut value)?;
        Ok(found.is_value().then_some(value))
    }

    /// The result of a get. A recall must return the same, if it returns a certain result (E13).
    /// Every commit up to the snapshot is installed.
    fn get_and_recall(&self, id: TableId, key: &[u8], snapshot: Csn) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        let recalled = self.engine.recall(id, key, snapshot, Access::Blocking, &mut value)?;
        let found = self.get(id, key, snapshot);
        if let Some(recalled) = recalled {
            let recalled = recalled.is_value().then_some(value);
            let same = found.as_ref().is_ok_and(|found| *found == recalled);
            assert!(same, "{key:?} at {snapshot}: {recalled:?} and {found:?}");
        }
        found
    }

    fn rows(
        &self,
        id: TableId,
        range: KeyRange<'_>,
        direction: Direction,
        snapshot: Csn,
    ) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut cursor = self.engine.scan(id, range, direction, snapshot, Access::Blocking)?;
        let mut rows = Vec::new();
        while cursor.next(Access::Blocking)? {
            rows.push((cursor.key().to_vec(), cursor.value().to_vec()));
        }
        Ok(rows)
    }
}

/// Bytes that cannot be compressed.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let words = std::iter::repeat_with(|| rng.next_u64().to_le_bytes());
    words.take(bytes.div_ceil(8)).flatten().take(bytes).collect()
}

/// The commits of a seeded history over two tables, some values large.
fn history(seed: u64, commits: u64) -> Vec<Commit> {
    let mut rng = Rng::new(seed);
    let mut all = Vec::new();
    for csn in 1..=commits {
        let mut batch = WriteBatch::new();
        if csn <= 2 {
            batch.push(Op::CreateTable(table(csn as u32)));
        } else {
            for _ in 0..1 + rng.below(4) {
                let id = table(1 + rng.below(2) as u32);
                let key = format!("key{:03}", rng.below(120)).into_bytes();
                if rng.chance(1, 4) {
                    batch.push(Op::Delete { table: id, key: &key });
                } else {
                    let large = rng.chance(1, 40);
                    let bytes = rng.below(if large { 200_000 } else { 3000 }) as usize;
                    let value =
                        if csn % 4 == 0 { vec![csn as u8; bytes] } else { noise(csn, bytes) };
                    batch.push(Op::Put { table: id, key: &key, value: &value });
                }
            }
        }
        all.push((Csn(csn), batch));
    }
    all
}

type Rows = BTreeMap<(TableId, Vec<u8>), Vec<u8>>;

/// The rows that a snapshot sees after these commits.
fn model(commits: &[Commit], snapshot: Csn) -> Rows {
    let mut rows: BTreeMap<(TableId, Vec<u8>), (Csn, Vec<u8>)> = BTreeMap::new();
    for (csn, batch) in commits.iter().filter(|(csn, _)| *csn <= snapshot) {
        for op in batch.iter() {
            match op {
                Op::Put { table, key, value } => {
                    rows.insert((table, key.to_vec()), (*csn, value.to_vec()));
                }
                Op::Delete { table, key } => {
                    rows.remove(&(table, key.to_vec()));
                }
                Op::DeleteRange { table, range, upto } => rows.retain(|(of, key), (csn, _)| {
                    *of != table || !range.contains(key) || *csn > upto
                }),
                Op::CreateTable(_) => {}
                Op::DropTable(table) => rows.retain(|(of, _), _| *of != table),
            }
        }
    }
    rows.into_iter().map(|(key, (_, value))| (key, value)).collect()
}

fn check(bench: &Bench, commits: &[Commit], snapshot: Csn, rng: &mut Rng) {
    let wanted = model(commits, snapshot);
    for id in [table(1), table(2)] {
        let mut all: Vec<_> = wanted
            .iter()
            .filter(|((of, _), _)| *of == id)
            .map(|((_, key), value)| (key.clone(), value.clone()))
            .collect();
        let found = bench.rows(id, KeyRange::ALL, Direction::Forward, snapshot).unwrap();
        assert!(found == all, "forward at {snapshot}");
        let (low, high) = (rng.below(120), rng.below(120));
        let (low, high) = (format!("key{low:03}"), format!("key{high:03}"));
        let range = KeyRange::new(low.as_bytes(), Some(high.as_bytes()));
        all.retain(|(key, _)| range.contains(key));
        all.reverse();
        let found = bench.rows(id, range, Direction::Backward, snapshot).unwrap();
        assert!(found == all, "backward at {snapshot}, {low}..{high}");
        for _ in 0..10 {
            let key = format!("key{:03}", rng.below(125)).into_bytes();
            let found = bench.get(id, &key, snapshot).unwrap();
            assert!(found.as_ref() == wanted.get(&(id, key)));
        }
    }
}

#[test]
fn random_histories_read_as_the_model_through_flushes_compactions_and_reopening() {
    random_histories(0..6, history);
}

/// Runs a history for each seed. `history` creates one from a seed and a number of commits.
fn random_histories(seeds: std::ops::Range<u64>, history: fn(u64, u64) -> Vec<Commit>) {
    let (mut splits, mut joins, mut compactions) = (0, 0, 0);
    for seed in seeds {
        let disk = SimDisk::new(seed);
        let mut rng = Rng::new(seed + 100);
        let commits = history(seed, 600);
        let level0_share = if seed < 3 { 0.0 } else { 0.1 };
        let settings = || match seed % 2 {
            0 => TieredSettings { level0_share, ..small() },
            _ => TieredSettings { level0_share, ..small_parts() },
        };
        let open = |disk: &SimDisk| open_with(Arc::new(disk.clone()), settings());
        let mut bench = open(&disk).unwrap();
        let mut old: Vec<Csn> = Vec::new();
        for (at, commit) in commits.iter().enumerate() {
            bench.install(commit);
            let newest = commit.0;
            if newest.0 > 10 && rng.chance(1, 40) {
                old.push(newest);
                *bench.horizon.live.lock() = old.clone();
            }
            if rng.chance(1, 12) {
                bench.engine.request_persist(Csn(rng.below(newest.0)));
                bench.work().unwrap();
            }
            if rng.chance(1, 60) && newest.0 > 2 {
                let found = bench.part(1).0;
                if let [first, second, ..] = &found.all_parts()[..] {
                    bench.engine.0.join(&found, first, second).unwrap();
                }
                let done = &commits[..=at];
                check(&bench, done, newest, &mut rng);
                for snapshot in &old {
                    check(&bench, done, *snapshot, &mut rng);
                }
                if rng.chance(1, 3) {
                    old.clear();
                    bench.horizon.live.lock().clear();
                }
            }
            if rng.chance(1, 80) {
                let persisted = bench.engine.persisted();
                old.clear();
                compactions += minor_compactions(&bench);
                splits += bench.engine.0.statistics.figures().splits;
                joins += bench.engine.0.statistics.figures().joins;
                drop(bench);
                bench = open(&disk).unwrap();
                for commit in commits[..=at].iter().filter(|(csn, _)| *csn > persisted) {
                    bench.install(commit);
                }
                bench.horizon.stable.fetch_max(newest.0, Ordering::SeqCst);
            }
        }
        let last = Csn(commits.len() as u64);
        check(&bench, &commits, last, &mut rng);
        bench.horizon.live.lock().clear();
        bench.engine.compact_all().unwrap();
        check(&bench, &commits, last, &mut rng);
        assert_eq!(bench.engine.persisted(), last);
        let rows = model(&commits, last).len() as u64;
        let versions: u64 =
            bench.engine.status().iter().map(|table| table.levels[2].versions).sum();
        assert_eq!(versions, rows, "a full compaction leaves one version of each row");
        for (_, part) in bench.engine.0.tables.all_parts() {
            assert!(part.view().levels.ranges.is_empty(), "nothing is left for them to hide");
        }
        compactions += minor_compactions(&bench);
        splits += bench.engine.0.statistics.figures().splits;
        joins += bench.engine.0.statistics.figures().joins;
        drop(bench);
        verify_clean(&disk);
    }
    assert!(splits > 5 && joins > 0, "{splits} splits and {joins} joins");
    assert!(compactions > 10, "{compactions} minor compactions");
}

fn minor_compactions(bench: &Bench) -> u64 {
    bench.engine.0.statistics.figures().compactions[Kind::Minor as usize]
}

fn verify_clean(disk: &SimDisk) {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let report = crate::verify(&disk, &dir(), &mut |_, _| {}).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

/// Runs a history with flushes and compactions until the disk stops it. Returns the newest
/// persisted CSN that the engine claimed.
fn drive_with(disk: &SimDisk, commits: &[Commit], seed: u64, settings: TieredSettings) -> Csn {
    drive_and(disk, commits, seed, settings, &mut |_| {})
}

/// As `drive_with`, and calls `worked` when the engine is open, and after each piece of background
/// work.
fn drive_and(
    disk: &SimDisk,
    commits: &[Commit],
    seed: u64,
    settings: TieredSettings,
    worked: &mut dyn FnMut(&Inner),
) -> Csn {
    let mut rng = Rng::new(seed);
    let mut claimed = Csn::ZERO;
    let Ok(bench) = open_with(Arc::new(disk.clone()), settings) else { return claimed };
    worked(&bench.engine.0);
    for commit in commits {
        bench.install(commit);
        if rng.chance(1, 6) {
            bench.engine.request_persist(commit.0);
            if bench.work_and(worked).is_err() {
                return claimed;
            }
            claimed = bench.engine.persisted();
        }
    }
    claimed
}

/// E6: after a crash at any operation, the engine has every commit that it claimed to have
/// persisted. After the later commits were installed again, it equals the model. Nothing is
/// damaged, and no slot has two owners.
#[test]
fn e6_a_crash_at_every_operation_loses_nothing_that_was_persisted() {
    crash_at_every_operation(&history(9, 70), small());
}

fn crash_at_every_operation(commits: &[Commit], settings: TieredSettings) {
    let drive = |disk: &SimDisk| drive_with(disk, commits, 3, settings.clone());
    let whole = SimDisk::new(0);
    drive(&whole);
    let operations = whole.operations();
    assert!(operations > 150, "{operations}");
    for crash_at in 1..=operations {
        let disk = SimDisk::new(crash_at);
        disk.fail_operation(crash_at, Fault::Crash);
        let claimed = drive(&disk);
        disk.crash();
        disk.restart();
        verify_clean(&disk);
        let bench = open_with(Arc::new(disk.clone()), settings.clone()).unwrap();
        for commit in commits.iter().filter(|(csn, _)| *csn > claimed) {
            bench.install(commit);
        }
        bench.horizon.stable.store(70, Ordering::SeqCst);
        check(&bench, commits, Csn(70), &mut Rng::new(crash_at));
        bench.engine.compact_all().unwrap();
        check(&bench, commits, Csn(70), &mut Rng::new(crash_at));
    }
}

#[test]
fn e7_nothing_above_the_stable_csn_is_flushed() {
    let disk = SimDisk::new(1);
    let bench = open(&disk).unwrap();
    let commits = history(5, 30);
    commits.iter().for_each(|commit| bench.install(commit));
    bench.horizon.stable.store(29, Ordering::SeqCst);
    bench.engine.request_persist(Csn(30));
    bench.work().unwrap();
    let slices = |status: &TableStatus| status.levels.iter().map(|level| level.slices).sum::<u64>();
    let flushed = |bench: &Bench| bench.engine.status().iter().any(|table| slices(table) > 0);
    let above: Vec<TableId> = commits[29].1.iter().map(|op| op.table()).collect();
    let status = bench.engine.status();
    assert!(status.iter().filter(|t| above.contains(&t.table)).all(|table| slices(table) == 0));
    bench.horizon.stable.store(30, Ordering::SeqCst);
    bench.work().unwrap();
    assert!(flushed(&bench));
    assert_eq!(bench.engine.persisted(), Csn(30));
}

#[test]
fn a_full_disk_stops_flushes_and_nothing_is_lost() {
    let disk = SimDisk::new(1);
    let bench = open(&disk).unwrap();
    let commits = history(6, 200);
    for commit in &commits[..100] {
        bench.install(commit);
    }
    bench.engine.flush_all().unwrap();
    disk.set_capacity(Some(disk.used()));
    for commit in &commits[100..] {
        bench.install(commit);
    }
    bench.engine.request_persist(Csn(200));
    let refused = (0..40).find_map(|_| bench.work().err()).unwrap();
    assert_eq!(refused.kind(), ErrorKind::DiskFull);
    assert!(bench.engine.health().is_ok());
    check(&bench, &commits, Csn(200), &mut Rng::new(1));
    disk.set_capacity(None);
    bench.work().unwrap();
    assert_eq!(bench.engine.persisted(), Csn(200));
    check(&bench, &commits, Csn(200), &mut Rng::new(2));
}

#[test]
fn e8_a_failed_write_stops_the_background_and_reads_go_on() {
    let disk = SimDisk::new(1);
    let bench = open(&disk).unwrap();
    let commits = history(6, 100);
    commits.iter().for_each(|commit| bench.install(commit));
    bench.engine.request_persist(Csn(100));
    bench.engine.run_background_job().unwrap();
    disk.fail_syncs();
    assert!((0..40).any(|_| bench.work().is_err()));
    disk.heal();
    assert!(bench.engine.health().is_err() && bench.work().is_err());
    check(&bench, &commits, Csn(100), &mut Rng::new(1));
    assert!(bench.engine.persisted() < Csn(100));
}

#[test]
fn e9_a_read_from_memory_only_says_when_it_would_wait() {
    let disk = SimDisk::new(1);
    let bench = open(&disk).unwrap();
    let commits = history(6, 100);
    commits.iter().for_each(|commit| bench.install(commit));
    bench.engine.flush_all().unwrap();
    let rows = model(&commits, Csn(100));
    let (id, key) = rows.keys().next().cloned().unwrap();
    let mut value = Vec::new();
    let mut read = |access| bench.engine.get(id, &key, Csn(100), access, &mut value);
    assert_eq!(read(Access::MemoryOnly).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert!(read(Access::Blocking).unwrap().is_value());
    assert!(read(Access::MemoryOnly).unwrap().is_value());

    let range = KeyRange::ALL;
    let direction = Direction::Forward;
    let mut cursor = bench.engine.scan(id, range, direction, Csn(100), Access::MemoryOnly).unwrap();
    let mut found = Vec::new();
    loop {
        match cursor.next(Access::MemoryOnly) {
            Ok(true) => found.push(cursor.key().to_vec()),
            Ok(false) => break,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                match cursor.next(Access::Blocking).unwrap() {
                    true => found.push(cursor.key().to_vec()),
                    false => break,
                }
            }
        }
    }
    let wanted: Vec<_> =
        rows.keys().filter(|(of, _)| *of == id).map(|(_, key)| key.clone()).collect();
    assert_eq!(found, wanted);
}

#[test]
fn e5_a_dropped_table_goes_when_nobody_sees_it_and_its_space_comes_back() {
    let disk = SimDisk::new(1);
    let bench = open(&disk).unwrap();
    let commits = history(6, 400);
    commits.iter().for_each(|commit| bench.install(commit));
    bench.engine.flush_all().unwrap();
    let before = bench.engine.0.space.bytes();
    *bench.horizon.live.lock() = vec![Csn(400)];
    for (csn, ordinal) in [(401, 1), (402, 2)] {
        let mut batch = WriteBatch::new();
        batch.push(Op::DropTable(table(ordinal)));
        bench.install(&(Csn(csn), batch));
    }
    bench.work().unwrap();
    assert!(bench.engine.tables().is_empty());
    assert!(bench.get(table(1), b"key001", Csn(402)).is_err());
    check(&bench, &commits, Csn(400), &mut Rng::new(1));
    assert_eq!(bench.engine.persisted(), Csn(402), "a crash ends the snapshots that hold a table");
    let crashed = disk.fork();
    assert!(open(&crashed).unwrap().engine.tables().is_empty());
    verify_clean(&crashed);
    bench.horizon.live.lock().clear();
    bench.work().unwrap();
    let after = bench.engine.0.space.bytes();
    assert!(after.0 < before.0 && after.0 == after.1, "{before:?} {after:?}");
    assert_eq!(bench.engine.persisted(), Csn(402));
    drop(bench);
    assert!(open(&disk).unwrap().engine.tables().is_empty());
    verify_clean(&disk);
}

#[test]
fn e2_threads_install_read_and_flush_at_once() {
    let disk = SimDisk::new(1);
    let bench = open(&disk).unwrap();
    let mut batch = WriteBatch::new();
    batch.push(Op::CreateTable(table(1)));
    bench.install(&(Csn(1), batch));
    let background = bench.engine.start_background(1).unwrap();
    let threads = 3_u64;
    let next = AtomicU64::new(2);
    // Commits that are installed, and those that wait for an earlier commit.
    let done = Mutex::new((1, std::collections::BTreeSet::new()));
    spillway_base::thread::together(threads as usize, |thread| {
        for step in 0..3000_u64 {
            let key = format!("t{thread}k{:04}", step % 300);
            let mut batch = WriteBatch::new();
            let value = vec![step as u8; 2000];
            batch.push(Op::Put { table: table(1), key: key.as_bytes(), value: &value });
            bench.engine.admit(batch.as_bytes().len()).unwrap();
            let csn = Csn(next.fetch_add(1, Ordering::SeqCst));
            bench.engine.install(csn, &batch);
            let found = bench.get(table(1), key.as_bytes(), Csn(u64::MAX - 1)).unwrap();
            assert_eq!(found.as_ref(), Some(&value));
            let mut done = done.lock();
            let (prefix, waiting) = &mut *done;
            waiting.insert(csn.0);
            while waiting.remove(&(*prefix + 1)) {
                *prefix += 1;
            }
            bench.horizon.stable.store(*prefix, Ordering::SeqCst);
        }
    });
    assert_eq!(bench.horizon.stable(), Csn(1 + 3000 * threads));
    assert!(bench.engine.0.statistics.figures().flushes > 0);
    drop(background);
    bench.engine.flush_all().unwrap();
    let rows =
        bench.rows(table(1), KeyRange::ALL, Direction::Forward, bench.horizon.stable()).unwrap();
    assert_eq!(rows.len(), 900);
    assert!(
        rows.iter()
            .all(|(_, value)| value.len() == 2000 && value.iter().all(|byte| *byte == value[0]))
    );
}
