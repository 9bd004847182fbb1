//! The settings that decide how the names and options of a definition are read: the current
//! database, the time zone, the default engine.

use std::cell::RefCell;
use std::sync::Arc;

use spillway::EngineKind;
use sqlparser::ast;

use crate::catalog::{Catalog, SYSTEM, TableDef};
use crate::errors::{Result, SqlError};
use crate::parser::part_name;

/// The settings by which a statement's names and options are interpreted.
pub(crate) struct Terms<'a> {
    pub(crate) catalog: &'a Catalog,
    pub(crate) database: Option<&'a str>,
    pub(crate) foreign_key_checks: bool,
    /// The offset of the session's time zone from UTC.
    pub(crate) time_offset_micros: i64,
    /// The engine of tables whose CREATE statement names none.
    pub(crate) engine: EngineKind,
    /// Whether the name of an unknown engine is an error: NO_ENGINE_SUBSTITUTION.
    pub(crate) engine_named: bool,
    pub(crate) warnings: RefCell<Vec<SqlError>>,
}

/// The database and the name of a table.
pub(crate) type Path = (String, String);

impl Terms<'_> {
    pub(crate) fn path(&self, name: &ast::ObjectName) -> Result<Path> {
        let parts: Vec<String> = name.0.iter().map(part_name).collect();
        match parts.as_slice() {
            [table] => {
                let db =
                    self.database.ok_or_else(|| SqlError::new(1046, "No database selected"))?;
                Ok((db.to_owned(), table.clone()))
            }
            [db, table] => Ok((db.clone(), table.clone())),
            _ => Err(SqlError::syntax(format!("near '{name}'"))),
        }
    }

    pub(super) fn find(&self, name: &ast::ObjectName) -> Result<Arc<TableDef>> {
        let (db, table) = self.path(name)?;
        self.catalog.table(&db, &table).cloned()
    }

    pub(super) fn warn(&self, warning: SqlError) {
        self.warnings.borrow_mut().push(warning);
    }

    /// Fails with `error`, or only adds it as a note if the statement forgives it (`IF EXISTS`, `IF
    /// NOT EXISTS`).
    pub(super) fn unless(&self, forgiven: bool, error: SqlError) -> Result<()> {
        if !forgiven {
            return Err(error);
        }
        self.warn(error);
        Ok(())
    }

    /// Refuses a database that does not exist or that stores no tables.
    pub(super) fn check_database(&self, db: &str) -> Result<()> {
        if SYSTEM.contains(&db.to_ascii_lowercase().as_str()) {
            return Err(SqlError::new(1044, format!("Access denied to database '{db}'")));
        }
        if !self.catalog.has_database(db) {
            return Err(SqlError::unknown_database(db));
        }
        Ok(())
    }
}

pub(super) fn exists(name: &str) -> SqlError {
    SqlError::new(1050, format!("Table '{name}' already exists"))
}
