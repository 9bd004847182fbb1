//! Compares servers whose workers are bound to cores and whose statements run near their data with
//! servers without that.
//!
//! Rows are in several tables, each of one sub-table. Each connection has one statement in flight:
//! a select or an update of one random row by its key. Either each connection keeps to one table
//! ("own"), so that a server can learn its home core, or each statement uses any of them ("any"),
//! so that nothing can be learned and the mechanism's cost shows.
//!
//! Servers take turns. In the end the tables contain the updates that the servers acknowledged, or
//! the run fails.

mod command;

pub use self::command::AffinityArgs;
