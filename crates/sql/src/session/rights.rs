//! What a statement needs, and whether its user may.
//!
//! Every table that a statement names anywhere is checked before anything is planned, so that not even an error tells of a
//! table that the user may not know.

use std::borrow::Cow;

use sqlparser::ast::{self, AlterTableOperation, ObjectType, Statement as S};

use super::tables::{Reads, path};
use super::{Session, Variables};
use crate::catalog::{Catalog, SYSTEM, UserDef};
use crate::errors::{Result, SqlError};
use crate::grants;

/// One of some rights, in a database; for a table of it where there is one.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Need {
    any: &'static [&'static str],
    db: String,
    table: Option<String>,
}

/// The needs of a statement while it is looked through.
struct Needs<'a> {
    database: Option<&'a str>,
    list: Vec<Need>,
}

impl Needs<'_> {
    fn table(&mut self, any: &'static [&'static str], (db, table): (String, String)) {
        let need = Need { any, db, table: Some(table) };
        if !self.list.contains(&need) {
            self.list.push(need);
        }
    }

    fn name(&mut self, any: &'static [&'static str], name: &ast::ObjectName) {
        if let Ok(path) = path(name, self.database) {
            self.table(any, path);
        }
    }

    fn database(&mut self, right: &'static [&'static str], name: &ast::ObjectName) {
        if let Ok((_, db)) = path(name, Some("")) {
            self.list.push(Need { any: right, db, table: None });
        }
    }

    fn reads(&mut self, reads: Reads<'_>) {
        for table in reads.tables {
            if reads.locks {
                self.table(&["UPDATE", "DELETE", "LOCK TABLES"], table.clone());
            }
            self.table(&["SELECT"], table);
        }
    }

    fn insert(&mut self, insert: &ast::Insert) {
        let mut reads = Reads::new(self.database);
        reads.add(&insert.source);
        reads.add(&insert.assignments);
        if let ast::TableObject::TableName(name) = &insert.table {
            self.name(&["INSERT"], name);
            if insert.replace_into {
                self.name(&["DELETE"], name);
            }
            if insert.on.is_some() {
                self.name(&["UPDATE"], name);
            }
        }
        if let Some(ast::OnInsert::DuplicateKeyUpdate(assignments)) = &insert.on {
            reads.add(assignments);
        }
        self.reads(reads);
    }

    /// The tables that a change of several names as its targets; all of them where that is not clear.
    fn targets(
        &mut self,
        right: &'static [&'static str],
        from: &[ast::TableWithJoins],
        names: &[String],
    ) {
        let factors = from.iter().flat_map(|tables| {
            std::iter::once(&tables.relation).chain(tables.joins.iter().map(|join| &join.relation))
        });
        let mut all = Vec::new();
        for factor in factors {
            if let ast::TableFactor::Table { name, alias, .. } = factor
                && let Ok(path) = path(name, self.database)
            {
                let alias = alias.as_ref().map_or(&path.1, |alias| &alias.name.value).clone();
                all.push((alias, path));
            }
        }
        let named = |alias: &str| names.iter().any(|name| name.eq_ignore_ascii_case(alias));
        let some = all.iter().any(|(alias, _)| named(alias));
        let clear = some
            && names
                .iter()
                .all(|name| all.iter().any(|(alias, _)| alias.eq_ignore_ascii_case(name)));
        for (alias, path) in all {
            if !clear || named(&alias) {
                self.table(right, path);
            }
        }
    }

    fn update(&mut self, update: &ast::Update) {
        let mut names = Vec::new();
        for assignment in &update.assignments {
            let target = match &assignment.target {
                ast::AssignmentTarget::ColumnName(name) => name.0.as_slice(),
                ast::AssignmentTarget::Tuple(_) => &[],
            };
            // `t.a` and `db.t.a` name the table; `a` may be any table's.
            names.push(match target {
                [.., table, _] => table.to_string().replace('`', ""),
                _ => String::new(),
            });
        }
        let from = std::slice::from_ref(&update.table);
        self.targets(&["UPDATE"], from, &names);
        let mut reads = Reads::new(self.database);
        update.assignments.iter().for_each(|assignment| reads.add(&assignment.value));
        reads.add(&update.selection);
        reads.add(&update.order_by);
        reads.add(&update.limit);
        // The tables of the change are read where any column is.
        if reads.columns || !update.table.joins.is_empty() {
            reads.add(&update.table);
        }
        self.reads(reads);
    }

    fn delete(&mut self, delete: &ast::Delete) {
        let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) =
            &delete.from;
        let last = |name: &ast::ObjectName| {
            name.0.last().map_or_else(String::new, |part| part.to_string().replace('`', ""))
        };
        let using = delete.using.as_deref();
        let names: Vec<String> = if using.is_some() {
            let targets = from.iter().filter_map(|tables| match &tables.relation {
                ast::TableFactor::Table { name, .. } => Some(last(name)),
                _ => None,
            });
            targets.collect()
        } else {
            delete.tables.iter().map(last).collect()
        };
        let tables = using.unwrap_or(from);
        self.targets(&["DELETE"], tables, &names);
        let mut reads = Reads::new(self.database);
        reads.add(&delete.selection);
        reads.add(&delete.order_by);
        reads.add(&delete.limit);
        if reads.columns || !names.is_empty() {
            tables.iter().for_each(|table| reads.add(table));
        }
        self.reads(reads);
    }

    fn alter(&mut self, alter: &ast::AlterTable) {
        self.name(&["ALTER"], &alter.name);
        for operation in &alter.operations {
            if let AlterTableOperation::RenameTable { table_name } = operation {
                let (ast::RenameTableNameKind::As(to) | ast::RenameTableNameKind::To(to)) =
                    table_name;
                self.name(&["DROP"], &alter.name);
                self.name(&["CREATE"], to);
                self.name(&["INSERT"], to);
            }
        }
    }

    fn statement(&mut self, statement: &ast::Statement) {
        match statement {
            S::Query(query) => {
                let mut reads = Reads::new(self.database);
                reads.add(query);
                self.reads(reads);
            }
            S::Insert(insert) => self.insert(insert),
            S::Update(update) => self.update(update),
            S::Delete(delete) => self.delete(delete),
            S::Explain { statement, .. } => self.statement(statement),
            S::CreateTable(create) => {
                self.name(&["CREATE"], &create.name);
                if let Some(
                    ast::CreateTableLikeKind::Plain(like)
                    | ast::CreateTableLikeKind::Parenthesized(like),
                ) = &create.like
                {
                    self.name(&["SELECT"], &like.name);
                }
                if let Some(query) = &create.query {
                    let mut reads = Reads::new(self.database);
                    reads.add(query);
                    self.reads(reads);
                    self.name(&["INSERT"], &create.name);
                }
            }
            S::AlterTable(alter) => self.alter(alter),
            S::CreateIndex(create) => self.name(&["INDEX"], &create.table_name),
            S::Truncate(truncate) => {
                truncate.table_names.iter().for_each(|target| self.name(&["DROP"], &target.name));
            }
            S::CreateDatabase { db_name, .. } => self.database(&["CREATE"], db_name),
            S::CreateSchema { schema_name: ast::SchemaName::Simple(name), .. } => {
                self.database(&["CREATE"], name);
            }
            S::Drop { object_type, names, table, .. } => match object_type {
                ObjectType::Database | ObjectType::Schema => {
                    names.iter().for_each(|name| self.database(&["DROP"], name));
                }
                ObjectType::Index => table.iter().for_each(|name| self.name(&["INDEX"], name)),
                _ => names.iter().for_each(|name| self.name(&["DROP"], name)),
            },
            // Refused by its name, whoever asks.
            _ => {}
        }
    }
}

