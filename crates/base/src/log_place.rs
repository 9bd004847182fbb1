//! Places of the redo log, for an engine that keeps its rows there.
//!
//! Such an engine needs no data files for its rows. For each row it has a version in memory, or the
//! place of the version's record in the log (HiEngine, SIGMOD 2022, sections 4.1 to 4.4). The
//! engine learns the place of each commit once the commit is durable. Before the log is cut, the
//! engine says which segments it still needs. These segments leave the redo log and stay on the
//! disk. So a commit counts as persistent (E6 of [`crate::engine`]) if the engine finds the
//! commit's rows, after a crash, at places in segments that it keeps.
//!
//! # Guarantees
//!
//! - **LOG-READ-1 (one read).** A put or a delete on a table of [`crate::EngineKind::Memory`] has a
//!   record of its own in its commit's batch. The record begins at the place of the batch plus the
//!   record's offset there ([`crate::batch::placed_ops`]). One read of its bytes is enough:
//!   [`crate::batch::read_row_record`] verifies them, and returns the table, the key, the value and
//!   the commit's CSN.
//! - **LOG-READ-2 (each commit once).** After each opening of the database, an engine that wants
//!   places learns the place of every commit with operations on its tables exactly once. There are
//!   three cases:
//!   - *A commit that recovery installs.* [`crate::engine::Engine::replay`] passes each of the
//!     commit's writes with the place of its record. Writes that a later write of the same key
//!     replaces may be left out. Alternatively, recovery calls
//!     [`crate::engine::Engine::place_commits`] right after the commit's install.
//!   - *A later commit.* `place_commits` reports it once it is installed and durable.
//!   - *A commit that recovery skips*, because every engine's files have it, is not reported.
//! - **LOG-READ-3 (through).** The argument `through` of `place_commits` is a CSN. All commits up
//!   to `through` are stable. By the end of the call, the engine has learned the places of all
//!   commits up to `through` that LOG-READ-2 reports. Calls come one after another. `through` does
//!   not fall, except that calls during recovery pass [`crate::Csn::ZERO`].
//! - **LOG-READ-4 (before a cut).** A cut of the redo log removes segments. Before a segment leaves
//!   the log, each engine that wants places, and has commits in the segment, is asked whether it
//!   keeps the segment ([`crate::engine::Engine::keeps_segment`]). By then the engine has learned
//!   the places of all of these commits. The engine may be asked again about the same segment, if
//!   the cut failed or a crash undid it.
//! - **LOG-READ-5 (kept).** A segment that an engine keeps is not changed or used again, and can be
//!   opened by its lane and number until the engine removes it. The engine may return the space of
//!   records that it reads no more; they then read as zeros. Segments leave the redo log in
//!   order, so that no crash leaves a gap. Not every record in a kept segment is a row of the
//!   engine: the segment may also hold commits that an opening has discarded, and rows of other
//!   engines. So the engine's rows there are only the records whose places it has learned.
//! - **LOG-READ-6 (released).** Once an engine has answered that it does not keep a segment, it
//!   begins no read there, and uses no result of a read in progress: the file may be overwritten at
//!   once.
//! - **LOG-READ-7 (numbers).** A new segment has a larger number than every kept segment of its
//!   lane, so that a place names one record as long as its segment is kept.
//! - **LOG-READ-8 (damage).** Recovery does not read kept segments. A missing or damaged kept
//!   segment is not a gap of the redo log: a read that needs the segment reports the damage.
//! - **LOG-READ-9 (beside the writer).** A place that the engine has learned can be read at once,
//!   while the log's writer appends to the same segment.
//! - **LOG-READ-10 (soon).** Once no thread flushes the log or installs a commit any more, the
//!   engine has learned the places of all stable commits that LOG-READ-2 covers. This needs no
//!   later commit, flush or cut.
//!
//! LOG-READ-6 is an obligation of the engine, the others of its callers.

/// The place of a record, or of a batch, in the log. The offset has 64 bits because a segment that
/// was created for many very large transactions at once may be larger than 4 GiB.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LogPlace {
    /// The lane.
    pub lane: u32,
    /// The sequence number of the lane's segment.
    pub segment: u64,
    /// Bytes from the start of the segment's file.
    pub offset: u64,
}

impl LogPlace {
    /// The place this many bytes further in the same segment.
    #[must_use]
    pub fn plus(self, bytes: usize) -> LogPlace {
        LogPlace { offset: self.offset + bytes as u64, ..self }
    }
}
