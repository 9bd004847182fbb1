//! Tasks that run beside the clients of a life: flushes, compactions, backups, and disturbances of
//! memory and of the disk.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use spillway::backup::{Backup, BackupOptions, Repository};
use spillway::{
    Database, Direction, EngineKind, Error, ErrorKind, KeyRange, Table, Transaction,
    TransactionOptions,
};
use spillway_base::budget::Use;
use spillway_base::clock::Clock;
use spillway_base::rng::Rng;
use spillway_base::scheduler;
use spillway_base::thread::{self, JoinHandle};
use spillway_storage::Disk;
use spillway_storage::sim::{SimDisk, SyncFault};

use super::client::Life;
use super::oracle::{event, fail};
use super::shape;
use super::sql;
use crate::client::{ask, session};

/// Syncs fail or lie below one of these folders. The parts of a database may be on different
/// devices.
const DEVICES: [&str; 6] = ["/", "/", "/", "/db/log", "/db/tiered", "/db/memory"];
/// The folder of the backups.
pub(super) const BACKUPS: &str = "/backups";
/// The table that fills a disk.
pub(super) const LARGE: &str = "large";
/// Of the free memory, a charge that lasts leaves one part in this many.
const LEFT_SHARE: usize = 8;
/// Such a charge lasts less than this, in microseconds.
const PRESSED_US: u64 = 50_000;
/// The most space that the table takes which fills a disk: several segments of the log.
const LARGE_BYTES: u64 = 16 * (shape::EMPTYING_SEGMENT_KIB << 10);
/// The bytes of a row of it. Larger rows are several pages of a file.
const LARGE_ROW: usize = 3000;
const SCATTERED_ROW: usize = 24_000;
/// The bytes that are inserted before the background work has time.
const BYTES_AT_ONCE: usize = 16 * LARGE_ROW;
/// The bytes that are inserted after it was emptied.
const LATER_BYTES: usize = 80 * LARGE_ROW;
/// SIMULATION-15: on a full disk, a table is emptied within this time, its space is free, and later
/// rows find room. It is more than the time in which commits wait for such space (RESERVE-5).
const FREED_WITHIN: Duration = Duration::from_secs(12);
/// The time between two tries.
const RETRY: Duration = Duration::from_millis(50);
/// MySQL's errors of a full disk, of damage, and of a table that does not exist.
const DISK_FULL: u16 = 1021;
const DAMAGED: u16 = 1034;
const NO_TABLE: [u16; 2] = [1051, 1146];

/// Starts a task.
pub(super) fn start(name: &str, body: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    thread::spawn(name, body).unwrap_or_else(|error| fail(&format!("no thread: {error}")))
}

/// Starts what the shape of a history has run beside the clients.
pub(super) fn start_beside(
    life: &Arc<Life>,
    disk: &SimDisk,
    rng: &mut Rng,
    tasks: &mut Vec<JoinHandle<()>>,
) {
    type Act = fn(&Arc<Life>, &SimDisk, &mut Rng);
    let shape = life.shape;
    let lasting: Act = if shape.empties() { fill_and_empty } else { fill_disk };
    let acts: [(bool, &str, Act); 6] = [
        (shape.beside & shape::FLUSH != 0, "flush", |life, _, rng| {
            repeat(rng, || life.db.flush());
        }),
        (shape.beside & shape::COMPACT != 0, "compact", |life, _, rng| {
            repeat(rng, || life.db.compact());
        }),
        (shape.beside & shape::PRESSURE != 0, "pressure", |life, _, rng| press(&life.db, rng)),
        (shape.faults & (shape::LASTING | shape::EMPTYING) != 0, "filler", lasting),
        (shape.faults & shape::SYNCS != 0, "liar", disturb_syncs),
        (shape.beside & shape::BACKUP != 0, "backup", |life, disk, rng| {
            pause(rng);
            let floor = life.seen().acknowledged;
            if let Ok(backup) = back_up(&life.db, disk) {
                life.seen().backups.push((backup.number, floor, backup.through));
            }
        }),
    ];
    for (runs, name, act) in acts {
        if runs {
            // Backups are of this process.
            let disk = if name == "backup" { disk.process() } else { disk.clone() };
            let (life, mut rng) = (life.clone(), Rng::new(rng.next_u64()));
            tasks.push(start(name, move || act(&life, &disk, &mut rng)));
        }
    }
}

