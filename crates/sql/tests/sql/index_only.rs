//! Index-only scans change no result: guarantees COVERING-INDEX-1 to COVERING-INDEX-6 of
//! `catalog/covering_index`.
//!
//! Two databases get the same random tables, rows and changes. In one of them, no query uses
//! index-only scans. Each random query runs on both databases and must return the same rows.
//! `SPILLWAY_SEED` and `SPILLWAY_ROUNDS` select the runs, and a failure names its seed.

use crate::common::{code, in_memory, instance_of, run};
use spillway::{Database, Mechanism, Settings};
use spillway_base::rng::Rng;
use spillway_sql::{Instance, Session};

fn session(instance: &Instance, id: u64) -> Session {
    let mut session = instance.session("root", "localhost", id);
    session.use_database("test").unwrap();
    session
}

fn without() -> Instance {
    let mut settings = Settings::default();
    settings.without = vec![Mechanism::IndexOnly];
    instance_of(Database::open_in_memory(settings).unwrap()).unwrap()
}

/// A type, a type to which it can be widened, its values, and whether equal values are identical.
type Kind = (&'static str, &'static str, &'static [&'static str], bool);

const KINDS: &[Kind] = &[
    ("INT", "BIGINT", &["0", "1", "2", "-1", "-2147483648", "2147483647"], true),
    ("TINYINT UNSIGNED", "INT", &["0", "1", "2", "255"], true),
    (
        "BIGINT UNSIGNED",
        "BIGINT UNSIGNED",
        &["0", "1", "9223372036854775808", "18446744073709551615"],
        true,
    ),
    ("DECIMAL(8,2)", "DECIMAL(12,4)", &["0", "1", "1.5", "-1.25", "999999.99", "-0.01"], true),
    ("DOUBLE", "DOUBLE", &["0", "-0e0", "1.5", "-1.25", "1e300"], false),
    ("FLOAT", "DOUBLE", &["0", "-0e0", "1.5", "0.1"], false),
    (
        "VARCHAR(12)",
        "VARCHAR(20)",
        &["''", "'a'", "'A'", "'a '", "'ab'", "'\u{e9}'", "'abcdefghij'"],
        false,
    ),
    (
        "VARCHAR(12) COLLATE utf8mb4_bin",
        "TEXT COLLATE utf8mb4_bin",
        &["''", "'a'", "'A'", "'a '", "'ab'", "'abcdefghij'"],
        false,
    ),
    (
        "CHAR(10) COLLATE utf8mb4_bin",
        "VARCHAR(12) COLLATE utf8mb4_bin",
        &["''", "'a'", "'A'", "'\u{e9}'", "'abcdefghij'"],
        true,
    ),
    (
        "VARBINARY(12)",
        "VARBINARY(40)",
        &["''", "'a'", "'a '", "x'00'", "x'ff'", "'abcdefgh'", "'abcdefghij'"],
        true,
    ),
    ("BINARY(9)", "VARBINARY(12)", &["''", "'a'", "x'ff'", "'abcdefghi'"], true),
    ("DATE", "DATE", &["'2024-02-29'", "'1000-01-01'", "'9999-12-31'"], true),
    (
        "DATETIME(3)",
        "DATETIME(6)",
        &["'2024-02-29'", "'2024-02-29 12:00:00.5'", "'1999-03-01'"],
        true,
    ),
    ("TIMESTAMP NULL", "TIMESTAMP(3) NULL", &["'2024-02-29'", "'2024-02-29 12:00:00'"], true),
    ("TIME", "TIME(2)", &["'00:00:00'", "'-01:00:00'", "'838:59:59'"], true),
    ("YEAR", "YEAR", &["1901", "1999", "2155"], true),
    ("BIT(5)", "BIT(5)", &["0", "1", "31"], true),
    ("ENUM('b','a','c')", "ENUM('b','a','c','d')", &["'a'", "'b'", "'c'"], true),
    ("SET('x','y')", "SET('x','y','z')", &["''", "'x'", "'x,y'"], false),
];

fn pick<'a, T>(rng: &mut Rng, all: &'a [T]) -> &'a T {
    &all[rng.below(all.len() as u64) as usize]
}

