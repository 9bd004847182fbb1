//! Tests that a statement nested to any depth runs or fails with an error, and that its session
//! continues (DEPTH-1 to DEPTH-3). The hash of the checked-out commit determines which of many
//! similar statements the tests run.

use crate::common::chosen::{commit_seed, rounds, some_of};
use crate::common::deep::{CHAINS, NESTS, PLACES, chain, ctes, nested, of_bytes};
use crate::common::{Rows, code, in_memory, run};
use spillway_sql::{Instance, Session};
use spillway_types::Value;

fn session() -> Session {
    session_of(&in_memory())
}

/// A session with a new table `t`, and no table `n`.
fn session_of(instance: &Instance) -> Session {
    let mut session = instance.session("root", "localhost", 1);
    session.use_database("test").unwrap();
    run(
        &mut session,
        "SET max_execution_time = 2000; DROP TABLE IF EXISTS t; DROP TABLE IF EXISTS n; \
         CREATE TABLE t (id INT PRIMARY KEY, a INT); INSERT INTO t VALUES (1, 1), (2, 2)",
    )
    .unwrap();
    session
}

/// Runs a statement, twice as text and once prepared, and uses the tables that it left.
fn go(session: &mut Session, sql: &str) -> u16 {
    let told = code(session, sql);
    code(session, sql);
    if let Ok(prepared) = session.prepare(sql) {
        let params = vec![Value::Int(1); prepared.params];
        let _ = session.execute(prepared.id, &params, &mut Rows::default());
        session.close_statement(prepared.id);
    }
    for sql in [
        "INSERT INTO n (a) VALUES (1)",
        "SHOW CREATE TABLE n",
        "ALTER TABLE n ADD COLUMN z INT",
        "DROP TABLE IF EXISTS n",
        "ROLLBACK",
    ] {
        code(session, sql);
    }
    told
}

/// Each construct is nested in some places, and each place has some nested construct, on both sides
/// of every limit.
#[test]
fn whatever_nests_runs_or_fails() {
    let instance = in_memory();
    for (at, place) in some_of(PLACES.iter().enumerate(), 4) {
        let mut session = session_of(&instance);
        for (number, nest) in NESTS.iter().enumerate().filter(|(number, _)| number % 11 == at % 11)
        {
            let times = [8, 40, 95, 160][(number / 11 + at / 11) % 4];
            go(&mut session, &nested(place, *nest, "1", times));
        }
        assert_eq!(code(&mut session, "SELECT 1"), 0, "{place}");
    }
}

#[test]
fn what_nests_deeper_than_any_stack_runs_or_fails() {
    let mut session = session();
    for (at, nest) in some_of(NESTS.iter().enumerate().step_by(2), 4) {
        for (step, times) in [1200, 2900, 20_000].into_iter().enumerate() {
            if step != at / 2 % 3 {
                continue;
            }
            let place = PLACES[(at + step * 7) % PLACES.len()];
            let told = go(&mut session, &nested(place, *nest, "1", times));
            assert!(times < 20_000 || told != 0, "{place} {nest:?}");
        }
    }
    assert_eq!(code(&mut session, "SELECT 1"), 0);
}

#[test]
fn whatever_repeats_runs_or_fails() {
    let mut session = session();
    for (at, pieces) in some_of(CHAINS.iter().enumerate(), 4) {
        let counts = [[8, 95, 2900], [60, 400, 100_000]][at % 2];
        for times in counts {
            go(&mut session, &chain(*pieces, times));
        }
    }
    for count in [8, 60, 95, 400, 2900, 20_000] {
        go(&mut session, &ctes(count));
    }
    assert_eq!(code(&mut session, "SELECT 1"), 0);
}

/// A million levels of the shortest constructs.
#[test]
fn a_million_levels_fail() {
    let mut session = session();
    let cases = [
        ("SELECT {}", ("", "+1")),
        ("SELECT {}", ("(", ")")),
        ("SELECT {}", ("-", "")),
        ("CREATE TABLE n (a INT DEFAULT ({}))", ("(", "+1)")),
        ("SELECT 1 FROM t WHERE {}", ("", " IS NULL")),
    ];
    for (place, nest) in some_of(cases, 2) {
        let sql = nested(place, nest, "1", 1_000_000);
        assert_eq!(code(&mut session, &sql), 1436, "{}", &sql[..40]);
        assert_eq!(session.prepare(&sql).unwrap_err().code, 1436, "{}", &sql[..40]);
    }
    assert_eq!(code(&mut session, "SELECT 1"), 0);
}

