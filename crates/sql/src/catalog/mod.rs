//! The catalog: definitions of databases and tables, and accounts.
//!
//! The key space `sys.catalog` stores the catalog. Sessions read an immutable snapshot of the
//! catalog in memory; each change replaces the whole snapshot. In values, numbers are u64,
//! little-endian. In keys, numbers are u32, big-endian.
//!
//! | key | value |
//! |---|---|
//! | `d/NAME` | JSON document of a database |
//! | `t/DB/NAME` | JSON document of a table |
//! | `u/NAME@HOST` | JSON document of a user; `@` and `%` in the name are `%40` and `%25` |
//! | `f` | format version of the catalog ([`FORMAT`]) |
//! | `n` | the largest table number |
//! | `nu` | the largest account number |
//! | `a/` + table number | bound above all AUTO_INCREMENT numbers given so far |
//! | `b/` + table number | progress of an index build (`ddl/online`), see below |
//! | `m/` + table number + key of a row | empty value: the row is a possible duplicate, see below |
//!
//! The progress of an index build is one byte, followed by a key. The byte is 1 if the build has
//! failed and its indexes are to be dropped, and 0 otherwise. A build processes rows in key order.
//! The key is that of the last row whose entries are written, and is empty if there is none.
//!
//! A key under `m/` names a row that may be a duplicate. While a unique index was being built, a
//! transaction gave this row index values that another row may also have.

#[cfg(test)]
mod change_tests;
mod column_types;
mod covering_index;
mod definitions;
mod hosts;
mod passwords;
mod storage_engines;
pub(crate) mod stored_rows;
#[cfg(test)]
mod tests;
pub(crate) mod user;
mod virtual_tables;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use spillway::{
    Csn, Database, Direction, Durability, EngineKind, KeyRange, Table, Transaction,
    TransactionOptions, prefix_end,
};
use spillway_types::{Collation, Date, DateTime};

use crate::errors::{Result, SqlError};

pub(crate) use column_types::{check_members, collation_named, column_type, parse_type};
pub(crate) use covering_index::{Cover, Entry, entry_bytes, row_bytes};
pub(crate) use definitions::{
    Becoming, CheckDef, ColumnDef, DefaultValue, IndexDef, IndexPart, Layout, Stage, TableDef,
    moved, shift_timestamps,
};
pub(crate) use passwords::{md5_hex, stored_as_text, stored_from_text, stored_password};
pub use storage_engines::parse_engine;
pub(crate) use storage_engines::{DEFAULT_ENGINE, STORAGE_ENGINES, StorageEngine};
#[cfg(any(test, fuzzing))]
pub(crate) use stored_rows::is_newest;
#[cfg(fuzzing)]
pub(crate) use stored_rows::write;
pub(crate) use stored_rows::{LAYOUTS_MAX, Newest, StoredRow, Versions, same_stored};
pub use user::UserDef;
pub(crate) use user::{ALL, AccountLimits, GRANT_OPTION, LockTime, Lockout, everything};
pub(crate) use virtual_tables::{VIRTUAL, virtual_table};

pub(crate) const CATALOG: &str = "sys.catalog";
/// The key of the format number.
const FORMAT_KEY: &[u8] = b"f";
/// The format of the stored catalog. Each change of the stored data increments it. Catalogs of
/// earlier formats cannot be read.
const FORMAT: u64 = 2;
/// The key of the newest account's number.
const ACCOUNT_NUMBER: &[u8] = b"nu";
/// The prefix of the names of tables' key spaces.
const SPACE_NAMES: &str = "i/";
/// The databases that are not stored.
pub(crate) const SYSTEM: [&str; 3] = ["information_schema", "mysql", "performance_schema"];

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct DatabaseDef {
    pub(crate) name: String,
    pub(crate) collation: Collation,
}

/// The whole catalog as of one commit.
#[derive(Clone, Default, Debug)]
pub(crate) struct Catalog {
    pub(crate) version: u64,
    pub(crate) databases: BTreeMap<String, DatabaseDef>,
    pub(crate) tables: BTreeMap<(String, String), Arc<TableDef>>,
    pub(crate) users: BTreeMap<(String, String), UserDef>,
    /// The largest `since` of the tables.
    pub(crate) since: Csn,
}

