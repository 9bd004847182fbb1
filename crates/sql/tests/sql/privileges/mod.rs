//! Tests the privileges that statements need (NEED-1 to NEED-4, NEED-6). Users with every set of
//! privileges run every kind of statement, and name its table in every way.
//!
//! The list of statements (`statements`) states the privileges that each one needs, after MySQL's
//! manual. The expected result follows from this list by the rules of `model`, which uses no code
//! of the product.

mod definitions;
mod model;
mod quoted;
mod statements;
mod ways;

use crate::common::{code, run};
use model::{Held, USERS, allowed, interesting};
use spillway_sql::{Instance, Session};
use statements::{STATEMENTS, Statement};
use ways::{WAYS, Way};

/// The error codes for missing privileges.
const DENIALS: [u16; 5] = [1044, 1045, 1142, 1143, 1227];

/// A session of an account that runs statements in a way's current database.
struct Runner {
    held: Held,
    session: Session,
}

fn instance() -> Instance {
    let instance = crate::common::in_memory();
    let mut root = instance.session("root", "localhost", 1);
    run(&mut root, "CREATE DATABASE mine").unwrap();
    run(&mut root, "CREATE TABLE mine.t (id INT PRIMARY KEY, a INT, om INT)").unwrap();
    run(&mut root, "INSERT INTO mine.t VALUES (1, 1, 1), (2, 2, 2)").unwrap();
    for database in ways::DATABASES {
        run(&mut root, &format!("CREATE DATABASE {database}")).unwrap();
        for table in ways::TABLES {
            let name = format!("{database}.{table}");
            let sql = format!("CREATE TABLE {name} (id INT PRIMARY KEY, a INT DEFAULT 7, od INT)");
            run(&mut root, &sql).unwrap();
            run(&mut root, &format!("INSERT INTO {name} VALUES (1, 1, 1), (2, 2, 2)")).unwrap();
        }
    }
    for held in USERS {
        let name = held.user();
        run(&mut root, &format!("CREATE USER {name}; GRANT ALL ON mine.* TO {name}")).unwrap();
        for database in ways::DATABASES {
            // A privilege that no statement here needs lets the account use the database as its
            // current one.
            let rights = format!("EXECUTE{}", held.listed());
            let pattern = database.replace('_', "\\_");
            run(&mut root, &format!("GRANT {rights} ON {pattern}.* TO {name}")).unwrap();
        }
    }
    instance
}

fn session(instance: &Instance, user: &str, number: u64, way: &Way) -> Session {
    let mut session = instance.session(user, "localhost", number);
    run(&mut session, &format!("USE {}", way.current)).unwrap();
    session
}

/// Runs a statement in a transaction that is rolled back.
fn tried(session: &mut Session, sql: &str) -> u16 {
    assert_eq!(code(session, "BEGIN"), 0);
    let answer = code(session, sql);
    assert_eq!(code(session, "ROLLBACK"), 0, "after {sql}");
    answer
}

fn check(statement: &Statement, runner: &mut Runner, sql: &str, how: &str) {
    let answer = tried(&mut runner.session, sql);
    let user = runner.held.user();
    if allowed(statement.needs, runner.held) {
        assert!(!DENIALS.contains(&answer), "{how}, {user} may: {sql}: {answer}");
    } else {
        assert_eq!(answer, 1142, "{how}, {user} may not: {sql}");
    }
}

/// Statements as text, which are bound for each user, also by their shapes and after root has run
/// the same text.
#[test]
fn each_statement_needs_its_rights_however_its_tables_are_named() {
    let instance = instance();
    for (at, way) in WAYS.iter().enumerate() {
        let first = 1000 * (at as u64 + 1);
        let mut root = session(&instance, "root", first, way);
        let mut runners: Vec<Runner> = (first + 1..)
            .zip(USERS)
            .map(|(id, held)| Runner {
                held: *held,
                session: session(&instance, &held.user(), id, way),
            })
            .collect();
        for statement in STATEMENTS {
            let Some(sql) = way.spell(statement.sql) else { continue };
            for runner in &mut runners {
                check(statement, runner, &sql, "first");
            }
            assert_eq!(tried(&mut root, &sql), 0, "{sql}: {:?}", run(&mut root, &sql));
            for runner in &mut runners {
                check(statement, runner, &sql, "again");
            }
        }
    }
}

/// Statements that are prepared, and those that are explained.
#[test]
fn a_wrapped_statement_needs_what_it_wraps() {
    let instance = instance();
    for (at, way) in WAYS.iter().enumerate() {
        let first = 1000 * (at as u64 + 1);
        for statement in STATEMENTS {
            let Some(sql) = way.spell(statement.sql) else { continue };
            for (id, held) in (first..).zip(interesting(statement.needs)) {
                let user = held.user();
                let session = session(&instance, &user, id, way);
                let mut runner = Runner { held, session };
                if statement.explained {
                    check(statement, &mut runner, &format!("EXPLAIN {sql}"), "explained");
                }
                let may = allowed(statement.needs, held);
                // Statements about rows are bound when they are prepared, the others when they run.
                let text = sql.replace('\\', "\\\\").replace('\'', "''");
                let prepared = code(&mut runner.session, &format!("PREPARE p FROM '{text}'"));
                assert!(!may || prepared == 0, "prepared, {user} may: {sql}: {prepared}");
                if prepared == 0 {
                    check(statement, &mut runner, "EXECUTE p", &format!("prepared {sql}"));
                } else {
                    assert_eq!(prepared, 1142, "prepared, {user}: {sql}");
                }
            }
        }
    }
}

/// A prepared statement is denied once its privilege is revoked.
#[test]
fn a_prepared_statement_is_asked_again() {
    let instance = instance();
    let mut root = instance.session("root", "localhost", 1);
    for statement in STATEMENTS.iter().filter(|statement| !statement.needs.is_empty()) {
        let way = &WAYS[0];
        let Some(sql) = way.spell(statement.sql) else { continue };
        run(&mut root, "CREATE USER v; GRANT ALL ON mine.* TO v; GRANT ALL ON d.* TO v").unwrap();
        let mut user = session(&instance, "v", 2, way);
        let Ok(prepared) = user.prepare(&sql) else { panic!("{sql}") };
        let mut rows = crate::common::Rows::default();
        run(&mut user, "BEGIN").unwrap();
        user.execute(prepared.id, &[], &mut rows).unwrap_or_else(|error| panic!("{sql}: {error}"));
        run(&mut user, "ROLLBACK").unwrap();
        run(&mut root, "REVOKE ALL ON d.* FROM v; GRANT EXECUTE ON d.* TO v").unwrap();
        let denied = user.execute(prepared.id, &[], &mut rows).unwrap_err();
        assert_eq!(denied.code, 1142, "{sql}");
        run(&mut root, "DROP USER v").unwrap();
    }
}

/// An error does not reveal to a user without privileges what exists (NEED-1).
#[test]
fn what_there_is_not_is_denied_as_what_there_is() {
    let instance = instance();
    for (at, way) in ways::MISSING.iter().enumerate() {
        let mut user = instance.session("u0", "localhost", 50 + at as u64);
        user.use_database("mine").unwrap();
        for statement in STATEMENTS {
            let Some(sql) = way.spell(statement.sql) else { continue };
            assert_eq!(tried(&mut user, &sql), 1142, "{sql}");
        }
    }
}
