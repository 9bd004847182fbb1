//! An engine that keeps its rows in the log: the places that it learns, and the rows that it reads
//! there (LOG-READ-1 to LOG-READ-10 of [`spillway_base::log_place`]).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use spillway_base::batch::{Op, WriteBatch, read_row_record};
use spillway_base::engine::Replayed;
use spillway_base::lock::Mutex;
use spillway_base::rng::Rng;
use spillway_base::{Csn, Error, ErrorKind, KeyRange, LogPlace};
use spillway_storage::Disk;
use spillway_storage::plog::{KeptFiles, KeptSegments};
use spillway_storage::sim::Fault;

use super::*;
use crate::model::SeesLog;

const ROWS: TableId = TableId(1 << 28 | 1);

/// A version of a row.
#[derive(Clone, PartialEq, Debug)]
struct Version {
    value: Option<Vec<u8>>,
    place: LogPlace,
    bytes: usize,
}

type Key = (TableId, Vec<u8>);

/// The engine's knowledge of its rows in the log.
#[derive(Default)]
struct Known {
    versions: BTreeMap<(Key, Csn), Version>,
    /// Versions that are installed and whose places are not known. They have offsets instead of
    /// places.
    pending: BTreeMap<Csn, Vec<(Key, Version)>>,
    through: Csn,
    /// The segments that it was asked about.
    asked: BTreeSet<(u32, u64)>,
    /// The contents of its own files.
    checkpoint: BTreeMap<(Key, Csn), Version>,
    persisted: Csn,
}

/// The places of an engine's rows, as it has learned them. It keeps every second segment.
#[derive(Default)]
struct RowsInLog(Mutex<Known>, Mutex<Option<Meanwhile>>);

/// A hook that the engine calls once, while it learns places.
type Meanwhile = Box<dyn FnOnce() + Send>;

fn keeps(segment: u64) -> bool {
    segment.is_multiple_of(2)
}

impl SeesLog for RowsInLog {
    fn installed(&self, csn: Csn, batch: &WriteBatch) {
        let rows = batch.iter_placed().filter_map(|placed| {
            let (table, key, value) = match placed.op {
                Op::Put { table, key, value } => (table, key, Some(value.to_vec())),
                Op::Delete { table, key } => (table, key, None),
                _ => return None,
            };
            let place = LogPlace { lane: 0, segment: 0, offset: placed.offset as u64 };
            (table.engine() == Some(EngineKind::Memory))
                .then(|| ((table, key.to_vec()), Version { value, place, bytes: placed.bytes }))
        });
        let other = self.0.lock().pending.insert(csn, rows.collect());
        assert!(other.is_none(), "{csn} comes once");
    }

    fn replayed(&self, write: Replayed<'_>) {
        let Replayed { csn, op, place, bytes } = write;
        let (table, key, value) = match op {
            Op::Put { table, key, value } => (table, key, Some(value.to_vec())),
            Op::Delete { table, key } => (table, key, None),
            _ => panic!("{op:?} is not replayed"),
        };
        if table.engine() == Some(EngineKind::Memory) {
            let version = Version { value, place, bytes: bytes as usize };
            self.0.lock().versions.insert(((table, key.to_vec()), csn), version);
        }
    }

    fn placed(&self, commits: &[(Csn, LogPlace)], through: Csn) {
        let meanwhile = self.1.lock().take();
        meanwhile.into_iter().for_each(|call| call());
        let known = &mut *self.0.lock();
        for (csn, place) in commits {
            let rows = known.pending.remove(csn).expect("LOG-READ-2: told once, once installed");
            let segment = (place.lane, place.segment);
            assert!(!known.asked.contains(&segment), "LOG-READ-4: {segment:?} was asked about");
            for (key, mut version) in rows {
                version.place = place.plus(version.place.offset as usize);
                known.versions.insert((key, *csn), version);
            }
        }
        if through == Csn::ZERO {
            return;
        }
        assert!(through >= known.through, "LOG-READ-3: it does not fall");
        assert!(commits.iter().all(|(csn, _)| *csn <= through), "LOG-READ-3: they are stable");
        let missed = known.pending.range(..=through).next();
        assert!(missed.is_none(), "LOG-READ-3: {missed:?}, and {through} says that there is none");
        known.through = through;
    }

    fn keeps(&self, lane: u32, segment: u64) -> bool {
        self.0.lock().asked.insert((lane, segment));
        keeps(segment)
    }
}

