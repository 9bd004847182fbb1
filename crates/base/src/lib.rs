//! What every other crate of Spillway stands on: identifiers, errors, codecs and checksums, the
//! write batch, the contract between the transaction manager and a table engine, the memory
//! budget, and the seams to the clock, to randomness, to threads and to atomics.
//!
//! Modules, in the order data flows through them:
//!
//! - [`ids`], [`range`]: names of things and half-open key ranges;
//! - [`codec`], [`checksum`]: bytes in and out, never trusting a length;
//! - [`batch`]: what one transaction writes, as bytes that go to the log;
//! - [`log_place`]: where they are there, for an engine that reads its rows from the log;
//! - [`engine`]: the contract a table engine keeps;
//! - [`budget`]: the one memory budget; [`stall`]: waits for it and for other things, and their
//!   causes;
//! - [`prefetch`]: memory that will be needed soon;
//! - [`sleepers`]: how a pool's threads sleep and are woken, here because its models are built
//!   without the crates above;
//! - [`clock`], [`rng`], [`thread`], [`lock`], [`sync`]: the seams a simulation takes over;
//!   in builds with debug assertions its deterministic scheduler, `scheduler`;
//! - [`error`]: what went wrong and what the caller can do next.

pub mod batch;
pub mod budget;
pub mod checksum;
pub mod clock;
pub mod codec;
pub mod engine;
pub mod error;
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

pub use error::{Error, ErrorKind, Result};
pub use ids::{Csn, EngineKind, EngineSet, TableId};
pub use log_place::LogPlace;
pub use range::{Direction, KeyRange};
