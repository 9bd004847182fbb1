//! Hot slices stay in upper levels, and slices that have cooled go down. Keeping hot slices there
//! delays no writer.

use std::ops::Range;

use super::tiers::{fast_and_hdd, nothing_is_lost, used};
use super::*;
use crate::extent_meta::ExtentId;
use crate::manifest::Place;
use crate::space::DeviceClass;
use crate::temperature::Warmth;
use crate::view::View;

const ROWS: u64 = 4000;

/// The target of Level1 is one of the table's four megabytes. Reads of Level1 are cheaper than
/// reads of Level2.
fn tiny() -> TieredSettings {
    TieredSettings {
        memtable_bytes: 128 << 10,
        level0_bytes: 256 << 10,
        level0_target: 2,
        hot_compression: Compression::None,
        cold_compression: Compression::Lz4,
        subtable_bytes: 1 << 30,
        manifest_bytes: 1 << 20,
        // Without a row cache, because it would serve the rows that are read often, and their
        // blocks would count no reads.
        row_cache_share: 0.0,
        ..small()
    }
}

fn done(bench: &Bench, kind: Kind) -> u64 {
    bench.engine.0.statistics.figures().compactions[kind as usize]
}

fn put(bench: &Bench, csn: u64, key: u64) {
    let (key, value) = (key.to_be_bytes(), noise(csn, 1000));
    bench.install(&(Csn(csn), batch(&[Op::Put { table: table(1), key: &key, value: &value }])));
}

/// All rows, in Level2.
fn loaded(disk: &SimDisk, settings: TieredSettings) -> Bench {
    with_rows(disk, settings, 0..ROWS)
}

/// Rows, all of them in Level2.
fn with_rows(disk: &SimDisk, settings: TieredSettings, rows: impl Iterator<Item = u64>) -> Bench {
    let bench = open_with(Arc::new(disk.clone()), settings).unwrap();
    bench.install(&(Csn(1), batch(&[Op::CreateTable(table(1))])));
    for key in rows {
        put(&bench, next(&bench), key);
        if key % 100 == 0 {
            bench.work().unwrap();
        }
    }
    bench.engine.compact_all().unwrap();
    bench
}

fn next(bench: &Bench) -> u64 {
    bench.horizon.stable().0 + 1
}

/// Writes to all rows with equal frequency, and reads some.
fn use_it(bench: &Bench, rounds: u64, reads: &Range<u64>, rng: &mut Rng) {
    for _ in 0..rounds {
        for _ in 0..50 {
            put(bench, next(bench), rng.below(ROWS));
        }
        for _ in 0..1000 {
            let key = reads.start + rng.below(reads.end - reads.start);
            assert!(bench.get(table(1), &key.to_be_bytes(), Csn::MAX).unwrap().is_some());
        }
        bench.work().unwrap();
    }
}

fn slices(bench: &Bench) -> Vec<(Place, Arc<Slice>)> {
    let places = bench.part(1).1.view().levels.clone();
    places.places().map(|(place, slice)| (place, slice.clone())).collect()
}

/// How many of these rows have a version in Level1.
fn in_level1(bench: &Bench, rows: &Range<u64>) -> usize {
    let levels = bench.part(1).1.view().levels.clone();
    let mut value = Vec::new();
    let mut found = |key: u64| {
        let run = levels.level1.clone();
        let mut only = Levels::default();
        only.level1 = run;
        let view = View { levels: Arc::new(only), ..empty_view(bench) };
        view.get(&key.to_be_bytes(), Csn::MAX, Access::Blocking, &mut value).unwrap().is_value()
    };
    rows.clone().filter(|key| found(*key)).count()
}

fn empty_view(bench: &Bench) -> View {
    let active = Arc::new(Memtable::new(bench.engine.0.write_buffer.accounts()));
    View { active, immutables: Vec::new(), levels: Arc::default() }
}

#[test]
fn a_hot_range_stays_in_level1_while_the_rest_sinks_and_sinks_once_it_has_cooled() {
    let (here, there) = (1000..1300, 3000..3300);
    let run = |temperature| {
        let disk = SimDisk::new(1);
        let bench = loaded(&disk, TieredSettings { temperature, ..tiny() });
        let mut rng = Rng::new(1);
        let seen = [&here, &there].map(|reads| {
            use_it(&bench, 100, reads, &mut rng);
            [&here, &there].map(|rows| in_level1(&bench, rows))
        });
        assert!(done(&bench, Kind::Major) > 10);
        drop(bench);
        verify_clean(&disk);
        seen
    };
    let ([[hot, cold], [cooled, warmed]], without) = (run(true), run(false));
    let figures = format!("{hot} beside {cold}, {warmed} beside {cooled}; {without:?} without");
    assert!(hot > 100 && hot > 2 * cold, "{figures}");
    assert!(warmed > 100 && 2 * warmed > 3 * cooled, "{figures}");
    assert!(hot > 2 * without[0][0] && warmed > 2 * without[1][1], "{figures}");
}

