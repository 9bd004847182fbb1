//! Writes rows together with their index entries.
//!
//! A row is stored at its primary key in the table's key space. Each index has an entry for the
//! row. The entry's key consists of the index's columns, followed by the primary key. The entry's
//! value is empty.
//!
//! An entry depends only on its row. A writer changes an entry only while the writer holds the
//! row's lock, and after it has checked that the row does not conflict with the transaction's
//! snapshot. So the writer need not check the entry itself: an entry that was written after the
//! snapshot, for example by the build of an index (`ddl/online`), causes no conflict.
//!
//! # Uniqueness
//!
//! The keys of all entries that have the same column values begin with the same prefix. To keep a
//! unique index unique, a writer takes these steps:
//!
//! 1. It takes an exclusive lock on the prefix.
//! 2. It searches for another row's entry with the prefix. The search reads the newest state, not
//!    the transaction's snapshot, so it also finds entries that were committed after the snapshot.
//! 3. If it finds an entry, it locks the entry, or the entry's row if the statement will change
//!    that row. A transaction that is deleting the entry holds both locks, so the writer waits for
//!    that transaction. Then the writer searches again. If the entry still exists, it is a
//!    duplicate.
//!
//! A writer locks the entry that it writes only if another transaction may lock that entry without
//! an exclusive lock of the row. There are two such cases. In a unique index, other writers lock
//! the entry in step 3. In an index that is being built, the build writes entries while it holds
//! only a shared lock of the row (`ddl/online`).
//!
//! An index that is being built never refuses a row, because the build may still fail. If a
//! transaction gives a row index values that another row may also have, the transaction records the
//! row in the catalog and continues ([`note_met`]). The build checks the recorded rows before it
//! ends.

use std::borrow::Borrow;

use spillway::{
    Direction, Error, ErrorKind, Isolation, KeyRange, LockMode, LockWait, Scan, Transaction,
    successor,
};
use spillway_base::TableId;
use spillway_types::{Value, key};

use crate::catalog::{Change, IndexDef, IndexPart, Stage, TableDef, end_of, stored_rows};
use crate::errors::{Result, SqlError};
use crate::expression::Room;

/// The initial capacity for a key.
const KEY_BYTES: usize = 32;

fn write_parts<V: Borrow<Value>>(
    table: &TableDef,
    parts: &[IndexPart],
    row: &[V],
    out: &mut Vec<u8>,
) {
    for part in parts {
        let (column, value) = (&table.columns[part.column], row[part.column].borrow());
        key::write_part(&value.as_ref(), &column.ty, column.collation, part.prefix, out);
    }
}

/// The key of a row: its primary key, or its row number if the table has none.
pub(crate) fn primary_key(table: &TableDef, row: &[Value], row_number: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(KEY_BYTES);
    write_primary_key(table, row, row_number, &mut key);
    key
}

/// As [`primary_key`], appended to `out`.
pub(crate) fn write_primary_key(
    table: &TableDef,
    row: &[Value],
    row_number: u64,
    out: &mut Vec<u8>,
) {
    if table.primary.is_empty() {
        out.extend_from_slice(&row_number.to_be_bytes());
    } else {
        write_parts(table, &table.primary, row, out);
    }
}

/// The key of a row's entry in an index.
pub(crate) fn index_key(table: &TableDef, index: &IndexDef, row: &[Value], pk: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(KEY_BYTES);
    write_index_key(table, index, row, pk, &mut key);
    key
}

fn write_index_key<V: Borrow<Value>>(
    table: &TableDef,
    index: &IndexDef,
    row: &[V],
    pk: &[u8],
    out: &mut Vec<u8>,
) {
    write_parts(table, &index.parts, row, out);
    out.extend_from_slice(pk);
}

/// The part of an index's key that must be unique. `None` if a column is NULL, or if duplicates are
/// not checked yet.
fn unique_prefix(table: &TableDef, index: &IndexDef, row: &[Value]) -> Option<Vec<u8>> {
    let looked_at = index.unique && index.stage != Stage::Filling;
    if !looked_at || index.parts.iter().any(|part| row[part.column].is_null()) {
        return None;
    }
    let mut key = Vec::with_capacity(KEY_BYTES);
    write_parts(table, &index.parts, row, &mut key);
    Some(key)
}

pub(crate) fn duplicate(
    table: &TableDef,
    parts: &[IndexPart],
    row: &[Value],
    name: &str,
) -> SqlError {
    let shown: Vec<String> = parts.iter().map(|part| row[part.column].to_text()).collect();
    let shown: String = shown.join("-").chars().take(64).collect();
    let key = format!("' for key '{}.{name}'", table.name);
    SqlError::quoting(1062, "Duplicate entry '", &shown, &key)
}

