//! The ghosts of blocks and tables: keys that were evicted lately, as many as a fixed amount more
//! of memory would have kept (`super::cache_balancer`).

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::eviction_queue::{QUEUES, Queue};

/// What left one queue.
#[derive(Default)]
struct GhostQueue {
    /// Bytes that have left it.
    left: u64,
    /// In the order in which they left: keys, and what had left before them.
    gone: VecDeque<(u64, u64)>,
}

/// The evicted entries, by queue. Their memory is charged elsewhere.
#[derive(Default)]
pub(super) struct GhostList {
    lines: [GhostQueue; QUEUES.len()],
    /// When it left which queue last.
    known: FxHashMap<u64, (Queue, u64)>,
}

impl GhostList {
    /// Something left a queue, of which what left within the last so many bytes is remembered.
    pub(super) fn leaves(&mut self, queue: Queue, key: u64, bytes: usize, within: usize) {
        let line = &mut self.lines[queue as usize];
        line.left += bytes as u64;
        line.gone.push_back((key, line.left));
        self.known.insert(key, (queue, line.left));
        let from = line.left.saturating_sub(within as u64);
        while let Some((key, left)) = line.gone.pop_front_if(|(_, left)| *left <= from) {
            // It may have come back, and left again.
            if self.known.get(&key) == Some(&(queue, left)) {
                self.known.remove(&key);
            }
        }
    }

    /// Something comes in. Answers whether it had left lately.
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
        // One that left twice is known by the second time.
        departed.leaves(Queue::Main, 1, 10, 50);
        assert!(departed.comes(1));
        departed.leaves(Queue::Main, 1, 10, 50);
        (30..34).for_each(|key| departed.leaves(Queue::Main, key, 10, 50));
        assert!(departed.comes(1));
        (40..60).for_each(|key| departed.leaves(Queue::Main, key, 10, 50));
        assert_eq!((departed.known.len(), departed.lines[Queue::Main as usize].gone.len()), (5, 5));
    }
}
