//! The sequences of reads.

use spillway_base::rng::Rng;

use crate::keys::Keys;

/// How often a hot set jumps in a trace.
const JUMPS: u64 = 10;

/// A kind of trace.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum TraceKind {
    /// A distribution with this skew; with `scan`, one read in four belongs to a scan.
    Zipf { skew: f64, scan: bool },
    /// Ninety-nine reads in a hundred are of a hundredth of the blocks, which changes after each
    /// tenth of all reads.
    Moving,
}

impl TraceKind {
    pub(super) fn all(skews: &[f64]) -> Vec<TraceKind> {
        let zipf = |scan| skews.iter().map(move |skew| TraceKind::Zipf { skew: *skew, scan });
        zipf(false).chain(zipf(true)).chain([TraceKind::Moving]).collect()
    }

    pub(super) fn name(self) -> String {
        match self {
            TraceKind::Zipf { skew: 0.0, scan: false } => "uniform".to_owned(),
            TraceKind::Zipf { skew: 0.0, scan: true } => "uniform, scan".to_owned(),
            TraceKind::Zipf { skew, scan: false } => format!("zipf {skew}"),
            TraceKind::Zipf { skew, scan: true } => format!("zipf {skew}, scan"),
            TraceKind::Moving => "moving hot set".to_owned(),
        }
    }
}

/// A read: the block, and whether it belongs to a scan.
pub(super) struct Read {
    pub(super) block: u64,
    pub(super) scan: bool,
}

/// Visits each read of a trace.
pub(super) fn each(
    kind: TraceKind,
    blocks: u64,
    reads: u64,
    seed: u64,
    visit: &mut dyn FnMut(Read),
) {
    let mut rng = Rng::new(seed);
    match kind {
        TraceKind::Zipf { skew, scan } => {
            let keys = Keys::new(blocks, skew);
            let mut at = 0;
            for _ in 0..reads {
                if scan && rng.chance(1, 4) {
                    visit(Read { block: at % blocks, scan: true });
                    at += 1;
                } else {
                    visit(Read { block: keys.draw(&mut rng), scan: false });
                }
            }
        }
        TraceKind::Moving => {
            let hot = (blocks / 100).max(1);
            for number in 0..reads {
                let first = Rng::new(seed ^ (number * JUMPS / reads)).below(blocks - hot + 1);
                let is_hot = rng.chance(99, 100);
                let block = if is_hot { first + rng.below(hot) } else { rng.below(blocks) };
                visit(Read { block, scan: false });
            }
        }
    }
}
