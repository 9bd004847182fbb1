//! Statements that name thousands of tables: their time grows no faster than their names, or the
//! test would run for minutes.

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
