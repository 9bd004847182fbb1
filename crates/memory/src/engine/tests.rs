//! Random histories of the engine over a log that the test writes, with evictions, checkpoints,
//! compactions, cuts of the log and crashes. A model that keeps every version is the oracle.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use spillway_base::batch::{Op, WriteBatch, placed_ops, seal_rows};
use spillway_base::budget::Budget;
use spillway_base::engine::{Access, Engine, Found, Horizon, Replayed};
use spillway_base::lock::Mutex;
use spillway_base::log_place::LogPlace;
use spillway_base::managed::ManagedEngine;
use spillway_base::rng::Rng;
use spillway_base::sync::atomic::{AtomicU64, Ordering};
use spillway_base::{Csn, Direction, EngineKind, ErrorKind, KeyRange, Result, TableId};
use spillway_storage::plog::KeptFiles;
use spillway_storage::sim::SimDisk;
use spillway_storage::{Disk, OpenMode};

use super::{Inner, MEMORY_PER_BYTE, MemoryEngine, MemorySettings};
use crate::version::{HEADER_BYTES, Target, Word, class_bytes};

mod checkpoint_space;
mod compact_lists;
mod full_disk;
mod holes;
mod inspect;
mod large_values;
mod loading;
mod reads;
mod scenarios;
mod updates;

const LOG: &str = "/log";
const DATA: &str = "/memory";
const BEGIN: u64 = 4096;

/// A horizon that the test moves: the stable CSN, the live snapshots, and a CSN above which
/// deletions must stay, also after a crash, as overlays of spilled writes require.
#[derive(Default)]
struct TestHorizon(Mutex<(Csn, Vec<Csn>, Option<Csn>)>);

impl Horizon for TestHorizon {
    fn stable(&self) -> Csn {
        self.0.lock().0
    }
    fn installed(&self) -> Csn {
        self.0.lock().0
    }
    fn live_snapshots(&self, out: &mut Vec<Csn>) {
        let state = self.0.lock();
        out.clear();
        out.extend_from_slice(&state.1);
        out.extend(state.2);
        out.push(state.0);
        out.sort_unstable();
        out.dedup();
    }
}

/// A commit in the test's log.
#[derive(Clone)]
struct Logged {
    csn: Csn,
    place: LogPlace,
    batch: WriteBatch,
}

type Versions = Vec<(Csn, Option<Vec<u8>>)>;

#[derive(Clone, Default)]
struct Model {
    rows: BTreeMap<(TableId, Vec<u8>), Versions>,
    tables: BTreeMap<TableId, (Csn, Csn)>,
}

impl Model {
    fn apply(&mut self, csn: Csn, batch: &WriteBatch) {
        for op in batch.iter() {
            match op {
                Op::Put { table, key, value } => self.set(table, key, csn, Some(value)),
                Op::Delete { table, key } => self.set(table, key, csn, None),
                Op::DeleteRange { table, range, upto } => {
                    let keys: Vec<Vec<u8>> = self
                        .rows
                        .iter()
                        .filter(|((of, key), versions)| {
                            let newest = versions.iter().rfind(|(at, _)| *at < csn);
                            *of == table
                                && range.contains(key)
                                && newest.is_some_and(|(at, _)| *at <= upto)
                        })
                        .map(|((_, key), _)| key.clone())
                        .collect();
                    for key in keys {
                        let versions = self.rows.get_mut(&(table, key)).unwrap();
                        if versions.last().is_some_and(|(at, _)| *at < csn) {
                            versions.push((csn, None));
                        }
                    }
                }
                Op::CreateTable(table) => _ = self.tables.insert(table, (csn, Csn::MAX)),
                Op::DropTable(table) => self.tables.get_mut(&table).unwrap().1 = csn,
            }
        }
    }

    fn set(&mut self, table: TableId, key: &[u8], csn: Csn, value: Option<&[u8]>) {
        let versions = self.rows.entry((table, key.to_vec())).or_default();
        versions.retain(|(at, _)| *at != csn);
        versions.push((csn, value.map(<[u8]>::to_vec)));
    }

