//! Batched lookups return the same rows as lookups one by one: guarantees BATCHED-LOOKUP-1 to
//! BATCHED-LOOKUP-4 of `executor/lookups`.
//!
//! Two databases get the same tables, changes and queries. In one of them, all rows are looked up
//! one by one. Both databases are opened again for each round, so that no row is in memory.
//! `SPILLWAY_SEED` and `SPILLWAY_ROUNDS` select the runs, and a failure names its seed.

use std::sync::Arc;

use crate::common::{Rows, code, instance_of, run};
use spillway::{Database, Mechanism, Settings};
use spillway_base::rng::Rng;
use spillway_sql::{Instance, Session};
use spillway_storage::sim::SimDisk;

/// The keys of rows are less than this.
const KEYS: u64 = 3000;

fn open(disk: &SimDisk, together: bool) -> Instance {
    let mut settings = Settings::default();
    settings.memory_bytes = 64 << 20;
    settings.background_threads = false;
    settings.without.extend((!together).then_some(Mechanism::LookupBatches));
    instance_of(Database::open_on(Arc::new(disk.clone()), "/db", settings).unwrap()).unwrap()
}

fn session(instance: &Instance, id: u64) -> Session {
    let mut session = instance.session("root", "localhost", id);
    session.use_database("test").unwrap();
    session
}

/// The number of reads that were made for several rows at once.
fn read_together(instance: &Instance) -> u64 {
    let figures = instance.database().metrics();
    let names = ["tiered_prefetched_total", "memory_engine_prefetched_total"];
    let together = figures.iter().filter(|figure| names.contains(&figure.name));
    together.map(|figure| figure.value as u64).sum()
}

/// The result rows, and the number of the error that ended them.
fn answer(session: &mut Session, sql: &str) -> (Vec<String>, u16) {
    let mut rows = Rows::default();
    let code = session.query(sql, &mut rows).err().map_or(0, |error| error.code);
    (rows.0, code)
}

/// Writes rows whose order by `k` differs from that by `id`, in overlapping runs.
fn load(disk: &SimDisk, seed: u64) {
    let instance = open(disk, true);
    let mut root = session(&instance, 1);
    let mut rng = Rng::new(seed);
    run(&mut root, "CREATE TABLE t (id INT PRIMARY KEY, k INT, v VARCHAR(300), KEY k_1 (k))")
        .unwrap();
    run(&mut root, "CREATE TABLE p (a INT, b INT, v VARCHAR(300), PRIMARY KEY (a, b))").unwrap();
    run(&mut root, "CREATE TABLE o (id INT PRIMARY KEY, t INT)").unwrap();
    for (from, piece) in [(0, 1), (1, 7), (2, 31)] {
        let ids: Vec<u64> = (from..KEYS).step_by(piece).collect();
        for ids in ids.chunks(500) {
            let text = "x".repeat(200 + rng.below(90) as usize);
            let rows = ids.iter().map(|id| format!("({id}, {}, '{text}{id}')", rng.below(KEYS)));
            let rows: Vec<String> = rows.collect();
            run(&mut root, &format!("REPLACE INTO t VALUES {}", rows.join(", "))).unwrap();
            let rows: Vec<String> =
                ids.iter().map(|id| format!("({}, {}, '{text}')", id / 10, id % 10)).collect();
            run(&mut root, &format!("REPLACE INTO p VALUES {}", rows.join(", "))).unwrap();
        }
        run(&mut root, &format!("DELETE FROM t WHERE id BETWEEN {from}00 AND {from}20")).unwrap();
        instance.database().flush().unwrap();
    }
    let rows: Vec<String> =
        (0..200).map(|id| format!("({id}, {})", rng.below(KEYS + 20))).collect();
    run(&mut root, &format!("INSERT INTO o VALUES {}", rows.join(", "))).unwrap();
    instance.database().flush().unwrap();
    drop(root);
    instance.database().close().unwrap();
}

fn ids(rng: &mut Rng, many: u64) -> String {
    let ids: Vec<String> = (0..many).map(|_| rng.below(KEYS + 50).to_string()).collect();
    ids.join(", ")
}

