//! The eviction policy: S3-FIFO over blocks (Yang, Zhang, Qiu, Yue, Rashmi, "FIFO queues are all
//! you need for cache eviction", 2023), and a clock over tables.
//!
//! Each queue has a *hand*, which is at its oldest entry. Each use of an entry adds a *mark* to the
//! entry, up to three marks. A new block enters the *small* queue, which has a tenth of the
//! capacity. When the hand reaches a block of the small queue that was used at least twice, the
//! block moves to the *main* queue. If the block was used less often, it is evicted, and the policy
//! remembers its key for a while. A block that is read again while its key is remembered enters the
//! main queue directly.
//!
//! So the blocks of a scan pass only through the small queue and do not displace blocks of the main
//! queue.
//!
//! When the hand reaches a block of the main queue that has a mark, the block loses one mark and
//! moves to the front. A block without a mark is evicted.
//!
//! Tables form a queue of their own, which works like the main queue. For an eviction, the policy
//! chooses the queue whose hand advances:
//!
//! - the queue of tables, if the tables hold more than their share of the capacity (BLOCK-CACHE-6);
//! - else the small queue, if it has more than its tenth of the capacity;
//! - else the main queue or the queue of tables. If the entries of one of the two save more bytes
//!   of reading for each byte of memory, the hand of this queue advances more slowly.

use std::collections::VecDeque;

use rustc_hash::FxHashSet;

/// The small queue's part of the capacity.
const SMALL_SHARE: usize = 10;
/// No entry.
pub(super) const NONE: u32 = u32::MAX;

/// The queue of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Queue {
    /// Blocks that entered and were not used often enough yet.
    Small,
    /// Blocks that were used again.
    Main,
    Tables,
}

pub(super) const QUEUES: [Queue; 3] = [Queue::Small, Queue::Main, Queue::Tables];

/// The fate of an entry that the hand has reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// It is evicted.
    Evict,
    /// It moves to the front of its queue, or from the small queue to the front of the main one.
    Stay,
}

struct QueueEntry<I> {
    /// `None` in a free place.
    item: Option<I>,
    bytes: usize,
    saves: usize,
    queue: Queue,
    /// The next entry towards the front, where entries are inserted. In a free place, the next free
    /// one.
    newer: u32,
    /// The next entry towards the end, where the hand is.
    older: u32,
}

#[derive(Clone, Copy)]
struct EntryList {
    newest: u32,
    oldest: u32,
    len: usize,
    bytes: usize,
    /// Bytes of reading that its entries save.
    saves: usize,
    /// How far the hand has moved: bytes in proportion to the queue's, weighted by what they save.
    turns: f64,
}

/// All entries, in their queues.
pub(super) struct EvictionQueue<I> {
    entries: Vec<QueueEntry<I>>,
    free: u32,
    lists: [EntryList; QUEUES.len()],
    ghosts: KeyGhosts,
}

impl<I> Default for EvictionQueue<I> {
    fn default() -> EvictionQueue<I> {
        let empty =
            EntryList { newest: NONE, oldest: NONE, len: 0, bytes: 0, saves: 0, turns: 0.0 };
        EvictionQueue {
            entries: Vec::new(),
            free: NONE,
            lists: [empty; QUEUES.len()],
            ghosts: KeyGhosts::default(),
        }
    }
}

impl<I> EvictionQueue<I> {
    /// Bytes of a queue.
    pub(super) fn bytes(&self, queue: Queue) -> usize {
        self.lists[queue as usize].bytes
    }

    /// The queue that a block of this key enters.
    pub(super) fn entrance(&mut self, key: u64) -> Queue {
        if self.ghosts.recall(key) { Queue::Main } else { Queue::Small }
    }

    /// Adds an entry of this many bytes, which saves `saves` bytes of reading at each use.
    pub(super) fn insert(&mut self, queue: Queue, item: I, bytes: usize, saves: usize) -> u32 {
        let entry = QueueEntry { item: Some(item), bytes, saves, queue, newer: NONE, older: NONE };
        let id = self.free;
        let id = if id == NONE {
            self.entries.push(entry);
            u32::try_from(self.entries.len() - 1).expect("memory holds fewer blocks")
        } else {
            self.free = self.entries[id as usize].newer;
            self.entries[id as usize] = entry;
            id
        };
        self.link(id);
        id
    }

    /// The entry of a number that is in use.
    pub(super) fn get_mut(&mut self, id: u32) -> &mut I {
        self.entries[id as usize].item.as_mut().expect("an entry that is there")
    }

