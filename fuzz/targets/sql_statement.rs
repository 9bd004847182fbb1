#![no_main]
//! Any text, as the statements of a session over a new database: what it does not understand it refuses.

mod common;

use spillway_sql::{Instance, Outcome, ResultColumn, ResultSink, SqlError};
use spillway_types::ValueRef;

/// Takes a result and checks its shape.
#[derive(Default)]
struct Checked {
    columns: Option<usize>,
}

impl ResultSink for Checked {
    fn columns(&mut self, columns: &[ResultColumn]) -> Result<(), SqlError> {
        assert!(self.columns.replace(columns.len()).is_none(), "two results in one");
        assert!(!columns.is_empty());
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError> {
        assert_eq!(self.columns, Some(values.len()), "a row as wide as its columns");
        Ok(())
    }

    fn end_rows(&mut self, _: &Outcome) -> Result<(), SqlError> {
        assert!(self.columns.take().is_some(), "an end of no rows");
        Ok(())
    }

    fn ok(&mut self, _: &Outcome) -> Result<(), SqlError> {
        assert!(self.columns.is_none(), "rows that do not end");
        Ok(())
    }
}

/// What takes its time by itself is not what hangs.
fn waits(sql: &str) -> bool {
    let lower = sql.to_ascii_lowercase();
    ["sleep", "benchmark", "max_execution_time"].iter().any(|word| lower.contains(word))
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    if waits(&text) {
        return;
    }
    let db = common::small_database();
    let instance = Instance::open(db).expect("a new catalog");
    let mut session = instance.session("root", "localhost", 1);
    session
        .query(
            "USE test; SET max_execution_time = 1000, lock_wait_timeout = 1, innodb_lock_wait_timeout = 1; \
             CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a INT, s VARCHAR(20) UNIQUE, d DATETIME, KEY (a, d)); \
             INSERT INTO t (a, s, d) VALUES (1, 'a', NOW()), (NULL, NULL, NULL), (3, 'c', '2020-01-01')",
            &mut Checked::default(),
        )
        .expect("the statements before");
    let _ = session.query(&text, &mut Checked::default());
    // The session goes on, whatever came.
    let _ = session.query("ROLLBACK", &mut Checked::default());
    session.query("SELECT 1", &mut Checked::default()).expect("a session that goes on");
    if let Ok(prepared) = session.prepare(&text) {
        let params = vec![spillway_types::Value::Int(1); prepared.params];
        let _ = session.execute(prepared.id, &params, &mut Checked::default());
    }
});
