//! Cores as homes: which worker is at home where, and which clients are better served there.
//!
//! **Goal.** After X-Engine's shared-nothing readers: what a sub-table's statements read and write
//! is in the caches of one core, and is not fetched from another's: blocks, views, counters, the
//! rows' locks. There, data is only ever touched by the core that has it. Here that is preferred
//! and never asked for, as transactions go over several sub-tables, and what is asked for most may
//! all be in one.
//!
//! **How.** Each sub-table has a home among as many cores as workers run ([`spillway_base::home`]),
//! by its number alone, so that splits and joins have nothing to keep up. While a statement runs,
//! the engine notes whose rows it touches, and the pool learns where those are at home; so no
//! statement is read twice or asked beforehand, whatever it is, and nothing hangs on the answer but
//! where the connection's *next* statements are put. A connection that is mostly about one home is
//! *at home* there: when it has something ready it is put on that home's shelf of the one queue,
//! from which that home's worker takes first ([`super::work`]). It stays registered where it is, so
//! that it moves for nothing, and nobody is woken for it: whoever is awake and has nothing of its
//! own takes it, once it has looked whether epoll has something of its own.
//!
//! **Rejected:** an epoll instance for each worker, to which connections are moved: whoever sleeps
//! in its own hears nothing of others', so a client of a worker that is long at a statement would
//! wait for a timer, or each event would have to wake others. Handing over each statement by
//! itself, for connections that go to another sub-table each time: it is known where a row is only
//! when the statement has been read and bound, half its work, and what has to follow it (the
//! session, its memory, its socket) is more than what a look-up finds in the caches of its home.
//!
//! Homes whose workers keep to no core: the system had all of them and their client on one or two
//! cores as it liked, about half ran at home, and nothing was gained.
//!
//! Guarantees:
//! - **S1.** What is ready is given to one worker, once, on whichever shelf it is.
//! - **S2.** A worker that finds nothing of its own takes what others have. So nobody rests while
//!   something is ready, wherever that is at home (invariant 3 of the pool).
//! - **S3.** Nothing is kept back for its home. Whoever takes looks at one home besides, each in
//!   its turn, and what came first there goes before anything of its own that came more than
//!   [`super::work::LATE`] others later.
//! - **S4.** A home is one running worker's at a time. One that waits within a statement gives it
//!   up, and takes one that is free when it goes on; who finds none takes from all, on any core.
//!   While it waits it is still bound to its core, beside who has its home then.
//! - **S5.** A connection is at home where three of four of its statements went lately, of each
//!   what it touched first; it has none while they go anywhere.
//! - **S6.** Where the system does not let threads keep to cores, all else goes on, and it is told
//!   why.
//! - **S7.** What a worker starts runs on any core.

use std::cell::Cell;
use std::io;

use parking_lot::Mutex;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use spillway_base::home::Touched;

use super::seat::Seat;
use crate::affinity::{Affinity, Ran, Tally};

thread_local! {
    /// Where this worker is at home now, and where it was last.
    static HERE: Cell<Option<u32>> = const { Cell::new(None) };
    static LAST: Cell<u32> = const { Cell::new(0) };
    /// The core that it keeps to.
    static BOUND: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Has the calling thread run on these cores only.
pub(super) type Bind = fn(&[usize]) -> io::Result<()>;

pub(super) struct Homes {
    affinity: Affinity,
    workers: u32,
    /// The cores that the process may use; none where nobody is bound.
    cores: Vec<usize>,
    bind: Bind,
    /// Homes that no running worker has.
    free: Mutex<Vec<u32>>,
    /// Why no thread keeps to a core, though it is asked for.
    refused: Option<String>,
}

/// The cores that the calling thread may use.
fn allowed() -> io::Result<Vec<usize>> {
    let cores = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&core| cores.is_set(core)).collect())
}

fn bind(cores: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    cores.iter().for_each(|&core| set.set(core));
    Ok(sched_setaffinity(None, &set)?)
}

impl Homes {
    pub(super) fn new(affinity: Affinity, workers: usize) -> Homes {
        Homes::with(affinity, workers, allowed, bind)
    }

