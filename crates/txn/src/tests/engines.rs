//! Two engines under one transaction manager: they share the order of commits and the log, and each
//! has its own persisted CSN, debt and memory.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use spillway_base::engine::Debt;
use spillway_base::lock::Mutex;
use spillway_base::rng::Rng;
use spillway_base::{Csn, Direction, Error, ErrorKind, KeyRange};

use super::*;

const OTHER: TableId = TableId(1 << 28 | 1);

struct Both {
    manager: TransactionManager,
    tiered: Arc<ModelEngine>,
    memory: Arc<ModelEngine>,
}

fn open_both(disk: &SimDisk, engines: [ModelEngine; 2], clock: Clock) -> Result<Both> {
    open_log(disk, &log(2), engines, clock)
}

fn open_log(
    disk: &SimDisk,
    log: &LogSettings,
    engines: [ModelEngine; 2],
    clock: Clock,
) -> Result<Both> {
    let [tiered, memory] = engines.map(Arc::new);
    let horizon = HorizonHandle::new();
    let disk: Arc<dyn spillway_storage::Disk> = Arc::new(disk.clone());
    let engines = Engines::new(vec![memory.clone(), tiered.clone()]);
    let budget = Budget::new(64 << 20);
    let (manager, _) = recover(&disk, log, settings(), &horizon, engines, budget, clock)?;
    Ok(Both { manager, tiered, memory })
}

fn fresh() -> [ModelEngine; 2] {
    EngineKind::ALL.map(ModelEngine::of)
}

/// A new database with a table of each engine.
fn both(disk: &SimDisk, clock: Clock) -> Both {
    let db = open_both(disk, fresh(), clock).unwrap();
    db.create_tables();
    db
}

impl Both {
    fn begin(&self) -> Transaction {
        self.manager.begin(TransactionOptions::new().isolation(Isolation::RepeatableRead))
    }

    fn create_tables(&self) {
        let txn = self.begin();
        txn.create_table(TABLE).unwrap();
        txn.create_table(OTHER).unwrap();
        txn.commit().wait().unwrap();
    }

    fn put(&self, table: TableId, key: &str) -> Csn {
        let txn = self.begin();
        txn.put(table, key.as_bytes(), b"v").unwrap();
        txn.commit().wait().unwrap()
    }

    fn reopened(&self, disk: &SimDisk) -> Result<Both> {
        let engines = [self.tiered.reopened(), self.memory.reopened()];
        open_both(disk, engines, Clock::system())
    }

    fn keys(&self, table: TableId) -> Vec<String> {
        let txn = self.begin();
        let rows = txn.scan(table, KeyRange::ALL, Direction::Forward).unwrap();
        rows.map(|row| String::from_utf8(row.unwrap().0).unwrap()).collect()
    }

    fn log_bytes(&self) -> f64 {
        let metrics = self.manager.metrics();
        metrics.iter().find(|metric| metric.name == "log_bytes").unwrap().value
    }

    /// Fills the log with commits to one table.
    fn fill(&self, table: TableId) {
        for number in 0..40 {
            let txn = self.begin();
            txn.put(table, format!("filling{number}").as_bytes(), &[7; 8 << 10]).unwrap();
            txn.commit().wait().unwrap();
        }
    }
}

/// Commits that one engine has persisted and another has not are read back, whichever engine is
/// ahead.
#[test]
fn an_opening_begins_past_the_least_of_the_engines_figures() {
    for ahead in [0, 1] {
        let disk = SimDisk::new(1);
        let db = both(&disk, Clock::system());
        let first = db.put(TABLE, "a");
        db.put(OTHER, "a");
        let txn = db.begin();
        txn.put(TABLE, b"b", b"v").unwrap();
        txn.put(OTHER, b"b", b"v").unwrap();
        let last = txn.commit().wait().unwrap();
        let engines = [&db.tiered, &db.memory];
        engines[ahead].claim_persisted(last);
        engines[1 - ahead].claim_persisted(first);
        db.manager.truncate_log().unwrap();
        let db = db.reopened(&disk.fork()).unwrap();
        assert_eq!(
            (db.keys(TABLE), db.keys(OTHER)),
            (vec!["a".into(), "b".into()], vec!["a".into(), "b".into()])
        );
    }
}

/// Commits that one engine's files have must not be missing from the log while another may lack
/// them.
#[test]
fn a_log_that_ends_before_what_an_engine_has_persisted_is_damaged() {
    let disk = SimDisk::new(1);
    let early = {
        let db = both(&disk, Clock::system());
        db.put(OTHER, "a");
        disk.fork()
    };
    let db = open_both(&disk, fresh(), Clock::system()).unwrap();
    let last = db.put(TABLE, "b");
    db.tiered.claim_persisted(last);
    db.memory.claim_persisted(Csn(1));
    let damaged = db.reopened(&early).err().unwrap();
    assert_eq!(damaged.kind(), ErrorKind::Corruption, "{damaged}");
}

