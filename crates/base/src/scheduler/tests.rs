//! One process runs one history at a time, so tests wait for each other; a history that is to fail
//! runs in a process of its own.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use super::atomic::AtomicU64 as Scheduled;
use super::lock::{Condvar as ScheduledCondvar, Mutex as ScheduledMutex, RwLock};
use super::*;
use crate::clock::{self, Clock};
use crate::thread;

static ONE: Mutex<()> = Mutex::new(());

fn plan(seed: u64) -> Plan {
    Plan {
        seed,
        steps_max: 1_000_000,
        time_max: Duration::from_secs(1_000_000),
        operation_max: Duration::ZERO,
        stacks: false,
    }
}

/// Runs a history while no other history runs.
fn run_alone<T>(seed: u64, body: impl FnOnce() -> T) -> (T, Ran) {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    run(plan(seed), body)
}

/// The order in which three tasks add their letters, three each.
fn letters(seed: u64) -> (String, Ran) {
    run_alone(seed, || {
        let text = ScheduledMutex::new(String::new());
        thread::together(3, |number| {
            for _ in 0..3 {
                text.lock().push(['a', 'b', 'c'][number]);
            }
        });
        text.into_inner()
    })
}

#[test]
fn sched_1_a_seed_fixes_the_order() {
    let orders: Vec<_> = (0..40).map(letters).collect();
    for (seed, (text, ran)) in (0..).zip(&orders) {
        let (again, ran_again) = letters(seed);
        assert_eq!((text, ran.trace, ran.steps), (&again, ran_again.trace, ran_again.steps));
    }
    let different: BTreeSet<&String> = orders.iter().map(|(text, _)| text).collect();
    assert!(different.len() > 10, "{different:?}");
}

/// The final value of a counter to which two tasks add twice each, by a load and a store, after the
/// root task has read the counter `looks` times.
fn counted_after(looks: u64, seed: u64) -> u64 {
    let counter = Scheduled::new(0);
    run_alone(seed, || {
        for _ in 0..looks {
            let _ = counter.load(Ordering::SeqCst);
        }
        thread::together(2, |_| {
            for _ in 0..2 {
                let value = counter.load(Ordering::SeqCst);
                counter.store(value + 1, Ordering::SeqCst);
            }
        });
    });
    counter.into_inner()
}

#[test]
fn sched_2_every_point_may_be_where_another_task_runs() {
    let found: BTreeSet<u64> = (0..200).map(|seed| counted_after(0, seed)).collect();
    assert_eq!(found, BTreeSet::from([2, 3, 4]));
}

/// The scheduling points of a task that is alone do not use up the short distances.
#[test]
fn sched_2_races_after_a_task_was_alone_for_long_are_as_frequent() {
    let races = |looks: u64| (0..400).filter(|seed| counted_after(looks, *seed) < 4).count() as f64;
    let (at_once, later) = (races(0), races(200_000));
    assert!(later > 0.7 * at_once, "{later} of {at_once} races are left");
}

/// No distance has most of the points: two tasks that run for long still alternate often.
#[test]
fn sched_2_short_distances_recur() {
    let switches = |seed| {
        let counter = Scheduled::new(0);
        let ((), ran) = run_alone(seed, || {
            thread::together(2, |_| {
                (0..50_000).for_each(|_| _ = counter.fetch_add(1, Ordering::SeqCst));
            });
        });
        ran.switches
    };
    let all: u64 = (0..20).map(switches).sum();
    assert!(all > 5_000, "{all} switches at two million points");
}

#[test]
fn sched_2_locks_keep_others_out() {
    for seed in 0..100 {
        let (mutex, lock) = (ScheduledMutex::new(0), RwLock::new(0));
        run_alone(seed, || {
            thread::together(3, |_| {
                for _ in 0..3 {
                    let mut held = mutex.lock();
                    let value = *held;
                    point();
                    *held = value + 1;
                    drop(held);
                    let before = *lock.read();
                    let mut held = lock.write();
                    assert!(*held >= before);
                    let value = *held;
                    point();
                    *held = value + 1;
                }
            });
        });
        assert_eq!((mutex.into_inner(), lock.into_inner()), (9, 9), "seed {seed}");
    }
}

#[test]
fn sched_3_time_passes_where_all_wait_for_it() {
    let hours = |hours: u64| Duration::from_secs(3600 * hours);
    let (woken, ran) = run_alone(1, || {
        let began = clock::now();
        let woken = ScheduledMutex::new(Vec::new());
        thread::together(3, |number| {
            let sleep = [hours(3), hours(1), hours(2)][number];
            Clock::system().sleep(sleep);
            woken.lock().push((number, clock::now() - began));
        });
        woken.into_inner()
    });
    assert_eq!(woken, [(1, hours(1)), (2, hours(2)), (0, hours(3))]);
    assert!((hours(3)..hours(4)).contains(&ran.time));
}

