//! The state of eviction.

use spillway_base::lock::Mutex;

/// The position of the CLOCK hand.
#[derive(Default)]
pub(super) struct Evictor {
    /// The next page. The lock is held while a thread evicts.
    pub(super) hand: Mutex<usize>,
}
