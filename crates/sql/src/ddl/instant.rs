//! Changes of a table that do not rewrite its rows: readers convert the stored rows to the new
//! definition (`catalog/stored_rows`). This module also chooses the method of an ALTER TABLE.
//!
//! A statement uses the first of these methods ([`Way`]) that can execute all its clauses.
//! ALGORITHM and LOCK clauses may exclude methods. If no method remains, the statement fails.
//!
//! - **instantly**: no row is read or written;
//! - **online**: indexes are built while other sessions read and write the table (`online`), and
//!   every other clause of the statement is instant;
//! - **in place**: rows are read, to build indexes or to check constraints, but not rewritten; the
//!   statement holds the table exclusively;
//! - **by copying**: all rows are rewritten in the newest version, with all their index entries;
//!   the statement holds the table exclusively.
//!
//! With the first three methods, an existing index is kept if its entries are byte for byte the
//! same under the new definition, and rebuilt if they are not.

use std::ops::ControlFlow;

use spillway_types::row::widened;
use spillway_types::{ColumnType, Value};
use sqlparser::ast::{self, AlterTableAlgorithm, AlterTableLock};

use super::alter::Alteration;
use super::build::stored;
use super::checks::varies;
use super::keys::UNBUILT;
use crate::catalog::{
    Becoming, ColumnDef, DefaultValue, IndexDef, IndexPart, LAYOUTS_MAX, Layout, TableDef, moved,
    same_stored,
};
use crate::errors::{Result, SqlError};
use crate::expression::Context;
use crate::parser::parse_expr;
use crate::planner::bind_default;

/// How existing rows and index entries fit a column's changed definition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ColumnChange {
    /// Whether rows hold values that must be widened when they are read.
    pub(super) widens: bool,
    /// Whether index entries stay valid.
    pub(super) keys: bool,
}

/// How rows fit the new definition of a column; `None` if they must be rewritten.
pub(super) fn kept(old: &ColumnDef, new: &ColumnDef) -> Option<ColumnChange> {
    use ColumnType as T;
    const AS_IS: ColumnChange = ColumnChange { widens: false, keys: true };
    if old.collation != new.collation || old.nullable && !new.nullable {
        return None;
    }
    let fits = |characters: &u32, bytes_max: u64| u64::from(*characters) * 4 <= bytes_max;
    let as_is = match (&old.ty, &new.ty) {
        // CHAR is stored without trailing spaces, and the other types store such a value in the
        // same way.
        (T::Char(old), T::Char(new) | T::VarChar(new))
        | (T::VarChar(old), T::VarChar(new))
        | (T::Binary(old) | T::VarBinary(old), T::VarBinary(new)) => old <= new,
        (T::Char(old) | T::VarChar(old), T::Text(new)) => fits(old, new.bytes_max()),
        (T::Binary(old) | T::VarBinary(old), T::Blob(new)) => u64::from(*old) <= new.bytes_max(),
        (T::Text(old), T::Text(new)) | (T::Blob(old), T::Blob(new)) => {
            old.bytes_max() <= new.bytes_max()
        }
        (T::Int { width: old, unsigned: a, .. }, T::Int { width: new, unsigned: b, .. }) => {
            if !a && *b || *old as u8 > *new as u8 || a != b && old == new {
                return None;
            }
            return Some(ColumnChange { widens: a != b, keys: a == b });
        }
        (T::Float, T::Double) => return Some(ColumnChange { widens: true, keys: true }),
        (
            T::Decimal { precision: old, scale: a, unsigned: u },
            T::Decimal { precision: new, scale: b, unsigned: v },
        ) => {
            if a > b || old - a > new - b || !u && *v {
                return None;
            }
            return Some(ColumnChange { widens: a != b, keys: a == b });
        }
        (T::Time(old), T::Time(new))
        | (T::DateTime(old), T::DateTime(new))
        | (T::Timestamp(old), T::Timestamp(new)) => old <= new,
        // A row stores a member's name, an index entry its number. A value that was no member is
        // the empty text with the number 0. If a new member had the empty name, that text would
        // have another number, and old entries would be wrong.
        (T::Enum(old), T::Enum(new)) => new
            .strip_prefix(old.as_slice())
            .is_some_and(|added| !added.iter().any(String::is_empty)),
        (T::Set(old), T::Set(new)) => new.starts_with(old),
        (old, new) => old == new,
    };
    as_is.then_some(AS_IS)
}

/// The method by which an ALTER TABLE is done.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Way {
    Instant,
    Online,
    InPlace,
    Copy,
}

