//! What databases, tables and users there are.
//!
//! The catalog is kept in a table of its own, `sys.catalog`: one JSON document for each database (`d/NAME`), table
//! (`t/DB/NAME`) and user (`u/NAME@HOST`). Sessions read an immutable snapshot in memory, which each change
//! replaces whole. Beside them are numbers (u64, little-endian): the largest of a table (`n`), and for tables with an
//! AUTO_INCREMENT column the bound that no number given reaches (`a/` and the table's number, u32, big-endian). Where indexes of
//! a table are built (`ddl/online`), `b/` and the table's number has how far: a byte, 1 where they are to be dropped and else 0,
//! and the key of the last row that has its entries, empty where none has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use spillway::{
    Csn, Database, Direction, Durability, KeyRange, Table, Transaction, TransactionOptions,
    prefix_end,
};
use spillway_types::{Collation, ColumnType, Date, DateTime, Value};

use crate::errors::{Result, SqlError};
use crate::rows::{Stored, Versions, same_stored};

pub(crate) const CATALOG: &str = "sys.catalog";
/// How the names of tables' key spaces begin.
const SPACE_NAMES: &str = "i/";
/// Databases that are not stored.
pub(crate) const SYSTEM: [&str; 3] = ["information_schema", "mysql", "performance_schema"];

/// What a column holds when an INSERT does not say.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) enum DefaultValue {
    #[default]
    None,
    Null,
    /// A constant, as text; `true` for bytes in hexadecimal.
    Const(String, bool),
    CurrentTimestamp,
    /// An expression, as text.
    Expr(String),
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct ColumnDef {
    /// What rows know it by; 0 until it is given one. Catalogs from before there were ids have none.
    #[serde(default)]
    pub(crate) id: u32,
    pub(crate) name: String,
    pub(crate) ty: ColumnType,
    pub(crate) collation: Collation,
    pub(crate) nullable: bool,
    pub(crate) default: DefaultValue,
    /// What rows have that were written before the column was added: fixed with the column, whatever becomes of its default.
    /// Catalogs from before there was this field have none, and mean the default.
    #[serde(default)]
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
    /// Whether it is being filled: what is unique is not looked after yet.
    #[serde(skip)]
    pub(crate) filling: bool,
    /// The commit from which on it has all rows; snapshots from before do not read through it.
    #[serde(skip)]
    pub(crate) since: Csn,
}

/// Which indexes a table is to have, once those are built that it does not have yet.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Becoming {
    pub(crate) indexes: Vec<IndexDef>,
    /// Whether every row has its entries, and what is unique is looked after.
    pub(crate) filled: bool,
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct CheckDef {
    pub(crate) name: String,
    pub(crate) expr: String,
    pub(crate) enforced: bool,
}

/// Which columns the rows have that were written under an earlier version of a table's schema.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Layout {
    pub(crate) schema: u16,
    /// Their ids.
    pub(crate) columns: Vec<u32>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TableDef {
    pub(crate) id: u32,
    pub(crate) db: String,
    pub(crate) name: String,
    pub(crate) columns: Vec<ColumnDef>,
    /// Columns of the primary key; empty where rows have a hidden number.
    pub(crate) primary: Vec<IndexPart>,
    /// The key space of the rows.
    pub(crate) space: u32,
    pub(crate) indexes: Vec<IndexDef>,
    pub(crate) checks: Vec<CheckDef>,
    pub(crate) collation: Collation,
    pub(crate) comment: String,
    pub(crate) auto_increment: u64,
    /// The version that rows are written under, and those that rows may have from before.
    #[serde(default)]
    pub(crate) schema: u16,
    #[serde(default)]
    pub(crate) layouts: Vec<Layout>,
    /// No row in the newest state is of a version before this; only older snapshots read such.
    #[serde(default)]
    pub(crate) fresh_from: u16,
    /// While indexes are built. Nothing but changes of rows sees them before they are among `indexes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) becoming: Option<Becoming>,
    /// What is made of the definition for reading rows.
    #[serde(skip)]
    pub(crate) versions: Arc<Versions>,
    /// The indexes that are being built.
    #[serde(skip)]
    pub(crate) building: Vec<IndexDef>,
}

