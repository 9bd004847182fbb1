//! Point reads give the results of the general path: guarantees POINT-READ-1 and POINT-READ-2 of
//! `session/point`.
//!
//! Two databases get the same tables, changes and queries. In one of them, all statements take the
//! general path. In each database, a reader begins and ends transactions while a writer makes
//! changes. `SPILLWAY_SEED` and `SPILLWAY_ROUNDS` select the runs, and a failure names its seed.

use crate::common::instance_of;
use spillway::{Database, Mechanism, Settings};
use spillway_base::rng::Rng;
use spillway_sql::{Instance, Outcome, ResultColumn, ResultSink, Session, SqlError};
use spillway_types::value::write_text;
use spillway_types::{Decimal, Value, ValueRef};

/// Everything that a client receives.
#[derive(Default)]
struct Told(Vec<String>);

impl ResultSink for Told {
    fn columns(&mut self, columns: &[ResultColumn]) -> Result<(), SqlError> {
        self.0.push(format!("{columns:?}"));
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError> {
        let cells = values.iter().map(|value| {
            let mut out = Vec::new();
            write_text(value, &mut out);
            if value.is_null() { "NULL".to_owned() } else { String::from_utf8(out).unwrap() }
        });
        self.0.push(cells.collect::<Vec<_>>().join(" "));
        Ok(())
    }

    fn end_rows(&mut self, outcome: &Outcome) -> Result<(), SqlError> {
        self.0.push(format!("{outcome:?}"));
        Ok(())
    }

    fn ok(&mut self, outcome: &Outcome) -> Result<(), SqlError> {
        self.0.push(format!("{outcome:?}"));
        Ok(())
    }
}

fn told(run: impl FnOnce(&mut Told) -> Result<(), SqlError>) -> Vec<String> {
    let mut told = Told::default();
    if let Err(error) = run(&mut told) {
        told.0.push(format!("{} {}", error.code, error.message));
    }
    told.0
}

/// A database with point reads, and one without.
fn both() -> [Instance; 2] {
    [vec![], vec![Mechanism::PointReads]].map(|without| {
        let mut settings = Settings::default();
        settings.without = without;
        instance_of(Database::open_in_memory(settings).unwrap()).unwrap()
    })
}

/// One client of each database.
struct Pair {
    sessions: [Session; 2],
    log: Vec<String>,
}

impl Pair {
    fn of(instances: &[Instance; 2], user: &str, id: u64) -> Pair {
        let sessions = instances.each_ref().map(|instance| {
            let mut session = instance.session(user, "localhost", id);
            session.use_database("test").unwrap();
            session
        });
        Pair { sessions, log: Vec::new() }
    }

    fn compare(&mut self, what: &str, run: impl Fn(&mut Session) -> Vec<String>) -> Vec<String> {
        self.log.push(what.to_owned());
        let [with, without] = self.sessions.each_mut().map(|session| {
            let mut told = run(session);
            told.push(format!("{:?}", session.status()));
            told
        });
        let log = self.log.join(";\n");
        assert_eq!(with, without, "with point reads, and without\n\n{log}\n");
        with
    }

    fn query(&mut self, sql: &str) -> Vec<String> {
        self.compare(sql, |session| told(|sink| session.query(sql, sink)))
    }

    fn execute(&mut self, id: u32, params: &[Value]) -> Vec<String> {
        self.compare(&format!("EXECUTE {id} {params:?}"), |session| {
            told(|sink| session.execute(id, params, sink))
        })
    }

    fn prepare(&mut self, sql: &str) -> u32 {
        let [with, without] =
            self.sessions.each_mut().map(|session| session.prepare(sql).unwrap().id);
        assert_eq!(with, without);
        self.log.push(format!("PREPARE {with} FROM {sql}"));
        with
    }

