//! Clients: they run random transactions and record what they see.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use spillway::{
    Csn, Database, Direction, Durability, ErrorKind, Isolation, KeyRange, LockMode, LockWait, Met,
    Table, Transaction, TransactionOptions,
};
use spillway_base::clock::Clock;
use spillway_base::rng::Rng;
use spillway_sql::Instance;

use super::oracle::{Key, Read, ReadKind, Seen, Txn, Version, fail};
use super::shape::Shape;
use super::sql::{self, Ledger};

/// The period of log care.
const PERIOD_MS: u64 = 500;

pub use super::oracle::TABLES;

/// The state that the clients of a life share.
pub struct Life {
    /// The database.
    pub db: Database,
    /// Its tables.
    pub tables: [Table; TABLES],
    /// The parameters of the history.
    pub shape: Shape,
    /// SQL over the database, if clients are sessions.
    pub sql: Option<Instance>,
    /// The transfers of SQL clients.
    pub ledger: Arc<Ledger>,
    /// When the life began.
    pub began: Duration,
    /// The number of syncs that had failed then.
    pub failed_syncs: u64,
    /// The observations so far. No client holds the lock across a scheduling point.
    pub seen: Mutex<Seen>,
    /// Whether the life has ended, and the disk's capacity is the next one's.
    pub over: spillway_base::lock::Mutex<bool>,
}

impl Life {
    /// The observations so far.
    pub fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time until log care begins for the `times`-th time from now.
    #[must_use]
    pub fn until_care(&self, times: u64) -> Duration {
        let now = Clock::system().now();
        let since = now.saturating_sub(self.began);
        let periods = since.as_millis() as u64 / PERIOD_MS + times;
        (self.began + Duration::from_millis(periods * PERIOD_MS)).saturating_sub(now)
    }
}

/// The bytes of a key.
#[must_use]
pub fn key_bytes(key: u64) -> [u8; 3] {
    [b'k', b'0' + (key / 10) as u8, b'0' + (key % 10) as u8]
}

/// The number of a key, from its bytes.
#[must_use]
pub fn key_number(bytes: &[u8]) -> u64 {
    match bytes {
        [b'k', tens, ones] => u64::from(tens - b'0') * 10 + u64::from(ones - b'0'),
        _ => fail(&format!("there is a key {bytes:?}")),
    }
}

/// The version of a value. Checks all bytes of the value.
#[must_use]
pub fn version_of(value: &[u8]) -> u64 {
    let Some((number, rest)) = value.split_first_chunk::<8>() else {
        fail(&format!("a value is {value:?}"))
    };
    let number = u64::from_le_bytes(*number);
    if rest.iter().any(|byte| *byte != number as u8) {
        fail(&format!("a value of version {number:x} is torn: {rest:?}"));
    }
    number
}

fn value_bytes(version: u64, len: u64) -> Vec<u8> {
    let mut value = version.to_le_bytes().to_vec();
    value.resize(value.len() + len as usize, version as u8);
    value
}

struct Client {
    life: Arc<Life>,
    rng: Rng,
    /// The last version that it wrote.
    next: u64,
}

/// Runs a client's transactions until they are done or the database fails.
pub fn run(life: &Arc<Life>, number: u64, seed: u64) {
    if let Some(instance) = &life.sql {
        return sql::run(instance, life, number, seed);
    }
    let mut client = Client { life: life.clone(), rng: Rng::new(seed), next: number << 32 };
    for _ in 0..life.shape.transactions {
        if client.rng.chance(life.shape.pauses, 100) {
            client.pause();
        }
        let goes_on = if client.rng.chance(1, 8) { client.get() } else { client.transaction() };
        if !goes_on {
            break;
        }
    }
}

/// Whether the client can continue after a failure of this kind.
fn goes_on(kind: ErrorKind) -> bool {
    use ErrorKind::{
        Deadlock, DiskFull, LockNotAvailable, LockTableFull, LockTimeout, MemoryFull, NotFound,
        SerializationFailure, WriteConflict,
    };
    matches!(
        kind,
        Deadlock
            | DiskFull
            | LockNotAvailable
            | LockTableFull
            | LockTimeout
            | MemoryFull
            | NotFound
            | SerializationFailure
            | WriteConflict
    )
}