    fn get(&self, table: TableId, key: &[u8], snapshot: Csn) -> Option<&Vec<u8>> {
        let versions = self.rows.get(&(table, key.to_vec()))?;
        versions.iter().rfind(|(csn, _)| *csn <= snapshot)?.1.as_ref()
    }

    fn scan(&self, table: TableId, range: KeyRange<'_>, snapshot: Csn) -> Vec<(Vec<u8>, Vec<u8>)> {
        let of_table = self.rows.keys().filter(|(of, key)| *of == table && range.contains(key));
        let rows = of_table
            .filter_map(|(_, key)| Some((key.clone(), self.get(table, key, snapshot)?.clone())));
        rows.collect()
    }

    fn exists(&self, table: TableId, snapshot: Csn) -> bool {
        self.tables.get(&table).is_some_and(|(from, to)| *from <= snapshot && snapshot < *to)
    }
}

struct World {
    disk: Arc<SimDisk>,
    horizon: Arc<TestHorizon>,
    budget: Budget,
    engine: MemoryEngine,
    model: Model,
    /// Commits of segments that are still in the redo log.
    log: Vec<Logged>,
    csn: Csn,
    segment: u64,
    end: u64,
    /// Installed commits whose places the engine does not know yet.
    untold: Vec<Logged>,
    rng: Rng,
    next_table: u32,
    /// Counts of the engines before the last crash. The last counts checks of engines that had not
    /// loaded all keys.
    counted: [u64; 8],
}

fn segment_path(segment: u64, kind: &str) -> PathBuf {
    Path::new(LOG).join(format!("00-{segment:016x}.{kind}"))
}

fn open(disk: &Arc<SimDisk>, horizon: &Arc<TestHorizon>, budget: &Budget) -> Result<MemoryEngine> {
    MemoryEngine::open(
        disk.clone(),
        Path::new(DATA),
        MemorySettings { space_max: 1.2, space_rest: 0, ..MemorySettings::default() },
        Arc::new(KeptFiles::new(disk.clone(), Path::new(LOG))),
        horizon.clone(),
        budget.clone(),
    )
}

impl World {
    fn new(seed: u64) -> World {
        let disk = Arc::new(SimDisk::new(seed));
        disk.create_dir_all(Path::new(LOG)).unwrap();
        let (horizon, budget) = (Arc::<TestHorizon>::default(), Budget::new(8 << 20));
        let engine = open(&disk, &horizon, &budget).unwrap();
        let mut world = World {
            disk,
            horizon,
            budget,
            engine,
            model: Model::default(),
            log: Vec::new(),
            csn: Csn::ZERO,
            segment: 0,
            end: u64::MAX,
            untold: Vec::new(),
            rng: Rng::new(seed),
            next_table: 1,
            counted: [0; 8],
        };
        world.create_table();
        world.create_table();
        world
    }

    fn create_table(&mut self) -> TableId {
        let table = TableId::new(EngineKind::Memory, self.next_table);
        self.next_table += 1;
        let mut batch = WriteBatch::new();
        batch.push(Op::CreateTable(table));
        self.commit(batch);
        table
    }

    fn commit(&mut self, batch: WriteBatch) {
        self.commit_untold(batch);
        if self.rng.chance(1, 3) {
            self.tell();
        }
    }

    fn commit_untold(&mut self, batch: WriteBatch) {
        self.csn = self.csn.next();
        let csn = self.csn;
        let mut bytes = batch.as_bytes().to_vec();
        seal_rows(&mut bytes, csn);
        if self.end > 30_000 {
            self.segment += 1;
            self.end = BEGIN;
            let path = segment_path(self.segment, "plog");
            self.disk.open(&path, OpenMode::Create).unwrap().write_at(0, &[0; 4096]).unwrap();
            self.disk.sync_dir(Path::new(LOG)).unwrap();
        }
        let path = segment_path(self.segment, "plog");
        let file = self.disk.open(&path, OpenMode::Write).unwrap();
        file.write_at(self.end, &bytes).unwrap();
        file.sync().unwrap();
        let place = LogPlace { lane: 0, segment: self.segment, offset: self.end };
        self.end += bytes.len() as u64;
        self.engine.install(csn, &batch);
        self.model.apply(csn, &batch);
        let logged = Logged { csn, place, batch };
        self.log.push(logged.clone());
        self.untold.push(logged);
    }

