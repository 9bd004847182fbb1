//! A waker that counts its calls, for tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Wake, Waker};

#[derive(Default)]
struct WakeCount(AtomicUsize);

impl Wake for WakeCount {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A waker, and a function that returns how often it was called.
pub fn counted_waker() -> (Waker, impl Fn() -> usize) {
    let count = Arc::new(WakeCount::default());
    (Waker::from(count.clone()), move || count.0.load(Ordering::SeqCst))
}
