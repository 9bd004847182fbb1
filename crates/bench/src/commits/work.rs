//! The commits of a thread.

use std::ops::Deref;
use std::time::Duration;

use spillway_base::clock;
use spillway_base::rng::Rng;

use crate::measure::{KEY_BYTES, Values, key};
use crate::store::{Pair, Store};

/// The length of a cell.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Extent {
    /// This long, after a fifth of it that is not measured.
    Time(Duration),
    /// For this many commits, over all threads.
    Commits(u64),
}

impl Extent {
    /// When measuring begins and when work ends, for a cell that begins now.
    pub(crate) fn moments(self, begin: Duration) -> (Duration, Duration) {
        match self {
            Extent::Time(time) => (begin + time / 5, begin + time / 5 + time),
            Extent::Commits(_) => (begin, Duration::MAX),
        }
    }

    /// The most commits of one of `threads` threads.
    pub(crate) fn share(self, thread: usize, threads: usize) -> u64 {
        match self {
            Extent::Time(_) => u64::MAX,
            Extent::Commits(commits) => {
                let (thread, threads) = (thread as u64, threads as u64);
                commits / threads + u64::from(thread < commits % threads)
            }
        }
    }
}

/// The most rows of one transaction.
pub(crate) const ROWS_MAX: usize = 8;

/// The rows of one transaction.
pub(crate) struct TransactionRows<'a> {
    pairs: [Pair<'a>; ROWS_MAX],
    count: usize,
}

impl<'a> Deref for TransactionRows<'a> {
    type Target = [Pair<'a>];

    fn deref(&self) -> &[Pair<'a>] {
        &self.pairs[..self.count]
    }
}

/// Transactions of one thread, one after the other, over random keys.
pub(crate) struct CommitsWork<'a> {
    /// Commits that began earlier are not measured.
    pub(super) measure_from: Duration,
    until: Duration,
    left: u64,
    rng: Rng,
    keys: u64,
    values: &'a Values,
    numbers: [u64; ROWS_MAX],
    encoded: [[u8; KEY_BYTES]; ROWS_MAX],
    count: usize,
    /// Whether a transaction was begun.
    begun: bool,
}

impl<'a> CommitsWork<'a> {
    pub(crate) fn new(values: &'a Values, keys: u64, seed: u64, rows: usize) -> CommitsWork<'a> {
        assert!((1..=ROWS_MAX).contains(&rows), "a transaction has 1 to {ROWS_MAX} rows");
        CommitsWork {
            measure_from: Duration::ZERO,
            until: Duration::MAX,
            left: u64::MAX,
            rng: Rng::new(seed),
            keys,
            values,
            numbers: [0; ROWS_MAX],
            encoded: [[0; KEY_BYTES]; ROWS_MAX],
            count: rows,
            begun: false,
        }
    }

    /// Limits measuring to these times, and the number of transactions to `left`.
    pub(crate) fn bounded(mut self, measure_from: Duration, until: Duration, left: u64) -> Self {
        (self.measure_from, self.until, self.left) = (measure_from, until, left);
        self
    }

    /// The next transaction, and the time at which it begins.
    pub(crate) fn next(&mut self) -> Option<(Duration, TransactionRows<'_>)> {
        let now = clock::now();
        if self.left == 0 || now >= self.until {
            return None;
        }
        self.left -= 1;
        self.begun = true;
        let numbers = &mut self.numbers[..self.count];
        numbers.fill_with(|| self.rng.below(self.keys));
        // In the same order everywhere, so that no two transactions wait for each other's locks.
        numbers.sort_unstable();
        for (encoded, number) in self.encoded.iter_mut().zip(numbers) {
            *encoded = key(*number);
        }
        Some((now, self.last()))
    }

    fn last(&self) -> TransactionRows<'_> {
        let mut pairs: [Pair<'_>; ROWS_MAX] = [(&[], &[]); ROWS_MAX];
        for (place, pair) in pairs[..self.count].iter_mut().enumerate() {
            *pair = (&self.encoded[place], self.values.of(self.numbers[place]));
        }
        TransactionRows { pairs, count: self.count }
    }

    /// Reads the last transaction back.
    pub(crate) fn check_last(&self, store: &dyn Store) -> Result<(), String> {
        if !self.begun {
            return Ok(());
        }
        let mut found = Vec::new();
        for (key, value) in &*self.last() {
            if !store.get(key, &mut found)? || found != *value {
                return Err("a row that was committed is not there".to_owned());
            }
        }
        Ok(())
    }
}
