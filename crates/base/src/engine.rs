//! The contract between the transaction manager and a table engine.
//!
//! An engine keeps tables: ordered key spaces of versions stamped with CSNs. It knows nothing of
//! transactions, locks, lanes or the log; the transaction manager knows nothing of memtables or
//! indirection arrays. Each is tested against this page alone: an engine without the transaction
//! manager, and the transaction manager over a model engine.
//!
//! # What an engine guarantees
//!
//! - **E1 (install).** When [`Engine::install`] returns, every operation of the batch on a table of
//!   this engine is visible to reads at a snapshot of the batch's CSN or above, and to none below.
//!   Operations on other engines' tables are skipped. Later operations of a batch override earlier
//!   ones on the same key.
//! - **E2 (any order).** Installs of different CSNs may run at the same time and in any order. The
//!   caller reads at a snapshot only once every commit up to it is installed. [`Engine::newest`]
//!   needs no snapshot: it returns the newest installed version of its key, and the caller ensures
//!   that no install of that key runs at the same time.
//! - **E3 (idempotence).** Installing a commit again, or one whose effects are already persistent,
//!   changes nothing: reads at or above the persisted CSN with which the engine was opened (E6)
//!   return the same as before. Operations on a table that does not exist are skipped: at recovery,
//!   the commit that dropped it may be persistent already.
//! - **E4 (reads).** A read at a snapshot sees, of each key, the newest version at or below it.
//!   Reads never wait for writers. The versions that a snapshot sees stay readable while
//!   [`Horizon`] reports the snapshot live. The versions that a cursor sees stay readable as long
//!   as the cursor exists.
//! - **E5 (tables).** A table exists for snapshots from the CSN that created it (inclusive) to the
//!   CSN that dropped it (exclusive). Its space is freed once no live snapshot or cursor can see
//!   it.
//! - **E6 (persistence).** Every commit at or below [`Engine::persisted`] would survive a crash
//!   without the log. This CSN never falls, and an idle table does not hold it back. The engine's
//!   files may record a lower CSN until [`Engine::record_persisted`], and an engine opens with the
//!   recorded CSN. [`Engine::recorded`] never exceeds the CSN that the files record durably, but
//!   may lag behind it: it is at least the CSN that the files recorded when a write to them last
//!   raised [`Engine::persisted`]. Recovery of a database begins after the smallest CSN that one of
//!   its engines has recorded. So recovery may install commits again in an engine that has recorded
//!   a larger CSN (E3).
//! - **E7 (no early flush).** No version above the stable CSN is written to a data file, and the
//!   engine's files record no CSN above it. So the log had all commits up to
//!   [`Engine::newest_recorded`] durably. If the log of a later opening ends below this CSN, a
//!   device has lost commits. New commits would get the CSNs of the lost ones, and the engine would
//!   skip these new commits, because their CSNs count as persistent (E3). So recovery reports
//!   damage.
//! - **E8 (failure).** `install` does not fail: [`Engine::admit`] has granted what it needs. A
//!   background failure leaves all installed versions readable from memory, stops `persisted` from
//!   rising, and is reported by [`Engine::health`]. If stored bytes fail their checksum, the read
//!   that met them fails with [`crate::ErrorKind::Corruption`], and no other call does.
//! - **E9 (no hidden wait).** A read with [`Access::MemoryOnly`] never touches a device: it returns
//!   a result, or fails with [`crate::ErrorKind::WouldBlock`]. A read with [`Access::AtHand`] does
//!   not wait for a device either, but may read from the system's page cache, or ask the system to
//!   load a block into it.
//! - **E10 (ranges).** [`Op::DeleteRange`] hides the versions of the keys in its range at or below
//!   its `upto`, and no other versions. It hides them from reads at the CSN of its commit or above;
//!   `upto` is below this CSN. A read at this CSN or above that finds no other version of a key in
//!   the range returns [`Found::Deleted`] with this commit, even if the key never existed. Once
//!   every live snapshot sees the commit, the engine may return [`Found::Nothing`] instead.
//!
//!   The caller installs such a commit only once all versions that the operation hides are
//!   installed (E2 holds for all other commits).
//! - **E11 (rewriting).** [`Engine::set_rewrite`] gives a table a [`Rewrite`] and a CSN. Once this
//!   CSN is stable, each flush and compaction of the table may pass the values that it writes
//!   through the [`Rewrite`]. Keys and CSNs stay, and no value becomes longer, so a flush or
//!   compaction writes no more bytes than it reads.
//!
//!   From then on, a read at any snapshot, also an older one, may return a value in its original or
//!   in its rewritten form. A cache may keep the original form of a version while that version is
//!   the newest of its key, until [`Engine::forget_forms`]. The engine does not store the
//!   [`Rewrite`], so a crash ends the rewriting. A crash may also restore the original form of a
//!   value: recovery installs the value from the log again, if its commit is above the CSN that the
//!   engine's files record as persistent (E6).
//! - **E12 (asynchronous reads).** [`Engine::overlap_reads`] enables asynchronous reads, and
//!   returns file descriptors. Each read then has these steps:
//!   - *Begin.* The caller, whose lookup has failed with [`crate::ErrorKind::WouldBlock`] (E9),
//!     passes the key and a waker to [`Engine::begin_read`]. If this returns `false`, no read has
//!     begun, and the waker will not be called.
//!   - *Submit.* The engine submits the read to a device at once, or holds it back to submit it
//!     together with others. While it holds reads back, [`Engine::keeps_reads`] returns `true`. Any
//!     thread may then submit them with [`Engine::submit_reads`]. If this returns `false`, the
//!     device has not accepted all of them, and `submit_reads` must be called again.
//!   - *End.* Once a read has completed or failed, one of the descriptors becomes readable. The
//!     next call of [`Engine::end_reads`], by any thread, brings the data into memory and calls the
//!     waker. A read that ends while it is submitted may be brought into memory by the thread that
//!     submits it. The caller then repeats its lookup. The lookup finds the data in memory, unless
//!     other data has evicted it.
//!   - *Failure.* No call reports that a read has failed or has found damaged data. The repeated
//!     lookup fails with [`crate::ErrorKind::WouldBlock`] again, and its [`Engine::begin_read`]
//!     returns `false`. The caller looks the key up with [`Access::Blocking`], and this lookup
//!     reports the failure.
//! - **E13 (recall).** A result of [`Engine::recall`] is the same as that of a read at that
//!   snapshot, whether or not the snapshot is live. The caller must have taken the CSN from the
//!   [`Horizon`], as the stable or the installed one, since the engine was opened. `recall` may
//!   always return that it does not know.
//!
//! An engine that keeps its rows in the redo log needs the places of their records, and reports
//! which segments it keeps: [`crate::log_place`] has the guarantees (LOG-READ-1 to LOG-READ-10).

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::Waker;

