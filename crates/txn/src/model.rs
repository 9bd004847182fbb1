//! A model engine: a map in memory that keeps every version. Tests compare the real engines with
//! it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use spillway_base::batch::{Op, WriteBatch};
use spillway_base::budget::Charge;
use spillway_base::engine::{
    Access, Cursor, Debt, Engine, FlushSpace, Found, Metric, RangeEstimate, Replayed,
};
use spillway_base::lock::Mutex;
use spillway_base::{
    Csn, Direction, EngineKind, Error, ErrorKind, KeyRange, LogPlace, Result, TableId,
};

type Versions = BTreeMap<Csn, Option<Vec<u8>>>;

#[derive(Clone, Default)]
struct Table {
    created: Csn,
    dropped: Option<Csn>,
    rows: BTreeMap<Vec<u8>, Versions>,
    ranges: Vec<DeletedRange>,
}

#[derive(Clone)]
struct DeletedRange {
    start: Vec<u8>,
    end: Option<Vec<u8>>,
    csn: Csn,
    upto: Csn,
}

impl Table {
    /// The version of a key that a snapshot sees, or the newest commit that deleted it (E10).
    fn see(&self, key: &[u8], snapshot: Csn) -> Option<(Csn, Option<&Vec<u8>>)> {
        let versions = self.rows.get(key);
        let newest = versions.and_then(|versions| versions.range(..=snapshot).next_back());
        let over = self.ranges.iter().filter(|range| {
            let keys = KeyRange::new(&range.start, range.end.as_deref());
            range.csn <= snapshot && keys.contains(key)
        });
        let hiding = over.filter(|range| newest.is_none_or(|(csn, _)| *csn <= range.upto));
        match hiding.map(|range| range.csn).max() {
            Some(csn) => Some((csn, None)),
            None => newest.map(|(csn, value)| (*csn, value.as_ref())),
        }
    }
}

/// The model. It has no files: recovery reads the whole log into a new model.
/// [`ModelEngine::reopened`] makes a model with the commits that this one claims to have persisted.
pub struct ModelEngine {
    kind: EngineKind,
    /// The last commit that it was opened with. Installs of commits up to this one have no effect
    /// (E3).
    opened_at: Csn,
    tables: Mutex<BTreeMap<TableId, Table>>,
    persisted: AtomicU64,
    debt: Mutex<Option<AskedForDebt>>,
    room: Mutex<Option<AskedForRoom>>,
    memory: Mutex<Option<WaitsForMemory>>,
    replays: Mutex<Option<SeesReplay>>,
    scans: Mutex<Option<SeesScan>>,
    installs: Mutex<Option<SeesInstall>>,
    givings: Mutex<Option<GivesSpace>>,
    log: Mutex<Option<Arc<dyn SeesLog>>>,
    unreadable: AtomicBool,
    flush_space: Mutex<FlushSpace>,
    /// Whether it has yet to notice that space is short.
    looks_away: AtomicBool,
    failed: AtomicBool,
}

/// Observes the calls that an engine with its rows in the log receives, for tests.
pub trait SeesLog: Send + Sync {
    /// A commit is about to be installed.
    fn installed(&self, csn: Csn, batch: &WriteBatch);

