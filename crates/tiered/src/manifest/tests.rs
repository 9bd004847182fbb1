mod rewrite;

use std::path::Path;
use std::sync::Arc;

use spillway_base::checksum::crc32c;
use spillway_base::rng::Rng;
use spillway_base::{Csn, EngineKind, ErrorKind, TableId};

use super::Manifest;
use super::edit::{Edit, Place, State};
use super::fresh::Fresh;
use super::record::{HEADER_LEN, decode, encode_header, encode_record};
use crate::coding::{Coding, DictionaryId, Names};
use crate::extent_meta::{Counts, ExtentId, ExtentMeta, SliceId, SliceMeta};
use crate::ranges::Mark;
use crate::space::SlotRun;
use spillway_storage::Disk;
use spillway_storage::sim::SimDisk;

fn table(ordinal: u32) -> TableId {
    TableId::new(EngineKind::Tiered, ordinal)
}

fn meta(id: u64) -> ExtentMeta {
    ExtentMeta {
        id: ExtentId(id),
        slots: SlotRun { file: 3, first: id as u32, count: 1 },
        len: 2_000_000 + id,
        blocks: 120,
        data_bytes: 1_900_000,
        crc: 0x0123_4567 + id as u32,
        coding: Coding::Zstd,
        names: Names::of(vec![DictionaryId(3)]),
    }
}

fn slice(id: u64, first_block: u32, blocks: u32) -> Arc<SliceMeta> {
    Arc::new(SliceMeta {
        extent: ExtentId(id),
        first_block,
        blocks,
        bytes: 1_900_000,
        smallest: Box::from(*b"apple"),
        largest: Box::from(*b"pear"),
        counts: Counts {
            csn_min: Csn(5),
            csn_max: Csn(500),
            versions: 40,
            keys: 30,
            tombstones: 4,
            payload_bytes: 1_900_000,
        },
    })
}

fn history() -> Vec<Vec<Edit>> {
    let add = |place, meta| Edit::AddSlice { table: table(1), place, meta };
    let remove = |id, first_block| {
        let id = SliceId { extent: ExtentId(id), first_block };
        Edit::RemoveSlice { table: table(1), id }
    };
    vec![
        vec![Edit::CreateTable { table: table(1), created: Csn(2) }],
        vec![
            Edit::AddDictionary { table: table(1), id: DictionaryId(3), bytes: (*b"words").into() },
            Edit::AddExtent { table: table(1), meta: meta(9) },
            Edit::AddExtent { table: table(1), meta: meta(10) },
            Edit::AddExtent { table: table(1), meta: meta(11) },
            add(Place::Level0(7), slice(9, 0, 120)),
            add(Place::Level2, slice(10, 0, 50)),
            add(Place::Level1, slice(10, 50, 70)),
            add(Place::Level1, slice(11, 0, 120)),
            Edit::Flushed { table: table(1), start: Box::default(), csn: Csn(70) },
            Edit::Split { table: table(1), start: Box::from(*b"fig"), csn: Csn(70) },
            Edit::Split { table: table(1), start: Box::from(*b"kiwi"), csn: Csn(70) },
            Edit::Flushed { table: table(1), start: Box::from(*b"fig"), csn: Csn(90) },
            Edit::Persisted { csn: Csn(66) },
        ],
        vec![
            remove(9, 0),
            remove(11, 0),
            add(Place::Level1, slice(9, 0, 60)),
            add(Place::Level2, slice(9, 70, 50)),
            Edit::RemoveExtent { table: table(1), id: ExtentId(11) },
            Edit::Join { table: table(1), start: Box::from(*b"kiwi") },
            Edit::MoveExtent {
                table: table(1),
                id: ExtentId(10),
                slots: SlotRun { file: 8, first: 0, count: 1 },
            },
        ],
        vec![
            Edit::CreateTable { table: table(2), created: Csn(80) },
            Edit::DropTable { table: table(2) },
            Edit::NextExtent { id: ExtentId(100) },
            Edit::Known { csn: Csn(81) },
            Edit::Rewritten { csn: Csn(82) },
        ],
    ]
}

/// The file of a history, and the end of each record. Every record is followed by its seal.
fn file(history: &[Vec<Edit>]) -> (Vec<u8>, Vec<usize>) {
    let mut bytes = encode_header(2 << 20, 12);
    let mut ends = Vec::new();
    for (at, edits) in history.iter().enumerate() {
        for edits in [edits.as_slice(), &[]] {
            encode_record(&mut bytes, (2 * at + ends.len() % 2 + 1) as u64, edits);
            ends.push(bytes.len());
        }
    }
    (bytes, ends)
}

