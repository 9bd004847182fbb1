//! Checks that histories of many clients, with crashes of the machine in between, are strictly
//! serializable.
//!
//! The method is Elle's (Kingsbury and Alvaro, "Elle: inferring isolation anomalies from
//! experimental observations", VLDB 2020). A transaction reads lists and appends numbers to them.
//! No number is appended twice. So the final lists show the order in which the numbers were
//! appended, and each read shows which of them it saw. From this the checker derives pairs of
//! transactions of which one must *precede* the other in any serial order:
//!
//! - the writer of a number precedes the writer of the next number in the same list;
//! - the writer of the last number that a read returned precedes the reader, and the reader
//!   precedes the writer of the next number;
//! - a transaction precedes every transaction that began once it had been acknowledged.
//!
//! If these pairs form no cycle, there is a serial order that explains all results.
//!
//! Snapshot isolation allows cycles of one kind: they contain two consecutive pairs that each lead
//! from a reader to the writer of a number that the reader did not see (Cerone and Gotsman,
//! "Analysing snapshot isolation", JACM 2018). The check of snapshot isolation therefore leaves out
//! every pair (R, W) from a reader R to the writer W of a number that R did not see. Instead, for
//! every pair (P, R) of another kind, it adds the pair (P, W). The remaining and the added pairs
//! must form no cycle.
//!
//! In addition, no number of an acknowledged transaction may be missing, no number of a refused
//! transaction may be in a list, and every read must return a prefix of the final list.
//!
//! The clients are threads, and the database has threads of its own, so two runs with the same seed
//! may have different histories. The checks hold for every history, so the tests need no particular
//! one.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use spillway_base::EngineKind;
use spillway_base::rng::Rng;
use spillway_base::thread::together;
use spillway_storage::sim::{Fault, SimDisk};

use crate::{
    Database, ErrorKind, Isolation, LockMode, LockWait, Settings, Table, Transaction,
    TransactionOptions,
};

type Key = u8;
type List = Vec<u32>;

const KEYS: u64 = 6;
const CLIENTS: usize = 4;
/// The rounds of a test. It runs more, up to the second number, until it has seen what it needs.
const ROUNDS: u64 = 12;
const ROUNDS_MAX: u64 = 200;

/// A client's knowledge of a transaction's end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Acknowledged,
    Refused,
    /// The database ended during the commit.
    Unknown,
}

/// A transaction as its client saw it.
#[derive(Clone, Debug)]
struct Seen {
    began: u64,
    ended: u64,
    end: End,
    reads: Vec<(Key, List)>,
    appends: Vec<(Key, u32)>,
}

fn decode(value: &[u8]) -> List {
    let (numbers, rest) = value.as_chunks::<4>();
    assert!(rest.is_empty());
    numbers.iter().map(|number| u32::from_le_bytes(*number)).collect()
}

