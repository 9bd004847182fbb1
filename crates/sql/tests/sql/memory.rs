//! Tests that the state of sessions, and the syntax trees and values of statements, are charged to
//! the memory budget (TEXT-1, TEXT-3, UVAR-1, LARGE-1).

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
    assert_eq!(run(&mut session, "SELECT LENGTH(@v0), @w").unwrap(), ["1048576 NULL"]);
    for at in 0..many {
        run(&mut session, &format!("SET @v{at} = NULL")).unwrap();
    }
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
