use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use parking_lot::Mutex;
use spillway_base::thread;

use super::crew::Crew;
use super::seat::{Seat, Sitting};
use super::timer::Timer;

fn seat() -> Seat {
    Seat::new(1, Sitting::Gone)
}

const LATER: Duration = Duration::from_secs(100);

#[test]
fn a_seat_is_queued_once_and_overlooks_nothing() {
    let seat = seat();
    assert!(!seat.stir(false), "it begins busy");
    assert!(seat.look().stirred);
    assert!(seat.rest(LATER));
    assert_eq!(seat.waits_until(), Some(LATER));
    assert!(seat.stir(false));
    assert!(!seat.stir(false), "it is queued already");
    assert_eq!(seat.waits_until(), None);
    assert!(!seat.rest(LATER), "something came");
    assert!(seat.look().stirred);
    assert!(!seat.look().stirred);
    // The end is told once, and stays.
    seat.stir(true);
    assert!(seat.look().ended && seat.look().ended);
    assert!(seat.rest(LATER) && seat.look().ended);
}

#[test]
fn time_does_not_run_out_for_a_seat_that_is_busy() {
    let seat = seat();
    assert!(!seat.expire() && !seat.is_late(LATER * 2));
    seat.stir(true);
    seat.look();
    assert!(seat.rest(LATER));
    assert!(!seat.is_late(LATER / 2) && seat.is_late(LATER));
    assert!(seat.expire() && !seat.expire());
    let left = seat.look();
    assert!(left.late && left.ended && !left.stirred);
    assert!(!seat.look().late);
}

#[test]
fn a_seat_that_waits_for_a_row_is_queued_once_for_it() {
    let seat = seat();
    // Called before it is left: whoever has it goes on.
    assert!(!seat.call() && !seat.call());
    assert!(!seat.lock(LATER));
    assert!(seat.lock(LATER));
    // What comes from its client waits until it has what it waits for.
    assert!(!seat.stir(true));
    assert!(!seat.is_late(LATER / 2) && seat.is_late(LATER));
    assert!(seat.call() && !seat.call(), "it is queued already");
    assert_eq!(seat.waits_until(), None);
    let left = seat.look();
    assert!(left.stirred && left.ended && !left.late);
    // That it was called meanwhile is not overlooked by the look.
    assert!(!seat.lock(LATER));
    assert!(seat.lock(LATER));
    assert!(seat.expire() && !seat.expire());
    assert!(seat.rest(LATER) && seat.waits_until() == Some(LATER));
}

/// However grants and those who go on meet, each wait is ended by a call, and nobody has a seat
/// beside another.
#[test]
fn calls_from_everywhere_end_every_wait() {
    const WAITS: usize = 5_000;
    let seat = seat();
    let (granted, asked, queued) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    thread::together(3, |number| {
        if number == 0 {
            for wait in 1..=WAITS {
                asked.store(wait, SeqCst);
                while granted.load(SeqCst) < wait {
                    if seat.lock(LATER) {
                        while queued.swap(0, SeqCst) == 0 {
                            std::thread::yield_now();
                        }
                    }
                }
            }
            return;
        }
        for wait in (number..=WAITS).step_by(2) {
            while asked.load(SeqCst) < wait {
                std::thread::yield_now();
            }
            granted.store(wait, SeqCst);
            if seat.call() {
                assert_eq!(queued.swap(1, SeqCst), 0, "another has it");
            }
        }
    });
}

/// One worker at a time, and after the last stir always one more look.
#[test]
fn stirs_from_everywhere_are_all_seen_by_one_at_a_time() {
    let seat = seat();
    seat.rest(LATER);
    let (told, seen, inside) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(()));
    thread::together(4, |_| {
        for _ in 0..5_000 {
            told.fetch_add(1, SeqCst);
            if seat.stir(false) {
                loop {
                    let alone = inside.try_lock().expect("another has it");
                    seat.look();
                    seen.store(told.load(SeqCst), SeqCst);
                    drop(alone);
                    if seat.rest(LATER) {
                        break;
                    }
                }
            }
        }
    });
    assert_eq!(seen.into_inner(), 20_000);
    assert_eq!(seat.waits_until(), Some(LATER));
}

