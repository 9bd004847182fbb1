//! What runs beside the clients of a life: flushes, compactions, backups, and disturbances of
//! memory and of the disk.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use spillway::backup::{Backup, BackupOptions, Repository};
use spillway::{
    Database, EngineKind, Error, ErrorKind, KeyRange, Table, Transaction, TransactionOptions,
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
/// The bytes of a row of it.
const LARGE_ROW: usize = 3000;
/// The rows that are inserted before the background work has time.
const ROWS_AT_ONCE: u64 = 16;
/// The rows that are inserted after it was emptied.
const LATER_ROWS: u64 = 20;
/// SIMULATION-15: on a full disk, a table is emptied within this time, its space is free, and later
/// rows find room. It is more than the time in which commits wait for such space (RESERVE-5).
const FREED_WITHIN: Duration = Duration::from_secs(12);
/// The time between two tries.
const RETRY: Duration = Duration::from_millis(50);
/// MySQL's error of a full disk, and of a table that does not exist.
const DISK_FULL: u16 = 1021;
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
        disk.disturb_syncs(fault, one_in);
    }
    event(|| format!("one sync in {one_in} meets {fault:?}"));
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

fn empty_full_disk(life: &Arc<Life>, disk: &SimDisk, rng: &mut Rng) -> Result<(), Stopped> {
    let engine = [EngineKind::Tiered, EngineKind::Memory][rng.below(2) as usize];
    let drops = rng.chance(1, 2);
    let clock = Clock::system();
    let mut large = Large::new(life, engine)?;
    let capacity = disk.used() + LARGE_BYTES;
    event(|| format!("a table of {engine:?} fills the disk of {capacity} bytes"));
    if !set_capacity(life, disk, Some(capacity)) {
        return Err(Stopped);
    }
    let (mut rows, mut is_full) = (0, false);
    // A refusal may take as long as commits wait for space.
    while !is_full && rows < 2 * LARGE_BYTES / LARGE_ROW as u64 {
        match large.insert(rows)? {
            Step::Done => {
                rows += 1;
                if rows.is_multiple_of(ROWS_AT_ONCE) {
                    // Otherwise all of them are in the log only, if operations take no time.
                    clock.sleep(RETRY);
                }
            }
            Step::Full => is_full = true,
            Step::Again => clock.sleep(RETRY),
        }
    }
    let before = disk.used();
    event(|| format!("the disk is full with {rows} rows, {before} bytes"));
    clock.sleep(Duration::from_micros(rng.below(500_000)));
    let began = clock.now();
    // Every failure after so long is one of the database, if the life goes on.
    let retry = |what: &str| {
        let over = *life.over.lock();
        if over {
            return Err(Stopped);
        }
        if clock.now() - began > FREED_WITHIN {
            let used = disk.used();
            let how = if drops { "dropped" } else { "emptied" };
            fail(&format!(
                "SIMULATION-15: {what} {FREED_WITHIN:?} after a table of {rows} rows of {engine:?} \
                 was {how}: {used} of {capacity} bytes are used, {before} before; {}",
                space_of(life, disk)
            ));
        }
        clock.sleep(RETRY);
        Ok(())
    };
    while !matches!(large.empty(drops)?, Step::Done) {
        retry("no commit empties the disk")?;
    }
    event(|| format!("{} after {:?}", if drops { "dropped" } else { "emptied" }, clock.now()));
    let freed = rows * LARGE_ROW as u64 / 2;
    while disk.used() + freed > before {
        retry("no space is free")?;
    }
    if drops {
        while !matches!(large.create()?, Step::Done) {
            retry("no table is created")?;
        }
    }
    for row in 0..LATER_ROWS {
        while !matches!(large.insert(rows + row)?, Step::Done) {
            retry("no row is inserted")?;
        }
    }
    life.seen().emptied_on_full_disk += 1;
    Ok(())
}

/// The value of a row of the table that fills a disk: letters that hardly compress.
fn value_of(number: u64) -> Vec<u8> {
    let mut rng = Rng::new(number);
    (0..LARGE_ROW).map(|_| b'(' + rng.below(51) as u8).collect()
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
    session: Option<spillway_sql::Session>,
    table: Option<Table>,
}

impl Large<'_> {
    /// Creates the table anew.
    fn new(life: &Arc<Life>, engine: EngineKind) -> Result<Large<'_>, Stopped> {
        let session = match &life.sql {
            Some(instance) => Some(session(instance).map_err(|_| Stopped)?),
            None => None,
        };
        let mut large = Large { life, engine, session, table: None };
        large.empty(true)?;
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
            let columns = "id INT PRIMARY KEY, value VARCHAR(4000)";
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
            let value = String::from_utf8_lossy(&value_of(number)).into_owned();
            return self.run(&format!("INSERT INTO {LARGE} VALUES ({number}, '{value}')"));
        }
        let Some(table) = self.table else { return Err(Stopped) };
        self.commit(|txn| txn.put(table, &number.to_be_bytes(), &value_of(number)))
    }

    /// Drops the table if there is one, or deletes its rows as TRUNCATE does.
    fn empty(&mut self, drops: bool) -> Result<Step, Stopped> {
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

fn back_up(db: &Database, disk: &SimDisk) -> Result<Backup, Error> {
    disk.create_dir_all(Path::new(BACKUPS))?;
    let repository = Repository::open_on(Arc::new(disk.clone()), Path::new(BACKUPS), true)?;
    db.backup(&repository, &BackupOptions::new(), &mut |_, _| Ok(()))
}