    /// A write is replayed.
    fn replayed(&self, write: Replayed<'_>);

    /// As [`Engine::place_commits`].
    fn placed(&self, commits: &[(Csn, LogPlace)], through: Csn);

    /// As [`Engine::keeps_segment`].
    fn keeps(&self, lane: u32, segment: u64) -> bool;
}

type AskedForDebt = Box<dyn FnMut() -> Debt + Send>;
type AskedForRoom = Box<dyn FnMut(usize) -> Result<()> + Send>;
type WaitsForMemory = Box<dyn FnMut() -> bool + Send>;
type SeesReplay = Box<dyn FnMut(Csn, Op<'_>) + Send>;
type SeesScan = Box<dyn FnMut(TableId) + Send>;
type GivesSpace = Box<dyn FnMut() + Send>;
type SeesInstall = Box<dyn FnMut(Csn) + Send>;

impl Default for ModelEngine {
    fn default() -> ModelEngine {
        ModelEngine::new()
    }
}

impl ModelEngine {
    /// A model of the tiered engine without tables.
    #[must_use]
    pub fn new() -> ModelEngine {
        ModelEngine::of(EngineKind::Tiered)
    }

    /// A model of this engine without tables.
    #[must_use]
    pub fn of(kind: EngineKind) -> ModelEngine {
        ModelEngine {
            kind,
            opened_at: Csn::ZERO,
            tables: Mutex::default(),
            persisted: AtomicU64::new(0),
            debt: Mutex::default(),
            room: Mutex::default(),
            memory: Mutex::default(),
            replays: Mutex::default(),
            scans: Mutex::default(),
            installs: Mutex::default(),
            givings: Mutex::default(),
            log: Mutex::default(),
            unreadable: AtomicBool::new(false),
            flush_space: Mutex::new(FlushSpace::Enough),
            looks_away: AtomicBool::new(false),
            failed: AtomicBool::new(false),
        }
    }

    /// The model as an opening finds it after a crash: with only the commits that it claimed to
    /// have persisted.
    #[must_use]
    pub fn reopened(&self) -> ModelEngine {
        let persisted = self.persisted();
        let mut tables = self.tables.lock().clone();
        tables.retain(|_, table| {
            table.created <= persisted && table.dropped.is_none_or(|dropped| dropped > persisted)
        });
        for table in tables.values_mut() {
            table.dropped = None;
            table.ranges.retain(|range| range.csn <= persisted);
            table
                .rows
                .values_mut()
                .for_each(|versions| drop(versions.split_off(&persisted.next())));
        }
        let engine = ModelEngine { opened_at: persisted, ..ModelEngine::of(self.kind) };
        *engine.tables.lock() = tables;
        engine.claim_persisted(persisted);
        engine
    }

    /// Sets whether the background work has failed.
    pub fn claim_failure(&self, failed: bool) {
        self.failed.store(failed, Ordering::Release);
    }

    /// Claims that every commit up to `csn` is in files, for tests of cutting the log.
    pub fn claim_persisted(&self, csn: Csn) {
        self.persisted.store(csn.0, Ordering::Release);
    }

    /// Makes `asked` return the debt, for tests of the throttle.
    pub fn claim_debt(&self, asked: impl FnMut() -> Debt + Send + 'static) {
        *self.debt.lock() = Some(Box::new(asked));
    }

    /// Makes `asked` decide whether there is room for a number of bytes, for tests of admission.
    pub fn claim_room(&self, asked: impl FnMut(usize) -> Result<()> + Send + 'static) {
        *self.room.lock() = Some(Box::new(asked));
    }

    /// Makes `waited` replace a wait for memory, and return whether another wait may follow, for
    /// tests of charges.
    pub fn claim_memory(&self, waited: impl FnMut() -> bool + Send + 'static) {
        *self.memory.lock() = Some(Box::new(waited));
    }

    /// Calls `seen` for each replayed write, for tests of recovery.
    pub fn watch_replay(&self, seen: impl FnMut(Csn, Op<'_>) + Send + 'static) {
        *self.replays.lock() = Some(Box::new(seen));
    }

    /// Calls `seen` with the table of each scan, for tests of pins.
    pub fn watch_scan(&self, seen: impl FnMut(TableId) + Send + 'static) {
        *self.scans.lock() = Some(Box::new(seen));
    }

    /// Calls `seen` for each commit that is about to be installed, for tests of what must be known
    /// by then.
    pub fn watch_install(&self, seen: impl FnMut(Csn) + Send + 'static) {
        *self.installs.lock() = Some(Box::new(seen));
    }

    /// Makes the engine want places, and passes them to `seen`. Call it before the engine is
    /// opened.
    pub fn watch_log(&self, seen: Arc<dyn SeesLog>) {
        *self.log.lock() = Some(seen);
    }

    fn log(&self) -> Option<Arc<dyn SeesLog>> {
        self.log.lock().clone()
    }

    /// Makes `asked` do what an engine does to return space on a full disk.
    pub fn watch_giving(&self, asked: impl FnMut() + Send + 'static) {
        *self.givings.lock() = Some(Box::new(asked));
    }

    /// Makes the engine not notice that space is short.
    pub fn look_away(&self) {
        self.looks_away.store(true, Ordering::SeqCst);
    }

    /// Sets whether the engine has space for its files.
    pub fn set_flush_space(&self, space: FlushSpace) {
        *self.flush_space.lock() = space;
    }

    /// Makes the next lookup of a newest version fail, for tests of the lock's error.
    pub fn fail_newest(&self) {
        self.unreadable.store(true, Ordering::Release);
    }

    fn table<T>(&self, table: TableId, read: impl FnOnce(&Table) -> T) -> Result<T> {
        match self.tables.lock().get(&table) {
            Some(table) if table.dropped.is_none() => Ok(read(table)),
            _ => Err(Error::new(ErrorKind::NotFound, format!("{table:?} does not exist"))),
        }
    }

    fn apply(&self, csn: Csn, batch: &WriteBatch) {
        if let Some(seen) = &mut *self.installs.lock() {
            seen(csn);
        }
        if csn <= self.opened_at {
            return;
        }
        let mut tables = self.tables.lock();
        for op in batch.iter().filter(|op| op.table().engine() == Some(self.kind)) {
            let (table, key, value) = match op {
                Op::CreateTable(table) => {
                    tables
                        .entry(table)
                        .or_insert_with(|| Table { created: csn, ..Table::default() });
                    continue;
                }
                Op::DropTable(table) => {
                    if let Some(table) = tables.get_mut(&table) {
                        table.dropped = Some(csn);
                    }
                    continue;
                }
                Op::Put { table, key, value } => (table, key, Some(value.to_vec())),
                Op::Delete { table, key } => (table, key, None),
                Op::DeleteRange { table, range, upto } => {
                    if let Some(table) = tables.get_mut(&table) {
                        let (start, end) = (range.start.to_vec(), range.end.map(<[u8]>::to_vec));
                        table.ranges.push(DeletedRange { start, end, csn, upto });
                    }
                    continue;
                }
            };
            if let Some(table) = tables.get_mut(&table) {
                table.rows.entry(key.to_vec()).or_default().insert(csn, value);
            }
        }
    }
}

impl Engine for ModelEngine {
    fn kind(&self) -> EngineKind {
        self.kind
    }

    fn admit(&self, bytes: usize) -> Result<Option<Charge>> {
        self.room.lock().as_mut().map_or(Ok(()), |asked| asked(bytes)).map(|()| None)
    }

    fn await_memory(&self, fits: &mut dyn FnMut() -> bool) -> bool {
        let mut waited = self.memory.lock();
        let mut again = || waited.as_mut().is_some_and(|waited| waited());
        while !fits() {
            if !again() {
                return fits();
            }
        }
        true
    }

    fn install(&self, csn: Csn, batch: &WriteBatch) {
        if let Some(seen) = self.log() {
            seen.installed(csn, batch);
        }
        self.apply(csn, batch);
    }

    fn replay<'w>(&self, writes: &mut dyn Iterator<Item = Replayed<'w>>) {
        for write in writes {
            let Replayed { csn, op, .. } = write;
            if let Some(seen) = self.log() {
                seen.replayed(write);
            }
            if let Some(seen) = &mut *self.replays.lock() {
                seen(csn, op);
            }
            let mut batch = WriteBatch::new();
            batch.push(op);
            self.apply(csn, &batch);
        }
    }

    fn wants_places(&self) -> bool {
        self.log().is_some()
    }

    fn place_commits(&self, commits: &[(Csn, LogPlace)], through: Csn) {
        if let Some(seen) = self.log() {
            seen.placed(commits, through);
        }
    }

    fn keeps_segment(&self, lane: u32, segment: u64) -> bool {
        self.log().is_some_and(|seen| seen.keeps(lane, segment))
    }

    fn get(
        &self,
        table: TableId,
        key: &[u8],
        snapshot: Csn,
        _access: Access,
        value: &mut Vec<u8>,
    ) -> Result<Found> {
        self.table(table, |table| match table.see(key, snapshot) {
            None => Found::Nothing,
            Some((csn, None)) => Found::Deleted(csn),
            Some((csn, Some(found))) => {
                value.clear();
                value.extend_from_slice(found);
                Found::Value(csn)
            }
        })
    }

    fn newest(
        &self,
        table: TableId,
        key: &[u8],
        access: Access,
        value: &mut Vec<u8>,
    ) -> Result<Found> {
        if self.unreadable.swap(false, Ordering::AcqRel) {
            return Err(Error::new(ErrorKind::Io, "the row cannot be read"));
        }
        self.get(table, key, Csn::MAX, access, value)
    }

    fn scan(
        &self,
        table: TableId,
        range: KeyRange<'_>,
        direction: Direction,
        snapshot: Csn,
        _access: Access,
    ) -> Result<Box<dyn Cursor>> {
        if let Some(seen) = &mut *self.scans.lock() {
            seen(table);
        }
        let mut rows: Vec<_> = self.table(table, |table| {
            let inside = table.rows.keys().filter(|key| range.contains(key));
            inside
                .filter_map(|key| {
                    let (csn, value) = table.see(key, snapshot)?;
                    Some((key.clone(), value?.clone(), csn))
                })
                .collect()
        })?;
        if direction == Direction::Forward {
            rows.reverse();
        }
        Ok(Box::new(ModelCursor { rows, given: Vec::new() }))
    }

    fn estimate(&self, table: TableId, range: KeyRange<'_>) -> RangeEstimate {
        let keys = self.table(table, |table| {
            table.rows.keys().filter(|key| range.contains(key)).count() as u64
        });
        RangeEstimate { keys: keys.unwrap_or(0), bytes: 0 }
    }

    fn tables(&self) -> Vec<TableId> {
        let tables = self.tables.lock();
        tables.iter().filter(|(_, table)| table.dropped.is_none()).map(|(id, _)| *id).collect()
    }

    fn persisted(&self) -> Csn {
        Csn(self.persisted.load(Ordering::Acquire))
    }

    // It has no files. It reports the commits as persistent that a test has claimed.
    fn recorded(&self) -> Csn {
        Csn::ZERO
    }

    fn newest_recorded(&self) -> Csn {
        self.persisted()
    }

    fn record_persisted(&self, _csn: Csn) -> Result<()> {
        Ok(())
    }

    fn request_persist(&self, _csn: Csn) {}

    fn give_space(&self) {
        if let Some(asked) = &mut *self.givings.lock() {
            asked();
        }
    }

    fn is_short_of_space(&self, _writes: bool) -> bool {
        !self.looks_away.load(Ordering::SeqCst) && *self.flush_space.lock() != FlushSpace::Enough
    }

    fn flush_space(&self, _bytes: u64, _others: u64) -> FlushSpace {
        *self.flush_space.lock()
    }

    fn debt(&self) -> Debt {
        self.debt.lock().as_mut().map_or_else(Debt::default, |asked| asked())
    }

    fn health(&self) -> Result<()> {
        match self.failed.load(Ordering::Acquire) {
            true => Err(Error::new(ErrorKind::Io, "the model was told to fail")),
            false => Ok(()),
        }
    }

    fn metrics(&self) -> Vec<Metric> {
        Vec::new()
    }
}

type Row = (Vec<u8>, Vec<u8>, Csn);

struct ModelCursor {
    /// The rows to come, the next one last.
    rows: Vec<Row>,
    /// The rows of the last step.
    given: Vec<Row>,
}

impl ModelCursor {
    fn row(&self) -> &Row {
        self.given.last().expect("a cursor is asked for a row that it stands on")
    }
}

impl Cursor for ModelCursor {
    fn next(&mut self, access: Access) -> Result<bool> {
        self.next_rows(access, 1).map(|rows| rows > 0)
    }

    fn next_rows(&mut self, _access: Access, most: usize) -> Result<usize> {
        debug_assert!(most > 0, "who takes rows takes one at least");
        let rows = self.rows.len().min(most);
        if rows > 0 {
            self.given = self.rows.split_off(self.rows.len() - rows);
            self.given.reverse();
        }
        Ok(rows)
    }

    fn rows(&self, take: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        let _ = self.given.iter().all(|(key, value, _)| take(key, value));
    }

    fn key(&self) -> &[u8] {
        &self.row().0
    }

    fn value(&self) -> &[u8] {
        &self.row().1
    }

    fn csn(&self) -> Csn {
        self.row().2
    }

    fn last_key(&self) -> Option<&[u8]> {
        self.given.last().map(|row| &*row.0)
    }
}
