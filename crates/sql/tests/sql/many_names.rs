//! Tests statements that name thousands of tables. Their run time must grow no faster than the
//! number of names: otherwise the test would run for minutes.

use crate::common::{code, instance_of, run};
use spillway::{Database, Settings};

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|at| format!("{prefix}{at}")).collect()
}

#[test]
fn many_names_are_dropped_renamed_and_locked() {
    let mut settings = Settings::default();
    settings.memory_bytes = 1 << 30;
    let instance = instance_of(Database::open_in_memory(settings).unwrap()).unwrap();
    let mut root = instance.session("root", "localhost", 1);
    run(&mut root, "CREATE USER u; GRANT ALL ON test.* TO u").unwrap();
    let mut session = instance.session("u", "localhost", 2);
    session.use_database("test").unwrap();

    let absent = names("absent", 50_000);
    run(&mut session, &format!("DROP TABLE IF EXISTS {}", absent.join(","))).unwrap();
    assert_eq!(run(&mut session, "SHOW WARNINGS").unwrap().len(), 1);
    assert_eq!(code(&mut session, &format!("DROP TABLE {}", absent.join(","))), 1051);

    let there = names("t", 1000);
    for name in &there {
        run(&mut session, &format!("CREATE TABLE {name} (id INT PRIMARY KEY)")).unwrap();
    }
    let locks: Vec<String> = there.iter().map(|name| format!("{name} WRITE")).collect();
    run(&mut session, &format!("LOCK TABLES {}", locks.join(","))).unwrap();
    run(&mut session, "INSERT INTO t999 VALUES (1)").unwrap();
    run(&mut session, "UNLOCK TABLES").unwrap();
    let moves: Vec<String> = there.iter().map(|name| format!("{name} TO new_{name}")).collect();
    run(&mut session, &format!("RENAME TABLE {}", moves.join(","))).unwrap();
    assert_eq!(run(&mut session, "SELECT id FROM new_t999").unwrap(), ["1"]);
    let new: Vec<String> = there.iter().map(|name| format!("new_{name}")).collect();
    run(&mut session, &format!("DROP TABLE {}", new.join(","))).unwrap();
    assert!(run(&mut session, "SHOW TABLES").unwrap().is_empty());
}

/// A join has at most 61 tables, as in MySQL, so a statement that names more ends at once.
#[test]
fn joins_of_many_tables_are_refused_at_once() {
    let mut session = crate::common::in_memory().session("root", "localhost", 1);
    session.use_database("test").unwrap();
    run(&mut session, "CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)").unwrap();
    let aliases = |count| names("a", count).join(",");
    let from = |count| names("t a", count).join(",");
    assert_eq!(run(&mut session, &format!("SELECT COUNT(*) FROM {}", from(61))).unwrap(), ["1"]);
    // The tables of a derived table and of a subquery are others.
    let both = format!("SELECT (SELECT COUNT(*) FROM {0}) FROM (SELECT 1 FROM {0}) AS d", from(61));
    assert_eq!(run(&mut session, &both).unwrap(), ["1"]);
    for count in [62, 5000] {
        let (from, aliases) = (from(count), aliases(count));
        let joined = from.replace(',', " JOIN ");
        for sql in [
            format!("SELECT COUNT(*) FROM {from}"),
            format!("SELECT (SELECT 1 FROM {joined})"),
            format!("DELETE {aliases} FROM {from}"),
            format!("DELETE FROM {aliases} USING {joined}"),
            format!("UPDATE {from} SET a1.id = 1"),
        ] {
            assert_eq!(code(&mut session, &sql), 1116, "{sql:.60}");
        }
    }
    let (from, aliases) = (from(61), aliases(61));
    assert_eq!(code(&mut session, &format!("DELETE {aliases} FROM {from} WHERE a0.id = 2")), 0);
    let unknown = names("b", 20_000).join(",");
    assert_eq!(code(&mut session, &format!("DELETE {unknown} FROM {from}")), 1109);
    assert_eq!(code(&mut session, &format!("DELETE {aliases} FROM {from}")), 0);
    assert!(run(&mut session, "SELECT * FROM t").unwrap().is_empty());
}
