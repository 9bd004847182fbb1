//! SQL over Spillway, in MySQL's dialect.
//!
//! Modules, the lowest layer first; a module imports only modules above it in this list:
//!
//! - `errors`, `names`, `api`: errors, the rules of names, and results;
//! - `parser`: parses text into statements;
//! - `catalog`: databases, tables, users, and the layouts of stored rows;
//! - `process`, `privilege`, `variables`: the list of processes, accounts with their privileges,
//!   and the variables of a session;
//! - `expression`: expressions and their evaluation;
//! - `planner`: binds names and plans queries; `executor`: runs queries; `dml`: changes rows;
//! - `ddl`: changes definitions of tables; `information_schema`: SHOW, and the tables of
//!   `information_schema`;
//! - `session`: an [`Instance`] is an open database that speaks SQL, and a [`Session`] is one
//!   client's view of it.

mod api;
mod catalog;
mod ddl;
mod dml;
mod errors;
mod executor;
mod expression;
#[cfg(fuzzing)]
pub mod fuzz;
mod information_schema;
mod names;
mod parser;
mod planner;
mod privilege;
mod process;
mod session;
#[cfg(test)]
mod tests;
mod variables;

pub use api::{ColumnFlags, Front, Info, Outcome, PlanId, ResultColumn, ResultSink, Status};
pub use catalog::{UserDef, parse_engine};
pub use errors::{Result, SqlError, printable};
pub use information_schema::Labels;
pub use session::{Account, Instance, Limits, Prepared, Session};
pub use variables::{VERSION, parse as parse_durability};