/// The tables that a statement needs rights to change.
pub(super) fn changed_by(
    statement: &ast::Statement,
    database: Option<&str>,
) -> Vec<(String, String)> {
    let changes = |need: &Need| need.any.iter().any(|right| *right != "SELECT");
    let needs = needs_of(statement, database).into_iter().filter(changes);
    needs.filter_map(|need| Some((need.db, need.table?))).collect()
}

/// What a statement needs, in a current database.
pub(super) fn needs_of(statement: &ast::Statement, database: Option<&str>) -> Vec<Need> {
    let mut needs = Needs { database, list: Vec::new() };
    needs.statement(statement);
    needs.list
}

impl Variables {
    /// The account that the session is of.
    pub(crate) fn account<'c>(&self, catalog: &'c Catalog) -> Option<&'c UserDef> {
        catalog.users.get(&(self.user_name.clone(), self.user_host.clone()))
    }

    /// What the session may know of the catalog.
    pub(crate) fn seen<'c>(&self, catalog: &'c Catalog) -> Cow<'c, Catalog> {
        match self.account(catalog) {
            Some(user) => catalog.seen_by(user),
            None => Cow::Owned(Catalog::default()),
        }
    }
}

impl Session {
    /// Calls `body` with the session's account.
    pub(super) fn as_user<T>(&self, body: impl FnOnce(&UserDef) -> Result<T>) -> Result<T> {
        let catalog = self.instance.0.catalog.load();
        let variables = self.variables.borrow();
        match variables.account(&catalog) {
            Some(user) => body(user),
            None => Err(SqlError::new(
                1045,
                format!("Access denied for user '{}'@'{}'", variables.user_name, variables.host),
            )),
        }
    }