/// When a cold extent goes down, its hot part stays in Level1 without being copied, and the rest
/// goes to Level2.
#[test]
fn the_hot_part_of_a_cold_extent_stays() {
    let disk = SimDisk::new(2);
    let settings = TieredSettings {
        slot_bytes: 256 << 10,
        file_bytes: 4 << 20,
        memtable_bytes: 1 << 20,
        level0_bytes: 900 << 10,
        level0_target: 1,
        ..tiny()
    };
    // Other slices would be equally good to compact, so some rows overlap nothing in Level2.
    let bench = with_rows(&disk, settings, (0..1000).chain(2000..ROWS));
    let extents = |place: Place| -> Vec<_> {
        let all = slices(&bench).into_iter();
        all.filter(|(at, _)| *at == place).map(|(_, slice)| slice.extent.meta.id).collect()
    };
    let put_all = |rows: Range<u64>| {
        rows.for_each(|key| put(&bench, next(&bench), key));
        bench.engine.flush_all().unwrap();
        bench.work().unwrap();
    };
    put_all(1000..2000);
    let hot = 1010_u64..1080;
    for key in (0..40).flat_map(|_| hot.clone()) {
        assert!(bench.get(table(1), &key.to_be_bytes(), Csn::MAX).unwrap().is_some());
    }
    let before = in_level1(&bench, &hot);
    put_all(2000..3000);
    put_all(3000..4000);
    assert!(bench.engine.0.statistics.figures().kept_bytes > 30_000);
    assert_eq!((before, in_level1(&bench, &hot)), (70, 70));
    assert!(in_level1(&bench, &(1100..2000)) < 200);
    let (upper, lower) = (extents(Place::Level1), extents(Place::Level2));
    assert!(upper.iter().any(|extent| lower.contains(extent)), "{upper:?} {lower:?}");
    let rows = bench.rows(table(1), KeyRange::ALL, Direction::Forward, Csn::MAX).unwrap();
    assert_eq!(rows.len() as u64, ROWS);
    drop(bench);
    verify_clean(&disk);
}

fn heat_all(bench: &Bench) {
    for (_, slice) in slices(bench) {
        slice.meta.block_range().for_each(|block| slice.extent.inherit(block, 63));
    }
}

#[test]
fn where_all_is_hot_nothing_is_behind() {
    let disk = SimDisk::new(3);
    let bench = loaded(&disk, tiny());
    let mut rng = Rng::new(3);
    for round in 0..60 {
        heat_all(&bench);
        (0..50).for_each(|_| put(&bench, next(&bench), rng.below(ROWS)));
        bench.work().unwrap();
        let view = bench.part(1).1.view();
        let shape = bench.engine.0.compaction_shapes.current();
        let hot = view.levels.level1.slices().iter();
        let hot = hot.filter(|slice| slice.temperature().warmth() == Warmth::Hot).count();
        assert!(round < 10 || hot * 2 > view.levels.level1.slices().len());
        assert!(shape.level1_score(&view.levels) < 1.0, "round {round}");
        assert!(shape.level0_score(&view.levels) < 1.0, "round {round}");
    }
    assert!(done(&bench, Kind::Major) > 5);
}

/// The classes of the extents with only these rows, and of those with none of them.
fn classes(bench: &Bench, rows: &Range<u64>) -> [Vec<DeviceClass>; 2] {
    let on = bench.engine.0.space.classes_of_files();
    let (first, last) = (rows.start.to_be_bytes(), rows.end.to_be_bytes());
    // An extent counts as read if any of its slices has these rows.
    let mut extents: BTreeMap<ExtentId, (DeviceClass, Vec<bool>)> = BTreeMap::new();
    let mut all = [Vec::new(), Vec::new()];
    for (_, slice) in slices(bench) {
        let meta = &slice.meta;
        let class = on[&slice.extent.meta.slots.file].0;
        let inside = first[..] <= *meta.smallest && *meta.largest < last[..];
        let outside = *meta.largest < first[..] || last[..] <= *meta.smallest;
        let of = &mut extents.entry(meta.extent).or_insert((class, Vec::new())).1;
        of.extend(inside.then_some(true));
        of.extend(outside.then_some(false));
        of.extend((!inside && !outside).then_some([true, false]).into_iter().flatten());
    }
    for (class, inside) in extents.into_values() {
        if inside.iter().all(|inside| *inside) {
            all[0].push(class);
        } else if inside.iter().all(|inside| !inside) {
            all[1].push(class);
        }
    }
    all
}

