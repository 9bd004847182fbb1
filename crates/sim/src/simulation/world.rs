//! The lives of one database folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use spillway::backup::{Backup, BackupOptions, Repository};
use spillway::{
    Csn, Database, DeviceClass, Direction, Error, KeyRange, Settings, Table, Tier,
    TransactionOptions,
};
use spillway_base::budget::Use;
use spillway_base::clock::Clock;
use spillway_base::rng::Rng;
use spillway_base::scheduler;
use spillway_base::thread::{self, JoinHandle};
use spillway_sql::Instance;
use spillway_storage::Disk;
use spillway_storage::sim::{Fault, SimDisk};

use super::client::{self, Life, TABLES, key_number, version_of};
use super::oracle::{State, WAIT_MAX, event, fail, judge, judge_backup};
use super::shape::{self, Shape};
use super::sql::{self, Ledger};

const FOLDER: &str = "/db";
const BACKUPS: &str = "/backups";
/// The devices of a history with tiers.
const TIERS: [(u64, DeviceClass, &str); 2] =
    [(shape::FAST, DeviceClass::Fast, "/fast"), (shape::SLOW, DeviceClass::Hdd, "/hdd")];
/// The background work that is left after a flush and a compaction takes no longer.
const QUIET: Duration = Duration::from_secs(2);
/// The most bytes of a frame of these histories.
const FRAME_BYTES: u64 = 64 << 10;
/// More than the bytes of all records besides keys and values.
const RECORD_BYTES: u64 = 16 << 10;
/// Slots that are not full, or free and not given back yet.
const SLOTS: u64 = 16;
/// Manifests, checkpoints and the records of folders.
const METADATA_BYTES: u64 = 256 << 10;
/// Of the free memory, a charge that lasts leaves one part in this many.
const LEFT_SHARE: usize = 8;
/// Such a charge lasts less than this, in microseconds.
const PRESSED_US: u64 = 50_000;
/// Fewer than this many openings with faults precede an opening without.
const OPENINGS_MAX: u64 = 4;

/// How a life ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// The machine crashes.
    Crash,
    /// The process is killed.
    Kill,
    /// The database is closed while clients run.
    Close,
    /// The database is closed after the clients have ended.
    Quiet,
}

/// Metrics that a history adds up over its lives.
pub const COUNTED: [&str; 9] = [
    "memory_engine_checkpoints_total",
    "memory_engine_compacted_bytes_total",
    "memory_engine_evicted_total",
    "memory_engine_log_reads_total",
    "memory_engine_released_segments_total",
    "spilled_commits_folded_total",
    "spilled_commits_total",
    "tiered_flushes_total",
    "tiered_moved_bytes_total",
];

/// The figures of a history.
#[derive(Clone, Copy, Default, Debug)]
pub struct Done {
    /// The metrics of [`COUNTED`].
    pub counted: [u64; COUNTED.len()],
    /// Commits that were refused while the disk stayed full, and commits that freed space then.
    pub on_full_disk: [u64; 2],
    /// Commits that were acknowledged.
    pub commits: u64,
    /// Openings that succeeded.
    pub openings: u64,
    /// Operations of the disk.
    pub operations: u64,
}

impl Done {
    /// Adds the metrics of a life.
    fn note(&mut self, db: &Database) {
        let metrics = db.metrics();
        for (sum, name) in self.counted.iter_mut().zip(COUNTED) {
            let found = metrics.iter().find(|metric| metric.name == name);
            *sum += found.unwrap_or_else(|| fail(&format!("there is no {name}"))).value as u64;
        }
    }
}

struct World {
    shape: Shape,
    disk: SimDisk,
    rng: Rng,
    done: Done,
    /// The state that the last opening found.
    base: State,
    ledger: Arc<Ledger>,
}

/// The result of an opening.
struct Opened {
    db: Database,
    tables: [Table; TABLES],
    sql: Option<Instance>,
}

/// A life after its end, and its tasks that may still run.
struct Left {
    life: Arc<Life>,
    tasks: Vec<JoinHandle<()>>,
    /// Whether it ended by a successful close.
    clean: bool,
}

