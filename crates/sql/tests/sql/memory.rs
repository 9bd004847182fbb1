//! Tests that the state of sessions, and the syntax trees and values of statements, are charged to
//! the memory budget (TEXT-1, TEXT-3, UVAR-1, LARGE-1, VALUE-MEMORY-1 to VALUE-MEMORY-3).

use crate::common::{Rows, code, instance_of, run};
use spillway::{Budget, Database, Settings};
use spillway_base::budget::Use;
use spillway_sql::{Instance, Session};
use spillway_types::Value;

fn session() -> (Instance, Session, Budget) {
    let mut settings = Settings::default();
    settings.memory_bytes = 64 << 20;
    let instance = instance_of(Database::open_in_memory(settings).unwrap()).unwrap();
    let mut session = instance.session("root", "localhost", 1);
    session.use_database("test").unwrap();
    run(&mut session, "CREATE TABLE t (id INT PRIMARY KEY)").unwrap();
    let budget = instance.database().budget().clone();
    (instance, session, budget)
}

/// Whether the charge is back at `held`, except for a few cached plans.
fn is_back(budget: &Budget, held: usize) -> bool {
    budget.used_for(Use::Connections).abs_diff(held) < 1 << 20
}

#[test]
fn text1_a_text_whose_tree_does_not_fit_fails_alone() {
    let (_instance, mut session, budget) = session();
    let held = budget.used_for(Use::Connections);
    let tables = format!("SELECT 1 FROM {}a", "a,".repeat(1_000_000));
    let list = format!("SELECT * FROM t WHERE id IN ({}1)", "1,".repeat(2_000_000));
    let columns = format!("SELECT {}1", "1,".repeat(500_000));
    let variables = format!("SET {}@a = 1", "@a = 1,".repeat(500_000));
    for sql in [tables, list, columns, variables] {
        assert_eq!(code(&mut session, &sql), 1041, "{sql:.40}");
        assert_eq!(session.prepare(&sql).unwrap_err().code, 1041, "{sql:.40}");
        assert!(is_back(&budget, held), "{sql:.40}");
        assert_eq!(code(&mut session, "SELECT 1"), 0);
    }
}

#[test]
fn text1_texts_that_fit_run_beside_full_caches() {
    let (_instance, mut session, budget) = session();
    let held = budget.used_for(Use::Connections);
    let list = format!("SELECT * FROM t WHERE id IN ({}1)", "123456,".repeat(20_000));
    assert_eq!(code(&mut session, &list), 0);
    let long = format!("SELECT LENGTH('{}')", "a, b".repeat(1 << 20));
    assert_eq!(run(&mut session, &long).unwrap(), ["4194304"]);
    assert!(is_back(&budget, held));
}

#[test]
fn text3_a_prepared_statement_is_charged_until_it_is_closed() {
    let (_instance, mut session, budget) = session();
    let held = budget.used_for(Use::Connections);
    let list = format!("SELECT * FROM t WHERE id IN ({}1)", "1,".repeat(10_000));
    let prepared = session.prepare(&list).unwrap();
    let more = budget.used_for(Use::Connections) - held;
    // An item is a node of at least 328 bytes.
    assert!(more > 10_000 * 328, "{more} bytes for 10,000 items");
    session.close_statement(prepared.id);
    assert!(is_back(&budget, held));
    run(&mut session, &format!("PREPARE p FROM '{list}'")).unwrap();
    assert!(budget.used_for(Use::Connections) > held + 10_000 * 328);
    run(&mut session, "DEALLOCATE PREPARE p").unwrap();
    assert!(is_back(&budget, held));
}

#[test]
fn large1_a_statement_whose_copies_of_a_value_do_not_fit_fails_alone() {
    let (_instance, mut session, budget) = session();
    let held = budget.used_for(Use::Connections);
    run(&mut session, "CREATE TABLE b (id INT PRIMARY KEY, v LONGTEXT)").unwrap();
    let value = |mib: usize| "0123456789abcdef".repeat(mib << 16);
    let insert = |id, mib| format!("INSERT INTO b VALUES ({id}, '{}')", value(mib));
    let rows = |mib| format!("INSERT INTO b VALUES (3, 'x'), (4, '{}')", value(mib));
    let prepared = session.prepare("INSERT INTO b VALUES (?, ?)").unwrap().id;
    let execute = |session: &mut Session, id, mib| {
        let params = [Value::Int(id), Value::Text(value(mib))];
        session.execute(prepared, &params, &mut Rows::default()).err().map_or(0, |e| e.code)
    };
    assert_eq!(code(&mut session, &insert(1, 30)), 1041);
    assert_eq!(code(&mut session, &rows(30)), 1041);
    assert_eq!(execute(&mut session, 2, 30), 1041);
    assert!(is_back(&budget, held));
    assert_eq!(run(&mut session, "SELECT COUNT(*) FROM b").unwrap(), ["0"]);
    for (id, code) in
        [code(&mut session, &insert(1, 4)), execute(&mut session, 2, 4)].iter().enumerate()
    {
        assert_eq!(*code, 0, "{id}");
    }
    let found = run(&mut session, "SELECT LENGTH(v) FROM b").unwrap();
    assert_eq!(found, [(4 << 20).to_string(), (4 << 20).to_string()]);
}