impl Client {
    /// Sleeps for a random time, or until about the next log care.
    fn pause(&mut self) {
        let sleep = match self.rng.below(3) {
            _ if self.rng.chance(self.life.shape.care, 100) => {
                // At the moment of log care, if operations take no time, or a little later.
                let later = self.rng.below(2) * self.rng.below(500);
                self.life.until_care(1) + Duration::from_micros(later)
            }
            0 => Duration::from_millis(self.rng.below(700)),
            _ => Duration::from_micros(self.rng.below(2000)),
        };
        Clock::system().sleep(sleep);
    }

    fn key(&mut self) -> Key {
        let table = self.rng.below(TABLES as u64) as usize;
        (table, self.rng.below(self.life.shape.keys))
    }

    /// Does a get without a transaction.
    fn get(&mut self) -> bool {
        let key = self.key();
        let before = self.life.seen().acknowledged;
        let mut value = Vec::new();
        let table = self.life.tables[key.0];
        let options = TransactionOptions::new();
        match self.life.db.get(options, table, &key_bytes(key.1), &mut value) {
            Ok(there) => {
                let found = there.then(|| version_of(&value));
                self.life.seen().gets.push((key, before, found));
                true
            }
            Err(error) => goes_on(error.kind()),
        }
    }

    fn options(&mut self) -> TransactionOptions {
        let isolation = match self.rng.below(100) {
            share if share < self.life.shape.serializable => Isolation::Serializable,
            _ if self.rng.chance(self.life.shape.committed, 100) => Isolation::ReadCommitted,
            _ => Isolation::RepeatableRead,
        };
        let durability = match self.rng.below(12) {
            0 => Durability::Relaxed,
            1 => Durability::Within(Duration::from_micros(1 + self.rng.below(3000))),
            _ => Durability::Commit,
        };
        let options = TransactionOptions::new().isolation(isolation).durability(durability);
        let options = options.lock_wait(Duration::from_millis(1 + self.rng.below(100)));
        options.acts_on_newest(self.rng.chance(1, 4)).keeps_snapshot(self.rng.chance(1, 3))
    }

    /// Runs a transaction. Returns whether the client can continue.
    fn transaction(&mut self) -> bool {
        let options = self.options();
        let floor = self.life.seen().acknowledged;
        let db = self.life.db.clone();
        let inner = db.begin(options);
        let mut run =
            Run { inner, options, floor, reads: Vec::new(), writes: BTreeMap::new(), failed: None };
        let operations = if self.frees() { 0 } else { 1 + self.rng.below(5) };
        for _ in 0..operations {
            if run.failed.is_none() {
                self.operation(&mut run);
            }
        }
        if operations == 0 {
            let key = self.key();
            let deleted = self.delete_range(&mut run, self.life.tables[key.0], (key.0, 0));
            run.failed = deleted.err().map(|error| error.kind());
        }
        let mut txn = Txn {
            serializable: options.isolation == Isolation::Serializable,
            durable: options.durability == Some(Durability::Commit),
            floor,
            snapshot: run.inner.snapshot_csn().filter(|_| !run.is_read_committed()),
            ..Txn::default()
        };
        if let Some(kind) = run.failed {
            drop(run.inner);
            self.note_refusal(kind);
            return goes_on(kind);
        }
        (txn.reads, txn.writes) = (run.reads, run.writes);
        if self.rng.chance(1, 10) {
            run.inner.rollback();
            return true;
        }
        self.commit(run.inner, txn)
    }

    /// Whether to make room: some transactions do while the disk is full.
    fn frees(&mut self) -> bool {
        self.life.seen().is_full && self.rng.chance(1, 4)
    }

    fn note_refusal(&self, kind: ErrorKind) {
        let mut seen = self.life.seen();
        seen.refused_on_full_disk += u64::from(seen.is_full && kind == ErrorKind::DiskFull);
    }

