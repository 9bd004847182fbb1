//! Runs statements that define or describe tables with exactly the privileges that they need, and
//! with each of these privileges missing.

use spillway_sql::Instance;

use crate::common::{code, in_memory, run};

const RIGHTS: [&str; 11] = [
    "SELECT",
    "INSERT",
    "UPDATE",
    "DELETE",
    "CREATE",
    "DROP",
    "ALTER",
    "INDEX",
    "LOCK TABLES",
    "REFERENCES",
    "CREATE VIEW",
];

/// A statement, and the privileges for `d` that it needs, all of them. `*` stands for any privilege
/// there.
const DEFINITIONS: &[(&str, &[&str])] = &[
    ("CREATE TABLE d.n (a INT)", &["CREATE"]),
    ("CREATE TABLE IF NOT EXISTS d.t (a INT)", &["CREATE"]),
    ("CREATE TABLE d.n LIKE mine.t", &["CREATE"]),
    ("CREATE TABLE d.n LIKE d.t", &["CREATE", "SELECT"]),
    ("CREATE TABLE mine.n LIKE d.t", &["SELECT"]),
    ("CREATE TABLE mine.n (a INT, FOREIGN KEY (a) REFERENCES d.t (id))", &["REFERENCES"]),
    ("ALTER TABLE mine.t ADD FOREIGN KEY (a) REFERENCES d.t (id)", &["REFERENCES"]),
    ("DROP TABLE d.t", &["DROP"]),
    ("DROP TABLE mine.t, d.t", &["DROP"]),
    ("TRUNCATE TABLE d.t", &["DROP"]),
    ("ALTER TABLE d.t ADD COLUMN b INT", &["ALTER"]),
    ("ALTER TABLE d.t RENAME TO mine.n", &["ALTER", "DROP"]),
    ("ALTER TABLE mine.t RENAME TO d.n", &["CREATE", "INSERT"]),
    ("RENAME TABLE d.t TO mine.n", &["ALTER", "DROP"]),
    ("RENAME TABLE mine.t TO d.n", &["CREATE", "INSERT"]),
    ("CREATE INDEX i ON d.t (a)", &["INDEX"]),
    ("DROP INDEX by_a ON d.t", &["INDEX"]),
    ("LOCK TABLES d.t READ", &["LOCK TABLES", "SELECT"]),
    ("LOCK TABLES mine.t WRITE, d.t AS x WRITE", &["LOCK TABLES", "SELECT"]),
    ("ANALYZE TABLE d.t", &["SELECT", "INSERT"]),
    ("OPTIMIZE TABLE d.t", &["SELECT", "INSERT"]),
    ("REPAIR TABLE d.t", &["SELECT", "INSERT"]),
    ("CHECK TABLE d.t", &["SELECT"]),
    ("ALTER DATABASE d CHARACTER SET utf8mb4", &["ALTER"]),
    ("DROP DATABASE d", &["DROP"]),
    ("USE d", &["*"]),
    ("SHOW TABLES FROM d", &["*"]),
    ("SHOW TABLE STATUS FROM d", &["*"]),
    ("SHOW CREATE DATABASE d", &["*"]),
    ("SHOW CREATE TABLE d.t", &["*"]),
    ("SHOW COLUMNS FROM d.t", &["*"]),
    ("SHOW COLUMNS FROM `t` FROM `d`", &["*"]),
    ("SHOW INDEX FROM d.t", &["*"]),
    ("DESCRIBE d.t", &["*"]),
    ("EXPLAIN d.t", &["*"]),
];

/// An instance with a user for each set of privileges in `d`. Each user has all privileges in
/// `mine`.
fn instance(sets: &[Vec<&str>]) -> Instance {
    let instance = in_memory();
    let mut root = instance.session("root", "localhost", 1);
    for sql in [
        "CREATE DATABASE mine; CREATE DATABASE d",
        "CREATE TABLE mine.t (id INT PRIMARY KEY, a INT, KEY by_a (a))",
        "CREATE TABLE d.t (id INT PRIMARY KEY, a INT, KEY by_a (a))",
    ] {
        run(&mut root, sql).unwrap();
    }
    for (at, rights) in sets.iter().enumerate() {
        run(&mut root, &format!("CREATE USER u{at}; GRANT ALL ON mine.* TO u{at}")).unwrap();
        if !rights.is_empty() {
            run(&mut root, &format!("GRANT {} ON d.* TO u{at}", rights.join(", "))).unwrap();
        }
    }
    instance
}

fn meets(needs: &[&str], rights: &[&str]) -> bool {
    needs.iter().all(|need| if *need == "*" { !rights.is_empty() } else { rights.contains(need) })
}

/// The sets of privileges that show whether a statement needs exactly these.
fn sets(needs: &[&'static str]) -> Vec<Vec<&'static str>> {
    let mut sets = vec![Vec::new()];
    sets.extend(RIGHTS.iter().map(|right| vec![*right]));
    if needs != ["*"] {
        sets.push(needs.to_vec());
    }
    // All needed privileges except one, together with all other privileges.
    for missing in needs.iter().filter(|need| **need != "*") {
        sets.push(RIGHTS.iter().copied().filter(|right| right != missing).collect());
    }
    sets
}

#[test]
fn each_definition_needs_its_rights_and_no_others() {
    // A denied statement changes nothing, so all statements share an instance with a user for each
    // set.
    let mut all: Vec<Vec<&str>> = DEFINITIONS.iter().flat_map(|(_, needs)| sets(needs)).collect();
    all.sort();
    all.dedup();
    let shared = instance(&all);
    for (sql, needs) in DEFINITIONS {
        let changes = ["CREATE", "DROP", "ALTER", "RENAME", "TRUNCATE", "LOCK"];
        let changes = changes.iter().any(|word| sql.starts_with(word));
        for rights in sets(needs) {
            let may = meets(needs, &rights);
            let fresh = (may && changes).then(|| instance(std::slice::from_ref(&rights)));
            let (instance, at) = match &fresh {
                Some(fresh) => (fresh, 0),
                None => (&shared, all.binary_search(&rights).unwrap()),
            };
            let mut user = instance.session(&format!("u{at}"), "localhost", 2);
            run(&mut user, "SET foreign_key_checks = 0").unwrap();
            let answer = code(&mut user, sql);
            if may {
                assert_eq!(answer, 0, "{sql} with {rights:?}");
            } else {
                assert!([1044, 1142].contains(&answer), "{sql} with {rights:?}: {answer}");
            }
        }
    }
}
