//! The effects of each kind of compaction: deleted rows are removed, space is saved, and keys
//! beside damage are compacted.

use std::collections::HashMap;
use std::thread::ThreadId;

use spillway_base::lock::Condvar;

use super::*;
use crate::block::BuiltBlock;
use crate::compaction::{Accelerator, Cpu, DropRule, MergeTask};

fn done(bench: &Bench, kind: Kind) -> u64 {
    bench.engine.0.statistics.figures().compactions[kind as usize]
}

fn put(bench: &Bench, csn: u64, key: u64, bytes: usize) {
    let (key, value) = (key.to_be_bytes(), noise(csn, bytes));
    bench.install(&(Csn(csn), batch(&[Op::Put { table: table(1), key: &key, value: &value }])));
}

fn with_table(settings: TieredSettings) -> (SimDisk, Bench) {
    let disk = SimDisk::new(1);
    let bench = open_with(Arc::new(disk.clone()), settings).unwrap();
    bench.install(&(Csn(1), batch(&[Op::CreateTable(table(1))])));
    (disk, bench)
}

/// Deleted rows and their tombstones are removed from the files even if nothing else is written.
#[test]
fn what_was_deleted_goes_by_itself() {
    let (disk, bench) = with_table(small());
    let rows = 600;
    (0..rows).for_each(|key| put(&bench, 2 + key, key, 1000));
    bench.engine.compact_all().unwrap();
    for key in 0..rows {
        let csn = Csn(2 + rows + key);
        let op = Op::Delete { table: table(1), key: &key.to_be_bytes() };
        bench.install(&(csn, batch(&[op])));
    }
    bench.engine.flush_all().unwrap();
    bench.work().unwrap();
    let versions: u64 = bench.engine.status()[0].levels.iter().map(|level| level.versions).sum();
    assert_eq!(versions, 0);
    assert!(done(&bench, Kind::Deletion) > 0 && done(&bench, Kind::Full) == 1);
    drop(bench);
    verify_clean(&disk);
}

/// Scattered rows are rewritten, so most blocks of each extent stay in use and some are dead. The
/// dead blocks never exceed the ceiling.
#[test]
fn space_stays_under_its_ceiling() {
    let settings = TieredSettings {
        slot_bytes: 256 << 10,
        file_bytes: 4 << 20,
        cold_compression: Compression::None,
        ..small()
    };
    let (disk, bench) = with_table(settings);
    let rows = 6000;
    (0..rows).for_each(|key| put(&bench, 2 + key, key, 1000));
    bench.engine.compact_all().unwrap();
    let mut rng = Rng::new(5);
    let mut csn = 2 + rows;
    for _ in 0..60 {
        // The rows are adjacent, so the rest of their extents is not touched.
        let from = rng.below(rows - 20);
        for key in from..from + 20 {
            put(&bench, csn, key, 1000);
            csn += 1;
        }
        bench.engine.flush_all().unwrap();
        bench.engine.compact_all().unwrap();
        bench.work().unwrap();
    }
    assert!(done(&bench, Kind::SelfMajor) > 0);
    let (all, free) = bench.engine.0.space.bytes();
    let level2 = bench.engine.status()[0].levels[2].bytes;
    let slot = f64::from(256 << 10);
    // A few extents more are allowed, because a slot of the test holds fifteen blocks instead of
    // sixteen.
    let most = level2 as f64 * 1.25 * 16.0 / 15.0 + 6.0 * slot;
    assert!(((all - free) as f64) < most, "{} bytes for {level2}", all - free);
    drop(bench);
    verify_clean(&disk);
}

/// Rewrites random rows repeatedly. Returns the most bytes that extents take for each byte of
/// Level2 when no work is due, without the data that may always be above Level2, and the bytes that
/// compactions wrote.
fn amplification(space_max: f64) -> (f64, u64) {
    let settings = TieredSettings {
        space_max,
        slot_bytes: 64 << 10,
        file_bytes: 4 << 20,
        memtable_bytes: 128 << 10,
        memtables_bytes: 384 << 10,
        level0_bytes: 64 << 10,
        level0_share: 0.125,
        cold_compression: Compression::None,
        ..small()
    };
    let always = 3 * settings.level0_bytes + 4 * settings.slot_bytes as u64;
    let (disk, bench) = with_table(settings);
    let (rows, mut csn) = (8000, 2);
    let mut rng = Rng::new(7);
    let mut most: f64 = 0.0;
    for turn in 0..24_000 {
        put(&bench, csn, if turn < rows { turn } else { rng.below(rows) }, 1000);
        csn += 1;
        if turn % 100 == 99 {
            bench.engine.flush_all().unwrap();
            bench.work().unwrap();
        }
        if turn % 100 == 99 && turn > 2 * rows {
            let (all, free) = bench.engine.0.space.bytes();
            let level2 = bench.engine.status()[0].levels[2].bytes;
            most = most.max((all - free).saturating_sub(always) as f64 / level2 as f64);
        }
    }
    let written = bench.engine.0.statistics.figures().compaction_written_bytes;
    drop(bench);
    verify_clean(&disk);
    (most, written)
}

