//! `max_execution_time` ends every wait of a query.

use std::task::Waker;
use std::time::Duration;

use spillway_base::clock;
use spillway_sql::{Instance, Session};

use crate::common::{Rows, code, in_memory, run};

fn session(instance: &Instance, id: u64) -> Session {
    let mut session = instance.session("root", "localhost", id);
    session.use_database("test").unwrap();
    session
}

/// The time limit of a query includes its waits for rows, however it waits: it is left, or blocks
/// its thread. A shorter timeout of the lock still ends the wait.
#[test]
fn the_time_of_a_query_ends_its_waits_for_rows() {
    let instance = in_memory();
    let (mut holder, mut waiting) = (session(&instance, 1), session(&instance, 2));
    run(&mut holder, "CREATE TABLE t (id INT PRIMARY KEY, n INT); INSERT INTO t VALUES (1, 0)")
        .unwrap();
    run(&mut holder, "BEGIN; UPDATE t SET n = 1").unwrap();
    let query = "SELECT n FROM t FOR UPDATE";
    run(&mut waiting, &format!("PREPARE p FROM '{query}'")).unwrap();
    // The holder goes on holding the row, and the timeout for rows is 50 s.
    run(&mut waiting, "SET max_execution_time = 50").unwrap();
    for sql in [query, "EXECUTE p", "SELECT n FROM t LOCK IN SHARE MODE"] {
        assert_eq!(code(&mut waiting, sql), 3024, "{sql}");
    }
    run(&mut waiting, "SET innodb_lock_wait_timeout = 1, max_execution_time = 100000").unwrap();
    assert_eq!(code(&mut waiting, query), 1205);
    // The limit is for queries, and it is gone with its query.
    run(&mut waiting, "SET max_execution_time = 1").unwrap();
    assert_eq!(code(&mut waiting, "UPDATE t SET n = 2"), 1205);
    run(&mut waiting, "BEGIN").unwrap();
    assert_eq!(code(&mut waiting, query), 3024);
    assert_eq!(code(&mut waiting, "UPDATE t SET n = 2"), 1205);
    run(&mut waiting, "ROLLBACK; SET innodb_lock_wait_timeout = 50, max_execution_time = 50")
        .unwrap();
    waiting.set_waker(Waker::noop().clone());
    let mut rows = Rows::default();
    waiting.query(query, &mut rows).unwrap_err();
    let left_until = waiting.waits_until().expect("the query was left");
    assert!(left_until <= clock::now() + Duration::from_millis(50));
    while clock::now() < left_until {
        std::thread::yield_now();
    }
    assert_eq!(waiting.resume(&mut rows).unwrap_err().code, 3024);
    assert_eq!(waiting.waits_until(), None);
    run(&mut holder, "COMMIT").unwrap();
    run(&mut waiting, "SET max_execution_time = 100000").unwrap();
    assert_eq!(run(&mut waiting, query).unwrap(), ["1"]);
}

/// The time limit of a query also ends its wait for a table.
#[test]
fn the_time_of_a_query_ends_its_wait_for_a_table() {
    let instance = in_memory();
    let (mut holder, mut waiting) = (session(&instance, 1), session(&instance, 2));
    run(&mut holder, "CREATE TABLE t (id INT PRIMARY KEY); LOCK TABLES t WRITE").unwrap();
    run(&mut waiting, "SET max_execution_time = 50").unwrap();
    assert_eq!(code(&mut waiting, "SELECT * FROM t"), 3024);
    run(&mut waiting, "SET lock_wait_timeout = 1, max_execution_time = 100000").unwrap();
    assert_eq!(code(&mut waiting, "SELECT * FROM t"), 1205);
}
