use std::sync::Arc;

use super::*;

/// A thermometer of this many extents, and the counts of one of them.
fn of_extents(extents: u64) -> (Thermometer, Readings) {
    let thermometer = Thermometer::new(true);
    (0..extents).for_each(|_| thermometer.add_extent());
    (thermometer, Readings::default())
}

fn end_epoch(thermometer: &Thermometer) {
    thermometer.pass(thermometer.epoch_reads());
}

fn read(counts: &Readings, block: usize, times: u32, thermometer: &Thermometer) {
    (0..times * EACH).for_each(|_| counts.note_read(block, 80, thermometer));
}

#[test]
fn every_block_has_its_region() {
    for blocks in [1, 2, 7, 8, 9, 100, 127, 128, 1000] {
        for block in 0..blocks {
            let holds = |region: &usize| blocks_of(*region, blocks).contains(&block);
            let regions: Vec<_> = (0..REGIONS).filter(holds).collect();
            assert!(regions.iter().copied().eq(regions_of(block, blocks)), "{block} of {blocks}");
            assert!(regions.len() == 1 || (regions.len() > 1 && blocks < REGIONS));
        }
    }
}

#[test]
fn temperature_1_one_read_in_thirteen_is_counted_and_none_where_it_is_off() {
    let (thermometer, counts) = of_extents(1000);
    read(&counts, 25, 9, &thermometer);
    assert_eq!(counts.regions(&thermometer), [0, 0, 9, 0, 0, 0, 0, 0]);
    read(&counts, 79, 200, &thermometer);
    assert_eq!(counts.regions(&thermometer), [0, 0, 9, 0, 0, 0, 0, COUNT_MOST]);
    let (off, counts) = (Thermometer::new(false), Readings::default());
    read(&counts, 25, 1000, &off);
    assert_eq!((counts.regions(&off), off.epoch()), ([0; REGIONS], 0));
}

#[test]
fn temperature_2_each_epoch_halves_what_was_counted() {
    let (thermometer, counts) = of_extents(10);
    read(&counts, 0, 40, &thermometer);
    counts.add(79, 80, 63, &thermometer);
    for expected in [(40, 63), (20, 31), (10, 15), (5, 7), (2, 3), (1, 1), (0, 0), (0, 0)] {
        let regions = counts.regions(&thermometer);
        assert_eq!((regions[0], regions[7]), expected);
        assert_eq!(regions[1..7], [0; 6]);
        end_epoch(&thermometer);
    }
    // After any time: the stored bits of the epoch's number wrap around.
    counts.add(30, 80, 9, &thermometer);
    end_epoch(&thermometer);
    thermometer.epoch.fetch_add(u32::from(u16::MAX), Ordering::Relaxed);
    counts.add(30, 80, 0, &thermometer);
    assert_eq!(counts.regions(&thermometer)[3], 9, "a word cannot tell 65,536 epochs from none");
    thermometer.epoch.fetch_add(u32::from(u16::MAX), Ordering::Relaxed);
    assert_eq!(counts.regions(&thermometer)[3], 0);
}

#[test]
fn temperature_2_an_epoch_is_so_many_reads_for_each_extent_or_so_much_written() {
    let (thermometer, counts) = of_extents(10);
    read(&counts, 0, 16 * 10 - 1, &thermometer);
    assert_eq!(thermometer.epoch(), 0);
    read(&counts, 0, TOLD, &thermometer);
    assert_eq!(thermometer.epoch(), 1);
    (0..90).for_each(|_| thermometer.add_extent());
    let before = thermometer.passed.load(Ordering::Relaxed);
    thermometer.note_written(1 << 20, 10 << 20);
    assert_eq!(thermometer.passed.load(Ordering::Relaxed) - before, 160);
    thermometer.note_written(30 << 20, 10 << 20);
    assert_eq!(thermometer.epoch(), 4);
    // Without use, nothing is forgotten.
    read(&counts, 0, 8, &thermometer);
    assert_eq!(thermometer.epoch(), 4);
    (0..50).for_each(|_| thermometer.remove_extent());
    assert_eq!(thermometer.epoch_reads(), 800);
}

#[test]
fn temperature_2_extents_that_are_read_alike_are_warm_and_those_read_more_hot() {
    let extents: Vec<Readings> = (0..50).map(|_| Readings::default()).collect();
    let (thermometer, _) = of_extents(50);
    let mut rng = spillway_base::rng::Rng::new(1);
    let mut draw = |thermometer: &Thermometer, share_of_first: u64| {
        for _ in 0..EACH * 20_000 {
            let first = rng.chance(share_of_first, 100);
            let at = if first { 0 } else { rng.below(50) as usize };
            extents[at].note_read(rng.below(80) as usize, 80, thermometer);
        }
    };
    let warmth = |at: usize| extents[at].temperature(0..80, 80, &thermometer).warmth();
    draw(&thermometer, 0);
    let warm = (0..50).filter(|at| warmth(*at) == Warmth::Warm).count();
    assert!(warm > 45, "{warm}");
    draw(&thermometer, 10);
    assert_eq!(warmth(0), Warmth::Hot);
    draw(&thermometer, 100);
    assert!((1..50).all(|at| warmth(at) == Warmth::Cold));
}

#[test]
fn temperature_3_a_slice_is_as_warm_as_its_blocks() {
    let (thermometer, counts) = of_extents(1000);
    let temperature = |of| counts.temperature(of, 80, &thermometer).0;
    counts.add(0, 80, 20, &thermometer);
    counts.add(10, 80, 4, &thermometer);
    assert_eq!(temperature(0..80), 24);
    assert_eq!(temperature(0..10), 160, "as if all of the extent was read so often");
    assert_eq!(temperature(5..10), 160);
    assert_eq!(temperature(10..20), 32);
    assert_eq!(temperature(5..15), 96);
    assert_eq!((temperature(20..80), temperature(40..40)), (0, 0));
    let moved = Readings::default();
    moved.take_over(&counts);
    assert_eq!(moved.regions(&thermometer), counts.regions(&thermometer));
    // An extent with fewer blocks than regions.
    let few = Readings::default();
    few.add(0, 1, 100, &thermometer);
    assert_eq!(few.temperature(0..1, 1, &thermometer), Temperature(100));
    few.add(0, 1, 1000, &thermometer);
    assert_eq!(few.temperature(0..1, 1, &thermometer), Temperature(504));
}

#[test]
fn temperature_5_threads_that_count_at_once_lose_some_and_invent_none() {
    let (thermometer, counts) = of_extents(100_000);
    let (thermometer, counts) = (Arc::new(thermometer), Arc::new(counts));
    std::thread::scope(|scope| {
        for region in 0..4 {
            let (thermometer, counts) = (thermometer.clone(), counts.clone());
            scope.spawn(move || read(&counts, region * 10, 50, &thermometer));
        }
    });
    let regions = counts.regions(&thermometer);
    assert!(regions.iter().sum::<u64>() >= 1, "{regions:?}");
    assert!(regions[..4].iter().all(|count| *count <= 50) && regions[4..] == [0; 4], "{regions:?}");
    assert!(thermometer.passed.load(Ordering::Relaxed) <= 4 * 50);
}
