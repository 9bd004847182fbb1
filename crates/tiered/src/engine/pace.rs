//! The pace of compactions, and of returning free space to the file system (decision 008).
//!
//! A compaction at full speed takes a core and the device for a second or more, and slows
//! concurrent reads and commits. So a compaction pauses after each extent. The lower the debt, the
//! longer the pause; from a certain debt on, compactions do not pause. The debt also slows writers,
//! but only from a higher value on. So the debt settles below the value from which compactions do
//! not pause. There, compactions do as much work as writers cause, and the work is spread over
//! time.
//!
//! Rejected: a limit of compactions in bytes per second. It would have to be set for each device
//! and each load.
//!
//! A compaction syncs its output every few extents. If it synced hundreds of megabytes only at its
//! end, the few kilobytes of a commit would wait behind them.
//!
//! The engine returns the space of free slots to the file system in small pieces ([`Trickle`]),
//! because a file system locks a file while it deallocates space of the file. Readers of the file
//! wait for the deallocation, and the deallocation itself waits for I/O on the file. On ext4, a
//! deallocation took 0.5 ms for 2 MiB, and 2 to 4 ms during a compaction. Deallocating the output
//! of a compaction in one piece took 119 to 299 ms, which dominated the slowest 1 % of gets.

use std::time::Duration;

use spillway_base::clock::Clock;
use spillway_base::lock::{Mutex, MutexGuard};

/// The debt from which on compactions do not rest. Writers are slowed from 0.5 on, and compactions
/// should run at full speed before that.
pub(super) const NO_REST: f64 = 0.35;
/// The rest without debt, as a multiple of the time that the work took.
const REST_MAX: f64 = 4.0;
/// The longest rest. An extent takes some 10 ms. If it took much longer, the compaction itself
/// waited for a processor or the device, and did not disturb other work meanwhile.
const REST_LONGEST: Duration = Duration::from_millis(50);
/// The time between two checks of the debt.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes that a compaction writes between two syncs.
pub(super) const SYNC_BYTES: u64 = 8 << 20;

/// While other work runs, this many bytes of free space are returned to the file system at once, or
/// one slot if slots are larger.
const GIVEN_BYTES: usize = 2 << 20;
/// The pause after that, as a multiple of the time that it took, up to the longest pause below.
const GIVEN_REST: u32 = 40;
const GIVEN_REST_LONGEST: Duration = Duration::from_secs(1);
/// The slots that are returned at once if other work need not be spared. Work that needs slots
/// waits meanwhile.
const GIVEN_SLOTS_ALONE: u32 = 256;

/// The time at which space of free slots may next be returned.
#[derive(Default)]
pub(super) struct Trickle {
    /// The earliest next time, if there may be more to return. A thread that returns space holds
    /// this lock.
    next: Mutex<Option<Duration>>,
}

impl Trickle {
    /// The right to return slots, with the number to return at once. `None` if another thread has
    /// the right. If `spares`, also `None` before the next time.
    pub(super) fn begin(
        &self,
        now: Duration,
        slot_bytes: usize,
        spares: bool,
    ) -> Option<Giving<'_>> {
        let next = self.next.try_lock()?;
        let slots = match spares {
            true => (GIVEN_BYTES / slot_bytes).max(1) as u32,
            false => GIVEN_SLOTS_ALONE,
        };
        let is_due = !spares || next.is_none_or(|next| next <= now);
        is_due.then_some(Giving { next, begun: now, slots })
    }

    /// The time until the next return, if there may be more to return.
    pub(super) fn wait(&self, now: Duration) -> Option<Duration> {
        let next = self.next.try_lock().and_then(|next| *next)?;
        Some(next.saturating_sub(now))
    }
}

/// The right to return space.
pub(super) struct Giving<'a> {
    next: MutexGuard<'a, Option<Duration>>,
    begun: Duration,
    pub(super) slots: u32,
}

impl Giving<'_> {
    /// Ends the turn. If there may be `more` to return, the next turn begins after a pause, or at
    /// once if it `hurries` because other work needs the space.
    pub(super) fn end(mut self, now: Duration, more: bool, hurries: bool) {
        let rest = match hurries {
            true => Duration::ZERO,
            false => (now.saturating_sub(self.begun) * GIVEN_REST).min(GIVEN_REST_LONGEST),
        };
        *self.next = more.then_some(now + rest);
    }
}

