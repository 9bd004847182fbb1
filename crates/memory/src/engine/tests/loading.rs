//! Loads of an index's blocks after an opening, by the operations that need them and in the
//! background.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::manifest::INDEX;

const KEYS: u64 = 1500;

pub(super) fn key(number: u64) -> Vec<u8> {
    format!("key{number:06}").into_bytes()
}

impl World {
    /// A reopened world. The checkpoint has [`KEYS`] keys of a table, and the log's tail changes,
    /// deletes and adds some. No block is loaded yet.
    fn opened_again(seed: u64) -> (World, TableId) {
        let mut world = World::new(seed);
        let table = world.tables()[0];
        for begin in (0..KEYS).step_by(50) {
            let mut batch = WriteBatch::new();
            for number in begin..begin + 50 {
                batch.push(Op::Put { table, key: &key(2 * number), value: b"checkpoint" });
            }
            world.commit(batch);
        }
        world.tell();
        world.engine.persist_all().unwrap();
        world.engine.run_background_job().unwrap();
        for _ in 0..KEYS / 8 {
            let mut batch = WriteBatch::new();
            let number = world.rng.below(2 * KEYS);
            match world.rng.below(3) {
                0 => batch.push(Op::Delete { table, key: &key(number) }),
                _ => batch.push(Op::Put { table, key: &key(number), value: b"tail" }),
            }
            world.commit(batch);
        }
        world.tell();
        world.restart();
        (world, table)
    }

    /// As [`World::opened_again`], with a block of the index damaged.
    fn damaged() -> (World, TableId) {
        let (mut world, table) = World::opened_again(3);
        let of_index = |path: &PathBuf| path.extension().is_some_and(|kind| kind == INDEX);
        let files = world.log_files().into_iter().filter(of_index);
        let path =
            files.max_by_key(|path| world.disk.open(path, OpenMode::Read).unwrap().len().unwrap());
        let file = world.disk.open(&path.unwrap(), OpenMode::Write).unwrap();
        let (at, mut byte) = (file.len().unwrap() / 4, [0]);
        file.read_at(at, &mut byte).unwrap();
        file.write_at(at, &[byte[0] ^ 4]).unwrap();
        world.restart();
        (world, table)
    }

    /// Blocks of the table that are not loaded.
    fn missing(&self, table: TableId) -> usize {
        let tables = self.engine.0.tables.load();
        let load = tables[&table].load();
        load.map_or(0, |load| (0..load.reader.blocks.len()).filter(|b| !load.is_loaded(*b)).count())
    }

    pub(super) fn assert_is_whole(&self, table: TableId) {
        let snapshot = self.csn;
        for direction in [Direction::Forward, Direction::Backward] {
            let range = KeyRange::ALL;
            let mut cursor =
                self.engine.scan(table, range, direction, snapshot, Access::Blocking).unwrap();
            let mut rows = Vec::new();
            while cursor.next(Access::Blocking).unwrap() {
                rows.push((cursor.key().to_vec(), cursor.value().to_vec()));
            }
            if direction == Direction::Backward {
                rows.reverse();
            }
            assert!(rows == self.model.scan(table, range, snapshot), "{direction:?}");
        }
    }
}