impl TableDef {
    /// A table without columns, with its database's collation.
    pub(crate) fn empty(id: u32, db: String, name: String, catalog: &Catalog) -> TableDef {
        let collation =
            catalog.databases.get(&db).map_or_else(Collation::default, |db| db.collation);
        TableDef {
            id,
            db,
            name,
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
        }
    }

    /// The largest id of a column that it has, or that rows may have.
    pub(crate) fn last_column_id(&self) -> u32 {
        let layouts = self.layouts.iter().flat_map(|layout| layout.columns.iter().copied());
        self.columns.iter().map(|column| column.id).chain(layouts).max().unwrap_or(0)
    }

    /// Gives columns that have none the ids after one, which comes to the same each time for a definition that is stored
    /// without ids.
    pub(crate) fn number_columns(&mut self, mut last: u32) {
        for column in self.columns.iter_mut().filter(|column| column.id == 0) {
            last += 1;
            column.id = last;
        }
    }

    /// Makes what reading and changing rows needs, once the definition is whole.
    pub(crate) fn prepare(&mut self) {
        self.versions = Arc::new(Versions::of(self));
        self.building.clear();
        if let Some(becoming) = &self.becoming {
            let has = |space: u32| self.indexes.iter().any(|index| index.space == space);
            let missing = becoming.indexes.iter().filter(|index| !has(index.space));
            let filling = !becoming.filled;
            self.building = missing.map(|index| IndexDef { filling, ..index.clone() }).collect();
        }
    }

    /// The indexes whose entries follow changes of rows.
    pub(crate) fn maintained(&self) -> impl Iterator<Item = &IndexDef> {
        self.indexes.iter().chain(&self.building)
    }

    /// Forgets earlier versions: all rows are to be written under this definition.
    pub(crate) fn forget_versions(&mut self) {
        self.schema = 0;
        self.layouts.clear();
        self.fresh_from = 0;
    }

    /// The earlier versions that rows in the newest state may have.
    pub(crate) fn versions_kept(&self) -> usize {
        self.layouts.iter().filter(|layout| layout.schema >= self.fresh_from).count()
    }

    /// The key spaces that it has.
    pub(crate) fn spaces(&self) -> impl Iterator<Item = u32> {
        std::iter::once(self.space).chain(self.maintained().map(|index| index.space))
    }

    pub(crate) fn rows(&self) -> Table {
        spillway_base::TableId(self.space)
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
        let row = Stored::new(bytes, &self.versions)?;
        for at in 0..self.columns.len() {
            out.push(row.get(at)?.to_owned());
        }
        Ok(())
    }
}

impl ColumnDef {
    /// The default, where it is a constant; else NULL, or the type's zero.
    pub(crate) fn constant_default(&self) -> Value {
        self.constant(&self.default)
    }

    /// What a row has that was written before the column was added.
    pub(crate) fn initial_value(&self) -> Value {
        self.constant(self.initial.as_ref().unwrap_or(&self.default))
    }

    /// Fixes the initial value of a column that has none, before its default changes.
    pub(crate) fn fix_initial(&mut self) {
        self.initial.get_or_insert_with(|| self.default.clone());
    }

    /// Rows have their timestamps in UTC, and so does an initial value, which comes from a default in a session's time zone.
    pub(crate) fn initial_in_utc(&mut self, offset_micros: i64) {
        if let (ColumnType::Timestamp(_), Value::DateTime(at)) = (&self.ty, self.initial_value())
            && offset_micros != 0
        {
            let moved = moved(at, -offset_micros);
            self.initial = Some(DefaultValue::Const(Value::DateTime(moved).to_text(), false));
        }
    }

    /// Fixes the initial value as one that is given. `false` where a definition cannot say it.
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
                    // Text that goes into a BIT would be its bytes.
                    (false, ColumnType::Bit(_)) => Value::UInt(text.parse().unwrap_or(0)),
                    _ => Value::Text(text.clone()),
                };
                self.ty.store(&value).unwrap_or_else(|(_, nearest)| nearest)
            }
            _ if self.nullable => Value::Null,
            _ => self.ty.zero(),
        }
    }
}

pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digits = if text.len() % 2 == 1 { format!("0{text}") } else { text.to_owned() };
    let byte =
        |at: usize| u8::from_str_radix(digits.get(at..at + 2).unwrap_or("00"), 16).unwrap_or(0);
    (0..digits.len() / 2).map(|at| byte(2 * at)).collect()
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct DatabaseDef {
    pub(crate) name: String,
    pub(crate) collation: Collation,
}

/// A user, and how it proves to be it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct UserDef {
    /// The name.
    pub name: String,
    /// Where it may come from: `%` for anywhere.
    pub host: String,
    /// The authentication plugin.
    pub plugin: String,
    /// What the plugin stores; empty for an empty password.
    pub stored: Vec<u8>,
    /// Rights everywhere (`*`) and in databases.
    pub(crate) grants: BTreeMap<String, Vec<String>>,
}

/// All of it, at one moment.
#[derive(Clone, Default, Debug)]
pub(crate) struct Catalog {
    pub(crate) version: u64,
    pub(crate) databases: BTreeMap<String, DatabaseDef>,
    pub(crate) tables: BTreeMap<(String, String), Arc<TableDef>>,
    pub(crate) users: BTreeMap<(String, String), UserDef>,
}

fn from_json<'a, T: Deserialize<'a>>(key: &[u8], bytes: &'a [u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| {
        SqlError::new(
            1034,
            format!("The catalog entry {} is damaged: {error}", String::from_utf8_lossy(key)),
        )
    })
}

impl Catalog {
    /// Reads the catalog, and begins one where there is none.
    pub(crate) fn load(db: &Database) -> Result<Catalog> {
        let txn = db.begin(TransactionOptions::new());
        let space = match txn.table(CATALOG) {
            Ok(space) => space,
            Err(error) if error.kind() == spillway::ErrorKind::NotFound => {
                let space = txn.create_table(CATALOG, spillway::EngineKind::Tiered)?;
                let root = UserDef {
                    name: "root".to_owned(),
                    host: "%".to_owned(),
                    plugin: "mysql_native_password".to_owned(),
                    stored: Vec::new(),
                    grants: BTreeMap::from([(
                        "*".to_owned(),
                        vec!["ALL".to_owned(), "GRANT OPTION".to_owned()],
                    )]),
                };
                let change = Change { txn: &txn, space };
                change.put_user(&root)?;
                change.put_database(&DatabaseDef {
                    name: "test".to_owned(),
                    collation: Collation::GeneralCi,
                })?;
                space
            }
            Err(error) => return Err(error.into()),
        };
        let catalog = Catalog::read(&txn, space)?;
        txn.commit().wait()?;
        Ok(catalog)
    }

    fn read(txn: &Transaction, space: Table) -> Result<Catalog> {
        let mut catalog = Catalog { version: 1, ..Catalog::default() };
        let mut scan = txn.scan(space, KeyRange::ALL, Direction::Forward)?;
        while scan.advance()? {
            let (key, value) = (scan.key(), scan.value());
            match key.first() {
                Some(b'd') => {
                    let database: DatabaseDef = from_json(key, value)?;
                    catalog.databases.insert(database.name.clone(), database);
                }
                Some(b't') => {
                    let mut table: TableDef = from_json(key, value)?;
                    table.columns.iter_mut().for_each(ColumnDef::fix_initial);
                    table.number_columns(table.last_column_id());
                    table.prepare();
                    catalog.tables.insert((table.db.clone(), table.name.clone()), Arc::new(table));
                }
                Some(b'u') => {
                    let user: UserDef = from_json(key, value)?;
                    catalog.users.insert((user.name.clone(), user.host.clone()), user);
                }
                _ => {}
            }
        }
        drop(scan);
        Ok(catalog)
    }

