//! A session's system variables: the global values when the session began, and the values that it
//! has set since.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The names and values of system variables. A session stores only those that it has set, and
/// shares the others.
pub(crate) struct SystemVariables {
    initial: Arc<BTreeMap<String, String>>,
    own: BTreeMap<String, String>,
}

impl SystemVariables {
    pub(crate) fn new(initial: Arc<BTreeMap<String, String>>) -> SystemVariables {
        SystemVariables { initial, own: BTreeMap::new() }
    }

    /// A variable's value.
    pub(crate) fn get(&self, name: &str) -> Option<&String> {
        self.own.get(name).or_else(|| self.initial.get(name))
    }

    /// Sets a variable.
    pub(crate) fn insert(&mut self, name: String, value: String) {
        if self.initial.get(&name) == Some(&value) {
            self.own.remove(&name);
        } else {
            self.own.insert(name, value);
        }
    }

    /// All variables.
    pub(crate) fn all(&self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::clone(&self.initial);
        all.extend(self.own.iter().map(|(name, value)| (name.clone(), value.clone())));
        all
    }
}
