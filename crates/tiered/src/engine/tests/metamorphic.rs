//! One history over many settings: every read answers as the model does, and so the same under all of them.
//!
//! A history says what is written and what is asked, and when a table is worked on, split, joined, closed or crashed. It says nothing of
//! how: sizes, levels, reuse, codings, tiers, threads and the order of compactions are a [`Variation`], and another one after each
//! opening. `SPILLWAY_SEED` says which histories are run, `SPILLWAY_ROUNDS` how many.

use std::collections::VecDeque;

use super::*;
use crate::compaction::{Checked, Cpu};
use crate::picker::Chooser;
use crate::source::met;
use crate::space::{DeviceClass, Tier};

/// What happens, whatever the settings are.
enum Step {
    Commit(WriteBatch),
    /// Somebody begins to read at the snapshot of now.
    Hold,
    /// The one who began first ends.
    Release,
    /// A whole scan, or one of some keys, and look-ups: of the newest state, or of a snapshot that is held.
    Read {
        held: Option<u64>,
        seed: u64,
    },
    /// A scan begins, and stays where it is after some rows.
    Begin {
        seed: u64,
    },
    /// The oldest scan that stays somewhere goes on to its end.
    Resume,
    Persist,
    Flush,
    Work,
    CompactAll,
    /// A compaction of a kind, of a sub-table, whether it is due or not.
    Compact(u64),
    Split(u64),
    Join(u64),
    /// A backup is begun.
    Pin,
    /// The oldest one that was begun is read, whatever has happened since, and restored.
    Restore,
    Open {
        crash: bool,
    },
}

const KEYS: u64 = 400;
/// Of each history.
const RUNS: u64 = 3;
/// Rows at both ends of which a table is used as a queue.
const QUEUE: u32 = 2;

fn key_of(id: u32, number: u64) -> Vec<u8> {
    match id {
        QUEUE => number.to_be_bytes().to_vec(),
        // Prefixes of each other, and long ones.
        _ if number % 10 == 7 => format!("key{:02}", number / 10).into_bytes(),
        _ if number % 10 == 8 => format!("key{number:03}{}", "-".repeat(300)).into_bytes(),
        _ => format!("key{number:03}").into_bytes(),
    }
}

/// Bytes that values of a history are below.
struct Values {
    /// Most of them.
    most: u64,
    largest: u64,
}

impl Values {
    /// In half of the histories values are short: many are in a block, and memtables lend them.
    fn of(seed: u64, slot_bytes: u64) -> Values {
        match seed / 2 % 2 {
            0 => Values { most: 1500, largest: 2 * slot_bytes },
            _ => Values { most: 60, largest: slot_bytes / 8 },
        }
    }
}

fn value_of(rng: &mut Rng, values: &Values) -> Vec<u8> {
    let bytes = match rng.below(60) {
        0 => rng.below(values.largest),
        1..4 => 0,
        _ => rng.below(values.most),
    };
    let bytes = bytes as usize;
    match rng.below(6) {
        0 => noise(rng.next_u64(), bytes),
        1 => vec![rng.below(256) as u8; bytes],
        _ => {
            let words = ["buyer", "state", "shipped", "price", "address", "quantity", "0123"];
            let mut text = String::new();
            while text.len() < bytes {
                text.push_str(words[rng.below(7) as usize]);
                text.push_str(&rng.below(1000).to_string());
            }
            text.truncate(bytes);
            text.into_bytes()
        }
    }
}

/// Changes of rows that lie beside each other, which leave what is around them where it is.
fn neighbours(rng: &mut Rng, values: &Values) -> WriteBatch {
    let mut batch = WriteBatch::new();
    let (first, delete) = (rng.below(KEYS), rng.chance(1, 4));
    for number in first..(first + 5 + rng.below(20)).min(KEYS) {
        let key = key_of(1, number);
        let (table, key) = (table(1), &*key);
        match delete {
            true => batch.push(Op::Delete { table, key }),
            false => batch.push(Op::Put { table, key, value: &value_of(rng, values) }),
        }
    }
    batch
}

