#![no_main]

use spillway_types::row::{RowReader, write_row};
use spillway_types::{Field, ValueRef};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Ok(row) = RowReader::new(bytes) else { return };
    assert!(matches!(row.get(row.columns()), Ok(None)));
    let values: Vec<ValueRef<'_>> =
        (0..row.columns()).map_while(|column| row.get(column).ok().flatten()).collect();
    if values.len() < row.columns() {
        return;
    }
    // The values are written and read again. NaN is not equal to itself, so texts are compared.
    let mut written = Vec::new();
    write_row(row.schema(), values.iter().copied(), &mut written);
    let again = RowReader::new(&written).expect("a row that was written");
    for (column, value) in values.iter().enumerate() {
        let found = again.get(column).expect("a value that was written");
        assert_eq!(format!("{found:?}"), format!("{:?}", Some(value)));
        let field = again.field(column).expect("a field that was written");
        assert_eq!(format!("{field:?}"), format!("{:?}", Field::of(*value)));
    }
});
