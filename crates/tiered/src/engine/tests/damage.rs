//! Damage in each part of an extent: how the engine reports it, and which work continues beside it.

use super::*;
use crate::extent::bytes_of_parts;
use crate::extent_meta::SliceMeta;
use crate::level::{Levels, Slice};
use crate::manifest::Place;
use crate::picker::Conflicts;

/// Writes rows of the table in one commit.
fn put(bench: &Bench, csn: u64, rows: impl Iterator<Item = u64>) {
    let rows: Vec<_> = rows.map(|number| (key(number), noise(number, 100))).collect();
    let put = |(key, value)| Op::Put { table: table(1), key, value };
    let ops: Vec<_> = rows.iter().map(|(key, value)| put((&key[..], &value[..]))).collect();
    bench.install(&(Csn(csn), batch(&ops)));
    bench.engine.flush_all().unwrap();
}

fn key(number: u64) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

/// E8: a reader that finds damage anywhere in an extent gets the table, the extent, and the keys of
/// the slices that use the extent. Verification, backups and the list of keys that compactions
/// avoid report the same.
#[test]
fn e8_damage_of_any_part_tells_table_extent_and_keys() {
    let whole = SimDisk::new(1);
    let bench = open(&whole).unwrap();
    bench.install(&(Csn(1), batch(&[Op::CreateTable(table(1))])));
    put(&bench, 2, 0..4000);
    let (_, part) = bench.part(1);
    let slice = part.view().levels.level0[0].run.slices().at(1).clone();
    let (meta, keys) = (slice.extent.meta.clone(), slice.meta.clone());
    let mut bytes = Vec::new();
    slice.extent.read_all(&mut bytes).unwrap();
    drop((slice, part, bench));
    let path = dir().join(format!("{:06}.data", meta.slots.file));
    let start = u64::from(meta.slots.first) * small().slot_bytes as u64;
    let hull =
        format!("\"{}\" to \"{}\"", keys.smallest.escape_ascii(), keys.largest.escape_ascii());
    for (part, at) in bytes_of_parts(&bytes, table(1), &meta) {
        let disk = whole.fork();
        disk.rot(&path, start + at as u64, 8);
        let told = |error: &Error, by: &str| {
            assert_eq!(error.kind(), ErrorKind::Corruption);
            let text = error.to_string();
            let all = ["table 0x1", &meta.id.to_string(), part, "with keys from \"key"];
            assert!(all.into_iter().all(|what| text.contains(what)), "{by}, byte {at}: {text}");
            // The keys of a block, or all keys that are read from this extent.
            assert!(part == "block 0" || text.contains(&hull), "{by}, {part}: {text}");
        };
        let bench = open(&disk).unwrap();
        bench.horizon.stable.store(2, Ordering::SeqCst);
        let error = bench.get(table(1), &keys.smallest, Csn(2)).unwrap_err();
        told(&error, "a get");
        let rows = bench.rows(table(1), KeyRange::ALL, Direction::Forward, Csn(2));
        told(&rows.unwrap_err(), "a scan");
        // A compaction that need not read the extent leaves it where it is.
        if let Err(error) = bench.engine.compact_all() {
            told(&error, "a compaction");
        }
        let (_, sub) = bench.part(1);
        let slices: Vec<_> = sub.view().levels.places().map(|(_, slice)| slice.clone()).collect();
        bench.engine.0.quarantine(&sub, &slices, &error);
        let status = bench.engine.status();
        let quarantine = status[0].quarantine.as_ref().expect("it is left alone");
        assert!(quarantine.contains("with keys from \"key"), "{quarantine}");
        assert!(part == "block 0" || quarantine.contains(&hull), "{quarantine}");
        let pin = bench.engine.pin();
        let mut room = Vec::new();
        let copied = (0..pin.extents().len()).map(|index| pin.read(index, &mut room));
        let failed: Vec<_> = copied.filter_map(Result::err).collect();
        assert_eq!(failed.len(), 1);
        told(&failed[0], "a backup");
        drop((pin, slices, sub, bench));
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let report = crate::verify(&shared, &dir(), &mut |_, _| {}).unwrap();
        assert_eq!(report.findings.len(), 1, "{:?}", report.findings);
        told(&report.findings[0].error, "verification");
    }
}

