//! Executes operations on a few threads, if the system has no `io_uring`.

use std::collections::VecDeque;
use std::sync::Arc;

use spillway_base::lock::{Condvar, Mutex};
use spillway_base::thread::JoinHandle;
use spillway_base::{Result, thread};

use super::carrier::Carrier;
use super::operation::Operation;

/// The most threads of one queue. Few devices are faster with more concurrent transfers, and a
/// database has several queues.
const THREADS_MAX: usize = 8;

/// A piece of work that a thread runs to its end.
pub(super) trait Job: Send + 'static {
    /// Runs it.
    fn run(&mut self);
}

impl Job for Operation {
    fn run(&mut self) {
        while !self.is_over() {
            let moved = self.step();
            self.advance(moved);
        }
    }
}

/// Threads that run jobs, up to a maximum at once, in the order submitted.
pub(super) struct Threads<J> {
    shared: Arc<Shared<J>>,
    threads: Vec<JoinHandle<()>>,
    threads_max: usize,
    /// Jobs that were submitted and not taken back.
    jobs: usize,
}

struct Shared<J> {
    state: Mutex<ThreadsState<J>>,
    /// Signals a job, or the end.
    given: Condvar,
    /// Signals a finished job.
    finished: Condvar,
}

struct ThreadsState<J> {
    waiting: VecDeque<J>,
    finished: VecDeque<J>,
    ends: bool,
}

impl<J: Job> Threads<J> {
    /// Threads for this many concurrent jobs. Only the first is started now.
    pub(super) fn new(jobs: usize) -> Result<Threads<J>> {
        let state =
            ThreadsState { waiting: VecDeque::new(), finished: VecDeque::new(), ends: false };
        let shared =
            Shared { state: Mutex::new(state), given: Condvar::new(), finished: Condvar::new() };
        let (shared, threads_max) = (Arc::new(shared), jobs.min(THREADS_MAX));
        let first = start(&shared)?;
        Ok(Threads { shared, threads: vec![first], threads_max, jobs: 0 })
    }
}

fn start<J: Job>(shared: &Arc<Shared<J>>) -> Result<JoinHandle<()>> {
    let shared = shared.clone();
    thread::spawn("bulk-io", move || shared.work())
}

impl<J: Job> Shared<J> {
    fn work(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(mut job) = state.waiting.pop_front() {
                drop(state);
                job.run();
                state = self.state.lock();
                state.finished.push_back(job);
                self.finished.notify_one();
            } else if state.ends {
                return;
            } else {
                self.given.wait(&mut state);
            }
        }
    }
}

impl<J: Job> Carrier<J> for Threads<J> {
    fn begin(&mut self, job: J) {
        self.jobs += 1;
        if self.threads.len() < self.jobs.min(self.threads_max) {
            // Without another thread the job waits for an existing one.
            self.threads.extend(start(&self.shared).ok());
        }
        self.shared.state.lock().waiting.push_back(job);
        self.shared.given.notify_one();
    }

    fn finished(&mut self) -> J {
        let mut state = self.shared.state.lock();
        let job = loop {
            match state.finished.pop_front() {
                Some(job) => break job,
                None => thread::blocking(|| self.shared.finished.wait(&mut state)),
            }
        };
        self.jobs -= 1;
        job
    }

    fn try_finished(&mut self) -> Option<J> {
        let job = self.shared.state.lock().finished.pop_front()?;
        self.jobs -= 1;
        Some(job)
    }
}

impl<J> Drop for Threads<J> {
    fn drop(&mut self) {
        self.shared.state.lock().ends = true;
        self.shared.given.notify_all();
        for thread in self.threads.drain(..) {
            // The panic hook has reported a panic in a thread.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    /// Finishes once this many others run concurrently.
    struct Meeting(Arc<Barrier>);

    impl Job for Meeting {
        fn run(&mut self) {
            self.0.wait();
        }
    }

    #[test]
    fn io_queue_5_jobs_run_beside_each_other() {
        for (depth, beside) in [(2, 2), (3, 3), (100, THREADS_MAX)] {
            let mut threads = Threads::new(depth).unwrap();
            let barrier = Arc::new(Barrier::new(beside));
            for _ in 0..beside {
                threads.begin(Meeting(barrier.clone()));
            }
            for _ in 0..beside {
                threads.finished();
            }
            assert_eq!(threads.threads.len(), beside);
        }
    }
}
