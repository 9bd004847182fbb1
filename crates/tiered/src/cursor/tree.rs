//! A tree of losers (Knuth, The Art of Computer Programming 3, 5.4.1): who of several has the next key.
//!
//! Each inner node has who lost there; who lost nowhere is first. When the first has a new key, only those on its way up are
//! compared with it, one for each level. Whoever has the same key as the first has met it on the way, or somebody who met it and had
//! that key as well: so nodes note ties, and nobody looks for equal keys.
//!
//! # Guarantees
//! - **L1.** [`Tree::first`] is beaten by nobody.
//! - **L2.** When [`Tree::tied`] is `None`, nobody else has the first's key.
//! - **L3.** [`Tree::second`] is beaten by nobody but the first: until it has passed that one's key, the first stays it.

/// Those who are compared.
pub(super) trait Contest {
    /// How many there are.
    fn len(&self) -> usize;

    /// Whether one comes before another, and whether their keys are equal.
    fn beats(&self, one: usize, other: usize) -> (bool, bool);
}

#[derive(Clone, Copy)]
struct Node {
    loser: u32,
    /// Whether it has the key of whom it lost to.
    tied: bool,
}

const NOBODY: u32 = u32::MAX;

/// A tree over `n` contestants: nodes 1 to `n - 1`, whose children are `2i` and `2i + 1`; contestant `c` is the leaf `n + c`.
#[derive(Default)]
pub(super) struct Tree {
    /// Node `i` is at `i - 1`.
    nodes: Vec<Node>,
    first: Option<u32>,
}

impl Tree {
    pub(super) fn new(contest: &impl Contest) -> Tree {
        let inner = contest.len().saturating_sub(1);
        let mut tree =
            Tree { nodes: vec![Node { loser: NOBODY, tied: false }; inner], first: None };
        for one in 0..contest.len() {
            // Who comes to a node first waits there for the other.
            if let Some(first) = tree.climb(one as u32, 0, contest) {
                tree.first = Some(first);
            }
        }
        tree
    }

    /// Who is first.
    #[inline]
    pub(super) fn first(&self) -> Option<usize> {
        self.first.map(|first| first as usize)
    }

    /// Who would be first without the first. Those who have its key as well have to be gone (L2).
    pub(super) fn second(&self, contest: &impl Contest) -> Option<usize> {
        let mut node = self.above(self.first?);
        let mut second: Option<usize> = None;
        while node > 0 {
            let loser = self.nodes[node - 1].loser as usize;
            second = Some(match second {
                Some(second) if contest.beats(second, loser).0 => second,
                _ => loser,
            });
            node /= 2;
        }
        second
    }

    /// The node above a leaf.
    fn above(&self, one: u32) -> usize {
        (self.nodes.len() + 1 + one as usize) / 2
    }

    /// Takes one up from its leaf to below a node. Answers who comes there, if it is known.
    #[inline]
    fn climb(&mut self, one: u32, below: usize, contest: &impl Contest) -> Option<u32> {
        let (mut node, mut winner) = (self.above(one), one);
        while node > below {
            let met = &mut self.nodes[node - 1];
            if met.loser == NOBODY {
                met.loser = winner;
                return None;
            }
            let (beats, tied) = contest.beats(met.loser as usize, winner as usize);
            met.tied = tied;
            if beats {
                (met.loser, winner) = (winner, met.loser);
            }
            node /= 2;
        }
        Some(winner)
    }

    /// The lowest node on the first's way whose loser is tied with it.
    #[inline]
    fn tie(&self) -> Option<usize> {
        let mut node = self.above(self.first?);
        while node > 0 {
            if self.nodes[node - 1].tied {
                return Some(node);
            }
            node /= 2;
        }
        None
    }

    /// Somebody who has the first's key.
    #[inline]
    pub(super) fn tied(&self) -> Option<usize> {
        self.tie().map(|node| self.nodes[node - 1].loser as usize)
    }

    /// Whom [`Tree::tied`] named has another key, further on.
    pub(super) fn retie(&mut self, contest: &impl Contest) {
        let (Some(node), Some(first)) = (self.tie(), self.first) else { return };
        let loser = self.nodes[node - 1].loser;
        // Those below the node that it beat may come before it now, and be tied with the first themselves.
        let loser = self.climb(loser, node, contest).expect("every node has its loser");
        let (_, tied) = contest.beats(first as usize, loser as usize);
        self.nodes[node - 1] = Node { loser, tied };
    }

    /// The first has another key, further on.
    #[inline]
    pub(super) fn replay(&mut self, contest: &impl Contest) {
        if let Some(first) = self.first {
            self.first = self.climb(first, 0, contest);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use spillway_base::rng::Rng;

    use super::*;

    /// Ascending lists; the version of a key is its list's number, and smaller ones are newer.
    struct Lists(Vec<Vec<u64>>);

    impl Contest for Lists {
        fn len(&self) -> usize {
            self.0.len()
        }

        fn beats(&self, one: usize, other: usize) -> (bool, bool) {
            match (self.0[one].last(), self.0[other].last()) {
                (Some(a), Some(b)) => ((a, one) < (b, other), a == b),
                (a, _) => (a.is_some(), false),
            }
        }
    }

    #[test]
    fn l1_l2_all_keys_come_in_order_once_and_of_equal_ones_the_first() {
        let mut rng = Rng::new(8);
        for round in 0..3000 {
            let (many, most) = (1 + rng.below(9), 1 + rng.below(12));
            let list = |rng: &mut Rng| {
                let mut keys: Vec<u64> = (0..rng.below(8)).map(|_| rng.below(most)).collect();
                keys.sort_unstable_by(|a, b| b.cmp(a));
                keys.dedup();
                keys
            };
            let mut lists = Lists((0..many).map(|_| list(&mut rng)).collect());
            let mut expected: Vec<(u64, usize)> = Vec::new();
            for (at, keys) in lists.0.iter().enumerate() {
                expected.extend(keys.iter().map(|key| (*key, at)));
            }
            expected.sort_unstable();
            expected.dedup_by_key(|(key, _)| *key);
            let mut tree = Tree::new(&lists);
            let mut seen = Vec::new();
            while let Some(first) = tree.first().filter(|first| !lists.0[*first].is_empty()) {
                seen.push((*lists.0[first].last().unwrap(), first));
                let others = (0..lists.len()).filter(|other| *other != first);
                let ahead =
                    |other: usize| (lists.0[other].is_empty(), lists.0[other].last(), other);
                let second = others.map(ahead).min();
                assert_eq!(tree.second(&lists).map(ahead).map(|it| it.1), second.map(|it| it.1));
                while let Some(tied) = tree.tied() {
                    lists.0[tied].pop();
                    tree.retie(&lists);
                }
                lists.0[first].pop();
                tree.replay(&lists);
            }
            assert_eq!(seen, expected, "round {round}");
        }
    }

    #[test]
    fn of_nobody_nobody_is_first() {
        let mut tree = Tree::new(&Lists(Vec::new()));
        tree.replay(&Lists(Vec::new()));
        assert_eq!((tree.first(), tree.tied()), (None, None));
    }
}
