//! The eviction policies, over block numbers.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use spillway_tiered::eviction::CacheTrace;

/// A simulated cache.
pub(super) trait Policy {
    /// Reads a block, and returns whether it was cached.
    fn read(&mut self, block: u64) -> bool;
}

/// A policy's name, and its constructor from a capacity and the number of all blocks.
pub(super) type Maker = (&'static str, fn(u64, u64) -> Box<dyn Policy>);

/// All of them.
pub(super) const ALL: [Maker; 5] = [
    ("spillway", |capacity, all| Box::new(CacheTrace::new(capacity, all))),
    ("s3-fifo", |capacity, _| Box::new(S3Fifo::new(capacity as usize))),
    ("sieve", |capacity, _| Box::new(Sieve::new(capacity as usize))),
    ("clock", |capacity, _| Box::new(Clock::new(capacity as usize))),
    ("lru", |capacity, _| Box::new(Lru::new(capacity as usize))),
];

impl Policy for CacheTrace {
    fn read(&mut self, block: u64) -> bool {
        CacheTrace::read(self, block)
    }
}

/// Evicts the least recently used block.
pub(super) struct Lru {
    capacity: usize,
    now: u64,
    used: HashMap<u64, u64>,
    order: BTreeMap<u64, u64>,
}

impl Lru {
    pub(super) fn new(capacity: usize) -> Lru {
        Lru { capacity, now: 0, used: HashMap::new(), order: BTreeMap::new() }
    }
}

impl Policy for Lru {
    fn read(&mut self, block: u64) -> bool {
        self.now += 1;
        let before = self.used.insert(block, self.now);
        self.order.insert(self.now, block);
        if let Some(before) = before {
            self.order.remove(&before);
        } else if self.used.len() > self.capacity
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.used.remove(&oldest);
        }
        before.is_some()
    }
}

/// A ring with one mark for each block, which the hand clears.
pub(super) struct Clock {
    capacity: usize,
    places: HashMap<u64, usize>,
    ring: Vec<(u64, bool)>,
    hand: usize,
}

impl Clock {
    pub(super) fn new(capacity: usize) -> Clock {
        Clock { capacity, places: HashMap::new(), ring: Vec::new(), hand: 0 }
    }
}

impl Policy for Clock {
    fn read(&mut self, block: u64) -> bool {
        if let Some(place) = self.places.get(&block) {
            self.ring[*place].1 = true;
            return true;
        }
        if self.ring.len() < self.capacity {
            self.places.insert(block, self.ring.len());
            self.ring.push((block, false));
            return false;
        }
        while std::mem::take(&mut self.ring[self.hand].1) {
            self.hand = (self.hand + 1) % self.capacity;
        }
        self.places.remove(&self.ring[self.hand].0);
        self.ring[self.hand] = (block, false);
        self.places.insert(block, self.hand);
        self.hand = (self.hand + 1) % self.capacity;
        false
    }
}

/// Zhang, Yang, Yue, Vigfusson, Rashmi, "SIEVE is simpler than LRU" (NSDI 2024): a queue in which a
/// read block keeps its place, and a hand that moves from the oldest to the newest.
pub(super) struct Sieve {
    capacity: usize,
    /// Blocks in order of insertion.
    queue: BTreeMap<u64, (u64, bool)>,
    came: HashMap<u64, u64>,
    now: u64,
    hand: u64,
}

impl Sieve {
    pub(super) fn new(capacity: usize) -> Sieve {
        Sieve { capacity, queue: BTreeMap::new(), came: HashMap::new(), now: 0, hand: 0 }
    }

    fn evict(&mut self) {
        loop {
            let next = self.queue.range_mut(self.hand..).next();
            let Some((&came, (block, read))) = next else {
                self.hand = 0;
                continue;
            };
            self.hand = came + 1;
            if !std::mem::take(read) {
                self.came.remove(block);
                self.queue.remove(&came);
                return;
            }
        }
    }
}

impl Policy for Sieve {
    fn read(&mut self, block: u64) -> bool {
        if let Some(came) = self.came.get(&block) {
            if let Some((_, read)) = self.queue.get_mut(came) {
                *read = true;
            }
            return true;
        }
        if self.queue.len() == self.capacity {
            self.evict();
        }
        self.now += 1;
        self.came.insert(block, self.now);
        self.queue.insert(self.now, (block, false));
        false
    }
}

/// Yang, Zhang, Qiu, Yue, Rashmi, "FIFO queues are all you need for cache eviction" (SOSP 2023).
pub(super) struct S3Fifo {
    capacity: usize,
    small: VecDeque<u64>,
    main: VecDeque<u64>,
    /// The read counts of blocks in a queue, up to three.
    reads: HashMap<u64, u8>,
    ghosts: HashSet<u64>,
    ghost_order: VecDeque<u64>,
}

impl S3Fifo {
    pub(super) fn new(capacity: usize) -> S3Fifo {
        S3Fifo {
            capacity,
            small: VecDeque::new(),
            main: VecDeque::new(),
            reads: HashMap::new(),
            ghosts: HashSet::new(),
            ghost_order: VecDeque::new(),
        }
    }

    fn evict(&mut self) {
        if self.small.len() >= self.capacity / 10 || self.main.is_empty() {
            self.evict_small();
        } else {
            self.evict_main();
        }
    }

    fn evict_small(&mut self) {
        let Some(block) = self.small.pop_front() else { return };
        if self.reads[&block] > 1 {
            self.reads.insert(block, 0);
            self.main.push_back(block);
            return;
        }
        self.reads.remove(&block);
        if self.ghosts.insert(block) {
            self.ghost_order.push_back(block);
        }
        if self.ghost_order.len() > self.capacity
            && let Some(oldest) = self.ghost_order.pop_front()
        {
            self.ghosts.remove(&oldest);
        }
    }

    fn evict_main(&mut self) {
        while let Some(block) = self.main.pop_front() {
            match self.reads.get_mut(&block) {
                Some(reads @ 1..) => {
                    *reads -= 1;
                    self.main.push_back(block);
                }
                _ => {
                    self.reads.remove(&block);
                    return;
                }
            }
        }
    }
}

impl Policy for S3Fifo {
    fn read(&mut self, block: u64) -> bool {
        if let Some(reads) = self.reads.get_mut(&block) {
            *reads = (*reads + 1).min(3);
            return true;
        }
        while self.reads.len() >= self.capacity {
            self.evict();
        }
        self.reads.insert(block, 0);
        if self.ghosts.remove(&block) {
            self.main.push_back(block);
        } else {
            self.small.push_back(block);
        }
        false
    }
}
