//! A table that is altered instantly and indexed online, with the disk crashed at operation after operation: each statement happened or
//! not, an index that was being built is whole or gone, and nothing is left over.

use spillway::{Direction, Durability, KeyRange, TransactionOptions};
use spillway_sql::Session;
use spillway_storage::sim::{Fault, SimDisk};

use crate::client::ask;
use crate::extents::{looks_closely, nothing_is_left_over, verify_clean};
use crate::{machine, open};

/// More than are given entries in one transaction.
const ROWS: u64 = 2100;

/// Each is one transaction, or a statement that changes the table.
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

/// A disk with the table, before all steps.
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

/// Takes steps until the disk stops them. Answers how many were acknowledged.
fn drive(disk: &SimDisk, from: usize) -> usize {
    let Ok((db, mut session)) = open(disk) else { return from };
    for (at, step) in STEPS.iter().enumerate().skip(from) {
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

/// What is there after each number of steps.
fn states() -> Vec<Vec<String>> {
    let (_db, mut session) = open(&prepared(false)).unwrap();
    let mut states = vec![state(&mut session)];
    for step in STEPS {
        ask(&mut session, step).unwrap_or_else(|error| panic!("{step}: {error:?}"));
        states.push(state(&mut session));
    }
    states
}

/// Opens what is there. Every acknowledged step happened, and at most one more; indexes have what the rows say; and neither a
/// key space nor a note of a build nor an extent is left over. Answers how many steps happened.
fn check(disk: &SimDisk, told: usize, states: &[Vec<String>]) -> usize {
    let at = format!("after {told} steps and {} operations", disk.operations());
    verify_clean(disk, &at);
    let disk = disk.fork();
    let (db, mut session) = open(&disk).unwrap();
    let found = state(&mut session);
    let happened = (told..states.len().min(told + 2)).find(|at| states[*at] == found);
    let happened = happened.unwrap_or_else(|| panic!("after {told} steps: {}", found[0]));
    let sound = ask(&mut session, "CHECK TABLE t").unwrap();
    assert_eq!(sound, ["test.t check status OK "]);
    let mut indexes: Vec<_> = ask(&mut session, "SHOW INDEX FROM t").unwrap();
    indexes.iter_mut().for_each(|line| *line = line.split(' ').nth(2).unwrap().to_owned());
    indexes.dedup();
    let txn = db.begin(TransactionOptions::new().durability(Durability::Relaxed));
    let names = txn.table_names().unwrap();
    let spaces = names.iter().filter(|name| name.starts_with("i/")).count();
    assert_eq!(spaces, indexes.len(), "{names:?} {indexes:?}");
    let range = KeyRange::new(b"b/", Some(b"b0"));
    let mut notes = txn.scan(txn.table("sys.catalog").unwrap(), range, Direction::Forward).unwrap();
    assert!(!notes.advance().unwrap());
    drop(notes);
    drop((txn, session));
    if looks_closely(disk.operations()) {
        nothing_is_left_over(&disk, db, names.len(), &at);
    }
    happened
}

/// Faults are at every fifth operation in a run of one round, and at fewer with tiers, or at every one.
fn stride(has_tiers: bool) -> usize {
    let rounds = std::env::var("SPILLWAY_ROUNDS").ok().and_then(|value| value.parse().ok());
    let of_one_round = if has_tiers { 29 } else { 5 };
    if rounds.unwrap_or(1) > 1 { 1 } else { of_one_round }
}

/// The operations that the steps take on a disk that stays whole.
fn operations(prepared: &SimDisk, states: &[Vec<String>]) -> (u64, u64) {
    let whole = prepared.fork();
    let first = whole.operations();
    assert_eq!(drive(&whole, 0), STEPS.len());
    assert_eq!(check(&whole, STEPS.len(), states), STEPS.len());
    let last = whole.operations();
    assert!(last > first + 60, "{first} {last}");
    println!("{} operations", last - first);
    (first, last)
}

#[test]
fn a_crash_at_operation_after_operation_leaves_statements_whole() {
    let states = states();
    let mut resumed = 0;
    for has_tiers in [false, true] {
        let prepared = prepared(has_tiers);
        let (first, last) = operations(&prepared, &states);
        for crash_at in (first + 1..=last).step_by(stride(has_tiers)) {
            let disk = prepared.fork();
            disk.fail_operation(crash_at, Fault::Crash);
            let mut told = drive(&disk, 0);
            for life in 0..2 {
                disk.crash();
                disk.restart();
                let happened = check(&disk, told, &states);
                resumed += u64::from(happened > told && STEPS[told].contains("INDEX"));
                // The opening that goes on with a build is cut off, too.
                told = happened;
                let next = disk.operations() + 1 + (crash_at * 7 + life) % 29;
                disk.fail_operation(next, Fault::Crash);
                told = drive(&disk, told);
            }
            disk.crash();
            disk.restart();
            check(&disk, told, &states);
        }
    }
    assert!(resumed > 0);
}

/// The disk fails or is full once, the process is killed, and the next opening finds statements whole.
#[test]
fn a_fault_at_operation_after_operation_leaves_statements_whole() {
    let states = states();
    for has_tiers in [false, true] {
        let prepared = prepared(has_tiers);
        let (first, last) = operations(&prepared, &states);
        for at in (first + 1..=last).step_by(2 * stride(has_tiers)) {
            for fault in [Fault::Io, Fault::Full] {
                let disk = prepared.fork();
                disk.fail_operation(at, fault);
                let told = drive(&disk, 0);
                disk.heal();
                disk.kill();
                let happened = check(&disk, told, &states);
                assert_eq!(drive(&disk, happened), STEPS.len());
                check(&disk, STEPS.len(), &states);
            }
        }
    }
}
