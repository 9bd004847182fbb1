//! Table definitions in the catalog: columns, keys, constraints, and the earlier versions that rows
//! may have.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use spillway::{Csn, EngineKind, Table};
use spillway_base::TableId;
use spillway_types::{Collation, ColumnType, DateTime, Value};

use super::storage_engines::{DEFAULT_ENGINE, by_name};
use super::stored_rows::{StoredRow, Versions, same_stored};
use crate::errors::Result;
use crate::parser::unhex;

/// The value of a column that an INSERT does not name.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) enum DefaultValue {
    #[default]
    None,
    Null,
    /// A constant, as text. If `true`, the text is bytes in hexadecimal.
    Const(String, bool),
    CurrentTimestamp,
    /// An expression, as text.
    Expr(String),
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct ColumnDef {
    /// The column's id in stored rows; 0 until it has one.
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) ty: ColumnType,
    pub(crate) collation: Collation,
    pub(crate) nullable: bool,
    pub(crate) default: DefaultValue,
    /// The value in rows that were written before the column was added. It is fixed when the column
    /// is added, and later changes of the default do not affect it.
    pub(crate) initial: Option<DefaultValue>,
    pub(crate) on_update_now: bool,
    pub(crate) auto_increment: bool,
    pub(crate) comment: String,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct IndexPart {
    pub(crate) column: usize,
    pub(crate) prefix: Option<u32>,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct IndexDef {
    pub(crate) name: String,
    pub(crate) parts: Vec<IndexPart>,
    pub(crate) unique: bool,
    pub(crate) comment: String,
    /// The key space.
    pub(crate) space: u32,
    #[serde(skip)]
    pub(crate) stage: Stage,
    /// The commit from which on the index has an entry for each row. Statements with earlier
    /// snapshots do not read the index.
    #[serde(skip)]
    pub(crate) since: Csn,
}

/// The stage of an index build.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Stage {
    #[default]
    Done,
    /// The rows get their entries. Duplicates are not checked yet.
    Filling,
    /// All rows have their entries. A change that may create a duplicate records it and is not
    /// refused.
    Checking,
}

/// The indexes that a table will have once the missing ones are built.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Becoming {
    /// The indexes, over the positions of the table's present columns.
    pub(crate) indexes: Vec<IndexDef>,
    /// The definition that the table gets together with the indexes, if the statement changes more
    /// than these. It has the same indexes, over the positions of its own columns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) after: Option<Box<TableDef>>,
    /// Whether every row has its entries, so that possible duplicates in unique indexes are
    /// recorded.
    pub(crate) filled: bool,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct CheckDef {
    pub(crate) name: String,
    pub(crate) expr: String,
    pub(crate) enforced: bool,
}

/// The columns of rows that were written under an earlier version of a table's schema.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Layout {
    pub(crate) schema: u16,
    /// The columns' ids.
    pub(crate) columns: Vec<u32>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TableDef {
    pub(crate) id: u32,
    pub(crate) db: String,
    pub(crate) name: String,
    /// The engine that stores all the table's key spaces.
    #[serde(with = "by_name")]
    pub(crate) engine: EngineKind,
    pub(crate) columns: Vec<ColumnDef>,
    /// The columns of the primary key; empty if rows have a hidden row number instead.
    pub(crate) primary: Vec<IndexPart>,
    /// The key space of the rows.
    pub(crate) space: u32,
    pub(crate) indexes: Vec<IndexDef>,
    pub(crate) checks: Vec<CheckDef>,
    pub(crate) collation: Collation,
    pub(crate) comment: String,
    pub(crate) auto_increment: u64,
    /// The schema version under which rows are written, and the layouts of the earlier versions of
    /// which rows can be read.
    pub(crate) schema: u16,
    pub(crate) layouts: Vec<Layout>,
    /// No row in the newest state has a version below this one. Only older snapshots see such rows.
    pub(crate) fresh_from: u16,
    /// The indexes being built, if any. Only changes of rows use them before they are added to
    /// `indexes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) becoming: Option<Becoming>,
    /// The maps for reading rows, derived from the definition.
    #[serde(skip)]
    pub(crate) versions: Arc<Versions>,
    /// The indexes that are being built, derived from `becoming`.
    #[serde(skip)]
    pub(crate) building: Vec<IndexDef>,
    /// The commit from which on the table's key space has all rows. Statements with earlier
    /// snapshots do not read the table.
    #[serde(skip)]
    pub(crate) since: Csn,
}

