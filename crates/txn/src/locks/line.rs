//! The holders and waiters of one key.

use std::collections::VecDeque;
use std::sync::Arc;

use super::key::{LockKey, Target};
use super::outcome::Taken;
use super::owner::Wait;
use crate::options::LockMode;

#[derive(Clone, Copy)]
struct Holder {
    id: u64,
    mode: LockMode,
}

struct Waiter {
    id: u64,
    mode: LockMode,
    /// Whether it holds a shared lock. Such waiters are at the front.
    upgrade: bool,
    wait: Arc<Wait>,
}

/// The holders besides the first one, and the waiters.
#[derive(Default)]
struct Crowd {
    holders: Vec<Holder>,
    waiters: VecDeque<Waiter>,
}

/// Waiters that were granted a lock and must be woken. This happens with no shard locked, because
/// waking a thread is a system call.
#[derive(Default)]
#[must_use]
pub(super) struct Granted(Vec<Arc<Wait>>);

impl Granted {
    pub(super) fn wake(self) {
        self.0.iter().for_each(|wait| wait.wake());
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn woken(&self) -> impl Iterator<Item = *const Wait> {
        self.0.iter().map(Arc::as_ptr)
    }
}

/// The holders of one key, at least one, and its waiters in the order in which they are served.
///
/// Nearly every line has one holder and no waiter. Such a line allocates nothing besides its entry
/// in the shard's table.
pub(super) struct Line {
    key: LockKey,
    first: Holder,
    crowd: Option<Box<Crowd>>,
}

impl Line {
    pub(super) fn new(target: Target<'_>, id: u64, mode: LockMode) -> Line {
        Line { key: LockKey::new(target), first: Holder { id, mode }, crowd: None }
    }

    pub(super) fn hash(&self) -> u64 {
        self.key.hash
    }

    pub(super) fn is(&self, target: Target<'_>) -> bool {
        self.key.target().is(target)
    }

    fn all(&self) -> impl Iterator<Item = &Holder> {
        let others = self.crowd.as_deref().map_or(&[][..], |crowd| &crowd.holders);
        std::iter::once(&self.first).chain(others)
    }

    pub(super) fn holders(&self) -> impl Iterator<Item = u64> {
        self.all().map(|holder| holder.id)
    }

    pub(super) fn target(&self) -> Target<'_> {
        self.key.target()
    }

    /// Whether `pass` holds for every holder, and there is no waiter.
    pub(super) fn is_only_held_by(&self, pass: impl Fn(u64, LockMode) -> bool) -> bool {
        let waited_for = self.crowd.as_ref().is_some_and(|crowd| !crowd.waiters.is_empty());
        !waited_for && self.all().all(|holder| pass(holder.id, holder.mode))
    }

    /// The mode in which `id` holds the lock.
    pub(super) fn mode_of(&self, id: u64) -> Option<LockMode> {
        self.all().find(|holder| holder.id == id).map(|holder| holder.mode)
    }

    pub(super) fn is_held_by(&self, id: u64) -> bool {
        self.mode_of(id).is_some()
    }

    /// Whether `id` may hold the lock in this mode together with the other holders.
    fn admits(&self, id: u64, mode: LockMode) -> bool {
        let both_share = |other| mode == LockMode::Shared && other == LockMode::Shared;
        self.all().all(|holder| holder.id == id || both_share(holder.mode))
    }

    /// Takes the lock if no other owner prevents it.
    pub(super) fn take(&mut self, id: u64, mode: LockMode) -> Option<Taken> {
        let held = self.mode_of(id);
        if held >= Some(mode) {
            return Some(Taken::Held);
        }
        let waited_for = self.crowd.as_ref().is_some_and(|crowd| !crowd.waiters.is_empty());
        if !self.admits(id, mode) || (held.is_none() && waited_for) {
            return None;
        }
        self.hold(id, mode);
        Some(if held.is_none() { Taken::New } else { Taken::Upgraded })
    }

    /// Adds a holder, or strengthens its lock.
    pub(super) fn hold(&mut self, id: u64, mode: LockMode) {
        let others = self.crowd.iter_mut().flat_map(|crowd| &mut crowd.holders);
        match std::iter::once(&mut self.first).chain(others).find(|holder| holder.id == id) {
            Some(holder) => holder.mode = holder.mode.max(mode),
            None => self.crowd.get_or_insert_default().holders.push(Holder { id, mode }),
        }
    }

    /// Joins the line. An owner with a shared lock goes to the front, because no other waiter can
    /// be served before it. Returns whether the owner has a shared lock.
    pub(super) fn wait(&mut self, id: u64, mode: LockMode, wait: Arc<Wait>) -> bool {
        let upgrade = self.is_held_by(id);
        let waiter = Waiter { id, mode, upgrade, wait };
        let waiters = &mut self.crowd.get_or_insert_default().waiters;
        if upgrade {
            waiters.push_front(waiter);
        } else {
            waiters.push_back(waiter);
        }
        upgrade
    }

    /// Whether `id` is at the front of the line.
    pub(super) fn is_next(&self, id: u64) -> bool {
        let front = self.crowd.as_ref().and_then(|crowd| crowd.waiters.front());
        front.is_some_and(|waiter| waiter.id == id)
    }

    /// Whether `id`, which holds a shared lock, waits for an upgrade.
    pub(super) fn awaits_upgrade(&self, id: u64) -> bool {
        let waiters = self.crowd.iter().flat_map(|crowd| &crowd.waiters);
        waiters.take_while(|waiter| waiter.upgrade).any(|waiter| waiter.id == id)
    }

    /// Removes a waiter. Returns `false` if it no longer waits, because the lock was granted to it.
    pub(super) fn withdraw(&mut self, id: u64, granted: &mut Granted) -> bool {
        let Some(crowd) = &mut self.crowd else { return false };
        let Some(at) = crowd.waiters.iter().position(|waiter| waiter.id == id) else {
            return false;
        };
        crowd.waiters.remove(at);
        self.serve(granted);
        true
    }

    /// Serves waiters from the front as long as the lock admits them.
    fn serve(&mut self, granted: &mut Granted) {
        while let Some(front) = self.crowd.as_ref().and_then(|crowd| crowd.waiters.front()) {
            if !self.admits(front.id, front.mode) {
                break;
            }
            if let Some(waiter) = self.next_waiter(granted) {
                self.hold(waiter.id, waiter.mode);
            }
        }
    }

    /// Grants the lock to the front of the line.
    fn next_waiter(&mut self, granted: &mut Granted) -> Option<Holder> {
        let Waiter { id, mode, wait, .. } = self.crowd.as_mut()?.waiters.pop_front()?;
        wait.grant();
        granted.0.push(wait);
        Some(Holder { id, mode })
    }

    /// Removes a holder. Returns whether no holder is left. Then the line ends.
    pub(super) fn release(&mut self, id: u64, granted: &mut Granted) -> bool {
        if self.first.id != id {
            if let Some(crowd) = &mut self.crowd {
                crowd.holders.retain(|holder| holder.id != id);
            }
        } else {
            let other = self.crowd.as_mut().and_then(|crowd| crowd.holders.pop());
            match other.or_else(|| self.next_waiter(granted)) {
                Some(next) => self.first = next,
                None => return true,
            }
        }
        self.serve(granted);
        false
    }
}
