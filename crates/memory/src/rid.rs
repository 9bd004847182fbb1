//! Record ids.

use std::num::NonZeroU64;

/// The stable number of a row within its table: a slot of the table's indirection array, and the
/// slot's generation. It does not change while the row exists (HiEngine, section 4.1).
///
/// ```text
/// bits 0..36   slot, from 0
/// bits 36..63  generation
/// bit  63      1, so that no RID is zero
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Rid(NonZeroU64);

const SLOT_BITS: u32 = 36;
const GENERATION_BITS: u32 = 27;
const MARK: u64 = 1 << 63;

impl Rid {
    /// The largest number of slots in a table.
    pub const SLOTS_MAX: u64 = 1 << SLOT_BITS;

    /// The RID of a slot in a generation. Generations wrap around.
    ///
    /// # Panics
    /// If the slot is not below [`Rid::SLOTS_MAX`].
    #[must_use]
    pub fn new(slot: u64, generation: u32) -> Rid {
        assert!(slot < Rid::SLOTS_MAX, "a table's slots are exhausted");
        let generation = u64::from(generation) & ((1 << GENERATION_BITS) - 1);
        Rid(NonZeroU64::new(MARK | generation << SLOT_BITS | slot).expect("it has the mark"))
    }

    /// The RID with these bits, or `None` if the mark is missing.
    #[must_use]
    pub fn from_bits(bits: u64) -> Option<Rid> {
        (bits & MARK != 0).then(|| NonZeroU64::new(bits).map(Rid)).flatten()
    }

    /// The bits that [`Rid::from_bits`] takes.
    #[must_use]
    pub fn bits(self) -> u64 {
        self.0.get()
    }

    /// The slot.
    #[must_use]
    pub fn slot(self) -> u64 {
        self.0.get() & (Rid::SLOTS_MAX - 1)
    }

    /// The slot's generation.
    #[must_use]
    pub fn generation(self) -> u32 {
        (self.0.get() >> SLOT_BITS) as u32 & ((1 << GENERATION_BITS) - 1)
    }
}
