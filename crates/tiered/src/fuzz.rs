//! Entry points for fuzzing: each takes any bytes, passes them to a decoder with a valid checksum,
//! and checks the invariants of the decoded result.

use spillway_base::budget::Budget;
use spillway_base::checksum::crc32c;
use spillway_base::codec::Reader;
use spillway_base::{Csn, Result, TableId};

use crate::block::{
    Block, BlockSearch, BlockWriter, Decoding, Entry, FRAME_BYTES, FrameId, PartMatch, put_frame,
    seal_frame, search_part,
};
use crate::coding::Names;
use crate::coding::fuzz as coding;
use crate::extent::fuzz as extent;
use crate::extent_meta::{ExtentId, ExtentMeta, SliceMeta};
use crate::filter;
use crate::inspect::fuzz as inspect;
use crate::manifest::fuzz as manifest;
use crate::space::fuzz as folders;

const ID: FrameId = FrameId { table: TableId(1), extent: ExtentId(2), offset: 3 };

fn open_block(frame: &[u8]) -> Result<Block> {
    let budget = Budget::new(usize::MAX);
    let dictionaries = crate::coding::DictionaryStore::new(&budget).of(ID.table);
    let pages = Block::pools(false, &budget);
    let decoding = Decoding {
        dictionaries: &dictionaries,
        pages: &pages,
        body_bytes_max: &|| 1 << 20,
        search: BlockSearch::best(),
    };
    Block::open(frame, ID, &decoding)
}

/// A data block of these bytes.
pub fn block_body(body: &[u8]) {
    let mut frame = Vec::new();
    put_frame(&mut frame, body);
    seal_frame(&mut frame, ID);
    if let Ok(block) = open_block(&frame) {
        block_found(&block);
    }
    // A part of arbitrary bytes. A result lies inside the part, as its lifetime shows.
    let csn_bytes = body.first().map_or(0, |byte| byte % 9);
    for key in [&body[..body.len().min(2)], b"", b"key"] {
        for is_first in [true, false] {
            let _ = search_part(body, csn_bytes, is_first, key, Csn(1 << 20));
        }
    }
}

fn block_found(block: &Block) {
    let entries: Vec<Entry<'_>> = (0..block.len()).map(|index| block.entry(index)).collect();
    for pair in entries.windows(2) {
        let newer_first = pair[0].key == pair[1].key && pair[0].csn > pair[1].csn;
        assert!(pair[0].key < pair[1].key || newer_first);
    }
    for entry in &entries {
        let first = entries.iter().position(|other| other.key == entry.key);
        assert_eq!(Some(block.seek(entry.key)), first);
        let (frame, place) = block.stored_frame();
        let told = search_part(&frame[place], block.csn_bytes(), true, entry.key, entry.csn);
        assert_eq!(told, Some(PartMatch::Version(entry.csn, entry.value)));
    }
}

/// A data block that was built from these bytes and then changed in a few places.
pub fn block_changed(bytes: &[u8]) {
    let mut reader = Reader::new(bytes);
    let Ok(changes) = reader.u8() else { return };
    let changes: Vec<(u16, u8)> =
        (0..changes % 4).map_while(|_| Some((reader.u16().ok()?, reader.u8().ok()?))).collect();
    let mut keys: Vec<(&[u8], u64, Option<&[u8]>)> = Vec::new();
    while let (Ok(key), Ok(csn), Ok(value)) = (reader.bytes(), reader.u8(), reader.bytes()) {
        keys.push((key, csn.into(), (!value.is_empty()).then_some(value)));
    }
    keys.sort_by(|a, b| a.0.cmp(b.0).then(b.1.cmp(&a.1)));
    keys.dedup_by(|a, b| (a.0, a.1) == (b.0, b.1));
    if keys.is_empty() {
        return;
    }
    let mut builder = BlockWriter::default();
    keys.iter().for_each(|(key, csn, value)| {
        builder.push(&Entry { key, csn: Csn(*csn), value: *value });
    });
    let [block] = &mut builder.finish()[..] else { return };
    let frame = &mut block.frame;
    let body = &mut frame[FRAME_BYTES..];
    for (at, byte) in &changes {
        body[usize::from(*at) % body.len()] ^= byte;
    }
    if changes.iter().all(|(_, byte)| *byte == 0) {
        let mut frame = frame.clone();
        seal_frame(&mut frame, ID);
        assert_eq!(open_block(&frame).map(|block| block.len()).ok(), Some(keys.len()));
    }
    block_body(&frame[FRAME_BYTES..]);
}

