//! The setting whether workers keep to cores, and statements to the workers of their data, and its
//! counters. `pool/homes` implements it.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};

/// Whether workers keep to cores, and statements to the workers of their data.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Affinity {
    /// Workers run on any core, and statements on any worker.
    #[default]
    Off,
    /// Each worker has a core; statements run on any.
    Cores,
    /// Each worker has a core, and each sub-table has one of these cores as its home. Statements of
    /// a connection whose rows are mostly at one home run there if they need not wait for that.
    Homes,
}

impl Affinity {
    /// All values.
    pub const ALL: [Affinity; 3] = [Affinity::Off, Affinity::Cores, Affinity::Homes];

    /// Its name, as it is parsed.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Affinity::Off => "off",
            Affinity::Cores => "cores",
            Affinity::Homes => "homes",
        }
    }
}

impl fmt::Display for Affinity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Affinity {
    type Err = String;

    fn from_str(name: &str) -> Result<Affinity, String> {
        let found = Affinity::ALL.into_iter().find(|affinity| affinity.name() == name);
        found.ok_or_else(|| format!("{name} is no affinity; write off, cores or homes"))
    }
}

/// What a statement was to the worker that ran it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ran {
    /// The worker of its data's home.
    AtHome,
    /// Another.
    Away,
    /// One that is at home where some of its data is, or nowhere.
    Spread,
}

/// Of one worker, in memory that no other writes to.
#[derive(Default)]
#[repr(align(128))]
struct Line {
    ran: [AtomicU64; 3],
    moved: AtomicU64,
}

/// What is counted of statements and their homes.
pub(crate) struct Tally(Box<[Line]>);

impl Tally {
    /// For so many workers, and what others do.
    pub(crate) fn new(workers: usize) -> Tally {
        Tally((0..=workers).map(|_| Line::default()).collect())
    }

    fn line(&self, worker: Option<u32>) -> &Line {
        let others = self.0.len() - 1;
        &self.0[worker.map_or(others, |worker| worker as usize).min(others)]
    }

    /// A worker, or one without a home, ran a statement.
    pub(crate) fn ran(&self, worker: Option<u32>, ran: Ran) {
        self.line(worker).ran[ran as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// A connection has another home than before.
    pub(crate) fn moved(&self, worker: Option<u32>) {
        self.line(worker).moved.fetch_add(1, Ordering::Relaxed);
    }

    /// Statements that ran so.
    pub(crate) fn statements(&self, ran: Ran) -> u64 {
        self.0.iter().map(|line| line.ran[ran as usize].load(Ordering::Relaxed)).sum()
    }

    /// How often a connection had another home than before.
    pub(crate) fn moves(&self) -> u64 {
        self.0.iter().map(|line| line.moved.load(Ordering::Relaxed)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_and_others_refused() {
        for affinity in Affinity::ALL {
            assert_eq!(affinity.to_string().parse(), Ok(affinity));
        }
        assert!("home".parse::<Affinity>().unwrap_err().contains("off, cores or homes"));
    }

    #[test]
    fn what_all_workers_count_is_added_up() {
        let tally = Tally::new(2);
        for worker in [Some(0), Some(1), None, Some(9)] {
            tally.ran(worker, Ran::AtHome);
        }
        tally.ran(Some(1), Ran::Away);
        tally.moved(None);
        let statements = [Ran::AtHome, Ran::Away, Ran::Spread].map(|ran| tally.statements(ran));
        assert_eq!((statements, tally.moves()), ([4, 1, 0], 1));
    }
}
