//! Loads rows into a store before a run, and runs work on many threads.

use super::Store;
use crate::measure::{Values, key, progress};

/// Rows of a commit.
const COMMIT_ROWS: u64 = 100;

/// Puts rows into a store, in the order of their keys.
pub(crate) fn load(
    store: &dyn Store,
    name: &str,
    rows: u64,
    values: &Values,
) -> Result<(), String> {
    let bar = progress(rows);
    bar.set_message(format!("rows loaded into {name}"));
    for first in (0..rows).step_by(COMMIT_ROWS as usize) {
        let numbers = first..(first + COMMIT_ROWS).min(rows);
        let keys: Vec<_> = numbers.map(|number| (key(number), number)).collect();
        let pairs: Vec<_> =
            keys.iter().map(|(key, number)| (&key[..], values.of(*number))).collect();
        store.commit(&pairs, false)?;
        bar.inc(pairs.len() as u64);
    }
    bar.finish_and_clear();
    Ok(())
}

/// Runs work on this many threads at once; returns the sum of their results, or the first failure.
pub(crate) fn by_threads(
    threads: u64,
    work: impl Fn(u64) -> Result<u64, String> + Sync,
) -> Result<u64, String> {
    let work = &work;
    std::thread::scope(|scope| {
        let workers: Vec<_> =
            (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        let done = workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|_| Err("a worker panicked".to_owned())));
        done.sum()
    })
}
