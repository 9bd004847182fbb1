//! The compaction picker: which slices to compact next, as pure functions of a sub-table's levels.
//!
//! # Rules of a pick
//! - **PICKER-1.** If several runs hold versions of one key, the newer run holds the newer
//!   versions. So a slice leaves Level0 only together with every slice of older sub-levels that
//!   overlaps it.
//! - **PICKER-2.** The runs of Level1 and Level2 stay sorted. So the inputs include every slice of
//!   the target level that overlaps the *hull* of the other inputs: the keys from their smallest to
//!   their largest.
//! - **PICKER-3.** Every pick makes progress: it holds at least one slice of the level that it
//!   relieves.
//! - **PICKER-4.** No pick holds a slice from a range in [`Conflicts`]: damaged keys, or keys that
//!   another compaction holds.
//!
//! # Kinds (X-Engine, section 3.3.3)
//! - *Deletion*: slices with many tombstones, at least a quarter of their versions, go down until
//!   the versions that the tombstones hide are gone. If there are many range tombstones, a deletion
//!   compaction rewrites slices without the versions that these range tombstones hide.
//! - *Intra-Level0*: neighbouring sub-levels merge into one, because a read visits each sub-level.
//!   This happens while Level0 holds too few bytes for a minor compaction, and when Level0 has so
//!   many sub-levels that writers would soon be slowed. The picker weighs two figures: the bytes
//!   that the merge writes, and the number of memtables that Level0 can then take before a merge
//!   must rewrite the result of this one. So it prefers small sub-levels, and many of them.
//! - *Minor*: Level0 is compacted once its bytes reach a fixed number or, if that is more, a share
//!   of the bytes of the lower levels. The picker takes the key range in which Level0 has the most
//!   bytes for each overlapping byte of the level below. The outputs go into Level1. Where it is
//!   cheap, the overlapping part of Level1 is merged as well, and the outputs go into Level2.
//! - *Major*: Level1 is compacted into Level2 once it exceeds its target.
//! - *Self-major*: within Level2, extents of mostly dead blocks, and slices with many versions that
//!   no snapshot sees, are merged into fewer extents once wasted space exceeds a ceiling.
//!
//! The target of Level1 follows from the cost of moving a byte down. For each byte, compactions
//! rewrite about `|L1|/|L0|` bytes on the way from Level0 to Level1, and about `|L2|/|L1|` on the
//! way to Level2. The sum is smallest if both are equal. So Level1's target is the geometric mean
//! of the bytes of Level2 and of the bytes that Level0 holds when it is compacted. Level0 and
//! Level1 also cost space: most of their rows are newer versions of rows in Level2, and both
//! versions are stored. So a ceiling limits Level0 and Level1 together to a share of Level2.
//!
//! # Temperature (appendix C)
//! - **PICKER-5.** Among choices of about the same cost, the coldest goes down.
//! - **PICKER-6.** Hot slices and hot parts of slices stay in Level1, up to a share of its target.
//!   None stays while Level1 is so far over its target that writers would soon be slowed, and none
//!   if a read of Level2 costs no more than one of Level1. So there is always a slice to take down.
//!
//! # A full disk
//! - **PICKER-7.** While space is short, a single tombstone in Level0 or Level1, or a single range
//!   tombstone, makes a deletion compaction due, and one wasted slot in Level2 makes a self-major
//!   compaction due. A deletion compaction then reads at most the bytes that the shape allows. If
//!   the outputs do not fit on the disk, `compact_one` lowers this figure, down to little more than
//!   one slot.
//!
//! # Order
//! The functions here choose within one sub-table. `compact_one` in `engine/work.rs` chooses among
//! all sub-tables and the kinds above. Compactions without which writers would soon be slowed come
//! first. The other kinds follow in the order of the setting `compaction_order`, and by urgency
//! within each kind. If none of them can run, `compact_one` runs a recode compaction (`recode`).

mod conflicts;
mod deletion;
#[cfg(all(test, not(loom)))]
mod fill;
mod hot_keys;
mod level0;
mod major;
#[cfg(all(test, not(loom)))]
mod mix;
mod moves;
mod recode;
#[cfg(all(test, not(loom)))]
mod tests;

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use spillway_base::{Csn, Error, Result};

use crate::extent_meta::SliceId;
use crate::level::{Levels, Run, Slice};
use crate::manifest::Place;
pub(crate) use conflicts::Conflicts;
pub(crate) use moves::{Lodger, pick_moves};
pub(crate) use recode::{pick_recoding, rests_uncompressed};

