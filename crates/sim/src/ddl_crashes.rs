//! Alters a table instantly and builds indexes online. Each run crashes the disk at another
//! operation. After each crash, every statement has taken effect completely or not at all, an index
//! under construction is complete or absent, and no extent is leaked.

use spillway::{Database, Direction, Durability, KeyRange, TransactionOptions, successor};
use spillway_sql::Session;
use spillway_storage::sim::{Fault, SimDisk};

use crate::client::ask;
use crate::extents::{looks_closely, nothing_is_left_over, verify_clean};
use crate::sweep::Sweep;
use crate::{machine, open, open_database, open_session};

/// A build of an index over these rows takes more than two transactions.
const ROWS: u64 = 2100;

/// The most rows whose entries a build adds in one transaction (`sql/ddl/pass`).
const BATCH_ROWS: u64 = 1000;

/// The number of disk operations of a statement that builds indexes.
const BUILD_OPERATIONS: u64 = 18;

/// Each step is one transaction or one DDL statement.
const STEPS: [&str; 10] = [
    "ALTER TABLE t ADD COLUMN c INT DEFAULT 5 FIRST, ADD COLUMN d VARCHAR(5) DEFAULT 'old' AFTER u, ALGORITHM=INSTANT",
    "INSERT INTO t VALUES (6, -1, -1, 'new', 7), (6, -2, -2, 'new', 7)",
    "CREATE INDEX v ON t (v, u)",
    "ALTER TABLE t DROP COLUMN c, MODIFY d VARCHAR(50) FIRST, ALGORITHM=INSTANT",
    "UPDATE t SET d = 'changed', v = v + 1 WHERE id < 5",
    "ALTER TABLE t ADD UNIQUE (u), ADD INDEX (d), DROP INDEX v",
    "DELETE FROM t WHERE id BETWEEN 3 AND 9",
    "ALTER TABLE t MODIFY v BIGINT, ADD COLUMN c INT DEFAULT 9, ALGORITHM=INSTANT",
    "OPTIMIZE TABLE t",
    "DROP INDEX u ON t",
];

/// A disk with the table, before the first step.
fn prepared(has_tiers: bool) -> SimDisk {
    let disk = machine(7, has_tiers);
    let (db, mut session) = open(&disk).unwrap();
    ask(&mut session, "CREATE TABLE t (id INT PRIMARY KEY, u INT, v INT)").unwrap();
    for first in (0..ROWS).step_by(700) {
        let row = |id: u64| format!("({id}, {id}, {})", id % 10);
        let rows: Vec<_> = (first..first + 700).map(row).collect();
        ask(&mut session, &format!("INSERT INTO t VALUES {}", rows.join(","))).unwrap();
    }
    db.flush().unwrap();
    disk
}

/// Takes steps until the disk fails. Returns how many were acknowledged.
fn drive(disk: &SimDisk, from: usize) -> usize {
    drive_and(disk, from, &mut |_| {})
}

/// As [`drive`]. Calls `began` with each step before it takes the step.
fn drive_and(disk: &SimDisk, from: usize, began: &mut dyn FnMut(&str)) -> usize {
    let Ok((db, mut session)) = open(disk) else { return from };
    for (at, step) in STEPS.iter().enumerate().skip(from) {
        began(step);
        if ask(&mut session, step).is_err() {
            return at;
        }
        if at % 3 == 2 && db.flush().is_err() {
            return at + 1;
        }
    }
    STEPS.len()
}

/// The table's definition and rows.
fn state(session: &mut Session) -> Vec<String> {
    let mut lines = ask(session, "SHOW CREATE TABLE t").unwrap();
    lines.extend(ask(session, "SELECT * FROM t ORDER BY id").unwrap());
    lines
}

/// The table's state after each number of steps.
fn states() -> Vec<Vec<String>> {
    let (_db, mut session) = open(&prepared(false)).unwrap();
    let mut states = vec![state(&mut session)];
    for step in STEPS {
        ask(&mut session, step).unwrap_or_else(|error| panic!("{step}: {error:?}"));
        states.push(state(&mut session));
    }
    states
}

