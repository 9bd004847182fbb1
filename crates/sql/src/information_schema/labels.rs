//! Converts key spaces and keys to readable names, for status reports and for the tables of
//! information_schema that describe the storage.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::sync::Arc;

use spillway::Table;
use spillway_inspect::{Names, readable};
use spillway_types::{Collation, ColumnType, Date, DateTime, Time, Value, key};

use crate::catalog::{CATALOG, Catalog, TableDef};
use crate::errors::{Result, printable};

/// Names of key spaces, and the columns of their keys.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    spaces: HashMap<u32, Label>,
    /// Key spaces that belong to no SQL table, by their names in the database.
    others: HashMap<u32, String>,
}

#[derive(Clone, Debug)]
struct Label {
    db: String,
    table: String,
    /// The name of the index; `None` for rows.
    index: Option<String>,
    /// The columns of the key space's keys.
    parts: Vec<(ColumnType, Collation)>,
    /// Whether the keys are hidden row numbers.
    numbered: bool,
}

impl Labels {
    pub(crate) fn of(catalog: &Catalog) -> Labels {
        let mut labels = Labels::default();
        catalog.tables.values().for_each(|table| labels.add(table));
        labels
    }

    /// The labels of a database whose catalog has these rows; `others` are the names of all key
    /// spaces in the database.
    ///
    /// # Errors
    /// 1034 for rows that do not form a catalog.
    pub fn of_rows(
        rows: &BTreeMap<Vec<u8>, Vec<u8>>,
        others: &BTreeMap<String, Table>,
    ) -> Result<Labels> {
        let mut catalog = Catalog::default();
        rows.iter().try_for_each(|(key, value)| catalog.take(key, value))?;
        let mut labels = Labels::of(&catalog);
        labels.others = others.iter().map(|(name, table)| (table.0, name.clone())).collect();
        Ok(labels)
    }

    /// The name under which the database keeps the catalog.
    pub const CATALOG: &'static str = CATALOG;

    fn add(&mut self, table: &Arc<TableDef>) {
        let label = |index: Option<&String>, parts, numbered| Label {
            db: table.db.clone(),
            table: table.name.clone(),
            index: index.cloned(),
            parts,
            numbered,
        };
        let column = |at: usize| (table.columns[at].ty.clone(), table.columns[at].collation);
        let primary: Vec<_> = table.primary.iter().map(|part| column(part.column)).collect();
        let building = table.becoming.iter().flat_map(|becoming| &becoming.indexes);
        for index in table.indexes.iter().chain(building) {
            let own = index.parts.iter().map(|part| column(part.column));
            let parts = own.chain(primary.iter().cloned()).collect();
            self.spaces.insert(index.space, label(Some(&index.name), parts, primary.is_empty()));
        }
        let numbered = primary.is_empty();
        self.spaces.insert(table.space, label(None, primary, numbered));
    }

    /// Database, table and index of a key space; `None` if it belongs to no SQL table. Rows count
    /// as the index PRIMARY.
    pub(super) fn place_of(&self, table: Table) -> Option<[&str; 3]> {
        let label = self.spaces.get(&table.0)?;
        Some([&label.db, &label.table, label.index.as_deref().unwrap_or("PRIMARY")])
    }
}

impl Names for Labels {
    fn table(&self, table: Table) -> String {
        let own = self.spaces.get(&table.0).map(|label| match &label.index {
            None => format!("{}.{}", label.db, label.table),
            Some(index) => format!("{}.{}, index {index}", label.db, label.table),
        });
        let named = own.or_else(|| self.others.get(&table.0).map(|name| format!("({name})")));
        match (named, table.0) {
            (Some(name), _) => printable(&name).into_owned(),
            (None, 0) => "(names of key spaces)".to_owned(),
            (None, _) => format!("(key space {})", table.ordinal()),
        }
    }

    fn key(&self, table: Table, key: &[u8]) -> String {
        let label = self.spaces.get(&table.0);
        match label.and_then(|label| label.read(key)) {
            Some(values) => printable(&values).into_owned(),
            None => readable(key),
        }
    }
}

impl Label {
    /// The values that a key was made of; `None` if the bytes are no key of this key space.
    fn read(&self, key: &[u8]) -> Option<String> {
        let mut rest = key;
        let mut out = String::new();
        for (ty, collation) in &self.parts {
            // A bound of a sub-table may be only the beginning of a key.
            if rest.is_empty() && !out.is_empty() {
                return Some(out);
            }
            let (part, after) = rest.split_at_checked(key::part_len(rest, ty)?)?;
            if !out.is_empty() {
                out.push_str(", ");
            }
            out.push_str(&read_part(part, ty, *collation)?);
            rest = after;
        }
        if self.numbered
            && let Some(number) = rest.first_chunk()
        {
            let separator = if out.is_empty() { "" } else { ", " };
            let _ = write!(out, "{separator}row {}", u64::from_be_bytes(*number));
            rest = &rest[8..];
        }
        (rest.is_empty() && !out.is_empty()).then_some(out)
    }
}

