//! Asynchronous reads of evicted rows, and reads of several rows at once.

use std::task::Waker;

use spillway_base::budget::Use;
use spillway_base::wake_count::counted_waker;

use super::*;
use crate::engine::evict::has_room_for;
use crate::engine::read::{Seen, see};
use crate::version::Place;

fn key(number: usize) -> Vec<u8> {
    format!("row{number:05}").into_bytes()
}

impl World {
    /// A world with asynchronous reads and a table of `rows` rows, all evicted.
    fn evicted(seed: u64, rows: usize, bytes: usize) -> (World, TableId) {
        let mut world = World::new(seed);
        assert_eq!(world.engine.overlap_reads().len(), 1);
        let table = world.tables()[0];
        for number in 0..rows {
            world.put(table, &key(number), &vec![number as u8; bytes]);
        }
        world.evict_all();
        (world, table)
    }

    pub(super) fn put(&mut self, table: TableId, key: &[u8], value: &[u8]) {
        let mut batch = WriteBatch::new();
        batch.push(Op::Put { table, key, value });
        self.commit(batch);
    }

    fn evict_all(&mut self) {
        self.tell();
        while self.engine.run_background_job().unwrap() {}
        self.engine.0.eviction().evict(usize::MAX);
    }

    /// Takes the memory into which rows could be loaded.
    fn without_room(&self) -> spillway_base::budget::Charge {
        let charge = self.budget.charge(Use::Other, self.budget.limit() - self.budget.used());
        assert!(!has_room_for(&self.budget, 1));
        charge
    }

    fn look(&self, table: TableId, key: &[u8], access: Access) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        let found = self.engine.get(table, key, self.csn, access, &mut value)?;
        Ok(found.is_value().then_some(value))
    }

    fn begin(&self, table: TableId, key: &[u8], waker: &Waker) -> bool {
        self.engine.begin_read(table, key, self.csn, waker)
    }

    pub(super) fn place_of(&self, table: TableId, key: &[u8]) -> Place {
        let inner = &self.engine.0;
        let (pin, tables) = (inner.store.pin(), inner.tables.load());
        let rid = tables[&table].index.get(key, &pin).unwrap();
        match see(&inner.store, &tables[&table], rid, Csn::MAX, &pin) {
            Seen::Place(place) => place,
            _ => panic!("the row is in memory"),
        }
    }

    pub(super) fn log_files(&self) -> Vec<PathBuf> {
        self.disk.files().into_iter().map(|(path, _)| path).collect()
    }

    /// Changes the rows or moves their records while a read is in progress.
    fn disturb(&mut self) {
        match self.rng.below(9) {
            0..2 => self.write(),
            2 => self.delete_range(),
            3 => _ = self.engine.0.eviction().evict(usize::MAX),
            4 => _ = self.engine.run_background_job().unwrap(),
            5 => {
                self.tell();
                self.engine.compact_all().unwrap();
            }
            6 => {
                self.tell();
                self.engine.persist_all().unwrap();
                self.cut();
            }
            _ => {}
        }
    }
}