    /// Makes all commits stable and reports their places to the engine.
    fn tell(&mut self) {
        self.horizon.0.lock().0 = self.csn;
        let places: Vec<_> = self.untold.drain(..).map(|one| (one.csn, one.place)).collect();
        self.engine.place_commits(&places, self.csn);
    }

    fn key(&mut self) -> Vec<u8> {
        match self.rng.below(20) {
            0 => Vec::new(),
            1 => vec![0; 1 + self.rng.below(3) as usize],
            _ => format!("{:03}", self.rng.below(120)).into_bytes(),
        }
    }

    fn tables(&self) -> Vec<TableId> {
        let of = |(table, (_, dropped)): (&TableId, &(Csn, Csn))| {
            (*dropped == Csn::MAX).then_some(*table)
        };
        self.model.tables.iter().filter_map(of).collect()
    }

    fn write(&mut self) {
        let tables = self.tables();
        let mut batch = WriteBatch::new();
        for _ in 0..1 + self.rng.below(4) {
            let table = tables[self.rng.below(tables.len() as u64) as usize];
            let key = self.key();
            if self.rng.chance(1, 4) {
                batch.push(Op::Delete { table, key: &key });
            } else {
                let most = if self.rng.chance(1, 30) { 12_000 } else { 300 };
                let mut value = vec![0; self.rng.below(most) as usize];
                self.rng.fill(&mut value);
                batch.push(Op::Put { table, key: &key, value: &value });
            }
        }
        self.commit(batch);
    }

    fn delete_range(&mut self) {
        self.tell();
        let tables = self.tables();
        let table = tables[self.rng.below(tables.len() as u64) as usize];
        let (start, end) = (self.key(), self.key());
        let end = self.rng.chance(3, 4).then_some(end.as_slice());
        let range = KeyRange::new(&start, end);
        if range.is_empty() {
            return;
        }
        let mut batch = WriteBatch::new();
        batch.push(Op::DeleteRange { table, range, upto: self.csn });
        self.commit(batch);
    }

    /// Registers a snapshot or releases one.
    fn snapshots(&mut self) {
        let mut state = self.horizon.0.lock();
        let stable = state.0;
        if self.rng.chance(1, 4) {
            state.2 = state.2.xor(Some(stable)).filter(|csn| *csn == stable);
        }
        if self.rng.chance(1, 2) && state.1.len() < 3 {
            state.1.push(stable);
        } else if !state.1.is_empty() {
            let at = self.rng.below(state.1.len() as u64) as usize;
            state.1.swap_remove(at);
        }
    }

