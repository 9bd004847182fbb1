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
//!   this engine is visible to reads at a snapshot of that CSN or above, and to none below.
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
//!   Reads never wait for writers. A snapshot's versions stay readable while [`Horizon`] reports it
//!   live; a cursor's stay readable as long as the cursor.
//! - **E5 (tables).** A table exists for snapshots from the CSN that created it (inclusive) to the
//!   CSN that dropped it (exclusive). Its space is freed once no live snapshot or cursor can see
//!   it.
//! - **E6 (persistence).** Every commit at or below [`Engine::persisted`] would survive a crash
//!   without the log. This CSN never falls, and an idle table does not hold it back. The engine's
//!   files may record a lower CSN until [`Engine::record_persisted`], and an engine opens with the
//!   recorded CSN. Recovery of a database begins after the least of its engines' CSNs, so an engine
//!   may be given commits at or below its own again (E3).
//! - **E7 (no early flush).** No version above the stable CSN is written to a data file.
//! - **E8 (failure).** `install` does not fail: [`Engine::admit`] has granted what it needs. A
//!   background failure leaves all installed versions readable from memory, stops `persisted` from
//!   rising, and is reported by [`Engine::health`]. If stored bytes fail their checksum, the read
//!   that met them fails with [`crate::ErrorKind::Corruption`], and no other call does.
//! - **E9 (no hidden wait).** A read with [`Access::MemoryOnly`] never touches a device: it returns
//!   a result, or fails with [`crate::ErrorKind::WouldBlock`]. A read with [`Access::AtHand`] does
//!   not wait for a device either, but may read from the system's page cache, or ask the system to
//!   load a block into it.
//! - **E10 (ranges).** [`Op::DeleteRange`] hides, from reads at its commit's CSN or above, all
//!   versions of the keys in its range up to its `upto`, which is below that CSN, and no others.
//!   [`Found::Deleted`] then names the commit, also for keys that never existed. The caller
//!   installs such a commit only once all versions that it hides are installed (E2 holds for all
//!   other commits).
//! - **E11 (rewriting).** A flush or a compaction that rewrites a table's values anyway may pass
//!   them through the table's [`Rewrite`], once the commit that the rewriter was given with is
//!   stable. Reads at any snapshot, also older ones, return either form. Keys and CSNs stay, and no
//!   value becomes longer, so a flush or compaction writes no more than it read. A crash forgets
//!   the rewriter. It may also restore a rewritten value to its original form from the log, if the
//!   value's commit is above the CSN that the files record as persistent (E6). A cache may keep a
//!   form that was read before for as long as the version is the newest, until
//!   [`Engine::forget_forms`].
//! - **E12 (reads that go on).** A read that [`Engine::begin_read`] begins runs asynchronously once
//!   it is submitted to a device. If [`Engine::keeps_reads`] says so, it may be held back to be
//!   submitted together with others. It then waits until any thread calls [`Engine::submit_reads`]
//!   or [`Engine::end_reads`], and for one more call if the first returns `false`. After the read
//!   has completed or failed, the next call of [`Engine::end_reads`], by any thread, calls the
//!   waker; until then one of the descriptors that [`Engine::overlap_reads`] returned becomes
//!   readable. The data is then in memory, until other data evicts it. No call reports a failure of
//!   the read: the repeated lookup with [`Access::Blocking`] meets it, and before that no read
//!   begins again for data that was found damaged or unreadable.
//! - **E13 (recall).** A result of [`Engine::recall`] is the same as that of a read at that
//!   snapshot, whether or not the snapshot is live, if the caller took the CSN, stable or
//!   installed, from the [`Horizon`] since the engine was opened. `recall` may always return that
//!   it does not know.
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

/// What a look-up of a key found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// A value, which was copied out, of this commit.
    Value(Csn),
    /// That this commit deleted it.
    Deleted(Csn),
    /// No version. Deletions that every live snapshot sees past may be forgotten.
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

/// Whether a read may wait for a device (DESIGN, D11).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Access {
    /// Wait where needed.
    #[default]
    Blocking,
    /// Answer from memory, or fail with [`crate::ErrorKind::WouldBlock`].
    MemoryOnly,
    /// Answer from memory, or from what the system has in its own, or fail with
    /// [`crate::ErrorKind::WouldBlock`].
    AtHand,
}

