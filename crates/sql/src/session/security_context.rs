//! The security context of a session: its account, the checks of its statements' privileges, and
//! the account's limits on statements.

use std::borrow::Cow;
use std::cell::Cell;

use spillway::Table;
use sqlparser::ast;

use super::ddl_needs;
use super::instance::Instance;
use crate::catalog::{AccountLimits, Catalog, SYSTEM, UserDef, user};
use crate::errors::{Result, SqlError};
use crate::information_schema::{Labels, Readable};
use crate::parser::Statement;
use crate::privilege::{Connected, Need, grants};
use crate::variables::Variables;

/// The account with which a session began.
#[derive(Clone)]
pub(crate) struct SessionAccount {
    pub(super) name: String,
    pub(super) host: String,
    pub(super) id: u64,
    /// Whether this is the owner of the data folder, which is in no catalog.
    pub(super) is_owner: bool,
}

impl SessionAccount {
    pub(super) fn of(user: &UserDef) -> SessionAccount {
        let (name, host) = (user.name.clone(), user.host.clone());
        SessionAccount { name, host, id: user.id, is_owner: false }
    }

    /// The account, if it still exists. A later account of the same name is another one
    /// (ACCOUNT-4).
    pub(crate) fn find<'c>(&self, catalog: &'c Catalog) -> Option<&'c UserDef> {
        if self.is_owner {
            return Some(grants::owner());
        }
        let user = catalog.users.get(&(self.name.clone(), self.host.clone()))?;
        (user.id == self.id).then_some(user)
    }

    /// 1045: the account no longer exists.
    #[cold]
    pub(crate) fn denied(&self) -> SqlError {
        SqlError::new(1045, format!("Access denied for user '{}'@'{}'", self.name, self.host))
    }
}

impl Variables {
    /// The session's account, if it still exists.
    pub(crate) fn account<'c>(&self, catalog: &'c Catalog) -> Option<&'c UserDef> {
        let account = SessionAccount {
            name: self.user_name.clone(),
            host: self.user_host.clone(),
            id: self.account_id,
            is_owner: self.is_owner,
        };
        account.find(catalog)
    }

    /// The part of the catalog that the session may see.
    pub(crate) fn seen<'c>(&self, catalog: &'c Catalog) -> Cow<'c, Catalog> {
        match self.account(catalog) {
            Some(user) => catalog.seen_by(user),
            None => Cow::Owned(Catalog::default()),
        }
    }
}

/// The account of a session, and its privileges.
pub(super) struct SecurityContext {
    instance: Instance,
    account: SessionAccount,
    /// The host from which the client connects.
    client_host: String,
    /// Counts this session as a connection of the account, if a client has connected.
    connected: Option<Connected>,
    /// The version of the catalog in which the account was last seen to hold every privilege; zero
    /// for none.
    all_rights: Cell<u64>,
    /// The version of the catalog in which the account's limits were last looked up, and the
    /// limits.
    limits_seen: Cell<(u64, AccountLimits)>,
}

impl SecurityContext {
    pub(super) fn new(
        instance: Instance,
        account: SessionAccount,
        client_host: &str,
    ) -> SecurityContext {
        SecurityContext {
            instance,
            account,
            client_host: client_host.to_owned(),
            connected: None,
            all_rights: Cell::new(0),
            limits_seen: Cell::default(),
        }
    }

    pub(super) fn account(&self) -> &SessionAccount {
        &self.account
    }

    pub(super) fn client_host(&self) -> &str {
        &self.client_host
    }

    /// Counts this session as a connection of the account.
    pub(super) fn connect(&mut self, connected: Connected) {
        self.connected = Some(connected);
    }

    /// Stops counting this session as a connection of the account.
    pub(super) fn disconnect(&mut self) {
        self.connected = None;
    }

