//! The base of all other crates of Spillway: identifiers, errors, codecs and checksums, the write
//! batch, the contract between the transaction manager and a table engine, the memory budget, and
//! the interfaces to the clock, to randomness, to threads and to atomics.
//!
//! The modules:
//!
//! - [`ids`], [`range`]: identifiers and half-open key ranges;
//! - [`codec`], [`checksum`]: decoders that trust no length, and CRC32C;
//! - [`batch`]: the writes of one transaction, as the bytes that the log stores;
//! - [`log_place`]: places of rows in the log, for an engine that reads its rows there;
//! - [`engine`]: the contract of a table engine; [`failure`]: the failure that ends its work;
//! - [`budget`]: the one memory budget; [`stall`]: waits of writers, for memory and for other
//!   things, and their causes;
//! - [`prefetch`]: prefetches of memory;
//! - [`sleepers`]: how a pool's threads sleep and are woken; it is in this crate because its loom
//!   models are built without the crates above;
//! - [`managed`]: the operations of a database on an engine besides transactions;
//! - [`clock`], [`rng`], [`thread`], [`lock`], [`sync`]: the interfaces that a simulation replaces;
//! - `scheduler`: the deterministic scheduler of simulations, in builds with debug assertions;
//! - [`error`]: what went wrong and what the caller can do next.

pub mod batch;
pub mod budget;
pub mod checksum;
pub mod clock;
pub mod codec;
pub mod engine;
pub mod error;
pub mod failure;
pub mod ids;
pub mod lock;
pub mod log_place;
pub mod managed;
#[cfg(loom)]
pub mod modelled;
pub mod prefetch;
pub mod range;
pub mod rng;
#[cfg(debug_assertions)]
pub mod scheduler;
pub mod sleepers;
pub mod stall;
pub mod sync;
pub mod thread;
pub mod wake_count;

pub use error::{Error, ErrorKind, Result};
pub use ids::{Csn, EngineKind, EngineSet, TableId};
pub use log_place::LogPlace;
pub use range::{Direction, KeyRange};