/// A history, and what is always there: tables 1 and 2; a third is dropped, and comes again under another number.
fn steps_of(seed: u64, count: usize, slot_bytes: u64) -> Vec<Step> {
    let mut rng = Rng::new(seed);
    let values = Values::of(seed, slot_bytes);
    // Where ranges are deleted at once, rows are taken one by one.
    let has_ranges = !seed.is_multiple_of(3);
    let created: Vec<Op<'_>> = (1..=3).map(|number| Op::CreateTable(table(number))).collect();
    let mut steps = vec![Step::Commit(batch(&created))];
    let (mut third, mut head, mut tail) = (3, 0, 0);
    let (mut held, mut begun, mut pinned) = (0_u64, 0_u64, 0_u64);
    while steps.len() < count {
        let step = match rng.below(1000) {
            0..100 => Step::Commit(neighbours(&mut rng, &values)),
            100..700 => {
                let mut batch = WriteBatch::new();
                for _ in 0..1 + rng.below(6) {
                    let id = [1, 1, QUEUE, third][rng.below(4) as usize];
                    let (number, delete) = match (id, rng.below(2)) {
                        (QUEUE, 0) if head < tail => (head, true),
                        (QUEUE, _) => (tail, false),
                        _ => (rng.below(KEYS), rng.chance(1, 4)),
                    };
                    if id == QUEUE {
                        *(if delete { &mut head } else { &mut tail }) += 1;
                    }
                    let key = key_of(id, number);
                    let (table, key) = (table(id), &*key);
                    match delete {
                        true => batch.push(Op::Delete { table, key }),
                        false => {
                            let value = value_of(&mut rng, &values);
                            batch.push(Op::Put { table, key, value: &value });
                        }
                    }
                }
                if has_ranges && rng.chance(1, 40) {
                    let id = [1, 1, QUEUE, third][rng.below(4) as usize];
                    let first = if id == QUEUE { head } else { rng.below(KEYS) };
                    let most = if rng.chance(1, 10) { KEYS } else { KEYS / 20 };
                    let (start, end) = (key_of(id, first), key_of(id, first + 1 + rng.below(most)));
                    let end = rng.chance(30, 31).then_some(&*end);
                    let commits = steps.iter().filter(|step| matches!(step, Step::Commit(_)));
                    let upto = Csn((commits.count() as u64).saturating_sub(rng.below(6)));
                    let range = KeyRange::new(&start, end);
                    if !range.is_empty() {
                        batch.push(Op::DeleteRange { table: table(id), range, upto });
                    }
                }
                Step::Commit(batch)
            }
            700..705 => {
                third += 1;
                let ops = [Op::DropTable(table(third - 1)), Op::CreateTable(table(third))];
                Step::Commit(batch(&ops))
            }
            705..735 => {
                held += 1;
                Step::Hold
            }
            735..760 if held > 0 => {
                held -= 1;
                Step::Release
            }
            760..800 => {
                let of = (held > 0 && rng.chance(2, 3)).then(|| rng.below(held));
                Step::Read { held: of, seed: rng.next_u64() }
            }
            800..820 => {
                begun += 1;
                Step::Begin { seed: rng.next_u64() }
            }
            820..840 if begun > 0 => {
                begun -= 1;
                Step::Resume
            }
            840..880 => Step::Persist,
            880..900 => Step::Flush,
            900..950 => Step::Work,
            950..953 => Step::CompactAll,
            990..994 => Step::Compact(rng.next_u64()),
            994..997 => {
                pinned += 1;
                Step::Pin
            }
            997..1000 if pinned > 0 => {
                pinned -= 1;
                Step::Restore
            }
            953..967 => Step::Split(rng.next_u64()),
            967..981 => Step::Join(rng.next_u64()),
            981..990 => {
                (held, begun, pinned) = (0, 0, 0);
                Step::Open { crash: rng.chance(1, 2) }
            }
            _ => continue,
        };
        steps.push(step);
    }
    steps
}

/// How it happens.
#[derive(Clone, Debug)]
struct Variation {
    settings: TieredSettings,
    /// Merges are carried out twice, and compared.
    checked: bool,
    /// Work is done beside what happens.
    threads: bool,
    /// One in so many commits is followed by all the work there is.
    lazy: u64,
    /// So many commits are installed and not stable.
    lag: u64,
    /// Commits that are persistent and yet installed again after an opening.
    again: u64,
}

fn tiers_of(rng: &mut Rng) -> Vec<Tier> {
    let mut tiers = Vec::new();
    for class in DeviceClass::ALL {
        if rng.chance(1, 3) {
            let compressions =
                [None, Some(Compression::None), Some(Compression::Lz4), Some(Compression::ZSTD)];
            let compression = compressions[rng.below(4) as usize];
            tiers.push(Tier { class, dir: format!("/{class}").into(), compression });
        }
    }
    tiers
}

