//! Records operations of a run as they end.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use spillway_base::clock;

use super::series::{Phase, WaveSecond};
use crate::measure::{histogram, quantile_us};
use crate::store::Sink;

/// Counts operations by the second in which they end, and their latencies by the second in which
/// they should have begun.
pub(super) struct Recorder {
    start: Duration,
    seconds: Vec<RecorderCell>,
    in_flight: AtomicUsize,
    failure: Mutex<Option<String>>,
}

struct RecorderCell {
    ended: AtomicU64,
    latency_ns: Mutex<Histogram<u64>>,
}

impl Recorder {
    /// For this many seconds from `start`.
    pub(super) fn new(start: Duration, seconds: usize) -> Recorder {
        let cell =
            |_| RecorderCell { ended: AtomicU64::new(0), latency_ns: Mutex::new(histogram()) };
        Recorder {
            start,
            seconds: (0..seconds).map(cell).collect(),
            in_flight: AtomicUsize::new(0),
            failure: Mutex::new(None),
        }
    }

    fn cell(&self, moment: Duration) -> Option<&RecorderCell> {
        self.seconds.get(moment.saturating_sub(self.start).as_secs() as usize)
    }

    /// Records the beginning of an operation whose end will be reported.
    pub(super) fn begin(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Acquire)
    }

    /// Records the end of an operation that should have begun at `due`.
    pub(super) fn ended(&self, due: Duration) {
        let now = clock::now();
        if let Some(cell) = self.cell(now) {
            cell.ended.fetch_add(1, Ordering::Relaxed);
        }
        self.waited(due, now);
    }

    /// Records an operation that should have begun at `due` and has waited until `now`.
    pub(super) fn waited(&self, due: Duration, now: Duration) {
        if let Some(cell) = self.cell(due) {
            let waited = now.saturating_sub(due).as_nanos() as u64;
            cell.latency_ns.lock().saturating_record(waited);
        }
    }

    pub(super) fn failure(&self) -> Option<String> {
        self.failure.lock().clone()
    }

    pub(super) fn second(&self, second: usize) -> WaveSecond {
        let cell = &self.seconds[second];
        let latency_ns = cell.latency_ns.lock();
        WaveSecond {
            ended: cell.ended.load(Ordering::Relaxed),
            p50_us: quantile_us(&latency_ns, 0.5),
            p99_us: quantile_us(&latency_ns, 0.99),
            p999_us: quantile_us(&latency_ns, 0.999),
            ..WaveSecond::default()
        }
    }

    pub(super) fn phase(&self, seconds: std::ops::Range<usize>) -> Phase {
        let (mut whole, mut ended) = (histogram(), 0);
        let count = seconds.len().max(1);
        for cell in &self.seconds[seconds] {
            whole += &*cell.latency_ns.lock();
            ended += cell.ended.load(Ordering::Relaxed);
        }
        Phase {
            operations_per_s: ended as f64 / count as f64,
            p50_us: quantile_us(&whole, 0.5),
            p99_us: quantile_us(&whole, 0.99),
            p999_us: quantile_us(&whole, 0.999),
            longest_us: whole.max() as f64 / 1e3,
        }
    }
}

impl Sink for Recorder {
    fn end(&self, begun: Duration, outcome: Result<(), String>) {
        match outcome {
            Ok(()) => self.ended(begun),
            Err(failure) => {
                self.failure.lock().get_or_insert(failure);
            }
        }
        self.in_flight.fetch_sub(1, Ordering::Release);
    }
}
