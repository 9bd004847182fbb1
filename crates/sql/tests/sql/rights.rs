//! Tests the privileges that statements need. A user without the privilege runs each statement and
//! gets MySQL's error. Then the user runs the statement with that privilege and no other.

use crate::common::{code, in_memory, root, run};
use spillway_sql::{Instance, Session};

/// An instance with two databases with the same tables, and a session of a user with all privileges
/// in one of them, which is current.
fn instance() -> (Instance, Session) {
    let instance = in_memory();
    let mut root = root(&instance);
    for db in ["mine", "d"] {
        for sql in [
            format!("CREATE DATABASE {db}"),
            format!("CREATE TABLE {db}.t (id INT PRIMARY KEY, a INT, KEY by_a (a))"),
            format!("CREATE TABLE {db}.s (id INT PRIMARY KEY, a INT)"),
            format!("INSERT INTO {db}.t VALUES (1, 1), (2, 2)"),
            format!("INSERT INTO {db}.s VALUES (3, 3)"),
        ] {
            run(&mut root, &sql).unwrap();
        }
    }
    run(&mut root, "CREATE USER other").unwrap();
    drop(root);
    let user = new_user(&instance);
    (instance, user)
}

/// Recreates the user with privileges only in its own database.
fn new_user(instance: &Instance) -> Session {
    let mut root = root(instance);
    run(&mut root, "DROP USER IF EXISTS u; CREATE USER u IDENTIFIED BY 'x'").unwrap();
    run(&mut root, "GRANT ALL ON mine.* TO u").unwrap();
    let mut user = instance.session("u", "10.0.0.1", 2);
    user.use_database("mine").unwrap();
    user
}

