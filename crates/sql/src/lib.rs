//! SQL over Spillway, in MySQL's dialect.
//!
//! Modules in the order in which a statement passes them:
//!
//! - `session`: an [`Instance`] is an open database that speaks SQL, a [`Session`] one client's
//!   view of it;
//! - `parse`: from text to statements;
//! - `catalog`: databases, tables and users;
//! - `names`: which names statements may create; `needs`: the rights that statements need;
//! - `expr`: binds and evaluates expressions; `query`: plans and runs queries;
//! - `rows`: stored rows of any version of their table; `dml`, `store`: changes of rows and their
//!   index entries;
//! - `ddl`: definitions of tables; `show`: SHOW and `information_schema`; `verify`: compares
//!   indexes with rows;
//! - `accounts`, `account_limits`, `grants`, `users`: accounts, their limits, rights and passwords;
//! - `api`, `errors`: results and errors.

mod account_limits;
mod accounts;
mod api;
mod catalog;
mod ddl;
mod dml;
mod errors;
mod expr;
#[cfg(fuzzing)]
pub mod fuzz;
mod grants;
mod names;
mod needs;
mod parse;
mod query;
mod rows;
mod session;
mod show;
mod store;
#[cfg(test)]
mod tests;
mod users;
mod verify;

pub use api::{ColumnFlags, Info, Outcome, PlanId, ResultColumn, ResultSink, Status};
pub use catalog::UserDef;
pub use errors::{Result, SqlError};
pub use names::printable;
pub use session::{
    Account, Front, Instance, Limits, Prepared, Session, VERSION, parse as parse_durability,
};
pub use show::Labels;
