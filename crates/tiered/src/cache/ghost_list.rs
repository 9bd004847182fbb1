//! The ghosts of blocks and tables: the keys of entries that were evicted lately. With a fixed
//! amount of additional memory, the cache would still hold these entries (`super::cache_balancer`).

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::eviction_queue::{QUEUES, Queue};

/// The entries that left one queue.
#[derive(Default)]
struct GhostQueue {
    /// The bytes that have left the queue in all.
    left: u64,
    /// The keys in the order in which they left, each with the value of `left` just after.
    gone: VecDeque<(u64, u64)>,
}

/// The evicted entries, by queue. Their memory is charged as part of each cached entry.
#[derive(Default)]
pub(super) struct GhostList {
    lines: [GhostQueue; QUEUES.len()],
    /// For each key, the queue that it left last, and the queue's `left` just after.
    known: FxHashMap<u64, (Queue, u64)>,
}

impl GhostList {
    /// Records an entry that left a queue. The queue keeps the entries of the last `within` bytes
    /// that left it.
    pub(super) fn leaves(&mut self, queue: Queue, key: u64, bytes: usize, within: usize) {
        let line = &mut self.lines[queue as usize];
        line.left += bytes as u64;
        line.gone.push_back((key, line.left));
        self.known.insert(key, (queue, line.left));
        let from = line.left.saturating_sub(within as u64);
        while let Some((key, left)) = line.gone.pop_front_if(|(_, left)| *left <= from) {
            // The key may have come back, and left again.
            if self.known.get(&key) == Some(&(queue, left)) {
                self.known.remove(&key);
            }
        }
    }

    /// Records an entry that comes in. Returns whether it had left recently.
    pub(super) fn comes(&mut self, key: u64) -> bool {
        self.known.remove(&key).is_some()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_left_lately_is_known_by_bytes_and_queue() {
        let mut departed = GhostList::default();
        (0..10).for_each(|key| departed.leaves(Queue::Main, key, 10, 50));
        (10..20).for_each(|key| departed.leaves(Queue::Small, key, 10, 20));
        let known = (0..20).filter(|key| departed.comes(*key)).collect::<Vec<_>>();
        assert_eq!(known, [5, 6, 7, 8, 9, 18, 19]);
        assert!(!departed.comes(9), "once");
        // An entry that left twice is remembered by the second time.
        departed.leaves(Queue::Main, 1, 10, 50);
        assert!(departed.comes(1));
        departed.leaves(Queue::Main, 1, 10, 50);
        (30..34).for_each(|key| departed.leaves(Queue::Main, key, 10, 50));
        assert!(departed.comes(1));
        (40..60).for_each(|key| departed.leaves(Queue::Main, key, 10, 50));
        assert_eq!((departed.known.len(), departed.lines[Queue::Main as usize].gone.len()), (5, 5));
    }
}
