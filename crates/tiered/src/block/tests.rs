use super::*;
use crate::coding::{Compression, csn_bytes};
use spillway_base::ErrorKind;
use spillway_base::rng::Rng;

const ID: FrameId = FrameId { table: TableId(3), extent: ExtentId(7), offset: 4096 };

fn sample() -> (Vec<(Vec<u8>, u64, Option<Vec<u8>>)>, Vec<u8>) {
    let mut rows = Vec::new();
    for key in 0..200_u32 {
        for csn in (0..=key % 3).rev() {
            let value = (csn != 1).then(|| vec![key as u8; key as usize % 40]);
            rows.push((format!("key{key:05}").into_bytes(), u64::from(csn) + 1, value));
        }
    }
    let mut writer = BlockWriter::default();
    for (key, csn, value) in &rows {
        writer.push(&Entry { key, csn: Csn(*csn), value: value.as_deref() });
    }
    let [mut block] = <[BuiltBlock; 1]>::try_from(writer.finish()).unwrap();
    assert_eq!((block.counts.keys, block.counts.versions), (200, rows.len() as u64));
    seal_frame(&mut block.frame, ID);
    (rows, block.frame)
}

fn open_block(frame: &[u8]) -> Result<Block> {
    open_block_by(frame, BlockSearch::best())
}

fn open_block_by(frame: &[u8], search: BlockSearch) -> Result<Block> {
    let budget = Budget::new(usize::MAX);
    let dictionaries = crate::coding::DictionaryStore::new(&budget).of(ID.table);
    let pages = Block::pools(false, &budget);
    let decoding = Decoding {
        dictionaries: &dictionaries,
        pages: &pages,
        body_bytes_max: &|| 64 << 10,
        search,
    };
    Block::open(frame, ID, &decoding)
}

/// The frame of a block with this compression.
fn coded(stored: &[u8], compression: Compression) -> Vec<u8> {
    let mut frame = Vec::new();
    put_coded_frame(&mut frame, &stored[FRAME_BYTES..], &mut Encoder::new(compression, None));
    seal_frame(&mut frame, ID);
    frame
}

#[test]
fn entries_come_back_and_are_found() {
    let (rows, stored) = sample();
    for compression in [Compression::None, Compression::Lz4, Compression::ZSTD] {
        let frame = coded(&stored, compression);
        assert_eq!(check_frame(&frame, ID).unwrap(), compression.coding());
        assert_eq!(is_stored(&frame), compression == Compression::None);
        entries_are_found(&rows, &frame);
    }
}

fn entries_are_found(rows: &[(Vec<u8>, u64, Option<Vec<u8>>)], frame: &[u8]) {
    let ways = Way::all().into_iter().map(BlockSearch::Nodes);
    for search in ways.chain([BlockSearch::Halving]) {
        entries_are_found_by(rows, &open_block_by(frame, search).unwrap());
    }
}

fn entries_are_found_by(rows: &[(Vec<u8>, u64, Option<Vec<u8>>)], block: &Block) {
    assert_eq!(block.len(), rows.len());
    for (index, (key, csn, value)) in rows.iter().enumerate() {
        let entry = Entry { key, csn: Csn(*csn), value: value.as_deref() };
        assert_eq!(block.entry(index), entry);
        let first = rows.iter().position(|(other, ..)| other == key).unwrap();
        assert_eq!(block.seek(key), first);
    }
    assert_eq!((block.seek(b""), block.seek(b"z")), (0, rows.len()));
}

#[test]
fn every_flipped_bit_is_noticed() {
    let (_, stored) = sample();
    for frame in [coded(&stored, Compression::ZSTD), stored] {
        for at in 0..frame.len() {
            let mut bad = frame.clone();
            bad[at] ^= 1 << (at % 8);
            assert!(open_block(&bad).is_err(), "byte {at}");
        }
        for len in 0..frame.len() {
            assert!(open_block(&frame[..len]).is_err());
        }
    }
}

#[test]
fn a_frame_in_the_place_of_another_is_noticed() {
    let (_, frame) = sample();
    let table = TableId(4);
    for id in [
        FrameId { table, ..ID },
        FrameId { extent: ExtentId(8), ..ID },
        FrameId { offset: 0, ..ID },
    ] {
        assert!(check_frame(&frame, id).is_err(), "{id:?}");
    }
}

