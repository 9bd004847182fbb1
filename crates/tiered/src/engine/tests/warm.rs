//! What compactions write is in memory where what they replace was.

use super::*;

const ROWS: u64 = 4000;

fn key_of(number: u64) -> Vec<u8> {
    format!("row{number:06}").into_bytes()
}

/// A commit that puts each of these rows.
fn put(csn: u64, rows: impl Iterator<Item = u64>) -> Commit {
    let mut batch = WriteBatch::new();
    if csn == 1 {
        batch.push(Op::CreateTable(table(1)));
    }
    for number in rows {
        let (key, value) = (key_of(number), noise(csn << 32 | number, 200));
        batch.push(Op::Put { table: table(1), key: &key, value: &value });
    }
    (Csn(csn), batch)
}

fn persist(bench: &Bench, commit: &Commit) {
    bench.install(commit);
    bench.engine.request_persist(bench.horizon.stable());
    bench.work().unwrap();
}

fn compact(bench: &Bench) {
    let (table, part) = bench.part(1);
    bench.engine.0.compact_fully(&table, &part).unwrap();
}

/// Blocks that a read of each row finds in no cache.
fn misses(bench: &Bench, rows: impl Iterator<Item = u64>) -> u64 {
    let misses = || bench.engine.0.context.cache.hits_and_misses().1;
    let before = misses();
    let snapshot = bench.horizon.stable();
    for number in rows {
        assert!(bench.get(table(1), &key_of(number), snapshot).unwrap().is_some());
    }
    misses() - before
}

fn bench_with(replacement: bool, cache_bytes: usize) -> Bench {
    let settings = TieredSettings { replacement, cache_bytes, ..small() };
    open_with(Arc::new(SimDisk::new(1)), settings).unwrap()
}

/// U1, U2: what was of use is found in its new place, be it merged, carried or re-linked; without
/// it, it is not.
#[test]
fn u1_what_replaces_the_warm_is_warm() {
    for replacement in [true, false] {
        let bench = bench_with(replacement, 16 << 20);
        persist(&bench, &put(1, 0..ROWS));
        compact(&bench);
        let hot = || 0..ROWS / 2;
        (0..3).for_each(|_| _ = misses(&bench, hot()));
        assert_eq!(misses(&bench, hot()), 0, "there is room for them");
        // Here and there a row, in the half that is read and in the other.
        persist(&bench, &put(2, (0..ROWS).filter(|number| number % 97 < 3)));
        (0..3).for_each(|_| _ = misses(&bench, hot()));
        let reads =
            || bench.engine.0.context.reads.each_ref().map(|reads| reads.load(Ordering::Relaxed));
        let before = reads();
        compact(&bench);
        assert_eq!(reads(), before, "U3");
        let merged = bench.engine.0.counts.compactions.iter();
        assert!(merged.map(|count| count.load(Ordering::Relaxed)).sum::<u64>() > 1);
        let missed = misses(&bench, hot());
        // At the edge of the half a block may be of use for a small part.
        assert!(if replacement { missed <= 1 } else { missed > 5 }, "{replacement}: {missed}");
        // U3: what nobody read is not there.
        let cold = misses(&bench, ROWS / 2 + ROWS / 8..ROWS);
        assert!(cold > 5, "{replacement}: {cold}");
    }
}

/// What was read once, as by a scan, draws nothing in.
#[test]
fn u1_what_was_read_once_is_not_of_use() {
    let bench = bench_with(true, 16 << 20);
    persist(&bench, &put(1, 0..ROWS));
    compact(&bench);
    let (_, before) = bench.engine.0.context.cache.hits_and_misses();
    let all = bench.rows(table(1), KeyRange::ALL, Direction::Forward, bench.horizon.stable());
    assert_eq!(all.unwrap().len(), ROWS as usize);
    let (_, after) = bench.engine.0.context.cache.hits_and_misses();
    persist(&bench, &put(2, (0..ROWS).filter(|number| number % 97 < 3)));
    compact(&bench);
    let missed = misses(&bench, 0..ROWS);
    assert!(missed > (after - before) / 2, "{missed} of {}", after - before);
}

/// U4: where there is little memory, it is kept to.
#[test]
fn u4_memory_is_kept_to() {
    let bench = bench_with(true, 100 << 10);
    persist(&bench, &put(1, 0..ROWS));
    for round in 2..8 {
        misses(&bench, 0..ROWS / 4);
        persist(&bench, &put(round, (0..ROWS).filter(|number| number % 13 == round)));
        compact(&bench);
        let (blocks, tables) = bench.engine.0.context.cache.bytes();
        assert!(blocks + tables <= 100 << 10, "{blocks} and {tables}");
    }
}

/// U6: what a flush writes has its table in memory, and what a compaction writes where one of what
/// it replaces was.
#[test]
fn u6_tables_come_as_they_are_written() {
    for warm_tables in [true, false] {
        let disk = Arc::new(SimDisk::new(1));
        let settings =
            || TieredSettings { warm_tables, replacement: false, cache_bytes: 16 << 20, ..small() };
        let extents = |bench: &Bench| -> BTreeMap<_, _> {
            let (_, part) = bench.part(1);
            let levels = part.view().levels.clone();
            let places = levels.places();
            places.map(|(_, slice)| (slice.meta.extent, slice.extent.has_table())).collect()
        };
        let all_or_none = |bench: &Bench| {
            let all = extents(bench);
            assert!(!all.is_empty() && all.values().all(|has| *has == warm_tables), "{all:?}");
        };
        let bench = open_with(disk.clone(), settings()).unwrap();
        bench.install(&put(1, 0..ROWS));
        bench.engine.flush_all().unwrap();
        all_or_none(&bench);
        let read = || bench.engine.0.context.cache.read_and_regretted().0;
        assert_eq!(read(), 0, "nothing was read");
        bench.install(&put(2, (0..ROWS).step_by(7)));
        bench.engine.flush_all().unwrap();
        compact(&bench);
        all_or_none(&bench);
        bench.install(&put(3, (0..ROWS).step_by(5)));
        bench.engine.flush_all().unwrap();
        drop(bench);
        // Nothing is in memory after an opening. A compaction reads the tables of what it merges,
        // and that makes none of them of use.
        let bench = open_with(disk, settings()).unwrap();
        let before = extents(&bench);
        compact(&bench);
        let new = extents(&bench);
        let new: Vec<_> = new.iter().filter(|(id, _)| !before.contains_key(id)).collect();
        assert!(!new.is_empty() && new.iter().all(|(_, has)| !**has), "{new:?}");
    }
}