impl TableDef {
    /// A table of the default engine without columns.
    pub(crate) fn empty(id: u32, db: String, name: String, collation: Collation) -> TableDef {
        TableDef {
            id,
            db,
            name,
            engine: DEFAULT_ENGINE.kind,
            columns: Vec::new(),
            primary: Vec::new(),
            space: 0,
            indexes: Vec::new(),
            checks: Vec::new(),
            collation,
            comment: String::new(),
            auto_increment: 1,
            schema: 0,
            layouts: Vec::new(),
            fresh_from: 0,
            becoming: None,
            versions: Arc::default(),
            building: Vec::new(),
            since: Csn::ZERO,
        }
    }

    /// The unique indexes in the order in which MySQL looks for a duplicate, which decides the row
    /// that ON DUPLICATE KEY UPDATE changes: those without NULL first, and of these those without
    /// prefixes.
    pub(crate) fn unique_indexes(&self) -> impl Iterator<Item = &IndexDef> {
        let rank = |index: &IndexDef| {
            let nullable = index.parts.iter().any(|part| self.columns[part.column].nullable);
            (nullable, index.parts.iter().any(|part| part.prefix.is_some()))
        };
        let ranks = [(false, false), (false, true), (true, false), (true, true)];
        let indexes = move |wanted| {
            self.indexes.iter().filter(move |index| index.unique && rank(index) == wanted)
        };
        ranks.into_iter().flat_map(indexes)
    }

    /// Checks that a stored definition is consistent, because its readers rely on that. The error
    /// says what is wrong.
    pub(crate) fn check(&self) -> std::result::Result<(), &'static str> {
        let known = |parts: &[IndexPart]| parts.iter().all(|part| part.column < self.columns.len());
        let becoming = self.becoming.iter().flat_map(|becoming| &becoming.indexes);
        let mut keys = self.indexes.iter().chain(becoming).map(|index| index.parts.as_slice());
        if !known(&self.primary) || !keys.all(known) {
            return Err("a key of a column that it does not have");
        }
        if !self.columns.iter().all(|column| column.ty.is_sound()) {
            return Err("a column of a type that there is not");
        }
        let mut ids = BTreeSet::new();
        let numbered = self.columns.iter().map(|column| column.id).filter(|id| *id != 0);
        let room = u32::MAX - self.columns.len() as u32;
        if !numbered.into_iter().all(|id| ids.insert(id)) || self.last_column_id() > room {
            return Err("two columns with one id");
        }
        let versions = self.layouts.iter().map(|layout| layout.schema).chain([self.schema]);
        if !versions.is_sorted_by(|a, b| a < b) || self.fresh_from > self.schema {
            return Err("versions of its schema that are not in their order");
        }
        let becoming = self.becoming.iter().flat_map(|becoming| &becoming.indexes);
        let indexes = self.indexes.iter().chain(becoming).map(|index| index.space);
        let mut spaces = indexes.chain([self.space]).map(TableId);
        if !spaces.all(|space| space.engine() == Some(self.engine)) {
            return Err("a key space of an engine that is not its own");
        }
        let after = self.becoming.as_ref().and_then(|becoming| becoming.after.as_ref());
        after.map_or(Ok(()), |after| after.check())
    }

    /// The largest column id in the definition or in a row's layout.
    pub(crate) fn last_column_id(&self) -> u32 {
        let layouts = self.layouts.iter().flat_map(|layout| layout.columns.iter().copied());
        self.columns.iter().map(|column| column.id).chain(layouts).max().unwrap_or(0)
    }

    /// Assigns the ids after `last` to columns that have none.
    pub(crate) fn number_columns(&mut self, mut last: u32) {
        for column in self.columns.iter_mut().filter(|column| column.id == 0) {
            last += 1;
            column.id = last;
        }
    }

    /// Derives the fields that are not stored, once the definition is complete.
    pub(crate) fn prepare(&mut self) {
        self.versions = Arc::new(Versions::of(self));
        self.building.clear();
        if let Some(becoming) = &self.becoming {
            let has = |space: u32| self.indexes.iter().any(|index| index.space == space);
            let missing = becoming.indexes.iter().filter(|index| !has(index.space));
            let stage = if becoming.filled { Stage::Checking } else { Stage::Filling };
            self.building = missing.map(|index| IndexDef { stage, ..index.clone() }).collect();
        }
    }

    /// The indexes whose entries must be updated when rows change.
    pub(crate) fn maintained(&self) -> impl Iterator<Item = &IndexDef> {
        self.indexes.iter().chain(&self.building)
    }

    /// Drops the earlier versions, because all rows will be written under this definition.
    pub(crate) fn forget_versions(&mut self) {
        self.schema = 0;
        self.layouts.clear();
        self.fresh_from = 0;
    }

    /// The number of earlier versions that rows in the newest state may have.
    pub(crate) fn versions_kept(&self) -> usize {
        self.layouts.iter().filter(|layout| layout.schema >= self.fresh_from).count()
    }

    /// The earliest version of which rows can be read.
    pub(crate) fn oldest_layout(&self) -> u16 {
        self.layouts.iter().map(|layout| layout.schema).min().unwrap_or(self.schema)
    }

    /// The table's key spaces.
    pub(crate) fn spaces(&self) -> impl Iterator<Item = u32> {
        std::iter::once(self.space).chain(self.maintained().map(|index| index.space))
    }

    pub(crate) fn rows(&self) -> Table {
        TableId(self.space)
    }

    pub(crate) fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name.eq_ignore_ascii_case(name))
    }

    pub(crate) fn index(&self, name: &str) -> Option<usize> {
        self.indexes.iter().position(|index| index.name.eq_ignore_ascii_case(name))
    }

    pub(crate) fn auto_column(&self) -> Option<usize> {
        self.columns.iter().position(|column| column.auto_increment)
    }

    /// The values of a stored row.
    pub(crate) fn decode(&self, bytes: &[u8], out: &mut Vec<Value>) -> Result<()> {
        let row = StoredRow::new(bytes, &self.versions)?;
        for at in 0..self.columns.len() {
            out.push(row.get(at)?.to_owned());
        }
        Ok(())
    }
}

