//! Mechanisms that a database can be measured without.

use std::fmt;
use std::str::FromStr;

use spillway_base::Error;

/// Something that makes a database faster, smaller or steadier, and that can be left out to measure what it brings. What is stored is
/// read and answered the same without it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Mechanism {
    /// Writers are slowed before memory is used up, where flushes and compactions are behind.
    Throttle,
    /// How many units Level0 of a table has, and how large, follows from how much it is read and written.
    DynamicLevel0,
    /// Level0 of a table that is written may hold a share of what is below it.
    LargeLevel0,
    /// Level0 goes down in parts of about one size, wherever its sub-levels end, and is merged within so that it serves for long.
    EvenLevel0,
    /// Sub-levels of Level0 are merged with each other.
    IntraLevel0,
    /// What was mostly deleted is compacted for that.
    DeletionCompactions,
    /// Extents of Level2 that are mostly dead are put together.
    SelfMajors,
    /// A memtable that shares keys with little of Level1 is flushed straight there.
    StraightFlush,
    /// Compactions leave alone what they need not change.
    Reuse,
    /// Compactions rest while little is behind, so that others do not feel them.
    Pacing,
    /// It is counted how often extents are read, which compactions and moves between devices go by.
    Temperature,
    /// Scans leap over keys that were deleted, where one before them found nothing else.
    Gaps,
    /// A table that is written more than others is split, until there is work for all cores.
    HotSplits,
    /// Rows that are asked for often are cached by themselves.
    RowCache,
    /// What part of the memory that cache has follows from what it is worth. It is a fixed one without.
    AdaptiveShare,
    /// While hardly any row is found there, the cache of single rows looks for a sample of them.
    RowSample,
    /// Who reads one row by itself makes no transaction and tells nobody of a snapshot.
    Recall,
    /// What is in memory of extents is reached by pointers, and not looked up.
    Swizzling,
    /// Cached blocks are in large pages of the system, where memory is plenty.
    LargePages,
    /// Gets that miss read the part of a block that they need, where it would only take the place of others.
    PartReads,
    /// Blocks of Level0 and Level1 are half as large as those of Level2.
    SmallBlocks,
    /// A scan reads a block of a run only when it has come to where a range filter tells of a key.
    RangeFilters,
    /// Blocks are read before a scan has come to them.
    ReadAhead,
    /// Statements that need a device are left while it reads, in place of their threads waiting for it.
    OverlappedReads,
    /// Reads of statements that were left are handed over to their device several at once.
    GatheredReads,
    /// A statement that needs a device waits for it where a server has nothing else to do.
    LoneWaits,
    /// Indexes that have all that a query reads are read alone, and not the rows that they find.
    IndexOnly,
    /// Rows that lie together are handed to queries together, and counted without being looked at.
    RowBatches,
    /// Columns of rows go to the client as they are stored, without being made values of any kind on the way.
    RowFields,
    /// A statement that is one look-up of a row in memory goes round all that statements in general need.
    PointReads,
    /// A change of one row by its key goes straight to the row, and looks at what of it the change is about.
    PointChanges,
    /// Rows that a query looks up one after the other are read from their device several at once.
    LookupBatches,
    /// A server's worker that has several short statements to run sends their answers together. Without it, each by a call of its own.
    AnswerBatches,
    /// A server's worker stays with a client of its machine that asks one brief statement after the other by TCP, as long as there are few of those.
    StickyWorkers,
    /// Such a worker goes to the core that its client sends from.
    FollowedClients,
    /// A table whose rows have many versions of its schema has them written in the newest, beside its users.
    RowRefresh,
    /// Blocks are searched by nodes over their keys, in place of halving.
    BlockNodes,
    /// Those nodes are searched by the processor's vectors.
    Simd,
    /// What a compaction writes comes into memory where what it replaces was of use there.
    Replacement,
    /// The block index and the filters of what a flush or compaction writes are in memory when readers find it.
    WarmTables,
    /// Flushes and compactions read what they need next, and write what they made last, while they merge.
    OverlappedCompactions,
}

