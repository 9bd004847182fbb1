//! Publishes a gap: puts it on trial, checks the memtables again, and activates it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use spillway_base::{Direction, KeyRange};

use super::{Gap, KEY_BYTES_MAX, TombstoneSkip};
use crate::memtable::{Memtable, Places, TreePlace};
use crate::view::View;

/// A gap on trial. It is withdrawn when this is dropped.
struct Trial<'a> {
    gaps: &'a TombstoneSkip,
    number: u64,
}

impl TombstoneSkip {
    /// Publishes a gap that a scan at its CSN has found, as far as it is still true. Returns
    /// whether any of it was published.
    ///
    /// `view_after` is [`crate::subtable::SubTable::view_after`]: it calls its argument, which
    /// returns whether to continue, and returns a view that has every insertion that may not have
    /// seen the effect of that call.
    pub(crate) fn publish(
        &self,
        gap: Gap,
        view_after: impl FnOnce(&mut dyn FnMut() -> bool) -> Option<Arc<View>>,
    ) -> bool {
        if !self.on || gap.start.len().max(gap.end.len()) > KEY_BYTES_MAX {
            return false;
        }
        let mut trial = None;
        let view = view_after(&mut || {
            trial = self.put_up(&gap);
            trial.is_some()
        });
        let (Some(trial), Some(view)) = (trial, view) else { return false };
        let published = self.look_over(gap, &view).is_some_and(|gap| self.settle(trial, gap));
        if published {
            self.figures.published.fetch_add(1, Ordering::Relaxed);
        }
        published
    }

    /// Begins a trial of a gap, unless it is known or too many are on trial.
    fn put_up(&self, gap: &Gap) -> Option<Trial<'_>> {
        self.change(|list, next| {
            if !list.may_try(gap) {
                return None;
            }
            *next += 1;
            list.trials.push((*next, Arc::new(gap.clone())));
            Some(Trial { gaps: self, number: *next })
        })
    }

    /// The second look: the part of the gap before the first value that its snapshot did not see.
    fn look_over(&self, mut gap: Gap, view: &View) -> Option<Gap> {
        let range = KeyRange::new(&gap.start, Some(&gap.end));
        let is_newer = |run: &&crate::level::Run| {
            run.csn_max() > gap.csn
                && run.within(range).iter().any(|slice| slice.meta.counts.csn_max > gap.csn)
        };
        if view.levels.runs().any(|run| is_newer(&&**run)) {
            return None;
        }
        for memtable in view.memtables().filter(|memtable| !memtable.is_empty()) {
            if let Some(end) = self.first_value(memtable, &gap) {
                gap.end = end;
            }
        }
        (gap.first < gap.end).then_some(gap)
    }

    /// The first key of a gap, outside of active gaps, with a value in a memtable that the gap's
    /// snapshot did not see. It reads all entries of a leaf of the memtable at once. A thread that
    /// adds an entry to the leaf later sees the gap on trial.
    fn first_value(&self, memtable: &Memtable, gap: &Gap) -> Option<Box<[u8]>> {
        let is_newer = |place: &TreePlace| {
            let mut newer = memtable.versions(*place).take_while(|version| version.csn > gap.csn);
            newer.any(|version| version.value.is_some())
        };
        let mut place = memtable.seek(&gap.start);
        let mut leaf = Places::default();
        loop {
            let key = memtable.key(place).filter(|key| gap.covers(key))?;
            if let Some(active) = self.over(key, gap.csn) {
                place = memtable.seek(&active.end);
                continue;
            }
            leaf.clear();
            leaf.push(place);
            memtable.beside(place, Direction::Forward, &mut leaf);
            if let Some(newer) = leaf.iter().find(|place| is_newer(place)) {
                return memtable.key(*newer).filter(|key| gap.covers(key)).map(Box::from);
            }
            place = memtable.after(leaf[leaf.len() - 1]);
        }
    }

    /// Makes what is left of the gap on trial active, unless a value was inserted into it
    /// meanwhile.
    fn settle(&self, trial: Trial<'_>, gap: Gap) -> bool {
        let number = trial.number;
        // The change below takes the trial out of the list, or an insertion has, so it need not be
        // withdrawn.
        std::mem::forget(trial);
        self.change(|list, _| {
            let at = list.trials.iter().position(|(trial, _)| *trial == number);
            let Some(at) = at else { return false };
            list.trials.remove(at);
            list.add(gap);
            true
        })
    }
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        self.gaps.change(|list, _| list.trials.retain(|(trial, _)| *trial != self.number));
    }
}
