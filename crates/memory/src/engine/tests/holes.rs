//! While the disk is full, the engine returns dead pages of kept segments and keeps all rows
//! (HOLE-1 to HOLE-4).

use std::ops::Range;

use spillway_storage::File;
use spillway_storage::plog::{KeptSegment, KeptSegments};
use spillway_storage::sim::Fault;

use super::loading::key;
use super::*;

const ROWS: u64 = 40;
const VALUE: usize = 12_000;

impl World {
    /// A world whose first table has [`ROWS`] large rows. Nearly all are in kept segments.
    fn with_large_rows(seed: u64) -> (World, TableId) {
        let mut world = World::new(seed);
        let table = world.tables()[0];
        for number in 0..ROWS {
            world.put(table, &key(number), &vec![number as u8; VALUE]);
        }
        world.keep_segments();
        (world, table)
    }

    /// Writes a checkpoint and cuts the log, so that nearly all rows are in kept segments, and in
    /// no other place.
    pub(super) fn keep_segments(&mut self) {
        self.tell();
        self.engine.persist_all().unwrap();
        self.cut();
        self.engine.0.segments.note_kept().unwrap();
        self.engine.0.eviction().evict(usize::MAX);
    }

    /// Deletes every other row.
    fn delete_odd(&mut self, table: TableId) {
        for number in (1..ROWS).step_by(2) {
            self.delete(table, &key(number));
        }
        self.tell();
    }

    /// Returns dead pages as a round of background work does, without the rest of the round.
    fn punch(&self) -> Result<bool> {
        let inner = &self.engine.0;
        inner.keys().load_all(&inner.tables)?;
        inner.rows().collect_all();
        self.engine.give_space();
        inner.return_space()
    }

    fn punched(&self) -> u64 {
        self.engine.0.counts.punched_bytes.load(Ordering::Relaxed)
    }
}

/// All bytes between two rows that stay, but for a page at each end.
const DEAD_BYTES: u64 = ROWS / 2 * (VALUE as u64 - 2 * 4096);

#[test]
fn hole_1_pages_of_deleted_rows_return_their_space_and_the_others_stay() {
    let (mut world, table) = World::with_large_rows(31);
    world.delete_odd(table);
    world.engine.request_persist(world.csn);
    assert!(!world.engine.0.return_space().unwrap(), "nobody asked for space");
    let (used, kept) = (world.disk.used(), world.engine.0.segments.kept_bytes().0);
    assert!(world.punch().unwrap());
    let punched = world.punched();
    // A few rows are in the redo log.
    assert!(punched > DEAD_BYTES * 3 / 4, "{punched} of {DEAD_BYTES}");
    assert!(world.disk.used() + punched < used + (64 << 10), "{used} {}", world.disk.used());
    assert_eq!(world.engine.0.segments.kept_bytes().0 + punched, kept);
    world.disk.set_capacity(Some(world.disk.used()));
    assert!(!world.punch().unwrap(), "no row died since, and there is no room for a compaction");
    world.disk.set_capacity(None);
    world.assert_is_whole(table);
    world.check_live();
    world.restart();
    world.assert_is_whole(table);
    // After an opening, the holes are found again, and more of them once more rows are gone.
    (2..ROWS).step_by(4).for_each(|number| world.delete(table, &key(number)));
    world.tell();
    assert!(world.punch().unwrap());
    assert!(world.punched() > punched);
    world.crash();
    world.assert_is_whole(table);
    world.check_live();
}

#[test]
fn hole_1_pages_of_compacted_segments_are_returned_too() {
    let (mut world, table) = World::with_large_rows(37);
    world.delete_odd(table);
    world.engine.compact_all().unwrap();
    assert!(world.files().iter().any(|name| name.ends_with(".rows")), "{:?}", world.files());
    (2..ROWS).step_by(4).for_each(|number| world.delete(table, &key(number)));
    world.tell();
    assert!(world.punch().unwrap());
    assert!(world.punched() > DEAD_BYTES / 4, "{}", world.punched());
    world.assert_is_whole(table);
    world.restart();
    world.assert_is_whole(table);
    world.engine.compact_all().unwrap();
    world.assert_is_whole(table);
    world.check_live();
}

#[test]
fn hole_1_what_a_snapshot_may_read_stays() {
    let (mut world, table) = World::with_large_rows(32);
    let snapshot = world.csn;
    world.horizon.0.lock().1.push(snapshot);
    world.delete_odd(table);
    let first = world.punch().unwrap();
    let before = world.punched();
    for number in 0..ROWS {
        let mut value = Vec::new();
        let found = world.engine.get(table, &key(number), snapshot, Access::Blocking, &mut value);
        assert!(found.unwrap().is_value() && value == vec![number as u8; VALUE], "{first}");
    }
    world.engine.0.eviction().evict(usize::MAX);
    world.horizon.0.lock().1.clear();
    assert!(world.punch().unwrap());
    assert!(world.punched() - before > DEAD_BYTES * 3 / 4, "{before} {}", world.punched());
    world.assert_is_whole(table);
}

#[test]
fn hole_1_what_a_backup_copies_stays() {
    let (mut world, table) = World::with_large_rows(33);
    let pin = world.engine.pin().unwrap();
    let copy = |world: &World| {
        assert!(world.engine.0.segments.is_pinned());
        let read = |file: &crate::PinnedFile| {
            let mut bytes = vec![0; file.len as usize];
            file.read_at(0, &mut bytes).unwrap();
            bytes
        };
        pin.files.iter().map(read).collect::<Vec<_>>()
    };
    let before = copy(&world);
    world.delete_odd(table);
    assert!(!world.punch().unwrap());
    assert!(copy(&world) == before);
    drop(pin);
    assert!(world.punch().unwrap());
    world.assert_is_whole(table);
}

