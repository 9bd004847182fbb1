//! What is ready.
//!
//! The queue is one, under one lock. Within it, what is to be done for clients who are at home
//! somewhere is on that home's shelf, and all else on the common one; without homes that is all
//! there is. Who takes, and in which order, is promised in [`super::homes`] (S1 to S3).

use std::collections::VecDeque;
use std::sync::Arc;

use spillway_sql::SqlError;

use super::seat::Seat;

/// Nothing that came so many others later is taken before what is on its home's shelf, but by
/// whoever does not look there just then (S3).
pub(super) const LATE: u64 = 64;

/// Something to do for a client.
pub(super) enum Item {
    /// Its commit is known.
    Answer(Arc<Seat>, Result<(), SqlError>),
    /// It has something to go on with: what came from it, or a statement that had to wait.
    Command(Arc<Seat>),
}

/// When something came, as a number, and what it is.
type Came<T> = (u64, T);

/// Of one kind, what is ready: first come, first served from each shelf.
struct Shelves<T> {
    /// What is on none of the others.
    common: VecDeque<Came<T>>,
    /// Of each home.
    homes: Vec<VecDeque<Came<T>>>,
    /// As much as is on those.
    at_homes: usize,
}

impl<T> Shelves<T> {
    fn new(homes: u32) -> Shelves<T> {
        let homes = (0..homes).map(|_| VecDeque::new()).collect();
        Shelves { common: VecDeque::new(), homes, at_homes: 0 }
    }

    fn len(&self) -> usize {
        self.common.len() + self.at_homes
    }

    fn put(&mut self, home: Option<u32>, number: u64, item: T) {
        match home.and_then(|home| self.homes.get_mut(home as usize)) {
            Some(shelf) => {
                shelf.push_back((number, item));
                self.at_homes += 1;
            }
            None => self.common.push_back((number, item)),
        }
    }

    /// When the first of a home came.
    fn first(&self, home: usize) -> Option<u64> {
        self.homes.get(home)?.front().map(|(number, _)| *number)
    }

    /// When the first of a home's and the common ones came, and whether it is a home's.
    fn near(&self, home: Option<usize>) -> Option<(u64, bool)> {
        let common = self.common.front().map(|(number, _)| (*number, false));
        let own = home.filter(|_| self.at_homes > 0).and_then(|home| self.first(home));
        common.into_iter().chain(own.map(|number| (number, true))).min()
    }

    fn take_near(&mut self, home: Option<usize>) -> Option<T> {
        match self.near(home)? {
            (_, true) => self.take_from(home?),
            (_, false) => self.common.pop_front().map(|(_, item)| item),
        }
    }

    fn take_from(&mut self, home: usize) -> Option<T> {
        let (_, item) = self.homes.get_mut(home)?.pop_front()?;
        self.at_homes -= 1;
        Some(item)
    }

    /// The next home with anything on its shelf, from this one on.
    fn far(&self, from: usize) -> Option<usize> {
        let homes = self.homes.len();
        let any = |home: &usize| !self.homes[*home].is_empty();
        (0..homes).map(|step| (from + step) % homes).find(any).filter(|_| self.at_homes > 0)
    }
}

/// Of what kind something is, in the order in which they are taken: who got a row first, since
/// others wait for them; then answers, since somebody has waited for them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Called,
    Answer,
    Command,
}

const KINDS: [Kind; 3] = [Kind::Called, Kind::Answer, Kind::Command];

/// The queue that all workers take from.
pub(super) struct Work {
    /// Those whose statements were left for a row.
    called: Shelves<Arc<Seat>>,
    answers: Shelves<(Arc<Seat>, Result<(), SqlError>)>,
    commands: Shelves<Arc<Seat>>,
    /// What has come.
    came: u64,
    /// The home that is looked at next, for what has waited long there.
    look_at: usize,
}

