//! The interface of a *carrier*: it executes the operations of a queue, through `io_uring` or on a
//! few threads.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use spillway_base::Result;

/// Executes operations concurrently with the thread that submits them.
pub(super) trait Carrier<O>: Send {
    /// Prepares for an operation. If this fails, the operation is not begun.
    fn prepare(&mut self, _operation: &O) -> Result<(), Errno> {
        Ok(())
    }

    /// Starts an operation without waiting for it.
    fn begin(&mut self, operation: O);

    /// Waits for an operation to finish. One must have been begun.
    fn finished(&mut self) -> O;

    /// A finished operation, if there is one now.
    fn try_finished(&mut self) -> Option<O>;

    /// As [`crate::IoQueue::gather`].
    fn gather(&mut self, _gathers: bool) {}

    /// As [`crate::IoQueue::submit`].
    fn submit(&mut self) -> bool {
        true
    }

    /// As [`crate::IoQueue::keeps`].
    fn keeps(&mut self) -> bool {
        false
    }

    /// A descriptor that becomes readable when an operation finishes, if there is one.
    fn descriptor(&self) -> Option<OwnedFd> {
        None
    }
}