#[test]
fn the_timer_is_woken_for_whoever_waits_for_less_than_was_known() {
    let timer = Timer::new().unwrap();
    let rung = || rustix::io::read(timer.alarm(), &mut [0; 8]).is_ok();
    timer.note(LATER);
    assert!(rung() && !rung());
    timer.note(LATER * 2);
    assert!(!rung());
    timer.note(LATER / 2);
    assert!(rung());
    // One who was overlooked, because it came to wait only now.
    let next = timer.sweep(|| {
        timer.note(LATER * 2);
        Some(LATER * 3)
    });
    assert_eq!(next, Some(LATER * 2));
    assert_eq!(timer.sweep(|| None), None);
    timer.note(LATER);
    assert!(rung());
}

#[test]
fn whoever_waits_is_replaced_and_those_too_many_rest() {
    let crew = Crew::new(1);
    let started = AtomicUsize::new(0);
    let call = || {
        crew.call(|| {
            started.fetch_add(1, SeqCst);
            thread::spawn("nobody", || ())
        })
        .unwrap();
    };
    assert!(crew.is_short());
    call();
    assert!(!crew.is_short());
    call();
    assert_eq!(started.load(SeqCst), 1, "there is no place for another");
    crew.leave();
    assert!(crew.is_short());
    call();
    assert_eq!(started.load(SeqCst), 2);
    crew.come_back();
    assert!(crew.is_over());
    // The one too many rests until it is called; nobody is started for that.
    thread::together(2, |number| {
        if number == 0 {
            let rests = Cell::new(false);
            assert!(crew.stays(|| rests.set(true)) && rests.get());
        } else {
            while crew.is_over() {
                std::thread::yield_now();
            }
            crew.leave();
            // It is spare only after it counts as such.
            while crew.spare() == 0 {
                std::thread::yield_now();
            }
            call();
        }
    });
    assert_eq!(started.load(SeqCst), 2);
    // Who sleeps sees what comes.
    crew.leave();
    crew.sleepers.sleep(|| true, || assert!(!crew.is_short()));
    assert!(crew.is_short());
    crew.end();
    assert!(!crew.stays(|| ()) && !crew.goes_on());
    call();
    assert_eq!(started.load(SeqCst), 2, "nobody is started at the end");
}

/// As one does where another listens and little is to be done.
#[test]
fn one_that_steps_back_does_not_run_until_it_is_called() {
    let crew = Crew::new(2);
    let nobody = || thread::spawn("nobody", || ());
    crew.call(nobody).unwrap();
    assert!(crew.is_alone() && crew.is_short());
    crew.call(nobody).unwrap();
    // Who slept has got up, and found none missing while this one ran.
    assert!(crew.steps_back(|| unreachable!("nobody would see what comes")));
    assert!(!crew.is_alone() && !crew.is_short(), "it counts as before");
    thread::together(2, |number| {
        if number == 0 {
            while crew.sleeping() == 0 {
                std::thread::yield_now();
            }
            assert!(!crew.is_alone() && !crew.is_short());
            let rests = Cell::new(false);
            assert!(crew.steps_back(|| rests.set(true)) && rests.get());
            return;
        }
        let until_the_other_rests = || {
            while crew.spare() == 0 {
                std::thread::yield_now();
            }
            assert!(!crew.is_alone() && !crew.is_short(), "this one sees what comes");
        };
        crew.sleepers.sleep(|| true, until_the_other_rests);
        assert!(crew.is_alone() && crew.is_short());
        crew.call(|| unreachable!("there is a spare one")).unwrap();
    });
    assert_eq!(crew.spare(), 0);
    assert!(!crew.is_alone() && !crew.is_short());
    crew.end();
    assert!(!crew.steps_back(|| ()), "it is the end");
}