#[test]
fn loading_1_an_opening_loads_nothing_and_a_get_loads_one_block() {
    let (world, table) = World::opened_again(1);
    let blocks = world.missing(table);
    assert!(blocks > 50, "{blocks}");
    let keys = world.engine.0.tables.load()[&table].keys();
    assert_eq!(keys, KEYS, "keys that are not loaded are counted");
    let all = world.engine.estimate(table, KeyRange::ALL).keys;
    assert!(all.abs_diff(KEYS) < KEYS / 10, "{all}");
    let before = world.missing(table);
    let mut value = Vec::new();
    // E9: a read that may not wait for a device loads nothing.
    let number = 2 * (KEYS / 2);
    for access in [Access::MemoryOnly, Access::AtHand] {
        let found = world.engine.get(table, &key(number), world.csn, access, &mut value);
        assert_eq!(found.unwrap_err().kind(), ErrorKind::WouldBlock);
        let range = KeyRange::ALL;
        let mut cursor =
            world.engine.scan(table, range, Direction::Forward, world.csn, access).unwrap();
        assert_eq!(cursor.next(access).unwrap_err().kind(), ErrorKind::WouldBlock);
    }
    assert_eq!(world.missing(table), before);
    let get = |key: &[u8], value: &mut Vec<u8>| {
        world.engine.get(table, key, world.csn, Access::Blocking, value).unwrap()
    };
    let wanted = world.model.get(table, &key(number), world.csn);
    let found = get(&key(number), &mut value);
    assert_eq!(found.is_value().then_some(&value), wanted);
    assert_eq!(world.missing(table), before - 1);
    get(&key(number), &mut value);
    assert_eq!(world.missing(table), before - 1);
    world.assert_is_whole(table);
    assert_eq!(world.missing(table), 0);
}

/// LOADING-3: a checkpoint and a compaction first load the missing blocks, and no row is lost.
#[test]
fn loading_3_a_checkpoint_has_the_keys_that_nobody_used() {
    let (mut world, table) = World::opened_again(2);
    assert!(world.missing(table) > 0);
    world.engine.persist_all().unwrap();
    assert_eq!(world.missing(table), 0);
    world.restart();
    assert!(world.missing(table) > 0);
    world.engine.compact_all().unwrap();
    world.assert_is_whole(table);
    world.check_live();
    world.restart();
    world.assert_is_whole(table);
}

/// LOADING-1 and LOADING-2, with threads that get, scan, put and delete during the background load.
#[test]
fn loading_1_2_threads_find_every_key_while_it_is_loaded() {
    for seed in 0..6 {
        let (mut world, table) = World::opened_again(seed);
        let (engine, model, snapshot) = (&world.engine, &world.model, world.csn);
        let (written, ended) = (Mutex::new(Vec::new()), AtomicBool::new(false));
        spillway_base::thread::together(4, |thread| {
            let mut rng = Rng::new(seed * 4 + thread as u64);
            let mut value = Vec::new();
            match thread {
                0 => {
                    while engine.run_background_job().unwrap() {}
                    ended.store(true, Ordering::SeqCst);
                }
                1 => {
                    for csn in snapshot.0 + 1..snapshot.0 + 200 {
                        let (mut batch, key) = (WriteBatch::new(), key(rng.below(2 * KEYS + 20)));
                        match rng.below(3) {
                            0 => batch.push(Op::Delete { table, key: &key }),
                            _ => batch.push(Op::Put { table, key: &key, value: b"new" }),
                        }
                        engine.install(Csn(csn), &batch);
                        written.lock().push((Csn(csn), batch));
                    }
                }
                2 => loop {
                    let key = key(rng.below(2 * KEYS));
                    let found = engine.get(table, &key, snapshot, Access::Blocking, &mut value);
                    let found = found.unwrap().is_value().then_some(&value);
                    assert_eq!(found, model.get(table, &key, snapshot), "{seed}: {key:?}");
                    if ended.load(Ordering::SeqCst) {
                        break;
                    }
                },
                _ => loop {
                    let (low, high) = (key(rng.below(2 * KEYS)), key(rng.below(2 * KEYS)));
                    let range = KeyRange::new(&low, rng.chance(3, 4).then_some(high.as_slice()));
                    let backward = rng.chance(1, 2);
                    let direction = if backward { Direction::Backward } else { Direction::Forward };
                    let mut wanted = model.scan(table, range, snapshot);
                    if backward {
                        wanted.reverse();
                    }
                    wanted.truncate(rng.below(60) as usize);
                    let mut cursor =
                        engine.scan(table, range, direction, snapshot, Access::Blocking).unwrap();
                    for (key, _) in wanted {
                        assert!(cursor.next(Access::Blocking).unwrap(), "{seed}: {key:?}");
                        assert_eq!(cursor.key(), key, "{seed}");
                    }
                    if ended.load(Ordering::SeqCst) {
                        break;
                    }
                },
            }
        });
        for (csn, batch) in written.into_inner() {
            world.csn = csn;
            world.model.apply(csn, &batch);
        }
        assert_eq!(world.missing(table), 0);
        world.assert_is_whole(table);
    }
}