/// Runs the history of this seed in this shape. A failed check ends the process.
#[must_use]
pub fn run(seed: u64, shape: Shape) -> Done {
    let mut world = World {
        shape,
        disk: SimDisk::new(seed),
        rng: Rng::new(seed ^ 0x574F_524C_4400),
        done: Done::default(),
        base: State::new(),
        ledger: Arc::default(),
    };
    for (_, _, dir) in TIERS.iter().filter(|(bit, ..)| shape.tiers & bit != 0) {
        let made = world.disk.create_dir_all(Path::new(dir));
        made.unwrap_or_else(|error| fail(&format!("no folder of a tier: {error}")));
    }
    let mut left = None;
    for _ in 0..shape.lives {
        let opened = world.open(left.take(), shape.faults & shape::OPENING != 0);
        left = Some(world.live(opened));
    }
    let Opened { db, tables, sql } = world.open(left, false);
    drop(sql);
    if shape.sql == 0 {
        world.check_bounds(&db, &tables);
    }
    if let Err(error) = db.close() {
        fail(&format!("SIMULATION-9: the last close failed: {error}"));
    }
    drop(db);
    let disk: Arc<dyn Disk> = Arc::new(world.disk.clone());
    match spillway::check_on(&disk, Path::new(FOLDER), &mut |_, _| {}) {
        Ok(report) if report.findings.is_empty() => {}
        found => fail(&format!("SIMULATION-9: the check found {found:?}")),
    }
    world.done.operations = world.disk.operations();
    world.done
}

impl World {
    fn settings(&mut self) -> Settings {
        let shape = self.shape;
        let mut settings = Settings::default();
        settings.memory_bytes = 16 << 20;
        settings.cores = shape.cores as usize;
        settings.recovery_threads = 1 + self.rng.below(2) as usize;
        settings.log_lanes = Some(1 + self.rng.below(shape.lanes) as usize);
        settings.log_segment_bytes = shape.segment_kib << 10;
        settings.log_bytes_max = (shape.segment_kib << 10) * (1 + self.rng.below(4));
        settings.slot_bytes = 16 << 10;
        if shape.spill_bytes > 0 {
            settings.transaction_bytes_max = Some(shape.spill_bytes as usize);
        }
        settings
    }

    /// The tiers of the next opening. Data on a device that it is not given moves away.
    fn tiers(&mut self) -> Vec<Tier> {
        let changing = self.shape.tiers & shape::CHANGING != 0;
        if changing && self.rng.chance(1, 2) {
            return Vec::new();
        }
        let given = TIERS.iter().filter(|(bit, ..)| self.shape.tiers & bit != 0);
        given
            .map(|(_, class, dir)| Tier { class: *class, dir: dir.into(), compression: None })
            .collect()
    }

    /// Opens the database, possibly with faults, while tasks of its last life still run. Then
    /// judges that life.
    fn open(&mut self, left: Option<Left>, has_faults: bool) -> Opened {
        let mut faults = if has_faults { self.rng.below(OPENINGS_MAX) } else { 0 };
        loop {
            let mut planned = None;
            if faults > 0 {
                faults -= 1;
                planned = Some(self.fault());
                let number = self.disk.operations() + 1 + self.rng.below(40);
                self.disk.fail_operation(number, planned.unwrap_or(Fault::Io));
            }
            let mut settings = self.settings();
            settings.tiers = self.tiers();
            match self.try_open(settings) {
                Ok(opened) => {
                    self.disk.heal();
                    if self.disk.is_crashed() {
                        self.disk.restart();
                        continue;
                    }
                    self.done.openings += 1;
                    event(|| format!("opened, with {:?}", opened.db.recovered()));
                    self.judge(&opened, left);
                    return opened;
                }
                Err(error) if planned.is_some() => {
                    event(|| format!("not opened, as {planned:?} was planned: {error}"));
                    self.end_of_process();
                }
                Err(error) => fail(&format!("SIMULATION-9: an opening failed: {error}")),
            }
        }
    }

    fn try_open(&self, settings: Settings) -> Result<Opened, String> {
        // A handle of this process: after its end, tasks that are left cannot change the disk.
        let disk = Arc::new(self.disk.process());
        let told = |error: Error| error.to_string();
        let db = Database::open_on(disk, FOLDER, settings).map_err(told)?;
        let tables = tables(&db, &self.shape).map_err(told)?;
        let sql = match self.shape.sql {
            0 => None,
            _ => Some(sql::open(&db, &self.shape).map_err(|error| error.message)?),
        };
        Ok(Opened { db, tables, sql })
    }

    /// Ends the process, and with it the faults that were planned for it.
    fn end_of_process(&mut self) {
        if self.disk.is_crashed() {
            self.disk.restart();
        } else if self.rng.chance(1, 2) {
            self.disk.crash();
            self.disk.restart();
        } else {
            self.disk.heal();
            self.disk.kill();
        }
    }

    fn fault(&mut self) -> Fault {
        [Fault::Crash, Fault::Io, Fault::ShortWrite, Fault::Full][self.rng.below(4) as usize]
    }

