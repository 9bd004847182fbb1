//! Statements that change what there is: databases, tables, indexes. Each runs in one transaction.

use std::cell::RefCell;

use spillway::{Direction, KeyRange, Transaction};
use spillway_types::column::{IntWidth, LobSize};
use spillway_types::{Collation, ColumnType, Value};
use sqlparser::ast::{
    self, AlterTableOperation, ColumnOption, CreateTableOptions, MySQLColumnPosition, ObjectType,
    SqlOption, Statement, TableConstraint,
};

use crate::catalog::{
    Catalog, Change, CheckDef, ColumnDef, DatabaseDef, DefaultValue, IndexDef, IndexPart, TableDef,
};
use crate::errors::{Result, SqlError};
use crate::expr::literal;
use crate::session::Instance;
use crate::store;

/// The type that a text is, as SQL spells it, and the collation it names.
pub(crate) fn parse_type(text: &str) -> Result<(ColumnType, Option<Collation>)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    let (name, rest) = (text[..end].to_ascii_uppercase(), text[end..].trim());
    let (inside, after) = match rest.strip_prefix('(') {
        Some(rest) => {
            let close =
                rest.rfind(')').ok_or_else(|| SqlError::syntax(format!("near '{text}'")))?;
            (rest[..close].trim(), rest[close + 1..].trim())
        }
        None => ("", rest),
    };
    let after = after.to_ascii_uppercase();
    let mut numbers = inside.split(',').filter_map(|part| part.trim().parse::<u32>().ok());
    let first = numbers.next();
    let second = numbers.next();
    let unsigned = after.contains("UNSIGNED") || after.contains("ZEROFILL");
    let fsp = first.unwrap_or(0);
    if fsp > 6 && matches!(name.as_str(), "TIME" | "DATETIME" | "TIMESTAMP") {
        return Err(SqlError::new(
            1426,
            format!("Too-big precision {fsp} specified for '{text}'. Maximum is 6."),
        ));
    }
    let int = |width| ColumnType::Int { width, unsigned, boolean: false };
    let ty = match name.as_str() {
        "BOOL" | "BOOLEAN" => {
            ColumnType::Int { width: IntWidth::Tiny, unsigned: false, boolean: true }
        }
        "TINYINT" => ColumnType::Int {
            width: IntWidth::Tiny,
            unsigned,
            boolean: first == Some(1) && !unsigned,
        },
        "SMALLINT" | "INT2" => int(IntWidth::Small),
        "MEDIUMINT" | "INT3" | "MIDDLEINT" => int(IntWidth::Medium),
        "INT" | "INTEGER" | "INT4" => int(IntWidth::Normal),
        "BIGINT" | "INT8" => int(IntWidth::Big),
        "DECIMAL" | "NUMERIC" | "DEC" | "FIXED" => {
            let (precision, scale) = (first.unwrap_or(10), second.unwrap_or(0));
            if precision > 65 || scale > 30 || scale > precision {
                return Err(SqlError::new(
                    1426,
                    format!("Too-big precision specified for '{text}'. Maximum is 65."),
                ));
            }
            ColumnType::Decimal { precision: precision.max(1) as u8, scale: scale as u8, unsigned }
        }
        "FLOAT" if first.is_none_or(|bits| bits <= 24) => ColumnType::Float,
        "FLOAT" | "DOUBLE" | "REAL" => ColumnType::Double,
        "BIT" => match first.unwrap_or(1) {
            bits @ 1..=64 => ColumnType::Bit(bits as u8),
            _ => {
                return Err(SqlError::new(
                    1439,
                    format!("Display width out of range for '{text}' (max = 64)"),
                ));
            }
        },
        "CHAR" | "CHARACTER" | "NCHAR" if after.starts_with("VARYING") => {
            ColumnType::VarChar(first.unwrap_or(1))
        }
        "CHAR" | "CHARACTER" | "NCHAR" => ColumnType::Char(first.unwrap_or(1)),
        "VARCHAR" | "NVARCHAR" => ColumnType::VarChar(first.unwrap_or(1)),
        "TINYTEXT" => ColumnType::Text(LobSize::Tiny),
        "TEXT" => ColumnType::Text(LobSize::Normal),
        "MEDIUMTEXT" => ColumnType::Text(LobSize::Medium),
        "LONGTEXT" => ColumnType::Text(LobSize::Long),
        "BINARY" => ColumnType::Binary(first.unwrap_or(1)),
        "VARBINARY" => ColumnType::VarBinary(first.unwrap_or(1)),
        "TINYBLOB" => ColumnType::Blob(LobSize::Tiny),
        "BLOB" => ColumnType::Blob(LobSize::Normal),
        "MEDIUMBLOB" => ColumnType::Blob(LobSize::Medium),
        "LONGBLOB" => ColumnType::Blob(LobSize::Long),
        "DATE" => ColumnType::Date,
        "TIME" => ColumnType::Time(fsp as u8),
        "DATETIME" => ColumnType::DateTime(fsp as u8),
        "TIMESTAMP" => ColumnType::Timestamp(fsp as u8),
        "YEAR" => ColumnType::Year,
        "JSON" => ColumnType::Json,
        "ENUM" => ColumnType::Enum(quoted(inside)?),
        "SET" => ColumnType::Set(quoted(inside)?),
        _ => return Err(SqlError::unsupported(format!("column type {text}"))),
    };
    let too_long = match ty {
        ColumnType::Char(n) | ColumnType::Binary(n) => n > 255,
        ColumnType::VarChar(n) => n > 16_383,
        ColumnType::VarBinary(n) => n > 65_535,
        _ => false,
    };
    if too_long {
        return Err(SqlError::new(
            1074,
            format!("Column length too big for '{text}'; use BLOB or TEXT instead"),
        ));
    }
    let collation =
        after.split_once("COLLATE").and_then(|(_, name)| Collation::from_name(name.trim()));
    Ok((ty, collation))
}

