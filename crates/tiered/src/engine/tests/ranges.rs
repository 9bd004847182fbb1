//! Range tombstones: the guarantees of [`crate::ranges`].

use super::faults::extents;
use super::*;

/// A history with range deletions, each of the rows that an earlier snapshot saw.
pub(super) fn with_ranges(seed: u64, commits: u64) -> Vec<Commit> {
    let mut rng = Rng::new(seed ^ 0x7A9);
    let mut all = history(seed, commits);
    for (csn, batch) in all.iter_mut().filter(|(csn, _)| csn.0 > 4) {
        if !rng.chance(1, 12) {
            continue;
        }
        let (first, most) = (rng.below(125), if rng.chance(1, 4) { 125 } else { 12 });
        let key = |number: u64| format!("key{number:03}").into_bytes();
        let (start, end) = (key(first), key(first + 1 + rng.below(most)));
        let end = rng.chance(15, 16).then_some(&end[..]);
        let range = KeyRange::new(if rng.chance(1, 16) { b"" } else { &start }, end);
        let upto = Csn(csn.0 - 1 - rng.below(4.min(csn.0 - 1)));
        let id = table(1 + rng.below(2) as u32);
        batch.push(Op::DeleteRange { table: id, range, upto });
    }
    all
}

fn put(bench: &Bench, csn: u64, keys: std::ops::Range<u64>) {
    let mut batch = WriteBatch::new();
    for key in keys {
        let (name, value) = (format!("{key:06}"), noise(key ^ csn, 200));
        batch.push(Op::Put { table: table(1), key: name.as_bytes(), value: &value });
    }
    bench.install(&(Csn(csn), batch));
}

fn delete(bench: &Bench, csn: u64, keys: std::ops::Range<u64>, upto: u64) {
    let (start, end) = (format!("{:06}", keys.start), format!("{:06}", keys.end));
    let range = KeyRange::new(start.as_bytes(), Some(end.as_bytes()));
    let op = Op::DeleteRange { table: table(1), range, upto: Csn(upto) };
    bench.install(&(Csn(csn), batch(&[op])));
}

/// A table whose extents are rewritten only because of deletions.
fn with_table(disk: &SimDisk) -> Bench {
    let settings = TieredSettings { cold_compression: Compression::Lz4, ..small() };
    let bench = open_with(Arc::new(disk.clone()), settings).unwrap();
    bench.install(&(Csn(1), batch(&[Op::CreateTable(table(1))])));
    bench
}

fn keys(bench: &Bench, snapshot: u64) -> Vec<u64> {
    let all = KeyRange::ALL;
    let mut rows = bench.rows(table(1), all, Direction::Forward, Csn(snapshot)).unwrap();
    let back = bench.rows(table(1), all, Direction::Backward, Csn(snapshot)).unwrap();
    assert!(rows.iter().eq(back.iter().rev()));
    let number = |(key, _): (Vec<u8>, _)| String::from_utf8(key).unwrap().parse().unwrap();
    rows.drain(..).map(number).collect()
}

fn newest(bench: &Bench, key: u64) -> Found {
    let key = format!("{key:06}");
    bench.engine.newest(table(1), key.as_bytes(), Access::Blocking, &mut Vec::new()).unwrap()
}

fn ranges(bench: &Bench) -> usize {
    let parts = bench.engine.0.tables.all_parts();
    parts.iter().map(|(_, part)| part.view().levels.ranges.len()).sum()
}

fn hidden_slices(bench: &Bench) -> u64 {
    bench.engine.0.statistics.figures().hidden_slices
}

fn written(bench: &Bench) -> u64 {
    bench.engine.0.statistics.figures().compaction_written_bytes
}

#[test]
fn range_tombstone_1_4_5_histories_with_ranges_read_as_the_model() {
    random_histories(10..16, with_ranges);
}

#[test]
fn range_tombstone_6_a_crash_at_every_operation_loses_no_range_and_brings_nothing_back() {
    crash_at_every_operation(&with_ranges(21, 70), small());
    crash_at_every_operation(&with_ranges(22, 70), small_parts());
}

