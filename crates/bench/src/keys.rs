//! Which rows are asked for.

use spillway_base::rng::Rng;

/// A distribution over rows.
pub(crate) enum Keys {
    /// All alike.
    Uniform(u64),
    /// Few of them mostly.
    Zipf(Zipf),
}

/// Zipf's distribution after Gray et al., "Quickly generating billion-record synthetic databases" (SIGMOD 1994), as YCSB
/// has it; which rows are the popular ones is scattered.
pub(crate) struct Zipf {
    rows: u64,
    theta: f64,
    zeta: f64,
    alpha: f64,
    eta: f64,
}

impl Keys {
    /// Over so many rows; a skew of 0 is uniform, 0.99 is YCSB's.
    pub(crate) fn new(rows: u64, skew: f64) -> Keys {
        if skew == 0.0 {
            return Keys::Uniform(rows);
        }
        let zeta = |count: u64| (1..=count).map(|rank| (rank as f64).powf(-skew)).sum::<f64>();
        let whole = zeta(rows);
        let eta = (1.0 - (2.0 / rows as f64).powf(1.0 - skew)) / (1.0 - zeta(2) / whole);
        Keys::Zipf(Zipf { rows, theta: skew, zeta: whole, alpha: 1.0 / (1.0 - skew), eta })
    }

    /// How popular a row is: 0 is the most popular.
    pub(crate) fn draw_rank(&self, rng: &mut Rng) -> u64 {
        match self {
            Keys::Uniform(rows) => rng.below(*rows),
            Keys::Zipf(zipf) => zipf.rank(rng.unit()),
        }
    }

    /// A row.
    pub(crate) fn draw(&self, rng: &mut Rng) -> u64 {
        match self {
            Keys::Uniform(rows) => rng.below(*rows),
            Keys::Zipf(zipf) => scatter(zipf.rank(rng.unit()), zipf.rows),
        }
    }
}

impl Zipf {
    /// How popular the row is that a number in `[0, 1)` stands for: 0 is the most popular.
    fn rank(&self, unit: f64) -> u64 {
        let place = unit * self.zeta;
        if place < 1.0 {
            return 0;
        }
        if place < 1.0 + 0.5_f64.powf(self.theta) {
            return 1;
        }
        let rank = self.rows as f64 * (self.eta * unit - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.rows - 1)
    }
}

/// Where a rank is among the rows.
fn scatter(rank: u64, rows: u64) -> u64 {
    Rng::new(rank).below(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_rows_and_skew_prefers_few() {
        let share_of_most = |skew: f64| {
            let (keys, mut rng) = (Keys::new(1000, skew), Rng::new(3));
            let mut seen = vec![0_u32; 1000];
            (0..100_000).for_each(|_| seen[keys.draw(&mut rng) as usize] += 1);
            f64::from(*seen.iter().max().unwrap()) / 1e5
        };
        assert!(share_of_most(0.0) < 0.003);
        // The first rank has 1 / zeta(1000, 0.99) = 12.7 %.
        let most = share_of_most(0.99);
        assert!((0.12..0.16).contains(&most), "{most}");
    }
}
