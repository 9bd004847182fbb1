//! Recompression: rewrites slices that were re-linked to Level2 and so still have the coding of the
//! level above.
//!
//! A compaction re-links a slice that it need not merge, even to a level with stronger compression.
//! That saves writes under load. Later, a recode compaction compresses such slices, and packs
//! neighbouring ones into fewer extents (X-Engine's slides, "Storage cost": cold records only). Hot
//! slices stay as they are, because each read of them would pay for the decompression.
//!
//! Slices above Level2 are compressed, too, once their sub-table has *come to rest*: nothing has
//! been written to it for a while. A table that is small in relation to memory would otherwise
//! never be compressed, because no new writes drive its rows down to Level2.
//!
//! In a sub-table at rest, minor compactions first take Level0 down. Then recode compactions
//! compress the slices of Level1 in place. (A compaction into Level2 would also rewrite the
//! overlapping slices of Level2, perhaps for a few rows.) A sub-table at rest is compressed only if
//! the uncompressed slices above Level2 are a large enough part of it.

use super::{Kind, Pick};
use crate::coding::Coding;
use crate::level::{Levels, Run};
use crate::manifest::Place;
use crate::temperature::Warmth;

/// Compressing the bytes of a resting sub-table above Level2 is worth the work if they are at least
/// one in this many of all its bytes.
const SHARE_AT_REST: u64 = 10;

/// Whether so much of a sub-table is above Level2 and not compressed with this coding that
/// compressing it is worth the work once the sub-table is at rest: at least `bytes_least` bytes.
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

/// A slice that needs no recoding is taken along with its neighbours if it has at most one in this
/// many of `bytes_least` bytes.
const BRIDGE_SHARE: u64 = 16;

/// The first adjacent slices of a run that are not hot and whose extents were written with a weaker
/// coding, if they have enough bytes to be worth it, up to `bytes_most`.
///
/// A small slice between them that is compressed already is taken along. Merges leave such slices
/// every few extents, where their inputs' ends met. If a small slice ended the pick, the slices
/// between two of them would never have enough bytes.
pub(crate) fn pick_recoding(
    run: &Run,
    place: Place,
    coding: Coding,
    bytes_least: u64,
    bytes_most: u64,
) -> Option<Pick> {
    // The number of slices found, the number up to the last one to recompress, and their bytes.
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
