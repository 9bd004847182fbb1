//! The MySQL wire protocol over an [`spillway_sql::Instance`].
//!
//! Modules, in the order from a client's arrival to its results. The last two items are outside
//! this path:
//!
//! - `listener` listens, and shuts down gracefully; `accept` handles failures to accept a client;
//!   `admission` limits the number of connections; `server` has the counters and settings that
//!   connections share;
//! - `transport` reads and writes a client's bytes, plain or through TLS (`tls`); `packet` splits
//!   these bytes into packets, and collects the packets of a response;
//! - `capabilities`, `auth` and `login` do the handshake and check the password; `guard` delays
//!   logins after failed ones;
//! - `pool` has the worker threads; `vanished` ends statements whose clients have disconnected;
//! - `connection` executes commands; `escape` converts statements that are not UTF-8; `params`
//!   decodes the parameters of prepared statements;
//! - `results`, `columns` and `rows` write responses from borrowed values; `codec` encodes numbers
//!   and bytes;
//! - `metrics` serves counters, and `inspection` the contents of the storage, both over `http`;
//! - `loopback` is a client within the process, for measurements without the system's network.
//!
//! A client costs memory but no thread. A few workers serve all clients that have sent something. A
//! worker runs a statement until the statement ends or must wait. A worker waits neither for
//! clients nor for commits. `pool` explains how and why.

mod accept;
mod admission;
mod auth;
mod batched_send;
mod caching;
mod capabilities;
mod codec;
mod columns;
mod connection;
mod escape;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod guard;
mod http;
mod inspection;
mod listener;
mod login;
mod loopback;
mod metrics;
mod packet;
mod params;
mod pool;
mod results;
mod rows;
mod server;
mod tls;
mod transport;
mod vanished;

pub use listener::Server;
pub use loopback::Loopback;
pub use metrics::MetricsPage;
pub use server::{ServerSettings, workers_for};
pub use tls::TlsFiles;
