//! Scenarios after faults that were reported for other engines with rows or indexes in memory.

use spillway_base::budget::Use;
use spillway_base::engine::Cursor;

use super::loading::key;
use super::*;

fn next_rows(cursor: &mut dyn Cursor, most: usize, rows: &mut Vec<(Vec<u8>, Vec<u8>)>) -> usize {
    let count = cursor.next_rows(Access::Blocking, most).unwrap();
    cursor.rows(&mut |key, value| {
        rows.push((key.to_vec(), value.to_vec()));
        true
    });
    count
}

impl World {
    pub(super) fn delete(&mut self, table: TableId, key: &[u8]) {
        let mut batch = WriteBatch::new();
        batch.push(Op::Delete { table, key });
        self.commit(batch);
    }

    fn value(&self, table: TableId, key: &[u8]) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        let found = self.engine.get(table, key, self.csn, Access::Blocking, &mut value).unwrap();
        found.is_value().then_some(value)
    }

    fn work(&self) {
        while self.engine.run_background_job().unwrap() {}
    }

    fn evict_everything(&mut self) {
        self.tell();
        self.work();
        while self.engine.0.eviction().evict(usize::MAX) > 0 {}
        self.release();
    }

    /// Frees what no reader may use any more.
    pub(super) fn release(&self) {
        (0..4).for_each(|_| self.engine.0.store.release());
    }

    /// A change of some rows, or of where they are.
    fn change(&mut self) {
        match self.rng.below(13) {
            0..6 => self.write(),
            6 => self.delete_range(),
            7 => _ = self.engine.0.eviction().evict(1 << self.rng.below(18)),
            8 => {
                self.tell();
                self.engine.run_background_job().unwrap();
            }
            9 => {
                self.tell();
                self.engine.persist_all().unwrap();
            }
            10 => self.engine.compact_all().unwrap(),
            11 => self.evict_everything(),
            _ => self.cut(),
        }
    }
}

/// Between two steps of a cursor, nodes of the index split and shrink, and rows leave, whose slots
/// are used again (`scc` 22, `surrealmx` 80, Tarantool 7409 and 7755). Only the cursor's pin keeps
/// its snapshot (PINS-2).
#[test]
fn a_cursor_finds_its_snapshot_whatever_happens_between_its_steps() {
    for seed in 0..40 {
        let mut world = World::new(500 + seed);
        for _ in 0..200 {
            world.write();
        }
        world.tell();
        let (table, snapshot) = (world.tables()[0], world.csn);
        let (low, high) = (world.key(), world.key());
        let range = match seed % 4 {
            0 | 1 => KeyRange::ALL,
            _ => KeyRange::new(low.as_slice().min(&high), Some(high.as_slice().max(&low))),
        };
        let direction = if seed % 2 == 0 { Direction::Forward } else { Direction::Backward };
        let mut wanted = world.model.scan(table, range, snapshot);
        if direction == Direction::Backward {
            wanted.reverse();
        }
        let scan = world.engine.scan(table, range, direction, snapshot, Access::Blocking);
        let (mut cursor, mut got) = (scan.unwrap(), Vec::new());
        let most = 1 + world.rng.below(4) as usize;
        while next_rows(&mut *cursor, most, &mut got) > 0 {
            for _ in 0..world.rng.below(5) {
                world.change();
            }
        }
        let keys = |rows: &[(Vec<u8>, Vec<u8>)]| -> Vec<Vec<u8>> {
            rows.iter().map(|(key, _)| key.clone()).collect()
        };
        assert_eq!(keys(&got), keys(&wanted), "seed {seed}");
        assert!(got == wanted, "seed {seed}");
    }
}

/// MEMORY-3: a checkpoint has no change of a commit that is installed but not stable, which a crash
/// loses (Tarantool 7539).
#[test]
fn memory_3_a_checkpoint_has_no_commit_that_a_crash_loses() {
    let mut world = World::new(31);
    let table = world.tables()[0];
    for number in 0..100 {
        world.put(table, &key(number), b"durable");
    }
    world.tell();
    world.engine.persist_all().unwrap();
    world.put(table, &key(100), b"durable");
    world.tell();
    let (stable, commits, model) = (world.csn, world.log.len(), world.model.clone());
    let mut batch = WriteBatch::new();
    for number in 0..20 {
        batch.push(Op::Put { table, key: &key(number), value: b"lost" });
        batch.push(Op::Delete { table, key: &key(20 + number) });
        batch.push(Op::Put { table, key: &key(200 + number), value: b"lost" });
    }
    world.commit_untold(batch);
    world.engine.persist_all().unwrap();
    assert_eq!(world.engine.persisted(), stable);
    // The log lost the last commit. The next one has its CSN.
    world.log.truncate(commits);
    (world.csn, world.model) = (stable, model);
    world.restart();
    world.assert_is_whole(table);
    assert_eq!(world.value(table, &key(200)), None);
    world.put(table, &key(200), b"after");
    world.tell();
    world.check_live();
    world.crash();
    world.assert_is_whole(table);
}