    /// Calls `body` with the account's current definition.
    ///
    /// # Errors
    /// 1045 if the account no longer exists.
    pub(super) fn as_user<T>(&self, body: impl FnOnce(&UserDef) -> Result<T>) -> Result<T> {
        let catalog = self.instance.0.catalog.load();
        match self.account.find(&catalog) {
            Some(user) => body(user),
            None => Err(SqlError::new(
                1045,
                format!("Access denied for user '{}'@'{}'", self.account.name, self.client_host),
            )),
        }
    }

    /// Whether the account has every privilege, so that a statement's needs need no check.
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

    /// Checks that the user may run a statement about definitions.
    pub(super) fn check_statement(
        &self,
        statement: &ast::Statement,
        database: Option<&str>,
    ) -> Result<()> {
        if self.may_all()? {
            return Ok(());
        }
        self.check_each(&ddl_needs::needs_of(statement, database))
    }

    /// Checks that the user has the privileges that a statement needs.
    pub(super) fn check_needs(&self, needs: &[Need]) -> Result<()> {
        if self.may_all()? { Ok(()) } else { self.check_each(needs) }
    }

    fn check_each(&self, needs: &[Need]) -> Result<()> {
        for need in needs {
            let table = need.table.as_deref();
            self.check_table(need.any, &need.db, table)?;
        }
        Ok(())
    }

    /// Checks that the user has one of the privileges `any` in a database.
    pub(super) fn check_table(&self, any: &[&str], db: &str, table: Option<&str>) -> Result<()> {
        if SYSTEM.contains(&db.to_ascii_lowercase().as_str()) && any == ["SELECT"] {
            // The system schemas show each user only what it may see.
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

    /// Checks that the user has one of the privileges `any` globally.
    pub(super) fn check_everywhere(&self, any: &[&str]) -> Result<()> {
        self.as_user(|user| {
            if any.iter().any(|right| user.may_everywhere(right)) {
                Ok(())
            } else {
                Err(grants::missing(any))
            }
        })
    }

    /// Whether the user may read all tables of these needs, so that an error may quote values of
    /// their rows (NEED-6).
    pub(super) fn may_read(&self, needs: &[Need]) -> bool {
        let reads = |need: &Need| self.check_table(&["SELECT"], &need.db, None).is_ok();
        self.may_all().is_ok_and(|all| all || needs.iter().all(reads))
    }

    /// Whether the user may see keys of this key space (SIGHT-1, SIGHT-3).
    pub(super) fn may_see_keys(&self, space: Option<Table>) -> bool {
        let catalog = self.instance.0.catalog.load();
        Readable::new(self.account.find(&catalog), &Labels::of(&catalog)).is(space)
    }

    /// Checks that the user has any privilege in a database.
    pub(super) fn check_sees(&self, db: &str) -> Result<()> {
        self.as_user(|user| if user.sees(db) { Ok(()) } else { Err(grants::no_database(user, db)) })
    }

    /// Counts a statement that begins, if the account has a limit on statements. `asked` is true if
    /// the client sent it, and false if another statement runs it, such as EXECUTE.
    pub(super) fn count_statement(&self, statement: &Statement, asked: bool) -> Result<()> {
        let version = self.instance.catalog_version();
        let (seen, mut limits) = self.limits_seen.get();
        if seen != version {
            let catalog = self.instance.0.catalog.load();
            let user = self.account.find(&catalog).filter(|_| !self.account.is_owner);
            limits = user.map(|user| user.limits).unwrap_or_default();
            self.limits_seen.set((version, limits));
        }
        if !limits.counts_statements() {
            return Ok(());
        }
        let account = (self.account.id, self.account.name.as_str());
        self.instance.0.accounts.statement(account, limits, asked, changes(statement))
    }
}

/// Whether a statement changes data, definitions or accounts.
fn changes(statement: &Statement) -> bool {
    match statement {
        Statement::Sql(sql) => !matches!(**sql, ast::Statement::Query(_)),
        Statement::Own(first, _) => {
            ["alter", "create", "drop", "grant", "rename", "revoke"].contains(&first.as_str())
        }
    }
}