/// What an engine may know of commits and snapshots; the transaction manager provides it.
///
/// - **HORIZON-1.** `stable` and `installed` never fall, and `stable <= installed`.
/// - **HORIZON-2.** Once `live_snapshots` has returned, no snapshot comes to life below the
///   smallest number it gave.
/// - **HORIZON-3.** `low_watermark` never falls. No snapshot is live, or comes to life, below it.
///   It may lag.
pub trait Horizon: Send + Sync {
    /// The stable CSN: every commit up to it is installed and durable in the log.
    fn stable(&self) -> Csn;

    /// Every commit up to this CSN is installed.
    fn installed(&self) -> Csn;

    /// Clears `out`, then fills it with the live snapshots, ascending and without repeats. The
    /// stable CSN is always among them, for the snapshots yet to come.
    fn live_snapshots(&self, out: &mut Vec<Csn>);

    /// The oldest snapshot that may be live (HORIZON-3): cheap enough for each update to ask which
    /// of a row's versions no snapshot sees. [`Horizon::live_snapshots`] brings it up to date.
    fn low_watermark(&self) -> Csn {
        let mut live = Vec::new();
        self.live_snapshots(&mut live);
        live.first().copied().unwrap_or_default()
    }
}

/// Rewrites values of a table when a compaction moves them anyway (E11). The result depends on the
/// value alone and means the same to every later reader. Malformed bytes stay as they are.
pub trait Rewrite: std::fmt::Debug + Send + Sync {
    /// Appends another form of a value to `out`, and answers `true`; or `false` where it stays as
    /// it is, whatever `out` has then.
    fn rewrite(&self, value: &[u8], out: &mut Vec<u8>) -> bool;
}

/// How far an engine's background work is behind, and what it asks of writers (DESIGN, D8).
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Debt {
    /// Memtable bytes over what a flush should have written by now, as a share of the memtable
    /// budget. Writers are refused at 1.0 only if memory is truly exhausted.
    pub flush: f64,
    /// Level0 sub-levels over their target, as a share of the limit.
    pub level0: f64,
    /// Bytes that compaction should have moved by now, as a share of the limit.
    pub compaction: f64,
}

impl Debt {
    /// The one figure that throttle and scheduler read: 0 is at ease, 1 is the limit.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.flush.max(self.level0).max(self.compaction)
    }

    /// What those wait for who are slowed by it: the part that is largest.
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

/// An estimate of a table's size, or of a range of it, that is cheap to make.
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
    /// Now.
    pub value: f64,
}

/// What reads ahead of gets ([`Engine::gets_ahead`]).
pub trait GetsAhead {
    /// The get of the key at this place comes next: waits until what it lacks has been read, as far
    /// as it could be, and begins to read what those behind it lack. Places are not to go back.
    fn wait_for(&mut self, at: usize);
}

/// A put or a delete that an opening has read back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Replayed<'w> {
    /// Its commit.
    pub csn: Csn,
    /// The operation.
    pub op: Op<'w>,
    /// The place of the operation's own record in the log.
    pub place: LogPlace,
    /// Bytes of that record.
    pub bytes: u32,
}

/// A table engine. The module's page says what it guarantees.
pub trait Engine: Send + Sync {
    /// Which engine this is.
    fn kind(&self) -> EngineKind;

    /// Asks for room to install `bytes` more, of operations on the engine's own tables. It may wait
    /// a bounded while for a flush. What it returns, if anything, is memory that is kept for them:
    /// the caller drops it when they are installed, or will not be.
    ///
    /// # Errors
    /// [`crate::ErrorKind::MemoryFull`] or [`crate::ErrorKind::DiskFull`] when there will be none
    /// until something is freed; the failure of [`Engine::health`] when the engine has stopped.
    fn admit(&self, bytes: usize) -> Result<Option<Charge>>;