/// Flushes or compacts from time to time.
fn repeat(rng: &mut Rng, act: impl Fn() -> Result<(), Error>) {
    for _ in 0..1 + rng.below(8) {
        pause(rng);
        if act().is_err() {
            break;
        }
    }
}

/// Waits before an act.
fn pause(rng: &mut Rng) {
    if rng.chance(1, 2) {
        let most = [300, 3_000, 30_000][rng.below(3) as usize];
        scheduler::wait_steps(rng.below(most));
    } else {
        let most = [20_000, 1_000_000][rng.below(2) as usize];
        Clock::system().sleep(Duration::from_micros(rng.below(most)));
    }
}

/// Takes memory from time to time, as other parts of a process do, so that rows and blocks are
/// evicted: more than there is, which is refused, or nearly all, for a while.
fn press(db: &Database, rng: &mut Rng) {
    for _ in 0..2 + rng.below(8) {
        pause(rng);
        let limit = db.budget().limit();
        drop(db.budget().try_charge(Use::Other, limit));
        if rng.chance(1, 2) {
            let free = limit.saturating_sub(db.budget().used());
            let charge = db.budget().try_charge(Use::Other, free - free / LEFT_SHARE);
            Clock::system().sleep(Duration::from_micros(rng.below(PRESSED_US)));
            drop(charge);
        }
    }
}

/// Makes syncs fail or lie for a part of a life.
fn disturb_syncs(life: &Arc<Life>, disk: &SimDisk, rng: &mut Rng) {
    let faults = [SyncFault::Fail, SyncFault::Lie, SyncFault::Lie, SyncFault::Stale];
    let fault = faults[rng.below(4) as usize];
    let one_in = [1, 1, 2, 4][rng.below(4) as usize];
    let below = DEVICES[rng.below(DEVICES.len() as u64) as usize];
    pause(rng);
    {
        let over = life.over.lock();
        if *over {
            return;
        }
        if fault != SyncFault::Fail {
            // Before the first lie, so that no acknowledgement is taken for honest.
            life.seen().lies = Some(fault);
        }
        disk.disturb_syncs(fault, one_in, Path::new(below));
    }
    event(|| format!("one sync in {one_in} below {below} meets {fault:?}"));
    pause(rng);
    let over = life.over.lock();
    if !*over {
        disk.calm_syncs();
        event(|| "syncs are honest again".to_owned());
    }
}

/// Sets the disk's capacity. Returns `false` if the life is over.
fn set_capacity(life: &Life, disk: &SimDisk, capacity: Option<u64>) -> bool {
    let over = life.over.lock();
    if !*over {
        disk.set_capacity(capacity);
        life.seen().is_full = capacity.is_some();
    }
    !*over
}

/// Fills the disk for a while, once or twice in a life.
fn fill_disk(life: &Arc<Life>, disk: &SimDisk, rng: &mut Rng) {
    for _ in 0..1 + rng.below(2) {
        pause(rng);
        let capacity = disk.used() + (rng.below(4) << 13);
        event(|| format!("the disk is full from {capacity} bytes on"));
        if !set_capacity(life, disk, Some(capacity)) {
            return;
        }
        pause(rng);
        event(|| "the disk has room again".to_owned());
        if !set_capacity(life, disk, None) {
            return;
        }
    }
}

/// Fills the disk with a table, and then drops or empties this table while the disk stays as it is
/// (SIMULATION-15).
fn fill_and_empty(life: &Arc<Life>, disk: &SimDisk, rng: &mut Rng) {
    pause(rng);
    if let Err(Stopped) = empty_full_disk(life, disk, rng) {
        event(|| "the table that fills the disk is left as it is".to_owned());
    }
    set_capacity(life, disk, None);
}

