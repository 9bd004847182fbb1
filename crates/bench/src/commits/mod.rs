//! Durable commits per second, by the number of commits in flight.
//!
//! A subject is a store together with one way to keep its commits in flight. A cell of the report
//! is one subject with N commits in flight and some rows in each transaction, on a store of its
//! own.
//!
//! If the store's commits do not block their thread, there are three kinds of subjects:
//!
//! - a few threads keep all N commits in flight;
//! - each of N threads waits for its own commit;
//! - each of a few threads waits for its own commit.
//!
//! If the store's commits block their thread, each of N threads waits for its own commit.
//!
//! A commit counts when it is durable. The whole measurement runs several times (*rounds*), and the
//! report gives medians. In a round, all subjects run one after the other with the same number of
//! commits in flight. Then all of them run with the next number. Each round begins with another
//! subject, so that no subject is always first.
//!
//! At the end of a cell, the last rows of each thread are read back, to check that the counted
//! commits took effect.

mod command;
mod notes;
mod work;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Duration;

use hdrhistogram::Histogram;
use spillway_base::clock;

pub use self::command::CommitsArgs;
pub(crate) use self::work::{CommitsWork, Extent, ROWS_MAX};
use crate::machine::own_time;
use crate::measure::{Values, fresh_folder, histogram, remove_folder};
use crate::store::{Completions, SpillwayStores, Store, Stores};

/// How a subject keeps its commits in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// One commit from each of N threads, which wait for it.
    Waiting,
    /// One commit from each of at most this many threads, which wait for it: the baseline for the
    /// same number of asynchronous threads.
    Few(usize),
    /// Commits from at most this many threads, which do not wait.
    Asynchronous(usize),
}

/// A store and how its commits are kept in flight.
pub struct Subject<'a> {
    /// The store.
    pub stores: &'a dyn Stores,
    /// The style.
    pub style: Style,
}

impl<'a> Subject<'a> {
    /// Each of these stores in all styles: asynchronous from each of these numbers of threads, from
    /// as many waiting threads, and with a thread for each commit.
    #[must_use]
    pub fn in_all_styles(stores: &'a [SpillwayStores], threads: &[usize]) -> Vec<Subject<'a>> {
        let asynchronous = threads.iter().map(|threads| Style::Asynchronous(*threads));
        let few = threads.iter().map(|threads| Style::Few(*threads));
        let styles: Vec<_> = asynchronous.chain(few).chain([Style::Waiting]).collect();
        let all = |stores: &'a SpillwayStores| {
            styles.iter().map(move |style| Subject { stores, style: *style }).collect::<Vec<_>>()
        };
        stores.iter().flat_map(all).collect()
    }
}

impl Subject<'_> {
    /// The name in the report.
    #[must_use]
    pub fn name(&self) -> String {
        let name = self.stores.name();
        match self.style {
            Style::Asynchronous(threads) => format!("{name} async x{threads}"),
            Style::Few(threads) => format!("{name} sync x{threads}"),
            Style::Waiting => name,
        }
    }

    fn threads(&self, in_flight: usize) -> usize {
        match self.style {
            Style::Asynchronous(threads) | Style::Few(threads) => threads.min(in_flight),
            Style::Waiting => in_flight,
        }
    }
}

/// The results of one cell.
pub(crate) struct CommitsResults {
    pub(crate) latency_ns: Histogram<u64>,
    pub(crate) elapsed: Duration,
    pub(crate) cpu: Duration,
    pub(crate) threads: usize,
    /// The number of log syncs, and their total seconds.
    pub(crate) syncs: (u64, f64),
}

/// The parameters that all cells share.
pub(crate) struct CommitsPlan {
    pub(crate) keys: u64,
    pub(crate) value_bytes: usize,
    pub(crate) memory_bytes: usize,
    pub(crate) extent: Extent,
    pub(crate) seed: u64,
}

/// Runs one cell on a fresh store.
pub(crate) fn measure(
    subject: &Subject<'_>,
    plan: &CommitsPlan,
    in_flight: usize,
    rows: usize,
    dir: &Path,
) -> Result<CommitsResults, String> {
    let folder = dir.join(subject.stores.name());
    fresh_folder(&folder)?;
    let store = subject.stores.open(&folder, plan.memory_bytes)?;
    let threads = subject.threads(in_flight);
    let values = Values::new(plan.seed, plan.value_bytes);
    let (measure_from, until) = plan.extent.moments(clock::now());
    let syncs = || {
        let pressure = store.pressure();
        (pressure.syncs, pressure.sync_s)
    };
    let mut before = (own_time(), syncs());
    let (tallies, cpu) = std::thread::scope(|scope| {
        let (store, values) = (&*store, &values);
        let work = |thread: usize| {
            let work =
                CommitsWork::new(values, plan.keys, plan.seed.wrapping_add(thread as u64), rows);
            // N commits are in flight over all threads.
            let own = in_flight / threads + usize::from(thread < in_flight % threads);
            (work.bounded(measure_from, until, plan.extent.share(thread, threads)), own)
        };
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                let (mut work, own) = work(thread);
                scope.spawn(move || {
                    let latency_ns = drive(store, subject.style, &mut work, own)?;
                    work.check_last(store).map(|()| latency_ns)
                })
            })
            .collect();
        if let Some(warm_up) = measure_from.checked_sub(clock::now()) {
            clock::Clock::system().sleep(warm_up);
            before = (own_time(), syncs());
        }
        let tallies: Vec<_> = workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|_| Err("a worker panicked".to_owned())))
            .collect();
        (tallies, own_time() - before.0)
    });
    let elapsed = clock::now() - measure_from;
    let mut latency_ns = histogram();
    for tally in tallies {
        latency_ns += &tally?;
    }
    let after = syncs();
    let syncs = (after.0 - before.1.0, after.1 - before.1.1);
    drop(store);
    remove_folder(&folder)?;
    Ok(CommitsResults { latency_ns, elapsed, cpu, threads, syncs })
}

/// Keeps commits of `work` in flight until there are no more, and returns their latencies.
pub(crate) fn drive(
    store: &dyn Store,
    style: Style,
    work: &mut CommitsWork<'_>,
    in_flight: usize,
) -> Result<Histogram<u64>, String> {
    match style {
        Style::Waiting | Style::Few(_) => {
            let mut latency_ns = histogram();
            while let Some((begun, rows)) = work.next() {
                store.commit(&rows, true)?;
                if begun >= work.measure_from {
                    latency_ns.saturating_record((clock::now() - begun).as_nanos() as u64);
                }
            }
            Ok(latency_ns)
        }
        Style::Asynchronous(_) => {
            let completions = Completions::new(work.measure_from);
            while let Some((begun, rows)) = work.next() {
                store.begin(&rows, completions.one_more(begun))?;
                completions.wait_below(in_flight, || store.lead());
            }
            completions.wait_below(1, || store.lead());
            completions.take()
        }
    }
}