/// What a search for an entry with the same values locks, so that its result stays valid.
enum Guard<'t> {
    /// The entry that was found. This is enough if the result is an error.
    Entry,
    /// The row of the entry, because the caller will change it. A row is locked before its entries.
    Row(&'t TableDef),
}

/// The primary key of the first other row that has the same index values in the newest state.
fn newest_holder(
    txn: &Transaction,
    index: &IndexDef,
    prefix: &[u8],
    own: &[u8],
) -> Result<Option<Vec<u8>>> {
    let end = end_of(prefix);
    let range = KeyRange::new(prefix, end.as_deref());
    let scan = txn.scan_newest(TableId(index.space), range, Direction::Forward)?;
    other_than(scan, prefix, own)
}

fn other_than(mut scan: Scan<'_>, prefix: &[u8], own: &[u8]) -> Result<Option<Vec<u8>>> {
    while scan.advance()? {
        let pk = &scan.key()[prefix.len()..];
        if pk != own {
            return Ok(Some(pk.to_vec()));
        }
    }
    Ok(None)
}

/// The primary key of another row that has the same index values, if there is one. Until this
/// transaction ends, no other transaction gives a row these values or takes them from the row that
/// was found.
fn holder(
    txn: &Transaction,
    index: &IndexDef,
    prefix: &[u8],
    own: &[u8],
    guard: &Guard<'_>,
) -> Result<Option<Vec<u8>>> {
    let space = TableId(index.space);
    txn.lock_name(space, prefix, LockMode::Exclusive, LockWait::Wait)?;
    let found = newest_locked(txn, index, prefix, own, guard)?;
    if txn.options().isolation == Isolation::Serializable {
        // The snapshot must show the same row with these values, or none as well. The read is
        // recorded for the detection of conflicts (SSI-1).
        let end = end_of(prefix);
        let scan = txn.scan(space, KeyRange::new(prefix, end.as_deref()), Direction::Forward)?;
        if other_than(scan, prefix, own)? != found {
            return Err(conflict_with_newer(space));
        }
    }
    Ok(found)
}

/// The primary key of another row that has the same index values in the newest state. What `guard`
/// names is locked first.
fn newest_locked(
    txn: &Transaction,
    index: &IndexDef,
    prefix: &[u8],
    own: &[u8],
    guard: &Guard<'_>,
) -> Result<Option<Vec<u8>>> {
    let space = TableId(index.space);
    while let Some(pk) = newest_holder(txn, index, prefix, own)? {
        match guard {
            Guard::Entry => {
                let entry = [prefix, &pk].concat();
                match txn.lock(space, &entry, LockMode::Shared, LockWait::Wait) {
                    // The lock is held nevertheless, and it does not matter that the entry is newer
                    // than the snapshot.
                    Err(error) if error.kind() == ErrorKind::WriteConflict => {}
                    other => drop(other?),
                }
            }
            Guard::Row(table) => {
                txn.lock(table.rows(), &pk, LockMode::Exclusive, LockWait::Wait)?;
            }
        }
        if newest_holder(txn, index, prefix, own)?.as_ref() == Some(&pk) {
            return Ok(Some(pk));
        }
    }
    Ok(None)
}

fn conflict_with_newer(of: TableId) -> SqlError {
    let text = "a row with the same key came or went after this transaction began to read";
    Error::new(ErrorKind::WriteConflict, text).of_table(of).into()
}

/// The primary key of an existing row that conflicts with this one, if any, and whether they
/// conflict in the table's last unique key. That row is then locked. Also takes the locks that the
/// insertion of this row needs.
pub(crate) fn conflict(
    txn: &Transaction,
    table: &TableDef,
    row: &[Value],
    pk: &[u8],
) -> Result<Option<(Vec<u8>, bool)>> {
    let mut old = Vec::new();
    let mut indexes = table.unique_indexes().peekable();
    if !table.primary.is_empty()
        && txn.get_locked(table.rows(), pk, LockMode::Exclusive, LockWait::Wait, &mut old)?
    {
        return Ok(Some((pk.to_vec(), indexes.peek().is_none())));
    }
    while let Some(index) = indexes.next() {
        if let Some(prefix) = unique_prefix(table, index, row)
            && let Some(other) = holder(txn, index, &prefix, &[], &Guard::Row(table))?
        {
            return Ok(Some((other, indexes.peek().is_none())));
        }
    }
    Ok(None)
}

