//! Starts a client's session, and checks the limits of its account.
//!
//! A session belongs to the account as which its client was authenticated. If this account is
//! dropped and another one gets its name, the session does not belong to the new one (ACCOUNT-4).

use super::Session;
use super::instance::Instance;
use super::security_context::SessionAccount;
use crate::catalog::{Catalog, UserDef};
use crate::errors::{Result, SqlError};
use crate::privilege::grants;

/// The account as which a client was authenticated.
#[derive(Clone, Debug)]
pub struct Account {
    name: String,
    host: String,
    id: u64,
}

impl UserDef {
    /// Identifies this account.
    #[must_use]
    pub fn account(&self) -> Account {
        Account { name: self.name.clone(), host: self.host.clone(), id: self.id }
    }
}

impl Account {
    /// The account, if it still exists.
    fn find<'c>(&self, catalog: &'c Catalog) -> Option<&'c UserDef> {
        let user = catalog.users.get(&(self.name.clone(), self.host.clone()))?;
        (user.id == self.id).then_some(user)
    }
}

impl Instance {
    /// Records an attempt to log in to an account from `host`, and whether it succeeded (`known`).
    ///
    /// # Errors
    /// 3955 if failed logins have blocked the account (LOCKOUT-1).
    pub fn tried(&self, user: &UserDef, host: &str, known: bool) -> Result<()> {
        self.0.accounts.tried(user, host, known)
    }

    /// Checks that an account may log in over the server's admin socket.
    ///
    /// # Errors
    /// 1227 if it has neither privilege for that.
    pub fn check_connection_admin(&self, account: &Account) -> Result<()> {
        const RIGHTS: &[&str] = &["CONNECTION_ADMIN", "SERVICE_CONNECTION_ADMIN"];
        let catalog = self.0.catalog.load();
        let user = account.find(&catalog);
        let has = user.is_some_and(|user| RIGHTS.iter().any(|right| user.may_everywhere(right)));
        if has { Ok(()) } else { Err(grants::missing(RIGHTS)) }
    }

    /// Starts the session of a client that was authenticated as an account and connects from
    /// `host`.
    ///
    /// # Errors
    /// 1045 if the account no longer exists, 3118 if it is locked, 1203 and 1226 if it has the
    /// maximum number of connections.
    pub fn connect(&self, account: &Account, host: &str, connection_id: u64) -> Result<Session> {
        let catalog = self.0.catalog.load();
        let denied = || {
            let text = format!("Access denied for user '{}'@'{host}'", account.name);
            SqlError::new(1045, text)
        };
        let user = account.find(&catalog).ok_or_else(denied)?;
        if user.locked {
            let text =
                format!("Access denied for user '{}'@'{host}'. Account is locked.", account.name);
            return Err(SqlError::new(3118, text));
        }
        let most = self.global_number("max_user_connections").unwrap_or(0);
        let connected = self.0.accounts.connect(user, most)?;
        let mut session = self.session_of(SessionAccount::of(user), host, connection_id);
        session.security.connect(connected);
        let own = user.limits.user_connections;
        if own > 0 {
            let system = &mut session.variables.borrow_mut().system;
            system.insert("max_user_connections".to_owned(), own.to_string());
        }
        Ok(session)
    }
}

impl Session {
    /// Stops counting as a connection of its account, because the client is about to change users.
    pub fn disconnect(&mut self) {
        self.security.disconnect();
    }
}
