//! The block formats that are compared.

use spillway_tiered::Compression;
use spillway_tiered::blocks::{OpenBlock, Opener, RowOf, Search, bodies, frames};
use zstd_safe::DCtx;

use super::restarts::{self, Coding, RestartBlock, RestartCursor, Room};

/// The compression of blocks in this run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Coded {
    Stored,
    Lz4,
    Zstd,
}

impl Coded {
    pub(super) const ALL: [Coded; 3] = [Coded::Stored, Coded::Lz4, Coded::Zstd];

    pub(super) fn name(self) -> &'static str {
        match self {
            Coded::Stored => "stored",
            Coded::Lz4 => "lz4",
            Coded::Zstd => "zstd",
        }
    }
}

/// A way to build, open and search blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BlockFormat {
    Spillway(Search),
    /// Prefixes and restarts, with CSNs of this many bytes; `None` for as few as Spillway needs.
    Restarts(Option<usize>),
}

/// A row that owns its bytes.
pub(super) struct OwnRow {
    pub(super) key: Vec<u8>,
    pub(super) csn: u64,
    pub(super) value: Vec<u8>,
}

impl OwnRow {
    fn lent(&self) -> RowOf<'_> {
        (&self.key, self.csn, &self.value)
    }
}

/// The number of rows in each of Spillway's full blocks, for these rows.
pub(super) fn cuts(rows: &[OwnRow]) -> Vec<usize> {
    bodies(rows.iter().map(OwnRow::lent)).into_iter().map(|(_, rows)| rows).collect()
}

impl BlockFormat {
    pub(super) const ALL: [BlockFormat; 5] = [
        BlockFormat::Spillway(Search::Simd),
        BlockFormat::Spillway(Search::Nodes),
        BlockFormat::Spillway(Search::Halving),
        BlockFormat::Restarts(None),
        BlockFormat::Restarts(Some(8)),
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            BlockFormat::Spillway(Search::Simd) => "spillway",
            BlockFormat::Spillway(Search::Nodes) => "without simd",
            BlockFormat::Spillway(Search::Halving) => "without block-nodes",
            BlockFormat::Restarts(None) => "restarts",
            BlockFormat::Restarts(Some(_)) => "restarts, 8-byte CSNs",
        }
    }

    fn csn_bytes(rows: &[OwnRow]) -> usize {
        let most = rows.iter().map(|row| row.csn).max().unwrap_or_default();
        (u64::BITS - most.leading_zeros()).div_ceil(8) as usize
    }

    /// The frames of blocks with these numbers of rows.
    pub(super) fn frames(self, rows: &[OwnRow], cuts: &[usize], coded: Coded) -> Vec<Vec<u8>> {
        match self {
            BlockFormat::Spillway(_) => {
                let bodies = bodies(rows.iter().map(OwnRow::lent));
                let bodies: Vec<&[u8]> = bodies.iter().map(|(body, _)| &body[..]).collect();
                let compression = match coded {
                    Coded::Stored => Compression::None,
                    Coded::Lz4 => Compression::Lz4,
                    Coded::Zstd => Compression::ZSTD,
                };
                frames(&bodies, compression)
            }
            BlockFormat::Restarts(wide) => {
                let coding = match coded {
                    Coded::Stored => Coding::Stored,
                    Coded::Lz4 => Coding::Lz4,
                    Coded::Zstd => Coding::Zstd,
                };
                let csn_bytes = wide.unwrap_or(BlockFormat::csn_bytes(rows));
                let mut rest = rows;
                let frame = |cut: &usize| {
                    let (block, behind) = rest.split_at(*cut);
                    rest = behind;
                    let body = restarts::body(block.iter().map(OwnRow::lent), csn_bytes);
                    restarts::frame(&body, coding)
                };
                cuts.iter().map(frame).collect()
            }
        }
    }

    /// The opener for this subject.
    pub(super) fn opener(self, rows: &[OwnRow]) -> AnyOpener {
        match self {
            BlockFormat::Spillway(search) => AnyOpener::Spillway(Opener::new(search)),
            BlockFormat::Restarts(wide) => AnyOpener::Restarts {
                csn_bytes: wide.unwrap_or(BlockFormat::csn_bytes(rows)),
                zstd: DCtx::create(),
            },
        }
    }
}

