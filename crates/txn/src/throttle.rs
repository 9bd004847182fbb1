//! Backpressure: writers slow down before anything runs out (decision 008).
//!
//! An engine's *debt* says how far its memtable flushes and compactions are behind ([`Debt`]): 0 is
//! no debt, and 1 is the limit. The debt determines a *rate* for all writers to the engine
//! together. Each commit costs the time that its bytes take at that rate, and writers sleep for
//! these costs.
//!
//! The throttle follows the 3D XPoint study (decision 008), section V-A. In that study RocksDB's
//! writers nearly stopped, because each delayed write slept for a fixed time, which had little to
//! do with the target rate.
//!
//! The rate falls in two stages:
//!
//! - **Slight**, from a debt of [`SLIGHT`] on: the rate falls from [`RATE_MAX`], which no writer
//!   reaches, to [`RATE_MIDDLE`].
//! - **Aggressive**, from [`AGGRESSIVE`] on, half-way between [`SLIGHT`] and the limit, as in the
//!   study: the rate falls to [`RATE_MIN`]. It never falls below that, so writing does not stop.
//!
//! The debt grows while writers are faster than memtable flushes and compactions, and shrinks while
//! writers are slower. The rate falls as the debt grows. So on any device the debt settles where
//! the rate equals that of flushes and compactions. The rate falls exponentially with the debt, so
//! one rule serves devices whose speeds differ by a factor of a thousand.
//!
//! Rejected: a controller that measures the rate of flushes and compactions and sets the writers'
//! rate to it. Flushes finish a whole memtable at a time, so the measured rate would always be out
//! of date.
//!
//! Each commit adds its cost to the time that all writers to an engine owe together, which is at
//! most [`OWED_MAX`]. If the sum is less than [`QUANTUM`], the writer does not sleep, so writers of
//! small commits sleep seldom. Otherwise the writer sleeps until the owed time has passed. Once the
//! debt is below [`SLIGHT`] again, the throttle forgives the owed time, and writers that sleep
//! continue.
//!
//! A writer releases its locks before it sleeps, so its sleep makes no other transaction wait for a
//! row. The rate depends on the engine's debt only. The compaction scheduler reads the same figure.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use spillway_base::EngineKind;
use spillway_base::clock::Clock;
use spillway_base::engine::{Debt, Metric};
use spillway_base::stall::{Cause, Tally};
use spillway_base::thread::blocking;

/// The debt at which the slight stage begins to slow writers.
pub(crate) const SLIGHT: f64 = 0.5;
/// The debt at which the aggressive stage begins.
const AGGRESSIVE: f64 = 0.75;

/// The rates in bytes a second: at [`SLIGHT`], at [`AGGRESSIVE`], and from a debt of 1 on.
const RATE_MAX: f64 = (1_u64 << 30) as f64;
const RATE_MIDDLE: f64 = (64_u64 << 20) as f64;
const RATE_MIN: f64 = (1_u64 << 20) as f64;

/// The bytes that a commit counts in addition to those that it wrote, for its keys' places in
/// memory.
const COMMIT_BYTES: usize = 64;
/// A writer that owes less than this does not sleep; the time stays owed.
const QUANTUM: Duration = Duration::from_millis(1);
/// The most time that all writers to an engine owe together.
const OWED_MAX: Duration = Duration::from_secs(1);
/// The time between two checks whether the debt still exists.
const LOOK: Duration = Duration::from_millis(10);

/// The bytes a second that all writers together may write at a debt; `None` for no limit.
fn rate(debt: f64) -> Option<f64> {
    let between = |from: f64, to: f64, share: f64| from * (to / from).powf(share.min(1.0));
    if debt < SLIGHT {
        None
    } else if debt < AGGRESSIVE {
        Some(between(RATE_MAX, RATE_MIDDLE, (debt - SLIGHT) / (AGGRESSIVE - SLIGHT)))
    } else {
        Some(between(RATE_MIDDLE, RATE_MIN, (debt - AGGRESSIVE) / (1.0 - AGGRESSIVE)))
    }
}

/// Slows writers down, and counts their sleeps.
#[derive(Default)]
pub(crate) struct Throttle {
    /// What the writers to each engine owe, by [`EngineKind::index`].
    owing: [Owing; EngineKind::COUNT],
    /// The sleeps in the slight stage and in the aggressive one, by the largest part of the debt.
    stages: [[Tally; 3]; 2],
}

/// The time that the writers to one engine owe.
#[derive(Default)]
struct Owing {
    /// The time of the clock, in nanoseconds, at which everything written is paid for.
    paid_at: AtomicU64,
}