impl ColumnDef {
    /// The default if it is a constant; otherwise NULL or the type's zero value.
    pub(crate) fn constant_default(&self) -> Value {
        self.constant(&self.default)
    }

    /// The column's value in rows that were written before the column was added.
    pub(crate) fn initial_value(&self) -> Value {
        self.constant(self.initial.as_ref().unwrap_or(&self.default))
    }

    /// Sets the initial value of a column without one from its default, before the default changes.
    pub(crate) fn fix_initial(&mut self) {
        self.initial.get_or_insert_with(|| self.default.clone());
    }

    /// Converts the initial value of a TIMESTAMP column to UTC, as in stored rows. The initial
    /// value comes from a default, which is in the session's time zone.
    pub(crate) fn initial_in_utc(&mut self, offset_micros: i64) {
        if let (ColumnType::Timestamp(_), Value::DateTime(at)) = (&self.ty, self.initial_value())
            && offset_micros != 0
        {
            let moved = moved(at, -offset_micros);
            self.initial = Some(DefaultValue::Const(Value::DateTime(moved).to_text(), false));
        }
    }

    /// Sets the initial value. Returns `false` if a definition cannot express the value.
    pub(crate) fn set_initial(&mut self, value: &Value) -> bool {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02X}")).collect();
        self.initial = Some(match (value, &self.ty) {
            (Value::Null, _) => DefaultValue::Null,
            (Value::Bytes(bytes), _) => DefaultValue::Const(hex(bytes), true),
            (Value::UInt(bits), ColumnType::Bit(_)) => {
                DefaultValue::Const(hex(&bits.to_be_bytes()), true)
            }
            (Value::Int(year), ColumnType::Year) => {
                DefaultValue::Const(format!("{year:04}"), false)
            }
            (value, _) => DefaultValue::Const(value.to_text(), false),
        });
        same_stored(value, &self.initial_value())
    }

    fn constant(&self, value: &DefaultValue) -> Value {
        match value {
            DefaultValue::Const(text, hex) => {
                let value = match (hex, &self.ty) {
                    (true, _) => Value::Bytes(unhex(text)),
                    // Text converted to BIT would become its bytes.
                    (false, ColumnType::Bit(_)) => Value::UInt(text.parse().unwrap_or(0)),
                    _ => Value::Text(text.clone()),
                };
                self.ty.store_in(&value, self.collation).unwrap_or_else(|(_, nearest)| nearest)
            }
            _ if self.nullable => Value::Null,
            _ => self.ty.zero(),
        }
    }
}

/// Shifts the values of TIMESTAMP columns by an offset, from or to UTC.
pub(crate) fn shift_timestamps(table: &TableDef, values: &mut [Value], micros: i64) {
    if micros == 0 {
        return;
    }
    for (column, value) in table.columns.iter().zip(values) {
        if let (ColumnType::Timestamp(_), Value::DateTime(at)) = (&column.ty, &*value) {
            *value = Value::DateTime(moved(*at, micros));
        }
    }
}

/// A time converted to another zone. The zero time is the same in all zones.
pub(crate) fn moved(at: DateTime, micros: i64) -> DateTime {
    if at == DateTime::default() {
        return at;
    }
    DateTime::from_unix_micros(at.to_unix_micros() + micros).unwrap_or(at)
}