impl Work {
    pub(super) fn new(homes: u32) -> Work {
        Work {
            called: Shelves::new(homes),
            answers: Shelves::new(homes),
            commands: Shelves::new(homes),
            came: 0,
            look_at: 0,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.called.len() == 0 && self.answers.len() == 0 && self.commands.len() == 0
    }

    /// Statements that were left for a row and need not wait any more.
    pub(super) fn called(&self) -> usize {
        self.called.len()
    }

    pub(super) fn answers(&self) -> usize {
        self.answers.len()
    }

    pub(super) fn commands(&self) -> usize {
        self.commands.len()
    }

    pub(super) fn put_called(&mut self, seat: Arc<Seat>) {
        self.came += 1;
        self.called.put(seat.home(), self.came, seat);
    }

    pub(super) fn put_answer(&mut self, seat: Arc<Seat>, outcome: Result<(), SqlError>) {
        self.came += 1;
        self.answers.put(seat.home(), self.came, (seat, outcome));
    }

    pub(super) fn put_command(&mut self, seat: Arc<Seat>) {
        self.came += 1;
        self.commands.put(seat.home(), self.came, seat);
    }

    /// Whether there is something, and all of it at home elsewhere than `here`.
    pub(super) fn is_far_only(&self, here: Option<u32>) -> bool {
        let here = here.map(|here| here as usize);
        !self.is_empty() && KINDS.iter().all(|&kind| self.near(kind, here).is_none())
    }

    /// What is at home `here`, or nowhere, before what is at home elsewhere, unless that has waited
    /// much longer. No command where the log is to be written before (`overdue`).
    pub(super) fn next(&mut self, overdue: bool, here: Option<u32>) -> Option<Item> {
        let here = here.map(|here| here as usize);
        let kinds = if overdue { &KINDS[..2] } else { &KINDS[..] };
        let near = kinds.iter().find_map(|&kind| Some((kind, self.near(kind, here)?)));
        if let Some((kind, came)) = near {
            return match self.late(kinds, came) {
                Some((kind, home)) => self.take_from(kind, home),
                None => self.take_near(kind, here),
            };
        }
        let from = here.map_or(0, |here| here + 1);
        let (kind, home) = kinds.iter().find_map(|&kind| Some((kind, self.far(kind, from)?)))?;
        self.take_from(kind, home)
    }

    /// Of the home whose turn it is, what came there first, where that is long before `came`.
    fn late(&mut self, kinds: &[Kind], came: u64) -> Option<(Kind, usize)> {
        if self.called.at_homes + self.answers.at_homes + self.commands.at_homes == 0 {
            return None;
        }
        let home = self.look_at;
        self.look_at = (home + 1) % self.commands.homes.len();
        let first = kinds.iter().filter_map(|&kind| Some((self.first(kind, home)?, kind))).min();
        first.filter(|(first, _)| first + LATE < came).map(|(_, kind)| (kind, home))
    }

    fn near(&self, kind: Kind, here: Option<usize>) -> Option<u64> {
        let near = match kind {
            Kind::Called => self.called.near(here),
            Kind::Answer => self.answers.near(here),
            Kind::Command => self.commands.near(here),
        };
        near.map(|(came, _)| came)
    }

    fn first(&self, kind: Kind, home: usize) -> Option<u64> {
        match kind {
            Kind::Called => self.called.first(home),
            Kind::Answer => self.answers.first(home),
            Kind::Command => self.commands.first(home),
        }
    }

    fn far(&self, kind: Kind, from: usize) -> Option<usize> {
        match kind {
            Kind::Called => self.called.far(from),
            Kind::Answer => self.answers.far(from),
            Kind::Command => self.commands.far(from),
        }
    }

    fn take_near(&mut self, kind: Kind, here: Option<usize>) -> Option<Item> {
        match kind {
            Kind::Called => self.called.take_near(here).map(Item::Command),
            Kind::Answer => self.answers.take_near(here).map(answer),
            Kind::Command => self.commands.take_near(here).map(Item::Command),
        }
    }

    fn take_from(&mut self, kind: Kind, home: usize) -> Option<Item> {
        match kind {
            Kind::Called => self.called.take_from(home).map(Item::Command),
            Kind::Answer => self.answers.take_from(home).map(answer),
            Kind::Command => self.commands.take_from(home).map(Item::Command),
        }
    }
}

fn answer((seat, outcome): (Arc<Seat>, Result<(), SqlError>)) -> Item {
    Item::Answer(seat, outcome)
}

#[cfg(test)]
mod tests {
    use spillway_base::rng::Rng;

    use super::super::seat::Sitting;
    use super::*;

    fn seat(id: u64, home: Option<u32>) -> Arc<Seat> {
        let seat = Seat::new(id, Sitting::Gone);
        if let Some(home) = home {
            while seat.home() != Some(home) {
                seat.visited(home);
            }
        }
        Arc::new(seat)
    }

    fn id(item: Option<Item>) -> Option<u64> {
        item.map(|item| match item {
            Item::Answer(seat, _) | Item::Command(seat) => seat.id,
        })
    }

    #[test]
    fn without_homes_calls_come_first_and_then_answers_and_each_in_its_order() {
        let mut work = Work::new(0);
        for at in 0..2 {
            work.put_command(seat(at, Some(1)));
            work.put_answer(seat(10 + at, None), Ok(()));
            work.put_called(seat(20 + at, None));
        }
        assert_eq!((work.called(), work.answers(), work.is_empty()), (2, 2, false));
        let order: Vec<_> = (0..4).map(|_| id(work.next(true, None)).unwrap()).collect();
        assert_eq!(order, [20, 21, 10, 11]);
        assert_eq!(id(work.next(true, None)), None, "the log is to be written before");
        assert_eq!([0, 0, 0].map(|_| id(work.next(false, Some(0)))), [Some(0), Some(1), None]);
        assert!(work.is_empty());
    }

