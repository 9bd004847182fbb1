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