/// A statement, its error without privileges, and the privileges that it needs in `d`, or, after
/// `*`, for all databases.
const CASES: &[(&str, u16, &str)] = &[
    ("SELECT * FROM d.t", 1142, "SELECT"),
    ("SELECT 1 FROM d.t LIMIT 0", 1142, "SELECT"),
    ("SELECT * FROM t JOIN d.t AS x ON t.id = x.id", 1142, "SELECT"),
    ("SELECT * FROM t, d.t AS x", 1142, "SELECT"),
    ("SELECT * FROM t WHERE id IN (SELECT id FROM d.t)", 1142, "SELECT"),
    ("SELECT (SELECT MAX(id) FROM d.t)", 1142, "SELECT"),
    ("SELECT * FROM (SELECT * FROM d.t) AS x", 1142, "SELECT"),
    ("SELECT id FROM t UNION SELECT id FROM d.t", 1142, "SELECT"),
    ("SELECT id FROM t ORDER BY (SELECT id FROM d.t LIMIT 1)", 1142, "SELECT"),
    ("SELECT COUNT(*) FROM t HAVING COUNT(*) > (SELECT COUNT(*) FROM d.s)", 1142, "SELECT"),
    ("WITH x AS (SELECT * FROM d.t) SELECT * FROM x", 1142, "SELECT"),
    ("SELECT * FROM d.t FOR UPDATE", 1142, "SELECT, UPDATE"),
    ("SELECT * FROM d.t FOR SHARE", 1142, "SELECT, LOCK TABLES"),
    ("EXPLAIN SELECT * FROM d.t", 1142, "SELECT"),
    ("PREPARE s FROM 'SELECT * FROM d.t'", 1142, "SELECT"),
    ("SET @x = (SELECT MAX(id) FROM d.t)", 1142, "SELECT"),
    ("DO (SELECT MAX(id) FROM d.t)", 1142, "SELECT"),
    ("SET SESSION sql_select_limit = (SELECT MAX(id) FROM d.t)", 1142, "SELECT"),
    ("INSERT INTO d.t VALUES (9, 9)", 1142, "INSERT"),
    ("INSERT INTO t SELECT id + 100, a FROM d.t", 1142, "SELECT"),
    ("INSERT INTO d.t SELECT id + 100, a FROM t", 1142, "INSERT"),
    ("INSERT INTO t VALUES (50, (SELECT MAX(id) FROM d.t))", 1142, "SELECT"),
    ("INSERT INTO d.t VALUES (1, 1) ON DUPLICATE KEY UPDATE a = 5", 1142, "INSERT, UPDATE"),
    ("INSERT INTO t VALUES (1, 1) ON DUPLICATE KEY UPDATE a = (SELECT 1 FROM d.s)", 1142, "SELECT"),
    ("REPLACE INTO d.t VALUES (1, 9)", 1142, "INSERT, DELETE"),
    ("UPDATE d.t SET a = 9", 1142, "UPDATE"),
    ("UPDATE d.t SET a = a + 1", 1142, "UPDATE, SELECT"),
    ("UPDATE d.t SET a = 9 WHERE id = 1", 1142, "UPDATE, SELECT"),
    ("UPDATE t SET a = (SELECT MAX(id) FROM d.t)", 1142, "SELECT"),
    ("UPDATE t SET a = 1 WHERE id = (SELECT MAX(id) FROM d.t)", 1142, "SELECT"),
    ("DELETE FROM d.t", 1142, "DELETE"),
    ("DELETE FROM d.t WHERE id = 1", 1142, "DELETE, SELECT"),
    ("DELETE FROM t WHERE id IN (SELECT id FROM d.t)", 1142, "SELECT"),
    ("UPDATE t JOIN d.t AS x ON x.id = t.id SET t.a = x.a", 1142, "SELECT"),
    ("UPDATE t JOIN d.t AS x ON x.id = t.id SET x.a = 5", 1142, "SELECT, UPDATE"),
    ("UPDATE d.t AS x, t SET x.a = 5", 1142, "SELECT, UPDATE"),
    ("DELETE t FROM t JOIN d.t AS x ON x.id = t.id", 1142, "SELECT"),
    ("DELETE x FROM t JOIN d.t AS x ON x.id = t.id", 1142, "SELECT, DELETE"),
    ("DELETE FROM x USING t JOIN d.t AS x ON x.id = t.id", 1142, "SELECT, DELETE"),
    ("TRUNCATE TABLE d.t", 1142, "DROP"),
    ("CREATE TABLE d.n (a INT)", 1142, "CREATE"),
    ("CREATE TABLE n LIKE d.t", 1142, "SELECT"),
    ("DROP TABLE d.t", 1142, "DROP"),
    ("DROP TABLE IF EXISTS d.nothing", 1142, "DROP"),
    ("ALTER TABLE d.t ADD COLUMN b INT", 1142, "ALTER"),
    ("ALTER TABLE d.t ENGINE = TIERED", 1142, "ALTER"),
    ("ALTER TABLE d.t COMMENT = 'x'", 1142, "ALTER"),
    ("ALTER TABLE d.t DISABLE KEYS", 1142, "ALTER"),
    ("ALTER TABLE d.t RENAME TO mine.n", 1142, "ALTER, DROP"),
    ("ALTER TABLE t RENAME TO d.n", 1142, "CREATE, INSERT"),
    ("RENAME TABLE d.t TO mine.n", 1142, "ALTER, DROP"),
    ("RENAME TABLE t TO d.n", 1142, "CREATE, INSERT"),
    ("CREATE INDEX i ON d.t (a)", 1142, "INDEX"),
    ("DROP INDEX by_a ON d.t", 1142, "INDEX"),
    ("CREATE DATABASE e", 1044, "* CREATE"),
    ("DROP DATABASE d", 1044, "DROP"),
    ("ALTER DATABASE d CHARACTER SET utf8mb4", 1044, "ALTER"),
    ("USE d", 1044, "INSERT"),
    ("ANALYZE TABLE d.t", 1142, "SELECT, INSERT"),
    ("OPTIMIZE TABLE d.t", 1142, "SELECT, INSERT"),
    ("CHECK TABLE d.t", 1142, "SELECT"),
    ("LOCK TABLES d.t READ", 1142, "LOCK TABLES, SELECT"),
    ("FLUSH TABLES", 1227, "* RELOAD"),
    ("KILL 1", 1095, "* CONNECTION_ADMIN, SYSTEM_USER"),
    ("KILL QUERY 1", 1095, "* SUPER, SYSTEM_USER"),
    ("SET GLOBAL wait_timeout = 100", 1227, "* SYSTEM_VARIABLES_ADMIN"),
    ("SET @@global.wait_timeout = 100", 1227, "* SUPER"),
    ("SET GLOBAL TRANSACTION ISOLATION LEVEL READ COMMITTED", 1227, "* SUPER"),
    ("SHOW TABLES FROM d", 1044, "INSERT"),
    ("SHOW TABLE STATUS FROM d", 1044, "INSERT"),
    ("SHOW CREATE DATABASE d", 1044, "INSERT"),
    ("SHOW CREATE TABLE d.t", 1142, "SELECT"),
    ("SHOW COLUMNS FROM d.t", 1142, "SELECT"),
    ("SHOW COLUMNS FROM t FROM d", 1142, "SELECT"),
    ("SHOW INDEX FROM d.t", 1142, "SELECT"),
    ("DESCRIBE d.t", 1142, "SELECT"),
    ("SHOW ENGINE TIERED STATUS", 1227, "* PROCESS"),
    ("SHOW GRANTS FOR root", 1044, "* SELECT"),
    ("CREATE USER n", 1227, "* CREATE USER"),
    ("DROP USER other", 1227, "* CREATE USER"),
    ("ALTER USER other IDENTIFIED BY 'x'", 1227, "* CREATE USER"),
    ("ALTER USER root IDENTIFIED BY 'x'", 1227, "* CREATE USER, SYSTEM_USER"),
    ("SET PASSWORD FOR 'root' = 'x'", 1227, "* CREATE USER, SYSTEM_USER"),
    ("SET PASSWORD FOR 'root'@'%' = PASSWORD('x')", 1227, "* CREATE USER, SYSTEM_USER"),
    ("GRANT SELECT ON d.* TO other", 1044, "SELECT, GRANT OPTION"),
    ("GRANT ALL ON d.* TO u", 1044, "ALL, GRANT OPTION"),
    ("GRANT SELECT ON *.* TO u", 1227, "* SELECT, GRANT OPTION"),
    ("GRANT SELECT ON `%`.* TO u", 1044, "* SELECT, GRANT OPTION"),
    ("REVOKE ALL ON d.* FROM root", 1044, ""),
];

