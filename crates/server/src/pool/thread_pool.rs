//! Decides how many workers run, and which worker replaces one that waits.
//!
//! A worker *runs*, *waits* within a statement, or is *spare*. A worker becomes spare if too many
//! workers run or no work is left for it, and sleeps until another thread calls it. A running
//! worker may *sleep* in epoll until epoll reports an event. A thread that calls or creates a
//! worker counts this worker as running at once, so two threads do not both start a worker for the
//! same place.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use spillway_base::Result;
use spillway_base::sleepers::Sleepers;
use spillway_base::thread::JoinHandle;

/// A spare worker ends if it was not called for this time.
const SPARE_FOR: Duration = Duration::from_secs(10);

#[derive(Default)]
struct ThreadPoolState {
    spare: usize,
    /// The spare workers that were called and have not woken yet.
    called: usize,
    ending: bool,
    threads: Vec<JoinHandle<()>>,
}

pub(super) struct ThreadPool {
    most: usize,
    /// The additional workers that may run, because all others run long statements.
    extra: AtomicUsize,
    running: AtomicUsize,
    pub(super) sleepers: Sleepers,
    waiting: AtomicUsize,
    /// A copy of `state.ending` that is read without the lock.
    ending: std::sync::atomic::AtomicBool,
    state: Mutex<ThreadPoolState>,
    call: Condvar,
}

impl ThreadPool {
    pub(super) fn new(most: usize) -> ThreadPool {
        ThreadPool {
            most: most.max(1),
            extra: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            sleepers: Sleepers::new(),
            waiting: AtomicUsize::new(0),
            ending: false.into(),
            state: Mutex::default(),
            call: Condvar::new(),
        }
    }

    /// The number of workers that may run.
    pub(super) fn most(&self) -> usize {
        self.most + self.extra.load(SeqCst)
    }

    /// Allows one more worker than run now. More than the setting may run already, because they
    /// came back from waits.
    pub(super) fn stretch(&self) {
        let extra = (self.running.load(SeqCst) + 1).saturating_sub(self.most);
        self.extra.fetch_max(extra, SeqCst);
    }

    /// Withdraws the additional workers if fewer workers than the setting are at work. Returns
    /// whether there are no additional ones now.
    pub(super) fn shrink(&self) -> bool {
        let at_work = self.running.load(SeqCst).saturating_sub(self.sleeping());
        if at_work < self.most {
            self.extra.store(0, SeqCst);
        }
        self.extra.load(SeqCst) == 0
    }

    pub(super) fn sleeping(&self) -> usize {
        self.sleepers.asleep()
    }

    /// Called when the calling worker begins to wait.
    pub(super) fn leave(&self) {
        self.waiting.fetch_add(1, SeqCst);
        self.running.fetch_sub(1, SeqCst);
    }

    /// Called when the calling worker continues. Then more may run than allowed, until one of them
    /// is idle.
    pub(super) fn come_back(&self) {
        self.running.fetch_add(1, SeqCst);
        self.waiting.fetch_sub(1, SeqCst);
    }

    /// Whether another worker is allowed to run, and none sleeps in epoll.
    pub(super) fn is_short(&self) -> bool {
        self.sleeping() == 0 && self.running.load(SeqCst) < self.most()
    }

    /// Whether exactly `waiting` workers wait, at least one sleeps, and only one is at work.
    pub(super) fn is_one_at_work(&self, waiting: usize) -> bool {
        let sleeping = self.sleeping();
        sleeping > 0
            && self.running.load(SeqCst) == sleeping + 1
            && self.waiting.load(SeqCst) == waiting
    }

    /// Whether all workers wait or are spare.
    pub(super) fn none_runs(&self) -> bool {
        self.running.load(SeqCst) == 0
    }

    /// Whether the calling worker is the only one that runs or waits.
    pub(super) fn is_alone(&self) -> bool {
        self.running.load(SeqCst) == 1 && self.waiting.load(SeqCst) == 0 && self.sleeping() == 0
    }

    /// Whether the pool is not ending.
    pub(super) fn goes_on(&self) -> bool {
        !self.ending.load(SeqCst)
    }

