//! An inspection of a closed engine's folder reports the temperatures and compactions that the
//! engine knew. Nothing else depends on these statistics.

use spillway_base::budget::Use;
use spillway_storage::OpenMode;

use super::*;
use crate::inspect::{Inspection, Offline, SliceInspection, StatsSnapshot};

const FILE: &str = "/data/recent";

/// Settings under which reads come from extents.
fn settings() -> TieredSettings {
    TieredSettings { row_cache_share: 0.0, subtable_bytes: 100 << 10, ..small() }
}

fn reopened(disk: &SimDisk) -> Bench {
    open_with(Arc::new(disk.clone()), settings()).unwrap()
}

/// Merged rows of a table, some of which are read often.
fn used(disk: &SimDisk) -> Bench {
    let bench = reopened(disk);
    bench.install(&(Csn(1), batch(&[Op::CreateTable(table(1))])));
    rewritten(&bench, 2, 0..400);
    // The rows before and after them stay in the same extents.
    rewritten(&bench, 3, 200..204);
    read(&bench, 200..400);
    bench
}

fn rewritten(bench: &Bench, csn: u64, keys: std::ops::Range<u64>) {
    let mut rows = WriteBatch::new();
    for key in keys {
        let (key, value) = (format!("{key:05}"), noise(csn * 1000 + key, 1000));
        rows.push(Op::Put { table: table(1), key: key.as_bytes(), value: &value });
    }
    bench.install(&(Csn(csn), rows));
    bench.engine.compact_all().unwrap();
    bench.work().unwrap();
}

fn read(bench: &Bench, keys: std::ops::Range<u64>) {
    for _ in 0..30 {
        for key in keys.clone() {
            let key = format!("{key:05}");
            assert!(bench.get(table(1), key.as_bytes(), Csn::MAX).unwrap().is_some());
        }
    }
}

fn offline(disk: &SimDisk) -> Inspection {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Offline::open(&disk, &dir()).unwrap().unwrap().inspect()
}

/// Compares everything that is reported of slices, with their temperatures, and of compactions.
fn check_same(closed: &Inspection, told: &Inspection) {
    assert_eq!(closed.compactions, told.compactions);
    assert_eq!(closed.tables.len(), told.tables.len());
    for (closed, told) in closed.tables.iter().zip(&told.tables) {
        assert_eq!(closed.space, told.space);
        for (closed, told) in closed.subtables.iter().zip(&told.subtables) {
            assert_eq!((&closed.levels, &closed.slices), (&told.levels, &told.slices));
        }
    }
}

fn temperatures(of: &Inspection) -> Vec<Option<u32>> {
    let parts = of.tables.iter().flat_map(|table| &table.subtables);
    parts.flat_map(|part| &part.slices).map(|slice| slice.temperature).collect()
}

#[test]
fn a_closed_folder_tells_what_its_engine_told_of_the_recent_past() {
    let disk = SimDisk::new(41);
    let bench = used(&disk);
    let told = bench.engine.inspect();
    let slices =
        told.tables.iter().flat_map(|table| &table.subtables).flat_map(|part| &part.slices);
    let is_read = |slice: &&SliceInspection| slice.temperature.is_some_and(|of| of > 0);
    assert!(slices.filter(is_read).any(|slice| slice.blocks < slice.extent_blocks));
    assert!(temperatures(&told).contains(&Some(0)) && told.as_of.is_none());
    assert!(told.compactions.as_ref().is_some_and(|all| !all.is_empty()));
    bench.engine.close();
    drop(bench);
    let closed = offline(&disk);
    check_same(&closed, &told);
    assert!(closed.as_of.is_some_and(|at| at <= spillway_base::clock::wall()));
    verify_clean(&disk);

    // An engine that was open for too short a time to have statistics does not change the file.
    let again = reopened(&disk);
    again.engine.close();
    drop(again);
    check_same(&offline(&disk), &told);

    // The statistics know nothing of later extents. Here the process is killed, so only the
    // temperatures of new extents are missing.
    let killed = reopened(&disk);
    rewritten(&killed, 4, 0..400);
    drop(killed);
    let stale = offline(&disk);
    assert_eq!(stale.compactions, told.compactions);
    assert!(temperatures(&stale).iter().all(Option::is_none), "{:?}", temperatures(&stale));
    verify_clean(&disk);
}

/// Numbers of extents that no edit recorded are assigned again after a crash. The statistics must
/// not apply to the new extents.
#[test]
fn nothing_is_told_of_extents_that_take_the_numbers_of_others() {
    let disk = SimDisk::new(44);
    let bench = used(&disk);
    // When the snapshot is written, a running compaction has taken numbers.
    (0..1000).for_each(|_| _ = bench.engine.0.persistence.new_extent_id());
    bench.engine.0.note();
    drop(bench);
    let again = reopened(&disk);
    rewritten(&again, 4, 0..400);
    drop(again);
    assert!(temperatures(&offline(&disk)).iter().all(Option::is_none));
}