    /// SIMULATION-12: checks the space that a database takes once no client runs.
    fn check_bounds(&self, db: &Database, tables: &[Table; TABLES]) {
        let settle = || -> Result<u64, Error> {
            for _ in 0..2 {
                db.flush()?;
                db.compact()?;
                Clock::system().sleep(QUIET);
            }
            live_bytes(db, tables)
        };
        let live = settle().unwrap_or_else(|error| fail(&format!("SIMULATION-12: {error}")));
        let (memory, limit) = (db.budget().used(), db.budget().limit());
        let dirs = [FOLDER].into_iter().chain(TIERS.iter().map(|(.., dir)| *dir));
        let used: u64 = dirs.map(|dir| self.disk.used_in(Path::new(dir))).sum();
        event(|| format!("{live} live bytes, {used} on the disk, {memory} of memory of {limit}"));
        let most = bytes_allowed(db.settings(), self.shape.lanes, live);
        if used > most {
            let files = self.disk.files();
            fail(&format!("SIMULATION-12: {live} live bytes take {used}, over {most}: {files:?}"));
        }
        if memory > limit {
            fail(&format!("SIMULATION-12: {memory} bytes of memory are charged, of {limit}"));
        }
    }

    fn judge(&mut self, opened: &Opened, left: Option<Left>) {
        let last = opened.db.recovered().last;
        let found = state(&opened.db, &opened.tables).unwrap_or_else(|error| {
            fail(&format!("SIMULATION-9: what was opened cannot be read: {error}"))
        });
        if let Some(Left { life, tasks, clean }) = left {
            for task in tasks {
                let _ = task.join();
            }
            let seen = std::mem::take(&mut *life.seen());
            self.done.on_full_disk[0] += seen.refused_on_full_disk;
            self.done.on_full_disk[1] += seen.freed_on_full_disk;
            self.done.commits +=
                seen.transactions.iter().filter(|txn| txn.acknowledged).count() as u64;
            judge(&self.base, &seen, &found, last, clean);
            if let Some((number, floor, through)) = seen.backups.last() {
                let restored = self.restore(*number, *through);
                judge_backup(&self.base, &seen, (*floor, *through), &restored, last);
            }
        }
        self.base = found;
        if let Some(instance) = &opened.sql {
            sql::judge(instance, &self.ledger);
        }
    }

    /// Restores a backup and returns its state.
    fn restore(&mut self, number: u64, through: Csn) -> State {
        let mut settings = self.settings();
        settings.cores = 1;
        let disk: Arc<dyn Disk> = Arc::new(self.disk.process());
        // A new folder each time, because the disk removes no folders.
        let dir = PathBuf::from(format!("/restored-{}", self.done.openings));
        let restored = || -> Result<State, Error> {
            disk.create_dir_all(&dir)?;
            let repository = Repository::open_on(disk.clone(), Path::new(BACKUPS), false)?;
            repository.restore_on(Some(number), &disk, &dir, &mut |_, _| Ok(()))?;
            let db = Database::open_on(disk.clone(), &dir, settings)?;
            if db.recovered().last != through {
                let last = db.recovered().last;
                fail(&format!("SIMULATION-11: {last:?} is the last of {through:?} restored"));
            }
            let state = state(&db, &tables(&db, &self.shape)?)?;
            if self.shape.sql != 0 {
                sql::check_accounts(
                    &Instance::open(db.clone()).map_err(|error| Error::invalid(error.message))?,
                );
            }
            db.close()?;
            Ok(state)
        };
        let restored = restored();
        for (path, _) in self.disk.files().iter().filter(|(path, _)| path.starts_with(&dir)) {
            let _ = disk.remove(path);
        }
        restored.unwrap_or_else(|error| fail(&format!("SIMULATION-11: no restore: {error}")))
    }

    fn end(&mut self) -> End {
        let ends =
            [(shape::CRASH, End::Crash), (shape::KILL, End::Kill), (shape::CLOSE, End::Close)];
        let mut may: Vec<End> = ends
            .into_iter()
            .filter(|(bit, _)| self.shape.faults & bit != 0)
            .map(|(_, end)| end)
            .collect();
        if may.is_empty() || self.rng.chance(1, 8) {
            may = vec![End::Quiet];
        }
        may[self.rng.below(may.len() as u64) as usize]
    }

