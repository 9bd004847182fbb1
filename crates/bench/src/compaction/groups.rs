//! The positions of the keys of two runs.

use spillway_base::rng::Rng;

/// The approximate limit of key numbers.
const SPACE: u64 = 1 << 62;

/// Two runs of groups of consecutive keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Runs {
    /// Groups of the lower run.
    pub(super) lower: u64,
    /// Groups that only the upper run has.
    pub(super) new: u64,
    /// Groups of the lower run that the upper run also has.
    pub(super) again: u64,
    /// Keys of a group.
    pub(super) keys: u64,
    pub(super) seed: u64,
}

/// A row of one or both runs, by the number of its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct GroupedRow {
    pub(super) number: u64,
    pub(super) lower: bool,
    pub(super) upper: bool,
}

impl Runs {
    /// Runs with about these numbers of rows, in whole groups; `distinct_percent` of the upper
    /// run's groups are new.
    pub(super) fn new(
        rows: (u64, u64),
        keys: u64,
        distinct_percent: u64,
        seed: u64,
    ) -> Option<Runs> {
        let (upper, lower) = (rows.0 / keys, rows.1 / keys);
        let new = (upper * distinct_percent + 50) / 100;
        let again = upper.checked_sub(new)?;
        (upper > 0 && again <= lower).then_some(Runs { lower, new, again, keys, seed })
    }

    pub(super) fn lower_rows(&self) -> u64 {
        self.lower * self.keys
    }

    pub(super) fn upper_rows(&self) -> u64 {
        (self.new + self.again) * self.keys
    }

    /// The number of rows of both together.
    pub(super) fn rows(&self) -> u64 {
        (self.lower + self.new) * self.keys
    }

    /// Every row in key order. The distances between groups are those of uniformly random points,
    /// which needs no memory for the points. The run of each group is drawn on the way, such that
    /// the counts come out exactly.
    pub(super) fn iter(&self) -> impl Iterator<Item = GroupedRow> {
        let (mut lower, mut new, mut again) = (self.lower, self.new, self.again);
        let mut rng = Rng::new(self.seed);
        let apart = SPACE as f64 / (lower + new) as f64 - self.keys as f64;
        let (keys, mut begin) = (self.keys, 0);
        let groups = std::iter::from_fn(move || {
            if lower + new == 0 {
                return None;
            }
            begin += (-(1.0 - rng.unit()).ln() * apart) as u64;
            let is_new = rng.chance(new, lower + new);
            let is_again = !is_new && rng.chance(again, lower);
            let group = GroupedRow { number: begin, lower: !is_new, upper: is_new || is_again };
            new -= u64::from(is_new);
            lower -= u64::from(!is_new);
            again -= u64::from(is_again);
            begin += keys;
            Some(group)
        });
        groups.flat_map(move |group| {
            (0..keys).map(move |place| GroupedRow { number: group.number + place, ..group })
        })
    }
}