use crate::batch::{Op, WriteBatch};
use crate::budget::Charge;
use crate::stall::Cause;
use crate::{Csn, Direction, EngineKind, KeyRange, LogPlace, Result, TableId};

/// The result of a lookup of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// A value that this commit wrote. The lookup copied it out.
    Value(Csn),
    /// A tombstone: this commit deleted the key.
    Deleted(Csn),
    /// No version. The key may have been deleted: an engine may drop tombstones that every live
    /// snapshot sees.
    Nothing,
}

impl Found {
    /// Whether the key has a value.
    #[must_use]
    pub fn is_value(self) -> bool {
        matches!(self, Found::Value(_))
    }

    /// The commit of the version that was found.
    #[must_use]
    pub fn csn(self) -> Option<Csn> {
        match self {
            Found::Value(csn) | Found::Deleted(csn) => Some(csn),
            Found::Nothing => None,
        }
    }

    /// Whether a version of this commit would be newer than what was found.
    #[must_use]
    pub fn is_older_than(self, csn: Csn) -> bool {
        self.csn() < Some(csn)
    }
}

/// Whether a read may wait for a device (decision 011).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Access {
    /// Wait for the device if needed.
    #[default]
    Blocking,
    /// Read from memory, or fail with [`crate::ErrorKind::WouldBlock`].
    MemoryOnly,
    /// Read from memory or from the operating system's page cache, or fail with
    /// [`crate::ErrorKind::WouldBlock`].
    AtHand,
}

