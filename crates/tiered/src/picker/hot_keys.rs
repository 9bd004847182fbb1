//! The hot slices and parts of slices that stay in Level1 (X-Engine, appendix C).

use std::ops::Range;
use std::sync::Arc;

use super::Chooser;
use crate::level::Slice;
use crate::temperature::{COLD, HOT, REGIONS, Temperature, blocks_of};

/// A piece is worth a cut of its slice if it has at least one in this many bytes of an extent.
const PIECE_SHARE: u64 = 16;

/// Costs up to this many times the least one count as equal to it.
const ALIKE: f64 = 1.25;

/// Whether a ratio of overlapped bytes to own bytes costs about as much as the least ratio.
pub(super) fn are_alike(ratio: f64, least: f64) -> bool {
    1.0 + ratio <= ALIKE * (1.0 + least)
}

/// The common temperature of slices, given the temperature and bytes of each. It is coarse, so that
/// small differences do not count.
pub(super) fn warmth_of(slices: impl Iterator<Item = (Temperature, u64)>) -> u64 {
    let (mut heat, mut all) = (0, 0);
    for (temperature, bytes) in slices {
        heat += u128::from(temperature.0) * u128::from(bytes);
        all += u128::from(bytes);
    }
    (heat / all.max(1)) as u64 / u64::from(COLD)
}

/// The part of a slice that stays.
#[derive(Clone, Default, Debug)]
pub(super) struct KeptHot {
    /// The blocks that stay, as blocks of its extent, in order.
    pub(super) blocks: Vec<Range<usize>>,
}

impl KeptHot {
    /// The number of the slice's blocks that go down.
    fn sinking(&self, slice: &Slice) -> usize {
        slice.meta.blocks as usize - self.blocks.iter().map(Range::len).sum::<usize>()
    }

    /// The temperature of the blocks that go down.
    pub(super) fn sinking_temperature(&self, slice: &Slice) -> Temperature {
        let reads = |blocks: Range<usize>| {
            let count = blocks.len() as u64;
            u64::from(slice.extent.temperature(blocks).0) * count
        };
        let all = reads(slice.meta.block_range());
        let kept: u64 = self.blocks.iter().cloned().map(reads).sum();
        Temperature((all.saturating_sub(kept) / (self.sinking(slice).max(1) as u64)) as u32)
    }

    /// The bytes of the blocks that go down.
    pub(super) fn sinking_bytes(&self, slice: &Slice) -> u64 {
        share_of(slice, self.sinking(slice))
    }
}

/// The approximate bytes of this many of a slice's blocks.
fn share_of(slice: &Slice, blocks: usize) -> u64 {
    (slice.meta.bytes as u128 * blocks as u128 / u128::from(slice.meta.blocks.max(1))) as u64
}

/// A part of a slice whose regions are all hot or all not hot.
struct HotPiece {
    blocks: Range<usize>,
    is_hot: bool,
}

impl Chooser<'_> {
    /// The part of each slice of Level1 that stays there. The hottest parts stay, up to the allowed
    /// share.
    pub(super) fn kept(&self) -> Vec<KeptHot> {
        let slices = self.levels.level1.slices();
        let mut kept = vec![KeptHot::default(); slices.len()];
        let target = self.shape.level1_most(self.levels);
        // Relieving a level has precedence over keeping hot data.
        if self.is_pressing(super::Kind::Major) {
            return kept;
        }
        let mut left = (target as f64 * self.shape.hot_share) as u64;
        let mut hot: Vec<(Temperature, usize, Range<usize>)> = Vec::new();
        for (at, slice) in slices.iter().enumerate() {
            let pieces = self.pieces(slice).into_iter().filter(|piece| piece.is_hot);
            hot.extend(
                pieces.map(|piece| {
                    (slice.extent.temperature(piece.blocks.clone()), at, piece.blocks)
                }),
            );
        }
        hot.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)).then(a.2.start.cmp(&b.2.start)));
        for (_, at, blocks) in hot {
            let cost = self.cost(slices.at(at), share_of(slices.at(at), blocks.len()));
            if cost > left {
                break;
            }
            left -= cost;
            kept[at].blocks.push(blocks);
        }
        kept.iter_mut().for_each(|kept| kept.blocks.sort_by_key(|blocks| blocks.start));
        kept
    }

    /// The bytes of slots that `bytes` bytes of a slice keep occupied, which include a share of the
    /// extent's dead bytes.
    fn cost(&self, slice: &Slice, bytes: u64) -> u64 {
        let extent = &slice.extent;
        let (slots, live) = (self.slots_bytes(extent), extent.live_bytes().max(1));
        (u128::from(bytes) * u128::from(slots.max(live)) / u128::from(live)) as u64
    }

    /// The parts of a slice, in order. No part is too small to be worth a cut.
    fn pieces(&self, slice: &Arc<Slice>) -> Vec<HotPiece> {
        let extent = &slice.extent;
        let blocks = slice.meta.block_range();
        let all = extent.meta.blocks as usize;
        if all < REGIONS {
            let is_hot = slice.temperature().0 >= HOT;
            return vec![HotPiece { blocks, is_hot }];
        }
        let regions = (0..REGIONS).map(|region| {
            let of_region = blocks_of(region, all);
            of_region.start.max(blocks.start)..of_region.end.min(blocks.end)
        });
        let regions = regions.filter(|region| !region.is_empty());
        let pieces = regions.map(|blocks| {
            let is_hot = extent.temperature(blocks.clone()).0 >= HOT;
            HotPiece { blocks, is_hot }
        });
        let is_small = |piece: &HotPiece| {
            share_of(slice, piece.blocks.len()) * PIECE_SHARE < self.shape.extent_bytes
        };
        // A small piece takes the state of its neighbours: first, small cold pieces between hot
        // ones stay; then, small single hot pieces go down.
        let mut pieces = joined(pieces);
        for hot in [true, false] {
            if pieces.len() > 1 {
                let change = |piece: HotPiece| HotPiece {
                    is_hot: if piece.is_hot != hot && is_small(&piece) {
                        hot
                    } else {
                        piece.is_hot
                    },
                    ..piece
                };
                pieces = joined(pieces.into_iter().map(change));
            }
        }
        pieces
    }
}

/// Joins neighbours with equal state.
fn joined(pieces: impl Iterator<Item = HotPiece>) -> Vec<HotPiece> {
    let mut all: Vec<HotPiece> = Vec::new();
    for piece in pieces {
        match all.last_mut().filter(|last| last.is_hot == piece.is_hot) {
            Some(last) => last.blocks.end = piece.blocks.end,
            None => all.push(piece),
        }
    }
    all
}