impl Owing {
    /// Adds `cost` to the owed time. Returns the time at which all of it is paid.
    fn owe(&self, now: Duration, cost: Duration) -> Duration {
        let now = now.as_nanos() as u64;
        let most = now + OWED_MAX.as_nanos() as u64;
        // The result is never less than `at`, although another thread may have read a later clock.
        // A sleeping writer that finds a smaller value concludes that the time was forgiven.
        let paid = |at: u64| (at.max(now) + cost.as_nanos() as u64).min(most).max(at);
        let mut at = self.paid_at.load(Ordering::Relaxed);
        loop {
            let exchanged = self.paid_at.compare_exchange_weak(
                at,
                paid(at),
                Ordering::Relaxed,
                Ordering::Relaxed,
            );
            match exchanged {
                Ok(_) => return Duration::from_nanos(paid(at)),
                Err(other) => at = other,
            }
        }
    }

    /// Forgives the time owed, if it is still `owed`, the value that was read before the debt was
    /// found to be gone. Without this the first writer after a new debt begins would have to pay
    /// it. If other writers have added to it since, nothing is forgiven.
    fn forgive(&self, owed: u64) {
        if owed != 0 {
            let _ = self.paid_at.compare_exchange(owed, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }
}

impl Throttle {
    /// Called for a commit that has just been installed, with an engine and the bytes that the
    /// commit wrote to it. Sleeps if the engine's debt requires it. Calls `asleep` before it
    /// sleeps.
    pub(crate) fn pass(
        &self,
        clock: &Clock,
        (kind, bytes): (EngineKind, usize),
        debt: impl Fn() -> Debt,
        asleep: impl FnOnce(),
    ) {
        let owing = &self.owing[kind.index()];
        let owed_before = owing.paid_at.load(Ordering::Relaxed);
        let now = debt();
        let Some(rate) = rate(now.total()) else { return owing.forgive(owed_before) };
        let (begin, cost) =
            (clock.now(), Duration::from_secs_f64((bytes + COMMIT_BYTES) as f64 / rate));
        let until = owing.owe(begin, cost);
        if until.saturating_sub(begin) < QUANTUM {
            return;
        }
        asleep();
        let cause = now.cause();
        let tally = &self.stages[usize::from(now.total() >= AGGRESSIVE)][part(cause)];
        tally.during(cause, clock, || {
            loop {
                let left = until.saturating_sub(clock.now());
                let owed = owing.paid_at.load(Ordering::Relaxed);
                // If less is owed than when the sleep began, the time was forgiven.
                if left.is_zero() || u128::from(owed) < until.as_nanos() {
                    return;
                }
                if debt().total() < SLIGHT {
                    return owing.forgive(owed);
                }
                blocking(|| clock.sleep(left.min(LOOK)));
            }
        });
    }

    /// The metrics: the rate of writers at a debt, and the number and time of their sleeps.
    pub(crate) fn metrics(&self, debt: f64) -> Vec<Metric> {
        let gauge = |name, help, value| Metric { name, help, counter: false, value };
        let stage = f64::from(u8::from(debt >= SLIGHT) + u8::from(debt >= AGGRESSIVE));
        let mut all = vec![
            gauge("throttle_stage", "0: nobody is slowed; 1: slightly; 2: aggressively.", stage),
            gauge(
                "throttle_bytes_per_second",
                "Bytes a second that all writers together may write; 0 for no limit.",
                rate(debt).unwrap_or(0.0),
            ),
        ];
        for (part, [count, seconds]) in SUMS.into_iter().enumerate() {
            let of = || self.stages.iter().map(|stage| &stage[part]);
            let counter = |name, value| Metric { name, help: SUM, counter: true, value };
            all.push(counter(count, of().map(Tally::count).sum::<u64>() as f64));
            all.push(counter(seconds, of().map(Tally::time).sum::<Duration>().as_secs_f64()));
        }
        for (tallies, names) in self.stages.iter().zip(NAMES) {
            for (tally, [count, seconds]) in tallies.iter().zip(names) {
                let counter = |name, help, value| Metric { name, help, counter: true, value };
                all.push(counter(count, "Sleeps of throttled writers.", tally.count() as f64));
                all.push(counter(
                    seconds,
                    "Seconds that throttled writers slept.",
                    tally.time().as_secs_f64(),
                ));
            }
        }
        all
    }
}

/// The metrics' names for both stages together, by the part of the debt.
const SUMS: [[&str; 2]; 3] = [
    ["stall_throttle_flush_total", "stall_throttle_flush_seconds_total"],
    ["stall_throttle_level0_total", "stall_throttle_level0_seconds_total"],
    ["stall_throttle_compaction_total", "stall_throttle_compaction_seconds_total"],
];
const SUM: &str = "Sleeps of throttled writers in either stage: their number, or seconds.";

/// The metrics' names for each stage, by the part of the debt.
const NAMES: [[[&str; 2]; 3]; 2] = [
    [
        ["throttle_slight_flush_total", "throttle_slight_flush_seconds_total"],
        ["throttle_slight_level0_total", "throttle_slight_level0_seconds_total"],
        ["throttle_slight_compaction_total", "throttle_slight_compaction_seconds_total"],
    ],
    [
        ["throttle_aggressive_flush_total", "throttle_aggressive_flush_seconds_total"],
        ["throttle_aggressive_level0_total", "throttle_aggressive_level0_seconds_total"],
        ["throttle_aggressive_compaction_total", "throttle_aggressive_compaction_seconds_total"],
    ],
];

fn part(cause: Cause) -> usize {
    match cause {
        Cause::ThrottleFlush => 0,
        Cause::ThrottleLevel0 => 1,
        _ => 2,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn debt(flush: f64) -> impl Fn() -> Debt {
        move || Debt { flush, ..Debt::default() }
    }

    /// Bytes written to the tiered engine.
    fn tiered(bytes: usize) -> (EngineKind, usize) {
        (EngineKind::Tiered, bytes)
    }

    /// Writers of one engine neither sleep for another engine's debt nor cancel what its writers
    /// owe.
    #[test]
    fn each_engine_has_writers_of_its_own() {
        let (throttle, clock) = (Throttle::default(), Clock::manual());
        let memory = |bytes| (EngineKind::Memory, bytes);
        for _ in 0..9 {
            throttle.owing[0].owe(clock.now(), QUANTUM);
        }
        throttle.pass(&clock, memory(400), debt(0.0), || panic!("there is no debt"));
        throttle.pass(&clock, memory(400), debt(0.9), || panic!("it owes less than a quantum"));
        let slept = Cell::new(false);
        throttle.pass(&clock, tiered(400), debt(0.9), || slept.set(true));
        assert!(slept.get() && clock.now() >= 9 * QUANTUM, "{:?}", clock.now());
    }

    #[test]
    fn the_rate_falls_with_the_debt_in_two_stages_and_never_to_nothing() {
        assert_eq!(rate(0.49), None);
        let rates: Vec<f64> =
            (50..130).map(|debt| rate(f64::from(debt) / 100.0).unwrap()).collect();
        assert!(rates.is_sorted_by(|before, after| before >= after));
        // No step of the debt changes the rate abruptly.
        assert!(rates.windows(2).all(|pair| pair[1] > pair[0] * 0.8));
        assert_eq!(rates[0], RATE_MAX);
        assert_eq!(rate(AGGRESSIVE), Some(RATE_MIDDLE));
        assert_eq!((rate(1.0), rate(50.0)), (Some(RATE_MIN), Some(RATE_MIN)));
    }

    /// Background work drains `drain` bytes a second, and writers write as fast as the throttle
    /// allows. The two rates converge smoothly.
    #[test]
    fn writers_come_to_the_rate_of_the_background() {
        for drain in [2e6, 20e6, 200e6] {
            let (throttle, clock) = (Throttle::default(), Clock::manual());
            let capacity = drain / 2.0;
            let waiting = Cell::new(0.0_f64);
            let since = Cell::new(Duration::ZERO);
            let now = || {
                let passed = clock.now().saturating_sub(since.replace(clock.now()));
                waiting.set((waiting.get() - drain * passed.as_secs_f64()).max(0.0));
                Debt { flush: waiting.get() / capacity, ..Debt::default() }
            };
            let mut each_tenth = vec![0.0; 100];
            while let Some(tenth) = each_tenth.get_mut(clock.now().as_millis() as usize / 100) {
                // Without the throttle, one writer would write 400 MB a second.
                clock.advance(Duration::from_micros(10));
                waiting.set(waiting.get() + 4000.0);
                *tenth += 4000.0;
                throttle.pass(&clock, tiered(4000), now, || ());
            }
            for (tenth, bytes) in each_tenth.iter().enumerate().skip(20) {
                let share = bytes / (drain / 10.0);
                assert!((0.8..1.2).contains(&share), "{share} of {drain} in tenth {tenth}");
            }
            assert!(now().total() < 1.0, "{:?}", now());
        }
    }

    #[test]
    fn small_commits_sleep_seldom_and_for_all_that_is_owed() {
        let (throttle, clock) = (Throttle::default(), Clock::manual());
        let slept = Cell::new(0);
        for _ in 0..10_000 {
            throttle.pass(&clock, tiered(36), debt(AGGRESSIVE), || slept.set(slept.get() + 1));
        }
        let owed = 10_000.0 * 100.0 / RATE_MIDDLE;
        assert!((clock.now().as_secs_f64() - owed).abs() <= QUANTUM.as_secs_f64());
        assert!(slept.get() <= clock.now().as_millis(), "{slept:?}");
        assert!(slept.get() > 0);
    }

    #[test]
    fn a_sleep_ends_with_the_debt_and_is_never_long() {
        let (throttle, clock) = (Throttle::default(), Clock::manual());
        throttle.pass(&clock, tiered(1 << 30), debt(2.0), || ());
        assert_eq!(clock.now(), OWED_MAX);
        let looks = Cell::new(0);
        let relieved = || {
            looks.set(looks.get() + 1);
            Debt { flush: if looks.get() < 3 { 2.0 } else { 0.0 }, ..Debt::default() }
        };
        throttle.pass(&clock, tiered(1 << 30), relieved, || ());
        assert_eq!(clock.now(), OWED_MAX + LOOK);
    }

    /// A writer of a few bytes does not sleep for the load of an earlier debt.
    #[test]
    fn what_is_owed_is_forgiven_with_the_debt() {
        let (throttle, clock) = (Throttle::default(), Clock::manual());
        let looks = Cell::new(0);
        let relieved = || {
            looks.set(looks.get() + 1);
            Debt { flush: if looks.get() < 3 { 2.0 } else { 0.0 }, ..Debt::default() }
        };
        throttle.pass(&clock, tiered(1 << 30), relieved, || ());
        let at = clock.now();
        assert!(at < OWED_MAX / 2);
        throttle.pass(&clock, tiered(400), debt(0.9), || panic!("it owes less than a quantum"));
        assert_eq!(clock.now(), at);
    }

    #[test]
    fn who_read_an_earlier_clock_takes_nothing_off_what_is_owed() {
        let (throttle, now) = (Throttle::default(), Duration::from_secs(100));
        let until = throttle.owing[0].owe(now + Duration::from_millis(1), 2 * OWED_MAX);
        assert_eq!(until, now + Duration::from_millis(1) + OWED_MAX);
        assert_eq!(throttle.owing[0].owe(now, QUANTUM), until);
    }

    /// Also if no writer sleeps when the debt ends. Writers that slept then do not continue to
    /// sleep when it returns.
    #[test]
    fn what_is_forgiven_is_forgiven_to_all() {
        let (throttle, clock) = (Throttle::default(), Clock::manual());
        // Too little to sleep for, so it stays owed.
        for _ in 0..9 {
            throttle.owing[0].owe(clock.now(), QUANTUM);
        }
        throttle.pass(&clock, tiered(400), debt(0.0), || panic!("there is no debt"));
        throttle.pass(&clock, tiered(400), debt(0.9), || panic!("it owes less than a quantum"));
        // Another writer finds the debt gone between two checks of this one, which finds a debt
        // each time.
        let looks = Cell::new(0);
        let again = || {
            looks.set(looks.get() + 1);
            if looks.get() == 3 {
                throttle.pass(&clock, tiered(400), debt(0.0), || ());
            }
            Debt { flush: 2.0, ..Debt::default() }
        };
        throttle.pass(&clock, tiered(1 << 30), again, || ());
        assert_eq!((looks.get(), clock.now()), (3, 2 * LOOK));
    }

    #[test]
    fn passing_counts_its_stage_and_the_part_of_the_debt() {
        let (throttle, clock) = (Throttle::default(), Clock::manual());
        throttle.pass(&clock, tiered(100), debt(0.1), || ());
        assert_eq!(clock.now(), Duration::ZERO);
        throttle.pass(&clock, tiered(1 << 20), || Debt { level0: 0.7, ..Debt::default() }, || ());
        throttle.pass(
            &clock,
            tiered(1 << 20),
            || Debt { compaction: 2.0, ..Debt::default() },
            || (),
        );
        let metrics = throttle.metrics(0.8);
        assert_eq!((metrics[0].value, Some(metrics[1].value)), (2.0, rate(0.8)));
        let counted: Vec<f64> = metrics[2..].iter().map(|metric| metric.value).collect();
        // The sums over both stages, then the slight stage, then the aggressive one.
        assert_eq!([counted[2], counted[4]], [1.0, 1.0]);
        assert_eq!([counted[8], counted[16]], [1.0, 1.0]);
        assert!((counted.iter().sum::<f64>() / 2.0 - 2.0 - clock.now().as_secs_f64()).abs() < 1e-9);
    }
}