/// The rows that died are named by the checkpoint before, which the machine may find again.
#[test]
fn hole_1_a_crash_at_any_operation_finds_all_rows() {
    let (mut world, table) = World::with_large_rows(34);
    world.delete_odd(table);
    let before = world.disk.operations();
    assert!(world.punch().unwrap());
    let after = world.disk.operations();
    assert!(after - before > ROWS / 4, "{before} {after}");
    for at in before + 1..=after {
        let (mut world, table) = World::with_large_rows(34);
        world.delete_odd(table);
        assert_eq!(world.disk.operations(), before);
        world.disk.fail_operation(at, Fault::Crash);
        let _ = world.punch();
        world.crash();
        world.assert_is_whole(table);
        world.check_live();
        world.cut();
        world.punch().unwrap();
        world.crash();
        world.assert_is_whole(table);
    }
}

#[test]
fn hole_4_pages_that_cannot_be_returned_are_tried_again() {
    for fault in [Fault::Io, Fault::Full] {
        let (mut world, table) = World::with_large_rows(35);
        world.delete_odd(table);
        world.engine.0.rows().collect_all();
        let inner = world.engine.0.clone();
        let dead = inner.holes().find();
        assert!(dead.len() > 4 && inner.checkpoint_if(|_, _| true).unwrap());
        let mut failed = 0;
        loop {
            world.disk.fail_operation(world.disk.operations() + failed + 1, fault);
            let punched = inner.holes().punch(&dead[..1]);
            world.disk.heal();
            world.engine.health().unwrap();
            if punched {
                break;
            }
            assert_eq!(world.punched(), 0);
            world.assert_is_whole(table);
            failed += 1;
        }
        assert!(failed >= 2, "a sync of the folder, and a hole");
        assert!(world.punch().unwrap());
        assert!(world.punched() > DEAD_BYTES * 3 / 4);
        world.crash();
        world.assert_is_whole(table);
    }
}

/// A log whose file system has no holes.
struct WithoutHoles(KeptFiles);

impl KeptSegments for WithoutHoles {
    fn list(&self) -> Result<Vec<KeptSegment>> {
        self.0.list()
    }
    fn open(&self, lane: u32, segment: u64) -> Result<Arc<dyn File>> {
        self.0.open(lane, segment)
    }
    fn remove(&self, lane: u32, segment: u64) -> Result<bool> {
        self.0.remove(lane, segment)
    }
    fn punch(&self, _: u32, _: u64, _: &[Range<u64>]) -> Result<bool> {
        Ok(false)
    }
}

#[test]
fn hole_4_a_file_system_without_holes_is_asked_once() {
    let (mut world, table) = World::with_large_rows(36);
    world.engine.close();
    world.horizon.0.lock().0 = Csn::ZERO;
    let log = WithoutHoles(KeptFiles::new(world.disk.clone(), Path::new(LOG)));
    world.engine = MemoryEngine::open(
        world.disk.clone(),
        Path::new(DATA),
        MemorySettings::default(),
        Arc::new(log),
        world.horizon.clone(),
        world.budget.clone(),
    )
    .unwrap();
    World::replay(&world.engine, &mut world.rng, &mut world.log.clone());
    world.horizon.0.lock().0 = world.csn;
    world.engine.0.settle_once().unwrap();
    while world.engine.run_background_job().unwrap() {}
    world.delete_odd(table);
    assert!(!world.punch().unwrap());
    assert!(!world.engine.0.segments.can_punch());
    let written = world.engine.0.checkpoints.last().number;
    assert!(!world.punch().unwrap());
    assert_eq!(world.engine.0.checkpoints.last().number, written);
    world.assert_is_whole(table);
}

/// A segment that compaction wrote, of one small record, is not compacted again and again while
/// space is sought.
#[test]
fn the_search_for_space_ends_at_a_small_compacted_segment() {
    let mut world = World::new(39);
    let table = world.tables()[0];
    world.put(table, b"k", b"");
    for round in 0..8 {
        world.put(table, &key(1), &[round; VALUE]);
    }
    world.tell();
    world.engine.0.rows().collect_all();
    world.engine.persist_all().unwrap();
    world.cut();
    let inner = &world.engine.0;
    inner.segments.note_kept().unwrap();
    inner.eviction().evict(usize::MAX);
    let victim = world.place_of(table, b"k").handle;
    assert!(inner.log_compaction().move_live(&[victim], u64::MAX).unwrap());
    assert!(world.files().iter().any(|name| name.ends_with(".rows")), "{:?}", world.files());
    let mut rounds = 0;
    while world.punch().unwrap() {
        rounds += 1;
        assert!(rounds < 100, "{:?}", world.files());
    }
    world.assert_is_whole(table);
}

/// Log compaction says that the disk is full if there is room for none of the records.
#[test]
fn compaction_reports_that_no_record_fits() {
    let mut world = World::new(41);
    let table = world.tables()[0];
    (0..8).for_each(|number| world.put(table, &key(number), &[number as u8; VALUE]));
    world.keep_segments();
    let inner = &world.engine.0;
    let victims = &[world.place_of(table, &key(0)).handle];
    let full = inner.log_compaction().move_live(victims, 10).unwrap_err();
    assert_eq!(full.kind(), ErrorKind::DiskFull);
    assert!(inner.log_compaction().move_live(victims, u64::MAX).unwrap());
    assert!(!inner.log_compaction().move_live(victims, u64::MAX).unwrap());
    world.assert_is_whole(table);
}
