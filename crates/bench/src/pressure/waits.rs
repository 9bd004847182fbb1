//! The waits within slow operations, from the system's accounting of each thread.
//!
//! An operation may become due while its thread still runs the previous operation. Then it first
//! waits for the previous operation to end, and the previous operation's shares ([`Shares`])
//! already cover this time. So the shares of an operation refer only to the time after it was due
//! and the previous operation had ended. Otherwise one long wait would be counted again for every
//! operation that queued behind it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// How time was spent, as shares of it. The rest is waits for devices and for other threads.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Shares {
    /// Waiting for a processor.
    pub(super) queued: f64,
    /// Running.
    pub(super) ran: f64,
}

/// An operation that has ended.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct EndedOperation {
    /// Since it was due.
    pub(super) latency: Duration,
    /// Since it was due and the one before it had ended.
    pub(super) own: Duration,
    /// The processor time and queueing within `own`. `None` if the system does not report it.
    pub(super) spent: Option<Spent>,
}

/// The time of a thread on a processor, and in the queue for one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Spent {
    pub(super) ran: Duration,
    pub(super) queued: Duration,
}

impl Spent {
    /// Parses a line of `schedstat`: nanoseconds on a processor, nanoseconds in the queue for one,
    /// and the number of time slices.
    pub(super) fn of_line(line: &str) -> Option<Spent> {
        let mut words = line.split_whitespace().map(|word| word.parse().map(Duration::from_nanos));
        let (ran, queued) = (words.next()?.ok()?, words.next()?.ok()?);
        Some(Spent { ran, queued })
    }
}

/// The account of one thread.
pub(super) struct Account {
    file: Option<File>,
    last: Option<Spent>,
}

impl Account {
    /// The account of the calling thread, from now on.
    pub(super) fn of_this_thread() -> Account {
        let mut account =
            Account { file: File::open("/proc/thread-self/schedstat").ok(), last: None };
        account.next();
        account
    }

    /// The time on a processor and in the queue for one since the last call.
    pub(super) fn next(&mut self) -> Option<Spent> {
        let mut line = [0; 96];
        let read = self.file.as_ref().and_then(|file| file.read_at(&mut line, 0).ok());
        let line = read.and_then(|len| std::str::from_utf8(&line[..len]).ok());
        let now = line.and_then(Spent::of_line);
        let last = std::mem::replace(&mut self.last, now)?;
        let now = now?;
        let (ran, queued) =
            (now.ran.saturating_sub(last.ran), now.queued.saturating_sub(last.queued));
        Some(Spent { ran, queued })
    }
}

/// How the slowest operations spent their time: the slowest `share` of all operations, at least
/// one. `None` if the system does not report it.
pub(super) fn shares_of_slowest(taken: &[EndedOperation], share: f64) -> Option<Shares> {
    let mut slow: Vec<&EndedOperation> = taken.iter().collect();
    slow.sort_by_key(|one| std::cmp::Reverse(one.latency));
    slow.truncate((taken.len() as f64 * share).ceil().max(1.0) as usize);
    let (mut own, mut queued, mut ran) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    for (one, spent) in slow.into_iter().filter_map(|one| Some((one, one.spent?))) {
        own += one.own;
        queued += spent.queued.min(one.own);
        ran += spent.ran.min(one.own);
    }
    let share = |part: Duration| part.as_secs_f64() / own.as_secs_f64();
    (!own.is_zero()).then(|| Shares { queued: share(queued), ran: share(ran) })
}
