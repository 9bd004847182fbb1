mod closed_reads;
mod full_disk;
mod histories;
mod kept_segments;
mod log_compaction;
mod lying_disk;
mod memory_engine;
mod placements;
mod settings;
mod spills;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use spillway_base::engine::{Access, Engine};
use spillway_base::rng::Rng;
use spillway_storage::sim::{Fault, SimDisk};
use spillway_storage::{Disk, OpenMode};

use super::*;

fn small() -> Settings {
    Settings {
        memory_bytes: 16 << 20,
        log_segment_bytes: 64 << 10,
        log_lanes: Some(3),
        background_threads: false,
        slot_bytes: 16 << 10,
        ..Settings::default()
    }
}

fn open(disk: &SimDisk) -> Result<Database> {
    Database::open_on(Arc::new(disk.clone()), "/db", small())
}

fn read(txn: &Transaction, table: Table) -> Vec<(Vec<u8>, Vec<u8>)> {
    txn.scan(table, KeyRange::ALL, Direction::Forward).unwrap().map(Result::unwrap).collect()
}

#[test]
fn commits_in_flight_do_not_fill_the_memory_that_only_durable_ones_give_back() {
    let settings = Settings { memory_bytes: 32 << 20, ..Settings::default() };
    let db = Database::open_in_memory(settings).unwrap();
    let txn = db.begin(TransactionOptions::new());
    let table = txn.create_table("t", EngineKind::Tiered).unwrap();
    txn.commit().wait().unwrap();
    let in_flight: Vec<_> = (0..24_u32)
        .map(|number| {
            let txn = db.begin(TransactionOptions::new());
            txn.put(table, &number.to_be_bytes(), &vec![7; 1 << 20]).unwrap();
            txn.commit()
        })
        .collect();
    for future in in_flight {
        future.wait().unwrap();
    }
}

#[test]
fn a_database_on_the_machines_disk_is_there_after_reopening() {
    let folder = tempfile::tempdir().unwrap();
    let settings = Settings { memory_bytes: 32 << 20, ..Settings::default() };
    for round in 0..3_u8 {
        let db = Database::open(folder.path(), settings.clone()).unwrap();
        let busy = Database::open(folder.path(), settings.clone()).err().unwrap();
        assert_eq!(busy.kind(), ErrorKind::InUse);
        let txn = db.begin(TransactionOptions::new());
        let table = if round == 0 {
            txn.create_table("t", EngineKind::Tiered).unwrap()
        } else {
            txn.table("t").unwrap()
        };
        assert_eq!(read(&txn, table).len(), usize::from(round));
        txn.put(table, &[round], b"v").unwrap();
        txn.commit().wait().unwrap();
        if round == 1 {
            db.close().unwrap();
            let late = db.begin(TransactionOptions::new());
            late.put(table, b"k", b"v").unwrap();
            assert_eq!(late.commit().wait().unwrap_err().kind(), ErrorKind::Closed);
        }
        drop(db);
        let report = check(folder.path(), &mut |_, _| {}).unwrap();
        assert!(report.findings.is_empty() && report.log_frames > 0, "{report:?}");
    }
}

#[test]
fn tables_come_and_go_by_name() {
    let db = Database::open_in_memory(small()).unwrap();
    let txn = db.begin(TransactionOptions::new());
    let a = txn.create_table("a", EngineKind::Tiered).unwrap();
    let again = txn.create_table("a", EngineKind::Tiered).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::AlreadyExists);
    assert!(txn.create_table("", EngineKind::Tiered).is_err());
    txn.create_table("m", EngineKind::Memory).unwrap();
    txn.drop_table("m").unwrap();
    let before = txn.savepoint();
    txn.create_table("b", EngineKind::Tiered).unwrap();
    txn.rollback_to(before);
    assert_eq!(txn.table_names().unwrap(), ["a"]);
    txn.put(a, b"k", b"v").unwrap();
    txn.commit().wait().unwrap();
    let txn = db.begin(TransactionOptions::new());
    assert_eq!(txn.table("a").unwrap(), a);
    txn.drop_table("a").unwrap();
    assert_eq!(txn.table("a").unwrap_err().kind(), ErrorKind::NotFound);
    txn.commit().wait().unwrap();
    let txn = db.begin(TransactionOptions::new());
    assert!(txn.table_names().unwrap().is_empty());
    let new = txn.create_table("a", EngineKind::Tiered).unwrap();
    assert_ne!(new, a);
    assert!(read(&txn, new).is_empty());
}

