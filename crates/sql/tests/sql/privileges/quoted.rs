//! Errors and warnings quote values of rows only to users who may read the rows (NEED-6).

use spillway_sql::{Instance, Session};

use crate::common::{in_memory, root, run};

/// What no message may contain for a user without SELECT.
const SECRETS: [&str; 2] = ["hush", "4711"];

/// Statements that fail, or raise a warning, and quote a secret to those who may read it; and the
/// privileges that each one needs.
const STATEMENTS: &[(&str, &str)] = &[
    ("UPDATE d.s SET k = 5", "UPDATE"),
    ("UPDATE IGNORE d.s SET k = 5", "UPDATE"),
    ("UPDATE d.s SET c = 1", "UPDATE"),
    ("UPDATE IGNORE d.s SET c = 1", "UPDATE"),
    ("UPDATE d.s SET c = 2", "UPDATE"),
    ("UPDATE d.s SET c = 3", "UPDATE"),
    ("INSERT INTO d.s (id, c) VALUES (2, 0) ON DUPLICATE KEY UPDATE k = 5", "INSERT, UPDATE"),
    ("ALTER TABLE d.s ADD UNIQUE (secret)", "ALTER"),
    ("ALTER TABLE d.s ADD UNIQUE (secret), ALGORITHM = COPY", "ALTER"),
    ("ALTER TABLE d.s MODIFY secret INT", "ALTER"),
    ("ALTER TABLE d.s MODIFY secret DATE", "ALTER"),
    ("ALTER TABLE d.s ADD CHECK (pin + 9223372036854775000 > 0)", "ALTER"),
    ("CREATE UNIQUE INDEX by_secret ON d.s (secret)", "INDEX"),
];

fn instance() -> Instance {
    let instance = in_memory();
    let mut root = root(&instance);
    for sql in [
        "CREATE DATABASE d; CREATE DATABASE mine",
        "CREATE TABLE d.s (id INT PRIMARY KEY, k INT, secret VARCHAR(50), pin INT, c INT,
            UNIQUE KEY both (k, secret),
            CONSTRAINT one CHECK (c <> 1 OR secret + 0 < 100),
            CONSTRAINT two CHECK (c <> 2 OR pin + 9223372036854775000 > 0),
            CONSTRAINT three CHECK (c <> 3 OR DATE(secret) IS NULL))",
        "INSERT INTO d.s (id, k, secret, pin, c) VALUES
            (1, 5, 'hush', 4711, 0), (2, 6, 'hush', 4711, 0)",
    ] {
        run(&mut root, sql).unwrap();
    }
    for (_, rights) in STATEMENTS {
        let user = name(rights);
        run(&mut root, &format!("CREATE USER IF NOT EXISTS {user}")).unwrap();
        run(&mut root, &format!("GRANT {rights} ON d.* TO {user}")).unwrap();
        run(&mut root, &format!("CREATE USER IF NOT EXISTS reading_{user}")).unwrap();
        run(&mut root, &format!("GRANT SELECT, {rights} ON d.* TO reading_{user}")).unwrap();
    }
    instance
}

fn name(rights: &str) -> String {
    rights.replace(", ", "_").to_lowercase()
}

/// The messages of a statement's error and warnings. The statement is then undone.
fn told(session: &mut Session, sql: &str) -> String {
    run(session, "BEGIN").unwrap();
    let error = run(session, sql).err().map(|error| error.message);
    let warnings = run(session, "SHOW WARNINGS").unwrap();
    run(session, "ROLLBACK").unwrap();
    format!("{} {}", error.unwrap_or_default(), warnings.join(" "))
}

#[test]
fn a_message_quotes_values_only_to_those_who_may_read_them() {
    let instance = instance();
    for (sql, rights) in STATEMENTS {
        let user = name(rights);
        for (user, reads) in [(format!("reading_{user}"), true), (user, false)] {
            let mut session = instance.session(&user, "localhost", 2);
            let told = told(&mut session, sql);
            let quotes = SECRETS.iter().any(|secret| told.contains(secret));
            assert_eq!(quotes, reads, "{user}: {sql}: {told}");
            assert_eq!(told.contains("(hidden)"), !reads, "{user}: {sql}: {told}");
        }
    }
}

#[test]
fn a_hidden_message_names_the_key() {
    let instance = instance();
    let mut user = instance.session("update", "localhost", 2);
    let error = run(&mut user, "UPDATE d.s SET k = 5").unwrap_err();
    assert_eq!((error.code, error.state), (1062, "23000"));
    assert_eq!(error.message, "Duplicate entry '(hidden)' for key 's.both'");
}
