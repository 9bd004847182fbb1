//! Many gets at once: what they lack is read in rounds, each of them all at once.
//!
//! A get finds its blocks one after the other: an extent's table tells which block may have the key, and an older level is asked when a newer
//! one does not have it. Many gets go that way side by side: in each round every key says what it lacks first, and all of that is on its
//! way to memory together. What the gets answer is told by gets, afterwards, and nothing here: a block that could not be read, or has
//! left a small cache again, is read by who needs it, as if nobody had prefetched.

use spillway_base::Csn;

use crate::extent::fetch_all;
use crate::table::Table;

/// Keys that go side by side: what they need is to stay in a cache until it is used.
const KEYS_AT_ONCE: usize = 64;
/// A key lacks a table and a block of each run that seems to have it; most are found in the first.
const ROUNDS_MAX: usize = 8;

/// Reads what gets of keys lack.
pub(super) fn prefetch(table: &Table, keys: &[&[u8]], snapshot: Csn) {
    let parts = table.parts();
    let mut value = Vec::new();
    for keys in keys.chunks(KEYS_AT_ONCE) {
        let mut left: Vec<&[u8]> = keys.to_vec();
        for _ in 0..ROUNDS_MAX {
            let mut lacking = Vec::new();
            left.retain(|key| {
                let lacks = parts.of(key).view_now().missing(key, snapshot, &mut value);
                let lacks_some = lacks.is_some();
                lacking.extend(lacks);
                lacks_some
            });
            if left.is_empty() {
                break;
            }
            lacking.sort_unstable_by_key(|(extent, missing)| (extent.meta.id.0, *missing));
            lacking.dedup_by_key(|(extent, missing)| (extent.meta.id.0, *missing));
            fetch_all(&lacking);
        }
    }
}
