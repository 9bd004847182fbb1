//! User variables: `@name`.
//!
//! - **UVAR-1**: the memory of a session's variables is charged to the budget. An assignment that
//!   does not fit fails with 1041, and the variable keeps its value.
//! - **UVAR-2**: when a statement starts over, its expressions see the values that the variables
//!   had before its first start. A statement starts over after a suspension, after a conflict, and
//!   when another transaction may have given another key to a row that the statement has to lock
//!   (NEWEST-6).

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use spillway::Budget;
use spillway_base::budget::{Stepped, Use};
use spillway_types::Value;

use crate::errors::Result;

/// The memory of a variable apart from its name and value: its allocations, and its entries in the
/// table of variables and in that of previous values.
const ENTRY_BYTES: usize = 224;

fn size_of(name: &str, value: &Value) -> usize {
    let bytes = match value {
        Value::Text(text) => text.capacity(),
        Value::Bytes(bytes) => bytes.capacity(),
        _ => 0,
    };
    ENTRY_BYTES + 2 * name.len() + bytes
}

/// The user variables of a session.
pub(crate) struct UserVariables {
    values: HashMap<String, Value>,
    /// The previous values of the variables that the running statement has assigned in expressions.
    before: HashMap<String, Option<Value>>,
    /// The memory charge for both tables.
    held: Stepped,
}

impl UserVariables {
    pub(crate) fn new(budget: &Budget) -> UserVariables {
        let held = Stepped::new(budget, Use::Connections);
        UserVariables { values: HashMap::new(), before: HashMap::new(), held }
    }

    /// A variable's value, if it has one.
    pub(crate) fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// Sets a variable permanently.
    ///
    /// # Errors
    /// 1041 if its value does not fit (UVAR-1).
    pub(crate) fn set(&mut self, name: String, value: Value) -> Result<()> {
        let gone = self.values.get(&name).map_or(0, |value| size_of(&name, value));
        self.held.try_set(self.held.bytes() - gone + size_of(&name, &value))?;
        self.values.insert(name, value);
        Ok(())
    }

    /// Sets a variable in an expression. The assignment is undone if the statement starts over.
    ///
    /// # Errors
    /// 1041 if its value does not fit (UVAR-1).
    pub(crate) fn assign(&mut self, name: &str, value: Value) -> Result<()> {
        if self.before.contains_key(name) {
            return self.set(name.to_owned(), value);
        }
        self.held.try_set(self.held.bytes() + size_of(name, &value))?;
        let before = self.values.insert(name.to_owned(), value);
        self.before.insert(name.to_owned(), before);
        Ok(())
    }

    /// Called when a statement begins. The previous statement's assignments become permanent.
    pub(crate) fn begin_statement(&mut self) {
        if self.before.is_empty() {
            return;
        }
        let before = std::mem::take(&mut self.before);
        let values = before.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        self.held.sub(values.map(|(name, value)| size_of(name, value)).sum());
    }

    /// Undoes the running statement's assignments, because it starts over (UVAR-2).
    pub(crate) fn undo(&mut self) {
        for (name, before) in std::mem::take(&mut self.before) {
            let Entry::Occupied(mut entry) = self.values.entry(name) else { continue };
            self.held.sub(size_of(entry.key(), entry.get()));
            match before {
                Some(value) => {
                    entry.insert(value);
                }
                None => {
                    entry.remove();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: usize) -> Value {
        Value::Text("x".repeat(bytes))
    }

    /// The length of a variable's text.
    fn length(variables: &UserVariables, name: &str) -> Option<usize> {
        variables.get(name).map(|value| value.to_text().len())
    }

    #[test]
    fn uvar1_variables_are_charged_and_refused() {
        let budget = Budget::new(4 << 20);
        let mut variables = UserVariables::new(&budget);
        for at in 0..3 {
            variables.set(format!("v{at}"), text(1 << 20)).unwrap();
        }
        assert!(budget.used() >= 3 << 20);
        assert_eq!(variables.set("w".to_owned(), text(2 << 20)).unwrap_err().code, 1041);
        assert_eq!(variables.assign("v0", text(2 << 20)).unwrap_err().code, 1041);
        assert_eq!(length(&variables, "v0"), Some(1 << 20), "it keeps its value");
        assert_eq!(length(&variables, "w"), None);
        for at in 0..3 {
            variables.set(format!("v{at}"), Value::Null).unwrap();
        }
        assert_eq!(budget.used(), 0);
        let many = (0..1_000_000)
            .find(|at| variables.set(format!("n{at}"), Value::Int(*at)).is_err())
            .unwrap();
        assert!(many < (4 << 20) / ENTRY_BYTES as i64, "small ones are, too");
        drop(variables);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn uvar2_what_a_statement_assigned_is_taken_back() {
        let budget = Budget::new(8 << 20);
        let mut variables = UserVariables::new(&budget);
        variables.set("a".to_owned(), text(1 << 20)).unwrap();
        let before = budget.used();
        variables.begin_statement();
        for count in 1..4 {
            variables.assign("a", text(count << 20)).unwrap();
            variables.assign("b", Value::Int(1)).unwrap();
        }
        assert!(budget.used() >= 4 << 20, "both values are there");
        variables.undo();
        assert_eq!((length(&variables, "a"), length(&variables, "b")), (Some(1 << 20), None));
        variables.assign("a", Value::Int(7)).unwrap();
        variables.begin_statement();
        variables.undo();
        assert!(matches!(variables.get("a"), Some(Value::Int(7))));
        assert!(budget.used() < before);
    }
}