    pub(crate) fn has_database(&self, name: &str) -> bool {
        self.databases.contains_key(name) || SYSTEM.contains(&name.to_ascii_lowercase().as_str())
    }

    pub(crate) fn table(&self, db: &str, name: &str) -> Result<&Arc<TableDef>> {
        self.tables
            .get(&(db.to_owned(), name.to_owned()))
            .ok_or_else(|| SqlError::unknown_table(db, name))
    }

    pub(crate) fn tables_of<'a>(&'a self, db: &'a str) -> impl Iterator<Item = &'a Arc<TableDef>> {
        self.tables
            .range((db.to_owned(), String::new())..)
            .map(|(_, table)| table)
            .take_while(move |table| table.db == db)
    }

    /// The user that a name from a host is: an exact host goes before `%`.
    pub(crate) fn user(&self, name: &str, host: &str) -> Option<&UserDef> {
        let local = ["127.0.0.1", "::1", "localhost"].contains(&host);
        let mut hosts = vec![host];
        if local {
            hosts.extend(["localhost", "127.0.0.1"]);
        }
        hosts.push("%");
        hosts.iter().find_map(|host| self.users.get(&(name.to_owned(), (*host).to_owned())))
    }
}

/// Changes of the catalog within a transaction.
pub(crate) struct Change<'t> {
    pub(crate) txn: &'t Transaction,
    pub(crate) space: Table,
}

/// How far the indexes of a table are built.
#[derive(Clone, Default, Debug)]
pub(crate) struct Progress {
    /// Whether they are to be dropped.
    pub(crate) doomed: bool,
    /// The key of the last row that has its entries.
    pub(crate) last: Vec<u8>,
}

fn json<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| SqlError::new(1105, error.to_string()))
}

impl<'t> Change<'t> {
    pub(crate) fn new(txn: &'t Transaction) -> Result<Change<'t>> {
        Ok(Change { txn, space: txn.table(CATALOG)? })
    }

    pub(crate) fn put_database(&self, database: &DatabaseDef) -> Result<()> {
        Ok(self.txn.put(self.space, format!("d/{}", database.name).as_bytes(), &json(database)?)?)
    }

    pub(crate) fn delete_database(&self, name: &str) -> Result<()> {
        Ok(self.txn.delete(self.space, format!("d/{name}").as_bytes())?)
    }

    pub(crate) fn put_table(&self, table: &TableDef) -> Result<()> {
        Ok(self.txn.put(self.space, &table_key(table), &json(table)?)?)
    }

    pub(crate) fn delete_table(&self, table: &TableDef) -> Result<()> {
        Ok(self.txn.delete(self.space, &table_key(table))?)
    }

    fn number(&self, key: &[u8]) -> Result<u64> {
        let mut value = Vec::new();
        self.txn.get(self.space, key, &mut value)?;
        Ok(value.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)))
    }

    /// A number for a table, that none has had.
    pub(crate) fn next_table_id(&self, catalog: &Catalog) -> Result<u32> {
        let used = catalog.tables.values().map(|table| table.id).max().unwrap_or(0);
        let next = self.number(b"n")?.max(u64::from(used)) + 1;
        self.txn.put(self.space, b"n", &next.to_le_bytes())?;
        u32::try_from(next).map_err(|_| SqlError::new(1105, "there are no more table numbers"))
    }

    /// The bound that no number reaches that a table's AUTO_INCREMENT column has given; 0 for none.
    pub(crate) fn auto_increment_bound(&self, table: u32) -> Result<u64> {
        self.number(&bound_key(table))
    }

    pub(crate) fn put_auto_increment_bound(&self, table: u32, bound: u64) -> Result<()> {
        Ok(self.txn.put(self.space, &bound_key(table), &bound.to_le_bytes())?)
    }

    pub(crate) fn delete_auto_increment_bound(&self, table: u32) -> Result<()> {
        Ok(self.txn.delete(self.space, &bound_key(table))?)
    }

    /// How far the indexes of a table are built.
    pub(crate) fn progress(&self, table: u32) -> Result<Progress> {
        let mut value = Vec::new();
        self.txn.get(self.space, &progress_key(table), &mut value)?;
        let (doomed, last) =
            value.split_first().map_or((0, &[][..]), |(state, last)| (*state, last));
        Ok(Progress { doomed: doomed != 0, last: last.to_vec() })
    }

    pub(crate) fn put_progress(&self, table: u32, progress: &Progress) -> Result<()> {
        let value = [&[u8::from(progress.doomed)], progress.last.as_slice()].concat();
        Ok(self.txn.put(self.space, &progress_key(table), &value)?)
    }

    pub(crate) fn delete_progress(&self, table: u32) -> Result<()> {
        Ok(self.txn.delete(self.space, &progress_key(table))?)
    }

    pub(crate) fn put_user(&self, user: &UserDef) -> Result<()> {
        let key = format!("u/{}@{}", user.name, user.host);
        Ok(self.txn.put(self.space, key.as_bytes(), &json(user)?)?)
    }

    pub(crate) fn delete_user(&self, user: &UserDef) -> Result<()> {
        Ok(self.txn.delete(self.space, format!("u/{}@{}", user.name, user.host).as_bytes())?)
    }

    /// Makes a key space for an index. Its name is never shown and never changes.
    pub(crate) fn create_space(&self, table: u32, label: &str) -> Result<u32> {
        let mut name = format!("{SPACE_NAMES}{table}/{label}/{}", self.txn.table_names()?.len());
        while self.txn.table(&name).is_ok() {
            name.push('\'');
        }
        Ok(self.txn.create_table(&name, spillway::EngineKind::Tiered)?.0)
    }

    pub(crate) fn drop_space(&self, space: u32) -> Result<()> {
        for name in self.txn.table_names()? {
            if self.txn.table(&name)?.0 == space {
                self.txn.drop_table(&name)?;
                return Ok(());
            }
        }
        Ok(())
    }
}

