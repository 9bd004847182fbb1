//! The space that the engine reports is the space that its data takes.

use super::tiers::{fast_and_hdd, open_tiers, persist};
use super::*;
use crate::extent::ExtentHandle;
use crate::extent_meta::ExtentId;
use crate::inspect::{Inspection, LevelSpace, Offline, TableSpace};
use crate::picker::CompactionKind;
use crate::space::DeviceClass;

/// Checks the reported space against the slots in use, and against the live bytes of each extent.
/// Returns the dead bytes.
fn check_space(bench: &Bench) -> u64 {
    let told = bench.engine.space();
    let on: Vec<_> = told.iter().map(TableSpace::on_devices).collect();
    let (all, free) = bench.engine.0.space.bytes();
    assert_eq!(on.iter().map(|on| on.slot_bytes).sum::<u64>(), all - free);
    for (space, on) in told.iter().zip(&on) {
        let mut extents: BTreeMap<ExtentId, Arc<ExtentHandle>> = BTreeMap::new();
        let (found, _) = bench.part(space.table.ordinal());
        for part in found.all_parts() {
            let view = part.view();
            let of = view.levels.places().map(|(_, slice)| slice.extent.clone());
            extents.extend(of.map(|extent| (extent.meta.id, extent)));
        }
        let dead = extents.values().map(|extent| extent.meta.data_bytes - extent.live_bytes());
        assert_eq!(on.dead_bytes, dead.sum::<u64>());
        assert_eq!(on.extents as usize, extents.len());
        let live: u64 = space.levels.iter().map(|level| level.block_bytes).sum();
        assert!(live + on.dead_bytes + on.slack_bytes <= on.slot_bytes, "{space:?}");
        assert!(space.newest_bytes() <= space.payload_bytes());
        // No level and no sub-table is reported twice or left out.
        let of_levels =
            |figure: fn(&LevelSpace) -> u64| space.levels.iter().map(figure).sum::<u64>();
        assert_eq!(of_levels(|level| level.slot_bytes), on.slot_bytes);
        assert_eq!(of_levels(|level| level.dead_bytes), on.dead_bytes);
        assert_eq!(of_levels(|level| level.slack_bytes), on.slack_bytes);
        assert_eq!(of_levels(|level| level.coded_bytes.iter().sum()), live);
        assert_eq!(of_levels(|level| level.class_bytes.iter().sum()), on.slot_bytes);
        assert_eq!(
            (space.payload_bytes(), space.newest_bytes()),
            (on.payload_bytes, on.newest_bytes)
        );
        assert_eq!(live, on.block_bytes);
    }
    check_inspection(&bench.engine.inspect(), &told);
    on.iter().map(|on| on.dead_bytes).sum()
}

/// Checks the report of each sub-table and slice against that of the tables.
fn check_inspection(inspection: &Inspection, told: &[TableSpace]) {
    assert!(inspection.tables.iter().map(|table| &table.space).eq(told));
    for table in &inspection.tables {
        for (number, level) in table.space.levels.iter().enumerate() {
            let of_parts = table.subtables.iter().map(|part| &part.levels[number]);
            let slices = || {
                let slices = table.subtables.iter().flat_map(|part| &part.slices);
                slices.filter(move |slice| usize::from(slice.level) == number)
            };
            assert_eq!(of_parts.clone().map(|of| of.slices).sum::<u64>(), level.slices);
            assert_eq!(of_parts.map(|of| of.slot_bytes).sum::<u64>(), level.slot_bytes);
            assert_eq!(slices().count() as u64, level.slices);
            assert_eq!(slices().map(|slice| slice.slot_bytes).sum::<u64>(), level.slot_bytes);
            assert_eq!(slices().map(|slice| slice.dead_bytes).sum::<u64>(), level.dead_bytes);
            assert_eq!(slices().map(|slice| slice.versions).sum::<u64>(), level.versions);
        }
        for class in DeviceClass::ALL {
            let on = table.space.classes.iter().find(|(of, _)| *of == class);
            let on = on.map(|(_, on)| *on).unwrap_or_default();
            let slices = || {
                let slices = table.subtables.iter().flat_map(|part| &part.slices);
                slices.filter(|slice| slice.class == class)
            };
            assert_eq!(slices().map(|slice| slice.payload_bytes).sum::<u64>(), on.payload_bytes);
            assert_eq!(slices().map(|slice| slice.block_bytes).sum::<u64>(), on.block_bytes);
            assert_eq!(slices().map(|slice| slice.slot_bytes).sum::<u64>(), on.slot_bytes);
            assert_eq!(slices().map(|slice| slice.dead_bytes).sum::<u64>(), on.dead_bytes);
        }
        for part in &table.subtables {
            let inside =
                |key: &[u8]| *key >= *part.start && part.end.as_deref().is_none_or(|end| key < end);
            assert!(
                part.slices.iter().all(|slice| inside(&slice.smallest) && inside(&slice.largest))
            );
        }
    }
}

