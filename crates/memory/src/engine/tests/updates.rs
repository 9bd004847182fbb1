//! Updates of rows that exist: the version chain of a hot row, and checkpoints of updates only.

use std::time::Duration;

use super::loading::key;
use super::*;

const KEYS: u64 = 600;

impl World {
    fn index_file(&self, table: TableId) -> u64 {
        let manifest = self.engine.0.checkpoints.last();
        manifest.tables.iter().find(|files| files.id == table).unwrap().index.number
    }

    /// Versions in the chain of a row.
    fn versions(&self, table: TableId, number: u64) -> usize {
        let inner = &self.engine.0;
        let pin = inner.store.pin();
        let table = inner.tables.load()[&table].clone();
        let rid = table.index.get(&key(number), &pin).unwrap();
        let (mut word, mut versions) = (table.rows.entry(rid.slot()).unwrap().load(), 0);
        while let Target::Version(at) = word.target() {
            word = inner.store.version(at, &pin).next();
            versions += 1;
        }
        versions
    }
}

/// CHAIN-2: no commit walks the long chain of a hot row, and the collector still trims it.
#[test]
fn chain_2_the_versions_of_a_hot_row_go_once_they_are_durable() {
    let mut world = World::new(11);
    let table = world.tables()[0];
    for round in 1..=3 {
        for update in 0..500_u64 {
            let mut batch = WriteBatch::new();
            batch.push(Op::Put { table, key: &key(1), value: &update.to_le_bytes() });
            // Without reports of places, no version may go.
            world.commit_untold(batch);
        }
        assert!(world.versions(table, 1) >= 500, "{round}");
        world.tell();
        while world.engine.run_background_job().unwrap() {}
        assert_eq!(world.versions(table, 1), 1, "{round}");
    }
    world.assert_is_whole(table);
    world.check_live();
}

/// A checkpoint of updates and deletions names the index file of the checkpoint before it. New keys
/// need a new file.
#[test]
fn memory_3_a_checkpoint_without_new_keys_keeps_the_index_file() {
    let mut world = World::new(12);
    let table = world.tables()[0];
    for number in 0..KEYS {
        world.put(table, &key(number), b"first");
    }
    world.tell();
    world.engine.persist_all().unwrap();
    let first = world.index_file(table);
    for number in 0..KEYS {
        match number % 3 {
            0 => world.put(table, &key(number), b"second"),
            1 => {
                let mut batch = WriteBatch::new();
                batch.push(Op::Delete { table, key: &key(number) });
                world.commit(batch);
            }
            _ => {}
        }
    }
    world.tell();
    while world.engine.run_background_job().unwrap() {}
    world.engine.persist_all().unwrap();
    assert_eq!(world.index_file(table), first);
    world.restart();
    world.assert_is_whole(table);
    world.check_live();
    // Slots of deleted rows get other keys, and the same keys come back.
    for number in (1..KEYS).step_by(6) {
        world.put(table, &key(KEYS + number), b"other");
        world.put(table, &key(number), b"again");
    }
    world.tell();
    world.engine.persist_all().unwrap();
    assert!(world.index_file(table) > first);
    world.restart();
    world.assert_is_whole(table);
    world.engine.0.keys().load_all(&world.engine.0.tables).unwrap();
    world.check_live();
}

/// SLAB-4: the memory of rows becomes large pages once it has been in use for a while, and eviction
/// returns it.
#[test]
fn slab_4_rows_in_use_are_in_large_pages_and_evicted_rows_are_in_none() {
    let mut world = World::new(13);
    let table = world.tables()[0];
    let value = [7; 4000];
    (0..1500).for_each(|number| world.put(table, &key(number), &value));
    world.tell();
    let inner = world.engine.0.clone();
    let large = |seconds: u64| {
        inner.page_collapse.run(Duration::from_secs(seconds), &inner.tables, &inner.store.slabs);
        let metrics = world.engine.metrics();
        let metric = metrics.iter().find(|metric| metric.name == "memory_engine_large_page_bytes");
        metric.unwrap().value as usize
    };
    let begin = spillway_base::clock::now().as_secs();
    assert_eq!([large(begin), large(begin + 1), large(begin + 2)][..2], [0, 0]);
    // None on systems without large pages.
    let found = large(begin + 3);
    assert!(found.is_multiple_of(2 << 20) && found <= inner.store.slabs.charged_bytes());
    world.assert_is_whole(table);
    while inner.eviction().evict(usize::MAX) > 0 {}
    inner.store.release();
    assert_eq!(large(begin + 4), 0);
    world.assert_is_whole(table);
    world.check_live();
}