/// MEMORY-6, E12, LOG-ROW-1 to LOG-ROW-5: whatever happens to a row during its read, and whichever
/// read fails, the reader is woken and finds the row as its snapshot sees it, or the failure.
#[test]
fn memory_5_who_begins_a_read_comes_to_its_row() {
    let (mut left, mut failed, mut stale) = (0, 0, 0);
    for seed in 0..12 {
        let mut world = World::new(seed);
        assert_eq!(world.engine.overlap_reads().len(), 1);
        let room = seed % 3 != 0;
        for _ in 0..150 {
            world.write();
        }
        let _full = (!room).then(|| {
            world.evict_all();
            world.without_room()
        });
        for _ in 0..150 {
            world.tell();
            let snapshot = world.csn;
            world.horizon.0.lock().1.push(snapshot);
            if world.rng.chance(1, 2) {
                world.disturb();
            }
            world.tell();
            world.engine.0.eviction().evict(usize::MAX);
            let (tables, key) = (world.tables(), world.key());
            let table = tables[world.rng.below(tables.len() as u64) as usize];
            let newest = world.rng.chance(1, 3);
            for time in 0.. {
                assert!(time < 20, "it comes for ever");
                let failing = world.rng.chance(1, 10);
                if failing {
                    world.log_files().iter().for_each(|path| world.disk.fail_reads(path));
                }
                let mut value = Vec::new();
                let mut look = |access| match newest {
                    true => world.engine.newest(table, &key, access, &mut value),
                    false => world.engine.get(table, &key, snapshot, access, &mut value),
                };
                let mut found = look(Access::AtHand);
                if found.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
                    let (waker, called) = counted_waker();
                    let at = if newest { Csn::MAX } else { snapshot };
                    if world.engine.begin_read(table, &key, at, &waker) {
                        world.engine.submit_reads();
                        if !failing {
                            let before = world.csn;
                            world.disturb();
                            stale += usize::from(world.csn > before);
                        }
                        world.engine.end_reads();
                        assert_eq!(called(), 1);
                        left += 1;
                        world.disk.heal();
                        continue;
                    }
                    found = look(Access::Blocking);
                }
                world.disk.heal();
                match found {
                    Ok(found) => {
                        let at = if newest { Csn::MAX } else { snapshot };
                        let wanted = world.model.get(table, &key, at);
                        assert_eq!(found.is_value().then_some(&value), wanted, "{key:?}");
                        break;
                    }
                    Err(error) => {
                        assert!(failing && error.kind() == ErrorKind::Io, "{error}");
                        failed += 1;
                    }
                }
            }
            world.horizon.0.lock().1.retain(|csn| *csn != snapshot);
        }
        world.check_live();
        world.engine.close();
    }
    assert!(left > 500 && failed > 5 && stale > 50, "{left} left, {failed} failed, {stale} stale");
}

/// E9, LOG-ROW-3: a read with `MemoryOnly` touches no device. It also finds a row whose record is
/// held because there is no room for the row.
#[test]
fn e9_a_read_from_memory_touches_no_device() {
    let (world, table) = World::evicted(1, 50, 100);
    let _full = world.without_room();
    for number in 0..50 {
        let before = world.disk.operations();
        let missed = world.look(table, &key(number), Access::MemoryOnly).unwrap_err();
        assert_eq!(missed.kind(), ErrorKind::WouldBlock);
        let mut range = world
            .engine
            .scan(table, KeyRange::ALL, Direction::Forward, world.csn, Access::MemoryOnly)
            .unwrap();
        assert_eq!(number == 0, range.next(Access::MemoryOnly).is_err());
        assert_eq!(world.disk.operations(), before);
        assert!(world.begin(table, &key(number), Waker::noop()));
        world.engine.end_reads();
        let before = world.disk.operations();
        assert!(!world.begin(table, &key(number), Waker::noop()), "it is held");
        let found = world.look(table, &key(number), Access::MemoryOnly).unwrap();
        assert_eq!(found.unwrap(), vec![number as u8; 100]);
        assert_eq!(world.disk.operations(), before);
    }
}

/// MEMORY-6, LOG-ROW-3: a statement that needs several rows is repeated once for each row, even if
/// there is no memory for rows and eviction runs in between.
#[test]
fn log_row_3_a_statement_comes_again_once_for_each_of_its_rows() {
    for full in [true, false] {
        let (world, table) = World::evicted(2, 400, 100);
        let _full = full.then(|| world.without_room());
        for numbers in (0..400).collect::<Vec<_>>().chunks(8) {
            let mut attempts = 0;
            'again: loop {
                attempts += 1;
                assert!(attempts < 20, "it comes for ever");
                for number in numbers {
                    match world.look(table, &key(*number), Access::AtHand) {
                        Ok(found) => assert!(found.is_some()),
                        Err(error) => {
                            assert_eq!(error.kind(), ErrorKind::WouldBlock);
                            assert!(world.begin(table, &key(*number), Waker::noop()));
                            world.engine.end_reads();
                            if full {
                                world.engine.0.eviction().evict(usize::MAX);
                            }
                            continue 'again;
                        }
                    }
                }
                break;
            }
            assert_eq!(attempts, 9);
        }
    }
}

