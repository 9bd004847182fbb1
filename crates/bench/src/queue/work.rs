//! The queue, on one store.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use indicatif::ProgressBar;
use spillway_base::clock::{self, Clock};

use crate::measure::{Values, fresh_folder, histogram, key, remove_folder};
use crate::store::{Store, Stores};

/// The parameters of a run.
#[derive(Clone, Debug)]
pub(super) struct QueuePlan {
    /// Numbers of inserts, and of as many deletes, after which polls are measured: ascending.
    pub(super) after: Vec<u64>,
    /// Rows in the queue.
    pub(super) length: u64,
    /// Rows of a commit.
    pub(super) batch: u64,
    /// The most rows that come and go in a second; no limit if it is 0.
    pub(super) rate: u64,
    pub(super) value_bytes: usize,
    /// Numbers of first rows that polls request.
    pub(super) limits: Vec<usize>,
    /// The most polls of a measurement at rest.
    pub(super) polls: u64,
    /// The most time of such a measurement, apart from the poll in progress.
    pub(super) polls_time: Duration,
    /// The pause between polls during changes.
    pub(super) pause: Duration,
    /// Threads that poll during changes.
    pub(super) pollers: usize,
    pub(super) memory_bytes: usize,
    pub(super) seed: u64,
}

/// Polls of one kind.
pub(super) struct Polls {
    pub(super) after: u64,
    pub(super) limit: usize,
    /// Whether no rows came or went.
    pub(super) at_rest: bool,
    pub(super) latency_ns: Histogram<u64>,
    /// Inserts and deletes a second, before or during the polls.
    pub(super) changes_per_s: f64,
}

/// Runs the plan on a store in a fresh folder, which is removed; `bar` advances by the rows that
/// have passed through the queue.
pub(super) fn run(
    stores: &dyn Stores,
    plan: &QueuePlan,
    dir: &Path,
    bar: &ProgressBar,
) -> Result<Vec<Polls>, String> {
    let folder = dir.join(stores.name());
    fresh_folder(&folder)?;
    let store = stores.open(&folder, plan.memory_bytes)?;
    let values = Values::new(plan.seed, plan.value_bytes);
    let mut queue = Queue { store: &*store, plan, values, head: 0, tail: 0, bar };
    queue.insert(plan.length)?;
    let mut all = Vec::new();
    for &after in &plan.after {
        let (begin, already) = (clock::now(), queue.head);
        let meanwhile = queue.pass_through(after - already)?;
        let seconds = (clock::now() - begin).as_secs_f64();
        let changes_per_s = 2.0 * (after - already) as f64 / seconds;
        for (limit, latency_ns) in plan.limits.iter().zip(meanwhile) {
            all.push(Polls { after, limit: *limit, at_rest: false, latency_ns, changes_per_s });
        }
        for &limit in &plan.limits {
            let latency_ns = queue.poll_at_rest(limit)?;
            all.push(Polls { after, limit, at_rest: true, latency_ns, changes_per_s });
        }
    }
    drop(store);
    remove_folder(&folder)?;
    Ok(all)
}

struct Queue<'a> {
    store: &'a dyn Store,
    plan: &'a QueuePlan,
    values: Values,
    /// The first row, and the next to insert.
    head: u64,
    tail: u64,
    bar: &'a ProgressBar,
}

impl Queue<'_> {
    fn insert(&mut self, count: u64) -> Result<(), String> {
        let keys: Vec<_> = (self.tail..self.tail + count).map(key).collect();
        let numbered = keys.iter().zip(self.tail..);
        let rows: Vec<_> =
            numbered.map(|(key, number)| (&key[..], self.values.of(number))).collect();
        self.tail += count;
        self.store.commit(&rows, false)
    }

    fn delete(&mut self, count: u64) -> Result<(), String> {
        let keys: Vec<_> = (self.head..self.head + count).map(key).collect();
        let keys: Vec<_> = keys.iter().map(|key| &key[..]).collect();
        self.head += count;
        self.store.delete(&keys, false)
    }

    /// Inserts and deletes this many rows while other threads poll, with each limit in turn.
    fn pass_through(&mut self, count: u64) -> Result<Vec<Histogram<u64>>, String> {
        let (store, plan, over) = (self.store, self.plan, AtomicBool::new(false));
        std::thread::scope(|scope| {
            let polling = || {
                let mut latencies: Vec<_> = plan.limits.iter().map(|_| histogram()).collect();
                while !over.load(Ordering::Relaxed) {
                    for (limit, latency_ns) in plan.limits.iter().zip(&mut latencies) {
                        poll(store, *limit, latency_ns)?;
                    }
                    Clock::system().sleep(plan.pause);
                }
                Ok(latencies)
            };
            let pollers: Vec<_> = (0..plan.pollers).map(|_| scope.spawn(polling)).collect();
            let (mut left, begin) = (count, clock::now());
            let passed = loop {
                let some = left.min(plan.batch);
                let passed = self.insert(some).and_then(|()| self.delete(some));
                self.bar.inc(some);
                left -= some;
                if left == 0 || passed.is_err() {
                    break passed;
                }
                if plan.rate > 0 {
                    let due = Duration::from_secs_f64((count - left) as f64 / plan.rate as f64);
                    Clock::system().sleep(due.saturating_sub(clock::now() - begin));
                }
            };
            over.store(true, Ordering::Relaxed);
            let mut all: Vec<_> = plan.limits.iter().map(|_| histogram()).collect();
            for poller in pollers {
                let latencies: Result<Vec<_>, String> =
                    poller.join().unwrap_or_else(|_| Err("a poller panicked".to_owned()));
                for (all, latency_ns) in all.iter_mut().zip(latencies?) {
                    all.add(latency_ns).map_err(|error| error.to_string())?;
                }
            }
            passed.and(Ok(all))
        })
    }

    fn poll_at_rest(&self, limit: usize) -> Result<Histogram<u64>, String> {
        let (mut latency_ns, begin) = (histogram(), clock::now());
        while latency_ns.len() < self.plan.polls
            && (latency_ns.is_empty() || clock::now() - begin < self.plan.polls_time)
        {
            let found = poll(self.store, limit, &mut latency_ns)?;
            let expected = self.plan.length.min(limit as u64) as usize;
            if found.0 != expected || found.1.as_deref() != Some(&key(self.head)[..]) {
                return Err(format!(
                    "a poll of row {} and {expected} in all found {found:?}",
                    self.head
                ));
            }
        }
        Ok(latency_ns)
    }
}

/// Requests the first rows of the table; returns their number and the first one's key.
fn poll(
    store: &dyn Store,
    limit: usize,
    latency_ns: &mut Histogram<u64>,
) -> Result<(usize, Option<Vec<u8>>), String> {
    let begin = clock::now();
    let mut first = None;
    let count = store.seek(&[], limit, &mut |key, _| {
        first.get_or_insert_with(|| key.to_vec());
    })?;
    latency_ns.saturating_record((clock::now() - begin).as_nanos() as u64);
    Ok((count, first))
}
