//! Guards accounts against guessed passwords.
//!
//! - **GUARD-1 (a growing delay).** After [`FREE`] failures in a row of one account from one
//!   source, the next password is checked at the earliest 100 ms after the last failure. Each
//!   further failure doubles this delay, up to [`DELAY_MAX`]. A successful login resets it.
//!   Simultaneous attempts for one account from one source wait one after another. A source is a
//!   client's address together with the socket (public or admin) to which the client connects.
//! - **GUARD-2 (bounded).** At most [`WAITING_MAX`] attempts of one account from one source wait;
//!   further attempts are refused as if their password were wrong. At most [`KEPT_MAX`] pairs of
//!   account and source are remembered. The pair whose last failure is the oldest is forgotten
//!   first.
//!
//! The delay is the same whether or not the account exists, so it does not reveal which accounts
//! exist. It applies to one account from one source. So an attacker cannot lock out the account's
//! users at other addresses, and no client of the public socket can lock administrators out of the
//! admin socket.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use parking_lot::Mutex;
use spillway_base::clock;

use crate::admission::Entrance;

/// The consecutive failures without a delay: users mistype.
const FREE: u32 = 3;
const DELAY_MIN: Duration = Duration::from_millis(100);
/// The longest delay. Clients give up a login after some ten seconds.
const DELAY_MAX: Duration = Duration::from_secs(5);
const WAITING_MAX: u32 = 4;
const KEPT_MAX: usize = 10_000;

/// The source of an attempt. A Unix socket has no address.
pub(crate) type GuardSource = (Entrance, Option<IpAddr>);

/// A source, and the account's name.
type GuardKey = (GuardSource, Box<str>);

#[derive(Default)]
struct Tries {
    failures: u32,
    /// The time at which the next attempt may be checked.
    free_at: Duration,
    waiting: u32,
    tried_at: Duration,
}

/// The failed logins of a server.
#[derive(Default)]
pub(crate) struct Guard(Mutex<HashMap<GuardKey, Tries>>);

/// An attempt that may be checked after [`Attempt::wait`]. If it ends without [`Attempt::ended`],
/// it counts as failed.
pub(crate) struct Attempt<'g> {
    guard: &'g Guard,
    key: GuardKey,
    /// How long to wait before the password is checked.
    pub(crate) wait: Duration,
    /// Whether this attempt is counted in [`Tries::waiting`].
    is_counted: bool,
    ended: bool,
}

fn delay(failures: u32) -> Duration {
    match failures.checked_sub(FREE) {
        None => Duration::ZERO,
        Some(more) => DELAY_MIN.saturating_mul(1 << more.min(16)).min(DELAY_MAX),
    }
}

impl Guard {
    /// Begins an attempt. Returns `None` if too many attempts are waiting already.
    pub(crate) fn begin(
        &self,
        source: GuardSource,
        user: &str,
        now: Duration,
    ) -> Option<Attempt<'_>> {
        let key: GuardKey = (source, user.into());
        let attempt =
            |key, wait, is_counted| Attempt { guard: self, key, wait, is_counted, ended: false };
        let mut all = self.0.lock();
        let Some(tries) = all.get_mut(&key) else {
            return Some(attempt(key, Duration::ZERO, false));
        };
        let wait = tries.free_at.saturating_sub(now);
        if !wait.is_zero() && tries.waiting >= WAITING_MAX {
            return None;
        }
        tries.waiting += 1;
        // Attempts that begin meanwhile wait until this one was checked.
        tries.free_at = tries.free_at.max(now) + delay(tries.failures);
        Some(attempt(key, wait.min(DELAY_MAX), true))
    }

    fn end(&self, attempt: &Attempt<'_>, known: bool, now: Duration) {
        let key = &attempt.key;
        let mut all = self.0.lock();
        if known {
            all.remove(key);
            return;
        }
        if all.len() >= KEPT_MAX && !all.contains_key(key) {
            let oldest = all.iter().min_by_key(|(_, tries)| tries.tried_at);
            let oldest = oldest.map(|(key, _)| key.clone());
            oldest.map(|oldest| all.remove(&oldest));
        }
        let tries = all.entry(key.clone()).or_default();
        tries.failures = tries.failures.saturating_add(1);
        tries.waiting = tries.waiting.saturating_sub(u32::from(attempt.is_counted));
        tries.free_at = tries.free_at.max(now + delay(tries.failures));
        tries.tried_at = now;
    }
}