impl RowsInLog {
    /// Records that its files have everything up to `csn`.
    fn persist(&self, csn: Csn) {
        let known = &mut *self.0.lock();
        assert!(csn <= known.through);
        let versions = known.versions.iter().filter(|((_, of), _)| *of <= csn);
        known.checkpoint = versions.map(|(at, version)| (at.clone(), version.clone())).collect();
        known.persisted = csn;
    }

    /// The part of it that survives a crash.
    fn reopened(&self) -> Arc<RowsInLog> {
        let known = self.0.lock();
        let (versions, checkpoint) = (known.checkpoint.clone(), known.checkpoint.clone());
        let persisted = known.persisted;
        let asked = BTreeSet::new();
        let known = Known { versions, checkpoint, persisted, asked, ..Known::default() };
        Arc::new(RowsInLog(Mutex::new(known), Mutex::default()))
    }

    /// LOG-READ-1: each place that it knows holds the row, unless its segment may be gone. Returns
    /// the number of places read in kept segments.
    fn check(&self, disk: &SimDisk, what: &str) -> usize {
        self.check_in(&kept_files(disk), what).0
    }

    /// As [`RowsInLog::check`], in a given log. Also returns the number of places read.
    fn check_in(&self, log: &KeptFiles, what: &str) -> (usize, usize) {
        let known = self.0.lock();
        let kept = log.list().unwrap().into_iter();
        let kept: BTreeSet<_> = kept.map(|kept| (kept.lane, kept.segment)).collect();
        let (mut from_kept, mut read) = (0, 0);
        for (((table, key), csn), version) in &known.versions {
            let LogPlace { lane, segment, offset } = version.place;
            if *csn <= known.persisted && !keeps(segment) {
                continue;
            }
            from_kept += usize::from(kept.contains(&(lane, segment)));
            read += 1;
            let mut bytes = vec![0; version.bytes];
            let file = log.open(lane, segment).unwrap_or_else(|error| panic!("{what}: {error}"));
            file.read_at(offset, &mut bytes).unwrap();
            let row = read_row_record(&bytes).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(
                (row.table, row.key, row.value, row.csn, row.bytes),
                (*table, &key[..], version.value.as_deref(), *csn, version.bytes),
                "{what}"
            );
        }
        (from_kept, read)
    }

    fn newest(&self, key: &Key) -> Option<(Csn, Option<Vec<u8>>)> {
        let known = self.0.lock();
        let mut of = known.versions.range((key.clone(), Csn::ZERO)..=(key.clone(), Csn::MAX));
        of.next_back().map(|((_, csn), version)| (*csn, version.value.clone()))
    }
}

fn kept_files(disk: &SimDisk) -> KeptFiles {
    KeptFiles::new(Arc::new(disk.clone()), Path::new("/log"))
}

struct LogDb {
    manager: TransactionManager,
    tiered: Arc<ModelEngine>,
    memory: Arc<ModelEngine>,
    rows: Arc<RowsInLog>,
}

const SEGMENT: u64 = 16 << 10;

fn open_log(
    disk: &SimDisk,
    settings_of_log: &LogSettings,
    [tiered, memory]: [ModelEngine; 2],
    rows: Arc<RowsInLog>,
) -> Result<LogDb> {
    memory.watch_log(rows.clone());
    let (tiered, memory) = (Arc::new(tiered), Arc::new(memory));
    let horizon = HorizonHandle::new();
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let engines = Engines::new(vec![memory.clone(), tiered.clone()]);
    let (budget, clock) = (Budget::new(64 << 20), Clock::system());
    let (manager, report) =
        recover(&disk, settings_of_log, settings(), &horizon, engines, budget, clock)?;
    assert_eq!(rows.0.lock().through, report.last, "LOG-READ-3: after an opening");
    Ok(LogDb { manager, tiered, memory, rows })
}

fn small(lanes: usize) -> LogSettings {
    LogSettings { segment_bytes: SEGMENT, ..log(lanes) }
}

fn new_log(disk: &SimDisk, lanes: usize) -> Result<LogDb> {
    let engines = EngineKind::ALL.map(ModelEngine::of);
    open_log(disk, &small(lanes), engines, Arc::default())
}

impl LogDb {
    fn begin(&self) -> Transaction {
        self.manager.begin(TransactionOptions::new().isolation(Isolation::ReadCommitted))
    }

    fn create(&self) -> Result<()> {
        let txn = self.begin();
        txn.create_table(TABLE)?;
        txn.create_table(ROWS)?;
        txn.commit().wait().map(drop)
    }