fn damaged(key: &[u8], why: &dyn std::fmt::Display) -> SqlError {
    let key = String::from_utf8_lossy(key);
    SqlError::new(1034, format!("The catalog entry {key} is damaged: {why}"))
}

fn from_json<'a, T: Deserialize<'a>>(key: &[u8], bytes: &'a [u8]) -> Result<T> {
    serde_json::from_slice(bytes).map_err(|error| damaged(key, &error))
}

impl Catalog {
    /// Reads the catalog, or creates one if there is none.
    pub(crate) fn load(db: &Database) -> Result<Catalog> {
        let txn = db.begin(TransactionOptions::new());
        let space = match txn.table(CATALOG) {
            Ok(space) => space,
            Err(error) if error.kind() == spillway::ErrorKind::NotFound => {
                let space = txn.create_table(CATALOG, DEFAULT_ENGINE.kind)?;
                let root = UserDef { grants: user::everything(), ..UserDef::new(0, "root", "%") };
                let change = Change { txn: &txn, space };
                txn.put(space, FORMAT_KEY, &FORMAT.to_le_bytes())?;
                change.put_user(&root)?;
                change.put_database(&DatabaseDef {
                    name: "test".to_owned(),
                    collation: Collation::GeneralCi,
                })?;
                space
            }
            Err(error) => return Err(error.into()),
        };
        let format = Change { txn: &txn, space }.number(FORMAT_KEY)?;
        if format != FORMAT {
            let text = format!("The catalog is of format {format}, not {FORMAT}");
            return Err(SqlError::new(1034, text));
        }
        let catalog = Catalog::read(&txn, space)?;
        txn.commit().wait()?;
        Ok(catalog)
    }

    fn read(txn: &Transaction, space: Table) -> Result<Catalog> {
        let mut catalog = Catalog { version: 1, ..Catalog::default() };
        let mut scan = txn.scan(space, KeyRange::ALL, Direction::Forward)?;
        while scan.advance()? {
            catalog.take(scan.key(), scan.value())?;
        }
        drop(scan);
        Ok(catalog)
    }

    /// Adds the object that a row of the stored catalog describes.
    pub(crate) fn take(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        match key.first() {
            Some(b'd') => {
                let database: DatabaseDef = from_json(key, value)?;
                self.databases.insert(database.name.clone(), database);
            }
            Some(b't') => {
                let mut table: TableDef = from_json(key, value)?;
                table.check().map_err(|why| damaged(key, &why))?;
                table.prepare();
                self.tables.insert((table.db.clone(), table.name.clone()), Arc::new(table));
            }
            Some(b'u') => {
                let user: UserDef = from_json(key, value)?;
                self.users.insert((user.name.clone(), user.host.clone()), user);
            }
            _ => {}
        }
        Ok(())
    }

    /// Applies the catalog rows that a transaction has written. Returns the tables that were
    /// changed or dropped, and the names of new tables.
    pub(crate) fn change(
        &mut self,
        written: &[(Vec<u8>, Option<Vec<u8>>)],
    ) -> Result<(Vec<Arc<TableDef>>, Vec<(String, String)>)> {
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for (key, value) in written {
            let table = table_of(key);
            old.extend(table.as_ref().and_then(|name| self.tables.remove(name)));
            match (value, key.first()) {
                (Some(value), _) => {
                    self.take(key, value)?;
                    new.extend(table);
                }
                (None, Some(b'd')) => {
                    let name = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
                    self.databases.remove(&name(key.strip_prefix(b"d/").unwrap_or_default()));
                }
                (None, Some(b'u')) => self.users.retain(|_, user| user_key(user).as_bytes() != key),
                (None, _) => {}
            }
        }
        Ok((old, new))
    }

