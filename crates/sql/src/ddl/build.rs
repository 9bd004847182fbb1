//! Builds the rows and index entries of an altered table, in as many transactions as needed.
//!
//! The caller holds the table exclusively. [`Alteration::build`] writes new rows and entries into
//! key spaces that the catalog does not name yet. After that, a separate transaction switches the
//! catalog to the new key spaces and drops the old ones. If the statement fails before that switch,
//! it drops [`Built`], which removes the new key spaces. After a crash before the switch, the next
//! opening of the database removes them.
//!
//! Rejected: one transaction for the whole change, which is simpler. It would write every row
//! twice: a transaction of that size spills its writes to disk (`spillway_txn`, module `spill`),
//! and after its commit a fold copies the spilled rows into their table.

use spillway::{Database, Direction, Isolation, KeyRange, Table, Transaction, TransactionOptions};
use spillway_base::TableId;
use spillway_types::{ColumnType, StoreError, Value, key};

use super::alter::Alteration;
use super::instant::Way;
use super::keys::UNBUILT;
use crate::catalog::{
    Change, ColumnDef, DefaultValue, IndexDef, TableDef, remove_unnamed_spaces, shift_timestamps,
    stored_rows, unawaited,
};
use crate::errors::{Result, SqlError};
use crate::executor::store;
use crate::expression::{Context, Expr, retyped, truth_of};
use crate::planner::{bind_check, bind_default};

/// The bytes of rows and keys that one transaction writes, and the overhead that is counted for
/// each entry.
const BATCH_BYTES: usize = 256 << 10;
const ENTRY_BYTES: usize = 128;

/// Key spaces that were built. When this is dropped, it removes those that the stored catalog does
/// not name.
pub(crate) struct Built {
    db: Database,
    spaces: Vec<u32>,
}

impl Built {
    /// The key spaces that were built. They are complete once the catalog names them.
    pub(crate) fn spaces(&self) -> &[u32] {
        &self.spaces
    }

    /// Keeps the key spaces, because the catalog names them now.
    pub(crate) fn keep(mut self) {
        self.spaces.clear();
    }
}

impl Drop for Built {
    fn drop(&mut self) {
        if !self.spaces.is_empty() {
            // If this fails, the next opening removes them.
            let _ = remove_unnamed_spaces(&self.db, |space| self.spaces.contains(&space));
        }
    }
}

/// Writes in transactions of a limited size, and waits until each is durable, because engines flush
/// only durable versions.
struct Batches<'d> {
    db: &'d Database,
    txn: Option<Transaction>,
    bytes: usize,
}

impl Batches<'_> {
    fn txn(&mut self) -> &Transaction {
        // No other transaction writes to these key spaces, so no snapshot can conflict.
        let options = TransactionOptions::new().isolation(Isolation::ReadCommitted);
        self.txn.get_or_insert_with(|| self.db.begin(options))
    }

    /// Commits the current transaction if an entry of this size does not fit in it.
    fn make_room(&mut self, bytes: usize) -> Result<()> {
        if self.bytes > 0 && self.bytes + ENTRY_BYTES + bytes > BATCH_BYTES {
            self.commit()?;
        }
        self.bytes += ENTRY_BYTES + bytes;
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        self.bytes = 0;
        match self.txn.take() {
            Some(txn) => Ok(txn.commit().wait().map(drop)?),
            None => Ok(()),
        }
    }
}

/// The value of a new column in an existing row.
enum Filling {
    Const(Value),
    /// Consecutive numbers from one.
    Numbers,
    Expr(Expr),
}