    fn reopened(&self, disk: &SimDisk, log: &LogSettings) -> Result<LogDb> {
        let engines = [self.tiered.reopened(), self.memory.reopened()];
        open_log(disk, log, engines, self.rows.reopened())
    }

    /// Makes both engines persist the commits that were reported to them, and cuts the log.
    fn persist_and_cut(&self) -> Result<()> {
        let through = self.manager.0.pipeline.tell_all_places();
        self.rows.persist(through);
        self.tiered.claim_persisted(through);
        self.memory.claim_persisted(through);
        self.manager.truncate_log()
    }

    fn put(&self, key: &str, bytes: usize) -> Csn {
        let txn = self.begin();
        txn.put(ROWS, key.as_bytes(), &vec![7; bytes]).unwrap();
        txn.commit().wait().unwrap()
    }
}

/// The newest acknowledged version of each row, and the commit in progress.
#[derive(Default)]
struct Acknowledged {
    rows: BTreeMap<Key, (Csn, Option<Vec<u8>>)>,
}

/// Random commits of all shapes, small and large, over both engines, with cuts in between, until
/// the disk fails.
fn drive(db: &LogDb, rng: &mut Rng, steps: u64, known: &mut Acknowledged) -> Result<()> {
    for step in 0..steps {
        let (txn, mut writes) = (db.begin(), BTreeMap::new());
        for _ in 0..=rng.below(3) {
            let key = rng.below(30).to_string().into_bytes();
            let size = if rng.chance(1, 3) { rng.below(4000) } else { rng.below(50) };
            let value = rng.chance(5, 6).then(|| vec![step as u8; size as usize]);
            match &value {
                Some(value) => txn.put(ROWS, &key, value)?,
                None => txn.delete(ROWS, &key)?,
            }
            writes.insert((ROWS, key), value);
            if rng.chance(1, 3) {
                txn.put(TABLE, b"other", &vec![step as u8; rng.below(900) as usize])?;
            }
        }
        // Recovery installs such commits alone.
        match rng.below(8) {
            0 => {
                let table = 100 + rng.below(1 << 20) as u32;
                txn.create_table(TableId::new(EngineKind::Memory, table))?;
            }
            1 => drop(txn.delete_range(ROWS, KeyRange::new(b"x", None))?),
            _ => {}
        }
        let csn = txn.commit().wait()?;
        known.rows.extend(writes.into_iter().map(|(key, value)| (key, (csn, value))));
        if rng.chance(1, 6) {
            db.persist_and_cut()?;
        }
    }
    Ok(())
}

impl Acknowledged {
    /// Every acknowledged row is known after an opening, in this version or a newer one.
    fn check(&self, db: &LogDb, what: &str) {
        for (key, (csn, value)) in &self.rows {
            let found = db.rows.newest(key);
            let is_there = found
                .as_ref()
                .is_some_and(|found| found.0 > *csn || found.0 == *csn && found.1 == *value);
            assert!(is_there, "{what}: {key:?} of {csn} is {found:?}");
        }
    }
}

/// The paths of the files with this suffix.
fn names(disk: &SimDisk, suffix: &str) -> Vec<PathBuf> {
    let files = disk.files().into_iter().map(|(path, _)| path);
    files.filter(|path| path.extension() == Some(suffix.as_ref())).collect()
}

/// Commits of all shapes in several lanes, cuts, and openings with other lanes and more threads: an
/// engine reads each of its rows at the place that it has learned, in the log or in a kept segment.
#[test]
fn log_read_1_to_5_each_row_is_at_its_place() {
    let mut from_kept = 0;
    for seed in 0..30 {
        let (mut rng, disk) = (Rng::new(seed), SimDisk::new(seed));
        let mut known = Acknowledged::default();
        let mut db = new_log(&disk, 3).unwrap();
        db.create().unwrap();
        for round in 0..4 {
            drive(&db, &mut rng, 40, &mut known).unwrap();
            db.manager.truncate_log().unwrap();
            assert!(db.rows.0.lock().pending.is_empty(), "the log's care tells of all");
            let what = format!("seed {seed}, round {round}");
            from_kept += db.rows.check(&disk, &what);
            // Retired lanes come back, or not.
            let lanes = 1 + rng.below(4) as usize;
            let threads = 1 + 3 * rng.below(2) as usize;
            if rng.chance(1, 2) {
                db.manager.close().unwrap();
            }
            let again = LogSettings { recovery_threads: threads, ..small(lanes) };
            db = db.reopened(&disk, &again).unwrap();
            known.check(&db, &what);
            from_kept += db.rows.check(&disk, &what);
        }
    }
    assert!(from_kept > 1000, "{from_kept} rows were read from kept segments");
}

