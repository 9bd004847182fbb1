//! The wake-ups of background threads, and of callers that wait until a job has made room.
//!
//! - **WAKEUP-1 (none is lost).** A background thread reads the number of announcements of work
//!   before its job ([`Wakeups::announced`]). If work is announced during the job, the thread does
//!   not sleep after it.
//! - **WAKEUP-2 (stop).** A thread whose job ends after [`Wakeups::stop`] begins no other job.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use spillway_base::lock::{Condvar, Mutex};

/// Wakes background threads and callers that wait for room.
#[derive(Default)]
pub(super) struct Wakeups {
    state: Mutex<WakeupState>,
    work: Condvar,
    room: Condvar,
    /// The number of running groups of background threads.
    groups: AtomicUsize,
}

#[derive(Default)]
struct WakeupState {
    /// The number of announcements of work.
    announced: u64,
    stop: bool,
}

/// What a background thread does after a job.
pub(super) enum Turn {
    /// It runs the next job at once.
    Work,
    /// It sleeps for this time, unless work is announced.
    Sleep(Duration),
    /// It ends.
    End,
}

impl Wakeups {
    /// Wakes the background threads for new work.
    pub(super) fn announce_work(&self) {
        self.state.lock().announced += 1;
        self.work.notify_all();
    }

    /// Wakes the background threads to look at the engine's health.
    pub(super) fn wake_threads(&self) {
        self.work.notify_all();
    }

    /// Wakes the callers that wait for room.
    pub(super) fn announce_room(&self) {
        self.room.notify_all();
    }

    /// The number of announcements of work.
    pub(super) fn announced(&self) -> u64 {
        self.state.lock().announced
    }

    /// Waits until a job may have made room, at most for this time. `false` if the time ended the
    /// wait.
    pub(super) fn wait_for_room(&self, time: Duration) -> bool {
        let mut state = self.state.lock();
        !self.room.wait_for(&mut state, time).timed_out()
    }

    /// As [`Wakeups::wait_for_room`], but returns `false` at once if the threads must stop, or if
    /// the work `ends`.
    pub(super) fn doze(&self, time: Duration, ends: impl FnOnce() -> bool) -> bool {
        let mut state = self.state.lock();
        if state.stop || ends() {
            return false;
        }
        self.room.wait_for(&mut state, time);
        true
    }

    /// Ends the turn of a background thread. `announced` is the number of announcements before its
    /// job. `next` is called with whether work was announced since. Returns whether the thread goes
    /// on.
    pub(super) fn end_turn(&self, announced: u64, next: impl FnOnce(bool) -> Turn) -> bool {
        let mut state = self.state.lock();
        if state.stop {
            return false;
        }
        match next(state.announced != announced) {
            Turn::Work => true,
            Turn::Sleep(time) => {
                self.work.wait_for(&mut state, time);
                true
            }
            Turn::End => false,
        }
    }

    /// Counts a group of background threads.
    pub(super) fn add_group(&self) {
        self.groups.fetch_add(1, Ordering::AcqRel);
    }

    /// Uncounts a group of background threads.
    pub(super) fn remove_group(&self) {
        self.groups.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether there are no background threads. Then callers do the work, as in a simulation.
    pub(super) fn is_alone(&self) -> bool {
        self.groups.load(Ordering::Acquire) == 0
    }

    /// Stops the background threads after their current jobs, and calls `join` to wait for them.
    pub(super) fn stop(&self, join: impl FnOnce()) {
        self.state.lock().stop = true;
        self.remove_group();
        self.work.notify_all();
        join();
        self.state.lock().stop = false;
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn wakeup_1_work_that_was_announced_during_a_job_is_seen_after_it() {
        let wakeups = Wakeups::default();
        let before = wakeups.announced();
        let sleeps_unless = |is_announced| if is_announced { Turn::Work } else { Turn::End };
        assert!(!wakeups.end_turn(before, sleeps_unless));
        wakeups.announce_work();
        assert!(wakeups.end_turn(before, sleeps_unless));
        assert!(!wakeups.end_turn(wakeups.announced(), sleeps_unless));
    }

    #[test]
    fn wakeup_2_a_thread_that_must_stop_neither_works_nor_sleeps() {
        let wakeups = Wakeups::default();
        wakeups.add_group();
        assert!(!wakeups.is_alone());
        wakeups.stop(|| {
            assert!(wakeups.is_alone());
            assert!(!wakeups.end_turn(0, |_| Turn::Work));
            assert!(!wakeups.end_turn(0, |_| Turn::Sleep(LONG)));
            assert!(!wakeups.doze(LONG, || false));
        });
        assert!(wakeups.end_turn(0, |_| Turn::Work));
        assert!(!wakeups.doze(LONG, || true), "its work ends");
    }
}