/// The progress of a build of indexes in the catalog, before SQL resumes the build.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Build {
    /// The catalog knows of no row with entries.
    Begun,
    /// This many rows do not have their entries yet.
    Partly(u64),
    /// All rows have their entries, and the check for duplicates is next.
    Filled,
    /// The build failed, and must be dropped.
    Doomed,
}

impl Build {
    fn of(db: &Database) -> Option<Build> {
        let txn = db.begin(TransactionOptions::new().durability(Durability::Relaxed));
        let catalog = txn.table("sys.catalog").ok()?;
        let notes = KeyRange::new(b"b/", Some(b"b0"));
        let mut notes = txn.scan(catalog, notes, Direction::Forward).unwrap();
        if !notes.advance().unwrap() {
            return None;
        }
        let (doomed, last) = notes.value().split_first().unwrap_or((&0, &[]));
        let mut table = Vec::new();
        assert!(txn.get(catalog, b"t/test/t", &mut table).unwrap(), "a build of no table");
        let table = String::from_utf8(table).unwrap();
        assert!(table.contains("\"becoming\""), "a note of a build that is not there: {table}");
        if *doomed != 0 {
            return Some(Build::Doomed);
        }
        if table.contains("\"filled\":true") {
            return Some(Build::Filled);
        }
        if last.is_empty() {
            return Some(Build::Begun);
        }
        let (_, rows) = txn
            .tables("i/")
            .unwrap()
            .into_iter()
            .find(|(name, _)| name.contains("/rows/"))
            .unwrap();
        let next = successor(last);
        let mut rest = txn.scan(rows, KeyRange::new(&next, None), Direction::Forward).unwrap();
        let mut left = 0;
        while rest.advance().unwrap() {
            left += 1;
        }
        Some(Build::Partly(left))
    }

    /// The commits that complete the build of a statement: one for each batch of rows; for a unique
    /// index, one that records that all rows have their entries; and one that makes the indexes
    /// visible.
    fn commits(self, statement: &str) -> u64 {
        let unique = u64::from(statement.contains("UNIQUE"));
        match self {
            // Steps before have deleted rows, but too few to save a transaction.
            Build::Begun => ROWS.div_ceil(BATCH_ROWS) + unique + 1,
            Build::Partly(left) => left.div_ceil(BATCH_ROWS) + unique + 1,
            Build::Filled | Build::Doomed => 1,
        }
    }
}

/// Commits since the database was opened.
fn commits(db: &Database) -> u64 {
    let metrics = db.metrics();
    metrics.iter().find(|metric| metric.name == "commits_total").unwrap().value as u64
}

/// The result of a check.
struct Found {
    /// The number of steps that took effect.
    happened: usize,
    /// The build that a crash had interrupted, and that the opening resumed and completed.
    resumed: Option<Build>,
}

/// Opens the database and checks it. Every acknowledged step took effect, and at most one more. The
/// opening resumes and completes an interrupted build of indexes. Indexes agree with the rows. No
/// key space, no note of a build and no extent is left over.
fn check(disk: &SimDisk, told: usize, states: &[Vec<String>]) -> Found {
    let at = format!("after {told} steps and {} operations", disk.operations());
    verify_clean(disk, &at);
    let disk = disk.fork();
    let db = open_database(&disk).unwrap();
    let build = Build::of(&db);
    let commits_before = commits(&db);
    let mut session = open_session(&db).unwrap();
    let commits_of_it = commits(&db) - commits_before;
    let found = state(&mut session);
    let happened = (told..states.len().min(told + 2)).find(|at| states[*at] == found);
    let happened = happened.unwrap_or_else(|| panic!("after {told} steps: {}", found[0]));
    let resumed = build.filter(|build| *build != Build::Doomed);
    if let Some(build) = resumed {
        // The build belongs to the last step that took effect.
        let statement = STEPS[happened.checked_sub(1).unwrap()];
        assert!(statement.contains("INDEX"), "{at}: {build:?} was not ended");
        // The opening did the rest of the build, and repeated nothing.
        assert_eq!(commits_of_it, build.commits(statement), "{at}: {build:?} of {statement}");
    }
    let sound = ask(&mut session, "CHECK TABLE t").unwrap();
    assert_eq!(sound, ["test.t check status OK "]);
    let mut indexes: Vec<_> = ask(&mut session, "SHOW INDEX FROM t").unwrap();
    indexes.iter_mut().for_each(|line| *line = line.split(' ').nth(2).unwrap().to_owned());
    indexes.dedup();
    let txn = db.begin(TransactionOptions::new().durability(Durability::Relaxed));
    let names = txn.table_names().unwrap();
    let spaces = names.iter().filter(|name| name.starts_with("i/")).count();
    assert_eq!(spaces, indexes.len(), "{names:?} {indexes:?}");
    drop((txn, session));
    assert_eq!(Build::of(&db), None);
    if looks_closely(disk.operations()) {
        nothing_is_left_over(&disk, db, names.len(), &at);
    }
    Found { happened, resumed }
}