/// Many threads commit at once. Their commits share frames, and each flush tells the engine.
#[test]
fn log_read_2_commits_of_many_threads_are_told_once() {
    let disk = SimDisk::new(1);
    let shared = LogSettings { in_turn: false, ..small(2) };
    let engines = EngineKind::ALL.map(ModelEngine::of);
    let db = open_log(&disk, &shared, engines, Arc::default()).unwrap();
    db.create().unwrap();
    db.manager.start_flusher().unwrap();
    spillway_base::thread::together(4, |thread| {
        for number in 0..150 {
            let txn = db.begin();
            let size = if number % 7 == 0 { 3000 } else { 60 };
            txn.put(ROWS, format!("{thread}-{number}").as_bytes(), &vec![1; size]).unwrap();
            txn.commit().wait().unwrap();
            if thread == 0 && number % 20 == 0 {
                db.persist_and_cut().unwrap();
            }
        }
    });
    db.manager.close().unwrap();
    let (told, last) = (db.rows.0.lock().through, db.manager.stable());
    assert_eq!((told, last), (Csn(601), Csn(601)), "a close tells of the rest");
    assert_eq!(db.rows.0.lock().versions.len(), 600);
    db.persist_and_cut().unwrap();
    assert!(db.rows.check(&disk, "at the end") > 100);
}

/// A commit becomes stable by its install, after its flush. The thread that installs it tells the
/// engine the place, without a later flush or cut.
#[test]
fn log_read_10_a_late_install_is_told_of() {
    let disk = SimDisk::new(1);
    let db = new_log(&disk, 1).unwrap();
    db.create().unwrap();
    let before = db.put("a", 9000);
    let (flushed, rows) = (db.manager.clone(), db.rows.clone());
    db.memory.watch_install(move |_| {
        flushed.flush().unwrap();
        assert_eq!(rows.0.lock().through, before, "its flush came before its install");
    });
    let last = db.put("b", 9000);
    // The engine does not keep the manager that keeps the engine.
    db.memory.watch_install(|_| ());
    assert!(last > before);
    assert_eq!(db.rows.0.lock().through, last);
    assert!(db.rows.0.lock().pending.is_empty());
    db.rows.check(&disk, "told late");
}

/// A thread that finds another one reporting places leaves its commits to that thread
/// (LOG-READ-10).
#[test]
fn log_read_10_a_teller_tells_of_what_came_meanwhile() {
    let disk = SimDisk::new(1);
    let db = new_log(&disk, 1).unwrap();
    db.create().unwrap();
    let (manager, last) = (db.manager.clone(), Arc::new(Mutex::new(Csn::ZERO)));
    let committed = last.clone();
    *db.rows.1.lock() = Some(Box::new(move || {
        let txn = manager.begin(TransactionOptions::new().isolation(Isolation::ReadCommitted));
        txn.put(ROWS, b"meanwhile", b"v").unwrap();
        *committed.lock() = txn.commit().wait().unwrap();
    }));
    db.put("a", 10);
    let last = *last.lock();
    assert!(last > Csn::ZERO);
    assert_eq!(db.rows.0.lock().through, last);
}

/// A copy of the log has the rows too, and does not contain the kept segments.
#[test]
fn a_copied_log_has_its_rows() {
    let disk = SimDisk::new(1);
    let db = new_log(&disk, 2).unwrap();
    db.create().unwrap();
    drive(&db, &mut Rng::new(2), 80, &mut Acknowledged::default()).unwrap();
    db.persist_and_cut().unwrap();
    let start = db.manager.stable();
    let held = db.manager.hold_log();
    let mut known = Acknowledged::default();
    for number in 0..30_u8 {
        let key = vec![number];
        let txn = db.begin();
        txn.put(ROWS, &key, &[number; 900]).unwrap();
        let csn = txn.commit().wait().unwrap();
        known.rows.insert((ROWS, key), (csn, Some(vec![number; 900])));
        if number == 20 {
            // The log is not cut meanwhile, and its places are still reported.
            db.persist_and_cut().unwrap();
        }
    }
    assert!(!kept_files(&disk).list().unwrap().is_empty());
    let (end, to) = (db.manager.stable(), Path::new("/copy"));
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut writer = LogWriter::begin(shared, to, SEGMENT, end).unwrap();
    let mut give = |lane: u32, frame: &[u8]| writer.append(lane, frame);
    let copied = db.manager.copy_log(&disk, Path::new("/log"), &held, start..end, &mut give);
    assert_eq!(copied.unwrap(), LogCopy { through: end, commits: 30 });
    writer.finish().unwrap();

    // Engines that have the commits before the copy.
    let rows = db.rows.reopened();
    rows.0.lock().versions.clear();
    rows.0.lock().persisted = start;
    for engine in [&db.tiered, &db.memory] {
        engine.claim_persisted(start);
    }
    let copy = LogSettings { dir: to.into(), ..small(2) };
    let engines = [db.tiered.reopened(), db.memory.reopened()];
    let again = open_log(&disk, &copy, engines, rows).unwrap();
    known.check(&again, "copied");
    let files = KeptFiles::new(Arc::new(disk.clone()), to);
    assert_eq!(again.rows.check_in(&files, "copied").1, 30);
}

