//! Identifiers. Each is a newtype, so that one cannot stand in for another.

use std::fmt;

/// A commit sequence number: the place of a commit in the one dense order (decision 001).
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
    Tiered = 0,
    /// The memory-optimised engine.
    Memory = 1,
}

impl EngineKind {
    /// Every kind, in the order of [`EngineKind::index`].
    pub const ALL: [EngineKind; 2] = [EngineKind::Tiered, EngineKind::Memory];
    /// The number of kinds.
    pub const COUNT: usize = Self::ALL.len();

    /// The kind's number, below [`EngineKind::COUNT`]. Table numbers store it.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// A set of engines.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct EngineSet(u8);

impl EngineSet {
    /// No engine.
    pub const EMPTY: EngineSet = EngineSet(0);
    /// Every engine.
    pub const ALL: EngineSet = EngineSet((1 << EngineKind::COUNT) - 1);

    /// The set of one engine.
    #[must_use]
    pub const fn one(kind: EngineKind) -> EngineSet {
        EngineSet(1 << kind.index())
    }

    /// The set with these bits, one for each kind's index. Other bits are ignored.
    #[must_use]
    pub const fn from_bits(bits: u8) -> EngineSet {
        EngineSet(bits & EngineSet::ALL.0)
    }

    /// One bit for each kind's index.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Adds an engine.
    pub fn insert(&mut self, kind: EngineKind) {
        self.0 |= EngineSet::one(kind).0;
    }

    /// The engines that are in both sets.
    #[must_use]
    pub const fn and(self, other: EngineSet) -> EngineSet {
        EngineSet(self.0 & other.0)
    }

    /// Whether the engine is in the set.
    #[must_use]
    pub const fn contains(self, kind: EngineKind) -> bool {
        self.0 & EngineSet::one(kind).0 != 0
    }

    /// The engines of the set.
    pub fn iter(self) -> impl Iterator<Item = EngineKind> {
        EngineKind::ALL.into_iter().filter(move |kind| self.contains(*kind))
    }
}

/// A table: one ordered key space kept by one engine.
///
/// The engine is part of the number (its top four bits), so a write batch shows which engine each
/// write belongs to without a lookup.
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
        TableId((engine.index() as u32) << Self::ENGINE_SHIFT | ordinal)
    }

    /// The engine that keeps this table. `None` if the number names no known engine: it came from a
    /// file of a newer version, or from damaged bytes.
    #[must_use]
    pub fn engine(self) -> Option<EngineKind> {
        EngineKind::ALL.get((self.0 >> Self::ENGINE_SHIFT) as usize).copied()
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
