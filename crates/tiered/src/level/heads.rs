//! The heads of sorted keys: the first bytes behind a common prefix, as an array of numbers.

use spillway_base::codec::key_head;

/// The most bytes of a prefix before the heads.
const PREFIX_BYTES: usize = 24;

/// The heads of pairs of keys, each a smallest and a largest key: the eight bytes after the common
/// prefix of all keys, as numbers. A smaller key never has a larger head. A search reads adjacent
/// numbers, and compares keys only if heads are equal.
#[derive(Clone, Default, Debug)]
pub(super) struct Heads {
    prefix: [u8; PREFIX_BYTES],
    prefix_bytes: usize,
    largest: Vec<u64>,
    smallest: Vec<u64>,
}

impl Heads {
    /// The heads of pairs in key order.
    pub(super) fn of<'a>(
        pairs: impl DoubleEndedIterator<Item = (&'a [u8], &'a [u8])> + ExactSizeIterator + Clone,
    ) -> Heads {
        let mut heads = Heads::default();
        let (mut ends, count) = (pairs.clone(), pairs.len());
        if let Some((first, largest)) = ends.next() {
            let last = ends.next_back().map_or(largest, |(_, largest)| largest);
            let alike = first.iter().zip(last).take_while(|(a, b)| a == b).count();
            heads.prefix_bytes = alike.min(PREFIX_BYTES);
            heads.prefix[..heads.prefix_bytes].copy_from_slice(&first[..heads.prefix_bytes]);
        }
        [heads.largest, heads.smallest] = [(), ()].map(|()| Vec::with_capacity(count));
        let behind = heads.prefix_bytes;
        for (smallest, largest) in pairs {
            heads.largest.push(key_head(&largest[behind..]));
            heads.smallest.push(key_head(&smallest[behind..]));
        }
        heads
    }

    /// The head of a key. A key above all keys with the prefix has the largest head, and a key
    /// below all of them has none.
    #[inline]
    pub(super) fn of_key(&self, key: &[u8]) -> Option<u64> {
        let prefix = &self.prefix[..self.prefix_bytes];
        match key.split_at_checked(self.prefix_bytes) {
            Some((begin, rest)) if begin == prefix => Some(key_head(rest)),
            _ => (key > prefix).then_some(u64::MAX),
        }
    }

    /// The index of the first pair whose largest key is not below `key`, which has this head; the
    /// number of pairs if there is none.
    #[inline]
    pub(super) fn seek<'a>(
        &self,
        head: u64,
        key: &[u8],
        largest_of: impl Fn(usize) -> &'a [u8],
    ) -> usize {
        let mut at = self.largest.partition_point(|largest| *largest < head);
        if self.largest.get(at).is_none_or(|largest| *largest != head) {
            return at;
        }
        let alike = self.largest[at..].partition_point(|largest| *largest <= head);
        // Among pairs with this head, only their keys decide.
        let mut past = at + alike;
        while at < past {
            let middle = at + (past - at) / 2;
            match largest_of(middle) < key {
                true => at = middle + 1,
                false => past = middle,
            }
        }
        at
    }

    /// The head of a smallest key.
    #[inline]
    pub(super) fn smallest(&self, at: usize) -> u64 {
        self.smallest[at]
    }
}