/// Decision 006: once data files cannot be trusted, the log is not cut, and no commit is accepted.
#[test]
fn a_failed_engine_takes_no_commit_and_its_log_is_not_cut() {
    let disk = SimDisk::new(1);
    let db = open(&disk).unwrap();
    let txn = db.begin(TransactionOptions::new());
    let table = txn.create_table("t", EngineKind::Tiered).unwrap();
    txn.commit().wait().unwrap();
    let write = |key: u8| {
        let txn = db.begin(TransactionOptions::new());
        txn.put(table, &[key], &[key; 10_000]).unwrap();
        txn.commit().wait()
    };
    for key in 0..40 {
        write(key).unwrap();
    }
    db.0.tiered.flush_all().unwrap();
    write(40).unwrap();
    let log_bytes = || db.metrics().iter().find(|metric| metric.name == "log_bytes").unwrap().value;
    let before = log_bytes();
    disk.fail_next_sync(Fault::Io);
    assert_eq!(db.flush().unwrap_err().kind(), ErrorKind::WritesStopped);
    assert!(db.0.manager.truncate_log().is_err());
    assert_eq!(log_bytes(), before);
    assert_eq!(write(41).unwrap_err().kind(), ErrorKind::WritesStopped);
    drop(db);
    disk.crash();
    disk.restart();
    let db = open(&disk).unwrap();
    let rows = read(&db.begin(TransactionOptions::new()), table);
    assert_eq!(rows.len(), 41);
    db.flush().unwrap();
}

/// Decision 011: a scan that would have to wait for a block, while memory has a newer version of
/// the row before, continues where it was: it skips nothing, including concurrent writes.
#[test]
fn a_scan_that_would_block_goes_on_where_it_was() {
    let disk = SimDisk::new(1);
    let db = open(&disk).unwrap();
    let key = |number: usize| format!("k{number:03}").into_bytes();
    let rows = 40;
    let txn = db.begin(TransactionOptions::new());
    let table = txn.create_table("t", EngineKind::Tiered).unwrap();
    (0..rows).for_each(|number| txn.put(table, &key(number), &[1; 1000]).unwrap());
    txn.commit().wait().unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let mut blocked = 0;
    for (newer, direction) in
        (0..rows).flat_map(|newer| [(newer, Direction::Forward), (newer, Direction::Backward)])
    {
        let db = open(&disk.fork()).unwrap();
        let txn = db.begin(TransactionOptions::new());
        for number in [newer, newer.saturating_sub(5), (newer + 5).min(rows - 1)] {
            txn.put(table, &key(number), &[2; 10]).unwrap();
        }
        txn.commit().wait().unwrap();
        let txn = db.begin(TransactionOptions::new());
        let mut scan = txn.scan(table, KeyRange::ALL, direction).unwrap();
        let mut found: Vec<Vec<u8>> = Vec::new();
        let mut wanted: Vec<Vec<u8>> = (0..rows).map(key).collect();
        loop {
            let step = scan.advance_with(Access::MemoryOnly).or_else(|error| {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                let last = (0..rows).find(|&number| found.last() == Some(&key(number)));
                if let Some(last) = last.filter(|&last| last > 0) {
                    let behind = last - usize::from(direction == Direction::Backward);
                    let own = [key(behind), b"x".to_vec()].concat();
                    txn.put(table, &own, b"own").unwrap();
                    wanted.push(own);
                    blocked += 1;
                }
                scan.advance_with(Access::Blocking)
            });
            if !step.unwrap() {
                break;
            }
            found.push(scan.key().to_vec());
        }
        wanted.sort();
        if direction == Direction::Backward {
            wanted.reverse();
        }
        assert_eq!(found, wanted, "{newer} {direction:?}");
    }
    assert!(blocked > rows, "{blocked}");
}

/// Once the database is closed the folder may belong to another: no remaining handle writes to it,
/// neither on request nor to make room for a commit.
#[test]
fn a_closed_database_does_no_work_on_its_folder() {
    for background_threads in [false, true] {
        let disk = SimDisk::new(1);
        let settings = Settings { background_threads, ..small() };
        let db = Database::open_on(Arc::new(disk.clone()), "/db", settings).unwrap();
        let txn = db.begin(TransactionOptions::new());
        let table = txn.create_table("t", EngineKind::Tiered).unwrap();
        (0..100_u8).for_each(|key| txn.put(table, &[key], &[key; 10_000]).unwrap());
        txn.commit().wait().unwrap();
        db.close().unwrap();
        let before = disk.operations();
        let room = db.0.tiered.admit(10 << 20).map(drop);
        let asked = [room, db.flush(), db.compact(), db.run_background_job().map(drop)];
        for outcome in asked {
            assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Closed);
        }
        assert_eq!(disk.operations(), before);
        assert_eq!(read(&db.begin(TransactionOptions::new()), table).len(), 100);
        db.close().unwrap();
        open(&disk).unwrap().flush().unwrap();
    }
}

