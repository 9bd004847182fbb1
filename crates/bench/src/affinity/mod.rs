//! Servers whose workers keep to cores and whose statements keep to their data, beside servers where they do not.
//!
//! Rows are in several tables, each of one sub-table. Each connection has one statement in flight: a select or an update of one random row
//! by its key. Either each connection keeps to one table ("own"), so that a server can learn where it is at home, or each statement
//! is about any of them ("any"), so that there is nothing to be learnt and what the mechanism costs is seen.
//!
//! Servers take turns. What updates they told of is in the tables in the end, or the run fails.

mod command;

pub use self::command::AffinityArgs;
