#![no_main]
//! Statements of expressions nested within each other any number of times: each runs or fails, and the process goes on.

#[allow(dead_code)]
#[path = "../../crates/sql/tests/sql/common/deep.rs"]
mod deep;

mod common;

use common::Ignored;
use spillway_sql::Instance;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let text = deep::of_bytes(&bytes[..bytes.len().min(33)]);
    let db = common::small_database();
    let instance = Instance::open(db).expect("a new catalog");
    let mut session = instance.session("root", "localhost", 1);
    session
        .query(
            "USE test; SET max_execution_time = 1000; \
             CREATE TABLE t (id INT PRIMARY KEY, a INT); INSERT INTO t VALUES (1, 1), (2, NULL)",
            &mut Ignored,
        )
        .expect("the statements before");
    let _ = session.query(&text, &mut Ignored);
    if let Ok(prepared) = session.prepare(&text) {
        let params = vec![spillway_types::Value::Int(1); prepared.params];
        let _ = session.execute(prepared.id, &params, &mut Ignored);
    }
    // Later statements evaluate a DEFAULT or a CHECK that the text stored.
    let _ = session.query("INSERT INTO t (id) VALUES (3)", &mut Ignored);
    let _ = session.query("ROLLBACK", &mut Ignored);
    session.query("SELECT 1", &mut Ignored).expect("a session that goes on");
});
