//! Threads: named, started in one place (DESIGN, D9).

use std::thread::{Builder, JoinHandle};

use crate::{Error, ErrorKind, Result};

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
    Builder::new().name(name.clone()).spawn(body).map_err(|source| {
        Error::with_source(ErrorKind::MemoryFull, format!("cannot start thread {name}"), source)
    })
}

/// Runs `body` in this many threads at once, each with its number, and joins them. For tests: unlike the end of a
/// scope, a join is something that the thread sanitizer sees.
///
/// # Panics
/// When a thread does.
pub fn together(threads: usize, body: impl Fn(usize) + Sync) {
    std::thread::scope(|scope| {
        let body = &body;
        let running: Vec<_> =
            (0..threads).map(|number| scope.spawn(move || body(number))).collect();
        for thread in running {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
}