    /// Sets the commits from which on a table's key spaces are complete.
    pub(crate) fn tell_since(&mut self, name: &(String, String), since: &BTreeMap<u32, Csn>) {
        let Some(table) = self.tables.get_mut(name) else { return };
        if table.spaces().any(|space| since.contains_key(&space)) {
            let table = Arc::make_mut(table);
            let of = |space: u32| since.get(&space).copied().unwrap_or_default();
            table.since = of(table.space);
            self.since = self.since.max(table.since);
            table.indexes.iter_mut().for_each(|index| index.since = of(index.space));
        }
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

    /// The account for a user name and a client host. If several match, it is the one with the most
    /// specific host (`hosts`).
    pub(crate) fn user(&self, name: &str, host: &str) -> Option<&UserDef> {
        let of_name = self.users.range((name.to_owned(), String::new())..);
        let of_name = of_name.take_while(|((other, _), _)| other == name);
        let fitting = of_name.filter_map(|(_, user)| Some((hosts::fit(&user.host, host)?, user)));
        fitting.max_by_key(|(fit, _)| *fit).map(|(_, user)| user)
    }
}

/// Changes of the catalog within a transaction.
pub(crate) struct Change<'t> {
    pub(crate) txn: &'t Transaction,
    pub(crate) space: Table,
}

/// The progress of a table's index build.
#[derive(Clone, Default, Debug)]
pub(crate) struct Progress {
    /// Whether the indexes are to be dropped.
    pub(crate) doomed: bool,
    /// The key of the last row whose entries are written.
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
        match *value {
            [] => Ok(0),
            _ => match value.try_into() {
                Ok(bytes) => Ok(u64::from_le_bytes(bytes)),
                Err(_) => Err(damaged(key, &"it is no number")),
            },
        }
    }

    /// A number for a table that no table has had before.
    pub(crate) fn next_table_id(&self, catalog: &Catalog) -> Result<u32> {
        let used = catalog.tables.values().map(|table| table.id).max().unwrap_or(0);
        let next = self.number(b"n")?.max(u64::from(used)) + 1;
        self.txn.put(self.space, b"n", &next.to_le_bytes())?;
        u32::try_from(next).map_err(|_| SqlError::new(1105, "there are no more table numbers"))
    }

    /// A bound above all AUTO_INCREMENT numbers that a table has given; 0 if none is recorded.
    pub(crate) fn auto_increment_bound(&self, table: u32) -> Result<u64> {
        self.number(&bound_key(table))
    }

    pub(crate) fn put_auto_increment_bound(&self, table: u32, bound: u64) -> Result<()> {
        Ok(self.txn.put(self.space, &bound_key(table), &bound.to_le_bytes())?)
    }

    pub(crate) fn delete_auto_increment_bound(&self, table: u32) -> Result<()> {
        Ok(self.txn.delete(self.space, &bound_key(table))?)
    }

    /// The progress of a table's index build.
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

    /// Deletes the progress of a table's index build, and the recorded possible duplicates.
    pub(crate) fn delete_progress(&self, table: u32) -> Result<()> {
        self.txn.delete(self.space, &progress_key(table))?;
        let (start, end) = met_range(table);
        self.txn.delete_range(self.space, KeyRange::new(&start, end.as_deref()))?;
        Ok(())
    }

    /// Records that a locked row may have the same values as another row in a unique index that is
    /// being built. The write is not checked against the snapshot, and waits for no lock.
    pub(crate) fn put_met(&self, table: u32, row: &[u8]) -> Result<()> {
        Ok(self.txn.put_following(self.space, &met_key(table, row), Some(&[]))?)
    }

    /// Passes on the keys of the rows that [`Change::put_met`] has recorded.
    pub(crate) fn each_met(
        &self,
        table: u32,
        mut visit: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        let (start, end) = met_range(table);
        let range = KeyRange::new(&start, end.as_deref());
        let mut scan = self.txn.scan(self.space, range, Direction::Forward)?;
        while scan.advance()? {
            visit(&scan.key()[start.len()..])?;
        }
        Ok(())
    }

    /// A number for an account that no account has had before.
    pub(crate) fn next_account_id(&self) -> Result<u64> {
        let next = self.number(ACCOUNT_NUMBER)? + 1;
        self.txn.put(self.space, ACCOUNT_NUMBER, &next.to_le_bytes())?;
        Ok(next)
    }

    pub(crate) fn put_user(&self, user: &UserDef) -> Result<()> {
        Ok(self.txn.put(self.space, user_key(user).as_bytes(), &json(user)?)?)
    }

    pub(crate) fn delete_user(&self, user: &UserDef) -> Result<()> {
        Ok(self.txn.delete(self.space, user_key(user).as_bytes())?)
    }

    /// Creates a key space for a table, in the table's engine. The key space's name never changes
    /// and is never shown.
    pub(crate) fn create_space(&self, table: u32, engine: EngineKind, label: &str) -> Result<u32> {
        let name = |number: usize| format!("{}{label}/{number}", spaces_of(table));
        let mut number = self.txn.tables(&spaces_of(table))?.len();
        while self.txn.table(&name(number)).is_ok() {
            number += 1;
        }
        Ok(self.txn.create_table(&name(number), engine)?.0)
    }

    /// Drops a key space of a table, if it exists.
    pub(crate) fn drop_space(&self, table: u32, space: u32) -> Result<()> {
        for (name, at) in self.txn.tables(&spaces_of(table))? {
            if at.0 == space {
                return Ok(self.txn.drop_table(&name)?);
            }
        }
        Ok(())
    }
}

