//! Waits for commits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Thread;
use std::time::Duration;

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use spillway_base::clock;

use crate::measure::histogram;

/// The commits in flight of one thread, and the outcomes of those that ended.
///
/// Only that thread waits; any thread reports.
pub struct Completions {
    in_flight: AtomicUsize,
    /// The thread that sleeps until fewer are in flight.
    owner: Thread,
    ended: Mutex<Ended>,
}

struct Ended {
    latency_ns: Histogram<u64>,
    /// Commits that began before this moment are not recorded.
    from: Duration,
    failure: Option<String>,
}

/// A receiver of outcomes.
pub trait Sink: Send + Sync {
    /// A commit that began at this moment has ended.
    fn end(&self, begun: Duration, outcome: Result<(), String>);
}

/// Reports the outcome of one commit. Dropping it without a report counts as a failure.
pub struct Done {
    begun: Duration,
    sink: Option<Arc<dyn Sink>>,
}

impl Completions {
    /// An empty set of commits of the calling thread. Those that begin before `from` are not
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

    /// Adds a commit in flight, since `begun`.
    #[must_use]
    pub fn one_more(self: &Arc<Self>, begun: Duration) -> Done {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        Done::new(begun, self.clone())
    }

    /// The number of commits in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Acquire)
    }

    /// Waits until fewer than `limit` are in flight. `lead` may do a part of the work that they
    /// wait for, and returns whether it did.
    pub fn wait_below(&self, limit: usize, mut lead: impl FnMut() -> bool) {
        while self.in_flight() >= limit {
            if !lead() && self.in_flight() >= limit {
                // A thread that ends a commit counts it and then unparks this thread.
                std::thread::park();
            }
        }
    }

    /// The latencies of the ended commits.
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

    /// Reports the outcome.
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
