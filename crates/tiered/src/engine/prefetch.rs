//! Many gets at once: what they lack is read in rounds, each of them all at once.
//!
//! A get finds its blocks one after the other: an extent's table tells which block may have the key, and an older level is asked when a newer
//! one does not have it. Many gets go that way side by side: in each round every key says what it lacks first, and all of that is on its
//! way to memory together. What the gets answer is told by gets, afterwards, and nothing here: a block that could not be read, or has
//! left a small cache again, is read by who needs it, as if nobody had prefetched.
//!
//! What the system has in its own memory is no reason to read anything beside others, and a get may do with a part of a block there. So keys whose
//! gets need no device are left out before the first round. The look that finds that out is not a get: it counts nowhere, and offers no row to the
//! cached ones.

use spillway_base::engine::Access;
use spillway_base::{Csn, ErrorKind};

use crate::extent::{ReadContext, fetch_all};
use crate::filter;
use crate::table::Table;

/// Keys that go side by side: what they need is to stay in a cache until it is used.
const KEYS_AT_ONCE: usize = 64;
/// A key lacks a table and a block of each run that seems to have it; most are found in the first.
const ROUNDS_MAX: usize = 8;

/// Reads what gets of keys would wait for a device for. Answers of how many keys they would.
pub(super) fn prefetch(
    context: &ReadContext,
    table: &Table,
    keys: &[&[u8]],
    snapshot: Csn,
) -> usize {
    let parts = table.parts();
    let rows = context.rows.as_ref();
    let cached = rows.and_then(|rows| Some((rows, table.era(rows)?)));
    let mut value = Vec::new();
    let mut waits = |key: &[u8]| {
        if let Some((rows, tag)) = cached
            && rows.has(tag, filter::hash(key), key, snapshot)
        {
            return false;
        }
        let found = parts.of(key).view_now().find(key, snapshot, Access::AtHand, &mut value);
        found.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    };
    let mut lacked = 0;
    for keys in keys.chunks(KEYS_AT_ONCE) {
        let mut left: Vec<&[u8]> = keys.iter().copied().filter(|key| waits(key)).collect();
        lacked += left.len();
        // One by itself is read no sooner by somebody else.
        if left.len() < 2 {
            continue;
        }
        let mut value = Vec::new();
        for round in 0..ROUNDS_MAX {
            let mut lacking = Vec::new();
            left.retain(|key| {
                let lacks = parts.of(key).view_now().missing(key, snapshot, &mut value);
                if round == 0
                    && let Some((extent, _)) = &lacks
                {
                    context.regret_row_of(filter::hash(key), extent);
                }
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
    lacked
}