    fn with(
        affinity: Affinity,
        workers: usize,
        allowed: fn() -> io::Result<Vec<usize>>,
        bind: Bind,
    ) -> Homes {
        let workers = u32::try_from(workers).unwrap_or(u32::MAX).max(1);
        let (mut cores, mut refused) = (Vec::new(), None);
        if affinity != Affinity::Off {
            // What it may use already, to learn whether it may say so.
            let asked = allowed().and_then(|cores| bind(&cores).map(|()| cores));
            match asked {
                Ok(allowed) => cores = allowed,
                Err(error) => refused = Some(format!("workers cannot keep to cores: {error}")),
            }
        }
        // The first is taken first.
        let free = Mutex::new((0..workers).rev().collect());
        Homes { affinity, workers, cores, bind, free, refused }
    }

    /// How many homes there are for data; none where statements run anywhere.
    pub(super) fn count(&self) -> u32 {
        if self.affinity == Affinity::Homes { self.workers } else { 0 }
    }

    /// Why workers do not keep to cores, though they are to (S6).
    pub(super) fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// Where the calling worker is at home.
    pub(super) fn here(&self) -> Option<u32> {
        if self.affinity == Affinity::Off { None } else { HERE.get() }
    }

    /// The calling worker runs: it has a home from now on, if one is free (S4).
    pub(super) fn settle(&self) {
        if self.affinity == Affinity::Off || HERE.get().is_some() {
            return;
        }
        let home = {
            let mut free = self.free.lock();
            let last = free.iter().position(|&home| home == LAST.get());
            last.map(|place| free.remove(place)).or_else(|| free.pop())
        };
        if let Some(home) = home {
            HERE.set(Some(home));
            LAST.set(home);
        }
        self.keep_to(home);
    }

    /// The calling worker waits, rests or ends: its home is another's to take (S4).
    pub(super) fn leave(&self) {
        if let Some(home) = HERE.take() {
            self.free.lock().push(home);
        }
    }

    /// The calling thread was started by a worker, whose core is not its own (S7).
    pub(super) fn set_free(&self) {
        if !self.cores.is_empty() {
            // It could be bound, so it can be set free.
            let _ = (self.bind)(&self.cores);
        }
    }

    /// Has the calling thread keep to a home's core, or to none.
    fn keep_to(&self, home: Option<u32>) {
        if self.cores.is_empty() {
            return;
        }
        let core = home.map(|home| self.cores[home as usize % self.cores.len()]);
        if BOUND.get() != core {
            let cores = core.as_ref().map_or(&self.cores[..], std::slice::from_ref);
            // A core may have gone since; then it runs where it can.
            let bound = (self.bind)(cores).is_ok();
            BOUND.set(core.filter(|_| bound));
        }
    }

    /// Counts where a statement's data was at home, and learns from it where its connection is
    /// (S5).
    pub(super) fn note(&self, seat: &Seat, touched: Touched, tally: &Tally) {
        let here = self.here();
        let (first, ran) = match touched {
            Touched::Nothing => return,
            Touched::Several(first) => (first, Ran::Spread),
            Touched::One(home) if here == Some(home) => (home, Ran::AtHome),
            Touched::One(home) => (home, Ran::Away),
        };
        if seat.visited(first) {
            tally.moved(here);
        }
        tally.ran(here, ran);
    }

