//! Models an entry under every interleaving of the threads that change it (ROWS-2, CHAIN-1 to
//! CHAIN-3, MEMORY-1, MEMORY-2), and the ring of commits without places (UNPLACED-1).

use std::path::Path;
use std::sync::Arc;

use spillway_base::budget::Budget;
use spillway_base::engine::{Access, Found};
use spillway_base::sync::atomic::{AtomicBool, Ordering};
use spillway_base::sync::{Arc as LoomArc, model, thread};
use spillway_base::{Csn, EngineKind, TableId};
use spillway_storage::plog::KeptFiles;
use spillway_storage::sim::SimDisk;

use super::checkpoint::entry_at;
use super::inner::{Inner, MemoryEngine, MemorySettings};
use super::unplaced::{RING, Versions};
use crate::pins::FixedHorizon;
use crate::rid::Rid;
use crate::store::VersionRef;
use crate::table::Table;
use crate::version::{Content, Fields, InBatch, Place, Target, Word};

struct World {
    inner: Arc<Inner>,
    table: Arc<Table>,
    watermark: Csn,
}

/// A world, with a row `k` of value `1` at CSN 1 if `row`. Garbage up to CSN 100 can be collected.
fn world(row: bool) -> LoomArc<World> {
    world_at(row, Csn(100))
}

/// As [`world`], with a CSN up to which commits are stable and garbage can be collected.
fn world_at(row: bool, stable: Csn) -> LoomArc<World> {
    let disk = Arc::new(SimDisk::new(0));
    let engine = MemoryEngine::open(
        disk.clone(),
        Path::new("/m"),
        MemorySettings::default(),
        Arc::new(KeptFiles::new(disk, Path::new("/l"))),
        Arc::new(FixedHorizon(stable)),
        Budget::new(1 << 20),
    );
    let inner = engine.unwrap().0;
    let id = TableId::new(EngineKind::Memory, 1);
    inner.tables.create(id, Csn(0));
    let table = inner.tables.load()[&id].clone();
    inner.pins.refresh();
    let world = LoomArc::new(World { inner, table, watermark: stable });
    if row {
        world.put(1, Some(b"1"));
    }
    world
}

impl World {
    /// Installs a version of row `k` whose place is already known.
    fn put(&self, csn: u64, value: Option<&[u8]>) {
        self.put_key(b"k", csn, value);
    }

    fn put_key(&self, key: &[u8], csn: u64, value: Option<&[u8]>) {
        let place = self.place(csn);
        let content = value.map_or(Content::Deleted(key), Content::Value);
        self.inner.segments.add_live(place);
        self.inner.rows().put_loaded(&self.table, key, Csn(csn), Ok(place), content, None);
    }

    /// The place of the version of a CSN.
    fn place(&self, csn: u64) -> Place {
        Place { handle: self.handle(), offset: csn as u32 * 100, class: 40 }
    }

    fn handle(&self) -> u32 {
        self.inner.segments.handle(crate::segments::Origin::Log { lane: 0, segment: 1 })
    }

    /// The row as the newest snapshot sees it; `None` if the row is evicted.
    fn get(&self) -> Option<(Found, Vec<u8>)> {
        self.get_key(b"k")
    }

    fn get_key(&self, key: &[u8]) -> Option<(Found, Vec<u8>)> {
        let mut value = Vec::new();
        let newest = Csn(99);
        let found =
            self.inner.reader().get(&self.table, key, newest, Access::MemoryOnly, &mut value);
        found.ok().map(|found| (found, value))
    }

    /// The slot of a row.
    fn slot(&self, key: &[u8]) -> Option<u64> {
        let pin = self.inner.store.pin();
        self.table.index.get(key, &pin).map(Rid::slot)
    }

    /// Evicts the row's newest version, as eviction does once it has found the version on a page.
    /// The search itself reads the owners of objects that may not be written yet, and a model would
    /// report that as a race.
    fn evict(&self) {
        let pin = self.inner.store.pin();
        let rid = self.table.index.get(b"k", &pin).expect("a row");
        let newest = self.table.rows.entry(rid.slot()).expect("its entry").load();
        if let Target::Version(at) = newest.target() {
            self.inner.eviction().evict_page(&[at.cast()], self.watermark);
        }
    }

