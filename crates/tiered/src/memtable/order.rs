//! The order of a node's slots, packed into one word.

/// The slots of a node. Models have few, so that nodes fill up early.
#[cfg(not(loom))]
pub(super) const SLOTS: usize = 15;
#[cfg(loom)]
pub(super) const SLOTS: usize = 3;

/// The length of an array of slots. An order can name no slot beyond it, which avoids a bounds
/// check.
#[cfg(not(loom))]
pub(super) const ROOM: usize = 16;
#[cfg(loom)]
pub(super) const ROOM: usize = SLOTS;

/// The steps of a binary search: powers of two, the largest at most the number of slots, and their
/// sum at least that.
#[cfg(not(loom))]
pub(super) const STEPS: [usize; 4] = [8, 4, 2, 1];
#[cfg(loom)]
pub(super) const STEPS: [usize; 2] = [2, 1];

const BITS: u32 = 4;
const MASK: u64 = (1 << BITS) - 1;

/// The used slots of a node, in the order of their entries, and the free ones (Mao, Kohler and
/// Morris, "Cache craftiness for fast multicore key-value storage", section 4.6.2).
///
/// The lowest four bits count the used slots. Each four bits above name a slot: first the used ones
/// in order, then the free ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Order(pub(super) u64);

impl Order {
    /// The order in which the first `count` slots are used, in their own order.
    pub(super) fn of_first(count: usize) -> Order {
        let slots = (0..SLOTS).map(|slot| (slot as u64) << (BITS * (slot as u32 + 1)));
        Order(slots.sum::<u64>() | count as u64)
    }

    /// The number of used slots.
    pub(super) fn len(self) -> usize {
        (self.0 & MASK) as usize
    }

    pub(super) fn is_full(self) -> bool {
        self.len() == SLOTS
    }

    /// The slot at a rank. The free slots come after the used ones.
    pub(super) fn slot(self, rank: usize) -> usize {
        ((self.0 >> (BITS * (rank as u32 + 1))) & MASK) as usize
    }

    /// Takes the first free slot, which must exist, and inserts it at a rank.
    pub(super) fn insert(self, rank: usize) -> (Order, usize) {
        let (len, slot) = (self.len(), self.slot(self.len()));
        debug_assert!(rank <= len && len < SLOTS);
        // The slots from `rank` up to the free one move up by one.
        let from = BITS * (rank as u32 + 1);
        let to = BITS * (len as u32 + 1);
        let (below_from, below_to) = ((1 << from) - 1, (1 << to) - 1);
        let taken = MASK << to;
        let moved = (self.0 & below_to & !below_from) << BITS;
        let kept = self.0 & (below_from | !(below_to | taken));
        (Order((kept | moved | ((slot as u64) << from)) + 1), slot)
    }

    /// Frees the slots from a rank on.
    pub(super) fn cut(self, len: usize) -> Order {
        debug_assert!(len <= self.len());
        Order((self.0 & !MASK) | len as u64)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use spillway_base::rng::Rng;

    use super::*;

    #[test]
    fn an_order_is_a_list_that_is_inserted_into_and_cut() {
        let mut rng = Rng::new(1);
        let (mut order, mut model) = (Order::of_first(0), Vec::new());
        for _ in 0..10_000 {
            if order.is_full() || rng.chance(1, 20) {
                let len = rng.below(model.len() as u64 + 1) as usize;
                order = order.cut(len);
                model.truncate(len);
            } else {
                let rank = rng.below(model.len() as u64 + 1) as usize;
                let (next, slot) = order.insert(rank);
                assert!(!model.contains(&slot));
                model.insert(rank, slot);
                order = next;
            }
            let slots: Vec<_> = (0..order.len()).map(|rank| order.slot(rank)).collect();
            assert_eq!(slots, model);
            let mut all: Vec<_> = (0..SLOTS).map(|rank| order.slot(rank)).collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..SLOTS));
        }
        let first: Vec<_> = (0..3).map(|rank| Order::of_first(3).slot(rank)).collect();
        assert_eq!((first, Order::of_first(3).len()), (vec![0, 1, 2], 3));
    }
}
