//! Passes taken step by step, with changes of the table in between, and those that begin by themselves.

use spillway::{Database, Settings};
use spillway_base::clock::Clock;

use super::*;
use crate::session::Session;
use crate::tests::run;

fn settings(row_refresh: bool) -> Settings {
    let mut settings = Settings::default();
    if !row_refresh {
        settings.without.push(Mechanism::RowRefresh);
    }
    settings
}

fn session(instance: &Instance) -> Session {
    let mut session = instance.session("root", "localhost", 1);
    session.use_database("test").unwrap();
    session
}

fn stored(instance: &Instance) -> Arc<TableDef> {
    instance.catalog().table("test", "t").unwrap().clone()
}

fn change(number: u64) -> String {
    let next = number + 1;
    format!(
        "ALTER TABLE t DROP COLUMN c{number}, ADD COLUMN c{next} INT DEFAULT {number} FIRST, ALGORITHM=INSTANT"
    )
}

fn alter(one: &mut Session, number: u64) {
    run(one, &change(number));
}

/// Waits for what a thread is to do.
fn wait_until(is_done: impl Fn() -> bool) {
    for _ in 0..120_000 {
        if is_done() {
            return;
        }
        Clock::system().sleep(Duration::from_millis(1));
    }
    panic!("it did not come");
}

/// A table `t` whose rows are of `versions` versions, one of each, and of the newest.
fn with_versions(instance: &Instance, versions: u64) -> Session {
    let mut one = session(instance);
    run(&mut one, "CREATE TABLE t (c0 INT, id INT PRIMARY KEY, v INT)");
    for version in 0..versions {
        run(&mut one, &format!("INSERT INTO t VALUES (1, {version}, {})", version * 7));
        alter(&mut one, version);
    }
    one
}

/// R1: changes that come between the batches have versions of their own, and rows read as they did.
#[test]
fn r1_what_is_noted_is_the_version_that_the_pass_began_with() {
    let db = Database::open_in_memory(settings(false)).unwrap();
    let instance = Instance::open(db.clone()).unwrap();
    let mut one = with_versions(&instance, 40);
    let all = "SELECT id, v FROM t ORDER BY id";
    let before = run(&mut one, all);
    let mut pass = Refreshing::new(&stored(&instance));
    let begun = stored(&instance).schema;
    assert!(pass.step(&instance).unwrap(), "rows were visited");
    alter(&mut one, 40);
    run(&mut one, "INSERT INTO t VALUES (1, 1000, 7000)");
    alter(&mut one, 41);
    while pass.step(&instance).unwrap() {}
    let after = stored(&instance);
    assert_eq!((after.fresh_from, after.versions_kept()), (begun, 2));
    assert_eq!(after.schema, begun + 2);
    let mut expected = before;
    expected.push("1000 7000".to_owned());
    assert_eq!(run(&mut one, all), expected);
    assert_eq!(run(&mut one, "SELECT SUM(c42) FROM t"), [(41 * 41).to_string()]);
    drop((one, instance));
    // The layouts go with the next opening, which would tell of a row that has one.
    let instance = Instance::open(db).unwrap();
    assert_eq!(stored(&instance).layouts.len(), 2);
    assert_eq!(run(&mut session(&instance), all), expected);
}

/// R1: of rows that were copied, or are another table's, a pass notes nothing.
#[test]
fn r1_nothing_is_noted_of_other_rows() {
    for change in
        ["ALTER TABLE t FORCE", "DROP TABLE t; CREATE TABLE t (c40 INT, id INT PRIMARY KEY, v INT)"]
    {
        let instance = Instance::open(Database::open_in_memory(settings(false)).unwrap()).unwrap();
        let mut one = with_versions(&instance, 40);
        let mut pass = Refreshing::new(&stored(&instance));
        assert!(pass.step(&instance).unwrap());
        run(&mut one, change);
        alter(&mut one, 40);
        assert!(!pass.step(&instance).unwrap());
        let after = stored(&instance);
        assert_eq!((after.schema, after.fresh_from, after.layouts.len()), (1, 0, 1), "{change}");
        run(&mut one, "DROP TABLE t");
        assert_eq!(pass.step(&instance).unwrap_err().code, 1146);
    }
}

/// Many more changes than rows may have versions are instant: what a pass has not come to yet is waited for. Without, the 65th is not.
#[test]
fn changes_go_on_to_be_instant() {
    let instance = Instance::open(Database::open_in_memory(settings(true)).unwrap()).unwrap();
    let mut one = session(&instance);
    run(&mut one, "CREATE TABLE t (c0 INT, id INT PRIMARY KEY)");
    for number in 0..200 {
        run(&mut one, &format!("INSERT INTO t VALUES (1, {number})"));
        wait_until(|| stored(&instance).versions_kept() < LAYOUTS_MAX);
        alter(&mut one, number);
    }
    assert_eq!(run(&mut one, "SELECT COUNT(*), SUM(c200), SUM(id) FROM t"), ["200 39800 19900"]);

    let instance = Instance::open(Database::open_in_memory(settings(false)).unwrap()).unwrap();
    let mut one = with_versions(&instance, LAYOUTS_MAX as u64);
    let refused = one.query(&change(LAYOUTS_MAX as u64), &mut crate::tests::Rows::default());
    assert_eq!(refused.unwrap_err().code, 4092);
}

/// R3: an opening begins what another has left.
#[test]
fn r3_an_opening_begins_what_is_left() {
    let db = Database::open_in_memory(settings(true)).unwrap();
    let instance = Instance::open(db.clone()).unwrap();
    // As if somebody passed over each table that is to come, and never came to an end.
    instance.0.refreshing.lock().extend(0..10_000);
    let mut one = with_versions(&instance, REFRESH_FROM as u64);
    let all = run(&mut one, "SELECT * FROM t ORDER BY id");
    assert!(is_crowded(&stored(&instance)));
    drop((one, instance));
    let instance = Instance::open(db).unwrap();
    wait_until(|| stored(&instance).versions_kept() == 0);
    assert_eq!(run(&mut session(&instance), "SELECT * FROM t ORDER BY id"), all);
    wait_until(|| instance.0.refreshing.lock().is_empty());
}