/// The slash between the names is the first that is not written as `%2F`.
fn table_key(table: &TableDef) -> Vec<u8> {
    let db = table.db.replace('%', "%25").replace('/', "%2F");
    format!("t/{db}/{}", table.name).into_bytes()
}

fn progress_key(table: u32) -> Vec<u8> {
    [b"b/".as_slice(), &table.to_be_bytes()].concat()
}

fn bound_key(table: u32) -> Vec<u8> {
    [b"a/".as_slice(), &table.to_be_bytes()].concat()
}

/// A transaction that reads what is not durable yet, and whose commit waits for nothing.
pub(crate) fn unawaited() -> TransactionOptions {
    TransactionOptions::new().durability(Durability::Within(Duration::from_secs(1)))
}

/// Drops those of some key spaces that no table in the stored catalog has.
pub(crate) fn remove_unnamed_spaces(db: &Database, some: impl Fn(u32) -> bool) -> Result<()> {
    let txn = db.begin(unawaited());
    let catalog = Catalog::read(&txn, txn.table(CATALOG)?)?;
    let named: BTreeSet<u32> = catalog.tables.values().flat_map(|table| table.spaces()).collect();
    for name in txn.table_names()? {
        let space = txn.table(&name)?.0;
        if name.starts_with(SPACE_NAMES) && some(space) && !named.contains(&space) {
            txn.drop_table(&name)?;
        }
    }
    txn.commit().wait()?;
    Ok(())
}

/// The end of the keys that begin with a prefix, for a range.
pub(crate) fn end_of(prefix: &[u8]) -> Option<Vec<u8>> {
    prefix_end(prefix)
}

/// Moves the values of TIMESTAMP columns by an offset, from or to UTC.
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

/// A time in another zone; the zero time is the same in all.
pub(crate) fn moved(at: DateTime, micros: i64) -> DateTime {
    if at == DateTime::default() {
        return at;
    }
    DateTime::from_unix_micros(at.to_unix_micros() + micros).unwrap_or(at)
}

/// The date and time of a moment, in UTC.
pub(crate) fn utc(micros: i64) -> DateTime {
    DateTime::from_unix_micros(micros).unwrap_or(DateTime { date: Date::default(), micros: 0 })
}
