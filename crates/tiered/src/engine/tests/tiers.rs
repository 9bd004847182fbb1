//! Extents on devices of several classes, and their moves between the devices.

use std::path::Path;

use super::*;
use crate::manifest::Place;
use crate::space::{DeviceClass, Tier};

fn tier(class: DeviceClass, dir: &str) -> Tier {
    Tier { class, dir: dir.into(), compression: None }
}

pub(super) fn fast_and_hdd() -> Vec<Tier> {
    vec![tier(DeviceClass::Fast, "/fast"), tier(DeviceClass::Hdd, "/hdd")]
}

pub(super) fn open_tiers(disk: &SimDisk, tiers: Vec<Tier>) -> Result<Bench> {
    // Uncompressed, so that there is more to move.
    let hot_compression = Compression::None;
    let cold_compression = Compression::None;
    let settings = TieredSettings { tiers, hot_compression, cold_compression, ..small_parts() };
    open_with(Arc::new(disk.clone()), settings)
}

/// The bytes in use on each class that has any.
pub(super) fn used(bench: &Bench) -> Vec<(DeviceClass, u64)> {
    let all = bench.engine.0.space.bytes_by_class().into_iter();
    all.map(|of| (of.class, of.all - of.free)).filter(|(_, used)| *used > 0).collect()
}

/// Checks that exactly the slots of extents are in use.
pub(super) fn nothing_is_lost(bench: &Bench) {
    let inner = &bench.engine.0;
    let (all, free) = inner.space.bytes();
    let state = inner.persistence.manifest().state().clone();
    let extents = state.tables.values().flat_map(|table| table.extents.values());
    let slots: u64 = extents.map(|extent| u64::from(extent.meta.slots.count)).sum();
    assert_eq!(all - free, slots * inner.space.slot_bytes() as u64);
}

pub(super) fn persist(bench: &Bench, commits: &[Commit]) {
    for commit in commits {
        bench.install(commit);
        if commit.0.0 % 20 == 0 {
            bench.engine.request_persist(commit.0);
            bench.work().unwrap();
        }
    }
    bench.engine.request_persist(bench.horizon.stable());
    bench.work().unwrap();
}

pub(super) fn last(commits: &[Commit]) -> Csn {
    commits.last().unwrap().0
}

/// EXTENT-MOVE-1: tiers are added, changed and removed during a history, and it reads as the model.
#[test]
fn extent_move_1_a_history_over_changing_tiers_reads_as_the_model() {
    let disk = SimDisk::new(1);
    let mut rng = Rng::new(1);
    let commits = history(11, 400);
    let stages = [
        vec![],
        fast_and_hdd(),
        vec![tier(DeviceClass::Fast, "/fast")],
        vec![tier(DeviceClass::Ssd, "/ssd"), tier(DeviceClass::Hdd, "/hdd")],
        vec![],
    ];
    let mut moved = 0;
    for (stage, tiers) in stages.iter().enumerate() {
        let bench = open_tiers(&disk, tiers.clone()).unwrap();
        let done = &commits[..(stage + 1) * 80];
        bench.horizon.stable.store(stage as u64 * 80, Ordering::SeqCst);
        persist(&bench, &done[stage * 80..]);
        check(&bench, done, last(done), &mut rng);
        nothing_is_lost(&bench);
        let (fast, slow) = match stage {
            1 => (DeviceClass::Fast, DeviceClass::Hdd),
            2 => (DeviceClass::Fast, DeviceClass::Ssd),
            3 => (DeviceClass::Ssd, DeviceClass::Hdd),
            _ => (DeviceClass::Ssd, DeviceClass::Ssd),
        };
        let inner = &bench.engine.0;
        let on = inner.space.classes_of_files();
        for table in inner.tables.load().values() {
            let views: Vec<_> = table.all_parts().iter().map(|part| part.view()).collect();
            let places = || views.iter().flat_map(|view| view.levels.places());
            let mut cold = 0;
            for (place, slice) in places() {
                let (class, leaving) = on[&slice.extent.meta.slots.file];
                assert!(!leaving && (class == fast || class == slow), "stage {stage}");
                let shared = places().any(|(other, of)| {
                    of.meta.extent == slice.meta.extent
                        && (other == Place::Level2) != (place == Place::Level2)
                });
                if !shared {
                    let wanted = if place == Place::Level2 { slow } else { fast };
                    assert_eq!(class, wanted, "stage {stage}, {place:?}");
                }
                cold += u64::from(place == Place::Level2);
            }
            assert!(cold > 0 || stage == 0);
        }
        bench.engine.compact_all().unwrap();
        bench.work().unwrap();
        assert_eq!(used(&bench).iter().map(|(class, _)| *class).collect::<Vec<_>>(), [slow]);
        check(&bench, done, last(done), &mut rng);
        moved += bench.engine.0.statistics.moved_extents();
        drop(bench);
        verify_clean(&disk);
    }
    assert!(moved > 10, "{moved}");
    // These folders were empty, so they are no tiers any more.
    drop(open_tiers(&disk, vec![]).unwrap());
    let files = disk.files();
    let data = |dir: &str| files.iter().filter(|(path, _)| path.starts_with(dir)).count();
    assert_eq!(["/fast", "/hdd", "/ssd"].map(data), [1, 1, 1], "{files:?}");
}