/// E8: if several slices use an extent, the error names the keys from the first slice to the last.
/// Keys that were rewritten elsewhere are in no slice of the extent, and are not named.
#[test]
fn e8_damage_is_told_with_the_keys_that_are_still_read_there() {
    let disk = SimDisk::new(1);
    let bench = open(&disk).unwrap();
    bench.install(&(Csn(1), batch(&[Op::CreateTable(table(1))])));
    put(&bench, 2, 0..4000);
    bench.engine.compact_all().unwrap();
    // The first keys, and some in the middle, are rewritten.
    put(&bench, 3, (0..10).chain(1000..1010).chain(3000..3010));
    bench.engine.compact_all().unwrap();
    let (_, part) = bench.part(1);
    let levels = part.view().levels.clone();
    let mut slices: Vec<_> = levels.places().map(|(_, slice)| slice.clone()).collect();
    slices.sort_by_key(|slice| slice.meta.id());
    let groups = slices.chunk_by(|one, next| one.meta.extent == next.meta.extent);
    let group = groups.max_by_key(|group| group.len()).unwrap();
    assert!(group.len() > 1, "an extent has several slices");
    let meta = group[0].extent.meta.clone();
    let (low, high) = (&group[0].meta.smallest, &group[group.len() - 1].meta.largest);
    let hull =
        format!("footer with keys from \"{}\" to \"{}\"", low.escape_ascii(), high.escape_ascii());
    let within = group[1].meta.smallest.clone();
    drop((levels, part, bench));
    let path = dir().join(format!("{:06}.data", meta.slots.file));
    let start = u64::from(meta.slots.first) * small().slot_bytes as u64;
    disk.rot(&path, start + meta.len - 20, 8);
    let bench = open(&disk).unwrap();
    bench.horizon.stable.store(3, Ordering::SeqCst);
    let text = bench.get(table(1), &within, Csn(3)).unwrap_err().to_string();
    assert!(text.contains(&hull), "{hull}: {text}");
}

/// E8: the keys that compactions avoid slow no writer, however much data is above them. The rest of
/// the table's Level0 still counts.
#[test]
fn e8_what_lies_beside_damage_still_counts_as_debt() {
    let settings = TieredSettings { compaction_order: Vec::new(), ..small() };
    let bench = open_with(Arc::new(SimDisk::new(1)), settings).unwrap();
    bench.install(&(Csn(1), batch(&[Op::CreateTable(table(1))])));
    put(&bench, 2, 0..4000);
    bench.engine.compact_all().unwrap();
    let (_, part) = bench.part(1);
    let damaged = part.view().levels.level2.slices().at(0).clone();
    assert!(*damaged.meta.largest < key(3000)[..], "there is more than that");
    part.quarantine(&damaged.meta, Error::corruption("a test"));
    let debt = || bench.engine.debt().level0;
    for csn in 3..9 {
        put(&bench, csn, [1, 5].into_iter());
    }
    assert_eq!((part.view().levels.level0.len(), debt()), (6, 0.0), "nothing can be done about it");
    for csn in 9..14 {
        put(&bench, csn, [3100, 3500].into_iter());
    }
    assert_eq!(part.view().levels.level0.len(), 11);
    let limit = small().level0_limit as f64;
    assert!((4.0 / limit..=5.0 / limit).contains(&debt()), "{} of {limit}", debt());
}