#[test]
fn sched_3_a_wait_ends_with_a_notification_or_its_time() {
    for seed in 0..50 {
        let (ends, _) = run_alone(seed, || {
            let (ready, changed) = (ScheduledMutex::new(false), ScheduledCondvar::new());
            let ends = ScheduledMutex::new(Vec::new());
            thread::together(2, |number| {
                if number == 1 {
                    Clock::system().sleep(Duration::from_millis(5));
                    *ready.lock() = true;
                    changed.notify_one();
                    return;
                }
                let mut held = ready.lock();
                let short = changed.wait_for(&mut held, Duration::from_millis(1));
                let long = changed.wait_for(&mut held, Duration::from_millis(60));
                ends.lock().extend([short.timed_out(), long.timed_out(), *held]);
            });
            ends.into_inner()
        });
        assert_eq!(ends, [true, false, true], "seed {seed}");
    }
}

#[test]
fn sched_3_a_wait_for_steps_ends_in_the_midst_of_others() {
    let mut seen = BTreeSet::new();
    for seed in 0..50 {
        let counter = Scheduled::new(0);
        let (at, _) = run_alone(seed, || {
            let at = ScheduledMutex::new(0);
            thread::together(2, |number| {
                if number == 0 {
                    wait_steps(50);
                    *at.lock() = counter.load(Ordering::SeqCst);
                    return;
                }
                for _ in 0..100 {
                    counter.fetch_add(1, Ordering::SeqCst);
                }
            });
            at.into_inner()
        });
        seen.insert(at);
    }
    assert!(seen.iter().any(|at| (1..100).contains(at)), "{seen:?}");
}

/// Runs a test of this module in its own process, where it must fail, and returns what it printed.
fn failing(test: &str) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "--nocapture", &format!("scheduler::tests::{test}")]);
    let output = command.env("SPILLWAY_FAILS", "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(FAILED), "{text}");
    text
}

/// Whether this process is one that must fail.
fn fails() -> bool {
    std::env::var_os("SPILLWAY_FAILS").is_some()
}

#[test]
fn sched_4_tasks_that_wait_for_ever_fail_the_history() {
    if !fails() {
        let told = failing("sched_4_tasks_that_wait_for_ever_fail_the_history");
        assert!(told.contains("FAILED: every task waits for ever"), "{told}");
        assert_eq!(told.matches("for At(\"a mutex\"").count(), 2, "{told}");
        return;
    }
    // Some order of the two tasks deadlocks.
    for seed in 0..1000 {
        let locks = [ScheduledMutex::new(()), ScheduledMutex::new(())];
        run(plan(seed), || {
            thread::together(2, |number| {
                let _first = locks[number].lock();
                let _second = locks[1 - number].lock();
            });
        });
    }
}

#[test]
fn sched_4_a_history_without_an_end_fails() {
    if !fails() {
        let told = failing("sched_4_a_history_without_an_end_fails");
        assert!(told.contains("FAILED: no end after"), "{told}");
        return;
    }
    let never = Scheduled::new(0);
    run(plan(1), || while never.load(Ordering::SeqCst) == 0 {});
}

#[test]
fn sched_5_a_panic_of_a_task_fails_the_history() {
    if !fails() {
        let told = failing("sched_5_a_panic_of_a_task_fails_the_history");
        assert!(told.contains("FAILED: a task panicked"), "{told}");
        assert!(told.contains("what it says"), "{told}");
        return;
    }
    run(plan(1), || {
        let task = thread::spawn("panics", || panic!("what it says")).unwrap();
        let _ = task.join();
    });
}

/// Threads that are no tasks use the same locks, and really wait.
#[test]
fn threads_that_are_no_tasks_wait_for_each_other() {
    let shared = Arc::new((ScheduledMutex::new(0_u32), ScheduledCondvar::new()));
    let readers = AtomicUsize::new(0);
    let lock = RwLock::new(0);
    thread::together(2, |number| {
        let (turn, changed) = &*shared;
        for round in 0..500 {
            let mut held = turn.lock();
            changed.wait_while(&mut held, |turn| *turn as usize % 2 != number);
            *held += 1;
            changed.notify_all();
            drop(held);
            if round % 2 == number {
                *lock.write() += 1;
            } else {
                readers.fetch_add(usize::from(*lock.read() <= 500), Ordering::SeqCst);
            }
        }
    });
    assert_eq!((*shared.0.lock(), *lock.read(), readers.into_inner()), (1000, 500, 500));
    let (turn, changed) = &*shared;
    let mut held = turn.lock();
    assert!(changed.wait_for(&mut held, Duration::from_millis(1)).timed_out());
    thread::together(1, |_| {
        assert!(turn.try_lock().is_none());
        assert!(turn.try_lock_for(Duration::from_millis(1)).is_none());
    });
    drop(held);
    assert!(turn.try_lock_for(Duration::from_millis(1)).is_some());
}
