//! Tests of the SQL layer through sessions. They are one binary, so that the tests of all files run
//! in parallel.
#![allow(missing_docs)]

mod account_limits;
mod accounts;
mod backup;
mod bulk;
mod common;
mod damage;
mod depth;
mod engines;
mod gathered;
mod index_only;
mod instant;
mod isolation;
mod kept_expressions;
mod lookups;
mod many_names;
mod memory;
mod noise;
mod online;
mod padding;
mod plans;
mod points;
mod privileges;
mod query_time;
mod ranges;
mod refresh;
mod rights;
mod row_batches;
mod schedules;
mod scripts;
mod serial;
mod sessions;
mod sizes;
mod variables;