/// A condition on rows of `t`, which have this alias.
fn condition(name: &str, rng: &mut Rng) -> String {
    let many = [1, 2, 7, 50, 200][rng.below(5) as usize];
    let from = rng.below(KEYS);
    match rng.below(6) {
        0 | 1 => format!("{name}id IN ({})", ids(rng, many)),
        2 => format!("{name}k IN ({})", ids(rng, many)),
        3 => format!(
            "({name}id IN ({}) OR {name}id BETWEEN {from} AND {from} + {many})",
            ids(rng, 20)
        ),
        _ => format!("{name}k BETWEEN {from} AND {from} + {many}"),
    }
}

fn query(rng: &mut Rng) -> String {
    let limit = match rng.below(3) {
        0 => String::new(),
        _ => format!(" LIMIT {}", [1, 2, 5, 30, 100][rng.below(5) as usize]),
    };
    let plain = condition("", rng);
    match rng.below(18) {
        0 => format!("SELECT v FROM t WHERE {plain}{limit}"),
        1 => format!("SELECT id, v FROM t WHERE {plain} AND id % 3 = 1{limit}"),
        2 => format!("SELECT v FROM t WHERE {plain} ORDER BY k DESC{limit}"),
        3 => format!("SELECT id, v FROM t FORCE INDEX (k_1) WHERE {plain} ORDER BY k{limit}"),
        4 => format!("SELECT v FROM t WHERE {plain} ORDER BY id DESC{limit}"),
        5 => format!("SELECT COUNT(v), SUM(k), MAX(v) FROM t WHERE {plain}"),
        6 => format!("SELECT k % 7, COUNT(*), MIN(v) FROM t WHERE {plain} GROUP BY k % 7"),
        7 => format!(
            "SELECT o.id, t.v FROM o LEFT JOIN t ON t.id = o.t WHERE o.id < 80 ORDER BY o.id{limit}"
        ),
        8 => format!(
            "SELECT o.id FROM o WHERE EXISTS (SELECT 1 FROM t WHERE t.k = o.t AND v LIKE '%1%'){limit}"
        ),
        9 => format!(
            "SELECT v FROM p WHERE a = {} AND b IN (1, 3, 5, 7, 8, 12){limit}",
            rng.below(KEYS / 10)
        ),
        10 => format!("SELECT id, v FROM t WHERE {plain} ORDER BY id{limit} FOR SHARE"),
        11 => format!("SELECT id, v FROM t WHERE {plain}{limit} FOR UPDATE"),
        12 => format!("SELECT id, v FROM t WHERE {plain} AND id % 3 = 1{limit} FOR UPDATE"),
        13 => format!(
            "SELECT v FROM p WHERE a = {} AND b IN (1, 3, 5, 7, 8, 12){limit} FOR UPDATE",
            rng.below(KEYS / 10)
        ),
        14 | 15 => chain(rng, &limit),
        _ => format!(
            "SELECT a.v, b.k FROM t a JOIN t b ON b.id = a.k WHERE {}{limit}",
            condition("a.", rng)
        ),
    }
}

/// A join over several tables, each of which has one row for each row of the previous one.
fn chain(rng: &mut Rng, limit: &str) -> String {
    let mut join = || ["JOIN", "LEFT JOIN"][rng.below(2) as usize];
    let [one, two, three] = std::array::from_fn(|_| join());
    let on = ["", " AND b.id % 5 > 0", " AND b.id < o.t"][rng.below(3) as usize];
    let those = ["o.id >= 0", "b.k % 3 > 0", "a.id > c.id"][rng.below(3) as usize];
    format!(
        "SELECT o.id, a.id, b.id, c.v FROM o {one} t a ON a.id = o.t {two} t b ON b.id = a.k{on} \
         {three} t c ON c.id = b.k WHERE {those}{limit}"
    )
}

fn change(rng: &mut Rng) -> String {
    let id = rng.below(KEYS);
    match rng.below(6) {
        0 => format!("UPDATE t SET k = k + 1 WHERE {}", condition("", rng)),
        1 => format!("DELETE FROM t WHERE id = {id}"),
        2 => format!("UPDATE t SET v = 'changed' WHERE id IN ({})", ids(rng, 20)),
        3 => format!("REPLACE INTO t VALUES ({id}, {}, 'new')", rng.below(KEYS)),
        4 => format!("DELETE FROM t WHERE {} LIMIT 4", condition("", rng)),
        // It may reach the rows that it writes.
        _ => format!(
            "REPLACE INTO t SELECT id + 1, k, CONCAT('of ', id) FROM t WHERE id IN ({}) ORDER BY id",
            ids(rng, 30)
        ),
    }
}