struct Table {
    kinds: Vec<&'static Kind>,
    /// The columns of the primary key. Without one, rows have a hidden number.
    primary: Vec<String>,
    indexes: usize,
}

impl Table {
    fn random(rng: &mut Rng) -> (Table, String) {
        let kinds: Vec<&Kind> = (0..3 + rng.below(3)).map(|_| pick(rng, KINDS)).collect();
        let mut table = Table { kinds, primary: Vec::new(), indexes: 0 };
        let mut lines = vec!["id INT NOT NULL".to_owned()];
        for (at, kind) in table.kinds.iter().enumerate() {
            lines.push(format!("c{at} {}", kind.0));
        }
        table.primary = match rng.below(5) {
            0 => Vec::new(),
            1 => {
                let at = rng.below(table.kinds.len() as u64) as usize;
                lines[1 + at] =
                    format!("c{at} {} NOT NULL", table.kinds[at].0.replace(" NULL", ""));
                vec![format!("c{at}"), "id".to_owned()]
            }
            _ => vec!["id".to_owned()],
        };
        lines.push(match table.primary.is_empty() {
            true => "UNIQUE KEY u0 (id)".to_owned(),
            false => format!("PRIMARY KEY ({})", table.primary.join(", ")),
        });
        for _ in 0..1 + rng.below(4) {
            let key = table.index(rng);
            lines.push(format!("KEY {key}"));
        }
        let sql = format!("CREATE TABLE t ({})", lines.join(", "));
        (table, sql)
    }

    /// The definition of an index: a name and columns, some of them with a prefix length.
    fn index(&mut self, rng: &mut Rng) -> String {
        let mut parts: Vec<String> = Vec::new();
        for _ in 0..=rng.below(3) {
            let column = self.column(rng);
            if !parts.iter().any(|part| part.starts_with(&column)) {
                let text = self.kind(&column).is_some_and(|kind| kind.0.starts_with("VAR"));
                parts.push(if text && rng.chance(1, 4) { format!("{column}(3)") } else { column });
            }
        }
        self.indexes += 1;
        format!("k{} ({})", self.indexes, parts.join(", "))
    }

    fn column(&self, rng: &mut Rng) -> String {
        match rng.below(1 + self.kinds.len() as u64) {
            0 => "id".to_owned(),
            at => format!("c{}", at - 1),
        }
    }