/// The ceiling applies to the whole table: with a lower ceiling, less data is above Level2, and
/// more is written.
#[test]
fn a_ceiling_on_space_is_one_for_all_levels() {
    let found = [1.2, 2.0].map(|space_max| (space_max, amplification(space_max)));
    for (space_max, (most, _)) in found {
        // One block in four may not fit a slot of the test.
        assert!(most < space_max * 4.0 / 3.0, "{found:?}");
    }
    let [tight, plenty] = found.map(|(_, found)| found);
    assert!(tight.0 < plenty.0 && tight.1 > plenty.1, "{found:?}");
}

/// Two compactions of one sub-table run concurrently if their keys do not overlap.
#[test]
fn compactions_of_keys_that_are_apart_run_beside_each_other() {
    let (_, bench) = with_table(small());
    let inner = &bench.engine.0;
    for round in 0..4 {
        for key in (0..100).chain(100_000..100_100) {
            put(&bench, 2 + round * 200 + key % 100_000, key, 1000);
        }
        bench.engine.flush_all().unwrap();
    }
    let (_, part) = bench.part(1);
    let levels = part.view().levels.clone();
    let first = |bars: &crate::picker::Conflicts, from: u64| {
        let inside = |slice: &&Arc<Slice>| *slice.meta.smallest >= from.to_be_bytes()[..];
        let slice = levels.level0[0].run.slices().iter().find(inside)?.clone();
        let sources = vec![vec![slice]];
        let pick = crate::picker::Pick {
            keeps: Vec::new(),
            kind: Kind::Minor,
            sources,
            target: crate::manifest::Place::Level1,
        };
        let (smallest, largest) = pick.hull();
        (!bars.overlap(smallest, largest)).then_some(pick)
    };
    let one = part.take(|bars| first(bars, 0)).unwrap();
    assert!(part.take(|bars| first(bars, 0)).is_none(), "the same keys");
    let other = part.take(|bars| first(bars, 100_000)).unwrap();
    assert!(part.take_whole().is_none());
    drop((one, other));
    assert!(part.take_whole().is_some() && inner.health.check().is_ok());
}

/// Makes merges wait until it is opened, and records their keys.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<Passing>, Condvar)>);

#[derive(Default)]
struct Passing {
    is_open: bool,
    /// The compactions that have reached the gate, each in its own thread: the smallest and the
    /// largest key of all their tasks.
    hulls: HashMap<ThreadId, (Vec<u8>, Vec<u8>)>,
    /// The number of calls that found nothing to compact.
    idle: usize,
}

impl Accelerator for Gate {
    fn batch(&self) -> usize {
        1
    }

    fn merge(&self, tasks: &[MergeTask], rule: &DropRule<'_>) -> Result<Vec<Vec<BuiltBlock>>> {
        let (passing, changed) = &*self.0;
        let mut passing = passing.lock();
        for piece in tasks.iter().flat_map(MergeTask::sources).flatten() {
            for entry in piece.entries().map(|at| piece.block.entry(at)) {
                let new = || (entry.key.to_vec(), entry.key.to_vec());
                let (first, last) =
                    passing.hulls.entry(std::thread::current().id()).or_insert_with(new);
                *first = std::mem::take(first).min(entry.key.to_vec());
                *last = std::mem::take(last).max(entry.key.to_vec());
            }
        }
        changed.notify_all();
        while !passing.is_open {
            changed.wait(&mut passing);
        }
        drop(passing);
        Cpu.merge(tasks, rule)
    }
}

