//! Handles failures of `accept`. A failure may only mean that the client has disconnected again.
//! After any other failure, the thread that accepts clients pauses.

use std::io::{self, ErrorKind};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The pause after an accept that failed for lack of descriptors or memory.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Pauses. Returns whether the other end of `woken` was closed meanwhile.
pub(crate) fn pause(woken: &UnixStream) -> bool {
    let mut wait = [PollFd::new(woken, PollFlags::IN)];
    let a_while = Timespec::try_from(ACCEPT_PAUSE).ok();
    matches!(poll(&mut wait, a_while.as_ref()), Ok(ready) if ready > 0)
}

/// Whether an accept failed only because the client has disconnected again.
pub(crate) fn gone_again(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted
    )
}