/// A life, or its database, ended.
struct Stopped;

/// How a step on a full disk ended.
enum Step {
    Done,
    /// The disk is full.
    Full,
    /// There is no memory for a while, or another transaction has a lock.
    Again,
}

impl Step {
    fn of(done: Result<(), Error>) -> Result<Step, Stopped> {
        match done.map_err(|error| error.kind()) {
            Ok(()) => Ok(Step::Done),
            Err(ErrorKind::DiskFull) => Ok(Step::Full),
            Err(ErrorKind::MemoryFull | ErrorKind::LockTimeout | ErrorKind::LockTableFull) => {
                Ok(Step::Again)
            }
            Err(_) => Err(Stopped),
        }
    }
}

/// How the table that fills a disk is emptied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Emptying {
    Dropped,
    /// As by TRUNCATE.
    Emptied,
    /// Every other row is deleted, one by one.
    Thinned,
}

fn empty_full_disk(life: &Arc<Life>, disk: &SimDisk, rng: &mut Rng) -> Result<(), Stopped> {
    let engine = [EngineKind::Tiered, EngineKind::Memory][rng.below(2) as usize];
    let emptying = [Emptying::Dropped, Emptying::Emptied, Emptying::Thinned];
    let emptying = emptying[rng.below(if engine == EngineKind::Memory { 3 } else { 2 }) as usize];
    let is_thinned = emptying == Emptying::Thinned;
    let clock = Clock::system();
    let mut large = Large::new(life, engine, emptying)?;
    let capacity = disk.used() + LARGE_BYTES;
    event(|| format!("a table of {engine:?} fills the disk of {capacity} bytes"));
    if !set_capacity(life, disk, Some(capacity)) {
        return Err(Stopped);
    }
    let rows = fill_with(&mut large)?;
    let before = disk.used();
    event(|| format!("the disk is full with {rows} rows, {before} bytes"));
    clock.sleep(Duration::from_micros(rng.below(500_000)));
    let began = Cell::new(clock.now());
    // Every failure after so long is one of the database, if the life goes on.
    let retry = |what: &str| {
        let over = *life.over.lock();
        if over {
            return Err(Stopped);
        }
        if clock.now() - began.get() > FREED_WITHIN {
            let used = disk.used();
            fail(&format!(
                "SIMULATION-15: {what} {FREED_WITHIN:?} after a table of {rows} rows of {engine:?} \
                 was {emptying:?}: {used} of {capacity} bytes are used, {before} before; {}",
                space_of(life, disk)
            ));
        }
        clock.sleep(RETRY);
        Ok(())
    };
    for row in (1..if is_thinned { rows } else { 0 }).step_by(2) {
        while !matches!(large.delete(row)?, Step::Done) {
            retry("no row is deleted")?;
        }
        began.set(clock.now());
    }
    while !is_thinned && !matches!(large.empty()?, Step::Done) {
        retry("no commit empties the disk")?;
    }
    event(|| format!("{emptying:?} after {:?}", clock.now()));
    // The clients' small commits may find room before much space is free. After that, only a row
    // that does not fit asks the engine for space, so the check is that rows fit.
    let freed = rows * large.row_bytes() as u64 / 2;
    while !is_thinned && disk.used() + freed > before {
        retry("no space is free")?;
    }
    while emptying == Emptying::Dropped && !matches!(large.create()?, Step::Done) {
        retry("no table is created")?;
    }
    // Of rows here and there, the pages that they share with others stay.
    let later = if is_thinned { rows / 4 } else { (LATER_BYTES / large.row_bytes()) as u64 };
    for row in 0..later {
        while !matches!(large.insert(rows + row)?, Step::Done) {
            retry("no row is inserted")?;
        }
    }
    let left = large.check()?;
    if is_thinned && (0..rows).step_by(2).any(|row| !left.contains(&row)) {
        fail(&format!("SIMULATION-15: of {rows} rows, others than deleted ones are gone"));
    }
    life.seen().emptied_on_full_disk += 1;
    Ok(())
}