/// EXTENT-MOVE-2: after a crash at any operation of opening with tiers and of moving the extents,
/// all rows are there, and only the slots of extents are in use.
#[test]
fn extent_move_2_a_crash_at_every_operation_of_moves_leaves_every_extent_whole_and_once() {
    let commits = history(5, 60);
    let begin = |seed| {
        let disk = SimDisk::new(seed);
        let bench = open_tiers(&disk, vec![]).unwrap();
        persist(&bench, &commits);
        bench.engine.compact_all().unwrap();
        drop(bench);
        disk
    };
    let moves = |disk: &SimDisk| -> Result<u64> {
        let bench = open_tiers(disk, fast_and_hdd())?;
        bench.horizon.stable.store(last(&commits).0, Ordering::SeqCst);
        bench.work()?;
        Ok(bench.engine.0.statistics.moved_extents())
    };
    let whole = begin(0);
    let from = whole.operations();
    assert!(moves(&whole).unwrap() > 2);
    let operations = whole.operations();
    assert!(operations - from > 40, "{}", operations - from);
    let base = begin(0);
    for crash_at in from + 1..=operations {
        let disk = base.fork();
        disk.fail_operation(crash_at, Fault::Crash);
        let _ = moves(&disk);
        disk.crash();
        disk.restart();
        verify_clean(&disk);
        let bench = open_tiers(&disk, fast_and_hdd()).unwrap();
        bench.horizon.stable.store(last(&commits).0, Ordering::SeqCst);
        nothing_is_lost(&bench);
        check(&bench, &commits, last(&commits), &mut Rng::new(crash_at));
        bench.work().unwrap();
        assert_eq!(used(&bench).len(), 1, "all is on the slowest");
        nothing_is_lost(&bench);
        check(&bench, &commits, last(&commits), &mut Rng::new(crash_at));
    }
}

/// A reader of an extent that moves goes on in the old slots. When the reader ends, these slots are
/// free.
#[test]
fn a_scan_goes_on_in_the_old_place() {
    let disk = SimDisk::new(3);
    let commits = history(6, 100);
    let bench = open_tiers(&disk, vec![]).unwrap();
    persist(&bench, &commits);
    bench.engine.compact_all().unwrap();
    drop(bench);
    let bench = open_tiers(&disk, fast_and_hdd()).unwrap();
    let newest = last(&commits);
    bench.horizon.stable.store(newest.0, Ordering::SeqCst);
    let (all, forward) = (KeyRange::ALL, Direction::Forward);
    let mut cursor = bench.engine.scan(table(1), all, forward, newest, Access::Blocking).unwrap();
    assert!(cursor.next(Access::Blocking).unwrap());
    let mut rows = vec![(cursor.key().to_vec(), cursor.value().to_vec())];
    bench.work().unwrap();
    assert_eq!(used(&bench).len(), 2, "what the scan may need is still there");
    while cursor.next(Access::Blocking).unwrap() {
        rows.push((cursor.key().to_vec(), cursor.value().to_vec()));
    }
    drop(cursor);
    assert!(rows == bench.rows(table(1), all, forward, newest).unwrap());
    assert_eq!(used(&bench).len(), 1);
    nothing_is_lost(&bench);
}

/// EXTENT-MOVE-3: a damaged extent is not copied, and the status of its table reports the damage.
/// The other extents are moved.
#[test]
fn extent_move_3_a_damaged_extent_stays_where_it_is() {
    let disk = SimDisk::new(4);
    let commits = history(7, 100);
    let bench = open_tiers(&disk, vec![]).unwrap();
    persist(&bench, &commits);
    bench.engine.compact_all().unwrap();
    let slice = bench.part(1).1.view().levels.level2.slices().at(0).clone();
    let slots = slice.extent.meta.slots;
    drop((slice, bench));
    let file = dir().join(format!("{:06}.data", slots.file));
    disk.rot(&file, u64::from(slots.first) * (64 << 10) + 100, 1);
    let bench = open_tiers(&disk, fast_and_hdd()).unwrap();
    bench.horizon.stable.store(last(&commits).0, Ordering::SeqCst);
    bench.work().unwrap();
    let status = bench.engine.status();
    let told = status[0].quarantine.clone().unwrap();
    assert!(told.contains("block 0") && status[1].quarantine.is_none(), "{told}");
    let extents = |id| bench.engine.0.persistence.manifest().state().tables[&id].extents.clone();
    assert!(extents(table(1)).values().any(|extent| extent.meta.slots == slots));
    let on = bench.engine.0.space.classes_of_files();
    let others = extents(table(2));
    let mut classes = others.values().map(|extent| on[&extent.meta.slots.file].0);
    assert!(classes.all(|class| class == DeviceClass::Hdd));
    nothing_is_lost(&bench);
}

/// The error for a missing tier names the setting, and nothing is lost.
#[test]
fn a_missing_tier_is_told_of() {
    let disk = SimDisk::new(5);
    let commits = history(8, 100);
    let bench = open_tiers(&disk, fast_and_hdd()).unwrap();
    persist(&bench, &commits);
    bench.engine.compact_all().unwrap();
    drop(bench);
    let owner = Path::new("/hdd/tier-owner");
    disk.rename(owner, Path::new("/hdd/away")).unwrap();
    for tiers in [fast_and_hdd(), vec![]] {
        let error = open_tiers(&disk, tiers).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("--tier hdd="), "{error}");
    }
    disk.rename(Path::new("/hdd/away"), owner).unwrap();
    let bench = open_tiers(&disk, fast_and_hdd()).unwrap();
    bench.horizon.stable.store(last(&commits).0, Ordering::SeqCst);
    check(&bench, &commits, last(&commits), &mut Rng::new(1));
}