#[test]
fn edits_come_back_and_add_up() {
    let (bytes, _) = file(&history());
    let (contents, edits) = decode(&bytes, 12).unwrap();
    assert_eq!((contents.slot_bytes, contents.end), (2 << 20, bytes.len()));
    assert_eq!(contents.next_sequence, 9);
    assert_eq!(edits, history().concat());
    let mut state = State::default();
    edits.into_iter().try_for_each(|edit| state.apply(edit)).unwrap();
    assert_eq!((state.persisted, state.next_extent), (Csn(66), ExtentId(100)));
    assert_eq!(state.known, Csn(81));
    let one = &state.tables[&table(1)];
    assert_eq!((state.tables.len(), one.created), (1, Csn(2)));
    let parts: Vec<_> = one.parts.iter().map(|(start, csn)| (&start[..], csn.0)).collect();
    assert_eq!(parts, [(&b""[..], 70), (b"fig", 70)]);
    let slices = one.extents.values().flat_map(|extent| extent.slices());
    let places: Vec<_> = slices.map(|(place, s)| (s.extent.0, s.first_block, *place)).collect();
    assert_eq!(
        places,
        [
            (9, 0, Place::Level1),
            (9, 70, Place::Level2),
            (10, 0, Place::Level2),
            (10, 50, Place::Level1)
        ]
    );
}

#[test]
fn a_file_cut_anywhere_is_read_up_to_the_cut() {
    let (bytes, ends) = file(&history());
    for len in HEADER_LEN..bytes.len() {
        let (contents, edits) = decode(&bytes[..len], 12).unwrap();
        let whole = ends.iter().filter(|&&end| end <= len).count();
        assert_eq!(contents.end, ends[..whole].last().copied().unwrap_or(HEADER_LEN));
        assert_eq!(edits, history()[..whole.div_ceil(2)].concat());
    }
}

#[test]
fn a_flipped_bit_is_damage_unless_nothing_after_it_was_sealed() {
    let (bytes, ends) = file(&history());
    let last = ends[ends.len() - 2];
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1 << bit;
            match decode(&bytes, 12) {
                Ok((_, edits)) => {
                    assert!(at >= last, "a flip at byte {at} before the last seal went unseen");
                    assert_eq!(edits, history().concat());
                }
                Err(error) => {
                    assert!(at < last, "a damaged last seal is a torn tail: {error}");
                    assert_eq!(error.kind(), ErrorKind::Corruption);
                }
            }
        }
    }
}

#[test]
fn damage_names_its_offset() {
    let (mut bytes, ends) = file(&history());
    bytes[ends[1] + 25] ^= 1;
    let error = decode(&bytes, 12).unwrap_err();
    let expected = format!("the record at byte {} is damaged", ends[1]);
    assert!(error.to_string().contains(&expected), "{error}");
}