#[test]
fn what_is_read_rises_to_the_fast_tier_and_goes_down_once_it_is_not() {
    let disk = SimDisk::new(4);
    let bench = loaded(&disk, TieredSettings { tiers: fast_and_hdd(), ..tiny() });
    bench.work().unwrap();
    let (here, there) = (1000..1300, 3000..3300);
    let all = |of: &[DeviceClass], on_hdd| {
        of.len() > 2 && of.iter().all(|of| (*of == DeviceClass::Hdd) == on_hdd)
    };
    assert!(all(&classes(&bench, &(0..ROWS))[0], true));
    let mut rng = Rng::new(4);
    for reads in [&here, &there] {
        for _ in 0..120_000 {
            let key = reads.start + rng.below(reads.end - reads.start);
            assert!(bench.get(table(1), &key.to_be_bytes(), Csn::MAX).unwrap().is_some());
        }
        bench.work().unwrap();
        let [of_them, others] = classes(&bench, reads);
        assert!(all(&of_them, false) && of_them.contains(&DeviceClass::Fast), "{of_them:?}");
        assert!(all(&others, true), "{others:?}");
        nothing_is_lost(&bench);
    }
    drop(bench);
    verify_clean(&disk);
}

/// A crash at any operation of moves by temperature: every extent is whole and in one place.
#[test]
fn a_crash_at_every_operation_of_moves_by_temperature_loses_nothing() {
    let settings = TieredSettings { tiers: fast_and_hdd(), ..tiny() };
    let open = |disk: &SimDisk| -> Result<Bench> {
        let bench = open_with(Arc::new(disk.clone()), settings.clone())?;
        bench.horizon.stable.store(1000, Ordering::SeqCst);
        Ok(bench)
    };
    let base = SimDisk::new(5);
    let bench = open(&base).unwrap();
    bench.horizon.stable.store(0, Ordering::SeqCst);
    bench.install(&(Csn(1), batch(&[Op::CreateTable(table(1))])));
    (0..400).for_each(|key| put(&bench, 2 + key, key));
    bench.engine.compact_all().unwrap();
    bench.work().unwrap();
    let expected = bench.rows(table(1), KeyRange::ALL, Direction::Forward, Csn(1000)).unwrap();
    assert_eq!((expected.len(), used(&bench).len()), (400, 1));
    drop(bench);
    // Every second extent moves up, and moves down again when it has cooled.
    let moves = |disk: &SimDisk| -> Result<(u64, u64)> {
        let bench = open(disk)?;
        for (_, slice) in slices(&bench).iter().step_by(2) {
            slice.meta.block_range().for_each(|block| slice.extent.inherit(block, 63));
        }
        bench.work()?;
        let rose = moved(&bench);
        for _ in 0..8 {
            bench.engine.0.context.thermometer.note_written(1, 1);
        }
        bench.work()?;
        Ok((rose, moved(&bench) - rose))
    };
    let whole = base.fork();
    let from = whole.operations();
    let (rose, went_down) = moves(&whole).unwrap();
    assert!(rose >= 3 && went_down == rose, "{rose} {went_down}");
    let operations = whole.operations();
    assert!(operations - from > 40, "{}", operations - from);
    for crash_at in from + 1..=operations {
        let disk = base.fork();
        disk.fail_operation(crash_at, Fault::Crash);
        let _ = moves(&disk);
        disk.crash();
        disk.restart();
        verify_clean(&disk);
        let bench = open(&disk).unwrap();
        nothing_is_lost(&bench);
        bench.work().unwrap();
        assert_eq!(used(&bench).len(), 1, "nothing is hot after a restart");
        nothing_is_lost(&bench);
        let rows = bench.rows(table(1), KeyRange::ALL, Direction::Forward, Csn(1000)).unwrap();
        assert!(rows == expected);
    }
}

fn moved(bench: &Bench) -> u64 {
    bench.engine.0.statistics.moved_extents()
}