#[test]
fn settings_out_of_bounds_are_refused_with_a_reason() {
    for (settings, word) in [
        (Settings { memory_bytes: 1, ..small() }, "memory_bytes"),
        (Settings { cores: 0, ..small() }, "cores"),
        (Settings { log_segment_bytes: 1, ..small() }, "log_segment_bytes"),
        (Settings { slot_bytes: 5000, ..small() }, "slot_bytes"),
    ] {
        let error = Database::open_in_memory(settings).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(word), "{error}");
    }
}

type Contents = BTreeMap<String, BTreeMap<Vec<u8>, Vec<u8>>>;

fn contents(db: &Database) -> Contents {
    let txn = db.begin(TransactionOptions::new());
    let names = txn.table_names().unwrap();
    names
        .into_iter()
        .map(|name| {
            let table = txn.table(&name).unwrap();
            let rows = read(&txn, table).into_iter().collect();
            (name, rows)
        })
        .collect()
}

/// One transaction of a seeded history: tables created, dropped and written. Returns the contents
/// after it.
fn step(db: &Database, rng: &mut Rng, state: &Contents) -> Result<(CommitFuture, Contents)> {
    let txn = db.begin(TransactionOptions::new());
    let mut next = state.clone();
    for _ in 0..=rng.below(3) {
        let name = format!("t{}", rng.below(3));
        let Some(rows) = next.get_mut(&name) else {
            let engine = EngineKind::ALL[rng.below(2) as usize];
            txn.create_table(&name, engine)?;
            next.insert(name, BTreeMap::new());
            continue;
        };
        let table = txn.table(&name)?;
        let key = vec![b'a' + rng.below(20) as u8];
        match rng.below(20) {
            0 => {
                txn.drop_table(&name)?;
                next.remove(&name);
            }
            1..5 => {
                txn.delete(table, &key)?;
                rows.remove(&key);
            }
            _ => {
                let value = vec![rng.next_u64() as u8; rng.below(4000) as usize];
                txn.put(table, &key, &value)?;
                rows.insert(key, value);
            }
        }
    }
    Ok((txn.commit(), next))
}

/// Runs a seeded history, with background work in between, until the disk stops it. Returns how
/// many of `states` were acknowledged.
fn history(disk: &SimDisk, seed: u64, states: &mut Vec<Contents>, steps: u64) -> usize {
    let mut acknowledged = states.len() - 1;
    let Ok(db) = open(disk) else { return acknowledged };
    let mut rng = Rng::new(seed);
    for _ in 0..steps {
        let state = states.last().cloned().unwrap_or_default();
        let Ok((future, next)) = step(&db, &mut rng, &state) else { return acknowledged };
        states.push(next);
        if future.wait().is_err() {
            return acknowledged;
        }
        acknowledged = states.len() - 1;
        if rng.chance(1, 10) && db.flush().is_err() {
            return acknowledged;
        }
        if rng.chance(1, 3) {
            let _ = db.run_background_job();
        }
    }
    acknowledged
}

/// The whole library crashes at every write and every sync of a history. Afterwards it has the
/// state that the acknowledged transactions left, or that and the one in progress; and every
/// checksum is right.
#[test]
fn a_crash_at_every_operation_leaves_what_was_acknowledged() {
    let whole = SimDisk::new(0);
    history(&whole, 21, &mut vec![Contents::new()], 60);
    let operations = whole.operations();
    assert!(operations > 250, "{operations}");
    for crash_at in 1..=operations {
        let disk = SimDisk::new(crash_at);
        disk.fail_operation(crash_at, Fault::Crash);
        let mut states = vec![Contents::new()];
        for life in 0..2 {
            let acknowledged = history(&disk, 21 + life, &mut states, 60 - 40 * life);
            disk.crash();
            disk.restart();
            let shared: Arc<dyn Disk> = Arc::new(disk.clone());
            if disk.exists(Path::new("/db/tiered")).unwrap() {
                let report = check::check_on(&shared, Path::new("/db"), &mut |_, _| {}).unwrap();
                assert!(report.findings.is_empty(), "crash at {crash_at}: {:?}", report.findings);
            }
            let found = contents(&open(&disk.fork()).unwrap());
            let last = states.len() - 1;
            let at = (acknowledged..=last).rfind(|at| states[*at] == found);
            let at = at.unwrap_or_else(|| {
                panic!("crash at {crash_at}, life {life}: not what {acknowledged}..={last} left")
            });
            states.truncate(at + 1);
            disk.fail_operation(disk.operations() + 11 + crash_at % 29, Fault::Crash);
        }
    }
}

