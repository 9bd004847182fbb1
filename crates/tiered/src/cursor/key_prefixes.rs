//! Key prefixes: the first bytes of the sources' keys behind a common prefix, as numbers. The merge
//! compares these numbers first, and the keys only where the numbers are equal.

use smallvec::SmallVec;
use spillway_base::Direction;
use spillway_base::codec::key_head;

const WORD: usize = size_of::<u64>();
/// The comparisons of different keys with equal heads after which a search for another prefix
/// begins. Each time that the search finds the same prefix, the next search comes after twice as
/// many comparisons, up to a limit.
const VAIN_FIRST: u32 = 8;
const VAIN_MAX: u32 = 1024;

/// The prefix behind which keys have their heads, and the direction of the scan.
///
/// The *head* of a key is the number made of the eight bytes behind the prefix, the first byte most
/// significant. A key that does not begin with the prefix has the least head if it is below the
/// prefix, and the largest if it is above. In a descending scan, the head is the complement of this
/// number. So of two keys, the one that comes first in the scan never has the larger head. A badly
/// chosen prefix makes heads equal more often, so that more keys must be compared, but changes no
/// result.
///
/// The prefix is the common prefix of the keys at which the sources stand. When the sources have
/// moved to other keys, heads may often be equal ([`KeyPrefixes::is_vain`]). Then the cursor
/// chooses another prefix.
pub(super) struct KeyPrefixes {
    prefix: SmallVec<[u8; 24]>,
    /// The prefix as a number, with a mask of its bytes, if it has at most eight bytes.
    begin: u64,
    mask: u64,
    /// The offset of heads if the prefix has at most eight bytes; otherwise an offset that no key
    /// reaches.
    short: usize,
    /// All ones in a descending scan.
    flip: u64,
    /// The comparisons of different keys with equal heads since the last search for a prefix, and
    /// the number of them at which the next search begins.
    vain: u32,
    borne: u32,
}

/// The length of the common prefix of two keys.
fn shared(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

impl KeyPrefixes {
    pub(super) fn new(direction: Direction) -> KeyPrefixes {
        let flip = match direction {
            Direction::Forward => 0,
            Direction::Backward => u64::MAX,
        };
        KeyPrefixes {
            prefix: SmallVec::new(),
            begin: 0,
            mask: 0,
            short: 0,
            flip,
            vain: 0,
            borne: VAIN_FIRST,
        }
    }

    /// The head of a key.
    #[inline]
    pub(super) fn of(&self, key: &[u8]) -> u64 {
        // Most keys have room for a short prefix and a head after it.
        let head = match (key.first_chunk(), key.get(self.short..).and_then(<[u8]>::first_chunk)) {
            (Some(begin), Some(head))
                if (u64::from_be_bytes(*begin) ^ self.begin) & self.mask == 0 =>
            {
                u64::from_be_bytes(*head)
            }
            _ => self.of_any(key),
        };
        head ^ self.flip
    }

    fn of_any(&self, key: &[u8]) -> u64 {
        match key.strip_prefix(&self.prefix[..]) {
            Some(rest) => key_head(rest),
            None if *key < *self.prefix => 0,
            None => u64::MAX,
        }
    }

    /// Counts comparisons in which different keys had equal heads. Returns whether there were
    /// enough of them to search for another prefix.
    pub(super) fn is_vain(&mut self, times: u32) -> bool {
        self.vain += times;
        self.vain >= self.borne
    }

    /// Chooses the common prefix of these keys. This changes the heads of keys. Returns `false` if
    /// the prefix is unchanged.
    pub(super) fn choose<'k>(&mut self, mut keys: impl Iterator<Item = &'k [u8]>) -> bool {
        self.vain = 0;
        let Some(first) = keys.next() else { return false };
        // The prefix leaves the last eight bytes of a key to the head. So it stays useful for long,
        // also if keys are short.
        let most = first.len().saturating_sub(WORD);
        let len = keys.fold(most, |len, key| len.min(shared(first, key)));
        if *self.prefix == first[..len] {
            self.borne = (2 * self.borne).min(VAIN_MAX);
            return false;
        }
        self.borne = VAIN_FIRST;
        self.prefix = SmallVec::from_slice(&first[..len]);
        self.begin = key_head(&self.prefix);
        self.mask = !u64::MAX.checked_shr(8 * len as u32).unwrap_or(0);
        self.short = if len <= WORD { len } else { usize::MAX };
        true
    }
}