/// The ALGORITHM and LOCK clauses of a statement.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Demands {
    algorithm: Option<AlterTableAlgorithm>,
    lock: Option<AlterTableLock>,
}

impl Demands {
    pub(super) fn algorithm(&mut self, algorithm: AlterTableAlgorithm) {
        self.algorithm = (algorithm != AlterTableAlgorithm::Default).then_some(algorithm);
    }

    pub(super) fn lock(&mut self, lock: AlterTableLock) {
        self.lock = (lock != AlterTableLock::Default).then_some(lock);
    }

    fn insists_on_copy(&self) -> bool {
        self.algorithm == Some(AlterTableAlgorithm::Copy)
    }

    fn insists_on_instant(&self) -> bool {
        self.algorithm == Some(AlterTableAlgorithm::Instant)
    }

    fn insists_on_alone(&self) -> bool {
        self.lock == Some(AlterTableLock::Exclusive)
    }

    /// Fails if the statement excludes a method, or allows only a weaker lock than the method
    /// needs.
    fn check(&self, way: Way) -> Result<()> {
        if let (true, Some(_)) = (self.insists_on_instant(), self.lock) {
            let text = "Incorrect usage of ALGORITHM=INSTANT and LOCK=NONE/SHARED/EXCLUSIVE";
            return Err(SqlError::new(1221, text));
        }
        let refused = |what: &str, instead: &str| {
            let text = format!("{what} is not supported for this operation. Try {instead}.");
            Err(SqlError::new(1845, text))
        };
        match (self.algorithm, way) {
            (Some(AlterTableAlgorithm::Instant), Way::Online | Way::InPlace) => {
                return refused("ALGORITHM=INSTANT", "ALGORITHM=COPY/INPLACE");
            }
            (Some(AlterTableAlgorithm::Instant), Way::Copy) => {
                return refused("ALGORITHM=INSTANT", "ALGORITHM=COPY");
            }
            (Some(AlterTableAlgorithm::Inplace), Way::Copy) => {
                return refused("ALGORITHM=INPLACE", "ALGORITHM=COPY");
            }
            _ => {}
        }
        match self.lock {
            Some(lock @ (AlterTableLock::None | AlterTableLock::Shared)) if way == Way::Copy => {
                let text = format!(
                    "LOCK={lock} is not supported. Reason: COPY algorithm requires a lock. Try LOCK=EXCLUSIVE."
                );
                Err(SqlError::new(1846, text))
            }
            Some(lock @ (AlterTableLock::None | AlterTableLock::Shared)) if way == Way::InPlace => {
                refused(&format!("LOCK={lock}"), "LOCK=EXCLUSIVE")
            }
            _ => Ok(()),
        }
    }
}

