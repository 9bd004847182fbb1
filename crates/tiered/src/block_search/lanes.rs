//! Compares all heads of a node at once with AVX-512, AVX2 or NEON. On a processor without any of
//! these, compares the heads one by one.
#![allow(unsafe_code)] // A leaf: vector instructions, if the processor is known to have them.

/// Heads of a node of the root.
pub(super) const NODE_HEADS: usize = 16;
/// Heads of a leaf.
pub(super) const LEAF_HEADS: usize = 8;

type NodeBytes = [u8; NODE_HEADS * 4];
type LeafBytes = [u8; LEAF_HEADS * 4];

/// How nodes are searched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// Head by head. Benchmarks and tests compare the other ways with it.
    Scalar,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "aarch64")]
    Neon,
}

/// Counts the heads of an ascending list that are below a given head, and those that are not above
/// it.
pub(super) trait Lanes: Copy {
    fn of_node(self, heads: &NodeBytes, head: u32) -> (usize, usize);
    fn of_leaf(self, heads: &LeafBytes, head: u32) -> (usize, usize);
}

/// A computation over lanes.
pub(super) trait Work {
    fn run(self, lanes: impl Lanes) -> usize;
}

impl Way {
    /// All ways that this processor supports, the fastest last.
    pub(crate) fn all() -> Vec<Way> {
        let mut all = vec![Way::Scalar];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt") {
                all.push(Way::Avx2);
            }
            if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("popcnt") {
                all.push(Way::Avx512);
            }
        }
        #[cfg(target_arch = "aarch64")]
        if std::arch::is_aarch64_feature_detected!("neon") {
            all.push(Way::Neon);
        }
        all
    }

    /// The fastest way that this processor supports.
    pub(crate) fn best() -> Way {
        Way::all().pop().unwrap_or(Way::Scalar)
    }

    #[inline]
    pub(super) fn run(self, work: impl Work) -> usize {
        match self {
            Way::Scalar => work.run(Scalar),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `all` returns `Avx512` only if the processor has these instructions.
            Way::Avx512 => unsafe { x86::with_avx512(work) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: likewise `Avx2`.
            Way::Avx2 => unsafe { x86::with_avx2(work) },
            #[cfg(target_arch = "aarch64")]
            // SAFETY: likewise `Neon`.
            Way::Neon => unsafe { arm::with_neon(work) },
        }
    }
}

#[derive(Clone, Copy)]
struct Scalar;

impl Scalar {
    #[inline(always)]
    fn count(heads: &[u8], head: u32) -> (usize, usize) {
        let (mut below, mut upto) = (0, 0);
        for bytes in heads.chunks_exact(4) {
            let other = u32::from_ne_bytes(bytes.first_chunk().copied().unwrap_or_default());
            below += usize::from(other < head);
            upto += usize::from(other <= head);
        }
        (below, upto)
    }
}

impl Lanes for Scalar {
    #[inline(always)]
    fn of_node(self, heads: &NodeBytes, head: u32) -> (usize, usize) {
        Scalar::count(heads, head)
    }

    #[inline(always)]
    fn of_leaf(self, heads: &LeafBytes, head: u32) -> (usize, usize) {
        Scalar::count(heads, head)
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Lanes, LeafBytes, NodeBytes, Work};

    #[target_feature(enable = "avx2,popcnt")]
    pub(super) fn with_avx2(work: impl Work) -> usize {
        work.run(Avx2(()))
    }

    #[target_feature(enable = "avx512f,avx2,popcnt")]
    pub(super) fn with_avx512(work: impl Work) -> usize {
        work.run(Avx512(()))
    }

    /// Created only if the processor has AVX2.
    #[derive(Clone, Copy)]
    struct Avx2(());

