//! Waiting for commits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Thread;
use std::time::Duration;

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use spillway_base::clock;

use crate::measure::histogram;

/// The commits that one thread has on their way, and what became of those that ended.
///
/// That thread alone waits; any thread tells.
pub struct Completions {
    in_flight: AtomicUsize,
    /// The thread that sleeps until fewer are in flight.
    owner: Thread,
    ended: Mutex<Ended>,
}

struct Ended {
    latency_ns: Histogram<u64>,
    /// Commits begun before this moment are not recorded.
    from: Duration,
    failure: Option<String>,
}

/// Who learns of commits.
pub trait Sink: Send + Sync {
    /// One that began at this moment has ended.
    fn end(&self, begun: Duration, outcome: Result<(), String>);
}

/// Tells of one commit. Dropping it untold counts as a failure.
pub struct Done {
    begun: Duration,
    sink: Option<Arc<dyn Sink>>,
}

impl Completions {
    /// None on their way yet, all from the calling thread. Those begun before `from` are not
    /// recorded.
    #[must_use]
    pub fn new(from: Duration) -> Arc<Completions> {
        let ended = Ended { latency_ns: histogram(), from, failure: None };
        Arc::new(Completions {
            in_flight: AtomicUsize::new(0),
            owner: std::thread::current(),
            ended: Mutex::new(ended),
        })
    }

    /// One more is on its way, since `begun`.
    #[must_use]
    pub fn one_more(self: &Arc<Self>, begun: Duration) -> Done {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        Done::new(begun, self.clone())
    }

    /// How many are on their way.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Acquire)
    }

    /// Waits until fewer than `limit` are on their way. `lead` may do a piece of what they wait
    /// for, and answers whether it did.
    pub fn wait_below(&self, limit: usize, mut lead: impl FnMut() -> bool) {
        while self.in_flight() >= limit {
            if !lead() && self.in_flight() >= limit {
                // Whoever ends one unparks this thread after counting it.
                std::thread::park();
            }
        }
    }

    /// The latencies of those that ended.
    ///
    /// # Errors
    /// The first failure of one of them.
    pub fn take(&self) -> Result<Histogram<u64>, String> {
        let mut ended = self.ended.lock();
        match ended.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(std::mem::replace(&mut ended.latency_ns, histogram())),
        }
    }
}

impl Sink for Completions {
    fn end(&self, begun: Duration, outcome: Result<(), String>) {
        let latency = clock::now().saturating_sub(begun);
        let mut ended = self.ended.lock();
        match outcome {
            Ok(()) if begun >= ended.from => {
                ended.latency_ns.saturating_record(latency.as_nanos() as u64);
            }
            Ok(()) => {}
            Err(failure) => {
                ended.failure.get_or_insert(failure);
            }
        }
        drop(ended);
        self.in_flight.fetch_sub(1, Ordering::Release);
        self.owner.unpark();
    }
}

impl Done {
    /// For a commit that began at this moment.
    #[must_use]
    pub fn new(begun: Duration, sink: Arc<dyn Sink>) -> Done {
        Done { begun, sink: Some(sink) }
    }

    /// Tells the outcome.
    pub fn tell(mut self, outcome: Result<(), String>) {
        if let Some(sink) = self.sink.take() {
            sink.end(self.begun, outcome);
        }
    }
}

impl Drop for Done {
    fn drop(&mut self) {
        if let Some(sink) = self.sink.take() {
            sink.end(self.begun, Err("a commit ended without an outcome".to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_sleeps_until_another_tells() {
        let completions = Completions::new(Duration::ZERO);
        let (first, second) =
            (completions.one_more(clock::now()), completions.one_more(clock::now()));
        std::thread::scope(|scope| {
            scope.spawn(move || first.tell(Ok(())));
            completions.wait_below(2, || false);
            scope.spawn(move || second.tell(Ok(())));
            completions.wait_below(1, || false);
        });
        assert_eq!(completions.take().unwrap().len(), 2);
    }

    #[test]
    fn who_waits_may_lead_and_failures_are_kept() {
        let completions = Completions::new(Duration::ZERO);
        let mut done = Some(completions.one_more(clock::now()));
        completions.wait_below(1, || done.take().map(|done| done.tell(Err("no".into()))).is_some());
        assert_eq!(completions.take().unwrap_err(), "no");
        drop(completions.one_more(clock::now()));
        assert!(completions.take().unwrap_err().contains("without an outcome"));
    }

    #[test]
    fn what_began_before_the_measurement_is_not_recorded() {
        let completions = Completions::new(Duration::from_secs(1));
        completions.one_more(Duration::ZERO).tell(Ok(()));
        completions.one_more(Duration::from_secs(2)).tell(Ok(()));
        assert_eq!(completions.take().unwrap().len(), 1);
    }
}
