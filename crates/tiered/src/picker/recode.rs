//! Recompression: rewrites slices that were re-linked to Level2, because they still have the coding
//! of the level above.
//!
//! A compaction leaves unchanged slices alone, even if it moves them to a level with stronger
//! compression. That saves writes under load. Later, a recode compaction merges neighbouring slices
//! into fewer extents (X-Engine's slides, "Storage cost": cold records only). Hot slices stay as
//! they are, because each read of them would pay for the decompression.
//!
//! Data above Level2 is recompressed, too, once its sub-table has *come to rest*: it has not been
//! written to for a while. Otherwise a table that is small in relation to memory would never be
//! compressed, because no new writes drive its rows down. Compacting these rows into Level2 would
//! rewrite the overlapping slices there, perhaps for a few rows. So a recode compaction compresses
//! them in their level, and only if they are a large enough part of the sub-table.

use super::{Kind, Pick};
use crate::coding::Coding;
use crate::level::{Levels, Run};
use crate::manifest::Place;
use crate::temperature::Warmth;

/// Of a sub-table at rest, the least share of its bytes that is worth to be compressed above
/// Level2.
const SHARE_AT_REST: u64 = 10;

/// Whether so much of a sub-table is above Level2, and not compressed by this coding, that it is
/// worth the work once it is at rest: so many bytes at the least.
pub(crate) fn rests_uncompressed(levels: &Levels, coding: Coding, bytes_least: u64) -> bool {
    let plain: u64 = levels
        .level1
        .slices()
        .iter()
        .filter(|slice| slice.extent.meta.coding < coding)
        .map(|slice| slice.meta.bytes)
        .sum();
    let above = levels.level0_bytes() + plain;
    above >= bytes_least && above * SHARE_AT_REST >= levels.runs().map(|run| run.bytes()).sum()
}

/// Of the bytes that are worth it, the share up to which a slice that needs nothing is taken along
/// with its neighbours.
const BRIDGE_SHARE: u64 = 16;

/// The first neighbours in a run that are not hot and whose extents were written with less than
/// this coding, if they have as many bytes as are worth it, and as far as `bytes_most` go.
///
/// A small slice between them that was compressed already is taken along: merges leave such where
/// the ends of their inputs met, every few extents, and neighbours that they part would never be
/// worth it.
pub(crate) fn pick_recoding(
    run: &Run,
    place: Place,
    coding: Coding,
    bytes_least: u64,
    bytes_most: u64,
) -> Option<Pick> {
    // How many of those found there are up to the last that is to be recompressed.
    let (mut found, mut worthy, mut bytes) = (Vec::new(), 0, 0);
    for slice in run.slices() {
        let is_hot = slice.temperature().warmth() == Warmth::Hot;
        if slice.extent.meta.coding < coding && !is_hot {
            bytes += slice.meta.bytes;
            found.push(slice.clone());
            worthy = found.len();
            if bytes >= bytes_most {
                break;
            }
        } else if !is_hot && worthy > 0 && slice.meta.bytes <= bytes_least / BRIDGE_SHARE {
            found.push(slice.clone());
        } else if bytes >= bytes_least {
            break;
        } else {
            (found, worthy, bytes) = (Vec::new(), 0, 0);
        }
    }
    found.truncate(worthy);
    let worth = bytes >= bytes_least && !found.is_empty();
    worth.then_some(Pick {
        kind: Kind::Recode,
        sources: vec![found],
        keeps: Vec::new(),
        target: place,
    })
}
