//! Row batches contain the same rows as scans row by row: guarantees CURSOR-1 to CURSOR-4 of
//! `base::engine`, through SQL.
//!
//! Two databases get the same tables, changes and queries. In one of them, queries take rows one by
//! one. In each database, a reader keeps its snapshot and its own writes while a writer makes
//! changes. `SPILLWAY_SEED` and `SPILLWAY_ROUNDS` select the runs, and a failure names its seed.

use crate::common::{code, in_memory, instance_of, run};
use spillway::{Database, Mechanism, Settings};
use spillway_base::rng::Rng;
use spillway_sql::{Instance, Session};

fn one_by_one() -> Instance {
    let mut settings = Settings::default();
    settings.without = vec![Mechanism::RowBatches];
    instance_of(Database::open_in_memory(settings).unwrap()).unwrap()
}

/// The keys of rows are less than this.
const KEYS: u64 = 700;

struct Both {
    seed: u64,
    /// A reader for each of the two databases, with and without batches. Likewise a writer.
    readers: [Session; 2],
    writers: [Session; 2],
    log: Vec<String>,
}

impl Both {
    fn new(seed: u64) -> Both {
        let instances = [in_memory(), one_by_one()];
        let sessions = |id: u64| {
            let of = |instance: &Instance| {
                let mut session = instance.session("root", "localhost", id);
                session.use_database("test").unwrap();
                session
            };
            [of(&instances[0]), of(&instances[1])]
        };
        Both { seed, readers: sessions(1), writers: sessions(2), log: Vec::new() }
    }

    fn fail(&self, what: &str) -> ! {
        panic!("seed {}: {what}\n\n{}\n", self.seed, self.log.join(";\n"))
    }

    fn change(&mut self, reader: bool, sql: &str) {
        self.log.push(format!("{}: {sql}", if reader { "reader" } else { "writer" }));
        let sessions = if reader { &mut self.readers } else { &mut self.writers };
        let [with, without] = sessions.each_mut().map(|session| code(session, sql));
        if with != without {
            self.fail(&format!("{with}, and {without} one by one"));
        }
    }

    /// Runs a query in both readers, checks that the results are the same, and returns the number
    /// of rows.
    fn compare(&mut self, sql: &str) -> usize {
        let answers =
            self.readers.each_mut().map(|session| run(session, sql).map_err(|error| error.code));
        match answers {
            [Ok(with), Ok(without)] if with == without => with.len(),
            [with, without] => self.fail(&format!("{sql}\n{with:?}\none by one\n{without:?}")),
        }
    }
}

fn interval(column: &str, rng: &mut Rng) -> String {
    let from = rng.below(KEYS);
    let to = from + [0, 3, 40, KEYS][rng.below(4) as usize];
    format!("{column} BETWEEN {from} AND {to}")
}

fn condition(rng: &mut Rng) -> String {
    let column = ["id", "k"][rng.below(2) as usize];
    let mut all = interval(column, rng);
    for _ in 0..rng.below(4) {
        all = format!("{all} OR {}", interval(column, rng));
    }
    match rng.below(4) {
        0 => format!("({all}) AND v <> {}", rng.below(4)),
        1 => format!("({all}) AND t LIKE '%1%'"),
        _ => all,
    }
}

/// The number of kinds of queries.
const KINDS: usize = 11;

fn query(kind: usize, rng: &mut Rng) -> String {
    let condition = condition(rng);
    let limit = match rng.below(3) {
        0 => format!(" LIMIT {}", 1 + rng.below(40)),
        1 => format!(" LIMIT {}, {}", rng.below(20), rng.below(9)),
        _ => String::new(),
    };
    let down = if rng.chance(1, 2) { " DESC" } else { "" };
    match kind {
        0 => format!("SELECT id, k, v, t FROM t WHERE {condition} ORDER BY id{down}{limit}"),
        1 => format!("SELECT k, id FROM t WHERE {condition} ORDER BY k{down}, id{down}{limit}"),
        2 => format!("SELECT COUNT(*) FROM t WHERE {condition}"),
        3 => format!("SELECT COUNT(*), COUNT(v), SUM(k), SUM(v) FROM t WHERE {condition}"),
        4 => "SELECT COUNT(*) FROM t".to_owned(),
        5 => format!("SELECT DISTINCT v FROM t WHERE {condition} ORDER BY v"),
        6 => format!("SELECT MIN(k), MAX(k), MIN(id), MAX(id) FROM t WHERE {condition}"),
        7 => format!(
            "SELECT a.id, b.id FROM t a JOIN t b ON a.v = b.k WHERE a.{} ORDER BY 1, 2{limit}",
            interval("id", rng)
        ),
        8 => format!("SELECT id, t FROM t WHERE {condition} ORDER BY id{down}{limit} FOR UPDATE"),
        9 => format!("SELECT v, COUNT(*) FROM t WHERE {condition} GROUP BY v ORDER BY v"),
        _ => format!("SELECT t FROM t WHERE {condition} ORDER BY t{down}, id{limit}"),
    }
}

/// The values of `count` rows from a key on.
fn rows(from: u64, count: u64, rng: &mut Rng) -> String {
    let row = |id: u64| {
        let v = if rng.chance(1, 6) { "NULL".to_owned() } else { rng.below(4).to_string() };
        format!("({id}, {}, {v}, 'row {}')", rng.below(KEYS), rng.below(100))
    };
    let rows: Vec<String> = (from..from + count).map(row).collect();
    format!("REPLACE INTO t VALUES {}", rows.join(", "))
}

