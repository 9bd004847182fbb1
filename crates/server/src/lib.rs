//! The MySQL wire protocol over an [`spillway_sql::Instance`].
//!
//! In the order a client passes them:
//!
//! - `listener`: listening, and the graceful stop; `server`: what connections share, their limits and counters;
//! - `transport`: a client's bytes, plain or in TLS (`tls`); `packet`: packets of them, each response in one write;
//! - `capabilities`, `auth`, `login`: who the client is, and whether it can prove it; `guard`: how fast it may try;
//! - `pool`: the threads that serve clients, and what they do next; `vanished`: statements whose clients have gone; `affinity`: whether they keep to cores;
//! - `connection`: its commands; `escape`: statements that are no UTF-8; `params`: parameters of prepared statements;
//! - `results`, `columns`, `rows`: answers, straight from borrowed values; `codec`: numbers and bytes;
//! - `metrics`: the figures of all that, and `inspection`: what is stored, over `http`;
//! - `loopback`: a client within the process, to measure what is not the system's.
//!
//! A client costs memory and no thread: a few workers serve whoever has sent something, run each statement to its end, and
//! wait neither for clients nor for commits. How, and why, is said in `pool`.

mod affinity;
mod auth;
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
mod post;
mod results;
mod rows;
mod server;
mod tls;
mod transport;
mod vanished;

pub use affinity::Affinity;
pub use listener::Server;
pub use loopback::Loopback;
pub use metrics::MetricsPage;
pub use server::{ServerSettings, workers_for};
pub use tls::TlsFiles;
