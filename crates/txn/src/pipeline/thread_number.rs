//! Thread numbers, by which threads are assigned to lanes and shards.

/// A number of the calling thread, by which threads are distributed over lanes and similar parts.
pub(super) fn thread_number() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static NUMBER: usize = NEXT.fetch_add(1, Ordering::Relaxed));
    NUMBER.try_with(|number| *number).unwrap_or(0)
}
