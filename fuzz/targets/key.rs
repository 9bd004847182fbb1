#![no_main]

use std::cmp::Ordering;

use spillway_types::column::LobSize;
use spillway_types::key::{is_exact, part_len, read_part, write_part};
use spillway_types::{Collation, ColumnType, ValueRef};

fn part(value: ValueRef<'_>, column: &ColumnType, prefix: Option<u32>) -> Vec<u8> {
    let mut key = Vec::new();
    write_part(&value, column, Collation::Binary, prefix, &mut key);
    assert_eq!(part_len(&key, column), Some(key.len()), "{value:?}");
    // Bytes behind a part do not change where the part ends.
    key.extend_from_slice(&[9; 10]);
    assert_eq!(part_len(&key, column), Some(key.len() - 10));
    key.truncate(key.len() - 10);
    key
}

fn ordered(a: ValueRef<'_>, b: ValueRef<'_>, column: &ColumnType, wanted: Ordering) {
    assert_eq!(part(a, column, None).cmp(&part(b, column, None)), wanted, "{a:?}, {b:?}");
    assert!(part(ValueRef::Null, column, None) < part(a, column, None));
}

/// A part that is read is written as it was, but for bytes that no part has.
fn read(bytes: &[u8], column: &ColumnType) {
    assert!(is_exact(column, Collation::Binary, None));
    let mut room = b"before".to_vec();
    let Some((found, len)) = read_part(bytes, column, &mut room) else { return };
    assert!(len <= bytes.len());
    let Some(value) = found.value(&room) else { return };
    let mut again = Vec::new();
    write_part(&value, column, Collation::Binary, None, &mut again);
    let mut other_room = Vec::new();
    let (other, other_len) =
        read_part(&again, column, &mut other_room).expect("a part that was written");
    assert_eq!(other_len, again.len());
    assert_eq!(format!("{:?}", other.value(&other_room)), format!("{:?}", Some(value)));
}

/// Parts of texts are in the order of the texts, with PAD SPACE and without.
fn texts(a: &str, b: &str) {
    for collation in [Collation::GeneralCi, Collation::Bin, Collation::Bin0900] {
        let [a_part, b_part] = [a, b].map(|text| {
            let mut key = Vec::new();
            let column = ColumnType::VarChar(9);
            write_part(&ValueRef::Text(text), &column, collation, None, &mut key);
            assert_eq!(part_len(&key, &column), Some(key.len()), "{text:?}");
            key
        });
        let order = collation.compare(a.as_bytes(), b.as_bytes());
        assert_eq!(a_part.cmp(&b_part), order, "{collation:?}: {a:?}, {b:?}");
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let (double, blob) = (ColumnType::Double, ColumnType::Blob(LobSize::Long));
    for column in [
        &blob,
        &ColumnType::INT,
        &ColumnType::UBIGINT,
        &ColumnType::Decimal { precision: 20, scale: 3, unsigned: false },
        &ColumnType::Enum(vec!["a".to_owned(), "b".to_owned()]),
        &ColumnType::Date,
        &ColumnType::Time(2),
        &ColumnType::DateTime(6),
        &ColumnType::VarChar(9),
        &ColumnType::Bit(9),
    ] {
        read(bytes, column);
    }
    for column in [&double, &blob, &ColumnType::Date] {
        if let Some(len) = part_len(bytes, column) {
            assert!(len <= bytes.len());
        }
    }
    let (a, b) = bytes.split_at(bytes.len() / 2);
    ordered(ValueRef::Bytes(a), ValueRef::Bytes(b), &blob, a.cmp(b));
    let _ = part(ValueRef::Bytes(a), &blob, Some(b.len() as u32 % 20));
    texts(&String::from_utf8_lossy(a), &String::from_utf8_lossy(b));
    if let (Some(a), Some(b)) = (a.first_chunk(), b.first_chunk()) {
        let (a, b) = (f64::from_le_bytes(*a), f64::from_le_bytes(*b));
        if let Some(wanted) = a.partial_cmp(&b) {
            ordered(ValueRef::Double(a), ValueRef::Double(b), &double, wanted);
        }
    }
});