/// The value that a part of a key was made of, as far as the part shows it.
fn read_part(part: &[u8], ty: &ColumnType, collation: Collation) -> Option<String> {
    let (null, body) = part.split_first()?;
    if *null == 0 {
        return Some("NULL".to_owned());
    }
    let number = || body.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
    let signed = || number().map(|number| (number ^ 1 << 63) as i64);
    let date = || {
        let (year, rest) = body.split_first_chunk()?;
        let ([month, day], rest) = rest.split_first_chunk::<2>()?;
        Some((Date { year: u16::from_be_bytes(*year), month: *month, day: *day }, rest))
    };
    Some(match ty {
        ColumnType::Int { unsigned: true, .. } | ColumnType::Bit(_) => number()?.to_string(),
        ColumnType::Int { .. } | ColumnType::Year => signed()?.to_string(),
        ColumnType::Enum(names) => {
            let index = usize::try_from(number()?).ok()?;
            index.checked_sub(1).and_then(|at| names.get(at)).cloned().unwrap_or_default()
        }
        ColumnType::Double | ColumnType::Float => {
            let bits = number()?;
            f64::from_bits(if bits >> 63 == 1 { bits ^ 1 << 63 } else { !bits }).to_string()
        }
        ColumnType::Date => Value::Date(date()?.0).to_text(),
        ColumnType::Time(_) => Value::Time(Time { micros: signed()? }).to_text(),
        ColumnType::DateTime(_) | ColumnType::Timestamp(_) => {
            let (date, rest) = date()?;
            let micros = u64::from_be_bytes(*rest.first_chunk()?);
            Value::DateTime(DateTime { date, micros }).to_text()
        }
        ColumnType::Decimal { .. } => readable(body),
        _ => {
            let mut bytes = Vec::new();
            key::read_groups(body, &mut bytes)?;
            // The part has the sort weights of a text: two bytes for each character, those of its
            // upper case.
            match (ty.is_text(), collation) {
                (true, Collation::GeneralCi) => {
                    let points = bytes.chunks(2).map(|weight| {
                        let point =
                            weight.iter().fold(0, |point, byte| point << 8 | u32::from(*byte));
                        char::from_u32(point).unwrap_or('\u{fffd}')
                    });
                    let text = points.collect::<String>();
                    return Some(format!("'{}'", text.trim_end_matches(' ')));
                }
                // From weights of the Unicode Collation Algorithm, the characters cannot be
                // recovered.
                (true, collation) if !collation.is_bytewise() => return Some(readable(&bytes)),
                (true, collation) if collation.pads() => {
                    let spaces = bytes.iter().rev().take_while(|byte| **byte == b' ').count();
                    bytes.truncate(bytes.len() - spaces);
                }
                _ => {}
            }
            match std::str::from_utf8(&bytes) {
                Ok(text) if !text.contains(char::is_control) => format!("'{text}'"),
                _ => readable(&bytes),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use spillway_types::column::IntWidth;
    use spillway_types::convert;

    use super::*;

    fn label(parts: Vec<(ColumnType, Collation)>, numbered: bool) -> Label {
        let (db, table) = ("test".to_owned(), "t".to_owned());
        Label { db, table, index: None, parts, numbered }
    }

    /// Keys of columns of every type are read as the values that they were made of, and invalid
    /// bytes are refused.
    #[test]
    fn keys_are_read_as_the_values_they_were_made_of() {
        let int = |unsigned| ColumnType::Int { width: IntWidth::Big, unsigned, boolean: false };
        let text = |text: &str| Value::Text(text.to_owned());
        let ci = Collation::GeneralCi;
        let when = convert::to_datetime(&text("2024-02-29 12:34:56").as_ref()).unwrap();
        for (ty, collation, value, shown) in [
            (int(false), ci, Value::Int(-5), "-5"),
            (int(true), ci, Value::UInt(u64::MAX), "18446744073709551615"),
            (ColumnType::Double, ci, Value::Double(-2.5), "-2.5"),
            (ColumnType::VarChar(20), ci, text("seat A12 of row 7"), "'SEAT A12 OF ROW 7'"),
            (ColumnType::VarChar(20), Collation::Bin, text("longer than 8"), "'longer than 8'"),
            (ColumnType::VarChar(20), Collation::Bin, text("trailing  "), "'trailing'"),
            (ColumnType::VarChar(20), Collation::Bin, text(""), "''"),
            (ColumnType::VarChar(20), Collation::Bin0900, text("trailing  "), "'trailing  '"),
            (ColumnType::VarBinary(9), Collation::Binary, Value::Bytes(vec![1, 255]), "0x01ff"),
            (ColumnType::DateTime(0), ci, Value::DateTime(when), "2024-02-29 12:34:56"),
            (ColumnType::Date, ci, Value::Date(when.date), "2024-02-29"),
            (int(false), ci, Value::Null, "NULL"),
        ] {
            let label = label(vec![(ty.clone(), collation), (int(false), ci)], false);
            let mut bytes = Vec::new();
            key::write_part(&value.as_ref(), &ty, collation, None, &mut bytes);
            assert_eq!(label.read(&bytes).as_deref(), Some(shown), "{ty:?}");
            key::write_part(&Value::Int(7).as_ref(), &int(false), ci, None, &mut bytes);
            assert_eq!(label.read(&bytes), Some(format!("{shown}, 7")), "{ty:?}");
            bytes.push(9);
            assert_eq!(label.read(&bytes), None, "{ty:?}");
            for end in 0..bytes.len() {
                let _ = label.read(&bytes[..end]);
            }
        }
        let row = label(Vec::new(), true);
        assert_eq!(row.read(&12_u64.to_be_bytes()).as_deref(), Some("row 12"));
        assert_eq!(row.read(b""), None);
    }
}