/// Whether a step builds indexes.
fn builds(step: &str) -> bool {
    step.contains("CREATE INDEX") || step.contains("ADD INDEX")
}

/// The numbers of the operations that must fail: those of the sweep among the operations of a run
/// without faults, and all operations of the builds of indexes.
fn failing(prepared: &SimDisk, states: &[Vec<String>], sweep: Sweep) -> Vec<u64> {
    let whole = prepared.fork();
    let first = whole.operations();
    let mut builds_from = Vec::new();
    let mut began = |step: &str| {
        builds_from.extend(builds(step).then(|| whole.operations()));
    };
    assert_eq!(drive_and(&whole, 0, &mut began), STEPS.len());
    assert_eq!(check(&whole, STEPS.len(), states).happened, STEPS.len());
    let last = whole.operations();
    assert!(last > first + 60, "{first} {last}");
    let built = |at: u64| {
        builds_from.iter().any(|from| (1..=BUILD_OPERATIONS).contains(&at.saturating_sub(*from)))
    };
    let failing: Vec<u64> = (first + 1..=last).filter(|at| sweep.has(*at) || built(*at)).collect();
    println!("{} of {} operations", failing.len(), last - first);
    failing
}

#[test]
fn a_crash_at_operation_after_operation_leaves_statements_whole() {
    let states = states();
    let mut resumed = Vec::new();
    for has_tiers in [false, true] {
        let prepared = prepared(has_tiers);
        let sweep = Sweep::of(if has_tiers { 118 } else { 34 });
        for crash_at in failing(&prepared, &states, sweep) {
            let disk = prepared.fork();
            disk.fail_operation(crash_at, Fault::Crash);
            let mut told = drive(&disk, 0);
            for life in 0..2 {
                disk.crash();
                disk.restart();
                let found = check(&disk, told, &states);
                told = found.happened;
                resumed.extend(found.resumed.map(|build| (told, build)));
                // The opening that resumes a build is interrupted too.
                let next = disk.operations() + 1 + (crash_at * 7 + life) % 29;
                disk.fail_operation(next, Fault::Crash);
                told = drive(&disk, told);
            }
            disk.crash();
            disk.restart();
            check(&disk, told, &states);
        }
    }
    resumed.sort_unstable();
    resumed.dedup();
    println!("went on, after which step from where: {resumed:?}");
    for (at, step) in STEPS.iter().enumerate().filter(|(_, step)| builds(step)) {
        let mut from = resumed.iter().filter(|(happened, _)| *happened == at + 1);
        let partly = from.any(|(_, build)| matches!(build, Build::Partly(1..)));
        assert!(partly, "never from the middle of {step}: {resumed:?}");
    }
    assert!(resumed.iter().any(|(_, build)| *build == Build::Filled), "{resumed:?}");
}

/// The disk fails or is full once, and the process is killed. At the next opening, every statement
/// has taken effect completely or not at all.
#[test]
fn a_fault_at_operation_after_operation_leaves_statements_whole() {
    let states = states();
    for has_tiers in [false, true] {
        let prepared = prepared(has_tiers);
        let sweep = Sweep::of(if has_tiers { 238 } else { 66 });
        for at in failing(&prepared, &states, sweep) {
            for fault in [Fault::Io, Fault::Full] {
                let disk = prepared.fork();
                disk.fail_operation(at, fault);
                let told = drive(&disk, 0);
                disk.heal();
                disk.kill();
                let happened = check(&disk, told, &states).happened;
                assert_eq!(drive(&disk, happened), STEPS.len());
                check(&disk, STEPS.len(), &states);
            }
        }
    }
}
