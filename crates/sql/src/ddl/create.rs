//! CREATE DATABASE and CREATE TABLE, and the options of tables.

use spillway_types::Collation;
use sqlparser::ast::{self, CreateTableOptions, SqlOption, Statement, TableConstraint};

use super::Ddl;
use super::checks::{NewCheck, rename_checks};
use super::columns::{Spelling, charset_named, check_names};
use super::keys::{add_index, check_keys, parts, set_primary};
use super::terms::{Terms, exists};
use crate::catalog::{DatabaseDef, IndexPart, StorageEngine, TableDef, collation_named};
use crate::errors::{Result, SqlError};

/// The collation that CREATE DATABASE names.
pub(super) fn database_collation(statement: &Statement) -> Result<Collation> {
    let (charset, collation) = match statement {
        Statement::CreateDatabase { default_charset, default_collation, .. } => {
            (default_charset.clone(), default_collation.clone())
        }
        Statement::CreateSchema { default_collate_spec, .. } => {
            (None, default_collate_spec.as_ref().map(ToString::to_string))
        }
        _ => (None, None),
    };
    match (charset, collation) {
        (_, Some(collation)) => collation_named(&collation),
        (Some(charset), None) => charset_named(&charset),
        (None, None) => Ok(Collation::GeneralCi),
    }
}

impl Ddl<'_> {
    pub(super) fn create_database(
        &self,
        name: &str,
        if_not_exists: bool,
        collation: Collation,
    ) -> Result<()> {
        if self.terms.catalog.has_database(name) {
            let text = format!("Can't create database '{name}'; database exists");
            return self.terms.unless(if_not_exists, SqlError::new(1007, text));
        }
        self.change()?.put_database(&DatabaseDef { name: name.to_owned(), collation })
    }

    pub(super) fn create_table(&self, create: &ast::CreateTable) -> Result<()> {
        if create.temporary {
            return Err(SqlError::unsupported("CREATE TEMPORARY TABLE"));
        }
        if create.query.is_some() {
            return Err(SqlError::unsupported("CREATE TABLE ... SELECT"));
        }
        if create.partition_by.is_some() {
            return Err(SqlError::unsupported("PARTITION BY"));
        }
        let terms = &self.terms;
        let (db, name) = terms.path(&create.name)?;
        terms.check_database(&db)?;
        if terms.catalog.table(&db, &name).is_ok() {
            return terms.unless(create.if_not_exists, exists(&name));
        }
        let id = self.change()?.next_table_id(terms.catalog)?;
        let mut def = match &create.like {
            Some(
                ast::CreateTableLikeKind::Parenthesized(like)
                | ast::CreateTableLikeKind::Plain(like),
            ) => {
                let mut def = (*terms.find(&like.name)?).clone();
                rename_checks(&mut def, &name);
                (def.id, def.db, def.name, def.auto_increment) = (id, db, name, 1);
                def.forget_versions();
                def.becoming = None;
                def.building.clear();
                def
            }
            None => {
                let database = terms.catalog.databases.get(&db);
                let collation = database.map_or_else(Collation::default, |db| db.collation);
                let mut def = TableDef::empty(id, db, name, collation);
                def.engine = terms.engine;
                terms.define(&mut def, create)?;
                def
            }
        };
        def.number_columns(def.last_column_id());
        self.create_spaces(&mut def)?;
        self.change()?.put_table(&def)
    }
}