    /// Plans the faults of a life.
    fn plan_faults(&mut self, end: End) {
        let mut at = |most: u64| self.disk.operations() + 1 + self.rng.below(most);
        if self.shape.faults & shape::FAIL != 0 {
            let fault = if at(2) & 1 == 0 { Fault::Io } else { Fault::ShortWrite };
            let count = at(3) % 3;
            for _ in 0..count {
                let number = at(400);
                self.disk.fail_operation(number, fault);
            }
        }
        if self.shape.faults & shape::FULL != 0 {
            for _ in 0..3 {
                let number = at(400);
                self.disk.fail_operation(number, Fault::Full);
            }
        }
        if end == End::Crash {
            let number = at(300);
            self.disk.fail_operation(number, Fault::Crash);
        }
    }

    /// Runs one life until its end.
    fn live(&mut self, Opened { db, tables, sql }: Opened) -> Left {
        let shape = self.shape;
        let life = Arc::new(Life {
            db,
            tables,
            shape,
            sql,
            ledger: self.ledger.clone(),
            began: Clock::system().now(),
            seen: Default::default(),
            over: Default::default(),
        });
        let end = self.end();
        event(|| format!("a life that ends by {end:?}"));
        self.plan_faults(end);
        let mut tasks: Vec<JoinHandle<()>> = Vec::new();
        for number in 0..shape.clients {
            let (life, seed) = (life.clone(), self.rng.next_u64());
            let number = self.done.openings * 16 + number;
            tasks.push(start("client", move || client::run(&life, number, seed)));
        }
        self.start_beside(&life, &mut tasks);
        let clean = match end {
            End::Crash | End::Kill => {
                // The planned crash happens meanwhile if the life is long enough.
                self.pause(&life);
                if end == End::Crash {
                    self.disk.crash();
                    self.disk.restart();
                } else {
                    self.disk.heal();
                    self.disk.kill();
                }
                false
            }
            End::Close => {
                self.pause(&life);
                self.close(&life)
            }
            End::Quiet => {
                for task in tasks.drain(..) {
                    let _ = task.join();
                }
                self.close(&life)
            }
        };
        self.leave(life, tasks, clean)
    }

    /// Leaves a life. Its tasks may still run, but do not reach the disk any more.
    fn leave(&mut self, life: Arc<Life>, mut tasks: Vec<JoinHandle<()>>, clean: bool) -> Left {
        if self.rng.chance(1, 2) {
            for task in tasks.drain(..) {
                let _ = task.join();
            }
        }
        self.done.note(&life.db);
        let db = life.db.clone();
        tasks.push(start("undertaker", move || drop(db.close())));
        *life.over.lock() = true;
        self.disk.set_capacity(None);
        Left { life, tasks, clean }
    }

    fn close(&mut self, life: &Arc<Life>) -> bool {
        let clock = Clock::system();
        let began = clock.now();
        let closed = life.db.close();
        let took = clock.now() - began;
        if took > WAIT_MAX {
            fail(&format!("SIMULATION-8: a close took {took:?}"));
        }
        event(|| format!("closed: {closed:?}"));
        self.disk.heal();
        closed.is_ok()
    }

    /// Waits for a number of scheduling points, or for a time, of any order of magnitude, or until
    /// some log care has begun.
    fn pause(&mut self, life: &Life) {
        if self.rng.chance(self.shape.care, 100) {
            Clock::system().sleep(life.until_care(1 + self.rng.below(4)));
            return scheduler::wait_steps(self.rng.below(10_000));
        }
        if self.rng.chance(2, 3) {
            let most = [100, 1_000, 10_000, 100_000][self.rng.below(4) as usize];
            return scheduler::wait_steps(self.rng.below(most));
        }
        let most = [1, 30, 300, 3_000, 30_000, 1_500_000][self.rng.below(6) as usize];
        Clock::system().sleep(Duration::from_micros(self.rng.below(most)));
    }

    fn start_beside(&mut self, life: &Arc<Life>, tasks: &mut Vec<JoinHandle<()>>) {
        type Act = fn(&Database) -> Result<(), Error>;
        let acts: [(u64, &str, Act); 2] = [
            (shape::FLUSH, "flush", Database::flush),
            (shape::COMPACT, "compact", Database::compact),
        ];
        for (bit, name, act) in acts {
            if self.shape.beside & bit != 0 {
                let (life, mut rng) = (life.clone(), Rng::new(self.rng.next_u64()));
                tasks.push(start(name, move || {
                    for _ in 0..1 + rng.below(8) {
                        pause(&mut rng);
                        if act(&life.db).is_err() {
                            break;
                        }
                    }
                }));
            }
        }
        if self.shape.beside & shape::PRESSURE != 0 {
            let (life, mut rng) = (life.clone(), Rng::new(self.rng.next_u64()));
            tasks.push(start("pressure", move || press(&life.db, &mut rng)));
        }
        if self.shape.faults & shape::LASTING != 0 {
            let (life, disk) = (life.clone(), self.disk.clone());
            let mut rng = Rng::new(self.rng.next_u64());
            tasks.push(start("filler", move || fill_disk(&life, &disk, &mut rng)));
        }
        if self.shape.beside & shape::BACKUP != 0 {
            let (life, disk) = (life.clone(), self.disk.process());
            let mut rng = Rng::new(self.rng.next_u64());
            tasks.push(start("backup", move || {
                pause(&mut rng);
                let floor = life.seen().acknowledged;
                if let Ok(backup) = back_up(&life.db, &disk) {
                    life.seen().backups.push((backup.number, floor, backup.through));
                }
            }));
        }
    }
}

