//! Counts how many whole keys a two-layer search compares, for a given width of heads. The counts
//! are computed from the keys alone; no search runs.

/// Keys of a leaf.
const LEAF: usize = 8;

fn shared(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The most keys that a binary search compares to find a place among `ties` equal heads.
fn halvings(ties: usize) -> u32 {
    usize::BITS - ties.leading_zeros()
}

/// The total number of keys that searches for each of a block's keys compare before they know its
/// place, if heads are this many bytes behind the common prefix.
pub(super) fn compared(keys: &[&[u8]], head_bytes: usize) -> u64 {
    let prefix = keys.first().zip(keys.last()).map_or(0, |(first, last)| shared(first, last));
    let head = |key: &[u8]| {
        let mut head = key[prefix..].to_vec();
        head.resize(head_bytes, 0);
        head
    };
    let heads: Vec<Vec<u8>> = keys.iter().map(|key| head(key)).collect();
    let begins: Vec<&Vec<u8>> = heads.iter().step_by(LEAF).collect();
    let compared_by = |key: usize| {
        let wanted = &heads[key];
        let below = begins.partition_point(|begin| *begin < wanted);
        let upto = begins.partition_point(|begin| *begin <= wanted);
        // Finds the last leaf with this head whose first key is smaller. The keys are in order.
        let begun = (below..upto).take_while(|leaf| leaf * LEAF < key).count();
        let Some(leaf) = (below + begun).checked_sub(1) else { return halvings(upto - below) };
        let in_leaf = &heads[leaf * LEAF..heads.len().min((leaf + 1) * LEAF)];
        let ties = in_leaf.iter().filter(|head| *head == wanted).count();
        halvings(upto - below) + halvings(ties)
    };
    (0..keys.len()).map(|key| u64::from(compared_by(key))).sum()
}