/// LOG-ROW-4: later records displace records that no get takes.
#[test]
fn log_row_4_held_records_are_bounded_and_charged() {
    let (mut world, table) = World::evicted(3, 2000, 500);
    let log = world.engine.0.log.clone();
    let _full = world.without_room();
    let charged = world.budget.used();
    for number in 0..2000 {
        assert!(world.begin(table, &key(number), Waker::noop()));
        if number % 5 == 0 {
            world.engine.end_reads();
            assert!(log.held_bytes() <= log.held_max());
        }
    }
    world.engine.end_reads();
    let held = log.held_bytes();
    assert!(held > log.held_max() / 2 && held <= log.held_max());
    assert!(world.budget.used() >= charged + held);
    assert!(log.holds(world.place_of(table, &key(1999))));
    assert!(!log.holds(world.place_of(table, &key(0))));
    // A record larger than the whole share still reaches its reader.
    drop(_full);
    world.put(table, b"large", &vec![7; 2 * log.held_max()]);
    world.evict_all();
    let _full = world.without_room();
    assert!(world.begin(table, b"large", Waker::noop()));
    world.engine.end_reads();
    assert!(world.look(table, b"large", Access::MemoryOnly).unwrap().is_some());
    assert!(world.begin(table, &key(1), Waker::noop()));
    world.engine.end_reads();
    assert!(log.held_bytes() < 1000, "the small one stays");
    drop(_full);
    // With room, the get loads the row into memory, and the record is dropped.
    assert!(world.look(table, &key(1), Access::MemoryOnly).unwrap().is_some());
    assert_eq!(log.held_bytes(), 0);
    assert!(world.look(table, &key(1), Access::MemoryOnly).unwrap().is_some());
}

/// LOG-ROW-5, E8: a failure reaches the readers of its row, and no others.
#[test]
fn log_row_5_failures_are_their_readers() {
    let (world, table) = World::evicted(4, 60, 100);
    let files = world.log_files();
    let begin = |number: usize| {
        let (waker, called) = counted_waker();
        let begun = world.begin(table, &key(number), &waker);
        world.engine.end_reads();
        assert_eq!(called(), usize::from(begun));
        begun
    };
    files.iter().for_each(|path| world.disk.fail_reads(path));
    assert!(begin(7));
    assert!(!begin(7), "who comes again reads it");
    let failed = world.look(table, &key(7), Access::Blocking).unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Io);
    world.disk.heal();
    assert!(begin(7), "what failed may be tried again later");
    assert!(world.look(table, &key(7), Access::MemoryOnly).unwrap().is_some());
    let place = world.place_of(table, &key(8));
    let path = segment_path(1, "plog");
    world.disk.rot(&path, u64::from(place.offset) + 30, 0x10);
    for round in 0..3 {
        assert!(begin(8) && !begin(8));
        let damaged = world.look(table, &key(8), Access::Blocking).unwrap_err();
        assert_eq!(damaged.kind(), ErrorKind::Corruption);
        // The third record is held since the first round.
        let keys = [8, 9, 10].map(key);
        let keys = keys.each_ref().map(Vec::as_slice);
        assert_eq!(world.engine.prefetch(table, &keys, world.csn), if round == 0 { 3 } else { 2 });
        assert!(world.look(table, &key(9), Access::MemoryOnly).unwrap().is_some());
        world.engine.0.eviction().evict(usize::MAX);
        world.engine.0.eviction().evict(usize::MAX);
    }
    for number in (0..60).filter(|number| *number != 8) {
        assert!(world.look(table, &key(number), Access::Blocking).unwrap().is_some());
    }
    assert!(world.engine.health().is_ok());
}

/// ASYNC-READ-2, ASYNC-READ-5: all readers of a row share one read, and no read outlives the
/// engine.
#[test]
fn async_read_2_one_read_is_for_all_who_want_a_row() {
    let (world, table) = World::evicted(5, 60, 100);
    let held = world.disk.hold_reads();
    let callers: Vec<_> = (0..20).map(|_| counted_waker()).collect();
    callers.iter().for_each(|(waker, _)| assert!(world.begin(table, &key(3), waker)));
    let reads = &world.engine.0.async_reads;
    assert_eq!(reads.begun_and_shared(), (1, 19));
    world.engine.end_reads();
    assert!(callers.iter().all(|(_, called)| called() == 0));
    drop(held);
    world.engine.end_reads();
    assert!(callers.iter().all(|(_, called)| called() == 1));
    assert!(world.look(table, &key(3), Access::MemoryOnly).unwrap().is_some());
    let held = world.disk.hold_reads();
    assert!(world.begin(table, &key(4), &callers[0].0));
    let under_way = Arc::downgrade(&world.engine.0.log);
    drop(held);
    world.engine.close();
    assert_eq!(callers[0].1(), 2, "every waiter is woken at the end");
    assert!(!world.begin(table, &key(5), Waker::noop()));
    drop(world);
    assert!(under_way.upgrade().is_none());
}

