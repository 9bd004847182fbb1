//! Tests that, after each change, the catalog in memory equals the stored catalog.

use std::collections::BTreeSet;
use std::sync::Arc;

use spillway::{Database, Settings};

use super::{Catalog, SPACE_NAMES, unawaited};
use crate::session::Instance;
use crate::tests::{in_memory, run};

/// The whole content of a catalog.
fn told(catalog: &Catalog) -> Vec<String> {
    let databases = catalog.databases.iter().map(|database| format!("{database:?}"));
    let users = catalog.users.iter().map(|user| format!("{user:?}"));
    let tables = catalog.tables.iter().map(|(name, table)| {
        format!("{name:?} {} {:?}", serde_json::to_string(&**table).unwrap(), table.building)
    });
    databases.chain(users).chain(tables).collect()
}

/// The existing key spaces, and those that the catalog names.
fn spaces(db: &Database, catalog: &Catalog) -> (BTreeSet<u32>, BTreeSet<u32>) {
    let txn = db.begin(unawaited());
    let there = txn.tables(SPACE_NAMES).unwrap().into_iter().map(|(_, space)| space.0);
    (there.collect(), catalog.tables.values().flat_map(|table| table.spaces()).collect())
}

const CHANGES: &[&str] = &[
    "CREATE DATABASE d",
    "CREATE DATABASE `odd%2Fname/x`",
    "CREATE TABLE d.t (id INT PRIMARY KEY, a INT, KEY (a))",
    "CREATE TABLE `odd%2Fname/x`.`t/1` (id INT AUTO_INCREMENT PRIMARY KEY)",
    "CREATE TABLE d.like_t LIKE d.t",
    "INSERT INTO d.t VALUES (1, 1), (2, 2)",
    "RENAME TABLE d.t TO d.s, d.like_t TO d.t, d.s TO d.like_t",
    "ALTER TABLE d.t ADD COLUMN b INT DEFAULT 3 FIRST",
    "ALTER TABLE d.t RENAME TO `odd%2Fname/x`.t",
    "ALTER TABLE d.like_t MODIFY a BIGINT UNSIGNED, ALGORITHM=COPY",
    "CREATE UNIQUE INDEX u ON d.like_t (a)",
    "ALTER TABLE d.like_t DROP INDEX u, ADD INDEX u (a, id), RENAME TO d.third",
    "TRUNCATE TABLE d.third",
    "ALTER DATABASE d COLLATE utf8mb4_bin",
    "CREATE USER u, `a@b`@'10.0.0.1', `a@b`",
    "GRANT SELECT ON d.* TO u",
    "ALTER USER u IDENTIFIED BY 'x'",
    "DROP USER `a@b`",
    "DROP TABLE `odd%2Fname/x`.`t/1`",
    "DROP DATABASE d",
    "DROP DATABASE `odd%2Fname/x`",
    "DROP USER u, `a@b`@'10.0.0.1'",
];

/// After each change, sessions see what the stored catalog has, and dropped key spaces no longer
/// exist.
#[test]
fn a_change_is_seen_as_it_is_stored() {
    let db = Database::open_in_memory(Settings::default()).unwrap();
    let instance = Instance::open(db.clone()).unwrap();
    let mut one = instance.session("root", "localhost", 1);
    let before = told(&instance.catalog());
    for change in CHANGES {
        run(&mut one, change);
        let seen = instance.catalog();
        assert_eq!(told(&seen), told(&Catalog::load(&db).unwrap()), "{change}");
        let (there, named) = spaces(&db, &seen);
        assert_eq!(there, named, "{change}");
    }
    assert_eq!(told(&instance.catalog()), before);
}

/// A change does not read tables again that it leaves unchanged.
#[test]
fn what_is_not_changed_is_not_read_anew() {
    let instance = in_memory();
    let mut one = instance.session("root", "localhost", 1);
    run(&mut one, "CREATE DATABASE d; CREATE TABLE d.a (id INT); CREATE TABLE d.b (id INT)");
    let before = instance.catalog();
    run(&mut one, "ALTER TABLE d.b ADD COLUMN c INT; CREATE TABLE d.c (id INT); DROP TABLE d.c");
    let after = instance.catalog();
    let same =
        |name: &str| Arc::ptr_eq(before.table("d", name).unwrap(), after.table("d", name).unwrap());
    assert_eq!((same("a"), same("b")), (true, false));
}
