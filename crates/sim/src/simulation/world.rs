//! The lives of one database folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use spillway::backup::Repository;
use spillway::{
    Csn, Database, DeviceClass, Direction, EngineKind, Error, ErrorKind, KeyRange, Settings, Table,
    Tier, TransactionOptions,
};
use spillway_base::clock::Clock;
use spillway_base::rng::Rng;
use spillway_base::scheduler;
use spillway_base::thread::JoinHandle;
use spillway_sql::Instance;
use spillway_storage::Disk;
use spillway_storage::sim::{Fault, SimDisk, SyncFault};

use super::beside::{BACKUPS, LARGE, start, start_beside};
use super::client::{self, Life, TABLES, key_number, version_of};
use super::oracle::{Ending, Refusal, State, WAIT_MAX, event, fail, judge, judge_backup};
use super::outcomes;
use super::shape::{self, Shape};
use super::space::{Live, Space};
use super::sql::{self, Ledger};

const FOLDER: &str = "/db";
/// The devices of a history with tiers.
const TIERS: [(u64, DeviceClass, &str); 2] =
    [(shape::FAST, DeviceClass::Fast, "/fast"), (shape::SLOW, DeviceClass::Hdd, "/hdd")];
/// The background work that is left after a flush and a compaction takes no longer than the first.
/// The second is longer than four times `settle_after`: so long after the last write, tables may be
/// compacted once more, or recompressed, and so long after each of these nearly all free slots are
/// given back.
const QUIET: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(44)];
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
    /// Tables that were emptied on a full disk.
    pub emptied: u64,
    /// Syncs that lied.
    pub lies: u64,
    /// Acknowledged commits that lies lost, and histories that ended because lies had damaged data,
    /// and the database said so.
    pub by_lies: [u64; 2],
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
    /// Whether lies of the disk may have damaged data (SIMULATION-13).
    has_losses: bool,
    /// The last commit that the first opening since the last life recovered. If this opening failed
    /// later, the next one also recovers commits that it made itself, with the CSNs of lost ones.
    recovered: Option<Csn>,
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
    ending: Ending,
}

impl Left {
    fn join(&mut self) {
        for task in self.tasks.drain(..) {
            let _ = task.join();
        }
    }
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
        has_losses: false,
        recovered: None,
    };
    for (_, _, dir) in TIERS.iter().filter(|(bit, ..)| shape.tiers & bit != 0) {
        let made = world.disk.create_dir_all(Path::new(dir));
        made.unwrap_or_else(|error| fail(&format!("no folder of a tier: {error}")));
    }
    match world.lives() {
        Some(opened) => world.end_of_history(opened),
        None => world.done.by_lies[1] += 1,
    }
    world.done.operations = world.disk.operations();
    world.done.lies = world.disk.lies();
    world.done
}

impl World {
    /// Runs all lives, and opens the database once more. `None` if lies of the disk have damaged
    /// data, and the database said so.
    fn lives(&mut self) -> Option<Opened> {
        let mut left = None;
        for _ in 0..self.shape.lives {
            let opened = self.open(left.take(), self.shape.faults & shape::OPENING != 0)?;
            left = Some(self.live(opened));
        }
        self.open(left, false)
    }

    /// Checks the database that a history leaves.
    fn end_of_history(&mut self, Opened { db, tables, sql }: Opened) {
        drop(sql);
        if self.shape.sql == 0 && !self.has_losses {
            self.check_bounds(&db, &tables);
        }
        if let Err(error) = db.close() {
            return self.refused("SIMULATION-9: the last close failed", error.into());
        }
        drop(db);
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        match spillway::check_on(&disk, Path::new(FOLDER), &mut |_, _| {}) {
            Ok(report) if report.findings.is_empty() => {}
            Ok(report) if self.has_losses => event(|| format!("the check found {report:?}")),
            Ok(report) => fail(&format!("SIMULATION-9: the check found {report:?}")),
            Err(error) => self.refused("SIMULATION-9: no check", error.into()),
        }
    }