/// What an engine knows about commits and snapshots. The transaction manager provides it.
///
/// - **HORIZON-1.** `stable` and `installed` never fall, and `stable <= installed`.
/// - **HORIZON-2.** Once `live_snapshots` has returned, no snapshot is registered below the
///   smallest number that it returned.
/// - **HORIZON-3.** `low_watermark` never falls. No snapshot is live, or will be registered, below
///   it. It may lag.
pub trait Horizon: Send + Sync {
    /// The stable CSN: every commit up to it is installed and durable in the log.
    fn stable(&self) -> Csn;

    /// Every commit up to this CSN is installed.
    fn installed(&self) -> Csn;

    /// Clears `out`, then fills it with the live snapshots, ascending and without repeats. The
    /// stable CSN is always among them, because later snapshots may be taken there.
    fn live_snapshots(&self, out: &mut Vec<Csn>);

    /// A lower bound of the live snapshots (HORIZON-3). It is so cheap that each update can read it
    /// to find the versions of a row that no snapshot sees. [`Horizon::live_snapshots`] brings it
    /// up to date.
    fn low_watermark(&self) -> Csn {
        let mut live = Vec::new();
        self.live_snapshots(&mut live);
        live.first().copied().unwrap_or_default()
    }
}

/// Rewrites values of a table while a flush or a compaction writes them (E11). The result depends
/// on the value alone, and every later reader takes both forms to mean the same. Malformed bytes
/// stay as they are.
pub trait Rewrite: std::fmt::Debug + Send + Sync {
    /// Appends the new form of a value to `out` and returns `true`. Returns `false` if the value
    /// stays as it is; the content of `out` is unspecified then.
    fn rewrite(&self, value: &[u8], out: &mut Vec<u8>) -> bool;
}

/// How far an engine's background work is behind, from which the throttle follows (decision 008).
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Debt {
    /// Memtable bytes that flushes should have written by now, as a share of the memtable budget.
    /// Writers are refused at 1.0 only if memory is truly exhausted.
    pub flush: f64,
    /// Level0 sub-levels over their target, as a share of the limit.
    pub level0: f64,
    /// Bytes that compaction should have moved by now, as a share of the limit.
    pub compaction: f64,
}

impl Debt {
    /// The one figure that the throttle and the scheduler read: 0 is no debt, 1 is the limit.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.flush.max(self.level0).max(self.compaction)
    }

    /// The cause of the delay of a throttled writer: the largest part of the debt.
    #[must_use]
    pub fn cause(&self) -> Cause {
        if self.flush >= self.level0.max(self.compaction) {
            Cause::ThrottleFlush
        } else if self.level0 >= self.compaction {
            Cause::ThrottleLevel0
        } else {
            Cause::ThrottleCompaction
        }
    }
}

/// A cheap estimate of the size of a table or of a range of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RangeEstimate {
    /// Keys, estimated.
    pub keys: u64,
    /// Key and value bytes, estimated.
    pub bytes: u64,
}

/// One figure of an engine, named as the metrics page and `SHOW STATUS` name it.
#[derive(Clone, PartialEq, Debug)]
pub struct Metric {
    /// `snake_case`, unit last.
    pub name: &'static str,
    /// One sentence for people.
    pub help: &'static str,
    /// Whether the figure only rises.
    pub counter: bool,
    /// The current value.
    pub value: f64,
}

/// A read-ahead for a series of gets ([`Engine::gets_ahead`]).
pub trait GetsAhead {
    /// Prepares the get of the key at position `at`, which the caller runs next. It waits until the
    /// data that this get needs has been read, unless a read failed, and begins the reads for the
    /// gets after it. Positions must not decrease.
    fn wait_for(&mut self, at: usize);
}

/// A put or a delete that an opening has read back from the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Replayed<'w> {
    /// The operation's commit.
    pub csn: Csn,
    /// The operation.
    pub op: Op<'w>,
    /// The place of the operation's own record in the log.
    pub place: LogPlace,
    /// Bytes of that record.
    pub bytes: u32,
}

/// A table engine. The module's page states its guarantees.
pub trait Engine: Send + Sync {
    /// Which engine this is.
    fn kind(&self) -> EngineKind;

    /// Asks for memory to install `bytes` more bytes of operations on the engine's own tables. May
    /// wait a bounded time for a flush. A returned charge reserves memory for the operations. The
    /// caller drops it once they are installed, or once it is clear that they will not be
    /// installed.
    ///
    /// # Errors
    /// [`crate::ErrorKind::MemoryFull`] or [`crate::ErrorKind::DiskFull`] when no memory will be
    /// available until something is freed; the failure of [`Engine::health`] when the engine has
    /// stopped.
    fn admit(&self, bytes: usize) -> Result<Option<Charge>>;