#[test]
fn a_record_missing_from_the_middle_is_damage() {
    let (bytes, ends) = file(&history());
    let cut = [&bytes[..ends[1]], &bytes[ends[2]..]].concat();
    assert_eq!(decode(&cut, 12).unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
fn another_format_is_named_as_such() {
    for version in [0, 2, 4, u16::MAX] {
        let mut bytes = encode_header(4096, 1);
        assert_eq!(bytes[8..10], [3, 0]);
        bytes[8..10].copy_from_slice(&version.to_le_bytes());
        let crc = spillway_base::checksum::crc32c(&bytes[..HEADER_LEN - 4]);
        bytes[HEADER_LEN - 4..].copy_from_slice(&crc.to_le_bytes());
        let error = decode(&bytes, 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnsupportedFormat);
        assert!(error.to_string().contains(&format!("version {version}")), "{error}");
    }
}

#[test]
fn any_payload_is_edits_or_an_error() {
    let mut rng = Rng::new(11);
    let (mut sound, mut unsound) = (0, 0);
    for round in 0..20_000 {
        let mut payload = Vec::new();
        if round % 2 == 0 {
            history().concat().iter().for_each(|edit| edit.encode(&mut payload));
            let at = rng.below(payload.len() as u64) as usize;
            payload[at] = rng.next_u64() as u8;
        } else {
            payload = vec![0; rng.below(40) as usize];
            rng.fill(&mut payload);
        }
        let mut bytes = encode_header(1, 1);
        let mut state = State::default();
        match Edit::decode_all(&payload) {
            Ok(edits) => {
                encode_record(&mut bytes, 1, &edits);
                assert_eq!(decode(&bytes, 1).unwrap().1, edits);
                let applied = edits.into_iter().try_for_each(|edit| state.apply(edit));
                if applied.is_ok() { sound += 1 } else { unsound += 1 }
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Corruption);
                unsound += 1;
            }
        }
    }
    assert!(sound > 100 && unsound > 100, "{sound} sound, {unsound} unsound");
}

fn open(disk: &SimDisk) -> Manifest {
    disk.create_dir_all(Path::new("/d")).unwrap();
    Manifest::open(Arc::new(disk.clone()), Path::new("/d"), 4096, 1 << 20).unwrap()
}

/// MANIFEST-6: everything that an opening has read is durable when it ends. The writer may have
/// been killed after a failed sync, and then only the cache has the bytes.
#[test]
fn what_an_opening_read_is_there_after_a_crash() {
    for full in [false, true] {
        let mut whole = false;
        for seed in 0..40 {
            let disk = SimDisk::new(seed);
            let mut manifest = open(&disk);
            for edits in &history()[..2] {
                manifest.commit(edits.clone()).unwrap();
            }
            disk.fail_syncs();
            let add = |id| Edit::AddExtent { table: table(1), meta: meta(id) };
            manifest.commit((20..60).map(add).collect()).unwrap_err();
            disk.heal();
            disk.kill();
            if full {
                disk.set_capacity(Some(disk.used()));
            }
            let read = open(&disk).state().clone();
            // A page whose sync failed may be read with its old contents, and its edit is torn.
            let extents = read.tables[&table(1)].extents.keys().len();
            assert!([3, 43].contains(&extents), "{extents}");
            whole |= extents == 43;
            disk.crash();
            disk.restart();
            disk.set_capacity(None);
            let mut manifest = open(&disk);
            assert_eq!(*manifest.state(), read, "seed {seed}");
            manifest.commit(history()[3].clone()).unwrap();
            assert_eq!(open(&disk).state().next_extent, ExtentId(100));
        }
        assert!(whole, "no seed read the edit whole");
    }
}

/// The file has each kind of edit.
#[test]
fn every_kind_of_edit_comes_back() {
    let mark = Mark { csn: Csn(300), upto: Csn(299) };
    let keys = |end: Option<&[u8]>| (Box::from(*b"grape"), end.map(Box::from));
    let range = |keys| Edit::AddRange { table: table(1), keys, mark };
    let mut all = history();
    all.push(vec![
        range(keys(None)),
        range(keys(Some(b"lime"))),
        Edit::CutRange { table: table(1), keys: keys(Some(b"lime")), mark },
        Edit::CutRange { table: table(1), keys: keys(None), mark },
    ]);
    let (bytes, _) = file(&all);
    let (contents, edits) = decode(&bytes, 12).unwrap();
    assert_eq!((contents.end, &edits), (bytes.len(), &all.concat()));
    let mut state = State::default();
    edits.into_iter().try_for_each(|edit| state.apply(edit)).unwrap();
    let (again, _) = State::from_bytes(&state.to_bytes(4096)).unwrap();
    assert_eq!(again, state);
}

/// The numbers of a table's dictionaries.
fn dictionaries(state: &State) -> Vec<u16> {
    state.tables[&table(1)].dictionaries.keys().map(|id| id.0).collect()
}

/// A table with dictionaries 1 to 5 and an extent that names the second and the third.
fn naming() -> Vec<Edit> {
    let add = |id| Edit::AddDictionary {
        table: table(1),
        id: DictionaryId(id),
        bytes: (*b"words").into(),
    };
    let mut edits = vec![Edit::CreateTable { table: table(1), created: Csn(2) }];
    edits.extend((1..=5).map(add));
    let names = Names::of([3, 2, 3].map(DictionaryId).to_vec());
    edits.push(Edit::AddExtent { table: table(1), meta: ExtentMeta { names, ..meta(9) } });
    edits
}

/// DICTIONARY-2, DICTIONARY-3 of `coding/names`: a rewritten manifest, while open or at an opening,
/// has the dictionaries that extents name, and the newest. If the rewrite fails, it keeps all.
#[test]
fn dictionaries_that_no_extent_names_go() {
    let state = |disk: &SimDisk| super::read(disk, Path::new("/d")).unwrap().unwrap().0;
    for opens in [false, true] {
        let disk = SimDisk::new(1);
        let mut manifest = open(&disk);
        manifest.commit(naming()).unwrap();
        assert_eq!(dictionaries(&state(&disk)), [1, 2, 3, 4, 5]);
        disk.set_capacity(Some(disk.used()));
        if opens {
            drop(manifest);
            manifest = open(&disk);
        } else {
            assert_eq!(manifest.rewrite().unwrap_err().kind(), ErrorKind::DiskFull);
        }
        assert_eq!(dictionaries(manifest.state()), [1, 2, 3, 4, 5]);
        assert_eq!(dictionaries(&state(&disk)), [1, 2, 3, 4, 5]);
        disk.set_capacity(None);
        if opens {
            drop(manifest);
            manifest = open(&disk);
        } else {
            manifest.rewrite().unwrap();
        }
        assert_eq!(dictionaries(manifest.state()), [2, 3, 5]);
        assert_eq!(dictionaries(&state(&disk)), [2, 3, 5]);
        let gone = Edit::RemoveExtent { table: table(1), id: ExtentId(9) };
        manifest.commit(vec![gone]).unwrap();
        manifest.rewrite().unwrap();
        assert_eq!(dictionaries(manifest.state()), [5]);
        assert_eq!(dictionaries(&state(&disk)), [5]);
    }
}

/// DICTIONARY-2 of `coding/names`: an extent comes after the dictionaries that it names.
#[test]
fn an_extent_that_names_what_is_not_there_is_damage() {
    let mut edits = naming();
    edits.remove(2);
    let mut state = State::default();
    let error = edits.into_iter().try_for_each(|edit| state.apply(edit)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(error.to_string().contains("names a dictionary"), "{error}");
}

/// RANGE-TOMBSTONE-6 of `ranges`: ranges that were added and not cut are there, also after a
/// rewrite of the state, and are removed with their table.
/// E7, for each CSN that an edit records.
#[test]
fn the_newest_csn_of_a_state_is_that_of_any_edit() {
    let mut state = State::default();
    assert_eq!(state.newest(), Csn::ZERO);
    let table = table(1);
    let (keys, mark) = ((Box::default(), None), Mark { csn: Csn(8), upto: Csn(7) });
    let meta = ExtentMeta { names: Names::default(), ..meta(9) };
    for (edit, newest) in [
        (Edit::CreateTable { table, created: Csn(2) }, 2),
        (Edit::Persisted { csn: Csn(1) }, 2),
        (Edit::Persisted { csn: Csn(3) }, 3),
        (Edit::Known { csn: Csn(4) }, 4),
        (Edit::Flushed { table, start: Box::default(), csn: Csn(5) }, 5),
        (Edit::Split { table, start: Box::from(*b"q"), csn: Csn(6) }, 6),
        (Edit::Rewritten { csn: Csn(7) }, 7),
        (Edit::AddRange { table, keys, mark }, 8),
        (Edit::AddExtent { table, meta }, 8),
        (Edit::AddSlice { table, place: Place::Level1, meta: slice(9, 0, 60) }, 500),
    ] {
        state.apply(edit).unwrap();
        assert_eq!(state.newest(), Csn(newest));
    }
}

#[test]
fn range_tombstones_add_up() {
    let mark = |csn| Mark { csn: Csn(csn), upto: Csn(csn - 1) };
    let keys = |start: &str, end: Option<&str>| {
        (Box::from(start.as_bytes()), end.map(|end| Box::from(end.as_bytes())))
    };
    let add = |keys, csn| Edit::AddRange { table: table(1), keys, mark: mark(csn) };
    let cut = |keys, csn| Edit::CutRange { table: table(1), keys, mark: mark(csn) };
    let mut state = State::default();
    let edits = [
        Edit::CreateTable { table: table(1), created: Csn(2) },
        add(keys("b", Some("m")), 5),
        add(keys("f", None), 9),
        cut(keys("d", Some("h")), 5),
        cut(keys("x", None), 7),
    ];
    edits.into_iter().try_for_each(|edit| state.apply(edit)).unwrap();
    let cover = |key: &str| state.tables[&table(1)].ranges.cover(key.as_bytes(), Csn::MAX);
    let found = ["a", "b", "d", "f", "h", "z"].map(cover);
    assert_eq!(found, [None, Some(mark(5)), None, Some(mark(9)), Some(mark(9)), Some(mark(9))]);
    let below = state.tables[&table(1)].ranges.cover(b"h", Csn(8));
    assert_eq!(below, Some(mark(5)), "to an older snapshot");
    let (again, _) = State::from_bytes(&state.to_bytes(4096)).unwrap();
    assert_eq!(again, state);
    state.apply(Edit::DropTable { table: table(1) }).unwrap();
    assert!(state.apply(add(keys("b", None), 5)).is_err());
}

/// The text of `CURRENT` has a length that depends on the number. A crash may leave the
/// `CURRENT.new` of another manifest, with a longer text.
#[test]
fn current_is_whole_after_a_longer_one_was_left_beside() {
    let dir = Path::new("/d");
    let length = |number: &u64| format!("{number} {}", crc32c(number.to_string().as_bytes())).len();
    let long = (2..100).max_by_key(length).unwrap();
    let short = (2..100).min_by_key(length).unwrap();
    assert!(length(&long) > length(&short));
    for seed in 0..20 {
        let sim = SimDisk::new(seed);
        let state = open(&sim).state().clone();
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let fresh = |number| Fresh::write((&disk, dir), 4096, number, &state, usize::MAX);
        fresh(long).unwrap();
        sim.crash();
        sim.restart();
        assert!(sim.exists(&dir.join("CURRENT.new")).unwrap());
        fresh(short).unwrap().put_in_force().unwrap();
        sim.crash();
        sim.restart();
        assert_eq!(*open(&sim).state(), state, "seed {seed}");
    }
}