type Rows = BTreeMap<(TableId, Vec<u8>), Vec<u8>>;

fn rows(db: &Both) -> Rows {
    let txn = db.begin();
    let tables = db.tiered.tables().into_iter().chain(db.memory.tables());
    let tables: Vec<_> = tables.filter(|table| table.ordinal() < 100).collect();
    let each = tables.into_iter().flat_map(|table| {
        let rows = txn.scan(table, KeyRange::ALL, Direction::Forward).unwrap();
        rows.map(|row| row.unwrap())
            .map(move |(key, value)| ((table, key), value))
            .collect::<Vec<_>>()
    });
    each.collect()
}

/// Random transactions over tables of both engines, with cuts of the log, crashes and threads. Each
/// engine persists arbitrary commits at arbitrary times. Nothing is lost, and nothing deleted comes
/// back.
#[test]
fn histories_survive_crashes_wherever_each_engine_has_come() {
    for seed in 0..60 {
        let (mut rng, mut wanted) = (Rng::new(seed), Rows::new());
        let mut disk = SimDisk::new(seed);
        let mut db = both(&disk, Clock::system());
        for step in 0..200_u64 {
            let txn = db.begin();
            for _ in 0..=rng.below(3) {
                let table = TableId::new(EngineKind::ALL[rng.below(2) as usize], 1);
                let key = rng.below(20).to_le_bytes()[..1].to_vec();
                match rng.below(8) {
                    0 => {
                        let end = vec![key[0] + 4];
                        let range = KeyRange::new(&key, Some(&end));
                        txn.delete_range(table, range).unwrap();
                        wanted.retain(|(of, key), _| *of != table || !range.contains(key));
                    }
                    1 | 2 => {
                        txn.delete(table, &key).unwrap();
                        wanted.remove(&(table, key));
                    }
                    _ => {
                        let value = step.to_le_bytes().to_vec();
                        txn.put(table, &key, &value).unwrap();
                        wanted.insert((table, key), value);
                    }
                }
            }
            let ordinal = 2 + step as u32;
            if rng.chance(1, 20) && ordinal < 100 {
                txn.create_table(TableId::new(EngineKind::ALL[rng.below(2) as usize], ordinal))
                    .unwrap();
            }
            txn.commit().wait().unwrap();
            for engine in [&db.tiered, &db.memory] {
                if rng.chance(1, 10) {
                    let (from, to) = (engine.persisted().0, db.manager.stable().0);
                    engine.claim_persisted(Csn(from + rng.below(to - from + 1)));
                }
            }
            if rng.chance(1, 10) {
                db.manager.truncate_log().unwrap();
            }
            if rng.chance(1, 30) {
                disk = disk.fork();
                db = db.reopened(&disk).unwrap();
                assert_eq!(rows(&db), wanted, "seed {seed}, step {step}");
            }
        }
    }
}

/// Each engine is asked for the room of its own operations, and gets only commits that write to its
/// tables.
#[test]
fn a_commit_concerns_only_the_engines_that_it_writes_to() {
    let disk = SimDisk::new(1);
    let db = both(&disk, Clock::system());
    let installs: [Arc<Mutex<Vec<Csn>>>; 2] = Default::default();
    let asked: [Arc<AtomicUsize>; 2] = Default::default();
    for (number, engine) in [&db.tiered, &db.memory].into_iter().enumerate() {
        let (seen, most) = (installs[number].clone(), asked[number].clone());
        engine.watch_install(move |csn| seen.lock().push(csn));
        engine.claim_room(move |bytes| {
            most.fetch_add(bytes, Ordering::Relaxed);
            Ok(())
        });
    }
    let one = db.put(TABLE, "a");
    let asked_of = |number: usize| asked[number].swap(0, Ordering::Relaxed);
    assert!(asked_of(0) > 0);
    assert_eq!(asked_of(1), 0, "not even when a row was locked");
    let txn = db.begin();
    txn.put(TABLE, b"b", &[1; 100_000]).unwrap();
    txn.put(OTHER, b"b", &[1; 10]).unwrap();
    let two = txn.commit().wait().unwrap();
    assert_eq!(
        (installs[0].lock().clone(), installs[1].lock().clone()),
        (vec![one, two], vec![two])
    );
    // The first row that a transaction locks decides which engine's room it waits for.
    let (first, second) = (asked_of(0), asked_of(1));
    assert!(first > 100_000 && (1..100).contains(&second), "{first} and {second} bytes");
}

/// Writers to one engine are neither slowed nor refused for another's sake.
#[test]
fn one_engine_that_is_behind_or_full_stops_only_its_own_writers() {
    let (disk, clock) = (SimDisk::new(1), Clock::manual());
    let db = both(&disk, clock.clone());
    db.memory.claim_debt(|| Debt { flush: 0.9, ..Debt::default() });
    db.memory.claim_room(|_| Err(Error::new(ErrorKind::MemoryFull, "no room")));
    let before = clock.now();
    db.fill(TABLE);
    assert_eq!(clock.now(), before);
    let txn = db.begin();
    let refused = txn.put(OTHER, b"a", b"v").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::MemoryFull);
    drop(txn);
    db.memory.claim_room(|_| Ok(()));
    db.fill(OTHER);
    assert!(clock.now() > before);
}