    fn collect(&self) {
        self.inner.rows().collect_all();
    }
}

fn beside(
    world: &LoomArc<World>,
    one: impl FnOnce(&World) + Send + 'static,
    other: impl FnOnce(&World),
) {
    let shared = world.clone();
    let thread = thread::spawn(move || {
        spillway_reclaim::epochs::go_by(1);
        one(&shared);
    });
    other(world);
    thread.join().unwrap();
}

#[test]
fn loom_an_update_beside_eviction_is_not_lost() {
    model(3, || {
        let world = world(true);
        beside(&world, World::evict, |world| world.put(2, Some(b"2")));
        let got = world.get();
        // The new version may also have been evicted.
        assert!(got.is_none_or(|got| got == (Found::Value(Csn(2)), b"2".to_vec())));
    });
}

#[test]
fn loom_a_read_beside_eviction_finds_the_row_or_its_place() {
    model(3, || {
        let world = world(true);
        beside(&world, World::evict, |world| {
            let got = world.get();
            assert!(got.is_none_or(|got| got == (Found::Value(Csn(1)), b"1".to_vec())));
        });
    });
}

#[test]
fn loom_an_insert_beside_the_removal_of_the_deleted_row_stays() {
    model(3, || {
        let world = world(true);
        world.put(2, None);
        beside(&world, World::collect, |world| world.put(3, Some(b"3")));
        assert_eq!(world.get(), Some((Found::Value(Csn(3)), b"3".to_vec())));
    });
}

#[test]
fn loom_a_read_beside_a_removal_and_an_insert_sees_one_of_the_two() {
    model(3, || {
        let world = world(true);
        world.put(2, None);
        beside(
            &world,
            |world| {
                world.collect();
                world.put(3, Some(b"3"));
            },
            |world| match world.get().unwrap() {
                (Found::Value(csn), value) => assert_eq!((csn, value), (Csn(3), b"3".to_vec())),
                (Found::Deleted(csn), _) => assert_eq!(csn, Csn(2)),
                (Found::Nothing, _) => {}
            },
        );
    });
}

#[test]
fn loom_an_update_beside_collection_keeps_the_newest() {
    model(3, || {
        let world = world(true);
        beside(&world, World::collect, |world| {
            world.put(2, Some(b"2"));
            world.put(3, Some(b"3"));
        });
        assert_eq!(world.get(), Some((Found::Value(Csn(3)), b"3".to_vec())));
    });
}

