use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use parking_lot::Mutex;
use spillway_base::thread;

use super::connection_slot::{ConnectionSlot, ConnectionState};
use super::thread_pool::ThreadPool;
use super::timer::Timer;

fn connection() -> ConnectionSlot {
    ConnectionSlot::new(1, ConnectionState::Gone)
}

const LATER: Duration = Duration::from_secs(100);

#[test]
fn a_seat_is_queued_once_and_overlooks_nothing() {
    let connection = connection();
    assert!(!connection.stir(false), "it begins busy");
    assert!(connection.look().stirred);
    assert!(connection.rest(LATER));
    assert_eq!(connection.waits_until(), Some(LATER));
    assert!(connection.stir(false));
    assert!(!connection.stir(false), "it is queued already");
    assert_eq!(connection.waits_until(), None);
    assert!(!connection.rest(LATER), "something came");
    assert!(connection.look().stirred);
    assert!(!connection.look().stirred);
    // Epoll reports the end once, and the slot keeps it.
    connection.stir(true);
    assert!(connection.look().ended && connection.look().ended);
    assert!(connection.rest(LATER) && connection.look().ended);
}

#[test]
fn time_does_not_run_out_for_a_seat_that_is_busy() {
    let connection = connection();
    assert!(!connection.expire() && !connection.is_late(LATER * 2));
    connection.stir(true);
    connection.look();
    assert!(connection.rest(LATER));
    assert!(!connection.is_late(LATER / 2) && connection.is_late(LATER));
    assert!(connection.expire() && !connection.expire());
    let left = connection.look();
    assert!(left.late && left.ended && !left.stirred);
    assert!(!connection.look().late);
}

#[test]
fn a_seat_that_waits_for_a_row_is_queued_once_for_it() {
    let connection = connection();
    // The waker is called before the statement is suspended: the worker that holds it continues.
    assert!(!connection.call() && !connection.call());
    assert!(!connection.lock(LATER));
    assert!(connection.lock(LATER));
    // While the statement is suspended, the client's bytes wait.
    assert!(!connection.stir(true));
    assert!(!connection.is_late(LATER / 2) && connection.is_late(LATER));
    assert!(connection.call() && !connection.call(), "it is queued already");
    assert_eq!(connection.waits_until(), None);
    let left = connection.look();
    assert!(left.stirred && left.ended && !left.late);
    // `look` does not lose the call that came meanwhile.
    assert!(!connection.lock(LATER));
    assert!(connection.lock(LATER));
    assert!(connection.expire() && !connection.expire());
    assert!(connection.rest(LATER) && connection.waits_until() == Some(LATER));
}

/// In any order of wakers and continuing workers, a call ends each wait, and no two threads hold a
/// connection.
#[test]
fn calls_from_everywhere_end_every_wait() {
    const WAITS: usize = 5_000;
    let connection = connection();
    let (granted, asked, queued) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    thread::together(3, |number| {
        if number == 0 {
            for wait in 1..=WAITS {
                asked.store(wait, SeqCst);
                while granted.load(SeqCst) < wait {
                    if connection.lock(LATER) {
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
            if connection.call() {
                assert_eq!(queued.swap(1, SeqCst), 0, "another has it");
            }
        }
    });
}

/// One worker at a time holds the connection, and after the last event there is always one more
/// `look`.
#[test]
fn stirs_from_everywhere_are_all_seen_by_one_at_a_time() {
    let connection = connection();
    connection.rest(LATER);
    let (told, seen, inside) = (AtomicUsize::new(0), AtomicUsize::new(0), Mutex::new(()));
    thread::together(4, |_| {
        for _ in 0..5_000 {
            told.fetch_add(1, SeqCst);
            if connection.stir(false) {
                loop {
                    let alone = inside.try_lock().expect("another has it");
                    connection.look();
                    seen.store(told.load(SeqCst), SeqCst);
                    drop(alone);
                    if connection.rest(LATER) {
                        break;
                    }
                }
            }
        }
    });
    assert_eq!(seen.into_inner(), 20_000);
    assert_eq!(connection.waits_until(), Some(LATER));
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
    // A connection that the sweep missed, because it began to wait after the sweep had looked at
    // it.
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
    let thread_pool = ThreadPool::new(1);
    let started = AtomicUsize::new(0);
    let call = || {
        thread_pool
            .call(|| {
                started.fetch_add(1, SeqCst);
                thread::spawn("nobody", || ())
            })
            .unwrap();
    };
    assert!(thread_pool.is_short());
    call();
    assert!(!thread_pool.is_short());
    call();
    assert_eq!(started.load(SeqCst), 1, "there is no place for another");
    thread_pool.leave();
    assert!(thread_pool.is_short());
    call();
    assert_eq!(started.load(SeqCst), 2);
    thread_pool.come_back();
    assert!(thread_pool.is_over());
    // The surplus worker rests until it is called; no thread is started for that.
    thread::together(2, |number| {
        if number == 0 {
            let rests = Cell::new(false);
            assert!(thread_pool.stays(|| rests.set(true)) && rests.get());
        } else {
            while thread_pool.is_over() {
                std::thread::yield_now();
            }
            thread_pool.leave();
            // Wait until it counts as spare.
            while thread_pool.spare() == 0 {
                std::thread::yield_now();
            }
            call();
        }
    });
    assert_eq!(started.load(SeqCst), 2);
    // A sleeper sees events.
    thread_pool.leave();
    thread_pool.sleepers.sleep(|| true, || assert!(!thread_pool.is_short()));
    assert!(thread_pool.is_short());
    thread_pool.end();
    assert!(!thread_pool.stays(|| ()) && !thread_pool.goes_on());
    call();
    assert_eq!(started.load(SeqCst), 2, "nobody is started at the end");
}

/// As a worker does when another one listens and there is little work.
#[test]
fn one_that_steps_back_does_not_run_until_it_is_called() {
    let thread_pool = ThreadPool::new(2);
    let nobody = || thread::spawn("nobody", || ());
    thread_pool.call(nobody).unwrap();
    assert!(thread_pool.is_alone() && thread_pool.is_short());
    thread_pool.call(nobody).unwrap();
    // The sleeper has woken, and saw no need of another worker, because this one was running.
    assert!(thread_pool.steps_back(|| unreachable!("nobody would see what comes")));
    assert!(!thread_pool.is_alone() && !thread_pool.is_short(), "it counts as before");
    thread::together(2, |number| {
        if number == 0 {
            while thread_pool.sleeping() == 0 {
                std::thread::yield_now();
            }
            assert!(!thread_pool.is_alone() && !thread_pool.is_short());
            let rests = Cell::new(false);
            assert!(thread_pool.steps_back(|| rests.set(true)) && rests.get());
            return;
        }
        let until_the_other_rests = || {
            while thread_pool.spare() == 0 {
                std::thread::yield_now();
            }
            assert!(!thread_pool.is_alone() && !thread_pool.is_short(), "this one sees what comes");
        };
        thread_pool.sleepers.sleep(|| true, until_the_other_rests);
        assert!(thread_pool.is_alone() && thread_pool.is_short());
        thread_pool.call(|| unreachable!("there is a spare one")).unwrap();
    });
    assert_eq!(thread_pool.spare(), 0);
    assert!(!thread_pool.is_alone() && !thread_pool.is_short());
    thread_pool.end();
    assert!(!thread_pool.steps_back(|| ()), "it is the end");
}
