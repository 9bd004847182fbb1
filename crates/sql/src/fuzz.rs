//! Entry points for fuzzing: each takes any bytes, passes them to a decoder of the catalog or of
//! stored rows, and checks the invariants of the result.

use std::sync::Arc;

use spillway_base::codec::Reader;
use spillway_types::{Collation, ColumnType, Value};

use crate::catalog::{
    Catalog, ColumnDef, DefaultValue, IndexPart, Layout, StoredRow, TableDef, is_newest, write,
};
use crate::errors::Result;

fn types() -> Vec<ColumnType> {
    let names = || vec!["a".to_owned(), "b".to_owned()];
    vec![
        ColumnType::INT,
        ColumnType::Decimal { precision: 20, scale: 3, unsigned: false },
        ColumnType::Float,
        ColumnType::Double,
        ColumnType::Bit(9),
        ColumnType::Char(4),
        ColumnType::VarChar(9),
        ColumnType::Binary(3),
        ColumnType::Date,
        ColumnType::Time(2),
        ColumnType::DateTime(6),
        ColumnType::Timestamp(0),
        ColumnType::Year,
        ColumnType::Enum(names()),
        ColumnType::Set(names()),
        ColumnType::Json,
    ]
}

/// The initial values of columns. Some may be invalid for the column's type.
const INITIAL: [&str; 4] = ["", "1", "2024-02-30", "a,b"];

fn table(reader: &mut Reader<'_>) -> Result<TableDef> {
    let mut table = TableDef::empty(1, "d".to_owned(), "t".to_owned(), Collation::default());
    let types = types();
    for _ in 0..reader.u8()? % 8 {
        let [id, ty, initial] = [reader.u8()?, reader.u8()?, reader.u8()?];
        let text = INITIAL[usize::from(initial) % INITIAL.len()];
        table.columns.push(ColumnDef {
            id: id.into(),
            name: format!("c{id}"),
            ty: types[usize::from(ty) % types.len()].clone(),
            collation: Collation::Binary,
            nullable: initial & 0x80 == 0,
            default: DefaultValue::Const(text.to_owned(), initial & 0x40 != 0),
            initial: None,
            on_update_now: false,
            auto_increment: false,
            comment: String::new(),
        });
    }
    table.primary = vec![IndexPart { column: reader.u8()?.into(), prefix: None }];
    for _ in 0..reader.u8()? % 4 {
        let schema = reader.u8()?.into();
        let columns = reader.bytes()?.iter().map(|id| u32::from(*id)).collect();
        table.layouts.push(Layout { schema, columns });
    }
    (table.schema, table.fresh_from) = (reader.u8()?.into(), reader.u8()?.into());
    Ok(table)
}

fn text_of(table: &TableDef) -> Vec<u8> {
    serde_json::to_vec(table).expect("a definition is text")
}

/// The table definition that the catalog reads from an entry. Writing and reading the definition
/// must give the same entry.
fn taken(entry: &[u8]) -> Option<Arc<TableDef>> {
    let take = |entry: &[u8]| {
        let mut catalog = Catalog::default();
        catalog.take(b"t/d/t", entry).ok()?;
        catalog.tables.into_values().next()
    };
    let table = take(entry)?;
    let text = text_of(&table);
    let again = take(&text).expect("what was taken is sound");
    assert_eq!(text_of(&again), text);
    Some(table)
}

/// Reads catalog entries: the given bytes, and a table's entry with a few bytes changed.
pub fn catalog_entry(bytes: &[u8]) {
    for kind in [b"d/", b"u/"] {
        let _ = Catalog::default().take(kind, bytes);
    }
    let _ = taken(bytes);
    let mut reader = Reader::new(bytes);
    let Ok(table) = table(&mut reader) else { return };
    let mut text = text_of(&table);
    while let (Ok(at), Ok(byte)) = (reader.u16(), reader.u8()) {
        let at = usize::from(at) % text.len();
        text[at] = byte;
    }
    let _ = taken(&text);
}

/// Reads a row under a definition that was altered several times. Writes its values as a row of the
/// newest version, which must read as the same values.
pub fn stored_row(bytes: &[u8]) {
    let mut reader = Reader::new(bytes);
    let Ok(table) = table(&mut reader) else { return };
    let Some(table) = taken(&text_of(&table)) else { return };
    let read = |row: &[u8]| -> Result<Vec<Value>> {
        let row = StoredRow::new(row, &table.versions)?;
        (0..table.columns.len()).map(|column| Ok(row.get(column)?.to_owned())).collect()
    };
    let row = reader.rest();
    assert!(is_newest(&table, row).is_ok() || read(row).is_err());
    let Ok(values) = read(row) else { return };
    let mut written = Vec::new();
    write(&table, &values, &mut written);
    assert_eq!(is_newest(&table, &written), Ok(true));
    // The values are compared as text, because NaN is not equal to itself.
    let again = read(&written).expect("a row that was written");
    assert_eq!(format!("{again:?}"), format!("{values:?}"));
}
