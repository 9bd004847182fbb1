//! The gaps of a sub-table, active and on trial, in key order.

use std::sync::Arc;

use spillway_base::range::{precedes, successor};
use spillway_base::{Csn, Direction, KeyRange};

use super::{EARLIER_MAX, GAPS_BYTES_MAX, GAPS_MAX, Gap, TRIALS_MAX, WALKED_MIN};

/// The cost of cutting a gap, in passed tombstones.
const CUT_COSTS: u64 = 16;

/// Of too many earlier gaps, one is removed whose neighbours' ages have at most this ratio. If all
/// ratios are larger, the oldest gap is removed.
const APART_MAX: u64 = 16;

/// An active gap.
#[derive(Clone, Debug)]
pub(super) struct KnownGap {
    pub(super) gap: Arc<Gap>,
    /// The gap before it grew, and gaps that scans at older snapshots found in it. Each is a gap
    /// within this one, those with the highest CSN first (TOMBSTONE-SKIP-5).
    pub(super) earlier: Option<Arc<[Arc<Gap>]>>,
    /// The tombstones that scans walked over in it, minus what cutting it has cost since.
    spares: u64,
}

impl KnownGap {
    /// The bytes of its keys, and of those of its earlier gaps.
    fn bytes(&self) -> usize {
        self.gap.bytes() + self.earlier().iter().map(|gap| gap.bytes()).sum::<usize>()
    }

    pub(super) fn earlier(&self) -> &[Arc<Gap>] {
        self.earlier.as_deref().unwrap_or_default()
    }

    /// The widest of this gap and its earlier ones that a scan at a snapshot may skip and for which
    /// `is_it` returns `true`. If `is_it` holds for an earlier one, it also holds for this one.
    fn find(&self, snapshot: Csn, is_it: impl Fn(&Gap) -> bool) -> Option<&Arc<Gap>> {
        if !is_it(&self.gap) {
            return None;
        }
        if self.gap.csn <= snapshot {
            return Some(&self.gap);
        }
        self.earlier().iter().find(|gap| gap.csn <= snapshot && is_it(gap))
    }

    /// The parts of the gap on both sides of a key that has a value now; none if the gap was cut so
    /// often that walking over its tombstones costs less than cutting it.
    fn beside(&self, key: &[u8]) -> impl Iterator<Item = KnownGap> {
        let gap = &*self.gap;
        let next: Box<[u8]> = successor(key).into();
        let start = Ord::max(next, gap.first.clone());
        let (below, above) = (*gap.first < *key, start < gap.end);
        let left = self.spares.saturating_sub(CUT_COSTS);
        let spares = if below && above { left / 2 } else { left };
        let below = below.then(|| Gap { end: key.into(), ..gap.clone() });
        let above = above.then(|| Gap { first: start.clone(), start, ..gap.clone() });
        let left = below.into_iter().chain(above).filter(move |_| spares >= WALKED_MIN);
        left.map(move |gap| {
            let earlier = self.earlier().iter().filter_map(|earlier| earlier.within(&gap));
            let earlier: Vec<_> = earlier.map(Arc::new).collect();
            let earlier = (!earlier.is_empty()).then(|| earlier.into());
            KnownGap { gap: Arc::new(gap), earlier, spares }
        })
    }
}

/// A list of gaps, which is replaced as a whole.
#[derive(Clone, Debug, Default)]
pub(super) struct List {
    /// The active gaps, no two of which touch.
    pub(super) active: Vec<KnownGap>,
    /// The gaps on trial, with their numbers.
    pub(super) trials: Vec<(u64, Arc<Gap>)>,
}

impl List {
    pub(super) fn len(&self) -> usize {
        self.active.len() + self.trials.len()
    }

    /// The active gap that has a key in it.
    fn with(&self, key: &[u8]) -> Option<&KnownGap> {
        // Gaps at the end of a table come after all others.
        let last = self.active.last().filter(|known| precedes(key, &known.gap.end))?;
        let known = match self.active.len() {
            1 => last,
            _ => {
                let behind = self.active.partition_point(|known| !precedes(key, &known.gap.end));
                &self.active[behind]
            }
        };
        (!precedes(key, &known.gap.start)).then_some(known)
    }

    /// The active gap over a key, for a snapshot.
    pub(super) fn over(&self, key: &[u8], snapshot: Csn) -> Option<&Arc<Gap>> {
        self.with(key)?.find(snapshot, |gap| gap.covers(key))
    }

