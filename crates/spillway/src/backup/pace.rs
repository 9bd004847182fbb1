//! How fast a backup goes.

use std::time::Duration;

use spillway_base::clock::Clock;
use spillway_base::thread::blocking;

/// Keeps work at a number of bytes a second, where one is set.
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

    /// After so many bytes more, waits until they were due.
    pub(super) fn after(&mut self, bytes: u64) {
        self.bytes += bytes;
        let Some(rate) = self.bytes_per_second else { return };
        let due = self.began + Duration::from_secs_f64(self.bytes as f64 / rate as f64);
        let wait = due.saturating_sub(self.clock.now());
        if !wait.is_zero() {
            blocking(|| self.clock.sleep(wait));
        }
    }
}
