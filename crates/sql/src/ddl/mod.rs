//! Statements that define databases, tables and indexes.
//!
//! The modules `columns`, `keys` and `checks` convert a statement to a definition. [`Terms`] has
//! the settings that these modules use. Most statements then change the catalog in one transaction
//! ([`Ddl`], `create`). For ALTER TABLE and its short forms, such as CREATE INDEX (`alter`),
//! `instant` chooses the cheapest method that can do the change:
//!
//! - an instant change takes one transaction, which changes only the catalog;
//! - `online` builds indexes while other sessions read and write the table;
//! - for every other change, `build` reads the rows, and writes rows or index entries in as many
//!   transactions as needed; then one transaction switches the catalog to the result.

mod alter;
mod build;
mod checks;
mod columns;
mod create;
mod instant;
mod keys;
pub(crate) mod name_check;
pub(crate) mod online;
mod operations;
mod pass;
pub(crate) mod refresh;
mod terms;

use std::cell::RefCell;
use std::collections::BTreeMap;

use spillway::Transaction;
use sqlparser::ast::{self, ObjectType, Statement};

use crate::catalog::{Change, TableDef};
use crate::errors::{Result, SqlError};
use crate::parser::last_name;
use terms::exists;

pub(crate) use alter::Alteration;
pub(crate) use instant::Way;
pub(crate) use operations::{Alter, parent_of};
pub(crate) use pass::Pass;
pub(crate) use terms::{Path, Terms};

/// Runs statements that change the catalog, in one transaction.
pub(crate) struct Ddl<'a> {
    pub(crate) terms: Terms<'a>,
    pub(crate) txn: &'a Transaction,
    /// Tables whose counters in memory, of AUTO_INCREMENT and of row numbers, are invalid once this
    /// is committed.
    pub(crate) restarted: RefCell<Vec<u32>>,
    pub(crate) renumbered: RefCell<Vec<u32>>,
}

impl Ddl<'_> {
    fn change(&self) -> Result<Change<'_>> {
        Change::new(self.txn)
    }

    /// Runs a statement. Returns `false` if another type runs this kind of statement.
    pub(crate) fn execute(&self, statement: &Statement) -> Result<bool> {
        match statement {
            Statement::CreateDatabase { db_name, if_not_exists, .. } => {
                let options = create::database_collation(statement)?;
                self.create_database(&last_name(db_name), *if_not_exists, options)?;
            }
            Statement::CreateSchema {
                schema_name: ast::SchemaName::Simple(name),
                if_not_exists,
                ..
            } => {
                let options = create::database_collation(statement)?;
                self.create_database(&last_name(name), *if_not_exists, options)?;
            }
            Statement::Drop {
                object_type: ObjectType::Database | ObjectType::Schema,
                if_exists,
                names,
                ..
            } => {
                for name in names {
                    self.drop_database(&last_name(name), *if_exists)?;
                }
            }
            Statement::Drop { object_type: ObjectType::Table, if_exists, names, .. } => {
                self.drop_tables(names, *if_exists)?;
            }
            Statement::Drop { object_type: ObjectType::View, if_exists: true, .. } => {}
            Statement::CreateTable(create) => self.create_table(create)?,
            Statement::Truncate(truncate) => {
                for target in &truncate.table_names {
                    self.truncate(&target.name)?;
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn drop_database(&self, name: &str, if_exists: bool) -> Result<()> {
        if !self.terms.catalog.databases.contains_key(name) {
            let text = format!("Can't drop database '{name}'; database doesn't exist");
            return self.terms.unless(if_exists, SqlError::new(1008, text));
        }
        for table in self.terms.catalog.tables_of(name) {
            self.drop_table(table)?;
        }
        self.change()?.delete_database(name)
    }

    fn drop_tables(&self, names: &[ast::ObjectName], if_exists: bool) -> Result<()> {
        let mut missing = Vec::new();
        for name in names {
            let (db, table) = self.terms.path(name)?;
            match self.terms.catalog.table(&db, &table) {
                Ok(table) => self.drop_table(table)?,
                Err(_) => missing.push(format!("{db}.{table}")),
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let text = format!("Unknown table '{}'", missing.join(","));
        self.terms.unless(if_exists, SqlError::new(1051, text))
    }

    fn drop_table(&self, table: &TableDef) -> Result<()> {
        let change = self.change()?;
        for space in table.spaces() {
            change.drop_space(table.id, space)?;
        }
        self.restarted.borrow_mut().push(table.id);
        change.delete_auto_increment_bound(table.id)?;
        change.delete_progress(table.id)?;
        change.delete_table(table)
    }

    fn truncate(&self, name: &ast::ObjectName) -> Result<()> {
        let mut table = (*self.terms.find(name)?).clone();
        let change = self.change()?;
        for space in table.spaces() {
            change.drop_space(table.id, space)?;
        }
        table.forget_versions();
        self.forget_building(&mut table)?;
        self.create_spaces(&mut table)?;
        self.restart_numbers(&mut table, 1)?;
        change.put_table(&table)
    }

    /// Ends an index build on which no thread works any more.
    fn forget_building(&self, table: &mut TableDef) -> Result<()> {
        if table.becoming.take().is_some() {
            table.building.clear();
            self.change()?.delete_progress(table.id)?;
        }
        Ok(())
    }

    /// Creates empty key spaces for a table.
    fn create_spaces(&self, table: &mut TableDef) -> Result<()> {
        let change = self.change()?;
        let (id, engine) = (table.id, table.engine);
        table.space = change.create_space(id, engine, "rows")?;
        for index in &mut table.indexes {
            index.space = change.create_space(id, engine, &index.name)?;
        }
        Ok(())
    }

    /// Makes a table's AUTO_INCREMENT column continue with `next`, or after the largest number in a
    /// row if that is larger.
    fn restart_numbers(&self, table: &mut TableDef, next: u64) -> Result<()> {
        table.auto_increment = next;
        self.restarted.borrow_mut().push(table.id);
        self.change()?.delete_auto_increment_bound(table.id)
    }

    /// RENAME TABLE. The renames take effect one after another, so two tables can swap their names.
    pub(crate) fn rename_tables(&self, moves: &[(Path, Path)]) -> Result<()> {
        let change = self.change()?;
        let mut moved: BTreeMap<Path, Option<TableDef>> = BTreeMap::new();
        for (from, to) in moves {
            let find = |path: &Path| match moved.get(path) {
                Some(table) => table.clone(),
                None => {
                    self.terms.catalog.table(&path.0, &path.1).ok().map(|table| (**table).clone())
                }
            };
            let mut table = find(from).ok_or_else(|| SqlError::unknown_table(&from.0, &from.1))?;
            if find(to).is_some() {
                return Err(exists(&to.1));
            }
            self.terms.check_database(&to.0)?;
            change.delete_table(&table)?;
            checks::rename_checks(&mut table, &to.1);
            (table.db, table.name) = to.clone();
            change.put_table(&table)?;
            moved.insert(from.clone(), None);
            moved.insert(to.clone(), Some(table));
        }
        Ok(())
    }
}