    #[cfg(test)]
    fn free(&self) -> usize {
        self.free.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use spillway_base::thread;

    use super::super::seat::Sitting;
    use super::*;

    thread_local! {
        static BOUND_TO: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
    }

    /// Keeps in mind how many cores, and the first.
    fn pretend(cores: &[usize]) -> io::Result<()> {
        BOUND_TO.set((cores.len(), cores[0]));
        Ok(())
    }

    fn three() -> io::Result<Vec<usize>> {
        Ok(vec![2, 5, 7])
    }

    /// S4: as many as there are homes have one each, and each another core.
    #[test]
    fn s4_a_home_is_one_workers_at_a_time() {
        let homes = Homes::with(Affinity::Homes, 2, three, pretend);
        assert_eq!((homes.count(), homes.free()), (2, 2));
        let taken = Mutex::new(BTreeSet::new());
        thread::together(4, |_| {
            for _ in 0..2_000 {
                homes.settle();
                homes.settle();
                match homes.here() {
                    Some(home) => {
                        assert!(taken.lock().insert(home), "another has it");
                        assert_eq!(BOUND_TO.get(), (1, [2, 5][home as usize]));
                        assert!(taken.lock().remove(&home));
                    }
                    None => assert!([(3, 2), (0, 0)].contains(&BOUND_TO.get())),
                }
                homes.leave();
                homes.leave();
                assert_eq!(homes.here(), None);
            }
        });
        assert_eq!(homes.free(), 2);
    }

    /// S4: one that comes back has its home again where that is free, and runs anywhere where none
    /// is.
    #[test]
    fn s4_who_finds_no_home_runs_anywhere_until_there_is_one() {
        thread::together(1, |_| who_finds_no_home());
    }

    fn who_finds_no_home() {
        let homes = Homes::with(Affinity::Homes, 1, three, pretend);
        homes.settle();
        assert_eq!((homes.here(), BOUND_TO.get()), (Some(0), (1, 2)));
        homes.leave();
        thread::together(1, |_| {
            homes.settle();
            assert_eq!(homes.here(), Some(0));
            // It ends, and its home is lost, as a panic would do that nobody caught.
        });
        homes.settle();
        assert_eq!((homes.here(), BOUND_TO.get()), (None, (3, 2)));
        homes.free.lock().push(0);
        homes.settle();
        assert_eq!((homes.here(), BOUND_TO.get()), (Some(0), (1, 2)));
    }

    /// S6.
    #[test]
    fn s6_without_the_systems_leave_homes_are_had_and_nobody_is_bound() {
        thread::together(1, |_| refused());
    }

    fn refused() {
        let refuse: Bind = |_| Err(io::ErrorKind::PermissionDenied.into());
        let homes = Homes::with(Affinity::Homes, 2, three, refuse);
        assert!(homes.refused().is_some_and(|why| why.contains("permission denied")));
        homes.settle();
        assert!(homes.here().is_some() && homes.count() == 2);
        homes.set_free();
        assert!(Homes::with(Affinity::Off, 2, three, refuse).refused().is_none());
    }

    /// The system's own calls: a worker keeps to one core, and what it starts to none (S7).
    #[test]
    fn s7_what_a_worker_starts_runs_on_any_core() {
        thread::together(1, |_| {
            let before = allowed().unwrap();
            let homes = Homes::new(Affinity::Cores, 2);
            if homes.refused().is_some() {
                // Where it is forbidden nothing is bound (S6).
                return;
            }
            homes.settle();
            assert_eq!((homes.count(), allowed().unwrap()), (0, vec![before[0]]));
            thread::together(1, |_| {
                assert_eq!(allowed().unwrap().len(), 1);
                homes.set_free();
                assert_eq!(allowed().unwrap(), before);
            });
        });
    }

    /// S5, and what is counted.
    #[test]
    fn s5_a_connection_is_at_home_where_it_mostly_goes() {
        thread::together(1, |_| where_it_mostly_goes());
    }

    fn where_it_mostly_goes() {
        let homes = Homes::with(Affinity::Homes, 4, three, pretend);
        let (seat, tally) = (Seat::new(1, Sitting::Gone), Tally::new(4));
        homes.settle();
        assert_eq!(homes.here(), Some(0));
        let note = |touched| {
            homes.note(&seat, touched, &tally);
            seat.home()
        };
        assert_eq!(note(Touched::Nothing), None);
        while note(Touched::One(3)).is_none() {}
        let away = tally.statements(Ran::Away);
        assert!((2..20).contains(&away), "{away}");
        // Now and then another is nothing, and what is over several homes goes where it went first.
        for turn in 0..100 {
            let other = if turn % 5 == 4 { Touched::One(0) } else { Touched::One(3) };
            assert_eq!(note(other), Some(3));
            assert_eq!(note(Touched::Several(3)), Some(3));
        }
        assert_eq!((tally.statements(Ran::AtHome), tally.statements(Ran::Spread)), (20, 100));
        assert_eq!(tally.moves(), 1);
        let mut turns = 0;
        while note(Touched::One(1)) != Some(1) {
            turns += 1;
        }
        assert!(turns < 30 && tally.moves() <= 3, "{turns} turns, {} moves", tally.moves());
        // Half here and half there is nowhere.
        let mut homeless = 0;
        for turn in 0..1000 {
            homeless += usize::from(note(Touched::One(turn % 2)).is_none());
        }
        assert!(homeless > 900, "{homeless}");
    }
}