fn variation(rng: &mut Rng, slot_bytes: usize) -> Variation {
    let compression = |rng: &mut Rng| {
        [Compression::None, Compression::Lz4, Compression::ZSTD][rng.below(3) as usize]
    };
    let mut compaction_order: Vec<Kind> = Kind::ORDER.into();
    for at in (1..compaction_order.len()).rev() {
        compaction_order.swap(at, rng.below(at as u64 + 1) as usize);
    }
    let slot = slot_bytes as u64;
    let level0_target = 1 + rng.below(4) as usize;
    let settings = TieredSettings {
        paced_compaction: rng.chance(1, 2),
        data_reuse: rng.chance(3, 4),
        straight_flush: rng.chance(1, 2),
        tiers: tiers_of(rng),
        hot_block_bytes: 512 << rng.below(6),
        hot_compression: compression(rng),
        cold_compression: compression(rng),
        settle_after: if rng.chance(1, 4) { Duration::ZERO } else { Duration::MAX },
        subtable_bytes: [slot, 4 * slot, 64 * slot, 1 << 40][rng.below(4) as usize],
        subtables_max: [1, 5, 16, 64][rng.below(4) as usize],
        write_cores: 1 + rng.below(4) as usize,
        temperature: rng.chance(1, 2),
        memtable_bytes: 16 << 10 << rng.below(7),
        cache_bytes: [16 << 10, 256 << 10, 4 << 20][rng.below(3) as usize],
        cache_bytes_min: 0,
        row_cache_share: if rng.chance(3, 4) { 0.25 } else { 0.0 },
        swizzling: rng.chance(3, 4),
        range_filters: rng.chance(3, 4),
        read_ahead: rng.chance(3, 4),
        direct_reads: rng.chance(1, 2),
        slot_bytes,
        file_bytes: slot * [4, 16, 64][rng.below(3) as usize],
        compaction_order,
        deletions_min: [1, 20, 1000][rng.below(3) as usize],
        space_max: [1.05, 1.25, 2.0][rng.below(3) as usize],
        level0_target,
        level0_limit: level0_target + 2 + rng.below(10) as usize,
        even_level0: rng.chance(1, 2),
        dynamic_level0: rng.chance(1, 2),
        block_nodes: rng.chance(3, 4),
        simd: rng.chance(1, 2),
        ..small()
    };
    // Of one choice three settings: more of them would make all others of every seed.
    let warm = rng.below(9);
    let settings = TieredSettings {
        replacement: warm / 3 < 2,
        warm_tables: warm % 3 < 2,
        part_reads: warm.is_multiple_of(2),
        adaptive_share: rng.chance(1, 2),
        row_cache_sample: rng.chance(1, 2),
        manifest_bytes: [512, 8 << 10, 1 << 20][rng.below(3) as usize],
        ..settings
    };
    Variation {
        settings,
        checked: rng.chance(1, 3),
        threads: rng.chance(1, 4),
        lazy: [2, 10, 100][rng.below(3) as usize],
        lag: [0, 0, 3, 40][rng.below(4) as usize],
        again: [0, 0, 5, 1000][rng.below(4) as usize],
    }
}

/// All versions that ever were.
#[derive(Default)]
struct History {
    commits: Vec<Commit>,
    versions: BTreeMap<(TableId, Vec<u8>), Vec<(Csn, Option<Vec<u8>>)>>,
    created: BTreeMap<TableId, Csn>,
    dropped: BTreeMap<TableId, Csn>,
}

impl History {
    fn newest(&self) -> Csn {
        Csn(self.commits.len() as u64)
    }

    fn push(&mut self, batch: &WriteBatch) {
        let csn = self.newest().next();
        for op in batch.iter() {
            let (id, key, value) = match op {
                Op::Put { table, key, value } => (table, key, Some(value.to_vec())),
                Op::Delete { table, key } => (table, key, None),
                Op::DeleteRange { table, range, upto } => {
                    let of = self.versions.iter_mut();
                    for (_, versions) in
                        of.filter(|((id, key), _)| *id == table && range.contains(key))
                    {
                        if versions.last().is_some_and(|(csn, _)| *csn <= upto) {
                            versions.push((csn, None));
                        }
                    }
                    continue;
                }
                Op::CreateTable(id) => {
                    self.created.insert(id, csn);
                    continue;
                }
                Op::DropTable(id) => {
                    self.dropped.insert(id, csn);
                    continue;
                }
            };
            let versions = self.versions.entry((id, key.to_vec())).or_default();
            versions.retain(|(of, _)| *of != csn);
            versions.push((csn, value));
        }
        self.commits.push((csn, batch.clone()));
    }