    fn kind(&self, column: &str) -> Option<&'static Kind> {
        let at: Option<usize> = column.strip_prefix('c').map(|at| at.parse().unwrap());
        at.map(|at| self.kinds[at])
    }

    /// Whether equal values of a column are identical, so it does not matter which one is shown.
    fn is_exact(&self, column: &str) -> bool {
        self.kind(column).is_none_or(|kind| kind.3)
    }

    fn value(&self, column: &str, rng: &mut Rng) -> String {
        match self.kind(column) {
            None => rng.below(60).to_string(),
            Some(kind) => (*pick(rng, kind.2)).to_owned(),
        }
    }

    fn row(&self, id: u64, rng: &mut Rng) -> String {
        let mut values = vec![id.to_string()];
        for at in 0..self.kinds.len() {
            let column = format!("c{at}");
            let null = !self.primary.contains(&column) && rng.chance(1, 6);
            values.push(if null { "NULL".to_owned() } else { self.value(&column, rng) });
        }
        format!("({})", values.join(", "))
    }

    fn condition(&self, prefix: &str, rng: &mut Rng) -> String {
        let column = self.column(rng);
        let one = |rng: &mut Rng| {
            let (a, b) = (self.value(&column, rng), self.value(&column, rng));
            match rng.below(8) {
                0 | 1 => format!("{prefix}{column} BETWEEN {a} AND {b}"),
                2 => format!("{prefix}{column} IN ({a}, {b})"),
                3 => format!("{prefix}{column} IS NULL"),
                4 => format!("{prefix}{column} IS NOT NULL"),
                _ => format!(
                    "{prefix}{column} {} {a}",
                    pick(rng, &["<", "<=", "=", ">", ">=", "<>", "<=>"])
                ),
            }
        };
        let mut all = one(rng);
        for _ in 0..rng.below(4) {
            all = format!("{all} OR {}", one(rng));
        }
        if rng.chance(1, 4) {
            all = format!("({all}) AND ({})", self.condition(prefix, rng));
        }
        all
    }

    fn columns(&self, prefix: &str, exact: bool, rng: &mut Rng) -> Vec<String> {
        let mut all = Vec::new();
        for _ in 0..=rng.below(3) {
            let column = self.column(rng);
            if !exact || self.is_exact(&column) {
                all.push(format!("{prefix}{column}"));
            }
        }
        if all.is_empty() { vec![format!("{prefix}id")] } else { all }
    }

    /// A query, and whether its rows have an order.
    fn query(&self, rng: &mut Rng) -> (String, bool) {
        let condition = match rng.below(4) {
            0 => String::new(),
            _ => format!(" WHERE {}", self.condition("", rng)),
        };
        match rng.below(12) {
            0..=3 => {
                let limited = rng.chance(1, 3);
                let shown = self.columns("", limited, rng).join(", ");
                let down = if rng.chance(1, 2) { " DESC" } else { "" };
                let by = shown.replace(", ", &format!("{down}, "));
                let limit =
                    format!(" ORDER BY {by}{down} LIMIT {} OFFSET {}", rng.below(9), rng.below(4));
                let tail = if limited { limit.as_str() } else { "" };
                (format!("SELECT {shown} FROM t{condition}{tail}"), limited)
            }
            4 => {
                let (a, b) = (self.column(rng), self.columns("", true, rng).remove(0));
                (
                    format!(
                        "SELECT COUNT(*), COUNT({a}), COUNT(DISTINCT {a}), SUM({b}), MIN({b}) FROM t{condition}"
                    ),
                    true,
                )
            }
            5 => (format!("SELECT COUNT(*) FROM t{condition}"), true),
            6 | 7 => {
                let (a, b) =
                    (self.columns("", true, rng).remove(0), self.columns("", true, rng).remove(0));
                let only = rng.chance(1, 2).then(|| {
                    format!(
                        " WHERE {a} > {} AND {a} <= {}",
                        self.value(&a, rng),
                        self.value(&a, rng)
                    )
                });
                let (a, b) = if only.is_some() { (a.clone(), a) } else { (a, b) };
                let ends = format!("SELECT MIN({a}), MAX({b}), MAX({a}) FROM t");
                (format!("{ends}{}", only.unwrap_or_default()), true)
            }
            8 => {
                let a = self.columns("", true, rng).remove(0);
                (format!("SELECT {a}, COUNT(*), SUM(id) FROM t{condition} GROUP BY {a}"), false)
            }
            9 => {
                let shown = self.columns("", true, rng).join(", ");
                (format!("SELECT DISTINCT {shown} FROM t{condition} ORDER BY {shown}"), true)
            }
            10 => {
                let (a, b) = (self.column(rng), self.column(rng));
                let shown = self.columns("a.", false, rng).join(", ");
                let more = self.condition("b.", rng);
                let left = if rng.chance(1, 3) { "LEFT " } else { "" };
                (
                    format!(
                        "SELECT {shown}, b.id FROM t a {left}JOIN t b ON a.{a} = b.{b} AND ({more})"
                    ),
                    false,
                )
            }
            _ => {
                let (a, b) = (self.column(rng), self.column(rng));
                (format!("SELECT id FROM t WHERE {a} IN (SELECT {b} FROM t{condition})"), false)
            }
        }
    }

    fn change(&mut self, next: &mut u64, rng: &mut Rng) -> String {
        match rng.below(10) {
            0..=2 => {
                let rows: Vec<String> = (0..=rng.below(4))
                    .map(|_| {
                        *next += 1;
                        self.row(*next, rng)
                    })
                    .collect();
                format!("INSERT INTO t VALUES {}", rows.join(", "))
            }
            3..=6 => {
                let column = format!("c{}", rng.below(self.kinds.len() as u64));
                let value = self.value(&column, rng);
                format!("UPDATE t SET {column} = {value} WHERE id % 5 = {}", rng.below(5))
            }
            7 => format!("UPDATE t SET id = id + 1000 WHERE id % 17 = {}", rng.below(17)),
            _ => format!(
                "DELETE FROM t WHERE id % 7 = {} AND ({})",
                rng.below(7),
                self.condition("", rng)
            ),
        }
    }

    fn alter(&mut self, rng: &mut Rng) -> String {
        let at = rng.below(self.kinds.len() as u64) as usize;
        let null = if self.primary.contains(&format!("c{at}")) { " NOT NULL" } else { "" };
        match rng.below(4) {
            0 => {
                let key = self.index(rng);
                format!("ALTER TABLE t ADD KEY {key}")
            }
            1 => format!("ALTER TABLE t ADD COLUMN x{} INT DEFAULT 5 FIRST", rng.below(1 << 40)),
            _ => format!(
                "ALTER TABLE t MODIFY c{at} {}{null}",
                self.kinds[at].1.replace(" NULL", "")
            ),
        }
    }
}