/// An opener of a subject's blocks.
pub(super) enum AnyOpener {
    Spillway(Opener),
    Restarts { csn_bytes: usize, zstd: DCtx<'static> },
}

/// Open blocks.
pub(super) enum AnyBlocks {
    Spillway(Vec<OpenBlock>),
    Restarts(Vec<RestartBlock>),
}

impl AnyOpener {
    /// Opens blocks from whole frames.
    pub(super) fn open(&mut self, frames: &[Vec<u8>]) -> Result<AnyBlocks, String> {
        match self {
            AnyOpener::Spillway(opener) => {
                let blocks: spillway_base::Result<Vec<_>> =
                    frames.iter().map(|frame| opener.open(frame)).collect();
                blocks.map(AnyBlocks::Spillway).map_err(|error| error.to_string())
            }
            AnyOpener::Restarts { csn_bytes, zstd } => {
                let blocks = frames.iter().map(|frame| RestartBlock::open(frame, *csn_bytes, zstd));
                let blocks: Option<Vec<_>> = blocks.collect();
                blocks.map(AnyBlocks::Restarts).ok_or_else(|| "a block is damaged".to_owned())
            }
        }
    }
}

/// Mixes the bytes read of a row into a sum that depends on the row.
fn mix(sum: u64, (key, value): (&[u8], &[u8])) -> u64 {
    let end = key.last().copied().unwrap_or_default();
    let begin = value.first().copied().unwrap_or_default();
    sum.rotate_left(1) ^ (u64::from(end) << 8 | u64::from(begin)) ^ (value.len() as u64) << 32
}

impl AnyBlocks {
    pub(super) fn memory_bytes(&self) -> usize {
        match self {
            AnyBlocks::Spillway(blocks) => blocks.iter().map(OpenBlock::memory_bytes).sum(),
            AnyBlocks::Restarts(blocks) => blocks.iter().map(RestartBlock::memory_bytes).sum(),
        }
    }

    /// Seeks each key in its block.
    pub(super) fn seek(&self, wanted: &[(usize, &[u8])]) -> u64 {
        let mut sum = 0;
        match self {
            AnyBlocks::Spillway(blocks) => {
                for (block, key) in wanted {
                    let block = &blocks[*block];
                    let row = block.walk(block.seek(key).min(block.len() - 1));
                    sum = mix(sum, row.row()) ^ u64::from(row.row().0 == *key);
                }
            }
            AnyBlocks::Restarts(blocks) => {
                let mut room = Room::default();
                for (block, key) in wanted {
                    let mut cursor = RestartCursor::new(&blocks[*block], &mut room);
                    cursor.seek(key);
                    sum = mix(sum, cursor.row()) ^ u64::from(cursor.row().0 == *key);
                }
            }
        }
        sum
    }

    /// Walks blocks from start to end.
    pub(super) fn forward(&self) -> u64 {
        let mut sum = 0;
        match self {
            AnyBlocks::Spillway(blocks) => {
                for block in blocks {
                    let mut walk = block.walk(0);
                    sum = mix(sum, walk.row());
                    while walk.forward() {
                        sum = mix(sum, walk.row());
                    }
                }
            }
            AnyBlocks::Restarts(blocks) => {
                let mut room = Room::default();
                for block in blocks {
                    let mut cursor = RestartCursor::new(block, &mut room);
                    let mut is_on_row = cursor.first();
                    while is_on_row {
                        sum = mix(sum, cursor.row());
                        is_on_row = cursor.forward();
                    }
                }
            }
        }
        sum
    }

    /// Walks blocks from end to start.
    pub(super) fn backward(&self) -> u64 {
        let mut sum = 0;
        match self {
            AnyBlocks::Spillway(blocks) => {
                for block in blocks.iter().rev() {
                    let mut walk = block.walk(block.len() - 1);
                    sum = mix(sum, walk.row());
                    while walk.backward() {
                        sum = mix(sum, walk.row());
                    }
                }
            }
            AnyBlocks::Restarts(blocks) => {
                let mut room = Room::default();
                for block in blocks.iter().rev() {
                    let mut cursor = RestartCursor::new(block, &mut room);
                    let mut is_on_row = cursor.last();
                    while is_on_row {
                        sum = mix(sum, cursor.row());
                        is_on_row = cursor.backward();
                    }
                }
            }
        }
        sum
    }
}
