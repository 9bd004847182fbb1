//! The state of eviction.

use spillway_base::lock::Mutex;

/// Where eviction has come to.
#[derive(Default)]
pub(super) struct Evictor {
    /// The next page; held by who evicts.
    pub(super) hand: Mutex<usize>,
}
