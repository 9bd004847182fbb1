//! Tests which expressions DEFAULT and CHECK accept (`planner/stored_expressions`, KEPT-1 and
//! KEPT-2).

use crate::common::{code, instance_of, run};
use spillway::{Database, Settings};
use spillway_sql::{Instance, Session};

fn root(instance: &Instance) -> Session {
    instance.session("root", "localhost", 1)
}

/// An instance with a table that `u` may not read, and a database of its own.
fn instance() -> Instance {
    let instance = crate::common::in_memory();
    let mut root = root(&instance);
    for sql in [
        "CREATE DATABASE secret; CREATE TABLE secret.s (v VARCHAR(50))",
        "INSERT INTO secret.s VALUES ('hidden')",
        "CREATE DATABASE mine; CREATE TABLE mine.t (a INT PRIMARY KEY, b VARCHAR(50))",
        "CREATE USER u; GRANT ALL ON mine.* TO u",
    ] {
        run(&mut root, sql).unwrap();
    }
    instance
}

/// Each expression, with the errors that it gives in a DEFAULT and in a CHECK.
const FOREIGN: &[(&str, u16, u16)] = &[
    ("(SELECT v FROM secret.s LIMIT 1)", 3769, 3815),
    ("(CONCAT('x', (SELECT v FROM secret.s LIMIT 1)))", 3769, 3815),
    ("(EXISTS (SELECT 1 FROM secret.s))", 3769, 3815),
    ("('a' IN (SELECT v FROM secret.s))", 3769, 3815),
    ("('a' = ANY (SELECT v FROM secret.s))", 3769, 3815),
    ("('a' <> ALL (SELECT v FROM secret.s))", 3769, 3815),
    ("(CASE WHEN 1 THEN (SELECT v FROM secret.s LIMIT 1) END)", 3769, 3815),
    ("((SELECT x.v FROM (SELECT * FROM secret.s) AS x LIMIT 1))", 3769, 3815),
    ("(@a)", 3772, 3816),
    ("(CONCAT('x', @a))", 3772, 3816),
    ("(@a := 1)", 3772, 3816),
    ("(@@version)", 3772, 3816),
    ("(@@session.sql_mode)", 3772, 3816),
    ("(GET_LOCK('l', 1))", 3770, 3814),
    ("(RELEASE_ALL_LOCKS())", 3770, 3814),
    ("(SLEEP(1))", 3770, 3814),
    ("(BENCHMARK(1, 1))", 3770, 3814),
    ("(LAST_INSERT_ID())", 3770, 3814),
    ("(FOUND_ROWS())", 3770, 3814),
    ("(`sleep`(1))", 3770, 3814),
    ("(DEFAULT(a))", 3770, 3814),
];

#[test]
fn a_definition_keeps_no_expression_that_reads_more_than_its_row() {
    let instance = instance();
    let mut user = instance.session("u", "10.0.0.1", 2);
    user.use_database("mine").unwrap();
    for (expr, default, check) in FOREIGN {
        for statement in [
            "CREATE TABLE n (a INT, b VARCHAR(50) DEFAULT #)",
            "CREATE TABLE IF NOT EXISTS n (b VARCHAR(50) NOT NULL DEFAULT #, a INT)",
            "ALTER TABLE t ADD COLUMN c VARCHAR(50) DEFAULT #",
            "ALTER TABLE t ADD COLUMN (c VARCHAR(50) DEFAULT #)",
            "ALTER TABLE t MODIFY b VARCHAR(50) DEFAULT #",
            "ALTER TABLE t CHANGE b c VARCHAR(50) DEFAULT #",
            "ALTER TABLE t ALTER COLUMN b SET DEFAULT #",
        ] {
            let sql = statement.replace('#', expr);
            let answer = code(&mut user, &sql);
            assert!(answer == *default || answer == 1064, "{sql}: {answer}");
        }
        let created = format!("CREATE TABLE n (a INT, b VARCHAR(50) DEFAULT {expr})");
        assert_eq!(code(&mut user, &created), *default, "{created}");
        for statement in [
            "CREATE TABLE n (a INT, b VARCHAR(50), CHECK (#))",
            "CREATE TABLE n (a INT, b VARCHAR(50) CHECK (#))",
            "ALTER TABLE t ADD CHECK (#)",
            "ALTER TABLE t ADD COLUMN c INT CHECK (#)",
        ] {
            let sql = statement.replace('#', expr);
            assert_eq!(code(&mut user, &sql), *check, "{sql}");
        }
        for statement in [
            "CREATE TABLE n (a INT, b VARCHAR(50) AS #)",
            "CREATE TABLE n (a INT, b VARCHAR(50) GENERATED ALWAYS AS # STORED)",
            "CREATE TABLE n (a INT, KEY (#))",
            "CREATE INDEX i ON t (#)",
            "CREATE TABLE n (a INT) PARTITION BY HASH #",
            "CREATE TABLE n (a DATETIME ON UPDATE #)",
            "ALTER TABLE t ADD COLUMN c DATETIME ON UPDATE #",
        ] {
            let sql = statement.replace('#', expr);
            assert_ne!(code(&mut user, &sql), 0, "{sql}");
        }
    }
    assert_eq!(run(&mut user, "SHOW TABLES").unwrap(), ["t"]);
}