/// E8: scans can read the rows before damaged keys and those behind them, in both directions, with
/// the keys in the error as bounds. A scan reads no block, and no index of an extent, that has none
/// of its rows.
#[test]
fn e8_scans_up_to_what_is_damaged_and_from_behind_it_read_all() {
    let whole = SimDisk::new(1);
    let bench = open(&whole).unwrap();
    let rows = loaded(&bench);
    let (_, part) = bench.part(1);
    let slice = part.view().levels.level2.slices().at(1).clone();
    let meta = slice.extent.meta.clone();
    let path = dir().join(format!("{:06}.data", meta.slots.file));
    let start = u64::from(meta.slots.first) * small().slot_bytes as u64;
    let resident = slice.extent.resident(Access::Blocking).unwrap();
    let blocks = slice.meta.block_range();
    assert!(blocks.len() > 3 && *slice.meta.largest < key(3999)[..]);
    let of_block = |block| {
        let keys = [resident.first(block), resident.last(block)].map(<[u8]>::to_vec);
        (start + resident.offset(block) + 20, keys)
    };
    // The first block, one in the middle, the last block, and the footer, without which no block
    // can be read.
    let mut damages: Vec<_> =
        [blocks.start, blocks.start + 2, blocks.end - 1].map(of_block).to_vec();
    let keys = [&slice.meta.smallest, &slice.meta.largest].map(|key| key.to_vec());
    damages.push((start + meta.len - 20, keys));
    drop((resident, slice, part, bench));
    for (at, [smallest, largest]) in damages {
        let disk = whole.fork();
        disk.rot(&path, at, 8);
        let behind = spillway_base::range::successor(&largest);
        let few_before = (0..4000).map(key).rfind(|key| *key < smallest).unwrap();
        let few_behind = (0..4000).map(key).find(|key| *key > largest).unwrap();
        let up_to = Some(&smallest[..]);
        let ranges = [
            KeyRange::new(b"", up_to),
            KeyRange::new(&few_before, up_to),
            KeyRange::new(&behind, None),
            KeyRange::new(&behind, Some(&few_behind)),
            KeyRange::new(&few_behind, None),
        ];
        for range in ranges {
            for direction in [Direction::Forward, Direction::Backward] {
                let bench = open(&disk).unwrap();
                bench.horizon.stable.store(2, Ordering::SeqCst);
                let found = bench.rows(table(1), range, direction, Csn(2));
                let found =
                    found.unwrap_or_else(|error| panic!("{range:?} {direction:?}: {error}"));
                let mut wanted: Vec<_> =
                    rows.iter().filter(|(key, _)| range.contains(key)).collect();
                if direction == Direction::Backward {
                    wanted.reverse();
                }
                let found = found.iter().map(|(key, value)| (key, value));
                assert!(found.eq(wanted), "{range:?} {direction:?}");
            }
        }
        let bench = open(&disk).unwrap();
        bench.horizon.stable.store(2, Ordering::SeqCst);
        for direction in [Direction::Forward, Direction::Backward] {
            let all = bench.rows(table(1), KeyRange::ALL, direction, Csn(2));
            assert_eq!(all.unwrap_err().kind(), ErrorKind::Corruption);
        }
    }
}

/// Rows of a table whose Level2 has several slices.
fn loaded(bench: &Bench) -> BTreeMap<Vec<u8>, Vec<u8>> {
    bench.install(&(Csn(1), batch(&[Op::CreateTable(table(1))])));
    put(bench, 2, 0..4000);
    bench.engine.compact_all().unwrap();
    (0..4000).map(|number| (key(number), noise(number, 100))).collect()
}