    fn commit(&mut self, inner: Transaction, mut txn: Txn) -> bool {
        let future = inner.commit();
        txn.ordered = future.ordered().filter(|_| !txn.writes.is_empty());
        let clock = Clock::system();
        let began = clock.now();
        let outcome = match self.rng.below(10) {
            // The commit's outcome comes by a callback.
            0 if txn.durable => {
                let (tell, told) = spillway_base::sync::mpsc::channel();
                future.then(move |outcome| drop(tell.send(outcome)));
                told.recv().unwrap_or_else(|_| fail("a commit's call was dropped"))
            }
            _ => future.wait(),
        };
        txn.waited = clock.now() - began;
        let mut seen = self.life.seen();
        let goes_on = match outcome {
            Ok(csn) => {
                txn.acknowledged = true;
                let frees = !txn.writes.is_empty() && txn.writes.values().all(Option::is_none);
                seen.freed_on_full_disk += u64::from(seen.is_full && frees);
                if !txn.writes.is_empty() && txn.ordered != Some(csn) {
                    fail(&format!("{csn:?} was acknowledged of {txn:?}"));
                }
                true
            }
            Err(error) => {
                let full = seen.is_full && error.kind() == ErrorKind::DiskFull;
                seen.refused_on_full_disk += u64::from(full);
                goes_on(error.kind())
            }
        };
        seen.end(txn);
        goes_on
    }

    fn operation(&mut self, run: &mut Run) {
        let key = self.key();
        let table = self.life.tables[key.0];
        let bytes = key_bytes(key.1);
        if run.is_read_committed() {
            run.floor = self.life.seen().acknowledged;
            run.inner.begin_statement();
        }
        let done = match self.rng.below(14) {
            0..3 => run.get(table, key),
            3 => self.scan(run, table, key),
            4 => {
                let mut value = Vec::new();
                let mode = LockMode::Exclusive;
                let got = run.inner.get_locked(table, &bytes, mode, LockWait::Wait, &mut value);
                got.map(|there| {
                    run.saw(key, ReadKind::Locked, Version::of(there.then(|| version_of(&value))));
                })
            }
            5 | 6 => self.insert(run, table, key),
            7 => run.inner.delete(table, &bytes).map(|()| {
                run.writes.insert(key, None);
            }),
            8 => self.increment(run, table, key),
            9 => self.delete_range(run, table, key),
            10 => self.fill(run, table, key),
            _ => self.put(run, table, key),
        };
        if let Err(error) = done {
            run.failed = Some(error.kind());
        }
    }

    fn version(&mut self) -> (u64, Vec<u8>) {
        self.next += 1;
        (self.next, value_bytes(self.next, self.rng.below(self.life.shape.value_bytes)))
    }

    fn put(&mut self, run: &mut Run, table: Table, key: Key) -> spillway::Result<()> {
        let (version, value) = self.version();
        run.inner.put(table, &key_bytes(key.1), &value)?;
        run.writes.insert(key, Some(version));
        Ok(())
    }

