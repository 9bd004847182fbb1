//! Which memtables are flushed into Level0, and the size of the blocks there.

use super::*;

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
/// nearly all data, are not small.
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
    let bench = open_with(Arc::new(SimDisk::new(1)), settings).unwrap();
    bench.install(&(Csn(1), batch(&[Op::CreateTable(table(1))])));
    load(&bench, 0..3000, 1);
    let levels = || bench.part(1).1.view().levels.clone();
    while levels().runs().next().is_none_or(|run| run.slices().is_empty()) {
        bench.engine.run_background_job().unwrap();
    }
    let flushed: Vec<_> = levels().runs().flat_map(|run| run.slices().to_vec()).collect();
    assert!((3 << 10..5 << 10).contains(&bytes_of(&flushed)), "{}", bytes_of(&flushed));
    bench.engine.compact_all().unwrap();
    assert!(levels().level0.is_empty() && levels().level1.slices().is_empty());
    load(&bench, 0..3000, 3);
    bench.engine.compact_all().unwrap();
    let bytes = bytes_of(&levels().level2.slices().to_vec());
    assert!((12 << 10..17 << 10).contains(&bytes), "Level2: {bytes}");
}
