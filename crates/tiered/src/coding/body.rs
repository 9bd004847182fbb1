//! The parts of the format of a block's body that both `block` and the codings use (`block`,
//! "Format").

use spillway_base::Csn;

/// The number of bytes of the trailer after the entries.
pub(crate) const TRAILER_BYTES: usize = 5;

/// Bytes that a CSN needs, of 0 to 8.
pub(crate) fn csn_bytes(csn: Csn) -> u8 {
    (u64::BITS - csn.0.leading_zeros()).div_ceil(8) as u8
}