/// I/O errors and short writes at every operation: the database refuses or continues, and after a
/// restart it has everything acknowledged.
#[test]
fn an_error_at_every_operation_loses_nothing() {
    let whole = SimDisk::new(0);
    history(&whole, 22, &mut vec![Contents::new()], 30);
    for fault in [Fault::Io, Fault::ShortWrite, Fault::Full] {
        for at in 1..=whole.operations() {
            let disk = SimDisk::new(at);
            disk.fail_operation(at, fault);
            let mut states = vec![Contents::new()];
            let acknowledged = history(&disk, 22, &mut states, 30);
            disk.crash();
            disk.restart();
            let found = contents(&open(&disk).unwrap());
            let last = states.len() - 1;
            assert!(
                (acknowledged..=last).any(|at| states[at] == found),
                "{fault:?} at {at}: not what {acknowledged}..={last} left"
            );
        }
    }
}

/// Writes until the disk is full, with flushes between, restarts on the full disk, and continues
/// when there is space.
#[test]
fn a_full_disk_is_opened_and_read_and_written_once_there_is_space() {
    for seed in 0..8 {
        let disk = SimDisk::new(seed);
        let db = open(&disk).unwrap();
        let txn = db.begin(TransactionOptions::new());
        let table = txn.create_table("t", EngineKind::Tiered).unwrap();
        txn.commit().wait().unwrap();
        disk.set_capacity(Some(disk.used() + (400 << 10) + (seed << 12)));
        let put = |db: &Database, number: u64| {
            let txn = db.begin(TransactionOptions::new());
            txn.put(table, &number.to_be_bytes(), &[number as u8; 3000]).unwrap();
            txn.commit().wait()
        };
        let mut acknowledged = 0;
        let refused = loop {
            match put(&db, acknowledged) {
                Ok(_) => acknowledged += 1,
                Err(error) => break error,
            }
            if acknowledged % 16 == 0 {
                let _ = db.flush();
            }
        };
        assert_eq!(refused.kind(), ErrorKind::DiskFull, "{refused}");
        assert!(acknowledged > 30, "{acknowledged}");
        for _ in 0..2 {
            disk.kill();
            let db = open(&disk).unwrap();
            let txn = db.begin(TransactionOptions::new());
            assert_eq!(read(&txn, table).len() as u64, acknowledged, "seed {seed}");
        }
        disk.kill();
        let db = open(&disk).unwrap();
        disk.set_capacity(None);
        // A flush that met the full disk is retried, and the writers that it blocked continue.
        while put(&db, acknowledged).is_err() {
            db.flush().unwrap();
        }
        db.flush().unwrap();
        disk.crash();
        disk.restart();
        let txn = open(&disk).unwrap().begin(TransactionOptions::new());
        assert_eq!(read(&txn, table).len() as u64, acknowledged + 1);
    }
}

#[test]
fn commits_that_nobody_waits_for_do_not_run_out_of_room() {
    let db = Database::open_in_memory(small()).unwrap();
    let options = TransactionOptions::new()
        .durability(Durability::Within(std::time::Duration::from_secs(3600)));
    let txn = db.begin(options);
    let table = txn.create_table("t", EngineKind::Tiered).unwrap();
    txn.commit().wait().unwrap();
    let value = vec![7; 64 << 10];
    for key in 0..400_u32 {
        let txn = db.begin(options);
        txn.put(table, &key.to_be_bytes(), &value).unwrap();
        txn.commit().wait().unwrap();
    }
    let txn = db.begin(options);
    assert_eq!(read(&txn, table).len(), 400, "more than the memory that it may use");
}

