//! Threads: named, started in one place (DESIGN, D9).
//!
//! A pool keeps about as many threads at work as there are processors. Threads that wait for each
//! other can deadlock such a pool, because the task that would release them may be queued behind
//! them. So code that may wait for long does so within [`blocking`], and the thread's pool, if it
//! has one, runs another thread meanwhile.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::thread::Builder;

use crate::{Error, ErrorKind, Result};

#[cfg(not(debug_assertions))]
pub use std::thread::JoinHandle;

/// A thread to join: by the scheduler first, where it is one of its tasks.
#[cfg(debug_assertions)]
#[derive(Debug)]
pub struct JoinHandle<T> {
    thread: std::thread::JoinHandle<T>,
    task: Option<usize>,
}

#[cfg(debug_assertions)]
impl<T> JoinHandle<T> {
    /// Waits for the thread's end.
    ///
    /// # Errors
    /// What it panicked with.
    pub fn join(self) -> std::thread::Result<T> {
        if let Some(task) = self.task {
            crate::scheduler::join(task);
        }
        self.thread.join()
    }

    /// Whether the thread has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        match self.task {
            Some(task) => crate::scheduler::is_done(task),
            None => self.thread.is_finished(),
        }
    }
}

/// Starts a thread called `name` (at most 15 bytes are shown by the system's tools).
///
/// # Errors
/// [`ErrorKind::MemoryFull`] when the system refuses another thread.
pub fn spawn<T, F>(name: impl Into<String>, body: F) -> Result<JoinHandle<T>>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let name = name.into();
    #[cfg(debug_assertions)]
    let task = crate::scheduler::add(&name);
    let start = move || {
        #[cfg(debug_assertions)]
        task.inspect(|task| crate::scheduler::begin(*task));
        body()
    };
    let thread = Builder::new().name(name.clone()).spawn(start).map_err(|source| {
        Error::with_source(ErrorKind::MemoryFull, format!("cannot start thread {name}"), source)
    });
    #[cfg(debug_assertions)]
    let thread = {
        crate::scheduler::point();
        thread.map(|thread| JoinHandle { thread, task })
    };
    thread
}

/// A pool, as a thread of it sees it. Its calls come in pairs, on that thread, but for the last.
pub trait Pool: Send + Sync {
    /// The thread is about to wait, perhaps for long. It may hold any lock but those of the pool:
    /// the pool has others do what may ask for one, such as to take in what has been read, or to
    /// call those who wait.
    fn leave(&self);

    /// The thread goes on.
    fn come_back(&self);

    /// Whether all of the pool's threads but the calling one have nothing to do, and one of them
    /// would see what comes: to wait keeps nobody waiting then, and wakes nobody. The answer may be
    /// out of date when the caller gets it.
    fn is_quiet(&self) -> bool {
        false
    }

    /// The thread has something before it that may take long: whatever it holds back for others, so
    /// as to do it together with more, is not to wait for that.
    fn long_ahead(&self) {}
}

thread_local! {
    static POOL: RefCell<Option<Arc<dyn Pool>>> = const { RefCell::new(None) };
    /// Whether this thread has told its pool that it waits.
    static AWAY: Cell<bool> = const { Cell::new(false) };
}

/// Makes the calling thread one of a pool's, until it ends.
pub fn join_pool(pool: Arc<dyn Pool>) {
    POOL.with(|mine| *mine.borrow_mut() = Some(pool));
}

/// Whether the calling thread is one of a pool in which nothing else is to be done
/// ([`Pool::is_quiet`]).
#[must_use]
pub fn is_quiet() -> bool {
    POOL.with(|pool| pool.borrow().as_ref().is_some_and(|pool| pool.is_quiet()))
}

/// The calling thread has something before it that may take long ([`Pool::long_ahead`]).
pub fn long_ahead() {
    POOL.with(|pool| {
        if let Some(pool) = pool.borrow().as_ref() {
            pool.long_ahead();
        }
    });
}

/// Runs `wait`, which may block for long for others than the processor. A wait within it is part of
/// it.
///
/// The caller may hold locks of its own, a queue's or a table's. They are held when this calls the
/// pool ([`Pool::leave`]).
pub fn blocking<T>(wait: impl FnOnce() -> T) -> T {
    /// Comes back however the wait ends.
    struct Back(Arc<dyn Pool>);

    impl Drop for Back {
        fn drop(&mut self) {
            AWAY.set(false);
            self.0.come_back();
        }
    }

    let pool = if AWAY.get() { None } else { POOL.with(|pool| pool.borrow().clone()) };
    let _back = pool.map(|pool| {
        AWAY.set(true);
        pool.leave();
        Back(pool)
    });
    wait()
}

/// Runs `body` in this many threads at once, each with its number, and joins them. For tests:
/// unlike the end of a scope, a join is something that the thread sanitizer sees.
///
/// # Panics
/// When a thread does.
pub fn together(threads: usize, body: impl Fn(usize) + Sync) {
    std::thread::scope(|scope| {
        let body = &body;
        let start = |number| {
            #[cfg(debug_assertions)]
            let task = crate::scheduler::add("together");
            let run = move || {
                #[cfg(debug_assertions)]
                task.inspect(|task| crate::scheduler::begin(*task));
                body(number);
            };
            let thread = scope.spawn(run);
            #[cfg(debug_assertions)]
            let thread = (thread, task);
            thread
        };
        let running: Vec<_> = (0..threads).map(start).collect();
        for thread in running {
            #[cfg(debug_assertions)]
            let (thread, task) = thread;
            #[cfg(debug_assertions)]
            task.into_iter().for_each(crate::scheduler::join);
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

    use super::*;

    #[derive(Default)]
    struct Counts {
        away: AtomicI32,
        left: AtomicU32,
    }

    impl Pool for Counts {
        fn leave(&self) {
            self.away.fetch_add(1, Ordering::SeqCst);
            self.left.fetch_add(1, Ordering::SeqCst);
        }

        fn come_back(&self) {
            self.away.fetch_sub(1, Ordering::SeqCst);
        }

        fn is_quiet(&self) -> bool {
            self.away.load(Ordering::SeqCst) == 0
        }
    }

    #[test]
    fn a_pool_is_told_of_each_wait_once_however_it_ends() {
        let pool = Arc::new(Counts::default());
        let away = || pool.away.load(Ordering::SeqCst);
        together(2, |thread| {
            if thread == 1 {
                // Nobody's.
                return blocking(|| ());
            }
            assert!(!is_quiet(), "of no pool");
            join_pool(pool.clone());
            assert!(is_quiet() && !blocking(is_quiet));
            assert_eq!(blocking(|| blocking(away) + away()), 2);
            assert_eq!(away(), 0);
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                blocking(|| resume_unwind(Box::new(())));
            }));
            assert!(panicked.is_err());
            assert_eq!(blocking(away), 1);
            // A thread that it starts does not belong to the pool.
            spawn("started", || blocking(|| ())).unwrap().join().unwrap();
        });
        assert_eq!(pool.left.load(Ordering::SeqCst), 4);
        assert_eq!(away(), 0);
    }
}