fn begins_with(sql: &str, words: &[&str]) -> bool {
    words.iter().any(|word| sql.starts_with(word))
}

/// Whether a statement only changes rows, so a rollback undoes it.
fn is_undone(sql: &str) -> bool {
    begins_with(sql, &["INSERT", "REPLACE", "UPDATE", "DELETE"]) || sql.contains(" FOR UPDATE")
}

/// Whether a statement has effects only in its session and its transaction.
fn leaves_nothing(sql: &str) -> bool {
    let words =
        ["SELECT", "WITH", "EXPLAIN", "DESCRIBE", "SHOW", "PREPARE", "DO ", "USE ", "SET @x"];
    is_undone(sql) || begins_with(sql, &words)
}

/// The error code of a statement. It is rolled back if that undoes it.
fn tried(user: &mut Session, sql: &str) -> u16 {
    if !is_undone(sql) {
        return code(user, sql);
    }
    assert_eq!(code(user, "BEGIN"), 0);
    let answer = code(user, sql);
    assert_eq!(code(user, "ROLLBACK"), 0, "after {sql}");
    answer
}

#[test]
fn a_statement_needs_its_rights_and_no_others() {
    // The instance for the statements that leave nothing behind. Each of them gets a new user.
    let shared = instance().0;
    for (sql, expected, rights) in CASES {
        let (instance, mut user) = match leaves_nothing(sql) {
            true => (shared.clone(), new_user(&shared)),
            false => instance(),
        };
        let mut root = root(&instance);
        assert_eq!(tried(&mut user, sql), *expected, "without the right: {sql}");
        if rights.is_empty() {
            continue;
        }
        let (rights, scope) = match rights.strip_prefix("* ") {
            Some(rights) => (rights, "*"),
            None => (*rights, "d"),
        };
        // Each of them is needed, ...
        let rights: Vec<&str> = rights.split(", ").collect();
        for missing in rights.iter().filter(|_| rights.len() > 1) {
            let some: Vec<&str> = rights.iter().copied().filter(|right| right != missing).collect();
            let grant = format!("GRANT {} ON {scope}.* TO u", some.join(", "));
            run(&mut root, &grant).unwrap();
            assert_ne!(tried(&mut user, sql), 0, "without {missing}: {sql}");
            run(
                &mut root,
                &grant
                    .replace("GRANT ", "REVOKE ")
                    .replace(" TO ", " FROM ")
                    .replace("REVOKE OPTION", "GRANT OPTION"),
            )
            .unwrap();
        }
        // ... and they are enough.
        run(&mut root, &format!("GRANT {} ON {scope}.* TO u", rights.join(", "))).unwrap();
        assert_eq!(tried(&mut user, sql), 0, "with {rights:?}: {sql}: {:?}", run(&mut user, sql));
    }
}