    fn insert(&mut self, run: &mut Run, table: Table, key: Key) -> spillway::Result<()> {
        let (version, value) = self.version();
        match run.inner.insert(table, &key_bytes(key.1), &value) {
            Ok(()) => {
                run.saw(key, ReadKind::Locked, Version::Absent);
                run.writes.insert(key, Some(version));
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::DuplicateKey => {
                run.saw(key, ReadKind::Locked, Version::Some);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Reads the newest version and overwrites it.
    fn increment(&mut self, run: &mut Run, table: Table, key: Key) -> spillway::Result<()> {
        let mut value = Vec::new();
        let (mode, wait) = (LockMode::Exclusive, LockWait::Wait);
        let there = run.inner.get_locked(table, &key_bytes(key.1), mode, wait, &mut value)?;
        run.saw(key, ReadKind::Locked, Version::of(there.then(|| version_of(&value))));
        let (version, value) = self.version();
        run.inner.put(table, &key_bytes(key.1), &value)?;
        run.writes.insert(key, Some(version));
        Ok(())
    }

    /// Puts every key of a range.
    fn fill(&mut self, run: &mut Run, table: Table, from: Key) -> spillway::Result<()> {
        for key in from.1..self.life.shape.keys {
            self.next += 1;
            run.inner.put(table, &key_bytes(key), &value_bytes(self.next, 4))?;
            run.writes.insert((from.0, key), Some(self.next));
        }
        Ok(())
    }

    /// Deletes the rows of a range: all, or only those with even versions.
    fn delete_range(&mut self, run: &mut Run, table: Table, from: Key) -> spillway::Result<()> {
        let until = from.1 + 1 + self.rng.below(self.life.shape.keys);
        let all = self.rng.chance(2, 3);
        let (begin, end) = (key_bytes(from.1), key_bytes(until));
        let (mut found, mut locked, mut gone) = (BTreeMap::new(), Vec::new(), Vec::new());
        let range = KeyRange::new(&begin, Some(&end));
        let deleted = run.inner.delete_rows(table, range, |key, value, met| {
            let (key, version) = (key_number(key), version_of(value));
            let goes = met != Met::Gone && (all || version.is_multiple_of(2));
            if met == Met::Found {
                found.insert(key, version);
            } else if met != Met::Gone {
                locked.push((key, version));
                gone.extend(goes.then_some(key));
            }
            Ok::<_, spillway::Error>(goes)
        })?;
        if deleted != gone.len() as u64 {
            fail(&format!("SIMULATION-6: {deleted} rows were deleted of {gone:?}"));
        }
        // Other transactions act on the newest rows, which are not those of a single state.
        if run.options.isolation == Isolation::Serializable || !run.options.acts_on_newest {
            let kind = run.kind();
            for key in from.1..until.min(self.life.shape.keys) {
                run.saw((from.0, key), kind, Version::of(found.get(&key).copied()));
            }
        }
        for (key, version) in locked {
            run.saw((from.0, key), ReadKind::Locked, Version::Is(version));
        }
        run.writes.extend(gone.into_iter().map(|key| ((from.0, key), None)));
        Ok(())
    }

    fn scan(&mut self, run: &mut Run, table: Table, from: Key) -> spillway::Result<()> {
        let until = from.1 + 1 + self.rng.below(self.life.shape.keys);
        let direction =
            if self.rng.chance(1, 2) { Direction::Forward } else { Direction::Backward };
        let (begin, end) = (key_bytes(from.1), key_bytes(until));
        let mut found = BTreeMap::new();
        let mut scan = run.inner.scan(table, KeyRange::new(&begin, Some(&end)), direction)?;
        while scan.advance()? {
            found.insert(key_number(scan.key()), version_of(scan.value()));
        }
        drop(scan);
        let kind = run.kind();
        for key in from.1..until.min(self.life.shape.keys) {
            let version = Version::of(found.remove(&key));
            run.saw((from.0, key), kind, version);
        }
        if !found.is_empty() {
            fail(&format!("a scan found {found:?}"));
        }
        Ok(())
    }
}

/// A running transaction.
struct Run {
    inner: Transaction,
    options: TransactionOptions,
    /// The newest acknowledged commit when the transaction began; under READ COMMITTED, when the
    /// statement began.
    floor: Csn,
    reads: Vec<Read>,
    writes: BTreeMap<Key, Option<u64>>,
    failed: Option<ErrorKind>,
}

impl Run {
    fn is_read_committed(&self) -> bool {
        self.options.isolation == Isolation::ReadCommitted
    }

    /// The kind of the statement's reads without locks.
    fn kind(&self) -> ReadKind {
        match self.inner.snapshot_csn() {
            Some(csn) if self.is_read_committed() => {
                if csn < self.floor {
                    let missed = self.floor;
                    fail(&format!("SIMULATION-6: a statement reads {csn:?} after {missed:?}"));
                }
                ReadKind::At(csn)
            }
            _ => ReadKind::Snapshot,
        }
    }

    fn get(&mut self, table: Table, key: Key) -> spillway::Result<()> {
        let mut value = Vec::new();
        let there = self.inner.get(table, &key_bytes(key.1), &mut value)?;
        self.saw(key, self.kind(), Version::of(there.then(|| version_of(&value))));
        Ok(())
    }

    /// Records a read. If the transaction wrote the key, checks the read at once; otherwise the
    /// oracle does.
    fn saw(&mut self, key: Key, kind: ReadKind, version: Version) {
        match self.writes.get(&key) {
            Some(own) if !version.is(*own) => {
                fail(&format!("a transaction wrote {own:?} to {key:?} and read {version:?}"));
            }
            Some(_) => {}
            None => self.reads.push(Read { key, kind, version }),
        }
    }
}