fn encode(list: &[u32]) -> Vec<u8> {
    list.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Runs one transaction's operations. Its own appends are left out of its reads.
fn run(
    txn: &Transaction,
    table: Lists,
    rng: &mut Rng,
    numbers: &AtomicU64,
    seen: &mut Seen,
) -> crate::Result<()> {
    let mut value = Vec::new();
    for _ in 0..=rng.below(3) {
        let key = rng.below(KEYS) as Key;
        if seen.appends.iter().any(|(own, _)| *own == key) {
            continue;
        }
        txn.get(table.of(key), &[key], &mut value)?;
        let mut list = decode(&value);
        seen.reads.push((key, list.clone()));
        if rng.chance(1, 2) {
            let number = numbers.fetch_add(1, Ordering::Relaxed) as u32;
            list.push(number);
            txn.put(table.of(key), &[key], &encode(&list))?;
            seen.appends.push((key, number));
        }
    }
    Ok(())
}

/// As [`run`], with reads of two kinds: plain ones, and those that lock a list and append to it. A
/// plain read first makes the snapshot older than lists that are locked later, so that it has to
/// move forward. Returns whether it did.
fn run_locking(
    db: &Database,
    txn: &Transaction,
    (table, own): (Lists, Key),
    rng: &mut Rng,
    numbers: &AtomicU64,
    seen: &mut Seen,
) -> crate::Result<bool> {
    let mut value = Vec::new();
    let mut later = None;
    for step in 0..2 + rng.below(3) {
        let key = rng.below(KEYS) as Key;
        if seen.appends.iter().any(|(own, _)| *own == key) {
            continue;
        }
        if step == 0 || rng.chance(1, 3) {
            txn.get(table.of(key), &[key], &mut value)?;
            seen.reads.push((key, decode(&value)));
            if step == 0 && rng.chance(1, 2) {
                let other = db.begin(TransactionOptions::new());
                other.put(table.of(own), &[KEYS as Key + own], b"later")?;
                later = Some(other.commit().wait()?);
            }
            continue;
        }
        let (mode, wait) = (LockMode::Exclusive, LockWait::Wait);
        txn.get_locked(table.of(key), &[key], mode, wait, &mut value)?;
        let mut list = decode(&value);
        seen.reads.push((key, list.clone()));
        let number = numbers.fetch_add(1, Ordering::Relaxed) as u32;
        list.push(number);
        txn.put(table.of(key), &[key], &encode(&list))?;
        seen.appends.push((key, number));
    }
    Ok(later.is_some_and(|later| txn.sees(later)))
}

/// The state that clients of a history share.
struct Run<'r> {
    db: &'r Database,
    table: Lists,
    isolation: Isolation,
    /// If clients lock the lists to which they append: how often a snapshot has moved forward.
    locking: Option<&'r AtomicU64>,
    clock: &'r AtomicU64,
    numbers: &'r AtomicU64,
}

/// One client, until the database ends or all its transactions are done.
fn client(of: &Run<'_>, number: Key, seed: u64) -> Vec<Seen> {
    let Run { db, table, isolation, locking, clock, numbers } = *of;
    let mut rng = Rng::new(seed);
    let mut all = Vec::new();
    for _ in 0..120 {
        let began = clock.fetch_add(1, Ordering::SeqCst);
        let mut seen =
            Seen { began, ended: 0, end: End::Refused, reads: Vec::new(), appends: Vec::new() };
        let txn = db.begin(TransactionOptions::new().isolation(isolation));
        let ran = match locking {
            None => run(&txn, table, &mut rng, numbers, &mut seen),
            Some(moved) => {
                let own = (table, number);
                let ran = run_locking(db, &txn, own, &mut rng, numbers, &mut seen);
                ran.map(|has| {
                    moved.fetch_add(u64::from(has), Ordering::Relaxed);
                })
            }
        };
        let outcome = match ran {
            Ok(()) => txn.commit().wait().map(drop),
            Err(error) => {
                txn.rollback();
                Err(error)
            }
        };
        seen.ended = clock.fetch_add(1, Ordering::SeqCst);
        let gone = match outcome.map_err(|error| error.kind()) {
            Ok(()) => {
                seen.end = End::Acknowledged;
                false
            }
            Err(
                ErrorKind::WriteConflict | ErrorKind::Deadlock | ErrorKind::SerializationFailure,
            ) => false,
            Err(_) => {
                seen.end = End::Unknown;
                true
            }
        };
        all.push(seen);
        if gone {
            break;
        }
    }
    all
}

fn settings(lanes: usize) -> Settings {
    Settings {
        memory_bytes: 16 << 20,
        log_segment_bytes: 64 << 10,
        slot_bytes: 16 << 10,
        log_lanes: Some(lanes),
        recovery_threads: 2,
        ..Settings::default()
    }
}

fn open(disk: &SimDisk, lanes: usize) -> Database {
    Database::open_on(Arc::new(disk.clone()), "/db", settings(lanes)).unwrap()
}

/// The lists: those of even and of odd keys have a table each.
#[derive(Clone, Copy)]
struct Lists([Table; 2]);

impl Lists {
    fn of(self, key: Key) -> Table {
        self.0[usize::from(key % 2)]
    }
}

/// The tables, which are made if they do not exist, of engines that depend on the seed.
fn table(db: &Database, seed: u64) -> Lists {
    let txn = db.begin(TransactionOptions::new());
    let made = [("even", seed % 2), ("odd", seed / 2 % 2)].map(|(name, engine)| {
        let found = txn.table(name);
        found.or_else(|_| txn.create_table(name, EngineKind::ALL[engine as usize])).unwrap()
    });
    txn.commit().wait().unwrap();
    Lists(made)
}