impl Mechanism {
    /// All there are.
    pub const ALL: [Mechanism; 41] = [
        Mechanism::Throttle,
        Mechanism::DynamicLevel0,
        Mechanism::LargeLevel0,
        Mechanism::EvenLevel0,
        Mechanism::IntraLevel0,
        Mechanism::DeletionCompactions,
        Mechanism::SelfMajors,
        Mechanism::StraightFlush,
        Mechanism::Reuse,
        Mechanism::Pacing,
        Mechanism::Temperature,
        Mechanism::Gaps,
        Mechanism::HotSplits,
        Mechanism::RowCache,
        Mechanism::AdaptiveShare,
        Mechanism::RowSample,
        Mechanism::Recall,
        Mechanism::Swizzling,
        Mechanism::LargePages,
        Mechanism::PartReads,
        Mechanism::SmallBlocks,
        Mechanism::RangeFilters,
        Mechanism::ReadAhead,
        Mechanism::OverlappedReads,
        Mechanism::GatheredReads,
        Mechanism::LoneWaits,
        Mechanism::IndexOnly,
        Mechanism::RowBatches,
        Mechanism::RowFields,
        Mechanism::PointReads,
        Mechanism::PointChanges,
        Mechanism::LookupBatches,
        Mechanism::AnswerBatches,
        Mechanism::StickyWorkers,
        Mechanism::FollowedClients,
        Mechanism::RowRefresh,
        Mechanism::BlockNodes,
        Mechanism::Simd,
        Mechanism::Replacement,
        Mechanism::WarmTables,
        Mechanism::OverlappedCompactions,
    ];

    /// Its name, as it is parsed.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Throttle => "throttle",
            Mechanism::DynamicLevel0 => "dynamic-level0",
            Mechanism::LargeLevel0 => "large-level0",
            Mechanism::EvenLevel0 => "even-level0",
            Mechanism::IntraLevel0 => "intra-level0",
            Mechanism::DeletionCompactions => "deletion-compactions",
            Mechanism::SelfMajors => "self-majors",
            Mechanism::StraightFlush => "straight-flush",
            Mechanism::Reuse => "reuse",
            Mechanism::Pacing => "pacing",
            Mechanism::Temperature => "temperature",
            Mechanism::Gaps => "gaps",
            Mechanism::HotSplits => "hot-splits",
            Mechanism::RowCache => "row-cache",
            Mechanism::AdaptiveShare => "adaptive-share",
            Mechanism::RowSample => "row-sample",
            Mechanism::Recall => "recall",
            Mechanism::Swizzling => "swizzling",
            Mechanism::LargePages => "large-pages",
            Mechanism::PartReads => "part-reads",
            Mechanism::SmallBlocks => "small-blocks",
            Mechanism::RangeFilters => "range-filters",
            Mechanism::ReadAhead => "read-ahead",
            Mechanism::OverlappedReads => "overlapped-reads",
            Mechanism::GatheredReads => "gathered-reads",
            Mechanism::LoneWaits => "lone-waits",
            Mechanism::IndexOnly => "index-only",
            Mechanism::RowBatches => "row-batches",
            Mechanism::RowFields => "row-fields",
            Mechanism::PointReads => "point-reads",
            Mechanism::PointChanges => "point-changes",
            Mechanism::LookupBatches => "lookup-batches",
            Mechanism::AnswerBatches => "answer-batches",
            Mechanism::StickyWorkers => "sticky-workers",
            Mechanism::FollowedClients => "followed-clients",
            Mechanism::RowRefresh => "row-refresh",
            Mechanism::BlockNodes => "block-nodes",
            Mechanism::Simd => "simd",
            Mechanism::Replacement => "replacement",
            Mechanism::WarmTables => "warm-tables",
            Mechanism::OverlappedCompactions => "overlapped-compactions",
        }
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Mechanism {
    type Err = Error;

    /// # Errors
    /// [`spillway_base::ErrorKind::InvalidArgument`]: no mechanism has this name.
    fn from_str(name: &str) -> Result<Mechanism, Error> {
        let found = Mechanism::ALL.into_iter().find(|mechanism| mechanism.name() == name);
        found.ok_or_else(|| {
            let names = Mechanism::ALL.map(Mechanism::name).join(", ");
            Error::invalid(format!("{name} is no mechanism; there are {names}"))
        })
    }
}
