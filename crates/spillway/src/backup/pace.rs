//! Limits the rate at which a backup copies.

use std::time::Duration;

use spillway_base::Result;
use spillway_base::clock::Clock;
use spillway_base::thread::blocking;

/// The longest single sleep. After each sleep the backup checks whether it was interrupted.
const STEP: Duration = Duration::from_millis(50);

/// Limits work to a number of bytes a second, if one is set.
pub(super) struct Pace {
    clock: Clock,
    began: Duration,
    bytes_per_second: Option<u64>,
    bytes: u64,
}

impl Pace {
    pub(super) fn begin(clock: Clock, bytes_per_second: Option<u64>) -> Pace {
        let bytes_per_second = bytes_per_second.filter(|rate| *rate > 0);
        Pace { began: clock.now(), clock, bytes_per_second, bytes: 0 }
    }

    /// Called after `bytes` more bytes were copied. Waits as long as the limit requires, or until
    /// `goes_on` returns an error.
    pub(super) fn after(
        &mut self,
        bytes: u64,
        goes_on: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        self.bytes += bytes;
        let Some(rate) = self.bytes_per_second else { return Ok(()) };
        let due = self.began + Duration::from_secs_f64(self.bytes as f64 / rate as f64);
        loop {
            let wait = due.saturating_sub(self.clock.now());
            if wait.is_zero() {
                return Ok(());
            }
            blocking(|| self.clock.sleep(wait.min(STEP)));
            goes_on()?;
        }
    }
}