/// RANGE-TOMBSTONE-1 and RANGE-TOMBSTONE-2, in memtables and in extents: which versions a range
/// tombstone hides, and which commit is reported as a key's newest.
#[test]
fn range_tombstone_1_2_a_range_hides_what_its_snapshot_saw() {
    for flushed in [false, true] {
        let disk = SimDisk::new(1);
        let bench = with_table(&disk);
        let settle = || {
            if flushed {
                bench.engine.flush_all().unwrap();
            }
        };
        *bench.horizon.live.lock() = vec![Csn(2)];
        put(&bench, 2, 0..10);
        settle();
        // A row of another commit, which the snapshot of the deletion does not see, and a row of
        // the deleting commit itself.
        put(&bench, 3, 4..5);
        settle();
        let own = noise(6, 9);
        let range = KeyRange::new(b"000002", Some(b"000008"));
        bench.install(&(
            Csn(4),
            batch(&[
                Op::Put { table: table(1), key: b"000006", value: &own },
                Op::DeleteRange { table: table(1), range, upto: Csn(2) },
            ]),
        ));
        settle();
        assert_eq!(keys(&bench, 3), (0..10).collect::<Vec<_>>());
        assert_eq!(keys(&bench, 4), [0, 1, 4, 6, 8, 9]);
        assert_eq!(bench.get(table(1), b"000006", Csn(4)).unwrap(), Some(own));
        let commits = [2, 3, 4, 6, 20].map(|key| newest(&bench, key));
        let (deleted, value) = (Found::Deleted(Csn(4)), |csn| Found::Value(Csn(csn)));
        assert_eq!(commits, [deleted, deleted, value(3), value(4), Found::Nothing]);
        put(&bench, 5, 2..3);
        assert_eq!((newest(&bench, 2), keys(&bench, 5).contains(&2)), (value(5), true));
        settle();
        assert_eq!((newest(&bench, 2), keys(&bench, 5).contains(&2)), (value(5), true));
        assert_eq!(ranges(&bench) > 0, flushed, "a snapshot needs it");
    }
}

/// RANGE-TOMBSTONE-4 and RANGE-TOMBSTONE-5: slices whose versions are all hidden are dropped
/// without being read, and then the tombstone is dropped. While a snapshot needs the slices, they
/// stay.
#[test]
fn range_tombstone_4_5_what_is_hidden_whole_goes_unread() {
    let disk = SimDisk::new(1);
    let bench = with_table(&disk);
    put(&bench, 2, 0..2000);
    bench.engine.compact_all().unwrap();
    bench.work().unwrap();
    let (slices, before) = (bench.engine.status()[0].levels[2].slices, written(&bench));
    assert!(slices > 4, "{slices}");
    // Damages everything, so that no block can be read from here on.
    for (path, offset, len) in extents(&bench, 1) {
        disk.rot(&path, offset + len / 3, 1);
    }
    *bench.horizon.live.lock() = vec![Csn(2)];
    delete(&bench, 3, 0..2000, 2);
    bench.engine.flush_all().unwrap();
    bench.work().unwrap();
    assert_eq!((hidden_slices(&bench), ranges(&bench)), (0, 1), "a snapshot needs it");
    bench.horizon.live.lock().clear();
    bench.work().unwrap();
    assert_eq!((hidden_slices(&bench), ranges(&bench)), (slices, 0));
    assert_eq!((bench.engine.status()[0].levels[2].slices, written(&bench)), (0, before));
    assert!(bench.engine.status()[0].quarantine.is_none());
    assert_eq!(keys(&bench, 3), []);
    drop(bench);
    verify_clean(&disk);
}

/// On a full disk, rows in extents that a range tombstone in memory hides are dropped before the
/// tombstone is flushed, unless a snapshot needs them. After a crash, the log has the tombstone.
#[test]
fn range_tombstone_9_what_a_range_in_memory_hides_goes_before_it_is_flushed() {
    for needed in [false, true] {
        let disk = SimDisk::new(1);
        let bench = with_table(&disk);
        put(&bench, 2, 0..2000);
        bench.engine.compact_all().unwrap();
        bench.work().unwrap();
        let slices = bench.engine.status()[0].levels[2].slices;
        put(&bench, 3, 2000..4000);
        let (_, part) = bench.part(1);
        assert!(
            part.switch(&part.view().active, bench.engine.0.write_buffer.accounts(), || Csn(3))
        );
        let flushed = || bench.engine.0.statistics.figures().flushed_bytes;
        let (before, used) = (flushed(), disk.used());
        if needed {
            bench.horizon.live.lock().push(Csn(3));
        }
        delete(&bench, 4, 0..4000, 3);
        disk.set_capacity(Some(disk.used()));
        let worked = bench.work();
        assert_eq!(worked.is_err_and(|error| error.kind() == ErrorKind::DiskFull), needed);
        assert_eq!(flushed(), before, "rows that nobody sees were written");
        assert_eq!(hidden_slices(&bench), if needed { 0 } else { slices });
        assert_eq!(keys(&bench, 3).len(), if needed { 4000 } else { 0 });
        assert_eq!(keys(&bench, 4), []);
        assert!(needed || disk.used() < used);
        // The rows' commits are persistent, but the deletion is not.
        let persisted = bench.engine.persisted();
        assert_eq!(persisted, Csn(if needed { 2 } else { 3 }));
        drop(bench);
        disk.kill();
        disk.set_capacity(None);
        let bench = with_table(&disk);
        if needed {
            put(&bench, 3, 2000..4000);
        }
        delete(&bench, 4, 0..4000, 3);
        assert_eq!(keys(&bench, 4), []);
        bench.engine.compact_all().unwrap();
        assert_eq!(keys(&bench, 4), []);
        drop(bench);
        verify_clean(&disk);
    }
}