/// A parameter has no value when the row is written.
#[test]
fn a_definition_keeps_no_parameter() {
    let instance = instance();
    let mut root = root(&instance);
    root.use_database("mine").unwrap();
    for sql in [
        "CREATE TABLE n (a INT DEFAULT (? + 1))",
        "CREATE TABLE n (a INT, CHECK (a > ?))",
        "ALTER TABLE t ADD COLUMN c INT DEFAULT (1 + ?)",
    ] {
        run(&mut root, &format!("PREPARE p FROM '{sql}'; SET @a = 1")).unwrap();
        assert!([3772, 3816].contains(&code(&mut root, "EXECUTE p USING @a")), "{sql}");
    }
}

/// The functions that MySQL allows are still allowed, including those with a different result each
/// time.
#[test]
fn a_default_may_be_what_functions_answer() {
    let instance = instance();
    let mut root = root(&instance);
    root.use_database("mine").unwrap();
    for expr in ["(UUID())", "(CONCAT('x', 1 + 2))", "(CURRENT_USER())", "(RAND())", "(NOW())"] {
        let sql = format!("CREATE TABLE n (a INT, b VARCHAR(100) DEFAULT {expr})");
        assert_eq!(code(&mut root, &sql), 0, "{sql}: {:?}", run(&mut root, &sql));
        assert_eq!(code(&mut root, "INSERT INTO n (a) VALUES (1)"), 0, "{sql}");
        run(&mut root, "DROP TABLE n").unwrap();
    }
    // A column with a function's name is a column.
    assert_eq!(code(&mut root, "CREATE TABLE n (version INT, CHECK (version > 0))"), 0);
}

/// An expression that an older version stored is not evaluated (KEPT-2).
#[test]
fn a_stored_definition_that_reads_a_table_fails_and_reads_nothing() {
    let db = Database::open_in_memory(Settings::default()).unwrap();
    let instance = instance_of(db).unwrap();
    let mut root = root(&instance);
    for sql in [
        "CREATE DATABASE secret; CREATE TABLE secret.s (v VARCHAR(50))",
        "INSERT INTO secret.s VALUES ('hidden')",
        "CREATE DATABASE mine",
        "CREATE TABLE mine.d (a INT PRIMARY KEY, b VARCHAR(50) DEFAULT (CONCAT('old', '')))",
        "INSERT INTO mine.d (a) VALUES (1)",
        "CREATE USER u; GRANT ALL ON mine.* TO u",
    ] {
        run(&mut root, sql).unwrap();
    }
    drop(root);
    let db = instance.database().clone();
    let txn = db.begin(spillway::TransactionOptions::new());
    let (space, key) = (txn.table("sys.catalog").unwrap(), b"t/mine/d");
    let mut stored = Vec::new();
    txn.get(space, key, &mut stored).unwrap();
    let stored = String::from_utf8(stored).unwrap();
    let changed = stored.replace("CONCAT('old', '')", "SELECT v FROM secret.s LIMIT 1");
    assert_ne!(changed, stored);
    txn.put(
        space,
        key,
        changed.replace("SELECT v", "(SELECT v").replace("LIMIT 1", "LIMIT 1)").as_bytes(),
    )
    .unwrap();
    txn.commit().wait().unwrap();
    drop(instance);
    let instance = instance_of(db).unwrap();
    let mut user = instance.session("u", "10.0.0.1", 2);
    user.use_database("mine").unwrap();
    for sql in [
        "INSERT INTO d (a) VALUES (2)",
        "INSERT INTO d VALUES (2, DEFAULT)",
        "REPLACE INTO d (a) VALUES (2)",
        "UPDATE d SET b = DEFAULT",
    ] {
        assert_eq!(code(&mut user, sql), 3769, "{sql}");
    }
    for sql in [
        "INSERT INTO d VALUES (3, 'given')",
        "UPDATE d SET b = 'new' WHERE a = 1",
        "DELETE FROM d WHERE a = 1",
        "SHOW CREATE TABLE d",
        "ALTER TABLE d ALTER COLUMN b SET DEFAULT 'mended'",
        "INSERT INTO d (a) VALUES (4)",
    ] {
        assert_eq!(code(&mut user, sql), 0, "{sql}");
    }
    assert_eq!(run(&mut user, "SELECT * FROM d").unwrap(), ["3 given", "4 mended"]);
}