    fn check(&mut self) {
        let (snapshots, relied_on) = {
            let state = self.horizon.0.lock();
            ([state.1.as_slice(), &[state.0]].concat(), state.2)
        };
        let snapshot = snapshots[self.rng.below(snapshots.len() as u64) as usize];
        self.counted[7] += u64::from(self.is_loading());
        let ids: Vec<TableId> = self.model.tables.keys().copied().collect();
        let table = ids[self.rng.below(ids.len() as u64) as usize];
        let mut value = Vec::new();
        if !self.model.exists(table, snapshot) {
            let missing =
                self.engine.get(table, b"1", snapshot, Access::Blocking, &mut value).unwrap_err();
            assert_eq!(missing.kind(), ErrorKind::NotFound);
            return;
        }
        for _ in 0..10 {
            let key = self.key();
            let wanted = self.model.get(table, &key, snapshot);
            let memory = self.engine.get(table, &key, snapshot, Access::MemoryOnly, &mut value);
            if let Ok(found) = memory {
                assert_eq!(found.is_value().then_some(&value), wanted, "{table:?} {key:?}");
            }
            let found =
                self.engine.get(table, &key, snapshot, Access::Blocking, &mut value).unwrap();
            assert_eq!(found.is_value().then_some(&value), wanted, "{table:?} {key:?} {snapshot}");
            let newest = self.model.rows.get(&(table, key.clone()));
            let newest = newest.and_then(|versions| versions.last().cloned());
            if let (Some((csn, None)), Some(relied_on)) = (newest, relied_on)
                && relied_on < csn
                && csn <= snapshot
            {
                assert_eq!(found, Found::Deleted(csn), "{table:?} {key:?}");
            }
            if let Found::Value(csn) = found {
                let versions = &self.model.rows[&(table, key.clone())];
                assert!(versions.iter().any(|(at, value)| *at == csn && value.is_some()));
            }
            if let Some(found) =
                self.engine.recall(table, &key, snapshot, Access::Blocking, &mut value).unwrap()
            {
                assert_eq!(found.is_value().then_some(&value), wanted);
            }
        }
        let (start, end) = (self.key(), self.key());
        let range = KeyRange::new(&start, self.rng.chance(1, 2).then_some(end.as_slice()));
        let range = if self.rng.chance(1, 3) { KeyRange::ALL } else { range };
        let mut wanted = self.model.scan(table, range, snapshot);
        let direction =
            if self.rng.chance(1, 2) { Direction::Forward } else { Direction::Backward };
        if direction == Direction::Backward {
            wanted.reverse();
        }
        let mut cursor =
            self.engine.scan(table, range, direction, snapshot, Access::Blocking).unwrap();
        let mut got = Vec::new();
        loop {
            let access =
                [Access::MemoryOnly, Access::AtHand, Access::Blocking][self.rng.below(3) as usize];
            match cursor.next_rows(access, 1 + self.rng.below(30) as usize) {
                Ok(0) => break,
                Ok(count) => {
                    let before = got.len();
                    cursor.rows(&mut |key, value| {
                        got.push((key.to_vec(), value.to_vec()));
                        true
                    });
                    assert_eq!(got.len() - before, count);
                    assert_eq!(cursor.last_key(), got.last().map(|(key, _)| key.as_slice()));
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    assert!(access != Access::Blocking);
                    assert_eq!(cursor.last_key(), got.last().map(|(key, _)| key.as_slice()));
                }
            }
        }
        let keys =
            |rows: &[(Vec<u8>, Vec<u8>)]| rows.iter().map(|row| row.0.clone()).collect::<Vec<_>>();
        assert_eq!(keys(&got), keys(&wanted), "{range:?} {direction:?} {snapshot}");
        assert!(got == wanted);
    }

    /// Cuts the log, as the transaction manager does.
    fn cut(&mut self) {
        self.tell();
        let persisted = self.engine.persisted();
        for segment in 1..self.segment {
            let path = segment_path(segment, "plog");
            let covered =
                self.log.iter().all(|one| one.place.segment != segment || one.csn <= persisted);
            if !self.disk.exists(&path).unwrap() {
                continue;
            }
            if !covered {
                return;
            }
            if self.engine.keeps_segment(0, segment) {
                // As a background job may do before the segment is renamed.
                self.engine.0.segments.note_kept_if_changed().unwrap();
                self.disk.rename(&path, &segment_path(segment, "kept")).unwrap();
            } else {
                self.disk.remove(&path).unwrap();
            }
            self.disk.sync_dir(Path::new(LOG)).unwrap();
            self.log.retain(|one| one.place.segment != segment);
        }
    }

    /// As [`World::restart`], with some background work afterwards.
    fn crash(&mut self) {
        self.restart();
        self.engine.run_background_job().unwrap();
    }

    /// Crashes and recovers. The log syncs each commit, so every commit survives.
    fn restart(&mut self) {
        let Inner { counts, log, evictor, collector, .. } = &*self.engine.0;
        let [read, ..] = log.counts();
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counts = [
            read,
            evictor.evicted(),
            collector.collected(),
            of(&counts.checkpoints),
            of(&counts.compacted_bytes),
            of(&counts.released),
            of(&counts.punched_bytes),
        ];
        self.counted.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        self.engine.close();
        self.disk.crash();
        self.disk.restart();
        {
            let mut state = self.horizon.0.lock();
            (state.0, state.1) = (Csn::ZERO, Vec::new());
        }
        self.budget = Budget::new(8 << 20);
        self.engine = open(&self.disk, &self.horizon, &self.budget).unwrap();
        self.untold.clear();
        let mut commits = self.log.clone();
        Self::replay(&self.engine, &mut self.rng, &mut commits);
        self.horizon.0.lock().0 = self.csn;
        // The log continues in a new segment.
        self.end = u64::MAX;
        self.engine.0.settle_once().unwrap();
    }