#[test]
fn uvar1_user_variables_have_the_budget_as_their_limit() {
    let (instance, mut session, budget) = session();
    let held = budget.used_for(Use::Connections);
    let many = (0..100)
        .find(|at| code(&mut session, &format!("SET @v{at} = REPEAT('x', 1048576)")) == 1041)
        .expect("a variable that does not fit");
    assert!((30..64).contains(&many), "{many} MiB");
    assert_eq!(code(&mut session, "SELECT @w := REPEAT('x', 16777216)"), 1041);
    let free = |session: &mut Session, which: std::ops::Range<usize>| {
        which.for_each(|at| drop(run(session, &format!("SET @v{at} = NULL")).unwrap()));
    };
    // A use of a variable needs room for a copy.
    free(&mut session, many / 2..many);
    assert_eq!(run(&mut session, "SELECT LENGTH(@v0), @w").unwrap(), ["1048576 NULL"]);
    free(&mut session, 0..many / 2);
    assert!(is_back(&budget, held));
    run(&mut session, "SET @v = REPEAT('x', 4194304)").unwrap();
    assert!(budget.used_for(Use::Connections) > held + (4 << 20));
    drop(session);
    assert!(is_back(&budget, held));
    drop(instance);
}

#[test]
fn named_locks_have_the_budget_as_their_limit() {
    let (instance, mut session, budget) = session();
    let held = budget.used_for(Use::Connections);
    let rest = budget.limit() - budget.used() - (12 << 20);
    let others = budget.charge(Use::Transactions, rest);
    run(&mut session, "SET @n = 0").unwrap();
    // The plan of a text with variables is not cached.
    let some = ["GET_LOCK(CONCAT('lock ', @n := @n + 1), 0)"; 50].join(", ");
    let some = format!("SELECT {some}");
    let refused = (0..100_000).step_by(50).find(|_| code(&mut session, &some) == 1041);
    let many = refused.expect("a lock that does not fit");
    assert!((10_000..40_000).contains(&many), "{many} locks");
    assert_eq!(code(&mut session, "SELECT GET_LOCK('lock 1', 0)"), 0, "it has it already");
    let all: u64 = run(&mut session, "SELECT RELEASE_ALL_LOCKS()").unwrap()[0].parse().unwrap();
    assert!(all > many as u64);
    assert!(is_back(&budget, held));
    assert_eq!(code(&mut session, &some), 0);
    drop((session, others, instance));
}

#[test]
fn savepoint1_savepoints_have_the_budget_as_their_limit() {
    let (instance, mut session, budget) = session();
    let held = budget.used_for(Use::Connections);
    let rest = budget.limit() - budget.used() - (12 << 20);
    let others = budget.charge(Use::Transactions, rest);
    run(&mut session, "CREATE TABLE s (id INT PRIMARY KEY); BEGIN").unwrap();
    run(&mut session, "INSERT INTO s VALUES (1)").unwrap();
    let set = |from: usize| {
        let some = (from..from + 100).map(|at| format!("SAVEPOINT s{at}"));
        some.collect::<Vec<_>>().join("; ")
    };
    let refused = (0..200_000).step_by(100).find(|from| code(&mut session, &set(*from)) == 1041);
    let many = refused.expect("a savepoint that does not fit");
    assert!((10_000..60_000).contains(&many), "{many} savepoints");
    run(&mut session, "INSERT INTO s VALUES (2)").unwrap();
    run(&mut session, "SAVEPOINT s0; RELEASE SAVEPOINT s2").unwrap();
    assert_eq!(code(&mut session, "ROLLBACK TO s0"), 1305, "it was set after s2");
    run(&mut session, "INSERT INTO s VALUES (3); ROLLBACK TO S1").unwrap();
    assert_eq!(run(&mut session, "SELECT id FROM s").unwrap(), ["1"]);
    run(&mut session, "ROLLBACK").unwrap();
    assert!(is_back(&budget, held));
    drop((session, others, instance));
}

/// Each makes a value, or copies of one, that a budget of 64 MiB has no room for.
const TOO_LARGE: [&str; 16] = [
    "SELECT MD5(REPEAT('x', 60000000))",
    "SELECT LENGTH(REGEXP_REPLACE(REPEAT('a', 40000), 'a', REPEAT('b', 1500)))",
    "SELECT MD5(REPLACE(REPEAT('a', 40000), 'a', REPEAT('b', 1500)))",
    "SELECT LENGTH(REVERSE(REPEAT('x', 9000000)))",
    "SELECT LENGTH(LPAD('x', 15000000, 'y'))",
    "SELECT LENGTH(RPAD(x'00', 60000000, x'01'))",
    "SELECT LENGTH(HEX(REPEAT('x', 20000000)))",
    "SELECT LENGTH(TO_BASE64(REPEAT('x', 20000000)))",
    "SELECT LENGTH(CONCAT(REPEAT('x', 20000000), REPEAT('y', 20000000)))",
    "SELECT LENGTH(EXPORT_SET(-1, REPEAT('x', 900000), 'n', ',', 64))",
    "SELECT LENGTH(INSERT(REPEAT('x', 5000000), 2, 3, REPEAT('y', 5000000)))",
    "SELECT LENGTH(JSON_EXTRACT(CONCAT('[1', REPEAT(',1', 900000), ']'), '$'))",
    "SELECT REPEAT('x', 30000000) LIKE CONCAT('%', REPEAT('x', 3))",
    "SELECT REPEAT('x', 9000000), REPEAT('y', 9000000), REPEAT('z', 9000000)",
    "VALUES ROW(REPEAT('x', 9000000), REPEAT('y', 9000000), REPEAT('z', 9000000))",
    "SELECT COUNT(*) FROM t WHERE id = 1 OR LENGTH(REVERSE(REPEAT('x', 9000000))) = id",
];

