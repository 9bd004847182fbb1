//! SQL over Spillway, in MySQL's dialect.
//!
//! In the order a statement passes them:
//!
//! - `session`: an [`Instance`] is an open database that speaks SQL, a [`Session`] one client's view of it;
//! - `parse`: text to statements;
//! - `catalog`: which databases, tables and users there are;
//! - `expr`: expressions bound and evaluated; `query`: queries planned and run;
//! - `rows`: rows as they are stored, of whichever version of their table; `dml`, `store`: rows and their index entries changed;
//! - `ddl`: definitions of tables; `show`: SHOW and `information_schema`; `verify`: whether indexes are what rows say; `accounts`, `grants`, `users`: accounts, their rights and passwords; `names`: which names statements may create; `needs`: what statements need to be allowed;
//! - `api`, `errors`: what comes out.

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
pub use session::{Front, Instance, Limits, Prepared, Session, VERSION, parse as parse_durability};
pub use show::Labels;