/// Runs the same statements on both databases.
struct Both {
    seed: u64,
    on: Session,
    off: Session,
    log: Vec<String>,
}

impl Both {
    fn fail(&self, what: &str) -> ! {
        panic!("seed {}: {what}\n\n{}\n", self.seed, self.log.join(";\n"))
    }

    fn change(&mut self, sql: &str) {
        self.log.push(sql.to_owned());
        let codes = [code(&mut self.on, sql), code(&mut self.off, sql)];
        if codes[0] != codes[1] {
            self.fail(&format!("{sql}: {codes:?}"));
        }
    }

    /// Runs a query on both databases and compares the results. Returns how indexes were used.
    fn compare(&mut self, sql: &str, ordered: bool) -> [bool; 2] {
        let ask = |session: &mut Session| {
            let mut rows = run(session, sql).map_err(|error| error.code)?;
            if !ordered {
                rows.sort();
            }
            Ok::<_, u16>(rows)
        };
        let (on, off) = (ask(&mut self.on), ask(&mut self.off));
        if on != off {
            self.fail(&format!("{sql}\nwith\n{on:?}\nwithout\n{off:?}"));
        }
        let plan = run(&mut self.on, &format!("EXPLAIN {sql}")).unwrap_or_default().join("\n");
        let not = run(&mut self.off, &format!("EXPLAIN {sql}")).unwrap_or_default().join("\n");
        assert!(!not.contains("Using index") && !not.contains("optimized"), "{sql}: {not}");
        ["Using index", "optimized away"].map(|how| plan.contains(how))
    }
}

fn round(seed: u64) -> [u64; 2] {
    let mut rng = Rng::new(seed);
    let (on, off) = (in_memory(), without());
    let mut both = Both { seed, on: session(&on, 1), off: session(&off, 1), log: Vec::new() };
    both.change(&format!("SET time_zone = '{}'", pick(&mut rng, &["+00:00", "+02:00", "-11:30"])));
    both.change("SET sql_mode = ''");
    let level = pick(&mut rng, &["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"]);
    both.change(&format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}"));
    let (mut table, create) = Table::random(&mut rng);
    both.change(&create);
    let mut next = 40;
    let rows: Vec<String> = (0..next).map(|id| table.row(id, &mut rng)).collect();
    both.change(&format!("INSERT INTO t VALUES {}", rows.join(", ")));
    let mut used = [0; 2];
    for step in 0..12 {
        // The session's own writes, some of them undone, inside or outside a transaction.
        let open = rng.chance(1, 2);
        if open {
            both.change("BEGIN");
        }
        for _ in 0..rng.below(3) {
            let change = table.change(&mut next, &mut rng);
            both.change(&change);
        }
        if open && rng.chance(1, 2) {
            both.change("SAVEPOINT s");
            let change = table.change(&mut next, &mut rng);
            both.change(&change);
            both.change("ROLLBACK TO s");
        }
        for _ in 0..6 {
            let (query, ordered) = table.query(&mut rng);
            let how = both.compare(&query, ordered);
            used.iter_mut().zip(how).for_each(|(used, how)| *used += u64::from(how));
        }
        if open {
            both.change(if rng.chance(1, 3) { "ROLLBACK" } else { "COMMIT" });
        }
        if step % 4 == 3 {
            let alter = table.alter(&mut rng);
            both.change(&alter);
        }
    }
    let check = run(&mut both.on, "CHECK TABLE t").unwrap();
    assert!(check.iter().all(|line| line.ends_with("OK")), "seed {seed}: {check:?}");
    used
}

