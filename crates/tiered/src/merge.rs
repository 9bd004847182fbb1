//! Merging for flush and compaction: every version, in order, and which of them are kept.

use std::sync::Arc;

use spillway_base::engine::Access;
use spillway_base::{Csn, Result};

use crate::block::{Block, Entry};
use crate::extent::{ExtentHandle, Resident};
use crate::memtable::{Memtable, Place};

/// Every version of a memtable or of a sorted list of extents, by key, newest first.
pub(crate) enum Versions<'a> {
    Memtable { memtable: &'a Memtable, place: Place, csns: Vec<Csn>, at: usize },
    Extents { extents: std::vec::IntoIter<Arc<ExtentHandle>>, open: Option<Open> },
}

/// An extent that is being read through, past the cache.
pub(crate) struct Open {
    extent: Arc<ExtentHandle>,
    resident: Arc<Resident>,
    block_next: usize,
    block: Block,
    entry: usize,
}

impl<'a> Versions<'a> {
    pub(crate) fn of_memtable(memtable: &'a Memtable) -> Versions<'a> {
        let place = memtable.seek(b"");
        let csns = memtable.versions(place).map(|version| version.csn).collect();
        Versions::Memtable { memtable, place, csns, at: 0 }
    }

    pub(crate) fn of_extents(extents: Vec<Arc<ExtentHandle>>) -> Result<Versions<'a>> {
        let mut extents = extents.into_iter();
        let open = next_extent(&mut extents)?;
        Ok(Versions::Extents { extents, open })
    }

    /// The version it stands on; `None` past the last.
    pub(crate) fn entry(&self) -> Option<Entry<'_>> {
        match self {
            Versions::Memtable { memtable, place, csns, at } => {
                let key = memtable.key(*place)?;
                let version = memtable.visible(*place, *csns.get(*at)?)?;
                Some(Entry { key, csn: version.csn, value: version.value })
            }
            Versions::Extents { open, .. } => {
                open.as_ref().map(|open| open.block.entry(open.entry))
            }
        }
    }

    pub(crate) fn advance(&mut self) -> Result<()> {
        match self {
            Versions::Memtable { memtable, place, csns, at } => {
                *at += 1;
                if *at == csns.len() {
                    *place = memtable.after(*place);
                    csns.clear();
                    csns.extend(memtable.versions(*place).map(|version| version.csn));
                    *at = 0;
                }
            }
            Versions::Extents { extents, open } => {
                let Some(current) = open else { return Ok(()) };
                current.entry += 1;
                if current.entry < current.block.len() {
                    return Ok(());
                }
                if current.block_next < current.resident.blocks() {
                    current.block =
                        current.extent.read_block(&current.resident, current.block_next)?;
                    current.block_next += 1;
                    current.entry = 0;
                } else {
                    *open = next_extent(extents)?;
                }
            }
        }
        Ok(())
    }
}

fn next_extent(extents: &mut std::vec::IntoIter<Arc<ExtentHandle>>) -> Result<Option<Open>> {
    let Some(extent) = extents.next() else { return Ok(None) };
    let resident = extent.resident(Access::Blocking)?;
    let block = extent.read_block(&resident, 0)?;
    Ok(Some(Open { extent, resident, block_next: 1, block, entry: 0 }))
}

/// Merges sources, newest first, and gives what is kept to `emit`, in order. Of equal versions one is given.
pub(crate) fn merge(
    mut sources: Vec<Versions<'_>>,
    rule: &DropRule<'_>,
    emit: &mut dyn FnMut(&Entry<'_>) -> Result<()>,
) -> Result<()> {
    let mut key: Vec<u8> = Vec::new();
    let mut started = false;
    let mut kept = Kept::default();
    loop {
        let mut best: Option<(usize, Entry<'_>)> = None;
        for (index, source) in sources.iter().enumerate() {
            let Some(entry) = source.entry() else { continue };
            let earlier = best.as_ref().is_none_or(|(_, other)| {
                entry.key.cmp(other.key).then(other.csn.cmp(&entry.csn)).is_lt()
            });
            if earlier {
                best = Some((index, entry));
            }
        }
        let Some((index, entry)) = best else { break };
        if !started || entry.key != key.as_slice() {
            // Tombstones still held back hid nothing that was kept.
            kept = Kept::default();
            key.clear();
            key.extend_from_slice(entry.key);
            started = true;
        }
        kept.meet(&entry, rule, &key, emit)?;
        sources[index].advance()?;
    }
    Ok(())
}

/// Which versions are kept: those that some snapshot sees.
///
/// A version is dropped when no live snapshot lies between it and the next newer version of its key. A tombstone
/// that everyone sees is dropped as well where nothing older of its key lies beneath. Versions above the largest
/// live number, which nobody may read yet, are all kept.
#[derive(Clone, Copy)]
pub(crate) struct DropRule<'a> {
    /// The live snapshots, ascending; the stable CSN is among them.
    pub(crate) live: &'a [Csn],
    /// Whether no older version of any of these keys lies elsewhere.
    pub(crate) bottom: bool,
}

impl DropRule<'_> {
    /// Whether some snapshot sees a version of `csn` whose next newer one is `newer`.
    pub(crate) fn keeps(&self, csn: Csn, newer: Option<Csn>) -> bool {
        let Some(newer) = newer else { return true };
        let first = self.live.partition_point(|snapshot| *snapshot < csn);
        self.live.get(first).is_none_or(|snapshot| *snapshot < newer)
    }

    /// Whether every snapshot, also one yet to come, is at or above `csn`.
    fn everyone_sees(&self, csn: Csn) -> bool {
        self.live.first().is_some_and(|oldest| csn <= *oldest)
    }
}