    /// Waits until the engine can take more of the log's tail, after an opening has installed this
    /// many bytes of it.
    ///
    /// # Errors
    /// As [`Engine::admit`]. An opening goes on after [`crate::ErrorKind::MemoryFull`] and
    /// [`crate::ErrorKind::DiskFull`].
    fn admit_replay(&self, bytes: usize) -> Result<()> {
        self.admit(bytes).map(drop)
    }

    /// Waits for memory that the work in the background holds for a while, or that rows take until
    /// the log's flush, until `fits`: a bounded while, and only as long as there is any. Answers
    /// whether it fits.
    fn await_memory(&self, fits: &mut dyn FnMut() -> bool) -> bool {
        fits()
    }

    /// Installs a commit (E1, E2, E3).
    fn install(&self, csn: Csn, batch: &WriteBatch);

    /// Installs puts and deletes of several commits, of single keys, which an opening has read back
    /// (E2, E3). Nothing is read meanwhile. It is quickest in the order of tables and keys, and of
    /// one key in that of its CSNs. A write that a later one of its key has made needless may be
    /// missing. Operations on other engines' tables are skipped.
    fn replay<'w>(&self, writes: &mut dyn Iterator<Item = Replayed<'w>>);

    /// Whether [`Engine::place_commits`] and [`Engine::keeps_segment`] are to be called. The answer
    /// is always the same.
    fn wants_places(&self) -> bool {
        false
    }

    /// Tells where the batches of commits with operations on the engine's tables begin in the log,
    /// in no order, and that every commit up to `through` has been told (LOG-READ-2, LOG-READ-3).
    /// There may be no commits. A record's place is that of its batch plus its offset there
    /// ([`WriteBatch::iter_placed`]).
    ///
    /// Threads that flush the log or have installed a commit call it, one at a time. It must not
    /// wait for a commit.
    fn place_commits(&self, commits: &[(Csn, LogPlace)], through: Csn) {
        let _ = (commits, through);
    }

    /// Whether a segment that is about to leave the redo log is to stay readable (LOG-READ-4 to
    /// LOG-READ-6). The engine's commits there are at or below [`Engine::persisted`].
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

    /// As [`Engine::get`], at a snapshot that is not registered, where the engine knows that what
    /// it finds is right for it (E13); `None` where it does not, also of a table that does not
    /// exist then.
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

    /// Brings what gets of these keys at a snapshot would wait for a device for into memory, as far
    /// as it knows a quicker way than one get after another, and answers of how many keys they
    /// would wait for one. It waits for devices itself, and tells of no failure: what keeps it from
    /// reading something, the get meets. It is none of the gets, for nobody who counts them.
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

    /// Asks the processor for what gets of these keys look at first, so that the waits for one
    /// key's memory pass while others' do. A hint: the engine reads nothing for it, counts nothing,
    /// and answers the same without it.
    fn expect(&self, keys: &[&[u8]]) {
        let _ = keys;
    }

    /// Has reads go on beside who needs them from now on (E12). Answers what is readable when some
    /// are over: somebody is to call
    /// [`Engine::end_reads`] then, each time that one has become so. Nothing where the engine, or
    /// its device, knows no such way.
    fn overlap_reads(&self) -> Vec<OwnedFd> {
        Vec::new()
    }

    /// Begins to read from the device what a lookup of a key needs, at a snapshot ([`Csn::MAX`] for
    /// [`Engine::newest`], E12). `false` if it has begun nothing and will not call the waker:
    /// either everything is in memory, or the caller must wait for the device itself.
    fn begin_read(&self, table: TableId, key: &[u8], snapshot: Csn, waker: &Waker) -> bool {
        let _ = (table, key, snapshot, waker);
        false
    }

    /// Whether [`Engine::submit_reads`] has something to hand over.
    fn keeps_reads(&self) -> bool {
        false
    }

    /// Hands over to devices what [`Engine::begin_read`] has kept, so that several reads go
    /// together (E12). `false` where a device takes some only later: it is to be called again soon.
    fn submit_reads(&self) -> bool {
        true
    }

    /// Takes what has been read into memory, and calls those who wait for it (E12). It waits for
    /// nothing.
    fn end_reads(&self) {}

    /// Reads the newest installed version of one key, its value into `value`, whatever else is
    /// installed meanwhile.
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

    /// Has a table's values rewritten from when `since` is stable (E11), in place of what was said
    /// before; or, with `None`, no more. An engine need not.
    fn set_rewrite(&self, table: TableId, since: Csn, rewrite: Option<Arc<dyn Rewrite>>) {
        let _ = (table, since, rewrite);
    }

    /// Has reads that begin later find each version of a table's values in the form in which it is
    /// stored then, and in none that it had before (E11). An engine that keeps no other need not.
    fn forget_forms(&self, table: TableId) {
        let _ = table;
    }

    /// The tables that exist for new snapshots, with their CSN of creation.
    fn tables(&self) -> Vec<TableId>;

    /// See E6.
    fn persisted(&self) -> Csn;

    /// Has the engine's files say that commits up to one are persistent, as far as they are (E6).
    ///
    /// # Errors
    /// [`crate::ErrorKind::DiskFull`], after which it may be asked for again, and a failure of the
    /// engine (E8).
    fn record_persisted(&self, csn: Csn) -> Result<()>;

    /// Asks that every commit up to `csn` become persistent soon, so that the log may be cut there.
    fn request_persist(&self, csn: Csn);

    /// The disk is full, and a commit has freed something: has the engine give back free space that
    /// it keeps for later, soon.
    fn give_space(&self) {}

    /// Whether the background work met a full disk when it last wrote something.
    fn meets_full_disk(&self) -> bool {
        false
    }

    /// How far behind the background work is.
    fn debt(&self) -> Debt;

    /// The newest commit that a flush waits for to be durable (E7); one that is so already, or
    /// none, where none waits.
    fn awaits_durable(&self) -> Csn {
        Csn::ZERO
    }

    /// The failure that stopped the background work, if one has.
    ///
    /// # Errors
    /// That failure.
    fn health(&self) -> Result<()>;

    /// Figures for people and for monitoring.
    fn metrics(&self) -> Vec<Metric>;
}