/// For a duplicate that is to be ignored: fails if the transaction's snapshot does not show the
/// duplicate row. What the transaction reads would otherwise contradict the result.
pub(crate) fn check_readable(
    txn: &Transaction,
    table: &TableDef,
    row: &[Value],
    pk: &[u8],
) -> Result<()> {
    if txn.acts_on_newest() {
        return Ok(());
    }
    let mut bytes = Vec::new();
    let mut readable = |key: &[u8]| -> Result<()> {
        match txn.get(table.rows(), key, &mut bytes)? {
            true => Ok(()),
            false => Err(conflict_with_newer(table.rows())),
        }
    };
    let end = successor(pk);
    let mut own =
        txn.scan_newest(table.rows(), KeyRange::new(pk, Some(&end)), Direction::Forward)?;
    if own.advance()? {
        readable(pk)?;
    }
    for index in &table.indexes {
        if let Some(prefix) = unique_prefix(table, index, row)
            && let Some(other) = newest_holder(txn, index, &prefix, pk)?
        {
            readable(&other)?;
        }
    }
    Ok(())
}

/// Writes a new row and its index entries.
pub(crate) fn insert_row(
    txn: &Transaction,
    table: &TableDef,
    row: &[Value],
    pk: &[u8],
    room: &Room,
) -> Result<()> {
    let mut bytes = room.row();
    stored_rows::write(table, row, &mut bytes);
    insert_bytes(txn, table, row, pk, &bytes)?;
    for index in table.maintained() {
        insert_entry(txn, table, index, row, pk, room)?;
    }
    replace_entries(txn, table, Some(row), pk)
}

/// Called when the transaction changes or deletes a newer version of a row than its snapshot has.
/// Makes the transaction's own plain reads find the row by the right entries (NEWEST-4): deletes
/// the entries that the snapshot has and writes those of the row, even if another transaction has
/// already done so.
fn replace_entries<V: Borrow<Value>>(
    txn: &Transaction,
    table: &TableDef,
    now: Option<&[V]>,
    pk: &[u8],
) -> Result<()> {
    let mut bytes = Vec::new();
    if table.maintained().next().is_none() {
        return Ok(());
    }
    let Some(was_there) = txn.get_replaced(table.rows(), pk, &mut bytes)? else { return Ok(()) };
    let mut replaced = Vec::new();
    if was_there {
        table.decode(&bytes, &mut replaced)?;
    }
    for index in table.maintained() {
        let was = was_there.then(|| index_key(table, index, &replaced, pk));
        let is = now.map(|now| {
            let mut key = Vec::with_capacity(KEY_BYTES);
            write_index_key(table, index, now, pk, &mut key);
            key
        });
        if was == is {
            continue;
        }
        for (key, value) in [(was, None), (is, Some(&[][..]))] {
            if let Some(key) = key {
                put_following(txn, (index, &key), value, (table.rows(), pk))?;
            }
        }
    }
    Ok(())
}

/// Writes a new row, given as bytes, without its index entries. A caller that reports a duplicate
/// must first wait until the duplicate row is durable.
pub(crate) fn insert_bytes(
    txn: &Transaction,
    table: &TableDef,
    row: &[Value],
    pk: &[u8],
    bytes: &[u8],
) -> Result<()> {
    match txn.insert(table.rows(), pk, bytes) {
        Err(error) if error.kind() == ErrorKind::DuplicateKey => {
            Err(duplicate(table, &table.primary, row, "PRIMARY"))
        }
        outcome => Ok(outcome?),
    }
}

/// Writes or deletes an index entry of a row that is locked exclusively. For an index that is
/// complete and not unique, the lock of the row is enough: no other transaction writes or locks the
/// entry.
fn put_following(
    txn: &Transaction,
    (index, key): (&IndexDef, &[u8]),
    value: Option<&[u8]>,
    row: (TableId, &[u8]),
) -> Result<()> {
    let space = TableId(index.space);
    if index.unique || index.stage != Stage::Done {
        txn.put_following(space, key, value)?;
    } else {
        txn.put_guarded(space, key, value, row)?;
    }
    Ok(())
}

/// Writes a row's entry in one index.
pub(crate) fn insert_entry(
    txn: &Transaction,
    table: &TableDef,
    index: &IndexDef,
    row: &[Value],
    pk: &[u8],
    room: &Room,
) -> Result<()> {
    if let Some(prefix) = unique_prefix(table, index, row) {
        if index.stage == Stage::Checking {
            note_met(txn, table, index, &prefix, pk)?;
        } else if holder(txn, index, &prefix, pk, &Guard::Entry)?.is_some() {
            return Err(duplicate(table, &index.parts, row, &index.name));
        }
    }
    let mut key = room.entry();
    write_index_key(table, index, row, pk, &mut key);
    put_following(txn, (index, &key), Some(&[]), (table.rows(), pk))
}

