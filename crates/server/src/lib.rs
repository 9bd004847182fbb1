//! The MySQL wire protocol over an [`spillway_sql::Instance`].
//!
//! Modules, from the arrival of a client to its results, and then those beside this path:
//!
//! - `listener`: listening and graceful shutdown; `accept`: handling of clients that cannot be
//!   accepted; `admission`: how many connections there may be; `server`: counters and settings that
//!   connections share;
//! - `transport`: a client's bytes, plain or through TLS (`tls`); `packet`: splits these bytes into
//!   packets, and collects the packets of a response;
//! - `capabilities`, `auth`, `login`: the handshake and the proof of the password; `guard`: delays
//!   after failed logins;
//! - `pool`: the worker threads; `vanished`: ends statements whose clients have gone;
//! - `connection`: commands; `escape`: statements that are not UTF-8; `params`: parameters of
//!   prepared statements;
//! - `results`, `columns`, `rows`: answers, written from borrowed values; `codec`: numbers and
//!   bytes;
//! - `metrics`: counters, and `inspection`: contents of the storage, over `http`;
//! - `loopback`: a client within the process, for measurements without the system's network.
//!
//! A client costs memory but no thread. A few workers serve all clients that have sent something. A
//! worker runs a statement until it ends or must wait, and does not wait for clients or for
//! commits. `pool` explains how and why.

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
