//! An account, as the catalog keeps it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::passwords;
use super::passwords::NATIVE;

/// A user, and how it proves to be it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct UserDef {
    /// Tells it from accounts of the same name that were dropped. Catalogs from before there were
    /// ids have 0.
    #[serde(default)]
    pub(crate) id: u64,
    /// The name.
    pub name: String,
    /// Where it may come from: `%` for anywhere.
    pub host: String,
    /// The authentication plugin.
    pub plugin: String,
    /// What the plugin stores; empty for an empty password.
    pub stored: Vec<u8>,
    /// Rights everywhere (`*`) and in databases.
    pub(crate) grants: BTreeMap<String, Vec<String>>,
    /// How much of the server it may use.
    #[serde(default)]
    pub(crate) limits: AccountLimits,
    /// When failed logins block it.
    #[serde(default)]
    pub(crate) lockout: Lockout,
    /// Whether ACCOUNT LOCK keeps its clients out.
    #[serde(default)]
    pub(crate) locked: bool,
}

/// The limits of one account; zero is none.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub(crate) struct AccountLimits {
    pub(crate) queries_per_hour: u32,
    pub(crate) updates_per_hour: u32,
    pub(crate) connections_per_hour: u32,
    /// Connections at once; zero for those that `max_user_connections` allows.
    pub(crate) user_connections: u32,
}

/// FAILED_LOGIN_ATTEMPTS and PASSWORD_LOCK_TIME. Where either is zero nothing is blocked.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub(crate) struct Lockout {
    /// Failures in a row that block the account.
    pub(crate) attempts: u16,
    pub(crate) time: LockTime,
}

/// PASSWORD_LOCK_TIME.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum LockTime {
    Days(u16),
    Unbounded,
}

impl Default for LockTime {
    fn default() -> LockTime {
        LockTime::Days(0)
    }
}

impl AccountLimits {
    /// Whether statements have to be counted.
    pub(crate) fn counts_statements(&self) -> bool {
        self.queries_per_hour > 0 || self.updates_per_hour > 0
    }

    /// Each limit by its name in statements, in the order of MySQL's SHOW CREATE USER.
    pub(crate) fn named(&mut self) -> [(&'static str, &mut u32); 4] {
        [
            ("MAX_QUERIES_PER_HOUR", &mut self.queries_per_hour),
            ("MAX_UPDATES_PER_HOUR", &mut self.updates_per_hour),
            ("MAX_CONNECTIONS_PER_HOUR", &mut self.connections_per_hour),
            ("MAX_USER_CONNECTIONS", &mut self.user_connections),
        ]
    }
}

impl Lockout {
    pub(crate) fn is_active(&self) -> bool {
        self.attempts > 0 && self.time != LockTime::Days(0)
    }
}

impl UserDef {
    /// An account without a password, rights or limits.
    pub(crate) fn new(id: u64, name: impl Into<String>, host: impl Into<String>) -> UserDef {
        UserDef {
            id,
            name: name.into(),
            host: host.into(),
            plugin: NATIVE.to_owned(),
            stored: Vec::new(),
            grants: BTreeMap::default(),
            limits: AccountLimits::default(),
            lockout: Lockout::default(),
            locked: false,
        }
    }

    /// Whether a password is that of an account whose plugin is `caching_sha2_password`. Takes some
    /// milliseconds, whatever the answer, and as long where there is no account.
    #[must_use]
    pub fn has_password(user: Option<&UserDef>, password: &[u8]) -> bool {
        let stored = user.map_or(&[][..], |user| &user.stored);
        passwords::is_password(stored, password)
    }
}

pub(crate) const ALL: &str = "ALL";

pub(crate) const GRANT_OPTION: &str = "GRANT OPTION";

/// Every right there is, and the right to give them.
pub(crate) fn everything() -> BTreeMap<String, Vec<String>> {
    BTreeMap::from([("*".to_owned(), vec![ALL.to_owned(), GRANT_OPTION.to_owned()])])
}
