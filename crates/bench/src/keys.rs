//! Chooses the rows that operations use.

use spillway_base::rng::Rng;

/// A distribution over rows.
pub(crate) enum Keys {
    /// All rows equally.
    Uniform(u64),
    /// Mostly a few popular rows.
    Zipf(Zipf),
}

/// Zipf's distribution, of any exponent, drawn after Hörmann and Derflinger, "Rejection-inversion
/// to generate variates from monotone discrete distributions" (1996). The popular rows are
/// scattered over all rows.
pub(crate) struct Zipf {
    rows: u64,
    exponent: f64,
    /// The integral of the density up to the first rank's end and to the last one's.
    first: f64,
    last: f64,
    /// A rank this close is accepted without computing its density.
    near: f64,
}

impl Keys {
    /// Over this many rows; a skew of 0 is uniform, 0.99 is YCSB's.
    pub(crate) fn new(rows: u64, skew: f64) -> Keys {
        if skew == 0.0 {
            return Keys::Uniform(rows);
        }
        Keys::Zipf(Zipf::new(rows, skew))
    }

    /// The popularity rank of a row: 0 is the most popular.
    pub(crate) fn draw_rank(&self, rng: &mut Rng) -> u64 {
        match self {
            Keys::Uniform(rows) => rng.below(*rows),
            Keys::Zipf(zipf) => zipf.rank(rng),
        }
    }

    /// A row.
    pub(crate) fn draw(&self, rng: &mut Rng) -> u64 {
        match self {
            Keys::Uniform(rows) => rng.below(*rows),
            Keys::Zipf(zipf) => scatter(zipf.rank(rng), zipf.rows),
        }
    }
}

impl Zipf {
    fn new(rows: u64, exponent: f64) -> Zipf {
        let mut zipf = Zipf { rows, exponent, first: 0.0, last: 0.0, near: 0.0 };
        zipf.first = zipf.integral(1.5) - 1.0;
        zipf.last = zipf.integral(rows as f64 + 0.5);
        zipf.near = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    fn density(&self, rank: f64) -> f64 {
        rank.powf(-self.exponent)
    }

    fn integral(&self, to: f64) -> f64 {
        let power = 1.0 - self.exponent;
        if power == 0.0 { to.ln() } else { (to.powf(power) - 1.0) / power }
    }

    fn inverse(&self, area: f64) -> f64 {
        let power = 1.0 - self.exponent;
        if power == 0.0 { area.exp() } else { (1.0 + area * power).powf(power.recip()) }
    }

    /// The popularity rank of a row: 0 is the most popular.
    fn rank(&self, rng: &mut Rng) -> u64 {
        loop {
            let area = self.last + rng.unit() * (self.first - self.last);
            let place = self.inverse(area);
            let rank = place.round().clamp(1.0, self.rows as f64);
            if rank - place <= self.near || area >= self.integral(rank + 0.5) - self.density(rank) {
                return rank as u64 - 1;
            }
        }
    }
}

/// The row of a rank.
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
        assert!((0.12..0.14).contains(&most), "{most}");
    }
    /// The first ranks have the shares that the exponent implies.
    #[test]
    fn ranks_have_their_shares() {
        for exponent in [0.5, 0.99, 1.0, 1.2, 2.0] {
            let (keys, mut rng) = (Keys::new(5000, exponent), Rng::new(7));
            let all: f64 = (1..=5000).map(|rank| f64::from(rank).powf(-exponent)).sum();
            let mut seen = vec![0_u32; 5000];
            (0..400_000).for_each(|_| seen[keys.draw_rank(&mut rng) as usize] += 1);
            for (rank, seen) in seen.iter().take(5).enumerate() {
                let (share, wanted) =
                    (f64::from(*seen) / 4e5, (rank as f64 + 1.0).powf(-exponent) / all);
                assert!((share - wanted).abs() < 0.004, "{exponent}, {rank}: {share}, {wanted}");
            }
            let tail: u32 = seen[2500..].iter().sum();
            let wanted = (2501..=5000).map(|rank| f64::from(rank).powf(-exponent)).sum::<f64>();
            assert!((f64::from(tail) / 4e5 - wanted / all).abs() < 0.005, "{exponent}");
        }
    }
}