fn lists(db: &Database, seed: u64) -> BTreeMap<Key, List> {
    let table = table(db, seed);
    let txn = db.begin(TransactionOptions::new());
    let mut value = Vec::new();
    let mut list = |key| {
        txn.get(table.of(key), &[key], &mut value).unwrap();
        (key, decode(&value))
    };
    (0..KEYS as Key).map(&mut list).collect()
}

/// Several lives of a database, each ended by a crash of the machine. Returns the clients'
/// observations and the final contents.
fn record(
    seed: u64,
    isolation: Isolation,
    locking: Option<&AtomicU64>,
) -> (Vec<Seen>, BTreeMap<Key, List>) {
    let disk = SimDisk::new(seed);
    let (clock, numbers) = (AtomicU64::new(0), AtomicU64::new(1));
    let mut all = Vec::new();
    for life in 0..3 {
        let db = open(&disk, 1 + (seed + life) as usize % 4);
        let table = table(&db, seed);
        disk.fail_operation(disk.operations() + 40 + seed * 31 % 400, Fault::Crash);
        let seen = gather(CLIENTS, |number| {
            let seed = seed * 1000 + life * 10 + number as u64;
            let (clock, numbers) = (&clock, &numbers);
            let run = Run { db: &db, table, isolation, locking, clock, numbers };
            client(&run, number as Key, seed)
        });
        all.extend(seen);
        drop(db);
        disk.crash();
        disk.restart();
    }
    (all, lists(&open(&disk, 2), seed))
}

/// Runs a client in each of this many threads, and collects their observations.
fn gather(threads: usize, body: impl Fn(usize) -> Vec<Seen> + Sync) -> Vec<Seen> {
    let (tell, told) = std::sync::mpsc::channel();
    together(threads, |number| tell.clone().send(body(number)).expect("somebody listens"));
    drop(tell);
    told.iter().flatten().collect()
}

/// The first observation that no serial order explains, as text.
fn check(history: &[Seen], lists: &BTreeMap<Key, List>) -> Result<(), String> {
    check_for(history, lists, Isolation::Serializable)
}

/// The first observation that an isolation level does not allow, as text.
fn check_for(
    history: &[Seen],
    lists: &BTreeMap<Key, List>,
    isolation: Isolation,
) -> Result<(), String> {
    let mut writer: HashMap<u32, usize> = HashMap::new();
    for (index, seen) in history.iter().enumerate() {
        writer.extend(seen.appends.iter().map(|(_, number)| (*number, index)));
    }
    let mut there = vec![false; history.len()];
    for (key, list) in lists {
        for number in list {
            let index = *writer.get(number).ok_or(format!("{number} of {key} is nobody's"))?;
            if history[index].end == End::Refused {
                return Err(format!("{number} of {key} was refused, and is there"));
            }
            there[index] = true;
        }
    }
    let counts = history.iter().enumerate().filter(|(index, seen)| {
        seen.end == End::Acknowledged || (seen.end == End::Unknown && there[*index])
    });
    let counts: Vec<usize> = counts.map(|(index, _)| index).collect();
    let mut edges: Vec<(usize, usize)> = Vec::new();
    // From each reader to the writer of data that it did not see.
    let mut unseen: Vec<(usize, usize)> = Vec::new();
    for &index in &counts {
        let seen = &history[index];
        for (key, number) in &seen.appends {
            if !lists[key].contains(number) {
                return Err(format!("{number} of {key} is missing: {seen:?}"));
            }
        }
        for (key, read) in &seen.reads {
            let list = &lists[key];
            if !list.starts_with(read) {
                return Err(format!("{seen:?} read no prefix of {list:?}"));
            }
            edges.extend(read.last().map(|last| (writer[last], index)));
            let next = list[read.len()..].iter().map(|number| writer[number]);
            unseen.extend(next.filter(|next| *next != index).take(1).map(|next| (index, next)));
        }
    }
    for list in lists.values() {
        edges.extend(list.windows(2).map(|pair| (writer[&pair[0]], writer[&pair[1]])));
    }
    // Time is a chain of nodes after the transactions: from an end to the next beginnings.
    let mut times: Vec<(u64, bool, usize)> = Vec::new();
    for &index in &counts {
        times.push((history[index].began, true, index));
        if history[index].end == End::Acknowledged {
            times.push((history[index].ended, false, index));
        }
    }
    times.sort_unstable();
    for (position, (_, begins, index)) in times.iter().enumerate() {
        let node = history.len() + position;
        edges.push(if *begins { (node, *index) } else { (*index, node) });
        if position + 1 < times.len() {
            edges.push((node, node + 1));
        }
    }
    edges.retain(|(from, to)| from != to);
    if isolation == Isolation::Serializable {
        edges.extend(unseen);
    } else {
        let mut after: HashMap<usize, Vec<usize>> = HashMap::new();
        unseen.iter().for_each(|(reader, writer)| after.entry(*reader).or_default().push(*writer));
        let joined = edges.iter().flat_map(|(from, reader)| {
            after.get(reader).into_iter().flatten().map(|writer| (*from, *writer))
        });
        let joined: Vec<_> = joined.collect();
        edges.extend(joined);
    }
    acyclic(history.len() + times.len(), &edges)
        .map_err(|left| format!("a cycle among {left:?}"))
        .map_err(|text| text.chars().take(2000).collect())
}

