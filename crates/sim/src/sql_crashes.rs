//! Runs transfers between accounts in SQL, with ALTER TABLE and deletions of ranges in between.
//! Each run crashes the disk at another operation.

use spillway::{Durability, TransactionOptions};
use spillway_base::rng::Rng;
use spillway_sql::{Outcome, ResultColumn, ResultSink, Session, SqlError};
use spillway_storage::sim::{Fault, SimDisk};
use spillway_types::ValueRef;
use spillway_types::convert::to_i128;

use crate::extents::{looks_closely, nothing_is_left_over, verify_clean};
use crate::sweep::Sweep;
use crate::{machine, open, open_session};

const ACCOUNTS: u64 = 8;

/// Collects the numbers of a result.
#[derive(Default)]
struct Numbers(Vec<Vec<i128>>);

impl ResultSink for Numbers {
    fn columns(&mut self, _: &[ResultColumn]) -> Result<(), SqlError> {
        self.0.clear();
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError> {
        self.0.push(values.iter().map(|value| to_i128(value).unwrap_or(-1)).collect());
        Ok(())
    }

    fn end_rows(&mut self, _: &Outcome) -> Result<(), SqlError> {
        Ok(())
    }

    fn ok(&mut self, _: &Outcome) -> Result<(), SqlError> {
        Ok(())
    }
}

fn ask(session: &mut Session, sql: &str) -> Result<Vec<Vec<i128>>, SqlError> {
    let mut numbers = Numbers::default();
    session.query(sql, &mut numbers)?;
    Ok(numbers.0)
}

/// The results that clients have received.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
struct Told {
    /// The number of acknowledged transfers.
    done: u64,
    /// The largest AUTO_INCREMENT value.
    ticket: i128,
}

/// Inserts and deletes a row with an AUTO_INCREMENT value, which must be new.
fn take_ticket(session: &mut Session, told: &mut Told) -> Result<(), SqlError> {
    let number = ask(session, "INSERT INTO ticket VALUES (); SELECT LAST_INSERT_ID()")?[0][0];
    assert!(number > told.ticket, "{number} was given again: {} was", told.ticket);
    told.ticket = number;
    ask(session, "DELETE FROM ticket").map(drop)
}

/// The number of rows of the table `heap`, which are inserted and deleted together.
const HEAP: i128 = 100;

/// Fills the heap, or deletes all its rows as one range.
fn turn_heap(session: &mut Session) -> Result<(), SqlError> {
    if ask(session, "SELECT COUNT(*) FROM heap")?[0][0] > 0 {
        return ask(session, "DELETE FROM heap WHERE id >= 0").map(drop);
    }
    let rows: Vec<String> = (0..HEAP).map(|id| format!("({id})")).collect();
    ask(session, &format!("INSERT INTO heap VALUES {}", rows.join(","))).map(drop)
}

/// Runs transfers until the disk fails. Returns everything that was acknowledged so far.
fn drive(disk: &SimDisk, seed: u64, mut told: Told, steps: u64) -> Told {
    let Ok((db, mut session)) = open(disk) else { return told };
    let mut rng = Rng::new(seed);
    let set_up = || -> Result<(), SqlError> {
        let mut session = open_session(&db)?;
        ask(
            &mut session,
            "CREATE TABLE IF NOT EXISTS account (id INT PRIMARY KEY, cents INT NOT NULL, KEY (cents))",
        )?;
        ask(&mut session, "CREATE TABLE IF NOT EXISTS done (n INT PRIMARY KEY)")?;
        ask(&mut session, "CREATE TABLE IF NOT EXISTS heap (id INT PRIMARY KEY)")?;
        let ticket = "CREATE TABLE IF NOT EXISTS ticket (id INT AUTO_INCREMENT PRIMARY KEY)";
        ask(&mut session, ticket)?;
        let rows: Vec<String> = (0..ACCOUNTS).map(|id| format!("({id}, 100)")).collect();
        ask(
            &mut session,
            &format!("INSERT IGNORE INTO account (id, cents) VALUES {}", rows.join(",")),
        )?;
        Ok(())
    };
    if told.done == 0 && set_up().is_err() {
        return told;
    }
    drop(std::mem::replace(
        &mut session,
        match open_session(&db) {
            Ok(session) => session,
            Err(_) => return told,
        },
    ));
    for _ in 0..steps {
        let (from, to, cents) = (rng.below(ACCOUNTS), rng.below(ACCOUNTS), rng.below(20));
        let transfer = format!(
            "BEGIN; UPDATE account SET cents = cents - {cents} WHERE id = {from}; \
             UPDATE account SET cents = cents + {cents} WHERE id = {to}; INSERT INTO done VALUES ({}); COMMIT",
            told.done + 1
        );
        if ask(&mut session, &transfer).is_err() {
            return told;
        }
        told.done += 1;
        if rng.chance(1, 4) && take_ticket(&mut session, &mut told).is_err() {
            return told;
        }
        if rng.chance(1, 4) && turn_heap(&mut session).is_err() {
            return told;
        }
        // Changes the order of columns, by a copy of the table or instantly.
        let place = if rng.chance(1, 2) { "FIRST" } else { "AFTER id" };
        let how = if rng.chance(1, 2) { "COPY" } else { "INSTANT" };
        let alter =
            format!("ALTER TABLE account MODIFY cents INT NOT NULL {place}, ALGORITHM={how}");
        if rng.chance(1, 8) && ask(&mut session, &alter).is_err() {
            return told;
        }
        if rng.chance(1, 6) && db.flush().is_err() {
            return told;
        }
        if rng.chance(1, 3) {
            let _ = db.run_background_job();
        }
    }
    told
}

/// Checks the guarantees that a client relies on: the sum is conserved, indexes agree with rows,
/// every acknowledged transfer and at most one more is there, and no AUTO_INCREMENT value occurs
/// twice. Returns the results that the database has now.
fn check(disk: &SimDisk, told: Told) -> Told {
    let at = format!("{told:?}, after {} operations", disk.operations());
    verify_clean(disk, &at);
    let disk = disk.fork();
    let (db, mut session) = open(&disk).unwrap();
    let tables = ask(&mut session, "SHOW TABLES").unwrap().len();
    if tables < 4 {
        assert_eq!(told.done, 0);
        return told;
    }
    let count = ask(&mut session, "SELECT COUNT(*), COALESCE(MAX(n), 0) FROM done").unwrap();
    assert_eq!(count[0][0], count[0][1], "a transfer in the middle is missing");
    let there = u64::try_from(count[0][0]).unwrap();
    assert!((told.done..=told.done + 1).contains(&there), "{there}, not {}", told.done);
    let heap = ask(&mut session, "SELECT COUNT(*), COALESCE(SUM(id), 0) FROM heap").unwrap();
    let whole = vec![HEAP, HEAP * (HEAP - 1) / 2];
    assert!(heap[0] == [0, 0] || heap[0] == whole, "a part of the heap came or went: {heap:?}");
    // Four tables and one index: an interrupted ALTER TABLE leaves no key space.
    let newest = TransactionOptions::new().durability(Durability::Relaxed);
    let names = db.begin(newest).table_names().unwrap();
    assert_eq!(names.iter().filter(|name| name.starts_with("i/")).count(), 5, "{names:?}");
    let accounts = ask(&mut session, "SELECT id, cents FROM account ORDER BY id").unwrap();
    if !accounts.is_empty() {
        assert_eq!(accounts.iter().map(|row| row[1]).sum::<i128>(), 100 * i128::from(ACCOUNTS));
        for row in &accounts {
            let sql = format!("SELECT id FROM account WHERE cents = {}", row[1]);
            assert!(
                ask(&mut session, &sql).unwrap().contains(&vec![row[0]]),
                "the index lost {row:?}"
            );
        }
    }
    take_ticket(&mut session, &mut told.clone()).unwrap();
    drop(session);
    if looks_closely(disk.operations()) {
        nothing_is_left_over(&disk, db, names.len(), &at);
    }
    Told { done: there, ..told }
}

/// The seeds of a run: `SPILLWAY_ROUNDS` of them (1 by default), from `SPILLWAY_SEED` on.
fn seeds() -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let first = number("SPILLWAY_SEED").unwrap_or(4);
    first..first + number("SPILLWAY_ROUNDS").unwrap_or(1)
}