    /// A refusal of the database, which fails the history, except for damage by a lying disk
    /// (SIMULATION-13).
    fn refused(&self, what: &str, refusal: Refusal) {
        if !(self.has_losses && refusal.is_damage) {
            fail(&format!("{what}: {}", refusal.text));
        }
        event(|| format!("{what} after lies: {}", refusal.text));
    }

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
    fn open(&mut self, mut left: Option<Left>, has_faults: bool) -> Option<Opened> {
        self.has_losses |= left.as_ref().is_some_and(|left| left.ending.has_losses);
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
                    match self.judge(&opened, &mut left) {
                        Ok(()) => return Some(opened),
                        Err(refusal) => {
                            self.refused("SIMULATION-9: what was opened cannot be read", refusal);
                            break;
                        }
                    }
                }
                Err(refusal) if planned.is_some() => {
                    let text = refusal.text;
                    event(|| format!("not opened, as {planned:?} was planned: {text}"));
                    self.end_of_process();
                }
                Err(refusal) => {
                    self.refused("SIMULATION-9: an opening failed", refusal);
                    break;
                }
            }
        }
        left.iter_mut().for_each(Left::join);
        None
    }

    fn try_open(&mut self, settings: Settings) -> Result<Opened, Refusal> {
        // A handle of this process: after its end, tasks that are left cannot change the disk.
        let disk = Arc::new(self.disk.process());
        let db = Database::open_on(disk, FOLDER, settings)?;
        let last = db.recovered().last;
        self.recovered = Some(self.recovered.map_or(last, |before| before.min(last)));
        let tables = tables(&db, &self.shape)?;
        let sql = match self.shape.sql {
            0 => None,
            _ => Some(sql::open(&db, &self.shape)?),
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
        let settle = || -> Result<Live, Error> {
            drop_large(db)?;
            for quiet in QUIET {
                db.flush()?;
                db.compact()?;
                Clock::system().sleep(quiet);
            }
            live_bytes(db, tables, &self.shape)
        };
        let live = settle().unwrap_or_else(|error| fail(&format!("SIMULATION-12: {error}")));
        let (memory, limit) = (db.budget().used(), db.budget().limit());
        let dirs = [FOLDER].into_iter().chain(TIERS.iter().map(|(.., dir)| *dir));
        let used = Space::of(&self.disk, dirs);
        let most = Space::allowed(db.settings(), &self.shape, live);
        event(|| format!("{memory} of memory of {limit}, {used} of {most} for {live:?}"));
        if !used.fits(&most) {
            let files = self.disk.files();
            fail(&format!("SIMULATION-12: {live:?} take {used}, over {most}: {files:?}"));
        }
        if memory > limit {
            fail(&format!("SIMULATION-12: {memory} bytes of memory are charged, of {limit}"));
        }
    }

    fn judge(&mut self, opened: &Opened, left: &mut Option<Left>) -> Result<(), Refusal> {
        let last = self.recovered.take().unwrap_or(opened.db.recovered().last);
        let found = state(opened)?;
        if let Some(left) = left {
            left.join();
            let ending = Ending { has_losses: self.has_losses, ..left.ending };
            let seen = std::mem::take(&mut *left.life.seen());
            self.done.on_full_disk[0] += seen.refused_on_full_disk;
            self.done.on_full_disk[1] += seen.freed_on_full_disk;
            self.done.emptied += seen.emptied_on_full_disk;
            let acknowledged = || seen.transactions.iter().filter(|txn| txn.acknowledged);
            self.done.commits += acknowledged().count() as u64;
            judge(&self.base, &seen, &found, last, ending);
            let lost = acknowledged().filter(|txn| txn.durable && txn.ordered > Some(last));
            self.done.by_lies[0] += lost.count() as u64;
            if let Some((number, floor, through)) = seen.backups.last() {
                match self.restore(*number, *through) {
                    Ok(restored) => {
                        let through = (*floor, *through);
                        let has_losses = ending.has_losses;
                        judge_backup(&self.base, &seen, through, &restored, last, has_losses);
                    }
                    Err(refusal) => self.refused("SIMULATION-11: no restore", refusal),
                }
            }
        }
        self.base = found;
        match &opened.sql {
            Some(instance) => sql::judge(instance, &self.ledger, self.has_losses),
            None => Ok(()),
        }
    }

    /// Restores a backup and returns its state.
    fn restore(&mut self, number: u64, through: Csn) -> Result<State, Refusal> {
        let mut settings = self.settings();
        settings.cores = 1;
        let disk: Arc<dyn Disk> = Arc::new(self.disk.process());
        // A new folder each time, because the disk removes no folders.
        let dir = PathBuf::from(format!("/restored-{}", self.done.openings));
        let restored = || -> Result<State, Refusal> {
            disk.create_dir_all(&dir)?;
            // A disk that lied may have lost the names of the folder's files (SIMULATION-13).
            let missing = |error: Error| {
                let is_missing = error.kind() == ErrorKind::NotFound;
                let refusal = Refusal::from(error);
                Refusal { is_damage: refusal.is_damage || is_missing, ..refusal }
            };
            let repository = Repository::open_on(disk.clone(), Path::new(BACKUPS), false);
            let repository = repository.map_err(missing)?;
            let restored = repository.restore_on(Some(number), &disk, &dir, &mut |_, _| Ok(()));
            restored.map_err(missing)?;
            let db = Database::open_on(disk.clone(), &dir, settings)?;
            if db.recovered().last != through {
                let last = db.recovered().last;
                fail(&format!("SIMULATION-11: {last:?} is the last of {through:?} restored"));
            }
            let tables = tables(&db, &self.shape)?;
            let sql = match self.shape.sql {
                0 => None,
                _ => Some(Instance::open(db.clone())?),
            };
            if let Some(instance) = &sql {
                sql::check_accounts(instance)?;
            }
            let opened = Opened { db, tables, sql };
            let state = state(&opened)?;
            opened.db.close()?;
            Ok(state)
        };
        let restored = restored();
        for (path, _) in self.disk.files().iter().filter(|(path, _)| path.starts_with(&dir)) {
            let _ = disk.remove(path);
        }
        restored
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
            failed_syncs: self.disk.failed_syncs(),
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
        start_beside(&life, &self.disk, &mut self.rng, &mut tasks);
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
        self.leave(life, tasks, clean, end == End::Crash)
    }

    /// Leaves a life. Its tasks may still run, but do not reach the disk any more.
    fn leave(
        &mut self,
        life: Arc<Life>,
        mut tasks: Vec<JoinHandle<()>>,
        is_clean: bool,
        is_crash: bool,
    ) -> Left {
        *life.over.lock() = true;
        self.disk.set_capacity(None);
        self.disk.calm_syncs();
        // A sync that fails after a lie may lose what the lie reported as durable.
        let is_lost = is_crash || self.disk.failed_syncs() > life.failed_syncs;
        let has_losses = match life.seen().lies {
            Some(SyncFault::Stale) => true,
            lies => is_lost && lies.is_some(),
        };
        if life.seen().lies.is_some() && !has_losses {
            // Nothing is lost, and a crash of a later life shall lose nothing of this one either.
            self.disk.write_back();
        }
        if self.rng.chance(1, 2) {
            for task in tasks.drain(..) {
                let _ = task.join();
            }
        }
        self.done.note(&life.db);
        let db = life.db.clone();
        tasks.push(start("undertaker", move || drop(db.close())));
        Left { life, tasks, ending: Ending { is_clean, has_losses } }
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

/// The live bytes of the tables.
fn live_bytes(db: &Database, tables: &[Table; TABLES], shape: &Shape) -> Result<Live, Error> {
    let txn = db.begin(TransactionOptions::new().read_only(true));
    let mut live = Live::default();
    for (number, table) in tables.iter().enumerate() {
        let mut scan = txn.scan(*table, KeyRange::ALL, Direction::Forward)?;
        while scan.advance()? {
            let bytes = (scan.key().len() + scan.value().len()) as u64;
            match shape.engine(number) {
                EngineKind::Memory => {
                    live.memory += bytes;
                    live.memory_rows += 1;
                }
                EngineKind::Tiered => live.tiered += bytes,
            }
        }
    }
    Ok(live)
}

/// Drops the table that filled the disk, if a life left it.
fn drop_large(db: &Database) -> Result<(), Error> {
    let txn = db.begin(TransactionOptions::new());
    match txn.table(LARGE) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    txn.drop_table(LARGE)?;
    txn.commit().wait().map(drop)
}

/// The contents of the tables.
fn state(opened: &Opened) -> Result<State, Refusal> {
    let Opened { db, tables, sql } = opened;
    let txn = db.begin(TransactionOptions::new().read_only(true));
    let mut state = State::new();
    for (number, table) in tables.iter().enumerate() {
        let mut scan = txn.scan(*table, KeyRange::ALL, Direction::Forward)?;
        while scan.advance()? {
            state.insert((number, key_number(scan.key())), version_of(scan.value()));
        }
    }
    txn.commit().wait()?;
    if let Some(instance) = sql {
        state.append(&mut outcomes::state(instance)?);
    }
    Ok(state)
}
