//! The pace of compactions (decision 008).
//!
//! A compaction at full speed takes a core and the device for a second or more, and slows
//! concurrent reads and commits. So a compaction pauses after each extent. The lower the debt, the
//! longer the pause. Above a certain debt, compactions do not pause. Writers are slowed only above
//! a higher debt. So if compactions can keep up, the debt settles at a value at which they pause.
//! At this value they do as much work as writers cause, and the work is spread over time.
//!
//! Rejected: a limit of compactions in bytes per second. It would have to be set for each device
//! and each load.
//!
//! A compaction syncs its output every few extents. If it synced hundreds of megabytes only at its
//! end, the few kilobytes of a commit would wait behind them.

use std::time::Duration;

use spillway_base::clock::Clock;

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