/// An inspection of a closed folder reports the same slices in the same places as the engine did
/// before it closed, rows as they were flushed, and no compactions.
#[test]
fn a_folder_is_told_of_as_its_engine_was() {
    let disk = SimDisk::new(23);
    let bench = open_with(Arc::new(disk.clone()), small_parts()).unwrap();
    let commits = history(23, 600);
    for commit in &commits {
        bench.install(commit);
        bench.engine.request_persist(commit.0);
        bench.work().unwrap();
    }
    let told = bench.engine.inspect();
    check_inspection(&told, &bench.engine.space());
    assert!(told.tables.iter().any(|table| table.subtables.len() > 1), "nothing was split");
    drop(bench);
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let offline = Offline::open(&disk, &dir()).unwrap().unwrap();
    let found = offline.inspect();
    assert!(found.compactions.is_none());
    // Only the open engine knew which free slots keep their space.
    let in_use = |files: &[crate::inspect::FilesInspection]| {
        let files = files.iter().map(|of| (of.class, of.bytes - of.free_bytes));
        files.collect::<Vec<_>>()
    };
    assert_eq!((found.slot_bytes, in_use(&found.files)), (told.slot_bytes, in_use(&told.files)));
    assert_eq!(found.tables.len(), told.tables.len());
    for (found, told) in found.tables.iter().zip(&told.tables) {
        let by_id = |slices: &[crate::inspect::SliceInspection]| {
            let keys = slices.iter().map(|slice| (slice.extent, slice.first_block, slice.level));
            keys.collect::<Vec<_>>()
        };
        assert_eq!(found.space.table, told.space.table);
        assert_eq!(found.space.classes, told.space.classes);
        for (found, told) in found.subtables.iter().zip(&told.subtables) {
            assert_eq!((&found.start, &found.end), (&told.start, &told.end));
            assert_eq!((found.sublevels, found.flushed), (told.sublevels, told.flushed));
            assert_eq!(by_id(&found.slices), by_id(&told.slices));
        }
        let mut versions = 0;
        offline.versions(found.space.table, &mut |_, _, _| versions += 1).unwrap();
        assert_eq!(versions, found.space.levels.iter().map(|level| level.versions).sum::<u64>());
    }
    assert!(Offline::open(&disk, Path::new("/nothing")).unwrap().is_none());
}

/// The reported compactions agree with the counters, with the newest last. The memory of the report
/// is bounded.
#[test]
fn the_newest_compactions_are_told_of() {
    let disk = SimDisk::new(29);
    let bench = open(&disk).unwrap();
    let mut csn = 0;
    for round in 0..300_u64 {
        for half in 0..2 {
            csn += 1;
            let mut batch = WriteBatch::new();
            for key in 0..4 {
                let (key, value) = (format!("{:05}", round + 7 * key), noise(csn * 10 + key, 300));
                batch.push(Op::Put { table: table(1), key: key.as_bytes(), value: &value });
            }
            if (round, half) == (0, 0) {
                batch =
                    [Op::CreateTable(table(1))].iter().fold(WriteBatch::new(), |mut batch, op| {
                        batch.push(*op);
                        batch
                    });
            }
            bench.install(&(Csn(csn), batch));
        }
        bench.engine.compact_all().unwrap();
        let all = bench.engine.inspect().compactions.unwrap();
        let last = all.last().unwrap();
        assert_eq!((last.kind, last.level, last.table), (CompactionKind::Full, 2, table(1)));
        assert!(last.input_slices > 0 && last.smallest <= last.largest && !last.ended.is_zero());
        assert!(all.windows(2).all(|pair| pair[0].number + 1 == pair[1].number));
    }
    let all = bench.engine.inspect().compactions.unwrap();
    assert_eq!((all.len(), all.last().unwrap().number >= 300), (256, true));
    let count = |name: &str| {
        let metrics = bench.engine.metrics();
        metrics.iter().find(|metric| metric.name == name).unwrap().value as u64
    };
    assert!(
        all.iter().map(|one| one.written_bytes).sum::<u64>()
            <= count("tiered_compaction_written_bytes_total")
    );
}