/// The name of a common table expression hides a table only where that expression is visible.
#[test]
fn a_common_table_expression_hides_no_table() {
    let (instance, mut user) = instance();
    run(&mut root(&instance), "GRANT INSERT ON d.* TO u").unwrap();
    user.use_database("d").unwrap();
    assert_eq!(code(&mut user, "WITH t AS (SELECT 1 AS id) SELECT * FROM t"), 0);
    for sql in [
        "WITH t AS (SELECT * FROM t) SELECT * FROM t",
        "WITH t AS (SELECT 1) SELECT * FROM d.t",
        "WITH a AS (SELECT * FROM t), t AS (SELECT 1) SELECT * FROM a",
        "SELECT * FROM (WITH t AS (SELECT 1) SELECT * FROM t) x, t",
    ] {
        assert_eq!(code(&mut user, sql), 1142, "{sql}");
    }
}

#[test]
fn a_user_sees_what_it_has_rights_on() {
    let (instance, mut user) = instance();
    let mut seen = |sql: &str| run(&mut user, sql).unwrap();
    assert_eq!(
        seen("SHOW DATABASES"),
        ["information_schema", "mine", "mysql", "performance_schema"]
    );
    let schema = "information_schema";
    for sql in [
        format!(
            "SELECT DISTINCT table_schema FROM {schema}.tables WHERE table_type = 'BASE TABLE'"
        ),
        format!("SELECT DISTINCT table_schema FROM {schema}.columns"),
        format!("SELECT DISTINCT table_schema FROM {schema}.statistics"),
        format!(
            "SELECT schema_name FROM {schema}.schemata WHERE schema_name IN ('d', 'mine', 'test')"
        ),
    ] {
        assert_eq!(seen(&sql), ["mine"], "{sql}");
    }
    assert_eq!(seen("SELECT user FROM mysql.user"), ["u"]);
    let mut other = root(&instance);
    assert_eq!(seen("SELECT user FROM information_schema.processlist"), ["u"]);
    assert_eq!(seen("SHOW PROCESSLIST").len(), 1);
    run(&mut other, "GRANT PROCESS ON *.* TO u").unwrap();
    assert_eq!(run(&mut user, "SHOW PROCESSLIST").unwrap().len(), 2);
    assert!(user.use_database("d").is_err());
    assert!(user.kill(1, true).is_err());
    assert!(user.kill(2, true).is_ok());
}

fn grants(root: &mut Session) -> Vec<String> {
    run(root, "SHOW GRANTS FOR u").unwrap()
}