    /// The active gap in which a scan of a range would begin.
    pub(super) fn at_begin(
        &self,
        range: KeyRange<'_>,
        direction: Direction,
        snapshot: Csn,
    ) -> Option<&Arc<Gap>> {
        match direction {
            Direction::Forward => self.over(range.start, snapshot),
            Direction::Backward => {
                let end = range.end?;
                let before = self.active.partition_point(|known| *known.gap.start < *end);
                let known = &self.active[before.checked_sub(1)?];
                known.find(snapshot, |gap| *gap.start < *end && *end <= *gap.end)
            }
        }
    }

    /// Whether a gap has a key in it, active or on trial.
    pub(super) fn covers(&self, key: &[u8]) -> bool {
        self.with(key).is_some() || self.trials.iter().any(|(_, gap)| gap.covers(key))
    }

    /// Cuts a key out of all gaps. Trials with the key end.
    pub(super) fn cut(&mut self, key: &[u8]) {
        self.trials.retain(|(_, gap)| !gap.covers(key));
        if let Some(at) = self.active.iter().position(|known| known.gap.covers(key)) {
            let cut = self.active.remove(at);
            self.active.splice(at..at, cut.beside(key));
        }
        self.give_way();
    }

    /// Whether a trial of a gap may begin: it is not known, and not too many are on trial.
    pub(super) fn may_try(&self, gap: &Gap) -> bool {
        let known = self.with(&gap.start);
        let is_known = known.and_then(|known| known.find(gap.csn, |known| known.contains(gap)));
        is_known.is_none() && self.trials.len() < TRIALS_MAX
    }

    /// Makes a gap active, and joins it with those that it touches.
    pub(super) fn add(&mut self, new: Gap) {
        let touched = |known: &KnownGap| known.gap.touches(&new);
        let from =
            self.active.iter().position(touched).unwrap_or_else(|| {
                self.active.partition_point(|known| known.gap.start < new.start)
            });
        let count = self.active[from..].iter().take_while(|known| touched(known)).count();
        let touched: Vec<_> = self.active.drain(from..from + count).collect();
        let wider = touched.iter().find(|known| known.gap.contains(&new));
        let spares = wider.map_or_else(
            || new.walked + touched.iter().map(|known| known.spares).sum::<u64>(),
            |wider| wider.spares,
        );
        let mut all = touched.iter().fold(new.clone(), |all, known| all.joined(&known.gap));
        let mut each = vec![Arc::new(new)];
        for known in &touched {
            each.push(known.gap.clone());
            each.extend(known.earlier().iter().cloned());
        }
        // If one of them equals the joined gap, every snapshot that may leap that one may leap all
        // of it.
        let whole = each.iter().filter(|gap| gap.contains(&all));
        all.csn = whole.map(|gap| gap.csn).min().unwrap_or(all.csn);
        let earlier = thinned(&all, each);
        let earlier = (!earlier.is_empty()).then(|| earlier.into());
        self.active.insert(from, KnownGap { gap: Arc::new(all), earlier, spares });
        self.give_way();
    }

    /// Removes the active gaps that save the least until their number and bytes are within the
    /// limits. Each removal halves what the others count, so that a gap that no scan has met for
    /// long does not stay forever.
    fn give_way(&mut self) {
        let mut bytes: usize = self.active.iter().map(KnownGap::bytes).sum();
        while self.active.len() > GAPS_MAX || bytes > GAPS_BYTES_MAX {
            let least = (0..self.active.len()).min_by_key(|&at| self.active[at].spares);
            bytes -= self.active.remove(least.expect("there are many")).bytes();
            for known in &mut self.active {
                known.spares /= 2;
            }
        }
    }
}

/// Chooses earlier gaps of `all` that serve snapshots which the others do not, by descending CSN,
/// up to a limit: the newest, and after it each a few times as old as the one before.
fn thinned(all: &Gap, mut each: Vec<Arc<Gap>>) -> Vec<Arc<Gap>> {
    each.sort_by_key(|gap| std::cmp::Reverse(gap.csn));
    let serves = |at: usize, gap: &Gap| {
        gap.csn < all.csn && !each[at + 1..].iter().any(|older| older.contains(gap))
    };
    let serving = each.iter().enumerate().filter(|(at, gap)| serves(*at, gap));
    let mut kept: Vec<_> = serving.map(|(_, gap)| gap.clone()).collect();
    while kept.len() > EARLIER_MAX {
        let age = |at: usize| all.csn.0 - kept[at].csn.0;
        // The ratio of the ages of the neighbours: the older one would have to serve for the
        // removed one too.
        let apart = |at: usize| age(at + 1) / age(at - 1);
        let last = kept.len() - 1;
        let (least, at) = (1..last).map(|at| (apart(at), at)).min().expect("there are several");
        kept.remove(if least > APART_MAX { last } else { at });
    }
    kept
}
