use super::footer::{FOOTER_BYTES, Footer, VERSION};
use super::*;
use crate::block::{BlockSearch, BlockWriter, Entry, FrameId, open_frame};
use crate::block_search::{LEAF_KEYS, Way};
use crate::coding::Coding;
use crate::extent_meta::{ExtentId, ExtentMeta};
use spillway_base::checksum::crc32c;
use spillway_base::{Csn, EngineKind, ErrorKind, TableId};

fn table() -> TableId {
    TableId::new(EngineKind::Tiered, 3)
}

/// One byte of each part of an extent, with the part's name in reports of damage: the footer, the
/// index, a filter, a range filter, and a data block.
pub(crate) fn bytes_of_parts(
    bytes: &[u8],
    table: TableId,
    meta: &ExtentMeta,
) -> [(&'static str, usize); 5] {
    let footer = Footer::decode(bytes.last_chunk::<FOOTER_BYTES>().unwrap()).unwrap();
    let (at, len) = (footer.filter.0 as usize, footer.filter.1 as usize);
    let id = FrameId { table, extent: meta.id, offset: footer.filter.0 };
    let filters = open_frame(&bytes[at..at + len], id).unwrap();
    let place = |part: &[u8]| part.as_ptr() as usize - bytes.as_ptr() as usize;
    let (range, _) = crate::filter::split_range(filters);
    let range = range.expect("blocks of Level0 have range filters");
    [
        ("footer", bytes.len() - 20),
        ("index", footer.index.0 as usize + footer.index.1 as usize / 2),
        // In a block's filter, the ribbon follows the range filter.
        ("filters", place(filters) + filters.len() - 1),
        ("filters", place(range) + range.len() / 2),
        ("block 0", 100),
    ]
}

/// Extents of these entries.
fn build<'a>(slot: usize, entries: impl Iterator<Item = Entry<'a>>) -> Vec<BuiltExtent> {
    let mut writer = BlockWriter::default();
    entries.for_each(|entry| writer.push(&entry));
    let mut builder = ExtentBuilder::new(table(), slot, Coding::Stored);
    let mut built = Vec::new();
    for block in writer.finish() {
        if builder.is_full_for(&(&block).into()) {
            built.push(builder.finish(ExtentId(built.len() as u64 + 1)));
        }
        builder.push(&(&block).into());
    }
    built.push(builder.finish(ExtentId(built.len() as u64 + 1)));
    built
}

/// For keys of one version each, and of several. If the versions of a key begin in the last block
/// that fits, all of them go into this extent, which may then take another slot.
#[test]
fn an_extent_fills_to_its_slot_and_no_further() {
    let slot = 256 << 10;
    let keys: Vec<_> = (0..18_000_u32).map(u32::to_be_bytes).collect();
    let value = [7; 100];
    for csns in [&[4][..], &[9, 4]] {
        let keys = keys.iter().take(keys.len() / csns.len());
        let entry = |key, csn| Entry { key, csn: Csn(csn), value: Some(&value[..]) };
        let built = build(slot, keys.flat_map(|key| csns.iter().map(move |csn| entry(key, *csn))));
        assert!(built.len() > 5);
        for extent in &built {
            assert_eq!(extent.slices.len(), 1);
            let counts = extent.slices[0].counts;
            let each = csns.len() as u64;
            assert_eq!(counts.versions, each * counts.keys, "a key's versions stay together");
            assert_eq!((counts.csn_min, counts.csn_max), (Csn(4), Csn(csns[0])));
            assert!(
                extent.meta.slots.count == 1 || each > 1 && extent.bytes.len() < slot * 11 / 10
            );
        }
        let full = built.iter().take(built.len() - 1).map(|extent| extent.bytes.len());
        assert!(full.min().unwrap() > slot * 9 / 10);
        assert!(built.is_sorted_by(|a, b| a.slices[0].largest < b.slices[0].smallest));
    }
}

#[test]
fn an_extent_of_an_unknown_version_is_refused() {
    let entry = Entry { key: b"key", csn: Csn(1), value: Some(b"value") };
    let mut extent = build(64 << 10, [entry].into_iter()).remove(0);
    check_extent(&extent.bytes, table(), &extent.meta).unwrap();
    let footer_at = extent.bytes.len() - FOOTER_BYTES;
    for version in [0, VERSION + 1, u32::MAX] {
        let footer = &mut extent.bytes[footer_at..];
        footer[8..12].copy_from_slice(&version.to_le_bytes());
        let crc = crc32c(&footer[..FOOTER_BYTES - 4]);
        footer[FOOTER_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        let error = check_extent(&extent.bytes, table(), &extent.meta).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "and only this extent is lost (E8)");
        assert!(error.to_string().contains(&format!("version {version}")), "{error}");
    }
}

#[test]
fn a_version_larger_than_a_slot_takes_several() {
    let value = vec![1; 200 << 10];
    let entry = Entry { key: b"large", csn: Csn(1), value: Some(&value) };
    let built = build(64 << 10, [entry].into_iter());
    assert_eq!((built.len(), built[0].meta.slots.count), (1, 4));
}

#[test]
fn a_footer_comes_back_and_damage_is_noticed() {
    let footer =
        Footer { table: table(), id: ExtentId(7), index: (1, 2), filter: (3, 4), versions: 5 };
    let bytes = footer.encode();
    assert_eq!(Footer::decode(&bytes).unwrap(), footer);
    for at in 0..FOOTER_BYTES {
        let mut bad = bytes;
        bad[at] ^= 4;
        assert!(Footer::decode(&bad).is_err(), "byte {at}");
    }
}

