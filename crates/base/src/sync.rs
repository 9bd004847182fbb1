//! Atomics and cells for the lock-free cores: those of `std` in production, those of loom under
//! `--cfg loom`, and in builds with debug assertions those of the deterministic scheduler, which
//! wrap `std`'s. So the code that is checked is the code that runs.

#[cfg(loom)]
pub use loom::{
    cell::UnsafeCell,
    hint,
    sync::{Arc, Condvar, Mutex, MutexGuard, atomic},
    thread,
};

#[cfg(not(any(loom, debug_assertions)))]
pub use std::{
    hint,
    sync::{Arc, Condvar, Mutex, MutexGuard, atomic},
    thread,
};

#[cfg(any(loom, not(debug_assertions)))]
pub use std::sync::mpsc;

#[cfg(all(debug_assertions, not(loom)))]
pub use scheduled::{Mutex, MutexGuard, hint, mpsc, thread};
#[cfg(all(debug_assertions, not(loom)))]
pub use {crate::scheduler::atomic, std::sync::Arc};

#[cfg(all(debug_assertions, not(loom)))]
mod scheduled {
    use std::convert::Infallible;

    pub use crate::lock::MutexGuard;

    /// A lock of the scheduler under `std`'s interface.
    #[derive(Debug, Default)]
    pub struct Mutex<T>(crate::lock::Mutex<T>);

    impl<T> Mutex<T> {
        /// A lock around `value`.
        pub const fn new(value: T) -> Mutex<T> {
            Mutex(crate::lock::Mutex::new(value))
        }

        /// Takes the lock.
        ///
        /// # Errors
        /// None: a panic ends a simulation.
        pub fn lock(&self) -> Result<MutexGuard<'_, T>, std::sync::PoisonError<MutexGuard<'_, T>>> {
            Ok(self.0.lock())
        }

        /// Takes the value out.
        ///
        /// # Errors
        /// None.
        pub fn into_inner(self) -> Result<T, Infallible> {
            Ok(self.0.into_inner())
        }
    }

    /// Hints that the thread waits for another thread.
    pub mod hint {
        /// As [`std::hint::spin_loop`].
        #[track_caller]
        pub fn spin_loop() {
            if !crate::scheduler::spin() {
                std::hint::spin_loop();
            }
        }
    }

    /// Yields to other threads.
    pub mod thread {
        /// As [`std::thread::yield_now`].
        #[track_caller]
        pub fn yield_now() {
            if !crate::scheduler::spin() {
                std::thread::yield_now();
            }
        }
    }

    /// Channels under the scheduler, with `std`'s interface.
    pub mod mpsc {
        use std::collections::VecDeque;
        use std::sync::Arc;
        pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError};
        use std::time::Duration;

        use crate::lock::{Condvar, Mutex};

        struct Queue<T> {
            sent: VecDeque<T>,
            senders: usize,
            has_receiver: bool,
        }

        type Shared<T> = Arc<(Mutex<Queue<T>>, Condvar)>;

        /// The end that sends.
        pub struct Sender<T>(Shared<T>);
        /// The end that receives.
        pub struct Receiver<T>(Shared<T>);

        /// A channel without a bound.
        #[must_use]
        pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
            let queue = Queue { sent: VecDeque::new(), senders: 1, has_receiver: true };
            let shared = Arc::new((Mutex::new(queue), Condvar::new()));
            (Sender(shared.clone()), Receiver(shared))
        }

        impl<T> Sender<T> {
            /// Sends a value.
            ///
            /// # Errors
            /// The value, if the receiver was dropped.
            pub fn send(&self, value: T) -> Result<(), SendError<T>> {
                let mut queue = self.0.0.lock();
                if !queue.has_receiver {
                    return Err(SendError(value));
                }
                queue.sent.push_back(value);
                drop(queue);
                self.0.1.notify_one();
                Ok(())
            }
        }

        impl<T> Clone for Sender<T> {
            fn clone(&self) -> Sender<T> {
                self.0.0.lock().senders += 1;
                Sender(self.0.clone())
            }
        }

        impl<T> Drop for Sender<T> {
            fn drop(&mut self) {
                self.0.0.lock().senders -= 1;
                self.0.1.notify_all();
            }
        }

        impl<T> Receiver<T> {
            /// Waits for the next value.
            ///
            /// # Errors
            /// When no value is left and all senders were dropped.
            pub fn recv(&self) -> Result<T, RecvError> {
                let mut queue = self.0.0.lock();
                loop {
                    match queue.sent.pop_front() {
                        Some(value) => return Ok(value),
                        None if queue.senders == 0 => return Err(RecvError),
                        None => self.0.1.wait(&mut queue),
                    }
                }
            }

            /// Waits for the next value, for at most `timeout`.
            ///
            /// # Errors
            /// As [`Receiver::recv`], and when the time has passed.
            pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
                let until = crate::clock::now() + timeout;
                let mut queue = self.0.0.lock();
                loop {
                    let left = until.saturating_sub(crate::clock::now());
                    match queue.sent.pop_front() {
                        Some(value) => return Ok(value),
                        None if queue.senders == 0 => return Err(RecvTimeoutError::Disconnected),
                        None if left.is_zero() => return Err(RecvTimeoutError::Timeout),
                        None => drop(self.0.1.wait_for(&mut queue, left)),
                    }
                }
            }
        }

        impl<T> Drop for Receiver<T> {
            fn drop(&mut self) {
                self.0.0.lock().has_receiver = false;
            }
        }
    }
}

/// Checks a model over all orders of its threads' steps with at most this many preemptions. Without
/// a bound there are more orders than can be tried. Nearly every fault needs only few preemptions.
#[cfg(loom)]
pub fn model(preemptions: usize, body: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(body);
}

/// `std`'s `UnsafeCell` under loom's interface, which names the kind of each access.
#[cfg(not(loom))]
#[derive(Debug, Default)]
pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    /// A cell holding `value`.
    pub const fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    /// Calls `f` with a pointer for reading.
    pub fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    /// Calls `f` with a pointer for writing.
    pub fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}