/// Records a row if another row has the same values in an index that is being built, or if a
/// transaction that holds the lock of these values may give them to another row. Waits for no lock.
fn note_met(
    txn: &Transaction,
    table: &TableDef,
    index: &IndexDef,
    prefix: &[u8],
    pk: &[u8],
) -> Result<()> {
    let space = TableId(index.space);
    let alone = match txn.lock_name(space, prefix, LockMode::Exclusive, LockWait::NoWait) {
        Err(error) if error.kind() == ErrorKind::LockNotAvailable => false,
        other => other?,
    };
    if alone && newest_holder(txn, index, prefix, pk)?.is_none() {
        return Ok(());
    }
    Change::new(txn)?.put_met(table.id, pk)
}

/// Checks a recorded row. Fails if the row exists and another row has the same values in a unique
/// index that is being built.
pub(crate) fn check_met(txn: &Transaction, table: &TableDef, pk: &[u8]) -> Result<()> {
    let (mut bytes, mut row) = (Vec::new(), Vec::new());
    if !txn.get(table.rows(), pk, &mut bytes)? {
        return Ok(());
    }
    table.decode(&bytes, &mut row)?;
    for index in &table.building {
        let Some(prefix) = unique_prefix(table, index, &row) else { continue };
        let end = end_of(&prefix);
        let range = KeyRange::new(&prefix, end.as_deref());
        let scan = txn.scan(TableId(index.space), range, Direction::Forward)?;
        if other_than(scan, &prefix, pk)?.is_some() {
            return Err(duplicate(table, &index.parts, &row, &index.name));
        }
    }
    Ok(())
}

/// Writes a row's entry in one index, without a check for duplicates. Returns the entry's length.
pub(crate) fn put_entry(
    txn: &Transaction,
    table: &TableDef,
    index: &IndexDef,
    row: &[Value],
    pk: &[u8],
) -> Result<usize> {
    let key = index_key(table, index, row, pk);
    txn.put_following(TableId(index.space), &key, Some(&[]))?;
    Ok(key.len())
}

/// Replaces a row by another, and writes only the index entries that change. A value counts as
/// unchanged if both rows refer to the same value in memory.
pub(crate) fn update_row<V: Borrow<Value>>(
    txn: &Transaction,
    table: &TableDef,
    (old, new): (&[V], &[Value]),
    old_pk: &[u8],
    new_pk: &[u8],
    room: &Room,
) -> Result<()> {
    if old_pk != new_pk {
        delete_row(txn, table, old, old_pk)?;
        return insert_row(txn, table, new, new_pk, room);
    }
    update_entries(txn, table, (old, new), old_pk, room)?;
    replace_entries(txn, table, Some(new), old_pk)?;
    let mut bytes = room.other();
    stored_rows::write(table, new, &mut bytes);
    Ok(txn.put(table.rows(), new_pk, &bytes)?)
}

/// Updates the index entries of a row that changes but keeps its key. A value counts as unchanged
/// if both rows refer to the same value in memory.
fn update_entries<V: Borrow<Value>>(
    txn: &Transaction,
    table: &TableDef,
    (old, new): (&[V], &[Value]),
    pk: &[u8],
    room: &Room,
) -> Result<()> {
    let same =
        |part: &IndexPart| std::ptr::eq(old[part.column].borrow(), &raw const new[part.column]);
    for index in table.maintained().filter(|index| !index.parts.iter().all(same)) {
        let mut before = room.other();
        let mut after = room.entry();
        write_index_key(table, index, old, pk, &mut before);
        write_index_key(table, index, new, pk, &mut after);
        if *before != *after {
            put_following(txn, (index, &before), None, (table.rows(), pk))?;
            drop((before, after));
            insert_entry(txn, table, index, new, pk, room)?;
        }
    }
    Ok(())
}

/// Removes a row and its index entries.
pub(crate) fn delete_row<V: Borrow<Value>>(
    txn: &Transaction,
    table: &TableDef,
    row: &[V],
    pk: &[u8],
) -> Result<()> {
    delete_entries(txn, table, row, pk)?;
    Ok(txn.delete(table.rows(), pk)?)
}

/// Removes a row's index entries. The row is locked.
pub(crate) fn delete_entries<V: Borrow<Value>>(
    txn: &Transaction,
    table: &TableDef,
    row: &[V],
    pk: &[u8],
) -> Result<()> {
    for index in table.maintained() {
        let mut key = Vec::with_capacity(KEY_BYTES);
        write_index_key(table, index, row, pk, &mut key);
        put_following(txn, (index, &key), None, (table.rows(), pk))?;
    }
    replace_entries(txn, table, None::<&[V]>, pk)
}
