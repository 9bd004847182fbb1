//! The drop rule: which versions a flush or compaction keeps, and in which form.

use spillway_base::Csn;
use spillway_base::engine::Rewrite;

use crate::block::{BlockWriter, Entry};
use crate::ranges::RangeTombstones;

/// The rule of flushes and compactions: keep the versions that a snapshot may see.
///
/// A version is dropped if there is a newer version of its key, and no live snapshot is at or above
/// the version's CSN and below the newer one's. A range tombstone over the key counts as a newer
/// version for the versions that it hides. Versions above the largest live snapshot are all kept,
/// because later snapshots may see them. A tombstone that every snapshot sees is dropped if it
/// hides nothing: every older version of its key is an input of this merge.
#[derive(Clone, Copy, Debug)]
pub struct DropRule<'a> {
    /// The live snapshots, ascending; the stable CSN is among them.
    pub live: &'a [Csn],
    /// No slice outside of the inputs that may share keys with them has a version below this CSN;
    /// [`Csn::ZERO`] if that is not known.
    pub others_from: Csn,
    /// The range tombstones over the inputs.
    pub ranges: &'a RangeTombstones,
    /// The rewrite of the values that are kept and merged. A value stays as it is if the rewrite
    /// would make it longer (E11).
    pub rewrite: Option<&'a dyn Rewrite>,
}

impl DropRule<'_> {
    /// Whether some snapshot needs a version, where `newer` is the CSN of the next newer version.
    fn keeps(&self, entry: &Entry<'_>, newer: Option<Csn>) -> bool {
        if entry.value.is_none() && self.hides_nothing(entry.csn) {
            return false;
        }
        let hidden = || self.ranges.hidden_from(entry.key, entry.csn);
        let hidden = if self.ranges.is_empty() { None } else { hidden() };
        let Some(newer) = newer.into_iter().chain(hidden).min() else { return true };
        let first = self.live.partition_point(|snapshot| *snapshot < entry.csn);
        self.live.get(first).is_none_or(|snapshot| *snapshot < newer)
    }

    /// Whether a tombstone can be dropped. Every snapshot sees it, so no older version among the
    /// inputs is kept; and there is no older version outside of the inputs.
    fn hides_nothing(&self, csn: Csn) -> bool {
        csn < self.others_from && self.live.first().is_some_and(|oldest| csn <= *oldest)
    }
}

/// Decides for each version, in order, whether it is kept. Of several versions of a key that one
/// commit wrote, only the first is kept, which is the newest.
pub(crate) struct Sieve<'a> {
    rule: &'a DropRule<'a>,
    key: Vec<u8>,
    /// The CSN of the previous version, if it has the same key.
    newer: Option<Csn>,
    value: Vec<u8>,
}

