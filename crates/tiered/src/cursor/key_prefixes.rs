//! Key prefixes: the first bytes of the sources' keys, as numbers that are compared instead of the
//! keys.

use smallvec::SmallVec;
use spillway_base::Direction;

const WORD: usize = size_of::<u64>();
/// Keys with equal heads, from which on another prefix is looked for; each time that there is none
/// the next look comes twice as late, at the latest after so many.
const VAIN_FIRST: u32 = 8;
const VAIN_MAX: u32 = 1024;

/// What heads of keys are behind, and in which order they come.
///
/// The *head* of a key is what its eight bytes behind a prefix make, the first most significant.
/// Keys that do not begin with the prefix have the least there is, or the largest. Descending, it
/// is the complement of that. So of two keys the one that comes first has no larger head, whatever
/// the prefix: that only decides how often heads are equal and the keys have to be compared.
///
/// The prefix is what the keys begin with at which all sources stand. It fails once they have gone
/// on to others: then heads are equal over and over ([`KeyPrefixes::is_vain`]), and another is
/// taken.
pub(super) struct KeyPrefixes {
    prefix: SmallVec<[u8; 24]>,
    /// The prefix as a number, and where it is in that, if it is no longer than that.
    begin: u64,
    mask: u64,
    /// Where heads begin then; where no key goes on otherwise.
    short: usize,
    /// All ones descending.
    flip: u64,
    /// Comparisons in vain, since a prefix was looked for, and how many are borne.
    vain: u32,
    borne: u32,
}

/// The first eight bytes as a number; bytes that are not there are zeros.
fn word(rest: &[u8]) -> u64 {
    if let Some(bytes) = rest.first_chunk() {
        return u64::from_be_bytes(*bytes);
    }
    let mut bytes = [0; WORD];
    bytes[..rest.len()].copy_from_slice(rest);
    u64::from_be_bytes(bytes)
}

/// How many bytes two keys begin with alike.
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
        // Most keys have room for a short prefix and a head behind it.
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
            Some(rest) => word(rest),
            None if *key < *self.prefix => 0,
            None => u64::MAX,
        }
    }

    /// Counts comparisons in which different keys had the same prefix number. Returns whether these
    /// were enough to look for another prefix.
    pub(super) fn is_vain(&mut self, times: u32) -> bool {
        self.vain += times;
        self.vain >= self.borne
    }

    /// Takes the prefix that these keys have. The prefixes are others then; `false` where it is the
    /// one that it was.
    pub(super) fn choose<'k>(&mut self, mut keys: impl Iterator<Item = &'k [u8]>) -> bool {
        self.vain = 0;
        let Some(first) = keys.next() else { return false };
        // Bytes that are no part of the prefix are in the number, as far as there is room: with
        // short keys it may serve for long.
        let most = first.len().saturating_sub(WORD);
        let len = keys.fold(most, |len, key| len.min(shared(first, key)));
        if *self.prefix == first[..len] {
            self.borne = (2 * self.borne).min(VAIN_MAX);
            return false;
        }
        self.borne = VAIN_FIRST;
        self.prefix = SmallVec::from_slice(&first[..len]);
        self.begin = word(&self.prefix);
        self.mask = !u64::MAX.checked_shr(8 * len as u32).unwrap_or(0);
        self.short = if len <= WORD { len } else { usize::MAX };
        true
    }
}
