//! The random numbers of RAND(N).

/// MySQL's generator of random numbers, so that RAND(N) gives the same numbers.
#[derive(Clone, Copy)]
pub(crate) struct RandSequence {
    first: u64,
    second: u64,
}

impl RandSequence {
    /// The generator computes modulo this number.
    const MODULUS: u64 = 0x3fff_ffff;

    pub(super) fn new(seed: i64) -> RandSequence {
        let seed = u64::from(seed as u32);
        // The products are taken as 32 bits wide.
        let first = (seed * 0x10001 + 55_555_555) & 0xffff_ffff;
        let second = (seed * 0x1000_0001) & 0xffff_ffff;
        RandSequence { first: first % Self::MODULUS, second: second % Self::MODULUS }
    }

    pub(super) fn next(&mut self) -> f64 {
        self.first = (self.first * 3 + self.second) % Self::MODULUS;
        self.second = (self.first + self.second + 33) % Self::MODULUS;
        self.first as f64 / Self::MODULUS as f64
    }
}