    impl Avx2 {
        /// The heads below `head`, and those equal to it, as one bit each.
        #[inline(always)]
        fn compare(heads: &LeafBytes, head: u32) -> (u32, u32) {
            // SAFETY: an `Avx2` exists only if the processor has AVX2, and `heads` has the 32 bytes
            // that are read.
            unsafe {
                // The comparison is signed, so the first bit of both sides is flipped.
                let turn = _mm256_set1_epi32(i32::MIN);
                let heads = _mm256_xor_si256(_mm256_loadu_si256(heads.as_ptr().cast()), turn);
                let head = _mm256_set1_epi32(head.cast_signed() ^ i32::MIN);
                let bits = |lanes| _mm256_movemask_ps(_mm256_castsi256_ps(lanes)).cast_unsigned();
                let below = bits(_mm256_cmpgt_epi32(head, heads));
                (below, bits(_mm256_cmpeq_epi32(head, heads)))
            }
        }
    }

    impl Lanes for Avx2 {
        #[inline(always)]
        fn of_node(self, heads: &NodeBytes, head: u32) -> (usize, usize) {
            let (low, high) = heads.split_first_chunk().expect("a node is two leaves' heads");
            let high = high.first_chunk().expect("a node is two leaves' heads");
            let (first, second) = (self.of_leaf(low, head), self.of_leaf(high, head));
            (first.0 + second.0, first.1 + second.1)
        }

        #[inline(always)]
        fn of_leaf(self, heads: &LeafBytes, head: u32) -> (usize, usize) {
            let (below, equal) = Avx2::compare(heads, head);
            (below.count_ones() as usize, (below | equal).count_ones() as usize)
        }
    }

    /// Created only if the processor has AVX-512F and AVX2.
    #[derive(Clone, Copy)]
    struct Avx512(());

    impl Lanes for Avx512 {
        #[inline(always)]
        fn of_node(self, heads: &NodeBytes, head: u32) -> (usize, usize) {
            // SAFETY: an `Avx512` exists only if the processor has AVX-512F, and `heads` has the 64
            // bytes that are read.
            let (below, upto) = unsafe {
                let heads = _mm512_loadu_si512(heads.as_ptr().cast());
                let head = _mm512_set1_epi32(head.cast_signed());
                (_mm512_cmplt_epu32_mask(heads, head), _mm512_cmple_epu32_mask(heads, head))
            };
            (below.count_ones() as usize, upto.count_ones() as usize)
        }

        #[inline(always)]
        fn of_leaf(self, heads: &LeafBytes, head: u32) -> (usize, usize) {
            Avx2(()).of_leaf(heads, head)
        }
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use std::arch::aarch64::*;

    use super::{Lanes, LeafBytes, NodeBytes, Work};

    #[target_feature(enable = "neon")]
    pub(super) fn with_neon(work: impl Work) -> usize {
        work.run(Neon(()))
    }

    /// Created only if the processor has NEON.
    #[derive(Clone, Copy)]
    struct Neon(());

    impl Neon {
        #[inline(always)]
        fn count<const BYTES: usize>(heads: &[u8; BYTES], head: u32) -> (usize, usize) {
            let (mut below, mut upto) = (0, 0);
            for four in heads.chunks_exact(16) {
                // SAFETY: a `Neon` exists only if the processor has NEON, and `four` has the 16
                // bytes that are read.
                unsafe {
                    let heads = vreinterpretq_u32_u8(vld1q_u8(four.as_ptr()));
                    let head = vdupq_n_u32(head);
                    // A lane whose comparison is true has all bits set, so it is 1 after a shift by
                    // 31.
                    below += vaddvq_u32(vshrq_n_u32::<31>(vcltq_u32(heads, head)));
                    upto += vaddvq_u32(vshrq_n_u32::<31>(vcleq_u32(heads, head)));
                }
            }
            (below as usize, upto as usize)
        }
    }

    impl Lanes for Neon {
        #[inline(always)]
        fn of_node(self, heads: &NodeBytes, head: u32) -> (usize, usize) {
            Neon::count(heads, head)
        }

        #[inline(always)]
        fn of_leaf(self, heads: &LeafBytes, head: u32) -> (usize, usize) {
            Neon::count(heads, head)
        }
    }
}