fn quoted(list: &str) -> Result<Vec<String>> {
    let (mut out, mut chars) = (Vec::new(), list.chars().peekable());
    while let Some(c) = chars.next() {
        if c != '\'' {
            continue;
        }
        let mut name = String::new();
        while let Some(c) = chars.next() {
            match c {
                '\'' if chars.peek() == Some(&'\'') => {
                    chars.next();
                    name.push('\'');
                }
                '\'' => break,
                '\\' => name.extend(chars.next()),
                c => name.push(c),
            }
        }
        out.push(name);
    }
    if out.is_empty() { Err(SqlError::syntax("an ENUM or SET needs values")) } else { Ok(out) }
}

/// What a DDL statement runs in.
pub(crate) struct Ddl<'a> {
    pub(crate) instance: &'a Instance,
    pub(crate) txn: &'a Transaction,
    pub(crate) catalog: &'a Catalog,
    pub(crate) database: Option<&'a str>,
    pub(crate) warnings: &'a mut Vec<SqlError>,
    pub(crate) foreign_key_checks: bool,
    /// Tables whose AUTO_INCREMENT numbers, and whose row numbers, in memory are void once this is committed.
    pub(crate) restarted: RefCell<Vec<u32>>,
    pub(crate) renumbered: RefCell<Vec<u32>>,
}

fn last_name(name: &ast::ObjectName) -> String {
    let part = name.0.last().map(ToString::to_string).unwrap_or_default();
    part.trim_matches(|c| c == '`' || c == '"').to_owned()
}