    /// Whether the account may do everything, so that nothing needs to be looked through.
    fn may_all(&self) -> Result<bool> {
        let version = self.instance.catalog_version();
        if self.all_rights.get() == version {
            return Ok(true);
        }
        let all = self.as_user(|user| Ok(user.may_everywhere(grants::ALL)))?;
        if all {
            self.all_rights.set(version);
        }
        Ok(all)
    }

    /// Checks that the user may run a statement.
    pub(super) fn check_rights(&self, statement: &ast::Statement) -> Result<()> {
        if self.may_all()? {
            return Ok(());
        }
        let needs = needs_of(statement, self.variables.borrow().database.as_deref());
        self.check_needs(&needs)
    }

    /// Checks that the user may have the value of an expression.
    pub(super) fn check_expr(&self, expr: &ast::Expr) -> Result<()> {
        if self.may_all()? {
            return Ok(());
        }
        let list = {
            let variables = self.variables.borrow();
            let database = variables.database.as_deref();
            let mut reads = Reads::new(database);
            reads.add(expr);
            let mut needs = Needs { database, list: Vec::new() };
            needs.reads(reads);
            needs.list
        };
        self.check_needs(&list)
    }

    /// As [`Session::check_needs`], for an account that may do everything at no cost.
    pub(super) fn check_all(&self, needs: &[Need]) -> Result<()> {
        if self.may_all()? { Ok(()) } else { self.check_needs(needs) }
    }

    pub(super) fn check_needs(&self, needs: &[Need]) -> Result<()> {
        for need in needs {
            let table = need.table.as_deref();
            self.check_table(need.any, &need.db, table)?;
        }
        Ok(())
    }

    /// Checks that the user has one of some rights in a database.
    pub(super) fn check_table(&self, any: &[&str], db: &str, table: Option<&str>) -> Result<()> {
        if SYSTEM.contains(&db.to_ascii_lowercase().as_str()) && any == ["SELECT"] {
            // These tell each user what it may know.
            return Ok(());
        }
        self.as_user(|user| {
            if any.iter().any(|right| user.may(right, db)) {
                return Ok(());
            }
            let Some(table) = table else { return Err(grants::no_database(user, db)) };
            Err(SqlError::new(
                1142,
                format!(
                    "{} command denied to user '{}'@'{}' for table '{table}'",
                    any[0], user.name, user.host
                ),
            ))
        })
    }

    /// Checks that the user has one of some rights everywhere.
    pub(super) fn check_everywhere(&self, any: &[&str]) -> Result<()> {
        self.as_user(|user| {
            if any.iter().any(|right| user.may_everywhere(right)) {
                Ok(())
            } else {
                Err(grants::missing(any))
            }
        })
    }

    /// Checks that the user may do anything at all in a database.
    pub(super) fn check_sees(&self, db: &str) -> Result<()> {
        self.as_user(|user| if user.sees(db) { Ok(()) } else { Err(grants::no_database(user, db)) })
    }
}