    /// Removes an entry and returns its bytes.
    pub(super) fn remove(&mut self, id: u32) -> (I, usize) {
        self.unlink(id);
        let free = self.free;
        let entry = &mut self.entries[id as usize];
        entry.newer = free;
        self.free = id;
        (entry.item.take().expect("an entry that is there"), entry.bytes)
    }

    /// Adds bytes to an entry.
    pub(super) fn grow(&mut self, id: u32, bytes: usize) {
        let entry = &mut self.entries[id as usize];
        entry.bytes += bytes;
        self.lists[entry.queue as usize].bytes += bytes;
    }

    fn link(&mut self, id: u32) {
        let (queue, bytes, saves) = {
            let entry = &self.entries[id as usize];
            (entry.queue, entry.bytes, entry.saves)
        };
        let list = &mut self.lists[queue as usize];
        let second = std::mem::replace(&mut list.newest, id);
        list.len += 1;
        list.bytes += bytes;
        list.saves += saves;
        if second == NONE {
            list.oldest = id;
        } else {
            self.entries[second as usize].newer = id;
        }
        let entry = &mut self.entries[id as usize];
        (entry.newer, entry.older) = (NONE, second);
    }

    fn unlink(&mut self, id: u32) {
        let QueueEntry { bytes, saves, queue, newer, older, .. } = self.entries[id as usize];
        let list = &mut self.lists[queue as usize];
        list.len -= 1;
        list.bytes -= bytes;
        list.saves -= saves;
        match newer {
            NONE => list.newest = older,
            newer => self.entries[newer as usize].older = older,
        }
        match older {
            NONE => self.lists[queue as usize].oldest = newer,
            older => self.entries[older as usize].newer = newer,
        }
    }

    /// The queue whose hand moves next.
    fn turn(&mut self, capacity: usize, tables_most: usize) -> Queue {
        let [small, main, tables] = self.lists;
        if tables.len > 0 && (tables.bytes > tables_most || small.len + main.len == 0) {
            return Queue::Tables;
        }
        let may_be_small = small.bytes > capacity / SMALL_SHARE || main.len + tables.len == 0;
        if small.len > 0 && may_be_small {
            return Queue::Small;
        }
        if tables.len == 0 || main.len == 0 {
            // A hand that was the only one to move for long gets no advantage from that.
            self.lists.iter_mut().for_each(|list| list.turns = 0.0);
            return match (main.len, tables.len) {
                (1.., _) => Queue::Main,
                (0, 1..) => Queue::Tables,
                _ => Queue::Small,
            };
        }
        if main.turns <= tables.turns { Queue::Main } else { Queue::Tables }
    }

    /// Moves the hands to the next victim, which stays in its queue until it is removed. `judge`
    /// decides about each entry that a hand reaches. It must evict an entry if it is asked often
    /// enough.
    pub(super) fn victim(
        &mut self,
        capacity: usize,
        tables_most: usize,
        mut judge: impl FnMut(Queue, &I) -> Verdict,
    ) -> Option<u32> {
        let all: usize = self.lists.iter().map(|list| list.len).sum();
        // Each round removes a mark. The hands may also pass entries that cannot be evicted at all.
        for _ in 0..all * (super::tagged_ptr::MARKS_MAX + 2) {
            let queue = self.turn(capacity, tables_most);
            let list = &mut self.lists[queue as usize];
            let id = list.oldest;
            let entry = &self.entries[id as usize];
            let [all, saves] = [list.bytes, list.saves].map(|bytes| bytes.max(1) as f64);
            list.turns += entry.bytes as f64 / all * (saves / all);
            let item = entry.item.as_ref().expect("what is in a queue is there");
            match judge(queue, item) {
                Verdict::Evict => return Some(id),
                Verdict::Stay => {
                    self.unlink(id);
                    if queue == Queue::Small {
                        self.entries[id as usize].queue = Queue::Main;
                    }
                    self.link(id);
                }
            }
        }
        None
    }

    /// Bytes of an entry.
    pub(super) fn bytes_of(&self, id: u32) -> usize {
        self.entries[id as usize].bytes
    }

    /// Where an entry stands.
    pub(super) fn queue(&self, id: u32) -> Queue {
        self.entries[id as usize].queue
    }

    /// Adds a block that leaves the small queue to the ghosts.
    pub(super) fn remember(&mut self, key: u64) {
        let most = self.lists[Queue::Small as usize].len + self.lists[Queue::Main as usize].len;
        self.ghosts.remember(key, most);
    }
}