/// Lanes without commits hold nothing back. The log's maintenance reports to an engine without
/// commits up to where all places are known.
#[test]
fn log_read_3_an_idle_lane_or_engine_holds_nothing_back() {
    let disk = SimDisk::new(1);
    let db = new_log(&disk, 3).unwrap();
    db.create().unwrap();
    let first = db.put("a", 10);
    let through = || db.rows.0.lock().through;
    assert_eq!(through(), first, "two lanes are idle");
    let txn = db.begin();
    txn.put(TABLE, b"k", b"v").unwrap();
    let other = txn.commit().wait().unwrap();
    assert_eq!(through(), first, "it has no part in this one");
    db.manager.truncate_log().unwrap();
    assert_eq!(through(), other);
}

/// Crashes at every operation of a history with cuts, and again at every few of the opening that
/// follows: each row that was acknowledged is at its place, and the log has no gap.
#[test]
fn log_read_5_no_crash_loses_a_row_or_leaves_a_gap() {
    let history = |disk: &SimDisk, known: &mut Acknowledged| {
        let db = match new_log(disk, 2) {
            Ok(db) => db,
            Err(_) => return None,
        };
        let driven = db.create().and_then(|()| drive(&db, &mut Rng::new(11), 110, known));
        Some((db, driven.is_ok()))
    };
    let whole = SimDisk::new(0);
    let (db, done) = history(&whole, &mut Acknowledged::default()).unwrap();
    assert!(done && names(&whole, "kept").len() >= 4, "{:?}", names(&whole, "kept"));
    drop(db);
    let mut handed_over = 0;
    for crash_at in 1..=whole.operations() {
        let (disk, mut known) = (SimDisk::new(crash_at), Acknowledged::default());
        disk.fail_operation(crash_at, Fault::Crash);
        let Some((db, _)) = history(&disk, &mut known) else { continue };
        disk.crash();
        disk.restart();
        handed_over += usize::from(!names(&disk, "kept").is_empty());
        let what = format!("crash at {crash_at}");
        let check = |db: &LogDb, disk: &SimDisk, what: &str| {
            let again =
                db.reopened(disk, &small(2)).unwrap_or_else(|error| panic!("{what}: {error}"));
            known.check(&again, what);
            again.rows.check(disk, what);
            again.persist_and_cut().unwrap();
            again.put("after", 3000);
            again.rows.check(disk, what);
        };
        for second in [1, 3, 6, 12, 25] {
            let disk = disk.fork();
            disk.fail_operation(disk.operations() + second, Fault::Crash);
            // Lanes may be retired on the way.
            let lanes = 1 + second as usize % 2;
            let again = db.reopened(&disk, &small(lanes)).ok();
            let _ = again.as_ref().map(LogDb::persist_and_cut);
            disk.crash();
            disk.restart();
            // The engines keep what they have persisted meanwhile.
            check(again.as_ref().unwrap_or(&db), &disk, &format!("{what}, then {second}"));
        }
        check(&db, &disk, &what);
    }
    assert!(handed_over > 50, "{handed_over}");
}