/// SEGMENT-4: a read that is in progress when its segment is released yields no record, although
/// the reused file has a record of the same row at this place.
#[test]
fn segment_4_a_read_of_a_released_segment_brings_nothing() {
    let (mut world, table) = World::evicted(6, 1, 100);
    let place = world.place_of(table, &key(0));
    let snapshot = world.csn;
    let held = world.disk.hold_reads();
    let (waker, called) = counted_waker();
    assert!(world.begin(table, &key(0), &waker));
    world.engine.submit_reads();
    while world.segment == 1 {
        world.put(table, b"other", &[1; 3000]);
    }
    world.put(table, &key(0), b"new");
    world.put(table, b"other", b"");
    world.evict_all();
    world.engine.persist_all().unwrap();
    world.put(table, b"other", b"other");
    world.tell();
    world.engine.persist_all().unwrap();
    assert!(!world.engine.keeps_segment(0, 1), "no row is there");
    let path = segment_path(1, "plog");
    let file = world.disk.open(&path, OpenMode::Write).unwrap();
    let mut batch = WriteBatch::new();
    batch.push(Op::Put { table, key: &key(0), value: &[9; 100] });
    let mut bytes = batch.as_bytes().to_vec();
    let record = placed_ops(&bytes).next().unwrap().unwrap().offset;
    seal_rows(&mut bytes, Csn(1));
    file.write_at(u64::from(place.offset) - record as u64, &bytes).unwrap();
    drop(held);
    world.engine.end_reads();
    assert_eq!(called(), 1);
    assert!(!world.engine.0.log.holds(place));
    assert!(snapshot < world.csn);
    assert_eq!(world.look(table, &key(0), Access::Blocking).unwrap().unwrap(), b"new");
}

/// AHEAD-1 to AHEAD-3: records for many gets are read in parallel, and the gets find their rows
/// even if reads fail.
#[test]
fn ahead_rows_of_several_gets_are_read_side_by_side() {
    for bytes in [100, 3000, 100_000] {
        let rows = if bytes > 10_000 { 12 } else { 500 };
        let (mut world, table) = World::evicted(7, rows, bytes);
        let keys: Vec<Vec<u8>> = (0..rows).map(|at| key(at * 7919 % (rows + 3))).collect();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let wanted = |world: &World, key: &[u8]| world.model.get(table, key, world.csn).cloned();
        let prefetched = |world: &World| world.engine.0.log.counts()[1];
        // The get of a row whose read failed reads the row itself.
        world.log_files().iter().for_each(|path| world.disk.fail_reads(path));
        world.engine.prefetch(table, &keys[..5], world.csn);
        world.disk.heal();
        let missed = world.look(table, keys[0], Access::MemoryOnly).unwrap_err();
        assert_eq!(missed.kind(), ErrorKind::WouldBlock);
        assert_eq!(prefetched(&world), 0);
        let _ = world.disk.take_in_flight_most();
        let engine = world.engine.clone();
        let mut ahead = engine.gets_ahead(table, &keys, world.csn).unwrap();
        for (at, key) in keys.iter().enumerate() {
            ahead.wait_for(at);
            let access = if bytes > 10_000 { Access::Blocking } else { Access::MemoryOnly };
            assert_eq!(world.look(table, key, access).unwrap(), wanted(&world, key));
        }
        drop(ahead);
        let most = world.disk.take_in_flight_most();
        match bytes {
            100 => assert!(most > 48, "{most}"),
            3000 => assert!(most > 10 && most < 64, "{most}: AHEAD-2, by bytes"),
            _ => assert!(most <= 1, "{most}"),
        }
        assert!(prefetched(&world) > 450 || bytes > 10_000);
        world.engine.0.eviction().evict(usize::MAX);
        world.engine.0.eviction().evict(usize::MAX);
        let before = prefetched(&world);
        assert_eq!(world.engine.prefetch(table, &keys[..1], world.csn), 1, "AHEAD-3");
        assert_eq!(prefetched(&world), before);
        if bytes == 100 {
            assert_eq!(world.engine.prefetch(table, &keys[..9], world.csn), 9);
            assert_eq!(prefetched(&world), before + 9);
        }
        assert!(engine.gets_ahead(table, &keys[..1], world.csn).is_none());
        assert!(
            engine.gets_ahead(TableId::new(EngineKind::Memory, 99), &keys, world.csn).is_none()
        );
        world.tell();
    }
}

