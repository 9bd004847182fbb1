//! Tests DELETE of a range of rows. It must have the same result as a DELETE of the same rows one
//! by one. If another transaction changes a row of the range meanwhile, the first committer wins.
//! Rows that another transaction inserts meanwhile stay.

use crate::common::{code, in_memory, run};
use spillway_base::rng::Rng;
use spillway_sql::{Instance, Session};

fn session(instance: &Instance, id: u64) -> Session {
    let mut session = instance.session("root", "localhost", id);
    session.use_database("test").unwrap();
    session
}

fn affected(session: &mut Session, sql: &str) -> String {
    run(session, sql).unwrap();
    run(session, "SELECT ROW_COUNT()").unwrap().remove(0)
}

/// Creates a table `name` with rows 0 to 999, which are the same in all these tables.
fn fill(session: &mut Session, name: &str) {
    let sql = format!(
        "CREATE TABLE {name} (id INT PRIMARY KEY, grp INT, word VARCHAR(20), KEY grp (grp), UNIQUE word (word))"
    );
    run(session, &sql).unwrap();
    for from in (0..1000).step_by(250) {
        let rows: Vec<String> =
            (from..from + 250).map(|id| format!("({id}, {}, 'word {id}')", id % 7)).collect();
        run(session, &format!("INSERT INTO {name} VALUES {}", rows.join(", "))).unwrap();
    }
}

fn rows(session: &mut Session, name: &str) -> Vec<String> {
    run(session, &format!("SELECT * FROM {name} ORDER BY id")).unwrap()
}

fn logged(instance: &Instance) -> f64 {
    let metrics = instance.database().metrics();
    metrics.iter().find(|metric| metric.name == "log_flushed_bytes_total").unwrap().value
}

/// A DELETE of a range removes the same rows as one with an ORDER BY, which gathers them and
/// deletes them one by one, for every condition.
#[test]
fn many_rows_go_as_they_would_one_by_one() {
    let mut rng = Rng::new(5);
    for level in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
        let instance = in_memory();
        let mut session = session(&instance, 1);
        run(&mut session, &format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}")).unwrap();
        fill(&mut session, "one");
        fill(&mut session, "other");
        for step in 0..25 {
            let (from, count) = (rng.below(1000), rng.below(400));
            let to = from + count;
            let condition = match rng.below(7) {
                0 => format!("id >= {from} AND id < {to}"),
                1 => format!("id BETWEEN {from} AND {to}"),
                2 => format!("id > {from} AND grp <> {}", count % 7),
                3 => format!("id < {from} OR id > {to}"),
                4 => format!("grp = {}", count % 7),
                5 => format!("id >= {from} AND id < {to} AND word LIKE '%7'"),
                _ => format!("id IN (SELECT id + 1 FROM one WHERE id BETWEEN {from} AND {to})"),
            };
            let in_transaction = rng.chance(1, 2);
            let rolled_back = in_transaction && rng.chance(1, 3);
            let mut outcomes = Vec::new();
            for (table, order) in [("one", ""), ("other", " ORDER BY id")] {
                if in_transaction {
                    run(&mut session, "BEGIN").unwrap();
                    let put = format!("REPLACE INTO {table} VALUES ({from}, 9, 'own {step}')");
                    run(&mut session, &put).unwrap();
                }
                let condition = condition.replace("FROM one", &format!("FROM {table}"));
                let sql = format!("DELETE FROM {table} WHERE {condition}{order}");
                let gone = affected(&mut session, &sql);
                let seen = rows(&mut session, table);
                if in_transaction {
                    let put = format!("REPLACE INTO {table} VALUES ({to}, 8, 'back {step}')");
                    run(&mut session, &put).unwrap();
                    let end = if rolled_back { "ROLLBACK" } else { "COMMIT" };
                    run(&mut session, end).unwrap();
                }
                let after = rows(&mut session, table);
                let words = format!("SELECT COUNT(*) FROM {table} FORCE INDEX (word)");
                let count = run(&mut session, &words).unwrap();
                assert_eq!(count[0], after.len().to_string(), "{sql}");
                let check = run(&mut session, &format!("CHECK TABLE {table}")).unwrap();
                assert!(check.iter().all(|line| line.ends_with("OK")), "{sql}: {check:?}");
                outcomes.push((gone, seen, after));
            }
            assert_eq!(outcomes[0], outcomes[1], "{level}, step {step}: {condition}");
            let fresh: Vec<String> = (0..1000)
                .filter(|id| id % 3 == step % 3)
                .map(|id| format!("({id}, {}, 'word {step} {id}')", id % 7))
                .collect();
            for table in ["one", "other"] {
                let sql = format!("INSERT IGNORE INTO {table} VALUES {}", fresh.join(", "));
                run(&mut session, &sql).unwrap();
            }
        }
    }
}