/// If there is no memory to make a snapshot, none is written, and the earlier file stays.
#[test]
fn what_there_is_no_memory_for_is_not_put_down() {
    let disk = SimDisk::new(45);
    let bench = used(&disk);
    let inner = &bench.engine.0;
    inner.note();
    let told = offline(&disk);
    rewritten(&bench, 4, 0..400);
    let all = inner
        .write_buffer
        .accounts()
        .budget
        .charge(Use::Memtables, inner.write_buffer.accounts().budget.limit());
    let before = disk.operations();
    inner.note();
    assert_eq!(disk.operations(), before);
    assert_eq!(offline(&disk).compactions, told.compactions);
    drop(all);
    inner.note();
    assert!(offline(&disk).compactions.unwrap().len() > told.compactions.unwrap().len());
}

/// Background threads write a snapshot after a while, if there is something new. Without background
/// threads, none is written before the engine closes.
#[test]
fn the_recent_past_is_put_down_now_and_then() {
    let disk = SimDisk::new(42);
    let bench = used(&disk);
    let inner = &bench.engine.0;
    let later = |seconds| spillway_base::clock::now() + Duration::from_secs(seconds);
    let before = disk.operations();
    assert!(!inner.note_now_and_then(later(3600)), "nobody is there");
    assert_eq!(disk.operations(), before);
    inner.wakeups.add_group();
    assert!(!inner.note_now_and_then(later(0)), "too early");
    assert!(inner.note_now_and_then(later(31)));
    let told = bench.engine.inspect();
    check_same(&offline(&disk), &told);
    assert!(!inner.note_now_and_then(later(3600)), "nothing is new");
    rewritten(&bench, 4, 0..400);
    assert!(!inner.note_now_and_then(later(40)), "too early");
    assert!(inner.note_now_and_then(later(3600)));
    assert!(offline(&disk).compactions.unwrap().len() > told.compactions.unwrap().len());
    inner.wakeups.remove_group();
}

/// Every operation of writing a snapshot fails once, in each way. The engine goes on, and the
/// folder has the old statistics or the new ones.
#[test]
fn what_cannot_be_put_down_changes_nothing() {
    for fault in [Fault::Io, Fault::ShortWrite, Fault::Full, Fault::Crash] {
        for operation in 1.. {
            let disk = SimDisk::new(operation);
            let bench = used(&disk);
            bench.engine.0.note();
            let old = StatsSnapshot::read(&disk, &dir()).unwrap();
            rewritten(&bench, 4, 0..400);
            let before = disk.operations();
            disk.fail_operation(before + operation, fault);
            bench.engine.0.note();
            let is_over = disk.operations() < before + operation;
            if fault == Fault::Crash && !is_over {
                disk.crash();
                drop(bench);
                disk.restart();
            } else {
                bench.engine.health().unwrap();
                let new = StatsSnapshot::read(&disk, &dir()).unwrap();
                // The file is opened, written and renamed; only a write can be short.
                let fails = operation == 2 || operation <= 3 && fault != Fault::ShortWrite;
                assert_eq!(new == old, fails, "{fault:?} at {operation}");
                let all = disk.list(&dir()).unwrap();
                assert!(!all.contains(&"recent.new".to_owned()), "{fault:?} at {operation}");
                disk.heal();
                rewritten(&bench, 5, 0..400);
                bench.engine.close();
                check_same(&offline(&disk), &bench.engine.inspect());
            }
            verify_clean(&disk);
            let again = reopened(&disk);
            read(&again, 0..400);
            if is_over {
                assert!(operation > 3, "{operation}");
                break;
            }
        }
    }
}

/// The file may contain anything, or be missing: the folder is sound and opens, and an inspection
/// reports the rest.
#[test]
fn a_file_of_the_recent_past_that_is_torn_is_none() {
    let disk = SimDisk::new(44);
    let bench = used(&disk);
    let told = bench.engine.inspect();
    bench.engine.close();
    drop(bench);
    let len = disk.files().iter().find(|(path, _)| path == Path::new(FILE)).unwrap().1;
    let (mut survived, mut lost) = (0, 0);
    for seed in 0..20 {
        let disk = disk.fork();
        match seed {
            0 => disk.remove(Path::new(FILE)).unwrap(),
            1 => disk.rot(Path::new(FILE), len / 2, 1),
            2 => disk.open(Path::new(FILE), OpenMode::Write).unwrap().set_len(len - 1).unwrap(),
            3 => disk.open(Path::new(FILE), OpenMode::Create).map(drop).unwrap(),
            _ => {
                // Writes that were not synced may be lost, in whole or in part.
                disk.crash();
                disk.restart();
            }
        }
        verify_clean(&disk);
        let closed = offline(&disk);
        if closed.compactions.is_some() {
            assert!(seed > 3);
            check_same(&closed, &told);
            survived += 1;
        } else {
            assert!(closed.as_of.is_none() && temperatures(&closed).iter().all(Option::is_none));
            assert_eq!(temperatures(&closed).len(), temperatures(&told).len());
            lost += 1;
        }
        let again = reopened(&disk);
        read(&again, 0..400);
        again.engine.close();
        check_same(&offline(&disk), &again.engine.inspect());
    }
    assert!(lost > 4, "{survived} {lost}");
}