#[test]
fn a_frame_of_an_unknown_version_is_refused() {
    let (_, mut frame) = sample();
    assert_eq!(frame[0], 1);
    for version in [0, 2, u8::MAX] {
        frame[0] = version;
        seal_frame(&mut frame, ID);
        let error = open_block(&frame).err().expect("it is none that this build reads");
        assert_eq!(error.kind(), ErrorKind::Corruption, "and only this block is lost (E8)");
        assert!(error.to_string().contains(&format!("version {version}")), "{error}");
    }
}

#[test]
fn any_body_is_a_block_or_an_error() {
    let mut rng = Rng::new(2);
    let (_, frame) = sample();
    let body = &frame[FRAME_BYTES..];
    for _ in 0..3000 {
        let mut body = body.to_vec();
        for _ in 0..1 + rng.below(4) {
            let at = rng.below(body.len() as u64) as usize;
            body[at] = rng.next_u64() as u8;
        }
        body.truncate(body.len() - rng.below(20) as usize);
        let mut frame = Vec::new();
        put_frame(&mut frame, &body);
        // Also a frame that is marked as coded.
        frame[1] = rng.below(5) as u8;
        seal_frame(&mut frame, ID);
        if let Ok(block) = open_block(&frame) {
            (0..block.len()).for_each(|index| drop(block.entry(index).key.to_vec()));
        }
    }
}

/// The CSNs of a block have as many bytes as its largest CSN needs, whichever entry has it.
#[test]
fn csns_of_every_length_come_back() {
    for csns in
        [vec![0], vec![255, 256], vec![u64::MAX, 0], (0..64).map(|bits| 1 << bits).collect()]
    {
        for csns in [csns.clone(), csns.into_iter().rev().collect()] {
            let mut writer = BlockWriter::default();
            let keys: Vec<[u8; 2]> = (0..csns.len() as u16).map(u16::to_be_bytes).collect();
            let entry = |at: usize| Entry { key: &keys[at], csn: Csn(csns[at]), value: None };
            (0..csns.len()).for_each(|at| writer.push(&entry(at)));
            let built = writer.finish();
            let block = Block::of_built(&built[0].frame).unwrap();
            assert!((0..csns.len()).all(|at| block.entry(at) == entry(at)), "{csns:?}");
            let most = csns.iter().map(|csn| csn_bytes(Csn(*csn))).max().unwrap();
            assert_eq!(block.body().len(), csns.len() * (4 + usize::from(most)) + 5);
        }
    }
}

/// A small rest goes into the block before it, even if the CSNs of the block were shorter.
#[test]
fn what_is_left_goes_into_the_block_before() {
    for (first, second) in [(1, u64::MAX), (u64::MAX, 1)] {
        let mut writer = BlockWriter::default();
        let keys: Vec<[u8; 2]> = (0..80_u16).map(u16::to_be_bytes).collect();
        let value = [7; 200];
        let entry = |at: usize| {
            let csn = Csn(if at < 70 { first } else { second });
            Entry { key: &keys[at], csn, value: Some(&value[..]) }
        };
        (0..keys.len()).for_each(|at| writer.push(&entry(at)));
        let built = writer.finish();
        assert_eq!(built.len(), 1);
        let block = Block::of_built(&built[0].frame).unwrap();
        assert!(block.len() == 80 && (0..80).all(|at| block.entry(at) == entry(at)));
    }
}

/// The rows of a block are its entries, by index and by steps in both directions. A block knows
/// whether each key has only one version.
#[test]
fn rows_are_the_entries_from_either_side() {
    let mut rng = Rng::new(4);
    for round in 0..200 {
        let mut writer = BlockWriter::default();
        let mut entries: Vec<(Vec<u8>, u64, Option<Vec<u8>>)> = Vec::new();
        for number in 0..1 + rng.below(40) {
            let key = [&number.to_be_bytes()[..], &vec![3; rng.below(300) as usize]].concat();
            let versions = if round % 2 == 0 { 1 } else { 1 + rng.below(3) };
            for version in 0..versions {
                let len = rng.below(if round % 8 == 0 { 30_000 } else { 40 });
                let value = rng.chance(4, 5).then(|| vec![number as u8; len as usize]);
                entries.push((key.clone(), 1000 * (versions - version) + number, value));
            }
        }
        for (key, csn, value) in &entries {
            writer.push(&Entry { key, csn: Csn(*csn), value: value.as_deref() });
        }
        let mut from = 0;
        for built in writer.finish() {
            let block = Block::of_built(&built.frame).unwrap();
            let own = &entries[from..from + block.len()];
            let mut row = block.row(0);
            for (index, (key, csn, value)) in own.iter().enumerate() {
                let entry = Entry { key, csn: Csn(*csn), value: value.as_deref() };
                assert_eq!(
                    (block.entry_of(&row), block.entry_of(&block.row(index))),
                    (entry, entry)
                );
                assert_eq!((row.csn(), row.is_value()), (entry.csn, entry.value.is_some()));
                assert_eq!(block.entry_of(&block.row_before(index + 1)), entry);
                if index + 1 < own.len() {
                    row = block.row_after(&row);
                }
            }
            let most = own.iter().map(|(_, csn, _)| *csn).max().unwrap();
            let distinct = own.windows(2).all(|pair| pair[0].0 != pair[1].0);
            assert_eq!(block.is_plain_at(Csn(most)), distinct);
            assert!(!block.is_plain_at(Csn(most - 1)));
            from += own.len();
        }
        assert_eq!(from, entries.len());
    }
}