fn change(rng: &mut Rng) -> String {
    match rng.below(7) {
        0 | 1 => rows(rng.below(KEYS), 1 + rng.below(60), rng),
        2 => format!("UPDATE t SET v = {}, t = 'told' WHERE {}", rng.below(4), interval("id", rng)),
        3 => format!("UPDATE t SET k = k + 1 WHERE {}", interval("k", rng)),
        4 => format!("DELETE FROM t WHERE {}", interval("id", rng)),
        5 => format!("DELETE FROM t WHERE id % 5 = {} AND {}", rng.below(5), interval("k", rng)),
        _ => format!(
            "INSERT IGNORE INTO t SELECT id + 1, k, v, t FROM t WHERE {}",
            interval("id", rng)
        ),
    }
}

/// Runs one round. Returns the number of rows of each kind of query.
fn round(seed: u64) -> [usize; KINDS] {
    let mut rng = Rng::new(seed);
    let mut both = Both::new(seed);
    both.change(
        false,
        "CREATE TABLE t (id INT PRIMARY KEY, k INT NOT NULL, v INT, t VARCHAR(40), KEY k_1 (k))",
    );
    both.change(false, &rows(0, KEYS, &mut rng));
    let level = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"][rng.below(3) as usize];
    both.change(true, &format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}"));
    // New keys for the writer, while the reader may have locked the existing rows.
    let mut fresh = 10 * KEYS;
    let mut asked = [0; KINDS];
    for _ in 0..5 {
        let open = rng.chance(3, 4);
        if open {
            both.change(true, "BEGIN");
        }
        for _ in 0..12 {
            match rng.below(12) {
                0 | 1 => {
                    let change = change(&mut rng);
                    both.change(true, &change);
                }
                // Neither session waits for the other's locks, because the writer avoids the rows
                // that the reader has locked.
                2..=5 if !open => {
                    let change = change(&mut rng);
                    both.change(false, &change);
                }
                2 | 3 => {
                    fresh += 1;
                    let (k, v) = (rng.below(KEYS), rng.below(4));
                    both.change(false, &format!("INSERT INTO t VALUES ({fresh}, {k}, {v}, 'new')"));
                }
                4 => both.change(false, "FLUSH TABLES"),
                _ => {
                    let kind = rng.below(KINDS as u64) as usize;
                    asked[kind] += both.compare(&query(kind, &mut rng));
                }
            }
        }
        if open {
            both.change(true, if rng.chance(1, 3) { "ROLLBACK" } else { "COMMIT" });
        }
    }
    asked
}

#[test]
fn rows_taken_together_are_those_taken_one_by_one() {
    let number = |name: &str, default: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let (seed, rounds) = (number("SPILLWAY_SEED", 1), number("SPILLWAY_ROUNDS", 6));
    let mut asked = [0; KINDS];
    for seed in seed..seed + rounds {
        let round = round(seed);
        asked.iter_mut().zip(round).for_each(|(asked, round)| *asked += round);
    }
    if rounds >= 6 {
        // Totals have one row, and `v` has five values.
        let floors = [100, 100, 5, 5, 5, 10, 5, 30, 100, 10, 100];
        assert!(asked.iter().zip(floors).all(|(asked, floor)| *asked >= floor), "{asked:?}");
    }
}

/// CURSOR-1: a statement does not read the rows that it writes into the table that it reads,
/// however many rows it takes at once.
#[test]
fn a_table_that_is_read_into_itself_ends() {
    let mut both = Both::new(0);
    both.change(
        true,
        "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, k INT NOT NULL, KEY k_1 (k))",
    );
    both.change(true, "INSERT INTO t (k) VALUES (1), (2), (3)");
    for _ in 0..6 {
        both.change(true, "INSERT INTO t (k) SELECT k + 1 FROM t WHERE k > 0");
        both.change(true, "UPDATE t SET k = k + 1 WHERE k BETWEEN 2 AND 9");
    }
    assert_eq!(
        both.compare("SELECT k, COUNT(*) FROM t GROUP BY k ORDER BY k"),
        both.compare("SELECT DISTINCT k FROM t")
    );
    assert_eq!(both.compare("SELECT id, k FROM t ORDER BY id"), 3 << 6);
}

/// A query that takes rows in batches checks its time limit meanwhile. Here the time is over before
/// the first row.
#[test]
fn a_query_whose_time_is_over_ends_among_its_rows() {
    for instance in [in_memory(), one_by_one()] {
        let mut session = instance.session("root", "localhost", 1);
        session.use_database("test").unwrap();
        run(&mut session, "CREATE TABLE t (id INT PRIMARY KEY, n INT, KEY n_1 (n))").unwrap();
        let rows: Vec<String> = (0..3000).map(|id| format!("({id}, {id})")).collect();
        run(&mut session, &format!("INSERT INTO t VALUES {}", rows.join(", "))).unwrap();
        for flushed in [false, true] {
            if flushed {
                run(&mut session, "FLUSH TABLES").unwrap();
            }
            for (what, column) in [("SUM(n)", "id"), ("COUNT(*)", "id"), ("COUNT(*)", "n")] {
                let sql = format!("SELECT {what} FROM t WHERE {column} >= (SELECT SLEEP(0.01))");
                run(&mut session, "SET max_execution_time = 0").unwrap();
                assert_eq!(run(&mut session, &sql).unwrap().len(), 1);
                run(&mut session, "SET max_execution_time = 1").unwrap();
                assert_eq!(code(&mut session, &sql), 3024, "{sql}");
            }
        }
    }
}
