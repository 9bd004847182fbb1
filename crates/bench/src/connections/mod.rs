//! Many connections to a server, each with a durable commit in flight.
//!
//! One thread drives all connections. Each connection sends an update of one random row, and sends
//! the next update when it has the response. Each update is a transaction of its own. The client
//! waits for all connections with epoll, so that a thousand connections cost it little more than
//! ten. The run shows how a server handles many connections: it should commit at least as many
//! transactions per second with 2,000 connections as with 64.
//!
//! Servers take turns. At the end, the sum over the rows must equal the number of acknowledged
//! updates, or the run fails.

mod cell;
mod client;
mod command;
mod turns;

pub(crate) use self::cell::ConnectionsResults;
pub(crate) use self::client::Client;
pub use self::command::ConnectionsArgs;
pub use self::turns::TurnsArgs;
pub(crate) use self::turns::{Figures, server};