/// Chains of brackets add up. Each has few operators, but all together have many.
#[test]
fn operators_behind_brackets_are_as_deep_as_those_before() {
    let mut session = session();
    let terms = |times: usize| " + 1".repeat(times);
    let nest = |times: usize, terms: &str| {
        format!("SELECT {}1{}", "(".repeat(times), format!("{terms})").repeat(times))
    };
    assert_eq!(code(&mut session, &nest(60, &terms(40))), 0);
    assert_eq!(code(&mut session, &nest(60, &terms(400))), 1436);
    assert_eq!(code(&mut session, &nest(60, &terms(4000))), 1436);
}

/// Counts that only select a stack do not make a statement fail (DEPTH-2).
#[test]
fn what_is_wide_is_not_deep() {
    let mut session = session();
    for pieces in [
        ["SELECT CASE 1", "", "", " WHEN 1 THEN 2", " END"],
        ["SELECT 1 IN (1", "", "", ", 2, 3 + 4", ")"],
        ["SELECT 1", "", "", ", 1 + 1", ""],
        ["INSERT IGNORE INTO t VALUES (1, 1)", "", "", ", (1 + 0, 1 + 1)", ""],
    ] {
        assert_eq!(code(&mut session, &chain(pieces, 4000)), 0, "{pieces:?}");
    }
    assert_eq!(code(&mut session, &chain(["SELECT 1", "", "", " OR 0 = 1", ""], 1400)), 0);
}

/// DEPTH-3, for every way to store an expression in the catalog.
#[test]
fn the_catalog_keeps_no_deep_expression() {
    let mut session = session();
    for place in PLACES.iter().filter(|place| {
        ["CREATE TABLE n (", "ALTER TABLE"].iter().any(|start| place.starts_with(start))
            && ["DEFAULT (", "CHECK"].iter().any(|word| place.contains(word))
    }) {
        let at = |times| nested(place, ("", " + 1"), "1", times);
        assert_eq!(code(&mut session, &at(150)), 1436, "{place}");
        assert_eq!(code(&mut session, &at(2900)), 1436, "{place}");
        assert_eq!(code(&mut session, &at(60)), 0, "{place}: {:?}", run(&mut session, &at(60)));
        assert_eq!(code(&mut session, "INSERT INTO t (id) VALUES (7)"), 0, "{place}");
        run(&mut session, "DELETE FROM t WHERE id = 7; DROP TABLE IF EXISTS n").unwrap();
        if place.contains("ADD COLUMN") {
            run(&mut session, "ALTER TABLE t DROP COLUMN b").unwrap();
        }
    }
}

/// The total number of parts that a plan has more often than its statement is limited.
#[test]
fn what_doubles_with_each_level_fails() {
    let mut session = session();
    for nest in [
        ("", " BETWEEN 0 AND 1"),
        ("(", " IN (1, 'a'))"),
        ("CASE ", " WHEN 1 THEN 2 WHEN 'a' THEN 3 END"),
    ] {
        assert_eq!(code(&mut session, &nested("SELECT {}", nest, "1", 6)), 0, "{nest:?}");
        let told = code(&mut session, &nested("SELECT {}", nest, "1", 80));
        assert!([0, 1436, 3170].contains(&told), "{told} {nest:?}");
    }
    let doubling = nested("SELECT {}", ("", " BETWEEN 0 AND 1"), "1", 80);
    assert_eq!(code(&mut session, &doubling), 3170);
}

/// Mixtures of nested constructs, from a generator whose seed the commit determines.
#[test]
fn any_mixture_runs_or_fails() {
    let mut session = session();
    let seed = commit_seed();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ seed;
    let mut byte = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    for _ in 0..if rounds() > 1 { 60 } else { 15 } {
        let bytes: Vec<u8> = (0..1 + 2 * usize::from(byte() % 9)).map(|_| byte()).collect();
        go(&mut session, &of_bytes(&bytes));
    }
    assert_eq!(code(&mut session, "SELECT 1"), 0, "seed {seed}");
}