    /// Waits until the engine can take more commits from the log. Recovery calls it after it has
    /// installed this many bytes.
    ///
    /// # Errors
    /// As [`Engine::admit`]. Recovery continues after [`crate::ErrorKind::MemoryFull`] and
    /// [`crate::ErrorKind::DiskFull`].
    fn admit_replay(&self, bytes: usize) -> Result<()> {
        self.admit(bytes).map(drop)
    }

    /// Waits until `fits` returns `true`. Background work, or rows until the log is flushed, may
    /// hold the missing memory for a while. The wait is bounded, and ends early if no memory is
    /// held in this way. Returns the last result of `fits`.
    fn await_memory(&self, fits: &mut dyn FnMut() -> bool) -> bool {
        fits()
    }

    /// Installs a commit (E1, E2, E3).
    fn install(&self, csn: Csn, batch: &WriteBatch);

    /// Installs puts and deletes of single keys that recovery has read back, from several commits
    /// (E2, E3). No reader runs meanwhile. It is fastest if the writes are ordered by table, key,
    /// and CSN. A write may be missing if a later write of its key replaces it. Operations on other
    /// engines' tables are skipped.
    fn replay<'w>(&self, writes: &mut dyn Iterator<Item = Replayed<'w>>);

    /// Whether the log must call [`Engine::place_commits`] and [`Engine::keeps_segment`]. The
    /// result never changes.
    fn wants_places(&self) -> bool {
        false
    }

    /// Reports where in the log the batches of commits with operations on the engine's tables
    /// begin, in no order, and that all such commits up to `through` have been reported
    /// (LOG-READ-2, LOG-READ-3). `commits` may be empty. The place of a record is the place of its
    /// batch plus its offset in the batch ([`WriteBatch::iter_placed`]).
    ///
    /// Threads that flush the log or have installed a commit call this, one at a time. It must not
    /// wait for a commit.
    fn place_commits(&self, commits: &[(Csn, LogPlace)], through: Csn) {
        let _ = (commits, through);
    }

    /// Returns whether a segment that is about to leave the redo log must stay readable (LOG-READ-4
    /// to LOG-READ-6). The engine's commits in it are at or below [`Engine::persisted`].
    fn keeps_segment(&self, lane: u32, segment: u64) -> bool {
        let _ = (lane, segment);
        false
    }

    /// Reads one key at a snapshot, its value into `value`.
    ///
    /// # Errors
    /// [`crate::ErrorKind::NotFound`] when the table does not exist at the snapshot,
    /// [`crate::ErrorKind::WouldBlock`] (E9), [`crate::ErrorKind::Corruption`],
    /// [`crate::ErrorKind::Io`].
    fn get(
        &self,
        table: TableId,
        key: &[u8],
        snapshot: Csn,
        access: Access,
        value: &mut Vec<u8>,
    ) -> Result<Found>;

    /// As [`Engine::get`], at a snapshot that is not registered (E13). Returns `None` if the engine
    /// cannot be certain that the result is right for that snapshot, or if the table does not exist
    /// at that snapshot.
    ///
    /// # Errors
    /// [`crate::ErrorKind::WouldBlock`] (E9), [`crate::ErrorKind::Corruption`],
    /// [`crate::ErrorKind::Io`].
    fn recall(
        &self,
        table: TableId,
        key: &[u8],
        snapshot: Csn,
        access: Access,
        value: &mut Vec<u8>,
    ) -> Result<Option<Found>> {
        let _ = (table, key, snapshot, access, value);
        Ok(None)
    }

    /// Reads into memory what gets of these keys at a snapshot would read from a device, if the
    /// engine can do that faster than one get after another. Returns the number of keys whose gets
    /// would have waited for a device. Waits for the devices itself, and reports no failure: the
    /// get then fails with the same error. The engine's metrics do not count it as a get.
    fn prefetch(&self, table: TableId, keys: &[&[u8]], snapshot: Csn) -> usize {
        let _ = (table, keys, snapshot);
        0
    }

    /// Announces gets of these keys at a snapshot, one after another. The engine reads for later
    /// gets while earlier ones run. `None` if the engine cannot read ahead. As with
    /// [`Engine::prefetch`], only a get that meets a failed read reports the failure.
    fn gets_ahead<'k>(
        &'k self,
        table: TableId,
        keys: &'k [&'k [u8]],
        snapshot: Csn,
    ) -> Option<Box<dyn GetsAhead + 'k>> {
        let _ = (table, keys, snapshot);
        None
    }

    /// Prefetches into the processor's cache the memory that gets of these keys access first, so
    /// that the cache misses of several keys overlap. It is a hint: the engine reads no device for
    /// it, counts it in no metric, and returns the same results without it.
    fn expect(&self, keys: &[&[u8]]) {
        let _ = keys;
    }

    /// Enables asynchronous reads from now on (E12). Returns file descriptors that become readable
    /// when reads have completed. Each time one becomes readable, the caller must call
    /// [`Engine::end_reads`]. The result is empty if the engine or its device does not support
    /// asynchronous reads.
    fn overlap_reads(&self) -> Vec<OwnedFd> {
        Vec::new()
    }

    /// Begins to read from a device what a lookup of a key at a snapshot needs ([`Csn::MAX`] for
    /// [`Engine::newest`], E12). Returns `false` if it has begun nothing and will not call the
    /// waker: either everything is in memory, or the caller must wait for the device itself.
    fn begin_read(&self, table: TableId, key: &[u8], snapshot: Csn, waker: &Waker) -> bool {
        let _ = (table, key, snapshot, waker);
        false
    }

    /// Whether reads are queued for [`Engine::submit_reads`].
    fn keeps_reads(&self) -> bool {
        false
    }

    /// Submits the reads that [`Engine::begin_read`] has queued, several at once (E12). Returns
    /// `false` if a device cannot take all of them now: the caller must call it again soon.
    fn submit_reads(&self) -> bool {
        true
    }

    /// Loads completed reads into memory and calls their wakers (E12). Does not wait.
    fn end_reads(&self) {}

    /// Reads the newest installed version of one key, its value into `value`. Installs may run at
    /// the same time.
    ///
    /// # Errors
    /// As [`Engine::get`].
    fn newest(
        &self,
        table: TableId,
        key: &[u8],
        access: Access,
        value: &mut Vec<u8>,
    ) -> Result<Found>;

    /// A cursor over the keys of a range at a snapshot.
    ///
    /// # Errors
    /// As [`Engine::get`].
    fn scan(
        &self,
        table: TableId,
        range: KeyRange<'_>,
        direction: Direction,
        snapshot: Csn,
        access: Access,
    ) -> Result<Box<dyn Cursor>>;

    /// Estimates a range from resident metadata; no device is read.
    fn estimate(&self, table: TableId, range: KeyRange<'_>) -> RangeEstimate;

    /// Asks for a table's values to be rewritten once `since` is stable (E11). Replaces an earlier
    /// request; `None` ends the rewriting. An engine may ignore the request.
    fn set_rewrite(&self, table: TableId, since: Csn, rewrite: Option<Arc<dyn Rewrite>>) {
        let _ = (table, since, rewrite);
    }

    /// Ensures that later reads find each version of a table's values in the form in which it is
    /// stored now, not in an earlier form from a cache (E11). An engine that caches no earlier form
    /// does nothing.
    fn forget_forms(&self, table: TableId) {
        let _ = table;
    }

    /// The tables that exist for new snapshots.
    fn tables(&self) -> Vec<TableId>;

    /// See E6.
    fn persisted(&self) -> Csn;

    /// The CSN with which the engine would open after a crash now, or a lower one (E6).
    fn recorded(&self) -> Csn;

    /// The largest CSN that the engine's files record, of a version or anything else (E7). It is at
    /// least [`Engine::recorded`]. Recovery calls it once.
    fn newest_recorded(&self) -> Csn;

    /// Records in the engine's files that commits up to `csn` are persistent, or as many of them as
    /// are (E6).
    ///
    /// # Errors
    /// [`crate::ErrorKind::DiskFull`], after which the call may be repeated, and a failure of the
    /// engine (E8).
    fn record_persisted(&self, csn: Csn) -> Result<()>;

    /// Asks the engine to make every commit up to `csn` persistent soon, so that the log can be cut
    /// there.
    fn request_persist(&self, csn: Csn);

    /// Asks the engine to return its unused space to the file system soon, and to free space that
    /// deleted rows occupy, however few they are. Called again and again while the disk is full.
    fn give_space(&self) {}

    /// Whether the background work found the disk full when it last wrote something.
    fn meets_full_disk(&self) -> bool {
        false
    }

    /// Whether the engine's devices may soon lack space for the commits that are not in its files
    /// yet, or, for a commit that `writes` its tables, for what that commit adds. It reads no
    /// device. If it returns `true`, callers ask [`Engine::flush_space`].
    fn is_short_of_space(&self, writes: bool) -> bool {
        let _ = writes;
        false
    }

    /// Bytes that the engine has yet to write to its files, for the commits that are not in the
    /// files yet, and for a commit of `bytes` more. Log care calls this from time to time, so that
    /// the engine notices in time that its devices get full.
    fn unwritten_bytes(&self, bytes: u64) -> u64 {
        let _ = bytes;
        0
    }

    /// Whether the engine's devices have the space for the commits that are not in its files yet,
    /// for a commit of `bytes` more, and for `others` bytes that the log and other engines will
    /// take. Without this space, the engine could not free the memory of the commit, or the log.
    fn flush_space(&self, bytes: u64, others: u64) -> FlushSpace {
        let _ = (bytes, others);
        FlushSpace::Enough
    }

    /// How far the background work lags behind.
    fn debt(&self) -> Debt;

    /// The newest commit that a flush waits for to become durable (E7). If no flush waits, it is a
    /// commit that already is durable, or [`Csn::ZERO`].
    fn awaits_durable(&self) -> Csn {
        Csn::ZERO
    }

    /// The failure that stopped the background work, if one has.
    ///
    /// # Errors
    /// That failure.
    fn health(&self) -> Result<()>;

    /// Metrics for users and for monitoring.
    fn metrics(&self) -> Vec<Metric>;
}