impl Attempt<'_> {
    /// Records whether the password was right.
    pub(crate) fn ended(mut self, known: bool, now: Duration) {
        self.ended = true;
        self.guard.end(&self, known, now);
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.guard.end(self, false, clock::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    /// The Unix socket.
    const HERE: GuardSource = (Entrance::Public, None);

    fn fail(guard: &Guard, user: &str, now: Duration) -> Duration {
        let attempt = guard.begin(HERE, user, now).unwrap();
        let wait = attempt.wait;
        attempt.ended(false, now + wait);
        wait
    }

    #[test]
    fn guard_1_failures_in_a_row_cost_more_and_more() {
        let guard = Guard::default();
        let mut now = Duration::ZERO;
        let mut waits = Vec::new();
        for _ in 0..12 {
            let wait = fail(&guard, "root", now);
            now += wait;
            waits.push(wait.as_millis());
        }
        assert_eq!(waits, [0, 0, 0, 100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000]);
        // Other accounts are not delayed, and a success still counts.
        assert_eq!(fail(&guard, "other", now), Duration::ZERO);
        let elsewhere = (Entrance::Public, Some(IpAddr::from([10, 0, 0, 1])));
        assert_eq!(guard.begin(elsewhere, "root", now).unwrap().wait, Duration::ZERO);
        let right = guard.begin(HERE, "root", now).unwrap();
        assert_eq!(right.wait, DELAY_MAX);
        right.ended(true, now + DELAY_MAX);
        assert_eq!(fail(&guard, "root", now + DELAY_MAX), Duration::ZERO);
    }

    #[test]
    fn guard_1_time_that_passes_counts() {
        let guard = Guard::default();
        for _ in 0..4 {
            fail(&guard, "root", Duration::ZERO);
        }
        assert_eq!(fail(&guard, "root", Duration::from_secs(60)), Duration::ZERO);
    }

    #[test]
    fn guard_1_a_client_that_leaves_has_failed() {
        let guard = Guard::default();
        for _ in 0..FREE {
            drop(guard.begin(HERE, "root", Duration::ZERO).unwrap());
        }
        let key = (HERE, "root".into());
        assert_eq!(guard.0.lock()[&key].failures, FREE);
        // An attempt that was given up while it waited makes room for another.
        let now = guard.0.lock()[&key].free_at - MS;
        for _ in 0..=WAITING_MAX {
            assert!(!guard.begin(HERE, "root", now).unwrap().wait.is_zero());
        }
    }

    #[test]
    fn guard_1_attempts_at_once_wait_one_after_another() {
        let guard = Guard::default();
        for _ in 0..3 {
            fail(&guard, "root", Duration::ZERO);
        }
        let attempts = [(); 4].map(|()| guard.begin(HERE, "root", MS).unwrap());
        let waits = attempts.each_ref().map(|attempt| attempt.wait + MS);
        assert_eq!(waits, [100 * MS, 200 * MS, 300 * MS, 400 * MS]);
    }

    /// Attempts that began before the first failure do not wait, so they are not counted as
    /// waiting, and their end makes no room for more.
    #[test]
    fn guard_2_attempts_without_a_wait_make_no_room_for_others() {
        let guard = Guard::default();
        let first = [(); 4].map(|()| guard.begin(HERE, "root", Duration::ZERO).unwrap());
        for _ in 0..FREE {
            fail(&guard, "root", Duration::ZERO);
        }
        let waiting = [(); WAITING_MAX as usize].map(|()| guard.begin(HERE, "root", MS).unwrap());
        first.into_iter().for_each(|attempt| attempt.ended(false, MS));
        assert!(guard.begin(HERE, "root", MS).is_none());
        drop(waiting);
    }

    #[test]
    fn guard_2_few_wait_and_not_all_are_remembered() {
        let guard = Guard::default();
        for _ in 0..3 {
            fail(&guard, "root", Duration::ZERO);
        }
        let waiting: Vec<_> =
            (0..WAITING_MAX).map(|_| guard.begin(HERE, "root", MS).unwrap()).collect();
        assert!(guard.begin(HERE, "root", MS).is_none());
        // Attempts over the admin socket count separately.
        assert!(guard.begin((Entrance::Admin, None), "root", MS).is_some());
        waiting.into_iter().for_each(|attempt| attempt.ended(false, MS));
        assert!(guard.begin(HERE, "root", Duration::from_secs(100)).is_some());
        for number in 0..KEPT_MAX + 10 {
            fail(&guard, &number.to_string(), MS * number as u32);
        }
        assert_eq!(guard.0.lock().len(), KEPT_MAX);
        assert!(!guard.0.lock().contains_key(&(HERE, "0".into())));
    }
}
