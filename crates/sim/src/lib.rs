//! Simulation: the whole database, SQL included, over a disk that crashes.
//!
//! The library's own sweeps are with the library; here a client's statements go through a session, and what a client may
//! rely on is checked after every crash.

#[cfg(test)]
mod ddl_crashes;
#[cfg(test)]
mod sql_crashes;