impl Alteration {
    /// Builds the key spaces that the new definition needs, and enters them in the definition.
    /// Checks the rows against new constraints.
    pub(crate) fn build(&mut self, context: &Context<'_>) -> Result<Built> {
        let db = context.server.database();
        let mut built = Built { db: db.clone(), spaces: Vec::new() };
        if self.way() == Way::Instant {
            return Ok(built);
        }
        let new = self.create_spaces(db, &mut built)?;
        let checks = self.bound_checks(context)?;
        let fillings = self.fillings(context)?;
        let mut out = Batches { db, txn: None, bytes: 0 };
        let mut scan = context.txn.scan(self.before.rows(), KeyRange::ALL, Direction::Forward)?;
        let (mut number, mut old) = (0_u64, Vec::new());
        while scan.advance()? {
            number += 1;
            context.check_killed()?;
            old.clear();
            if self.rewrite {
                self.before.decode(scan.value(), &mut old)?;
                // A TIMESTAMP is stored in UTC. If the column has another type before or after, the
                // other value is in the session's time zone.
                let offset = context.variables.borrow().time_offset_micros;
                shift_timestamps(&self.before, &mut old, offset);
                let mut row = self.new_row(context, &old, &fillings, number)?;
                shift_timestamps(&self.after, &mut row, -offset);
                self.hold_to(context, &checks, &row)?;
                let given = self.after.primary.is_empty() && !self.renumber;
                let pk = if given {
                    scan.key().to_vec()
                } else {
                    store::primary_key(&self.after, &row, number)
                };
                self.put_row(&mut out, &row, &pk)?;
            } else {
                self.after.decode(scan.value(), &mut old)?;
                self.hold_to(context, &checks, &old)?;
                for index in self.after.indexes.iter().filter(|index| new.contains(&index.space)) {
                    put_entry(&mut out, &self.after, index, &old, scan.key())?;
                }
            }
        }
        drop(scan);
        context.check_killed()?;
        out.commit()?;
        for index in self.after.indexes.iter().filter(|index| new.contains(&index.space)) {
            if index.unique {
                check_unique(db, &self.after, index, &|| context.check_killed())?;
            }
        }
        Ok(built)
    }

    /// Creates the key spaces to be filled. Returns those of the indexes.
    fn create_spaces(&mut self, db: &Database, built: &mut Built) -> Result<Vec<u32>> {
        let txn = db.begin(unawaited());
        let change = Change::new(&txn)?;
        let (id, engine) = (self.after.id, self.after.engine);
        let mut create = |label: &str| -> Result<u32> {
            let space = change.create_space(id, engine, label)?;
            built.spaces.push(space);
            Ok(space)
        };
        if self.rewrite {
            self.after.space = create("rows")?;
        }
        let mut new = Vec::new();
        for index in &mut self.after.indexes {
            if self.rewrite || index.space == UNBUILT {
                index.space = create(&index.name)?;
                new.push(index.space);
            }
        }
        txn.commit().wait()?;
        Ok(new)
    }

    fn bound_checks(&self, context: &Context<'_>) -> Result<Vec<(String, Expr)>> {
        let checks = self.after.checks.iter();
        let checks = checks.filter(|check| self.validate.contains(&check.name));
        checks
            .map(|check| Ok((check.name.clone(), bind_check(context.catalog, &self.after, check)?)))
            .collect()
    }

    /// Fails if a row violates a constraint.
    fn hold_to(
        &self,
        context: &Context<'_>,
        checks: &[(String, Expr)],
        row: &[Value],
    ) -> Result<()> {
        if checks.is_empty() {
            return Ok(());
        }
        let mut row = row.to_vec();
        shift_timestamps(&self.after, &mut row, context.variables.borrow().time_offset_micros);
        for (name, expr) in checks {
            let value = context.eval(expr, &row)?;
            if !value.is_null() && !truth_of(&value) {
                let text = format!("Check constraint '{name}' is violated.");
                return Err(SqlError::new(3819, text));
            }
        }
        Ok(())
    }

    /// The value of each new column that does not come from an old one.
    fn fillings(&self, context: &Context<'_>) -> Result<Vec<Option<Filling>>> {
        let filling = |column: &ColumnDef| -> Result<Filling> {
            Ok(match &column.default {
                _ if column.auto_increment => Filling::Numbers,
                DefaultValue::CurrentTimestamp => Filling::Const(Value::DateTime(context.now())),
                DefaultValue::Expr(text) => {
                    Filling::Expr(bind_default(context.catalog, &column.name, text)?)
                }
                _ => Filling::Const(column.constant_default()),
            })
        };
        let columns = self.after.columns.iter().zip(&self.origin);
        columns.map(|(column, from)| from.is_none().then(|| filling(column)).transpose()).collect()
    }