/// Keys of one length, whose heads are read in place, and keys of several lengths. Behind the
/// common prefix they have fewer bytes than a head, or more.
#[test]
fn keys_of_any_length_are_found() {
    let mut rng = Rng::new(9);
    for (prefix, least, more) in
        [(0, 4, 0), (14, 2, 0), (14, 0, 3), (3, 5, 0), (3, 4, 9), (0, 1, 0), (30, 1, 40)]
    {
        let mut keys: Vec<Vec<u8>> = (0..150)
            .map(|_| {
                let mut key = vec![7; prefix + least + rng.below(more + 1) as usize];
                key[prefix..]
                    .iter_mut()
                    .for_each(|byte| *byte = [0, 1, 254, 255][rng.below(4) as usize]);
                key
            })
            .collect();
        keys.sort();
        keys.dedup();
        let mut writer = BlockWriter::default();
        keys.iter().for_each(|key| writer.push(&Entry { key, csn: Csn(3), value: Some(b"v") }));
        let [mut built] = <[BuiltBlock; 1]>::try_from(writer.finish()).unwrap();
        seal_frame(&mut built.frame, ID);
        for search in Way::all().into_iter().map(BlockSearch::Nodes) {
            let block = open_block_by(&built.frame, search).unwrap();
            for (at, key) in keys.iter().enumerate() {
                let past = [key, &[0][..]].concat();
                let below = |key: &[u8]| keys.partition_point(|other| &other[..] < key);
                assert_eq!((block.seek(key), block.seek(&past)), (at, below(&past)), "{key:x?}");
            }
        }
    }
}

/// A part of the entries gives the same result as all of them, or none. It gives none for a key at
/// its edges, which may have more versions elsewhere.
#[test]
fn a_part_answers_what_the_block_does_or_nothing() {
    let rows: Vec<_> = (0..40_u64).map(|n| (format!("k{n:03}").into_bytes(), n)).collect();
    let mut writer = BlockWriter::default();
    for (key, n) in &rows {
        writer.push(&Entry { key, csn: Csn(1 + n % 3), value: (n % 5 > 0).then_some(&key[1..]) });
    }
    let [mut block] = <[BuiltBlock; 1]>::try_from(writer.finish()).unwrap();
    seal_frame(&mut block.frame, ID);
    let block = open_block(&block.frame).unwrap();
    let (frame, entries) = block.stored_frame();
    let begin = |row: usize| if row < rows.len() { block.place(row) } else { entries.end };
    for (from, to) in [(0, 40), (0, 13), (13, 20), (20, 40), (5, 5)] {
        let part = &frame[begin(from)..begin(to)];
        let find = |key: &[u8], snapshot| {
            search_part(part, block.csn_bytes(), from == 0, key, Csn(snapshot))
        };
        for (row, (key, n)) in rows.iter().enumerate() {
            let value = (n % 5 > 0).then_some(&key[1..]);
            let told = Some(PartMatch::Version(Csn(1 + n % 3), value));
            let is_in = (from..to).contains(&row);
            assert_eq!(find(key, 3), told.filter(|_| is_in), "{row}");
            // No key is the direct successor of another.
            let behind = [key, &b"x"[..]].concat();
            let nothing = from <= row && row + 1 < to;
            assert_eq!(find(&behind, 3), nothing.then_some(PartMatch::Nothing), "{row}");
            // Older versions of the last key may be in the next block.
            assert_eq!(find(key, 0), nothing.then_some(PartMatch::Nothing), "{row}");
        }
        let first = (from == 0 && to > 0).then_some(PartMatch::Nothing);
        assert_eq!(find(b"a", 3), first);
        // The search survives any bytes.
        for cut in 0..part.len() {
            let _ = search_part(&part[cut..], 3, true, b"k020", Csn(3));
        }
    }
}
