//! The results of a run, window by window.

use crate::measure::median;

/// The last 1 in this many windows before a jump determine the usual hit rate.
const USUAL_PART: usize = 4;

/// One window.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Window {
    /// The hot set of the window, from 0.
    pub(super) set: usize,
    /// When it ended, in seconds since that set became hot.
    pub(super) since_s: f64,
    pub(super) seconds: f64,
    pub(super) reads: f64,
    pub(super) missed: f64,
}

impl Window {
    /// The percentage of reads that read nothing from a device.
    pub(super) fn hits(&self) -> f64 {
        100.0 * (self.reads - self.missed).max(0.0) / self.reads.max(1.0)
    }
}

/// All windows of a run, in order.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Series(pub(super) Vec<Window>);

impl Series {
    /// The hit rate of a set once it has been hot for a while.
    fn usual(&self, set: usize) -> f64 {
        let windows: Vec<_> = self.of(set).collect();
        let from = windows.len() - windows.len().div_ceil(USUAL_PART);
        median(windows[from..].iter().map(|window| window.hits()))
    }

    /// For each jump, the seconds until the hit rate was at most this many points below the one
    /// before; infinite if that did not happen before the next jump.
    pub(super) fn recovered(&self, points: f64) -> Vec<f64> {
        let after = |set: usize| {
            let usual = self.usual(set - 1);
            let back = self.of(set).find(|window| window.hits() >= usual - points);
            back.map_or(f64::INFINITY, |window| window.since_s)
        };
        (1..self.sets()).map(after).collect()
    }

    /// The median over the sets of the usual hit rate.
    pub(super) fn usual_hits(&self) -> f64 {
        median((0..self.sets()).map(|set| self.usual(set)))
    }

    /// The median over the jumps of the hit rate of the first window.
    pub(super) fn hits_after_jump(&self) -> f64 {
        median((1..self.sets()).filter_map(|set| self.of(set).next()).map(|first| first.hits()))
    }

    /// Reads a second from the first jump on.
    pub(super) fn reads_per_s(&self) -> f64 {
        let from = self.0.iter().filter(|window| window.set > 0);
        let (reads, seconds) =
            from.fold((0.0, 0.0), |sum, window| (sum.0 + window.reads, sum.1 + window.seconds));
        reads / seconds
    }

    /// The median over the jumps of the lowest reads a second in a window after it.
    pub(super) fn lowest_reads_per_s(&self) -> f64 {
        let rate = |window: &Window| window.reads / window.seconds;
        let lowest = |set| self.of(set).map(rate).fold(f64::INFINITY, f64::min);
        median((1..self.sets()).map(lowest))
    }

    fn of(&self, set: usize) -> impl Iterator<Item = &Window> {
        self.0.iter().filter(move |window| window.set == set)
    }

    fn sets(&self) -> usize {
        self.0.last().map_or(0, |window| window.set + 1)
    }
}