/// Writes a few of all keys, among them the first and last key of a slice, and flushes them.
fn flush_over(bench: &Bench, csn: u64, slice: &Slice, rows: &mut BTreeMap<Vec<u8>, Vec<u8>>) {
    let mut rng = Rng::new(csn);
    let edges = [&slice.meta.smallest, &slice.meta.largest].map(|key| key.to_vec());
    let others: Vec<_> = (0..200).map(|_| key(rng.below(4000))).collect();
    let mut written = WriteBatch::new();
    for key in others.into_iter().chain(edges).chain([b"key".to_vec()]) {
        let value = noise(rng.next_u64(), 100);
        written.push(Op::Put { table: table(1), key: &key, value: &value });
        rows.insert(key, value);
    }
    bench.install(&(Csn(csn), written));
    bench.engine.flush_all().unwrap();
}

/// The number of slices of Level0 with keys below those of a slice, and the number with keys above.
/// Checks that no slice of Level0 has both kinds of keys, or one kind together with keys of that
/// slice.
fn beside(levels: &Levels, damaged: &SliceMeta) -> [usize; 2] {
    let mut beside = [0; 2];
    for (place, slice) in levels.places() {
        let (smallest, largest) = (&slice.meta.smallest, &slice.meta.largest);
        if slice.meta.overlaps(damaged) {
            let inside = damaged.smallest <= *smallest && *largest <= damaged.largest;
            assert!(inside, "{slice:?} at {place:?} reaches out of what is damaged");
        } else if matches!(place, Place::Level0(_)) {
            beside[usize::from(*smallest > damaged.smallest)] += 1;
        }
    }
    beside
}

fn reads_as(bench: &Bench, rows: &BTreeMap<Vec<u8>, Vec<u8>>, snapshot: u64) {
    let found = bench.rows(table(1), KeyRange::ALL, Direction::Forward, Csn(snapshot)).unwrap();
    assert!(found.into_iter().eq(rows.clone()), "a scan");
    for (key, value) in rows {
        assert_eq!(bench.get(table(1), key, Csn(snapshot)).unwrap().as_ref(), Some(value));
    }
}

/// The rows that cannot be read. Checks that all others are as they should be.
fn lost_of(bench: &Bench, rows: &BTreeMap<Vec<u8>, Vec<u8>>, snapshot: u64) -> Vec<Vec<u8>> {
    let mut lost = Vec::new();
    for (key, value) in rows {
        match bench.get(table(1), key, Csn(snapshot)) {
            Ok(found) => assert_eq!(found.as_ref(), Some(value)),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                lost.push(key.clone());
            }
        }
    }
    lost
}

/// E8, COMPACTION-6: slices that are flushed over damaged keys end at the damaged range. So the
/// data beside the range is still compacted, readers do not have to search more and more
/// sub-levels, and no writer is slowed.
#[test]
fn e8_flushes_over_damaged_keys_are_compacted_beside_them() {
    let bench = open(&SimDisk::new(1)).unwrap();
    let mut rows = loaded(&bench);
    let (_, part) = bench.part(1);
    let damaged = part.view().levels.level2.slices().at(1).clone();
    part.quarantine(&damaged.meta, Error::corruption("a test"));
    for csn in 3..63 {
        flush_over(&bench, csn, &damaged, &mut rows);
        beside(&part.view().levels, &damaged.meta);
        bench.work().unwrap();
    }
    let levels = part.view().levels.clone();
    let beside = beside(&levels, &damaged.meta);
    let counts = bench.engine.0.statistics.figures().compactions;
    let done: u64 = counts.iter().sum();
    assert!(beside.iter().all(|count| *count <= 4), "{beside:?} slices beside the damage");
    assert!((20..=200).contains(&done), "{counts:?}");
    let debt = bench.engine.debt();
    assert!(debt.level0 < 0.5 && debt.compaction == 0.0, "{debt:?}");
    reads_as(&bench, &rows, 62);
}