/// Rows stay through openings that use none of them and write a checkpoint, and can be deleted
/// after these (FASTER 165 and 780, DuckDB 23788).
#[test]
fn rows_survive_openings_that_do_not_use_them() {
    let mut world = World::new(32);
    let table = world.tables()[0];
    for round in 0..2 {
        for number in 0..300 {
            world.put(table, &key(number), &[round; 50]);
        }
    }
    world.evict_everything();
    for round in 0..4 {
        world.engine.persist_all().unwrap();
        world.cut();
        world.restart();
        world.engine.persist_all().unwrap();
        world.restart();
        if round % 2 == 0 {
            world.put(table, &key(1000 + round), b"another");
            world.tell();
        }
        world.engine.compact_all().unwrap();
    }
    world.restart();
    for number in (0..300).step_by(2) {
        world.delete(table, &key(number));
    }
    world.tell();
    world.crash();
    world.assert_is_whole(table);
    world.work();
    world.engine.compact_all().unwrap();
    world.restart();
    world.assert_is_whole(table);
    world.check_live();
    assert_eq!(world.engine.table_size(table).rows, 152);
}

/// A deletion needs memory, and is not refused or forgotten for lack of it (Tarantool 11069).
#[test]
fn rows_are_deleted_although_memory_is_full() {
    let mut world = World::new(33);
    let table = world.tables()[0];
    for number in 0..400 {
        world.put(table, &key(number), &[7; 200]);
    }
    world.evict_everything();
    let full = world.budget.charge(Use::Other, world.budget.limit() - world.budget.used());
    for number in 0..400 {
        world.delete(table, &key(number));
        assert_eq!(world.value(table, &key(number)), None);
    }
    world.tell();
    world.work();
    drop(full);
    world.assert_is_whole(table);
    world.release();
    assert_eq!(world.engine.0.store.slabs.used_bytes(), 0);
    world.crash();
    world.assert_is_whole(table);
}

/// A cursor that nobody steps keeps what it sees, but no other memory: it pins no epoch
/// (`crossbeam` 1001, Tarantool 7185).
#[test]
fn an_idle_cursor_does_not_stop_the_release_of_memory() {
    let mut world = World::new(34);
    let table = world.tables()[0];
    for number in 0..100 {
        world.put(table, &key(number), &[1; 100]);
    }
    world.tell();
    let wanted = world.model.scan(table, KeyRange::ALL, world.csn);
    let (all, forward) = (KeyRange::ALL, Direction::Forward);
    let scan = world.engine.scan(table, all, forward, world.csn, Access::Blocking);
    let (mut cursor, mut got) = (scan.unwrap(), Vec::new());
    next_rows(&mut *cursor, 1, &mut got);
    for round in 0..200 {
        for number in 0..20 {
            world.put(table, &key(number), &[round; 100]);
        }
        world.tell();
        world.engine.run_background_job().unwrap();
    }
    world.work();
    world.release();
    let store = &world.engine.0.store;
    assert_eq!(store.waiting_bytes(), 0);
    // The 4,000 versions have 560,000 bytes.
    assert!(store.slabs.used_bytes() < 100_000, "{} bytes", store.slabs.used_bytes());
    while next_rows(&mut *cursor, 7, &mut got) > 0 {}
    assert!(got == wanted);
}

/// COLLECTOR-1: garbage is collected after a checkpoint that failed (Tarantool 7597).
#[test]
fn a_failed_checkpoint_holds_no_garbage_back() {
    let mut world = World::new(35);
    let table = world.tables()[0];
    for round in 0..3 {
        for number in 0..100 {
            world.put(table, &key(number), &[round; 100]);
        }
        world.tell();
        world.disk.set_capacity(Some(world.disk.used()));
        world.engine.request_persist(world.csn);
        assert!(!world.engine.run_background_job().unwrap());
        assert!(world.engine.meets_full_disk());
        world.disk.set_capacity(None);
    }
    world.release();
    let inner = world.engine.0.clone();
    assert_eq!((inner.collector.len(), inner.store.waiting_bytes()), (0, 0));
    assert_eq!(inner.store.slabs.used_bytes(), 100 * (HEADER_BYTES + 100));
    drop(inner);
    world.work();
    world.crash();
    world.assert_is_whole(table);
}

/// COLLECTOR-1: also of a row that a commit changed twice.
#[test]
fn collector_1_a_row_that_one_commit_inserts_and_deletes_is_removed() {
    for was_there in [false, true] {
        let mut world = World::new(36);
        let table = world.tables()[0];
        if was_there {
            world.put(table, b"k", b"old");
            world.tell();
            world.work();
        }
        let mut batch = WriteBatch::new();
        batch.push(Op::Put { table, key: b"k", value: b"new" });
        batch.push(Op::Delete { table, key: b"k" });
        world.commit(batch);
        world.tell();
        world.work();
        world.release();
        let inner = &world.engine.0;
        let (tables, pin) = (inner.tables.load(), inner.store.pin());
        assert_eq!(tables[&table].index.get(b"k", &pin), None);
        assert_eq!(inner.store.slabs.used_bytes(), 0);
    }
}

/// [`World::cut`] lets a background job look for kept segments before they are renamed.
#[test]
fn every_kept_segment_is_counted_once_it_is_renamed() {
    let mut world = World::new(38);
    let table = world.tables()[0];
    for number in 0..300 {
        world.put(table, &key(number), &[1; 100]);
    }
    world.tell();
    world.engine.persist_all().unwrap();
    world.cut();
    let segments = &world.engine.0.segments;
    segments.note_kept_if_changed().unwrap();
    let kept = |path: &Path| path.extension().is_some_and(|extension| extension == "kept");
    let files = world.disk.files().into_iter().filter(|(path, _)| kept(path));
    let on_disk: u64 = files.map(|(_, bytes)| bytes).sum();
    assert!(on_disk > 0);
    assert_eq!(segments.kept_bytes().0, on_disk);
}