/// Whether a column's default is the same for all rows of a statement.
pub(super) fn is_same_for_all(default: &DefaultValue) -> Result<bool> {
    let DefaultValue::Expr(text) = default else { return Ok(true) };
    let found = ast::visit_expressions(&parse_expr(text)?, |expr| match expr {
        ast::Expr::Function(function) if varies(&function.name.to_string()) => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    Ok(found.is_continue())
}

impl Alteration {
    /// Chooses the method, once the definition is complete: determines the values of new columns in
    /// existing rows, the schema version of new rows, and the indexes to build. Checks that the
    /// statement allows this method.
    pub(crate) fn settle(&mut self, context: &Context<'_>) -> Result<()> {
        self.after.number_columns(self.before.last_column_id());
        self.restart_if_new();
        let moves = self.after.engine != self.before.engine;
        self.rewrite |= moves || self.demands.insists_on_copy();
        if !self.rewrite {
            self.fill_instantly(context)?;
        }
        if !self.rewrite {
            self.compare_keys();
        }
        if !self.rewrite {
            self.version()?;
        }
        if self.rewrite {
            self.after.forget_versions();
            self.hold_to_all();
        }
        self.after.prepare();
        self.demands.check(self.way())
    }

    /// The method by which the change is done.
    pub(crate) fn way(&self) -> Way {
        let unbuilt = self.after.indexes.iter().any(|index| index.space == UNBUILT);
        match self.rewrite {
            true => Way::Copy,
            false if !unbuilt && self.validate.is_empty() => Way::Instant,
            false if !self.demands.insists_on_alone() && self.becoming().is_some() => Way::Online,
            false => Way::InPlace,
        }
    }

    /// What the table becomes while its indexes are built online, over the positions of its present
    /// columns. `None` if entries contain columns that do not exist yet, if entries would differ
    /// under the present definition, or if rows must be checked against constraints. Also `None` if
    /// the table gets another name or another next AUTO_INCREMENT number, which must not change
    /// while the table is used.
    pub(crate) fn becoming(&self) -> Option<Becoming> {
        let (before, after) = (&*self.before, &self.after);
        let same_name = before.db == after.db && before.name == after.name;
        if !same_name || self.restart || !self.validate.is_empty() {
            return None;
        }
        let part = |part: &IndexPart| {
            let (new, at) = (&after.columns[part.column], self.origin[part.column]?);
            let same = kept(&before.columns[at], new).is_some_and(|kept| kept.keys);
            same.then_some(IndexPart { column: at, ..part.clone() })
        };
        let index = |index: &IndexDef| {
            let parts = index.parts.iter().map(part).collect::<Option<_>>()?;
            Some(IndexDef { parts, ..index.clone() })
        };
        let indexes = after.indexes.iter().map(index).collect::<Option<_>>()?;
        Some(Becoming { indexes, after: Some(Box::new(after.clone())), filled: false })
    }

    /// Sets the initial values of new columns whose defaults must be computed.
    fn fill_instantly(&mut self, context: &Context<'_>) -> Result<()> {
        let offset = context.variables.borrow().time_offset_micros;
        for (column, from) in self.after.columns.iter_mut().zip(&self.origin) {
            let value = match &column.default {
                _ if from.is_some() => continue,
                DefaultValue::CurrentTimestamp => Value::DateTime(context.now()),
                DefaultValue::Expr(text) => {
                    context.eval(&bind_default(context.catalog, &column.name, text)?, &[])?
                }
                _ => continue,
            };
            let value = match (stored(column, &value, 1)?, &column.ty) {
                (Value::DateTime(at), ColumnType::Timestamp(_)) => {
                    Value::DateTime(moved(at, -offset))
                }
                (value, _) => value,
            };
            self.rewrite |= !column.set_initial(&value);
        }
        Ok(())
    }

    /// Keeps the initial value of a column when its type changes.
    pub(super) fn keep_initial(&mut self, was: &ColumnDef, column: &mut ColumnDef) {
        column.initial.clone_from(&was.initial);
        let value = was.initial_value();
        let value = widened(value.as_ref(), &column.ty).to_owned();
        if !same_stored(&column.initial_value(), &value) {
            self.rewrite |= !column.set_initial(&value);
        }
    }

    /// Marks the indexes whose entries differ under the new definition, so that they are built. If
    /// the rows' own keys differ, all rows are copied.
    fn compare_keys(&mut self) {
        let (before, after) = (&self.before, &mut self.after);
        let key = |def: &TableDef, parts: &[IndexPart]| -> Vec<(u32, Option<u32>)> {
            parts.iter().map(|part| (def.columns[part.column].id, part.prefix)).collect()
        };
        let stays = |after: &TableDef, old: &[IndexPart], new: &[IndexPart]| {
            key(before, old) == key(after, new)
                && old.iter().zip(new).all(|(old, new)| {
                    let (old, new) = (&before.columns[old.column], &after.columns[new.column]);
                    kept(old, new).is_some_and(|kept| kept.keys)
                })
        };
        self.rewrite |= !stays(after, &before.primary, &after.primary);
        for at in 0..after.indexes.len() {
            let index = &after.indexes[at];
            let old = before.indexes.iter().find(|old| old.space == index.space);
            if old.is_none_or(|old| !stays(after, &old.parts, &index.parts)) {
                after.indexes[at].space = UNBUILT;
            }
        }
    }

    /// Starts a new schema version if readers could not tell earlier rows from later ones without
    /// it.
    fn version(&mut self) -> Result<()> {
        let (before, after) = (&self.before, &mut self.after);
        let ids = |def: &TableDef| def.columns.iter().map(|column| column.id).collect::<Vec<_>>();
        let columns = ids(before);
        if !self.widens && ids(after).starts_with(&columns) {
            return Ok(());
        }
        if before.versions_kept() < LAYOUTS_MAX && before.schema < u16::MAX {
            after.layouts.push(Layout { schema: before.schema, columns });
            after.schema = before.schema + 1;
            return Ok(());
        }
        if self.demands.insists_on_instant() {
            let text = format!(
                "Maximum row versions reached for table {}/{}. No more columns can be added or dropped instantly. Please use COPY/INPLACE.",
                before.db, before.name
            );
            return Err(SqlError::new(4092, text));
        }
        self.rewrite = true;
        Ok(())
    }
}