/// LOADING-2, with threads that replay the log's tail while others load the blocks.
#[test]
fn loading_2_operations_that_come_during_a_load_are_applied() {
    for seed in 0..20 {
        let (mut world, table) = World::opened_again(seed);
        let persisted = world.engine.persisted();
        let log = std::mem::take(&mut world.log);
        let (before, tail): (Vec<_>, Vec<_>) =
            log.into_iter().partition(|one| one.csn <= persisted);
        world.log = before;
        world.restart();
        let engine = &world.engine;
        spillway_base::thread::together(3, |thread| match thread {
            0 => engine.0.keys().load_all(&world.engine.0.tables).unwrap(),
            thread => {
                let (mut rng, mut own) = (Rng::new(seed), tail.clone());
                own.retain(|one| one.csn.0 % 2 == thread as u64 % 2);
                World::replay(engine, &mut rng, &mut own);
            }
        });
        world.assert_is_whole(table);
    }
}

/// A damaged block fails the operations that need its keys, and no others. No checkpoint is written
/// without these keys.
#[test]
fn a_damaged_block_fails_its_readers_and_checkpoints() {
    let (world, table) = World::damaged();
    let (mut damaged, mut value) = (0, Vec::new());
    for number in 0..2 * KEYS {
        match world.engine.get(table, &key(number), world.csn, Access::Blocking, &mut value) {
            Ok(found) => {
                let found = found.is_value().then_some(&value);
                assert_eq!(found, world.model.get(table, &key(number), world.csn));
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption);
                damaged += 1;
            }
        }
    }
    assert!(damaged > 0 && damaged < KEYS / 4, "{damaged}");
    assert_eq!(world.missing(table), 1);
    assert!(world.engine.health().is_ok());
    let error = world.engine.persist_all().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(world.engine.health().is_err());
    let all = KeyRange::ALL;
    let mut cursor =
        world.engine.scan(table, all, Direction::Forward, world.csn, Access::Blocking).unwrap();
    let outcome = std::iter::repeat_with(|| cursor.next(Access::Blocking)).find(Result::is_err);
    assert!(outcome.is_some());
}

/// A commit to a key whose block is damaged stops the engine: the key's versions are unknown.
#[test]
fn a_commit_to_a_damaged_block_stops_the_engine() {
    let (mut world, table) = World::damaged();
    let mut value = Vec::new();
    let is_damaged = |world: &World, number: &u64, value: &mut Vec<u8>| {
        world.engine.get(table, &key(*number), world.csn, Access::Blocking, value).is_err()
    };
    let number = (0..2 * KEYS).find(|number| is_damaged(&world, number, &mut value)).unwrap();
    assert!(world.engine.health().is_ok());
    world.put(table, &key(number), b"new");
    assert_eq!(world.engine.health().unwrap_err().kind(), ErrorKind::Corruption);
    assert!(world.engine.admit(1).is_err());
    assert!(is_damaged(&world, &number, &mut value));
}

/// A row without a key stops the engine once all keys are loaded.
#[test]
fn keys_that_do_not_match_the_rows_stop_the_engine() {
    let (world, table) = World::opened_again(4);
    let inner = &world.engine.0;
    let tables = inner.tables.load();
    tables[&table].rows.lock(7).set(Word::EMPTY);
    assert_eq!(inner.keys().load_all(&inner.tables).unwrap_err().kind(), ErrorKind::Corruption);
    assert!(world.engine.health().is_err() && world.engine.persist_all().is_err());
}