/// Removes nodes without predecessors; the remaining ones are on a cycle or after one.
fn acyclic(nodes: usize, edges: &[(usize, usize)]) -> Result<(), Vec<usize>> {
    let (mut before, mut after) = (vec![0; nodes], vec![Vec::new(); nodes]);
    for &(from, to) in edges {
        before[to] += 1;
        after[from].push(to);
    }
    let mut free: Vec<usize> = (0..nodes).filter(|node| before[*node] == 0).collect();
    while let Some(node) = free.pop() {
        for &next in &after[node] {
            before[next] -= 1;
            if before[next] == 0 {
                free.push(next);
            }
        }
    }
    let left: Vec<usize> = (0..nodes).filter(|node| before[*node] > 0).collect();
    if left.is_empty() { Ok(()) } else { Err(left) }
}

#[test]
fn d12_serializable_histories_have_an_order_also_over_crashes() {
    let rounds = std::env::var("SPILLWAY_ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    let (mut acknowledged, mut unknown) = (0, 0);
    let has_enough = |acknowledged, unknown| acknowledged > 500 && unknown > 10;
    for seed in 0..rounds.unwrap_or(ROUNDS_MAX) {
        if rounds.is_none() && seed >= ROUNDS && has_enough(acknowledged, unknown) {
            break;
        }
        let (history, lists) = record(seed, Isolation::Serializable, None);
        acknowledged += history.iter().filter(|seen| seen.end == End::Acknowledged).count();
        unknown += history.iter().filter(|seen| seen.end == End::Unknown).count();
        if let Err(anomaly) = check(&history, &lists) {
            panic!("seed {seed}: {anomaly}");
        }
    }
    assert!(has_enough(acknowledged, unknown), "{acknowledged} acknowledged, {unknown} unknown");
}

/// The same histories under snapshot isolation have write skew, and the checker finds it.
#[test]
fn the_checker_finds_write_skew_under_snapshot_isolation() {
    let found = (0..40).any(|seed| {
        let (history, lists) = record(seed, Isolation::RepeatableRead, None);
        check(&history, &lists).is_err_and(|anomaly| anomaly.contains("cycle"))
    });
    assert!(found, "forty histories without a write skew");
}

/// Snapshots that move forward (`txn/transaction/refresh`, REFRESH-1) show one state each, even
/// over crashes: no update is lost, and no transaction sees a part of another's writes.
#[test]
fn d12_snapshots_that_move_forward_show_one_state() {
    let moved = AtomicU64::new(0);
    let mut acknowledged = 0;
    let has_enough = |acknowledged| acknowledged > 200 && moved.load(Ordering::Relaxed) > 10;
    for seed in 0..ROUNDS_MAX {
        if seed >= ROUNDS && has_enough(acknowledged) {
            break;
        }
        let (history, lists) = record(seed, Isolation::RepeatableRead, Some(&moved));
        acknowledged += history.iter().filter(|seen| seen.end == End::Acknowledged).count();
        if let Err(anomaly) = check_for(&history, &lists, Isolation::RepeatableRead) {
            panic!("seed {seed}: {anomaly}");
        }
    }
    assert!(has_enough(acknowledged), "{acknowledged} acknowledged, {moved:?} moved");
}

fn seen(began: u64, end: End, reads: &[(Key, &[u32])], appends: &[(Key, u32)]) -> Seen {
    let reads = reads.iter().map(|(key, list)| (*key, list.to_vec())).collect();
    Seen { began, ended: began + 1, end, reads, appends: appends.to_vec() }
}

#[test]
fn the_checker_tells_what_snapshots_do_not_allow() {
    let done = End::Acknowledged;
    let wrong = |history: &[Seen], lists: &[(Key, &[u32])]| {
        let lists = lists.iter().map(|(key, list)| (*key, list.to_vec())).collect();
        check_for(history, &lists, Isolation::RepeatableRead).err().unwrap_or_default()
    };
    // Write skew is allowed: each missed the other's append.
    let (first, second) = (
        seen(0, done, &[(1, &[]), (2, &[])], &[(1, 7)]),
        seen(0, done, &[(1, &[]), (2, &[])], &[(2, 8)]),
    );
    assert_eq!(wrong(&[first.clone(), second], &[(1, &[7]), (2, &[8])]), "");
    // A lost update: neither saw the other's.
    let lost = seen(0, done, &[(1, &[])], &[(1, 8)]);
    assert!(wrong(&[first, lost], &[(1, &[7, 8]), (2, &[])]).contains("cycle"));
    // A reader that saw one of two appends of the same transaction.
    let both = seen(0, done, &[], &[(1, 7), (2, 8)]);
    let skewed = seen(0, done, &[(1, &[]), (2, &[8])], &[]);
    assert!(wrong(&[both.clone(), skewed], &[(1, &[7]), (2, &[8])]).contains("cycle"));
    // A transaction that read a list twice, and once without the append.
    let twice = seen(0, done, &[(1, &[]), (1, &[7])], &[]);
    assert!(wrong(&[both.clone(), twice], &[(1, &[7]), (2, &[8])]).contains("cycle"));
    // A transaction that began once an append was acknowledged, and missed it.
    let stale = seen(5, done, &[(1, &[])], &[]);
    assert!(wrong(&[both, stale], &[(1, &[7]), (2, &[8])]).contains("cycle"));
}

#[test]
fn the_checker_tells_what_is_wrong() {
    let done = End::Acknowledged;
    let wrong = |history: &[Seen], lists: &[(Key, &[u32])]| {
        let lists = lists.iter().map(|(key, list)| (*key, list.to_vec())).collect();
        check(history, &lists).err().unwrap_or_default()
    };
    let append = seen(0, done, &[(1, &[])], &[(1, 7)]);
    let alone = std::slice::from_ref(&append);
    assert_eq!(wrong(alone, &[(1, &[7])]), "");
    assert!(wrong(alone, &[(1, &[])]).contains("missing"));
    assert!(wrong(alone, &[(1, &[7, 8])]).contains("nobody's"));
    let refused = Seen { end: End::Refused, ..append.clone() };
    assert!(wrong(&[refused], &[(1, &[7])]).contains("refused"));
    // A read that began after the append was acknowledged, and missed it.
    let stale = seen(5, done, &[(1, &[])], &[]);
    assert!(wrong(&[append.clone(), stale], &[(1, &[7])]).contains("cycle"));
    // Two transactions that each missed the other's append.
    let (first, second) = (
        seen(0, done, &[(1, &[]), (2, &[])], &[(1, 7)]),
        seen(0, done, &[(1, &[]), (2, &[])], &[(2, 8)]),
    );
    assert!(wrong(&[first, second], &[(1, &[7]), (2, &[8])]).contains("cycle"));
    let torn = seen(5, done, &[(1, &[8])], &[]);
    let other = seen(0, done, &[(1, &[7])], &[(1, 8)]);
    assert!(wrong(&[append, other, torn], &[(1, &[7, 8])]).contains("prefix"));
}
