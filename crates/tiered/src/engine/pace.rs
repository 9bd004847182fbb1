//! How fast compactions go: no faster than they must (DESIGN, D8).
//!
//! A compaction that runs as fast as it can takes a core and the device for a second or more, and then nothing for a while:
//! whoever reads or commits meanwhile feels it. So a compaction rests after each extent, for longer the less is behind. The
//! debt tells that, which writers are slowed by as well: well before they begin to be, compactions no longer rest. In between the
//! debt settles where they do as much as is written, and the work is spread over all of the time. The simpler design, a
//! limit in bytes a second, was rejected: it has to be set for each device and each load.
//!
//! What was written is synced every few extents. A device that is given hundreds of megabytes at the end of a compaction has a
//! commit's few kilobytes wait behind them.

use std::time::Duration;

use spillway_base::clock::Clock;

/// The debt from which compactions do not rest: before writers begin to be slowed, at 0.5, all is done that can be.
const NO_REST: f64 = 0.35;
/// With no debt, so many times as long as the work took.
const REST_MAX: f64 = 4.0;
/// No rest is longer. An extent takes some 10 ms; where it took much more, the compaction itself had to wait, for a processor
/// or the device, and others had their rest from it.
const REST_LONGEST: Duration = Duration::from_millis(50);
/// Between two looks at the debt.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes that a compaction writes between two syncs.
pub(super) const SYNC_BYTES: u64 = 8 << 20;

/// The pace of one compaction.
pub(super) struct Pace {
    /// When it last began to work.
    from: Duration,
}

/// How long to rest after so much work.
fn rest_after(worked: Duration, debt: f64) -> Duration {
    let times = REST_MAX * (1.0 - debt / NO_REST);
    worked.mul_f64(times.max(0.0)).min(REST_LONGEST)
}

impl Pace {
    pub(super) fn begin(clock: &Clock) -> Pace {
        Pace { from: clock.now() }
    }

    /// Rests after a piece of work, until a debt grows that does not allow it. `wait` lets some time pass, and answers whether
    /// there is to be more of it.
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

    /// Time that passes in a rest after a piece of work.
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