/// The pace of one compaction.
pub(super) struct Pace {
    /// When it last began to work.
    from: Duration,
}

/// The rest after work that took `worked`.
fn rest_after(worked: Duration, debt: f64) -> Duration {
    let times = REST_MAX * (1.0 - debt / NO_REST);
    worked.mul_f64(times.max(0.0)).min(REST_LONGEST)
}

impl Pace {
    pub(super) fn begin(clock: &Clock) -> Pace {
        Pace { from: clock.now() }
    }

    /// Rests after a piece of work, but ends the rest if the debt grows too large. `wait` lets some
    /// time pass, and returns whether the rest may continue.
    pub(super) fn rest(
        &mut self,
        clock: &Clock,
        debt: impl Fn() -> f64,
        mut wait: impl FnMut(Duration) -> bool,
    ) {
        let now = clock.now();
        let until = now + rest_after(now.saturating_sub(self.from), debt());
        loop {
            let left = until.saturating_sub(clock.now());
            if left.is_zero() || debt() >= NO_REST || !wait(left.min(LOOK)) {
                break;
            }
        }
        self.from = clock.now();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;

    use super::*;

    const WORK: Duration = Duration::from_millis(10);

    /// The time that passes in a rest after a piece of work.
    fn rested(debt: impl Fn() -> f64, goes_on: impl Fn() -> bool) -> Duration {
        let clock = Clock::manual();
        let mut pace = Pace::begin(&clock);
        clock.advance(WORK);
        let wait = |time| {
            clock.advance(time);
            goes_on()
        };
        pace.rest(&clock, debt, wait);
        assert_eq!(pace.from, clock.now(), "the next piece of work begins now");
        clock.now() - WORK
    }

    #[test]
    fn the_less_is_behind_the_longer_is_the_rest() {
        assert_eq!(rested(|| 0.0, || true), WORK.mul_f64(REST_MAX));
        assert_eq!(rested(|| NO_REST / 2.0, || true), WORK.mul_f64(REST_MAX / 2.0));
        assert_eq!(rested(|| NO_REST, || true), Duration::ZERO);
        assert_eq!(rested(|| 7.0, || true), Duration::ZERO);
        assert_eq!(rest_after(Duration::from_secs(60), 0.0), REST_LONGEST);
    }

    const SLOT: usize = 64 << 10;
    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn space_goes_back_a_little_at_a_time_with_rests_between() {
        let trickle = Trickle::default();
        assert_eq!(trickle.wait(MS), None, "nobody knows of more");
        let giving = trickle.begin(MS, SLOT, true).unwrap();
        assert_eq!(giving.slots, 32);
        assert!(trickle.begin(MS, SLOT, true).is_none(), "one at a time");
        giving.end(3 * MS, true, false);
        let until = 3 * MS + 2 * MS * GIVEN_REST;
        assert_eq!(trickle.wait(3 * MS), Some(2 * MS * GIVEN_REST));
        assert!(trickle.begin(until - MS, SLOT, true).is_none());
        // After a long step, the pause has its longest duration.
        let giving = trickle.begin(until, 2 * GIVEN_BYTES, true).unwrap();
        assert_eq!(giving.slots, 1);
        giving.end(until + Duration::from_secs(9), true, false);
        let wait = trickle.wait(until + Duration::from_secs(9));
        assert_eq!(wait, Some(GIVEN_REST_LONGEST));
    }

    #[test]
    fn who_needs_room_or_spares_nobody_does_not_rest() {
        let trickle = Trickle::default();
        trickle.begin(MS, SLOT, true).unwrap().end(2 * MS, true, true);
        assert_eq!(trickle.wait(2 * MS), Some(Duration::ZERO));
        trickle.begin(2 * MS, SLOT, true).unwrap().end(3 * MS, true, false);
        let giving = trickle.begin(4 * MS, SLOT, false).unwrap();
        assert_eq!(giving.slots, GIVEN_SLOTS_ALONE);
        giving.end(5 * MS, false, false);
        assert_eq!(trickle.wait(5 * MS), None);
    }

    #[test]
    fn a_rest_ends_when_too_much_is_behind_or_work_is_to_end() {
        let looks = Cell::new(0);
        let grows = || {
            looks.set(looks.get() + 1);
            if looks.get() < 3 { 0.0 } else { NO_REST }
        };
        assert_eq!(rested(grows, || true), LOOK);
        assert_eq!(rested(|| 0.0, || false), LOOK);
    }
}
