//! The MySQL wire protocol over an [`spillway_sql::Instance`].
//!
//! - `packet`: packets in and out of a stream, each response in one write;
//! - `auth`: the handshake and the password plugins;
//! - `results`: result sets as packets, straight from borrowed values;
//! - `params`: the parameters of prepared statements;
//! - `connection`: one client's commands;
//! - `listener`: listening, admission, the graceful stop.
//!
//! One thread serves one connection, and blocks on its socket: measured on two cores shared with the client, a
//! hand-off to another thread costs more than a point select.

mod auth;
mod connection;
mod listener;
mod packet;
mod params;
mod results;
#[cfg(test)]
mod tests;

pub use listener::{Server, ServerSettings};