impl Terms<'_> {
    /// Fills in an empty definition from a CREATE TABLE.
    fn define(&self, def: &mut TableDef, create: &ast::CreateTable) -> Result<()> {
        if let CreateTableOptions::Plain(options)
        | CreateTableOptions::Options(options)
        | CreateTableOptions::With(options) = &create.table_options
        {
            self.table_options(def, options)?;
        }
        let (mut primary, mut uniques, mut checks) = (Vec::new(), Vec::new(), Vec::new());
        for column in &create.columns {
            let (column, extras) = self.column(&Spelling::from(column), def.collation)?;
            let part = IndexPart { column: def.columns.len(), prefix: None };
            def.columns.push(column);
            if extras.primary {
                primary.push(part);
            } else if extras.unique {
                uniques.push(part);
            }
            checks.extend(extras.checks);
        }
        if def.columns.is_empty() {
            return Err(SqlError::new(1113, "A table must have at least 1 column"));
        }
        check_names(def)?;
        if primary.len() > 1 {
            return Err(SqlError::new(1068, "Multiple primary key defined"));
        }
        if !primary.is_empty() {
            set_primary(def, primary)?;
        }
        for constraint in &create.constraints {
            self.constraint(def, constraint, &mut checks)?;
        }
        for part in uniques {
            add_index(def, None, vec![part], true)?;
        }
        for check in checks {
            self.add_check(def, check)?;
        }
        check_keys(def)
    }

    /// Adds a key from a table's definition. The caller adds CHECK constraints once it knows all
    /// columns.
    pub(super) fn constraint(
        &self,
        def: &mut TableDef,
        constraint: &TableConstraint,
        checks: &mut Vec<NewCheck>,
    ) -> Result<()> {
        match constraint {
            TableConstraint::PrimaryKey(key) => {
                let parts = parts(def, &key.columns)?;
                set_primary(def, parts)
            }
            TableConstraint::Unique(key) => {
                let name = key.index_name.as_ref().or(key.name.as_ref());
                let parts = parts(def, &key.columns)?;
                add_index(def, name.map(|name| name.value.clone()), parts, true)
            }
            TableConstraint::Index(key) => {
                let parts = parts(def, &key.columns)?;
                add_index(def, key.name.as_ref().map(|name| name.value.clone()), parts, false)
            }
            TableConstraint::Check(check) => {
                checks.push(NewCheck::from(check));
                Ok(())
            }
            TableConstraint::ForeignKey(_) => self.foreign_key(),
            other => Err(SqlError::unsupported(other)),
        }
    }

    pub(super) fn table_options(&self, def: &mut TableDef, options: &[SqlOption]) -> Result<()> {
        let options = options.iter().map(option_text).collect::<Result<Vec<_>>>()?;
        // A collation overrides a character set, in either order. The engine comes first, because
        // warnings about options name it.
        let order = |key: &str| match key {
            "ENGINE" => 0,
            key if key.ends_with("COLLATE") => 2,
            _ => 1,
        };
        let mut options: Vec<_> = options.iter().collect();
        options.sort_by_key(|(key, _)| order(key));
        options.into_iter().try_for_each(|(key, value)| self.table_option(def, key, value))
    }

    fn table_option(&self, def: &mut TableDef, key: &str, value: &str) -> Result<()> {
        match key {
            "ENGINE" => match StorageEngine::named(value) {
                Some(engine) => def.engine = engine.kind,
                None if self.engine_named => return Err(SqlError::unknown_engine(value)),
                // A new table gets the default engine, an altered one keeps its engine.
                None => {
                    self.warn(SqlError::unknown_engine(value));
                    let (engine, table) = (StorageEngine::of(def.engine).name, &def.name);
                    let text = format!("Using storage engine {engine} for table '{table}'");
                    self.warn(SqlError::new(1266, text));
                }
            },
            "AUTO_INCREMENT" => {
                let next = value.parse::<u64>();
                let next = next.map_err(|_| SqlError::syntax(format!("near '{value}'")))?;
                def.auto_increment = next.max(1);
            }
            "COMMENT" => value.clone_into(&mut def.comment),
            "COLLATE" | "DEFAULT COLLATE" => def.collation = collation_named(value)?,
            "CHARSET" | "DEFAULT CHARSET" | "CHARACTER SET" | "DEFAULT CHARACTER SET" => {
                def.collation = charset_named(value)?;
            }
            // Hints for other engines. They do not affect the table's content.
            "ROW_FORMAT" | "KEY_BLOCK_SIZE" | "STATS_PERSISTENT" | "STATS_AUTO_RECALC"
            | "STATS_SAMPLE_PAGES" | "MAX_ROWS" | "MIN_ROWS" | "AVG_ROW_LENGTH" | "PACK_KEYS"
            | "CHECKSUM" | "DELAY_KEY_WRITE" => {
                let engine = StorageEngine::of(def.engine).name;
                let text = format!(
                    "Table storage engine '{engine}' does not support the create option '{key}'"
                );
                self.warn(SqlError::new(1478, text));
            }
            other => return Err(SqlError::unsupported(format!("table option {other}"))),
        }
        Ok(())
    }
}

/// The name and the value of a table option.
fn option_text(option: &SqlOption) -> Result<(String, String)> {
    let bare = |text: String| text.trim_matches(|c| c == '`' || c == '"').to_owned();
    Ok(match option {
        SqlOption::KeyValue { key, value } => {
            let value = match value {
                ast::Expr::Value(value) => crate::planner::literal(&value.value)?.to_text(),
                other => bare(other.to_string()),
            };
            (key.value.to_ascii_uppercase(), value)
        }
        SqlOption::NamedParenthesizedList(list) => {
            let name = list.name.as_ref().map(|name| name.value.clone()).unwrap_or_default();
            (list.key.value.to_ascii_uppercase(), name)
        }
        SqlOption::Comment(ast::CommentDef::WithEq(text) | ast::CommentDef::WithoutEq(text)) => {
            ("COMMENT".to_owned(), text.clone())
        }
        SqlOption::Ident(ident) => (ident.value.to_ascii_uppercase(), String::new()),
        other => return Err(SqlError::unsupported(other)),
    })
}
