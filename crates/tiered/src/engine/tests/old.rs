//! Folders whose extents are of earlier versions of their format are read, merged and verified.

use spillway_storage::OpenMode;

use super::*;
use crate::coding::{Coding, Names};
use crate::extent::{OLD_BLOCKS, OLD_EXTENTS, extent_of_today};
use crate::extent_meta::{ExtentId, ExtentMeta};
use crate::manifest::State;
use crate::space::SlotRun;

const NEWEST: Csn = Csn(u64::MAX - 1);

/// A folder of one table with one extent, of which these are the bytes.
fn folder(bytes: &[u8]) -> SimDisk {
    let disk = SimDisk::new(48);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let id = table(3);
    let today = extent_of_today();
    let meta = ExtentMeta {
        id: ExtentId(7),
        slots: SlotRun { file: 1, first: 0, count: 1 },
        len: bytes.len() as u64,
        coding: Coding::Stored,
        names: Names::ANY,
        ..today.meta
    };
    let [slice] = &today.slices[..] else { panic!("all of it lies together") };
    let slice = Arc::new(slice.clone());
    let edits = [
        Edit::CreateTable { table: id, created: Csn(1) },
        Edit::AddExtent { table: id, meta },
        Edit::AddSlice { table: id, place: Place::Level1, meta: slice },
        Edit::Persisted { csn: NEWEST },
        Edit::Known { csn: NEWEST },
    ];
    let mut state = State::default();
    edits.into_iter().for_each(|edit| state.apply(edit).unwrap());
    shared.create_dir_all(&dir()).unwrap();
    Manifest::create(&shared, &dir(), small().slot_bytes as u32, &state).unwrap();
    let file = shared.open(&dir().join("000001.data"), OpenMode::Create).unwrap();
    file.set_len(small().slot_bytes as u64).unwrap();
    file.write_at(0, bytes).unwrap();
    file.sync().unwrap();
    shared.sync_dir(&dir()).unwrap();
    disk
}

/// What a snapshot sees of the versions.
fn wanted(snapshot: Csn) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows: BTreeMap<&[u8], Option<&[u8]>> = BTreeMap::new();
    for (key, csn, value) in OLD_BLOCKS.concat() {
        if Csn(csn) <= snapshot {
            rows.entry(key).or_insert(value);
        }
    }
    let there = rows.into_iter().filter_map(|(key, value)| Some((key, value?)));
    there.map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

fn check(bench: &Bench, name: &str) {
    for snapshot in [NEWEST, Csn(9), Csn(8), Csn(2)] {
        let wanted = wanted(snapshot);
        for direction in [Direction::Forward, Direction::Backward] {
            let mut rows = bench.rows(table(3), KeyRange::ALL, direction, snapshot).unwrap();
            if direction == Direction::Backward {
                rows.reverse();
            }
            assert!(rows == wanted, "{name}: {rows:?} at {snapshot}");
        }
        for key in [&b""[..], b"apple", b"pear", b"plum", b"quince"] {
            let row = wanted.iter().find(|(of, _)| of == key).map(|(_, value)| value.clone());
            assert_eq!(bench.get(table(3), key, snapshot).unwrap(), row, "{name}: {key:?}");
        }
    }
}

/// They are read from the files, merged with newer rows or carried along, and read again.
#[test]
fn extents_of_every_version_are_read_and_compacted() {
    for name in OLD_EXTENTS {
        for data_reuse in [true, false] {
            let disk = folder(&crate::fixtures::old(name));
            let settings = TieredSettings { data_reuse, ..small() };
            let bench = open_with(Arc::new(disk.clone()), settings.clone()).unwrap();
            bench.horizon.stable.store(NEWEST.0, Ordering::SeqCst);
            bench.horizon.live.lock().extend([Csn(2), Csn(8), Csn(9)]);
            check(&bench, name);
            bench.engine.compact_all().unwrap();
            check(&bench, name);
            drop(bench);
            // The blocks of the files were made by themselves: a key of which both have versions is counted in both.
            if !data_reuse {
                verify_clean(&disk);
            }
            let bench = open_with(Arc::new(disk.clone()), settings).unwrap();
            bench.horizon.stable.store(NEWEST.0, Ordering::SeqCst);
            check(&bench, name);
        }
    }
}
