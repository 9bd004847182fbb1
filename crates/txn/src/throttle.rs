//! Backpressure: writers slow down before anything runs out (DESIGN, D8).
//!
//! After the 3D XPoint study, section V-A: two stages. From [`SLIGHT`] on, each commit waits a little, in
//! proportion; from [`AGGRESSIVE`] on, more, but never so much that writing nearly stops. The
//! engines' debt is the only input, and the compaction scheduler reads the same.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use spillway_base::clock::Clock;
use spillway_base::thread::blocking;

/// Debt at which commits begin to wait.
pub(crate) const SLIGHT: f64 = 0.5;
/// Debt at which they wait in earnest.
const AGGRESSIVE: f64 = 0.85;
/// The wait of a commit of [`UNIT_BYTES`] at the top of the slight stage.
const SLIGHT_WAIT: Duration = Duration::from_micros(50);
/// The longest wait of a commit of [`UNIT_BYTES`].
const WAIT_MAX: Duration = Duration::from_millis(2);
const UNIT_BYTES: f64 = 4096.0;

/// Slows commits down, and counts it.
#[derive(Default)]
pub(crate) struct Throttle {
    pub(crate) slight: AtomicU64,
    pub(crate) aggressive: AtomicU64,
    pub(crate) waited_ns: AtomicU64,
}

/// How long a commit of `bytes` waits at this debt.
fn wait(debt: f64, bytes: usize) -> Duration {
    let per_unit = if debt < SLIGHT {
        return Duration::ZERO;
    } else if debt < AGGRESSIVE {
        SLIGHT_WAIT.mul_f64((debt - SLIGHT) / (AGGRESSIVE - SLIGHT))
    } else {
        let share = ((debt - AGGRESSIVE) / (1.0 - AGGRESSIVE)).min(1.0);
        SLIGHT_WAIT + (WAIT_MAX - SLIGHT_WAIT).mul_f64(share)
    };
    per_unit.mul_f64((bytes as f64 / UNIT_BYTES).clamp(0.25, 4.0))
}

impl Throttle {
    /// Waits as the debt asks.
    pub(crate) fn pass(&self, clock: &Clock, debt: f64, bytes: usize) {
        let wait = wait(debt, bytes);
        if wait.is_zero() {
            return;
        }
        let stage = if debt < AGGRESSIVE { &self.slight } else { &self.aggressive };
        stage.fetch_add(1, Ordering::Relaxed);
        self.waited_ns.fetch_add(wait.as_nanos() as u64, Ordering::Relaxed);
        blocking(|| clock.sleep(wait));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_rise_with_debt_and_never_stop_a_writer() {
        assert_eq!(wait(0.49, 1 << 20), Duration::ZERO);
        let waits: Vec<_> = (50..130).map(|debt| wait(f64::from(debt) / 100.0, 4096)).collect();
        assert!(waits.is_sorted());
        assert_eq!(waits.last(), Some(&WAIT_MAX));
        assert!(wait(9.0, 1 << 30) <= 4 * WAIT_MAX);
        let (slight, aggressive) = (wait(0.8, 4096), wait(0.95, 4096));
        assert!(aggressive > 10 * slight, "{slight:?} {aggressive:?}");
    }

    #[test]
    fn passing_counts_its_stage() {
        let (throttle, clock) = (Throttle::default(), Clock::manual());
        throttle.pass(&clock, 0.1, 100);
        assert_eq!(clock.now(), Duration::ZERO);
        throttle.pass(&clock, 0.7, 4096);
        throttle.pass(&clock, 2.0, 4096);
        assert_eq!(throttle.slight.into_inner(), 1);
        assert_eq!(throttle.aggressive.into_inner(), 1);
        assert_eq!(clock.now().as_nanos() as u64, throttle.waited_ns.into_inner());
    }
}