/// An extent without range filters drops the range filters of blocks that are carried into it.
#[test]
fn an_extent_can_be_without_range_filters() {
    let keys: Vec<_> = (0..3000_u32).map(|key| (7 * key).to_be_bytes()).collect();
    let value = [7; 100];
    let mut writer = BlockWriter::default();
    for key in &keys {
        writer.push(&Entry { key, csn: Csn(4), value: Some(&value) });
    }
    let blocks = writer.finish();
    let slot = 64 << 10;
    let with = ExtentBuilder::new(table(), slot, Coding::Stored);
    let without = ExtentBuilder::new(table(), slot, Coding::Stored).without_range_filters();
    for (mut builder, has) in [(with, true), (without, false)] {
        let mut of_block = Vec::new();
        let mut extents = Vec::new();
        for block in &blocks {
            if builder.is_full_for(&block.into()) {
                extents.push(builder.finish(ExtentId(1)));
            }
            builder.push(&block.into());
        }
        extents.push(builder.finish(ExtentId(1)));
        assert!(extents.len() > 2, "what comes after the first is as the first");
        for extent in &extents {
            check_extent(&extent.bytes, table(), &extent.meta).unwrap();
            let resident = open_resident(extent);
            for block in 0..resident.blocks() {
                assert_eq!(resident.range_filter(block).is_some(), has);
                assert!(resident.may_contain(block, crate::filter::hash(resident.last(block))));
                of_block.push(resident.filter(block).to_vec());
            }
        }
        let wanted = blocks.iter().map(|block| match has {
            true => &*block.filter,
            false => crate::filter::split_range(&block.filter).1,
        });
        assert!(of_block.iter().map(|filter| &**filter).eq(wanted));
    }
}

fn open_resident(built: &BuiltExtent) -> Resident {
    let footer = Footer::decode(built.bytes.last_chunk::<FOOTER_BYTES>().unwrap()).unwrap();
    let open = |(offset, len): (u64, u32)| {
        let frame = &built.bytes[offset as usize..][..len as usize];
        open_frame(frame, FrameId { table: table(), extent: built.meta.id, offset }).unwrap()
    };
    let (index, filters) = (open(footer.index), open(footer.filter));
    Resident::decode(index, filters, built.meta.len, BlockSearch::best()).unwrap()
}

/// An index that is searched by nodes gives the same results as binary search, also for a range of
/// its blocks, and has the same filters.
#[test]
fn an_index_finds_blocks_in_either_way() {
    let keys: Vec<_> = (0..4000_u32).map(|key| (7 * key).to_be_bytes()).collect();
    let value = [7; 500];
    let entries = keys.iter().map(|key| Entry { key, csn: Csn(4), value: Some(&value) });
    let built = build(2 << 20, entries).swap_remove(0);
    let footer = built.bytes.last_chunk::<FOOTER_BYTES>().unwrap();
    let footer = Footer::decode(footer).unwrap();
    let open = |(offset, len): (u64, u32)| {
        let frame = &built.bytes[offset as usize..][..len as usize];
        let id = crate::block::FrameId { table: table(), extent: built.meta.id, offset };
        crate::block::open_frame(frame, id).unwrap()
    };
    let (index, filters) = (open(footer.index), open(footer.filter));
    let ways = Way::all().into_iter().map(BlockSearch::Nodes).chain([BlockSearch::Halving]);
    let ways = ways.map(|way| Resident::decode(index, filters, built.meta.len, way).unwrap());
    let ways: Vec<Resident> = ways.collect();
    let blocks = ways[0].blocks();
    assert!(blocks > 50 && ways.iter().all(|way| way.bytes() < built.meta.len as usize / 20));
    for range in [0..blocks, 3..4, 5..blocks - 2, blocks..blocks] {
        for key in (0..28_100_u32).step_by(3).map(u32::to_be_bytes) {
            let last = |block: &usize| ways[0].last(*block) < &key[..];
            let wanted = range.clone().take_while(last).count() + range.start;
            let found: Vec<usize> = ways.iter().map(|way| way.seek(range.clone(), &key)).collect();
            assert!(found.iter().all(|found| *found == wanted), "{key:?}: {found:?}, not {wanted}");
            assert!(ways.iter().all(|way| way.seek_filter(range.clone(), &key) == wanted));
        }
    }
    for block in 0..blocks {
        let (here, there) = (ways[0].place(block), ways[1].place(block));
        assert_eq!(here.counts, there.counts);
        let filter = ways[ways.len() - 1].filter(block);
        assert!(!filter.is_empty() && ways.iter().all(|way| way.filter(block) == filter));
        // The leaf in which a search for the key ends.
        if let Some((nodes, leaf)) = ways[0].nodes.as_ref().zip(block.checked_sub(1)) {
            let (own, all) = (nodes.filter(block), nodes.filters_of(leaf / LEAF_KEYS));
            assert!(all.start <= own.start && own.end <= all.end, "{own:?} in {all:?}");
            let block = leaf / LEAF_KEYS * LEAF_KEYS + 1;
            assert_eq!(all.start, nodes.filter(block).start, "of no more than those blocks");
        }
        assert_eq!(here.offset + u64::from(here.len), ways[0].offset(block + 1));
    }
}