/// Every other machine has devices of several classes.
fn has_tiers(at: u64) -> bool {
    at.is_multiple_of(2)
}

/// The operations of a history that the sweep fails: all of them, or some in a run of one seed.
fn operations(seed: u64) -> impl Iterator<Item = u64> {
    let whole = machine(0, false);
    let told = drive(&whole, seed, Told::default(), 25);
    assert!(told.done == 25 && told.ticket > 1, "{told:?}");
    check(&whole, told);
    let operations = whole.operations();
    assert!(operations > 100, "{operations}");
    println!("seed {seed}: {operations} operations");
    let sweep = Sweep::of(9);
    (1..=operations).filter(move |at| sweep.has(*at))
}

#[test]
fn a_crash_at_operation_after_operation_keeps_what_clients_rely_on() {
    for seed in seeds() {
        for crash_at in operations(seed) {
            let disk = machine(crash_at, has_tiers(crash_at));
            disk.fail_operation(crash_at, Fault::Crash);
            let mut told = drive(&disk, seed, Told::default(), 25);
            for life in 0..2 {
                disk.crash();
                disk.restart();
                told = check(&disk, told);
                disk.fail_operation(disk.operations() + 20 + crash_at % 31, Fault::Crash);
                told = drive(&disk, seed + 1 + life, told, 10);
            }
        }
    }
}

/// The disk fails or is full at operation after operation, and the process is killed. The contents
/// that the next opening finds are durable, even if the machine crashes right after it.
#[test]
fn a_fault_at_operation_after_operation_and_a_kill_keep_what_clients_rely_on() {
    for seed in seeds() {
        for at in operations(seed) {
            for fault in [Fault::Io, Fault::ShortWrite, Fault::Full] {
                let disk = machine(at, has_tiers(at));
                disk.fail_operation(at, fault);
                let told = drive(&disk, seed, Told::default(), 25);
                disk.heal();
                disk.kill();
                let there = check(&disk, told);
                // Opens the database without running transfers.
                let opened = Told { done: there.done.max(1), ..there };
                assert_eq!(drive(&disk, seed, opened, 0), opened);
                disk.crash();
                disk.restart();
                assert_eq!(check(&disk, there), there, "{fault:?} at {at}");
            }
        }
    }
}
