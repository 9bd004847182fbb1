//! Counts how much of its resource limits each account has used, and records which accounts are
//! blocked after failed logins.
//!
//! The counts and the blocks are in memory only, as in MySQL: a restart resets them. Times come
//! from the instance's clock.
//!
//! # Guarantees
//!
//! - **QUOTA-1 (an hour).** An account's hourly limits on statements, changes and connections apply
//!   to all of its sessions together. A statement or connection beyond a limit fails with 1226, and
//!   the statement does nothing. An account's hour begins with the first statement or connection
//!   that is counted. When the hour is over, all hourly counts of the account are reset.
//! - **QUOTA-2 (at once).** An account has no more connections at once than its own
//!   MAX_USER_CONNECTIONS (error 1226). If MAX_USER_CONNECTIONS is zero, `max_user_connections`
//!   applies (error 1203); if that is zero, too, the connections are not limited. Connections that
//!   were open before a limit was set are counted.
//! - **QUOTA-3 (reset).** FLUSH USER_RESOURCES resets the hourly counts of all accounts. A
//!   statement that sets a limit of an account resets the hourly counts of that account. New limits
//!   also apply to later statements of sessions that are already open.
//! - **LOCKOUT-1 (failures in a row).** An account with FAILED_LOGIN_ATTEMPTS n and a
//!   PASSWORD_LOCK_TIME is blocked after n wrong passwords in a row. The login with the n-th wrong
//!   password fails with 3955, and so does every later login, even with the right password. A right
//!   password before the n-th wrong one resets the count.
//! - **LOCKOUT-2 (end of the block).** The block ends after PASSWORD_LOCK_TIME days. ACCOUNT
//!   UNLOCK, a statement that sets either option, FLUSH PRIVILEGES and a restart end it earlier. A
//!   block does not affect other accounts.
//! - **LOCKOUT-3 (a dropped account).** An account does not inherit the counts of a dropped account
//!   of the same name: counts are kept by the account's number.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use spillway_base::clock::Clock;
use spillway_base::lock::Mutex;

use crate::catalog::{AccountLimits, LockTime, UserDef};
use crate::errors::{Result, SqlError};

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);

/// The resource use of one account.
#[derive(Default)]
struct Used {
    /// The number of connections that the account has now.
    connected: u64,
    hour: Option<Hour>,
    /// The number of consecutive failed logins.
    failures: u16,
    blocked_at: Option<Duration>,
}

/// The counts of an account's current hour.
struct Hour {
    begun: Duration,
    queries: u64,
    updates: u64,
    connections: u64,
}

impl Used {
    fn hour(&mut self, now: Duration) -> &mut Hour {
        let over = |hour: &Hour| now.saturating_sub(hour.begun) >= HOUR;
        if self.hour.as_ref().is_none_or(over) {
            self.hour = None;
        }
        self.hour.get_or_insert(Hour { begun: now, queries: 0, updates: 0, connections: 0 })
    }

    fn is_nothing(&self) -> bool {
        self.connected == 0
            && self.hour.is_none()
            && self.failures == 0
            && self.blocked_at.is_none()
    }
}

/// Counts to reset once a statement about accounts has committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Forget {
    /// The counts of the current hour of the account with this number.
    Hour(u64),
    /// The failed logins of the account with this number.
    Failures(u64),
}

/// The resource use of an instance's accounts.
pub(crate) struct AccountUse {
    clock: Clock,
    /// The resource use by account number.
    used: Mutex<HashMap<u64, Used>>,
}

/// A connection that counts for an account until this is dropped.
pub(crate) struct Connected {
    accounts: Arc<AccountUse>,
    id: u64,
}

impl Drop for Connected {
    fn drop(&mut self) {
        let mut all = self.accounts.used.lock();
        if let Some(used) = all.get_mut(&self.id) {
            used.connected -= 1;
            if used.is_nothing() {
                all.remove(&self.id);
            }
        }
    }
}

/// 1226: the account has exceeded one of its own limits.
#[cold]
fn exceeded(name: &str, resource: &str, limit: u32) -> SqlError {
    let text =
        format!("User '{name}' has exceeded the '{resource}' resource (current value: {limit})");
    SqlError::new(1226, text)
}

/// Increments a count, or fails if the limit is reached.
fn count(name: &str, resource: &str, count: &mut u64, limit: u32) -> Result<()> {
    if limit > 0 && *count >= u64::from(limit) {
        return Err(exceeded(name, resource, limit));
    }
    *count += 1;
    Ok(())
}