/// Inserts rows until the disk is full. Returns their number.
fn fill_with(large: &mut Large<'_>) -> Result<u64, Stopped> {
    let clock = Clock::system();
    let bytes = large.row_bytes();
    let mut rows = 0;
    // A refusal may take as long as commits wait for space.
    while rows < 2 * LARGE_BYTES / bytes as u64 {
        match large.insert(rows)? {
            Step::Done => {
                rows += 1;
                if rows.is_multiple_of((BYTES_AT_ONCE / bytes) as u64) {
                    // Otherwise all of them are in the log only, if operations take no time.
                    clock.sleep(RETRY);
                }
            }
            Step::Full => break,
            Step::Again => clock.sleep(RETRY),
        }
    }
    Ok(rows)
}

/// The value of a row of the table that fills a disk: letters that hardly compress.
fn value_of(number: u64, bytes: usize) -> Vec<u8> {
    let mut rng = Rng::new(number);
    (0..bytes).map(|_| b'(' + rng.below(51) as u8).collect()
}

/// The bytes of files by folder and kind, and what engines say of them, for a message.
fn space_of(life: &Life, disk: &SimDisk) -> String {
    let mut kinds = BTreeMap::new();
    for (path, bytes) in disk.files() {
        let kind = path.with_file_name(path.extension().unwrap_or_default());
        *kinds.entry(kind).or_insert(0) += bytes;
    }
    let figures = life.db.metrics().into_iter().filter(|metric| {
        ["memory_engine_kept", "memory_engine_live", "memory_memtables", "tiered_ssd_bytes"]
            .iter()
            .any(|name| metric.name.starts_with(name))
    });
    let figures: Vec<_> = figures.map(|metric| (metric.name, metric.value)).collect();
    format!("{kinds:?}, {figures:?}")
}

/// The table that fills a disk: of SQL, or of the library.
struct Large<'l> {
    life: &'l Life,
    engine: EngineKind,
    emptying: Emptying,
    session: Option<spillway_sql::Session>,
    table: Option<Table>,
}