    fn tables(&self, snapshot: Csn) -> Vec<TableId> {
        let ends = |id| self.dropped.get(id).copied().unwrap_or(Csn::MAX);
        let there =
            self.created.iter().filter(|(id, from)| **from <= snapshot && snapshot < ends(id));
        there.map(|(id, _)| *id).collect()
    }

    fn get(&self, id: TableId, key: &[u8], snapshot: Csn) -> Option<&[u8]> {
        newest_at(self.versions.get(&(id, key.to_vec()))?, snapshot)
    }

    fn rows(
        &self,
        id: TableId,
        range: KeyRange<'_>,
        direction: Direction,
        snapshot: Csn,
    ) -> VecDeque<(&[u8], &[u8])> {
        let of = self.versions.range((id, range.start.to_vec())..);
        let of = of.take_while(|((table, _), _)| *table == id);
        let of = of.filter(|((_, key), _)| range.contains(key));
        let mut rows: VecDeque<_> = of
            .filter_map(|((_, key), versions)| Some((&**key, newest_at(versions, snapshot)?)))
            .collect();
        if direction == Direction::Backward {
            rows.make_contiguous().reverse();
        }
        rows
    }
}

fn newest_at(versions: &[(Csn, Option<Vec<u8>>)], snapshot: Csn) -> Option<&[u8]> {
    let version = versions.iter().rev().find(|(csn, _)| *csn <= snapshot)?;
    version.1.as_deref()
}

/// A scan that stays somewhere.
struct Begun {
    cursor: Box<dyn Cursor>,
    id: TableId,
    direction: Direction,
    snapshot: Csn,
    /// Rows that it has given.
    given: usize,
}

/// What was seen to happen, over all runs.
#[derive(Default, Debug)]
struct Seen {
    compactions: [u64; Kind::ALL.len()],
    flushes: u64,
    straight_flushes: u64,
    splits: u64,
    joins: u64,
    moves: u64,
    dictionaries: usize,
    reads: u64,
    openings: u64,
    restores: u64,
}

struct Run<'a> {
    disk: SimDisk,
    rng: Rng,
    slot_bytes: usize,
    variation: Variation,
    bench: Bench,
    background: Option<Background>,
    history: History,
    held: VecDeque<Csn>,
    begun: VecDeque<Begun>,
    /// With the newest commit at that time.
    pins: VecDeque<(Pin, Csn)>,
    seen: &'a mut Seen,
}

fn open_as(disk: &SimDisk, variation: &Variation) -> (Bench, Option<Background>) {
    let bench = open_with(Arc::new(disk.clone()), variation.settings.clone()).unwrap();
    if variation.checked {
        bench.engine.offload_to(Box::new(Checked(Cpu, Cpu)));
    }
    let background = variation.threads.then(|| bench.engine.start_background(2).unwrap());
    (bench, background)
}

