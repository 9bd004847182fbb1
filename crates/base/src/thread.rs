//! Threads: named, started in one place (decision 009).
//!
//! A pool keeps about as many threads at work as there are processors. If all of them wait, the
//! pool may deadlock, because the task that would end their wait may be queued behind them. So code
//! that may wait for long does so within [`blocking`], and the thread's pool, if it has one, runs
//! another thread meanwhile.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::thread::Builder;

use crate::{Error, ErrorKind, Result};

#[cfg(not(debug_assertions))]
pub use std::thread::JoinHandle;

/// A thread to join. If the thread is a task of the scheduler, the scheduler joins it first.
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
    /// The value with which the thread panicked.
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

/// A thread pool, as its threads see it. Each thread calls `leave` and `come_back` in pairs.
pub trait Pool: Send + Sync {
    /// The thread is about to wait, perhaps for long. It may hold any lock except those of the
    /// pool. So the pool must leave to other threads all work that may take such a lock, such as
    /// completing reads or calling wakers.
    fn leave(&self);

    /// The thread continues.
    fn come_back(&self);

    /// Whether all other threads of the pool are idle and one of them would see new work. Then a
    /// wait of the calling thread delays no client and need not wake another thread. The result may
    /// be out of date when the caller gets it.
    fn is_quiet(&self) -> bool {
        false
    }

    /// The thread is about to do something that may take long. The pool must first do, or hand
    /// over, the work that the thread has postponed in order to batch it.
    fn long_ahead(&self) {}
}

thread_local! {
    static POOL: RefCell<Option<Arc<dyn Pool>>> = const { RefCell::new(None) };
    /// Whether this thread has reported to its pool that it waits.
    static AWAY: Cell<bool> = const { Cell::new(false) };
}

/// Makes the calling thread a thread of a pool until the thread ends.
pub fn join_pool(pool: Arc<dyn Pool>) {
    POOL.with(|mine| *mine.borrow_mut() = Some(pool));
}

/// Whether the calling thread belongs to a pool that has nothing else to do ([`Pool::is_quiet`]).
#[must_use]
pub fn is_quiet() -> bool {
    POOL.with(|pool| pool.borrow().as_ref().is_some_and(|pool| pool.is_quiet()))
}

/// Reports that the calling thread is about to do something that may take long
/// ([`Pool::long_ahead`]).
pub fn long_ahead() {
    POOL.with(|pool| {
        if let Some(pool) = pool.borrow().as_ref() {
            pool.long_ahead();
        }
    });
}

/// Runs `wait`, which may block for long on something other than the processor. A nested wait
/// counts as part of the outer one.
///
/// The caller may hold its own locks, such as that of a queue or a table. It still holds them when
/// this function calls the pool ([`Pool::leave`]).
pub fn blocking<T>(wait: impl FnOnce() -> T) -> T {
    /// Calls [`Pool::come_back`] when the wait ends, also by a panic.
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

/// Runs `body` in `threads` threads at once, each with its number, and joins them. For tests: the
/// thread sanitizer recognises a join, but not the end of a scope.
///
/// # Panics
/// When a thread panics.
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
                // No pool's thread.
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
            // A thread that a pool's thread starts does not belong to the pool.
            spawn("started", || blocking(|| ())).unwrap().join().unwrap();
        });
        assert_eq!(pool.left.load(Ordering::SeqCst), 4);
        assert_eq!(away(), 0);
    }
}