impl<'a> Sieve<'a> {
    pub(crate) fn new(rule: &'a DropRule<'a>) -> Sieve<'a> {
        Sieve { rule, key: Vec::new(), newer: None, value: Vec::new() }
    }

    /// Writes the next version if it is kept, with its value rewritten.
    pub(crate) fn pass(&mut self, entry: &Entry<'_>, writer: &mut BlockWriter) {
        if !self.keeps(entry) {
            return;
        }
        if let (Some(rewrite), Some(value)) = (self.rule.rewrite, entry.value) {
            self.value.clear();
            if rewrite.rewrite(value, &mut self.value) && self.value.len() <= value.len() {
                return writer.push(&Entry { value: Some(&self.value), ..*entry });
            }
        }
        writer.push(entry);
    }

    /// Whether the next version is kept.
    pub(crate) fn keeps(&mut self, entry: &Entry<'_>) -> bool {
        if self.newer.is_none() || entry.key != self.key.as_slice() {
            self.key.clear();
            self.key.extend_from_slice(entry.key);
            self.newer = None;
        }
        let newer = self.newer.replace(entry.csn);
        newer != Some(entry.csn) && self.rule.keeps(entry, newer)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::offload::{Accelerator, Cpu, MergeTask, Piece};
    use super::*;
    use crate::block::Block;
    use crate::memtable::{Accounts, Memtable};
    use spillway_base::budget::Budget;
    use spillway_base::rng::Rng;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    const NONE: RangeTombstones = RangeTombstones::NONE;

    type History = BTreeMap<Vec<u8>, BTreeMap<u64, Option<Vec<u8>>>>;

    fn read(history: &History, key: &[u8], snapshot: u64) -> Option<Vec<u8>> {
        history.get(key)?.range(..=snapshot).next_back()?.1.clone()
    }

    /// All versions of a memtable.
    fn pieces(memtable: &Memtable) -> Vec<Piece> {
        let mut writer = BlockWriter::default();
        let mut place = memtable.seek(b"");
        while let Some(key) = memtable.key(place) {
            for version in memtable.versions(place) {
                writer.push(&Entry { key, csn: version.csn, value: version.value });
            }
            place = memtable.after(place);
        }
        let blocks = writer.finish().into_iter();
        let pieces = blocks.map(|built| {
            let block = Arc::new(Block::of_built(&built.frame).unwrap());
            Piece { entries: 0..block.len(), block }
        });
        pieces.collect()
    }

    /// Random histories over two memtables: the kept versions read the same at every live snapshot,
    /// and at every CSN from the stable one on.
    #[test]
    fn what_is_dropped_was_seen_by_nobody() {
        let mut rng = Rng::new(8);
        let mut dropped = 0;
        for round in 0..400 {
            let accounts = Accounts::new(Budget::new(usize::MAX), 0);
            let (old, new) = (Memtable::new(&accounts), Memtable::new(&accounts));
            let mut history = History::new();
            let top = 40;
            for csn in 1..=top {
                let key = vec![rng.below(4) as u8];
                let value = rng.chance(2, 3).then(|| vec![csn as u8]);
                let to = if csn <= 20 { &old } else { &new };
                let inside = to.enter().unwrap();
                to.insert(&inside, &key, Csn(csn), value.as_deref());
                history.entry(key).or_default().insert(csn, value);
            }
            let stable = 30 + rng.below(11);
            let mut live: Vec<Csn> = (0..rng.below(4)).map(|_| Csn(rng.below(stable))).collect();
            live.push(Csn(stable));
            live.sort_unstable();
            live.dedup();
            let others_from = if round % 2 == 0 { Csn::MAX } else { Csn(10) };
            let rule = DropRule { live: &live, others_from, ranges: &NONE, rewrite: None };
            let mut kept = History::new();
            let mut last: Option<(Vec<u8>, Csn)> = None;
            let sources = vec![pieces(&old), pieces(&new)];
            let task = MergeTask { sources, block_bytes: crate::block::BLOCK_BYTES };
            for block in Cpu.merge(&[task], &rule).unwrap().concat() {
                let block = Block::of_built(&block.frame).unwrap();
                for entry in (0..block.len()).map(|at| block.entry(at)) {
                    let at = (entry.key.to_vec(), entry.csn);
                    if let Some(last) = &last {
                        assert!(last.0 < at.0 || (last.0 == at.0 && last.1 > at.1));
                    }
                    last = Some(at);
                    kept.entry(entry.key.to_vec())
                        .or_default()
                        .insert(entry.csn.0, entry.value.map(<[u8]>::to_vec));
                }
            }
            let all = |history: &History| history.values().map(BTreeMap::len).sum::<usize>();
            dropped += all(&history) - all(&kept);
            for key in history.keys() {
                for snapshot in live.iter().map(|csn| csn.0).chain(stable..=top) {
                    assert_eq!(read(&kept, key, snapshot), read(&history, key, snapshot));
                }
                let newest = history[key].last_key_value();
                if newest.is_some_and(|(csn, value)| *csn >= others_from.0 || value.is_some()) {
                    assert_eq!(kept[key].last_key_value(), newest, "the newest is never dropped");
                }
            }
        }
        assert!(dropped > 5000, "only {dropped} versions were dropped");
    }

    #[test]
    fn versions_stay_for_the_snapshots_between_them() {
        let version = |csn, value| Entry { key: b"k", csn: Csn(csn), value };
        let some = Some(&b"v"[..]);
        let keeps = |live: &[Csn], csn, newer: Option<u64>| {
            let rule = DropRule { live, others_from: Csn::ZERO, ranges: &NONE, rewrite: None };
            rule.keeps(&version(csn, some), newer.map(Csn))
        };
        assert!(keeps(&[Csn(100)], 50, None));
        assert!(!keeps(&[Csn(100)], 40, Some(50)));
        assert!(keeps(&[Csn(45), Csn(100)], 40, Some(50)));
        assert!(!keeps(&[Csn(45), Csn(100)], 30, Some(40)));
        assert!(keeps(&[Csn(45), Csn(100)], 101, Some(102)), "it is not stable yet");
    }

    #[test]
    fn a_tombstone_goes_when_all_see_it_and_nothing_older_is_elsewhere() {
        let tombstone = Entry { key: b"k", csn: Csn(40), value: None };
        let keeps = |oldest, others_from| {
            let others_from = Csn(others_from);
            let rule = DropRule { live: &[Csn(oldest)], others_from, ranges: &NONE, rewrite: None };
            rule.keeps(&tombstone, None)
        };
        assert!(!keeps(40, 41));
        assert!(keeps(39, 41), "a snapshot sees what was there before");
        assert!(keeps(40, 40), "another place may hold an older version");
    }
}