/// An engine keeps the log from being cut only for commits of its own that its files may lack.
#[test]
fn an_engine_without_commits_in_the_log_does_not_keep_it() {
    let disk = SimDisk::new(1);
    let db = both(&disk, Clock::system());
    for engine in [&db.tiered, &db.memory] {
        engine.claim_persisted(db.manager.stable());
    }
    db.fill(TABLE);
    let full = db.log_bytes();
    // One engine lags, and one has failed.
    for failed in [false, true] {
        db.fill(TABLE);
        db.tiered.claim_persisted(db.manager.stable());
        db.memory.claim_failure(failed);
        assert_eq!(db.manager.truncate_log().is_err(), failed, "a failure is told");
        assert!(db.log_bytes() < full, "{} of {full}", db.log_bytes());
    }
    let failed = db.put(OTHER, "a");
    db.fill(TABLE);
    db.tiered.claim_persisted(db.manager.stable());
    // Its figure does not count any more.
    db.memory.claim_persisted(failed);
    db.manager.truncate_log().unwrap_err();
    assert!(db.log_bytes() >= full, "{} of {full}", db.log_bytes());
    db.memory.claim_failure(false);
    db.manager.truncate_log().unwrap();
    assert!(db.log_bytes() < full, "{} of {full}", db.log_bytes());
    let db = db.reopened(&disk.fork()).unwrap();
    assert_eq!((db.keys(TABLE).len(), db.keys(OTHER)), (40, vec!["a".to_string()]));
}

/// The note of a cut stays in the log until the engines' figures have reached it again: over an
/// opening, and while an engine that has failed holds the log back.
#[test]
fn a_cut_for_less_than_an_older_note_keeps_that_note() {
    let mut disk = SimDisk::new(1);
    // Segments of another size are not used again, so a cut removes them at once.
    let opened = |disk: &SimDisk, segment_kib: usize, engines| {
        let log = LogSettings { segment_bytes: (segment_kib << 10) as u64, ..log(1) };
        open_log(disk, &log, engines, Clock::system()).unwrap()
    };
    let reopened = |db: &Both, disk: &SimDisk, segment_kib: usize| {
        opened(disk, segment_kib, [db.tiered.reopened(), db.memory.reopened()])
    };
    let mut db = opened(&disk, 64, fresh());
    db.create_tables();
    db.memory.claim_persisted(db.manager.stable());
    db.fill(TABLE);
    db.tiered.claim_persisted(db.manager.stable());
    db.manager.truncate_log().unwrap();
    disk = disk.fork();
    db = reopened(&db, &disk, 72);
    // The segment with the last commits goes, and the next opening finds a note alone.
    db.manager.truncate_log().unwrap();
    disk = disk.fork();
    db = reopened(&db, &disk, 80);
    db.put(OTHER, "a");
    db.memory.claim_failure(true);
    db.manager.truncate_log().unwrap_err();
    let db = reopened(&db, &disk.fork(), 80);
    assert_eq!((db.keys(TABLE).len(), db.keys(OTHER)), (40, vec!["a".to_string()]));
}

/// A transaction over both engines is all or nothing at every snapshot, and its conflicts span
/// them.
#[test]
fn transactions_and_conflicts_span_both_engines() {
    let disk = SimDisk::new(1);
    let db = both(&disk, Clock::system());
    let early = db.begin();
    assert_eq!(get_from(&early, TABLE, "a"), None);
    let txn = db.begin();
    txn.put(TABLE, b"a", b"1").unwrap();
    txn.put(OTHER, b"a", b"1").unwrap();
    txn.commit().wait().unwrap();
    assert_eq!(get_from(&early, OTHER, "a"), None);
    let refused = early.put(OTHER, b"a", b"2").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::WriteConflict, "{refused}");
    drop(early);
    // A write skew with its reads in one engine and its writes in the other.
    let serializable = || {
        let options = TransactionOptions::new().isolation(Isolation::Serializable);
        db.manager.begin(options)
    };
    let (one, two) = (serializable(), serializable());
    assert!(get_from(&one, TABLE, "a").is_some() && get_from(&two, OTHER, "a").is_some());
    one.put(OTHER, b"a", b"3").unwrap();
    let skewed = two.put(TABLE, b"a", b"3").and_then(|()| two.commit().wait());
    let outcomes = [one.commit().wait(), skewed];
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1, "{outcomes:?}");
}

fn get_from(txn: &Transaction, table: TableId, key: &str) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    txn.get(table, key.as_bytes(), &mut value).unwrap().then_some(value)
}