/// The slot of the removed row `k` is used again for row `j`, while a reader looks up `k`.
#[test]
fn loom_a_reader_of_a_removed_row_does_not_find_the_next_row_of_its_slot() {
    static USED_AGAIN: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
    model(3, || {
        let world = world(true);
        let slot = world.slot(b"k");
        world.put(2, None);
        beside(
            &world,
            |world| {
                world.collect();
                world.collect();
                world.put_key(b"j", 3, Some(b"3"));
            },
            |world| {
                let (found, _) = world.get().unwrap();
                assert!(matches!(found, Found::Deleted(Csn(2)) | Found::Nothing), "{found:?}");
            },
        );
        assert_eq!(world.get_key(b"j"), Some((Found::Value(Csn(3)), b"3".to_vec())));
        if world.slot(b"j") == slot {
            USED_AGAIN.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    });
    assert!(USED_AGAIN.load(std::sync::atomic::Ordering::Relaxed));
}

/// Two threads: one evicts the row, and the other updates it at CSN 2.
fn evict_and_update(world: &LoomArc<World>) -> [thread::JoinHandle<()>; 2] {
    let (evictor, writer) = (world.clone(), world.clone());
    let evict = thread::spawn(move || {
        spillway_reclaim::epochs::go_by(1);
        evictor.evict();
    });
    [evict, thread::spawn(move || writer.put(2, Some(b"2")))]
}

#[test]
fn loom_an_update_and_a_read_beside_eviction() {
    model(2, || {
        let world = world(true);
        let others = evict_and_update(&world);
        let one = |csn: u64, value: &[u8]| (Found::Value(Csn(csn)), value.to_vec());
        let got = world.get();
        assert!(got.is_none_or(|got| got == one(1, b"1") || got == one(2, b"2")));
        others.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(world.get().is_none_or(|got| got == one(2, b"2")));
    });
}

/// MEMORY-3 and ROWS-3: a checkpoint at CSN 1 has the place of the row's version at CSN 1, whatever
/// others do to the row. If the row has a newer version, its page stays dirty.
#[test]
fn loom_a_checkpoint_beside_an_update_and_an_eviction() {
    model(2, || {
        let world = world_at(true, Csn(1));
        let slot = world.slot(b"k").unwrap();
        let others = evict_and_update(&world);
        assert!(world.table.rows.take_mark(0));
        let pin = world.inner.store.pin();
        let (word, newer) = entry_at(&world.inner.store, &world.table, slot, Csn(1), Csn(1), &pin);
        drop(pin);
        if newer {
            world.table.rows.mark_again(0);
        }
        assert_eq!(word, Word::place(world.place(1)));
        others.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(world.table.rows.take_mark(0), "the next checkpoint writes the page");
    });
}

impl World {
    /// Adds a commit with a number of versions to the ring, as the end of an install does.
    fn add_unplaced(&self, csn: Csn, versions: u32) {
        let make = |offset| {
            let place = Err(InBatch { offset, class: 40 });
            let content = Content::Value(b"v");
            let fields = Fields { csn, table: 1, slot: 0, place, content, next: Word::EMPTY };
            VersionRef(self.inner.store.make(&fields))
        };
        let versions: Versions = (0..versions).map(make).collect();
        self.inner.unplaced.put(csn, versions);
    }

    /// The CSNs of the versions that the engine finds when it learns the place of a commit.
    fn take_unplaced(&self, csn: Csn) -> Vec<Csn> {
        let pin = self.inner.store.pin();
        let taken = self.inner.unplaced.take(csn, &pin, &self.inner.store);
        taken.iter().map(|version| self.inner.store.version(version.0, &pin).csn()).collect()
    }
}

/// Three commits share a slot of the ring. Two threads install two of them late, while a third
/// thread learns the places. It learns a place only after the commit is stable, and finds exactly
/// the versions of the commit.
#[test]
fn loom_unplaced_1_a_slot_is_not_used_again_before_its_commit_was_told_of() {
    model(3, || {
        let world = world(false);
        let commits = [(1, 1), (1 + RING as u64, 2), (1 + 2 * RING as u64, 1)];
        let [first, late @ ..] = commits;
        world.add_unplaced(Csn(first.0), first.1);
        let stable = late.map(|_| LoomArc::new(AtomicBool::new(false)));
        let mut threads = Vec::new();
        for (number, ((csn, versions), stable)) in late.into_iter().zip(&stable).enumerate() {
            let (world, stable) = (world.clone(), stable.clone());
            threads.push(thread::spawn(move || {
                spillway_reclaim::epochs::go_by(number + 1);
                world.add_unplaced(Csn(csn), versions);
                stable.store(true, Ordering::Release);
            }));
        }
        let take = |(csn, versions): (u64, u32)| {
            let found = world.take_unplaced(Csn(csn));
            assert_eq!(found, vec![Csn(csn); versions as usize], "UNPLACED-1");
        };
        take(first);
        let told = stable.map(|stable| stable.load(Ordering::Acquire));
        late.into_iter().zip(told).filter(|(_, told)| *told).for_each(|(commit, _)| take(commit));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        late.into_iter().zip(told).filter(|(_, told)| !told).for_each(|(commit, _)| take(commit));
        assert_eq!(world.inner.unplaced.len(), 0);
    });
}
