//! Creates, drops, truncates and renames tables, and creates and drops indexes. Each run crashes
//! the disk at another operation. After each crash, the tables match a model of the statements that
//! took effect, and no extent is leaked or lost.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use spillway::{Durability, TransactionOptions};
use spillway_base::rng::Rng;
use spillway_sql::Session;
use spillway_storage::sim::{Fault, SimDisk};

use crate::client::ask;
use crate::extents::{nothing_is_left_over, verify_clean, work};
use crate::sweep::Sweep;
use crate::{machine, open};

/// With their texts, these rows take several extents.
const ROWS: u64 = 240;
const TEXT_BYTES: u64 = 200;

/// A table: its secondary indexes, and `u` of each row by `id`. The `id` determines a row's text.
#[derive(Clone, Default, PartialEq, Debug)]
struct Table {
    indexes: Vec<&'static str>,
    rows: BTreeMap<u64, u64>,
}

type Tables = BTreeMap<&'static str, Table>;

/// A statement, and its effect on the tables.
type Step = (&'static str, fn(&mut Tables));

const STEPS: [Step; 16] = [
    ("CREATE TABLE fresh LIKE t", |tables| {
        let indexes = tables["t"].indexes.clone();
        tables.insert("fresh", Table { indexes, ..Table::default() });
    }),
    ("INSERT INTO fresh SELECT * FROM t WHERE id < 150", |tables| {
        let rows = tables["t"].rows.clone().into_iter().filter(|(id, _)| *id < 150).collect();
        tables.get_mut("fresh").unwrap().rows = rows;
    }),
    ("CREATE INDEX text ON fresh (text, u)", |tables| {
        tables.get_mut("fresh").unwrap().indexes.push("text");
    }),
    ("RENAME TABLE t TO old, fresh TO t", |tables| {
        rename(tables, "t", "old");
        rename(tables, "fresh", "t");
    }),
    ("UPDATE t SET u = u + 1000 WHERE id >= 100", |tables| {
        let rows = tables.get_mut("t").unwrap().rows.range_mut(100..);
        rows.for_each(|(_, row)| *row += 1000);
    }),
    ("DROP TABLE old", |tables| drop(tables.remove("old"))),
    ("CREATE TABLE old (id INT PRIMARY KEY, u INT, text VARCHAR(200))", |tables| {
        tables.insert("old", Table::default());
    }),
    ("INSERT INTO old SELECT id, u, text FROM t WHERE id >= 50", |tables| {
        let rows = tables["t"].rows.clone().split_off(&50);
        tables.get_mut("old").unwrap().rows = rows;
    }),
    ("TRUNCATE TABLE t", |tables| tables.get_mut("t").unwrap().rows.clear()),
    ("INSERT INTO t SELECT id, u, text FROM old WHERE id < 90", |tables| {
        let rows = tables["old"].rows.clone().into_iter().filter(|(id, _)| *id < 90).collect();
        tables.get_mut("t").unwrap().rows = rows;
    }),
    ("DROP INDEX text ON t", |tables| {
        tables.get_mut("t").unwrap().indexes.retain(|name| *name != "text");
    }),
    ("ALTER TABLE old RENAME TO third, ADD UNIQUE INDEX one (u)", |tables| {
        rename(tables, "old", "third");
        tables.get_mut("third").unwrap().indexes.push("one");
    }),
    ("DELETE FROM third WHERE id BETWEEN 60 AND 120", |tables| {
        tables.get_mut("third").unwrap().rows.retain(|id, _| !(60..=120).contains(id));
    }),
    ("OPTIMIZE TABLE third", |_| {}),
    ("TRUNCATE TABLE third", |tables| tables.get_mut("third").unwrap().rows.clear()),
    ("DROP TABLE t, third", |tables| tables.clear()),
];

fn rename(tables: &mut Tables, from: &str, to: &'static str) {
    let table = tables.remove(from).unwrap();
    tables.insert(to, table);
}

/// The texts of rows: random letters, which hardly compress.
static TEXTS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let mut rng = Rng::new(1);
    let mut text = || (0..TEXT_BYTES).map(|_| char::from(b'a' + rng.below(26) as u8)).collect();
    (0..ROWS).map(|_| text()).collect()
});

/// A disk with one table. Most of its rows are fully compacted.
fn prepared(has_tiers: bool) -> SimDisk {
    let disk = machine(9, has_tiers);
    let (db, mut session) = open(&disk).unwrap();
    let table = "CREATE TABLE t (id INT PRIMARY KEY, u INT, text VARCHAR(200), KEY u (u))";
    ask(&mut session, table).unwrap();
    for first in (0..ROWS).step_by(80) {
        let row = |id: u64| format!("({id}, {id}, '{}')", TEXTS[id as usize]);
        let rows: Vec<_> = (first..first + 80).map(row).collect();
        ask(&mut session, &format!("INSERT INTO t VALUES {}", rows.join(","))).unwrap();
        if first == 80 {
            db.compact().unwrap();
            work(&db);
        }
    }
    drop(session);
    db.close().unwrap();
    disk
}

/// The tables after each number of steps.
fn states() -> Vec<Tables> {
    let rows = (0..ROWS).map(|id| (id, id)).collect();
    let mut states = vec![Tables::from([("t", Table { indexes: vec!["u"], rows })])];
    for (_, change) in STEPS {
        let mut next = states.last().unwrap().clone();
        change(&mut next);
        states.push(next);
    }
    states
}

