//! Checks whether a session's user has the privileges that a statement needs, and collects these
//! privileges for statements that define tables.
//!
//! The binder collects the needs of statements about rows (`needs`). Statements that define tables
//! name the tables by path, without aliases; this module collects their needs before the statement
//! does anything. `parser::path` makes the paths for this check and for the change itself, from the
//! same name and the same current database, so both resolutions agree. Rights are held on
//! databases, and a database cannot be renamed, so a table cannot leave the checked right between
//! the check and the change. The binder also collects the needs of DEFAULT and CHECK expressions.

use std::borrow::Cow;

use sqlparser::ast::{self, AlterTableOperation, ObjectType, Statement as S};

use super::Session;
use super::metadata::modes_of;
use crate::catalog::{Catalog, SYSTEM, UserDef, user};
use crate::ddl::parent_of;
use crate::errors::{Result, SqlError};
use crate::parser::path;
use crate::privilege::{Need, TablePath, grants};
use crate::variables::Variables;

/// The needs of a statement while it is looked through.
struct DdlNeeds<'a> {
    database: Option<&'a str>,
    list: Vec<Need>,
}

impl DdlNeeds<'_> {
    fn table(&mut self, any: &'static [&'static str], table: TablePath) {
        let need = Need::of_table(any, table);
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

    /// Foreign keys are not kept, and still need the right to the table that they name.
    fn references(&mut self, create: &ast::CreateTable) {
        for constraint in &create.constraints {
            if let ast::TableConstraint::ForeignKey(key) = constraint {
                self.name(&["REFERENCES"], &key.foreign_table);
            }
        }
        let options = create.columns.iter().flat_map(|column| &column.options);
        for parent in options.filter_map(|option| parent_of(&option.option)) {
            self.name(&["REFERENCES"], parent);
        }
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
            S::CreateTable(create) => {
                self.name(&["CREATE"], &create.name);
                if let Some(
                    ast::CreateTableLikeKind::Plain(like)
                    | ast::CreateTableLikeKind::Parenthesized(like),
                ) = &create.like
                {
                    self.name(&["SELECT"], &like.name);
                }
                self.references(create);
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

/// The account that a session began with.
#[derive(Clone)]
pub(crate) struct SessionAccount {
    name: String,
    host: String,
    id: u64,
    is_owner: bool,
}

impl SessionAccount {
    /// The account, if it is still there: one of the same name that was made later is another
    /// (ACCOUNT-4).
    pub(crate) fn find<'c>(&self, catalog: &'c Catalog) -> Option<&'c UserDef> {
        if self.is_owner {
            return Some(grants::owner());
        }
        let user = catalog.users.get(&(self.name.clone(), self.host.clone()))?;
        (user.id == self.id).then_some(user)
    }

    /// 1045: the account is there no more.
    #[cold]
    pub(crate) fn denied(&self) -> SqlError {
        SqlError::new(1045, format!("Access denied for user '{}'@'{}'", self.name, self.host))
    }
}

impl Variables {
    pub(crate) fn session_account(&self) -> SessionAccount {
        SessionAccount {
            name: self.user_name.clone(),
            host: self.user_host.clone(),
            id: self.account_id,
            is_owner: self.is_owner,
        }
    }

    /// The account that the session is of.
    pub(crate) fn account<'c>(&self, catalog: &'c Catalog) -> Option<&'c UserDef> {
        self.session_account().find(catalog)
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
        let all = self.as_user(|user| Ok(user.may_everywhere(user::ALL)))?;
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
        let list = {
            let variables = self.variables.borrow();
            let database = variables.database.as_deref();
            let mut needs = DdlNeeds { database, list: Vec::new() };
            needs.statement(statement);
            needs.list
        };
        self.check_needs(&list)
    }

    /// Checks that the user may do what a statement needs while it is bound, and that LOCK TABLES
    /// has the table for it.
    pub(super) fn may(&self, need: &Need) -> Result<()> {
        self.check_all(std::slice::from_ref(need))?;
        self.check_locked(&modes_of(std::slice::from_ref(need)))
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