#[test]
fn rights_are_given_and_taken_as_they_are_said() {
    let (instance, mut user) = instance();
    let mut root = root(&instance);
    // One privilege less than all.
    run(&mut root, "REVOKE SELECT ON mine.* FROM u").unwrap();
    assert_eq!(code(&mut user, "SELECT * FROM t"), 1142);
    assert_eq!(code(&mut user, "INSERT INTO t VALUES (10, 10)"), 0);
    let shown = grants(&mut root);
    assert!(shown[1].contains("INSERT") && !shown[1].contains("SELECT"), "{shown:?}");
    run(&mut root, "REVOKE ALL ON mine.* FROM u").unwrap();
    assert_eq!(grants(&mut root), ["GRANT USAGE ON *.* TO `u`@`%`"]);
    assert_eq!(code(&mut root, "REVOKE SELECT ON mine.* FROM u"), 1141);
    for (sql, expected) in [
        ("GRANT FLY ON mine.* TO u", 1064),
        ("GRANT RELOAD ON mine.* TO u", 1221),
        ("GRANT SELECT ON mine.* TO u IDENTIFIED BY 'x'", 1064),
        ("GRANT SELECT ON mine.* TO u AND SO ON", 1064),
        ("GRANT SELECT ON mine.* TO u WITH MAX_STATEMENT_TIME 1", 1235),
        ("GRANT SELECT ON mine.t TO u", 1235),
        ("GRANT SELECT (a) ON mine.t TO u", 1235),
        ("GRANT somebody TO u", 1235),
        ("GRANT SELECT ON mine.* TO nobody", 1410),
        ("GRANT SELECT ON * TO u", 1046),
        ("CREATE USER u", 1396),
        ("CREATE USER v REQUIRE SSL", 1235),
        ("ALTER USER nobody IDENTIFIED BY 'x'", 1396),
        ("DROP USER nobody", 1396),
    ] {
        assert_eq!(code(&mut root, sql), expected, "{sql}");
    }
    assert_eq!(grants(&mut root), ["GRANT USAGE ON *.* TO `u`@`%`"]);
    // `*` alone means the current database, never all databases.
    root.use_database("d").unwrap();
    run(&mut root, "GRANT SELECT ON * TO u WITH GRANT OPTION").unwrap();
    assert_eq!(grants(&mut root)[1], "GRANT SELECT ON `d`.* TO `u`@`%` WITH GRANT OPTION");
    // A user may only grant privileges that it has.
    assert_eq!(code(&mut user, "GRANT SELECT ON d.* TO other"), 0);
    assert_eq!(code(&mut user, "GRANT INSERT ON d.* TO other"), 1044);
    assert_eq!(code(&mut user, "GRANT SELECT ON mine.* TO other"), 1044);
    // A pattern of databases.
    run(
        &mut root,
        r"CREATE DATABASE app_1; CREATE DATABASE appx1; GRANT SELECT ON `app\_%`.* TO u",
    )
    .unwrap();
    assert_eq!(code(&mut user, "USE app_1"), 0);
    assert_eq!(code(&mut user, "USE appx1"), 1044);
    run(&mut root, "REVOKE ALL PRIVILEGES, GRANT OPTION FROM u, other").unwrap();
    assert_eq!(grants(&mut root), ["GRANT USAGE ON *.* TO `u`@`%`"]);
}

#[test]
fn one_may_change_ones_own_password() {
    let (instance, mut user) = instance();
    let before = instance.user("u", "10.0.0.1").unwrap().stored;
    for sql in [
        "SET PASSWORD = 'a'",
        "SET PASSWORD FOR u = 'b'",
        "SET PASSWORD FOR CURRENT_USER() = 'c'",
        "ALTER USER USER() IDENTIFIED BY 'd'",
        "ALTER USER 'u'@'%' IDENTIFIED BY 'e'",
        "ALTER USER u@'%' IDENTIFIED WITH caching_sha2_password BY 'f'",
    ] {
        let was = instance.user("u", "10.0.0.1").unwrap().stored;
        assert_eq!(code(&mut user, sql), 0, "{sql}");
        assert_ne!(instance.user("u", "10.0.0.1").unwrap().stored, was, "{sql}");
    }
    assert_ne!(instance.user("u", "10.0.0.1").unwrap().stored, before);
    // The sessions of a dropped account have no privileges.
    run(&mut root(&instance), "DROP USER u").unwrap();
    assert_eq!(code(&mut user, "SELECT * FROM t"), 1045);
    assert_eq!(code(&mut user, "SET PASSWORD = 'z'"), 1045);
}