/// Takes steps until the disk fails. Returns how many were acknowledged.
fn drive(disk: &SimDisk, from: usize) -> usize {
    let Ok((db, mut session)) = open(disk) else { return from };
    for (at, (step, _)) in STEPS.iter().enumerate().skip(from) {
        if ask(&mut session, step).is_err() {
            return at;
        }
        // So the files hold rows of dropped tables and of their successors.
        if at % 3 == 1 && db.flush().is_err() {
            return at + 1;
        }
        for _ in 0..3 {
            let _ = db.run_background_job();
        }
        if at % 5 == 4 && db.compact().is_err() {
            return at + 1;
        }
    }
    STEPS.len()
}

/// Whether the tables match the model.
fn is_as(session: &mut Session, tables: &Tables) -> bool {
    let there = ask(session, "SHOW TABLES").unwrap();
    let names = there.iter().map(|line| line.trim());
    if !names.eq(tables.keys().copied()) {
        return false;
    }
    tables.iter().all(|(name, table)| {
        let line = |(id, u): (&u64, &u64)| format!("{id} {u} {} ", TEXTS[*id as usize]);
        let rows = ask(session, &format!("SELECT id, u, text FROM {name} ORDER BY id")).unwrap();
        let mut indexes = ask(session, &format!("SHOW INDEX FROM {name}")).unwrap();
        indexes.iter_mut().for_each(|line| *line = line.split(' ').nth(2).unwrap().to_owned());
        indexes.dedup();
        indexes.retain(|index| index != "PRIMARY");
        indexes.sort_unstable();
        let mut named = table.indexes.clone();
        named.sort_unstable();
        indexes == named && rows.into_iter().eq(table.rows.iter().map(line))
    })
}

/// Verifies the files, opens the database, and checks all tables. Every acknowledged step took
/// effect, and at most one more. Returns how many took effect.
fn check(disk: &SimDisk, told: usize, states: &[Tables], at: &str) -> usize {
    verify_clean(disk, at);
    let disk = disk.fork();
    let (db, mut session) = open(&disk).unwrap();
    let may_be = told..states.len().min(told + 2);
    let happened = may_be.rev().find(|steps| is_as(&mut session, &states[*steps]));
    let happened = happened.unwrap_or_else(|| {
        panic!("{at}, after {told} steps: {:?}", ask(&mut session, "SHOW TABLES").unwrap())
    });
    let tables = &states[happened];
    for name in tables.keys() {
        let sound = ask(&mut session, &format!("CHECK TABLE {name}")).unwrap();
        assert_eq!(sound, [format!("test.{name} check status OK ")], "{at}");
    }
    // Each table has a key space for its rows and one for each index.
    let txn = db.begin(TransactionOptions::new().durability(Durability::Relaxed));
    let names = txn.table_names().unwrap();
    drop(txn);
    let spaces: usize = tables.values().map(|table| 1 + table.indexes.len()).sum();
    let named = names.iter().filter(|name| name.starts_with("i/")).count();
    assert_eq!(named, spaces, "{at}: {names:?}");
    drop(session);
    nothing_is_left_over(&disk, db, names.len(), at);
    happened
}

/// The first and last operation of the steps in a run without faults.
fn operations(prepared: &SimDisk, states: &[Tables]) -> (u64, u64) {
    let whole = prepared.fork();
    let first = whole.operations();
    assert_eq!(drive(&whole, 0), STEPS.len());
    assert_eq!(check(&whole, STEPS.len(), states, "no crash"), STEPS.len());
    let last = whole.operations();
    assert!(last > first + 150, "{first} {last}");
    println!("{} operations", last - first);
    (first, last)
}

#[test]
fn a_crash_at_operation_after_operation_leaks_and_loses_no_extent() {
    let states = states();
    for has_tiers in [false, true] {
        let prepared = prepared(has_tiers);
        let (first, last) = operations(&prepared, &states);
        let sweep = Sweep::of(31);
        for crash_at in (first + 1..=last).filter(|at| sweep.has(*at)) {
            let disk = prepared.fork();
            disk.fail_operation(crash_at, Fault::Crash);
            let mut told = drive(&disk, 0);
            for life in 0..2 {
                disk.crash();
                disk.restart();
                let at = format!("crash at {}, life {life}, tiers {has_tiers}", crash_at - first);
                told = check(&disk, told, &states, &at);
                // The next opening, or a step after it, is interrupted too.
                let next = disk.operations() + 1 + (crash_at * 7 + life) % 41;
                disk.fail_operation(next, Fault::Crash);
                told = drive(&disk, told);
            }
        }
    }
}

/// The disk fails or is full once, and the process is killed. The next opening takes the remaining
/// steps.
#[test]
fn a_fault_at_operation_after_operation_leaks_and_loses_no_extent() {
    let states = states();
    for has_tiers in [false, true] {
        let prepared = prepared(has_tiers);
        let (first, last) = operations(&prepared, &states);
        let sweep = Sweep::of(121);
        for crash_at in (first + 1..=last).filter(|at| sweep.has(*at)) {
            for fault in [Fault::Io, Fault::ShortWrite, Fault::Full] {
                let disk = prepared.fork();
                disk.fail_operation(crash_at, fault);
                let told = drive(&disk, 0);
                disk.heal();
                disk.kill();
                let at = format!("{fault:?} at {}, tiers {has_tiers}", crash_at - first);
                let happened = check(&disk, told, &states, &at);
                assert_eq!(drive(&disk, happened), STEPS.len(), "{at}");
                check(&disk, STEPS.len(), &states, &at);
            }
        }
    }
}