/// The log has one short record for thousands of rows.
#[test]
fn the_log_has_a_range_in_place_of_its_rows() {
    let instance = in_memory();
    let mut session = session(&instance, 1);
    run(&mut session, "CREATE TABLE t (id BIGINT PRIMARY KEY, n INT)").unwrap();
    let refill = |session: &mut Session| {
        let rows: Vec<String> = (0..2000).map(|id| format!("({id}, 1)")).collect();
        run(session, &format!("INSERT INTO t VALUES {}", rows.join(", "))).unwrap();
    };
    let mut bytes = Vec::new();
    for sql in [
        "DELETE FROM t",
        "DELETE FROM t WHERE id BETWEEN 0 AND 1999",
        "DELETE FROM t WHERE n = 1",
        "DELETE FROM t ORDER BY id",
    ] {
        refill(&mut session);
        let before = logged(&instance);
        assert_eq!(affected(&mut session, sql), "2000", "{sql}");
        bytes.push(logged(&instance) - before);
        assert!(rows(&mut session, "t").is_empty(), "{sql}");
    }
    assert!(bytes[..3].iter().all(|range| range * 20.0 < bytes[3]), "{bytes:?}");
}

/// First committer wins, whichever of the two deleted many rows.
#[test]
fn who_comes_second_is_refused() {
    let instance = in_memory();
    let (mut one, mut two) = (session(&instance, 1), session(&instance, 2));
    fill(&mut one, "t");
    run(&mut one, "BEGIN").unwrap();
    assert_eq!(rows(&mut one, "t").len(), 1000);
    assert_eq!(affected(&mut two, "DELETE FROM t WHERE id < 500"), "500");
    assert_eq!(rows(&mut one, "t").len(), 1000, "one reads what it read");
    assert_eq!(code(&mut one, "UPDATE t SET grp = 1 WHERE id = 77"), 1213);
    run(&mut one, "BEGIN").unwrap();
    assert_eq!(rows(&mut one, "t").len(), 500);
    run(&mut two, "UPDATE t SET grp = 0 WHERE id = 600").unwrap();
    assert_eq!(code(&mut one, "DELETE FROM t WHERE id < 900"), 1213);
    run(&mut one, "ROLLBACK").unwrap();
    assert_eq!(rows(&mut one, "t").len(), 500);
    // An autocommit statement is repeated, with the newest state.
    run(&mut one, "INSERT INTO t VALUES (77, 0, 'back')").unwrap();
    assert_eq!(affected(&mut one, "DELETE FROM t"), "501");
    assert_eq!(affected(&mut one, "DELETE FROM t"), "0");
}

/// Rows inserted after the snapshot stay.
#[test]
fn rows_that_others_put_in_meanwhile_stay() {
    let instance = in_memory();
    let (mut one, mut two) = (session(&instance, 1), session(&instance, 2));
    run(&mut one, "CREATE TABLE t (id INT PRIMARY KEY)").unwrap();
    let ids: Vec<String> = (0..200).map(|id| format!("({id})")).collect();
    run(&mut one, &format!("INSERT INTO t VALUES {}", ids.join(", "))).unwrap();
    run(&mut one, "BEGIN").unwrap();
    assert_eq!(rows(&mut one, "t").len(), 200);
    run(&mut two, "INSERT INTO t VALUES (1000)").unwrap();
    assert_eq!(affected(&mut one, "DELETE FROM t WHERE id < 5000"), "200");
    assert!(rows(&mut one, "t").is_empty());
    run(&mut two, "INSERT INTO t VALUES (2000)").unwrap();
    run(&mut one, "COMMIT").unwrap();
    for session in [&mut one, &mut two] {
        assert_eq!(rows(session, "t"), ["1000", "2000"]);
    }
}