/// COVERING-INDEX-1, COVERING-INDEX-2, COVERING-INDEX-5, COVERING-INDEX-6.
#[test]
fn answers_are_the_same_with_and_without() {
    let number = |name: &str, default: u64| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let (seed, rounds) = (number("SPILLWAY_SEED", 1), number("SPILLWAY_ROUNDS", 12));
    let mut used = [0; 2];
    for seed in seed..seed + rounds {
        let round = round(seed);
        used.iter_mut().zip(round).for_each(|(used, round)| *used += round);
    }
    if rounds >= 12 {
        assert!(used[0] > 15 * rounds && used[1] > 3 * rounds, "{used:?} of {rounds} rounds");
    }
}

fn uses_index(session: &mut Session, sql: &str) -> bool {
    run(session, &format!("EXPLAIN {sql}")).unwrap().join("\n").contains("Using index")
}

fn filled(level: &str) -> (Instance, Session, Session) {
    let instance = in_memory();
    let (mut one, mut two) = (session(&instance, 1), session(&instance, 2));
    run(&mut one, "CREATE TABLE t (id INT PRIMARY KEY, k INT, c VARCHAR(9), KEY k_1 (k))").unwrap();
    run(&mut one, "INSERT INTO t VALUES (1, 10, 'a'), (2, 20, 'b'), (3, 30, 'c'), (4, NULL, 'd')")
        .unwrap();
    for session in [&mut one, &mut two] {
        run(session, &format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}")).unwrap();
    }
    (instance, one, two)
}

const SHOWN: &str = "SELECT k, id FROM t WHERE k BETWEEN 5 AND 25 OR k BETWEEN 15 AND 99";

/// COVERING-INDEX-1: a snapshot sees the entries of its rows, whatever other transactions have
/// committed since.
#[test]
fn a_snapshot_sees_the_entries_of_its_rows() {
    let (_instance, mut one, mut two) = filled("REPEATABLE READ");
    assert!(uses_index(&mut one, SHOWN));
    run(&mut one, "BEGIN").unwrap();
    let before = run(&mut one, SHOWN).unwrap();
    assert_eq!(before, ["10 1", "20 2", "30 3"]);
    run(&mut two, "UPDATE t SET k = 25 WHERE id = 1").unwrap();
    run(&mut two, "DELETE FROM t WHERE id = 2").unwrap();
    run(&mut two, "INSERT INTO t VALUES (5, 10, 'e')").unwrap();
    assert_eq!(run(&mut one, SHOWN).unwrap(), before);
    assert_eq!(run(&mut one, "SELECT MIN(k), MAX(k) FROM t").unwrap(), ["10 30"]);
    assert_eq!(run(&mut one, "SELECT COUNT(*), COUNT(k) FROM t").unwrap(), ["4 3"]);
    // It sees its own writes, but not those that it has rolled back.
    run(&mut one, "UPDATE t SET k = 11 WHERE id = 3").unwrap();
    assert_eq!(run(&mut one, SHOWN).unwrap(), ["10 1", "11 3", "20 2"]);
    run(&mut one, "SAVEPOINT s").unwrap();
    run(&mut one, "INSERT INTO t VALUES (6, 6, 'f')").unwrap();
    assert_eq!(run(&mut one, "SELECT MIN(k) FROM t").unwrap(), ["6"]);
    run(&mut one, "ROLLBACK TO s").unwrap();
    assert_eq!(run(&mut one, "SELECT MIN(k) FROM t").unwrap(), ["10"]);
    run(&mut one, "ROLLBACK").unwrap();
    assert_eq!(run(&mut one, SHOWN).unwrap(), ["10 5", "25 1", "30 3"]);
}