/// Waits before a call of flush, compaction or backup.
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

/// Fills the disk for a while, once or twice in a life.
fn fill_disk(life: &Life, disk: &SimDisk, rng: &mut Rng) {
    let set = |full: bool, capacity: Option<u64>| {
        let over = life.over.lock();
        if !*over {
            disk.set_capacity(capacity);
            life.seen().is_full = full;
        }
        !*over
    };
    for _ in 0..1 + rng.below(2) {
        pause(rng);
        let capacity = disk.used() + (rng.below(4) << 13);
        event(|| format!("the disk is full from {capacity} bytes on"));
        if !set(true, Some(capacity)) {
            return;
        }
        pause(rng);
        event(|| "the disk has room again".to_owned());
        if !set(false, None) {
            return;
        }
    }
}

fn back_up(db: &Database, disk: &SimDisk) -> Result<Backup, Error> {
    disk.create_dir_all(Path::new(BACKUPS))?;
    let repository = Repository::open_on(Arc::new(disk.clone()), Path::new(BACKUPS), true)?;
    db.backup(&repository, &BackupOptions::new(), &mut |_, _| Ok(()))
}

fn start(name: &str, body: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    thread::spawn(name, body).unwrap_or_else(|error| fail(&format!("no thread: {error}")))
}

/// The tables, which it creates if they are missing.
fn tables(db: &Database, shape: &Shape) -> Result<[Table; TABLES], Error> {
    let mut tables = Vec::new();
    for (number, name) in ["a", "b"].into_iter().enumerate() {
        let txn = db.begin(TransactionOptions::new());
        let table = match txn.table(name) {
            Err(error) if error.kind() == spillway::ErrorKind::NotFound => {
                txn.create_table(name, shape.engine(number))?
            }
            found => found?,
        };
        txn.commit().wait()?;
        tables.push(table);
    }
    Ok([tables[0], tables[1]])
}

/// The most space that a database with this many live bytes takes, once it is flushed and
/// compacted. The terms follow from the settings. Each is a little generous, because files take
/// whole pages.
fn bytes_allowed(settings: &Settings, lanes: u64, live: u64) -> u64 {
    // Of each lane: the segment that is written, one that is prepared, and one that may have become
    // full since the cut. A frame that is larger than a segment makes a larger one. The reserve
    // takes at most a segment.
    let segment = settings.log_segment_bytes.max(FRAME_BYTES);
    let log = settings.log_bytes_max + (3 * lanes + 1) * segment;
    // Kept segments may take twice their live records, and as many bytes as the log; those without
    // rows that wait for a checkpoint, a quarter of that.
    let kept = (2 * (live + RECORD_BYTES) + settings.log_bytes_max) * 5 / 4;
    // Extents may take twice the settled rows. The tables, the directory and the spilled writes
    // have at least a slot each, and free slots are given back one after another.
    let slots = 2 * live + SLOTS * settings.slot_bytes as u64;
    log + kept + slots + METADATA_BYTES
}

/// Bytes of the keys and values of the tables.
fn live_bytes(db: &Database, tables: &[Table; TABLES]) -> Result<u64, Error> {
    let txn = db.begin(TransactionOptions::new().read_only(true));
    let mut bytes = 0;
    for table in tables {
        let mut scan = txn.scan(*table, KeyRange::ALL, Direction::Forward)?;
        while scan.advance()? {
            bytes += (scan.key().len() + scan.value().len()) as u64;
        }
    }
    Ok(bytes)
}

/// The contents of the tables.
fn state(db: &Database, tables: &[Table; TABLES]) -> Result<State, Error> {
    let txn = db.begin(TransactionOptions::new().read_only(true));
    let mut state = State::new();
    for (number, table) in tables.iter().enumerate() {
        let mut scan = txn.scan(*table, KeyRange::ALL, Direction::Forward)?;
        while scan.advance()? {
            state.insert((number, key_number(scan.key())), version_of(scan.value()));
        }
    }
    txn.commit().wait()?;
    Ok(state)
}