/// The keys of evicted blocks, at most as many as there are blocks.
#[derive(Default)]
struct KeyGhosts {
    known: FxHashSet<u64>,
    /// The keys in the order in which their blocks left. Some blocks may have come back since.
    left: VecDeque<u64>,
}

impl KeyGhosts {
    fn remember(&mut self, key: u64, most: usize) {
        if self.known.insert(key) {
            self.left.push_back(key);
        }
        while self.left.len() > most.max(1) {
            if let Some(oldest) = self.left.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }

    /// Whether the key is a ghost. It is no longer one afterwards.
    fn recall(&mut self, key: u64) -> bool {
        self.known.remove(&key)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn drain(order: &mut EvictionQueue<u32>, capacity: usize) -> Vec<u32> {
        let mut gone = Vec::new();
        while let Some(id) = order.victim(capacity, usize::MAX, |_, _| Verdict::Evict) {
            gone.push(order.remove(id).0);
        }
        gone
    }

    #[test]
    fn queues_give_back_what_came_first() {
        let mut order = EvictionQueue::default();
        let ids: Vec<u32> = (0..6).map(|item| order.insert(Queue::Small, item, 10, 10)).collect();
        order.remove(ids[0]);
        order.remove(ids[3]);
        assert_eq!(order.remove(ids[5]), (5, 10));
        assert_eq!(order.bytes(Queue::Small), 30);
        let again = order.insert(Queue::Small, 7, 5, 5);
        assert!(ids.contains(&again), "places are used again");
        assert_eq!(*order.get_mut(again), 7);
        assert_eq!(drain(&mut order, 0), [1, 2, 4, 7]);
        assert_eq!(QUEUES.map(|queue| order.bytes(queue)), [0; 3]);
    }

    #[test]
    fn what_was_used_in_the_small_queue_goes_into_the_main_one() {
        let mut order = EvictionQueue::default();
        (0..10).for_each(|item| _ = order.insert(Queue::Small, item, 10, 10));
        let stays = |queue, item: &u32| match (queue, item) {
            (Queue::Small, 0..3) => Verdict::Stay,
            _ => Verdict::Evict,
        };
        let id = order.victim(100, usize::MAX, stays).unwrap();
        assert_eq!(order.remove(id).0, 3);
        assert_eq!((order.bytes(Queue::Main), order.bytes(Queue::Small)), (30, 60));
        // A tenth of the capacity is the small queue's.
        assert_eq!(drain(&mut order, 100), [4, 5, 6, 7, 8, 0, 1, 2, 9]);
    }

    #[test]
    fn blocks_that_come_back_soon_go_into_the_main_queue() {
        let mut order: EvictionQueue<u32> = EvictionQueue::default();
        (0..4).for_each(|item| _ = order.insert(Queue::Main, item, 1, 1));
        (0..6).for_each(|key| order.remember(key));
        assert_eq!(order.entrance(1), Queue::Small, "it is forgotten");
        assert_eq!(order.entrance(3), Queue::Main);
        assert_eq!(order.entrance(3), Queue::Small, "once");
    }

    /// Of two queues of equal size, one saves four times as much for each byte.
    #[test]
    fn what_saves_more_for_its_memory_is_passed_less_often() {
        let mut order = EvictionQueue::default();
        (0..100).for_each(|item| _ = order.insert(Queue::Main, item, 100, 25));
        (100..200).for_each(|item| _ = order.insert(Queue::Tables, item, 100, 100));
        let mut passed = [0; QUEUES.len()];
        let mut left = 500;
        let gone = order.victim(usize::MAX, usize::MAX, |queue, _| {
            passed[queue as usize] += 1;
            left -= 1;
            if left == 0 { Verdict::Evict } else { Verdict::Stay }
        });
        assert!(gone.is_some());
        assert!((395..=405).contains(&passed[Queue::Main as usize]), "{passed:?}");
        assert_eq!(passed[Queue::Main as usize] + passed[Queue::Tables as usize], 500);
    }

    #[test]
    fn tables_past_their_share_go_first() {
        let mut order = EvictionQueue::default();
        (0..10).for_each(|item| _ = order.insert(Queue::Main, item, 10, 10));
        (10..20).for_each(|item| _ = order.insert(Queue::Tables, item, 10, 1000));
        let mut gone = Vec::new();
        while order.bytes(Queue::Tables) > 60 {
            let id = order.victim(usize::MAX, 60, |_, _| Verdict::Evict).unwrap();
            gone.push(order.remove(id).0);
        }
        assert_eq!(gone, [10, 11, 12, 13]);
    }
}