/// Writes once to ten tables, and 8 MiB to three others. Returns the number of flushed memtables,
/// and the most bytes of the log.
fn with_idle_tables(log_bytes_max: u64) -> (u64, u64) {
    let settings = Settings { log_bytes_max, ..small() };
    let db = Database::open_in_memory(settings).unwrap();
    let txn = db.begin(TransactionOptions::new());
    let create = |number: u32| {
        let table = txn.create_table(&number.to_string(), EngineKind::Tiered).unwrap();
        txn.put(table, b"once", b"written").unwrap();
        table
    };
    let tables: Vec<_> = (0..13).map(create).collect();
    txn.commit().wait().unwrap();
    let figure = |name: &str| {
        let metric = db.metrics().into_iter().find(|metric| metric.name == name);
        metric.unwrap_or_else(|| panic!("{name}")).value as u64
    };
    let mut log_bytes = 0;
    for number in 0..2100_u64 {
        let txn = db.begin(TransactionOptions::new());
        let table = tables[10 + number as usize % 3];
        txn.put(table, &number.to_be_bytes(), &[7; 4000]).unwrap();
        txn.commit().wait().unwrap();
        while db.run_background_job().unwrap() {}
        log_bytes = log_bytes.max(figure("log_bytes"));
    }
    (figure("tiered_flushes_total"), log_bytes)
}

/// E6: the log comes down to its limit whatever tables are written to, and only memtables with
/// commits of its oldest segments are flushed for that: a busy table is not flushed before its
/// memtable is full, and the log does not wait for tables that are no longer written to.
#[test]
fn the_log_is_cut_past_idle_tables_and_no_busy_one_is_flushed_for_it() {
    let (flushes_needed, all) = with_idle_tables(1 << 30);
    assert!(all > 8 << 20);
    // The memtables of three busy tables fit.
    let log_bytes_max = 5 << 20;
    let (flushes, log_bytes) = with_idle_tables(log_bytes_max);
    // One segment is written to, one is prepared, and one more may be full by the time of the
    // check.
    assert!(log_bytes <= log_bytes_max + 3 * small().log_segment_bytes, "{log_bytes}");
    // Ten idle tables, and the directory of tables.
    assert_eq!(flushes, flushes_needed + 11);
}

/// Decision 007: several threads write several times the budget while others read, and no write
/// fails. The budget is not exceeded. Memtables take at most a quarter of it, plus one batch and
/// one step of the arenas for each writer. Flushed memtables that only a reader still holds take at
/// most another quarter: the system may stop a reader for any time.
#[test]
fn d7_no_write_load_takes_more_memory_than_the_budget() {
    let settings = Settings {
        memory_bytes: 16 << 20,
        background_threads: true,
        durability: Durability::Within(std::time::Duration::from_millis(20)),
        ..small()
    };
    let (writers, rows, row_bytes) = (3_usize, 250_u32, 64 << 10);
    let margin = 2 << 20;
    let db = Database::open_in_memory(settings.clone()).unwrap();
    let tables: Vec<Table> = {
        let txn = db.begin(TransactionOptions::new());
        let name = |number: usize| number.to_string();
        let create = |number| txn.create_table(&name(number), EngineKind::Tiered).unwrap();
        let tables = (0..writers).map(create).collect();
        txn.commit().wait().unwrap();
        tables
    };
    let relaxed = Ordering::Relaxed;
    let written = AtomicUsize::new(0);
    let most: [AtomicUsize; 3] = Default::default();
    let quarter = settings.memory_bytes / 4;
    let note = || {
        // Twice the share of the quarter that is not flushed, less one.
        let debt = db.metrics().into_iter().find(|metric| metric.name == "tiered_debt_flush");
        let unflushed = (debt.unwrap().value + 1.0) / 2.0 * quarter as f64;
        most[2].fetch_max(unflushed as usize, relaxed);
        let budget = db.budget();
        most[0].fetch_max(budget.used(), relaxed);
        most[1].fetch_max(budget.used_for(spillway_base::budget::Use::Memtables), relaxed);
    };
    spillway_base::thread::together(writers + 1, |thread| {
        if thread == writers {
            let mut rng = Rng::new(5);
            let mut value = Vec::new();
            while written.load(relaxed) < writers * rows as usize {
                note();
                let table = tables[rng.below(writers as u64) as usize];
                let txn = db.begin(TransactionOptions::new().read_only(true));
                txn.get(table, &(rng.below(250) as u32).to_be_bytes(), &mut value).unwrap();
                assert!(value.is_empty() || value.len() == row_bytes);
            }
            return;
        }
        for row in 0..rows {
            let txn = db.begin(TransactionOptions::new());
            txn.put(tables[thread], &row.to_be_bytes(), &vec![row as u8; row_bytes]).unwrap();
            txn.commit().wait().unwrap();
            written.fetch_add(1, relaxed);
            note();
        }
    });
    let [all, memtables, unflushed] = most.map(AtomicUsize::into_inner);
    assert!(writers * rows as usize * row_bytes > 2 * settings.memory_bytes);
    assert!(all <= settings.memory_bytes + margin, "{all} bytes");
    assert!(unflushed <= quarter + margin, "{unflushed} bytes");
    assert!(memtables <= 2 * quarter + margin, "{memtables} bytes");
    for table in tables {
        let txn = db.begin(TransactionOptions::new());
        assert_eq!(read(&txn, table).len(), rows as usize);
    }
    db.close().unwrap();
}