/// A coded block of these bytes, and these bytes coded.
pub fn coded(bytes: &[u8]) {
    coding::coded(bytes);
}

/// An extent's footer.
pub fn footer(bytes: &[u8]) {
    extent::footer(bytes);
}

/// A filter of any bytes, and a filter of these keys.
pub fn filter(bytes: &[u8]) {
    let hash = filter::hash(bytes);
    let _ = filter::may_contain(bytes, hash);
    let hashes: Vec<u64> = bytes.chunks(3).map(filter::hash).collect();
    for kind in filter::FilterKind::ALL {
        let built = filter::build(kind, &hashes);
        assert!(hashes.iter().all(|hash| filter::may_contain(&built, *hash)));
    }
    let mut keys: Vec<&[u8]> = bytes.chunks(3).collect();
    keys.sort_unstable();
    keys.dedup();
    let (Some(first), Some(last)) = (keys.first(), keys.last()) else { return };
    let bits = filter::build_range((first, last), keys.len(), keys.iter().copied());
    let Some(range) = filter::RangeFilter::new(&bits, first, last) else { return };
    let mut bound = Vec::new();
    for place in bytes.windows(4).filter(|place| (first..=last).contains(&place)) {
        range.least_from(place, &mut bound);
        let next = keys.iter().find(|key| **key >= place);
        assert!(place <= &*bound && next.is_some_and(|next| &*bound <= *next), "FILTER-6");
        range.past_before(place, &mut bound);
        let before = keys.iter().rfind(|key| **key < place);
        assert!(&*bound <= place && before.is_none_or(|before| *before < &*bound), "FILTER-6");
    }
}

/// An extent's index and filter.
pub fn resident(bytes: &[u8]) {
    extent::resident(bytes);
}

/// The records of an extent and of a slice.
pub fn extent_meta(bytes: &[u8]) {
    if let Ok(meta) = SliceMeta::decode(&mut Reader::new(bytes)) {
        let mut again = Vec::new();
        meta.encode(&mut again);
        assert_eq!(SliceMeta::decode(&mut Reader::new(&again)).ok(), Some(meta));
    }
    if let Ok(names) = Names::decode(&mut Reader::new(bytes)) {
        let mut again = Vec::new();
        names.encode(&mut again);
        assert_eq!(Names::decode(&mut Reader::new(&again)).ok(), Some(names));
    }
    let Ok(meta) = ExtentMeta::decode(&mut Reader::new(bytes)) else { return };
    let mut again = Vec::new();
    meta.encode(&mut again);
    assert_eq!(ExtentMeta::decode(&mut Reader::new(&again)).ok(), Some(meta));
}

/// A manifest: the bytes as a file, and as edits in one.
pub fn manifest(bytes: &[u8]) {
    manifest::file(bytes);
    manifest::edits(bytes);
}

/// A manifest as a pin returns it, with these bytes as its edits.
#[must_use]
pub fn manifest_of(edits: &[u8]) -> Vec<u8> {
    manifest::of(edits)
}

/// The record of the folders that data files are in.
pub fn folders(bytes: &[u8]) {
    folders::record(bytes);
}

/// Decodes a file of temperatures and compactions.
pub fn recent(bytes: &[u8]) {
    inspect::record(bytes);
}

/// Puts a CRC32C of all before into the last four bytes.
pub(crate) fn seal(bytes: &mut [u8]) {
    let at = bytes.len() - 4;
    let crc = crc32c(&bytes[..at]);
    bytes[at..].copy_from_slice(&crc.to_le_bytes());
}
