//! Loom models of one scan that publishes a gap and one insertion into the gap, in every order of
//! their steps and with every value that a load may return.

use std::sync::Arc;

use spillway_base::budget::Budget;
use spillway_base::sync::model;

use super::*;
use crate::level::Levels;
use crate::memtable::{Accounts, Memtable};
use crate::view::View;

const SNAPSHOT: Csn = Csn(1);

fn view() -> Arc<View> {
    let active = Arc::new(Memtable::new(&Accounts::new(Budget::new(usize::MAX), 0)));
    Arc::new(View { active, immutables: Vec::new(), levels: Arc::new(Levels::default()) })
}

fn gap() -> Gap {
    let key = |key: &[u8]| -> Box<[u8]> { key.into() };
    Gap { start: key(b"a"), end: key(b"z"), first: key(b"a"), csn: SNAPSHOT, walked: 1000 }
}

/// What happens between the begin of the trial and the second look.
type Between = fn(&Memtable) -> bool;

/// TOMBSTONE-SKIP-1, TOMBSTONE-SKIP-2: when both threads are done, the value is in no gap.
fn one_sees_the_other(between: Between) {
    model(3, move || {
        let (gaps, view) = (Arc::new(TombstoneSkip::new(true, Arc::default())), view());
        let (of_writer, into) = (gaps.clone(), view.clone());
        let writer = loom::thread::spawn(move || {
            // As `SubTable::insert` does.
            let inside = into.active.enter().expect("nobody seals it");
            into.active.insert(&inside, b"k", Csn(2), Some(b"row"));
            of_writer.cut(b"k");
        });
        gaps.publish(gap(), |act| {
            // As `SubTable::view_after` does.
            (act() && between(&view.active)).then(|| view.clone())
        });
        writer.join().unwrap();
        assert!(gaps.over(b"k", Csn(2)).is_none(), "a row is in a gap");
    });
}

#[test]
fn loom_tombstone_skip_1_a_value_is_seen_by_the_second_look_or_sees_the_trial() {
    one_sees_the_other(Memtable::passed);
}

/// The model detects the fault.
#[test]
#[should_panic(expected = "a row is in a gap")]
fn loom_without_passing_the_gate_both_look_too_early() {
    one_sees_the_other(|_| true);
}

/// A reader whose snapshot has the value, because its installation returned before, does not leap
/// over it.
#[test]
fn loom_tombstone_skip_2_who_sees_the_commit_does_not_leap() {
    use spillway_base::sync::atomic::AtomicBool;

    model(3, || {
        let (gaps, view) = (Arc::new(TombstoneSkip::new(true, Arc::default())), view());
        assert!(gaps.publish(gap(), |act| act().then(|| view.clone())));
        let installed = Arc::new(AtomicBool::new(false));
        let (of_writer, into, told) = (gaps.clone(), view.clone(), installed.clone());
        let writer = loom::thread::spawn(move || {
            let inside = into.active.enter().expect("nobody seals it");
            into.active.insert(&inside, b"k", Csn(2), Some(b"row"));
            of_writer.cut(b"k");
            drop(inside);
            told.store(true, Ordering::Release);
        });
        if installed.load(Ordering::Acquire) {
            assert!(gaps.over(b"k", Csn(2)).is_none());
            assert!(gaps.over(b"b", Csn(2)).is_some(), "what is beside it stays");
        }
        writer.join().unwrap();
    });
}