/// The figures that the picker works with.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Shape {
    /// Sub-levels from which on sub-levels are merged.
    pub(crate) level0_target: usize,
    /// Sub-levels at which writers are slowed.
    pub(crate) level0_limit: usize,
    /// Bytes that Level1 may always hold.
    pub(crate) level1_bytes_min: u64,
    /// Bytes that Level0 may hold even if little is below it.
    pub(crate) level0_bytes: u64,
    /// Bytes that Level0 may hold, as a share of the bytes below it.
    pub(crate) level0_share: f64,
    /// A minor compaction goes straight into Level2 if it overlaps less than this many times its
    /// own bytes there.
    pub(crate) level2_times: f64,
    /// About the bytes from the upper level that one compaction takes.
    pub(crate) input_bytes: u64,
    /// The fewest tombstones for which a deletion compaction takes a slice.
    pub(crate) deletions_min: u64,
    /// Bytes of a slot.
    pub(crate) extent_bytes: u64,
    /// Bytes of a block: a full extent may leave as many unused.
    pub(crate) block_bytes: u64,
    /// The most bytes of Level2's extents for each used byte, before Level2 is compacted by itself.
    pub(crate) space_max: f64,
    /// Bytes that Level0 and Level1 together may hold for each byte of Level2.
    pub(crate) above_max: f64,
    /// The share of Level1's target that hot slices may keep.
    pub(crate) hot_share: f64,
    /// Whether minor compactions take parts of about `input_bytes`, wherever runs end, and
    /// intra-Level0 compactions make room that lasts long.
    pub(crate) even_level0: bool,
    /// While space is short, the most bytes that a deletion compaction reads (PICKER-7).
    pub(crate) short_of_space: Option<u64>,
}

/// The kind of a compaction (X-Engine, section 3.3.3).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CompactionKind {
    /// Removes deleted versions.
    Deletion,
    /// Merges sub-levels of Level0 into one.
    IntraLevel0,
    /// Level0 into Level1.
    Minor,
    /// Level1 into Level2.
    Major,
    /// Within Level2, to save space.
    SelfMajor,
    /// Everything into Level2, on request.
    Full,
    /// Recompresses data of Level2, or data above it that has come to rest.
    Recode,
}

impl fmt::Display for CompactionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kind::Deletion => "deletion",
            Kind::IntraLevel0 => "intra-Level0",
            Kind::Minor => "minor",
            Kind::Major => "major",
            Kind::SelfMajor => "self-major",
            Kind::Full => "full",
            Kind::Recode => "recode",
        })
    }
}

pub(crate) type Kind = CompactionKind;

impl Kind {
    /// All kinds.
    pub(crate) const ALL: [Kind; 7] = [
        Kind::Deletion,
        Kind::IntraLevel0,
        Kind::Minor,
        Kind::Major,
        Kind::SelfMajor,
        Kind::Full,
        Kind::Recode,
    ];

    /// The kinds that the order of a setting contains, in the paper's order.
    pub const ORDER: [Kind; 5] =
        [Kind::Deletion, Kind::IntraLevel0, Kind::Minor, Kind::Major, Kind::SelfMajor];
}

impl FromStr for CompactionKind {
    type Err = Error;

    /// Parses a kind that an order may contain, in letters of either case.
    fn from_str(text: &str) -> Result<CompactionKind> {
        let found =
            Kind::ORDER.into_iter().find(|kind| text.eq_ignore_ascii_case(&kind.to_string()));
        found.ok_or_else(|| {
            let names = Kind::ORDER.map(|kind| kind.to_string()).join(", ");
            Error::invalid(format!(
                "{text} is no kind of compaction that is chosen; there are {names}"
            ))
        })
    }
}

/// A chosen compaction.
#[derive(Clone, Debug)]
pub(crate) struct Pick {
    pub(crate) kind: Kind,
    /// The inputs: one list for each source run, newest first, each in key order.
    pub(crate) sources: Vec<Vec<Arc<Slice>>>,
    /// Blocks of inputs, by their slices, that stay in their level: the compaction cuts the slices.
    pub(crate) keeps: Vec<(SliceId, Vec<Range<usize>>)>,
    /// The level of the outputs.
    pub(crate) target: Place,
}

impl Pick {
    /// All inputs.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &Arc<Slice>> + Clone {
        self.sources.iter().flatten()
    }

    /// The smallest and the largest key of the inputs.
    pub(crate) fn hull(&self) -> (&[u8], &[u8]) {
        hull(self.inputs()).expect("a pick has inputs")
    }
}

/// The first and the last key of slices; `None` if there are none.
pub(crate) fn hull<'a>(
    slices: impl Iterator<Item = &'a Arc<Slice>>,
) -> Option<(&'a [u8], &'a [u8])> {
    slices.fold(None, |hull, slice| {
        let (smallest, largest) = (&*slice.meta.smallest, &*slice.meta.largest);
        let (low, high) = hull.unwrap_or((smallest, largest));
        Some((low.min(smallest), high.max(largest)))
    })
}

impl Shape {
    /// The shape for compactions that free space, and read at most this many bytes (PICKER-7).
    pub(crate) fn short_of_space(self, most: u64) -> Shape {
        let input_bytes = self.input_bytes.min(most);
        Shape { input_bytes, short_of_space: Some(most), ..self }
    }

    /// The most bytes that Level0 should hold.
    pub(crate) fn level0_most(&self, levels: &Levels) -> u64 {
        let below = levels.level1.bytes() + levels.level2.bytes();
        let share = (below as f64 * self.level0_share) as u64;
        share.min(self.above_most(levels) / 3).max(self.level0_bytes)
    }

