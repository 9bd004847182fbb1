//! Tests of private functions; histories over both engines are in `spillway`'s tests.

use spillway_base::rng::Rng;

use super::*;

#[test]
fn records_come_back_and_any_bytes_are_a_record_or_an_error() {
    let tables = [TableId(1), TableId(300)].into_iter().collect();
    let record = SpillRecord { committed: true, layers: vec![Layer { number: 7, tables }] };
    assert_eq!(SpillRecord::decode(&record.encode()).unwrap(), record);
    let mut rng = Rng::new(1);
    for _ in 0..10_000 {
        let mut bytes = vec![0; rng.below(16) as usize];
        rng.fill(&mut bytes);
        if let Some(first) = bytes.first_mut() {
            *first %= 3;
        }
        let _ = SpillRecord::decode(&bytes);
    }
    assert!(SpillRecord::decode(&[FORMAT + 1, 1]).is_err());
}

#[test]
fn rows_say_whether_they_are_deleted() {
    assert_eq!(row_value(b"value\x01").unwrap(), Some(&b"value"[..]));
    assert_eq!(row_value(b"\x00").unwrap(), None);
    for damaged in [&b""[..], b"value\x00", b"value\x02"] {
        assert!(row_value(damaged).is_err());
    }
}
