//! An account, as the catalog keeps it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::passwords;
use super::passwords::NATIVE;

/// A user account, and how it authenticates.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct UserDef {
    /// Tells the account from dropped accounts of the same name. It is 0 for accounts of catalogs
    /// from before accounts had ids.
    #[serde(default)]
    pub(crate) id: u64,
    /// The name.
    pub name: String,
    /// The host from which the user may connect: `%` for any.
    pub host: String,
    /// The authentication plugin.
    pub plugin: String,
    /// What the plugin stores; empty for an empty password.
    pub stored: Vec<u8>,
    /// Privileges for all databases (`*`) and for single databases.
    pub(crate) grants: BTreeMap<String, Vec<String>>,
    /// The account's resource limits.
    #[serde(default)]
    pub(crate) limits: AccountLimits,
    /// When failed logins block the account.
    #[serde(default)]
    pub(crate) lockout: Lockout,
    /// Whether ACCOUNT LOCK is in effect.
    #[serde(default)]
    pub(crate) locked: bool,
}

/// The limits of one account; zero means no limit.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub(crate) struct AccountLimits {
    pub(crate) queries_per_hour: u32,
    pub(crate) updates_per_hour: u32,
    pub(crate) connections_per_hour: u32,
    /// The number of simultaneous connections; zero means that `max_user_connections` applies.
    pub(crate) user_connections: u32,
}

/// FAILED_LOGIN_ATTEMPTS and PASSWORD_LOCK_TIME. If either is zero, the account is never blocked.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
pub(crate) struct Lockout {
    /// The number of consecutive failures that block the account.
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
    /// Whether the account's statements must be counted.
    pub(crate) fn counts_statements(&self) -> bool {
        self.queries_per_hour > 0 || self.updates_per_hour > 0
    }

    /// Each limit with its name in statements, in the order of MySQL's SHOW CREATE USER.
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
    /// An account without a password, privileges or limits.
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

    /// Whether a password is right for an account whose plugin is `caching_sha2_password`. The
    /// check takes some milliseconds, and as long if the password is wrong or there is no account.
    #[must_use]
    pub fn has_password(user: Option<&UserDef>, password: &[u8]) -> bool {
        let stored = user.map_or(&[][..], |user| &user.stored);
        passwords::is_password(stored, password)
    }
}

pub(crate) const ALL: &str = "ALL";

pub(crate) const GRANT_OPTION: &str = "GRANT OPTION";

/// All privileges, including the GRANT OPTION.
pub(crate) fn everything() -> BTreeMap<String, Vec<String>> {
    BTreeMap::from([("*".to_owned(), vec![ALL.to_owned(), GRANT_OPTION.to_owned()])])
}