    /// The ceiling on the bytes of Level0 and Level1 together. It does not apply to the bytes that
    /// each of them may always hold. There is none while Level2 is empty, because then it has no
    /// rows that they replace.
    fn above_most(&self, levels: &Levels) -> u64 {
        match levels.level2.bytes() {
            0 => u64::MAX,
            level2 => (level2 as f64 * self.above_max) as u64,
        }
    }

    /// The most bytes that Level1 should hold.
    pub(crate) fn level1_most(&self, levels: &Levels) -> u64 {
        let level0 = self.level0_most(levels);
        let mean = (level0 as f64 * levels.level2.bytes() as f64).sqrt() as u64;
        mean.min(self.above_most(levels).saturating_sub(level0)).max(self.level1_bytes_min)
    }

    /// Level0's sub-levels relative to their target: 1 asks for a compaction.
    pub(crate) fn sublevels_score(&self, levels: &Levels) -> f64 {
        levels.level0.len() as f64 / self.level0_target as f64
    }

    /// Level0's bytes relative to their target: 1 asks for a compaction.
    pub(crate) fn level0_score(&self, levels: &Levels) -> f64 {
        levels.level0_bytes() as f64 / self.level0_most(levels) as f64
    }

    /// Level1's bytes relative to their target: above 1 asks for a compaction.
    pub(crate) fn level1_score(&self, levels: &Levels) -> f64 {
        levels.level1.bytes() as f64 / self.level1_most(levels) as f64
    }

    /// Bytes over the targets, which compactions should have moved by now.
    pub(crate) fn debt_bytes(&self, levels: &Levels) -> u64 {
        let level0 = levels.level0_bytes().saturating_sub(self.level0_most(levels));
        level0 + levels.level1.bytes().saturating_sub(self.level1_most(levels))
    }

    /// A pick of everything into Level2; `None` if there is nothing.
    pub(crate) fn pick_full(&self, levels: &Levels) -> Option<Pick> {
        let sources: Vec<_> = levels.runs().map(|run| run.slices().to_vec()).collect();
        let any = sources.iter().any(|source| !source.is_empty());
        any.then_some(Pick { kind: Kind::Full, sources, keeps: Vec::new(), target: Place::Level2 })
    }
}

/// A sub-table as the picker sees it.
pub(crate) struct Chooser<'a> {
    pub(crate) shape: Shape,
    pub(crate) levels: &'a Levels,
    /// Keys that no pick may touch.
    pub(crate) bars: &'a Conflicts,
    /// Every live and future snapshot sees the commits up to this one.
    pub(crate) oldest: Csn,
    /// No version in a memtable has a smaller CSN.
    pub(crate) memtables_from: Csn,
}

impl Chooser<'_> {
    /// The urgency of a kind of compaction: from 1 on it is due. `None` if it is not due.
    pub(crate) fn urgency(&self, kind: Kind) -> Option<f64> {
        let (shape, levels) = (&self.shape, self.levels);
        let urgency = match kind {
            Kind::Deletion => self.deletion_score(),
            Kind::IntraLevel0 if self.may_merge_within_level0() => self.sublevels_score(),
            Kind::Minor => self.level0_score(),
            Kind::Major => shape.level1_score(levels),
            Kind::SelfMajor => self.space_score(),
            Kind::IntraLevel0 | Kind::Full | Kind::Recode => 0.0,
        };
        (urgency >= 1.0).then_some(urgency)
    }

    /// Whether writers would soon be slowed without a compaction of this kind.
    pub(crate) fn is_pressing(&self, kind: Kind) -> bool {
        let shape = &self.shape;
        match kind {
            Kind::IntraLevel0 => self.sublevels_score() >= 2.0,
            Kind::Minor => self.level0_score() > 2.0,
            Kind::Major => shape.level1_score(self.levels) > 2.0,
            Kind::Deletion | Kind::SelfMajor | Kind::Full | Kind::Recode => false,
        }
    }

    /// The next compaction of a kind; `None` if none can run now.
    pub(crate) fn pick(&self, kind: Kind) -> Option<Pick> {
        match kind {
            Kind::Deletion => self.pick_deletion(),
            Kind::IntraLevel0 => self.pick_intra_level0(),
            Kind::Minor => self.pick_minor(),
            Kind::Major => self.pick_major(),
            Kind::SelfMajor => self.pick_self_major(),
            Kind::Full | Kind::Recode => None,
        }
    }

    /// The inputs with the slices that they overlap in the level below; `None` if a key of any of
    /// them is barred, or there are no inputs.
    fn with_target(
        &self,
        kind: Kind,
        mut sources: Vec<Vec<Arc<Slice>>>,
        below: &Run,
        target: Place,
    ) -> Option<Pick> {
        let (smallest, largest) = hull(sources.iter().flatten())?;
        sources.push(below.between(smallest, largest).to_vec());
        sources.retain(|source| !source.is_empty());
        let pick = Pick { kind, sources, keeps: Vec::new(), target };
        let (smallest, largest) = pick.hull();
        (!self.bars.overlap(smallest, largest)).then_some(pick)
    }
}
