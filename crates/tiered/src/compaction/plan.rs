//! The planner decides which slices and blocks of the sources pass unchanged, and which are merged
//! (X-Engine, section 3.3.2, "Data reuse").

use std::sync::Arc;

use spillway_base::{Csn, Result};

use super::input::{MergeInput, Origin, Unit};
use super::offload::{MergeTask, Piece};
use super::split_points::SplitPoints;
use crate::block::{Block, SMALL_BYTES};
use crate::coding::Coding;
use crate::level::Slice;
use crate::ranges::RangeTombstones;

/// Bytes of entries after which a task ends at the next key.
pub(crate) const TASK_BYTES: u64 = 256 << 10;

/// The policy of data reuse: which slices and blocks may pass.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Policy {
    /// Whether slices and blocks may be re-linked and carried. If not, every entry is merged, as in
    /// an LSM-tree without data reuse.
    pub(crate) reuse: bool,
    /// See [`super::DropRule`].
    pub(crate) others_from: Csn,
    /// The least bytes of a slice that stays where it is.
    pub(crate) slice_bytes_min: u64,
    /// The least bytes in use for each slot of an extent whose slices stay where they are.
    pub(crate) used_bytes_min: u64,
    /// The weakest coding of an extent whose slices stay where they are.
    pub(crate) coding_min: Coding,
    /// Bytes of a full block in memory.
    pub(crate) block_bytes: usize,
}

impl Policy {
    /// Whether a slice of this many bytes may stay in this extent.
    pub(crate) fn may_stay(&self, slice: &Slice, bytes: u64) -> bool {
        let slots = u64::from(slice.extent.meta.slots.count);
        bytes >= self.slice_bytes_min
            && slice.extent.used_bytes() >= self.used_bytes_min * slots
            && slice.extent.meta.coding >= self.coding_min
    }
}

/// The next step, in key order.
pub(crate) enum Step {
    /// The whole slice stays where it is.
    Relink(Arc<Slice>),
    /// A block passes unchanged: no other source has keys within its range.
    Pass(Origin),
    Merge(MergeTask),
}

/// Cuts a flush or compaction into steps.
pub(crate) struct Planner<'a> {
    sources: Vec<MergeInput<'a>>,
    policy: Policy,
    /// The range tombstones that every live snapshot sees.
    ripe: &'a RangeTombstones,
    /// A merge ends at each of these keys.
    cuts: &'a SplitPoints,
    /// The slices and blocks that were not read, because all of their versions are hidden.
    gone: Gone,
}

/// The slices and blocks that a flush or compaction drops unread.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Gone {
    pub(crate) slices: u64,
    /// Blocks, except for those of these slices.
    pub(crate) blocks: u64,
    pub(crate) bytes: u64,
}

/// Whether the next piece of a source passes.
#[derive(PartialEq, Eq)]
enum PassVerdict {
    Slice,
    Block,
    /// It does not, and was not opened yet.
    Closed,
    No,
}

/// Blocks that are merged together: the pieces of each source, and the last block of each source,
/// which may reach past the group's end.
struct MergeGroup {
    pieces: Vec<Vec<Piece>>,
    tails: Vec<Option<Unit>>,
    /// The pieces before the tails can no longer be cut, and have versions of keys up to this one.
    /// So the group ends past this key.
    covered: Vec<u8>,
    bytes: u64,
}

