use super::*;
use crate::block::Entry;
use spillway_base::{Csn, EngineKind};

fn table() -> TableId {
    TableId::new(EngineKind::Tiered, 3)
}

#[test]
fn an_extent_fills_to_its_slot_and_no_further() {
    let slot = 64 << 10;
    let mut builder = ExtentBuilder::new(table(), slot);
    let mut built = Vec::new();
    for number in 0..3000_u32 {
        let (key, value) = (number.to_be_bytes(), vec![number as u8; 100]);
        for csn in [9, 4] {
            let entry = Entry { key: &key, csn: Csn(csn), value: Some(&value) };
            if builder.is_full_for(&entry) {
                built.push(builder.finish(ExtentId(built.len() as u64 + 1)));
            }
            builder.push(&entry);
        }
    }
    built.push(builder.finish(ExtentId(built.len() as u64 + 1)));
    assert!(built.len() > 5);
    for extent in &built {
        assert_eq!(extent.meta.slots.count, 1);
        assert_eq!(extent.meta.versions, 2 * extent.meta.keys, "a key's versions stay together");
        assert_eq!((extent.meta.csn_min, extent.meta.csn_max), (Csn(4), Csn(9)));
    }
    let full = built.iter().take(built.len() - 1).map(|extent| extent.bytes.len());
    assert!(full.min().unwrap() > slot * 9 / 10);
    assert!(built.is_sorted_by(|a, b| a.meta.largest < b.meta.smallest));
}

#[test]
fn a_version_larger_than_a_slot_takes_several() {
    let mut builder = ExtentBuilder::new(table(), 64 << 10);
    let value = vec![1; 200 << 10];
    builder.push(&Entry { key: b"large", csn: Csn(1), value: Some(&value) });
    let built = builder.finish(ExtentId(1));
    assert_eq!(built.meta.slots.count, 4);
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
