#![no_main]

use std::cmp::Ordering;

use spillway_types::key::{part_len, write_part};
use spillway_types::column::LobSize;
use spillway_types::{Collation, ColumnType, ValueRef};

fn part(value: ValueRef<'_>, column: &ColumnType, prefix: Option<u32>) -> Vec<u8> {
    let mut key = Vec::new();
    write_part(&value, column, Collation::Binary, prefix, &mut key);
    assert_eq!(part_len(&key, column), Some(key.len()), "{value:?}");
    // Whatever follows a part, it ends where it ends.
    key.extend_from_slice(&[9; 10]);
    assert_eq!(part_len(&key, column), Some(key.len() - 10));
    key.truncate(key.len() - 10);
    key
}

fn ordered(a: ValueRef<'_>, b: ValueRef<'_>, column: &ColumnType, wanted: Ordering) {
    assert_eq!(part(a, column, None).cmp(&part(b, column, None)), wanted, "{a:?}, {b:?}");
    assert!(part(ValueRef::Null, column, None) < part(a, column, None));
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let (double, blob) = (ColumnType::Double, ColumnType::Blob(LobSize::Long));
    for column in [&double, &blob, &ColumnType::Date] {
        if let Some(len) = part_len(bytes, column) {
            assert!(len <= bytes.len());
        }
    }
    let (a, b) = bytes.split_at(bytes.len() / 2);
    ordered(ValueRef::Bytes(a), ValueRef::Bytes(b), &blob, a.cmp(b));
    let _ = part(ValueRef::Bytes(a), &blob, Some(b.len() as u32 % 20));
    if let (Some(a), Some(b)) = (a.first_chunk(), b.first_chunk()) {
        let (a, b) = (f64::from_le_bytes(*a), f64::from_le_bytes(*b));
        if let Some(wanted) = a.partial_cmp(&b) {
            ordered(ValueRef::Double(a), ValueRef::Double(b), &double, wanted);
        }
    }
});