#[test]
fn value_memory_1_values_of_functions_that_do_not_fit_fail_alone() {
    let (_instance, mut session, budget) = session();
    assert_eq!(code(&mut session, "INSERT INTO t VALUES (2)"), 0);
    let held = budget.used_for(Use::Connections);
    for sql in TOO_LARGE {
        assert_eq!(code(&mut session, sql), 1041, "{sql}");
        assert!(is_back(&budget, held), "{sql}");
    }
    let change = "UPDATE t SET id = LENGTH(REVERSE(REPEAT('x', 9000000)))";
    assert_eq!(code(&mut session, change), 1041);
    assert_eq!(run(&mut session, "SELECT id FROM t").unwrap(), ["2"]);
}

/// Inserts rows with the keys from 1 on.
fn insert(session: &mut Session, rows: usize) {
    let rows: Vec<String> = (1..=rows).map(|id| format!("({id})")).collect();
    run(session, &format!("INSERT INTO t VALUES {}", rows.join(","))).unwrap();
}

/// What a row's expressions held is given back before the next row.
#[test]
fn value_memory_2_and_3_rows_one_after_another_need_the_memory_of_one() {
    let (_instance, mut session, budget) = session();
    insert(&mut session, 40);
    run(&mut session, "CREATE TABLE v (id INT PRIMARY KEY, l INT, s TEXT)").unwrap();
    let held = budget.used_for(Use::Connections);
    let long = "REPEAT('x', 2000000 + id)";
    for (sql, first) in [
        (format!("SELECT COUNT(*) FROM t WHERE LENGTH({long}) > 9"), "40"),
        (format!("SELECT SUM(LENGTH(CONCAT({long}, 'y'))) FROM t"), "80000860"),
        (format!("SELECT LENGTH(v) FROM (SELECT {long} AS v FROM t LIMIT 3) d"), "2000001"),
        (format!("SELECT LENGTH({long}), LENGTH({long}) FROM t"), "2000001 2000001"),
        (format!("SELECT (SELECT SUM(LENGTH({long})) FROM t u) FROM t LIMIT 2"), "80000820"),
        (
            "SELECT (SELECT COUNT(*) FROM t u WHERE u.id <= t.id \
                  AND LENGTH(REPEAT('y', 900000 + u.id)) > 5) FROM t WHERE id < 5 ORDER BY id"
                .to_owned(),
            "1",
        ),
        ("SELECT MAX(REPEAT('x', 90000 + id)) = REPEAT('x', 90040) FROM t".to_owned(), "1"),
    ] {
        let rows = run(&mut session, &sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        assert_eq!(rows[0], first, "{sql}");
        assert!(is_back(&budget, held), "{sql}");
    }
    for sql in [
        format!("INSERT INTO v SELECT id, LENGTH({long}), 's' FROM t"),
        "UPDATE v SET l = LENGTH(REPEAT('x', 3000000 + id))".to_owned(),
        "DELETE FROM v WHERE LENGTH(REPEAT('x', 3000000 + id)) = 1".to_owned(),
        "INSERT INTO v VALUES (1, 1, 's') ON DUPLICATE KEY UPDATE l = LENGTH(REPEAT('x', 2000000))"
            .to_owned(),
    ] {
        assert_eq!(code(&mut session, &sql), 0, "{sql}");
        assert!(is_back(&budget, held), "{sql}");
    }
    assert_eq!(run(&mut session, "SELECT REPEAT('x', 2000000) FROM t").unwrap().len(), 40);
}

/// MIN, MAX and GROUP_CONCAT keep values of each group.
#[test]
fn groups_are_charged_for_the_large_values_that_they_keep() {
    let (_instance, mut session, budget) = session();
    insert(&mut session, 200);
    run(&mut session, "SET group_concat_max_len = 100000000").unwrap();
    let held = budget.used_for(Use::Connections);
    for sql in [
        "SELECT LENGTH(MAX(REPEAT(id, 500000))) FROM t GROUP BY id",
        "SELECT LENGTH(GROUP_CONCAT(REPEAT(id, 90000))) FROM t",
    ] {
        // The groups have no room, or the value of the next row.
        assert!([1038, 1041].contains(&code(&mut session, sql)), "{sql}");
        assert!(is_back(&budget, held), "{sql}");
    }
}