/// An engine is asked about lanes by their numbers, even if an earlier lane is gone.
#[test]
fn log_read_4_lanes_have_their_own_numbers() {
    let disk = SimDisk::new(1);
    let db = new_log(&disk, 3).unwrap();
    db.create().unwrap();
    let lane = |csn: Csn| {
        let known = db.rows.0.lock();
        known.versions.iter().find(|((_, of), _)| *of == csn).unwrap().1.place.lane
    };
    let mut last = db.put("a", 20_000);
    while lane(last) != 2 {
        last = db.put(&format!("b{last}"), 20_000);
    }
    let db = db.reopened(&disk, &small(1)).unwrap();
    let before = Csn(last.0 - 1);
    db.rows.persist(before);
    db.tiered.claim_persisted(before);
    db.memory.claim_persisted(before);
    db.manager.truncate_log().unwrap();
    let lanes = |db: &LogDb| db.rows.0.lock().asked.iter().map(|(lane, _)| *lane).max();
    assert_eq!(lanes(&db), Some(1), "the last lane has the last commit");
    let db = db.reopened(&disk, &small(1)).unwrap();
    db.persist_and_cut().unwrap();
    let asked = db.rows.0.lock().asked.clone();
    assert!(asked.iter().all(|(lane, _)| *lane != 1) && lanes(&db) == Some(2), "{asked:?}");
    db.rows.check(&disk, "lanes");
}

/// A full lane's log is cut to nothing, and the lane is retired and comes back: its new segments
/// have larger numbers than the kept ones, and so does a log that is created while they exist.
#[test]
fn log_read_7_new_segments_are_above_all_kept_ones() {
    let disk = SimDisk::new(1);
    let db = new_log(&disk, 2).unwrap();
    db.create().unwrap();
    for number in 0..20 {
        db.put(&number.to_string(), 6000);
    }
    db.manager.close().unwrap();
    // The second lane is no longer written to, and its log is cut completely.
    let db = db.reopened(&disk, &small(1)).unwrap();
    db.put("a", 6000);
    db.persist_and_cut().unwrap();
    db.rows.check(&disk, "retired");
    let kept = kept_files(&disk).list().unwrap();
    let last_kept = kept.iter().filter(|kept| kept.lane == 1).map(|kept| kept.segment).max();
    let of_lane_1 = |suffix: &str| {
        let names = names(&disk, suffix).into_iter();
        let names = names.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
        names.filter(|name| name.starts_with("01-")).collect::<Vec<_>>()
    };
    assert!(last_kept.is_some_and(|last| last >= 4), "{kept:?}");
    assert!(of_lane_1("plog").is_empty());
    let db = db.reopened(&disk, &small(2)).unwrap();
    for number in 0..6 {
        db.put(&format!("b{number}"), 6000);
    }
    db.rows.check(&disk, "back");
    let last_kept = format!("01-{:016x}.plog", last_kept.unwrap());
    assert!(of_lane_1("plog").iter().all(|name| *name > last_kept), "{:?}", of_lane_1("plog"));
}

/// The read that needs a missing kept segment reports it. An engine that no longer needs a kept
/// segment removes it once it is listed.
#[test]
fn log_read_8_a_kept_segment_is_no_part_of_the_log() {
    let disk = SimDisk::new(1);
    let db = new_log(&disk, 1).unwrap();
    db.create().unwrap();
    for number in 0..20 {
        db.put(&number.to_string(), 6000);
    }
    let log = kept_files(&disk);
    assert!(log.list().unwrap().is_empty() && log.open(0, 2).is_ok());
    assert!(!log.remove(0, 2).unwrap(), "it is in the log");
    let held = log.open(0, 2).unwrap();
    db.persist_and_cut().unwrap();
    let kept = log.list().unwrap();
    assert!(kept.len() > 2 && kept.iter().all(|kept| kept.lane == 0 && keeps(kept.segment)));
    assert_eq!((kept[0].segment, kept[0].bytes), (2, SEGMENT));
    let in_log: u64 = names(&disk, "plog").len() as u64 * SEGMENT;
    assert!(db.manager.0.pipeline.log_bytes() <= in_log, "bytes are those of the log");
    let (mut before, mut after) = ([0; 4096], [0; 4096]);
    held.read_at(8192, &mut before).unwrap();
    log.open(0, 2).unwrap().read_at(8192, &mut after).unwrap();
    assert!(before == after && before != [0; 4096]);

    disk.remove(&Path::new("/log").join(format!("00-{:016x}.kept", 2))).unwrap();
    assert!(log.remove(0, 4).unwrap() && !log.remove(0, 4).unwrap());
    let fork = disk.fork();
    fork.crash();
    fork.restart();
    let db = db.reopened(&fork, &small(1)).unwrap();
    let log = kept_files(&fork);
    for segment in [2, 4] {
        let missing: Error = log.open(0, segment).err().unwrap();
        assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
    }
    assert!(log.open(0, 6).is_ok());
    db.put("b", 10);
}