/// BATCHED-LOOKUP-1, for rows of a snapshot and for the transaction's own writes.
#[test]
fn rows_are_the_same_whether_they_are_read_together_or_not() {
    let number = |name: &str, otherwise: u64| {
        std::env::var(name).map_or(otherwise, |number| number.parse().unwrap())
    };
    let seed = number("SPILLWAY_SEED", 0x10_0c);
    let disks = [SimDisk::new(1), SimDisk::new(1)];
    disks.iter().for_each(|disk| load(disk, seed));
    let mut rng = Rng::new(seed);
    let (mut together, mut log) = (0, Vec::new());
    for round in 0..number("SPILLWAY_ROUNDS", 5) {
        let instances = [open(&disks[0], true), open(&disks[1], false)];
        let mut readers = instances.each_ref().map(|instance| session(instance, 1));
        let mut writers = instances.each_ref().map(|instance| session(instance, 2));
        let isolation = ["REPEATABLE READ", "READ COMMITTED", "SERIALIZABLE"];
        let isolation = isolation[rng.below(3) as usize];
        let mut begin = vec![format!("SET SESSION TRANSACTION ISOLATION LEVEL {isolation}")];
        if rng.below(3) > 0 {
            begin.extend(["BEGIN".to_owned(), "SELECT COUNT(*) FROM o".to_owned()]);
        }
        for sql in begin {
            readers.iter_mut().for_each(|reader| assert_eq!(code(reader, &sql), 0, "{sql}"));
            log.push(sql);
        }
        for step in 0..14 {
            // Only the writer changes rows in the first steps, and only the reader later, so that
            // the writer waits for no lock.
            let (by_writer, sql) = match rng.below(4) {
                0 if step < 5 => (true, change(&mut rng)),
                0 => (false, change(&mut rng)),
                _ => (false, query(&mut rng)),
            };
            log.push(format!("{}: {sql}", if by_writer { "writer" } else { "reader" }));
            let sessions = if by_writer { &mut writers } else { &mut readers };
            let [with, without] = sessions.each_mut().map(|session| answer(session, &sql));
            assert_eq!(with, without, "seed {seed}, round {round}:\n{}", log.join(";\n"));
        }
        together += read_together(&instances[0]);
        assert_eq!(read_together(&instances[1]), 0);
        drop((readers, writers));
        for instance in instances {
            instance.database().flush().unwrap();
            instance.database().close().unwrap();
        }
    }
    assert!(together > 100, "{together}");
}

/// Rows that are locked, changed or deleted are read several at once, and no additional rows are
/// locked.
#[test]
fn rows_that_are_locked_are_read_together_and_locked_in_their_turn() {
    let list: Vec<String> = (0..100).map(|at| (400 + 26 * at).to_string()).collect();
    let list = list.join(", ");
    let by_list = format!("id IN ({list})");
    let by_index = "k BETWEEN 100 AND 220".to_owned();
    let mut asked = Vec::new();
    for rows in [&by_list, &by_index] {
        let force = if *rows == by_index { "FORCE INDEX (k_1) " } else { "" };
        asked.push(format!("SELECT id, v FROM t {force}WHERE {rows} FOR UPDATE"));
        asked.push(format!("SELECT id, v FROM t {force}WHERE {rows} LIMIT 30 FOR UPDATE"));
        asked.push(format!("UPDATE t {force}SET v = 'new' WHERE {rows}"));
        asked.push(format!("UPDATE t {force}SET v = 'new' WHERE {rows} LIMIT 30"));
    }
    asked.push(format!("DELETE FROM t WHERE {by_list}"));
    asked.push(format!("DELETE FROM t WHERE {by_list} LIMIT 30"));
    let disks = [SimDisk::new(1), SimDisk::new(1)];
    disks.iter().for_each(|disk| load(disk, 5));
    for (number, sql) in asked.iter().enumerate() {
        let isolation = ["REPEATABLE READ", "READ COMMITTED", "SERIALIZABLE"][number % 3];
        let instances = [open(&disks[0], true), open(&disks[1], false)];
        let [with, without] = instances.each_ref().map(|instance| {
            let mut root = session(instance, 1);
            let level = format!("SET SESSION TRANSACTION ISOLATION LEVEL {isolation}");
            assert_eq!(code(&mut root, &level), 0);
            assert_eq!(code(&mut root, "BEGIN"), 0);
            let rows = answer(&mut root, sql);
            let read = read_together(instance);
            // Another session finds exactly the taken rows locked.
            let mut other = session(instance, 2);
            let free = "SELECT id FROM t WHERE id >= 0 FOR UPDATE SKIP LOCKED";
            let free = answer(&mut other, free);
            let after = answer(&mut root, "SELECT id, v FROM t ORDER BY id");
            assert_eq!(code(&mut root, "ROLLBACK"), 0);
            (read, rows, free, after)
        });
        let (together, alone) = (with.0, without.0);
        assert_eq!((with.1, with.2, with.3), (without.1, without.2, without.3), "{sql}");
        assert!(together > 10 && alone == 0, "{sql} read {together} and {alone}");
    }
}