/// COVERING-INDEX-1, COVERING-INDEX-5: an index that was built after the snapshot is not read for a
/// query that a table scan can answer as well.
#[test]
fn a_snapshot_from_before_an_index_reads_the_rows() {
    let instance = in_memory();
    let (mut one, mut two) = (session(&instance, 1), session(&instance, 2));
    run(&mut one, "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, c VARCHAR(99), KEY a (a))")
        .unwrap();
    let rows: Vec<String> =
        (0..3000).map(|id| format!("({id}, {}, {}, 'c')", id % 7 + 1, id * 7 % 3001)).collect();
    run(&mut one, &format!("INSERT INTO t VALUES {}", rows.join(", "))).unwrap();
    // Once the entries of `a` are in files, it can be estimated how many satisfy the conditions.
    run(&mut one, "FLUSH TABLES").unwrap();
    run(&mut one, "START TRANSACTION WITH CONSISTENT SNAPSHOT").unwrap();
    run(&mut two, "CREATE INDEX ba ON t (b, a)").unwrap();
    run(&mut two, "UPDATE t SET b = -5 WHERE id = 9").unwrap();
    let queries = [
        // Another access path than the apparently best one.
        "SELECT b FROM t WHERE a > 0",
        "SELECT b FROM t WHERE a > 0 AND b + 0 >= 0",
        // The index is chosen for its order.
        "SELECT b FROM t ORDER BY b",
        "SELECT b, a FROM t WHERE b + 0 < 50 ORDER BY b DESC, a DESC LIMIT 3",
        "SELECT b + 1 FROM t ORDER BY b LIMIT 2, 5",
        "SELECT COUNT(*), SUM(b) FROM t",
        "SELECT MIN(b), MAX(b) FROM t",
        "SELECT DISTINCT a FROM t ORDER BY a",
    ];
    for sql in queries {
        let by_rows = sql.replace("FROM t", "FROM t IGNORE INDEX (a, ba)");
        let [mut found, mut expected] = [sql, &by_rows]
            .map(|sql| run(&mut one, sql).unwrap_or_else(|e| panic!("{sql}: {e:?}")));
        assert!(!expected.is_empty() && !expected.contains(&"-5".to_owned()), "{sql}");
        if !sql.contains("ORDER BY") {
            found.sort_unstable();
            expected.sort_unstable();
        }
        assert!(found == expected, "{sql}: {} rows of {}", found.len(), expected.len());
        assert!(uses_index(&mut two, sql) || sql.contains("a > 0") || sql.contains("MIN"), "{sql}");
    }
    run(&mut one, "COMMIT").unwrap();
    assert_eq!(run(&mut one, "SELECT b FROM t ORDER BY b LIMIT 1").unwrap(), ["-5"]);
}

/// COVERING-INDEX-3.
#[test]
fn locking_reads_lock_their_rows() {
    let (_instance, mut one, mut two) = filled("READ COMMITTED");
    for clause in ["FOR UPDATE", "FOR SHARE"] {
        let sql = format!("SELECT k, id FROM t WHERE k BETWEEN 5 AND 15 {clause}");
        assert!(!uses_index(&mut one, &sql));
        run(&mut one, "BEGIN").unwrap();
        assert_eq!(run(&mut one, &sql).unwrap(), ["10 1"]);
        let taken = "SELECT c FROM t WHERE id = 1 FOR UPDATE NOWAIT";
        assert_eq!(code(&mut two, taken), 3572);
        assert_eq!(code(&mut two, &taken.replace("= 1", "= 2")), 0);
        run(&mut one, "COMMIT").unwrap();
        assert_eq!(code(&mut two, taken), 0);
    }
}

