//! Many connections to a server, each with a durable commit in flight.
//!
//! One thread drives them all: each connection sends an update of one random row that commits by
//! itself, and sends the next when it has the answer. The client waits for all of them with epoll,
//! so that a thousand connections cost it little more than ten. The run shows how a server handles
//! many connections: with 2,000 the commits per second should be no fewer than with 64.
//!
//! Servers take turns. At the end the rows must add up to the acknowledged updates, or the run
//! fails.

mod cell;
mod client;
mod command;
mod turns;

pub(crate) use self::cell::ConnectionsResults;
pub(crate) use self::client::Client;
pub use self::command::ConnectionsArgs;
pub use self::turns::TurnsArgs;
pub(crate) use self::turns::{Figures, server};