impl<'a> Planner<'a> {
    pub(crate) fn new(
        sources: Vec<MergeInput<'a>>,
        policy: Policy,
        ripe: &'a RangeTombstones,
    ) -> Planner<'a> {
        Planner { sources, policy, ripe, cuts: SplitPoints::NONE, gone: Gone::default() }
    }

    /// Also ends tasks at cuts. Blocks from a memtable end there, too (COMPACTION-6).
    pub(crate) fn cut_at(mut self, cuts: &'a SplitPoints) -> Planner<'a> {
        self.cuts = cuts;
        self
    }

    /// The slices and blocks that were dropped unread so far.
    pub(crate) fn gone(&self) -> Gone {
        self.gone
    }

    /// Drops the next slices and blocks whose versions are all hidden (RANGE-TOMBSTONE-5).
    fn leave_out(&mut self) {
        if self.ripe.is_empty() {
            return;
        }
        for source in &mut self.sources {
            loop {
                if let Some(slice) = source.slice() {
                    let meta = &slice.meta;
                    let newest = meta.counts.csn_max;
                    if !self.ripe.hides_all(&meta.smallest, &meta.largest, newest) {
                        break;
                    }
                    self.gone.slices += 1;
                    self.gone.bytes += meta.bytes;
                    source.take_slice();
                } else if let Some(unit) = source.whole_unit() {
                    let newest = unit.counts().csn_max;
                    if !self.ripe.hides_all(unit.first(), unit.last(), newest) {
                        break;
                    }
                    self.gone.blocks += 1;
                    self.gone.bytes += unit.counts().payload_bytes;
                    source.take_unit();
                } else {
                    break;
                }
            }
        }
    }

    /// The next step; `None` at the end.
    ///
    /// # Errors
    /// The error of reading an index or a block.
    pub(crate) fn next(&mut self) -> Result<Option<Step>> {
        loop {
            self.leave_out();
            let Some(next) = self.first() else { return Ok(None) };
            match self.verdict(next) {
                PassVerdict::Slice => return Ok(self.sources[next].take_slice().map(Step::Relink)),
                PassVerdict::Block => {
                    let unit = self.sources[next].take_unit();
                    return Ok(unit.map(|unit| Step::Pass(unit.origin)));
                }
                PassVerdict::Closed => self.sources[next].open()?,
                PassVerdict::No => return self.group().map(|task| Some(Step::Merge(task))),
            }
        }
    }

    /// The source with the smallest key.
    fn first(&self) -> Option<usize> {
        let keys = self.sources.iter().enumerate();
        let keys = keys.filter_map(|(at, source)| Some((source.key()?, at)));
        keys.min().map(|(_, at)| at)
    }

    /// Whether the next keys of all other sources lie after a key.
    fn others_past(&self, source: usize, key: &[u8]) -> bool {
        let mut others = self.sources.iter().enumerate().filter(|(at, _)| *at != source);
        others.all(|(_, other)| other.key().is_none_or(|first| first > key))
    }

    fn verdict(&self, source: usize) -> PassVerdict {
        let supply = &self.sources[source];
        if let Some(slice) = supply.slice() {
            let meta = &slice.meta;
            let passes = self.policy.reuse
                && meta.counts.are_clean(self.policy.others_from)
                && !self.ripe.touches(&meta.smallest, &meta.largest, meta.counts.csn_min)
                && self.policy.may_stay(slice, meta.bytes)
                && self.others_past(source, &meta.largest);
            return if passes { PassVerdict::Slice } else { PassVerdict::Closed };
        }
        let Some(unit) = supply.whole_unit() else { return PassVerdict::No };
        let sound = match &unit.origin {
            // The drop rule has already been applied to it.
            Origin::Memory(..) => !unit.goes_on(),
            Origin::Extent(..) => {
                let counts = unit.counts();
                self.policy.reuse
                    && counts.are_clean(self.policy.others_from)
                    && !self.ripe.touches(unit.first(), unit.last(), counts.csn_min)
                    && counts.payload_bytes >= SMALL_BYTES as u64
                    && !unit.goes_on()
            }
        };
        let passes = sound && self.others_past(source, unit.last());
        if passes { PassVerdict::Block } else { PassVerdict::No }
    }

    /// Gathers the blocks of the next merge: up to a key at which something passes unchanged, or
    /// until the task is large enough.
    fn group(&mut self) -> Result<MergeTask> {
        let sources = self.sources.len();
        let mut group = MergeGroup {
            pieces: vec![Vec::new(); sources],
            tails: (0..sources).map(|_| None).collect(),
            covered: self.first().and_then(|at| self.sources[at].key()).unwrap_or_default().into(),
            bytes: 0,
        };
        let mut end: Option<Vec<u8>> = None;
        let cuts_before = self.cuts.before_key(&group.covered);
        loop {
            self.leave_out();
            let Some(next) = self.first() else { break };
            let key = self.sources[next].key().unwrap_or_default().to_vec();
            if key > group.covered {
                if group.bytes >= TASK_BYTES || self.cuts.before_key(&key) != cuts_before {
                    end = Some(key);
                    break;
                }
                let verdict = self.verdict(next);
                let passes = matches!(verdict, PassVerdict::Slice | PassVerdict::Block);
                // If the rest would be a small block, its neighbour is merged, too.
                let reached = group.reaches(&key);
                if passes && (reached || group.bytes >= SMALL_BYTES as u64) {
                    let last = self.last_of(next).to_vec();
                    if !reached || self.leaves_out(&mut group, &key, &last)? {
                        end = Some(key);
                        break;
                    }
                }
            }
            if self.sources[next].slice().is_some() {
                self.sources[next].open()?;
                continue;
            }
            if let Some(unit) = self.sources[next].take_unit() {
                self.take_in(&mut group, next, unit)?;
            }
        }
        self.close(group, end.as_deref())
    }

    /// The last key of the next slice or block.
    fn last_of(&self, source: usize) -> &[u8] {
        let supply = &self.sources[source];
        match supply.slice() {
            Some(slice) => &slice.meta.largest,
            None => supply.whole_unit().map(Unit::last).unwrap_or_default(),
        }
    }

    /// Whether the group has no key from `first` to `last`, although one of its blocks spans them.
    fn leaves_out(&mut self, group: &mut MergeGroup, first: &[u8], last: &[u8]) -> Result<bool> {
        for tail in &mut group.tails {
            let Some(tail) = tail.as_mut().filter(|tail| tail.last() >= first) else { continue };
            if tail.last() <= last {
                return Ok(false);
            }
            let block = MergeInput::decode(tail)?;
            let at = block.seek(first).max(tail.from);
            if at < block.len() && block.entry(at).key <= last {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn take_in(&mut self, group: &mut MergeGroup, source: usize, mut unit: Unit) -> Result<()> {
        let block = MergeInput::decode(&mut unit)?;
        let all = block.len();
        let bytes = unit.counts().payload_bytes;
        group.bytes += bytes * (all - unit.from) as u64 / all as u64;
        group.pieces[source].push(Piece { block, entries: unit.from..all });
        if let Some(before) = group.tails[source].replace(unit) {
            group.covered = group.covered.as_slice().max(before.last()).to_vec();
        }
        Ok(())
    }

    /// Ends a group before the key `end`, and gives entries from this key on back to their sources.
    fn close(&mut self, mut group: MergeGroup, end: Option<&[u8]>) -> Result<MergeTask> {
        for (source, tail) in group.tails.into_iter().enumerate() {
            let (Some(mut unit), Some(end)) = (tail, end) else { continue };
            if unit.last() < end {
                continue;
            }
            let block: Arc<Block> = MergeInput::decode(&mut unit)?;
            let at = block.seek(end).max(unit.from);
            if let Some(piece) = group.pieces[source].last_mut() {
                piece.entries.end = at;
            }
            unit.from = at;
            self.sources[source].give_back(unit);
        }
        group.pieces.retain(|pieces| !pieces.is_empty());
        Ok(MergeTask { sources: group.pieces, block_bytes: self.policy.block_bytes })
    }
}

impl MergeGroup {
    /// Whether it has a block that reaches to a key.
    fn reaches(&self, key: &[u8]) -> bool {
        self.tails.iter().flatten().any(|tail| tail.last() >= key)
    }
}
