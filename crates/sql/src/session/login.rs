//! The beginning of a client's session, and the limits of its account.
//!
//! A session belongs to the account whose password its client has proved, and never to an account
//! that has received the same name meanwhile (ACCOUNT-4).

use super::Session;
use super::instance::Instance;
use super::security_context::SessionAccount;
use crate::catalog::{Catalog, UserDef};
use crate::errors::{Result, SqlError};
use crate::privilege::grants;

/// An account that a client has proved to be of.
#[derive(Clone, Debug)]
pub struct Account {
    name: String,
    host: String,
    id: u64,
}

impl UserDef {
    /// Which account this is.
    #[must_use]
    pub fn account(&self) -> Account {
        Account { name: self.name.clone(), host: self.host.clone(), id: self.id }
    }
}

impl Account {
    /// The account, if it is still there.
    fn find<'c>(&self, catalog: &'c Catalog) -> Option<&'c UserDef> {
        let user = catalog.users.get(&(self.name.clone(), self.host.clone()))?;
        (user.id == self.id).then_some(user)
    }
}

impl Instance {
    /// Notes that a client has proved to be of an account, or failed to; `host` is where it comes
    /// from.
    ///
    /// # Errors
    /// 3955 where failed logins have blocked the account (LOCKOUT-1).
    pub fn tried(&self, user: &UserDef, host: &str, known: bool) -> Result<()> {
        self.0.accounts.tried(user, host, known)
    }

    /// Checks that an account may log in over the server's admin socket.
    ///
    /// # Errors
    /// 1227 where it has neither right to.
    pub fn check_connection_admin(&self, account: &Account) -> Result<()> {
        const RIGHTS: &[&str] = &["CONNECTION_ADMIN", "SERVICE_CONNECTION_ADMIN"];
        let catalog = self.0.catalog.load();
        let user = account.find(&catalog);
        let has = user.is_some_and(|user| RIGHTS.iter().any(|right| user.may_everywhere(right)));
        if has { Ok(()) } else { Err(grants::missing(RIGHTS)) }
    }

    /// Starts the session of a client that has proved to be of an account and comes from `host`.
    ///
    /// # Errors
    /// 1045 where the account is there no more, 3118 where it is locked, 1203 and 1226 where it has
    /// as many connections as it may.
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
    /// Gives back the place among its account's connections: the client is about to take another.
    pub fn disconnect(&mut self) {
        self.security.disconnect();
    }
}