    /// A row converted to the new definition.
    fn new_row(
        &self,
        context: &Context<'_>,
        old: &[Value],
        fillings: &[Option<Filling>],
        number: u64,
    ) -> Result<Vec<Value>> {
        let mut row = Vec::with_capacity(self.after.columns.len());
        for ((column, from), filling) in self.after.columns.iter().zip(&self.origin).zip(fillings) {
            let value = match (from, filling) {
                (Some(from), _) => {
                    retyped(&old[*from], &self.before.columns[*from].ty, &column.ty, context.now())
                }
                (None, Some(Filling::Numbers)) => Value::UInt(number),
                (None, Some(Filling::Expr(expr))) => context.eval(expr, &[])?,
                (None, Some(Filling::Const(value))) => value.clone(),
                (None, None) => Value::Null,
            };
            row.push(stored(column, &value, number)?);
        }
        Ok(row)
    }

    fn put_row(&self, out: &mut Batches<'_>, row: &[Value], pk: &[u8]) -> Result<()> {
        let mut bytes = Vec::new();
        stored_rows::write(&self.after, row, &mut bytes);
        out.make_room(pk.len() + bytes.len())?;
        store::insert_bytes(out.txn(), &self.after, row, pk, &bytes)?;
        let mut indexes = self.after.indexes.iter();
        indexes.try_for_each(|index| put_entry(out, &self.after, index, row, pk))
    }
}

/// Reads a new index in order, and fails if two adjacent entries have the same values, which are
/// duplicates. `goes_on` fails if the check must stop.
pub(super) fn check_unique(
    db: &Database,
    table: &TableDef,
    index: &IndexDef,
    goes_on: &dyn Fn() -> Result<()>,
) -> Result<()> {
    let txn = db.begin(unawaited().read_only(true));
    let space: Table = TableId(index.space);
    let mut scan = txn.scan(space, KeyRange::ALL, Direction::Forward)?;
    let (mut last, mut count) = (Vec::new(), 0_u32);
    while scan.advance()? {
        count = count.wrapping_add(1);
        if count.is_multiple_of(256) {
            goes_on()?;
        }
        let Some(len) = values_len(table, index, scan.key())? else { continue };
        let (values, pk) = scan.key().split_at(len);
        if values == last.as_slice() {
            let (mut bytes, mut row) = (Vec::new(), Vec::new());
            txn.get(table.rows(), pk, &mut bytes)?;
            table.decode(&bytes, &mut row)?;
            return Err(store::duplicate(table, &index.parts, &row, &index.name));
        }
        last.clear();
        last.extend_from_slice(values);
    }
    Ok(())
}

fn put_entry(
    out: &mut Batches<'_>,
    table: &TableDef,
    index: &IndexDef,
    row: &[Value],
    pk: &[u8],
) -> Result<()> {
    let key = store::index_key(table, index, row, pk);
    out.make_room(key.len())?;
    Ok(out.txn().put(TableId(index.space), &key, &[])?)
}

/// The length of the index values at the front of an entry. `None` if one of them is NULL, because
/// NULL is no duplicate of anything.
fn values_len(table: &TableDef, index: &IndexDef, entry: &[u8]) -> Result<Option<usize>> {
    let mut len = 0;
    for part in &index.parts {
        let rest = entry.get(len..).unwrap_or_default();
        if rest.first() == Some(&0) {
            return Ok(None);
        }
        len += key::part_len(rest, &table.columns[part.column].ty)
            .ok_or("an index key makes no sense")?;
    }
    Ok((len <= entry.len()).then_some(len))
}

/// A value in the form in which a column stores it.
pub(super) fn stored(column: &ColumnDef, value: &Value, row: u64) -> Result<Value> {
    if value.is_null() {
        if !column.nullable {
            return Err(SqlError::new(1138, "Invalid use of NULL value"));
        }
        return Ok(Value::Null);
    }
    let error = |why| SqlError::store(why, &column.name, value, row);
    let stored = column.ty.store_in(value, column.collation).map_err(|(why, _)| error(why))?;
    if column.ty == ColumnType::Json
        && serde_json::from_str::<serde::de::IgnoredAny>(&stored.to_text()).is_err()
    {
        return Err(error(StoreError::Json));
    }
    Ok(stored)
}