    fn is_idle(&self) -> bool {
        let status = self.sessions[0].status();
        !status.in_transaction && status.autocommit
    }
}

const TABLES: [&str; 15] = [
    "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20), d DECIMAL(6, 2), at TIMESTAMP NULL)",
    "CREATE TABLE u (a TINYINT UNSIGNED, b BIGINT, v INT, PRIMARY KEY (b, a))",
    "CREATE TABLE s (name VARCHAR(10) PRIMARY KEY, v INT)",
    "CREATE TABLE ci (name VARCHAR(20) COLLATE utf8mb4_general_ci, n INT, v INT, PRIMARY KEY (name, n), KEY (v, name))",
    "CREATE TABLE bin (name VARCHAR(20) COLLATE utf8mb4_bin PRIMARY KEY, v INT, KEY (v))",
    "CREATE TABLE code (c CHAR(6) PRIMARY KEY, v INT)",
    "CREATE TABLE raw (k VARBINARY(8), f BINARY(3), v INT, PRIMARY KEY (k, f))",
    "INSERT INTO ci VALUES ('seven', 7, 1), ('', 7, 2), ('7', 7, 3), ('sévèn!', 7, 4), ('s', 7, 5)",
    "INSERT INTO bin SELECT name, v FROM ci UNION SELECT UPPER(name), 10 FROM ci WHERE v < 2",
    "INSERT INTO code VALUES ('seven', 1), ('', 2), ('7', 3), ('s', 4)",
    "INSERT INTO raw VALUES ('7', 'abc', 1), ('seven', 'abc', 2), ('', '7', 3)",
    "INSERT INTO t VALUES (0, 'none', 0.5, NULL), (7, 'seven', 7.25, '2026-01-01'), (-3, NULL, NULL, NULL)",
    "INSERT INTO u VALUES (0, 0, 1), (7, 7, 2), (255, 7, 3), (1, -7, 4)",
    "INSERT INTO s VALUES ('7', 1), ('seven', 2)",
    "CREATE DATABASE other",
];

/// Lookups of one row, and similar statements.
const LOOKUPS: [&str; 25] = [
    "SELECT v FROM t WHERE id = ?",
    "SELECT * FROM t WHERE id = ?",
    "SELECT d, v FROM t WHERE ? = id",
    "SELECT v, v FROM t WHERE id = ? LIMIT 1",
    "SELECT v FROM t WHERE id = ? LIMIT 0",
    "SELECT v FROM t WHERE id = ? LIMIT 3 OFFSET 1",
    "SELECT v FROM t WHERE id = ? AND v <> 'none'",
    "SELECT v FROM t WHERE id = ? ORDER BY v",
    "SELECT COUNT(*) FROM t WHERE id = ?",
    "SELECT SQL_CALC_FOUND_ROWS v FROM t WHERE id = ?",
    "SELECT v FROM u WHERE a = 7 AND b = ?",
    "SELECT v FROM u WHERE b = ? AND a = 255 LIMIT 7",
    "SELECT v FROM s WHERE name = ?",
    "SELECT id FROM t WHERE id = ? AND id = 7",
    "SELECT v, name FROM ci WHERE name = ? AND n = 7",
    "SELECT name FROM ci WHERE n = ? AND name = 'SEVEN'",
    "SELECT v FROM ci WHERE name COLLATE utf8mb4_bin = ? AND n = 7",
    "SELECT v FROM ci WHERE name = ? COLLATE utf8mb4_bin AND n = 7",
    "SELECT v FROM bin WHERE name = ? COLLATE utf8mb4_general_ci",
    "SELECT v, name FROM bin WHERE name = ?",
    "SELECT v FROM bin WHERE 'seven' = name AND name = ?",
    "SELECT v FROM bin WHERE name COLLATE utf8mb4_general_ci = ?",
    "SELECT * FROM code WHERE c = ?",
    "SELECT v FROM raw WHERE k = ? AND f = 'abc'",
    "SELECT v FROM raw WHERE k = '' AND f = ?",
];

fn value(rng: &mut Rng) -> Value {
    match rng.below(24) {
        0 => Value::Null,
        1 => Value::Text("7".into()),
        2 => Value::Text("seven".into()),
        3 => Value::UInt(7),
        4 => Value::Double(7.0),
        5 => Value::Double(7.5),
        6 => Value::Decimal(Decimal::parse("7.00").unwrap()),
        7 => Value::Int([i64::MAX, i64::MIN, -3, 1 << 31][rng.below(4) as usize]),
        8 => Value::UInt(u64::MAX),
        9 => Value::Bytes(b"7".to_vec()),
        10..14 => {
            let texts = [
                "seven",
                "SEVEN",
                "Seven  ",
                "sévèn!",
                "SÉVÈN!",
                "",
                " ",
                "s",
                "s\0",
                "abc",
                "sevenseven",
            ];
            Value::Text(texts[rng.below(texts.len() as u64) as usize].into())
        }
        _ => Value::Int(rng.below(12) as i64),
    }
}

/// Statements of the reader between its lookups.
const BETWEEN: [&str; 37] = [
    "BEGIN",
    "START TRANSACTION READ ONLY",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT",
    "COMMIT",
    "COMMIT",
    "COMMIT AND CHAIN",
    "ROLLBACK",
    "SET autocommit = 0",
    "SET autocommit = 1",
    "SET autocommit = 1",
    "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    "SET TRANSACTION READ ONLY",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    "SET NAMES utf8mb4 COLLATE utf8mb4_bin",
    "SET NAMES utf8mb4",
    "SET sql_mode = ''",
    "SET sql_mode = 'ANSI,NO_ZERO_DATE,STRICT_ALL_TABLES'",
    "SET sql_mode = DEFAULT",
    "SET sql_select_limit = 0",
    "SET sql_select_limit = 1",
    "SET sql_select_limit = DEFAULT",
    "SET sql_select_limit = DEFAULT",
    "SELECT FOUND_ROWS(), ROW_COUNT()",
    "SHOW WARNINGS",
    "SELECT CAST('x' AS SIGNED)",
    "SELECT nowhere",
    "UPDATE t SET v = 'mine' WHERE id = 0",
    "INSERT IGNORE INTO t (id, v) VALUES (4, 'four'), (0, 'none')",
    "DELETE FROM t WHERE id = 4",
    "SAVEPOINT one",
    "ROLLBACK TO one",
    "USE other",
    "USE test",
    "USE test",
    "SET time_zone = '+03:00'",
];

/// Statements that undo the effects of these from time to time.
const AS_USUAL: [&str; 6] = [
    "COMMIT",
    "SET sql_mode = DEFAULT",
    "SET autocommit = 1",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "SET sql_select_limit = DEFAULT",
    "USE test",
];

/// A statement of the writer, for rows that the reader does not write.
fn change(rng: &mut Rng) -> String {
    let id = 2 * rng.below(6) + 1;
    match rng.below(6) {
        0 => format!("DELETE FROM t WHERE id = {id}"),
        1 => format!("UPDATE u SET v = v + 1 WHERE b = 7 AND a = {id}"),
        2 => format!("REPLACE INTO u VALUES (7, {id}, {id})"),
        3 => "UPDATE s SET v = v + 1".to_owned(),
        _ => format!("REPLACE INTO t (id, v) VALUES ({id}, 'v{}')", rng.below(100)),
    }
}

/// Statements of the writer while the reader is not in a transaction.
const DEFINITIONS: [&str; 6] = [
    "ALTER TABLE t ADD COLUMN more INT DEFAULT 5",
    "ALTER TABLE t DROP COLUMN more",
    "ALTER TABLE t MODIFY v VARCHAR(40)",
    "ALTER TABLE u MODIFY v BIGINT",
    "RENAME TABLE s TO s2",
    "RENAME TABLE s2 TO s",
];

fn run(seed: u64) -> u64 {
    let mut rng = Rng::new(seed);
    let instances = both();
    let (mut reader, mut writer) =
        (Pair::of(&instances, "root", 1), Pair::of(&instances, "root", 2));
    reader.log.push(format!("seed {seed}"));
    TABLES.iter().for_each(|sql| drop(writer.query(sql)));
    let prepared = LOOKUPS.map(|sql| reader.prepare(sql));
    for step in 0..400 {
        if step % 20 == 0 {
            AS_USUAL.iter().for_each(|sql| drop(reader.query(sql)));
        }
        match rng.below(10) {
            0 | 1 => drop(reader.query(BETWEEN[rng.below(BETWEEN.len() as u64) as usize])),
            2 => {
                let sql = change(&mut rng);
                reader.log.push(format!("-- writer: {sql}"));
                writer.query(&sql);
            }
            3 if reader.is_idle() && rng.below(3) == 0 => {
                let sql = DEFINITIONS[rng.below(DEFINITIONS.len() as u64) as usize];
                reader.log.push(format!("-- writer: {sql}"));
                writer.query(sql);
            }
            4 | 5 => {
                let sql = LOOKUPS[rng.below(LOOKUPS.len() as u64) as usize];
                let given = [
                    "7",
                    "'7'",
                    "0",
                    "-3",
                    "NULL",
                    "7.0",
                    "18446744073709551615",
                    "4",
                    "'SEVEN '",
                    "x'373700'",
                    "''",
                    "DATE '2026-01-01'",
                ];
                let given = given[rng.below(given.len() as u64) as usize];
                reader.query(&sql.replace('?', given));
            }
            _ => {
                let id = prepared[rng.below(prepared.len() as u64) as usize];
                reader.execute(id, &[value(&mut rng)]);
            }
        }
    }
    assert_eq!(instances[1].point_reads(), 0);
    instances[0].point_reads()
}

fn seeds() -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let rounds = number("SPILLWAY_ROUNDS").unwrap_or(5);
    match number("SPILLWAY_SEED") {
        Some(seed) => seed..seed + 1,
        None => 1..rounds + 1,
    }
}