/// Whether devices have the space for commits that are not in an engine's files yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlushSpace {
    /// They have it.
    Enough,
    /// They may have it once the engine has written what it has in memory.
    AfterFlush,
    /// They lack it, or the engine found the disk full when it last tried.
    Lacking,
}

/// A position in a scan. It starts before the first key.
///
/// A cursor returns one row at a time, or several adjacent rows, as its caller chooses at each
/// step:
///
/// - **CURSOR-1 (the same rows).** Both ways return the same rows in the same order, each once.
/// - **CURSOR-2 (at the last).** After [`Cursor::next_rows`] the cursor stands on the last of the
///   rows that it returned. The next step starts after that row, whether or not the caller has read
///   all of the rows.
/// - **CURSOR-3 (lent).** The rows are not copied: [`Cursor::rows`] reads them in place. The caller
///   may call it repeatedly until the next step.
/// - **CURSOR-4 (no wait for more).** A step never reads a device only to return more rows at once.
///   A step that fails has returned no row.
pub trait Cursor: Send {
    /// Moves to the next key in the scan's direction; `false` past the last.
    ///
    /// # Errors
    /// As [`Engine::get`]. After [`crate::ErrorKind::WouldBlock`] the cursor has not moved, and the
    /// call may be repeated with another [`Access`].
    fn next(&mut self, access: Access) -> Result<bool>;

    /// Moves to the next rows in the scan's direction: at least one and at most `most` rows, as
    /// many as are cheap to return together. `most` is at least one. Returns the number of rows,
    /// which is zero past the last.
    ///
    /// # Errors
    /// As [`Cursor::next`].
    fn next_rows(&mut self, access: Access, most: usize) -> Result<usize>;

    /// Passes the keys and values of the rows of the last step to `take`, in the scan's direction,
    /// until `take` returns `false`. Call it only after a step that returned rows.
    fn rows(&self, take: &mut dyn FnMut(&[u8], &[u8]) -> bool);

    /// The key of the row at the cursor, the last that was returned. Call it only after a step that
    /// returned rows.
    fn key(&self) -> &[u8];

    /// The value at the cursor. Call it only after a step that returned rows.
    fn value(&self) -> &[u8];

    /// The CSN of the version at the cursor. Call it only after a step that returned rows.
    fn csn(&self) -> Csn;

    /// The key of the last row that was returned, also after a step that failed or reached the end.
    /// `None` before the first row.
    fn last_key(&self) -> Option<&[u8]>;
}
