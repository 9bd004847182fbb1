//! Identifiers. Each is a newtype, so that one cannot stand in for another.

use std::fmt;

/// A commit sequence number: the place of a commit in the one dense order (DESIGN, D1).
///
/// `Csn(0)` is before the first commit. A snapshot is a `Csn`: it sees every version stamped with
/// that number or a smaller one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Csn(pub u64);

impl Csn {
    /// Before the first commit.
    pub const ZERO: Csn = Csn(0);
    /// Past every commit; reads at it see the newest installed version.
    pub const MAX: Csn = Csn(u64::MAX);

    /// The number after this one.
    #[must_use]
    pub fn next(self) -> Csn {
        Csn(self.0 + 1)
    }
}

impl fmt::Debug for Csn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "csn {}", self.0)
    }
}

impl fmt::Display for Csn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The engine that keeps a table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum EngineKind {
    /// The LSM engine for data larger than memory.
    Tiered,
    /// The memory-optimised engine.
    Memory,
}

/// A table: one ordered key space kept by one engine.
///
/// The engine is part of the number (its top four bits), so that a write batch says where each of
/// its writes goes without a look-up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u32);

impl TableId {
    const ENGINE_SHIFT: u32 = 28;
    /// The largest ordinal an engine can number.
    pub const ORDINAL_MAX: u32 = (1 << Self::ENGINE_SHIFT) - 1;

    /// The table with this ordinal in this engine.
    ///
    /// # Panics
    /// When `ordinal` is above [`TableId::ORDINAL_MAX`].
    #[must_use]
    pub fn new(engine: EngineKind, ordinal: u32) -> TableId {
        assert!(ordinal <= Self::ORDINAL_MAX, "table ordinals are exhausted");
        let engine = match engine {
            EngineKind::Tiered => 0,
            EngineKind::Memory => 1,
        };
        TableId(engine << Self::ENGINE_SHIFT | ordinal)
    }

    /// The engine that keeps this table, or `None` when the number names no known engine (it came
    /// from a file written by a newer version, or from damaged bytes).
    #[must_use]
    pub fn engine(self) -> Option<EngineKind> {
        match self.0 >> Self::ENGINE_SHIFT {
            0 => Some(EngineKind::Tiered),
            1 => Some(EngineKind::Memory),
            _ => None,
        }
    }

    /// The table's number within its engine.
    #[must_use]
    pub fn ordinal(self) -> u32 {
        self.0 & Self::ORDINAL_MAX
    }
}

impl fmt::Debug for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "table {:#x}", self.0)
    }
}
