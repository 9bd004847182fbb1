//! Transactions of SQL sessions in which every outcome counts as a read (SIMULATION-14): rows,
//! numbers of rows, rows that a change matched, changed or did not find, and duplicate keys.
//!
//! A row is a key of the model, and its column `version` is the key's version. The session passes
//! the CSN of a commit to its sink, and reports the transaction's snapshot. So the oracle can place
//! these reads and writes in the order of commits, like those of the library's clients.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use spillway::{Csn, Isolation};
use spillway_base::rng::Rng;
use spillway_sql::{Info, Instance, Session, SqlError};

use super::oracle::{self, Count, Key, Read, ReadKind, Refusal, Seen, State, Txn, Version, fail};
use super::shape::Shape;
use crate::client::{DUPLICATE, Told, ask, session, tell};

/// The tables, and what is in their definitions besides the columns.
const TABLES: [&str; 2] = [", KEY by_version (version)", ""];
/// Errors after which a client runs another transaction, besides those of locks: a full
/// disk, no memory, too many locks.
const SHORT_OF: [u16; 3] = [1021, 1041, 1206];
/// A bit of versions that are not the next one of any client.
const NEVER_NEXT: u64 = 1 << 31;
/// The most keys of a range that a statement changes.
const RANGE_MAX: u64 = 3;

/// The definitions of the tables, each after CREATE TABLE IF NOT EXISTS.
pub(super) fn definitions() -> impl Iterator<Item = String> {
    let columns = "id INT PRIMARY KEY, version BIGINT NOT NULL";
    TABLES.iter().enumerate().map(move |(table, more)| format!("rows{table} ({columns}{more})"))
}

fn look(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

fn number(word: &str) -> u64 {
    word.trim().parse().unwrap_or_else(|_| fail(&format!("not a number: {word}")))
}

fn pair(line: &str) -> (u64, u64) {
    let (first, second) = line.trim().split_once(' ').unwrap_or_else(|| fail(line));
    (number(first), number(second))
}

/// The contents of the tables.
pub(super) fn state(instance: &Instance) -> Result<State, Refusal> {
    let mut session = session(instance)?;
    let mut state = State::new();
    for table in 0..TABLES.len() {
        for line in ask(&mut session, &format!("SELECT id, version FROM rows{table}"))? {
            let (id, version) = pair(&line);
            state.insert((oracle::TABLES + table, id), version);
        }
    }
    Ok(state)
}

/// The outcome of a change, and what the change does.
#[derive(Default)]
struct Change {
    /// What it found where it has locked a row or a key.
    locked: Vec<(Key, Version)>,
    /// Results for keys where it found nothing to change.
    missed: Vec<(Key, Version)>,
    writes: Vec<(Key, Option<u64>)>,
    /// How many of some keys exist, if it does not tell which.
    some: Option<Count>,
}

impl Change {
    /// A change of a key that exists, or is free if `version` says so.
    fn of(key: Key, version: Version, write: Option<u64>) -> Change {
        Change { locked: vec![(key, version)], writes: vec![(key, write)], ..Change::default() }
    }

    /// A change that only found something.
    fn locks(key: Key, version: Version) -> Change {
        Change { locked: vec![(key, version)], ..Change::default() }
    }

    fn misses(key: Key, version: Version) -> Change {
        Change { missed: vec![(key, version)], ..Change::default() }
    }
}

/// The numbers that a change told.
struct Numbers {
    affected: u64,
    matched: u64,
    duplicates: u64,
    is_duplicate: bool,
}

impl Numbers {
    fn of(told: &Told, is_duplicate: bool) -> Numbers {
        let affected = told.outcome.affected_rows;
        let (matched, duplicates) = match told.outcome.info {
            Info::Updated { matched, changed, .. } => {
                if changed != affected {
                    fail(&format!("{affected} rows are affected by {:?}", told.outcome));
                }
                (matched, 0)
            }
            Info::Inserted { duplicates, .. } => (0, duplicates),
            Info::Nothing => (0, 0),
        };
        Numbers { affected, matched, duplicates, is_duplicate }
    }
}

/// A client's memory between its transactions.
pub(super) struct Outcomes {
    /// The last version that it wrote.
    next: u64,
    /// Versions that it has seen.
    known: BTreeMap<Key, u64>,
}

impl Outcomes {
    pub(super) fn new(number: u64) -> Outcomes {
        Outcomes { next: number << 32, known: BTreeMap::new() }
    }

    /// Runs a transaction, or a statement that commits by itself.
    pub(super) fn transaction(
        &mut self,
        (seen, shape): (&Mutex<Seen>, &Shape),
        session: &mut Session,
        rng: &mut Rng,
    ) -> Result<(), SqlError> {
        let isolation = match rng.below(100) {
            share if share < shape.serializable => Isolation::Serializable,
            _ if rng.chance(shape.committed, 100) => Isolation::ReadCommitted,
            _ => Isolation::RepeatableRead,
        };
        let on_newest = isolation == Isolation::ReadCommitted
            || isolation == Isolation::RepeatableRead && rng.chance(3, 4);
        let strict = if on_newest { "OFF" } else { "ON" };
        ask(session, &format!("SET SESSION innodb_snapshot_isolation = {strict}"))?;
        let level = match isolation {
            Isolation::ReadCommitted => "READ COMMITTED",
            Isolation::RepeatableRead => "REPEATABLE READ",
            Isolation::Serializable => "SERIALIZABLE",
        };
        ask(session, &format!("SET TRANSACTION ISOLATION LEVEL {level}"))?;
        let floor = look(seen).acknowledged;
        let alone = rng.chance(1, 4);
        let txn = Txn {
            serializable: isolation == Isolation::Serializable,
            durable: true,
            floor,
            ..Txn::default()
        };
        let mut run = Running {
            seen,
            keys: shape.keys,
            session,
            rng,
            client: self,
            isolation,
            on_newest,
            alone,
            since: floor,
            txn,
            writes: BTreeMap::new(),
            undoing: false,
        };
        match run.run() {
            Err(error) if SHORT_OF.contains(&error.code) => ask(session, "ROLLBACK").map(drop),
            done => done,
        }
    }
}

/// A running transaction.
struct Running<'r> {
    seen: &'r Mutex<Seen>,
    keys: u64,
    session: &'r mut Session,
    rng: &'r mut Rng,
    client: &'r mut Outcomes,
    isolation: Isolation,
    /// Whether changes act on the newest rows (NEWEST-1).
    on_newest: bool,
    /// Whether its only statement commits by itself.
    alone: bool,
    /// The newest acknowledged commit when the statement began.
    since: Csn,
    txn: Txn,
    /// Its writes so far.
    writes: BTreeMap<Key, Option<u64>>,
    /// Whether the running change will be undone.
    undoing: bool,
}