/// A short scan reads few rows that it does not need.
#[test]
fn a_short_scan_reads_few_rows_ahead() {
    let (world, table) = World::evicted(9, 300, 100);
    for (steps, most) in [(1, 1), (2, 3), (4, 7)] {
        let read = world.engine.0.log.counts()[0];
        let range = KeyRange::new(b"row00100", None);
        let scan = world.engine.scan(table, range, Direction::Forward, world.csn, Access::Blocking);
        let mut scan = scan.unwrap();
        (0..steps).for_each(|_| assert!(scan.next(Access::Blocking).unwrap()));
        let read = world.engine.0.log.counts()[0] - read;
        assert!(read >= steps && read <= most, "{read} for {steps}");
        world.engine.0.eviction().evict(usize::MAX);
        world.engine.0.eviction().evict(usize::MAX);
    }
}

/// A scan of evicted rows reads them in parallel, returns the model's rows, and loads them into
/// memory.
#[test]
fn a_scan_reads_evicted_rows_side_by_side() {
    for direction in [Direction::Forward, Direction::Backward] {
        for full in [true, false] {
            let (world, table) = World::evicted(8, 1500, 100);
            let _full = full.then(|| world.without_room());
            let _ = world.disk.take_in_flight_most();
            let mut wanted = world.model.scan(table, KeyRange::ALL, world.csn);
            if direction == Direction::Backward {
                wanted.reverse();
            }
            let scan =
                world.engine.scan(table, KeyRange::ALL, direction, world.csn, Access::Blocking);
            let (mut scan, mut got, mut steps) = (scan.unwrap(), Vec::new(), 0);
            while scan.next_rows(Access::Blocking, 1000).unwrap() > 0 {
                scan.rows(&mut |key, value| {
                    got.push((key.to_vec(), value.to_vec()));
                    true
                });
                steps += 1;
            }
            assert!(got == wanted);
            let [read, prefetched, read_ahead] = world.engine.0.log.counts();
            assert_eq!((read, prefetched, read_ahead > 1400), (1500, 0, true), "{read_ahead}");
            assert_eq!(world.disk.take_in_flight_most(), 64);
            assert!(steps < 150, "{steps}");
            let held = world.engine.0.log.held_bytes();
            assert_eq!(held > 0, full, "{held}");
            if !full {
                assert!(world.look(table, &key(777), Access::MemoryOnly).unwrap().is_some());
            }
        }
    }
}

/// MEMORY-4: a record that cannot be read stays where it is, and compactions end without it. It has
/// a flipped bit, or its file ends within it or before it.
#[test]
fn memory_4_compactions_end_at_a_damaged_record() {
    for end in [None, Some(30), Some(0), Some(-10)] {
        let (mut world, table) = World::evicted(4, 60, 100);
        let place = world.place_of(table, &key(8));
        // All other rows leave the first segment.
        world.end = u64::MAX;
        for number in (0..60).filter(|number| *number != 8) {
            world.put(table, &key(number), &[number as u8; 100]);
        }
        world.evict_all();
        world.engine.persist_all().unwrap();
        world.cut();
        let (path, offset) = (segment_path(1, "kept"), u64::from(place.offset));
        match end {
            None => world.disk.rot(&path, offset + 30, 0x10),
            Some(end) => {
                let file = world.disk.open(&path, OpenMode::Write).unwrap();
                file.set_len(offset.strict_add_signed(end)).unwrap();
            }
        }
        let mut jobs = 0;
        while world.engine.run_background_job().unwrap() {
            jobs += 1;
            assert!(jobs < 100, "compactions do not end");
        }
        world.engine.compact_all().unwrap();
        let damaged = world.look(table, &key(8), Access::Blocking).unwrap_err();
        assert_eq!(damaged.kind(), ErrorKind::Corruption, "{damaged}");
        for number in (0..60).filter(|number| *number != 8) {
            assert!(world.look(table, &key(number), Access::Blocking).unwrap().is_some());
        }
    }
}