    /// Replays commits of the log. Commits of single keys come in any order, but stay between the
    /// same other commits.
    fn replay(engine: &MemoryEngine, rng: &mut Rng, commits: &mut [Logged]) {
        let alone = |one: &Logged| {
            one.batch.iter().any(|op| !matches!(op, Op::Put { .. } | Op::Delete { .. }))
        };
        for part in commits.chunk_by_mut(|a, b| !alone(a) && !alone(b)) {
            for at in (1..part.len()).rev() {
                part.swap(at, rng.below(at as u64 + 1) as usize);
            }
            for one in part {
                if alone(one) {
                    engine.install(one.csn, &one.batch);
                    engine.place_commits(&[(one.csn, one.place)], Csn::ZERO);
                    continue;
                }
                let ops: Vec<_> = placed_ops(one.batch.as_bytes()).map(Result::unwrap).collect();
                engine.replay(&mut ops.iter().map(|placed| Replayed {
                    csn: one.csn,
                    op: placed.op,
                    place: one.place.plus(placed.offset),
                    bytes: placed.bytes as u32,
                }));
            }
        }
    }

    /// Whether some keys of a table are not in memory yet.
    fn is_loading(&self) -> bool {
        self.engine.0.tables.load().values().any(|table| table.load().is_some())
    }

    /// SEGMENT-1: the live bytes of each segment are the bytes of the places in arrays and chains.
    fn check_live(&mut self) {
        if self.is_loading() && self.rng.chance(2, 3) {
            return;
        }
        let inner = &self.engine.0;
        // Deferred operations count as live, but are in no chain.
        inner.keys().load_all(&inner.tables).unwrap();
        let mut counted: BTreeMap<u32, u64> = BTreeMap::new();
        let pin = inner.store.pin();
        for table in inner.tables.load().values() {
            for slot in 0..table.rows.end() {
                let mut word = table.rows.entry(slot).map_or(Word::EMPTY, |entry| entry.load());
                loop {
                    let place = match word.target() {
                        Target::Version(at) => {
                            let version = inner.store.version(at, &pin);
                            word = version.next();
                            version.place().ok()
                        }
                        Target::Place(place) => {
                            word = Word::EMPTY;
                            Some(place)
                        }
                        Target::Empty => break,
                    };
                    if let Some(place) = place {
                        *counted.entry(place.handle).or_default() += class_bytes(place.class);
                    }
                }
            }
        }
        for (handle, segment) in inner.segments.iter() {
            let counted = counted.get(&handle).copied().unwrap_or(0);
            assert_eq!(segment.live(), counted, "{}", segment.origin);
        }
    }

    fn step(&mut self) {
        match self.rng.below(100) {
            0..60 => self.write(),
            60..63 => self.delete_range(),
            63..70 => self.snapshots(),
            70..78 => self.check(),
            78..82 => self.tell(),
            82..86 => _ = self.engine.0.eviction().evict(1 << self.rng.below(18)),
            86..91 => {
                if self.rng.chance(1, 2) {
                    // As the transaction manager does while the disk is full.
                    self.engine.give_space();
                }
                self.engine.run_background_job().unwrap();
            }
            91..94 => {
                self.tell();
                self.persist_within_estimate();
            }
            94..96 => self.cut(),
            96 => self.engine.compact_all().unwrap(),
            97 => {
                if self.rng.chance(1, 3) {
                    self.crash();
                }
            }
            98 => {
                if self.tables().len() < 4 {
                    self.create_table();
                }
            }
            _ => {
                if self.tables().len() > 2 {
                    let tables = self.tables();
                    let mut batch = WriteBatch::new();
                    batch.push(Op::DropTable(tables[self.rng.below(tables.len() as u64) as usize]));
                    self.tell();
                    self.commit(batch);
                }
            }
        }
    }
}