    /// S2, and what is preferred.
    #[test]
    fn s2_what_is_near_comes_first_and_what_is_far_before_nothing() {
        let mut work = Work::new(3);
        work.put_command(seat(1, Some(1)));
        work.put_command(seat(2, Some(2)));
        work.put_command(seat(3, None));
        work.put_command(seat(4, Some(2)));
        work.put_called(seat(5, Some(0)));
        work.put_answer(seat(6, Some(2)), Ok(()));
        let mut order = Vec::new();
        while let Some(item) = id(work.next(false, Some(2))) {
            order.push(item);
            assert_eq!(work.is_far_only(Some(2)), [4, 5].contains(&order.len()), "{order:?}");
        }
        // Of its own and nobody's: the answer, and commands as they came. Then the call that others
        // wait for, and the rest.
        assert_eq!(order, [6, 2, 3, 4, 5, 1]);
        assert!(work.is_empty() && work.next(false, Some(2)).is_none());
        // Whoever has no home takes what is nobody's first, and everybody's then.
        for (id, home) in [(1, Some(1)), (2, None), (3, Some(2))] {
            work.put_command(seat(id, home));
        }
        assert_eq!([0; 4].map(|_| id(work.next(false, None))), [Some(2), Some(1), Some(3), None]);
    }

    /// S3: a home whose worker never comes, beside others who never have nothing.
    #[test]
    fn s3_what_has_waited_long_is_taken_by_whoever_comes() {
        let mut work = Work::new(4);
        for late in 0..5 {
            work.put_command(seat(late, Some(3)));
        }
        work.put_called(seat(5, Some(3)));
        let (own, nobodys) = (seat(100, Some(0)), seat(100, None));
        let mut seen = Vec::new();
        let mut turns = 0;
        while seen.len() < 6 {
            work.put_command(own.clone());
            work.put_command(nobodys.clone());
            seen.extend(id(work.next(false, Some(0))).filter(|&id| id != 100));
            turns += 1;
            assert!(seen.is_empty() || turns > LATE / 2, "{seen:?} after {turns}");
            assert!(turns < LATE + 4 * 7, "{seen:?} after {turns}");
        }
        assert_eq!(seen, [0, 1, 2, 3, 4, 5]);
        // Not before the log is written, where that is to be first.
        let mut work = Work::new(4);
        work.put_command(seat(7, Some(3)));
        for _ in 0..2 * LATE {
            work.put_answer(own.clone(), Ok(()));
            assert_eq!(id(work.next(true, Some(0))), Some(100));
        }
    }

    /// S1, S2, S3: whoever takes and whatever comes, each is given once, in its order among its
    /// like, and soon.
    #[test]
    fn s1_everything_is_given_once_whoever_takes_it() {
        const HOMES: u64 = 3;
        let mut rng = Rng::new(7);
        let home = |shelf: u64| (shelf < HOMES).then_some(shelf as u32);
        let seats: Vec<_> = (0..=HOMES).map(|shelf| seat(shelf, home(shelf))).collect();
        let mut work = Work::new(HOMES as u32);
        // By shelf: how much had been taken when each came, and how much was before it.
        let mut waiting: Vec<VecDeque<(u64, u64)>> = vec![VecDeque::new(); seats.len()];
        let mut taken = 0;
        let mut longest = 0;
        for turn in 0..40_000 {
            let all = waiting.iter().map(VecDeque::len).sum::<usize>() as u64;
            // In waves, so that the queue is empty at times.
            let busy = (turn / 1000) % 2 == 0;
            if rng.below(10) < if busy { 6 } else { 4 } {
                let shelf = rng.below(HOMES + 1) as usize;
                work.put_command(seats[shelf].clone());
                waiting[shelf].push_back((taken, all));
                continue;
            }
            let here = [None, Some(0), Some(1)][rng.below(3) as usize];
            let Some(shelf) = id(work.next(false, here)) else {
                assert_eq!(all, 0, "something is ready");
                continue;
            };
            let (came, before) = waiting[shelf as usize].pop_front().expect("it was not there");
            assert!(taken - came <= before + LATE + HOMES * (before + 1), "{}", taken - came);
            longest = longest.max(taken - came);
            taken += 1;
        }
        assert!(longest > LATE, "nothing was ever late");
        while let Some(shelf) = id(work.next(false, None)) {
            assert!(waiting[shelf as usize].pop_front().is_some());
        }
        assert!(waiting.iter().all(VecDeque::is_empty) && work.is_empty());
    }
}