/// The state of the key that is passing.
#[derive(Default)]
struct Kept {
    newer: Option<Csn>,
    /// Tombstones met and not yet given: they are only needed if something older is kept.
    tombstones: Vec<Csn>,
}

impl Kept {
    fn meet(
        &mut self,
        entry: &Entry<'_>,
        rule: &DropRule<'_>,
        key: &[u8],
        emit: &mut dyn FnMut(&Entry<'_>) -> Result<()>,
    ) -> Result<()> {
        if self.newer == Some(entry.csn) {
            return Ok(());
        }
        let keep = rule.keeps(entry.csn, self.newer);
        self.newer = Some(entry.csn);
        if !keep {
            return Ok(());
        }
        if entry.value.is_none() && rule.bottom && rule.everyone_sees(entry.csn) {
            self.tombstones.push(entry.csn);
            return Ok(());
        }
        self.give_tombstones(key, emit)?;
        emit(entry)
    }

    fn give_tombstones(
        &mut self,
        key: &[u8],
        emit: &mut dyn FnMut(&Entry<'_>) -> Result<()>,
    ) -> Result<()> {
        self.tombstones.drain(..).try_for_each(|csn| emit(&Entry { key, csn, value: None }))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use spillway_base::budget::Budget;
    use spillway_base::rng::Rng;
    use std::collections::BTreeMap;

    type History = BTreeMap<Vec<u8>, BTreeMap<u64, Option<Vec<u8>>>>;

    fn read(history: &History, key: &[u8], snapshot: u64) -> Option<Vec<u8>> {
        history.get(key)?.range(..=snapshot).next_back()?.1.clone()
    }

    /// Random histories over two memtables: what is kept reads the same at every live snapshot, and at every
    /// CSN from the stable one on.
    #[test]
    fn what_is_dropped_was_seen_by_nobody() {
        let mut rng = Rng::new(8);
        let mut dropped = 0;
        for round in 0..400 {
            let budget = Budget::new(usize::MAX);
            let (old, new) = (Memtable::new(&budget), Memtable::new(&budget));
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
            let bottom = round % 2 == 0;
            let rule = DropRule { live: &live, bottom };
            let mut kept = History::new();
            let mut last: Option<(Vec<u8>, Csn)> = None;
            merge(
                vec![Versions::of_memtable(&new), Versions::of_memtable(&old)],
                &rule,
                &mut |entry| {
                    let at = (entry.key.to_vec(), entry.csn);
                    if let Some(last) = &last {
                        assert!(last.0 < at.0 || (last.0 == at.0 && last.1 > at.1));
                    }
                    last = Some(at);
                    kept.entry(entry.key.to_vec())
                        .or_default()
                        .insert(entry.csn.0, entry.value.map(<[u8]>::to_vec));
                    Ok(())
                },
            )
            .unwrap();
            let all = |history: &History| history.values().map(BTreeMap::len).sum::<usize>();
            dropped += all(&history) - all(&kept);
            for key in history.keys() {
                for snapshot in live.iter().map(|csn| csn.0).chain(stable..=top) {
                    assert_eq!(read(&kept, key, snapshot), read(&history, key, snapshot));
                }
                let newest = history[key].keys().next_back();
                if !bottom {
                    assert_eq!(kept[key].keys().next_back(), newest, "the newest is never dropped");
                }
            }
        }
        assert!(dropped > 5000, "only {dropped} versions were dropped");
    }

    #[test]
    fn with_no_old_snapshot_one_version_of_a_key_is_left() {
        let rule = DropRule { live: &[Csn(100)], bottom: true };
        assert!(rule.keeps(Csn(50), None));
        assert!(!rule.keeps(Csn(40), Some(Csn(50))));
        let rule = DropRule { live: &[Csn(45), Csn(100)], bottom: true };
        assert!(rule.keeps(Csn(40), Some(Csn(50))) && !rule.keeps(Csn(30), Some(Csn(40))));
        assert!(rule.keeps(Csn(101), Some(Csn(102))));
    }
}
