//! The copies that a statement makes of large values.
//!
//! A value of several megabytes exists four times while its statement runs: in the command, as a
//! value, in the row, and in the encoded row. The budget is charged for the whole command, which
//! covers the first copy.
//!
//! - **LARGE-1**: during a statement, the budget is charged for the other three copies of values of
//!   [`LARGE`] bytes or more. A statement whose copies do not fit fails with 1041 before it
//!   changes anything.
//! - **LARGE-2**: a session does not keep such a value from one statement to the next.

use spillway::Budget;
use spillway_base::budget::{Charge, Use};
use spillway_types::Value;

use crate::errors::Result;

/// Smaller values are not charged: those of all workers fit into the fixed memory of the process.
const LARGE: usize = 256 << 10;
/// The number of copies, apart from the command.
const COPIES: usize = 3;

/// Charges the copies of `bytes` of values, if that is [`LARGE`] or more.
pub(super) fn charge(budget: &Budget, bytes: usize) -> Result<Option<Charge>> {
    if bytes < LARGE {
        return Ok(None);
    }
    Ok(Some(budget.try_charge(Use::Connections, bytes * COPIES)?))
}

/// The bytes of all values on the heap if any of them is large, else 0.
pub(super) fn bytes_of(values: &[Value]) -> usize {
    let len = |value: &Value| match value {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => 0,
    };
    if values.iter().any(|value| len(value) >= LARGE) { values.iter().map(len).sum() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::in_memory;
    use crate::tests::run;

    #[test]
    fn large2_a_session_keeps_no_large_value_of_a_statement() {
        let instance = in_memory();
        let mut session = instance.session("root", "localhost", 1);
        session.use_database("test").unwrap();
        run(&mut session, "CREATE TABLE t (id INT PRIMARY KEY, v LONGTEXT)");
        let kept = |session: &crate::session::Session| {
            let values = &session.plan_cache.buffer().values;
            values.iter().map(|value| bytes_of(std::slice::from_ref(value))).sum::<usize>()
        };
        run(&mut session, "INSERT INTO t VALUES (1, 'short')");
        for times in [LARGE, 2 * LARGE] {
            run(&mut session, &format!("REPLACE INTO t VALUES (1, '{}')", "x".repeat(times)));
            assert_eq!(kept(&session), 0);
        }
        assert_eq!(run(&mut session, "SELECT LENGTH(v) FROM t"), [(2 * LARGE).to_string()]);
    }

    #[test]
    fn large1_only_large_values_are_charged() {
        let text = |bytes: usize| Value::Text("x".repeat(bytes));
        assert_eq!(bytes_of(&[text(LARGE - 1), Value::Int(1), text(LARGE - 1)]), 0);
        assert_eq!(bytes_of(&[text(LARGE), Value::Null, text(10)]), LARGE + 10);
        let budget = Budget::new(4 * LARGE);
        assert!(charge(&budget, LARGE - 1).unwrap().is_none());
        let held = charge(&budget, LARGE).unwrap().unwrap();
        assert_eq!((held.bytes(), budget.used()), (COPIES * LARGE, COPIES * LARGE));
        assert_eq!(charge(&budget, LARGE).unwrap_err().code, 1041);
    }
}