/// Decision 007: an opening that reads a log of several times the budget makes room as it proceeds,
/// with background threads or without.
#[test]
fn d7_no_log_takes_more_memory_to_read_than_the_budget() {
    for background_threads in [false, true] {
        let disk = SimDisk::new(3);
        let large = Settings { memory_bytes: 256 << 20, ..small() };
        let db = Database::open_on(Arc::new(disk.clone()), "/db", large).unwrap();
        let txn = db.begin(TransactionOptions::new());
        let table = txn.create_table("t", EngineKind::Tiered).unwrap();
        txn.commit().wait().unwrap();
        let (rows, row_bytes) = (640_u32, 64 << 10);
        for row in 0..rows {
            let txn = db.begin(TransactionOptions::new());
            txn.put(table, &row.to_be_bytes(), &vec![row as u8; row_bytes]).unwrap();
            txn.commit().wait().unwrap();
        }
        db.close().unwrap();
        let settings = Settings { background_threads, ..small() };
        let memory_bytes = settings.memory_bytes;
        let db = Database::open_on(Arc::new(disk.clone()), "/db", settings).unwrap();
        assert!(db.recovered().commits > u64::from(rows));
        let used = db.budget().used_for(spillway_base::budget::Use::Memtables);
        assert!(used <= memory_bytes / 4 + (2 << 20), "{used} bytes");
        assert_eq!(read(&db.begin(TransactionOptions::new()), table).len(), rows as usize);
    }
}

/// Tiers are those of the settings, on the machine's disk: a check finds their data by itself, a
/// closed database releases them although a handle remains, and one whose tier is gone names it.
#[test]
fn data_is_on_the_tiers_that_the_settings_name() {
    let folder = tempfile::tempdir().unwrap();
    let (data, hdd) = (folder.path().join("data"), folder.path().join("hdd"));
    let tier = Tier { class: DeviceClass::Hdd, dir: hdd.clone(), compression: None };
    let tiered = Settings { tiers: vec![tier], ..small() };
    let open = |settings: &Settings| Database::open(&data, settings.clone());
    let db = open(&tiered).unwrap();
    let txn = db.begin(TransactionOptions::new());
    let table = txn.create_table("t", EngineKind::Tiered).unwrap();
    for number in 0..1000_u32 {
        txn.put(table, &number.to_be_bytes(), &[7; 100]).unwrap();
    }
    txn.commit().wait().unwrap();
    db.compact().unwrap();
    let bytes = |dir: &Path| {
        let files = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
        let data = files.filter(|file| file.file_name().to_str().unwrap().ends_with(".data"));
        data.map(|file| file.metadata().unwrap().len()).sum::<u64>()
    };
    assert!(bytes(&hdd) > 0);
    db.close().unwrap();
    let report = check(&data, &mut |_, _| {}).unwrap();
    assert!(report.findings.is_empty() && report.versions >= 1000, "{report:?}");
    let again = open(&tiered).unwrap();
    let txn = again.begin(TransactionOptions::new());
    let table = txn.table("t").unwrap();
    assert_eq!(read(&txn, table).len(), 1000);
    drop(txn);
    again.close().unwrap();
    std::fs::rename(&hdd, folder.path().join("away")).unwrap();
    for settings in [&tiered, &small()] {
        let error = open(settings).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("--tier hdd="), "{error}");
    }
    assert!(!check(&data, &mut |_, _| {}).unwrap().findings.is_empty());
}