/// A world's segments are small, so that there are many to compact and release.
#[test]
fn memory_1_to_4_random_histories_equal_the_model() {
    let mut counted = [0; 8];
    for seed in 0..40 {
        let mut world = World::new(seed);
        for _ in 0..600 {
            world.step();
            if world.rng.chance(1, 20) {
                world.check_live();
            }
        }
        world.tell();
        world.crash();
        for _ in 0..20 {
            world.check();
        }
        // Without snapshots, all garbage is collected.
        world.horizon.0.lock().1.clear();
        world.horizon.0.lock().2 = None;
        while world.engine.run_background_job().unwrap() {}
        let inner = &world.engine.0;
        assert_eq!(inner.collector.len(), 0, "seed {seed}");
        let live: u64 = inner.segments.iter().map(|(_, segment)| segment.live()).sum();
        let rows = world.model.rows.iter().filter(|((table, _), versions)| {
            world.model.exists(*table, world.csn) && versions.last().unwrap().1.is_some()
        });
        assert!(live > 0 || rows.count() == 0);
        for (sum, more) in counted.iter_mut().zip(world.counted) {
            *sum += more;
        }
    }
    assert!(counted.iter().all(|count| *count > 0), "{counted:?}");
}

/// CHAIN-2: while there is a long reader, the chain of a hot row keeps the reader's version, the
/// newest version, and few others.
#[test]
fn chain_2_a_long_reader_keeps_what_it_sees_of_a_hot_row() {
    let mut world = World::new(3);
    let table = world.tables()[0];
    let put = |world: &mut World, value: u32| {
        let mut batch = WriteBatch::new();
        batch.push(Op::Put { table, key: b"hot", value: &value.to_le_bytes() });
        world.commit(batch);
    };
    let (mut readers, mut most) = (Vec::new(), 0);
    for value in 0..2000 {
        put(&mut world, value);
        if value % 3 == 0 {
            world.tell();
        }
        if value % 500 == 100 {
            world.tell();
            let stable = world.csn;
            world.horizon.0.lock().1.push(stable);
            readers.push((stable, value));
        }
        most = most.max(world.engine.0.store.slabs.used_bytes());
    }
    world.tell();
    for (snapshot, value) in readers {
        let mut read = Vec::new();
        let found = world.engine.get(table, b"hot", snapshot, Access::MemoryOnly, &mut read);
        assert_eq!((found.unwrap(), read), (Found::Value(snapshot), value.to_le_bytes().to_vec()));
    }
    // The versions of four readers, those between two thinnings, and those that no thinning has
    // found yet.
    assert!(most < 60 * 200, "{most} bytes of versions");
    // The figure covers the versions that the readers keep, without the newest one.
    let inner = world.engine.0.clone();
    let (held, one) = (inner.collector.uncollected_bytes(&inner.store) as usize, HEADER_BYTES + 4);
    assert_eq!(held % one, 0, "{held} bytes are held back");
    assert!(held >= 4 * one && held < most, "{held} bytes are held back");
    world.horizon.0.lock().1.clear();
    while world.engine.run_background_job().unwrap() {}
    assert_eq!(inner.collector.uncollected_bytes(&inner.store), 0);
    assert!(world.engine.0.store.slabs.used_bytes() < 200);
}

/// MEMORY-2: a thread that needs memory waits only while there are rows that cannot be evicted
/// before the log's flush.
#[test]
fn memory_is_waited_for_while_commits_are_not_placed() {
    let mut world = World::new(5);
    let engine = world.engine.clone();
    world.tell();
    let mut looks = 0;
    let look = |looks: &mut u32, until: u32| {
        *looks += 1;
        *looks >= until
    };
    assert!(!engine.await_memory(&mut || look(&mut looks, 10)));
    assert_eq!(looks, 2, "nothing is waited for");
    while world.untold.is_empty() {
        world.write();
    }
    looks = 0;
    assert!(engine.await_memory(&mut || look(&mut looks, 5)), "it waits for the flush");
    looks = 0;
    let waited = engine.await_memory(&mut || {
        let fits = look(&mut looks, 10);
        if looks == 3 {
            world.tell();
        }
        fits
    });
    assert_eq!((waited, looks), (false, 4), "all is placed");
}