    /// Runs one more worker, if allowed: a spare one, or one that `start` creates.
    pub(super) fn call(&self, start: impl FnOnce() -> Result<JoinHandle<()>>) -> Result<()> {
        let mut state = self.state.lock();
        let place = |running: usize| (running < self.most()).then_some(running + 1);
        if state.ending || self.running.fetch_update(SeqCst, SeqCst, place).is_err() {
            return Ok(());
        }
        if state.spare > state.called {
            state.called += 1;
            drop(state);
            self.call.notify_one();
            return Ok(());
        }
        state.threads.retain(|thread| !thread.is_finished());
        match start() {
            Ok(thread) => state.threads.push(thread),
            Err(error) => {
                self.running.fetch_sub(1, SeqCst);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Whether more workers run than allowed.
    pub(super) fn is_over(&self) -> bool {
        self.running.load(SeqCst) > self.most()
    }

    /// Called by an idle worker. If more workers run than allowed, this one becomes spare until it
    /// is called; it calls `before` once it no longer counts as running. Returns `false` if it must
    /// end.
    pub(super) fn stays(&self, before: impl FnOnce()) -> bool {
        if !self.goes_on() {
            return false;
        }
        let too_many = |running: usize| (running > self.most()).then(|| running - 1);
        if !self.is_over() || self.running.fetch_update(SeqCst, SeqCst, too_many).is_err() {
            return true;
        }
        self.is_spare(before)
    }

    /// Called by an idle worker that is not needed now, because another one sleeps in epoll. It
    /// becomes spare. But if the sleeper has woken meanwhile, it may have seen this worker running
    /// and called no other; then this worker continues.
    pub(super) fn steps_back(&self, before: impl FnOnce()) -> bool {
        self.running.fetch_sub(1, SeqCst);
        if self.sleeping() == 0 {
            self.running.fetch_add(1, SeqCst);
            return self.goes_on();
        }
        self.is_spare(before)
    }

    /// Waits until the worker is called; it no longer counts as running. Returns `false` if it must
    /// end.
    fn is_spare(&self, before: impl FnOnce()) -> bool {
        before();
        let mut state = self.state.lock();
        state.spare += 1;
        let stays = loop {
            if state.ending {
                break false;
            }
            if state.called > 0 {
                state.called -= 1;
                break true;
            }
            let timed_out = self.call.wait_for(&mut state, SPARE_FOR).timed_out();
            if timed_out && state.called == 0 {
                break false;
            }
        };
        state.spare -= 1;
        stays
    }

    /// The number of workers in any state.
    pub(super) fn threads(&self) -> usize {
        self.state.lock().threads.iter().filter(|thread| !thread.is_finished()).count()
    }

    #[cfg(test)]
    pub(super) fn spare(&self) -> usize {
        self.state.lock().spare
    }

    /// Ends all workers, and returns the threads to join.
    pub(super) fn end(&self) -> Vec<JoinHandle<()>> {
        let mut state = self.state.lock();
        state.ending = true;
        self.ending.store(true, SeqCst);
        self.call.notify_all();
        std::mem::take(&mut state.threads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After any number of workers came back from waits, one more may run at once.
    #[test]
    fn one_more_may_run_than_those_who_are_long_at_something() {
        let thread_pool = ThreadPool::new(2);
        let start = || spillway_base::thread::spawn("worker", || ());
        thread_pool.call(start).unwrap();
        for _ in 0..4 {
            thread_pool.leave();
            thread_pool.call(start).unwrap();
        }
        (0..4).for_each(|_| thread_pool.come_back());
        assert!(thread_pool.is_over() && !thread_pool.is_short());
        thread_pool.stretch();
        assert!(thread_pool.most() == 6 && thread_pool.is_short() && !thread_pool.is_over());
        // One more is allowed already.
        thread_pool.stretch();
        assert_eq!(thread_pool.most(), 6);
        thread_pool.leave();
        thread_pool.leave();
        thread_pool.leave();
        thread_pool.leave();
        assert!(thread_pool.shrink() && thread_pool.most() == 2);
        thread_pool.end().into_iter().for_each(|thread| thread.join().unwrap());
    }

    #[test]
    fn one_is_at_work_where_another_sleeps_and_none_waits() {
        let thread_pool = ThreadPool::new(4);
        let start = || spillway_base::thread::spawn("worker", || ());
        thread_pool.call(start).unwrap();
        assert!(!thread_pool.is_one_at_work(0), "nobody would see what comes");
        thread_pool.call(start).unwrap();
        assert!(!thread_pool.is_one_at_work(0), "both are at work");
        let asleep = |then: &dyn Fn()| {
            thread_pool.sleepers.sleep(|| true, then);
        };
        asleep(&|| {
            assert!(thread_pool.is_one_at_work(0));
            thread_pool.call(start).unwrap();
            assert!(!thread_pool.is_one_at_work(0));
            thread_pool.leave();
            assert!(!thread_pool.is_one_at_work(0), "one waits");
            assert!(thread_pool.is_one_at_work(1), "but that is known");
            thread_pool.come_back();
            asleep(&|| assert!(thread_pool.is_one_at_work(0)));
        });
        thread_pool.end().into_iter().for_each(|thread| thread.join().unwrap());
    }
}