impl AccountUse {
    pub(crate) fn new(clock: Clock) -> AccountUse {
        AccountUse { clock, used: Mutex::default() }
    }

    /// Counts a new connection of an account. `most` is `max_user_connections`.
    pub(crate) fn connect(self: &Arc<AccountUse>, user: &UserDef, most: u64) -> Result<Connected> {
        let (name, limits) = (&user.name, &user.limits);
        let mut all = self.used.lock();
        let used = all.entry(user.id).or_default();
        let own = limits.user_connections;
        if own > 0 && used.connected >= u64::from(own) {
            return Err(exceeded(name, "max_user_connections", own));
        }
        if own == 0 && most > 0 && used.connected >= most {
            let text = format!(
                "User {name} already has more than 'max_user_connections' active connections"
            );
            return Err(SqlError::new(1203, text));
        }
        if limits.connections_per_hour > 0 {
            let connections = &mut used.hour(self.clock.now()).connections;
            count(name, "max_connections_per_hour", connections, limits.connections_per_hour)?;
        }
        used.connected += 1;
        Ok(Connected { accounts: self.clone(), id: user.id })
    }

    /// Counts a statement that a session of the account begins. A statement that another statement
    /// runs, as EXECUTE does, counts only if it is a change.
    pub(crate) fn statement(
        &self,
        (id, name): (u64, &str),
        limits: AccountLimits,
        asked: bool,
        changes: bool,
    ) -> Result<()> {
        let mut all = self.used.lock();
        let hour = all.entry(id).or_default().hour(self.clock.now());
        if asked && limits.queries_per_hour > 0 {
            count(name, "max_queries_per_hour", &mut hour.queries, limits.queries_per_hour)?;
        }
        if changes && limits.updates_per_hour > 0 {
            count(name, "max_updates_per_hour", &mut hour.updates, limits.updates_per_hour)?;
        }
        Ok(())
    }

    /// Records whether a login to an account succeeded. Fails if the account is blocked.
    pub(crate) fn tried(&self, user: &UserDef, host: &str, known: bool) -> Result<()> {
        let lockout = user.lockout;
        if !lockout.is_active() {
            return Ok(());
        }
        let now = self.clock.now();
        let mut all = self.used.lock();
        let used = all.entry(user.id).or_default();
        let time = match lockout.time {
            LockTime::Days(days) => Some(DAY * u32::from(days)),
            LockTime::Unbounded => None,
        };
        if let (Some(at), Some(time)) = (used.blocked_at, time)
            && now.saturating_sub(at) >= time
        {
            (used.blocked_at, used.failures) = (None, 0);
        }
        if used.blocked_at.is_none() {
            used.failures = if known { 0 } else { used.failures.saturating_add(1) };
            if used.failures >= lockout.attempts {
                used.blocked_at = Some(now);
            }
        }
        let Some(at) = used.blocked_at else { return Ok(()) };
        let days = |time: Option<Duration>| match time {
            None => "unlimited".to_owned(),
            Some(time) => time.as_secs().div_ceil(DAY.as_secs()).to_string(),
        };
        let left = time.map(|time| time.saturating_sub(now.saturating_sub(at)));
        let text = format!(
            "Access denied for user '{}'@'{host}'. Account is blocked for {} day(s) ({} day(s) \
             remaining) due to {} consecutive failed logins.",
            user.name,
            days(time),
            days(left),
            lockout.attempts
        );
        Err(SqlError::new(3955, text))
    }

    /// Resets the counts of the hour of all accounts: FLUSH USER_RESOURCES.
    pub(crate) fn forget_hours(&self) {
        self.used.lock().values_mut().for_each(|used| used.hour = None);
    }

    /// Resets all counts of failed logins: FLUSH PRIVILEGES.
    pub(crate) fn forget_failures(&self) {
        let clear = |used: &mut Used| (used.failures, used.blocked_at) = (0, None);
        self.used.lock().values_mut().for_each(clear);
    }

    /// Resets the counts that a committed statement about accounts has invalidated.
    pub(crate) fn forget(&self, what: &[Forget]) {
        let mut all = self.used.lock();
        for what in what {
            let (Forget::Hour(id) | Forget::Failures(id)) = what;
            let Some(used) = all.get_mut(id) else { continue };
            match what {
                Forget::Hour(_) => used.hour = None,
                Forget::Failures(_) => (used.failures, used.blocked_at) = (0, None),
            }
            if used.is_nothing() {
                all.remove(id);
            }
        }
    }
}