/// COVERING-INDEX-4: a transaction that changes what another one has read of an index conflicts
/// with it; a transaction that changes other columns of these rows does not.
#[test]
fn what_was_read_of_an_index_is_known_to_serializable_transactions() {
    // The number of refused transactions of two that read the same and then write different rows.
    let skew = |change: &dyn Fn(u8) -> String, read: &str| {
        let (_instance, mut one, mut two) = filled("SERIALIZABLE");
        assert!(uses_index(&mut one, read) || read.contains("MIN"));
        let mut refused = 0;
        for session in [&mut one, &mut two] {
            run(session, "BEGIN").unwrap();
            run(session, read).unwrap();
        }
        for (session, number) in [(&mut one, 1), (&mut two, 2)] {
            refused += u16::from(code(session, &change(number)) == 1213);
        }
        for session in [&mut one, &mut two] {
            refused += u16::from(code(session, "COMMIT") == 1213);
        }
        refused
    };
    let ranges = "SELECT COUNT(*) FROM t WHERE k BETWEEN 5 AND 12 OR k BETWEEN 15 AND 25";
    // Each removes rows that the other has counted.
    assert_eq!(skew(&|id| format!("UPDATE t SET k = 50 WHERE id = {id}"), ranges), 1);
    assert_eq!(skew(&|id| format!("DELETE FROM t WHERE id = {id}"), ranges), 1);
    // Each inserts rows that the other would have counted.
    let put = |id: u8| format!("INSERT INTO t VALUES (1{id}, 2{id}, 'new')");
    assert_eq!(skew(&put, ranges), 1);
    // A column that neither has read.
    assert_eq!(skew(&|id| format!("UPDATE t SET c = 'new' WHERE id = {id}"), ranges), 0);
    assert_eq!(skew(&|id| format!("INSERT INTO t VALUES (1{id}, 4{id}, 'new')"), ranges), 0);
    // The end of an index is read up to the first value.
    let ends = "SELECT MIN(k) FROM t";
    assert_eq!(skew(&|id| format!("INSERT INTO t VALUES (1{id}, {id}, 'less')"), ends), 1);
    assert_eq!(skew(&|id| format!("INSERT INTO t VALUES (1{id}, 4{id}, 'more')"), ends), 0);
}

/// COVERING-INDEX-2: values from index entries are those of the present definition.
#[test]
fn entries_follow_the_definition() {
    let instance = in_memory();
    let mut one = session(&instance, 1);
    run(&mut one, "SET sql_mode = ''").unwrap();
    let create = "CREATE TABLE t (id INT PRIMARY KEY, u INT UNSIGNED, d DECIMAL(5,1), e ENUM('x','y'), \
                  KEY (u), KEY (d), KEY (e))";
    run(&mut one, create).unwrap();
    run(&mut one, "INSERT INTO t VALUES (1, 7, 1.5, 'x'), (2, 4294967295, -2.5, 'none'), (3, NULL, NULL, NULL)").unwrap();
    let shown = |session: &mut Session| {
        ["u", "d", "e"].map(|column| {
            let sql =
                format!("SELECT {column} FROM t WHERE {column} IS NOT NULL OR {column} IS NULL");
            let sql = format!(
                "{} FORCE INDEX ({column}) WHERE {column} IS NOT NULL",
                sql.split(" WHERE").next().unwrap()
            );
            assert!(uses_index(session, &sql), "{sql}");
            let mut rows = run(session, &sql).unwrap();
            rows.sort();
            rows
        })
    };
    assert_eq!(shown(&mut one), [["4294967295", "7"], ["-2.5", "1.5"], ["", "x"]]);
    run(
        &mut one,
        "ALTER TABLE t MODIFY u BIGINT, MODIFY d DECIMAL(9,3), MODIFY e ENUM('x','y','z')",
    )
    .unwrap();
    assert_eq!(shown(&mut one), [["4294967295", "7"], ["-2.500", "1.500"], ["", "x"]]);
    // The new member has the empty name of invalid values. Their entries, with number 0, would not
    // be found under the new number.
    run(&mut one, "ALTER TABLE t MODIFY e ENUM('x','y','z','')").unwrap();
    run(&mut one, "UPDATE t SET e = 'z' WHERE id = 2").unwrap();
    run(&mut one, "INSERT INTO t VALUES (4, -1, 0, '')").unwrap();
    assert_eq!(shown(&mut one)[2], ["", "x", "z"]);
    let check = run(&mut one, "CHECK TABLE t").unwrap();
    assert!(check.iter().all(|line| line.ends_with("OK")), "{check:?}");
}
