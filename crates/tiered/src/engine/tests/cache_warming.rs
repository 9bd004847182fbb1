//! Cache warming: the tables of written extents enter the cache.

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

fn compact(bench: &Bench) {
    let (table, part) = bench.part(1);
    bench.engine.0.compact_fully(&table, &part).unwrap();
}

/// A flush's tables enter the cache. A compaction's tables do if those of its inputs were in it.
#[test]
fn cache_warming_1_2_3_tables_enter_as_they_are_written() {
    for warm_tables in [true, false] {
        let disk = Arc::new(SimDisk::new(1));
        let settings = || TieredSettings { warm_tables, cache_bytes: 16 << 20, ..small() };
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
        let read = || bench.engine.0.context.cache.read_and_ghost_missed().0;
        assert_eq!(read(), 0, "CACHE-WARMING-3");
        bench.install(&put(2, (0..ROWS).step_by(7)));
        bench.engine.flush_all().unwrap();
        let reads =
            || bench.engine.0.context.reads.each_ref().map(|reads| reads.load(Ordering::Relaxed));
        let before = reads();
        compact(&bench);
        assert_eq!(reads(), before, "CACHE-WARMING-3");
        all_or_none(&bench);
        bench.install(&put(3, (0..ROWS).step_by(5)));
        bench.engine.flush_all().unwrap();
        drop(bench);
        // After an opening, nothing is in memory. A compaction then reads the tables of its inputs,
        // but this does not make the written tables enter the cache.
        let bench = open_with(disk, settings()).unwrap();
        let before = extents(&bench);
        compact(&bench);
        let new = extents(&bench);
        let new: Vec<_> = new.iter().filter(|(id, _)| !before.contains_key(id)).collect();
        assert!(!new.is_empty() && new.iter().all(|(_, has)| !**has), "{new:?}");
    }
}

/// CACHE-WARMING-1 and 2: if the cache has little memory, written tables do not exceed it.
#[test]
fn cache_warming_1_2_a_small_cache_keeps_to_its_memory() {
    let settings = TieredSettings { cache_bytes: 100 << 10, ..small() };
    let bench = open_with(Arc::new(SimDisk::new(1)), settings).unwrap();
    bench.install(&put(1, 0..ROWS));
    bench.engine.flush_all().unwrap();
    for round in 2..8 {
        for number in 0..ROWS / 4 {
            let snapshot = bench.horizon.stable();
            assert!(bench.get(table(1), &key_of(number), snapshot).unwrap().is_some());
        }
        bench.install(&put(round, (0..ROWS).filter(|number| number % 13 == round)));
        bench.engine.flush_all().unwrap();
        compact(&bench);
        let (blocks, tables) = bench.engine.0.context.cache.bytes();
        assert!(blocks + tables <= 100 << 10, "{blocks} and {tables}");
    }
}