/// BATCHED-LOOKUP-2: a row that cannot be read fails the statement in its turn, and not before.
#[test]
fn a_row_that_cannot_be_read_fails_in_its_turn() {
    let disks = [SimDisk::new(1), SimDisk::new(1)];
    for disk in &disks {
        load(disk, 5);
        let files = disk.files().into_iter();
        let data = files.filter(|(path, _)| path.extension().is_some_and(|end| end == "data"));
        for (path, len) in data {
            (0..len).step_by(90_000).for_each(|at| disk.rot(&path, at + 40_000, 0x10));
        }
    }
    let (mut failed, mut ended) = (0, 0);
    for limit in [1, 2, 3, 5, 8, 13, 21, 34, 55, 300] {
        let instances = [open(&disks[0], true), open(&disks[1], false)];
        for from in [0, 400, 900, 1300, 1700, 2100, 2600] {
            let list: Vec<String> = (0..60).map(|at| (from + 5 * at).to_string()).collect();
            for sql in [
                format!("SELECT id, v FROM t WHERE id IN ({}) LIMIT {limit}", list.join(", ")),
                format!(
                    "SELECT id, v FROM t FORCE INDEX (k_1) WHERE k BETWEEN {from} AND {from} + 60 \
                     LIMIT {limit}"
                ),
                format!(
                    "SELECT o.id, t.v FROM o LEFT JOIN t ON t.id = o.t WHERE o.id > {from} / 20 LIMIT {limit}"
                ),
                format!(
                    "SELECT o.id, b.v FROM o LEFT JOIN t a ON a.id = o.t LEFT JOIN t b ON b.id = a.k \
                     WHERE o.id > {from} / 20 LIMIT {limit}"
                ),
                // A number gets too large.
                format!(
                    "SELECT a.id, t.v FROM o a JOIN o b ON b.t = a.t LEFT JOIN t ON t.id = b.t \
                     WHERE a.id + b.id + {} > 0 LIMIT {limit}",
                    i64::MAX - from / 10
                ),
            ] {
                let [with, without] =
                    instances.each_ref().map(|instance| answer(&mut session(instance, 1), &sql));
                assert_eq!(with, without, "{sql}");
                failed += usize::from(with.1 != 0 && !with.0.is_empty());
                ended += usize::from(with.1 == 0);
            }
        }
        drop(instances);
    }
    assert!(failed > 5 && ended > 5, "{failed} and {ended}");
}

/// Waiting rows of joins are returned in their order: before a row that has no match, and before an
/// error of completely read sources.
#[test]
fn rows_that_wait_come_before_what_does_not_wait() {
    let disk = SimDisk::new(1);
    load(&disk, 5);
    let chain = |on: &str| {
        format!(
            "SELECT o.id, a.id, b.id, c.v FROM o LEFT JOIN t a ON a.id = o.t LEFT JOIN t b \
             ON b.id = a.k{on} LEFT JOIN t c ON c.id = b.k"
        )
    };
    let too_large = |from: i64| {
        format!(
            "SELECT a.id, b.id, t.v FROM o a JOIN o b ON b.id < a.id LEFT JOIN t ON t.id = b.t \
             WHERE a.id + b.id + {} > 0",
            i64::MAX - from
        )
    };
    let asked = [
        (chain(""), 0),
        (chain(" AND b.id % 5 > 0"), 0),
        (chain(" AND b.id < o.t"), 0),
        (too_large(12), 1690),
        (too_large(25), 1690),
        (too_large(38), 1690),
    ];
    for (sql, code) in asked {
        let answers = [true, false].map(|together| {
            let instance = open(&disk, together);
            let found = answer(&mut session(&instance, 1), &sql);
            assert_eq!(read_together(&instance) > 0, together, "{sql}");
            found
        });
        assert!(answers[0].1 == code && answers[0].0.len() > 20, "{sql}: {:?}", answers[0]);
        assert_eq!(answers[0], answers[1], "{sql}");
    }
}