/// A position in a scan. It starts before the first key.
///
/// A cursor gives one row at a time, or several that lie together, as its caller asks from one step
/// to the next:
///
/// - **CURSOR-1 (the same rows).** Both ways give the same rows in the same order, each once.
/// - **CURSOR-2 (at the last).** After [`Cursor::next_rows`] the cursor stands on the last of the
///   rows that it gave: the next step goes on behind it, whether they were looked at or not.
/// - **CURSOR-3 (lent).** The rows stay where they lie, and are read when they are asked for. Until
///   the next step they may be asked for again.
/// - **CURSOR-4 (no wait for more).** Rows are given together only as far as nothing has to be read
///   from a device for it: a step that fails has given none.
pub trait Cursor: Send {
    /// Moves to the next key in the scan's direction; `false` past the last.
    ///
    /// # Errors
    /// As [`Engine::get`]. After [`crate::ErrorKind::WouldBlock`] the cursor has not moved, and may
    /// be asked again with another [`Access`].
    fn next(&mut self, access: Access) -> Result<bool>;

    /// Moves to the next rows in the scan's direction: at least one and at most so many, as it is
    /// cheap. `most` is at least one. Answers how many there are, which is none past the last.
    ///
    /// # Errors
    /// As [`Cursor::next`].
    fn next_rows(&mut self, access: Access, most: usize) -> Result<usize>;

    /// Gives the keys and values of the rows that the last step came to, in the scan's direction,
    /// until `take` answers `false`. Call it only after a step that came to some.
    fn rows(&self, take: &mut dyn FnMut(&[u8], &[u8]) -> bool);

    /// The key at the cursor: that of the last row that it gave. Call it only after a step that
    /// came to some.
    fn key(&self) -> &[u8];

    /// The value at the cursor. Call it only after a step that came to some.
    fn value(&self) -> &[u8];

    /// The CSN of the version at the cursor. Call it only after a step that came to some.
    fn csn(&self) -> Csn;

    /// The key of the last row that it gave, also after a step that failed or came to the end;
    /// `None` before the first.
    fn last_key(&self) -> Option<&[u8]>;
}