/// A multi_get returns the same as single gets: for own writes, for rows in memory and for others.
#[test]
fn multi_get_answers_as_gets_do() {
    for (kind, figure) in [
        (EngineKind::Tiered, "tiered_prefetched_total"),
        (EngineKind::Memory, "memory_engine_prefetched_total"),
    ] {
        // A disk of which the system caches nothing.
        let disk = Arc::new(SimDisk::new(1));
        let key = |number: u32| format!("key{number:05}").into_bytes();
        let open = || {
            let settings = Settings { memory_bytes: 64 << 20, ..Settings::default() };
            Database::open_on(disk.clone(), "/db", settings).unwrap()
        };
        let db = open();
        let txn = db.begin(TransactionOptions::new());
        let table = txn.create_table("t", kind).unwrap();
        (0..5000)
            .for_each(|number| txn.put(table, &key(number), &vec![number as u8; 500]).unwrap());
        txn.commit().wait().unwrap();
        db.compact().unwrap();
        db.close().unwrap();
        drop(db);
        let db = open();
        let txn = db.begin(TransactionOptions::new());
        let table = txn.table("t").unwrap();
        txn.put(table, &key(3), b"own").unwrap();
        txn.delete(table, &key(40)).unwrap();
        let wanted: Vec<_> = (0..6000).step_by(37).chain([3, 40, 3]).map(key).collect();
        let keys: Vec<&[u8]> = wanted.iter().map(|key| &key[..]).collect();
        let values = txn.multi_get(table, &keys).unwrap();
        let together = db.metrics().into_iter().find(|metric| metric.name == figure);
        assert!(together.unwrap().value > 50.0);
        let mut value = Vec::new();
        for (key, found) in keys.iter().zip(values) {
            let there = txn.get(table, key, &mut value).unwrap();
            assert_eq!(found, there.then(|| value.clone()), "{}", key.escape_ascii());
        }
        assert_eq!(txn.multi_get(table, &[]).unwrap(), []);
    }
}

/// A get without a transaction returns the same as one in a transaction that begins at the same
/// time, with any caches and without.
#[test]
fn gets_by_themselves_answer_as_transactions_do() {
    for without in [vec![], vec![Mechanism::Recall], vec![Mechanism::RowCache]] {
        let disk = SimDisk::new(1);
        let settings = Settings { without, ..small() };
        let db = Database::open_on(Arc::new(disk), "/db", settings).unwrap();
        let txn = db.begin(TransactionOptions::new());
        let table = txn.create_table("t", EngineKind::Tiered).unwrap();
        txn.commit().wait().unwrap();
        let (mut rng, mut model) = (Rng::new(7), BTreeMap::new());
        let reads = [Durability::Commit, Durability::Relaxed]
            .map(|durability| TransactionOptions::new().durability(durability));
        let serializable = reads[0].isolation(Isolation::Serializable);
        let mut found = 0;
        for step in 0..3000_u32 {
            let key = [rng.below(40) as u8; 3];
            if rng.chance(1, 5) {
                let txn = db.begin(TransactionOptions::new());
                let value = step.to_string().into_bytes();
                if rng.chance(1, 4) {
                    txn.delete(table, &key).unwrap();
                    model.remove(&key);
                } else {
                    txn.put(table, &key, &value).unwrap();
                    model.insert(key, value);
                }
                txn.commit().wait().unwrap();
            }
            for options in [reads[0], reads[1], serializable] {
                let mut value = b"of before".to_vec();
                let there = db.get(options, table, &key, &mut value).unwrap();
                let own = db.begin(options).get(table, &key, &mut Vec::new()).unwrap();
                assert_eq!(there.then_some(&value), model.get(&key), "in step {step}");
                assert!(there == own && (there || value.is_empty()));
                found += usize::from(there);
            }
        }
        assert!(found > 3000);
        let unknown = spillway_base::TableId(table.0 + 100);
        assert!(db.get(reads[0], unknown, b"key", &mut Vec::new()).is_err());
    }
}

/// The memory of all uses adds up to the total, and includes an open transaction.
#[test]
fn memory_is_told_by_its_uses() {
    let db = open(&SimDisk::new(1)).unwrap();
    let figure = |name: &str| {
        let metric = db.metrics().into_iter().find(|metric| metric.name == name);
        metric.unwrap_or_else(|| panic!("no {name}")).value
    };
    let uses = ["memtables", "caches", "transactions", "connections", "recovery", "compactions"];
    let sum = || {
        let named = uses.iter().map(|what| figure(&format!("memory_{what}_bytes")));
        named.sum::<f64>() + figure("memory_free_pages_bytes")
    };
    let txn = db.begin(TransactionOptions::new());
    let table = txn.create_table("t", EngineKind::Tiered).unwrap();
    txn.put(table, b"key", &[7; 10_000]).unwrap();
    assert!(figure("memory_transactions_bytes") >= 10_000.0);
    assert_eq!(sum(), figure("memory_used_bytes"));
    txn.commit().wait().unwrap();
    assert!(figure("memory_memtables_bytes") >= 10_000.0);
    assert_eq!(sum(), figure("memory_used_bytes"));
}