#[test]
fn point_read_1_any_history_is_told_as_without() {
    let points: u64 = seeds().map(run).sum();
    assert!(points > 20, "{points} point reads");
}

/// The statements that are point reads, and when they are.
#[test]
fn point_read_1_look_ups_by_a_key_are_point_reads() {
    let instances = both();
    let mut pair = Pair::of(&instances, "root", 1);
    TABLES.iter().for_each(|sql| drop(pair.query(sql)));
    let points = |pair: &mut Pair, sql: &str| {
        // The shape is known from the second time on.
        pair.query(sql);
        let before = instances[0].point_reads();
        pair.query(sql);
        instances[0].point_reads() - before
    };
    let by_key = "SELECT v FROM t WHERE id = 7";
    for is in [
        by_key,
        "SELECT * FROM u WHERE a = 7 AND b = 7",
        "SELECT v FROM t WHERE id = 99",
        "SELECT d FROM t WHERE id = 7 LIMIT 1",
        "SELECT v FROM s WHERE name = 'seven'",
        "SELECT v FROM ci WHERE name = 'SEVEN ' AND n = 7",
        "SELECT v FROM bin WHERE 'seven' = name",
        "SELECT v FROM code WHERE c = 'seven  '",
        "SELECT v FROM raw WHERE k = 'seven' AND f = 'abc'",
    ] {
        assert_eq!(points(&mut pair, is), 1, "{is}");
    }
    for is_not in [
        "SELECT v FROM t WHERE id = '7'",
        "SELECT v FROM t WHERE id = 7 AND v = 'seven'",
        "SELECT at FROM t WHERE id = 7",
        "SELECT v FROM t WHERE id = 7 FOR UPDATE",
        "SELECT v FROM u WHERE b = 7",
        "SELECT v + 1 FROM u WHERE b = 7 AND a = 7",
        "SELECT v FROM t WHERE id = 7 LIMIT 0",
        "SELECT v FROM s WHERE name = 7",
        "SELECT v FROM s WHERE name = 'seven' AND name = 'Seven'",
        "SELECT v FROM ci WHERE name COLLATE utf8mb4_bin = 'seven' AND n = 7",
        "SELECT v FROM ci WHERE name = 'seven' COLLATE utf8mb4_bin AND n = 7",
        "SELECT v FROM bin WHERE name = 'seven' COLLATE utf8mb4_general_ci",
    ] {
        assert_eq!(points(&mut pair, is_not), 0, "{is_not}");
    }
    let mut within = |before: &str, after: &str| {
        before.split(';').for_each(|sql| drop(pair.query(sql)));
        let points = points(&mut pair, by_key);
        after.split(';').for_each(|sql| drop(pair.query(sql)));
        points
    };
    assert_eq!(within("BEGIN", "COMMIT"), 1);
    assert_eq!(within("BEGIN;UPDATE s SET v = 8 WHERE name = '7'", "COMMIT"), 0);
    assert_eq!(within("SET autocommit = 0", "COMMIT;SET autocommit = 1"), 1);
    assert_eq!(within("SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SELECT 1"), 0);
    assert_eq!(within("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;BEGIN", "COMMIT"), 1);
    assert_eq!(within("LOCK TABLES t READ", "UNLOCK TABLES"), 0);
    assert_eq!(within("SET sql_select_limit = 0", "SET sql_select_limit = DEFAULT"), 0);
    // SET TRANSACTION applies to the next transaction, which is that of the point read.
    pair.query("SET TRANSACTION READ ONLY");
    pair.query(by_key);
    assert!(pair.query("UPDATE t SET v = 'other' WHERE id = 7")[0].contains("affected_rows: 1"));
}