/// E8, SLICE-SPLIT-1, SLICE-SPLIT-2: slices that were flushed before the damage was found are cut
/// at the ends of the damaged range, and compacted beside it. A slice that cannot be read itself
/// stays whole. All other rows are there, also after the next opening.
#[test]
fn e8_what_was_flushed_before_damage_is_found_is_cut_beside_it() {
    for rots in [false, true] {
        let disk = SimDisk::new(1);
        let bench = open(&disk).unwrap();
        let mut rows = loaded(&bench);
        let (_, part) = bench.part(1);
        let damaged = part.view().levels.level2.slices().at(1).clone();
        (3..23).for_each(|csn| flush_over(&bench, csn, &damaged, &mut rows));
        let levels = part.view().levels.clone();
        assert_eq!(levels.level0.len(), 20);
        if rots {
            let meta = levels.level0[7].run.slices().at(0).extent.meta.clone();
            let path = dir().join(format!("{:06}.data", meta.slots.file));
            let start = u64::from(meta.slots.first) * small().slot_bytes as u64;
            // Damage every block.
            (100..meta.data_bytes).step_by(500).for_each(|at| disk.rot(&path, start + at, 8));
        }
        part.quarantine(&damaged.meta, Error::corruption("a test"));
        bench.work().unwrap();
        if rots {
            let mut damaged = Conflicts::default();
            part.bar_damaged(&mut damaged);
            let levels = part.view().levels.clone();
            for edge in damaged.edges() {
                let found = levels.runs().filter_map(|run| run.slice_of(&edge));
                let reaches = |slice: &&Arc<Slice>| *slice.meta.smallest < *edge;
                assert_eq!(found.filter(reaches).count(), 0, "SLICE-SPLIT-2");
            }
            assert!(damaged.overlap(b"key", b"key"), "what cannot be read is left alone");
            let lost = lost_of(&bench, &rows, 22);
            assert!(!lost.is_empty() && lost.len() < 200, "{} rows", lost.len());
            drop((levels, part, bench));
            let bench = open(&disk).unwrap();
            bench.horizon.stable.store(22, Ordering::SeqCst);
            assert_eq!(lost_of(&bench, &rows, 22), lost);
            continue;
        }
        let beside = beside(&part.view().levels, &damaged.meta);
        assert!(beside.iter().all(|count| *count <= 4), "{beside:?} slices beside the damage");
        reads_as(&bench, &rows, 22);
        drop((levels, damaged, part, bench));
        let bench = open(&disk).unwrap();
        bench.horizon.stable.store(22, Ordering::SeqCst);
        reads_as(&bench, &rows, 22);
        drop(bench);
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let report = crate::verify(&shared, &dir(), &mut |_, _| {}).unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
    }
}

/// SLICE-SPLIT-2: a disk that is full at any write postpones the cut. If a sync fails because of a
/// full disk, this is final, like any failed sync. Nothing is lost, and the cut is done once there
/// is space.
#[test]
fn e8_a_full_disk_puts_cutting_beside_damage_off() {
    let (mut put_off, mut stopped) = (0, 0);
    for at in 1..=8 {
        let disk = SimDisk::new(1);
        let bench = open(&disk).unwrap();
        let mut rows = loaded(&bench);
        let (whole, part) = bench.part(1);
        let damaged = part.view().levels.level2.slices().at(1).clone();
        (3..6).for_each(|csn| flush_over(&bench, csn, &damaged, &mut rows));
        part.quarantine(&damaged.meta, Error::corruption("a test"));
        disk.fail_operation(disk.operations() + at, Fault::Full);
        let cut = bench.engine.0.cut_beside_damage(&whole, &part);
        reads_as(&bench, &rows, 5);
        disk.heal();
        match cut {
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WritesStopped, "{at}: {error}");
                stopped += 1;
            }
            Ok(cut) => {
                put_off += usize::from(!cut);
                bench.work().unwrap();
                beside(&part.view().levels, &damaged.meta);
                reads_as(&bench, &rows, 5);
            }
        }
        drop((damaged, whole, part, bench));
        verify_clean(&disk);
    }
    assert!(put_off > 0 && stopped > 0, "{put_off} {stopped}");
}