/// Commits that are in data files, according to these, are not read back from the log. A failure on
/// the way is reported, and loses nothing. Once a full disk has space, the work continues.
#[test]
fn what_is_persisted_is_not_read_back_and_a_failure_is_told() {
    let write = |disk: &SimDisk| {
        let db = open(disk).unwrap();
        let txn = db.begin(TransactionOptions::new());
        let tables = ["one", "other"].map(|name| txn.create_table(name, EngineKind::Tiered));
        let tables = tables.map(Result::unwrap);
        txn.commit().wait().unwrap();
        for number in 0..40_u32 {
            let txn = db.begin(TransactionOptions::new());
            txn.put(tables[number as usize % 2], &number.to_be_bytes(), &[7; 500]).unwrap();
            txn.commit().wait().unwrap();
        }
        (db, tables)
    };
    let all = |db: &Database, tables: &[Table]| {
        let txn = db.begin(TransactionOptions::new());
        tables.iter().map(|table| read(&txn, *table).len()).sum::<usize>()
    };
    let keys_in_memory = |db: &Database| {
        let parts = db.inspect().tables.into_iter().flat_map(|table| table.subtables);
        parts.flat_map(|part| part.memtables).map(|memtable| memtable.keys).sum::<u64>()
    };
    let whole = SimDisk::new(0);
    let (db, _) = write(&whole);
    let before = whole.operations();
    db.persist().unwrap();
    let operations = before + 1..=whole.operations();
    drop(db);
    assert!(operations.clone().count() > 5);
    let mut outcomes = [0; 3];
    for fault in [Fault::Io, Fault::ShortWrite, Fault::Full] {
        for at in operations.clone() {
            let disk = SimDisk::new(0);
            let (db, tables) = write(&disk);
            assert_eq!(disk.operations(), before);
            disk.fail_operation(at, fault);
            let persisted = match db.persist() {
                Ok(()) => 0,
                Err(error) if error.kind() == ErrorKind::DiskFull => {
                    db.persist().unwrap();
                    1
                }
                Err(_) => 2,
            };
            outcomes[persisted] += 1;
            assert_eq!(all(&db, &tables), 40, "{fault:?} at {at}");
            disk.crash();
            drop(db);
            disk.restart();
            let db = open(&disk).unwrap();
            assert_eq!(all(&db, &tables), 40, "{fault:?} at {at}");
            if persisted < 2 {
                assert_eq!(keys_in_memory(&db), 0, "{fault:?} at {at}");
            }
        }
    }
    assert!(outcomes[1] > 0 && outcomes[2] > 0, "{outcomes:?}");
}

/// A counter's family has its name without the suffix, which no other metric may have: Prometheus
/// would take the two for one.
#[test]
fn each_figure_is_a_family_of_its_own() {
    let db = open(&SimDisk::new(4)).unwrap();
    let mut seen = std::collections::HashSet::new();
    for metric in db.metrics() {
        assert_eq!(metric.name.ends_with("_total"), metric.counter, "{}", metric.name);
        let family = metric.name.strip_suffix("_total").unwrap_or(metric.name);
        assert!(seen.insert(family.to_owned()), "{family}");
    }
    assert!(seen.len() > 50, "{}", seen.len());
}

/// This holds however much is committed meanwhile and waits for the device.
#[test]
fn commits_meanwhile_do_not_keep_one_from_persisting() {
    let disk = SimDisk::new(3);
    let settings = Settings { background_threads: true, ..small() };
    let db = Database::open_on(Arc::new(disk), "/db", settings).unwrap();
    let txn = db.begin(TransactionOptions::new());
    let table = txn.create_table("t", EngineKind::Tiered).unwrap();
    txn.commit().wait().unwrap();
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let writer = {
        let (db, stop) = (db.clone(), stop.clone());
        spillway_base::thread::spawn("writer", move || {
            let mut number = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                let options = TransactionOptions::new().durability(Durability::Relaxed);
                let txn = db.begin(options);
                txn.put(table, &(number % 1000).to_be_bytes(), &[7; 100]).unwrap();
                txn.commit().wait().unwrap();
                number += 1;
            }
            number
        })
        .unwrap()
    };
    let mut stable = db.0.manager.stable();
    for _ in 0..20 {
        // The system may give the writer no processor for a long time: each round has its own rows
        // to persist.
        let before = stable;
        while stable == before {
            assert!(!writer.is_finished());
            std::thread::yield_now();
            stable = db.0.manager.stable();
        }
        db.persist().unwrap();
        assert!(db.0.tiered.pin().persisted() >= stable);
    }
    stop.store(true, Ordering::Relaxed);
    assert!(writer.join().unwrap() >= 20);
    db.close().unwrap();
}
