//! Merging for flush and compaction: every version, in order, and which of them are kept.

use std::sync::Arc;

use spillway_base::engine::Access;
use spillway_base::{Csn, Result};

use crate::block::{Block, Entry};
use crate::extent::{ExtentHandle, Resident};
use crate::memtable::{Memtable, Place, VersionRef};

/// Every version of a memtable or of a sorted list of extents, by key, newest first.
pub(crate) enum Versions<'a> {
    Memtable { memtable: &'a Memtable, place: Place, versions: Vec<VersionRef<'a>>, at: usize },
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
        let versions = memtable.versions(place).collect();
        Versions::Memtable { memtable, place, versions, at: 0 }
    }

    pub(crate) fn of_extents(extents: Vec<Arc<ExtentHandle>>) -> Result<Versions<'a>> {
        let mut extents = extents.into_iter();
        let open = next_extent(&mut extents)?;
        Ok(Versions::Extents { extents, open })
    }

    /// The version it stands on; `None` past the last.
    pub(crate) fn entry(&self) -> Option<Entry<'_>> {
        match self {
            Versions::Memtable { memtable, place, versions, at } => {
                let key = memtable.key(*place)?;
                let version = versions.get(*at)?;
                Some(Entry { key, csn: version.csn, value: version.value })
            }
            Versions::Extents { open, .. } => {
                open.as_ref().map(|open| open.block.entry(open.entry))
            }
        }
    }

    pub(crate) fn advance(&mut self) -> Result<()> {
        match self {
            Versions::Memtable { memtable, place, versions, at } => {
                *at += 1;
                if *at == versions.len() {
                    *place = memtable.after(*place);
                    versions.clear();
                    versions.extend(memtable.versions(*place));
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
    // The CSN of the version before, if it was of the same key.
    let mut newer: Option<Csn> = None;
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
        let Some((index, entry)) = best else { return Ok(()) };
        if newer.is_none() || entry.key != key.as_slice() {
            key.clear();
            key.extend_from_slice(entry.key);
            newer = None;
        }
        if newer != Some(entry.csn) {
            if rule.keeps(&entry, newer) {
                emit(&entry)?;
            }
            newer = Some(entry.csn);
        }
        sources[index].advance()?;
    }
}

/// Which versions are kept: those that some snapshot sees.
///
/// A version is dropped when no live snapshot lies between it and the next newer version of its key. A tombstone
/// that everyone sees is dropped as well where it hides nothing: every older version of its key is an input. Versions
/// above the largest live number, which nobody may read yet, are all kept.
#[derive(Clone, Copy)]
pub(crate) struct DropRule<'a> {
    /// The live snapshots, ascending; the stable CSN is among them.
    pub(crate) live: &'a [Csn],
    /// What is not an input and may share keys with the inputs holds no version below this CSN;
    /// [`Csn::ZERO`] where that is not known.
    pub(crate) others_from: Csn,
}

impl DropRule<'_> {
    /// Whether some snapshot needs a version whose next newer one is `newer`.
    fn keeps(&self, entry: &Entry<'_>, newer: Option<Csn>) -> bool {
        if entry.value.is_none() && self.hides_nothing(entry.csn) {
            return false;
        }
        let Some(newer) = newer else { return true };
        let first = self.live.partition_point(|snapshot| *snapshot < entry.csn);
        self.live.get(first).is_none_or(|snapshot| *snapshot < newer)
    }

    /// Whether a tombstone is the same to everyone as no version at all: all see it, so no older version
    /// among the inputs is kept, and there is none elsewhere.
    fn hides_nothing(&self, csn: Csn) -> bool {
        csn < self.others_from && self.live.first().is_some_and(|oldest| csn <= *oldest)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::memtable::Accounts;
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
            let rule = DropRule { live: &live, others_from };
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
            let rule = DropRule { live, others_from: Csn::ZERO };
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
            let rule = DropRule { live: &[Csn(oldest)], others_from: Csn(others_from) };
            rule.keeps(&tombstone, None)
        };
        assert!(!keeps(40, 41));
        assert!(keeps(39, 41), "a snapshot sees what was there before");
        assert!(keeps(40, 40), "another place may hold an older version");
    }
}
