//! The shape of Level0 follows the access pattern of the table.

use super::*;

/// Writes to the table until Level0 was compacted. Returns the most sub-levels that were seen, and
/// the bytes flushed into each.
fn fill(bench: &Bench, csns: &mut std::ops::RangeFrom<u64>) -> (u64, u64) {
    let figures = || bench.engine.0.statistics.figures();
    let compacted = || figures().compactions.iter().sum::<u64>();
    let flushed = || figures().flushed_bytes / figures().flushes.max(1);
    let (before, mut most) = (compacted(), 0);
    for csn in csns {
        let op = Op::Put { table: table(1), key: &csn.to_be_bytes(), value: &noise(csn, 2000) };
        bench.install(&(Csn(csn), batch(&[op])));
        if bench.engine.run_background_job().unwrap() == JobOutcome::Worked {
            most = most.max(bench.engine.status()[0].sublevels);
        }
        if compacted() > before {
            break;
        }
    }
    (most, flushed())
}

fn with_level0(dynamic_level0: bool) -> (Bench, std::ops::RangeFrom<u64>) {
    let settings = TieredSettings { dynamic_level0, level0_bytes: 16 << 20, ..small() };
    let bench = open_with(Arc::new(SimDisk::new(1)), settings).unwrap();
    bench.install(&(Csn(1), batch(&[Op::CreateTable(table(1))])));
    (bench, 2..)
}

#[test]
fn a_table_that_is_written_has_smaller_sublevels() {
    let (bench, mut csns) = with_level0(false);
    let (few, large) = fill(&bench, &mut csns);
    let (bench, mut csns) = with_level0(true);
    let (many, small) = fill(&bench, &mut csns);
    assert_eq!((few, many), (3, 3));
    assert!(small < large * 2 / 3 && small > large / 3, "{small} {large}");
}

/// Nothing is written any more. The sub-levels that the writes left are merged because of the
/// reads.
#[test]
fn a_table_that_is_read_gets_rid_of_its_sublevels() {
    for dynamic in [false, true] {
        let (bench, mut csns) = with_level0(dynamic);
        fill(&bench, &mut csns);
        while bench.engine.status()[0].sublevels < 2 {
            let csn = csns.next().unwrap();
            let op = Op::Put { table: table(1), key: &csn.to_be_bytes(), value: &noise(csn, 2000) };
            bench.install(&(Csn(csn), batch(&[op])));
            bench.work().unwrap();
        }
        let key = 2_u64.to_be_bytes();
        for _ in 0..200_000 {
            assert!(bench.get(table(1), &key, Csn(csns.start - 1)).unwrap().is_some());
        }
        bench.work().unwrap();
        let sublevels = bench.engine.status()[0].sublevels;
        assert!(if dynamic { sublevels < 2 } else { sublevels == 2 }, "{dynamic} {sublevels}");
    }
}

/// E6: memtables of any table with requested commits are flushed. A memtable with only newer
/// commits is not.
#[test]
fn e6_only_memtables_with_commits_that_are_asked_for_are_flushed() {
    let bench = open(&SimDisk::new(1)).unwrap();
    for ordinal in 1..=3 {
        bench.install(&(Csn(ordinal.into()), batch(&[Op::CreateTable(table(ordinal))])));
    }
    for (csn, ordinal) in [(4, 1), (5, 2), (6, 3), (7, 2)] {
        let op = Op::Put { table: table(ordinal), key: b"k", value: &[csn as u8] };
        bench.install(&(Csn(csn), batch(&[op])));
    }
    bench.work().unwrap();
    assert_eq!(bench.engine.persisted(), Csn(3));
    bench.engine.request_persist(Csn(5));
    bench.work().unwrap();
    assert_eq!(bench.engine.persisted(), Csn(5));
    let in_memory = [1, 2, 3].map(|ordinal| !bench.part(ordinal).1.view().active.is_empty());
    assert_eq!(in_memory, [false, false, true]);
}

/// Blocks of Level0 are small, because a read needs few of their rows. Blocks of Level2, which has
/// nearly all data, are not small. Neither are blocks that will likely go there unchanged.
#[test]
fn blocks_are_small_where_a_read_is_of_few_rows_of_theirs() {
    let settings = TieredSettings {
        hot_block_bytes: 4 << 10,
        hot_compression: Compression::None,
        cold_compression: Compression::None,
        ..small()
    };
    let load = |bench: &Bench, numbers: std::ops::Range<u64>, step: u64| {
        for number in numbers.step_by(step as usize) {
            let csn = bench.horizon.stable().0 + 1;
            let op = Op::Put { table: table(1), key: &number.to_be_bytes(), value: &[7; 100] };
            bench.install(&(Csn(csn), batch(&[op])));
        }
        bench.engine.request_persist(bench.horizon.stable());
    };
    let bytes_of = |slices: &[Arc<Slice>]| {
        let bytes: u64 = slices.iter().map(|slice| slice.meta.bytes).sum();
        bytes / slices.iter().map(|slice| u64::from(slice.meta.blocks)).sum::<u64>().max(1)
    };
    for straight_flush in [false, true] {
        let settings = TieredSettings { straight_flush, ..settings.clone() };
        let bench = open_with(Arc::new(SimDisk::new(1)), settings).unwrap();
        bench.install(&(Csn(1), batch(&[Op::CreateTable(table(1))])));
        load(&bench, 0..3000, 1);
        let levels = || bench.part(1).1.view().levels.clone();
        while levels().runs().next().is_none_or(|run| run.slices().is_empty()) {
            bench.engine.run_background_job().unwrap();
        }
        let levels = levels();
        let flushed: Vec<_> = levels.runs().flat_map(|run| run.slices().to_vec()).collect();
        let wanted = if straight_flush { 12 << 10..17 << 10 } else { 3 << 10..5 << 10 };
        assert!(wanted.contains(&bytes_of(&flushed)), "{straight_flush}: {}", bytes_of(&flushed));
        bench.engine.compact_all().unwrap();
        let levels = bench.part(1).1.view().levels.clone();
        assert!(levels.level0.is_empty() && levels.level1.slices().is_empty());
        load(&bench, 0..3000, 3);
        bench.engine.compact_all().unwrap();
        let bytes = bytes_of(&bench.part(1).1.view().levels.level2.slices().to_vec());
        assert!((12 << 10..17 << 10).contains(&bytes), "Level2: {bytes}");
    }
}