impl Running<'_> {
    fn run(&mut self) -> Result<(), SqlError> {
        if self.alone {
            return self.statement();
        }
        ask(self.session, "BEGIN")?;
        for _ in 0..1 + self.rng.below(5) {
            self.statement()?;
        }
        if self.isolation != Isolation::ReadCommitted {
            self.txn.snapshot = self.session.snapshot_csn();
        }
        if self.rng.chance(1, 10) {
            return ask(self.session, "ROLLBACK").map(drop);
        }
        let mut told = Told::default();
        let done = tell(self.session, "COMMIT", &mut told);
        self.end(&told, done.is_ok());
        done
    }

    /// Hands the transaction to the oracle.
    fn end(&mut self, told: &Told, acknowledged: bool) {
        let mut txn = std::mem::take(&mut self.txn);
        txn.writes = std::mem::take(&mut self.writes);
        txn.ordered = told.ordered.filter(|_| !txn.writes.is_empty());
        if acknowledged && !txn.writes.is_empty() && txn.ordered.is_none() {
            fail(&format!("there is no commit of {txn:?}"));
        }
        (txn.acknowledged, txn.waited) = (acknowledged, told.waited);
        look(self.seen).end(txn);
    }

    fn keys(&self) -> u64 {
        self.keys
    }

    fn key(&mut self) -> Key {
        let table = self.rng.below(TABLES.len() as u64) as usize;
        (oracle::TABLES + table, self.rng.below(self.keys()))
    }

    fn version(&mut self) -> u64 {
        self.client.next += 1;
        self.client.next
    }

    /// A version that a key has, or had, as far as the client knows.
    fn known(&self, key: Key) -> u64 {
        self.client.known.get(&key).copied().unwrap_or(self.client.next | NEVER_NEXT)
    }

    fn statement(&mut self) -> Result<(), SqlError> {
        self.since = look(self.seen).acknowledged;
        let key = self.key();
        match self.rng.below(16) {
            0 | 1 => self.get(key, ""),
            2 => {
                let locking = [" FOR UPDATE", " FOR SHARE"][self.rng.below(2) as usize];
                self.get(key, locking)
            }
            3 => self.scan(key),
            4 => self.count(key),
            5 => self.find(key),
            _ => self.any_change(key),
        }
    }

    /// Runs a query. Its transaction ends with it if it is alone.
    fn query(&mut self, sql: &str) -> Result<Vec<String>, SqlError> {
        let mut told = Told::default();
        tell(self.session, sql, &mut told)?;
        Ok(told.lines().to_vec())
    }

    /// Hands a transaction of one query to the oracle.
    fn end_alone(&mut self) {
        if self.alone {
            self.end(&Told::default(), true);
        }
    }

    /// The kind of reads without locks.
    fn plain(&self) -> ReadKind {
        match self.alone || self.isolation == Isolation::ReadCommitted {
            true => ReadKind::Since(self.since),
            false => ReadKind::Snapshot,
        }
    }

    fn saw(&mut self, key: Key, kind: ReadKind, version: Version) {
        if let Version::Is(version) = version {
            self.client.known.insert(key, version);
        }
        match self.writes.get(&key) {
            Some(own) if !version.is(*own) => {
                fail(&format!("SIMULATION-14: {own:x?} was written to {key:?}, not {version:x?}"));
            }
            Some(_) => {}
            None => self.txn.reads.push(Read { key, kind, version }),
        }
    }

    /// Records what is true of a row or key that a statement has locked.
    fn locked(&mut self, key: Key, version: Version) {
        if self.isolation == Isolation::Serializable && !self.alone {
            self.saw(key, ReadKind::Snapshot, version);
        }
        // An undone statement may give its locks back.
        let kind = if self.undoing { ReadKind::Since(self.since) } else { ReadKind::Locked };
        self.saw(key, kind, version);
    }

    /// Records what is true of a key where a change or a locking read found nothing. It is not
    /// locked.
    fn missed(&mut self, key: Key, version: Version) {
        let kind = match self.on_newest {
            true => ReadKind::Since(self.since),
            false => self.plain(),
        };
        self.saw(key, kind, version);
    }

    fn get(&mut self, key: Key, locking: &str) -> Result<(), SqlError> {
        let (table, id) = (key.0 - oracle::TABLES, key.1);
        let sql = format!("SELECT version FROM rows{table} WHERE id = {id}{locking}");
        let found = self.query(&sql)?.first().map(|line| number(line));
        match found {
            _ if locking.is_empty() => self.saw(key, self.plain(), Version::of(found)),
            Some(version) => self.locked(key, Version::Is(version)),
            None => self.missed(key, Version::Absent),
        }
        self.end_alone();
        Ok(())
    }

    fn scan(&mut self, from: Key) -> Result<(), SqlError> {
        let (table, until) = (from.0 - oracle::TABLES, from.1 + 1 + self.rng.below(self.keys()));
        let order = ["", " ORDER BY id DESC"][self.rng.below(2) as usize];
        let range = format!("id >= {} AND id < {until}{order}", from.1);
        let lines = self.query(&format!("SELECT id, version FROM rows{table} WHERE {range}"))?;
        let found: BTreeMap<u64, u64> = lines.iter().map(|line| pair(line)).collect();
        for id in from.1..until.min(self.keys()) {
            self.saw((from.0, id), self.plain(), Version::of(found.get(&id).copied()));
        }
        self.end_alone();
        Ok(())
    }

    fn count(&mut self, from: Key) -> Result<(), SqlError> {
        let until = from.1 + 1 + self.rng.below(self.keys());
        let (table, range) =
            (from.0 - oracle::TABLES, format!("id >= {} AND id < {until}", from.1));
        let lines = self.query(&format!("SELECT COUNT(*) FROM rows{table} WHERE {range}"))?;
        let rows = number(lines.first().map_or("", String::as_str));
        if self.plain() == ReadKind::Snapshot {
            let keys = (from.1..until.min(self.keys())).map(|id| (from.0, id)).collect();
            self.counted(Count { keys, rows });
        }
        self.end_alone();
        Ok(())
    }

    /// Records a number of rows at the snapshot, apart from the transaction's own.
    fn counted(&mut self, count: Count) {
        let (own, keys): (Vec<Key>, Vec<Key>) =
            count.keys.into_iter().partition(|key| self.writes.contains_key(key));
        let own = own.iter().filter(|key| self.writes[*key].is_some()).count() as u64;
        let Some(rows) = count.rows.checked_sub(own) else {
            fail(&format!("SIMULATION-14: {} rows, of {own} written", count.rows))
        };
        self.txn.counts.push(Count { keys, rows });
    }

    /// Looks for the rows with a version, by an index in one of the tables.
    fn find(&mut self, key: Key) -> Result<(), SqlError> {
        let (table, version) = (key.0 - oracle::TABLES, self.known(key));
        let lines = self.query(&format!("SELECT id FROM rows{table} WHERE version = {version}"))?;
        let found: Vec<u64> = lines.iter().map(|line| number(line)).collect();
        for id in 0..self.keys() {
            let is_there = found.contains(&id);
            let version = if is_there { Version::Is(version) } else { Version::Not(version) };
            self.saw((key.0, id), self.plain(), version);
        }
        self.end_alone();
        Ok(())
    }

    fn any_change(&mut self, key: Key) -> Result<(), SqlError> {
        let (table, id) = (key.0 - oracle::TABLES, key.1);
        let (new, known) = (self.version(), self.known(key));
        let values = format!("INTO rows{table} VALUES ({id}, {new})");
        let row = format!("rows{table} SET version = {new} WHERE id = {id}");
        let kinds = if self.alone { 9 } else { 12 };
        match self.rng.below(kinds) {
            0 => self.change(&format!("UPDATE {row}"), |told| match told.matched {
                0 => Change::misses(key, Version::Absent),
                _ => Change::of(key, Version::Some, Some(new)),
            }),
            1 => {
                let sql = format!("UPDATE {row} AND version = {known}");
                self.change(&sql, |told| match told.matched {
                    0 => Change::misses(key, Version::Not(known)),
                    _ => Change::of(key, Version::Is(known), Some(new)),
                })
            }
            2 => {
                let sql = format!("UPDATE rows{table} SET version = {known} WHERE id = {id}");
                self.change(&sql, |told| match (told.matched, told.affected) {
                    (0, _) => Change::misses(key, Version::Absent),
                    (_, 0) => Change::locks(key, Version::Is(known)),
                    _ => Change {
                        locked: vec![(key, Version::Some), (key, Version::Not(known))],
                        ..Change::of(key, Version::Some, Some(known))
                    },
                })
            }
            3 => {
                let sql = format!("DELETE FROM rows{table} WHERE id = {id}");
                self.change(&sql, |told| match told.affected {
                    0 => Change::misses(key, Version::Absent),
                    _ => Change::of(key, Version::Some, None),
                })
            }
            4 => {
                let sql = format!("DELETE FROM rows{table} WHERE id = {id} AND version = {known}");
                self.change(&sql, |told| match told.affected {
                    0 => Change::misses(key, Version::Not(known)),
                    _ => Change::of(key, Version::Is(known), None),
                })
            }
            5 => self.change(&format!("INSERT {values}"), |told| match told.is_duplicate {
                true => Change::locks(key, Version::Some),
                false => Change::of(key, Version::Absent, Some(new)),
            }),
            6 => self.change(&format!("INSERT IGNORE {values}"), |told| match told.affected {
                0 => Change::locks(key, Version::Some),
                _ => Change::of(key, Version::Absent, Some(new)),
            }),
            7 => self.change(&format!("REPLACE {values}"), |told| match told.affected {
                1 => Change::of(key, Version::Absent, Some(new)),
                _ => Change::of(key, Version::Some, Some(new)),
            }),
            8 => {
                let sql = format!("INSERT {values} ON DUPLICATE KEY UPDATE version = {new}");
                self.change(&sql, |told| match told.affected {
                    1 => Change::of(key, Version::Absent, Some(new)),
                    _ => Change::of(key, Version::Some, Some(new)),
                })
            }
            9 => self.change_range(key, Some(new)),
            10 => self.change_range(key, None),
            _ => self.insert_several(key),
        }
    }

    /// Updates or deletes the rows of a range.
    fn change_range(&mut self, from: Key, write: Option<u64>) -> Result<(), SqlError> {
        let until = (from.1 + 1 + self.rng.below(RANGE_MAX)).min(self.keys());
        let keys: Vec<Key> = (from.1..until).map(|id| (from.0, id)).collect();
        let (table, range) =
            (from.0 - oracle::TABLES, format!("id >= {} AND id < {until}", from.1));
        let sql = match write {
            Some(new) => format!("UPDATE rows{table} SET version = {new} WHERE {range}"),
            None => format!("DELETE FROM rows{table} WHERE {range}"),
        };
        self.change(&sql, |told| {
            let rows = if write.is_some() { told.matched } else { told.affected };
            let missed: Vec<(Key, Version)> =
                keys.iter().map(|key| (*key, Version::Absent)).collect();
            if rows == 0 {
                return Change { missed, ..Change::default() };
            }
            if rows < keys.len() as u64 {
                let some = Some(Count { keys: keys.clone(), rows });
                return Change { some, ..Change::default() };
            }
            Change {
                locked: keys.iter().map(|key| (*key, Version::Some)).collect(),
                writes: keys.iter().map(|key| (*key, write)).collect(),
                ..Change::default()
            }
        })
    }

    /// Inserts several rows, without those that exist.
    fn insert_several(&mut self, from: Key) -> Result<(), SqlError> {
        let until = (from.1 + 1 + self.rng.below(RANGE_MAX)).min(self.keys());
        let new: Vec<(Key, u64)> =
            (from.1..until).map(|id| ((from.0, id), self.version())).collect();
        let rows: Vec<String> =
            new.iter().map(|((_, id), version)| format!("({id}, {version})")).collect();
        let table = from.0 - oracle::TABLES;
        let sql = format!("INSERT IGNORE INTO rows{table} VALUES {}", rows.join(", "));
        self.change(&sql, |told| {
            let there = new.len() as u64 - told.affected;
            let all = |version| new.iter().map(|(key, _)| (*key, version)).collect();
            if new.len() > 1 && there != told.duplicates {
                fail(&format!("SIMULATION-14: {there} duplicates, not {}", told.duplicates));
            }
            if told.affected == 0 {
                return Change { locked: all(Version::Some), ..Change::default() };
            }
            if there > 0 {
                let keys = new.iter().map(|(key, _)| *key).collect();
                return Change { some: Some(Count { keys, rows: there }), ..Change::default() };
            }
            Change {
                locked: all(Version::Absent),
                writes: new.iter().map(|(key, version)| (*key, Some(*version))).collect(),
                ..Change::default()
            }
        })
    }

    /// Runs a change, and records what `judge` makes of its outcome. Sometimes undoes the change:
    /// its outcome is a read all the same.
    fn change(&mut self, sql: &str, judge: impl Fn(&Numbers) -> Change) -> Result<(), SqlError> {
        if !self.alone {
            ask(self.session, "SAVEPOINT before_change")?;
        }
        let mut told = Told::default();
        let done = tell(self.session, sql, &mut told);
        let is_duplicate = matches!(&done, Err(error) if error.code == DUPLICATE);
        // A statement that commits by itself may have told its outcome, and have failed then.
        let has_told = done.is_ok() || is_duplicate || told.ordered.is_some();
        if !has_told {
            return done;
        }
        let change = judge(&Numbers::of(&told, is_duplicate));
        self.undoing = !self.alone && (change.some.is_some() || self.rng.chance(1, 6));
        if self.undoing {
            ask(self.session, "ROLLBACK TO before_change")?;
        }
        for (key, version) in change.locked {
            self.locked(key, version);
        }
        for (key, version) in change.missed {
            self.missed(key, version);
        }
        if let (Some(count), Isolation::Serializable) = (change.some, self.isolation) {
            self.counted(count);
        }
        if !self.undoing {
            self.writes.extend(change.writes);
        }
        self.undoing = false;
        if self.alone {
            self.end(&told, done.is_ok() || is_duplicate);
        }
        if is_duplicate { Ok(()) } else { done }
    }
}
