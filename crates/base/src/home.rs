//! The home core of the data that a thread has just used.
//!
//! An owner of data in parts gives each part a [`Place`], and reports each use ([`Place::touch`]).
//! A runner of work that may use data, which prefers to run similar work on one of several cores,
//! asks where the uses went ([`within`]): each place has one of those cores as its home. Neither
//! knows the other. A use that nobody asks about costs one read of a thread-local word.
//!
//! - **Z1.** For a number of cores, a place has one home, the same for every caller, and after a
//!   restart; there is no table of homes.
//! - **Z2.** Of places numbered one after another, and of every second or third of them, each core
//!   is the home of its share, within a few.
//! - **Z3.** [`within`] returns the uses by its own thread during its own call.

use std::cell::Cell;

/// A part of the data, by a number. Parts that have the same have the same home.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place(pub u32);

/// Where something went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Touched {
    /// It used no place.
    Nothing,
    /// All it used is at home on this core.
    One(u32),
    /// What it used is at home on several, the first of it on this one.
    Several(u32),
}

/// What a thread has used since it was asked to keep it in mind.
#[derive(Clone, Copy)]
struct Heard {
    /// How many cores there are; none where nobody asks.
    cores: u32,
    touched: Touched,
}

const UNASKED: Heard = Heard { cores: 0, touched: Touched::Nothing };

thread_local! {
    static HEARD: Cell<Heard> = const { Cell::new(UNASKED) };
}

impl Place {
    /// Its home among `cores`: a multiple of the golden section, so that any few places in a row
    /// are spread evenly.
    #[must_use]
    pub fn home(self, cores: u32) -> u32 {
        let part = self.0.wrapping_mul(0x9E37_79B9);
        ((u64::from(part) * u64::from(cores)) >> 32) as u32
    }

    /// The calling thread uses it.
    #[inline]
    pub fn touch(self) {
        let heard = HEARD.get();
        if heard.cores > 0 {
            self.hear(heard);
        }
    }

    /// Whether somebody asks the calling thread which places it uses.
    #[inline]
    #[must_use]
    pub fn is_asked_for() -> bool {
        HEARD.get().cores > 0
    }

    fn hear(self, heard: Heard) {
        let home = self.home(heard.cores);
        let touched = match heard.touched {
            Touched::Nothing => Touched::One(home),
            Touched::One(before) if before == home => return,
            Touched::One(first) | Touched::Several(first) => Touched::Several(first),
        };
        HEARD.set(Heard { touched, ..heard });
    }
}

/// Runs something, and answers where the data that it used is at home among `cores`; nothing is
/// kept in mind where those are none. Calls are not within each other.
pub fn within<T>(cores: u32, act: impl FnOnce() -> T) -> (T, Touched) {
    /// Forgets, however it ends.
    struct Forget;
    impl Drop for Forget {
        fn drop(&mut self) {
            HEARD.set(UNASKED);
        }
    }
    HEARD.set(Heard { cores, ..UNASKED });
    let _forget = Forget;
    let done = act();
    (done, HEARD.get().touched)
}

#[cfg(test)]
mod tests {
    use std::panic::{catch_unwind, resume_unwind};

    use super::*;
    use crate::thread;

    /// Z1, Z2.
    #[test]
    fn every_core_is_the_home_of_its_share() {
        for cores in 1..=64 {
            for step in 1..=3 {
                let mut shares = vec![0; cores as usize];
                let places = 16 * cores;
                for at in 0..places {
                    let place = Place(1000 + at * step);
                    assert_eq!(place.home(cores), place.home(cores));
                    shares[place.home(cores) as usize] += 1;
                }
                let off = shares.iter().map(|share: &i32| (share - 16).abs()).max().unwrap();
                assert!(off <= 4, "{cores} cores, step {step}: {shares:?}");
            }
        }
    }

    /// Z3.
    #[test]
    fn only_what_a_thread_uses_meanwhile_is_told() {
        let at = |home| (0..).map(Place).find(|place| place.home(4) == home).unwrap();
        at(1).touch();
        assert_eq!(within(4, || ()).1, Touched::Nothing);
        assert_eq!(within(4, || at(2).touch()), ((), Touched::One(2)));
        assert_eq!(within(4, || (at(2).touch(), at(2).touch()).1).1, Touched::One(2));
        assert_eq!(within(4, || [2, 3, 2].map(|home| at(home).touch())).1, Touched::Several(2));
        assert_eq!(within(0, || at(2).touch()).1, Touched::Nothing, "nobody asks");
        let elsewhere = within(4, || thread::together(1, |_| at(3).touch()));
        assert_eq!(elsewhere.1, Touched::Nothing);
        let failed = catch_unwind(|| within(4, || resume_unwind(Box::new(()))));
        assert!(failed.is_err());
        at(1).touch();
        assert_eq!(HEARD.get().cores, 0);
        assert_eq!(within(4, || ()).1, Touched::Nothing);
    }
}