/// The prefix of the names of a table's key spaces.
fn spaces_of(table: u32) -> String {
    format!("{SPACE_NAMES}{table}/")
}

/// The key of a table. The names are separated by the first slash, because a slash in a name is
/// written as `%2F`.
fn table_key(table: &TableDef) -> Vec<u8> {
    let db = table.db.replace('%', "%25").replace('/', "%2F");
    format!("t/{db}/{}", table.name).into_bytes()
}

/// The names in a table's key.
fn table_of(key: &[u8]) -> Option<(String, String)> {
    let text = std::str::from_utf8(key).ok()?.strip_prefix("t/")?;
    let (db, name) = text.split_once('/')?;
    Some((db.replace("%2F", "/").replace("%25", "%"), name.to_owned()))
}

/// The key of a user. The first `@` separates name and host.
fn user_key(user: &UserDef) -> String {
    format!("u/{}@{}", user.name.replace('%', "%25").replace('@', "%40"), user.host)
}

fn progress_key(table: u32) -> Vec<u8> {
    [b"b/".as_slice(), &table.to_be_bytes()].concat()
}

fn met_key(table: u32, row: &[u8]) -> Vec<u8> {
    [b"m/".as_slice(), &table.to_be_bytes(), row].concat()
}

fn met_range(table: u32) -> (Vec<u8>, Option<Vec<u8>>) {
    let start = met_key(table, &[]);
    let end = end_of(&start);
    (start, end)
}

fn bound_key(table: u32) -> Vec<u8> {
    [b"a/".as_slice(), &table.to_be_bytes()].concat()
}

/// Options of a transaction that also reads data which is not durable yet, and whose commit does
/// not wait until it is durable.
pub(crate) fn unawaited() -> TransactionOptions {
    TransactionOptions::new().durability(Durability::Within(Duration::from_secs(1)))
}

/// Drops the key spaces that `some` selects and that belong to no table in the stored catalog.
pub(crate) fn remove_unnamed_spaces(db: &Database, some: impl Fn(u32) -> bool) -> Result<()> {
    let txn = db.begin(unawaited());
    let catalog = Catalog::read(&txn, txn.table(CATALOG)?)?;
    let named: BTreeSet<u32> = catalog.tables.values().flat_map(|table| table.spaces()).collect();
    for (name, space) in txn.tables(SPACE_NAMES)? {
        if some(space.0) && !named.contains(&space.0) {
            txn.drop_table(&name)?;
        }
    }
    txn.commit().wait()?;
    Ok(())
}

/// The end of the range of keys that begin with a prefix.
pub(crate) fn end_of(prefix: &[u8]) -> Option<Vec<u8>> {
    prefix_end(prefix)
}

/// The date and time in UTC of a time in microseconds.
pub(crate) fn utc(micros: i64) -> DateTime {
    DateTime::from_unix_micros(micros).unwrap_or(DateTime { date: Date::default(), micros: 0 })
}