/// Several compactions of one large sub-table run at the same time, as many as are due for separate
/// keys. None ends before the last one has begun, and no two have a key in common.
#[test]
fn compactions_of_one_subtable_are_at_work_at_once_and_share_no_keys() {
    let settings = TieredSettings {
        data_reuse: false,
        memtable_bytes: 8 << 20,
        memtables_bytes: 32 << 20,
        subtable_bytes: 1 << 30,
        hot_compression: Compression::None,
        cold_compression: Compression::None,
        ..small()
    };
    let (disk, bench) = with_table(settings);
    let rows = 5000;
    (0..rows).for_each(|key| put(&bench, 2 + key, key, 1000));
    bench.engine.compact_all().unwrap();
    // As many rows go into Level0, above those.
    (0..rows).for_each(|key| put(&bench, 2 + rows + key, key, 1000));
    bench.engine.flush_all().unwrap();
    assert_eq!(bench.engine.status()[0].subtables, 1);
    let gate = Gate::default();
    bench.engine.offload_to(Box::new(gate.clone()));
    let (passing, changed) = &*gate.0;
    let inner = &bench.engine.0;
    let at_once = std::thread::scope(|scope| {
        for begun in 1.. {
            scope.spawn(|| {
                // A compaction that failed would never reach the gate.
                if !matches!(inner.compact_one(), Ok(true)) {
                    passing.lock().idle += 1;
                    changed.notify_all();
                }
            });
            let mut now = passing.lock();
            while now.idle == 0 && now.hulls.len() < begun {
                changed.wait(&mut now);
            }
            if now.idle > 0 {
                break;
            }
        }
        let mut now = passing.lock();
        now.is_open = true;
        changed.notify_all();
        now.hulls.len()
    });
    assert!(at_once >= 3, "{at_once} at once");
    let mut hulls: Vec<_> = passing.lock().hulls.values().cloned().collect();
    assert_eq!(hulls.len(), at_once);
    hulls.sort_unstable();
    assert!(hulls.windows(2).all(|pair| pair[0].1 < pair[1].0), "{hulls:?}");
    bench.work().unwrap();
    for key in 0..rows {
        let found = bench.get(table(1), &key.to_be_bytes(), Csn(2 + 2 * rows)).unwrap();
        assert!(found == Some(noise(2 + rows + key, 1000)), "{key}");
    }
    drop(bench);
    verify_clean(&disk);
}

/// E8: damage prevents only the split that finds it. Memtables are still flushed, and the engine
/// goes on.
#[test]
fn e8_damage_met_by_a_split_stops_neither_flushes_nor_the_engine() {
    let (disk, bench) = with_table(small());
    (0..300).for_each(|key| put(&bench, 2 + key, key, 1000));
    bench.engine.compact_all().unwrap();
    // A slice of Level0 spans the middle of the sub-table.
    (0..20).for_each(|key| put(&bench, 400 + key, key * 15 % 300, 1000));
    bench.engine.flush_all().unwrap();
    let (_, part) = bench.part(1);
    let levels = part.view().levels.clone();
    let slots = levels.level0[0].run.slices().at(0).extent.meta.slots;
    drop((part, levels, bench));
    let file = dir().join(format!("{:06}.data", slots.file));
    disk.rot(&file, u64::from(slots.first) * (64 << 10) + 50, 1);

    let bench = open_with(Arc::new(disk.clone()), small()).unwrap();
    bench.horizon.stable.store(999, Ordering::SeqCst);
    let (whole, part) = bench.part(1);
    assert!(!bench.engine.0.split(&whole, &part).unwrap());
    assert!(part.quarantined().is_some() && bench.engine.health().is_ok());
    put(&bench, 2000, 7_000_000, 10);
    bench.engine.flush_all().unwrap();
    assert!(bench.get(table(1), &7_000_000_u64.to_be_bytes(), Csn(2000)).unwrap().is_some());
}

/// Two of these rows do not fit one slot, so a part of each slot stays free. Merging them would
/// gain nothing.
#[test]
fn what_cannot_be_filled_better_is_left_alone() {
    for bytes in [33_000, 40_000, 70_000, 170_000] {
        let settings = TieredSettings { cold_compression: Compression::None, ..small() };
        let (disk, bench) = with_table(settings);
        for key in 0..40 {
            // There are small rows between them, and a last row in a fuller extent.
            put(&bench, 2 + key, key, if key % 7 == 3 { 300 } else { bytes });
        }
        bench.engine.compact_all().unwrap();
        bench.work().unwrap();
        assert!(done(&bench, Kind::SelfMajor) <= 3, "{}", done(&bench, Kind::SelfMajor));
        // The dead space of extents of several slots is still freed.
        for key in 0..40 {
            put(&bench, 42 + key, key, if key % 5 == 0 { bytes } else { 300 });
        }
        bench.engine.flush_all().unwrap();
        bench.work().unwrap();
        drop(bench);
        verify_clean(&disk);
    }
}