/// The revocation of a privilege takes effect at once, and so does the drop of a table.
#[test]
fn point_read_1_rights_and_definitions_count_for_each() {
    let instances = both();
    let mut root = Pair::of(&instances, "root", 1);
    TABLES.iter().for_each(|sql| drop(root.query(sql)));
    root.query("CREATE USER guest IDENTIFIED BY ''");
    root.query("GRANT SELECT ON test.* TO guest");
    let mut guest = Pair::of(&instances, "guest", 2);
    let id = guest.prepare("SELECT v FROM t WHERE id = ?");
    let seven = [Value::Int(7)];
    assert_eq!(guest.execute(id, &seven)[1], "seven");
    let before = instances[0].point_reads();
    assert_eq!(guest.execute(id, &seven)[1], "seven");
    assert_eq!(instances[0].point_reads(), before + 1);
    // A plan that another session has compiled gives no privileges.
    root.query("CREATE USER writer IDENTIFIED BY ''");
    root.query("GRANT INSERT ON test.* TO writer");
    let by_key = "SELECT v FROM t WHERE id = 7";
    assert_eq!(
        (root.query(by_key)[1].as_str(), root.query(by_key)[1].as_str()),
        ("seven", "seven")
    );
    assert!(Pair::of(&instances, "writer", 3).query(by_key)[0].starts_with("1142 "));
    assert_eq!(guest.execute(id, &seven)[1], "seven");
    root.query("REVOKE SELECT ON test.* FROM guest");
    assert!(guest.execute(id, &seven)[0].starts_with("1142 "));
    root.query("GRANT SELECT ON test.* TO guest");
    assert_eq!(guest.execute(id, &seven)[1], "seven");
    root.query("ALTER TABLE t MODIFY v VARCHAR(50)");
    assert_eq!(guest.execute(id, &seven)[1], "seven");
    root.query("DROP TABLE t");
    assert!(guest.execute(id, &seven)[0].starts_with("1146 "));
    root.query("CREATE TABLE t (v INT, id BIGINT PRIMARY KEY)");
    root.query("INSERT INTO t VALUES (70, 7)");
    assert_eq!(guest.execute(id, &seven)[1], "70");
    assert!(instances.iter().all(|instance| instance.kill(2, true)));
    assert!(guest.execute(id, &seven)[0].starts_with("1317 "));
}