impl<'a> Run<'a> {
    fn new(seed: u64, seen: &'a mut Seen, slot_bytes: usize) -> Run<'a> {
        let mut rng = Rng::new(seed);
        let disk = SimDisk::new(seed);
        let variation = variation(&mut rng, slot_bytes);
        let (bench, background) = open_as(&disk, &variation);
        let history = History::default();
        let (held, begun, pins) = Default::default();
        Run {
            disk,
            rng,
            slot_bytes,
            variation,
            bench,
            background,
            history,
            held,
            begun,
            pins,
            seen,
        }
    }

    fn step(&mut self, step: &Step) {
        let inner = &self.bench.engine.0;
        match step {
            Step::Commit(batch) => self.commit(batch),
            Step::Hold => {
                self.held.push_back(self.history.newest());
                self.tell();
            }
            Step::Release => {
                self.held.pop_front();
                self.tell();
            }
            Step::Read { held, seed } => {
                let newest = self.history.newest();
                let snapshot = held.map_or(newest, |held| self.held[held as usize]);
                self.read(snapshot, *seed);
            }
            Step::Begin { seed } => self.begin(*seed),
            Step::Resume => self.resume(),
            Step::Persist => {
                let newest = self.history.newest();
                self.bench.engine.request_persist(Csn(self.rng.below(newest.0 + 1)));
            }
            Step::Flush => self.bench.engine.flush_all().unwrap(),
            Step::Work => self.bench.work().unwrap(),
            Step::CompactAll => self.bench.engine.compact_all().unwrap(),
            Step::Compact(number) => {
                let parts = inner.all_parts();
                let (table, part) = &parts[(number % parts.len() as u64) as usize];
                let kind = Kind::ORDER[(number >> 32) as usize % Kind::ORDER.len()];
                let mut live = Vec::new();
                inner.horizon.live_snapshots(&mut live);
                let picked = part.take(|bars| {
                    let (shape, levels) = (inner.shape_of(part), &part.view().levels);
                    let memtables_from = Csn::ZERO;
                    Chooser { shape, levels, bars, oldest: live[0], memtables_from }.pick(kind)
                });
                if let Some((_compacting, pick)) = picked {
                    inner.compact(table, part, &pick).unwrap();
                }
            }
            Step::Split(number) => {
                let parts = inner.all_parts();
                let (table, part) = &parts[(number % parts.len() as u64) as usize];
                inner.split(table, part).unwrap();
            }
            Step::Join(number) => {
                let tables = inner.tables.load_full();
                for table in tables.values() {
                    let parts = table.all_parts();
                    if parts.len() > 1 {
                        let at = (number % (parts.len() as u64 - 1)) as usize;
                        inner.join(table, &parts[at], &parts[at + 1]).unwrap();
                    }
                }
            }
            Step::Pin => self.pins.push_back((self.bench.engine.pin(), self.history.newest())),
            Step::Restore => self.restore(),
            Step::Open { crash } => self.open_again(*crash),
        }
    }

    fn commit(&mut self, batch: &WriteBatch) {
        self.history.push(batch);
        let newest = self.history.newest();
        self.bench.engine.install(newest, batch);
        self.bench.horizon.installed.fetch_max(newest.0, Ordering::SeqCst);
        let lag = self.rng.below(self.variation.lag + 1);
        self.bench.horizon.stable.fetch_max(newest.0.saturating_sub(lag), Ordering::SeqCst);
        if self.rng.chance(1, self.variation.lazy) && !self.variation.threads {
            self.bench.work().unwrap();
        }
    }

    /// Who reads is among the snapshots that live; some of them are read at before they are stable.
    fn tell(&self) {
        *self.bench.horizon.live.lock() = self.held.iter().copied().collect();
    }

    fn read(&mut self, snapshot: Csn, seed: u64) {
        let mut rng = Rng::new(seed);
        let tables = self.history.tables(snapshot);
        for &id in &tables {
            let number = |rng: &mut Rng| rng.below(if id == table(QUEUE) { 600 } else { KEYS + 5 });
            let bound = |rng: &mut Rng| {
                let number = number(rng);
                key_of(id.ordinal(), number)
            };
            let (start, end) = (bound(&mut rng), bound(&mut rng));
            let some = KeyRange::new(&start, Some(&end));
            let from = KeyRange::new(&start, None);
            let range = [KeyRange::ALL, some, from][rng.below(3) as usize];
            for direction in [Direction::Forward, Direction::Backward] {
                let mut wanted = self.history.rows(id, range, direction, snapshot);
                let all = Access::Blocking;
                let mut cursor =
                    self.bench.engine.scan(id, range, direction, snapshot, all).unwrap();
                // C1: one by one, or some at once.
                let most = [1, 2, 7, 1000][rng.below(4) as usize];
                loop {
                    let rows = cursor.next_rows(Access::Blocking, most).unwrap();
                    if rows == 0 {
                        break;
                    }
                    let mut given = 0;
                    cursor.rows(&mut |found, value| {
                        given += 1;
                        let next = wanted.pop_front();
                        if next != Some((found, value)) {
                            let versions = &self.history.versions[&(id, found.to_vec())];
                            let csns: Vec<_> = versions.iter().map(|(csn, _)| *csn).collect();
                            let wanted = next.map(|(key, _)| key);
                            let told = format!("{id:?} at {snapshot}, {direction:?} in {range:?}");
                            let at = cursor.csn();
                            panic!("{told}: {found:?} of {csns:?}, {given} of {rows} up to {at}, not {wanted:?}");
                        }
                        true
                    });
                    assert_eq!(given, rows);
                }
                assert!(wanted.is_empty(), "{id:?} at {snapshot} lacks {}", wanted.len());
            }
            for _ in 0..10 {
                let key = bound(&mut rng);
                let found = self.bench.get_and_recall(id, &key, snapshot).unwrap();
                assert!(found.as_deref() == self.history.get(id, &key, snapshot), "{key:?}");
            }
            self.seen.reads += 1;
        }
        let unknown = table(999);
        assert!(self.bench.get_and_recall(unknown, b"key", snapshot).is_err());
    }

    fn begin(&mut self, seed: u64) {
        let mut rng = Rng::new(seed);
        let snapshot = self.history.newest();
        let tables = self.history.tables(snapshot);
        let id = tables[rng.below(tables.len() as u64) as usize];
        let direction = [Direction::Forward, Direction::Backward][rng.below(2) as usize];
        let (all, access) = (KeyRange::ALL, Access::Blocking);
        let cursor = self.bench.engine.scan(id, all, direction, snapshot, access).unwrap();
        let mut begun = Begun { cursor, id, direction, snapshot, given: 0 };
        let most = rng.below(60);
        go_on(&self.history, &mut begun, most as usize);
        self.begun.push_back(begun);
    }

    fn resume(&mut self) {
        let mut begun = self.begun.pop_front().unwrap();
        go_on(&self.history, &mut begun, usize::MAX);
        self.seen.reads += 1;
    }

    /// What was pinned is the state of some commit up to the newest of that time, once those after it are installed.
    fn restore(&mut self) {
        let (pin, newest) = self.pins.pop_front().unwrap();
        let copied = Copied::decode(&pin.manifest()).unwrap();
        let checker = Copied::decode(&pin.manifest()).unwrap();
        let disk = SimDisk::new(1);
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let mut fetch = |index, bytes: &mut Vec<u8>| {
            let sum = pin.read(index, bytes)?;
            assert_eq!(checker.check(index, bytes).unwrap(), sum);
            Ok(())
        };
        copied.restore(&shared, &dir(), &mut fetch).unwrap();
        verify_clean(&disk);
        let settings = TieredSettings { tiers: Vec::new(), ..self.variation.settings.clone() };
        let bench = open_with(shared, settings).unwrap();
        let after = self.history.commits.iter();
        let after = after.filter(|(csn, _)| *csn > pin.persisted() && *csn <= newest);
        after.for_each(|commit| bench.install(commit));
        bench.horizon.stable.store(newest.0, Ordering::SeqCst);
        let own = std::mem::replace(&mut self.bench, bench);
        self.read(newest, newest.0);
        self.bench.engine.compact_all().unwrap();
        self.read(newest, newest.0 + 1);
        self.bench = own;
        self.seen.restores += 1;
    }

    fn open_again(&mut self, crash: bool) {
        while !self.pins.is_empty() {
            self.restore();
        }
        while !self.begun.is_empty() {
            self.resume();
        }
        self.held.clear();
        self.tell();
        let persisted = self.end(crash);
        self.variation = variation(&mut self.rng, self.slot_bytes);
        // What a tier was is still read by the folder that is no tier any more, as long as it is named.
        (self.bench, self.background) = open_as(&self.disk, &self.variation);
        let from = Csn(persisted.0.saturating_sub(self.variation.again));
        let after = self.history.commits.iter().filter(|(csn, _)| *csn > from);
        after.for_each(|(csn, batch)| self.bench.engine.install(*csn, batch));
        let newest = self.history.newest();
        self.bench.horizon.stable.store(newest.0, Ordering::SeqCst);
        self.read(newest, newest.0);
        self.seen.openings += 1;
    }

    /// Ends the engine. Answers what it said was persistent.
    fn end(&mut self, crash: bool) -> Csn {
        let persisted = self.bench.engine.persisted();
        if crash {
            self.disk.crash();
        }
        drop(self.background.take());
        let inner = &self.bench.engine.0;
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        for (sum, kind) in self.seen.compactions.iter_mut().zip(&inner.counts.compactions) {
            *sum += count(kind);
        }
        self.seen.flushes += count(&inner.counts.flushes);
        self.seen.straight_flushes += count(&inner.counts.straight_flushes);
        self.seen.splits += count(&inner.counts.splits);
        self.seen.joins += count(&inner.counts.joins);
        self.seen.moves += count(&inner.counts.moved_extents);
        let tables = inner.tables.load_full();
        let dictionaries =
            tables.keys().filter(|id| inner.context.dictionaries.of(**id).newest().is_some());
        self.seen.dictionaries += dictionaries.count();
        // An engine that is there still holds its folders.
        self.bench = open_with(Arc::new(SimDisk::new(0)), small()).unwrap();
        if crash {
            self.disk.restart();
        }
        verify_clean(&self.disk);
        persisted
    }

    /// What is left at the end of all is the model's newest state, and nothing but that.
    fn finish(mut self) {
        while !self.pins.is_empty() {
            self.restore();
        }
        while !self.begun.is_empty() {
            self.resume();
        }
        let newest = self.history.newest();
        self.read(newest, 1);
        self.held.clear();
        self.tell();
        self.bench.horizon.stable.store(newest.0, Ordering::SeqCst);
        drop(self.background.take());
        self.bench.work().unwrap();
        self.bench.engine.compact_all().unwrap();
        self.bench.work().unwrap();
        self.read(newest, 2);
        assert_eq!(self.bench.engine.persisted(), newest);
        let tables = self.history.tables(newest);
        assert_eq!(self.bench.engine.tables(), tables);
        for status in self.bench.engine.status() {
            let all = (status.table, KeyRange::ALL, Direction::Forward);
            let rows = self.history.rows(all.0, all.1, all.2, newest).len() as u64;
            let versions = status.levels.map(|level| level.versions);
            assert_eq!(versions, [0, 0, rows], "one version of each row is left");
        }
        tiers::nothing_is_lost(&self.bench);
        self.end(false);
    }
}

fn go_on(history: &History, begun: &mut Begun, most: usize) {
    let Begun { id, direction, snapshot, .. } = *begun;
    let mut wanted =
        history.rows(id, KeyRange::ALL, direction, snapshot).into_iter().skip(begun.given);
    let mut left = most;
    while left > 0 {
        // One by one and some at once, in turns (C1, C2).
        let most = left.min([1, 3, 40][begun.given % 3]);
        let rows = match most {
            1 => usize::from(begun.cursor.next(Access::Blocking).unwrap()),
            most => begun.cursor.next_rows(Access::Blocking, most).unwrap(),
        };
        if rows == 0 {
            assert!(wanted.next().is_none(), "{id:?} at {snapshot}");
            return;
        }
        assert!(rows <= most);
        let mut last = None;
        begun.cursor.rows(&mut |key, value| {
            last = wanted.next();
            assert!(last == Some((key, value)), "{id:?} at {snapshot}");
            true
        });
        assert!(last == Some((begun.cursor.key(), begun.cursor.value())));
        begun.given += rows;
        left -= rows;
    }
}

/// V1, W1, E4: whatever the settings, one history answers every read in one way.
#[test]
fn one_history_answers_the_same_under_all_settings() {
    let number = |name| std::env::var(name).ok().and_then(|value: String| value.parse().ok());
    let first: u64 = number("SPILLWAY_SEED").unwrap_or(3);
    let rounds = number("SPILLWAY_ROUNDS").unwrap_or(6);
    let mut seen = Seen::default();
    met::lent();
    for seed in first..first + rounds {
        let slot_bytes = 16 << 10 << (2 * (seed % 2));
        let steps = steps_of(seed, 700, slot_bytes as u64);
        for number in 0..RUNS {
            let name = || format!("SPILLWAY_SEED={seed}, run {number}");
            let mut run = Run::new(seed * 100 + number, &mut seen, slot_bytes);
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                steps.iter().for_each(|step| run.step(step));
            }));
            if let Err(panic) = done {
                eprintln!("{}: {:?}", name(), run.variation);
                std::panic::resume_unwind(panic);
            }
            run.finish();
        }
    }
    let lent = met::lent();
    eprintln!("{seen:?}, lent {lent:?}");
    if std::env::var_os("SPILLWAY_SEED").is_none() {
        // Nothing was left out that does not hang on threads' turns.
        let Seen { compactions, flushes, straight_flushes, splits, joins, moves, .. } = &seen;
        let all = [*flushes, *straight_flushes, *splits, *joins, *moves, seen.dictionaries as u64];
        assert!(
            seen.restores > 0 && all.iter().chain(&compactions[..4]).all(|count| *count > 0),
            "{seen:?}"
        );
        met::check_all(&lent, 20);
    }
}
