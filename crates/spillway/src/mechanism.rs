//! The optimisations that a benchmark can switch off.
//!
//! The switches exist only in builds with the cargo feature `ablation`, and in this crate's tests.
//! `spillway-bench` and the servers of `scripts/bench-*` are built with that feature. Other builds
//! have no `Settings::without`, and `Settings::has` is always `true` there.

use std::fmt;
use std::str::FromStr;

use spillway_base::Error;

/// An optimisation that can be switched off, to measure its effect. Results and stored data are the
/// same without it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Mechanism {
    /// Slows writers before memory is used up, if memtable flushes and compactions are behind.
    Throttle,
    /// Lets Level0 of a written table hold a share of the data below it.
    LargeLevel0,
    /// Compacts Level0 in parts of about equal size, wherever its sub-levels end, and merges within
    /// Level0 so that it has room for many memtables.
    EvenLevel0,
    /// Merges sub-levels of Level0 with each other.
    IntraLevel0,
    /// Compacts data that was mostly deleted.
    DeletionCompactions,
    /// Merges extents of Level2 that are mostly dead.
    SelfMajors,
    /// Lets compactions reuse the slices and blocks that they need not change.
    Reuse,
    /// Pauses compactions while the debt is small, so that they do not disturb other work.
    Pacing,
    /// Counts how often extents are read. Compactions and moves between devices use the counts.
    Temperature,
    /// Lets scans skip ranges of deleted keys that an earlier scan has found empty.
    Gaps,
    /// Caches often-read rows in a cache of their own, beside the cache of blocks.
    RowCache,
    /// Adapts the row cache's share of memory to the worth of its rows. Without it, the share is
    /// fixed.
    AdaptiveShare,
    /// Reads a single row without a transaction and without a registered snapshot.
    Recall,
    /// Keeps cached blocks in large pages of the system, if memory is plenty, and the rows and
    /// indexes of the memory engine.
    LargePages,
    /// Reads only the needed part of an uncached block for a get, if the whole block would only
    /// evict other blocks from the cache.
    PartReads,
    /// Makes blocks of Level0 and Level1 half as large as those of Level2.
    SmallBlocks,
    /// Lets a scan put off the read of a run's block until it comes to a key that the block's range
    /// filter announces.
    RangeFilters,
    /// Reads blocks before a scan needs them.
    ReadAhead,
    /// Suspends a statement while a device reads for it, instead of blocking the statement's
    /// thread.
    OverlappedReads,
    /// Submits several reads of suspended statements to their device with one system call.
    GatheredReads,
    /// Lets a statement's thread wait for the device if the server has nothing else to do.
    LoneWaits,
    /// Reads an index without the table's rows, if the index has all columns that a query reads.
    IndexOnly,
    /// Passes adjacent rows to queries in batches, and counts them without reading them.
    RowBatches,
    /// Sends columns of rows to the client in their stored form, without decoding them into values.
    RowFields,
    /// Runs a statement that is one lookup of a row in memory on a shorter path.
    PointReads,
    /// Reads several of the rows that a query looks up one after the other from their device in
    /// parallel.
    LookupBatches,
    /// Lets a server's worker that has several short statements send their responses with one
    /// system call. Without it, each response takes a call of its own.
    AnswerBatches,
    /// Dedicates a server's worker to a local TCP client that sends one brief statement after the
    /// other, as long as there are few such clients.
    StickyWorkers,
    /// Moves a dedicated worker (`StickyWorkers`) to the core on which its client runs.
    FollowedClients,
    /// Rewrites the rows of a table with many schema versions in the newest version, while the
    /// table is in use.
    RowRefresh,
    /// Searches blocks by nodes over their keys, instead of by binary search.
    BlockNodes,
    /// Searches the nodes over a block's keys (`BlockNodes`) with vector instructions.
    Simd,
    /// Lets memtable flushes and compactions read ahead, and write in the background, while they
    /// merge.
    OverlappedCompactions,
}

impl Mechanism {
    /// All mechanisms.
    pub const ALL: [Mechanism; 33] = [
        Mechanism::Throttle,
        Mechanism::LargeLevel0,
        Mechanism::EvenLevel0,
        Mechanism::IntraLevel0,
        Mechanism::DeletionCompactions,
        Mechanism::SelfMajors,
        Mechanism::Reuse,
        Mechanism::Pacing,
        Mechanism::Temperature,
        Mechanism::Gaps,
        Mechanism::RowCache,
        Mechanism::AdaptiveShare,
        Mechanism::Recall,
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
        Mechanism::LookupBatches,
        Mechanism::AnswerBatches,
        Mechanism::StickyWorkers,
        Mechanism::FollowedClients,
        Mechanism::RowRefresh,
        Mechanism::BlockNodes,
        Mechanism::Simd,
        Mechanism::OverlappedCompactions,
    ];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Throttle => "throttle",
            Mechanism::LargeLevel0 => "large-level0",
            Mechanism::EvenLevel0 => "even-level0",
            Mechanism::IntraLevel0 => "intra-level0",
            Mechanism::DeletionCompactions => "deletion-compactions",
            Mechanism::SelfMajors => "self-majors",
            Mechanism::Reuse => "reuse",
            Mechanism::Pacing => "pacing",
            Mechanism::Temperature => "temperature",
            Mechanism::Gaps => "gaps",
            Mechanism::RowCache => "row-cache",
            Mechanism::AdaptiveShare => "adaptive-share",
            Mechanism::Recall => "recall",
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
            Mechanism::LookupBatches => "lookup-batches",
            Mechanism::AnswerBatches => "answer-batches",
            Mechanism::StickyWorkers => "sticky-workers",
            Mechanism::FollowedClients => "followed-clients",
            Mechanism::RowRefresh => "row-refresh",
            Mechanism::BlockNodes => "block-nodes",
            Mechanism::Simd => "simd",
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