/// BATCHED-LOOKUP-3, BATCHED-LOOKUP-4: a query that needs few rows reads few, and rows in memory
/// are not looked up twice.
#[test]
fn no_more_is_read_than_was_asked_for_times_four() {
    let disk = SimDisk::new(1);
    load(&disk, 5);
    let by_index = |limit| {
        format!("SELECT v FROM t FORCE INDEX (k_1) WHERE k BETWEEN 100 AND 2000 LIMIT {limit}")
    };
    let list: Vec<String> = (0..100).map(|at| (400 + 26 * at).to_string()).collect();
    let by_list =
        |limit| format!("SELECT v FROM t WHERE id IN ({}) LIMIT {limit}", list.join(", "));
    let by_join =
        |limit| format!("SELECT v FROM o LEFT JOIN t ON t.id = o.t WHERE o.id >= 0 LIMIT {limit}");
    for (limit, most) in [(1, 0), (2, 4), (5, 4), (6, 20), (21, 20), (22, 84)] {
        for sql in [by_index(limit), by_list(limit), by_join(limit)] {
            let instance = open(&disk, true);
            let mut root = session(&instance, 1);
            // The positions of the newest run's blocks are known.
            assert_eq!(run(&mut root, &sql).unwrap().len(), limit);
            let read = read_together(&instance);
            // Each row reads one block. It reads another one if the first run that may have the row
            // does not have its newest version.
            assert!(read <= 2 * most, "{sql}: {read}");
            assert!(limit < 22 || read > 2, "{sql}: {read}");
            assert_eq!(run(&mut root, &sql).unwrap().len(), limit);
            assert_eq!(read_together(&instance), read);
        }
    }
}

/// The number of times that a block of the tables was looked for.
fn block_reads(instance: &Instance) -> u64 {
    let figures = instance.database().metrics();
    let names = ["tiered_block_cache_hits_total", "tiered_block_cache_misses_total"];
    let reads = figures.iter().filter(|figure| names.contains(&figure.name));
    reads.map(|figure| figure.value as u64).sum()
}

/// A long list of IN is read by ranges as a short one is, and the reads grow with the list: there
/// is no length from which the table is read in another way.
#[test]
fn the_reads_of_a_list_grow_with_its_length() {
    const ROWS: usize = 40_000;
    let disk = SimDisk::new(3);
    let instance = open(&disk, true);
    let mut session = session(&instance, 1);
    let create = "CREATE TABLE w (id INT PRIMARY KEY, k INT, v INT, KEY k_1 (k)) ENGINE = TIERED";
    run(&mut session, create).unwrap();
    for from in (0..ROWS).step_by(1000) {
        let rows: Vec<String> =
            (from..from + 1000).map(|id| format!("({id}, {}, 1)", ROWS - id)).collect();
        run(&mut session, &format!("INSERT INTO w VALUES {}", rows.join(", "))).unwrap();
    }
    instance.database().compact().unwrap();
    for column in ["id", "k"] {
        let list = |items: usize| {
            let items: Vec<String> = (0..items).map(|item| (item * 2 + 1).to_string()).collect();
            format!("SELECT SUM(v) FROM w WHERE {column} IN ({})", items.join(", "))
        };
        let access = |session: &mut Session, items| {
            let plan = run(session, &format!("EXPLAIN {}", list(items))).unwrap();
            // Table, type and key; the estimate of rows differs.
            plan[0].split(' ').skip(2).take(5).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(access(&mut session, 20_000), access(&mut session, 100), "{column}");
        let mut reads = |items: usize| {
            let before = block_reads(&instance);
            assert_eq!(run(&mut session, &list(items)).unwrap(), [items.min(ROWS / 2).to_string()]);
            block_reads(&instance) - before
        };
        let [some, many, most] = [5_000, 10_000, 20_000].map(&mut reads);
        let grows = |less: u64, more: u64| more <= 3 * less + 100;
        assert!(grows(some, many) && grows(many, most), "{column}: {some}, {many}, {most}");
        assert!(most <= 3 * 20_000, "{column}: {most}");
    }
}