/// MEMORY-5: two commits fit, but not together, so the second is refused until the first has ended.
#[test]
fn memory_5_admitted_commits_fit_together() {
    let world = World::new(7);
    let (engine, budget) = (&world.engine, &world.engine.0.budget);
    let bytes = (budget.limit() - budget.used()) / MEMORY_PER_BYTE / 2 + 1;
    let first = engine.admit(bytes).unwrap();
    let refused = engine.admit(bytes).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::MemoryFull);
    drop(first);
    drop(engine.admit(bytes).unwrap());
    assert!(budget.used() <= budget.limit() / 2);
}

/// PINS-3: a checkpoint writes a deletion before it writes the index. While it holds the watermark,
/// the deletion's key stays in the index.
#[test]
fn pins_3_a_held_watermark_keeps_the_keys_of_deletions() {
    let mut world = World::new(6);
    let table = world.tables()[0];
    let change = |world: &mut World, op: Op<'_>| {
        let mut batch = WriteBatch::new();
        batch.push(op);
        world.commit(batch);
        world.tell();
        while world.engine.run_background_job().unwrap() {}
    };
    change(&mut world, Op::Put { table, key: b"k", value: b"v" });
    let (held, watermark) = world.engine.0.pins.hold();
    change(&mut world, Op::Delete { table, key: b"k" });
    let inner = world.engine.0.clone();
    let has_key = || {
        let tables = inner.tables.load();
        tables[&table].index.get(b"k", &inner.store.pin()).is_some()
    };
    assert_eq!((inner.pins.refresh(), watermark < world.csn), (watermark, true));
    assert!(has_key());
    drop(held);
    while world.engine.run_background_job().unwrap() {}
    assert!(!has_key());
}

/// E10: readers do not see rows of a deleted range while the rows and then the range are removed.
#[test]
fn a_deleted_row_does_not_come_back_while_its_range_is_folded() {
    const ROWS: u32 = 3;
    let mut world = World::new(4);
    let table = world.tables()[0];
    for _ in 0..4000 {
        let keys: Vec<[u8; 4]> = (0..ROWS).map(u32::to_be_bytes).collect();
        let mut batch = WriteBatch::new();
        keys.iter().for_each(|key| batch.push(Op::Put { table, key, value: b"value" }));
        world.commit(batch);
        world.tell();
        let mut batch = WriteBatch::new();
        batch.push(Op::DeleteRange { table, range: KeyRange::ALL, upto: world.csn });
        world.commit(batch);
        world.tell();
        let (engine, snapshot) = (&world.engine, world.csn);
        let inner = &engine.0;
        let has_ranges = || inner.tables.load()[&table].has_ranges();
        spillway_base::thread::together(2, |number| {
            if number == 0 {
                while has_ranges() {
                    engine.run_background_job().unwrap();
                }
                return;
            }
            let mut value = Vec::new();
            while has_ranges() {
                for key in &keys {
                    let found = engine.get(table, key, snapshot, Access::Blocking, &mut value);
                    assert!(!found.unwrap().is_value(), "{key:?}");
                }
                let range = KeyRange::ALL;
                let forward = Direction::Forward;
                let mut cursor =
                    engine.scan(table, range, forward, snapshot, Access::Blocking).unwrap();
                assert!(!cursor.next(Access::Blocking).unwrap(), "{:?}", cursor.key());
            }
        });
    }
}

/// A replay does not wait for memory: its rows can be evicted only once they are stable.
#[test]
fn a_replay_does_not_wait_for_room() {
    let world = World::new(8);
    let engine = &world.engine;
    let bytes = engine.0.budget.limit();
    assert_eq!(engine.admit(bytes).unwrap_err().kind(), ErrorKind::MemoryFull);
    engine.admit_replay(bytes).unwrap();
}

/// A commit waits for memory as long as other commits are on their way to the log.
#[test]
fn memory_5_a_commit_waits_for_others_to_be_placed() {
    let mut world = World::new(9);
    for _ in 0..3 {
        world.write();
    }
    let inner = world.engine.0.clone();
    assert!(inner.unplaced.len() > 0);
    let mut looks = 0;
    let fits = inner.await_room(super::IDLE_TRIES, &mut || {
        looks += 1;
        if looks == 3 * super::IDLE_TRIES {
            world.tell();
        }
        looks == 3 * super::IDLE_TRIES + 10
    });
    assert!(fits, "it waited beyond the looks of an idle engine");
}