impl Ddl<'_> {
    fn change(&self) -> Result<Change<'_>> {
        Change::new(self.txn)
    }

    fn path(&self, name: &ast::ObjectName) -> Result<(String, String)> {
        let parts: Vec<String> = name
            .0
            .iter()
            .map(|part| part.to_string().trim_matches(|c| c == '`' || c == '"').to_owned())
            .collect();
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

    /// Runs a statement; `false` when it is no DDL.
    pub(crate) fn execute(&mut self, statement: &Statement) -> Result<bool> {
        match statement {
            Statement::CreateDatabase { db_name, if_not_exists, .. } => {
                self.create_database(&last_name(db_name), *if_not_exists)?;
            }
            Statement::CreateSchema { schema_name, if_not_exists, .. } => {
                let name = schema_name.to_string().trim_matches('`').to_owned();
                self.create_database(&name, *if_not_exists)?;
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
                let mut missing = Vec::new();
                for name in names {
                    let (db, table) = self.path(name)?;
                    match self.catalog.table(&db, &table) {
                        Ok(table) => self.drop_table(&table.clone())?,
                        Err(_) => missing.push(format!("{db}.{table}")),
                    }
                }
                if !missing.is_empty() {
                    let error =
                        SqlError::new(1051, format!("Unknown table '{}'", missing.join(",")));
                    if !if_exists {
                        return Err(error);
                    }
                    self.warnings.push(error);
                }
            }
            Statement::Drop { object_type: ObjectType::View, if_exists: true, .. } => {}
            Statement::Drop {
                object_type: ObjectType::Index, names, table: Some(table), ..
            } => {
                let mut def = self.find(table)?;
                for name in names {
                    self.drop_index(&mut def, &last_name(name))?;
                }
                self.change()?.put_table(&def)?;
            }
            Statement::CreateTable(create) => self.create_table(create)?,
            Statement::CreateIndex(create) => {
                let mut def = self.find(&create.table_name)?;
                let name = create.name.as_ref().map(last_name);
                self.add_index(&mut def, name, &create.columns, create.unique)?;
                self.change()?.put_table(&def)?;
            }
            Statement::AlterTable(alter) => self.alter_table(&alter.name, &alter.operations)?,
            Statement::Truncate(truncate) => {
                for target in &truncate.table_names {
                    let mut def = self.find(&target.name)?;
                    self.fresh_spaces(&mut def)?;
                    self.restart_numbers(&mut def, 1)?;
                    self.change()?.put_table(&def)?;
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn find(&self, name: &ast::ObjectName) -> Result<TableDef> {
        let (db, table) = self.path(name)?;
        Ok((**self.catalog.table(&db, &table)?).clone())
    }

    fn create_database(&mut self, name: &str, if_not_exists: bool) -> Result<()> {
        if self.catalog.has_database(name) {
            let error =
                SqlError::new(1007, format!("Can't create database '{name}'; database exists"));
            if !if_not_exists {
                return Err(error);
            }
            self.warnings.push(error);
            return Ok(());
        }
        self.change()?
            .put_database(&DatabaseDef { name: name.to_owned(), collation: Collation::GeneralCi })
    }

    fn drop_database(&mut self, name: &str, if_exists: bool) -> Result<()> {
        if !self.catalog.databases.contains_key(name) {
            let error = SqlError::new(
                1008,
                format!("Can't drop database '{name}'; database doesn't exist"),
            );
            if !if_exists {
                return Err(error);
            }
            self.warnings.push(error);
            return Ok(());
        }
        for table in self.catalog.tables_of(name).cloned().collect::<Vec<_>>() {
            self.drop_table(&table)?;
        }
        self.change()?.delete_database(name)
    }

    fn drop_table(&self, table: &TableDef) -> Result<()> {
        let change = self.change()?;
        change.drop_space(table.space)?;
        self.restarted.borrow_mut().push(table.id);
        change.delete_auto_increment_bound(table.id)?;
        table.indexes.iter().try_for_each(|index| change.drop_space(index.space))?;
        change.delete_table(table)
    }

    /// Has a table's AUTO_INCREMENT column go on with `next`, or after the largest number that a row has.
    fn restart_numbers(&self, table: &mut TableDef, next: u64) -> Result<()> {
        table.auto_increment = next;
        self.restarted.borrow_mut().push(table.id);
        self.change()?.delete_auto_increment_bound(table.id)
    }

    /// Gives a table empty key spaces in place of its own.
    fn fresh_spaces(&self, table: &mut TableDef) -> Result<()> {
        let change = self.change()?;
        change.drop_space(table.space)?;
        table.space = change.create_space(table.id, "rows")?;
        for index in &mut table.indexes {
            change.drop_space(index.space)?;
            index.space = change.create_space(table.id, &index.name)?;
        }
        Ok(())
    }

    fn collation(name: &str) -> Result<Collation> {
        let name = name.replace(['`', '\'', '"'], "");
        Collation::from_name(&name)
            .ok_or_else(|| SqlError::new(1273, format!("Unknown collation: '{name}'")))
    }

    fn column(
        &self,
        name: &str,
        ty: &str,
        options: &[&ColumnOption],
        table: Collation,
    ) -> Result<(ColumnDef, Keys)> {
        let (ty, named) = parse_type(ty)?;
        let mut column = ColumnDef {
            name: name.to_owned(),
            collation: named.unwrap_or(if ty.is_text() { table } else { Collation::Binary }),
            nullable: true,
            default: DefaultValue::None,
            initial: None,
            on_update_now: false,
            auto_increment: false,
            comment: String::new(),
            ty,
        };
        let mut keys = Keys::default();
        for option in options {
            match option {
                ColumnOption::Null => column.nullable = true,
                ColumnOption::NotNull => column.nullable = false,
                ColumnOption::Default(expr) => column.default = default_value(expr, &column)?,
                ColumnOption::PrimaryKey(_) => keys.primary = true,
                ColumnOption::Unique(_) => keys.unique = true,
                ColumnOption::Comment(text) => column.comment = text.clone(),
                ColumnOption::Collation(name) => {
                    column.collation = Self::collation(&name.to_string())?
                }
                ColumnOption::CharacterSet(name) => {
                    if name.to_string().eq_ignore_ascii_case("binary") {
                        column.collation = Collation::Binary;
                    }
                }
                ColumnOption::OnUpdate(_) => column.on_update_now = true,
                ColumnOption::Check(check) => keys.checks.push((
                    check.name.as_ref().map(|name| name.value.clone()),
                    check.expr.to_string(),
                    check.enforced.unwrap_or(true),
                )),
                ColumnOption::DialectSpecific(tokens)
                    if tokens
                        .iter()
                        .any(|token| token.to_string().eq_ignore_ascii_case("AUTO_INCREMENT")) =>
                {
                    column.auto_increment = true;
                    column.nullable = false;
                }
                ColumnOption::DialectSpecific(tokens)
                    if tokens.iter().all(|token| token.to_string().eq_ignore_ascii_case("KEY")) =>
                {
                    keys.unique = true;
                }
                ColumnOption::ForeignKey(_) => self.foreign_key()?,
                other => return Err(SqlError::unsupported(other)),
            }
        }
        if matches!(column.default, DefaultValue::None) && column.nullable {
            column.default = DefaultValue::Null;
        }
        column.fix_initial();
        Ok((column, keys))
    }

    fn foreign_key(&self) -> Result<()> {
        if self.foreign_key_checks {
            return Err(SqlError::unsupported("FOREIGN KEY"));
        }
        Ok(())
    }

    fn create_table(&mut self, create: &ast::CreateTable) -> Result<()> {
        if create.temporary {
            return Err(SqlError::unsupported("CREATE TEMPORARY TABLE"));
        }
        if create.query.is_some() {
            return Err(SqlError::unsupported("CREATE TABLE ... SELECT"));
        }
        if create.partition_by.is_some() {
            return Err(SqlError::unsupported("PARTITION BY"));
        }
        let (db, name) = self.path(&create.name)?;
        if crate::catalog::SYSTEM.contains(&db.to_ascii_lowercase().as_str()) {
            return Err(SqlError::new(1044, format!("Access denied to database '{db}'")));
        }
        if !self.catalog.has_database(&db) {
            return Err(SqlError::new(1049, format!("Unknown database '{db}'")));
        }
        if self.catalog.table(&db, &name).is_ok() {
            let error = SqlError::new(1050, format!("Table '{name}' already exists"));
            if create.if_not_exists {
                self.warnings.push(error);
                return Ok(());
            }
            return Err(error);
        }
        let id = self.change()?.next_table_id(self.catalog)?;
        if let Some(like) = &create.like {
            let (ast::CreateTableLikeKind::Parenthesized(like)
            | ast::CreateTableLikeKind::Plain(like)) = like;
            let mut def = self.find(&like.name)?;
            let change = self.change()?;
            (def.id, def.db, def.name, def.auto_increment) = (id, db, name, 1);
            def.space = change.create_space(id, "rows")?;
            for index in &mut def.indexes {
                index.space = change.create_space(id, &index.name)?;
            }
            return change.put_table(&def);
        }
        let mut def = TableDef {
            id,
            db,
            name,
            columns: Vec::new(),
            primary: Vec::new(),
            space: self.change()?.create_space(id, "rows")?,
            indexes: Vec::new(),
            checks: Vec::new(),
            collation: Collation::GeneralCi,
            comment: String::new(),
            auto_increment: 1,
        };
        if let CreateTableOptions::Plain(options)
        | CreateTableOptions::Options(options)
        | CreateTableOptions::With(options) = &create.table_options
        {
            self.table_options(&mut def, options)?;
        }
        let (mut primary, mut uniques) = (Vec::new(), Vec::new());
        for column in &create.columns {
            let options: Vec<&ColumnOption> =
                column.options.iter().map(|option| &option.option).collect();
            let name = &column.name.value;
            if def.column(name).is_some() {
                return Err(SqlError::new(1060, format!("Duplicate column name '{name}'")));
            }
            let (column, keys) =
                self.column(name, &column.data_type.to_string(), &options, def.collation)?;
            let at = def.columns.len();
            def.columns.push(column);
            if keys.primary {
                primary.push(IndexPart { column: at, prefix: None });
            } else if keys.unique {
                uniques.push(at);
            }
            add_checks(&mut def, keys.checks);
        }
        if def.columns.is_empty() {
            return Err(SqlError::new(1113, "A table must have at least 1 column"));
        }
        if !primary.is_empty() {
            set_primary(&mut def, primary)?;
        }
        for constraint in &create.constraints {
            self.constraint(&mut def, constraint)?;
        }
        for column in uniques {
            let parts = vec![IndexPart { column, prefix: None }];
            self.push_index(&mut def, None, parts, true)?;
        }
        check_auto(&def)?;
        self.change()?.put_table(&def)
    }

    fn table_options(&mut self, def: &mut TableDef, options: &[SqlOption]) -> Result<()> {
        for option in options {
            let (key, value) = match option {
                SqlOption::KeyValue { key, value } => {
                    (key.value.to_ascii_uppercase(), value.to_string())
                }
                SqlOption::NamedParenthesizedList(list) => {
                    let name =
                        list.name.as_ref().map(|name| name.value.clone()).unwrap_or_default();
                    (list.key.value.to_ascii_uppercase(), name)
                }
                SqlOption::Comment(comment) => {
                    let (ast::CommentDef::WithEq(text) | ast::CommentDef::WithoutEq(text)) =
                        comment;
                    def.comment = text.clone();
                    continue;
                }
                SqlOption::Ident(ident) => (ident.value.to_ascii_uppercase(), String::new()),
                other => return Err(SqlError::unsupported(other)),
            };
            let value = value.trim_matches(|c| c == '\'' || c == '`' || c == '"').to_owned();
            self.table_option(def, &key, &value)?;
        }
        Ok(())
    }

    pub(crate) fn table_option(
        &mut self,
        def: &mut TableDef,
        key: &str,
        value: &str,
    ) -> Result<()> {
        match key {
            "ENGINE" => {
                if !["TIERED", "XENGINE"].contains(&value.to_ascii_uppercase().as_str()) {
                    self.warnings
                        .push(SqlError::new(1286, format!("Unknown storage engine '{value}'")));
                    let text = format!("Using storage engine TIERED for table '{}'", def.name);
                    self.warnings.push(SqlError::new(1266, text));
                }
            }
            "AUTO_INCREMENT" => self.restart_numbers(def, value.parse().unwrap_or(1))?,
            "COMMENT" => value.clone_into(&mut def.comment),
            "COLLATE" | "DEFAULT COLLATE" => def.collation = Self::collation(value)?,
            "CHARSET" | "DEFAULT CHARSET" | "CHARACTER SET" | "DEFAULT CHARACTER SET" => {
                if Collation::from_name(value).is_none() {
                    return Err(SqlError::new(1115, format!("Unknown character set: '{value}'")));
                }
            }
            // Hints to other engines, that change nothing of what a table holds.
            "ROW_FORMAT" | "KEY_BLOCK_SIZE" | "STATS_PERSISTENT" | "STATS_AUTO_RECALC"
            | "STATS_SAMPLE_PAGES" | "MAX_ROWS" | "MIN_ROWS" | "AVG_ROW_LENGTH" | "PACK_KEYS"
            | "CHECKSUM" | "DELAY_KEY_WRITE" => {
                self.warnings.push(SqlError::new(
                    1478,
                    format!(
                        "Table storage engine 'TIERED' does not support the create option '{key}'"
                    ),
                ));
            }
            other => return Err(SqlError::unsupported(format!("table option {other}"))),
        }
        Ok(())
    }

    fn constraint(&mut self, def: &mut TableDef, constraint: &TableConstraint) -> Result<()> {
        match constraint {
            TableConstraint::PrimaryKey(key) => {
                let parts = parts(def, &key.columns)?;
                set_primary(def, parts)
            }
            TableConstraint::Unique(key) => {
                let name =
                    key.index_name.as_ref().or(key.name.as_ref()).map(|name| name.value.clone());
                self.add_index(def, name, &key.columns, true)
            }
            TableConstraint::Index(key) => {
                let name = key.name.as_ref().map(|name| name.value.clone());
                self.add_index(def, name, &key.columns, false)
            }
            TableConstraint::Check(check) => {
                let name = check.name.as_ref().map(|name| name.value.clone());
                add_checks(
                    def,
                    vec![(name, check.expr.to_string(), check.enforced.unwrap_or(true))],
                );
                Ok(())
            }
            TableConstraint::ForeignKey(_) => self.foreign_key(),
            other => Err(SqlError::unsupported(other)),
        }
    }

    fn add_index(
        &mut self,
        def: &mut TableDef,
        name: Option<String>,
        columns: &[ast::IndexColumn],
        unique: bool,
    ) -> Result<()> {
        let parts = parts(def, columns)?;
        self.push_index(def, name, parts, unique)
    }

    fn push_index(
        &mut self,
        def: &mut TableDef,
        name: Option<String>,
        parts: Vec<IndexPart>,
        unique: bool,
    ) -> Result<()> {
        for part in &parts {
            let column = &def.columns[part.column];
            let whole =
                matches!(column.ty, ColumnType::Text(_) | ColumnType::Blob(_) | ColumnType::Json);
            if whole && part.prefix.is_none() {
                let text = format!(
                    "BLOB/TEXT column '{}' used in key specification without a key length",
                    column.name
                );
                return Err(SqlError::new(1170, text));
            }
        }
        let name = match name {
            Some(name) if def.index(&name).is_some() => {
                return Err(SqlError::new(1061, format!("Duplicate key name '{name}'")));
            }
            Some(name) => name,
            None => {
                let first = def.columns[parts[0].column].name.clone();
                let mut name = first.clone();
                let mut number = 2;
                while def.index(&name).is_some() || name.eq_ignore_ascii_case("PRIMARY") {
                    name = format!("{first}_{number}");
                    number += 1;
                }
                name
            }
        };
        let space = self.change()?.create_space(def.id, &name)?;
        let index = IndexDef { name, parts, unique, comment: String::new(), space };
        let mut scan = self.txn.scan(def.rows(), KeyRange::ALL, Direction::Forward)?;
        while scan.advance()? {
            let mut row = Vec::new();
            def.decode(scan.value(), &mut row)?;
            store::insert_entry(self.txn, def, &index, &row, scan.key())?;
        }
        drop(scan);
        def.indexes.push(index);
        Ok(())
    }

    fn drop_index(&self, def: &mut TableDef, name: &str) -> Result<()> {
        let at = def.index(name).ok_or_else(|| {
            SqlError::new(1091, format!("Can't DROP '{name}'; check that column/key exists"))
        })?;
        let index = def.indexes.remove(at);
        self.change()?.drop_space(index.space)
    }

    /// Moves a table to another name.
    pub(crate) fn rename(&self, def: &mut TableDef, db: &str, name: &str) -> Result<()> {
        if self.catalog.table(db, name).is_ok() {
            return Err(SqlError::new(1050, format!("Table '{name}' already exists")));
        }
        if !self.catalog.has_database(db) {
            return Err(SqlError::new(1049, format!("Unknown database '{db}'")));
        }
        self.change()?.delete_table(def)?;
        db.clone_into(&mut def.db);
        name.clone_into(&mut def.name);
        Ok(())
    }

    fn alter_table(
        &mut self,
        name: &ast::ObjectName,
        operations: &[AlterTableOperation],
    ) -> Result<()> {
        let before = self.find(name)?;
        let mut def = before.clone();
        // For each column of the new table: the old one it comes from.
        let mut origin: Vec<Option<usize>> = (0..def.columns.len()).map(Some).collect();
        let mut rewrite = false;
        for operation in operations {
            match operation {
                AlterTableOperation::AddConstraint { constraint, .. } => {
                    let primary = def.primary.clone();
                    if matches!(constraint, TableConstraint::PrimaryKey(_)) || !rewrite {
                        self.constraint(&mut def, constraint)?;
                    } else {
                        return Err(SqlError::unsupported(
                            "adding an index beside a change of columns in one ALTER TABLE",
                        ));
                    }
                    rewrite |= def.primary != primary;
                }
                AlterTableOperation::AddColumn { column_def, column_position, .. } => {
                    let options: Vec<&ColumnOption> =
                        column_def.options.iter().map(|option| &option.option).collect();
                    let name = &column_def.name.value;
                    if def.column(name).is_some() {
                        return Err(SqlError::new(1060, format!("Duplicate column name '{name}'")));
                    }
                    let ty = column_def.data_type.to_string();
                    let (column, keys) = self.column(name, &ty, &options, def.collation)?;
                    let constant = !matches!(
                        column.default,
                        DefaultValue::CurrentTimestamp | DefaultValue::Expr(_)
                    );
                    rewrite |= !constant || column.auto_increment || column_position.is_some();
                    let at = insert_column(&mut def, column, column_position.as_ref())?;
                    origin.insert(at, None);
                    add_checks(&mut def, keys.checks);
                    if keys.unique || keys.primary {
                        return Err(SqlError::unsupported(
                            "ADD COLUMN with a key; add the key by itself",
                        ));
                    }
                }
                AlterTableOperation::DropColumn { column_names, .. } => {
                    for name in column_names {
                        let at = drop_column(&mut def, &name.value)?;
                        origin.remove(at);
                    }
                    for index in before
                        .indexes
                        .iter()
                        .filter(|old| def.indexes.iter().all(|new| new.space != old.space))
                    {
                        self.change()?.drop_space(index.space)?;
                    }
                    rewrite = true;
                }
                AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
                    let at = find_column(&def, &old_column_name.value)?;
                    def.columns[at].name = new_column_name.value.clone();
                }
                AlterTableOperation::ChangeColumn {
                    old_name,
                    new_name,
                    data_type,
                    options,
                    column_position,
                } => {
                    rewrite |= self.change_column(
                        &mut def,
                        &mut origin,
                        &old_name.value,
                        &new_name.value,
                        &data_type.to_string(),
                        options,
                        column_position.as_ref(),
                    )?;
                }
                AlterTableOperation::ModifyColumn {
                    col_name,
                    data_type,
                    options,
                    column_position,
                } => {
                    rewrite |= self.change_column(
                        &mut def,
                        &mut origin,
                        &col_name.value,
                        &col_name.value,
                        &data_type.to_string(),
                        options,
                        column_position.as_ref(),
                    )?;
                }
                AlterTableOperation::AlterColumn { column_name, op } => {
                    let at = find_column(&def, &column_name.value)?;
                    match op {
                        ast::AlterColumnOperation::SetDefault { value } => {
                            let column = def.columns[at].clone();
                            def.columns[at].default = default_value(value, &column)?;
                        }
                        ast::AlterColumnOperation::DropDefault => {
                            def.columns[at].default = DefaultValue::None
                        }
                        other => return Err(SqlError::unsupported(other)),
                    }
                }
                AlterTableOperation::DropIndex { name } => {
                    self.drop_index(&mut def, &name.value)?
                }
                AlterTableOperation::DropConstraint { name, .. } => {
                    let at = def
                        .checks
                        .iter()
                        .position(|check| check.name.eq_ignore_ascii_case(&name.value));
                    match at {
                        Some(at) => drop(def.checks.remove(at)),
                        None => self.drop_index(&mut def, &name.value)?,
                    }
                }
                AlterTableOperation::DropPrimaryKey { .. } => {
                    def.primary.clear();
                    rewrite = true;
                }
                AlterTableOperation::RenameTable { table_name } => {
                    let (ast::RenameTableNameKind::As(to) | ast::RenameTableNameKind::To(to)) =
                        table_name;
                    let (db, to) = self.path(to)?;
                    self.rename(&mut def, &db, &to)?;
                }
                AlterTableOperation::AutoIncrement { value, .. } => {
                    let value = literal(&value.value)?.to_text();
                    self.table_option(&mut def, "AUTO_INCREMENT", &value)?;
                }
                AlterTableOperation::Algorithm { .. } | AlterTableOperation::Lock { .. } => {}
                AlterTableOperation::SetTblProperties { table_properties } => {
                    self.table_options(&mut def, table_properties)?;
                }
                other => return Err(SqlError::unsupported(other)),
            }
        }
        check_auto(&def)?;
        if rewrite {
            self.rewrite(&before, &mut def, &origin)?;
        }
        self.change()?.put_table(&def)
    }

    #[allow(clippy::too_many_arguments)] // The clauses of CHANGE COLUMN.
    fn change_column(
        &mut self,
        def: &mut TableDef,
        origin: &mut Vec<Option<usize>>,
        old: &str,
        new: &str,
        ty: &str,
        options: &[ColumnOption],
        position: Option<&MySQLColumnPosition>,
    ) -> Result<bool> {
        let at = find_column(def, old)?;
        let options: Vec<&ColumnOption> = options.iter().collect();
        let (column, keys) = self.column(new, ty, &options, def.collation)?;
        if keys.unique || keys.primary {
            return Err(SqlError::unsupported("CHANGE COLUMN with a key; add the key by itself"));
        }
        let primary = def.primary.iter().any(|part| part.column == at);
        let stored = |column: &ColumnDef| (column.ty.clone(), column.collation, column.nullable);
        let mut column = column;
        column.nullable &= !primary;
        column.initial.clone_from(&def.columns[at].initial);
        let differs = stored(&column) != stored(&def.columns[at]);
        def.columns[at] = column;
        if position.is_some() {
            let moved = def.columns[at].clone();
            let kept = (def.primary.clone(), def.indexes.clone());
            let from = origin[at];
            let names: Vec<String> = def.columns.iter().map(|column| column.name.clone()).collect();
            def.columns.remove(at);
            origin.remove(at);
            let to = place(def, position)?;
            def.columns.insert(to, moved);
            origin.insert(to, from);
            let moved_to = |old: usize| {
                def.columns.iter().position(|column| column.name == names[old]).unwrap_or(old)
            };
            let shift = |parts: &mut Vec<IndexPart>| {
                parts.iter_mut().for_each(|part| part.column = moved_to(part.column))
            };
            let (mut primary, mut indexes) = kept;
            shift(&mut primary);
            indexes.iter_mut().for_each(|index| shift(&mut index.parts));
            (def.primary, def.indexes) = (primary, indexes);
            return Ok(true);
        }
        Ok(differs)
    }

    /// Writes every row anew, in the table's new form.
    fn rewrite(
        &self,
        before: &TableDef,
        def: &mut TableDef,
        origin: &[Option<usize>],
    ) -> Result<()> {
        let change = self.change()?;
        let old_rows = before.rows();
        def.space = change.create_space(def.id, "rows")?;
        for index in &mut def.indexes {
            change.drop_space(index.space)?;
            index.space = change.create_space(def.id, &index.name)?;
        }
        let mut scan = self.txn.scan(old_rows, KeyRange::ALL, Direction::Forward)?;
        let mut number = 0;
        while scan.advance()? {
            number += 1;
            let mut old = Vec::new();
            before.decode(scan.value(), &mut old)?;
            let mut row = Vec::with_capacity(def.columns.len());
            for (column, from) in def.columns.iter().zip(origin) {
                let value = match from {
                    Some(from) => old[*from].clone(),
                    None if column.auto_increment => Value::UInt(number),
                    None if matches!(column.default, DefaultValue::CurrentTimestamp) => {
                        Value::DateTime(self.instance.now_utc())
                    }
                    None => column.constant_default(),
                };
                if value.is_null() && !column.nullable {
                    return Err(SqlError::new(1138, "Invalid use of NULL value"));
                }
                let stored = column.ty.store(&value);
                row.push(stored.map_err(|(why, _)| {
                    SqlError::store(why, &column.name, &value.to_text(), number)
                })?);
            }
            let pk = store::primary_key(def, &row, number);
            store::insert_row(self.txn, def, &row, &pk)?;
        }
        drop(scan);
        self.renumbered.borrow_mut().push(def.id);
        let auto = |def: &TableDef| def.auto_column();
        if auto(def).map(|at| origin[at]) != auto(before).map(Some) {
            self.restart_numbers(def, 1)?;
        }
        change.drop_space(before.space)
    }
}

#[derive(Default)]
struct Keys {
    primary: bool,
    unique: bool,
    checks: Vec<(Option<String>, String, bool)>,
}

fn add_checks(def: &mut TableDef, checks: Vec<(Option<String>, String, bool)>) {
    for (name, expr, enforced) in checks {
        let name = name.unwrap_or_else(|| format!("{}_chk_{}", def.name, def.checks.len() + 1));
        def.checks.push(CheckDef { name, expr, enforced });
    }
}

fn set_primary(def: &mut TableDef, parts: Vec<IndexPart>) -> Result<()> {
    if !def.primary.is_empty() {
        return Err(SqlError::new(1068, "Multiple primary key defined"));
    }
    for part in &parts {
        let column = &mut def.columns[part.column];
        column.nullable = false;
        if column.default == DefaultValue::Null {
            column.default = DefaultValue::None;
        }
    }
    def.primary = parts;
    Ok(())
}

fn check_auto(def: &TableDef) -> Result<()> {
    let autos: Vec<usize> =
        (0..def.columns.len()).filter(|at| def.columns[*at].auto_increment).collect();
    let first =
        |parts: &[IndexPart], at: usize| parts.first().is_some_and(|part| part.column == at);
    let keyed = |at: usize| {
        first(&def.primary, at) || def.indexes.iter().any(|index| first(&index.parts, at))
    };
    if autos.len() > 1 || autos.iter().any(|at| !keyed(*at)) {
        return Err(SqlError::new(
            1075,
            "Incorrect table definition; there can be only one auto column and it must be defined as a key",
        ));
    }
    Ok(())
}

fn parts(def: &TableDef, columns: &[ast::IndexColumn]) -> Result<Vec<IndexPart>> {
    columns
        .iter()
        .map(|part| {
            let (name, prefix) = match &part.column.expr {
                ast::Expr::Identifier(ident) => (ident.value.clone(), None),
                ast::Expr::Function(function) => {
                    let text = function.args.to_string();
                    let prefix = text.trim_matches(|c| c == '(' || c == ')').parse().ok();
                    (last_name(&function.name), prefix)
                }
                other => return Err(SqlError::unsupported(format!("an index on {other}"))),
            };
            if part.column.options.asc == Some(false) {
                return Err(SqlError::unsupported("a descending index"));
            }
            let column = def.column(&name).ok_or_else(|| {
                SqlError::new(1072, format!("Key column '{name}' doesn't exist in table"))
            })?;
            // A prefix as long as the column is none.
            let whole = match def.columns[column].ty {
                ColumnType::Char(n)
                | ColumnType::VarChar(n)
                | ColumnType::Binary(n)
                | ColumnType::VarBinary(n) => Some(n),
                _ => None,
            };
            let prefix = prefix.filter(|prefix| whole.is_none_or(|whole| *prefix < whole));
            Ok(IndexPart { column, prefix })
        })
        .collect()
}

fn find_column(def: &TableDef, name: &str) -> Result<usize> {
    def.column(name).ok_or_else(|| SqlError::unknown_column(name, &def.name))
}

fn place(def: &TableDef, position: Option<&MySQLColumnPosition>) -> Result<usize> {
    Ok(match position {
        None => def.columns.len(),
        Some(MySQLColumnPosition::First) => 0,
        Some(MySQLColumnPosition::After(name)) => find_column(def, &name.value)? + 1,
    })
}

fn insert_column(
    def: &mut TableDef,
    column: ColumnDef,
    position: Option<&MySQLColumnPosition>,
) -> Result<usize> {
    let at = place(def, position)?;
    def.columns.insert(at, column);
    let shift = |parts: &mut Vec<IndexPart>| {
        parts.iter_mut().filter(|part| part.column >= at).for_each(|part| part.column += 1);
    };
    shift(&mut def.primary);
    def.indexes.iter_mut().for_each(|index| shift(&mut index.parts));
    Ok(at)
}

fn drop_column(def: &mut TableDef, name: &str) -> Result<usize> {
    let at = def.column(name).ok_or_else(|| {
        SqlError::new(1091, format!("Can't DROP '{name}'; check that column/key exists"))
    })?;
    if def.columns.len() == 1 {
        return Err(SqlError::new(
            1090,
            "You can't delete all columns with ALTER TABLE; use DROP TABLE instead",
        ));
    }
    let names = |expr: &str| {
        let mut words = expr.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.any(|word| word.eq_ignore_ascii_case(name))
    };
    if let Some(check) = def.checks.iter().find(|check| names(&check.expr)) {
        let text = format!(
            "Check constraint '{}' uses column '{name}', hence column cannot be dropped or renamed.",
            check.name
        );
        return Err(SqlError::new(3959, text));
    }
    def.columns.remove(at);
    let shrink = |parts: &mut Vec<IndexPart>| {
        parts.retain(|part| part.column != at);
        parts.iter_mut().filter(|part| part.column > at).for_each(|part| part.column -= 1);
    };
    shrink(&mut def.primary);
    def.indexes.iter_mut().for_each(|index| shrink(&mut index.parts));
    def.indexes.retain(|index| !index.parts.is_empty());
    Ok(at)
}

fn default_value(expr: &ast::Expr, column: &ColumnDef) -> Result<DefaultValue> {
    let shown = expr.to_string();
    let upper = shown.to_ascii_uppercase();
    if upper == "NULL" {
        return Ok(DefaultValue::Null);
    }
    if ["CURRENT_TIMESTAMP", "NOW(", "LOCALTIME"].iter().any(|name| upper.starts_with(name)) {
        return Ok(DefaultValue::CurrentTimestamp);
    }
    let (value, negative) = match expr {
        ast::Expr::Value(value) => (literal(&value.value)?, false),
        ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => match &**expr {
            ast::Expr::Value(value) => (literal(&value.value)?, true),
            _ => return Ok(DefaultValue::Expr(shown)),
        },
        _ => return Ok(DefaultValue::Expr(shown)),
    };
    let default = match value {
        Value::Bytes(bytes) => {
            DefaultValue::Const(bytes.iter().map(|byte| format!("{byte:02X}")).collect(), true)
        }
        value => DefaultValue::Const(
            format!("{}{}", if negative { "-" } else { "" }, value.to_text()),
            false,
        ),
    };
    let mut probe = column.clone();
    probe.default = default.clone();
    if let DefaultValue::Const(text, false) = &default
        && column.ty.store(&Value::Text(text.clone())).is_err()
        && !matches!(column.ty, ColumnType::Bit(_))
    {
        return Err(SqlError::new(1067, format!("Invalid default value for '{}'", column.name)));
    }
    Ok(default)
}