/// RANGE-TOMBSTONE-4 and RANGE-TOMBSTONE-5: if there are many range tombstones, partly hidden
/// slices are merged without the hidden versions, and then the tombstones are dropped.
#[test]
fn range_tombstone_4_5_many_ranges_end_by_themselves() {
    let disk = SimDisk::new(1);
    let bench = with_table(&disk);
    put(&bench, 2, 0..4000);
    bench.engine.compact_all().unwrap();
    let mut left: Vec<u64> = (0..4000).collect();
    for step in 0..40 {
        let (csn, gone) = (3 + step, step * 90 + 20..step * 90 + 70);
        left.retain(|key| !gone.contains(key));
        delete(&bench, csn, gone, csn - 1);
        bench.engine.flush_all().unwrap();
        bench.work().unwrap();
        assert!(ranges(&bench) < 16, "{} after {step}", ranges(&bench));
        assert!(step > 13 || ranges(&bench) > 0);
    }
    assert_eq!(keys(&bench, 42), left);
    bench.engine.compact_all().unwrap();
    assert_eq!((ranges(&bench), keys(&bench, 42)), (0, left.clone()));
    assert_eq!(bench.engine.status()[0].levels[2].versions, left.len() as u64);
    drop(bench);
    verify_clean(&disk);
}

/// A range tombstone over several sub-tables is cut at their bounds, and joined again when they
/// are.
#[test]
fn a_range_over_sub_tables_is_cut_with_them() {
    let disk = SimDisk::new(1);
    let bench = with_table(&disk);
    put(&bench, 2, 0..2000);
    bench.engine.compact_all().unwrap();
    *bench.horizon.live.lock() = vec![Csn(2)];
    delete(&bench, 3, 100..1900, 2);
    bench.engine.flush_all().unwrap();
    let left: Vec<u64> = (0..100).chain(1900..2000).collect();
    let split = |bench: &Bench| {
        let (found, part) = bench.part(1);
        assert!(bench.engine.0.split(&found, &part).unwrap());
    };
    split(&bench);
    assert_eq!((ranges(&bench), keys(&bench, 3)), (2, left.clone()));
    // Also a tombstone that is in memory at the split, and one that is added to both halves.
    put(&bench, 4, 0..2000);
    delete(&bench, 5, 500..1500, 4);
    split(&bench);
    delete(&bench, 6, 400..1600, 4);
    let left: Vec<u64> = (0..400).chain(1600..2000).collect();
    assert_eq!((keys(&bench, 6), keys(&bench, 2).len()), (left.clone(), 2000));
    bench.engine.flush_all().unwrap();
    assert_eq!((keys(&bench, 6), keys(&bench, 2).len()), (left.clone(), 2000));
    drop(bench);
    let bench = open(&disk).unwrap();
    bench.horizon.stable.store(6, Ordering::SeqCst);
    assert_eq!(keys(&bench, 6), left);
    let (found, part) = bench.part(1);
    let next = found.all_parts()[1].clone();
    assert!(bench.engine.0.join(&found, &part, &next).unwrap());
    assert_eq!(keys(&bench, 6), left);
    bench.engine.compact_all().unwrap();
    assert_eq!((ranges(&bench), keys(&bench, 6)), (0, left));
}

/// RANGE-TOMBSTONE-8: the cost of a commit's range tombstones grows neither with the square of
/// their number, nor with earlier commits.
#[test]
fn range_tombstone_8_many_ranges_cost_what_they_are() {
    let steps = || crate::ranges::tests::STEPS.get();
    let disk = SimDisk::new(1);
    let settings =
        TieredSettings { memtable_bytes: 64 << 20, memtables_bytes: 256 << 20, ..small() };
    let bench = open_with(Arc::new(disk), settings).unwrap();
    bench.install(&(Csn(1), batch(&[Op::CreateTable(table(1))])));
    let mut all = WriteBatch::new();
    for number in 0..4096 {
        let (start, end) = (format!("{number:06}"), format!("{number:06}x"));
        let range = KeyRange::new(start.as_bytes(), Some(end.as_bytes()));
        all.push(Op::DeleteRange { table: table(1), range, upto: Csn(1) });
    }
    let before = steps();
    bench.install(&(Csn(2), all));
    let one = steps() - before;
    assert!(one < 20 * 4096, "{one} for a commit");
    for csn in 3..3 + 4096 {
        delete(&bench, csn, 2 * csn + 10_000..2 * csn + 10_001, 1);
    }
    let each = (steps() - before - one) / 4096;
    assert!(each < 2500, "{each} for a commit of one range");
}