impl Large<'_> {
    /// Creates the table anew. All rows of an earlier life can be read.
    fn new(life: &Arc<Life>, engine: EngineKind, emptying: Emptying) -> Result<Large<'_>, Stopped> {
        let session = match &life.sql {
            Some(instance) => Some(session(instance).map_err(|_| Stopped)?),
            None => None,
        };
        let mut large = Large { life, engine, emptying: Emptying::Dropped, session, table: None };
        large.check()?;
        large.empty()?;
        large.emptying = emptying;
        match large.create()? {
            Step::Done => Ok(large),
            _ => Err(Stopped),
        }
    }

    fn run(&mut self, sql: &str) -> Result<Step, Stopped> {
        let Some(session) = &mut self.session else { return Err(Stopped) };
        match ask(session, sql) {
            Ok(_) => Ok(Step::Done),
            Err(error) if error.code == DISK_FULL => Ok(Step::Full),
            Err(error) if NO_TABLE.contains(&error.code) => Ok(Step::Done),
            Err(error) if [1041, 1205, 1206, 1213].contains(&error.code) => Ok(Step::Again),
            Err(_) => Err(Stopped),
        }
    }

    fn commit(&self, act: impl FnOnce(&Transaction) -> Result<(), Error>) -> Result<Step, Stopped> {
        let txn = self.life.db.begin(TransactionOptions::new());
        Step::of(act(&txn).and_then(|()| txn.commit().wait().map(drop)))
    }

    fn create(&mut self) -> Result<Step, Stopped> {
        if self.session.is_some() {
            let engine = sql::engine_name(self.engine);
            let columns = "id INT PRIMARY KEY, value TEXT";
            return self.run(&format!("CREATE TABLE {LARGE} ({columns}) ENGINE={engine}"));
        }
        let mut table = None;
        let step = self.commit(|txn| {
            table = Some(txn.create_table(LARGE, self.engine)?);
            Ok(())
        })?;
        self.table = table;
        Ok(step)
    }

    fn insert(&mut self, number: u64) -> Result<Step, Stopped> {
        if self.session.is_some() {
            let value = value_of(number, self.row_bytes());
            let value = String::from_utf8_lossy(&value).into_owned();
            return self.run(&format!("INSERT INTO {LARGE} VALUES ({number}, '{value}')"));
        }
        let Some(table) = self.table else { return Err(Stopped) };
        let value = value_of(number, self.row_bytes());
        self.commit(|txn| txn.put(table, &number.to_be_bytes(), &value))
    }

    fn row_bytes(&self) -> usize {
        if self.emptying == Emptying::Thinned { SCATTERED_ROW } else { LARGE_ROW }
    }

    fn delete(&mut self, number: u64) -> Result<Step, Stopped> {
        if self.session.is_some() {
            return self.run(&format!("DELETE FROM {LARGE} WHERE id = {number}"));
        }
        let Some(table) = self.table else { return Err(Stopped) };
        self.commit(|txn| txn.delete(table, &number.to_be_bytes()))
    }

    /// Reads all rows, if there is such a table, and checks their values. Returns their numbers.
    fn check(&mut self) -> Result<Vec<u64>, Stopped> {
        let rows = match &mut self.session {
            Some(session) => sql_rows(session)?,
            None => library_rows(&self.life.db)?,
        };
        for (number, value) in &rows {
            if *value != value_of(*number, value.len()) {
                fail(&format!("SIMULATION-15: row {number} has another value"));
            }
        }
        Ok(rows.into_iter().map(|(number, _)| number).collect())
    }

    /// Drops the table if there is one, or deletes its rows as TRUNCATE does.
    fn empty(&mut self) -> Result<Step, Stopped> {
        let drops = self.emptying == Emptying::Dropped;
        if self.session.is_some() {
            let verb = if drops { "DROP TABLE" } else { "TRUNCATE TABLE" };
            return self.run(&format!("{verb} {LARGE}"));
        }
        self.commit(|txn| {
            let table = match txn.table(LARGE) {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
                found => found?,
            };
            match drops {
                true => txn.drop_table(LARGE),
                false => txn.delete_range(table, KeyRange::ALL).map(drop),
            }
        })
    }
}

/// The rows of the table that fills a disk; none if there is no such table.
fn sql_rows(session: &mut spillway_sql::Session) -> Result<Vec<(u64, Vec<u8>)>, Stopped> {
    let lines = match ask(session, &format!("SELECT id, value FROM {LARGE}")) {
        Ok(lines) => lines,
        Err(error) if NO_TABLE.contains(&error.code) => return Ok(Vec::new()),
        Err(error) if error.code == DAMAGED => fail(&format!("SIMULATION-15: {error:?}")),
        Err(_) => return Err(Stopped),
    };
    let row = |line: &String| {
        let (number, value) = line.trim_end().split_once(' ')?;
        Some((number.parse().ok()?, value.as_bytes().to_vec()))
    };
    lines.iter().map(|line| row(line).ok_or(Stopped)).collect()
}

fn library_rows(db: &Database) -> Result<Vec<(u64, Vec<u8>)>, Stopped> {
    let stopped = |error: Error| {
        if error.kind() == ErrorKind::Corruption {
            fail(&format!("SIMULATION-15: {error}"));
        }
        Stopped
    };
    let txn = db.begin(TransactionOptions::new());
    let table = match txn.table(LARGE) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        found => found.map_err(stopped)?,
    };
    let rows = txn.scan(table, KeyRange::ALL, Direction::Forward).map_err(stopped)?;
    rows.map(|row| {
        let (key, value) = row.map_err(stopped)?;
        Ok((u64::from_be_bytes(key.try_into().map_err(|_| Stopped)?), value))
    })
    .collect()
}

fn back_up(db: &Database, disk: &SimDisk) -> Result<Backup, Error> {
    disk.create_dir_all(Path::new(BACKUPS))?;
    let repository = Repository::open_on(Arc::new(disk.clone()), Path::new(BACKUPS), true)?;
    db.backup(&repository, &BackupOptions::new(), &mut |_, _| Ok(()))
}
