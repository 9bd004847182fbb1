//! Recompression: what came down to Level2 by being re-linked is compressed as it was above.
//!
//! A compaction leaves alone what it need not change, also where it goes to a level that compresses more. That saves the writing while there is
//! much to write; afterwards, neighbours are put together into fewer extents (X-Engine's slides, "Storage cost": cold records only). What is
//! hot stays as it is: each read of it would pay for the bytes.

use super::{Kind, Pick};
use crate::coding::Coding;
use crate::level::Levels;
use crate::manifest::Place;
use crate::temperature::Warmth;

/// The first neighbours in Level2 that are not hot and whose extents were written with less than this coding, if they have as many bytes as are worth it, and
/// as far as `bytes_most` go.
pub(crate) fn pick_recoding(
    levels: &Levels,
    coding: Coding,
    bytes_least: u64,
    bytes_most: u64,
) -> Option<Pick> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    for slice in levels.level2.slices() {
        let is_hot = slice.temperature().warmth() == Warmth::Hot;
        if slice.extent.meta.coding < coding && !is_hot {
            bytes += slice.meta.bytes;
            found.push(slice.clone());
            if bytes >= bytes_most {
                break;
            }
        } else if bytes >= bytes_least {
            break;
        } else {
            (found, bytes) = (Vec::new(), 0);
        }
    }
    let worth = bytes >= bytes_least && !found.is_empty();
    worth.then_some(Pick {
        kind: Kind::Recode,
        sources: vec![found],
        keeps: Vec::new(),
        target: Place::Level2,
    })
}