/// The reported size of a table: its rows, as they are inserted and deleted, and its used bytes.
#[test]
fn the_size_of_a_table_follows_its_rows() {
    let disk = SimDisk::new(31);
    let bench = open(&disk).unwrap();
    let id = table(1);
    let mut csn = 1;
    bench.install(&(Csn(1), batch(&[Op::CreateTable(id)])));
    assert_eq!(bench.engine.size(id), spillway_base::managed::TableSize::default());
    assert_eq!(bench.engine.size(table(9)), spillway_base::managed::TableSize::default());
    let mut change = |from: u64, to: u64, put: bool| {
        csn += 1;
        let mut batch = WriteBatch::new();
        for key in from..to {
            let (key, value) = (format!("{key:05}"), noise(key, 200));
            batch.push(match put {
                true => Op::Put { table: id, key: key.as_bytes(), value: &value },
                false => Op::Delete { table: id, key: key.as_bytes() },
            });
        }
        bench.install(&(Csn(csn), batch));
    };
    change(0, 500, true);
    let fresh = bench.engine.size(id);
    assert_eq!(fresh.rows, 500);
    assert!(fresh.used_bytes >= 500 * 205 && fresh.free_bytes == 0, "{fresh:?}");
    bench.engine.compact_all().unwrap();
    let whole = bench.engine.size(id);
    assert_eq!(whole.rows, 500);
    let space = bench.engine.space().remove(0).on_devices();
    assert_eq!(whole.used_bytes + whole.free_bytes, space.slot_bytes);
    assert!(whole.used_bytes >= 500 * 200);
    // Tombstones that are not merged yet with the rows that they hide do not count as rows.
    change(0, 200, false);
    bench.engine.flush_all().unwrap();
    assert_eq!(bench.engine.size(id).rows, 300);
    bench.engine.compact_all().unwrap();
    let less = bench.engine.size(id);
    assert_eq!(less.rows, 300);
    assert!(less.used_bytes < whole.used_bytes);
}

/// The report counts all slots in use. Its dead bytes agree with the live bytes of the extents.
/// Once all data is merged, the newest versions in the report are those of a model.
#[test]
fn space_is_told_to_the_byte() {
    let disk = SimDisk::new(7);
    let bench = open(&disk).unwrap();
    let mut commits = history(7, 400);
    for (at, commit) in commits.iter().enumerate() {
        bench.install(commit);
        if at % 50 == 49 {
            bench.engine.request_persist(commit.0);
            bench.work().unwrap();
            check_space(&bench);
        }
    }
    // Changes in the middle of an extent leave its ends where they are.
    for (csn, keys) in [(401, 0..600), (402, 300..308)] {
        let mut batch = WriteBatch::new();
        for key in keys {
            let (key, value) = (format!("wide{key:05}"), noise(csn * 1000 + key, 500));
            batch.push(Op::Put { table: table(1), key: key.as_bytes(), value: &value });
        }
        commits.push((Csn(csn), batch));
        bench.install(commits.last().unwrap());
        bench.engine.compact_all().unwrap();
        let dead = check_space(&bench);
        assert!(csn == 401 || dead > 0);
    }
    let rows = model(&commits, Csn(402));
    for space in bench.engine.space() {
        let of = rows.iter().filter(|((table, _), _)| *table == space.table);
        let bytes: usize = of.map(|((_, key), value)| key.len() + value.len()).sum();
        assert_eq!((space.payload_bytes(), space.newest_bytes()), (bytes as u64, bytes as u64));
    }
    let metrics = bench.engine.metrics();
    let amplification = metrics.iter().find(|metric| metric.name == "tiered_space_amplification");
    let (all, free) = bench.engine.0.space.bytes();
    let newest: u64 = bench.engine.space().iter().map(TableSpace::newest_bytes).sum();
    assert_eq!(amplification.unwrap().value, (all - free) as f64 / newest as f64);
}

/// Settled rows are on the slow tier, and new rows on the fast tier. For each tier, the report says
/// how many bytes of keys and values it has, and how many of these are newest versions. Settled
/// rows count as replaced only once they are merged.
#[test]
fn each_tier_is_told_what_it_has_of_keys_and_values() {
    let disk = SimDisk::new(37);
    let bench = open_tiers(&disk, fast_and_hdd()).unwrap();
    let rows = |csn: u64| {
        let mut batch = WriteBatch::new();
        for key in 0..400 {
            let (key, value) = (format!("{key:05}"), noise(csn * 1000 + key, 300));
            batch.push(Op::Put { table: table(1), key: key.as_bytes(), value: &value });
        }
        (Csn(csn), batch)
    };
    bench.install(&(Csn(1), batch(&[Op::CreateTable(table(1))])));
    persist(&bench, &[rows(2)]);
    bench.engine.compact_all().unwrap();
    bench.work().unwrap();
    bench.install(&rows(3));
    bench.engine.flush_all().unwrap();
    check_space(&bench);
    let space = bench.engine.space().remove(0);
    let told = space.classes.iter().map(|(class, on)| (*class, on.payload_bytes, on.newest_bytes));
    let bytes = 400 * 305;
    let each = [DeviceClass::Fast, DeviceClass::Hdd].map(|class| (class, bytes, bytes));
    assert_eq!(told.collect::<Vec<_>>(), each);
    bench.engine.compact_all().unwrap();
    bench.work().unwrap();
    check_space(&bench);
    let on = bench.engine.space().remove(0).on_devices();
    assert_eq!((on.payload_bytes, on.newest_bytes), (bytes, bytes));
}
